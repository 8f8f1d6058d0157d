/* SPDX-License-Identifier: MIT */
/*
 * Tables that are kept come back as they were: random stories are told to a table, its records are captured
 * at random moments, and given, in random order, some of them twice, some of them old, to a table that is
 * made from the description of the first. Of all records of a key the last that was captured counts, so both
 * answer alike afterwards. WEIR_KEEP_STORIES says how many stories, WEIR_SEED or -s where to begin.
 */
#include "unit/table/keep_kit.h"

#define KEYS 8

struct story {
    struct rng rng;
    struct kept kept;
    struct weir_table *table;
    struct kept_name names[KEYS + 1];
    const struct kept_limits *limits; /* NULL: they come with each call */
    int64_t now;
    int changes;
    size_t from; /* the first record that is still there */
    bool crowded;
    struct weir_reservation promise;
    uint64_t promised_to;
};

#define NAME(STORY, KEY) (STORY)->names[KEY].bytes, (STORY)->names[KEY].len

static int64_t stories(void)
{
    const char *text = getenv("WEIR_KEEP_STORIES");
    return text && *text ? strtoll(text, NULL, 10) : 2500;
}

static int64_t roll(struct story *story, int64_t low, int64_t high)
{
    return rng_between(&story->rng, low, high);
}

static struct weir_own_limit own_limit(struct story *story)
{
    static const struct weir_own_limit limits[] = {
        {.count = 10, .period_ns = WEIR_SEC, .burst = 20},
        {.count = 3, .period_ns = WEIR_SEC, .burst = 5},
        {.count = 100000, .period_ns = WEIR_SEC, .burst = 7},
    };
    return limits[roll(story, 0, 2)];
}

/* ---- what happens ---- */

static void image(struct story *story)
{
    uint64_t generation = weir_table_generation(story->table);
    kept_commit(&story->kept);
    story->from = story->kept.count;
    kept_image(&story->kept);
    story->kept.persist.kind->imaged(&story->kept.persist, generation);
    kept_note(&story->kept, story->table);
}

static void change(struct story *story)
{
    if (!story->limits)
        return;
    const char *texts[] = {story->limits->limits, story->limits->next, story->limits->last};
    const char *text = texts[++story->changes % 3];
    CHECK(weir_table_announce(story->table, text, NULL));
    kept_note(&story->kept, story->table);
    story->now += 2 * TABLE_GRACE_NS;
    (void)weir_table_sweep_at(story->table, story->now, 1 << 20); /* as recovery does */
    CHECK(weir_table_set_at(story->table, story->now, text, NULL));
    kept_note(&story->kept, story->table);
}

static void change_own(struct story *story, uint64_t key)
{
    static const char *const limits[] = {
        "7/s burst=9", "4/s algo=fixed-window", "20/s algo=sliding-log", "9/s burst=30, 50/min", NULL, NULL};
    if (story->limits && !story->crowded)
        CHECK(weir_table_override_at(story->table, story->now, NAME(story, key), limits[roll(story, 0, 5)],
                                     NULL));
}

static void take_two(struct story *story, uint64_t key)
{
    uint64_t other = (uint64_t)roll(story, 1, KEYS);
    struct weir_ask asks[] = {
        {.table = story->table,
         .key = story->names[key].bytes,
         .len = story->names[key].len,
         .n = roll(story, 1, 4)},
        {.table = story->table,
         .key = story->names[other].bytes,
         .len = story->names[other].len,
         .n = roll(story, 1, 4)},
    };
    if (story->limits && !story->crowded) /* who asks for both may come in and take nothing */
        (void)weir_take_all_at(asks, 2, story->now);
}

static void promise(struct story *story, uint64_t key)
{
    if (!story->limits)
        return;
    story->promised_to = key;
    (void)weir_table_reserve_at(story->table, story->now, NAME(story, key), roll(story, 1, 6),
                                roll(story, 0, 3) * WEIR_SEC, &story->promise, NULL);
}

static void cancel(struct story *story)
{
    if (story->promised_to)
        (void)weir_table_cancel_at(story->table, story->now, NAME(story, story->promised_to),
                                   &story->promise);
    story->promised_to = 0;
}

static void take(struct story *story, uint64_t key)
{
    struct weir_own_limit own = own_limit(story);
    int64_t n = roll(story, 1, 6);
    if (story->limits)
        (void)weir_table_take_at(story->table, story->now, NAME(story, key), n, NULL);
    else
        (void)weir_table_take_own_at(story->table, story->now, NAME(story, key), &own, n, NULL);
}

static void give(struct story *story, uint64_t key)
{
    struct weir_own_limit own = own_limit(story);
    int64_t n = roll(story, 1, 6);
    if (story->limits)
        weir_table_give_at(story->table, story->now, NAME(story, key), n);
    else
        (void)weir_table_give_own_at(story->table, story->now, NAME(story, key), &own, n, NULL);
}

static void pass_time(struct story *story)
{
    story->now += rng_magnitude(&story->rng, 3 * WEIR_SEC);
    weir_clock_set(story->now);
}

static void go_on(struct story *story)
{
    uint64_t key = (uint64_t)roll(story, 1, KEYS);
    int64_t what = roll(story, 0, 79);
    if (what < 4)
        give(story, key);
    else if (what < 8)
        weir_table_reset_at(story->table, story->now, NAME(story, key));
    else if (what < 12 && story->limits)
        (void)weir_table_charge_at(story->table, story->now, NAME(story, key), roll(story, 1, 30));
    else if (what < 16)
        promise(story, key);
    else if (what < 20)
        cancel(story);
    else if (what < 24)
        change_own(story, key);
    else if (what < 28)
        take_two(story, key);
    else if (what < 29)
        change(story);
    else if (what < 30)
        image(story);
    else if (what < 34)
        (void)weir_table_sweep_at(story->table, story->now, 8);
    else if (what < 42)
        kept_commit(&story->kept);
    else if (what < 54)
        pass_time(story);
    else
        take(story, key);
}

/* ---- the end ---- */

static bool owns_alike(struct story *story, struct weir_table *copy)
{
    for (int i = 0; i < 100; i++) {
        struct weir_own_limit own = own_limit(story);
        struct weir_verdict one, other;
        uint64_t key = (uint64_t)roll(story, 1, KEYS);
        int64_t n = roll(story, 1, 6), time = story->now + i * 10 * WEIR_MS;
        bool yes = weir_table_take_own_at(story->table, time, NAME(story, key), &own, n, &one);
        if (!CHECK_EQ(weir_table_take_own_at(copy, time, NAME(story, key), &own, n, &other), yes) ||
            !CHECK(same_verdict(&one, &other)))
            return false;
    }
    return true;
}

/* Numbers of two verdicts may be of two limits; what passes can be compared. */
static bool is_no_better(struct story *story, struct weir_table *copy, uint64_t key)
{
    for (int64_t n = 1; n <= 64; n++)
        if (weir_table_peek_at(copy, story->now, NAME(story, key), n, NULL) &&
            !weir_table_peek_at(story->table, story->now, NAME(story, key), n, NULL))
            return false;
    return true;
}

/* Where keys share, only peeks can be compared: the copy may have room for who had none, and does not know
 * who has taken from what is shared: everybody may have. So nobody gets more there. */
static bool peeks_alike(struct story *story, struct weir_table *copy)
{
    bool same = true;
    for (uint64_t key = 1; story->limits && key <= KEYS; key++) {
        struct weir_verdict one, other;
        (void)weir_table_peek_at(story->table, story->now, NAME(story, key), 1, &one);
        (void)weir_table_peek_at(copy, story->now, NAME(story, key), 1, &other);
        same = CHECK(same_verdict(&one, &other) || is_no_better(story, copy, key)) && same;
    }
    return same;
}

static bool same_limits(struct story *story, struct weir_table *copy)
{
    char one[4096], other[4096];
    (void)weir_table_text(story->table, one, sizeof one);
    (void)weir_table_text(copy, other, sizeof other);
    bool same =
        CHECK_STR(other, one) && CHECK_EQ(weir_table_generation(copy), weir_table_generation(story->table));
    for (uint64_t key = 1; story->limits && key <= KEYS; key++) {
        (void)weir_table_override_text(story->table, NAME(story, key), one, sizeof one);
        (void)weir_table_override_text(copy, NAME(story, key), other, sizeof other);
        same = CHECK_STR(other, one) && same;
    }
    return same;
}

static bool alike(struct story *story, struct weir_table *copy)
{
    bool same = same_limits(story, copy);
    if (story->promised_to && !story->crowded) {
        struct weir_reservation promise = story->promise;
        bool off =
            weir_table_cancel_at(story->table, story->now, NAME(story, story->promised_to), &story->promise);
        same = CHECK_EQ(weir_table_cancel_at(copy, story->now, NAME(story, story->promised_to), &promise),
                        off) &&
               same;
    }
    if (story->crowded)
        return peeks_alike(story, copy) && same;
    return (story->limits ? names_alike(story->table, copy, story->now, story->names + 1, KEYS)
                          : owns_alike(story, copy)) &&
           same;
}

static bool finish(struct story *story)
{
    kept_commit(&story->kept);
    story->now += 2 * TABLE_GRACE_NS; /* a key that came in and took nothing goes as well */
    (void)weir_table_sweep_at(story->table, story->now, 1 << 20);
    for (size_t i = 0; i < story->from; i++)
        free(story->kept.records[i]);
    story->kept.count -= story->from;
    if (story->from > 0)
        memmove(story->kept.records, story->kept.records + story->from, story->kept.count * sizeof(void *));
    if (roll(story, 0, 3) > 0)
        kept_shuffle(&story->kept, &story->rng);
    struct weir_table *copy = kept_recover(&story->kept, 0, &story->rng, TABLE_EXACT, story->now);
    story->table->region->persist = NULL;
    bool same = copy && alike(story, copy);
    weir_table_free(copy);
    return same;
}

/* Hashes are of 8 bytes; whole keys as long as they may be, or shorter, and with other ends. */
static void name_keys(struct story *story, size_t key_max)
{
    for (uint64_t key = 1; key <= KEYS; key++) {
        struct kept_name *name = &story->names[key];
        *name = kept_number(key);
        if (key_max == 0)
            continue;
        name->len = key % 2 ? key_max : 1 + key % key_max;
        memset(name->bytes + 1, (int)key % 3, sizeof name->bytes - 1);
    }
}

/* The second key is called the same as the first. */
static void make_twins(struct story *story)
{
    const struct weir_table *table = story->table;
    struct exact_name name = weir_exact_name(table, NAME(story, 1));
    name.rest++;
    story->names[2].len = exact_bytes(&table->region->key, &table->exact, &name, story->names[2].bytes);
    CHECK(table_hash(table, NAME(story, 2)) == name.hash);
}

static bool tell(uint64_t number, const struct kept_limits *limits, bool whole, bool crowded)
{
    struct story story = {.rng = rng_new(number), .limits = limits, .now = START, .crowded = crowded};
    struct weir_table_options options = {.keys = crowded ? 1 : 64, .no_top = 1, .overrides = KEYS};
    if (!limits)
        options = (struct weir_table_options){.keys = options.keys, .no_top = 1, .own_limits = 1};
    else if (whole)
        options.key_max = (size_t)roll(&story, 0, 3) ? (size_t)roll(&story, 1, EXACT_BYTES) : 20;
    weir_clock_set(story.now);
    story.table = kept_table(limits ? limits->limits : NULL, options);
    name_keys(&story, options.key_max);
    if (story.table->is_exact && options.key_max == EXACT_BYTES && crowded)
        make_twins(&story);
    kept_begin(&story.kept, story.table);
    for (int64_t i = roll(&story, 5, 120); i > 0; i--)
        go_on(&story);
    bool same = finish(&story);
    if (!same)
        printf("# story %" PRIu64 ": %s, key_max %zu%s\n", number,
               limits ? limits->limits : "limits of each call", options.key_max, crowded ? ", crowded" : "");
    kept_end(&story.kept);
    weir_table_free(story.table);
    return same;
}

static void tell_all(bool whole, bool crowded)
{
    int64_t count = stories();
    for (int64_t i = 0; i < count; i++) {
        size_t which = (size_t)i % (KEPT_LIMITS + 1);
        const struct kept_limits *limits = which < KEPT_LIMITS ? &kept_limits[which] : NULL;
        if (!tell((uint64_t)i * 4 + whole * 2 + crowded, limits, whole, crowded))
            break;
    }
    weir_clock_set(-1);
}

TEST(a_table_comes_back_as_it_was)
{
    tell_all(false, false);
}

TEST(whole_keys_come_back_as_they_were)
{
    tell_all(true, false);
}

TEST(what_keys_without_room_share_comes_back)
{
    tell_all(false, true);
    tell_all(true, true);
}
