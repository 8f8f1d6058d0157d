/* SPDX-License-Identifier: MIT */
/* Requests to an ensemble that are waited for, one after the other or many at a time, until a deadline. */
#ifndef WEIR_FLEET_ZOOKEEPER_ASK_H
#define WEIR_FLEET_ZOOKEEPER_ASK_H

#include "fleet/zookeeper_place.h"

/* A request and who waits for its answer: the last of the two frees it. */
struct wait {
    _Atomic uint32_t done, holders;
    struct reading got;
    size_t failed;
    char **names;
    size_t name_count;
};

struct asking {
    struct zookeeper *zoo;
    struct weir_error *err;
    int64_t deadline_ns;
    struct zoo_texts texts;
    struct reading nodes[ZNODE_COUNT];
};

/* The answer, or NULL and a message. To be dropped. */
struct wait *weir_zoo_ask_get(struct asking *asking, const char *path);
struct wait *weir_zoo_ask_multi(struct asking *asking, const struct zop *ops, size_t count);
struct wait *weir_zoo_ask_children(struct asking *asking, const char *path);
void weir_zoo_drop(struct wait *wait);

/* Of a get: sent, and not waited for yet. NULL: it was not sent. */
struct wait *weir_zoo_begin_get(struct asking *asking, const char *path);
/* false: it is not answered in time. */
bool weir_zoo_is_answered(struct asking *asking, struct wait *wait);

#endif
