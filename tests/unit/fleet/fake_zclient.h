/* SPDX-License-Identifier: MIT */
/*
 * A ZooKeeper for tests, in the place of fleet/zookeeper/client.h: nodes in memory, one server, no threads.
 * Requests are applied when they are sent and answered, in their order, by fake_zclient_run. Linked in front
 * of the library, it is the client of every ensemble that is opened.
 */
#ifndef WEIR_TESTS_FAKE_ZCLIENT_H
#define WEIR_TESTS_FAKE_ZCLIENT_H

#include "fleet/zookeeper/client.h"

enum fake_trouble {
    TROUBLE_NONE,
    TROUBLE_NOT_SENT, /* the request is not taken */
    TROUBLE_LOST,     /* not applied; the connection goes, and all that was not answered is unsure */
    TROUBLE_LOST_LATE /* the same, but it was applied */
};

/* Nothing is there but the root; no trouble. */
void fake_zclient_begin(void);
/* The n-th request from now on, from 0, has this trouble. */
void fake_zclient_trouble(enum fake_trouble trouble, int64_t n);
/* Has it had it? */
bool fake_zclient_had_trouble(void);
/* Answers what was asked, watches and all, until nothing more happens; a lost connection comes back. */
void fake_zclient_run(void);
/* Nodes that are watched. */
int fake_zclient_watches(void);
/* The connection goes, and is back at once. */
void fake_zclient_lose(void);
/* The connection goes, and stays away. */
void fake_zclient_cut(void);
/* Another leader, with another wall clock. */
void fake_zclient_elect(int64_t wall_ms);
/* Called before each request is applied, with their number from now on, from 0; NULL: no more. */
void fake_zclient_meanwhile(void (*happens)(int64_t n));
/* A transaction of somebody else; false: it fails. */
bool fake_zclient_by_another(const struct zop *ops, size_t count);
/* As an operator does; NULL: deletes it. */
void fake_zclient_write(const char *path, const char *text);
/* false: there is no such node. */
bool fake_zclient_stat(const char *path, struct znode_stat *stat);
/* The leader's wall clock goes on. */
void fake_zclient_pass(int64_t ms);
/* Keeps all that is there; and puts it back in its place, the count of transactions and all, as from a
 * backup. */
void fake_zclient_copy(void);
void fake_zclient_restore(void);
/* From now on it may read, but not write; or it may. */
void fake_zclient_deny(bool denied);
/* From now on reads are answered from the copy: a server that is behind. */
void fake_zclient_read_copy(bool copy);

#endif
