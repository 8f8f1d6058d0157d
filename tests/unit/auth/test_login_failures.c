/* SPDX-License-Identifier: MIT */
/*
 * Failed logins: who is blocked, for how long, and who never is.
 */
#include "auth/login_failures.h"
#include "check.h"
#include "rng.h"
#include "weir.h"

#define TRY_NS (60 * WEIR_SEC / LOGIN_FAILURES_RATE)

static struct user list[] = {{.name = "default", .generations = {1}}, {.name = "app", .generations = {2, 3}}};
static const struct users users = {.list = list, .count = 2};

static struct slice word(const char *text)
{
    return (struct slice){text, strlen(text)};
}

/* A wrong password, looked at if it may be: what weir_attempt_begin said. */
static enum login_attempt_state try_at(struct login_failures *login_failures, int64_t now_ns,
                                       const char *source, const char *name, const char *password)
{
    int64_t retry_ns = -1;
    struct login_attempt attempt = weir_attempt(login_failures, source, &users, word(name), word(password));
    enum login_attempt_state state = weir_attempt_begin(login_failures, now_ns, attempt, &retry_ns);
    CHECK((state == ATTEMPT_BLOCKED) == (retry_ns > 0));
    if (state == ATTEMPT_OPEN)
        weir_attempt_failed(login_failures, now_ns, attempt);
    return state;
}

/* Distinct wrong passwords until it is blocked. */
static int guess_until_blocked(struct login_failures *login_failures, int64_t now_ns, const char *source,
                               const char *name)
{
    static int last;
    for (int tries = 0;; tries++) {
        char password[32];
        (void)snprintf(password, sizeof password, "guess-%d", ++last);
        if (try_at(login_failures, now_ns, source, name, password) == ATTEMPT_BLOCKED)
            return tries;
        if (!CHECK(tries < 1000))
            return tries;
    }
}

TEST(a_source_is_an_address_a_network_or_a_user_id)
{
    static const struct {
        const char *address, *source;
    } cases[] = {{"127.0.0.1:50211", "127.0.0.1"},
                 {"[2001:db8:1:2:3:4:5:6]:443", "2001:db8:1:2::/64"},
                 {"[2001:db8:1:2:ffff::]:1", "2001:db8:1:2::/64"},
                 {"[2001:db8:1:3::1]:443", "2001:db8:1:3::/64"},
                 {"[::1]:9049", "::/64"},
                 {"unix:1000", "unix:1000"},
                 {"unix:0", "unix:0"},
                 {"unix", "unix"},
                 {"", ""},
                 {"[", "["},
                 {"[]:1", "["}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char source[SOURCE_MAX];
        weir_source_of(cases[i].address, source);
        CHECK_STR(source, cases[i].source);
    }
}

TEST(ten_guesses_and_ten_more_a_minute)
{
    struct login_failures *login_failures = weir_login_failures_new(16);
    int64_t now_ns = 5 * WEIR_SEC, retry_ns = 0;
    CHECK_EQ(guess_until_blocked(login_failures, now_ns, "a", "app"), LOGIN_FAILURES_BURST);
    struct login_attempt right =
        weir_attempt(login_failures, "a", &users, word("app"), word("the right one"));
    CHECK_EQ(weir_attempt_begin(login_failures, now_ns, right, &retry_ns), ATTEMPT_BLOCKED);
    CHECK_EQ(retry_ns, TRY_NS);
    CHECK_EQ(weir_attempt_begin(login_failures, now_ns + TRY_NS - 1, right, &retry_ns), ATTEMPT_BLOCKED);
    CHECK_EQ(retry_ns, 1);
    CHECK_EQ(weir_attempt_begin(login_failures, now_ns + TRY_NS, right, &retry_ns), ATTEMPT_OPEN);
    CHECK_EQ(guess_until_blocked(login_failures, now_ns + TRY_NS, "a", "app"), 1);
    CHECK_EQ(guess_until_blocked(login_failures, now_ns + 3 * TRY_NS, "a", "app"), 2);
    CHECK_EQ(guess_until_blocked(login_failures, now_ns + 86400 * WEIR_SEC, "a", "app"),
             LOGIN_FAILURES_BURST);
    weir_login_failures_free(login_failures);
    weir_login_failures_free(NULL);
}

TEST(only_the_pair_is_blocked)
{
    struct login_failures *login_failures = weir_login_failures_new(16);
    (void)guess_until_blocked(login_failures, 0, "a", "app");
    CHECK_EQ(try_at(login_failures, 0, "b", "app", "x"), ATTEMPT_OPEN);
    CHECK_EQ(try_at(login_failures, 0, "a", "default", "x"), ATTEMPT_OPEN);
    CHECK_EQ(try_at(login_failures, 0, "a", "nobody", "x"), ATTEMPT_OPEN);
    CHECK_EQ(try_at(login_failures, 0, "a", "app", "x"), ATTEMPT_BLOCKED);
    CHECK_EQ(weir_login_failures_count(login_failures), 4);
    weir_login_failures_free(login_failures);
}

/* A client with an old password tries it for ever; another one behind the same proxy knows the right one. */
TEST(repeats_of_the_last_eight_are_free)
{
    struct login_failures *login_failures = weir_login_failures_new(16);
    char password[32];
    for (int round = 0; round < 100; round++)
        for (int i = 0; i < LOGIN_FAILURES_PASSWORDS; i++) {
            (void)snprintf(password, sizeof password, "old-%d", i);
            CHECK_EQ(try_at(login_failures, 0, "a", "app", password),
                     round == 0 ? ATTEMPT_OPEN : ATTEMPT_KNOWN);
        }
    CHECK_EQ(guess_until_blocked(login_failures, 0, "a", "app"),
             LOGIN_FAILURES_BURST - LOGIN_FAILURES_PASSWORDS);
    CHECK_EQ(try_at(login_failures, 0, "a", "app", "old-7"),
             ATTEMPT_KNOWN); /* blocked, and known to be wrong */
    CHECK_EQ(try_at(login_failures, 0, "a", "app", "old-0"), ATTEMPT_BLOCKED); /* two others came after it */
    CHECK_EQ(try_at(login_failures, 0, "a", "default", "old-7"), ATTEMPT_OPEN);
    weir_login_failures_free(login_failures);
}

TEST(a_wrong_password_may_become_the_right_one)
{
    struct login_failures *login_failures = weir_login_failures_new(16);
    CHECK_EQ(try_at(login_failures, 0, "a", "app", "next"), ATTEMPT_OPEN);
    CHECK_EQ(try_at(login_failures, 0, "a", "app", "next"), ATTEMPT_KNOWN);
    list[1].generations[1]++; /* a reload has changed one of its passwords */
    CHECK_EQ(try_at(login_failures, 0, "a", "app", "next"), ATTEMPT_OPEN);
    weir_login_failures_free(login_failures);
}

TEST(names_that_do_not_exist_are_one)
{
    struct login_failures *login_failures = weir_login_failures_new(16);
    int tries = 0;
    for (char name[32]; tries < 1000; tries++) {
        (void)snprintf(name, sizeof name, "user-%d", tries);
        if (try_at(login_failures, 0, "a", name, "same") == ATTEMPT_BLOCKED)
            break;
    }
    CHECK_EQ(tries, LOGIN_FAILURES_BURST);
    CHECK_EQ(weir_login_failures_count(login_failures), 1);
    CHECK_EQ(try_at(login_failures, 0, "a", "app", "same"), ATTEMPT_OPEN); /* who exists does not suffer */
    weir_login_failures_free(login_failures);
}

TEST(a_full_table_drops_the_oldest_and_blocks_nobody_who_has_not_failed)
{
    enum { MOST = 64 };
    struct login_failures *login_failures = weir_login_failures_new(MOST);
    char source[32];
    (void)guess_until_blocked(login_failures, 0, "first", "app");
    (void)guess_until_blocked(login_failures, 0, "second", "app");
    for (int i = 0; i < MOST - 2; i++) {
        (void)snprintf(source, sizeof source, "s-%d", i);
        CHECK_EQ(guess_until_blocked(login_failures, 0, source, "app"), LOGIN_FAILURES_BURST);
    }
    CHECK_EQ(weir_login_failures_count(login_failures), MOST);
    CHECK_EQ(try_at(login_failures, 0, "new", "app", "x"), ATTEMPT_OPEN); /* in the place of `first` */
    CHECK_EQ(weir_login_failures_count(login_failures), MOST);
    CHECK_EQ(try_at(login_failures, 0, "second", "app", "x"), ATTEMPT_BLOCKED);
    CHECK_EQ(try_at(login_failures, 0, "s-0", "app", "x"), ATTEMPT_BLOCKED);
    CHECK_EQ(try_at(login_failures, 0, "first", "app", "x"), ATTEMPT_OPEN); /* in the place of `second` */
    CHECK_EQ(try_at(login_failures, 0, "second", "app", "x"), ATTEMPT_OPEN);
    CHECK_EQ(try_at(login_failures, 0, "new", "app", "y"), ATTEMPT_OPEN); /* has failed once */
    for (int i = 0; i < 100000; i++) {
        (void)snprintf(source, sizeof source, "t-%d", i);
        if (!CHECK_EQ(try_at(login_failures, 0, source, "app", "x"), ATTEMPT_OPEN))
            break;
    }
    weir_login_failures_free(login_failures);
}

/* Beside a model that keeps everything: within any time t a pair has at most 10 + t / 6 s passwords looked
 * at, and is blocked only if it has used that up. */
TEST(the_law_of_random_tries)
{
    enum { PAIRS = 8, STEPS = 20000 };
    struct rng rng = rng_new(1);
    struct login_failures *login_failures = weir_login_failures_new(PAIRS);
    int64_t now_ns = 0, spent_ns[PAIRS] = {0};
    for (int i = 0; i < STEPS; i++) {
        char source[16], password[32];
        size_t at = (size_t)rng_between(&rng, 0, PAIRS - 1);
        now_ns += rng_between(&rng, 0, 3) == 0 ? rng_between(&rng, 0, 4 * TRY_NS) : 0;
        (void)snprintf(source, sizeof source, "s-%zu", at);
        (void)snprintf(password, sizeof password, "p-%d", i);
        int64_t ahead_ns = spent_ns[at] > now_ns ? spent_ns[at] - now_ns : 0;
        bool may = ahead_ns + TRY_NS <= LOGIN_FAILURES_BURST * TRY_NS;
        if (!CHECK_EQ(try_at(login_failures, now_ns, source, "app", password),
                      may ? ATTEMPT_OPEN : ATTEMPT_BLOCKED))
            break;
        if (may)
            spent_ns[at] = now_ns + ahead_ns + TRY_NS;
    }
    weir_login_failures_free(login_failures);
}
