/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "store/sync.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "os/clock.h"
#include "os/futex.h"
#include "store/health.h"
#include "store/log.h"
#include "store/mark.h"

struct sync_round { /* what one sync has to do */
    struct log_file files[LOG_OLD_MOST + 1];
    uint32_t count;
    uint64_t target;
    bool unnamed;
    bool grown;  /* a size is new, as that of a new segment is: see disk.h, witness */
    bool broken; /* the log has failed meanwhile: its last sequence may be one that is not there */
};

static struct sync_round begin_round(struct store *store)
{
    struct log *log = &store->log;
    struct sync_round round = {0};
    (void)pthread_mutex_lock(&log->lock);
    weir_log_zero(store);
    round.target = atomic_load_explicit(&log->appended, memory_order_relaxed);
    for (; round.count < log->old_count; round.count++)
        round.files[round.count] = log->old[round.count];
    round.files[round.count++] = log->now;
    for (uint32_t i = 0; i < round.count; i++) {
        round.unnamed |= !round.files[i].named;
        round.grown |= log_file_size(&round.files[i]) > round.files[i].ready;
    }
    round.broken = log->broken || log->now.file < 0;
    store->sync.next_oldest_ns = 0;
    (void)pthread_mutex_unlock(&log->lock);
    return round;
}

/* Files that are full are done with. */
static void close_old(struct store *store, const struct sync_round *round, int64_t ns)
{
    struct log *log = &store->log;
    uint32_t gone = round->count - 1;
    (void)pthread_mutex_lock(&log->lock);
    memmove(log->old, log->old + gone, (log->old_count - gone) * sizeof *log->old);
    log->old_count -= gone;
    struct log_file *last = log->old_count > 0 ? &log->old[0] : &log->now; /* which was in use then */
    last->named = true;
    last->ready = log_file_size(&round->files[gone]);
    store->sync.syncs++;
    store->sync.ns_last = ns;
    store->sync.ns_most = max64(store->sync.ns_most, ns);
    (void)pthread_mutex_unlock(&log->lock);
    for (uint32_t i = 0; i < gone; i++) {
        weir_log_cut(store, &round->files[i]);
        (void)store->disk->close(store->disk, round->files[i].file);
    }
}

int weir_sync_files(struct store *store, uint64_t *target)
{
    struct sync_round round = begin_round(store);
    int64_t start = weir_monotonic_ns();
    int error = round.broken ? EIO : 0;
    for (uint32_t i = 0; i < round.count && !error; i++)
        error = store->disk->sync(store->disk, round.files[i].file);
    if (!error && round.unnamed)
        error = store->disk->sync_dir(store->disk, store->dir);
    if (!error && round.grown)
        error = store->disk->witness(store->disk, store->dir);
    if (error)
        return error;
    close_old(store, &round, weir_monotonic_ns() - start);
    *target = round.target;
    return 0;
}

void weir_sync_moved(struct store *store, uint64_t target)
{
    struct sync *sync = &store->sync;
    INVARIANT(41, target >= atomic_load(&sync->synced) && target <= atomic_load(&store->log.appended));
    CHECK_MOVED(store, target);
    atomic_store_explicit(&sync->oldest_ns, sync->next_oldest_ns, memory_order_relaxed);
    atomic_store_explicit(&sync->synced, target, memory_order_release);
    atomic_store_explicit(&sync->slow, false, memory_order_relaxed);
    (void)pthread_cond_broadcast(&sync->moved);
}

/* Is there something to sync? Not in a file that has failed. */
static bool is_behind(struct store *store)
{
    (void)pthread_mutex_lock(&store->log.lock);
    bool behind =
        store->log.now.file >= 0 && !store->log.broken &&
        atomic_load_explicit(&store->log.appended, memory_order_relaxed) != atomic_load(&store->sync.synced);
    (void)pthread_mutex_unlock(&store->log.lock);
    return behind;
}

bool weir_sync_step(struct store *store)
{
    uint64_t target = 0;
    (void)pthread_mutex_lock(&store->sync.step);
    bool behind = is_behind(store);
    int error = behind ? weir_sync_files(store, &target) : 0;
    if (behind && !error) {
        (void)pthread_mutex_lock(&store->log.lock);
        weir_sync_moved(store, target);
        (void)pthread_mutex_unlock(&store->log.lock);
    }
    if (error)
        weir_health_fault(store, "syncing the log", error);
    else if (behind && store->options.moved)
        store->options.moved(store->options.arg);
    weir_mark_step(store);
    (void)pthread_mutex_unlock(&store->sync.step);
    return is_behind(store);
}

/* ---- the thread ---- */

void weir_sync_poke(struct store *store)
{
    store->sync.poked = true;
    if (store->sync.sleeping)
        (void)pthread_cond_signal(&store->sync.work);
}

/* Under log.lock. At most until the monotonic time. */
static void sync_sleep_until(struct store *store, int64_t until)
{
    struct timespec ts = {.tv_sec = until / WEIR_SEC, .tv_nsec = until % WEIR_SEC};
    store->sync.sleeping = true;
    if (until == 0)
        (void)pthread_cond_wait(&store->sync.work, &store->log.lock);
    else
        (void)pthread_cond_timedwait(&store->sync.work, &store->log.lock, &ts);
    store->sync.sleeping = false;
}

static bool has_unsynced(const struct store *store)
{
    return !store->log.broken && atomic_load_explicit(&store->log.appended, memory_order_relaxed) !=
                                     atomic_load_explicit(&store->sync.synced, memory_order_relaxed);
}

/* What is the oldest may have come while the sync before was under way. */
static int64_t begin_in(const struct store *store)
{
    int64_t oldest = atomic_load_explicit(&store->sync.oldest_ns, memory_order_relaxed);
    int64_t age = oldest ? sat_sub(weir_now(), oldest) : 0;
    return clamp64(SYNC_BEGIN_NS - max64(age, 0), 0, SYNC_BEGIN_NS);
}

static bool is_unmarked(const struct store *store)
{
    return !store->log.broken &&
           store->sync.mark_synced != atomic_load_explicit(&store->sync.synced, memory_order_relaxed);
}

/* Under log.lock: until there is something to be synced, and in EVERYSEC until it is half a second old; or
 * until the mark, which is a second behind, should follow. */
static void sync_wait_for_work(struct store *store)
{
    bool never = store->options.sync == STORE_NEVER;
    int64_t until = is_unmarked(store) ? weir_monotonic_ns() + MARK_NS : 0;
    store->sync.timed = never;
    while (!store->stopping && !store->sync.poked && (never || !has_unsynced(store)) &&
           (until == 0 || weir_monotonic_ns() < until))
        sync_sleep_until(store, until);
    if (store->options.sync != STORE_EVERYSEC)
        return;
    until = weir_monotonic_ns() + begin_in(store);
    store->sync.timed = true;
    while (!store->stopping && !store->sync.poked && weir_monotonic_ns() < until)
        sync_sleep_until(store, until);
}

void *weir_sync_run(void *arg)
{
    struct store *store = arg;
    (void)pthread_mutex_lock(&store->log.lock);
    while (!store->stopping) {
        sync_wait_for_work(store);
        store->sync.poked = false;
        (void)pthread_mutex_unlock(&store->log.lock);
        (void)weir_sync_step(store);
        (void)pthread_mutex_lock(&store->log.lock);
    }
    (void)pthread_mutex_unlock(&store->log.lock);
    return NULL;
}
