/* SPDX-License-Identifier: MIT */
#include "unit/fleet/fake_coordinator.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { POOLS_MAX = 64, HELD_MAX = 256 };

struct fake_pool {
    char name[FLEET_NAME_MAX + 1];
    struct lease_pool pool;
};

struct pool_handle {
    struct pool_handle *next;
    struct fake *of;
    struct fake_pool *pool;
    void *owner;
};

struct fake {
    struct coordinator coordinator;
    struct sink sink;
    struct fake *next;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    enum lease_pool_flags pools_way;
    enum fake_way way;
    bool refuse, block, refuse_names;
    struct fake *opened;
    struct pool_handle *places;
    struct fake_pool pools[POOLS_MAX];
    size_t pool_count;
    struct {
        struct pool_handle *handle;
        struct lease_order order;
    } held[HELD_MAX];
    size_t held_count;
    struct fake_counts counts;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

static void take_lock(void)
{
    (void)pthread_mutex_lock(&all.lock);
}

static void drop_lock(void)
{
    (void)pthread_mutex_unlock(&all.lock);
}

void fake_begin(enum lease_pool_flags way)
{
    take_lock();
    all.pools_way = way;
    all.way = FAKE_ANSWER;
    all.refuse = all.block = all.refuse_names = false;
    all.pool_count = all.held_count = 0;
    all.counts = (struct fake_counts){0};
    drop_lock();
}

void fake_say(enum fake_way way)
{
    take_lock();
    all.way = way;
    drop_lock();
}

void fake_refuse(bool refuse)
{
    take_lock();
    all.refuse = refuse;
    drop_lock();
}

void fake_refuse_names(bool refuse)
{
    take_lock();
    all.refuse_names = refuse;
    drop_lock();
}

void fake_block_open(bool block)
{
    take_lock();
    all.block = block;
    (void)pthread_cond_broadcast(&all.moved);
    drop_lock();
}

/* ---- the coordinator ---- */

static struct coordinator *fake_open(const struct server_url *url, const struct coordinator_options *options,
                                     const struct sink *sink, struct weir_error *err)
{
    (void)url, (void)options;
    struct fake *fake = calloc(1, sizeof *fake);
    take_lock();
    all.counts.opens++;
    while (all.block)
        (void)pthread_cond_wait(&all.moved, &all.lock);
    bool refused = all.refuse;
    if (fake && !refused) {
        fake->coordinator.ops = NULL;
        fake->sink = *sink;
        fake->next = all.opened;
        all.opened = fake;
        all.counts.open++;
    }
    drop_lock();
    if (fake && !refused)
        return &fake->coordinator;
    free(fake);
    (void)weir_error_complain(err, "the fake coordinator is out; start it");
    return NULL;
}

static void fake_close(struct coordinator *coordinator)
{
    struct fake *fake = (struct fake *)(void *)coordinator;
    take_lock();
    struct fake **at = &all.opened;
    while (*at != fake)
        at = &(*at)->next;
    *at = fake->next;
    all.counts.closes++;
    all.counts.open--;
    drop_lock();
    free(fake);
}

static struct fake_pool *pool_of(const char *name, const struct lease_terms *terms)
{
    for (size_t i = 0; i < all.pool_count; i++)
        if (strcmp(all.pools[i].name, name) == 0)
            return &all.pools[i];
    if (all.pool_count == POOLS_MAX)
        return NULL;
    struct fake_pool *pool = &all.pools[all.pool_count++];
    (void)snprintf(pool->name, sizeof pool->name, "%s", name);
    weir_pool_begin(&pool->pool, all.pools_way, terms, weir_now());
    return pool;
}

static struct pool_handle *fake_enter(struct coordinator *coordinator, const char *name,
                                      const struct lease_terms *terms, void *owner, struct weir_error *err)
{
    struct pool_handle *handle = calloc(1, sizeof *handle);
    take_lock();
    if (handle && all.refuse_names) {
        free(handle);
        handle = NULL;
    }
    if (handle) {
        *handle = (struct pool_handle){.next = all.places,
                                       .of = (struct fake *)(void *)coordinator,
                                       .pool = pool_of(name, terms),
                                       .owner = owner};
        all.places = handle;
        all.counts.enters++;
        all.counts.places++;
    }
    drop_lock();
    if (!handle)
        (void)weir_error_complain(err, "the fake coordinator has no room for that name");
    return handle;
}

static void fake_leave(struct pool_handle *handle)
{
    take_lock();
    struct pool_handle **at = &all.places;
    while (*at != handle)
        at = &(*at)->next;
    *at = handle->next;
    for (size_t i = 0; i < all.held_count;)
        if (all.held[i].handle == handle)
            all.held[i] = all.held[--all.held_count];
        else
            i++;
    all.counts.leaves++;
    all.counts.places--;
    drop_lock();
    free(handle);
}

/* Under the lock. */
static void apply(struct pool_handle *handle, const struct lease_order *order, struct lease_reply *reply)
{
    weir_pool_apply(&handle->pool->pool, order, weir_now(), reply);
    if (order->op == LEASE_TAKE && reply->outcome == LEASE_DONE)
        all.counts.granted += reply->units;
    if (order->op == LEASE_RETURN && reply->outcome == LEASE_DONE)
        all.counts.returned += reply->chunks;
}

static void fake_order(struct pool_handle *handle, const struct lease_order *order)
{
    struct lease_reply reply = {.id = order->id, .op = order->op, .left = -1, .age_ns = -1, .ends_ns = -1};
    take_lock();
    enum fake_way way = all.way;
    all.counts.orders++;
    all.counts.ops[order->op]++;
    if (way == FAKE_HOLD && all.held_count < HELD_MAX) {
        all.held[all.held_count].handle = handle;
        all.held[all.held_count++].order = *order;
    }
    if (way == FAKE_ANSWER || way == FAKE_TWICE || way == FAKE_LOSE_REPLY)
        apply(handle, order, &reply);
    drop_lock();
    if (way == FAKE_FORBID)
        handle->of->sink.troubled(handle->owner, "the fake coordinator does not know you");
    if (way == FAKE_LOSE_REPLY || way == FAKE_LOSE || way == FAKE_FAIL || way == FAKE_FORBID) {
        struct lease_reply none = {.id = order->id, .op = order->op, .left = -1, .age_ns = -1, .ends_ns = -1};
        reply = none;
        reply.outcome = way == FAKE_FAIL || way == FAKE_FORBID ? LEASE_FAILED : LEASE_UNKNOWN;
        reply.retry_ns = way == FAKE_FORBID ? WEIR_SEC : 0;
    }
    if (way == FAKE_SLOW)
        weir_clock_set(weir_now() + 4 * WEIR_SEC);
    if (way == FAKE_HOLD || way == FAKE_SILENT || way == FAKE_SLOW)
        return;
    handle->of->sink.replied(handle->owner, &reply);
    if (way == FAKE_TWICE)
        handle->of->sink.replied(handle->owner, &reply);
}

static const struct coordinator_ops fake_ops = {
    .open = fake_open, .close = fake_close, .enter = fake_enter, .leave = fake_leave, .order = fake_order};

const struct coordinator_ops *__real_weir_coordinator_kind(const struct server_url *url,
                                                           struct weir_error *err);
const struct coordinator_ops *__wrap_weir_coordinator_kind(const struct server_url *url,
                                                           struct weir_error *err);
const struct coordinator_ops *__wrap_weir_coordinator_kind(const struct server_url *url,
                                                           struct weir_error *err)
{
    return strcmp(url->scheme, "fake") == 0 ? &fake_ops : __real_weir_coordinator_kind(url, err);
}

/* ---- what tests do to it; sinks are called under the lock, so that no place leaves meanwhile ---- */

size_t fake_release(void)
{
    take_lock();
    size_t count = all.held_count;
    for (size_t i = 0; i < count; i++) {
        struct pool_handle *handle = all.held[i].handle;
        struct lease_reply reply;
        apply(handle, &all.held[i].order, &reply);
        handle->of->sink.replied(handle->owner, &reply);
    }
    all.held_count = 0;
    drop_lock();
    return count;
}

size_t fake_held(void)
{
    take_lock();
    size_t count = all.held_count;
    drop_lock();
    return count;
}

void fake_connect(bool up, const char *why)
{
    take_lock();
    for (struct fake *fake = all.opened; fake; fake = fake->next)
        fake->sink.moved(fake->sink.agent, up, why);
    drop_lock();
}

void fake_more(void)
{
    take_lock();
    for (struct pool_handle *handle = all.places; handle; handle = handle->next)
        handle->of->sink.more(handle->owner);
    drop_lock();
}

void fake_notice(uint64_t epoch)
{
    take_lock();
    for (struct pool_handle *handle = all.places; handle; handle = handle->next) {
        struct lease_reply seen = {.epoch = epoch, .terms = handle->pool->pool.terms, .left = -1};
        handle->of->sink.noticed(handle->owner, &seen);
    }
    drop_lock();
}

void fake_trouble(const char *why)
{
    take_lock();
    for (struct pool_handle *handle = all.places; handle; handle = handle->next)
        handle->of->sink.troubled(handle->owner, why);
    drop_lock();
}

struct fake_counts fake_counts(void)
{
    take_lock();
    struct fake_counts counts = all.counts;
    drop_lock();
    return counts;
}

bool fake_pool(const char *name, struct lease_pool *pool)
{
    bool found = false;
    take_lock();
    for (size_t i = 0; i < all.pool_count && !found; i++)
        if ((found = strcmp(all.pools[i].name, name) == 0))
            *pool = all.pools[i].pool;
    drop_lock();
    return found;
}
