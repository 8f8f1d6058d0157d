/* SPDX-License-Identifier: MIT */
/*
 * The verbs of a table, as weir.h has them: the key is hashed, the time becomes region time, and the table's
 * kind does the rest.
 */
#include "table/verbs.h"
#include "os/clock.h"
#include "table/slots.h"
#include "table/top.h"
#include "table/wide.h"
#include "table/wide_slots.h"
#include "table/words.h"

bool weir_table_knows(const struct weir_table *table, const void *bytes, size_t len)
{
    return table && (bytes || len == 0) && (table->key_max == 0 || len <= table->key_max);
}

#if WEIR_ASSERTIONS
/* What a verdict says agrees with the answer, and with itself. */
static bool is_sound_answer(const struct table_op *op, bool answer)
{
    const struct weir_verdict *v = op->verdict;
    if (!v || (op->verb != VERB_TAKE && op->verb != VERB_PEEK))
        return true;
    if (v->allowed != answer || (v->reason == WEIR_OK) != answer || (v->retry_after_ns == 0) != answer)
        return false;
    bool is_final = v->reason == WEIR_FULL || v->reason == WEIR_NEVER || v->reason == WEIR_INVALID;
    return v->remaining >= 0 && v->reset_after_ns >= 0 && (!is_final || v->retry_after_ns == WEIR_FOREVER);
}
#else
#define is_sound_answer(...) true
#endif

bool weir_table_do(struct weir_table *table, const struct key *key, struct table_op *op)
{
    ASSERT(op->n >= 1 || op->verb == VERB_CANCEL || op->verb == VERB_EXPORT || op->verb == VERB_IMPORT);
    bool answer = table->kind->run(table, key, op);
    ASSERT(INTACT(is_sound_answer(op, answer)));
    if (table_op_takes(op))
        table_sample_call(table, key, op->n, answer, op->now);
    return answer;
}

bool weir_table_take_key(struct weir_table *table, const struct key *key, int64_t now, int64_t n,
                         struct weir_verdict *verdict)
{
    if (table->kind == &weir_table_words) {
        enum slot_answer answer = weir_words_take(table, key, now, n, verdict);
        if (__builtin_expect(answer != SLOT_ASK, 1)) {
            table_sample_call(table, key, n, answer == SLOT_YES, now);
            return answer == SLOT_YES;
        }
    }
    struct table_op op = {.verb = VERB_TAKE, .now = now, .n = n, .verdict = verdict};
    return n < 1 ? table_reject(verdict) : weir_table_do(table, key, &op);
}

bool weir_table_take_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len, int64_t n,
                        struct weir_verdict *verdict)
{
    if (__builtin_expect(!weir_table_knows(table, key, len), 0))
        return table_reject(verdict);
    struct key k = table_key(table, key, len);
    return weir_table_take_key(table, &k, region_time(table->region, now_ns), n, verdict);
}

/* The same for whole keys. */
static __attribute__((noinline)) bool take_exactly(struct weir_table *table, const void *bytes, size_t len,
                                                   int64_t n, struct weir_verdict *verdict)
{
    struct exact_name name = exact_name(&table->region->key, &table->exact, bytes, len);
    struct key key = {bytes, len, name.hash, name.rest, name.form};
    const struct segment *front = region_front(table->region);
    slots_prefetch(front, key.hash);
    __builtin_prefetch(
        slots_witness(front, region_slot(front, hash_to_index(key.hash, front->lines) * LINE_SLOTS)));
    return weir_table_take_key(table, &key, max64(clock_now() + table->region->offset_ns, 0), n, verdict);
}

static __attribute__((noinline)) bool take_key_slowly(struct weir_table *table, const void *key, size_t len,
                                                      int64_t n, struct weir_verdict *verdict)
{
    if (table && table->is_exact && (key || len == 0) && len <= table->key_max)
        return take_exactly(table, key, len, n, verdict);
    return weir_table_take_at(table, clock_now(), key, len, n, verdict);
}

static __attribute__((noinline)) void sample_call(struct weir_table *table, const void *bytes, size_t len,
                                                  uint64_t hash, int64_t n, bool allowed, int64_t now)
{
    weir_table_sample(table, &(struct key){.bytes = bytes, .len = len, .hash = hash}, n, allowed, now);
}

/* What nearly every take is, with as few instructions as can be: while the line of one key is on its way a
 * processor runs ahead to the next take, and asks for that line as well, if it is not too far. The clock is
 * read meanwhile. */
bool weir_table_take(struct weir_table *table, const void *key, size_t len, int64_t n,
                     struct weir_verdict *verdict)
{
    if (__builtin_expect(!table || table->kind != &weir_table_words || table->is_exact || !key, 0))
        return take_key_slowly(table, key, len, n, verdict);
    uint64_t hash = table_hash(table, key, len);
    slots_prefetch(region_front(table->region), hash);
    int64_t now = max64(clock_now() + table->region->offset_ns, 0); /* both are below 2^62 */
    enum slot_answer answer = words_take(table, &(struct key){.hash = hash}, false, now, n, verdict);
    if (__builtin_expect(answer == SLOT_ASK, 0))
        return take_key_slowly(table, key, len, n, verdict);
    if (__builtin_expect(weir_top_countdown-- == 0, 0))
        sample_call(table, key, len, hash, n, answer == SLOT_YES, now);
    return answer == SLOT_YES;
}

/* A verb that needs nothing but units. */
static bool run_verb(struct weir_table *table, enum table_verb verb, int64_t now_ns, const void *key,
                     size_t len, int64_t n, struct weir_verdict *verdict)
{
    if (!weir_table_knows(table, key, len) || n < 1)
        return table_reject(verdict);
    struct key k = table_key(table, key, len);
    struct table_op op = {
        .verb = verb, .now = region_time(table->region, now_ns), .n = n, .verdict = verdict};
    return weir_table_do(table, &k, &op);
}

bool weir_table_peek_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len, int64_t n,
                        struct weir_verdict *verdict)
{
    return run_verb(table, VERB_PEEK, now_ns, key, len, n, verdict);
}

bool weir_table_peek(struct weir_table *table, const void *key, size_t len, int64_t n,
                     struct weir_verdict *verdict)
{
    return weir_table_peek_at(table, clock_now(), key, len, n, verdict);
}

/* Callers know the times of weir_now, the region its own. */
static void shift_reservation_time(struct weir_reservation *reservation, int64_t by)
{
    reservation->due_ns = sat_add(reservation->due_ns, by);
    if (reservation->before_ns != 0)
        reservation->before_ns = sat_add(reservation->before_ns, by);
}

bool weir_table_reserve_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len, int64_t n,
                           int64_t timeout_ns, struct weir_reservation *reservation,
                           struct weir_verdict *verdict)
{
    struct weir_reservation own;
    struct weir_reservation *r = reservation ? reservation : &own;
    *r = (struct weir_reservation){0};
    if (!weir_table_knows(table, key, len) || n < 1)
        return table_reject(verdict);
    struct key k = table_key(table, key, len);
    struct table_op op = {.verb = VERB_RESERVE,
                          .now = region_time(table->region, now_ns),
                          .n = n,
                          .timeout_ns = timeout_ns,
                          .reservation = r,
                          .verdict = verdict};
    bool answer = weir_table_do(table, &k, &op);
    if (answer)
        shift_reservation_time(r, -table->region->offset_ns);
    else
        *r = (struct weir_reservation){0};
    return answer;
}

bool weir_table_reserve(struct weir_table *table, const void *key, size_t len, int64_t n, int64_t timeout_ns,
                        struct weir_reservation *reservation, struct weir_verdict *verdict)
{
    return weir_table_reserve_at(table, clock_now(), key, len, n, timeout_ns, reservation, verdict);
}

static bool cancel_key(struct weir_table *table, int64_t now_ns, const struct key *key,
                       struct weir_reservation *reservation)
{
    struct weir_reservation r = *reservation;
    shift_reservation_time(&r, table->region->offset_ns);
    struct table_op op = {.verb = VERB_CANCEL, .now = region_time(table->region, now_ns), .reservation = &r};
    bool off = weir_table_do(table, key, &op);
    if (off)
        reservation->n = 0;
    return off;
}

bool weir_table_cancel_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                          struct weir_reservation *reservation)
{
    if (!weir_table_knows(table, key, len) || !reservation)
        return false;
    struct key k = table_key(table, key, len);
    return cancel_key(table, now_ns, &k, reservation);
}

bool weir_table_cancel(struct weir_table *table, const void *key, size_t len,
                       struct weir_reservation *reservation)
{
    return weir_table_cancel_at(table, clock_now(), key, len, reservation);
}

void weir_table_give_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len, int64_t n)
{
    (void)run_verb(table, VERB_GIVE, now_ns, key, len, n, NULL);
}

void weir_table_give(struct weir_table *table, const void *key, size_t len, int64_t n)
{
    weir_table_give_at(table, clock_now(), key, len, n);
}

bool weir_table_charge_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len, int64_t n)
{
    return run_verb(table, VERB_CHARGE, now_ns, key, len, n, NULL);
}

bool weir_table_charge(struct weir_table *table, const void *key, size_t len, int64_t n)
{
    return weir_table_charge_at(table, clock_now(), key, len, n);
}

void weir_table_reset_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len)
{
    (void)run_verb(table, VERB_RESET, now_ns, key, len, 1, NULL);
}

void weir_table_reset(struct weir_table *table, const void *key, size_t len)
{
    weir_table_reset_at(table, clock_now(), key, len);
}

size_t weir_table_explain_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                             struct weir_limit_state *limits, size_t count)
{
    if (!weir_table_knows(table, key, len) || (!limits && count > 0))
        return 0;
    struct key k = table_key(table, key, len);
    struct table_op op = {.verb = VERB_EXPLAIN,
                          .now = region_time(table->region, now_ns),
                          .n = 1,
                          .limits = limits,
                          .limit_count = count};
    return weir_table_do(table, &k, &op) ? op.limit_count : 0;
}

size_t weir_table_explain(struct weir_table *table, const void *key, size_t len,
                          struct weir_limit_state *limits, size_t count)
{
    return weir_table_explain_at(table, clock_now(), key, len, limits, count);
}

size_t weir_table_numbers_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len, int64_t n,
                             bool named, struct limit_numbers *numbers, size_t count)
{
    struct key k = table_key(table, key, len);
    struct table_op op = {.verb = VERB_EXPLAIN,
                          .now = region_time(table->region, now_ns),
                          .n = n,
                          .numbers = numbers,
                          .named = named,
                          .limit_count = count};
    return weir_table_do(table, &k, &op) ? op.limit_count : 0;
}

/* ---- keys of which only the identity is known ---- */

static bool do_op_by_hash(struct weir_table *table, enum table_verb verb, int64_t now_ns, uint64_t hash,
                          int64_t n, struct weir_verdict *verdict)
{
    if (!table || table->key_max > 0 || n < 1)
        return table_reject(verdict);
    struct key key = {.bytes = "", .hash = hash};
    struct table_op op = {
        .verb = verb, .now = region_time(table->region, now_ns), .n = n, .verdict = verdict};
    return weir_table_do(table, &key, &op);
}

void weir_table_give_by_hash(struct weir_table *table, int64_t now_ns, uint64_t hash, int64_t n)
{
    (void)do_op_by_hash(table, VERB_GIVE, now_ns, hash, n, NULL);
}

bool weir_table_charge_by_hash(struct weir_table *table, int64_t now_ns, uint64_t hash, int64_t n)
{
    return do_op_by_hash(table, VERB_CHARGE, now_ns, hash, n, NULL);
}

bool weir_table_peek_by_hash(struct weir_table *table, int64_t now_ns, uint64_t hash, int64_t n,
                             struct weir_verdict *verdict)
{
    return do_op_by_hash(table, VERB_PEEK, now_ns, hash, n, verdict);
}

int64_t weir_table_chargeable_by_hash(struct weir_table *table, int64_t now_ns, uint64_t hash)
{
    struct key key = {.bytes = "", .hash = hash};
    struct table_op op = {.verb = VERB_EXPLAIN, .now = region_time(table->region, now_ns), .n = 1};
    if (table->key_max > 0)
        return 0;
    return weir_table_do(table, &key, &op) ? op.chargeable : 0;
}

/* Under the stripe's lock: what keys without room share; NULL: nothing. */
static void *find_overflow_slot(struct weir_table *table, uint64_t stripe)
{
    struct locked_stripe locked;
    if (table->kind == &weir_table_words)
        return &table->policies->overflow;
    if (table->kind != &weir_table_wide || !weir_wide_join(&locked, table, stripe, NULL))
        return NULL;
    struct wide_slot *slot = wide_place(&locked, 0, wide_places(&locked, 0) + WIDE_OVERFLOW).slot;
    return wide_hash(slot) == OVERFLOW_HASH ? slot : NULL;
}

struct reset_all {
    struct weir_table *table;
    int64_t now_ns, count;
};

static bool reset_key(void *arg, const struct weir_key *key)
{
    struct reset_all *all = arg;
    all->count++;
    (void)do_op_by_hash(all->table, VERB_RESET, all->now_ns, key->id, 1, NULL);
    return true;
}

int64_t weir_table_reset_all(struct weir_table *table, int64_t now_ns)
{
    struct reset_all all = {table, now_ns, 0};
    (void)weir_table_each_at(table, now_ns, reset_key, &all);
    return all.count;
}

void weir_table_mark_dirty(struct weir_table *table, uint64_t hash)
{
    struct region *region = table->region;
    const struct key key = {.bytes = "", .hash = hash};
    if (!region->persist || !table->kind->locate)
        return;
    uint64_t index = table_stripe(table, hash);
    struct stripe *stripe = weir_stripe_lock(region, index);
    void *slot = table->kind->locate(table, &key);
    void *shared = slot ? NULL : find_overflow_slot(table, index);
    weir_stripe_unlock(stripe);
    if (slot || shared)
        table_touch(table, slot ? slot : shared, slot ? hash : OVERFLOW_HASH);
}

bool weir_table_cancel_by_hash(struct weir_table *table, int64_t now_ns, uint64_t hash,
                               struct weir_reservation *reservation)
{
    struct key key = {.bytes = "", .hash = hash};
    return table && table->key_max == 0 && cancel_key(table, now_ns, &key, reservation);
}

void weir_table_prefetch(struct weir_table *table, const void *key, size_t len)
{
    table->kind->prefetch(table, table_hash(table, key, len));
}

/* ---- many takes at once ---- */

/* A take of a large table mostly waits for memory: so first all keys are hashed and their lines asked for,
 * and then decided on, when they have arrived. Processors can have some more than 10 on the way. */
#define FLIGHT 32

static size_t take_prefetched(struct weir_ask *asks, size_t count, int64_t now_ns)
{
    struct key keys[FLIGHT];
    size_t passed = 0;
    for (size_t i = 0; i < count; i++) {
        const struct weir_ask *ask = &asks[i];
        keys[i].hash = 0;
        if (weir_table_knows(ask->table, ask->key, ask->len)) {
            keys[i] = table_key(ask->table, ask->key, ask->len);
            ask->table->kind->prefetch(ask->table, keys[i].hash);
        }
    }
    for (size_t i = 0; i < count; i++) {
        struct weir_ask *ask = &asks[i];
        bool allowed = keys[i].hash != 0 ? weir_table_take_key(ask->table, &keys[i],
                                                               region_time(ask->table->region, now_ns),
                                                               ask->n, &ask->verdict)
                                         : table_reject(&ask->verdict);
        passed += allowed;
    }
    return passed;
}

size_t weir_take_each_at(struct weir_ask *asks, size_t count, int64_t now_ns)
{
    size_t passed = 0;
    for (size_t i = 0; asks && i < count; i += FLIGHT)
        passed += take_prefetched(asks + i, count - i < FLIGHT ? count - i : FLIGHT, now_ns);
    return passed;
}

size_t weir_take_each(struct weir_ask *asks, size_t count)
{
    return weir_take_each_at(asks, count, clock_now());
}
