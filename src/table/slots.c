/* SPDX-License-Identifier: MIT */
#include "table/slots.h"

#include <string.h>

#include "table/override.h"
#include "table/takers.h"
#include "table/words.h"

/* ---- windows ---- */

static unsigned reach_of(const struct segment *segment, uint64_t line)
{
    return atomic_load_explicit(&segment->reach[line], memory_order_seq_cst);
}

static void raise_reach(const struct segment *segment, uint64_t line, unsigned distance)
{
    unsigned char seen = (unsigned char)reach_of(segment, line);
    while (seen < distance &&
           !atomic_compare_exchange_weak_explicit(&segment->reach[line], &seen, (unsigned char)distance,
                                                  memory_order_seq_cst, memory_order_seq_cst)) {
    }
}

static uint64_t line_behind(const struct segment *segment, uint64_t home, unsigned distance)
{
    uint64_t line = home + distance;
    return line < segment->lines ? line : line % segment->lines;
}

/* Lines that a window may have: no line twice. */
static unsigned reach_max(const struct segment *segment)
{
    return segment->lines > REACH_MAX ? REACH_MAX : (unsigned)segment->lines - 1;
}

/* ---- looking through a window ---- */

#define WITNESS_NUMBER_MAX (SLOT_VALUE_MAX >> EXACT_FORM_BITS)
#define RIVALS             8 /* tentative entries of a key that are settled in one go */

struct rival {
    const struct segment *segment;
    struct slot *slot;
    uint64_t word;
};

struct look {
    struct spot found;           /* not tentative */
    struct rival rivals[RIVALS]; /* tentative ones, the lowest place first */
    size_t rival_count;
    bool whole;        /* all segments could be looked through */
    bool other;        /* another key that is called so is there, or comes in */
    struct rival twin; /* its entry, unless that is tentative */
};

/* Is the tentative entry already another key's that is called the same? */
static bool is_others(const struct segment *segment, const struct slot *slot, uint64_t word,
                      const struct key *key)
{
    const atom128 *witness = slots_witness(segment, slot);
    uint64_t form = atom_load(&witness->high, memory_order_seq_cst);
    return form >> EXACT_FORM_BITS == slot_value(word) && !slots_is_key(segment, slot, key) &&
           slot_word(slot) == word;
}

/* Gives false once there is nothing more to look for. A word counts only if the slot is still the key's after
 * it was read: that of an empty slot would look like a plain one. */
static bool look_at_line(struct segment *segment, uint64_t line, uint64_t who, const struct key *key,
                         struct look *look)
{
    struct slot *slot = region_slot(segment, line * LINE_SLOTS);
    for (int i = 0; i < LINE_SLOTS; i++, slot++) {
        if (slot_who(slot) != who)
            continue;
        uint64_t word = slot_word(slot);
        if (slot_who(slot) != who)
            continue;
        if (slot_kind(word) != SLOT_TENTATIVE) {
            bool is_key = !key || slots_is_key(segment, slot, key);
            if (!is_key && (slot_who(slot) != who || slot_word(slot) != word)) {
                i--, slot--; /* it was another one's witness, perhaps: look again */
                continue;
            }
            look->other = !is_key;
            if (is_key)
                look->found = (struct spot){segment, line, slot};
            else
                look->twin = (struct rival){segment, slot, word};
            return false;
        }
        if (key && is_others(segment, slot, word, key))
            look->other = true;
        else if (look->rival_count < RIVALS)
            look->rivals[look->rival_count++] = (struct rival){segment, slot, word};
    }
    return true;
}

/* The segments from the first on, `count` in all. */
static void look_at_segments(struct weir_table *table, uint64_t who, const struct key *key, uint64_t count,
                             struct look *look)
{
    look->found.slot = NULL;
    look->other = false;
    look->twin.slot = NULL;
    look->rival_count = 0;
    for (uint64_t s = region_first(table->region); s < count; s++) {
        struct segment *segment = &table->region->segments[s];
        uint64_t home = spread(who, segment->lines);
        unsigned reach = reach_of(segment, home);
        for (unsigned d = 0; d <= reach && d <= reach_max(segment); d++)
            if (!look_at_line(segment, line_behind(segment, home, d), who, key, look))
                return;
    }
}

/* `key` NULL: any key that is called so. */
static void look_for(struct weir_table *table, uint64_t who, const struct key *key, struct look *look)
{
    uint64_t count;
    do {
        count = region_look(table->region, &look->whole);
        look_at_segments(table, who, key, count, look);
    } while (look->whole && !look->found.slot && !look->other && region_grew(table->region, count));
}

static void look_through(struct weir_table *table, uint64_t who, struct look *look)
{
    look_for(table, who, NULL, look);
}

static void look_for_key(struct weir_table *table, const struct key *key, struct look *look)
{
    look_for(table, key->who, table->is_exact ? key : NULL, look);
}

struct spot weir_slots_find_key(struct weir_table *table, const struct key *key)
{
    struct look look;
    look_for_key(table, key, &look);
    return look.found;
}

struct spot weir_slots_find(struct weir_table *table, uint64_t who)
{
    struct look look;
    look_through(table, who, &look);
    return look.found;
}

struct slot *weir_slots_far(const struct segment *segment, uint64_t who)
{
    uint64_t home = spread(who, segment->lines);
    unsigned reach = reach_of(segment, home);
    for (unsigned d = 1; d <= reach && d <= reach_max(segment); d++) {
        struct slot *slot =
            slots_in_line(region_slot(segment, line_behind(segment, home, d) * LINE_SLOTS), who);
        if (slot)
            return slot;
    }
    return NULL;
}

bool weir_slots_any(struct weir_table *table, uint64_t who)
{
    struct look look;
    look_through(table, who, &look);
    return look.found.slot || look.rival_count > 0 || !look.whole;
}

/* Is the key there, or about to be, or may it be? Another one that is called so is not it. */
static bool is_there(struct weir_table *table, const struct key *key)
{
    struct look look;
    look_for_key(table, key, &look);
    return look.found.slot || (look.rival_count > 0 && !look.other) || !look.whole;
}

bool weir_slots_came(struct weir_table *table, const struct key *key, int64_t now)
{
    if (is_there(table, key))
        return true;
    int64_t floor = region_floor(table->region);
    return (table->kind == &weir_table_own ? min64(floor, OWN_TIME_MAX) : floor) > now;
}

/* ---- forgetting ---- */

bool weir_slot_is_idle(struct weir_table *table, const struct edition *edition, uint64_t who, uint64_t word,
                       int64_t now)
{
    enum slot_kind kind = slot_kind(word);
    if (who <= OVERFLOW_WHO || kind == SLOT_TENTATIVE || kind == SLOT_HELD ||
        !table_is_latest(table, edition))
        return false;
    return slot_value(weir_word_convert(table, edition, word)) <=
           weir_word_fresh(table, edition, now - TABLE_GRACE_NS);
}

/* The floor is at least r - grace whenever something is dropped at the reading r. To raise it to r itself
 * keeps the next ones from having to: it is written once in TABLE_GRACE_NS at the most. */
static void raise_floor(struct region *region, int64_t now)
{
    uint64_t seen = atom_load(&region->header->floor, memory_order_relaxed);
    while ((int64_t)seen < now - TABLE_GRACE_NS &&
           !atom_cas(&region->header->floor, &seen, (uint64_t)now, memory_order_seq_cst)) {
    }
}

void weir_slots_forget_takers(struct weir_table *table, const struct edition *edition, int64_t now)
{
    uint64_t word = slot_word(&table->policies->overflow);
    if (slot_kind(word) == SLOT_HELD || !table_is_latest(table, edition) ||
        slot_value(weir_word_convert_shared(table, edition, word)) >
            weir_word_fresh(table, edition, now - TABLE_GRACE_NS))
        return;
    raise_floor(table->region, now);
    weir_takers_clear(table, OVERFLOW_WHO);
}

bool weir_slots_empty(struct weir_table *table, struct slot *slot, uint64_t who, uint64_t word)
{
    if (!slot_exchange(slot, who, word, 0, 0))
        return false;
    table_count(table, (uint64_t)-1);
    return true;
}

bool weir_slots_drop(struct weir_table *table, struct slot *slot, uint64_t who, uint64_t word, int64_t now)
{
    if (slot_kind(word) != SLOT_TENTATIVE)
        raise_floor(table->region, now);
    return weir_slots_empty(table, slot, who, word);
}

/* ---- coming in ---- */

struct room {
    struct spot place;
    uint64_t who, word; /* what is there now */
    unsigned distance;  /* from home */
};

static bool room_in_line(struct weir_table *table, const struct edition *edition, struct segment *segment,
                         uint64_t line, int64_t now, struct room *room)
{
    struct slot *slot = region_slot(segment, line * LINE_SLOTS);
    for (int i = 0; i < LINE_SLOTS; i++, slot++) {
        uint64_t who = slot_who(slot), word = slot_word(slot);
        if (who != 0 && !weir_slot_is_idle(table, edition, who, word, now))
            continue;
        room->place = (struct spot){segment, line, slot};
        room->who = who;
        room->word = word;
        return true;
    }
    return false;
}

/* Near its homes first, the newest segment's before the others', which probably are full. Not in those that
 * are closed. */
static bool find_room(struct weir_table *table, const struct edition *edition, uint64_t who, int64_t now,
                      struct room *room)
{
    static const unsigned from[] = {0, 8}, to[] = {7, REACH_MAX};
    uint64_t open = region_open(table->region); /* first: what opens in between is counted */
    uint64_t count = region_segments(table->region);
    for (size_t round = 0; round < sizeof from / sizeof from[0]; round++)
        for (uint64_t s = count; s-- > open;) {
            struct segment *segment = &table->region->segments[s];
            uint64_t home = spread(who, segment->lines);
            for (unsigned d = from[round]; d <= to[round] && d <= reach_max(segment); d++) {
                room->distance = d;
                if (room_in_line(table, edition, segment, line_behind(segment, home, d), now, room))
                    return true;
            }
        }
    return false;
}

/* May the other key that is called so be forgotten? */
static bool is_twin_idle(struct weir_table *table, const struct edition *edition, const struct look *look,
                         uint64_t who, int64_t now)
{
    return look->twin.slot && weir_slot_is_idle(table, edition, who, look->twin.word, now);
}

bool weir_slots_has_room(struct weir_table *table, const struct edition *edition, const struct key *key,
                         int64_t now)
{
    struct room room;
    struct look look;
    look_for_key(table, key, &look);
    return (!look.other || is_twin_idle(table, edition, &look, key->who, now)) &&
           find_room(table, edition, key->who, now, &room);
}

/* Puts the key there, if nobody else has come. */
static bool fill(struct weir_table *table, const struct room *room, uint64_t who, uint64_t word, int64_t now)
{
    const struct segment *segment = room->place.segment;
    if (room->who != 0)
        raise_floor(table->region, now);
    raise_reach(segment, spread(who, segment->lines), room->distance);
    if (!slot_exchange(room->place.slot, room->who, room->word, who, word))
        return false;
    if (room->who == 0)
        table_count(table, 1);
    return true;
}

/* Nobody else's. */
static uint64_t tentative_word(struct region *region)
{
    return slot_pack(SLOT_TENTATIVE, 0, region_number(region) & WITNESS_NUMBER_MAX);
}

/* Makes the tentative entry this key's, if it is nobody's yet. false: it is gone, or another key's that is
 * called the same. See slots.h. */
static bool witness(const struct rival *entry, const struct key *key)
{
    atom128 *to = slots_witness(entry->segment, entry->slot);
    uint64_t number = slot_value(entry->word);
    for (;;) {
        uint64_t rest = atom_load(&to->low, memory_order_seq_cst);
        uint64_t form = atom_load(&to->high, memory_order_seq_cst);
        if (slot_who(entry->slot) != key->who || slot_word(entry->slot) != entry->word)
            return false;
        if (form >> EXACT_FORM_BITS == number && atom_load(&to->low, memory_order_seq_cst) == rest)
            return rest == key->rest && (form & ((1 << EXACT_FORM_BITS) - 1)) == key->form;
        if (form >> EXACT_FORM_BITS != number &&
            atom_cas128(to, rest, form, key->rest, number << EXACT_FORM_BITS | key->form))
            return true;
    }
}

/* Claims a slot. false: no room. *rival stays empty if another was quicker. */
static bool claim(struct weir_table *table, const struct edition *edition, uint64_t who, int64_t now,
                  struct rival *rival)
{
    struct room room;
    if (!find_room(table, edition, who, now, &room))
        return false;
    uint64_t word = tentative_word(table->region);
    if (fill(table, &room, who, word, now))
        *rival = (struct rival){room.place.segment, room.place.slot, word};
    return true;
}

/* How a key starts whose entry was seen before this is called: see slots.h for the two reasons. If a promise
 * of what it starts from is outstanding, or might be, it may be the key's own. */
static uint64_t start_word(struct weir_table *table, const struct edition *edition, uint64_t who, int64_t now)
{
    bool inherits = weir_takers_have(table, who); /* before the floor */
    uint64_t value = weir_word_fresh(table, edition, max64(now, region_floor(table->region)));
    uint64_t shared = weir_word_convert_shared(table, edition, slot_word(&table->policies->overflow));
    if (!inherits || slot_value(shared) <= value)
        return slot_pack(SLOT_PLAIN, (unsigned)edition->generation & 3, value);
    return slot_with_kind(shared, slot_kind(shared) == SLOT_PLAIN ? SLOT_PLAIN : SLOT_PROMISED);
}

/* A key is about to come in there. It may have been elsewhere before, under any number that was drawn up to
 * then: from the moment at which it can be seen its line has a higher one. */
static void number_line_of(struct region *region, const struct rival *entry)
{
    uint64_t offset = (uint64_t)((uintptr_t)entry->slot - (uintptr_t)entry->segment->slots);
    region_lower(region, entry->segment, offset / sizeof *entry->slot / LINE_SLOTS);
}

/* Of the tentative entries, from the given one on. */
static void remove_rivals(struct weir_table *table, const struct look *look, uint64_t who, size_t from)
{
    for (size_t i = from; i < look->rival_count; i++)
        (void)weir_slots_empty(table, look->rivals[i].slot, who, look->rivals[i].word);
}

struct slot *weir_slots_seek(struct weir_table *table, uint64_t who, bool *gone)
{
    struct look look;
    look_through(table, who, &look);
    *gone = !look.found.slot && look.whole && look.rival_count < RIVALS;
    for (size_t i = 0; !look.found.slot && i < look.rival_count; i++)
        if (!weir_slots_empty(table, look.rivals[i].slot, who, look.rivals[i].word))
            *gone = false;
    return look.found.slot;
}

/* The key is there already: what came in beside it goes, or it would keep its slot for ever. */
static void give_way(struct weir_table *table, const struct look *look, uint64_t who,
                     const struct rival *ours)
{
    remove_rivals(table, look, who, 0);
    if (ours->slot)
        (void)weir_slots_empty(table, ours->slot, who, ours->word);
}

static bool is_closed(const struct region *region, const struct segment *segment)
{
    return (uint64_t)(segment - region->segments) < region_open(region);
}

struct spot weir_slots_settle(struct weir_table *table, const struct edition **edition, const struct key *key,
                              int64_t now)
{
    const struct spot nowhere = {NULL, 0, NULL};
    struct rival seen = {NULL, NULL, 0}; /* before the look */
    struct look look;
    for (;;) {
        look_for_key(table, key, &look);
        if (look.found.slot || (look.other && !is_twin_idle(table, *edition, &look, key->who, now))) {
            give_way(table, &look, key->who, &seen);
            return look.found;
        }
        if (look.other) { /* and may be forgotten */
            (void)weir_slots_drop(table, look.twin.slot, key->who, look.twin.word, now);
            continue;
        }
        if (!look.whole) {
            *edition = NULL;
            return nowhere;
        }
        if (!table_is_latest(table, *edition) && !(*edition = table_edition(table)))
            return nowhere;
        if (look.rival_count == 0) {
            if (seen.slot) /* removed by somebody, or in a segment that nobody looks at any more */
                (void)weir_slots_empty(table, seen.slot, key->who, seen.word);
            seen = (struct rival){NULL, NULL, 0};
            if (!claim(table, *edition, key->who, now, &seen) && table_is_latest(table, *edition) &&
                !is_there(table, key)) /* it may have come in where the last room was */
                return nowhere;
            continue;
        }
        const struct rival *lowest = &look.rivals[0];
        bool alone = look.rival_count == 1 && lowest->slot == seen.slot && lowest->word == seen.word;
        remove_rivals(table, &look, key->who, 1);
        seen = *lowest;
        if (is_closed(table->region, seen.segment)) { /* it is taken away by the mover, or by us */
            (void)weir_slots_empty(table, seen.slot, key->who, seen.word);
            continue;
        }
        uint64_t start = start_word(table, *edition, key->who, now);
        if (!alone || !table_is_latest(table, *edition))
            continue;
        number_line_of(table->region, &seen);
        if (table->is_exact && !witness(&seen, key))
            continue;
        if (slot_exchange(seen.slot, key->who, seen.word, key->who, start))
            weir_table_name(table, key);
    }
}

/* ---- moving ---- */

static const struct segment *segment_of(const struct region *region, const struct slot *slot)
{
    const struct segment *segment = region->segments;
    while ((uint64_t)((uintptr_t)slot - (uintptr_t)segment->slots) >= segment->bytes)
        segment++;
    return segment;
}

/* As fill, with a copy of the entry in `from`. Its witness is there before anybody can see it. */
static bool fill_copy(struct weir_table *table, const struct room *room, const struct slot *from,
                      uint64_t who, uint64_t word, int64_t now)
{
    if (!table->is_exact)
        return fill(table, room, who, word, now);
    const atom128 *old = slots_witness(segment_of(table->region, from), from);
    struct key key = {.who = who,
                      .rest = atom_load(&old->low, memory_order_relaxed),
                      .form = (uint32_t)atom_load(&old->high, memory_order_relaxed) &
                              ((1 << EXACT_FORM_BITS) - 1)};
    struct rival entry = {room->place.segment, room->place.slot, tentative_word(table->region)};
    if (!fill(table, room, who, entry.word, now))
        return false;
    if (witness(&entry, &key) && slot_exchange(entry.slot, who, entry.word, who, word))
        return true;
    (void)weir_slots_empty(table, entry.slot, who, entry.word);
    return false;
}

/* The entry is held: a copy, which is `word`, in another place, then nothing here. The line has a higher
 * number before the copy can be seen, as for a key that comes in. */
static bool move_held(struct weir_table *table, const struct edition *edition, struct slot *from,
                      uint64_t who, uint64_t word, int64_t now)
{
    struct room room;
    do {
        if (!find_room(table, edition, who, now, &room))
            return false;
        region_lower(table->region, room.place.segment, room.place.line);
    } while (!fill_copy(table, &room, from, who, word, now));
    (void)weir_slots_empty(table, from, who, slot_with_kind(word, SLOT_HELD));
    return true;
}

bool weir_slots_move(struct weir_table *table, const struct edition *edition, struct slot *from,
                     uint64_t stripe, int64_t now, bool *left)
{
    for (;;) {
        uint64_t who = slot_who(from), word = slot_word(from);
        if (who == 0)
            return true;
        if (slot_who(from) != who)
            continue;
        if (table_stripe(table, who) != stripe) {
            *left = true;
            return true;
        }
        if (slot_kind(word) == SLOT_TENTATIVE || weir_slot_is_idle(table, edition, who, word, now)) {
            if (weir_slots_drop(table, from, who, word, now))
                return true;
        } else if (slot_kind(word) == SLOT_HELD) {
            if (weir_override_has(table, who)) /* it stays held */
                return move_held(table, edition, from, who, word, now);
            weir_words_let_go(table, from, who);
        } else if (slot_exchange(from, who, word, who, slot_with_kind(word, SLOT_HELD))) {
            if (move_held(table, edition, from, who, word, now))
                return true;
            (void)slot_exchange(from, who, slot_with_kind(word, SLOT_HELD), who, word);
            return false;
        }
    }
}
