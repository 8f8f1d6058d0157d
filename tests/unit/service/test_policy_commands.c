/* SPDX-License-Identifier: MIT */
/*
 * WEIR.POLICY, WEIR.RELOAD and WEIR.CLOCK as an operator types them.
 */
#define _POSIX_C_SOURCE 200809L
#include <unistd.h>

#include "unit/service/command_kit.h"

#define POLICIES                                                                                             \
    "policies:\n"                                                                                            \
    "  - {name: api, limits: 5/s, keys: 1000}\n"                                                             \
    "  - {name: login, limits: 1/m, keys: 1000, mode: enforce 25%}\n"

TEST(set_makes_a_policy_and_changes_it)
{
    if (!kit_begin(""))
        return;
    CHECK_STR(say("WEIR.POLICY SET api \"100/s burst=200, 10k/h\""), "+OK\r\n");
    say("WEIR.POLICY SHOW api");
    CHECK_STR(text_field("name"), "api");
    CHECK_STR(text_field("limits"), "100/s burst=200, 10k/h");
    CHECK_STR(text_field("mode"), "enforce");
    CHECK_EQ(number_field("percent"), 100);
    CHECK_STR(text_field("from"), "command");
    CHECK_EQ(field("candidate")->type, RESP_NULL);
    CHECK_STR(text_field("overrun"), "debt");
    CHECK_STR(text_field("on_full"), "share");
    CHECK_EQ(number_field("overrides"), 0);
    CHECK_STR(say("WEIR.POLICY SET api 100/s burst=50, 10k/h"), "+OK\r\n"); /* several words */
    say("WEIR.POLICY SHOW api");
    CHECK_STR(text_field("limits"), "100/s burst=50, 10k/h");
    kit_end();
}

TEST(what_was_spent_stays_spent_unless_fresh)
{
    if (!kit_begin(POLICIES))
        return;
    say("WEIR.TAKE api k 5");
    CHECK_STR(say("WEIR.POLICY SET api 5/s burst=10"), "+OK\r\n");
    say("WEIR.PEEK api k");
    CHECK_EQ(number_field("remaining"), 0);
    CHECK_STR(say("WEIR.POLICY SET api 5/s burst=10 FRESH"), "+OK\r\n");
    say("WEIR.PEEK api k");
    CHECK_EQ(number_field("remaining"), 10);
    CHECK(begins(say("WEIR.POLICY SET api FRESH"), "-ERR ")); /* no limits: the word is the limit */
    kit_end();
}

TEST(wrong_limits_and_names_are_refused_and_change_nothing)
{
    if (!kit_begin(POLICIES))
        return;
    CHECK_STR(say("WEIR.POLICY SET api 5/s brust=10"),
              "-ERR 5/s brust=10: column 5: unknown option 'brust'; did you mean burst?\r\n");
    CHECK_STR(say("WEIR.POLICY SET api 5 requests per hour"),
              "-ERR 5 requests per hour: column 3: units have no name; write 5/h\r\n");
    CHECK(begins(say("WEIR.POLICY SET api \"5/s\\x00x\""), "-ERR limits are text"));
    CHECK(begins(say("WEIR.POLICY SET \"a b\" 5/s"), "-ERR "));
    CHECK(begins(say("WEIR.POLICY SET * 5/s"), "-ERR "));
    CHECK_STR(say("WEIR.POLICY SET api"),
              "-ERR wrong number of arguments for 'weir.policy|set' command; write "
              "WEIR.POLICY SET name limits ... [FRESH]\r\n");
    CHECK_STR(say("WEIR.POLICY"),
              "-ERR wrong number of arguments for 'weir.policy' command; write WEIR.POLICY "
              "LIST|SHOW|SET|DEL|MODE|CANDIDATE|HELP\r\n");
    say("WEIR.POLICY SHOW api");
    CHECK_STR(text_field("limits"), "5/s");
    CHECK_STR(text_field("from"), "file");
    kit_end();
}

TEST(limits_of_any_length_are_told_to_be_too_long)
{
    char text[5001];
    memset(text, 'x', 5000);
    text[5000] = '\0';
    struct slice words[] = {{"WEIR.POLICY", 11}, {"SET", 3}, {"api", 3}, {text, 5000}};
    if (!kit_begin(""))
        return;
    CHECK(begins(look_at(kit_ask_words(&kit, words, 4)), "-ERR limits are text of less than"));
    words[3].len = 3999; /* with the NUL and one more that is the most */
    CHECK(begins(look_at(kit_ask_words(&kit, words, 4)), "-ERR limits are text of less than"));
    words[3].len = 3998;
    CHECK(!begins(look_at(kit_ask_words(&kit, words, 4)), "-ERR limits are text of less than"));
    CHECK(begins(error_text(), "ERR "));
    kit_end();
}

TEST(list_shows_all_policies_and_del_removes_one)
{
    if (!kit_begin(POLICIES))
        return;
    say("WEIR.TAKE api k");
    say("WEIR.POLICY LIST");
    if (!CHECK(got && got->type == RESP_ARRAY && got->count == 2))
        return;
    const struct resp_value *api = &got->elements[0], *login = &got->elements[1];
    CHECK_STR(text_of(weir_resp_get(api, "name")), "api");
    CHECK_EQ(weir_resp_get(api, "allowed")->integer, 1);
    CHECK_EQ(weir_resp_get(api, "keys")->integer, 1);
    CHECK_STR(text_of(weir_resp_get(login, "mode")), "enforce");
    CHECK_EQ(weir_resp_get(login, "percent")->integer, 25);
    CHECK_EQ(weir_resp_get(login, "mode_of_all")->type, RESP_NULL);
    say("WEIR.POLICY MODE * disabled");
    say("WEIR.POLICY LIST");
    CHECK_STR(text_of(weir_resp_get(&got->elements[1], "mode_of_all")), "disabled");
    CHECK_STR(say("WEIR.POLICY DEL api"), "+OK\r\n");
    CHECK(begins(say("WEIR.POLICY DEL api"), "-ERR no policy 'api'"));
    say("WEIR.POLICY LIST");
    CHECK_EQ(got->count, 1);
    CHECK_STR(say("WEIR.POLICY SHOW logn"),
              "-ERR no policy 'logn'; did you mean 'login'? (WEIR.POLICY LIST)\r\n");
    kit_end();
}

TEST(modes_end_by_themselves)
{
    if (!kit_begin(POLICIES))
        return;
    CHECK_STR(say("WEIR.POLICY MODE api shadow FOR 30m"), "+OK\r\n");
    say("WEIR.POLICY SHOW api");
    CHECK_STR(text_field("mode"), "shadow");
    CHECK_EQ(number_field("mode_ends_in_ms"), 1800000);
    say("WEIR.CLOCK ADVANCE 1799999");
    say("WEIR.TAKE api k 6");
    CHECK_STR(text_field("reason"), "shadow");
    say("WEIR.CLOCK ADVANCE 1");
    say("WEIR.TAKE api k 6");
    CHECK_STR(text_field("reason"), "never");
    say("WEIR.POLICY SHOW api");
    CHECK_STR(text_field("mode"), "enforce");
    CHECK_EQ(field("mode_ends_in_ms")->type, RESP_NULL);
    kit_end();
}

TEST(modes_are_read_with_care)
{
    if (!kit_begin(POLICIES))
        return;
    CHECK_STR(say("WEIR.POLICY MODE api enforce PERCENT 5"), "+OK\r\n");
    say("WEIR.POLICY SHOW api");
    CHECK_EQ(number_field("percent"), 5);
    CHECK_STR(say("WEIR.POLICY MODE api enforce 25%%"), "+OK\r\n");
    say("WEIR.POLICY SHOW api");
    CHECK_EQ(number_field("percent"), 25);
    CHECK_STR(say("WEIR.POLICY MODE api enforce 30%% FOR 2h"), "+OK\r\n");
    say("WEIR.POLICY SHOW api");
    CHECK_EQ(number_field("percent"), 30);
    CHECK_STR(say("WEIR.POLICY MODE api \"enforce 35%%\""), "+OK\r\n");
    say("WEIR.POLICY SHOW api");
    CHECK_EQ(number_field("percent"), 35);
    CHECK_STR(say("WEIR.POLICY MODE api enforce PERCENT 45%%"), "+OK\r\n");
    say("WEIR.POLICY SHOW api");
    CHECK_EQ(number_field("percent"), 45);
    CHECK_STR(say("WEIR.POLICY MODE api shadow 25%%"), "-ERR PERCENT goes with enforce only\r\n");
    CHECK_STR(say("WEIR.POLICY MODE api DISABLED for 2h"), "+OK\r\n");
    CHECK(begins(say("WEIR.POLICY MODE api off"), "-ERR "));
    const char *percent = "-ERR PERCENT takes a whole number from 1 to 100\r\n";
    CHECK_STR(say("WEIR.POLICY MODE api enforce PERCENT 0"), percent);
    CHECK_STR(say("WEIR.POLICY MODE api enforce PERCENT 101"), percent);
    CHECK_STR(say("WEIR.POLICY MODE api enforce PERCENT"), percent);
    CHECK_STR(say("WEIR.POLICY MODE api enforce 101%%"), percent);
    CHECK_STR(say("WEIR.POLICY MODE api enforce %%"), percent);
    CHECK_STR(say("WEIR.POLICY MODE api shadow PERCENT 5"), "-ERR PERCENT goes with enforce only\r\n");
    CHECK(begins(say("WEIR.POLICY MODE api shadow FOR"), "-ERR "));
    CHECK(begins(say("WEIR.POLICY MODE api shadow FOR never"), "-ERR "));
    CHECK(begins(say("WEIR.POLICY MODE api shadow UNTIL 2h"), "-ERR syntax error near 'UNTIL'; write "));
    CHECK(begins(say("WEIR.POLICY MODE nosuch shadow"), "-ERR no policy 'nosuch'"));
    kit_end();
}

TEST(the_mode_of_all_stands_above_until_it_ends)
{
    if (!kit_begin(POLICIES))
        return;
    CHECK_STR(say("WEIR.POLICY MODE * disabled FOR 1m"), "+OK\r\n");
    say("WEIR.TAKE api k 600");
    CHECK_EQ(field("allowed")->integer, 1);
    say("WEIR.POLICY SHOW api");
    CHECK_STR(text_field("mode"), "enforce");
    CHECK_STR(text_field("mode_of_all"), "disabled");
    say("WEIR.CLOCK ADVANCE 60000");
    say("WEIR.TAKE api k 600");
    CHECK_EQ(field("allowed")->integer, 0);
    say("WEIR.POLICY SHOW api");
    CHECK_EQ(field("mode_of_all")->type, RESP_NULL);
    kit_end();
}

/* ---- reload ---- */

static bool write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    return file && fputs(text, file) >= 0 && fclose(file) == 0;
}

TEST(reload_applies_a_good_file_and_tells_what_is_wrong_with_a_bad_one)
{
    char path[] = "/tmp/weir-test-XXXXXX";
    int fd = mkstemp(path);
    if (!CHECK(fd >= 0) || close(fd) != 0)
        return;
    struct service_options options = {.workers = 1, .test_clock = true, .config_path = path};
    if (!CHECK(kit_open_with(&kit, POLICIES, &options)))
        return;
    kit.session.version = 3;
    CHECK(write_file(path, "policies:\n  - {name: api, limits: 50/s}\n"));
    CHECK_STR(say("WEIR.RELOAD"), "+OK\r\n");
    say("WEIR.POLICY SHOW api");
    CHECK_STR(text_field("limits"), "50/s");
    CHECK(begins(say("WEIR.POLICY SHOW login"), "-ERR no policy 'login'"));
    CHECK(write_file(path, "policies:\n  - {name: api, limits: 60/s brust=1}\n"));
    CHECK(begins(say("WEIR.RELOAD"), "-ERR "));
    CHECK(strstr(error_text(), ":2:") && strstr(error_text(), "did you mean burst?"));
    say("WEIR.POLICY SHOW api");
    CHECK_STR(text_field("limits"), "50/s");
    say("INFO weir");
    CHECK(strstr(text_of(got), "\nreload_failures:1\r\n") && strstr(text_of(got), "\nlast_reload_error:"));
    kit_end();
    (void)unlink(path);
}

/* Somebody has mixed up the files, or put a password in the wrong place. */
TEST(info_shows_no_text_of_the_file)
{
    static const char *const texts[] = {"tops3cret\n",
                                        "- tops3cret\n",
                                        "tops3cret: x\n",
                                        "users:\n  - {name: a, tops3cret: x, may: all}\n",
                                        "users:\n  - {name: a, password: [[tops3cret]], may: tops3cret}\n",
                                        "policies:\n  - {name: api, limits: tops3cret}\n",
                                        "policies: [\ntops3cret: {\n"};
    char path[] = "/tmp/weir-test-XXXXXX";
    int fd = mkstemp(path);
    if (!CHECK(fd >= 0) || close(fd) != 0)
        return;
    struct service_options options = {.workers = 1, .test_clock = true, .config_path = path};
    if (!CHECK(kit_open_with(&kit, POLICIES, &options)))
        return;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        CHECK(write_file(path, texts[i]));
        CHECK(begins(say("WEIR.RELOAD"), "-ERR "));
        say("INFO weir");
        CHECK(strstr(text_of(got), "\nlast_reload_error:/tmp/weir-test-") != NULL);
        CHECK(strstr(text_of(got), ": not valid; see the log or weir check\r\n") != NULL);
        if (!CHECK(strstr(text_of(got), "tops3cret") == NULL))
            printf("# %s\n", text_of(got));
    }
    kit_end();
    (void)unlink(path);
}

TEST(without_a_file_there_is_nothing_to_reload)
{
    if (!kit_begin(""))
        return;
    CHECK_STR(say("WEIR.RELOAD"), "-ERR there is no file to read again; start weir serve with --config\r\n");
    kit_end();
}

/* ---- clock ---- */

static int moved;

static void clock_moved(void *arg)
{
    (void)arg;
    moved++;
}

TEST(the_test_clock_moves_within_a_batch)
{
    if (!kit_begin(POLICIES))
        return;
    kit.service->clock_moved = clock_moved;
    moved = 0;
    CHECK_STR(say("WEIR.CLOCK SET 5000"), "+OK\r\n");
    CHECK_STR(say("TIME"), "*2\r\n$1\r\n5\r\n$1\r\n0\r\n");
    CHECK_STR(say("WEIR.CLOCK ADVANCE 250"), "+OK\r\n");
    CHECK_EQ(weir_now(), 5250 * WEIR_MS);
    CHECK_EQ(moved, 2);
    static const char *const lines[] = {"WEIR.CLOCK ADVANCE 250", "WEIR.CLOCK ADVANCE 500", "TIME"};
    CHECK_STR(kit_ask_lines(&kit, lines, 3), "+OK\r\n+OK\r\n*2\r\n$1\r\n6\r\n$1\r\n0\r\n");
    kit_end();
}

TEST(the_clock_has_bounds)
{
    if (!kit_begin(""))
        return;
    CHECK(begins(say("WEIR.CLOCK SET -1"), "-ERR ms must be 0 or more"));
    CHECK(begins(say("WEIR.CLOCK SET soon"), "-ERR ms must be a whole number"));
    CHECK(begins(say("WEIR.CLOCK SET 9223372036854775807"), "-ERR that is too late"));
    CHECK_STR(say("WEIR.CLOCK SET 4611686018427"), "+OK\r\n");
    CHECK(begins(say("WEIR.CLOCK ADVANCE 9223372036854775807"), "-ERR that is too late"));
    CHECK(begins(say("WEIR.CLOCK ADVANCE 1"), "-ERR that is too late"));
    CHECK_EQ(weir_now(), INT64_C(4611686018427) * WEIR_MS);
    kit_end();
}

TEST(the_clock_of_the_machine_cannot_be_set)
{
    struct service_options options = {.workers = 1};
    if (!CHECK(kit_open_with(&kit, NULL, &options)))
        return;
    CHECK(begins(say("WEIR.CLOCK SET 5000"),
                 "-ERR the clock is the machine's and cannot be set; only weir serve "
                 "--test-clock"));
    CHECK(begins(say("WEIR.CLOCK ADVANCE 5000"), "-ERR the clock is the machine's"));
    kit_end();
}
