/* SPDX-License-Identifier: MIT */
/*
 * weir bench table: what a decision about one of many keys costs, beside the least it could cost.
 *
 * For each number of keys, tables are made and filled; then every row is measured with 1 and 2 threads, in
 * rounds: each round runs each row once, so that a slow phase of the machine hits baseline and table alike.
 * Refilling is slow enough that no key can be forgotten while it is measured, and bursts are large enough
 * that nothing is refused, except where that is the point.
 */
#include "bench/table/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/args.h"

#define NEW_AT_ONCE 32
#define FILL_UNITS  1000000 /* taken from every key: it cannot be forgotten for 43 minutes */

const struct table_row table_rows[] = {
    {"bare exchange", STORE_BARE, ORDER_UNIFORM, .batch = 0},
    {"take", STORE_TABLE, ORDER_UNIFORM, .batch = 0},
    {"take_each of 8", STORE_TABLE, ORDER_UNIFORM, .batch = 8},
    {"take_each of 32", STORE_TABLE, ORDER_UNIFORM, .batch = 32},
    {"bare exchange", STORE_BARE, ORDER_ZIPF, .batch = 0},
    {"take", STORE_TABLE, ORDER_ZIPF, .batch = 0},
    {"take_each of 8", STORE_TABLE, ORDER_ZIPF, .batch = 8},
    {"take_each of 32", STORE_TABLE, ORDER_ZIPF, .batch = 32},
    {"take, new key", STORE_NEW, ORDER_UNIFORM, .batch = 0},
    {"take, verdict", STORE_TABLE, ORDER_UNIFORM, .with_verdict = true, .largest = true},
    {"take, refused", STORE_SPENT, ORDER_UNIFORM, .largest = true},
    {"take_each of 32, refused", STORE_SPENT, ORDER_UNIFORM, .batch = 32, .largest = true},
    {"take, no_top", STORE_NO_TOP, ORDER_UNIFORM, .largest = true},
    {"take, three limits", STORE_THREE, ORDER_UNIFORM, .largest = true},
    {"take_each of 32, three limits", STORE_THREE, ORDER_UNIFORM, .batch = 32, .largest = true},
};
const size_t table_row_count = sizeof table_rows / sizeof table_rows[0];
_Static_assert(sizeof table_rows / sizeof table_rows[0] <= TABLE_ROWS_MAX, "room in struct table_report");

/* ---- operations ---- */

struct table_bench;

/* What one thread works with, on cache lines of its own. */
struct table_thread {
    _Alignas(128) const struct table_row *row;
    struct table_bench *bed;
    struct weir_table *table; /* or what the baseline finds there */
    const struct table_walk *walk;
    size_t at; /* in the walk */
    struct weir_verdict *verdict, room;
    int64_t allowed;
    struct weir_ask asks[TABLE_BATCH_MAX];
};

/* Everything that is measured with one number of keys. */
struct table_bench {
    int64_t keys;
    bool largest;
    struct table_bare bare;
    struct weir_table *tables[TABLE_STORES];
    struct table_walk walks[TABLE_ORDERS];
    struct table_thread actors[TABLE_ROWS_MAX][TABLE_TEAMS];
    int64_t start, step;                  /* of the time of new keys */
    _Alignas(128) _Atomic int64_t newest; /* new keys so far */
};

/* A pointer that the compiler knows nothing about: it cannot inline what is called through it. */
#define HIDE(pointer) __asm__ volatile("" : "+r"(pointer))

static const struct table_key *next_table_key(struct table_thread *a)
{
    const struct table_key *key = &a->walk->keys[a->at];
    a->at = (a->at + 1) & (a->walk->count - 1);
    return key;
}

static void run_table_take(struct table_thread *a, int64_t count)
{
    bool (*take)(struct weir_table *, const void *, size_t, int64_t, struct weir_verdict *) =
        a->row->store == STORE_BARE ? table_bare_take : weir_table_take;
    int64_t allowed = 0;
    HIDE(take);
    for (int64_t i = 0; i < count; i++)
        allowed += take(a->table, next_table_key(a), TABLE_KEY_LEN, 1, a->verdict);
    a->allowed += allowed;
}

static void run_each(struct table_thread *a, int64_t count)
{
    size_t (*take_each)(struct weir_ask *, size_t) = weir_take_each;
    size_t batch = a->row->batch, allowed = 0;
    HIDE(take_each);
    for (int64_t i = 0; i < count; i += (int64_t)batch) {
        for (size_t j = 0; j < batch; j++)
            a->asks[j].key = next_table_key(a);
        allowed += take_each(a->asks, batch);
    }
    a->allowed += (int64_t)allowed;
}

/* Each key comes once. Its time moves on with every key, so that the keys before it can be forgotten by and
 * by. Threads draw keys together with their times, few at once: who is late finds the table full of keys that
 * are not to be forgotten yet. */
static void run_new(struct table_thread *a, int64_t count)
{
    bool (*take_at)(struct weir_table *, int64_t, const void *, size_t, int64_t, struct weir_verdict *) =
        weir_table_take_at;
    int64_t allowed = 0, number = 0, end = 0;
    HIDE(take_at);
    for (int64_t i = 0; i < count; i++, number++) {
        if (number == end) {
            number = atomic_fetch_add(&a->bed->newest, NEW_AT_ONCE);
            end = number + NEW_AT_ONCE;
        }
        struct table_key key = table_key_new((uint64_t)number);
        allowed +=
            take_at(a->table, a->bed->start + number * a->bed->step, &key, TABLE_KEY_LEN, 1, a->verdict);
    }
    a->allowed += allowed;
}

static void run_table_row(void *arg, int64_t count)
{
    struct table_thread *a = arg;
    if (a->row->store == STORE_NEW)
        run_new(a, count);
    else if (a->row->batch)
        run_each(a, count);
    else
        run_table_take(a, count);
}

/* ---- filling ---- */

static int64_t resident_bytes(void)
{
    long long pages = 0;
    char line[128] = "", *at = line;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fgets(line, sizeof line, file)) {
        (void)strtoll(line, &at, 10);
        pages = strtoll(at, NULL, 10);
    }
    if (file)
        fclose(file);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

/* Takes `n` units from each of so many keys from `first` on. */
static void fill_table_keys(struct table_bench *bed, struct weir_table *table, int64_t first, size_t count,
                            int64_t n, bool is_new)
{
    struct table_key keys[TABLE_BATCH_MAX];
    struct weir_ask asks[TABLE_BATCH_MAX];
    for (size_t i = 0; i < count; i++) {
        uint64_t number = (uint64_t)first + i;
        keys[i] = is_new ? table_key_new(number) : table_key_named(number);
        asks[i] = (struct weir_ask){.table = table, .key = &keys[i], .len = TABLE_KEY_LEN, .n = n};
    }
    if (is_new)
        (void)weir_take_each_at(asks, count, bed->start + first * bed->step);
    else
        (void)weir_take_each(asks, count);
}

static void fill_table(struct table_bench *bed, enum table_store store)
{
    bool is_new = store == STORE_NEW;
    int64_t keys = is_new ? 2 * bed->keys : bed->keys, n = is_new || store == STORE_SPENT ? 1 : FILL_UNITS;
    for (int64_t first = 0; first < keys; first += TABLE_BATCH_MAX) {
        int64_t left = keys - first;
        fill_table_keys(bed, bed->tables[store], first,
                        (size_t)(left < TABLE_BATCH_MAX ? left : TABLE_BATCH_MAX), n, is_new);
    }
    if (is_new)
        atomic_store(&bed->newest, keys);
}

static const char *store_limits(enum table_store store)
{
    static const char *const limits[TABLE_STORES] = {
        [STORE_TABLE] = TABLE_LIMITS,       [STORE_NEW] = TABLE_LIMITS_NEW,     [STORE_NO_TOP] = TABLE_LIMITS,
        [STORE_SPENT] = TABLE_LIMITS_SPENT, [STORE_THREE] = TABLE_LIMITS_THREE,
    };
    return limits[store];
}

/* false: it has said why. */
static bool make_table(struct table_bench *bed, enum table_store store, struct table_memory *memory)
{
    struct weir_table_options options = {.keys = (size_t)bed->keys, .no_top = store == STORE_NO_TOP};
    struct weir_error err;
    char text[80];
    snprintf(text, sizeof text, "%lld keys: filling a table of %s", (long long)bed->keys,
             store_limits(store));
    bench_progress(text);
    int64_t before = resident_bytes();
    bed->tables[store] = weir_table_make(NULL, store_limits(store), &options, &err);
    if (!bed->tables[store])
        return fprintf(stderr, "weir: %s\n", err.text), false;
    double began = bench_cpu_seconds();
    fill_table(bed, store);
    *memory = (struct table_memory){.keys = bed->keys,
                                    .resident = resident_bytes() - before,
                                    .fill_ns = (bench_cpu_seconds() - began) * 1e9 / (double)bed->keys};
    weir_table_stat(bed->tables[store], &memory->stat);
    return true;
}

/* ---- beds ---- */

static void prepare_table_thread(struct table_bench *bed, size_t row, size_t thread)
{
    struct table_thread *a = &bed->actors[row][thread];
    const struct table_row *r = &table_rows[row];
    *a = (struct table_thread){
        .row = r, .bed = bed, .table = bed->tables[r->store], .walk = &bed->walks[r->order]};
    if (r->store == STORE_BARE)
        a->table = (struct weir_table *)(void *)&bed->bare;
    a->at = thread * a->walk->count / TABLE_TEAMS;
    a->verdict = r->with_verdict ? &a->room : NULL;
    for (size_t i = 0; i < TABLE_BATCH_MAX; i++)
        a->asks[i] = (struct weir_ask){.table = a->table, .len = TABLE_KEY_LEN, .n = 1};
}

static void table_bench_free(struct table_bench *bed)
{
    if (!bed)
        return;
    for (size_t i = 0; i < TABLE_STORES; i++)
        weir_table_free(bed->tables[i]);
    for (size_t i = 0; i < TABLE_ORDERS; i++)
        table_walk_free(&bed->walks[i]);
    table_bare_free(&bed->bare);
    free(bed);
}

static bool table_bench_fill(struct table_bench *bed, struct table_report *report, size_t size)
{
    struct table_memory memory;
    for (enum table_store store = STORE_TABLE; store < (bed->largest ? TABLE_STORES : STORE_NO_TOP);
         store++) {
        if (!make_table(bed, store, &memory))
            return false;
        if (store == STORE_TABLE)
            report->memory[size] = memory;
        if (store == STORE_THREE)
            report->three = memory;
    }
    bool ready = table_bare_make(&bed->bare, (size_t)report->memory[size].stat.slots * 16);
    for (enum table_order i = 0; i < TABLE_ORDERS && ready; i++)
        ready = table_walk_make(&bed->walks[i], i, (uint64_t)bed->keys);
    if (!ready)
        fputs("weir: out of memory\n", stderr);
    return ready;
}

/* NULL: it has said why. */
static struct table_bench *table_bench_new(struct table_report *report, size_t size)
{
    struct table_bench *bed = aligned_alloc(_Alignof(struct table_bench), sizeof *bed);
    if (!bed)
        return fputs("weir: out of memory\n", stderr), NULL;
    memset(bed, 0, sizeof *bed);
    bed->keys = report->keys[size];
    bed->largest = size + 1 == report->sizes;
    bed->start = weir_now();
    bed->step = 2 * WEIR_SEC / bed->keys;
    if (!table_bench_fill(bed, report, size)) {
        table_bench_free(bed);
        return NULL;
    }
    for (size_t row = 0; row < table_row_count; row++)
        for (size_t thread = 0; thread < TABLE_TEAMS; thread++)
            prepare_table_thread(bed, row, thread);
    return bed;
}

/* ---- rounds ---- */

static bool run_table_cell(struct table_thread *actors, int threads, int round, double seconds,
                           struct bench_samples *samples)
{
    if (!samples_measure(samples, round, threads, run_table_row, actors, sizeof actors[0], seconds))
        return false;
    for (int i = 0; i < threads; i++) {
        samples->allowed += actors[i].allowed;
        actors[i].allowed = 0;
    }
    return true;
}

static bool run_table_round(struct table_bench *bed, int round, double seconds,
                            struct bench_samples samples[][TABLE_TEAMS])
{
    for (size_t row = 0; row < table_row_count; row++)
        for (int team = 0; team < TABLE_TEAMS; team++) {
            char text[120];
            if (table_rows[row].largest && !bed->largest)
                continue;
            snprintf(text, sizeof text, "%lld keys, round %d of %d: %s, threads: %d", (long long)bed->keys,
                     round + 1, BENCH_RUNS, table_rows[row].name, team + 1);
            bench_progress(text);
            if (!run_table_cell(bed->actors[row], team + 1, round, seconds / BENCH_RUNS, &samples[row][team]))
                return false;
        }
    return true;
}

static bool measure_rows(struct table_bench *bed, double seconds, struct bench_cell cells[][TABLE_TEAMS])
{
    struct bench_samples samples[TABLE_ROWS_MAX][TABLE_TEAMS] = {0};
    for (int round = 0; round < BENCH_RUNS; round++)
        if (!run_table_round(bed, round, seconds, samples))
            return false;
    for (size_t row = 0; row < table_row_count; row++)
        for (size_t team = 0; team < TABLE_TEAMS; team++)
            cells[row][team] = samples_sum_up(&samples[row][team]);
    return true;
}

static bool measure_table_size(struct table_report *report, size_t size, double seconds)
{
    struct table_bench *bed = table_bench_new(report, size);
    bool done = bed && measure_rows(bed, seconds, report->cells[size]);
    if (done && bed->largest)
        done = table_tails_measure(bed->tables[STORE_TABLE], &bed->walks[ORDER_UNIFORM], seconds,
                                   report->tails, &report->changes);
    bench_progress(NULL);
    table_bench_free(bed);
    return done;
}

int bench_table(const struct bench_options *options)
{
    static struct table_report report; /* too large for a stack */
    report = (struct table_report){0};
    for (int64_t keys = BENCH_KEYS_MIN; keys < options->keys; keys *= 10)
        report.keys[report.sizes++] = keys;
    report.keys[report.sizes++] = options->keys;
    for (size_t size = 0; size < report.sizes; size++)
        if (!measure_table_size(&report, size, options->seconds))
            return EXIT_ERROR;
    if (options->json)
        table_print_json(&report);
    else
        table_print_text(&report);
    return EXIT_OK;
}
