/* SPDX-License-Identifier: MIT */
/*
 * A disk in memory that does the worst that disks may do, and the same again for the same seed. One thread.
 *
 * A file is what was surely on the disk, and the writes since. Reads see all of them. A power cut (sim_cut)
 * leaves of every sector of 512 bytes any version since the last sync of the file, of every file its own, and
 * any size between the smallest and the largest since; and of what was done to the names of a directory since
 * its last sync_dir any part, as long as of two things done to one name the later is not there without the
 * earlier. A rename is there whole or not. A sync of a file does not keep its name: that is up to sync_dir.
 * Only the directories of open_dir are there for good once they are made.
 *
 * A sync that fails keeps any version of each sector and believes the rest to be written, as Linux does: the
 * next sync does not fail and brings nothing back. Whether reads still see what is lost is drawn by lot. A
 * sync_dir that fails may have kept any part; the rest is still to be synced. A rename, remove, link or
 * truncate that fails with EIO may have happened all the same; of a write any first part.
 *
 * The journal of its file system may fail (sim_abort): then a sync still keeps what is written in place, and
 * may return 0 although new sizes are lost, a sync_dir although names are. No size and no name can be changed
 * any more, which is how it can be noticed; a power cut, with the check of the file system behind it, ends
 * that.
 *
 * The directory `/` is there; sim_new(...)->open_dir("data", true) makes one in it.
 */
#ifndef WEIR_TESTS_DISK_SIM_H
#define WEIR_TESTS_DISK_SIM_H

#include "disk_calls.h"
#include "os/disk.h"
#include "rng.h"

#define SIM_SECTOR 512

struct sim;

struct sim *sim_new(uint64_t seed); /* aborts if there is no memory, as everything here */
void sim_free(struct sim *sim);
struct disk *sim_disk(struct sim *sim);

/* ---- ends of a process; what it had open is closed, locks are gone, stops and faults are over ---- */

void sim_kill(struct sim *sim);                 /* all that was written is there */
void sim_cut(struct sim *sim, struct rng *rng); /* power cut; NULL: draws by the sim's own lot */

/* ---- faults ---- */

/* After so many more calls the machine is off: every call fails with EIO and changes nothing, until sim_cut
 * or sim_kill. 0: now. SIM_NEVER: not at all. */
#define SIM_NEVER UINT64_MAX
void sim_stop_after(struct sim *sim, uint64_t calls);
bool sim_is_stopped(const struct sim *sim);

/* The n-th call from now of that kind (1: the next; DISK_CALL_ANY: of all kinds) fails with that errno, once,
 * or it and all later ones of the kind. n 0: none does. A write that fails may have written any first part.
 * One such order at a time. */
void sim_fail(struct sim *sim, enum disk_call kind, uint64_t n, int fault, bool for_ever);
/* Every call of that kind fails with that chance out of a million. */
void sim_fail_often(struct sim *sim, enum disk_call kind, uint32_t per_million, int fault);
void sim_no_faults(struct sim *sim);
/* Until sim_read_only(false): all that changes something fails with EROFS. Outlives sim_kill and sim_cut. */
void sim_read_only(struct sim *sim, bool read_only);
/* After so many more calls the journal has failed: see above. 0: now. Outlives sim_kill, not sim_cut. */
void sim_abort_after(struct sim *sim, uint64_t calls);
bool sim_is_aborted(const struct sim *sim);
/* Bytes that fit, each file rounded up to sectors; then ENOSPC, after what still fitted was written.
 * UINT64_MAX: no limit, as at first. */
void sim_capacity(struct sim *sim, uint64_t bytes);

/* ---- what has been done ---- */

uint64_t sim_calls(const struct sim *sim, enum disk_call kind); /* since sim_new; DISK_CALL_ANY: all */
uint64_t sim_faults(const struct sim *sim);                     /* calls that failed because they had to */
uint64_t sim_used(const struct sim *sim);                       /* bytes, as sim_capacity counts them */
int sim_handles(const struct sim *sim);                         /* directories and files that are open */
/* A number that depends on all that reads would see: equal disks, equal numbers. */
uint64_t sim_digest(const struct sim *sim);

/* ---- damage, to what is there and on the disk; `path`: "data/log-1". false: there is no such file or byte
 * ---- */

bool sim_flip(struct sim *sim, const char *path, uint64_t bit);
bool sim_zero(struct sim *sim, const char *path, uint64_t sector);
bool sim_shorten(struct sim *sim, const char *path, uint64_t bytes);
bool sim_lose(struct sim *sim, const char *path); /* the name */
/* Bytes of a file as they are now, for tests that put their own there. NULL: no such file. Until the next
 * call. */
const unsigned char *sim_bytes(const struct sim *sim, const char *path, uint64_t *len);
/* A file with these bytes, surely on the disk, in a directory that is there; in place of another one. */
bool sim_put(struct sim *sim, const char *path, const void *bytes, uint64_t len);

#endif
