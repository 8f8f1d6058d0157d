/* SPDX-License-Identifier: MIT */
/*
 * Memory in large pieces, of the process or of a file, which is there when it is given: it neither faults nor
 * runs out later. And the two locks by which processes agree on a file. They go when a process does, however
 * it ends. What can fail gives an errno value, 0 if it did not.
 */
#ifndef WEIR_OS_MAPPING_H
#define WEIR_OS_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

/* ---- memory of the process ---- */

/* Zeroed, in huge pages if it is large enough for them. */
int weir_memory_map(uint64_t bytes, unsigned char **memory, bool *huge);
/* Zeroed, in small pages that the process has only once they are written to. */
int weir_memory_map_lazily(uint64_t bytes, unsigned char **memory);
void weir_memory_unmap(void *memory, uint64_t bytes); /* of a file, too */
/* Whole pages of it go back to the system; they stay mapped, and are zero from now on. */
void weir_memory_return(void *memory, uint64_t bytes);
/* The same for memory that most never use: page by page when it is written to. */
void weir_memory_postpone(void *memory, uint64_t bytes);

/* How much there is, with a margin for others; UINT64_MAX if nobody tells. */
uint64_t weir_memory_left(void);

/* ---- files ---- */

/* For reading and writing; it is made, empty, if it is not there. ENOTSUP: it is no ordinary file; ELOOP: it
 * is a symbolic link. */
int weir_file_open(const char *path, unsigned mode, int *file, bool *created);
void weir_file_close(int file);
bool weir_file_is_at(int file, const char *path); /* has nobody removed or replaced it? */

/* Whose file it is, and who may write to it. */
struct file_access {
    unsigned owner, mode;
    bool is_ours;      /* the owner is the user of this process */
    bool is_our_group; /* its group is one of this process's */
};
int weir_file_access(int file, struct file_access *access);

int weir_file_clear(int file);                     /* empty again */
int weir_file_set_mode(int file, unsigned mode);   /* whatever the umask; not that of somebody else's file */
void weir_file_remove(int file, const char *path); /* unless it is another one by now */

/* Gives these bytes of the file a place on disk, so that a full one is an error now and not a SIGBUS later;
 * the file gets longer if need be. ENOSPC, EFBIG (a limit of the process), ENOMEM (a file system in memory).
 */
int weir_file_reserve(int file, uint64_t offset, uint64_t bytes);
uint64_t weir_file_room(int file); /* bytes that are free where the file is */

/* Shared by all who map it. WRITE: all pages will be written to now; READ: they are mapped, LAZY: later. */
enum file_fetch { FILE_WRITE, FILE_READ, FILE_LAZY };
int weir_file_map(int file, uint64_t offset, uint64_t bytes, enum file_fetch fetch, unsigned char **memory);
uint64_t weir_page_size(void);

/* Who opens a file holds OPENING until it is ready for others; who uses it shares USING. */
enum file_lock { FILE_OPENING, FILE_USING };
int weir_file_lock_alone(int file, enum file_lock lock, bool wait); /* EAGAIN: others hold it */
int weir_file_lock_shared(int file, enum file_lock lock);
void weir_file_unlock(int file, enum file_lock lock);
void weir_file_pause(void); /* for a millisecond, so that who has just made the file can lock it */

#endif
