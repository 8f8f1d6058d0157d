/* SPDX-License-Identifier: MIT */
/*
 * The ledger: what must be remembered of single requests.
 *
 *   verdict      the first answer to a request id; who asks again with that id gets it once more
 *   reservation  units that were taken, and may still be committed or cancelled
 *
 * Law of a reservation: its units were charged before it was written; it is settled once, by commit, by
 * cancel or by its end, whichever enters it first. At its end nothing comes back: nobody knows what was used.
 */
#ifndef WEIR_LEDGER_LEDGER_H
#define WEIR_LEDGER_LEDGER_H

#include <stdatomic.h>

#include "ledger/records.h"

#define LEDGER_PAIRS 5 /* of one reservation */
#define LEDGER_BYTES 232

enum entry_kind { ENTRY_VERDICT = 1, ENTRY_RESERVATION };

struct ledger_pair {
    uint64_t tally; /* whose keys: see service/policy.h */
    uint64_t who;   /* the key's identity there */
    int64_t n;
};

struct ledger_verdict { /* what the client was told */
    int64_t remaining, retry_after_ms, reset_after_ms;
    uint64_t reservation; /* its number, or 0 */
    int32_t due_in_ms;
    int8_t allowed, reason, limit, pair; /* the limit's index, and in which pair of the question */
};

/* What came of it: kept until its old end, if there is room, so that who did not get the answer can ask
 * again.
 */
struct ledger_settled {
    uint64_t question; /* a hash of what was asked; 0: it is not settled */
    int64_t charged, given_back, remaining;
};

struct ledger_entry {
    uint32_t kind;        /* enum entry_kind */
    uint32_t pairs;       /* RESERVATION */
    uint64_t fingerprint; /* VERDICT: of the whole question. RESERVATION: its number */
    union {
        struct ledger_verdict verdict;
        struct {
            struct weir_reservation promise; /* of the only pair, if it was due later; n 0: no promise */
            /* Behind the pairs, as far as there is room: other tallies that count a pair, too. */
            struct ledger_pair pair[LEDGER_PAIRS];
            uint8_t also;             /* how many of those there are, */
            uint8_t of[LEDGER_PAIRS]; /* and which pair each of them is about */
            uint8_t charged;          /* bit i: pair i was charged; else there is nothing to give back */
            uint8_t strict;           /* bit i: no more may be committed of pair i than was reserved */
            uint64_t owner;           /* weir_ledger_owner of who made it */
            struct ledger_settled settled;
        } reservation;
    } is;
};
_Static_assert(sizeof(struct ledger_entry) <= LEDGER_BYTES, "an entry fits its record");

struct ledger {
    struct records *records;
    uint64_t nonce;          /* drawn at the start, 32 bits: numbers of another run are not ours */
    _Atomic uint64_t number; /* the last reservation's */
};

bool weir_ledger_init(struct ledger *ledger, size_t entries, struct weir_error *err);
void weir_ledger_end(struct ledger *ledger);

static inline struct ledger_entry *visit_entry(const struct visit *visit)
{
    return record_bytes(visit->record);
}

struct record_id weir_ledger_request(const struct ledger *ledger, const char *scope, size_t scope_len,
                                     const void *id, size_t len);
struct record_id weir_ledger_reservation(const struct ledger *ledger, uint64_t number);
uint64_t weir_ledger_next(struct ledger *ledger); /* a number that no reservation had */

/* Hashes that cannot be foreseen and are never 0: of a user's name, and of a question, so that two of them
 * can be told apart without being kept. */
uint64_t weir_ledger_owner(const struct ledger *ledger, const char *name, size_t len);
uint64_t weir_ledger_question(const struct ledger *ledger, const void *bytes, size_t len);

/* A reservation's number as people see it, "5f3a-1", and back. false: no such text, or of another run. */
#define LEDGER_TEXT_MAX 40
void weir_ledger_text(const struct ledger *ledger, uint64_t number, char text[static LEDGER_TEXT_MAX]);
bool weir_ledger_number(const struct ledger *ledger, const char *text, size_t len, uint64_t *number);

#endif
