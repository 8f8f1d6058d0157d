/* SPDX-License-Identifier: MIT */
/*
 * zookeeper:// as a coordinator: pools are nodes (znodes.h), epochs are turned by those who use
 * them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fleet/zookeeper/pool.h"
#include "os/futex.h"

/* ---- what the client tells ---- */

static void ensemble_session_changed(void *arg, bool up, const char *why)
{
    struct zookeeper *zoo = arg;
    (void)pthread_mutex_lock(&zoo->lock);
    zoo->up = up;
    if (zoo->sink.moved)
        zoo->sink.moved(zoo->sink.agent, up, why);
    /* Whatever was known may have changed, and of a new session no watch is set. */
    for (size_t i = 0; up && zoo->client && i < zoo->zpool_count; i++)
        if (zoo->zpools[i])
            weir_zoo_load(zoo->zpools[i]);
    (void)pthread_mutex_unlock(&zoo->lock);
}

static void ensemble_node_changed(void *arg, uint64_t watch)
{
    struct zookeeper *zoo = arg;
    size_t index = (size_t)(watch & UINT32_MAX);
    (void)pthread_mutex_lock(&zoo->lock);
    struct zoo_pool *zpool = index < zoo->zpool_count ? zoo->zpools[index] : NULL;
    if (zpool && zpool->watch == watch && zoo->up)
        weir_zoo_load(zpool);
    (void)pthread_mutex_unlock(&zoo->lock);
}

static void ensemble_tick(void *arg)
{
    struct zookeeper *zoo = arg;
    (void)pthread_mutex_lock(&zoo->lock);
    weir_zoo_expire(zoo, weir_monotonic_ns());
    (void)pthread_mutex_unlock(&zoo->lock);
}

/* ---- open and close ---- */

static void ensemble_free(struct zookeeper *zoo)
{
    free(zoo->zpools);
    (void)pthread_mutex_destroy(&zoo->lock);
    free(zoo);
}

static struct coordinator *ensemble_open(const struct server_url *url,
                                         const struct coordinator_options *options, const struct sink *sink,
                                         struct weir_error *err)
{
    struct zookeeper *zoo = calloc(1, sizeof *zoo);
    if (!zoo) {
        (void)weir_error_complain_as(err, ENOMEM, "out of memory");
        return NULL;
    }
    zoo->head.ops = &weir_coordinator_zookeeper;
    zoo->sink = *sink;
    zoo->options = *options;
    zoo->random = (uint64_t)weir_monotonic_ns() ^ (uint64_t)(uintptr_t)zoo;
    zoo->trie.key = weir_hash_key();
    (void)snprintf(zoo->root, sizeof zoo->root, "%s", strcmp(url->path, "/") == 0 ? "" : url->path);
    (void)pthread_mutex_init(&zoo->lock, NULL);
    struct zclient_owner owner = {ensemble_session_changed, ensemble_node_changed, ensemble_tick, zoo};
    struct zclient *client = weir_zclient_open(url, &zoo->options, &owner, err);
    if (!client) {
        ensemble_free(zoo);
        return NULL;
    }
    (void)pthread_mutex_lock(&zoo->lock);
    zoo->client = client;
    (void)pthread_mutex_unlock(&zoo->lock);
    return &zoo->head;
}

static void ensemble_close(struct coordinator *coordinator)
{
    struct zookeeper *zoo = (struct zookeeper *)coordinator;
    (void)pthread_mutex_lock(&zoo->lock);
    zoo->sink.moved = NULL;
    zoo->up = false;
    (void)pthread_mutex_unlock(&zoo->lock);
    weir_zclient_close(zoo->client); /* answers what is still on the way of pools that were left */
    ensemble_free(zoo);
}

/* ---- pools ---- */

static bool assign_watch(struct zookeeper *zoo, struct zoo_pool *zpool)
{
    size_t index = zoo->free_zpool;
    while (index < zoo->zpool_count && zoo->zpools[index])
        index++;
    if (index == zoo->zpool_capacity) {
        size_t room = zoo->zpool_capacity ? 2 * zoo->zpool_capacity : 16;
        struct zoo_pool **zpools = realloc(zoo->zpools, room * sizeof(struct zoo_pool *));
        if (!zpools)
            return false;
        zoo->zpools = zpools;
        zoo->zpool_capacity = room;
    }
    if (index == zoo->zpool_count)
        zoo->zpool_count++;
    zoo->zpools[index] = zpool;
    zoo->free_zpool = index + 1;
    zpool->watch = zpool->watched = ++zoo->entered << 32 | index;
    weir_name_trie_add(&zoo->trie, &zpool->entry);
    return true;
}

static struct pool_handle *ensemble_enter(struct coordinator *coordinator, const char *name,
                                          const struct lease_terms *terms, void *owner,
                                          struct weir_error *err)
{
    struct zookeeper *zoo = (struct zookeeper *)coordinator;
    struct zoo_pool *zpool = calloc(1, sizeof *zpool);
    if (zpool) {
        zpool->zoo = zoo;
        zpool->owner = owner;
        zpool->asked = *terms;
        (void)snprintf(zpool->name, sizeof zpool->name, "%s", name);
        zpool->entry.text = zpool->name;
        (void)pthread_mutex_lock(&zoo->lock);
        bool entered = assign_watch(zoo, zpool);
        (void)pthread_mutex_unlock(&zoo->lock);
        if (entered)
            return (struct pool_handle *)zpool;
    }
    free(zpool);
    (void)weir_error_complain_as(err, ENOMEM, "out of memory");
    return NULL;
}

static void ensemble_leave(struct pool_handle *opaque)
{
    struct zoo_pool *zpool = (struct zoo_pool *)opaque;
    struct zookeeper *zoo = zpool->zoo;
    (void)pthread_mutex_lock(&zoo->lock);
    size_t index = (size_t)(zpool->watch & UINT32_MAX);
    zoo->zpools[index] = NULL;
    weir_name_trie_remove(&zoo->trie, &zpool->entry);
    if (index < zoo->free_zpool)
        zoo->free_zpool = index;
    zpool->watch = 0;
    zpool->orders++; /* it stays until here */
    weir_zoo_forget_orders(zpool);
    zpool->orders--;
    weir_zoo_pool_release(zpool);
    (void)pthread_mutex_unlock(&zoo->lock);
}

static void ensemble_order(struct pool_handle *opaque, const struct lease_order *order)
{
    struct zoo_pool *zpool = (struct zoo_pool *)opaque;
    struct zookeeper *zoo = zpool->zoo;
    (void)pthread_mutex_lock(&zoo->lock);
    weir_zoo_order(zpool, order);
    (void)pthread_mutex_unlock(&zoo->lock);
}

const struct coordinator_ops weir_coordinator_zookeeper = {

    .open = ensemble_open,
    .close = ensemble_close,
    .enter = ensemble_enter,
    .leave = ensemble_leave,
    .order = ensemble_order,
    .quota = weir_zoo_quota,
};
