/* SPDX-License-Identifier: MIT */
/*
 * An image is copied while everything goes on: no moment is in it as a whole. Recovery reads it together with
 * the log from the segment on that was begun before the copy, and the two are right together:
 *
 * 1. Every change is in the image or in that log. What was changed before the segment began is in memory when
 *    the copy begins, and the copy comes to every entry that is there all the time. What was changed later is
 *    listed, and appended to that segment or behind it. Which of two records of an entry counts their numbers
 *    say, wherever they are (region/persist.h).
 * 2. The copy may have seen changes whose threads have not appended them when it ends, and a cut may come
 *    before they do. Alone that does no harm: nobody was answered, and each state was there. But entries
 *    belong together: a record of the ledger that is there without the charge it was written for, or that is
 *    still open while the units were given back already, mints. Therefore
 *    - records are copied first and everything else then, regions that came in meanwhile included. Units are
 *      charged before their record is written: so whose record was copied, his charge is copied as well, or
 *      a later state of that key;
 *    - before the image gets its name all that is in the log when the copy ends is synced. A record is
 *      settled, and that is appended, before units are given back: so if the copy has seen these, that
 *      record is in the log, on the disk, and wins over the open one in the image.
 * 3. The catalogue in the image is that of when the copy began, or a later one that is in the log, too.
 *
 * Hence the order: rotate, catalogue, records, tables, sync of the log, END, sync of the image, rename, sync
 * of the directory, witness. Only then older files go. Whatever fails before that leaves all as it was.
 */
#include "store/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "os/clock.h"
#include "store/files.h"
#include "store/health.h"
#include "store/log.h"
#include "store/sync.h"

/* ---- frames ---- */

static uint64_t image_synced(const struct store *store)
{
    return atomic_load_explicit(&store->sync.synced, memory_order_acquire);
}

/* What is in image->frame, behind room for its head. */
static int image_write_frame(struct store *store, struct image *image, enum frame_kind kind)
{
    struct buffer *frame = &image->frame;
    size_t payload = log_frame_payload(frame), size = frame_size(payload);
    if (frame->failed || payload > FRAME_BYTES_MAX || !weir_buffer_room(frame, size - buffer_len(frame)))
        return payload > FRAME_BYTES_MAX ? EFBIG : ENOMEM;
    struct frame_head *head = (struct frame_head *)(void *)buffer_bytes(frame);
    *head = (struct frame_head){.kind = (uint16_t)kind,
                                .salt = image->salt,
                                .sequence = image->end.frames,
                                .synced = image_synced(store),
                                .time_ns = clamp64(sat_add(weir_now(), store->offset_ns), 0, WEIR_TIME_MAX),
                                .wall_ns = weir_boot.wall()};
    weir_frame_seal(head, payload);
    int error = store->disk->write(store->disk, image->file, head, size, image->end.bytes);
    if (error)
        return error;
    image->end.frames++;
    image->end.bytes += size;
    if (image->end.bytes - image->flushed >= IMAGE_FLUSH_BYTES) {
        store->disk->flush(store->disk, image->file, image->flushed, image->end.bytes - image->flushed);
        image->flushed = image->end.bytes;
    }
    return 0;
}

static void new_frame(struct image *image)
{
    image->frame.start = image->frame.end = 0;
    weir_log_frame(&image->frame);
}

static int image_write_bytes(struct store *store, struct image *image, enum frame_kind kind,
                             const void *bytes, size_t len)
{
    new_frame(image);
    buffer_put(&image->frame, bytes, len);
    return image_write_frame(store, image, kind);
}

/* ---- its beginning ---- */

static int image_write_start(struct store *store, struct image *image)
{
    struct frame_start start = {.number = image->number,
                                .sequence = image->sequence,
                                .segment = image->segment,
                                .offset_ns = store->host_offset_ns};
    memcpy(start.store, store->id, sizeof start.store);
    memcpy(start.boot, store->boot, sizeof start.boot);
    return image_write_bytes(store, image, FRAME_IMAGE, &start, sizeof start);
}

static int image_write_catalogue(struct store *store, struct image *image)
{
    new_frame(image);
    (void)pthread_mutex_lock(&store->log.lock);
    buffer_put(&image->frame, store->log.catalogue, store->log.catalogue_len);
    (void)pthread_mutex_unlock(&store->log.lock);
    return log_frame_payload(&image->frame) > 0 ? image_write_frame(store, image, FRAME_CATALOGUE) : 0;
}

/* Limits of before an image are not needed once no older image is kept. */
static void note_generations(struct store *store, const struct image *image)
{
    (void)image;
    (void)pthread_mutex_lock(&store->regions.lock);
    for (struct stored_region *kept = store->regions.first; kept; kept = kept->next) {
        kept->begun = atom_load(&kept->region->header->generation, memory_order_acquire);
#if WEIR_ASSERTIONS
        kept->of_image = image;
        kept->in_image = NULL;
#endif
    }
    (void)pthread_mutex_unlock(&store->regions.lock);
}

static int open_image(struct store *store, struct image *image)
{
    char name[DISK_NAME_MAX];
    image->number = ++store->recovered.image;
    image->salt = weir_frame_salt(store->id, FRAME_IMAGE, image->number);
    weir_file_name(name, FILE_HALF, image->number);
    int error = store->disk->open(store->disk, store->dir, name, DISK_CREATE, &image->file);
    if (error) {
        image->file = -1;
        return error;
    }
    if (!(error = image_write_start(store, image)))
        error = image_write_catalogue(store, image);
    return error;
}

struct image *weir_image_new(struct store *store, uint64_t segment, uint64_t sequence, bool healing)
{
    struct image *image = calloc(1, sizeof *image);
    if (!image)
        return NULL;
    image->segment = segment;
    image->sequence = sequence;
    image->file = -1;
    image->begun_ns = weir_now();
    image->healing = healing;
    (void)pthread_mutex_lock(&store->log.lock);
    image->wanted = store->image.wanted;
    image->log_start = store->log.bytes;
    ASSERT(segment <= store->log.last_number && sequence <= atomic_load(&store->log.appended));
    store->image.asked = false;
    store->image.running = true;
    (void)pthread_mutex_unlock(&store->log.lock);
    note_generations(store, image);
    store->image.since_ns = image->begun_ns;
    return image;
}

/* ---- its middle ---- */

static bool is_next_region(const struct image *image, const struct stored_region *kept)
{
    bool records = kept->region->shape.kind == REGION_RECORDS;
    return records == (image->phase == IMAGE_RECORDS);
}

/* The one that is being copied, or the next; one that was dropped is gone. */
static struct stored_region *next_region(struct store *store, struct image *image)
{
    for (struct stored_region *kept = store->regions.first; kept; kept = kept->next) {
        uint32_t number = kept->persist.number;
        if (image->copying && number == image->region)
            return kept;
        if (number > image->region && is_next_region(image, kept)) {
            image->region = number;
            image->copying = true;
            image->cursor = 0;
            return kept;
        }
    }
    return NULL;
}

static void count_records(struct image *image)
{
    const unsigned char *bytes = (unsigned char *)buffer_bytes(&image->frame) + sizeof(struct frame_head);
    struct persist_head head;
    for (size_t at = 0, len = log_frame_payload(&image->frame); at < len; at += sizeof head + head.bytes) {
        memcpy(&head, bytes + at, sizeof head);
        image->end.records++;
    }
}

#if WEIR_ASSERTIONS
static void check_copied(struct store *store, struct image *image, struct stored_region *kept)
{
    if (!kept) {
        image->copied_when = atomic_load(&store->log.appended);
        return;
    }
    bool records = kept->region->shape.kind == REGION_RECORDS;
    INVARIANT(44, !records || !image->has_tables); /* a record never comes without its charge */
    image->has_tables = image->has_tables || !records;
    if (!image->copying)
        kept->in_image = image;
}

static void check_complete(struct store *store, const struct image *image)
{
    (void)pthread_mutex_lock(&store->regions.lock);
    for (const struct stored_region *kept = store->regions.first; kept; kept = kept->next)
        ASSERT(kept->of_image != image || kept->in_image == image);
    (void)pthread_mutex_unlock(&store->regions.lock);
    INVARIANT(44, image->healing || image_synced(store) >= image->copied_when);
}
#endif

static int copy_some(struct store *store, struct image *image)
{
    new_frame(image);
    (void)pthread_mutex_lock(&store->regions.lock);
    struct stored_region *kept = next_region(store, image);
    if (kept)
        image->copying =
            kept->persist.kind->walk(&kept->persist, &image->cursor, &image->frame, IMAGE_STEP_BYTES);
#if WEIR_ASSERTIONS
    check_copied(store, image, kept);
#endif
    (void)pthread_mutex_unlock(&store->regions.lock);
    if (!kept) {
        image->phase++;
        image->region = 0;
        image->copying = false;
        return 0;
    }
    if (image->frame.failed)
        return ENOMEM;
    if (log_frame_payload(&image->frame) == 0)
        return 0;
    count_records(image);
    return image_write_frame(store, image, FRAME_RECORDS);
}

/* ---- its end ---- */

static int sync_log(struct store *store, struct image *image)
{
    uint64_t target = atomic_load_explicit(&store->log.appended, memory_order_acquire);
    image->phase++;
    if (image->healing) { /* tickets become good when all of it is well */
        int error = weir_sync_files(store, &target);
        if (error) /* also at the end of a store: a second attempt must not sync that file again */
            weir_health_fault(store, "syncing the log", error);
        return error;
    }
    if (image_synced(store) < target)
        (void)weir_sync_step(store);
    return image_synced(store) < target ? EAGAIN : 0;
}

static int image_finish(struct store *store, struct image *image)
{
    char half[DISK_NAME_MAX], name[DISK_NAME_MAX];
    struct disk *disk = store->disk;
    weir_file_name(half, FILE_HALF, image->number);
    weir_file_name(name, FILE_IMAGE, image->number);
    struct frame_end end = image->end;
#if WEIR_ASSERTIONS
    check_complete(store, image);
#endif
    int error = image_write_bytes(store, image, FRAME_END, &end, sizeof end);
    if (!error)
        error = disk->sync(disk, image->file);
    if (!error) {
        error = disk->close(disk, image->file);
        image->file = -1;
    }
    if (!error)
        error = disk->rename(disk, store->dir, half, name);
    if (!error)
        error = disk->sync_dir(disk, store->dir);
    if (!error)
        error = disk->witness(disk, store->dir);
    if (!error)
        CHECK_DURABLE(store, name);
    image->phase++;
    return error;
}

int weir_image_next(struct store *store, struct image *image)
{
    if (image->file < 0)
        return open_image(store, image);
    switch (image->phase) {
    case IMAGE_RECORDS:
    case IMAGE_TABLES:
        return copy_some(store, image);
    case IMAGE_LOG:
        return sync_log(store, image);
    default:
        return image_finish(store, image);
    }
}

void weir_image_free(struct store *store, struct image *image)
{
    if (image->file >= 0)
        (void)store->disk->close(store->disk, image->file);
    weir_buffer_free(&image->frame);
    free(image);
}
