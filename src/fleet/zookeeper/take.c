/* SPDX-License-Identifier: MIT */
/*
 * TAKE: sets of `usable` by anybody at any version. Each Stat is an epoch and a ticket of it, and that is all
 * that is believed; the terms of that epoch may have to be read first.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/sat.h"
#include "fleet/zookeeper/pool.h"
#include "os/futex.h"

/* The latest epoch of its tickets, 0 if it has none; *worst: the code of the others. */
static uint64_t take_epoch(const struct zoo_order *order, int32_t *worst)
{
    int64_t epoch = 0;
    *worst = ZCODE_OK;
    for (size_t i = 0; i < order->count; i++) {
        const struct zoo_ticket *ticket = &order->tickets[i];
        if (ticket->code == ZCODE_OK)
            epoch = max64(epoch, ticket->stat.czxid);
        else if (ticket->code > *worst)
            *worst = ticket->code;
    }
    return (uint64_t)epoch;
}

bool weir_zoo_has_new_terms(struct zoo_pool *zpool)
{
    struct lease_terms next;
    const struct lease_terms *now = &zpool->terms.terms;
    weir_zoo_next_terms(zpool, now->chunk, &next);
    return next.total != now->total || next.window_ns != now->window_ns || next.burst != now->burst ||
           next.base != now->base;
}

static void fill_take(const struct zoo_order *order, struct lease_reply *reply)
{
    struct zoo_pool *zpool = order->zpool;
    int64_t returned = order->epoch == reply->epoch ? order->returned : 0;
    reply->terms = zpool->terms.terms;
    for (size_t i = 0; i < order->count; i++) {
        const struct zoo_ticket *ticket = &order->tickets[i];
        if (ticket->code == ZCODE_OK && (uint64_t)ticket->stat.czxid == reply->epoch)
            weir_znode_take(&zpool->terms, &ticket->stat, returned, reply);
    }
#if WEIR_ASSERTIONS
    int64_t of_epoch = 0; /* each answer is one ticket at most */
    for (size_t i = 0; i < order->count; i++)
        of_epoch +=
            order->tickets[i].code == ZCODE_OK && order->tickets[i].stat.czxid == (int64_t)reply->epoch;
    INVARIANT(54, reply->chunks <= of_epoch);
#endif
    if (reply->terms.kind == LEASE_BUCKET) {
        reply->exhausted = reply->exhausted && reply->chunks == 0;
        zpool->crowded = reply->exhausted;
        reply->stale = (reply->stale && reply->chunks == 0) || weir_zoo_has_new_terms(zpool);
    }
}

void weir_zoo_finish_take(struct zoo_order *order)
{
    struct zoo_pool *zpool = order->zpool;
    int32_t worst;
    uint64_t epoch = take_epoch(order, &worst);
    if (epoch == 0 && worst == ZCODE_NONE) { /* there is no pool: it is made, and asked again */
        order->count = 0;
        weir_zoo_load_first(order);
    } else if (epoch == 0 && worst == ZCODE_UNSURE) {
        weir_zoo_answer_outcome(order, LEASE_UNKNOWN, 0);
    } else if (epoch == 0) {
        if (worst == ZCODE_DENIED)
            weir_zoo_denied(zpool);
        weir_zoo_answer_outcome(order, LEASE_FAILED, ZOO_DENIED_NS);
    } else if (epoch > zpool->epoch && order->tries < 3) {
        weir_zoo_load_first(order);
    } else { /* of an epoch that has passed meanwhile nothing is granted */
        struct lease_reply reply = lease_reply_of(&order->asked, LEASE_DONE);
        reply.epoch = epoch;
        if (epoch == zpool->epoch)
            fill_take(order, &reply);
        else if (epoch < order->epoch) /* though that was known when it was sent: it is to be looked at */
            weir_zoo_load(zpool);
        weir_zoo_answer(order, &reply);
    }
}

static void took(void *arg, const struct zanswer *answer)
{
    struct zoo_ticket *ticket = arg;
    struct zoo_order *order = ticket->order;
    struct zoo_pool *zpool = order->zpool;
    struct zookeeper *zoo = zpool->zoo;
    (void)pthread_mutex_lock(&zoo->lock);
    ticket->code = answer->code;
    ticket->stat = answer->stat;
    order->waiting--;
    if (answer->code == ZCODE_OK && (uint64_t)answer->stat.czxid == zpool->epoch &&
        answer->stat.version > zpool->usable.version) {
        zpool->usable = answer->stat;
        zpool->usable_ns = weir_monotonic_ns();
    }
    if (order->waiting == 0) {
        if (order->replied)
            weir_zoo_release(order);
        else
            weir_zoo_finish_take(order);
    }
    (void)pthread_mutex_unlock(&zoo->lock);
}

/* BUCKET: the time since the origin, as it is now; false: not known. */
static bool since_now(const struct zoo_pool *zpool, int64_t *since)
{
    if (zpool->epoch == 0 || zpool->terms.terms.kind != LEASE_BUCKET || zpool->usable_ns == 0 ||
        zpool->usable.czxid >> 32 != zpool->usable.mzxid >> 32)
        return false;
    *since = sat_add(weir_znode_since(&zpool->terms, &zpool->usable), weir_monotonic_ns() - zpool->usable_ns);
    return true;
}

/* The next ticket of a bucket starts so late that it would be void: nothing is asked. */
static bool is_ahead(const struct zoo_pool *zpool, int64_t *retry_ns)
{
    const struct lease_terms *terms = &zpool->terms.terms;
    int64_t since, starts, ends, ahead = weir_ticket_ahead(terms);
    if (!since_now(zpool, &since) || !weir_ticket_span(terms, zpool->usable.version, since, &starts, &ends) ||
        starts <= ahead)
        return false;
    *retry_ns = starts - ahead;
    return starts <=
           sat_add(
               zpool->terms.wait_ns,
               sat_mul(4, weir_znode_wait(terms, terms))); /* else the clock was set back: a take shows it */
}

/* Tickets that an order for `wanted` chunks asks for: those of a bucket share one span of time, so not many;
 * and each that has died meanwhile has to be asked for all the same, as the next one has its number behind
 * it. If that would be too many, one is enough to show it. */
static int64_t tickets_for(const struct zoo_pool *zpool, int64_t wanted)
{
    const struct lease_terms *terms = &zpool->terms.terms;
    int64_t since, starts, ends, dead = 0;
    if (zpool->epoch == 0 || terms->kind != LEASE_BUCKET)
        return clamp64(wanted, 1, ZOO_TAKE_MAX);
    wanted = clamp64(wanted, 1, 4);
    if (!since_now(zpool, &since))
        return wanted;
    since = sat_add(since, weir_znode_least(terms));
    while (dead < ZOO_TAKE_MAX &&
           !weir_ticket_span(terms, zpool->usable.version + dead, since, &starts, &ends))
        dead++;
    return dead == ZOO_TAKE_MAX ? 1 : min64(wanted + dead, ZOO_TAKE_MAX);
}

/* What is written into `usable`: for people, nobody else reads it. */
static int64_t left_after(const struct zoo_pool *zpool, int64_t tickets)
{
    struct znode_stat then = zpool->usable;
    if (zpool->epoch == 0)
        return 0;
    then.version = (int32_t)min64(INT32_MAX, then.version + tickets);
    return weir_znode_left(&zpool->terms, &then, zpool->returned,
                           zpool->usable_ns ? weir_monotonic_ns() - zpool->usable_ns : 0);
}

/* A ticket that is too far ahead is void, and gone for all. Where many ask, the one behind the last that was
 * seen here is one of those that others have had meanwhile; so the node is read first. What is read was
 * written some time ago: counted from now, it errs on the side of waiting. */
static bool looks_first(struct zoo_order *order)
{
    struct zoo_pool *zpool = order->zpool;
    if (!zpool->crowded)
        return false;
    if (order->tries == 0) {
        weir_zoo_load_first(order);
        return true;
    }
    if (zpool->usable_ns == 0)
        zpool->usable_ns = weir_monotonic_ns();
    return false;
}

void weir_zoo_take(struct zoo_order *order)
{
    struct zoo_pool *zpool = order->zpool;
    struct zookeeper *zoo = zpool->zoo;
    char path[ZNODE_PATH_MAX], text[32];
    if (looks_first(order))
        return;
    int64_t wanted = tickets_for(zpool, order->asked.chunks), retry_ns;
    if (is_ahead(zpool, &retry_ns)) {
        struct lease_reply reply = lease_reply_of(&order->asked, LEASE_DONE);
        reply.epoch = zpool->epoch;
        reply.terms = zpool->terms.terms;
        reply.read = reply.exhausted = true;
        reply.retry_ns = retry_ns;
        weir_zoo_answer(order, &reply);
        return;
    }
    order->epoch = zpool->epoch;
    order->returned = zpool->returned;
    order->count = 0;
    weir_znode_path(path, zoo->root, zpool->name, ZNODE_USABLE);
    for (int64_t i = 0; i < wanted; i++) {
        struct zoo_ticket *ticket = &order->tickets[order->count];
        *ticket = (struct zoo_ticket){.order = order, .code = ZCODE_UNSURE};
        (void)snprintf(text, sizeof text, "%" PRId64, left_after(zpool, i + 1));
        if (!weir_zclient_set(zoo->client, path, text, -1, took, ticket))
            break;
        order->count++;
        order->waiting++;
    }
    if (order->count == 0)
        weir_zoo_answer_outcome(order, LEASE_FAILED, ZOO_RETRY_NS);
}
