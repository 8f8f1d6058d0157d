/* SPDX-License-Identifier: MIT */
/*
 * Makes the next segment ready, before it is needed. The keeper does that, alone: log.spare is his until
 * spare_ready is set. If it fails nothing is lost: the next segment will be one that grows.
 */
#include <errno.h>
#include <stdlib.h>

#include "os/clock.h"
#include "store/files.h"
#include "store/log.h"

#define PIECE      (UINT64_C(1) << 20)
#define PAUSE_NS   (5 * WEIR_SEC) /* after it has failed */
#define ROOM_LEAST 4              /* times a segment has to be free */

/* What fills the disk, in order to make it faster, would do harm. */
static bool is_roomy(struct store *store)
{
    uint64_t room = 0;
    return store->disk->room(store->disk, store->dir, &room) != 0 ||
           room / ROOM_LEAST >= store->options.segment_bytes;
}

static bool rest(struct store *store)
{
    store->log.spare_retry_ns = sat_add(weir_now(), PAUSE_NS);
    return false;
}

static void give_up(struct store *store)
{
    char name[DISK_NAME_MAX];
    struct log_file *spare = &store->log.spare;
    weir_file_name(name, FILE_SEGMENT, spare->number);
    (void)store->disk->close(store->disk, spare->file);
    (void)store->disk->remove(store->disk, store->dir, name);
    spare->file = -1;
    (void)rest(store);
}

/* Is one needed? Then it has a number. */
static uint64_t needed_number(struct store *store)
{
    struct log *log = &store->log;
    (void)pthread_mutex_lock(&log->lock);
    bool half = log->now.end > store->options.segment_bytes / 2;
    bool grows = store->options.sync == STORE_ALWAYS && log->now.ready == 0;
    bool needed = !log->broken && !store->health.healing && (half || grows) &&
                  weir_now() >= log->spare_retry_ns && log->last_number < FILES_NUMBERS;
    uint64_t number = needed ? ++log->last_number : 0;
    (void)pthread_mutex_unlock(&log->lock);
    return number;
}

static bool begin(struct store *store)
{
    struct log *log = &store->log;
    char name[DISK_NAME_MAX];
    uint64_t number = needed_number(store);
    if (number == 0)
        return false;
    if (!is_roomy(store))
        return rest(store);
    log->spare = (struct log_file){
        .file = -1, .number = number, .salt = weir_frame_salt(store->id, FRAME_SEGMENT, number)};
    log->spare_done = 0;
    weir_file_name(name, FILE_SEGMENT, number);
    if (store->disk->open(store->disk, store->dir, name, DISK_CREATE, &log->spare.file) != 0) {
        log->spare.file = -1;
        return rest(store);
    }
    return true;
}

static int write_zeros(struct store *store)
{
    struct log *log = &store->log;
    uint64_t left = store->options.segment_bytes - log->spare_done, count = left < PIECE ? left : PIECE;
    void *zeros = calloc(1, count);
    if (!zeros)
        return ENOMEM;
    int error = store->disk->write(store->disk, log->spare.file, zeros, count, log->spare_done);
    free(zeros);
    if (!error)
        store->disk->flush(store->disk, log->spare.file, log->spare_done, count);
    log->spare_done += count;
    return error;
}

static int finish(struct store *store)
{
    struct log *log = &store->log;
    int error = store->options.sync == STORE_ALWAYS ? store->disk->sync(store->disk, log->spare.file) : 0;
    if (!error)
        error = store->disk->sync_dir(store->disk, store->dir);
    if (error)
        return error;
    (void)pthread_mutex_lock(&log->lock);
    log->spare.named = true;
    log->spare.ready = store->options.sync == STORE_ALWAYS ? log->spare_done : 0;
    /* Somebody may have come to the end meanwhile; numbers must rise. */
    bool useful = !log->broken && log->spare.number > log->now.number;
    log->spare_ready = useful;
    if (useful && log->spare.ready > 0 && log->now.ready == 0 && log->old_count < LOG_OLD_MOST - 1)
        (void)weir_log_begin(store);
    (void)pthread_mutex_unlock(&log->lock);
    return useful ? 0 : EAGAIN;
}

bool weir_log_spare_step(struct store *store)
{
    struct log *log = &store->log;
    (void)pthread_mutex_lock(&log->lock);
    bool ready = log->spare_ready;
    (void)pthread_mutex_unlock(&log->lock);
    if (ready)
        return false;
    if (log->spare.file < 0)
        return begin(store);
    bool zeros = store->options.sync == STORE_ALWAYS && log->spare_done < store->options.segment_bytes;
    if (zeros ? write_zeros(store) : finish(store))
        give_up(store);
    return zeros && log->spare.file >= 0;
}
