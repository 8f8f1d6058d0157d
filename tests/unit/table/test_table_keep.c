/* SPDX-License-Identifier: MIT */
/*
 * Tables that are kept: descriptions, records that make no sense, what is lost, what is too large. That they
 * come back as they were is told by prop-keep.
 */
#define _POSIX_C_SOURCE 200809L
#include <sys/wait.h>
#include <unistd.h>

#include "unit/table/keep_kit.h"

#define TEN  "10/s burst=20"
#define MUCH (WEIR_SEC * 1000)

static bool take(struct weir_table *table, int64_t now, uint64_t key, int64_t n)
{
    return weir_table_take_at(table, now, &key, sizeof key, n, NULL);
}

static int64_t left(struct weir_table *table, int64_t now, uint64_t key)
{
    struct weir_verdict verdict;
    (void)weir_table_peek_at(table, now, &key, sizeof key, 1, &verdict);
    return verdict.remaining;
}

static void end(struct kept *kept, struct weir_table *table, struct weir_table *copy)
{
    kept_end(kept);
    weir_table_free(table);
    weir_table_free(copy);
    weir_clock_set(-1);
}

/* ---- what is listed ---- */

TEST(a_refusal_lists_nothing)
{
    for (size_t i = 0; i < KEPT_LIMITS; i++) {
        struct weir_table *table =
            kept_table(kept_limits[i].limits, (struct weir_table_options){.keys = 100});
        struct kept kept;
        kept_begin(&kept, table);
        bool unlimited = strcmp(kept_limits[i].limits, "unlimited") == 0;
        for (int n = 0; n < 1000 && take(table, START, 1, 1); n++) {
        }
        kept_commit(&kept);
        CHECK_EQ(kept.count, !unlimited);
        CHECK_EQ(take(table, START, 1, 1), unlimited);
        (void)left(table, START, 1);
        kept_commit(&kept);
        CHECK_EQ(kept.count, unlimited ? 0 : 1); /* one that counts refusals counts to a limit */
        end(&kept, table, NULL);
    }
}

TEST(a_key_that_is_taken_from_often_is_one_record)
{
    struct weir_table *table = kept_table(TEN, (struct weir_table_options){.keys = 100});
    struct kept kept;
    kept_begin(&kept, table);
    for (int i = 0; i < 10; i++)
        CHECK(take(table, START, 1, 1));
    kept_commit(&kept);
    CHECK_EQ(kept.count, 1);
    end(&kept, table, NULL);
}

TEST(a_copy_in_a_child_is_kept_by_nobody)
{
    struct weir_table *table = kept_table(TEN, (struct weir_table_options){.keys = 100});
    struct kept kept;
    int status = 0;
    kept_begin(&kept, table);
    (void)take(table, START, 1, 1);
    pid_t child = fork();
    if (child == 0)
        _exit(table->region->persist == NULL && take(table, START, 2, 1) && weir_dirty->count == 0 ? 0 : 1);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(table->region->persist == &kept.persist);
    CHECK_EQ(weir_dirty->count, 1);
    end(&kept, table, NULL);
}

TEST(an_image_leaves_out_who_is_as_if_never_used)
{
    static const char *const limits[] = {TEN, "10/s algo=fixed-window"};
    for (int i = 0; i < 2; i++) {
        struct weir_table *table = kept_table(limits[i], (struct weir_table_options){.keys = 1000});
        struct kept kept;
        kept_begin(&kept, table);
        for (uint64_t key = 1; key <= 100; key++)
            (void)take(table, key <= 90 ? START : START + 5 * WEIR_SEC, key, 5);
        weir_clock_set(START + 5 * WEIR_SEC);
        kept_image(&kept);
        CHECK_EQ(kept.count, 10 + (i == 0)); /* words: and what is shared */
        end(&kept, table, NULL);
    }
}

/* ---- descriptions ---- */

static const struct weir_table_options many_options[] = {
    {.keys = 100},
    {.keys = 5000, .when_full = WEIR_FULL_REFUSE, .no_top = 1, .overrides = 3, .name_bytes = 100000},
    {.keys = 300, .key_max = 33},
    {.keys = 200, .key_max = 16},
};
enum { MANY_OPTIONS = sizeof many_options / sizeof many_options[0] };

static bool same_bytes(struct buffer *a, struct buffer *b)
{
    return buffer_len(a) == buffer_len(b) && memcmp(buffer_bytes(a), buffer_bytes(b), buffer_len(a)) == 0;
}

TEST(a_table_that_is_read_describes_itself_alike)
{
    for (size_t i = 0; i <= MANY_OPTIONS; i++) {
        bool own = i == MANY_OPTIONS;
        struct weir_table_options options = {.keys = 70, .own_limits = 1, .horizon_ns = MUCH};
        struct weir_table *table = kept_table(own ? NULL : TEN, own ? options : many_options[i]);
        struct buffer first = {0}, second = {0};
        struct weir_error err;
        if (!own) {
            CHECK(weir_table_set_at(table, START, "20/s burst=20", NULL));
            CHECK(weir_table_set_at(table, START + 1, "30/s burst=20", NULL));
        }
        weir_table_describe(table, &first);
        CHECK_EQ(buffer_len(&first) % 8, 0);
        struct weir_table *copy = weir_table_describe_read(buffer_bytes(&first), buffer_len(&first), &err);
        if (CHECK(copy != NULL)) {
            CHECK(weir_table_recovered(copy, TABLE_EXACT, START));
            weir_table_describe(copy, &second);
            CHECK(same_bytes(&first, &second));
            CHECK_EQ(weir_table_generation(copy), own ? 0 : 2);
        }
        weir_buffer_free(&first);
        weir_buffer_free(&second);
        weir_table_free(table);
        weir_table_free(copy);
    }
}

TEST(a_table_that_has_grown_is_as_large_again)
{
    for (int i = 0; i < 2; i++) {
        struct weir_table *table =
            kept_table(i ? "10/s algo=fixed-window" : TEN, (struct weir_table_options){.keys = 500});
        struct kept kept;
        struct weir_table_info one, other;
        kept_begin(&kept, table);
        CHECK(weir_table_grow(table, 4000, NULL));
        kept_note(&kept, table);
        struct weir_table *copy = kept_recover(&kept, 0, NULL, TABLE_EXACT, START);
        weir_table_stat_at(table, START, &one);
        weir_table_stat_at(copy, START, &other);
        CHECK_EQ(other.capacity, one.capacity);
        CHECK(other.slots + 100 > one.slots);
        end(&kept, table, copy);
    }
}

TEST(a_description_that_makes_no_sense_is_refused)
{
    struct rng rng = rng_new(1);
    for (size_t i = 0; i < MANY_OPTIONS; i++) {
        struct weir_table *table = kept_table(TEN, many_options[i]);
        struct buffer out = {0};
        struct weir_error err;
        weir_table_describe(table, &out);
        char *bytes = buffer_bytes(&out);
        size_t len = buffer_len(&out);
        for (size_t cut = 0; cut < len; cut++)
            CHECK(!weir_table_describe_read(bytes, cut, &err) && err.code == EINVAL);
        for (int n = 0; n < 3000;
             n++) { /* what it makes of these matters less than that it makes something */
            size_t at = (size_t)rng_between(&rng, 0, (int64_t)len - 1);
            char before = bytes[at];
            if (at >= 24 && at < 72) /* room: even 2^40 keys may fit */
                continue;
            bytes[at] = (char)(before ^ (1 << rng_between(&rng, 0, 7)));
            weir_table_free(weir_table_describe_read(bytes, len, &err));
            bytes[at] = before;
        }
        bytes[4] = 3;
        CHECK(!weir_table_describe_read(bytes, len, &err));
        CHECK_STR(err.text, "the table was written by a later weir: update this one");
        weir_buffer_free(&out);
        weir_table_free(table);
    }
}

/* ---- frozen ---- */

TEST(the_bytes_of_records_are_frozen)
{
    static const char word[] = "0807060504030201"
                               "0c00000000000100"
                               "0094357700000000";
    struct state_word {
        uint64_t hash, number, word;
    } record = {UINT64_C(0x0102030405060708), record_number(12, 1), UINT64_C(2000000000)};
    char text[49] = "";
    for (size_t i = 0; i < sizeof record; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", ((unsigned char *)&record)[i]);
    CHECK_STR(text, word);
    CHECK_EQ(TABLE_WORD, 1);
    CHECK_EQ(TABLE_WIDE, 2);
    CHECK_EQ(TABLE_OVERRIDE, 3);
    CHECK_EQ(TABLE_GONE, 4);
    CHECK_EQ(TABLE_PART, 5);
}

TEST(of_two_records_the_later_counts)
{
    CHECK(record_counts(record_number(2, 0), 1, record_number(1, 9), 9));
    CHECK(!record_counts(record_number(1, 9), 9, record_number(2, 0), 1));
    CHECK(record_counts(record_number(2, 0), 1, record_number(2, UINT64_C(0xFFFF)), 9)); /* they go round */
    CHECK(record_counts(record_number(2, 5), 1, record_number(2, 4), 9));
    CHECK(record_counts(record_number(2, 5), 2, record_number(2, 5), 1));
    CHECK(!record_counts(record_number(2, 5), 1, record_number(2, 5), 1));
    CHECK(record_spent(slot_pack(SLOT_PROMISED, 0, 5)) > record_spent(slot_pack(SLOT_PLAIN, 0, 5)));
    CHECK(record_spent(slot_pack(SLOT_PLAIN, 0, 6)) > record_spent(slot_pack(SLOT_PROMISED, 0, 5)));
    CHECK_EQ(record_number(UINT64_MAX, 0), RECORD_NUMBER_MAX);
}

/* ---- records from nowhere ---- */

static void spoil(struct rng *rng, struct kept_record *record)
{
    unsigned char *bytes = (unsigned char *)record->body;
    switch (rng_between(rng, 0, 4)) {
    case 0:
        record->kind = (uint8_t)rng_between(rng, 0, 8);
        break;
    case 1:
        record->len = (size_t)rng_between(rng, 0, (int64_t)record->len / 8) * 8;
        break;
    case 2:
        record->body[rng_between(rng, 0, 3) % (int64_t)(record->len / 8)] = rng_next(rng);
        break;
    case 3:
        record->body[rng_between(rng, 0, (int64_t)(record->len / 8) - 1)] =
            (uint64_t)rng_magnitude(rng, INT64_MAX);
        break;
    default:
        bytes[rng_between(rng, 0, (int64_t)record->len - 1)] ^= (unsigned char)(1 << rng_between(rng, 0, 7));
    }
}

/* Some of them make sense after all. No harm comes of any, and the table decides as ever. */
static void apply_spoilt(struct kept *kept, struct rng *rng)
{
    struct weir_table *copy =
        weir_table_describe_read(buffer_bytes(&kept->described), buffer_len(&kept->described), NULL);
    struct persist persist = kept->persist;
    persist.owner = copy;
    for (size_t i = 0; i < kept->count; i++) {
        struct kept_record *record = malloc(sizeof *record + kept->records[i]->len);
        bool failed = false;
        memcpy(record, kept->records[i], sizeof *record + kept->records[i]->len);
        spoil(rng, record);
        (void)persist.kind->apply(&persist, record->kind, (const unsigned char *)record->body, record->len,
                                  &failed);
        free(record);
    }
    (void)weir_table_recovered(copy, TABLE_EXACT, START);
    for (uint64_t key = 1; key <= 10; key++) {
        (void)take(copy, START + WEIR_SEC, key, 1);
        weir_table_give_at(copy, START + WEIR_SEC, &key, sizeof key, 3);
    }
    (void)weir_table_sweep_at(copy, START + MUCH, 100000);
    weir_table_free(copy);
}

TEST(records_that_make_no_sense_do_no_harm)
{
    struct rng rng = rng_new(2);
    for (size_t i = 0; i < KEPT_LIMITS; i++)
        for (size_t whole = 0; whole <= 24; whole += 12) {
            struct weir_table *table =
                kept_table(kept_limits[i].limits, (struct weir_table_options){.keys = 60, .key_max = whole});
            struct kept kept;
            kept_begin(&kept, table);
            for (uint64_t key = 1; key <= 10; key++) {
                (void)take(table, START, key, 3);
                if (key % 3 == 0)
                    CHECK(
                        weir_table_override_at(table, START, &key, sizeof key, "5/s algo=sliding-log", NULL));
            }
            CHECK(weir_table_set_at(table, START, kept_limits[i].next, NULL));
            (void)take(table, START + WEIR_SEC, 1, 1);
            kept_commit(&kept);
            kept_note(&kept, table);
            for (int n = 0; n < 60; n++)
                apply_spoilt(&kept, &rng);
            end(&kept, table, NULL);
        }
}

TEST(a_record_of_limits_that_nobody_knows_makes_no_sense)
{
    struct weir_table *table = kept_table(TEN, (struct weir_table_options){.keys = 100});
    struct kept kept;
    bool failed = false;
    kept_begin(&kept, table);
    CHECK(weir_table_set_at(table, START, "20/s burst=20", NULL)); /* not announced, not noted */
    CHECK(take(table, START, 1, 1));
    kept_commit(&kept);
    struct weir_table *copy =
        weir_table_describe_read(buffer_bytes(&kept.described), buffer_len(&kept.described), NULL);
    struct persist persist = kept.persist;
    persist.owner = copy;
    CHECK(!persist.kind->apply(&persist, kept.records[0]->kind, (unsigned char *)kept.records[0]->body,
                               kept.records[0]->len, &failed));
    CHECK(!failed);
    end(&kept, table, copy);
}

/* ---- live changes ---- */

TEST(limits_that_were_announced_and_came_count)
{
    struct weir_table *table = kept_table(TEN, (struct weir_table_options){.keys = 100});
    struct kept kept;
    char text[100];
    kept_begin(&kept, table);
    CHECK(take(table, START, 1, 20));
    CHECK(take(table, START, 2, 20));
    kept_commit(&kept);
    CHECK(weir_table_announce(table, "1/s burst=20", NULL));
    kept_note(&kept, table);
    CHECK(weir_table_set_at(table, START + WEIR_SEC, "1/s burst=20", NULL));
    CHECK(take(table, START + WEIR_SEC, 1, 1));
    kept_commit(&kept);
    struct weir_table *copy = kept_recover(&kept, 0, NULL, TABLE_EXACT, START + WEIR_SEC);
    (void)weir_table_text(copy, text, sizeof text);
    CHECK_STR(text, "1/s burst=20");
    CHECK_EQ(left(copy, START + WEIR_SEC, 1), 9);
    CHECK_EQ(left(copy, START + WEIR_SEC, 2), 10); /* as of recovery, for nobody noted the time */
    CHECK(take(copy, START + WEIR_SEC, 2, 10));
    CHECK(!take(copy, START + WEIR_SEC, 2, 1));
    end(&kept, table, copy);
}

TEST(limits_that_were_announced_and_did_not_come_do_not_count)
{
    struct weir_table *table = kept_table(TEN, (struct weir_table_options){.keys = 100});
    struct kept kept;
    struct weir_error err;
    char text[100];
    kept_begin(&kept, table);
    CHECK(take(table, START, 1, 20));
    CHECK(!weir_table_announce(table, "1/s burst=banana", &err) && err.code == EINVAL);
    CHECK(weir_table_announce(table, "1/s burst=20", &err));
    kept_note(&kept, table);
    kept_commit(&kept);
    struct weir_table *copy = kept_recover(&kept, 0, NULL, TABLE_EXACT, START);
    (void)weir_table_text(copy, text, sizeof text);
    CHECK_STR(text, TEN);
    CHECK_EQ(weir_table_generation(copy), 0);
    CHECK_EQ(left(copy, START + WEIR_SEC, 1), 10);
    struct buffer before = {0}, after = {0};
    CHECK(weir_table_announce(table, NULL, &err));
    weir_table_describe(table, &before);
    weir_table_describe(copy, &after);
    CHECK(same_bytes(&before, &after));
    weir_buffer_free(&before);
    weir_buffer_free(&after);
    end(&kept, table, copy);
}

TEST(limits_that_no_record_is_of_are_forgotten)
{
    struct weir_table *table = kept_table(TEN, (struct weir_table_options){.keys = 100});
    struct kept kept;
    kept_begin(&kept, table);
    size_t before = buffer_len(&kept.described);
    for (int i = 0; i < 50; i++)
        CHECK(weir_table_set_at(table, START, i % 2 ? TEN : "20/s burst=20", NULL));
    kept_note(&kept, table);
    CHECK(buffer_len(&kept.described) > before + 50 * 24);
    kept.persist.kind->imaged(&kept.persist, 50);
    kept_note(&kept, table);
    CHECK(buffer_len(&kept.described) < before + 100); /* those of 49, too: see persist.h */
    struct weir_table *copy = kept_recover(&kept, 0, NULL, TABLE_EXACT, START);
    CHECK_EQ(weir_table_generation(copy), 50);
    CHECK(weir_table_set_at(copy, START, "30/s burst=20", NULL));
    end(&kept, table, copy);
}

TEST(too_many_changes_wait_for_an_image)
{
    struct weir_table *table = kept_table(TEN, (struct weir_table_options){.keys = 10, .no_top = 1});
    struct kept kept;
    struct weir_error err;
    int changes = 0;
    uint64_t misses = weir_dirty_misses;
    kept_begin(&kept, table);
    for (; changes < 256; changes++)
        CHECK(kept.wanted == 0 && weir_table_set_at(table, START, changes % 2 ? TEN : "20/s burst=20", &err));
    while (weir_table_set_at(table, START, changes % 2 ? TEN : "20/s burst=20", &err) && changes < 10000)
        changes++;
    CHECK_EQ(changes, 4095);
    CHECK_EQ(err.code, EAGAIN);
    CHECK_EQ(kept.wanted, 4096 - 255);
    CHECK_EQ(weir_dirty_misses, misses); /* nothing is wrong with the store */
    kept.persist.kind->imaged(&kept.persist, weir_table_generation(table));
    CHECK(weir_table_set_at(table, START, "30/s burst=20", &err));
    end(&kept, table, NULL);
}

/* ---- what is large ---- */

TEST(a_state_that_is_too_long_for_a_record_comes_in_pieces)
{
    struct weir_table *table = kept_table("10000/h algo=sliding-log, 9000/min algo=sliding-log",
                                          (struct weir_table_options){.keys = 4, .no_top = 1, .key_max = 20});
    struct kept kept;
    kept_begin(&kept, table);
    for (int i = 0; i < 50; i++)
        CHECK(take(table, START + i, 1, 100));
    kept_commit(&kept);
    CHECK(kept.count > 3);
    CHECK(take(table, START + 60, 1, 1));
    size_t first = kept.count;
    kept_commit(&kept);
    struct weir_table *copy = kept_recover(&kept, 0, NULL, TABLE_EXACT, START + 60);
    CHECK(answers_alike(table, copy, START + 100, 2));
    weir_table_free(copy);
    kept.records[kept.count - 1]->body[2] += 8; /* a piece that does not follow: the record is none */
    copy = weir_table_describe_read(buffer_bytes(&kept.described), buffer_len(&kept.described), NULL);
    struct persist persist = kept.persist;
    bool failed = false;
    persist.owner = copy;
    for (size_t i = 0; i < kept.count; i++)
        CHECK_EQ(persist.kind->apply(&persist, kept.records[i]->kind, (unsigned char *)kept.records[i]->body,
                                     kept.records[i]->len, &failed),
                 i + 1 < kept.count || first == 0);
    CHECK(weir_table_recovered(copy, TABLE_EXACT, START + 60));
    CHECK_EQ(left(copy, START + 60, 1), 4000);
    end(&kept, table, copy);
}

TEST(no_state_is_lost_for_want_of_room)
{
    static const char *const limits[] = {"1/h burst=3", "3/h algo=fixed-window"};
    for (int i = 0; i < 2; i++) {
        struct weir_table *table = kept_table(limits[i], (struct weir_table_options){.keys = 4000});
        struct weir_table *small = kept_table(limits[i], (struct weir_table_options){.keys = 100});
        struct kept kept;
        weir_clock_set(START);
        kept_begin(&kept, table);
        for (uint64_t key = 1; key <= 4000; key++)
            CHECK(take(table, START, key, 2));
        kept_commit(&kept);
        weir_buffer_free(&kept.described);
        weir_table_describe(small, &kept.described);
        struct weir_table *copy = kept_recover(&kept, 0, NULL, TABLE_EXACT, START);
        for (uint64_t key = 1; key <= 4000; key++)
            CHECK_EQ(left(copy, START, key), 1);
        weir_table_free(small);
        end(&kept, table, copy);
    }
}

TEST(numbers_go_on_after_recovery)
{
    static const char *const limits[] = {TEN, "10/s algo=fixed-window"};
    for (int i = 0; i < 2; i++) {
        struct weir_table *table = kept_table(limits[i], (struct weir_table_options){.keys = 100});
        struct kept kept;
        kept_begin(&kept, table);
        uint64_t highest = 0;
        for (uint64_t key = 1; key <= 20; key++) {
            CHECK(take(table, START, key, 2));
            kept_commit(&kept);
        }
        for (size_t k = 0; k < kept.count; k++)
            if ((kept.records[k]->body[1] & RECORD_NUMBER_MAX) > highest)
                highest = kept.records[k]->body[1] & RECORD_NUMBER_MAX;
        struct weir_table *copy = kept_recover(&kept, 0, NULL, TABLE_EXACT, START);
        struct kept again;
        kept_begin(&again, copy);
        for (uint64_t key = 1; key <= 25; key++)
            CHECK(take(copy, START, key, 2));
        kept_commit(&again);
        for (size_t k = 0; k < again.count; k++)
            CHECK((again.records[k]->body[1] & RECORD_NUMBER_MAX) > highest);
        kept_end(&again);
        end(&kept, table, copy);
    }
}

/* ---- after a loss ---- */

struct event {
    int64_t time, n;
};

/* Of a log the last moment does not count. */
static int64_t most(const struct weir_policy *policy, int64_t span)
{
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < weir_policy_count(policy); i++) {
        bool is_log = weir_policy_spec(policy, i)->algo == WEIR_SLIDING_LOG;
        int64_t units = weir_policy_most(policy, i, span + is_log);
        least = units < least ? units : least;
    }
    return least;
}

static void check_law(const struct weir_policy *policy, const struct event *events, size_t count,
                      const char *limits)
{
    for (size_t i = 0; i < count; i++) {
        int64_t sum = 0;
        for (size_t j = i; j < count; j++) {
            sum += events[j].n;
            if (!CHECK(sum <= most(policy, events[j].time - events[i].time))) {
                printf("# %s: %" PRId64 " in %" PRId64 " ns\n", limits, sum, events[j].time - events[i].time);
                return;
            }
        }
    }
}

/* Greedy for some seconds; most of the records are lost; greedy again. */
static void crash(const char *limits, struct weir_table_options options, struct rng *rng)
{
    enum { KEYS = 5, EVENTS = 4000 };
    static struct event events[KEYS + 1][EVENTS];
    size_t counts[KEYS + 1] = {0};
    struct weir_table *table = kept_table(limits, options), *copy = NULL;
    struct weir_policy *policy = weir_policy_new(limits, NULL);
    struct kept kept;
    int64_t now = START;
    kept_begin(&kept, table);
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < 400; i++) {
            uint64_t key = (uint64_t)rng_between(rng, 1, half ? KEYS : KEYS - 1); /* one is new */
            while (rng_between(rng, 0, 9) > 0 && take(half ? copy : table, now, key, 1))
                events[key][counts[key]++] = (struct event){now, 1};
            if (!half && rng_between(rng, 0, 3) == 0)
                kept_commit(&kept);
            now += rng_magnitude(rng, 50 * WEIR_MS);
        }
        if (half)
            break;
        kept_commit(&kept);
        size_t left_over = 0;
        for (size_t i = 0; i < kept.count; i++) {
            if (rng_between(rng, 0, 2) == 0)
                kept.records[left_over++] = kept.records[i];
            else
                free(kept.records[i]);
        }
        kept.count = left_over;
        copy = kept_recover(&kept, 0, rng, TABLE_FLOOR, now);
    }
    for (uint64_t key = 1; key <= KEYS; key++)
        check_law(policy, events[key], counts[key], limits);
    weir_policy_free(policy);
    end(&kept, table, copy);
}

TEST(with_floor_the_law_holds_whatever_was_lost)
{
    struct rng rng = rng_new(3);
    for (size_t i = 0; i < KEPT_LIMITS; i++)
        for (int round = 0; round < 4; round++) {
            if (strcmp(kept_limits[i].limits, "unlimited") == 0)
                continue;
            crash(kept_limits[i].limits, (struct weir_table_options){.keys = 50}, &rng);
            crash(kept_limits[i].limits,
                  (struct weir_table_options){.keys = 50, .key_max = round % 2 ? 20 : 8}, &rng);
        }
}

/* A job leaves in the first of its slots, and keeps them all: so may one that was lost. */
TEST(with_floor_all_slots_of_a_leaky_bucket_are_taken)
{
    struct weir_table *table =
        kept_table("10/s algo=leaky-bucket queue=4", (struct weir_table_options){.keys = 50});
    struct kept kept;
    kept_begin(&kept, table);
    CHECK(take(table, START, 1, 5));
    struct weir_table *copy = kept_recover(&kept, 0, NULL, TABLE_FLOOR, START); /* of nothing */
    CHECK(!take(copy, START + 400 * WEIR_MS, 1, 1));
    CHECK(take(copy, START + 500 * WEIR_MS, 1, 1));
    end(&kept, table, copy);
}

static int64_t left_of(struct weir_table *table, int64_t now, uint64_t key)
{
    struct weir_verdict verdict;
    (void)weir_table_peek_at(table, now, &key, sizeof key, 1, &verdict);
    return verdict.remaining;
}

/* Of keys that are not in the table, too: they begin with what is shared, which is spent. */
TEST(after_floor_units_are_given_and_keys_reset)
{
    static const char *const all[] = {"10/d burst=10", "10/d burst=10, 100/30d burst=100",
                                      "10/d algo=sliding-log"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct weir_table *table = kept_table(all[i], (struct weir_table_options){.keys = 8});
        struct kept kept;
        kept_begin(&kept, table);
        CHECK(take(table, START, 1, 5));
        kept_commit(&kept);
        struct weir_table *copy = kept_recover(&kept, 0, NULL, TABLE_FLOOR, START);
        for (uint64_t key = 1; key <= 3; key += 2) {
            uint64_t other = key + 1;
            CHECK_EQ(left_of(copy, START, key), 0);
            weir_table_reset_at(copy, START, &key, sizeof key);
            CHECK_EQ(left_of(copy, START, key), 10);
            if (i < 2) { /* of a log nothing is taken back that nobody took */
                weir_table_give_at(copy, START, &other, sizeof other, 4);
                CHECK_EQ(left_of(copy, START, other), 4);
            }
        }
        CHECK_EQ(left_of(copy, START, 99), 0); /* of nobody else */
        end(&kept, table, copy);
    }
}

/* It would be everybody's. */
TEST(what_is_shared_is_not_reset_for_a_key_without_room)
{
    static const char *const all[] = {"10/d burst=10", "10/d burst=10, 100/30d burst=100"};
    for (size_t i = 0; i < 2; i++) {
        struct weir_table *table = weir_table_new(all[i], 1, &(struct weir_error){0});
        uint64_t key = 1, last;
        struct weir_table_info info = {0};
        for (; CHECK(key < 1000) && info.shared == 0; key++) {
            CHECK(take(table, START, key, 10));
            weir_table_stat(table, &info);
        }
        last = key - 1; /* has no room */
        weir_table_reset_at(table, START, &last, sizeof last);
        weir_table_give_at(table, START, &last, sizeof last, 5);
        for (uint64_t other = key; other < key + 50; other++)
            CHECK_EQ(left_of(table, START, other), 0);
        weir_table_free(table);
    }
}

/* A word has two bits of its generation: after four changes they are what they were. */
TEST(what_is_shared_is_converted_by_four_changes_of_limits)
{
    struct weir_table *table = kept_table("10/d burst=10", (struct weir_table_options){.keys = 1});
    struct kept kept;
    struct weir_table_info info = {0};
    uint64_t key = 1;
    kept_begin(&kept, table);
    for (; CHECK(key < 1000) && info.shared == 0; key++) {
        CHECK(take(table, START, key, 10));
        weir_table_stat(table, &info);
    }
    kept_commit(&kept);
    for (int i = 0; i < 4; i++)
        CHECK(weir_table_set_at(table, START, i % 2 ? "5/d burst=20" : "10/h burst=20", NULL));
    kept_note(&kept, table);
    struct weir_table *copy = kept_recover(&kept, 0, NULL, TABLE_EXACT, START);
    CHECK_EQ(weir_table_generation(copy), 4);
    CHECK_EQ(left_of(copy, START, key), left_of(table, START, key));
    end(&kept, table, copy);
}

TEST(with_floor_limits_of_each_call_begin_empty)
{
    struct weir_table *table = kept_table(NULL, (struct weir_table_options){.keys = 100, .own_limits = 1});
    struct weir_own_limit ten = {.count = 10, .period_ns = WEIR_SEC, .burst = 20};
    struct weir_own_limit one = {.count = 1, .period_ns = WEIR_SEC, .burst = 3};
    struct weir_verdict verdict;
    struct kept kept;
    kept_begin(&kept, table);
    CHECK(weir_table_take_own_at(table, START, "a", 1, &ten, 5, NULL));
    kept_commit(&kept);
    struct weir_table *copy = kept_recover(&kept, 0, NULL, TABLE_FLOOR, START);
    for (int again = 0; again < 2; again++) {
        for (const char *key = "a"; *key <= 'b'; key = "b") {
            CHECK(!weir_table_peek_own_at(copy, START, key, 1, &ten, 1, &verdict));
            CHECK_EQ(verdict.retry_after_ns, WEIR_SEC / 10);
            CHECK(!weir_table_peek_own_at(copy, START, key, 1, &one, 1, &verdict));
            CHECK_EQ(verdict.retry_after_ns, WEIR_SEC);
            (void)weir_table_peek_own_at(copy, START + 2 * WEIR_SEC, key, 1, &one, 1, &verdict);
            CHECK_EQ(verdict.remaining, 1); /* of two, with the one that was asked for gone */
            if (*key == 'b')
                break;
        }
        kept_note(&kept, copy); /* which is in its description */
        weir_table_free(copy);
        copy = kept_recover(&kept, 0, NULL, TABLE_EXACT, START + 1);
    }
    end(&kept, table, copy);
}

TEST(keys_with_limits_of_their_own_begin_empty_with_floor_and_full_with_optimistic)
{
    static const char *const limits[] = {TEN, "10/s algo=fixed-window"};
    for (int i = 0; i < 2; i++)
        for (int how = TABLE_FLOOR; how <= TABLE_OPTIMISTIC; how++) {
            struct weir_table *table = kept_table(limits[i], (struct weir_table_options){.keys = 100});
            struct kept kept;
            uint64_t key = 1;
            char text[100];
            kept_begin(&kept, table);
            CHECK(weir_table_override_at(table, START, &key, sizeof key, "1/s burst=5", NULL));
            CHECK(take(table, START, 1, 2));
            CHECK(take(table, START, 2, 2));
            kept_commit(&kept);
            struct weir_table *copy = kept_recover(&kept, 0, NULL, (enum table_recover)how, START);
            CHECK_EQ(left(copy, START, 1), how == TABLE_FLOOR ? 0 : 5);
            CHECK_EQ(left(copy, START, 2), how == TABLE_FLOOR ? 0 : i ? 10 : 20);
            CHECK_EQ(left(copy, START, 3), how == TABLE_FLOOR ? 0 : i ? 10 : 20);
            (void)weir_table_override_text(copy, &key, sizeof key, text, sizeof text);
            CHECK_STR(text, "1/s burst=5");
            end(&kept, table, copy);
        }
}
