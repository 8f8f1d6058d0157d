/* SPDX-License-Identifier: MIT */
/*
 * The pools of a policy with `fleet:`: one for all of its keys, or one for each. A pool is a member of a
 * fleet (fleet/member.h), an ordinary limiter that is filled by a coordinator; or, of a root, nothing but
 * what is remembered of those who have leased from its table.
 *
 * All editions of a policy share its pools, counted by references, until its coordinator, limit or options
 * are others. To join may take long, and so may to leave: a thread of the service, the fleet joiner, does
 * both. Whoever asks for a pool that has not been joined yet finds it empty.
 *
 *   together   the one pool is there as long as the policy
 *   each       made at the first question about a key, at most `most`; unused ones leave
 */
#ifndef WEIR_SERVICE_LEASES_POOLS_H
#define WEIR_SERVICE_LEASES_POOLS_H

#include <pthread.h>

#include "base/buffer.h"
#include "config/config.h"
#include "fleet/member.h"

#define POOLS_LOCKS   16
#define POOLS_IDLE_NS (60 * WEIR_SEC) /* or two windows, if that is more: then an unused one leaves */

#define POOLS_KEY_MAX (FLEET_NAME_MAX - CONFIG_NAME_MAX - 1)
#define POOLS_DIGEST  48

struct service;

struct pool_member {
    struct pool_member *next; /* in its bucket */
    struct pool_member *next_joining;
    struct fleet_pools *pools;
    uint64_t hash;                          /* of its key, as the policy's table knows it; TOGETHER: 0 */
    _Atomic(struct weir_limiter *) limiter; /* NULL: not joined yet; a root's: never */
    _Atomic int64_t used_ns;
    _Atomic uint32_t users; /* who look at it outside of the bucket's lock */
    _Atomic int64_t
        lost_ns;          /* since when its coordinator is lost, as the fleet joiner saw it; 0: it is not */
    _Atomic bool listed;  /* among those that the fleet joiner has to join */
    bool out;             /* the fleet joiner's: it is in no bucket any more */
    int64_t retry_ns;     /* the fleet joiner's: when to try again to join */
    pthread_mutex_t lent; /* what was leased on to others and may come back: */
    uint64_t lent_epoch;
    int64_t lent_until_ns, lent_units;
    char name[FLEET_NAME_MAX + 1];
};

struct fleet_pools {
    _Atomic uint32_t refs; /* policies */
    struct service *service;
    struct fleet_pools *next; /* the fleet joiner's list */
    bool gone;                /* under the fleet joiner's lock: nobody has a reference */
    bool lost, hindered;      /* the fleet joiner's own: it was logged */
    struct {
        int64_t total, window_ns, burst;
    } other;      /* the fleet joiner's own: the limit of a pool that differs, as it was logged */
    int failures; /* the fleet joiner's own: attempts to join that failed */
    _Atomic(struct pool_member *)
        joining; /* those that the fleet joiner has to join: it takes all of them at once */
    /* What makes them the same. */
    char policy[CONFIG_NAME_MAX + 1];
    char *url, *shown, *limits; /* `limits` as the file has them */
    bool local, each;
    int64_t most, wait_ns, hold_ns, child_chunk;
    struct weir_fleet_options options;
    struct lease_terms terms;
    uint64_t epoch;          /* a root's: the time of its table when these began, or later */
    uint64_t ahead;          /* by so much */
    bool changed;            /* there were others before, in this process */
    struct pool_member *one; /* TOGETHER; it is in the only bucket, too */
    _Atomic int64_t count;
    struct pool_member **buckets; /* by the lowest bits of `who`; the lowest of these choose the lock */
    size_t bucket_count;          /* a power of 2 */
    pthread_mutex_t locks[POOLS_LOCKS];
};

/* Those of a policy of that configuration: the same ones, with a reference more, if `has` (or NULL) are as it
 * says; else new ones, which are being joined from now on, of another epoch. `time_ns` is that of the
 * policy's table, which goes on over restarts. NULL: `err` says why. Under service->change. */
struct fleet_pools *weir_pools_of(struct service *service, struct fleet_pools *has,
                                  const struct config_policy *from, int64_t time_ns, struct weir_error *err);
struct fleet_pools *weir_pools_ref(struct fleet_pools *pools); /* NULL stays NULL */
/* One reference; never blocks. NULL is fine. */
void weir_pools_drop(struct fleet_pools *pools);

/* The pool of a key (weir_pools_key), made if there is none and `make`; NULL: there are too many, or no
 * memory. To be let go in the same read section. */
struct pool_member *weir_pools_enter(struct fleet_pools *pools, struct slice key, uint64_t hash,
                                     int64_t now_ns, bool make);
void weir_pools_leave(struct pool_member *member);
/* Calls `each` for all of them, under the locks of their buckets. */
void weir_pools_each(struct fleet_pools *pools, void (*each)(void *arg, struct pool_member *member),
                     void *arg);

static inline struct weir_limiter *pool_limiter(const struct pool_member *member)
{
    return atomic_load_explicit(&member->limiter, memory_order_acquire);
}

/* The key that is asked for: what stands behind "POLICY:" in the name of its pool. A key that has bytes that
 * no name has, or is long, has a digest for it; TOGETHER: "". */
struct slice weir_pools_key(const struct fleet_pools *pools, struct slice key,
                            char digest[static POOLS_DIGEST]);
/* Can that stand behind "POLICY:" in a name? Letters that every coordinator can keep (weir_fleet_name_check);
 * what begins with @ is a digest. */
bool weir_pools_named(struct slice key);

/* Does the pool have another limit than the policy? One that was there keeps its own, and an operator may
 * change it. */
static inline bool pools_differ(const struct fleet_pools *pools, const struct weir_fleet_stat *stat)
{
    const struct lease_terms *said = &pools->terms;
    bool known = stat->epoch != 0 && stat->window_ns > 0; /* a weir server tells whole milliseconds */
    return known && (stat->total != said->total || stat->burst != said->burst ||
                     stat->window_ns / WEIR_MS != said->window_ns / WEIR_MS);
}

/* "60 000 000 a minute", "10 000 a second, burst 20 000" */
#define POOLS_LIMIT_MAX 240
const char *weir_pools_limit(const struct weir_fleet_stat *stat, char text[static POOLS_LIMIT_MAX]);

/* It is to be joined. */
void weir_pools_want(struct pool_member *member);
/* Takes all of those out of the list, chained by `next_joining`. */
struct pool_member *weir_pools_wanted(struct fleet_pools *pools);

/* For the fleet joiner: takes those out that nobody has used for long and that are in no list, chained by
 * `next`. */
struct pool_member *weir_pools_idle(struct fleet_pools *pools, int64_t now_ns);
/* Takes one out of those of which nobody has a reference; NULL: there is none. */
struct pool_member *weir_pools_pop(struct fleet_pools *pools);
/* Frees it, but for its limiter. */
void weir_pool_free(struct pool_member *member);
void weir_pools_free(struct fleet_pools *pools);

#endif
