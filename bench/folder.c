/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE

#include "bench/folder.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#define FILES_OPEN 16
#define PATTERN    "/weir-bench-XXXXXX"
#define NAME_ROOM  32 /* in a path: for what folder_path adds */

static const struct file_system {
    long type;
    const char *name;
    bool in_memory;
} systems[] = {
    {0xEF53, "ext4", false},     {0x58465342, "xfs", false},  {0x9123683E, "btrfs", false},
    {0x2FC12FC1, "zfs", false},  {0xF2F52010, "f2fs", false}, {0x6969, "nfs", false},
    {0x01021994, "tmpfs", true}, {0x858458F6, "ramfs", true}, {0x794C7630, "overlayfs", false},
};

static void find_system(struct folder *folder)
{
    struct statfs about;
    snprintf(folder->system, sizeof folder->system, "unknown");
    if (statfs(folder->path, &about) != 0)
        return;
    snprintf(folder->system, sizeof folder->system, "type %lx", (unsigned long)about.f_type);
    for (size_t i = 0; i < sizeof systems / sizeof systems[0]; i++) {
        if ((long)about.f_type != systems[i].type)
            continue;
        snprintf(folder->system, sizeof folder->system, "%s", systems[i].name);
        folder->in_memory = systems[i].in_memory;
    }
}

bool folder_make(struct folder *folder)
{
    const char *where = getenv("TMPDIR");
    *folder = (struct folder){.path = ""};
    if (!where || !*where)
        where = "/var/tmp"; /* /tmp is in memory on many machines */
    if (strlen(where) + sizeof PATTERN + NAME_ROOM > FOLDER_MAX) {
        fprintf(stderr, "weir bench: TMPDIR is a path that is too long\n");
        return false;
    }
    snprintf(folder->path, sizeof folder->path, "%s" PATTERN, where);
    if (!mkdtemp(folder->path)) {
        fprintf(stderr, "weir bench: no folder in %s: %s\n", where, strerror(errno));
        folder->path[0] = '\0';
        return false;
    }
    find_system(folder);
    return true;
}

void folder_path(const struct folder *folder, const char *name, char path[static FOLDER_MAX])
{
    (void)snprintf(path, FOLDER_MAX, "%.*s/%.*s", FOLDER_MAX - NAME_ROOM, folder->path, NAME_ROOM - 2, name);
}

static int remove_folder_entry(const char *path, const struct stat *about, int type, struct FTW *place)
{
    (void)about;
    (void)type;
    (void)place;
    (void)remove(path);
    return 0;
}

static void remove_folder_tree(const char *path)
{
    (void)nftw(path, remove_folder_entry, FILES_OPEN, FTW_DEPTH | FTW_PHYS);
}

void folder_clear(const struct folder *folder, const char *name)
{
    char path[FOLDER_MAX];
    folder_path(folder, name, path);
    remove_folder_tree(path);
}

void folder_remove(struct folder *folder)
{
    if (folder->path[0])
        remove_folder_tree(folder->path);
    folder->path[0] = '\0';
}
