/* SPDX-License-Identifier: MIT */
#include "service/leases/leased.h"

#include "base/sat.h"
#include "table/table.h"

/* Somebody who could not be told when to come again. */
#define RETRY_NS (10 * WEIR_MS)

static struct pool_member *enter_pool(const struct worker *worker, const struct pair *pair, bool make)
{
    const struct policy *policy = pair->policy;
    uint64_t hash = pair->hash;
    if (hash == 0 && policy->pools->each)
        hash = table_hash(policy->main->table, pair->key.bytes, pair->key.len);
    bool named = pair->key.bytes || !policy->pools->each; /* else only its identity is known: settle.c */
    return weir_pools_enter(policy->pools, pair->key, hash, worker->now_ns, make && named);
}

static bool refuse_lease(struct weir_verdict *verdict, enum weir_reason reason, int64_t retry_ns)
{
    *verdict = (struct weir_verdict){
        .reason = (int32_t)reason, .retry_after_ns = retry_ns, .reset_after_ns = retry_ns};
    return false;
}

/* A pool that is being joined is one whose coordinator is not there yet. */
static bool refuse_new(const struct policy *policy, struct leased_answer *leased)
{
    leased->may_come = policy->pools->wait_ns > 0;
    return refuse_lease(&leased->verdict, WEIR_LOST, max64(policy->pools->wait_ns, RETRY_NS));
}

static bool is_more_coming(const struct fleet_pools *pools, struct weir_limiter *limiter,
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
static bool take_from(const struct fleet_pools *pools, struct weir_limiter *limiter, int64_t n,
                      struct leased_answer *leased)
{
    const struct lease_balance *balance = weir_limiter_balance(limiter);
    leased->until_ns = balance ? (int64_t)atom_load(&balance->until, memory_order_acquire) : 0;
    if (weir_limiter_take(limiter, n, &leased->verdict))
        return true;
    leased->may_come = is_more_coming(pools, limiter, &leased->verdict);
    return false;
}

bool weir_leased_take(const struct worker *worker, const struct pair *pair, struct leased_answer *leased)
{
    struct pool_member *member = enter_pool(worker, pair, true);
    *leased = (struct leased_answer){0};
    if (!member)
        return refuse_lease(&leased->verdict, WEIR_FULL, WEIR_SEC);
    struct weir_limiter *limiter = pool_limiter(member);
    bool taken =
        limiter ? take_from(pair->policy->pools, limiter, pair->n, leased) : refuse_new(pair->policy, leased);
    weir_pools_leave(member);
    return taken;
}

bool weir_leased_peek(const struct worker *worker, const struct pair *pair, struct weir_verdict *verdict)
{
    struct pool_member *member = enter_pool(worker, pair, true);
    struct weir_limiter *limiter = member ? pool_limiter(member) : NULL;
    bool would = limiter  ? weir_limiter_peek(limiter, pair->n, verdict)
                 : member ? refuse_lease(verdict, WEIR_LOST, RETRY_NS)
                          : refuse_lease(verdict, WEIR_FULL, WEIR_SEC);
    weir_pools_leave(member);
    return would;
}

void weir_leased_give(const struct worker *worker, const struct pair *pair)
{
    struct pool_member *member = enter_pool(worker, pair, false);
    struct weir_limiter *limiter = member ? pool_limiter(member) : NULL;
    if (limiter)
        weir_limiter_give(limiter, pair->n);
    weir_pools_leave(member);
}

bool weir_leased_charge(const struct worker *worker, const struct pair *pair)
{
    struct pool_member *member = enter_pool(worker, pair, true);
    struct weir_limiter *limiter = member ? pool_limiter(member) : NULL;
    if (limiter)
        weir_limiter_charge(limiter, pair->n);
    weir_pools_leave(member);
    return limiter != NULL;
}

void weir_leased_return(const struct worker *worker, const struct pair *pair, int64_t until_ns)
{
    struct pool_member *member = enter_pool(worker, pair, false);
    struct weir_limiter *limiter = member ? pool_limiter(member) : NULL;
    struct lease_balance *balance = limiter ? weir_limiter_balance(limiter) : NULL;
    if (balance)
        (void)weir_balance_give_under(balance, weir_now(), pair->n, until_ns);
    weir_pools_leave(member);
}
