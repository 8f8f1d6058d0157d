/* SPDX-License-Identifier: MIT */
/*
 * From words to answers: who may ask, what is said to those who may not, batches, background jobs, sessions.
 */
#include "check.h"
#include "service/pending.h"
#include "service/run.h"
#include "unit/service/service_kit.h"

static const char users[] =
    "users:\n"
    "  - {name: default, password: secret, may: all}\n"
    "  - {name: bob, password: bobs, may: [look, take], keys: [\"bob:*\"], policies: [api]}\n"
    "policies:\n"
    "  - {name: api, limits: [10/s]}\n"
    "  - {name: org, limits: [10/s]}\n";

static bool begins(const char *text, const char *start)
{
    bool does = strncmp(text, start, strlen(start)) == 0;
    if (!does)
        printf("# \"%s\" does not begin with \"%s\"\n", text, start);
    return does;
}

TEST(unknown_commands)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    CHECK_STR(kit_ask(&kit, "FOO a \"b\\r\\n\""),
              "-ERR unknown command 'FOO', with args beginning with: 'a' 'b?\?' \r\n");
    CHECK_STR(kit_ask(&kit, "\"\""), "-ERR unknown command '', with args beginning with: \r\n");
    CHECK(begins(kit_ask(&kit, "EVAL x 0"), "-ERR unknown command 'EVAL'; weir runs no scripts"));
    CHECK(begins(kit_ask(&kit, "WEIR.POLICY FOO"), "-ERR unknown subcommand 'FOO'. Try WEIR.POLICY HELP."));
    CHECK(begins(kit_ask(&kit, "WEIR.POLICY"), "-ERR wrong number of arguments for 'weir.policy' command"));
    CHECK(begins(kit_ask(&kit, "WEIR.POLICY SHOW"),
                 "-ERR wrong number of arguments for 'weir.policy|show' command"));
    CHECK_EQ(kit.worker->commands, 6);
    CHECK_EQ(kit.worker->errors, 6);
    kit_close(&kit);
}

TEST(commands_are_found_whatever_their_case)
{
    size_t number, count = weir_command_count();
    CHECK(count > 30);
    for (size_t i = 0; i < count; i++) {
        char name[64];
        const struct command *command = weir_command_at(i);
        (void)snprintf(name, sizeof name, "%s", command->name);
        struct slice word = {name, strlen(name)};
        CHECK(weir_command_find(word, &number) == command && number == i);
        for (char *letter = name; *letter; letter += 2)
            if (*letter >= 'a' && *letter <= 'z')
                *letter = (char)(*letter - 'a' + 'A');
            else if (!letter[1])
                break;
        CHECK(weir_command_find(word, &number) == command && number == i);
        word.len--;
        CHECK(weir_command_find(word, NULL) != command);
    }
    CHECK(weir_command_at(count) == NULL);
    CHECK(weir_command_find((struct slice){"weir\x0etake", 9}, NULL) == NULL); /* a '.' without its 0x20 */
    CHECK(weir_command_find((struct slice){"weir.take\0", 10}, NULL) == NULL);
}

/* A sanitizer sees who reads behind a name. */
TEST(zeros_behind_a_name_are_part_of_the_word)
{
    for (size_t i = 0; i < weir_command_count(); i++) {
        char name[64] = "";
        (void)snprintf(name, sizeof name, "%s", weir_command_at(i)->name);
        for (size_t len = strlen(name) + 1; len <= sizeof name; len++)
            CHECK(weir_command_find((struct slice){name, len}, NULL) == NULL);
    }
}

TEST(whole_numbers_and_nothing_else)
{
    static const struct {
        const char *text;
        bool good;
        int64_t number;
    } cases[] = {
        {"0", true, 0},
        {"-1", true, -1},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"99999999999999999999", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {"+1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"01", false, 0},
        {"-0", false, 0},
        {"1.0", false, 0},
        {"1e3", false, 0},
        {"0x10", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t number = 0;
        bool good = weir_read_integer((struct slice){cases[i].text, strlen(cases[i].text)}, &number);
        if (!CHECK_EQ(good, cases[i].good) || !CHECK_EQ(number, cases[i].number))
            printf("# '%s'\n", cases[i].text);
    }
}

TEST(strangers_may_only_say_hello)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, users)))
        return;
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE api bob:1"), "-NOAUTH Authentication required.\r\n");
    CHECK(begins(kit_ask(&kit, "WEIR.TAKE api"), "-ERR wrong number of arguments for 'weir.take' command; "));
    CHECK(begins(kit_ask(&kit, "NOSUCH"), "-ERR unknown command"));
    kit_log_in(&kit, "default");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE api bob:1"), "allowed"), 1);
    kit_log_in(&kit, "gone");
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE api bob:1"), "-NOAUTH Authentication required.\r\n");
    kit_close(&kit);
}

TEST(users_have_classes_keys_and_policies)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, users)))
        return;
    kit_log_in(&kit, "bob");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE api bob:1"), "allowed"), 1);
    CHECK_STR(kit_ask(&kit, "WEIR.GIVE api bob:1 1"),
              "-NOPERM User bob has no permissions to run the 'weir.give' command\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.POLICY SET api 5/s"),
              "-NOPERM User bob has no permissions to run the 'weir.policy|set' command\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE api alice:1"),
              "-NOPERM No permissions to access a key: 'alice:1'\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE org bob:1"), "-NOPERM No permissions to access a policy: 'org'\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE nosuch bob:1"),
              "-NOPERM No permissions to access a policy: 'nosuch'\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE api bob:1 AND api alice:1"),
              "-NOPERM No permissions to access a key: 'alice:1'\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE api bob:1 1 AND org bob:1"),
              "-NOPERM No permissions to access a policy: 'org'\r\n");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK api bob:1"), "remaining"), 9);
    kit_close(&kit);
}

/* Whoever may little because nobody has logged in is told so. */
TEST(strangers_are_told_to_log_in)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "users:\n  - {name: default, may: [look], keys: [\"pub:*\"]}\n"
                              "policies:\n  - {name: api, limits: 10/s}\n")))
        return;
    const char *hint = "; nobody has logged in: AUTH user password, or redis://user:password@host:port\r\n";
    const char *answer = kit_ask(&kit, "WEIR.TAKE api pub:1");
    CHECK(begins(answer, "-NOPERM User default has no permissions to run the 'weir.take' command; ") &&
          strstr(answer, hint));
    answer = kit_ask(&kit, "WEIR.PEEK api secret\\r\\n");
    CHECK(begins(answer, "-NOPERM No permissions to access a key: 'secret") && strstr(answer, hint));
    kit_close(&kit);
}

TEST(mistyped_commands_are_recognized)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    CHECK_STR(kit_ask(&kit, "weir.tkae api k"),
              "-ERR unknown command 'weir.tkae'; did you mean WEIR.TAKE?\r\n");
    CHECK_STR(kit_ask(&kit, "take api k"), "-ERR unknown command 'take'; did you mean WEIR.TAKE?\r\n");
    CHECK_STR(kit_ask(&kit, "AQUIRE api k"), "-ERR unknown command 'AQUIRE'; did you mean WEIR.ACQUIRE?\r\n");
    CHECK_STR(kit_ask(&kit, "CL.THROTLE k"),
              "-ERR unknown command 'CL.THROTLE'; did you mean CL.THROTTLE?\r\n");
    CHECK_STR(kit_ask(&kit, "PONG"), "-ERR unknown command 'PONG'; did you mean PING?\r\n");
    CHECK(begins(kit_ask(&kit, "XY"), "-ERR unknown command 'XY', with args"));
    kit_policy(&kit, "api", "5/s");
    CHECK_STR(kit_ask(&kit, "WEIR.POLICY DELETE api"), "+OK\r\n");
    kit_close(&kit);
}

/* ---- transactions, which there are none of ---- */

#define REFUSED                                                                                              \
    "-ERR a transaction was refused: nothing is run until EXEC or DISCARD; use a pipeline without MULTI "    \
    "(redis-py: pipeline(transaction=False))\r\n"

TEST(nothing_is_run_between_multi_and_exec)
{
    static const char *const lines[] = {"MULTI", "WEIR.TAKE api k", "MULTI", "NOSUCH", "EXEC", "PING"};
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "5/m");
    const char *answer = kit_ask_lines(&kit, lines, 6);
    CHECK(begins(answer, "-ERR unknown command 'MULTI'; there are no transactions"));
    CHECK_STR(strchr(answer, '\n') + 1,
              REFUSED REFUSED REFUSED "-EXECABORT Transaction discarded because of previous errors.\r\n"
                                      "+PONG\r\n");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK api k"), "remaining"), 5);
    CHECK_EQ(kit.worker->errors, 5);
    kit_close(&kit);
}

TEST(discard_reset_and_quit_end_a_refused_transaction)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    CHECK(begins(kit_ask(&kit, "EXEC"), "-ERR unknown command 'EXEC'; "));
    kit_ask(&kit, "multi");
    CHECK_STR(kit_ask(&kit, "PING"), REFUSED);
    CHECK_STR(kit_ask(&kit, "DISCARD"), "+OK\r\n");
    CHECK_STR(kit_ask(&kit, "PING"), "+PONG\r\n");
    kit_ask(&kit, "MULTI");
    CHECK_STR(kit_ask(&kit, "RESET"), "+RESET\r\n");
    CHECK_STR(kit_ask(&kit, "PING"), "+PONG\r\n");
    kit_ask(&kit, "MULTI");
    CHECK_STR(kit_ask(&kit, "QUIT"), "+OK\r\n");
    kit_close(&kit);
}

TEST(a_batch_is_answered_in_order)
{
    struct kit kit;
    const char *lines[100];
    char expected[100 * 16] = "";
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "1000/s");
    for (int i = 0; i < 100; i++) {
        lines[i] = i % 3 == 0 ? "WEIR.RESET api a" : i % 3 == 1 ? "NOSUCH" : "WEIR.GIVE api a 0";
        (void)snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%s",
                       i % 3 == 0 ? "+" : "-");
    }
    const char *reply = kit_ask_lines(&kit, lines, 100);
    for (int i = 0; i < 100 && *reply; i++) {
        CHECK_EQ(*reply, expected[i]);
        reply = strstr(reply, "\r\n") ? strstr(reply, "\r\n") + 2 : "";
    }
    CHECK_STR(reply, "");
    CHECK_EQ(kit.worker->commands, 100);
    CHECK_EQ(kit.session.commands, 100);
    CHECK_EQ(kit.worker->errors, 66);
    size_t number;
    CHECK(weir_command_find((struct slice){"weir.reset", 10}, &number));
    CHECK_EQ(kit.worker->calls[number], 34);
    CHECK_EQ(kit.worker->failed[number], 0);
    CHECK(weir_command_find((struct slice){"weir.give", 9}, &number));
    CHECK_EQ(kit.worker->failed[number], 33);
    kit_close(&kit);
}

TEST(requests_are_allowed_refused_or_errors)
{
    struct kit kit;
    char line[64];
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "3/s");
    struct rng rng = rng_new(1);
    for (int i = 0; i < 2000; i++) {
        (void)snprintf(line, sizeof line, "WEIR.TAKE %s key:%d %d", rng_between(&rng, 0, 9) ? "api" : "ap",
                       (int)rng_between(&rng, 0, 100), (int)rng_between(&rng, 0, 4));
        if (rng_between(&rng, 0, 4) == 0) /* asked again, or another question */
            (void)snprintf(line, sizeof line, "WEIR.TAKE api same %d ID some", (int)rng_between(&rng, 1, 2));
        kit_ask(&kit, line);
        kit_clock(&kit, i);
    }
    CHECK_EQ(kit.worker->commands, 2000);
    CHECK(kit.worker->allowed > 0 && kit.worker->refused > 0 && kit.worker->errors > 0);
    CHECK_EQ(kit.worker->allowed + kit.worker->refused + kit.worker->errors, 2000);
    kit_close(&kit);
}

TEST(replies_can_be_switched_off)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "3/s");
    kit.session.replies = REPLY_OFF;
    CHECK_STR(kit_ask(&kit, "WEIR.RESET api a"), "");
    CHECK_STR(kit_ask(&kit, "NOSUCH"), "");
    CHECK_STR(kit_ask(&kit, "WEIR.POLICY SET api 4/s"), "");
    kit.session.replies = REPLY_SKIP_NEXT; /* as CLIENT REPLY SKIP leaves it */
    CHECK_STR(kit_ask(&kit, "WEIR.RESET api a"), "");
    CHECK_STR(kit_ask(&kit, "WEIR.RESET api a"), "");
    CHECK_STR(kit_ask(&kit, "WEIR.RESET api a"), "+OK\r\n");
    kit_close(&kit);
}

TEST(a_job_is_done_by_another_thread_and_answered_later)
{
    struct kit kit;
    char name[] = "api";
    struct slice words[] = {{"WEIR.POLICY", 11}, {"SET", 3}, {name, 3}, {"7/s", 3}};
    struct resp_request request = {words, 4};
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    struct run_result result = weir_service_run(kit.worker, &kit.session, &request, 1, &kit.out);
    CHECK_EQ(result.done, 1);
    CHECK_EQ(result.state, RUN_PENDING);
    kit.state = RUN_PENDING;
    CHECK_EQ(buffer_len(&kit.out), 0);
    words[1] = (struct slice){"xxx", 3}; /* the words were copied, */
    memcpy(name, "xxx", 3);              /* and their bytes */
    kit_work(&kit);
    CHECK_EQ(kit.state, RUN_READY);
    CHECK(kit.session.pending == NULL);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK api a"), "remaining"), 7);
    CHECK(begins(kit_ask(&kit, "WEIR.POLICY SET api 7/x"), "-ERR"));
    CHECK_EQ(kit.service->workers[kit.service->options.workers].errors, 1);
    kit_close(&kit);
}

TEST(output_beyond_its_bound_closes)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "7/s");
    kit.out.most = 64;
    weir_buffer_free(&kit.out);
    kit_ask(&kit, "WEIR.TAKE api a");
    CHECK_EQ(kit.state, RUN_CLOSE);
    kit_close(&kit);
}

TEST(sessions_are_numbered_and_runs_are_told_apart)
{
    struct kit kit, other;
    char run_id[41];
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_join(&other, &kit, 0);
    CHECK_EQ(kit.session.id, 1);
    CHECK_EQ(other.session.id, 2);
    CHECK_STR(other.session.user, "default");
    CHECK_EQ(strlen(kit.service->run_id), 40);
    CHECK_EQ(strspn(kit.service->run_id, "0123456789abcdef"), 40);
    (void)snprintf(run_id, sizeof run_id, "%s", kit.service->run_id);
    CHECK_EQ(service_wall_ms(kit.service, 5 * WEIR_MS), 5); /* under the test clock */
    kit_leave(&other);
    kit_close(&kit);
    CHECK(kit_open(&kit, NULL));
    CHECK(strcmp(kit.service->run_id, run_id) != 0);
    kit_close(&kit);
}

TEST(messages_show_only_what_can_be_printed)
{
    char text[72], many[200];
    memset(many, 'x', sizeof many);
    CHECK_STR(weir_shown((struct slice){"a\r\n\x7f\xff", 5}, text), "a????");
    CHECK_EQ(strlen(weir_shown((struct slice){many, sizeof many}, text)), 67);
    CHECK_STR(weir_shown((struct slice){NULL, 0}, text), "");
    CHECK_EQ(ms_up(1), 1);
    CHECK_EQ(ms_up(WEIR_MS), 1);
    CHECK_EQ(ms_up(WEIR_MS + 1), 2);
    CHECK_EQ(ms_up(-5), 0);
    CHECK_EQ(ms_up(WEIR_FOREVER), -1);
}

/* ---- what a user with take alone may not do to a key ---- */

TEST(an_overrun_above_the_burst_needs_adjust)
{
    struct kit kit;
    char id[64], line[128];
    if (!CHECK(kit_open(&kit, users)))
        return;
    kit_log_in(&kit, "bob");
    for (int debt = 0; debt < 2; debt++) {
        kit_clock(&kit, 100000 * (debt + 1));
        (void)snprintf(id, sizeof id, "%s", kit_text(kit_ask(&kit, "WEIR.RESERVE api bob:1 1"), "id"));
        (void)snprintf(line, sizeof line, "WEIR.COMMIT %s 1000000000000", id);
        CHECK(
            begins(kit_ask(&kit, line), "-NOPERM 1000000000000 is more than policy 'api' lets pass at once"));
        (void)snprintf(line, sizeof line, "WEIR.COMMIT %s 11", id);
        CHECK(begins(kit_ask(&kit, line), "-NOPERM 11 is more than policy 'api' lets pass at once"));
        CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK api bob:1"), "remaining"), 9); /* nothing was charged */
        (void)snprintf(line, sizeof line, "WEIR.COMMIT %s %d", id, debt ? 11 : 10);
        if (debt) /* who may adjust may charge any number */
            kit_log_in(&kit, "default");
        CHECK_EQ(kit_field(kit_ask(&kit, line), "charged"), debt ? 11 : 10);
    }
    kit_close(&kit);
}

/* Each of five pairs stays within the burst, and what another key owes is not counted. */
TEST(pairs_of_one_key_are_one_overrun)
{
    struct kit kit;
    char id[64], line[128];
    if (!CHECK(kit_open(&kit, users)))
        return;
    kit_log_in(&kit, "bob");
    (void)snprintf(id, sizeof id, "%s",
                   kit_text(kit_ask(&kit, "WEIR.RESERVE api bob:1 1 AND api bob:1 1 AND api bob:1 1 AND "
                                          "api bob:2 1 AND api bob:1 1"),
                            "id"));
    (void)snprintf(line, sizeof line, "WEIR.COMMIT %s 10 10 10 10 10", id);
    CHECK(begins(kit_ask(&kit, line),
                 "-NOPERM 40 is more than policy 'api' lets pass at once: to charge that much beyond the 4 "
                 "reserved needs the class adjust"));
    (void)snprintf(line, sizeof line, "WEIR.COMMIT %s 4 4 0 10 3", id);
    CHECK(begins(kit_ask(&kit, line), "-NOPERM 11 is more than policy 'api' lets pass at once"));
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK api bob:1"), "remaining"), 6); /* nothing was charged */
    (void)snprintf(line, sizeof line, "WEIR.COMMIT %s 4 4 0 10 2", id);
    CHECK_EQ(kit_field(kit_ask(&kit, line), "charged"), 20);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK api bob:1"), "remaining"), 0);
    kit_close(&kit);
}

/* Ten reservations of 1, each of which is said to have cost 10: the key owes the burst, and no more. */
TEST(many_overruns_are_no_larger_debt)
{
    struct kit kit;
    char ids[10][64], line[128];
    int64_t charged = 0;
    if (!CHECK(kit_open(&kit, users)))
        return;
    kit_log_in(&kit, "bob");
    for (int i = 0; i < 10; i++)
        (void)snprintf(ids[i], sizeof ids[i], "%s",
                       kit_text(kit_ask(&kit, "WEIR.RESERVE api bob:1 1"), "id"));
    for (int i = 0; i < 10; i++) {
        (void)snprintf(line, sizeof line, "WEIR.COMMIT %s 10", ids[i]);
        const char *reply = kit_ask(&kit, line);
        if (i == 0)
            charged = kit_field(reply, "charged");
        else
            CHECK(begins(reply, "-NOPERM the key would owe more than policy 'api' lets pass at once: to "
                                "charge 9 beyond the 1 reserved needs the class adjust"));
    }
    CHECK_EQ(charged, 10);
    (void)snprintf(line, sizeof line, "WEIR.COMMIT %s 3", ids[1]);
    CHECK(begins(kit_ask(&kit, line), "-NOPERM"));
    (void)snprintf(line, sizeof line, "WEIR.COMMIT %s 2", ids[1]);
    CHECK_EQ(kit_field(kit_ask(&kit, line), "charged"), 2);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK api bob:1"), "retry_after_ms"), 1100);
    kit_log_in(&kit, "default");
    (void)snprintf(line, sizeof line, "WEIR.COMMIT %s 10", ids[2]);
    CHECK_EQ(kit_field(kit_ask(&kit, line), "charged"), 10);
    kit_close(&kit);
}

TEST(a_policy_has_a_ttl_max)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "policies:\n  - {name: short, limits: 10/s, reserve: {ttl_max: 10s}}\n"
                              "  - {name: long, limits: 10/s}\n")))
        return;
    CHECK(kit_text(kit_ask(&kit, "WEIR.RESERVE short a 1 TTL 10000"), "id")[0] != '\0');
    CHECK_STR(kit_ask(&kit, "WEIR.RESERVE short a 1 TTL 10001"),
              "-ERR TTL is too long: policy 'short' allows 10000 ms (reserve: {ttl_max})\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.RESERVE long a 1 AND short a 1 TTL 10001"),
              "-ERR TTL is too long: policy 'short' allows 10000 ms (reserve: {ttl_max})\r\n");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.POLICY SHOW short"), "reserve_ttl_ms"), 10000); /* not a minute */
    kit_clock(&kit, 10000);
    CHECK(kit_text(kit_ask(&kit, "WEIR.RESERVE long a 1 TTL 86400000"), "id")[0] != '\0');
    kit_close(&kit);
}
