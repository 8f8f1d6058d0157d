/* SPDX-License-Identifier: MIT */
/*
 * The client of the commands. The socket does not block: every wait has an end that is known before.
 */
#define _GNU_SOURCE

#include "cli/client.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/secret.h"
#include "base/text.h"
#include "cli/hints.h"
#include "cli/term.h"

#define PART_MAX   256
#define ANSWER_MAX (64 << 20) /* bytes */
#define WORDS_MOST 1024
#define KNOCK_MS   10
#define READ_SIZE  16384

/* What a URL says. */
struct server_address {
    bool is_unix, login;
    char user[PART_MAX], password[PART_MAX];
    char host[PART_MAX], port[8]; /* unix: the path is in `host` */
};

struct cli_client {
    int fd;
    int64_t answer_ms;
    struct buffer in, out;
    size_t used; /* bytes of `in` that are the last answer */
    struct resp_value *value;
    char shown[PART_MAX + 32];
};

/* ---- the URL ---------------------------------------------------------------------------------- */

/* Copies a part, %41 as A; false: too long, or no such escape. */
static bool copy_part(char *to, const char *from, size_t len)
{
    size_t at = 0;
    for (size_t i = 0; i < len; i++) {
        char byte = from[i];
        if (byte == '%') {
            if (len - i < 3 || weir_text_hex(from[i + 1]) < 0 || weir_text_hex(from[i + 2]) < 0)
                return false;
            byte = (char)(weir_text_hex(from[i + 1]) * 16 + weir_text_hex(from[i + 2]));
            i += 2;
        }
        if (at + 1 >= PART_MAX || byte == '\0')
            return false;
        to[at++] = byte;
    }
    to[at] = '\0';
    return true;
}

/* user:password, :password (the user is `default`) or password alone, as others write it. */
static bool read_server_login(struct server_address *target, const char *text, size_t len)
{
    const char *colon = memchr(text, ':', len);
    size_t user_len = colon ? (size_t)(colon - text) : 0;
    const char *password = colon ? colon + 1 : text;
    target->login = true;
    if (!copy_part(target->user, text, user_len) ||
        !copy_part(target->password, password, len - (size_t)(password - text)))
        return false;
    if (!target->user[0])
        snprintf(target->user, sizeof target->user, "default");
    return true;
}

static bool read_server_host(struct server_address *target, const char *text, size_t len)
{
    const char *port = NULL;
    size_t port_len = 0, host_len = len;
    if (len > 0 && text[0] == '[') {
        const char *end = memchr(text, ']', len);
        if (!end)
            return false;
        host_len = (size_t)(end - text) - 1;
        port = end + 1;
        port_len = len - host_len - 2;
        text++;
    } else if ((port = memchr(text, ':', len))) {
        host_len = (size_t)(port - text);
        port_len = len - host_len;
    }
    if (host_len == 0 || !copy_part(target->host, text, host_len))
        return false;
    if (port_len == 0)
        return snprintf(target->port, sizeof target->port, "9049") > 0;
    if (port[0] != ':' || port_len < 2 || port_len > 6 || strspn(port + 1, "0123456789") < port_len - 1)
        return false;
    memcpy(target->port, port + 1, port_len - 1);
    target->port[port_len - 1] = '\0';
    return true;
}

static bool read_server_url(const char *url, struct server_address *target)
{
    *target = (struct server_address){.is_unix = strncmp(url, "unix://", 7) == 0};
    if (!target->is_unix && strncmp(url, "redis://", 8) != 0)
        return false;
    const char *rest = url + (target->is_unix ? 7 : 8);
    size_t len = target->is_unix ? strlen(rest) : strcspn(rest, "/");
    const char *at = memrchr(rest, '@', len);
    if (at) {
        if (!read_server_login(target, rest, (size_t)(at - rest)))
            return false;
        len -= (size_t)(at + 1 - rest);
        rest = at + 1;
    }
    if (target->is_unix)
        return rest[0] == '/' && copy_part(target->host, rest, len);
    return (rest[len] == '\0' || strcmp(rest + len, "/") == 0 || strcmp(rest + len, "/0") == 0) &&
           read_server_host(target, rest, len);
}

/* ---- waiting ---------------------------------------------------------------------------------- */

static int64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* until_ms below 0: no end. */
static bool wait_for_socket(int fd, short events, int64_t until_ms)
{
    for (;;) {
        int64_t left = until_ms < 0 ? -1 : until_ms - clock_ms();
        if (until_ms >= 0 && left < 0)
            left = 0;
        struct pollfd file = {.fd = fd, .events = events};
        int got = poll(&file, 1, left > 1 << 30 ? 1 << 30 : (int)left);
        if (got > 0)
            return true;
        if (got == 0 && left <= 1 << 30)
            return errno = ETIMEDOUT, false;
        if (got < 0 && errno != EINTR)
            return false;
    }
}

static int64_t deadline_in(int64_t ms)
{
    return ms < 0 ? -1 : clock_ms() + ms;
}

/* ---- connecting ------------------------------------------------------------------------------- */

static int connect_to_address(const struct sockaddr *address, socklen_t len, int64_t until_ms)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    int fault = connect(fd, address, len) == 0 ? 0 : errno;
    if (fault == EINPROGRESS) {
        socklen_t size = sizeof fault;
        if (!wait_for_socket(fd, POLLOUT, until_ms))
            fault = errno;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &fault, &size) < 0)
            fault = errno;
    }
    if (fault == 0) {
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        return fd;
    }
    close(fd);
    errno = fault;
    return -1;
}

/* EAGAIN of a unix socket: too many wait there already. It says so at once and tells nothing later, so it is
 * asked again. */
static int connect_unix(const char *path, int64_t until_ms)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd;
    if (strlen(path) >= sizeof address.sun_path)
        return errno = ENAMETOOLONG, -1;
    memcpy(address.sun_path, path, strlen(path) + 1);
    while ((fd = connect_to_address((const struct sockaddr *)&address, sizeof address, until_ms)) < 0 &&
           errno == EAGAIN) {
        if (clock_ms() >= until_ms)
            return errno = ETIMEDOUT, -1;
        (void)poll(NULL, 0, KNOCK_MS);
    }
    return fd;
}

/* Every address of the name is tried. *why: what the resolver says, if it is that. */
static int connect_tcp(const struct server_address *target, int64_t until_ms, const char **why)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    int fault = getaddrinfo(target->host, target->port, &hints, &list);
    if (fault != 0)
        return *why = gai_strerror(fault), -1;
    int fd = -1;
    for (const struct addrinfo *at = list; at && fd < 0; at = at->ai_next)
        fd = connect_to_address(at->ai_addr, at->ai_addrlen, until_ms);
    int kept = errno;
    freeaddrinfo(list);
    errno = kept;
    return fd;
}

static void write_server_name(const struct server_address *target, char *text, size_t size)
{
    bool six = strchr(target->host, ':') && !target->is_unix;
    if (target->is_unix)
        snprintf(text, size, "unix://%s", target->host);
    else
        snprintf(text, size, "redis://%s%s%s:%s", six ? "[" : "", target->host, six ? "]" : "", target->port);
}

static bool connect_client(struct cli_client *client, const struct server_address *target,
                           struct weir_error *err)
{
    const char *why = NULL;
    int64_t until_ms = deadline_in(CLIENT_CONNECT_MS);
    client->fd = target->is_unix ? connect_unix(target->host, until_ms) : connect_tcp(target, until_ms, &why);
    if (client->fd >= 0)
        return true;
    const char *advice = errno == ECONNREFUSED || errno == ENOENT
                             ? "; is a server running there? weir serve starts one, -s URL names another"
                             : "";
    weir_error_complain_as(err, EHOSTUNREACH, "cannot connect to %s: %s%s", client->shown,
                           why ? why : strerror(errno), why ? "" : advice);
    return false;
}

/* ---- asking ----------------------------------------------------------------------------------- */

static bool client_send_all(struct cli_client *client, int64_t until_ms)
{
    while (buffer_len(&client->out) > 0) {
        ssize_t sent = send(client->fd, buffer_bytes(&client->out), buffer_len(&client->out), MSG_NOSIGNAL);
        if (sent >= 0)
            weir_buffer_drop(&client->out, (size_t)sent, 0);
        else if (errno == EAGAIN ? !wait_for_socket(client->fd, POLLOUT, until_ms) : errno != EINTR)
            return false;
    }
    return true;
}

/* Appends what has come to `in`; waits if that is nothing. */
static bool client_receive(struct cli_client *client, int64_t until_ms)
{
    for (;;) {
        char *room = weir_buffer_room(&client->in, READ_SIZE);
        if (!room)
            return errno = ENOMEM, false;
        ssize_t got = recv(client->fd, room, READ_SIZE, 0);
        if (got > 0)
            return buffer_wrote(&client->in, (size_t)got), true;
        if (got == 0)
            return errno = 0, false;
        if (errno == EAGAIN ? !wait_for_socket(client->fd, POLLIN, until_ms) : errno != EINTR)
            return false;
    }
}

/* An answer is parsed from its beginning each time, so it should have grown by half since the last time; or
 * there is nothing more to read at present, and it may be whole. */
static bool client_receive_much(struct cli_client *client, int64_t until_ms)
{
    size_t had = buffer_len(&client->in);
    if (!client_receive(client, until_ms))
        return false;
    while (buffer_len(&client->in) - had < had / 2 && wait_for_socket(client->fd, POLLIN, 0))
        if (!client_receive(client, until_ms))
            break; /* which is seen again if what has come is no whole answer */
    return true;
}

static void forget_answer(struct cli_client *client)
{
    weir_resp_value_free(client->value);
    client->value = NULL;
    weir_buffer_drop(&client->in, client->used, 65536);
    client->used = 0;
}

static bool client_broken(struct cli_client *client, struct weir_error *err)
{
    if (errno == 0)
        weir_error_complain_as(err, ECONNRESET, "%s closed the connection", client->shown);
    else if (errno == ETIMEDOUT)
        weir_error_complain_as(err, ETIMEDOUT, "%s does not answer", client->shown);
    else
        weir_error_complain_as(err, errno, "%s: %s", client->shown, strerror(errno));
    return false;
}

static bool read_answer(struct cli_client *client, struct weir_error *err)
{
    int64_t until_ms = deadline_in(client->answer_ms);
    for (;;) {
        enum resp_parsed parsed = RESP_INCOMPLETE;
        if (buffer_len(&client->in) > 0)
            parsed = weir_resp_parse(buffer_bytes(&client->in), buffer_len(&client->in), &client->value,
                                     &client->used);
        if (parsed == RESP_PARSED && client->value->type != RESP_PUSH)
            return true;
        if (parsed == RESP_PARSED)
            forget_answer(client);
        else if (parsed == RESP_BROKEN)
            return weir_error_complain_as(err, EPROTO,
                                          "%s does not speak the Redis protocol; weir's port is 9049",
                                          client->shown),
                   false;
        else if (parsed == RESP_NO_MEMORY)
            return errno = ENOMEM, client_broken(client, err);
        else if (!client_receive_much(client, until_ms))
            return client_broken(client, err);
    }
}

const struct resp_value *client_ask(struct cli_client *client, const struct slice *words, size_t count,
                                    struct weir_error *err)
{
    forget_answer(client);
    weir_resp_ask(&client->out, words, count);
    if (client->out.failed) {
        weir_error_complain_as(err, ENOMEM, "out of memory");
        return NULL;
    }
    if (!client_send_all(client, deadline_in(client->answer_ms < 0 ? CLIENT_ANSWER_MS : client->answer_ms))) {
        client_broken(client, err);
        return NULL;
    }
    return read_answer(client, err) ? client->value : NULL;
}

/* ---- opening ---------------------------------------------------------------------------------- */

static bool client_login(struct cli_client *client, const struct server_address *target,
                         struct weir_error *err)
{
    struct slice words[] = {{"HELLO", 5},
                            {"3", 1},
                            {"AUTH", 4},
                            {target->user, strlen(target->user)},
                            {target->password, strlen(target->password)}};
    client->answer_ms = CLIENT_CONNECT_MS;
    const struct resp_value *value = client_ask(client, words, target->login ? 5 : 2, err);
    if (client->out.bytes)
        weir_secret_wipe(client->out.bytes, client->out.size);
    weir_buffer_free(&client->out);
    client->answer_ms = CLIENT_ANSWER_MS;
    if (!value)
        return false;
    if (value->type != RESP_ERROR)
        return true;
    bool nobody = value->text.len >= 6 && memcmp(value->text.bytes, "NOAUTH", 6) == 0;
    if (nobody)
        weir_error_complain_as(err, EACCES,
                               "%s wants a password: redis://user:password@host:port, by -s or in WEIR_URL",
                               client->shown);
    else
        weir_error_complain(err, "%s: %.*s", client->shown,
                            value->text.len > 150 ? 150 : (int)value->text.len, value->text.bytes);
    return false;
}

struct cli_client *client_open(const char *url, struct weir_error *err)
{
    struct server_address target;
    if (!url)
        url = getenv("WEIR_URL");
    if (!url || !*url)
        url = CLIENT_URL;
    if (!read_server_url(url, &target)) {
        weir_secret_wipe(&target, sizeof target);
        weir_error_complain(
            err, "not the address of a server; write redis://[user:password@]host:port or unix:///path");
        return NULL;
    }
    struct cli_client *client = calloc(1, sizeof *client);
    if (!client) {
        weir_error_complain_as(err, ENOMEM, "out of memory");
    } else {
        client->fd = -1;
        client->in.most = ANSWER_MAX;
        write_server_name(&target, client->shown, sizeof client->shown);
        if (!connect_client(client, &target, err) || !client_login(client, &target, err)) {
            client_close(client);
            client = NULL;
        }
    }
    weir_secret_wipe(&target, sizeof target);
    return client;
}

void client_close(struct cli_client *client)
{
    if (!client)
        return;
    if (client->fd >= 0)
        close(client->fd);
    weir_resp_value_free(client->value);
    weir_buffer_free(&client->in);
    weir_buffer_free(&client->out);
    free(client);
}

const char *client_shown(const struct cli_client *client)
{
    return client->shown;
}

void client_patience(struct cli_client *client, int64_t answer_ms)
{
    client->answer_ms = answer_ms;
}

/* ---- with a word on standard error ------------------------------------------------------------ */

static void print_client_error(const char *command, const char *text, size_t len)
{
    fprintf(stderr, "weir %s: ", command);
    term_put(stderr, text, len);
    fputc('\n', stderr);
}

struct cli_client *client_start(const char *command, const char *url)
{
    struct weir_error err;
    struct cli_client *client = client_open(url, &err);
    if (!client)
        print_client_error(command, err.text, strlen(err.text));
    return client;
}

const struct resp_value *client_tell(const char *command, struct cli_client *client, const char *const *words,
                                     size_t count)
{
    struct weir_error err;
    struct slice slices[WORDS_MOST];
    if (count > WORDS_MOST) {
        fprintf(stderr, "weir %s: more than %d words\n", command, WORDS_MOST);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        slices[i] = (struct slice){words[i], strlen(words[i])};
    const struct resp_value *value = client_ask(client, slices, count, &err);
    if (!value) {
        print_client_error(command, err.text, strlen(err.text));
        return NULL;
    }
    if (value->type != RESP_ERROR)
        return value;
    bool plain = value->text.len > 4 && memcmp(value->text.bytes, "ERR ", 4) == 0;
    fprintf(stderr, "weir %s: ", command);
    hints_put(stderr, value->text.bytes + (plain ? 4 : 0), value->text.len - (plain ? 4 : 0));
    fputc('\n', stderr);
    return NULL;
}
