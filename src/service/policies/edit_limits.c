/* SPDX-License-Identifier: MIT */
/*
 * Other limits for a policy. The same algorithms in the same order: the table changes while it is used, and
 * every key keeps what it spent. Anything else needs a table of another form, and the keys of the old one
 * cannot be moved, because it only knows hashes of them. So for as long as the old one remembers anything,
 * both are asked, and both must agree.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/humanize.h"
#include "base/sat.h"
#include "core/explain.h"
#include "core/idle.h"
#include "phrasebook/phrasebook.h"
#include "service/log.h"
#include "service/policies/edit.h"
#include "service/policies/growth.h"
#include "table/make.h"
#include "table/persist/export.h"

bool weir_edit_read(struct edit *edit, const char *limits, char text[static SPEC_TEXT_MAX])
{
    struct weir_policy *policy = weir_policy_idle(limits, edit->err);
    if (!policy) {
        weir_phrasebook_explain(limits, edit->err);
        return false;
    }
    size_t len = weir_policy_text(policy, text, SPEC_TEXT_MAX);
    weir_policy_free(policy);
    return (len > 0 && len < SPEC_TEXT_MAX) ||
           weir_edit_fail(edit, E2BIG, "the limits of a policy have at most 4087 bytes of text");
}

/* ---- what limits say of themselves ---- */

static bool is_unlimited(const char *text)
{
    struct weir_spec specs[WEIR_LIMITS_MAX];
    size_t count = weir_spec_parse(text, specs, WEIR_LIMITS_MAX, NULL);
    for (size_t i = 0; i < count; i++)
        if (specs[i].algo != WEIR_UNLIMITED)
            return false;
    return true;
}

/* All was taken at once, at the beginning of a window: how long nothing passes, and how long until all is
 * there again. */
static void look_drained(const char *text, int64_t *nothing_ns, int64_t *whole_ns)
{
    struct weir_policy *policy = weir_policy_idle(text, NULL);
    void *state = policy ? calloc(1, weir_policy_state_size(policy)) : NULL;
    struct weir_limit_state limits[WEIR_LIMITS_MAX];
    *nothing_ns = *whole_ns = state ? 0 : WEIR_FOREVER; /* no memory to find out: for ever */
    if (state) {
        weir_state_init(policy, state, 0);
        (void)weir_state_drain(policy, state, 0);
        weir_state_explain(policy, state, 0, limits, WEIR_LIMITS_MAX);
    }
    for (size_t i = 0; state && i < policy->count; i++) {
        *nothing_ns = max64(*nothing_ns, limits[i].next_after_ns);
        *whole_ns = max64(*whole_ns, limits[i].reset_after_ns);
    }
    free(state);
    weir_policy_free(policy);
}

void weir_limits_floor(const char *limits, char text[static FLOOR_TEXT_MAX])
{
    char nothing[HUMANIZE_MAX] = "ever", whole[HUMANIZE_MAX] = "ever";
    int64_t nothing_ns, whole_ns;
    look_drained(limits, &nothing_ns, &whole_ns);
    if (nothing_ns < WEIR_FOREVER)
        (void)weir_humanize_duration(nothing_ns, HUMANIZE_UP, nothing);
    if (whole_ns < WEIR_FOREVER)
        (void)weir_humanize_duration(whole_ns, HUMANIZE_UP, whole);
    (void)snprintf(
        text, FLOOR_TEXT_MAX,
        "after an unclean stop nobody passes for up to %s, and it may be %s until all is there again",
        nothing, whole);
}

static bool longest_reset(void *arg, const struct export_key *key)
{
    int64_t *longest = arg;
    *longest = max64(*longest, key->reset_after_ns);
    return true;
}

/* The time after which a policy table knows nothing any more; debts last longer than the limits say. 0:
 * nothing. */
static int64_t remembers_for(const struct policy_table *ptable)
{
    char text[SPEC_TEXT_MAX];
    if (weir_table_text(ptable->table, text, sizeof text) >= sizeof text)
        return WEIR_FOREVER;
    int64_t nothing, longest;
    look_drained(text, &nothing, &longest);
    struct export_range all = {1, UINT64_MAX};
    while (all.from != 0 && all.from <= all.to)
        if (!weir_table_export(ptable->table, weir_now(), &all, SIZE_MAX, NULL, longest_reset, &longest))
            return WEIR_FOREVER;
    return longest;
}

/* ---- the old and the new ---- */

static void drop_policy_table(struct policy_table **ptable)
{
    weir_policy_table_free(*ptable);
    *ptable = NULL;
}

static bool set_labels(struct edit *edit, const struct limit_labels **at, const char *text)
{
    struct limit_labels *labels = weir_labels_new(text);
    if (!labels)
        return weir_edit_out_of_memory(edit);
    free((void *)(uintptr_t)*at);
    *at = labels;
    return true;
}

/* Asked beside the main one for as long as it remembers anything: snapshot.c says when that time begins.
 * Takes the reference over. */
static void keep_previous_table(struct policy *policy, struct policy_table *ptable)
{
    policy->previous = ptable;
    policy->previous_for_ns = remembers_for(ptable);
    atomic_store_explicit(&ptable->ends_ns, WEIR_FOREVER, memory_order_relaxed);
    if (policy->previous_for_ns <= 0)
        drop_policy_table(&policy->previous);
}

/* Back to the kind of limits from which the last change came: that policy table has counted all the time. */
static bool swap_back(struct edit *edit, struct policy *policy, const char *text)
{
    if (!weir_edit_step(edit, policy->previous, NULL, text, false))
        return false;
    struct policy_table *from = policy->main;
    policy->main = policy->previous;
    keep_previous_table(policy, from);
    return true;
}

/* Only one kind of limits is asked beside those in force. A third kind would make one of the others forget
 * what was spent. */
static bool refuse_third_kind(struct edit *edit, const struct policy *policy)
{
    char text[248];
    int64_t ends = policy_previous_ends(policy);
    int64_t left = ends == WEIR_FOREVER ? policy->previous_for_ns : ends - edit->now_ns;
    snprintf(text, sizeof text,
             "policy '%.63s' changed the kind of its limits just before, which is remembered for %" PRId64
             " s more; try again then, or write FRESH behind WEIR.POLICY SET to forget what was spent",
             policy->name, left / WEIR_SEC + 1);
    return weir_edit_fail(edit, EBUSY, text);
}

/* Those who are there now will be back in a moment. */
static int64_t keys_to_come(const struct edit *edit, const struct policy *policy,
                            const struct edit_limits *to)
{
    struct weir_table_info info = {0};
    if (policy->main)
        weir_table_stat(policy->main->table, &info);
    int64_t busy = sat_add(info.keys, info.keys / 2);
    return busy <= to->keys ? to->keys : max64(to->keys, weir_growth_room(edit->service, to->text, busy));
}

static bool replace_main(struct edit *edit, struct policy *policy, const struct edit_limits *to)
{
    bool forgets = to->fresh || is_unlimited(to->text);
    if (policy->previous && !forgets)
        return refuse_third_kind(edit, policy);
    int64_t keys = keys_to_come(edit, policy, to);
    struct policy_table *from = policy->main,
                        *ptable = weir_edit_new_table(edit, to->text, keys, policy->on_full);
    if (!ptable)
        return false;
    policy->main = ptable;
    if (!from)
        return true;
    if (forgets) {
        weir_policy_table_free(from);
        drop_policy_table(&policy->previous);
    } else {
        keep_previous_table(policy, from);
    }
    return weir_edit_carry_keys(edit, policy, ptable, false);
}

static bool change_main(struct edit *edit, struct policy *policy, const struct edit_limits *to)
{
    bool anew = !policy->main || to->fresh || to->refit;
    if (policy->previous && policy_previous_ends(policy) <= edit->now_ns)
        drop_policy_table(&policy->previous);
    if (!anew && strcmp(policy->limits, to->text) == 0)
        return true;
    if (!anew && weir_table_can_set(policy->main->table, to->text))
        return weir_edit_step(edit, policy->main, NULL, to->text, false);
    if (!anew && policy->previous && weir_table_can_set(policy->previous->table, to->text))
        return swap_back(edit, policy, to->text);
    return replace_main(edit, policy, to);
}

bool weir_edit_limits(struct edit *edit, struct policy *policy, const struct edit_limits *to)
{
    if (!change_main(edit, policy, to) || !set_labels(edit, &policy->labels, to->text))
        return false;
    return weir_edit_text(edit, &policy->limits, to->text, strlen(to->text));
}

/* It decides nothing, so what it forgets does no harm. */
bool weir_edit_candidate(struct edit *edit, struct policy *policy, const char *text, int64_t keys)
{
    if (!text) {
        drop_policy_table(&policy->candidate_table);
        return weir_edit_text(edit, &policy->candidate, NULL, 0);
    }
    if (policy->candidate_table && weir_table_can_set(policy->candidate_table->table, text)) {
        if (strcmp(policy->candidate, text) != 0 &&
            !weir_edit_step(edit, policy->candidate_table, NULL, text, true))
            return false;
    } else {
        struct policy_table *ptable = weir_edit_new_table(edit, text, keys, WEIR_FULL_SHARE);
        if (!ptable)
            return false;
        weir_policy_table_free(policy->candidate_table);
        policy->candidate_table = ptable;
        if (!weir_edit_carry_keys(edit, policy, ptable, true))
            return false;
    }
    return weir_edit_text(edit, &policy->candidate, text, strlen(text));
}
