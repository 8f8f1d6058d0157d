/* SPDX-License-Identifier: MIT */
/*
 * For tests of members: a clock that the test moves, and waiting for what the agent's thread does.
 */
#ifndef WEIR_TESTS_MEMBER_KIT_H
#define WEIR_TESTS_MEMBER_KIT_H

#include <sched.h>
#include <stdatomic.h>

#include "check.h"
#include "fleet/agent.h"
#include "os/futex.h"
#include "unit/fleet/fake_coordinator.h"
#include "weir-fleet.h"

#define T0       (1000 * WEIR_SEC)
#define PATIENCE (20 * WEIR_SEC) /* of a test, by real time, on a machine that has other work */

/* Gives whether it came true. */
#define EVENTUALLY(COND)                                                                                     \
    __extension__({                                                                                          \
        int64_t until_ns_ = weir_monotonic_ns() + PATIENCE;                                                  \
        bool came_;                                                                                          \
        while (!(came_ = (COND)) && weir_monotonic_ns() < until_ns_)                                         \
            (void)sched_yield();                                                                             \
        check_true(came_, #COND, __FILE__, __LINE__);                                                        \
    })

static struct weir_error err;

static inline struct weir_fleet_stat stat_of(struct weir_limiter *member)
{
    struct weir_fleet_stat stat = {0};
    CHECK(weir_fleet_stat(member, &stat));
    return stat;
}

/* The clock stands at T0, nobody is joined, the fake coordinator is new. Who has left before did not wait for
 * a thread that is slow. */
static inline void begin(enum lease_pool_flags way)
{
    EVENTUALLY(fake_counts().open == 0 && fake_counts().places == 0);
    weir_clock_set(T0);
    fake_begin(way);
    memset(&err, 0, sizeof err);
}

static inline struct weir_limiter *join(const char *query, const char *spec)
{
    char url[128];
    (void)snprintf(url, sizeof url, "fake://here?%s", query);
    struct weir_limiter *member = weir_fleet_join(url, "egress", spec, &err);
    if (!CHECK(member != NULL))
        printf("# %s\n", err.text);
    return member;
}

/* How often an asynchronous take was answered, and how. */
struct answer {
    atomic_int calls, allowed, reason, order;
};
static atomic_int answers;

static inline void note_answer(void *arg, const struct weir_verdict *said)
{
    struct answer *answer = arg;
    atomic_store(&answer->allowed, said->allowed);
    atomic_store(&answer->reason, said->reason);
    atomic_store(&answer->order, atomic_fetch_add(&answers, 1) + 1);
    (void)atomic_fetch_add(&answer->calls, 1);
}

static inline bool has_mail(struct fleet_member *member)
{
    lock_take(&member->agent->lock);
    bool listed = member->mail.listed;
    lock_drop(&member->agent->lock);
    return listed;
}

/* The agent's thread gets its turn, however busy the machine is: it has done what is due now, and read a
 * reply that came at once. When it reads the last of these, it is done with those before. */
static inline void let_run(struct weir_limiter *limiter)
{
    struct fleet_member *member = weir_member_of(limiter);
    for (int i = 0; i < 3; i++) {
        weir_inbox_post(member, INBOX_HURRY, 0); /* which is nothing to who does not leave */
        EVENTUALLY(!has_mail(member));
    }
}

/* Takes n while the clock moves on, in steps of 1/8 ms of its time, until it is answered. */
static inline bool take_moving(struct weir_limiter *member, int64_t n, int64_t timeout_ns)
{
    struct answer answer = {0};
    CHECK(weir_fleet_take(member, n, timeout_ns, note_answer, &answer));
    for (int64_t steps = 0; answer.calls == 0 && steps < 8 * (timeout_ns / WEIR_MS + 1); steps++) {
        let_run(member);
        if (answer.calls == 0)
            weir_clock_set(weir_now() + WEIR_MS / 8);
    }
    EVENTUALLY(answer.calls == 1);
    return answer.allowed;
}

#endif
