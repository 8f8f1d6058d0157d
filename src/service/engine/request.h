/* SPDX-License-Identifier: MIT */
/*
 * What the engine is asked and what it answers, whatever the protocol. A protocol turns its bytes into a
 * request, weir_engine_admit checks it, weir_engine_run decides it, and the protocol encodes the answer.
 * Everything in a request and an answer is valid within one read section of the worker.
 */
#ifndef WEIR_SERVICE_ENGINE_REQUEST_H
#define WEIR_SERVICE_ENGINE_REQUEST_H

#include "core/explain.h"
#include "ledger/ledger.h"
#include "service/engine/verbs.h"
#include "service/service.h"

#define KEY_MAX 4096 /* bytes of a key, and of a request id */
#define PAIRS_MAX                                                                                            \
    (WEIR_ALL_MAX / 2) /* of a request: each may have a previous policy table to ask as well                 \
                        */
#define NUMBERS_MAX (WEIR_ALL_MAX * WEIR_LIMITS_MAX) /* limits of all pairs of a request */
/* Units of one request: a number that was mistyped must not be a debt that is never repaid. */
#define UNITS_MAX INT64_C(1000000000000)

struct pair {
    struct slice name; /* of the policy */
    struct slice key;  /* as it is counted; bytes NULL in what concerns a policy alone */
    int64_t n;
    struct policy *policy; /* found by weir_engine_admit, unless it is known before */
    uint64_t hash;     /* of the key, in the policy table that counts it, if it is known already; else 0 */
    struct slice said; /* as it was said, if that is another one: keys of a fleet (weir_pools_key) */
    bool patient;      /* it can wait for units of a fleet: see struct answer */
    char digest[IP_TEXT_MAX]; /* room for a key */
    struct ip ip;             /* the address that was said, if the policy's keys are addresses */
    size_t of;                /* its number among the pairs that were said */
    /* Of a further tier of an address (address_rules.h): the policy that was asked; else NULL. */
    const struct policy *asked;
};
_Static_assert(POOLS_DIGEST <= IP_TEXT_MAX, "a key of a fleet fits");

/* The policy whose mode and counters count. */
static inline const struct policy *pair_asked(const struct pair *pair)
{
    return pair->asked ? pair->asked : pair->policy;
}

/* The key of a pair, as it was said. */
static inline struct slice pair_said(const struct pair *pair)
{
    return pair->said.bytes ? pair->said : pair->key;
}

struct request {
    enum engine_verb verb;
    const struct user *user;
    size_t count;             /* pairs */
    const struct slice *keys; /* that have no policy: their limits come with the request */
    size_t key_count;
    struct slice id;            /* the request id; bytes NULL: none */
    int64_t ttl_ms, timeout_ms; /* -1: not said */
    int64_t asked_ns;           /* ACQUIRE: since when it waits */
    struct slice reservation;   /* COMMIT, CANCEL: which one, as text */
    size_t used_count;          /* COMMIT: numbers; 0: all that was reserved */
    int64_t used[LEDGER_PAIRS];
    bool full;                     /* the numbers of all limits are wanted, */
    struct limit_numbers *numbers; /* and there is room for NUMBERS_MAX of them */
    bool store_ill;                /* weir_engine_admit: nothing can be recorded */
    /* The pairs, with each tier of an address as one of its own: while weir_engine_run decides. */
    const struct pair *parts;
    size_t part_count;
    struct pair pairs[PAIRS_MAX];
};

/* All fields but the pairs, which a parser fills one by one. */
static inline void request_init(struct request *request, enum engine_verb verb, const struct user *user)
{
    request->verb = verb;
    request->user = user;
    request->count = request->key_count = request->used_count = 0;
    request->id = request->reservation = (struct slice){0};
    request->ttl_ms = request->timeout_ms = -1;
    request->full = request->store_ill = false;
}

/* Why nothing was decided. */
enum engine_error {
    ENGINE_OK,
    ENGINE_WRONG,       /* the caller's mistake */
    ENGINE_NO_CLASS,    /* the user has not the classes of the verb; */
    ENGINE_NO_SCOPE,    /* is limited to some keys or policies, and the verb concerns others, too; */
    ENGINE_NO_NAME,     /* may not touch a key or policy that the request names; */
    ENGINE_NO_RIGHTS,   /* or something else */
    ENGINE_UNAVAILABLE, /* a retry may help */
    ENGINE_ELSEWHERE    /* another server decides it */
};

enum answer_reason {
    ANSWER_OK,
    ANSWER_LATER,
    ANSWER_NEVER,
    ANSWER_SHADOW,
    ANSWER_FULL,
    ANSWER_DISABLED,
    ANSWER_LOST,
    ANSWER_SHARED,
    ANSWER_EXEMPT, /* the address is in allow: */
    ANSWER_BLOCKED /* in block: */
};

#define LIMIT_UNKNOWN INT32_MAX /* of an answer that is told again: it has changed since, or is gone */

struct answer {
    enum engine_error error; /* if not ENGINE_OK, worker->error says what is wrong, and nothing else counts */
    bool changed;            /* something must be durable before this answer is sent */
    bool allowed;
    enum answer_reason reason;
    int64_t remaining;
    int64_t retry_after_ns; /* 0 if allowed; WEIR_FOREVER: never */
    int64_t reset_after_ns;
    int32_t limit;      /* index in labels; -1: the policy is disabled; or LIMIT_UNKNOWN */
    int32_t pair;       /* which of several decided */
    int32_t part;       /* the same, among the parts of the request */
    bool by_previous;   /* the limit is one of before the last change of the policy */
    const char *policy; /* its name, if there were several pairs; else NULL */
    const char *label;  /* of the limit that decided; valid for this read section */
    int64_t wait_ns;    /* of a promise: until it is due */
    /* Bit i: the units of pair i were charged to its policy table (weir_policy_find_table); and to that of
     * its candidate. */
    uint32_t charged, candidate_charged;
    /* Nothing was decided or counted: units of a fleet are on their way, and a patient one may ask again, for
     * hold_ns at the most. */
    bool waits_for_fleet;
    int64_t hold_ns;
    int64_t ends_ns; /* units of a fleet were taken that may be spent, or given back, until then; 0: none */
    struct weir_reservation promise; /* ACQUIRE, RESERVE: if wait_ns > 0 */
    uint64_t reservation;            /* RESERVE: its number; 0: none was made */
    int64_t settled_charged, settled_given_back, settled_remaining; /* COMMIT, CANCEL */
    bool settled_late;                                              /* COMMIT: after its end */
    /* request->full: of the limit that decided, then of all limits of all pairs, in their order. */
    struct limit_numbers decided;
    const struct limit_numbers *numbers;
    size_t number_count;
};

/* As it is told: in milliseconds, rounded up; WEIR_FOREVER is -1. */
static inline int64_t ms_up(int64_t time_ns)
{
    return time_ns == WEIR_FOREVER ? -1 : div_up(max64(time_ns, 0), WEIR_MS);
}

#endif
