/* SPDX-License-Identifier: MIT */
#include "table/override.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "core/idle.h"
#include "os/clock.h"
#include "table/change.h"
#include "table/names.h"
#include "table/verbs.h"

#define TOMBSTONE UINT64_C(1) /* hash of a place that was used before; no key's */

struct override_head {
    atom64 changing; /* hash of the key whose limits are being changed; 0: none */
    atom64 number;   /* the last that was drawn */
    uint64_t reserved[6];
};

struct override_entry {
    uint64_t number; /* drawn anew at every change, so that what is made ready of it is known by it */
    uint64_t length; /* of the key, if whole keys are kept */
    char text[OVERRIDE_TEXT_MAX];
    int64_t state[OVERRIDE_WORDS];
    unsigned char key[]; /* key_max bytes, in whole words */
};

/* What this process has made ready, an element for each place. It belongs to whoever has the stripe of the
 * key that is there. */
struct override_cache {
    uint64_t number;
    struct weir_policy *policy;
};

/* ---- the part ---- */

static uint64_t override_size(size_t key_max)
{
    return sizeof(struct override_entry) + (key_max + 7) / 8 * 8;
}

/* One place more than there may be keys: a key that changes has two of them for a moment. */
uint64_t weir_override_part_size(size_t overrides, size_t key_max)
{
    return sizeof(struct override_head) + (overrides + 1) * (sizeof(atom64) + override_size(key_max));
}

static size_t override_places(const struct weir_table *table)
{
    uint64_t size = table->region->shape.parts[PART_OVERRIDES];
    return size < sizeof(struct override_head)
               ? 0
               : (size - sizeof(struct override_head)) / (sizeof(atom64) + override_size(table->key_max));
}

static struct override_head *override_head(const struct weir_table *table)
{
    return (struct override_head *)(void *)table->region->parts[PART_OVERRIDES];
}

static atom64 *override_hash_at(const struct weir_table *table, size_t at)
{
    return (atom64 *)(override_head(table) + 1) + at;
}

static struct override_entry *override_at(const struct weir_table *table, size_t at)
{
    unsigned char *first = (unsigned char *)override_hash_at(table, override_places(table));
    return (struct override_entry *)(void *)(first + at * override_size(table->key_max));
}

static bool is_override_of(const struct weir_table *table, size_t at, const struct key *key)
{
    const struct override_entry *own = override_at(table, at);
    return table->key_max == 0 || (own->length == key->len && key->len <= table->key_max &&
                                   (key->len == 0 || memcmp(own->key, key->bytes, key->len) == 0));
}

/* Looks for the key, or for any key that is called so if `key` is NULL. Gives the number of places if there
 * is none. */
static size_t find_override(const struct weir_table *table, uint64_t hash, const struct key *key)
{
    size_t places = override_places(table), at = hash_to_index(hash, places);
    for (size_t i = 0; i < places; i++) {
        uint64_t is = atom_load(override_hash_at(table, at), memory_order_acquire);
        if (is == 0)
            break;
        if (is == hash && (!key || is_override_of(table, at, key)))
            return at;
        at = at + 1 < places ? at + 1 : 0;
    }
    return places;
}

/* Under `change`. */
static size_t find_override_room(const struct weir_table *table, uint64_t hash)
{
    size_t places = override_places(table), at = hash_to_index(hash, places);
    for (size_t i = 0; i < places; i++) {
        if (atom_load(override_hash_at(table, at), memory_order_relaxed) <= TOMBSTONE)
            return at;
        at = at + 1 < places ? at + 1 : 0;
    }
    return places;
}

bool weir_override_has(struct weir_table *table, uint64_t hash)
{
    return find_override(table, hash, NULL) < override_places(table);
}

/* ---- limits made ready ---- */

static struct override_cache *override_cache_of(struct weir_table *table)
{
    struct override_cache *cache = atomic_load_explicit(&table->overrides, memory_order_acquire);
    if (cache)
        return cache;
    struct override_cache *made = calloc(override_places(table), sizeof *made);
    if (made && atomic_compare_exchange_strong_explicit(&table->overrides, &cache, made, memory_order_acq_rel,
                                                        memory_order_acquire))
        return made;
    free(made);
    return cache;
}

void weir_override_free(struct weir_table *table)
{
    struct override_cache *cache = atomic_load_explicit(&table->overrides, memory_order_relaxed);
    for (size_t i = 0; cache && i < override_places(table); i++)
        weir_policy_free(cache[i].policy);
    free(cache);
}

/* NULL: no memory, or the text is damaged. */
static struct weir_policy *read_override_policy(const struct override_entry *own)
{
    char text[OVERRIDE_TEXT_MAX];
    memcpy(text, own->text, sizeof text);
    text[sizeof text - 1] = '\0';
    struct weir_policy *policy = weir_policy_idle(text, NULL);
    if (!policy || policy->words <= OVERRIDE_WORDS)
        return policy;
    weir_policy_free(policy);
    return NULL;
}

static const struct weir_policy *override_policy_at(struct weir_table *table, size_t at)
{
    const struct override_entry *own = override_at(table, at);
    struct override_cache *ready = override_cache_of(table);
    if (!ready)
        return NULL;
    ready += at;
    if (ready->policy && ready->number == own->number)
        return ready->policy;
    struct weir_policy *policy = read_override_policy(own);
    if (policy) {
        struct weir_policy *old = ready->policy;
        ready->policy = policy; /* in this order, for a child that is forked meanwhile */
        atomic_signal_fence(memory_order_seq_cst);
        ready->number = own->number;
        atomic_signal_fence(memory_order_seq_cst);
        weir_policy_free(old);
    }
    return policy;
}

/* ---- operations ---- */

const char *weir_override_find(struct weir_table *table, const struct key *key,
                               const struct weir_policy **policy, int64_t **state)
{
    size_t at = find_override(table, key->hash, key);
    if (at == override_places(table))
        return NULL;
    *policy = override_policy_at(table, at);
    *state = override_at(table, at)->state;
    return override_at(table, at)->text;
}

bool weir_override_run(struct weir_table *table, const struct key *key, struct stripe *stripe,
                       struct table_op *op, bool *answer)
{
    const struct weir_policy *policy;
    int64_t *state, copy[OVERRIDE_WORDS];
    if (!weir_override_find(table, key, &policy, &state))
        return false;
    if (!policy) {
        *answer = weir_table_op_full(op);
        return true;
    }
    size_t bytes = policy->words * sizeof *state;
    if (table_state(table, policy, state, copy, op->now) == state)
        memcpy(copy, state, bytes);
    *answer = weir_table_op_run(policy, copy, op);
    if (table_op_reads(op) || memcmp(copy, state, bytes) == 0)
        return true;
    weir_journal_begin(&stripe->journal);
    (void)weir_journal_save(table->region, &stripe->journal, state, bytes); /* shapes leave room for it */
    INVARIANT(19, INTACT(weir_journal_covers(table->region, &stripe->journal, state, bytes)));
    memcpy(state, copy, bytes);
    weir_journal_commit(table->region, &stripe->journal);
    op->changed = true;
    return true;
}

/* ---- changing a key's limits ---- */

struct override_change {
    struct weir_table *table;
    const struct key *key;
    int64_t now;
    bool by_clock; /* now is when the key is held: see time_of in change.c */
    const struct edition *edition;
    struct weir_policy *policy; /* the limits to come; NULL: the table's */
    char text[OVERRIDE_TEXT_MAX];
    struct journal *journal;
    int64_t *before, *after; /* states */
    struct weir_error *err;
};

static bool override_fail(const struct override_change *change, int32_t code, const char *message)
{
    weir_error_set(change->err, code, message);
    return false;
}

static bool read_override_limits(struct override_change *change, const char *limits)
{
    char message[sizeof change->err->text];
    if (!limits)
        return true;
    change->policy = weir_policy_idle(limits, change->err);
    if (!change->policy)
        return false;
    if (weir_policy_text(change->policy, change->text, sizeof change->text) >= sizeof change->text)
        return override_fail(change, E2BIG,
                             "the limits of a single key have too long a text: at most 511 bytes");
    if (change->policy->words <= OVERRIDE_WORDS)
        return true;
    (void)snprintf(message, sizeof message,
                   "the limits of a single key may remember %d numbers, and these need %zu: a smaller "
                   "sliding-log, or a table of its own",
                   OVERRIDE_WORDS, change->policy->words);
    return override_fail(change, E2BIG, message);
}

static void set_override_hash(const struct override_change *change, size_t at, uint64_t hash)
{
    atom64 *place = override_hash_at(change->table, at);
    (void)weir_journal_save(change->table->region, change->journal, place, sizeof *place);
    INVARIANT(19, INTACT(weir_journal_covers(change->table->region, change->journal, place, sizeof *place)));
    atom_store(place, hash, memory_order_release);
}

/* Puts the key into a place that nobody looks at yet. */
static void write_override(const struct weir_table *table, size_t at, const struct key *key, const char *text,
                           const int64_t *state, size_t words)
{
    struct override_entry *own = override_at(table, at);
    if (table->key_max > 0) {
        own->length = key->len;
        if (own->length > 0)
            memcpy(own->key, key->bytes, own->length);
    }
    (void)snprintf(own->text, sizeof own->text, "%s", text);
    memcpy(own->state, state, words * sizeof *state);
}

static void fill_override(const struct override_change *change, size_t at)
{
    struct override_entry *own = override_at(change->table, at);
    own->number = atom_add(&override_head(change->table)->number, 1, memory_order_seq_cst) + 1;
    ASSERT(INTACT(own->number == atom_load(&override_head(change->table)->number, memory_order_relaxed)));
    /* Words keep no ages: those of a key's own limits never come back. */
    change->after[STATE_GENERATION] =
        max64(change->after[STATE_GENERATION], sat_mul((int64_t)(own->number & UINT32_MAX), STATE_AGE));
    write_override(change->table, at, change->key, change->text, change->after, change->policy->words);
    set_override_hash(change, at, change->key->hash);
}

/* The state that the key has now, and its policy. */
static const struct weir_policy *take_over_state(const struct override_change *change, size_t old,
                                                 const int64_t **state)
{
    struct weir_table *table = change->table;
    size_t places = override_places(table);
    if (old < places) {
        const struct weir_policy *policy = override_policy_at(table, old);
        if (!policy)
            (void)override_fail(change, ENOMEM, "out of memory");
        else
            *state = table_state(table, policy, override_at(table, old)->state, change->before, change->now);
        return policy;
    }
    *state = change->before;
    if (atom_load(&table->region->header->overrides, memory_order_relaxed) + 1 >= places)
        (void)override_fail(change, ENOSPC,
                            "no more keys can have limits of their own: see overrides in the options");
    else if (!table->kind->detach(table, change->key, change->now, change->journal, change->before))
        (void)override_fail(change, ENOSPC, "the table is full: there is no room for the key");
    else
        return change->edition->policy;
    return NULL;
}

static int64_t override_time(const struct override_change *change)
{
    return change->by_clock ? region_time(change->table->region, clock_now()) : change->now;
}

/* The key's state under limits of its own. One that is as if never used is that under them, too, if they come
 * in the place of the table's: it has their whole burst, as if it had been forgotten and had come in again.
 * Limits of its own say nothing of what was spent before them. */
static void convert_to_override(const struct override_change *change, const struct weir_policy *policy,
                                const int64_t *before)
{
    int64_t now = override_time(change), age = before[STATE_GENERATION];
    if (policy == change->edition->policy && weir_state_idle_from(policy, before) <= now)
        weir_state_init(change->policy, change->after, now);
    else
        weir_state_change(policy, before, change->policy, change->after, now);
    change->after[STATE_GENERATION] = state_next_age(age); /* no promise made so far can be taken back */
}

static bool give_override(const struct override_change *change, size_t old)
{
    struct weir_table *table = change->table;
    const int64_t *before;
    size_t places = override_places(table), at = find_override_room(table, change->key->hash);
    if (at == places)
        return override_fail(change, ENOSPC,
                             "no more keys can have limits of their own: see overrides in the options");
    const struct weir_policy *policy = take_over_state(change, old, &before);
    if (!policy)
        return false;
    convert_to_override(change, policy, before);
    fill_override(change, at);
    if (old < places)
        set_override_hash(change, old, TOMBSTONE);
    return true;
}

static bool remove_override(const struct override_change *change, size_t old)
{
    struct weir_table *table = change->table;
    const struct weir_policy *policy = override_policy_at(table, old);
    if (!policy)
        return override_fail(change, ENOMEM, "out of memory");
    int64_t now = override_time(change);
    const int64_t *state = table_state(table, policy, override_at(table, old)->state, change->before, now);
    weir_state_change(policy, state, change->edition->policy, change->after, now);
    if (change->after[STATE_PROMISED] <= now) /* that has come */
        change->after[STATE_PROMISED] = 0;
    if (!table->kind->attach(table, change->key, change->journal, change->after))
        return override_fail(change, ENOMEM, "out of memory");
    set_override_hash(change, old, TOMBSTONE);
    return true;
}

static uint64_t count_overrides(const struct weir_table *table)
{
    uint64_t count = 0;
    for (size_t at = 0; at < override_places(table); at++)
        count += atom_load(override_hash_at(table, at), memory_order_relaxed) > TOMBSTONE;
    return count;
}

#if WEIR_ASSERTIONS
/* Under `change`: each is found, and they are counted. Not looked at where there are many. */
static void check_overrides(struct weir_table *table)
{
    size_t places = override_places(table);
    for (size_t at = 0; places <= 1024 && at < places; at++) {
        const struct override_entry *own = override_at(table, at);
        struct key key = {.bytes = own->key,
                          .len = own->length,
                          .hash = atom_load(override_hash_at(table, at), memory_order_relaxed)};
        ASSERT(INTACT(key.hash <= TOMBSTONE || find_override(table, key.hash, &key) == at));
    }
    ASSERT(
        INTACT(atom_load(&table->region->header->overrides, memory_order_relaxed) == count_overrides(table)));
}
#endif

void weir_override_settle(struct weir_table *table)
{
    struct override_head *head = override_head(table);
    uint64_t hash = atom_load(&head->changing, memory_order_relaxed);
    if (hash == 0)
        return;
    weir_stripe_unlock(weir_stripe_lock(table->region, table_stripe(table, hash)));
    atom_store(&table->region->header->overrides, count_overrides(table), memory_order_relaxed);
#if WEIR_ASSERTIONS
    check_overrides(table);
#endif
    atom_store(&head->changing, 0, memory_order_release);
}

/* Under the lock of the key's stripe; `old` is its place so far, if it has one. */
static bool change_in_stripe(struct override_change *change, size_t old)
{
    struct region *region = change->table->region;
    weir_journal_begin(change->journal);
    if (!(change->policy ? give_override(change, old) : remove_override(change, old))) {
        weir_journal_undo(region, change->journal);
        return false;
    }
    weir_journal_commit_held(change->journal);
    if (!change->policy && change->table->kind->let_go)
        change->table->kind->let_go(change->table, change->key->hash, change->after[STATE_PROMISED] != 0);
    return true;
}

/* Under `change`, so the limits of the table and its size stay as they are. */
static bool change_limits(struct override_change *change)
{
    struct weir_table *table = change->table;
    atom64 *changing = &override_head(table)->changing, *count = &table->region->header->overrides;
    uint64_t hash = change->key->hash;
    atom_store(changing, hash, memory_order_release);
    struct stripe *stripe = weir_stripe_lock(table->region, table_stripe(table, hash));
    size_t old = find_override(table, hash, change->key);
    bool had = old < override_places(table), has = change->policy != NULL;
    change->journal = &stripe->journal;
    bool done = (!had && !has) || change_in_stripe(change, old);
    void *slot = done && table->region->persist ? table->kind->locate(table, change->key) : NULL;
    weir_stripe_unlock(stripe);
    if (slot)
        table_touch(table, slot, hash);
    if (done)
        (void)atom_add(count, (uint64_t)has - (uint64_t)had, memory_order_relaxed);
#if WEIR_ASSERTIONS
    check_overrides(table);
#endif
    atom_store(changing, 0, memory_order_release);
    return done;
}

static bool make_override_room(struct override_change *change)
{
    size_t words = change->edition ? change->edition->policy->words : 0;
    if (words < OVERRIDE_WORDS)
        words = OVERRIDE_WORDS;
    change->before = change->edition ? calloc(2 * words, sizeof *change->before) : NULL;
    if (!change->before)
        return override_fail(change, ENOMEM, "out of memory");
    change->after = change->before + words;
    return true;
}

static bool change_under_lock(struct override_change *change)
{
    weir_change_lock(change->table->region);
    weir_override_settle(change->table);
    change->edition = table_edition(change->table);
    if (change->edition) /* so that no state is of the limits of before while the journal is open */
        weir_table_finish_change(change->table, change->edition, change->now);
    bool done = make_override_room(change) && change_limits(change);
    weir_change_unlock(change->table->region);
    free(change->before);
    return done;
}

/* Does the table have such keys at all? */
static bool check_override_key(struct weir_table *table, const void *key, size_t len, struct weir_error *err)
{
    const char *fault = NULL;
    if (!table)
        fault = "the table is NULL";
    else if (table->kind == &weir_table_own)
        fault = "limits come with each call to this table: no key has its own";
    else if (!weir_table_knows(table, key, len))
        fault = key ? "the key is longer than key_max" : "the key is NULL";
    if (fault)
        weir_error_set(err, EINVAL, fault);
    return !fault;
}

static bool set_override(struct weir_table *table, int64_t now_ns, bool by_clock, const void *key, size_t len,
                         const char *limits, struct weir_error *err)
{
    if (!check_override_key(table, key, len, err))
        return false;
    struct key k = table_key(table, key, len);
    struct override_change change = {.table = table,
                                     .key = &k,
                                     .now = region_time(table->region, now_ns),
                                     .by_clock = by_clock,
                                     .err = err};
    bool done = read_override_limits(&change, limits) && change_under_lock(&change);
    weir_policy_free(change.policy);
    if (!done)
        return false;
    if (limits)
        weir_table_name(table, &k);
    weir_error_clear(err);
    return true;
}

bool weir_table_override_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                            const char *limits, struct weir_error *err)
{
    return set_override(table, now_ns, false, key, len, limits, err);
}

bool weir_table_override(struct weir_table *table, const void *key, size_t len, const char *limits,
                         struct weir_error *err)
{
    return set_override(table, clock_now(), true, key, len, limits, err);
}

size_t weir_table_override_text(struct weir_table *table, const void *key, size_t len, char *text,
                                size_t size)
{
    char found[OVERRIDE_TEXT_MAX] = "";
    if (text && size > 0)
        text[0] = '\0';
    if (!check_override_key(table, key, len, NULL))
        return 0;
    struct key k = table_key(table, key, len);
    struct stripe *stripe = weir_stripe_lock(table->region, table_stripe(table, k.hash));
    size_t at = find_override(table, k.hash, &k);
    if (at < override_places(table))
        memcpy(found, override_at(table, at)->text, sizeof found - 1);
    weir_stripe_unlock(stripe);
    return (size_t)snprintf(text, text ? size : 0, "%s", found);
}

/* ---- a store that brings them back ---- */

size_t weir_override_room(const struct weir_table *table)
{
    size_t places = override_places(table);
    return places > 0 ? places - 1 : 0;
}

bool weir_override_restore(struct weir_table *table, const struct key *key, const char *text,
                           const int64_t *state, size_t words)
{
    struct region_header *header = table->region->header;
    atom64 *number = &override_head(table)->number;
    size_t at = find_override_room(table, key->hash);
    if (atom_load(&header->overrides, memory_order_relaxed) + 1 >= override_places(table) ||
        at == override_places(table))
        return false;
    /* Ages of promises go on from those that were given out: see fill. */
    uint64_t age = (uint64_t)(state[STATE_GENERATION] / STATE_AGE);
    if (age > atom_load(number, memory_order_relaxed) && age <= UINT32_MAX)
        atom_store(number, age, memory_order_relaxed);
    override_at(table, at)->number = atom_add(number, 1, memory_order_relaxed) + 1;
    write_override(table, at, key, text, state, words);
    atom_store(override_hash_at(table, at), key->hash, memory_order_release);
    (void)atom_add(&header->overrides, 1, memory_order_relaxed);
    return true;
}

void weir_override_each(struct weir_table *table,
                        void (*each)(void *arg, const struct weir_policy *policy, int64_t *state), void *arg)
{
    for (size_t at = 0; at < override_places(table); at++) {
        if (atom_load(override_hash_at(table, at), memory_order_relaxed) <= TOMBSTONE)
            continue;
        const struct weir_policy *policy = override_policy_at(table, at);
        if (policy)
            each(arg, policy, override_at(table, at)->state);
    }
}

/* ---- a file that may be damaged ---- */

static bool check_override_place(const struct weir_table *table, size_t at)
{
    const struct override_entry *own = override_at(table, at);
    struct key key = {.bytes = own->key,
                      .len = own->length,
                      .hash = atom_load(override_hash_at(table, at), memory_order_relaxed)};
    int64_t state[OVERRIDE_WORDS];
    if (key.hash <= TOMBSTONE)
        return true;
    if (table->key_max > 0 && key.len > table->key_max)
        return false;
    if (find_override(table, key.hash, &key) != at) /* it is there twice, or nobody finds it */
        return false;
    struct weir_policy *policy = read_override_policy(own);
    bool valid = policy && weir_state_valid(policy, weir_state_load(policy, own->state, state));
    weir_policy_free(policy);
    return valid;
}

bool weir_override_check(struct weir_table *table)
{
    size_t places = override_places(table);
    if (places == 0)
        return false;
    weir_override_settle(table);
    for (size_t at = 0; at < places; at++)
        if (!check_override_place(table, at))
            return false;
    atom_store(&table->region->header->overrides, count_overrides(table), memory_order_relaxed);
    return true;
}

static bool is_hash_among(uint64_t hash, const uint64_t *hashes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (hashes[i] == hash)
            return true;
    return false;
}

bool weir_override_only(struct weir_table *table, const uint64_t *hashes, size_t count,
                        struct weir_error *err)
{
    bool good = true;
    for (size_t at = 0; good && at < override_places(table); at++) {
        uint64_t hash = atom_load(override_hash_at(table, at), memory_order_acquire);
        if (hash <= TOMBSTONE || is_hash_among(hash, hashes, count))
            continue;
        const struct override_entry *own = override_at(table, at);
        struct key key = {.bytes = own->key, .len = table->key_max > 0 ? own->length : 0, .hash = hash};
        struct override_change change = {.table = table,
                                         .key = &key,
                                         .now = region_time(table->region, clock_now()),
                                         .by_clock = true,
                                         .err = err};
        good = change_under_lock(&change);
    }
    return good;
}
