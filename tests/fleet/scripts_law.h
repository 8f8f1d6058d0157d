/* SPDX-License-Identifier: MIT */
/*
 * What the scripts promise, whatever they do for it: units that were given out, each with the true time at
 * which it may be spent first and last, held against the law of docs/fleet.md.
 *
 *   quota    of an epoch at most its total, and what came back; and no unit of another one is alive
 *   bucket   in any stretch t at most B + R*t, over all numberings; under other terms no unit is alive
 */
#ifndef WEIR_TESTS_SCRIPTS_LAW_H
#define WEIR_TESTS_SCRIPTS_LAW_H

#include "lease/lease.h"

#define BOOK_ENTRIES 64 /* the last ones */

struct book_entry {
    struct lease_terms terms;
    uint64_t epoch;
    int64_t from_ns, until_ns, units;
};
struct book {
    struct book_entry entries[BOOK_ENTRIES];
    size_t count; /* ever; the last BOOK_ENTRIES of them are kept */
};

/* Adds one. false: that breaks the law, and is printed. */
bool book_add(struct book *book, const struct book_entry *entry);
/* Whether something is alive that lives longer than `most_us` at its best. */
bool book_has_longer(const struct book *book, int64_t now_ns, long double most_us);

#endif
