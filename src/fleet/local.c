/* SPDX-License-Identifier: MIT */
/*
 * local: and local:group, the coordinator inside of the process: core/pool.h on the process's own clock. All
 * members of the process with one group and name share a pool. It outlives its members until nothing of it
 * can be spent any more: who leaves and joins again does not find it full.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sat.h"
#include "core/pool.h"
#include "fleet/coordinator.h"
#include "fleet/roll.h"
#include "os/lock.h"

#define TEXT_MAX (sizeof((struct fleet_url *)0)->path + 1 + FLEET_NAME_MAX)

enum { SWEPT_AT_ONCE = 4 }; /* of those that are left, for each who joins */

struct local_pool {
    struct entry entry; /* by its text */
    struct pool pool;
    struct place *places;
    struct local_pool *next; /* left: in the queue */
    bool left;               /* its last place was; perhaps there are new ones */
    char text[TEXT_MAX];     /* group/name: no name has a slash */
};

struct place {
    struct coordinator *coordinator;
    struct local_pool *of;
    struct place *next;
    void *owner;
};

struct local {
    struct coordinator coordinator;
    struct sink sink;
    char *group;
};

/* Sinks are called under it: they do not block, and a place that is gone is not called. */
static struct lock all_lock;
static struct roll all;
static struct local_pool *queue, **queue_end = &queue; /* those that are left */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    lock_take(&all_lock);
}

static void after_in_parent(void)
{
    lock_drop(&all_lock);
}

/* Its places belong to threads that are not here. */
static void after_in_child(void)
{
    all.root = NULL;
    queue = NULL;
    queue_end = &queue;
    lock_drop(&all_lock);
}

static void begin_all(void)
{
    all.key = weir_hash_key();
    (void)pthread_atfork(before_fork, after_in_parent, after_in_child);
}

/* ---- pools, under the lock ---- */

/* Can nothing of it be spent any more? Then a new one is as good. */
static bool is_over(const struct local_pool *pool, int64_t now)
{
    int64_t starts, ends, age = sat_sub(now, pool->pool.began_ns);
    if (pool->places)
        return false;
    if (pool->pool.terms.kind == LEASE_QUOTA)
        return age >= pool->pool.terms.window_ns;
    return !weir_ticket_span(&pool->pool.terms, pool->pool.used, age, &starts, &ends);
}

static void queue_in(struct local_pool *pool)
{
    pool->next = NULL;
    pool->left = true;
    *queue_end = pool;
    queue_end = &pool->next;
}

static struct local_pool *queue_out(void)
{
    struct local_pool *pool = queue;
    queue = pool->next;
    if (!queue)
        queue_end = &queue;
    pool->left = false;
    return pool;
}

/* A few at a time: nobody who joins waits for all of them, and more go than come. */
static void sweep(int64_t now)
{
    for (int i = 0; i < SWEPT_AT_ONCE && queue; i++) {
        struct local_pool *pool = queue_out();
        if (is_over(pool, now)) {
            weir_roll_remove(&all, &pool->entry);
            free(pool);
        } else if (!pool->places) {
            queue_in(pool);
        }
    }
}

static bool is_any(struct entry *entry)
{
    return entry != NULL;
}

/* The pool of that text, begun with these terms if there is none, or none that matters. NULL: out of memory.
 */
static struct local_pool *find(const char *text, const struct lease_terms *terms, int64_t now)
{
    struct entry *entry = weir_roll_find(&all, text, is_any);
    struct local_pool *pool = (struct local_pool *)(void *)entry; /* which it begins with */
    if (pool && !is_over(pool, now))
        return pool;
    if (!pool) {
        pool = calloc(1, sizeof *pool);
        if (!pool)
            return NULL;
        memcpy(pool->text, text, strlen(text) + 1);
        pool->entry.text = pool->text;
        weir_roll_add(&all, &pool->entry);
    }
    weir_pool_begin(&pool->pool, POOL_TURNS, terms, now);
    return pool;
}

/* ---- the coordinator ---- */

static struct coordinator *local_open(const struct fleet_url *url, const struct coordinator_options *options,
                                      const struct sink *sink, struct weir_error *err)
{
    (void)options;
    (void)pthread_once(&once, begin_all);
    struct local *local = calloc(1, sizeof *local);
    char *group = local ? strdup(url->path) : NULL;
    if (!group) {
        free(local);
        weir_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    local->coordinator.ops = &weir_coordinator_local;
    local->sink = *sink;
    local->group = group;
    return &local->coordinator;
}

static struct local *local_of(struct coordinator *coordinator)
{
    return (struct local *)(void *)coordinator;
}

static void local_close(struct coordinator *coordinator)
{
    free(local_of(coordinator)->group);
    free(coordinator);
}

static struct place *local_enter(struct coordinator *coordinator, const char *name,
                                 const struct lease_terms *terms, void *owner, struct weir_error *err)
{
    struct place *place = calloc(1, sizeof *place);
    char text[TEXT_MAX];
    (void)snprintf(text, sizeof text, "%s/%s", local_of(coordinator)->group, name);
    lock_take(&all_lock);
    int64_t now = weir_now();
    sweep(now);
    struct local_pool *pool = place ? find(text, terms, now) : NULL;
    if (pool) {
        *place = (struct place){.coordinator = coordinator, .of = pool, .next = pool->places, .owner = owner};
        pool->places = place;
    }
    lock_drop(&all_lock);
    if (pool)
        return place;
    free(place);
    weir_error_set(err, ENOMEM, "out of memory");
    return NULL;
}

static void local_leave(struct place *place)
{
    struct local_pool *pool = place->of;
    lock_take(&all_lock);
    struct place **at = &pool->places;
    while (*at != place)
        at = &(*at)->next;
    *at = place->next;
    if (!pool->places && !pool->left)
        queue_in(pool);
    lock_drop(&all_lock);
    free(place);
}

static void tell_more(const struct place *place)
{
    for (struct place *other = place->of->places; other; other = other->next)
        if (other != place)
            local_of(other->coordinator)->sink.more(other->owner);
}

static void local_order(struct place *place, const struct lease_order *order)
{
    struct lease_reply reply;
    lock_take(&all_lock);
    weir_pool_apply(&place->of->pool, order, weir_now(), &reply);
    if (order->op == LEASE_RETURN && reply.outcome == LEASE_DONE)
        tell_more(place);
    lock_drop(&all_lock);
    local_of(place->coordinator)->sink.replied(place->owner, &reply);
}

const struct coordinator_ops weir_coordinator_local = {.scheme = "local",
                                                       .open = local_open,
                                                       .close = local_close,
                                                       .enter = local_enter,
                                                       .leave = local_leave,
                                                       .order = local_order};
