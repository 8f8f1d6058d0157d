/* SPDX-License-Identifier: MIT */
/*
 * Making a damaged directory one that can be started from. Nothing is deleted: what is damaged is put aside
 * under another name, and good frames of it are copied. A repair that is broken off can be repeated.
 */
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

static int copy_frame(void *arg, const struct survey *survey, const struct scan *scan)
{
    (void)survey;
    size_t size = frame_size(scan->head.bytes);
    return append_to_copy(arg, scan->payload - sizeof scan->head, size);
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
    weir_survey_file(&survey, repair->disk, repair->dir, repair->recovery.store, copy_frame, repair);
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
    weir_survey_file(&survey, repair->disk, repair->dir, store, NULL, NULL);
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
