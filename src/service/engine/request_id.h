/* SPDX-License-Identifier: MIT */
/*
 * Request ids: who asks the same again with the same id gets the first verdict once more, and nothing else
 * happens. The id is entered in the ledger before anything is decided, and left when the verdict is written
 * there, so of any number who ask at the same time one decides, and the others are told what he was told. The
 * record of a reservation is entered behind that of its id, and left before it.
 */
#ifndef WEIR_SERVICE_ENGINE_REQUEST_ID_H
#define WEIR_SERVICE_ENGINE_REQUEST_ID_H

#include "service/commands/call.h"

/* The pairs "policy key [n] AND policy key [n] ..." from word *at on; *at is then the first word behind them.
 * 0: an error was answered. `n_needed`: n must be there; else it may be left out, and is 1. */
size_t weir_call_pairs(struct call *call, size_t *at, struct pair *pairs, size_t most, bool n_needed);

/* Of the whole question: command, pairs, and two numbers that also belong to it (TTL, TIMEOUT; or 0). */
uint64_t weir_request_fingerprint(const struct call *call, const struct pair *pairs, size_t count,
                                  int64_t first, int64_t second);

struct request_visit {
    bool has_request, has_reservation; /* which of them was entered */
    struct record_visit request, reservation;
    uint64_t fingerprint;
    int64_t expires_ns;            /* of the request's record; */
    int64_t refused_expires_ns;    /* if it is refused, that, if it is earlier */
    struct ledger_verdict verdict; /* REQUEST_AGAIN: what the first one was told */
};

enum request_seen {
    REQUEST_NEW,    /* go on; weir_request_end must follow */
    REQUEST_AGAIN,  /* visit->verdict is the answer */
    REQUEST_OTHER,  /* the id belongs to another question: an error was answered */
    REQUEST_NO_ROOM /* the ledger is full: nothing may be decided */
};

/* `id` with bytes NULL: the question has none, and only the reservation is entered. `reservation` 0: none.
 * The scope of an id is the user and the first policy, so that nobody spoils the ids of others. Except after
 * REQUEST_NEW nothing stays entered. A new reservation's entry is all zero; who keeps it fills it in and sets
 * its record's expires_ns. */
enum request_seen weir_request_begin(struct call *call, const struct pair *pairs, size_t count,
                                     struct slice id, uint64_t fingerprint, uint64_t reservation,
                                     struct request_visit *visit);
/* For a question that gives units back: what it will be told is in the log before it is done. So a kill in
 * between loses units; if it were the other way round, the same id could give twice. weir_request_flush comes
 * before weir_request_begin, weir_request_foresee after REQUEST_NEW. */
void weir_request_flush(struct call *call);
void weir_request_foresee(struct call *call, struct request_visit *visit,
                          const struct ledger_verdict *verdict);
/* Writes down the verdict, if there was an id, and leaves. `verdict` NULL: as if it had never been asked. */
void weir_request_end(struct call *call, struct request_visit *visit, const struct ledger_verdict *verdict);

/* An answer as the ledger keeps it, and back. `pairs` are those of the question, as it was asked again. */
struct ledger_verdict weir_verdict_of(const struct answer *answer);
void weir_verdict_answer(struct worker *worker, const struct ledger_verdict *verdict,
                         const struct pair *pairs, size_t count, struct answer *answer);
/* What a question is told for which the ledger has no room. Counts. */
void weir_request_refuse(struct worker *worker, const struct pair *pairs, size_t count,
                         struct answer *answer);

#endif
