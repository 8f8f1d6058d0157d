/* SPDX-License-Identifier: MIT */
/*
 * Journals. An entry is what was there, and behind it where:
 *
 *   old words | offset in the region | bytes, kind
 *
 * so that entries are found from the last to the first, which is the order in which they are undone. An entry
 * counts once `used` covers it, and that is stored before what it saves is changed. A process is killed
 * between two of its instructions, so all that is needed is that the compiler keeps the order of stores:
 * release before the stores that matter, a fence for the compiler behind those that others must follow.
 *
 * A journal is OPEN from its first entry on: a death then is undone, from the last entry to the first; again,
 * if the one who does it dies, too: it gives the same. Where no slot is held, IDLE is the store by which
 * everything is valid. Where one is, DONE is: held slots are let go after it, by the next holder of the lock
 * if need be, and then it is IDLE.
 *
 * A slot is held by an exchange after its entry, and only under the lock of its stripe. So a slot that is
 * HELD when its entry is undone was held by that entry, and one that is not has been let go already, or never
 * was held: others may have changed it since, and it is left alone.
 *
 * What is read from a journal may come from a damaged file: an entry that names no memory, or memory that
 * weir_region_at keeps to itself, is skipped; where the length of one makes no sense, those before it cannot
 * be found. weir_region_at maps segments that only the dead process had.
 */
#include "region/stripe.h"

#include <string.h>

enum journal_entry_kind { ENTRY_BYTES = 1, ENTRY_HELD };

struct journal_entry {
    uint64_t offset;
    uint32_t bytes, kind;
};

#define WORD sizeof(uint64_t)

static uint64_t padded(uint64_t bytes)
{
    return (bytes + WORD - 1) & ~(uint64_t)(WORD - 1);
}

uint64_t weir_journal_size(uint64_t bytes, uint64_t pieces)
{
    return padded(bytes + pieces * (sizeof(struct journal_entry) + WORD - 1));
}

static bool is_address_within(const void *address, const void *start, uint64_t bytes)
{
    return (uintptr_t)address - (uintptr_t)start < bytes;
}

static uint64_t journal_room(const struct region *region, const struct journal *journal)
{
    const struct region_shape *shape = &region->shape;
    bool in_transaction = is_address_within(
        journal, region->transactions, REGION_TRANSACTIONS * weir_transaction_size(shape->transaction_size));
    return in_transaction ? shape->transaction_size : shape->journal_size;
}

static unsigned char *journal_entries(struct journal *journal)
{
    return (unsigned char *)(journal + 1);
}

/* ---- copies: whoever reads without the lock never sees half a word ---- */

static bool is_aligned(const void *address)
{
    return (uintptr_t)address % WORD == 0;
}

static void copy_out(unsigned char *to, const unsigned char *from, uint64_t bytes)
{
    for (; bytes >= WORD && is_aligned(from); bytes -= WORD, from += WORD, to += WORD) {
        const _Atomic uint64_t *word = (const void *)from;
        *(uint64_t *)(void *)to = atomic_load_explicit(word, memory_order_relaxed);
    }
    memcpy(to, from, bytes);
}

static void copy_back(unsigned char *to, const unsigned char *from, uint64_t bytes)
{
    for (; bytes >= WORD && is_aligned(to); bytes -= WORD, from += WORD, to += WORD) {
        _Atomic uint64_t *word = (void *)to;
        atomic_store_explicit(word, *(const uint64_t *)(const void *)from, memory_order_relaxed);
    }
    memcpy(to, from, bytes);
}

/* ---- writing ---- */

static void set_state(struct journal *journal, enum journal_state state)
{
    atomic_store_explicit(&journal->state, state, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
}

void weir_journal_begin(struct journal *journal)
{
    atomic_store_explicit(&journal->used, 0, memory_order_relaxed); /* first: old entries are never undone */
    set_state(journal, JOURNAL_OPEN);
}

/* Where the old words of an entry go. NULL: it does not fit. `used` is read once: it may be anything by the
 * time it is read again. */
static unsigned char *entry_begin(const struct region *region, struct journal *journal, uint64_t bytes)
{
    uint64_t room = journal_room(region, journal);
    uint32_t used = atomic_load_explicit(&journal->used, memory_order_relaxed);
    if (used % WORD != 0 || used > room || bytes > room ||
        padded(bytes) + sizeof(struct journal_entry) > room - used)
        return NULL;
    return journal_entries(journal) + used;
}

/* Behind its old words. */
static void entry_end(struct region *region, struct journal *journal, const unsigned char *words,
                      const void *address, uint64_t bytes, enum journal_entry_kind kind)
{
    uint32_t used = (uint32_t)(words - journal_entries(journal)) + (uint32_t)padded(bytes);
    struct journal_entry *entry = (void *)(journal_entries(journal) + used);
    *entry = (struct journal_entry){weir_region_offset(region, address), (uint32_t)bytes, kind};
    atomic_store_explicit(&journal->used, used + (uint32_t)sizeof *entry, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst); /* what is saved is changed after this */
}

bool weir_journal_save(struct region *region, struct journal *journal, const void *address, size_t bytes)
{
    unsigned char *words = entry_begin(region, journal, bytes);
    if (!words)
        return false;
    copy_out(words, address, bytes);
    entry_end(region, journal, words, address, bytes, ENTRY_BYTES);
    return true;
}

static bool can_hold_word(uint64_t hash, uint64_t word)
{
    return hash != 0 && (slot_kind(word) == SLOT_PLAIN || slot_kind(word) == SLOT_PROMISED);
}

bool weir_journal_hold(struct region *region, struct journal *journal, struct slot *slot, uint64_t hash,
                       uint64_t word)
{
    uint64_t both[2] = {hash, word};
    uint32_t before = atomic_load_explicit(&journal->used, memory_order_relaxed);
    unsigned char *words = can_hold_word(hash, word) ? entry_begin(region, journal, sizeof both) : NULL;
    if (!words)
        return false;
    memcpy(words, both, sizeof both);
    entry_end(region, journal, words, slot, sizeof both, ENTRY_HELD);
    if (slot_exchange(slot, hash, word, hash, slot_with_kind(word, SLOT_HELD)))
        return true;
    atomic_store_explicit(&journal->used, before, memory_order_release);
    return false;
}

/* ---- reading ---- */

/* Bytes of entries that can be looked at. */
static uint32_t journal_used(const struct region *region, const struct journal *journal)
{
    uint32_t used = atomic_load_explicit(&journal->used, memory_order_relaxed);
    return used <= journal_room(region, journal) ? used & ~(uint32_t)(WORD - 1) : 0;
}

/* The last entry before *used, which goes back to where it begins, where its words are. */
static bool entry_before(struct journal *journal, uint32_t *used, struct journal_entry *entry)
{
    if (*used < sizeof *entry)
        return false;
    memcpy(entry, journal_entries(journal) + *used - sizeof *entry, sizeof *entry);
    uint64_t size = padded(entry->bytes) + sizeof *entry;
    if (size > *used)
        return false;
    *used -= (uint32_t)size;
    return true;
}

static void slot_let_go(struct slot *slot, uint64_t hash, uint64_t next, bool keep_value)
{
    for (;;) {
        uint64_t word = slot_word(slot);
        if (slot_hash(slot) != hash || slot_kind(word) != SLOT_HELD)
            return;
        if (slot_exchange(slot, hash, word, hash, keep_value ? slot_with_kind(word, SLOT_PLAIN) : next))
            return;
    }
}

/* Lets the slot of an entry go, with the word that it had or the value that it has. */
static void entry_let_go(struct region *region, const struct journal_entry *entry, const unsigned char *words,
                         bool keep_value)
{
    uint64_t both[2];
    struct slot *slot =
        entry->bytes == sizeof both ? weir_region_at(region, entry->offset, entry->bytes) : NULL;
    if (!slot || (uintptr_t)slot % sizeof *slot != 0)
        return;
    memcpy(both, words, sizeof both);
    if (can_hold_word(both[0], both[1]))
        slot_let_go(slot, both[0], both[1], keep_value);
}

void weir_journal_commit(struct region *region, struct journal *journal)
{
    struct journal_entry entry;
    bool done = false;
    for (uint32_t used = journal_used(region, journal); entry_before(journal, &used, &entry);) {
        if (entry.kind != ENTRY_HELD)
            continue;
        if (!done)
            set_state(journal, JOURNAL_DONE);
        done = true;
        entry_let_go(region, &entry, journal_entries(journal) + used, true);
    }
    set_state(journal, JOURNAL_IDLE);
}

void weir_journal_commit_held(struct journal *journal)
{
    set_state(journal, JOURNAL_IDLE);
}

void weir_journal_undo(struct region *region, struct journal *journal)
{
    struct journal_entry entry;
    for (uint32_t used = journal_used(region, journal); entry_before(journal, &used, &entry);) {
        const unsigned char *words = journal_entries(journal) + used;
        void *place = entry.kind == ENTRY_BYTES ? weir_region_at(region, entry.offset, entry.bytes) : NULL;
        if (place)
            copy_back(place, words, entry.bytes);
        else if (entry.kind == ENTRY_HELD)
            entry_let_go(region, &entry, words, false);
    }
    set_state(journal, JOURNAL_IDLE);
}

void weir_journal_recover(struct region *region, struct journal *journal)
{
    uint32_t state = atomic_load_explicit(&journal->state, memory_order_relaxed);
    if (state == JOURNAL_IDLE)
        return;
    if (state == JOURNAL_OPEN)
        weir_journal_undo(region, journal);
    else if (state == JOURNAL_DONE)
        weir_journal_commit(region, journal);
    else
        set_state(journal, JOURNAL_IDLE);
}
