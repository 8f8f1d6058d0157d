/* SPDX-License-Identifier: MIT */
/*
 * Records of wide states, each under the lock of its stripe, with a number that is drawn there: so numbers
 * come in the order of states.
 */
#define _POSIX_C_SOURCE 200809L
#include <string.h>

#include "os/clock.h"
#include "table/make.h"
#include "table/persist/internal.h"
#include "table/wide.h"

#define STEP  64    /* slots that are walked in one go */
#define PIECE 32768 /* bytes of a state in a record that is one of several */

/* ---- one record ---- */

static unsigned char *put_record_word(unsigned char *to, uint64_t word)
{
    memcpy(to, &word, sizeof word);
    return to + sizeof word;
}

/* Length and bytes, in whole words. */
static unsigned char *put_record_bytes(unsigned char *to, const void *bytes, size_t len)
{
    to = put_record_word(to, len);
    if (len > 0)
        memcpy(to, bytes, len);
    memset(to + len, 0, whole_words(len) - len);
    return to + whole_words(len);
}

bool weir_override_put_record(const struct persist *persist, struct weir_table *table, const struct key *key,
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
    unsigned char *body =
        persist_put(out, persist->number, TABLE_OVERRIDE, 24 + name + whole_words(len) + words);
    if (!body)
        return true;
    body = put_record_word(body, key->hash);
    body = put_record_word(body, record_number(region_number(table->region), weir_table_generation(table)));
    if (table->key_max > 0)
        body = put_record_bytes(body, key->bytes, key->len);
    body = put_record_bytes(body, text, len);
    memcpy(body, state, words);
    return true;
}

void weir_gone_put(const struct persist *persist, uint64_t hash, uint64_t number, struct buffer *out)
{
    unsigned char *body = persist_put(out, persist->number, TABLE_GONE, sizeof(struct gone_record));
    if (body)
        (void)put_record_word(put_record_word(body, hash), number);
}

/* The head of a record: hash, number, and the stripe or the whole key. Gives its length. */
static size_t make_wide_head(const struct locked_stripe *locked, const struct wide_slot *slot,
                             unsigned char *head)
{
    struct weir_table *table = locked->table;
    unsigned char *to = put_record_word(head, wide_hash(slot));
    to = put_record_word(to, record_number(region_number(table->region), locked->edition->generation));
    if (wide_hash(slot) == OVERFLOW_HASH)
        to = put_record_word(to, locked->index);
    else if (table->key_max > 0)
        to = put_record_bytes(to, slot->contents + 1, slot->contents[0]);
    return (size_t)(to - head);
}

static size_t wide_head_size(const struct weir_table *table, const struct wide_slot *slot)
{
    if (wide_hash(slot) == OVERFLOW_HASH)
        return 24;
    return 16 + (table->key_max > 0 ? 8 + whole_words(slot->contents[0]) : 0);
}

/* Too long for one: the same bytes in pieces. */
static void put_in_pieces(const struct persist *persist, const unsigned char *head, size_t head_len,
                          const unsigned char *state, size_t state_len, struct buffer *out)
{
    size_t all = head_len + state_len;
    for (size_t at = 0; at < all;) {
        size_t from_head = at < head_len ? head_len - at : 0, rest = all - at - from_head;
        size_t len = rest < PIECE ? rest : PIECE;
        unsigned char *body = persist_put(out, persist->number, TABLE_PART, 32 + from_head + len);
        if (!body)
            return;
        memcpy(body, head, 16);
        body = put_record_word(body + 16, at);
        body = put_record_word(body, all);
        memcpy(body, head + head_len - from_head, from_head);
        memcpy(body + from_head, state + (at + from_head - head_len), len);
        at += from_head + len;
    }
}

static void put_wide_slot(const struct persist *persist, struct locked_stripe *locked,
                          const struct wide_ref *place, struct buffer *out)
{
    struct weir_table *table = locked->table;
    struct wide_slot *slot = place->slot;
    struct key key = {.hash = wide_hash(slot)};
    if (table->key_max > 0) {
        key.bytes = slot->contents + 1;
        key.len = slot->contents[0];
    }
    if ((slot->flags & WIDE_OVERRIDDEN) && weir_override_put_record(persist, table, &key, out))
        return;
    weir_wide_convert(locked, place);
    size_t state_len = locked->edition->policy->words * sizeof(int64_t),
           head_len = wide_head_size(table, slot);
    const unsigned char *state = (const unsigned char *)wide_state(table, slot);
    unsigned char head[24 + 4096];
    if (head_len + state_len > PERSIST_BODY_MAX) {
        (void)make_wide_head(locked, slot, head);
        put_in_pieces(persist, head, head_len, state, state_len, out);
        return;
    }
    unsigned char *body = persist_put(out, persist->number, TABLE_WIDE, head_len + state_len);
    if (body)
        memcpy(body + make_wide_head(locked, slot, body), state, state_len);
}

/* ---- capturing ---- */

/* Where a slot is: its segment, and its line there. */
static bool find_wide_slot(const struct weir_table *table, const struct wide_slot *slot, uint64_t *segment,
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
static bool put_namesakes(const struct persist *persist, struct locked_stripe *locked, uint64_t hash,
                          struct buffer *out)
{
    bool found = false;
    for (uint64_t segment = locked->first; hash != OVERFLOW_HASH && segment < locked->segments; segment++) {
        uint64_t places = wide_places(locked, segment), home = wide_home(locked, hash, places);
        uint64_t reach = wide_reach(locked, segment, home);
        for (uint64_t distance = 0; distance <= reach; distance++) {
            struct wide_ref place = wide_place(locked, segment, wide_after(home, distance, places));
            if (wide_hash(place.slot) != hash)
                continue;
            put_wide_slot(persist, locked, &place, out);
            found = true;
        }
    }
    return found || hash == OVERFLOW_HASH; /* what is shared is never made less spent */
}

void weir_wide_capture(const struct persist *persist, struct wide_slot *slot, uint64_t hash,
                       struct buffer *out)
{
    struct weir_table *table = persist->owner;
    struct locked_stripe locked;
    uint64_t segment, line;
    if (!find_wide_slot(table, slot, &segment, &line))
        return;
    uint64_t run = table->region->segments[segment].lines / table->region->shape.stripes;
    if (!weir_wide_enter(&locked, table, line / run)) { /* out of memory */
        out->failed = true;
        return;
    }
    struct wide_ref place = {slot, segment, line % run};
    if (wide_hash(slot) == hash)
        put_wide_slot(persist, &locked, &place, out);
    else if (!put_namesakes(persist, &locked, hash, out))
        weir_gone_put(persist, hash, record_number(region_number(table->region), locked.edition->generation),
                      out);
    weir_wide_leave(&locked);
}

/* ---- all of them ---- */

struct wide_walk {
    const struct persist *persist;
    struct buffer *out;
    int64_t now;
};

static void capture_visited_slot(struct locked_stripe *locked, const struct wide_ref *place, void *arg)
{
    const struct wide_walk *walk = arg;
    if (!weir_wide_droppable(locked, place, walk->now))
        put_wide_slot(walk->persist, locked, place, walk->out);
}

bool weir_wide_record_walk(const struct persist *persist, uint64_t *cursor, struct buffer *out, size_t bytes)
{
    struct weir_table *table = persist->owner;
    struct wide_walk walk = {persist, out, region_time(table->region, clock_now())};
    while (buffer_len(out) < bytes && !out->failed) {
        if (*cursor >= weir_table_lines(table))
            return false;
        if (!weir_wide_visit(table, *cursor, STEP, capture_visited_slot, &walk))
            out->failed = true;
        *cursor += STEP;
    }
    return !out->failed;
}
