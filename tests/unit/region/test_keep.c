/* SPDX-License-Identifier: MIT */
/*
 * What a thread has changed and not appended yet.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "region/persist.h"

static char slots[3 * DIRTY_MOST][16];

struct appended {
    struct persist persist;
    uint32_t times, count;
    bool refuses; /* takes nothing */
};

static void overfull(struct store *store)
{
    struct appended *appended = (struct appended *)(void *)store;
    appended->times++;
    if (appended->refuses)
        return;
    appended->count += weir_dirty->count;
    weir_dirty_clear(weir_dirty);
}

static void begin(struct appended *appended)
{
    *appended =
        (struct appended){.persist = {.store = (struct store *)(void *)appended, .overfull = overfull}};
    if (weir_dirty)
        weir_dirty_clear(weir_dirty);
}

TEST(a_region_that_is_not_kept_lists_nothing)
{
    mark_dirty(NULL, slots[0], 5);
    CHECK(weir_dirty == NULL);
}

TEST(an_entry_is_listed_once)
{
    struct appended store;
    begin(&store);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 100; i++)
            mark_dirty(&store.persist, slots[i], 5);
    CHECK_EQ(weir_dirty->count, 100);
    CHECK_EQ(weir_dirty->touched, 300);
    for (uint32_t i = 0; i < 100; i++) {
        CHECK(weir_dirty->items[i].slot == slots[i] && weir_dirty->items[i].persist == &store.persist);
        CHECK_EQ(weir_dirty->items[i].hash, 5);
    }
    weir_dirty_clear(weir_dirty);
    CHECK_EQ(weir_dirty->count, 0);
    mark_dirty(&store.persist, slots[7], 5);
    mark_dirty(&store.persist, slots[7], 5);
    CHECK_EQ(weir_dirty->count, 1);
}

TEST(who_comes_to_a_slot_that_is_listed_is_listed_as_well)
{
    struct appended store;
    begin(&store);
    mark_dirty(&store.persist, slots[0], 5);
    mark_dirty(&store.persist, slots[0], 6);
    mark_dirty(&store.persist, slots[1], 5);
    mark_dirty(&store.persist, slots[0], 5);
    mark_dirty(&store.persist, slots[0], 6);
    CHECK_EQ(weir_dirty->count, 3);
    CHECK_EQ(weir_dirty->items[1].hash, 6);
}

TEST(a_full_list_is_appended)
{
    struct appended store;
    uint64_t misses = atomic_load(&weir_dirty_misses);
    begin(&store);
    for (int i = 0; i < DIRTY_MOST; i++)
        mark_dirty(&store.persist, slots[i], 5);
    mark_dirty(&store.persist, slots[17], 5);
    CHECK_EQ(store.times, 0);
    CHECK_EQ(weir_dirty->count, DIRTY_MOST);
    mark_dirty(&store.persist, slots[DIRTY_MOST], 5);
    CHECK_EQ(store.times, 1);
    CHECK_EQ(store.count, DIRTY_MOST);
    CHECK_EQ(weir_dirty->count, 1);
    CHECK(weir_dirty->items[0].slot == slots[DIRTY_MOST]);
    CHECK_EQ(atomic_load(&weir_dirty_misses), misses);
}

TEST(while_locks_are_held_nothing_is_appended)
{
    struct appended store;
    uint64_t misses = atomic_load(&weir_dirty_misses);
    begin(&store);
    persist_hold();
    persist_hold();
    for (int i = 0; i < DIRTY_MOST + DIRTY_SPARE; i++)
        mark_dirty(&store.persist, slots[i], 5);
    persist_release();
    CHECK_EQ(store.times, 0);
    CHECK_EQ(atomic_load(&weir_dirty_misses), misses);
    CHECK_EQ(weir_dirty->count, DIRTY_MOST + DIRTY_SPARE);
    persist_release();
    CHECK_EQ(store.times, 1);
    CHECK_EQ(store.count, DIRTY_MOST + DIRTY_SPARE);
    CHECK_EQ(weir_dirty->count, 0);
}

TEST(what_cannot_be_listed_is_missed)
{
    struct appended store;
    begin(&store);
    uint64_t misses = atomic_load(&weir_dirty_misses);
    persist_hold();
    for (int i = 0; i <= DIRTY_MOST + DIRTY_SPARE; i++)
        mark_dirty(&store.persist, slots[i], 5);
    CHECK_EQ(atomic_load(&weir_dirty_misses), misses + 1);
    persist_release();
    begin(&store);
    store.refuses = true;
    for (int i = 0; i <= DIRTY_MOST; i++)
        mark_dirty(&store.persist, slots[i], 5);
    CHECK_EQ(store.times, 1);
    CHECK_EQ(atomic_load(&weir_dirty_misses), misses + 2);
    CHECK_EQ(weir_dirty->count, DIRTY_MOST);
    weir_dirty_clear(weir_dirty);
}

TEST(turns_come_round)
{
    struct appended store;
    begin(&store);
    mark_dirty(&store.persist, slots[0], 5);
    weir_dirty->turn = UINT32_MAX;
    weir_dirty->index[0].turn = UINT32_MAX;
    weir_dirty_clear(weir_dirty);
    CHECK(weir_dirty->turn != 0);
    for (int i = 0; i < 200; i++)
        mark_dirty(&store.persist, slots[i], 5);
    CHECK_EQ(weir_dirty->count, 200);
    weir_dirty_clear(weir_dirty);
}

TEST(what_is_listed_of_one_store_can_be_forgotten)
{
    struct appended store, other;
    begin(&other);
    begin(&store);
    for (int i = 0; i < DIRTY_MOST; i++)
        mark_dirty(i % 3 ? &store.persist : &other.persist, slots[i], 5);
    weir_dirty_forget(store.persist.store);
    CHECK_EQ(weir_dirty->count, (DIRTY_MOST + 2) / 3);
    for (uint32_t i = 0; i < weir_dirty->count; i++)
        CHECK(weir_dirty->items[i].persist == &other.persist && weir_dirty->items[i].slot == slots[3 * i]);
    mark_dirty(&other.persist, slots[3], 5); /* it is listed */
    CHECK_EQ(weir_dirty->count, (DIRTY_MOST + 2) / 3);
    mark_dirty(&store.persist, slots[1], 5); /* it is not */
    CHECK_EQ(weir_dirty->count, (DIRTY_MOST + 2) / 3 + 1);
    weir_dirty_forget(store.persist.store);
    weir_dirty_forget(other.persist.store);
    CHECK_EQ(weir_dirty->count, 0);
}

/* ---- threads and processes ---- */

static struct appended shared;
static uint32_t flushed;

static void flush(struct dirty *dirty)
{
    flushed += dirty == weir_dirty ? dirty->count : 1000;
    weir_dirty_clear(dirty);
}

static void *touch_some(void *arg)
{
    (void)arg;
    for (int i = 0; i < 9; i++)
        mark_dirty(&shared.persist, slots[i], 5);
    return weir_dirty;
}

TEST(the_list_of_a_thread_that_ends_is_appended)
{
    pthread_t thread;
    void *list = NULL;
    begin(&shared);
    weir_dirty_at_end(flush);
    CHECK_EQ(pthread_create(&thread, NULL, touch_some, NULL), 0);
    CHECK_EQ(pthread_join(thread, &list), 0);
    CHECK_EQ(flushed, 9);
    CHECK(list != weir_dirty);
    weir_dirty_at_end(NULL);
}

TEST(a_child_has_listed_nothing)
{
    int status = 0;
    begin(&shared);
    mark_dirty(&shared.persist, slots[0], 5);
    pid_t child = fork();
    if (child == 0) {
        bool empty = weir_dirty && weir_dirty->count == 0;
        mark_dirty(&shared.persist, slots[0], 5);
        _exit(empty && weir_dirty->count == 1 ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_EQ(weir_dirty->count, 1);
    weir_dirty_clear(weir_dirty);
}
