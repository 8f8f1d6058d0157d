/* SPDX-License-Identifier: MIT */
#include "store/survey.h"

#include <string.h>

#include "weir.h"

#define NONE UINT64_MAX

static enum frame_kind first_kind(const struct survey *survey)
{
    return survey->kind == FILE_SEGMENT ? FRAME_SEGMENT : FRAME_IMAGE;
}

static int survey_open(struct survey *survey, struct scan *scan, struct disk *disk, int dir,
                       const unsigned char *store)
{
    char name[DISK_NAME_MAX];
    weir_file_name(name, survey->kind, survey->number);
    *survey = (struct survey){
        .kind = survey->kind, .number = survey->number, .limit = survey->limit, .first = NONE, .bad = NONE};
    uint64_t salt = store ? weir_frame_salt(store, first_kind(survey), survey->number) : 0;
    survey->error = weir_scan_open(scan, disk, dir, name, salt);
    if (!survey->error && survey->limit > 0 && survey->limit < scan->size)
        scan->size = survey->limit;
    survey->bytes = survey->error ? 0 : scan->size;
    return survey->error;
}

/* The first frame says which file this is, so that one with another's name is noticed. */
static bool survey_read_start(struct survey *survey, const struct scan *scan)
{
    struct frame_start start;
    if (scan->frame != 0 || scan->head.kind != first_kind(survey) || scan->head.bytes != sizeof start)
        return false;
    memcpy(&start, scan->payload, sizeof start);
    if (start.number != survey->number || start.sequence == 0 || start.sequence >= SURVEY_SEQUENCES ||
        start.segment >= FILES_NUMBERS ||
        scan->salt != weir_frame_salt(start.store, first_kind(survey), start.number))
        return false;
    if (survey->kind == FILE_SEGMENT && scan->head.sequence != start.sequence)
        return false;
    survey->start = start;
    survey->started = true;
    return true;
}

/* In the place where it is, of this kind of file. */
static bool makes_sense(struct survey *survey, const struct scan *scan)
{
    const struct frame_head *head = &scan->head;
    bool image = survey->kind != FILE_SEGMENT;
    if (head->sequence >= SURVEY_SEQUENCES || head->time_ns < 0 || head->time_ns > WEIR_TIME_MAX)
        return false;
    if (image && head->sequence != survey->frames)
        return false;
    switch (head->kind) {
    case FRAME_SEGMENT:
        return !image && head->sequence > 0 && survey_read_start(survey, scan);
    case FRAME_IMAGE:
        return image && survey_read_start(survey, scan);
    case FRAME_CATALOGUE:
    case FRAME_RECORDS:
        return image ? survey->started : head->sequence > 0;
    case FRAME_END:
        return image && survey->started && head->bytes == sizeof(struct frame_end);
    default:
        return false;
    }
}

static void survey_count(struct survey *survey, const struct scan *scan)
{
    const struct frame_head *head = &scan->head;
    survey->frames++;
    if (survey->bad != NONE)
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

static bool is_end(struct survey *survey, const struct scan *scan)
{
    struct frame_end end;
    if (survey->kind == FILE_SEGMENT || scan->head.kind != FRAME_END)
        return false;
    memcpy(&end, scan->payload, sizeof end);
    return end.frames == survey->frames - 1 && end.bytes == scan->frame && scan->good == scan->size;
}

static int survey_read_frame(struct survey *survey, const struct scan *scan, survey_frame *each, void *arg,
                             bool *end)
{
    if (survey->bad == NONE && scan->bad != NONE)
        survey->bad = scan->bad;
    if (!makes_sense(survey, scan)) {
        survey->nonsense++;
        if (survey->bad == NONE)
            survey->bad = scan->frame;
        return 0;
    }
    survey_count(survey, scan);
    *end = is_end(survey, scan);
    return each ? each(arg, survey, scan) : 0;
}

void weir_survey_file(struct survey *survey, struct disk *disk, int dir, const unsigned char *store,
                      survey_frame *each, void *arg)
{
    struct scan scan;
    enum scan_step step;
    bool end = false;
    if (survey_open(survey, &scan, disk, dir, store))
        return;
    while ((step = weir_scan_next(&scan)) == SCAN_FRAME && !survey->error)
        survey->error = survey_read_frame(survey, &scan, each, arg, &end);
    if (step == SCAN_FAILED && !survey->error)
        survey->error = scan.error;
    survey->later = step == SCAN_LATER;
    if (survey->bad == NONE && scan.bad != NONE)
        survey->bad = scan.bad;
    survey->rubbish = scan.rubbish;
    survey->used = scan.good;
    survey->whole = !survey->error && !survey->later && survey->bad == NONE && survey->started &&
                    (survey->kind == FILE_SEGMENT || end);
    weir_scan_close(&scan);
}

void weir_survey_start(struct survey *survey, struct disk *disk, int dir)
{
    struct scan scan;
    if (survey_open(survey, &scan, disk, dir, NULL))
        return;
    enum scan_step step = weir_scan_next(&scan);
    if (step == SCAN_FRAME)
        (void)makes_sense(survey, &scan);
    survey->error = step == SCAN_FAILED ? scan.error : 0;
    survey->later = step == SCAN_LATER;
    weir_scan_close(&scan);
}
