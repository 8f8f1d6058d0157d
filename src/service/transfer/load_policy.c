/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "service/persist/persist.h"
#include "service/policies/edit.h"
#include "service/policies/freeze.h"
#include "service/policies/growth.h"
#include "service/transfer/load_parts.h"
#include "table/persist/export.h"
#include "table/persist/persist.h"

static const struct export_range whole = {0, UINT64_MAX};
static const struct slice nowhere = {"", 0};

static struct slice slice_of(const char *text)
{
    return (struct slice){text, strlen(text)};
}

/* ---- the policy ---- */

static bool fill_policy(struct edit *edit, struct policy *policy, const struct policy_definition *definition)
{
    char text[SPEC_TEXT_MAX];
    policy->mode = definition->mode;
    policy->percent = definition->percent;
    policy->on_full = definition->on_full;
    policy->ttl_ms = definition->ttl_ms;
    policy->ttl_max_ms = definition->ttl_max_ms;
    policy->id_window_ns = definition->ids_ns;
    policy->overrun = definition->overrun;
    policy->recover = definition->recover;
    if (!weir_edit_read(edit, definition->limits, text))
        return false;
    struct edit_limits to = {text, GROWTH_KEYS_LEAST, false, false};
    return weir_edit_limits(edit, policy, &to) && weir_policy_freeze(policy, whole, nowhere, edit->err);
}

static bool make_loaded_policy(struct edit *edit, const struct policy_definition *definition)
{
    if (definition->fleet)
        return weir_edit_fail(edit, EPERM,
                              "the policy of the dump shares its limit with other servers: write it, with "
                              "fleet:, into the file of this server, reload, and load again");
    if (edit->now->policy_count >= CONFIG_POLICIES_MAX)
        return weir_edit_fail(edit, ENOSPC, "there are 1024 policies already, the most there can be");
    struct policy *policy = weir_policy_make(definition->name, edit->service->options.workers + 1);
    if (!policy)
        return weir_edit_out_of_memory(edit);
    return weir_edit_put(edit, policy, fill_policy(edit, policy, definition));
}

bool weir_definition_apply(struct service *service, const struct policy_definition *definition, bool *made,
                           struct weir_error *err)
{
    struct edit edit;
    if (!weir_edit_begin(&edit, service, err))
        return false;
    *made = !weir_snapshot_policy(edit.now, slice_of(definition->name));
    bool done = weir_edit_end(&edit, *made && make_loaded_policy(&edit, definition));
    return done || !*made;
}

bool weir_definition_open(struct service *service, const char *policy, struct weir_error *err)
{
    struct weir_error why = {0};
    if (weir_change_thaw(service, slice_of(policy), whole, false, &why) || why.code == ENOENT)
        return true; /* also if somebody else did it before */
    weir_error_set(err, why.code, why.text);
    return false;
}

/* ---- tables ---- */

/* Where the policy has the policy table of a prefix, or its own. NULL: nowhere. */
static struct policy_table **find_policy_table(struct policy *policy, const struct load_table *table)
{
    if (table->prefix_len == 0)
        return &policy->main;
    for (size_t i = 0; i < policy->prefix_count; i++)
        if (policy->prefixes[i].len == table->prefix_len &&
            memcmp(policy->prefixes[i].prefix, table->prefix, table->prefix_len) == 0)
            return &policy->prefixes[i].ptable;
    return NULL;
}

static bool knows_by(const struct policy_table *ptable, const struct hash_key *key)
{
    const struct hash_key *own = &ptable->table->region->header->key;
    return own->low == key->low && own->high == key->high;
}

/* A key with limits of its own is listed also if it has spent nothing. */
static bool has_spent_nothing(void *arg, const struct weir_key *key)
{
    (void)arg;
    return key->verdict.reset_after_ns <= 0;
}

static bool is_shared(void *arg, const struct export_shared *shared)
{
    (void)arg;
    (void)shared;
    return false;
}

/* Nobody has spent anything of it; nor of what keys without room share. */
static bool is_unused(const struct policy_table *ptable)
{
    return weir_table_export_shared(ptable->table, weir_now(), &whole, is_shared, NULL) &&
           weir_table_each(ptable->table, has_spent_nothing, NULL);
}

static struct policy_table *make_policy_table(struct edit *edit, const struct load *load,
                                              const struct load_table *table, const char *limits,
                                              enum weir_when_full on_full)
{
    struct service *service = edit->service;
    int64_t keys = weir_growth_room(service, limits, max64(table->capacity, GROWTH_KEYS_PREFIX));
    struct weir_table_options options = {.keys = (size_t)max64(keys, GROWTH_KEYS_PREFIX),
                                         .overrides = POLICY_TABLE_OVERRIDES,
                                         .when_full = (int32_t)on_full};
    struct policy_table *ptable =
        weir_policy_table_of(weir_table_new_stored(limits, &options, &table->key, edit->err), 0, edit->err);
    if (!ptable)
        return NULL;
    ptable->bytes = weir_growth_bytes(ptable);
    int64_t now_ns = weir_now();
    weir_table_adopt_time(ptable->table, now_ns, sat_add(now_ns, load->lead_ns));
    int64_t lead_ns = service->store ? sat_sub(load->lead_ns, weir_store_offset(service->store)) : 0;
    if (weir_persist_add(service, ptable, lead_ns, edit->err))
        return ptable;
    weir_policy_table_free(ptable);
    return NULL;
}

/* Of the prefix that has this policy table. */
static const char *limits_of(const struct policy *policy, const struct policy_table *ptable)
{
    size_t at = 0;
    while (policy->prefixes[at].ptable != ptable)
        at++;
    return policy->prefixes[at].limits;
}

/* The policy is frozen, so nobody spends from the policy table that is there. *used: somebody has, and it
 * stays. */
static bool replace_unused_table(struct edit *edit, const struct load *load, const struct load_table *table,
                                 struct policy *policy, struct policy_table **made, bool *used)
{
    struct policy_table **at = find_policy_table(policy, table), *from = *at;
    const char *limits = at == &policy->main ? policy->limits : limits_of(policy, from);
    *used = !is_unused(from);
    *made = *used ? NULL : make_policy_table(edit, load, table, limits, policy->on_full);
    if (!*made)
        return false;
    *at = *made;
    weir_policy_table_free(from);
    return at != &policy->main || weir_edit_carry_keys(edit, policy, *made, false);
}

static struct policy_table *put_in_place(struct service *service, const struct load *load,
                                         const struct load_table *table, bool *used, struct weir_error *err)
{
    struct edit edit;
    struct policy_table *made = NULL;
    if (!weir_edit_begin(&edit, service, err))
        return NULL;
    const struct policy *has = weir_edit_find(&edit, slice_of(load->policy));
    struct policy *policy = has ? weir_edit_copy(&edit, has) : NULL;
    bool good =
        policy && weir_edit_put(&edit, policy, replace_unused_table(&edit, load, table, policy, &made, used));
    (void)weir_policy_table_ref(good ? made : NULL);
    if (weir_edit_end(&edit, good))
        return made;
    weir_policy_table_free(good ? made : NULL);
    return NULL;
}

/* Ours. *foreign: it knows keys by other hashes. false: there is none. */
static bool find_ours(struct service *service, const struct load *load, const struct load_table *table,
                      struct policy_table **ours, bool *foreign, bool *frozen, struct weir_error *err)
{
    struct edit edit;
    *ours = NULL;
    if (!weir_edit_begin(&edit, service, err))
        return false;
    const struct policy *policy = weir_edit_find(&edit, slice_of(load->policy));
    struct policy_table **at = policy ? find_policy_table((struct policy *)(uintptr_t)policy, table) : NULL;
    if (policy && !at)
        (void)weir_edit_fail(
            &edit, ENOENT,
            "the dump has keys of a prefix with limits of its own: WEIR.OVERRIDE SET it here, "
            "then load again");
    *foreign = at && !knows_by(*at, &table->key);
    *ours = at ? weir_policy_table_ref(*at) : NULL;
    *frozen = false;
    for (size_t i = 0; at && i < policy->frozen_count; i++)
        *frozen |= policy->frozen[i].from == 0 && policy->frozen[i].to == UINT64_MAX;
    (void)weir_edit_end(&edit, false);
    return at != NULL;
}

/* By this load: it has the hash key and the time of the dump already, or was used. */
static bool was_said(const struct load *load, const struct policy_table *ptable)
{
    for (size_t i = 0; i < load->said_count; i++)
        if (load->said[i].serial == ptable->serial)
            return true;
    return false;
}

/* One that nobody has used yet gives way. */
struct policy_table *weir_load_adopt(struct service *service, const struct load *load,
                                     const struct load_table *table, bool *foreign, struct weir_error *err)
{
    struct policy_table *ours, *made;
    bool frozen, used = false;
    if (!find_ours(service, load, table, &ours, foreign, &frozen, err) || was_said(load, ours) ||
        !is_unused(ours))
        return ours;
    struct slice name = slice_of(load->policy);
    made = frozen || weir_change_freeze(service, name, whole, nowhere, err)
               ? put_in_place(service, load, table, &used, err)
               : NULL;
    if (!frozen)
        (void)weir_definition_open(service, load->policy, NULL);
    if (used) /* meanwhile */
        return ours;
    *foreign = false;
    weir_policy_table_free(ours);
    return made;
}
