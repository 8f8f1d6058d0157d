/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "service/leases/pools.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/humanize.h"
#include "base/sat.h"
#include "fleet/plan.h"
#include "service/leases/fleet_joiner.h"
#include "service/service.h"

/* ---- names ---- */

bool weir_pools_named(struct slice key)
{
    for (size_t i = 0; i < key.len; i++) {
        char byte = key.bytes[i];
        bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
        if (!letter && !(byte >= '0' && byte <= '9') && (byte == '\0' || !strchr("-_.:@", byte)))
            return false;
    }
    return key.len > 0 && key.len <= POOLS_KEY_MAX;
}

struct slice weir_pools_key(const struct fleet_pools *pools, struct slice key,
                            char digest[static POOLS_DIGEST])
{
    char text[65];
    if (!pools->each)
        return (struct slice){"", 0};
    if (weir_pools_named(key) && key.bytes[0] != '@')
        return key;
    struct digest sum = weir_sha256(key.bytes ? key.bytes : "", key.len);
    weir_digest_write(&sum, text);
    return (struct slice){digest, (size_t)snprintf(digest, POOLS_DIGEST, "@%.40s", text)};
}

const char *weir_pools_limit(const struct weir_fleet_stat *stat, char text[static POOLS_LIMIT_MAX])
{
    char total[HUMANIZE_MAX], burst[HUMANIZE_MAX], window[PLAN_WINDOW_MAX];
    (void)snprintf(text, POOLS_LIMIT_MAX, "%s %s%s%s", weir_humanize_number(stat->total, total),
                   weir_fleet_plan_window(stat->window_ns, window), stat->burst > 0 ? ", burst " : "",
                   stat->burst > 0 ? weir_humanize_number(stat->burst, burst) : "");
    return text;
}

/* ---- one ---- */

static struct pool_member *new_member(struct fleet_pools *pools, struct slice key, uint64_t hash,
                                      int64_t now_ns)
{
    struct pool_member *member = calloc(1, sizeof *member);
    if (!member)
        return NULL;
    if (pthread_mutex_init(&member->lent, NULL) != 0) {
        free(member);
        return NULL;
    }
    member->pools = pools;
    member->hash = hash;
    atomic_init(&member->used_ns, now_ns);
    (void)snprintf(member->name, sizeof member->name, "%s%s%.*s", pools->policy, pools->each ? ":" : "",
                   (int)min64((int64_t)key.len, POOLS_KEY_MAX), key.bytes);
    return member;
}

void weir_pool_free(struct pool_member *member)
{
    (void)pthread_mutex_destroy(&member->lent);
    free(member);
}

/* ---- all of them ---- */

static size_t bucket_of(const struct fleet_pools *pools, uint64_t hash)
{
    return (size_t)(hash & (pools->bucket_count - 1));
}

static pthread_mutex_t *bucket_lock(struct fleet_pools *pools, size_t bucket)
{
    return &pools->locks[bucket % POOLS_LOCKS];
}

/* Under the bucket's lock. */
static struct pool_member *find_pool_member(const struct fleet_pools *pools, size_t bucket, uint64_t hash)
{
    struct pool_member *member = pools->buckets[bucket];
    while (member && member->hash != hash)
        member = member->next;
    return member;
}

static struct pool_member *add_pool_member(struct fleet_pools *pools, struct slice key, uint64_t hash,
                                           int64_t now_ns)
{
    size_t bucket = bucket_of(pools, hash);
    if (atomic_load_explicit(&pools->count, memory_order_relaxed) >= pools->most)
        return NULL;
    struct pool_member *member = new_member(pools, key, hash, now_ns);
    if (!member)
        return NULL;
    member->next = pools->buckets[bucket];
    pools->buckets[bucket] = member;
    atomic_fetch_add_explicit(&pools->count, 1, memory_order_relaxed);
    return member;
}

struct pool_member *weir_pools_enter(struct fleet_pools *pools, struct slice key, uint64_t hash,
                                     int64_t now_ns, bool make)
{
    if (pools->one)
        return pools->one;
    size_t bucket = bucket_of(pools, hash);
    pthread_mutex_lock(bucket_lock(pools, bucket));
    struct pool_member *member = find_pool_member(pools, bucket, hash), *made = NULL;
    if (!member && make)
        member = made = add_pool_member(pools, key, hash, now_ns);
    if (member) {
        atomic_fetch_add_explicit(&member->users, 1, memory_order_relaxed);
        atomic_store_explicit(&member->used_ns, now_ns, memory_order_relaxed);
    }
    pthread_mutex_unlock(bucket_lock(pools, bucket));
    if (made && !pools->local) {
        weir_pools_want(made);
        weir_fleet_joiner_wake(pools->service->fleet_joiner, NULL);
    }
    return member;
}

void weir_pools_want(struct pool_member *member)
{
    struct pool_member *first = atomic_load_explicit(&member->pools->joining, memory_order_relaxed);
    atomic_store_explicit(&member->listed, true, memory_order_relaxed); /* its users leave after this */
    do
        member->next_joining = first;
    while (!atomic_compare_exchange_weak_explicit(&member->pools->joining, &first, member,
                                                  memory_order_release, memory_order_relaxed));
}

struct pool_member *weir_pools_wanted(struct fleet_pools *pools)
{
    struct pool_member *first = atomic_exchange_explicit(&pools->joining, NULL, memory_order_acquire);
    for (struct pool_member *member = first; member; member = member->next_joining)
        atomic_store_explicit(&member->listed, false, memory_order_relaxed);
    return first;
}

void weir_pools_leave(struct pool_member *member)
{
    if (member && member != member->pools->one)
        atomic_fetch_sub_explicit(&member->users, 1, memory_order_release);
}

void weir_pools_each(struct fleet_pools *pools, void (*each)(void *arg, struct pool_member *member),
                     void *arg)
{
    for (size_t i = 0; i < pools->bucket_count; i++) {
        pthread_mutex_lock(bucket_lock(pools, i));
        for (struct pool_member *member = pools->buckets[i]; member; member = member->next)
            each(arg, member);
        pthread_mutex_unlock(bucket_lock(pools, i));
    }
}

/* Those who use it count before they let go of the lock. */
static bool is_idle(const struct fleet_pools *pools, const struct pool_member *member, int64_t now_ns)
{
    int64_t after_ns = max64(POOLS_IDLE_NS, sat_mul(2, pools->terms.window_ns));
    return member != pools->one && atomic_load_explicit(&member->users, memory_order_acquire) == 0 &&
           !atomic_load_explicit(&member->listed, memory_order_relaxed) &&
           sat_sub(now_ns, atomic_load_explicit(&member->used_ns, memory_order_relaxed)) >= after_ns;
}

struct pool_member *weir_pools_idle(struct fleet_pools *pools, int64_t now_ns)
{
    struct pool_member *idle = NULL;
    for (size_t i = 0; pools->each && i < pools->bucket_count; i++) {
        pthread_mutex_lock(bucket_lock(pools, i));
        for (struct pool_member **link = &pools->buckets[i]; *link;) {
            struct pool_member *member = *link;
            if (!is_idle(pools, member, now_ns)) {
                link = &member->next;
                continue;
            }
            *link = member->next;
            member->out = true;
            member->next = idle;
            idle = member;
            ASSERT(!member->listed && member->users == 0);
            atomic_fetch_sub_explicit(&pools->count, 1, memory_order_relaxed);
        }
        pthread_mutex_unlock(bucket_lock(pools, i));
    }
    return idle;
}

/* ---- making ---- */

static bool same_options(const struct weir_fleet_options *one, const struct weir_fleet_options *other)
{
    return memcmp(one, other, sizeof *one) == 0; /* integers side by side, from memory that was cleared */
}

static bool is_as(const struct fleet_pools *pools, const struct config_fleet *fleet, const char *limits)
{
    return strcmp(pools->url, fleet->url) == 0 && strcmp(pools->limits, limits) == 0 &&
           pools->each == fleet->each && pools->most == max64(fleet->pools, 1) &&
           pools->wait_ns == fleet->wait_ns && pools->hold_ns == fleet->hold_ns &&
           pools->child_chunk == fleet->child_chunk && same_options(&pools->options, &fleet->options);
}

static bool fill_pools(struct fleet_pools *pools, const struct config_policy *from)
{
    const struct config_fleet *fleet = from->fleet;
    (void)snprintf(pools->policy, sizeof pools->policy, "%s", from->name);
    pools->url = strdup(fleet->url);
    pools->shown = strdup(fleet->shown);
    pools->limits = strdup(from->limits);
    pools->local = fleet->local;
    pools->each = fleet->each;
    pools->most = max64(fleet->pools, 1);
    pools->wait_ns = fleet->wait_ns;
    pools->hold_ns = fleet->hold_ns;
    pools->child_chunk = fleet->child_chunk;
    pools->options = fleet->options;
    pools->terms = fleet->terms;
    pools->bucket_count = 1;
    while (pools->each && pools->bucket_count < (size_t)pools->most)
        pools->bucket_count *= 2;
    pools->buckets = calloc(pools->bucket_count, sizeof(struct pool_member *));
    if (!pools->each && pools->buckets)
        pools->one = add_pool_member(pools, (struct slice){"", 0}, 0, weir_now());
    return pools->buckets && pools->url && pools->shown && pools->limits && (pools->each || pools->one);
}

static struct fleet_pools *make_pools(const struct config_policy *from)
{
    struct fleet_pools *pools = calloc(1, sizeof *pools);
    if (!pools)
        return NULL;
    atomic_init(&pools->refs, 1);
    bool good = true;
    for (size_t i = 0; i < POOLS_LOCKS; i++)
        good = pthread_mutex_init(&pools->locks[i], NULL) == 0 && good;
    if (good && fill_pools(pools, from))
        return pools;
    weir_pools_free(pools);
    return NULL;
}

struct fleet_pools *weir_pools_of(struct service *service, struct fleet_pools *has,
                                  const struct config_policy *from, int64_t time_ns, struct weir_error *err)
{
    if (has && is_as(has, from->fleet, from->limits))
        return weir_pools_ref(has);
    if (!service->fleet_joiner)
        service->fleet_joiner = weir_fleet_joiner_new();
    struct fleet_pools *pools = service->fleet_joiner ? make_pools(from) : NULL;
    if (!pools) {
        weir_error_set(err, ENOMEM, "out of memory, or no thread can be made: nothing was changed");
        return NULL;
    }
    pools->service = service;
    time_ns = max64(time_ns, 1);
    pools->epoch = (uint64_t)max64(time_ns, has ? (int64_t)has->epoch + 1 : 1);
    ASSERT(pools->epoch >= (uint64_t)time_ns && (!has || pools->epoch > has->epoch));
    pools->ahead = pools->epoch - (uint64_t)time_ns;
    pools->changed = has != NULL;
    if (pools->one && !pools->local)
        weir_pools_want(pools->one);
    weir_fleet_joiner_add(service->fleet_joiner, pools);
    return pools;
}

struct fleet_pools *weir_pools_ref(struct fleet_pools *pools)
{
    if (pools)
        atomic_fetch_add_explicit(&pools->refs, 1, memory_order_relaxed);
    return pools;
}

void weir_pools_drop(struct fleet_pools *pools)
{
    if (pools && atomic_fetch_sub_explicit(&pools->refs, 1, memory_order_acq_rel) == 1)
        weir_fleet_joiner_wake(pools->service->fleet_joiner, pools);
}

struct pool_member *weir_pools_pop(struct fleet_pools *pools)
{
    while (pools->buckets && pools->bucket_count > 0) {
        struct pool_member **first = &pools->buckets[pools->bucket_count - 1], *member = *first;
        if (member) {
            *first = member->next;
            return member;
        }
        pools->bucket_count--;
    }
    return NULL;
}

void weir_pools_free(struct fleet_pools *pools)
{
    struct pool_member *member;
    while ((member = weir_pools_pop(pools)))
        weir_pool_free(member);
    for (size_t i = 0; i < POOLS_LOCKS; i++)
        (void)pthread_mutex_destroy(&pools->locks[i]);
    free(pools->buckets);
    if (pools->url)
        weir_secret_wipe(pools->url, strlen(pools->url));
    free(pools->url);
    free(pools->shown);
    free(pools->limits);
    free(pools);
}
