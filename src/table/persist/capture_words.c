/* SPDX-License-Identifier: MIT */
/*
 * Records of words, without a lock: the number of the line is read first, then hash and word, and both again,
 * so that the word is that key's. Why that is enough is in docs/internals/store.md, 38. The two bits of the
 * word tell its generation if the table was at the same one all the time.
 */
#include "table/persist/capture_words.h"
#include "base/assert.h"
#include "os/clock.h"
#include "table/persist/records_wide.h"
#include "table/persist/recover.h"
#include "table/slots.h"
#include "table/words.h"

static uint64_t line_of(const struct segment *segment, const struct slot *slot)
{
    return (uint64_t)((uintptr_t)slot - (uintptr_t)segment->slots) / sizeof *slot / LINE_SLOTS;
}

/* NULL: it is what is shared. */
static const struct segment *slot_segment(const struct weir_table *table, const struct slot *slot)
{
    const struct region *region = table->region;
    uint64_t count = atom_load(&region->mapped, memory_order_acquire);
    for (uint64_t s = 0; slot != &table->policies->overflow && s < count; s++)
        if (line_of(&region->segments[s], slot) < region->segments[s].lines)
            return &region->segments[s];
    return NULL;
}

/* Of the line of a slot, or of what is shared. NULL: lines have none. */
static const atom64 *slot_line_number(const struct weir_table *table, const struct segment *segment,
                                      const struct slot *slot)
{
    if (!segment)
        return &table->policies->overflow_number;
    return segment->numbers ? &segment->numbers[line_of(segment, slot)] : NULL;
}

enum slot_sight { SIGHT_WORD, SIGHT_HELD, SIGHT_NOTHING };

/* What is in the slot of `hash`. */
static enum slot_sight read_slot_record(const struct weir_table *table, const struct segment *segment,
                                        const struct slot *slot, uint64_t hash, struct word_record *record)
{
    const atom64 *generation = &table->region->header->generation;
    const atom64 *number = slot_line_number(table, segment, slot);
    for (;;) {
        uint64_t latest = atom_load(generation, memory_order_seq_cst);
        uint64_t drawn = number ? atom_load(number, memory_order_seq_cst) : 0;
        if (slot_hash(slot) != hash)
            return SIGHT_NOTHING;
        uint64_t word = slot_word(slot);
        struct exact_name name = {.hash = hash};
        if (table->is_exact && segment)
            name = slots_name(segment, slot, hash);
        if (slot_hash(slot) != hash || slot_word(slot) != word ||
            atom_load(generation, memory_order_seq_cst) != latest)
            continue;
        if (slot_kind(word) == SLOT_TENTATIVE)
            return SIGHT_NOTHING;
        uint64_t behind = (latest - slot_generation(word)) & 3; /* 0 or 1 */
        *record =
            (struct word_record){hash, record_number(drawn, latest - behind), word, name.rest, name.form};
        return slot_kind(word) == SLOT_HELD ? SIGHT_HELD : SIGHT_WORD;
    }
}

static void put_word_record(const struct persist *persist, const struct word_record *record,
                            struct buffer *out)
{
    const struct weir_table *table = persist->owner;
    bool whole = table->is_exact && record->hash != OVERFLOW_HASH;
    size_t bytes = whole ? sizeof *record : WORD_RECORD_BYTES;
    void *body = persist_put(out, persist->number, whole ? TABLE_WHOLE : TABLE_WORD, bytes);
    if (body)
        memcpy(body, record, bytes);
}

/* Whoever holds it has let go of it, or it has limits of its own, or its holder has died. false: look again.
 */
static bool put_held_record(const struct persist *persist, struct weir_table *table, struct slot *slot,
                            uint64_t hash, struct buffer *out)
{
    struct key key = {.hash = hash};
    unsigned char bytes[EXACT_BYTES];
    bool shared = hash == OVERFLOW_HASH;
    struct stripe *stripe = weir_stripe_lock(table->region, shared ? 0 : table_stripe(table, hash));
    bool done = !shared && slot_hash(slot) == hash && slot_kind(slot_word(slot)) == SLOT_HELD &&
                (!table->is_exact || weir_words_name(table, &key, bytes)) &&
                weir_override_put_record(persist, table, &key, out);
    if (!done)
        weir_words_let_go(table, slot, hash);
    weir_stripe_unlock(stripe);
    return done;
}

/* A key that is not where it was listed. Whoever is about to bring it in begins anew, under a number that is
 * higher than ours, or we could not tell which is. */
static struct slot *find_or_put_gone(const struct persist *persist, struct weir_table *table, uint64_t hash,
                                     struct buffer *out)
{
    for (;;) {
        uint64_t number = region_number(table->region);
        bool gone;
        struct slot *slot = weir_slots_seek(table, hash, &gone);
        if (slot)
            return slot;
        if (!gone) /* somebody else was quicker */
            continue;
        uint64_t generation = atom_load(&table->region->header->generation, memory_order_seq_cst);
        weir_gone_put(persist, hash, record_number(number, generation), out);
        return NULL;
    }
}

void weir_words_capture(const struct persist *persist, struct slot *slot, uint64_t hash, struct buffer *out)
{
    struct weir_table *table = persist->owner;
    struct word_record record;
    while (slot) {
        switch (read_slot_record(table, slot_segment(table, slot), slot, hash, &record)) {
        case SIGHT_NOTHING:
            slot = find_or_put_gone(persist, table, hash, out);
            break;
        case SIGHT_WORD:
            put_word_record(persist, &record, out);
            return;
        case SIGHT_HELD:
            if (put_held_record(persist, table, slot, hash, out))
                return;
        }
    }
}

/* ---- all of them ---- */

static void put_line_records(const struct persist *persist, const struct edition *edition,
                             const struct segment *segment, uint64_t line, int64_t now, struct buffer *out)
{
    struct weir_table *table = persist->owner;
    struct slot *slot = region_slot(segment, line * LINE_SLOTS);
    struct word_record record;
    for (int i = 0; i < LINE_SLOTS; i++, slot++) {
        uint64_t hash = slot_hash(slot);
        if (hash == 0)
            continue;
        enum slot_sight sight = read_slot_record(table, segment, slot, hash, &record);
        if (sight == SIGHT_HELD)
            weir_words_capture(persist, slot, hash, out);
        else if (sight == SIGHT_WORD && !weir_slot_is_idle(table, edition, hash, record.word, now))
            put_word_record(persist, &record, out);
    }
}

bool weir_words_walk(const struct persist *persist, uint64_t *cursor, struct buffer *out, size_t bytes)
{
    struct weir_table *table = persist->owner;
    int64_t now = region_time(table->region, clock_now());
    size_t before = buffer_len(out);
    bool first = *cursor == 0;
    if (*cursor == 0)
        weir_words_capture(persist, &table->policies->overflow, OVERFLOW_HASH, out);
    ASSERT(!first || out->failed || buffer_len(out) > before); /* what is shared is in every image */
    while (buffer_len(out) < bytes && !out->failed) {
        uint64_t line = *cursor = weir_words_line(table, *cursor);
        const struct segment *segment = weir_words_segment(table, &line);
        const struct edition *edition = table_edition(table);
        if (!segment)
            return false;
        if (!edition) /* out of memory */
            out->failed = true;
        else
            put_line_records(persist, edition, segment, line, now, out);
        (*cursor)++;
    }
    return !out->failed;
}
