/* SPDX-License-Identifier: MIT */
/*
 * What a root has lent counts until it dies, whatever is changed meanwhile: the size of a chunk, the window,
 * the total. Who holds units of before may spend them until the end that he was told.
 */
#include <stdio.h>

#include "check.h"
#include "service/policies/apply.h"
#include "unit/service/service_kit.h"

#define ROOT(LIMIT, BASE)                                                                                    \
    "policies:\n"                                                                                            \
    "  - name: egress\n"                                                                                     \
    "    limits: [" LIMIT " algo=quota]\n"                                                                   \
    "    fleet: {coordinator: \"local:\", base: " BASE "}\n"

static void tell(void *arg, const struct config_complaint *complaint)
{
    (void)arg;
    char text[COMPLAINT_TEXT_MAX];
    printf("# %s\n", weir_complaint_text(complaint, true, text));
}

static void reload(struct kit *kit, const char *text)
{
    struct weir_error err = {0};
    struct config *config = weir_config_parse("w.yaml", text, strlen(text), tell, NULL);
    if (!CHECK(config && weir_service_apply(kit->service, config, &err)))
        printf("# %s\n", err.text);
    weir_config_free(config);
}

static int64_t lease(struct kit *kit, const char *chunks, int64_t *epoch)
{
    char line[64];
    (void)snprintf(line, sizeof line, "WEIR.LEASE egress %s", chunks);
    const char *answer = kit_ask(kit, line);
    if (epoch)
        *epoch = kit_field(answer, "epoch");
    return kit_field(answer, "units");
}

static int64_t left(struct kit *kit)
{
    return kit_field(kit_ask(kit, "WEIR.LEASE egress 0"), "left");
}

static const char *give_back(struct kit *kit, int64_t epoch, const char *chunks)
{
    char line[96];
    (void)snprintf(line, sizeof line, "WEIR.RETURN egress %lld %s", (long long)epoch, chunks);
    return kit_ask(kit, line);
}

TEST(chunks_of_another_size_are_of_another_epoch)
{
    struct kit kit;
    int64_t first, second;
    if (!CHECK(kit_open(&kit, ROOT("1000/20s", "10"))))
        return;
    kit_clock(&kit, 3000);
    CHECK_EQ(lease(&kit, "2", &first), 20);
    reload(&kit, ROOT("1000/20s", "400"));
    CHECK_EQ(lease(&kit, "2", &second), 800);
    CHECK(second > first);
    CHECK_STR(give_back(&kit, first, "2"), ":0\r\n"); /* as 800 they would be lent twice */
    CHECK_EQ(left(&kit), 180);
    kit_clock(&kit, 20000);
    CHECK_EQ(lease(&kit, "1", &first), 400);
    CHECK(first > second);
    kit_close(&kit);
}

/* A server that leases itself tells the epoch of its coordinator, whatever its chunks are. */
TEST(chunks_come_back_as_so_many_units_as_they_had)
{
    struct kit kit;
    int64_t epoch;
    if (!CHECK(kit_open(&kit, ROOT("1000/20s", "100"))))
        return;
    CHECK_EQ(lease(&kit, "5", &epoch), 500);
    CHECK_STR(give_back(&kit, epoch, "2 20"), ":2\r\n");
    CHECK_EQ(left(&kit), 520);
    CHECK_STR(give_back(&kit, epoch, "2 0"), ":0\r\n");
    CHECK_STR(give_back(&kit, epoch, "9 900"), ":4\r\n"); /* no more than are out, whole ones */
    CHECK_EQ(left(&kit), 920);
    CHECK_STR(give_back(&kit, epoch, "9 900"), ":0\r\n");
    CHECK_STR(give_back(&kit, epoch, "8 80"), ":8\r\n");
    CHECK_EQ(left(&kit), 1000);
    CHECK_STR(give_back(&kit, epoch, "0 80"), ":0\r\n");
    CHECK(strstr(give_back(&kit, epoch, "1 -1"), "units") != NULL);
    CHECK(strstr(give_back(&kit, epoch, "1 100 9"), "syntax") != NULL);
    kit_close(&kit);
}

/* 500 of the old window may be spent until its end: so the windows up to it have 500 together. */
TEST(shorter_windows_begin_when_the_old_one_has_ended)
{
    struct kit kit;
    int64_t epoch, before, all = 0;
    if (!CHECK(kit_open(&kit, ROOT("1000/20s", "500"))))
        return;
    kit_clock(&kit, 100);
    CHECK_EQ(lease(&kit, "1", &before), 500);
    kit_clock(&kit, 600);
    reload(&kit, ROOT("1000/s", "100"));
    for (int64_t now = 600; now < 20000; now += 200) {
        kit_clock(&kit, now);
        all += lease(&kit, "3", &epoch);
        CHECK(epoch > before || now % 1000 != 0);
        before = epoch;
    }
    CHECK_EQ(all, 500);
    for (int64_t now = 20000; now < 23000; now += 1000) {
        kit_clock(&kit, now);
        CHECK_EQ(lease(&kit, "99", &epoch), 1000);
        CHECK(epoch > before);
        before = epoch;
    }
    kit_close(&kit);
}

TEST(shorter_windows_begin_at_once_where_nothing_was_taken)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, ROOT("1000/20s", "500"))))
        return;
    kit_clock(&kit, 600);
    reload(&kit, ROOT("1000/s", "100"));
    CHECK_EQ(lease(&kit, "99", NULL), 1000);
    kit_clock(&kit, 1000);
    CHECK_EQ(lease(&kit, "99", NULL), 1000);
    kit_close(&kit);
}

/* What was taken of a larger total is no debt: the window has nothing left, and the next one is whole. */
TEST(a_smaller_total_has_its_next_window)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, ROOT("10000/s", "100"))))
        return;
    CHECK_EQ(lease(&kit, "90", NULL), 9000);
    reload(&kit, ROOT("1000/s", "100"));
    CHECK_EQ(lease(&kit, "1", NULL), 0);
    kit_clock(&kit, 1000);
    CHECK_EQ(lease(&kit, "99", NULL), 1000);
    kit_close(&kit);
}

/* A worker reads the clock when its turn begins, and may be stopped before it gives something back. */
TEST(what_comes_back_late_does_not_lift_the_next_window)
{
    struct weir_error err;
    struct weir_table *table = weir_table_new("10/s algo=quota", 8, &err);
    if (!CHECK(table != NULL))
        return;
    CHECK(weir_table_take_at(table, 900 * WEIR_MS, "k", 1, 10, NULL));
    CHECK(weir_table_take_at(table, 1100 * WEIR_MS, "k", 1, 10, NULL)); /* another worker's */
    weir_table_give_at(table, 950 * WEIR_MS, "k", 1, 10);
    CHECK(!weir_table_take_at(table, 1200 * WEIR_MS, "k", 1, 1, NULL));
    weir_table_give_at(table, 1200 * WEIR_MS, "k", 1, 10);
    CHECK(weir_table_take_at(table, 1200 * WEIR_MS, "k", 1, 10, NULL));
    weir_table_free(table);
}
