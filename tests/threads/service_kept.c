/* SPDX-License-Identifier: MIT */
/*
 * Workers take while policies come, change and go, on a store with threads of its own and a real disk. What a
 * worker has listed when a table goes must be appended by then; and what was admitted in one life is spent in
 * the next.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "os/disk.h"
#include "service/persist/record_change.h"
#include "service/policies/change.h"
#include "service/policies/growth.h"
#include "store/checkpoint.h"
#include "store/commit.h"
#include "threads/team.h"
#include "unit/service/service_kit.h"

#define WORKERS 3
#define UNITS   500

struct scene {
    struct kit kit;
    struct kit clients[WORKERS];
    int64_t asks;
    int64_t admitted[WORKERS], errors[WORKERS];
    atomic_bool stop;
};

static struct slice word(const char *text)
{
    return (struct slice){text, strlen(text)};
}

/* A round of an I/O thread: a read section that lasts until what was changed is appended. */
static void ask_round(struct scene *scene, size_t self, int64_t asked)
{
    struct kit *client = &scene->clients[self];
    char line[64];
    weir_read_begin(client->worker);
    client->worker->read_section_lasts = true;
    const char *reply = kit_ask(client, "WEIR.TAKE api one");
    scene->admitted[self] += kit_field(reply, "allowed") == 1;
    scene->errors[self] += reply[0] == '-';
    (void)snprintf(line, sizeof line, "WEIR.TAKE api %zu:%" PRId64, self, asked % 2000);
    scene->errors[self] += kit_ask(client, line)[0] == '-';
    scene->errors[self] += kit_ask(client, "WEIR.TAKE api own")[0] == '-';
    (void)kit_ask(client, "WEIR.TAKE come in:1"); /* may not be there */
    (void)kit_ask(client, "WEIR.RESERVE come one");
    (void)weir_store_commit(scene->kit.service->store);
    weir_read_end(client->worker);
}

static void body(size_t self, void *arg)
{
    struct scene *scene = arg;
    for (int64_t asked = 0; asked < scene->asks || !atomic_load(&scene->stop); asked++)
        ask_round(scene, self, asked);
}

static bool is_done(bool done, const struct weir_error *err)
{
    if (!done)
        printf("# %s\n", err->text);
    return done;
}

static void change(struct scene *scene, int round)
{
    static const char *const limits[] = {"500/h", "600/h algo=fixed-window", "500/h", "400/h"};
    struct service *service = scene->kit.service;
    struct weir_error err;
    CHECK(is_done(weir_change_policy(service, word("api"), limits[round % 4], false, &err), &err));
    CHECK(is_done(weir_change_policy(service, word("come"), "100/s", true, &err), &err));
    CHECK(is_done(weir_change_override(service, word("api"), word("own"),
                                       round % 2 ? "3/h" : "5/h algo=fixed-window", 0, word("test"), &err),
                  &err));
    CHECK(is_done(weir_change_override(service, word("come"), word("in:*"), "9/h", 0, word(""), &err), &err));
    weir_service_tick(service);
    CHECK(is_done(weir_change_remove(service, word("come"), round % 3 > 0, &err), &err));
    if (round % 6 == 5)
        CHECK(is_done(weir_store_image(service->store, &err), &err));
    if (round % 4 == 3)
        CHECK(is_done(weir_change_unoverride(service, word("api"), word("own"), &err), &err));
    CHECK(weir_persist_wait(service));
}

static bool open_scene(struct scene *scene, const char *path)
{
    char yaml[512];
    struct service_options options = {.workers = WORKERS, .test_clock = true};
    (void)snprintf(yaml, sizeof yaml,
                   "memory: 64MiB\ndata: \"%s\"\npolicies: [{name: api, limits: 500/h, keys: 4096}]", path);
    return kit_open_with(&scene->kit, yaml, &options);
}

static int remove_file(void *arg, const char *name, uint64_t bytes)
{
    const int *dir = arg;
    (void)bytes;
    return weir_disk.remove(&weir_disk, *dir, name);
}

static void remove_all(const char *path)
{
    char sub[300];
    int dir;
    static const char *const folders[] = {"/retired", "/backups", ""};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        (void)snprintf(sub, sizeof sub, "%s%s", path, folders[i]);
        if (weir_disk.open_dir(&weir_disk, sub, false, &dir) != 0)
            continue;
        (void)weir_disk.list(&weir_disk, dir, remove_file, &dir);
        weir_disk.close_dir(&weir_disk, dir);
        (void)rmdir(sub);
    }
}

static int64_t live(struct scene *scene)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        kit_join(&scene->clients[i], &scene->kit, i);
    struct team *team = team_start(WORKERS, body, scene);
    for (int round = 0; round < 12; round++)
        change(scene, round);
    atomic_store(&scene->stop, true);
    team_join(team);
    int64_t admitted = 0;
    for (int i = 0; i < WORKERS; i++) {
        admitted += scene->admitted[i];
        CHECK_EQ(scene->errors[i], 0);
        kit_leave(&scene->clients[i]);
    }
    return admitted;
}

TEST(what_was_admitted_is_spent_in_the_next_life_whatever_came_and_went)
{
    struct scene *scene = calloc(1, sizeof *scene);
    char path[] = "kept-XXXXXX";
    if (!CHECK(scene && mkdtemp(path)) || !CHECK(open_scene(scene, path)))
        return;
    team_watch("policies that come and go");
    scene->asks = team_scaled(1000);
    int64_t admitted = live(scene);
    CHECK(admitted <= UNITS && admitted >= 100);
    kit_close(&scene->kit);
    if (CHECK(open_scene(scene, path))) {
        int64_t left = kit_field(kit_ask(&scene->kit, "WEIR.PEEK api one"), "remaining");
        CHECK(left >= 0 && admitted + left <= UNITS);
        CHECK(strstr(kit_ask(&scene->kit, "INFO persistence"), "\r\nrecovered:clean\r\n"));
        CHECK(strstr(kit_ask(&scene->kit, "INFO persistence"), "\r\nretired_files:4\r\n"));
        kit_close(&scene->kit);
    }
    remove_all(path);
    free(scene);
    team_watch_done();
}
