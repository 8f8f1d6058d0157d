/* SPDX-License-Identifier: MIT */
/*
 * Many members at one coordinator: to join, to be found, to be listed and to leave does not take longer for
 * each because there are others.
 */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "check.h"
#include "fleet/member.h"
#include "os/futex.h"

enum { CROWD = 30000 };
#define MOST_NS (20 * WEIR_SEC) /* a tenth is enough; if each walked over all, it would be more */

/* Of the processor: what others do with it meanwhile, and how long it takes to wake up, is not counted. */
static int64_t used_ns(void)
{
    struct rusage used;
    (void)getrusage(RUSAGE_SELF, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * WEIR_SEC +
           (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000;
}

/* Waiting, and looking again, costs hardly any processor time, which is what is measured. */
static void wait_a_little(void)
{
    static _Atomic uint32_t nobody;
    weir_futex_wait(&nobody, 0, weir_monotonic_ns() + 20 * WEIR_MS);
}

/* ---- a coordinator that has nothing, and says so ---- */

static struct coordinator here;
static struct sink sink;
struct pool_handle {
    void *owner;
};

static struct coordinator *open_here(const struct server_url *url, const struct coordinator_options *options,
                                     const struct sink *told, struct weir_error *err)
{
    (void)url, (void)options, (void)err;
    sink = *told;
    return &here;
}

static void close_here(struct coordinator *coordinator)
{
    (void)coordinator;
}

static struct pool_handle *enter(struct coordinator *coordinator, const char *name,
                                 const struct lease_terms *terms, void *owner, struct weir_error *err)
{
    struct pool_handle *handle = malloc(sizeof *handle);
    (void)coordinator, (void)name, (void)terms, (void)err;
    if (handle)
        handle->owner = owner;
    return handle;
}

static void leave(struct pool_handle *handle)
{
    free(handle);
}

static void order(struct pool_handle *handle, const struct lease_order *order)
{
    struct lease_reply reply = {.id = order->id,
                                .op = order->op,
                                .outcome = LEASE_DONE,
                                .epoch = 1,
                                .terms = {LEASE_QUOTA, 100, 3600 * WEIR_SEC, 0, 10, 10},
                                .exhausted = true,
                                .retry_ns = 3600 * WEIR_SEC,
                                .age_ns = 0,
                                .ends_ns = 3600 * WEIR_SEC};
    sink.replied(handle->owner, &reply);
}

static const struct coordinator_ops ops = {
    .open = open_here, .close = close_here, .enter = enter, .leave = leave, .order = order};

const struct coordinator_ops *__wrap_weir_coordinator_kind(const struct server_url *url,
                                                           struct weir_error *err);

const struct coordinator_ops *__wrap_weir_coordinator_kind(const struct server_url *url,
                                                           struct weir_error *err)
{
    (void)url, (void)err;
    return &ops;
}

/* ---- the crowd ---- */

static struct weir_limiter *join(int number)
{
    struct weir_error err;
    char name[32];
    (void)snprintf(name, sizeof name, "user:%d", number);
    return weir_member_join("crowd://here", name, "100/h algo=quota", NULL, true, &err);
}

static void count_name(void *arg, const char *name)
{
    *(size_t *)arg += strncmp(name, "user:", 5) == 0;
}

TEST(a_crowd_joins_is_listed_and_leaves)
{
    static struct weir_limiter *members[CROWD];
    int count = 0;
    size_t told = 0;
    while (count < CROWD && used_ns() < MOST_NS && CHECK((members[count] = join(count)) != NULL))
        count++;
    CHECK_EQ(count, CROWD);
    for (int i = 0; i < count; i++)
        CHECK(!weir_limiter_take(members[i], 1, NULL));
    for (int i = 0; i < count; i += 97) {
        struct weir_limiter *same = join(i);
        CHECK(same == members[i]);
        weir_limiter_free(same);
    }
    while (weir_fleet_exhausted(NULL, NULL) < (size_t)count && used_ns() < MOST_NS)
        wait_a_little();
    CHECK_EQ(weir_fleet_exhausted(count_name, &told), count);
    CHECK_EQ(told, count);
    for (int i = 0; i < count; i++)
        weir_limiter_free(members[i]);
    /* Who leaves does not wait for a thread that is slow. */
    while (weir_fleet_exhausted(NULL, NULL) > 0 && used_ns() < MOST_NS)
        wait_a_little();
    CHECK(used_ns() < MOST_NS);
    CHECK_EQ(weir_fleet_exhausted(NULL, NULL), 0);
}
