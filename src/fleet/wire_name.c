/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "fleet/wire_name.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/thread.h"

/* ---- the bell --------------------------------------------------------------------------------- */

struct bell {
    atomic_int holders;
    int fd;
};

struct bell *weir_bell_new(void)
{
    struct bell *bell = malloc(sizeof *bell);
    if (!bell)
        return NULL;
    atomic_init(&bell->holders, 1);
    bell->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bell->fd >= 0)
        return bell;
    free(bell);
    return NULL;
}

struct bell *weir_bell_keep(struct bell *bell)
{
    atomic_fetch_add(&bell->holders, 1);
    return bell;
}

void weir_bell_drop(struct bell *bell)
{
    if (!bell || atomic_fetch_sub(&bell->holders, 1) > 1)
        return;
    (void)close(bell->fd);
    free(bell);
}

int weir_bell_fd(const struct bell *bell)
{
    return bell->fd;
}

void weir_bell_ring(struct bell *bell)
{
    (void)!eventfd_write(bell->fd, 1); /* full: it is readable already */
}

void weir_bell_hush(struct bell *bell)
{
    eventfd_t rung;
    (void)!eventfd_read(bell->fd, &rung);
}

/* ---- the lookup ------------------------------------------------------------------------------- */

struct lookup {
    atomic_int holders; /* who asked, and the thread */
    atomic_bool done;   /* what follows is written before it */
    struct addrinfo *addresses;
    int fault;
    struct bell *bell;
    struct fleet_host host;
};

static atomic_int lookups; /* threads that there are */

static void resolve(struct lookup *lookup, int flags)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    char port[16];
    (void)snprintf(port, sizeof port, "%d", lookup->host.port);
    lookup->fault = getaddrinfo(lookup->host.name, port, &hints, &lookup->addresses);
    if (lookup->fault != 0)
        lookup->addresses = NULL;
}

static void *run(void *arg)
{
    struct lookup *lookup = arg;
    resolve(lookup, 0);
    atomic_store(&lookup->done, true);
    weir_bell_ring(lookup->bell);
    weir_lookup_drop(lookup);
    atomic_fetch_sub(&lookups, 1);
    return NULL;
}

static bool start_thread(struct lookup *lookup)
{
    pthread_t thread;
    if (atomic_fetch_add(&lookups, 1) < LOOKUPS_MAX) {
        atomic_fetch_add(&lookup->holders, 1);
        if (weir_thread_start(&thread, run, lookup)) {
            (void)pthread_detach(thread);
            return true;
        }
        atomic_fetch_sub(&lookup->holders, 1);
    }
    atomic_fetch_sub(&lookups, 1);
    return false;
}

struct lookup *weir_lookup_begin(const struct fleet_host *host, struct bell *bell)
{
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup)
        return NULL;
    atomic_init(&lookup->holders, 1);
    lookup->host = *host;
    lookup->bell = weir_bell_keep(bell);
    resolve(lookup, AI_NUMERICHOST);
    if (lookup->fault == 0) {
        atomic_store(&lookup->done, true);
        return lookup;
    }
    if (start_thread(lookup))
        return lookup;
    weir_lookup_drop(lookup);
    return NULL;
}

bool weir_lookup_done(struct lookup *lookup, const struct addrinfo **addresses, const char **why)
{
    if (!atomic_load(&lookup->done))
        return false;
    *addresses = lookup->addresses;
    *why = lookup->fault != 0 ? gai_strerror(lookup->fault) : "";
    return true;
}

void weir_lookup_drop(struct lookup *lookup)
{
    if (!lookup || atomic_fetch_sub(&lookup->holders, 1) > 1)
        return;
    if (lookup->addresses)
        freeaddrinfo(lookup->addresses);
    weir_bell_drop(lookup->bell);
    free(lookup);
}
