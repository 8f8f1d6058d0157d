/* SPDX-License-Identifier: MIT */
/*
 * How what a service knows survives. Tables and records are kept by the store, which is opened before
 * anything else is made; what must be known to read them again is the catalogue (catalogue.h).
 *
 * Start: open the store; make what the catalogue describes; read all records; let each table recover by its
 * policy's rule; begin to write. Then the configuration is applied, as a reload is.
 *
 * Changes: the catalogue of the state to come is appended first. Then the steps are done and the snapshot is
 * published; then what the steps changed is appended, and the catalogue again, with what only the change
 * itself could tell. A kill at any moment leaves the state of before or of after.
 *
 * Policy tables: a store keeps a policy table until its last reference goes. Threads list slots of it in read
 * sections only, and whoever sees a snapshot in a read section has what he listed appended before that read
 * section ends: so nobody has it listed when it is freed. A session that waits refers to its policy table by
 * itself: who lets it go while it is not in his snapshot appends first (weir_persist_let_go).
 */
#ifndef WEIR_SERVICE_PERSIST_PERSIST_H
#define WEIR_SERVICE_PERSIST_PERSIST_H

#include "service/persist/catalogue.h"
#include "store/store.h"

/* Of what is no policy table, in the store. */
enum persist_number { PERSIST_CLIENT_KEYS = 1, PERSIST_REQUESTS, PERSIST_RESERVATIONS, PERSIST_SMYTE };

#define PERSIST_WAIT_NS (10 * WEIR_SEC) /* for a change to be on the disk, before its answer */
#define PERSIST_HOW_MAX 512

struct persistence {
    struct disk *disk;
    char *path;
    enum store_sync sync;
    struct store_found found;
    bool has_catalogue;                   /* a catalogue was found: */
    struct server_catalogue catalogue;    /* until everything is restored */
    size_t requests, reservations, smyte; /* records that there is room for */
    int64_t shares_seen_ns;               /* the job thread's: when it last looked at what users hold */
    _Atomic bool
        owed; /* the last catalogue does not say all that is to be said by now; catalogues: under `change` */
    bool image_due;            /* the job thread's: what recovery did is to be in an image soon */
    int64_t keys, took_ns;     /* of the recovery */
    char how[PERSIST_HOW_MAX]; /* what was found, in plain words */
};

/* If there is to be one. Finds out what is there. */
bool weir_persist_open(struct service *service, const struct config *config, struct weir_error *err);
/* So many, or as many as there were: what is recovered must find room. *kept has the number from now on. */
size_t weir_persist_room(size_t *kept, size_t wanted);
/* A policy table that is kept if there is a store. */
struct policy_table *weir_persist_new_table(struct service *service, const char *limits, int64_t keys,
                                            enum weir_when_full on_full, struct weir_error *err);
/* Keeps one that weir_policy_table_new_kept or weir_server_catalogue_table made; without a store nothing is
 * to be done. */
bool weir_persist_add(struct service *service, struct policy_table *ptable, int64_t lead_ns,
                      struct weir_error *err);
/* The table of limits that come with the call, as it was, or a new one. */
struct policy_table *weir_persist_client_keys(struct service *service, int64_t keys, int64_t horizon_ns,
                                              struct weir_error *err);
/* Everything as it was, into the snapshot, which is not in force yet; then begins to write. */
bool weir_persist_restore(struct service *service, const struct config *config, struct snapshot *snapshot,
                          struct weir_error *err);
/* Once the configuration is applied for the first time. A policy that is new may have been there before, and
 * what told of it may be what was lost: with the rule floor it begins empty, too. */
bool weir_persist_applied(struct service *service, const struct config *config, struct weir_error *err);

/* Something that the catalogue has was changed by other means. Any thread. */
static inline void persist_owe(struct service *service)
{
    if (service->persistence)
        service->persistence->owed = true;
}

#endif
