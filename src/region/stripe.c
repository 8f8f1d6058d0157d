/* SPDX-License-Identifier: MIT */
/*
 * Robust mutexes of the C library, and what is done about the dead. Whoever has locked a stripe finds:
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
 * still about. All are set before the journal is opened. A recovery that dies itself is done again without
 * harm.
 *
 * There is no deadlock: in a region everybody locks one transaction at most, and then stripes in rising
 * order. Nobody waits for a transaction while he has a stripe or another transaction, also not to recover it:
 * he lets everything go before. Only who locks all stripes may wait for another transaction than his, one
 * that died; but there is one of him at most, and who has a transaction never waits for his. Who has locks of
 * several regions took them in the order of the regions.
 *
 * A mutex that fails in any other way has been damaged, by a stray pointer or a stray write to the file. It
 * is made anew, by one at a time; with it goes the certainty that nobody else has it. A new one does not
 * fail, so this ends.
 */
#define _POSIX_C_SOURCE 200809L
#include "region/stripe.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

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

static struct stripe *stripe_at(const struct region *region, uint64_t index)
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

void weir_stripe_unlock(struct stripe *stripe)
{
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
    if (stripe_mark(stripe) == mark) /* nobody else was quicker */
        stripe_set_mark(stripe, 0);
    weir_stripe_unlock(stripe);
    if (transaction)
        (void)pthread_mutex_unlock(&transaction->mutex);
}

/* `own` is the mark of the transaction that the caller has, or 0. */
static inline struct stripe *stripe_lock(struct region *region, uint64_t index, uint32_t own)
{
    struct stripe *stripe = stripe_at(region, index);
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
    return stripe_lock(region, index, 0);
}

/* Locks and marks stripes until one has a dead transaction's mark, which is let go; gives how many. */
static size_t transaction_take_stripes(struct region *region, struct transaction *transaction,
                                       const uint32_t *stripes, size_t count, uint32_t *orphan_mark)
{
    uint32_t mark = transaction_mark(region, transaction);
    for (size_t i = 0; i < count; i++) {
        struct stripe *stripe = stripe_at(region, stripes[i]);
        stripe_take(region, stripe);
        *orphan_mark = stripe_mark(stripe);
        if (*orphan_mark != 0) {
            weir_stripe_unlock(stripe);
            return i;
        }
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
        if (taken == *count)
            return transaction;
        weir_transaction_unlock(region, transaction, stripes, taken);
        orphan_recover(region, stripe_at(region, stripes[taken]), mark);
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
    for (size_t i = 0; i < count; i++)
        stripe_let_go(stripe_at(region, stripes[i]));
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
    }
    for (uint64_t i = 0; i < stripes; i++) {
        struct stripe *stripe = stripe_at(region, i);
        mutex_make(&stripe->mutex);
        weir_journal_recover(region, &stripe->journal);
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
        stripe_take(region, stripe_at(region, i));
        stripe_let_go(stripe_at(region, i));
    }
    (void)pthread_mutex_unlock(&transaction_at(region, 0)->mutex);
}
