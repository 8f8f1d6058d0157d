/* SPDX-License-Identifier: MIT */
#include "table/persist/persist.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "core/idle.h"
#include "table/make.h"
#include "table/persist/internal.h"

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

static uint64_t body_word_at(const unsigned char *body, size_t at)
{
    uint64_t word;
    memcpy(&word, body + at, sizeof word);
    return word;
}

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
