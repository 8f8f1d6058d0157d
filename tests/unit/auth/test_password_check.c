/* SPDX-License-Identifier: MIT */
/*
 * Passwords as slow hashes of crypt(3): who is right, who waits, and what is remembered. The hashes here are
 * of the lowest cost.
 */
#include "auth/password_check.h"
#include "config/password_hash.h"
#include "service/pending.h"
#include "service/policies/apply.h"
#include "service/run.h"
#include "unit/service/command_kit.h"

#define RIGHT      "$y$j75$W7aMW7aMW7aMW7aMW7aMW/$JlkNF/9o1Fs4GqxgVzV.Dw.vG4vUHG1tVp1Z6RAHhG1" /* right horse */
#define OTHER      "$y$j75$XBqMXBqMXBqMXBqMXBqMX/$0rSKn5q0Jt0K7DESF7ll1Z35C6SxHCINHInuqEvj.n8" /* other horse */
#define WRONG_HASH "$y$j75$W7aMW7aMW7aMW7aMW7aMW/$E6VXMBiDPID6paKA45hedgI3uwvkHQWr87NjSaLn/P8" /* wrong */
#define USERS                                                                                                \
    "users:\n"                                                                                               \
    "  - {name: ops, password: ops-secret, may: all}\n"                                                      \
    "  - {name: app, password_crypt: [\"" RIGHT "\", \"" OTHER "\"], may: [take]}\n"
#define WRONG     "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
#define CHANGED   "-UNAVAILABLE the users were changed while the password was being checked; try again\r\n"
#define UNCHECKED "-UNAVAILABLE the password could not be checked: out of memory; try again\r\n"

TEST(hashes_are_of_methods_that_are_not_outdated)
{
    CHECK(weir_password_is_hash(RIGHT));
    CHECK(weir_password_is_hash(
        "$6$rounds=10000$weirsalt$"
        "8ZKVcXSzd7kbsf0OwVXvGmyfYJ1Be6D7TkJnkCqvJv6.a5v3hJvL0VbKz4u6mF3iDLb4Gk3wgpUpVx2nqEFgL/"));
    static const char *const wrong[] = {"",
                                        "hunter2",
                                        "$1$weirsalt$uB7aF5jb7PwgbAmZjaCZz1",
                                        "$y$j75$W7aM",
                                        "$9$a$b",
                                        "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (!CHECK(!weir_password_is_hash(wrong[i])))
            printf("# %s\n", wrong[i]);
}

TEST(a_login_with_a_slow_hash)
{
    if (!kit_begin(USERS))
        return;
    CHECK_STR(say("AUTH app wrong"), WRONG);
    CHECK_STR(say("AUTH app \"right horse\""), "+OK\r\n");
    CHECK_STR(kit.session.user, "app");
    CHECK_STR(say("INFO"), "-NOPERM User app has no permissions to run the 'info' command\r\n");
    kit_connect("127.0.0.1:50002");
    CHECK(begins(say("HELLO 3 AUTH app \"other horse\" SETNAME x"), "%7\r\n"));
    CHECK_STR(kit.session.name, "x");
    CHECK_STR(say("AUTH nobody \"right horse\""), WRONG);
    CHECK_STR(say("AUTH ops \"right horse\""), WRONG);
    CHECK_STR(say("AUTH app \"right horse\\x00\""), WRONG);
    CHECK_STR(say("AUTH app \"" RIGHT "\""), WRONG); /* who has read the hash does not know the password */
    CHECK_STR(say("AUTH ops ops-secret"), "+OK\r\n");
    kit_end();
}

/* The request is put away and run again: what stands behind it waits. */
TEST(requests_behind_a_login_are_run_after_it)
{
    static const char *const lines[] = {"PING", "AUTH app \"right horse\"", "PING", "AUTH app wrong", "PING"};
    if (!kit_begin(USERS))
        return;
    CHECK_STR(kit_ask_lines(&kit, lines, sizeof lines / sizeof lines[0]),
              "-NOAUTH Authentication required.\r\n+OK\r\n+PONG\r\n" WRONG "+PONG\r\n");
    kit_end();
}

TEST(guesses_are_counted_as_those_of_fast_passwords)
{
    int tries = 0;
    if (!kit_begin(USERS))
        return;
    while (tries < 100 && strcmp(say("AUTH app guess-%d", tries), WRONG) == 0)
        tries++;
    CHECK_EQ(tries, 10);
    CHECK(begins(say("AUTH app \"right horse\""), "-ERR too many failed logins"));
    kit_end();
}

static struct login login_of(struct kit *of, const char *name, const char *password)
{
    struct login login;
    const struct users *users = atomic_load(&of->service->snapshot)->users;
    CHECK(weir_login_init(&login, users, (struct slice){name, strlen(name)},
                          (struct slice){password, strlen(password)}));
    return login;
}

TEST(what_was_right_is_remembered_until_it_changes)
{
    if (!kit_begin(USERS))
        return;
    struct password_check *password_check = kit.service->password_check;
    struct login login = login_of(&kit, "app", "right horse"), wrong = login_of(&kit, "app", "wrong");
    CHECK_EQ(weir_password_check_known(password_check, &login), 0);
    CHECK_STR(say("AUTH app wrong"), WRONG);
    CHECK_STR(say("AUTH app \"right horse\""), "+OK\r\n");
    CHECK_EQ(weir_password_check_known(password_check, &login), login.generations[0]);
    CHECK_EQ(weir_password_check_known(password_check, &wrong), 0);
    struct login other = login_of(&kit, "nobody", "right horse");
    CHECK_EQ(weir_password_check_known(password_check, &other), 0);
    login.generations[0]++; /* a reload has changed the user */
    CHECK_EQ(weir_password_check_known(password_check, &login), 0);
    kit_end();
}

/* As many as wait, and a few of each source: who has many connections does not keep others waiting. */
TEST(few_of_a_source_wait)
{
    struct login logins[PASSWORD_CHECKS_MAX + 1];
    if (!kit_begin(USERS))
        return;
    struct password_check *password_check = kit.service->password_check;
    size_t waiting = 0;
    for (; waiting < PASSWORD_CHECKS_MAX; waiting++) {
        logins[waiting] = login_of(&kit, "app", "x");
        logins[waiting].attempt.word = waiting + 1;
        if (!weir_login_wait(password_check, &logins[waiting], "one"))
            break;
    }
    CHECK_EQ(waiting, PASSWORD_CHECKS_PER_SOURCE);
    for (; waiting < PASSWORD_CHECKS_MAX; waiting++) {
        char source[16];
        (void)snprintf(source, sizeof source, "s-%zu", waiting);
        logins[waiting] = login_of(&kit, "app", "x");
        logins[waiting].attempt.word = waiting + 1;
        CHECK(weir_login_wait(password_check, &logins[waiting], source));
    }
    logins[PASSWORD_CHECKS_MAX] = login_of(&kit, "app", "x");
    CHECK(!weir_login_wait(password_check, &logins[PASSWORD_CHECKS_MAX], "last"));
    logins[PASSWORD_CHECKS_MAX].attempt.word = 1; /* the same as another one */
    CHECK(weir_login_wait(password_check, &logins[PASSWORD_CHECKS_MAX], "last"));
    weir_login_end(password_check, &logins[PASSWORD_CHECKS_MAX]);
    logins[PASSWORD_CHECKS_MAX].attempt.word = 0;
    CHECK(!weir_login_wait(password_check, &logins[PASSWORD_CHECKS_MAX],
                           "last")); /* it had no place to give back */
    CHECK_STR(say("AUTH app \"right horse\""),
              "-UNAVAILABLE too many logins are being checked at this moment; try again\r\n");
    for (size_t i = 0; i < PASSWORD_CHECKS_MAX; i++)
        weir_login_end(password_check, &logins[i]);
    CHECK_STR(say("AUTH app \"right horse\""), "+OK\r\n");
    kit_end();
}

/* ---- while it is being checked ---- */

static bool apply(const char *yaml)
{
    struct weir_error err;
    struct config *config = weir_config_parse("weir.yaml", yaml, strlen(yaml), NULL, NULL);
    bool done = CHECK(config != NULL) && weir_service_apply(kit.service, config, &err);
    weir_config_free(config);
    return done;
}

/* Up to where another thread checks the password. */
static void begin_login(const char *name, const char *password)
{
    const struct slice words[] = {{"AUTH", 4}, {name, strlen(name)}, {password, strlen(password)}};
    const struct resp_request request = {words, 3};
    weir_buffer_drop(&kit.out, buffer_len(&kit.out), 1 << 20);
    struct run_result result = weir_service_run(kit.worker, &kit.session, &request, 1, &kit.out);
    CHECK_EQ(result.done, 1);
    CHECK_EQ(result.state, RUN_PENDING);
}

static bool end_login(const char *reply)
{
    (void)weir_service_resume(kit.worker, &kit.session, &kit.out);
    return buffer_len(&kit.out) == strlen(reply) && memcmp(buffer_bytes(&kit.out), reply, strlen(reply)) == 0;
}

/* It was compared with what is no longer there: that says nothing of what is now. */
TEST(a_reload_during_a_login_makes_no_password_wrong)
{
    static const char *const before[] = {
        "users: [{name: app, password_crypt: \"" OTHER "\", may: [take]}]",
        "users: [{name: app, password_crypt: \"" RIGHT "\", may: [take, look]}]",
        "users: [{name: ops, password_crypt: \"" OTHER "\", may: [take]}]",
    };
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        if (!kit_begin(before[i]))
            return;
        begin_login("app", "right horse");
        weir_pending_work(kit.service, &kit.session);
        CHECK(apply("users: [{name: app, password_crypt: \"" RIGHT "\", may: [take]}]"));
        CHECK(end_login(CHANGED));
        CHECK_EQ(weir_login_failures_count(kit.service->login_failures), 0);
        CHECK_STR(say("AUTH app \"right horse\""), "+OK\r\n");
        kit_end();
    }
}

TEST(a_reload_during_a_login_keeps_a_password_that_stays_right)
{
    if (!kit_begin(USERS))
        return;
    begin_login("app", "right horse");
    weir_pending_work(kit.service, &kit.session);
    CHECK(apply("users: [{name: app, password_crypt: \"" RIGHT "\", may: [take]}]"));
    CHECK(end_login("+OK\r\n"));
    kit_end();
}

TEST(a_password_that_was_not_checked_is_not_wrong)
{
    if (!kit_begin(USERS))
        return;
    begin_login("app", "right horse"); /* there was no memory to check it */
    CHECK(end_login(UNCHECKED));
    CHECK_EQ(weir_login_failures_count(kit.service->login_failures), 0);
    CHECK_STR(say("AUTH app \"right horse\""), "+OK\r\n");
    kit_end();
}

/* Right or wrong. A check of the second one would say something else: its hashes are others. */
TEST(who_waits_with_the_same_password_is_not_checked_again)
{
    static const char *const passwords[] = {"right horse", "wrong"};
    static const char *const others[] = {OTHER, WRONG_HASH};
    if (!kit_begin(USERS))
        return;
    for (size_t i = 0; i < 2; i++) {
        struct login first = login_of(&kit, "app", passwords[i]), second;
        first.attempt.word = i + 1;
        second = first;
        second.count = 1;
        (void)snprintf(second.hashes[0], sizeof second.hashes[0], "%s", others[i]);
        weir_login_check(kit.service->password_check, &first);
        CHECK(first.checked);
        CHECK_EQ(first.right, i == 0 ? first.generations[0] : 0);
        weir_login_check(kit.service->password_check, &second);
        CHECK(second.checked);
        CHECK_EQ(second.right, first.right);
    }
    kit_end();
}

/* The password of the command line stands above that of the file, and no slow hash is left of it. */
TEST(the_hash_of_a_user_that_takes_as_long_is_one_of_the_file)
{
    struct digest password = weir_sha256("secret", 6);
    struct service_options options = {.workers = 1, .test_clock = true, .password = &password};
    if (!CHECK(kit_open_with(&kit,
                             "users:\n"
                             "  - {name: default, password_crypt: \"" OTHER "\", may: all}\n"
                             "  - {name: app, password_crypt: \"" RIGHT "\", may: [take]}\n",
                             &options)))
        return;
    CHECK_STR(login_of(&kit, "nobody", "x").hashes[0], RIGHT);
    kit_end();
}

/* A server that ends does not wait for them. */
TEST(nothing_is_checked_after_the_end)
{
    if (!kit_begin(USERS))
        return;
    struct login login = login_of(&kit, "app", "right horse");
    weir_password_check_stop(kit.service->password_check);
    weir_login_check(kit.service->password_check, &login);
    CHECK(!login.checked);
    CHECK_EQ(login.right, 0);
    kit_end();
}

/* A user that does not exist takes as long as one that does. */
TEST(a_wrong_password_costs_the_same_whoever_it_is_of)
{
    if (!kit_begin(USERS))
        return;
    static const char *const names[] = {"nobody", "ops", "default"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct login login = login_of(&kit, names[i], "right horse");
        CHECK_EQ(login.count, 1);
        CHECK_STR(login.hashes[0], RIGHT);
        weir_login_check(kit.service->password_check, &login);
        CHECK_EQ(login.right, 0);
    }
    kit_end();
}
