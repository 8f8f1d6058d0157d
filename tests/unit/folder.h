/* SPDX-License-Identifier: MIT */
/*
 * A folder for a test, in memory if there is such a file system; it goes with all that is in it. To be
 * included by files that define _GNU_SOURCE.
 */
#ifndef WEIR_TESTS_UNIT_FOLDER_H
#define WEIR_TESTS_UNIT_FOLDER_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder_path[64];
static pid_t folder_owner;

static int folder_remove_one(const char *path, const struct stat *stat, int kind, struct FTW *where)
{
    (void)stat, (void)kind, (void)where;
    return remove(path);
}

/* Not by a child of a fork. */
static void folder_remove(void)
{
    if (folder_path[0] && folder_owner == getpid())
        (void)nftw(folder_path, folder_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    folder_path[0] = '\0';
}

/* A new, empty one. */
static const char *folder_new(void)
{
    const char *temporary = getenv("TMPDIR");
    const char *where = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : temporary ? temporary : "/tmp";
    if (folder_path[0])
        folder_remove();
    else
        (void)atexit(folder_remove);
    int length = snprintf(folder_path, sizeof folder_path, "%s/weir-test-XXXXXX", where);
    if (length >= (int)sizeof folder_path || !mkdtemp(folder_path)) {
        perror("mkdtemp");
        abort();
    }
    folder_owner = getpid();
    return folder_path;
}

#endif
