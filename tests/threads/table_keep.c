/* SPDX-License-Identifier: MIT */
/*
 * Threads change the keys of a table, each captures what it has listed, and one makes images all the time.
 * Somebody stops the machine now and then: what comes back of the records so far is never less spent than
 * what had been answered. In the end, when all is quiet, the table comes back as it is.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "threads/team.h"
#include "unit/table/keep_kit.h"

enum { WORKERS = 4, KEYS = 12, RESETS = 4, BURST = 100000 }; /* the last keys are reset and forgotten */

struct play {
    struct weir_table *table;
    struct kept kept;
    pthread_mutex_t lock; /* around kept.records */
    _Atomic int64_t now;
    _Atomic int64_t taken[KEYS + 1]; /* answered */
    _Atomic int64_t given[KEYS + 1]; /* begun */
    _Atomic size_t running;
    int64_t rounds;
    uint64_t stream;
    _Atomic uint64_t stops;
};

static void append(struct play *play, struct buffer *out)
{
    (void)pthread_mutex_lock(&play->lock);
    kept_take_in(&play->kept, out);
    (void)pthread_mutex_unlock(&play->lock);
}

/* Captures and appends, as a store does before an answer. */
static void commit(struct play *play)
{
    struct buffer out = {0};
    const struct persist *persist = &play->kept.persist;
    for (uint32_t i = 0; weir_dirty && i < weir_dirty->count; i++)
        persist->kind->capture(persist, weir_dirty->items[i].slot, weir_dirty->items[i].hash, &out);
    if (weir_dirty)
        weir_dirty_clear(weir_dirty);
    append(play, &out);
}

static void work(struct play *play, struct rng *rng)
{
    int64_t answers[KEYS + 1] = {0}, now = play->now;
    for (int64_t i = rng_between(rng, 1, 5); i > 0; i--) {
        uint64_t key = (uint64_t)rng_between(rng, 1, KEYS);
        bool resets = key > KEYS - RESETS;
        int64_t what = rng_between(rng, 0, 9), n = rng_between(rng, 1, 3);
        if (what == 0 && resets)
            weir_table_reset_at(play->table, now, &key, sizeof key);
        else if (what == 1 && resets)
            (void)weir_table_sweep_at(play->table, now, 1000);
        else if (what <= 2) {
            play->given[key] += n;
            weir_table_give_at(play->table, now, &key, sizeof key, n);
        } else if (weir_table_take_at(play->table, now, &key, sizeof key, n, NULL))
            answers[key] += n;
        if (rng_between(rng, 0, 15) == 0)
            play->now += 2 * WEIR_MS;
    }
    commit(play);
    for (uint64_t key = 1; key <= KEYS; key++)
        play->taken[key] += answers[key];
}

static void image(struct play *play)
{
    const struct persist *persist = &play->kept.persist;
    uint64_t cursor = 0;
    bool more = true;
    while (more) {
        struct buffer out = {0};
        more = persist->kind->walk(persist, &cursor, &out, 400);
        append(play, &out);
    }
}

static int64_t spent(struct weir_table *table, int64_t now, uint64_t key)
{
    struct weir_verdict verdict;
    (void)weir_table_peek_at(table, now, &key, sizeof key, BURST + 1, &verdict);
    return BURST - verdict.remaining;
}

/* What was answered before is in the records of now, whatever was given back until then. */
static void stop(struct play *play)
{
    int64_t taken[KEYS + 1];
    for (uint64_t key = 1; key <= KEYS; key++)
        taken[key] = play->taken[key];
    (void)pthread_mutex_lock(&play->lock);
    struct weir_table *copy = kept_recover(&play->kept, 0, NULL, TABLE_EXACT, play->now);
    (void)pthread_mutex_unlock(&play->lock);
    for (uint64_t key = 1; copy && key <= KEYS - RESETS; key++)
        CHECK(spent(copy, play->now, key) >= taken[key] - play->given[key]);
    weir_table_free(copy);
    play->stops++;
}

static void body(size_t self, void *arg)
{
    struct play *play = arg;
    struct rng rng = rng_new(play->stream * 16 + self);
    if (self < WORKERS) {
        for (int64_t i = 0; i < play->rounds; i++)
            work(play, &rng);
        play->running--;
        return;
    }
    for (int i = 0; i < 400 && (play->running > 0 || i == 0); i++) {
        if (self == WORKERS)
            image(play);
        else if (i < 20)
            stop(play);
        team_yield();
    }
}

static void play_with(const char *limits, size_t key_max, uint64_t stream)
{
    static struct play play;
    play = (struct play){.lock = PTHREAD_MUTEX_INITIALIZER,
                         .now = START,
                         .running = WORKERS,
                         .rounds = team_scaled(4000),
                         .stream = stream};
    struct rng rng = rng_new(stream);
    weir_clock_set(START);
    play.table = kept_table(limits, (struct weir_table_options){.keys = 8, .key_max = key_max, .no_top = 1});
    kept_begin(&play.kept, play.table);
    CHECK(weir_table_grow(play.table, 100, NULL));
    kept_note(&play.kept, play.table);
    team_run(WORKERS + 2, body, &play);
    CHECK(play.stops > 0);
    int64_t now = play.now + 2 * TABLE_GRACE_NS;
    (void)weir_table_sweep_at(play.table, now, 1 << 20);
    kept_shuffle(&play.kept, &rng);
    struct weir_table *copy = kept_recover(&play.kept, 0, &rng, TABLE_EXACT, now);
    play.table->region->persist = NULL;
    for (uint64_t key = 1; copy && key <= KEYS; key++)
        CHECK_EQ(spent(copy, now, key), spent(play.table, now, key));
    if (copy)
        CHECK(answers_alike(play.table, copy, now, KEYS));
    printf("# %zu records, %" PRIu64 " stops\n", play.kept.count, (uint64_t)play.stops);
    kept_end(&play.kept);
    weir_table_free(play.table);
    weir_table_free(copy);
    weir_clock_set(-1);
}

TEST(words_are_never_less_spent_than_was_answered)
{
    for (uint64_t i = 0; i < 3; i++)
        play_with("1/h burst=100000", 0, i);
}

TEST(words_of_whole_keys_are_never_less_spent_than_was_answered)
{
    for (uint64_t i = 0; i < 3; i++)
        play_with("1/h burst=100000", 16, 20 + i);
}

TEST(wide_states_are_never_less_spent_than_was_answered)
{
    for (uint64_t i = 0; i < 3; i++)
        play_with("1/h burst=100000, 2/h burst=200000", 0, 10 + i);
}
