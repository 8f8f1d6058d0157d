/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "service/policies/edit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sat.h"
#include "service/log.h"
#include "service/persist/persist.h"
#include "service/policies/growth.h"
#include "table/override.h"

#define UNDO_BYTES (64 * 1024) /* set aside to take steps back */

bool weir_edit_fail(struct edit *edit, int code, const char *message)
{
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

static bool step_set(const struct edit_step *step, const char *text, struct weir_error *err)
{
    struct weir_table *table = step->ptable->table;
    return step->key ? weir_table_override(table, step->key, step->len, text, err)
                     : weir_table_set(table, text, err);
}

/* The first `count` of them, the last first. */
static void undo_steps(const struct edit *edit, size_t count)
{
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
    weir_persist_after(edit);
    return weir_edit_fail(edit, err.code, err.text);
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
    char message[sizeof edit->err->text];
    int64_t total = memory_of(edit->service, edit->next);
    if (total <= edit->service->memory || total <= memory_of(edit->service, edit->now))
        return true;
    (void)snprintf(message, sizeof message,
                   "no memory left for these keys: %lld MiB would be in use, and the budget is %lld MiB; "
                   "raise memory: in the configuration, or remove policies",
                   (long long)(total >> 20), (long long)(edit->service->memory >> 20));
    return weir_edit_fail(edit, ENOMEM, message);
}

static bool put_in_force(struct edit *edit)
{
    if (!weir_snapshot_seal(edit->next))
        return weir_edit_out_of_memory(edit);
    if ((!edit->urgent && !fits_budget(edit)) || !weir_persist_before(edit) || !do_steps(edit))
        return false;
    struct service *service = edit->service;
    weir_snapshot_publish(service, edit->next);
    const struct snapshot *in_force = edit->next;
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
    pthread_mutex_unlock(&edit->service->change);
    return good;
}

/* ---- policies ---- */

const struct policy *weir_edit_find(struct edit *edit, struct slice name)
{
    const struct policy *policy = weir_snapshot_policy(edit->now, name);
    if (policy)
        return policy;
    char message[sizeof edit->err->text];
    int len = (int)(name.len < CONFIG_NAME_MAX ? name.len : CONFIG_NAME_MAX);
    const char *near = weir_snapshot_near(edit->now, name);
    if (near)
        (void)snprintf(message, sizeof message, "no policy '%.*s'; did you mean '%s'? (WEIR.POLICY LIST)",
                       len, name.bytes, near);
    else
        (void)snprintf(message, sizeof message,
                       "no policy '%.*s'; WEIR.POLICY SET makes one, WEIR.POLICY LIST shows them", len,
                       name.bytes);
    (void)weir_edit_fail(edit, ENOENT, message);
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
