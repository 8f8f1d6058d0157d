/* SPDX-License-Identifier: MIT */
/*
 * Orders at a pool in ZooKeeper: how they come, wait and go. What they do is in zookeeper_take.c and
 * zookeeper_turn.c.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sat.h"
#include "fleet/zookeeper_place.h"
#include "os/futex.h"

static void run(struct order *order);

/* ---- the end of an order ---- */

static void unlink_order(struct order *order)
{
    struct zookeeper *zoo = order->place->zoo;
    *(order->before ? &order->before->next : &zoo->first) = order->next;
    *(order->next ? &order->next->before : &zoo->last) = order->before;
    order->replied = true;
}

/* Frees what nobody waits for any more. */
void weir_zoo_release(struct order *order)
{
    struct place *place = order->place;
    if (!order->replied || order->waiting > 0)
        return;
    free(order);
    place->orders--;
    weir_zoo_place_release(place);
}

struct lease_reply weir_zoo_reply(const struct order *order, int32_t outcome)
{
    return (struct lease_reply){.id = order->asked.id,
                                .op = order->asked.op,
                                .outcome = outcome,
                                .left = -1,
                                .age_ns = -1,
                                .ends_ns = -1};
}

void weir_zoo_tell(struct order *order, const struct lease_reply *reply)
{
    struct place *place = order->place;
    if (!order->replied) {
        unlink_order(order);
        if (place->watch)
            place->zoo->sink.replied(place->owner, reply);
    }
    weir_zoo_release(order);
}

void weir_zoo_tell_outcome(struct order *order, int32_t outcome, int64_t retry_ns)
{
    struct lease_reply reply = weir_zoo_reply(order, outcome);
    reply.retry_ns = retry_ns;
    weir_zoo_tell(order, &reply);
}

/* Waits until the place is read, and runs again. */
void weir_zoo_learn_first(struct order *order)
{
    struct place *place = order->place;
    if (++order->tries > 3) {
        weir_zoo_tell_outcome(order, LEASE_FAILED, ZOO_RETRY_NS);
        return;
    }
    order->next_waiting = place->waiting;
    place->waiting = order;
    order->waiting++;
    weir_zoo_learn(place);
}

/* ---- the right to write ---- */

/* Who may read a pool but not write it would go on for ever: his reads are answered, he learns of each
 * window, and waits for one in which he is given something. */
void weir_zoo_denied(struct place *place)
{
    char why[160], path[ZNODE_PATH_MAX];
    place->right = ZOO_RIGHT_DENIED;
    weir_znode_path(path, place->zoo->root, place->name, ZNODE_POOL);
    (void)snprintf(why, sizeof why, "this user may not write %.90s: give the right user:password@ in the URL",
                   path);
    weir_zoo_trouble(place, why);
}

static void right_told(void *arg, const struct zanswer *answer)
{
    struct order *order = arg;
    struct place *place = order->place;
    struct zookeeper *zoo = place->zoo;
    bool there = answer->code == ZCODE_VERSION || answer->code == ZCODE_NONE;
    (void)pthread_mutex_lock(&zoo->lock);
    order->waiting--;
    if (answer->code == ZCODE_DENIED) {
        weir_zoo_denied(place);
    } else if (there) {
        place->right = ZOO_RIGHT_THERE;
        weir_zoo_trouble(place, place->note);
    }
    if (order->replied)
        weir_zoo_release(order);
    else if (there)
        run(order);
    else
        weir_zoo_tell_outcome(order, LEASE_FAILED, ZOO_DENIED_NS);
    (void)pthread_mutex_unlock(&zoo->lock);
}

/* A version that `usable` never has: nothing is written, but the ACL is looked at before the version. */
void weir_zoo_right_first(struct order *order)
{
    struct place *place = order->place;
    char path[ZNODE_PATH_MAX];
    weir_znode_path(path, place->zoo->root, place->name, ZNODE_USABLE);
    if (weir_zclient_set(place->zoo->client, path, "", INT32_MAX, right_told, order))
        order->waiting++;
    else
        weir_zoo_tell_outcome(order, LEASE_FAILED, ZOO_RETRY_NS);
}

/* ---- orders come, wait and go ---- */

static void finish_look(struct order *order)
{
    struct place *place = order->place;
    struct lease_reply reply = weir_zoo_reply(order, LEASE_DONE);
    reply.epoch = place->epoch;
    reply.terms = place->terms.terms;
    reply.left = weir_znode_left(&place->terms, &place->usable, place->returned, 0);
    weir_zoo_tell(order, &reply);
}

static void run(struct order *order)
{
    switch (order->asked.op) {
    case LEASE_LOOK:
        if (order->tries == 0)
            weir_zoo_learn_first(order);
        else if (order->place->right == ZOO_RIGHT_DENIED) /* that it can be read is no help */
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
        weir_zoo_tell_outcome(order, LEASE_FAILED, WEIR_FOREVER);
    }
}

void weir_zoo_order(struct place *place, const struct lease_order *asked)
{
    struct zookeeper *zoo = place->zoo;
    struct order *order = zoo->up ? calloc(1, sizeof *order) : NULL;
    if (!order) {
        struct lease_reply reply = {.id = asked->id, .op = asked->op, .outcome = LEASE_FAILED};
        reply.left = reply.age_ns = reply.ends_ns = -1;
        reply.retry_ns = ZOO_RETRY_NS;
        zoo->sink.replied(place->owner, &reply);
        return;
    }
    order->place = place;
    order->asked = *asked;
    order->deadline_ns = sat_add(weir_monotonic_ns(), zoo->options.answer_ns);
    order->before = zoo->last;
    *(zoo->last ? &zoo->last->next : &zoo->first) = order;
    zoo->last = order;
    place->orders++;
    run(order);
}

/* A take whose tickets have no terms is spent; everything else was not sent. */
static void give_up(struct order *order)
{
    bool taken = order->asked.op == LEASE_TAKE && order->count > 0;
    weir_zoo_tell_outcome(order, taken ? LEASE_UNKNOWN : LEASE_FAILED, taken ? 0 : ZOO_RETRY_NS);
}

void weir_zoo_learned(struct place *place, bool ok)
{
    struct order *order = place->waiting, *next;
    place->waiting = NULL;
    for (; order; order = next) {
        next = order->next_waiting;
        order->waiting--;
        if (order->replied)
            weir_zoo_release(order);
        else if (ok)
            run(order);
        else
            give_up(order);
    }
}

void weir_zoo_expire(struct zookeeper *zoo, int64_t now_ns)
{
    while (zoo->first && zoo->first->deadline_ns <= now_ns)
        weir_zoo_tell_outcome(zoo->first, LEASE_UNKNOWN, 0);
}

void weir_zoo_forget_orders(struct place *place)
{
    struct order *next;
    for (struct order *order = place->zoo->first; order; order = next) {
        next = order->next;
        if (order->place == place) {
            unlink_order(order);
            weir_zoo_release(order);
        }
    }
}

void weir_zoo_place_release(struct place *place)
{
    if (place->watch != 0 || place->orders != 0 || place->learn || place->learn_due)
        return;
    if (place->zoo->up)
        weir_zoo_unwatch(place);
    free(place);
}
