/* SPDX-License-Identifier: MIT */
/*
 * The inside of the simulated fleet: one pool with all who share it. Pools do not touch each other, so they
 * are simulated one after the other, and the memory is that of one.
 *
 * Everything happens at events, in the order of real time; of two at the same moment the one that was
 * planned first. Nodes and coordinators know only their own clocks.
 *
 *   world     one pool's fleet
 *   node      who runs a lease machine: a leaf, where units are spent, or a server of a tier, which leases on
 *   root      the coordinator itself
 *   piece     units that were granted together: they have one end, and one epoch as the root knows it
 *   judge     sees every spending in real time
 *
 * While a Redis has two masters there are two roots with a judge each. One of them is at home in the world;
 * the other is put in its place for as long as it is asked, or something that it gave out is spent.
 */
#ifndef WEIR_SIM_FLEET_WORLD_H
#define WEIR_SIM_FLEET_WORLD_H

#include "base/random.h"
#include "base/sat.h"
#include "sim/fleet.h"
#include "weir.h"

enum { PIECES_MAX = 48, TAKEN_MAX = 6, WAITERS_MAX = 4, HELD_MAX = 16, FLIGHT_MAX = 16, EPOCHS_MAX = 4 };

/* ---- random numbers ---- */

/* low..high, both included. */
static inline int64_t random_between(uint64_t *random, int64_t low, int64_t high)
{
    return low + random_below(random, high - low + 1);
}

/* True once in `times`. */
static inline bool random_once_in(uint64_t *random, int64_t times)
{
    return random_below(random, times) == 0;
}

/* low..high, every order of magnitude as likely as any other; low >= 1. */
static inline int64_t random_magnitude(uint64_t *random, int64_t low, int64_t high)
{
    int bits = 0;
    while (bits < 62 && low << (bits + 1) > 0 && low << (bits + 1) <= high)
        bits++;
    int64_t least = low << random_below(random, bits + 1);
    int64_t most = least > high / 2 ? high : 2 * least;
    return random_between(random, least, most);
}

/* About as the gaps between independent arrivals are: -log2 of a random number, its fraction straight, times
 * the mean. */
static inline int64_t random_gap(uint64_t *random, int64_t mean)
{
    uint64_t x = random_next(random) | 1;
    int zeros = __builtin_clzll(x);
    uint64_t fraction = zeros < 48 ? x << zeros << 1 >> 48 : 0;
    double log2 = (double)zeros + 1.0 - (double)fraction / 65536.0;
    return (int64_t)(log2 * 0.667 * (double)mean) + 1;
}

/* ---- time ---- */

/* A clock that was right about nothing but, within rho, its rate. */
struct sim_clock {
    int64_t real_ns, own_ns; /* they belong together */
    int64_t ppb;             /* faster than real time by */
};

int64_t weir_sim_clock(const struct sim_clock *clock, int64_t real_ns);
/* The earliest real time at which it shows `own_ns`. */
int64_t weir_sim_clock_real(const struct sim_clock *clock, int64_t own_ns);
/* From now on it has another rate. */
void weir_sim_clock_rate(struct sim_clock *clock, int64_t real_ns, int64_t ppb);

/* ---- events ---- */

enum sim_event_kind {
    EVENT_TIMER,   /* of a node: wake, orders without a reply, grants that begin */
    EVENT_ARRIVAL, /* somebody asks a leaf for units */
    EVENT_LOOK,    /* who took units out of a balance long ago looks at the clock */
    EVENT_REQUEST, /* at the root or a server */
    EVENT_REPLY,
    EVENT_NOTICE, /* a watch */
    EVENT_LINK,   /* a connection is made or lost */
    EVENT_START,  /* a node is started */
    EVENT_FAULT,
    EVENT_RUSH, /* everywhere all that is held is spent at once */
    EVENT_UNITE /* of two masters one is left */
};

struct sim_event {
    int64_t at_ns;
    uint64_t number;
    int32_t kind;
    uint32_t node, life;
    int32_t message; /* -1: none */
};

struct sim_event_heap {
    struct sim_event *items;
    size_t count, size;
    uint64_t next;
};

bool weir_sim_heap_push(struct sim_event_heap *heap, struct sim_event event);
struct sim_event weir_sim_heap_pop(struct sim_event_heap *heap);

/* Where units come from, as the root knows it. */
struct sim_origin {
    uint64_t epoch;             /* 0: not from the root: a share */
    int64_t starts_ns, ends_ns; /* by its monotonic clock; WEIR_FOREVER: as long as the epoch */
    uint32_t master;            /* which root */
    int64_t used;               /* tickets of the epoch that were given out by then */
};

struct sim_units {
    int64_t units, from_ns, until_ns; /* by the node's clock */
    struct sim_origin origin;
    bool share; /* the node's own, while the coordinator was lost */
};

struct sim_message {
    struct lease_order order;
    struct lease_reply reply;
    struct sim_origin origin; /* of the units in the reply */
    struct sim_units taken[TAKEN_MAX];
    int32_t taken_count;
    int32_t next;    /* in the list of free ones */
    bool up, more;   /* EVENT_LINK, EVENT_NOTICE */
    uint32_t master; /* EVENT_REQUEST: for whom; and what its sender has seen */
    uint64_t known;
    int64_t seen;
};

/* ---- nodes ---- */

struct sim_balance {
    struct sim_units pieces[PIECES_MAX];
    int32_t count;
    int64_t spent;
};

struct sim_flight {
    uint64_t id;
    int32_t op;
    int64_t sent_ns, end_ns; /* by the node's clock */
};

struct sim_waiter {
    int64_t units, until_ns; /* real */
};

/* A question that a server answers when it has units, or can wait no longer. */
struct sim_waiting_order {
    struct lease_order order;
    uint32_t node, life; /* who asks */
    int64_t until_ns;    /* by the server's clock */
};

struct sim_node {
    struct sim_clock clock;
    struct lease lease;
    struct sim_balance balance;
    struct sim_flight flights[FLIGHT_MAX];
    int32_t flight_count;
    int32_t parent; /* -1: the root */
    uint32_t life;
    bool alive, up, cut, leaving;
    bool exhausted;                    /* the machine said */
    int64_t stopped_until_ns;          /* real */
    int64_t out_ns, in_ns;             /* without SIM_REORDER: nothing arrives before what was sent earlier */
    int64_t timer_ns;                  /* real: the earliest timer in the heap; WEIR_FOREVER: none */
    int64_t wake_ns, low, retry_at_ns; /* as the machine said */
    struct sim_waiter waiters[WAITERS_MAX];
    int32_t waiter_count;
    int64_t refused;        /* units, since the machine was last asked */
    int64_t at_once;        /* the most of them for one */
    int64_t weight;         /* of its share of the load */
    int64_t received;       /* units of replies that have not become grants */
    int64_t withdrawn;      /* chunks that left the balance and have not been returned */
    uint64_t last_id;       /* of an order */
    struct sim_origin told; /* of the latest reply with units: what is granted later comes from it */
    int64_t share_end_ns, share_spent; /* of its window without the coordinator, by its own clock */
    int64_t peers;                     /* nodes of its tier */
    int64_t lent, lent_until_ns;       /* a server: chunks leased on with this end, by its clock */
    uint64_t lent_epoch;
    struct sim_waiting_order held[HELD_MAX]; /* the first is the oldest */
    int32_t held_count;
    uint32_t master;      /* that it asks, if that is a root */
    uint32_t answered_by; /* which one has answered last */
    uint64_t known; /* the latest epoch that it has seen, and how many tickets of it had been given out */
    int64_t seen;
};

/* ---- the coordinator ---- */

struct sim_root {
    uint32_t id;
    struct lease_pool pool, replica, old; /* old: what a reader may see */
    int64_t since_ns, replica_since_ns;   /* real: when their epochs began */
    struct sim_clock clock;               /* monotonic */
    int64_t wall_ns;                      /* added to it: the wall clock */
    int64_t wobble_ns, wobble_most_ns;
    uint64_t term, epoch_term; /* of its leader; when the epoch was made */
    uint64_t last_epoch;       /* highest number ever given */
    int64_t down_until_ns;
    bool floored;      /* this epoch waits for units of the one before to die */
    int64_t latest_ns; /* that its clock has shown */
    int64_t unsaved;   /* units granted since the replica was last equal */
};

/* ---- the judge ---- */

struct sim_judged_epoch {
    uint64_t epoch;
    int64_t began_ns, ends_ns; /* real */
    int64_t total, spent, asked, extra;
};

struct sim_judge {
    struct sim_judged_epoch epochs[EPOCHS_MAX]; /* the last is the present one */
    int64_t window_ns;
    int64_t shared_now, shared_before; /* units of shares: in this epoch, in the one before */
    int64_t most_total;                /* of any epoch so far: a node that is cut off may know an old one */
    int64_t lost_now, lost_ns; /* units of writes that failovers have lost; when the last of them was */
    bool was_over;
    /* bucket */
    weir_i128 level, full, credit, lost; /* credit and lost may come on top */
    int64_t level_ns, credit_until_ns;
    int64_t flowed; /* units since faults ended */
};

/* A master, and what is known of what it gave out. */
struct sim_master {
    struct sim_root root;
    struct sim_judge judge;
};

struct sim_world {
    const struct sim_fleet *sim;
    struct sim_fleet_result *result;
    uint64_t random;
    struct lease_terms terms;
    struct lease_options options; /* complete */
    struct sim_event_heap heap;
    struct sim_message *messages;
    size_t message_count;
    int32_t message_free;
    struct sim_node *nodes; /* servers first, tier by tier, then leaves */
    size_t node_count, server_count, node_size;
    struct sim_root root;
    struct sim_judge judge;
    uint32_t masters;                 /* that there were, after the first */
    bool split;                       /* `other` is a master, too */
    struct sim_master other;          /* else: the last that was */
    int64_t split_after_ns;           /* real: until then something of it may be alive */
    int64_t now_ns, quiet_ns, end_ns; /* real */
    int64_t user;
    int64_t weights, size;          /* of all leaves; mean of what is asked for at once */
    uint64_t *active, *bits;        /* windows in which somebody asks; NULL: all */
    int64_t asked, passed;          /* units */
    int64_t loss, delay, duplicate; /* one message in so many */
    bool failed;                    /* out of memory */
};

static inline bool faulty(const struct sim_world *world, uint32_t fault)
{
    return (world->sim->faults & fault) != 0 && world->now_ns < world->quiet_ns;
}

static inline struct sim_node *sim_node_at(struct sim_world *world, uint32_t index)
{
    return &world->nodes[index];
}

static inline uint32_t sim_node_index(const struct sim_world *world, const struct sim_node *node)
{
    return (uint32_t)(node - world->nodes);
}

static inline int64_t own_time(const struct sim_world *world, const struct sim_node *node)
{
    return weir_sim_clock(&node->clock, world->now_ns);
}

static inline void sim_mix_fingerprint(struct sim_world *world, uint64_t a, uint64_t b)
{
    uint64_t x = world->result->fingerprint ^ a * UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 29) * UINT64_C(0xBF58476D1CE4E5B9) ^ b;
    world->result->fingerprint = (x ^ x >> 32) * UINT64_C(0x94D049BB133111EB);
}

/* fleet.c */
void weir_sim_plan(struct sim_world *world, int64_t at_ns, int32_t kind, const struct sim_node *node,
                   int32_t message);
int32_t weir_sim_message(struct sim_world *world); /* -1: out of memory */
void weir_sim_message_free(struct sim_world *world, int32_t message);

/* fleet_balance.c: units with their ends. Times are the node's own. */
int64_t weir_sim_balance_ready(const struct sim_balance *balance, int64_t now);
int64_t weir_sim_balance_held(const struct sim_balance *balance, int64_t now);
/* Takes n out, as pieces; false: they are not there. */
bool weir_sim_balance_take(struct sim_balance *balance, int64_t now, int64_t n, struct sim_units *taken,
                           int32_t *count);
void weir_sim_balance_put(struct sim_balance *balance, struct sim_units piece, int64_t now);
int64_t weir_sim_balance_withdraw(struct sim_balance *balance, int64_t now, int64_t chunk, int64_t most);
/* When the next piece begins that has not; WEIR_FOREVER: there is none. */
int64_t weir_sim_balance_begins(const struct sim_balance *balance, int64_t now);

/* fleet_node.c: the machine and what it says */
void weir_sim_node_start(struct sim_world *world, struct sim_node *node);
/* `origin`: of the units in a reply, or NULL. */
void weir_sim_node_step(struct sim_world *world, struct sim_node *node, const struct lease_event *event,
                        const struct sim_origin *origin);
void weir_sim_node_tell(struct sim_world *world, struct sim_node *node, int32_t kind);
void weir_sim_node_timer(struct sim_world *world, struct sim_node *node);
void weir_sim_node_plan(struct sim_world *world, struct sim_node *node);
/* It has spent this, or leased it on. */
void weir_sim_node_spent(struct sim_world *world, struct sim_node *node, const struct sim_units *piece);

/* fleet_spend.c: who asks a leaf, and who waits there */
void weir_sim_spend_begin(struct sim_world *world, struct sim_node *node);
void weir_sim_spend_arrival(struct sim_world *world, struct sim_node *node);
void weir_sim_spend_look(struct sim_world *world, struct sim_node *node, const struct sim_message *message);
void weir_sim_spend_waiters(struct sim_world *world, struct sim_node *node);
void weir_sim_spend_rush(struct sim_world *world);
/* All that a leaf holds, at once. */
void weir_sim_spend_all(struct sim_world *world, struct sim_node *node);
void weir_sim_spend_plan_rush(struct sim_world *world);

/* fleet_net.c: orders and replies on their way */
void weir_sim_net_send(struct sim_world *world, struct sim_node *node, const struct lease_order *order);
/* `life`: of the node that has sent it; another one gets no answer. */
void weir_sim_net_request(struct sim_world *world, struct sim_node *node, uint32_t life, int32_t message);
/* What it has been told of its order begins its way. */
void weir_sim_net_answer(struct sim_world *world, struct sim_node *node, uint32_t life,
                         const struct sim_message *message);
void weir_sim_net_reply(struct sim_world *world, struct sim_node *node, const struct sim_message *message);
void weir_sim_net_link(struct sim_world *world, struct sim_node *node, bool up);
void weir_sim_net_expire(struct sim_world *world, struct sim_node *node);
void weir_sim_net_notice(struct sim_world *world, const struct lease_reply *seen, bool more);

/* fleet_root.c, fleet_tier.c: who answers */
void weir_sim_root_begin(struct sim_world *world);
int64_t weir_sim_root_time(const struct sim_world *world);
void weir_sim_root_apply(struct sim_world *world, const struct lease_order *order,
                         struct sim_message *message);
void weir_sim_root_fail_over(struct sim_world *world);
void weir_sim_root_operator(struct sim_world *world);
void weir_sim_root_clock(struct sim_world *world);
/* What was granted is not known here: an epoch in which nothing is to be had; or, trusted, a full one. */
void weir_sim_root_doubt(struct sim_world *world);
/* false: the answer comes later. */
bool weir_sim_tier_apply(struct sim_world *world, struct sim_node *server,
                         const struct sim_waiting_order *ask, struct sim_message *message);
/* Answers who had to wait and need not any more. */
void weir_sim_tier_serve(struct sim_world *world, struct sim_node *server);
/* When the first of them can wait no longer; WEIR_FOREVER: nobody waits. */
int64_t weir_sim_tier_next(const struct sim_node *server);
/* Units that one of them needs. */
int64_t weir_sim_tier_wanted(const struct sim_world *world, const struct sim_node *server);

/* fleet_split.c: two masters at a time */
/* It begins; or, while there are two, a node goes over to the other one. */
void weir_sim_split(struct sim_world *world, struct sim_node *node);
void weir_sim_split_end(struct sim_world *world);
/* Puts the other one in the place of the one at home; once more: back. */
void weir_sim_split_face(struct sim_world *world);
/* Whom a node asks that connects now. */
void weir_sim_split_choose(struct sim_world *world, struct sim_node *node);
bool weir_sim_split_is_down(const struct sim_world *world, const struct sim_node *node);
/* false: who was asked is no master any more. */
bool weir_sim_split_apply(struct sim_world *world, struct sim_message *message);

/* fleet_fault.c */
/* When the next one strikes. */
void weir_sim_fault_plan(struct sim_world *world);
void weir_sim_fault(struct sim_world *world);
void weir_sim_fault_happened(struct sim_world *world, uint32_t fault);

/* fleet_judge.c */
void weir_sim_judge_begin(struct sim_world *world);
/* Of a second master, which has given out nothing so far. */
void weir_sim_judge_split(struct sim_world *world);
/* The one in place grants nothing any more. When all of that is dead, in real time. */
int64_t weir_sim_judge_unite(struct sim_world *world);
void weir_sim_judge_epoch(struct sim_world *world, uint64_t epoch, int64_t total, int64_t ends_ns,
                          bool floored);
void weir_sim_judge_asked(struct sim_world *world, int64_t units);
void weir_sim_judge_spent(struct sim_world *world, const struct sim_node *node,
                          const struct sim_units *piece);
void weir_sim_judge_lost(struct sim_world *world, int64_t units);
void weir_sim_judge_stepped(struct sim_world *world, int64_t by_ns);
void weir_sim_judge_end(struct sim_world *world);
__attribute__((format(printf, 3, 4))) void weir_sim_broken(struct sim_world *world, int law,
                                                           const char *format, ...);

#endif
