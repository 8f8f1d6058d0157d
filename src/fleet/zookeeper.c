/* SPDX-License-Identifier: MIT */
/*
 * zookeeper:// as a coordinator: pools are nodes (zookeeper_nodes.h), epochs are turned by those who use
 * them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fleet/zookeeper_place.h"
#include "os/futex.h"

/* ---- what the client tells ---- */

static void session_moved(void *arg, bool up, const char *why)
{
    struct zookeeper *zoo = arg;
    (void)pthread_mutex_lock(&zoo->lock);
    zoo->up = up;
    if (zoo->sink.moved)
        zoo->sink.moved(zoo->sink.agent, up, why);
    /* Whatever was known may have changed, and of a new session no watch is set. */
    for (size_t i = 0; up && zoo->client && i < zoo->place_count; i++)
        if (zoo->places[i])
            weir_zoo_learn(zoo->places[i]);
    (void)pthread_mutex_unlock(&zoo->lock);
}

static void node_changed(void *arg, uint64_t watch)
{
    struct zookeeper *zoo = arg;
    size_t index = (size_t)(watch & UINT32_MAX);
    (void)pthread_mutex_lock(&zoo->lock);
    struct place *place = index < zoo->place_count ? zoo->places[index] : NULL;
    if (place && place->watch == watch && zoo->up)
        weir_zoo_learn(place);
    (void)pthread_mutex_unlock(&zoo->lock);
}

static void tick(void *arg)
{
    struct zookeeper *zoo = arg;
    (void)pthread_mutex_lock(&zoo->lock);
    weir_zoo_expire(zoo, weir_monotonic_ns());
    (void)pthread_mutex_unlock(&zoo->lock);
}

/* ---- open and close ---- */

static void ensemble_free(struct zookeeper *zoo)
{
    free(zoo->places);
    (void)pthread_mutex_destroy(&zoo->lock);
    free(zoo);
}

static struct coordinator *ensemble_open(const struct fleet_url *url,
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
    if (zoo->options.connect_ns <= 0)
        zoo->options.connect_ns = 5 * WEIR_SEC;
    if (zoo->options.answer_ns <= 0)
        zoo->options.answer_ns = 2 * WEIR_SEC;
    if (zoo->options.session_ns <= 0)
        zoo->options.session_ns = 10 * WEIR_SEC;
    zoo->random = (uint64_t)weir_monotonic_ns() ^ (uint64_t)(uintptr_t)zoo;
    zoo->roll.key = weir_hash_key();
    (void)snprintf(zoo->root, sizeof zoo->root, "%s", strcmp(url->path, "/") == 0 ? "" : url->path);
    (void)pthread_mutex_init(&zoo->lock, NULL);
    struct zclient_owner owner = {session_moved, node_changed, tick, zoo};
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
    weir_zclient_close(zoo->client); /* answers what is still on the way of places that were left */
    ensemble_free(zoo);
}

/* ---- places ---- */

static bool give_watch(struct zookeeper *zoo, struct place *place)
{
    size_t index = zoo->free_place;
    while (index < zoo->place_count && zoo->places[index])
        index++;
    if (index == zoo->place_room) {
        size_t room = zoo->place_room ? 2 * zoo->place_room : 16;
        struct place **places = realloc(zoo->places, room * sizeof(struct place *));
        if (!places)
            return false;
        zoo->places = places;
        zoo->place_room = room;
    }
    if (index == zoo->place_count)
        zoo->place_count++;
    zoo->places[index] = place;
    zoo->free_place = index + 1;
    place->watch = place->watched = ++zoo->entered << 32 | index;
    weir_roll_add(&zoo->roll, &place->entry);
    return true;
}

static struct place *ensemble_enter(struct coordinator *coordinator, const char *name,
                                    const struct lease_terms *terms, void *owner, struct weir_error *err)
{
    struct zookeeper *zoo = (struct zookeeper *)coordinator;
    if (!weir_fleet_name_check(name, err))
        return NULL;
    struct place *place = calloc(1, sizeof *place);
    if (place) {
        place->zoo = zoo;
        place->owner = owner;
        place->asked = *terms;
        (void)snprintf(place->name, sizeof place->name, "%s", name);
        place->entry.text = place->name;
        (void)pthread_mutex_lock(&zoo->lock);
        bool entered = give_watch(zoo, place);
        (void)pthread_mutex_unlock(&zoo->lock);
        if (entered)
            return place;
    }
    free(place);
    (void)weir_error_complain_as(err, ENOMEM, "out of memory");
    return NULL;
}

static void ensemble_leave(struct place *place)
{
    struct zookeeper *zoo = place->zoo;
    (void)pthread_mutex_lock(&zoo->lock);
    size_t index = (size_t)(place->watch & UINT32_MAX);
    zoo->places[index] = NULL;
    weir_roll_remove(&zoo->roll, &place->entry);
    if (index < zoo->free_place)
        zoo->free_place = index;
    place->watch = 0;
    place->orders++; /* it stays until here */
    weir_zoo_forget_orders(place);
    place->orders--;
    weir_zoo_place_release(place);
    (void)pthread_mutex_unlock(&zoo->lock);
}

static void ensemble_order(struct place *place, const struct lease_order *order)
{
    struct zookeeper *zoo = place->zoo;
    (void)pthread_mutex_lock(&zoo->lock);
    weir_zoo_order(place, order);
    (void)pthread_mutex_unlock(&zoo->lock);
}

const struct coordinator_ops weir_coordinator_zookeeper = {
    .scheme = "zookeeper",
    .open = ensemble_open,
    .close = ensemble_close,
    .enter = ensemble_enter,
    .leave = ensemble_leave,
    .order = ensemble_order,
    .quota = weir_zoo_quota,
};
