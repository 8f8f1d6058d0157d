/* SPDX-License-Identifier: MIT */
#include "auth/fair_share.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/sat.h"

#define LOOKS      50   /* ticks of a round */
#define LOOK_LEAST 4096 /* places */

#define MARK_SHIFT 14 /* an owner has the bits below */
#define MARKS      3

_Static_assert(SHARE_OWNERS <= 1 << MARK_SHIFT && MARKS < 1 << (16 - MARK_SHIFT), "both are in 16 bits");

struct inherited_share {
    uint32_t owner, part;
};

/* Counters are of no use to each other: memory order relaxed. Memory is taken as it is touched. */
struct fair_share {
    int64_t room;
    uint64_t places;
    _Atomic int64_t refused, claims;
    _Atomic uint32_t last; /* owner that was refused */
    /* Of each place: who made the entry in it, 0: it is not known; and in the upper bits the mark of the
     * round that has counted it, 0: an earlier one. */
    _Atomic uint16_t *owners;
    _Atomic uint32_t mark; /* of this round: 1, 2, 3, 1, ... */
    /* Of each owner, and in [0] of all: entries as of the end of the last round, in the high half, and those
     * made since. In one word, so that nobody reads the one without the other. */
    _Atomic uint64_t *counts;
    int32_t *recorded; /* under the service's `change`: entries of each owner as of the last catalogue */
    /* The job thread's own: */
    uint64_t cursor;
    int32_t *seen; /* of each owner, in this round */
    struct inherited_share heirs[SHARE_HEIRS];
    size_t heir_count;
};

static int64_t load_relaxed(const _Atomic int64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

static int64_t held_by(const struct fair_share *share, uint32_t owner)
{
    uint64_t count = atomic_load_explicit(&share->counts[owner], memory_order_relaxed);
    return (int64_t)(count >> 32) + (uint32_t)count;
}

struct fair_share *weir_share_new(uint64_t places, int64_t room)
{
    struct fair_share *share = calloc(1, sizeof *share);
    if (!share)
        return NULL;
    share->room = room;
    share->places = places;
    share->mark = 1;
    share->owners = calloc(places, sizeof *share->owners);
    share->counts = calloc(SHARE_OWNERS, sizeof *share->counts);
    share->recorded = calloc(SHARE_OWNERS, sizeof *share->recorded);
    share->seen = calloc(SHARE_OWNERS, sizeof *share->seen);
    if (share->owners && share->counts && share->recorded && share->seen)
        return share;
    weir_share_free(share);
    return NULL;
}

void weir_share_free(struct fair_share *share)
{
    if (!share)
        return;
    free(share->owners);
    free(share->counts);
    free(share->recorded);
    free(share->seen);
    free(share);
}

uint32_t weir_share_owner(const char *user)
{
    const struct hash_key fixed = {UINT64_C(0x7368617265732121), UINT64_C(0x6f66757365727321)};
    return (uint32_t)(weir_hash(&fixed, user, strlen(user)) % (SHARE_OWNERS - 1)) + 1;
}

bool weir_share_allows(struct fair_share *share, uint32_t owner)
{
    int64_t held = held_by(share, owner), free = max64(share->room - held_by(share, 0), 0);
    ASSERT(owner > 0 && owner < SHARE_OWNERS && held >= 0);
    if (held <= free) {
        INVARIANT(35, held <= share->room && held <= free);
        return true;
    }
    atomic_store_explicit(&share->last, owner, memory_order_relaxed);
    atomic_fetch_add_explicit(&share->refused, 1, memory_order_relaxed);
    return false;
}

/* Acquire: who sees a new mark counts in the round of that mark. With an old one an entry is counted twice in
 * that round, never not at all. */
void weir_share_claim(struct fair_share *share, uint64_t place, uint32_t owner)
{
    uint32_t mark = atomic_load_explicit(&share->mark, memory_order_acquire) << MARK_SHIFT;
    if (place < share->places) {
        atomic_store_explicit(&share->owners[place], (uint16_t)(owner | mark), memory_order_relaxed);
        ASSERT((atomic_load_explicit(&share->owners[place], memory_order_relaxed) & (SHARE_OWNERS - 1)) != 0);
    }
    atomic_fetch_add_explicit(&share->counts[owner], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&share->counts[0], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&share->claims, 1, memory_order_relaxed);
}

/* What this round has counted already, because it was seen alive or made, counts once. */
bool weir_share_wake(struct fair_share *share, uint64_t place, uint32_t owner)
{
    uint32_t mark = atomic_load_explicit(&share->mark, memory_order_relaxed);
    if (place < share->places &&
        atomic_load_explicit(&share->owners[place], memory_order_relaxed) >> MARK_SHIFT == mark)
        return true;
    if (!weir_share_allows(share, owner))
        return false;
    weir_share_claim(share, place, owner);
    return true;
}

/* ---- looking ---- */

uint64_t *weir_share_cursor(struct fair_share *share)
{
    return &share->cursor;
}

/* A round takes a second, or less. */
uint64_t weir_share_look(const struct fair_share *share)
{
    bool any = load_relaxed(&share->claims) > 0 || share->heir_count > 0;
    return any ? (uint64_t)max64((int64_t)share->places / LOOKS, LOOK_LEAST) : 0;
}

/* An entry of before the start: each place is the same owner's at every look, and each owner has its part of
 * the places. 0: it is nobody's. */
static uint32_t heir_of(const struct fair_share *share, uint64_t place)
{
    const struct hash_key fixed = {UINT64_C(0x6865697273212121), 0};
    uint32_t lot = (uint32_t)(weir_hash(&fixed, &place, sizeof place) % SHARE_PARTS);
    for (size_t i = 0; i < share->heir_count; i++) {
        if (lot < share->heirs[i].part)
            return share->heirs[i].owner;
        lot -= share->heirs[i].part;
    }
    return 0;
}

/* Gives the entry that mark, unless it has that of this round already: then it counts as made since the last
 * one, and so does one that is made just now. So no mark of an earlier round is there when its turn comes
 * again. *owner: who made the entry. */
static bool mark_entry(struct fair_share *share, uint64_t place, uint32_t mark, uint32_t *owner)
{
    *owner = 0;
    if (place >= share->places)
        return true;
    uint16_t word = atomic_load_explicit(&share->owners[place], memory_order_relaxed);
    *owner = word & (SHARE_OWNERS - 1);
    uint16_t marked = (uint16_t)(*owner | mark << MARK_SHIFT);
    uint32_t round = atomic_load_explicit(&share->mark, memory_order_relaxed);
    if ((uint32_t)word >> MARK_SHIFT == round)
        return false;
    bool done =
        word == marked || atomic_compare_exchange_strong_explicit(&share->owners[place], &word, marked,
                                                                  memory_order_relaxed, memory_order_relaxed);
#if WEIR_ASSERTIONS
    uint32_t has = (uint32_t)atomic_load_explicit(&share->owners[place], memory_order_relaxed) >> MARK_SHIFT;
    INVARIANT(35, has == mark || has == round); /* no mark of an earlier round stays */
#endif
    return done;
}

void weir_share_pass(struct fair_share *share, uint64_t place)
{
    uint32_t owner;
    (void)mark_entry(share, place, 0, &owner);
}

void weir_share_see(struct fair_share *share, uint64_t place)
{
    uint32_t owner, mark = atomic_load_explicit(&share->mark, memory_order_relaxed);
    if (!mark_entry(share, place, mark, &owner))
        return;
    if (owner == 0)
        owner = heir_of(share, place);
    if (owner != 0)
        share->seen[owner]++;
    share->seen[0]++;
}

/* What was made while the round went on was not seen: it counts on top. Its counts come before the next mark,
 * for who has that mark must not be counted here. */
void weir_share_round(struct fair_share *share)
{
    for (uint32_t owner = 0; owner < SHARE_OWNERS; owner++) {
        uint64_t was = atomic_load_explicit(&share->counts[owner], memory_order_relaxed), held;
        do
            held = (uint64_t)share->seen[owner] + (uint32_t)was;
        while (was != held << 32 &&
               !atomic_compare_exchange_weak_explicit(&share->counts[owner], &was, held << 32,
                                                      memory_order_relaxed, memory_order_relaxed));
        if (share->seen[owner] != 0)
            share->seen[owner] = 0;
        INVARIANT(35, share->seen[owner] == 0);
    }
    uint32_t mark = atomic_load_explicit(&share->mark, memory_order_relaxed);
    atomic_store_explicit(&share->mark, mark % MARKS + 1, memory_order_release);
    INVARIANT(35, share->mark != mark && share->mark >= 1 && share->mark <= MARKS);
}

void weir_share_stat(const struct fair_share *share, struct share_stat *stat)
{
    *stat = (struct share_stat){.refused = load_relaxed(&share->refused),
                                .last = atomic_load_explicit(&share->last, memory_order_relaxed)};
    for (uint32_t owner = 1; owner < SHARE_OWNERS; owner++)
        stat->most = max64(stat->most, held_by(share, owner));
}

/* ---- from one start to the next ---- */

uint32_t weir_share_part(const struct fair_share *share, uint32_t owner)
{
    int64_t held = held_by(share, owner), used = held_by(share, 0);
    return held > used / SHARE_HEIRS && used > 0 ? (uint32_t)min64(held * SHARE_PARTS / used, SHARE_PARTS)
                                                 : 0;
}

bool weir_share_inherit(struct fair_share *share, uint32_t owner, uint32_t part)
{
    if (owner == 0 || owner >= SHARE_OWNERS || part > SHARE_PARTS)
        return false;
    if (share->heir_count < SHARE_HEIRS)
        share->heirs[share->heir_count++] = (struct inherited_share){owner, part};
    return true;
}

void weir_share_recorded(struct fair_share *share)
{
    for (uint32_t owner = 0; owner < SHARE_OWNERS; owner++) {
        int32_t held = (int32_t)min64(held_by(share, owner), INT32_MAX);
        if (held != share->recorded[owner]) /* memory is taken as it is touched */
            share->recorded[owner] = held;
    }
}

bool weir_share_moved(const struct fair_share *share, int64_t part)
{
    for (uint32_t owner = 0; owner < SHARE_OWNERS; owner++) {
        int64_t moved = held_by(share, owner) - share->recorded[owner];
        if (max64(moved, -moved) > share->room / part)
            return true;
    }
    return false;
}
