/* SPDX-License-Identifier: MIT */
#include "service/policies/policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sat.h"
#include "config/read_policy.h"
#include "core/explain.h"
#include "store/commit.h"
#include "store/store.h"
#include "table/persist/persist.h"

#define POLICY_TABLE_KEYS 4096 /* room of a policy table that was told nothing: it grows */

/* ---- policy tables ---- */

static _Atomic uint64_t last_serial = POLICY_TABLE_FIRST - 1;

uint64_t weir_policy_table_last(void)
{
    return atomic_load_explicit(&last_serial, memory_order_relaxed);
}

void weir_policy_table_begin_above(uint64_t serial)
{
    uint64_t last = weir_policy_table_last();
    while (last < serial && !atomic_compare_exchange_weak_explicit(
                                &last_serial, &last, serial, memory_order_relaxed, memory_order_relaxed)) {
    }
}

struct policy_table *weir_policy_table_of(struct weir_table *table, uint64_t serial, struct weir_error *err)
{
    struct policy_table *ptable = table ? calloc(1, sizeof *ptable) : NULL;
    if (!ptable) {
        if (table)
            weir_error_set(err, ENOMEM, "out of memory");
        weir_table_free(table);
        return NULL;
    }
    struct weir_table_info info;
    weir_table_stat(table, &info);
    ptable->table = table;
    ptable->bytes = info.bytes;
    ptable->serial =
        serial > 0 ? serial : atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed) + 1;
    atomic_init(&ptable->refs, 1);
    return ptable;
}

static struct weir_table_options options_of(int64_t keys, enum weir_when_full on_full, bool client_limits,
                                            int64_t horizon_ns)
{
    return (struct weir_table_options){
        .keys = keys > 0 ? (size_t)keys : POLICY_TABLE_KEYS,
        .overrides = client_limits ? 0 : POLICY_TABLE_OVERRIDES,
        .when_full = (int32_t)on_full,
        .own_limits = client_limits,
        .horizon_ns = horizon_ns,
    };
}

struct policy_table *weir_policy_table_new(const char *limits, int64_t keys, enum weir_when_full on_full,
                                           bool client_limits, int64_t horizon_ns, struct weir_error *err)
{
    struct weir_table_options options = options_of(keys, on_full, client_limits, horizon_ns);
    return weir_policy_table_of(weir_table_make(NULL, client_limits ? NULL : limits, &options, err), 0, err);
}

struct policy_table *weir_policy_table_new_kept(const char *limits, int64_t keys, enum weir_when_full on_full,
                                                bool client_limits, int64_t horizon_ns,
                                                struct weir_error *err)
{
    struct weir_table_options options = options_of(keys, on_full, client_limits, horizon_ns);
    return weir_policy_table_of(weir_table_new_stored(client_limits ? NULL : limits, &options, NULL, err), 0,
                                err);
}

struct policy_table *weir_policy_table_ref(struct policy_table *ptable)
{
    if (ptable)
        atomic_fetch_add_explicit(&ptable->refs, 1, memory_order_relaxed);
    return ptable;
}

void weir_policy_table_free(struct policy_table *ptable)
{
    if (!ptable || atomic_fetch_sub_explicit(&ptable->refs, 1, memory_order_acq_rel) != 1)
        return;
    struct region *region = ptable->table->region;
    if (region->persist) {
        struct store *store = region->persist->store;
        if (weir_dirty && weir_dirty->count > 0)
            (void)weir_store_commit(store);
        weir_store_drop(store, region);
    }
    weir_table_free(ptable->table);
    free(ptable);
}

/* ---- labels ---- */

static void add_label(struct limit_labels *labels, const struct weir_spec *spec)
{
    struct limit limit;
    struct spec_fault fault;
    if (weir_limit_init(&limit, spec, &fault))
        labels->whole[labels->count] = max64(weir_limit_capacity(&limit), 1);
    char *text = labels->text[labels->count++];
    if (spec->name[0])
        memcpy(text, spec->name, sizeof spec->name);
    else
        (void)weir_spec_format(spec, 1, text, LABEL_MAX);
    labels->counts_refusals |= spec->refused != WEIR_REFUSED_IGNORE;
    if (spec->timeout_ns > 0 && (labels->timeout_ns < 0 || spec->timeout_ns < labels->timeout_ns))
        labels->timeout_ns = spec->timeout_ns;
}

struct limit_labels *weir_labels_new(const char *limits)
{
    struct weir_spec specs[WEIR_LIMITS_MAX];
    size_t count = weir_spec_parse(limits, specs, WEIR_LIMITS_MAX, NULL);
    struct limit_labels *labels = count > 0 ? calloc(1, sizeof *labels) : NULL;
    if (!labels)
        return NULL;
    labels->timeout_ns = -1;
    for (size_t i = 0; i < count; i++)
        add_label(labels, &specs[i]);
    return labels;
}

static const struct limit_labels *copy_labels(const struct limit_labels *labels)
{
    struct limit_labels *copy = malloc(sizeof *copy);
    if (copy)
        *copy = *labels;
    return copy;
}

static void free_labels(const struct limit_labels *labels)
{
    free((void *)(uintptr_t)labels);
}

/* ---- policies ---- */

/* `len` bytes and a NUL; NULL stays NULL. false: out of memory. */
static bool copy_sized_bytes(char **copy, const char *bytes, size_t len)
{
    *copy = NULL;
    if (!bytes)
        return true;
    *copy = malloc(len + 1);
    if (!*copy)
        return false;
    memcpy(*copy, bytes, len);
    (*copy)[len] = '\0';
    return true;
}

static bool copy_policy_text(char **copy, const char *text)
{
    return copy_sized_bytes(copy, text, text ? strlen(text) : 0);
}

static bool copy_override(struct policy_override *copy, const struct policy_override *override)
{
    *copy = *override;
    (void)weir_policy_table_ref(copy->ptable);
    copy->labels = override->labels ? copy_labels(override->labels) : NULL;
    bool done = copy_sized_bytes(&copy->key, override->key, override->len);
    done = copy_policy_text(&copy->limits, override->limits) && done;
    done = copy_policy_text(&copy->reason, override->reason) && done;
    return done && (copy->labels || !override->labels);
}

/* Counts what it has copied, so that a copy that failed can be freed. */
static bool copy_overrides(struct policy_override **copies, size_t *copied,
                           const struct policy_override *overrides, size_t count)
{
    *copies = count > 0 ? calloc(count, sizeof **copies) : NULL;
    bool done = *copies || count == 0;
    while (done && *copied < count) {
        done = copy_override(&(*copies)[*copied], &overrides[*copied]);
        (*copied)++;
    }
    return done;
}

static void forget_pointers(struct policy *policy)
{
    policy->limits = policy->candidate = policy->file_limits = NULL;
    policy->labels = NULL;
    policy->limit_counters = NULL;
    policy->prefixes = NULL;
    policy->keys = NULL;
    policy->prefix_count = policy->key_count = 0;
}

struct policy *weir_policy_copy(const struct policy *policy)
{
    struct policy *copy = malloc(sizeof *copy);
    if (!copy)
        return NULL;
    memcpy(copy, policy, offsetof(struct policy, refs)); /* which others change meanwhile; it is the last */
    atomic_init(&copy->refs, 1);
    forget_pointers(copy);
    (void)weir_policy_table_ref(copy->main);
    (void)weir_policy_table_ref(copy->candidate_table);
    (void)weir_policy_table_ref(copy->previous);
    (void)weir_pools_ref(copy->pools);
    (void)weir_address_rules_ref(copy->address);
    if (copy->counters)
        atomic_fetch_add_explicit(&copy->counters->refs, 1, memory_order_relaxed);
    copy->labels = policy->labels ? copy_labels(policy->labels) : NULL;
    bool done = copy->labels || !policy->labels;
    done = copy_policy_text(&copy->limits, policy->limits) && done;
    done = copy_policy_text(&copy->candidate, policy->candidate) && done;
    done = copy_policy_text(&copy->file_limits, policy->file_limits) && done;
    done =
        copy_overrides(&copy->prefixes, &copy->prefix_count, policy->prefixes, policy->prefix_count) && done;
    if (!copy_overrides(&copy->keys, &copy->key_count, policy->keys, policy->key_count) || !done) {
        weir_policy_drop(copy);
        return NULL;
    }
    return copy;
}

struct policy *weir_policy_make(const char *name, uint32_t workers)
{
    struct policy *policy = calloc(1, sizeof *policy);
    struct policy_counters *counters = weir_counters_new(workers);
    size_t len = strlen(name);
    if (!policy || !counters || len > CONFIG_NAME_MAX) {
        weir_counters_free(counters);
        free(policy);
        return NULL;
    }
    memcpy(policy->name, name, len + 1);
    policy->percent = policy->percent_after = policy->file_percent = CONFIG_PERCENT_ALL;
    policy->settings = weir_settings_usual();
    policy->counters = counters;
    atomic_init(&policy->refs, 1);
    return policy;
}

void weir_policy_ref(struct policy *policy)
{
    atomic_fetch_add_explicit(&policy->refs, 1, memory_order_relaxed);
}

void weir_policy_override_free(struct policy_override *override)
{
    weir_policy_table_free(override->ptable);
    free_labels(override->labels);
    free(override->key);
    free(override->limits);
    free(override->reason);
}

static void free_overrides(struct policy_override *overrides, size_t count)
{
    for (size_t i = 0; i < count; i++)
        weir_policy_override_free(&overrides[i]);
    free(overrides);
}

size_t weir_policy_tables(const struct policy *policy, struct policy_table **ptables)
{
    size_t count = 0;
    struct policy_table *own[] = {policy->main, policy->candidate_table, policy->previous};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i])
            ptables[count++] = own[i];
    for (size_t i = 0; i < policy->prefix_count; i++)
        if (policy->prefixes[i].ptable)
            ptables[count++] = policy->prefixes[i].ptable;
    return count;
}

void weir_policy_drop(struct policy *policy)
{
    if (!policy || atomic_fetch_sub_explicit(&policy->refs, 1, memory_order_acq_rel) != 1)
        return;
    free_overrides(policy->prefixes, policy->prefix_count);
    free_overrides(policy->keys, policy->key_count);
    weir_policy_table_free(policy->main);
    weir_policy_table_free(policy->candidate_table);
    weir_policy_table_free(policy->previous);
    weir_pools_drop(policy->pools);
    weir_address_rules_drop(policy->address);
    weir_limit_counters_free(policy->limit_counters);
    weir_counters_free(policy->counters);
    free_labels(policy->labels);
    free(policy->limits);
    free(policy->candidate);
    free(policy->file_limits);
    free(policy);
}
