/* SPDX-License-Identifier: MIT */
/*
 * Histories of a store on a simulated disk: several lives, each of which is ended by a kill, a power cut or
 * in order; faults on the way; recoveries that are cut off themselves. What lives in the store is a scene:
 * tables alone, or a whole service. Several threads are played by one: each has its own list of what is
 * dirty.
 */
#ifndef WEIR_TESTS_PROPERTY_STORE_HISTORY_H
#define WEIR_TESTS_PROPERTY_STORE_HISTORY_H

#include "disk_sim.h"
#include "property/store_book.h"
#include "store/store.h"

#define HISTORY_THREADS 3
#define HISTORY_WAITING 512

struct history;

struct scene {
    const char *name;
    void (*make)(struct history *history); /* what there is: book and settings, nothing on the disk */
    /* A process: opens, recovers, begins to write. false: it could not. */
    bool (*begin)(struct history *history);
    /* Everything that was recovered is compared with the book. */
    void (*compare)(struct history *history);
    void (*act)(struct history *history); /* one request of the present thread */
    /* The process ends: `clean` in order, and gives whether everything is on the disk. */
    bool (*end)(struct history *history, bool clean);
    void (*answered)(struct history *history, uint64_t what); /* somebody was told: see history_wait_for */
    void (*committed)(struct history *history);               /* the present thread has; may be NULL */
};
extern const struct scene scene_tables, scene_service;

struct waiting {
    uint64_t ticket;
    struct book_key *key; /* or NULL: */
    size_t entry;
    uint64_t what;
    int thread; /* that has not committed yet; -1: it has */
};

struct history {
    const struct scene *scene;
    void *state; /* of the scene */
    uint64_t number;
    struct rng rng;
    struct sim *sim;
    struct store *store; /* of the scene's process, NULL: there is none */
    enum store_sync sync;
    enum book_rule rule;
    struct store_found found;
    struct book_table tables[BOOK_TABLES];
    struct book_key *keys;
    size_t key_count;
    struct dirty *threads[HISTORY_THREADS];
    int thread;
    struct waiting waiting[HISTORY_WAITING];
    size_t waiting_count;
    int64_t real_ns;               /* time outside */
    int64_t boot_ns;               /* the same when the machine began */
    uint64_t boot;                 /* number of that */
    bool slow;                     /* nobody syncs in time in this life */
    bool cut;                      /* there was a power cut since a process has begun to write */
    bool late;                     /* not every cut came while the process ran that had answered */
    bool clean;                    /* the last process ended well */
    int64_t began_ns[BOOK_STARTS]; /* real time: of processes that did not come far, since one did */
    size_t began_count;
    bool faulty;         /* the store has met with a fault in this life, before the machine went off */
    uint64_t faults;     /* of the disk, when this life began */
    int64_t answered_ns; /* the last time that something was */
    bool trace, failed;
};

/* ---- for scenes ---- */

#define TRACE(HISTORY, ...)                                                                                  \
    do {                                                                                                     \
        if ((HISTORY)->trace)                                                                                \
            history_say((HISTORY), __VA_ARGS__);                                                             \
    } while (0)
__attribute__((format(printf, 2, 3))) void history_say(const struct history *history, const char *format,
                                                       ...);
/* It is wrong; `why` is printed. */
__attribute__((format(printf, 2, 3))) void history_fail(struct history *history, const char *format, ...);

int64_t history_roll(struct history *history, int64_t low, int64_t high);
static inline bool history_chance(struct history *history, int percent)
{
    return history_roll(history, 1, 100) <= percent;
}
int64_t history_now(const struct history *history); /* store time */

/* The present thread has changed this key: entry, law, and an answer that waits. NULL: there is no room. */
struct book_entry *history_note(struct history *history, struct book_key *key, enum book_kind kind,
                                int64_t n);
bool history_has_room(const struct history *history, const struct book_key *key);
/* Something else is to be answered with what this thread commits next. */
void history_wait_for(struct history *history, uint64_t what);
/* The disk is well from now on: so is the store, soon. */
void history_heal(struct history *history);
struct book_key *history_key(struct history *history, struct book_table *table, uint64_t name);
/* Of this recovery. */
struct book_found history_found(const struct history *history, const struct book_key *key,
                                uint64_t generation);

/* ---- */

/* false: it went wrong. */
bool history_run(const struct scene *scene, uint64_t seed, uint64_t number, bool trace);

struct history_counts {
    uint64_t lives, kills, cuts, closes, requests, answers, faults, recoveries, broken, lost;
};
extern struct history_counts history_counts;

#endif
