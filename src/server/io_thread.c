/* SPDX-License-Identifier: MIT */
#include "server/io_thread.h"

#include <stdlib.h>
#include <string.h>

#include "server/connection.h"
#include "server/input.h"
#include "server/waiting.h"
#include "service/commands/cmd_client.h"
#include "service/health.h"

#define WATCH_MS 1000 /* how often patience is looked at, at most */

/* ---- those that go on ------------------------------------------------------------------------- */

/* By an order and not by a timer of 0 ms: libuv runs those again and again before it looks at the files. */
void weir_io_thread_again(struct io_thread *io_thread, struct connection *connection)
{
    if (connection->in_again)
        return;
    connection->in_again = true;
    connection->next_again = NULL;
    if (!io_thread->again)
        weir_loop_post(io_thread->loop, &io_thread->again_callback);
    *io_thread->again_end = connection;
    io_thread->again_end = &connection->next_again;
}

static void run_again(void *arg)
{
    struct io_thread *io_thread = arg;
    struct connection *connection = io_thread->again;
    io_thread->again = NULL;
    io_thread->again_end = &io_thread->again;
    io_thread->handshakes = 0;
    while (connection) {
        struct connection *next = connection->next_again;
        weir_connection_go_on(connection);
        connection = next;
    }
}

/* ---- patience --------------------------------------------------------------------------------- */

/* Whether those who have not logged in need to. A reload may change it; that it is noticed a little later
 * matters only to how much a client may send. */
static void check_logins(struct io_thread *io_thread)
{
    bool begins = !io_thread->worker->snapshot; /* else it is in the middle of a read section that lasts */
    if (begins)
        weir_read_begin(io_thread->worker);
    const struct user *user = &io_thread->worker->snapshot->users->list[0];
    int as = user->has_password         ? CLIENT_UNAUTHENTICATED
             : weir_user_is_admin(user) ? CLIENT_ADMIN
                                        : CLIENT_ORDINARY;
    atomic_store_explicit(&io_thread->comes_as, as, memory_order_relaxed);
    if (begins)
        weir_read_end(io_thread->worker);
}

static void watch_all(void *arg)
{
    struct io_thread *io_thread = arg;
    int64_t now_ms = weir_loop_now_ms(io_thread->loop);
    health_beat(io_thread->worker, now_ms);
    check_logins(io_thread);
    struct connection *next;
    for (struct connection *connection = io_thread->connections; connection; connection = next) {
        next = connection->next;
        weir_connection_watch(connection, now_ms);
    }
}

static int64_t watch_every(const struct io_timeouts *timeouts)
{
    int64_t every = WATCH_MS;
    const int64_t times[] = {timeouts->stuck_ms, timeouts->login_timeout_ms, timeouts->idle_ms,
                             timeouts->linger_ms};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        if (times[i] > 0 && times[i] / 2 < every)
            every = times[i] / 2;
    return every > 10 ? every : 10;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void for_each_connection(struct io_thread *io_thread, void (*act)(struct connection *connection))
{
    struct connection *next;
    for (struct connection *connection = io_thread->connections; connection; connection = next) {
        next = connection->next;
        act(connection);
    }
}

static void close_marked(struct connection *connection)
{
    if (connection->displaced)
        weir_connection_close(connection, "it had not logged in, and another one needed the place");
    else if (connection->killed)
        weir_connection_close(connection, NULL);
}

static void close_any(struct connection *connection)
{
    weir_waiting_abandon(connection);
    weir_connection_close(connection, NULL);
}

static void run_tasks(void *arg)
{
    struct io_thread *io_thread = arg;
    unsigned tasks = atomic_exchange(&io_thread->tasks, 0);
    if (tasks & IO_TASK_STORE)
        weir_disk_wait_release(io_thread);
    if (tasks & IO_TASK_LOOK)
        for_each_connection(io_thread, weir_waiting_look);
    if (tasks & IO_TASK_KILL)
        for_each_connection(io_thread, close_marked);
    if (tasks & IO_TASK_USERS) {
        check_logins(io_thread);
        for_each_connection(io_thread, weir_connection_log_out);
    }
    if (tasks & IO_TASK_DRAIN) {
        io_thread->draining = true;
        for_each_connection(io_thread, weir_connection_drain);
        weir_io_thread_left(io_thread);
    }
    if (tasks & IO_TASK_END) {
        for_each_connection(io_thread, close_any);
        weir_loop_stop(io_thread->loop);
    }
}

void weir_io_thread_post(struct io_thread *io_thread, unsigned tasks)
{
    if (atomic_fetch_or(&io_thread->tasks, tasks) == 0)
        weir_loop_post(io_thread->loop, &io_thread->tasks_callback);
}

void weir_io_thread_left(struct io_thread *io_thread)
{
    if (!io_thread->draining || io_thread->drain_told || atomic_load(&io_thread->load) > 0)
        return;
    io_thread->drain_told = true;
    if (io_thread->drained)
        io_thread->drained(io_thread->drained_arg);
}

/* ---- looked at by others ---------------------------------------------------------------------- */

void weir_io_thread_list(struct io_thread *io_thread, int64_t now_ns, struct buffer *out)
{
    pthread_mutex_lock(&io_thread->mutex);
    for (const struct connection *at = io_thread->connections; at && !out->failed; at = at->next)
        weir_client_line(&at->session, now_ns, out);
    pthread_mutex_unlock(&io_thread->mutex);
}

static bool is_kill_target(const struct session *session, const struct session *asking,
                           const struct client_kill *kill)
{
    return session != asking &&
           (kill->user ? strcmp(session->user, kill->user) == 0 : session->id == kill->id);
}

int64_t weir_io_thread_kill(struct io_thread *io_thread, const struct session *asking,
                            const struct client_kill *kill)
{
    int64_t killed = 0;
    pthread_mutex_lock(&io_thread->mutex);
    for (struct connection *at = io_thread->connections; at; at = at->next)
        if (!at->killed && is_kill_target(&at->session, asking, kill)) {
            at->killed = true;
            killed++;
        }
    pthread_mutex_unlock(&io_thread->mutex);
    if (killed > 0)
        weir_io_thread_post(io_thread, IO_TASK_KILL);
    return killed;
}

/* ---- life ------------------------------------------------------------------------------------- */

bool weir_io_thread_begin(struct io_thread *io_thread, struct worker *worker, struct loop *jobs,
                          const struct io_timeouts *timeouts)
{
    *io_thread = (struct io_thread){
        .worker = worker, .jobs = jobs, .timeouts = *timeouts, .buffered_max = BUFFERED_MAX};
    pthread_mutex_init(&io_thread->mutex, NULL);
    io_thread->again_end = &io_thread->again;
    io_thread->again_callback = (struct loop_callback){.run = run_again, .arg = io_thread};
    io_thread->tasks_callback = (struct loop_callback){.run = run_tasks, .arg = io_thread};
    io_thread->out.most = OUTPUT_MOST;
    io_thread->read_bytes = malloc(HEADROOM + READ_SIZE);
    io_thread->args = malloc((BATCH_WORDS + ARGS_MAX) * sizeof *io_thread->args);
    io_thread->loop = weir_loop_new();
    if (!io_thread->read_bytes || !io_thread->args || !io_thread->loop)
        return false;
    io_thread->watch_timer = weir_timer_new(io_thread->loop, watch_all, io_thread);
    if (!io_thread->watch_timer)
        return false;
    int64_t every_ms = watch_every(timeouts);
    weir_timer_set(io_thread->watch_timer, every_ms, every_ms);
    check_logins(io_thread);
    health_beat(worker, weir_loop_now_ms(io_thread->loop));
    weir_disk_wait_begin(io_thread, worker->service->store);
    return true;
}

void weir_io_thread_clear(struct io_thread *io_thread)
{
    struct connection *next;
    for (struct connection *connection = io_thread->again; connection; connection = next) {
        next = connection->next_again;
        connection->in_again = false;
        if (connection->gone)
            weir_connection_free(connection);
    }
    io_thread->again = NULL;
    io_thread->again_end = &io_thread->again;
    for_each_connection(io_thread, weir_connection_free);
    weir_disk_wait_end(io_thread);
}

void weir_io_thread_end(struct io_thread *io_thread)
{
    weir_io_thread_clear(io_thread);
    weir_loop_free(io_thread->loop);
    weir_buffer_free(&io_thread->out);
    free(io_thread->read_bytes);
    free(io_thread->args);
    pthread_mutex_destroy(&io_thread->mutex);
}
