/* SPDX-License-Identifier: MIT */
/*
 * How changes, and the rest of a life, come to the store: persist.h says in which order.
 */
#ifndef WEIR_SERVICE_PERSIST_RECORD_CHANGE_H
#define WEIR_SERVICE_PERSIST_RECORD_CHANGE_H

#include "service/policies/edit.h"

/* Before the steps of a change; false: nothing may be changed, and `err` says why. */
bool weir_persist_before(struct edit *edit);
/* Before the first `done` steps are taken back: their old limits come again as new ones. */
void weir_persist_back(struct edit *edit, size_t done);
/* After the change came into force, or was taken back. */
void weir_persist_after(struct edit *edit);

/* By the job thread, before an answer to something that changed: false: it may or may not be recorded. */
bool weir_persist_wait(struct service *service);
void weir_persist_tick(struct service *service);
void weir_persist_last_catalogue(struct service *service);
#define PERSIST_COMPLAINT_MAX 240
/* "the disk does not take anything (No space left on device)" */
void weir_persist_complaint(struct store *store, char text[static PERSIST_COMPLAINT_MAX]);
/* A waiting session's policy table goes: see persist.h. */
void weir_persist_let_go(const struct worker *worker, const struct policy_table *ptable);

#endif
