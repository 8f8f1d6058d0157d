/* SPDX-License-Identifier: MIT */
/*
 * Orders at a pool in ZooKeeper: how they come, wait and go. What they do is in take.c and
 * turn.c.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sat.h"
#include "fleet/zookeeper/pool.h"
#include "os/futex.h"

static void run_zoo_order(struct zoo_order *order);

/* ---- the end of an order ---- */

static void unlink_zoo_order(struct zoo_order *order)
{
    struct zookeeper *zoo = order->zpool->zoo;
    *(order->before ? &order->before->next : &zoo->first) = order->next;
    *(order->next ? &order->next->before : &zoo->last) = order->before;
    order->replied = true;
}

/* Frees what nobody waits for any more. */
void weir_zoo_release(struct zoo_order *order)
{
    struct zoo_pool *zpool = order->zpool;
    if (!order->replied || order->waiting > 0)
        return;
    free(order);
    zpool->orders--;
    weir_zoo_pool_release(zpool);
}

void weir_zoo_answer(struct zoo_order *order, const struct lease_reply *reply)
{
    struct zoo_pool *zpool = order->zpool;
    if (!order->replied) {
        unlink_zoo_order(order);
        if (zpool->watch)
            zpool->zoo->sink.replied(zpool->owner, reply);
    }
    weir_zoo_release(order);
}

void weir_zoo_answer_outcome(struct zoo_order *order, enum lease_outcome outcome, int64_t retry_ns)
{
    struct lease_reply reply = lease_reply_of(&order->asked, outcome);
    reply.retry_ns = retry_ns;
    weir_zoo_answer(order, &reply);
}

/* Waits until the pool is read, and runs again. */
void weir_zoo_load_first(struct zoo_order *order)
{
    struct zoo_pool *zpool = order->zpool;
    if (++order->tries > 3) {
        weir_zoo_answer_outcome(order, LEASE_FAILED, ZOO_RETRY_NS);
        return;
    }
    order->next_waiting = zpool->waiting;
    zpool->waiting = order;
    order->waiting++;
    weir_zoo_load(zpool);
}

/* ---- the right to write ---- */

/* Who may read a pool but not write it would go on for ever: his reads are answered, he hears of each
 * window, and waits for one in which he is given something. */
void weir_zoo_denied(struct zoo_pool *zpool)
{
    char why[160], path[ZNODE_PATH_MAX];
    zpool->right = ZOO_RIGHT_DENIED;
    weir_znode_path(path, zpool->zoo->root, zpool->name, ZNODE_POOL);
    (void)snprintf(why, sizeof why, "this user may not write %.90s: give the right user:password@ in the URL",
                   path);
    weir_zoo_trouble(zpool, why);
}

static void right_answered(void *arg, const struct zanswer *answer)
{
    struct zoo_order *order = arg;
    struct zoo_pool *zpool = order->zpool;
    struct zookeeper *zoo = zpool->zoo;
    bool there = answer->code == ZCODE_VERSION || answer->code == ZCODE_NONE;
    (void)pthread_mutex_lock(&zoo->lock);
    order->waiting--;
    if (answer->code == ZCODE_DENIED) {
        weir_zoo_denied(zpool);
    } else if (there) {
        zpool->right = ZOO_RIGHT_THERE;
        weir_zoo_trouble(zpool, zpool->note);
    }
    if (order->replied)
        weir_zoo_release(order);
    else if (there)
        run_zoo_order(order);
    else
        weir_zoo_answer_outcome(order, LEASE_FAILED, ZOO_DENIED_NS);
    (void)pthread_mutex_unlock(&zoo->lock);
}

/* A version that `usable` never has: nothing is written, but the ACL is looked at before the version. */
void weir_zoo_right_first(struct zoo_order *order)
{
    struct zoo_pool *zpool = order->zpool;
    char path[ZNODE_PATH_MAX];
    weir_znode_path(path, zpool->zoo->root, zpool->name, ZNODE_USABLE);
    if (weir_zclient_set(zpool->zoo->client, path, "", INT32_MAX, right_answered, order))
        order->waiting++;
    else
        weir_zoo_answer_outcome(order, LEASE_FAILED, ZOO_RETRY_NS);
}

/* ---- orders come, wait and go ---- */

static void finish_look(struct zoo_order *order)
{
    struct zoo_pool *zpool = order->zpool;
    struct lease_reply reply = lease_reply_of(&order->asked, LEASE_DONE);
    reply.epoch = zpool->epoch;
    reply.terms = zpool->terms.terms;
    reply.left = weir_znode_left(&zpool->terms, &zpool->usable, zpool->returned, 0);
    weir_zoo_answer(order, &reply);
}

static void run_zoo_order(struct zoo_order *order)
{
    switch (order->asked.op) {
    case LEASE_LOOK:
        if (order->tries == 0)
            weir_zoo_load_first(order);
        else if (order->zpool->right == ZOO_RIGHT_DENIED) /* that it can be read is no help */
            weir_zoo_right_first(order);
        else
            finish_look(order);
        break;
    case LEASE_TAKE:
        if (order->count > 0)
            weir_zoo_finish_take(order);
        else
            weir_zoo_take(order);
        break;
    case LEASE_TURN:
        weir_zoo_turn(order);
        break;
    case LEASE_PROBE:
        weir_zoo_probe(order);
        break;
    case LEASE_RETURN:
        weir_zoo_return(order);
        break;
    default:
        weir_zoo_answer_outcome(order, LEASE_FAILED, WEIR_FOREVER);
    }
}

void weir_zoo_order(struct zoo_pool *zpool, const struct lease_order *asked)
{
    struct zookeeper *zoo = zpool->zoo;
    struct zoo_order *order = zoo->up ? calloc(1, sizeof *order) : NULL;
    if (!order) {
        struct lease_reply reply = lease_reply_of(asked, LEASE_FAILED);
        reply.retry_ns = ZOO_RETRY_NS;
        zoo->sink.replied(zpool->owner, &reply);
        return;
    }
    order->zpool = zpool;
    order->asked = *asked;
    order->deadline_ns = sat_add(weir_monotonic_ns(), zoo->options.answer_ns);
    order->before = zoo->last;
    *(zoo->last ? &zoo->last->next : &zoo->first) = order;
    zoo->last = order;
    zpool->orders++;
    run_zoo_order(order);
}

/* A take whose tickets have no terms is spent; everything else was not sent. */
static void give_up_order(struct zoo_order *order)
{
    bool taken = order->asked.op == LEASE_TAKE && order->count > 0;
    weir_zoo_answer_outcome(order, taken ? LEASE_UNKNOWN : LEASE_FAILED, taken ? 0 : ZOO_RETRY_NS);
}

void weir_zoo_loaded(struct zoo_pool *zpool, bool ok)
{
    struct zoo_order *order = zpool->waiting, *next;
    zpool->waiting = NULL;
    for (; order; order = next) {
        next = order->next_waiting;
        order->waiting--;
        if (order->replied)
            weir_zoo_release(order);
        else if (ok)
            run_zoo_order(order);
        else
            give_up_order(order);
    }
}

void weir_zoo_expire(struct zookeeper *zoo, int64_t now_ns)
{
    while (zoo->first && zoo->first->deadline_ns <= now_ns)
        weir_zoo_answer_outcome(zoo->first, LEASE_UNKNOWN, 0);
}

void weir_zoo_forget_orders(struct zoo_pool *zpool)
{
    struct zoo_order *next;
    for (struct zoo_order *order = zpool->zoo->first; order; order = next) {
        next = order->next;
        if (order->zpool == zpool) {
            unlink_zoo_order(order);
            weir_zoo_release(order);
        }
    }
}

void weir_zoo_pool_release(struct zoo_pool *zpool)
{
    if (zpool->watch != 0 || zpool->orders != 0 || zpool->load || zpool->load_due)
        return;
    if (zpool->zoo->up)
        weir_zoo_unwatch(zpool);
    free(zpool);
}
