/* SPDX-License-Identifier: MIT */
/*
 * Another process writes anything over the whole file of a table while this one uses it. Answers may be wrong
 * then, but nothing crashes, overflows, or never ends: each round is a child that must come to its end.
 *
 * Two write: this thread between its calls, the same for every run of a seed, and a second one at any moment.
 * They leave out the mutexes, whose pointers the C library follows without a look: see docs/tables.md. And
 * they do not cut the file short, which is a SIGBUS for all who have it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "region/layout.h"
#include "region/stripe.h"
#include "table/table.h"
#include "unit/region/damage.h"

#define KEYS     40
#define PATIENCE 100 /* seconds until a child that hangs is ended */
#define PAUSE    400 /* calls until a part of the file is what it was at first */

static const struct kind {
    const char *name, *limits, *other;
    struct weir_table_options options;
} kinds[] = {
    {"words", "100/s burst=50", "90/s burst=20", {.keys = KEYS, .name_bytes = 4096}},
    {"whole keys", "100/s burst=50", "90/s burst=20", {.keys = KEYS, .key_max = 16, .name_bytes = 4096}},
    {"several",
     "30/s, 5/10s algo=fixed-window, 10/m algo=sliding-log, 9/s algo=step",
     "20/s, 4/11s algo=fixed-window, 9/m algo=sliding-log, 8/s algo=step",
     {.keys = KEYS}},
    {"curves",
     "30/s algo=warmup warmup=10s, 9/s algo=sliding-window, 8/s algo=hybrid",
     "20/s algo=warmup warmup=10s, 8/s algo=sliding-window, 7/s algo=hybrid",
     {.keys = KEYS}},
    {"long log", "200/m algo=sliding-log", "150/m algo=sliding-log", {.keys = KEYS}},
    {"own limits", NULL, NULL, {.keys = KEYS, .own_limits = 1}},
};

static const char *const single[] = {"5/s", "10/m algo=sliding-log", "3/s algo=step, 7/h algo=fixed-window",
                                     "unlimited", NULL};

struct round {
    const struct kind *kind;
    char path[64];
    struct rng rng;
    struct weir_table *table, *second; /* two openings of the file */
    unsigned char *file;               /* of the first */
    unsigned char *first;              /* how it was */
    uint64_t bytes;
    struct region_shape shape;
    uint64_t stripes, transactions; /* offsets */
    int64_t now;
    _Atomic bool over;
};

/* ---- writing ---- */

static bool is_in(uint64_t offset, uint64_t bytes, uint64_t start, uint64_t count, uint64_t step)
{
    if (offset + bytes <= start || offset >= start + count * step)
        return false;
    uint64_t at = offset < start ? 0 : (offset - start) % step;
    return at < sizeof(pthread_mutex_t) || at + bytes > step;
}

static bool is_mutex(const struct round *r, uint64_t offset, uint64_t bytes)
{
    return is_in(offset, bytes, offsetof(struct region_header, change), 1, sizeof(pthread_mutex_t)) ||
           is_in(offset, bytes, r->stripes, r->shape.stripes, weir_stripe_size(r->shape.journal_size)) ||
           is_in(offset, bytes, r->transactions, REGION_TRANSACTIONS,
                 weir_transaction_size(r->shape.transaction_size));
}

static uint64_t junk(struct rng *rng, uint64_t now)
{
    switch (rng_between(rng, 0, 7)) {
    case 0:
        return 0;
    case 1:
        return UINT64_MAX;
    case 2:
        return (uint64_t)INT64_MAX - (uint64_t)rng_between(rng, 0, 2);
    case 3:
        return (uint64_t)INT64_MIN + (uint64_t)rng_between(rng, 0, 2);
    case 4:
        return now ^ UINT64_C(1) << rng_between(rng, 0, 63);
    case 5:
        return now + (uint64_t)rng_between(rng, -2, 2);
    case 6:
        return (uint64_t)rng_magnitude(rng, INT64_MAX);
    default:
        return rng_next(rng);
    }
}

/* A place anywhere, or in one of the parts that are small and matter. */
static uint64_t place(const struct round *r, struct rng *rng)
{
    uint64_t slots = r->table->region->segments[0].offset, policies = LAYOUT_PAGE;
    switch (rng_between(rng, 0, 5)) {
    case 0:
        return (uint64_t)rng_between(rng, 0, sizeof(struct region_header) - 8);
    case 1:
        return policies + (uint64_t)rng_between(rng, 0, sizeof(struct table_policies) - 8);
    case 2:
        return (uint64_t)rng_between(rng, (int64_t)r->stripes, (int64_t)slots - 8);
    case 3:
    case 4:
        return (uint64_t)rng_between(rng, (int64_t)slots, (int64_t)r->bytes - 8);
    default:
        return (uint64_t)rng_between(rng, 0, (int64_t)r->bytes - 8);
    }
}

__attribute__((no_sanitize("thread"))) static void scribble(const struct round *r, struct rng *rng)
{
    uint64_t at = place(r, rng) & ~(rng_between(rng, 0, 3) > 0 ? UINT64_C(7) : 0), word;
    uint64_t words = rng_between(rng, 0, 15) > 0 ? 1 : (uint64_t)rng_between(rng, 1, 40);
    for (; words > 0 && at + 8 <= r->bytes; words--, at += 8) {
        if (is_mutex(r, at, 8))
            continue;
        memcpy(&word, r->file + at, 8);
        word = junk(rng, word);
        memcpy(r->file + at, &word, 8);
    }
}

/* Else a table whose limits are gone would refuse everything from then on. */
static void restore(const struct round *r, struct rng *rng)
{
    uint64_t from = 0, to = rng_between(rng, 0, 1) ? r->stripes : r->bytes;
    for (uint64_t at = from; at + 8 <= to; at += 8)
        if (!is_mutex(r, at, 8))
            memcpy(r->file + at, r->first + at, 8);
}

static void *write_on(void *arg)
{
    struct round *r = arg;
    struct rng rng = {r->rng.state + 1};
    while (!atomic_load(&r->over)) {
        scribble(r, &rng);
        (void)sched_yield();
    }
    return NULL;
}

/* ---- calls ---- */

static bool read_key(void *arg, const struct weir_key *key)
{
    const struct round *r = arg;
    char copy[4096];
    CHECK(key->len <= (r->kind->options.key_max ? r->kind->options.key_max : sizeof copy));
    if (key->key && key->len <= sizeof copy)
        memcpy(copy, key->key, key->len);
    return true;
}

static size_t name_of(struct rng *rng, char *key)
{
    return (size_t)snprintf(key, 16, "key-%d", (int)rng_between(rng, 0, 2 * KEYS));
}

static void ask_own(struct round *r, struct weir_table *table)
{
    struct rng *rng = &r->rng;
    struct weir_own_limit limit = {rng_magnitude(rng, 1000) + 1, WEIR_SEC, rng_magnitude(rng, 1000) + 1};
    struct weir_verdict verdict;
    char key[16];
    size_t len = name_of(rng, key);
    int64_t n = rng_between(rng, 1, 9);
    switch (rng_between(rng, 0, 4)) {
    case 0:
        (void)weir_table_peek_own_at(table, r->now, key, len, &limit, n, &verdict);
        break;
    case 1:
        (void)weir_table_give_own_at(table, r->now, key, len, &limit, n, &verdict);
        break;
    case 2:
        weir_table_reset_at(table, r->now, key, len);
        break;
    default:
        (void)weir_table_take_own_at(table, r->now, key, len, &limit, n, &verdict);
    }
}

static void ask(struct round *r, struct weir_table *table)
{
    struct rng *rng = &r->rng;
    struct weir_verdict verdict;
    struct weir_limit_state states[WEIR_LIMITS_MAX];
    static struct weir_reservation reservation;
    char key[16], other[16];
    size_t len = name_of(rng, key), other_len = name_of(rng, other);
    int64_t n = rng_magnitude(rng, 20) + 1;
    struct weir_ask asks[] = {{.table = table, .key = key, .len = len, .n = n},
                              {.table = r->second, .key = other, .len = other_len, .n = 1}};
    switch (rng_between(rng, 0, 13)) {
    case 0:
        (void)weir_table_peek_at(table, r->now, key, len, n, &verdict);
        break;
    case 1:
        (void)weir_table_reserve_at(table, r->now, key, len, n, WEIR_SEC, &reservation, &verdict);
        break;
    case 2:
        (void)weir_table_cancel_at(table, r->now, key, len, &reservation);
        break;
    case 3:
        weir_table_give_at(table, r->now, key, len, n);
        break;
    case 4:
        (void)weir_table_charge_at(table, r->now, key, len, n);
        break;
    case 5:
        weir_table_reset_at(table, r->now, key, len);
        break;
    case 6:
        (void)weir_table_explain_at(table, r->now, key, len, states, WEIR_LIMITS_MAX);
        break;
    case 7:
        (void)weir_take_all_at(asks, 2, r->now);
        break;
    case 8:
        (void)weir_take_each(asks, 2);
        break;
    default:
        (void)weir_table_take_at(table, r->now, key, len, n, &verdict);
    }
}

static void manage(struct round *r, struct weir_table *table)
{
    struct rng *rng = &r->rng;
    struct weir_table_info info;
    struct weir_top_key top[8];
    char key[16], text[64];
    size_t len = name_of(rng, key);
    switch (rng_between(rng, 0, 7)) {
    case 0:
        (void)weir_table_sweep_at(table, r->now, 30);
        break;
    case 1:
        weir_table_stat(table, &info);
        break;
    case 2:
        (void)weir_table_each(table, read_key, r);
        break;
    case 3:
        (void)weir_table_top(table, WEIR_TOP_TAKEN, top, 8);
        break;
    case 4:
        (void)weir_table_text(table, text, sizeof text);
        (void)weir_table_override_text(table, key, len, text, sizeof text);
        break;
    case 5:
        (void)weir_table_override(table, key, len, single[rng_between(rng, 0, 4)], NULL);
        break;
    case 6:
        if (r->kind->limits)
            (void)weir_table_set_at(table, r->now, rng_between(rng, 0, 1) ? r->kind->limits : r->kind->other,
                                    NULL);
        break;
    default:
        if (rng_between(rng, 0, 9) == 0)
            (void)weir_table_grow(table, (size_t)rng_between(rng, KEYS, 2 * KEYS), NULL);
    }
}

/* A third opening, of whatever is there by then: it may be refused. */
static void reopen(struct round *r)
{
    struct weir_error err;
    struct weir_table *table = weir_table_make(r->path, r->kind->limits, &r->kind->options, &err);
    if (table)
        r->kind->limits ? ask(r, table) : ask_own(r, table);
    else
        CHECK(err.code != 0 && err.text[0]);
    weir_table_free(table);
}

static void use(struct round *r, int64_t calls)
{
    for (int64_t i = 0; i < calls; i++) {
        struct weir_table *table = rng_between(&r->rng, 0, 3) ? r->table : r->second;
        r->now += rng_magnitude(&r->rng, WEIR_SEC);
        if (rng_between(&r->rng, 0, 15) == 0)
            manage(r, table);
        else
            r->kind->limits ? ask(r, table) : ask_own(r, table);
        if (rng_between(&r->rng, 0, 3) == 0)
            scribble(r, &r->rng);
        if (rng_between(&r->rng, 0, 255) == 0)
            reopen(r);
        if (i % PAUSE == PAUSE - 1)
            restore(r, &r->rng);
    }
}

/* ---- a round ---- */

static bool begin(struct round *r)
{
    struct weir_error err = {0};
    r->table = weir_table_make(r->path, r->kind->limits, &r->kind->options, &err);
    r->second = r->table ? weir_table_make(r->path, r->kind->limits, &r->kind->options, &err) : NULL;
    if (!CHECK(r->second != NULL)) {
        printf("# %s: %s\n", r->kind->name, err.text);
        return false;
    }
    struct region *region = r->table->region;
    r->file = (unsigned char *)region->header;
    r->bytes = atom_load(&region->bytes, memory_order_relaxed);
    r->shape = region->header->shape;
    r->stripes = (uint64_t)(region->stripes - r->file);
    r->transactions = (uint64_t)(region->transactions - r->file);
    r->now = weir_now();
    for (int64_t i = 0; i < 200; i++)
        r->kind->limits ? ask(r, r->table) : ask_own(r, r->table);
    r->first = malloc(r->bytes);
    if (CHECK(r->first != NULL))
        memcpy(r->first, r->file, r->bytes);
    return r->first != NULL;
}

static int run(struct round *r, int64_t calls)
{
    pthread_t writer;
    if (!begin(r) || pthread_create(&writer, NULL, write_on, r) != 0)
        return 1;
    use(r, calls);
    atomic_store(&r->over, true);
    (void)pthread_join(writer, NULL);
    weir_table_free(r->second);
    weir_table_free(r->table);
    r->second = NULL;
    reopen(r); /* now as the only one, which looks at all of it */
    free(r->first);
    return check.faults > 0;
}

/* Gives how many rounds came to no good end. */
static int64_t scribble_on(size_t which, int64_t rounds, int64_t calls)
{
    int64_t bad = 0;
    for (int64_t i = 0; i < rounds; i++) {
        struct round r = {.kind = &kinds[which], .rng = rng_new((uint64_t)i * 16 + which)};
        int status = 0;
        (void)snprintf(r.path, sizeof r.path, "%s/weir-scribble-%d",
                       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
        (void)unlink(r.path);
        (void)fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            (void)alarm(PATIENCE);
            expect_damage(true);
            int result = run(&r, calls);
            (void)fflush(stdout);
            _exit(result);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            printf("# %s, round %" PRId64 ": status %#x\n", r.kind->name, i, (unsigned)status);
            bad++;
        }
        (void)unlink(r.path);
    }
    return bad;
}

static void check_kind(size_t which)
{
    int64_t rounds = check_env("WEIR_ROUNDS", 2), calls = check_env("WEIR_CALLS", 4000);
    CHECK_EQ(scribble_on(which, rounds, calls), 0);
}

/* Not by chance: what a scribbler leaves there may stay for ever. */
TEST(fewer_segments_than_there_are_keep_nobody_waiting)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct round r = {.kind = &kinds[i], .rng = rng_new(i)};
        (void)snprintf(r.path, sizeof r.path, "%s/weir-scribble-%d",
                       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
        (void)unlink(r.path);
        (void)alarm(PATIENCE);
        if (begin(&r)) {
            atom_store(&r.table->region->header->segments, 0, memory_order_relaxed);
            for (int64_t call = 0; call < 100; call++)
                r.kind->limits ? ask(&r, r.table) : ask_own(&r, r.table);
        }
        (void)alarm(0);
        weir_table_free(r.second);
        weir_table_free(r.table);
        free(r.first);
        (void)unlink(r.path);
    }
}

TEST(words_survive_a_scribbler)
{
    check_kind(0);
}

TEST(whole_keys_survive_a_scribbler)
{
    check_kind(1);
}

TEST(several_limits_survive_a_scribbler)
{
    check_kind(2);
}

TEST(curves_survive_a_scribbler)
{
    check_kind(3);
}

TEST(long_logs_survive_a_scribbler)
{
    check_kind(4);
}

TEST(limits_of_the_caller_survive_a_scribbler)
{
    check_kind(5);
}
