/* SPDX-License-Identifier: MIT */
/*
 * A store with one region of numbers that only rise, in manual mode, on a simulated disk; and an account of
 * what was promised, outside of it. A power cut and a recovery must leave every number between what was
 * promised and what it was.
 */
#ifndef WEIR_TESTS_UNIT_STORE_KIT_H
#define WEIR_TESTS_UNIT_STORE_KIT_H

#include "check.h"
#include "disk_sim.h"
#include "store/commit.h"
#include "store/store.h"
#include "unit/data/shelf.h"

#define SHELF_WAITING 4096

/* ---- a life: from open to close, kill or cut ---- */

struct promise {
    uint64_t ticket, index, value;
    int64_t time_ns; /* at which it was let go */
};

struct life {
    struct sim *sim;
    struct store_options options;
    struct store *store;
    struct shelf shelf;
    struct store_found found;
    struct weir_error err;
    int64_t now_ns;
    struct promise waiting[SHELF_WAITING], *gone;
    size_t waiting_count, gone_count, gone_room;
    int moved, ills, wells, slows, image_failures;
};

static inline void life_moved(void *arg)
{
    ((struct life *)arg)->moved++;
}

static inline void life_event(void *arg, const struct store_event *event)
{
    struct life *life = arg;
    life->ills += event->kind == STORE_EVENT_ILL;
    life->wells += event->kind == STORE_EVENT_WELL;
    life->slows += event->kind == STORE_EVENT_SLOW;
    life->image_failures += event->kind == STORE_EVENT_IMAGE_FAILED;
}

static inline void life_time(struct life *life, int64_t more_ns)
{
    weir_clock_set(life->now_ns += more_ns);
}

static inline void life_init(struct life *life, uint64_t seed, enum store_sync sync)
{
    memset(life, 0, sizeof *life);
    life->sim = sim_new(seed);
    life->options = (struct store_options){.disk = sim_disk(life->sim),
                                           .path = "data",
                                           .sync = sync,
                                           .manual = true,
                                           .segment_bytes = 4096,
                                           .image_log_bytes = 1 << 20,
                                           .moved = life_moved,
                                           .event = life_event,
                                           .arg = life};
    life->now_ns = WEIR_SEC;
    life_time(life, 0);
}

/* With an empty region, as a new process has it. */
static inline bool life_begin(struct life *life)
{
    memset(&life->shelf, 0, sizeof life->shelf);
    life->shelf.region.header = &life->shelf.header;
    life->shelf.region.shape.kind = REGION_WORDS;
    life->store = weir_store_open(&life->options, &life->found, &life->err);
    if (!life->store)
        return false;
    bool good = weir_store_add(life->store, SHELF_REGION, &life->shelf.region, 0, &shelf_kind, &life->shelf,
                               &life->err) &&
                weir_store_replay(life->store, &life->found, &life->err) &&
                weir_store_start(life->store, "note", 4, &life->err);
    if (good)
        return true;
    (void)weir_store_close(life->store, NULL);
    life->store = NULL;
    return false;
}

/* As if the process was no more: nothing of what close does reaches the disk. */
static inline void life_end(struct life *life, bool cut)
{
    if (life->store) {
        sim_stop_after(life->sim, 0);
        (void)weir_store_close(life->store, NULL);
        life->store = NULL;
    }
    if (cut)
        sim_cut(life->sim, NULL);
    else
        sim_kill(life->sim);
    life->waiting_count = 0;
}

static inline void life_free(struct life *life)
{
    if (life->store)
        life_end(life, false);
    sim_free(life->sim);
    free(life->gone);
    weir_clock_set(-1);
}

static inline void life_let_go(struct life *life, const struct promise *promise)
{
    if (life->gone_count == life->gone_room) {
        life->gone_room = life->gone_room ? 2 * life->gone_room : 256;
        life->gone = realloc(life->gone, life->gone_room * sizeof *life->gone);
        if (!life->gone)
            abort();
    }
    life->gone[life->gone_count] = *promise;
    life->gone[life->gone_count++].time_ns = life->now_ns;
}

/* Answers those that may be answered. */
static inline void life_answer(struct life *life)
{
    size_t left = 0;
    for (size_t i = 0; i < life->waiting_count; i++) {
        if (weir_store_ticket_status(life->store, life->waiting[i].ticket) == STORE_GO)
            life_let_go(life, &life->waiting[i]);
        else
            life->waiting[left++] = life->waiting[i];
    }
    life->waiting_count = left;
}

/* One request: a change, a ticket. */
static inline uint64_t life_raise(struct life *life, uint64_t index)
{
    shelf_raise(&life->shelf, index);
    uint64_t value = atomic_load(&life->shelf.values[index]), ticket = weir_store_commit(life->store);
    if (life->waiting_count < SHELF_WAITING)
        life->waiting[life->waiting_count++] = (struct promise){ticket, index, value, 0};
    return ticket;
}

/* What was let go until then is in what was recovered. */
static inline bool life_check(struct life *life, int64_t until_ns)
{
    bool good = true;
    for (size_t i = 0; i < life->gone_count; i++) {
        const struct promise *promise = &life->gone[i];
        if (promise->time_ns <= until_ns && atomic_load(&life->shelf.values[promise->index]) < promise->value)
            good = false;
    }
    return good;
}

/* Steps of both threads, time going on, until it is well and everybody is answered; false: it does not come
 * to that. */
static inline bool life_heal(struct life *life)
{
    for (int i = 0; i < 100; i++) {
        (void)weir_store_work(life->store, STORE_WORK_SYNC | STORE_WORK_IMAGE);
        life_answer(life);
        if (weir_store_is_well(life->store) && life->waiting_count == 0)
            return true;
        life_time(life, WEIR_SEC);
    }
    return false;
}

#endif
