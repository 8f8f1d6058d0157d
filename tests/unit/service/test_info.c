/* SPDX-License-Identifier: MIT */
/*
 * INFO, CONFIG and what else tools ask a server about itself.
 */
#include "unit/service/command_kit.h"

#define POLICIES                                                                                             \
    "policies:\n"                                                                                            \
    "  - {name: api, limits: 5/s, keys: 1000}\n"                                                             \
    "  - {name: login, limits: 1/m, keys: 1000, mode: shadow}\n"

static char info[1 << 16];

static void read_info(const char *sections)
{
    say("INFO %s", sections);
    CHECK(got && got->type == RESP_VERBATIM);
    (void)snprintf(info, sizeof info, "%.*s", got ? (int)got->text.len : 0, got ? got->text.bytes : "");
}

/* What stands behind "name:", up to the line's end. */
static const char *value_of(const char *name)
{
    static char value[512];
    char start[80];
    (void)snprintf(start, sizeof start, "\n%s:", name);
    const char *at = strstr(info, start);
    if (!at)
        return "(none)";
    at += strlen(start);
    (void)snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\r\n"), at);
    return value;
}

TEST(info_has_sections_whose_lines_end_as_in_redis)
{
    if (!kit_begin(POLICIES))
        return;
    read_info("");
    CHECK(begins(info, "# Server\r\nredis_version:7.4.0\r\n"));
    for (const char *at = info; (at = strchr(at, '\n')); at++)
        CHECK(at[-1] == '\r');
    static const char *const titles[] = {"Clients", "Memory",  "Persistence", "Stats",   "Replication",
                                         "CPU",     "Cluster", "Weir",        "Keyspace"};
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++) {
        char title[40];
        (void)snprintf(title, sizeof title, "\r\n\r\n# %s\r\n", titles[i]);
        CHECK(strstr(info, title) != NULL);
    }
    CHECK(strstr(info, "# Commandstats") == NULL);
    kit_end();
}

TEST(one_section_is_that_section_alone)
{
    if (!kit_begin(""))
        return;
    read_info("cluster");
    CHECK_STR(info, "# Cluster\r\ncluster_enabled:0\r\n");
    read_info("CLUSTER nosuch");
    CHECK_STR(info, "# Cluster\r\ncluster_enabled:0\r\n");
    read_info("nosuch");
    CHECK_STR(info, "");
    read_info("everything");
    CHECK(strstr(info, "# Commandstats\r\n") != NULL);
    kit_end();
}

/* redis-cli --stat and ioredis look for these, and for numbers behind them. */
TEST(fields_that_tools_read_are_there)
{
    static const char *const numbers[] = {"connected_clients",
                                          "blocked_clients",
                                          "used_memory",
                                          "loading",
                                          "process_id",
                                          "uptime_in_seconds",
                                          "maxmemory",
                                          "rejected_connections",
                                          "total_commands_processed",
                                          "total_connections_received",
                                          "instantaneous_ops_per_sec",
                                          "rdb_bgsave_in_progress",
                                          "aof_rewrite_in_progress",
                                          "cluster_enabled"};
    if (!kit_begin(POLICIES))
        return;
    read_info("");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        uint64_t number;
        if (!CHECK(check_number(value_of(numbers[i]), &number)))
            printf("# %s\n", numbers[i]);
    }
    CHECK_STR(value_of("role"), "master");
    CHECK_STR(value_of("loading"), "0");
    CHECK_STR(value_of("redis_mode"), "standalone");
    CHECK_STR(value_of("weir_version"), weir_version());
    CHECK_EQ(strlen(value_of("run_id")), 40);
    kit_end();
}

TEST(decisions_are_counted_by_policy_and_in_all)
{
    if (!kit_begin(POLICIES))
        return;
    say("WEIR.TAKE api k 5");
    say("WEIR.TAKE api k");
    say("WEIR.TAKE api k 0");
    say("WEIR.TAKE login k");
    say("WEIR.TAKE login k");
    read_info("weir");
    CHECK(begins(value_of("policy_api"),
                 "allowed=1,refused=1,shadow_refused=0,candidate_refused=0,errors=1,keys=1,"));
    CHECK(begins(value_of("policy_login"),
                 "allowed=2,refused=0,shadow_refused=1,candidate_refused=0,errors=0,keys=1,"));
    CHECK(strstr(value_of("policy_login"), ",mode=shadow,percent=100") != NULL);
    CHECK_STR(value_of("policies"), "2");
    CHECK_STR(value_of("keys"), "2");
    CHECK_STR(value_of("allowed"), "3");
    CHECK_STR(value_of("refused"), "1");
    CHECK_STR(value_of("shadow_refused"), "1");
    CHECK_STR(value_of("errors"), "1");
    CHECK_STR(value_of("mode_of_all"), "none");
    CHECK_STR(say("DBSIZE"), ":2\r\n");
    read_info("keyspace");
    CHECK_STR(value_of("db0"), "keys=2,expires=2,avg_ttl=0");
    kit_end();
}

TEST(ids_and_reservations_are_counted_apart)
{
    uint64_t requests, reservations;
    if (!kit_begin(POLICIES))
        return;
    say("WEIR.TAKE api k ID one");
    say("WEIR.TAKE api k ID two");
    say("WEIR.RESERVE api k 1 ID three");
    read_info("weir");
    CHECK_STR(value_of("requests_used"), "3");
    CHECK_STR(value_of("requests_refused"), "0");
    CHECK_STR(value_of("ledger_used"), "1");
    CHECK_STR(value_of("ledger_refused"), "0");
    CHECK(check_number(value_of("requests_capacity"), &requests));
    CHECK(check_number(value_of("ledger_capacity"), &reservations));
    CHECK(requests > 3 * reservations); /* the same memory */
    kit_end();
}

/* As many as it says find room, and not many more. */
TEST(capacities_are_what_can_be_used)
{
    uint64_t room, refused;
    if (!kit_begin("memory: 8MiB\npolicies: [{name: api, limits: 1M/s}]\n"))
        return;
    read_info("weir");
    CHECK(check_number(value_of("ledger_capacity"), &room));
    for (uint64_t i = 0; i < room; i++)
        say("WEIR.RESERVE api k 1 TTL 60000");
    read_info("weir");
    CHECK(check_number(value_of("ledger_refused"), &refused));
    CHECK(room > 500 && refused * 1000 <= room);
    for (uint64_t i = 0; i < room / 2; i++)
        say("WEIR.RESERVE api k 1 TTL 60000");
    read_info("weir");
    CHECK(check_number(value_of("ledger_refused"), &refused));
    CHECK(refused >= room / 8);
    kit_end();
}

TEST(the_mode_of_all_is_shown_with_its_end)
{
    if (!kit_begin(POLICIES))
        return;
    CHECK_STR(say("WEIR.POLICY MODE * disabled FOR 30m"), "+OK\r\n");
    read_info("weir");
    CHECK_STR(value_of("mode_of_all"), "disabled");
    CHECK_STR(value_of("mode_of_all_ends_in_ms"), "1800000");
    say("WEIR.CLOCK ADVANCE 1800000");
    read_info("weir");
    CHECK_STR(value_of("mode_of_all"), "none");
    CHECK_STR(value_of("mode_of_all_ends_in_ms"), "-1");
    kit_end();
}

TEST(commands_are_counted_by_name)
{
    if (!kit_begin(""))
        return;
    say("PING");
    say("PING");
    say("SELECT nothing");
    read_info("commandstats");
    CHECK(begins(value_of("cmdstat_ping"), "calls=2,usec="));
    CHECK(strstr(value_of("cmdstat_select"), ",failed_calls=1") != NULL);
    CHECK(strstr(info, "cmdstat_weir.take") == NULL);
    kit_end();
}

/* Who may see one policy only does not learn the names of the others. */
TEST(info_leaves_out_policies_of_others)
{
    if (!kit_begin(POLICIES "users:\n  - {name: a, password: \"b\", may: [look], policies: [api]}\n"))
        return;
    CHECK_STR(say("AUTH a b"), "+OK\r\n");
    read_info("everything");
    CHECK(strstr(info, "policy_api:") != NULL);
    CHECK(strstr(info, "login") == NULL);
    kit_end();
}

TEST(info_shows_no_secret)
{
    if (!kit_begin("users:\n  - {name: default, password: \"hush-hush\", may: all}\n"))
        return;
    CHECK_STR(say("AUTH hush-hush"), "+OK\r\n");
    read_info("everything");
    CHECK(strstr(info, "hush") == NULL);
    say("CONFIG GET *");
    for (size_t i = 0; i < got->count; i++)
        CHECK(strstr(text_of(&got->elements[i]), "hush") == NULL &&
              !strstr(text_of(&got->elements[i]), "pass"));
    kit_end();
}

TEST(config_get_answers_what_clients_ask_for)
{
    if (!kit_begin("clients: {max: 77}\n"))
        return;
    CHECK_STR(say("CONFIG GET save"), "%1\r\n$4\r\nsave\r\n$0\r\n\r\n");
    CHECK_STR(say("CONFIG GET appendonly"), "%1\r\n$10\r\nappendonly\r\n$2\r\nno\r\n");
    CHECK_STR(say("CONFIG GET nosuch"), "%0\r\n");
    CHECK_STR(say("CONFIG GET maxclients"), "%1\r\n$10\r\nmaxclients\r\n$2\r\n77\r\n");
    say("CONFIG GET *read-only SLAVE-*");
    CHECK_EQ(got->count, 4);
    kit.session.version = 2;
    CHECK_STR(say("CONFIG GET databases"), "*2\r\n$9\r\ndatabases\r\n$2\r\n16\r\n");
    CHECK_STR(say("CONFIG GET"), "-ERR wrong number of arguments for 'config|get' command\r\n");
    CHECK(begins(say("CONFIG SET maxmemory 1"), "-ERR nothing can be set this way; "));
    CHECK(begins(say("CONFIG REWRITE"), "-ERR weir writes no configuration"));
    CHECK(begins(say("CONFIG RESETSTAT"), "-ERR counters only grow"));
    kit_end();
}

TEST(no_client_makes_us_search_or_keep_much)
{
    char text[33000];
    if (!kit_begin(POLICIES))
        return;
    memset(text, '*', 65);
    say("CONFIG GET %.64s", text);
    CHECK(got && got->count > 2);
    CHECK_STR(say("CONFIG GET %.65s", text), "%0\r\n");
    memset(text, 'x', sizeof text);
    struct slice words[] = {{"INFO", 4}, {text, sizeof text}};
    CHECK_STR(kit_ask_words(&kit, words, 2), "-ERR that is too long; at most 32768 bytes\r\n");
    words[1].len = 32000;
    CHECK_STR(kit_ask_words(&kit, words, 2), "=4\r\ntxt:\r\n");
    kit_end();
}

TEST(keys_have_no_values)
{
    if (!kit_begin(""))
        return;
    CHECK_STR(say("GET __Booksleeve_TieBreak"), "_\r\n");
    CHECK_STR(say("EXISTS a b"), ":0\r\n");
    CHECK_STR(say("TTL a"), ":-2\r\n");
    CHECK_STR(say("TYPE a"), "+none\r\n");
    CHECK_STR(say("SLOWLOG GET 10"), "*0\r\n");
    CHECK_STR(say("LATENCY LATEST"), "*0\r\n");
    CHECK_STR(say("MEMORY USAGE a"), "_\r\n");
    CHECK(begins(say("SHUTDOWN"), "-ERR clients cannot stop weir; "));
    kit_end();
}

TEST(time_is_the_clock_of_the_server)
{
    if (!kit_begin(""))
        return;
    say("WEIR.CLOCK SET 1700000000123");
    CHECK_STR(say("TIME"), "*2\r\n$10\r\n1700000000\r\n$6\r\n123000\r\n");
    kit_end();
}
