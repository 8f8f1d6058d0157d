/* SPDX-License-Identifier: MIT */
/*
 * In which order what belongs together comes to the log, wherever the process is killed: a charge not after
 * the record that would give it back, a settlement before what it gives back. And whoever repeats an answer
 * has listed all that it depends on. What other threads may have appended in between does not matter then.
 */
#include "service/service.h"
#include "table/table.h"
#include "unit/ledger/records_kit.h"
#include "unit/service/service_kit.h"

static struct kit kit;
static struct fake_store reservations, requests, tables;
static char id[LEDGER_TEXT_MAX];

static void keep_all(struct store *store)
{
    (void)store;
    for (uint32_t i = 0; weir_dirty && i < weir_dirty->count; i++) {
        struct dirty_item *item = &weir_dirty->items[i];
        struct fake_store *fake = (struct fake_store *)(void *)item->persist->store;
        if (fake == &tables)
            continue;
        item->persist->kind->capture(item->persist, item->slot, item->hash, &fake->log);
        item->persist->kind->released(item->persist, item->slot, item->hash);
    }
    if (weir_dirty)
        weir_dirty_clear(weir_dirty);
}

static void begin(void)
{
    if (!kit_open(&kit, "policies:\n  - name: tokens\n    limits: [1k/h]\n"
                        "  - name: strict\n    limits: [1/h algo=sliding-window refused=count]\n"))
        abort();
    struct ledger *ledger = &kit.service->ledger;
    struct snapshot *snapshot = atomic_load(&kit.service->snapshot);
    fake_keep(&reservations, ledger->reservations, 0);
    fake_keep(&requests, ledger->requests, 0);
    tables.persist = (struct persist){.store = (struct store *)(void *)&tables, .number = 9};
    reservations.persist.overfull = requests.persist.overfull = tables.persist.overfull = keep_all;
    for (size_t i = 0; i < snapshot->ptable_count; i++)
        snapshot->ptables[i]->table->region->persist = &tables.persist;
    if (weir_dirty)
        weir_dirty_clear(weir_dirty);
}

static void end(void)
{
    struct snapshot *snapshot = atomic_load(&kit.service->snapshot);
    for (size_t i = 0; i < snapshot->ptable_count; i++)
        snapshot->ptables[i]->table->region->persist = NULL;
    keep_all(NULL);
    weir_buffer_free(&reservations.log);
    weir_buffer_free(&requests.log);
    kit_close(&kit);
}

/* "VERB id [number]" */
static const char *settle(const char *verb, const char *used)
{
    char line[128];
    (void)snprintf(line, sizeof line, "%s %s %s", verb, id, used);
    return kit_ask(&kit, line);
}

static void reserve(const char *line)
{
    (void)snprintf(id, sizeof id, "%.39s", kit_text(kit_ask(&kit, line), "id"));
}

/* Where the first entry of that region is in the list; -1: nowhere. */
static int listed(const struct fake_store *fake)
{
    for (uint32_t i = 0; weir_dirty && i < weir_dirty->count; i++)
        if (weir_dirty->items[i].persist == &fake->persist)
            return (int)i;
    return -1;
}

/* The last reservation that is in the log. */
static bool is_settled_in_log(int64_t given_back)
{
    size_t starts[64], count = fake_records(&reservations.log, starts);
    struct ledger_reservation entry;
    if (!CHECK(count > 0))
        return false;
    memcpy(&entry,
           buffer_bytes(&reservations.log) + starts[count - 1] + sizeof(struct persist_head) +
               sizeof(struct record_head),
           sizeof entry);
    return entry.settled.question != 0 && entry.settled.given_back == given_back;
}

TEST(a_charge_is_listed_before_its_reservation_and_before_its_id)
{
    begin();
    reserve("WEIR.RESERVE tokens k 10 ID r1");
    CHECK(listed(&tables) == 0 && listed(&reservations) > 0 && listed(&requests) > 0);
    keep_all(NULL);
    (void)kit_ask(&kit, "WEIR.TAKE tokens k 10 ID r2");
    CHECK(listed(&tables) == 0 && listed(&requests) == 1);
    end();
}

TEST(a_settlement_is_in_the_log_before_units_come_back)
{
    static const char *const used[] = {"", "3", "0"};
    for (int i = 0; i < 3; i++) {
        begin();
        reserve("WEIR.RESERVE tokens k 10");
        keep_all(NULL);
        CHECK(kit_field(settle(i == 0 ? "WEIR.CANCEL" : "WEIR.COMMIT", used[i]), "given_back") ==
              (i == 1 ? 7 : 10));
        CHECK(is_settled_in_log(0)); /* as if nothing came back: that may be all that is left of us */
        keep_all(NULL);
        CHECK(is_settled_in_log(i == 1 ? 7 : 10));
        end();
    }
}

TEST(an_overrun_is_charged_in_one_piece_with_its_settlement)
{
    begin();
    reserve("WEIR.RESERVE tokens k 10");
    keep_all(NULL);
    CHECK_EQ(kit_field(settle("WEIR.COMMIT", "15"), "charged"), 15);
    CHECK(!is_settled_in_log(0));
    CHECK(listed(&tables) == 0 && listed(&reservations) > 0);
    end();
}

TEST(a_late_overrun_is_charged_in_one_piece_with_its_settlement)
{
    begin();
    reserve("WEIR.RESERVE tokens k 10 TTL 1");
    keep_all(NULL);
    kit_clock(&kit, 1);
    CHECK_EQ(kit_field(settle("WEIR.COMMIT", "15"), "late"), 1);
    CHECK(!is_settled_in_log(0));
    CHECK(listed(&tables) == 0 && listed(&reservations) > 0);
    keep_all(NULL);
    CHECK(is_settled_in_log(0));
    CHECK_EQ(kit_field(settle("WEIR.COMMIT", "15"), "charged"), 15); /* again */
    CHECK(listed(&tables) == 0 && listed(&reservations) > 0 && kit.changed);
    end();
}

/* Who has reserved may not have appended anything yet. */
TEST(who_settles_lists_what_was_charged_by_another)
{
    begin();
    reserve("WEIR.RESERVE tokens k 10");
    weir_dirty_clear(weir_dirty); /* another thread's */
    CHECK_EQ(kit_field(settle("WEIR.COMMIT", ""), "charged"), 10);
    CHECK(listed(&tables) == 0 && listed(&reservations) > 0);
    weir_dirty_clear(weir_dirty);
    CHECK_EQ(kit_field(settle("WEIR.COMMIT", ""), "charged"), 10); /* again */
    CHECK(listed(&tables) == 0 && listed(&reservations) > 0 && kit.changed);
    end();
}

TEST(who_repeats_an_answer_lists_what_it_depends_on)
{
    static const char *const lines[] = {"WEIR.TAKE tokens k 10 ID r1", "WEIR.RESERVE tokens k 10 ID r1",
                                        "WEIR.CHARGE tokens k 10 ID r1"};
    for (int i = 0; i < 3; i++) {
        begin();
        (void)kit_ask(&kit, lines[i]);
        weir_dirty_clear(weir_dirty);
        (void)kit_ask(&kit, lines[i]);
        CHECK(listed(&tables) == 0 && listed(&requests) > 0 && kit.changed);
        end();
    }
}

TEST(errors_and_looks_list_nothing)
{
    begin();
    reserve("WEIR.RESERVE tokens k 10 ID r1");
    (void)settle("WEIR.CANCEL", "");
    keep_all(NULL);
    CHECK(strstr(settle("WEIR.COMMIT", "1"), "settled already") != NULL);
    CHECK(strstr(kit_ask(&kit, "WEIR.TAKE tokens k 1 ID r1"), "another question") != NULL);
    (void)kit_ask(&kit, "WEIR.COMMIT 5f3a-1");
    (void)kit_ask(&kit, "WEIR.PEEK tokens k");
    CHECK(weir_dirty->count == 0 && !kit.changed);
    end();
}

static void check_refusal_changes(const char *line)
{
    weir_dirty_clear(weir_dirty);
    (void)kit_ask(&kit, line);
    CHECK(listed(&tables) == 0 && kit.changed);
}

TEST(a_refusal_that_is_counted_is_a_change)
{
    begin();
    (void)kit_ask(&kit, "WEIR.TAKE strict k");
    check_refusal_changes("WEIR.TAKE strict k");
    check_refusal_changes("WEIR.ACQUIRE strict k 1 TIMEOUT 0");
    (void)kit_ask(&kit, "WEIR.POLICY MODE strict shadow");
    check_refusal_changes("WEIR.ACQUIRE strict k 1 TIMEOUT 0");
    end();
}

/* The new limits promise first, and take it back when those of before refuse. */
TEST(what_is_promised_and_taken_back_is_a_change)
{
    begin();
    (void)kit_ask(&kit, "WEIR.TAKE tokens k 1000");
    (void)kit_ask(&kit, "WEIR.POLICY SET tokens 1k/h algo=fixed-window");
    struct snapshot *snapshot = atomic_load(&kit.service->snapshot);
    for (size_t i = 0; i < snapshot->ptable_count; i++)
        snapshot->ptables[i]->table->region->persist = &tables.persist;
    check_refusal_changes("WEIR.ACQUIRE tokens k 1 TIMEOUT 0");
    end();
}

TEST(units_that_are_given_back_to_a_key_that_stays_refused_are_a_change)
{
    begin();
    (void)kit_ask(&kit, "CL.THROTTLE k 9 1 60 10");
    CHECK(strncmp(kit_ask(&kit, "CL.THROTTLE k 0 1 60 -1"), "*5\r\n:1\r\n", 8) == 0 && kit.changed);
    end();
}

TEST(units_that_are_given_under_an_id_are_not_given_again_after_a_kill)
{
    begin();
    (void)kit_ask(&kit, "WEIR.TAKE tokens k 100");
    keep_all(NULL);
    (void)kit_ask(&kit, "WEIR.GIVE tokens k 10 ID g1");
    CHECK_EQ(fake_records(&requests.log, NULL), 1); /* in the log before anything was given */
    CHECK(listed(&tables) == 0);
    end();
}

TEST(after_a_loss_open_reservations_are_refused)
{
    begin();
    reserve("WEIR.RESERVE tokens k 10");
    CHECK_EQ(weir_ledger_distrust(&kit.service->ledger, weir_now()), 1);
    CHECK(strstr(settle("WEIR.CANCEL", ""), "cannot be settled any more: the server has lost data") != NULL);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK tokens k"), "remaining"), 990);
    end();
}
