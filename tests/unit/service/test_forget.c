/* SPDX-License-Identifier: MIT */
/*
 * Limits of before a live change are freed when nobody uses them any more: memory does not grow with the
 * number of changes, and what was spent stays spent.
 */
#include "check.h"
#include "table/change.h"
#include "unit/service/service_kit.h"

static struct weir_table *table_of(const struct kit *kit, const char *name)
{
    struct slice word = {name, strlen(name)};
    return weir_snapshot_policy(atomic_load(&kit->service->snapshot), word)->main->table;
}

/* Limits that are kept for a table, of all generations. */
static int editions(const struct kit *kit, const char *name)
{
    int count = 0;
    for (const struct edition *at = atomic_load(&table_of(kit, name)->edition); at; at = at->older)
        count++;
    return count;
}

static void set_rate(struct kit *kit, const char *name, int rate, const char *behind)
{
    char limits[64];
    (void)snprintf(limits, sizeof limits, "%d/h burst=50%s", rate, behind);
    CHECK(kit_policy(kit, name, limits));
}

TEST(limits_of_before_go_when_nobody_sees_them)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    for (int i = 0; i < 100; i++) {
        set_rate(&kit, "word", 100 + i, "");
        set_rate(&kit, "wide", 100 + i, ", 1000/d");
        if (i == 0) {
            kit_ask(&kit, "WEIR.TAKE word k 30");
            kit_ask(&kit, "WEIR.TAKE wide k 30");
        }
    }
    kit_tick(&kit);
    CHECK_EQ(editions(&kit, "word"), 2); /* and the one before: states are of one of the two */
    CHECK_EQ(editions(&kit, "wide"), 2);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK word k"), "remaining"), 20);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK wide k"), "remaining"), 20);
    kit_close(&kit);
}

TEST(who_is_in_a_read_section_keeps_what_he_may_use)
{
    struct kit kit;
    struct service_options options = {.workers = 2, .test_clock = true};
    if (!CHECK(kit_open_with(&kit, NULL, &options)))
        return;
    struct worker *slow = &kit.service->workers[1];
    set_rate(&kit, "word", 100, "");
    weir_read_begin(slow);
    const struct edition *used = atomic_load(&table_of(&kit, "word")->edition);
    for (int i = 1; i < 10; i++)
        set_rate(&kit, "word", 100 + i, "");
    kit_tick(&kit);
    CHECK_EQ(editions(&kit, "word"), 10);
    CHECK_STR(used->text, "100/h burst=50");
    weir_read_end(slow);
    kit_tick(&kit);
    CHECK_EQ(editions(&kit, "word"), 2);
    kit_close(&kit);
}
