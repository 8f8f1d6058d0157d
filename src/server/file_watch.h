/* SPDX-License-Identifier: MIT */
/*
 * Files that are looked at again and again: a change counts once it was seen twice, so that a file which is
 * being written is not read in the middle. A name is followed to its file each time: one that is replaced,
 * and Kubernetes' links to another directory, are changes, too.
 */
#ifndef WEIR_SERVER_FILE_WATCH_H
#define WEIR_SERVER_FILE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define FILES_WATCHED 68 /* the configuration, three of TLS, and lists of addresses */

struct file_mark { /* all 0: there is no such file */
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed, modified;
};

struct watched_file {
    char *path;
    struct file_mark known, last; /* that counts; at the last look */
};

struct file_watch { /* all 0: nothing is watched */
    struct watched_file files[FILES_WATCHED];
    size_t count;
};

/* Watches these, as they are now; those that were watched before keep what is known of them. NULL among them
 * is left out. Without memory some may be left out, too. */
void weir_file_watch_set(struct file_watch *watch, const char *const *paths, size_t count);
/* Have they changed, and not since the last look? */
bool weir_file_watch_look(struct file_watch *watch);

#endif
