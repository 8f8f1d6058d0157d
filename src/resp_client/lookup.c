/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "resp_client/lookup.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/thread.h"

/* ---- the wakeup --------------------------------------------------------------------------------- */

struct wakeup {
    atomic_int refs;
    int fd;
};

struct wakeup *weir_wakeup_new(void)
{
    struct wakeup *wakeup = malloc(sizeof *wakeup);
    if (!wakeup)
        return NULL;
    atomic_init(&wakeup->refs, 1);
    wakeup->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wakeup->fd >= 0)
        return wakeup;
    free(wakeup);
    return NULL;
}

struct wakeup *weir_wakeup_ref(struct wakeup *wakeup)
{
    atomic_fetch_add(&wakeup->refs, 1);
    return wakeup;
}

void weir_wakeup_unref(struct wakeup *wakeup)
{
    if (!wakeup || atomic_fetch_sub(&wakeup->refs, 1) > 1)
        return;
    (void)close(wakeup->fd);
    free(wakeup);
}

int weir_wakeup_fd(const struct wakeup *wakeup)
{
    return wakeup->fd;
}

void weir_wakeup_signal(struct wakeup *wakeup)
{
    (void)!eventfd_write(wakeup->fd, 1); /* full: it is readable already */
}

void weir_wakeup_clear(struct wakeup *wakeup)
{
    eventfd_t rung;
    (void)!eventfd_read(wakeup->fd, &rung);
}

/* ---- the lookup ------------------------------------------------------------------------------- */

struct lookup {
    atomic_int refs;  /* who asked, and the thread */
    atomic_bool done; /* what follows is written before it */
    struct addrinfo *addresses;
    int fault;
    struct wakeup *wakeup;
    struct server_host host;
    struct addrinfo unix_address; /* of a name that is a path: `addresses`, and nobody frees it */
    struct sockaddr_un path;
};

static atomic_int lookups; /* threads that there are */

static void resolve_host(struct lookup *lookup, int flags)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    char port[16];
    (void)snprintf(port, sizeof port, "%d", lookup->host.port);
    lookup->fault = getaddrinfo(lookup->host.name, port, &hints, &lookup->addresses);
    if (lookup->fault != 0)
        lookup->addresses = NULL;
}

static void resolve_path(struct lookup *lookup)
{
    size_t len = strlen(lookup->host.name);
    lookup->fault = len < sizeof lookup->path.sun_path ? 0 : EAI_FAIL;
    if (lookup->fault != 0)
        return;
    lookup->path.sun_family = AF_UNIX;
    memcpy(lookup->path.sun_path, lookup->host.name, len + 1);
    lookup->unix_address = (struct addrinfo){
        .ai_family = AF_UNIX, .ai_addr = (struct sockaddr *)&lookup->path, .ai_addrlen = sizeof lookup->path};
    lookup->addresses = &lookup->unix_address;
}

static void *run_lookup(void *arg)
{
    struct lookup *lookup = arg;
    resolve_host(lookup, 0);
    atomic_store(&lookup->done, true);
    weir_wakeup_signal(lookup->wakeup);
    weir_lookup_drop(lookup);
    atomic_fetch_sub(&lookups, 1);
    return NULL;
}

static bool start_lookup_thread(struct lookup *lookup)
{
    pthread_t thread;
    if (atomic_fetch_add(&lookups, 1) < LOOKUPS_MAX) {
        atomic_fetch_add(&lookup->refs, 1);
        if (weir_thread_start(&thread, run_lookup, lookup)) {
            (void)pthread_detach(thread);
            return true;
        }
        atomic_fetch_sub(&lookup->refs, 1);
    }
    atomic_fetch_sub(&lookups, 1);
    return false;
}

struct lookup *weir_lookup_begin(const struct server_host *host, struct wakeup *wakeup)
{
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup)
        return NULL;
    atomic_init(&lookup->refs, 1);
    lookup->host = *host;
    lookup->wakeup = weir_wakeup_ref(wakeup);
    bool is_path = host->name[0] == '/';
    if (is_path)
        resolve_path(lookup);
    else
        resolve_host(lookup, AI_NUMERICHOST);
    if (lookup->fault == 0 || is_path) {
        atomic_store(&lookup->done, true);
        return lookup;
    }
    if (start_lookup_thread(lookup))
        return lookup;
    weir_lookup_drop(lookup);
    return NULL;
}

bool weir_lookup_done(struct lookup *lookup, const struct addrinfo **addresses, const char **why)
{
    if (!atomic_load(&lookup->done))
        return false;
    *addresses = lookup->addresses;
    bool is_path = lookup->host.name[0] == '/';
    *why = lookup->fault == 0 ? "" : is_path ? "File name too long" : gai_strerror(lookup->fault);
    return true;
}

void weir_lookup_drop(struct lookup *lookup)
{
    if (!lookup || atomic_fetch_sub(&lookup->refs, 1) > 1)
        return;
    if (lookup->addresses && lookup->addresses != &lookup->unix_address)
        freeaddrinfo(lookup->addresses);
    weir_wakeup_unref(lookup->wakeup);
    free(lookup);
}
