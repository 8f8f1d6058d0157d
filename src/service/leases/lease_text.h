/* SPDX-License-Identifier: MIT */
/*
 * What is told of leases: as an answer, in INFO, in WEIR.EXPLAIN and in WEIR.POLICY. Never a password.
 */
#ifndef WEIR_SERVICE_LEASES_LEASE_TEXT_H
#define WEIR_SERVICE_LEASES_LEASE_TEXT_H

#include "service/engine/decide.h"

/* What came of WEIR.LEASE. */
struct lease_result {
    uint64_t epoch; /* 0: not known yet */
    int64_t units, chunks;
    int64_t ends_ns;          /* from now on */
    int64_t left;             /* -1: not known */
    int64_t retry_ns;         /* nothing was there: when there may be */
    bool may_come;            /* more is on its way */
    bool full;                /* there is no room for its pool */
    struct lease_terms terms; /* that hold: the pool's, or until they are known the policy's */
};

/* The map of twelve fields. */
void weir_lease_tell(struct reply *reply, const struct fleet_pools *pools, const struct lease_result *result);

/* All pools of a policy together. */
struct lease_sum {
    int64_t pools, connected, lost, exhausted, held;
    int64_t reachable; /* 1: every pool has its coordinator; also if there is none */
    int64_t orders, writes, failures, taken, spent, returned, dropped; /* as in struct weir_fleet_stat */
};
void weir_lease_sum(const struct policy *policy, int64_t now_ns, struct lease_sum *sum);

/* INFO's section, of policies that the user may use. */
void weir_info_fleet(struct worker *worker, const struct user *user, struct buffer *out);
/* Lines of WEIR.EXPLAIN, as text and as ,"fleet":{...} for the pool of that pair. */
void weir_explain_fleet(struct worker *worker, const struct pair *pair, struct buffer *out);
void weir_explain_fleet_json(struct worker *worker, const struct pair *pair, struct buffer *out);
/* "zookeeper://zk1,zk2/weir nodes=500 ...", or "" if it has none. */
#define FLEET_TEXT_MAX 1400
const char *weir_fleet_text(const struct policy *policy, char text[static FLEET_TEXT_MAX]);

#endif
