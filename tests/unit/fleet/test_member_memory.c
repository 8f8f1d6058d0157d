/* SPDX-License-Identifier: MIT */
/*
 * Joining, waiting and leaving while memory runs out: each allocation fails once.
 */
#include "unit/failing_memory.h"
#include "unit/fleet/member_kit.h"

static bool story(void)
{
    struct weir_limiter *member = weir_fleet_join("fake://here?base=10", "egress", "100/s algo=quota", &err);
    if (!member) {
        CHECK(err.text[0] != '\0');
        return false;
    }
    struct answer answer = {0};
    bool begun = weir_fleet_take(member, 5, WEIR_SEC / 2, note_answer, &answer);
    if (begun)
        EVENTUALLY(answer.calls == 1);
    bool passed = weir_limiter_acquire(member, 5, WEIR_SEC / 2, NULL);
    weir_limiter_free(member);
    CHECK_EQ(answer.calls, begun);
    return begun && passed;
}

TEST(whatever_allocation_fails_nothing_is_lost_and_nobody_waits_for_ever)
{
    bool done = false;
    int64_t failing = 0;
    for (; !done && failing < 100; failing++) {
        begin(POOL_TURNS);
        allocations_left = failing;
        done = story();
        done = allocations_left >= 0 && done; /* none has failed */
        allocations_left = -1;
        EVENTUALLY(fake_counts().places == 0 && fake_counts().open == 0);
    }
    CHECK(done);
    CHECK(failing > 5);
}
