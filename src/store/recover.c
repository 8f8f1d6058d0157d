/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sat.h"
#include "os/clock.h"
#include "store/files.h"
#include "store/internal.h"
#include "store/mark.h"
#include "store/recover.h"
#include "store/survey.h"

/* ---- sentences ---- */

__attribute__((format(printf, 2, 3))) static void tell(struct store_found *found, const char *format, ...)
{
    va_list list;
    size_t len = strlen(found->text);
    if (len + 2 >= sizeof found->text)
        return;
    if (len > 0)
        len += (size_t)snprintf(found->text + len, sizeof found->text - len, "; ");
    va_start(list, format);
    (void)vsnprintf(found->text + len, sizeof found->text - len, format, list);
    va_end(list);
}

static bool refuse_file(struct weir_error *err, const struct survey *survey)
{
    char name[DISK_NAME_MAX];
    weir_file_name(name, survey->kind, survey->number);
    if (survey->later)
        return weir_error_complain_as(err, ENOTSUP,
                                      "%s was written by a later version of weir: start that one", name);
    char text[200], reason[ERROR_REASON_MAX];
    (void)snprintf(text, sizeof text, "cannot read %s: %s; if that lasts run weir doctor", name,
                   weir_error_reason(reason, survey->error));
    weir_error_set(err, survey->error, text);
    return false;
}

/* ---- gaps ---- */

static void note_gap(struct recovery *recovery, uint64_t first, uint64_t last, uint64_t segment)
{
    ASSERT(first <= last);
#if WEIR_ASSERTIONS
    recovery->gapped += last - first + 1;
#endif
    recovery->gaps_seen = recovery->behind_gap = true;
    if (recovery->gap_count < RECOVERY_GAPS)
        recovery->gaps[recovery->gap_count++] = (struct gap){first, last, segment};
    else
        recovery->gaps[RECOVERY_GAPS - 1].last = last; /* and what is between: it is bad enough */
}

static void tell_gap(struct recovery *recovery, const struct gap *gap, uint64_t last)
{
    char name[DISK_NAME_MAX];
    weir_file_name(name, FILE_SEGMENT, gap->segment);
    uint64_t frames = last - gap->first + 1;
    if (recovery->missing == 0)
        tell(recovery->found,
             "%" PRIu64 " %s on the disk %s missing before or in %s: %" PRIu64 " to %" PRIu64, frames,
             frames == 1 ? "frame that was" : "frames that were", frames == 1 ? "is" : "are", name,
             gap->first, last);
    recovery->missing += frames;
}

/* Holds all gaps so far against all claims so far; those that nobody claims are forgotten. */
static void judge_gaps(struct recovery *recovery)
{
    for (size_t i = 0; i < recovery->gap_count; i++) {
        const struct gap *gap = &recovery->gaps[i];
        if (gap->first <= recovery->synced)
            tell_gap(recovery, gap, gap->last < recovery->synced ? gap->last : recovery->synced);
    }
    recovery->gap_count = 0;
}

/* ---- image ---- */

static int keep_catalogue(struct recovery *recovery, const struct survey *survey)
{
    unsigned char *catalogue = malloc(survey->head.bytes + 1);
    if (!catalogue)
        return ENOMEM;
    memcpy(catalogue, survey->payload, survey->head.bytes);
    free(recovery->catalogue);
    recovery->catalogue = catalogue;
    recovery->catalogue_len = survey->head.bytes;
    return 0;
}

static int image_frame(void *arg, const struct survey *survey)
{
    return survey->head.kind == FRAME_CATALOGUE ? keep_catalogue(arg, survey) : 0;
}

static void forget_catalogue(struct recovery *recovery)
{
    free(recovery->catalogue);
    recovery->catalogue = NULL;
    recovery->catalogue_len = 0;
}

/* Of the frame with the latest time: an image may end after the log's last frame. */
static void note_time(struct recovered *recovered, const struct survey *survey, int64_t time_ns,
                      int64_t wall_ns)
{
    if (recovered->has_time && time_ns < recovered->time_ns)
        return;
    recovered->has_time = true;
    recovered->time_ns = time_ns;
    recovered->wall_ns = wall_ns;
    if (survey->started) {
        recovered->offset_ns = survey->start.offset_ns;
        memcpy(recovered->boot, survey->start.boot, sizeof recovered->boot);
    }
}

static void use_image(struct recovery *recovery, const struct survey *survey)
{
    struct recovered *recovered = &recovery->recovered;
    memcpy(recovery->store, survey->start.store, sizeof recovery->store);
    recovery->known = true;
    recovery->next = survey->start.sequence;
#if WEIR_ASSERTIONS
    recovery->base = recovery->next;
#endif
    recovery->synced = survey->synced;
    recovery->flags |= survey->start.flags;
    recovered->from_image = survey->number;
    recovered->from_segment = survey->start.segment;
    recovered->image_bytes = survey->bytes;
    note_time(recovered, survey, survey->time_ns, survey->wall_ns);
    recovery->found->frames += survey->frames;
    recovery->found->bytes += survey->bytes;
}

/* The newest that is whole; that there is none is no error yet. */
static bool find_image(struct recovery *recovery, struct weir_error *err)
{
    for (size_t i = recovery->files.images.count; i-- > 0;) {
        struct survey survey = {.kind = FILE_IMAGE, .number = recovery->files.images.entries[i].number};
        weir_survey_file(&survey, &recovery->from, NULL, image_frame, recovery);
        if (survey.later || survey.error == ENOMEM)
            return refuse_file(err, &survey);
        if (survey.error && !recovery->unread.error)
            recovery->unread = survey;
        if (survey.whole) {
            use_image(recovery, &survey);
            return true;
        }
        forget_catalogue(recovery);
        recovery->found->images_damaged++;
        tell(recovery->found, "image-%016" PRIx64 " is damaged", survey.number);
    }
    return true;
}

/* ---- log ---- */

/* Whose directory it is, if no image tells. */
static bool find_store(struct recovery *recovery, struct weir_error *err)
{
    if (recovery->mark.found && !recovery->known) {
        memcpy(recovery->store, recovery->mark.store, sizeof recovery->store);
        recovery->known = true;
    }
    for (size_t i = 0; i < recovery->files.segments.count && !recovery->known; i++) {
        struct survey survey = {.kind = FILE_SEGMENT, .number = recovery->files.segments.entries[i].number};
        weir_survey_start(&survey, recovery->from.disk, recovery->from.dir);
        if (survey.later || survey.error)
            return refuse_file(err, &survey);
        if (survey.started) {
            memcpy(recovery->store, survey.start.store, sizeof recovery->store);
            recovery->known = true;
        }
    }
    if (recovery->mark.found && memcmp(recovery->mark.store, recovery->store, sizeof recovery->store) != 0) {
        recovery->mark = (struct mark){.damaged = true};
        tell(recovery->found, "mark is that of another store");
    }
    return true;
}

/* The first frame of a segment, after the gap before it was noted. */
static void begin_found_segment(struct recovery *recovery, const struct frame_start *start)
{
    recovery->flags |= start->flags;
    recovery->recovered.starts += (start->flags & FRAME_BEGINS) != 0;
    recovery->found->sync = start->sync >= STORE_ALWAYS && start->sync <= STORE_NEVER
                                ? (enum store_sync)start->sync
                                : STORE_NEVER;
    if (start->flags & (FRAME_GAPS | FRAME_HOLES))
        judge_gaps(recovery);
    if (start->flags & FRAME_BEGINS) {
        recovery->behind_gap = false;
        recovery->torn = 0;
    }
    ASSERT((start->flags & ~recovery->flags) == 0); /* what an earlier start knew is not forgotten */
    ASSERT(!(start->flags & FRAME_GAPS) || recovery->gap_count == 0);
    ASSERT(!(start->flags & FRAME_BEGINS) || !recovery->behind_gap);
}

static int log_frame(void *arg, const struct survey *survey)
{
    struct recovery *recovery = arg;
    const struct frame_head *head = &survey->head;
#if WEIR_ASSERTIONS
    recovery->counted++;
    if (head->kind == FRAME_CATALOGUE && head->sequence > recovery->last_catalogue)
        recovery->last_catalogue = head->sequence;
#endif
    if (head->sequence > recovery->next)
        note_gap(recovery, recovery->next, head->sequence - 1, survey->number);
    if (head->kind == FRAME_SEGMENT)
        begin_found_segment(recovery, &survey->start);
    if (head->kind == FRAME_RECORDS && recovery->behind_gap) {
        recovery->holes = true;
        recovery->torn = survey->number;
    }
    if (head->sequence >= recovery->next) {
        recovery->next = head->sequence + 1;
        note_time(&recovery->recovered, survey, head->time_ns, head->wall_ns);
    }
    if (recovery->first == 0 || head->sequence < recovery->first)
        recovery->first = head->sequence;
    if (head->synced > recovery->synced && head->synced < SURVEY_SEQUENCES)
        recovery->synced = head->synced;
    if (head->kind != FRAME_CATALOGUE || head->sequence < recovery->catalogue_sequence)
        return 0;
    recovery->catalogue_sequence = head->sequence;
    return keep_catalogue(recovery, survey);
}

static void note_segment(struct recovery *recovery, const struct survey *survey)
{
    struct recovered *recovered = &recovery->recovered;
    recovered->segments[recovered->segment_count++] =
        (struct found_segment){.number = survey->number,
                               .bytes = survey->bytes,
                               .frames = survey->frames,
                               .used = survey->used,
                               .cut = survey->used + survey->rubbish};
    recovered->log_bytes += survey->used;
}

static bool read_log_segments(struct recovery *recovery, struct weir_error *err)
{
    const struct file_list *list = &recovery->files.segments;
    recovery->recovered.segments = calloc(list->count + 1, sizeof *recovery->recovered.segments);
    if (!recovery->recovered.segments) {
        weir_error_set(err, ENOMEM, "out of memory");
        return false;
    }
    for (size_t i = 0; i < list->count; i++) {
        struct survey survey = {.kind = FILE_SEGMENT, .number = list->entries[i].number};
        ASSERT(i == 0 || list->entries[i - 1].number < survey.number);
        if (survey.number < recovery->recovered.from_segment)
            continue;
        weir_survey_file(&survey, &recovery->from, recovery->store, log_frame, recovery);
        if (survey.later || survey.error)
            return refuse_file(err, &survey);
        recovery->found->frames += survey.frames;
        recovery->found->bytes += survey.bytes;
        note_segment(recovery, &survey);
        recovery->segments += survey.frames > 0;
        recovery->rubbish = recovery->rubbish || survey.bad != UINT64_MAX;
        if (survey.bad != UINT64_MAX)
            recovery->torn = survey.number;
        if (survey.frames > 0)
            recovery->shorter = survey.used == survey.bytes ? survey.number : 0;
    }
    return true;
}

/* ---- the verdict ---- */

/* Without an image the log has to go back to its beginning. */
static bool is_complete(struct recovery *recovery, struct weir_error *err)
{
    const struct files *files = &recovery->files;
    if (recovery->recovered.from_image > 0)
        return true;
    if (recovery->first == 0) {
        if (files->images.count == 0 && recovery->mark.synced == 0)
            return true;
        recovery->incomplete = true;
        return weir_error_complain_as(err, EIO, "nothing of what was kept here can be read");
    }
    if (recovery->first == 1 || files->segments.entries[0].number == 1)
        return true;
    recovery->incomplete = true;
    return weir_error_complain_as(err, EIO,
                                  "no image can be read, and the log does not go back to its beginning");
}

/* Of a log that was not closed, without a loss that is known. */
static bool is_log_unsure(struct recovery *recovery)
{
    char name[DISK_NAME_MAX];
    if (recovery->segments == 0 || recovery->found->sync != STORE_ALWAYS || !recovery->mark.found)
        return true; /* without a mark nobody knows how far the log went */
    uint64_t number = recovery->torn ? recovery->torn : recovery->shorter;
    weir_file_name(name, FILE_SEGMENT, number);
    if (number > 0)
        tell(recovery->found, "%s %s", name,
             recovery->torn ? "was being written, or is damaged: its last changes may be missing"
                            : "is short: its last changes may be missing");
    return number > 0;
}

static void conclude_recovery(struct recovery *recovery)
{
    struct store_found *found = recovery->found;
    struct recovered *recovered = &recovery->recovered;
    const struct mark *mark = &recovery->mark;
    found->fresh = recovered->fresh = recovery->first == 0 && recovered->from_image == 0;
    found->sequence = recovered->sequence = recovery->next - 1;
    recovered->marked = mark->synced;
    recovered->claimed = recovery->synced;
    recovered->segment = file_list_last(&recovery->files.segments);
    recovered->image = file_list_last(&recovery->files.images);
    uint64_t half = file_list_last(&recovery->files.halves);
    recovered->image = half > recovered->image ? half : recovered->image;

    found->holes = recovery->holes || recovery->flags & FRAME_HOLES;
    found->lost = recovery->missing > 0 || recovery->flags & FRAME_LOST;
    found->clean = mark->found && mark->clean && mark->synced == found->sequence && !found->lost &&
                   !(recovery->flags & FRAME_UNSURE);
    found->unsure = found->lost || recovery->flags & FRAME_UNSURE;
    if (found->fresh)
        found->unsure = found->unsure || recovery->rubbish;
    else if (!found->clean)
        found->unsure = found->unsure || is_log_unsure(recovery);
    recovered->flags = FRAME_BEGINS | (recovery->gaps_seen ? (uint32_t)FRAME_GAPS : 0) |
                       (recovery->holes ? (uint32_t)FRAME_HOLES : 0) |
                       (found->lost ? (uint32_t)FRAME_LOST : 0) |
                       (found->unsure ? (uint32_t)FRAME_UNSURE : 0);
    ASSERT(!found->clean || (mark->clean && found->sequence == mark->synced && found->unsure == false));
    ASSERT(found->unsure || found->fresh || found->clean || found->sync == STORE_ALWAYS);
    ASSERT(!found->lost || found->unsure);
    ASSERT(recovered->segment < FILES_NUMBERS - FILES_SPARE &&
           recovered->image < FILES_NUMBERS - FILES_SPARE);
    if (recovery->missing == 0 && recovery->flags & FRAME_LOST)
        tell(found, "an earlier start has found a loss, and no image was written since");
}

/* There must be room for more, or what is written next is found by nobody. No store comes so far. */
static bool has_numbers(const struct recovery *recovery, struct weir_error *err)
{
    const struct file_list *lists[] = {&recovery->files.segments, &recovery->files.images,
                                       &recovery->files.halves};
    static const enum file_kind kinds[] = {FILE_SEGMENT, FILE_IMAGE, FILE_HALF};
    for (int i = 0; i < 3; i++) {
        char name[DISK_NAME_MAX];
        weir_file_name(name, kinds[i], file_list_last(lists[i]));
        if (file_list_last(lists[i]) >= FILES_NUMBERS - FILES_SPARE)
            return weir_error_complain_as(err, EIO, "%s: no store counts that far; move it to another place",
                                          name);
    }
    return true;
}

static bool has_sequences(const struct recovery *recovery, struct weir_error *err)
{
    uint64_t last = recovery->next > recovery->mark.synced ? recovery->next : recovery->mark.synced;
    return last < SURVEY_SEQUENCES - FILES_SPARE ||
           weir_error_complain_as(err, EIO,
                                  "mark or log count further than a store does: it is none of weir's");
}

static bool find_store_state(struct recovery *recovery, struct weir_error *err)
{
    int error = weir_files_read(&recovery->files, recovery->from.disk, recovery->from.dir);
    if (error)
        return weir_error_fault(err, error, "cannot read the directory");
    if (weir_mark_read(recovery->from.disk, recovery->from.dir, &recovery->mark) != 0)
        recovery->mark = (struct mark){.damaged = true};
    if (recovery->mark.damaged)
        tell(recovery->found, "mark is damaged");
    if (!has_numbers(recovery, err) || !find_image(recovery, err) || !find_store(recovery, err) ||
        !read_log_segments(recovery, err) || !is_complete(recovery, err) || !has_sequences(recovery, err))
        return false;
#if WEIR_ASSERTIONS
    ASSERT(recovery->next - recovery->base <= recovery->counted + recovery->gapped); /* none is overlooked */
    ASSERT(recovery->catalogue_sequence == recovery->last_catalogue);
    recovery->recovered.frames = recovery->found->frames;
#endif
    if (recovery->mark.synced > recovery->synced && recovery->mark.synced < SURVEY_SEQUENCES)
        recovery->synced = recovery->mark.synced;
    if (recovery->synced >= recovery->next)
        note_gap(recovery, recovery->next, recovery->synced, file_list_last(&recovery->files.segments));
    judge_gaps(recovery);
    /* Another time it may be read: then nothing has to be lost. And then it would count, with numbers above
     * those that are drawn from now on: so nothing may be written before weir doctor has put it aside. */
    if (recovery->unread.error)
        return refuse_file(err, &recovery->unread);
    conclude_recovery(recovery);
    return true;
}

bool weir_recovery_find(struct recovery *recovery, struct disk *disk, int dir, struct store_found *found,
                        struct weir_error *err)
{
    *recovery =
        (struct recovery){.from = {.disk = disk, .dir = dir, .room = SURVEY_KEPT}, .found = found, .next = 1};
    *found = (struct store_found){0};
#if WEIR_ASSERTIONS
    recovery->base = 1;
#endif
    return find_store_state(recovery, err);
}

void weir_recovery_free(struct recovery *recovery)
{
    weir_files_free(&recovery->files);
    weir_survey_forget(&recovery->from);
    free(recovery->recovered.segments);
    recovery->recovered.segments = NULL;
    forget_catalogue(recovery);
}

bool weir_recover_find(struct store *store, struct store_found *found, struct weir_error *err)
{
    struct recovery recovery;
    bool good = weir_recovery_find(&recovery, store->disk, store->dir, found, err);
    if (good) {
        store->recovered = recovery.recovered;
        store->from = recovery.from;
        recovery.from.kept = NULL;
        recovery.recovered.segments = NULL;
        if (recovery.known && !found->fresh)
            memcpy(store->id, recovery.store, sizeof store->id);
        store->found_catalogue = recovery.catalogue;
        store->found_catalogue_len = recovery.catalogue_len;
        recovery.catalogue = NULL;
        store->image.number = recovery.recovered.from_image;
        store->image.found = recovery.recovered.image;
        store->image.bytes = recovery.recovered.image_bytes;
        store->image.log_before = recovery.recovered.log_bytes;
        store->image.since_ns = weir_now();
    } else if (err) {
        char text[sizeof err->text];
        (void)snprintf(text, sizeof text, "%.100s: %.120s%s", store->path, err->text,
                       recovery.incomplete ? "; run weir doctor on it" : "");
        weir_error_set(err, err->code, text);
    }
    weir_recovery_free(&recovery);
    return good;
}

/*
 * Giving what was found to the regions: image, then log, each record once, as it lies on the disk.
 */

struct replay {
    struct store_found *found;
    struct stored_region **regions; /* by number */
    size_t count;
    struct stored_region *last; /* that a record was of: the next often is, too */
    bool failed;                /* there is no room for a record */
    struct store *store;
    int64_t bytes, told_ns; /* of whole files; when that was said */
#if WEIR_ASSERTIONS
    uint64_t frames;
#endif
};

#define TELL_NS (2 * WEIR_SEC)

/* Somebody waits for it. */
static void report_progress(struct replay *replay, uint64_t offset)
{
    const struct store_options *options = &replay->store->options;
    int64_t now_ns = weir_now();
    if (sat_sub(now_ns, replay->told_ns) < TELL_NS || !options->event)
        return;
    replay->told_ns = now_ns;
    options->event(options->arg, &(struct store_event){.kind = STORE_EVENT_REPLAY,
                                                       .bytes = replay->bytes + (int64_t)offset,
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

static int apply_frame(void *arg, const struct survey *survey)
{
    struct replay *replay = arg;
    report_progress(replay, survey->offset);
#if WEIR_ASSERTIONS
    replay->frames++;
#endif
    if (survey->head.kind != FRAME_RECORDS)
        return 0;
    if (!weir_frame_records(survey->payload, survey->head.bytes, apply_record, replay))
        replay->found->unknown += !replay->failed;
    return replay->failed ? ENOMEM : 0;
}

/* `segment` NULL: it is an image. */
static bool apply_file(struct replay *replay, struct store *store, enum file_kind kind, uint64_t number,
                       const struct found_segment *segment, struct weir_error *err)
{
    struct survey survey = {.kind = kind, .number = number, .limit = segment ? segment->used : 0};
    char name[DISK_NAME_MAX];
    weir_survey_file(&survey, &store->from, store->id, apply_frame, replay);
    if (!survey.error && (segment ? survey.frames != segment->frames : !survey.whole))
        survey.error = EIO; /* it was another one a moment ago */
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

static bool apply_all(struct replay *replay, struct store *store, struct weir_error *err)
{
    const struct recovered *recovered = &store->recovered;
    if (recovered->from_image > 0 && !apply_file(replay, store, FILE_IMAGE, recovered->from_image, NULL, err))
        return false;
    for (size_t i = 0; i < recovered->segment_count; i++) {
        const struct found_segment *segment = &recovered->segments[i];
        if (segment->frames > 0 && !apply_file(replay, store, FILE_SEGMENT, segment->number, segment, err))
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
#if WEIR_ASSERTIONS
    ASSERT(!good || replay.frames == store->recovered.frames); /* all that was found is applied */
#endif
    free(replay.regions);
    return good;
}

/* ---- before something is written ---- */

/* Writing the segments to the disk that were read, and are not known to be there. */
struct settling {
    struct store *store;
    int file;
    bool older; /* it has frames that are known to be there */
};

/*
 * Frames of which nobody claims that they were synced may be in the memory of the kernel alone; and if a sync
 * has failed they stay there as if they had been written, so that no later one writes them. Hence they are
 * written once more, as they are.
 */
static int write_again(void *arg, const struct survey *survey)
{
    struct settling *settling = arg;
    struct store *store = settling->store;
    if (survey->head.sequence <= store->recovered.claimed) {
        settling->older = true;
        return 0;
    }
    return store->disk->write(store->disk, settling->file, survey->payload - sizeof survey->head,
                              frame_size(survey->head.bytes), survey->offset);
}

/* `again`: frames of it may have to be written again; cleared when all before it are known to be there. */
static int sync_file(struct store *store, const struct found_segment *segment, bool *again)
{
    struct survey survey = {.kind = FILE_SEGMENT, .number = segment->number};
    struct settling settling = {.store = store};
    char name[DISK_NAME_MAX];
    weir_file_name(name, FILE_SEGMENT, segment->number);
    int error = store->disk->open(store->disk, store->dir, name, DISK_WRITE, &settling.file);
    if (error)
        return error;
    if (*again)
        weir_survey_file(&survey, &store->from, store->id, write_again, &settling);
    error = survey.error;
    if (!error)
        error = store->disk->sync(store->disk, settling.file);
    (void)store->disk->close(store->disk, settling.file);
    *again = *again && !settling.older;
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
static int sync_replayed_log(struct store *store)
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
