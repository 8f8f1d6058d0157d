/* SPDX-License-Identifier: MIT */
/*
 * Pools at an ensemble, as one process knows them: what was read of their nodes (load.c) and the
 * orders that are on the way (orders.c).
 *
 * A write is believed by its Stat alone: a set of `usable` tells its epoch and its ticket. What was read only
 * says which terms an epoch has, and which versions a multi has to check; a read that was old makes the multi
 * fail, nothing worse.
 *
 * Which epoch is it? The versions of `refresh` and of the pool's own node say so together: `refresh` is
 * written by every turn, the pool's node whenever something had to be made anew. So a multi that checks both
 * is applied in the epoch that they were read in. `weir quota delete` leaves the pool's node, so its version
 * goes on. (One that was deleted by hand as a whole begins with a version drawn by lot: if it is made anew
 * before a node has looked, and nobody had ever turned it, 1 of 32 is mistaken for the old one.)
 *
 * Epochs only rise, and whoever reads an earlier one than he knows is behind; unless a write that checks the
 * versions he has read is applied: then the data was lost, and an old copy is in its place.
 *
 * One lock for each coordinator; the sink is called under it.
 */
#ifndef WEIR_FLEET_ZOOKEEPER_POOL_H
#define WEIR_FLEET_ZOOKEEPER_POOL_H

#include <pthread.h>

#include "fleet/name_trie.h"
#include "fleet/zookeeper/client.h"

#define ZOO_TAKE_MAX   32 /* tickets of an order */
#define ZOO_RETURN_MAX 32 /* chunks of one */
#define ZOO_LOADS_MAX  32 /* pools that are read at a time */
#define ZOO_TRIES_MAX  8  /* steps until a pool is whole and read */

struct zookeeper {
    struct coordinator head;
    struct zclient *client;
    struct sink sink;
    struct coordinator_options options; /* complete */
    char root[256];
    pthread_mutex_t lock; /* of all that follows, and of pools and orders */
    bool up;
    bool no_time;             /* no right to write the node above all pools */
    struct zoo_pool **zpools; /* by the lower half of their watch; NULL: free */
    size_t zpool_count, zpool_capacity;
    struct name_trie trie;          /* the same ones, by name */
    struct zoo_order *first, *last; /* without a reply, in the order of their deadlines */
    struct zoo_pool *to_load, *to_load_last;
    bool starts_loading; /* weir_zoo_load_next is at it */
    size_t loading;
    uint64_t entered;  /* pools so far */
    size_t free_zpool; /* no free index is below it */
    uint64_t random;
};

/* A node as it was read. */
struct znode_value {
    struct zoo_load *load;
    int32_t code; /* enum zcode */
    struct znode_stat stat;
    size_t len;
    char text[ZNODE_TEXT_MAX]; /* longer ones are cut, and then they are nonsense */
};

/* May this user write the pool? */
enum zoo_right {
    ZOO_RIGHT_ASSUMED, /* nothing speaks against it */
    ZOO_RIGHT_THERE,
    ZOO_RIGHT_DENIED
};

/* A pool that is being read. */
struct zoo_load {
    struct zoo_pool *zpool;
    size_t waiting;
    int tries;
    struct znode_value nodes[ZNODE_COUNT];
};

struct zoo_pool {
    struct zookeeper *zoo;
    uint64_t watch;   /* its name at the client; 0: it was left */
    uint64_t watched; /* the same, then, too */
    struct name_node entry;
    void *owner;
    char name[FLEET_NAME_MAX + 1];
    struct lease_terms asked;

    uint64_t epoch; /* the latest that was read, or turned; 0: none. What follows is of it */
    struct znode_epoch terms;
    int32_t pool_version, refresh_version, returns_version;
    int64_t pool_wait_ns; /* that its own node says */
    int64_t returned;
    struct znode_stat usable; /* the latest known */
    int64_t usable_ns;        /* when, by the monotonic clock; 0: it was only read */
    bool crowded;             /* BUCKET: others ask so often that the last ticket was too far ahead */
    struct znode_value total, base;
    char note[160]; /* of total and base */
    uint64_t lost;  /* the latest epoch that was known and is no more: the data is an old copy. 0: none */

    struct zoo_load *load; /* that is under way; NULL: none */
    bool load_due, load_again;
    struct zoo_pool *next_to_load;
    bool troubled;
    int32_t right;             /* enum zoo_right */
    struct zoo_order *waiting; /* until it is read */
    size_t orders;             /* that have not been freed */
};

struct zoo_ticket {
    struct zoo_order *order;
    int32_t code;
    struct znode_stat stat;
};

struct zoo_order {
    struct zoo_pool *zpool;
    struct zoo_order *next, *before; /* of those without a reply */
    struct lease_order asked;
    int64_t deadline_ns;            /* monotonic */
    struct zoo_order *next_waiting; /* of those that wait until the pool is read */
    bool replied;
    int tries;
    uint64_t epoch; /* TURN: what it made; TAKE: of `returned` */
    int64_t returned;
    struct znode_epoch made;
    int64_t pool_wait_ns;  /* TURN: what it wrote into the pool's own node; 0: nothing */
    int64_t ctime_ms;      /* PROBE: when its epoch began, by its leader */
    size_t waiting, count; /* things that will still touch it; tickets */
    struct zoo_ticket tickets[ZOO_TAKE_MAX];
};

/* ---- load.c ---- */

/* Reads all nodes of the pool, and makes what is missing. Then weir_zoo_loaded. */
void weir_zoo_load(struct zoo_pool *zpool);
/* It was left, and nothing of it is on the way. */
void weir_zoo_unwatch(struct zoo_pool *zpool);
/* The next that are due, if not too many are under way. */
void weir_zoo_load_next(struct zookeeper *zoo);
/* The terms that the next epoch would have. */
void weir_zoo_next_terms(struct zoo_pool *zpool, int64_t chunk, struct lease_terms *terms);
/* Tells why the pool cannot work, or, "", that it can again. */
void weir_zoo_trouble(struct zoo_pool *zpool, const char *why);
/* Once more, unless it does not come to an end. */
void weir_zoo_reload(struct zoo_load *load);
/* What waits for it goes on; `why`: it cannot. */
void weir_zoo_end_load(struct zoo_load *load, bool ok, const char *why);
void weir_zoo_report_denied(struct zoo_load *load);

/* ---- create.c ---- */

struct zoo_texts {
    char paths[ZNODE_COUNT][ZNODE_PATH_MAX];
    char pool[ZNODE_TEXT_MAX], total[ZNODE_TEXT_MAX], base[ZNODE_TEXT_MAX], refresh[ZNODE_TEXT_MAX],
        usable[32];
};
void weir_zoo_texts(struct zoo_texts *texts, const char *root, const char *name,
                    const struct znode_epoch *epoch);
/* The operations that make a pool, without its ancestors; `lots`: what its version begins with. */
size_t weir_zoo_create_ops(const struct zoo_texts *texts, size_t lots, struct zop ops[ZOPS_MAX]);
/* Those that make it whole, as it was read: its own node is there. The first one sets that. */
size_t weir_zoo_repair_ops(const struct zoo_texts *texts, const struct znode_value nodes[ZNODE_COUNT],
                           struct zop ops[ZOPS_MAX]);
/* The epoch of a pool of which nobody knows what was given out: nothing may be spent in it until all of that
 * has ended. `known`: the best that is known of its terms. The texts are of it, but `total` is what holds
 * from the next one on. */
void weir_zoo_repaired(const struct znode_epoch *known, const struct znode_value nodes[ZNODE_COUNT],
                       struct znode_epoch *epoch, struct zoo_texts *texts, const char *root,
                       const char *name);
/* There is none; or it is broken, or was deleted. Then it is read again. */
void weir_zoo_create_pool(struct zoo_load *load);
void weir_zoo_repair_pool(struct zoo_load *load);
/* The path above pools and all above that, from the top. */
size_t weir_zoo_ancestors(const char *root, char paths[][ZNODE_PATH_MAX], size_t most);
#define ZOO_ANCESTORS_MAX 32

/* ---- take.c, turn.c: what an order does, now or again ---- */

void weir_zoo_take(struct zoo_order *order);
void weir_zoo_finish_take(struct zoo_order *order);
/* BUCKET: an operator has written other terms. They begin with a new numbering. */
bool weir_zoo_has_new_terms(struct zoo_pool *zpool);
void weir_zoo_turn(struct zoo_order *order);
void weir_zoo_probe(struct zoo_order *order);
void weir_zoo_return(struct zoo_order *order);

/* ---- orders.c ---- */

#define ZOO_RETRY_NS  (20 * WEIR_MS) /* something was in the way that is gone soon */
#define ZOO_DENIED_NS WEIR_SEC

/* An order is gone after each of these, unless something will still touch it. */
void weir_zoo_answer(struct zoo_order *order, const struct lease_reply *reply);
void weir_zoo_answer_outcome(struct zoo_order *order, enum lease_outcome outcome, int64_t retry_ns);
void weir_zoo_release(struct zoo_order *order);
/* Waits until the pool is read, and runs again; not for ever. */
void weir_zoo_load_first(struct zoo_order *order);
/* A write was refused: says so, until the right is there. */
void weir_zoo_denied(struct zoo_pool *zpool);
/* Asks for the right to write, without writing anything, and runs again; or fails. */
void weir_zoo_right_first(struct zoo_order *order);

void weir_zoo_order(struct zoo_pool *zpool, const struct lease_order *order);
/* What waited for it goes on; ok false: it could not be read. */
void weir_zoo_loaded(struct zoo_pool *zpool, bool ok);
/* Orders whose time is over get their reply. */
void weir_zoo_expire(struct zookeeper *zoo, int64_t now_ns);
/* No reply is told any more. */
void weir_zoo_forget_orders(struct zoo_pool *zpool);
/* Frees a pool that was left as soon as nothing of it is on the way. */
void weir_zoo_pool_release(struct zoo_pool *zpool);

/* ---- quota.c ---- */

bool weir_zoo_quota(struct coordinator *coordinator, const struct quota_ask *ask, struct quota_answer *answer,
                    struct weir_error *err);

#endif
