/* SPDX-License-Identifier: MIT */
/*
 * The commands that ask for units: what they answer, what they charge, what they count.
 */
#include "check.h"
#include "service/pending.h"
#include "service/policies/snapshot.h"
#include "unit/service/service_kit.h"

/* Asks, and checks "allowed" and "remaining". */
#define CHECK_TAKE(KIT, LINE, ALLOWED, REMAINING)                                                            \
    do {                                                                                                     \
        const char *answer_ = kit_ask((KIT), (LINE));                                                        \
        CHECK_EQ(kit_field(answer_, "allowed"), (ALLOWED));                                                  \
        CHECK_EQ(kit_field(answer_, "remaining"), (REMAINING));                                              \
    } while (0)

static bool begins(const char *text, const char *start)
{
    bool does = strncmp(text, start, strlen(start)) == 0;
    if (!does)
        printf("# \"%s\" does not begin with \"%s\"\n", text, start);
    return does;
}

/* A value: atomic members of one are none of clang's. */
struct seen {
    int64_t allowed, refused, shadow_refused, candidate_refused, errors, units;
};

static struct seen counts_of(const struct kit *kit, const char *name)
{
    struct policy_sums sum;
    struct snapshot *snapshot = atomic_load(&kit->service->snapshot);
    struct policy *policy = weir_snapshot_policy(snapshot, (struct slice){name, strlen(name)});
    weir_counters_sum(policy->counters, &sum);
    return (struct seen){sum.allowed,           sum.refused, sum.shadow_refused,
                         sum.candidate_refused, sum.errors,  sum.units};
}

TEST(take_answers_six_fields)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    CHECK(kit_policy(&kit, "api", "100/s burst=200, 10k/h"));
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE api user:42"),
              "*12\r\n$7\r\nallowed\r\n:1\r\n$9\r\nremaining\r\n:199\r\n$14\r\nretry_after_ms\r\n:0\r\n"
              "$14\r\nreset_after_ms\r\n:10\r\n$5\r\nlimit\r\n$15\r\n100/s burst=200\r\n"
              "$6\r\nreason\r\n$2\r\nok\r\n");
    kit.session.version = 3;
    CHECK_STR(kit_ask(&kit, "weir.Take api user:42 200"),
              "%6\r\n$7\r\nallowed\r\n#f\r\n$9\r\nremaining\r\n:199\r\n$14\r\nretry_after_ms\r\n:10\r\n"
              "$14\r\nreset_after_ms\r\n:10\r\n$5\r\nlimit\r\n$15\r\n100/s burst=200\r\n"
              "$6\r\nreason\r\n$5\r\nlater\r\n");
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE api user:42 201"), "reason"), "never");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE api user:42 201"), "retry_after_ms"), -1);
    kit_close(&kit);
}

/* 19 of 20 and then 50 of 1000 are left: it is the share that counts, not the number. */
TEST(of_several_pairs_the_one_with_the_least_share_left_answers)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "small", "10/s burst=20");
    kit_policy(&kit, "large", "1000/h");
    const char *both = kit_ask(&kit, "WEIR.TAKE small a AND large a");
    CHECK_STR(kit_text(both, "limit"), "small/10/s burst=20");
    CHECK_EQ(kit_field(both, "remaining"), 19);
    CHECK_TAKE(&kit, "WEIR.TAKE large a 949", 1, 50);
    both = kit_ask(&kit, "WEIR.TAKE small b AND large a");
    CHECK_STR(kit_text(both, "limit"), "large/1k/h");
    CHECK_EQ(kit_field(both, "remaining"), 49);
    CHECK_EQ(kit_field(both, "reset_after_ms"), 951 * 3600);
    kit_close(&kit);
}

TEST(time_gives_units_back)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "10/s burst=2");
    CHECK_TAKE(&kit, "WEIR.TAKE api a 2", 1, 0);
    CHECK_TAKE(&kit, "WEIR.TAKE api a", 0, 0);
    CHECK_TAKE(&kit, "WEIR.TAKE api b", 1, 1);
    kit_clock(&kit, 99);
    CHECK_TAKE(&kit, "WEIR.TAKE api a", 0, 0);
    kit_clock(&kit, 100);
    CHECK_TAKE(&kit, "WEIR.TAKE api a", 1, 0);
    kit_close(&kit);
}

TEST(peek_give_charge_and_reset)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "10/s burst=10");
    CHECK_TAKE(&kit, "WEIR.PEEK api a 10", 1, 10);
    CHECK_TAKE(&kit, "WEIR.TAKE api a 4", 1, 6);
    CHECK_STR(kit_ask(&kit, "WEIR.GIVE api a 3"), "+OK\r\n");
    CHECK_TAKE(&kit, "WEIR.PEEK api a", 1, 9);
    CHECK_STR(kit_ask(&kit, "WEIR.CHARGE api a 19"), "+OK\r\n");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK api a"), "retry_after_ms"), 1100); /* ten owed, and one */
    CHECK_STR(kit_ask(&kit, "WEIR.RESET api a"), "+OK\r\n");
    CHECK_TAKE(&kit, "WEIR.PEEK api a", 1, 10);
    CHECK_EQ(counts_of(&kit, "api").allowed, 1); /* looking and telling are no decisions */
    kit_close(&kit);
}

TEST(several_pairs_all_or_none)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "10/s burst=10");
    kit_policy(&kit, "org", "5/s burst=5 name=seats");
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE api a 2 AND org o 2"), "limit"), "org/seats");
    CHECK_TAKE(&kit, "WEIR.PEEK api a", 1, 8);
    CHECK_TAKE(&kit, "WEIR.PEEK org o", 1, 3);
    const char *answer = kit_ask(&kit, "WEIR.TAKE api a and org o 4");
    CHECK_EQ(kit_field(answer, "allowed"), 0);
    CHECK_STR(kit_text(answer, "limit"), "org/seats");
    CHECK_EQ(kit_field(answer, "retry_after_ms"), 200);
    CHECK_TAKE(&kit, "WEIR.PEEK api a", 1, 8);
    CHECK_TAKE(&kit, "WEIR.PEEK org o", 1, 3);
    CHECK_EQ(counts_of(&kit, "org").refused, 1);
    CHECK_EQ(counts_of(&kit, "api").refused, 0);
    CHECK_EQ(counts_of(&kit, "api").allowed, 1);
    CHECK_EQ(counts_of(&kit, "api").units, 2);
    CHECK_EQ(kit.worker->allowed, 1);
    CHECK_EQ(kit.worker->refused, 1);
    kit_close(&kit);
}

TEST(more_pairs_than_fit_are_an_error)
{
    struct kit kit;
    char line[512] = "WEIR.TAKE api k";
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "10/s");
    for (int i = 1; i < PAIRS_MAX; i++)
        (void)snprintf(line + strlen(line), sizeof line - strlen(line), " AND api k");
    CHECK_TAKE(&kit, line, 1, 10 - PAIRS_MAX);
    (void)snprintf(line + strlen(line), sizeof line - strlen(line), " AND api k");
    CHECK(begins(kit_ask(&kit, line), "-ERR at most 8 pairs"));
    kit_close(&kit);
}

TEST(mistakes_say_what_to_do)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "10/s");
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE ap a"),
              "-ERR no policy 'ap'; did you mean 'api'? (WEIR.POLICY LIST)\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE api a 0"),
              "-ERR n must be 1 or more; to look without taking use WEIR.PEEK\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE api a two"), "-ERR n must be a whole number, not 'two'\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.GIVE api a 0"), "-ERR n must be 1 or more\r\n");
    const char *arity = "-ERR wrong number of arguments for 'weir.take' command; write WEIR.TAKE policy key "
                        "[n] [AND policy key [n] ...] [ID request-id] [FULL]\r\n";
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE api"), arity);
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE api a AND api"), arity);
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE api a 1 and"), arity);
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE api a 1 IDX 5"),
              "-ERR syntax error near 'IDX'; write WEIR.TAKE policy key [n] [AND policy key [n] ...] [ID "
              "request-id] [FULL]\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE api a 1 ID"),
              "-ERR syntax error near 'ID'; write WEIR.TAKE policy key [n] [AND policy key [n] ...] [ID "
              "request-id] [FULL]\r\n");
    CHECK(begins(kit_ask(&kit, "WEIR.TAKE api a ID x y"), "-ERR syntax error near 'y'"));
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE api a 99999999999999999999"),
              "-ERR n is too large: 99999999999999999999; at most 1000000000000\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.CHARGE api a 1000000000001"),
              "-ERR n is too large: 1000000000001; at most 1000000000000\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE api a 2k"), "-ERR n must be a whole number, not '2k'; write 2000\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE api a 02"), "-ERR n must be a whole number, not '02'; write 2\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE api a 9000000T"), "-ERR n must be a whole number, not '9000000T'\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.ACQUIRE api a 1 TIMEOUT 5s"),
              "-ERR TIMEOUT must be a whole number of milliseconds, not '5s'; write 5000\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.ACQUIRE api a 1 TIMEOUT soon"),
              "-ERR TIMEOUT must be a whole number of milliseconds, not 'soon'\r\n");
    CHECK(begins(kit_ask(&kit, "WEIR.TAKE api a -9223372036854775808"), "-ERR n must be 1 or more"));
    CHECK_TAKE(&kit, "WEIR.TAKE api a 1000000000000", 0, 10);
    CHECK_EQ(kit.worker->errors, 18);
    CHECK_EQ(counts_of(&kit, "api").errors, 17); /* those that name it */
    kit_close(&kit);
}

TEST(keys_are_bytes_of_any_kind)
{
    struct kit kit;
    char longest[KEY_MAX + 1];
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "10/s");
    CHECK_TAKE(&kit, "WEIR.TAKE api \"\\x00\\xff\\r\\n\" 3", 1, 7);
    CHECK_TAKE(&kit, "WEIR.TAKE api \"\\x00\\xff\\r\" 3", 1, 7);
    CHECK_TAKE(&kit, "WEIR.TAKE api \"\" 3", 1, 7);
    memset(longest, 'k', sizeof longest);
    struct slice words[] = {{"WEIR.TAKE", 9}, {"api", 3}, {longest, KEY_MAX}};
    CHECK_EQ(kit_field(kit_ask_words(&kit, words, 3), "allowed"), 1);
    words[2].len++;
    CHECK_STR(kit_ask_words(&kit, words, 3), "-ERR the key has 4097 bytes; at most 4096 are possible\r\n");
    kit_close(&kit);
}

/* ---- request ids ---- */

TEST(the_same_id_gets_the_first_verdict)
{
    struct kit kit;
    char first[512];
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "10/s burst=10");
    (void)snprintf(first, sizeof first, "%s", kit_ask(&kit, "WEIR.TAKE api a 4 ID one"));
    kit_clock(&kit, 50);
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE api a 4 ID one"), first);
    CHECK_TAKE(&kit, "WEIR.PEEK api a", 1, 6);
    (void)snprintf(first, sizeof first, "%s", kit_ask(&kit, "WEIR.TAKE api a 9 ID two"));
    CHECK_EQ(kit_field(first, "allowed"), 0);
    kit_clock(&kit, 5000);
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE api a 9 ID two"), first); /* also a refusal stays */
    CHECK_TAKE(&kit, "WEIR.PEEK api a", 1, 10);
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE api a 8 ID two"),
              "-ERR the id 'two' belongs to another question; every question needs an id of its own\r\n");
    CHECK(begins(kit_ask(&kit, "WEIR.CHARGE api a 9 ID two"), "-ERR the id 'two'"));
    CHECK_EQ(counts_of(&kit, "api").units, 4);
    kit_close(&kit);
}

TEST(an_id_is_forgotten_after_its_window)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "10/s burst=10");
    CHECK_TAKE(&kit, "WEIR.TAKE api a 4 ID one", 1, 6);
    kit_clock(&kit, 299999);
    CHECK_TAKE(&kit, "WEIR.TAKE api a 4 ID one", 1, 6);
    CHECK_TAKE(&kit, "WEIR.PEEK api a", 1, 10);
    kit_clock(&kit, 300000);
    CHECK_TAKE(&kit, "WEIR.TAKE api a 4 ID one", 1, 6);
    CHECK_TAKE(&kit, "WEIR.PEEK api a", 1, 6);
    kit_close(&kit);
}

TEST(a_policy_says_how_long_its_ids_are_remembered)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "policies:\n  - {name: api, limits: [10/s burst=10], ids: 2s}\n"
                              "  - {name: day, limits: [10/20d], ids: 24h}\n")))
        return;
    CHECK_TAKE(&kit, "WEIR.TAKE api a 4 ID one", 1, 6);
    CHECK_TAKE(&kit, "WEIR.TAKE day a 4 ID one", 1, 6);
    kit_clock(&kit, 1999);
    CHECK_TAKE(&kit, "WEIR.TAKE api a 4 ID one", 1, 6);
    CHECK_TAKE(&kit, "WEIR.PEEK api a", 1, 10);
    kit_clock(&kit, 2000);
    CHECK_TAKE(&kit, "WEIR.TAKE api a 4 ID one", 1, 6);
    CHECK_TAKE(&kit, "WEIR.PEEK api a", 1, 6);
    CHECK_STR(kit_ask(&kit, "WEIR.POLICY SET api 20/s burst=20"), "+OK\r\n"); /* other limits: the ids stay */
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.POLICY SHOW api"), "id_window_ms"), 2000);
    kit_clock(&kit, 86399999);
    CHECK_TAKE(&kit, "WEIR.TAKE day a 4 ID one", 1, 6);
    CHECK_TAKE(&kit, "WEIR.PEEK day a", 1, 6);
    kit_clock(&kit, 86400000);
    CHECK_TAKE(&kit, "WEIR.TAKE day a 4 ID one", 1, 2);
    kit_close(&kit);
}

/* Whoever guesses the ids of others can neither spoil them nor learn what was answered. */
TEST(ids_of_two_users_are_apart)
{
    static const char yaml[] = "users:\n  - {name: one, password: p, may: all}\n"
                               "  - {name: two, password: p, may: all}\n"
                               "policies:\n  - {name: api, limits: [10/s burst=10]}\n"
                               "  - {name: rapi, limits: [10/s burst=10]}\n";
    struct kit kit;
    if (!CHECK(kit_open(&kit, yaml)))
        return;
    CHECK_STR(kit_ask(&kit, "AUTH one p"), "+OK\r\n");
    CHECK_TAKE(&kit, "WEIR.TAKE api a 4 ID x", 1, 6);
    CHECK_STR(kit_ask(&kit, "AUTH two p"), "+OK\r\n");
    CHECK_TAKE(&kit, "WEIR.TAKE api a 1 ID x", 1, 5); /* another question, and no error */
    CHECK_TAKE(&kit, "WEIR.TAKE api a 1 ID x", 1, 5);
    CHECK_STR(kit_ask(&kit, "AUTH one p"), "+OK\r\n");
    CHECK_TAKE(&kit, "WEIR.TAKE api a 4 ID x", 1, 6);
    CHECK_TAKE(&kit, "WEIR.PEEK api a", 1, 5);
    kit_close(&kit);
}

/* As docs/server.md has it: 580 ids a second for five minutes in 256 MiB. Here is a quarter of both. */
TEST(memory_remembers_so_many_ids_a_second)
{
    enum { IDS_A_SECOND = 580 / 4 };
    struct kit kit;
    struct records_stat stat;
    int64_t refused = 0;
    if (!CHECK(kit_open(&kit, "memory: 64MiB\npolicies:\n  - {name: api, limits: [unlimited]}\n")))
        return;
    weir_records_stat(kit.service->ledger.requests, &stat);
    CHECK_EQ(stat.capacity * 3 / 4 / 300 / 5 * 5, IDS_A_SECOND);
    for (int64_t second = 0; second < 330; second++) {
        kit_clock(&kit, second * 1000);
        for (int64_t i = 0; i < IDS_A_SECOND; i++) {
            char line[64];
            (void)snprintf(line, sizeof line, "WEIR.TAKE api a ID %d", (int)(second * IDS_A_SECOND + i));
            refused += kit_field(kit_ask(&kit, line), "allowed") != 1;
        }
    }
    CHECK_EQ(refused, 0);
    kit_close(&kit);
}

TEST(without_room_for_an_id_nothing_is_taken_or_reserved)
{
    struct kit kit;
    struct records_stat stat;
    char line[64];
    if (!CHECK(kit_open(&kit, "policies:\n  - {name: api, limits: [1000/d]}\n")))
        return;
    weir_ledger_end(&kit.service->ledger);
    CHECK(weir_ledger_init(&kit.service->ledger, 1, 1, NULL)); /* a single group of 32 of each */
    for (int i = 0; i < 32; i++) {
        (void)snprintf(line, sizeof line, "WEIR.TAKE api a ID %d", i);
        CHECK_TAKE(&kit, line, 1, 999 - i);
    }
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE api a ID x"), "reason"), "full");
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.RESERVE api a 1 ID x"), "reason"), "full");
    CHECK(begins(kit_ask(&kit, "WEIR.CHARGE api a 1 ID x"), "-UNAVAILABLE no room for another request id"));
    CHECK_TAKE(&kit, "WEIR.TAKE api a ID 31", 1, 968); /* those that are there are remembered */
    weir_records_stat(kit.service->ledger.reservations, &stat);
    CHECK_EQ(stat.used, 0);
    CHECK_TAKE(&kit, "WEIR.PEEK api a", 1, 968);
    CHECK_TAKE(&kit, "WEIR.RESERVE api a 1", 1, 967); /* ids take no room from reservations */
    kit_clock(&kit, 300000);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE api a ID x"), "allowed"), 1);
    kit_close(&kit);
}

TEST(ids_of_two_policies_are_apart)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "10/s burst=10");
    kit_policy(&kit, "org", "20/s burst=20 name=seats");
    CHECK_TAKE(&kit, "WEIR.TAKE api a 4 ID one", 1, 6);
    CHECK_TAKE(&kit, "WEIR.TAKE org a 4 ID one", 1, 16);
    CHECK_TAKE(&kit, "WEIR.TAKE org a 30 AND api a ID both", 0, 16);
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE org a 30 AND api a ID both"), "limit"), "org/seats");
    kit_close(&kit);
}

TEST(give_and_charge_once)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "10/s burst=10");
    for (int i = 0; i < 3; i++)
        CHECK_STR(kit_ask(&kit, "WEIR.CHARGE api a 6 ID c"), "+OK\r\n");
    CHECK_TAKE(&kit, "WEIR.PEEK api a", 1, 4);
    for (int i = 0; i < 3; i++)
        CHECK_STR(kit_ask(&kit, "WEIR.GIVE api a 2 ID g"), "+OK\r\n");
    CHECK_TAKE(&kit, "WEIR.PEEK api a", 1, 6);
    kit_close(&kit);
}

/* ---- modes ---- */

TEST(shadow_refuses_nobody_and_counts)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "policies:\n  - {name: login, limits: [2/m], mode: shadow}\n")))
        return;
    CHECK_TAKE(&kit, "WEIR.TAKE login a 2", 1, 0);
    const char *answer = kit_ask(&kit, "WEIR.TAKE login a");
    CHECK_EQ(kit_field(answer, "allowed"), 1);
    CHECK_EQ(kit_field(answer, "retry_after_ms"), 0);
    CHECK_STR(kit_text(answer, "reason"), "shadow");
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.PEEK login a"), "reason"), "shadow");
    struct seen counts = counts_of(&kit, "login");
    CHECK_EQ(counts.allowed, 2);
    CHECK_EQ(counts.shadow_refused, 1);
    CHECK_EQ(counts.refused, 0);
    kit_clock(&kit, 30000);
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE login a"), "reason"), "ok"); /* paper charges nothing */
    kit_close(&kit);
}

TEST(shadow_beside_an_enforced_one)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "policies:\n  - {name: login, limits: [2/m], mode: shadow}\n"
                              "  - {name: api, limits: [5/m]}\n")))
        return;
    CHECK_TAKE(&kit, "WEIR.TAKE login a 2", 1, 0);
    const char *answer = kit_ask(&kit, "WEIR.TAKE api a 3 AND login a");
    CHECK_EQ(kit_field(answer, "allowed"), 1);
    CHECK_STR(kit_text(answer, "reason"), "shadow");
    CHECK_STR(kit_text(answer, "limit"), "login/2/m");
    CHECK_TAKE(&kit, "WEIR.PEEK api a", 1, 2); /* the enforced one was charged */
    answer = kit_ask(&kit, "WEIR.TAKE login a AND api a 3");
    CHECK_EQ(kit_field(answer, "allowed"), 0);
    CHECK_STR(kit_text(answer, "limit"), "api/5/m");
    CHECK_EQ(counts_of(&kit, "login").shadow_refused, 1);
    CHECK_EQ(counts_of(&kit, "api").refused, 1);
    kit_close(&kit);
}

TEST(units_are_counted_up_to_the_largest_number)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "unlimited");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE api a 1000000000000"), "allowed"), 1);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.POLICY SHOW api"), "units"), UNITS_MAX);
    struct policy *policy =
        weir_snapshot_policy(atomic_load(&kit.service->snapshot), (struct slice){"api", 3});
    atomic_store(&policy->counters->counts[0].units, INT64_MAX - 1);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE api a 1000000000000"), "allowed"), 1);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.POLICY SHOW api"), "units"), INT64_MAX);
    kit_close(&kit);
}

TEST(disabled_passes_and_charges_nothing)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "policies:\n  - {name: api, limits: [2/m], mode: disabled}\n"
                              "  - {name: org, limits: [5/m]}\n")))
        return;
    CHECK_TAKE(&kit, "WEIR.TAKE api a 1000", 1, INT64_MAX);
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE api a"), "limit"), "unlimited");
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.PEEK api a"), "reason"), "disabled");
    CHECK_TAKE(&kit, "WEIR.TAKE api a 7 AND org o 2", 1, 3);
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.PEEK org o"), "reason"), "ok");
    CHECK_TAKE(&kit, "WEIR.PEEK org o", 1, 3);
    CHECK_STR(kit_ask(&kit, "WEIR.POLICY MODE api enforce"), "+OK\r\n");
    CHECK_TAKE(&kit, "WEIR.PEEK api a", 1, 2);
    CHECK_EQ(counts_of(&kit, "api").allowed, 3);
    kit_close(&kit);
}

TEST(while_disabled_what_has_happened_still_counts)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "policies:\n  - {name: api, limits: [10/h]}\n")))
        return;
    CHECK_TAKE(&kit, "WEIR.TAKE api a 2", 1, 8);
    CHECK_STR(kit_ask(&kit, "WEIR.POLICY MODE * disabled"), "+OK\r\n");
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE api a 5 ID x"), "reason"), "disabled");
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE api a 5 ID x"), "reason"), "disabled"); /* from the ledger */
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.ACQUIRE api a 50"), "reason"), "disabled");
    CHECK_STR(kit_ask(&kit, "WEIR.CHARGE api a 4"), "+OK\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.GIVE api a 1"), "+OK\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.POLICY MODE * enforce"), "+OK\r\n");
    CHECK_TAKE(&kit, "WEIR.PEEK api a", 1, 5);
    kit_close(&kit);
}

TEST(mode_for_all_stands_above_until_its_end)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "policies:\n  - {name: api, limits: [2/h]}\n")))
        return;
    CHECK_TAKE(&kit, "WEIR.TAKE api a 2", 1, 0);
    CHECK_STR(kit_ask(&kit, "WEIR.POLICY MODE * disabled FOR 30m"), "+OK\r\n");
    CHECK_TAKE(&kit, "WEIR.TAKE api a", 1, INT64_MAX);
    kit_clock(&kit, 30 * 60 * 1000 - 1);
    CHECK_TAKE(&kit, "WEIR.TAKE api a", 1, INT64_MAX);
    kit_clock(&kit, 30 * 60 * 1000);
    CHECK_TAKE(&kit, "WEIR.TAKE api a 2", 0, 1); /* without a tick, too */
    kit_close(&kit);
}

TEST(a_share_of_the_keys_is_enforced_and_stays_the_same)
{
    struct kit kit;
    char line[64];
    int at_five = 0, at_quarter = 0, lost = 0, elsewhere = 0;
    if (!CHECK(kit_open(&kit, "policies:\n  - {name: five, limits: [1/h], mode: enforce 5%}\n")))
        return;
    struct snapshot *snapshot = atomic_load(&kit.service->snapshot);
    struct policy *policy = snapshot->policies[0];
    weir_read_begin(kit.worker);
    for (int i = 0; i < 2000; i++) {
        (void)snprintf(line, sizeof line, "user:%d", i);
        struct slice key = {line, strlen(line)};
        policy->percent = 5;
        bool five = weir_policy_mode(kit.worker, policy, key) == MODE_ENFORCE;
        policy->percent = 25;
        bool quarter = weir_policy_mode(kit.worker, policy, key) == MODE_ENFORCE;
        at_five += five;
        at_quarter += quarter;
        lost += five && !quarter;
        memcpy(policy->name, "four", 5);
        elsewhere += quarter && weir_policy_mode(kit.worker, policy, key) == MODE_ENFORCE;
        memcpy(policy->name, "five", 5);
    }
    weir_read_end(kit.worker);
    CHECK(at_five > 60 && at_five < 140);
    CHECK(at_quarter > 420 && at_quarter < 580);
    CHECK_EQ(lost, 0);
    CHECK(elsewhere > 80 && elsewhere < 170); /* a quarter of the quarter: other keys in another policy */
    kit_close(&kit);
}

TEST(a_candidate_only_counts)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "policies:\n  - {name: s, limits: [5/m], candidate: [3/m]}\n")))
        return;
    for (int i = 0; i < 5; i++)
        CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE s a"), "allowed"), 1);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE s a"), "allowed"), 0);
    CHECK_EQ(counts_of(&kit, "s").candidate_refused, 3);
    CHECK_EQ(counts_of(&kit, "s").refused, 1);
    CHECK_STR(kit_ask(&kit, "WEIR.OVERRIDE SET s own 1/m"), "+OK\r\n");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE s own"), "allowed"), 1);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE s own"), "allowed"), 0); /* it stands in for the 5/m */
    CHECK_EQ(counts_of(&kit, "s").candidate_refused, 3);
    kit_close(&kit);
}

/* ---- overrides ---- */

TEST(exact_key_first_then_the_longest_prefix)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "policies:\n"
                              "  - name: api\n"
                              "    limits: [10/m]\n"
                              "    overrides:\n"
                              "      - {key: \"int:*\", limits: [20/m name=int]}\n"
                              "      - {key: \"int:db:*\", limits: [30/m name=db]}\n"
                              "      - {key: \"int:db:1\", limits: [40/m name=own]}\n")))
        return;
    const char *answer = kit_ask(&kit, "WEIR.TAKE api int:db:1");
    CHECK_EQ(kit_field(answer, "remaining"), 39);
    CHECK_STR(kit_text(answer, "limit"), "own");
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE api int:db:2"), "limit"), "db");
    CHECK_TAKE(&kit, "WEIR.TAKE api int:x", 1, 19);
    CHECK_TAKE(&kit, "WEIR.TAKE api int", 1, 9);
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE api other"), "limit"), "10/m");
    answer = kit_ask(&kit, "WEIR.TAKE api int:db:1 41 AND api other");
    CHECK_STR(kit_text(answer, "limit"), "api/own");
    kit_close(&kit);
}

/* ---- another kind of limits ---- */

TEST(after_a_change_of_kind_both_must_agree)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "10/m");
    CHECK_TAKE(&kit, "WEIR.TAKE api a 8", 1, 2);
    kit_policy(&kit, "api", "100/m algo=sliding-log");
    CHECK_TAKE(&kit, "WEIR.PEEK api a", 1, 2);
    CHECK_TAKE(&kit, "WEIR.TAKE api a 3", 0, 2);
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE api a 3"), "limit"), "10/m");
    CHECK_TAKE(&kit, "WEIR.TAKE api a 2", 1, 0);
    kit_clock(&kit, 10 * 60 * 1000);
    CHECK_TAKE(&kit, "WEIR.TAKE api a 50", 1, 50);
    kit_close(&kit);
}

/* ---- acquire ---- */

TEST(acquire_answers_when_due)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "10/s burst=1");
    const char *answer = kit_ask(&kit, "WEIR.ACQUIRE api a");
    CHECK_EQ(kit_field(answer, "allowed"), 1);
    CHECK_EQ(kit_field(answer, "waited_ms"), 0);
    CHECK_STR(kit_ask(&kit, "WEIR.ACQUIRE api a"), "");
    CHECK_EQ(kit.state, RUN_PENDING);
    CHECK_EQ(kit.session.pending->due_ns, 100 * WEIR_MS);
    CHECK_EQ(kit.worker->waiting, 1);
    kit_clock(&kit, 99);
    CHECK_STR(kit_resume(&kit), "");
    kit_clock(&kit, 100);
    answer = kit_resume(&kit);
    CHECK(begins(answer, "*14\r\n"));
    CHECK_EQ(kit_field(answer, "waited_ms"), 100);
    CHECK_STR(kit_text(answer, "limit"), "10/s burst=1");
    CHECK_EQ(kit.worker->waiting, 0);
    CHECK(!kit.session.pending);
    kit_close(&kit);
}

TEST(acquire_says_no_at_once_if_it_takes_too_long)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "10/s burst=1");
    kit_policy(&kit, "slow", "10/s burst=1 timeout=50ms");
    CHECK_TAKE(&kit, "WEIR.TAKE api a", 1, 0);
    CHECK_TAKE(&kit, "WEIR.TAKE slow a", 1, 0);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.ACQUIRE api a 1 TIMEOUT 99"), "allowed"), 0);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.ACQUIRE slow a"), "allowed"), 0);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.ACQUIRE api a TIMEOUT 0"), "allowed"), 0);
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.ACQUIRE api a 2"), "reason"), "never");
    CHECK(begins(kit_ask(&kit, "WEIR.ACQUIRE api a TIMEOUT -1"), "-ERR TIMEOUT must be 0 or more"));
    CHECK(begins(kit_ask(&kit, "WEIR.ACQUIRE api a TIMEOUT"), "-ERR syntax error near 'TIMEOUT'"));
    CHECK_STR(kit_ask(&kit, "WEIR.ACQUIRE slow a TIMEOUT 100"), "");
    CHECK_EQ(kit.state, RUN_PENDING);
    kit_close(&kit);
}

TEST(a_client_that_leaves_hands_its_place_back)
{
    struct kit kit, other;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "10/s burst=1");
    kit_join(&other, &kit, 0);
    CHECK_TAKE(&kit, "WEIR.TAKE api a", 1, 0);
    CHECK_STR(kit_ask(&other, "WEIR.ACQUIRE api a"), "");
    CHECK_EQ(other.session.pending->due_ns, 100 * WEIR_MS);
    kit_leave(&other);
    CHECK_EQ(kit.worker->waiting, 0);
    CHECK_STR(kit_ask(&kit, "WEIR.ACQUIRE api a"), "");
    CHECK_EQ(kit.session.pending->due_ns, 100 * WEIR_MS); /* not behind the one who left */
    kit_close(&kit);
}

TEST(who_waits_outlives_the_policy)
{
    struct kit kit, other;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "10/s burst=1 name=one");
    kit_join(&other, &kit, 0);
    CHECK_TAKE(&kit, "WEIR.TAKE api a", 1, 0);
    CHECK_STR(kit_ask(&other, "WEIR.ACQUIRE api a"), "");
    CHECK_STR(kit_ask(&kit, "WEIR.POLICY DEL api"), "+OK\r\n");
    kit_tick(&kit);
    kit_clock(&kit, 100);
    const char *answer = kit_resume(&other);
    CHECK_EQ(kit_field(answer, "allowed"), 1);
    CHECK_STR(kit_text(answer, "limit"), "one");
    kit_leave(&other);
    kit_close(&kit);
}

/* Who waited for the previous limits alone would go at a time at which the new ones have not counted him. */
TEST(nobody_waits_for_the_older_limits_alone)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "10/m algo=sliding-log");
    CHECK_TAKE(&kit, "WEIR.TAKE api a 10", 1, 0);
    kit_policy(&kit, "api", "10/s");
    const char *answer = kit_ask(&kit, "WEIR.ACQUIRE api a 7");
    CHECK_EQ(kit_field(answer, "allowed"), 0);
    CHECK_EQ(kit_field(answer, "retry_after_ms"), 60000);
    CHECK_STR(kit_text(answer, "limit"), "10/m algo=sliding-log");
    answer = kit_ask(&kit, "WEIR.RESERVE api a 7 TIMEOUT 60000");
    CHECK_EQ(kit_field(answer, "allowed"), 0);
    kit_clock(&kit, 60000);
    CHECK_TAKE(&kit, "WEIR.TAKE api a 10", 1, 0); /* all that the burst allows, and no promise beside it */
    kit_close(&kit);
}

TEST(what_the_older_limits_refuse_is_not_charged_to_the_others)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "5/s algo=sliding-log");
    CHECK_TAKE(&kit, "WEIR.TAKE api a 5", 1, 0);
    kit_policy(&kit, "api", "10/h");
    for (int i = 0; i < 3; i++)
        CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.ACQUIRE api a 3 TIMEOUT 0"), "allowed"), 0);
    kit_clock(&kit, 1000);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE api a 5"), "allowed"), 1);
    kit_close(&kit);
}

TEST(acquire_waits_if_the_older_limits_agree_by_then)
{
    struct kit kit, other;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "10/s algo=sliding-log");
    CHECK_TAKE(&kit, "WEIR.TAKE api a 8", 1, 2);
    kit_policy(&kit, "api", "10/m burst=1");
    CHECK_TAKE(&kit, "WEIR.TAKE api a", 1, 0);
    kit_join(&other, &kit, 0);
    CHECK_STR(kit_ask(&other, "WEIR.ACQUIRE api a"), "");
    CHECK_EQ(other.session.pending->due_ns, 6000 * WEIR_MS);
    kit_clock(&kit, 50);
    kit_leave(&other);
    CHECK_STR(kit_ask(&kit, "WEIR.ACQUIRE api a"), "");
    CHECK_EQ(kit.session.pending->due_ns, 6000 * WEIR_MS); /* not behind the one who left */
    kit_close(&kit);
}

TEST(waiting_stops_a_batch)
{
    struct kit kit;
    const char *lines[] = {"WEIR.TAKE api a", "WEIR.ACQUIRE api a", "WEIR.TAKE api b"};
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_policy(&kit, "api", "10/s burst=1");
    CHECK_EQ(kit_field(kit_ask_lines(&kit, lines, 3), "allowed"), 1);
    CHECK_EQ(kit.state, RUN_PENDING);
    CHECK_EQ(kit.session.commands, 2);
    kit_close(&kit);
}

TEST(a_refusal_is_remembered_for_seconds_only)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "policies:\n  - {name: slow, limits: 1/10s, ids: 5m}\n")))
        return;
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE slow a 1 ID yes"), "allowed"), 1);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE slow a 1 ID no"), "allowed"), 0);
    kit_clock(&kit, 4999);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE slow a 1 ID no"), "retry_after_ms"), 10000); /* as at first */
    kit_clock(&kit, 5000);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE slow a 1 ID no"), "retry_after_ms"), 5000);
    kit_clock(&kit, 11000);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE slow a 1 ID no"), "allowed"), 1);  /* decided anew */
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE slow a 1 ID yes"), "allowed"), 1); /* and this one is not */
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK slow a"), "allowed"), 0);
    kit_close(&kit);
}
