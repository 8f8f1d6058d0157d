/* SPDX-License-Identifier: MIT */
/*
 * Workers in their read sections, each with a client of its own, while another thread changes what is in
 * force. What a worker sees in a read section is whole and stays until the read section has ended: a
 * sanitizer would notice memory that was freed before.
 */
#include <stdatomic.h>

#include "check.h"
#include "service/policies/change.h"
#include "service/policies/growth.h"
#include "threads/team.h"
#include "unit/service/service_kit.h"

#define WORKERS 4

static struct slice slice(const char *text)
{
    return (struct slice){text, strlen(text)};
}

struct crew {
    struct kit kit;
    struct kit clients[WORKERS];
    int64_t asks;
    int64_t allowed[WORKERS], refused[WORKERS], errors[WORKERS], odd[WORKERS];
    atomic_int ended;
};

static bool open_crew(struct crew *crew, const char *yaml)
{
    struct service_options options = {.workers = WORKERS, .test_clock = true};
    memset(crew, 0, sizeof *crew);
    if (!CHECK(kit_open_with(&crew->kit, yaml, &options)))
        return false;
    for (uint32_t i = 0; i < WORKERS; i++)
        kit_join(&crew->clients[i], &crew->kit, i);
    return true;
}

static void close_crew(struct crew *crew)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        kit_leave(&crew->clients[i]);
    kit_close(&crew->kit);
}

static void note(struct crew *crew, size_t self, const char *reply)
{
    int64_t allowed = kit_field(reply, "allowed");
    if (reply[0] == '-')
        crew->errors[self]++;
    else if (allowed == 1)
        crew->allowed[self]++;
    else if (allowed == 0)
        crew->refused[self]++;
    else
        crew->odd[self]++;
}

static int64_t sum(const int64_t counts[WORKERS])
{
    int64_t all = 0;
    for (size_t i = 0; i < WORKERS; i++)
        all += counts[i];
    return all;
}

/* What clients were told is what workers and policies have counted. */
static void check_counts(struct crew *crew)
{
    int64_t commands = 0, allowed = 0, refused = 0, errors = 0;
    for (size_t i = 0; i < WORKERS; i++) {
        const struct worker *worker = &crew->kit.service->workers[i];
        commands += worker->commands;
        allowed += worker->allowed;
        refused += worker->refused;
        errors += worker->errors;
    }
    CHECK_EQ(sum(crew->odd), 0);
    CHECK_EQ(commands, WORKERS * crew->asks);
    CHECK_EQ(allowed, sum(crew->allowed));
    CHECK_EQ(refused, sum(crew->refused));
    CHECK_EQ(errors, sum(crew->errors));
    CHECK_EQ(commands, allowed + refused + errors);
}

/* ---- one key for all ---- */

static void take_one_key(size_t self, void *arg)
{
    struct crew *crew = arg;
    for (int64_t i = 0; i < crew->asks; i++)
        note(crew, self, kit_ask(&crew->clients[self], i % 50 == 7 ? "WEIR.TAKE ap k" : "WEIR.TAKE api k"));
}

static void check_one_key(const char *limits)
{
    static struct crew crew;
    char yaml[128];
    struct policy_sums counts;
    (void)snprintf(yaml, sizeof yaml, "policies:\n  - {name: api, limits: [%s]}\n", limits);
    if (!open_crew(&crew, yaml))
        return;
    crew.asks = team_scaled(4000);
    team_run(WORKERS, take_one_key, &crew);
    CHECK_EQ(sum(crew.allowed), 1000);
    check_counts(&crew);
    weir_counters_sum(atomic_load(&crew.kit.service->snapshot)->policies[0]->counters, &counts);
    CHECK_EQ(counts.allowed, 1000);
    CHECK_EQ(counts.units, 1000);
    CHECK_EQ(counts.refused, sum(crew.refused));
    close_crew(&crew);
}

TEST(many_workers_on_one_key_admit_exactly_its_burst)
{
    team_watch("one key");
    check_one_key("1000/h");
    check_one_key("1000/h, 2000/d");
    check_one_key("1000/h algo=fixed-window");
    team_watch_done();
}

/* ---- one verdict of one id ---- */

static void take_one_id(size_t self, void *arg)
{
    struct crew *crew = arg;
    char line[64];
    for (int64_t i = 0; i < crew->asks; i++) {
        (void)snprintf(line, sizeof line, "WEIR.TAKE api k ID %d", (int)i);
        note(crew, self, kit_ask(&crew->clients[self], line));
    }
}

TEST(an_id_has_one_verdict_whoever_asks)
{
    static struct crew crew;
    if (!open_crew(&crew, "policies:\n  - {name: api, limits: [100/h]}\n"))
        return;
    team_watch("ids");
    crew.asks = team_scaled(1000) < 200 ? 200 : team_scaled(1000);
    team_run(WORKERS, take_one_id, &crew);
    CHECK_EQ(sum(crew.allowed), WORKERS * 100); /* a hundred ids, each told to all */
    CHECK_EQ(sum(crew.refused), WORKERS * (crew.asks - 100));
    CHECK_EQ(kit_field(kit_ask(&crew.kit, "WEIR.PEEK api k"), "remaining"), 0);
    team_watch_done();
    close_crew(&crew);
}

/* ---- while everything changes ---- */

static void take_what_is_there(size_t self, void *arg)
{
    static const char *const lines[] = {
        "WEIR.TAKE api a",   "WEIR.TAKE come a",    "WEIR.TAKE api b AND org o", "WEIR.TAKE come a AND api c",
        "WEIR.TAKE api own", "WEIR.TAKE api int:1", "WEIR.TAKE api a ID x",      "WEIR.TAKE org o 2",
    };
    struct crew *crew = arg;
    struct rng rng = rng_new(self);
    for (int64_t i = 0; i < crew->asks; i++)
        note(crew, self, kit_ask(&crew->clients[self], lines[rng_between(&rng, 0, 7)]));
    atomic_fetch_add(&crew->ended, 1);
}

static bool change_something(struct service *service, int what, struct weir_error *err)
{
    switch (what) {
    case 0:
        return weir_change_policy(service, slice("come"), "10/s", false, err);
    case 1:
        return weir_change_policy(service, slice("come"), "10/s algo=fixed-window", false, err);
    case 2:
        return weir_change_remove(service, slice("come"), false, err);
    case 3:
        return weir_change_policy(service, slice("api"), "20/s, 30/m", false, err);
    case 4:
        return weir_change_policy(service, slice("api"), "40/s, 50/m", false, err);
    case 5:
        return weir_change_override(service, slice("api"), slice("own"), "5/s name=own", 0, slice("why"),
                                    err);
    case 6:
        return weir_change_override(service, slice("api"), slice("int:*"), "unlimited", 0, slice("why"), err);
    case 7:
        return weir_change_unoverride(service, slice("api"), slice("int:*"), err);
    case 8:
        return weir_change_mode(service, slice("*"), MODE_SHADOW, 100, WEIR_SEC, err);
    default:
        return weir_change_mode(service, slice("*"), MODE_ENFORCE, 100, 0, err);
    }
}

TEST(what_a_read_section_sees_stays_until_its_end)
{
    static struct crew crew;
    struct weir_error err;
    int64_t changes = 0;
    if (!open_crew(&crew,
                   "policies:\n  - {name: api, limits: [20/s, 30/m]}\n  - {name: org, limits: [5/s]}\n"))
        return;
    team_watch("changes");
    crew.asks = team_scaled(20000);
    struct team *team = team_start(WORKERS, take_what_is_there, &crew);
    while (atomic_load(&crew.ended) < WORKERS || changes < 10) {
        for (int what = 0; what < 10; what++)
            changes += change_something(crew.kit.service, what, &err);
        weir_service_tick(crew.kit.service);
    }
    team_join(team);
    team_watch_done();
    CHECK_EQ(sum(crew.odd), 0);
    check_counts(&crew);
    weir_service_tick(crew.kit.service);
    CHECK(crew.kit.service->retired == NULL);
    close_crew(&crew);
}

/* ---- promises ---- */

static void acquire_and_leave(size_t self, void *arg)
{
    struct crew *crew = arg;
    struct kit *client = &crew->clients[self];
    for (int64_t i = 0; i < crew->asks; i++) {
        const char *reply = kit_ask(client, "WEIR.ACQUIRE api k");
        if (client->state == RUN_PENDING) {
            kit_leave(client);
            kit_join(client, &crew->kit, (uint32_t)self);
            crew->refused[self]++;
        } else if (kit_field(reply, "allowed") == 1)
            crew->allowed[self]++;
        else
            crew->odd[self]++;
    }
}

TEST(who_leaves_while_he_waits_holds_nothing)
{
    static struct crew crew;
    if (!open_crew(&crew, "policies:\n  - {name: api, limits: [100/h]}\n"))
        return;
    team_watch("acquire");
    crew.asks = team_scaled(2000);
    team_run(WORKERS, acquire_and_leave, &crew);
    CHECK_EQ(sum(crew.allowed), 100);
    CHECK_EQ(sum(crew.odd), 0);
    for (size_t i = 0; i < WORKERS; i++)
        CHECK_EQ(crew.kit.service->workers[i].waiting, 0);
    team_watch_done();
    close_crew(&crew);
}
