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

#define HTTP_UNAVAILABLE                                                                                     \
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"

/* ---- opening ---------------------------------------------------------------------------------- */

#define LISTEN_EACH 4 /* sockets of one address: a name may have several */

static bool open_listener(struct acceptor *acceptor, enum listener_kind kind, const char *address,
                          struct weir_error *err)
{
    struct listen_socket *next = &acceptor->listeners[acceptor->count];
    size_t opened = kind == LISTEN_UNIX ? weir_listen_unix(address, next, err)
                                        : weir_listen_tcp(kind, address, next, LISTEN_EACH, err);
    acceptor->count += opened;
    return opened > 0;
}

/* Where there is an address for it, administrative routes are served there alone. */
static void set_admin_listeners(struct acceptor *acceptor)
{
    bool apart = false;
    for (size_t i = 0; i < acceptor->count; i++)
        apart |= acceptor->listeners[i].kind == LISTEN_ADMIN;
    for (size_t i = 0; i < acceptor->count; i++)
        acceptor->listeners[i].admin = !apart || acceptor->listeners[i].kind == LISTEN_ADMIN;
}

bool weir_acceptor_open(struct acceptor *acceptor, const struct config *config,
                        const struct inherited_socket *inherited, int count, struct weir_error *err)
{
    _Static_assert(LISTENER_KINDS * LISTEN_EACH <= LISTEN_MAX, "room for every address");
    for (int i = 0; i < count && acceptor->count < LISTEN_MAX; i++)
        if (!weir_listen_inherited(inherited[i].fd, inherited[i].kind,
                                   &acceptor->listeners[acceptor->count++], err))
            return false;
    for (int kind = 0; count == 0 && kind < LISTENER_KINDS; kind++) {
        const char *address = weir_config_listen(config, (enum listener_kind)kind);
        if (address && !open_listener(acceptor, (enum listener_kind)kind, address, err))
            return false;
    }
    for (size_t i = 0; i < acceptor->count; i++)
        if (listener_is_tls(&acceptor->listeners[i]) && !acceptor->tls)
            return weir_error_complain(err,
                                       "%s needs a certificate: tls: {cert: FILE, key: FILE} in weir.yaml",
                                       weir_listener_name(acceptor->listeners[i].kind));
    if (acceptor->count == 0)
        return weir_error_complain(
            err, "nowhere to listen; give --resp 127.0.0.1:9049, --http 127.0.0.1:9050 or --unix PATH");
    set_admin_listeners(acceptor);
    for (size_t i = 0; i < acceptor->count; i++)
        acceptor->listeners[i].proxy_protocol = config->proxy_protocol >> acceptor->listeners[i].kind & 1;
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

/* By TLS a handshake would have to come first, and costs more than all else. */
void weir_acceptor_turn_away(const struct listen_socket *listener, int fd, const char *resp)
{
    const char *text = listener_is_http(listener) ? HTTP_UNAVAILABLE : resp;
    if (!listener_is_tls(listener))
        (void)!send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void refuse_client(struct acceptor *acceptor, const struct listen_socket *listener, int fd,
                          const char *address, enum admission entry)
{
    const struct service *service = acceptor->service;
    struct client_count_totals count = weir_client_counts_read(service->client_counts);
    weir_acceptor_turn_away(listener, fd, "-ERR max number of clients reached\r\n");
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
        refuse_client(acceptor, listener, fd, address, ADMISSION_REFUSED);
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
        enum admission entry =
            weir_connection_offer(find_least_loaded(acceptor), listener, fd, address, local);
        if (entry == ADMISSION_REFUSED || entry == ADMISSION_ADDRESS_FULL)
            refuse_client(acceptor, listener, fd, address, entry);
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
