/* SPDX-License-Identifier: MIT */
/*
 * The life of a store: open, regions, replay, start, close. What it does in between is in other files, see
 * internal.h.
 */
#define _POSIX_C_SOURCE 200809L
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "os/clock.h"
#include "os/futex.h"
#include "os/thread.h"
#include "store/checkpoint.h"
#include "store/commit.h"
#include "store/files.h"
#include "store/health.h"
#include "store/log.h"
#include "store/mark.h"
#include "store/recover.h"
#include "store/sync.h"

#define COVER_ATTEMPTS 2 /* to write an image at the end */
#define SEGMENT_LEAST  4096
#define KEEPER_NS      (WEIR_SEC / 4) /* it looks around: for the size of the log, the age of things */

/* ---- open ---- */

static void fill_options(struct store *store, const struct store_options *options)
{
    struct store_options *own = &store->options;
    *own = *options;
    own->path = store->path;
    own->sync = own->sync ? own->sync : STORE_EVERYSEC;
    own->segment_bytes = own->segment_bytes ? own->segment_bytes : STORE_SEGMENT_BYTES;
    if (own->segment_bytes < SEGMENT_LEAST)
        own->segment_bytes = SEGMENT_LEAST;
    own->image_log_bytes = own->image_log_bytes ? own->image_log_bytes : STORE_IMAGE_LOG_BYTES;
    own->image_age_ns = own->image_age_ns ? own->image_age_ns : STORE_IMAGE_AGE_NS;
    own->images = own->images ? own->images : STORE_IMAGES;
    own->images = own->images < STORE_IMAGES_MOST ? own->images : STORE_IMAGES_MOST;
    store->disk = own->disk ? own->disk : &weir_disk;
#if WEIR_ASSERTIONS
    store->disk = weir_check_disk(&store->checked, store->disk);
#endif
    store->dir = store->sync.mark_file = store->log.now.file = -1;
    store->health.told = true;
    atomic_store(&store->health.misses_seen, atomic_load(&weir_dirty_misses));
}

static void make_locks(struct store *store)
{
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&store->log.lock, NULL);
    (void)pthread_mutex_init(&store->sync.step, NULL);
    (void)pthread_mutex_init(&store->regions.lock, NULL);
    (void)pthread_cond_init(&store->sync.work, &monotonic);
    (void)pthread_cond_init(&store->sync.moved, &monotonic);
    (void)pthread_cond_init(&store->checkpointer_work, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}

static struct store *make_store(const struct store_options *options, struct weir_error *err)
{
    struct store *store = calloc(1, sizeof *store);
    size_t len = strlen(options->path) + 1;
    char *path = malloc(len);
    if (!store || !path) {
        free(store);
        free(path);
        weir_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    memcpy(path, options->path, len);
    store->path = path;
    fill_options(store, options);
    make_locks(store);
    return store;
}

static void destroy_store(struct store *store)
{
    weir_dirty_forget(store); /* whatever this thread has changed of one that was never started */
#if WEIR_ASSERTIONS
    for (uint32_t i = 0; weir_dirty && i < weir_dirty->count; i++)
        ASSERT(weir_dirty->items[i].persist->store != store);
    if (!store->started)
        CHECK_FAULT(store);
#endif
    while (store->regions.first)
        weir_store_drop(store, store->regions.first->region);
    weir_log_close_files(store, 0);
    weir_mark_close(store);
    weir_commit_free(store);
    if (store->dir >= 0)
        store->disk->close_dir(store->disk, store->dir);
    (void)pthread_cond_destroy(&store->checkpointer_work);
    (void)pthread_cond_destroy(&store->sync.moved);
    (void)pthread_cond_destroy(&store->sync.work);
    (void)pthread_mutex_destroy(&store->regions.lock);
    (void)pthread_mutex_destroy(&store->sync.step);
    (void)pthread_mutex_destroy(&store->log.lock);
    weir_survey_forget(&store->from);
    free(store->found_catalogue);
    free(store->recovered.segments);
    free(store->log.catalogue);
    free(store->path);
    free(store);
}

/* Whoever mistypes a path is not to find our files among his. */
static bool check_owner(struct store *store, struct weir_error *err)
{
    enum files_owner owner;
    int error = weir_files_owner(store->disk, store->dir, &owner);
    if (error)
        return weir_error_fault(err, error, "%.120s: cannot read the directory", store->path);
    return owner != FILES_FOREIGN ||
           weir_error_complain_as(
               err, ENOTEMPTY,
               "%.120s: it has files, and none of them is weir's: name one that is new, or empty",
               store->path);
}

static bool open_dir(struct store *store, struct weir_error *err)
{
    struct disk *disk = store->disk;
    int64_t pid = 0;
    char holder[48] = "another process";
    int error = disk->open_dir(disk, store->path, true, &store->dir);
    if (error) {
        store->dir = -1;
        return weir_error_fault(err, error, "%.120s: cannot open the directory", store->path);
    }
    if (!check_owner(store, err))
        return false;
    error = disk->lock_dir(disk, store->dir, &pid);
    if (error != EAGAIN)
        return !error || weir_error_fault(err, error, "%.120s: cannot lock the directory", store->path);
    if (pid > 0)
        (void)snprintf(holder, sizeof holder, "process %lld", (long long)pid);
    char text[256];
    (void)snprintf(text, sizeof text, "%.120s: in use by %s; stop that one, or use another directory",
                   store->path, holder);
    weir_error_set(err, EAGAIN, text);
    return false;
}

/*
 * Store time runs on from one process, and boot, to the next, and never back. In the same boot of the machine
 * CLOCK_BOOTTIME tells what has passed. After another one only the wall clock does: less than nothing counts
 * as nothing, and more than STORE_TIME_ELAPSED_MAX_NS as that.
 */

/* By the wall clock, which may have been wrong then, or may be now. */
static int64_t elapsed_by_wall(const struct recovered *last, struct store_found *found)
{
    int64_t step = sat_sub(weir_boot.wall(), last->wall_ns);
    found->other_boot = true;
    found->wall_step_ns = min64(step, 0);
    return clamp64(step, 0, STORE_TIME_ELAPSED_MAX_NS);
}

static int64_t elapsed_since(const struct store *store, int64_t host_now, bool same_boot,
                             struct store_found *found)
{
    const struct recovered *last = &store->recovered;
    if (store->options.no_elapsed)
        return 0;
    if (!same_boot)
        return elapsed_by_wall(last, found);
    return max64(0, sat_sub(sat_add(host_now, last->offset_ns), last->time_ns));
}

static void set_store_time(struct store *store, struct store_found *found)
{
    const struct recovered *last = &store->recovered;
    int64_t shift = 0, now = weir_now();
    bool known = weir_boot.id(store->boot) && weir_boot.shift(&shift);
    int64_t host_now = sat_sub(now, shift);
    store->host_offset_ns = sat_sub(now, host_now);
    ASSERT(last->has_time || sat_add(host_now, store->host_offset_ns) == now);
    if (!last->has_time)
        return;
    bool same_boot = known && memcmp(store->boot, last->boot, sizeof store->boot) == 0;
    int64_t time = clamp64(last->time_ns, 0, WEIR_TIME_MAX);
    found->elapsed_ns = elapsed_since(store, host_now, same_boot, found);
    time = min64(sat_add(time, found->elapsed_ns), WEIR_TIME_MAX);
    store->offset_ns = time - now;
    store->host_offset_ns = sat_sub(time, host_now);
    ASSERT(found->elapsed_ns >= 0 && sat_add(now, store->offset_ns) >= min64(last->time_ns, WEIR_TIME_MAX));
    ASSERT(!same_boot || memcmp(store->boot, last->boot, sizeof store->boot) == 0);
    ASSERT(same_boot || found->elapsed_ns <= STORE_TIME_ELAPSED_MAX_NS);
}

struct store *weir_store_open(const struct store_options *options, struct store_found *found,
                              struct weir_error *err)
{
    *found = (struct store_found){0};
    struct store *store = make_store(options, err);
    if (!store)
        return NULL;
    struct hash_key lot = weir_hash_key();
    memcpy(store->id, &lot, sizeof store->id);
    if (!open_dir(store, err) || !weir_recover_find(store, found, err)) {
        destroy_store(store);
        return NULL;
    }
    set_store_time(store, found);
    weir_dirty_at_end(weir_commit_flush);
    return store;
}

const void *weir_store_found_catalogue(const struct store *store, size_t *len)
{
    *len = store->found_catalogue ? store->found_catalogue_len : 0;
    return store->found_catalogue;
}

int64_t weir_store_offset(const struct store *store)
{
    return store->offset_ns;
}

/* ---- regions ---- */

bool weir_store_add(struct store *store, uint32_t number, struct region *region, int64_t lead_ns,
                    const struct persist_ops *kind, void *owner, struct weir_error *err)
{
    struct stored_region *kept = calloc(1, sizeof *kept);
    if (!kept) {
        weir_error_set(err, ENOMEM, "out of memory");
        return false;
    }
    kept->region = region;
    kept->lead_ns = lead_ns;
    kept->persist.store = store;
    kept->persist.number = number;
    kept->persist.kind = kind;
    kept->persist.owner = owner;
    kept->persist.overfull = weir_commit_overfull;
    kept->persist.want_image = weir_image_ask;
    (void)pthread_mutex_lock(&store->regions.lock);
    struct stored_region **place = &store->regions.first;
    while (*place && (*place)->persist.number < number)
        place = &(*place)->next;
    bool taken = *place && (*place)->persist.number == number;
    if (!taken) {
        kept->next = *place;
        *place = kept;
        region->offset_ns = sat_add(store->offset_ns, lead_ns);
        region->persist = &kept->persist;
    }
    (void)pthread_mutex_unlock(&store->regions.lock);
    if (!taken)
        return true;
    free(kept);
    return weir_error_complain(err, "two regions of a store with the number %u", (unsigned)number);
}

void weir_store_drop(struct store *store, struct region *region)
{
    (void)pthread_mutex_lock(&store->regions.lock);
    struct stored_region **place = &store->regions.first, *kept = NULL;
    while (*place && (*place)->region != region)
        place = &(*place)->next;
    if (*place) {
        kept = *place;
        *place = kept->next;
        region->persist = NULL;
    }
    (void)pthread_mutex_unlock(&store->regions.lock);
    free(kept);
}

bool weir_store_replay(struct store *store, struct store_found *found, struct weir_error *err)
{
    store->replayed = weir_recover_replay(store, found, err);
    return store->replayed;
}

/* ---- threads: syncer and checkpointer ---- */

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

static bool start_threads(struct store *store)
{
    if (store->options.manual)
        return true;
    store->sync.running = weir_thread_start(&store->sync.thread, weir_sync_run, store);
    store->checkpointer_running =
        store->sync.running && weir_thread_start(&store->checkpointer, checkpointer_main, store);
    return store->checkpointer_running;
}

static void stop_threads(struct store *store)
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

/* ---- start ---- */

/* The first segment with the catalogue, synced, and the mark: from here on it has not ended well. */
static bool begin_log(struct store *store, const void *catalogue, size_t len, struct weir_error *err)
{
    uint64_t target = 0;
    (void)pthread_mutex_lock(&store->log.lock);
    bool good = weir_log_begin(store);
    (void)pthread_mutex_unlock(&store->log.lock);
    if (!good || !weir_store_catalogue(store, catalogue, len))
        return weir_error_complain_as(err, store->health.code ? store->health.code : ENOMEM,
                                      "%.120s: cannot begin to write: %s", store->path,
                                      store->health.error[0] ? store->health.error : "out of memory");
    (void)pthread_mutex_lock(&store->sync.step);
    int error = weir_sync_files(store, &target);
    if (!error) {
        (void)pthread_mutex_lock(&store->log.lock);
        weir_sync_moved(store, target);
        (void)pthread_mutex_unlock(&store->log.lock);
        error = weir_mark_make(store);
    }
    (void)pthread_mutex_unlock(&store->sync.step);
    return !error || weir_error_fault(err, error, "%.120s: cannot begin to write", store->path);
}

/* Behind what could not be written: a full disk is what an operator can do something about. */
static bool advise(struct weir_error *err)
{
    if (!err || (err->code != ENOSPC && err->code != EDQUOT))
        return false;
    size_t len = strlen(err->text);
    (void)snprintf(err->text + len, sizeof err->text - len,
                   "; make room on that disk (move backups/ or retired/ away, for example) and start again");
    return false;
}

bool weir_store_start(struct store *store, const void *catalogue, size_t len, struct weir_error *err)
{
    const struct recovered *recovered = &store->recovered;
    /* Numbers that were used are not used again, also those of frames that were lost. */
    uint64_t last = recovered->sequence;
    if (recovered->marked > last && recovered->marked < FILES_NUMBERS)
        last = recovered->marked;
    ASSERT(last >= recovered->sequence && (recovered->marked >= FILES_NUMBERS || last >= recovered->marked));
    atomic_store(&store->log.appended, last);
    atomic_store(&store->sync.synced, last);
    store->log.last_number = recovered->segment;
    store->log.time_ns = recovered->has_time ? recovered->time_ns : 0;
    store->log.flags = recovered->flags;
    store->image.held = store->options.hold_images;
    if (!weir_recover_settle(store, err) || !begin_log(store, catalogue, len, err))
        return advise(err);
    weir_recover_trim(store);
    weir_survey_forget(&store->from);
    weir_health_ballast(store);
    store->started = start_threads(store);
    if (!store->started)
        weir_error_set(err, EAGAIN, "no thread can be started; raise the limit of processes (ulimit -u)");
    return store->started;
}

/* ---- state, close ---- */

void weir_store_state(struct store *store, struct store_state *state)
{
    struct log *log = &store->log;
    struct image_state *image = &store->image;
    (void)pthread_mutex_lock(&log->lock);
    int64_t oldest = atomic_load(&store->sync.oldest_ns);
    *state = (struct store_state){.ill = atomic_load(&store->health.ill),
                                  .slow = atomic_load(&store->sync.slow),
                                  .ill_since_ns = store->health.since_ns,
                                  .sync = store->options.sync,
                                  .sequence = atomic_load(&log->appended),
                                  .synced = atomic_load(&store->sync.synced),
                                  .log_bytes = log->bytes - image->log_start + image->log_before,
                                  .image_bytes = image->bytes,
                                  .image_number = image->number,
                                  .image_time_ns = image->time_ns,
                                  .images = image->images,
                                  .image_failures = image->failures,
                                  .faults = store->health.faults,
                                  .syncs = store->sync.syncs,
                                  .appends = log->appends,
                                  .records = log->records,
                                  .sync_ns_last = store->sync.ns_last,
                                  .sync_ns_most = store->sync.ns_most,
                                  .unsynced_ns = oldest ? max64(1, sat_sub(weir_now(), oldest)) : 0,
                                  .image_running = image->running};
    memcpy(state->error, store->health.error, sizeof state->error);
    (void)pthread_mutex_unlock(&log->lock);
}

/* What was found missing at the start, and what the owner did about it, is in no image yet: without one the
 * next start would find it again, although this process ends well. */
static void cover_trouble(struct store *store)
{
    uint64_t segment, sequence;
    bool trouble = store->recovered.flags & (FRAME_HOLES | FRAME_LOST | FRAME_UNSURE);
    for (int i = 0; i < COVER_ATTEMPTS && trouble && store->image.images == 0 && !store->image.held; i++)
        if (weir_store_is_well(store) && weir_log_rotate(store, &segment, &sequence))
            (void)weir_image_write(store, segment, sequence);
}

/* The last sync, and the mark that says so. */
static bool finish_log(struct store *store, struct weir_error *err)
{
    (void)weir_store_commit(store);
    cover_trouble(store);
    (void)weir_sync_step(store);
    if (weir_store_is_well(store))
        (void)weir_health_has_place(store);
    if (!weir_store_is_well(store) && !weir_health_heal(store))
        return weir_error_complain_as(err, EIO, "%.120s: not everything is on the disk: %s", store->path,
                                      store->health.error);
    (void)pthread_mutex_lock(&store->sync.step);
    bool all = atomic_load(&store->log.appended) == atomic_load(&store->sync.synced);
    if (all)
        weir_log_cut(store, &store->log.now);
    int error = all ? weir_mark_write(store, true) : EIO;
    (void)pthread_mutex_unlock(&store->sync.step);
    return !error || weir_error_fault(err, error, "%.120s: cannot write the mark", store->path);
}

bool weir_store_close(struct store *store, struct weir_error *err)
{
    stop_threads(store);
    weir_image_end(store);
    bool good = !store->started || finish_log(store, err);
    destroy_store(store);
    return good;
}
