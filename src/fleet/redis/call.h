/* SPDX-License-Identifier: MIT */
/*
 * Redis as coordinator, inside: who is to be asked, and how a script gets there and back. What is
 * asked is in redis.c and exact.c.
 *
 * Plain (redis://): one server, or several of which one is the master. Whoever says it is (ROLE), of two the
 * one with more replicas; a replica's word about where its master is leads to servers that the URL does not
 * name. Lost, refused as a replica, or silent: all are asked again. One host alone is taken as it is, until
 * it refuses as a replica: then its name may lead to another server by now (a virtual address, a service), so
 * the connection is closed, and a new one is asked for its role, less and less often. It is not left for a
 * server that a replica names: who has named one address alone may have a tunnel there.
 *
 * Cluster (redis+cluster://): each slot has its server, learnt from CLUSTER SLOTS, MOVED and ASK; one that is
 * not known, or cannot be reached, is asked of any server that is.
 */
#ifndef WEIR_FLEET_REDIS_CALL_H
#define WEIR_FLEET_REDIS_CALL_H

#include <pthread.h>
#include <stdatomic.h>

#include "fleet/coordinator.h"
#include "fleet/redis/reply.h"
#include "fleet/redis/script.h"
#include "resp_client/client.h"

#define REDIS_HOSTS_MAX 48 /* of the URL and learnt ones; fewer than RESP_CLIENT_CONNECTIONS_MAX */
#define REDIS_KEY_MAX   600
#define REDIS_WORDS_MAX 16
#define REDIS_HOPS_MAX  6

struct redis_host {
    struct server_host host;
    bool named;    /* by the URL: stays */
    bool open;     /* there is a connection to it */
    uint64_t line; /* each has a number of its own */
};

/* A script, and its name there: so its text need not be sent each time. */
struct redis_text {
    struct redis *redis;
    char *text;
    char sha[48];       /* under the lock; "": not known, the text is sent */
    int64_t load_at_ns; /* under the lock: no server is asked to keep it before */
};

struct redis {
    struct coordinator head;
    struct server_url url;
    struct coordinator_options options; /* complete */
    struct sink sink;
    bool cluster, trust;
    struct resp_client *client;
    struct redis_text texts[REDIS_SCRIPTS];
    pthread_mutex_t lock;          /* of all below and of pools; held while the sink is told */
    _Atomic uint32_t moves;        /* times that `up` has changed: a futex */
    bool up, quiet;                /* quiet: nothing is told any more */
    bool refused;                  /* the last connection or login was: waiting does not help */
    char why[RESP_CLIENT_WHY_MAX]; /* it is not up */
    struct redis_host hosts[REDIS_HOSTS_MAX];
    size_t host_count;
    uint64_t lines;             /* that were opened so far */
    int master;                 /* -1: not known */
    uint8_t slots[REDIS_SLOTS]; /* index of the host, plus 1; 0: not known */
    size_t turn;                /* whom to ask when nobody is known */
    int64_t look_at_ns;         /* the next look for the master, or at the slots */
    int64_t demoted_ns;         /* one host alone: when it was last found to be a replica, */
    int64_t pause_ns;           /* and for how long it is then left in peace */
    struct {
        uint64_t round; /* answers of others are late */
        size_t left;    /* answers to come */
        int best;
        size_t replicas;
        int64_t until_ns; /* with somebody found, others are waited for until then */
    } find;
};

/* ---- who is to be asked ---- */

void weir_redis_route_begin(struct redis *redis);
/* What the client tells; `arg` is the redis. */
void weir_redis_opened(void *arg, const struct server_host *host);
void weir_redis_closed(void *arg, const struct server_host *host, const char *why);
int64_t weir_redis_tick(void *arg, int64_t now);
/* The number of the connection to it, under the lock; 0: there is none. */
uint64_t weir_redis_connection_number(const struct redis *redis, const struct server_host *host);
/* Waits until somebody can be asked. */
bool weir_redis_reach(struct redis *redis, int64_t deadline_ns, struct weir_error *err);

/* ---- there and back ---- */

/* A script on its way. */
struct redis_call {
    struct redis *redis;
    enum redis_script script;
    unsigned slot;
    size_t keys, count; /* words: keys first */
    struct slice words[REDIS_WORDS_MAX];
    size_t used;
    char text[REDIS_KEY_MAX + 512]; /* of the words */
    int64_t deadline_ns;
    /* value: the answer, which is no error. NULL: none; `applied`: perhaps it was done all the same. Once, by
     * the client's thread or within weir_redis_call. */
    void (*done)(struct redis_call *call, const struct resp_value *value, bool applied, const char *why);
    void *arg;
    bool answered; /* `why` is what a server has said */
    /* call.c's own: */
    int hops;
    bool asking, whole; /* ASKING goes before it; the text of the script is sent */
    struct server_host host;
};

void weir_redis_call_init(struct redis_call *call, struct redis *redis, enum redis_script script);
/* Adds a word; what does not fit makes the call fail. A key comes before all others. */
void weir_redis_call_key(struct redis_call *call, const char *key, size_t len);
__attribute__((format(printf, 2, 3))) void weir_redis_call_word(struct redis_call *call, const char *format,
                                                                ...);
void weir_redis_call(struct redis_call *call);
/* The same, and waits for `done`; not by the client's thread. */
void weir_redis_call_wait(struct redis_call *call);

/* "weir:{NAME}:quota". A script has one key only: while a slot moves, no other can be done. */
void weir_redis_pool_key(struct redis_call *call, const char *name);

#endif
