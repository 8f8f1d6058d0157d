/* SPDX-License-Identifier: MIT */
/*
 * Other limits for a key, or for all keys with a prefix. Those of a key are in the tables themselves, in all
 * that are asked about it; a prefix has a policy table of its own, which counts from the moment it is made.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/idle.h"
#include "phrasebook/phrasebook.h"
#include "service/policies/edit.h"
#include "service/policies/growth.h"
#include "table/make.h"

/* ---- keys ---- */

static int compare_keys(struct slice a, struct slice b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len > 0 ? memcmp(a.bytes, b.bytes, len) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static struct slice override_key_slice(const struct key_override *override)
{
    return (struct slice){override->key, override->len};
}

size_t weir_edit_key_at(const struct policy *policy, struct slice key, bool *found)
{
    size_t low = 0, high = policy->key_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_keys(override_key_slice(&policy->keys[middle]), key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *found = low < policy->key_count && compare_keys(override_key_slice(&policy->keys[low]), key) == 0;
    return low;
}

bool weir_edit_carry_keys(struct edit *edit, const struct policy *policy, struct policy_table *ptable,
                          bool optional)
{
    for (size_t i = 0; i < policy->key_count; i++) {
        struct slice key = override_key_slice(&policy->keys[i]);
        if (!weir_edit_step(edit, ptable, &key, policy->keys[i].limits, optional))
            return false;
    }
    return true;
}

/* In all tables that are asked about the key. That the other two know of it keeps an old limit from refusing
 * what the new one allows, and a candidate from counting what is not its business. */
static bool steps_for_key(struct edit *edit, const struct policy *policy, struct slice key, const char *text)
{
    return weir_edit_step(edit, policy->main, &key, text, false) &&
           (!policy->previous || weir_edit_step(edit, policy->previous, &key, text, true)) &&
           (!policy->candidate_table || weir_edit_step(edit, policy->candidate_table, &key, text, true));
}

/* Limits that a table cannot keep for a single key are found before anything is changed. */
static bool check_key_limits(struct edit *edit, const char *text)
{
    struct weir_policy *policy = weir_policy_idle(text, edit->err);
    if (!policy) {
        weir_phrasebook_explain(text, edit->err);
        return false;
    }
    char message[sizeof edit->err->text];
    size_t words = policy->words;
    weir_policy_free(policy);
    if (strlen(text) >= OVERRIDE_TEXT_MAX)
        return weir_edit_fail(edit, E2BIG, "the limits of a single key have at most 511 bytes of text");
    if (words <= OVERRIDE_WORDS)
        return true;
    (void)snprintf(message, sizeof message,
                   "the limits of a single key may remember %d numbers, and '%.80s' needs %zu: use a smaller "
                   "sliding-log, or sliding-window, or a prefix that ends in '*'",
                   OVERRIDE_WORDS, text, words);
    return weir_edit_fail(edit, E2BIG, message);
}

static bool insert_key(struct edit *edit, struct policy *policy, size_t at, struct slice key)
{
    char message[sizeof edit->err->text];
    if (policy->key_count >= POLICY_TABLE_OVERRIDES) {
        (void)snprintf(message, sizeof message,
                       "policy '%s' has %d keys with limits of their own already, the most there can be; "
                       "delete some, or use a prefix that ends in '*'",
                       policy->name, POLICY_TABLE_OVERRIDES);
        return weir_edit_fail(edit, ENOSPC, message);
    }
    struct key_override *keys = realloc(policy->keys, (policy->key_count + 1) * sizeof *keys);
    if (!keys)
        return weir_edit_out_of_memory(edit);
    policy->keys = keys;
    struct key_override override = {.len = key.len};
    if (!weir_edit_text(edit, &override.key, key.bytes, key.len))
        return false;
    memmove(keys + at + 1, keys + at, (policy->key_count - at) * sizeof *keys);
    keys[at] = override;
    policy->key_count++;
    return true;
}

static bool remove_key(struct edit *edit, struct policy *policy, size_t at)
{
    struct key_override *keys = policy->keys;
    if (!steps_for_key(edit, policy, override_key_slice(&keys[at]), NULL))
        return false;
    free(keys[at].key);
    free(keys[at].limits);
    free(keys[at].reason);
    memmove(keys + at, keys + at + 1, (--policy->key_count - at) * sizeof *keys);
    return true;
}

static bool override_key(struct edit *edit, struct policy *policy, const struct edit_override *to)
{
    bool found;
    size_t at = weir_edit_key_at(policy, to->key, &found);
    if (!to->text)
        return !found || remove_key(edit, policy, at);
    if (!check_key_limits(edit, to->text) || (!found && !insert_key(edit, policy, at, to->key)))
        return false;
    struct key_override *override = &policy->keys[at];
    bool same = override->limits && strcmp(override->limits, to->text) == 0;
    override->until_ms = to->until_ms;
    override->from_file = to->from_file;
    return (same || steps_for_key(edit, policy, to->key, to->text)) &&
           weir_edit_text(edit, &override->limits, to->text, strlen(to->text)) &&
           weir_edit_text(edit, &override->reason, to->reason.len > 0 ? to->reason.bytes : NULL,
                          to->reason.len);
}

/* ---- prefixes ---- */

/* The longest first; gives the place, or where it would be. */
static size_t prefix_at(const struct policy *policy, struct slice prefix, bool *found)
{
    size_t at = 0;
    *found = false;
    for (; at < policy->prefix_count; at++) {
        const struct prefix_override *has = &policy->prefixes[at];
        int order = compare_keys((struct slice){has->prefix, has->len}, prefix);
        *found = order == 0;
        if (has->len < prefix.len || (has->len == prefix.len && order >= 0))
            break;
    }
    return at;
}

static bool insert_prefix(struct edit *edit, struct policy *policy, size_t at, struct slice prefix)
{
    char message[sizeof edit->err->text];
    if (policy->prefix_count >= CONFIG_PREFIXES_MAX) {
        (void)snprintf(message, sizeof message,
                       "policy '%s' has limits for %d prefixes already, the most there can be", policy->name,
                       CONFIG_PREFIXES_MAX);
        return weir_edit_fail(edit, ENOSPC, message);
    }
    struct prefix_override *prefixes =
        realloc(policy->prefixes, (policy->prefix_count + 1) * sizeof *prefixes);
    if (!prefixes)
        return weir_edit_out_of_memory(edit);
    policy->prefixes = prefixes;
    struct prefix_override override = {.len = prefix.len};
    if (!weir_edit_text(edit, &override.prefix, prefix.bytes, prefix.len))
        return false;
    memmove(prefixes + at + 1, prefixes + at, (policy->prefix_count - at) * sizeof *prefixes);
    prefixes[at] = override;
    policy->prefix_count++;
    return true;
}

static void remove_prefix(struct policy *policy, size_t at)
{
    struct prefix_override *prefixes = policy->prefixes, gone = prefixes[at];
    weir_policy_table_free(gone.ptable);
    free((void *)(uintptr_t)gone.labels);
    free(gone.prefix);
    free(gone.limits);
    free(gone.reason);
    memmove(prefixes + at, prefixes + at + 1, (--policy->prefix_count - at) * sizeof *prefixes);
}

static bool limit_prefix(struct edit *edit, struct policy *policy, struct prefix_override *override,
                         const char *text)
{
    if (override->ptable && weir_table_can_set(override->ptable->table, text)) {
        if (strcmp(override->limits, text) != 0 && !weir_edit_step(edit, override->ptable, NULL, text, false))
            return false;
    } else {
        struct policy_table *ptable = weir_edit_new_table(edit, text, GROWTH_KEYS_PREFIX, policy->on_full);
        if (!ptable)
            return false;
        weir_policy_table_free(override->ptable);
        override->ptable = ptable;
    }
    struct limit_labels *labels = weir_labels_new(text);
    if (!labels)
        return weir_edit_out_of_memory(edit);
    free((void *)(uintptr_t) override->labels);
    override->labels = labels;
    return weir_edit_text(edit, &override->limits, text, strlen(text));
}

static bool override_prefix(struct edit *edit, struct policy *policy, const struct edit_override *to)
{
    bool found;
    size_t at = prefix_at(policy, to->key, &found);
    if (!to->text) {
        if (found)
            remove_prefix(policy, at);
        return true;
    }
    if (!found && !insert_prefix(edit, policy, at, to->key))
        return false;
    struct prefix_override *override = &policy->prefixes[at];
    override->until_ms = to->until_ms;
    override->from_file = to->from_file;
    return limit_prefix(edit, policy, override, to->text) &&
           weir_edit_text(edit, &override->reason, to->reason.len > 0 ? to->reason.bytes : NULL,
                          to->reason.len);
}

bool weir_edit_override(struct edit *edit, struct policy *policy, const struct edit_override *to)
{
    return to->prefix ? override_prefix(edit, policy, to) : override_key(edit, policy, to);
}
