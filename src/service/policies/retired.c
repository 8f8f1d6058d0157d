/* SPDX-License-Identifier: MIT */
#include "service/policies/retired.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "config/timestamp.h"
#include "service/log.h"
#include "service/persist/persist.h"
#include "service/transfer/dump.h"

#define FOLDER     "retired"
#define ENDING     ".weir"
#define UNFINISHED "unfinished.tmp" /* one is written at a time: under `change` */
#define NAME_SHOWN 32               /* bytes of the policy's name in that of the file */
#define SAME_MOST  100              /* files of one policy and second */
#define WRITE_MOST ((size_t)1 << 20)

struct retired_file {
    struct disk *disk;
    int dir, file;
    uint64_t end;
    int fault; /* errno value */
};

static bool write_retired_bytes(void *arg, const char *bytes, size_t len)
{
    struct retired_file *retired = arg;
    while (len > 0 && retired->fault == 0) {
        size_t part = len < WRITE_MOST ? len : WRITE_MOST;
        retired->fault = retired->disk->write(retired->disk, retired->file, bytes, part, retired->end);
        retired->end += part;
        bytes += part;
        len -= part;
    }
    return retired->fault == 0;
}

/* retired/ of the data directory. An errno value. */
static int open_folder(const struct service *service, bool make, int *folder)
{
    struct disk *disk = service->persistence->disk;
    int data, fault = disk->open_dir(disk, service->persistence->path, false, &data);
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
    char moment[TIMESTAMP_MAX], time[16], shown[NAME_SHOWN + 1], more[8] = "";
    weir_timestamp_write(service_wall_ms(service, weir_now()), moment); /* 2026-11-15T20:06:40.123Z */
    (void)snprintf(time, sizeof time, "%.4s%.2s%.2s-%.2s%.2s%.2s", moment, moment + 5, moment + 8,
                   moment + 11, moment + 14, moment + 17);
    (void)snprintf(shown, sizeof shown, "%.*s", NAME_SHOWN, policy->name);
    for (char *sign = shown; *sign; sign++)
        if (*sign == '/' || (*sign == '.' && sign == shown))
            *sign = '_';
    if (twin > 0)
        (void)snprintf(more, sizeof more, "-%u", (unsigned)(twin + 1) % 1000);
    (void)snprintf(name, DISK_NAME_MAX, "%s-%s%s" ENDING, shown, time, more);
}

static int name_is_new(void *arg, const char *name, uint64_t bytes)
{
    (void)bytes;
    return strcmp(name, arg) == 0 ? EEXIST : 0;
}

static int write_file_name(const struct service *service, const struct policy *policy,
                           const struct retired_file *retired, char name[static DISK_NAME_MAX])
{
    int fault = EEXIST;
    for (int twin = 0; fault == EEXIST && twin < SAME_MOST; twin++) {
        name_file(service, policy, twin, name);
        fault = retired->disk->list(retired->disk, retired->dir, name_is_new, name);
    }
    if (fault != 0) {
        name[0] = '\0'; /* it is another file's */
        return fault;
    }
    fault = retired->disk->rename(retired->disk, retired->dir, UNFINISHED, name);
    if (fault == 0)
        fault = retired->disk->sync_dir(retired->disk, retired->dir);
    return fault != 0 ? fault : retired->disk->witness(retired->disk, retired->file);
}

/* Into the unfinished file, all of it and on the disk, which stays open. What is left there of an earlier
 * attempt is of no use. */
static bool write_all(struct service *service, const struct policy *policy, struct retired_file *retired,
                      struct weir_error *err)
{
    struct disk *disk = retired->disk;
    (void)disk->remove(disk, retired->dir, UNFINISHED);
    retired->file = -1;
    retired->fault = disk->open(disk, retired->dir, UNFINISHED, DISK_CREATE, &retired->file);
    if (retired->fault != 0)
        return false;
    bool good = weir_dump_policy(service, policy, write_retired_bytes, retired, err);
    if (good)
        retired->fault = disk->sync(disk, retired->file);
    return good && retired->fault == 0;
}

static bool fail_retire(const struct service *service, const struct policy *policy, int fault,
                        struct weir_error *err)
{
    if (fault != 0)
        (void)weir_error_complain_as(err, fault,
                                     "policy '%s' cannot be retired to %.80s/" FOLDER
                                     " (%s): nothing was changed; make room there, or write FORGET behind "
                                     "WEIR.POLICY DEL",
                                     policy->name, service->persistence->path, strerror(fault));
    return false;
}

/* A rename that failed may have happened all the same, and its sync comes after it. A policy that stays must
 * not be in a file, too: what it spends from now on would be given back by whoever loads that. */
static void remove_failed(const struct retired_file *retired, const char *name)
{
    (void)retired->disk->remove(retired->disk, retired->dir, UNFINISHED);
    if (name[0])
        (void)retired->disk->remove(retired->disk, retired->dir, name);
    (void)retired->disk->sync_dir(retired->disk, retired->dir); /* or a power cut brings it back */
}

bool weir_retired_write(struct service *service, const struct policy *policy, struct weir_error *err)
{
    struct retired_file retired = {.disk = service->persistence->disk};
    char name[DISK_NAME_MAX] = "";
    int fault = open_folder(service, true, &retired.dir);
    if (fault != 0)
        return fail_retire(service, policy, fault, err);
    bool good = write_all(service, policy, &retired, err);
    if (good) {
        retired.fault = write_file_name(service, policy, &retired, name);
        good = retired.fault == 0;
    }
    if (retired.file >= 0)
        (void)retired.disk->close(retired.disk, retired.file);
    if (!good)
        remove_failed(&retired, name);
    retired.disk->close_dir(retired.disk, retired.dir);
    if (!good)
        return fail_retire(service, policy, retired.fault, err);
    weir_log(LOG_INFO_LEVEL, "policy-retired", LOG_TEXT("policy", policy->name),
             LOG_TEXT("data", service->persistence->path), LOG_TEXT("file", name),
             LOG_TEXT("do", "weir load brings it back; delete the file if nobody wants it"));
    return true;
}

struct retired_count {
    int64_t files, bytes;
};

static int count_file(void *arg, const char *name, uint64_t bytes)
{
    struct retired_count *count = arg;
    size_t len = strlen(name), ending = strlen(ENDING);
    if (len > ending && strcmp(name + len - ending, ENDING) == 0) {
        count->files++;
        count->bytes += (int64_t)bytes;
    }
    return 0;
}

void weir_retired_count(const struct service *service, int64_t *files, int64_t *bytes)
{
    struct disk *disk = service->persistence->disk;
    struct retired_count count = {0};
    int folder;
    if (open_folder(service, false, &folder) == 0) {
        (void)disk->list(disk, folder, count_file, &count);
        disk->close_dir(disk, folder);
    }
    *files = count.files;
    *bytes = count.bytes;
}
