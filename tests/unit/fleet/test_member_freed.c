/* SPDX-License-Identifier: MIT */
/*
 * A member that is freed while threads wait for it: a build with NDEBUG cancels the waits.
 */
#include <pthread.h>

#include "unit/fleet/member_kit.h"

enum { THREADS = 4 };

static struct weir_limiter *member;
static atomic_int canceled;

static void *wait_for_it(void *arg)
{
    struct weir_verdict said;
    (void)arg;
    if (!weir_limiter_acquire(member, 15, WEIR_FOREVER, &said) && said.reason == WEIR_CANCELED)
        (void)atomic_fetch_add(&canceled, 1);
    return NULL;
}

TEST(who_waits_is_canceled_and_the_member_leaves)
{
    pthread_t threads[THREADS];
    begin(POOL_TURNS);
    member = join("base=10&lost_after=1h&answer=10m&leave=20ms", "100/s algo=quota");
    fake_say(FAKE_SILENT);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, wait_for_it, NULL) == 0);
    EVENTUALLY(stat_of(member).waiting == THREADS);
    weir_limiter_free(member);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    CHECK_EQ(canceled, THREADS);
    EVENTUALLY(fake_counts().places == 0);
}
