/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "store/inspect.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/mark.h"
#include "store/recover.h"

#define REGIONS (sizeof((struct inspect *)0)->regions / sizeof(uint64_t))
#define OTHERS  1024 /* files that are not of the store; more are not told */

struct inspection {
    struct inspect *inspect;
    struct inspect_file *file;
    struct recovery recovery;
    int dir;
};

/* ---- records ---- */

/* The place of a region among those with the lowest numbers; REGIONS: it is not among them. */
static size_t region_place(struct inspect *inspect, uint32_t number)
{
    size_t at = 0, last = REGIONS - 1;
    while (at < inspect->region_count && inspect->region_numbers[at] < number)
        at++;
    if (at == REGIONS || (at < inspect->region_count && inspect->region_numbers[at] == number))
        return at;
    size_t behind = inspect->region_count < last ? inspect->region_count - at : last - at;
    memmove(inspect->region_numbers + at + 1, inspect->region_numbers + at, behind * sizeof(uint32_t));
    memmove(inspect->regions + at + 1, inspect->regions + at, behind * sizeof(uint64_t));
    inspect->region_numbers[at] = number;
    inspect->regions[at] = 0;
    inspect->region_count += inspect->region_count < REGIONS;
    return at;
}

static bool count_inspected_record(void *arg, uint32_t region, uint8_t kind, const unsigned char *body,
                                   size_t bytes)
{
    struct inspection *inspection = arg;
    (void)kind, (void)body, (void)bytes;
    inspection->file->records++;
    if (!inspection->file->needed)
        return true;
    size_t place = region_place(inspection->inspect, region);
    if (place < REGIONS)
        inspection->inspect->regions[place]++;
    return true;
}

static int count_frame(void *arg, const struct survey *survey, const struct scan *scan)
{
    (void)survey;
    if (scan->head.kind == FRAME_RECORDS)
        (void)weir_frame_records(scan->payload, scan->head.bytes, count_inspected_record, arg);
    return 0;
}

/* ---- what is said of a file ---- */

/* What a start does without it. */
static void say_instead(struct inspect_file *file, const struct inspection *inspection)
{
    size_t len = strlen(file->text);
    uint64_t image = inspection->recovery.recovered.from_image;
    if (image > 0)
        (void)snprintf(file->text + len, sizeof file->text - len,
                       "; image-%016" PRIx64 " and the log behind that are used", image);
    else if (inspection->inspect->can_start)
        (void)snprintf(file->text + len, sizeof file->text - len,
                       "; the log, which goes back to its beginning, is used");
}

static void say_image(const struct inspection *inspection, struct inspect_file *file,
                      const struct survey *survey)
{
    file->good = survey->whole;
    file->first = file->last = survey->started ? survey->start.sequence : 0;
    if (survey->whole)
        return;
    if (survey->bad == UINT64_MAX)
        (void)snprintf(file->text, sizeof file->text, "its end is missing: it cannot be used");
    else
        (void)snprintf(file->text, sizeof file->text, "damaged at byte %" PRIu64 ": it cannot be used",
                       survey->bad);
    say_instead(file, inspection);
}

static void say_segment(struct inspect_file *file, const struct survey *survey)
{
    bool torn = survey->bad != UINT64_MAX && survey->behind == 0 && survey->nonsense == 0;
    file->good = survey->bad == UINT64_MAX || (torn && survey->frames > 0);
    file->first = survey->frames > 0 ? survey->first : 0;
    file->last = survey->last;
    if (survey->frames == 0)
        (void)snprintf(file->text, sizeof file->text, "%s",
                       file->good ? "nothing is in it yet" : "no frame of this store is in it");
    else if (torn)
        (void)snprintf(file->text, sizeof file->text,
                       "%" PRIu64
                       " bytes at its end are no frame: its writer was stopped in the middle of one, or "
                       "its end is damaged",
                       survey->rubbish);
    else if (survey->bad != UINT64_MAX)
        (void)snprintf(file->text, sizeof file->text,
                       "damaged at byte %" PRIu64 "; %" PRIu64
                       " good frames behind that are used all the same",
                       survey->bad, survey->behind);
}

static void say_file(const struct inspection *inspection, struct inspect_file *file,
                     const struct survey *survey)
{
    char reason[ERROR_REASON_MAX];
    if (survey->kind == FILE_IMAGE)
        say_image(inspection, file, survey);
    else
        say_segment(file, survey);
    if (!survey->later && !survey->error)
        return;
    file->good = false;
    file->unread = survey->error != 0;
    (void)snprintf(file->text, sizeof file->text,
                   survey->later ? "written by a later version of weir" : "cannot be read: %s",
                   weir_error_reason(reason, survey->error));
}

static void inspect_one_file(struct inspection *inspection, enum file_kind kind, uint64_t number)
{
    struct inspect_file *file = &inspection->inspect->files[inspection->inspect->count++];
    struct recovery *recovery = &inspection->recovery;
    struct survey survey = {.kind = kind, .number = number};
    *file = (struct inspect_file){0};
    weir_file_name(file->name, kind, number);
    file->needed = kind == FILE_IMAGE ? number == recovery->recovered.from_image
                                      : number >= recovery->recovered.from_segment;
    inspection->file = file;
    weir_survey_file(&survey, recovery->disk, inspection->dir, kind == FILE_SEGMENT ? recovery->store : NULL,
                     count_frame, inspection);
    file->bytes = survey.bytes;
    file->frames = survey.frames;
    file->time_ns = survey.time_ns;
    file->wall_ns = survey.wall_ns;
    file->bad_offset = survey.bad == UINT64_MAX ? 0 : survey.bad;
    say_file(inspection, file, &survey);
}

/* ---- files that are neither ---- */

static const char *describe_other_file(const char *name, bool mark_damaged, bool *good)
{
    uint64_t number;
    *good = true;
    if (weir_file_parse(name, &number) == FILE_HALF)
        return "what is left of an image that was not finished: the next start removes it";
    if (strncmp(name, "damaged-", 8) == 0)
        return "put aside by weir doctor";
    if (strcmp(name, MARK_NAME) == 0) {
        *good = !mark_damaged;
        return mark_damaged ? "damaged: whether the last process ended well is not known" : "";
    }
    return weir_file_is_ours(name) ? "" : "not of a store: it is left alone";
}

static int add_other(void *arg, const char *name, uint64_t bytes)
{
    struct inspection *inspection = arg;
    struct inspect *inspect = inspection->inspect;
    uint64_t number;
    enum file_kind kind = weir_file_parse(name, &number);
    if (kind == FILE_IMAGE || kind == FILE_SEGMENT)
        return 0;
    const struct files *files = &inspection->recovery.files;
    if (inspect->count - files->images.count - files->segments.count >= OTHERS)
        return 0;
    struct inspect_file *file = &inspect->files[inspect->count++];
    *file = (struct inspect_file){.bytes = bytes};
    (void)snprintf(file->name, sizeof file->name, "%s", name);
    (void)snprintf(file->text, sizeof file->text, "%s",
                   describe_other_file(name, inspection->recovery.mark.damaged, &file->good));
    return 0;
}

static bool read_files(struct inspection *inspection, struct disk *disk, struct weir_error *err)
{
    const struct files *files = &inspection->recovery.files;
    struct inspect *inspect = inspection->inspect;
    inspect->files = calloc(files->images.count + files->segments.count + OTHERS, sizeof *inspect->files);
    if (!inspect->files) {
        weir_error_set(err, ENOMEM, "out of memory");
        return false;
    }
    for (size_t i = 0; i < files->images.count; i++)
        inspect_one_file(inspection, FILE_IMAGE, files->images.entries[i].number);
    for (size_t i = 0; i < files->segments.count; i++)
        inspect_one_file(inspection, FILE_SEGMENT, files->segments.entries[i].number);
    (void)disk->list(disk, inspection->dir, add_other, inspection);
    return true;
}

/* ---- all of it ---- */

static void find_locker(struct disk *disk, int dir, struct inspect *inspect)
{
    int64_t pid = 0;
    if (disk->watch_dir(disk, dir, &pid) == EAGAIN)
        inspect->in_use_by = pid > 0 ? pid : -1;
}

bool weir_inspect(struct disk *disk, const char *path, struct inspect *inspect, struct weir_error *err)
{
    struct inspection inspection = {.inspect = inspect};
    struct weir_error why = {0};
    *inspect = (struct inspect){0};
    disk = disk ? disk : &weir_disk;
    int error = disk->open_dir(disk, path, false, &inspection.dir);
    if (error)
        return weir_error_fault(err, error, "%.120s: cannot open the directory", path);
    enum files_owner owner;
    if (weir_files_owner(disk, inspection.dir, &owner) == 0 && owner != FILES_OURS) {
        inspect->is_none = true;
        disk->close_dir(disk, inspection.dir);
        return true;
    }
    find_locker(disk, inspection.dir, inspect);
    inspect->can_start =
        weir_recovery_find(&inspection.recovery, disk, inspection.dir, &inspect->found, &why);
    if (!inspect->can_start)
        (void)snprintf(inspect->found.text, sizeof inspect->found.text, "%s", why.text);
    bool good = read_files(&inspection, disk, err);
    inspect->catalogue = inspection.recovery.catalogue;
    inspect->catalogue_len = inspection.recovery.catalogue_len;
    inspection.recovery.catalogue = NULL;
    weir_recovery_free(&inspection.recovery);
    disk->close_dir(disk, inspection.dir);
    if (!good)
        weir_inspect_free(inspect);
    return good;
}

void weir_inspect_free(struct inspect *inspect)
{
    free(inspect->files);
    free(inspect->catalogue);
    *inspect = (struct inspect){0};
}
