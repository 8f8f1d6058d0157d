/* SPDX-License-Identifier: MIT */
#include "table/slots.h"

#include <string.h>

#include "core/idle.h"
#include "table/names.h"
#include "table/overflow_filter.h"
#include "table/override.h"
#include "table/words.h"

/* ---- windows ---- */

static unsigned line_reach(const struct segment *segment, uint64_t line)
{
    return atomic_load_explicit(&segment->reach[line], memory_order_seq_cst);
}

static void raise_line_reach(const struct segment *segment, uint64_t line, unsigned distance)
{
    unsigned char seen = (unsigned char)line_reach(segment, line);
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
static unsigned line_reach_max(const struct segment *segment)
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

struct slot_search {
    struct slot_ref found;       /* not tentative */
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
    const atom128 *write_witness = slots_witness(segment, slot);
    uint64_t form = atom_load(&write_witness->high, memory_order_seq_cst);
    return form >> EXACT_FORM_BITS == slot_value(word) && !slots_is_key(segment, slot, key) &&
           slot_word(slot) == word;
}

/* Gives false once there is nothing more to look for. A word counts only if the slot is still the key's after
 * it was read: that of an empty slot would look like a plain one. */
static bool search_line(struct segment *segment, uint64_t line, uint64_t hash, const struct key *key,
                        struct slot_search *search)
{
    struct slot *slot = region_slot(segment, line * LINE_SLOTS);
    for (int i = 0; i < LINE_SLOTS; i++, slot++) {
        if (slot_hash(slot) != hash)
            continue;
        uint64_t word = slot_word(slot);
        if (slot_hash(slot) != hash)
            continue;
        if (slot_kind(word) != SLOT_TENTATIVE) {
            bool is_key = !key || slots_is_key(segment, slot, key);
            if (!is_key && (slot_hash(slot) != hash || slot_word(slot) != word)) {
                i--, slot--; /* it was another one's witness, perhaps: look again */
                continue;
            }
            search->other = !is_key;
            if (is_key)
                search->found = (struct slot_ref){segment, line, slot};
            else
                search->twin = (struct rival){segment, slot, word};
            return false;
        }
        if (key && is_others(segment, slot, word, key))
            search->other = true;
        else if (search->rival_count < RIVALS)
            search->rivals[search->rival_count++] = (struct rival){segment, slot, word};
    }
    return true;
}

/* The segments from the first on, `count` in all. */
static void search_segments(struct weir_table *table, uint64_t hash, const struct key *key, uint64_t count,
                            struct slot_search *search)
{
    search->found.slot = NULL;
    search->other = false;
    search->twin.slot = NULL;
    search->rival_count = 0;
    for (uint64_t s = region_first(table->region); s < count; s++) {
        struct segment *segment = &table->region->segments[s];
        uint64_t home = hash_to_index(hash, segment->lines);
        unsigned reach = line_reach(segment, home);
        for (unsigned d = 0; d <= reach && d <= line_reach_max(segment); d++)
            if (!search_line(segment, line_behind(segment, home, d), hash, key, search))
                return;
    }
}

/* `key` NULL: any key that is called so. */
static void search_window(struct weir_table *table, uint64_t hash, const struct key *key,
                          struct slot_search *search)
{
    uint64_t count;
    do {
        count = region_look(table->region, &search->whole);
        search_segments(table, hash, key, count, search);
    } while (search->whole && !search->found.slot && !search->other && region_grew(table->region, count));
}

static void search_hash(struct weir_table *table, uint64_t hash, struct slot_search *search)
{
    search_window(table, hash, NULL, search);
}

static void search_key(struct weir_table *table, const struct key *key, struct slot_search *search)
{
    search_window(table, key->hash, table->is_exact ? key : NULL, search);
}

struct slot_ref weir_slots_find_key(struct weir_table *table, const struct key *key)
{
    struct slot_search search;
    search_key(table, key, &search);
    return search.found;
}

struct slot_ref weir_slots_find(struct weir_table *table, uint64_t hash)
{
    struct slot_search search;
    search_hash(table, hash, &search);
    return search.found;
}

struct slot *weir_slots_far(const struct segment *segment, uint64_t hash)
{
    uint64_t home = hash_to_index(hash, segment->lines);
    unsigned reach = line_reach(segment, home);
    for (unsigned d = 1; d <= reach && d <= line_reach_max(segment); d++) {
        struct slot *slot =
            slots_in_line(region_slot(segment, line_behind(segment, home, d) * LINE_SLOTS), hash);
        if (slot)
            return slot;
    }
    return NULL;
}

bool weir_slots_any(struct weir_table *table, uint64_t hash)
{
    struct slot_search search;
    search_hash(table, hash, &search);
    return search.found.slot || search.rival_count > 0 || !search.whole;
}

/* Is the key there, or about to be, or may it be? Another one that is called so is not it. */
static bool is_there(struct weir_table *table, const struct key *key)
{
    struct slot_search search;
    search_key(table, key, &search);
    return search.found.slot || (search.rival_count > 0 && !search.other) || !search.whole;
}

bool weir_slots_came(struct weir_table *table, const struct key *key, int64_t now)
{
    if (is_there(table, key))
        return true;
    int64_t floor = region_floor(table->region);
    return (table->kind == &weir_table_own ? min64(floor, OWN_TIME_MAX) : floor) > now;
}

/* ---- forgetting ---- */

bool weir_slot_is_idle(struct weir_table *table, const struct edition *edition, uint64_t hash, uint64_t word,
                       int64_t now)
{
    enum slot_kind kind = slot_kind(word);
    if (hash <= OVERFLOW_HASH || kind == SLOT_TENTATIVE || kind == SLOT_HELD ||
        !table_is_latest(table, edition))
        return false;
    return slot_value(weir_slot_word_convert(table, edition, word)) <=
           weir_slot_word_fresh(table, edition, now - TABLE_GRACE_NS);
}

#if WEIR_ASSERTIONS
/* Has it been as if never used for the time that it must? Asked of the core. */
static bool is_long_idle(const struct weir_table *table, const struct edition *edition, uint64_t word,
                         int64_t now)
{
    int64_t state[SLOT_STATE], time = sat_sub(now, TABLE_GRACE_NS);
    if (table->kind == &weir_table_own)
        return (int64_t)slot_value(word) <= max64(time, 0);
    weir_slot_word_unpack(&edition->policy->limits[0], word, state);
    state[STATE_PROMISED] = 0; /* that is due when the value is reached */
    return weir_state_idle_from(edition->policy, state) <= max64(time, 0);
}

static bool is_floor_raised(const struct weir_table *table, int64_t now)
{
    return region_floor(table->region) >= now - TABLE_GRACE_NS;
}
#else
#define is_long_idle(...)    true
#define is_floor_raised(...) true
#endif

void weir_slots_clear_overflow_filter(struct weir_table *table, const struct edition *edition, int64_t now)
{
    uint64_t word = slot_word(&table->policies->overflow);
    if (slot_kind(word) == SLOT_HELD || !table_is_latest(table, edition) ||
        slot_value(weir_slot_word_convert_shared(table, edition, word)) >
            weir_slot_word_fresh(table, edition, now - TABLE_GRACE_NS))
        return;
    INVARIANT(14,
              INTACT(is_long_idle(table, edition, weir_slot_word_convert_shared(table, edition, word), now)));
    table_raise_floor(table->region, now);
    weir_overflow_filter_clear(table, OVERFLOW_HASH);
}

bool weir_slots_empty(struct weir_table *table, struct slot *slot, uint64_t hash, uint64_t word)
{
    if (!slot_exchange(slot, hash, word, 0, 0))
        return false;
    table_count(table, (uint64_t)-1);
    return true;
}

bool weir_slots_drop(struct weir_table *table, struct slot *slot, uint64_t hash, uint64_t word, int64_t now)
{
    INVARIANT(18, slot_kind(word) != SLOT_HELD);
    if (slot_kind(word) != SLOT_TENTATIVE)
        table_raise_floor(table->region, now);
    INVARIANT(15, INTACT(slot_kind(word) == SLOT_TENTATIVE || is_floor_raised(table, now)));
    return weir_slots_empty(table, slot, hash, word);
}

/* ---- coming in ---- */

struct slot_room {
    struct slot_ref place;
    uint64_t hash, word; /* what is there now */
    unsigned distance;   /* from home */
};

static bool room_in_line(struct weir_table *table, const struct edition *edition, struct segment *segment,
                         uint64_t line, int64_t now, struct slot_room *room)
{
    struct slot *slot = region_slot(segment, line * LINE_SLOTS);
    for (int i = 0; i < LINE_SLOTS; i++, slot++) {
        uint64_t hash = slot_hash(slot), word = slot_word(slot);
        if (hash != 0 && !weir_slot_is_idle(table, edition, hash, word, now))
            continue;
        room->place = (struct slot_ref){segment, line, slot};
        room->hash = hash;
        room->word = word;
        return true;
    }
    return false;
}

/* Near its homes first, the newest segment's before the others', which probably are full. Not in those that
 * are closed. */
static bool find_slot_room(struct weir_table *table, const struct edition *edition, uint64_t hash,
                           int64_t now, struct slot_room *room)
{
    static const unsigned from[] = {0, 8}, to[] = {7, REACH_MAX};
    uint64_t open = region_open(table->region); /* first: what opens in between is counted */
    uint64_t count = region_segments(table->region);
    for (size_t round = 0; round < sizeof from / sizeof from[0]; round++)
        for (uint64_t s = count; s-- > open;) {
            struct segment *segment = &table->region->segments[s];
            uint64_t home = hash_to_index(hash, segment->lines);
            for (unsigned d = from[round]; d <= to[round] && d <= line_reach_max(segment); d++) {
                room->distance = d;
                if (room_in_line(table, edition, segment, line_behind(segment, home, d), now, room)) {
                    INVARIANT(16, s >= open);
                    INVARIANT(14,
                              INTACT(room->hash == 0 || !table_is_latest(table, edition) ||
                                     is_long_idle(table, edition,
                                                  weir_slot_word_convert(table, edition, room->word), now)));
                    return true;
                }
            }
        }
    return false;
}

/* May the other key that is called so be forgotten? */
static bool is_twin_idle(struct weir_table *table, const struct edition *edition,
                         const struct slot_search *search, uint64_t hash, int64_t now)
{
    return search->twin.slot && weir_slot_is_idle(table, edition, hash, search->twin.word, now);
}

bool weir_slots_has_room(struct weir_table *table, const struct edition *edition, const struct key *key,
                         int64_t now)
{
    struct slot_room room;
    struct slot_search search;
    search_key(table, key, &search);
    return (!search.other || is_twin_idle(table, edition, &search, key->hash, now)) &&
           find_slot_room(table, edition, key->hash, now, &room);
}

/* Puts the key there, if nobody else has come. */
static bool fill_slot(struct weir_table *table, const struct slot_room *room, uint64_t hash, uint64_t word,
                      int64_t now)
{
    const struct segment *segment = room->place.segment;
    if (room->hash != 0)
        table_raise_floor(table->region, now);
    raise_line_reach(segment, hash_to_index(hash, segment->lines), room->distance);
    INVARIANT(13, INTACT(line_reach(segment, hash_to_index(hash, segment->lines)) >= room->distance));
    INVARIANT(15, INTACT(room->hash == 0 || is_floor_raised(table, now)));
    if (!slot_exchange(room->place.slot, room->hash, room->word, hash, word))
        return false;
    if (room->hash == 0)
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
static bool write_witness(const struct rival *entry, const struct key *key)
{
    atom128 *to = slots_witness(entry->segment, entry->slot);
    uint64_t number = slot_value(entry->word);
    for (;;) {
        uint64_t rest = atom_load(&to->low, memory_order_seq_cst);
        uint64_t form = atom_load(&to->high, memory_order_seq_cst);
        if (slot_hash(entry->slot) != key->hash || slot_word(entry->slot) != entry->word)
            return false;
        if (form >> EXACT_FORM_BITS == number && atom_load(&to->low, memory_order_seq_cst) == rest)
            return rest == key->rest && (form & ((1 << EXACT_FORM_BITS) - 1)) == key->form;
        if (form >> EXACT_FORM_BITS != number &&
            atom_cas128(to, rest, form, key->rest, number << EXACT_FORM_BITS | key->form))
            return true;
    }
}

/* Claims a slot. false: no room. *rival stays empty if another was quicker. */
static bool claim_slot(struct weir_table *table, const struct edition *edition, uint64_t hash, int64_t now,
                       struct rival *rival)
{
    struct slot_room room;
    if (!find_slot_room(table, edition, hash, now, &room))
        return false;
    uint64_t word = tentative_word(table->region);
    if (fill_slot(table, &room, hash, word, now))
        *rival = (struct rival){room.place.segment, room.place.slot, word};
    return true;
}

/* How a key starts whose entry was seen before this is called: see slots.h for the two reasons. If a promise
 * of what it starts from is outstanding, or might be, it may be the key's own. */
static uint64_t start_word(struct weir_table *table, const struct edition *edition, uint64_t hash,
                           int64_t now)
{
    bool inherits = weir_overflow_filter_has(table, hash); /* before the floor */
    uint64_t value = weir_slot_word_fresh(table, edition, max64(now, region_floor(table->region)));
    uint64_t shared = weir_slot_word_convert_shared(table, edition, slot_word(&table->policies->overflow));
    uint64_t start = slot_pack(SLOT_PLAIN, (unsigned)edition->generation & 3, value);
    if (inherits && !(slot_value(shared) <= value))
        start = slot_with_kind(shared, slot_kind(shared) == SLOT_PLAIN ? SLOT_PLAIN : SLOT_PROMISED);
    INVARIANT(16, INTACT(!inherits || slot_value(start) >= slot_value(shared)));
    INVARIANT(16, slot_kind(start) != SLOT_PLAIN || !inherits || slot_value(start) == value ||
                      slot_kind(shared) == SLOT_PLAIN);
    INVARIANT(17,
              INTACT(table->kind == &weir_table_own || slot_generation(start) == edition->generation % 4));
    return start;
}

/* A key is about to come in there. It may have been elsewhere before, under any number that was drawn up to
 * then: from the moment at which it can be seen its line has a higher one. */
static void number_line_of(struct region *region, const struct rival *entry)
{
    uint64_t offset = (uint64_t)((uintptr_t)entry->slot - (uintptr_t)entry->segment->slots);
    region_lower(region, entry->segment, offset / sizeof *entry->slot / LINE_SLOTS);
}

#if WEIR_ASSERTIONS
static uint64_t last_number(const struct region *region, const struct segment *segment)
{
    return segment->numbers ? atom_load(&region->header->number, memory_order_relaxed) : 0;
}

/* Has the line of the slot a higher number than that, if lines have numbers? */
static bool is_line_numbered(const struct segment *segment, const struct slot *slot, uint64_t drawn)
{
    uint64_t index = (uint64_t)(slot - region_slot(segment, 0));
    return !segment->numbers ||
           atom_load(&segment->numbers[index / LINE_SLOTS], memory_order_relaxed) > drawn;
}
#endif

/* Of the tentative entries, from the given one on. */
static void remove_rivals(struct weir_table *table, const struct slot_search *search, uint64_t hash,
                          size_t from)
{
    for (size_t i = from; i < search->rival_count; i++)
        (void)weir_slots_empty(table, search->rivals[i].slot, hash, search->rivals[i].word);
}

struct slot *weir_slots_seek(struct weir_table *table, uint64_t hash, bool *gone)
{
    struct slot_search search;
    search_hash(table, hash, &search);
    *gone = !search.found.slot && search.whole && search.rival_count < RIVALS;
    for (size_t i = 0; !search.found.slot && i < search.rival_count; i++)
        if (!weir_slots_empty(table, search.rivals[i].slot, hash, search.rivals[i].word))
            *gone = false;
    return search.found.slot;
}

/* The key is there already: what came in beside it goes, or it would keep its slot for ever. */
static void give_way(struct weir_table *table, const struct slot_search *search, uint64_t hash,
                     const struct rival *ours)
{
    remove_rivals(table, search, hash, 0);
    if (ours->slot)
        (void)weir_slots_empty(table, ours->slot, hash, ours->word);
}

static bool is_closed(const struct region *region, const struct segment *segment)
{
    return (uint64_t)(segment - region->segments) < region_open(region);
}

struct slot_ref weir_slots_settle(struct weir_table *table, const struct edition **edition,
                                  const struct key *key, int64_t now)
{
    const struct slot_ref nowhere = {NULL, 0, NULL};
    struct rival seen = {NULL, NULL, 0}; /* before the look */
    struct slot_search search;
    for (;;) {
        search_key(table, key, &search);
        if (search.found.slot || (search.other && !is_twin_idle(table, *edition, &search, key->hash, now))) {
            give_way(table, &search, key->hash, &seen);
            return search.found;
        }
        if (search.other) { /* and may be forgotten */
            (void)weir_slots_drop(table, search.twin.slot, key->hash, search.twin.word, now);
            continue;
        }
        if (!search.whole) {
            *edition = NULL;
            return nowhere;
        }
        if (!table_is_latest(table, *edition) && !(*edition = table_edition(table)))
            return nowhere;
        if (search.rival_count == 0) {
            if (seen.slot) /* removed by somebody, or in a segment that nobody looks at any more */
                (void)weir_slots_empty(table, seen.slot, key->hash, seen.word);
            seen = (struct rival){NULL, NULL, 0};
            if (!claim_slot(table, *edition, key->hash, now, &seen) && table_is_latest(table, *edition) &&
                !is_there(table, key)) /* it may have come in where the last room was */
                return nowhere;
            continue;
        }
        const struct rival *lowest = &search.rivals[0];
        bool alone = search.rival_count == 1 && lowest->slot == seen.slot && lowest->word == seen.word;
        remove_rivals(table, &search, key->hash, 1);
        seen = *lowest;
        if (is_closed(table->region, seen.segment)) { /* it is taken away by the mover, or by us */
            (void)weir_slots_empty(table, seen.slot, key->hash, seen.word);
            continue;
        }
#if WEIR_ASSERTIONS
        uint64_t drawn = last_number(table->region, seen.segment);
#endif
        uint64_t start = start_word(table, *edition, key->hash, now);
        if (!alone || !table_is_latest(table, *edition))
            continue;
        number_line_of(table->region, &seen);
        if (table->is_exact && !write_witness(&seen, key))
            continue;
#if WEIR_ASSERTIONS
        INVARIANT(38, INTACT(is_line_numbered(seen.segment, seen.slot, drawn)));
#endif
        if (slot_exchange(seen.slot, key->hash, seen.word, key->hash, start))
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
static bool fill_slot_copy(struct weir_table *table, const struct slot_room *room, const struct slot *from,
                           uint64_t hash, uint64_t word, int64_t now)
{
    if (!table->is_exact)
        return fill_slot(table, room, hash, word, now);
    const atom128 *old = slots_witness(segment_of(table->region, from), from);
    struct key key = {.hash = hash,
                      .rest = atom_load(&old->low, memory_order_relaxed),
                      .form = (uint32_t)atom_load(&old->high, memory_order_relaxed) &
                              ((1 << EXACT_FORM_BITS) - 1)};
    struct rival entry = {room->place.segment, room->place.slot, tentative_word(table->region)};
    if (!fill_slot(table, room, hash, entry.word, now))
        return false;
    if (write_witness(&entry, &key) && slot_exchange(entry.slot, hash, entry.word, hash, word))
        return true;
    (void)weir_slots_empty(table, entry.slot, hash, entry.word);
    return false;
}

/* The entry is held: a copy, which is `word`, in another place, then nothing here. The line has a higher
 * number before the copy can be seen, as for a key that comes in. */
static bool move_held(struct weir_table *table, const struct edition *edition, struct slot *from,
                      uint64_t hash, uint64_t word, int64_t now)
{
    struct slot_room room;
    INVARIANT(18, slot_kind(word) == SLOT_HELD || !weir_override_has(table, hash));
#if WEIR_ASSERTIONS
    uint64_t drawn = last_number(table->region, &table->region->segments[0]);
#endif
    do {
        if (!find_slot_room(table, edition, hash, now, &room))
            return false;
        region_lower(table->region, room.place.segment, room.place.line);
    } while (!fill_slot_copy(table, &room, from, hash, word, now));
#if WEIR_ASSERTIONS
    INVARIANT(38, is_line_numbered(room.place.segment, room.place.slot, drawn));
    INVARIANT(16, slot_hash(from) == hash && slot_kind(slot_word(from)) == SLOT_HELD);
#endif
    (void)weir_slots_empty(table, from, hash, slot_with_kind(word, SLOT_HELD));
    return true;
}

bool weir_slots_rehash(struct weir_table *table, const struct edition *edition, struct slot *from,
                       uint64_t stripe, int64_t now, bool *left)
{
    for (;;) {
        uint64_t hash = slot_hash(from), word = slot_word(from);
        if (hash == 0)
            return true;
        if (slot_hash(from) != hash)
            continue;
        if (table_stripe(table, hash) != stripe) {
            *left = true;
            return true;
        }
        if (slot_kind(word) == SLOT_TENTATIVE || weir_slot_is_idle(table, edition, hash, word, now)) {
            if (weir_slots_drop(table, from, hash, word, now))
                return true;
        } else if (slot_kind(word) == SLOT_HELD) {
            if (weir_override_has(table, hash)) /* it stays held */
                return move_held(table, edition, from, hash, word, now);
            weir_words_let_go(table, from, hash);
        } else if (slot_exchange(from, hash, word, hash, slot_with_kind(word, SLOT_HELD))) {
            if (move_held(table, edition, from, hash, word, now))
                return true;
            (void)slot_exchange(from, hash, slot_with_kind(word, SLOT_HELD), hash, word);
            INVARIANT(18, slot_kind(slot_word(from)) != SLOT_HELD);
            return false;
        }
    }
}

#if WEIR_ASSERTIONS

/* ---- checking ---- */

/* An entry that can be taken from: where a search finds it, under limits that somebody knows, in a segment
 * that is looked at. */
static void check_slot(struct weir_table *table, uint64_t segment, struct slot *slot)
{
    const struct segment *in = &table->region->segments[segment];
    uint64_t hash = slot_hash(slot), word = slot_word(slot), home = hash_to_index(hash, in->lines);
    uint64_t line = (uint64_t)(slot - region_slot(in, 0)) / LINE_SLOTS;
    uint64_t generation = atom_load(&table->region->header->generation, memory_order_relaxed);
    bool swept = atom_load(&table->region->header->swept, memory_order_relaxed) == generation;
    INVARIANT(16, segment >= region_first(table->region));
    INVARIANT(13, (line >= home ? line - home : line + in->lines - home) <= line_reach(in, home));
    INVARIANT(13, weir_slots_find(table, hash).slot == slot);
    INVARIANT(17,
              slot_kind(word) == SLOT_HELD || ((generation - slot_generation(word)) & 3) <= (uint64_t)!swept);
    if (table->is_exact && table->region->shape.kind == REGION_WORDS) { /* that of the explorer has no kind */
        unsigned char bytes[EXACT_BYTES];
        struct exact_name name = slots_name(in, slot, hash);
        struct key key;
        ASSERT(weir_exact_key_of(table, &name, bytes, &key));
    }
}

uint64_t weir_slots_check(struct weir_table *table, uint64_t only, bool settled)
{
    uint64_t segments = atom_load(&table->region->header->segments, memory_order_relaxed), used = 0;
    for (uint64_t s = 0; s < segments; s++) {
        const struct segment *segment = &table->region->segments[s];
        for (uint64_t i = 0; i < segment->lines * LINE_SLOTS; i++) {
            struct slot *slot = region_slot(segment, i);
            if (slot_hash(slot) == 0 || (only != 0 && slot_hash(slot) != only))
                continue;
            used++;
            INVARIANT(13, !settled || slot_kind(slot_word(slot)) != SLOT_TENTATIVE);
            if (slot_kind(slot_word(slot)) != SLOT_TENTATIVE)
                check_slot(table, s, slot);
        }
    }
    return used;
}

#endif
