/* SPDX-License-Identifier: MIT */
/*
 * A session with an ensemble of ZooKeepers that is begun anew whenever its connection is lost, with back-off:
 * who is told that it is up has a new one, in which no watch is set. client.c knows the foreign library, and
 * no other file does; its log goes nowhere.
 *
 * Requests go out at once or not at all, and are answered in the order of their sending, each exactly once,
 * from a thread of the library or from the call that closes. No lock is held then.
 */
#ifndef WEIR_FLEET_ZOOKEEPER_CLIENT_H
#define WEIR_FLEET_ZOOKEEPER_CLIENT_H

#include "fleet/zookeeper/stat.h"

struct zclient;

enum zcode {
    ZCODE_OK,
    ZCODE_NONE,    /* there is no such node */
    ZCODE_EXISTS,  /* there is one already, or it has children */
    ZCODE_VERSION, /* it has another version */
    ZCODE_DENIED,  /* its ACL does not let us */
    ZCODE_FAILED,  /* refused for another reason: nothing was written */
    ZCODE_UNSURE   /* connection lost, time over, session ended: perhaps it was written */
};

struct zanswer {
    int32_t code;           /* enum zcode */
    struct znode_stat stat; /* of a get or set; of a multi, of its first set */
    const char *data;       /* of a get */
    size_t len;
    const char *const *names; /* of children */
    size_t name_count;
    size_t failed; /* of a multi: the operation that failed, and code is why */
};
typedef void zdone(void *arg, const struct zanswer *answer);

enum zop_kind { ZOP_CHECK, ZOP_SET, ZOP_CREATE, ZOP_DELETE };
struct zop {
    int32_t kind;
    int32_t version; /* CHECK, SET, DELETE; -1: any */
    const char *path;
    const char *data; /* SET, CREATE */
};
#define ZOPS_MAX 80

struct zclient_owner {
    void (*moved)(void *arg, bool up, const char *why); /* the session is there, or is not */
    void (*changed)(void *arg, uint64_t watch);         /* a watch fired; once for each get */
    void (*tick)(void *arg);                            /* about every 50 ms, from a thread of its own */
    void *arg;
};

/* Waits until it is connected or connect_ns have passed. */
struct zclient *weir_zclient_open(const struct server_url *url, const struct coordinator_options *options,
                                  const struct zclient_owner *owner, struct weir_error *err);
/* All requests are answered when it returns, and nothing is told any more. */
void weir_zclient_close(struct zclient *client);

/* false: there is no connection, or no memory; nothing was sent, and `done` is not called. */
bool weir_zclient_get(struct zclient *client, const char *path, uint64_t watch, zdone *done, void *arg);
/* Takes back what gets of this path with this watch have set; nothing of them is on the way. `shared`: others
 * watch it, too. */
void weir_zclient_unwatch(struct zclient *client, const char *path, uint64_t watch, bool shared);
bool weir_zclient_set(struct zclient *client, const char *path, const char *data, int32_t version,
                      zdone *done, void *arg);
/* All of them or none, in one transaction. */
bool weir_zclient_multi(struct zclient *client, const struct zop *ops, size_t count, zdone *done, void *arg);
bool weir_zclient_children(struct zclient *client, const char *path, zdone *done, void *arg);

#endif
