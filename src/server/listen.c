/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE

#include "server/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"

#define BACKLOG      1024
#define HOST_MAX     256
#define KEEPALIVE_S  300
#define SOCKET_UMASK 0117 /* the owner and his group may connect */

union socket_address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    struct sockaddr_un un;
    struct sockaddr_storage storage;
};

/* ---- addresses as text ------------------------------------------------------------------------ */

static int port_of(const union socket_address *address)
{
    if (address->any.sa_family == AF_INET)
        return ntohs(address->four.sin_port);
    return address->any.sa_family == AF_INET6 ? ntohs(address->six.sin6_port) : 0;
}

static void show_address(const union socket_address *address, char *text, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &address->four.sin_addr, host, sizeof host);
        snprintf(text, size, "%s:%d", host, port_of(address));
    } else if (address->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&address->six.sin6_addr)) {
        inet_ntop(AF_INET, &address->six.sin6_addr.s6_addr[12], host, sizeof host);
        snprintf(text, size, "%s:%d", host, port_of(address));
    } else if (address->any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &address->six.sin6_addr, host, sizeof host);
        snprintf(text, size, "[%s]:%d", host, port_of(address));
    } else {
        snprintf(text, size, "unix");
    }
}

static bool is_loopback(const union socket_address *address)
{
    const struct in6_addr *six = &address->six.sin6_addr;
    if (address->any.sa_family == AF_INET)
        return ntohl(address->four.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    if (address->any.sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == IN_LOOPBACKNET);
    return address->any.sa_family == AF_UNIX;
}

/* What the socket says it listens on. */
static bool describe_listener(struct listen_socket *listener)
{
    union socket_address address = {.any.sa_family = AF_UNSPEC};
    socklen_t len = sizeof address;
    if (getsockname(listener->fd, &address.any, &len) < 0)
        return false;
    listener->is_unix = address.any.sa_family == AF_UNIX;
    listener->loopback = is_loopback(&address);
    listener->port = port_of(&address);
    if (listener->is_unix) {
        size_t path_len = len > sizeof(sa_family_t) ? len - sizeof(sa_family_t) : 0;
        const char *path = address.un.sun_path;
        bool abstract = path_len > 0 && path[0] == '\0';
        snprintf(listener->text, sizeof listener->text, "unix:%s%.*s", abstract ? "@" : "",
                 (int)path_len - abstract, path + abstract);
    } else {
        show_address(&address, listener->text, sizeof listener->text);
    }
    return listener->is_unix || address.any.sa_family == AF_INET || address.any.sa_family == AF_INET6;
}

/* ---- TCP -------------------------------------------------------------------------------------- */

/* Takes "host:port" apart; an empty host stands for all addresses. */
static bool split_host_port(const char *address, char host[HOST_MAX], const char **port)
{
    const char *colon = strrchr(address, ':');
    if (!colon || colon[1] == '\0' || strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
        strlen(colon + 1) > 5 || strtol(colon + 1, NULL, 10) > 65535) /* getaddrinfo cuts it instead */
        return false;
    size_t len = (size_t)(colon - address);
    if (len >= 2 && address[0] == '[' && address[len - 1] == ']') {
        address++;
        len -= 2;
    } else if (memchr(address, ':', len)) { /* an address of IPv6 needs its brackets */
        return false;
    }
    if (len >= HOST_MAX)
        return false;
    memcpy(host, address, len);
    host[len] = '\0';
    if (strcmp(host, "*") == 0)
        host[0] = '\0';
    *port = colon + 1;
    return true;
}

static int open_tcp(const struct addrinfo *at, int port)
{
    union socket_address address = {.any.sa_family = AF_UNSPEC};
    if (at->ai_addrlen > sizeof address)
        return errno = EAFNOSUPPORT, -1;
    memcpy(&address, at->ai_addr, at->ai_addrlen);
    if (port > 0 && at->ai_family == AF_INET)
        address.four.sin_port = htons((uint16_t)port);
    else if (port > 0)
        address.six.sin6_port = htons((uint16_t)port);

    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (at->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    if (bind(fd, &address.any, at->ai_addrlen) == 0)
        return fd;
    int kept = errno;
    close(fd);
    errno = kept;
    return -1;
}

/* "--resp-tls": the option of the command line that names the address. */
static const char *listen_option(enum listener_kind kind, char option[static LISTEN_ADDRESS_MAX])
{
    snprintf(option, LISTEN_ADDRESS_MAX, "--%s", weir_listener_name(kind));
    for (char *at = option; *at; at++)
        *at = *at == '_' ? '-' : *at;
    return option;
}

static bool tcp_failed(enum listener_kind kind, const char *address, int fault, struct weir_error *err)
{
    char option[LISTEN_ADDRESS_MAX];
    listen_option(kind, option);
    if (fault == EADDRINUSE)
        return weir_error_complain_as(
            err, EADDRINUSE,
            "%.80s is in use; is another weir running? %s 127.0.0.1:9061 takes another port%s%s%s", address,
            option, kind == LISTEN_RESP ? "" : ", ", kind == LISTEN_RESP ? "" : option,
            kind == LISTEN_RESP ? "" : " none does without");
    if (fault == EACCES)
        return weir_error_complain_as(err, EACCES,
                                      "%.80s: not allowed; ports below 1024 belong to root, %s names another",
                                      address, option);
    if (fault == EADDRNOTAVAIL)
        return weir_error_complain_as(err, EADDRNOTAVAIL,
                                      "%.80s is no address of this machine; %s :PORT listens on all of them",
                                      address, option);
    return weir_error_complain_as(err, fault, "cannot listen on %.80s: %s", address, strerror(fault));
}

/* A machine may know an address family by name only: what it cannot do is left out as long as one works. */
static size_t open_each(enum listener_kind kind, const struct addrinfo *list, struct listen_socket *listeners,
                        size_t room, int *fault)
{
    size_t count = 0;
    for (const struct addrinfo *at = list; at && count < room; at = at->ai_next) {
        struct listen_socket *listener = &listeners[count];
        *listener =
            (struct listen_socket){.fd = open_tcp(at, count > 0 ? listeners[0].port : 0), .kind = kind};
        if (listener->fd >= 0 && describe_listener(listener)) {
            count++;
            continue;
        }
        bool missing = errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT || errno == EPROTONOSUPPORT;
        if (*fault == 0 || !missing)
            *fault = errno;
        if (listener->fd >= 0)
            close(listener->fd);
        if (!missing) {
            while (count > 0)
                weir_listen_end(&listeners[--count]);
            return 0;
        }
    }
    return count;
}

size_t weir_listen_tcp(enum listener_kind kind, const char *address, struct listen_socket *listeners,
                       size_t room, struct weir_error *err)
{
    char host[HOST_MAX];
    const char *port;
    if (!split_host_port(address, host, &port)) {
        weir_error_complain(
            err, "'%.80s' is no address; write host:port, such as 127.0.0.1:9049, [::1]:9049 or :9049",
            address);
        return 0;
    }
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV},
                    *list = NULL;
    int fault = getaddrinfo(host[0] ? host : NULL, port, &hints, &list);
    if (fault != 0) {
        weir_error_complain(err, "cannot listen on %.80s: %s", address, gai_strerror(fault));
        return 0;
    }
    size_t count = open_each(kind, list, listeners, room, &fault);
    freeaddrinfo(list);
    if (count == 0)
        tcp_failed(kind, address, fault, err);
    return count;
}

/* ---- unix ------------------------------------------------------------------------------------- */

/* Is there somebody behind this file? */
static bool is_alive(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return true; /* not known: nothing is removed */
    bool alive = connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 || errno != ECONNREFUSED;
    close(fd);
    return alive;
}

static bool make_way(const struct sockaddr_un *address, struct weir_error *err)
{
    struct stat file;
    const char *path = address->sun_path;
    if (lstat(path, &file) < 0)
        return errno == ENOENT ||
               weir_error_complain_as(err, errno, "cannot listen on %s: %s", path, strerror(errno));
    if (!S_ISSOCK(file.st_mode))
        return weir_error_complain(err, "%s is there and is no socket; --unix names another file", path);
    if (is_alive(address))
        return weir_error_complain_as(
            err, EADDRINUSE, "%s is in use; is another weir running? --unix names another file", path);
    return unlink(path) == 0 ||
           weir_error_complain_as(err, errno, "cannot remove the old %s: %s", path, strerror(errno));
}

bool weir_listen_unix(const char *path, struct listen_socket *listener, struct weir_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat file;
    *listener = (struct listen_socket){.fd = -1, .kind = LISTEN_UNIX};
    if (path[0] == '\0' || strlen(path) >= sizeof address.sun_path)
        return weir_error_complain(err, "'%.100s' is no path for a socket; it has 1 to %d bytes", path,
                                   (int)sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (!make_way(&address, err))
        return false;
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t mask = umask(SOCKET_UMASK);
    bool bound =
        listener->fd >= 0 && bind(listener->fd, (const struct sockaddr *)&address, sizeof address) == 0;
    int fault = errno;
    umask(mask);
    if (bound && stat(path, &file) == 0) {
        memcpy(listener->path, path, strlen(path) + 1);
        listener->inode = file.st_ino;
        if (listen(listener->fd, BACKLOG) == 0 && describe_listener(listener))
            return true;
        fault = errno;
    }
    weir_listen_end(listener);
    return weir_error_complain_as(err, fault, "cannot listen on %s: %s", path, strerror(fault));
}

/* ---- those of others -------------------------------------------------------------------------- */

bool weir_listen_inherited(int fd, enum listener_kind kind, struct listen_socket *listener,
                           struct weir_error *err)
{
    int listens = 0, type = 0;
    socklen_t len = sizeof listens;
    *listener = (struct listen_socket){.fd = fd, .kind = kind, .inherited = true};
    bool good = getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && listens;
    len = sizeof type;
    good = good && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM;
    if (!good || !describe_listener(listener))
        return weir_error_complain(
            err, "descriptor %d was handed over and is no listening stream socket; look at weir.socket", fd);
    if (kind == LISTENER_KINDS || (kind == LISTEN_UNIX) > listener->is_unix)
        listener->kind = listener->is_unix ? LISTEN_UNIX : LISTEN_RESP;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return weir_error_complain_as(err, errno, "descriptor %d: %s", fd, strerror(errno));
    return true;
}

bool weir_listen_start(struct listen_socket *listener, struct weir_error *err)
{
    if (listener->inherited || listener->is_unix || listen(listener->fd, BACKLOG) == 0)
        return true;
    return tcp_failed(listener->kind, listener->text, errno, err); /* somebody else may have been quicker */
}

void weir_listen_end(struct listen_socket *listener)
{
    struct stat file;
    if (listener->fd >= 0)
        close(listener->fd);
    listener->fd = -1;
    /* Somebody may have put another one in its place. */
    if (listener->path[0] && stat(listener->path, &file) == 0 && file.st_ino == listener->inode)
        unlink(listener->path);
    listener->path[0] = '\0';
}

/* ---- accepting -------------------------------------------------------------------------------- */

static void set_options(int fd)
{
    int one = 1, idle = KEEPALIVE_S, every = KEEPALIVE_S / 3, times = 3;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
}

/* A client of a unix socket is known by its user id. */
static void show_peer(int fd, char *address)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0)
        snprintf(address, LISTEN_ADDRESS_MAX, "unix:%u", (unsigned)peer.uid);
    else
        snprintf(address, LISTEN_ADDRESS_MAX, "unix");
}

int weir_listen_accept(const struct listen_socket *listener, char *address, char *local, bool *busy)
{
    union socket_address peer = {.any.sa_family = AF_UNIX}, own = {.any.sa_family = AF_UNIX};
    socklen_t len;
    int fd;
    *busy = false;
    do {
        len = sizeof peer;
        fd = accept4(listener->fd, &peer.any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while (fd < 0 && (errno == EINTR || errno == ECONNABORTED || errno == EPROTO));
    if (fd < 0) {
        *busy = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        return -1;
    }
    if (listener->is_unix) {
        show_peer(fd, address);
        snprintf(local, LISTEN_ADDRESS_MAX, "%.*s", LISTEN_ADDRESS_MAX - 1, listener->text);
        return fd;
    }
    set_options(fd);
    len = sizeof own;
    show_address(&peer, address, LISTEN_ADDRESS_MAX);
    if (getsockname(fd, &own.any, &len) < 0)
        own.any.sa_family = AF_UNSPEC;
    show_address(&own, local, LISTEN_ADDRESS_MAX);
    return fd;
}
