/* SPDX-License-Identifier: MIT */
#include "table/export.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "table/names.h"
#include "table/slots.h"
#include "table/wide.h"
#include "table/words.h"

#define PIECE_KEYS 1000

/* ---- who is there ---- */

/* Keys of a range of hashes; the bytes of whole keys follow each. */
struct found {
    uint64_t who, len;
};

struct hunt {
    struct weir_table *table;
    uint64_t from, to;
    struct buffer out; /* struct found, and bytes in whole words */
};

static void note(struct hunt *hunt, uint64_t who, const void *bytes, uint64_t len)
{
    static const char zero[8];
    struct found found = {who, len};
    buffer_put(&hunt->out, (const char *)&found, sizeof found);
    if (len > 0) {
        buffer_put(&hunt->out, bytes, len);
        buffer_put(&hunt->out, zero, (8 - len % 8) % 8);
    }
}

static bool is_wanted(const struct hunt *hunt, uint64_t who)
{
    return who > OVERFLOW_WHO && who >= hunt->from && who <= hunt->to;
}

/* Homes follow the order of hashes, and a key lives at most so many places behind its home, around at the
 * end. Gives how many places there are to look at, from `first` on. */
static uint64_t places_to_see(uint64_t first, uint64_t last, uint64_t reach, uint64_t places)
{
    uint64_t count = last - first + 1 + reach;
    return count < places ? count : places;
}

static void hunt_lines(struct hunt *hunt, const struct segment *segment)
{
    uint64_t first = spread(hunt->from, segment->lines), last = spread(hunt->to, segment->lines);
    uint64_t count = places_to_see(first, last, REACH_MAX, segment->lines);
    for (uint64_t i = 0; i < count; i++) {
        const struct slot *slot = region_slot(segment, (first + i) % segment->lines * LINE_SLOTS);
        for (int s = 0; s < LINE_SLOTS; s++, slot++) {
            uint64_t who = slot_who(slot);
            if (is_wanted(hunt, who) && slot_kind(slot_word(slot)) != SLOT_TENTATIVE)
                note(hunt, who, NULL, 0);
        }
    }
}

/* A key that went and came in again meanwhile may have been met in both places. */
static int by_who(const void *one, const void *other)
{
    const struct found *a = one, *b = other;
    return a->who < b->who ? -1 : a->who > b->who;
}

static void hunt_slots(struct hunt *hunt)
{
    struct region *region = hunt->table->region;
    for (uint64_t s = region_first(region); s < region_segments(region); s++) /* keys move to later ones */
        hunt_lines(hunt, &region->segments[s]);
    struct found *found = (struct found *)(void *)buffer_bytes(&hunt->out);
    size_t count = buffer_len(&hunt->out) / sizeof *found, kept = 0;
    if (count == 0 || hunt->out.failed)
        return;
    qsort(found, count, sizeof *found, by_who);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || found[kept - 1].who != found[i].who)
            found[kept++] = found[i];
    hunt->out.end = hunt->out.start + kept * sizeof *found;
}

static void hunt_run(struct hunt *hunt, const struct holding *holding, uint64_t segment, uint64_t first,
                     uint64_t last)
{
    uint64_t places = wide_places(holding, segment);
    uint64_t count = places_to_see(first, last, WIDE_REACH_MAX, places);
    for (uint64_t i = 0; i < count; i++) {
        struct wide *slot = wide_place(holding, segment, (first + i) % places).slot;
        uint64_t who = wide_who(slot), len = hunt->table->key_max > 0 ? slot->contents[0] : 0;
        if (is_wanted(hunt, who) && len <= hunt->table->key_max)
            note(hunt, who, slot->contents + 1, len);
    }
}

/* Under the lock nobody moves. */
static bool hunt_stripe(struct hunt *hunt, uint64_t stripe)
{
    struct holding holding;
    if (!weir_wide_enter(&holding, hunt->table, stripe))
        return false;
    bool is_first = stripe == table_stripe(hunt->table, hunt->from);
    bool is_last = stripe == table_stripe(hunt->table, hunt->to);
    for (uint64_t segment = region_first(hunt->table->region); segment < holding.segments; segment++) {
        uint64_t places = wide_places(&holding, segment);
        uint64_t first = is_first ? wide_home(&holding, hunt->from, places) : 0;
        uint64_t last = is_last ? wide_home(&holding, hunt->to, places) : places - 1;
        hunt_run(hunt, &holding, segment, first, last);
    }
    weir_wide_leave(&holding);
    return true;
}

static bool hunt_range(struct hunt *hunt)
{
    if (hunt->table->kind != &weir_table_wide) {
        hunt_slots(hunt);
        return !hunt->out.failed;
    }
    uint64_t last = table_stripe(hunt->table, hunt->to);
    for (uint64_t stripe = table_stripe(hunt->table, hunt->from); stripe <= last; stripe++)
        if (!hunt_stripe(hunt, stripe))
            return false;
    return !hunt->out.failed;
}

/* ---- what each has ---- */

struct showing {
    struct weir_table *table;
    int64_t now;
    const struct name_index *names;
    export_each *each;
    void *arg;
    int64_t words[EXPORT_WORDS_MAX];
};

static void fill_limits(struct export_key *shown, const struct carried *carried,
                        const struct weir_limit_state *limits)
{
    shown->limits = carried->limits;
    for (size_t i = 0; i < carried->limits; i++) {
        shown->spent[i] = max64(carried->spent[i], 0);
        shown->most[i] = sat_add(shown->spent[i], limits[i].left);
        shown->reset_after_ns = max64(shown->reset_after_ns, limits[i].reset_after_ns);
    }
}

static bool export_own(struct weir_table *table, const void *key, struct deed *deed)
{
    return table->kind->run(table, key, deed);
}

/* `run` finds the state. false: it failed, or is as if never used, and nothing is to be shown. */
static bool look(struct showing *showing, const void *where, struct export_key *shown,
                 bool (*run)(struct weir_table *table, const void *where, struct deed *deed))
{
    struct weir_table *table = showing->table;
    struct carried carried = {.words = showing->words, .room = EXPORT_WORDS_MAX};
    struct weir_limit_state limits[WEIR_LIMITS_MAX] = {0};
    struct deed deed = {.verb = VERB_EXPORT,
                        .now = showing->now,
                        .n = 1,
                        .limits = limits,
                        .limit_count = WEIR_LIMITS_MAX,
                        .carried = &carried};
    if (!run(table, where, &deed) || carried.idle)
        return false;
    const struct edition *edition = table_edition(table);
    shown->words = showing->words;
    if (edition && carried.policy == edition->policy) /* else by limits of its own */
        shown->count = carried.count;
    fill_limits(shown, &carried, limits);
    return true;
}

static bool show(struct showing *showing, const struct key *key)
{
    struct weir_table *table = showing->table;
    struct export_key shown = {.who = key->who};
    if (!look(showing, key, &shown, export_own))
        return true;
    shown.name = table->key_max > 0 ? key->bytes : weir_name_index_find(showing->names, key->who, &shown.len);
    if (table->key_max > 0)
        shown.len = key->len;
    return showing->each(showing->arg, &shown);
}

static bool show_all(struct showing *showing, struct hunt *hunt)
{
    const char *at = buffer_bytes(&hunt->out), *end = at + buffer_len(&hunt->out);
    while (at < end) {
        struct found found;
        memcpy(&found, at, sizeof found);
        at += sizeof found;
        struct key key = {.bytes = at, .len = found.len, .who = found.who};
        unsigned char bytes[EXACT_BYTES];
        at += (found.len + 7) / 8 * 8;
        if (showing->table->is_exact && !weir_words_name(showing->table, &key, bytes))
            continue; /* it has gone meanwhile */
        if (!show(showing, &key))
            return false;
    }
    return true;
}

/* The end of a piece of the range that has about `most` slots. */
static uint64_t piece_end(struct weir_table *table, const struct export_range *range, size_t most)
{
    uint64_t slots = 0, segments = region_segments(table->region);
    for (uint64_t s = region_first(table->region); s < segments; s++)
        slots += table->region->segments[s].lines * table->region->shape.line_slots;
    uint64_t pieces = slots / (most > 0 ? most : 1) + 1, width = UINT64_MAX / pieces;
    return range->to - range->from > width ? range->from + width : range->to;
}

static struct showing *new_showing(struct weir_table *table, int64_t now_ns)
{
    struct showing *showing = malloc(sizeof *showing);
    if (showing) {
        showing->table = table;
        showing->now = region_time(table->region, now_ns);
    }
    return showing;
}

bool weir_table_export(struct weir_table *table, int64_t now_ns, struct export_range *range, size_t most,
                       const struct name_index *names, export_each *each, void *arg)
{
    if (range->from > range->to)
        return false;
    struct showing *showing = new_showing(table, now_ns);
    struct hunt hunt = {.table = table, .from = range->from, .to = piece_end(table, range, most)};
    if (showing) {
        showing->names = names;
        showing->each = each;
        showing->arg = arg;
    }
    bool done = showing && hunt_range(&hunt) && show_all(showing, &hunt);
    if (done)
        range->from = hunt.to + 1; /* 0: that was the last there is */
    weir_buffer_free(&hunt.out);
    free(showing);
    return done;
}

/* ---- what is shared ---- */

/* Of words there is one for all. */
static bool run_shared(struct weir_table *table, const void *stripe, struct deed *deed)
{
    return table->kind == &weir_table_wide ? weir_wide_shared(table, *(const uint64_t *)stripe, deed)
                                           : weir_words_shared(table, deed);
}

static void shared_stripes(const struct weir_table *table, const struct export_range *range, uint64_t *first,
                           uint64_t *last)
{
    bool wide = table->kind == &weir_table_wide;
    *first = wide ? table_stripe(table, range->from) : 0;
    *last = wide ? table_stripe(table, range->to) : 0;
}

/* The hashes of a stripe; there are a power of 2 of them. */
static struct export_range hashes_of(const struct weir_table *table, uint64_t stripe)
{
    uint64_t stripes = table->region->shape.stripes;
    if (table->kind != &weir_table_wide || stripes <= 1)
        return (struct export_range){0, UINT64_MAX};
    uint64_t width = UINT64_MAX / stripes + 1;
    return (struct export_range){stripe * width, stripe * width + (width - 1)};
}

bool weir_table_export_shared(struct weir_table *table, int64_t now_ns, const struct export_range *range,
                              export_each_shared *each, void *arg)
{
    uint64_t stripe, last;
    struct showing *showing = table->kind != &weir_table_own ? new_showing(table, now_ns) : NULL;
    bool good = showing != NULL;
    shared_stripes(table, range, &stripe, &last);
    for (; good && stripe <= last; stripe++) {
        struct export_shared shared = {.of = hashes_of(table, stripe)};
        shared.of.from = shared.of.from > range->from ? shared.of.from : range->from;
        shared.of.to = shared.of.to < range->to ? shared.of.to : range->to;
        if (look(showing, &stripe, &shared.key, run_shared))
            good = each(arg, &shared);
    }
    free(showing);
    return good;
}

/* ---- coming in ---- */

static struct carried carry(const struct edition *edition, const struct export_key *key)
{
    struct carried carried = {.words = (int64_t *)(uintptr_t)key->words,
                              .count = key->count,
                              .policy = edition->policy,
                              .limits = key->limits};
    memcpy(carried.spent, key->spent, key->limits * sizeof *key->spent);
    return carried;
}

static bool charge_all(struct hunt *hunt, int64_t now, const struct export_key *key)
{
    const struct edition *edition = table_edition(hunt->table);
    const char *at = buffer_bytes(&hunt->out), *end = at + buffer_len(&hunt->out);
    while (edition && at < end) {
        struct found found;
        memcpy(&found, at, sizeof found);
        at += sizeof found;
        struct key who = {.bytes = at, .len = found.len, .who = found.who};
        unsigned char bytes[EXACT_BYTES];
        at += (found.len + 7) / 8 * 8;
        if (hunt->table->is_exact && !weir_words_name(hunt->table, &who, bytes))
            continue;
        struct carried carried = carry(edition, key);
        carried.count = 0; /* by its units alone, since they come on top */
        struct deed deed = {.verb = VERB_IMPORT, .now = now, .n = 1, .carried = &carried};
        (void)hunt->table->kind->run(hunt->table, &who, &deed); /* one that has gone meanwhile was idle */
    }
    return edition != NULL;
}

bool weir_table_expect_shared(struct weir_table *table, int64_t now_ns, const struct export_shared *shared)
{
    struct export_range range = shared->of;
    bool good = table->kind != &weir_table_own && shared->key.limits <= WEIR_LIMITS_MAX;
    while (good && range.from <= range.to) {
        struct hunt hunt = {.table = table, .from = range.from, .to = piece_end(table, &range, PIECE_KEYS)};
        good = hunt_range(&hunt) && charge_all(&hunt, region_time(table->region, now_ns), &shared->key);
        weir_buffer_free(&hunt.out);
        if (hunt.to == UINT64_MAX)
            break;
        range.from = hunt.to + 1;
    }
    return good;
}

bool weir_table_import_shared(struct weir_table *table, int64_t now_ns, const struct export_shared *shared)
{
    const struct edition *edition = table_edition(table);
    uint64_t stripe, last;
    if (!edition || table->kind == &weir_table_own || shared->key.limits > WEIR_LIMITS_MAX ||
        shared->of.from > shared->of.to)
        return false;
    bool good = true;
    shared_stripes(table, &shared->of, &stripe, &last);
    for (; good && stripe <= last; stripe++) {
        struct carried carried = carry(edition, &shared->key);
        struct deed deed = {
            .verb = VERB_IMPORT, .now = region_time(table->region, now_ns), .n = 1, .carried = &carried};
        good = run_shared(table, &stripe, &deed);
    }
    return good;
}

bool weir_table_import(struct weir_table *table, int64_t now_ns, const struct export_key *key)
{
    const struct edition *edition = table_edition(table);
    bool named = key->name != NULL;
    if (!edition || key->limits > WEIR_LIMITS_MAX || (key->limits != 1 && table->kind == &weir_table_own) ||
        (named ? table->key_max > 0 && key->len > table->key_max : table->key_max > 0))
        return false;
    struct carried carried = carry(edition, key);
    struct deed deed = {
        .verb = VERB_IMPORT, .now = region_time(table->region, now_ns), .n = 1, .carried = &carried};
    struct key k = {.bytes = named ? key->name : "", .len = named ? key->len : 0, .who = key->who};
    if (named)
        k = table_key(table, key->name, key->len);
    return k.who > OVERFLOW_WHO && table->kind->run(table, &k, &deed);
}

void weir_table_adopt_time(struct weir_table *table, int64_t now_ns, int64_t time)
{
    table->region->offset_ns = sat_sub(clamp64(time, 0, WEIR_TIME_MAX / 2), now_ns);
}
