/* SPDX-License-Identifier: MIT */
/*
 * The acceptor while many are asked to leave. The program is linked with --wrap of weir_connection_offer.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "server/accept.h"
#include "server/connection.h"

#define STRANGERS 32 /* as many as may be */
#define LEAVING   64 /* with so many nobody else is let in */

static struct loop *loop;
static int offered, rounds;

enum admission __wrap_weir_connection_offer(struct io_thread *io_thread, const struct listen_socket *listener,
                                            int fd, const char *address, const char *local);

enum admission __wrap_weir_connection_offer(struct io_thread *io_thread, const struct listen_socket *listener,
                                            int fd, const char *address, const char *local)
{
    (void)io_thread, (void)listener, (void)address, (void)local;
    offered++;
    close(fd);
    weir_loop_stop(loop);
    return ADMISSION_FREE;
}

static void stop(void *arg)
{
    (void)arg;
    weir_loop_stop(loop);
}

static void count_round(void *arg)
{
    (void)arg;
    rounds++;
}

static void stay(struct client_entry *client_entry)
{
    (void)client_entry;
}

static int knock(int port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Runs the loop for so long at most; gives the rounds it took. */
static int run_for(struct timer *timer, int64_t ms)
{
    rounds = 0;
    weir_timer_set(timer, ms, 0);
    weir_loop_run(loop);
    return rounds;
}

TEST(who_knocks_while_many_are_to_leave_keeps_nobody_busy_and_is_let_in_then)
{
    static struct service service;
    static struct client_entry client_entries[STRANGERS + LEAVING];
    struct weir_error err = {0};
    char resp[] = "127.0.0.1:0", none[] = "none";
    struct config config = {.listen = {[LISTEN_RESP] = resp, [LISTEN_HTTP] = none}};
    struct client_count_limits limits = {.most = STRANGERS};
    struct io_thread io_thread = {0};
    struct acceptor acceptor = {
        .service = &service, .io_threads = &io_thread, .io_thread_count = 1, .spare = -1};
    loop = weir_loop_new();
    service.client_counts = weir_client_counts_new();
    for (size_t i = 0; i < STRANGERS + LEAVING; i++)
        CHECK_EQ(weir_client_counts_enter(service.client_counts, &limits, &client_entries[i], "unix",
                                          CLIENT_UNAUTHENTICATED, stay),
                 ADMISSION_FREE);
    CHECK_EQ(weir_client_counts_read(service.client_counts).dropped, LEAVING);
    CHECK(weir_acceptor_open(&acceptor, &config, NULL, 0, &err) &&
          weir_acceptor_watch(&acceptor, loop, &err));
    weir_loop_at_end(loop, count_round, NULL);
    struct timer *timer = weir_timer_new(loop, stop, NULL);
    int client = knock(acceptor.listeners[0].port);

    int busy = run_for(timer, 100);
    CHECK_EQ(offered, 0);
    if (!CHECK(busy < 100)) /* it looks every few milliseconds */
        printf("# %d rounds\n", busy);
    for (size_t i = 0; i < STRANGERS + LEAVING; i++)
        weir_client_counts_leave(service.client_counts, &client_entries[i]);
    (void)run_for(timer, 20000);
    CHECK_EQ(offered, 1);

    close(client);
    weir_acceptor_close(&acceptor);
    weir_timer_free(timer);
    weir_loop_free(loop);
    weir_client_counts_free(service.client_counts);
}
