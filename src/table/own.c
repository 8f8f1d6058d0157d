/* SPDX-License-Identifier: MIT */
/*
 * Tables whose limits come with each call. The word of a key is the region time, in nanoseconds, at which its
 * bucket is full again; it says nothing of any limit, so the next call may bring another one along.
 *
 * A limit of R per W with burst B: n units cost c(n) nanoseconds, and pass if the key is full again at most
 * c(B) from now with them, so that c(B) is what a bucket holds. A unit is worth u = W/R nanoseconds. If u
 * rounded up is larger by a millionth at the most, c(n) = n * ceil(u): then B units pass at one instant in
 * whatever pieces, and the limit is slower by that millionth. Else, above 1000 a second or so, c(n) =
 * ceil(n * u), which makes each call, whatever its n, dearer by less than a nanosecond.
 *
 * Law, for the calls that bring the same limit along: those that pass within [x, y] cost c(n) >= n * u each.
 * The first of them leaves the key full again at x plus its cost or later, the last one at y + c(B) or
 * earlier. So all of them together cost y - x + c(B) at the most, and they are at most (y - x + c(B)) / u <=
 * B + R * (y - x + 1 ns) / W units: with n * ceil(u) for a cost, because then all of them are that much
 * dearer; else because c(B) < B * u + 1 ns.
 *
 * What is given back makes a key full again earlier by no more than n * u, and never before now: so takes and
 * gives of a unit cancel out at the most, in whatever pieces they come.
 *
 * If a store has lost what keys had spent, and floor is asked for, all buckets were empty at a time d,
 * whatever words say: then no key is full again before d + c(B), for whatever limit comes along. What passes
 * after d in [x, y] costs y - d at the most, what passed before it d - x + c(B).
 *
 * No key can be made to need longer than the table's horizon: limits whose c(B) is more are refused. So who
 * names limits as he likes cannot fill the table for ever.
 */
#include "table/own.h"
#include "os/clock.h"
#include "table/overflow_filter.h"
#include "table/slots.h"
#include "table/top.h"
#include "table/verbs.h"
#include "table/words.h"

#define MILLION 1000000

/* A limit, made ready. */
struct own_rate {
    int64_t count, period_ns, burst;
    int64_t unit_ns;    /* whole nanoseconds that a unit costs; 0: they are reckoned for all n at once */
    int64_t span_ns;    /* c(B) */
    int64_t drained_ns; /* a bucket that was empty when all were is full again then; 0: they never were */
};

struct own_question {
    const struct own_rate *terms;
    int64_t now, n;
    bool take;
    int64_t
        back_ns; /* is given back first, by the key if it is there; what keys share is not given back to */
    struct weir_verdict *verdict;      /* or NULL */
    const struct admission_hook *hook; /* NULL: any key may come in */
};

/* ---- limits ---- */

static int64_t own_cost(const struct own_rate *terms, int64_t n)
{
    int64_t cost =
        terms->unit_ns > 0 ? sat_mul(n, terms->unit_ns) : mul_div_up(n, terms->period_ns, terms->count);
    ASSERT(cost == INT64_MAX || (weir_i128)cost * terms->count >= (weir_i128)n * terms->period_ns);
    return cost;
}

/* What n units bring back: in pieces, or not, no more than they cost. */
static int64_t own_worth(const struct own_rate *terms, int64_t n)
{
    int64_t worth =
        terms->unit_ns > 0 ? sat_mul(n, terms->unit_ns) : mul_div(n, terms->period_ns, terms->count);
    ASSERT(terms->unit_ns > 0 || (weir_i128)worth * terms->count <= (weir_i128)n * terms->period_ns);
    return worth;
}

/* The most units that cost no more than that. */
static int64_t own_units_for(const struct own_rate *terms, int64_t span_ns)
{
    return terms->unit_ns > 0 ? span_ns / terms->unit_ns : mul_div(span_ns, terms->count, terms->period_ns);
}

/* Is the unit, rounded up, larger by a millionth at the most? */
static bool is_nearly_whole(const struct weir_own_limit *limit, int64_t unit_ns)
{
    weir_i128 excess = (weir_i128)unit_ns * limit->count - limit->period_ns;
    return excess * MILLION <= limit->period_ns;
}

static bool read_own_rate(const struct weir_table *table, const struct weir_own_limit *limit,
                          struct own_rate *terms)
{
    if (!limit || limit->count < 1 || limit->period_ns < 1 || limit->burst < 1)
        return false;
    int64_t unit_ns = div_up(limit->period_ns, limit->count);
    *terms = (struct own_rate){.count = limit->count,
                               .period_ns = limit->period_ns,
                               .burst = limit->burst,
                               .unit_ns = is_nearly_whole(limit, unit_ns) ? unit_ns : 0};
    terms->span_ns = own_cost(terms, limit->burst);
    ASSERT(terms->span_ns == INT64_MAX || own_units_for(terms, terms->span_ns) >= terms->burst);
    ASSERT(own_cost(terms, terms->burst) == terms->span_ns);
    if (table->drained_ns != 0)
        terms->drained_ns = sat_add(table->drained_ns, terms->span_ns);
    return terms->span_ns <= min64(table->horizon_ns, OWN_TIME_MAX);
}

/* ---- deciding ---- */

static int64_t clamp_own_time(int64_t now)
{
    return clamp64(now, 0, OWN_TIME_MAX);
}

static void fill_own_verdict(const struct own_question *q, int64_t full_at, int64_t after, bool allowed)
{
    const struct own_rate *terms = q->terms;
    int64_t stands = allowed ? after : full_at;
    bool never = q->n > terms->burst;
    if (!q->verdict)
        return;
    *q->verdict = (struct weir_verdict){
        .allowed = allowed,
        .reason = allowed ? WEIR_OK
                  : never ? WEIR_NEVER
                          : WEIR_LATER,
        .remaining = own_units_for(terms, max64(q->now + terms->span_ns - stands, 0)),
        .retry_after_ns = allowed ? 0
                          : never ? WEIR_FOREVER
                                  : after - terms->span_ns - q->now,
        .reset_after_ns = stands - q->now,
    };
}

/* What becomes of a key that is full again at *full_at. */
static bool decide_own(const struct own_question *q, int64_t *full_at)
{
    int64_t from = max64(max64(*full_at, q->terms->drained_ns), q->now);
    int64_t after = sat_add(from, own_cost(q->terms, q->n));
    bool allowed = q->n <= q->terms->burst && after - q->terms->span_ns <= q->now;
    INVARIANT(25, from >= q->now && after >= from && q->now <= OWN_TIME_MAX);
    fill_own_verdict(q, from, after, allowed);
    if (allowed)
        *full_at = after;
    return allowed;
}

enum own_outcome { OWN_NO, OWN_YES, OWN_GONE };

struct own_trace { /* of a take: the word before and after it */
    uint64_t before, after;
};

/* As in words.c. Nothing is ever held here, so a word that says so comes from a damaged file. What is given
 * back comes first, and what is given up to now makes nobody full earlier than now. */
static enum own_outcome ask_own_slot(struct weir_table *table, struct slot_ref ref, uint64_t hash,
                                     const struct own_question *q, struct own_trace *trace)
{
    for (;;) {
        uint64_t owner = slot_hash(ref.slot), word = slot_word(ref.slot);
        if (owner != hash || slot_kind(word) == SLOT_TENTATIVE)
            return OWN_GONE;
        int64_t before = (int64_t)slot_value(word);
        int64_t given = min64(before, max64(sat_sub(before, q->back_ns), q->now)), taken = given;
        bool allowed = decide_own(q, &taken);
        int64_t after = allowed && q->take ? taken : given;
        INVARIANT(25, q->take ? after <= q->now + q->terms->span_ns || after == before : after <= before);
        *trace = (struct own_trace){word, slot_pack(SLOT_PLAIN, 0, (uint64_t)after)};
        if (after == before) {
            if (slot_hash(ref.slot) == hash && slot_word(ref.slot) == word)
                return allowed ? OWN_YES : OWN_NO;
            continue;
        }
        if (!slot_exchange(ref.slot, hash, word, hash, trace->after))
            continue;
        if (after < before)
            region_lower(table->region, ref.segment, ref.line);
        table_touch(table, ref.slot, hash);
        return allowed ? OWN_YES : OWN_NO;
    }
}

/* ---- keys that are not there ---- */

/* Of all places of the first segment, the only one of a table that does not grow; beyond it: UINT64_MAX. */
static uint64_t own_place_of(const struct weir_table *table, const struct slot *slot)
{
    const struct segment *first = &table->region->segments[0];
    uint64_t place = (uint64_t)((uintptr_t)slot - (uintptr_t)first->slots) / sizeof *slot;
    return place < first->lines * LINE_SLOTS ? place : UINT64_MAX;
}

bool weir_table_own_look(struct weir_table *table, int64_t now_ns, uint64_t *cursor, uint64_t count,
                         own_seen *seen, void *arg)
{
    const struct segment *first = &table->region->segments[0];
    const struct edition *edition = table_edition(table);
    uint64_t all = first->lines * LINE_SLOTS;
    int64_t now = region_time(table->region, now_ns);
    for (uint64_t i = 0; edition && i < count && *cursor < all; i++, (*cursor)++) {
        const struct slot *slot = region_slot(first, *cursor);
        uint64_t hash = slot_hash(slot), word = slot_word(slot);
        if (hash != 0 && slot_kind(word) != SLOT_TENTATIVE)
            seen(arg, *cursor, !weir_slot_is_idle(table, edition, hash, word, now));
    }
    return *cursor < all;
}

static bool refuse_own(const struct own_question *q)
{
    struct table_op op = {.verb = VERB_TAKE, .verdict = q->verdict};
    return weir_table_op_full(&op);
}

/* false: the key is in the table by now. */
static bool ask_own_overflow(struct weir_table *table, const struct edition *edition, const struct key *key,
                             const struct own_question *q, bool *answer)
{
    struct region_header *header = table->region->header;
    struct slot *shared = &table->policies->overflow;
    struct own_trace trace;
    int64_t full_at = (int64_t)slot_value(slot_word(shared));
    if (table->refuse_when_full) {
        (void)atom_add(&header->refused, 1, memory_order_relaxed);
        *answer = refuse_own(q);
        return true;
    }
    if (!decide_own(q, &full_at)) { /* changes nothing: needs no lock, and notes nobody */
        (void)atom_add(&header->shared, 1, memory_order_relaxed);
        *answer = false;
        return true;
    }
    if (!weir_overflow_filter_make(table)) {
        *answer = refuse_own(q);
        return true;
    }
    struct stripe *stripe = weir_stripe_lock(table->region, 0);
    weir_slots_clear_overflow_filter(table, edition, q->now);
    weir_overflow_filter_add(table, key->hash);
    *answer = ask_own_slot(table, (struct slot_ref){NULL, 0, shared}, OVERFLOW_HASH, q, &trace) == OWN_YES;
    weir_stripe_unlock(stripe);
    if (*answer && weir_slots_came(table, key, q->now)) { /* as in words.c */
        if (slot_exchange(shared, OVERFLOW_HASH, trace.after, OVERFLOW_HASH, trace.before))
            words_lower_shared(table);
        return false;
    }
    (void)atom_add(&header->shared, 1, memory_order_relaxed);
    return true;
}

/* What is refused, or only asked, needs no slot. Its time does not begin before the floor. false: the key is
 * in the table by now. */
static bool ask_own_absent(struct weir_table *table, const struct edition *edition, const struct key *key,
                           struct own_question *q, bool *answer)
{
    ASSERT(edition);
    q->now = clamp_own_time(max64(q->now, region_floor(table->region)));
    int64_t full_at = 0;
    if (weir_overflow_filter_has(table, key->hash))
        full_at = (int64_t)slot_value(slot_word(&table->policies->overflow));
    *answer = decide_own(q, &full_at);
    if (!*answer || !q->take)
        return true;
    if (q->hook && !q->hook->may_admit(q->hook)) {
        *answer = refuse_own(q);
        return true;
    }
    struct slot_ref ref = weir_slots_settle(table, &edition, key, q->now);
    if (q->hook && ref.slot)
        q->hook->admitted(q->hook, own_place_of(table, ref.slot));
    return !ref.slot && edition && ask_own_overflow(table, edition, key, q, answer);
}

/* A key that could have been forgotten may come in as if it had been: it is asked before it takes. */
static bool may_wake(struct weir_table *table, const struct edition *edition, const struct slot *slot,
                     const struct key *key, const struct own_question *q)
{
    if (!q->hook || !q->take || !weir_slot_is_idle(table, edition, key->hash, slot_word(slot), q->now))
        return true;
    return q->hook->may_wake(q->hook, own_place_of(table, slot));
}

static bool ask_own_key(struct weir_table *table, const struct key *key, struct own_question *q)
{
    INVARIANT(25, q->terms->span_ns <= table->horizon_ns);
    for (;;) {
        bool answer;
        const struct edition *edition = table_edition(table);
        if (!edition) /* a file that says that its limits have changed is damaged: it has none */
            return refuse_own(q);
        struct slot_ref ref = weir_slots_find(table, key->hash);
        if (!ref.slot) {
            if (ask_own_absent(table, edition, key, q, &answer))
                return answer;
            continue;
        }
        ASSERT(edition);
        if (!may_wake(table, edition, ref.slot, key, q))
            return refuse_own(q);
        struct own_trace trace;
        enum own_outcome outcome = ask_own_slot(table, ref, key->hash, q, &trace);
        if (outcome != OWN_GONE)
            return outcome == OWN_YES;
    }
}

/* ---- the verbs ---- */

static bool is_own_call(const struct weir_table *table, const void *key, size_t len,
                        const struct weir_own_limit *limit, struct own_rate *terms)
{
    return weir_table_knows(table, key, len) && table->kind == &weir_table_own &&
           read_own_rate(table, limit, terms);
}

static bool ask_own(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                    const struct weir_own_limit *limit, struct own_question *q)
{
    struct own_rate terms;
    if (q->n < 1 || !is_own_call(table, key, len, limit, &terms))
        return table_reject(q->verdict);
    struct key k = table_key(table, key, len);
    q->terms = &terms;
    q->now = clamp_own_time(region_time(table->region, now_ns));
    bool answer = ask_own_key(table, &k, q);
    if (q->take)
        table_sample_call(table, &k, q->n, answer, q->now);
    return answer;
}

bool weir_table_take_own_as(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                            const struct weir_own_limit *limit, int64_t n, const struct admission_hook *hook,
                            struct weir_verdict *verdict)
{
    struct own_question q = {.n = n, .take = true, .verdict = verdict, .hook = hook};
    return ask_own(table, now_ns, key, len, limit, &q);
}

bool weir_table_take_own_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                            const struct weir_own_limit *limit, int64_t n, struct weir_verdict *verdict)
{
    return weir_table_take_own_as(table, now_ns, key, len, limit, n, NULL, verdict);
}

bool weir_table_take_own(struct weir_table *table, const void *key, size_t len,
                         const struct weir_own_limit *limit, int64_t n, struct weir_verdict *verdict)
{
    return weir_table_take_own_at(table, clock_now(), key, len, limit, n, verdict);
}

bool weir_table_peek_own_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                            const struct weir_own_limit *limit, int64_t n, struct weir_verdict *verdict)
{
    struct own_question q = {.n = n, .verdict = verdict};
    return ask_own(table, now_ns, key, len, limit, &q);
}

bool weir_table_peek_own(struct weir_table *table, const void *key, size_t len,
                         const struct weir_own_limit *limit, int64_t n, struct weir_verdict *verdict)
{
    return weir_table_peek_own_at(table, clock_now(), key, len, limit, n, verdict);
}

/* 0 units: what would be told to somebody who takes nothing afterwards. A key that is not there owes nothing
 * of its own. */
bool weir_table_give_own_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                            const struct weir_own_limit *limit, int64_t n, struct weir_verdict *verdict)
{
    struct own_rate terms;
    if (n < 0 || !is_own_call(table, key, len, limit, &terms))
        return table_reject(verdict);
    struct key k = table_key(table, key, len);
    struct own_question q = {.terms = &terms,
                             .now = clamp_own_time(region_time(table->region, now_ns)),
                             .back_ns = own_worth(&terms, n),
                             .verdict = verdict};
    return ask_own_key(table, &k, &q);
}

bool weir_table_give_own(struct weir_table *table, const void *key, size_t len,
                         const struct weir_own_limit *limit, int64_t n, struct weir_verdict *verdict)
{
    return weir_table_give_own_at(table, clock_now(), key, len, limit, n, verdict);
}

/* ---- the kind ---- */

static void reset_own_key(struct weir_table *table, uint64_t hash, int64_t now)
{
    for (;;) {
        struct slot_ref ref = weir_slots_find(table, hash);
        if (!ref.slot)
            return;
        uint64_t word = slot_word(ref.slot);
        uint64_t next = slot_pack(SLOT_PLAIN, 0, (uint64_t)clamp_own_time(now));
        if (slot_kind(word) == SLOT_TENTATIVE || !slot_exchange(ref.slot, hash, word, hash, next))
            continue;
        region_lower(table->region, ref.segment, ref.line);
        table_touch(table, ref.slot, hash);
        return;
    }
}

/* On its way to another table a key has its debt alone: nanoseconds until it is full. */
static bool export_debt(struct weir_table *table, uint64_t hash, const struct table_op *op)
{
    struct slot_ref ref = weir_slots_find(table, hash);
    int64_t now = clamp_own_time(op->now), full_at = ref.slot ? (int64_t)slot_value(slot_word(ref.slot)) : 0;
    struct state_transfer *out = op->transfer;
    out->limits = 1;
    out->spent[0] = op->limits[0].reset_after_ns = max64(full_at - now, 0);
    out->idle = full_at <= now;
    return ref.slot && slot_hash(ref.slot) == hash;
}

/* It comes on top of what the key owes here. */
static bool import_debt(struct weir_table *table, const struct key *key, const struct table_op *op)
{
    int64_t debt = clamp64(op->transfer->spent[0], 0, table->horizon_ns);
    int64_t now = clamp_own_time(max64(op->now, region_floor(table->region)));
    const struct edition *edition = table_edition(table);
    while (edition) {
        struct slot_ref ref = weir_slots_settle(table, &edition, key, now);
        if (!ref.slot)
            return false;
        uint64_t owner = slot_hash(ref.slot), word = slot_word(ref.slot);
        int64_t after = sat_add(max64((int64_t)slot_value(word), now), debt);
        uint64_t next = slot_pack(SLOT_PLAIN, 0, (uint64_t)min64(after, (int64_t)SLOT_VALUE_MAX - 1));
        if (owner != key->hash || slot_kind(word) == SLOT_TENTATIVE ||
            !slot_exchange(ref.slot, owner, word, owner, next))
            continue;
        table_touch(table, ref.slot, owner);
        return true;
    }
    return false;
}

/* The verbs that bring no limit along make no sense here, but for a reset, and keys that travel. */
static bool own_run_op(struct weir_table *table, const struct key *key, struct table_op *op)
{
    if (op->verb == VERB_RESET) {
        reset_own_key(table, key->hash, op->now);
        return true;
    }
    if (op->verb == VERB_EXPORT)
        return export_debt(table, key->hash, op);
    if (op->verb == VERB_IMPORT)
        return import_debt(table, key, op);
    if (op->reservation && op->verb == VERB_RESERVE)
        *op->reservation = (struct weir_reservation){0};
    return table_reject(op->verdict);
}

const struct table_kind weir_table_own = {
    .run = own_run_op,
    .has = weir_slots_any,
    .prefetch = weir_words_prefetch,
    .sweep = weir_words_sweep,
    .each = weir_words_each,
    .count = weir_words_count,
};
