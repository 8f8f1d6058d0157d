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
#include "os/clock.h"
#include "table/slots.h"
#include "table/takers.h"
#include "table/verbs.h"
#include "table/words.h"

#define MILLION 1000000

/* A limit, made ready. */
struct terms {
    int64_t count, period_ns, burst;
    int64_t unit_ns;    /* whole nanoseconds that a unit costs; 0: they are reckoned for all n at once */
    int64_t span_ns;    /* c(B) */
    int64_t drained_ns; /* a bucket that was empty when all were is full again then; 0: they never were */
};

struct question {
    const struct terms *terms;
    int64_t now, n;
    bool take;
    struct weir_verdict *verdict;    /* or NULL */
    const struct newcomer *newcomer; /* NULL: any key may come in */
};

static bool reject(struct weir_verdict *verdict)
{
    if (verdict)
        *verdict = (struct weir_verdict){.reason = WEIR_INVALID, .retry_after_ns = WEIR_FOREVER};
    return false;
}

/* ---- limits ---- */

static int64_t cost_of(const struct terms *terms, int64_t n)
{
    return terms->unit_ns > 0 ? sat_mul(n, terms->unit_ns) : mul_div_up(n, terms->period_ns, terms->count);
}

/* What n units bring back: in pieces, or not, no more than they cost. */
static int64_t worth_of(const struct terms *terms, int64_t n)
{
    return terms->unit_ns > 0 ? sat_mul(n, terms->unit_ns) : mul_div(n, terms->period_ns, terms->count);
}

/* The most units that cost no more than that. */
static int64_t units_for(const struct terms *terms, int64_t span_ns)
{
    return terms->unit_ns > 0 ? span_ns / terms->unit_ns : mul_div(span_ns, terms->count, terms->period_ns);
}

/* Is the unit, rounded up, larger by a millionth at the most? */
static bool is_nearly_whole(const struct weir_own_limit *limit, int64_t unit_ns)
{
    weir_i128 excess = (weir_i128)unit_ns * limit->count - limit->period_ns;
    return excess * MILLION <= limit->period_ns;
}

static bool read_terms(const struct weir_table *table, const struct weir_own_limit *limit,
                       struct terms *terms)
{
    if (!limit || limit->count < 1 || limit->period_ns < 1 || limit->burst < 1)
        return false;
    int64_t unit_ns = div_up(limit->period_ns, limit->count);
    *terms = (struct terms){.count = limit->count,
                            .period_ns = limit->period_ns,
                            .burst = limit->burst,
                            .unit_ns = is_nearly_whole(limit, unit_ns) ? unit_ns : 0};
    terms->span_ns = cost_of(terms, limit->burst);
    if (table->drained_ns != 0)
        terms->drained_ns = sat_add(table->drained_ns, terms->span_ns);
    return terms->span_ns <= min64(table->horizon_ns, OWN_TIME_MAX);
}

/* ---- deciding ---- */

static int64_t clamp_now(int64_t now)
{
    return clamp64(now, 0, OWN_TIME_MAX);
}

static void judge(const struct question *q, int64_t full_at, int64_t after, bool allowed)
{
    const struct terms *terms = q->terms;
    int64_t stands = allowed ? after : full_at;
    bool never = q->n > terms->burst;
    if (!q->verdict)
        return;
    *q->verdict = (struct weir_verdict){
        .allowed = allowed,
        .reason = allowed ? WEIR_OK
                  : never ? WEIR_NEVER
                          : WEIR_LATER,
        .remaining = units_for(terms, max64(q->now + terms->span_ns - stands, 0)),
        .retry_after_ns = allowed ? 0
                          : never ? WEIR_FOREVER
                                  : after - terms->span_ns - q->now,
        .reset_after_ns = stands - q->now,
    };
}

/* What becomes of a key that is full again at *full_at. */
static bool decide(const struct question *q, int64_t *full_at)
{
    int64_t from = max64(max64(*full_at, q->terms->drained_ns), q->now);
    int64_t after = sat_add(from, cost_of(q->terms, q->n));
    bool allowed = q->n <= q->terms->burst && after - q->terms->span_ns <= q->now;
    judge(q, from, after, allowed);
    if (allowed)
        *full_at = after;
    return allowed;
}

enum outcome { DONE_NO, DONE_YES, GONE };

struct trace { /* of a take: the word before and after it */
    uint64_t before, after;
};

/* As in words.c. Nothing is ever held here, so a word that says so comes from a damaged file. */
static enum outcome ask_in_place(struct weir_table *table, struct slot *slot, uint64_t who,
                                 const struct question *q, struct trace *trace)
{
    for (;;) {
        uint64_t owner = slot_who(slot), word = slot_word(slot);
        if (owner != who || slot_kind(word) == SLOT_TENTATIVE)
            return GONE;
        int64_t full_at = (int64_t)slot_value(word);
        bool allowed = decide(q, &full_at);
        *trace = (struct trace){word, slot_pack(SLOT_PLAIN, 0, (uint64_t)full_at)};
        if (!allowed || !q->take) {
            if (slot_who(slot) == who && slot_word(slot) == word)
                return allowed ? DONE_YES : DONE_NO;
        } else if (slot_exchange(slot, who, word, who, trace->after)) {
            table_touch(table, slot, who);
            return DONE_YES;
        }
    }
}

/* ---- keys that are not there ---- */

/* Of all places of the first segment, the only one of a table that does not grow; beyond it: UINT64_MAX. */
static uint64_t place_of(const struct weir_table *table, const struct slot *slot)
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
        uint64_t who = slot_who(slot), word = slot_word(slot);
        if (who != 0 && slot_kind(word) != SLOT_TENTATIVE &&
            !weir_slot_is_idle(table, edition, who, word, now))
            seen(arg, *cursor);
    }
    return *cursor < all;
}

static bool refuse(const struct question *q)
{
    struct deed deed = {.verb = VERB_TAKE, .verdict = q->verdict};
    return weir_deed_full(&deed);
}

/* false: the key is in the table by now. */
static bool ask_shared(struct weir_table *table, const struct edition *edition, const struct key *key,
                       const struct question *q, bool *answer)
{
    struct region_header *header = table->region->header;
    struct slot *shared = &table->policies->overflow;
    struct trace trace;
    int64_t full_at = (int64_t)slot_value(slot_word(shared));
    if (table->refuse_when_full) {
        (void)atom_add(&header->refused, 1, memory_order_relaxed);
        *answer = refuse(q);
        return true;
    }
    if (!decide(q, &full_at)) { /* changes nothing: needs no lock, and notes nobody */
        (void)atom_add(&header->shared, 1, memory_order_relaxed);
        *answer = false;
        return true;
    }
    if (!weir_takers_make(table)) {
        *answer = refuse(q);
        return true;
    }
    struct stripe *stripe = weir_stripe_lock(table->region, 0);
    weir_slots_forget_takers(table, edition, q->now);
    weir_takers_add(table, key->who);
    *answer = ask_in_place(table, shared, OVERFLOW_WHO, q, &trace) == DONE_YES;
    weir_stripe_unlock(stripe);
    if (*answer && weir_slots_came(table, key, q->now)) { /* as in words.c */
        if (slot_exchange(shared, OVERFLOW_WHO, trace.after, OVERFLOW_WHO, trace.before))
            words_lower_shared(table);
        return false;
    }
    (void)atom_add(&header->shared, 1, memory_order_relaxed);
    return true;
}

/* What is refused, or only asked, needs no slot. Its time does not begin before the floor. false: the key is
 * in the table by now. */
static bool ask_absent(struct weir_table *table, const struct edition *edition, const struct key *key,
                       struct question *q, bool *answer)
{
    q->now = clamp_now(max64(q->now, region_floor(table->region)));
    int64_t full_at = 0;
    if (weir_takers_have(table, key->who))
        full_at = (int64_t)slot_value(slot_word(&table->policies->overflow));
    *answer = decide(q, &full_at);
    if (!*answer || !q->take)
        return true;
    if (q->newcomer && !q->newcomer->may_come(q->newcomer)) {
        *answer = refuse(q);
        return true;
    }
    struct spot spot = weir_slots_settle(table, &edition, key, q->now);
    if (q->newcomer && spot.slot)
        q->newcomer->came(q->newcomer, place_of(table, spot.slot));
    return !spot.slot && edition && ask_shared(table, edition, key, q, answer);
}

static bool ask(struct weir_table *table, const struct key *key, struct question *q)
{
    for (;;) {
        bool answer;
        const struct edition *edition = table_edition(table);
        if (!edition) /* a file that says that its limits have changed is damaged: it has none */
            return refuse(q);
        struct spot spot = weir_slots_find(table, key->who);
        if (!spot.slot) {
            if (ask_absent(table, edition, key, q, &answer))
                return answer;
            continue;
        }
        struct trace trace;
        enum outcome outcome = ask_in_place(table, spot.slot, key->who, q, &trace);
        if (outcome != GONE)
            return outcome == DONE_YES;
    }
}

/* ---- giving back ---- */

/* q->n is 0: what would be told to somebody who takes nothing afterwards. */
static enum outcome give_in_place(struct weir_table *table, struct spot spot, uint64_t who,
                                  const struct question *q, int64_t back_ns)
{
    for (;;) {
        uint64_t owner = slot_who(spot.slot), word = slot_word(spot.slot);
        if (owner != who || slot_kind(word) == SLOT_TENTATIVE)
            return GONE;
        int64_t before = (int64_t)slot_value(word);
        int64_t after = min64(before, max64(sat_sub(before, back_ns), q->now)), judged = after;
        bool allowed = decide(q, &judged);
        if (after == before) {
            if (slot_who(spot.slot) == who && slot_word(spot.slot) == word)
                return allowed ? DONE_YES : DONE_NO;
            continue;
        }
        if (!slot_exchange(spot.slot, who, word, who, slot_pack(SLOT_PLAIN, 0, (uint64_t)after)))
            continue;
        region_lower(table->region, spot.segment, spot.line);
        table_touch(table, spot.slot, who);
        return allowed ? DONE_YES : DONE_NO;
    }
}

/* A key that is not there owes nothing of its own; what keys without room share is not given back to. */
static bool give(struct weir_table *table, const struct key *key, struct question *q, int64_t back_ns)
{
    for (;;) {
        bool answer;
        const struct edition *edition = table_edition(table);
        if (!edition) /* a file that says that its limits have changed is damaged: it has none */
            return refuse(q);
        struct spot spot = weir_slots_find(table, key->who);
        if (!spot.slot) {
            if (ask_absent(table, edition, key, q, &answer))
                return answer;
            continue;
        }
        enum outcome outcome = give_in_place(table, spot, key->who, q, back_ns);
        if (outcome != GONE)
            return outcome == DONE_YES;
    }
}

/* ---- the verbs ---- */

static bool ask_own(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                    const struct weir_own_limit *limit, struct question *q)
{
    struct terms terms;
    if (!weir_table_knows(table, key, len) || table->kind != &weir_table_own || q->n < 1 ||
        !read_terms(table, limit, &terms))
        return reject(q->verdict);
    struct key k = table_key(table, key, len);
    q->terms = &terms;
    q->now = clamp_now(region_time(table->region, now_ns));
    bool answer = ask(table, &k, q);
    if (q->take)
        table_tell(table, &k, q->n, answer, q->now);
    return answer;
}

bool weir_table_take_own_as(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                            const struct weir_own_limit *limit, int64_t n, const struct newcomer *newcomer,
                            struct weir_verdict *verdict)
{
    struct question q = {.n = n, .take = true, .verdict = verdict, .newcomer = newcomer};
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
    struct question q = {.n = n, .verdict = verdict};
    return ask_own(table, now_ns, key, len, limit, &q);
}

bool weir_table_peek_own(struct weir_table *table, const void *key, size_t len,
                         const struct weir_own_limit *limit, int64_t n, struct weir_verdict *verdict)
{
    return weir_table_peek_own_at(table, clock_now(), key, len, limit, n, verdict);
}

bool weir_table_give_own_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                            const struct weir_own_limit *limit, int64_t n, struct weir_verdict *verdict)
{
    struct terms terms;
    if (!weir_table_knows(table, key, len) || table->kind != &weir_table_own || n < 0 ||
        !read_terms(table, limit, &terms))
        return reject(verdict);
    struct key k = table_key(table, key, len);
    struct question q = {
        .terms = &terms, .now = clamp_now(region_time(table->region, now_ns)), .verdict = verdict};
    return give(table, &k, &q, worth_of(&terms, n));
}

bool weir_table_give_own(struct weir_table *table, const void *key, size_t len,
                         const struct weir_own_limit *limit, int64_t n, struct weir_verdict *verdict)
{
    return weir_table_give_own_at(table, clock_now(), key, len, limit, n, verdict);
}

/* ---- the kind ---- */

static void reset(struct weir_table *table, uint64_t who, int64_t now)
{
    for (;;) {
        struct spot spot = weir_slots_find(table, who);
        if (!spot.slot)
            return;
        uint64_t word = slot_word(spot.slot);
        uint64_t next = slot_pack(SLOT_PLAIN, 0, (uint64_t)clamp_now(now));
        if (slot_kind(word) == SLOT_TENTATIVE || !slot_exchange(spot.slot, who, word, who, next))
            continue;
        region_lower(table->region, spot.segment, spot.line);
        table_touch(table, spot.slot, who);
        return;
    }
}

/* On its way to another table a key has its debt alone: nanoseconds until it is full. */
static bool export_debt(struct weir_table *table, uint64_t who, const struct deed *deed)
{
    struct spot spot = weir_slots_find(table, who);
    int64_t now = clamp_now(deed->now), full_at = spot.slot ? (int64_t)slot_value(slot_word(spot.slot)) : 0;
    struct carried *out = deed->carried;
    out->limits = 1;
    out->spent[0] = deed->limits[0].reset_after_ns = max64(full_at - now, 0);
    out->idle = full_at <= now;
    return spot.slot && slot_who(spot.slot) == who;
}

/* It comes on top of what the key owes here. */
static bool import_debt(struct weir_table *table, const struct key *key, const struct deed *deed)
{
    int64_t debt = clamp64(deed->carried->spent[0], 0, table->horizon_ns);
    int64_t now = clamp_now(max64(deed->now, region_floor(table->region)));
    const struct edition *edition = table_edition(table);
    while (edition) {
        struct spot spot = weir_slots_settle(table, &edition, key, now);
        if (!spot.slot)
            return false;
        uint64_t owner = slot_who(spot.slot), word = slot_word(spot.slot);
        int64_t after = sat_add(max64((int64_t)slot_value(word), now), debt);
        uint64_t next = slot_pack(SLOT_PLAIN, 0, (uint64_t)min64(after, (int64_t)SLOT_VALUE_MAX - 1));
        if (owner != key->who || slot_kind(word) == SLOT_TENTATIVE ||
            !slot_exchange(spot.slot, owner, word, owner, next))
            continue;
        table_touch(table, spot.slot, owner);
        return true;
    }
    return false;
}

/* The verbs that bring no limit along make no sense here, but for a reset, and keys that travel. */
static bool run(struct weir_table *table, const struct key *key, struct deed *deed)
{
    if (deed->verb == VERB_RESET) {
        reset(table, key->who, deed->now);
        return true;
    }
    if (deed->verb == VERB_EXPORT)
        return export_debt(table, key->who, deed);
    if (deed->verb == VERB_IMPORT)
        return import_debt(table, key, deed);
    if (deed->reservation && deed->verb == VERB_RESERVE)
        *deed->reservation = (struct weir_reservation){0};
    return reject(deed->verdict);
}

const struct table_kind weir_table_own = {
    .run = run,
    .has = weir_slots_any,
    .prefetch = weir_words_prefetch,
    .sweep = weir_words_sweep,
    .each = weir_words_each,
    .count = weir_words_count,
};
