/* SPDX-License-Identifier: MIT */
/*
 * local: and local:group, the coordinator inside of the process: lease/pool.h on the process's own clock. All
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
#include "fleet/coordinator.h"
#include "fleet/name_trie.h"
#include "lease/pool.h"
#include "os/lock.h"

#define TEXT_MAX (sizeof((struct server_url *)0)->path + 1 + FLEET_NAME_MAX)

enum { SWEPT_AT_ONCE = 4 }; /* of those that are left, for each who joins */

struct local_pool {
    struct name_node entry; /* by its text */
    struct lease_pool pool;
    struct local_handle *handles;
    struct local_pool *next; /* left: in the queue */
    bool left;               /* its last handle was; perhaps there are new ones */
    char text[TEXT_MAX];     /* group/name: no name has a slash */
};

struct local_handle {
    struct coordinator *coordinator;
    struct local_pool *of;
    struct local_handle *next;
    void *owner;
};

struct local {
    struct coordinator coordinator;
    struct sink sink;
    char *group;
};

/* Sinks are called under it: they do not block, and a handle that is gone is not called. */
static struct lock all_lock;
static struct name_trie all;
static struct local_pool *queue, **queue_end = &queue; /* those that are left */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void local_before_fork(void)
{
    lock_take(&all_lock);
}

static void local_after_fork_in_parent(void)
{
    lock_drop(&all_lock);
}

/* Its handles belong to threads that are not here. */
static void local_after_fork_in_child(void)
{
    all.root = NULL;
    queue = NULL;
    queue_end = &queue;
    lock_drop(&all_lock);
}

static void init_local_pools(void)
{
    all.key = weir_hash_key();
    (void)pthread_atfork(local_before_fork, local_after_fork_in_parent, local_after_fork_in_child);
}

/* ---- pools, under the lock ---- */

/* Can nothing of it be spent any more? Then a new one is as good. */
static bool is_pool_over(const struct local_pool *pool, int64_t now)
{
    int64_t starts, ends, age = sat_sub(now, pool->pool.began_ns);
    if (pool->handles)
        return false;
    if (pool->pool.terms.kind == LEASE_QUOTA)
        return age >= pool->pool.terms.window_ns;
    return !weir_ticket_span(&pool->pool.terms, pool->pool.used, age, &starts, &ends);
}

static void enqueue_left_pool(struct local_pool *pool)
{
    pool->next = NULL;
    pool->left = true;
    *queue_end = pool;
    queue_end = &pool->next;
}

static struct local_pool *dequeue_left_pool(void)
{
    struct local_pool *pool = queue;
    queue = pool->next;
    if (!queue)
        queue_end = &queue;
    pool->left = false;
    return pool;
}

/* A few at a time: nobody who joins waits for all of them, and more go than come. */
static void sweep_local_pools(int64_t now)
{
    for (int i = 0; i < SWEPT_AT_ONCE && queue; i++) {
        struct local_pool *pool = dequeue_left_pool();
        if (is_pool_over(pool, now)) {
            weir_name_trie_remove(&all, &pool->entry);
            free(pool);
        } else if (!pool->handles) {
            enqueue_left_pool(pool);
        }
    }
}

static bool is_any_local_pool(struct name_node *entry)
{
    return entry != NULL;
}

/* The pool of that text, begun with these terms if there is none, or none that matters. NULL: out of memory.
 */
static struct local_pool *find_local_pool(const char *text, const struct lease_terms *terms, int64_t now)
{
    struct name_node *entry = weir_name_trie_find(&all, text, is_any_local_pool);
    struct local_pool *pool = (struct local_pool *)(void *)entry; /* which it begins with */
    if (pool && !is_pool_over(pool, now))
        return pool;
    if (!pool) {
        pool = calloc(1, sizeof *pool);
        if (!pool)
            return NULL;
        memcpy(pool->text, text, strlen(text) + 1);
        pool->entry.text = pool->text;
        weir_name_trie_add(&all, &pool->entry);
    }
    weir_pool_begin(&pool->pool, POOL_TURNS, terms, now);
    return pool;
}

/* ---- the coordinator ---- */

static struct coordinator *local_open(const struct server_url *url, const struct coordinator_options *options,
                                      const struct sink *sink, struct weir_error *err)
{
    (void)options;
    (void)pthread_once(&once, init_local_pools);
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

static struct pool_handle *local_enter(struct coordinator *coordinator, const char *name,
                                       const struct lease_terms *terms, void *owner, struct weir_error *err)
{
    struct local_handle *handle = calloc(1, sizeof *handle);
    char text[TEXT_MAX];
    (void)snprintf(text, sizeof text, "%s/%s", local_of(coordinator)->group, name);
    lock_take(&all_lock);
    int64_t now = weir_now();
    sweep_local_pools(now);
    struct local_pool *pool = handle ? find_local_pool(text, terms, now) : NULL;
    if (pool) {
        *handle = (struct local_handle){
            .coordinator = coordinator, .of = pool, .next = pool->handles, .owner = owner};
        pool->handles = handle;
    }
    lock_drop(&all_lock);
    if (pool)
        return (struct pool_handle *)handle;
    free(handle);
    weir_error_set(err, ENOMEM, "out of memory");
    return NULL;
}

static void local_leave(struct pool_handle *opaque)
{
    struct local_handle *handle = (struct local_handle *)opaque;
    struct local_pool *pool = handle->of;
    lock_take(&all_lock);
    struct local_handle **at = &pool->handles;
    while (*at != handle)
        at = &(*at)->next;
    *at = handle->next;
    if (!pool->handles && !pool->left)
        enqueue_left_pool(pool);
    lock_drop(&all_lock);
    free(handle);
}

static void notify_more(const struct local_handle *handle)
{
    for (struct local_handle *other = handle->of->handles; other; other = other->next)
        if (other != handle)
            local_of(other->coordinator)->sink.more(other->owner);
}

static void local_order(struct pool_handle *opaque, const struct lease_order *order)
{
    struct local_handle *handle = (struct local_handle *)opaque;
    struct lease_reply reply;
    lock_take(&all_lock);
    weir_pool_apply(&handle->of->pool, order, weir_now(), &reply);
    if (order->op == LEASE_RETURN && reply.outcome == LEASE_DONE)
        notify_more(handle);
    lock_drop(&all_lock);
    local_of(handle->coordinator)->sink.replied(handle->owner, &reply);
}

const struct coordinator_ops weir_coordinator_local = {.open = local_open,
                                                       .close = local_close,
                                                       .enter = local_enter,
                                                       .leave = local_leave,
                                                       .order = local_order};
