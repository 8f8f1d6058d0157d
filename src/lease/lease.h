/* SPDX-License-Identifier: MIT */
/*
 * The lease machine: how one node of a fleet gets units in advance from a coordinator, so that what all nodes
 * together let pass is never above what they have agreed on. Pure: no clock, no network, no memory of its
 * own; the node's program and the simulator run the same steps.
 *
 *   pool     what a coordinator keeps under a name: a total per window, or a bucket
 *   epoch    a window of a quota; of a bucket, the time for which its tickets are numbered from one origin
 *   ticket   a number that the coordinator gives out once: stands for a chunk
 *   chunk    units of a ticket: fixed within an epoch
 *   balance      where a node keeps the units that it may spend (limiter/balance.h)
 *   order    what the machine wants of the coordinator; each has one reply, in any order, or is lost
 *
 * Law (quota): units of an epoch E are spent after E began and before the next epoch begins, and their sum is
 * at most the total of E. It rests on four rules.
 *
 *   (1) Taken before spent: only what a reply has granted goes into the balance. An order without a reply has
 *       taken what it asked for, and nobody has it.
 *   (2) Units die with their epoch: they may be spent until `before` + window by the node's own clock,
 *       `before` being the latest moment that it knows to lie before E began: when it sent its own order
 *       that made E; or when it last sent a write whose reply came from an epoch before E. One who knows
 *       none uses the age that the coordinator tells (of one clock, within a guard), or waits for the next
 *       epoch.
 *   (3) An epoch lasts: nobody turns it before window * (1 + rho) / (1 - rho) have passed on his own clock
 *       since he first saw it; rho bounds the error of the clocks' rates. So no two clocks are compared.
 *   (4) Given back before returned: a chunk leaves the balance, then it is returned, to its own epoch only.
 *
 * Law (bucket): ticket k of chunk c may be spent in [s(k), s(k) + life), where s(k) = origin + k*c/R and
 * life = (B - c)/R, by the coordinator's clock. So in any stretch t all nodes together let pass at most
 * B + R*t. Nothing is held back for nodes that hold units, and it does not matter how many there are.
 *
 * A coordinator that turns epochs itself by a monotonic clock (weir://, local:) says with each grant for how
 * long it holds, and the machine never turns anything.
 */
#ifndef WEIR_LEASE_LEASE_H
#define WEIR_LEASE_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lease_kind { LEASE_QUOTA, LEASE_BUCKET };

/* What all nodes agree on. Of a pool: what is to hold from the next epoch on. Of an epoch: what holds in it.
 */
struct lease_terms {
    int32_t kind;      /* enum lease_kind */
    int64_t total;     /* QUOTA: units of a window. BUCKET: the count of the rate, per window */
    int64_t window_ns; /* of a quota; the period of a rate */
    int64_t burst;     /* BUCKET: B of the law */
    int64_t base;      /* the measure of a chunk */
    int64_t chunk;     /* of this epoch */
};

enum lease_loss { LEASE_LOSS_REFUSE, LEASE_LOSS_SHARE };

/* All that the seed of this design had as numbers in its code. 0: the default. */
struct lease_options {
    int32_t prefetch_percent; /* 20: of a chunk left in the balance: ask for the next */
    int32_t above_percent;    /* 200: of base held: what is above base is returned */
    int64_t return_every_ns;  /* 15 s: how often that is looked at; at most a quarter of the window */
    int64_t ready_ns;    /* 10 s: for so long after somebody was there units are kept ready for the next one;
                            at most 4 times as long as units live */
    int32_t rho_ppm;     /* 1000: bound of the error of clocks' rates */
    int64_t guard_ns;    /* age of an epoch by the coordinator's wall clock: it may be wrong by this.
                            Default 100 ms for spending; for turning a quarter of the window, at least
                            1 min and at most 10 */
    bool no_age;         /* never trust it: who has no `before` waits for the next epoch */
    int32_t most_chunks; /* 4: orders to take on the way at once */
    int64_t most_held;   /* 0: no bound but the demand. Units beyond which nothing is prefetched */
    int64_t lost_after_ns;    /* 3 s: no order was answered for so long, and one should have been */
    int64_t answer_ns;        /* 2 s: an order without a reply for so long has none */
    int32_t on_loss;          /* enum lease_loss */
    int64_t nodes;            /* of the fleet; needed for SHARE, and to let chunks grow above base */
    struct lease_terms asked; /* with which the node has come: of which SHARE gives its part until the
                                 coordinator has told the pool's own. total 0: not known */
};

/* ---- orders and replies ---- */

enum lease_op {
    LEASE_LOOK,  /* what is there? Reads may be old: nothing but `terms`, `left` and "E has begun" is believed
                  */
    LEASE_TAKE,  /* `chunks` tickets of whatever epoch is there */
    LEASE_TURN,  /* end `epoch` and begin the next one with `chunk` (QUOTA); number anew (BUCKET) */
    LEASE_PROBE, /* a write that changes nothing: which epoch is it? Renews `before` */
    LEASE_RETURN /* `chunks` of `epoch` come back unspent. The one order that must not be applied twice: a
                    connection delivers once, and nobody sends it again. The others may be: it only costs */
};

struct lease_order {
    uint64_t id; /* never used twice by a machine */
    int32_t op;
    uint64_t epoch;
    int64_t chunks;
    int64_t chunk; /* TURN: units of a chunk in the epoch to begin; RETURN: of those that come back */
};

enum lease_outcome {
    LEASE_DONE,   /* it was applied, in `epoch` */
    LEASE_MOVED,  /* TURN, RETURN: not applied: `epoch` is not the one that was named */
    LEASE_FAILED, /* not applied, for sure: not sent, or refused; `retry_ns` says when to try again */
    LEASE_UNKNOWN /* perhaps applied: connection lost, timeout */
};

struct lease_reply {
    uint64_t id;
    int32_t op;
    int32_t outcome;
    uint64_t epoch; /* in which it was applied, or that was read; 0: not known. Later ones are higher */
    struct lease_terms terms; /* of that epoch; chunk 0: not known */
    int64_t chunks, units;    /* TAKE: granted; RETURN: accepted */
    bool read;                /* nothing was written for it: the epoch is one that was read */
    bool other;               /* perhaps of another server than the reply before, and that one may go on: when
                                 it has answered says nothing of when an epoch began here */
    bool exhausted;           /* TAKE: the pool had no more. */
    bool stale;               /* BUCKET: its next ticket has died unasked: to be numbered anew */
    int64_t left;             /* units left in the pool, as far as is known; -1: not known */
    int64_t retry_ns;         /* exhausted: when there will be more, if the coordinator knows; else 0 */
    int64_t age_ns;           /* QUOTA: of the epoch when it was applied, by the coordinator; -1: not known */
    bool age_exact;           /* by a monotonic clock: no guard is needed */
    int64_t starts_ns;        /* from when it was applied: the units may be spent then. 0: at once */
    int64_t ends_ns;          /* and until then; -1: the machine has to know (QUOTA) */
};

/* One that says nothing but what came of the order. */
static inline struct lease_reply lease_reply_of(const struct lease_order *order, enum lease_outcome outcome)
{
    return (struct lease_reply){.id = order->id,
                                .op = order->op,
                                .outcome = (int32_t)outcome,
                                .left = -1,
                                .age_ns = -1,
                                .ends_ns = -1};
}

/* ---- the machine ---- */

enum lease_event_kind {
    LEASE_WAKE,     /* the time has come, or the balance wants something */
    LEASE_REPLIED,  /* `reply` */
    LEASE_NOTICED,  /* `reply.epoch` was seen to have begun, `reply.terms` if known (a watch, a read) */
    LEASE_MORE,     /* chunks were returned by others: an exhausted pool may have some again */
    LEASE_UP,       /* connected */
    LEASE_DOWN,     /* not connected: orders on the way have no reply (each is still told as UNKNOWN) */
    LEASE_WITHDREW, /* `reply.chunks` whole chunks have left the balance, as the machine wished */
    LEASE_AWAY,     /* the coordinator was never reached, and is taken for lost without waiting any longer */
    LEASE_LEAVE     /* the node goes: return what is whole, ask for nothing more */
};

struct lease_event {
    int32_t kind;
    struct lease_reply reply;
    int64_t sent_ns; /* REPLIED: when the order was given to the coordinator, by the node's clock */
};

/* What the balance says at the moment of a step. */
struct lease_balance_view {
    int64_t held;    /* units that may be spent now or later (grants that have not started included) */
    int64_t wanted;  /* units that somebody waits for beyond these; >= 1 if somebody was refused since */
    int64_t spent;   /* units spent so far, ever */
    int64_t at_once; /* the most that anybody who was refused since has asked for at once */
};

enum { LEASE_ORDERS_MAX = 8, LEASE_GRANTS_MAX = 8 };
struct lease_grant {
    int64_t units;
    int64_t from_ns, until_ns; /* by the node's clock */
};

/* Events for whoever listens: bits. */
enum { LEASE_REFRESHED = 1, LEASE_EXHAUSTED = 2, LEASE_LOST = 4, LEASE_RESTORED = 8 };

struct lease_actions {
    struct lease_order orders[LEASE_ORDERS_MAX]; /* to be sent */
    size_t order_count;
    bool clear;                                  /* first: all units in the balance are void (debts stay) */
    struct lease_grant grants[LEASE_GRANTS_MAX]; /* then: these go into it. QUOTA: until_ns never falls, and
                                                    rises only with `clear` or when nothing is held */
    size_t grant_count;
    int64_t withdraw; /* take up to so many whole chunks of `chunk` units out of the balance, then WITHDREW */
    int64_t chunk;
    int64_t low;         /* from now on: below this the balance asks for a WAKE */
    int64_t wake_ns;     /* WAKE at this time at the latest; WEIR_FOREVER: when something happens */
    int64_t retry_at_ns; /* when somebody who is refused now may hope; WEIR_FOREVER: not known */
    bool exhausted;      /* nothing more in this window, and nothing on the way */
    bool lost;           /* the coordinator is */
    bool sharing;        /* units are the node's own share (on_loss) */
    bool gone;           /* LEAVE is complete */
    uint32_t told;       /* LEASE_REFRESHED ... */
};

/* Plain data: may be copied, compared, printed; the fields are lease.c's own, except that tests look. */
enum { LEASE_FLIGHT_MAX = 8 };
struct lease {
    struct lease_options options; /* complete */
    uint64_t random;              /* of its jitter; a seed gives the same steps */
    uint64_t next_id;
    bool up, leaving;
    bool asked_once; /* QUOTA: its age was looked at, or there is none. BUCKET: something was granted in it */
    bool timed;      /* the coordinator says with each grant for how long it holds */
    bool stale;      /* BUCKET: to be numbered anew */
    uint64_t epoch;  /* the latest that it knows of; 0: none */
    struct lease_terms terms; /* of it; chunk 0: not known yet, so those of before, or as asked for */
    int64_t seen_ns;          /* when it first saw that */
    int64_t before_ns;        /* latest moment before it began; -1: not known */
    int64_t until_ns;         /* its units may be spent until; 0: not at all */
    int64_t last_until_ns;    /* the latest that a balance was ever given */
    int64_t last_from_ns;     /* BUCKET: when the last of what it has may be spent */
    int64_t answered_ns; /* when the last order was sent that was answered in `epoch`: `before` of the next */
    int64_t used;        /* tickets that it knows to be gone, for the size of the next chunk */
    bool exhausted;
    int64_t exhausted_ns; /* when: for the size of the next chunk */
    int64_t more_ns;      /* exhausted: worth asking again then; 0: when the epoch turns */
    struct {
        uint64_t id, epoch;
        int32_t op;
        int64_t sent_ns, chunks;
    } flight[LEASE_FLIGHT_MAX];
    size_t in_flight;
    int64_t turn_at_ns, probe_at_ns, return_at_ns, retry_at_ns, look_at_ns;
    int64_t backoff_ns;
    int64_t quiet_ns; /* since when nothing is answered; 0: all is well */
    bool lost, sharing;
    int64_t share_until_ns, share_units,
        share_spent;         /* a window's share: its end, units, `spent` before it */
    uint64_t withdraw_epoch; /* of what was asked to leave the balance; 0: nothing */
    int64_t withdraw_most, leave_at_ns;
    int64_t doubtful;               /* chunks of orders without an answer: spent by nobody */
    int64_t dropped;                /* units that came too late to be spent */
    int64_t rate_spent, rate_at_ns; /* spending: units since, and per second */
    int64_t rate;
    int64_t busy_ns, busy_spent;      /* when somebody was there last, 0: never; and what was spent by then */
    int64_t at_once, at_once_ns;      /* the most that somebody was refused lately, and when that was */
    int64_t scarce_ns;                /* the pool was exhausted then; 0: never */
    int64_t idle_at_ns, idle_turn_ns; /* nothing is asked for, or turned, before, if it is only kept ready */
    int64_t round_ns;                 /* of an order and its reply, smoothed */
};

/* false: something in the options cannot be meant; `why` says what to write. */
bool weir_lease_options_complete(struct lease_options *options, const char **why);
void weir_lease_begin(struct lease *lease, const struct lease_options *options, uint64_t seed, int64_t now);
void weir_lease_step(struct lease *lease, const struct lease_event *event,
                     const struct lease_balance_view *balance, int64_t now, struct lease_actions *actions);

#endif
