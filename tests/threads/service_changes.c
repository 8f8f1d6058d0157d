/* SPDX-License-Identifier: MIT */
/*
 * Workers take while the limits change under them, from one kind to another and back, live and by overrides,
 * while tables grow and ticks pass. The clock stands still, so what is admitted for a key in all can be
 * counted: never more than the burst, whatever kind of limits was in force.
 */
#include <stdatomic.h>

#include "check.h"
#include "service/policies/change.h"
#include "service/policies/growth.h"
#include "threads/team.h"
#include "unit/service/service_kit.h"

#define WORKERS 4
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

/* One key that all want, one with limits of its own, and always new ones, so that the table has to grow. */
static void body(size_t self, void *arg)
{
    struct scene *scene = arg;
    char line[64];
    int64_t asked = 0;
    for (; asked < scene->asks || !atomic_load(&scene->stop); asked++) {
        const char *reply = kit_ask(&scene->clients[self], "WEIR.TAKE api one");
        scene->admitted[self] += kit_field(reply, "allowed") == 1;
        scene->errors[self] += reply[0] == '-';
        (void)snprintf(line, sizeof line, "WEIR.TAKE api %zu:%lld", self, (long long)asked);
        scene->errors[self] += kit_ask(&scene->clients[self], line)[0] == '-';
        scene->errors[self] += kit_ask(&scene->clients[self], "WEIR.TAKE api own")[0] == '-';
        scene->errors[self] += kit_ask(&scene->clients[self], "WEIR.TAKE api in:1")[0] == '-';
    }
}

/* The first kind has counted all the time, as the main table or as the older one: so it is the judge. */
static void change(struct scene *scene, int round)
{
    static const char *const limits[] = {"500/h", "600/h algo=fixed-window", "500/h", "400/h",
                                         "500/h", "700/h algo=fixed-window"};
    struct service *service = scene->kit.service;
    struct weir_error err;
    CHECK(weir_change_policy(service, word("api"), limits[round % 6], false, &err));
    CHECK(weir_change_override(service, word("api"), word("own"), round % 2 ? "3/h" : "5/h algo=fixed-window",
                               0, word("test"), &err));
    CHECK(weir_change_override(service, word("api"), word("in:*"), round % 3 ? "unlimited" : "9/h", 0,
                               word(""), &err));
    weir_service_tick(service);
    if (round % 4 == 3) {
        CHECK(weir_change_unoverride(service, word("api"), word("own"), &err));
        CHECK(weir_change_unoverride(service, word("api"), word("in:*"), &err));
    }
}

TEST(no_key_gets_more_than_its_limit_however_that_changes)
{
    struct scene *scene = calloc(1, sizeof *scene);
    struct service_options options = {.workers = WORKERS, .test_clock = true};
    if (!CHECK(scene != NULL) ||
        !CHECK(kit_open_with(&scene->kit, "memory: 64MiB\npolicies: [{name: api, limits: 500/h, keys: 4096}]",
                             &options)))
        return;
    team_watch("limits that change");
    scene->asks = team_scaled(4000);
    for (uint32_t i = 0; i < WORKERS; i++)
        kit_join(&scene->clients[i], &scene->kit, i);
    struct team *team = team_start(WORKERS, body, scene);
    for (int round = 0; round < 24; round++)
        change(scene, round);
    atomic_store(&scene->stop, true);
    team_join(team);
    int64_t admitted = 0, errors = 0;
    for (int i = 0; i < WORKERS; i++) {
        admitted += scene->admitted[i];
        errors += scene->errors[i];
        kit_leave(&scene->clients[i]);
    }
    CHECK(admitted <= UNITS && admitted >= 100);
    CHECK_EQ(errors, 0);
    kit_close(&scene->kit);
    free(scene);
    team_watch_done();
}
