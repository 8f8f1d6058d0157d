/* SPDX-License-Identifier: MIT */
/*
 * The arithmetic of tickets, which every coordinator and every node must agree on; and of terms.
 *
 * A quota of `total` in chunks of c has floor(total/c) whole tickets and perhaps one smaller; each chunk that
 * was returned pays for one whole ticket more. Tickets count from 1.
 * A bucket's ticket k, from 0, may be spent in [k*c/R, k*c/R + life) after the origin of its epoch;
 * life = (B - c)/R. An epoch begins with a full bucket, so its origin lies before its first moment: by `life`
 * if the coordinator passes over tickets that have died (local:, weir://, Redis), by weir_ticket_back if each
 * has to be asked for (the version of a znode): else the first ones would be dead before anybody could have
 * them.
 *
 * Numbered anew, the law holds across both epochs if the ticket that would have been next has died: then the
 * new origin lies at least one chunk's time behind the start of the last one that was issued. While it lives
 * (terms have changed, or numbers run out), the new origin is its end, and nothing starts before that.
 */
#ifndef WEIR_LEASE_TICKET_H
#define WEIR_LEASE_TICKET_H

#include "lease/lease.h"

#define TICKET_TOTAL_MAX  INT64_C(1000000000000000) /* units of a window, or a burst */
#define TICKET_WINDOW_MIN INT64_C(10000000)         /* 10 ms: less cannot be leased over any network */
#define TICKET_WINDOW_MAX (INT64_C(366) * 86400 * 1000000000)
#define TICKET_COUNT_MAX  INT64_C(1000000000) /* tickets of an epoch: versions of a znode have 31 bits */

/* false: no fleet can have these; `why` (a sentence) says what to write instead. Fills base (a hundredth of
 * the total for each of `nodes`, at least 1) and chunk where they are 0. */
bool weir_terms_complete(struct lease_terms *terms, int64_t nodes, char *why, size_t size);

/* Units that ticket `number` (from 1) stands for, when `returned` chunks are known to have come back. 0:
 * none. */
int64_t weir_ticket_units(const struct lease_terms *terms, int64_t number, int64_t returned);
/* Tickets with units in them, when nothing was returned. BUCKET: as many as may be numbered from one origin.
 */
int64_t weir_ticket_count(const struct lease_terms *terms);
/* Units left in the pool after `used` tickets. */
int64_t weir_ticket_left(const struct lease_terms *terms, int64_t used, int64_t returned);

/* The chunk of the epoch after one in which `used` tickets were asked for and which was exhausted after
 * `lasted` of its window (ns; the window: it was not). Between a quarter of base and four times base; above
 * base only if a hundred chunks for each of `nodes` (0: not known) still fit in the total, below it only if
 * they do not. */
int64_t weir_chunk_next(const struct lease_terms *terms, int64_t used, int64_t lasted_ns, int64_t nodes);

/* BUCKET: when ticket `number` (from 0) may be spent, `now` after the origin: *starts from now on (below 0:
 * it has started), *ends. false: it has died, and so have all before it. */
bool weir_ticket_span(const struct lease_terms *terms, int64_t number, int64_t now_ns, int64_t *starts_ns,
                      int64_t *ends_ns);
/* How long a ticket lives. */
int64_t weir_ticket_life(const struct lease_terms *terms);
/* How far before the first moment of an epoch its origin lies, where dead tickets are not passed over: all of
 * the burst but a quarter. */
int64_t weir_ticket_back(const struct lease_terms *terms);
/* How far ahead of its start a ticket may be asked for: a take beyond is refused, retry after. */
int64_t weir_ticket_ahead(const struct lease_terms *terms);

#endif
