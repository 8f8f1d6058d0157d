/* SPDX-License-Identifier: MIT */
/*
 * RL.* as commands: words, errors byte for byte, counting, rights, memory. The vectors are in
 * tests/server/test_vectors.py, the arithmetic in test_steps.c.
 */
#include "check.h"
#include "unit/service/service_kit.h"

#define NO_INTEGER "-Value is not an integer or out of range\r\n"
#define NO_SYNTAX  "-Syntax error\r\n"

struct row {
    const char *line, *reply;
};

static void ask_all(struct kit *kit, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!CHECK_STR(kit_ask(kit, rows[i].line), rows[i].reply))
            printf("# %s\n", rows[i].line);
}
#define ASK_ALL(KIT, ROWS) ask_all((KIT), (ROWS), sizeof(ROWS) / sizeof((ROWS)[0]))

static int64_t counted(const _Atomic int64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

TEST(tokens_before_the_take_are_answered)
{
    static const struct row rows[] = {
        {"RL.REDUCE k 2 60", ":2\r\n"},
        {"rl.reduce k 2 60", ":1\r\n"},
        {"Rl.Get k 2 60", ":0\r\n"},
        {"RL.PREDUCE k 2 60000 TAKE 0", ":0\r\n"},
        {"RL.PGET k 2 60000", ":0\r\n"},
        {"RL.SESSIONIZE s 1 5", "*2\r\n:1\r\n:0\r\n"},
        {"RL.PSESSIONIZE s 1 5000 AT 7", "*2\r\n:0\r\n:0\r\n"},
    };
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    ASK_ALL(&kit, rows);
    kit_close(&kit);
}

TEST(the_first_fault_from_the_left_is_told_and_bounds_come_last)
{
    static const struct row rows[] = {
        {"RL.GET", "-Wrong number of arguments for 'rl.get' command\r\n"},
        {"RL.PGET k 1", "-Wrong number of arguments for 'rl.pget' command\r\n"},
        {"RL.GET k 1 1 REFILL 1 AT 1 STRICT AT 1", "-Wrong number of arguments for 'rl.get' command\r\n"},
        {"RL.SESSIONIZE k 1", "-Wrong number of arguments for 'rl.sessionize' command\r\n"},
        {"RL.REDUCE k 1 1 REFILL 1 TAKE 1 AT 1 STRICT STRICT",
         "-Wrong number of arguments for 'rl.reduce' command\r\n"},
        {"RL.DEL k", "-Wrong number of arguments for 'rl.del' command\r\n"},
        {"RL.GET k x 1 NONSENSE", NO_INTEGER},
        {"RL.GET k 1 1 NONSENSE", NO_SYNTAX},
        {"RL.GET k 1 1 NONSENSE x", NO_INTEGER}, /* the value is read before the word is known */
        {"RL.GET k 1 1 NONSENSE 1", NO_SYNTAX},
        {"RL.GET k 1 1 TAKE 1", NO_SYNTAX},
        {"RL.REDUCE k 0 1 NONSENSE 1", NO_SYNTAX}, /* syntax beats bounds */
        {"RL.REDUCE k 0 1", NO_INTEGER},
        {"RL.REDUCE k -1 1", NO_INTEGER},
        {"RL.REDUCE k 1 0", NO_INTEGER},
        {"RL.REDUCE k 1 -5", NO_INTEGER},
        {"RL.REDUCE k 1 1 REFILL 0", NO_INTEGER},
        {"RL.REDUCE k 1 1 TAKE -1", NO_INTEGER},
        {"RL.REDUCE k 1 1 AT -1", NO_INTEGER},
        {"RL.REDUCE k 1 1 AT 9223372036854775", ":1\r\n"},
        {"RL.REDUCE k 1 1 AT 9223372036854776", NO_INTEGER},
        {"RL.PREDUCE k 1 1 AT 9223372036854775807", ":1\r\n"},
        {"RL.PREDUCE k 1 1 AT 9223372036854775808", NO_INTEGER},
        {"RL.REDUCE k 1 2147483648", NO_INTEGER},
        {"RL.PREDUCE k 1 2147483648", NO_INTEGER},
        {"RL.PREDUCE k 1 2147483647", ":1\r\n"},
        {"RL.REDUCE k 1.5 1", NO_INTEGER},
        {"RL.REDUCE k \"\" 1", NO_INTEGER},
        {"RL.REDUCE k - 1", NO_INTEGER},
        {"RL.REDUCE k \"1 \" 1", NO_INTEGER},
        {"RL.REDUCE k +007 +01 TAKE -0", ":7\r\n"},
    };
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    ASK_ALL(&kit, rows);
    kit_close(&kit);
}

TEST(time_is_the_wall_clock_unless_the_caller_says_so)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    CHECK_STR(kit_ask(&kit, "RL.REDUCE k 1 10"), ":1\r\n");
    kit_clock(&kit, 9999);
    CHECK_STR(kit_ask(&kit, "RL.REDUCE k 1 10"), ":0\r\n");
    CHECK_STR(kit_ask(&kit, "RL.GET k 1 10 AT 10"), ":1\r\n");
    kit_clock(&kit, 10000);
    CHECK_STR(kit_ask(&kit, "RL.SESSIONIZE k 1 10"), "*2\r\n:1\r\n:10000\r\n");
    kit_close(&kit);
}

TEST(decisions_looks_and_errors_are_counted_each_once)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    (void)kit_ask(&kit, "RL.REDUCE k 1 10");        /* allowed */
    (void)kit_ask(&kit, "RL.REDUCE k 1 10");        /* refused */
    (void)kit_ask(&kit, "RL.REDUCE k 1 10 TAKE 0"); /* allowed: nothing is always there */
    (void)kit_ask(&kit, "RL.SESSIONIZE s 2 10 TAKE 3");
    (void)kit_ask(&kit, "RL.GET k 1 10");
    (void)kit_ask(&kit, "RL.REDUCE k 1");
    CHECK_EQ(counted(&kit.worker->client_limits[PROTOCOL_RESP][true]), 2);
    CHECK_EQ(counted(&kit.worker->client_limits[PROTOCOL_RESP][false]), 2);
    CHECK_EQ(counted(&kit.worker->errors), 1);
    CHECK_EQ(counted(&kit.worker->commands), 6);
    kit_close(&kit);
}

TEST(a_bucket_can_be_forgotten_by_the_words_of_a_look)
{
    static const struct row rows[] = {
        {"RL.REDUCE k 5 60 TAKE 5", ":5\r\n"}, {"RL.DEL k 5 60 REFILL 1", ":0\r\n"},
        {"RL.DEL k 5 61", ":0\r\n"},           {"RL.DEL k 5 60 STRICT AT 3", ":1\r\n"},
        {"RL.DEL k 5 60", ":0\r\n"},           {"RL.GET k 5 60", ":5\r\n"},
        {"RL.PREDUCE k 5 500", ":5\r\n"},      {"RL.PDEL k 5 500", ":1\r\n"},
        {"RL.DEL k 5 60 TAKE 1", NO_SYNTAX},   {"RL.PDEL k 0 500", NO_INTEGER},
    };
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    ASK_ALL(&kit, rows);
    kit_close(&kit);
}

TEST(limits_beyond_the_horizon_are_errors)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    CHECK_STR(kit_ask(&kit, "RL.REDUCE k 31 86400 REFILL 1"), ":31\r\n");
    CHECK_STR(kit_ask(&kit, "RL.REDUCE k 32 86400 REFILL 1"),
              "-ERR this limit needs longer than 2678400 s to be full again (client_limits: horizon); make "
              "it a policy "
              "instead: WEIR.POLICY SET name limits\r\n");
    CHECK(strncmp(kit_ask(&kit, "RL.PREDUCE k 9223372036854775807 1 REFILL 1"), "-ERR this limit", 15) == 0);
    CHECK(strncmp(kit_ask(&kit, "RL.GET k 9223372036854775807 2 REFILL 1"), "-ERR this limit", 15) == 0);
    kit_close(&kit);
}

/* Keys with limits that last a month, far more of them than fit: others are refused, not forgotten, nothing
 * grows, and who was there before goes on. */
TEST(an_attack_with_long_limits_touches_nobody_else)
{
    struct kit kit;
    struct records_stat stat;
    char line[64];
    int64_t refused = 0;
    if (!CHECK(kit_open(&kit, "memory: 8MiB")))
        return;
    CHECK(kit_policy(&kit, "api", "10/s"));
    CHECK_STR(kit_ask(&kit, "RL.REDUCE before 10 60"), ":10\r\n");
    for (int i = 0; i < 15000; i++) {
        (void)snprintf(line, sizeof line, "RL.REDUCE attacker%d 1 2678400", i);
        refused += strcmp(kit_ask(&kit, line), ":0\r\n") == 0;
    }
    weir_records_stat(kit.service->smyte, &stat);
    CHECK(refused > 1000);
    CHECK(stat.bytes < 1 << 20);
    CHECK_STR(kit_ask(&kit, "RL.REDUCE before 10 60"), ":9\r\n");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE api user"), "allowed"), 1);
    kit_clock(&kit, INT64_C(2678400) * 1000);
    CHECK_STR(kit_ask(&kit, "RL.REDUCE attacker14999 1 2678400"), ":1\r\n");
    kit_close(&kit);
}

TEST(a_key_of_any_bytes_has_a_bucket)
{
    struct kit kit;
    char key[KEY_MAX + 1];
    struct slice words[] = {{"RL.REDUCE", 9}, {key, KEY_MAX}, {"3", 1}, {"60", 2}};
    memset(key, 0xff, sizeof key);
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    CHECK_STR(kit_ask_words(&kit, words, 4), ":3\r\n");
    CHECK_STR(kit_ask_words(&kit, words, 4), ":2\r\n");
    words[1].len = 0;
    CHECK_STR(kit_ask_words(&kit, words, 4), ":3\r\n");
    words[1].len = KEY_MAX + 1;
    CHECK(strncmp(kit_ask_words(&kit, words, 4), "-ERR the key has 4097 bytes", 27) == 0);
    kit_close(&kit);
}
