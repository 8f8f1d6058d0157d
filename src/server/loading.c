/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE

#include "server/loading.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOADING_CLIENTS 32 /* connections that were answered and are not closed yet */

static const char loads[] = "-LOADING weir is reading its data directory; try again soon\r\n";

/* A socket that is closed before its input is read resets the connection, and the client may lose the answer:
 * so it stays open until the client closes it, or until there are LOADING_CLIENTS later ones. */
struct loading_clients {
    struct pollfd files[LOADING_CLIENTS];
    size_t next;
};

static void loading_client_end(struct pollfd *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

static void loading_client_begin(struct loading_clients *clients, int fd)
{
    struct pollfd *file = &clients->files[clients->next++ % LOADING_CLIENTS];
    loading_client_end(file);
    (void)!send(fd, loads, sizeof loads - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(fd, SHUT_WR);
    *file = (struct pollfd){.fd = fd, .events = POLLIN};
}

static void read_loading_clients(struct loading_clients *clients)
{
    char unread[4096];
    for (size_t i = 0; i < LOADING_CLIENTS; i++) {
        struct pollfd *file = &clients->files[i];
        if (file->fd >= 0 && file->revents != 0 && recv(file->fd, unread, sizeof unread, MSG_DONTWAIT) <= 0)
            loading_client_end(file);
    }
}

static void accept_loading_clients(const struct loading *loading, struct loading_clients *clients)
{
    char address[LISTEN_ADDRESS_MAX], local[LISTEN_ADDRESS_MAX];
    bool busy;
    for (size_t i = 0; i < loading->acceptor->count; i++) {
        const struct listen_socket *listener = &loading->acceptor->listeners[i];
        int fd = listener->inherited ? -1 : weir_listen_accept(listener, address, local, &busy);
        if (fd >= 0)
            loading_client_begin(clients, fd);
    }
}

static void *run_loading(void *arg)
{
    const struct loading *loading = arg;
    struct loading_clients clients = {.next = 0};
    struct pollfd files[1 + LISTEN_MAX + LOADING_CLIENTS];
    nfds_t listeners = 1 + (nfds_t)loading->acceptor->count;
    for (size_t i = 0; i < LOADING_CLIENTS; i++)
        clients.files[i].fd = -1;
    do {
        files[0] = (struct pollfd){.fd = loading->stop[0], .events = POLLIN};
        for (nfds_t i = 1; i < listeners; i++) {
            const struct listen_socket *listener = &loading->acceptor->listeners[i - 1];
            files[i] = (struct pollfd){.fd = listener->inherited ? -1 : listener->fd, .events = POLLIN};
        }
        for (size_t i = 0; i < LOADING_CLIENTS; i++)
            files[listeners + i] = clients.files[i];
        (void)poll(files, listeners + LOADING_CLIENTS, -1);
        for (size_t i = 0; i < LOADING_CLIENTS; i++)
            clients.files[i].revents = files[listeners + i].revents;
        read_loading_clients(&clients);
        accept_loading_clients(loading, &clients);
    } while (files[0].revents == 0);
    for (size_t i = 0; i < LOADING_CLIENTS; i++)
        loading_client_end(&clients.files[i]);
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
