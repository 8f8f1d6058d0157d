/* SPDX-License-Identifier: MIT */
/*
 * Many clients of several workers at one key: exactly as many are allowed as the limit says, also while some
 * give back, and every request is counted once.
 */
#include "check.h"
#include "threads/team.h"
#include "unit/service/service_kit.h"

#define THREADS 4

struct scene {
    struct kit first;
    struct kit kits[THREADS];
    int64_t calls;
    const char *take;
    bool (*is_yes)(const char *reply);
    bool gives; /* after every third yes */
    int64_t allowed[THREADS], given[THREADS];
};

static bool is_token(const char *reply)
{
    return reply[0] == ':' && strcmp(reply, ":0\r\n") != 0;
}

static bool is_not_limited(const char *reply)
{
    return strncmp(reply, "*5\r\n:0\r\n", 8) == 0;
}

static void ask_on(size_t self, void *arg)
{
    struct scene *scene = arg;
    struct kit *kit = &scene->kits[self];
    for (int64_t i = 0; i < scene->calls; i++) {
        scene->allowed[self] += scene->is_yes(kit_ask(kit, scene->take));
        if (scene->gives && scene->allowed[self] / 3 > scene->given[self]) {
            (void)kit_ask(kit, "CL.THROTTLE k 299 1 60 -1");
            scene->given[self]++;
        }
    }
}

/* Gives how many were allowed and not given back; -1: there is no service. */
static int64_t crowd(struct scene *scene)
{
    struct service_options options = {.workers = THREADS, .test_clock = true};
    int64_t sum = 0, allowed = 0, refused = 0;
    scene->calls = team_scaled(3000);
    if (!CHECK(kit_open_with(&scene->first, NULL, &options)))
        return -1;
    for (uint32_t i = 0; i < THREADS; i++)
        kit_join(&scene->kits[i], &scene->first, i);
    team_watch("clients at one key");
    team_run(THREADS, ask_on, scene);
    team_watch_done();
    for (uint32_t i = 0; i < THREADS; i++) {
        const struct worker *worker = scene->kits[i].worker;
        const _Atomic int64_t *decided = worker->client_limits[PROTOCOL_RESP]; /* refused, allowed */
        sum += scene->allowed[i] - scene->given[i];
        allowed += atomic_load(&decided[1]);
        refused += atomic_load(&decided[0]);
        CHECK_EQ(atomic_load(&worker->errors), 0);
        CHECK_EQ(atomic_load(&decided[1]), scene->allowed[i]);
        kit_leave(&scene->kits[i]);
    }
    CHECK_EQ(allowed + refused, THREADS * scene->calls);
    kit_close(&scene->first);
    return sum;
}

TEST(exactly_the_tokens_of_a_bucket_are_allowed)
{
    struct scene scene = {.take = "RL.REDUCE k 300 60", .is_yes = is_token};
    CHECK_EQ(crowd(&scene), 300);
}

TEST(exactly_the_burst_of_cl_throttle_is_allowed)
{
    struct scene scene = {.take = "CL.THROTTLE k 299 1 60", .is_yes = is_not_limited};
    CHECK_EQ(crowd(&scene), 300);
}

TEST(what_is_given_back_is_allowed_once_more)
{
    struct scene scene = {.take = "CL.THROTTLE k 299 1 60", .is_yes = is_not_limited, .gives = true};
    CHECK_EQ(crowd(&scene), 300);
    CHECK(scene.given[0] + scene.given[1] + scene.given[2] + scene.given[3] > 0);
}
