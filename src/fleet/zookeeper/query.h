/* SPDX-License-Identifier: MIT */
/* Requests to an ensemble that are waited for, one after the other or many at a time, until a deadline. */
#ifndef WEIR_FLEET_ZOOKEEPER_QUERY_H
#define WEIR_FLEET_ZOOKEEPER_QUERY_H

#include "fleet/zookeeper/pool.h"

/* A request and who waits for its answer: the last of the two frees it. */
struct zoo_pending {
    _Atomic uint32_t done, refs;
    struct znode_value got;
    size_t failed;
    char **names;
    size_t name_count;
};

struct zoo_query {
    struct zookeeper *zoo;
    struct weir_error *err;
    int64_t deadline_ns;
    struct zoo_texts texts;
    struct znode_value nodes[ZNODE_COUNT];
};

/* The answer, or NULL and a message. To be dropped. */
struct zoo_pending *weir_zoo_query_get(struct zoo_query *query, const char *path);
struct zoo_pending *weir_zoo_query_multi(struct zoo_query *query, const struct zop *ops, size_t count);
struct zoo_pending *weir_zoo_query_children(struct zoo_query *query, const char *path);
void weir_zoo_pending_drop(struct zoo_pending *wait);

/* Of a get: sent, and not waited for yet. NULL: it was not sent. */
struct zoo_pending *weir_zoo_query_begin_get(struct zoo_query *query, const char *path);
/* false: it is not answered in time. */
bool weir_zoo_query_await(struct zoo_query *query, struct zoo_pending *wait);

#endif
