/* SPDX-License-Identifier: MIT */
/*
 * Many clients reserve, commit and cancel at once, also the same reservation and the same request id. The
 * clock stands, so the model is a sum: what a key has spent is what its reservations hold, each of them
 * settled at most once. And a request id has one verdict, whoever asks.
 */
#include <stdatomic.h>

#include "check.h"
#include "service/engine/decide.h"
#include "table/verbs.h"
#include "threads/team.h"
#include "unit/service/service_kit.h"

#define THREADS  4
#define KEYS     3
#define SHELF    64  /* reservations that everybody may settle */
#define REQUESTS 200 /* request ids that everybody may use */
#define OVERRUN  3

static const char config[] = "memory: 128MiB\n"
                             "policies:\n"
                             "  - {name: one, limits: [15k/d]}\n"
                             "  - {name: two, limits: [15k/d, 500k/30d]}\n";
static const char *const policies[] = {"one", "two"};

/* What settles a reservation, and how much of each pair is used then. */
enum how { HOW_CANCEL, HOW_ALL, HOW_HALF, HOW_MORE, HOWS };

struct fact { /* of a reservation, by its number; written before it is put on the shelf */
    _Atomic int n;
    _Atomic int key, pairs, policy;
    _Atomic int settled; /* 0, or 1 + how */
};

struct scene {
    struct kit first;
    struct fact *facts;
    uint64_t most;
    int64_t rounds;
    _Atomic uint64_t shelf[SHELF];
    _Atomic int64_t verdicts[REQUESTS]; /* 0: none yet; -1: refused; else the number */
    _Atomic int64_t reserved, refused, settled, again, late, wrong;
};

static int64_t used_by(enum how how, int64_t n)
{
    return how == HOW_CANCEL ? 0 : how == HOW_ALL ? n : how == HOW_HALF ? n / 2 : n + OVERRUN;
}

static void count(_Atomic int64_t *counter)
{
    (void)atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static void complain(struct scene *scene, const char *line, const char *reply)
{
    if (atomic_fetch_add(&scene->wrong, 1) < 5)
        printf("# %s\n#   %s\n", line, reply);
}

/* ---- what a client does ---- */

static void note_fact(struct scene *scene, uint64_t number, int n, int key, int pairs, int policy)
{
    struct fact *fact = &scene->facts[number];
    atomic_store(&fact->key, key);
    atomic_store(&fact->pairs, pairs);
    atomic_store(&fact->policy, policy);
    atomic_store(&fact->n, n);
}

static void note_verdict(struct scene *scene, int64_t request, int64_t verdict, const char *line)
{
    int64_t before = 0;
    if (!atomic_compare_exchange_strong(&scene->verdicts[request], &before, verdict) && before != verdict)
        complain(scene, line, "another verdict than before");
}

static void reserve(struct scene *scene, struct kit *kit, struct rng *rng)
{
    char line[160];
    int64_t request = rng_between(rng, 0, 2) == 0 ? rng_between(rng, 0, REQUESTS - 1) : -1;
    struct rng fixed = {(uint64_t)request}, *dice = request < 0 ? rng : &fixed; /* an id, a question */
    int n = (int)rng_between(dice, 1, 200), key = (int)rng_between(dice, 0, KEYS - 1);
    int policy = (int)rng_between(dice, 0, 1), pairs = (int)rng_between(dice, 1, 2);
    int at = snprintf(line, sizeof line, "WEIR.RESERVE %s k%d %d", policies[policy], key, n);
    if (pairs == 2)
        at += snprintf(line + at, sizeof line - (size_t)at, " AND %s k%d %d", policies[1 - policy], key, n);
    if (request >= 0)
        (void)snprintf(line + at, sizeof line - (size_t)at, " ID r%d", (int)request);
    const char *reply = kit_ask(kit, line), *id = kit_text(reply, "id");
    uint64_t number = 0;
    if (kit_field(reply, "allowed") == 0) {
        count(&scene->refused);
        if (request >= 0 && strcmp(kit_text(reply, "reason"), "full") != 0)
            note_verdict(scene, request, -1, line);
    } else if (weir_ledger_number(id, strlen(id), &number) && (uint32_t)number < scene->most) {
        number = (uint32_t)number;
        count(&scene->reserved);
        note_fact(scene, number, n, key, pairs, policy);
        if (request >= 0)
            note_verdict(scene, request, (int64_t)number, line);
        atomic_store(&scene->shelf[rng_between(rng, 0, SHELF - 1)], number);
    } else {
        complain(scene, line, reply);
    }
}

static bool is_right(const struct fact *fact, enum how how, const char *reply)
{
    int64_t n = fact->n, used = used_by(how, n), pairs = fact->pairs;
    return (how == HOW_CANCEL || kit_field(reply, "charged") == pairs * used) &&
           kit_field(reply, "given_back") == (used < n ? pairs * (n - used) : 0);
}

static void settle(struct scene *scene, struct kit *kit, struct rng *rng)
{
    char line[160], id[LEDGER_TEXT_MAX];
    uint64_t number = atomic_load(&scene->shelf[rng_between(rng, 0, SHELF - 1)]);
    enum how how = (enum how)rng_between(rng, 0, HOWS - 1);
    if (number == 0)
        return;
    struct fact *fact = &scene->facts[number];
    int64_t used = used_by(how, fact->n);
    weir_ledger_text(kit->service->ledger.number >> 32 << 32 | number, id);
    int at = snprintf(line, sizeof line, "WEIR.%s %s", how == HOW_CANCEL ? "CANCEL" : "COMMIT", id);
    for (int i = 0; i < fact->pairs && how != HOW_CANCEL; i++)
        at += snprintf(line + at, sizeof line - (size_t)at, " %d", (int)used);
    const char *reply = kit_ask(kit, line);
    int before = 0;
    if (reply[0] == '-') {
        count(&scene->late);
        if (strncmp(reply, "-ERR no reservation", 19) != 0 && !strstr(reply, "was settled already"))
            complain(scene, line, reply);
    } else if (!is_right(fact, how, reply)) {
        complain(scene, line, reply);
    } else if (atomic_compare_exchange_strong(&fact->settled, &before, 1 + (int)how)) {
        count(&scene->settled);
    } else {
        count(&scene->again);
        if (before != 1 + (int)how)
            complain(scene, line, "settled twice");
    }
}

static void client(size_t self, void *arg)
{
    struct scene *scene = arg;
    struct kit kit;
    struct rng rng = {check.seed * 1000 + self + 1};
    kit_join(&kit, &scene->first, (uint32_t)self);
    for (int64_t i = 0; i < scene->rounds; i++) {
        if (rng_between(&rng, 0, 4) < 2)
            reserve(scene, &kit, &rng);
        else
            settle(scene, &kit, &rng);
    }
    kit_leave(&kit);
}

/* ---- the sum ---- */

static int64_t expected(const struct scene *scene, int policy, int key)
{
    int64_t sum = 0;
    for (uint64_t i = 1; i < scene->most; i++) {
        const struct fact *fact = &scene->facts[i];
        if (fact->n == 0 || fact->key != key || (fact->policy != policy && fact->pairs == 1))
            continue;
        sum += fact->settled ? used_by((enum how)(fact->settled - 1), fact->n) : fact->n;
    }
    return sum;
}

static void check_keys(const struct scene *scene)
{
    struct worker *worker = scene->first.worker;
    weir_read_begin(worker);
    for (int i = 0; i < 2; i++) {
        const struct slice name = {policies[i], strlen(policies[i])};
        struct weir_table *table = weir_snapshot_policy(worker->snapshot, name)->main->table;
        for (int key = 0; key < KEYS; key++) {
            struct weir_limit_state limits[2];
            char text[8];
            size_t len = (size_t)snprintf(text, sizeof text, "k%d", key);
            size_t limit_count = weir_table_explain_at(table, worker->now_ns, text, len, limits, 2);
            CHECK_EQ(limit_count, i + 1);
            for (size_t limit = 0; limit < limit_count; limit++)
                CHECK_EQ(limits[limit].used, expected(scene, i, key));
        }
    }
    weir_read_end(worker);
}

/* An id is remembered once, and one whose reservation found no room is not. */
static void check_requests(const struct scene *scene)
{
    struct records_stat stat;
    int64_t verdicts = 0;
    for (size_t i = 0; i < REQUESTS; i++)
        verdicts += scene->verdicts[i] != 0;
    weir_records_stat(scene->first.service->ledger.requests, &stat);
    CHECK_EQ(stat.used, verdicts);
    CHECK_EQ(stat.refused, 0);
}

TEST(units_are_conserved_each_is_settled_once_and_an_id_has_one_verdict)
{
    static struct scene scene;
    struct service_options options = {.workers = THREADS, .test_clock = true};
    scene.rounds = team_scaled(10000);
    scene.most = (uint64_t)scene.rounds * THREADS + 1;
    scene.facts = calloc(scene.most, sizeof *scene.facts);
    if (!CHECK(scene.facts && kit_open_with(&scene.first, config, &options)))
        return;
    team_watch("reservations");
    team_run(THREADS, client, &scene);
    team_watch_done();
    CHECK_EQ(scene.wrong, 0);
    printf("# %" PRId64 " reserved, %" PRId64 " refused, %" PRId64 " settled, %" PRId64 " again, %" PRId64
           " too late\n",
           scene.reserved, scene.refused, scene.settled, scene.again, scene.late);
    CHECK(scene.settled > 0 && scene.again > 0 && scene.late > 0 && scene.reserved > 0);
    check_keys(&scene);
    check_requests(&scene);
    kit_close(&scene.first);
    free(scene.facts);
}
