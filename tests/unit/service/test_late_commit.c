/* SPDX-License-Identifier: MIT */
/*
 * WEIR.COMMIT after the end of a reservation: it charges what was used beyond the units that stayed spent,
 * once, gives nothing back, and is remembered. The clock stands unless a test moves it.
 */
#include "unit/service/reserve_kit.h"

TEST(a_late_commit_charges_what_is_more_once)
{
    begin();
    say("WEIR.RESERVE tokens k 400 TTL 1000");
    const char *id = keep_id();
    move_clock(1000);
    int64_t before = remaining("tokens", "k");
    for (int i = 0; i < 3; i++) {
        say("WEIR.COMMIT %s 450", id);
        CHECK_EQ(number("charged"), 450);
        CHECK_EQ(number("given_back"), 0);
        CHECK_EQ(number("remaining"), before - 50);
        CHECK_EQ(number("late"), 1);
        CHECK_EQ(fields(), 4);
        CHECK_EQ(remaining("tokens", "k"), before - 50);
    }
    say("WEIR.COMMIT %s 451", id);
    CHECK(is_settled(id));
    say("WEIR.CANCEL %s", id);
    CHECK(is_settled(id));
    CHECK_EQ(remaining("tokens", "k"), before - 50);
    end();
}

TEST(a_late_commit_gives_nothing_back)
{
    begin();
    say("WEIR.RESERVE tokens k 400 AND strict k 10 TTL 1000");
    const char *id = keep_id();
    move_clock(1000);
    say("WEIR.COMMIT %s 100 3", id);
    CHECK_EQ(number("charged"), 410);
    CHECK_EQ(number("given_back"), 0);
    CHECK_EQ(number("remaining"), 600);
    CHECK_EQ(number("late"), 1);
    CHECK_EQ(remaining("strict", "k"), 90);
    end();
}

TEST(of_a_late_commit_each_pair_counts_by_itself)
{
    begin();
    say("WEIR.RESERVE tokens k 100 AND tokens l 100 TTL 1000");
    const char *id = keep_id();
    move_clock(1000);
    say("WEIR.COMMIT %s 40 130", id);
    CHECK_EQ(number("charged"), 230);
    CHECK_EQ(remaining("tokens", "k"), 900);
    CHECK_EQ(remaining("tokens", "l"), 870);
    end();
}

TEST(a_late_commit_has_the_same_rules)
{
    begin();
    say("WEIR.RESERVE strict k 30");
    const char *id = keep_id();
    move_clock(2000);
    say("WEIR.COMMIT %s 31", id);
    CHECK(error() && strstr(error(), "ERR 31 is more than the 30 reserved, and policy 'strict'"));
    say("WEIR.COMMIT %s 30 1", id);
    CHECK(error() && strstr(error(), "this reservation has 1 pair and there are 2 numbers"));
    as_user("bob");
    say("WEIR.COMMIT %s", id);
    CHECK(error() && strstr(error(), "NOPERM"));
    as_user("alice");
    say("WEIR.RESERVE tokens a 10 TTL 1");
    const char *own = keep_id();
    move_clock(1);
    say("WEIR.COMMIT %s 1001", own);
    CHECK(error() && strstr(error(), "needs the class adjust"));
    say("WEIR.COMMIT %s 11", own);
    CHECK_EQ(number("charged"), 11);
    as_user("default");
    say("WEIR.COMMIT %s", id);
    CHECK_EQ(number("charged"), 30);
    CHECK_EQ(remaining("strict", "k"), 70);
    end();
}

TEST(a_late_commit_is_remembered_for_ids)
{
    begin();
    say("WEIR.RESERVE tokens k 400 TTL 1000");
    const char *id = keep_id();
    move_clock(300999); /* the last moment */
    say("WEIR.COMMIT %s 401", id);
    CHECK_EQ(number("late"), 1);
    move_clock(299999);
    say("WEIR.COMMIT %s 401", id);
    CHECK_EQ(number("charged"), 401);
    CHECK_EQ(number("late"), 1);
    move_clock(1);
    say("WEIR.COMMIT %s 401", id);
    CHECK(is_gone(id));
    say("WEIR.RESERVE tokens l 1 TTL 1000");
    id = keep_id();
    move_clock(301000);
    say("WEIR.COMMIT %s 5", id);
    CHECK(is_gone(id));
    end();
}

TEST(what_counts_beside_a_pair_follows_a_late_commit)
{
    begin();
    say("WEIR.RESERVE tried k 20 TTL 1000");
    const char *id = keep_id();
    move_clock(1000);
    say("WEIR.COMMIT %s 5", id);
    CHECK_EQ(number("charged"), 20);
    say("WEIR.TAKE tried k 41"); /* the candidate has 60, of which 20 stay spent */
    say("WEIR.POLICY SHOW tried");
    CHECK_EQ(number("candidate_refused"), 1);
    end();
}

TEST(a_settled_one_is_remembered_for_ids_after_its_end)
{
    begin();
    say("WEIR.RESERVE tokens k 400 TTL 5000");
    const char *id = keep_id();
    say("WEIR.COMMIT %s 1", id);
    move_clock(304999);
    say("WEIR.COMMIT %s 1", id);
    CHECK_EQ(number("charged"), 1);
    CHECK_EQ(fields(), 3); /* it was not late, only asked for again */
    move_clock(1);
    say("WEIR.COMMIT %s 1", id);
    CHECK(is_gone(id));
    end();
}

TEST(those_that_are_over_make_room_for_others)
{
    begin();
    shrink_ledger();
    say("WEIR.RESERVE tokens k 1 TTL 1000");
    const char *first = keep_id();
    move_clock(1);
    for (int i = 1; i < 32; i++)
        say("WEIR.RESERVE tokens k 1 TTL 1000");
    move_clock(998);
    say("WEIR.RESERVE tokens k 1");
    CHECK_STR(text("reason"), "full");
    move_clock(1);
    say("WEIR.RESERVE tokens k 1");
    CHECK_EQ(number("allowed"), 1);
    say("WEIR.COMMIT %s 7", first);
    CHECK(is_gone(first));
    CHECK(strstr(error(), "its record had to give way"));
    say("WEIR.RESERVE tokens k 1");
    CHECK_STR(text("reason"), "full"); /* the others are not over */
    end();
}
