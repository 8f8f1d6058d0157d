/* SPDX-License-Identifier: MIT */
/*
 * What persist.c asks of tables of slots and of wide ones: capturing, walking, recovery. `body` of a record
 * is what the disk has behind persist_head.
 */
#ifndef WEIR_TABLE_PERSIST_INTERNAL_H
#define WEIR_TABLE_PERSIST_INTERNAL_H

#include "table/override.h"
#include "table/persist/persist.h"

/* ---- capturing: as struct persist_ops says ---- */

void weir_words_capture(const struct persist *persist, struct slot *slot, uint64_t hash, struct buffer *out);
bool weir_words_walk(const struct persist *persist, uint64_t *cursor, struct buffer *out, size_t bytes);
struct wide_slot;
void weir_wide_capture(const struct persist *persist, struct wide_slot *slot, uint64_t hash,
                       struct buffer *out);
bool weir_wide_record_walk(const struct persist *persist, uint64_t *cursor, struct buffer *out, size_t bytes);

/* Under the stripe's lock: the record of a key with limits of its own. false: it has none. */
bool weir_override_put_record(const struct persist *persist, struct weir_table *table, const struct key *key,
                              struct buffer *out);

/* The record of a key that is nowhere; `number` was drawn before that was found out. */
void weir_gone_put(const struct persist *persist, uint64_t hash, uint64_t number, struct buffer *out);

static inline size_t whole_words(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

/* ---- recovery ---- */

struct override_record { /* of a key with limits of its own: the last that counts */
    struct key key;      /* its bytes are in `body` */
    void *slot;          /* NULL: a later record says that it has none */
    const char *text;    /* without a NUL */
    size_t text_len;
    const int64_t *state;
    size_t words;
    unsigned char *body; /* all of it; here a copy */
};

struct word_record {
    uint64_t hash, number, word;
    uint64_t rest, form; /* of a whole key */
};
#define WORD_RECORD_BYTES 24 /* of that without the key */

struct gone_record {
    uint64_t hash, number; /* in memory: 0 is none */
};

#define RECOVERY_PENDING 32 /* records of words whose lines are fetched at the same time */

struct table_recovery {
    struct edition *newest; /* of all limits that records may be of, also those announced */
    uint64_t generation;    /* the latest that is, or was, in force */
    uint64_t orphan;  /* the latest generation of records that no catalogue tells of; 0: there are none */
    uint64_t highest; /* number */
    uint64_t *numbers[REGION_SEGMENTS]; /* of what is in each slot, as in its record */
    uint64_t shared_number;             /* words: of what keys without room share */
    bool has_shared;
    struct word_record pending[RECOVERY_PENDING];
    size_t pending_count;
    struct override_record *overrides; /* slots refer to them by their place here */
    size_t override_count, override_room;
    struct gone_record *gone; /* gone_size of them, by hash; at most half of them are used */
    size_t gone_size, gone_count;
    unsigned char *pieces; /* of a TABLE_WIDE that is not whole yet */
    size_t pieces_room, pieces_len, pieces_all;
    uint64_t pieces_hash, pieces_number;
};

/* NULL: out of memory. */
struct table_recovery *weir_recovery_of(struct weir_table *table);

/* The limits that a record counts by; NULL: nobody knows them. They count as seen. */
const struct edition *weir_recovery_edition(struct weir_table *table, uint64_t number);
/* Numbers of that segment's slots. NULL: out of memory. */
uint64_t *weir_recovery_numbers(struct weir_table *table, uint64_t segment);
/* A segment more. */
bool weir_recovery_grow(struct weir_table *table);
/* Remembers a record of limits of its own; gives its place among them. false: out of memory. */
bool weir_recovery_override(struct table_recovery *recovery, const struct override_record *own, size_t len,
                            uint64_t *at);

/* No key that is called so was there, under that number, or it was as if never used and had to make room:
 * what is older must not come back. false: out of memory. */
bool weir_recovery_gone(struct table_recovery *recovery, const struct gone_record *gone);
/* Is a record older than that? */
bool weir_recovery_is_gone(const struct table_recovery *recovery, uint64_t hash, uint64_t number,
                           uint64_t spent);
void weir_recovery_note_number(struct table_recovery *recovery, uint64_t number);

bool weir_words_apply(struct weir_table *table, const struct word_record *record, bool *failed);
bool weir_words_apply_override(struct weir_table *table, uint64_t number, struct override_record *own,
                               size_t len, bool *failed);
/* Those that are on their way. false: out of memory. */
bool weir_words_apply_pending(struct weir_table *table);
bool weir_words_recovered(struct weir_table *table, enum table_recover how, int64_t now);

bool weir_wide_apply(struct weir_table *table, const unsigned char *body, size_t len, bool *failed);
bool weir_wide_apply_gone(struct weir_table *table, const struct gone_record *gone, bool *failed);
bool weir_wide_apply_part(struct weir_table *table, const unsigned char *body, size_t len, bool *failed);
bool weir_wide_apply_override(struct weir_table *table, uint64_t number, struct override_record *own,
                              size_t len, bool *failed);
bool weir_wide_recovered(struct weir_table *table, enum table_recover how, int64_t now);

/* Empty as of `now`, or as of the time of its last promise: never less spent than it was. */
void weir_recovery_drain(const struct weir_policy *policy, int64_t *state, int64_t now);

#endif
