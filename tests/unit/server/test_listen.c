/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "check.h"
#include "server/listen.h"
#include "server/loading.h"

static int connect_to_port(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof value;
    getsockopt(fd, level, name, &value, &len);
    return value;
}

TEST(any_port_of_loopback)
{
    struct listen_socket listener;
    struct weir_error err;
    if (!CHECK_EQ(weir_listen_tcp(LISTEN_RESP, "127.0.0.1:0", &listener, 1, &err), 1))
        return;
    char want[64];
    snprintf(want, sizeof want, "127.0.0.1:%d", listener.port);
    CHECK_STR(listener.text, want);
    CHECK(listener.port > 0 && listener.loopback && !listener.is_unix && !listener.inherited);
    weir_listen_end(&listener);
    CHECK_EQ(listener.fd, -1);
    weir_listen_end(&listener); /* once more does no harm */
}

TEST(connections_do_not_block_delay_or_leak)
{
    struct listen_socket listener;
    struct weir_error err;
    char address[LISTEN_ADDRESS_MAX], local[LISTEN_ADDRESS_MAX];
    bool busy = true;
    if (!CHECK_EQ(weir_listen_tcp(LISTEN_RESP, "localhost:0", &listener, 1, &err), 1) ||
        !CHECK(weir_listen_start(&listener, &err)))
        return;
    CHECK_EQ(weir_listen_accept(&listener, address, local, &busy), -1);
    CHECK(!busy);
    int client = connect_to_port(listener.port);
    int fd = weir_listen_accept(&listener, address, local, &busy);
    if (CHECK(fd >= 0)) {
        CHECK_STR(local, listener.text);
        CHECK(strncmp(address, "127.0.0.1:", 10) == 0 && strcmp(address, local) != 0);
        CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
        CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        CHECK(option(fd, IPPROTO_TCP, TCP_NODELAY) > 0);
        CHECK(option(fd, SOL_SOCKET, SO_KEEPALIVE) > 0);
        CHECK_EQ(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 300);
        close(fd);
    }
    close(client);
    weir_listen_end(&listener);
}

TEST(all_addresses_share_one_port_and_are_not_loopback)
{
    struct listen_socket listeners[4];
    struct weir_error err;
    size_t count = weir_listen_tcp(LISTEN_RESP, ":0", listeners, 4, &err);
    CHECK(count >= 1);
    for (size_t i = 0; i < count; i++) {
        CHECK_EQ(listeners[i].port, listeners[0].port);
        CHECK(!listeners[i].loopback);
        weir_listen_end(&listeners[i]);
    }
    count = weir_listen_tcp(LISTEN_RESP, "*:0", listeners, 1, &err); /* no more than there is room for */
    CHECK_EQ(count, 1);
    weir_listen_end(&listeners[0]);
}

TEST(version_six)
{
    struct listen_socket listener;
    struct weir_error err;
    if (weir_listen_tcp(LISTEN_RESP, "[::1]:0", &listener, 1, &err) != 1) {
        check_skip("this machine has no IPv6");
        return;
    }
    CHECK(listener.loopback);
    CHECK(strncmp(listener.text, "[::1]:", 6) == 0);
    weir_listen_end(&listener);
}

TEST(what_is_wrong_says_what_to_write)
{
    static const struct {
        const char *address, *part;
    } wrong[] = {
        {"", "write host:port"},
        {"localhost", "write host:port"},
        {"localhost:", "write host:port"},
        {"localhost:http", "write host:port"},
        {"127.0.0.1:1234567", "write host:port"},
        {"127.0.0.1:65536", "write host:port"},
        {"::1:9049", "write host:port"},
        {"127.0.0.1:70000", "write host:port"}, /* resolvers would cut it to 16 bits */
        {"192.0.2.1:0", "no address of this machine"},
        {"no.such.host.invalid:9049", "cannot listen"},
    };
    struct listen_socket listener;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct weir_error err = {0};
        size_t count = weir_listen_tcp(LISTEN_RESP, wrong[i].address, &listener, 1, &err);
        if (count > 0)
            weir_listen_end(&listener);
        CHECK_EQ(count, 0);
        if (!CHECK(strstr(err.text, wrong[i].part)))
            printf("# %s: %s\n", wrong[i].address, err.text);
    }
    char longer[600];
    memset(longer, 'x', sizeof longer);
    memcpy(longer + sizeof longer - 6, ":9049", 6);
    struct weir_error err = {0};
    CHECK_EQ(weir_listen_tcp(LISTEN_RESP, longer, &listener, 1, &err), 0);
    CHECK(strstr(err.text, "write host:port"));
}

TEST(a_port_in_use)
{
    struct listen_socket first, second;
    struct weir_error err;
    char address[64];
    CHECK_EQ(weir_listen_tcp(LISTEN_RESP, "127.0.0.1:0", &first, 1, &err), 1);
    snprintf(address, sizeof address, "127.0.0.1:%d", first.port);
    CHECK_EQ(weir_listen_tcp(LISTEN_RESP, address, &second, 1, &err), 1); /* both have yet to begin */
    CHECK(weir_listen_start(&first, &err));
    CHECK(!weir_listen_start(&second, &err));
    CHECK(strstr(err.text, "is in use; is another weir running?"));
    weir_listen_end(&second);
    CHECK_EQ(weir_listen_tcp(LISTEN_RESP, address, &second, 1, &err), 0);
    CHECK(strstr(err.text, "is in use; is another weir running?"));
    weir_listen_end(&first);
}

TEST(nobody_can_connect_before_it_starts)
{
    struct listen_socket listener;
    struct weir_error err;
    if (!CHECK_EQ(weir_listen_tcp(LISTEN_RESP, "127.0.0.1:0", &listener, 1, &err), 1))
        return;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)listener.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) < 0 && errno == ECONNREFUSED);
    close(fd);
    CHECK(weir_listen_start(&listener, &err));
    close(connect_to_port(listener.port));
    weir_listen_end(&listener);
}

/* ---- unix ---- */

static const char *path_in(char *folder, const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", folder, name);
    return path;
}

TEST(a_unix_socket_comes_and_goes)
{
    char folder[] = "/tmp/weir-listen-XXXXXX", path[64];
    char address[LISTEN_ADDRESS_MAX], local[LISTEN_ADDRESS_MAX];
    struct listen_socket listener, second;
    struct weir_error err;
    struct stat file;
    bool busy;
    if (!CHECK(mkdtemp(folder)))
        return;
    path_in(folder, "s", path, sizeof path);
    CHECK(weir_listen_unix(path, &listener, &err));
    CHECK(listener.is_unix && listener.loopback);
    CHECK_EQ(stat(path, &file), 0);
    CHECK_EQ(file.st_mode & 0777, 0660);

    CHECK(!weir_listen_unix(path, &second, &err)); /* it is alive: the try has knocked */
    CHECK(strstr(err.text, "is in use"));
    int fd = weir_listen_accept(&listener, address, local, &busy);
    CHECK(fd >= 0);
    char who[32];
    (void)snprintf(who, sizeof who, "unix:%u", (unsigned)geteuid());
    CHECK_STR(address, who);
    close(fd);

    int kept = listener.fd; /* as if the process had been killed: the file stays */
    listener.path[0] = '\0';
    close(kept);
    CHECK(weir_listen_unix(path, &second, &err));
    weir_listen_end(&second);
    CHECK(stat(path, &file) < 0);
    rmdir(folder);
}

TEST(the_file_of_somebody_else_stays)
{
    char folder[] = "/tmp/weir-listen-XXXXXX", path[64];
    struct listen_socket first, second;
    struct weir_error err;
    struct stat file;
    if (!CHECK(mkdtemp(folder)))
        return;
    path_in(folder, "s", path, sizeof path);
    CHECK(weir_listen_unix(path, &first, &err));
    char moved[64];
    rename(path, path_in(folder, "old", moved, sizeof moved)); /* so that the inode is not used again */
    CHECK(weir_listen_unix(path, &second, &err));
    weir_listen_end(&first);
    CHECK_EQ(stat(path, &file), 0); /* it is the second one's */
    weir_listen_end(&second);
    CHECK(stat(path, &file) < 0);
    unlink(moved);

    int plain = open(path, O_CREAT | O_WRONLY, 0600);
    close(plain);
    CHECK(!weir_listen_unix(path, &first, &err));
    CHECK(strstr(err.text, "is no socket"));
    CHECK_EQ(stat(path, &file), 0);
    unlink(path);
    rmdir(folder);
    char longer[200];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    CHECK(!weir_listen_unix(longer, &first, &err));
    CHECK(!weir_listen_unix("", &first, &err));
    CHECK(!weir_listen_unix("/nowhere/at/all", &first, &err));
}

/* ---- inherited ---- */

TEST(a_listening_socket_is_taken_over)
{
    struct listen_socket first, taken;
    struct weir_error err;
    CHECK_EQ(weir_listen_tcp(LISTEN_RESP, "127.0.0.1:0", &first, 1, &err), 1);
    CHECK(weir_listen_start(&first, &err));
    fcntl(first.fd, F_SETFL, 0); /* blocking, as systemd has it */
    CHECK(weir_listen_inherited(first.fd, LISTENER_KINDS, &taken, &err));
    CHECK(taken.inherited && taken.loopback);
    CHECK_STR(taken.text, first.text);
    CHECK(fcntl(taken.fd, F_GETFL) & O_NONBLOCK);
    weir_listen_end(&taken);

    int other = socket(AF_INET, SOCK_STREAM, 0), datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(!weir_listen_inherited(other, LISTENER_KINDS, &taken, &err)); /* does not listen */
    CHECK(strstr(err.text, "is no listening stream socket"));
    CHECK(!weir_listen_inherited(datagrams, LISTENER_KINDS, &taken, &err));
    CHECK(!weir_listen_inherited(9999, LISTENER_KINDS, &taken, &err));
    close(other);
    close(datagrams);
}

/* ---- while a data directory is read ---- */

static void is_told(int fd, const char *want)
{
    char text[200] = "";
    size_t len = 0;
    ssize_t got;
    CHECK_EQ(send(fd, "PING\r\n", 6, MSG_NOSIGNAL), 6); /* what is not read must not cost the answer */
    while ((got = recv(fd, text + len, sizeof text - 1 - len, 0)) > 0)
        len += (size_t)got;
    CHECK_EQ(got, 0);
    CHECK_STR(text, want);
    close(fd);
}

TEST(clients_are_told_that_it_is_loading)
{
    struct acceptor door = {.spare = -1};
    struct loading loading;
    struct weir_error err;
    char address[LISTEN_ADDRESS_MAX], local[LISTEN_ADDRESS_MAX];
    bool busy;
    door.count = weir_listen_tcp(LISTEN_RESP, "127.0.0.1:0", door.listeners, 1, &err);
    if (!CHECK_EQ(door.count, 1))
        return;
    weir_loading_begin(&loading, &door);
    for (int i = 0; i < 100; i++) /* more than are kept open */
        is_told(connect_to_port(door.listeners[0].port),
                "-LOADING weir is reading its data directory; try again soon\r\n");
    weir_loading_end(&loading);
    weir_loading_end(&loading);                           /* once more does no harm */
    int client = connect_to_port(door.listeners[0].port); /* and later ones are served */
    int fd = weir_listen_accept(&door.listeners[0], address, local, &busy);
    CHECK(fd >= 0);
    close(fd);
    close(client);
    weir_acceptor_close(&door);
}
