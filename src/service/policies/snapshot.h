/* SPDX-License-Identifier: MIT */
/*
 * What requests see: everything that a reload or a command may change, in one immutable piece. A worker reads
 * the pointer once at the start of a read section and uses that until the end of the read section; who
 * changes something publishes a new one, and the old one is freed when every worker has ended the read
 * section in which it could have seen it. No request ever waits for that.
 */
#ifndef WEIR_SERVICE_POLICIES_SNAPSHOT_H
#define WEIR_SERVICE_POLICIES_SNAPSHOT_H

#include "auth/users.h"
#include "config/http_rules.h"
#include "service/policies/policy.h"

struct snapshot {
    struct policy **policies; /* sorted by name */
    size_t policy_count;
    uint32_t *index;   /* of the policies by hash of the name: index_size entries, UINT32_MAX: empty */
    size_t index_size; /* a power of 2 */
    struct policy_table **ptables; /* of all of them, sorted by serial */
    size_t ptable_count;
    const struct users *users;
    struct http_rules *http; /* a reference */
    bool any_frozen;         /* keys of a policy */
    bool any_headers;        /* policies whose answers over HTTP have fields of their own */
    bool any_leases;         /* policies whose units come from a fleet */
    bool any_tiers;          /* policies with several tiers of addresses */
    /* WEIR.POLICY MODE *: stands above all modes until it ends. */
    bool mode_for_all;
    enum policy_mode all_mode;
    int64_t all_until_ms;     /* wall clock; 0: no end */
    int64_t loaded_ms;        /* wall clock of the last configuration that was applied */
    struct snapshot *retired; /* private: the next that waits to be freed */
    uint64_t retired_in;      /* private: the read section after which nobody sees it */
};

struct policy *weir_snapshot_policy(const struct snapshot *snapshot, struct slice name); /* NULL: none */
/* The policy of a further tier (address_rules.h), from 1. */
struct policy *weir_snapshot_tier(const struct snapshot *snapshot, const struct policy *policy, size_t tier);
struct policy_table *weir_snapshot_policy_table(const struct snapshot *snapshot,
                                                uint64_t serial); /* NULL: gone */
/* The policy of a fleet's pool: NAME, or POLICY:key of one that has a pool for each key. */
struct policy *weir_snapshot_pool(const struct snapshot *snapshot, struct slice name, struct slice *key);
/* The policy whose main policy table has this serial, if it leases what it spends; else NULL. */
struct policy *weir_snapshot_leases(const struct snapshot *snapshot, uint64_t serial);

/* The name that was probably meant, or NULL. */
const char *weir_snapshot_near(const struct snapshot *snapshot, struct slice name);

/* ---- for those who change something (change.c), one at a time ---- */

/* A copy that holds its own references to the policies, without indexes; or NULL. */
struct snapshot *weir_snapshot_copy(const struct snapshot *snapshot);
/* Puts `policy` (one reference goes over, whatever comes of it) in the place of the one of that name, or adds
 * it. `policy` NULL: removes `name`. false: out of memory. */
bool weir_snapshot_put(struct snapshot *snapshot, const char *name, struct policy *policy);
/* Builds the indexes, and lists which limits of new policies are counted. false: out of memory. */
bool weir_snapshot_seal(struct snapshot *snapshot);
void weir_snapshot_free(struct snapshot *snapshot);

struct service;
/* Under `change`: puts a sealed snapshot in force; the one before is retired. */
void weir_snapshot_publish(struct service *service, struct snapshot *next);
/* Under `change`: frees those retired ones that nobody can see any more. */
void weir_snapshot_collect(struct service *service);

/* ---- read sections ---- */

struct worker;
/* A worker's read section: snapshot and time are read once. Nothing in between may wait. */
void weir_read_begin(struct worker *worker);
void weir_read_end(struct worker *worker);
/* In the middle of a read section that lasts: what is in force, and the time, by now. */
void weir_read_renew(struct worker *worker);

#endif
