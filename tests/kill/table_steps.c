/* SPDX-License-Identifier: MIT */
/*
 * A process is killed in the midst of an operation on a shared table: after each of its instructions that
 * changes something that others see, or at every instruction if WEIR_KILL_STRIDE is 1. The others find every
 * table as it was before the operation, or as it is after it, can take what is left and not a unit more, and
 * go on.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>

#include "kill/scene.h"
#include "table/top.h"

/* Samples of calls would come in at another one each time. */
static void leave_out_samples(void)
{
    weir_top_countdown = 1000;
}

/* ---- takes ---- */

static void take_busy(void *arg)
{
    leave_out_samples();
    (void)do_take(arg, 0, BUSY, ((struct scene *)arg)->now, 3);
}

static void take_new(void *arg)
{
    leave_out_samples();
    (void)do_take(arg, 0, NEW, ((struct scene *)arg)->now, 3);
}

static void take_own(void *arg)
{
    leave_out_samples();
    (void)do_take(arg, 0, OWN, ((struct scene *)arg)->now, 1);
}

static void take_sampled(void *arg)
{
    weir_top_countdown = 0;
    (void)do_take(arg, 0, BUSY, ((struct scene *)arg)->now, 3);
}

TEST(killed_while_a_key_takes)
{
    struct scene s = {0};
    begin(&s, "10/s", NULL, 4);
    run(&s, take_busy);
}

TEST(killed_while_a_take_is_sampled)
{
    struct scene s = {0};
    begin(&s, "10/s", NULL, 4);
    run(&s, take_sampled);
}

TEST(killed_while_a_key_comes_in)
{
    struct scene s = {0};
    begin(&s, "10/s", NULL, 4);
    run(&s, take_new);
}

TEST(killed_while_a_key_comes_in_and_its_name_is_noted)
{
    struct scene s = {.options.name_bytes = 4096};
    begin(&s, "10/s", NULL, 4);
    run(&s, take_new);
}

TEST(killed_while_a_whole_key_comes_in)
{
    struct scene s = {.options.key_max = 16};
    begin(&s, "10/s", NULL, 4);
    run(&s, take_new);
}

/* A table of one line, whose four slots are all in use. */
TEST(killed_while_a_key_takes_the_place_of_an_idle_one)
{
    struct scene s = {.crowded = true};
    begin(&s, "10/s", NULL, 1);
    CHECK(do_take(&s, 0, OTHER, s.now, 1));
    CHECK(do_take(&s, 0, OWN, s.now, 1));
    run(&s, take_new);
    CHECK_EQ(s.after[0].keys[NEW].used[0], 3);
}

TEST(killed_while_a_key_without_room_shares)
{
    struct scene s = {.crowded = true};
    begin(&s, "10/s", NULL, 1);
    CHECK(do_take(&s, 0, OTHER, s.now, 1));
    CHECK(do_take(&s, 0, OWN, s.now, 1));
    CHECK(do_take(&s, 0, IDLE, s.now, 1));
    run(&s, take_new);
}

TEST(killed_while_a_key_takes_under_three_limits)
{
    struct scene s = {0};
    begin(&s, "10/s, 20/m, 30/h", NULL, 4);
    run(&s, take_busy);
}

TEST(killed_while_a_key_with_three_limits_comes_in)
{
    struct scene s = {.options.key_max = 16, .options.name_bytes = 4096};
    begin(&s, "10/s, 20/m, 30/h", NULL, 4);
    run(&s, take_new);
}

TEST(killed_while_a_log_of_times_is_changed)
{
    struct scene s = {0};
    begin(&s, "20/s algo=sliding-log", NULL, 4);
    run(&s, take_busy);
}

TEST(killed_while_a_long_log_of_times_is_changed)
{
    struct scene s = {0};
    begin(&s, "90/s algo=sliding-log", NULL, 4);
    run(&s, take_busy);
}

/* ---- promises ---- */

static void do_cancel(void *arg)
{
    struct scene *s = arg;
    struct weir_reservation reservation = s->reservation;
    (void)weir_table_cancel_at(s->tables[0], s->now, names[BUSY], strlen(names[BUSY]), &reservation);
}

static void do_reserve(void *arg)
{
    struct scene *s = arg;
    struct weir_reservation reservation;
    leave_out_samples();
    (void)weir_table_reserve_at(s->tables[0], s->now, names[BUSY], strlen(names[BUSY]), 1, WEIR_SEC,
                                &reservation, NULL);
}

static void do_give(void *arg)
{
    struct scene *s = arg;
    weir_table_give_at(s->tables[0], s->now, names[BUSY], strlen(names[BUSY]), 1);
}

static void begin_with_promise(struct scene *s, const char *limits)
{
    begin(s, limits, NULL, 4);
    CHECK(weir_table_reserve_at(s->tables[0], s->now, names[BUSY], strlen(names[BUSY]), 2, WEIR_SEC,
                                &s->reservation, NULL));
    CHECK(s->reservation.wait_ns > 0);
}

TEST(killed_while_a_promise_is_made)
{
    struct scene s = {0};
    begin(&s, "10/s burst=2", NULL, 4);
    run(&s, do_reserve);
}

TEST(killed_while_a_promise_is_handed_back)
{
    struct scene s = {0};
    begin_with_promise(&s, "10/s burst=3");
    run(&s, do_cancel);
}

TEST(killed_while_a_promise_of_two_limits_is_handed_back)
{
    struct scene s = {0};
    begin_with_promise(&s, "10/s burst=3, 20/s burst=20");
    run(&s, do_cancel);
}

TEST(killed_while_units_are_given_back)
{
    struct scene s = {0};
    begin(&s, "10/s, 20/m", NULL, 4);
    run(&s, do_give);
}

/* ---- several keys ---- */

static void take_three(void *arg)
{
    struct scene *s = arg;
    struct weir_ask asks[] = {{.table = s->tables[0], .key = names[BUSY], .len = strlen(names[BUSY]), .n = 2},
                              {.table = s->tables[0], .key = names[NEW], .len = strlen(names[NEW]), .n = 1},
                              {.table = s->tables[0], .key = names[OWN], .len = strlen(names[OWN]), .n = 1}};
    leave_out_samples();
    (void)weir_take_all_at(asks, 3, s->now);
}

static void take_of_both_tables(void *arg)
{
    struct scene *s = arg;
    struct weir_ask asks[] = {{.table = s->tables[0], .key = names[BUSY], .len = strlen(names[BUSY]), .n = 2},
                              {.table = s->tables[1], .key = names[BUSY], .len = strlen(names[BUSY]), .n = 2},
                              {.table = s->tables[0], .key = names[NEW], .len = strlen(names[NEW]), .n = 1},
                              {.table = s->tables[1], .key = names[NEW], .len = strlen(names[NEW]), .n = 1}};
    leave_out_samples();
    (void)weir_take_all_at(asks, 4, s->now);
}

static void give_own_limits(struct scene *s, const char *limits)
{
    struct weir_error err;
    CHECK(do_take(s, 0, OWN, s->now, 1));
    CHECK(weir_table_override_at(s->tables[0], s->now, names[OWN], strlen(names[OWN]), limits, &err));
}

TEST(killed_while_three_keys_take_together)
{
    struct scene s = {0};
    begin(&s, "10/s", NULL, 4);
    give_own_limits(&s, "20/s");
    run(&s, take_three);
}

TEST(killed_while_three_keys_with_several_limits_take_together)
{
    struct scene s = {0};
    begin(&s, "10/s, 20/m", NULL, 4);
    give_own_limits(&s, "15/s, 17/m");
    run(&s, take_three);
}

TEST(killed_while_keys_of_two_tables_take_together)
{
    struct scene s = {0};
    begin(&s, "10/s", "10/s, 20/m", 4);
    run(&s, take_of_both_tables);
}

/* ---- limits of single keys ---- */

static void set_own_limits(void *arg)
{
    struct scene *s = arg;
    struct weir_error err;
    (void)weir_table_override_at(s->tables[0], s->now, names[OWN], strlen(names[OWN]), "20/s", &err);
}

static void remove_own_limits(void *arg)
{
    struct scene *s = arg;
    struct weir_error err;
    (void)weir_table_override_at(s->tables[0], s->now, names[OWN], strlen(names[OWN]), NULL, &err);
}

static void run_own_limits(const char *limits, const char *own, step_operation *operation)
{
    struct scene s = {0};
    begin(&s, limits, NULL, 4);
    if (own)
        give_own_limits(&s, own);
    else
        CHECK(do_take(&s, 0, OWN, s.now, 1));
    run(&s, operation);
}

TEST(killed_while_a_key_gets_limits_of_its_own)
{
    run_own_limits("10/s", NULL, set_own_limits);
}

TEST(killed_while_a_key_with_two_limits_gets_its_own)
{
    run_own_limits("10/s, 20/m", NULL, set_own_limits);
}

TEST(killed_while_limits_of_a_key_are_changed)
{
    run_own_limits("10/s", "15/s", set_own_limits);
}

TEST(killed_while_limits_of_a_key_are_taken_away)
{
    run_own_limits("10/s", "15/s", remove_own_limits);
}

/* Else it could be given units that are promised already. */
TEST(killed_while_limits_of_a_key_are_taken_away_that_a_promise_was_made_to)
{
    struct scene s = {.owed = true};
    struct weir_reservation r;
    begin(&s, "10/s burst=3", NULL, 4);
    give_own_limits(&s, "20/s burst=3");
    CHECK(weir_table_reserve_at(s.tables[0], s.now, names[OWN], strlen(names[OWN]), 3, WEIR_SEC, &r, NULL));
    CHECK(r.wait_ns > 0);
    run(&s, remove_own_limits);
}

TEST(killed_while_a_key_goes_back_to_two_limits)
{
    run_own_limits("10/s, 20/m", "15/s, 17/m", remove_own_limits);
}

TEST(killed_while_a_key_takes_under_limits_of_its_own)
{
    run_own_limits("10/s, 20/m, 50/h", "15/s, 17/m, 40/h", take_own);
}

/* ---- the whole table ---- */

static void change_limits(void *arg)
{
    struct scene *s = arg;
    struct weir_error err;
    (void)weir_table_set_at(s->tables[0], s->now, "20/s", &err);
}

static void change_limits_by_the_clock(void *arg)
{
    struct scene *s = arg;
    struct weir_error err;
    (void)weir_table_set(s->tables[0], "20/s", &err);
}

static void change_both_limits(void *arg)
{
    struct scene *s = arg;
    struct weir_error err;
    (void)weir_table_set_at(s->tables[0], s->now, "20/s, 30/m", &err);
}

static void do_sweep(void *arg)
{
    struct scene *s = arg;
    (void)weir_table_sweep_at(s->tables[0], s->now, 1000);
}

static void do_grow(void *arg)
{
    struct scene *s = arg;
    struct weir_error err;
    (void)weir_table_grow(s->tables[0], 40, &err);
}

/* Nobody asks for this key until all of it is over. */
static void begin_with_bystander(struct scene *s, const char *limits)
{
    begin(s, limits, NULL, 4);
    CHECK(do_take(s, 0, OTHER, s->now, 5));
    CHECK(weir_table_take_at(s->tables[0], s->now, "bystander", 9, 3, NULL));
}

TEST(killed_while_limits_change)
{
    struct scene s = {0};
    begin_with_bystander(&s, "10/s");
    run(&s, change_limits);
    CHECK_EQ(s.after[0].keys[OTHER].left[0], 5);
}

/* From when the new limits count is then for the others to say. */
TEST(killed_while_limits_change_by_the_clock)
{
    struct scene s = {0};
    begin_with_bystander(&s, "10/s");
    weir_clock_set(s.now);
    run(&s, change_limits_by_the_clock);
    weir_clock_set(-1);
    CHECK_EQ(s.after[0].keys[OTHER].left[0], 5);
}

TEST(killed_while_several_limits_change)
{
    struct scene s = {0};
    begin_with_bystander(&s, "10/s, 20/m");
    give_own_limits(&s, "5/s");
    run(&s, change_both_limits);
    CHECK_EQ(s.after[0].keys[OTHER].left[1], 15);
}

TEST(killed_while_idle_keys_are_swept)
{
    struct scene s = {0};
    begin(&s, "10/s", NULL, 4);
    CHECK(do_take(&s, 0, OTHER, s.now - WEIR_SEC, 1));
    run(&s, do_sweep);
}

TEST(killed_while_idle_keys_with_two_limits_are_swept)
{
    struct scene s = {.options.name_bytes = 4096};
    begin(&s, "10/s, 20/m", NULL, 4);
    run(&s, do_sweep);
}

TEST(killed_while_a_table_grows)
{
    struct scene s = {0};
    begin(&s, "10/s", NULL, 4);
    run(&s, do_grow);
    CHECK(s.after[0].slots > s.before[0].slots);
}

TEST(killed_while_a_table_with_two_limits_grows)
{
    struct scene s = {0};
    begin(&s, "10/s, 20/m", NULL, 4);
    run(&s, do_grow);
    CHECK(s.after[0].slots > s.before[0].slots);
}

/* ---- opening ---- */

static void open_and_close(void *arg)
{
    struct scene *s = arg;
    struct weir_error err;
    weir_table_free(weir_table_make(PATH(s), s->limits[0], &s->options, &err));
}

TEST(killed_while_a_table_is_made)
{
    struct scene s = {.closed = true};
    begin(&s, "10/s", NULL, 4);
    close_all(&s);
    run_kept(&s, open_and_close);
    CHECK_EQ(s.after[0].keys[BUSY].used[0], 0);
}

TEST(killed_while_a_table_is_opened)
{
    struct scene s = {0};
    if (!has_time())
        return;
    begin(&s, "10/s", NULL, 4);
    run(&s, open_and_close);
}

static bool is_charging(void *arg)
{
    const struct scene *s = arg;
    const struct weir_table *table = s->tables[0];
    uint64_t hash = table_hash(table, names[BUSY], strlen(names[BUSY]));
    uint64_t size = weir_stripe_size(table->region->header->shape.journal_size);
    const unsigned char *at = table->region->stripes + table_stripe(table, hash) * size;
    const struct stripe *stripe = (const void *)at;
    return atomic_load(&stripe->journal.state) == JOURNAL_OPEN && atomic_load(&stripe->journal.used) > 0;
}

/* What was half done is undone by the one who opens the file, who is killed in turn. */
TEST(killed_while_a_table_is_opened_that_a_killed_one_has_left)
{
    struct scene s = {.closed = true};
    if (!has_time())
        return;
    begin(&s, "10/s, 20/m, 30/h", NULL, 4);
    pid_t child = step_stop(take_busy, is_charging, &s);
    if (child < 0) {
        end(&s);
        check_skip("no process can be led step by step here");
        return;
    }
    CHECK(child > 0);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    run(&s, open_and_close);
    CHECK_EQ(s.after[0].keys[BUSY].used[0], 2);
}
