/* SPDX-License-Identifier: MIT */
/*
 * The end of a server while threads of fleets and of the store still have something to tell it. The program
 * is linked with --wrap of weir_io_thread_post, weir_disk_wait_moved and weir_io_thread_end.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "check.h"
#include "server/io_thread.h"
#include "server/server.h"

static struct teller {
    pthread_t thread;
    void (*tell)(void *arg);
    void *arg;
    _Atomic int tasks; /* so many times it came to an I/O thread */
    _Atomic bool stops;
    bool joined;
} teller;
static _Atomic bool ended; /* the I/O threads are gone, or about to */
static _Atomic int late;   /* wishes to I/O threads that were gone */

void __real_weir_io_thread_end(struct io_thread *io_thread);
void __wrap_weir_io_thread_end(struct io_thread *io_thread);
void __wrap_weir_io_thread_post(struct io_thread *io_thread, unsigned tasks);

void __wrap_weir_disk_wait_moved(struct io_thread *io_thread);

/* Takes its time, and touches nothing: what it would find there may be gone. */
static void come_to_io_thread(void)
{
    atomic_fetch_add(&teller.tasks, 1);
    for (int i = 0; i < 1000 && !atomic_load(&ended); i++)
        (void)sched_yield();
    atomic_fetch_add(&late, atomic_load(&ended));
}

void __wrap_weir_io_thread_post(struct io_thread *io_thread, unsigned tasks)
{
    (void)io_thread;
    (void)tasks;
    come_to_io_thread();
}

void __wrap_weir_disk_wait_moved(struct io_thread *io_thread)
{
    (void)io_thread;
    come_to_io_thread();
}

void __wrap_weir_io_thread_end(struct io_thread *io_thread)
{
    atomic_store(&ended, true);
    atomic_store(&teller.stops, true);
    if (!teller.joined)
        CHECK_EQ(pthread_join(teller.thread, NULL), 0);
    teller.joined = true;
    __real_weir_io_thread_end(io_thread);
}

/* A lock that is taken again as soon as it is dropped nobody else gets: so others come first. It tells once
 * more after the end: that is late for sure, if it still comes to an I/O thread. */
static void *tell_on(void *arg)
{
    bool stops;
    do {
        stops = atomic_load(&teller.stops);
        for (int i = 0; i < 1000; i++)
            (void)sched_yield();
        teller.tell(teller.arg);
    } while (!stops);
    return arg;
}

static void complain(void *arg, const struct config_complaint *complaint)
{
    (void)arg;
    char text[COMPLAINT_TEXT_MAX];
    printf("# %s\n", weir_complaint_text(complaint, true, text));
}

static struct server *begin(struct config **config)
{
    static const char text[] =
        "listen: {resp: \"127.0.0.1:0\", http: \"127.0.0.1:0\"}\nthreads: 2\nmemory: 8MiB\n"
        "policies: [{name: p, limits: 5/s, keys: 64}]\n";
    struct weir_error err = {0};
    teller = (struct teller){0};
    atomic_store(&ended, false);
    atomic_store(&late, 0);
    *config = weir_config_parse("w.yaml", text, sizeof text - 1, complain, NULL);
    if (!CHECK(*config))
        return NULL;
    struct server_options options = {.config = *config, .service = {.test_clock = true}};
    struct server *server = weir_server_new(&options, &err);
    if (!CHECK(server))
        printf("# %s\n", err.text);
    return server;
}

/* Frees the server while another thread tells it something all the time. */
static void end_amid(struct server *server, struct config *config, void (*tell)(void *), void *arg)
{
    teller.tell = tell;
    teller.arg = arg;
    if (CHECK_EQ(pthread_create(&teller.thread, NULL, tell_on, NULL), 0))
        while (atomic_load(&teller.tasks) == 0)
            (void)sched_yield();
    weir_server_free(server);
    CHECK(teller.joined);
    CHECK_EQ(late, 0);
    weir_config_free(config);
    weir_clock_set(-1);
}

TEST(a_fleet_that_moves_while_the_server_is_freed_touches_no_loop)
{
    struct config *config = NULL;
    struct server *server = begin(&config);
    if (!server)
        return;
    struct service *service = weir_server_service(server);
    for (uint32_t i = 0; i < service->options.workers; i++)
        atomic_store(&service->workers[i].waiting, 1);
    end_amid(server, config, service->options.fleet_moved, service->options.fleet_moved_arg);
}

TEST(a_store_that_moves_while_the_server_is_freed_touches_no_loop)
{
    struct config *config = NULL;
    struct server *server = begin(&config);
    if (!server)
        return;
    struct service *service = weir_server_service(server);
    end_amid(server, config, service->options.store_moved, service->options.store_moved_arg);
}
