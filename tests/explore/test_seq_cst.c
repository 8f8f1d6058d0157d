/* SPDX-License-Identifier: MIT */
/*
 * The explorer on accesses that are seq_cst, and on exchanges of two words: what they forbid, and what they
 * leave open.
 */
#include "check.h"
#include "explore/explore.h"
#include "os/atomic.h"
#include "os/spin.h"

#define RLX memory_order_relaxed
#define ACQ memory_order_acquire
#define REL memory_order_release
#define SEQ memory_order_seq_cst

static atom64 x, y, z;
static atom128 p, q;
static uint64_t got[EXPLORE_THREADS][4]; /* what each thread has read */
static bool won[EXPLORE_THREADS];
static memory_order send_order, receive_order;
static bool seen; /* in some execution; setup leaves it alone */

static void clear(void)
{
    atom64 *const words[] = {&x, &y, &z, &p.low, &p.high, &q.low, &q.high};
    static const char *const names[] = {"x", "y", "z", "p.low", "p.high", "q.low", "q.high"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        atom_store(words[i], 0, RLX);
        explore_name(words[i], names[i]);
    }
    memset(got, 0, sizeof got);
    memset(won, 0, sizeof won);
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
    e.setup = clear;
    return explore_breaks(&e);
}

#define COUNT(...)  count_of((struct explore){__VA_ARGS__})
#define BREAKS(...) breaks((struct explore){__VA_ARGS__})

/* ---- single words ---- */

static void store_x_load_y(void)
{
    atom_store(&x, 1, SEQ);
    got[0][0] = atom_load(&y, SEQ);
}

static void store_y_load_x(void)
{
    atom_store(&y, 1, SEQ);
    got[1][0] = atom_load(&x, SEQ);
}

static void see_both_zero(void)
{
    seen |= got[0][0] == 0 && got[1][0] == 0;
}

TEST(a_load_does_not_overtake_a_store)
{
    CHECK_EQ(COUNT(.threads = {store_x_load_y, store_y_load_x}, .finish = see_both_zero), 3);
    CHECK(!seen);
    CHECK_EQ(COUNT(.threads = {store_x_load_y, store_y_load_x}, .finish = see_both_zero,
                   .weaken = EXPLORE_NO_SEQ_CST_ACCESS),
             4);
    CHECK(seen);
}

static void add_x_load_y(void)
{
    (void)atom_add(&x, 1, SEQ);
    got[0][0] = atom_load(&y, SEQ);
}

static void swap_y_load_x(void)
{
    uint64_t none = 0;
    CHECK(atom_cas(&y, &none, 1, SEQ));
    got[1][0] = atom_load(&x, SEQ);
}

TEST(nor_an_exchange)
{
    CHECK_EQ(COUNT(.threads = {add_x_load_y, swap_y_load_x}, .finish = see_both_zero), 3);
    CHECK(!seen);
}

static void store_x(void)
{
    atom_store(&x, 1, SEQ);
}

static void store_y(void)
{
    atom_store(&y, 1, SEQ);
}

static void load_x_y(void)
{
    got[2][0] = atom_load(&x, SEQ);
    got[2][1] = atom_load(&y, SEQ);
}

static void load_y_x(void)
{
    got[3][0] = atom_load(&y, SEQ);
    got[3][1] = atom_load(&x, SEQ);
}

static void see_readers_disagree(void)
{
    seen |= got[2][0] == 1 && got[2][1] == 0 && got[3][0] == 1 && got[3][1] == 0;
}

TEST(all_readers_see_stores_in_one_order)
{
    CHECK_EQ(COUNT(.threads = {store_x, store_y, load_x_y, load_y_x}, .finish = see_readers_disagree), 15);
    CHECK(!seen);
    CHECK_EQ(COUNT(.threads = {store_x, store_y, load_x_y, load_y_x}, .finish = see_readers_disagree,
                   .weaken = EXPLORE_NO_SEQ_CST_ACCESS),
             16);
    CHECK(seen);
}

/* Of two stores of one value it matters which was read: the load comes before the other one. */
static void store_x_twice_load_z(void)
{
    atom_store(&x, 1, SEQ);
    atom_store(&x, 1, SEQ);
    got[0][0] = atom_load(&z, SEQ);
}

static void store_z_load_x(void)
{
    atom_store(&z, 1, SEQ);
    got[1][0] = atom_load(&x, SEQ);
}

static void store_z_load_x_store_x(void)
{
    store_z_load_x();
    atom_store(&x, 2, RLX);
}

static void see_second_store(void)
{
    seen |= got[0][0] == 0 && got[1][0] == 1;
}

TEST(stores_of_one_value_are_told_apart)
{
    CHECK_EQ(COUNT(.threads = {store_x_twice_load_z, store_z_load_x}, .finish = see_second_store), 4);
    CHECK(seen);
    CHECK_EQ(COUNT(.threads = {store_z_load_x, store_x_twice_load_z}, .finish = see_second_store), 4);
    CHECK(seen);
    CHECK(COUNT(.threads = {store_z_load_x_store_x, store_x_twice_load_z}, .finish = see_second_store) > 4);
    CHECK(seen);
}

/* On ARM what is relaxed may pass it in either direction. */
static void store_x_then_z(void)
{
    atom_store(&x, 1, SEQ);
    atom_store(&z, 1, send_order);
}

static void load_z_then_x(void)
{
    got[1][0] = atom_load(&z, receive_order);
    got[1][1] = atom_load(&x, SEQ);
    seen |= got[1][0] == 1 && got[1][1] == 0;
}

TEST(it_guards_nothing_that_is_relaxed)
{
    send_order = receive_order = RLX;
    CHECK_EQ(COUNT(.threads = {store_x_then_z, load_z_then_x}), 4);
    CHECK(seen);
    send_order = REL;
    receive_order = ACQ;
    CHECK_EQ(COUNT(.threads = {store_x_then_z, load_z_then_x}), 3);
    CHECK(!seen);
}

/* Behind the fence the store of x is known, although an older one was read before it. */
static void store_x_release_y(void)
{
    atom_store(&x, 1, RLX);
    atom_store(&y, 1, REL);
}

static void read_old_then_fence(void)
{
    got[1][0] = atom_load(&y, RLX);
    got[1][1] = atom_load(&x, RLX);
    atom_fence(ACQ);
    EXPLORE_CHECK(got[1][0] == 0 || atom_load(&x, RLX) == 1);
}

TEST(what_is_read_does_not_take_back_what_a_fence_will_tell)
{
    CHECK(COUNT(.threads = {store_x_release_y, read_old_then_fence}) > 0);
}

/* ---- two words ---- */

static void replace(atom128 *pair, uint64_t low, uint64_t high)
{
    won[explore_thread()] = atom_cas128(pair, low, high, (uint64_t)explore_thread() + 1, 7);
}

static void win_p(void)
{
    replace(&p, 0, 0);
}

static void one_has_won(void)
{
    uint64_t low = atom_load(&p.low, RLX);
    EXPLORE_CHECK(won[0] + won[1] + won[2] + won[3] == 1);
    EXPLORE_CHECK(low > 0 && won[low - 1] && atom_load(&p.high, RLX) == 7);
}

TEST(of_many_exchanges_one_wins)
{
    CHECK_EQ(COUNT(.threads = {win_p, win_p}, .finish = one_has_won), 2);
    CHECK_EQ(COUNT(.threads = {win_p, win_p, win_p, win_p}, .finish = one_has_won), 4);
}

static void expect_other_low(void)
{
    replace(&p, 9, 0);
}

static void expect_other_high(void)
{
    replace(&p, 0, 9);
}

static void nothing_has_changed(void)
{
    EXPLORE_CHECK(!won[0] && !won[1]);
    EXPLORE_CHECK(!atom_cas128(&p, 0, 1, 2, 2) && !atom_cas128(&p, 1, 0, 2, 2));
    EXPLORE_CHECK(atom_cas128(&p, 0, 0, 3, 4));
    EXPLORE_CHECK(atom_load(&p.low, RLX) == 3 && atom_load(&p.high, RLX) == 4);
}

TEST(both_words_have_to_be_as_expected)
{
    CHECK_EQ(COUNT(.threads = {expect_other_low, expect_other_high}, .finish = nothing_has_changed), 1);
}

/* High is always twice low. */
static void count_up(void)
{
    uint64_t low, high;
    do {
        low = atom_load(&p.low, SEQ);
        high = atom_load(&p.high, SEQ);
        if (high != 2 * low)
            seen = true;
    } while (!atom_cas128(&p, low, high, low + 1, 2 * (low + 1)));
    EXPLORE_CHECK(high == 2 * low);
}

static void two_were_counted(void)
{
    EXPLORE_CHECK(atom_load(&p.low, RLX) == 2 && atom_load(&p.high, RLX) == 4);
}

TEST(single_loads_may_be_torn_but_no_exchange_is)
{
    CHECK(COUNT(.threads = {count_up, count_up}, .finish = two_were_counted) > 0);
    CHECK(seen);
}

static void load_high_then_low(void)
{
    uint64_t high = atom_load(&p.high, SEQ), low = atom_load(&p.low, SEQ);
    EXPLORE_CHECK(high == 0 || low == 1);
}

static void load_low_then_high(void)
{
    uint64_t low = atom_load(&p.low, SEQ), high = atom_load(&p.high, SEQ);
    EXPLORE_CHECK(low == 0 || high == 7);
    seen |= low == 0 && high == 7;
}

TEST(who_sees_one_word_sees_the_other)
{
    CHECK_EQ(COUNT(.threads = {win_p, load_high_then_low}), 3);
    CHECK_EQ(COUNT(.threads = {win_p, load_low_then_high}), 3);
    CHECK(seen);
}

/* As two that insert, each in a slot of its own, and then look at the other's. */
static void insert_p_look_at_q(void)
{
    win_p();
    got[0][0] = atom_load(&q.low, SEQ);
}

static void insert_q_look_at_p(void)
{
    replace(&q, 0, 0);
    got[1][0] = atom_load(&p.low, SEQ);
}

TEST(who_inserts_sees_the_other_or_is_seen)
{
    CHECK_EQ(COUNT(.threads = {insert_p_look_at_q, insert_q_look_at_p}, .finish = see_both_zero), 3);
    CHECK(!seen);
    CHECK_EQ(COUNT(.threads = {insert_p_look_at_q, insert_q_look_at_p}, .finish = see_both_zero,
                   .weaken = EXPLORE_NO_SEQ_CST_ACCESS),
             4);
    CHECK(seen);
}

static void publish_by_pair(void)
{
    atom_store(&x, 1, RLX);
    win_p();
}

static void receive_by_pair(void)
{
    if (!atom_cas128(&p, 0, 0, 9, 9))
        EXPLORE_CHECK(atom_load(&x, RLX) == 1);
}

TEST(an_exchange_that_fails_acquires)
{
    CHECK_EQ(COUNT(.threads = {publish_by_pair, receive_by_pair}), 2);
    CHECK(BREAKS(.threads = {publish_by_pair, receive_by_pair}, .weaken = EXPLORE_RELAXED_EXCHANGES));
}

/* One word alone may be stored to, between exchanges of both. */
static void store_high(void)
{
    atom_store(&p.high, 5, REL);
}

static void see_who_won(void)
{
    uint64_t low = atom_load(&p.low, RLX), high = atom_load(&p.high, RLX);
    EXPLORE_CHECK(high == 5 || (won[0] && high == 7));
    EXPLORE_CHECK(won[0] ? low == 1 : low == 0);
    seen |= high == 7;
}

TEST(a_store_to_one_word_is_seen_by_an_exchange_of_both)
{
    CHECK_EQ(COUNT(.threads = {win_p, store_high}, .finish = see_who_won), 2);
    CHECK(!seen); /* the store comes later, or it is what the exchange finds */
}

static void wait_for_low(void)
{
    while (atom_load(&p.low, SEQ) == 0)
        spin_pause();
}

static void wait_until_replaced(void)
{
    while (!atom_cas128(&p, 1, 7, 2, 8))
        spin_pause();
}

TEST(a_wait_ends_when_either_word_has_changed)
{
    CHECK_EQ(COUNT(.threads = {win_p, wait_for_low}), 2);        /* with and without a wait */
    CHECK_EQ(COUNT(.threads = {win_p, wait_until_replaced}), 3); /* a wait for one word, or for the other */
    CHECK(BREAKS(.threads = {wait_until_replaced, store_high}));
}

/* The second exchange succeeds only between two steps of others that have nothing to do with each other. */
static void replace_late(void)
{
    (void)atom_cas128(&p, 5, 0, 2, 2);
    (void)atom_cas128(&p, 6, 0, 3, 3);
}

static void load_and_swap_high(void)
{
    got[1][0] = atom_load(&p.high, RLX);
    got[1][1] = atom_swap(&p.high, 4, SEQ);
}

static void swap_low(void)
{
    (void)atom_swap(&p.low, 6, ACQ);
}

static void see_high_replaced(void)
{
    seen |= got[1][1] == 3;
}

TEST(an_exchange_is_tried_wherever_it_can_succeed)
{
    CHECK_EQ(COUNT(.threads = {replace_late, load_and_swap_high, swap_low}, .finish = see_high_replaced), 11);
    CHECK(seen);
}

TEST(the_trace_tells_of_both_words)
{
    char text[2000] = "";
    struct explore e = {.setup = clear, .threads = {win_p, win_p}, .finish = nothing_has_changed};
    explore_run(&e);
    FILE *file = tmpfile();
    if (!CHECK(file != NULL))
        return;
    explore_trace(file);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    CHECK_STR(text, "#   thread 0  cas    p.low      {1, 7} for {0, 0} of setup, seq_cst\n"
                    "#   thread 1  cas    p.low      wants {0, 0}, finds {1, 7} of thread 0, seq_cst\n");
}
