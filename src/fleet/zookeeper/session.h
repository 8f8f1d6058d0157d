/* SPDX-License-Identifier: MIT */
/*
 * Inside of a client (client.h). This is the one file that includes the foreign library, for the
 * three that use it.
 */
#ifndef WEIR_FLEET_ZOOKEEPER_SESSION_H
#define WEIR_FLEET_ZOOKEEPER_SESSION_H

#include <pthread.h>
#include <stdatomic.h>
#define THREADED 1 /* it is libzookeeper_mt: zoo_remove_watches is there */
#include <zookeeper/zookeeper.h>

#include "fleet/zookeeper/client.h"

struct zclient {
    struct zclient_owner owner;
    struct coordinator_options options;
    char hosts[FLEET_HOSTS_MAX * 272], cert[400];
    struct ACL_vector acl;
    struct ACL entries[2];
    pthread_mutex_t lock; /* of what follows; a handle is used under it, and closed without it */
    zhandle_t *handle;    /* NULL: none now */
    struct zcall *calls;
    bool up, came, ended; /* connected; was so once; this handle will never be again */
    const char *why;
    int64_t begun_ns, again_ns, backoff_ns; /* monotonic: this handle; when a new one is due */
    uint64_t random;
    pthread_t keeper;
    bool kept; /* the thread runs */
    _Atomic uint32_t stopping;
};

/* ---- calls.c ---- */

/* Closes a handle; those who wait for an answer get one. Not under the lock. */
void weir_zcalls_end(struct zclient *client, zhandle_t *handle);

/* ---- session.c ---- */

/* Looks the hosts up, which may last; so it holds no lock. false: they cannot be. */
bool weir_zsession_begin(struct zclient *client);
/* The thread of a client: begins a session whenever there is none, with back-off, and ticks. */
void *weir_zsession_keep(void *client);

#endif
