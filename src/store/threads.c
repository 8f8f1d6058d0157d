/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "store/threads.h"

#include <time.h>

#include "os/clock.h"
#include "os/futex.h"
#include "os/thread.h"
#include "store/checkpoint.h"
#include "store/commit.h"
#include "store/health.h"
#include "store/sync.h"

#define KEEPER_NS (WEIR_SEC / 4) /* it looks around: for the size of the log, the age of things */

/* While it is ill there is nothing to do but to heal: that may be long, and whoever waits for an image is not
 * to wait for it. */
static bool checkpointer_step(struct store *store)
{
    if (weir_health_step(store)) {
        weir_image_refuse(store);
        return false;
    }
    return weir_image_step(store);
}

static void *checkpointer_main(void *arg)
{
    struct store *store = arg;
    bool more = false;
    weir_thread_give_way(); /* whoever asks comes first */
    (void)pthread_mutex_lock(&store->log.lock);
    while (!store->stopping) {
        int64_t until = weir_monotonic_ns() + KEEPER_NS;
        struct timespec ts = {.tv_sec = until / WEIR_SEC, .tv_nsec = until % WEIR_SEC};
        if (!more)
            (void)pthread_cond_timedwait(&store->checkpointer_work, &store->log.lock, &ts);
        (void)pthread_mutex_unlock(&store->log.lock);
        more = checkpointer_step(store);
        (void)pthread_mutex_lock(&store->log.lock);
    }
    (void)pthread_mutex_unlock(&store->log.lock);
    return NULL;
}

bool weir_store_threads_start(struct store *store)
{
    if (store->options.manual)
        return true;
    store->sync.running = weir_thread_start(&store->sync.thread, weir_sync_run, store);
    store->checkpointer_running =
        store->sync.running && weir_thread_start(&store->checkpointer, checkpointer_main, store);
    return store->checkpointer_running;
}

void weir_store_threads_stop(struct store *store)
{
    (void)pthread_mutex_lock(&store->log.lock);
    store->stopping = true;
    (void)pthread_cond_broadcast(&store->sync.work);
    (void)pthread_cond_broadcast(&store->sync.moved);
    (void)pthread_cond_broadcast(&store->checkpointer_work);
    (void)pthread_mutex_unlock(&store->log.lock);
    if (store->sync.running)
        (void)pthread_join(store->sync.thread, NULL);
    if (store->checkpointer_running)
        (void)pthread_join(store->checkpointer, NULL);
    store->sync.running = store->checkpointer_running = false;
}

bool weir_store_work(struct store *store, unsigned what)
{
    bool more = false;
    if (what & STORE_WORK_SYNC)
        more = weir_sync_step(store);
    if (what & STORE_WORK_IMAGE)
        more = checkpointer_step(store) || more;
    return more;
}

bool weir_store_wait(struct store *store, uint64_t ticket, int64_t timeout_ns)
{
    int64_t until = sat_add(weir_monotonic_ns(), timeout_ns);
    struct timespec ts = {.tv_sec = until / WEIR_SEC, .tv_nsec = until % WEIR_SEC};
    enum store_ticket_status may = weir_store_ticket_status(store, ticket);
    if (may != STORE_GO && store->options.manual) {
        (void)weir_store_work(store, STORE_WORK_SYNC);
        return weir_store_ticket_status(store, ticket) == STORE_GO;
    }
    int late = 0;
    while (may != STORE_GO && late == 0) {
        (void)pthread_mutex_lock(&store->log.lock);
        bool moved = ticket <= atomic_load_explicit(&store->sync.synced, memory_order_relaxed);
        if (!moved)
            late = pthread_cond_timedwait(&store->sync.moved, &store->log.lock, &ts);
        (void)pthread_mutex_unlock(&store->log.lock);
        may = weir_store_ticket_status(store, ticket);
    }
    return may == STORE_GO;
}
