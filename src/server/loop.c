/* SPDX-License-Identifier: MIT */
/*
 * Event loops by libuv. Handles are freed when libuv says that it has let go of them, which is later than
 * their owner does.
 */
#define _GNU_SOURCE

#include "server/loop.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <uv.h>

#include "base/assert.h"

struct callback_queue {
    struct loop_callback *first, **end;
};

enum { AHEAD, IN_ORDER, IN_TURN, QUEUES = IN_TURN + LOOP_QUEUES };

struct loop {
    uv_loop_t uv;
    uv_async_t wake;
    pthread_mutex_t mutex; /* of the orders */
    struct callback_queue queues[QUEUES];
    size_t waiting, in_turn; /* of all; of those in turn */
    size_t turn;             /* the queue whose order was run last */
    atomic_bool stop;
    uv_prepare_t end; /* of a round: */
    void (*at_end)(void *arg);
    void *at_end_arg;
};

struct watch {
    uv_poll_t uv;
    watch_ready *ready;
    void *arg;
    unsigned events;
};

struct timer {
    uv_timer_t uv;
    timer_due *due;
    void *arg;
};

struct signal_watch {
    uv_signal_t uv;
    loop_signal *handler;
    void *arg;
};

static void free_handle(uv_handle_t *handle)
{
    free(handle->data);
}

/* ---- the loop --------------------------------------------------------------------------------- */

static void put_callback(struct loop *loop, size_t queue, struct loop_callback *callback)
{
    callback->next = NULL;
    pthread_mutex_lock(&loop->mutex);
    *loop->queues[queue].end = callback;
    loop->queues[queue].end = &callback->next;
    loop->waiting++;
    loop->in_turn += queue >= IN_TURN;
    pthread_mutex_unlock(&loop->mutex);
    uv_async_send(&loop->wake);
}

/* Whose turn it is. There is one. */
static size_t next_queue(struct loop *loop)
{
    for (size_t queue = AHEAD; queue < IN_TURN; queue++)
        if (loop->queues[queue].first)
            return queue;
    do
        loop->turn = (loop->turn + 1) % LOOP_QUEUES;
    while (!loop->queues[IN_TURN + loop->turn].first);
    return IN_TURN + loop->turn;
}

/* There is one. It may be gone, or posted again, after its run. */
static struct loop_callback *take_callback(struct loop *loop)
{
    pthread_mutex_lock(&loop->mutex);
    size_t queue = next_queue(loop);
    struct callback_queue *callbacks = &loop->queues[queue];
    struct loop_callback *callback = callbacks->first;
    callbacks->first = callback->next;
    if (!callbacks->first)
        callbacks->end = &callbacks->first;
    loop->waiting--;
    loop->in_turn -= queue >= IN_TURN;
    pthread_mutex_unlock(&loop->mutex);
    return callback;
}

/* Of each queue in turn one. */
static size_t callbacks_of_a_round(struct loop *loop)
{
    pthread_mutex_lock(&loop->mutex);
    size_t count = loop->waiting - loop->in_turn;
    for (size_t i = IN_TURN; loop->in_turn > 0 && i < QUEUES; i++)
        count += loop->queues[i].first != NULL;
    ASSERT(count <= loop->waiting - loop->in_turn + LOOP_QUEUES && count <= loop->waiting);
    pthread_mutex_unlock(&loop->mutex);
    return count;
}

/* As many as a round has: then timers and files get their turn. What is posted meanwhile, or is left, wakes
 * it again. */
static void run_callbacks(uv_async_t *wake)
{
    struct loop *loop = wake->data;
    for (size_t left = callbacks_of_a_round(loop); left > 0; left--) {
        struct loop_callback *callback = take_callback(loop);
        callback->run(callback->arg);
    }
    pthread_mutex_lock(&loop->mutex);
    bool more = loop->in_turn > 0;
    pthread_mutex_unlock(&loop->mutex);
    if (more)
        uv_async_send(&loop->wake);
    else if (atomic_load(&loop->stop))
        uv_stop(&loop->uv);
}

struct loop *weir_loop_new(void)
{
    struct loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return NULL;
    if (uv_loop_init(&loop->uv) != 0) {
        free(loop);
        return NULL;
    }
    if (uv_async_init(&loop->uv, &loop->wake, run_callbacks) != 0) {
        uv_loop_close(&loop->uv);
        free(loop);
        return NULL;
    }
    loop->wake.data = loop;
    for (size_t i = 0; i < QUEUES; i++)
        loop->queues[i].end = &loop->queues[i].first;
    pthread_mutex_init(&loop->mutex, NULL);
    return loop;
}

void weir_loop_run(struct loop *loop)
{
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    if (loop->at_end) /* the last round did not get to sleep */
        loop->at_end(loop->at_end_arg);
}

static void on_end(uv_prepare_t *handle)
{
    struct loop *loop = handle->data;
    loop->at_end(loop->at_end_arg);
}

void weir_loop_at_end(struct loop *loop, void (*run)(void *arg), void *arg)
{
    loop->at_end = run;
    loop->at_end_arg = arg;
    loop->end.data = loop;
    (void)uv_prepare_init(&loop->uv, &loop->end);
    (void)uv_prepare_start(&loop->end, on_end);
}

void weir_loop_stop(struct loop *loop)
{
    atomic_store(&loop->stop, true);
    uv_async_send(&loop->wake);
}

static void close_handle(uv_handle_t *handle, void *loop)
{
    if (!uv_is_closing(handle))
        uv_close(handle, handle->data == loop ? NULL : free_handle);
}

void weir_loop_free(struct loop *loop)
{
    if (!loop)
        return;
    uv_walk(&loop->uv, close_handle, loop);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    uv_loop_close(&loop->uv);
    pthread_mutex_destroy(&loop->mutex);
    free(loop);
}

int64_t weir_loop_now_ms(const struct loop *loop)
{
    return (int64_t)uv_now(&loop->uv);
}

void weir_loop_post(struct loop *loop, struct loop_callback *callback)
{
    put_callback(loop, IN_ORDER, callback);
}

void weir_loop_post_ahead(struct loop *loop, struct loop_callback *callback)
{
    put_callback(loop, AHEAD, callback);
}

void weir_loop_post_in_turn(struct loop *loop, struct loop_callback *callback, uint64_t whose)
{
    put_callback(loop, IN_TURN + whose % LOOP_QUEUES, callback);
}

/* ---- files ------------------------------------------------------------------------------------ */

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct watch *watch = handle->data;
    if (status < 0) {
        watch->events = 0; /* libuv has stopped it */
        watch->ready(watch->arg, WATCH_READ | WATCH_WRITE | WATCH_GONE);
        return;
    }
    watch->ready(watch->arg, (events & UV_READABLE ? WATCH_READ : 0U) |
                                 (events & UV_WRITABLE ? WATCH_WRITE : 0U) |
                                 (events & UV_DISCONNECT ? WATCH_GONE : 0U));
}

struct watch *weir_watch_new(struct loop *loop, int fd, watch_ready *ready, void *arg)
{
    struct watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return NULL;
    if (uv_poll_init(&loop->uv, &watch->uv, fd) != 0) {
        free(watch);
        return NULL;
    }
    watch->uv.data = watch;
    watch->ready = ready;
    watch->arg = arg;
    return watch;
}

bool weir_watch_for(struct watch *watch, unsigned events)
{
    if (events == watch->events)
        return true;
    int wanted = (events & WATCH_READ ? UV_READABLE : 0) | (events & WATCH_WRITE ? UV_WRITABLE : 0) |
                 (events & WATCH_GONE ? UV_DISCONNECT : 0);
    if ((wanted ? uv_poll_start(&watch->uv, wanted, on_poll) : uv_poll_stop(&watch->uv)) != 0)
        return false;
    watch->events = events;
    return true;
}

void weir_watch_free(struct watch *watch)
{
    if (watch)
        uv_close((uv_handle_t *)&watch->uv, free_handle);
}

/* ---- time ------------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *handle)
{
    struct timer *timer = handle->data;
    timer->due(timer->arg);
}

struct timer *weir_timer_new(struct loop *loop, timer_due *due, void *arg)
{
    struct timer *timer = calloc(1, sizeof *timer);
    if (!timer)
        return NULL;
    uv_timer_init(&loop->uv, &timer->uv);
    timer->uv.data = timer;
    timer->due = due;
    timer->arg = arg;
    return timer;
}

void weir_timer_set(struct timer *timer, int64_t after_ms, int64_t every_ms)
{
    if (after_ms > 0) /* the loop may have been busy since it last looked */
        uv_update_time(timer->uv.loop);
    uv_timer_start(&timer->uv, on_timer, after_ms > 0 ? (uint64_t)after_ms : 0,
                   every_ms > 0 ? (uint64_t)every_ms : 0);
}

void weir_timer_free(struct timer *timer)
{
    if (timer)
        uv_close((uv_handle_t *)&timer->uv, free_handle);
}

/* ---- signals ---------------------------------------------------------------------------------- */

static void on_signal(uv_signal_t *handle, int number)
{
    struct signal_watch *watch = handle->data;
    watch->handler(watch->arg, number);
}

bool weir_loop_on_signal(struct loop *loop, int number, loop_signal *handler, void *arg)
{
    struct signal_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return false;
    if (uv_signal_init(&loop->uv, &watch->uv) != 0) {
        free(watch);
        return false;
    }
    watch->uv.data = watch;
    watch->handler = handler;
    watch->arg = arg;
    return uv_signal_start(&watch->uv, on_signal, number) == 0; /* else it goes with the loop */
}
