/* SPDX-License-Identifier: MIT */
/*
 * When may a snapshot be freed? An epoch counts the snapshots that were published. A worker that begins a
 * read section notes the epoch in worker->read_epoch, as 2 * epoch + 1, and then reads the pointer; between
 * read sections it says an even number. Who publishes stores the pointer first and moves the epoch on then.
 * So a worker whose read section says a later epoch than the one in which a snapshot was retired has read the
 * pointer after that snapshot was taken out, and one that says "between read sections" will. All of these
 * loads and stores are sequentially consistent: a worker that was seen between read sections enters its read
 * section after that, and reads the pointer later still.
 */
#include "service/policies/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/sat.h"
#include "base/text.h"
#include "service/persist/persist.h"
#include "service/policies/growth.h"
#include "service/service.h"
#include "table/change.h"
#include "table/top.h"

#define EMPTY UINT32_MAX

/* ---- names ---- */

/* The names in the index are the operator's, so nobody can choose them to collide: a quick hash is enough. */
static inline uint32_t hash_name(struct slice name)
{
    const unsigned char *at = (const unsigned char *)name.bytes;
    uint64_t hash = name.len * UINT64_C(0x9E3779B97F4A7C15);
    for (size_t i = 0; i + 8 <= name.len; i += 8)
        hash = (hash ^ sip_load64(at + i)) * UINT64_C(0xD6E8FEB86659FD93);
    hash = (hash ^ sip_rest(at, name.len)) * UINT64_C(0xD6E8FEB86659FD93);
    return (uint32_t)(hash >> 32);
}

static bool is_policy_name(const struct policy *policy, struct slice name)
{
    return memcmp(policy->name, name.bytes, name.len) == 0 && policy->name[name.len] == '\0' &&
           name.bytes[name.len - 1] != '\0'; /* behind a name there are NULs, which are not part of it */
}

struct policy *weir_snapshot_policy(const struct snapshot *snapshot, struct slice name)
{
    if (name.len == 0 || name.len > CONFIG_NAME_MAX || snapshot->index_size == 0)
        return NULL;
    size_t mask = snapshot->index_size - 1;
    for (size_t at = hash_name(name) & mask;; at = (at + 1) & mask) {
        uint32_t number = snapshot->index[at];
        if (number == EMPTY)
            return NULL;
        if (is_policy_name(snapshot->policies[number], name)) {
            ASSERT(strlen(snapshot->policies[number]->name) == name.len);
            return snapshot->policies[number];
        }
    }
}

struct policy *weir_snapshot_tier(const struct snapshot *snapshot, const struct policy *policy, size_t tier)
{
    ASSERT(policy->address && tier > 0 && tier < policy->address->tier_count);
    const char *name = policy->address->tiers[tier].name;
    struct policy *found = weir_snapshot_policy(snapshot, (struct slice){name, strlen(name)});
    ASSERT(found && found->is_tier); /* both come and go with the file */
    return found;
}

struct policy_table *weir_snapshot_policy_table(const struct snapshot *snapshot, uint64_t serial)
{
    size_t low = 0, high = snapshot->ptable_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (snapshot->ptables[middle]->serial < serial)
            low = middle + 1;
        else
            high = middle;
    }
    return low < snapshot->ptable_count && snapshot->ptables[low]->serial == serial ? snapshot->ptables[low]
                                                                                    : NULL;
}

struct policy *weir_snapshot_pool(const struct snapshot *snapshot, struct slice name, struct slice *key)
{
    struct policy *policy = weir_snapshot_policy(snapshot, name);
    *key = (struct slice){"", 0};
    for (size_t i = 0; !policy && i < name.len; i++) {
        if (name.bytes[i] != ':')
            continue;
        policy = weir_snapshot_policy(snapshot, (struct slice){name.bytes, i});
        if (policy && !(policy->pools && policy->pools->each))
            policy = NULL;
        *key = (struct slice){name.bytes + i + 1, name.len - i - 1};
    }
    return policy;
}

struct policy *weir_snapshot_leases(const struct snapshot *snapshot, uint64_t serial)
{
    for (size_t i = 0; snapshot->any_leases && i < snapshot->policy_count; i++)
        if (snapshot->policies[i]->leases && snapshot->policies[i]->main->serial == serial)
            return snapshot->policies[i];
    return NULL;
}

const char *weir_snapshot_near(const struct snapshot *snapshot, struct slice name)
{
    struct nearest near = weir_nearest(name.bytes, name.len);
    for (size_t i = 0; i < snapshot->policy_count; i++)
        (void)weir_nearest_try(&near, snapshot->policies[i]->name);
    return near.found;
}

/* ---- making ---- */

struct snapshot *weir_snapshot_copy(const struct snapshot *snapshot)
{
    struct snapshot *copy = calloc(1, sizeof *copy);
    if (!copy)
        return NULL;
    copy->mode_for_all = snapshot->mode_for_all;
    copy->all_mode = snapshot->all_mode;
    copy->all_until_ms = snapshot->all_until_ms;
    copy->loaded_ms = snapshot->loaded_ms;
    copy->http = weir_http_rules_ref(snapshot->http);
    copy->users = snapshot->users ? weir_users_copy(snapshot->users) : NULL;
    copy->policies = calloc(snapshot->policy_count + 1, sizeof *copy->policies);
    if (!copy->policies || (!copy->users && snapshot->users)) {
        weir_snapshot_free(copy);
        return NULL;
    }
    for (size_t i = 0; i < snapshot->policy_count; i++) {
        weir_policy_ref(snapshot->policies[i]);
        copy->policies[copy->policy_count++] = snapshot->policies[i];
    }
    return copy;
}

/* Where a policy of that name is, or belongs. */
static size_t policy_place(const struct snapshot *snapshot, const char *name, bool *there)
{
    size_t low = 0, high = snapshot->policy_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(snapshot->policies[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *there = low < snapshot->policy_count && strcmp(snapshot->policies[low]->name, name) == 0;
    return low;
}

bool weir_snapshot_put(struct snapshot *snapshot, const char *name, struct policy *policy)
{
    bool there;
    size_t at = policy_place(snapshot, name, &there), behind = snapshot->policy_count - at;
    if (there)
        weir_policy_drop(snapshot->policies[at]);
    if (there && policy) {
        snapshot->policies[at] = policy;
    } else if (there) {
        memmove(snapshot->policies + at, snapshot->policies + at + 1, (behind - 1) * sizeof policy);
        snapshot->policy_count--;
    } else if (policy) {
        struct policy **more = realloc(snapshot->policies, (snapshot->policy_count + 1) * sizeof *more);
        if (!more) {
            weir_policy_drop(policy);
            return false;
        }
        memmove(more + at + 1, more + at, behind * sizeof policy);
        more[at] = policy;
        snapshot->policies = more;
        snapshot->policy_count++;
    }
    return true;
}

static int by_serial(const void *one, const void *other)
{
    uint64_t a = (*(struct policy_table *const *)one)->serial,
             b = (*(struct policy_table *const *)other)->serial;
    return a < b ? -1 : a > b;
}

static bool list_policy_tables(struct snapshot *snapshot)
{
    size_t most = 0;
    for (size_t i = 0; i < snapshot->policy_count; i++)
        most += 3 + snapshot->policies[i]->prefix_count;
    snapshot->ptables = calloc(most + 1, sizeof *snapshot->ptables);
    if (!snapshot->ptables)
        return false;
    snapshot->any_frozen = snapshot->any_leases = snapshot->any_headers = snapshot->any_tiers = false;
    for (size_t i = 0; i < snapshot->policy_count; i++) {
        snapshot->any_frozen |= snapshot->policies[i]->frozen_count > 0;
        snapshot->any_leases |= snapshot->policies[i]->leases;
        const struct address_rules *address = snapshot->policies[i]->address;
        snapshot->any_tiers |= address && address->tier_count > 1;
        snapshot->any_headers |= snapshot->policies[i]->settings.headers > 0;
    }
    for (size_t i = 0; i < snapshot->policy_count; i++)
        snapshot->ptable_count +=
            weir_policy_tables(snapshot->policies[i], snapshot->ptables + snapshot->ptable_count);
    qsort(snapshot->ptables, snapshot->ptable_count, sizeof *snapshot->ptables, by_serial);
    for (size_t i = 1; i < snapshot->ptable_count; i++) /* no serial is used twice */
        INVARIANT(27, snapshot->ptables[i - 1]->serial < snapshot->ptables[i]->serial);
    return true;
}

bool weir_snapshot_seal(struct snapshot *snapshot)
{
    size_t size = 8;
    while (size < 4 * snapshot->policy_count)
        size *= 2;
    free(snapshot->index);
    free(snapshot->ptables);
    snapshot->ptables = NULL;
    snapshot->ptable_count = 0;
    snapshot->index = malloc(size * sizeof *snapshot->index);
    snapshot->index_size = snapshot->index ? size : 0;
    if (!snapshot->index || !list_policy_tables(snapshot))
        return false;
    for (size_t i = 0; i < size; i++)
        snapshot->index[i] = EMPTY;
    for (size_t i = 0; i < snapshot->policy_count; i++)
        if (!weir_limit_counters_make(snapshot->policies[i]))
            return false;
    for (size_t i = 0; i < snapshot->policy_count; i++) {
        const char *name = snapshot->policies[i]->name;
        INVARIANT(26, i == 0 || strcmp(snapshot->policies[i - 1]->name, name) < 0);
        size_t at = hash_name((struct slice){name, strlen(name)}) & (size - 1);
        while (snapshot->index[at] != EMPTY)
            at = (at + 1) & (size - 1);
        snapshot->index[at] = (uint32_t)i;
    }
    return true;
}

void weir_snapshot_free(struct snapshot *snapshot)
{
    if (!snapshot)
        return;
    for (size_t i = 0; i < snapshot->policy_count; i++)
        weir_policy_drop(snapshot->policies[i]);
    weir_users_free((struct users *)(uintptr_t)snapshot->users);
    weir_http_rules_drop(snapshot->http);
    free(snapshot->policies);
    free(snapshot->index);
    free(snapshot->ptables);
    free(snapshot);
}

/* ---- read sections ---- */

void weir_read_begin(struct worker *worker)
{
    struct service *service = worker->service;
    uint64_t epoch = atomic_load_explicit(&service->epoch, memory_order_seq_cst);
    atomic_store_explicit(&worker->read_epoch, 2 * epoch + 1, memory_order_seq_cst);
    INVARIANT(26, worker->read_epoch % 2 == 1);
    worker->snapshot = atomic_load_explicit(&service->snapshot, memory_order_seq_cst);
    worker->now_ns = weir_now();
    if (!worker->began) {
        worker->began = true;
        weir_top_begin();
    }
}

/* The epoch that the read section began in is the older one, so whatever could be seen since then is kept. */
void weir_read_renew(struct worker *worker)
{
    worker->snapshot = atomic_load_explicit(&worker->service->snapshot, memory_order_seq_cst);
    worker->now_ns = weir_now();
}

void weir_read_end(struct worker *worker)
{
    worker->snapshot = NULL;
    atomic_store_explicit(&worker->read_epoch, 0, memory_order_release);
}

/* A live change of limits comes before the snapshot that tells of it. So when nobody sees an older snapshot,
 * nobody uses limits from before it either. */
static void record_limit_generations(const struct snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->ptable_count; i++)
        snapshot->ptables[i]->generation =
            atom_load(&snapshot->ptables[i]->table->region->header->generation, memory_order_acquire);
}

static void forget_limits(const struct snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->ptable_count; i++) {
        struct policy_table *ptable = snapshot->ptables[i];
        if (ptable->forgotten == ptable->generation)
            continue;
        weir_table_forget(ptable->table, ptable->generation);
        ptable->forgotten = ptable->generation;
    }
}

/* Nobody asks a previous policy table alone any more: from now on it need be asked only as long as it
 * remembers. */
static void end_previous_tables(struct service *service, const struct snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->policy_count; i++) {
        const struct policy *policy = snapshot->policies[i];
        if (policy_previous_ends(policy) != WEIR_FOREVER)
            continue;
        atomic_store_explicit(&policy->previous->ends_ns, sat_add(weir_now(), policy->previous_for_ns),
                              memory_order_relaxed);
        service->upkeep.next_end_ns = 0;
        persist_owe(service);
    }
}

void weir_snapshot_publish(struct service *service, struct snapshot *next)
{
    INVARIANT(26, next->index_size > next->policy_count && next->ptables); /* it is sealed */
    record_limit_generations(next);
    weir_growth_serve(service, next);
    struct snapshot *old = atomic_exchange_explicit(&service->snapshot, next, memory_order_seq_cst);
    uint64_t epoch = atomic_fetch_add_explicit(&service->epoch, 1, memory_order_seq_cst);
    if (old) {
        old->retired_in = epoch;
        old->retired = service->retired;
        service->retired = old;
    }
}

/* docs/internals/server.md, 26: no read section can see it. */
static void check_unseen(const struct service *service, const struct snapshot *snapshot)
{
#if WEIR_ASSERTIONS
    INVARIANT(26, snapshot != service->snapshot);
    for (uint32_t i = 0; i <= service->options.workers; i++) {
        uint64_t read_epoch = service->workers[i].read_epoch;
        INVARIANT(26, read_epoch % 2 == 0 || read_epoch / 2 > snapshot->retired_in);
    }
#else
    (void)service, (void)snapshot;
#endif
}

void weir_snapshot_collect(struct service *service)
{
    uint64_t growing = atomic_load_explicit(&service->growth.read_epoch, memory_order_seq_cst);
    uint64_t oldest = growing % 2 == 1 ? growing / 2 : UINT64_MAX;
    for (uint32_t i = 0; i <= service->options.workers; i++) {
        uint64_t read_epoch = atomic_load_explicit(&service->workers[i].read_epoch, memory_order_seq_cst);
        if (read_epoch % 2 == 1 && read_epoch / 2 < oldest)
            oldest = read_epoch / 2;
    }
    for (struct snapshot **link = &service->retired; *link;) {
        struct snapshot *snapshot = *link;
        if (snapshot->retired_in < oldest) {
            check_unseen(service, snapshot);
            *link = snapshot->retired;
            weir_snapshot_free(snapshot);
        } else {
            link = &snapshot->retired;
        }
    }
    if (service->retired)
        return;
    const struct snapshot *snapshot = atomic_load_explicit(&service->snapshot, memory_order_relaxed);
    forget_limits(snapshot);
    end_previous_tables(service, snapshot);
}
