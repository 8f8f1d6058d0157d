/* SPDX-License-Identifier: MIT */
/*
 * The anchors of the clock (src/os/clock.h) under every interleaving and every weak behaviour: whoever reads
 * the time reads one anchor, and of those who make the next one only one succeeds. src/os/clock.c is compiled
 * for this program with the explorer's atoms, otherwise as it is.
 */
#include "check.h"
#include "explore/explore.h"
#include "os/clock.h"

enum { COUNTER = 100000, ANCHORS = 3 };

static struct clock the_clock;
static bool answered[EXPLORE_THREADS];
static int64_t told[EXPLORE_THREADS];

/* No two have a word in common, and a mixture tells a time that none tells. */
static struct clock_anchor anchor_of(uint64_t number)
{
    return (struct clock_anchor){.tsc = 1000 * number,
                                 .ns = (int64_t)(1000000 * number),
                                 .rate = number << 32,
                                 .span = COUNTER + number,
                                 .kernel_ns = (int64_t)(10000000 * number),
                                 .measured = 7 * number,
                                 .set = number};
}

static bool is_whole(const struct clock_anchor *anchor)
{
    struct clock_anchor same = anchor_of(anchor->set);
    return memcmp(anchor, &same, sizeof same) == 0;
}

static bool is_told_by(uint64_t number, int64_t ns)
{
    struct clock_anchor anchor = anchor_of(number);
    return ns == anchor.ns + (int64_t)((COUNTER - anchor.tsc) * number);
}

static void setup(void)
{
    struct clock_anchor first = anchor_of(1);
    memset(&the_clock, 0, sizeof the_clock);
    weir_clock_replace(&the_clock, &first);
    memset(answered, 0, sizeof answered);
    explore_name(&the_clock.version, "version");
    explore_name(&the_clock.busy, "busy");
}

static void replace_twice(void)
{
    for (uint64_t number = 2; number <= ANCHORS; number++) {
        struct clock_anchor next = anchor_of(number);
        weir_clock_replace(&the_clock, &next);
    }
}

static void tell(void)
{
    int64_t ns;
    if (!clock_tell(&the_clock, COUNTER, &ns))
        return;
    bool known = false;
    for (uint64_t number = 1; number <= ANCHORS; number++)
        known |= is_told_by(number, ns);
    EXPLORE_CHECK(known);
}

static void read_anchor(void)
{
    uint64_t version;
    struct clock_anchor anchor = weir_clock_anchor(&the_clock, &version);
    EXPLORE_CHECK(is_whole(&anchor) && anchor.set == version);
}

static bool run(bool (*how)(struct explore *e), void (*writer)(void), void (*reader)(void), unsigned weaken)
{
    struct explore e = {.setup = setup, .threads = {writer, reader}, .weaken = weaken};
    return how(&e);
}

TEST(a_time_is_told_by_one_anchor)
{
    CHECK(run(explore_holds, replace_twice, tell, 0));
}

TEST(an_anchor_is_read_whole)
{
    CHECK(run(explore_holds, replace_twice, read_anchor, 0));
}

TEST(without_release_or_acquire_anchors_get_mixed)
{
    CHECK(run(explore_breaks, replace_twice, tell, EXPLORE_RELAXED_LOADS));
    CHECK(run(explore_breaks, replace_twice, tell, EXPLORE_RELAXED_STORES));
    CHECK(run(explore_breaks, replace_twice, read_anchor, EXPLORE_RELAXED_LOADS));
    CHECK(run(explore_breaks, replace_twice, read_anchor, EXPLORE_RELAXED_STORES));
}

/* Each thread finds the anchor over and wants to make the next one. */
static void answer(void)
{
    uint64_t version;
    struct clock_anchor anchor = weir_clock_anchor(&the_clock, &version);
    struct clock_reading reading = {anchor.tsc + anchor.span, anchor.kernel_ns + 1000, true};
    int me = explore_thread();
    answered[me] = weir_clock_answer(&the_clock, &anchor, version, reading, &told[me]);
    if (answered[me])
        EXPLORE_CHECK(told[me] >= anchor.ns);
}

static void one_made_each_version(void)
{
    struct explore_write writes[8];
    size_t count = explore_writes(&the_clock.version, writes, 8);
    EXPLORE_CHECK(count >= 1);
    for (size_t i = 0; i < count; i++)
        EXPLORE_CHECK(writes[i].value == i + 2 && answered[writes[i].thread]);
    EXPLORE_CHECK(atom_load(&the_clock.busy, memory_order_relaxed) == 0);
}

TEST(of_those_who_make_an_anchor_one_succeeds)
{
    struct explore e = {.setup = setup, .threads = {answer, answer, answer}, .finish = one_made_each_version};
    CHECK(explore_holds(&e));
}
