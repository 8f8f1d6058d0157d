/* SPDX-License-Identifier: MIT */
/*
 * weir bench table: its rows and what was measured for them.
 */
#ifndef WEIR_BENCH_TABLE_TABLE_H
#define WEIR_BENCH_TABLE_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "bench/samples.h"
#include "weir.h"

/* ---- keys: table_keys.c ---- */

#define TABLE_KEY_LEN 12

/* Aligned, so that no name lies across two cache lines; TABLE_KEY_LEN bytes count. */
struct table_key {
    _Alignas(16) char bytes[16];
};

/* "user" and 8 digits. */
struct table_key table_key_named(uint64_t number);
/* "new " and 8 bytes. */
struct table_key table_key_new(uint64_t number);

enum table_order { ORDER_UNIFORM, ORDER_ZIPF, TABLE_ORDERS };
extern const char *const table_order_names[TABLE_ORDERS];

/* Names in the order in which they are asked for. It is written down before anything is measured, and read
 * from front to back, so it costs no cache misses of its own. */
struct table_walk {
    struct table_key *keys;
    size_t count; /* a power of 2 */
};
/* false: out of memory. */
bool table_walk_make(struct table_walk *walk, enum table_order order, uint64_t keys);
void table_walk_free(struct table_walk *walk);

/* ---- the baseline: bare.c ---- */

/* An array of words in the kind of memory that tables have. */
struct table_bare {
    void *mapping;
    size_t mapped;
    _Atomic uint64_t *words;
    uint64_t count;
    struct hash_key key;
};
/* false: out of memory. */
bool table_bare_make(struct table_bare *bare, size_t bytes);
void table_bare_free(struct table_bare *bare);
/* As weir_table_take, but the table is a struct table_bare, and whatever is found at the place of the key's
 * hash is taken for its state. */
bool table_bare_take(struct weir_table *table, const void *key, size_t len, int64_t n,
                     struct weir_verdict *verdict);

/* ---- rows: table.c ---- */

enum table_store {
    STORE_BARE,   /* the baseline */
    STORE_TABLE,  /* one limit; all keys are there, and stay */
    STORE_NEW,    /* one limit; half of the places hold keys that can be forgotten */
    STORE_NO_TOP, /* as STORE_TABLE, without counting who takes most */
    STORE_SPENT,  /* one limit; no key has a unit left */
    STORE_THREE,  /* three limits */
    TABLE_STORES
};

#define TABLE_BATCH_MAX 32
enum { TABLE_TEAMS = 2 }; /* 1 thread, 2 threads */

struct table_row {
    const char *name;
    enum table_store store;
    enum table_order order;
    size_t batch; /* keys in one call of weir_take_each; 0: weir_table_take */
    bool with_verdict;
    bool largest; /* measured only with the largest number of keys */
};
extern const struct table_row table_rows[];
extern const size_t table_row_count;
#define TABLE_ROWS_MAX 24

struct table_memory {
    int64_t keys;
    struct weir_table_info stat; /* after all keys were put in */
    int64_t resident;            /* bytes that the process has grown by */
    double fill_ns;              /* processor time a key, while they were put in, 32 at a time */
};

/* ---- latencies: tail.c ---- */

enum table_beside { BESIDE_NOTHING, BESIDE_TAKES, BESIDE_SWEEP, BESIDE_CHANGE, TABLE_BESIDES };
extern const char *const table_beside_names[TABLE_BESIDES];

/* Times of single takes, in nanoseconds, while another thread does something. */
struct table_tail {
    int64_t count;
    int64_t p50, p99, p999, p9999; /* of the round with the lowest p9999 */
    int64_t max;                   /* of all rounds */
    double others;                 /* part of the processors that other processes had in that round */
};

/* How long a weir_table_set took: the shortest of each round, and of those these two. */
struct table_changes {
    double best_ms, median_ms;
};

/* The limits of `table` are changed again and again. false: it has said why. */
bool table_tails_measure(struct weir_table *table, const struct table_walk *walk, double seconds,
                         struct table_tail tails[static TABLE_BESIDES], struct table_changes *changes);

/* ---- the report: print.c ---- */

#define TABLE_LIMITS       "1G/30d"
#define TABLE_LIMITS_OTHER "2G/30d" /* a live change leads there, and back */
#define TABLE_LIMITS_NEW   "1/s"
#define TABLE_LIMITS_SPENT "1/30d"
#define TABLE_LIMITS_THREE "1G/30d, 2G/60d, 3G/90d"

enum { TABLE_SIZES_MAX = 6 };

struct table_report {
    size_t sizes;
    int64_t keys[TABLE_SIZES_MAX];
    struct bench_cell cells[TABLE_SIZES_MAX][TABLE_ROWS_MAX][TABLE_TEAMS];
    struct table_memory memory[TABLE_SIZES_MAX]; /* of STORE_TABLE */
    struct table_memory three;                   /* of STORE_THREE */
    struct table_tail tails[TABLE_BESIDES];
    struct table_changes changes;
};

void table_print_text(const struct table_report *report);
void table_print_json(const struct table_report *report);

#endif
