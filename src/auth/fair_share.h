/* SPDX-License-Identifier: MIT */
/*
 * Shares: no user can fill a store that all users have in common (request ids, reservations, keys of RL.*,
 * keys of CL.THROTTLE), so that others find no room.
 *
 * Law: while there are several users, one may make a new entry only if it holds no more entries than there
 * are places free. So one greedy user gets half of a store, three get a quarter each, and as much as each of
 * them has stays free for the others. Where there is one user alone it may have all of it.
 *
 * For each place of a store it is known who made the entry in it. The job thread goes through all places, a
 * part of them in each tick, and counts the entries that live; what was made since a round began comes on
 * top, and what is counted is marked. So an entry that ends is not counted any longer after a second or two,
 * nobody has to tell when it does, and no number is too low. An entry that has ended and is still in its
 * place may live again (a key of CL.THROTTLE): that is as if it were made then.
 *
 * Users are told apart by a number from a hash of their names, which is the same after a start with the same
 * users (weir_users_new sees to it that no two have the same). The catalogue of a store has
 * what part of the entries is whose; after a start entries whose maker is not known count in these parts.
 */
#ifndef WEIR_AUTH_FAIR_SHARE_H
#define WEIR_AUTH_FAIR_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum share_store { SHARE_REQUESTS, SHARE_RESERVATIONS, SHARE_SMYTE, SHARE_CLIENT_KEYS, SHARE_STORES };

#define SHARE_OWNERS 16384
#define SHARE_PARTS  10000 /* all entries of a store, in a catalogue */
#define SHARE_HEIRS  64    /* owners of whom a catalogue tells: each has more than this part of the entries */

struct fair_share;
/* A store of so many places, of which `room` find an entry. NULL: out of memory. */
struct fair_share *weir_share_new(uint64_t places, int64_t room);
void weir_share_free(struct fair_share *share);

uint32_t weir_share_owner(const char *user); /* 1 ... SHARE_OWNERS - 1 */

/* Any thread. Before an entry is made: may its owner have it? false counts as refused. */
bool weir_share_allows(struct fair_share *share, uint32_t owner);
/* After it was made, at that place. */
void weir_share_claim(struct fair_share *share, uint64_t place, uint32_t owner);

/* An entry at that place that had ended is about to live again: may it? false counts as refused. */
bool weir_share_wake(struct fair_share *share, uint64_t place, uint32_t owner);

/* By the job thread: weir_share_see for each living entry, and weir_share_round at the end of a round
 * through the store; weir_share_pass for each that has ended and may wake. The cursor is for whoever goes
 * through it, weir_share_look tells how many places to look at in a tick; 0: nobody has made anything. */
uint64_t *weir_share_cursor(struct fair_share *share);
uint64_t weir_share_look(const struct fair_share *share);
void weir_share_see(struct fair_share *share, uint64_t place);
void weir_share_pass(struct fair_share *share, uint64_t place);
void weir_share_round(struct fair_share *share);

struct share_stat {
    int64_t refused; /* entries that were not made, because of this */
    int64_t most;    /* that any user holds */
    uint32_t last;   /* owner that was refused; 0: none was */
};
void weir_share_stat(const struct fair_share *share, struct share_stat *stat);

/* For a catalogue: which part of the entries is this owner's; 0: nothing to speak of. And back, at a start.
 */
uint32_t weir_share_part(const struct fair_share *share, uint32_t owner);
bool weir_share_inherit(struct fair_share *share, uint32_t owner,
                        uint32_t part); /* false: it makes no sense */
/* A catalogue was written; since the last one, does any user hold so many more or less than it did: this part
 * of the store? INT64_MAX: any. Under the service's `change`. */
void weir_share_recorded(struct fair_share *share);
bool weir_share_moved(const struct fair_share *share, int64_t part);

#endif
