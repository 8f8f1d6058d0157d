/* SPDX-License-Identifier: MIT */
/*
 * A coordinator: where pools are kept. One file (or a few) for each kind; each brings its own threads and
 * sockets, takes orders (lease/lease.h) and answers them later, from any thread, into the sink it was opened
 * with.
 *
 * Law: each order gets exactly one reply, LEASE_UNKNOWN at the latest when its handle is left, the connection
 * is lost, or options.answer_ns have passed. LEASE_DONE and LEASE_FAILED are certain; whoever is in doubt
 * says UNKNOWN. A reply to a write tells the epoch in which it was applied by the coordinator's own order of
 * writes, never one that was read.
 */
#ifndef WEIR_FLEET_COORDINATOR_H
#define WEIR_FLEET_COORDINATOR_H

#include "lease/ticket.h"
#include "resp_client/url.h"
#include "weir.h"

#define FLEET_NAME_MAX                                                                                       \
    255 /* bytes of a pool's name: letters, digits, - _ . : @ and no other; not . or ..                      \
         */

struct coordinator;
struct pool_handle; /* a pool, as this coordinator knows it */

/* What it tells, from any thread; must not block and must not call back into the coordinator. */
struct sink {
    void (*replied)(void *owner, const struct lease_reply *reply); /* owner: of the handle */
    void (*noticed)(void *owner, const struct lease_reply *seen); /* LEASE_NOTICED: an epoch, perhaps terms */
    void (*more)(void *owner);                                    /* LEASE_MORE */
    void (*moved)(void *agent, bool up, const char *why);         /* the connection; `why` it went, a line */
    /* May be NULL. Why orders of this handle are not carried out although the coordinator is there, a line:
     * what it answered (no such name, no right to it), or that of several servers the one that keeps this
     * name is away; "": it is well again. Of the handle, as `replied` is. */
    void (*troubled)(void *owner, const char *why);
    void *agent;
};

struct coordinator_options { /* fleet/options.c knows their defaults and bounds */
    int64_t answer_ns;       /* see above */
    int64_t connect_ns;      /* how long `open` may take to reach it */
    int64_t session_ns;      /* ZooKeeper */
};

/* For `weir quota`: blocking, at most `connect_ns` + `answer_ns`. */
enum quota_op { QUOTA_CREATE, QUOTA_SHOW, QUOTA_SET, QUOTA_DELETE, QUOTA_LIST };
struct quota_ask {
    int32_t op;
    const char *name;         /* which weir_fleet_name_check lets pass. LIST: NULL */
    struct lease_terms terms; /* CREATE: complete. SET: what is 0 stays */
    /* LIST: called for each name. */
    void (*each)(void *arg, const char *name);
    void *arg;
};
struct quota_answer {
    bool found; /* SHOW: there is such a pool. DELETE: there was. CREATE: there was one already, and `next` is
                   its own */
    struct lease_terms next;  /* what is said now */
    struct lease_terms terms; /* of the epoch */
    uint64_t epoch;
    int64_t used, returned; /* tickets asked for, chunks that came back: exact when it was read */
    int64_t left;           /* units: exact */
    int64_t age_ns;         /* of the epoch by the coordinator's clock; -1: not known */
    char note[160];         /* something wrong that was found and passed over, or "" */
};

struct coordinator_ops {
    /* Reaches it, or says why not within options->connect_ns. */
    struct coordinator *(*open)(const struct server_url *url, const struct coordinator_options *options,
                                const struct sink *sink, struct weir_error *err);
    void (*close)(struct coordinator *coordinator); /* no handle is left; nothing is told after it */
    /* A pool by its name, made with these terms if there is none (an existing one keeps its own). Does not
     * wait: the first order does what is needed. weir_fleet_name_check lets the name pass. NULL: out of
     * memory. */
    struct pool_handle *(*enter)(struct coordinator *coordinator, const char *name,
                                 const struct lease_terms *terms, void *owner, struct weir_error *err);
    void (*leave)(struct pool_handle
                      *handle); /* orders on the way are answered UNKNOWN before it returns, or never again */
    void (*order)(struct pool_handle *handle, const struct lease_order *order);
    bool (*quota)(struct coordinator *coordinator, const struct quota_ask *ask, struct quota_answer *answer,
                  struct weir_error *err);
    /* One decision for one round trip, without leases (redis:// alone; else NULL): docs/fleet.md, exact mode.
     */
    bool (*decide)(struct coordinator *coordinator, const char *key, const struct weir_spec *spec, int64_t n,
                   struct weir_verdict *verdict, struct weir_error *err);
};

struct coordinator { /* every kind begins with it */
    const struct coordinator_ops *ops;
};

extern const struct coordinator_ops weir_coordinator_zookeeper, weir_coordinator_redis, weir_coordinator_weir,
    weir_coordinator_local;

/* The kind for a URL; NULL: `err` names the schemes there are. */
const struct coordinator_ops *weir_coordinator_kind(const struct server_url *url, struct weir_error *err);

/* Is this a name that every coordinator can keep? `err` says what is wrong. */
bool weir_fleet_name_check(const char *name, struct weir_error *err);

/* Opens one for who enters nothing, so that nothing is told. */
struct coordinator *weir_coordinator_open(const struct coordinator_ops *kind, const struct server_url *url,
                                          struct weir_error *err);

/* Opens the coordinator of a URL, asks, closes it. */
bool weir_quota_ask(const char *url, const struct quota_ask *ask, struct quota_answer *answer,
                    struct weir_error *err);

#endif
