/* SPDX-License-Identifier: MIT */
/*
 * Recovery: what records become on their way back into a table. `body` of a record is what the disk has
 * behind persist_head.
 */
#ifndef WEIR_TABLE_PERSIST_RECOVER_H
#define WEIR_TABLE_PERSIST_RECOVER_H

#include "table/override.h"
#include "table/persist/persist.h"

static inline size_t whole_words(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

/* A word of a record's body. */
static inline uint64_t body_word_at(const unsigned char *body, size_t at)
{
    uint64_t word;
    memcpy(&word, body + at, sizeof word);
    return word;
}

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

/* What came of looking for a key's place. */
enum key_settling { WAS_THERE, CAME, NO_MEMORY };

/* The limits of that number's generation, from `edition` on back; or NULL. */
const struct edition *weir_edition_of_number(const struct edition *edition, uint64_t number);
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

/* Empty as of `now`, or as of the time of its last promise: never less spent than it was. */
void weir_recovery_drain(const struct weir_policy *policy, int64_t *state, int64_t now);
/* For assertions: to drain it once more would change nothing. */
bool weir_recovery_is_drained(const struct weir_policy *policy, const int64_t *state, int64_t now);

/*
 * After the last record: states become those of the latest limits. `now` is region time. false: out of
 * memory, or more limits of single keys than fit; the table is of no use.
 *
 * What FLOOR and OPTIMISTIC do is in no record: only an image tells it. Whoever answers before there is one
 * is told of the loss again by the next recovery, and does the same once more: for that no image may be begun
 * before this was done (store_options.hold_images), since an image covers what told of the loss. What a table
 * with limits of each call has been drained of is in its description, which has to be noted anew.
 */
bool weir_table_recovered(struct weir_table *table, enum table_recover how, int64_t now);

#endif
