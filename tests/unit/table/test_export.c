/* SPDX-License-Identifier: MIT */
/* Keys that travel from one table to another: exact where they can be, never less spent. */
#include "check.h"

#include "core/limit.h"
#include "table/persist/export.h"
#include "table/persist/persist.h"

#define START (INT64_C(1000) * WEIR_SEC)

static const char *const every[] = {
    "10/s burst=20",
    "1/s algo=interval",
    "5/s algo=leaky-bucket queue=9",
    "5/s algo=smooth",
    "5/s algo=warmup warmup=2s",
    "10/s algo=hybrid",
    "100/m algo=fixed-window",
    "100/m algo=sliding-window",
    "20/m algo=sliding-log",
    "1000/d burst=50, 5/s algo=sliding-window, 30/h algo=sliding-log",
};
#define EVERY (sizeof every / sizeof every[0])

static struct weir_table *make(const char *limits, size_t keys, const struct hash_key *key)
{
    struct weir_error err;
    struct weir_table_options options = {.keys = keys, .overrides = 16};
    struct weir_table *table = weir_table_new_stored(limits, &options, key, &err);
    if (!table)
        printf("# %s: %s\n", limits, err.text);
    return table;
}

struct copy {
    struct weir_table *to; /* or NULL: only counts */
    int64_t now_ns;
    size_t count, exact, full;
    uint64_t last;
};

static bool bring(void *arg, const struct export_key *key)
{
    struct copy *copy = arg;
    copy->count++;
    copy->exact += key->count > 0;
    copy->last = key->hash;
    if (copy->to)
        copy->full += !weir_table_import(copy->to, copy->now_ns, key);
    return true;
}

static struct copy copy_all(struct weir_table *from, struct weir_table *to, int64_t now_ns, size_t page)
{
    struct copy copy = {.to = to, .now_ns = now_ns};
    struct export_range range = {0, UINT64_MAX};
    do
        CHECK(weir_table_export(from, now_ns, &range, page, NULL, bring, &copy));
    while (range.from != 0);
    return copy;
}

static int64_t used(struct weir_table *table, int64_t now_ns, const char *key, size_t limit)
{
    struct weir_limit_state limits[WEIR_LIMITS_MAX];
    size_t count = weir_table_explain_at(table, now_ns, key, strlen(key), limits, WEIR_LIMITS_MAX);
    return limit < count ? limits[limit].used : -1;
}

static void check_same(struct weir_table *one, struct weir_table *other, int64_t now_ns, const char *key)
{
    struct weir_limit_state a[WEIR_LIMITS_MAX], b[WEIR_LIMITS_MAX];
    size_t count = weir_table_explain_at(one, now_ns, key, strlen(key), a, WEIR_LIMITS_MAX);
    CHECK_EQ(weir_table_explain_at(other, now_ns, key, strlen(key), b, WEIR_LIMITS_MAX), count);
    for (size_t i = 0; i < count; i++) {
        CHECK_EQ(a[i].used, b[i].used);
        CHECK_EQ(a[i].left, b[i].left);
        CHECK_EQ(a[i].next_after_ns, b[i].next_after_ns);
        CHECK_EQ(a[i].reset_after_ns, b[i].reset_after_ns);
    }
}

/* A table with the same hash key and region time: every key answers there as it did here, also later. */
TEST(every_algorithm_is_taken_over_exactly)
{
    struct rng rng = rng_new(1);
    for (size_t a = 0; a < EVERY; a++) {
        struct weir_table *from = make(every[a], 1000, NULL);
        if (!CHECK(from != NULL))
            return;
        struct weir_table *to = make(every[a], 3000, &from->region->header->key);
        if (!CHECK(to != NULL))
            return;
        weir_table_adopt_time(to, START, region_time(from->region, START));
        int64_t now = START;
        char key[32];
        for (int i = 0; i < 2000; i++) {
            snprintf(key, sizeof key, "user:%d", (int)rng_between(&rng, 0, 299));
            now += rng_between(&rng, 0, 5 * WEIR_MS - 1);
            struct weir_verdict verdict;
            (void)weir_table_take_at(from, now, key, strlen(key), 1 + rng_between(&rng, 0, 3 - 1), &verdict);
            if (i % 17 == 0)
                weir_table_charge_at(from, now, key, strlen(key), 4);
        }
        struct copy copy = copy_all(from, to, now, 64);
        CHECK(copy.count > 0);
        CHECK_EQ(copy.exact, copy.count);
        CHECK_EQ(copy.full, 0);
        for (int i = 0; i < 300; i++) {
            snprintf(key, sizeof key, "user:%d", i);
            check_same(from, to, now, key);
            check_same(from, to, now + 3 * WEIR_SEC, key);
        }
        weir_table_free(from);
        weir_table_free(to);
    }
}

/* Each key is met once, whatever the size of the pages; a range has its own keys alone. */
TEST(pages_and_ranges_have_each_key_once)
{
    const char *limits[] = {"1000/d", "1000/d, 100/h"};
    for (size_t a = 0; a < 2; a++) {
        struct weir_table *table = make(limits[a], 5000, NULL);
        struct weir_error err;
        if (!CHECK(table != NULL))
            return;
        for (int i = 0; i < 4000; i++)
            CHECK(weir_table_take_at(table, START, &i, sizeof i, 1, NULL));
        CHECK(weir_table_grow(table, 20000, &err));
        for (int i = 4000; i < 9000; i++)
            CHECK(weir_table_take_at(table, START, &i, sizeof i, 1, NULL));
        size_t pages[] = {1, 50, 1000, 1000000};
        for (size_t p = 0; p < 4; p++)
            CHECK_EQ(copy_all(table, NULL, START, pages[p]).count, 9000);
        size_t sum = 0;
        for (uint64_t part = 0; part < 16; part++) {
            struct copy copy = {.now_ns = START};
            struct export_range range = {part << 60, (part << 60) + (UINT64_MAX >> 4)};
            uint64_t to = range.to;
            do {
                CHECK(weir_table_export(table, START, &range, 100, NULL, bring, &copy));
                CHECK(copy.count == 0 || copy.last >> 60 == part);
            } while (range.from != 0 && range.from <= to);
            CHECK(copy.count > 300);
            sum += copy.count;
        }
        CHECK_EQ(sum, 9000);
        weir_table_free(table);
    }
}

/* Who has spent on both sides has spent both. */
TEST(what_is_spent_on_both_sides_adds_up)
{
    for (size_t a = 0; a < EVERY; a++) {
        struct weir_table *from = make(every[a], 100, NULL);
        struct weir_table *to = from ? make(every[a], 100, &from->region->header->key) : NULL;
        if (!CHECK(from && to))
            return;
        weir_table_charge_at(from, START, "a", 1, 3);
        weir_table_charge_at(to, START, "a", 1, 2);
        int64_t here = used(to, START, "a", 0), there = used(from, START, "a", 0);
        CHECK_EQ(copy_all(from, to, START, 1000).full, 0);
        if (!CHECK(used(to, START, "a", 0) >= here + there))
            printf("# %s: %" PRId64 " + %" PRId64 " became %" PRId64 "\n", every[a], here, there,
                   used(to, START, "a", 0));
        weir_table_free(from);
        weir_table_free(to);
    }
}

/* Without words, into a table of another region time: what is spent is charged in full. */
TEST(units_alone_are_charged_in_full)
{
    for (size_t a = 0; a < EVERY; a++) {
        struct weir_table *from = make(every[a], 100, NULL);
        struct weir_table *to = from ? make(every[a], 100, &from->region->header->key) : NULL;
        if (!CHECK(from && to))
            return;
        weir_table_adopt_time(to, START, START + 12345678901);
        weir_table_charge_at(from, START, "a", 1, 3);
        int64_t there = used(from, START, "a", 0);
        struct export_key key = {.name = "a", .len = 1, .limits = 1, .spent = {there}};
        CHECK(weir_table_import(to, START, &key));
        CHECK(used(to, START, "a", 0) >= there);
        weir_table_free(from);
        weir_table_free(to);
    }
}

/* By units alone, since its words count by limits that the other table does not have. */
TEST(a_key_with_limits_of_its_own_brings_what_it_spent)
{
    struct weir_error err;
    for (int own = 0; own < 2; own++) {
        struct weir_table *from = make("10/d", 100, NULL), *to = make("10/d", 100, NULL);
        if (!CHECK(from && to))
            return;
        CHECK(weir_table_override_at(from, START, "a", 1, "100/d", &err));
        CHECK(weir_table_take_at(from, START, "a", 1, 60, NULL));
        CHECK(own == 0 || weir_table_override_at(to, START, "a", 1, "100/d", &err));
        struct export_range range = {0, UINT64_MAX};
        struct copy copy = {.now_ns = START};
        CHECK(weir_table_export(from, START, &range, 1000, NULL, bring, &copy));
        CHECK_EQ(copy.count, 1);
        CHECK_EQ(copy.exact, 0);
        struct export_key key = {.name = "a", .len = 1, .limits = 1, .spent = {used(from, START, "a", 0)}};
        CHECK(weir_table_import(to, START, &key));
        CHECK_EQ(used(to, START, "a", 0), 60);
        weir_table_free(from);
        weir_table_free(to);
    }
}

/* Words that are no state, of a wrong number, or beyond all time: nothing breaks, and nothing is gained. */
TEST(hostile_words_do_no_harm)
{
    struct rng rng = rng_new(1);
    for (size_t a = 0; a < EVERY; a++) {
        struct weir_table *table = make(every[a], 1000, NULL);
        if (!CHECK(table != NULL))
            return;
        for (int i = 0; i < 3000; i++) {
            int64_t words[64];
            struct export_key key = {.hash = rng_next(&rng), .words = words, .limits = 1};
            key.count = (size_t)rng_between(&rng, 0, 40 - 1);
            for (size_t w = 0; w < 64; w++)
                words[w] =
                    rng_between(&rng, 0, 2 - 1) ? (int64_t)rng_next(&rng) : rng_between(&rng, 0, 1000 - 1);
            key.spent[0] = (int64_t)(rng_next(&rng) >> rng_between(&rng, 0, 64 - 1) >> 1);
            if (i % 3 == 0)
                key.hash = (uint64_t)rng_between(&rng, 0, 4 - 1);
            (void)weir_table_import(table, START, &key);
        }
        (void)copy_all(table, NULL, START, 100);
        (void)weir_table_sweep_at(table, START + WEIR_SEC, 10000);
        weir_table_free(table);
    }
}

TEST(a_full_table_refuses_what_comes)
{
    const char *limits[] = {"10/d", "10/d, 5/h"};
    for (size_t a = 0; a < 2; a++) {
        struct weir_table *table = make(limits[a], 1, NULL);
        size_t full = 0;
        if (!CHECK(table != NULL))
            return;
        for (uint64_t i = 2; i < 20002; i++) {
            struct export_key key = {.hash = i * UINT64_C(0x9E3779B97F4A7C15), .limits = 1, .spent = {1}};
            full += !weir_table_import(table, START, &key);
        }
        CHECK(full > 10000);
        CHECK(weir_table_take_at(table, START, "new", 3, 1, NULL)); /* nobody's debt was made everybody's */
        weir_table_free(table);
    }
}

/* ---- what keys without room share ---- */

#define MOVERS 3000 /* keys, many more than fit */

struct rehash_status {
    struct weir_table *to;
    int64_t now;
    bool units;  /* by units alone, as between tables of other times */
    bool behind; /* the keys have come */
    size_t keys, shared;
};

static bool move_key(void *arg, const struct export_key *key)
{
    struct rehash_status *moving = arg;
    struct export_key coming = *key;
    coming.count = moving->units ? 0 : coming.count;
    moving->keys++;
    return CHECK(weir_table_import(moving->to, moving->now, &coming));
}

static bool move_shared(void *arg, const struct export_shared *shared)
{
    struct rehash_status *moving = arg;
    struct export_shared coming = *shared;
    coming.key.count = moving->units ? 0 : coming.key.count;
    moving->shared++;
    return CHECK(moving->behind ? weir_table_import_shared(moving->to, moving->now, &coming)
                                : weir_table_expect_shared(moving->to, moving->now, &coming));
}

static void ask(struct rng *rng, struct weir_table *table, int64_t now, int64_t times, int64_t *allowed)
{
    for (int64_t i = 0; i < times; i++) {
        int64_t key = rng_between(rng, 0, MOVERS - 1), n = rng_between(rng, 1, 3);
        if (weir_table_take_at(table, now, &key, sizeof key, n, NULL))
            allowed[key] += n;
    }
}

/* A table without room moves, to one of any size where perhaps somebody has spent already: of what a key got
 * before, on both sides, nothing comes back. */
static bool move_all(struct rng *rng, const char *limits, int64_t burst, struct rehash_status moving)
{
    static int64_t allowed[MOVERS];
    bool used = rng_between(rng, 0, 1), good = true;
    struct export_range range = {0, UINT64_MAX}, whole = range;
    struct weir_table *from = make(limits, 1, NULL);
    moving.to =
        from ? make(limits, (size_t)rng_between(rng, MOVERS, 9000), &from->region->header->key) : NULL;
    if (!CHECK(from && moving.to))
        return false;
    memset(allowed, 0, sizeof allowed);
    ask(rng, from, moving.now, 3 * MOVERS, allowed);
    if (used)
        ask(rng, moving.to, moving.now, rng_between(rng, 1, 3 * MOVERS), allowed);
    good = weir_table_export_shared(from, moving.now, &whole, move_shared, &moving);
    do
        good = good && weir_table_export(from, moving.now, &range, 100, NULL, move_key, &moving);
    while (good && range.from != 0);
    moving.behind = true;
    good = good && weir_table_export_shared(from, moving.now, &whole, move_shared, &moving) &&
           CHECK(moving.keys > 0 && moving.shared > 0);
    for (int64_t key = 0; good && key < MOVERS; key++) {
        int64_t more = 0;
        while (more <= burst && weir_table_take_at(moving.to, moving.now, &key, sizeof key, 1, NULL))
            more++;
        good = CHECK(more <= max64(burst - allowed[key], 0));
    }
    weir_table_free(from);
    weir_table_free(moving.to);
    return good;
}

TEST(a_table_without_room_moves_and_mints_nothing)
{
    static const struct {
        const char *limits;
        int64_t burst;
    } cases[] = {{"10/d", 10},
                 {"10/d algo=leaky-bucket queue=9", 10},
                 {"10/d, 20/w", 10},
                 {"10/d algo=sliding-log", 10},
                 {"10/d algo=fixed-window", 10},
                 {"10/d algo=sliding-window, 90/d algo=sliding-log", 10}};
    struct rng rng = rng_new(16);
    for (size_t i = 0; i < 4 * sizeof cases / sizeof *cases; i++) {
        size_t at = i % (sizeof cases / sizeof *cases);
        struct rehash_status moving = {.now = START, .units = rng_between(&rng, 0, 1)};
        if (!move_all(&rng, cases[at].limits, cases[at].burst, moving))
            printf("# story %zu: %s\n", i, cases[at].limits);
    }
}

/* To a table that nobody has used, as it is: who shares it is answered there as here. */
TEST(what_is_shared_is_taken_over_exactly)
{
    static const char *const limits[] = {"10/d", "10/d, 20/w"};
    for (size_t a = 0; a < 2; a++) {
        struct weir_table *from = make(limits[a], 1, NULL);
        struct weir_table *to = from ? make(limits[a], 1, &from->region->header->key) : NULL;
        struct export_range whole = {0, UINT64_MAX};
        if (!CHECK(from && to))
            return;
        weir_table_adopt_time(to, START, region_time(from->region, START));
        int64_t key = 0;
        while (weir_table_take_at(from, START, &key, sizeof key, 1, NULL))
            key++;
        struct copy copy = copy_all(from, to, START, 1000);
        CHECK_EQ(copy.full, 0);
        struct rehash_status moving = {.to = to, .now = START, .behind = true};
        CHECK(weir_table_export_shared(from, START, &whole, move_shared, &moving));
        CHECK(moving.shared > 0);
        for (int64_t other = 0; other < key + 50; other++)
            for (int64_t later = 0; later < 3; later++) {
                int64_t now = START + later * 3600 * WEIR_SEC;
                struct weir_verdict here, there;
                CHECK_EQ(weir_table_peek_at(to, now, &other, sizeof other, 1, &there),
                         weir_table_peek_at(from, now, &other, sizeof other, 1, &here));
                CHECK_EQ(there.remaining, here.remaining);
                CHECK_EQ(there.retry_after_ns, here.retry_after_ns);
            }
        weir_table_free(from);
        weir_table_free(to);
    }
}

/* Where others shared long ago, and nobody has since: it is forgotten when more comes, but not who comes. */
TEST(what_was_shared_comes_to_where_others_shared_long_ago)
{
    static const char *const limits[] = {"10/d", "10/d, 20/w", "10/d algo=sliding-log"};
    const int64_t later = START + INT64_C(5000) * 3600 * WEIR_SEC;
    for (size_t a = 0; a < 3; a++) {
        struct export_shared shared = {.of = {0, UINT64_MAX},
                                       .key = {.limits = a == 1 ? 2 : 1, .spent = {10, 20}}};
        struct weir_table *to = make(limits[a], 1, NULL);
        struct weir_table_info info;
        if (!CHECK(to != NULL))
            return;
        for (int64_t key = 0; key < MOVERS; key++)
            (void)weir_table_take_at(to, START, &key, sizeof key, 1, NULL);
        weir_table_stat_at(to, START, &info);
        CHECK(info.shared > 0);
        CHECK(weir_table_import_shared(to, later, &shared));
        int64_t allowed = 0;
        for (int64_t key = MOVERS; key < 2 * MOVERS; key++) /* none of them is there */
            allowed += weir_table_take_at(to, later, &key, sizeof key, 1, NULL);
        CHECK_EQ(allowed, 0);
        weir_table_free(to);
    }
}

static bool is_within(void *arg, const struct export_shared *shared)
{
    const struct export_range *range = arg;
    return CHECK(shared->of.from >= range->from && shared->of.to <= range->to &&
                 shared->of.from <= shared->of.to);
}

/* Who is not of the range that moves is not charged for it. */
TEST(of_a_range_only_its_keys_are_charged)
{
    static const char *const limits[] = {"10/d", "10/d, 20/w"};
    for (size_t a = 0; a < 2; a++) {
        struct weir_table *from = make(limits[a], 1, NULL);
        struct weir_table *to = from ? make(limits[a], 1000, &from->region->header->key) : NULL;
        struct export_range half = {0, UINT64_MAX / 2};
        if (!CHECK(from && to))
            return;
        for (int64_t key = 0; key < 2000; key++)
            (void)weir_table_take_at(from, START, &key, sizeof key, 3, NULL);
        for (int64_t key = 0; key < 200; key++)
            CHECK(weir_table_take_at(to, START, &key, sizeof key, 1, NULL));
        struct rehash_status moving = {.to = to, .now = START};
        CHECK(weir_table_export_shared(from, START, &half, is_within, &half));
        CHECK(weir_table_export_shared(from, START, &half, move_shared, &moving));
        for (int64_t key = 0; key < 200; key++) {
            struct weir_verdict verdict;
            (void)weir_table_peek_at(to, START, &key, sizeof key, 1, &verdict);
            bool within = table_hash(to, &key, sizeof key) <= half.to;
            CHECK(within ? verdict.remaining <= 6 : verdict.remaining == 9);
        }
        weir_table_free(from);
        weir_table_free(to);
    }
}
