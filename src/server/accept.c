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

bool weir_acceptor_open(struct acceptor *acceptor, const struct config *config, const int *inherited,
                        int count, struct weir_error *err)
{
    for (int i = 0; i < count && acceptor->count < LISTEN_MAX; i++)
        if (!weir_listen_inherited(inherited[i], &acceptor->listeners[acceptor->count++], err))
            return false;
    const char *resp = config->resp ? config->resp : CONFIG_RESP;
    if (count == 0 && strcmp(resp, "none") != 0) {
        size_t opened = weir_listen_tcp(resp, acceptor->listeners, LISTEN_MAX - 1, err);
        if (opened == 0)
            return false;
        acceptor->count = opened;
    }
    if (count == 0 && config->unix_path) {
        if (!weir_listen_unix(config->unix_path, &acceptor->listeners[acceptor->count], err))
            return false;
        acceptor->count++;
    }
    if (acceptor->count == 0) {
        weir_error_set(err, EINVAL, "nowhere to listen; give --resp 127.0.0.1:9049 or --unix PATH");
        return false;
    }
    acceptor->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return true;
}

bool weir_acceptor_is_local(const struct acceptor *acceptor, const char **other)
{
    for (size_t i = 0; i < acceptor->count; i++)
        if (!acceptor->listeners[i].loopback) {
            *other = acceptor->listeners[i].text;
            return false;
        }
    return true;
}

/* ---- letting in ------------------------------------------------------------------------------- */

static void refuse_client(struct acceptor *acceptor, int fd, const char *address, enum admission entry)
{
    const struct service *service = acceptor->service;
    struct client_count_totals count = weir_client_counts_read(service->client_counts);
    (void)!send(fd, full, sizeof full - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
    atomic_fetch_add(&acceptor->service->rejected, 1);
    weir_log(LOG_WARN_LEVEL, "client-refused", LOG_TEXT("client", address),
             LOG_TEXT("why", entry == ADMISSION_ADDRESS_FULL
                                 ? "as many from its address as may be"
                                 : "as many as may be, or no memory or descriptors"),
             LOG_NUMBER("clients", count.all), LOG_NUMBER("max_clients", service->max_clients),
             LOG_NUMBER("strangers", count.unauthenticated),
             LOG_NUMBER("max_strangers", weir_unauthenticated_max(service->max_clients)));
}

static struct io_thread *find_least_loaded(struct acceptor *acceptor)
{
    struct io_thread *least = &acceptor->io_threads[0];
    int64_t least_load = INT64_MAX;
    for (int i = 0; i < acceptor->io_thread_count; i++) {
        int64_t load = atomic_load_explicit(&acceptor->io_threads[i].load, memory_order_relaxed);
        if (load < least_load) {
            least_load = load;
            least = &acceptor->io_threads[i];
        }
    }
    return least;
}

/* There are no descriptors left: one is freed for as long as it takes to say so. */
static void refuse_client_without_descriptors(struct acceptor *acceptor, const struct listen_socket *listener)
{
    char address[LISTEN_ADDRESS_MAX], local[LISTEN_ADDRESS_MAX];
    bool busy;
    if (acceptor->spare >= 0)
        close(acceptor->spare);
    int fd = weir_listen_accept(listener, address, local, &busy);
    if (fd >= 0)
        refuse_client(acceptor, fd, address, ADMISSION_REFUSED);
    acceptor->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_pause_over(void *arg)
{
    struct acceptor *acceptor = arg;
    for (size_t i = 0; i < acceptor->count; i++)
        if (!weir_watch_for(acceptor->watches[i], WATCH_READ))
            weir_timer_set(acceptor->rest_timer, REST_MS, 0);
}

/* Whoever knocks is told of again and again as long as nobody lets him in: nobody listens for a while. */
static void pause_accepting(struct acceptor *acceptor)
{
    for (size_t i = 0; i < acceptor->count; i++)
        (void)weir_watch_for(acceptor->watches[i], 0);
    weir_timer_set(acceptor->rest_timer, REST_MS, 0);
}

static void accept_clients(struct acceptor *acceptor, const struct listen_socket *listener)
{
    char address[LISTEN_ADDRESS_MAX], local[LISTEN_ADDRESS_MAX];
    for (int i = 0; i < ACCEPT_MOST; i++) {
        bool busy;
        if (weir_client_counts_read(acceptor->service->client_counts).dropped >= ACCEPT_MOST) {
            pause_accepting(
                acceptor); /* those who are asked to leave go first: the others wait in the kernel */
            return;
        }
        int fd = weir_listen_accept(listener, address, local, &busy);
        if (busy)
            refuse_client_without_descriptors(acceptor, listener);
        if (fd < 0)
            return;
        enum admission entry = weir_connection_offer(find_least_loaded(acceptor), fd, address, local);
        if (entry == ADMISSION_REFUSED || entry == ADMISSION_ADDRESS_FULL)
            refuse_client(acceptor, fd, address, entry);
    }
}

/* Which of the listeners it was is not told: all are asked, there are few. */
static void on_listener_ready(void *arg, unsigned events)
{
    struct acceptor *acceptor = arg;
    (void)events;
    for (size_t i = 0; i < acceptor->count; i++)
        accept_clients(acceptor, &acceptor->listeners[i]);
}

bool weir_acceptor_watch(struct acceptor *acceptor, struct loop *loop, struct weir_error *err)
{
    acceptor->rest_timer = weir_timer_new(loop, on_pause_over, acceptor);
    if (!acceptor->rest_timer)
        return weir_error_complain_as(err, ENOMEM, "out of memory");
    for (size_t i = 0; i < acceptor->count; i++) {
        if (!weir_listen_start(&acceptor->listeners[i], err))
            return false;
        acceptor->watches[i] = weir_watch_new(loop, acceptor->listeners[i].fd, on_listener_ready, acceptor);
        if (!acceptor->watches[i] || !weir_watch_for(acceptor->watches[i], WATCH_READ))
            return weir_error_complain_as(err, EMFILE, "no memory or descriptors for an event loop");
    }
    return true;
}

void weir_acceptor_close(struct acceptor *acceptor)
{
    for (size_t i = 0; i < acceptor->count; i++) {
        weir_watch_free(acceptor->watches[i]);
        acceptor->watches[i] = NULL;
        weir_listen_end(&acceptor->listeners[i]);
    }
    acceptor->count = 0;
    weir_timer_free(acceptor->rest_timer);
    acceptor->rest_timer = NULL;
    if (acceptor->spare >= 0)
        close(acceptor->spare);
    acceptor->spare = -1;
}
