/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "service/policies/freeze.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/sat.h"
#include "os/futex.h"
#include "service/policies/edit.h"

#define READ_SECTION_MAX_NS (5 * WEIR_SEC) /* so long requests that have begun are waited for */
#define LOOK_NS             (WEIR_MS / 10) /* between two looks at them */
#define LOOKS_AWAKE         100            /* before the first pause: most of them end at once */

/* ---- asking ---- */

const struct frozen_range *weir_frozen_by_hash(const struct policy *policy, uint64_t hash)
{
    for (size_t i = 0; i < policy->frozen_count; i++)
        if (hash >= policy->frozen[i].from && hash <= policy->frozen[i].to)
            return &policy->frozen[i];
    return NULL;
}

static bool counts_in(const struct policy *policy, uint64_t serial)
{
    if (policy->main->serial == serial)
        return true;
    for (size_t i = 0; i < policy->prefix_count; i++)
        if (policy->prefixes[i].ptable->serial == serial)
            return true;
    return false;
}

const struct frozen_range *weir_frozen_in(const struct snapshot *snapshot, uint64_t serial, uint64_t hash,
                                          const struct policy **policy)
{
    for (size_t i = 0; i < snapshot->policy_count; i++) {
        *policy = snapshot->policies[i];
        if ((*policy)->frozen_count > 0 && counts_in(*policy, serial))
            return weir_frozen_by_hash(*policy, hash);
    }
    return NULL;
}

/* ---- changing ---- */

static struct frozen_range *find_frozen_range(struct policy *policy, struct export_range range)
{
    for (size_t i = 0; i < policy->frozen_count; i++)
        if (policy->frozen[i].from == range.from && policy->frozen[i].to == range.to)
            return &policy->frozen[i];
    return NULL;
}

/* It is told to strangers as a word of a line. */
static bool is_url(struct slice url)
{
    for (size_t i = 0; i < url.len; i++)
        if (url.bytes[i] <= ' ' || url.bytes[i] > '~')
            return false;
    return url.len < FROZEN_URL_MAX;
}

bool weir_policy_freeze(struct policy *policy, struct export_range range, struct slice url,
                        struct weir_error *err)
{
    struct frozen_range *frozen = find_frozen_range(policy, range);
    if (!is_url(url))
        return weir_error_complain_as(err, EINVAL,
                                      "the address has at most 255 bytes, and no blanks: redis://host:port");
    if (!frozen && policy->frozen_count == FROZEN_MAX)
        return weir_error_complain_as(
            err, ENOSPC, "8 ranges of this policy are frozen already: WEIR.THAW some, or all of it");
    if (!frozen)
        frozen = &policy->frozen[policy->frozen_count++];
    *frozen = (struct frozen_range){.from = range.from, .to = range.to};
    if (url.len > 0)
        memcpy(frozen->url, url.bytes, url.len);
    return true;
}

/* What limits of before a change remember cannot be moved: they know keys by other hashes. */
static bool refuse_previous_limits(struct edit *edit, const struct policy *policy)
{
    int64_t ends = policy_previous_ends(policy);
    int64_t left = ends == WEIR_FOREVER ? policy->previous_for_ns : ends - edit->now_ns;
    return ends == 0 || left <= 0 ||
           weir_edit_fail(
               edit, EBUSY,
               "policy '%.63s' changed the kind of its limits, and those of before count for %" PRId64
               " s more, which cannot be moved: try again then",
               policy->name, left / WEIR_SEC + 1);
}

static bool freeze_range(struct edit *edit, struct slice name, struct export_range range, struct slice url)
{
    const struct policy *has = weir_edit_find(edit, name);
    if (has && url.len > 0 && (has->is_tier || (has->address && has->address->tier_count > 1)))
        return weir_edit_fail(
            edit, EPERM,
            "policy '%.63s' counts an address in several tiers, whose keys cannot move apart "
            "from each other: they cannot be frozen",
            has->name);
    struct policy *policy = has && refuse_previous_limits(edit, has) ? weir_edit_copy(edit, has) : NULL;
    return policy && weir_edit_put(edit, policy, weir_policy_freeze(policy, range, url, edit->err));
}

static bool is_in_earlier_read_section(const struct worker *worker, uint64_t epoch)
{
    uint64_t read_epoch = atomic_load_explicit(&worker->read_epoch, memory_order_seq_cst);
    return read_epoch % 2 == 1 && read_epoch / 2 < epoch;
}

/* Turns end in well under a millisecond, unless their thread has to wait for a processor: then it must not be
 * kept busy here. By real time: the service's clock may be one that stands still. */
bool weir_freeze_settle(struct service *service, struct weir_error *err)
{
    uint64_t epoch = atomic_load_explicit(&service->epoch, memory_order_seq_cst);
    int64_t until_ns = sat_add(weir_monotonic_ns(), READ_SECTION_MAX_NS);
    _Atomic uint32_t nobody = 0; /* wakes it */
    int looks = 0;
    for (uint32_t i = 0; i < service->options.workers; i++)
        while (is_in_earlier_read_section(&service->workers[i], epoch)) {
            int64_t now_ns = weir_monotonic_ns();
            if (now_ns >= until_ns)
                return weir_error_complain_as(
                    err, EBUSY,
                    "it is frozen, but some requests that began before have not ended: try again");
            if (looks++ < LOOKS_AWAKE)
                (void)sched_yield();
            else
                weir_futex_wait(&nobody, 0, now_ns + LOOK_NS);
        }
    return true;
}

bool weir_change_freeze(struct service *service, struct slice policy, struct export_range range,
                        struct slice url, struct weir_error *err)
{
    struct edit edit;
    if (!weir_edit_begin(&edit, service, err))
        return false;
    return weir_edit_end(&edit, freeze_range(&edit, policy, range, url)) && weir_freeze_settle(service, err);
}

static bool thaw_range(struct edit *edit, struct slice name, struct export_range range, bool all)
{
    const struct policy *has = weir_edit_find(edit, name);
    struct policy *policy = has ? weir_edit_copy(edit, has) : NULL;
    if (!policy)
        return false;
    struct frozen_range *frozen = find_frozen_range(policy, range);
    bool found = all ? policy->frozen_count > 0 : frozen != NULL;
    if (all)
        policy->frozen_count = 0;
    else if (frozen)
        *frozen = policy->frozen[--policy->frozen_count];
    return weir_edit_put(edit, policy,
                         found || weir_edit_fail(edit, ENOENT, "that is not frozen: WEIR.POLICY SHOW tells"));
}

bool weir_change_thaw(struct service *service, struct slice policy, struct export_range range, bool all,
                      struct weir_error *err)
{
    struct edit edit;
    if (!weir_edit_begin(&edit, service, err))
        return false;
    return weir_edit_end(&edit, thaw_range(&edit, policy, range, all));
}
