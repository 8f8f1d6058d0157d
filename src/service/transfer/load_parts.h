/* SPDX-License-Identifier: MIT */
/*
 * What load.c is made of: lines of a dump as numbers, and policies and tables made for them.
 */
#ifndef WEIR_SERVICE_TRANSFER_LOAD_PARTS_H
#define WEIR_SERVICE_TRANSFER_LOAD_PARTS_H

#include "service/decide.h"
#include "service/transfer/dump_clients.h"
#include "service/transfer/dump_text.h"
#include "service/transfer/load.h"
#include "spec/spec.h"
#include "table/persist/export.h"

#define LOAD_ELAPSED_MS (INT64_C(366) * 86400000) /* the longest time between dump and load that counts */

struct load {
    char id[LOAD_ID_MAX]; /* "": none */
    uint64_t number;      /* the order in which they began */
    char policy[CONFIG_NAME_MAX + 1];
    bool made, no_elapsed;
    int64_t page;
    struct load_count last, total;
    struct { /* tables that were said, so that one which is said again has the same time */
        uint64_t serial;
        int64_t time, lead_ns;
    } said[CONFIG_PREFIXES_MAX + 1];
    size_t said_count;
    /* the table whose keys come now: */
    struct policy_table *ptable; /* a reference */
    int64_t lead_ns;             /* region time of the dump - weir_now */
    struct weir_policy *source;  /* by which the words of the dump count, */
    struct weir_policy *target;  /* and ours */
    bool foreign;                /* our table knows keys by other hashes */
    bool same, exact;            /* limits; all: words can be taken over as they are */
    struct load_shared *shared;  /* comes in behind its keys */
    enum clients_kind clients;   /* of no policy, but these */
    int64_t elapsed_ms;          /* since they were dumped */
};

struct load_shared {
    struct load_shared *next;
    struct export_shared shared; /* its words are `words` */
    int64_t words[];
};

/* ---- load_text.c ---- */

struct policy_definition {
    char name[CONFIG_NAME_MAX + 1];
    char limits[SPEC_TEXT_MAX];
    enum policy_mode mode;
    int percent;
    enum weir_when_full on_full;
    int64_t ttl_ms, ttl_max_ms, ids_ns;
    enum overrun_rule overrun;
    int recover; /* enum table_recover */
    bool fleet;  /* alone it must not decide: it is not made, but may be there */
};
bool weir_definition_read(struct policy_definition *definition, const struct slice *lines, size_t count,
                          struct weir_error *err);

struct load_table {
    char prefix[KEY_MAX];
    size_t prefix_len;
    bool wide;
    struct hash_key key;
    int64_t time, wall_ms, capacity;
    char limits[SPEC_TEXT_MAX];
};
bool weir_load_table_read(struct load_table *table, struct slice line, struct weir_error *err);

struct load_line {
    bool nothing; /* empty, or a comment */
    bool spent;   /* the numbers are units of each limit; else the words of a state */
    bool shared;  /* of keys without room whose hashes are from `who` to `to` */
    uint64_t hash, to;
    const char *name; /* or NULL */
    size_t len, count;
    int64_t numbers[DUMP_WORDS_MAX];
    char room[DUMP_LINE_MAX];
    struct slice words[DUMP_WORDS_MAX];
};
bool weir_load_line_read(struct load_line *line, struct slice text, struct weir_error *err);

/* ---- load_policy.c ---- */

/* Makes the policy, if there is none; then it is frozen until weir_definition_open. */
bool weir_definition_apply(struct service *service, const struct policy_definition *definition, bool *made,
                           struct weir_error *err);
bool weir_definition_open(struct service *service, const char *policy, struct weir_error *err);

/* The policy table that keys of this table come to: ours, or one that takes its place. A reference. *foreign:
 * it knows keys by other hashes than the dump. */
struct policy_table *weir_load_adopt(struct service *service, const struct load *load,
                                     const struct load_table *table, bool *foreign, struct weir_error *err);

#endif
