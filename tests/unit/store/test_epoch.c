/* SPDX-License-Identifier: MIT */
#include "os/boot.h"
#include "store/internal.h"
#include "unit/store/store_kit.h"

#define HOUR (3600 * WEIR_SEC)

static unsigned char boot_now;
static bool boot_known = true;
static int64_t wall_now, shift_now;

static bool said_id(unsigned char id[BOOT_ID_SIZE])
{
    memset(id, boot_now, BOOT_ID_SIZE);
    return boot_known;
}

static bool said_shift(int64_t *shift_ns)
{
    *shift_ns = shift_now;
    return true;
}

static int64_t said_wall(void)
{
    return wall_now;
}

struct expect {
    int64_t now_ns, wall_ns; /* of the second process; the first: 10 h and 1000 h */
    unsigned char boot;      /* 1: the same */
    int64_t elapsed_ns, step_ns;
    bool no_elapsed;
    int64_t shift_ns, first_shift_ns; /* of the time namespace, then and at first */
};

/* Store time of the last frame, and then at the start of the next process. */
static void check_one(const struct expect *expect)
{
    struct boot before = weir_boot;
    struct life life;
    weir_boot = (struct boot){.id = said_id, .shift = said_shift, .wall = said_wall};
    boot_now = 1;
    wall_now = 1000 * HOUR;
    shift_now = expect->first_shift_ns;
    life_init(&life, 1, STORE_ALWAYS);
    life.now_ns = 0;
    life_time(&life, 10 * HOUR);
    if (!CHECK(life_begin(&life)))
        return;
    int64_t time = life.now_ns + weir_store_offset(life.store);
    CHECK_EQ(time, 10 * HOUR); /* a new one begins with the machine's time */
    CHECK(weir_store_close(life.store, NULL));
    boot_now = expect->boot;
    wall_now = expect->wall_ns;
    shift_now = expect->shift_ns;
    life_time(&life, expect->now_ns - life.now_ns);
    life.options.no_elapsed = expect->no_elapsed;
    if (CHECK(life_begin(&life))) {
        CHECK_EQ(life.found.elapsed_ns, expect->elapsed_ns);
        CHECK_EQ(life.found.wall_step_ns, expect->step_ns);
        CHECK_EQ(life.found.other_boot, expect->boot != 1 && !expect->no_elapsed);
        CHECK_EQ(life.now_ns + weir_store_offset(life.store), time + expect->elapsed_ns);
        (void)life_raise(&life, 0);
    }
    life_free(&life);
    weir_boot = before;
}

TEST(in_the_same_boot_its_own_clock_tells)
{
    check_one(
        &(struct expect){.now_ns = 12 * HOUR, .wall_ns = 5000 * HOUR, .boot = 1, .elapsed_ns = 2 * HOUR});
}

TEST(a_clock_that_begins_anew_takes_nothing_back)
{
    check_one(&(struct expect){.now_ns = 0, .wall_ns = 1000 * HOUR, .boot = 1, .elapsed_ns = 0});
}

TEST(after_another_boot_the_wall_clock_tells)
{
    check_one(
        &(struct expect){.now_ns = WEIR_SEC, .wall_ns = 1003 * HOUR, .boot = 2, .elapsed_ns = 3 * HOUR});
}

TEST(a_wall_clock_that_was_set_back_counts_as_no_time)
{
    check_one(&(struct expect){
        .now_ns = WEIR_SEC, .wall_ns = 999 * HOUR, .boot = 2, .elapsed_ns = 0, .step_ns = -HOUR});
}

TEST(a_wall_clock_that_is_far_ahead_counts_a_year)
{
    check_one(&(struct expect){.now_ns = WEIR_SEC,
                               .wall_ns = 1000 * HOUR + 3 * STORE_TIME_ELAPSED_MAX_NS,
                               .boot = 2,
                               .elapsed_ns = STORE_TIME_ELAPSED_MAX_NS});
}

TEST(tests_can_say_that_no_time_has_passed)
{
    check_one(&(struct expect){.now_ns = 12 * HOUR, .wall_ns = 1003 * HOUR, .boot = 1, .no_elapsed = true});
    check_one(&(struct expect){.now_ns = 12 * HOUR, .wall_ns = 1003 * HOUR, .boot = 2, .no_elapsed = true});
}

TEST(another_time_namespace_of_the_same_boot_is_the_same_time)
{
    check_one(&(struct expect){.now_ns = 112 * HOUR,
                               .wall_ns = 5000 * HOUR,
                               .boot = 1,
                               .elapsed_ns = 2 * HOUR,
                               .shift_ns = 100 * HOUR});
}

TEST(the_time_namespace_in_which_a_store_was_made_counts)
{
    for (int64_t shift = -3; shift <= 3; shift++)
        check_one(&(struct expect){.now_ns = 12 * HOUR,
                                   .wall_ns = 5000 * HOUR,
                                   .boot = 1,
                                   .elapsed_ns = 2 * HOUR,
                                   .first_shift_ns = shift * HOUR,
                                   .shift_ns = shift * HOUR});
}

TEST(where_nobody_knows_the_boot_the_wall_clock_tells)
{
    boot_known = false;
    check_one(
        &(struct expect){.now_ns = 12 * HOUR, .wall_ns = 1003 * HOUR, .boot = 2, .elapsed_ns = 3 * HOUR});
    boot_known = true;
}
