/* SPDX-License-Identifier: MIT */
/*
 * All that a store does to a disk, behind one table of functions: the real one is weir_disk; tests put a
 * simulated disk in its place, which forgets what was not synced, or one that fails when told to. Directories
 * and files are small numbers. Names have no slashes. What can fail gives an errno value, 0 if it did not.
 */
#ifndef WEIR_OS_DISK_H
#define WEIR_OS_DISK_H

#include <stdbool.h>
#include <stdint.h>

#define DISK_NAME_MAX 64

enum disk_open {
    DISK_READ,   /* it is there; to be read only */
    DISK_CREATE, /* it must not be there yet (EEXIST); to be read and written; mode 0600 */
    DISK_WRITE   /* it is there; to be read and written */
};

struct disk {
    /* The directory itself; `make`: it is made, with mode 0700, if it is not there (its parent must be), and
     * is there for good then. */
    int (*open_dir)(struct disk *disk, const char *path, bool make, int *dir);
    /* A directory within a directory; the same, but there for good only after sync_dir(dir). */
    int (*open_sub)(struct disk *disk, int dir, const char *name, bool make, int *sub);
    void (*close_dir)(struct disk *disk, int dir);
    /* Nobody else has it until close_dir, or the end of the process. EAGAIN: somebody has; *pid then is his,
     * or 0 if that is not known. Leaves a file `lock` in it. */
    int (*lock_dir)(struct disk *disk, int dir, int64_t *pid);
    /* The same for who only reads, and leaves nothing behind: where there is no file `lock` nobody has it. */
    int (*watch_dir)(struct disk *disk, int dir, int64_t *pid);
    /* Of one that is locked: is it still found under the path that it was opened by, and the lock in it?
     * ESTALE: it is not. What cannot be told is 0. */
    int (*same_dir)(struct disk *disk, int dir);
    /* Each file's name and size, in any order; stops with what `each` gives, if that is not 0. Leaves out
     * what is no file, and names of DISK_NAME_MAX letters and more. */
    int (*list)(struct disk *disk, int dir, int (*each)(void *arg, const char *name, uint64_t bytes),
                void *arg);
    int (*sync_dir)(struct disk *disk, int dir); /* names that were made, changed or removed */
    int (*rename)(struct disk *disk, int dir, const char *from, const char *to); /* replaces `to` */
    int (*remove)(struct disk *disk, int dir, const char *name);
    /* The same file under another name, in that directory, too. EXDEV, EPERM...: copy it instead. */
    int (*link)(struct disk *disk, int dir, const char *name, int to_dir, const char *to);
    int (*room)(struct disk *disk, int dir, uint64_t *bytes); /* that are free */

    /* ELOOP: a symbolic link; ENOTSUP: something else that is no file. */
    int (*open)(struct disk *disk, int dir, const char *name, enum disk_open how, int *file);
    int (*close)(struct disk *disk, int file);
    int (*size)(struct disk *disk, int file, uint64_t *bytes);
    /* All of the bytes, or an error; of a write that failed any part may be there. Less is read only at the
     * end of the file: *done. */
    int (*read)(struct disk *disk, int file, void *bytes, uint64_t count, uint64_t offset, uint64_t *done);
    int (*write)(struct disk *disk, int file, const void *bytes, uint64_t count, uint64_t offset);
    int (*truncate)(struct disk *disk, int file, uint64_t bytes);
    /* What was written is on the disk. After an error nobody knows what of it is, and must not ask again. */
    int (*sync)(struct disk *disk, int file);
    /*
     * Does the file system still accept changes of sizes and names? To be asked after a sync that depends on
     * one: of a file that has grown, of a directory. A file system whose journal fails while such a sync is
     * under way may drop the transaction and return 0 all the same (ext4, Linux 6.18); from then on it
     * accepts no change. So if this returns 0 the syncs before it were true. `place`: a directory that this
     * process has locked, or a file that no other thread writes to.
     */
    int (*witness)(struct disk *disk, int place);
    /* Begin to write that out, in the background; a hint. */
    void (*flush)(struct disk *disk, int file, uint64_t offset, uint64_t bytes);
};

extern struct disk weir_disk; /* the real one */

#endif
