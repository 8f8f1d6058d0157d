/* SPDX-License-Identifier: MIT */
/*
 * Robust mutexes of the C library, and what is done about the dead: docs/internals/tables.md, 19 and 20.
 * Whoever has locked a stripe finds:
 *
 *   the mutex says that its holder died   he undoes or finishes the stripe's own journal
 *   the stripe has a transaction's mark   a holder of it died, or nobody would be here: a transaction's
 *                                         holder takes the mark off before he unlocks. Its journal
 *                                         tells of this stripe, and of others: he lets the stripe go, locks
 *                                         the transaction, which recovers it, and takes the mark off
 *
 * So a mark is a lock by itself: nobody passes it, and it goes only by the hand of who has the transaction,
 * after the transaction's journal is idle. That is why a transaction can be recovered without locking its
 * stripes, why it needs no list of them, and why its next holder may use it while marks of the dead one are
 * still about. All are set before the journal is opened. Only who locks all stripes may wait for another
 * transaction than his, one that died; but there is one of him at most, and who has a transaction never waits
 * for his.
 *
 * A mutex that fails in any other way has been damaged, by a stray pointer or a stray write to the file. It
 * is made anew, by one at a time; with it goes the certainty that nobody else has it. A new one does not
 * fail, so this ends.
 */
#define _POSIX_C_SOURCE 200809L
#include "region/stripe.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "region/layout.h"

#define LINE          64
#define JOURNAL_MAX   (UINT32_MAX / 2) /* `used` and sums of it fit */
#define MEND_PATIENCE 10000            /* turns that others get to mend a lock, before they count as dead */

struct transaction {
    pthread_mutex_t mutex;
    _Alignas(8) struct journal journal; /* the last: its entries follow */
};

static uint64_t whole_lines(uint64_t head, uint64_t journal_size)
{
    return journal_size > JOURNAL_MAX ? UINT64_MAX : (head + journal_size + LINE - 1) & ~(uint64_t)(LINE - 1);
}

uint64_t weir_stripe_size(uint64_t journal_size)
{
    return whole_lines(sizeof(struct stripe), journal_size);
}

uint64_t weir_transaction_size(uint64_t transaction_size)
{
    return whole_lines(sizeof(struct transaction), transaction_size);
}

struct stripe *weir_stripe_at(const struct region *region, uint64_t index)
{
    uint64_t size = weir_stripe_size(region->shape.journal_size);
    return (struct stripe *)(void *)(region->stripes + index * size);
}

static struct transaction *transaction_at(const struct region *region, uint64_t index)
{
    uint64_t size = weir_transaction_size(region->shape.transaction_size);
    return (struct transaction *)(void *)(region->transactions + index * size);
}

/* ---- mutexes ---- */

static void mutex_make(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attr;
    (void)pthread_mutexattr_init(&attr);
    (void)pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    (void)pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    (void)pthread_mutex_init(mutex, &attr);
    (void)pthread_mutexattr_destroy(&attr);
}

static bool is_damaged(int code)
{
    return code != 0 && code != EBUSY && code != EOWNERDEAD;
}

/* Makes it anew, unless somebody else has done that, and locks it. */
static int mutex_mend(struct region *region, pthread_mutex_t *mutex)
{
    _Atomic uint32_t *mending = &region->header->mending;
    for (int i = 0; i < MEND_PATIENCE && atomic_exchange(mending, 1) != 0; i++)
        (void)sched_yield();
    int code = pthread_mutex_trylock(mutex);
    if (is_damaged(code)) {
        mutex_make(mutex);
        code = pthread_mutex_trylock(mutex);
    }
    atomic_store(mending, 0);
    return code == EBUSY ? pthread_mutex_lock(mutex) : code;
}

/* `code` is what an attempt to lock it gave. Locks it, if that did not. */
static void mutex_settle(struct region *region, pthread_mutex_t *mutex, int code, bool *died)
{
    *died = code != 0;
    while (is_damaged(code))
        code = mutex_mend(region, mutex);
    if (code == EOWNERDEAD)
        (void)pthread_mutex_consistent(mutex);
}

/* Gives true if a holder died, or may have. */
static bool mutex_lock(struct region *region, pthread_mutex_t *mutex)
{
    bool died = false;
    int code = pthread_mutex_lock(mutex);
    if (__builtin_expect(code != 0, 0))
        mutex_settle(region, mutex, code, &died);
    return died;
}

void weir_change_lock(struct region *region)
{
    (void)mutex_lock(region, &region->header->change);
}

void weir_change_unlock(struct region *region)
{
    (void)pthread_mutex_unlock(&region->header->change);
}

/* ---- stripes, marked or not ---- */

static void stripe_take(struct region *region, struct stripe *stripe)
{
    if (__builtin_expect(mutex_lock(region, &stripe->mutex), 0))
        weir_journal_recover(region, &stripe->journal);
}

static uint32_t stripe_mark(const struct stripe *stripe)
{
    return atomic_load_explicit(&stripe->transaction, memory_order_relaxed);
}

static void stripe_set_mark(struct stripe *stripe, uint32_t mark)
{
    atomic_store_explicit(&stripe->transaction, mark, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
}

static uint32_t journal_state(const struct journal *journal)
{
    return atomic_load_explicit(&journal->state, memory_order_relaxed);
}

void weir_stripe_unlock(struct stripe *stripe)
{
    INVARIANT(19, INTACT(journal_state(&stripe->journal) == JOURNAL_IDLE));
    (void)pthread_mutex_unlock(&stripe->mutex);
}

static void stripe_let_go(struct stripe *stripe)
{
    stripe_set_mark(stripe, 0);
    weir_stripe_unlock(stripe);
}

/* ---- transactions ---- */

static uint32_t transaction_mark(const struct region *region, const struct transaction *transaction)
{
    uint64_t offset = (uint64_t)((const unsigned char *)transaction - region->transactions);
    return 1 + (uint32_t)(offset / weir_transaction_size(region->shape.transaction_size));
}

/* Sorts, and gives how many are left when none is there twice. */
static size_t sort_unique(uint32_t *stripes, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t stripe = stripes[i];
        size_t at = kept;
        while (at > 0 && stripes[at - 1] > stripe)
            at--;
        if (at > 0 && stripes[at - 1] == stripe)
            continue;
        memmove(&stripes[at + 1], &stripes[at], (kept - at) * sizeof stripes[0]);
        stripes[at] = stripe;
        kept++;
    }
    return kept;
}

static void transaction_take(struct region *region, struct transaction *transaction)
{
    (void)mutex_lock(region, &transaction->mutex);
    weir_journal_recover(region, &transaction->journal);
}

#if WEIR_ASSERTIONS
/* Of a transaction that is held: all its stripes are marked as its own, in rising order, and nothing is half
 * done. */
static bool has_stripes(const struct region *region, const struct transaction *transaction,
                        const uint32_t *stripes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (stripe_mark(weir_stripe_at(region, stripes[i])) != transaction_mark(region, transaction) ||
            (i > 0 && stripes[i - 1] >= stripes[i]))
            return false;
    return journal_state(&transaction->journal) == JOURNAL_IDLE;
}
#else
#define has_stripes(...) true
#endif

static bool transaction_try(struct region *region, struct transaction *transaction)
{
    bool died;
    int code = pthread_mutex_trylock(&transaction->mutex);
    if (code == EBUSY)
        return false;
    mutex_settle(region, &transaction->mutex, code, &died);
    weir_journal_recover(region, &transaction->journal);
    return true;
}

/* Threads begin at different ones. */
static struct transaction *transaction_choose(struct region *region)
{
    uint64_t self = (uint64_t)(uintptr_t)pthread_self() * UINT64_C(0x9E3779B97F4A7C15);
    for (uint64_t i = 0; i < REGION_TRANSACTIONS; i++) {
        struct transaction *transaction = transaction_at(region, ((self >> 32) + i) % REGION_TRANSACTIONS);
        if (transaction_try(region, transaction))
            return transaction;
    }
    struct transaction *transaction = transaction_at(region, (self >> 32) % REGION_TRANSACTIONS);
    transaction_take(region, transaction);
    return transaction;
}

/* The stripe was found with this mark. The caller has no stripe of this region, and not that transaction. */
static void orphan_recover(struct region *region, struct stripe *stripe, uint32_t mark)
{
    struct transaction *transaction = mark <= REGION_TRANSACTIONS ? transaction_at(region, mark - 1) : NULL;
    if (transaction)
        transaction_take(region, transaction);
    stripe_take(region, stripe);
    INVARIANT(20, INTACT(!transaction || journal_state(&transaction->journal) == JOURNAL_IDLE));
    if (stripe_mark(stripe) == mark) /* nobody else was quicker */
        stripe_set_mark(stripe, 0);
    weir_stripe_unlock(stripe);
    if (transaction)
        (void)pthread_mutex_unlock(&transaction->mutex);
}

/* `own` is the mark of the transaction that the caller has, or 0. */
static inline struct stripe *stripe_lock(struct region *region, uint64_t index, uint32_t own)
{
    struct stripe *stripe = weir_stripe_at(region, index);
    for (;;) {
        stripe_take(region, stripe);
        uint32_t mark = stripe_mark(stripe);
        if (__builtin_expect(mark == 0 || mark == own, 1))
            return stripe;
        weir_stripe_unlock(stripe);
        orphan_recover(region, stripe, mark);
    }
}

struct stripe *weir_stripe_lock(struct region *region, uint64_t index)
{
    struct stripe *stripe = stripe_lock(region, index, 0);
    INVARIANT(20, INTACT(stripe_mark(stripe) == 0 && journal_state(&stripe->journal) == JOURNAL_IDLE));
    return stripe;
}

/* Locks and marks stripes until one has a dead transaction's mark, which is let go; gives how many. */
static size_t transaction_take_stripes(struct region *region, struct transaction *transaction,
                                       const uint32_t *stripes, size_t count, uint32_t *orphan_mark)
{
    uint32_t mark = transaction_mark(region, transaction);
    for (size_t i = 0; i < count; i++) {
        struct stripe *stripe = weir_stripe_at(region, stripes[i]);
        stripe_take(region, stripe);
        *orphan_mark = stripe_mark(stripe);
        if (*orphan_mark != 0) {
            weir_stripe_unlock(stripe);
            return i;
        }
        INVARIANT(20, INTACT(stripe_mark(stripe) == 0));
        stripe_set_mark(stripe, mark);
    }
    return count;
}

struct transaction *weir_transaction_lock(struct region *region, uint32_t *stripes, size_t *count)
{
    *count = sort_unique(stripes, *count);
    for (;;) {
        uint32_t mark = 0;
        struct transaction *transaction = transaction_choose(region);
        size_t taken = transaction_take_stripes(region, transaction, stripes, *count, &mark);
        if (taken == *count) {
            INVARIANT(20, INTACT(has_stripes(region, transaction, stripes, taken)));
            return transaction;
        }
        weir_transaction_unlock(region, transaction, stripes, taken);
        orphan_recover(region, weir_stripe_at(region, stripes[taken]), mark);
    }
}

struct journal *weir_transaction_journal(struct transaction *transaction)
{
    return &transaction->journal;
}

void weir_transaction_unlock(struct region *region, struct transaction *transaction, const uint32_t *stripes,
                             size_t count)
{
    weir_journal_recover(region, &transaction->journal);
    INVARIANT(20, INTACT(has_stripes(region, transaction, stripes, count)));
    for (size_t i = 0; i < count; i++)
        stripe_let_go(weir_stripe_at(region, stripes[i]));
    (void)pthread_mutex_unlock(&transaction->mutex);
}

/* ---- all of them ---- */

void weir_stripes_renew(struct region *region)
{
    uint64_t stripes = region->shape.stripes;
    atomic_store(&region->header->mending, 0);
    mutex_make(&region->header->change);
    for (uint64_t i = 0; i < REGION_TRANSACTIONS; i++) {
        struct transaction *transaction = transaction_at(region, i);
        mutex_make(&transaction->mutex);
        weir_journal_recover(region, &transaction->journal);
        INVARIANT(19, INTACT(journal_state(&transaction->journal) == JOURNAL_IDLE));
    }
    for (uint64_t i = 0; i < stripes; i++) {
        struct stripe *stripe = weir_stripe_at(region, i);
        mutex_make(&stripe->mutex);
        weir_journal_recover(region, &stripe->journal);
        INVARIANT(19, INTACT(journal_state(&stripe->journal) == JOURNAL_IDLE));
        stripe_set_mark(stripe, 0);
    }
}

/* Transaction 0 marks all stripes, and so has them all with a single mutex: the thread sanitizer, also that
 * of a program that uses the library, gives up on a thread that has 64. */
void weir_stripes_lock_all(struct region *region)
{
    struct transaction *transaction = transaction_at(region, 0);
    transaction_take(region, transaction);
    for (uint64_t i = 0; i < region->shape.stripes; i++) {
        struct stripe *stripe = stripe_lock(region, i, transaction_mark(region, transaction));
        stripe_set_mark(stripe, transaction_mark(region, transaction));
        weir_stripe_unlock(stripe);
    }
}

void weir_stripes_unlock_all(struct region *region)
{
    for (uint64_t i = 0; i < region->shape.stripes; i++) {
        stripe_take(region, weir_stripe_at(region, i));
        stripe_let_go(weir_stripe_at(region, i));
    }
    (void)pthread_mutex_unlock(&transaction_at(region, 0)->mutex);
}

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
    INVARIANT(
        19, INTACT(state != JOURNAL_OPEN || atomic_load_explicit(&journal->used, memory_order_relaxed) == 0));
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
    INVARIANT(19, INTACT(journal_state(journal) == JOURNAL_OPEN));
    INVARIANT(19, INTACT(kind == ENTRY_HELD || memcmp(words, address, bytes) == 0));
    INVARIANT(18, INTACT(kind != ENTRY_HELD || slot_kind(slot_word(address)) != SLOT_HELD));
    INVARIANT(19, INTACT(atomic_load_explicit(&journal->used, memory_order_relaxed) ==
                         (uint32_t)(words - journal_entries(journal))));
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
        INVARIANT(19, INTACT(journal_state(journal) == JOURNAL_DONE));
        entry_let_go(region, &entry, journal_entries(journal) + used, true);
    }
    set_state(journal, JOURNAL_IDLE);
}

void weir_journal_commit_held(struct journal *journal)
{
    set_state(journal, JOURNAL_IDLE);
}

#if WEIR_ASSERTIONS
/* After an entry was undone: what was saved is there again, or others have changed it since it was let go. */
static bool is_undone(struct region *region, const struct journal_entry *entry, const unsigned char *words)
{
    uint64_t both[2];
    const void *place = weir_region_at(region, entry->offset, entry->bytes);
    if (!place || entry->kind == ENTRY_BYTES)
        return !place || memcmp(place, words, entry->bytes) == 0;
    if (entry->bytes != sizeof both || (uintptr_t)place % sizeof(struct slot) != 0)
        return weir_region_scribbled;
    memcpy(both, words, sizeof both);
    return slot_kind(slot_word(place)) != SLOT_HELD || slot_hash(place) != both[0];
}

bool weir_journal_covers(struct region *region, struct journal *journal, const void *address, size_t bytes)
{
    struct journal_entry entry;
    uint64_t start = weir_region_offset(region, address);
    for (uint32_t used = journal_used(region, journal); entry_before(journal, &used, &entry);)
        if (entry.kind == ENTRY_BYTES && entry.offset <= start && bytes <= entry.bytes &&
            start - entry.offset <= entry.bytes - bytes)
            return journal_state(journal) == JOURNAL_OPEN;
    return false;
}
#else
#define is_undone(...) true
#endif

void weir_journal_undo(struct region *region, struct journal *journal)
{
    struct journal_entry entry;
    uint32_t used = journal_used(region, journal);
    INVARIANT(19, INTACT(journal_state(journal) == JOURNAL_OPEN));
    while (entry_before(journal, &used, &entry)) {
        const unsigned char *words = journal_entries(journal) + used;
        void *place = entry.kind == ENTRY_BYTES ? weir_region_at(region, entry.offset, entry.bytes) : NULL;
        if (place)
            copy_back(place, words, entry.bytes);
        else if (entry.kind == ENTRY_HELD)
            entry_let_go(region, &entry, words, false);
        INVARIANT(19, INTACT(is_undone(region, &entry, words)));
    }
    INVARIANT(19, INTACT(used == 0));
    set_state(journal, JOURNAL_IDLE);
}

void weir_journal_recover(struct region *region, struct journal *journal)
{
    uint32_t state = journal_state(journal);
    if (state == JOURNAL_IDLE)
        return;
    if (state == JOURNAL_OPEN)
        weir_journal_undo(region, journal);
    else if (state == JOURNAL_DONE)
        weir_journal_commit(region, journal);
    else
        set_state(journal, JOURNAL_IDLE);
}

/*
 * fork(2) copies private regions, but only the thread that called it. Nothing is half done while it copies:
 * all locks are taken before. The parent drops them; the child, which is another owner in the eyes of the
 * kernel, makes those of its copies anew. A region in a file stays shared, its locks with it: in the child
 * they belong to threads of the parent, as they should. Only the locks around mapping and around what a table
 * has made ready are the process's own. A store keeps the parent's regions; copies of them are kept by
 * nobody.
 *
 * The list is kept in the order of ids, in which several regions are locked.
 */

static struct lock regions_lock;
static struct region *regions;

static void take_regions(void)
{
    lock_take(&regions_lock);
    for (struct region *region = regions; region; region = region->next)
        if (region->file < 0)
            weir_stripes_lock_all(region);
    for (struct region *region = regions; region; region = region->next) {
        lock_take(&region->ready); /* after: who has a stripe may read new limits, or map a segment */
        lock_take(&region->lock);
    }
}

static void drop_regions(void)
{
    for (struct region *region = regions; region; region = region->next) {
        lock_drop(&region->lock);
        lock_drop(&region->ready);
    }
    lock_drop(&regions_lock);
}

static void resume_in_parent(void)
{
    for (struct region *region = regions; region; region = region->next)
        if (region->file < 0)
            weir_stripes_unlock_all(region);
    drop_regions();
}

static void renew_regions_in_child(void)
{
    struct region *first = regions;
    drop_regions();
    for (struct region *region = first; region; region = region->next)
        if (region->file < 0) {
            weir_stripes_renew(region);
            region->persist = NULL;
        }
}

static void watch_for_forks(void)
{
    (void)pthread_atfork(take_regions, resume_in_parent, renew_regions_in_child);
}

void weir_regions_join(struct region *region)
{
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    (void)pthread_once(&watched, watch_for_forks);
    lock_take(&regions_lock);
    struct region **place = &regions, *previous = NULL;
    for (; *place && (*place)->id < region->id; place = &(*place)->next)
        previous = *place;
    region->next = *place;
    region->previous = previous;
    if (region->next)
        region->next->previous = region;
    *place = region;
    lock_drop(&regions_lock);
}

void weir_regions_leave(struct region *region)
{
    lock_take(&regions_lock);
    *(region->previous ? &region->previous->next : &regions) = region->next;
    if (region->next)
        region->next->previous = region->previous;
    lock_drop(&regions_lock);
}
