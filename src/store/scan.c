/* SPDX-License-Identifier: MIT */
#include "store/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SCAN_STEP        8
#define FRAME_HEAD_BYTES sizeof(struct frame_head)
#define EFFORT           (UINT64_C(64) << 20) /* and four times the file */
#define NOT_FOUND        UINT64_MAX

int weir_scan_open(struct scan *scan, struct disk *disk, int dir, const char *name, uint64_t salt)
{
    *scan = (struct scan){.disk = disk, .salt = salt, .bad = NOT_FOUND};
    int error = disk->open(disk, dir, name, DISK_READ, &scan->file);
    if (error) {
        scan->disk = NULL;
        return error;
    }
    error = disk->size(disk, scan->file, &scan->size);
    scan->effort = EFFORT + (scan->size < UINT64_MAX / 8 ? 4 * scan->size : 0);
    scan->room = scan->size < SCAN_PIECE ? (size_t)scan->size + SCAN_STEP : SCAN_PIECE;
    if (!error && !(scan->bytes = malloc(scan->room)))
        error = ENOMEM;
    if (error)
        weir_scan_close(scan);
    return error;
}

void weir_scan_close(struct scan *scan)
{
    if (scan->disk)
        (void)scan->disk->close(scan->disk, scan->file);
    free(scan->bytes);
    *scan = (struct scan){0};
}

/* Where the next byte is in the file. */
static uint64_t scan_offset(const struct scan *scan)
{
    return scan->offset + scan->at;
}

static bool scan_fail(struct scan *scan, int error)
{
    scan->error = error;
    return false;
}

/* What was looked at goes, the rest to the front: frames stay at multiples of 8. */
static bool scan_make_room(struct scan *scan, size_t need)
{
    size_t rest = scan->end - scan->at;
    if (need > scan->room) {
        unsigned char *bytes = malloc(need);
        if (!bytes)
            return scan_fail(scan, ENOMEM);
        memcpy(bytes, scan->bytes + scan->at, rest);
        free(scan->bytes);
        scan->bytes = bytes;
        scan->room = need;
    } else {
        memmove(scan->bytes, scan->bytes + scan->at, rest);
    }
    scan->offset += scan->at;
    scan->at = 0;
    scan->end = rest;
    return true;
}

/* At least `need` bytes are here, or all that the file has. */
static bool scan_fill(struct scan *scan, size_t need)
{
    if (scan->end - scan->at >= need || scan->offset + scan->end >= scan->size)
        return true;
    if (!scan_make_room(scan, need))
        return false;
    uint64_t more = scan->size - (scan->offset + scan->end), done = 0;
    if (more > scan->room - scan->end)
        more = scan->room - scan->end;
    int error = scan->disk->read(scan->disk, scan->file, scan->bytes + scan->end, more,
                                 scan->offset + scan->end, &done);
    if (error)
        return scan_fail(scan, error);
    scan->end += done;
    if (done < more)
        scan->size = scan->offset + scan->end; /* it has become shorter */
    return true;
}

static bool could_be_head(const struct scan *scan, struct frame_head *head)
{
    if (scan->end - scan->at < FRAME_HEAD_BYTES)
        return false;
    memcpy(head, scan->bytes + scan->at, FRAME_HEAD_BYTES);
    return head->magic == FRAME_MAGIC && (scan->salt == 0 || head->salt == scan->salt) &&
           head->bytes <= FRAME_BYTES_MAX && frame_size(head->bytes) <= scan->size - scan_offset(scan);
}

/* A frame begins here: all of it is read. */
static enum scan_step scan_check_frame(struct scan *scan, const struct frame_head *head)
{
    size_t all = frame_size(head->bytes);
    if (!scan_fill(scan, all))
        return SCAN_FAILED;
    if (scan->end - scan->at < all)
        return SCAN_END;
    if (!weir_frame_is_good(scan->bytes + scan->at, all, scan->salt))
        return SCAN_END;
    return head->version > FRAME_VERSION    ? SCAN_LATER
           : head->version == FRAME_VERSION ? SCAN_FRAME
                                            : SCAN_END;
}

static void scan_accept(struct scan *scan, const struct frame_head *head)
{
    scan->head = *head;
    scan->payload = scan->bytes + scan->at + FRAME_HEAD_BYTES;
    scan->salt = head->salt;
    scan->frame = scan_offset(scan);
    scan->skipped = scan->frame - scan->good;
    if (scan->skipped > 0 && scan->bad == NOT_FOUND)
        scan->bad = scan->good;
    scan->at += frame_size(head->bytes);
    scan->good = scan_offset(scan);
}

static enum scan_step scan_finish(struct scan *scan)
{
    scan->rubbish = scan->nonzero > scan->good ? scan->nonzero - scan->good : 0;
    if (scan->rubbish > 0 && scan->bad == NOT_FOUND)
        scan->bad = scan->good;
    return SCAN_END;
}

/* Past what is no frame, to the next place where one could begin; what is here by now is enough. */
static void scan_skip(struct scan *scan)
{
    uint64_t word;
    do {
        memcpy(&word, scan->bytes + scan->at, SCAN_STEP);
        scan->at += SCAN_STEP;
        if (word != 0)
            scan->nonzero = scan_offset(scan);
    } while (scan->end - scan->at >= FRAME_HEAD_BYTES &&
             memcmp(scan->bytes + scan->at + sizeof(uint32_t), &(uint32_t){FRAME_MAGIC}, sizeof(uint32_t)) !=
                 0);
}

/* Nothing more can begin here: whatever is not zero among the last bytes is rubbish. */
static enum scan_step scan_skip_rest(struct scan *scan)
{
    for (; scan->at < scan->end; scan->at++)
        if (scan->bytes[scan->at] != 0)
            scan->nonzero = scan_offset(scan) + 1;
    return scan_finish(scan);
}

enum scan_step weir_scan_next(struct scan *scan)
{
    for (;;) {
        struct frame_head head;
        if (!scan_fill(scan, FRAME_HEAD_BYTES))
            return SCAN_FAILED;
        if (scan->end - scan->at < FRAME_HEAD_BYTES)
            return scan_skip_rest(scan);
        if (could_be_head(scan, &head)) {
            enum scan_step step = scan_check_frame(scan, &head);
            if (step == SCAN_FRAME)
                scan_accept(scan, &head);
            if (step != SCAN_END)
                return step;
            uint64_t cost = frame_size(head.bytes);
            scan->effort -= cost < scan->effort ? cost : scan->effort;
        }
        if (scan->salt == 0 || scan->effort == 0) {
            scan->nonzero = scan->size; /* nobody looks further */
            return scan_finish(scan);
        }
        scan_skip(scan);
    }
}
