/* SPDX-License-Identifier: MIT */
/*
 * Giving what was found to the regions: image, then log, each record once, as it lies on the disk. Checksums
 * are looked at again: it is another reading.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sat.h"
#include "store/files.h"
#include "store/internal.h"
#include "store/scan.h"
#include "store/survey.h"

struct replay {
    struct store_found *found;
    struct stored_region **regions; /* by number */
    size_t count;
    struct stored_region *last; /* that a record was of: the next often is, too */
    bool failed;                /* there is no room for a record */
    const struct store *store;
    int64_t bytes, told_ns; /* of whole files; when that was said */
};

#define TELL_NS (2 * WEIR_SEC)

/* Somebody waits for it. */
static void report_progress(struct replay *replay, const struct scan *scan)
{
    const struct store_options *options = &replay->store->options;
    int64_t now_ns = weir_now();
    if (sat_sub(now_ns, replay->told_ns) < TELL_NS || !options->event)
        return;
    replay->told_ns = now_ns;
    options->event(options->arg, &(struct store_event){.kind = STORE_EVENT_REPLAY,
                                                       .bytes = replay->bytes + (int64_t)scan->frame,
                                                       .all = (int64_t)replay->found->bytes});
}

static bool list_regions(struct replay *replay, const struct store *store)
{
    size_t count = 0;
    for (struct stored_region *kept = store->regions.first; kept; kept = kept->next)
        count++;
    replay->regions = malloc((count + 1) * sizeof(struct stored_region *));
    if (!replay->regions)
        return false;
    for (struct stored_region *kept = store->regions.first; kept; kept = kept->next)
        replay->regions[replay->count++] = kept;
    return true;
}

static struct stored_region *find_region(struct replay *replay, uint32_t number)
{
    size_t low = 0, high = replay->count;
    if (replay->last && replay->last->persist.number == number)
        return replay->last;
    while (low < high) {
        size_t middle = (low + high) / 2;
        struct stored_region *kept = replay->regions[middle];
        if (kept->persist.number == number)
            return replay->last = kept;
        if (kept->persist.number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static bool apply_record(void *arg, uint32_t region, uint8_t kind, const unsigned char *body, size_t bytes)
{
    struct replay *replay = arg;
    struct stored_region *kept = find_region(replay, region);
    replay->found->records++;
    if (!kept || !kept->persist.kind->apply(&kept->persist, kind, body, bytes, &replay->failed))
        replay->found->unknown += !replay->failed;
    return !replay->failed;
}

static int apply_frame(void *arg, const struct survey *survey, const struct scan *scan)
{
    struct replay *replay = arg;
    (void)survey;
    report_progress(replay, scan);
    if (scan->head.kind != FRAME_RECORDS)
        return 0;
    if (!weir_frame_records(scan->payload, scan->head.bytes, apply_record, replay))
        replay->found->unknown += !replay->failed;
    return replay->failed ? ENOMEM : 0;
}

/* `limit`: of bytes. */
static bool apply_file(struct replay *replay, const struct store *store, enum file_kind kind, uint64_t number,
                       uint64_t limit, struct weir_error *err)
{
    struct survey survey = {.kind = kind, .number = number, .limit = limit};
    char name[DISK_NAME_MAX];
    weir_survey_file(&survey, store->disk, store->dir, store->id, apply_frame, replay);
    if (kind == FILE_IMAGE && !survey.error && !survey.whole)
        survey.error = EIO; /* it was a moment ago */
    replay->bytes += (int64_t)survey.bytes;
    if (!survey.error)
        return true;
    weir_file_name(name, kind, number);
    if (!replay->failed)
        return weir_error_fault(err, survey.error, "cannot read %s", name);
    char text[200];
    (void)snprintf(text, sizeof text, "there is no room for all that is in %s: give it more memory", name);
    weir_error_set(err, survey.error, text);
    return false;
}

static bool apply_all(struct replay *replay, const struct store *store, struct weir_error *err)
{
    const struct recovered *recovered = &store->recovered;
    if (recovered->from_image > 0 && !apply_file(replay, store, FILE_IMAGE, recovered->from_image, 0, err))
        return false;
    for (size_t i = 0; i < recovered->segment_count; i++) {
        const struct found_segment *segment = &recovered->segments[i];
        if (segment->frames > 0 &&
            !apply_file(replay, store, FILE_SEGMENT, segment->number, segment->used, err))
            return false;
    }
    return true;
}

bool weir_recover_replay(struct store *store, struct store_found *found, struct weir_error *err)
{
    struct replay replay = {.found = found, .store = store, .told_ns = weir_now()};
    if (store->recovered.fresh)
        return true;
    bool good = list_regions(&replay, store) ? apply_all(&replay, store, err)
                                             : weir_error_fault(err, ENOMEM, "cannot read the log");
    free(replay.regions);
    return good;
}

/* ---- before something is written ---- */

/*
 * Frames of which nobody claims that they were synced may be in the memory of the kernel alone; and if a sync
 * has failed they stay there as if they had been written, so that no later one writes them. Hence they are
 * written once more, as they are. *older: there were others.
 */
static int write_again(const struct store *store, uint64_t number, int file, bool *older)
{
    struct scan scan;
    enum scan_step step;
    char name[DISK_NAME_MAX];
    weir_file_name(name, FILE_SEGMENT, number);
    uint64_t salt = weir_frame_salt(store->id, FRAME_SEGMENT, number); /* also if its first frame is bad */
    int error = weir_scan_open(&scan, store->disk, store->dir, name, salt);
    if (error)
        return error;
    while (!error && (step = weir_scan_next(&scan)) == SCAN_FRAME)
        if (scan.head.sequence <= store->recovered.claimed)
            *older = true;
        else
            error = store->disk->write(store->disk, file, scan.payload - sizeof scan.head,
                                       frame_size(scan.head.bytes), scan.frame);
    if (!error && step == SCAN_FAILED)
        error = scan.error;
    weir_scan_close(&scan);
    return error;
}

/* `again`: frames of it may have to be written again; cleared when all before it are known to be there. */
static int sync_file(const struct store *store, const struct found_segment *segment, bool *again)
{
    char name[DISK_NAME_MAX];
    bool older = false;
    int file;
    weir_file_name(name, FILE_SEGMENT, segment->number);
    int error = store->disk->open(store->disk, store->dir, name, DISK_WRITE, &file);
    if (error)
        return error;
    if (*again)
        error = write_again(store, segment->number, file, &older);
    if (!error)
        error = store->disk->sync(store->disk, file);
    (void)store->disk->close(store->disk, file);
    *again = *again && !older;
    return error;
}

void weir_recover_trim(const struct store *store)
{
    char name[DISK_NAME_MAX];
    for (size_t i = 0; i < store->recovered.segment_count; i++) {
        const struct found_segment *segment = &store->recovered.segments[i];
        int file;
        weir_file_name(name, FILE_SEGMENT, segment->number);
        if (segment->cut == segment->bytes ||
            store->disk->open(store->disk, store->dir, name, DISK_WRITE, &file) != 0)
            continue;
        (void)store->disk->truncate(store->disk, file, segment->cut);
        (void)store->disk->close(store->disk, file);
    }
}

static void remove_file(const struct store *store, enum file_kind kind, uint64_t number)
{
    char name[DISK_NAME_MAX];
    weir_file_name(name, kind, number);
    (void)store->disk->remove(store->disk, store->dir, name);
}

/* The segments, the last first. Those behind all that have frames were made ready, and never begun. */
static int sync_replayed_log(const struct store *store)
{
    const struct recovered *recovered = &store->recovered;
    bool again = recovered->claimed < recovered->sequence, begun = false;
    int error = 0;
    for (size_t i = recovered->segment_count; i-- > 0 && !error;) {
        const struct found_segment *segment = &recovered->segments[i];
        begun = begun || segment->cut > 0;
        if (begun)
            error = sync_file(store, segment, &again);
        else
            remove_file(store, FILE_SEGMENT, segment->number);
    }
    return error;
}

bool weir_recover_settle(struct store *store, struct weir_error *err)
{
    struct files files;
    int error = weir_files_read(&files, store->disk, store->dir);
    if (error)
        return weir_error_fault(err, error, "cannot read the directory");
    error = sync_replayed_log(store);
    for (size_t i = 0; i < files.halves.count; i++)
        remove_file(store, FILE_HALF, files.halves.entries[i].number);
    if (!error)
        error = store->disk->sync_dir(store->disk, store->dir);
    weir_files_free(&files);
    return !error || weir_error_fault(err, error, "cannot sync the log");
}
