/* SPDX-License-Identifier: MIT */
/*
 * weir-fleet.h: one limit for many machines.
 *
 *     struct weir_limiter *egress =
 *         weir_fleet_join("zookeeper://zk1,zk2,zk3/weir", "egress", "50M/m algo=quota", &err);
 *     if (weir_limiter_take(egress, 1, NULL))
 *         ...
 *
 * Every process that joins under the same name shares one total. A node leases units in advance, a chunk at a
 * time, and decides on them alone: a take costs what it costs in a process, the coordinator sees one write
 * for each chunk. What all nodes together let pass is never above the limit, whatever crashes, stops, or is
 * cut off: docs/fleet.md says why, and what it costs.
 *
 *   limit              what is shared
 *   50M/m algo=quota   a total for each window of a minute. A window begins when somebody asks after the one
 *                      before has ended; at a weir server that keeps the total, at multiples of the minute
 *   10k/s burst=20k    a bucket of the whole fleet: never more than 20k + 10k*t in any t seconds
 *
 *   coordinator
 *   zookeeper://[user:password@]host[:port],.../path    an ensemble
 *   redis://[user:password@]host[:port],.../db          a Redis server, or one with replicas
 *   redis+cluster://host[:port],...                     a Redis Cluster
 *   weir://[user:password@]host[:port],...              weir servers; the name is a policy that has `fleet:`
 *   rediss://, rediss+cluster://, weirs://              with TLS; ?cacert=FILE&cert=FILE&key=FILE
 *   local:                                              this process alone: for tests and for a start
 *
 * A take does not wait: what is above the one or two chunks that this node holds is refused (WEIR_LATER) and
 * asked for, also while the pool has plenty. weir_limiter_acquire and weir_fleet_take wait for it: use those
 * for takes that are large beside a chunk, or choose a larger base.
 *
 * A member is an ordinary limiter: take, peek, give, charge, acquire, drain, listen, ref, free. What it may
 * spend has an end, so reserve is a take or a refusal; set, reset and handles belong to the fleet, not to a
 * node (`weir quota set`). After a fork only the parent is a member: the child's copy refuses everything.
 *
 * What is given back belongs into the window that it was taken in. reserve and cancel know which that is, and
 * into another one nothing comes back. A plain give does not: what was taken in one window and is given in
 * the next one lifts what this node may spend of the next, by no more than it has spent of that itself. Give
 * within the window, or reserve. A node that ran out of units meanwhile gets back less than it gives: never
 * more than it has spent of what it leased since then.
 */
#ifndef WEIR_FLEET_H
#define WEIR_FLEET_H

#include "weir.h"

#ifdef __cplusplus
extern "C" {
#endif

enum weir_fleet_loss {
    WEIR_FLEET_REFUSE, /* coordinator lost: what is held is spent, then all is refused */
    WEIR_FLEET_SHARE   /* then each node lets pass total/nodes a window for itself: at worst, in the window of
                          the loss, twice the total */
};

enum weir_fleet_unreached {
    WEIR_FLEET_FAIL,         /* coordinator not reached: joining fails */
    WEIR_FLEET_LOST_AT_FIRST /* joining succeeds, and the member starts as lost: on_loss applies until the
                                coordinator is reached */
};

enum weir_fleet_clock {
    WEIR_FLEET_CLOCK_TRUSTED, /* who joins believes the coordinator's wall clock, within `guard`, once */
    WEIR_FLEET_CLOCK_UNUSED   /* it is never used for this: who joins waits for the next window */
};

/* What is 0 has its default. The same names, without _ns, work in the URL
 * (zookeeper://zk1/weir?base=1000&nodes=500&answer=1s) and in `fleet:` of a server's policy. */
struct weir_fleet_options {
    int64_t size;            /* sizeof(struct weir_fleet_options) */
    int64_t base;            /* units of a chunk, roughly: total / (100 * nodes) */
    int64_t nodes;           /* members at a time, as far as is known: 1 */
    int32_t on_loss;         /* enum weir_fleet_loss */
    int32_t prefetch;        /* per cent of a chunk left at which the next is asked for: 20 */
    int32_t above;           /* per cent of base above which units are returned: 200 */
    int32_t rho;             /* parts per million by which clocks may run fast or slow: 1000 */
    int64_t return_every_ns; /* how often that is looked at: 15 s */
    int64_t lost_after_ns;   /* without an answer the coordinator counts as lost: 3 s */
    int64_t connect_ns;      /* how long joining may wait for a coordinator that does not refuse: 5 s */
    int64_t answer_ns;       /* an order without an answer for so long is taken for spent: 2 s */
    int64_t session_ns;      /* of ZooKeeper: 10 s */
    int64_t leave_ns;        /* how long weir_limiter_free may wait until unspent chunks are back: 1 s */
    int32_t clock;           /* enum weir_fleet_clock */
    int32_t flight;          /* orders to take that may be on the way at once, 1 to 4: 4 */
    int64_t guard_ns;        /* by which the coordinator's wall clock may be wrong within a window: 100 ms */
    int64_t most_held;       /* units beyond which a node asks for nothing in advance. 0: no such bound */
    int64_t ready_ns;        /* for so long after the last take a node keeps units ready for the next: 10 s */
    int32_t unreached;       /* enum weir_fleet_unreached: what weir_fleet_join does without a coordinator */
    int32_t reserved;        /* 0 */
};

/* Joins. Waits until the coordinator is reached or connect_ns have passed; but a Redis or a weir server that
 * refuses the connection or the password is told at once. NULL: `err` says why. With unreached=lost the
 * caller gets a member also then: it starts as lost (on_loss applies at once), goes on trying, and joins by
 * itself when the coordinator is reached; `err` says why it was not. Other faults still give NULL. The name
 * has letters, digits and - _ . : @, at most 255. Who joins the same name at the same URL again gets the same
 * limiter, with the options of the first; each of them frees it. */
WEIR_API struct weir_limiter *weir_fleet_join(const char *url, const char *name, const char *spec,
                                              struct weir_error *err);
WEIR_API struct weir_limiter *weir_fleet_join_with(const char *url, const char *name, const char *spec,
                                                   const struct weir_fleet_options *options,
                                                   struct weir_error *err);

/* A take that may have to wait for the coordinator: `answer` is called exactly once, with the verdict, from
 * this call or from a thread of the library, within timeout_ns. It must not block; it may free the member.
 * false: nothing was begun, it is not called. */
typedef void weir_fleet_answer(void *arg, const struct weir_verdict *verdict);
WEIR_API bool weir_fleet_take(struct weir_limiter *member, int64_t n, int64_t timeout_ns,
                              weir_fleet_answer *answer, void *arg);

enum weir_fleet_event {
    WEIR_FLEET_REFRESHED, /* a new window has begun */
    WEIR_FLEET_EXHAUSTED, /* its total is used up */
    WEIR_FLEET_LOST,      /* the coordinator does not answer */
    WEIR_FLEET_RESTORED   /* it answers again */
};
typedef void weir_fleet_listener(void *arg, struct weir_limiter *member, int32_t event);
/* One listener for a member, from a thread of the library; NULL: none. What is being told may still arrive.
 * It must not block; it may free the member, and is not called any more then. weir_limiter_free waits for a
 * call that is under way, but no longer than leave_ns. */
WEIR_API bool weir_fleet_listen(struct weir_limiter *member, weir_fleet_listener *listener, void *arg);

struct weir_fleet_stat {
    int64_t total, window_ns, burst, base, chunk; /* of this window */
    uint64_t epoch;                               /* its number: later ones are higher */
    int64_t held;                                 /* units that may be spent here; below 0: a debt */
    int64_t ends_in_ns;                           /* the time they may be spent in */
    int64_t left;                                 /* units in the pool when it last answered; -1: not known */
    int64_t waiting;                              /* calls that wait for units */
    int64_t taken, spent, returned, dropped;      /* units since it joined; dropped: died with their window */
    int64_t orders, writes, failures; /* asked of the coordinator; those that wrote; those without answer */
    int64_t round_ns;                 /* of a question to it and back */
    int32_t connected, exhausted, lost, sharing; /* 1 or 0 */
};
WEIR_API bool weir_fleet_stat(struct weir_limiter *member, struct weir_fleet_stat *stat);

/* Calls `each` with the name of every member of this process whose window is used up. Gives how many. */
WEIR_API size_t weir_fleet_exhausted(void (*each)(void *arg, const char *name), void *arg);

/* ---- exact mode: Redis decides each time, nothing is leased ----------------------------------- */

/* One limit (token-bucket or fixed-window; its period in whole microseconds, its rate is not rounded) for any
 * number of keys. Each take is one round trip to Redis, which decides for all machines: for keys of which
 * each is asked rarely, and limits too small to be leased. Only redis:// and redis+cluster://; any thread.
 * What a failover of Redis forgets is full again. Each limit has its own account of a key: one that is
 * changed begins anew, with at most its burst. */
struct weir_exact;
WEIR_API struct weir_exact *weir_exact_open(const char *url, const char *limit, struct weir_error *err);
/* Nobody may use it any more. */
WEIR_API void weir_exact_close(struct weir_exact *exact);
/* Waits for the answer, at most answer= of the URL (2 s). WEIR_LOST: there was none, and what was asked for
 * may be spent. The key has 1 to 512 bytes. A forked child is refused at once (WEIR_LOST); it may open
 * another. */
WEIR_API bool weir_exact_take(struct weir_exact *exact, const char *key, int64_t n,
                              struct weir_verdict *verdict);

#ifdef __cplusplus
}
#endif

#endif
