/* SPDX-License-Identifier: MIT */
/*
 * The public interface: weir-fleet.h.
 */
#include "base/sat.h"
#include "fleet/agent.h"

struct weir_limiter *weir_fleet_join_with(const char *url, const char *name, const char *spec,
                                          const struct weir_fleet_options *options, struct weir_error *err)
{
    return weir_member_join(url, name, spec, options, false, err);
}

struct weir_limiter *weir_fleet_join(const char *url, const char *name, const char *spec,
                                     struct weir_error *err)
{
    return weir_fleet_join_with(url, name, spec, NULL, err);
}

bool weir_fleet_take(struct weir_limiter *limiter, int64_t n, int64_t timeout_ns, weir_fleet_answer *answer,
                     void *arg)
{
    struct fleet_member *member = weir_member_of(limiter);
    return member && n >= 1 && answer && weir_claims_take(member, weir_now(), n, timeout_ns, answer, arg);
}

bool weir_fleet_listen(struct weir_limiter *limiter, weir_fleet_listener *listener, void *arg)
{
    struct fleet_member *member = weir_member_of(limiter);
    if (!member)
        return false;
    lock_take(&member->lock);
    member->listener = listener;
    member->listener_arg = arg;
    lock_drop(&member->lock);
    return true;
}

bool weir_fleet_stat(struct weir_limiter *limiter, struct weir_fleet_stat *stat)
{
    struct fleet_member *member = weir_member_of(limiter);
    if (!member || !stat)
        return false;
    lock_take(&member->lock);
    *stat = member->stat;
    stat->waiting = member->claims.count;
    lock_drop(&member->lock);
    stat->held = sat_add(stat->held, weir_balance_held(&member->balance));
    stat->spent = sat_add(stat->spent, weir_balance_spent(&member->balance));
    stat->dropped = sat_add(stat->dropped, weir_balance_dropped(&member->balance));
    stat->ends_in_ns = max64(sat_sub(stat->ends_in_ns, weir_now()), 0);
    return true;
}

static bool is_exhausted(const struct fleet_member *member)
{
    return atom_load(&member->view.exhausted, memory_order_relaxed);
}

size_t weir_fleet_exhausted(void (*each)(void *arg, const char *name), void *arg)
{
    return weir_agents_names(is_exhausted, each, arg);
}
