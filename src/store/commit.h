/* SPDX-License-Identifier: MIT */
#ifndef WEIR_STORE_COMMIT_H
#define WEIR_STORE_COMMIT_H

#include "store/store.h"

/* A thread's list is full, or the thread ends. */
void weir_commit_overfull(struct store *store);
void weir_commit_flush(struct dirty *dirty);
void weir_commit_free(struct store *store); /* the pool */

/* Appends what this thread has listed; gives a ticket for it and for everything that is in the log by now.
 * Listed nothing: a ticket for what is in the log by now. Never waits for a sync. Whatever goes wrong, the
 * ticket tells. */
uint64_t weir_store_commit(struct store *store);

enum store_ticket_status {
    STORE_GO,   /* answer */
    STORE_WAIT, /* `moved` will be called */
    STORE_SICK  /* the same, but the disk does not take anything: it may be long */
};
enum store_ticket_status weir_store_ticket_status(struct store *store, uint64_t ticket);

/* Not STORE_ILL: something new may be decided. A hint, cheap enough to be asked for every request. */
bool weir_store_is_well(const struct store *store);

/* The owner's catalogue: what has to be known before records can be read again. Appended before what it is
 * about comes into force; kept for the images. false: the store is ill, and the catalogue was not taken. */
bool weir_store_catalogue(struct store *store, const void *catalogue, size_t len);

#endif
