/* SPDX-License-Identifier: MIT */
/*
 * The table of one-word states. An operation is done to a copy of the state, in the form of the core, and one
 * exchange of key and word makes it valid, or it is done again. What a take nearly always is, one of a token
 * bucket that is there, is computed in place: words_take in words.h.
 */
#include "table/words.h"

#include "core/index.h"
#include "table/change.h"
#include "table/overflow_filter.h"
#include "table/override.h"
#include "table/slots.h"

#define YEAR_NS   (INT64_C(31557600) * WEIR_SEC)
#define RANGE_MIN (18 * YEAR_NS)

/* ---- the word ---- */

bool weir_words_suit(struct weir_policy *policy)
{
    struct limit *limit = &policy->limits[0];
    if (policy->count != 1 || limit->algorithm->words != weir_index_words)
        return false;
    int64_t last_tick = (int64_t)SLOT_VALUE_MAX - 1 - limit->full;
    int64_t last = ticks_time(&limit->ticks, last_tick);
    if (last_tick < 0 || last < RANGE_MIN)
        return false;
    limit->ticks.time_max = min64(limit->ticks.time_max, last - 1);
    return true;
}

static const struct limit *edition_limit(const struct edition *edition)
{
    return &edition->policy->limits[0];
}

uint64_t weir_slot_word_fresh(const struct weir_table *table, const struct edition *edition, int64_t now)
{
    if (table->kind == &weir_table_own)
        return (uint64_t)clamp64(now, 0, OWN_TIME_MAX);
    return (uint64_t)ticks_at(&edition_limit(edition)->ticks, now);
}

void weir_slot_word_unpack(const struct limit *limit, uint64_t word, int64_t *state)
{
    uint64_t value = slot_value(word);
    int64_t index = value == SLOT_VALUE_MAX ? INDEX_NEVER : (int64_t)value - limit->full;
    state[STATE_PROMISED] = 0;
    if (slot_kind(word) == SLOT_PROMISED) /* a state has no promise beyond all time */
        state[STATE_PROMISED] = min64(ticks_time(&limit->ticks, index), WEIR_TIME_MAX);
    state[STATE_GENERATION] = 0;
    state[STATE_HEADER] = index;
}

uint64_t weir_slot_word_pack(const struct limit *limit, const struct edition *edition, const int64_t *state)
{
    int64_t value = sat_add(state[STATE_HEADER], limit->full);
    enum slot_kind kind = state[STATE_PROMISED] != 0 ? SLOT_PROMISED : SLOT_PLAIN;
    uint64_t word = slot_pack(kind, (unsigned)edition->generation & 3,
                              (uint64_t)clamp64(value, 0, (int64_t)SLOT_VALUE_MAX));
    ASSERT((slot_kind(word) == SLOT_PROMISED) == (state[STATE_PROMISED] != 0));
    return word;
}

/* Words are of the generation that is in force or of the one before it: no change begins before all have been
 * converted to the last one. */
static bool is_of_before(const struct edition *edition, uint64_t word)
{
    return ((edition->generation - slot_generation(word)) & 3) == 1;
}

uint64_t weir_slot_word_convert(const struct weir_table *table, const struct edition *edition, uint64_t word)
{
    int64_t from[SLOT_STATE], to[SLOT_STATE];
    if (table->kind == &weir_table_own || slot_generation(word) == (edition->generation & 3))
        return word;
    if (!edition->older || !is_of_before(edition, word)) /* nobody wrote that: nothing passes */
        return slot_pack(slot_kind(word), (unsigned)edition->generation & 3, SLOT_VALUE_MAX);
    weir_slot_word_unpack(edition_limit(edition->older), word, from);
    weir_state_change(edition->older->policy, from, edition->policy, to, edition->time);
    return slot_with_kind(weir_slot_word_pack(edition_limit(edition), edition, to), slot_kind(word));
}

uint64_t weir_slot_word_convert_shared(const struct weir_table *table, const struct edition *edition,
                                       uint64_t word)
{
    if (table->kind == &weir_table_own || slot_generation(word) == (edition->generation & 3) ||
        !edition->older || !is_of_before(edition, word) ||
        slot_value(word) > weir_slot_word_fresh(table, edition->older, edition->time))
        return weir_slot_word_convert(table, edition, word);
    enum slot_kind kind = slot_kind(word) == SLOT_HELD ? SLOT_HELD : SLOT_PLAIN;
    return slot_pack(kind, (unsigned)edition->generation & 3,
                     weir_slot_word_fresh(table, edition, edition->time));
}

/* ---- operations ---- */

/* Of a promise nothing is known but the word it left behind: if it is still the same, nothing came after it
 * and the promise is undone. Else others have been told to wait for it, and it keeps its place. */
static bool words_cancel(const struct edition *edition, int64_t *state, const struct table_op *op)
{
    struct weir_reservation *r = op->reservation;
    if (!r || r->n < 1 || r->wait_ns <= 0 || r->due_ns <= op->now || state[STATE_PROMISED] <= op->now ||
        r->generation != (int64_t)edition->generation)
        return false;
    if (state[STATE_HEADER] != (int64_t)r->ticket || state[STATE_HEADER] == INDEX_NEVER)
        return true;
    ASSERT(state[STATE_HEADER] == (int64_t)r->ticket);
    state[STATE_HEADER] -= r->n * edition_limit(edition)->ticks.unit;
    if (r->before_ns <= op->now)
        state[STATE_PROMISED] = 0;
    return true;
}

static bool words_act(const struct edition *edition, int64_t *state, struct table_op *op)
{
    if (op->verb == VERB_CANCEL)
        return words_cancel(edition, state, op);
    bool answer = weir_table_op_run(edition->policy, state, op);
    if (op->verb == VERB_RESERVE && answer && op->reservation)
        op->reservation->generation = (int64_t)edition->generation;
    return answer;
}

enum word_outcome { DONE_NO, DONE_YES, GONE, IS_HELD };

struct word_trace { /* of an operation: the word before and after it, under the same limits */
    uint64_t before, after;
};

/* Does the operation to the entry, if it is still that key's. What changes nothing, as a refusal, writes
 * nothing; the hash is looked at on both sides of the word, so that the word is that key's. `trace` may be
 * NULL. */
static enum word_outcome words_act_in_place(struct weir_table *table, const struct edition *edition,
                                            struct slot_ref place, const struct key *key, struct table_op *op,
                                            struct word_trace *trace)
{
    int64_t state[SLOT_STATE];
    uint64_t hash = key->hash;
    for (;;) {
        uint64_t owner = slot_hash(place.slot), word = slot_word(place.slot);
        if (owner != hash || slot_kind(word) == SLOT_TENTATIVE || !slots_has_key(table, place, key))
            return GONE;
        if (slot_kind(word) == SLOT_HELD)
            return IS_HELD;
        if (!table_is_latest(table, edition))
            return GONE;
        uint64_t converted = hash == OVERFLOW_HASH ? weir_slot_word_convert_shared(table, edition, word)
                                                   : weir_slot_word_convert(table, edition, word);
        weir_slot_word_unpack(edition_limit(edition), converted, state);
        bool answer = words_act(edition, state, op);
        uint64_t next = weir_slot_word_pack(edition_limit(edition), edition, state);
        if (trace)
            *trace = (struct word_trace){converted, next};
        if (next == converted || table_op_reads(op)) {
            if (slot_hash(place.slot) == hash && slot_word(place.slot) == word)
                return answer ? DONE_YES : DONE_NO;
            continue;
        }
        INVARIANT(18, slot_kind(word) != SLOT_HELD && slot_kind(word) != SLOT_TENTATIVE);
        if (!slot_exchange(place.slot, hash, word, hash, next))
            continue;
#if WEIR_ASSERTIONS
        bool is_numbered = place.segment && place.segment->numbers &&
                           (op->verb == VERB_GIVE || op->verb == VERB_CANCEL || op->verb == VERB_RESET);
        uint64_t drawn = is_numbered ? atom_load(&table->region->header->number, memory_order_relaxed) : 0;
#endif
        if (place.segment && table_op_lowers(op))
            region_lower(table->region, place.segment, place.line);
#if WEIR_ASSERTIONS
        INVARIANT(38, INTACT(!is_numbered ||
                             atom_load(&place.segment->numbers[place.line], memory_order_relaxed) > drawn));
#endif
        table_touch(table, place.slot, hash);
        return answer ? DONE_YES : DONE_NO;
    }
}

/* Under the lock of its stripe, a word that is held by nobody any more: who held it has died, or the key had
 * limits of its own. */
static void words_let_go_slot(struct weir_table *table, struct slot *slot, uint64_t hash, bool promised)
{
    uint64_t word = slot_word(slot);
    enum slot_kind kind = promised ? SLOT_PROMISED : SLOT_PLAIN;
    if (slot_kind(word) == SLOT_HELD && !weir_override_has(table, hash))
        (void)slot_exchange(slot, hash, word, hash, slot_with_kind(word, kind));
}

static void words_let_go_key(struct weir_table *table, uint64_t hash, bool promised)
{
    struct slot_ref place = weir_slots_find(table, hash);
    if (place.slot)
        words_let_go_slot(table, place.slot, hash, promised);
}

/* A key that is held: it has limits of its own, or it was, and has been let go by now. false: ask again. */
static bool words_act_on_held(struct weir_table *table, const struct key *key, struct table_op *op,
                              bool *answer)
{
    struct stripe *stripe = weir_stripe_lock(table->region, table_stripe(table, key->hash));
    bool done = weir_override_run(table, key, stripe, op, answer);
    if (!done)
        words_let_go_key(table, key->hash, true); /* if it promised something is not known */
    weir_stripe_unlock(stripe);
    return done;
}

/* ---- keys that find no room ---- */

static const struct key overflow_key = {.hash = OVERFLOW_HASH};

/* Several keys at once hold the shared state under the lock of stripe 0. Waits until it is let go, by them or
 * in the name of somebody who died. */
static struct stripe *words_lock_overflow(struct weir_table *table)
{
    struct slot *shared = &table->policies->overflow;
    struct stripe *stripe = weir_stripe_lock(table->region, 0);
    uint64_t word = slot_word(shared);
    if (slot_kind(word) == SLOT_HELD)
        (void)slot_exchange(shared, OVERFLOW_HASH, word, OVERFLOW_HASH, slot_with_kind(word, SLOT_PROMISED));
    return stripe;
}

static void words_wait_for_overflow(struct weir_table *table)
{
    weir_stripe_unlock(words_lock_overflow(table));
}

void weir_words_let_go(struct weir_table *table, struct slot *slot, uint64_t hash)
{
    words_let_go_slot(table, slot, hash, true);
}

static enum word_outcome words_act_on_overflow(struct weir_table *table, const struct edition *edition,
                                               struct slot *slot, struct table_op *op,
                                               struct word_trace *trace)
{
    struct slot_ref shared = {NULL, 0, slot};
    for (;;) {
        enum word_outcome outcome = words_act_in_place(table, edition, shared, &overflow_key, op, trace);
        if (outcome != IS_HELD)
            return outcome;
        words_wait_for_overflow(table);
    }
}

/* A refusal that changes nothing needs no lock; whoever may take is noted before. */
static enum word_outcome words_take_overflow(struct weir_table *table, const struct edition *edition,
                                             const struct key *key, struct table_op *op,
                                             struct word_trace *trace)
{
    struct slot *shared = &table->policies->overflow;
    struct table_op look = *op;
    INVARIANT(16, !table_op_charges(op) && !table_op_lowers(op) && !table->refuse_when_full);
    look.verb = VERB_PEEK;
    if (op->verb == VERB_TAKE && !weir_table_op_may_change(edition->policy, op, false)) {
        enum word_outcome outcome = words_act_on_overflow(table, edition, shared, &look, trace);
        if (outcome != DONE_YES)
            return outcome;
    }
    struct stripe *stripe = words_lock_overflow(table);
    weir_slots_clear_overflow_filter(table, edition, op->now);
    weir_overflow_filter_add(table, key->hash);
    enum word_outcome outcome =
        words_act_in_place(table, edition, (struct slot_ref){NULL, 0, shared}, &overflow_key, op, trace);
    INVARIANT(16, outcome != DONE_YES || weir_overflow_filter_has(table, key->hash));
    weir_stripe_unlock(stripe);
    return outcome;
}

/* What comes from elsewhere: whoever took it there is not known. Under one lock, or others, who find what is
 * shared idle still, would forget again that everybody may have. */
static enum word_outcome words_import_overflow(struct weir_table *table, const struct edition *edition,
                                               struct table_op *op)
{
    struct slot_ref shared = {NULL, 0, &table->policies->overflow};
    struct stripe *stripe = words_lock_overflow(table);
    enum word_outcome outcome = weir_overflow_filter_fill(table)
                                    ? words_act_in_place(table, edition, shared, &overflow_key, op, NULL)
                                    : DONE_NO;
    weir_stripe_unlock(stripe);
    return outcome;
}

bool weir_words_shared(struct weir_table *table, struct table_op *op)
{
    struct slot *shared = &table->policies->overflow;
    const struct edition *edition;
    while ((edition = table_edition(table)) != NULL && slot_hash(shared) == OVERFLOW_HASH &&
           slot_kind(slot_word(shared)) != SLOT_TENTATIVE) {
        enum word_outcome outcome = table_op_reads(op)
                                        ? words_act_on_overflow(table, edition, shared, op, NULL)
                                        : words_import_overflow(table, edition, op);
        if (outcome != GONE)
            return outcome == DONE_YES;
    }
    return false;
}

void weir_words_convert_shared(struct weir_table *table, const struct edition *edition)
{
    struct slot *shared = &table->policies->overflow;
    while (slot_hash(shared) == OVERFLOW_HASH) { /* a damaged one serves nobody */
        uint64_t word = slot_word(shared), converted = weir_slot_word_convert_shared(table, edition, word);
        if (slot_kind(word) == SLOT_HELD)
            words_wait_for_overflow(table);
        else if (converted == word || slot_exchange(shared, OVERFLOW_HASH, word, OVERFLOW_HASH, converted))
            return;
    }
}

/* false: the key is in the table by now. What is charged is not shared: a single debt would be everybody's;
 * nor is what is given back. */
static bool words_act_without_room(struct weir_table *table, const struct edition *edition,
                                   const struct key *key, struct table_op *op, bool *answer)
{
    struct region_header *header = table->region->header;
    if (table_op_lowers(op)) {
        *answer = true;
        return true;
    }
    if (table->refuse_when_full || table_op_charges(op)) {
        (void)atom_add(&header->refused, 1, memory_order_relaxed);
        *answer = weir_table_op_full(op);
        return true;
    }
    struct slot *shared = &table->policies->overflow;
    struct word_trace trace;
    if (!weir_overflow_filter_make(table)) {
        *answer = weir_table_op_full(op);
        return true;
    }
    enum word_outcome outcome = words_take_overflow(table, edition, key, op, &trace);
    if (outcome == GONE &&
        (slot_hash(shared) != OVERFLOW_HASH || slot_kind(slot_word(shared)) == SLOT_TENTATIVE)) {
        *answer = weir_table_op_full(op); /* it is damaged, and serves nobody */
        return true;
    }
    if (outcome == GONE) /* the limits have changed meanwhile */
        return false;
    *answer = outcome == DONE_YES;
    if (*answer && !table_op_reads(op) && weir_slots_came(table, key, op->now)) {
        /* As if it had not been, if nobody was there since. Else it stays taken: to give it back now, when
         * time may have made up for it, would make units. */
        if (slot_exchange(shared, OVERFLOW_HASH, trace.after, OVERFLOW_HASH, trace.before))
            words_lower_shared(table);
        return false;
    }
    (void)atom_add(&header->shared, 1, memory_order_relaxed);
    weir_table_op_shared(op, *answer);
    return true;
}

/* As a take would be answered that finds no room: it is refused, or shares. */
static bool words_peek_without_room(struct weir_table *table, const struct edition *edition,
                                    struct table_op *op)
{
    if (table->refuse_when_full)
        return weir_table_op_full(op);
    bool answer = words_act_on_overflow(table, edition, &table->policies->overflow, op, NULL) == DONE_YES;
    weir_table_op_shared(op, answer);
    return answer;
}

/* A key that is not there: what can be said without it is said; else it comes in. Its time does not begin
 * before the floor. */
static bool words_act_on_absent(struct weir_table *table, const struct edition *edition,
                                const struct key *key, struct table_op *op, struct slot_ref *place,
                                unsigned *tries, bool *answer)
{
    int64_t state[SLOT_STATE];
    bool insert;
    op->now = max64(op->now, region_floor(table->region));
    uint64_t shared = 0;
    if (weir_overflow_filter_has(table, key->hash))
        shared =
            slot_value(weir_slot_word_convert_shared(table, edition, slot_word(&table->policies->overflow)));
    uint64_t fresh = weir_slot_word_fresh(table, edition, op->now);
    weir_slot_word_unpack(edition_limit(edition), slot_pack(SLOT_PLAIN, 0, shared > fresh ? shared : fresh),
                          state);
    INVARIANT(16, state[STATE_HEADER] == INDEX_NEVER ||
                      (uint64_t)(state[STATE_HEADER] + edition_limit(edition)->full) >= shared);
    if (!table_is_latest(table, edition)) /* then who knows what is shared */
        return false;
    *answer = weir_table_op_absent(edition->policy, state, shared > fresh, op, &insert);
    if (!insert) {
        if (op->verb == VERB_PEEK && *answer && !table_may_wait(table, 0) &&
            !weir_slots_has_room(table, edition, key, op->now))
            *answer = words_peek_without_room(table, edition, op);
        else if (shared > fresh)
            weir_table_op_shared(op, *answer);
        if (!*answer && shared > fresh && table_op_takes(op))
            (void)atom_add(&table->region->header->shared, 1, memory_order_relaxed);
        return true;
    }
    *place = weir_slots_settle(table, &edition, key, op->now);
    if (!edition) {
        *answer = weir_table_op_full(op);
        return true;
    }
    return !place->slot && !table_wait(table, tries) &&
           words_act_without_room(table, edition, key, op, answer);
}

static bool words_run_op(struct weir_table *table, const struct key *key, struct table_op *op)
{
    unsigned tries = 0;
    for (;;) {
        const struct edition *edition = table_edition(table);
        struct slot_ref place = {NULL, 0, NULL};
        bool answer = false;
        if (!edition)
            return weir_table_op_full(op);
        place = weir_slots_find_key(table, key);
        if (!place.slot && words_act_on_absent(table, edition, key, op, &place, &tries, &answer))
            return answer;
        if (!place.slot)
            continue;
        switch (words_act_in_place(table, edition, place, key, op, NULL)) {
        case DONE_NO:
            return false;
        case DONE_YES:
            if (op->verb == VERB_CANCEL)
                op->reservation->n = 0;
            return true;
        case IS_HELD:
            if (!words_act_on_held(table, key, op, &answer))
                break;
            if (op->changed)
                table_touch(table, place.slot, key->hash);
            return answer;
        case GONE:
            break;
        }
    }
}

/* ---- the take that nearly every take is ---- */

static int64_t time_until(const struct limit *limit, int64_t now, uint64_t tick)
{
    int64_t time = ticks_time(&limit->ticks, (int64_t)tick);
    return time == WEIR_FOREVER ? WEIR_FOREVER : max64(time - now, 0);
}

void weir_words_judge(const struct limit *limit, int64_t now, uint64_t tick, uint64_t value, uint64_t after,
                      bool allowed, struct weir_verdict *verdict)
{
    uint64_t full = (uint64_t)limit->full, stands = allowed ? after : value;
    uint64_t level = tick + full > stands ? tick + full - stands : 0;
    *verdict = (struct weir_verdict){
        .allowed = allowed,
        .reason = allowed ? WEIR_OK : WEIR_LATER,
        .remaining = (int64_t)(level / (uint64_t)limit->ticks.unit),
        .retry_after_ns = allowed ? 0 : time_until(limit, now, after - full),
        .reset_after_ns = time_until(limit, now, stands),
    };
    if (verdict->retry_after_ns == WEIR_FOREVER)
        verdict->reason = WEIR_NEVER;
}

#if WEIR_ASSERTIONS
bool weir_words_agree(const struct edition *edition, uint64_t word, int64_t now, int64_t n, uint64_t after,
                      const struct weir_verdict *verdict)
{
    int64_t state[SLOT_STATE];
    struct weir_verdict core;
    weir_slot_word_unpack(edition_limit(edition), word, state);
    if (weir_state_take(edition->policy, state, now, n, &core) != (after != 0))
        return false;
    if (after != 0 && slot_value(weir_slot_word_pack(edition_limit(edition), edition, state)) != after)
        return false;
    return !verdict ||
           (verdict->allowed == core.allowed && verdict->reason == core.reason &&
            verdict->remaining == core.remaining && verdict->retry_after_ns == core.retry_after_ns &&
            verdict->reset_after_ns == core.reset_after_ns);
}
#endif

enum slot_answer weir_words_take(struct weir_table *table, const struct key *key, int64_t now, int64_t n,
                                 struct weir_verdict *verdict)
{
    return table->is_exact ? words_take(table, key, true, now, n, verdict)
                           : words_take(table, key, false, now, n, verdict);
}

void weir_words_prefetch(struct weir_table *table, uint64_t hash)
{
    slots_prefetch(region_front(table->region), hash);
}

/* ---- all slots in turn ---- */

struct segment *weir_words_segment(struct weir_table *table, uint64_t *line)
{
    uint64_t count = region_segments(table->region);
    for (uint64_t s = 0; s < count; s++) {
        struct segment *segment = &table->region->segments[s];
        if (*line < segment->lines)
            return segment;
        *line -= segment->lines;
    }
    return NULL;
}

uint64_t weir_words_line(const struct weir_table *table, uint64_t line)
{
    uint64_t retired = weir_table_retired(table);
    return line > retired ? line : retired;
}

/* The first slot of that line, counted over all segments. false: there are no more. */
static bool find_words_line(struct weir_table *table, uint64_t line, struct slot_ref *place)
{
    place->segment = weir_words_segment(table, &line);
    if (!place->segment)
        return false;
    place->line = line;
    place->slot = region_slot(place->segment, line * LINE_SLOTS);
    return true;
}

/* Brings the slot's word to the latest generation; gives what the slot has then. In a table that changes a
 * tentative entry goes: its inserter may be about to make it plain under the limits of before, after the
 * sweep has passed by. */
static uint64_t convert_in_place(struct weir_table *table, const struct edition **edition,
                                 struct slot_ref place, uint64_t *hash)
{
    for (;;) {
        *hash = slot_hash(place.slot);
        uint64_t word = slot_word(place.slot);
        if (*hash == 0 || slot_kind(word) == SLOT_HELD)
            return word;
        if (slot_kind(word) == SLOT_TENTATIVE) {
            if (!weir_slots_empty(table, place.slot, *hash, word))
                continue;
            *hash = 0; /* who comes in here from now on sees the latest generation */
            return 0;
        }
        if (!table_is_latest(table, *edition)) {
            const struct edition *latest = table_edition(table);
            if (!latest)
                return word;
            *edition = latest;
            continue;
        }
        uint64_t converted = weir_slot_word_convert(table, *edition, word);
        if (converted == word)
            return word;
        if (slot_exchange(place.slot, *hash, word, *hash, converted))
            return converted;
    }
}

/* The same for a word that is held: whoever holds it has let go of it, or has died, when its lock is to be
 * had; and nobody else can hold it before it is converted. */
static uint64_t convert_held(struct weir_table *table, const struct edition **edition, struct slot_ref place,
                             uint64_t *hash)
{
    struct stripe *stripe = weir_stripe_lock(table->region, table_stripe(table, *hash));
    words_let_go_slot(table, place.slot, *hash, true);
    uint64_t word = convert_in_place(table, edition, place, hash);
    weir_stripe_unlock(stripe);
    return word;
}

size_t weir_words_sweep(struct weir_table *table, int64_t now, uint64_t line, uint64_t lines, bool clear)
{
    const struct edition *edition = table_edition(table);
    size_t cleared = 0;
    struct slot_ref place;
    for (uint64_t i = weir_words_line(table, line) - line;
         edition && i < lines && find_words_line(table, line + i, &place); i++) {
        uint64_t hash;
        for (int s = 0; s < LINE_SLOTS; s++, place.slot++) {
            uint64_t word = convert_in_place(table, &edition, place, &hash);
            while (hash != 0 && slot_kind(word) == SLOT_HELD && !weir_override_has(table, hash))
                word = convert_held(table, &edition, place, &hash);
            INVARIANT(17, INTACT(clear || hash == 0 ||
                                 (slot_kind(word) == SLOT_HELD
                                      ? weir_override_has(table, hash)
                                      : slot_generation(word) == edition->generation % 4)));
            if (clear && weir_slot_is_idle(table, edition, hash, word, now))
                cleared += weir_slots_drop(table, place.slot, hash, word, now);
        }
    }
    return cleared;
}

uint64_t weir_words_count(struct weir_table *table, int64_t now, uint64_t line, uint64_t lines)
{
    const struct edition *edition = table_edition(table);
    uint64_t keys = 0;
    struct slot_ref place;
    for (uint64_t i = weir_words_line(table, line) - line;
         edition && i < lines && find_words_line(table, line + i, &place); i++) {
        for (int s = 0; s < LINE_SLOTS; s++, place.slot++) {
            uint64_t hash = slot_hash(place.slot), word = slot_word(place.slot);
            keys += hash != 0 && slot_kind(word) != SLOT_TENTATIVE &&
                    !weir_slot_is_idle(table, edition, hash, word, now);
        }
        edition = table_edition(table);
    }
    return keys;
}

/* The key in that slot; its bytes become those of an exact table. false: they are not of one key. */
static bool words_key_of(const struct weir_table *table, const struct slot_ref *place, unsigned char *bytes,
                         struct key *key)
{
    struct exact_name name = slots_name(place->segment, place->slot, key->hash);
    return weir_exact_key_of(table, &name, bytes, key);
}

bool weir_words_name(struct weir_table *table, struct key *key, unsigned char *bytes)
{
    struct slot_ref place = weir_slots_find(table, key->hash);
    return place.slot && words_key_of(table, &place, bytes, key);
}

/* One slot of a listing. A key with limits of its own is asked under its lock. */
static bool words_list_slot(struct weir_table *table, const struct edition *edition, struct slot_ref place,
                            int64_t now, weir_each_key *each, void *arg)
{
    struct weir_key shown = {.id = slot_hash(place.slot)};
    uint64_t word = slot_word(place.slot);
    unsigned char bytes[EXACT_BYTES];
    struct key key = {.hash = shown.id};
    struct table_op op = {.verb = VERB_PEEK, .now = now, .n = 1, .verdict = &shown.verdict};
    if (shown.id == 0 || slot_kind(word) == SLOT_TENTATIVE ||
        weir_slot_is_idle(table, edition, shown.id, word, now))
        return true;
    if (table->kind == &weir_table_own) { /* no limit, no verdict */
        shown.verdict.reset_after_ns = max64((int64_t)slot_value(word) - now, 0);
        return each(arg, &shown);
    }
    if (table->is_exact && !words_key_of(table, &place, bytes, &key)) /* another one comes in just now */
        return true;
    shown.key = key.bytes;
    shown.len = key.len;
    bool answer;
    enum word_outcome outcome = words_act_in_place(table, edition, place, &key, &op, NULL);
    while (outcome == GONE && !table_is_latest(table, edition) && (edition = table_edition(table)))
        outcome = words_act_in_place(table, edition, place, &key, &op, NULL);
    if (outcome == IS_HELD)
        shown.overridden = words_act_on_held(table, &key, &op, &answer);
    if (outcome == GONE || (outcome == IS_HELD && !shown.overridden))
        return true;
    return each(arg, &shown);
}

bool weir_words_each(struct weir_table *table, int64_t now, weir_each_key *each, void *arg)
{
    const struct edition *edition = table_edition(table);
    struct slot_ref place;
    for (uint64_t line = weir_words_line(table, 0); edition; line++) {
        if (!find_words_line(table, line, &place))
            return true;
        for (int s = 0; s < LINE_SLOTS; s++, place.slot++)
            if (!words_list_slot(table, edition, place, now, each, arg))
                return false;
        edition = table_edition(table);
    }
    return false;
}

/* ---- keys with limits of their own ---- */

/* The entry stays, held for good: so all who ask for it come to the lock. */
static bool words_detach(struct weir_table *table, const struct key *key, int64_t now,
                         struct journal *journal, int64_t *state)
{
    const struct edition *edition = table_edition(table);
    while (edition) {
        struct slot_ref place = weir_slots_settle(table, &edition, key, now);
        if (!place.slot || !edition)
            return false;
        uint64_t hash, word = convert_in_place(table, &edition, place, &hash);
        if (hash == key->hash && !slots_has_key(table, place, key))
            continue;
        if (hash == key->hash && slot_kind(word) == SLOT_HELD) /* of the dead, perhaps with a promise */
            (void)slot_exchange(place.slot, hash, word, hash, slot_with_kind(word, SLOT_PROMISED));
        else if (hash == key->hash && weir_journal_hold(table->region, journal, place.slot, hash, word)) {
            weir_slot_word_unpack(edition_limit(edition), word, state);
            return true;
        }
    }
    return false;
}

/* The word is stored while it is held, and is let go when nothing says any more that the key has limits of
 * its own: see words_let_go_key. What the state has promised, or owes to limits that were of another
 * algorithm, it has in a time of its own; a word is then behind until that time. */
static bool words_attach(struct weir_table *table, const struct key *key, struct journal *journal,
                         const int64_t *state)
{
    (void)journal;
    const struct edition *edition = table_edition(table);
    struct slot_ref place = weir_slots_find(table, key->hash);
    if (!edition || !place.slot)
        return false;
    const struct limit *limit = edition_limit(edition);
    int64_t behind[SLOT_STATE] = {[STATE_HEADER] = state[STATE_HEADER]};
    if (state[STATE_PROMISED] != 0)
        behind[STATE_HEADER] = max64(behind[STATE_HEADER], ticks_at(&limit->ticks, state[STATE_PROMISED]));
    uint64_t word = slot_with_kind(weir_slot_word_pack(limit, edition, behind), SLOT_HELD);
    ASSERT(state[STATE_PROMISED] == 0 ||
           behind[STATE_HEADER] >= ticks_at(&limit->ticks, state[STATE_PROMISED]));
    region_lower(table->region, place.segment, place.line); /* before it can be seen, as one that comes in */
    atom_store(&place.slot->both.high, word, memory_order_seq_cst);
    return true;
}

static void *words_locate(struct weir_table *table, const struct key *key)
{
    return weir_slots_find(table, key->hash).slot;
}

const struct table_kind weir_table_words = {
    .run = words_run_op,
    .has = weir_slots_any,
    .prefetch = weir_words_prefetch,
    .sweep = weir_words_sweep,
    .each = weir_words_each,
    .count = weir_words_count,
    .detach = words_detach,
    .attach = words_attach,
    .let_go = words_let_go_key,
    .locate = words_locate,
};
