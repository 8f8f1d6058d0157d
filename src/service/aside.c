/* SPDX-License-Identifier: MIT */
#include "service/aside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "service/dump.h"
#include "service/keep.h"
#include "service/log.h"
#include "service/moment.h"

#define FOLDER     "aside"
#define ENDING     ".weir"
#define UNFINISHED "unfinished.tmp" /* one is written at a time: under `change` */
#define NAME_SHOWN 32               /* bytes of the policy's name in that of the file */
#define SAME_MOST  100              /* files of one policy and second */
#define WRITE_MOST ((size_t)1 << 20)

struct aside {
    struct disk *disk;
    int dir, file;
    uint64_t end;
    int fault; /* errno value */
};

static bool write_bytes(void *arg, const char *bytes, size_t len)
{
    struct aside *aside = arg;
    while (len > 0 && aside->fault == 0) {
        size_t part = len < WRITE_MOST ? len : WRITE_MOST;
        aside->fault = aside->disk->write(aside->disk, aside->file, bytes, part, aside->end);
        aside->end += part;
        bytes += part;
        len -= part;
    }
    return aside->fault == 0;
}

/* aside/ of the data directory. An errno value. */
static int open_folder(const struct service *service, bool make, int *folder)
{
    struct disk *disk = service->keeping->disk;
    int data, fault = disk->open_dir(disk, service->keeping->path, false, &data);
    if (fault != 0)
        return fault;
    fault = disk->open_sub(disk, data, FOLDER, make, folder);
    if (fault == 0 && make && (fault = disk->sync_dir(disk, data)) != 0)
        disk->close_dir(disk, *folder);
    disk->close_dir(disk, data);
    return fault;
}

/* What may stand in a name of a policy, but for the slash, may stand in that of a file; no file of ours
 * begins with a dot. */
static void name_file(const struct service *service, const struct policy *policy, int twin,
                      char name[static DISK_NAME_MAX])
{
    char moment[MOMENT_MAX], time[16], shown[NAME_SHOWN + 1], more[8] = "";
    weir_moment_write(service_wall_ms(service, weir_now()), moment); /* 2026-11-15T20:06:40.123Z */
    (void)snprintf(time, sizeof time, "%.4s%.2s%.2s-%.2s%.2s%.2s", moment, moment + 5, moment + 8,
                   moment + 11, moment + 14, moment + 17);
    (void)snprintf(shown, sizeof shown, "%.*s", NAME_SHOWN, policy->name);
    for (char *sign = shown; *sign; sign++)
        if (*sign == '/' || (*sign == '.' && sign == shown))
            *sign = '_';
    if (twin > 0)
        (void)snprintf(more, sizeof more, "-%d", twin + 1);
    (void)snprintf(name, DISK_NAME_MAX, "%s-%s%s" ENDING, shown, time, more);
}

static int name_is_new(void *arg, const char *name, uint64_t bytes)
{
    (void)bytes;
    return strcmp(name, arg) == 0 ? EEXIST : 0;
}

static int put_name(const struct service *service, const struct policy *policy, const struct aside *aside,
                    char name[static DISK_NAME_MAX])
{
    int fault = EEXIST;
    for (int twin = 0; fault == EEXIST && twin < SAME_MOST; twin++) {
        name_file(service, policy, twin, name);
        fault = aside->disk->list(aside->disk, aside->dir, name_is_new, name);
    }
    if (fault != 0) {
        name[0] = '\0'; /* it is another file's */
        return fault;
    }
    fault = aside->disk->rename(aside->disk, aside->dir, UNFINISHED, name);
    if (fault == 0)
        fault = aside->disk->sync_dir(aside->disk, aside->dir);
    return fault != 0 ? fault : aside->disk->witness(aside->disk, aside->file);
}

/* Into the unfinished file, all of it and on the disk, which stays open. What is left there of an earlier
 * attempt is of no use. */
static bool write_all(struct service *service, const struct policy *policy, struct aside *aside,
                      struct weir_error *err)
{
    struct disk *disk = aside->disk;
    (void)disk->remove(disk, aside->dir, UNFINISHED);
    aside->file = -1;
    aside->fault = disk->open(disk, aside->dir, UNFINISHED, DISK_CREATE, &aside->file);
    if (aside->fault != 0)
        return false;
    bool good = weir_dump_policy(service, policy, write_bytes, aside, err);
    if (good)
        aside->fault = disk->sync(disk, aside->file);
    return good && aside->fault == 0;
}

static bool fail(const struct service *service, const struct policy *policy, int fault,
                 struct weir_error *err)
{
    if (fault != 0)
        (void)weir_error_complain_as(err, fault,
                                     "policy '%s' cannot be set aside in %.80s/" FOLDER
                                     " (%s): nothing was changed; make room there, or write FORGET behind "
                                     "WEIR.POLICY DEL",
                                     policy->name, service->keeping->path, strerror(fault));
    return false;
}

/* A rename that failed may have happened all the same, and its sync comes after it. A policy that stays must
 * not be in a file, too: what it spends from now on would be given back by whoever loads that. */
static void remove_failed(const struct aside *aside, const char *name)
{
    (void)aside->disk->remove(aside->disk, aside->dir, UNFINISHED);
    if (name[0])
        (void)aside->disk->remove(aside->disk, aside->dir, name);
}

bool weir_aside_write(struct service *service, const struct policy *policy, struct weir_error *err)
{
    struct aside aside = {.disk = service->keeping->disk};
    char name[DISK_NAME_MAX] = "";
    int fault = open_folder(service, true, &aside.dir);
    if (fault != 0)
        return fail(service, policy, fault, err);
    bool good = write_all(service, policy, &aside, err);
    if (good) {
        aside.fault = put_name(service, policy, &aside, name);
        good = aside.fault == 0;
    }
    if (aside.file >= 0)
        (void)aside.disk->close(aside.disk, aside.file);
    if (!good)
        remove_failed(&aside, name);
    aside.disk->close_dir(aside.disk, aside.dir);
    if (!good)
        return fail(service, policy, aside.fault, err);
    weir_log(LOG_INFO_LEVEL, "policy-set-aside", LOG_TEXT("policy", policy->name),
             LOG_TEXT("data", service->keeping->path), LOG_TEXT("file", name),
             LOG_TEXT("do", "weir load brings it back; delete the file if nobody wants it"));
    return true;
}

struct count {
    int64_t files, bytes;
};

static int count_file(void *arg, const char *name, uint64_t bytes)
{
    struct count *count = arg;
    size_t len = strlen(name), ending = strlen(ENDING);
    if (len > ending && strcmp(name + len - ending, ENDING) == 0) {
        count->files++;
        count->bytes += (int64_t)bytes;
    }
    return 0;
}

void weir_aside_count(const struct service *service, int64_t *files, int64_t *bytes)
{
    struct disk *disk = service->keeping->disk;
    struct count count = {0};
    int folder;
    if (open_folder(service, false, &folder) == 0) {
        (void)disk->list(disk, folder, count_file, &count);
        disk->close_dir(disk, folder);
    }
    *files = count.files;
    *bytes = count.bytes;
}
