/* SPDX-License-Identifier: MIT */
/*
 * What is on the disk. One sync serves everybody who has appended before it began.
 */
#ifndef WEIR_STORE_SYNC_H
#define WEIR_STORE_SYNC_H

#include "store/internal.h"

#define SYNC_BEGIN_NS (WEIR_SEC / 2)      /* STORE_EVERYSEC: after the first append that is not synced */
#define SYNC_GATE_NS  (9 * WEIR_SEC / 10) /* then nothing more is answered; 0.1 s for who has just asked */
#define MARK_NS       WEIR_SEC

/* One sync of all that is appended by now, and the mark if it is due. true: there is something to sync again.
 */
bool weir_sync_step(struct store *store);
/* The syncer's life. */
void *weir_sync_run(void *store);
/* Under log.lock: the syncer shall look now. */
void weir_sync_poke(struct store *store);

/* By who holds sync.step: everything up to *target is on the disk, if it gives 0. Does not make the store
 * ill, and does not move `synced`. */
int weir_sync_files(struct store *store, uint64_t *target);
/* Under log.lock, after that: tickets up to target are good. */
void weir_sync_moved(struct store *store, uint64_t target);

#endif
