/* SPDX-License-Identifier: MIT */
/*
 * The lock of src/os/lock.h: it excludes, a thread that sleeps on it is woken by the drop, and the drop does
 * not touch a lock that another thread may have freed.
 *
 * The code of the library is included, so that sleeps need not end by themselves.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/futex.h"

static bool endless; /* only a wake ends a sleep */

static void hooked_wait(_Atomic uint32_t *word, uint32_t value, int64_t monotonic_ns)
{
    weir_futex_wait(word, value, endless ? 0 : monotonic_ns);
}

#define weir_futex_wait hooked_wait
#include "os/lock.c" /* NOLINT(bugprone-suspicious-include) */
#undef weir_futex_wait

#include "check.h"
#include "threads/team.h"

static struct lock the_lock;

/* ---- sleepers ---- */

static _Atomic int sleeper_tid;
static _Atomic int rounds_done;

/* Is the thread asleep, by what the kernel says? */
static bool is_asleep(int tid)
{
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    FILE *file = fopen(path, "r");
    bool read = file && fgets(line, sizeof line, file);
    if (file)
        fclose(file);
    const char *state = read ? strrchr(line, ')') : NULL;
    return state && state[1] == ' ' && state[2] == 'S';
}

static bool sleeps_on_the_lock(void)
{
    return atomic_load(&the_lock.state) == LOCK_MARKED && is_asleep(atomic_load(&sleeper_tid));
}

static void take_and_drop(size_t self, void *arg)
{
    (void)self;
    const int *rounds = arg;
    atomic_store(&sleeper_tid, (int)syscall(SYS_gettid));
    for (int i = 0; i < *rounds; i++) {
        lock_take(&the_lock);
        atomic_store(&rounds_done, i + 1);
        lock_drop(&the_lock);
        while (atomic_load(&rounds_done) != -(i + 1)) /* until the lock is held again */
            team_yield();
    }
}

/* Without the wake the thread would sleep for ever, and the watchdog would bark. */
TEST(a_thread_that_sleeps_is_woken_by_the_drop)
{
    int rounds = 20;
    team_watch("a thread that sleeps on a lock");
    endless = true;
    atomic_store(&sleeper_tid, 0);
    atomic_store(&rounds_done, 0);
    lock_take(&the_lock);
    struct team *team = team_start(1, take_and_drop, &rounds);
    for (int i = 0; i < rounds; i++) {
        while (!sleeps_on_the_lock())
            team_yield();
        CHECK_EQ(atomic_load(&rounds_done), i == 0 ? 0 : -i);
        lock_drop(&the_lock);
        while (atomic_load(&rounds_done) != i + 1)
            team_yield();
        lock_take(&the_lock);
        atomic_store(&rounds_done, -(i + 1));
    }
    lock_drop(&the_lock);
    team_join(team);
    endless = false;
    team_watch_done();
}

/* ---- exclusion ---- */

enum { CROWD = 16 };
static int64_t total; /* under the lock */
static int64_t adds;  /* of each thread */

static void add_some(size_t self, void *arg)
{
    (void)arg;
    for (int64_t i = 0; i < adds; i++) {
        lock_take(&the_lock);
        int64_t before = total;
        if (i % 64 == (int64_t)self)
            (void)sched_yield(); /* a holder that loses its processor */
        total = before + 1;
        lock_drop(&the_lock);
    }
}

TEST(more_threads_than_processors_exclude_each_other)
{
    team_watch("a crowd at one lock");
    total = 0;
    adds = team_scaled(20000);
    team_run(CROWD, add_some, NULL);
    CHECK_EQ(total, CROWD * adds);
    team_watch_done();
}

/* ---- the end of a lock ---- */

static _Atomic(struct lock *) shared;

static void take_what_comes(size_t self, void *arg)
{
    (void)self;
    for (int i = 0; i < *(const int *)arg; i++) {
        struct lock *lock;
        while (!(lock = atomic_exchange(&shared, NULL)))
            team_yield();
        lock_drop(lock); /* it was handed over taken; the other thread frees it as soon as it has it */
    }
}

TEST(the_next_holder_may_free_the_lock)
{
    int locks = (int)team_scaled(20000);
    team_watch("locks that are freed");
    struct team *team = team_start(1, take_what_comes, &locks);
    for (int i = 0; i < locks; i++) {
        struct lock *lock = calloc(1, sizeof *lock);
        if (!CHECK(lock != NULL))
            return;
        lock_take(lock);
        atomic_store(&shared, lock);
        lock_take(lock);
        free(lock);
    }
    team_join(team);
    team_watch_done();
}
