/* SPDX-License-Identifier: MIT */
/*
 * Policies in force. What requests read never changes: a policy, and the snapshot that lists all of them, is
 * immutable, and a change publishes a new snapshot (snapshot.h). What does change lies behind pointers that
 * old and new share: the policy tables, which count keys, and the counters.
 *
 * A policy is a name with its limits, mode and overrides: immutable. A policy table is a table and what goes
 * with it, shared by all editions of the policy and counted by references. Counters say what was decided
 * (counters.h).
 */
#ifndef WEIR_SERVICE_POLICIES_POLICY_H
#define WEIR_SERVICE_POLICIES_POLICY_H

#include <stdatomic.h>

#include "base/buffer.h"
#include "config/address_rules.h"
#include "service/leases/pools.h"
#include "service/policies/counters.h"

#define POLICY_TABLE_FIRST 16
#define POLICY_TABLE_OVERRIDES                                                                               \
    1024 /* most keys of a policy table with limits of their own: about a kilobyte each */

/* The keys that are counted under one list of limits. */
struct policy_table {
    _Atomic uint32_t refs;
    /* No other policy table of this process ever has it, nor one before it that used the same data directory:
     * a store knows the table by this number. Below POLICY_TABLE_FIRST: numbers of what is no policy table.
     */
    uint64_t serial;
    struct weir_table *table;
    _Atomic int64_t bytes; /* of memory, as last seen */
    /* As the older one of a policy: when it is asked no more. WEIR_FOREVER: not known yet, because somebody
     * may still ask it alone. */
    _Atomic int64_t ends_ns;
    /* Of its limits, as of the last snapshot that was published; and when those before were last freed. Under
     * `change`, by snapshot.c. */
    uint64_t generation, forgotten;
    uint64_t imaged;              /* limits before these are in no image and no log that is begun from now on:
                                     record_change.c */
    struct {                      /* the growth thread's own: see growth.c */
        _Atomic int64_t grown_ns; /* when it last did */
        bool warned_near;         /* said once: nearly full and cannot grow, */
        bool warned_full;         /* full */
    } room;
};

/* What a policy table's limits are called in answers; immutable, made anew with each change. */
struct limit_labels {
    size_t count;
    bool counts_refusals;                  /* a refusal changes the state of one of them */
    int64_t timeout_ns;                    /* the shortest timeout= of the limits; -1: none has one */
    int64_t whole[WEIR_LIMITS_MAX];        /* most units of each that are there at once */
    char text[WEIR_LIMITS_MAX][LABEL_MAX]; /* name=, or the limit's text */
};

/* Limits of a key, which the tables have, too; or of all keys with a prefix, which has a table of its own. */
struct policy_override {
    char *key; /* or the prefix, without its '*' */
    size_t len;
    char *limits, *reason;
    int64_t until_ms;
    bool from_file;              /* else set by command: stays when the file is read again */
    struct policy_table *ptable; /* of a prefix; NULL: it is of a key */
    const struct limit_labels *labels;
};

/* Keys that are not decided here any more, or not for now: by the hash that their policy table knows them by.
 */
#define FROZEN_MAX     8
#define FROZEN_URL_MAX 256
struct frozen_range {
    uint64_t from, to;        /* both included */
    char url[FROZEN_URL_MAX]; /* where to ask instead; "": they are being loaded here, or retired */
};

struct policy {
    char name[CONFIG_NAME_MAX + 1];
    char *limits, *candidate; /* canonical text; candidate may be NULL */
    bool from_file;           /* else set by command */
    bool touched;             /* from the file, but changed by command since */
    bool candidate_set;       /* its candidate was */
    char *file_limits;        /* what the file says, or NULL */
    enum policy_mode file_mode;
    int file_percent;
    enum policy_mode mode;
    int percent;
    int64_t mode_until_ms;       /* wall clock; 0: no end. Then: */
    enum policy_mode mode_after; /* ... */
    int percent_after;
    struct policy_settings settings;
    int64_t keys_asked; /* room that the file asks for; 0: as it comes */
    struct policy_table *main;
    const struct limit_labels *labels;    /* its own, as those of prefixes: a copy has copies */
    struct policy_table *candidate_table; /* the candidate's; or NULL */
    /* The limits of before a change to another kind of limits: until previous->ends_ns both must agree, so
     * that nothing that was spent is forgotten. */
    struct policy_table *previous;
    int64_t previous_for_ns; /* how long it remembers anything, from when nobody asks it alone */
    struct policy_counters *counters;
    struct limit_counters *limit_counters; /* of this edition; made when its snapshot is sealed */
    struct fleet_pools *pools;             /* of a fleet; NULL: this server counts for itself */
    bool leases; /* its units come from elsewhere: it has pools, and is no root. `main` is empty */
    /* Its keys are addresses: a reference; or NULL. */
    struct address_rules *address;
    bool is_tier;              /* a further tier of another policy: see address_rules.h */
    bool address_in_catalogue; /* restored as one with `address` or `is_tier`, of which the catalogue does not
                                  say more */
    bool fleet_in_catalogue;   /* restored as one of a fleet, of which the catalogue does not say more */
    struct policy_override *prefixes; /* the longest first, those of one length sorted by bytes */
    size_t prefix_count;
    struct policy_override *keys; /* sorted by bytes */
    size_t key_count;
    struct frozen_range frozen[FROZEN_MAX];
    size_t frozen_count;
    _Atomic uint32_t refs; /* snapshots, and sessions that wait */
};

/* When the limits of before a change are asked no more; 0: there are none. */
static inline int64_t policy_previous_ends(const struct policy *policy)
{
    return policy->previous ? atomic_load_explicit(&policy->previous->ends_ns, memory_order_relaxed) : 0;
}

/* ---- policy.c: making and freeing; no locks, no snapshots ---- */

/* `err` says why; `keys` of room, or 0: little, it grows. */
struct policy_table *weir_policy_table_new(const char *limits, int64_t keys, enum weir_when_full on_full,
                                           bool client_limits, int64_t horizon_ns, struct weir_error *err);
/* The same, with a table that a store can keep. */
struct policy_table *weir_policy_table_new_kept(const char *limits, int64_t keys, enum weir_when_full on_full,
                                                bool client_limits, int64_t horizon_ns,
                                                struct weir_error *err);
/* Of a table, which goes over to it, also if it is NULL or there is no memory; `serial` 0: the next one. */
struct policy_table *weir_policy_table_of(struct weir_table *table, uint64_t serial, struct weir_error *err);
/* The last serial that was given; and: all later ones are above this. */
uint64_t weir_policy_table_last(void);
void weir_policy_table_begin_above(uint64_t serial);
/* The tables of a policy: its own, those of the candidate and of the limits before, and of prefixes. Returns
 * how many there are. */
#define POLICY_TABLES_MAX (3 + CONFIG_PREFIXES_MAX)
struct policy;
size_t weir_policy_tables(const struct policy *policy, struct policy_table **ptables);
struct policy_table *weir_policy_table_ref(struct policy_table *ptable); /* NULL stays NULL */
/* One reference; NULL is fine. The last one: a store keeps it no more. What this thread has listed of it is
 * appended first; of others nobody may have it listed: see persist.h. */
void weir_policy_table_free(struct policy_table *ptable);

struct limit_labels *weir_labels_new(const char *limits);

/* A copy that shares policy tables and counters, to be changed and then published; or NULL. */
struct policy *weir_policy_copy(const struct policy *policy);
void weir_policy_override_free(struct policy_override *override);
struct policy *weir_policy_make(const char *name, uint32_t workers); /* empty, with counters */
void weir_policy_ref(struct policy *policy);
void weir_policy_drop(struct policy *policy);

#endif
