/* SPDX-License-Identifier: MIT */

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/humanize.h"
#include "base/sat.h"
#include "core/explain.h"
#include "core/idle.h"
#include "phrasebook/phrasebook.h"
#include "service/log.h"
#include "service/persist/persist.h"
#include "service/persist/record_change.h"
#include "service/policies/edit.h"
#include "service/policies/growth.h"
#include "table/change.h"
#include "table/override.h"
#include "table/persist/export.h"

#define UNDO_BYTES (64 * 1024) /* set aside to take steps back */

bool weir_edit_fail(struct edit *edit, int code, const char *format, ...)
{
    char message[sizeof edit->err->text];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    weir_error_set(edit->err, code, message);
    return false;
}

bool weir_edit_out_of_memory(struct edit *edit)
{
    return weir_edit_fail(edit, ENOMEM, "out of memory: nothing was changed");
}

bool weir_edit_begin(struct edit *edit, struct service *service, struct weir_error *err)
{
    *edit = (struct edit){.service = service, .err = err};
    pthread_mutex_lock(&service->change);
    edit->now = atomic_load_explicit(&service->snapshot, memory_order_acquire);
    edit->now_ns = weir_now();
    edit->next = weir_snapshot_copy(edit->now);
    if (edit->next)
        return true;
    pthread_mutex_unlock(&service->change);
    return weir_edit_out_of_memory(edit);
}

/* ---- steps ---- */

static void step_free(struct edit_step *step)
{
    weir_policy_table_free(step->ptable);
    free(step->key);
    free(step->to);
    free(step->back);
}

static bool edit_room(struct edit *edit)
{
    if (edit->count < edit->room)
        return true;
    size_t room = edit->room > 0 ? 2 * edit->room : 16;
    struct edit_step *steps = realloc(edit->steps, room * sizeof *steps);
    if (!steps)
        return false;
    edit->steps = steps;
    edit->room = room;
    return true;
}

/* The limits that are to be put back if a later step fails; of a key NULL: none of its own. false: out of
 * memory. */
static bool text_now(const struct policy_table *ptable, const struct slice *key, char **now)
{
    char text[SPEC_TEXT_MAX];
    size_t len = key ? weir_table_override_text(ptable->table, key->bytes, key->len, text, sizeof text)
                     : weir_table_text(ptable->table, text, sizeof text);
    *now = len > 0 ? strdup(text) : NULL;
    return *now || (key && len == 0);
}

bool weir_edit_step(struct edit *edit, struct policy_table *ptable, const struct slice *key, const char *text,
                    bool optional)
{
    struct edit_step step = {.ptable = weir_policy_table_ref(ptable), .optional = optional};
    bool good = edit_room(edit);
    if (key) {
        step.len = key->len;
        step.key = malloc(key->len + 1);
        good = good && step.key;
        if (good && key->len > 0)
            memcpy(step.key, key->bytes, key->len);
    }
    good = text_now(ptable, key, &step.back) && good;
    step.to = text ? strdup(text) : NULL;
    if (!good || (text && !step.to)) {
        step_free(&step);
        return weir_edit_out_of_memory(edit);
    }
    edit->steps[edit->count++] = step;
    return true;
}

/* docs/internals/server.md, 29: the table has these limits. */
static void check_step(const struct edit_step *step, const char *text)
{
#if WEIR_ASSERTIONS
    char has[SPEC_TEXT_MAX] = "";
    if (step->key)
        (void)weir_table_override_text(step->ptable->table, step->key, step->len, has, sizeof has);
    else
        (void)weir_table_text(step->ptable->table, has, sizeof has);
    INVARIANT(29, strcmp(has, text ? text : "") == 0);
#else
    (void)step, (void)text;
#endif
}

static bool step_set(const struct edit_step *step, const char *text, struct weir_error *err)
{
    struct weir_table *table = step->ptable->table;
    bool good = step->key ? weir_table_override(table, step->key, step->len, text, err)
                          : weir_table_set(table, text, err);
    if (good)
        check_step(step, text);
    return good;
}

/* The first `count` of them, the last first. */
static void undo_steps(struct edit *edit, size_t count)
{
    edit->undone = count;
    while (count-- > 0) {
        const struct edit_step *step = &edit->steps[count];
        struct weir_error err;
        if (!step_set(step, step->back, &err))
            weir_log(LOG_ERROR_LEVEL, "not-undone", LOG_TEXT("limits", step->to ? step->to : "none"),
                     LOG_TEXT("error", err.text));
    }
}

/* All of them, or none. To undo takes memory, too, and most likely the want of it is why. */
static bool do_steps(struct edit *edit)
{
    void *reserve = edit->count > 1 ? malloc(UNDO_BYTES) : NULL;
    size_t done = 0;
    struct weir_error err = {0};
    if (edit->count > 1 && !reserve)
        return weir_edit_out_of_memory(edit);
    while (done < edit->count &&
           (step_set(&edit->steps[done], edit->steps[done].to, &err) || edit->steps[done].optional))
        done++;
    free(reserve);
    if (done == edit->count)
        return true;
    weir_persist_back(edit, done);
    undo_steps(edit, done);
    INVARIANT(29, edit->undone == done);
    weir_persist_after(edit);
    return weir_edit_fail(edit, err.code, "%s", err.text);
}

/* ---- putting it in force ---- */

/* With the room that keys: asks for, whether there is that much yet or not. */
static int64_t memory_of(const struct service *service, const struct snapshot *snapshot)
{
    int64_t total = weir_growth_total(service, snapshot);
    for (size_t i = 0; i < snapshot->policy_count; i++) {
        const struct policy *policy = snapshot->policies[i];
        total = sat_add(total, weir_growth_cost(policy->main, policy->keys_asked));
    }
    return total;
}

static bool fits_budget(struct edit *edit)
{
    int64_t total = memory_of(edit->service, edit->next);
    if (total <= edit->service->memory || total <= memory_of(edit->service, edit->now))
        return true;
    return weir_edit_fail(edit, ENOMEM,
                          "no memory left for these keys: %" PRId64 " MiB would be in use, and the budget is "
                          "%" PRId64 " MiB; raise memory: in the configuration, or remove policies",
                          total >> 20, edit->service->memory >> 20);
}

/* docs/internals/server.md, 29: what a changed policy says of its limits and overrides is what its tables
 * have. */
static void check_policies(const struct edit *edit)
{
#if WEIR_ASSERTIONS
    for (size_t i = 0; i < edit->next->policy_count; i++) {
        const struct policy *policy = edit->next->policies[i];
        char text[SPEC_TEXT_MAX];
        if (weir_snapshot_policy(edit->now, (struct slice){policy->name, strlen(policy->name)}) == policy)
            continue;
        (void)weir_table_text(policy->main->table, text, sizeof text);
        INVARIANT(29, strcmp(text, policy->limits) == 0);
        for (size_t at = 0; at < policy->key_count; at++) {
            const struct policy_override *key = &policy->keys[at];
            text[0] = '\0';
            (void)weir_table_override_text(policy->main->table, key->key, key->len, text, sizeof text);
            INVARIANT(29, strcmp(text, key->limits) == 0);
        }
    }
#else
    (void)edit;
#endif
}

static bool put_in_force(struct edit *edit)
{
    if (!weir_snapshot_seal(edit->next))
        return weir_edit_out_of_memory(edit);
    if ((!edit->urgent && !fits_budget(edit)) || !weir_persist_before(edit) || !do_steps(edit))
        return false;
    struct service *service = edit->service;
    INVARIANT(35, edit->urgent || memory_of(service, edit->next) <= service->memory ||
                      memory_of(service, edit->next) <= memory_of(service, edit->now));
    check_policies(edit);
    weir_snapshot_publish(service, edit->next);
    const struct snapshot *in_force = edit->next;
    if (edit->in_force)
        edit->in_force(edit, edit->in_force_arg);
    edit->next = NULL;
    service->upkeep.next_end_ns = 0; /* there may be one that comes earlier */
    weir_growth_count(service);
    for (size_t i = 0; i < in_force->policy_count && !edit->urgent; i++)
        weir_growth_give(service, in_force->policies[i], in_force->policies[i]->keys_asked);
    weir_persist_after(edit);
    weir_error_clear(edit->err);
    return true;
}

bool weir_edit_end(struct edit *edit, bool good)
{
    good = good && put_in_force(edit);
    if (!good && edit->thawed)
        weir_snapshot_publish(edit->service, edit->thawed);
    else
        weir_snapshot_free(edit->thawed);
    if (edit->next)
        weir_snapshot_free(edit->next);
    for (size_t i = 0; i < edit->count; i++)
        step_free(&edit->steps[i]);
    free(edit->steps);
    weir_snapshot_collect(edit->service);
    pthread_mutex_unlock(&edit->service->change);
    return good;
}

/* ---- policies ---- */

const struct policy *weir_edit_find(struct edit *edit, struct slice name)
{
    const struct policy *policy = weir_snapshot_policy(edit->now, name);
    if (policy)
        return policy;
    int len = (int)(name.len < CONFIG_NAME_MAX ? name.len : CONFIG_NAME_MAX);
    const char *near = weir_snapshot_near(edit->now, name);
    if (near)
        (void)weir_edit_fail(edit, ENOENT, "no policy '%.*s'; did you mean '%s'? (WEIR.POLICY LIST)", len,
                             name.bytes, near);
    else
        (void)weir_edit_fail(edit, ENOENT,
                             "no policy '%.*s'; WEIR.POLICY SET makes one, WEIR.POLICY LIST shows them", len,
                             name.bytes);
    return NULL;
}

struct policy *weir_edit_copy(struct edit *edit, const struct policy *policy)
{
    struct policy *copy = weir_policy_copy(policy);
    if (!copy)
        (void)weir_edit_out_of_memory(edit);
    return copy;
}

bool weir_edit_put(struct edit *edit, struct policy *policy, bool good)
{
    if (good) {
        weir_policy_ref(policy);
        if (weir_snapshot_put(edit->next, policy->name, policy)) {
            weir_policy_drop(policy);
            return true;
        }
        (void)weir_edit_out_of_memory(edit);
    }
    weir_policy_drop(policy);
    return false;
}

bool weir_edit_text(struct edit *edit, char **at, const char *text, size_t len)
{
    char *copy = text ? malloc(len + 1) : NULL;
    if (text && !copy)
        return weir_edit_out_of_memory(edit);
    if (text) {
        if (len > 0)
            memcpy(copy, text, len);
        copy[len] = '\0';
    }
    free(*at);
    *at = copy;
    return true;
}

struct policy_table *weir_edit_new_table(struct edit *edit, const char *text, int64_t keys,
                                         enum weir_when_full on_full)
{
    struct policy_table *ptable = weir_persist_new_table(edit->service, text, keys, on_full, edit->err);
    if (ptable)
        ptable->bytes = weir_growth_bytes(ptable);
    return ptable;
}

/*
 * Other limits for a policy. The same algorithms in the same order: the table changes while it is used, and
 * every key keeps what it spent. Anything else needs a table of another form, and the keys of the old one
 * cannot be moved, because it only knows hashes of them. So for as long as the old one remembers anything,
 * both are asked, and both must agree.
 */

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
    INVARIANT(30, !policy->previous || policy->previous == policy->main); /* never three kinds of limits */
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
    int64_t ends = policy_previous_ends(policy);
    int64_t left = ends == WEIR_FOREVER ? policy->previous_for_ns : ends - edit->now_ns;
    return weir_edit_fail(
        edit, EBUSY,
        "policy '%.63s' changed the kind of its limits just before, which is remembered for %" PRId64
        " s more; try again then, or write FRESH behind WEIR.POLICY SET to forget what was spent",
        policy->name, left / WEIR_SEC + 1);
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
                        *ptable = weir_edit_new_table(edit, to->text, keys,
                                                      (enum weir_when_full)policy->settings.on_full);
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
    INVARIANT(30, !to->fresh || !policy->previous);
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

/*
 * Other limits for a key, or for all keys with a prefix. Those of a key are in the tables themselves, in all
 * that are asked about it; a prefix has a policy table of its own, which counts from the moment it is made.
 */

/* ---- lists ---- */

static struct policy_override **override_list(struct policy *policy, bool prefix, size_t **count)
{
    *count = prefix ? &policy->prefix_count : &policy->key_count;
    return prefix ? &policy->prefixes : &policy->keys;
}

/* Of a list: below 0 if the override stands before the key, above 0 behind it. */
static int compare_override(const struct policy_override *override, bool prefix, struct slice key)
{
    size_t len = override->len < key.len ? override->len : key.len;
    int longer = (override->len > key.len) - (override->len < key.len);
    int order = len > 0 ? memcmp(override->key, key.bytes, len) : 0;
    if (prefix && longer != 0)
        return -longer;
    return order != 0 ? order : longer;
}

size_t weir_edit_override_at(const struct policy *policy, bool prefix, struct slice key, bool *found)
{
    const struct policy_override *list = prefix ? policy->prefixes : policy->keys;
    size_t count = prefix ? policy->prefix_count : policy->key_count, low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_override(&list[middle], prefix, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *found = low < count && compare_override(&list[low], prefix, key) == 0;
    return low;
}

static bool insert_override(struct edit *edit, struct policy *policy, bool prefix, size_t at,
                            struct slice key)
{
    size_t *count;
    struct policy_override **list = override_list(policy, prefix, &count), override = {.len = key.len};
    if (prefix && *count >= CONFIG_PREFIXES_MAX)
        return weir_edit_fail(edit, ENOSPC,
                              "policy '%s' has limits for %d prefixes already, the most there can be",
                              policy->name, CONFIG_PREFIXES_MAX);
    if (!prefix && *count >= POLICY_TABLE_OVERRIDES)
        return weir_edit_fail(edit, ENOSPC,
                              "policy '%s' has %d keys with limits of their own already, the most there can "
                              "be; delete some, or "
                              "use a prefix that ends in '*'",
                              policy->name, POLICY_TABLE_OVERRIDES);
    struct policy_override *more = realloc(*list, (*count + 1) * sizeof *more);
    if (!more)
        return weir_edit_out_of_memory(edit);
    *list = more;
    if (!weir_edit_text(edit, &override.key, key.bytes, key.len))
        return false;
    memmove(more + at + 1, more + at, (*count - at) * sizeof *more);
    more[at] = override;
    (*count)++;
    return true;
}

static void remove_override(struct policy *policy, bool prefix, size_t at)
{
    size_t *count;
    struct policy_override *list = *override_list(policy, prefix, &count);
    weir_policy_override_free(&list[at]);
    memmove(list + at, list + at + 1, (--*count - at) * sizeof *list);
}

/* ---- keys ---- */

bool weir_edit_carry_keys(struct edit *edit, const struct policy *policy, struct policy_table *ptable,
                          bool optional)
{
    for (size_t i = 0; i < policy->key_count; i++) {
        struct slice key = {policy->keys[i].key, policy->keys[i].len};
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
    size_t words = policy->words;
    weir_policy_free(policy);
    if (strlen(text) >= OVERRIDE_TEXT_MAX)
        return weir_edit_fail(edit, E2BIG, "the limits of a single key have at most 511 bytes of text");
    return words <= OVERRIDE_WORDS ||
           weir_edit_fail(
               edit, E2BIG,
               "the limits of a single key may remember %d numbers, and '%.80s' needs %zu: use a smaller "
               "sliding-log, or sliding-window, or a prefix that ends in '*'",
               OVERRIDE_WORDS, text, words);
}

static bool limit_key(struct edit *edit, const struct policy *policy, struct policy_override *override,
                      const char *text)
{
    bool same = override->limits && strcmp(override->limits, text) == 0;
    return same || steps_for_key(edit, policy, (struct slice){override->key, override->len}, text);
}

/* ---- prefixes ---- */

static bool limit_prefix(struct edit *edit, const struct policy *policy, struct policy_override *override,
                         const char *text)
{
    if (override->ptable && weir_table_can_set(override->ptable->table, text)) {
        if (strcmp(override->limits, text) != 0 && !weir_edit_step(edit, override->ptable, NULL, text, false))
            return false;
    } else {
        struct policy_table *ptable = weir_edit_new_table(edit, text, GROWTH_KEYS_PREFIX,
                                                          (enum weir_when_full)policy->settings.on_full);
        if (!ptable)
            return false;
        weir_policy_table_free(override->ptable);
        override->ptable = ptable;
    }
    return set_labels(edit, &override->labels, text);
}

/* ---- both ---- */

bool weir_edit_override(struct edit *edit, struct policy *policy, const struct edit_override *to)
{
    bool found;
    size_t at = weir_edit_override_at(policy, to->prefix, to->key, &found);
    if (!to->text) {
        if (found && !to->prefix && !steps_for_key(edit, policy, to->key, NULL))
            return false;
        if (found)
            remove_override(policy, to->prefix, at);
        return true;
    }
    if ((!to->prefix && !check_key_limits(edit, to->text)) ||
        (!found && !insert_override(edit, policy, to->prefix, at, to->key)))
        return false;
    struct policy_override *override = &(to->prefix ? policy->prefixes : policy->keys)[at];
    override->until_ms = to->until_ms;
    override->from_file = to->from_file;
    return (to->prefix ? limit_prefix : limit_key)(edit, policy, override, to->text) &&
           weir_edit_text(edit, &override->limits, to->text, strlen(to->text)) &&
           weir_edit_text(edit, &override->reason, to->reason.len > 0 ? to->reason.bytes : NULL,
                          to->reason.len);
}
