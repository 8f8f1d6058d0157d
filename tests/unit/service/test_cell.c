/* SPDX-License-Identifier: MIT */
/*
 * CL.THROTTLE, THROTTLE, GCRA and DEL as commands, and what commands of Redis are told that weir does not
 * have. The vectors over a socket are in tests/server/test_vectors.py.
 */
#include "check.h"
#include "service/commands/commands.h"
#include "unit/service/service_kit.h"

/* Five integers, written as "0 16 15 -1 2". */
static const char *five(struct kit *kit, const char *line)
{
    static char text[128];
    const char *reply = kit_ask(kit, line);
    size_t len = 0;
    text[0] = '\0';
    if (strncmp(reply, "*5\r\n", 4) != 0)
        return reply;
    for (const char *at = strchr(reply, ':'); at; at = strchr(at + 1, ':'))
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%lld", len > 0 ? " " : "",
                                strtoll(at + 1, NULL, 10));
    return text;
}

struct row {
    const char *line, *reply;
};

static void ask_all(struct kit *kit, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!CHECK_STR(five(kit, rows[i].line), rows[i].reply))
            printf("# %s\n", rows[i].line);
}
#define ASK_ALL(KIT, ROWS) ask_all((KIT), (ROWS), sizeof(ROWS) / sizeof((ROWS)[0]))

static int64_t counted(const _Atomic int64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* ---- CL.THROTTLE ---- */

TEST(vectors_of_redis_cell)
{
    static const struct {
        const char *before; /* at 0 s */
        int64_t at_us;
        const char *line, *reply;
    } rows[] = {
        {NULL, 0, "CL.THROTTLE k 15 30 60", "0 16 15 -1 2"},
        {"CL.THROTTLE k 15 30 60 2", 500000, "CL.THROTTLE k 15 30 60", "0 16 13 -1 6"},
        {"CL.THROTTLE k 0 1 2", 0, "CL.THROTTLE k 0 1 2", "1 1 0 2 2"},
        {"CL.THROTTLE k 0 1 2", 1999500, "CL.THROTTLE k 0 1 2", "1 1 0 1 1"}, /* fixed: was 1 1 0 0 0 */
        {NULL, 0, "CL.THROTTLE k 2 1 1 0", "0 3 3 -1 0"},
        {"CL.THROTTLE k 2 1 1 3", 0, "CL.THROTTLE k 2 1 1 0", "0 3 0 -1 3"},
        {NULL, 0, "CL.THROTTLE k 4 1 1 5", "0 5 0 -1 5"},
        {"CL.THROTTLE k 4 1 1 5", 0, "CL.THROTTLE k 4 1 1 2", "1 5 0 2 5"},
        {NULL, 0, "CL.THROTTLE k 9 3 1", "0 10 9 -1 1"},
        {"CL.THROTTLE k 9 3 1 10", 0, "CL.THROTTLE k 9 3 1", "1 10 0 1 4"},
        {"CL.THROTTLE k 9 1 1 10", 0, "CL.THROTTLE k 1 1 1", "1 2 0 9 10"},
        {"CL.THROTTLE k 9 1 1 10", 0, "CL.THROTTLE k 1 1 1 0", "1 2 0 8 10"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kit kit;
        if (!CHECK(kit_open(&kit, NULL)))
            return;
        if (rows[i].before)
            CHECK(strncmp(five(&kit, rows[i].before), "0 ", 2) == 0);
        weir_clock_set(rows[i].at_us * 1000);
        if (!CHECK_STR(five(&kit, rows[i].line), rows[i].reply))
            printf("# row %zu\n", i);
        kit_close(&kit);
    }
}

TEST(units_can_be_given_back)
{
    static const struct row rows[] = {
        {"CL.THROTTLE k 4 1 1 5", "0 5 0 -1 5"},
        {"CL.THROTTLE k 4 1 1 -2", "0 5 2 -1 3"},
        {"CL.THROTTLE k 4 1 1 3", "1 5 2 1 3"},
        {"CL.THROTTLE k 4 1 1 -100", "0 5 5 -1 0"}, /* no more than is owed */
        {"CL.THROTTLE k 4 1 1 -9223372036854775808", "0 5 5 -1 0"},
        {"CL.THROTTLE k 4 1 1 5", "0 5 0 -1 5"},
    };
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    ASK_ALL(&kit, rows);
    kit_close(&kit);
}

TEST(numbers_without_sense_are_errors_that_say_so)
{
    static const struct row rows[] = {
        {"CL.THROTTLE", "-ERR Usage: cl.throttle <key> <max_burst> <count per period> <period> "
                        "[<quantity>]\r\n"},
        {"CL.THROTTLE k 1 1 1 1 1", "-ERR Usage: cl.throttle <key> <max_burst> <count per period> <period> "
                                    "[<quantity>]\r\n"},
        {"CL.THROTTLE k x 1 1", "-ERR Couldn't parse as integer: x\r\n"},
        {"CL.THROTTLE k 1 1 1 1.5", "-ERR Couldn't parse as integer: 1.5\r\n"},
        {"CL.THROTTLE k 1 0 1", "-ERR Zero rates are not supported: count and period must be 1 or more\r\n"},
        {"CL.THROTTLE k -1 1 1", "-ERR max_burst must be 0 or more, got -1\r\n"},
        {"CL.THROTTLE k 1 -1 1", "-ERR count must be 1 or more, got -1\r\n"},
        {"CL.THROTTLE k 1 1 -1", "-ERR period must be 1 to 9223372036 seconds, got -1\r\n"},
        {"CL.THROTTLE k 1 1 9223372037", "-ERR period must be 1 to 9223372036 seconds, got 9223372037\r\n"},
        {"CL.THROTTLE k 0 1 2678401", "-ERR this limit needs longer than 2678400 s to be full again "
                                      "(client_limits: horizon); make it a policy "
                                      "instead: WEIR.POLICY SET name limits\r\n"},
        {"CL.THROTTLE k 9223372036854775807 1 1", "-ERR this limit needs longer than 2678400 s to be full "
                                                  "again (client_limits: horizon); make it a policy "
                                                  "instead: WEIR.POLICY SET name limits\r\n"},
        {"CL.THROTTLE k 0 1 2678400", "0 1 0 -1 2678400"},
        {"CL.THROTTLE quick 99 4000000000 1", "0 100 96 -1 1"}, /* a nanosecond, which is four units */
        {"CL.THROTTLE fast 999999 9223372036854775807 1", "0 1000000 0 -1 1"},
        {"CL.THROTTLE fast 999 1000000000000 3600 9223372036854775807", "1 1000 999 -1 1"},
    };
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    ASK_ALL(&kit, rows);
    kit_close(&kit);
}

/* ---- the others ---- */

TEST(throttle_has_its_own_order_and_limit)
{
    static const struct row rows[] = {
        {"THROTTLE k 2 30 60", "1 2 1 2 0"},
        {"THROTTLE k 2 30 60", "1 2 0 4 0"},
        {"THROTTLE k 2 30 60", "0 2 0 4 2"},
        {"THROTTLE k 2 30 60 0", "1 2 0 4 0"},
        {"THROTTLE k 2 30 60 3", "0 2 0 4 -1"},
        {"THROTTLE k 2 30 60 -1", "-ERR negative quantity: -1\r\n"},
        {"THROTTLE k 2 30 x", "-ERR invalid period\r\n"},
        {"THROTTLE k 2 0 60",
         "-ERR invalid rate limit parameters: count_per_period must be 1 or more, got 0\r\n"},
        {"THROTTLE k 2 30", "-ERR wrong number of arguments for 'throttle' command\r\n"},
        {"THROTTLE k 2 30 60 1 1", "-ERR wrong number of arguments for 'throttle' command\r\n"},
    };
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    ASK_ALL(&kit, rows);
    kit_close(&kit);
}

TEST(gcra_takes_a_decimal_period)
{
    static const char period[] = "-ERR period must be > 0 and < 9223372036 seconds\r\n";
    const struct row rows[] = {
        {"GCRA k 15 30 60", "0 16 15 -1 2"},
        {"GCRA k 15 30 60.000 TOKENS 2", "0 16 13 -1 6"},
        {"GCRA k 15 30 60 num_requests 14", "1 16 13 2 6"},
        {"GCRA k 15 30 60 TOKENS", "-ERR Missing TOKENS value\r\n"},
        {"GCRA k 15 30 60 TOKENS 0", "-ERR TOKENS must be 1 or more\r\n"},
        {"GCRA k -1 30 60", "-ERR max_burst must be 0 or more\r\n"},
        {"GCRA k 1 0 60", "-ERR tokens_per_period must be 1 or more\r\n"},
        {"GCRA k 1 1 1 TOKENS 1 1", "-ERR wrong number of arguments for 'gcra' command\r\n"},
        {"GCRA k 1 1 0", period},
        {"GCRA k 1 1 .", period},
        {"GCRA k 1 1 -1", period},
        {"GCRA k 1 1 1.5.5", period},
        {"GCRA k 1 1 nan", period},
        {"GCRA k 1 1 99999999999999999999", period},
        {"GCRA a 9 1 0.1 TOKENS 10", "0 10 0 -1 1"},
        {"GCRA b 0 1 0.00000000001", "0 1 0 -1 1"}, /* a nanosecond at the least */
        {"GCRA c 1 1 1.5 TOKENS 2", "0 2 0 -1 3"},
    };
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    ASK_ALL(&kit, rows);
    CHECK(strncmp(kit_ask(&kit, "GCRA k 1 1 1 NONSENSE 1"), "-ERR syntax error near 'NONSENSE'; write GCRA",
                  45) == 0);
    kit_close(&kit);
}

TEST(del_tells_how_many_had_spent_something)
{
    static const struct row rows[] = {
        {"CL.THROTTLE a 1 1 60 2", "0 2 0 -1 120"},
        {"CL.THROTTLE b 1 1 60", "0 2 1 -1 60"},
        {"DEL a b c", ":2\r\n"},
        {"DEL a b c", ":0\r\n"},
        {"CL.THROTTLE a 1 1 60 2", "0 2 0 -1 120"},
        {"DEL a a", ":1\r\n"},
        {"DEL", "-ERR wrong number of arguments for 'del' command\r\n"},
    };
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    ASK_ALL(&kit, rows);
    kit_close(&kit);
}

/* ---- around them ---- */

TEST(takes_are_counted_looks_and_gives_are_not)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    (void)kit_ask(&kit, "CL.THROTTLE k 0 1 1");
    (void)kit_ask(&kit, "CL.THROTTLE k 0 1 1");
    (void)kit_ask(&kit, "THROTTLE k 1 1 1");
    (void)kit_ask(&kit, "GCRA k 0 1 1 TOKENS 2");
    (void)kit_ask(&kit, "CL.THROTTLE k 0 1 1 0");
    (void)kit_ask(&kit, "CL.THROTTLE k 0 1 1 -1");
    (void)kit_ask(&kit, "CL.THROTTLE k 0 1 x");
    CHECK_EQ(counted(&kit.worker->client_limits[PROTOCOL_RESP][true]), 1);
    CHECK_EQ(counted(&kit.worker->client_limits[PROTOCOL_RESP][false]), 3);
    CHECK_EQ(counted(&kit.worker->errors), 1);
    kit_close(&kit);
}

#define STRANGER "; nobody has logged in: AUTH user password, or redis://user:password@host:port\r\n"

TEST(who_may_only_take_gives_nothing_back_and_sees_his_keys_only)
{
    static const char yaml[] = "users:\n"
                               "  - {name: default, may: [take], keys: [\"web:*\"]}\n";
    struct kit kit;
    if (!CHECK(kit_open(&kit, yaml)))
        return;
    CHECK_STR(five(&kit, "CL.THROTTLE web:1 4 1 1 2"), "0 5 3 -1 2");
    CHECK_STR(five(&kit, "CL.THROTTLE web:1 4 1 1 0"), "0 5 3 -1 2");
    CHECK_STR(five(&kit, "CL.THROTTLE web:1 4 1 1 -1"),
              "-NOPERM User default has no permissions to run the 'cl.throttle' command with a negative "
              "quantity\r\n");
    CHECK_STR(five(&kit, "CL.THROTTLE other 4 1 1"),
              "-NOPERM No permissions to access a key: 'other'" STRANGER);
    CHECK_STR(five(&kit, "RL.REDUCE other 4 1"), "-NOPERM No permissions to access a key: 'other'" STRANGER);
    CHECK_STR(five(&kit, "RL.GET web:1 4 1"),
              "-NOPERM User default has no permissions to run the 'rl.get' command" STRANGER);
    CHECK_STR(five(&kit, "DEL web:1"),
              "-NOPERM User default has no permissions to run the 'del' command" STRANGER);
    kit_close(&kit);
}

TEST(del_asks_for_the_right_to_each_key_before_it_forgets_one)
{
    static const char yaml[] = "users:\n"
                               "  - {name: default, may: [take, adjust], keys: [\"web:*\"]}\n";
    struct kit kit;
    if (!CHECK(kit_open(&kit, yaml)))
        return;
    CHECK_STR(five(&kit, "CL.THROTTLE web:1 4 1 1 2"), "0 5 3 -1 2");
    CHECK_STR(five(&kit, "DEL web:1 other"), "-NOPERM No permissions to access a key: 'other'" STRANGER);
    CHECK_STR(five(&kit, "CL.THROTTLE web:1 4 1 1 0"), "0 5 3 -1 2");
    CHECK_STR(five(&kit, "DEL web:1 web:2"), ":1\r\n");
    kit_close(&kit);
}

/* The table fills with keys that last a month. Newcomers are refused, whatever their limit, and the longest
 * limit of one of them is nobody else's; who is there goes on; and it ends. */
TEST(an_attack_with_long_limits_touches_nobody_who_is_there)
{
    struct kit kit;
    char line[80];
    int64_t refused = 0;
    if (!CHECK(kit_open(&kit, "client_limits: {keys: 2000}")))
        return;
    CHECK(kit_policy(&kit, "api", "10/s"));
    CHECK_STR(five(&kit, "CL.THROTTLE before 9 1 60"), "0 10 9 -1 60");
    for (int i = 0; i < 6000; i++) {
        (void)snprintf(line, sizeof line, "CL.THROTTLE attacker%d 0 1 2678400", i);
        refused += strcmp(five(&kit, line), "1 1 0 1 1") == 0;
    }
    CHECK(refused > 1000);
    CHECK_STR(five(&kit, "CL.THROTTLE before 9 1 60"), "0 10 8 -1 120");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE api user"), "allowed"), 1);
    kit_clock(&kit, INT64_C(2678400) * 1000 + 10);
    CHECK_STR(five(&kit, "CL.THROTTLE after 9 1 60"), "0 10 9 -1 60");
    kit_close(&kit);
}

/* ---- foreign commands ---- */

TEST(foreign_commands_are_told_what_to_use_instead)
{
    static const char *const names[] = {
        "EVAL",
        "evalsha",
        "SCRIPT",
        "FCALL",
        "INCR",
        "IncrBy",
        "INCREX",
        "DECR",
        "SET",
        "SETEX",
        "SETNX",
        "EXPIRE",
        "PEXPIRE",
        "MULTI",
        "EXEC",
        "WATCH",
        "ZADD",
        "SUBSCRIBE",
        "LPUSH",
        "PSUBSCRIBE",
        "PUBLISH",
        "HSET",
        "BLPOP",
        "KEYS",
        "RESTORE",
        "FLUSHALL",
        "HINCRBY",
        "RL.THROTTLE",
        "ZREMRANGEBYSCORE",
        "DISCARD",
    };
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char start[80];
        (void)snprintf(start, sizeof start, "-ERR unknown command '%s'; ", names[i]);
        const char *reply = kit_ask(&kit, names[i]);
        kit.session.transaction = false; /* MULTI: what follows would not be looked at */
        if (!CHECK(strncmp(reply, start, strlen(start)) == 0))
            printf("# %s", reply);
    }
    CHECK_STR(
        kit_ask(&kit, "EVAL \"return 1\" 0"),
        "-ERR unknown command 'EVAL'; weir runs no scripts: WEIR.TAKE with AND decides several limits at "
        "once\r\n");
    kit_close(&kit);
}

TEST(nobody_else_is_given_advice)
{
    static const char *const names[] = {"",         " ",    "E",    "EVA",        "EVALS",
                                        "NONSENSE", "SET ", " SET", "SETEX SETNX"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        CHECK(weir_foreign_advice((struct slice){names[i], strlen(names[i])}) == NULL);
    for (size_t i = 0; i < weir_command_count(); i++) {
        const char *name = weir_command_at(i)->name;
        if (!CHECK(weir_foreign_advice((struct slice){name, strlen(name)}) == NULL))
            printf("# %s is a command\n", name);
    }
}
