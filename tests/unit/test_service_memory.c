/* SPDX-License-Identifier: MIT */
/*
 * Every allocation of the service fails once: nobody crashes, nothing leaks (a sanitizer looks), and what was
 * there before is there afterwards.
 */
#include "check.h"
#include "unit/failing_memory.h"
#include "unit/service_kit.h"

static const char yaml[] = "memory: 16MiB\n"
                           "policies:\n"
                           "  - name: api\n"
                           "    limits: [10/s burst=1000, 1M/h name=hour]\n"
                           "    candidate: [5/s]\n"
                           "    overrides:\n"
                           "      - {key: own, limits: [20/s burst=1 name=mine]}\n"
                           "      - {key: \"int:*\", limits: [30/s], reason: because}\n"
                           "  - {name: org, limits: [10/s burst=1]}\n";

static void complain(void *arg, const char *file, struct place place, const char *message)
{
    (void)arg;
    printf("# %s:%d:%d: %s\n", file, place.line, place.column, message);
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

/* The answer is whole, or the client is told that it is no use. */
static bool is_sound(const struct kit *kit, const char *reply)
{
    size_t len = strlen(reply);
    return kit->state == RUN_CLOSE || kit->state == RUN_WAITS || len == 0 ||
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
        if (kit.state == RUN_WAITS) {
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
