/* SPDX-License-Identifier: MIT */
/*
 * Every allocation of the service fails once: nobody crashes, nothing leaks (a sanitizer looks), and what was
 * there before is there afterwards.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "os/disk.h"
#include "service/persist/record_change.h"
#include "unit/failing_memory.h"
#include "unit/service/service_kit.h"

static const char yaml[] = "memory: 16MiB\n"
                           "policies:\n"
                           "  - name: api\n"
                           "    limits: [10/s burst=1000, 1M/h name=hour]\n"
                           "    candidate: [5/s]\n"
                           "    overrides:\n"
                           "      - {key: own, limits: [20/s burst=1 name=mine]}\n"
                           "      - {key: \"int:*\", limits: [30/s], reason: because}\n"
                           "  - {name: org, limits: [10/s burst=1]}\n";

static void complain(void *arg, const struct config_complaint *complaint)
{
    (void)arg;
    char text[COMPLAINT_TEXT_MAX];
    printf("# %s\n", weir_complaint_text(complaint, true, text));
}

TEST(a_service_that_cannot_be_made_says_so)
{
    struct config *config = weir_config_parse("weir.yaml", yaml, sizeof yaml - 1, complain, NULL);
    struct service_options options = {.workers = 2, .test_clock = true};
    int failed = 0;
    if (!CHECK(config))
        return;
    for (int allocation = 0;; allocation++) {
        struct weir_error err = {0};
        allocations_left = allocation;
        struct service *service = weir_service_new(config, &options, &err);
        bool all_went = allocations_left >= 0;
        allocations_left = -1;
        if (!service) {
            failed++;
            CHECK(err.code != 0 && err.text[0] != '\0');
        }
        weir_service_free(service);
        if (all_went) {
            CHECK(service != NULL);
            break;
        }
    }
    CHECK(failed > 30);
    weir_config_free(config);
}

/* ---- with a store ---- */

static int remove_file(void *arg, const char *name, uint64_t bytes)
{
    const int *dir = arg;
    (void)bytes;
    return weir_disk.remove(&weir_disk, *dir, name);
}

static void remove_all(const char *path)
{
    int dir;
    if (weir_disk.open_dir(&weir_disk, path, false, &dir) != 0)
        return;
    (void)weir_disk.list(&weir_disk, dir, remove_file, &dir);
    weir_disk.close_dir(&weir_disk, dir);
    (void)rmdir(path);
}

static int64_t left_of(struct service *service, const char *line)
{
    struct kit kit = {.service = service, .worker = &service->workers[0]};
    weir_session_begin(&kit.session, service, "127.0.0.1:50000", "127.0.0.1:9049", weir_now());
    int64_t left = kit_field(kit_ask(&kit, line), "remaining");
    CHECK(weir_persist_wait(service));
    kit_leave(&kit);
    return left;
}

/* Each allocation in turn, later ones with gaps: the disk is a real one. */
static int start_without(const struct config *config, const struct service_options *options)
{
    int failed = 0;
    bool all_went = false;
    for (int allocation = 0; !all_went; allocation += 1 + allocation / 24) {
        struct weir_error err = {0};
        allocations_left = allocation;
        struct service *service = weir_service_new(config, options, &err);
        all_went = allocations_left >= 0;
        allocations_left = -1;
        CHECK(service || (err.code != 0 && err.text[0] != '\0'));
        failed += !service;
        weir_service_free(service);
    }
    return failed;
}

TEST(a_start_from_a_store_without_memory_loses_nothing)
{
    char path[] = "memory-XXXXXX";
    struct weir_error err = {0};
    struct config *config = weir_config_parse("weir.yaml", yaml, sizeof yaml - 1, complain, NULL);
    struct service_options options = {.workers = 2, .test_clock = true, .store_manual = true};
    if (!CHECK(config && mkdtemp(path)))
        return;
    free(config->data);
    config->data = strdup(path);
    config->fsync = STORE_NEVER;
    struct service *service = weir_service_new(config, &options, &err);
    if (!CHECK(service))
        return;
    CHECK_EQ(left_of(service, "WEIR.TAKE api user 4"), 996);
    weir_service_free(service);
    CHECK(start_without(config, &options) > 20);
    service = weir_service_new(config, &options, &err);
    CHECK(service && left_of(service, "WEIR.PEEK api user") == 996);
    weir_service_free(service);
    weir_config_free(config);
    remove_all(path);
}

/* The answer is whole, or the client is told that it is no use. */
static bool is_sound(const struct kit *kit, const char *reply)
{
    size_t len = strlen(reply);
    return kit->state == RUN_CLOSE || kit->state == RUN_PENDING || len == 0 ||
           (len >= 3 && strcmp(reply + len - 2, "\r\n") == 0);
}

static void check_line(const char *line)
{
    for (int allocation = 0; allocation < 200; allocation++) {
        struct kit kit;
        if (!CHECK(kit_open(&kit, yaml)))
            return;
        (void)kit_ask(&kit, "WEIR.TAKE org o");
        (void)kit_ask(&kit, "WEIR.TAKE api own");
        weir_buffer_free(&kit.out);
        allocations_left = allocation;
        const char *reply = kit_ask(&kit, line);
        bool all_went = allocations_left >= 0;
        allocations_left = -1;
        if (!CHECK(is_sound(&kit, reply)))
            printf("# %s, allocation %d: \"%s\"\n", line, allocation, reply);
        if (kit.state == RUN_PENDING) {
            kit_clock(&kit, 1000);
            CHECK_EQ(kit_field(kit_resume(&kit), "allowed"), 1);
        }
        CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK api other"), "allowed"), 1);
        kit_close(&kit);
        if (all_went)
            return;
    }
    CHECK(false); /* no request needs so many */
}

TEST(a_request_without_memory_harms_nobody)
{
    check_line("WEIR.TAKE api a AND org b ID x");
    check_line("WEIR.TAKE api own");
    check_line("WEIR.ACQUIRE org o");
    check_line("WEIR.ACQUIRE api own");
    check_line("WEIR.CHARGE api a 5 ID x");
    check_line("WEIR.EXPLAIN api own JSON");
    check_line("WEIR.EXPLAIN api int:1");
    check_line("WEIR.TOP api");
    check_line("WEIR.POLICY SET new \"10/s, 5/m\"");
    check_line("WEIR.POLICY MODE api shadow");
    check_line("NOSUCH command");
}
