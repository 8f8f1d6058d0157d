/* SPDX-License-Identifier: MIT */
/*
 * The explorer, tried on programs whose behaviour is known: the litmus tests of the literature with the
 * number of their executions, right and broken algorithms, and faults it has to find.
 */
#include "check.h"
#include "explore/explore.h"
#include "os/atomic.h"
#include "os/lock.h"
#include "os/spin.h"

#define RLX memory_order_relaxed
#define ACQ memory_order_acquire
#define REL memory_order_release

static atom64 x, y, z;
static uint64_t got[EXPLORE_THREADS][4]; /* what each thread has read */
static uint64_t plain, copy;
static bool seen; /* in some execution; setup leaves it alone */

static void clear(void)
{
    atom_store(&x, 0, RLX);
    atom_store(&y, 0, RLX);
    atom_store(&z, 0, RLX);
    explore_name(&x, "x");
    explore_name(&y, "y");
    explore_name(&z, "z");
    memset(got, 0, sizeof got);
    plain = copy = 0;
}

/* Runs all executions; gives their number, 0 if something is wrong. */
static int64_t count_of(struct explore e)
{
    seen = false;
    e.setup = clear;
    return explore_holds(&e) ? (int64_t)e.executions : 0;
}

static bool breaks(struct explore e)
{
    seen = false;
    e.setup = clear;
    return explore_breaks(&e);
}

#define COUNT(...)  count_of((struct explore){__VA_ARGS__})
#define BREAKS(...) breaks((struct explore){__VA_ARGS__})

/* ---- store buffering ---- */

static void store_x_load_y(void)
{
    atom_store(&x, 1, REL);
    atom_fence(memory_order_seq_cst);
    got[0][0] = atom_load(&y, ACQ);
}

static void store_y_load_x(void)
{
    atom_store(&y, 1, REL);
    atom_fence(memory_order_seq_cst);
    got[1][0] = atom_load(&x, ACQ);
}

static void see_both_zero(void)
{
    seen |= got[0][0] == 0 && got[1][0] == 0;
}

TEST(a_store_may_be_late_for_a_load_behind_it)
{
    CHECK_EQ(COUNT(.threads = {store_x_load_y, store_y_load_x}, .finish = see_both_zero,
                   .weaken = EXPLORE_NO_SEQ_CST_FENCE),
             4);
    CHECK(seen);
}

TEST(seq_cst_fences_bring_stores_before_loads)
{
    CHECK(COUNT(.threads = {store_x_load_y, store_y_load_x}, .finish = see_both_zero) > 0);
    CHECK(!seen);
}

/* ---- message passing ---- */

static memory_order send_order, receive_order, send_fence, receive_fence;

static void send(void)
{
    atom_store(&x, 1, RLX);
    atom_fence(send_fence);
    atom_store(&y, 1, send_order);
}

static void receive(void)
{
    got[1][0] = atom_load(&y, receive_order);
    atom_fence(receive_fence);
    got[1][1] = atom_load(&x, RLX);
}

static void see_stale(void)
{
    seen |= got[1][0] == 1 && got[1][1] == 0;
}

static int64_t count_messages(memory_order store, memory_order load, memory_order before, memory_order after,
                              unsigned weaken)
{
    send_order = store;
    receive_order = load;
    send_fence = before;
    receive_fence = after;
    return COUNT(.threads = {send, receive}, .finish = see_stale, .weaken = weaken);
}

TEST(a_relaxed_flag_guards_nothing)
{
    CHECK_EQ(count_messages(RLX, RLX, RLX, RLX, 0), 4);
    CHECK(seen);
}

TEST(release_and_acquire_pass_a_message)
{
    CHECK_EQ(count_messages(REL, ACQ, RLX, RLX, 0), 3);
    CHECK(!seen);
    CHECK_EQ(count_messages(REL, RLX, RLX, RLX, 0), 4);
    CHECK(seen);
    CHECK_EQ(count_messages(RLX, ACQ, RLX, RLX, 0), 4);
    CHECK(seen);
}

TEST(fences_pass_a_message)
{
    CHECK_EQ(count_messages(RLX, RLX, REL, ACQ, 0), 3);
    CHECK(!seen);
    CHECK_EQ(count_messages(RLX, ACQ, REL, RLX, 0), 3);
    CHECK_EQ(count_messages(REL, RLX, RLX, ACQ, 0), 3);
    CHECK_EQ(count_messages(RLX, RLX, memory_order_acq_rel, memory_order_acq_rel, 0), 3);
    CHECK(!seen);
    CHECK_EQ(count_messages(RLX, RLX, REL, RLX, 0), 4);
    CHECK(seen);
    CHECK_EQ(count_messages(RLX, RLX, RLX, ACQ, 0), 4);
    CHECK(seen);
}

TEST(what_is_left_out_is_missed)
{
    static const unsigned orders[] = {EXPLORE_RELAXED_LOADS, EXPLORE_RELAXED_STORES};
    static const unsigned fences[] = {EXPLORE_NO_ACQUIRE_FENCE, EXPLORE_NO_RELEASE_FENCE};
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(count_messages(REL, ACQ, RLX, RLX, orders[i]), 4);
        CHECK_EQ(count_messages(RLX, RLX, REL, ACQ, fences[i]), 4);
        CHECK_EQ(count_messages(REL, ACQ, RLX, RLX, fences[i]), 3);
        CHECK_EQ(count_messages(RLX, RLX, memory_order_acq_rel, memory_order_acq_rel, fences[i]), 4);
    }
}

/* ---- coherence ---- */

static void store_1_2(void)
{
    atom_store(&x, 1, RLX);
    atom_store(&x, 2, RLX);
}

static void load_twice(void)
{
    uint64_t *mine = got[explore_thread()];
    mine[0] = atom_load(&x, RLX);
    mine[1] = atom_load(&x, RLX);
    EXPLORE_CHECK(mine[0] <= mine[1]);
}

TEST(nobody_sees_a_location_go_backward)
{
    CHECK_EQ(COUNT(.threads = {store_1_2, load_twice}), 6);
    CHECK_EQ(COUNT(.threads = {store_1_2, load_twice, load_twice}), 36);
}

static void store_1_load(void)
{
    atom_store(&x, 1, RLX);
    got[0][0] = atom_load(&x, RLX);
}

static void store_2_load(void)
{
    atom_store(&x, 2, RLX);
    got[1][0] = atom_load(&x, RLX);
}

static void agree_on_the_order(void)
{
    uint64_t last = atom_load(&x, RLX);
    EXPLORE_CHECK(got[0][0] == 1 || (got[0][0] == 2 && last == 2));
    EXPLORE_CHECK(got[1][0] == 2 || (got[1][0] == 1 && last == 1));
    EXPLORE_CHECK(got[0][0] != 2 || got[1][0] != 1);
}

TEST(a_thread_sees_its_own_store_or_a_later_one)
{
    CHECK_EQ(COUNT(.threads = {store_1_load, store_2_load}, .finish = agree_on_the_order), 4);
}

static void store_x_1_y_2(void)
{
    atom_store(&x, 1, REL);
    atom_store(&y, 2, REL);
}

static void store_y_1_x_2(void)
{
    atom_store(&y, 1, REL);
    atom_store(&x, 2, REL);
}

static void see_first_stores_last(void)
{
    seen |= atom_load(&x, RLX) == 1 && atom_load(&y, RLX) == 1;
}

TEST(stores_of_two_threads_may_be_ordered_against_each_other)
{
    CHECK_EQ(COUNT(.threads = {store_x_1_y_2, store_y_1_x_2}, .finish = see_first_stores_last), 4);
    CHECK(seen);
}

/* ---- more than two threads ---- */

static void store_x(void)
{
    atom_store(&x, 1, REL);
}

static void store_y(void)
{
    atom_store(&y, 1, REL);
}

static void load_x_y(void)
{
    got[2][0] = atom_load(&x, ACQ);
    atom_fence(memory_order_seq_cst);
    got[2][1] = atom_load(&y, ACQ);
}

static void load_y_x(void)
{
    got[3][0] = atom_load(&y, ACQ);
    atom_fence(memory_order_seq_cst);
    got[3][1] = atom_load(&x, ACQ);
}

static void see_readers_disagree(void)
{
    seen |= got[2][0] == 1 && got[2][1] == 0 && got[3][0] == 1 && got[3][1] == 0;
}

TEST(two_readers_may_see_two_stores_in_different_orders)
{
    CHECK_EQ(COUNT(.threads = {store_x, store_y, load_x_y, load_y_x}, .finish = see_readers_disagree,
                   .weaken = EXPLORE_NO_SEQ_CST_FENCE),
             16);
    CHECK(seen);
    CHECK(COUNT(.threads = {store_x, store_y, load_x_y, load_y_x}, .finish = see_readers_disagree) > 0);
    CHECK(!seen);
}

static void forward(void)
{
    got[1][0] = atom_load(&x, ACQ);
    atom_store(&y, 1, REL);
}

static void receive_forwarded(void)
{
    got[2][0] = atom_load(&y, ACQ);
    got[2][1] = atom_load(&x, RLX);
    EXPLORE_CHECK(!(got[1][0] == 1 && got[2][0] == 1 && got[2][1] == 0));
}

TEST(what_a_thread_has_acquired_it_hands_on)
{
    CHECK_EQ(COUNT(.threads = {store_x, forward, receive_forwarded}), 7);
    CHECK(BREAKS(.threads = {store_x, forward, receive_forwarded}, .weaken = EXPLORE_RELAXED_LOADS));
}

static void load_y_store_x(void)
{
    got[0][0] = atom_load(&y, RLX);
    atom_store(&x, 1, RLX);
}

static void load_x_store_y(void)
{
    got[1][0] = atom_load(&x, RLX);
    atom_store(&y, 1, RLX);
}

static void never_both_one(void)
{
    EXPLORE_CHECK(got[0][0] == 0 || got[1][0] == 0);
}

TEST(no_load_reads_a_store_that_is_still_to_come)
{
    CHECK_EQ(COUNT(.threads = {load_y_store_x, load_x_store_y}, .finish = never_both_one), 3);
}

/* ---- release sequences ---- */

static void send_and_add(void)
{
    atom_store(&x, 1, RLX);
    atom_store(&y, 1, REL);
}

static void add_to_y(void)
{
    (void)atom_add(&y, 1, RLX);
}

static void receive_two(void)
{
    got[2][0] = atom_load(&y, ACQ);
    got[2][1] = atom_load(&x, RLX);
    EXPLORE_CHECK(got[2][0] != 2 || got[2][1] == 1);
}

TEST(an_exchange_hands_on_what_it_replaces)
{
    CHECK(COUNT(.threads = {send_and_add, add_to_y, receive_two}) > 0);
}

static void send_and_store(void)
{
    send_and_add();
    atom_store(&y, 2, RLX);
}

TEST(a_relaxed_store_hands_on_nothing)
{
    CHECK(BREAKS(.threads = {send_and_store, add_to_y, receive_two}));
}

/* ---- algorithms, right and wrong ---- */

static void add_by_load_and_store(void)
{
    atom_store(&x, atom_load(&x, ACQ) + 1, REL);
}

static void add_by_cas(void)
{
    uint64_t now = atom_load(&x, RLX);
    while (!atom_cas(&x, &now, now + 1, RLX))
        ;
}

static void two_were_added(void)
{
    EXPLORE_CHECK(atom_load(&x, RLX) == 2);
}

static void three_were_added(void)
{
    EXPLORE_CHECK(atom_load(&x, RLX) == 3);
}

TEST(a_lost_update_is_found)
{
    CHECK(BREAKS(.threads = {add_by_load_and_store, add_by_load_and_store}, .finish = two_were_added));
}

TEST(a_loop_around_an_exchange_adds_up)
{
    CHECK(COUNT(.threads = {add_by_cas, add_by_cas}, .finish = two_were_added) > 0);
    CHECK(COUNT(.threads = {add_by_cas, add_by_cas, add_by_cas}, .finish = three_were_added) > 0);
    CHECK(COUNT(.threads = {add_by_cas, add_by_cas, add_by_cas}, .finish = three_were_added, .spurious = 1) >
          0);
}

static void add_once(void)
{
    uint64_t now = 0;
    if (!atom_cas(&x, &now, 1, RLX))
        seen = true;
}

TEST(a_weak_exchange_may_fail_for_no_reason)
{
    CHECK_EQ(COUNT(.threads = {add_once}), 1);
    CHECK(!seen);
    CHECK_EQ(COUNT(.threads = {add_once}, .spurious = 1), 2);
    CHECK(seen);
}

/* x counts changes, odd while one is under way; y and z are the data. */
static void change_pair(void)
{
    atom_store(&x, 1, RLX);
    atom_fence(REL);
    atom_store(&y, 1, RLX);
    atom_store(&z, 1, RLX);
    atom_store(&x, 2, REL);
}

static void read_pair(void)
{
    uint64_t before = atom_load(&x, ACQ);
    uint64_t a = atom_load(&y, RLX), b = atom_load(&z, RLX);
    atom_fence(ACQ);
    uint64_t after = atom_load(&x, RLX);
    if (before == after && before % 2 == 0)
        EXPLORE_CHECK(a == b);
}

TEST(a_sequence_lock_holds_with_its_fences_and_breaks_without)
{
    CHECK(COUNT(.threads = {change_pair, read_pair}) > 0);
    CHECK(COUNT(.threads = {change_pair, read_pair, read_pair}) > 0);
    CHECK(BREAKS(.threads = {change_pair, read_pair}, .weaken = EXPLORE_NO_ACQUIRE_FENCE));
    CHECK(BREAKS(.threads = {change_pair, read_pair}, .weaken = EXPLORE_NO_RELEASE_FENCE));
    CHECK(BREAKS(.threads = {change_pair, read_pair}, .weaken = EXPLORE_RELAXED_LOADS));
    CHECK(BREAKS(.threads = {change_pair, read_pair}, .weaken = EXPLORE_RELAXED_STORES));
}

static void enter_if_other_is_out(atom64 *mine, atom64 *other)
{
    atom_store(mine, 1, RLX);
    atom_fence(memory_order_seq_cst);
    if (atom_load(other, ACQ) == 0) {
        explore_write(&plain, 1);
        atom_store(mine, 0, REL);
    }
}

static void enter_left(void)
{
    enter_if_other_is_out(&x, &y);
}

static void enter_right(void)
{
    enter_if_other_is_out(&y, &x);
}

TEST(exclusion_by_two_flags_needs_its_fences)
{
    CHECK(COUNT(.threads = {enter_left, enter_right}) > 0);
    CHECK(BREAKS(.threads = {enter_left, enter_right}, .weaken = EXPLORE_NO_SEQ_CST_FENCE));
}

/* ---- races of plain data ---- */

static void write_then_flag(void)
{
    explore_write(&plain, 7);
    atom_store(&x, 1, REL);
}

static void read_if_flagged(void)
{
    if (atom_load(&x, ACQ) == 1)
        EXPLORE_CHECK(explore_read(&plain) == 7);
}

static void write_if_flagged(void)
{
    if (atom_load(&x, ACQ) == 1)
        explore_write(&plain, 8);
}

static void only_read(void)
{
    (void)explore_read(&copy);
}

static void read_anyway(void)
{
    (void)explore_read(&plain);
}

static void write_anyway(void)
{
    explore_write(&plain, 1);
}

static void flag_then_write(void)
{
    atom_store(&x, 1, REL);
    explore_write(&plain, 7);
}

static void fence_flag_then_write(void)
{
    atom_fence(REL);
    explore_write(&plain, 7);
    atom_store(&x, 1, RLX);
}

TEST(a_race_is_found_and_only_a_race)
{
    CHECK_EQ(COUNT(.threads = {write_then_flag, read_if_flagged, read_if_flagged}), 4);
    CHECK_EQ(COUNT(.threads = {only_read, only_read}), 1);
    CHECK(BREAKS(.threads = {write_then_flag, read_if_flagged}, .weaken = EXPLORE_RELAXED_STORES));
    CHECK(BREAKS(.threads = {write_then_flag, read_if_flagged}, .weaken = EXPLORE_RELAXED_LOADS));
    CHECK(BREAKS(.threads = {write_then_flag, write_if_flagged, read_if_flagged}));
    CHECK(BREAKS(.threads = {read_anyway, write_anyway}));
    CHECK(BREAKS(.threads = {write_anyway, write_anyway}));
    CHECK(BREAKS(.threads = {flag_then_write, read_if_flagged}));
    CHECK(BREAKS(.threads = {fence_flag_then_write, read_if_flagged}));
}

static void flag_by_fence(void)
{
    explore_write(&plain, 7);
    atom_fence(memory_order_seq_cst);
    atom_store(&x, 1, RLX);
}

static void read_behind_fence(void)
{
    atom_fence(memory_order_seq_cst);
    (void)explore_read(&plain);
}

TEST(fences_without_a_message_between_them_leave_a_race)
{
    CHECK(BREAKS(.threads = {flag_by_fence, read_behind_fence}));
}

/* ---- locks ---- */

static struct lock one, two;

static void add_under_lock(void)
{
    lock_take(&one);
    explore_write(&plain, explore_read(&plain) + 1);
    lock_drop(&one);
}

static void three_in_plain(void)
{
    EXPLORE_CHECK(plain == 3);
    lock_take(&one);
    lock_drop(&one);
}

TEST(a_lock_hands_over_what_was_done_under_it)
{
    CHECK_EQ(COUNT(.threads = {add_under_lock, add_under_lock, add_under_lock}, .finish = three_in_plain), 6);
}

static void add_without_lock(void)
{
    explore_write(&plain, explore_read(&plain) + 1);
}

TEST(who_takes_no_lock_races)
{
    CHECK(BREAKS(.threads = {add_under_lock, add_without_lock}));
}

static void take_one_two(void)
{
    lock_take(&one);
    lock_take(&two);
    lock_drop(&two);
    lock_drop(&one);
}

static void take_two_one(void)
{
    lock_take(&two);
    lock_take(&one);
    lock_drop(&one);
    lock_drop(&two);
}

static void take_twice(void)
{
    lock_take(&one);
    lock_take(&one);
}

static void only_drop(void)
{
    lock_drop(&one);
}

static void only_take(void)
{
    lock_take(&one);
}

static void take_at_the_end(void)
{
    lock_take(&one);
}

TEST(misused_locks_are_found)
{
    CHECK_EQ(COUNT(.threads = {take_one_two, take_one_two}), 2);
    CHECK(BREAKS(.threads = {take_one_two, take_two_one}));
    CHECK(BREAKS(.threads = {take_twice}));
    CHECK(BREAKS(.threads = {only_drop}));
    CHECK(BREAKS(.threads = {add_under_lock, only_drop}));
    CHECK(BREAKS(.threads = {only_take}, .finish = take_at_the_end));
}

/* ---- waiting ---- */

static void wait_for_x(void)
{
    while (atom_load(&x, ACQ) == 0)
        spin_pause();
    EXPLORE_CHECK(explore_read(&plain) == 7);
}

static void spin_without_pause(void)
{
    while (atom_load(&x, ACQ) == 0)
        ;
}

static void wait_for_x_and_y(void)
{
    while (atom_load(&x, ACQ) + atom_load(&y, ACQ) < 2)
        spin_pause();
}

TEST(a_waiting_loop_ends_when_there_is_news)
{
    CHECK_EQ(COUNT(.threads = {write_then_flag, wait_for_x}), 2); /* with and without a wait */
    CHECK(COUNT(.threads = {store_x, store_y, wait_for_x_and_y}) > 0);
}

TEST(a_wait_for_what_never_comes_is_found)
{
    CHECK(BREAKS(.threads = {wait_for_x}));
    CHECK(BREAKS(.threads = {wait_for_x_and_y, store_x}));
}

TEST(a_loop_without_end_is_no_success)
{
    struct explore e = {.setup = clear, .threads = {spin_without_pause, store_x}};
    explore_run(&e);
    CHECK(!e.complete);
    CHECK(strstr(e.fault, "explore_pause") != NULL);
}

TEST(a_search_that_gives_up_is_no_success)
{
    struct explore e = {.setup = clear, .threads = {store_1_2, load_twice, load_twice}, .paths_max = 20};
    explore_run(&e);
    CHECK(!e.complete);
    CHECK(strstr(e.fault, "gave up after 20 paths") != NULL);
}

/* ---- known numbers ---- */

static int steps;
static atom64 own[EXPLORE_THREADS];

static void store_own(void)
{
    for (int i = 0; i < steps; i++)
        atom_store(&own[explore_thread()], (uint64_t)i, RLX);
}

static int64_t choose(int64_t n, int64_t k)
{
    int64_t ways = 1;
    for (int64_t i = 1; i <= k; i++)
        ways = ways * (n - k + i) / i;
    return ways;
}

TEST(steps_that_do_not_meet_have_all_orders_and_one_execution)
{
    for (steps = 1; steps <= 8; steps++) {
        CHECK_EQ(COUNT(.threads = {store_own, store_own}, .every_interleaving = true),
                 choose(2 * steps, steps));
        CHECK_EQ(COUNT(.threads = {store_own, store_own, store_own}), 1);
    }
    for (steps = 1; steps <= 4; steps++)
        CHECK_EQ(COUNT(.threads = {store_own, store_own, store_own}, .every_interleaving = true),
                 choose(3 * steps, steps) * choose(2 * steps, steps));
}

static void store_steps(void)
{
    for (int i = 1; i <= steps; i++)
        atom_store(&x, (uint64_t)i, RLX);
}

static void load_once(void)
{
    got[explore_thread()][0] = atom_load(&x, RLX);
}

static void add_to_x(void)
{
    (void)atom_add(&x, 1, RLX);
}

TEST(every_reader_chooses_among_all_writes)
{
    for (steps = 1; steps <= 9; steps++) {
        int64_t n = steps + 1;
        CHECK_EQ(COUNT(.threads = {store_steps, load_once}), n);
        CHECK_EQ(COUNT(.threads = {store_steps, load_once, load_once, load_once}), n * n * n);
    }
}

TEST(exchanges_form_one_chain_in_any_order)
{
    CHECK_EQ(COUNT(.threads = {add_to_x, add_to_x}), 2);
    CHECK_EQ(COUNT(.threads = {add_to_x, add_to_x, add_to_x}, .finish = three_were_added), 6);
    CHECK_EQ(COUNT(.threads = {add_to_x, add_to_x, add_to_x, add_to_x}), 24);
}

/* Of two writes of one value, the one that tells less is enough. */
static void store_twice_the_same(void)
{
    atom_store(&x, 1, RLX);
    atom_store(&x, 1, RLX);
}

TEST(writes_of_one_value_count_once)
{
    CHECK_EQ(COUNT(.threads = {store_twice_the_same, load_once}), 2);
    CHECK(COUNT(.threads = {store_twice_the_same, load_once}, .every_interleaving = true) > 2);
}

/* ---- what it says ---- */

static void fail_if_stale(void)
{
    receive();
    EXPLORE_CHECK(!(got[1][0] == 1 && got[1][1] == 0));
}

TEST(the_trace_tells_how_it_came_about)
{
    char text[2000] = "";
    struct explore e = {.setup = clear, .threads = {send, fail_if_stale}};
    send_order = receive_order = send_fence = receive_fence = RLX;
    explore_run(&e);
    CHECK(!e.complete);
    CHECK(strstr(e.fault, "does not hold: !(got[1][0] == 1 && got[1][1] == 0)") != NULL);
    FILE *file = tmpfile();
    if (!CHECK(file != NULL))
        return;
    explore_trace(file);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    CHECK_STR(text, "#   thread 0  store  x          1, relaxed\n"
                    "#   thread 0  store  y          1, relaxed\n"
                    "#   thread 1  load   y          reads 1 of thread 0, relaxed\n"
                    "#   thread 1  load   x          reads 0 of setup, relaxed\n");
}

TEST(writes_are_listed_in_their_order)
{
    struct explore e = {.setup = clear, .threads = {store_1_2}};
    struct explore_write writes[4];
    explore_run(&e);
    CHECK_EQ(explore_writes(&x, writes, 4), 2);
    CHECK_EQ(writes[0].value, 1);
    CHECK_EQ(writes[1].value, 2);
    CHECK_EQ(writes[1].thread, 0);
}
