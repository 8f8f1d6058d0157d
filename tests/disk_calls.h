/* SPDX-License-Identifier: MIT */
/*
 * The kinds of calls of a struct disk (os/disk.h), for disks that count them and let them fail.
 */
#ifndef WEIR_TESTS_DISK_CALLS_H
#define WEIR_TESTS_DISK_CALLS_H

enum disk_call {
    DISK_CALL_OPEN_DIR,
    DISK_CALL_OPEN_SUB,
    DISK_CALL_LOCK_DIR,
    DISK_CALL_LIST,
    DISK_CALL_SYNC_DIR,
    DISK_CALL_RENAME,
    DISK_CALL_REMOVE,
    DISK_CALL_LINK,
    DISK_CALL_ROOM,
    DISK_CALL_OPEN,
    DISK_CALL_CLOSE,
    DISK_CALL_SIZE,
    DISK_CALL_READ,
    DISK_CALL_WRITE,
    DISK_CALL_TRUNCATE,
    DISK_CALL_SYNC,
    DISK_CALL_WITNESS,
    DISK_CALLS,
    DISK_CALL_ANY = DISK_CALLS /* where a kind is asked for: all of them together */
};

static const char *const disk_call_names[DISK_CALLS + 1] = {
    "open_dir", "open_sub", "lock_dir", "list", "sync_dir", "rename",   "remove", "link",    "room",
    "open",     "close",    "size",     "read", "write",    "truncate", "sync",   "witness", "any"};

#endif
