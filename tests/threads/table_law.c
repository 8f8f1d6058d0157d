/* SPDX-License-Identifier: MIT */
/*
 * Threads decide on the keys of a table while the clock moves, each with a reading of its own that is ahead
 * or behind, sometimes by far: keys come in, are forgotten, find no room and share what such keys share,
 * while limits change, the table is swept and grows. What was admitted of each key never breaks its law.
 *
 * WEIR_LAW_OPS says how many operations all threads of one round make together.
 */
#define _DEFAULT_SOURCE
#include "base/sat.h"
#include "threads/replay.h"
#include "threads/specs.h"
#include "threads/table_tools.h"

#define EPOCHS     16
#define THREADS    64
#define PROMISES   8 /* open ones that a thread keeps */
#define POLICIES   (4 * EPOCHS)
#define CHANGE_OPS 120
#define ASKS       3
#define SLIGHT_NS  INT64_C(3000)
#define FAR_NS     (50 * WEIR_MS)
#define HOT_NS     200000 /* a key is in demand for so long */

enum mix { TAKES_ONLY, EVERYTHING };

/* How many keys are used, and for how many the table is made. */
struct crowd_size {
    uint64_t keys, room;
};

static const struct crowd_size sizes[] = {{1, 10}, {3, 10}, {60, 12}, {2000, 200}};

struct thread_log {
    struct replay_log *keys; /* of each key */
    struct weir_reservation open[PROMISES];
    struct replay_event promised[PROMISES];
    uint64_t promised_key[PROMISES];
    size_t open_count;
    int64_t taken[4]; /* and not given back; of the first keys */
};

/* A change belongs to nobody until it is done: `begun` counts before, `done` after it. */
struct key_life {
    atomic_uint begun, done;
    bool is_own; /* has limits of its own */
    struct replay_epoch epochs[EPOCHS];
};

struct world {
    struct weir_table *table;
    const struct specs *specs;
    struct crowd_size size;
    enum mix mix;
    int64_t skew_ns;
    size_t threads;
    int64_t ops; /* of each thread */
    uint64_t stream;
    atomic_llong clock;
    struct thread_log logs[THREADS];
    struct key_life *lives; /* of each key */
    struct weir_policy *policies[POLICIES];
    size_t policy_count, limits; /* the table's are policies[limits] */
};

static const struct specs more_specs[] = {
    {"three limits",
     "200k/s burst=40, 30/200us algo=sliding-log, 60/500us algo=fixed-window",
     {"400k/s burst=20, 50/200us algo=sliding-log, 60/300us algo=fixed-window",
      "100k/s burst=60, 40/300us algo=sliding-log, 90/500us algo=fixed-window"},
     false},
};

enum { ALL_SPECS = SPECS + sizeof more_specs / sizeof more_specs[0] };

static const struct specs *specs_at(size_t i)
{
    return i < SPECS ? &all_specs[i] : &more_specs[i - SPECS];
}

/* ---- readings, and when something counts ---- */

struct self {
    struct world *w;
    struct thread_log *log;
    struct rng rng;
    size_t self;
};

static int64_t clock_of(struct world *w)
{
    return atomic_load(&w->clock);
}

/* Now and then the thread sleeps over it, while others go on. */
static int64_t reading(struct self *s)
{
    struct world *w = s->w;
    int64_t own = (int64_t)(s->self * 7919) % (2 * w->skew_ns) - w->skew_ns;
    int64_t now = clock_of(w) + (own + rng_between(&s->rng, -w->skew_ns, w->skew_ns)) / 2;
    if (rng_between(&s->rng, 0, 31) == 0)
        for (int64_t i = rng_between(&s->rng, 1, 5); i > 0; i--)
            team_yield();
    return now;
}

/* Words take every reading as it is, but for a key that was forgotten: that begins at the floor. The others
 * go by the latest that they have seen, which may be any up to the one that is furthest ahead. */
static int64_t latest_reading(struct world *w, int64_t time)
{
    if (w->specs->is_word && w->mix == TAKES_ONLY)
        return max64(time, (int64_t)atom_load(&w->table->region->header->floor, memory_order_seq_cst));
    return max64(time, clock_of(w) + w->skew_ns);
}

static uint32_t epoch_before(struct world *w, uint64_t key)
{
    return atomic_load(&w->lives[key].done);
}

static struct replay_event event_at(struct world *w, uint64_t key, const char *what, int64_t time, int64_t n,
                                    uint32_t epoch)
{
    return (struct replay_event){time,  latest_reading(w, time),           n,
                                 epoch, atomic_load(&w->lives[key].begun), what};
}

/* Now this key is in demand, now that one: so a key may use up what it shares with others, find room, and
 * have to know of it. */
static uint64_t pick_key(struct self *s)
{
    uint64_t keys = s->w->size.keys, hot = (uint64_t)clock_of(s->w) / HOT_NS * 7919 % keys;
    bool is_hot = rng_between(&s->rng, 0, 2) > 0;
    return keys > 3 && is_hot ? hot : (uint64_t)rng_between(&s->rng, 0, (int64_t)keys - 1);
}

/* ---- what a thread does ---- */

static void note_taken(struct self *s, uint64_t key, int64_t n)
{
    if (key < sizeof s->log->taken / sizeof s->log->taken[0])
        s->log->taken[key] += n;
}

static void do_take(struct self *s, int64_t n)
{
    uint64_t key = pick_key(s);
    uint32_t epoch = epoch_before(s->w, key);
    int64_t now = reading(s);
    struct weir_verdict v;
    if (!take(s->w->table, key, now, n, rng_between(&s->rng, 0, 1) ? &v : NULL))
        return;
    replay_add(&s->log->keys[key], event_at(s->w, key, "take", now, n, epoch));
    note_taken(s, key, n);
}

/* Several keys at once, each for itself or all of them. */
static void do_take_several(struct self *s, bool all)
{
    struct weir_ask asks[ASKS];
    uint64_t keys[ASKS];
    uint32_t epochs[ASKS];
    for (size_t i = 0; i < ASKS; i++) {
        keys[i] = pick_key(s);
        epochs[i] = epoch_before(s->w, keys[i]);
        asks[i] = ask_for(s->w->table, &keys[i], rng_between(&s->rng, 1, 2));
    }
    int64_t now = reading(s);
    if (all)
        (void)weir_take_all_at(asks, ASKS, now);
    else
        (void)weir_take_each_at(asks, ASKS, now);
    for (size_t i = 0; i < ASKS; i++) {
        for (size_t j = i + 1; all && j < ASKS; j++) /* one question for the units of both */
            if (keys[j] == keys[i]) {
                asks[i].n += asks[j].n;
                asks[j].n = 0;
            }
        if (asks[i].verdict.allowed && asks[i].n > 0)
            replay_add(&s->log->keys[keys[i]],
                       event_at(s->w, keys[i], all ? "take all" : "take each", now, asks[i].n, epochs[i]));
    }
}

static void do_reserve(struct self *s, int64_t n)
{
    size_t at = s->log->open_count;
    if (at == PROMISES)
        return;
    uint64_t key = pick_key(s);
    uint32_t epoch = epoch_before(s->w, key);
    int64_t now = reading(s), timeout = rng_between(&s->rng, 0, 300000);
    struct weir_reservation *r = &s->log->open[at];
    if (!weir_table_reserve_at(s->w->table, now, &key, sizeof key, n, timeout, r, NULL))
        return;
    s->log->promised[at] = event_at(s->w, key, "reserve", r->due_ns, n, epoch);
    s->log->promised_key[at] = key;
    s->log->open_count++;
}

/* The promise at `i` is kept, or was handed back in time and never counts. */
static void close_promise(struct self *s, size_t i, bool cancel)
{
    struct thread_log *log = s->log;
    uint64_t key = log->promised_key[i];
    if (!cancel || !weir_table_cancel_at(s->w->table, reading(s), &key, sizeof key, &log->open[i]))
        replay_add(&log->keys[key], log->promised[i]);
    size_t last = --log->open_count;
    log->open[i] = log->open[last];
    log->promised[i] = log->promised[last];
    log->promised_key[i] = log->promised_key[last];
}

static void do_cancel(struct self *s)
{
    if (s->log->open_count > 0)
        close_promise(s, (size_t)rng_between(&s->rng, 0, (int64_t)s->log->open_count - 1),
                      rng_between(&s->rng, 0, 3) > 0);
}

static void do_give(struct self *s, int64_t n)
{
    uint64_t key =
        (uint64_t)rng_between(&s->rng, 0, (int64_t)(s->w->size.keys < 4 ? s->w->size.keys : 4) - 1);
    if (s->log->taken[key] < n)
        return;
    uint32_t epoch = epoch_before(s->w, key);
    int64_t now = reading(s);
    weir_table_give_at(s->w->table, now, &key, sizeof key, n);
    struct replay_event event = event_at(s->w, key, "give", now, -n, epoch);
    event.low = now - 2 * s->w->skew_ns; /* who is behind takes it before the giver's time has come */
    replay_add(&s->log->keys[key], event);
    s->log->taken[key] -= n;
}

static void do_charge(struct self *s, int64_t n)
{
    uint64_t key = pick_key(s);
    (void)weir_table_charge_at(s->w->table, reading(s), &key, sizeof key, n);
}

/* ---- changes, by thread 0 alone ---- */

static size_t policy_of(struct world *w, const char *limits)
{
    w->policies[w->policy_count] = weir_policy_new(limits, NULL);
    return w->policy_count++;
}

/* What is owed follows the old rate until it is paid, and so does what others have spent by then. */
static int64_t owed_until(struct world *w, uint64_t key)
{
    struct weir_verdict v;
    (void)weir_table_peek_at(w->table, clock_of(w), &key, sizeof key, 1, &v);
    return clock_of(w) + (v.retry_after_ns == WEIR_FOREVER ? 0 : v.retry_after_ns) + WEIR_MS;
}

static bool has_epoch_left(const struct key_life *life)
{
    return atomic_load(&life->begun) + 1 < EPOCHS;
}

static void begin_epoch(struct world *w, uint64_t key, bool anew)
{
    struct key_life *life = &w->lives[key];
    uint32_t number = atomic_load(&life->begun) + 1;
    life->epochs[number] = (struct replay_epoch){.policy = life->epochs[number - 1].policy,
                                                 .from = clock_of(w) - w->skew_ns,
                                                 .until = INT64_MAX / 4,
                                                 .anew = anew};
    life->epochs[number - 1].until = owed_until(w, key);
    atomic_store(&life->begun, number);
}

/* `changed_at`: the reading by which it was done. */
static void end_epoch(struct world *w, uint64_t key, struct weir_policy *policy, int64_t changed_at)
{
    struct key_life *life = &w->lives[key];
    uint32_t number = atomic_load(&life->begun);
    life->epochs[number].policy = policy;
    life->epochs[number].behind_ns = max64(clock_of(w) + w->skew_ns - changed_at, 0);
    life->epochs[number - 1].until = max64(life->epochs[number - 1].until, owed_until(w, key)) + w->skew_ns;
    atomic_store(&life->done, number);
}

static const char *next_limits(struct self *s)
{
    int64_t which = rng_between(&s->rng, 0, 2);
    return which == 2 ? s->w->specs->limits : s->w->specs->changes[which];
}

/* Keys with limits of their own are left alone. */
static void do_set(struct self *s)
{
    struct world *w = s->w;
    const char *limits = next_limits(s);
    for (uint64_t key = 0; key < w->size.keys; key++)
        if (!has_epoch_left(&w->lives[key]))
            return;
    for (uint64_t key = 0; key < w->size.keys; key++)
        if (!w->lives[key].is_own)
            begin_epoch(w, key, false);
    int64_t now = reading(s);
    if (weir_table_set_at(w->table, now, limits, NULL))
        w->limits = policy_of(w, limits);
    for (uint64_t key = 0; key < w->size.keys; key++)
        if (!w->lives[key].is_own)
            end_epoch(w, key, w->policies[w->limits], now);
}

static void do_reset(struct self *s)
{
    struct world *w = s->w;
    uint64_t key = pick_key(s);
    if (!has_epoch_left(&w->lives[key]))
        return;
    begin_epoch(w, key, true);
    int64_t now = reading(s);
    weir_table_reset_at(w->table, now, &key, sizeof key);
    end_epoch(w, key, w->lives[key].epochs[atomic_load(&w->lives[key].begun)].policy, now);
}

/* Limits of its own for a key, or the table's again. */
static void do_override(struct self *s)
{
    struct world *w = s->w;
    uint64_t key = pick_key(s);
    struct key_life *life = &w->lives[key];
    const char *limits =
        life->is_own ? NULL : specs_at((size_t)rng_between(&s->rng, 0, ALL_SPECS - 1))->limits;
    if (!has_epoch_left(life) || w->policy_count + 1 >= POLICIES)
        return;
    begin_epoch(w, key, false);
    int64_t now = reading(s);
    struct weir_policy *policy = life->epochs[atomic_load(&life->begun)].policy;
    if (weir_table_override_at(w->table, now, &key, sizeof key, limits, NULL)) {
        policy = w->policies[limits ? policy_of(w, limits) : w->limits];
        life->is_own = limits != NULL;
    }
    end_epoch(w, key, policy, now);
}

static void change_something(struct self *s, int64_t op)
{
    int64_t way = rng_between(&s->rng, 0, 9);
    if (way < 4 && s->w->policy_count + 1 < POLICIES)
        do_set(s);
    else if (way < 6)
        do_reset(s);
    else if (way < 9)
        do_override(s);
    else
        (void)weir_table_grow(s->w->table, s->w->size.room + (size_t)op / 50, NULL);
}

static void do_anything(struct self *s, int64_t op)
{
    int64_t way = rng_between(&s->rng, 0, 99);
    int64_t n = rng_between(&s->rng, 0, 3) ? 1 : rng_between(&s->rng, 1, 4);
    if (way >= 97)
        (void)weir_table_sweep_at(s->w->table, reading(s), (size_t)rng_between(&s->rng, 1, 100));
    else if (s->w->mix == TAKES_ONLY && way < 20)
        do_take_several(s, way < 10);
    else if (s->w->mix == TAKES_ONLY)
        do_take(s, n);
    else if (s->self == 0 && op % CHANGE_OPS == CHANGE_OPS - 1)
        change_something(s, op);
    else if (way < 40)
        do_take(s, n);
    else if (way < 55)
        do_reserve(s, n);
    else if (way < 68)
        do_cancel(s);
    else if (way < 76)
        do_give(s, n);
    else if (way < 78)
        do_charge(s, n);
    else
        do_take_several(s, way < 88);
}

/* Then the clock is slow, so that more keys are busy at the same time than fit. */
static bool is_crowded(const struct world *w)
{
    return w->size.keys > w->size.room;
}

static void body(size_t self, void *arg)
{
    struct world *w = arg;
    struct self s = {.w = w, .log = &w->logs[self], .rng = rng_new(w->stream * 1000 + self), .self = self};
    for (int64_t op = 0; op < w->ops; op++) {
        do_anything(&s, op);
        if (rng_between(&s.rng, 0, 3) == 0)
            atomic_fetch_add(&w->clock, rng_between(&s.rng, 0, is_crowded(w) ? 3000 : 16000));
        if (rng_between(&s.rng, 0, is_crowded(w) ? 999 : 199) == 0) /* a rest: all may be forgotten */
            atomic_fetch_add(&w->clock, 2 * TABLE_GRACE_NS);
    }
    while (s.log->open_count > 0)
        close_promise(&s, 0, false);
}

/* ---- a round ---- */

static void *zeroed(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory)
        abort();
    return memory;
}

static void world_begin(struct world *w, size_t key_max)
{
    struct weir_table_options options = {.keys = w->size.room, .key_max = key_max, .overrides = 8};
    w->table = table_open(NULL, w->specs->limits, options);
    w->clock = START;
    w->lives = zeroed(w->size.keys, sizeof *w->lives);
    w->limits = policy_of(w, w->specs->limits);
    for (uint64_t key = 0; key < w->size.keys; key++)
        w->lives[key].epochs[0] =
            (struct replay_epoch){.policy = w->policies[0], .until = INT64_MAX / 4, .anew = true};
    for (size_t i = 0; i < w->threads; i++)
        w->logs[i].keys = zeroed(w->size.keys, sizeof *w->logs[i].keys);
}

/* Gives how many units of the key were admitted. */
static size_t check_key(struct world *w, uint64_t key)
{
    struct replay_log all = {0};
    struct key_life *life = &w->lives[key];
    for (size_t i = 0; i < w->threads; i++) {
        replay_append(&all, &w->logs[i].keys[key]);
        replay_free(&w->logs[i].keys[key]);
    }
    size_t admitted = all.count;
    if (check.faults == 0 && !CHECK(replay_holds(&all, life->epochs, atomic_load(&life->begun) + 1)))
        printf("# key %" PRIu64 " of %" PRIu64 ", %s, %zu threads, %zu events, round %" PRIu64 "\n", key,
               w->size.keys, w->specs->name, w->threads, all.count, w->stream);
    if (w->size.keys < 10)
        CHECK(copies_of(w->table, key).live <= 1);
    replay_free(&all);
    return admitted;
}

/* What has happened, so that nobody takes silence for a success. */
struct totals {
    size_t admitted;
    uint64_t shared, inserted; /* takes of keys without room; keys that came in, or tried to */
};

static void world_end(struct world *w, struct totals *totals)
{
    struct region_header *header = w->table->region->header;
    totals->shared += atom_load(&header->shared, memory_order_relaxed);
    totals->inserted += atom_load(&header->number, memory_order_relaxed);
    for (uint64_t key = 0; key < w->size.keys; key++)
        totals->admitted += check_key(w, key);
    for (size_t i = 0; i < w->threads; i++)
        free(w->logs[i].keys);
    for (size_t i = 0; i < w->policy_count; i++)
        weir_policy_free(w->policies[i]);
    weir_table_free(w->table);
    free(w->lives);
}

static void run_round(const struct specs *specs, size_t threads, const struct crowd_size *size, enum mix mix,
                      int64_t skew_ns, size_t key_max, struct totals *totals)
{
    static uint64_t rounds;
    struct world *w = zeroed(1, sizeof *w);
    w->specs = specs;
    w->size = *size;
    w->mix = mix;
    w->skew_ns = skew_ns;
    w->threads = threads;
    w->stream = ++rounds;
    w->ops = max64(team_scaled(check_env("WEIR_LAW_OPS", 1400)) / (int64_t)threads, 10);
    if (is_crowded(w))
        w->ops *= 2;
    world_begin(w, key_max);
    team_run(threads, body, w);
    world_end(w, totals);
    free(w);
}

static void run_all(enum mix mix, int64_t skew_ns, size_t key_max)
{
    static const size_t teams[] = {2, 8, 64};
    team_watch("threads on a table under a moving clock");
    for (size_t i = 0; i < ALL_SPECS && check.faults == 0; i++) {
        struct totals totals = {0, 0, 0};
        for (size_t t = 0; t < sizeof teams / sizeof teams[0]; t++)
            for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
                if (teams[t] == THREADS && (i + k) % 2 == 0) /* they take long to begin */
                    continue;
                run_round(specs_at(i), teams[t], &sizes[k], mix, skew_ns, key_max, &totals);
            }
        CHECK(totals.admitted > 100);
        CHECK(totals.shared > 10);
        if (specs_at(i)->is_word)
            CHECK(totals.inserted > 50);
    }
    team_watch_done();
}

TEST(takes_of_each_key_keep_the_law_with_clocks_that_disagree)
{
    run_all(TAKES_ONLY, SLIGHT_NS, 0);
}

TEST(takes_of_each_key_keep_the_law_with_clocks_that_disagree_by_far)
{
    run_all(TAKES_ONLY, FAR_NS, 0);
}

TEST(every_verb_keeps_the_law_of_each_key_while_limits_change)
{
    run_all(EVERYTHING, SLIGHT_NS, 0);
}

TEST(every_verb_keeps_the_law_of_whole_keys)
{
    run_all(EVERYTHING, SLIGHT_NS, sizeof(uint64_t));
}
