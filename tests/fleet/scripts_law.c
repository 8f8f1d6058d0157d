/* SPDX-License-Identifier: MIT */
#include "fleet/scripts_law.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/sat.h"
#include "fleet/scripts_model.h"

static size_t kept(const struct book *book)
{
    return book->count < BOOK_ENTRIES ? book->count : BOOK_ENTRIES;
}

static bool same_bucket(const struct lease_terms *a, const struct lease_terms *b)
{
    return a->kind == LEASE_BUCKET && b->kind == LEASE_BUCKET && a->total == b->total &&
           a->window_ns == b->window_ns && a->burst == b->burst;
}

static bool belong_together(const struct book_entry *a, const struct book_entry *b)
{
    return a->epoch == b->epoch || same_bucket(&a->terms, &b->terms);
}

/* No window is longer than a year: what lives longer is not waited for. */
static bool outlives_windows(const struct book_entry *old, const struct book_entry *entry)
{
    return entry->terms.kind == LEASE_QUOTA &&
           model_alive_us(&old->terms) * 1000 > (long double)TICKET_WINDOW_MAX;
}

/* Nothing of other terms lives when this one may be spent. */
static bool none_overlaps(const struct book *book, const struct book_entry *entry)
{
    for (size_t i = 0; i < kept(book); i++) {
        const struct book_entry *old = &book->entries[i];
        if (belong_together(old, entry) || old->until_ns <= entry->from_ns || outlives_windows(old, entry))
            continue;
        printf("units of epoch %" PRIu64 " live for %" PRId64 " ns yet when those of epoch %" PRIu64
               " may be spent\n",
               old->epoch, old->until_ns - entry->from_ns, entry->epoch);
        return false;
    }
    return true;
}

/* All that may be spent in [x, y]. */
static int64_t spent_between(const struct book *book, const struct lease_terms *terms, int64_t x, int64_t y)
{
    int64_t sum = 0;
    for (size_t i = 0; i < kept(book); i++) {
        const struct book_entry *one = &book->entries[i];
        if (same_bucket(&one->terms, terms) && one->from_ns <= y && one->until_ns > x)
            sum = sat_add(sum, one->units);
    }
    return sum;
}

static bool stretch_holds(const struct book *book, const struct lease_terms *terms, int64_t x, int64_t y)
{
    int64_t sum = spent_between(book, terms, x, y);
    int64_t most = sat_add(terms->burst, mul_div_up(y - x + 1, terms->total, terms->window_ns));
    if (sum > most)
        printf("in %" PRId64 " ns %" PRId64 " units may be spent, %" PRId64 " too many\n", y - x + 1, sum,
               sum - most);
    return sum <= most;
}

/* Only stretches with the new one in them can have become worse; they begin where one ends, and end where one
 * starts. */
static bool bucket_holds(const struct book *book, const struct book_entry *entry)
{
    for (size_t j = 0; j < kept(book); j++) {
        int64_t y = book->entries[j].from_ns;
        if (y < entry->from_ns || !same_bucket(&book->entries[j].terms, &entry->terms))
            continue;
        for (size_t i = 0; i < kept(book); i++) {
            int64_t x = min64(book->entries[i].until_ns - 1, y);
            if (x < entry->until_ns && !stretch_holds(book, &entry->terms, x, y))
                return false;
        }
    }
    return true;
}

bool book_add(struct book *book, const struct book_entry *entry)
{
    bool good = none_overlaps(book, entry);
    book->entries[book->count++ % BOOK_ENTRIES] = *entry;
    return good && (entry->terms.kind == LEASE_QUOTA || bucket_holds(book, entry));
}

bool book_has_longer(const struct book *book, int64_t now_ns, long double most_us)
{
    for (size_t i = 0; i < kept(book); i++)
        if (book->entries[i].until_ns > now_ns && model_alive_us(&book->entries[i].terms) > most_us)
            return true;
    return false;
}
