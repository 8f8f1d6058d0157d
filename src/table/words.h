/* SPDX-License-Identifier: MIT */
/*
 * A state of one word in a slot. Its value is the tick, of the limit of its generation, at which the bucket
 * is full again: the index of core/index.h plus a full bucket. So a fresh key has the tick of the moment it
 * comes in, a key may be forgotten once the time has come to its value, and no value is negative.
 * SLOT_VALUE_MAX: never.
 */
#ifndef WEIR_TABLE_WORDS_H
#define WEIR_TABLE_WORDS_H

#include "table/change.h"
#include "table/slots.h"

enum { SLOT_STATE = STATE_HEADER + 1 }; /* words of the core's form */

/* Of a table with own_limits: half of a word is for the time, half for what lies ahead. */
#define OWN_TIME_MAX ((int64_t)SLOT_VALUE_MAX / 2)

/* Can states of this policy be words of a table, and for 18 years at the least? Then its clock ends where
 * words do. */
bool weir_words_suit(struct weir_policy *policy);

/* The value of a key that comes in at `now`. */
uint64_t weir_slot_word_fresh(const struct weir_table *table, const struct edition *edition, int64_t now);
/* The word as it is under `edition`: the same, if it is of that generation already. */
uint64_t weir_slot_word_convert(const struct weir_table *table, const struct edition *edition, uint64_t word);
/* The same for what keys without room share. If it was as if never used when the limits changed, it still is:
 * converted as a key's own, it would hold back every new key by what the old burst had less. */
uint64_t weir_slot_word_convert_shared(const struct weir_table *table, const struct edition *edition,
                                       uint64_t word);

/* A take that needs no lock and no new key, as nearly all are. SLOT_ASK: it is not that. */
enum slot_answer { SLOT_NO, SLOT_YES, SLOT_ASK };
enum slot_answer weir_words_take(struct weir_table *table, const struct key *key, int64_t now, int64_t n,
                                 struct weir_verdict *verdict);

/* Of every table with slots of 16 bytes. */
void weir_words_prefetch(struct weir_table *table, uint64_t hash);
size_t weir_words_sweep(struct weir_table *table, int64_t now, uint64_t line, uint64_t lines, bool clear);
bool weir_words_each(struct weir_table *table, int64_t now, weir_each_key *each, void *arg);
uint64_t weir_words_count(struct weir_table *table, int64_t now, uint64_t line, uint64_t lines);

/* What keys without room share was made less spent. */
static inline void words_lower_shared(struct weir_table *table)
{
    if (__builtin_expect(table->region->segments[0].numbers != NULL, 0))
        region_raise(table->region, &table->policies->overflow_number);
}
/* Does an EXPORT or IMPORT to what keys without room share. false: it is damaged, or there is no memory. */
bool weir_words_shared(struct weir_table *table, struct table_op *op);
/* A word that nobody holds any more is let go, as one that may have promised something; under the lock of its
 * stripe, that of what is shared: 0. */
void weir_words_let_go(struct weir_table *table, struct slot *slot, uint64_t hash);

/* Of an exact table: the whole key that is called key->who, in `bytes`, which has room for EXACT_BYTES.
 * false: there is none any more. */
bool weir_words_name(struct weir_table *table, struct key *key, unsigned char *bytes);

/* The segment that has the line, counted over all of them, also those that are retired; *line becomes that
 * within it. NULL: beyond the last. */
struct segment *weir_words_segment(struct weir_table *table, uint64_t *line);
/* That line, or the first behind it whose segment is not retired. */
uint64_t weir_words_line(const struct weir_table *table, uint64_t line);

/* Brings what keys without room share to the latest generation. */
void weir_words_convert_shared(struct weir_table *table, const struct edition *edition);

void weir_slot_word_unpack(const struct limit *limit, uint64_t word, int64_t *state);
uint64_t weir_slot_word_pack(const struct limit *limit, const struct edition *edition, const int64_t *state);

/* What the core says of a token bucket that is full at the tick `value`; `after` is that of the same with n
 * units taken. */
void weir_words_judge(const struct limit *limit, int64_t now, uint64_t tick, uint64_t value, uint64_t after,
                      bool allowed, struct weir_verdict *verdict);

/* For assertions: is that what the core says of the word? `after`: the value if n units pass; 0: they do not.
 */
bool weir_words_agree(const struct edition *edition, uint64_t word, int64_t now, int64_t n, uint64_t after,
                      const struct weir_verdict *verdict);

/* Of a key in the last segment, under the latest limits, which are a token bucket. Both sides of the
 * comparison are below SLOT_VALUE_MAX: see weir_words_suit. */
static inline __attribute__((always_inline)) enum slot_answer words_take(struct weir_table *table,
                                                                         const struct key *key, bool exact,
                                                                         int64_t now, int64_t n,
                                                                         struct weir_verdict *verdict)
{
    uint64_t hash = key->hash;
    const struct segment *segment = region_front(table->region);
    struct slot *slot = slots_near_home(segment, hash);
    if (__builtin_expect(!slot && !(slot = weir_slots_far(segment, hash)), 0))
        return SLOT_ASK;
    uint64_t word = slot_word(slot);
    if (exact && __builtin_expect(!slots_is_key(segment, slot, key), 0))
        return SLOT_ASK;
    const struct edition *edition = table_edition(table); /* after the word: see table_is_latest */
    const struct limit *limit = edition ? edition->bucket : NULL;
    if (!limit || n < 1 || n > limit->burst)
        return SLOT_ASK;
    uint64_t generation = edition->generation & 3;
    if (word >> SLOT_VALUE_BITS != generation) /* another generation, or not PLAIN */
        return SLOT_ASK;
    uint64_t tick = (uint64_t)ticks_at(&limit->ticks, now), value = slot_value(word);
    value = value > tick ? value : tick;
    uint64_t after = value + (uint64_t)(n * limit->ticks.unit);
    bool allowed = after <= tick + (uint64_t)limit->full;
    if (verdict)
        weir_words_judge(limit, now, tick, value, after, allowed, verdict);
    INVARIANT(18, slot_kind(word) == SLOT_PLAIN);
    ASSERT(n >= 1 && INTACT(weir_words_agree(edition, word, now, n, allowed ? after : 0, verdict)));
    if (!allowed) /* by a word that is still the key's, and of this generation */
        return slot_hash(slot) == hash && slot_word(slot) == word ? SLOT_NO : SLOT_ASK;
    if (!slot_exchange(slot, hash, word, hash, generation << SLOT_VALUE_BITS | after))
        return SLOT_ASK;
    table_touch(table, slot, hash);
    return SLOT_YES;
}

#endif
