/* SPDX-License-Identifier: MIT */
#include "lease/pool.h"

#include <string.h>

#include "base/sat.h"
#include "lease/check.h"

/* ---- epochs ---- */

static bool pool_is_bucket(const struct lease_pool *pool)
{
    return pool->terms.kind == LEASE_BUCKET;
}

/* Which of `next` hold from the new epoch on; `chunk` may come from a node and is not believed. */
static void begin_epoch(struct lease_pool *pool, int64_t chunk, int64_t began)
{
    int64_t most = pool->next.kind == LEASE_BUCKET ? pool->next.burst / 2 : pool->next.total;
    int64_t least =
        pool->next.kind == LEASE_BUCKET ? 1 : div_up(max64(pool->next.total, 0), TICKET_COUNT_MAX);
    pool->terms = pool->next;
    pool->terms.chunk = max64(1, min64(max64(chunk > 0 ? chunk : pool->next.base, least), most));
    pool->epoch++;
    pool->began_ns = began;
    pool->used = pool->returned = pool->exhausted_ns = 0;
}

/* The bucket is full at `now`; 1 ns later than exactly, since ends are rounded down. */
static int64_t full_origin(const struct lease_pool *pool, const struct lease_terms *terms, int64_t now)
{
    int64_t back = pool->way == POOL_TURNS ? weir_ticket_life(terms) : weir_ticket_back(terms);
    return sat_add(sat_sub(now, back), 1);
}

static bool pool_terms_changed(const struct lease_pool *pool)
{
    const struct lease_terms *now = &pool->terms, *next = &pool->next;
    return now->kind != next->kind || now->total != next->total || now->window_ns != next->window_ns ||
           now->burst != next->burst || now->base != next->base;
}

/* Whatever was issued is dead by then, whenever that was and whatever the clock has done since. */
static int64_t pool_longest_life(const struct lease_terms *terms)
{
    return sat_add(weir_ticket_ahead(terms), weir_ticket_life(terms));
}

/* Is the next ticket to be passed over: dead, without a number, or so far ahead that the clock was set back?
 */
static bool pool_is_stale(const struct lease_pool *pool, int64_t now)
{
    int64_t starts, ends;
    return pool->used >= weir_ticket_count(&pool->terms) ||
           !weir_ticket_span(&pool->terms, pool->used, sat_sub(now, pool->began_ns), &starts, &ends) ||
           starts > pool_longest_life(&pool->terms);
}

/* A bucket is numbered anew (ticket.h says why it may be). false: it may not now. */
static bool number_anew(struct lease_pool *pool, int64_t now)
{
    int64_t starts, ends;
    if (!pool_is_stale(pool, now) && !pool_terms_changed(pool))
        return false;
    bool lives = weir_ticket_span(&pool->terms, pool->used, sat_sub(now, pool->began_ns), &starts, &ends);
    int64_t full = full_origin(pool, &pool->next, now);
    int64_t dead = sat_add(now, min64(ends, pool_longest_life(&pool->terms)));
    bool bucket = pool->next.kind == LEASE_BUCKET;
    begin_epoch(pool, pool->next.chunk, !bucket ? now : lives ? max64(full, sat_add(dead, 1)) : full);
    return true;
}

static bool quota_is_over(const struct lease_pool *pool, int64_t now)
{
    return sat_sub(now, pool->began_ns) >= pool->terms.window_ns;
}

static int64_t pool_next_chunk(const struct lease_pool *pool)
{
    int64_t lasted = pool->exhausted_ns ? sat_sub(pool->exhausted_ns, pool->began_ns) : pool->terms.window_ns;
    struct lease_terms terms = pool->next;
    terms.chunk = pool->terms.chunk;
    return weir_chunk_next(&terms, pool->used, max64(lasted, 0), 0);
}

/* POOL_TURNS: what is over by its own clock ends, and begins when somebody asks. */
static void pool_turn_itself(struct lease_pool *pool, int64_t now)
{
    if (pool->way != POOL_TURNS)
        return;
    if (pool_is_bucket(pool)) {
        if (pool_terms_changed(pool) || pool->used >= weir_ticket_count(&pool->terms))
            (void)number_anew(pool, now);
    } else if (quota_is_over(pool, now)) {
        int64_t chunk = pool_next_chunk(pool);
        bool bucket = pool->next.kind == LEASE_BUCKET;
        begin_epoch(pool, chunk, bucket ? full_origin(pool, &pool->next, now) : now);
    }
}

void weir_pool_begin(struct lease_pool *pool, enum lease_pool_flags way, const struct lease_terms *terms,
                     int64_t now)
{
    *pool = (struct lease_pool){.way = (int32_t)way, .next = *terms};
    bool bucket = terms->kind == LEASE_BUCKET;
    begin_epoch(pool, terms->chunk, bucket ? full_origin(pool, terms, now) : now);
}

void weir_pool_set(struct lease_pool *pool, const struct lease_terms *terms)
{
#if WEIR_ASSERTIONS
    int64_t total = pool->terms.total, window_ns = pool->terms.window_ns;
#endif
    pool->next = *terms;
#if WEIR_ASSERTIONS
    ASSERT(pool->terms.total == total && pool->terms.window_ns == window_ns); /* of the epoch that is there */
#endif
}

/* ---- orders ---- */

static void pool_take_quota(struct lease_pool *pool, int64_t chunks, int64_t now, struct lease_reply *reply)
{
    int64_t last = sat_add(pool->terms.total / pool->terms.chunk, pool->returned);
    last = sat_add(last, pool->terms.total % pool->terms.chunk != 0);
    int64_t n = clamp64(chunks, 0, max64(0, sat_sub(last, pool->used)));
    reply->chunks = n;
    reply->units = weir_ticket_left(&pool->terms, pool->used, pool->returned) -
                   weir_ticket_left(&pool->terms, pool->used + n, pool->returned);
    reply->exhausted = n < chunks;
    pool->used += n;
    if (reply->exhausted && pool->exhausted_ns == 0)
        pool->exhausted_ns = max64(now, 1);
    if (reply->exhausted && pool->way == POOL_TURNS)
        reply->retry_ns = max64(1, sat_sub(sat_add(pool->began_ns, pool->terms.window_ns), now));
}

/* Tickets that have died, or soon will, are passed over: they were never issued. */
static void pool_pass_over(struct lease_pool *pool, int64_t elapsed)
{
    int64_t least = weir_ticket_life(&pool->terms) / 4, starts, ends;
    int64_t came = mul_div(max64(sat_add(elapsed, least), 0), pool->terms.total, pool->terms.window_ns);
    int64_t number = max64(0, came - (pool->terms.burst - pool->terms.chunk)) / pool->terms.chunk;
    pool->used = min64(max64(pool->used, number), weir_ticket_count(&pool->terms));
    for (int i = 0; i < 3; i++) /* rounding is off by one at most */
        if (!weir_ticket_span(&pool->terms, pool->used, elapsed, &starts, &ends) || ends <= least)
            pool->used += pool->used < weir_ticket_count(&pool->terms);
}

/* Tickets that have started go out together, and end with the first of them; one that has not goes alone. */
static void pool_take_bucket(struct lease_pool *pool, int64_t chunks, int64_t now, struct lease_reply *reply)
{
    int64_t elapsed = sat_sub(now, pool->began_ns), starts, ends;
    if (pool->way == POOL_TURNS)
        pool_pass_over(pool, elapsed);
    (void)weir_ticket_span(&pool->terms, pool->used, elapsed, &starts, &ends);
    if (pool->way == POOL_TURNED && pool_is_stale(pool, now)) {
        reply->stale = reply->exhausted = true;
        return;
    }
    int64_t ahead = weir_ticket_ahead(&pool->terms), last = weir_ticket_count(&pool->terms);
    if (chunks <= 0 || pool->used >= last || starts > ahead) {
        reply->exhausted = true;
        reply->retry_ns = max64(1, min64(sat_sub(starts, ahead), TICKET_WINDOW_MAX));
        return;
    }
    reply->starts_ns = max64(0, starts);
    reply->ends_ns = ends;
    int64_t came = mul_div(max64(elapsed, 0), pool->terms.total, pool->terms.window_ns);
    int64_t started = max64(0, came / pool->terms.chunk + 1 - pool->used); /* of those not asked for yet */
    int64_t n = clamp64(min64(started, chunks), 1, last - pool->used);
    /* `came` is rounded down, so that no ticket among them starts later than now. */
    reply->chunks = n;
    reply->units = n * pool->terms.chunk;
    pool->used += n;
}

static void pool_turn(struct lease_pool *pool, const struct lease_order *order, int64_t now,
                      struct lease_reply *reply)
{
    if (pool->way == POOL_TURNS || order->epoch != pool->epoch) {
        reply->outcome = LEASE_MOVED;
        return;
    }
    if (!pool_is_bucket(pool)) {
        bool bucket = pool->next.kind == LEASE_BUCKET;
        begin_epoch(pool, bucket ? pool->next.chunk : order->chunk,
                    bucket ? full_origin(pool, &pool->next, now) : now);
    } else if (!number_anew(pool, now)) {
        reply->outcome = LEASE_FAILED; /* tickets of it are alive */
        reply->retry_ns = weir_ticket_life(&pool->terms);
    }
}

static void pool_take_back(struct lease_pool *pool, const struct lease_order *order,
                           struct lease_reply *reply)
{
    if (order->epoch != pool->epoch) {
        reply->outcome = LEASE_MOVED; /* units die with their epoch, those that come back as well */
        return;
    }
    if (pool_is_bucket(pool))
        return;
    reply->chunks = clamp64(order->chunks, 0, pool->used - pool->returned);
    reply->units = sat_mul(reply->chunks, pool->terms.chunk);
    pool->returned += reply->chunks;
}

/* What every answer says of the epoch that it was applied in. */
static void pool_describe(const struct lease_pool *pool, int64_t now, struct lease_reply *reply)
{
    int64_t age = sat_sub(now, pool->began_ns);
    reply->epoch = pool->epoch;
    reply->terms = pool->terms;
    if (pool_is_bucket(pool)) {
        reply->age_ns = -1;
        if (pool->way == POOL_TURNED) /* nodes are to number anew, and so begin with other terms */
            reply->stale |= pool_terms_changed(pool) || pool_is_stale(pool, now);
        int64_t came = mul_div(max64(age, 0), pool->terms.total, pool->terms.window_ns);
        reply->left =
            min64(max64(0, sat_sub(came, sat_mul(pool->used, pool->terms.chunk))), pool->terms.burst);
        return;
    }
    reply->age_ns = age >= 0 ? age : -1;
    reply->age_exact = pool->way == POOL_TURNS;
    reply->ends_ns = pool->way == POOL_TURNS ? max64(0, sat_sub(pool->terms.window_ns, max64(age, 0))) : -1;
    reply->left = weir_ticket_left(&pool->terms, pool->used, pool->returned);
}

void weir_pool_apply(struct lease_pool *pool, const struct lease_order *order, int64_t now,
                     struct lease_reply *reply)
{
#if WEIR_ASSERTIONS
    struct lease_pool before = *pool;
#endif
    memset(reply, 0, sizeof *reply);
    reply->id = order->id;
    reply->op = order->op;
    reply->outcome = LEASE_DONE;
    pool_turn_itself(pool, now);
    if (order->op == LEASE_TAKE && pool_is_bucket(pool))
        pool_take_bucket(pool, order->chunks, now, reply);
    else if (order->op == LEASE_TAKE)
        pool_take_quota(pool, order->chunks, now, reply);
    else if (order->op == LEASE_TURN)
        pool_turn(pool, order, now, reply);
    else if (order->op == LEASE_RETURN)
        pool_take_back(pool, order, reply);
    pool_describe(pool, now, reply);
#if WEIR_ASSERTIONS
    weir_pool_check(&before, order, now, pool, reply);
#endif
}
