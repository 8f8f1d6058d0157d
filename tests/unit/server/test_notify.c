/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE

#include <fcntl.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "server/notify.h"

static void set_number(const char *name, long number)
{
    char text[32];
    snprintf(text, sizeof text, "%ld", number);
    setenv(name, text, 1);
}

/* A socket of datagrams under a name that is no file, as NOTIFY_SOCKET has it; that is set, too. */
static int listen_for_notes(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[64];
    snprintf(name, sizeof name, "@weir-test-%ld", (long)getpid());
    memcpy(address.sun_path, name, strlen(name));
    address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address,
                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
             0);
    setenv("NOTIFY_SOCKET", name, 1);
    return fd;
}

TEST(a_state_is_one_datagram)
{
    char text[64] = "";
    int fd = listen_for_notes();
    CHECK(weir_notify_send("READY=1\nSTATUS=serving"));
    CHECK_EQ(recv(fd, text, sizeof text - 1, 0), 22);
    CHECK_STR(text, "READY=1\nSTATUS=serving");
    close(fd);
    CHECK(!weir_notify_send("READY=1")); /* nobody is there any more */
}

TEST(without_a_socket_nothing_is_sent)
{
    unsetenv("NOTIFY_SOCKET");
    CHECK(!weir_notify_send("READY=1"));
    const char *const wrong[] = {"", "@", "/", "relative", "/nowhere/notify"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        setenv("NOTIFY_SOCKET", wrong[i], 1);
        CHECK(!weir_notify_send("READY=1"));
    }
    char longer[200];
    memset(longer, 'x', sizeof longer);
    longer[0] = '/';
    longer[sizeof longer - 1] = '\0';
    setenv("NOTIFY_SOCKET", longer, 1);
    CHECK(!weir_notify_send("READY=1"));
    unsetenv("NOTIFY_SOCKET");
}

/* Descriptors from 3 on are the test program's own business: a child has them changed. */
static int sockets_in_child(const char *pid, const char *count, int room, int opened)
{
    static const enum listener_kind kinds[] = {LISTEN_HTTP, LISTENER_KINDS};
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct inherited_socket sockets[8] = {{0}};
        for (int fd = 3; fd < 20; fd++)
            close(fd);
        for (int i = 0; i < opened; i++)
            if (open("/dev/null", O_RDONLY) != 3 + i)
                _exit(100);
        if (pid)
            setenv("LISTEN_PID", pid, 1);
        else
            set_number("LISTEN_PID", (long)getpid());
        setenv("LISTEN_FDS", count, 1);
        setenv("LISTEN_FDNAMES", "http:weir.socket", 1);
        int got = weir_notify_sockets(sockets, room);
        for (int i = 0; i < got; i++)
            if (sockets[i].fd != 3 + i || fcntl(sockets[i].fd, F_GETFD) != FD_CLOEXEC ||
                sockets[i].kind != kinds[i])
                _exit(101);
        _exit(getenv("LISTEN_PID") || getenv("LISTEN_FDS") || getenv("LISTEN_FDNAMES") ? 102 : got);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(sockets_are_those_that_are_meant_for_this_process)
{
    CHECK_EQ(sockets_in_child(NULL, "2", 8, 2), 2);
    CHECK_EQ(sockets_in_child(NULL, "0", 8, 2), 0);
    CHECK_EQ(sockets_in_child(NULL, "2", 1, 2), 1);
    CHECK_EQ(sockets_in_child(NULL, "5", 8, 2), 2); /* the others are not open */
    CHECK_EQ(sockets_in_child("1", "2", 8, 2), 0);
    CHECK_EQ(sockets_in_child("", "2", 8, 2), 0);
    CHECK_EQ(sockets_in_child(NULL, "x", 8, 2), 0);
    CHECK_EQ(sockets_in_child(NULL, "-1", 8, 2), 0);
    CHECK_EQ(sockets_in_child(NULL, "99999999999999999999", 8, 2), 0);
}

TEST(the_watchdog_hears_from_us_twice_as_often_as_it_wants)
{
    unsetenv("WATCHDOG_PID");
    unsetenv("WATCHDOG_USEC");
    CHECK_EQ(weir_notify_watchdog_ms(), 0);
    setenv("WATCHDOG_USEC", "30000000", 1);
    CHECK_EQ(weir_notify_watchdog_ms(), 15000);
    setenv("WATCHDOG_USEC", "1", 1);
    CHECK_EQ(weir_notify_watchdog_ms(), 1);
    setenv("WATCHDOG_USEC", "soon", 1);
    CHECK_EQ(weir_notify_watchdog_ms(), 0);
    setenv("WATCHDOG_USEC", "2000", 1);
    set_number("WATCHDOG_PID", (long)getpid());
    CHECK_EQ(weir_notify_watchdog_ms(), 1);
    setenv("WATCHDOG_PID", "1", 1);
    CHECK_EQ(weir_notify_watchdog_ms(), 0);
}
