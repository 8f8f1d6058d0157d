/* SPDX-License-Identifier: MIT */
/*
 * A store whose n-th allocation fails, for every n: nothing crashes, nothing is let go that is not there
 * afterwards, and with memory it is well again. On the real disk, since the simulated one needs memory, too.
 */
#define _GNU_SOURCE
#include "store/checkpoint.h"
#include "store/commit.h"
#include "store/store.h"
#include "unit/failing_memory.h"
#include "unit/folder.h"
#include "unit/store/store_kit.h"

/* Changes, commits, syncs, images; what may be answered is counted. */
static void live(struct life *life)
{
    for (uint64_t i = 0; i < 40; i++) {
        (void)life_raise(life, i % SHELF);
        (void)weir_store_work(life->store, STORE_WORK_SYNC | STORE_WORK_IMAGE);
        if (i == 20)
            (void)weir_store_image(life->store, NULL);
        if (i == 30)
            (void)weir_store_catalogue(life->store, "another note", 12);
        for (size_t k = 0; k < life->waiting_count; k++)
            if (weir_store_ticket_status(life->store, life->waiting[k].ticket) == STORE_GO)
                life->waiting[k].time_ns = life->now_ns;
    }
}

static bool check_all(struct life *life)
{
    bool good = true;
    for (size_t k = 0; k < life->waiting_count; k++)
        good = good && (life->waiting[k].time_ns == 0 ||
                        atomic_load(&life->shelf.values[life->waiting[k].index]) >= life->waiting[k].value);
    return good;
}

static bool heal(struct life *life)
{
    for (int i = 0; i < 10 && !weir_store_is_well(life->store); i++) {
        (void)weir_store_work(life->store, STORE_WORK_SYNC | STORE_WORK_IMAGE);
        life_time(life, 10 * WEIR_SEC);
    }
    return weir_store_is_well(life->store);
}

/* A thread of its own has a list of its own, whose memory may fail. */
static void *run_one(void *arg)
{
    static struct life life;
    int64_t n = *(int64_t *)arg;
    memset(&life, 0, sizeof life);
    life.options = (struct store_options){.path = folder_new(),
                                          .sync = STORE_ALWAYS,
                                          .manual = true,
                                          .segment_bytes = 4096,
                                          .event = life_event};
    life.options.arg = &life;
    life.now_ns = WEIR_SEC;
    life_time(&life, 0);
    allocations_left = n;
    bool begun = life_begin(&life);
    if (begun)
        live(&life);
    *(int64_t *)arg = allocations_left;
    allocations_left = -1;
    if (begun) {
        CHECK(heal(&life));
        CHECK(weir_store_close(life.store, NULL));
    }
    if (CHECK(life_begin(&life))) {
        CHECK(check_all(&life));
        CHECK(weir_store_close(life.store, NULL));
    }
    return NULL;
}

TEST(every_allocation_may_fail)
{
    for (int64_t n = 0; n < 2000; n += 1 + n / 20) {
        pthread_t thread;
        int64_t left = n;
        if (!CHECK(pthread_create(&thread, NULL, run_one, &left) == 0))
            return;
        (void)pthread_join(thread, NULL);
        if (check.faults > 0)
            printf("# allocation %d\n", (int)n);
        if (left >= 0)
            break; /* it was never reached */
    }
    weir_clock_set(-1);
}
