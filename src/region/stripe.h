/* SPDX-License-Identifier: MIT */
/*
 * Locks that survive their holders. What one exchange cannot decide is decided under the lock of the key's
 * stripe: a robust mutex in the region's own memory, with a journal beside it. Before something is changed,
 * what was there goes into the journal; a single store then makes the change valid. If the holder is killed,
 * the kernel tells the next one who takes the lock, and he undoes what was not valid yet.
 *
 * A decision about several keys takes a transaction first, which has a journal for all of them, and then the
 * stripes, in rising order; whoever finds a stripe that a dead process had in a transaction recovers the
 * whole transaction before he goes on. Order: regions by their id, in each the transaction, then stripes
 * rising; `change` (header) before all of them.
 */
#ifndef WEIR_REGION_STRIPE_H
#define WEIR_REGION_STRIPE_H

#include "region/region.h"

enum journal_state { JOURNAL_IDLE, JOURNAL_OPEN, JOURNAL_DONE };

struct journal {
    _Atomic uint32_t state; /* OPEN: to be undone. DONE: valid, held slots are still to be let go */
    _Atomic uint32_t used;  /* bytes of entries, which follow: see stripe.c */
};

struct stripe {
    pthread_mutex_t mutex;
    _Atomic uint32_t transaction; /* 0, or 1 + the transaction in which its holder decides */
    uint32_t reserved;
    _Alignas(8) struct journal journal; /* the last: its entries follow */
};

/* Room that a journal needs to save so many bytes in so many pieces. */
uint64_t weir_journal_size(uint64_t bytes, uint64_t pieces);
/* Of a stripe or transaction in memory, with its journal: a multiple of 64. UINT64_MAX: more than a journal
 * can hold. */
uint64_t weir_stripe_size(uint64_t journal_size);
uint64_t weir_transaction_size(uint64_t transaction_size);

struct stripe *weir_stripe_at(const struct region *region, uint64_t index);

/* Makes all locks anew, free, `change` with them, and recovers every journal: nobody else may have the region
 * (a new one, a file opened alone, the child of a fork). */
void weir_stripes_renew(struct region *region);

/* All stripes, so that nothing is half done: around a fork, which copies the memory of other threads while
 * they run. By one thread at a time; several regions in the order of their id. */
void weir_stripes_lock_all(struct region *region);
void weir_stripes_unlock_all(struct region *region);

/* What a dead holder left half done has been undone. Outside of a transaction a thread has one stripe at
 * most. */
struct stripe *weir_stripe_lock(struct region *region, uint64_t stripe);
/* Its journal has been committed or undone. */
void weir_stripe_unlock(struct stripe *stripe);

/* A transaction and all these stripes, at most WEIR_ALL_MAX; `stripes` is sorted here, and what is there
 * twice goes: *count is changed. */
struct transaction;
struct transaction *weir_transaction_lock(struct region *region, uint32_t *stripes, size_t *count);
struct journal *weir_transaction_journal(struct transaction *transaction);
/* A journal that is still open is undone. */
void weir_transaction_unlock(struct region *region, struct transaction *transaction, const uint32_t *stripes,
                             size_t count);

/* header->change; recovers nothing by itself: what it guards is left whole by every store. */
void weir_change_lock(struct region *region);
void weir_change_unlock(struct region *region);

void weir_journal_begin(struct journal *journal);
/* These bytes are about to be changed. false: there is no room, so they must not be; never if the shape was
 * made with weir_journal_size for the most that is saved at once. */
bool weir_journal_save(struct region *region, struct journal *journal, const void *address, size_t bytes);
/* Marks the slot as held, if it is {hash, word}; PLAIN and PROMISED only. false: it is not that any more, or
 * there is no room. From now on its word may be stored to, as long as it stays HELD. Room: 16 bytes, a piece.
 */
bool weir_journal_hold(struct region *region, struct journal *journal, struct slot *slot, uint64_t hash,
                       uint64_t word);
/* Valid from now on. Held slots become PLAIN, with the value they have then. */
void weir_journal_commit(struct region *region, struct journal *journal);
/* The same, but held slots stay held. */
void weir_journal_commit_held(struct journal *journal);
/* As if nothing had been done; held slots get their word back. */
void weir_journal_undo(struct region *region, struct journal *journal);
/* For assertions: are these bytes saved in the journal, which is open? */
bool weir_journal_covers(struct region *region, struct journal *journal, const void *address, size_t bytes);
/* What a dead process left: undone if it was open, finished if it was valid. Nothing in it is trusted. */
void weir_journal_recover(struct region *region, struct journal *journal);

/* All regions of the process, in the order of their id. */
void weir_regions_join(struct region *region);
void weir_regions_leave(struct region *region);

#endif
