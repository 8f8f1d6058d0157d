/* SPDX-License-Identifier: MIT */
#include "table/persist/export.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "table/names.h"
#include "table/slots.h"
#include "table/wide.h"
#include "table/wide_slots.h"
#include "table/words.h"

#define PIECE_KEYS 1000

/* ---- who is there ---- */

/* Keys of a range of hashes; the bytes of whole keys follow each. */
struct export_found {
    uint64_t hash, len;
};

struct export_scan {
    struct weir_table *table;
    uint64_t from, to;
    struct buffer out; /* struct export_found, and bytes in whole words */
};

static void scan_add_key(struct export_scan *scan, uint64_t hash, const void *bytes, uint64_t len)
{
    static const char zero[8];
    struct export_found found = {hash, len};
    buffer_put(&scan->out, (const char *)&found, sizeof found);
    if (len > 0) {
        buffer_put(&scan->out, bytes, len);
        buffer_put(&scan->out, zero, (8 - len % 8) % 8);
    }
}

static bool is_hash_in_scan(const struct export_scan *scan, uint64_t hash)
{
    return hash > OVERFLOW_HASH && hash >= scan->from && hash <= scan->to;
}

/* Homes follow the order of hashes, and a key lives at most so many places behind its home, around at the
 * end. Gives how many places there are to look at, from `first` on. */
static uint64_t places_to_see(uint64_t first, uint64_t last, uint64_t reach, uint64_t places)
{
    uint64_t count = last - first + 1 + reach;
    return count < places ? count : places;
}

static void scan_lines(struct export_scan *scan, const struct segment *segment)
{
    uint64_t first = hash_to_index(scan->from, segment->lines),
             last = hash_to_index(scan->to, segment->lines);
    uint64_t count = places_to_see(first, last, REACH_MAX, segment->lines);
    for (uint64_t i = 0; i < count; i++) {
        const struct slot *slot = region_slot(segment, (first + i) % segment->lines * LINE_SLOTS);
        for (int s = 0; s < LINE_SLOTS; s++, slot++) {
            uint64_t hash = slot_hash(slot);
            if (is_hash_in_scan(scan, hash) && slot_kind(slot_word(slot)) != SLOT_TENTATIVE)
                scan_add_key(scan, hash, NULL, 0);
        }
    }
}

/* A key that went and came in again meanwhile may have been met in both places. */
static int by_hash(const void *one, const void *other)
{
    const struct export_found *a = one, *b = other;
    return a->hash < b->hash ? -1 : a->hash > b->hash;
}

static void scan_slots(struct export_scan *scan)
{
    struct region *region = scan->table->region;
    for (uint64_t s = region_first(region); s < region_segments(region); s++) /* keys move to later ones */
        scan_lines(scan, &region->segments[s]);
    struct export_found *found = (struct export_found *)(void *)buffer_bytes(&scan->out);
    size_t count = buffer_len(&scan->out) / sizeof *found, kept = 0;
    if (count == 0 || scan->out.failed)
        return;
    qsort(found, count, sizeof *found, by_hash);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || found[kept - 1].hash != found[i].hash)
            found[kept++] = found[i];
    scan->out.end = scan->out.start + kept * sizeof *found;
}

static void scan_run(struct export_scan *scan, const struct locked_stripe *locked, uint64_t segment,
                     uint64_t first, uint64_t last)
{
    uint64_t places = wide_places(locked, segment);
    uint64_t count = places_to_see(first, last, WIDE_REACH_MAX, places);
    for (uint64_t i = 0; i < count; i++) {
        struct wide_slot *slot = wide_place(locked, segment, (first + i) % places).slot;
        uint64_t hash = wide_hash(slot), len = scan->table->key_max > 0 ? slot->contents[0] : 0;
        if (is_hash_in_scan(scan, hash) && len <= scan->table->key_max)
            scan_add_key(scan, hash, slot->contents + 1, len);
    }
}

/* Under the lock nobody moves. */
static bool scan_stripe(struct export_scan *scan, uint64_t stripe)
{
    struct locked_stripe locked;
    if (!weir_wide_enter(&locked, scan->table, stripe))
        return false;
    bool is_first = stripe == table_stripe(scan->table, scan->from);
    bool is_last = stripe == table_stripe(scan->table, scan->to);
    for (uint64_t segment = region_first(scan->table->region); segment < locked.segments; segment++) {
        uint64_t places = wide_places(&locked, segment);
        uint64_t first = is_first ? wide_home(&locked, scan->from, places) : 0;
        uint64_t last = is_last ? wide_home(&locked, scan->to, places) : places - 1;
        scan_run(scan, &locked, segment, first, last);
    }
    weir_wide_leave(&locked);
    return true;
}

static bool scan_range(struct export_scan *scan)
{
    if (scan->table->kind != &weir_table_wide) {
        scan_slots(scan);
        return !scan->out.failed;
    }
    uint64_t last = table_stripe(scan->table, scan->to);
    for (uint64_t stripe = table_stripe(scan->table, scan->from); stripe <= last; stripe++)
        if (!scan_stripe(scan, stripe))
            return false;
    return !scan->out.failed;
}

/* ---- what each has ---- */

struct export_context {
    struct weir_table *table;
    int64_t now;
    const struct name_index *names;
    export_each *each;
    void *arg;
    int64_t words[EXPORT_WORDS_MAX];
};

static void fill_limits(struct export_key *shown, const struct state_transfer *transfer,
                        const struct weir_limit_state *limits)
{
    shown->limits = transfer->limits;
    for (size_t i = 0; i < transfer->limits; i++) {
        shown->spent[i] = max64(transfer->spent[i], 0);
        shown->most[i] = sat_add(shown->spent[i], limits[i].left);
        shown->reset_after_ns = max64(shown->reset_after_ns, limits[i].reset_after_ns);
    }
}

static bool export_override(struct weir_table *table, const void *key, struct table_op *op)
{
    return table->kind->run(table, key, op);
}

/* `run` finds the state. false: it failed, or is as if never used, and nothing is to be shown. */
static bool export_state(struct export_context *context, const void *where, struct export_key *shown,
                         bool (*run)(struct weir_table *table, const void *where, struct table_op *op))
{
    struct weir_table *table = context->table;
    struct state_transfer transfer = {.words = context->words, .room = EXPORT_WORDS_MAX};
    struct weir_limit_state limits[WEIR_LIMITS_MAX] = {0};
    struct table_op op = {.verb = VERB_EXPORT,
                          .now = context->now,
                          .n = 1,
                          .limits = limits,
                          .limit_count = WEIR_LIMITS_MAX,
                          .transfer = &transfer};
    if (!run(table, where, &op) || transfer.idle)
        return false;
    const struct edition *edition = table_edition(table);
    shown->words = context->words;
    if (edition && transfer.policy == edition->policy) /* else by limits of its own */
        shown->count = transfer.count;
    fill_limits(shown, &transfer, limits);
    return true;
}

static bool export_one_key(struct export_context *context, const struct key *key)
{
    struct weir_table *table = context->table;
    struct export_key shown = {.hash = key->hash};
    if (!export_state(context, key, &shown, export_override))
        return true;
    shown.name =
        table->key_max > 0 ? key->bytes : weir_name_index_find(context->names, key->hash, &shown.len);
    if (table->key_max > 0)
        shown.len = key->len;
    return context->each(context->arg, &shown);
}

static bool export_found_keys(struct export_context *context, struct export_scan *scan)
{
    const char *at = buffer_bytes(&scan->out), *end = at + buffer_len(&scan->out);
    while (at < end) {
        struct export_found found;
        memcpy(&found, at, sizeof found);
        at += sizeof found;
        struct key key = {.bytes = at, .len = found.len, .hash = found.hash};
        unsigned char bytes[EXACT_BYTES];
        at += (found.len + 7) / 8 * 8;
        if (context->table->is_exact && !weir_words_name(context->table, &key, bytes))
            continue; /* it has gone meanwhile */
        if (!export_one_key(context, &key))
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

static struct export_context *new_export_context(struct weir_table *table, int64_t now_ns)
{
    struct export_context *context = malloc(sizeof *context);
    if (context) {
        context->table = table;
        context->now = region_time(table->region, now_ns);
    }
    return context;
}

bool weir_table_export(struct weir_table *table, int64_t now_ns, struct export_range *range, size_t most,
                       const struct name_index *names, export_each *each, void *arg)
{
    if (range->from > range->to)
        return false;
    struct export_context *context = new_export_context(table, now_ns);
    struct export_scan scan = {.table = table, .from = range->from, .to = piece_end(table, range, most)};
    if (context) {
        context->names = names;
        context->each = each;
        context->arg = arg;
    }
    bool done = context && scan_range(&scan) && export_found_keys(context, &scan);
    if (done)
        range->from = scan.to + 1; /* 0: that was the last there is */
    weir_buffer_free(&scan.out);
    free(context);
    return done;
}

/* ---- what is shared ---- */

/* Of words there is one for all. */
static bool run_on_overflow(struct weir_table *table, const void *stripe, struct table_op *op)
{
    return table->kind == &weir_table_wide ? weir_wide_shared(table, *(const uint64_t *)stripe, op)
                                           : weir_words_shared(table, op);
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
    struct export_context *context =
        table->kind != &weir_table_own ? new_export_context(table, now_ns) : NULL;
    bool good = context != NULL;
    shared_stripes(table, range, &stripe, &last);
    for (; good && stripe <= last; stripe++) {
        struct export_shared shared = {.of = hashes_of(table, stripe)};
        shared.of.from = shared.of.from > range->from ? shared.of.from : range->from;
        shared.of.to = shared.of.to < range->to ? shared.of.to : range->to;
        if (export_state(context, &stripe, &shared.key, run_on_overflow))
            good = each(arg, &shared);
    }
    free(context);
    return good;
}

/* ---- coming in ---- */

static struct state_transfer make_transfer(const struct edition *edition, const struct export_key *key)
{
    struct state_transfer transfer = {.words = (int64_t *)(uintptr_t)key->words,
                                      .count = key->count,
                                      .policy = edition->policy,
                                      .limits = key->limits};
    memcpy(transfer.spent, key->spent, key->limits * sizeof *key->spent);
    return transfer;
}

static bool charge_found_keys(struct export_scan *scan, int64_t now, const struct export_key *key)
{
    const struct edition *edition = table_edition(scan->table);
    const char *at = buffer_bytes(&scan->out), *end = at + buffer_len(&scan->out);
    while (edition && at < end) {
        struct export_found found;
        memcpy(&found, at, sizeof found);
        at += sizeof found;
        struct key there = {.bytes = at, .len = found.len, .hash = found.hash};
        unsigned char bytes[EXACT_BYTES];
        at += (found.len + 7) / 8 * 8;
        if (scan->table->is_exact && !weir_words_name(scan->table, &there, bytes))
            continue;
        struct state_transfer transfer = make_transfer(edition, key);
        transfer.count = 0; /* by its units alone, since they come on top */
        struct table_op op = {.verb = VERB_IMPORT, .now = now, .n = 1, .transfer = &transfer};
        (void)scan->table->kind->run(scan->table, &there, &op); /* one that has gone meanwhile was idle */
    }
    return edition != NULL;
}

bool weir_table_expect_shared(struct weir_table *table, int64_t now_ns, const struct export_shared *shared)
{
    struct export_range range = shared->of;
    bool good = table->kind != &weir_table_own && shared->key.limits <= WEIR_LIMITS_MAX;
    while (good && range.from <= range.to) {
        struct export_scan scan = {
            .table = table, .from = range.from, .to = piece_end(table, &range, PIECE_KEYS)};
        good =
            scan_range(&scan) && charge_found_keys(&scan, region_time(table->region, now_ns), &shared->key);
        weir_buffer_free(&scan.out);
        if (scan.to == UINT64_MAX)
            break;
        range.from = scan.to + 1;
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
        struct state_transfer transfer = make_transfer(edition, &shared->key);
        struct table_op op = {
            .verb = VERB_IMPORT, .now = region_time(table->region, now_ns), .n = 1, .transfer = &transfer};
        good = run_on_overflow(table, &stripe, &op);
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
    struct state_transfer transfer = make_transfer(edition, key);
    struct table_op op = {
        .verb = VERB_IMPORT, .now = region_time(table->region, now_ns), .n = 1, .transfer = &transfer};
    struct key k = {.bytes = named ? key->name : "", .len = named ? key->len : 0, .hash = key->hash};
    if (named)
        k = table_key(table, key->name, key->len);
    return k.hash > OVERFLOW_HASH && table->kind->run(table, &k, &op);
}

void weir_table_adopt_time(struct weir_table *table, int64_t now_ns, int64_t time)
{
    table->region->offset_ns = sat_sub(clamp64(time, 0, WEIR_TIME_MAX / 2), now_ns);
}
