/* SPDX-License-Identifier: MIT */
/*
 * A table: key -> state, in a region. Three kinds:
 *
 *   words  a single limit whose state is one word: slots of 16 bytes, changed by exchange (slots.c, words.c)
 *   wide   everything else: slots of any size, under the locks of their stripes (wide.c)
 *   own    limits that come with each call: slots of 16 bytes, counted in nanoseconds (own.c)
 */
#ifndef WEIR_TABLE_TABLE_H
#define WEIR_TABLE_TABLE_H

#include "region/persist.h"
#include "region/stripe.h"
#include "table/exact.h"
#include "table/op.h"

/* A slot is dropped only when its key has been as if never used for so long: see slots.c. */
#define TABLE_GRACE_NS WEIR_MS

#define TABLE_TEXT_MAX 4096        /* of the limits, with the NUL */
#define OVERFLOW_HASH  UINT64_C(1) /* hash of the state that keys without room share; no key's */

/* PART_POLICIES: the limits of the last four generations, each in its place, generation % 4, and what the
 * table keeps for itself. */
struct policy_text {
    atom64 time; /* region time of the change */
    char text[TABLE_TEXT_MAX - sizeof(atom64)];
};
struct table_policies {
    struct policy_text texts[4];
    _Alignas(64) struct slot overflow; /* words: its hash is OVERFLOW_HASH */
    atom64 overflow_number;            /* as that of a line, if lines have numbers */
};

/* The limits of a generation, made ready in this process. Kept until the table is freed, or until somebody
 * knows that no slow thread uses them any more (weir_table_forget). */
struct edition {
    uint64_t generation;
    int64_t time; /* region time at which states become its own */
    struct weir_policy *policy;
    const struct limit *bucket; /* words: the limit, if it is a token bucket; else NULL */
    char *text;
    struct edition *older;
};

struct key {
    const void *bytes;
    size_t len;
    uint64_t hash; /* its identity, */
    uint64_t rest; /* and what tells it from others with the same one, if the table is exact */
    uint32_t form;
};

struct override_cache;
struct overflow_filter; /* overflow_filter.h */
struct limits_history;  /* history.h */
struct table_recovery;  /* persist/recover.h */

struct table_kind {
    bool (*run)(struct weir_table *table, const struct key *key, struct table_op *op);
    bool (*has)(struct weir_table *table, uint64_t hash); /* is there such a key? */
    void (*prefetch)(struct weir_table *table, uint64_t hash);
    /* Converts and clears slots of `lines` lines from `line` on, of all segments in turn; gives how many it
     * cleared. `clear` false: only converts. */
    size_t (*sweep)(struct weir_table *table, int64_t now, uint64_t line, uint64_t lines, bool clear);
    /* Calls back for every key that cannot be forgotten. */
    bool (*each)(struct weir_table *table, int64_t now, weir_each_key *each, void *arg);
    /* Keys that cannot be forgotten among `lines` lines from `line` on. */
    uint64_t (*count)(struct weir_table *table, int64_t now, uint64_t line, uint64_t lines);
    /* override.c: takes the state of the key out (its words into `state`), so that it is only found under the
     * stripe's lock, and puts one back. Under that lock and its journal, which is open, and under `change`.
     * false: no room, or no memory. */
    bool (*detach)(struct weir_table *table, const struct key *key, int64_t now, struct journal *journal,
                   int64_t *state);
    bool (*attach)(struct weir_table *table, const struct key *key, struct journal *journal,
                   const int64_t *state);
    /* Once the attach is valid; may be NULL. `promised`: a promise of the state is outstanding. */
    void (*let_go)(struct weir_table *table, uint64_t hash, bool promised);
    /* Where the key is, for the list of what is dirty; under the lock of its stripe. NULL: nowhere. */
    void *(*locate)(struct weir_table *table, const struct key *key);
};
extern const struct table_kind weir_table_words, weir_table_wide, weir_table_own;

/* Who keeps a table and has to know when its limits change, or it grows (`limits` NULL): before, and after.
 * `begin` false: nothing is changed. Such a table is freed by its owner only. */
struct table_owner {
    bool (*begin)(struct table_owner *owner, struct weir_table *table, const char *limits,
                  struct weir_error *err);
    void (*end)(struct table_owner *owner, struct weir_table *table);
};

/* Who gives a table more room while it is used: the server's growth thread. */
struct table_grower {
    /* So many slots are in use that it should have more soon. Does not wait. */
    void (*near)(struct table_grower *grower, struct weir_table *table);
    /* A key finds no room: waits for more, a moment. false: there is none to be had. No lock may be held
     * but that of a record of a ledger: others who wait for that do so until this has an end, which it has.
     */
    bool (*wait)(struct table_grower *grower, struct weir_table *table);
};

struct weir_table {
    struct region *region;
    const struct table_kind *kind;
    _Atomic(struct edition *) edition; /* the latest known here */
    struct table_policies *policies;
    size_t key_max; /* whole keys, of up to so many bytes; 0: hashes */
    bool is_exact;  /* words: whole keys, by way of witnesses */
    struct exact_hash exact;
    size_t state_words; /* wide: words of a state in a slot */
    int64_t *copies;    /* or NULL: room for two states of each stripe, if they are in a file and large */
    bool refuse_when_full;
    int64_t horizon_ns;                                /* own */
    struct top *top;                                   /* or NULL: in the region */
    struct name_log *names;                            /* or NULL: in the region */
    _Atomic(struct override_cache *) overrides;        /* or NULL: limits of single keys, made ready */
    struct limits_history *history;                    /* or NULL: no store keeps it */
    struct table_owner *owner;                         /* or NULL */
    _Atomic(struct overflow_filter *) overflow_filter; /* or NULL: nobody has taken from what is shared */
    struct table_grower *grower;                       /* or NULL: nobody gives it more room */
    atom64 near;                                       /* slots in use at which to tell the grower */
    _Atomic bool full, wanted;       /* there is no more room to be had; a key has asked for it: growth.c */
    uint64_t late;                   /* a key has waited for room in vain in this round; 0: none: growth.c */
    uint64_t moving;                 /* line of the first segment that is next: rehash.c, under `change` */
    struct table_recovery *recovery; /* or NULL: while its records are read from a store */
    void (*free_recovery)(struct weir_table *table); /* of `recovery` */
    uint64_t recovered;                              /* keys that were in it when all had been read */
    int64_t drained_ns;                              /* own: all buckets were empty then; 0: nobody said so */
};

/* After a state was changed: see region/persist.h. `slot` is that of the key, also if it has limits of its
 * own.
 */
static inline void table_touch(struct weir_table *table, void *slot, uint64_t hash)
{
    mark_dirty(table->region->persist, slot, hash);
}

/* A state that is in the region, as it can be used. Private memory holds what this code has left there; to a
 * file another process may write anything at any time, so what is used is a copy that was looked at. */
static inline int64_t *table_state(const struct weir_table *table, const struct weir_policy *policy,
                                   int64_t *state, int64_t *copy, int64_t now)
{
    return __builtin_expect(table->region->file < 0, 1) ? state : weir_state_fetch(policy, state, copy, now);
}

#define ROOM_TRIES 4 /* of one call: each waits for a moment */

/* A slot more, or fewer, has a key. Not counted in a file, where who counts may be killed before it. */
static inline void table_count(struct weir_table *table, uint64_t more)
{
    if (table->region->file >= 0)
        return;
    uint64_t used = atom_add(&table->region->occupied, more, memory_order_relaxed) + more;
    if (table->grower && used >= atom_load(&table->near, memory_order_relaxed))
        table->grower->near(table->grower, table);
}

/* Could there be room for a key that has found none, in a moment? Who holds a record of a ledger, which keeps
 * others from theirs, waits only once. */
static inline bool table_may_wait(const struct weir_table *table, unsigned tries)
{
    return table->grower && tries < (weir_dirty_holds > 0 ? 1 : ROOM_TRIES) &&
           !atomic_load_explicit(&table->full, memory_order_seq_cst);
}

/* Waits for it. false: there is none to be had. */
static inline bool table_wait(struct weir_table *table, unsigned *tries)
{
    return table_may_wait(table, *tries) && ((*tries)++, table->grower->wait(table->grower, table));
}

/* Before something is dropped at the reading `now`: the floor is at least `now` - grace then. To raise it to
 * `now` itself keeps the next ones from having to: it is written once in TABLE_GRACE_NS at the most. */
static inline void table_raise_floor(struct region *region, int64_t now)
{
    uint64_t seen = atom_load(&region->header->floor, memory_order_relaxed);
    while ((int64_t)seen < now - TABLE_GRACE_NS &&
           !atom_cas(&region->header->floor, &seen, (uint64_t)now, memory_order_seq_cst)) {
    }
}

/* ---- editions: see change.h ---- */

/* To be asked after a word was read: only of the latest edition it is known that the word is of its
 * generation or of the one before, and two bits tell which. A thread that slept since it got its edition may
 * have missed any number of changes. */
static inline bool table_is_latest(const struct weir_table *table, const struct edition *edition)
{
    return atom_load(&table->region->header->generation, memory_order_seq_cst) == edition->generation;
}

/* ---- keys ---- */

/* 0 means empty and 1 means overflow; nobody is called that. */
static inline __attribute__((always_inline)) uint64_t table_hash(const struct weir_table *table,
                                                                 const void *bytes, size_t len)
{
    if (__builtin_expect(table->is_exact, 0))
        return weir_exact_name(table, bytes, len).hash;
    uint64_t hash = hash_bytes(&table->region->key, bytes, len);
    return hash > OVERFLOW_HASH ? hash : hash + 2;
}

static inline struct key table_key(const struct weir_table *table, const void *bytes, size_t len)
{
    if (!table->is_exact)
        return (struct key){.bytes = bytes, .len = len, .hash = table_hash(table, bytes, len)};
    struct exact_name name = weir_exact_name(table, bytes, len);
    return (struct key){bytes, len, name.hash, name.rest, name.form};
}

/* x * y / 2^64: where in y places the hash x falls. Order is kept, so a larger table keeps neighbours. */
static inline uint64_t hash_to_index(uint64_t x, uint64_t y)
{
    return mulhi(x, y);
}

static inline uint64_t table_stripe(const struct weir_table *table, uint64_t hash)
{
    return hash_to_index(hash, table->region->shape.stripes);
}

/* ---- making one ---- */

/* As weir_table_make, in memory, to be kept by a store. `key` NULL: one is drawn. A state has at least so
 * many words. */
struct weir_table *weir_table_make_stored(const char *limits, const struct weir_table_options *options,
                                          const struct hash_key *key, size_t state_words,
                                          struct weir_error *err);
/* The options with which it could be made again; those of files are 0. */
void weir_table_options_of(const struct weir_table *table, struct weir_table_options *options);
/* Lines of a segment for so many keys. */
uint64_t weir_table_lines_for(const struct weir_table *table, uint64_t keys);

/* Bytes that a key takes in a large table of these limits; NULL: they come with each call. Who plans memory
 * asks here, also for a table that is there already. What is no limit counts as a single one. */
int64_t weir_table_key_bytes(const char *limits, size_t key_max);
int64_t weir_table_key_bytes_in(const struct weir_table *table);

#endif
