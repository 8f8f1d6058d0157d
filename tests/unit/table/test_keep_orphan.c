/* SPDX-License-Identifier: MIT */
/*
 * Records of limits whose note is lost: they make no sense, and never will, also when limits are changed
 * again and get the next number.
 */
#include "unit/table/keep_kit.h"

static const uint64_t key = 5;

static struct weir_table *recover(struct kept *kept, int64_t now, size_t unknown)
{
    struct weir_table *table =
        weir_table_describe_read(buffer_bytes(&kept->described), buffer_len(&kept->described), NULL);
    bool failed = false;
    if (!CHECK(table))
        abort();
    kept->persist.owner = table;
    for (size_t i = 0; i < kept->count; i++)
        unknown -= !weir_table_persist_ops.apply(&kept->persist, kept->records[i]->kind,
                                                 (const unsigned char *)kept->records[i]->body,
                                                 kept->records[i]->len, &failed);
    CHECK_EQ(unknown, 0);
    CHECK(!failed && weir_table_recovered(table, TABLE_EXACT, now));
    table->region->persist = &kept->persist;
    kept_note(kept, table);
    return table;
}

static void check_limits(const struct kept_limits *limits, size_t key_max)
{
    struct kept kept;
    struct weir_verdict lost, is;
    struct weir_table *table =
        kept_table(limits->limits, (struct weir_table_options){.keys = 16, .no_top = 1, .key_max = key_max});
    int64_t now = START;
    weir_clock_set(now);
    kept_begin(&kept, table);
    CHECK(weir_table_set_at(table, now, limits->next, NULL)); /* its note does not come to the disk */
    (void)weir_table_take_at(table, now, &key, sizeof key, 1, NULL);
    kept_commit(&kept);
    (void)weir_table_peek_at(table, now, &key, sizeof key, 1, &lost);
    weir_table_free(table);

    table = recover(&kept, now, 1);
    for (int i = 0; i < 3; i++)
        (void)weir_table_take_at(table, now, &key, sizeof key, 1, NULL);
    kept_commit(&kept);
    CHECK(weir_table_announce(table, limits->next, NULL));
    kept_note(&kept, table);
    CHECK(weir_table_set_at(table, now, limits->next, NULL));
    kept_note(&kept, table);
    (void)weir_table_peek_at(table, now, &key, sizeof key, 1, &lost);

    struct weir_table *copy = recover(&kept, now, 1);
    (void)weir_table_peek_at(copy, now, &key, sizeof key, 1, &is);
    if (!CHECK(same_verdict(&is, &lost)))
        printf("# %s: left %" PRId64 ", not %" PRId64 "\n", limits->limits, is.remaining, lost.remaining);
    weir_table_free(copy);
    table->region->persist = NULL;
    weir_table_free(table);
    kept_end(&kept);
}

TEST(a_generation_whose_note_is_lost_is_passed_over)
{
    for (size_t i = 0; i + 1 < KEPT_LIMITS; i++) { /* the last is unlimited, which does not change */
        check_limits(&kept_limits[i], 0);
        check_limits(&kept_limits[i], 8);
        check_limits(&kept_limits[i], 20);
    }
    weir_clock_set(-1);
}
