/* SPDX-License-Identifier: MIT */
#ifndef WEIR_STORE_COMMIT_H
#define WEIR_STORE_COMMIT_H

#include "store/internal.h"

/* A thread's list is full, or the thread ends. */
void weir_commit_overfull(struct store *store);
void weir_commit_flush(struct dirty *dirty);
void weir_commit_free(struct store *store); /* the pool */

#endif
