/* SPDX-License-Identifier: MIT */
/*
 * The tester's account of a store, outside of it: of every key all that ever changed it, in order, and when
 * it was answered. What is recovered of a key must be what the exact model says after some first part of that
 * list, which has everything in it that had to survive.
 */
#ifndef WEIR_TESTS_PROPERTY_STORE_BOOK_H
#define WEIR_TESTS_PROPERTY_STORE_BOOK_H

#include "property/table_cell.h"

#define BOOK_ENTRIES 96
#define BOOK_KEYS    16
#define BOOK_TABLES  5
#define BOOK_TEXTS   3
#define BOOK_STARTS  8

enum book_kind {
    BOOK_TAKE,
    BOOK_GIVE,
    BOOK_CHARGE,
    BOOK_RESET,
    BOOK_LIMITS,
    BOOK_OWN,
    BOOK_DRAIN, /* by the rule: every key is empty as of then */
    BOOK_FRESH, /* or as if never used */
    BOOK_FORGOT /* it was as if never used, and so is again what all are since BOOK_DRAIN */
};

struct book_entry {
    enum book_kind kind;
    bool forgets; /* BOOK_LIMITS: it was as if never used, so it is under these, too */
    bool written; /* it was appended, and nothing said otherwise */
    int text;     /* BOOK_LIMITS, BOOK_OWN: which limits; -1: those of the table */
    int64_t time_ns, n;
    int64_t answered_ns; /* real time; -1: not yet */
    uint64_t generation; /* BOOK_LIMITS: of the table, from then on */
    size_t event;        /* in the log of the law */
};

struct book_table {
    const char *limits[BOOK_TEXTS]; /* NULL: they come with each call */
    const struct weir_policy *policies[BOOK_TEXTS];
    const char *own[2];
    bool words;
    int text; /* in force */
    uint64_t generation;
};

struct book_key {
    struct book_table *table;
    uint64_t name;
    struct weir_own_limit limit; /* of a table without limits */
    int first_text;              /* of the table, before the first entry */
    struct book_entry entries[BOOK_ENTRIES];
    size_t count;
    size_t base; /* so many are surely on the disk: they were recovered by a process that began to write */
    size_t kept; /* of the entries before the last recovery, so many were found again */
    bool lawful; /* the law is looked at */
    struct law_log law;
};

/* What a peek says, as far as it is compared. */
struct book_look {
    bool allowed;
    int64_t remaining, retry_ns, reset_ns;
};
/* Of so many units: a log of times shows them by how long these have to wait. Not at later times: to look at
 * a table is to let it forget what it may. */
#define BOOK_LOOKS 7
static const int64_t book_units[BOOK_LOOKS] = {1, 2, 3, 4, 6, 9, 17};

/* Why an entry has to be there. */
struct book_must {
    bool written;        /* all that was written */
    int64_t answered_ns; /* all that was answered before that real time; INT64_MAX: all */
};

enum book_rule { BOOK_EXACT, BOOK_FLOOR, BOOK_OPTIMISTIC };

struct book_found { /* of one recovery */
    struct book_must must;
    enum book_rule rule;
    uint64_t generation; /* of the key's table */
    int64_t now_ns;      /* store time */
    /* When processes began that did not come far, and may have noted by then what this one finds. */
    int64_t began_ns[BOOK_STARTS];
    size_t began_count;
    /* Of each limit, if they are known: a look tells of the one that counts alone. Or NULL. */
    const struct weir_limit_state *limits;
};

const struct weir_policy *book_policy(const char *limits); /* compiled once, for ever */
struct book_entry *book_add(struct book_key *key, enum book_kind kind, int64_t time_ns, int64_t n);
/* Finds the first part that explains the looks, and lets the rest go. false: there is none. */
bool book_match(struct book_key *key, const struct book_found *found, const struct book_look *looks);
/* Is that what the model says after all entries? `looks` below 0: it was not told. */
bool book_agrees(struct book_key *key, int64_t now_ns, const struct weir_limit_state *limits,
                 const struct book_look *looks);
/* Which change of limits is in force, if the table says so: its generation may be higher, since some are
 * passed over. */
uint64_t book_generation(const struct book_key *key, uint64_t generation, int text);
void book_print(const struct book_key *key);

#endif
