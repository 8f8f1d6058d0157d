/* SPDX-License-Identifier: MIT */
/*
 * A node for tests of the lease machine: the machine, a balance that is a list of grants, and orders that
 * wait to be delivered. Time is an argument; nothing is shared.
 */
#ifndef WEIR_TESTS_LEASE_KIT_H
#define WEIR_TESTS_LEASE_KIT_H

#include "check.h"
#include "lease/lease.h"
#include "lease/pool.h"
#include "weir.h"

enum { KIT_LOTS = 256, KIT_ORDERS = 64 };

struct kit_node {
    struct lease lease;
    struct lease_actions last; /* of the last step */
    uint32_t told;             /* by all steps */
    struct lease_grant lots[KIT_LOTS];
    size_t lot_count;
    int64_t wanted, at_once, spent, low;
    bool patient;               /* who finds nothing waits, and is not refused */
    int64_t granted, withdrawn; /* units that came in; whole chunks that left */
    int64_t last_until;
    struct lease_order orders[KIT_ORDERS]; /* not delivered yet */
    int64_t sent[KIT_ORDERS];
    size_t order_count;
};

static inline int64_t kit_held(const struct kit_node *node, int64_t now)
{
    int64_t held = 0;
    for (size_t i = 0; i < node->lot_count; i++)
        if (node->lots[i].until_ns > now)
            held += node->lots[i].units;
    return held;
}

static inline int64_t kit_ready(const struct kit_node *node, int64_t now)
{
    int64_t ready = 0;
    for (size_t i = 0; i < node->lot_count; i++)
        if (node->lots[i].until_ns > now && node->lots[i].from_ns <= now)
            ready += node->lots[i].units;
    return ready;
}

static inline void kit_tidy(struct kit_node *node, int64_t now)
{
    size_t kept = 0;
    for (size_t i = 0; i < node->lot_count; i++)
        if (node->lots[i].until_ns > now && node->lots[i].units > 0)
            node->lots[kept++] = node->lots[i];
    node->lot_count = kept;
}

/* Out of those that end first. */
static inline void kit_remove(struct kit_node *node, int64_t now, int64_t n)
{
    while (n > 0) {
        struct lease_grant *first = NULL;
        for (size_t i = 0; i < node->lot_count; i++) {
            struct lease_grant *lot = &node->lots[i];
            if (lot->units > 0 && lot->until_ns > now && lot->from_ns <= now &&
                (!first || lot->until_ns < first->until_ns))
                first = lot;
        }
        if (!CHECK(first))
            return;
        int64_t part = n < first->units ? n : first->units;
        first->units -= part;
        n -= part;
    }
}

static inline void kit_put(struct kit_node *node, const struct lease_grant *grant)
{
    node->granted += grant->units;
    node->wanted = 0;
    if (CHECK(node->lot_count < KIT_LOTS))
        node->lots[node->lot_count++] = *grant;
    if (node->lease.terms.kind == LEASE_QUOTA) { /* what a balance relies on */
        CHECK(grant->until_ns >= node->last_until);
        node->last_until = grant->until_ns;
    }
}

static void kit_step(struct kit_node *node, const struct lease_event *event, int64_t now);

static inline void kit_obey(struct kit_node *node, int64_t now)
{
    struct lease_actions act = node->last;
    node->told |= act.told;
    if (act.clear)
        node->lot_count = 0;
    for (size_t i = 0; i < act.grant_count; i++)
        kit_put(node, &act.grants[i]);
    node->low = act.low;
    for (size_t i = 0; i < act.order_count; i++)
        if (CHECK(node->order_count < KIT_ORDERS)) {
            node->sent[node->order_count] = now;
            node->orders[node->order_count++] = act.orders[i];
        }
    if (act.withdraw > 0) {
        int64_t ready = kit_ready(node, now), chunks = ready > 0 ? ready / act.chunk : 0;
        chunks = chunks < act.withdraw ? chunks : act.withdraw;
        kit_remove(node, now, chunks * act.chunk);
        node->withdrawn += chunks;
        kit_step(node, &(struct lease_event){.kind = LEASE_WITHDREW, .reply = {.chunks = chunks}}, now);
    }
}

static void kit_step(struct kit_node *node, const struct lease_event *event, int64_t now)
{
    kit_tidy(node, now);
    struct lease_balance_view balance = {kit_held(node, now), node->wanted, node->spent, node->at_once};
    node->at_once = 0;
    weir_lease_step(&node->lease, event, &balance, now, &node->last);
    kit_obey(node, now);
}

static inline void kit_event(struct kit_node *node, int32_t kind, int64_t now)
{
    kit_step(node, &(struct lease_event){.kind = kind}, now);
}

static inline void kit_reply(struct kit_node *node, const struct lease_reply *reply, int64_t sent,
                             int64_t now)
{
    kit_step(node, &(struct lease_event){.kind = LEASE_REPLIED, .reply = *reply, .sent_ns = sent}, now);
}

static inline void kit_begin(struct kit_node *node, const struct lease_options *options, uint64_t seed,
                             int64_t now)
{
    struct lease_options complete = options ? *options : (struct lease_options){0};
    const char *why;
    memset(node, 0, sizeof *node);
    if (!CHECK(weir_lease_options_complete(&complete, &why)))
        printf("# %s\n", why);
    weir_lease_begin(&node->lease, &complete, seed, now);
}

/* The first order that waits; false: none. */
static inline bool kit_pop(struct kit_node *node, struct lease_order *order, int64_t *sent)
{
    *order = node->orders[0];
    *sent = node->sent[0];
    if (node->order_count == 0)
        return false;
    node->order_count--;
    memmove(node->orders, node->orders + 1, node->order_count * sizeof node->orders[0]);
    memmove(node->sent, node->sent + 1, node->order_count * sizeof node->sent[0]);
    return true;
}

/* Every order is delivered and answered at once. */
static inline void kit_settle(struct kit_node *node, struct lease_pool *pool, int64_t now)
{
    struct lease_order order;
    int64_t sent;
    for (int i = 0; i < 100 && kit_pop(node, &order, &sent); i++) {
        struct lease_reply reply;
        weir_pool_apply(pool, &order, now, &reply);
        kit_reply(node, &reply, sent, now);
    }
}

/* As a limiter over a balance: it is spent if it is there; else it is wanted. The rule
 * of the balance is in it: the clock is looked at when it is spent. */
static inline bool kit_take(struct kit_node *node, int64_t now, int64_t n)
{
    int64_t ready = kit_ready(node, now);
    bool passes = ready >= n;
    if (passes) {
        kit_remove(node, now, n);
        node->spent += n;
    } else {
        int64_t missing = n - (ready > 0 ? ready : 0);
        node->wanted = node->wanted > missing ? node->wanted : missing;
        node->at_once = node->patient || node->at_once > n ? node->at_once : n;
    }
    if (!passes || kit_held(node, now) < node->low)
        kit_event(node, LEASE_WAKE, now);
    return passes;
}

#endif
