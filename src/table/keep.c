/* SPDX-License-Identifier: MIT */
#include "table/keep.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "core/idle.h"
#include "table/keep_kinds.h"
#include "table/make.h"

struct weir_table *weir_table_new_kept(const char *limits, const struct weir_table_options *options,
                                       const struct hash_key *key, struct weir_error *err)
{
    if (options)
        return weir_table_make_kept(limits, options, key, 0, err);
    weir_error_set(err, EINVAL, "options is NULL");
    return NULL;
}

/* ---- what the store asks ---- */

static bool is_wide(const struct keep *keep)
{
    return ((const struct weir_table *)keep->owner)->kind == &weir_table_wide;
}

static void capture(const struct keep *keep, void *slot, uint64_t who, struct buffer *out)
{
    if (is_wide(keep))
        weir_wide_capture(keep, slot, who, out);
    else
        weir_words_capture(keep, slot, who, out);
}

static bool walk(const struct keep *keep, uint64_t *cursor, struct buffer *out, size_t bytes)
{
    return is_wide(keep) ? weir_wide_record_walk(keep, cursor, out, bytes)
                         : weir_words_walk(keep, cursor, out, bytes);
}

/* ---- records of keys with limits of their own ---- */

static uint64_t word_at(const unsigned char *body, size_t at)
{
    uint64_t word;
    memcpy(&word, body + at, sizeof word);
    return word;
}

/* Length and bytes, in whole words, from *at on, which becomes where they end. */
static bool read_bytes(const unsigned char *body, size_t len, size_t *at, size_t most, const void **bytes,
                       size_t *count)
{
    if (len - *at < 8 || word_at(body, *at) > most)
        return false;
    *count = word_at(body, *at);
    *at += 8;
    *bytes = body + *at;
    if (whole_words(*count) > len - *at)
        return false;
    *at += whole_words(*count);
    return true;
}

/* What nobody has the memory to look at makes sense, perhaps: *failed. */
static bool read_own(const struct weir_table *table, unsigned char *body, size_t len, struct own_record *own,
                     bool *failed)
{
    struct weir_error err = {0};
    char text[OVERRIDE_TEXT_MAX] = "";
    size_t at = 16;
    const void *limits;
    if (len < 24 || len % 8 != 0)
        return false;
    *own = (struct own_record){.key.who = word_at(body, 0), .body = body};
    if (own->key.who <= OVERFLOW_WHO)
        return false;
    if (table->key_max > 0 && (!read_bytes(body, len, &at, table->key_max, &own->key.bytes, &own->key.len) ||
                               table_who(table, own->key.bytes, own->key.len) != own->key.who))
        return false;
    if (!read_bytes(body, len, &at, sizeof text - 1, &limits, &own->text_len) ||
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

static bool apply_own(struct weir_table *table, const unsigned char *body, size_t len, bool *failed)
{
    struct own_record own;
    if (table->kind == &weir_table_own ||
        !read_own(table, (unsigned char *)(uintptr_t)body, len, &own, failed))
        return false;
    uint64_t number = word_at(body, 8);
    return weir_recovery_edition(table, number) &&
           (table->kind == &weir_table_wide ? weir_wide_apply_own(table, number, &own, len, failed)
                                            : weir_words_apply_own(table, number, &own, len, failed));
}

/* ---- recovery ---- */

/* Is that the name of a key? */
static bool record_names_key(const struct weir_table *table, const struct word_record *record)
{
    struct exact_name name = {record->who, record->rest, (uint32_t)record->form};
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
                      : !table->is_exact || record.who == OVERFLOW_WHO;
    return good && weir_words_apply(table, &record, failed);
}

static bool apply(const struct keep *keep, uint8_t kind, const unsigned char *body, size_t len, bool *failed)
{
    struct weir_table *table = keep->owner;
    bool wide = is_wide(keep);
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
        record = (struct word_record){
            gone.who, gone.number, slot_pack(SLOT_PLAIN, record_generation(gone.number), 0), 0, EXACT_NOBODY};
        return gone.who != OVERFLOW_WHO && weir_words_apply(table, &record, failed);
    case TABLE_OWN:
        return apply_own(table, body, len, failed);
    default:
        return false;
    }
}

static void imaged(const struct keep *keep, uint64_t generation)
{
    weir_table_history_forget(keep->owner, generation);
}

const struct keep_kind weir_table_keep = {.capture = capture, .walk = walk, .apply = apply, .imaged = imaged};
