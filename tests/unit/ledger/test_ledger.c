/* SPDX-License-Identifier: MIT */
/*
 * The ledger: names of requests and reservations.
 */
#include "check.h"
#include "ledger/ledger.h"

static struct ledger ledger_of(size_t entries)
{
    struct ledger ledger;
    struct weir_error err;
    if (!weir_ledger_init(&ledger, entries, entries, &err)) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return ledger;
}

static bool same(struct record_id one, struct record_id other)
{
    return memcmp(&one, &other, sizeof one) == 0;
}

TEST(a_number_has_one_text_and_comes_back_from_it)
{
    const uint64_t numbers[] = {1, 9, 10, 4711, UINT64_C(0x5f3a) << 32 | 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char text[LEDGER_TEXT_MAX];
        uint64_t number = 0;
        weir_ledger_text(numbers[i], text);
        CHECK(weir_ledger_number(text, strlen(text), &number));
        CHECK_EQ(number, numbers[i]);
        CHECK(!weir_ledger_number(text, strlen(text) + 1, &number)); /* with the NUL */
    }
}

TEST(other_texts_are_no_numbers)
{
    uint64_t number = 0;
    CHECK(weir_ledger_number("5f3a-1", 6, &number) && number == (UINT64_C(0x5f3a) << 32 | 1));
    CHECK(weir_ledger_number("0-4294967295", 12, &number) && number == UINT32_MAX);
    static const char *const wrong[] = {"",
                                        "-",
                                        "5f3a",
                                        "5f3a-",
                                        "-1",
                                        "5f3a-0",
                                        "5f3a-01",
                                        "5f3a-+1",
                                        "5f3a- 1",
                                        "5f3a-1 ",
                                        "5F3A-1",
                                        "05f3a-1",
                                        "5f3a--1",
                                        "5f3a-1x",
                                        "5f3a1",
                                        "x5f3a-1",
                                        "5f3a-1-1",
                                        "5f3a-1a",
                                        "5f3a-4294967296",
                                        "100000000-1",
                                        "5f3g-1",
                                        "5f3a-18446744073709551616",
                                        "5f3a-99999999999999999999",
                                        "5f3a-1111111111111111111111111111111111111111111111111111111"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (!CHECK(!weir_ledger_number(wrong[i], strlen(wrong[i]), &number)))
            printf("# %s\n", wrong[i]);
}

TEST(numbers_of_another_run_are_not_given_again)
{
    struct ledger one = ledger_of(10), other = ledger_of(10);
    if (one.number == other.number) /* once in four billion */
        other.number ^= UINT64_C(1) << 32;
    uint64_t number = weir_ledger_next(&one);
    CHECK(weir_ledger_is_ours(&one, number) && !weir_ledger_is_ours(&one, number + 1));
    CHECK(!weir_ledger_is_ours(&other, number));
    CHECK(weir_ledger_next(&other) >> 32 != number >> 32);
    weir_ledger_end(&one);
    weir_ledger_end(&other);
}

TEST(request_ids_differ_by_scope_and_id_however_they_are_cut)
{
    struct ledger ledger = ledger_of(10);
    struct record_id id = weir_ledger_request(&ledger, "api", 3, "x1", 2);
    CHECK(same(id, weir_ledger_request(&ledger, "api", 3, "x1", 2)));
    CHECK(!same(id, weir_ledger_request(&ledger, "apix", 4, "1", 1)));
    CHECK(!same(id, weir_ledger_request(&ledger, "ap", 2, "ix1", 3)));
    CHECK(!same(id, weir_ledger_request(&ledger, "api", 3, "x2", 2)));
    CHECK(!same(id, weir_ledger_request(&ledger, "apj", 3, "x1", 2)));
    CHECK(!same(weir_ledger_request(&ledger, "", 0, "", 0), weir_ledger_request(&ledger, "", 0, "\0", 1)));
    CHECK(!same(weir_ledger_reservation(&ledger, 1), weir_ledger_reservation(&ledger, 2)));
    weir_ledger_end(&ledger);
}

TEST(numbers_rise_and_hashes_are_never_0)
{
    struct ledger ledger = ledger_of(10);
    CHECK_EQ((uint32_t)weir_ledger_next(&ledger), 1);
    CHECK_EQ((uint32_t)weir_ledger_next(&ledger), 2);
    ledger.number |= UINT32_MAX;
    CHECK_EQ((uint32_t)weir_ledger_next(&ledger), 1); /* none is called 0 */
    CHECK(weir_ledger_owner(&ledger, "default", 7) != 0);
    CHECK(weir_ledger_owner(&ledger, "a", 1) != weir_ledger_owner(&ledger, "b", 1));
    CHECK(weir_ledger_owner(&ledger, "a", 1) != weir_ledger_question(&ledger, "a", 1));
    weir_ledger_end(&ledger);
}

TEST(an_entry_is_kept_until_its_end)
{
    struct ledger ledger = ledger_of(10);
    struct record_id id = weir_ledger_reservation(&ledger, 1);
    struct record_visit visit;
    weir_records_enter(ledger.reservations, &id, 1, &visit);
    *visit_reservation(&visit) = (struct ledger_reservation){.number = 1, .pairs = 1};
    visit_reservation(&visit)->settled.remaining = 42; /* the last number of it */
    visit.record->expires_ns = 10;
    weir_records_leave(ledger.reservations, &visit);
    weir_records_enter(ledger.reservations, &id, 9, &visit);
    CHECK(visit.found && visit_reservation(&visit)->number == 1);
    CHECK_EQ(visit_reservation(&visit)->settled.remaining, 42);
    weir_records_leave(ledger.reservations, &visit);
    weir_records_enter(ledger.reservations, &id, 10, &visit);
    CHECK(!visit.found && visit_reservation(&visit)->number == 0);
    weir_records_leave(ledger.reservations, &visit);
    weir_ledger_end(&ledger);
}

/* Where there are many ids, reservations still find room, and the other way round. */
TEST(ids_and_reservations_take_no_room_from_each_other)
{
    struct ledger ledger = ledger_of(1);
    struct record_visit visit;
    struct records_stat stat;
    for (uint64_t i = 1; i <= 40; i++) {
        struct record_id id = weir_ledger_request(&ledger, "api", 3, &i, sizeof i);
        weir_records_enter(ledger.requests, &id, 1, &visit);
        CHECK((visit.record != NULL) == (i <= 32));
        if (visit.record) {
            *visit_request(&visit) = (struct ledger_request){.fingerprint = i, .verdict = {.remaining = 1}};
            visit.record->expires_ns = 10;
        }
        weir_records_leave(ledger.requests, &visit);
    }
    struct record_id id = weir_ledger_reservation(&ledger, 1);
    weir_records_enter(ledger.reservations, &id, 1, &visit);
    CHECK(visit.record && !visit.found);
    weir_records_leave(ledger.reservations, &visit);
    weir_records_stat(ledger.requests, &stat);
    CHECK_EQ(stat.used, 32);
    CHECK_EQ(stat.refused, 8);
    weir_records_stat(ledger.reservations, &stat);
    CHECK_EQ(stat.used, 0);
    CHECK_EQ(stat.refused, 0);
    weir_ledger_end(&ledger);
}

TEST(a_ledger_that_is_too_large_is_an_error_and_leaves_nothing_behind)
{
    struct ledger ledger;
    struct weir_error err;
    CHECK(!weir_ledger_init(&ledger, (size_t)1 << 40, 1, &err) && err.code == ENOMEM);
    CHECK(!ledger.requests && !ledger.reservations);
    CHECK(!weir_ledger_init(&ledger, 1, (size_t)1 << 40, &err) && err.code == ENOMEM);
    CHECK(!ledger.requests && !ledger.reservations);
    weir_ledger_end(&ledger);
}
