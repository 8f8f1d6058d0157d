/* SPDX-License-Identifier: MIT */

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "os/clock.h"
#include "store/inspect.h"
#include "store/log.h"
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

static int count_frame(void *arg, const struct survey *survey)
{
    if (survey->head.kind == FRAME_RECORDS)
        (void)weir_frame_records(survey->payload, survey->head.bytes, count_inspected_record, arg);
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
    weir_survey_file(&survey, &recovery->from, kind == FILE_SEGMENT ? recovery->store : NULL, count_frame,
                     inspection);
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

/*
 * Making a damaged directory one that can be started from. Nothing is deleted: what is damaged is put aside
 * under another name, and good frames of it are copied. A repair that is broken off can be repeated.
 */

#define COPY "repair.tmp"

struct repair {
    struct disk *disk;
    int dir;
    void (*tell)(void *arg, const char *text);
    void *arg;
    struct weir_error *err;
    struct recovery recovery;
    struct store_found found;
    bool could_start; /* before anything was done */
    bool has_image;   /* a whole one was seen */
    int to;           /* file of COPY */
    uint64_t at;      /* its bytes so far */
};

__attribute__((format(printf, 2, 3))) static void say(struct repair *repair, const char *format, ...)
{
    char text[256];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (repair->tell)
        repair->tell(repair->arg, text);
}

static bool repair_complain(struct repair *repair, const char *what, int error)
{
    return weir_error_fault(repair->err, error, "%.120s", what);
}

/* A name that nothing has yet: damaged-NAME, damaged-NAME.2 ... */
static void aside_name(char to[DISK_NAME_MAX], const char *name, int attempt)
{
    if (attempt <= 1)
        (void)snprintf(to, DISK_NAME_MAX, "damaged-%s", name);
    else
        (void)snprintf(to, DISK_NAME_MAX, "damaged-%s.%d", name, attempt);
}

/* Under another name as well. Where there are no second names the caller's rename replaces the first: then it
 * has to be renamed before. */
static int name_aside(struct repair *repair, const char *name, char to[DISK_NAME_MAX])
{
    int error = EEXIST;
    for (int attempt = 1; error == EEXIST && attempt < 1000; attempt++) {
        aside_name(to, name, attempt);
        error = repair->disk->link(repair->disk, repair->dir, name, repair->dir, to);
    }
    if (error && error != EEXIST && error != EIO && error != ENOENT)
        error = repair->disk->rename(repair->disk, repair->dir, name, to);
    return error;
}

static bool put_aside(struct repair *repair, const char *name, const char *why)
{
    char to[DISK_NAME_MAX];
    int error = name_aside(repair, name, to);
    if (!error) {
        error = repair->disk->remove(repair->disk, repair->dir, name);
        error = error == ENOENT ? 0 : error;
    }
    if (error)
        return repair_complain(repair, name, error);
    say(repair, "%s %s: it is %s now", name, why, to);
    return true;
}

/* ---- files of frames ---- */

static int append_to_copy(struct repair *repair, const void *bytes, size_t len)
{
    int error = repair->disk->write(repair->disk, repair->to, bytes, len, repair->at);
    repair->at += len;
    return error;
}

static int copy_frame(void *arg, const struct survey *survey)
{
    return append_to_copy(arg, survey->payload - sizeof survey->head, frame_size(survey->head.bytes));
}

static int open_copy(struct repair *repair)
{
    (void)repair->disk->remove(repair->disk, repair->dir, COPY);
    repair->at = 0;
    return repair->disk->open(repair->disk, repair->dir, COPY, DISK_CREATE, &repair->to);
}

/* It gets its name when all of it is on the disk. */
static int close_copy(struct repair *repair, int error, const char *name)
{
    struct disk *disk = repair->disk;
    if (!error)
        error = disk->sync(disk, repair->to);
    (void)disk->close(disk, repair->to);
    if (!error)
        error = disk->rename(disk, repair->dir, COPY, name);
    return error ? error : disk->sync_dir(disk, repair->dir);
}

static bool copy_segment(struct repair *repair, const struct survey *bad, const char *name)
{
    struct survey survey = {.kind = FILE_SEGMENT, .number = bad->number};
    char aside[DISK_NAME_MAX];
    int error = open_copy(repair);
    if (error)
        return repair_complain(repair, COPY, error);
    weir_survey_file(&survey, &repair->recovery.from, repair->recovery.store, copy_frame, repair);
    /* What a bad disk does not give is given up; what it does not take is not. */
    error = survey.error == bad->error ? 0 : survey.error;
    if (!error)
        error = name_aside(repair, name, aside);
    error = close_copy(repair, error, name);
    if (error)
        return repair_complain(repair, name, error);
    say(repair,
        "%s was damaged at byte %" PRIu64 ": its %" PRIu64 " good frames are in a new file of that name, and "
        "the old one is %s",
        name, bad->bad == UINT64_MAX ? bad->used : bad->bad, survey.frames, aside);
    return true;
}

/* It says something about whoever reads, and nothing about the file. */
static bool is_reader_error(int error)
{
    return error == ENOMEM || error == EACCES || error == EPERM || error == EMFILE || error == ENFILE;
}

static bool repair_file(struct repair *repair, enum file_kind kind, uint64_t number)
{
    struct survey survey = {.kind = kind, .number = number};
    char name[DISK_NAME_MAX];
    weir_file_name(name, kind, number);
    const unsigned char *store = kind == FILE_SEGMENT ? repair->recovery.store : NULL;
    weir_survey_file(&survey, &repair->recovery.from, store, NULL, NULL);
    if (is_reader_error(survey.error))
        return repair_complain(repair, name, survey.error);
    if (survey.later && repair->could_start)
        return true; /* nobody reads it */
    if (survey.later)
        return weir_error_complain_as(repair->err, ENOTSUP,
                                      "%s was written by a later version of weir: use that one", name);
    if (kind == FILE_IMAGE) {
        repair->has_image = repair->has_image || survey.whole;
        return survey.whole || put_aside(repair, name, "is damaged");
    }
    if (survey.frames == 0 && (survey.rubbish > 0 || survey.error))
        return put_aside(repair, name, "has no frame of this store");
    bool damaged = survey.error || survey.nonsense > 0 || survey.behind > 0;
    return !damaged || copy_segment(repair, &survey, name);
}

static bool repair_files(struct repair *repair)
{
    const struct files *files = &repair->recovery.files;
    for (size_t i = 0; i < files->images.count; i++)
        if (!repair_file(repair, FILE_IMAGE, files->images.entries[i].number))
            return false;
    for (size_t i = 0; i < files->segments.count; i++)
        if (!repair_file(repair, FILE_SEGMENT, files->segments.entries[i].number))
            return false;
    return !repair->recovery.mark.damaged || put_aside(repair, MARK_NAME, "is damaged");
}

/* ---- an image, if there is none to begin with ---- */

static int write_image_frame(struct repair *repair, struct frame_head *head, const void *payload, size_t len)
{
    struct buffer frame = {0};
    weir_log_frame(&frame);
    buffer_put(&frame, payload, len);
    (void)weir_buffer_room(&frame, 8);
    if (frame.failed) {
        weir_buffer_free(&frame);
        return ENOMEM;
    }
    memcpy(buffer_bytes(&frame), head, sizeof *head);
    weir_frame_seal((struct frame_head *)(void *)buffer_bytes(&frame), len);
    int error = append_to_copy(repair, buffer_bytes(&frame), frame_size(len));
    weir_buffer_free(&frame);
    head->sequence++;
    return error;
}

/* Says that what was before the log is lost. */
static bool write_empty_image(struct repair *repair)
{
    const struct recovery *recovery = &repair->recovery;
    uint64_t number = file_list_last(&recovery->files.images) + 1;
    struct frame_start start = {.number = number,
                                .sequence = recovery->first,
                                .segment = recovery->files.segments.entries[0].number,
                                .flags = FRAME_LOST | FRAME_UNSURE};
    struct frame_head head = {.kind = FRAME_IMAGE,
                              .salt = weir_frame_salt(recovery->store, FRAME_IMAGE, number)};
    char name[DISK_NAME_MAX];
    weir_file_name(name, FILE_IMAGE, number);
    memcpy(start.store, recovery->store, sizeof start.store);
    int error = open_copy(repair);
    if (error)
        return repair_complain(repair, COPY, error);
    error = write_image_frame(repair, &head, &start, sizeof start);
    struct frame_end end = {.frames = 1, .bytes = repair->at};
    head.kind = FRAME_END;
    if (!error)
        error = write_image_frame(repair, &head, &end, sizeof end);
    error = close_copy(repair, error, name);
    if (error)
        return repair_complain(repair, name, error);
    say(repair, "%s says that what was before the log is lost; what the log has is used", name);
    return true;
}

/* ---- all of it ---- */

static bool survey_again(struct repair *repair)
{
    weir_recovery_free(&repair->recovery);
    return weir_recovery_find(&repair->recovery, repair->disk, repair->dir, &repair->found, repair->err);
}

static bool repair_all(struct repair *repair)
{
    repair->could_start =
        weir_recovery_find(&repair->recovery, repair->disk, repair->dir, &repair->found, repair->err);
    const struct recovery *recovery = &repair->recovery;
    if (recovery->files.images.count + recovery->files.segments.count == 0 && !recovery->mark.found &&
        !recovery->mark.damaged)
        return repair->could_start; /* there is nothing, or nothing can be read */
    if (!repair_files(repair))
        return false;
    if (survey_again(repair))
        return true;
    if (repair->has_image)
        return false; /* it could be read a moment ago, and is not to be given up */
    if (repair->recovery.first > 0 && repair->recovery.known)
        return write_empty_image(repair) && survey_again(repair);
    if (repair->recovery.mark.found)
        return put_aside(repair, MARK_NAME, "is all that is left") && survey_again(repair);
    return false;
}

static int open_alone(struct repair *repair, const char *path)
{
    struct disk *disk = repair->disk;
    int64_t pid;
    int error = disk->open_dir(disk, path, false, &repair->dir);
    if (error)
        return error;
    error = disk->lock_dir(disk, repair->dir, &pid);
    if (error)
        disk->close_dir(disk, repair->dir);
    return error;
}

bool weir_inspect_repair(struct disk *disk, const char *path, void (*tell)(void *arg, const char *text),
                         void *arg, struct weir_error *err)
{
    struct repair repair = {.disk = disk ? disk : &weir_disk, .tell = tell, .arg = arg, .err = err};
    int error = open_alone(&repair, path);
    if (error == EAGAIN)
        return weir_error_complain_as(err, EBUSY, "in use: stop the server first");
    if (error)
        return repair_complain(&repair, path, error);
    bool good = repair_all(&repair);
    if (good)
        error = repair.disk->sync_dir(repair.disk, repair.dir);
    if (good && !error)
        error = repair.disk->witness(repair.disk, repair.dir);
    if (good && error)
        good = repair_complain(&repair, path, error);
    weir_recovery_free(&repair.recovery);
    repair.disk->close_dir(repair.disk, repair.dir);
    return good;
}
