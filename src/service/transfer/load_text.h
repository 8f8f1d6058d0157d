/* SPDX-License-Identifier: MIT */
/*
 * Lines of a dump as numbers.
 */
#ifndef WEIR_SERVICE_TRANSFER_LOAD_TEXT_H
#define WEIR_SERVICE_TRANSFER_LOAD_TEXT_H

#include "service/engine/decide.h"
#include "service/transfer/dump_clients.h"
#include "service/transfer/dump_text.h"
#include "service/transfer/load.h"
#include "spec/spec.h"
#include "table/persist/export.h"

#define LOAD_ELAPSED_MS (INT64_C(366) * 86400000) /* the longest time between dump and load that counts */

struct policy_definition {
    char name[CONFIG_NAME_MAX + 1];
    char limits[SPEC_TEXT_MAX];
    enum policy_mode mode;
    int percent;
    struct policy_settings settings;
    bool fleet;   /* alone it must not decide: it is not made, but may be there */
    bool address; /* as well: its tiers and lists are the file's */
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

#endif
