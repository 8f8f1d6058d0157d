/* SPDX-License-Identifier: MIT */
/*
 * Making a table, opening one, growing it and letting go of it.
 */
#include "table/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "core/idle.h"
#include "os/clock.h"
#include "os/mapping.h"
#include "region/layout.h"
#include "table/change.h"
#include "table/history.h"
#include "table/names.h"
#include "table/overflow_filter.h"
#include "table/override.h"
#include "table/slots.h"
#include "table/top.h"
#include "table/wide.h"
#include "table/wide_slots.h"
#include "table/words.h"

#define OVERRIDES_DEFAULT 64
#define OVERRIDES_MAX     65536
#define KEY_BYTES_MAX     4096
#define HORIZON_DEFAULT   (INT64_C(31) * 86400 * WEIR_SEC)
#define NAME_BYTES_MAX    (UINT64_C(1) << 40)
#define KEYS_MAX          (UINT64_C(1) << 40)
#define MANY_KEYS         1000000 /* of the table for which the bytes of a key are told */

/* What a table wants to know again when its file is opened: in shape.own. */
enum { OWN_KEY_MAX, OWN_STATE_WORDS, OWN_WHEN_FULL, OWN_HORIZON };

/* ---- shape ---- */

/* Lines for so many keys. At 69 % of the slots a key is at home nearly always, and takes 23.6 bytes. */
static uint64_t lines_for(uint64_t keys)
{
    uint64_t slots = keys + keys * 9 / 20;
    return slots / LINE_SLOTS + 1;
}

static uint64_t stripes_for(uint64_t keys)
{
    uint64_t stripes = 16;
    while (stripes < 256 && stripes * 64 < keys)
        stripes *= 2;
    return stripes;
}

static void shape_slots(struct region_shape *shape, uint64_t keys)
{
    shape->slot_size = sizeof(struct slot);
    shape->line_slots = LINE_SLOTS;
    shape->lines = lines_for(keys);
    shape->stripes = stripes_for(keys);
}

static void shape_table(struct region_shape *shape, const struct weir_table_options *options,
                        struct edition *edition, size_t state_words)
{
    uint64_t keys = options->keys;
    *shape = (struct region_shape){.capacity = keys};
    if (options->own_limits) {
        shape->kind = REGION_OWN;
        shape_slots(shape, keys);
    } else if (options->key_max <= EXACT_BYTES && state_words == 0 && weir_edition_suits_words(edition)) {
        shape->kind = REGION_WORDS;
        shape->flags = options->key_max > 0 ? REGION_WITNESSED : 0;
        shape_slots(shape, keys);
    } else {
        shape->kind = REGION_WIDE;
        size_t words = edition->policy->words > state_words ? edition->policy->words : state_words;
        shape->own[OWN_STATE_WORDS] = words;
        weir_wide_shape(shape, keys, words, options->key_max);
    }
    table_shape_journals(shape);
    shape->parts[PART_POLICIES] = sizeof(struct table_policies);
    shape->parts[PART_TOP] = options->no_top ? 0 : weir_top_size();
    shape->parts[PART_NAMES] = weir_name_log_size(options->name_bytes);
    shape->parts[PART_OVERRIDES] =
        options->own_limits
            ? 0
            : weir_override_part_size(options->overrides ? options->overrides : OVERRIDES_DEFAULT,
                                      options->key_max);
    shape->own[OWN_KEY_MAX] = options->key_max;
    shape->own[OWN_WHEN_FULL] = (uint64_t)options->when_full;
    shape->own[OWN_HORIZON] = (uint64_t)(options->horizon_ns ? options->horizon_ns : HORIZON_DEFAULT);
}

/* What is ignored today could not get a meaning tomorrow. */
static bool is_spare_used(const struct weir_table_options *o)
{
    for (size_t i = 0; i < sizeof o->spare / sizeof o->spare[0]; i++)
        if (o->spare[i] != 0)
            return true;
    return (o->no_top | o->own_limits) & ~1;
}

static bool check_table_options(const char *limits, const struct weir_table_options *o,
                                struct weir_error *err)
{
    char too_many[sizeof err->text];
    (void)snprintf(too_many, sizeof too_many,
                   "%zu keys are more than any machine holds: at most 2^40, and 24 bytes for each", o->keys);
    const struct {
        bool is_wrong;
        const char *message;
    } checks[] = {
        {!o->own_limits && !limits, "limits is NULL"},
        {o->own_limits && limits, "limits come with each call if own_limits is 1: give NULL here"},
        {o->own_limits && (o->key_max > 0 || o->name_bytes > 0),
         "a table with own_limits keeps hashes: key_max and name_bytes must be 0"},
        {o->name_bytes > NAME_BYTES_MAX, "name_bytes is at most 2^40"},
        {o->keys == 0, "a table is made for 1 key or more: how many may be busy at the same time?"},
        {o->when_full != WEIR_FULL_SHARE && o->when_full != WEIR_FULL_REFUSE,
         "when_full is WEIR_FULL_SHARE or WEIR_FULL_REFUSE"},
        {o->key_max > KEY_BYTES_MAX,
         "key_max is at most 4096 bytes: without it keys of any length are known by their hashes"},
        {o->overrides > OVERRIDES_MAX, "overrides is at most 65536: for more, use a table of their own"},
        {o->horizon_ns < 0, "horizon_ns is negative"},
        {o->mode < 0 || o->mode > 0777, "mode is a file mode, such as 0600 or 0660"},
        {is_spare_used(o), "no_top and own_limits are 0 or 1, spare is 0: set the options to { 0 } first"},
        {o->keys > KEYS_MAX, too_many},
    };
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        if (checks[i].is_wrong) {
            weir_error_set(err, EINVAL, checks[i].message);
            return false;
        }
    return true;
}

/* ---- the table in this process ---- */

static const struct table_kind *const table_kinds[] = {
    [REGION_WORDS] = &weir_table_words, [REGION_WIDE] = &weir_table_wide, [REGION_OWN] = &weir_table_own};

static struct weir_table *table_on(struct region *region, struct weir_error *err)
{
    struct weir_table *table = calloc(1, sizeof *table);
    if (!table) {
        weir_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    const struct region_shape *shape = &region->shape;
    table->region = region;
    table->kind = table_kinds[shape->kind]; /* shape_makes_sense, or our own */
    table->policies = (struct table_policies *)(void *)region->parts[PART_POLICIES];
    table->key_max = shape->own[OWN_KEY_MAX];
    table->is_exact = (shape->flags & REGION_WITNESSED) != 0;
    table->exact = exact_of(&region->key);
    table->state_words = shape->own[OWN_STATE_WORDS];
    table->refuse_when_full = shape->own[OWN_WHEN_FULL] == WEIR_FULL_REFUSE;
    table->horizon_ns = (int64_t)shape->own[OWN_HORIZON];
    if (shape->parts[PART_TOP] > 0)
        table->top = (struct top *)(void *)region->parts[PART_TOP];
    if (region->file < 0) /* few keys, if any, have limits of their own, and there is room for a thousand */
        weir_memory_postpone(region->parts[PART_OVERRIDES], shape->parts[PART_OVERRIDES]);
    if (shape->parts[PART_NAMES] > 0)
        table->names = (struct name_log *)(void *)region->parts[PART_NAMES];
    if (weir_wide_copies(table))
        return table;
    weir_error_set(err, ENOMEM, "out of memory");
    free(table);
    return NULL;
}

#if WEIR_ASSERTIONS
static void count_wide(struct locked_stripe *locked, const struct wide_ref *place, void *arg)
{
    uint64_t *count = arg;
    (void)locked;
    *count += wide_hash(place->slot) != OVERFLOW_HASH;
}

/* A table in memory of the process that nobody uses any more: all that was said of its slots is true. */
static void check_table(struct weir_table *table)
{
    uint64_t used = 0;
    if (table->region->file >= 0 || weir_region_scribbled || table->recovery || !table->edition)
        return;
    if (table->kind == &weir_table_wide) {
        INVARIANT(13, weir_wide_check(table));
        (void)weir_wide_visit(table, 0, UINT64_MAX, count_wide, &used);
    } else {
        used = weir_slots_check(table, 0, true);
    }
    ASSERT(used == atom_load(&table->region->occupied, memory_order_relaxed));
}
#endif

void weir_table_free(struct weir_table *table)
{
    if (!table || table->owner)
        return;
#if WEIR_ASSERTIONS
    check_table(table);
#endif
    free(table->copies);
    weir_override_free(table);
    if (table->recovery)
        table->free_recovery(table);
    weir_overflow_filter_free(table);
    weir_history_free(table);
    weir_edition_free(atomic_load_explicit(&table->edition, memory_order_relaxed));
    weir_region_free(table->region);
    free(table);
}

/* Fills a region that was just made. */
static void begin_table(struct weir_table *table, struct edition *edition)
{
    struct table_policies *policies = table->policies;
    if (table->kind != &weir_table_own)
        memcpy(policies->texts[0].text, edition->text, strlen(edition->text) + 1);
    atom_store(&policies->overflow.both.low, OVERFLOW_HASH, memory_order_relaxed);
    atomic_store_explicit(&table->edition, edition, memory_order_release);
}

/* A shape from a file may say anything that makes sense to the region. */
static bool shape_makes_sense(const struct region_shape *shape)
{
    bool slots = shape->slot_size == sizeof(struct slot) && shape->line_slots == LINE_SLOTS;
    struct region_shape journals = *shape;
    table_shape_journals(&journals);
    if (shape->journal_size != journals.journal_size || shape->transaction_size != journals.transaction_size)
        return false;
    if (shape->parts[PART_POLICIES] != sizeof(struct table_policies) ||
        shape->own[OWN_KEY_MAX] > KEY_BYTES_MAX ||
        (shape->parts[PART_TOP] != 0 && shape->parts[PART_TOP] != weir_top_size()))
        return false;
    bool exact = (shape->flags & REGION_WITNESSED) != 0;
    if (shape->kind == REGION_WORDS || shape->kind == REGION_OWN)
        return slots && exact == (shape->own[OWN_KEY_MAX] > 0) && shape->own[OWN_KEY_MAX] <= EXACT_BYTES;
    return shape->kind == REGION_WIDE && weir_wide_shape_fits(shape, shape->own[OWN_STATE_WORDS]);
}

/* Of a table whose limits come with each call. */
static struct edition *dummy_edition(struct weir_error *err)
{
    struct edition *edition = calloc(1, sizeof *edition);
    if (!edition)
        weir_error_set(err, ENOMEM, "out of memory");
    return edition;
}

static bool refuse_kind(const char *path, const char *why, struct weir_error *err)
{
    char message[sizeof err->text];
    (void)snprintf(message, sizeof message, "%.100s: %s", path, why);
    weir_error_set(err, EINVAL, message);
    return false;
}

/* What keys without room share is always there. */
static bool shared_makes_sense(const struct weir_table *table)
{
    const struct slot *shared = &table->policies->overflow;
    return slot_hash(shared) == OVERFLOW_HASH && slot_kind(slot_word(shared)) != SLOT_TENTATIVE;
}

static bool is_table_whole(struct weir_table *table)
{
    if (!shared_makes_sense(table))
        return false;
    if (table->kind == &weir_table_own)
        return atom_load(&table->region->header->generation, memory_order_relaxed) == 0;
    return weir_override_check(table) && (table->kind != &weir_table_wide || weir_wide_check(table));
}

/* Joins a table that was there already. */
static bool join_table(struct weir_table *table, const char *path, const char *limits,
                       const struct weir_table_options *options, bool alone, struct weir_error *err)
{
    static const char damaged[] = "the table is damaged; remove it to begin anew";
    bool own = table->kind == &weir_table_own;
    if (own != (options->own_limits == 1))
        return refuse_kind(path,
                           own ? "limits come with each call to this table: own_limits must be 1"
                               : "this table has limits of its own: own_limits must be 0",
                           err);
    if (own) {
        struct edition *edition = dummy_edition(err);
        atomic_store_explicit(&table->edition, edition, memory_order_release);
        return edition && (!alone || is_table_whole(table) || refuse_kind(path, damaged, err));
    }
    if (options->key_max != 0 && options->key_max != table->key_max)
        return refuse_kind(path, "this table keeps keys of another length (key_max)", err);
    if (!weir_table_load(table, err))
        return false;
    if (alone && !is_table_whole(table))
        return refuse_kind(path, damaged, err);
    return weir_table_set(table, limits, err);
}

static struct weir_table *open_table(const char *path, const char *limits,
                                     const struct weir_table_options *options, struct weir_error *err)
{
    bool made = true, alone = true;
    struct region_shape shape;
    struct edition *edition = options->own_limits ? dummy_edition(err) : weir_edition_new(limits, 0, 0, err);
    if (!edition)
        return NULL;
    shape_table(&shape, options, edition, 0);
    unsigned mode = options->mode ? (unsigned)options->mode : 0600;
    struct region *region =
        path ? weir_region_open(path, &shape, mode, &made, &alone, err) : weir_region_new(&shape, err);
    if (region && !made && !shape_makes_sense(&region->shape)) {
        (void)refuse_kind(path, "this is no table, or a damaged one", err);
        weir_region_free(region);
        region = NULL;
    }
    struct weir_table *table = region ? table_on(region, err) : NULL;
    if (!table)
        weir_region_free(region);
    if (!table || !made)
        weir_edition_free(edition);
    if (!table)
        return NULL;
    if (made)
        begin_table(table, edition);
    if (made || join_table(table, path, limits, options, alone, err)) {
        weir_region_ready(region);
        weir_error_clear(err);
        return table;
    }
    weir_table_free(table);
    return NULL;
}

struct weir_table *weir_table_make(const char *path, const char *limits,
                                   const struct weir_table_options *options, struct weir_error *err)
{
    if (!options) {
        weir_error_set(err, EINVAL, "options is NULL");
        return NULL;
    }
    return check_table_options(limits, options, err) ? open_table(path, limits, options, err) : NULL;
}

/* ---- tables that a store keeps ---- */

static struct weir_table *table_kept(struct region *region, struct edition *edition, struct weir_error *err)
{
    struct weir_table *table = region ? table_on(region, err) : NULL;
    if (!table) {
        weir_region_free(region);
        weir_edition_free(edition);
        return NULL;
    }
    begin_table(table, edition);
    if (weir_history_begin(table) &&
        (!edition->text || weir_history_add(table, edition->generation, edition->text, 0, err)))
        return table;
    weir_error_set(err, ENOMEM, "out of memory");
    weir_table_free(table);
    return NULL;
}

struct weir_table *weir_table_make_stored(const char *limits, const struct weir_table_options *options,
                                          const struct hash_key *key, size_t state_words,
                                          struct weir_error *err)
{
    struct region_shape shape;
    if (!check_table_options(limits, options, err))
        return NULL;
    struct edition *edition = options->own_limits ? dummy_edition(err) : weir_edition_new(limits, 0, 0, err);
    if (!edition)
        return NULL;
    shape_table(&shape, options, edition, state_words);
    if (shape.kind != REGION_WIDE)
        shape.flags |= REGION_NUMBERED;
    struct region *region = weir_region_new(&shape, err);
    if (region && key)
        weir_region_set_key(region, key);
    struct weir_table *table = table_kept(region, edition, err);
    if (table)
        weir_error_clear(err);
    return table;
}

void weir_table_options_of(const struct weir_table *table, struct weir_table_options *options)
{
    const struct region_shape *shape = &table->region->shape;
    *options = (struct weir_table_options){
        .keys = shape->capacity,
        .key_max = table->key_max,
        .name_bytes = shape->parts[PART_NAMES],
        .overrides = table->kind == &weir_table_own ? 0 : weir_override_room(table),
        .when_full = table->refuse_when_full ? WEIR_FULL_REFUSE : WEIR_FULL_SHARE,
        .no_top = shape->parts[PART_TOP] == 0,
        .own_limits = table->kind == &weir_table_own,
        .horizon_ns = table->horizon_ns,
    };
}

struct weir_table *weir_table_new(const char *limits, size_t keys, struct weir_error *err)
{
    return weir_table_make(NULL, limits, &(struct weir_table_options){.keys = keys}, err);
}

struct weir_table *weir_table_open(const char *path, const char *limits, size_t keys, struct weir_error *err)
{
    if (!path) {
        weir_error_set(err, EINVAL, "path is NULL: for a table in memory use weir_table_new");
        return NULL;
    }
    return weir_table_make(path, limits, &(struct weir_table_options){.keys = keys}, err);
}

/* ---- memory ---- */

static uint64_t shape_lines_for(const struct region_shape *shape, uint64_t keys)
{
    return shape->kind == REGION_WIDE ? weir_wide_lines(shape, keys) : lines_for(keys);
}

uint64_t weir_table_lines_for(const struct weir_table *table, uint64_t keys)
{
    return shape_lines_for(&table->region->shape, keys);
}

static int64_t shape_key_bytes(const struct region_shape *shape)
{
    uint64_t bytes = weir_segment_size(shape, shape_lines_for(shape, MANY_KEYS));
    return (int64_t)((bytes + MANY_KEYS - 1) / MANY_KEYS);
}

int64_t weir_table_key_bytes_in(const struct weir_table *table)
{
    return shape_key_bytes(&table->region->shape);
}

int64_t weir_table_key_bytes(const char *limits, size_t key_max)
{
    struct edition *edition = limits ? weir_edition_new(limits, 0, 0, NULL) : NULL;
    struct weir_table_options options = {.keys = MANY_KEYS, .key_max = key_max, .own_limits = !edition};
    struct region_shape shape;
    shape_table(&shape, &options, edition, 0);
    weir_edition_free(edition);
    return shape_key_bytes(&shape);
}

/* ---- growth ---- */

/* Under the change lock. */
static bool grow_table(struct weir_table *table, size_t keys, struct weir_error *err)
{
    struct region_header *header = table->region->header;
    uint64_t has = atom_load(&header->capacity, memory_order_relaxed);
    if (keys <= has) {
        weir_error_clear(err);
        return true;
    }
    if (!weir_region_grow(table->region, weir_table_lines_for(table, keys - has), err))
        return false;
    atom_store(&header->capacity, keys, memory_order_relaxed);
    weir_error_clear(err);
    return true;
}

bool weir_table_grow(struct weir_table *table, size_t keys, struct weir_error *err)
{
    if (!table || keys == 0 || keys > KEYS_MAX) {
        weir_error_set(err, EINVAL, !table ? "the table is NULL" : "a table grows to 1 to 2^40 keys");
        return false;
    }
    struct table_owner *owner = table->owner;
    if (owner && !owner->begin(owner, table, NULL, err))
        return false;
    weir_change_lock(table->region);
    if (table->kind != &weir_table_own)
        weir_override_settle(table);
    bool grown = grow_table(table, keys, err);
    weir_change_unlock(table->region);
    if (owner)
        owner->end(owner, table);
    return grown;
}
