/* SPDX-License-Identifier: MIT */
#include "service/leased.h"

#include "base/sat.h"
#include "table/table.h"

/* Somebody who could not be told when to come again. */
#define RETRY_NS (10 * WEIR_MS)

static struct pool_member *enter(const struct worker *worker, const struct pair *pair, bool make)
{
    const struct policy *policy = pair->policy;
    uint64_t who = pair->who;
    if (who == 0 && policy->pools->each)
        who = table_who(policy->main->table, pair->key.bytes, pair->key.len);
    bool named = pair->key.bytes || !policy->pools->each; /* else only its identity is known: settle.c */
    return weir_pools_enter(policy->pools, pair->key, who, worker->now_ns, make && named);
}

static bool refuse(struct weir_verdict *verdict, enum weir_reason reason, int64_t retry_ns)
{
    *verdict = (struct weir_verdict){
        .reason = (int32_t)reason, .retry_after_ns = retry_ns, .reset_after_ns = retry_ns};
    return false;
}

/* A pool that is being joined is one whose coordinator is not there yet. */
static bool refuse_new(const struct policy *policy, struct leased *leased)
{
    leased->hopes = policy->pools->wait_ns > 0;
    return refuse(&leased->verdict, WEIR_LOST, max64(policy->pools->wait_ns, RETRY_NS));
}

static bool is_hopeful(const struct pools *pools, struct weir_limiter *limiter,
                       const struct weir_verdict *verdict)
{
    struct weir_fleet_stat stat = {0};
    if (pools->wait_ns == 0 || verdict->reason != WEIR_LATER)
        return false;
    if (verdict->retry_after_ns <= pools->wait_ns)
        return true;
    return weir_fleet_stat(limiter, &stat) && !stat.exhausted && !stat.lost;
}

/* The end is read before the units are taken. It only grows: so what was taken has this one, or a later one.
 */
static bool take_from(const struct pools *pools, struct weir_limiter *limiter, int64_t n,
                      struct leased *leased)
{
    const struct pot *pot = weir_limiter_pot(limiter);
    leased->until_ns = pot ? (int64_t)atom_load(&pot->until, memory_order_acquire) : 0;
    if (weir_limiter_take(limiter, n, &leased->verdict))
        return true;
    leased->hopes = is_hopeful(pools, limiter, &leased->verdict);
    return false;
}

bool weir_leased_take(const struct worker *worker, const struct pair *pair, struct leased *leased)
{
    struct pool_member *member = enter(worker, pair, true);
    *leased = (struct leased){0};
    if (!member)
        return refuse(&leased->verdict, WEIR_FULL, WEIR_SEC);
    struct weir_limiter *limiter = pool_limiter(member);
    bool taken =
        limiter ? take_from(pair->policy->pools, limiter, pair->n, leased) : refuse_new(pair->policy, leased);
    weir_pools_leave(member);
    return taken;
}

bool weir_leased_peek(const struct worker *worker, const struct pair *pair, struct weir_verdict *verdict)
{
    struct pool_member *member = enter(worker, pair, true);
    struct weir_limiter *limiter = member ? pool_limiter(member) : NULL;
    bool would = limiter  ? weir_limiter_peek(limiter, pair->n, verdict)
                 : member ? refuse(verdict, WEIR_LOST, RETRY_NS)
                          : refuse(verdict, WEIR_FULL, WEIR_SEC);
    weir_pools_leave(member);
    return would;
}

void weir_leased_give(const struct worker *worker, const struct pair *pair)
{
    struct pool_member *member = enter(worker, pair, false);
    struct weir_limiter *limiter = member ? pool_limiter(member) : NULL;
    if (limiter)
        weir_limiter_give(limiter, pair->n);
    weir_pools_leave(member);
}

bool weir_leased_charge(const struct worker *worker, const struct pair *pair)
{
    struct pool_member *member = enter(worker, pair, true);
    struct weir_limiter *limiter = member ? pool_limiter(member) : NULL;
    if (limiter)
        weir_limiter_charge(limiter, pair->n);
    weir_pools_leave(member);
    return limiter != NULL;
}

void weir_leased_return(const struct worker *worker, const struct pair *pair, int64_t until_ns)
{
    struct pool_member *member = enter(worker, pair, false);
    struct weir_limiter *limiter = member ? pool_limiter(member) : NULL;
    struct pot *pot = limiter ? weir_limiter_pot(limiter) : NULL;
    if (pot)
        (void)weir_pot_give_under(pot, weir_now(), pair->n, until_ns);
    weir_pools_leave(member);
}
