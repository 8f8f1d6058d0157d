/* SPDX-License-Identifier: MIT */
#include "service/share.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/sat.h"

#define HEIRS 64 /* owners of whom a note tells: each has more than this part of the entries */

struct heir {
    uint32_t owner, part;
};

/* Counters are of no use to each other: memory order relaxed. Memory is taken as it is touched. */
struct share {
    int64_t room;
    uint64_t places;
    _Atomic int64_t used, refused, claims;
    _Atomic uint16_t *owners; /* of each place: who made the entry in it; 0: it is not known */
    _Atomic int32_t *held;    /* SHARE_OWNERS: entries of each */
    /* The chore thread's own: */
    uint64_t cursor;
    int32_t *seen, all_seen; /* of each owner, and all, since the last count */
    struct heir heirs[HEIRS];
    size_t heir_count;
};

static int64_t load(const _Atomic int64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

static int32_t held_by(const struct share *share, uint32_t owner)
{
    return atomic_load_explicit(&share->held[owner], memory_order_relaxed);
}

struct share *weir_share_new(uint64_t places, int64_t room)
{
    struct share *share = calloc(1, sizeof *share);
    if (!share)
        return NULL;
    share->room = room;
    share->places = places;
    share->owners = calloc(places, sizeof *share->owners);
    share->held = calloc(SHARE_OWNERS, sizeof *share->held);
    share->seen = calloc(SHARE_OWNERS, sizeof *share->seen);
    if (share->owners && share->held && share->seen)
        return share;
    weir_share_free(share);
    return NULL;
}

void weir_share_free(struct share *share)
{
    if (!share)
        return;
    free(share->owners);
    free(share->held);
    free(share->seen);
    free(share);
}

uint32_t weir_share_owner(const char *user)
{
    const struct hash_key fixed = {UINT64_C(0x7368617265732121), UINT64_C(0x6f66757365727321)};
    return (uint32_t)(weir_hash(&fixed, user, strlen(user)) % (SHARE_OWNERS - 1)) + 1;
}

bool weir_share_allows(struct share *share, uint32_t owner)
{
    int64_t free = max64(share->room - load(&share->used), 0);
    if (held_by(share, owner) <= free)
        return true;
    atomic_fetch_add_explicit(&share->refused, 1, memory_order_relaxed);
    return false;
}

void weir_share_claim(struct share *share, uint64_t place, uint32_t owner)
{
    if (place < share->places)
        atomic_store_explicit(&share->owners[place], (uint16_t)owner, memory_order_relaxed);
    atomic_fetch_add_explicit(&share->held[owner], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&share->used, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&share->claims, 1, memory_order_relaxed);
}

/* ---- looking ---- */

uint64_t *weir_share_cursor(struct share *share)
{
    return &share->cursor;
}

/* An entry of before the start: each place is the same owner's at every look, and each owner has its part of
 * the places. 0: it is nobody's. */
static uint32_t heir_of(const struct share *share, uint64_t place)
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

void weir_share_see(struct share *share, uint64_t place)
{
    uint32_t owner =
        place < share->places ? atomic_load_explicit(&share->owners[place], memory_order_relaxed) : 0;
    if (owner == 0)
        owner = heir_of(share, place);
    share->seen[owner]++;
    share->all_seen++;
}

/* The part that was seen stands for all. */
void weir_share_count(struct share *share, int64_t used)
{
    for (uint32_t owner = 0; owner < SHARE_OWNERS; owner++) {
        int64_t held = share->all_seen > 0 ? mul_div(used, share->seen[owner], share->all_seen) : 0;
        if (held != held_by(share, owner))
            atomic_store_explicit(&share->held[owner], (int32_t)min64(held, INT32_MAX), memory_order_relaxed);
        if (share->seen[owner] != 0)
            share->seen[owner] = 0;
    }
    share->all_seen = 0;
    atomic_store_explicit(&share->used, used, memory_order_relaxed);
}

void weir_share_stat(const struct share *share, struct share_stat *stat)
{
    *stat = (struct share_stat){.refused = load(&share->refused), .claims = load(&share->claims)};
    for (uint32_t owner = 1; owner < SHARE_OWNERS; owner++)
        stat->most = max64(stat->most, held_by(share, owner));
}

/* ---- from one start to the next ---- */

uint32_t weir_share_part(const struct share *share, uint32_t owner)
{
    int64_t held = held_by(share, owner), used = load(&share->used);
    return held > used / HEIRS && used > 0 ? (uint32_t)min64(held * SHARE_PARTS / used, SHARE_PARTS) : 0;
}

bool weir_share_inherit(struct share *share, uint32_t owner, uint32_t part)
{
    if (owner == 0 || owner >= SHARE_OWNERS || part > SHARE_PARTS || share->heir_count == HEIRS)
        return false;
    share->heirs[share->heir_count++] = (struct heir){owner, part};
    return true;
}
