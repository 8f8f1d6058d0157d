/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "service/log.h"
#include "service/persist/persist.h"
#include "service/persist/record_change.h"
#include "service/policies/freeze.h"
#include "service/policies/retired.h"
#include "store/checkpoint.h"
#include "store/commit.h"
#include "store/store.h"
#include "table/persist/persist.h"

#define SHARE_FAR 16 /* a user holds more, or less, by this part of a store: that is noted soon */

/* ---- notes ---- */

/* false: it was not taken; *too_large tells whether that is why. */
static bool append_catalogue(struct service *service, const struct snapshot *snapshot, bool *too_large)
{
    struct buffer out = {0};
    bool written = weir_server_catalogue_write(service, snapshot, &out);
    *too_large = !written && buffer_len(&out) > CATALOGUE_MAX / 2;
    bool taken = written && weir_store_catalogue(service->store, buffer_bytes(&out), buffer_len(&out));
    weir_buffer_free(&out);
    return taken;
}

/* Of what is in force. If it is not taken, it is owed. */
static void write_catalogue_now(struct service *service)
{
    bool too_large;
    const struct snapshot *snapshot = atomic_load_explicit(&service->snapshot, memory_order_acquire);
    if (!snapshot) /* it did not come to a start */
        return;
    service->persistence->owed =
        false; /* first: a table may grow while this is written, and owe the next one */
    if (!append_catalogue(service, snapshot, &too_large))
        service->persistence->owed = true;
}

/* ---- a change ---- */

void weir_persist_complaint(struct store *store, char text[static PERSIST_COMPLAINT_MAX])
{
    struct store_state state;
    weir_store_state(store, &state);
    bool known = state.error[0] != '\0';
    (void)snprintf(text, PERSIST_COMPLAINT_MAX, "the disk does not take anything%s%s%s", known ? " (" : "",
                   state.error, known ? ")" : "");
}

static bool fail_ill(struct edit *edit)
{
    char text[PERSIST_COMPLAINT_MAX];
    weir_persist_complaint(edit->service->store, text);
    (void)weir_error_complain_as(edit->err, EIO, "%.180s: nothing was changed; see INFO persistence", text);
    return false;
}

static bool is_policy_gone(const struct edit *edit, const struct policy *policy)
{
    for (size_t i = 0; i < edit->next->policy_count; i++)
        if (strcmp(edit->next->policies[i]->name, policy->name) == 0)
            return false;
    return true;
}

/* A copy in which nobody gets anything of this policy. */
static bool freeze_policy_copy(struct edit *edit, struct snapshot *frozen, const struct policy *has)
{
    struct policy *policy = weir_edit_copy(edit, has);
    if (!policy)
        return false;
    policy->frozen_count = 0; /* all of it is, from now on */
    (void)weir_policy_freeze(policy, (struct export_range){0, UINT64_MAX}, (struct slice){"", 0}, NULL);
    return weir_snapshot_put(frozen, policy->name, policy) || weir_edit_out_of_memory(edit);
}

/* Puts that in force; what was before is kept, ready to come back. */
static bool freeze_gone(struct edit *edit)
{
    struct snapshot *frozen = weir_snapshot_copy(edit->now), *before = weir_snapshot_copy(edit->now);
    bool good = (frozen && before) || weir_edit_out_of_memory(edit);
    for (size_t i = 0; good && i < edit->now->policy_count; i++)
        if (is_policy_gone(edit, edit->now->policies[i]))
            good = freeze_policy_copy(edit, frozen, edit->now->policies[i]);
    if (!good || !weir_snapshot_seal(frozen) || !weir_snapshot_seal(before)) {
        weir_snapshot_free(frozen);
        weir_snapshot_free(before);
        return good ? weir_edit_out_of_memory(edit) : false;
    }
    weir_snapshot_publish(edit->service, frozen);
    edit->now = frozen;
    edit->thawed = before;
    return weir_freeze_settle(edit->service, NULL) ||
           weir_edit_fail(edit, EBUSY,
                          "requests that began before have not ended: nothing was changed; try again");
}

static bool any_gone(const struct edit *edit)
{
    bool any = false;
    for (size_t i = 0; !any && i < edit->now->policy_count; i++)
        any = is_policy_gone(edit, edit->now->policies[i]);
    return any;
}

/* Policies that go are written to files of their own first, when nobody takes from them any more. */
static bool retire_policies(struct edit *edit)
{
    if (edit->forgets || !any_gone(edit))
        return true;
    if (!freeze_gone(edit))
        return false;
    for (size_t i = 0; i < edit->now->policy_count; i++)
        if (is_policy_gone(edit, edit->now->policies[i]) &&
            !weir_retired_write(edit->service, edit->now->policies[i], edit->err))
            return false;
    return true;
}

/* Records of the limits to come may be appended before the catalogue that follows the change. */
static bool announce_limits_to_come(const struct edit_step *step, const char *text, struct weir_error *err)
{
    return step->key || !text || weir_table_announce(step->ptable->table, text, err);
}

bool weir_persist_before(struct edit *edit)
{
    bool too_large;
    if (!edit->service->store)
        return true;
    if (!weir_store_is_well(edit->service->store))
        return edit->urgent || fail_ill(edit); /* weir_persist_after will find that the catalogue is owed */
    if (!retire_policies(edit))
        return false;
    for (size_t i = 0; i < edit->count; i++)
        if (!announce_limits_to_come(&edit->steps[i], edit->steps[i].to, edit->err))
            return false;
    if (append_catalogue(edit->service, edit->next, &too_large))
        return true;
    if (too_large)
        return weir_edit_fail(
            edit, E2BIG,
            "there are too many policies, and keys with limits of their own, to be kept on the "
            "disk: delete some, or use prefixes that end in '*'");
    if (weir_store_is_well(edit->service->store))
        return weir_edit_out_of_memory(edit);
    return edit->urgent || fail_ill(edit);
}

void weir_persist_back(struct edit *edit, size_t done)
{
    if (!edit->service->store)
        return;
    for (size_t i = 0; i < done; i++)
        (void)announce_limits_to_come(&edit->steps[i], edit->steps[i].back, NULL);
    write_catalogue_now(edit->service);
}

/* What the steps have changed comes into the log before the catalogue that takes it for granted. */
void weir_persist_after(struct edit *edit)
{
    if (!edit->service->store)
        return;
    (void)weir_store_commit(edit->service->store);
    write_catalogue_now(edit->service);
}

bool weir_persist_wait(struct service *service)
{
    if (!service->store)
        return true;
    uint64_t ticket = weir_store_commit(service->store);
    bool durable = weir_store_wait(service->store, ticket, PERSIST_WAIT_NS);
    INVARIANT(41, !durable || service->persistence->sync != STORE_ALWAYS ||
                      weir_store_ticket_status(service->store, ticket) == STORE_GO);
    return durable;
}

void weir_persist_let_go(const struct worker *worker, const struct policy_table *ptable)
{
    struct store *store = worker->service->store;
    if (store && ptable &&
        (!worker->snapshot || !weir_snapshot_policy_table(worker->snapshot, ptable->serial)))
        (void)weir_store_commit(store);
}

static bool shares_moved(const struct service *service, int64_t part)
{
    bool moved = false;
    for (int i = 0; i < SHARE_STORES && !moved; i++)
        moved = service->shares[i] && weir_share_moved(service->shares[i], part);
    return moved;
}

void weir_persist_last_catalogue(struct service *service)
{
    pthread_mutex_lock(&service->change);
    if ((service->persistence->owed || shares_moved(service, INT64_MAX)) &&
        weir_store_is_well(service->store))
        write_catalogue_now(service);
    pthread_mutex_unlock(&service->change);
}

/* ---- now and then ---- */

static void write_image(struct service *service)
{
    struct weir_error err;
    if (!service->persistence->image_due || !weir_store_is_well(service->store))
        return;
    service->persistence->image_due = false; /* if it fails, the store will try again by itself */
    if (!weir_store_image(service->store, &err))
        weir_log(LOG_WARN_LEVEL, "image-failed", LOG_TEXT("why", err.text));
}

/* Once a second at the most: what users hold of what all share is noted when much of it has changed, since
 * the catalogue has all policies in it, too. */
static bool shares_moved_far(struct service *service)
{
    struct persistence *persistence = service->persistence;
    int64_t now_ns = weir_now();
    if (now_ns - persistence->shares_seen_ns < WEIR_SEC && now_ns >= persistence->shares_seen_ns)
        return false;
    persistence->shares_seen_ns = now_ns;
    return shares_moved(service, SHARE_FAR);
}

void weir_persist_tick(struct service *service)
{
    if (!service->store)
        return;
    (void)weir_store_commit(service->store);
    write_image(service);
    pthread_mutex_lock(&service->change);
    if (shares_moved_far(service))
        persist_owe(service);
    if (service->persistence->owed && weir_store_is_well(service->store))
        write_catalogue_now(service);
    pthread_mutex_unlock(&service->change);
}
