/* SPDX-License-Identifier: MIT */
/*
 * Wide tables against the pure core: every key has a twin, a state of its own outside of the table, to which
 * the same operations are done. Answers, verdicts and words have to be the same; a key that is gone must have
 * been one that may be forgotten.
 */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/idle.h"
#include "table/overflow_filter.h"
#include "table/wide_slots.h"
#include "unit/table/wide_table.h"

struct promise {
    struct weir_reservation table, twin;
};

struct twins {
    struct weir_table *table;
    const char *limits;
    size_t count, words;
    int64_t *states; /* of each key, and of the overflow */
    struct promise *promises;
    bool overflows;            /* the shared state is in use */
    int64_t now, latest, pace; /* the longest time between two operations, most of the time */
    struct rng rng;
    long came, came_spent, shared, refused, promised;
};

static struct twins twins_new(const char *limits, const char *widest, size_t capacity, size_t count,
                              size_t key_max, uint64_t stream)
{
    struct twins twins = {.table = table_new(limits, widest, capacity, key_max), .limits = limits};
    twins.count = count;
    twins.words = twins.table->state_words;
    twins.states = calloc((count + 1) * twins.words, sizeof *twins.states);
    twins.promises = calloc(count, sizeof *twins.promises);
    twins.now = twins.latest = WEIR_SEC;
    twins.pace = 20 * WEIR_MS;
    twins.rng = rng_new(stream);
    for (size_t i = 0; i <= count; i++)
        weir_state_init(policy_of(twins.table), twins.states + i * twins.words, 0);
    return twins;
}

static void twins_free(struct twins *twins)
{
    table_free(twins->table);
    free(twins->states);
    free(twins->promises);
}

static bool is_idle(const struct twins *twins, const int64_t *state, int64_t now)
{
    return weir_state_idle_from(policy_of(twins->table), state) <= now - TABLE_GRACE_NS;
}

static int64_t *state_of(const struct twins *twins, size_t i)
{
    return twins->states + i * twins->words;
}

static size_t state_bytes(const struct twins *twins)
{
    return policy_of(twins->table)->words * sizeof(int64_t);
}

/* The state from which a key starts that is not in the table: who has taken from what is shared starts there.
 * That the notes are right is told by prop-table. Gives whether it does. */
static bool start(struct twins *twins, const struct key *key, int64_t *state, int64_t now)
{
    int64_t *overflow = state_of(twins, twins->count);
    twins->overflows = twins->overflows && !is_idle(twins, overflow, now);
    bool inherits = twins->overflows && weir_overflow_filter_has(twins->table, key->hash);
    if (inherits)
        memcpy(state, overflow, state_bytes(twins));
    else
        weir_state_init(policy_of(twins->table), state, now);
    return inherits;
}

static bool has_room(struct twins *twins, const struct key *key, int64_t now)
{
    struct locked_stripe locked;
    struct wide_ref place;
    if (!CHECK(weir_wide_enter(&locked, twins->table, table_stripe(twins->table, key->hash))))
        return false;
    bool room = weir_wide_room(&locked, key->hash, now, &place);
    weir_wide_leave(&locked);
    return room;
}

static bool same_promise(const struct weir_reservation *a, const struct weir_reservation *b)
{
    return a->n == b->n && a->wait_ns == b->wait_ns && a->due_ns == b->due_ns &&
           a->before_ns == b->before_ns && a->generation == b->generation && a->ticket == b->ticket;
}

static void compare(const struct twins *twins, const struct table_op *op, bool answer,
                    const struct table_op *twin, bool twin_answer, size_t key)
{
    bool same = answer == twin_answer && memcmp(op->verdict, twin->verdict, sizeof *op->verdict) == 0;
    if (op->verb == VERB_RESERVE && answer)
        same = same && same_promise(op->reservation, twin->reservation);
    if (op->verb == VERB_EXPLAIN)
        same = same && op->limit_count == twin->limit_count &&
               memcmp(op->limits, twin->limits, sizeof *op->limits * op->limit_count) == 0;
    if (!CHECK(same))
        printf("#   %s: key %zu, verb %d of %" PRId64 " at %" PRId64 "\n", twins->limits, key, (int)op->verb,
               op->n, op->now);
}

/* The operation to the key and to its twin. */
static void twins_do(struct twins *twins, size_t i, struct table_op *op)
{
    struct region_header *header = twins->table->region->header;
    struct weir_verdict verdicts[2] = {{0}, {0}};
    struct weir_limit_state limits[2][WEIR_LIMITS_MAX];
    char name[32];
    (void)snprintf(name, sizeof name, "key-%zu", i);
    struct key key = key_of(twins->table, name);
    struct wide_ref before = place_of(twins->table, &key);
    uint64_t shared = counter(&header->shared), refused = counter(&header->refused);
    int64_t floor = (int64_t)counter(&header->floor), *own = state_of(twins, i);
    int64_t *state = calloc(twins->words, sizeof *state);

    op->reservation = &twins->promises[i].table;
    op->verdict = &verdicts[0];
    op->limits = limits[0];
    op->limit_count = WEIR_LIMITS_MAX;
    struct table_op twin = *op;
    twin.reservation = &twins->promises[i].twin;
    twin.verdict = &verdicts[1];
    twin.limits = limits[1];

    twin.now = max64(op->now, floor);
    bool was_spent = false, shares = false;
    if (!before.slot) {
        CHECK(is_idle(twins, own, twins->latest)); /* nothing else is ever forgotten */
        was_spent = start(twins, &key, state, twin.now);
        weir_state_init(policy_of(twins->table), own, 0);
        shares = op->verb == VERB_PEEK && twins->overflows && !has_room(twins, &key, twin.now) &&
                 weir_state_peek(policy_of(twins->table), state, twin.now, op->n, NULL);
    }
    bool answer = twins->table->kind->run(twins->table, &key, op);
    struct wide_ref after = place_of(twins->table, &key);
    twins->promised += op->verb == VERB_RESERVE && answer && op->reservation->wait_ns > 0;

    if (counter(&header->refused) > refused) {
        CHECK(!answer && !after.slot && verdicts[0].reason == WEIR_FULL);
        twins->refused++;
        free(state);
        return;
    }
    int64_t *subject = before.slot ? own : state;
    if (counter(&header->shared) > shared) {
        CHECK(!before.slot && !after.slot);
        subject = state_of(twins, twins->count);
        if (!twins->overflows)
            weir_state_init(policy_of(twins->table), subject, twin.now);
        twins->overflows = true;
        twins->shared++;
    } else if (shares)
        subject = state_of(twins, twins->count);
    if (verdicts[0].reason == WEIR_SHARED) {
        CHECK(subject == state_of(twins, twins->count) || was_spent);
        verdicts[0].reason = WEIR_LATER;
    }
    bool none = !before.slot && !after.slot && subject == state;
    if (none && op->verb == VERB_CANCEL)
        CHECK(!answer);
    else
        compare(twins, op, answer, &twin, weir_table_op_run(policy_of(twins->table), subject, &twin), i);
    if (!before.slot && after.slot) {
        memcpy(own, state, state_bytes(twins));
        twins->came++;
        twins->came_spent += was_spent;
    }
    if (after.slot && after.slot->generation == (uint32_t)atomic_load(&twins->table->edition)->generation)
        CHECK(memcmp(wide_state(twins->table, after.slot), own, state_bytes(twins)) == 0);
    free(state);
}

/* Keys of which the table has to know. */
static uint64_t busy_keys(const struct twins *twins)
{
    uint64_t busy = 0;
    for (size_t i = 0; i < twins->count; i++)
        busy += !is_idle(twins, state_of(twins, i), twins->latest);
    return busy;
}

static int64_t next_time(struct twins *twins)
{
    int64_t kind = rng_between(&twins->rng, 0, 999);
    if (kind < 600)
        twins->now += rng_between(&twins->rng, 0, twins->pace);
    else if (kind < 650)
        twins->now = max64(WEIR_SEC, twins->now - rng_between(&twins->rng, 0, 3 * WEIR_MS));
    else if (kind > 996)
        twins->now += rng_between(&twins->rng, 0, 20 * WEIR_SEC);
    twins->latest = max64(twins->latest, twins->now);
    return twins->now;
}

static void twins_step(struct twins *twins)
{
    static const enum table_verb verbs[] = {VERB_TAKE,   VERB_TAKE,    VERB_TAKE,    VERB_TAKE,
                                            VERB_PEEK,   VERB_RESERVE, VERB_GIVE,    VERB_CHARGE,
                                            VERB_CANCEL, VERB_RESET,   VERB_EXPLAIN, VERB_RESERVE};
    size_t key = (size_t)rng_between(&twins->rng, 0, (int64_t)twins->count - 1);
    struct table_op op = {.verb = verbs[rng_between(&twins->rng, 0, COUNT(verbs) - 1)],
                          .now = next_time(twins)};
    op.n = rng_between(&twins->rng, 0, 9) == 0 ? rng_between(&twins->rng, 0, 30) : 1;
    op.timeout_ns = rng_between(&twins->rng, -1, 1) * rng_between(&twins->rng, 0, WEIR_SEC);
    twins_do(twins, key, &op);
    if (rng_between(&twins->rng, 0, 99) == 0) {
        uint64_t lines = lines_of(twins->table);
        uint64_t line = (uint64_t)rng_between(&twins->rng, 0, (int64_t)lines);
        (void)twins->table->kind->sweep(twins->table, twins->now, line, lines / 3, true);
    }
}

/* A live change of the table, and of all twins. */
static void twins_change(struct twins *twins, const char *limits)
{
    const struct weir_policy *from = policy_of(twins->table);
    bool *there = calloc(twins->count + 1, sizeof *there);
    int64_t *old = calloc(twins->words, sizeof *old);
    for (size_t i = 0; i < twins->count; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "key-%zu", i);
        struct key key = key_of(twins->table, name);
        there[i] = place_of(twins->table, &key).slot != NULL;
    }
    there[twins->count] = twins->overflows;
    table_change(twins->table, limits, twins->latest);
    for (size_t i = 0; i <= twins->count; i++) {
        memcpy(old, state_of(twins, i), from->words * sizeof *old);
        if (there[i])
            weir_state_change(from, old, policy_of(twins->table), state_of(twins, i), twins->latest);
        else
            weir_state_init(policy_of(twins->table), state_of(twins, i), 0);
    }
    twins->limits = limits;
    free(there);
    free(old);
}

/* ---- against the core ---- */

static const char *const every_limit[] = {
    "10/s burst=5",
    "7/s algo=interval",
    "10/s algo=leaky-bucket queue=5",
    "10/s algo=smooth",
    "10/s algo=warmup warmup=1s",
    "10/s algo=hybrid",
    "10/s algo=fixed-window",
    "10/s algo=fixed-window refused=count",
    "10/s algo=sliding-window",
    "10/s algo=sliding-log",
    "10/s algo=sliding-log refused=count",
    "80/s algo=sliding-log", /* too large to be copied */
    "10/s algo=step",
    "10/s algo=step refused=drain",
    "unlimited",
    "blocked",
    "10/s, 100/m, 1000/h",
    "10/s, 30/5s algo=sliding-log, 200/m algo=sliding-window timeout=1s",
    "10/s, 90/5s algo=sliding-log, unlimited",
};

TEST(a_key_is_a_state_of_its_own_for_every_algorithm)
{
    for (size_t i = 0; i < COUNT(every_limit); i++)
        for (size_t key_max = 0; key_max <= 16; key_max += 16) {
            struct twins twins = twins_new(every_limit[i], NULL, 8, 4, key_max, i);
            twins.pace = 4 * WEIR_MS;
            for (int step = 0; step < 12000; step++)
                twins_step(&twins);
            CHECK(weir_wide_check(twins.table));
            if (!strstr(every_limit[i], "blocked") && strcmp(every_limit[i], "unlimited") != 0)
                CHECK(twins.came > 4 && twins.promised > 0);
            CHECK_EQ(twins.shared + twins.refused, 0);
            twins_free(&twins);
        }
}

TEST(thousands_of_keys_come_and_go)
{
    static const char *const limits[] = {"100/s burst=3, 1000/m", "5/s algo=sliding-log"};
    for (size_t i = 0; i < COUNT(limits); i++) {
        struct twins twins = twins_new(limits[i], NULL, 2000, 2000, i * 12, 100 + i);
        CHECK(twins.table->region->header->shape.stripes > 2);
        for (int step = 0; step < 60000; step++)
            twins_step(&twins);
        CHECK(is_tight(twins.table));
        CHECK(twins.came > 3000);
        CHECK_EQ(twins.shared, 0);
        (void)sweep_all(twins.table, twins.latest + 3600 * WEIR_SEC);
        CHECK_EQ(keys_in(twins.table, twins.latest), 0);
        CHECK(is_tight(twins.table));
        twins_free(&twins);
    }
}

TEST(keys_without_room_share_one_state_and_start_from_it)
{
    static const char *const limits[] = {"20/m", "20/m, 10/30s algo=sliding-log", "70/m algo=sliding-log",
                                         "20/m algo=fixed-window refused=count"};
    for (size_t i = 0; i < COUNT(limits); i++) {
        struct twins twins = twins_new(limits[i], NULL, 8, 40, 8 * (i % 2), 200 + i);
        for (int step = 0; step < 30000; step++)
            twins_step(&twins);
        CHECK(is_tight(twins.table));
        CHECK(twins.shared > 200 && twins.came > 500 && twins.came_spent > 20);
        CHECK_EQ(keys_in(twins.table, twins.latest), busy_keys(&twins));
        twins_free(&twins);
    }
}

TEST(a_table_that_does_not_share_refuses_keys_without_room)
{
    struct twins twins = twins_new("20/s, 100/m", NULL, 8, 40, 0, 300);
    twins.table->refuse_when_full = true;
    for (int step = 0; step < 30000; step++) {
        size_t key = (size_t)rng_between(&twins.rng, 0, 39);
        struct table_op op = {.verb = step % 8 ? VERB_TAKE : VERB_CHARGE, .now = next_time(&twins), .n = 2};
        twins_do(&twins, key, &op);
    }
    CHECK(is_tight(twins.table));
    CHECK(twins.refused > 500 && twins.came > 12);
    twins_free(&twins);
}

TEST(a_table_that_has_grown_keeps_its_keys)
{
    struct twins twins = twins_new("20/m, 100/h", NULL, 8, 60, 16, 400);
    for (int step = 0; step < 20000; step++) {
        if (step == 5000 || step == 9000)
            CHECK(table_grow(twins.table, 20));
        twins_step(&twins);
    }
    CHECK(is_tight(twins.table));
    CHECK_EQ(counter(&twins.table->region->header->segments), 3);
    uint64_t first = twins.table->region->segments[0].lines, keys = 0;
    CHECK(twins.table->kind->count(twins.table, twins.latest, first, UINT64_MAX) > 0);
    for (uint64_t line = 0; line < lines_of(twins.table); line++)
        keys += twins.table->kind->count(twins.table, twins.latest, line, 1);
    CHECK_EQ(keys, busy_keys(&twins));
    CHECK_EQ(keys_in(twins.table, twins.latest), keys);
    CHECK(twins.shared > 0);
    twins_free(&twins);
}

TEST(a_live_change_converts_every_state_once)
{
    static const char *const limits[][2] = {
        {"10/s burst=5", "40/s burst=3"},
        {"10/s, 100/m", "5/s, 300/m"},
        {"20/s algo=sliding-log", "5/s algo=sliding-log"},
        {"90/s algo=sliding-log", "70/s algo=sliding-log"},
        {"10/s algo=fixed-window, 10/s algo=step", "30/m algo=fixed-window, 3/s algo=step"},
    };
    for (size_t i = 0; i < COUNT(limits); i++) {
        struct twins twins = twins_new(limits[i][0], limits[i][0], 30, 60, 0, 500 + i);
        for (int step = 1; step <= 20000; step++) {
            if (step % 1000 == 0)
                twins_change(&twins, limits[i][step / 1000 % 2]);
            if (step % 1000 == 300)
                CHECK_EQ(twins.table->kind->sweep(twins.table, twins.latest, 0, UINT64_MAX, false), 0);
            twins_step(&twins);
        }
        CHECK(is_tight(twins.table));
        CHECK(twins.came > 100);
        twins_free(&twins);
    }
}
