/* SPDX-License-Identifier: MIT */
/*
 * Who is let in, and who has to go for another one.
 */
#include "auth/client_counts.h"
#include "check.h"
#include "rng.h"

static struct client_entry *left; /* the last that was asked to leave */
static int leaves;

static void drop(struct client_entry *client_entry)
{
    left = client_entry;
    leaves++;
}

static enum admission enter(struct client_counts *client_counts, const struct client_count_limits *limits,
                            struct client_entry *client_entry, const char *address, enum client_kind kind)
{
    left = NULL;
    return weir_client_counts_enter(client_counts, limits, client_entry, address, kind, drop);
}

static void leave_all(struct client_counts *client_counts, struct client_entry *client_entries, size_t count)
{
    for (size_t i = 0; i < count; i++)
        weir_client_counts_leave(client_counts, &client_entries[i]);
    struct client_count_totals here = weir_client_counts_read(client_counts);
    CHECK_EQ(here.all, 0);
    CHECK_EQ(here.unauthenticated, 0);
    CHECK_EQ(here.dropped, 0);
    weir_client_counts_free(client_counts);
}

TEST(the_oldest_unauthenticated_client_goes_for_a_new_one)
{
    enum { MOST = 40 };
    struct client_counts *client_counts = weir_client_counts_new();
    struct client_entry client_entries[MOST + 3] = {0};
    const struct client_count_limits limits = {.most = MOST};
    CHECK_EQ(weir_unauthenticated_max(MOST), 32);
    for (int i = 0; i < 32; i++)
        CHECK(enter(client_counts, &limits, &client_entries[i], "1.2.3.4:1", CLIENT_UNAUTHENTICATED) ==
                  ADMISSION_FREE &&
              !left);
    CHECK(enter(client_counts, &limits, &client_entries[32], "1.2.3.4:1", CLIENT_UNAUTHENTICATED) ==
              ADMISSION_FREE &&
          left == &client_entries[0]);
    CHECK(enter(client_counts, &limits, &client_entries[33], "1.2.3.4:1", CLIENT_UNAUTHENTICATED) ==
              ADMISSION_FREE &&
          left == &client_entries[1]);
    CHECK_EQ(weir_client_counts_read(client_counts).dropped, 2);
    CHECK(weir_client_counts_log_in(client_counts, &limits, &client_entries[2], "app",
                                    false)); /* who has logged in is none */
    CHECK(enter(client_counts, &limits, &client_entries[34], "1.2.3.4:1", CLIENT_UNAUTHENTICATED) ==
              ADMISSION_FREE &&
          !left);
    CHECK(enter(client_counts, &limits, &client_entries[35], "1.2.3.4:1", CLIENT_UNAUTHENTICATED) ==
              ADMISSION_FREE &&
          left == &client_entries[3]);
    weir_client_counts_log_out(client_counts, &client_entries[2],
                               CLIENT_UNAUTHENTICATED); /* the youngest again */
    CHECK(enter(client_counts, &limits, &client_entries[36], "1.2.3.4:1", CLIENT_UNAUTHENTICATED) ==
              ADMISSION_FREE &&
          left == &client_entries[4]);
    leave_all(client_counts, client_entries, MOST + 3);
    weir_client_counts_free(NULL);
}

/* One address with many connections that says nothing cannot displace the one of another. */
TEST(the_source_with_the_most_unauthenticated_clients_gives_way)
{
    struct client_counts *client_counts = weir_client_counts_new();
    struct client_entry client_entries[200] = {0}, honest = {0};
    const struct client_count_limits limits = {.most = 40};
    CHECK_EQ(enter(client_counts, &limits, &honest, "9.9.9.9:1", CLIENT_UNAUTHENTICATED),
             ADMISSION_FREE); /* the oldest */
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(enter(client_counts, &limits, &client_entries[i],
                       i % 2 ? "[2001:db8::1]:7" : "[2001:db8::2]:7", CLIENT_UNAUTHENTICATED),
                 ADMISSION_FREE);
        if (!CHECK(left != &honest))
            break;
    }
    CHECK_EQ(weir_client_counts_read(client_counts).unauthenticated, 32);
    weir_client_counts_leave(client_counts, &honest);
    leave_all(client_counts, client_entries, 200);
}

TEST(tenants_leave_places_for_unauthenticated_clients_and_admins)
{
    enum { MOST = 160 };
    struct client_counts *client_counts = weir_client_counts_new();
    struct client_entry client_entries[2 * MOST] = {0};
    const struct client_count_limits limits = {.most = MOST};
    int in = 0, at = 0;
    CHECK_EQ(weir_admin_places(MOST), 10);
    for (; at < MOST + 20; at++) {
        CHECK_EQ(enter(client_counts, &limits, &client_entries[at], "1.2.3.4:1", CLIENT_UNAUTHENTICATED),
                 ADMISSION_FREE);
        in += weir_client_counts_log_in(client_counts, &limits, &client_entries[at], "tenant", false);
    }
    CHECK_EQ(in, MOST - 10);
    for (int i = 0; i < 10; i++, at++) { /* each takes the place of a stranger */
        CHECK_EQ(enter(client_counts, &limits, &client_entries[at], "1.2.3.4:1", CLIENT_UNAUTHENTICATED),
                 ADMISSION_FREE);
        CHECK(left != NULL);
        CHECK(weir_client_counts_log_in(client_counts, &limits, &client_entries[at], "ops", true));
    }
    CHECK_EQ(enter(client_counts, &limits, &client_entries[at], "1.2.3.4:1", CLIENT_UNAUTHENTICATED),
             ADMISSION_REFUSED); /* no unauthenticated clients */
    leave_all(client_counts, client_entries, 2 * MOST);
}

TEST(a_user_has_no_more_than_its_share)
{
    struct client_counts *client_counts = weir_client_counts_new();
    struct client_entry client_entries[100] = {0};
    const struct client_count_limits limits = {.most = 100, .per_user = 50};
    for (int i = 0; i < 60; i++)
        CHECK_EQ(enter(client_counts, &limits, &client_entries[i], "1.2.3.4:1", CLIENT_UNAUTHENTICATED),
                 ADMISSION_FREE);
    for (int i = 0; i < 50; i++)
        CHECK(weir_client_counts_log_in(client_counts, &limits, &client_entries[i], "a", false));
    CHECK(!weir_client_counts_log_in(client_counts, &limits, &client_entries[50], "a", false));
    CHECK(weir_client_counts_log_in(client_counts, &limits, &client_entries[49], "a", false)); /* once more */
    CHECK(weir_client_counts_log_in(client_counts, &limits, &client_entries[50], "b", false));
    CHECK(!weir_client_counts_log_in(client_counts, &limits, &client_entries[50], "a", false));
    CHECK(weir_client_counts_log_in(client_counts, &limits, &client_entries[49], "b",
                                    false)); /* makes room for one */
    CHECK(weir_client_counts_log_in(client_counts, &limits, &client_entries[51], "a", false));
    CHECK(!weir_client_counts_log_in(client_counts, &limits, &client_entries[52], "a", false));
    weir_client_counts_leave(client_counts, &client_entries[0]);
    CHECK(weir_client_counts_log_in(client_counts, &limits, &client_entries[52], "a", false));
    CHECK(weir_client_counts_log_in(client_counts, &limits, &client_entries[53], "a",
                                    true)); /* admins are not bounded */
    leave_all(client_counts, client_entries, 100);
}

TEST(an_address_has_no_more_than_its_share)
{
    struct client_counts *client_counts = weir_client_counts_new();
    struct client_entry client_entries[20] = {0};
    const struct client_count_limits limits = {.most = 100, .per_address = 3};
    for (int i = 0; i < 3; i++)
        CHECK_EQ(enter(client_counts, &limits, &client_entries[i], "1.2.3.4:1", CLIENT_ORDINARY),
                 ADMISSION_FREE);
    CHECK_EQ(enter(client_counts, &limits, &client_entries[3], "1.2.3.4:2", CLIENT_ORDINARY),
             ADMISSION_ADDRESS_FULL);
    CHECK_EQ(enter(client_counts, &limits, &client_entries[4], "1.2.3.5:1", CLIENT_UNAUTHENTICATED),
             ADMISSION_FREE);
    CHECK_EQ(enter(client_counts, &limits, &client_entries[5], "1.2.3.5:1", CLIENT_UNAUTHENTICATED),
             ADMISSION_FREE);
    CHECK_EQ(enter(client_counts, &limits, &client_entries[6], "1.2.3.5:1", CLIENT_UNAUTHENTICATED),
             ADMISSION_FREE);
    CHECK(enter(client_counts, &limits, &client_entries[7], "1.2.3.5:1", CLIENT_UNAUTHENTICATED) ==
              ADMISSION_FREE &&
          left == &client_entries[4]);
    weir_client_counts_leave(client_counts, &client_entries[0]);
    CHECK_EQ(enter(client_counts, &limits, &client_entries[8], "1.2.3.4:2", CLIENT_ORDINARY), ADMISSION_FREE);
    leave_all(client_counts, client_entries, 20);
}

/* Where `default` needs no password, the last places are for those who then log in as an admin. */
TEST(the_last_places_of_an_open_server_are_for_admins)
{
    struct client_counts *client_counts = weir_client_counts_new();
    struct client_entry client_entries[64] = {0};
    const struct client_count_limits limits = {.most = 32};
    for (int i = 0; i < 30; i++)
        CHECK_EQ(enter(client_counts, &limits, &client_entries[i], "1.2.3.4:1", CLIENT_ORDINARY),
                 ADMISSION_FREE);
    for (int i = 30; i < 40; i++)
        CHECK_EQ(enter(client_counts, &limits, &client_entries[i], "1.2.3.4:1", CLIENT_ORDINARY),
                 ADMISSION_ADMIN_ONLY);
    CHECK(!weir_client_counts_log_in(client_counts, &limits, &client_entries[39], "app", false));
    CHECK(weir_client_counts_log_in(client_counts, &limits, &client_entries[39], "ops", true));
    weir_client_counts_leave(client_counts, &client_entries[0]);
    CHECK_EQ(enter(client_counts, &limits, &client_entries[40], "1.2.3.4:1", CLIENT_ORDINARY),
             ADMISSION_FREE);
    CHECK_EQ(enter(client_counts, &limits, &client_entries[41], "1.2.3.4:1", CLIENT_ADMIN), ADMISSION_FREE);
    leave_all(client_counts, client_entries, 64);
}

/* A reload that lets everybody in makes clients of unauthenticated clients. */
TEST(clients_that_need_not_log_in_any_more_take_places)
{
    struct client_counts *client_counts = weir_client_counts_new();
    struct client_entry client_entries[34] = {0};
    const struct client_count_limits limits = {.most = 32};
    for (int i = 0; i < 30; i++) {
        CHECK_EQ(enter(client_counts, &limits, &client_entries[i], "1.2.3.4:1", CLIENT_UNAUTHENTICATED),
                 ADMISSION_FREE);
        weir_client_counts_set_kind(client_counts, &client_entries[i], CLIENT_ORDINARY);
    }
    CHECK_EQ(enter(client_counts, &limits, &client_entries[30], "1.2.3.4:1", CLIENT_ORDINARY),
             ADMISSION_ADMIN_ONLY);
    CHECK(
        weir_client_counts_log_in(client_counts, &limits, &client_entries[29], "ops", true)); /* frees one */
    weir_client_counts_set_kind(client_counts, &client_entries[29], CLIENT_ADMIN);
    CHECK_EQ(enter(client_counts, &limits, &client_entries[31], "1.2.3.4:1", CLIENT_ORDINARY),
             ADMISSION_FREE);
    weir_client_counts_log_out(client_counts, &client_entries[29], CLIENT_ORDINARY);
    CHECK_EQ(enter(client_counts, &limits, &client_entries[32], "1.2.3.4:1", CLIENT_ORDINARY),
             ADMISSION_ADMIN_ONLY);
    leave_all(client_counts, client_entries, 34);
}

/* Whatever happens: never more than there may be, but for those who were asked to leave and are still there.
 */
TEST(random_comings_and_goings)
{
    enum { GUESTS = 200, STEPS = 50000, MOST = 100 };
    struct rng rng = rng_new(2);
    struct client_counts *client_counts = weir_client_counts_new();
    static struct client_entry client_entries[GUESTS];
    const struct client_count_limits limits = {.most = MOST, .per_address = 60, .per_user = 50};
    leaves = 0;
    for (int i = 0; i < STEPS; i++) {
        static const char *const addresses[] = {"1.1.1.1:1", "[2001:db8::1]:1", "unix:7"};
        static const char *const names[] = {"a", "b", "ops"};
        struct client_entry *client_entry = &client_entries[rng_between(&rng, 0, GUESTS - 1)];
        int64_t which = rng_between(&rng, 0, 2);
        if (!client_entry->source)
            (void)enter(client_counts, &limits, client_entry, addresses[which],
                        (enum client_kind)rng_between(&rng, 0, 2));
        else if (client_entry->dropped || rng_between(&rng, 0, 5) == 0)
            weir_client_counts_leave(client_counts, client_entry);
        else if (rng_between(&rng, 0, 3) > 0)
            (void)weir_client_counts_log_in(client_counts, &limits, client_entry, names[which], which == 2);
        else if (client_entry->user)
            weir_client_counts_log_out(client_counts, client_entry,
                                       (enum client_kind)rng_between(&rng, 0, 2));
        else
            weir_client_counts_set_kind(client_counts, client_entry,
                                        (enum client_kind)rng_between(&rng, 0, 2));
        struct client_count_totals count = weir_client_counts_read(client_counts);
        if (!CHECK(count.all - count.dropped <= MOST && count.unauthenticated >= 0 && count.dropped >= 0))
            break;
    }
    CHECK(leaves > 100);
    leave_all(client_counts, client_entries, GUESTS);
}
