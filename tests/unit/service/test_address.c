/* SPDX-License-Identifier: MIT */
/*
 * Policies whose keys are addresses: each tier counts, all or none, and lists decide first.
 */
#include <stdlib.h>

#include "check.h"
#include "service/policies/snapshot.h"
#include "unit/service/service_kit.h"

#define LOGIN                                                                                                \
    "policies:\n"                                                                                            \
    "  - name: login\n"                                                                                      \
    "    address: [{v4: 32, v6: 64, limits: 3/m name=host}, {v4: 24, v6: 48, limits: 5/m name=net}]\n"
#define LISTS "    allow: [10.0.0.0/8]\n    block: [10.1.0.0/16, \"2001:db8:bad::/48\"]\n"

static int64_t allowed(struct kit *kit, const char *line)
{
    return kit_field(kit_ask(kit, line), "allowed");
}

static int64_t counted(const struct kit *kit, const char *name, bool refused)
{
    struct policy_sums sums;
    const struct snapshot *snapshot = atomic_load(&kit->service->snapshot);
    weir_counters_sum(weir_snapshot_policy(snapshot, (struct slice){name, strlen(name)})->counters, &sums);
    return refused ? sums.refused : sums.allowed;
}

static bool says(const char *reply, const char *part)
{
    bool does = strstr(reply, part) != NULL;
    if (!does)
        printf("# \"%s\" has no \"%s\"\n", reply, part);
    return does;
}

TEST(an_address_is_counted_in_each_tier)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, LOGIN)))
        return;
    CHECK_EQ(allowed(&kit, "WEIR.TAKE login 192.0.2.7 3"), 1);
    const char *reply = kit_ask(&kit, "WEIR.TAKE login 192.0.2.7:4711");
    CHECK_EQ(kit_field(reply, "allowed"), 0);
    CHECK_STR(kit_text(reply, "limit"), "host");
    CHECK_EQ(allowed(&kit, "WEIR.TAKE login ::ffff:192.0.2.8 2"), 1);
    reply = kit_ask(&kit, "WEIR.TAKE login 192.0.2.9");
    CHECK_EQ(kit_field(reply, "allowed"), 0);
    CHECK_STR(kit_text(reply, "limit"), "net");
    CHECK_EQ(kit_field(reply, "retry_after_ms"), 12000);
    CHECK_EQ(allowed(&kit, "WEIR.TAKE login 192.0.3.9 3"), 1);
    CHECK_EQ(allowed(&kit, "WEIR.TAKE login [2001:db8:1:2::1]:80 3"), 1);
    CHECK_EQ(allowed(&kit, "WEIR.TAKE login 2001:db8:1:2::2"), 0);
    CHECK_EQ(allowed(&kit, "WEIR.TAKE login 2001:db8:1:3::2 2"), 1);
    CHECK_EQ(allowed(&kit, "WEIR.TAKE login 2001:db8:1:4::2"), 0);
    CHECK_EQ(counted(&kit, "login", false), 5);
    CHECK_EQ(counted(&kit, "login", true), 4);
    CHECK_EQ(counted(&kit, "login/24-48", false) + counted(&kit, "login/24-48", true), 0);
    kit_close(&kit);
}

TEST(a_key_that_is_no_address_is_an_error)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, LOGIN)))
        return;
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE login user:42"),
              "-ERR 'user:42' is no IP address, and the keys of policy 'login' are: write 192.0.2.7 or "
              "2001:db8::7\r\n");
    CHECK(says(kit_ask(&kit, "WEIR.EXPLAIN login user:42"), "-ERR 'user:42' is no IP address"));
    CHECK(says(kit_ask(&kit, "WEIR.RESET login 192.0.2.0/24"), "is no IP address"));
    struct policy_sums sums;
    weir_counters_sum(
        weir_snapshot_policy(atomic_load(&kit.service->snapshot), (struct slice){"login", 5})->counters,
        &sums);
    CHECK_EQ(sums.errors, 3);
    kit_close(&kit);
}

TEST(every_verb_is_about_all_tiers)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, LOGIN)))
        return;
    CHECK_STR(kit_ask(&kit, "WEIR.CHARGE login 192.0.2.7 2"), "+OK\r\n");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK login 192.0.2.7"), "remaining"), 1);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK login 192.0.2.8 3"), "allowed"), 1);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK login/24-48 192.0.2.0/24"), "remaining"), 3);
    CHECK_STR(kit_ask(&kit, "WEIR.GIVE login 192.0.2.7 1"), "+OK\r\n");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK login/24-48 192.0.2.0/24"), "remaining"), 4);
    CHECK_STR(kit_ask(&kit, "WEIR.RESET login 192.0.2.7"), "+OK\r\n");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK login/24-48 192.0.2.0/24"), "remaining"), 5);
    CHECK(says(kit_ask(&kit, "WEIR.ACQUIRE login 192.0.2.7"), "-ERR policy 'login' has several tiers"));
    CHECK(
        says(kit_ask(&kit, "WEIR.RESERVE login 192.0.2.7 1 TIMEOUT 50"), "-ERR TIMEOUT needs a single pair"));
    kit_close(&kit);
}

TEST(a_reservation_is_settled_in_all_tiers)
{
    struct kit kit;
    char line[128];
    if (!CHECK(kit_open(&kit, LOGIN)))
        return;
    for (int i = 0; i < 2; i++) {
        const char *reply = kit_ask(&kit, "WEIR.RESERVE login 192.0.2.7 3");
        CHECK_EQ(kit_field(reply, "allowed"), 1);
        (void)snprintf(line, sizeof line, i == 0 ? "WEIR.CANCEL %s" : "WEIR.COMMIT %s 1",
                       kit_text(reply, "id"));
        CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK login/24-48 192.0.2.0/24"), "remaining"), 2);
        CHECK_EQ(kit_field(kit_ask(&kit, line), "given_back"), 3 - i);
        CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK login/24-48 192.0.2.0/24"), "remaining"), 5 - i);
        CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK login 192.0.2.7"), "remaining"), 3 - i);
    }
    CHECK_EQ(allowed(&kit, "WEIR.RESERVE login 192.0.2.7 1 AND login 192.0.2.8 1"), 1);
    CHECK(
        says(kit_ask(&kit, "WEIR.RESERVE login 192.0.2.7 1 AND login 192.0.2.8 1 AND login 192.0.2.9 1"),
             "-ERR at most 5 pairs can be decided together, and each tier of address: is one: these are 6"));
    kit_close(&kit);
}

TEST(an_id_gets_the_same_answer_whichever_tier_gave_it)
{
    struct kit kit;
    char first[1024];
    if (!CHECK(kit_open(&kit, LOGIN)))
        return;
    CHECK_EQ(allowed(&kit, "WEIR.TAKE login 192.0.2.7 3"), 1);
    (void)snprintf(first, sizeof first, "%s", kit_ask(&kit, "WEIR.TAKE login 192.0.2.8 2 ID a FULL"));
    CHECK_STR(kit_text(first, "limit"), "net");
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE login 192.0.2.8 2 ID a"), "limit"), "net");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE login 192.0.2.8 2 ID a"), "remaining"), 0);
    CHECK_EQ(allowed(&kit, "WEIR.TAKE login 192.0.2.9 1 ID b"), 0);
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE login 192.0.2.9 1 ID b"), "limit"), "net");
    CHECK(says(kit_ask(&kit, "WEIR.TAKE login 192.0.2.10 FULL"), "host"));
    kit_close(&kit);
}

TEST(lists_decide_first)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, LOGIN LISTS)))
        return;
    for (int i = 0; i < 20; i++) {
        const char *reply = kit_ask(&kit, "WEIR.TAKE login 10.2.0.1 100");
        CHECK_EQ(kit_field(reply, "allowed"), 1);
        CHECK_STR(kit_text(reply, "reason"), "exempt");
        CHECK_STR(kit_text(reply, "limit"), "allow");
    }
    const char *reply = kit_ask(&kit, "WEIR.TAKE login 10.1.2.3");
    CHECK_EQ(kit_field(reply, "allowed"), 0);
    CHECK_EQ(kit_field(reply, "retry_after_ms"), -1);
    CHECK_STR(kit_text(reply, "reason"), "blocked");
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.PEEK login 2001:db8:bad:1::7"), "reason"), "blocked");
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE login 10.1.2.3 1 ID x"), "reason"), "blocked");
    reply = kit_ask(&kit, "WEIR.TAKE login 10.1.2.3 1 ID x");
    CHECK_STR(kit_text(reply, "reason"), "blocked");
    CHECK_STR(kit_text(reply, "limit"), "block");
    CHECK_EQ(counted(&kit, "login", true), 2);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK login/24-48 10.2.0.0/24"), "remaining"), 5);
    CHECK(says(kit_ask(&kit, "WEIR.EXPLAIN login 10.1.2.3"),
               "block: of the policy has this address: nothing passes"));
    CHECK(
        says(kit_ask(&kit, "WEIR.EXPLAIN login 10.2.2.3 JSON"), "\"would_pass\":null,\"reason\":\"exempt\""));
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.RESERVE login 10.2.0.1 5"), "allowed"), 1);
    kit_close(&kit);
}

TEST(with_other_pairs_a_list_refuses_all_or_exempts_its_own)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, LOGIN LISTS "  - {name: api, limits: 10/m}\n")))
        return;
    const char *reply = kit_ask(&kit, "WEIR.TAKE api k 1 AND login 10.1.2.3");
    CHECK_EQ(kit_field(reply, "allowed"), 0);
    CHECK_STR(kit_text(reply, "limit"), "login/block");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK api k"), "remaining"), 10);
    CHECK_EQ(allowed(&kit, "WEIR.TAKE api k 1 AND login 10.2.2.3 100"), 1);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK api k"), "remaining"), 9);
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE login 10.2.2.4 AND login 10.2.2.3 100"), "reason"), "exempt");
    struct policy_sums sums;
    weir_counters_sum(
        weir_snapshot_policy(atomic_load(&kit.service->snapshot), (struct slice){"login", 5})->counters,
        &sums);
    CHECK_EQ(sums.allowed, 3);
    CHECK_EQ(sums.shadow_refused, 0);
    CHECK_EQ(allowed(&kit, "WEIR.TAKE api k 1 AND login 192.0.2.7 4"), 0);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK api k"), "remaining"), 9);
    CHECK_STR(kit_ask(&kit, "WEIR.POLICY MODE login shadow"), "+OK\r\n");
    reply = kit_ask(&kit, "WEIR.TAKE api k 1 AND login 10.1.2.3");
    CHECK_EQ(kit_field(reply, "allowed"), 1);
    CHECK_STR(kit_text(reply, "reason"), "shadow");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK api k"), "remaining"), 8);
    kit_close(&kit);
}

TEST(shadow_refuses_nobody_and_charges_no_tier)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, LOGIN LISTS "    mode: shadow\n")))
        return;
    CHECK_EQ(allowed(&kit, "WEIR.TAKE login 192.0.2.7 3"), 1);
    const char *reply = kit_ask(&kit, "WEIR.TAKE login 192.0.2.7");
    CHECK_EQ(kit_field(reply, "allowed"), 1);
    CHECK_STR(kit_text(reply, "reason"), "shadow");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK login/24-48 192.0.2.0/24"), "remaining"), 2);
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.PEEK login 192.0.2.7"), "reason"), "shadow");
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE login 10.1.2.3"), "reason"), "shadow");
    CHECK_STR(kit_ask(&kit, "WEIR.POLICY MODE login disabled"), "+OK\r\n");
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE login 10.1.2.3"), "reason"), "disabled");
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.PEEK login 10.1.2.3"), "reason"), "disabled");
    kit_close(&kit);
}

TEST(lists_without_tiers_count_whole_addresses)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "policies: [{name: api, limits: 3/m, block: 10.0.0.0/8}]\n")))
        return;
    CHECK_EQ(allowed(&kit, "WEIR.TAKE api 192.0.2.7 2"), 1);
    CHECK_EQ(allowed(&kit, "WEIR.TAKE api address:[::ffff:192.0.2.7]:80 2"), 0);
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.ACQUIRE api 10.0.0.1 TIMEOUT 1000"), "reason"), "blocked");
    CHECK_EQ(allowed(&kit, "WEIR.ACQUIRE api 192.0.2.8"), 1);
    CHECK_STR(kit_ask(&kit, "WEIR.POLICY SET api 1/m"), "+OK\r\n");
    CHECK_EQ(allowed(&kit, "WEIR.TAKE api 192.0.2.9 2"), 0);
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE api 10.0.0.1"), "reason"), "blocked");
    kit_close(&kit);
}

TEST(an_override_names_a_prefix_of_a_tier)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, LOGIN "    overrides: [{key: 192.0.2.0/24, limits: 50/m}]\n")))
        return;
    CHECK_STR(kit_ask(&kit, "WEIR.OVERRIDE SET login 192.0.2.7/32 20/m"), "+OK\r\n");
    CHECK_EQ(allowed(&kit, "WEIR.TAKE login 192.0.2.7 20"), 1);
    CHECK_EQ(allowed(&kit, "WEIR.TAKE login 192.0.2.8 3"), 1);
    CHECK_EQ(allowed(&kit, "WEIR.TAKE login 192.0.2.8"), 0);
    CHECK(says(kit_ask(&kit, "WEIR.OVERRIDE LIST login"), "192.0.2.0/24"));
    CHECK(says(kit_ask(&kit, "WEIR.OVERRIDE LIST login"), "192.0.2.7\r\n"));
    CHECK_STR(kit_ask(&kit, "WEIR.OVERRIDE DEL login 192.0.2.0/24"), "+OK\r\n");
    CHECK_EQ(allowed(&kit, "WEIR.TAKE login 192.0.2.9 3"), 1);
    CHECK_EQ(allowed(&kit, "WEIR.TAKE login 192.0.2.10 3"), 0);
    CHECK(says(kit_ask(&kit, "WEIR.OVERRIDE SET login 192.0.2.0/25 5/m"), "-ERR no tier of this policy"));
    CHECK(says(kit_ask(&kit, "WEIR.OVERRIDE SET login 192.0.2.* 5/m"),
               "-ERR the keys of this policy are addresses"));
    kit_close(&kit);
}

TEST(the_file_alone_has_tiers)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, LOGIN)))
        return;
    CHECK(says(kit_ask(&kit, "WEIR.POLICY SET login 5/m"), "-ERR policy 'login' has address: in the file"));
    CHECK(says(kit_ask(&kit, "WEIR.POLICY SET login/24-48 5/m"), "is a tier of address:"));
    CHECK(says(kit_ask(&kit, "WEIR.POLICY CANDIDATE login 5/m"),
               "-ERR policy 'login' has address: in the file"));
    CHECK(says(kit_ask(&kit, "WEIR.POLICY DEL login"), "-ERR policy 'login' has address: in the file"));
    CHECK(says(kit_ask(&kit, "WEIR.POLICY DEL login/24-48"), "is a tier"));
    CHECK(says(kit_ask(&kit, "WEIR.POLICY MODE login/24-48 shadow"), "is a tier"));
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.POLICY SHOW login"), "address"),
              "v4/32 v6/64 3/m name=host; v4/24 v6/48 5/m name=net");
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.POLICY SHOW login/24-48"), "address"), "a tier");
    kit_close(&kit);
}

TEST(people_see_every_tier)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, LOGIN)))
        return;
    CHECK_EQ(allowed(&kit, "WEIR.TAKE login 192.0.2.7 3"), 1);
    const char *reply = kit_ask(&kit, "WEIR.EXPLAIN login 192.0.2.7");
    CHECK(says(reply, "  192.0.2.7\n  host  3/m   used 3   left 0"));
    CHECK(says(reply, "  192.0.2.0/24\n  net  5/m   used 3   left 2"));
    CHECK(says(reply, "one unit is refused at present by host"));
    reply = kit_ask(&kit, "WEIR.EXPLAIN login 192.0.2.7 JSON");
    CHECK(
        says(reply, "{\"key\":\"192.0.2.0/24\",\"policy\":\"login/24-48\",\"override\":null,\"limits\":[{"));
    kit_close(&kit);
}

TEST(the_top_has_prefixes_of_every_tier)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit,
                        "policies: [{name: a, address: [{v4: 32, v6: 64, limits: 1M/m}, {v4: 24, v6: 48, "
                        "limits: 1M/m}]}]\n")))
        return;
    for (int i = 0; i < 5000; i++) /* a sample of them is noted */
        (void)kit_ask(&kit, "WEIR.TAKE a 192.0.2.7");
    const char *reply = kit_ask(&kit, "WEIR.TOP a");
    CHECK(says(reply, "192.0.2.7\r\n") && says(reply, "192.0.2.0/24\r\n"));
    kit_close(&kit);
}

/* ---- against a model ---- */

#define HOSTS 12
struct model {
    int host[HOSTS], net[3];
};

/* Addresses of four hosts in each of three networks, all IPv4 or all IPv6. */
static void write_host(struct rng *rng, int host, bool four, char text[static 64])
{
    if (!four)
        (void)snprintf(text, 64, "2001:db8:%d:%d::%d", host / 4, host % 4, (int)rng_between(rng, 1, 99));
    else if (rng_between(rng, 0, 1))
        (void)snprintf(text, 64, "::ffff:192.0.%d.%d", host / 4, host % 4);
    else
        (void)snprintf(text, 64, "192.0.%d.%d:%d", host / 4, host % 4, (int)rng_between(rng, 0, 65535));
}

static bool run_model(struct kit *kit, struct rng *rng, bool four)
{
    struct model model = {{0}, {0}};
    for (int i = 0; i < 300; i++) {
        int one = (int)rng_between(rng, 0, HOSTS - 1), other = (int)rng_between(rng, 0, HOSTS - 1);
        int n = (int)rng_between(rng, 1, 3), verb = (int)rng_between(rng, 0, 9);
        bool two = verb < 3;
        char a[64], b[64], line[256];
        write_host(rng, one, four, a);
        write_host(rng, other, four, b);
        struct model next = model;
        next.host[one] += n;
        next.net[one / 4] += n;
        if (two) {
            next.host[other] += 1;
            next.net[other / 4] += 1;
        }
        bool fits = next.host[one] <= 7 && next.net[one / 4] <= 15 &&
                    (!two || (next.host[other] <= 7 && next.net[other / 4] <= 15));
        if (two)
            (void)snprintf(line, sizeof line, "WEIR.TAKE m %s %d AND m %s", a, n, b);
        else
            (void)snprintf(line, sizeof line, "WEIR.%s m %s %d", verb == 3 ? "PEEK" : "TAKE", a, n);
        if (!CHECK_EQ(allowed(kit, line), fits)) {
            printf("# %d: %s\n", i, line);
            return false;
        }
        if (fits && verb != 3)
            model = next;
        if (verb == 9 && model.host[one] > 0) { /* given back, as long as there is something */
            (void)snprintf(line, sizeof line, "WEIR.GIVE m %s 1", a);
            CHECK_STR(kit_ask(kit, line), "+OK\r\n");
            model.host[one]--;
            model.net[one / 4]--;
        }
    }
    return true;
}

TEST(tiers_are_all_or_none_as_in_a_model)
{
    struct rng rng = rng_new(3);
    bool good = true;
    for (int round = 0; good && round < 20; round++) {
        struct kit kit;
        if (!CHECK(kit_open(
                &kit, "policies:\n  - {name: m, address: [{v4: 32, v6: 64, limits: 7/d algo=fixed-window}, "
                      "{v4: 24, v6: 48, limits: 15/d algo=fixed-window}]}\n")))
            return;
        good = run_model(&kit, &rng, round % 2 == 0);
        kit_close(&kit);
    }
}
