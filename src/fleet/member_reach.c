/* SPDX-License-Identifier: MIT */
/*
 * Waiting for the coordinator: whoever joins waits until it is reached, and a moment longer for the first
 * units, so that the first take does not have to. Where it is not reached, joining fails, or the member
 * starts as lost (unreached=lost). By real time: nobody may be there to move a clock that is set.
 */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/sat.h"
#include "base/text.h"
#include "fleet/agent.h"
#include "os/futex.h"

#define GRACE_NS (200 * WEIR_MS) /* after connect_ns, for a thread that is about to be done */
#ifndef FIRST_NS                 /* tests have more patience than a quarter of a second */
#define FIRST_NS (250 * WEIR_MS) /* for the first units, of a coordinator that is there */
#endif

/* Has it come to an end? *good: in which way. */
typedef bool reach_check(struct fleet_member *member, uint64_t failures, bool *good, struct weir_error *err);

static bool is_reached(struct fleet_member *member, uint64_t failures, bool *good, struct weir_error *err)
{
    struct fleet_agent *agent = member->agent;
    uint32_t enter = atomic_load_explicit(&member->enter, memory_order_acquire);
    *good = enter == ENTER_DONE;
    if (*good)
        return true;
    lock_take(&agent->lock);
    bool failed = enter == ENTER_FAILED || atom_load(&agent->failures, memory_order_acquire) != failures;
    if (failed && err)
        *err = enter == ENTER_FAILED ? member->enter_error : agent->error;
    lock_drop(&agent->lock);
    return failed;
}

static bool has_first_units(struct fleet_member *member, uint64_t failures, bool *good,
                            struct weir_error *err)
{
    uint32_t first = atomic_load_explicit(&member->first, memory_order_acquire);
    (void)failures;
    *good = first != FIRST_FORBIDDEN;
    if (!*good) {
        lock_take(&member->agent->lock);
        (void)weir_error_complain_as(err, EHOSTUNREACH, "%s", member->trouble);
        lock_drop(&member->agent->lock);
    }
    return first != FIRST_NOT_YET;
}

/* false: the time has passed before it was over. */
static bool wait_for_news(struct fleet_member *member, reach_check *over, uint64_t failures, int64_t ns,
                          bool *good, struct weir_error *err)
{
    struct fleet_agent *agent = member->agent;
    int64_t until_ns = sat_add(weir_monotonic_ns(), ns);
    for (;;) {
        uint32_t news = atomic_load_explicit(&agent->news, memory_order_acquire);
        if (over(member, failures, good, err))
            return true;
        if (weir_monotonic_ns() >= until_ns)
            return false;
        weir_futex_wait(&agent->news, news, until_ns);
    }
}

/* Every error says which coordinator it is about. */
static bool prefix_error_with_url(const struct fleet_member *member, struct weir_error *err)
{
    char line[sizeof err->text];
    struct text text;
    if (!err || strstr(err->text, member->agent->url.shown))
        return false;
    weir_text_init(&text, line, sizeof line);
    weir_text_print(&text, "%.80s: %s", member->agent->url.shown, err->text);
    weir_error_set(err, err->code != 0 ? err->code : ENOTCONN, line);
    return false;
}

/* Of a coordinator that is there. false: it has said why not. */
static bool await_first_units(struct fleet_member *member, int64_t ns, struct weir_error *err)
{
    bool good = false;
    weir_inbox_post(member, INBOX_WANT, 1);
    bool over = wait_for_news(member, has_first_units, 0, ns, &good, err);
    return !over || good || prefix_error_with_url(member, err);
}

bool weir_member_reach(struct fleet_member *member, int64_t connect_ns, struct weir_error *err)
{
    uint64_t failures = atom_load(&member->agent->failures, memory_order_acquire);
    bool good = false;
    weir_inbox_post(member, INBOX_JOIN, 0);
    if (!wait_for_news(member, is_reached, failures, sat_add(connect_ns, GRACE_NS), &good, err))
        weir_error_set(err, ETIMEDOUT,
                       "no answer in time; is it up, and may it be reached from here? "
                       "(connect= waits longer)");
    if (!good)
        return prefix_error_with_url(member, err);
    return await_first_units(member, min64(FIRST_NS, connect_ns), err);
}

/* It is lost, or there after all. */
static bool is_lost_or_reached(struct fleet_member *member, uint64_t failures, bool *good,
                               struct weir_error *err)
{
    (void)failures, (void)err;
    *good = atomic_load_explicit(&member->enter, memory_order_acquire) != ENTER_NOT_YET;
    lock_take(&member->lock);
    *good = *good || member->stat.lost;
    lock_drop(&member->lock);
    return *good;
}

bool weir_member_begin_lost(struct fleet_member *member, struct weir_error *err)
{
    bool good = false;
    if (atomic_load_explicit(&member->enter, memory_order_acquire) == ENTER_NOT_YET) {
        weir_inbox_post(member, INBOX_AWAY, 0);
        (void)wait_for_news(member, is_lost_or_reached, 0, FIRST_NS, &good, NULL);
    }
    switch (atomic_load_explicit(&member->enter, memory_order_acquire)) { /* it may have come meanwhile */
    case ENTER_DONE:
        return await_first_units(member, FIRST_NS, err);
    case ENTER_FAILED:
        lock_take(&member->agent->lock);
        if (err)
            *err = member->enter_error;
        lock_drop(&member->agent->lock);
        return prefix_error_with_url(member, err);
    default:
        return true;
    }
}
