/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE

#include "server/loading.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define GUESTS 32 /* connections that were answered and are not closed yet */

static const char loads[] = "-LOADING weir is reading its data directory; try again soon\r\n";

/* A socket that is closed before its input is read resets the connection, and the client may lose the answer:
 * so it stays open until the client closes it, or until there are GUESTS later ones. */
struct guests {
    struct pollfd files[GUESTS];
    size_t next;
};

static void guest_end(struct pollfd *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

static void guest_begin(struct guests *guests, int fd)
{
    struct pollfd *file = &guests->files[guests->next++ % GUESTS];
    guest_end(file);
    (void)!send(fd, loads, sizeof loads - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(fd, SHUT_WR);
    *file = (struct pollfd){.fd = fd, .events = POLLIN};
}

static void guests_read(struct guests *guests)
{
    char unread[4096];
    for (size_t i = 0; i < GUESTS; i++) {
        struct pollfd *file = &guests->files[i];
        if (file->fd >= 0 && file->revents != 0 && recv(file->fd, unread, sizeof unread, MSG_DONTWAIT) <= 0)
            guest_end(file);
    }
}

static void let_in(const struct loading *loading, struct guests *guests)
{
    char address[LISTEN_ADDRESS_MAX], local[LISTEN_ADDRESS_MAX];
    bool busy;
    for (size_t i = 0; i < loading->door->count; i++) {
        const struct listener *listener = &loading->door->listeners[i];
        int fd = listener->inherited ? -1 : weir_listen_accept(listener, address, local, &busy);
        if (fd >= 0)
            guest_begin(guests, fd);
    }
}

static void *run(void *arg)
{
    const struct loading *loading = arg;
    struct guests guests = {.next = 0};
    struct pollfd files[1 + LISTEN_MAX + GUESTS];
    nfds_t listeners = 1 + (nfds_t)loading->door->count;
    for (size_t i = 0; i < GUESTS; i++)
        guests.files[i].fd = -1;
    do {
        files[0] = (struct pollfd){.fd = loading->stop[0], .events = POLLIN};
        for (nfds_t i = 1; i < listeners; i++) {
            const struct listener *listener = &loading->door->listeners[i - 1];
            files[i] = (struct pollfd){.fd = listener->inherited ? -1 : listener->fd, .events = POLLIN};
        }
        for (size_t i = 0; i < GUESTS; i++)
            files[listeners + i] = guests.files[i];
        (void)poll(files, listeners + GUESTS, -1);
        for (size_t i = 0; i < GUESTS; i++)
            guests.files[i].revents = files[listeners + i].revents;
        guests_read(&guests);
        let_in(loading, &guests);
    } while (files[0].revents == 0);
    for (size_t i = 0; i < GUESTS; i++)
        guest_end(&guests.files[i]);
    return NULL;
}

void weir_loading_begin(struct loading *loading, struct door *door)
{
    struct weir_error err;
    *loading = (struct loading){.door = door};
    if (pipe2(loading->stop, O_CLOEXEC) != 0)
        return;
    for (size_t i = 0; i < door->count; i++)
        (void)weir_listen_start(&door->listeners[i], &err); /* a fault is found again by weir_door_watch */
    loading->runs = pthread_create(&loading->thread, NULL, run, loading) == 0;
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
