/* SPDX-License-Identifier: MIT */
/*
 * A process is killed at every instruction of an operation to a wide table (every second, unless
 * WEIR_KILL_STRIDE says otherwise). The others find every key as it was before the operation, or as it is
 * after it, and a table that is whole. What keys without room share may also be there already, and unspent.
 */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "table/wide_slots.h"
#include "threads/step.h"
#include "threads/team.h"
#include "unit/table/wide_table.h"

#define TIME  (100 * WEIR_SEC)
#define WORDS 128

enum { BUSY, OTHER, IDLE, NEW, OVERFLOW, KEYS };

struct view { /* of a key, or of what keys share */
    bool is_there;
    uint32_t generation;
    int64_t state[WORDS];
};

struct scene {
    struct weir_table *table;
    struct key keys[OVERFLOW];
    size_t taker;
    int64_t n;
    unsigned char *slots, *reach; /* as they were before */
    size_t lines;
    struct view before[KEYS], after[KEYS], unspent;
    long undone, valid;
};

static void look_at(struct scene *s, struct view *views)
{
    struct weir_table *table = s->table;
    struct locked_stripe locked;
    struct wide_ref place;
    memset(views, 0, KEYS * sizeof *views);
    CHECK(weir_wide_enter(&locked, table, 0));
    for (size_t i = 0; i < KEYS; i++) {
        place = wide_place(&locked, 0, wide_places(&locked, 0) + WIDE_OVERFLOW);
        views[i].is_there =
            i == OVERFLOW ? wide_hash(place.slot) != 0 : weir_wide_find(&locked, &s->keys[i], &place);
        if (!views[i].is_there)
            continue;
        views[i].generation = place.slot->generation;
        memcpy(views[i].state, wide_state(table, place.slot), table->state_words * 8);
    }
    weir_wide_leave(&locked);
}

static void setup(void *arg)
{
    struct scene *s = arg;
    const struct segment *segment = &s->table->region->segments[0];
    weir_stripe_unlock(weir_stripe_lock(s->table->region, 0));
    memcpy(segment->slots, s->slots, s->lines * s->table->region->header->shape.slot_size);
    for (size_t i = 0; i < s->lines; i++)
        segment->reach[i] = s->reach[i];
    atom_store(&s->table->region->header->floor, 0, memory_order_relaxed);
}

static void check_views(void *arg, uint64_t step, bool whole)
{
    struct scene *s = arg;
    struct view now[KEYS];
    bool sound = true, changed = false;
    look_at(s, now);
    for (size_t i = 0; i < KEYS; i++) {
        bool is_after = memcmp(&now[i], &s->after[i], sizeof now[i]) == 0;
        bool is_before = memcmp(&now[i], &s->before[i], sizeof now[i]) == 0;
        bool is_unspent = i == OVERFLOW && memcmp(&now[i], &s->unspent, sizeof now[i]) == 0;
        sound = sound && (is_after || ((is_before || is_unspent) && !whole));
        changed = changed || !is_before;
    }
    if (!CHECK(sound && weir_wide_check(s->table)) && check.faults < 10)
        printf("#   after %" PRIu64 " instructions\n", step);
    *(changed ? &s->valid : &s->undone) += 1;
}

static void take(void *arg)
{
    struct scene *s = arg;
    struct table_op op = {.verb = VERB_TAKE, .now = TIME, .n = s->n};
    (void)s->table->kind->run(s->table, &s->keys[s->taker], &op);
}

static void convert(void *arg)
{
    struct scene *s = arg;
    (void)s->table->kind->sweep(s->table, TIME, 0, UINT64_MAX, false);
}

static void clear(void *arg)
{
    struct scene *s = arg;
    (void)s->table->kind->sweep(s->table, TIME, 0, UINT64_MAX, true);
}

/* A table of two slots, with a busy key and another one that is idle, or busy as well. */
static void scene_begin(struct scene *s, const char *limits, size_t key_max, size_t second)
{
    static const char *const names[] = {"busy", "other", "idle", "new"};
    *s = (struct scene){.table = table_shared(limits, 1, key_max), .n = 3};
    for (size_t i = 0; i < COUNT(names); i++)
        s->keys[i] = key_of(s->table, names[i]);
    for (size_t i = 0; i < 2; i++) {
        size_t key = i == 0 ? BUSY : second;
        struct table_op op = {.verb = VERB_TAKE, .now = key == IDLE ? WEIR_SEC : TIME, .n = 2};
        CHECK(s->table->kind->run(s->table, &s->keys[key], &op));
    }
}

static void scene_run(struct scene *s, step_operation *operation)
{
    const struct region *region = s->table->region;
    const struct segment *segment = &region->segments[0];
    size_t bytes = segment->lines * region->header->shape.slot_size;
    s->lines = segment->lines;
    s->slots = malloc(bytes);
    s->reach = malloc(s->lines);
    memcpy(s->slots, segment->slots, bytes);
    for (size_t i = 0; i < s->lines; i++)
        s->reach[i] = segment->reach[i];
    CHECK(s->table->state_words <= WORDS && region->header->shape.stripes == 1);
    s->unspent.is_there = true;
    weir_state_init(policy_of(s->table), s->unspent.state, TIME);
    look_at(s, s->before);
    operation(s);
    look_at(s, s->after);
    CHECK(memcmp(s->before, s->after, sizeof s->before) != 0);

    team_watch("steps");
    int64_t stride = check_env("WEIR_KILL_STRIDE", 2) * 70 / team_scaled(70);
    uint64_t steps = step_kill(setup, operation, check_views, s, (uint64_t)max64(stride, 1));
    team_watch_done();
    printf("# %" PRIu64 " instructions, %ld times undone, %ld times valid\n", steps, s->undone, s->valid);
    if (steps == 0)
        check_skip("no process can be led step by step here");
    else
        CHECK(s->undone > 2 && s->valid > 0);
    table_free(s->table);
    free(s->slots);
    free(s->reach);
}

TEST(killed_while_a_key_takes_under_three_limits)
{
    struct scene s;
    scene_begin(&s, "10/s, 20/m, 30/h", 0, IDLE);
    scene_run(&s, take);
}

TEST(killed_while_a_long_log_is_changed)
{
    struct scene s;
    scene_begin(&s, "90/s algo=sliding-log", 8, IDLE);
    scene_run(&s, take);
}

TEST(killed_while_a_key_comes_in)
{
    struct scene s;
    scene_begin(&s, "10/s, 20/s", 8, IDLE);
    CHECK_EQ(sweep_all(s.table, TIME), 1);
    s.taker = NEW;
    scene_run(&s, take);
}

TEST(killed_while_a_key_takes_the_place_of_another)
{
    struct scene s;
    scene_begin(&s, "10/s, 20/s", 8, IDLE);
    s.taker = NEW;
    scene_run(&s, take);
}

TEST(killed_while_a_key_without_room_shares)
{
    struct scene s;
    scene_begin(&s, "10/s, 20/s", 0, OTHER);
    s.taker = NEW;
    scene_run(&s, take);
    CHECK(s.after[OVERFLOW].is_there && !s.after[NEW].is_there);
}

TEST(killed_while_states_are_converted)
{
    struct scene s;
    scene_begin(&s, "10/s, 20/s", 0, OTHER);
    table_change(s.table, "30/s, 40/s", TIME);
    scene_run(&s, convert);
    CHECK(s.after[BUSY].generation == 1 && s.after[OTHER].generation == 1);
}

TEST(killed_while_slots_are_cleared)
{
    struct scene s;
    scene_begin(&s, "10/s, 20/s", 0, IDLE);
    scene_run(&s, clear);
    CHECK(s.after[BUSY].is_there && !s.after[IDLE].is_there);
}
