/* SPDX-License-Identifier: MIT */
#include "service/leases/lend.h"

#include "base/assert.h"
#include "base/sat.h"
#include "service/engine/adjust.h"
#include "service/engine/count.h"
#include "service/leases/leased.h"
#include "service/run.h"
#include "table/table.h"

#define LEASE_MIN_NS WEIR_MS /* a shorter one could not be told */
#define TAKES_MAX    8       /* attempts, while others take from the same table */
#define RETRY_NS     (10 * WEIR_MS)

/* ---- the account ---- */

static void record_lent(const struct worker *worker, const struct lease_request *ask,
                        const struct lease_result *result, int64_t until_ns, int64_t units)
{
    ASSERT(units <= result->units); /* no more can come back than was lent */
    struct pool_member *member =
        weir_pools_enter(ask->pools, ask->pair.key, ask->pair.hash, worker->now_ns, true);
    if (!member)
        return; /* no room: what comes back of it is not accepted */
    pthread_mutex_lock(&member->lent);
    if (member->lent_epoch != result->epoch || member->lent_until_ns != until_ns)
        member->lent_units = 0;
    member->lent_epoch = result->epoch;
    member->lent_until_ns = until_ns;
    member->lent_units = sat_add(member->lent_units, units);
    pthread_mutex_unlock(&member->lent);
    weir_pools_leave(member);
}

/* What a chunk was when it was lent. */
static int64_t chunk_back(const struct lease_request *ask)
{
    return max64(ask->pair.n / max64(ask->chunks, 1), 1);
}

/* How many units of them are accepted, whole chunks, and with which end they were leased. */
static int64_t strike_lent(const struct worker *worker, const struct lease_request *ask, uint64_t epoch,
                           int64_t *until_ns)
{
    struct pool_member *member =
        weir_pools_enter(ask->pools, ask->pair.key, ask->pair.hash, worker->now_ns, false);
    int64_t units = 0;
    if (!member)
        return 0;
    pthread_mutex_lock(&member->lent);
#if WEIR_ASSERTIONS
    int64_t lent = member->lent_units;
#endif
    if (member->lent_epoch == epoch && worker->now_ns < member->lent_until_ns)
        units = min64(ask->pair.n, member->lent_units);
    units -= units % chunk_back(ask);
    member->lent_units -= units;
#if WEIR_ASSERTIONS
    ASSERT(units >= 0 && member->lent_units >= 0 && member->lent_units + units == lent);
    ASSERT(units == 0 || (epoch == member->lent_epoch && member->lent_until_ns > worker->now_ns));
#endif
    *until_ns = member->lent_until_ns;
    pthread_mutex_unlock(&member->lent);
    weir_pools_leave(member);
    return units;
}

/* ---- counting ---- */

static void count_refusal(struct worker *worker, const struct lease_request *ask)
{
    count_up(&worker->refused, 1);
    count_refused(worker, ask->pair.policy, leased_label(ask->pair.policy));
}

void weir_lend_count(struct worker *worker, const struct lease_request *ask,
                     const struct lease_result *result)
{
    if (result->units == 0) {
        count_refusal(worker, ask);
        return;
    }
    count_up(&worker->allowed, 1);
    count_allowed(worker, ask->pair.policy, result->units, false);
}

/* ---- a root ---- */

/* The epoch of the table's window, which is never 0, and how far off its end is. What is changed in a window
 * begins another epoch: nodes learn the new size of a chunk, and hold back what they have of the old one. */
static uint64_t window_now(const struct lease_request *ask, int64_t now_ns, int64_t *left_ns)
{
    const struct fleet_pools *pools = ask->pools;
    int64_t period = pools->terms.window_ns;
    int64_t time = max64(region_time(ask->pair.policy->main->table->region, now_ns), 0);
    uint64_t began = (uint64_t)(time - time % period) + pools->ahead;
    *left_ns = period - time % period;
    uint64_t epoch = (pools->changed && pools->epoch > began ? pools->epoch : began) + 1;
    ASSERT(epoch > began && (!pools->changed || epoch > pools->epoch) && *left_ns > 0 && *left_ns <= period);
    return epoch;
}

/* What the table has left, and when it has n. */
static int64_t peek_root_table(struct worker *worker, const struct lease_request *ask, int64_t n,
                               struct lease_result *result)
{
    struct pair pair = ask->pair;
    struct answer answer;
    pair.n = n;
    weir_decide_peek(worker, &pair, 1, &answer);
    result->left = answer.remaining == INT64_MAX ? -1 : answer.remaining;
    result->retry_ns = answer.retry_after_ns;
    return answer.remaining;
}

/* As many units as there are, up to pair.n: whole chunks, and perhaps a smaller one. Counts. */
static int64_t take_units(struct worker *worker, const struct lease_request *ask, struct lease_result *result)
{
    struct pair pair = ask->pair;
    struct answer answer;
    for (int i = 0; i < TAKES_MAX; i++) {
        int64_t room = peek_root_table(worker, ask, 1, result);
        pair.n = ask->mode == MODE_ENFORCE ? min64(ask->pair.n, room) : ask->pair.n;
        if (pair.n == 0)
            break;
        weir_decide_take(worker, &pair, 1, &answer);
        worker->changed |= answer.changed;
        if (answer.allowed) {
            result->left = answer.remaining == INT64_MAX ? -1 : answer.remaining;
            return pair.n;
        }
    }
    count_refusal(worker, ask);
    return 0;
}

/* What is worth another question: a chunk, if it can be spent while it lives, and the bucket holds so many
 * (read_fleet.c). */
static int64_t worth_asking(const struct fleet_pools *pools)
{
    const struct lease_terms *terms = &pools->terms;
    int64_t outside = mul_div_up(pools->hold_ns, terms->total, terms->window_ns);
    return max64(min64(pools->child_chunk, min64(outside / 4, terms->burst - outside)), 1);
}

static void lend_at_root(struct worker *worker, const struct lease_request *ask, struct lease_result *result)
{
    bool quota = ask->pools->terms.kind == LEASE_QUOTA;
    int64_t left_ns = ask->pools->hold_ns;
    result->epoch = quota ? window_now(ask, worker->now_ns, &left_ns) : ask->pools->epoch;
    result->left = -1;
    if (quota && left_ns < LEASE_MIN_NS && ask->pair.n > 0) {
        result->retry_ns = left_ns;
        return;
    }
    if (ask->pair.n > 0)
        result->units = take_units(worker, ask, result);
    else
        (void)peek_root_table(worker, ask, 1, result);
    /* Whoever was given crumbs would come for each one that falls. */
    if (!quota && result->units < ask->pair.n)
        (void)peek_root_table(worker, ask, worth_asking(ask->pools), result);
    result->ends_ns = left_ns;
    result->chunks = div_up(result->units, ask->pools->child_chunk);
    ASSERT(result->ends_ns <= left_ns && (quota || result->epoch >= ask->pools->epoch));
    ASSERT(result->units >= 0 && result->units <= ask->pair.n);
    if (quota && result->units > 0 && ask->mode == MODE_ENFORCE)
        record_lent(worker, ask, result, sat_add(worker->now_ns, left_ns),
                    result->units - result->units % ask->pools->child_chunk);
}

/* ---- another tier ---- */

/* Whole chunks out of the balance, as many as it has; what is smaller than one stays for takes. */
static int64_t take_chunks(const struct lease_request *ask, struct lease_balance *balance, int64_t *until_ns)
{
    int64_t chunk = ask->pools->child_chunk;
    for (int i = 0; i < TAKES_MAX; i++) {
        int64_t now_ns = weir_now(), room = weir_balance_room(balance, now_ns, until_ns);
        int64_t chunks = min64(ask->chunks, room / chunk);
        if (chunks == 0)
            break;
        if (weir_balance_lease(balance, now_ns, chunks * chunk, until_ns))
            return chunks;
    }
    /* A bucket's balance would wait until it has all of them; whoever leases takes what there is. */
    weir_balance_missed(balance, ask->pools->terms.kind == LEASE_BUCKET ? chunk : ask->pair.n);
    return 0;
}

static void lend_from(const struct worker *worker, const struct lease_request *ask,
                      struct weir_limiter *limiter, struct lease_result *result)
{
    struct weir_fleet_stat stat = {0};
    struct lease_balance *balance = weir_limiter_balance(limiter);
    int64_t until_ns = 0;
    if (!weir_fleet_stat(limiter, &stat) || !balance || stat.epoch == 0)
        return; /* nothing is taken that could not be told */
    if (ask->chunks > 0)
        result->chunks = take_chunks(ask, balance, &until_ns);
    (void)weir_fleet_stat(limiter,
                          &stat); /* afterwards: an epoch is known before its units are in the balance */
    result->epoch = stat.epoch;
    result->left = stat.left;
    if (pools_differ(ask->pools, &stat)) {
        result->terms.kind = stat.burst > 0 ? LEASE_BUCKET : LEASE_QUOTA;
        result->terms.total = stat.total;
        result->terms.window_ns = stat.window_ns;
        result->terms.burst = stat.burst;
    }
    result->units = result->chunks * ask->pools->child_chunk;
    result->ends_ns = max64(until_ns - weir_now(), 0);
    ASSERT(result->ends_ns <= max64(until_ns - worker->now_ns, 0) &&
           (result->units == 0 || result->epoch != 0));
    if (result->units > 0 && result->ends_ns < LEASE_MIN_NS) {
        result->units = result->chunks = 0; /* spent: they could not be told */
        result->retry_ns = max64(result->ends_ns, RETRY_NS);
        return;
    }
    if (result->chunks > 0) {
        record_lent(worker, ask, result, until_ns, result->units);
        result->retry_ns = 0;
        return;
    }
    struct weir_verdict verdict = {0};
    (void)weir_limiter_peek(limiter, ask->pools->child_chunk, &verdict); /* which knows when to come again */
    bool known = verdict.retry_after_ns > RETRY_NS && verdict.retry_after_ns != WEIR_FOREVER;
    result->may_come = !stat.exhausted && !stat.lost;
    result->retry_ns = known ? verdict.retry_after_ns : RETRY_NS;
}

static void lend_on(struct worker *worker, const struct lease_request *ask, struct lease_result *result)
{
    struct pool_member *member =
        weir_pools_enter(ask->pools, ask->pair.key, ask->pair.hash, worker->now_ns, true);
    struct weir_limiter *limiter = member ? pool_limiter(member) : NULL;
    result->left = -1;
    result->retry_ns = RETRY_NS;
    result->may_come = member && !limiter;
    result->full = !member;
    if (limiter)
        lend_from(worker, ask, limiter, result);
    weir_pools_leave(member);
}

/* ---- both ---- */

void weir_lend(struct worker *worker, const struct lease_request *ask, struct lease_result *result)
{
    (ask->pools->local ? lend_at_root : lend_on)(worker, ask, result);
}

int64_t weir_lend_back(struct worker *worker, const struct lease_request *ask, uint64_t epoch)
{
    struct pair pair = ask->pair;
    uint64_t current = epoch;
    int64_t until_ns = 0, left_ns;
    if (ask->pools->local)
        current = ask->pools->terms.kind == LEASE_QUOTA ? window_now(ask, worker->now_ns, &left_ns) : 0;
    pair.n = current == epoch && ask->chunks > 0 ? strike_lent(worker, ask, epoch, &until_ns) : 0;
    if (pair.n > 0 && ask->pools->local)
        weir_decide_give(worker, &pair);
    else if (pair.n > 0)
        weir_leased_return(worker, &pair, until_ns);
    return pair.n / chunk_back(ask);
}
