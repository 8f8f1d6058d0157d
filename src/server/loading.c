/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE

#include "server/loading.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOADING_CLIENTS 32 /* connections that were answered and are not closed yet */

#define ASK_MS 100 /* that a client of HTTP has for its request */

static const char loads[] = "-LOADING weir is reading its data directory; try again soon\r\n";
static const char http_loads[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
                                 "Content-Length: 38\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
                                 "{\"ready\":false,\"reasons\":[\"loading\"]}\n";
static const char http_lives[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 14\r\n"
                                 "Connection: close\r\n\r\n{\"live\":true}\n";

/* A socket that is closed before its input is read resets the connection, and the client may lose the answer:
 * so each stays open until there are LOADING_CLIENTS later ones, and what it has sent is read before. */
struct loading_clients {
    int files[LOADING_CLIENTS];
    size_t count;
};

static void close_loading_client(int fd)
{
    char unread[4096];
    while (recv(fd, unread, sizeof unread, MSG_DONTWAIT) > 0)
        ;
    close(fd);
}

/* Who reads a large directory is alive, and must not be killed for it. */
static bool asks_for_life(int fd)
{
    struct pollfd file = {.fd = fd, .events = POLLIN};
    char request[16] = "";
    if (poll(&file, 1, ASK_MS) <= 0 || recv(fd, request, sizeof request - 1, MSG_DONTWAIT | MSG_PEEK) <= 0)
        return false;
    const char *path = request + strcspn(request, " ");
    return strncmp(path, " /livez ", 8) == 0 || strncmp(path, " /health", 8) == 0;
}

static void answer_http_loading(int fd)
{
    const char *answer = asks_for_life(fd) ? http_lives : http_loads;
    (void)!send(fd, answer, strlen(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void add_loading_client(struct loading_clients *clients, const struct listen_socket *listener, int fd)
{
    int *place = &clients->files[clients->count % LOADING_CLIENTS];
    if (clients->count++ >= LOADING_CLIENTS)
        close_loading_client(*place);
    if (listener_is_http(listener) && !listener_is_tls(listener))
        answer_http_loading(fd);
    else
        weir_acceptor_turn_away(listener, fd, loads);
    (void)shutdown(fd, SHUT_WR);
    *place = fd;
}

static void *run_loading(void *arg)
{
    const struct loading *loading = arg;
    const struct acceptor *acceptor = loading->acceptor;
    struct loading_clients clients = {.count = 0};
    struct pollfd files[1 + LISTEN_MAX] = {{.fd = loading->stop[0], .events = POLLIN}};
    char address[LISTEN_ADDRESS_MAX], local[LISTEN_ADDRESS_MAX];
    bool busy;
    for (size_t i = 0; i < acceptor->count; i++)
        files[1 + i] = (struct pollfd){
            .fd = acceptor->listeners[i].inherited ? -1 : acceptor->listeners[i].fd, .events = POLLIN};
    while (poll(files, 1 + acceptor->count, -1) < 0 || files[0].revents == 0)
        for (size_t i = 0; i < acceptor->count; i++) {
            int fd = files[1 + i].revents == 0
                         ? -1
                         : weir_listen_accept(&acceptor->listeners[i], address, local, &busy);
            if (fd >= 0)
                add_loading_client(&clients, &acceptor->listeners[i], fd);
        }
    for (size_t i = 0; i < clients.count && i < LOADING_CLIENTS; i++)
        close_loading_client(clients.files[i]);
    return NULL;
}

void weir_loading_begin(struct loading *loading, struct acceptor *acceptor)
{
    struct weir_error err;
    *loading = (struct loading){.acceptor = acceptor};
    if (pipe2(loading->stop, O_CLOEXEC) != 0)
        return;
    for (size_t i = 0; i < acceptor->count; i++)
        (void)weir_listen_start(&acceptor->listeners[i],
                                &err); /* a fault is found again by weir_acceptor_watch */
    loading->runs = pthread_create(&loading->thread, NULL, run_loading, loading) == 0;
    if (!loading->runs) {
        close(loading->stop[0]);
        close(loading->stop[1]);
    }
}

void weir_loading_end(struct loading *loading)
{
    if (!loading->runs)
        return;
    close(loading->stop[1]);
    (void)pthread_join(loading->thread, NULL);
    close(loading->stop[0]);
    loading->runs = false;
}
