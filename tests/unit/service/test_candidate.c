/* SPDX-License-Identifier: MIT */
/*
 * WEIR.POLICY CANDIDATE and WEIR.TOP CANDIDATE: limits that are tried beside those in force, by command.
 */
#include "service/policies/apply.h"
#include "unit/service/command_kit.h"

#define POLICIES                                                                                             \
    "policies:\n"                                                                                            \
    "  - {name: api, limits: 100/h, overrides: [{key: \"vip:*\", limits: 5k/h}, {key: own, limits: "         \
    "50/h}]}\n"                                                                                              \
    "  - {name: filed, limits: 100/h, candidate: 7/h}\n"                                                     \
    "  - {name: wide, limits: 1M/h, overrides: [{key: \"vip:*\", limits: 1/h}]}\n"

static bool apply_file(const char *yaml)
{
    struct weir_error err;
    struct config *config = weir_config_parse("weir.yaml", yaml, strlen(yaml), NULL, NULL);
    bool done = CHECK(config != NULL) && weir_service_apply(kit.service, config, &err);
    weir_config_free(config);
    return done;
}

static const char *shown(const char *policy, const char *name)
{
    say("WEIR.POLICY SHOW %s", policy);
    return text_field(name);
}

static int64_t candidate_refused(const char *policy)
{
    say("WEIR.POLICY SHOW %s", policy);
    return number_field("candidate_refused");
}

TEST(a_candidate_is_tried_and_decides_nothing)
{
    if (!kit_begin(POLICIES))
        return;
    CHECK_STR(say("WEIR.POLICY CANDIDATE api 10/h burst=3"), "+OK\r\n");
    CHECK_STR(shown("api", "candidate"), "10/h burst=3");
    CHECK_STR(text_field("limits"), "100/h");
    for (int i = 0; i < 5; i++) {
        say("WEIR.TAKE api k 1");
        CHECK_EQ(number_field("allowed"), 1);
    }
    CHECK_EQ(candidate_refused("api"), 2);
    say("WEIR.TAKE api own 9"); /* who has limits of his own keeps them */
    say("WEIR.TAKE api vip:1 9");
    CHECK_EQ(candidate_refused("api"), 2);
    CHECK_STR(say("WEIR.POLICY CANDIDATE api none"), "+OK\r\n");
    CHECK_STR(shown("api", "candidate"), "");
    say("WEIR.TAKE api k 50");
    CHECK_EQ(candidate_refused("api"), 2);
    kit_end();
}

TEST(what_a_candidate_has_counted_stays_if_only_numbers_change)
{
    if (!kit_begin(POLICIES))
        return;
    CHECK_STR(say("WEIR.POLICY CANDIDATE api 10/h"), "+OK\r\n");
    say("WEIR.TAKE api k 10");
    CHECK_STR(say("WEIR.POLICY CANDIDATE api 9/h"), "+OK\r\n");
    CHECK_EQ(candidate_refused("api"), 0);
    say("WEIR.TAKE api k 1");
    CHECK_EQ(candidate_refused("api"), 1);
    CHECK_STR(say("WEIR.POLICY CANDIDATE api 9/h algo=fixed-window"),
              "+OK\r\n"); /* another kind begins anew */
    say("WEIR.TAKE api k 9");
    CHECK_EQ(candidate_refused("api"), 1);
    kit_end();
}

TEST(the_file_counts_again_when_it_is_read_again)
{
    if (!kit_begin(POLICIES))
        return;
    CHECK_STR(shown("filed", "from"), "file");
    CHECK_STR(say("WEIR.POLICY CANDIDATE filed 5/h"), "+OK\r\n");
    CHECK_STR(shown("filed", "candidate"), "5/h");
    CHECK_STR(text_field("from"), "command");
    CHECK_STR(say("WEIR.POLICY CANDIDATE api 5/h"), "+OK\r\n");
    CHECK_STR(say("WEIR.POLICY SET mine 5/h"), "+OK\r\n");
    CHECK_STR(say("WEIR.POLICY CANDIDATE mine 4/h"), "+OK\r\n");
    CHECK(apply_file(POLICIES));
    CHECK_STR(shown("filed", "candidate"), "7/h");
    CHECK_STR(text_field("from"), "file");
    CHECK_STR(shown("api", "candidate"), "");
    CHECK_STR(shown("mine", "candidate"), "4/h"); /* what the file does not name stays */
    kit_end();
}

TEST(what_is_wrong_changes_nothing)
{
    if (!kit_begin(POLICIES))
        return;
    CHECK(begins(say("WEIR.POLICY CANDIDATE filed 5/s brust=10"),
                 "-ERR 5/s brust=10: column 5: unknown option"));
    CHECK(begins(say("WEIR.POLICY CANDIDATE file 5/s"), "-ERR no policy 'file'; did you mean 'filed'?"));
    CHECK(begins(say("WEIR.POLICY CANDIDATE api NONE"), "-ERR policy 'api' has no candidate"));
    CHECK(begins(say("WEIR.POLICY CANDIDATE filed NONE NONE"), "-ERR ")); /* no limits */
    CHECK(begins(say("WEIR.POLICY CANDIDATE filed"), "-ERR wrong number of arguments"));
    CHECK_STR(shown("filed", "candidate"), "7/h");
    CHECK_STR(text_field("from"), "file");
    kit_end();
}

TEST(top_tells_whom_the_candidate_would_refuse)
{
    if (!kit_begin(POLICIES))
        return;
    CHECK(begins(say("WEIR.TOP wide CANDIDATE"),
                 "-ERR policy 'wide' has no candidate (WEIR.POLICY CANDIDATE wide "));
    CHECK_STR(say("WEIR.POLICY CANDIDATE wide 1/h"), "+OK\r\n");
    for (int i = 0; i < 3000; i++) {
        say("WEIR.TAKE wide greedy 1"); /* refused by the candidate alone */
        say("WEIR.TAKE wide vip:1 1");  /* refused by its override, which the candidate does not stand in for
                                         */
        if (i < 1)
            say("WEIR.TAKE wide modest 1");
    }
    say("WEIR.TOP wide CANDIDATE COUNT 5");
    if (CHECK_EQ(got->count, 1)) {
        CHECK_STR(text_of(weir_resp_get(&got->elements[0], "key")), "greedy");
        CHECK(weir_resp_get(&got->elements[0], "units")->integer > 500);
    }
    CHECK(begins(say("WEIR.TOP wide CANDIDATE REFUSED"), "-ERR syntax error near 'REFUSED'"));
    kit_end();
}
