/* SPDX-License-Identifier: MIT */
/*
 * Request ids: who asks the same again with the same id gets the first verdict once more, and nothing else
 * happens. The id is entered in the ledger before anything is decided, and left when the verdict is written
 * there, so of any number who ask at the same time one decides, and the others are told what he was told. The
 * record of a reservation is entered behind that of its id, and left before it.
 */
#ifndef WEIR_SERVICE_ENGINE_REQUEST_ID_H
#define WEIR_SERVICE_ENGINE_REQUEST_ID_H

#include "service/engine/request.h"

struct request_visit {
    bool has_request, has_reservation; /* which of them was entered */
    struct record_visit request, reservation;
    uint64_t fingerprint;
    uint64_t number;               /* of the reservation; 0: none */
    int64_t expires_ns;            /* of the request's record; */
    int64_t refused_expires_ns;    /* if it is refused, that, if it is earlier */
    struct ledger_verdict verdict; /* REQUEST_AGAIN: what the first one was told */
};

enum request_seen {
    REQUEST_NEW,    /* go on; weir_request_end must follow */
    REQUEST_AGAIN,  /* visit->verdict is the answer */
    REQUEST_OTHER,  /* the id belongs to another question: answer->error says so */
    REQUEST_NO_ROOM /* the ledger is full: nothing may be decided */
};

/* Enters the record of request->id, if there is one, and that of the reservation of this number, unless it is
 * 0. The scope of an id is the user and the first policy, so that nobody spoils the ids of others. Except
 * after REQUEST_NEW nothing stays entered. A new reservation's entry is all zero; who keeps it fills it in
 * and sets its record's expires_ns. */
enum request_seen weir_request_begin(struct worker *worker, const struct request *request,
                                     uint64_t reservation, struct request_visit *visit,
                                     struct answer *answer);
/* For a question that gives units back: what it will be told is in the log before it is done. So a kill in
 * between loses units; if it were the other way round, the same id could give twice. weir_request_flush comes
 * before weir_request_begin, weir_request_foresee after REQUEST_NEW. */
void weir_request_flush(struct worker *worker);
void weir_request_foresee(struct worker *worker, struct request_visit *visit,
                          const struct ledger_verdict *verdict);
/* Writes down the verdict, if there was an id, and leaves. `verdict` NULL: as if it had never been asked. */
void weir_request_end(struct worker *worker, const struct request *request, struct request_visit *visit,
                      const struct ledger_verdict *verdict);

/* An answer as the ledger keeps it, and back, for the request that was asked again. */
struct ledger_verdict weir_verdict_of(const struct worker *worker, const struct request *request,
                                      const struct answer *answer);
void weir_verdict_answer(struct worker *worker, const struct ledger_verdict *verdict,
                         const struct request *request, struct answer *answer);
/* What a question is told for which the ledger has no room. Counts. */
void weir_request_refuse(struct worker *worker, const struct request *request, struct answer *answer);

#endif
