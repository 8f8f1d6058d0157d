/* SPDX-License-Identifier: MIT */
#include "table/persist/persist.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "core/idle.h"
#include "table/change.h"
#include "table/history.h"
#include "table/persist/capture_words.h"
#include "table/persist/records_wide.h"
#include "table/persist/recover.h"
#include "table/persist/recover_words.h"

struct weir_table *weir_table_new_stored(const char *limits, const struct weir_table_options *options,
                                         const struct hash_key *key, struct weir_error *err)
{
    if (options)
        return weir_table_make_stored(limits, options, key, 0, err);
    weir_error_set(err, EINVAL, "options is NULL");
    return NULL;
}

/* ---- what the store asks ---- */

static bool is_table_wide(const struct persist *persist)
{
    return ((const struct weir_table *)persist->owner)->kind == &weir_table_wide;
}

static void table_capture(const struct persist *persist, void *slot, uint64_t hash, struct buffer *out)
{
    if (is_table_wide(persist))
        weir_wide_capture(persist, slot, hash, out);
    else
        weir_words_capture(persist, slot, hash, out);
}

static bool table_walk(const struct persist *persist, uint64_t *cursor, struct buffer *out, size_t bytes)
{
    return is_table_wide(persist) ? weir_wide_record_walk(persist, cursor, out, bytes)
                                  : weir_words_walk(persist, cursor, out, bytes);
}

/* ---- records of keys with limits of their own ---- */

/* Length and bytes, in whole words, from *at on, which becomes where they end. */
static bool body_read_bytes(const unsigned char *body, size_t len, size_t *at, size_t most,
                            const void **bytes, size_t *count)
{
    if (len - *at < 8 || body_word_at(body, *at) > most)
        return false;
    *count = body_word_at(body, *at);
    *at += 8;
    *bytes = body + *at;
    if (whole_words(*count) > len - *at)
        return false;
    *at += whole_words(*count);
    return true;
}

/* What nobody has the memory to look at makes sense, perhaps: *failed. */
static bool read_override_record(const struct weir_table *table, unsigned char *body, size_t len,
                                 struct override_record *own, bool *failed)
{
    struct weir_error err = {0};
    char text[OVERRIDE_TEXT_MAX] = "";
    size_t at = 16;
    const void *limits;
    if (len < 24 || len % 8 != 0)
        return false;
    *own = (struct override_record){.key.hash = body_word_at(body, 0), .body = body};
    if (own->key.hash <= OVERFLOW_HASH)
        return false;
    if (table->key_max > 0 &&
        (!body_read_bytes(body, len, &at, table->key_max, &own->key.bytes, &own->key.len) ||
         table_hash(table, own->key.bytes, own->key.len) != own->key.hash))
        return false;
    if (!body_read_bytes(body, len, &at, sizeof text - 1, &limits, &own->text_len) ||
        memchr(limits, '\0', own->text_len))
        return false;
    memcpy(text, limits, own->text_len);
    own->text = limits;
    own->state = (const int64_t *)(const void *)(body + at);
    own->words = (len - at) / sizeof *own->state;
    struct weir_policy *policy = weir_policy_idle(text, &err);
    if (!policy && err.code == ENOMEM)
        *failed = true;
    bool valid = policy && own->words == policy->words && own->words <= OVERRIDE_WORDS &&
                 weir_state_valid(policy, own->state);
    weir_policy_free(policy);
    return valid;
}

static bool apply_override_record(struct weir_table *table, const unsigned char *body, size_t len,
                                  bool *failed)
{
    struct override_record own;
    if (table->kind == &weir_table_own ||
        !read_override_record(table, (unsigned char *)(uintptr_t)body, len, &own, failed))
        return false;
    uint64_t number = body_word_at(body, 8);
    return weir_recovery_edition(table, number) &&
           (table->kind == &weir_table_wide ? weir_wide_apply_override(table, number, &own, len, failed)
                                            : weir_words_apply_override(table, number, &own, len, failed));
}

/* ---- recovery ---- */

/* Is that the name of a key? */
static bool record_names_key(const struct weir_table *table, const struct word_record *record)
{
    struct exact_name name = {record->hash, record->rest, (uint32_t)record->form};
    unsigned char bytes[EXACT_BYTES];
    struct key key;
    return record->form == name.form && weir_exact_key_of(table, &name, bytes, &key) &&
           key.len <= table->key_max;
}

static bool apply_word(struct weir_table *table, bool whole, const unsigned char *body, size_t len,
                       bool *failed)
{
    struct word_record record = {0};
    if (table->kind == &weir_table_wide || len != (whole ? sizeof record : WORD_RECORD_BYTES))
        return false;
    memcpy(&record, body, len);
    bool good = whole ? table->is_exact && record_names_key(table, &record)
                      : !table->is_exact || record.hash == OVERFLOW_HASH;
    return good && weir_words_apply(table, &record, failed);
}

static bool table_apply(const struct persist *persist, uint8_t kind, const unsigned char *body, size_t len,
                        bool *failed)
{
    struct weir_table *table = persist->owner;
    bool wide = is_table_wide(persist);
    struct word_record record;
    struct gone_record gone;
    if (__builtin_expect(!table->recovery && !weir_recovery_of(table), 0)) {
        *failed = true;
        return true;
    }
    switch (kind) {
    case TABLE_WORD:
    case TABLE_WHOLE:
        return apply_word(table, kind == TABLE_WHOLE, body, len, failed);
    case TABLE_WIDE:
        return wide && weir_wide_apply(table, body, len, failed);
    case TABLE_PART:
        return wide && weir_wide_apply_part(table, body, len, failed);
    case TABLE_GONE:
        if (len != sizeof gone)
            return false;
        memcpy(&gone, body, sizeof gone);
        if (wide)
            return weir_wide_apply_gone(table, &gone, failed);
        /* as if it had been full again since time began: it goes at the end */
        record =
            (struct word_record){gone.hash, gone.number,
                                 slot_pack(SLOT_PLAIN, record_generation(gone.number), 0), 0, EXACT_NOBODY};
        return gone.hash != OVERFLOW_HASH && weir_words_apply(table, &record, failed);
    case TABLE_OVERRIDE:
        return apply_override_record(table, body, len, failed);
    default:
        return false;
    }
}

static void table_imaged(const struct persist *persist, uint64_t generation)
{
    weir_table_history_forget(persist->owner, generation);
}

const struct persist_ops weir_table_persist_ops = {
    .capture = table_capture, .walk = table_walk, .apply = table_apply, .imaged = table_imaged};

/*
 * What a table is, without its keys, as bytes: little-endian, in whole words.
 *
 *   struct block | of each generation that records may be of, the oldest first: generation, time, length and
 *   bytes of its limits
 *
 * The last ones may be announced only: those above block.generation.
 */

#define BLOCK_MAGIC   UINT32_C(0x454C4254) /* "TBLE" */
#define BLOCK_VERSION 2 /* since then whole keys may be in a table of words; all others are of version 1 */

#define STATE_WORDS_MAX (WEIR_LIMITS_MAX * (SPEC_LOG_MAX + 8) + STATE_HEADER)

struct block {
    uint32_t magic, version;
    uint32_t kind; /* enum region_kind */
    uint32_t when_full, no_top, spare;
    uint64_t keys, capacity, key_max, state_words, overrides, name_bytes;
    int64_t horizon_ns, drained_ns;
    uint64_t key_low, key_high; /* of the hash */
    uint64_t generation;        /* in force */
    uint64_t texts;             /* how many follow */
};
_Static_assert(sizeof(struct block) == 24 + 12 * 8, "no padding");

struct block_text {
    uint64_t generation;
    int64_t time; /* region time; TIME_UNKNOWN */
    uint64_t len;
};

/* ---- writing ---- */

static void put_limits_text(struct buffer *out, uint64_t generation, int64_t time, const char *text)
{
    static const char zero[8];
    struct block_text head = {generation, time, strlen(text)};
    buffer_put(out, (const char *)&head, sizeof head);
    buffer_put(out, text, head.len);
    buffer_put(out, zero, whole_words(head.len) - head.len);
}

static void put_limits_texts(struct buffer *out, const struct past_limits *past)
{
    if (!past)
        return;
    put_limits_texts(out, past->older);
    put_limits_text(out, past->generation, past->time, past->text);
}

void weir_table_describe(struct weir_table *table, struct buffer *out)
{
    const struct region_header *header = table->region->header;
    const struct limits_history *history = table->history;
    struct weir_table_options options;
    weir_table_options_of(table, &options);
    struct block block = {.magic = BLOCK_MAGIC,
                          .version = table->is_exact ? BLOCK_VERSION : 1,
                          .kind = table->region->shape.kind,
                          .when_full = (uint32_t)options.when_full,
                          .no_top = (uint32_t)options.no_top,
                          .keys = options.keys,
                          .capacity = atom_load(&header->capacity, memory_order_relaxed),
                          .key_max = options.key_max,
                          .state_words = table->state_words,
                          .overrides = options.overrides,
                          .name_bytes = options.name_bytes,
                          .horizon_ns = options.horizon_ns,
                          .drained_ns = table->drained_ns,
                          .key_low = table->region->key.low,
                          .key_high = table->region->key.high};
    lock_take(&table->region->ready);
    const struct past_limits *latest = history ? history->latest : NULL;
    bool announced = latest && history->announced;
    block.generation = atom_load(&header->generation, memory_order_seq_cst);
    block.texts = latest ? history->count + announced : 0;
    buffer_put(out, (const char *)&block, sizeof block);
    put_limits_texts(out, latest);
    if (announced)
        put_limits_text(out, latest->generation + 1, TIME_UNKNOWN, history->announced);
    lock_drop(&table->region->ready);
}

/* ---- reading ---- */

struct block_reader {
    const unsigned char *at;
    size_t left;
};

static bool block_read(struct block_reader *reading, void *to, size_t len)
{
    if (len > reading->left)
        return false;
    memcpy(to, reading->at, len);
    reading->at += len;
    reading->left -= len;
    return true;
}

static bool block_read_text(struct block_reader *reading, struct block_text *head, char *text)
{
    if (!block_read(reading, head, sizeof *head) || head->len == 0 || head->len >= TABLE_TEXT_MAX ||
        whole_words(head->len) > reading->left || memchr(reading->at, '\0', head->len))
        return false;
    memcpy(text, reading->at, head->len);
    text[head->len] = '\0';
    reading->at += whole_words(head->len);
    reading->left -= whole_words(head->len);
    return head->time == TIME_UNKNOWN || (head->time >= 0 && head->time <= WEIR_TIME_MAX);
}

static bool block_makes_sense(const struct block *block)
{
    bool own = block->kind == REGION_OWN;
    return block->magic == BLOCK_MAGIC && block->version >= 1 && block->version <= BLOCK_VERSION &&
           block->when_full <= 1 && block->no_top <= 1 && block->spare == 0 &&
           block->state_words <= STATE_WORDS_MAX &&
           (own || block->kind == REGION_WORDS || block->kind == REGION_WIDE) &&
           block->capacity >= block->keys && block->capacity <= UINT64_C(1) << 40 && block->drained_ns >= 0 &&
           block->drained_ns <= WEIR_TIME_MAX &&
           (own ? block->texts == 0 && block->generation == 0
                : block->texts >= 1 && block->texts <= HISTORY_MOST + 1);
}

static struct weir_table *refuse_damaged_block(const struct block *block, struct weir_table *table,
                                               struct weir_error *err)
{
    weir_table_free(table);
    if (block->magic == BLOCK_MAGIC && block->version > BLOCK_VERSION)
        weir_error_set(err, EINVAL, "the table was written by a later weir: update this one");
    else
        weir_error_set(err, EINVAL, "the description of the table makes no sense");
    return NULL;
}

/* Words need one segment only, in which most takes find them at once; a wide table keeps its stripes. */
static struct weir_table *make_described_table(const struct block *block, const char *limits,
                                               struct weir_error *err)
{
    struct hash_key key = {block->key_low, block->key_high};
    bool wide = block->kind == REGION_WIDE;
    struct weir_table_options options = {.keys = wide ? block->keys : block->capacity,
                                         .key_max = block->key_max,
                                         .name_bytes = block->name_bytes,
                                         .overrides = block->overrides,
                                         .when_full = (int32_t)block->when_full,
                                         .no_top = (int32_t)block->no_top,
                                         .own_limits = block->kind == REGION_OWN,
                                         .horizon_ns = block->horizon_ns};
    struct weir_table *table = weir_table_make_stored(limits, &options, &key, block->state_words, err);
    if (!table || !wide || block->capacity == block->keys)
        return table;
    if (weir_table_grow(table, block->capacity, err))
        return table;
    weir_table_free(table);
    return NULL;
}

/* The limits of the next generation, on top of what is known. */
static bool add_limits_text(struct weir_table *table, const struct block *block,
                            const struct block_text *head, const char *text, struct weir_error *err)
{
    struct table_recovery *recovery = table->recovery;
    struct edition *edition = weir_edition_new(text, head->generation, head->time, err);
    if (!edition)
        return false;
    bool suits = table->kind == &weir_table_words ? weir_edition_suits_words(edition)
                                                  : edition->policy->words <= table->state_words;
    bool follows = !recovery->newest || recovery->newest->generation < head->generation; /* recover.c */
    if (!suits || !follows) {
        weir_edition_free(edition);
        return false;
    }
    edition->older = recovery->newest;
    recovery->newest = edition;
    if (head->generation <= block->generation)
        return weir_history_add(table, head->generation, edition->text, head->time, err);
    return weir_table_announce(table, text, err);
}

/* The table was made with one of these texts; its own take their place. */
static bool read_limits_texts(struct weir_table *table, const struct block *block,
                              struct block_reader *reading, struct weir_error *err)
{
    struct block_text head;
    char text[TABLE_TEXT_MAX];
    struct table_recovery *recovery = table->recovery;
    struct edition *made = atomic_load_explicit(&table->edition, memory_order_relaxed), *latest = NULL;
    recovery->newest = NULL;
    weir_history_clear(table);
    bool good = true;
    for (uint64_t i = 0; good && i < block->texts; i++) {
        good = block_read_text(reading, &head, text) && add_limits_text(table, block, &head, text, err);
        if (good && head.generation == block->generation)
            latest = recovery->newest;
    }
    if (!latest) {
        weir_edition_free(recovery->newest);
        recovery->newest = made;
        return false;
    }
    weir_edition_free(made);
    atomic_store_explicit(&table->edition, latest, memory_order_release);
    recovery->generation = block->generation;
    weir_table_resume(table, latest);
    return good;
}

/* The text in force, to make it with. */
static bool find_current_text(const struct block *block, struct block_reader reading, char *text)
{
    struct block_text head;
    for (uint64_t i = 0; i < block->texts; i++) {
        if (!block_read_text(&reading, &head, text))
            return false;
        if (head.generation == block->generation)
            return true;
    }
    return false;
}

static bool is_described_kind(const struct weir_table *table, const struct block *block)
{
    return table->region->shape.kind == block->kind &&
           (block->kind != REGION_WIDE || table->state_words == block->state_words);
}

struct weir_table *weir_table_describe_read(const void *bytes, size_t len, struct weir_error *err)
{
    struct block_reader reading = {bytes, len};
    struct block block = {0};
    char text[TABLE_TEXT_MAX];
    bool own;
    weir_error_clear(err);
    if (!block_read(&reading, &block, sizeof block) || !block_makes_sense(&block))
        return refuse_damaged_block(&block, NULL, err);
    own = block.kind == REGION_OWN;
    if (!own && !find_current_text(&block, reading, text))
        return refuse_damaged_block(&block, NULL, err);
    struct weir_table *table = make_described_table(&block, own ? NULL : text, err);
    if (!table)
        return NULL;
    if (!weir_recovery_of(table)) {
        weir_table_free(table);
        weir_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    if (!is_described_kind(table, &block) || (!own && !read_limits_texts(table, &block, &reading, err)) ||
        reading.left != 0)
        return refuse_damaged_block(&block, table, err);
    table->drained_ns = block.drained_ns;
    return table;
}
