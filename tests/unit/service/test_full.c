/* SPDX-License-Identifier: MIT */
/*
 * FULL: the numbers of every limit behind an answer.
 */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "unit/service/service_kit.h"

static bool reply_begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* The number of a field of the i-th limit in the reply of a client of version 2. */
static int64_t limit_number(const char *reply, size_t i, const char *name)
{
    const char *at = strstr(reply, "\r\nlimits\r\n");
    for (size_t k = 0; at && k <= i; k++)
        at = strstr(at + 1, "\r\nname\r\n");
    return at ? kit_field(at, name) : INT64_MIN;
}

TEST(full_adds_numbers_behind_the_six_fields)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(kit_policy(&kit, "api", "10/s burst=20, 100/m name=long")))
        return;
    CHECK_STR(
        kit_ask(&kit, "WEIR.TAKE api a 5 FULL"),
        "*22\r\n$7\r\nallowed\r\n:1\r\n$9\r\nremaining\r\n:15\r\n$14\r\nretry_after_ms\r\n:0\r\n"
        "$14\r\nreset_after_ms\r\n:500\r\n$5\r\nlimit\r\n$13\r\n10/s burst=20\r\n$6\r\nreason\r\n$2\r\nok\r\n"
        "$5\r\ncount\r\n:10\r\n$9\r\nwindow_ms\r\n:1000\r\n$5\r\nburst\r\n:20\r\n$4\r\nused\r\n:5\r\n"
        "$6\r\nlimits\r\n*2\r\n"
        "*16\r\n$4\r\nname\r\n$13\r\n10/s burst=20\r\n$5\r\ncount\r\n:10\r\n$9\r\nwindow_ms\r\n:1000\r\n"
        "$5\r\nburst\r\n:20\r\n$4\r\nused\r\n:5\r\n$9\r\nremaining\r\n:15\r\n$14\r\nreset_after_ms\r\n:"
        "500\r\n"
        "$14\r\nretry_after_ms\r\n:0\r\n"
        "*16\r\n$4\r\nname\r\n$4\r\nlong\r\n$5\r\ncount\r\n:100\r\n$9\r\nwindow_ms\r\n:60000\r\n"
        "$5\r\nburst\r\n:100\r\n$4\r\nused\r\n:5\r\n$9\r\nremaining\r\n:95\r\n"
        "$14\r\nreset_after_ms\r\n:3000\r\n$14\r\nretry_after_ms\r\n:0\r\n");
    const char *refused = kit_ask(&kit, "WEIR.TAKE api a 16 FULL");
    CHECK_EQ(kit_field(refused, "allowed"), 0);
    CHECK_EQ(kit_field(refused, "used"), 5);
    CHECK_EQ(limit_number(refused, 0, "retry_after_ms"), 100);
    CHECK_EQ(limit_number(refused, 1, "retry_after_ms"), 0); /* that one alone would let them pass */
    kit.session.version = 3;
    CHECK(reply_begins(kit_ask(&kit, "WEIR.PEEK api a FULL"), "%11\r\n$7\r\nallowed\r\n#t\r\n"));
    CHECK(reply_begins(kit_ask(&kit, "WEIR.ACQUIRE api a TIMEOUT 0 FULL"), "%12\r\n"));
    CHECK(reply_begins(kit_ask(&kit, "WEIR.RESERVE api a 1 FULL TTL 1000"), "%13\r\n"));
    CHECK(reply_begins(kit_ask(&kit, "WEIR.TAKE api a FULL FULL"), "-ERR FULL is there twice"));
    kit_close(&kit);
    weir_clock_set(-1);
}

TEST(full_tells_of_every_pair_whatever_its_mode)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "policies:\n"
                              "  - {name: api, limits: 5/m, overrides: [{key: vip, limits: 50/m}]}\n"
                              "  - {name: paper, limits: 1/m, mode: shadow}\n"
                              "  - {name: none, limits: 1/m, mode: disabled}\n"
                              "  - {name: free, limits: unlimited}\n")))
        return;
    const char *reply = kit_ask(&kit, "WEIR.TAKE api vip 10 AND paper a 2 AND none a 3 FULL");
    CHECK_EQ(kit_field(reply, "allowed"), 1);
    CHECK_STR(kit_text(reply, "limit"), "paper/1/m");
    CHECK_STR(kit_text(reply, "reason"), "shadow");
    CHECK_EQ(kit_field(reply, "count"), 1);
    CHECK_EQ(limit_number(reply, 0, "count"), 50);
    CHECK_EQ(limit_number(reply, 0, "used"), 10);
    CHECK_EQ(limit_number(reply, 1, "used"), 0); /* what is refused in shadow takes nothing */
    CHECK_EQ(limit_number(reply, 2, "count"), 1);
    CHECK(strstr(reply, "$8\r\napi/50/m\r\n") && strstr(reply, "\r\nnone/1/m\r\n"));
    reply = kit_ask(&kit, "WEIR.TAKE none a FULL");
    CHECK_STR(kit_text(reply, "limit"), "unlimited");
    CHECK_EQ(kit_field(reply, "burst"), -1);
    CHECK_EQ(limit_number(reply, 0, "burst"), 1);
    reply = kit_ask(&kit, "WEIR.TAKE free a FULL");
    CHECK_EQ(limit_number(reply, 0, "count"), -1);
    CHECK_EQ(limit_number(reply, 0, "remaining"), -1);
    kit_close(&kit);
    weir_clock_set(-1);
}

TEST(full_of_a_wait_is_what_was_promised)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(kit_policy(&kit, "api", "1/s burst=1")))
        return;
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE api a"), "allowed"), 1);
    CHECK_STR(kit_ask(&kit, "WEIR.ACQUIRE api a FULL"), "");
    kit_clock(&kit, 1000);
    const char *reply = kit_resume(&kit);
    CHECK_EQ(kit_field(reply, "waited_ms"), 1000);
    CHECK_EQ(kit_field(reply, "count"), 1);
    CHECK_EQ(limit_number(reply, 0, "window_ms"), 1000);
    kit_close(&kit);
    weir_clock_set(-1);
}

/* The object as a whole: the limit's name, its rate, and what is used of it. */
static void check_decided(const char *reply, const char *limit, int64_t count, int64_t used)
{
    CHECK_EQ(kit_field(reply, "allowed"), 0);
    CHECK_EQ(kit_field(reply, "remaining"), 0);
    CHECK_STR(kit_text(reply, "limit"), limit);
    CHECK_EQ(kit_field(reply, "count"), count);
    CHECK_EQ(kit_field(reply, "window_ms"), count < 0 ? -1 : 3600000);
    CHECK_EQ(kit_field(reply, "burst"), count);
    CHECK_EQ(kit_field(reply, "used"), used);
}

/* What decided first may be a limit of before a change of the policy, or one that there is no more. */
TEST(full_of_a_repeat_is_of_the_limit_that_decided_first)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(kit_policy(&kit, "z", "2/h")))
        return;
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE z k 2"), "allowed"), 1);
    check_decided(kit_ask(&kit, "WEIR.TAKE z k 1 ID old FULL"), "2/h", 2, 2);
    check_decided(kit_ask(&kit, "WEIR.TAKE z k 1 ID old FULL"), "2/h", 2, 2);
    CHECK(kit_policy(&kit, "z", "50/h algo=fixed-window"));
    check_decided(kit_ask(&kit, "WEIR.TAKE z k 1 ID old FULL"), "", -1, -1);
    for (int i = 0; i < 2; i++)
        check_decided(kit_ask(&kit, "WEIR.TAKE z k 1 ID x FULL"), "2/h", 2, 2);
    const char *reply = kit_ask(&kit, "WEIR.TAKE z k 1 ID x FULL");
    CHECK_EQ(limit_number(reply, 0, "used"), 0);
    CHECK_EQ(limit_number(reply, 0, "remaining"), 50);
    CHECK_EQ(limit_number(reply, 1, "used"), 2);
    CHECK(kit_policy(&kit, "z", "7/h")); /* another table before, or none */
    check_decided(kit_ask(&kit, "WEIR.TAKE z k 1 ID x FULL"), "", -1, -1);
    reply = kit_ask(&kit, "WEIR.TAKE z k 1 ID x");
    CHECK_STR(kit_text(reply, "limit"), "");
    kit_close(&kit);
    weir_clock_set(-1);
}

/* The name stays, the limit behind it does not: neither for all keys, nor with a prefix, nor for one. */
TEST(full_of_a_repeat_knows_limits_that_have_changed_in_their_place)
{
    static const char *const keys[] = {"k", "vip:1", "one"};
    static const char *const changes[] = {"WEIR.POLICY SET z \"5/h name=n\"",
                                          "WEIR.OVERRIDE SET z vip:* \"5/h name=n\"",
                                          "WEIR.OVERRIDE SET z one \"5/h name=n\""};
    struct kit kit;
    char line[80];
    if (!CHECK(kit_open(&kit, "policies:\n"
                              "  - {name: z, limits: 2/h name=n, overrides: [{key: 'vip:*', limits: 2/h "
                              "name=n}, {key: one, limits: 2/h name=n}]}\n")))
        return;
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(line, sizeof line, "WEIR.TAKE z %s 2", keys[i]);
        CHECK_EQ(kit_field(kit_ask(&kit, line), "allowed"), 1);
        (void)snprintf(line, sizeof line, "WEIR.TAKE z %s 1 ID id:%s FULL", keys[i], keys[i]);
        check_decided(kit_ask(&kit, line), "n", 2, 2);
        check_decided(kit_ask(&kit, line), "n", 2, 2);
        CHECK_STR(kit_ask(&kit, changes[i]), "+OK\r\n");
        check_decided(kit_ask(&kit, line), "", -1, -1);
    }
    kit_close(&kit);
    weir_clock_set(-1);
}

/* A joint take, whose second pair was decided by limits of before a change. */
TEST(full_of_a_repeat_of_several_pairs)
{
    static const char *const ask = "WEIR.TAKE a k 1 AND z k 1 ID x FULL";
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(kit_policy(&kit, "a", "9/h")) ||
        !CHECK(kit_policy(&kit, "z", "2/h")))
        return;
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE z k 2"), "allowed"), 1);
    CHECK(kit_policy(&kit, "z", "50/h algo=fixed-window"));
    check_decided(kit_ask(&kit, ask), "z/2/h", 2, 2);
    check_decided(kit_ask(&kit, ask), "z/2/h", 2, 2);
    CHECK(kit_policy(&kit, "a", "8/h")); /* that one did not decide */
    check_decided(kit_ask(&kit, ask), "z/2/h", 2, 2);
    kit_close(&kit);
    weir_clock_set(-1);
}
