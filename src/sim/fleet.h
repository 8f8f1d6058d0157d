/* SPDX-License-Identifier: MIT */
/*
 * A whole fleet in virtual time: nodes that run the real lease machine (lease/lease.h), a coordinator, a
 * network between them that loses, delays, repeats and reorders, and faults. One seed gives one history, bit
 * for bit.
 *
 * The judge stands outside and knows real time. Law: of each epoch at most its total is spent, all of it
 * before the next begins; of a bucket, in every interval at most B + R*t, checked by an exact bucket over all
 * spendings in their real order. With faults that have a stated bound (failover that loses writes, two
 * masters, on_loss=share) the bound is what is checked.
 */
#ifndef WEIR_SIM_FLEET_H
#define WEIR_SIM_FLEET_H

#include <stdio.h>

#include "lease/pool.h"

enum sim_coordinator { SIM_ZOOKEEPER, SIM_REDIS, SIM_WEIR };

/* Faults, or-ed. */
enum {
    SIM_LOSS = 1 << 0,      /* requests and replies are lost */
    SIM_DELAY = 1 << 1,     /* some take up to seconds */
    SIM_DUPLICATE = 1 << 2, /* requests arrive twice */
    SIM_REORDER = 1 << 3,
    SIM_CRASH = 1 << 4, /* nodes die and are started again, knowing nothing */
    SIM_PAUSE =
        1 << 5, /* nodes stop for up to several windows, also between an exchange and the look at the clock */
    SIM_PARTITION = 1 << 6, /* nodes are cut off */
    SIM_EXPIRY = 1 << 7,    /* sessions end */
    SIM_CLOCKS = 1 << 8,    /* offsets of years, rates off by rho; wall clocks of coordinators wrong by hours,
                               and stepping */
    SIM_FAILOVER = 1 << 9,  /* another server of the coordinator takes over; Redis loses its last writes */
    SIM_OPERATOR = 1 << 10, /* total and base are changed, znodes written and deleted by hand */
    SIM_LEAVE = 1 << 11,    /* nodes leave in good order and join */
    SIM_ALL = (1 << 12) - 1,
    SIM_SPLIT = 1 << 12 /* Redis: two masters at a time, until one becomes a replica of the other. Not one of
                           all: what passes then is a total for each */
};

struct sim_fleet {
    uint64_t seed;
    int64_t nodes, users, windows; /* users: pools. windows: of each */
    int32_t coordinator;           /* enum sim_coordinator */
    int32_t tiers;                 /* 1: nodes ask it; 2: they ask weir servers, which ask it ... */
    uint32_t faults;
    struct lease_terms terms;
    struct lease_options options;
    double load;   /* units asked for, as a multiple of the total */
    double sparse; /* share of the users that are active in a window */
    bool trust;    /* SIM_REDIS: who takes over is believed: what it has lost comes on top */
};

/* What the judge looks at. Each has a name, so that whoever breaks a rule on purpose can say who notices. */
enum sim_law {
    SIM_TOTAL,    /* of an epoch more was spent than its total, and what was stated to come on top */
    SIM_EPOCH,    /* a unit was spent before its epoch began, or after it had ended */
    SIM_BUCKET,   /* more than B + R*t */
    SIM_GRANTED,  /* the machine put units into the balance that no reply has granted */
    SIM_RETURNED, /* it returned chunks that had not left the balance, or to another epoch than theirs */
    SIM_EARLY,    /* an epoch was ended before its window had passed */
    SIM_SHARE,    /* a node let pass more than its share of a window while the coordinator was lost */
    SIM_FLIGHT,   /* too many orders on the way, an id used twice, or one sent where none may be */
    SIM_FLOW,     /* nothing passed although nothing has been broken for three windows */
    SIM_LAWS
};

enum { SIM_PLOT_MAX = 100 };

struct sim_fleet_result {
    int64_t windows, events; /* that were judged; of the simulation */
    int64_t asked, passed;   /* units */
    int64_t counted, wanted; /* units of judged windows: passed; asked for, of each at most its total */
    double use;              /* the one of the other */
    int64_t orders, writes, chunks, turns;
    int64_t decisions;
    int64_t faults[13]; /* how often each kind happened */
    int64_t over;       /* windows or intervals above their bound, and other laws broken */
    int64_t broken[SIM_LAWS];
    int64_t worst;             /* most units above the total (below 0: none was above) in a window */
    double worst_percent;      /* the most of its total that was spent in a window */
    int64_t bound;             /* most that was stated to come on top of a total */
    double plot[SIM_PLOT_MAX]; /* use of each of the first windows of the first user */
    int64_t plotted;
    int64_t pools, znodes, watches, state_bytes; /* kept by the coordinator, and by a node */
    int64_t members;                             /* pairs of a node and a user */
    uint64_t fingerprint;                        /* of the whole history: equal for equal seeds */
    char first[256];                             /* the first that was over, in words */
};

/* The word for a law, a fault, a coordinator; NULL: there is none with this number. */
const char *weir_sim_law_name(int law);
const char *weir_sim_fault_name(int bit);
const char *weir_sim_coordinator_name(int kind);

/* Complete and check what the command line says. false: `why`. */
bool weir_sim_fleet_check(struct sim_fleet *sim, char *why, size_t size);
/* false: out of memory. `progress` may be NULL: called now and then with windows done of all. */
bool weir_sim_fleet_run(const struct sim_fleet *sim, void (*progress)(void *arg, int64_t done, int64_t all),
                        void *arg, struct sim_fleet_result *result);

#endif
