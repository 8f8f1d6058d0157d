/* SPDX-License-Identifier: MIT */
#include "store/survey.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "weir.h"

#define SCAN_STEP        8
#define FRAME_HEAD_BYTES sizeof(struct frame_head)
#define SCAN_PIECE       (UINT64_C(4) << 20)
#define SCAN_EFFORT      (UINT64_C(64) << 20) /* and four times the file */

struct survey_kept {
    struct survey_kept *next;
    enum file_kind kind;
    uint64_t number, size;
    _Alignas(8) unsigned char bytes[];
};

struct scan {
    struct survey *survey;
    struct disk *disk;
    int file;             /* -1: all of it is in `bytes` */
    uint64_t size;        /* of the file when it was opened */
    uint64_t salt;        /* of all its frames; 0: that of the first, which then has to be good */
    unsigned char *bytes; /* with a file: its own */
    size_t room, at, end; /* what of `bytes` is to be looked at */
    uint64_t offset;      /* in the file, of bytes[0] */
    uint64_t effort;      /* bytes that may be checked in vain */
    uint64_t nonzero;     /* end of the last nonzero byte that was skipped, in the file */
};

enum scan_step {
    SCAN_FRAME, /* survey->head, payload until the next step */
    SCAN_END,
    SCAN_FAILED, /* survey->error */
    SCAN_LATER   /* a good frame of a later version */
};

/* ---- opening ---- */

static struct survey_kept *find_kept(const struct survey_dir *from, const struct survey *survey)
{
    struct survey_kept *kept = from->kept;
    while (kept && (kept->kind != survey->kind || kept->number != survey->number))
        kept = kept->next;
    return kept;
}

/* NULL: there is no room for it, or it cannot be read; then it is read in pieces, as far as that goes. */
static struct survey_kept *keep_file(struct survey_dir *from, const struct survey *survey, int file,
                                     uint64_t size)
{
    struct survey_kept *kept = size < from->room ? malloc(sizeof *kept + size) : NULL;
    uint64_t done = 0;
    if (!kept)
        return NULL;
    if (size > 0 && from->disk->read(from->disk, file, kept->bytes, size, 0, &done) != 0) {
        free(kept);
        return NULL;
    }
    *kept = (struct survey_kept){from->kept, survey->kind, survey->number, done};
    from->room -= size;
    from->kept = kept;
    return kept;
}

void weir_survey_forget(struct survey_dir *from)
{
    while (from->kept) {
        struct survey_kept *gone = from->kept;
        from->kept = gone->next;
        free(gone);
    }
    from->room = 0;
}

static void scan_kept(struct scan *scan, struct survey_kept *kept)
{
    scan->size = scan->end = kept->size;
    scan->bytes = kept->bytes;
}

static int open_file(struct scan *scan, struct survey_dir *from)
{
    struct survey *survey = scan->survey;
    char name[DISK_NAME_MAX];
    int file;
    weir_file_name(name, survey->kind, survey->number);
    int error = from->disk->open(from->disk, from->dir, name, DISK_READ, &file);
    if (error)
        return error;
    error = from->disk->size(from->disk, file, &scan->size);
    struct survey_kept *kept = error ? NULL : keep_file(from, survey, file, scan->size);
    scan->room = scan->size < SCAN_PIECE ? (size_t)scan->size + SCAN_STEP : SCAN_PIECE;
    if (kept)
        scan_kept(scan, kept);
    else if (!error && !(scan->bytes = malloc(scan->room)))
        error = ENOMEM;
    if (kept || error)
        (void)from->disk->close(from->disk, file);
    else
        scan->file = file;
    return error;
}

static enum frame_kind first_kind(const struct survey *survey)
{
    return survey->kind == FILE_SEGMENT ? FRAME_SEGMENT : FRAME_IMAGE;
}

static int scan_open(struct scan *scan, struct survey *survey, struct survey_dir *from,
                     const unsigned char *store)
{
    *survey = (struct survey){.kind = survey->kind,
                              .number = survey->number,
                              .limit = survey->limit,
                              .first = SURVEY_NONE,
                              .bad = SURVEY_NONE};
    *scan = (struct scan){.survey = survey,
                          .disk = from->disk,
                          .file = -1,
                          .salt = store ? weir_frame_salt(store, first_kind(survey), survey->number) : 0};
    struct survey_kept *kept = find_kept(from, survey);
    if (kept)
        scan_kept(scan, kept);
    else if ((survey->error = open_file(scan, from)) != 0)
        return survey->error;
    /* Of the whole file, so that what was found without a limit is found with one. */
    scan->effort = SCAN_EFFORT + (scan->size < UINT64_MAX / 8 ? 4 * scan->size : 0);
    if (survey->limit > 0 && survey->limit < scan->size) {
        scan->size = survey->limit;
        scan->end = scan->end < scan->size ? scan->end : (size_t)scan->size;
    }
    survey->bytes = scan->size;
    return 0;
}

static void scan_close(const struct scan *scan)
{
    if (scan->file < 0)
        return;
    (void)scan->disk->close(scan->disk, scan->file);
    free(scan->bytes);
}

/* ---- bytes ---- */

/* Where the next byte is in the file. */
static uint64_t scan_offset(const struct scan *scan)
{
    return scan->offset + scan->at;
}

/* What was looked at goes, the rest to the front: frames stay at multiples of 8. */
static int scan_make_room(struct scan *scan, size_t need)
{
    size_t rest = scan->end - scan->at;
    if (need > scan->room) {
        unsigned char *bytes = malloc(need);
        if (!bytes)
            return ENOMEM;
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
    return 0;
}

/* At least `need` bytes are here, or all that the file has. */
static bool scan_fill(struct scan *scan, size_t need)
{
    if (scan->end - scan->at >= need || scan->offset + scan->end >= scan->size)
        return true;
    int error = scan_make_room(scan, need);
    uint64_t more = scan->size - (scan->offset + scan->end), done = 0;
    if (more > scan->room - scan->end)
        more = scan->room - scan->end;
    if (!error)
        error = scan->disk->read(scan->disk, scan->file, scan->bytes + scan->end, more,
                                 scan->offset + scan->end, &done);
    scan->end += done;
    if (!error && done < more)
        scan->size = scan->offset + scan->end; /* it has become shorter */
    if (error)
        scan->survey->error = error;
    return !error;
}

/* ---- frames ---- */

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
    if (scan->end - scan->at < all || !weir_frame_is_good(scan->bytes + scan->at, all, scan->salt) ||
        head->version < FRAME_VERSION)
        return SCAN_END;
    return head->version > FRAME_VERSION ? SCAN_LATER : SCAN_FRAME;
}

static void found_bad(struct survey *survey, uint64_t at)
{
    if (survey->bad == SURVEY_NONE)
        survey->bad = at;
}

static void scan_accept(struct scan *scan, const struct frame_head *head)
{
    struct survey *survey = scan->survey;
    survey->head = *head;
    survey->payload = scan->bytes + scan->at + FRAME_HEAD_BYTES;
    survey->offset = scan_offset(scan);
    scan->salt = head->salt;
    if (survey->offset > survey->used)
        found_bad(survey, survey->used);
    scan->at += frame_size(head->bytes);
    survey->used = scan_offset(scan);
}

static enum scan_step scan_finish(const struct scan *scan)
{
    struct survey *survey = scan->survey;
    survey->rubbish = scan->nonzero > survey->used ? scan->nonzero - survey->used : 0;
    if (survey->rubbish > 0)
        found_bad(survey, survey->used);
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

static enum scan_step scan_next(struct scan *scan)
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

/* ---- what they say ---- */

/* The first frame says which file this is, so that one with another's name is noticed. */
static bool survey_read_start(struct survey *survey)
{
    struct frame_start start;
    if (survey->offset != 0 || survey->head.kind != first_kind(survey) || survey->head.bytes != sizeof start)
        return false;
    memcpy(&start, survey->payload, sizeof start);
    if (start.number != survey->number || start.sequence == 0 || start.sequence >= SURVEY_SEQUENCES ||
        start.segment >= FILES_NUMBERS ||
        survey->head.salt != weir_frame_salt(start.store, first_kind(survey), start.number))
        return false;
    if (survey->kind == FILE_SEGMENT && survey->head.sequence != start.sequence)
        return false;
    survey->start = start;
    survey->started = true;
    return true;
}

/* In the place where it is, of this kind of file. */
static bool makes_sense(struct survey *survey)
{
    const struct frame_head *head = &survey->head;
    bool image = survey->kind != FILE_SEGMENT;
    if (head->sequence >= SURVEY_SEQUENCES || head->time_ns < 0 || head->time_ns > WEIR_TIME_MAX)
        return false;
    if (image && head->sequence != survey->frames)
        return false;
    switch (head->kind) {
    case FRAME_SEGMENT:
        return !image && head->sequence > 0 && survey_read_start(survey);
    case FRAME_IMAGE:
        return image && survey_read_start(survey);
    case FRAME_CATALOGUE:
    case FRAME_RECORDS:
        return image ? survey->started : head->sequence > 0;
    case FRAME_END:
        return image && survey->started && head->bytes == sizeof(struct frame_end);
    default:
        return false;
    }
}

static void survey_count(struct survey *survey)
{
    const struct frame_head *head = &survey->head;
    survey->frames++;
    if (survey->bad != SURVEY_NONE)
        survey->behind++;
    if (head->sequence < survey->first)
        survey->first = head->sequence;
    if (head->synced > survey->synced && head->synced < SURVEY_SEQUENCES)
        survey->synced = head->synced;
    if (survey->frames == 1 || head->sequence >= survey->last) {
        survey->last = head->sequence;
        survey->time_ns = head->time_ns;
        survey->wall_ns = head->wall_ns;
    }
}

static bool is_end(const struct survey *survey)
{
    struct frame_end end;
    if (survey->kind == FILE_SEGMENT || survey->head.kind != FRAME_END)
        return false;
    memcpy(&end, survey->payload, sizeof end);
    return end.frames == survey->frames - 1 && end.bytes == survey->offset && survey->used == survey->bytes;
}

void weir_survey_file(struct survey *survey, struct survey_dir *from, const unsigned char *store,
                      survey_frame *each, void *arg)
{
    struct scan scan;
    enum scan_step step = SCAN_END;
    bool end = false;
    if (scan_open(&scan, survey, from, store))
        return;
    while (!survey->error && (step = scan_next(&scan)) == SCAN_FRAME) {
        if (!makes_sense(survey)) {
            survey->nonsense++;
            found_bad(survey, survey->offset);
            continue;
        }
        survey_count(survey);
        end = is_end(survey);
        survey->error = each ? each(arg, survey) : 0;
    }
    survey->later = step == SCAN_LATER;
    survey->whole = !survey->error && !survey->later && survey->bad == SURVEY_NONE && survey->started &&
                    (survey->kind == FILE_SEGMENT || end);
    ASSERT(!survey->whole || survey->kind == FILE_SEGMENT || survey->head.kind == FRAME_END);
    scan_close(&scan);
}

void weir_survey_start(struct survey *survey, struct disk *disk, int dir)
{
    struct survey_dir from = {.disk = disk, .dir = dir};
    struct scan scan;
    if (scan_open(&scan, survey, &from, NULL))
        return;
    enum scan_step step = scan_next(&scan);
    if (step == SCAN_FRAME)
        (void)makes_sense(survey);
    survey->later = step == SCAN_LATER;
    scan_close(&scan);
}
