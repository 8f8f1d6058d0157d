/* SPDX-License-Identifier: MIT */
/*
 * The protocols of sd_listen_fds(3), sd_notify(3) and sd_watchdog_enabled(3), which are a few variables and
 * one datagram.
 */
#define _GNU_SOURCE

#include "server/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_FD 3

/* A number in decimal, no more than that. */
static bool parse_env_number(const char *text, int64_t *number)
{
    char *end;
    if (!text || *text < '0' || *text > '9')
        return false;
    errno = 0;
    *number = strtoll(text, &end, 10);
    return *end == '\0' && errno == 0;
}

/* Variables that tell a process something may have been inherited from a parent that it was meant for. */
static bool meant_for_us(const char *pid_text)
{
    int64_t pid;
    return parse_env_number(pid_text, &pid) && pid == getpid();
}

int weir_notify_sockets(struct inherited_socket *sockets, int room)
{
    int64_t given = 0;
    int count = 0;
    const char *name = getenv("LISTEN_FDNAMES"); /* "resp:http": one for each descriptor */
    if (meant_for_us(getenv("LISTEN_PID")) && parse_env_number(getenv("LISTEN_FDS"), &given))
        for (int fd = FIRST_FD; fd - FIRST_FD < given && count < room; fd++) {
            size_t len = name ? strcspn(name, ":") : 0;
            if (fcntl(fd, F_SETFD, FD_CLOEXEC) == 0)
                sockets[count++] = (struct inherited_socket){fd, weir_listener_read(name ? name : "", len)};
            name = name && name[len] == ':' ? name + len + 1 : NULL;
        }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return count;
}

bool weir_notify_send(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = path ? strlen(path) : 0;
    if (len < 2 || len >= sizeof address.sun_path || (path[0] != '/' && path[0] != '@'))
        return false;
    memcpy(address.sun_path, path, len);
    if (path[0] == '@') /* a name that is no file */
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    ssize_t sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
                          (const struct sockaddr *)&address, size);
    close(fd);
    return sent == (ssize_t)strlen(state);
}

int64_t weir_notify_watchdog_ms(void)
{
    int64_t usec;
    const char *pid = getenv("WATCHDOG_PID");
    if ((pid && !meant_for_us(pid)) || !parse_env_number(getenv("WATCHDOG_USEC"), &usec))
        return 0;
    return usec / 2000 > 0 ? usec / 2000 : usec > 0;
}
