/* SPDX-License-Identifier: MIT */
/*
 * WEIR.RESERVE, WEIR.COMMIT, WEIR.CANCEL: what they answer, what they charge and give back, and what they
 * refuse. The clock stands unless a test moves it.
 */
#include "unit/service/reserve_kit.h"

/* ---- reserve, commit, cancel ---- */

TEST(commit_of_less_gives_the_rest_back)
{
    begin();
    say("WEIR.RESERVE tokens k 400");
    CHECK_EQ(number("allowed"), 1);
    CHECK_EQ(number("remaining"), 600);
    CHECK_EQ(number("retry_after_ms"), 0);
    CHECK_STR(text("reason"), "ok");
    CHECK_STR(text("limit"), "1k/h");
    CHECK_EQ(number("due_in_ms"), 0);
    const char *id = keep_id();
    CHECK_EQ(remaining("tokens", "k"), 600);
    say("WEIR.COMMIT %s 312", id);
    CHECK_EQ(number("charged"), 312);
    CHECK_EQ(number("given_back"), 88);
    CHECK_EQ(number("remaining"), 688);
    CHECK_EQ(fields(), 3);
    CHECK_EQ(remaining("tokens", "k"), 688);
    end();
}

TEST(commit_without_a_number_is_all_of_it_and_0_is_nothing)
{
    begin();
    say("WEIR.RESERVE tokens k 400");
    say("WEIR.COMMIT %s", keep_id());
    CHECK_EQ(number("charged"), 400);
    CHECK_EQ(number("given_back"), 0);
    CHECK_EQ(number("remaining"), 600);
    say("WEIR.RESERVE tokens k 400");
    say("WEIR.COMMIT %s 0", keep_id());
    CHECK_EQ(number("charged"), 0);
    CHECK_EQ(number("given_back"), 400);
    CHECK_EQ(number("remaining"), 600);
    end();
}

TEST(commit_of_more_becomes_a_debt)
{
    begin();
    say("WEIR.RESERVE tokens k 900");
    say("WEIR.COMMIT %s 1500", keep_id());
    CHECK_EQ(number("charged"), 1500);
    CHECK_EQ(number("given_back"), 0);
    CHECK_EQ(number("remaining"), 0);
    say("WEIR.PEEK tokens k");
    CHECK_EQ(number("allowed"), 0);
    CHECK_EQ(number("retry_after_ms"), 501 * 3600);
    end();
}

TEST(a_strict_policy_refuses_more_and_the_reservation_stays)
{
    begin();
    say("WEIR.RESERVE strict k 30");
    const char *id = keep_id();
    say("WEIR.COMMIT %s 31", id);
    CHECK_STR(error(), "ERR 31 is more than the 30 reserved, and policy 'strict' refuses overruns (reserve: "
                       "{overrun: debt} charges them)");
    CHECK_EQ(remaining("strict", "k"), 70);
    say("WEIR.COMMIT %s 30", id);
    CHECK_EQ(number("charged"), 30);
    end();
}

TEST(of_several_pairs_one_that_is_too_much_stops_all_of_them)
{
    begin();
    say("WEIR.RESERVE tokens k 100 AND strict k 30");
    const char *id = keep_id();
    say("WEIR.COMMIT %s 50 31", id);
    CHECK(strstr(error(), "ERR 31 is more than the 30 reserved, and policy 'strict'") != NULL);
    CHECK_EQ(remaining("tokens", "k"), 900);
    say("WEIR.COMMIT %s 150 20", id);
    CHECK_EQ(number("charged"), 170);
    CHECK_EQ(number("given_back"), 10);
    CHECK_EQ(number("remaining"), 850);
    CHECK_EQ(remaining("strict", "k"), 80);
    end();
}

TEST(cancel_gives_everything_back)
{
    begin();
    say("WEIR.RESERVE tokens k 400 AND strict k 7");
    say("WEIR.CANCEL %s", keep_id());
    CHECK_EQ(fields(), 2);
    CHECK_EQ(number("given_back"), 407);
    CHECK_EQ(number("remaining"), 1000);
    CHECK_EQ(remaining("tokens", "k"), 1000);
    CHECK_EQ(remaining("strict", "k"), 100);
    end();
}

TEST(several_pairs_are_reserved_all_or_none)
{
    begin();
    say("WEIR.RESERVE tokens k 400 AND strict k 101");
    CHECK_EQ(number("allowed"), 0);
    CHECK_STR(text("reason"), "never");
    CHECK_STR(text("limit"), "strict/100/h");
    CHECK(is_null("id"));
    CHECK_EQ(number("due_in_ms"), 0);
    CHECK_EQ(remaining("tokens", "k"), 1000);
    say("WEIR.RESERVE tokens k 400 AND tokens k 500 AND tokens j 1000");
    const char *id = keep_id();
    CHECK_EQ(remaining("tokens", "k"), 100);
    say("WEIR.COMMIT %s 1 2", id);
    CHECK_STR(error(), "ERR this reservation has 3 pairs and there are 2 numbers; give one for each, or none "
                       "to commit all of it");
    say("WEIR.COMMIT %s 1 2 3", id);
    CHECK_EQ(number("charged"), 6);
    CHECK_EQ(number("given_back"), 1894);
    CHECK_EQ(number("remaining"), 997);
    CHECK_EQ(remaining("tokens", "j"), 997);
    end();
}

/* ---- settled once ---- */

TEST(the_same_again_gets_the_same_answer_and_changes_nothing)
{
    begin();
    say("WEIR.RESERVE tokens k 400");
    const char *id = keep_id();
    say("WEIR.COMMIT %s 100", id);
    CHECK_EQ(number("remaining"), 900);
    say("WEIR.TAKE tokens k 50");
    say("WEIR.COMMIT %s 100", id);
    CHECK_EQ(number("charged"), 100);
    CHECK_EQ(number("given_back"), 300);
    CHECK_EQ(number("remaining"), 900);
    CHECK_EQ(remaining("tokens", "k"), 850);
    say("WEIR.COMMIT %s 101", id);
    CHECK(is_settled(id));
    say("WEIR.COMMIT %s", id);
    CHECK(is_settled(id));
    say("WEIR.CANCEL %s", id);
    CHECK(is_settled(id));
    CHECK_EQ(remaining("tokens", "k"), 850);
    end();
}

TEST(all_of_it_is_the_same_with_and_without_its_number)
{
    begin();
    say("WEIR.RESERVE tokens k 400");
    const char *id = keep_id();
    say("WEIR.COMMIT %s", id);
    say("WEIR.COMMIT %s 400", id);
    CHECK_EQ(number("charged"), 400);
    say("WEIR.COMMIT %s 400 1", id);
    CHECK(is_settled(id));
    end();
}

TEST(a_cancelled_one_can_be_cancelled_again_but_not_committed)
{
    begin();
    say("WEIR.RESERVE tokens k 400");
    const char *id = keep_id();
    say("WEIR.CANCEL %s", id);
    say("WEIR.CANCEL %s", id);
    CHECK_EQ(number("given_back"), 400);
    CHECK_EQ(remaining("tokens", "k"), 1000);
    say("WEIR.COMMIT %s 0", id);
    CHECK(is_settled(id));
    end();
}

TEST(texts_that_are_no_reservation_are_errors)
{
    begin();
    say("WEIR.COMMIT req-1");
    CHECK_STR(error(),
              "ERR no reservation 'req-1': it is named by the id that WEIR.RESERVE answered, such as "
              "5f3a-1 (not by the ID of the request)");
    say("WEIR.CANCEL \"\"");
    CHECK(error() && strstr(error(), "ERR no reservation '': it is named by the id") == error());
    say("WEIR.RESERVE tokens k 1");
    char next[LEDGER_TEXT_MAX];
    weir_ledger_text(kit.service->ledger.number + 1000, next);
    say("WEIR.COMMIT %s", next);
    CHECK(error() && strstr(error(), "': it was never made"));
    end();
}

/* ---- time ---- */

TEST(at_the_end_of_its_ttl_units_stay_spent)
{
    begin();
    say("WEIR.RESERVE strict k 30 TTL 1000");
    const char *id = keep_id();
    move_clock(999);
    say("WEIR.CANCEL %s", id);
    CHECK_EQ(number("given_back"), 30);
    say("WEIR.RESERVE strict k 30 TTL 1000");
    id = keep_id();
    move_clock(1000);
    say("WEIR.CANCEL %s", id);
    CHECK(is_over(id));
    CHECK_EQ(remaining("strict", "k"), 70);
    move_clock(299999); /* until ids: of its policy are over, too */
    say("WEIR.CANCEL %s", id);
    CHECK(is_over(id));
    move_clock(1);
    say("WEIR.CANCEL %s", id);
    CHECK(is_gone(id));
    end();
}

TEST(without_a_ttl_that_of_the_first_policy_counts)
{
    begin();
    say("WEIR.RESERVE strict k 30 AND tokens k 1"); /* strict: 2 s */
    const char *id = keep_id();
    move_clock(1999);
    say("WEIR.COMMIT %s 31 0", id);
    CHECK(strstr(error(), "31 is more than the 30 reserved") != NULL); /* it is there */
    move_clock(1);
    say("WEIR.CANCEL %s", id);
    CHECK(is_over(id));
    say("WEIR.RESERVE tokens k 1");
    id = keep_id();
    move_clock(59999);
    say("WEIR.CANCEL %s", id);
    CHECK_EQ(number("given_back"), 1);
    end();
}

/* ---- promises ---- */

TEST(units_that_are_due_later_are_promised_within_the_timeout)
{
    begin();
    say("WEIR.TAKE paced k 10");
    say("WEIR.RESERVE paced k 5 TIMEOUT 499");
    CHECK_EQ(number("allowed"), 0);
    CHECK_STR(text("reason"), "later");
    say("WEIR.RESERVE paced k 5");
    CHECK_EQ(number("allowed"), 0);
    say("WEIR.RESERVE paced k 5 TIMEOUT 500 TTL 1000");
    CHECK_EQ(number("allowed"), 1);
    CHECK_EQ(number("due_in_ms"), 500);
    const char *id = keep_id();
    move_clock(1499); /* the TTL begins when it is due */
    say("WEIR.COMMIT %s 2", id);
    CHECK_EQ(number("charged"), 2);
    CHECK_EQ(number("given_back"), 3);
    end();
}

TEST(a_promise_is_cancelled_as_if_it_had_never_been)
{
    begin();
    say("WEIR.TAKE paced k 10");
    say("WEIR.RESERVE paced k 5 TIMEOUT 1000");
    say("WEIR.CANCEL %s", keep_id());
    CHECK_EQ(number("given_back"), 5);
    say("WEIR.RESERVE paced k 5 TIMEOUT 1000");
    CHECK_EQ(number("due_in_ms"), 500);
    end();
}

TEST(a_promise_is_not_made_smaller_before_it_is_due)
{
    begin();
    say("WEIR.TAKE paced k 10");
    say("WEIR.RESERVE paced k 5 TIMEOUT 1000");
    say("WEIR.COMMIT %s 1", keep_id());
    CHECK_EQ(number("charged"), 5);
    CHECK_EQ(number("given_back"), 0);
    say("WEIR.RESERVE paced k 5 TIMEOUT 2000");
    CHECK_EQ(number("due_in_ms"), 1000);
    end();
}

TEST(a_promise_that_was_reset_gives_nothing_back)
{
    begin();
    say("WEIR.TAKE paced k 10");
    say("WEIR.RESERVE paced k 5 TIMEOUT 1000");
    const char *id = keep_id();
    say("WEIR.RESET paced k");
    say("WEIR.CANCEL %s", id);
    CHECK_EQ(number("given_back"), 0);
    end();
}

TEST(the_timeout_of_the_limit_counts_if_none_is_said)
{
    begin();
    say("WEIR.TAKE patient k 10");
    say("WEIR.RESERVE patient k 5");
    CHECK_EQ(number("due_in_ms"), 500);
    say("WEIR.RESERVE patient k 5 TIMEOUT 0");
    CHECK_EQ(number("allowed"), 0);
    end();
}

/* ---- request ids ---- */

TEST(the_same_id_gets_the_same_reservation)
{
    begin();
    say("WEIR.RESERVE tokens k 400 ID a");
    const char *id = keep_id();
    say("WEIR.RESERVE tokens k 400 ID a");
    CHECK_EQ(number("allowed"), 1);
    CHECK_EQ(number("remaining"), 600);
    CHECK_STR(keep_id(), id);
    CHECK_EQ(remaining("tokens", "k"), 600);
    say("WEIR.RESERVE tokens k 401 ID a");
    CHECK(error() != NULL);
    say("WEIR.RESERVE tokens k 400 TTL 1 ID a");
    CHECK(error() != NULL);
    say("WEIR.RESERVE tokens j 400 ID a");
    CHECK(error() != NULL);
    say("WEIR.RESERVE tokens k 400 ID b");
    CHECK(strcmp(keep_id(), id) != 0);
    CHECK_EQ(remaining("tokens", "k"), 200);
    end();
}

TEST(another_ttl_of_the_policy_is_no_other_question)
{
    begin();
    say("WEIR.RESERVE tokens k 400 ID a");
    const char *id = keep_id();
    weir_snapshot_policy(kit.service->snapshot, (struct slice){"tokens", 6})->settings.ttl_ms =
        5000; /* a reload */
    say("WEIR.RESERVE tokens k 400 ID a");
    CHECK_STR(keep_id(), id);
    end();
}

TEST(a_refusal_under_an_id_stays_one)
{
    begin();
    say("WEIR.RESERVE paced k 11 ID a");
    CHECK_STR(text("reason"), "never");
    say("WEIR.TAKE paced k 10");
    say("WEIR.RESERVE paced k 1 ID b");
    CHECK_EQ(number("allowed"), 0);
    CHECK(is_null("id"));
    move_clock(4999);
    say("WEIR.RESERVE paced k 1 ID b");
    CHECK_EQ(number("allowed"), 0);
    CHECK_EQ(number("retry_after_ms"), 100);
    CHECK(is_null("id"));
    CHECK_EQ(remaining("paced", "k"), 10);
    end();
}

TEST(an_id_is_remembered_as_long_as_what_it_reserved)
{
    begin();
    say("WEIR.RESERVE paced k 1 TTL 600000 ID a"); /* other ids are remembered for five minutes */
    const char *id = keep_id();
    move_clock(599999);
    say("WEIR.RESERVE paced k 1 TTL 600000 ID a");
    CHECK_STR(keep_id(), id);
    move_clock(1);
    say("WEIR.RESERVE paced k 1 TTL 600000 ID a");
    CHECK(strcmp(keep_id(), id) != 0);
    end();
}

/* ---- room ---- */

TEST(without_room_in_the_ledger_nothing_is_charged)
{
    struct records_stat requests;
    begin();
    shrink_ledger();
    for (int i = 0; i < 32; i++) {
        say("WEIR.RESERVE tokens k 1");
        CHECK_EQ(number("allowed"), 1);
    }
    say("WEIR.RESERVE tokens k 1");
    CHECK_EQ(number("allowed"), 0);
    CHECK_STR(text("reason"), "full");
    CHECK(is_null("id"));
    say("WEIR.RESERVE tokens k 1 ID a");
    CHECK_STR(text("reason"), "full");
    CHECK_EQ(remaining("tokens", "k"), 968);
    weir_records_stat(kit.service->ledger.requests, &requests);
    CHECK_EQ(requests.used, 0); /* what was not decided is not remembered */
    move_clock(60000);
    say("WEIR.RESERVE tokens k 1 ID a");
    CHECK_EQ(number("allowed"), 1);
    end();
}

TEST(settled_ones_make_room_for_others)
{
    begin();
    shrink_ledger();
    say("WEIR.RESERVE tokens k 1");
    char open[LEDGER_TEXT_MAX];
    (void)snprintf(open, sizeof open, "%.39s", text("id"));
    for (int i = 0; i < 500; i++) {
        say("WEIR.RESERVE tokens k 10");
        CHECK_EQ(number("allowed"), 1);
        say("WEIR.COMMIT %s 1", keep_id());
        CHECK_EQ(number("given_back"), 9);
    }
    say("WEIR.CANCEL %s", open);
    CHECK_EQ(number("given_back"), 1);
    CHECK_EQ(remaining("tokens", "k"), 500);
    end();
}

/* ---- modes ---- */

TEST(in_shadow_a_refused_reservation_is_allowed_and_has_nothing_to_give)
{
    begin();
    say("WEIR.RESERVE shadow k 60");
    const char *real = keep_id();
    CHECK_STR(text("reason"), "ok");
    say("WEIR.RESERVE shadow k 60");
    CHECK_EQ(number("allowed"), 1);
    CHECK_STR(text("reason"), "shadow");
    const char *paper = keep_id();
    say("WEIR.COMMIT %s 100", paper);
    CHECK_EQ(number("charged"), 0);
    CHECK_EQ(number("given_back"), 0);
    CHECK_EQ(number("remaining"), 40);
    say("WEIR.RESERVE shadow k 60");
    say("WEIR.CANCEL %s", keep_id());
    CHECK_EQ(number("given_back"), 0);
    say("WEIR.CANCEL %s", real);
    CHECK_EQ(number("given_back"), 60);
    end();
}

TEST(a_pair_in_shadow_that_is_refused_leaves_the_others_charged)
{
    begin();
    say("WEIR.RESERVE tokens k 100 AND shadow k 1000");
    CHECK_EQ(number("allowed"), 1);
    CHECK_STR(text("reason"), "shadow");
    const char *id = keep_id();
    CHECK_EQ(remaining("tokens", "k"), 900);
    say("WEIR.COMMIT %s 60 3", id);
    CHECK_EQ(number("charged"), 60);
    CHECK_EQ(number("given_back"), 40);
    CHECK_EQ(remaining("shadow", "k"), 100);
    end();
}

TEST(a_disabled_policy_charges_nothing_and_gives_nothing_back)
{
    begin();
    say("WEIR.RESERVE disabled k 1000000");
    CHECK_EQ(number("allowed"), 1);
    say("WEIR.COMMIT %s 5", keep_id());
    CHECK_EQ(number("charged"), 0);
    CHECK_EQ(number("given_back"), 0);
    end();
}

TEST(keys_under_a_prefix_get_back_what_they_took_there)
{
    begin();
    say("WEIR.RESERVE tokens big:1 4000");
    CHECK_EQ(number("allowed"), 1);
    CHECK_EQ(number("remaining"), 1000);
    say("WEIR.COMMIT %s 3000", keep_id());
    CHECK_EQ(number("given_back"), 1000);
    CHECK_EQ(number("remaining"), 2000);
    CHECK_EQ(remaining("tokens", "big:1"), 2000);
    end();
}

/* As the table has it. */
static int64_t used_in(const struct policy_table *ptable, const char *key)
{
    struct weir_limit_state limits[WEIR_LIMITS_MAX];
    size_t count =
        weir_table_explain_at(ptable->table, clock_ms * WEIR_MS, key, strlen(key), limits, WEIR_LIMITS_MAX);
    return count > 0 ? limits[0].used : -1;
}

static const struct policy *policy_of(const char *name)
{
    return weir_snapshot_policy(atomic_load(&kit.service->snapshot), (struct slice){name, strlen(name)});
}

TEST(a_candidate_counts_what_was_used_in_the_end)
{
    begin();
    const struct policy_table *candidate_table = policy_of("tried")->candidate_table;
    say("WEIR.RESERVE tried k 50");
    CHECK_EQ(used_in(candidate_table, "k"), 50);
    say("WEIR.COMMIT %s 20", keep_id());
    CHECK_EQ(used_in(candidate_table, "k"), 20);
    say("WEIR.RESERVE tokens j 1 AND tried k 10");
    say("WEIR.COMMIT %s 1 15", keep_id());
    CHECK_EQ(used_in(candidate_table, "k"), 35);
    say("WEIR.RESERVE tried k 30"); /* the candidate has 25 */
    CHECK_EQ(number("allowed"), 1);
    say("WEIR.CANCEL %s", keep_id());
    CHECK_EQ(used_in(candidate_table, "k"), 35);
    say("WEIR.RESERVE tried k 20");
    say("WEIR.CANCEL %s", keep_id());
    CHECK_EQ(used_in(candidate_table, "k"), 35);
    CHECK_EQ(remaining("tried", "k"), 65);
    end();
}

TEST(limits_of_before_a_change_get_back_what_they_counted)
{
    begin();
    say("WEIR.TAKE tokens k 100");
    say("WEIR.POLICY SET tokens \"500/h algo=fixed-window\"");
    const struct policy_table *previous = policy_of("tokens")->previous;
    if (!CHECK(previous != NULL))
        return;
    say("WEIR.RESERVE tokens k 400");
    CHECK_EQ(number("allowed"), 1);
    CHECK_EQ(used_in(previous, "k"), 500);
    say("WEIR.COMMIT %s 250", keep_id());
    CHECK_EQ(number("given_back"), 150);
    CHECK_EQ(used_in(previous, "k"), 350);
    CHECK_EQ(used_in(policy_of("tokens")->main, "k"), 250);
    end();
}

TEST(what_was_reserved_of_a_policy_that_is_gone_is_settled_with_nothing)
{
    begin();
    say("WEIR.RESERVE strict k 30");
    const char *id = keep_id();
    say("WEIR.POLICY DEL strict");
    say("WEIR.COMMIT %s 31", id);
    CHECK_EQ(number("charged"), 0);
    CHECK_EQ(number("given_back"), 0);
    CHECK_EQ(number("remaining"), 0);
    end();
}

/* ---- rights ---- */

TEST(a_reservation_is_settled_by_who_made_it_or_by_an_admin)
{
    begin();
    as_user("alice");
    say("WEIR.RESERVE tokens k 10");
    const char *id = keep_id();
    say("WEIR.RESERVE tokens k 20");
    const char *other = keep_id();
    as_user("bob");
    say("WEIR.CANCEL %s", id);
    CHECK_STR(error(), "NOPERM No permissions to settle a reservation of another user");
    say("WEIR.COMMIT %s 0", id);
    CHECK_STR(error(), "NOPERM No permissions to settle a reservation of another user");
    as_user("alice");
    say("WEIR.COMMIT %s 1", id);
    CHECK_EQ(number("charged"), 1);
    as_user("bob");
    say("WEIR.COMMIT %s 1", id);
    CHECK_STR(error(), "NOPERM No permissions to settle a reservation of another user");
    as_user("default");
    say("WEIR.CANCEL %s", other);
    CHECK_EQ(number("given_back"), 20);
    end();
}

TEST(policies_and_keys_behind_and_need_their_rights_too)
{
    begin();
    as_user("bob"); /* tokens, keys b:* */
    say("WEIR.RESERVE tokens b:1 1 AND tokens k 1");
    CHECK(error() && strncmp(error(), "NOPERM ", 7) == 0);
    say("WEIR.RESERVE tokens b:1 1 AND strict b:1 1");
    CHECK(error() && strncmp(error(), "NOPERM ", 7) == 0);
    say("WEIR.RESERVE tokens b:1 1 AND tokens b:2 1");
    CHECK_EQ(number("allowed"), 1);
    end();
}

/* ---- words ---- */

TEST(wrong_words_say_what_to_write)
{
    static const struct {
        const char *line, *part;
    } wrong[] = {
        {"WEIR.RESERVE tokens k", "wrong number of arguments for 'weir.reserve' command"},
        {"WEIR.RESERVE tokens k 0", "ERR n must be 1 or more; to look without taking use WEIR.PEEK"},
        {"WEIR.RESERVE tokens k x", "ERR "},
        {"WEIR.RESERVE token k 1", "ERR no policy 'token'; did you mean 'tokens'?"},
        {"WEIR.RESERVE tokens k 1 TTL 0", "ERR TTL must be 1 or more"},
        {"WEIR.RESERVE tokens k 1 TTL 86400001", "at most 86400000 (24 hours)"},
        {"WEIR.RESERVE tokens k 1 TTL", "ERR "},
        {"WEIR.RESERVE tokens k 1 TTL 5 TTL 5", "ERR TTL is there twice"},
        {"WEIR.RESERVE tokens k 1 TIMEOUT -1", "ERR TIMEOUT must be 0 or more"},
        {"WEIR.RESERVE tokens k 1 TIMEOUT 86400001", "at most 86400000 (24 hours)"},
        {"WEIR.RESERVE tokens k 1 ID", "ERR syntax error"},
        {"WEIR.RESERVE tokens k 1 ID a ID a", "ERR ID is there twice"},
        {"WEIR.RESERVE tokens k 1 SOON", "ERR syntax error near 'SOON'"},
        {"WEIR.RESERVE tokens k 1 AND tokens", "ERR "},
        {"WEIR.RESERVE tokens k 1 AND tokens k 1 TIMEOUT 1", "ERR TIMEOUT needs a single pair"},
        {"WEIR.RESERVE tokens k 1 AND tokens k 1 AND tokens k 1 AND tokens k 1 AND tokens k 1 AND tokens k 1",
         "ERR "},
        {"WEIR.COMMIT", "wrong number of arguments for 'weir.commit' command"},
        {"WEIR.COMMIT a 1 2 3 4 5 6", "wrong number of arguments for 'weir.commit' command"},
        {"WEIR.COMMIT a -1", "ERR what was used must be 0 or more"},
        {"WEIR.COMMIT a 9223372036854775808",
         "ERR what was used is too large: 9223372036854775808; at most "},
        {"WEIR.RESERVE tokens k 1 TTL 2m", "whole number of milliseconds, not '2m'; write 120000"},
        {"WEIR.CANCEL a b", "wrong number of arguments for 'weir.cancel' command"},
    };
    begin();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        say("%s", wrong[i].line);
        if (!CHECK(error() && strstr(error(), wrong[i].part)))
            printf("# %s\n# %s\n", wrong[i].line, error() ? error() : "(no error)");
    }
    CHECK_EQ(remaining("tokens", "k"), 1000);
    end();
}

TEST(huge_numbers_are_debts_and_larger_ones_errors)
{
    begin();
    say("WEIR.RESERVE tokens k 1 AND tokens j 1");
    const char *id = keep_id();
    say("WEIR.COMMIT %s 1000000000001 0", id);
    CHECK(error() && strstr(error(), "ERR what was used is too large"));
    say("WEIR.COMMIT %s 1000000000000 1000000000000", id);
    CHECK_EQ(number("charged"), 2 * UNITS_MAX);
    CHECK_EQ(remaining("tokens", "k"), 0);
    end();
}
