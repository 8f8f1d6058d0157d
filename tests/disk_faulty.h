/* SPDX-License-Identifier: MIT */
/*
 * A disk in front of another one, normally the real one, that counts calls and lets the n-th of them fail. A
 * call that fails does not reach the disk behind. Any number of threads.
 */
#ifndef WEIR_TESTS_DISK_FAULTY_H
#define WEIR_TESTS_DISK_FAULTY_H

#include <stdatomic.h>

#include "disk_calls.h"
#include "os/disk.h"

struct faulty {
    struct disk disk;                       /* to be given to whom it is for; first */
    struct disk *under;                     /* that does the work */
    _Atomic uint64_t calls[DISK_CALLS + 1]; /* of each kind, and of all; also of those that failed */
    _Atomic uint64_t failed;
    _Atomic int open;                      /* directories and files */
    _Atomic uint64_t from[DISK_CALLS + 1]; /* number of the call that fails; 0: none */
    _Atomic int faults[DISK_CALLS + 1];    /* with this errno */
    _Atomic bool for_ever[DISK_CALLS + 1]; /* and all behind it */
    _Atomic(void *) site;                  /* where the last call came from that was ordered */
};

void faulty_init(struct faulty *faulty, struct disk *under); /* NULL: the real one */
/* The n-th call from now of that kind (1: the next; DISK_CALL_ANY: of all kinds) fails, once, or it and all
 * later ones. n 0: none does. Each kind has one such order of its own. Fault 0: it is done all the same, and
 * only `site` is set. */
void faulty_fail(struct faulty *faulty, enum disk_call kind, uint64_t n, int fault, bool for_ever);
void faulty_no_faults(struct faulty *faulty);

#endif
