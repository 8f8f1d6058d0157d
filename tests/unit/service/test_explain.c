/* SPDX-License-Identifier: MIT */
#include "check.h"
#include "unit/service/service_kit.h"

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* The text of a verbatim answer, in version 3: "=N\r\ntxt:...\r\n". */
static const char *text_of(const char *reply)
{
    static char text[4096];
    const char *start = strstr(reply, "txt:");
    size_t len = start ? strlen(start + 4) : 0;
    (void)snprintf(text, sizeof text, "%.*s", (int)(len >= 2 ? len - 2 : 0), start ? start + 4 : "");
    return start ? text : reply;
}

static const char *explain(struct kit *kit, const char *line)
{
    kit->session.version = 3;
    return text_of(kit_ask(kit, line));
}

TEST(explain_is_for_people)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "llm", "90k/m name=tpm, 20M/d algo=fixed-window name=budget");
    kit_ask(&kit, "WEIR.TAKE llm org:7 3120");
    CHECK_STR(explain(&kit, "WEIR.EXPLAIN llm org:7"),
              "policy llm, mode enforce, override none\n"
              "  tpm     90k/m                     used 3 120   left 86 880       full again in 2.1 s\n"
              "  budget  20M/d algo=fixed-window   used 3 120   left 19 996 880   new window in 1 d\n"
              "  nothing is refused at present; up to 86 880 would pass now");
    kit_close(&kit);
}

TEST(explain_says_who_refuses)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "10/s burst=2, 1k/h");
    kit_ask(&kit, "WEIR.TAKE api a 2");
    CHECK_STR(explain(&kit, "WEIR.EXPLAIN api a"),
              "policy api, mode enforce, override none\n"
              "  10/s burst=2   used 2   left 0     full again in 200 ms\n"
              "  1k/h           used 2   left 998   full again in 7.2 s\n"
              "  one unit is refused at present by 10/s burst=2; one would pass in 100 ms");
    kit_ask(&kit, "WEIR.CHARGE api a 500");
    CHECK(strstr(explain(&kit, "WEIR.EXPLAIN api a"), "used 502   left 0 "));
    kit_policy(&kit, "none", "blocked");
    CHECK_STR(explain(&kit, "WEIR.EXPLAIN none a"),
              "policy none, mode enforce, override none\n"
              "  blocked   used 0   left 0   nothing passes\n"
              "  one unit is refused at present by blocked; waiting does not help");
    kit_policy(&kit, "all", "unlimited");
    CHECK_STR(explain(&kit, "WEIR.EXPLAIN all a"),
              "policy all, mode enforce, override none\n"
              "  unlimited   used 0   left any number\n"
              "  nothing is refused at present; any number would pass now");
    kit_close(&kit);
}

TEST(explain_knows_modes_and_overrides)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "policies:\n"
                              "  - name: api\n"
                              "    limits: [10/m]\n"
                              "    mode: shadow\n"
                              "    overrides:\n"
                              "      - {key: \"int:*\", limits: [20/m name=int]}\n"
                              "      - {key: acme, limits: [40/m], until: 2027-01-31, reason: launch week}\n"
                              "  - {name: open, limits: [10/m], mode: disabled}\n")))
        return;
    CHECK_STR(explain(&kit, "WEIR.EXPLAIN api int:4"),
              "policy api, mode shadow, override int:* 20/m name=int\n"
              "  int  20/m   used 0   left 20\n"
              "  nothing is refused at present; up to 20 would pass now");
    CHECK_STR(explain(&kit, "WEIR.EXPLAIN api acme"),
              "policy api, mode shadow, override acme 40/m until 2027-01-31T00:00Z (launch week)\n"
              "  40/m   used 0   left 40\n"
              "  nothing is refused at present; up to 40 would pass now");
    kit_ask(&kit, "WEIR.TAKE api a 10");
    CHECK(strstr(
        explain(&kit, "WEIR.EXPLAIN api a"),
        "  one unit is refused at present by 10/m, on paper: shadow lets it pass; one would pass in 6 s"));
    CHECK_STR(
        explain(&kit, "WEIR.EXPLAIN open a"),
        "policy open, mode disabled, override none\n"
        "  10/m   used 0   left 10\n"
        "  everything passes and no take is counted: the policy is disabled (WEIR.POLICY MODE open enforce "
        "ends it)");
    kit_ask(&kit, "WEIR.POLICY MODE * disabled FOR 30m");
    CHECK(strstr(explain(&kit, "WEIR.EXPLAIN api a"),
                 "\n  everything passes and no take is counted: all policies are disabled for another 30 min "
                 "(WEIR.POLICY MODE * enforce ends it)"));
    kit_clock(&kit, 30 * 60 * 1000);
    CHECK(!strstr(explain(&kit, "WEIR.EXPLAIN api a"), "disabled"));
    kit_close(&kit);
}

/* The largest charge is a debt of centuries: longer than the clock runs. */
TEST(explain_says_how_a_debt_for_ever_ends)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "10/s");
    CHECK_STR(kit_ask(&kit, "WEIR.CHARGE api a 1000000000000"), "+OK\r\n");
    CHECK(strstr(explain(&kit, "WEIR.EXPLAIN api a"), "never full again\n"));
    CHECK(
        strstr(explain(&kit, "WEIR.EXPLAIN api a"),
               "refused at present by 10/s; what it owes is never repaid: WEIR.RESET policy key forgets it"));
    CHECK_STR(kit_ask(&kit, "WEIR.RESET api a"), "+OK\r\n");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE api a"), "allowed"), 1);
    kit_close(&kit);
}

TEST(explain_for_programs)
{
    struct kit kit;
    if (!CHECK(kit_open(
            &kit, "policies:\n"
                  "  - name: api\n"
                  "    limits: [10/m, 1k/h name=hour]\n"
                  "    overrides:\n"
                  "      - {key: acme, limits: [unlimited], until: 2027-01-31, reason: \"a \\\"b\\\"\"}\n")))
        return;
    kit_ask(&kit, "WEIR.TAKE api a 10");
    CHECK_STR(explain(&kit, "WEIR.EXPLAIN api a json"),
              "{\"policy\":\"api\",\"mode\":\"enforce\",\"override\":null,\"limits\":["
              "{\"limit\":\"10/m\",\"used\":10,\"left\":0,\"next_after_ms\":6000,\"reset_after_ms\":60000,"
              "\"refuses\":true},"
              "{\"limit\":\"hour\",\"used\":10,\"left\":990,\"next_after_ms\":0,\"reset_after_ms\":36000,"
              "\"refuses\":false}],\"would_pass\":0}");
    CHECK_STR(explain(&kit, "WEIR.EXPLAIN api acme JSON"),
              "{\"policy\":\"api\",\"mode\":\"enforce\",\"override\":{\"limits\":\"unlimited\","
              "\"until\":\"2027-01-31T00:00:00.000Z\",\"reason\":\"a \\\"b\\\"\"},\"limits\":["
              "{\"limit\":\"unlimited\",\"used\":0,\"left\":null,\"next_after_ms\":0,\"reset_after_ms\":0,"
              "\"refuses\":false}],\"would_pass\":null}");
    CHECK(begins(kit_ask(&kit, "WEIR.EXPLAIN api a XML"), "-ERR syntax error near 'XML'"));
    CHECK(begins(kit_ask(&kit, "WEIR.EXPLAIN api a JSON x"), "-ERR syntax error near 'x'"));
    kit_close(&kit);
}

TEST(top_tells_who_takes_and_who_is_refused)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "1000/h");
    for (int i = 0; i < 4000; i++)
        kit_ask(&kit, i % 5 == 0 ? "WEIR.TAKE api small" : "WEIR.TAKE api large");
    const char *taken = kit_ask(&kit, "WEIR.TOP api");
    const char *large = strstr(taken, "large"), *small = strstr(taken, "small");
    CHECK(taken[0] == '*' && taken[1] == '2');
    CHECK(large && small);
    CHECK(!strstr(taken, "bytes")); /* whole keys have no need of it */
    const char *refused = kit_ask(&kit, "WEIR.TOP api REFUSED COUNT 1");
    CHECK(begins(refused, "*1\r\n*4\r\n$3\r\nkey\r\n$5\r\nlarge\r\n$5\r\nunits\r\n:"));
    CHECK(begins(kit_ask(&kit, "WEIR.TOP api COUNT 0"), "-ERR COUNT must be 1 or more"));
    CHECK(begins(kit_ask(&kit, "WEIR.TOP api BOTH"), "-ERR syntax error near 'BOTH'"));
    CHECK(begins(kit_ask(&kit, "WEIR.TOP ap"), "-ERR no policy 'ap'"));
    kit_close(&kit);
}

TEST(top_hides_keys_that_are_not_the_users)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "users:\n  - {name: default, may: all, keys: [\"a:*\"]}\n"
                              "policies:\n  - {name: api, limits: [100k/h]}\n")))
        return;
    struct slice words[] = {{"WEIR.TAKE", 9}, {"api", 3}, {"a:1", 3}};
    for (int i = 0; i < 2000; i++)
        kit_ask_words(&kit, words, 3);
    struct snapshot *snapshot = atomic_load(&kit.service->snapshot);
    for (int i = 0; i < 2000; i++)
        weir_table_take(snapshot->policies[0]->main->table, "b:1", 3, 1, NULL);
    const char *taken = kit_ask(&kit, "WEIR.TOP api");
    CHECK(strstr(taken, "a:1") != NULL);
    CHECK(strstr(taken, "b:1") == NULL);
    kit_close(&kit);
}

/* What WEIR.TOP shows can be passed to WEIR.EXPLAIN. */
TEST(a_long_key_is_shown_whole)
{
    struct kit kit;
    char key[128], line[160];
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "1M/s");
    (void)snprintf(key, sizeof key, "%0127d", 7);
    (void)snprintf(line, sizeof line, "WEIR.TAKE api %s 100", key);
    for (int i = 0; i < 4000; i++)
        (void)kit_ask(&kit, line);
    (void)snprintf(line, sizeof line, "$127\r\n%s\r\n", key);
    const char *top = kit_ask(&kit, "WEIR.TOP api");
    CHECK(strstr(top, line) && !strstr(top, "bytes"));
    kit_close(&kit);
}

/* Both begin with the same 127 bytes. */
TEST(keys_that_are_cut_do_not_look_the_same)
{
    struct kit kit;
    char alice[192], bob[192], shown[192];
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "1M/s");
    (void)snprintf(alice, sizeof alice, "WEIR.TAKE api %0127d:alice 100", 7);
    (void)snprintf(bob, sizeof bob, "WEIR.TAKE api %0127d:bob 100", 7);
    (void)snprintf(shown, sizeof shown, "%0127d...", 7);
    for (int i = 0; i < 4000; i++) {
        (void)kit_ask(&kit, alice);
        (void)kit_ask(&kit, bob);
    }
    const char *top = kit_ask(&kit, "WEIR.TOP api");
    const char *first = strstr(top, shown);
    const char *id = first ? strstr(first, "id\r\n$16\r\n") : NULL;
    const char *second = id ? strstr(id, shown) : NULL;
    const char *other = second ? strstr(second, "id\r\n$16\r\n") : NULL;
    CHECK(strstr(top, ":133\r\n") && strstr(top, ":131\r\n"));
    CHECK(other && memcmp(id, other, 9 + 16) != 0);
    kit_close(&kit);
}
