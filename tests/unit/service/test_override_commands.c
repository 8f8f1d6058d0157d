/* SPDX-License-Identifier: MIT */
/*
 * WEIR.OVERRIDE as an operator types it.
 */
#include "unit/service/command_kit.h"

#define POLICY                                                                                               \
    "policies:\n"                                                                                            \
    "  - name: api\n"                                                                                        \
    "    limits: 5/s\n"                                                                                      \
    "    overrides:\n"                                                                                       \
    "      - {key: \"internal:*\", limits: unlimited}\n"                                                     \
    "      - {key: org:mallory, limits: blocked, reason: abuse 4711}\n"

static const struct resp_value *entry(size_t at, const char *name)
{
    static const struct resp_value none;
    const struct resp_value *value = got && at < got->count ? weir_resp_get(&got->elements[at], name) : NULL;
    return value ? value : &none;
}

TEST(overrides_are_listed_with_end_and_reason)
{
    if (!kit_begin(POLICY))
        return;
    CHECK_STR(say("WEIR.OVERRIDE SET api org:acme 1000/s burst=2k, 5M/d FOR 2h REASON \"launch week\""),
              "+OK\r\n");
    say("WEIR.OVERRIDE LIST api");
    CHECK(got && got->type == RESP_ARRAY && got->count == 3);
    CHECK_STR(text_of(entry(0, "key")), "org:acme");
    CHECK_STR(text_of(entry(0, "limits")), "1k/s burst=2k, 5M/d");
    CHECK_EQ(entry(0, "until_ms")->integer, 7200000);
    CHECK_STR(text_of(entry(0, "reason")), "launch week");
    CHECK_STR(text_of(entry(1, "key")), "org:mallory");
    CHECK_EQ(entry(1, "until_ms")->type, RESP_NULL);
    CHECK_STR(text_of(entry(1, "reason")), "abuse 4711");
    CHECK_STR(text_of(entry(2, "key")), "internal:*");
    CHECK_EQ(entry(2, "reason")->type, RESP_NULL);
    CHECK_STR(text_of(entry(0, "from")), "command");
    CHECK_STR(text_of(entry(1, "from")), "file");
    CHECK_STR(text_of(entry(2, "from")), "file");
    CHECK_EQ(got->elements[0].count, 10);
    kit_end();
}

TEST(an_override_counts_until_it_is_taken_away)
{
    if (!kit_begin(POLICY))
        return;
    say("WEIR.TAKE api internal:x 500");
    CHECK_EQ(number_field("allowed"), 1);
    say("WEIR.TAKE api org:mallory");
    CHECK_EQ(number_field("allowed"), 0);
    CHECK_STR(say("WEIR.OVERRIDE DEL api org:mallory"), "+OK\r\n");
    say("WEIR.CLOCK ADVANCE 1000"); /* other limits than blocked begin empty */
    say("WEIR.TAKE api org:mallory");
    CHECK_EQ(number_field("allowed"), 1);
    CHECK_STR(say("WEIR.OVERRIDE DELETE api internal:*"), "+OK\r\n");
    say("WEIR.TAKE api internal:x 500");
    CHECK_EQ(number_field("allowed"), 0);
    CHECK(begins(say("WEIR.OVERRIDE DEL api internal:*"), "-ERR "));
    kit_end();
}

TEST(an_override_ends_by_itself)
{
    if (!kit_begin(POLICY))
        return;
    CHECK_STR(say("WEIR.OVERRIDE SET api k 100/s FOR 1m"), "+OK\r\n");
    say("WEIR.PEEK api k 100");
    CHECK_EQ(number_field("allowed"), 1);
    say("WEIR.CLOCK ADVANCE 60000");
    kit_tick(&kit);
    say("WEIR.PEEK api k 100");
    CHECK_EQ(number_field("allowed"), 0);
    say("WEIR.OVERRIDE LIST api");
    CHECK_EQ(got->count, 2);
    kit_end();
}

TEST(what_is_wrong_is_told)
{
    if (!kit_begin(POLICY))
        return;
    CHECK(begins(say("WEIR.OVERRIDE SET api k"), "-ERR wrong number of arguments for 'weir.override|set'"));
    CHECK(begins(say("WEIR.OVERRIDE SET api k FOR 2h"),
                 "-ERR syntax error near 'FOR'; write WEIR.OVERRIDE SET "));
    CHECK(begins(say("WEIR.OVERRIDE SET api k 5/s FOR"), "-ERR "));
    CHECK(begins(say("WEIR.OVERRIDE SET api k 5/s FOR soon"), "-ERR "));
    CHECK(begins(say("WEIR.OVERRIDE SET api k 5/s FOR 1h UNTIL x"), "-ERR syntax error near 'UNTIL'"));
    CHECK(begins(say("WEIR.OVERRIDE SET api k 5/s REASON"), "-ERR REASON takes one text"));
    CHECK(begins(say("WEIR.OVERRIDE SET api k 5/s REASON %0300d", 0), "-ERR REASON takes one text"));
    CHECK(begins(say("WEIR.OVERRIDE SET api k 5/s brust=1"), "-ERR "));
    CHECK(strstr(error_text(), "did you mean burst?") != NULL);
    CHECK(begins(say("WEIR.OVERRIDE SET api k 5/s capacity=9"), "-ERR "));
    CHECK(strstr(error_text(), "'capacity' is called burst here: burst=9") != NULL);
    CHECK(begins(say("WEIR.OVERRIDE SET ap k 5/s"), "-ERR no policy 'ap'"));
    CHECK(begins(say("WEIR.OVERRIDE LIST ap"), "-ERR no policy 'ap'; did you mean 'api'?"));
    say("WEIR.OVERRIDE LIST api");
    CHECK_EQ(got->count, 2);
    kit_end();
}

/* Keys of others are not shown to who may not touch them. */
TEST(a_list_shows_only_keys_of_the_user)
{
    if (!kit_begin(POLICY "users:\n  - {name: a, password: \"b\", may: [look], keys: [\"org:*\"]}\n"))
        return;
    CHECK_STR(say("AUTH a b"), "+OK\r\n");
    say("WEIR.OVERRIDE LIST api");
    CHECK_EQ(got->count, 1);
    CHECK_STR(text_of(entry(0, "key")), "org:mallory");
    kit_end();
}
