/* SPDX-License-Identifier: MIT */
/*
 * The store's threads: syncer and checkpointer. With options.manual there are none, and weir_store_work does
 * what they would do.
 */
#ifndef WEIR_STORE_THREADS_H
#define WEIR_STORE_THREADS_H

#include "store/store.h"

bool weir_store_threads_start(struct store *store); /* false: there are no threads to be had */
void weir_store_threads_stop(struct store *store);

/* Waits for STORE_GO; false: not within that time. Not for threads that have better things to do. */
bool weir_store_wait(struct store *store, uint64_t ticket, int64_t timeout_ns);

/* options.manual: does what the threads would do next: at most one sync, or one step of an image. true: there
 * is more to do. */
enum store_work { STORE_WORK_SYNC = 1, STORE_WORK_IMAGE = 2 };
bool weir_store_work(struct store *store, unsigned what);

#endif
