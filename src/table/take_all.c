/* SPDX-License-Identifier: MIT */
/*
 * All or none of several asks, of any keys in any tables.
 *
 * Every key is decided on under the lock of its stripe; a word is held meanwhile, so that those who need no
 * lock wait at it, too. Nobody is charged before all have said yes, and nobody else decides on a key between
 * its yes and its charge. So none slips in, and none is refused because of units that nobody gets. Locks are
 * taken in one order: regions by their id, in each a transaction and then its stripes, rising.
 *
 * What is charged is saved in the transaction's journal first: if the holder is killed, all of a region is
 * charged or nothing of it. The journals of several regions are made valid one after the other; who is killed
 * between two of them leaves units charged that nobody uses.
 *
 * Asks that come to the same state, the same key twice or two keys without room, are decided on together:
 * each of them has a `first`, whose state is asked for the units of all.
 */
#include <string.h>
#include <sys/stat.h>

#include "os/clock.h"
#include "table/overflow_filter.h"
#include "table/override.h"
#include "table/slots.h"
#include "table/top.h"
#include "table/verbs.h"
#include "table/wide.h"
#include "table/wide_slots.h"
#include "table/words.h"

/* An ask, and what it is about. */
struct take_all_part {
    struct weir_ask *ask;
    struct weir_table *table;
    struct key key;
    int64_t now;     /* region time */
    size_t region;   /* which of the regions */
    size_t first;    /* of the parts with the same state */
    size_t namesake; /* of the parts with the same key */
    bool valid;
    bool shares;  /* a word without room: it takes from what such keys share */
    bool crowded; /* it has found no room, and more may be there in a moment */
    bool waited;  /* in vain: there is none */
    unsigned tries;
    /* under the locks */
    const struct weir_policy *policy; /* NULL: no room, or no memory */
    int64_t *state;                   /* in the region, or `words` */
    struct slot *slot;                /* of a word that is held; else NULL */
    struct wide_slot *wide;           /* of a wide state that is joined; else NULL */
    void *place;                      /* the slot in any case, and who is in it: to be listed */
    uint64_t hash;
    const struct edition *edition; /* of the word */
    int64_t words[SLOT_STATE];
};

struct take_all_region {
    struct region *region;
    struct transaction *transaction;
    uint32_t stripes[WEIR_ALL_MAX];
    size_t stripe_count;
};

struct take_all {
    struct take_all_part parts[WEIR_ALL_MAX];
    size_t count;
    struct take_all_region regions[WEIR_ALL_MAX]; /* in the order in which they are locked */
    size_t region_count;
};

/* ---- regions ---- */

/* A region that is mapped twice, because its file was opened twice, has the same id; and so has a copy of a
 * file, which is another region. Less than 0, 0 or more: the first comes before the other one, is the same,
 * or comes after it. */
static int compare_regions(const struct region *a, const struct region *b)
{
    struct stat first, second;
    if (a == b)
        return 0;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    if (a->file < 0 || b->file < 0 || fstat(a->file, &first) != 0 || fstat(b->file, &second) != 0)
        return a < b ? -1 : 1;
    if (first.st_dev != second.st_dev)
        return first.st_dev < second.st_dev ? -1 : 1;
    return first.st_ino == second.st_ino ? 0 : first.st_ino < second.st_ino ? -1 : 1;
}

/* Of tables with the same region the first stands for all. */
static void unify_table(const struct take_all *all, struct take_all_part *part)
{
    for (const struct take_all_part *other = all->parts; other < part; other++)
        if (other->valid && compare_regions(other->table->region, part->table->region) == 0) {
            part->table = other->table;
            return;
        }
}

static void add_region(struct take_all *all, struct region *region)
{
    size_t at = all->region_count;
    for (size_t i = 0; i < all->region_count; i++)
        if (all->regions[i].region == region)
            return;
    while (at > 0 && compare_regions(all->regions[at - 1].region, region) > 0) {
        all->regions[at].region = all->regions[at - 1].region;
        at--;
    }
    all->regions[at].region = region;
    all->region_count++;
}

static size_t index_of_region(const struct take_all *all, const struct region *region)
{
    size_t i = 0;
    while (all->regions[i].region != region)
        i++;
    return i;
}

/* ---- asks ---- */

static bool is_same_key(const struct take_all_part *a, const struct take_all_part *b)
{
    if (!a->valid || a->table != b->table || a->key.hash != b->key.hash)
        return false;
    return a->table->key_max == 0 ||
           (a->key.len == b->key.len &&
            (a->key.len == 0 || memcmp(a->key.bytes, b->key.bytes, a->key.len) == 0));
}

static void prepare_part(struct take_all *all, struct take_all_part *part, struct weir_ask *ask,
                         int64_t now_ns)
{
    size_t index = (size_t)(part - all->parts);
    *part = (struct take_all_part){.ask = ask, .table = ask->table, .first = index, .namesake = index};
    part->valid =
        ask->n > 0 && weir_table_knows(ask->table, ask->key, ask->len) && ask->table->kind != &weir_table_own;
    if (!part->valid) {
        (void)table_reject(&ask->verdict);
        return;
    }
    unify_table(all, part);
    part->key = table_key(part->table, ask->key, ask->len);
    part->now = region_time(part->table->region, now_ns);
    part->table->kind->prefetch(part->table, part->key.hash);
    for (size_t i = 0; i < index; i++)
        if (is_same_key(&all->parts[i], part)) {
            part->first = part->namesake = all->parts[i].namesake;
            break;
        }
    add_region(all, part->table->region);
}

/* false: one of them makes no sense. */
static bool prepare_parts(struct take_all *all, struct weir_ask *asks, size_t count, int64_t now_ns)
{
    bool valid = true;
    all->count = count;
    all->region_count = 0;
    for (size_t i = 0; i < count; i++) {
        prepare_part(all, &all->parts[i], &asks[i], now_ns);
        valid = valid && all->parts[i].valid;
    }
    for (size_t i = 0; i < count; i++)
        if (all->parts[i].valid)
            all->parts[i].region = index_of_region(all, all->parts[i].table->region);
    return valid;
}

/* The units of all parts that come to the state of this one. */
static int64_t part_units(const struct take_all *all, size_t first)
{
    int64_t n = 0;
    for (size_t i = first; i < all->count; i++)
        if (all->parts[i].valid && all->parts[i].first == first) {
#if WEIR_ASSERTIONS
            int64_t before = n;
#endif
            n = sat_add(n, all->parts[i].ask->n);
#if WEIR_ASSERTIONS
            ASSERT(n > before || n == INT64_MAX);
#endif
        }
    return n;
}

/* ---- a look in advance ---- */

/* Asks the keys one by one, those of words first: they need no lock. A no of one key at one moment is a no
 * for all, and then the others are asked for what their verdicts say. Gives false for a no. */
static bool peek_parts(struct take_all *all, bool refused)
{
    bool is_asked[WEIR_ALL_MAX] = {false};
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < all->count; i++) {
            struct take_all_part *part = &all->parts[i];
            bool is_word = part->valid && part->table->kind == &weir_table_words;
            if (!part->valid || part->first != i || is_asked[i] || (!is_word && !refused))
                continue;
            struct table_op op = {
                .verb = VERB_PEEK, .now = part->now, .n = part_units(all, i), .verdict = &part->ask->verdict};
            is_asked[i] = true;
            if (!part->table->kind->run(part->table, &part->key, &op))
                refused = true;
        }
    return !refused;
}

/* ---- locks ---- */

static void lock_parts(struct take_all *all)
{
    for (size_t r = 0; r < all->region_count; r++) {
        struct take_all_region *where = &all->regions[r];
        where->stripe_count = 0;
        INVARIANT(20, r == 0 || compare_regions(all->regions[r - 1].region, where->region) < 0);
        for (size_t i = 0; i < all->count; i++) {
            const struct take_all_part *part = &all->parts[i];
            if (part->region == r)
                where->stripes[where->stripe_count++] =
                    part->shares ? 0 : (uint32_t)table_stripe(part->table, part->key.hash);
        }
        where->transaction = weir_transaction_lock(where->region, where->stripes, &where->stripe_count);
        weir_journal_begin(weir_transaction_journal(where->transaction));
    }
}

/* What is not valid yet is undone. */
static void unlock_parts(struct take_all *all)
{
    for (size_t r = all->region_count; r-- > 0;) {
        struct take_all_region *where = &all->regions[r];
        weir_transaction_unlock(where->region, where->transaction, where->stripes, where->stripe_count);
    }
}

static struct journal *part_journal(const struct take_all *all, const struct take_all_part *part)
{
    return weir_transaction_journal(all->regions[part->region].transaction);
}

/* ---- joining: the state of a key, found and held ---- */

enum join_result { JOINED, NO_ROOM, AGAIN };

static bool join_override(struct take_all_part *part)
{
    return weir_override_find(part->table, &part->key, &part->policy, &part->state);
}

/* Does an earlier part have the same state already? */
static bool join_earlier(struct take_all *all, struct take_all_part *part, const struct slot *slot,
                         const int64_t *state)
{
    for (struct take_all_part *other = all->parts; other < part; other++)
        if (other->first == (size_t)(other - all->parts) &&
            ((slot && other->slot == slot) || (state && other->state == state))) {
            part->first = other->first;
            return true;
        }
    return false;
}

/* It is to wait for room, but not under locks. */
static bool may_part_wait(struct take_all_part *part)
{
    part->crowded = !part->waited && table_may_wait(part->table, part->tries);
    return part->crowded;
}

/* The slot of the key, or of what it shares. It may need another lock than the one at hand. */
static enum join_result find_part_word(struct take_all_part *part, struct slot_ref *ref)
{
    struct weir_table *table = part->table;
    struct region_header *header = table->region->header;
    *ref = (struct slot_ref){NULL, 0, &table->policies->overflow};
    if (part->shares)
        return JOINED;
    *ref = weir_slots_find_key(table, &part->key);
    if (ref->slot)
        return JOINED;
    part->now = max64(part->now, region_floor(table->region));
    *ref = weir_slots_settle(table, &part->edition, &part->key, part->now);
    if (ref->slot)
        return JOINED;
    if (part->edition && may_part_wait(part))
        return AGAIN;
    if (!part->edition || table->refuse_when_full) {
        (void)atom_add(&header->refused, 1, memory_order_relaxed);
        return NO_ROOM;
    }
    if (!weir_overflow_filter_make(table))
        return NO_ROOM;
    part->shares = true;
    return AGAIN;
}

#if WEIR_ASSERTIONS
static bool has_stripe(const struct take_all_region *where, uint64_t stripe)
{
    for (size_t i = 0; i < where->stripe_count; i++)
        if (where->stripes[i] == stripe)
            return true;
    return false;
}
#else
#define has_stripe(...) true
#endif

/* Holds the word, if it is still what it was. */
static bool hold_part_word(struct take_all *all, struct take_all_part *part, const struct slot_ref *ref,
                           uint64_t hash, uint64_t word)
{
    struct region *region = part->table->region;
    if (!table_is_latest(part->table, part->edition) ||
        !weir_journal_hold(region, part_journal(all, part), ref->slot, hash, word))
        return false;
    uint64_t converted = part->shares ? weir_slot_word_convert_shared(part->table, part->edition, word)
                                      : weir_slot_word_convert(part->table, part->edition, word);
    INVARIANT(18, has_stripe(&all->regions[part->region],
                             part->shares ? 0 : table_stripe(part->table, part->key.hash)));
    weir_slot_word_unpack(&part->edition->policy->limits[0], converted, part->words);
    part->policy = part->edition->policy;
    part->state = part->words;
    part->slot = ref->slot;
    return true;
}

static enum join_result join_part_word(struct take_all *all, struct take_all_part *part)
{
    struct slot_ref ref;
    for (;;) {
        part->edition = table_edition(part->table);
        enum join_result joining = part->edition ? find_part_word(part, &ref) : NO_ROOM;
        if (joining != JOINED || join_earlier(all, part, ref.slot, NULL))
            return joining;
        uint64_t hash = part->shares ? OVERFLOW_HASH : part->key.hash;
        part->place = ref.slot;
        part->hash = hash;
        uint64_t owner = slot_hash(ref.slot), word = slot_word(ref.slot);
        if (part->shares && (owner != hash || slot_kind(word) == SLOT_TENTATIVE))
            return NO_ROOM; /* it is damaged, and serves nobody */
        if (owner != hash || slot_kind(word) == SLOT_TENTATIVE ||
            !slots_has_key(part->table, ref, &part->key))
            continue;
        if (part->shares)
            weir_slots_clear_overflow_filter(part->table, part->edition, part->now);
        if (slot_kind(word) != SLOT_HELD) {
            if (hold_part_word(all, part, &ref, hash, word))
                return JOINED;
        } else if (!part->shares && join_override(part))
            return JOINED;
        else /* of the dead, perhaps with a promise */
            (void)slot_exchange(ref.slot, hash, word, hash, slot_with_kind(word, SLOT_PROMISED));
    }
}

/* A key comes in, or becomes one of the latest limits, by the journal of its stripe: that is valid by itself,
 * whatever becomes of the question. */
static enum join_result join_part_wide(struct take_all *all, struct take_all_part *part)
{
    struct weir_table *table = part->table;
    struct locked_stripe locked;
    struct wide_ref place;
    uint64_t stripe = table_stripe(table, part->key.hash);
    struct journal *journal = &weir_stripe_at(table->region, stripe)->journal;
    while (!weir_wide_join(&locked, table, stripe, journal))
        if (!table_edition(table) || !weir_region_refresh(table->region))
            return NO_ROOM;
    locked.open = false;
    /* not before the floor, as any operation of wide.c */
    part->now = max64(part->now, region_floor(table->region));
#if WEIR_ASSERTIONS
    INVARIANT(15, part->now >= locked.floor);
#endif
    if (table->grower && !weir_wide_find(&locked, &part->key, &place) &&
        !weir_wide_room(&locked, part->key.hash, part->now, &place) && may_part_wait(part))
        return AGAIN;
    if (!weir_wide_settle(&locked, &part->key, part->now, &place))
        return NO_ROOM;
    part->place = place.slot;
    part->hash = wide_hash(place.slot);
    if ((place.slot->flags & WIDE_OVERRIDDEN) && join_override(part))
        return JOINED;
    int64_t *state = wide_state(table, place.slot);
    if (join_earlier(all, part, NULL, state))
        return JOINED;
    (void)weir_journal_save(table->region, part_journal(all, part), place.slot, sizeof *place.slot);
    place.slot->flags |= WIDE_JOINED; /* or the next key that comes in might take its place */
    part->wide = place.slot;
    part->state = state;
    part->policy = locked.edition->policy;
    return JOINED;
}

/* false: other locks are needed. */
static bool join_parts(struct take_all *all)
{
    for (size_t i = 0; i < all->count; i++) {
        struct take_all_part *part = &all->parts[i];
        part->first = part->namesake;
        part->policy = NULL;
        part->state = NULL;
        part->slot = NULL;
        part->wide = NULL;
        part->place = NULL;
        part->hash = 0;
        if (part->first != i)
            continue;
        enum join_result joining =
            part->table->kind == &weir_table_words ? join_part_word(all, part) : join_part_wide(all, part);
        if (joining == AGAIN)
            return false;
    }
    /* a key's own may have found that another one's state is its, too */
    for (size_t i = 0; i < all->count; i++)
        all->parts[i].first = all->parts[all->parts[i].namesake].first;
    return true;
}

/* ---- deciding ---- */

/* The state of the part as it can be used now; `small` is room for one that has at most WIDE_SMALL words. */
static int64_t *part_state(const struct take_all_part *part, int64_t *small)
{
    const struct weir_table *table = part->table;
    int64_t *copy = small;
    if (part->state == part->words)
        return part->state;
    if (part->policy->words > WIDE_SMALL && table->copies)
        copy = table->copies + table_stripe(table, part->key.hash) * 2 * table->state_words;
    return table_state(table, part->policy, part->state, copy, part->now);
}

/* Has everybody said yes? Nothing changes. */
static bool ask_parts(struct take_all *all)
{
    bool allowed = true;
    int64_t small[WIDE_SMALL];
    for (size_t i = 0; i < all->count; i++) {
        struct take_all_part *part = &all->parts[i];
        struct table_op op = {.verb = VERB_PEEK, .verdict = &part->ask->verdict};
        if (part->first != i)
            continue;
        bool passes = part->policy ? weir_state_peek(part->policy, part_state(part, small), part->now,
                                                     part_units(all, i), &part->ask->verdict)
                                   : weir_table_op_full(&op);
        if (part->shares || part->hash == OVERFLOW_HASH)
            weir_table_op_shared(&op, passes);
        allowed = allowed && passes;
    }
    return allowed;
}

static void charge_part(struct take_all *all, struct take_all_part *part, int64_t n)
{
    if (!part->slot)
        (void)weir_journal_save(part->table->region, part_journal(all, part), part->state,
                                part->policy->words * sizeof *part->state); /* shapes leave room for it */
    INVARIANT(19, INTACT(part->slot ||
                         weir_journal_covers(part->table->region, part_journal(all, part), part->state,
                                             part->policy->words * sizeof *part->state)));
    INVARIANT(18, INTACT(!part->wide ||
                         ((part->wide->flags & WIDE_JOINED) != 0 && wide_hash(part->wide) == part->hash)));
    INVARIANT(18, INTACT(!part->slot || slot_kind(slot_word(part->slot)) == SLOT_HELD));
    if (part->wide)
        part->wide->flags &= ~(uint32_t)WIDE_JOINED;
    int64_t small[WIDE_SMALL], *state = part_state(part, small);
    bool taken = weir_state_take(part->policy, state, part->now, n, &part->ask->verdict);
    INVARIANT(18, INTACT(taken)); /* all have said yes, and nobody has come since */
    (void)taken;
    if (state != part->state)
        memcpy(part->state, state, part->policy->words * sizeof *state);
    if (!part->slot)
        return;
    uint64_t word = weir_slot_word_pack(&part->policy->limits[0], part->edition, part->state);
    atom_store(&part->slot->both.high, slot_with_kind(word, SLOT_HELD), memory_order_seq_cst);
}

/* Charges all. false: a key without room has come in meanwhile, and what it shares is not its any more: see
 * slots.h. */
static bool charge_parts(struct take_all *all)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->parts[i].shares || all->parts[i].hash == OVERFLOW_HASH)
            weir_overflow_filter_add(all->parts[i].table, all->parts[i].key.hash);
    for (size_t i = 0; i < all->count; i++)
        if (all->parts[i].first == i)
            charge_part(all, &all->parts[i], part_units(all, i));
    bool still = true;
    for (size_t i = 0; i < all->count; i++) {
        struct take_all_part *part = &all->parts[i];
        if (part->shares && weir_slots_came(part->table, &part->key, part->now)) {
            part->shares = false;
            still = false;
        }
    }
    return still;
}

static void commit_parts(struct take_all *all)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->parts[i].shares)
            (void)atom_add(&all->parts[i].table->region->header->shared, 1, memory_order_relaxed);
    for (size_t r = 0; r < all->region_count; r++)
        weir_journal_commit(all->regions[r].region, weir_transaction_journal(all->regions[r].transaction));
}

/* After all locks were dropped. */
static void touch_parts(const struct take_all *all)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct take_all_part *part = &all->parts[i];
        if (part->first == i && part->place)
            table_touch(part->table, part->place, part->hash);
    }
}

/* After all locks were dropped. */
static void wait_for_part_room(struct take_all *all)
{
    for (size_t i = 0; i < all->count; i++) {
        struct take_all_part *part = &all->parts[i];
        if (part->crowded)
            part->waited = !table_wait(part->table, &part->tries);
        part->crowded = false;
    }
}

static bool decide_parts(struct take_all *all)
{
    for (;;) {
        wait_for_part_room(all);
        lock_parts(all);
        bool joined = join_parts(all);
        bool allowed = joined && ask_parts(all);
        bool charged = allowed && charge_parts(all);
        if (charged)
            commit_parts(all);
        unlock_parts(all);
        if (charged)
            touch_parts(all);
        if (joined && allowed == charged)
            return allowed;
    }
}

/* ---- answers ---- */

/* Each ask has the verdict of its state; of a refusal nothing is allowed. */
static void answer_parts(struct take_all *all, bool allowed)
{
    for (size_t i = 0; i < all->count; i++) {
        struct take_all_part *part = &all->parts[i];
        if (!part->valid)
            continue;
        part->ask->verdict = all->parts[part->first].ask->verdict;
        part->ask->verdict.allowed = allowed;
        table_sample_call(part->table, &part->key, part->ask->n, allowed, part->now);
    }
}

bool weir_take_all_at(struct weir_ask *asks, size_t count, int64_t now_ns)
{
    struct take_all all;
    if (count == 0)
        return true;
    if (!asks)
        return false;
    if (count > WEIR_ALL_MAX) {
        for (size_t i = 0; i < count; i++)
            (void)table_reject(&asks[i].verdict);
        return false;
    }
    bool valid = prepare_parts(&all, asks, count, now_ns);
    bool allowed = peek_parts(&all, !valid) && decide_parts(&all);
    answer_parts(&all, allowed);
    return allowed;
}

bool weir_take_all(struct weir_ask *asks, size_t count)
{
    return weir_take_all_at(asks, count, clock_now());
}

size_t weir_ask_refusing(const struct weir_ask *asks, size_t count)
{
    size_t refusing = count;
    for (size_t i = 0; asks && i < count; i++) {
        const struct weir_verdict *verdict = &asks[i].verdict;
        if (verdict->allowed || verdict->reason == WEIR_OK)
            continue;
        if (refusing == count || verdict->retry_after_ns > asks[refusing].verdict.retry_after_ns)
            refusing = i;
    }
    return refusing;
}
