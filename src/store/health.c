/* SPDX-License-Identifier: MIT */
/*
 * Faults, and how the store becomes well again.
 *
 * Law: what weir_store_ticket_status lets go is on the disk as far as the disk has said so. After a fault:
 *
 * 1. A file that has failed is neither written nor synced again in this life (log.broken). What was promised
 *    before, up to `synced`, stays where it is: nothing is removed before an image has taken its place.
 * 2. While the log is broken nothing is appended. Who commits draws the ticket q = appended + 1, a number
 * that no frame will have. His change is in memory since before that.
 * 3. To heal, a segment is begun first, with sequence q + 1, under log.lock; then the image is copied. So the
 *    image has every change with a ticket up to q, those of frames that were lost as well. Changes after that
 *    have tickets above q, and are in that segment: also if the image has missed them. Whoever cannot read
 *    that image finds q missing in the log, and so knows that it does not tell everything.
 * 4. `synced` does not move before image and segment, and their names, are synced (sync.step is held all that
 *    time). Then it moves to what the segment had when its sync began, and the usual rules apply.
 * 5. If anything of it fails that segment is given up, too. Its numbers are used up: q of the next attempt is
 *    above them, so its tickets become good with that one's image, by (3). Nothing in it was promised. If the
 *    image failed it is removed, so that attempts, however many, leave no files behind: but only when that
 *    image is surely gone, since an image may need what was appended while it was copied.
 *
 * In STORE_NEVER and STORE_EVERYSEC tickets are good before they are synced, but not while it is ill.
 */
#define _POSIX_C_SOURCE 200809L
#include "store/health.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "os/clock.h"
#include "store/checkpoint.h"
#include "store/commit.h"
#include "store/files.h"
#include "store/log.h"
#include "store/mark.h"
#include "store/sync.h"

#define RETRY_FIRST_NS (WEIR_SEC / 10)
#define RETRY_MOST_NS  (5 * WEIR_SEC)
#define BALLAST        "ballast"
#define BALLAST_PART   16 /* of a segment: 4 MiB */
#define BALLAST_ROOM   16 /* times as much has to be free for it to be made */

void weir_store_tell(struct store *store, enum store_event_kind kind, const char *text, int64_t bytes,
                     int64_t ns)
{
    struct store_event event = {.kind = kind, .text = text, .bytes = bytes, .ns = ns};
    if (store->options.event)
        store->options.event(store->options.arg, &event);
}

void weir_health_fault_locked(struct store *store, const char *what, int error)
{
    struct health *health = &store->health;
    char reason[ERROR_REASON_MAX];
    health->faults++;
    if (store->log.broken)
        return; /* the first one says more */
    store->log.broken = true;
    health->code = error;
    (void)snprintf(health->error, sizeof health->error, error ? "%s: %s" : "%s", what,
                   weir_error_reason(reason, error));
    if (!atomic_load_explicit(&health->ill, memory_order_relaxed)) {
        health->since_ns = health->retry_ns = weir_now();
        health->wait_ns = RETRY_FIRST_NS;
        health->told = false;
    }
    atomic_store_explicit(&health->ill, true, memory_order_release);
    (void)pthread_cond_signal(&store->checkpointer_work);
    ASSERT(store->log.broken && atomic_load(&health->ill));
    CHECK_FAULT(store);
}

void weir_health_fault(struct store *store, const char *what, int error)
{
    (void)pthread_mutex_lock(&store->log.lock);
    weir_health_fault_locked(store, what, error);
    (void)pthread_mutex_unlock(&store->log.lock);
}

/* ---- healing ---- */

/* (3): from here on threads append again. */
static bool begin_healing_segment(struct store *store, uint64_t *segment, uint64_t *sequence)
{
    struct log *log = &store->log;
    (void)pthread_mutex_lock(&log->lock);
    log->broken = false;
    store->health.healing = true;
#if WEIR_ASSERTIONS
    store->health.images = store->image.images;
#endif
    store->health.first_number = log->last_number + 1;
    uint64_t only_in_image = atomic_load_explicit(&log->appended, memory_order_relaxed) + 1;
    atomic_store_explicit(&log->appended, only_in_image, memory_order_relaxed);
    *sequence = only_in_image + 1;
    bool begun = weir_log_begin(store);
    *segment = log->now.number;
    (void)pthread_mutex_unlock(&log->lock);
    return begun;
}

/* (4) */
static bool finish_healing(struct store *store, uint64_t target)
{
    (void)pthread_mutex_lock(&store->log.lock);
    bool good = !store->log.broken;
    store->health.healing = false;
#if WEIR_ASSERTIONS
    ASSERT(!good || store->image.images > store->health.images); /* (3) */
#endif
    if (good) {
        store->health.told = false;
        weir_sync_moved(store, target);
        atomic_store_explicit(&store->health.ill, false, memory_order_release);
    }
    (void)pthread_mutex_unlock(&store->log.lock);
    return good;
}

/* The last one that was tried, and the removal of its name is on the disk. */
static bool is_image_gone(struct store *store)
{
    char name[DISK_NAME_MAX];
    int file;
    weir_file_name(name, FILE_IMAGE, store->recovered.image);
    int error = store->disk->open(store->disk, store->dir, name, DISK_READ, &file);
    if (!error)
        (void)store->disk->close(store->disk, file);
    return error == ENOENT && store->disk->sync_dir(store->disk, store->dir) == 0;
}

/* (1), (5); and room is made. */
static void clear_fault(struct store *store)
{
    struct health *health = &store->health;
    if (health->ballast)
        (void)store->disk->remove(store->disk, store->dir, BALLAST);
    health->ballast = false;
    bool gone = health->first_number > 0 && is_image_gone(store);
    weir_log_close_files(store, gone ? health->first_number : 0);
    health->first_number = 0;
}

static bool try_to_heal(struct store *store)
{
    uint64_t segment, sequence, target = 0;
    clear_fault(store);
    if (!begin_healing_segment(store, &segment, &sequence))
        return finish_healing(store, 0);
    int error = weir_image_write(store, segment, sequence);
    if (error)
        weir_health_fault(store, "writing an image", error);
    else
        store->health.first_number = 0;
    if (!error && (error = weir_sync_files(store, &target)) != 0)
        weir_health_fault(store, "syncing the log", error);
    if (!error && (error = weir_mark_make(store)) != 0)
        weir_health_fault(store, "writing the mark", error);
    return finish_healing(store, target);
}

static void plan_retry(struct store *store)
{
    struct health *health = &store->health;
    (void)pthread_mutex_lock(&store->log.lock);
    health->retry_ns = sat_add(weir_now(), health->wait_ns);
    health->wait_ns = min64(2 * health->wait_ns, RETRY_MOST_NS);
    (void)pthread_mutex_unlock(&store->log.lock);
}

bool weir_health_has_place(struct store *store)
{
    if (store->disk->same_dir(store->disk, store->dir) != ESTALE)
        return true;
    weir_health_fault(store, "the data directory was removed or replaced under this process", 0);
    return false;
}

bool weir_health_heal(struct store *store)
{
    (void)pthread_mutex_lock(&store->sync.step);
    bool healed = weir_health_has_place(store) && try_to_heal(store);
    (void)pthread_mutex_unlock(&store->sync.step);
    if (!healed)
        plan_retry(store);
    else
        weir_health_ballast(store);
    return healed;
}

/* ---- telling ---- */

static void report_health(struct store *store)
{
    struct health *health = &store->health;
    char text[STORE_TEXT_MAX];
    (void)pthread_mutex_lock(&store->log.lock);
    bool news = !health->told, ill = atomic_load_explicit(&health->ill, memory_order_relaxed);
    health->told = true;
    memcpy(text, health->error, sizeof text);
    (void)pthread_mutex_unlock(&store->log.lock);
    if (!news)
        return;
    weir_store_tell(store, ill ? STORE_EVENT_ILL : STORE_EVENT_WELL, text, 0, 0);
    if (store->options.moved)
        store->options.moved(store->options.arg);
}

static void report_slow_disk(struct store *store)
{
    int64_t oldest = atomic_load_explicit(&store->sync.oldest_ns, memory_order_relaxed);
    if (oldest == 0 || store->options.sync == STORE_NEVER || sat_sub(weir_now(), oldest) < SYNC_GATE_NS)
        return;
    if (!atomic_exchange_explicit(&store->sync.slow, true, memory_order_relaxed))
        weir_store_tell(store, STORE_EVENT_SLOW, "the disk is behind: what is allowed waits for it", 0, 0);
}

bool weir_health_step(struct store *store)
{
    if (weir_store_is_well(store))
        (void)weir_health_has_place(store);
    report_health(store);
    (void)pthread_mutex_lock(&store->log.lock);
    bool ill = atomic_load_explicit(&store->health.ill, memory_order_relaxed);
    int64_t left = sat_sub(store->health.retry_ns, weir_now());
    (void)pthread_mutex_unlock(&store->log.lock);
    if (!ill) {
        report_slow_disk(store);
        return false;
    }
    if (left > 0 && left <= RETRY_MOST_NS) /* more: the clock was set back */
        return true;
    bool healed = weir_health_heal(store);
    report_health(store);
    return !healed;
}

/* ---- ballast ---- */

static int write_ballast(struct store *store, uint64_t bytes)
{
    struct disk *disk = store->disk;
    int file, error = disk->open(disk, store->dir, BALLAST, DISK_CREATE, &file);
    if (error)
        return error == EEXIST ? 0 : error;
    void *zeros = calloc(1, bytes);
    error = zeros ? disk->write(disk, file, zeros, bytes, 0) : ENOMEM;
    free(zeros);
    (void)disk->close(disk, file);
    if (error)
        (void)disk->remove(disk, store->dir, BALLAST);
    return error;
}

void weir_health_ballast(struct store *store)
{
    uint64_t bytes = store->options.segment_bytes / BALLAST_PART, room = 0;
    if (store->disk->room(store->disk, store->dir, &room) == 0 && room / BALLAST_ROOM >= bytes)
        store->health.ballast = write_ballast(store, bytes) == 0;
}
