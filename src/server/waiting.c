/* SPDX-License-Identifier: MIT */
#include "server/waiting.h"

#include "server/output.h"
#include "service/run.h"

#define REST_MS      1
#define TIMER_MAX_MS INT64_C(3600000) /* a longer wait is looked at in between */

static void resume_connection(struct connection *connection)
{
    struct io_thread *io_thread = connection->io_thread;
    pthread_mutex_lock(&io_thread->mutex);
    struct run_result result = weir_service_resume(io_thread->worker, &connection->session, &io_thread->out);
    pthread_mutex_unlock(&io_thread->mutex);
    weir_connection_follow(connection, &result);
    weir_connection_settle(connection);
}

/* ---- until it is due -------------------------------------------------------------------------- */

void weir_waiting_look(struct connection *connection)
{
    if (connection->state == OPEN && pending_waits(connection->session.pending))
        resume_connection(connection);
}

void weir_waiting_abandon(struct connection *connection)
{
    struct io_thread *io_thread = connection->io_thread;
    if (connection->state != OPEN || !pending_waits(connection->session.pending))
        return;
    pthread_mutex_lock(&io_thread->mutex);
    weir_pending_abandon(io_thread->worker, &connection->session, &io_thread->out);
    pthread_mutex_unlock(&io_thread->mutex);
    io_thread->disk_wait.uncommitted =
        true; /* what is given back is a change, which nobody has to wait for */
    (void)weir_output_send(connection);
}

static void on_timer_due(void *arg)
{
    struct connection *connection = arg;
    if (connection->resting)
        weir_connection_rested(connection);
    else
        weir_waiting_look(connection);
}

static bool set_timer(struct connection *connection, int64_t after_ms)
{
    if (!connection->timer)
        connection->timer = weir_timer_new(connection->io_thread->loop, on_timer_due, connection);
    if (connection->timer)
        weir_timer_set(connection->timer, after_ms, 0);
    return connection->timer;
}

static bool wait_until_due(struct connection *connection)
{
    if (connection->io_thread->worker->service->options.test_clock)
        return true; /* WEIR.CLOCK tells when to look */
    int64_t left_ns = connection->session.pending->due_ns - weir_now();
    int64_t left_ms = left_ns > 0 ? left_ns / WEIR_MS + (left_ns % WEIR_MS > 0) : 0;
    return set_timer(connection, left_ms < TIMER_MAX_MS ? left_ms : TIMER_MAX_MS);
}

bool weir_waiting_rest(struct connection *connection)
{
    connection->resting = set_timer(connection, REST_MS);
    return connection->resting;
}

/* ---- until another thread has done its work --------------------------------------------------- */

static void on_work_done(void *arg)
{
    struct connection *connection = arg;
    struct io_thread *io_thread = connection->io_thread;
    connection->posted = false;
    if (!connection->gone) {
        resume_connection(connection);
        return;
    }
    weir_connection_free(connection);
    weir_io_thread_left(io_thread);
}

/* In that thread. */
static void do_work(void *arg)
{
    struct connection *connection = arg;
    struct loop *home = connection->io_thread->loop;
    weir_pending_work(connection->io_thread->worker->service, &connection->session);
    connection->callback.run = on_work_done;
    weir_loop_post(home, &connection->callback);
}

static void post_work(struct connection *connection)
{
    const struct pending *pending = connection->session.pending;
    connection->posted = true;
    connection->callback = (struct loop_callback){.run = do_work, .arg = connection};
    if (pending->cause == PENDING_LOGIN && connection->io_thread->logins)
        weir_loop_post(connection->io_thread->logins, &connection->callback);
    else if (weir_pending_changes(pending))
        weir_loop_post_ahead(connection->io_thread->jobs, &connection->callback);
    else
        weir_loop_post_in_turn(connection->io_thread->jobs, &connection->callback,
                               weir_pending_whose(&connection->session));
}

bool weir_waiting_begin(struct connection *connection)
{
    if (pending_waits(connection->session.pending))
        return wait_until_due(connection);
    if (!connection->posted)
        post_work(connection);
    return true;
}
