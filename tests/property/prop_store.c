/* SPDX-License-Identifier: MIT */
/*
 * What a store has let go is there again, whatever disk and power do: random histories on a simulated disk,
 * against an account that is kept outside. WEIR_STORE_HISTORIES says how many, WEIR_STORE_FIRST with which
 * number to begin, WEIR_SEED or -s which ones. One that fails is told again, with all that happens in it.
 */
#define _GNU_SOURCE
#include "check.h"
#include "property/store_history.h"

/* The same hashes, names and ids in every run, and in every history. */
static struct rng lots;

ssize_t __wrap_getrandom(void *bytes, size_t len, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t len, unsigned flags)
{
    (void)flags;
    for (size_t i = 0; i < len; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)rng_next(&lots);
    return (ssize_t)len;
}

/* Many tables are made here, and hardly used: pages of 2 MiB would cost most of the time. */
int __wrap_madvise(void *memory, size_t bytes, int advice);
int __wrap_madvise(void *memory, size_t bytes, int advice)
{
    (void)memory, (void)bytes, (void)advice;
    return 0;
}

static bool tell(const struct scene *scene, uint64_t number, bool trace)
{
    lots.state = check.seed ^ number << 20;
    return history_run(scene, check.seed, number, trace);
}

static void tell_all(const struct scene *scene)
{
    uint64_t count = (uint64_t)check_env("WEIR_STORE_HISTORIES", 2000) / 2;
    uint64_t first = (uint64_t)check_env("WEIR_STORE_FIRST", 0), number = first;
    int64_t progress = check_env("WEIR_STORE_PROGRESS", 0);
    memset(&history_counts, 0, sizeof history_counts);
    for (; number < first + count; number++) {
        if (progress > 0 && number > first && (number - first) % (uint64_t)progress == 0) {
            printf("# %s: %" PRIu64 " histories\n", scene->name, number - first);
            fflush(stdout);
        }
        if (CHECK(tell(scene, number, false)))
            continue;
        printf("# %s: broken by history %" PRIu64 "; to repeat it: WEIR_SEED=%" PRIu64
               " WEIR_STORE_FIRST=%" PRIu64 " WEIR_STORE_HISTORIES=2\n",
               scene->name, number, check.seed, number);
        if (tell(scene, number, true))
            printf("# it does not fail a second time\n");
        break;
    }
    const struct history_counts *all = &history_counts;
    printf("# %s: %" PRIu64 " histories from %" PRIu64 " on, %" PRIu64 " lives, %" PRIu64
           " requests, %" PRIu64 " answers, %" PRIu64 " faults, %" PRIu64 " kills, %" PRIu64
           " power cuts, %" PRIu64 " ends in order, %" PRIu64 " recoveries (%" PRIu64 " unsure, %" PRIu64
           " broken off)\n",
           scene->name, number - first, first, all->lives, all->requests, all->answers, all->faults,
           all->kills, all->cuts, all->closes, all->recoveries, all->lost, all->broken);
}

TEST(tables_survive)
{
    tell_all(&scene_tables);
}

TEST(a_service_survives)
{
    tell_all(&scene_service);
}
