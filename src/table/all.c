/* SPDX-License-Identifier: MIT */
/*
 * All or none of several asks, of any keys in any tables.
 *
 * Every key is decided on under the lock of its stripe; a word is held meanwhile, so that those who need no
 * lock wait at it, too. Nobody is charged before all have said yes, and nobody else decides on a key between
 * its yes and its charge. So none slips in, and none is refused because of units that nobody gets. Locks are
 * taken in one order: regions by their id, in each a lane and then its stripes, rising.
 *
 * What is charged is saved in the lane's journal first: if the holder is killed, all of a region is charged
 * or nothing of it. The journals of several regions are made valid one after the other; who is killed between
 * two of them leaves units charged that nobody uses.
 *
 * Asks that come to the same state, the same key twice or two keys without room, are decided on together:
 * each of them has a `first`, whose state is asked for the units of all.
 */
#include <string.h>
#include <sys/stat.h>

#include "os/clock.h"
#include "table/override.h"
#include "table/slots.h"
#include "table/takers.h"
#include "table/verbs.h"
#include "table/wide.h"
#include "table/words.h"

/* An ask, and what it is about. */
struct part {
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
    struct wide *wide;                /* of a wide state that is joined; else NULL */
    void *place;                      /* the slot in any case, and who is in it: to be listed */
    uint64_t who;
    const struct edition *edition; /* of the word */
    int64_t words[SLOT_STATE];
};

struct joint_region {
    struct region *region;
    struct lane *lane;
    uint32_t stripes[WEIR_ALL_MAX];
    size_t stripe_count;
};

struct joint {
    struct part parts[WEIR_ALL_MAX];
    size_t count;
    struct joint_region regions[WEIR_ALL_MAX]; /* in the order in which they are locked */
    size_t region_count;
};

static bool reject(struct weir_verdict *verdict)
{
    *verdict = (struct weir_verdict){.reason = WEIR_INVALID, .retry_after_ns = WEIR_FOREVER};
    return false;
}

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
static void unify_table(const struct joint *joint, struct part *part)
{
    for (const struct part *other = joint->parts; other < part; other++)
        if (other->valid && compare_regions(other->table->region, part->table->region) == 0) {
            part->table = other->table;
            return;
        }
}

static void add_region(struct joint *joint, struct region *region)
{
    size_t at = joint->region_count;
    for (size_t i = 0; i < joint->region_count; i++)
        if (joint->regions[i].region == region)
            return;
    while (at > 0 && compare_regions(joint->regions[at - 1].region, region) > 0) {
        joint->regions[at].region = joint->regions[at - 1].region;
        at--;
    }
    joint->regions[at].region = region;
    joint->region_count++;
}

static size_t index_of_region(const struct joint *joint, const struct region *region)
{
    size_t i = 0;
    while (joint->regions[i].region != region)
        i++;
    return i;
}

/* ---- asks ---- */

static bool is_same_key(const struct part *a, const struct part *b)
{
    if (!a->valid || a->table != b->table || a->key.who != b->key.who)
        return false;
    return a->table->key_max == 0 ||
           (a->key.len == b->key.len &&
            (a->key.len == 0 || memcmp(a->key.bytes, b->key.bytes, a->key.len) == 0));
}

static void prepare_part(struct joint *joint, struct part *part, struct weir_ask *ask, int64_t now_ns)
{
    size_t index = (size_t)(part - joint->parts);
    *part = (struct part){.ask = ask, .table = ask->table, .first = index, .namesake = index};
    part->valid =
        ask->n > 0 && weir_table_knows(ask->table, ask->key, ask->len) && ask->table->kind != &weir_table_own;
    if (!part->valid) {
        (void)reject(&ask->verdict);
        return;
    }
    unify_table(joint, part);
    part->key = table_key(part->table, ask->key, ask->len);
    part->now = region_time(part->table->region, now_ns);
    part->table->kind->prefetch(part->table, part->key.who);
    for (size_t i = 0; i < index; i++)
        if (is_same_key(&joint->parts[i], part)) {
            part->first = part->namesake = joint->parts[i].namesake;
            break;
        }
    add_region(joint, part->table->region);
}

/* false: one of them makes no sense. */
static bool prepare(struct joint *joint, struct weir_ask *asks, size_t count, int64_t now_ns)
{
    bool valid = true;
    joint->count = count;
    joint->region_count = 0;
    for (size_t i = 0; i < count; i++) {
        prepare_part(joint, &joint->parts[i], &asks[i], now_ns);
        valid = valid && joint->parts[i].valid;
    }
    for (size_t i = 0; i < count; i++)
        if (joint->parts[i].valid)
            joint->parts[i].region = index_of_region(joint, joint->parts[i].table->region);
    return valid;
}

/* The units of all parts that come to the state of this one. */
static int64_t units_of(const struct joint *joint, size_t first)
{
    int64_t n = 0;
    for (size_t i = first; i < joint->count; i++)
        if (joint->parts[i].valid && joint->parts[i].first == first)
            n = sat_add(n, joint->parts[i].ask->n);
    return n;
}

/* ---- a look in advance ---- */

/* Asks the keys one by one, those of words first: they need no lock. A no of one key at one moment is a no
 * for all, and then the others are asked for what their verdicts say. Gives false for a no. */
static bool look(struct joint *joint, bool refused)
{
    bool is_asked[WEIR_ALL_MAX] = {false};
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < joint->count; i++) {
            struct part *part = &joint->parts[i];
            bool is_word = part->valid && part->table->kind == &weir_table_words;
            if (!part->valid || part->first != i || is_asked[i] || (!is_word && !refused))
                continue;
            struct deed deed = {
                .verb = VERB_PEEK, .now = part->now, .n = units_of(joint, i), .verdict = &part->ask->verdict};
            is_asked[i] = true;
            if (!part->table->kind->run(part->table, &part->key, &deed))
                refused = true;
        }
    return !refused;
}

/* ---- locks ---- */

static void lock_all(struct joint *joint)
{
    for (size_t r = 0; r < joint->region_count; r++) {
        struct joint_region *where = &joint->regions[r];
        where->stripe_count = 0;
        for (size_t i = 0; i < joint->count; i++) {
            const struct part *part = &joint->parts[i];
            if (part->region == r)
                where->stripes[where->stripe_count++] =
                    part->shares ? 0 : (uint32_t)table_stripe(part->table, part->key.who);
        }
        where->lane = weir_lane_lock(where->region, where->stripes, &where->stripe_count);
        weir_journal_begin(weir_lane_journal(where->lane));
    }
}

/* What is not valid yet is undone. */
static void unlock_all(struct joint *joint)
{
    for (size_t r = joint->region_count; r-- > 0;) {
        struct joint_region *where = &joint->regions[r];
        weir_lane_unlock(where->region, where->lane, where->stripes, where->stripe_count);
    }
}

static struct journal *journal_of(const struct joint *joint, const struct part *part)
{
    return weir_lane_journal(joint->regions[part->region].lane);
}

/* ---- joining: the state of a key, found and held ---- */

enum joining { JOINED, NO_ROOM, AGAIN };

static bool join_own_limits(struct part *part)
{
    return weir_override_find(part->table, &part->key, &part->policy, &part->state);
}

/* Does an earlier part have the same state already? */
static bool join_earlier(struct joint *joint, struct part *part, const struct slot *slot,
                         const int64_t *state)
{
    for (struct part *other = joint->parts; other < part; other++)
        if (other->first == (size_t)(other - joint->parts) &&
            ((slot && other->slot == slot) || (state && other->state == state))) {
            part->first = other->first;
            return true;
        }
    return false;
}

/* It is to wait for room, but not under locks. */
static bool may_wait(struct part *part)
{
    part->crowded = !part->waited && table_may_wait(part->table, part->tries);
    return part->crowded;
}

/* The slot of the key, or of what it shares. It may need another lock than the one at hand. */
static enum joining find_word(struct part *part, struct spot *spot)
{
    struct weir_table *table = part->table;
    struct region_header *header = table->region->header;
    *spot = (struct spot){NULL, 0, &table->policies->overflow};
    if (part->shares)
        return JOINED;
    *spot = weir_slots_find_key(table, &part->key);
    if (spot->slot)
        return JOINED;
    part->now = max64(part->now, region_floor(table->region));
    *spot = weir_slots_settle(table, &part->edition, &part->key, part->now);
    if (spot->slot)
        return JOINED;
    if (part->edition && may_wait(part))
        return AGAIN;
    if (!part->edition || table->refuse_when_full) {
        (void)atom_add(&header->refused, 1, memory_order_relaxed);
        return NO_ROOM;
    }
    if (!weir_takers_make(table))
        return NO_ROOM;
    part->shares = true;
    return AGAIN;
}

/* Holds the word, if it is still what it was. */
static bool hold_word(struct joint *joint, struct part *part, const struct spot *spot, uint64_t who,
                      uint64_t word)
{
    struct region *region = part->table->region;
    if (!table_is_latest(part->table, part->edition) ||
        !weir_journal_hold(region, journal_of(joint, part), spot->slot, who, word))
        return false;
    uint64_t converted = part->shares ? weir_word_convert_shared(part->table, part->edition, word)
                                      : weir_word_convert(part->table, part->edition, word);
    weir_word_unpack(&part->edition->policy->limits[0], converted, part->words);
    part->policy = part->edition->policy;
    part->state = part->words;
    part->slot = spot->slot;
    return true;
}

static enum joining join_word(struct joint *joint, struct part *part)
{
    struct spot spot;
    for (;;) {
        part->edition = table_edition(part->table);
        enum joining joining = part->edition ? find_word(part, &spot) : NO_ROOM;
        if (joining != JOINED || join_earlier(joint, part, spot.slot, NULL))
            return joining;
        uint64_t who = part->shares ? OVERFLOW_WHO : part->key.who;
        part->place = spot.slot;
        part->who = who;
        uint64_t owner = slot_who(spot.slot), word = slot_word(spot.slot);
        if (part->shares && (owner != who || slot_kind(word) == SLOT_TENTATIVE))
            return NO_ROOM; /* it is damaged, and serves nobody */
        if (owner != who || slot_kind(word) == SLOT_TENTATIVE ||
            !slots_has_key(part->table, spot, &part->key))
            continue;
        if (part->shares)
            weir_slots_forget_takers(part->table, part->edition, part->now);
        if (slot_kind(word) != SLOT_HELD) {
            if (hold_word(joint, part, &spot, who, word))
                return JOINED;
        } else if (!part->shares && join_own_limits(part))
            return JOINED;
        else /* of the dead, perhaps with a promise */
            (void)slot_exchange(spot.slot, who, word, who, slot_with_kind(word, SLOT_PROMISED));
    }
}

static struct journal *stripe_journal(const struct region *region, uint64_t index)
{
    uint64_t size = weir_stripe_size(region->shape.journal_size);
    return &((struct stripe *)(void *)(region->stripes + index * size))->journal;
}

/* A key comes in, or becomes one of the latest limits, by the journal of its stripe: that is valid by itself,
 * whatever becomes of the question. */
static enum joining join_wide(struct joint *joint, struct part *part)
{
    struct weir_table *table = part->table;
    struct holding holding;
    struct place place;
    uint64_t stripe = table_stripe(table, part->key.who);
    struct journal *journal = stripe_journal(table->region, stripe);
    while (!weir_wide_join(&holding, table, stripe, journal))
        if (!table_edition(table) || !weir_region_refresh(table->region))
            return NO_ROOM;
    holding.open = false;
    /* not before the floor, as any deed of wide.c */
    part->now = max64(part->now, region_floor(table->region));
    if (table->grower && !weir_wide_find(&holding, &part->key, &place) &&
        !weir_wide_room(&holding, part->key.who, part->now, &place) && may_wait(part))
        return AGAIN;
    if (!weir_wide_settle(&holding, &part->key, part->now, &place))
        return NO_ROOM;
    part->place = place.slot;
    part->who = wide_who(place.slot);
    if ((place.slot->flags & WIDE_OVERRIDDEN) && join_own_limits(part))
        return JOINED;
    int64_t *state = wide_state(table, place.slot);
    if (join_earlier(joint, part, NULL, state))
        return JOINED;
    (void)weir_journal_save(table->region, journal_of(joint, part), place.slot, sizeof *place.slot);
    place.slot->flags |= WIDE_JOINED; /* or the next key that comes in might take its place */
    part->wide = place.slot;
    part->state = state;
    part->policy = holding.edition->policy;
    return JOINED;
}

/* false: other locks are needed. */
static bool join_all(struct joint *joint)
{
    for (size_t i = 0; i < joint->count; i++) {
        struct part *part = &joint->parts[i];
        part->first = part->namesake;
        part->policy = NULL;
        part->state = NULL;
        part->slot = NULL;
        part->wide = NULL;
        part->place = NULL;
        part->who = 0;
        if (part->first != i)
            continue;
        enum joining joining =
            part->table->kind == &weir_table_words ? join_word(joint, part) : join_wide(joint, part);
        if (joining == AGAIN)
            return false;
    }
    /* a key's own may have found that another one's state is its, too */
    for (size_t i = 0; i < joint->count; i++)
        joint->parts[i].first = joint->parts[joint->parts[i].namesake].first;
    return true;
}

/* ---- deciding ---- */

/* The state of the part as it can be used now; `small` is room for one that has at most WIDE_SMALL words. */
static int64_t *state_of(const struct part *part, int64_t *small)
{
    const struct weir_table *table = part->table;
    int64_t *copy = small;
    if (part->state == part->words)
        return part->state;
    if (part->policy->words > WIDE_SMALL && table->copies)
        copy = table->copies + table_stripe(table, part->key.who) * 2 * table->state_words;
    return table_state(table, part->policy, part->state, copy, part->now);
}

/* Has everybody said yes? Nothing changes. */
static bool ask_all(struct joint *joint)
{
    bool allowed = true;
    int64_t small[WIDE_SMALL];
    for (size_t i = 0; i < joint->count; i++) {
        struct part *part = &joint->parts[i];
        struct deed deed = {.verb = VERB_PEEK, .verdict = &part->ask->verdict};
        if (part->first != i)
            continue;
        bool passes = part->policy ? weir_state_peek(part->policy, state_of(part, small), part->now,
                                                     units_of(joint, i), &part->ask->verdict)
                                   : weir_deed_full(&deed);
        if (part->shares || part->who == OVERFLOW_WHO)
            weir_deed_shared(&deed, passes);
        allowed = allowed && passes;
    }
    return allowed;
}

static void charge(struct joint *joint, struct part *part, int64_t n)
{
    if (!part->slot)
        (void)weir_journal_save(part->table->region, journal_of(joint, part), part->state,
                                part->policy->words * sizeof *part->state); /* shapes leave room for it */
    if (part->wide)
        part->wide->flags &= ~(uint32_t)WIDE_JOINED;
    int64_t small[WIDE_SMALL], *state = state_of(part, small);
    (void)weir_state_take(part->policy, state, part->now, n, &part->ask->verdict);
    if (state != part->state)
        memcpy(part->state, state, part->policy->words * sizeof *state);
    if (!part->slot)
        return;
    uint64_t word = weir_word_pack(&part->policy->limits[0], part->edition, part->state);
    atom_store(&part->slot->both.high, slot_with_kind(word, SLOT_HELD), memory_order_seq_cst);
}

/* Charges all. false: a key without room has come in meanwhile, and what it shares is not its any more: see
 * slots.h. */
static bool charge_all(struct joint *joint)
{
    for (size_t i = 0; i < joint->count; i++)
        if (joint->parts[i].shares || joint->parts[i].who == OVERFLOW_WHO)
            weir_takers_add(joint->parts[i].table, joint->parts[i].key.who);
    for (size_t i = 0; i < joint->count; i++)
        if (joint->parts[i].first == i)
            charge(joint, &joint->parts[i], units_of(joint, i));
    bool still = true;
    for (size_t i = 0; i < joint->count; i++) {
        struct part *part = &joint->parts[i];
        if (part->shares && weir_slots_came(part->table, &part->key, part->now)) {
            part->shares = false;
            still = false;
        }
    }
    return still;
}

static void commit_all(struct joint *joint)
{
    for (size_t i = 0; i < joint->count; i++)
        if (joint->parts[i].shares)
            (void)atom_add(&joint->parts[i].table->region->header->shared, 1, memory_order_relaxed);
    for (size_t r = 0; r < joint->region_count; r++)
        weir_journal_commit(joint->regions[r].region, weir_lane_journal(joint->regions[r].lane));
}

/* After all locks were dropped. */
static void touch_all(const struct joint *joint)
{
    for (size_t i = 0; i < joint->count; i++) {
        const struct part *part = &joint->parts[i];
        if (part->first == i && part->place)
            table_touch(part->table, part->place, part->who);
    }
}

/* After all locks were dropped. */
static void wait_for_room(struct joint *joint)
{
    for (size_t i = 0; i < joint->count; i++) {
        struct part *part = &joint->parts[i];
        if (part->crowded)
            part->waited = !table_wait(part->table, &part->tries);
        part->crowded = false;
    }
}

static bool decide(struct joint *joint)
{
    for (;;) {
        wait_for_room(joint);
        lock_all(joint);
        bool joined = join_all(joint);
        bool allowed = joined && ask_all(joint);
        bool charged = allowed && charge_all(joint);
        if (charged)
            commit_all(joint);
        unlock_all(joint);
        if (charged)
            touch_all(joint);
        if (joined && allowed == charged)
            return allowed;
    }
}

/* ---- answers ---- */

/* Each ask has the verdict of its state; of a refusal nothing is allowed. */
static void answer(struct joint *joint, bool allowed)
{
    for (size_t i = 0; i < joint->count; i++) {
        struct part *part = &joint->parts[i];
        if (!part->valid)
            continue;
        part->ask->verdict = joint->parts[part->first].ask->verdict;
        part->ask->verdict.allowed = allowed;
        table_tell(part->table, &part->key, part->ask->n, allowed, part->now);
    }
}

bool weir_take_all_at(struct weir_ask *asks, size_t count, int64_t now_ns)
{
    struct joint joint;
    if (count == 0)
        return true;
    if (!asks)
        return false;
    if (count > WEIR_ALL_MAX) {
        for (size_t i = 0; i < count; i++)
            (void)reject(&asks[i].verdict);
        return false;
    }
    bool valid = prepare(&joint, asks, count, now_ns);
    bool allowed = look(&joint, !valid) && decide(&joint);
    answer(&joint, allowed);
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
