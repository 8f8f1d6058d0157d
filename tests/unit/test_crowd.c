/* SPDX-License-Identifier: MIT */
/*
 * Who is let in, and who has to go for another one.
 */
#include "check.h"
#include "rng.h"
#include "service/crowd.h"

static struct guest *left; /* the last that was asked to leave */
static int leaves;

static void drop(struct guest *guest)
{
    left = guest;
    leaves++;
}

static enum entry enter(struct crowd *crowd, const struct crowd_limits *limits, struct guest *guest,
                        const char *address, enum entry_kind kind)
{
    left = NULL;
    return weir_crowd_enter(crowd, limits, guest, address, kind, drop);
}

static void leave_all(struct crowd *crowd, struct guest *guests, size_t count)
{
    for (size_t i = 0; i < count; i++)
        weir_crowd_leave(crowd, &guests[i]);
    struct crowd_count here = weir_crowd_count(crowd);
    CHECK_EQ(here.all, 0);
    CHECK_EQ(here.strangers, 0);
    CHECK_EQ(here.dropped, 0);
    weir_crowd_free(crowd);
}

TEST(the_oldest_stranger_goes_for_a_new_one)
{
    enum { MOST = 40 };
    struct crowd *crowd = weir_crowd_new();
    struct guest guests[MOST + 3] = {0};
    const struct crowd_limits limits = {.most = MOST};
    CHECK_EQ(weir_crowd_strangers_most(MOST), 32);
    for (int i = 0; i < 32; i++)
        CHECK(enter(crowd, &limits, &guests[i], "1.2.3.4:1", ENTER_STRANGER) == ENTRY_FREE && !left);
    CHECK(enter(crowd, &limits, &guests[32], "1.2.3.4:1", ENTER_STRANGER) == ENTRY_FREE &&
          left == &guests[0]);
    CHECK(enter(crowd, &limits, &guests[33], "1.2.3.4:1", ENTER_STRANGER) == ENTRY_FREE &&
          left == &guests[1]);
    CHECK_EQ(weir_crowd_count(crowd).dropped, 2);
    CHECK(weir_crowd_log_in(crowd, &limits, &guests[2], "app", false)); /* who has logged in is none */
    CHECK(enter(crowd, &limits, &guests[34], "1.2.3.4:1", ENTER_STRANGER) == ENTRY_FREE && !left);
    CHECK(enter(crowd, &limits, &guests[35], "1.2.3.4:1", ENTER_STRANGER) == ENTRY_FREE &&
          left == &guests[3]);
    weir_crowd_log_out(crowd, &guests[2], ENTER_STRANGER); /* the youngest again */
    CHECK(enter(crowd, &limits, &guests[36], "1.2.3.4:1", ENTER_STRANGER) == ENTRY_FREE &&
          left == &guests[4]);
    leave_all(crowd, guests, MOST + 3);
    weir_crowd_free(NULL);
}

/* One address with many connections that says nothing cannot displace the one of another. */
TEST(the_source_with_the_most_strangers_gives_way)
{
    struct crowd *crowd = weir_crowd_new();
    struct guest guests[200] = {0}, honest = {0};
    const struct crowd_limits limits = {.most = 40};
    CHECK_EQ(enter(crowd, &limits, &honest, "9.9.9.9:1", ENTER_STRANGER), ENTRY_FREE); /* the oldest */
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(
            enter(crowd, &limits, &guests[i], i % 2 ? "[2001:db8::1]:7" : "[2001:db8::2]:7", ENTER_STRANGER),
            ENTRY_FREE);
        if (!CHECK(left != &honest))
            break;
    }
    CHECK_EQ(weir_crowd_count(crowd).strangers, 32);
    weir_crowd_leave(crowd, &honest);
    leave_all(crowd, guests, 200);
}

TEST(tenants_leave_places_for_strangers_and_admins)
{
    enum { MOST = 160 };
    struct crowd *crowd = weir_crowd_new();
    struct guest guests[2 * MOST] = {0};
    const struct crowd_limits limits = {.most = MOST};
    int in = 0, at = 0;
    CHECK_EQ(weir_crowd_kept(MOST), 10);
    for (; at < MOST + 20; at++) {
        CHECK_EQ(enter(crowd, &limits, &guests[at], "1.2.3.4:1", ENTER_STRANGER), ENTRY_FREE);
        in += weir_crowd_log_in(crowd, &limits, &guests[at], "tenant", false);
    }
    CHECK_EQ(in, MOST - 10);
    for (int i = 0; i < 10; i++, at++) { /* each takes the place of a stranger */
        CHECK_EQ(enter(crowd, &limits, &guests[at], "1.2.3.4:1", ENTER_STRANGER), ENTRY_FREE);
        CHECK(left != NULL);
        CHECK(weir_crowd_log_in(crowd, &limits, &guests[at], "ops", true));
    }
    CHECK_EQ(enter(crowd, &limits, &guests[at], "1.2.3.4:1", ENTER_STRANGER),
             ENTRY_REFUSED); /* no strangers */
    leave_all(crowd, guests, 2 * MOST);
}

TEST(a_user_has_no_more_than_its_share)
{
    struct crowd *crowd = weir_crowd_new();
    struct guest guests[100] = {0};
    const struct crowd_limits limits = {.most = 100, .per_user = 50};
    for (int i = 0; i < 60; i++)
        CHECK_EQ(enter(crowd, &limits, &guests[i], "1.2.3.4:1", ENTER_STRANGER), ENTRY_FREE);
    for (int i = 0; i < 50; i++)
        CHECK(weir_crowd_log_in(crowd, &limits, &guests[i], "a", false));
    CHECK(!weir_crowd_log_in(crowd, &limits, &guests[50], "a", false));
    CHECK(weir_crowd_log_in(crowd, &limits, &guests[49], "a", false)); /* once more */
    CHECK(weir_crowd_log_in(crowd, &limits, &guests[50], "b", false));
    CHECK(!weir_crowd_log_in(crowd, &limits, &guests[50], "a", false));
    CHECK(weir_crowd_log_in(crowd, &limits, &guests[49], "b", false)); /* makes room for one */
    CHECK(weir_crowd_log_in(crowd, &limits, &guests[51], "a", false));
    CHECK(!weir_crowd_log_in(crowd, &limits, &guests[52], "a", false));
    weir_crowd_leave(crowd, &guests[0]);
    CHECK(weir_crowd_log_in(crowd, &limits, &guests[52], "a", false));
    CHECK(weir_crowd_log_in(crowd, &limits, &guests[53], "a", true)); /* admins are not bounded */
    leave_all(crowd, guests, 100);
}

TEST(an_address_has_no_more_than_its_share)
{
    struct crowd *crowd = weir_crowd_new();
    struct guest guests[20] = {0};
    const struct crowd_limits limits = {.most = 100, .per_address = 3};
    for (int i = 0; i < 3; i++)
        CHECK_EQ(enter(crowd, &limits, &guests[i], "1.2.3.4:1", ENTER_ORDINARY), ENTRY_FREE);
    CHECK_EQ(enter(crowd, &limits, &guests[3], "1.2.3.4:2", ENTER_ORDINARY), ENTRY_ADDRESS);
    CHECK_EQ(enter(crowd, &limits, &guests[4], "1.2.3.5:1", ENTER_STRANGER), ENTRY_FREE);
    CHECK_EQ(enter(crowd, &limits, &guests[5], "1.2.3.5:1", ENTER_STRANGER), ENTRY_FREE);
    CHECK_EQ(enter(crowd, &limits, &guests[6], "1.2.3.5:1", ENTER_STRANGER), ENTRY_FREE);
    CHECK(enter(crowd, &limits, &guests[7], "1.2.3.5:1", ENTER_STRANGER) == ENTRY_FREE && left == &guests[4]);
    weir_crowd_leave(crowd, &guests[0]);
    CHECK_EQ(enter(crowd, &limits, &guests[8], "1.2.3.4:2", ENTER_ORDINARY), ENTRY_FREE);
    leave_all(crowd, guests, 20);
}

/* Where `default` needs no password, the last places are for those who then log in as an admin. */
TEST(the_last_places_of_an_open_server_are_for_admins)
{
    struct crowd *crowd = weir_crowd_new();
    struct guest guests[64] = {0};
    const struct crowd_limits limits = {.most = 32};
    for (int i = 0; i < 30; i++)
        CHECK_EQ(enter(crowd, &limits, &guests[i], "1.2.3.4:1", ENTER_ORDINARY), ENTRY_FREE);
    for (int i = 30; i < 40; i++)
        CHECK_EQ(enter(crowd, &limits, &guests[i], "1.2.3.4:1", ENTER_ORDINARY), ENTRY_KEPT);
    CHECK(!weir_crowd_log_in(crowd, &limits, &guests[39], "app", false));
    CHECK(weir_crowd_log_in(crowd, &limits, &guests[39], "ops", true));
    weir_crowd_leave(crowd, &guests[0]);
    CHECK_EQ(enter(crowd, &limits, &guests[40], "1.2.3.4:1", ENTER_ORDINARY), ENTRY_FREE);
    CHECK_EQ(enter(crowd, &limits, &guests[41], "1.2.3.4:1", ENTER_ADMIN), ENTRY_FREE);
    leave_all(crowd, guests, 64);
}

/* A reload that lets everybody in makes clients of strangers. */
TEST(strangers_that_need_not_log_in_any_more_take_places)
{
    struct crowd *crowd = weir_crowd_new();
    struct guest guests[34] = {0};
    const struct crowd_limits limits = {.most = 32};
    for (int i = 0; i < 30; i++) {
        CHECK_EQ(enter(crowd, &limits, &guests[i], "1.2.3.4:1", ENTER_STRANGER), ENTRY_FREE);
        weir_crowd_set_kind(crowd, &guests[i], ENTER_ORDINARY);
    }
    CHECK_EQ(enter(crowd, &limits, &guests[30], "1.2.3.4:1", ENTER_ORDINARY), ENTRY_KEPT);
    CHECK(weir_crowd_log_in(crowd, &limits, &guests[29], "ops", true)); /* frees one */
    weir_crowd_set_kind(crowd, &guests[29], ENTER_ADMIN);
    CHECK_EQ(enter(crowd, &limits, &guests[31], "1.2.3.4:1", ENTER_ORDINARY), ENTRY_FREE);
    weir_crowd_log_out(crowd, &guests[29], ENTER_ORDINARY);
    CHECK_EQ(enter(crowd, &limits, &guests[32], "1.2.3.4:1", ENTER_ORDINARY), ENTRY_KEPT);
    leave_all(crowd, guests, 34);
}

/* Whatever happens: never more than there may be, but for those who were asked to leave and are still there.
 */
TEST(random_comings_and_goings)
{
    enum { GUESTS = 200, STEPS = 50000, MOST = 100 };
    struct rng rng = rng_new(2);
    struct crowd *crowd = weir_crowd_new();
    static struct guest guests[GUESTS];
    const struct crowd_limits limits = {.most = MOST, .per_address = 60, .per_user = 50};
    leaves = 0;
    for (int i = 0; i < STEPS; i++) {
        static const char *const addresses[] = {"1.1.1.1:1", "[2001:db8::1]:1", "unix:7"};
        static const char *const names[] = {"a", "b", "ops"};
        struct guest *guest = &guests[rng_between(&rng, 0, GUESTS - 1)];
        int64_t which = rng_between(&rng, 0, 2);
        if (!guest->source)
            (void)enter(crowd, &limits, guest, addresses[which], (enum entry_kind)rng_between(&rng, 0, 2));
        else if (guest->dropped || rng_between(&rng, 0, 5) == 0)
            weir_crowd_leave(crowd, guest);
        else if (rng_between(&rng, 0, 3) > 0)
            (void)weir_crowd_log_in(crowd, &limits, guest, names[which], which == 2);
        else if (guest->user)
            weir_crowd_log_out(crowd, guest, (enum entry_kind)rng_between(&rng, 0, 2));
        else
            weir_crowd_set_kind(crowd, guest, (enum entry_kind)rng_between(&rng, 0, 2));
        struct crowd_count count = weir_crowd_count(crowd);
        if (!CHECK(count.all - count.dropped <= MOST && count.strangers >= 0 && count.dropped >= 0))
            break;
    }
    CHECK(leaves > 100);
    leave_all(crowd, guests, GUESTS);
}
