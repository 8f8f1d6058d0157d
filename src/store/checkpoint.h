/* SPDX-License-Identifier: MIT */
/*
 * When images are written, and what goes then (checkpoint.c); regions come first that have records
 * (REGION_RECORDS), then the others: units are charged before their record is written, so an image that is
 * complete before the thread has appended either must not have the record alone.
 */
#ifndef WEIR_STORE_CHECKPOINT_H
#define WEIR_STORE_CHECKPOINT_H

#include "store/store.h"

/* The checkpointer's: one step of an image, if one is due or under way; a new one is begun by
 * weir_log_rotate. true: there is more to do at once. */
bool weir_image_step(struct store *store);
void weir_image_ask(struct store *store); /* one is due, whatever the log */
/* A whole one, now, of all that was in memory before segment `segment` was begun, whose first sequence is
 * `sequence`; everything synced when it comes back. Gives up one that is under way. An errno value. Drops
 * nothing: the caller may not have synced the segment. By the checkpointer, or before there is one. */
int weir_image_write(struct store *store, uint64_t segment, uint64_t sequence);
void weir_image_end(struct store *store); /* at close: gives up one that is under way */
/* It is ill: the same, and whoever waits for one is told. */
void weir_image_refuse(struct store *store);

/* Removes images beyond those that are kept, and segments that none of these needs. Errors do no harm: it is
 * tried again behind the next image. Not while one is being written. */
void weir_image_prune(struct store *store);
/* So long nothing is removed: of all that are pinned. */
void weir_image_pin(struct store *store, bool pin);

/* options.hold_images: the owner has done to the regions what had to be done after a loss. Until an image has
 * that, the next start is told of the loss again. */
void weir_store_free_images(struct store *store);
/* An image, now; waits until it is there. false: it failed, see err. */
bool weir_store_image(struct store *store, struct weir_error *err);

#endif
