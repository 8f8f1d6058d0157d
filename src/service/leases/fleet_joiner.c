/* SPDX-License-Identifier: MIT */
/*
 * The fleet joiner: a thread of the service that joins fleets and leaves them, both of which may take long,
 * and that says in the log when a coordinator is lost or is there again. It alone frees pools and members.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/sat.h"
#include "os/futex.h"
#include "service/leases/fleet_joiner.h"
#include "service/log.h"
#include "service/service.h"

#define LOOK_NS WEIR_SEC /* how often it looks who is idle, and who is lost */
#define RETRY_NS                                                                                             \
    (50 * WEIR_MS)    /* between attempts to join: the old member of that name may not be gone yet */
#define PATIENT    20 /* attempts before that is worth a line of the log */
#define GOODBYE_NS (3 * WEIR_SEC) /* at the end: all of them together */

struct fleet_joiner {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct fleet_pools *all; /* under the lock */
    bool called, stops;
    int64_t until_ns; /* at the end: nobody waits longer */
    /* The thread's own. */
    bool ends;
    int64_t looked_ns;
};

/* ---- joining ---- */

/* By agents' threads. */
static void on_fleet_progress(void *arg)
{
    struct service *service = arg;
    if (service->options.fleet_moved)
        service->options.fleet_moved(service->options.fleet_moved_arg);
}

static void join_pool(struct pool_member *member)
{
    struct fleet_pools *pools = member->pools;
    struct weir_error err = {0};
    struct weir_limiter *limiter =
        weir_member_join(pools->url, member->name, pools->limits, &pools->options, true, &err);
    if (!limiter) {
        member->retry_ns = sat_add(weir_monotonic_ns(), RETRY_NS);
        weir_pools_want(member);
        if (++pools->failures == PATIENT)
            weir_log(LOG_WARN_LEVEL, "fleet-not-joined", LOG_TEXT("policy", pools->policy),
                     LOG_TEXT("coordinator", pools->shown), LOG_TEXT("why", err.text));
        return;
    }
    weir_member_watch(limiter, on_fleet_progress, pools->service);
    atomic_store_explicit(&member->limiter, limiter, memory_order_release);
    on_fleet_progress(pools->service);
}

/* A process has one member of a name at a coordinator. So before those of a policy that has changed are
 * joined, those of before have to be gone; unless nothing has changed that members know of: they are shared
 * then. */
static bool is_in_the_way(const struct fleet_pools *other, const struct fleet_pools *pools)
{
    return other != pools && strcmp(other->policy, pools->policy) == 0 &&
           strcmp(other->url, pools->url) == 0 &&
           (strcmp(other->limits, pools->limits) != 0 ||
            memcmp(&other->options, &pools->options, sizeof pools->options) != 0);
}

static bool must_wait_to_join(const struct fleet_pools *pools, const struct fleet_pools *first)
{
    for (; first; first = first->next)
        if (is_in_the_way(first, pools))
            return true;
    return false;
}

/* Nobody else takes members out. `all` and `gone` are those that there are. */
static void join_all_pools(struct fleet_pools *pools, const struct fleet_pools *all,
                           const struct fleet_pools *gone)
{
    if (must_wait_to_join(pools, all) || must_wait_to_join(pools, gone))
        return;
    struct pool_member *next, *first = weir_pools_wanted(pools);
    for (struct pool_member *member = first; member; member = next) {
        next = member->next_joining;
        if (member->retry_ns <= weir_monotonic_ns())
            join_pool(member);
        else
            weir_pools_want(member);
    }
}

/* ---- leaving ---- */

static void leave_pool(struct fleet_joiner *fleet_joiner, struct pool_member *member)
{
    struct weir_limiter *limiter = pool_limiter(member);
    if (limiter && fleet_joiner->ends) {
        weir_member_watch(limiter, NULL, NULL);
        if (weir_monotonic_ns() >= fleet_joiner->until_ns)
            limiter = NULL; /* the process ends: what it holds dies with its window */
    }
    weir_limiter_free(limiter);
    weir_pool_free(member);
}

static void leave_all_pools(struct fleet_joiner *fleet_joiner, struct fleet_pools *pools)
{
    struct pool_member *member;
    while ((member = weir_pools_pop(pools)))
        leave_pool(fleet_joiner, member);
    weir_pools_free(pools);
}

/* ---- looking ---- */

struct pools_look {
    int64_t now_ns, joined, lost;
    struct weir_fleet_stat other; /* of a pool with another limit; epoch 0: there is none */
    char trouble[160];
    char hindrance[160]; /* of one that is not lost */
};

static void look_at(void *arg, struct pool_member *member)
{
    struct pools_look *look = arg;
    struct weir_limiter *limiter = pool_limiter(member);
    struct weir_fleet_stat stat = {0};
    if (!limiter || !weir_fleet_stat(limiter, &stat))
        return;
    look->joined++;
    if (pools_differ(member->pools, &stat))
        look->other = stat;
    int64_t since_ns = atomic_load_explicit(&member->lost_ns, memory_order_relaxed);
    if (!stat.lost)
        atomic_store_explicit(&member->lost_ns, 0, memory_order_relaxed);
    else if (since_ns == 0)
        atomic_store_explicit(&member->lost_ns, look->now_ns, memory_order_relaxed);
    if (stat.lost && look->lost++ == 0)
        weir_member_trouble(limiter, look->trouble, sizeof look->trouble);
    if (!stat.lost && stat.connected && stat.epoch != 0 && !look->hindrance[0] && !member->pools->hindered)
        weir_member_trouble(limiter, look->hindrance, sizeof look->hindrance);
}

/* A line for a policy, not for each of its keys. */
static void log_coordinator_lost(struct fleet_pools *pools, const struct pools_look *look)
{
    if (look->lost > 0 && !pools->lost)
        weir_log(LOG_WARN_LEVEL, "fleet-lost", LOG_TEXT("policy", pools->policy),
                 LOG_TEXT("coordinator", pools->shown), LOG_TEXT("why", look->trouble),
                 LOG_TEXT("means", pools->options.on_loss == WEIR_FLEET_SHARE
                                       ? "what is held is spent, then this server's share passes"
                                       : "what is held is spent, then everything is refused"));
    if (look->lost == 0 && pools->lost)
        weir_log(LOG_INFO_LEVEL, "fleet-restored", LOG_TEXT("policy", pools->policy),
                 LOG_TEXT("coordinator", pools->shown));
    pools->lost = look->lost > 0;
}

/* It answers, but not everything: that chunks do not go back, above all. Once. */
static void tell_hindrance(struct fleet_pools *pools, const struct pools_look *look)
{
    if (!look->hindrance[0])
        return;
    pools->hindered = true;
    weir_log(LOG_WARN_LEVEL, "fleet-hindered", LOG_TEXT("policy", pools->policy),
             LOG_TEXT("coordinator", pools->shown), LOG_TEXT("why", look->hindrance));
}

/* Once for each limit that it has instead. */
static void tell_other(struct fleet_pools *pools, const struct weir_fleet_stat *stat)
{
    char limit[POOLS_LIMIT_MAX];
    if (stat->epoch == 0 || (pools->other.total == stat->total && pools->other.burst == stat->burst &&
                             pools->other.window_ns == stat->window_ns))
        return;
    pools->other.total = stat->total;
    pools->other.window_ns = stat->window_ns;
    pools->other.burst = stat->burst;
    weir_log(LOG_WARN_LEVEL, "fleet-differs", LOG_TEXT("policy", pools->policy),
             LOG_TEXT("coordinator", pools->shown), LOG_TEXT("limits", pools->limits),
             LOG_TEXT("pool", weir_pools_limit(stat, limit)),
             LOG_TEXT("means",
                      "the pool was there with another limit, and that holds; weir quota set changes it, "
                      "or give the policy another name"));
}

/* Also those that could not be joined for so long. */
static struct pool_member *take_idle(struct fleet_pools *pools, int64_t now_ns)
{
    struct pool_member *next, *first = weir_pools_wanted(pools), *idle = weir_pools_idle(pools, now_ns);
    for (struct pool_member *member = first; member; member = next) {
        next = member->next_joining;
        if (!member->out)
            weir_pools_want(member);
    }
    return idle;
}

static void look_after(struct fleet_joiner *fleet_joiner, struct fleet_pools *pools,
                       const struct fleet_pools *all, int64_t now_ns)
{
    struct pools_look look = {.now_ns = now_ns};
    if (!pools->local) {
        weir_pools_each(pools, look_at, &look);
        log_coordinator_lost(pools, &look);
        tell_hindrance(pools, &look);
        tell_other(pools, &look.other);
    }
    struct pool_member *idle = take_idle(pools, now_ns);
    while (idle) {
        struct pool_member *next = idle->next;
        leave_pool(fleet_joiner, idle);
        idle = next;
        join_all_pools(pools, all, NULL); /* nobody new waits for those who go */
    }
}

/* ---- the thread ---- */

/* Takes those out that are gone. Under the lock. */
static struct fleet_pools *take_gone(struct fleet_joiner *fleet_joiner)
{
    struct fleet_pools *gone = NULL;
    for (struct fleet_pools **link = &fleet_joiner->all; *link;) {
        struct fleet_pools *pools = *link;
        if (!pools->gone) {
            link = &pools->next;
            continue;
        }
        *link = pools->next;
        pools->next = gone;
        gone = pools;
    }
    return gone;
}

/* The list only grows at its front while the lock is free: what stands behind its first stays. */
static void work_on_pools(struct fleet_joiner *fleet_joiner, struct fleet_pools *first,
                          struct fleet_pools *gone)
{
    int64_t now_ns = weir_monotonic_ns(); /* which goes on also where weir_now is set by hand */
    bool looks = sat_sub(now_ns, fleet_joiner->looked_ns) >= LOOK_NS;
    for (struct fleet_pools *pools = first; pools; pools = pools->next)
        join_all_pools(pools, first, gone);
    while (gone) {
        struct fleet_pools *next = gone->next;
        leave_all_pools(fleet_joiner, gone);
        gone = next;
        for (struct fleet_pools *pools = first; pools; pools = pools->next)
            join_all_pools(pools, first, gone);
    }
    for (struct fleet_pools *pools = first; looks && pools; pools = pools->next)
        look_after(fleet_joiner, pools, first, weir_now());
    if (looks)
        fleet_joiner->looked_ns = now_ns;
}

/* Under the lock. */
static bool is_waited_for(const struct fleet_joiner *fleet_joiner)
{
    for (const struct fleet_pools *pools = fleet_joiner->all; pools; pools = pools->next)
        if (atomic_load_explicit(&pools->joining, memory_order_relaxed))
            return true;
    return false;
}

static struct timespec timespec_of_ns(int64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / WEIR_SEC), .tv_nsec = (long)(ns % WEIR_SEC)};
}

static void *run_fleet_joiner(void *arg)
{
    struct fleet_joiner *fleet_joiner = arg;
    pthread_mutex_lock(&fleet_joiner->lock);
    for (;;) {
        fleet_joiner->ends = fleet_joiner->stops;
        struct fleet_pools *gone = take_gone(fleet_joiner), *first = fleet_joiner->all;
        fleet_joiner->called = false;
        pthread_mutex_unlock(&fleet_joiner->lock);
        work_on_pools(fleet_joiner, first, gone);
        pthread_mutex_lock(&fleet_joiner->lock);
        if (fleet_joiner->ends)
            break;
        struct timespec until =
            timespec_of_ns(weir_monotonic_ns() + (is_waited_for(fleet_joiner) ? RETRY_NS : LOOK_NS));
        while (!fleet_joiner->called &&
               pthread_cond_timedwait(&fleet_joiner->wake, &fleet_joiner->lock, &until) == 0)
            ;
    }
    pthread_mutex_unlock(&fleet_joiner->lock);
    return NULL;
}

struct fleet_joiner *weir_fleet_joiner_new(void)
{
    struct fleet_joiner *fleet_joiner = calloc(1, sizeof *fleet_joiner);
    pthread_condattr_t monotonic;
    if (!fleet_joiner || pthread_condattr_init(&monotonic) != 0) {
        free(fleet_joiner);
        return NULL;
    }
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&fleet_joiner->lock, NULL);
    (void)pthread_cond_init(&fleet_joiner->wake, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    if (pthread_create(&fleet_joiner->thread, NULL, run_fleet_joiner, fleet_joiner) == 0)
        return fleet_joiner;
    (void)pthread_cond_destroy(&fleet_joiner->wake);
    (void)pthread_mutex_destroy(&fleet_joiner->lock);
    free(fleet_joiner);
    return NULL;
}

void weir_fleet_joiner_add(struct fleet_joiner *fleet_joiner, struct fleet_pools *pools)
{
    pthread_mutex_lock(&fleet_joiner->lock);
    pools->next = fleet_joiner->all;
    fleet_joiner->all = pools;
    fleet_joiner->called = true;
    pthread_cond_signal(&fleet_joiner->wake);
    pthread_mutex_unlock(&fleet_joiner->lock);
}

void weir_fleet_joiner_wake(struct fleet_joiner *fleet_joiner, struct fleet_pools *gone)
{
    pthread_mutex_lock(&fleet_joiner->lock);
    if (gone)
        gone->gone = true;
    fleet_joiner->called = true;
    pthread_cond_signal(&fleet_joiner->wake);
    pthread_mutex_unlock(&fleet_joiner->lock);
}

void weir_fleet_joiner_free(struct fleet_joiner *fleet_joiner)
{
    if (!fleet_joiner)
        return;
    pthread_mutex_lock(&fleet_joiner->lock);
    fleet_joiner->stops = fleet_joiner->called = true;
    fleet_joiner->until_ns = sat_add(weir_monotonic_ns(), GOODBYE_NS);
    pthread_cond_signal(&fleet_joiner->wake);
    pthread_mutex_unlock(&fleet_joiner->lock);
    (void)pthread_join(fleet_joiner->thread, NULL);
    (void)pthread_cond_destroy(&fleet_joiner->wake);
    (void)pthread_mutex_destroy(&fleet_joiner->lock);
    free(fleet_joiner);
}
