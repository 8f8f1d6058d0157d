/* SPDX-License-Identifier: MIT */
/*
 * The store's threads: syncer and checkpointer. With options.manual there are none, and weir_store_work does
 * what they would do.
 */
#ifndef WEIR_STORE_THREADS_H
#define WEIR_STORE_THREADS_H

#include "store/internal.h"

bool weir_store_threads_start(struct store *store); /* false: there are no threads to be had */
void weir_store_threads_stop(struct store *store);

#endif
