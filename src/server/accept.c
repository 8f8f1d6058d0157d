/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE

#include "server/accept.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "server/connection.h"
#include "service/log.h"

#define ACCEPT_MOST 64 /* in one go: those who are here want answers, too */
#define REST_MS     5

static const char full[] = "-ERR max number of clients reached\r\n";

bool weir_door_open(struct door *door, const struct config *config, const int *inherited, int count,
                    struct weir_error *err)
{
    for (int i = 0; i < count && door->count < LISTEN_MAX; i++)
        if (!weir_listen_inherited(inherited[i], &door->listeners[door->count++], err))
            return false;
    const char *resp = config->resp ? config->resp : CONFIG_RESP;
    if (count == 0 && strcmp(resp, "none") != 0) {
        size_t opened = weir_listen_tcp(resp, door->listeners, LISTEN_MAX - 1, err);
        if (opened == 0)
            return false;
        door->count = opened;
    }
    if (count == 0 && config->unix_path) {
        if (!weir_listen_unix(config->unix_path, &door->listeners[door->count], err))
            return false;
        door->count++;
    }
    if (door->count == 0) {
        weir_error_set(err, EINVAL, "nowhere to listen; give --resp 127.0.0.1:9049 or --unix PATH");
        return false;
    }
    door->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return true;
}

bool weir_door_is_local(const struct door *door, const char **other)
{
    for (size_t i = 0; i < door->count; i++)
        if (!door->listeners[i].loopback) {
            *other = door->listeners[i].text;
            return false;
        }
    return true;
}

/* ---- letting in ------------------------------------------------------------------------------- */

static void turn_away(struct door *door, int fd, const char *address, enum entry entry)
{
    const struct service *service = door->service;
    struct crowd_count count = weir_crowd_count(service->crowd);
    (void)!send(fd, full, sizeof full - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
    atomic_fetch_add(&door->service->rejected, 1);
    weir_log(LOG_WARN_LEVEL, "turned-away", LOG_TEXT("client", address),
             LOG_TEXT("why", entry == ENTRY_ADDRESS ? "as many from its address as may be"
                                                    : "as many as may be, or no memory or descriptors"),
             LOG_NUMBER("clients", count.all), LOG_NUMBER("max_clients", service->max_clients),
             LOG_NUMBER("strangers", count.strangers),
             LOG_NUMBER("max_strangers", weir_crowd_strangers_most(service->max_clients)));
}

static struct lane *least_loaded(struct door *door)
{
    struct lane *least = &door->lanes[0];
    int64_t least_load = INT64_MAX;
    for (int i = 0; i < door->lane_count; i++) {
        int64_t load = atomic_load_explicit(&door->lanes[i].load, memory_order_relaxed);
        if (load < least_load) {
            least_load = load;
            least = &door->lanes[i];
        }
    }
    return least;
}

/* There are no descriptors left: one is freed for as long as it takes to say so. */
static void turn_away_one(struct door *door, const struct listener *listener)
{
    char address[LISTEN_ADDRESS_MAX], local[LISTEN_ADDRESS_MAX];
    bool busy;
    if (door->spare >= 0)
        close(door->spare);
    int fd = weir_listen_accept(listener, address, local, &busy);
    if (fd >= 0)
        turn_away(door, fd, address, ENTRY_REFUSED);
    door->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_rested(void *arg)
{
    struct door *door = arg;
    for (size_t i = 0; i < door->count; i++)
        if (!weir_watch_for(door->watches[i], WATCH_READ))
            weir_timer_set(door->rest_timer, REST_MS, 0);
}

/* Whoever knocks is told of again and again as long as nobody lets him in: nobody listens for a while. */
static void rest(struct door *door)
{
    for (size_t i = 0; i < door->count; i++)
        (void)weir_watch_for(door->watches[i], 0);
    weir_timer_set(door->rest_timer, REST_MS, 0);
}

static void let_in(struct door *door, const struct listener *listener)
{
    char address[LISTEN_ADDRESS_MAX], local[LISTEN_ADDRESS_MAX];
    for (int i = 0; i < ACCEPT_MOST; i++) {
        bool busy;
        if (weir_crowd_count(door->service->crowd).dropped >= ACCEPT_MOST) {
            rest(door); /* those who are asked to leave go first: the others wait in the kernel */
            return;
        }
        int fd = weir_listen_accept(listener, address, local, &busy);
        if (busy)
            turn_away_one(door, listener);
        if (fd < 0)
            return;
        enum entry entry = weir_connection_offer(least_loaded(door), fd, address, local);
        if (entry == ENTRY_REFUSED || entry == ENTRY_ADDRESS)
            turn_away(door, fd, address, entry);
    }
}

/* Which of the listeners it was is not told: all are asked, there are few. */
static void on_knock(void *arg, unsigned events)
{
    struct door *door = arg;
    (void)events;
    for (size_t i = 0; i < door->count; i++)
        let_in(door, &door->listeners[i]);
}

bool weir_door_watch(struct door *door, struct loop *loop, struct weir_error *err)
{
    door->rest_timer = weir_timer_new(loop, on_rested, door);
    if (!door->rest_timer)
        return weir_error_complain_as(err, ENOMEM, "out of memory");
    for (size_t i = 0; i < door->count; i++) {
        if (!weir_listen_start(&door->listeners[i], err))
            return false;
        door->watches[i] = weir_watch_new(loop, door->listeners[i].fd, on_knock, door);
        if (!door->watches[i] || !weir_watch_for(door->watches[i], WATCH_READ))
            return weir_error_complain_as(err, EMFILE, "no memory or descriptors for an event loop");
    }
    return true;
}

void weir_door_close(struct door *door)
{
    for (size_t i = 0; i < door->count; i++) {
        weir_watch_free(door->watches[i]);
        door->watches[i] = NULL;
        weir_listen_end(&door->listeners[i]);
    }
    door->count = 0;
    weir_timer_free(door->rest_timer);
    door->rest_timer = NULL;
    if (door->spare >= 0)
        close(door->spare);
    door->spare = -1;
}
