/* SPDX-License-Identifier: MIT */
/*
 * What the scripts of fleet/redis/script.h have to make of a pool. A quota is the core's pool (lease/pool.h),
 * number by number; a bucket is, too, except that the script counts in doubles and whole microseconds: what
 * it has chosen has to be what the core chooses at that microsecond or one beside it. Around it is what only
 * Redis has: doubt, marks of what was deleted, expiry.
 *
 * A difference is printed.
 */
#ifndef WEIR_TESTS_SCRIPTS_MODEL_H
#define WEIR_TESTS_SCRIPTS_MODEL_H

#include "fleet/coordinator.h"
#include "lease/pool.h"

/* A server, as it tells in INFO and TIME. */
struct host {
    int64_t run, replication; /* run_id and master_replid; 0: nobody */
    int64_t since_us;         /* it was started */
    int64_t ahead_us;         /* its clock, of the true time */
    bool evicted, promoted;   /* ever */
};

/* What is kept under the name, and where the true time of something is not kept: that, too. */
enum shadow_state { SHADOW_NONE, SHADOW_GONE, SHADOW_THERE };
struct shadow {
    enum shadow_state state;
    bool sound;       /* there is an epoch that can be gone on with */
    bool next_fits;   /* `next` is what an operator has said; else he has said nonsense */
    bool empty, aged; /* the epoch has no units; its age is known */
    bool kept, fresh; /* never expires; the last order began an epoch */
    bool certain;     /* nothing was forgotten that numbers of epochs were given to */
    struct lease_terms next;
    struct lease_pool pool; /* epoch 0: none */
    int64_t run, replication, vouched, vouched_replication;
    int64_t last_us, wait_us;
    int64_t expires_us; /* true time; INT64_MAX: never */
    int64_t true_us;    /* when the epoch began */
    int64_t granted;    /* units of the epoch, ever */
};

/* An order as the script is asked, and what it has said. */
struct asked {
    struct lease_order order;
    const struct lease_terms *given;
    const struct host *host;
    uint64_t known;
    int64_t seen, span_ns, now_us, true_us;
    bool held, trust;
};
struct said {
    int64_t began, first, granted, returned, accepted, retry, expires_ms; /* expires -1: nothing was said */
    bool empty;
    struct lease_reply reply;
};

bool model_order(struct shadow *shadow, const struct asked *asked, const struct said *said);
/* For how long units can live that Redis, or who asks, still knows of. */
long double model_known_us(const struct shadow *shadow, const struct asked *asked);

/* create, set, delete: `terms` as asked for. */
bool model_quota(struct shadow *shadow, int32_t op, const struct lease_terms *terms, const struct host *host,
                 int64_t true_us, int64_t expires_ms);
/* show, and what all of them answer, after the change. */
bool model_shown(const struct shadow *shadow, const struct quota_answer *answer, int64_t now_us);

/* Milliseconds until a mark of what was deleted goes, as PTTL tells. */
int64_t model_left_ms(const struct shadow *shadow, int64_t true_us);
/* For how long units of such terms can be spent at most. */
long double model_alive_us(const struct lease_terms *terms);

#endif
