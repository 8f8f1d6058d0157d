/* SPDX-License-Identifier: MIT */
#ifndef WEIR_STORE_HEALTH_H
#define WEIR_STORE_HEALTH_H

#include "store/internal.h"

/* As weir_health_fault, under log.lock. */
void weir_health_fault_locked(struct store *store, const char *what, int error);
/* The checkpointer's: tells who wants to know, and heals if it is time to. true: it is ill. */
bool weir_health_step(struct store *store);
/* false: the directory is not to be found any more, and the store is ill: what is written to it goes on to be
 * written, and nobody would ever read it. */
bool weir_health_has_place(struct store *store);
/* Tries now, whatever the time. */
bool weir_health_heal(struct store *store);
/* A file that can be given up when the disk is full. */
void weir_health_ballast(struct store *store);

/* Something failed that tickets depend on: none becomes good until an image is written. Without log.lock. */
void weir_health_fault(struct store *store, const char *what, int error);
void weir_store_tell(struct store *store, enum store_event_kind kind, const char *text, int64_t bytes,
                     int64_t ns);

#endif
