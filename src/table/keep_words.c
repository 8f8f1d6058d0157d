/* SPDX-License-Identifier: MIT */
/*
 * Records of words, without a lock: the number of the line is read first, then who and word, and that again,
 * so that the word is his. Why that is enough is in ARCHITECTURE.md, 38. The two bits of the word tell its
 * generation if the table was at the same one all the time.
 */
#include "os/clock.h"
#include "table/keep_kinds.h"
#include "table/slots.h"
#include "table/words.h"

static uint64_t line_of(const struct segment *segment, const struct slot *slot)
{
    return (uint64_t)((uintptr_t)slot - (uintptr_t)segment->slots) / sizeof *slot / LINE_SLOTS;
}

/* NULL: it is what is shared. */
static const struct segment *segment_of(const struct weir_table *table, const struct slot *slot)
{
    const struct region *region = table->region;
    uint64_t count = atom_load(&region->mapped, memory_order_acquire);
    for (uint64_t s = 0; slot != &table->policies->overflow && s < count; s++)
        if (line_of(&region->segments[s], slot) < region->segments[s].lines)
            return &region->segments[s];
    return NULL;
}

/* Of the line of a slot, or of what is shared. NULL: lines have none. */
static const atom64 *number_of(const struct weir_table *table, const struct segment *segment,
                               const struct slot *slot)
{
    if (!segment)
        return &table->policies->overflow_number;
    return segment->numbers ? &segment->numbers[line_of(segment, slot)] : NULL;
}

enum sight { SIGHT_WORD, SIGHT_HELD, SIGHT_NOTHING };

/* What is in the slot of `who`. */
static enum sight see(const struct weir_table *table, const struct segment *segment, const struct slot *slot,
                      uint64_t who, struct word_record *record)
{
    const atom64 *generation = &table->region->header->generation;
    const atom64 *number = number_of(table, segment, slot);
    for (;;) {
        uint64_t latest = atom_load(generation, memory_order_seq_cst);
        uint64_t drawn = number ? atom_load(number, memory_order_seq_cst) : 0;
        if (slot_who(slot) != who)
            return SIGHT_NOTHING;
        uint64_t word = slot_word(slot);
        struct exact_name name = {.who = who};
        if (table->is_exact && segment)
            name = slots_name(segment, slot, who);
        if (slot_who(slot) != who || slot_word(slot) != word ||
            atom_load(generation, memory_order_seq_cst) != latest)
            continue;
        if (slot_kind(word) == SLOT_TENTATIVE)
            return SIGHT_NOTHING;
        uint64_t behind = (latest - slot_generation(word)) & 3; /* 0 or 1 */
        *record =
            (struct word_record){who, record_number(drawn, latest - behind), word, name.rest, name.form};
        return slot_kind(word) == SLOT_HELD ? SIGHT_HELD : SIGHT_WORD;
    }
}

static void put(const struct keep *keep, const struct word_record *record, struct buffer *out)
{
    const struct weir_table *table = keep->owner;
    bool whole = table->is_exact && record->who != OVERFLOW_WHO;
    size_t bytes = whole ? sizeof *record : WORD_RECORD_BYTES;
    void *body = keep_put(out, keep->number, whole ? TABLE_WHOLE : TABLE_WORD, bytes);
    if (body)
        memcpy(body, record, bytes);
}

/* Whoever holds it has let go of it, or it has limits of its own, or its holder has died. false: look again.
 */
static bool put_held(const struct keep *keep, struct weir_table *table, struct slot *slot, uint64_t who,
                     struct buffer *out)
{
    struct key key = {.who = who};
    unsigned char bytes[EXACT_BYTES];
    bool shared = who == OVERFLOW_WHO;
    struct stripe *stripe = weir_stripe_lock(table->region, shared ? 0 : table_stripe(table, who));
    bool done = !shared && slot_who(slot) == who && slot_kind(slot_word(slot)) == SLOT_HELD &&
                (!table->is_exact || weir_words_name(table, &key, bytes)) &&
                weir_own_limits_put(keep, table, &key, out);
    if (!done)
        weir_words_let_go(table, slot, who);
    weir_stripe_unlock(stripe);
    return done;
}

/* A key that is not where it was listed. Whoever is about to bring it in begins anew, under a number that is
 * higher than ours, or we could not tell which is. */
static struct slot *find_or_tell(const struct keep *keep, struct weir_table *table, uint64_t who,
                                 struct buffer *out)
{
    for (;;) {
        uint64_t number = region_number(table->region);
        bool gone;
        struct slot *slot = weir_slots_seek(table, who, &gone);
        if (slot)
            return slot;
        if (!gone) /* somebody else was quicker */
            continue;
        uint64_t generation = atom_load(&table->region->header->generation, memory_order_seq_cst);
        weir_gone_put(keep, who, record_number(number, generation), out);
        return NULL;
    }
}

void weir_words_capture(const struct keep *keep, struct slot *slot, uint64_t who, struct buffer *out)
{
    struct weir_table *table = keep->owner;
    struct word_record record;
    while (slot) {
        switch (see(table, segment_of(table, slot), slot, who, &record)) {
        case SIGHT_NOTHING:
            slot = find_or_tell(keep, table, who, out);
            break;
        case SIGHT_WORD:
            put(keep, &record, out);
            return;
        case SIGHT_HELD:
            if (put_held(keep, table, slot, who, out))
                return;
        }
    }
}

/* ---- all of them ---- */

static void put_line(const struct keep *keep, const struct edition *edition, const struct segment *segment,
                     uint64_t line, int64_t now, struct buffer *out)
{
    struct weir_table *table = keep->owner;
    struct slot *slot = region_slot(segment, line * LINE_SLOTS);
    struct word_record record;
    for (int i = 0; i < LINE_SLOTS; i++, slot++) {
        uint64_t who = slot_who(slot);
        if (who == 0)
            continue;
        enum sight sight = see(table, segment, slot, who, &record);
        if (sight == SIGHT_HELD)
            weir_words_capture(keep, slot, who, out);
        else if (sight == SIGHT_WORD && !weir_slot_is_idle(table, edition, who, record.word, now))
            put(keep, &record, out);
    }
}

bool weir_words_walk(const struct keep *keep, uint64_t *cursor, struct buffer *out, size_t bytes)
{
    struct weir_table *table = keep->owner;
    int64_t now = region_time(table->region, clock_now());
    if (*cursor == 0)
        weir_words_capture(keep, &table->policies->overflow, OVERFLOW_WHO, out);
    while (buffer_len(out) < bytes && !out->failed) {
        uint64_t line = *cursor = weir_words_line(table, *cursor);
        const struct segment *segment = weir_words_segment(table, &line);
        const struct edition *edition = table_edition(table);
        if (!segment)
            return false;
        if (!edition) /* out of memory */
            out->failed = true;
        else
            put_line(keep, edition, segment, line, now, out);
        (*cursor)++;
    }
    return !out->failed;
}
