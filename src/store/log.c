/* SPDX-License-Identifier: MIT */
#include "store/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "os/clock.h"
#include "store/files.h"
#include "store/health.h"
#include "store/sync.h"

#define ZERO_ROUNDS 4   /* a piece is as much as so many syncs have had */
#define ZERO_PARTS  512 /* and at least this part of a segment: 128 KiB */
#define ZERO_LEAST  4096
#define ZERO_MOST   (UINT64_C(4) << 20)
#define ZERO_TAIL   8 /* behind a frame that has used up those ahead, or had none */
#define ROOM_LEAST  4 /* times a piece has to be free */

static uint64_t log_appended(const struct store *store)
{
    return atomic_load_explicit(&store->log.appended, memory_order_relaxed);
}

void weir_log_frame(struct buffer *frame)
{
    if (weir_buffer_room(frame, sizeof(struct frame_head)))
        buffer_wrote(frame, sizeof(struct frame_head));
}

/* ---- appending ---- */

static void note_unsynced(struct store *store, int64_t now)
{
    now = now > 0 ? now : 1;
    if (atomic_load_explicit(&store->sync.oldest_ns, memory_order_relaxed) == 0)
        atomic_store_explicit(&store->sync.oldest_ns, now, memory_order_relaxed);
    if (store->sync.next_oldest_ns == 0)
        store->sync.next_oldest_ns = now;
}

static void fill_frame_head(struct store *store, struct frame_head *head, enum frame_kind kind, int64_t now)
{
    struct log *log = &store->log;
    int64_t time = clamp64(sat_add(now, store->offset_ns), 0, WEIR_TIME_MAX);
    log->time_ns = max64(log->time_ns, time);
    *head = (struct frame_head){.kind = (uint16_t)kind,
                                .salt = log->now.salt,
                                .sequence = log_appended(store) + 1,
                                .synced = atomic_load_explicit(&store->sync.synced, memory_order_relaxed),
                                .time_ns = log->time_ns,
                                .wall_ns = weir_boot.wall()};
}

/* At no time does a segment of STORE_ALWAYS end with a frame: one that does is short. */
static size_t tail_for(const struct store *store, size_t size)
{
    const struct log_file *now = &store->log.now;
    return store->options.sync == STORE_ALWAYS && now->end + size >= now->zeroed ? ZERO_TAIL : 0;
}

static int write_sealed(struct store *store, struct buffer *frame, size_t size, size_t tail)
{
    struct log_file *now = &store->log.now;
    memset(buffer_bytes(frame) + size, 0, tail);
    int error = store->disk->write(store->disk, now->file, buffer_bytes(frame), size + tail, now->end);
    if (error)
        return error;
    now->end += size;
    if (tail > 0)
        now->zeroed = now->end + tail;
    return 0;
}

/* The number is used up whether or not the write fails: the frame may be there all the same. */
static bool log_write_frame(struct store *store, enum frame_kind kind, struct buffer *frame)
{
    struct log *log = &store->log;
    struct frame_head head;
    size_t payload = log_frame_payload(frame), size = frame_size(payload), tail = tail_for(store, size);
    int64_t now = weir_now();
    if (payload > FRAME_BYTES_MAX || !weir_buffer_room(frame, size + tail - buffer_len(frame))) {
        weir_health_fault_locked(store, "a frame of the log", payload > FRAME_BYTES_MAX ? EFBIG : ENOMEM);
        return false;
    }
    fill_frame_head(store, &head, kind, now);
    memcpy(buffer_bytes(frame), &head, sizeof head);
    weir_frame_seal((struct frame_head *)(void *)buffer_bytes(frame), payload);
    int error = write_sealed(store, frame, size, tail);
    if (!error) {
        log->bytes += size;
        note_unsynced(store, now);
    }
    ASSERT(head.sequence > log_appended(store) && head.synced < head.sequence);
    ASSERT(error || store->options.sync != STORE_ALWAYS || log_file_size(&log->now) > log->now.end);
    atomic_store_explicit(&log->appended, head.sequence, memory_order_release);
    if (error)
        weir_health_fault_locked(store, "writing the log", error);
    return !error;
}

static bool is_segment_full(const struct store *store, size_t more)
{
    const struct log *log = &store->log;
    uint64_t first = frame_size(sizeof(struct frame_start));
    return log->now.end > first && log->now.end + more > store->options.segment_bytes &&
           log->old_count < LOG_OLD_MOST - 1; /* one is for images; behind a slow disk segments get longer */
}

bool weir_log_append(struct store *store, enum frame_kind kind, struct buffer *frame, int64_t records)
{
    struct log *log = &store->log;
    if (log->broken ||
        (is_segment_full(store, frame_size(log_frame_payload(frame))) && !weir_log_begin(store)))
        return false;
    if (!log_write_frame(store, kind, frame))
        return false;
    log->appends++;
    log->records += records;
    if (store->sync.sleeping && (store->options.sync == STORE_ALWAYS || !store->sync.timed))
        (void)pthread_cond_signal(&store->sync.work);
    return true;
}

/* ---- segments ---- */

static int create_segment(struct store *store, struct log_file *segment, uint64_t number)
{
    char name[DISK_NAME_MAX];
    *segment = (struct log_file){
        .file = -1, .number = number, .salt = weir_frame_salt(store->id, FRAME_SEGMENT, number)};
    weir_file_name(name, FILE_SEGMENT, number);
    int error = store->disk->open(store->disk, store->dir, name, DISK_CREATE, &segment->file);
    if (error)
        segment->file = -1;
    return error;
}

static bool log_write_start(struct store *store)
{
    struct frame_start start = {.number = store->log.now.number,
                                .sequence = log_appended(store) + 1,
                                .segment = store->log.now.number,
                                .offset_ns = store->host_offset_ns,
                                .sync = store->options.sync,
                                .flags = store->log.flags};
    struct buffer frame = {0};
    memcpy(start.store, store->id, sizeof start.store);
    memcpy(start.boot, store->boot, sizeof start.boot);
    weir_log_frame(&frame);
    buffer_put(&frame, (const char *)&start, sizeof start);
    bool good = !frame.failed && log_write_frame(store, FRAME_SEGMENT, &frame);
    store->log.flags = good ? 0 : store->log.flags;
    if (frame.failed && !store->log.broken)
        weir_health_fault_locked(store, "a frame of the log", ENOMEM);
    weir_buffer_free(&frame);
    return good;
}

bool weir_log_begin(struct store *store)
{
    struct log *log = &store->log;
    struct log_file next;
    if (log->broken || log->old_count == LOG_OLD_MOST)
        return false;
    int error = create_segment(store, &next, ++log->last_number);
    if (error) {
        weir_health_fault_locked(store, "making a segment of the log", error);
        return false;
    }
    if (log->now.file >= 0)
        log->old[log->old_count++] = log->now;
    log->now = next;
    (void)atomic_fetch_add_explicit(&log->rotations, 1, memory_order_release);
    weir_sync_poke(store); /* the old one, in every mode: all who append want it gone */
    return log_write_start(store);
}

bool weir_log_rotate(struct store *store, uint64_t *segment, uint64_t *sequence)
{
    struct log *log = &store->log;
    (void)pthread_mutex_lock(&log->lock);
    if (log->old_count == LOG_OLD_MOST) {
        (void)pthread_mutex_unlock(&log->lock);
        weir_sync_step(store);
        (void)pthread_mutex_lock(&log->lock);
    }
    *sequence = log_appended(store) + 1;
    bool begun = weir_log_begin(store);
    *segment = log->now.number;
    (void)pthread_mutex_unlock(&log->lock);
    return begun;
}

/* ---- zeros ahead ---- */

/* What fills the disk, in order to make it faster, would do harm. */
static bool is_roomy(struct store *store, uint64_t piece)
{
    uint64_t room = 0;
    return store->disk->room(store->disk, store->dir, &room) == 0 && room / ROOM_LEAST >= piece;
}

static int write_zeros(struct store *store, uint64_t from, uint64_t bytes)
{
    void *zeros = calloc(1, bytes);
    int error = zeros ? store->disk->write(store->disk, store->log.now.file, zeros, bytes, from) : ENOMEM;
    free(zeros);
    return error;
}

static uint64_t piece_for(const struct store *store, uint64_t round)
{
    uint64_t least = store->options.segment_bytes / ZERO_PARTS;
    uint64_t piece = round < ZERO_MOST / ZERO_ROUNDS ? round * ZERO_ROUNDS : ZERO_MOST;
    least = least > ZERO_LEAST ? least : ZERO_LEAST;
    return piece > least ? piece : least;
}

/* Half of a piece is left for what comes before the next sync begins. Without room the segment grows. */
void weir_log_zero(struct store *store)
{
    struct log_file *now = &store->log.now;
    uint64_t from = log_file_size(now), piece = piece_for(store, now->end - now->looked);
    now->looked = now->end;
    if (store->options.sync != STORE_ALWAYS || store->log.broken || now->file < 0 ||
        from - now->end >= piece / 2 || !is_roomy(store, piece))
        return;
    int error = write_zeros(store, from, piece);
    if (!error)
        now->zeroed = from + piece;
    else if (error != ENOSPC && error != EDQUOT && error != EFBIG && error != ENOMEM)
        weir_health_fault_locked(store, "writing the log", error);
}

void weir_log_cut(struct store *store, const struct log_file *segment)
{
    if (segment->end < segment->zeroed)
        (void)store->disk->truncate(store->disk, segment->file, segment->end);
}

static void close_segment(struct store *store, struct log_file *segment, uint64_t remove_from)
{
    char name[DISK_NAME_MAX];
    if (segment->file < 0)
        return;
    (void)store->disk->close(store->disk, segment->file);
    segment->file = -1;
    weir_file_name(name, FILE_SEGMENT, segment->number);
    if (remove_from != 0 && segment->number >= remove_from)
        (void)store->disk->remove(store->disk, store->dir, name);
}

void weir_log_close_files(struct store *store, uint64_t remove_from)
{
    struct log *log = &store->log;
    struct log_file files[LOG_OLD_MOST + 1];
    uint32_t count = 0;
    (void)pthread_mutex_lock(&log->lock);
    while (count < log->old_count) {
        files[count] = log->old[count];
        count++;
    }
    files[count++] = log->now;
    log->now.file = -1;
    log->old_count = 0;
    (void)pthread_mutex_unlock(&log->lock);
    for (uint32_t i = 0; i < count; i++)
        close_segment(store, &files[i], remove_from);
}
