/* SPDX-License-Identifier: MIT */
/*
 * Records of wide states, each under the lock of its stripe, with a number that is drawn there: so numbers
 * come in the order of states.
 */
#define _POSIX_C_SOURCE 200809L
#include <string.h>

#include "os/clock.h"
#include "table/keep_kinds.h"
#include "table/make.h"
#include "table/wide.h"

#define STEP  64    /* slots that are walked in one go */
#define PIECE 32768 /* bytes of a state in a record that is one of several */

/* ---- one record ---- */

static unsigned char *put_word(unsigned char *to, uint64_t word)
{
    memcpy(to, &word, sizeof word);
    return to + sizeof word;
}

/* Length and bytes, in whole words. */
static unsigned char *put_bytes(unsigned char *to, const void *bytes, size_t len)
{
    to = put_word(to, len);
    if (len > 0)
        memcpy(to, bytes, len);
    memset(to + len, 0, whole_words(len) - len);
    return to + whole_words(len);
}

bool weir_own_limits_put(const struct keep *keep, struct weir_table *table, const struct key *key,
                         struct buffer *out)
{
    const struct weir_policy *policy;
    int64_t *state;
    const char *text = weir_override_limits(table, key, &policy, &state);
    if (!text)
        return false;
    if (!policy) { /* out of memory */
        out->failed = true;
        return true;
    }
    size_t len = strnlen(text, OVERRIDE_TEXT_MAX), words = policy->words * sizeof *state;
    size_t name = table->key_max > 0 ? 8 + whole_words(key->len) : 0;
    unsigned char *body = keep_put(out, keep->number, TABLE_OWN, 24 + name + whole_words(len) + words);
    if (!body)
        return true;
    body = put_word(body, key->who);
    body = put_word(body, record_number(region_number(table->region), weir_table_generation(table)));
    if (table->key_max > 0)
        body = put_bytes(body, key->bytes, key->len);
    body = put_bytes(body, text, len);
    memcpy(body, state, words);
    return true;
}

void weir_gone_put(const struct keep *keep, uint64_t who, uint64_t number, struct buffer *out)
{
    unsigned char *body = keep_put(out, keep->number, TABLE_GONE, sizeof(struct gone_record));
    if (body)
        (void)put_word(put_word(body, who), number);
}

/* The head of a record: who, number, and the stripe or the whole key. Gives its length. */
static size_t make_head(const struct holding *holding, const struct wide *slot, unsigned char *head)
{
    struct weir_table *table = holding->table;
    unsigned char *to = put_word(head, wide_who(slot));
    to = put_word(to, record_number(region_number(table->region), holding->edition->generation));
    if (wide_who(slot) == OVERFLOW_WHO)
        to = put_word(to, holding->index);
    else if (table->key_max > 0)
        to = put_bytes(to, slot->contents + 1, slot->contents[0]);
    return (size_t)(to - head);
}

static size_t head_size(const struct weir_table *table, const struct wide *slot)
{
    if (wide_who(slot) == OVERFLOW_WHO)
        return 24;
    return 16 + (table->key_max > 0 ? 8 + whole_words(slot->contents[0]) : 0);
}

/* Too long for one: the same bytes in pieces. */
static void put_in_pieces(const struct keep *keep, const unsigned char *head, size_t head_len,
                          const unsigned char *state, size_t state_len, struct buffer *out)
{
    size_t all = head_len + state_len;
    for (size_t at = 0; at < all;) {
        size_t from_head = at < head_len ? head_len - at : 0, rest = all - at - from_head;
        size_t len = rest < PIECE ? rest : PIECE;
        unsigned char *body = keep_put(out, keep->number, TABLE_PART, 32 + from_head + len);
        if (!body)
            return;
        memcpy(body, head, 16);
        body = put_word(body + 16, at);
        body = put_word(body, all);
        memcpy(body, head + head_len - from_head, from_head);
        memcpy(body + from_head, state + (at + from_head - head_len), len);
        at += from_head + len;
    }
}

static void put_slot(const struct keep *keep, struct holding *holding, const struct place *place,
                     struct buffer *out)
{
    struct weir_table *table = holding->table;
    struct wide *slot = place->slot;
    struct key key = {.who = wide_who(slot)};
    if (table->key_max > 0) {
        key.bytes = slot->contents + 1;
        key.len = slot->contents[0];
    }
    if ((slot->flags & WIDE_OVERRIDDEN) && weir_own_limits_put(keep, table, &key, out))
        return;
    weir_wide_convert(holding, place);
    size_t state_len = holding->edition->policy->words * sizeof(int64_t), head_len = head_size(table, slot);
    const unsigned char *state = (const unsigned char *)wide_state(table, slot);
    unsigned char head[24 + 4096];
    if (head_len + state_len > KEEP_BODY_MAX) {
        (void)make_head(holding, slot, head);
        put_in_pieces(keep, head, head_len, state, state_len, out);
        return;
    }
    unsigned char *body = keep_put(out, keep->number, TABLE_WIDE, head_len + state_len);
    if (body)
        memcpy(body + make_head(holding, slot, body), state, state_len);
}

/* ---- capturing ---- */

/* Where a slot is: its segment, and its line there. */
static bool find_slot(const struct weir_table *table, const struct wide *slot, uint64_t *segment,
                      uint64_t *line)
{
    const struct region *region = table->region;
    uint64_t count = atom_load(&region->mapped, memory_order_acquire);
    for (*segment = 0; *segment < count; (*segment)++) {
        const struct segment *at = &region->segments[*segment];
        *line = (uint64_t)((uintptr_t)slot - (uintptr_t)at->slots) / region->shape.slot_size;
        if (*line < at->lines)
            return true;
    }
    return false;
}

/* All keys that are called so: of whole ones nobody knows which was meant. false: there is none. */
static bool put_namesakes(const struct keep *keep, struct holding *holding, uint64_t who, struct buffer *out)
{
    bool found = false;
    for (uint64_t segment = holding->first; who != OVERFLOW_WHO && segment < holding->segments; segment++) {
        uint64_t places = wide_places(holding, segment), home = wide_home(holding, who, places);
        uint64_t reach = wide_reach(holding, segment, home);
        for (uint64_t distance = 0; distance <= reach; distance++) {
            struct place place = wide_place(holding, segment, wide_after(home, distance, places));
            if (wide_who(place.slot) != who)
                continue;
            put_slot(keep, holding, &place, out);
            found = true;
        }
    }
    return found || who == OVERFLOW_WHO; /* what is shared is never made less spent */
}

void weir_wide_capture(const struct keep *keep, struct wide *slot, uint64_t who, struct buffer *out)
{
    struct weir_table *table = keep->owner;
    struct holding holding;
    uint64_t segment, line;
    if (!find_slot(table, slot, &segment, &line))
        return;
    uint64_t run = table->region->segments[segment].lines / table->region->shape.stripes;
    if (!weir_wide_enter(&holding, table, line / run)) { /* out of memory */
        out->failed = true;
        return;
    }
    struct place place = {slot, segment, line % run};
    if (wide_who(slot) == who)
        put_slot(keep, &holding, &place, out);
    else if (!put_namesakes(keep, &holding, who, out))
        weir_gone_put(keep, who, record_number(region_number(table->region), holding.edition->generation),
                      out);
    weir_wide_leave(&holding);
}

/* ---- all of them ---- */

struct walk {
    const struct keep *keep;
    struct buffer *out;
    int64_t now;
};

static void visit(struct holding *holding, const struct place *place, void *arg)
{
    const struct walk *walk = arg;
    if (!weir_wide_droppable(holding, place, walk->now))
        put_slot(walk->keep, holding, place, walk->out);
}

bool weir_wide_record_walk(const struct keep *keep, uint64_t *cursor, struct buffer *out, size_t bytes)
{
    struct weir_table *table = keep->owner;
    struct walk walk = {keep, out, region_time(table->region, clock_now())};
    while (buffer_len(out) < bytes && !out->failed) {
        if (*cursor >= weir_table_lines(table))
            return false;
        if (!weir_wide_visit(table, *cursor, STEP, visit, &walk))
            out->failed = true;
        *cursor += STEP;
    }
    return !out->failed;
}
