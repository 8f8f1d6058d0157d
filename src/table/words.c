/* SPDX-License-Identifier: MIT */
/*
 * The table of one-word states. A deed is done to a copy of the state, in the form of the core, and one
 * exchange of key and word makes it valid, or it is done again. What a take nearly always is, one of a token
 * bucket that is there, is computed in place: words_take in words.h.
 */
#include "table/words.h"

#include "core/index.h"
#include "table/make.h"
#include "table/override.h"
#include "table/slots.h"
#include "table/takers.h"

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

static const struct limit *limit_of(const struct edition *edition)
{
    return &edition->policy->limits[0];
}

uint64_t weir_word_fresh(const struct weir_table *table, const struct edition *edition, int64_t now)
{
    if (table->kind == &weir_table_own)
        return (uint64_t)clamp64(now, 0, OWN_TIME_MAX);
    return (uint64_t)ticks_at(&limit_of(edition)->ticks, now);
}

void weir_word_unpack(const struct limit *limit, uint64_t word, int64_t *state)
{
    uint64_t value = slot_value(word);
    int64_t index = value == SLOT_VALUE_MAX ? INDEX_NEVER : (int64_t)value - limit->full;
    state[STATE_PROMISED] = 0;
    if (slot_kind(word) == SLOT_PROMISED) /* a state has no promise beyond all time */
        state[STATE_PROMISED] = min64(ticks_time(&limit->ticks, index), WEIR_TIME_MAX);
    state[STATE_GENERATION] = 0;
    state[STATE_HEADER] = index;
}

uint64_t weir_word_pack(const struct limit *limit, const struct edition *edition, const int64_t *state)
{
    int64_t value = sat_add(state[STATE_HEADER], limit->full);
    enum slot_kind kind = state[STATE_PROMISED] != 0 ? SLOT_PROMISED : SLOT_PLAIN;
    return slot_pack(kind, (unsigned)edition->generation & 3,
                     (uint64_t)clamp64(value, 0, (int64_t)SLOT_VALUE_MAX));
}

/* Words are of the generation that is in force or of the one before it: no change begins before all have been
 * converted to the last one. */
static bool is_of_before(const struct edition *edition, uint64_t word)
{
    return ((edition->generation - slot_generation(word)) & 3) == 1;
}

uint64_t weir_word_convert(const struct weir_table *table, const struct edition *edition, uint64_t word)
{
    int64_t from[SLOT_STATE], to[SLOT_STATE];
    if (table->kind == &weir_table_own || slot_generation(word) == (edition->generation & 3))
        return word;
    if (!edition->older || !is_of_before(edition, word)) /* nobody wrote that: nothing passes */
        return slot_pack(slot_kind(word), (unsigned)edition->generation & 3, SLOT_VALUE_MAX);
    weir_word_unpack(limit_of(edition->older), word, from);
    weir_state_change(edition->older->policy, from, edition->policy, to, edition->time);
    return slot_with_kind(weir_word_pack(limit_of(edition), edition, to), slot_kind(word));
}

uint64_t weir_word_convert_shared(const struct weir_table *table, const struct edition *edition,
                                  uint64_t word)
{
    if (table->kind == &weir_table_own || slot_generation(word) == (edition->generation & 3) ||
        !edition->older || !is_of_before(edition, word) ||
        slot_value(word) > weir_word_fresh(table, edition->older, edition->time))
        return weir_word_convert(table, edition, word);
    enum slot_kind kind = slot_kind(word) == SLOT_HELD ? SLOT_HELD : SLOT_PLAIN;
    return slot_pack(kind, (unsigned)edition->generation & 3, weir_word_fresh(table, edition, edition->time));
}

/* ---- deeds ---- */

/* Of a promise nothing is known but the word it left behind: if it is still the same, nothing came after it
 * and the promise is undone. Else others have been told to wait for it, and it keeps its place. */
static bool cancel(const struct edition *edition, int64_t *state, const struct deed *deed)
{
    struct weir_reservation *r = deed->reservation;
    if (!r || r->n < 1 || r->wait_ns <= 0 || r->due_ns <= deed->now || state[STATE_PROMISED] <= deed->now ||
        r->generation != (int64_t)edition->generation)
        return false;
    if (state[STATE_HEADER] != (int64_t)r->ticket || state[STATE_HEADER] == INDEX_NEVER)
        return true;
    state[STATE_HEADER] -= r->n * limit_of(edition)->ticks.unit;
    if (r->before_ns <= deed->now)
        state[STATE_PROMISED] = 0;
    return true;
}

static bool do_to(const struct edition *edition, int64_t *state, struct deed *deed)
{
    if (deed->verb == VERB_CANCEL)
        return cancel(edition, state, deed);
    bool answer = weir_deed_do(edition->policy, state, deed);
    if (deed->verb == VERB_RESERVE && answer && deed->reservation)
        deed->reservation->generation = (int64_t)edition->generation;
    return answer;
}

enum outcome { DONE_NO, DONE_YES, GONE, IS_HELD };

struct trace { /* of a deed: the word before and after it, under the same limits */
    uint64_t before, after;
};

/* Does the deed to the entry, if it is still that key's. What changes nothing, as a refusal, writes nothing;
 * who is looked at on both sides of the word, so that the word is that key's. `trace` may be NULL. */
static enum outcome do_in_place(struct weir_table *table, const struct edition *edition, struct spot place,
                                const struct key *key, struct deed *deed, struct trace *trace)
{
    int64_t state[SLOT_STATE];
    uint64_t who = key->who;
    for (;;) {
        uint64_t owner = slot_who(place.slot), word = slot_word(place.slot);
        if (owner != who || slot_kind(word) == SLOT_TENTATIVE || !slots_has_key(table, place, key))
            return GONE;
        if (slot_kind(word) == SLOT_HELD)
            return IS_HELD;
        if (!table_is_latest(table, edition))
            return GONE;
        uint64_t converted = who == OVERFLOW_WHO ? weir_word_convert_shared(table, edition, word)
                                                 : weir_word_convert(table, edition, word);
        weir_word_unpack(limit_of(edition), converted, state);
        bool answer = do_to(edition, state, deed);
        uint64_t next = weir_word_pack(limit_of(edition), edition, state);
        if (trace)
            *trace = (struct trace){converted, next};
        if (next == converted || deed_reads(deed)) {
            if (slot_who(place.slot) == who && slot_word(place.slot) == word)
                return answer ? DONE_YES : DONE_NO;
            continue;
        }
        if (!slot_exchange(place.slot, who, word, who, next))
            continue;
        if (place.segment && deed_lowers(deed))
            region_lower(table->region, place.segment, place.line);
        table_touch(table, place.slot, who);
        return answer ? DONE_YES : DONE_NO;
    }
}

/* Under the lock of its stripe, a word that is held by nobody any more: who held it has died, or the key had
 * limits of its own. */
static void let_go_of(struct weir_table *table, struct slot *slot, uint64_t who, bool promised)
{
    uint64_t word = slot_word(slot);
    enum slot_kind kind = promised ? SLOT_PROMISED : SLOT_PLAIN;
    if (slot_kind(word) == SLOT_HELD && !weir_override_has(table, who))
        (void)slot_exchange(slot, who, word, who, slot_with_kind(word, kind));
}

static void let_go(struct weir_table *table, uint64_t who, bool promised)
{
    struct spot place = weir_slots_find(table, who);
    if (place.slot)
        let_go_of(table, place.slot, who, promised);
}

/* A key that is held: it has limits of its own, or it was, and has been let go by now. false: ask again. */
static bool do_held(struct weir_table *table, const struct key *key, struct deed *deed, bool *answer)
{
    struct stripe *stripe = weir_stripe_lock(table->region, table_stripe(table, key->who));
    bool done = weir_override_run(table, key, stripe, deed, answer);
    if (!done)
        let_go(table, key->who, true); /* if it promised something is not known */
    weir_stripe_unlock(stripe);
    return done;
}

/* ---- keys that find no room ---- */

static const struct key overflow_key = {.who = OVERFLOW_WHO};

/* Several keys at once hold the shared state under the lock of stripe 0. Waits until it is let go, by them or
 * in the name of somebody who died. */
static struct stripe *lock_shared(struct weir_table *table)
{
    struct slot *shared = &table->policies->overflow;
    struct stripe *stripe = weir_stripe_lock(table->region, 0);
    uint64_t word = slot_word(shared);
    if (slot_kind(word) == SLOT_HELD)
        (void)slot_exchange(shared, OVERFLOW_WHO, word, OVERFLOW_WHO, slot_with_kind(word, SLOT_PROMISED));
    return stripe;
}

static void wait_for_shared(struct weir_table *table)
{
    weir_stripe_unlock(lock_shared(table));
}

void weir_words_let_go(struct weir_table *table, struct slot *slot, uint64_t who)
{
    let_go_of(table, slot, who, true);
}

static enum outcome do_to_shared(struct weir_table *table, const struct edition *edition, struct slot *slot,
                                 struct deed *deed, struct trace *trace)
{
    struct spot shared = {NULL, 0, slot};
    for (;;) {
        enum outcome outcome = do_in_place(table, edition, shared, &overflow_key, deed, trace);
        if (outcome != IS_HELD)
            return outcome;
        wait_for_shared(table);
    }
}

/* A refusal that changes nothing needs no lock; whoever may take is noted before. */
static enum outcome take_shared(struct weir_table *table, const struct edition *edition,
                                const struct key *key, struct deed *deed, struct trace *trace)
{
    struct slot *shared = &table->policies->overflow;
    struct deed look = *deed;
    look.verb = VERB_PEEK;
    if (deed->verb == VERB_TAKE && !weir_deed_may_change(edition->policy, deed, false)) {
        enum outcome outcome = do_to_shared(table, edition, shared, &look, trace);
        if (outcome != DONE_YES)
            return outcome;
    }
    struct stripe *stripe = lock_shared(table);
    weir_slots_forget_takers(table, edition, deed->now);
    weir_takers_add(table, key->who);
    enum outcome outcome =
        do_in_place(table, edition, (struct spot){NULL, 0, shared}, &overflow_key, deed, trace);
    weir_stripe_unlock(stripe);
    return outcome;
}

/* What comes from elsewhere: whoever took it there is not known. Under one lock, or others, who find what is
 * shared idle still, would forget again that everybody may have. */
static enum outcome import_shared(struct weir_table *table, const struct edition *edition, struct deed *deed)
{
    struct spot shared = {NULL, 0, &table->policies->overflow};
    struct stripe *stripe = lock_shared(table);
    enum outcome outcome =
        weir_takers_fill(table) ? do_in_place(table, edition, shared, &overflow_key, deed, NULL) : DONE_NO;
    weir_stripe_unlock(stripe);
    return outcome;
}

bool weir_words_shared(struct weir_table *table, struct deed *deed)
{
    struct slot *shared = &table->policies->overflow;
    const struct edition *edition;
    while ((edition = table_edition(table)) != NULL && slot_who(shared) == OVERFLOW_WHO &&
           slot_kind(slot_word(shared)) != SLOT_TENTATIVE) {
        enum outcome outcome = deed_reads(deed) ? do_to_shared(table, edition, shared, deed, NULL)
                                                : import_shared(table, edition, deed);
        if (outcome != GONE)
            return outcome == DONE_YES;
    }
    return false;
}

void weir_words_convert_shared(struct weir_table *table, const struct edition *edition)
{
    struct slot *shared = &table->policies->overflow;
    while (slot_who(shared) == OVERFLOW_WHO) { /* a damaged one serves nobody */
        uint64_t word = slot_word(shared), converted = weir_word_convert_shared(table, edition, word);
        if (slot_kind(word) == SLOT_HELD)
            wait_for_shared(table);
        else if (converted == word || slot_exchange(shared, OVERFLOW_WHO, word, OVERFLOW_WHO, converted))
            return;
    }
}

/* false: the key is in the table by now. What is charged is not shared: a single debt would be everybody's;
 * nor is what is given back. */
static bool do_shared(struct weir_table *table, const struct edition *edition, const struct key *key,
                      struct deed *deed, bool *answer)
{
    struct region_header *header = table->region->header;
    if (deed_lowers(deed)) {
        *answer = true;
        return true;
    }
    if (table->refuse_when_full || deed_charges(deed)) {
        (void)atom_add(&header->refused, 1, memory_order_relaxed);
        *answer = weir_deed_full(deed);
        return true;
    }
    struct slot *shared = &table->policies->overflow;
    struct trace trace;
    if (!weir_takers_make(table)) {
        *answer = weir_deed_full(deed);
        return true;
    }
    enum outcome outcome = take_shared(table, edition, key, deed, &trace);
    if (outcome == GONE &&
        (slot_who(shared) != OVERFLOW_WHO || slot_kind(slot_word(shared)) == SLOT_TENTATIVE)) {
        *answer = weir_deed_full(deed); /* it is damaged, and serves nobody */
        return true;
    }
    if (outcome == GONE) /* the limits have changed meanwhile */
        return false;
    *answer = outcome == DONE_YES;
    if (*answer && !deed_reads(deed) && weir_slots_came(table, key, deed->now)) {
        /* As if it had not been, if nobody was there since. Else it stays taken: to give it back now, when
         * time may have made up for it, would make units. */
        if (slot_exchange(shared, OVERFLOW_WHO, trace.after, OVERFLOW_WHO, trace.before))
            words_lower_shared(table);
        return false;
    }
    (void)atom_add(&header->shared, 1, memory_order_relaxed);
    weir_deed_shared(deed, *answer);
    return true;
}

/* As a take would be answered that finds no room: it is refused, or shares. */
static bool look_without_room(struct weir_table *table, const struct edition *edition, struct deed *deed)
{
    if (table->refuse_when_full)
        return weir_deed_full(deed);
    bool answer = do_to_shared(table, edition, &table->policies->overflow, deed, NULL) == DONE_YES;
    weir_deed_shared(deed, answer);
    return answer;
}

/* A key that is not there: what can be said without it is said; else it comes in. Its time does not begin
 * before the floor. */
static bool do_absent(struct weir_table *table, const struct edition *edition, const struct key *key,
                      struct deed *deed, struct spot *place, unsigned *tries, bool *answer)
{
    int64_t state[SLOT_STATE];
    bool insert;
    deed->now = max64(deed->now, region_floor(table->region));
    uint64_t shared = 0;
    if (weir_takers_have(table, key->who))
        shared = slot_value(weir_word_convert_shared(table, edition, slot_word(&table->policies->overflow)));
    uint64_t fresh = weir_word_fresh(table, edition, deed->now);
    weir_word_unpack(limit_of(edition), slot_pack(SLOT_PLAIN, 0, shared > fresh ? shared : fresh), state);
    if (!table_is_latest(table, edition)) /* then who knows what is shared */
        return false;
    *answer = weir_deed_absent(edition->policy, state, shared > fresh, deed, &insert);
    if (!insert) {
        if (deed->verb == VERB_PEEK && *answer && !table_may_wait(table, 0) &&
            !weir_slots_has_room(table, edition, key, deed->now))
            *answer = look_without_room(table, edition, deed);
        else if (shared > fresh)
            weir_deed_shared(deed, *answer);
        if (!*answer && shared > fresh && deed_takes(deed))
            (void)atom_add(&table->region->header->shared, 1, memory_order_relaxed);
        return true;
    }
    *place = weir_slots_settle(table, &edition, key, deed->now);
    if (!edition) {
        *answer = weir_deed_full(deed);
        return true;
    }
    return !place->slot && !table_wait(table, tries) && do_shared(table, edition, key, deed, answer);
}

static bool run(struct weir_table *table, const struct key *key, struct deed *deed)
{
    unsigned tries = 0;
    for (;;) {
        const struct edition *edition = table_edition(table);
        struct spot place = {NULL, 0, NULL};
        bool answer = false;
        if (!edition)
            return weir_deed_full(deed);
        place = weir_slots_find_key(table, key);
        if (!place.slot && do_absent(table, edition, key, deed, &place, &tries, &answer))
            return answer;
        if (!place.slot)
            continue;
        switch (do_in_place(table, edition, place, key, deed, NULL)) {
        case DONE_NO:
            return false;
        case DONE_YES:
            if (deed->verb == VERB_CANCEL)
                deed->reservation->n = 0;
            return true;
        case IS_HELD:
            if (!do_held(table, key, deed, &answer))
                break;
            if (deed->changed)
                table_touch(table, place.slot, key->who);
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

enum slot_answer weir_words_take(struct weir_table *table, const struct key *key, int64_t now, int64_t n,
                                 struct weir_verdict *verdict)
{
    return table->is_exact ? words_take(table, key, true, now, n, verdict)
                           : words_take(table, key, false, now, n, verdict);
}

void weir_words_prefetch(struct weir_table *table, uint64_t who)
{
    slots_prefetch(region_front(table->region), who);
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

/* Brings the slot's word to the latest generation; gives what the slot has then. In a table that changes a
 * tentative entry goes: its inserter may be about to make it plain under the limits of before, after the
 * sweep has passed by. */
static uint64_t convert_in_place(struct weir_table *table, const struct edition **edition, struct spot place,
                                 uint64_t *who)
{
    for (;;) {
        *who = slot_who(place.slot);
        uint64_t word = slot_word(place.slot);
        if (*who == 0 || slot_kind(word) == SLOT_HELD)
            return word;
        if (slot_kind(word) == SLOT_TENTATIVE) {
            if (!weir_slots_empty(table, place.slot, *who, word))
                continue;
            *who = 0; /* who comes in here from now on sees the latest generation */
            return 0;
        }
        if (!table_is_latest(table, *edition)) {
            const struct edition *latest = table_edition(table);
            if (!latest)
                return word;
            *edition = latest;
            continue;
        }
        uint64_t converted = weir_word_convert(table, *edition, word);
        if (converted == word)
            return word;
        if (slot_exchange(place.slot, *who, word, *who, converted))
            return converted;
    }
}

/* The same for a word that is held: whoever holds it has let go of it, or has died, when its lock is to be
 * had; and nobody else can hold it before it is converted. */
static uint64_t convert_held(struct weir_table *table, const struct edition **edition, struct spot place,
                             uint64_t *who)
{
    struct stripe *stripe = weir_stripe_lock(table->region, table_stripe(table, *who));
    let_go_of(table, place.slot, *who, true);
    uint64_t word = convert_in_place(table, edition, place, who);
    weir_stripe_unlock(stripe);
    return word;
}

size_t weir_words_sweep(struct weir_table *table, int64_t now, uint64_t line, uint64_t lines, bool clear)
{
    const struct edition *edition = table_edition(table);
    size_t cleared = 0;
    for (uint64_t i = weir_words_line(table, line) - line; edition && i < lines; i++) {
        uint64_t at = line + i, who;
        struct spot place = {.segment = weir_words_segment(table, &at)};
        if (!place.segment)
            break;
        place.line = at;
        place.slot = region_slot(place.segment, at * LINE_SLOTS);
        for (int s = 0; s < LINE_SLOTS; s++, place.slot++) {
            uint64_t word = convert_in_place(table, &edition, place, &who);
            while (who != 0 && slot_kind(word) == SLOT_HELD && !weir_override_has(table, who))
                word = convert_held(table, &edition, place, &who);
            if (clear && weir_slot_is_idle(table, edition, who, word, now))
                cleared += weir_slots_drop(table, place.slot, who, word, now);
        }
    }
    return cleared;
}

uint64_t weir_words_count(struct weir_table *table, int64_t now, uint64_t line, uint64_t lines)
{
    const struct edition *edition = table_edition(table);
    uint64_t keys = 0;
    for (uint64_t i = weir_words_line(table, line) - line; edition && i < lines; i++) {
        uint64_t at = line + i;
        struct segment *segment = weir_words_segment(table, &at);
        if (!segment)
            break;
        struct slot *slot = region_slot(segment, at * LINE_SLOTS);
        for (int s = 0; s < LINE_SLOTS; s++, slot++) {
            uint64_t who = slot_who(slot), word = slot_word(slot);
            keys += who != 0 && slot_kind(word) != SLOT_TENTATIVE &&
                    !weir_slot_is_idle(table, edition, who, word, now);
        }
        edition = table_edition(table);
    }
    return keys;
}

/* The key in that slot; its bytes become those of an exact table. false: they are not of one key. */
static bool name_of(const struct weir_table *table, const struct spot *place, unsigned char *bytes,
                    struct key *key)
{
    struct exact_name name = slots_name(place->segment, place->slot, key->who);
    return weir_exact_key_of(table, &name, bytes, key);
}

bool weir_words_name(struct weir_table *table, struct key *key, unsigned char *bytes)
{
    struct spot place = weir_slots_find(table, key->who);
    return place.slot && name_of(table, &place, bytes, key);
}

/* One slot of a listing. A key with limits of its own is asked under its lock. */
static bool show(struct weir_table *table, const struct edition *edition, struct spot place, int64_t now,
                 weir_each_key *each, void *arg)
{
    struct weir_key shown = {.id = slot_who(place.slot)};
    uint64_t word = slot_word(place.slot);
    unsigned char bytes[EXACT_BYTES];
    struct key key = {.who = shown.id};
    struct deed deed = {.verb = VERB_PEEK, .now = now, .n = 1, .verdict = &shown.verdict};
    if (shown.id == 0 || slot_kind(word) == SLOT_TENTATIVE ||
        weir_slot_is_idle(table, edition, shown.id, word, now))
        return true;
    if (table->kind == &weir_table_own) { /* no limit, no verdict */
        shown.verdict.reset_after_ns = max64((int64_t)slot_value(word) - now, 0);
        return each(arg, &shown);
    }
    if (table->is_exact && !name_of(table, &place, bytes, &key)) /* another one comes in just now */
        return true;
    shown.key = key.bytes;
    shown.len = key.len;
    bool answer;
    enum outcome outcome = do_in_place(table, edition, place, &key, &deed, NULL);
    while (outcome == GONE && !table_is_latest(table, edition) && (edition = table_edition(table)))
        outcome = do_in_place(table, edition, place, &key, &deed, NULL);
    if (outcome == IS_HELD)
        shown.overridden = do_held(table, &key, &deed, &answer);
    if (outcome == GONE || (outcome == IS_HELD && !shown.overridden))
        return true;
    return each(arg, &shown);
}

bool weir_words_each(struct weir_table *table, int64_t now, weir_each_key *each, void *arg)
{
    const struct edition *edition = table_edition(table);
    struct spot place;
    for (uint64_t line = weir_words_line(table, 0); edition; line++) {
        uint64_t at = line;
        place.segment = weir_words_segment(table, &at);
        if (!place.segment)
            return true;
        place.line = at;
        place.slot = region_slot(place.segment, at * LINE_SLOTS);
        for (int s = 0; s < LINE_SLOTS; s++, place.slot++)
            if (!show(table, edition, place, now, each, arg))
                return false;
        edition = table_edition(table);
    }
    return false;
}

/* ---- keys with limits of their own ---- */

/* The entry stays, held for good: so all who ask for it come to the lock. */
static bool detach(struct weir_table *table, const struct key *key, int64_t now, struct journal *journal,
                   int64_t *state)
{
    const struct edition *edition = table_edition(table);
    while (edition) {
        struct spot place = weir_slots_settle(table, &edition, key, now);
        if (!place.slot || !edition)
            return false;
        uint64_t who, word = convert_in_place(table, &edition, place, &who);
        if (who == key->who && !slots_has_key(table, place, key))
            continue;
        if (who == key->who && slot_kind(word) == SLOT_HELD) /* of the dead, perhaps with a promise */
            (void)slot_exchange(place.slot, who, word, who, slot_with_kind(word, SLOT_PROMISED));
        else if (who == key->who && weir_journal_hold(table->region, journal, place.slot, who, word)) {
            weir_word_unpack(limit_of(edition), word, state);
            return true;
        }
    }
    return false;
}

/* The word is stored while it is held, and is let go when nothing says any more that the key has limits of
 * its own: see let_go. What the state has promised, or owes to limits that were of another algorithm, it
 * has in a time of its own; a word is then behind until that time. */
static bool attach(struct weir_table *table, const struct key *key, struct journal *journal,
                   const int64_t *state)
{
    (void)journal;
    const struct edition *edition = table_edition(table);
    struct spot place = weir_slots_find(table, key->who);
    if (!edition || !place.slot)
        return false;
    const struct limit *limit = limit_of(edition);
    int64_t behind[SLOT_STATE] = {[STATE_HEADER] = state[STATE_HEADER]};
    if (state[STATE_PROMISED] != 0)
        behind[STATE_HEADER] = max64(behind[STATE_HEADER], ticks_at(&limit->ticks, state[STATE_PROMISED]));
    uint64_t word = slot_with_kind(weir_word_pack(limit, edition, behind), SLOT_HELD);
    region_lower(table->region, place.segment, place.line); /* before it can be seen, as one that comes in */
    atom_store(&place.slot->both.high, word, memory_order_seq_cst);
    return true;
}

static void *locate(struct weir_table *table, const struct key *key)
{
    return weir_slots_find(table, key->who).slot;
}

const struct table_kind weir_table_words = {
    .run = run,
    .has = weir_slots_any,
    .prefetch = weir_words_prefetch,
    .sweep = weir_words_sweep,
    .each = weir_words_each,
    .count = weir_words_count,
    .detach = detach,
    .attach = attach,
    .let_go = let_go,
    .locate = locate,
};
