/* SPDX-License-Identifier: MIT */
/*
 * What a fleet costs before it runs: the size of a chunk, how much may lie unspent in chunks, how often the
 * coordinator is written to, what passes at worst when it is lost; and whether that can work at all. Pure.
 *
 * If at most a share e of the total may lie unspent, a chunk is e*T/N and a window costs N/e writes, whatever
 * the total is. A bucket costs R/c writes a second.
 */
#ifndef WEIR_FLEET_PLAN_H
#define WEIR_FLEET_PLAN_H

#include "lease/lease.h"
#include "resp_client/url.h"
#include "weir-fleet.h"

/* What coordinators are taken to be good for, in writes a second, unless somebody who has measured his own
 * says otherwise: a ZooKeeper ensemble that syncs its log; a Redis server that runs a script; a weir server.
 * A name lives on one server, so clusters of the last two do not make it more. */
#define PLAN_WRITES_ZOOKEEPER 1000
#define PLAN_WRITES_REDIS     20000
#define PLAN_WRITES_WEIR      50000
/* From so many writes a second on it is noted if each is for one unit. */
#define PLAN_WRITES_NOTED 100
/* And a question and its answer take so long. A window holds at least PLAN_ROUNDS of them. */
#define PLAN_ROUND_ZOOKEEPER_NS INT64_C(10000000)
#define PLAN_ROUND_NS           INT64_C(1000000)
#define PLAN_ROUNDS             10

struct fleet_plan_input {
    struct lease_terms terms; /* complete (lease/ticket.h) */
    int64_t nodes;            /* 0: 1 */
    const char *scheme;       /* of the coordinator's URL */
    int64_t writes;           /* a second that it is good for; 0: as above */
    bool share;               /* on_loss: share */
    bool trust;               /* failover=trust */
};

#define PLAN_TEXT_MAX 400

struct fleet_plan {
    int64_t nodes, chunk;
    double unspent;       /* per cent of the total (of a bucket: of its burst), at most */
    int64_t writes;       /* a window */
    double writes_second; /* a second */
    int64_t writes_most;  /* that the coordinator is good for; INT64_MAX: any number */
    int64_t share;        /* units a window that a node lets pass for itself when it is lost; 0: none */
    int64_t over;         /* units above the total, at worst */
    bool works;
    char cost[PLAN_TEXT_MAX]; /* chunk 1 000, at most 1 % unspent in chunks, 50 000 coordinator writes ... */
    char lost[PLAN_TEXT_MAX]; /* coordinator lost: ... */
    char why[PLAN_TEXT_MAX];  /* it does not work: because of what, and what to write instead; else "" */
};

void weir_fleet_plan_make(struct fleet_plan *plan, const struct fleet_plan_input *ask);
/* The same with what the coordinator's URL and the options say. */
void weir_fleet_plan_at(struct fleet_plan *plan, const struct lease_terms *terms,
                        const struct server_url *url, const struct weir_fleet_options *options);

/* "a minute", "a day", "every 90 s": a window, behind a number. */
#define PLAN_WINDOW_MAX 80
const char *weir_fleet_plan_window(int64_t window_ns, char text[static PLAN_WINDOW_MAX]);

#endif
