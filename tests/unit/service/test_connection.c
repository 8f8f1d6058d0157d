/* SPDX-License-Identifier: MIT */
/*
 * HELLO, AUTH and the small commands of connections. Error texts are those that clients look for.
 */
#include "service/policies/apply.h"
#include "unit/service/command_kit.h"

#define USERS                                                                                                \
    "users:\n"                                                                                               \
    "  - {name: default, password: \"open sesame\", may: all}\n"                                             \
    "  - {name: app, password: \"secret-app\", may: [take]}\n"
#define NOAUTH_HELLO                                                                                         \
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH "   \
    "<user> <pass> option can be used to authenticate the client and select the RESP protocol version at "   \
    "the same time"
#define WRONG "-WRONGPASS invalid username-password pair or user is disabled.\r\n"

TEST(ping_and_echo_answer_what_clients_expect)
{
    if (!kit_begin(""))
        return;
    CHECK_STR(say("PING"), "+PONG\r\n");
    CHECK_STR(say("ping hello"), "$5\r\nhello\r\n");
    CHECK_STR(say("PING a b"), "-ERR wrong number of arguments for 'ping' command\r\n");
    CHECK_STR(say("ECHO \"a\\r\\nb\""), "$4\r\na\r\nb\r\n");
    CHECK_STR(say("ECHO"), "-ERR wrong number of arguments for 'echo' command\r\n");
    kit_end();
}

TEST(select_knows_sixteen_databases_that_are_one)
{
    if (!kit_begin(""))
        return;
    CHECK_STR(say("SELECT 0"), "+OK\r\n");
    CHECK_STR(say("SELECT 15"), "+OK\r\n");
    CHECK_STR(say("SELECT 16"), "-ERR DB index is out of range\r\n");
    CHECK_STR(say("SELECT -1"), "-ERR DB index is out of range\r\n");
    CHECK_STR(say("SELECT one"), "-ERR invalid DB index\r\n");
    kit_end();
}

TEST(hello_switches_the_version_at_its_own_reply)
{
    if (!kit_begin(""))
        return;
    kit.session.version = 2;
    CHECK(begins(say("HELLO"), "*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.4.0\r\n"
                               "$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:"));
    CHECK(begins(say("hello 3"), "%7\r\n$6\r\nserver\r\n"));
    CHECK_EQ(number_field("proto"), 3);
    CHECK_EQ(number_field("id"), (int64_t)kit.session.id);
    CHECK_STR(text_field("mode"), "standalone");
    CHECK_STR(text_field("role"), "master");
    CHECK(field("modules") && field("modules")->type == RESP_ARRAY && field("modules")->count == 0);
    CHECK_STR(say("CLIENT GETNAME"), "_\r\n");
    CHECK(begins(say("HELLO 2"), "*14\r\n"));
    CHECK_STR(say("CLIENT GETNAME"), "$-1\r\n");
    kit_end();
}

TEST(hello_refuses_what_it_does_not_know_and_changes_nothing)
{
    if (!kit_begin(""))
        return;
    CHECK_STR(say("HELLO three"), "-ERR Protocol version is not an integer or out of range\r\n");
    CHECK_STR(say("HELLO 4"), "-NOPROTO unsupported protocol version\r\n");
    CHECK_STR(say("HELLO 1"), "-NOPROTO unsupported protocol version\r\n");
    CHECK_STR(say("HELLO 2 NAME x"), "-ERR Syntax error in HELLO option 'NAME'\r\n");
    CHECK_STR(say("HELLO 2 AUTH x"), "-ERR Syntax error in HELLO option 'AUTH'\r\n");
    CHECK_STR(say("HELLO 2 SETNAME \"a b\""),
              "-ERR Client names cannot contain spaces, newlines or special characters.\r\n");
    CHECK_EQ(kit.session.version, 3);
    CHECK(begins(say("HELLO 2 SETNAME me"), "*14\r\n"));
    CHECK_STR(kit.session.name, "me");
    kit_end();
}

TEST(before_a_login_only_a_few_commands_are_answered)
{
    if (!kit_begin(USERS))
        return;
    CHECK_STR(say("PING"), "-NOAUTH Authentication required.\r\n");
    CHECK_STR(say("HELLO 3"), "-" NOAUTH_HELLO "\r\n");
    CHECK_EQ(kit.session.version, 3);
    kit.session.version = 2;
    CHECK_STR(say("HELLO 3 SETNAME x"), "-" NOAUTH_HELLO "\r\n");
    CHECK_EQ(kit.session.version, 2);
    CHECK(kit.session.name == NULL);
    CHECK_STR(say("RESET"), "+RESET\r\n");
    CHECK_STR(say("QUIT"), "+OK\r\n");
    CHECK_EQ(kit.state, RUN_CLOSE);
    kit_end();
}

TEST(auth_logs_in_with_and_without_a_name)
{
    if (!kit_begin(USERS))
        return;
    CHECK_STR(say("AUTH \"open sesame\""), "+OK\r\n");
    CHECK_STR(say("PING"), "+PONG\r\n");
    CHECK_STR(kit.session.user, "default");
    CHECK_STR(say("AUTH app secret-app"), "+OK\r\n");
    CHECK_STR(kit.session.user, "app");
    CHECK_STR(say("INFO"), "-NOPERM User app has no permissions to run the 'info' command\r\n");
    CHECK_STR(say("AUTH a b c"), "-ERR syntax error\r\n");
    CHECK_STR(say("AUTH"), "-ERR wrong number of arguments for 'auth' command\r\n");
    CHECK_STR(say("AUTH app wrong"), WRONG);
    CHECK_STR(kit.session.user, "app"); /* a failed login leaves one who he is */
    CHECK_STR(say("RESET"), "+RESET\r\n");
    CHECK_EQ(kit.session.version, 2);
    CHECK_STR(say("PING"), "-NOAUTH Authentication required.\r\n");
    CHECK(begins(say("HELLO 3 AUTH app secret-app SETNAME a"), "%7\r\n"));
    CHECK_STR(kit.session.name, "a");
    kit_end();
}

/* What stands behind it in the same batch is asked by who he is then. */
TEST(who_logs_in_is_another_from_the_next_request_on)
{
    static const char *const lines[] = {"PING", "AUTH app secret-app", "PING", "INFO", "RESET", "PING"};
    if (!kit_begin(USERS))
        return;
    CHECK_STR(kit_ask_lines(&kit, lines, sizeof lines / sizeof *lines),
              "-NOAUTH Authentication required.\r\n"
              "+OK\r\n"
              "+PONG\r\n"
              "-NOPERM User app has no permissions to run the 'info' command\r\n"
              "+RESET\r\n"
              "-NOAUTH Authentication required.\r\n");
    kit_end();
}

/* Puts another configuration in force. */
static bool apply(const char *yaml, struct weir_error *err)
{
    struct config *config = weir_config_parse("weir.yaml", yaml, strlen(yaml), NULL, NULL);
    bool done = CHECK(config != NULL) && weir_service_apply(kit.service, config, err);
    weir_config_free(config);
    return done;
}

TEST(a_login_ends_with_its_password_and_with_its_rights)
{
    struct weir_error err;
    if (!kit_begin(USERS))
        return;
    CHECK_STR(say("AUTH app secret-app"), "+OK\r\n");
    CHECK(apply(USERS, &err)); /* nothing has changed */
    CHECK_STR(say("PING"), "+PONG\r\n");
    CHECK(!weir_session_has_ended(&kit.session, kit.worker));
    CHECK(apply("users:\n"
                "  - {name: default, password: \"open sesame\", may: all}\n"
                "  - {name: app, password: \"secret-app\", may: all}\n",
                &err));
    CHECK(weir_session_has_ended(&kit.session, kit.worker));
    CHECK_STR(say("PING"), "-NOAUTH Authentication required.\r\n");
    CHECK_STR(say("WEIR.POLICY SET p 1/s"), "-NOAUTH Authentication required.\r\n");
    CHECK_STR(say("AUTH app secret-app"), "+OK\r\n"); /* it may log in anew */
    CHECK_STR(say("WEIR.POLICY SET p 1/s"), "+OK\r\n");
    CHECK(
        apply("users:\n  - {name: default, may: all}\n", &err)); /* it does not become another user, either */
    CHECK_STR(say("PING"), "-NOAUTH Authentication required.\r\n");
    CHECK_STR(say("RESET"), "+RESET\r\n");
    CHECK(!weir_session_has_ended(&kit.session, kit.worker));
    CHECK_STR(say("PING"), "+PONG\r\n");
    kit_end();
}

TEST(no_password_is_for_servers_without_users)
{
    struct service_options options = {.workers = 1, .test_clock = true, .no_password = true};
    struct weir_error err = {0};
    if (!CHECK(kit_open_with(&kit, NULL, &options)))
        return;
    CHECK(!apply("users: [{name: app, password: x, may: [take]}]", &err));
    CHECK(strstr(err.text, "--no-password lets every client in as `default`, which users: does not name"));
    CHECK_STR(say("WEIR.POLICY SET p 1/s"), "+OK\r\n"); /* as before */
    CHECK(apply("users: [{name: app, password: x, may: [take]}, {name: default, password: y, may: [look]}]",
                &err));
    CHECK_STR(say("PING"), "+PONG\r\n");
    CHECK(begins(say("WEIR.POLICY SET p 1/s"), "-NOPERM"));
    kit_end();
}

TEST(auth_without_any_password_says_so)
{
    if (!kit_begin(""))
        return;
    CHECK_STR(say("AUTH secret"),
              "-ERR AUTH <password> called without any password configured for the default "
              "user. Are you sure your configuration is correct?\r\n");
    CHECK_STR(say("AUTH nobody secret"), WRONG);
    kit_end();
}

/* Wrong ones until the address has no more tries as that user: not even the right password is looked at then,
 * from whichever port. Neither another address nor another user notices. */
TEST(too_many_failed_logins_block_the_address_and_the_user)
{
    if (!kit_begin(USERS))
        return;
    int tries = 0;
    while (tries < 100 && strcmp(say("AUTH app guess-%d", tries), WRONG) == 0)
        tries++;
    CHECK_EQ(tries, 10);
    CHECK_STR(error_text(),
              "ERR too many failed logins from this address; try again in 6 s (user or password was "
              "wrong)");
    kit_connect("127.0.0.1:50002");
    CHECK(begins(say("AUTH app secret-app"), "-ERR too many failed logins from this address; try again in "));
    CHECK(begins(say("HELLO 3 AUTH app secret-app"), "-ERR too many failed logins"));
    CHECK_STR(say("AUTH \"open sesame\""), "+OK\r\n");
    kit_connect("127.0.0.2:50001");
    CHECK_STR(say("AUTH app secret-app"), "+OK\r\n");
    weir_clock_set(6 * WEIR_SEC);
    kit_connect("127.0.0.1:50003");
    CHECK_STR(say("AUTH app secret-app"), "+OK\r\n");
    kit_end();
}

/* A client with an old password, behind the same proxy as one with the right password. */
TEST(a_wrong_password_again_and_again_blocks_nobody)
{
    if (!kit_begin(USERS))
        return;
    for (int i = 0; i < 1000; i++)
        if (!CHECK_STR(say("AUTH app old"), WRONG))
            break;
    CHECK_STR(say("AUTH app secret-app"), "+OK\r\n");
    kit_end();
}

TEST(all_addresses_of_a_network_of_version_six_are_one)
{
    char address[64];
    int tries = 0;
    if (!kit_begin(USERS))
        return;
    for (; tries < 1000; tries++) {
        (void)snprintf(address, sizeof address, "[2001:db8:0:7:%x::%x]:9", (unsigned)tries, (unsigned)tries);
        kit_connect(address);
        if (strcmp(say("AUTH app guess-%d", tries), WRONG) != 0)
            break;
    }
    CHECK_EQ(tries, 10);
    kit_connect("[2001:db8:0:8::1]:9");
    CHECK_STR(say("AUTH app secret-app"), "+OK\r\n");
    kit_end();
}

TEST(users_of_a_unix_socket_are_told_apart)
{
    if (!kit_begin(USERS))
        return;
    kit_connect("unix:1000");
    for (int i = 0; i < 11; i++)
        say("AUTH app guess-%d", i);
    CHECK(begins(error_text(), "ERR too many failed logins"));
    kit_connect("unix:1001");
    CHECK_STR(say("AUTH app secret-app"), "+OK\r\n");
    kit_end();
}

TEST(names_that_do_not_exist_are_one_user)
{
    int tries = 0;
    if (!kit_begin(USERS))
        return;
    while (tries < 1000 && strcmp(say("AUTH user-%d guess", tries), WRONG) == 0)
        tries++;
    CHECK_EQ(tries, 10);
    CHECK_STR(say("AUTH app secret-app"), "+OK\r\n");
    kit_end();
}

TEST(logins_that_succeed_cost_nothing)
{
    if (!kit_begin(USERS))
        return;
    for (int i = 0; i < 1000; i++)
        if (!CHECK_STR(say("AUTH app secret-app"), "+OK\r\n"))
            break;
    kit_end();
}

TEST(no_answer_shows_a_password)
{
    static const char *const lines[] = {"AUTH app hush-hush", "AUTH a hush-hush c",
                                        "HELLO 3 AUTH app hush-hush", "HELLO 9 AUTH app hush-hush",
                                        "AUTH hush-hush"};
    if (!kit_begin(USERS))
        return;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        CHECK(strstr(say("%s", lines[i]), "hush") == NULL);
    CHECK_STR(say("AUTH app secret-app"), "+OK\r\n");
    kit_end();
}

TEST(reset_makes_the_connection_as_if_new)
{
    if (!kit_begin(""))
        return;
    say("CLIENT SETNAME me");
    say("CLIENT REPLY OFF");
    CHECK_STR(say("RESET"), "+RESET\r\n");
    CHECK_EQ(kit.session.version, 2);
    CHECK(kit.session.name == NULL);
    CHECK_STR(say("PING"), "+PONG\r\n");
    kit_end();
}

TEST(this_is_no_cluster_and_no_sentinel)
{
    if (!kit_begin(""))
        return;
    const char *no = "-ERR This instance has cluster support disabled\r\n";
    CHECK_STR(say("CLUSTER NODES"), no);
    CHECK_STR(say("CLUSTER KEYSLOT a"), no);
    CHECK_STR(say("READONLY"), no);
    CHECK_STR(say("READWRITE"), no);
    CHECK(begins(say("SENTINEL MASTERS"), "-ERR unknown command 'SENTINEL'"));
    CHECK(begins(say("SUBSCRIBE a"), "-ERR unknown command 'SUBSCRIBE'"));
    kit_end();
}
