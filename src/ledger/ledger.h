/* SPDX-License-Identifier: MIT */
/*
 * The ledger: what must be remembered of single requests.
 *
 *   request      the first answer to a request id; who asks again with that id gets it once more
 *   reservation  units that were taken, and may still be committed or cancelled
 *
 * Each has records of its own: ids come far more often than reservations, need less room, and must not take
 * theirs. Who needs both enters the request first, then the reservation.
 *
 * Law of a reservation: its units were charged before it was written; it is settled once, by commit or by
 * cancel, whichever enters it first. At its end nothing comes back, then or later: nobody knows what was
 * used. For some time after it a commit may still say that it was more, which is charged. Then its record
 * goes; one that is settled or past its end goes earlier, if a newcomer finds no other place.
 */
#ifndef WEIR_LEDGER_LEDGER_H
#define WEIR_LEDGER_LEDGER_H

#include <stdatomic.h>

#include "ledger/records.h"

#define LEDGER_PAIRS 5 /* of one reservation */

struct ledger_pair {
    uint64_t ptable; /* whose keys: see service/policies/policy.h */
    uint64_t hash;   /* the key's identity there */
    int64_t n;
};

struct ledger_verdict { /* what the client was told */
    int64_t remaining, retry_after_ms, reset_after_ms;
    uint64_t reservation; /* its number, or 0 */
    int32_t due_in_ms;
    int8_t allowed, reason, limit;
    uint8_t pair; /* which limit decided, by its index in which pair of the question: see request_id.c */
};

struct ledger_request {
    uint64_t fingerprint; /* of the whole question */
    struct ledger_verdict verdict;
};

/* What came of it: kept as long as its record, if there is room, so that who did not get the answer can ask
 * again.
 */
#define LEDGER_DISTRUSTED 1 /* nobody can settle it: something was lost, perhaps what it has charged */
struct ledger_settled {
    uint64_t question; /* a hash of what was asked; 0: it is not settled; or LEDGER_DISTRUSTED */
    int64_t charged, given_back, remaining;
};

struct ledger_reservation {
    uint64_t number;
    struct weir_reservation promise; /* of the only pair, if it was due later; n 0: no promise */
    /* Behind the pairs, as far as there is room: other policy tables that count a pair, too. */
    struct ledger_pair pair[LEDGER_PAIRS];
    uint32_t pairs;           /* how many there are, */
    uint8_t also;             /* how many of the other policy tables, */
    uint8_t of[LEDGER_PAIRS]; /* and which pair each of those is about */
    uint8_t charged;          /* bit i: pair i was charged; else there is nothing to give back */
    uint8_t strict;           /* bit i: no more may be committed of pair i than was reserved */
    uint32_t grace_ms : 31;   /* of the time of its record, what comes after its own end */
    uint32_t late : 1;        /* it was settled then */
    uint64_t owner;           /* weir_ledger_owner of who made it */
    struct ledger_settled settled;
};

/* Its own end, from which on nothing comes back; only while it is not settled. */
int64_t weir_ledger_end_of(const struct record *record);
/* Is it settled, or past its end? Then its record is kept for those who missed the answer, or come late. */
bool weir_ledger_is_over(const struct record *record, int64_t now_ns);

/* Memory of each, in round numbers. */
#define LEDGER_REQUEST_BYTES     (sizeof(struct record) + sizeof(struct ledger_request))
#define LEDGER_RESERVATION_BYTES (sizeof(struct record) + sizeof(struct ledger_reservation))

struct ledger {
    struct records *requests, *reservations;
    /* The last reservation's: 32 bits drawn by lot at the start of each run, then 32 that count. So numbers
     * of an earlier run, which a store has kept, are not given again. The lot is never 0: see
     * ledger_unrecorded. */
    _Atomic uint64_t number;
};

/* Room for so many. false: an error; nothing is left behind. */
bool weir_ledger_init(struct ledger *ledger, size_t requests, size_t reservations, struct weir_error *err);
void weir_ledger_end(struct ledger *ledger);

static inline struct ledger_request *visit_request(const struct record_visit *visit)
{
    return record_bytes(visit->record);
}

static inline struct ledger_reservation *visit_reservation(const struct record_visit *visit)
{
    return record_bytes(visit->record);
}

/* The names of their records. The scope of an id is whose it is and what it is about. */
struct record_id weir_ledger_request(const struct ledger *ledger, const char *scope, size_t scope_len,
                                     const void *id, size_t len);
struct record_id weir_ledger_reservation(const struct ledger *ledger, uint64_t number);
uint64_t weir_ledger_next(struct ledger *ledger); /* a number that no reservation had */

/* The number of a reservation that charged nothing and is in no record, because the disk was ill: it says so
 * itself, and can be settled at any time, by anybody, with no effect. */
static inline uint64_t ledger_unrecorded(uint64_t number)
{
    return (uint32_t)number;
}

static inline bool ledger_is_unrecorded(uint64_t number)
{
    return number >> 32 == 0;
}

/* Hashes that cannot be foreseen and are never 0: of a user's name, and of a question, so that two of them
 * can be told apart without being kept. */
uint64_t weir_ledger_owner(const struct ledger *ledger, const char *name, size_t len);
uint64_t weir_ledger_question(const struct ledger *ledger, const void *bytes, size_t len);

/* A reservation's number as people see it, "5f3a-1", and back. false: no such text. */
#define LEDGER_TEXT_MAX 40
void weir_ledger_text(uint64_t number, char text[static LEDGER_TEXT_MAX]);
bool weir_ledger_number(const char *text, size_t len, uint64_t *number);
/* As far as can be told: was it given by this run? */
bool weir_ledger_is_ours(const struct ledger *ledger, uint64_t number);

/* After a loss, or where frames behind a hole in the log were applied: whoever has a reservation that is
 * still open cannot settle it any more. What he would be given back may be in nobody's account. After
 * weir_store_start, before the first answer; the caller commits what this lists. Gives how many. */
size_t weir_ledger_distrust(struct ledger *ledger, int64_t now_ns);

#endif
