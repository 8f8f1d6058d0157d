/* SPDX-License-Identifier: MIT */
/*
 * The client while the system fails it: each call, and each piece of memory, the n-th time or for ever. What
 * must hold whatever fails: every request is answered once and in time; by its own answer or by none; and
 * one of which it is said that nobody was asked was never seen by the server. Nothing stays open.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "resp_client/client.h"
#include "unit/failing_memory.h"

#define QUESTIONS   6
#define PATIENCE_NS (60 * WEIR_MS)  /* of a request */
#define TOO_LATE_NS (20 * WEIR_SEC) /* whoever is not answered then waits for ever */
#define SOON_NS     (3 * WEIR_SEC)
#define ANSWERS     UINT64_C(0x3F) /* all of them, as bits */

/* ---- calls that fail -------------------------------------------------------------------------- */

enum call { SOCKET, CONNECT, SEND, RECV, POLL, EVENTFD, RING, HUSH, GETSOCKOPT, SETSOCKOPT, THREAD, CALLS };
static const char *const names[CALLS] = {"socket",     "connect",    "send",          "recv",
                                         "poll",       "eventfd",    "ring",          "hush",
                                         "getsockopt", "setsockopt", "pthread_create"};

static _Atomic int failing = CALLS; /* enum call; CALLS: none */
static _Atomic int64_t calls_left;  /* that are done before */
static atomic_bool for_ever;
static _Atomic int64_t failed; /* so many did */
static int fault;
static int64_t patience_ns = PATIENCE_NS;
static _Thread_local bool spared; /* the server of this test */

static bool fails(enum call call)
{
    if (spared || atomic_load(&failing) != (int)call)
        return false;
    int64_t left = atomic_fetch_sub(&calls_left, 1);
    if (left > 0 || (left < 0 && !atomic_load(&for_ever)))
        return false;
    atomic_fetch_add(&failed, 1);
    errno = fault;
    return true;
}

#define FAILS(CALL, NAME, PARAMETERS, ARGUMENTS, TYPE)                                                       \
    TYPE __real_##NAME PARAMETERS;                                                                           \
    TYPE __wrap_##NAME PARAMETERS;                                                                           \
    TYPE __wrap_##NAME PARAMETERS                                                                            \
    {                                                                                                        \
        return fails(CALL) ? -1 : __real_##NAME ARGUMENTS;                                                   \
    }
FAILS(SOCKET, socket, (int domain, int type, int protocol), (domain, type, protocol), int)
FAILS(CONNECT, connect, (int fd, const struct sockaddr *to, socklen_t len), (fd, to, len), int)
FAILS(SEND, send, (int fd, const void *bytes, size_t len, int flags), (fd, bytes, len, flags), ssize_t)
FAILS(RECV, recv, (int fd, void *bytes, size_t len, int flags), (fd, bytes, len, flags), ssize_t)
FAILS(POLL, poll, (struct pollfd * files, nfds_t count, int timeout), (files, count, timeout), int)
FAILS(EVENTFD, eventfd, (unsigned count, int flags), (count, flags), int)
FAILS(RING, eventfd_write, (int fd, eventfd_t value), (fd, value), int)
FAILS(HUSH, eventfd_read, (int fd, eventfd_t *value), (fd, value), int)
FAILS(GETSOCKOPT, getsockopt, (int fd, int level, int name, void *value, socklen_t *len),
      (fd, level, name, value, len), int)
FAILS(SETSOCKOPT, setsockopt, (int fd, int level, int name, const void *value, socklen_t len),
      (fd, level, name, value, len), int)

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg)
{
    return fails(THREAD) ? fault : __real_pthread_create(thread, attributes, run, arg);
}

/* ---- a server that says every word back ------------------------------------------------------- */

static struct {
    int listener;
    struct server_host host;
    pthread_t thread;
    atomic_bool stop;
    bool eager;            /* answers before it is asked */
    _Atomic uint64_t seen; /* requests, as bits */
} server;

static void wait_for_fault(void)
{
    int64_t end = weir_resp_client_now() + SOON_NS;
    while (atomic_load(&failed) == 0 && weir_resp_client_now() < end)
        (void)sched_yield();
}

/* Requests as the client writes them: *n, then $len and a word, n times; what is after the last whole one
 * stays. */
static size_t serve_bytes(int fd, char *bytes, size_t len)
{
    size_t used = 0;
    for (;;) {
        int words, last = 0, at = 0;
        char word[64] = "";
        if (sscanf(bytes + used, "*%d\r\n%n", &words, &at) != 1 || at == 0)
            return used;
        for (; words > 0; words--, at += last)
            if (sscanf(bytes + used + at, "$%*d\r\n%63s%n", word, &last) != 1 ||
                used + (size_t)(at + last) + 2 > len)
                return used;
            else
                last += 2;
        used += (size_t)at;
        if (word[0] == 'q')
            atomic_fetch_or(&server.seen, UINT64_C(1) << (word[1] - '0'));
        char reply[80];
        (void)snprintf(reply, sizeof reply, word[0] == 'q' ? "+%s\r\n" : "%%1\r\n+proto\r\n:3\r\n", word);
        (void)!send(fd, reply, strlen(reply), MSG_NOSIGNAL);
        if (server.eager && word[0] != 'q') {
            wait_for_fault(); /* the line is open, and the request waits to be sent */
            (void)!send(fd, "+q0\r\n", 5, MSG_NOSIGNAL);
        }
    }
}

static void serve_client(int fd)
{
    char bytes[4096];
    size_t len = 0;
    ssize_t got;
    int one = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    while ((got = recv(fd, bytes + len, sizeof bytes - 1 - len, 0)) > 0) {
        len += (size_t)got;
        bytes[len] = '\0';
        size_t used = serve_bytes(fd, bytes, len);
        memmove(bytes, bytes + used, len - used);
        len -= used;
    }
    (void)close(fd);
}

/* One after the other: the client has one line to a host. */
static void *serve(void *arg)
{
    spared = true;
    while (!atomic_load(&server.stop)) {
        struct pollfd file = {.fd = server.listener, .events = POLLIN};
        int fd = poll(&file, 1, 1000) > 0 ? accept(server.listener, NULL, NULL) : -1;
        if (fd >= 0)
            serve_client(fd);
    }
    return arg;
}

static void server_start(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server.host = (struct server_host){.name = "127.0.0.1"};
    server.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(server.listener, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQ(listen(server.listener, 64), 0);
    CHECK_EQ(getsockname(server.listener, (struct sockaddr *)&address, &size), 0);
    server.host.port = ntohs(address.sin_port);
    atomic_store(&server.stop, false);
    CHECK_EQ(pthread_create(&server.thread, NULL, serve, NULL), 0);
}

static void server_end(void)
{
    atomic_store(&server.stop, true);
    (void)shutdown(server.listener, SHUT_RDWR); /* wakes it */
    (void)pthread_join(server.thread, NULL);
    (void)close(server.listener);
}

/* ---- a story ---------------------------------------------------------------------------------- */

static struct {
    _Atomic uint64_t answered, good, not_asked; /* requests, as bits */
    _Atomic int twice, wrong;
} told;

static void answered(void *arg, const struct resp_value *value, bool asked, const char *why)
{
    unsigned number = (unsigned)(uintptr_t)arg;
    uint64_t bit = UINT64_C(1) << number;
    char name[3] = {'q', (char)('0' + number), '\0'};
    if (value && slice_is(value->text, name))
        atomic_fetch_or(&told.good, bit);
    else if (value || !why || why[0] == '\0')
        atomic_fetch_add(&told.wrong, 1);
    if (!asked)
        atomic_fetch_or(&told.not_asked, bit);
    if (atomic_fetch_or(&told.answered, bit) & bit)
        atomic_fetch_add(&told.twice, 1);
}

static void ask(struct resp_client *resp_client, unsigned number)
{
    char name[3] = {'q', (char)('0' + number), '\0'};
    struct slice word = {name, 2};
    weir_resp_client_request(resp_client, &server.host, &word, 1, weir_resp_client_now() + patience_ns,
                             answered, (void *)(uintptr_t)number);
}

static void wait_for(uint64_t bits)
{
    int64_t end = weir_resp_client_now() + TOO_LATE_NS;
    while ((atomic_load(&told.answered) & bits) != bits && weir_resp_client_now() < end)
        (void)sched_yield();
    CHECK_EQ(atomic_load(&told.answered) & bits, bits);
}

/* true: all was answered as it should be. */
static bool story(void)
{
    struct resp_client_options options = {.connect_ns = patience_ns, .pause_most_ns = 10 * WEIR_MS};
    struct weir_error err = {0};
    memset(&told, 0, sizeof told);
    atomic_store(&server.seen, 0);
    struct resp_client *resp_client = weir_resp_client_start(&options, &err);
    if (!resp_client) {
        CHECK(err.text[0] != '\0');
        return false;
    }
    for (unsigned i = 0; i < QUESTIONS; i++) {
        ask(resp_client, i);
        if (i % 2)
            wait_for((UINT64_C(2) << i) - 1);
    }
    weir_resp_client_stop(resp_client);
    return atomic_load(&told.good) == ANSWERS;
}

static size_t open_files(void)
{
    size_t count = 0;
    DIR *files = opendir("/proc/self/fd");
    while (files && readdir(files))
        count++;
    if (files)
        (void)closedir(files);
    return count;
}

/* With a server of its own, so that all that was sent has been read when it ends. */
static bool try_story(void)
{
    spared = true;
    size_t before = open_files();
    server_start();
    spared = false;
    bool good = story();
    atomic_store(&failing, CALLS);
    allocations_left = -1;
    spared = true;
    server_end();
    CHECK_EQ(open_files(), before);
    CHECK_EQ(atomic_load(&told.twice), 0);
    CHECK_EQ(atomic_load(&told.wrong), 0);
    CHECK_EQ(atomic_load(&told.not_asked) & atomic_load(&server.seen), 0);
    CHECK_EQ(atomic_load(&told.good) & ~atomic_load(&server.seen), 0);
    return good;
}

static void prepare(enum call call, int64_t n, bool ever, int error)
{
    fault = error;
    atomic_store(&failed, 0);
    atomic_store(&calls_left, n);
    atomic_store(&for_ever, ever);
    atomic_store(&failing, (int)call);
}

/* ---- tests ------------------------------------------------------------------------------------ */

TEST(a_story_without_a_failure_is_answered)
{
    patience_ns = TOO_LATE_NS; /* on a machine that has other work, too */
    CHECK(try_story());
    patience_ns = PATIENCE_NS;
}

/* A wakeup that was not heard costs the longest sleep of the client, so that is tried seldom. */
static int64_t most_times(enum call call, int error)
{
    return call != RING ? 12 : error == ENOMEM ? 1 : 0;
}

TEST(a_call_that_fails_once_costs_answers_and_nothing_else)
{
    static const int errors[] = {EINTR, ENOMEM};
    for (size_t e = 0; e < sizeof errors / sizeof *errors; e++)
        for (int call = 0; call < CALLS; call++)
            for (int64_t n = 0; n < most_times((enum call)call, errors[e]); n++) {
                long faults = check.faults;
                prepare((enum call)call, n, false, errors[e]);
                (void)try_story();
                if (check.faults != faults)
                    printf("# the %s number %" PRId64 " fails with %d\n", names[call], n + 1, errors[e]);
                if (atomic_load(&failed) == 0)
                    break; /* there are no more */
            }
}

/* With more patience where the machine was too slow to get as far as that call. */
static bool try_until_it_fails(enum call call, int error)
{
    bool good = true;
    for (atomic_store(&failed, 0); atomic_load(&failed) == 0 && patience_ns < TOO_LATE_NS; patience_ns *= 8) {
        prepare(call, 0, true, error);
        good = try_story();
    }
    patience_ns = PATIENCE_NS;
    return good;
}

TEST(a_call_that_fails_for_ever_leaves_nobody_waiting)
{
    static const int errors[] = {ECONNRESET, ENOMEM};
    for (size_t e = 0; e < sizeof errors / sizeof *errors; e++)
        for (int call = 0; call < CALLS; call++) {
            long faults = check.faults;
            if (most_times((enum call)call, errors[e]) == 0)
                continue;
            bool good = try_until_it_fails((enum call)call, errors[e]);
            if (call == SOCKET || call == CONNECT || call == SEND || call == RECV || call == EVENTFD)
                CHECK(!good && atomic_load(&failed) > 0);
            if (check.faults != faults)
                printf("# %s fails for ever with %d\n", names[call], errors[e]);
        }
}

TEST(an_answer_before_the_question_has_left_is_none)
{
    server.eager = true;
    patience_ns = 10 * PATIENCE_NS;
    prepare(SEND, 1, true, EAGAIN); /* after the greeting */
    CHECK(!try_story());
    CHECK_EQ(atomic_load(&told.good), 0);
    CHECK_EQ(atomic_load(&told.not_asked), ANSWERS);
    patience_ns = PATIENCE_NS;
    server.eager = false;
}

TEST(memory_that_runs_out_costs_answers_and_nothing_else)
{
    bool reached = true;
    int64_t n = 0;
    for (; reached && n < 200; n++) {
        long faults = check.faults;
        allocation_site = NULL;
        prepare(CALLS, 0, false, 0);
        allocations_left = n;
        (void)try_story();
        reached = allocation_site != NULL;
        if (check.faults != faults)
            printf("# allocation %" PRId64 " fails\n", n + 1);
    }
    CHECK(!reached && n > 10);
}
