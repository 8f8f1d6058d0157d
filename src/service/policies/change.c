/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "service/policies/change.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/sat.h"
#include "service/log.h"
#include "service/policies/edit.h"
#include "service/policies/growth.h"
#include "store/commit.h"

#define LOGGED_KEY 4098 /* a key, and the star of a prefix */

/* ---- policies ---- */

/* What all servers of a fleet agree on is not changed by one of them. */
static bool refuse_fleet(struct edit *edit, const struct policy *policy, const char *do_instead)
{
    return weir_edit_fail(edit, EPERM, "policy '%.63s' shares its limit with other servers; %s", policy->name,
                          do_instead);
}

/* What the file says of addresses is not changed by commands. */
static bool refuse_tiers(struct edit *edit, const struct policy *policy)
{
    if (policy->is_tier)
        return weir_edit_fail(edit, EPERM,
                              "'%.63s' is a tier of address: of the policy in front of the '/': "
                              "change the file, and WEIR.RELOAD",
                              policy->name);
    return !(policy->address && policy->address->has_tiers) ||
           weir_edit_fail(edit, EPERM,
                          "policy '%.63s' has address: in the file: change that, and WEIR.RELOAD",
                          policy->name);
}

static struct policy *new_policy(struct edit *edit, struct slice name)
{
    char why[200], text[CONFIG_NAME_MAX + 1] = "";
    if (!weir_config_name(name.bytes, name.len, why, sizeof why)) {
        (void)weir_edit_fail(edit, EINVAL, "%s", why);
        return NULL;
    }
    if (edit->now->policy_count >= CONFIG_POLICIES_MAX) {
        (void)weir_edit_fail(edit, ENOSPC, "there are %d policies already, the most there can be",
                             CONFIG_POLICIES_MAX);
        return NULL;
    }
    memcpy(text, name.bytes, name.len);
    struct policy *policy = weir_policy_make(text, edit->service->options.workers + 1);
    if (!policy)
        (void)weir_edit_out_of_memory(edit);
    return policy;
}

bool weir_change_policy(struct service *service, struct slice name, const char *limits, bool fresh,
                        struct weir_error *err)
{
    struct edit edit;
    char text[SPEC_TEXT_MAX];
    if (!weir_edit_begin(&edit, service, err))
        return false;
    if (!weir_edit_read(&edit, limits, text))
        return weir_edit_end(&edit, false);
    const struct policy *has = weir_snapshot_policy(edit.now, name);
    if (has && has->pools)
        return weir_edit_end(&edit,
                             refuse_fleet(&edit, has,
                                          has->leases ? "change its pool by weir quota set, and the file"
                                                      : "change the file, and WEIR.RELOAD"));
    if (has && !refuse_tiers(&edit, has))
        return weir_edit_end(&edit, false);
    struct policy *policy = has ? weir_edit_copy(&edit, has) : new_policy(&edit, name);
    if (!policy)
        return weir_edit_end(&edit, false);
    policy->touched = policy->from_file;
    struct edit_limits to = {text, weir_growth_next(service, text), fresh, false};
    bool good = weir_edit_put(&edit, policy, weir_edit_limits(&edit, policy, &to));
    return weir_edit_end(&edit, good);
}

static bool alter_candidate(struct edit *edit, const struct policy *has, const char *text)
{
    struct policy *policy = weir_edit_copy(edit, has);
    if (!policy)
        return false;
    policy->touched = policy->candidate_set = policy->from_file;
    int64_t keys = text ? weir_growth_next(edit->service, text) : 0;
    return weir_edit_put(edit, policy, weir_edit_candidate(edit, policy, text, keys));
}

bool weir_change_candidate(struct service *service, struct slice name, const char *limits,
                           struct weir_error *err)
{
    struct edit edit;
    char text[SPEC_TEXT_MAX];
    if (!weir_edit_begin(&edit, service, err))
        return false;
    const struct policy *has = weir_edit_find(&edit, name);
    if (!has || !refuse_tiers(&edit, has) || (limits && !weir_edit_read(&edit, limits, text)))
        return weir_edit_end(&edit, false);
    if (has->pools)
        return weir_edit_end(
            &edit, refuse_fleet(&edit, has, "try other limits in a policy of their own, in mode shadow"));
    if (!limits && !has->candidate)
        return weir_edit_end(&edit,
                             weir_edit_fail(&edit, ENOENT, "policy '%.63s' has no candidate", has->name));
    return weir_edit_end(&edit, alter_candidate(&edit, has, limits ? text : NULL));
}

bool weir_change_remove(struct service *service, struct slice name, bool forget, struct weir_error *err)
{
    struct edit edit;
    if (!weir_edit_begin(&edit, service, err))
        return false;
    const struct policy *has = weir_edit_find(&edit, name);
    edit.forgets = forget;
    return weir_edit_end(
        &edit, has && refuse_tiers(&edit, has) &&
                   (weir_snapshot_put(edit.next, has->name, NULL) || weir_edit_out_of_memory(&edit)));
}

/* ---- modes ---- */

/* Of what lasts `for_ns` from now on, as wall clock time, rounded up: never shorter than was said. 0: none.
 */
static int64_t end_after(const struct edit *edit, int64_t for_ns)
{
    return for_ns > 0 ? div_up(sat_add(service_wall_ns(edit->service, edit->now_ns), for_ns), WEIR_MS) : 0;
}

/* What an end leads back to is the last mode without one. */
static void set_mode(struct policy *policy, enum policy_mode mode, int percent, int64_t until_ms)
{
    if (policy->mode_until_ms == 0) {
        policy->mode_after = policy->mode;
        policy->percent_after = policy->percent;
    }
    policy->mode = mode;
    policy->percent = percent;
    policy->mode_until_ms = until_ms;
}

static bool mode_for_all(struct edit *edit, enum policy_mode mode, int percent, int64_t for_ns)
{
    if (percent != CONFIG_PERCENT_ALL)
        return weir_edit_fail(edit, EINVAL, "a percentage belongs to one policy; name it instead of *");
    if (mode == MODE_ENFORCE && for_ns > 0)
        return weir_edit_fail(edit, EINVAL,
                              "for all, enforce ends shadow or disabled and has no end of its own: leave the "
                              "time out");
    edit->next->mode_for_all = mode != MODE_ENFORCE;
    edit->next->all_mode = mode;
    edit->next->all_until_ms = end_after(edit, for_ns);
    return true;
}

static bool mode_for_one(struct edit *edit, struct slice name, enum policy_mode mode, int percent,
                         int64_t for_ns)
{
    const struct policy *has = weir_edit_find(edit, name);
    if (has && has->is_tier && !refuse_tiers(edit, has))
        return false;
    struct policy *policy = has ? weir_edit_copy(edit, has) : NULL;
    if (!policy)
        return false;
    set_mode(policy, mode, percent, end_after(edit, for_ns));
    policy->touched = policy->from_file;
    return weir_edit_put(edit, policy, true);
}

bool weir_change_mode(struct service *service, struct slice name, enum policy_mode mode, int percent,
                      int64_t for_ns, struct weir_error *err)
{
    struct edit edit;
    if (!weir_edit_begin(&edit, service, err))
        return false;
    bool good;
    edit.urgent = true; /* the kill switch must not need a disk */
    if (percent < 1 || percent > CONFIG_PERCENT_ALL ||
        (mode != MODE_ENFORCE && percent != CONFIG_PERCENT_ALL))
        good = weir_edit_fail(&edit, EINVAL, "a percentage is 1 to 100, and goes with enforce");
    else if (for_ns < 0)
        good = weir_edit_fail(&edit, EINVAL, "the time must be more than 0, as in 30m");
    else if (slice_is(name, "*"))
        good = mode_for_all(&edit, mode, percent, for_ns);
    else
        good = mode_for_one(&edit, name, mode, percent, for_ns);
    return weir_edit_end(&edit, good);
}

/* ---- overrides ---- */

/* Of a prefix, what stands before the '*'. */
static struct edit_override override_of(struct slice key)
{
    struct edit_override to = {.key = key};
    if (key.len > 0 && key.bytes[key.len - 1] == '*') {
        to.prefix = true;
        to.key.len--;
    }
    return to;
}

/* Of a policy whose keys are addresses: the tier that it belongs to, and the key there, in `text`. */
static const struct policy *find_override_tier(struct edit *edit, const struct policy *policy,
                                               struct edit_override *to, char text[static IP_TEXT_MAX])
{
    char why[ADDRESS_WHY_MAX];
    if (!policy || !policy->address)
        return policy;
    struct slice prefix = {to->key.bytes, to->prefix ? 0 : to->key.len};
    size_t tier = weir_address_tier_of(policy->address, prefix, text, why);
    if (tier == SIZE_MAX) {
        (void)weir_edit_fail(edit, EINVAL, "%s", why);
        return NULL;
    }
    to->key = (struct slice){text, strlen(text)};
    const char *name = policy->address->tiers[tier].name;
    return weir_edit_find(edit, (struct slice){name, strlen(name)});
}

static bool alter_override(struct edit *edit, const struct policy *has, const struct edit_override *to)
{
    struct policy *policy = weir_edit_copy(edit, has);
    if (!policy)
        return false;
    return weir_edit_put(edit, policy, weir_edit_override(edit, policy, to));
}

bool weir_change_override(struct service *service, struct slice policy, struct slice key, const char *limits,
                          int64_t for_ns, struct slice reason, struct weir_error *err)
{
    struct edit edit;
    char text[SPEC_TEXT_MAX];
    if (!weir_edit_begin(&edit, service, err))
        return false;
    char prefix[IP_TEXT_MAX];
    struct edit_override to = override_of(key);
    const struct policy *has = find_override_tier(&edit, weir_edit_find(&edit, policy), &to, prefix);
    if (!has || !weir_edit_read(&edit, limits, text))
        return weir_edit_end(&edit, false);
    if (has->pools)
        return weir_edit_end(
            &edit, refuse_fleet(&edit, has, "give such keys a policy of their own instead of an override"));
    to.text = text;
    to.reason = reason;
    to.until_ms = end_after(&edit, for_ns);
    return weir_edit_end(&edit, alter_override(&edit, has, &to));
}

bool weir_change_unoverride(struct service *service, struct slice policy, struct slice key,
                            struct weir_error *err)
{
    struct edit edit;
    if (!weir_edit_begin(&edit, service, err))
        return false;
    char prefix[IP_TEXT_MAX];
    struct edit_override to = override_of(key);
    const struct policy *has = find_override_tier(&edit, weir_edit_find(&edit, policy), &to, prefix);
    bool found = false;
    if (has)
        (void)weir_edit_override_at(has, to.prefix, to.key, &found);
    if (has && !found) {
        (void)weir_edit_fail(&edit, ENOENT,
                             "this key has no limits of its own there (WEIR.OVERRIDE LIST policy)");
        has = NULL;
    }
    return weir_edit_end(&edit, has && alter_override(&edit, has, &to));
}

/* ---- ends ---- */

/* The next end of anything; times of weir_now. */
struct change_ends {
    int64_t now_ns, wall_ms;
    int64_t next_ns;
};

static bool has_ended(struct change_ends *ends, int64_t until_ns)
{
    if (until_ns == 0)
        return false;
    if (until_ns > ends->now_ns)
        ends->next_ns = min64(ends->next_ns, until_ns);
    return until_ns <= ends->now_ns;
}

static bool is_over_by_wall(struct change_ends *ends, int64_t until_ms)
{
    if (until_ms == 0)
        return false;
    int64_t left_ms = sat_sub(until_ms, ends->wall_ms);
    if (left_ms > 0)
        ends->next_ns = min64(ends->next_ns, sat_add(ends->now_ns, sat_mul(left_ms, WEIR_MS)));
    return left_ms <= 0;
}

static bool policy_has_end(const struct policy *policy, struct change_ends *ends)
{
    bool over = is_over_by_wall(ends, policy->mode_until_ms);
    over |= has_ended(ends, policy_previous_ends(policy));
    for (size_t i = 0; i < policy->key_count; i++)
        over |= is_over_by_wall(ends, policy->keys[i].until_ms);
    for (size_t i = 0; i < policy->prefix_count; i++)
        over |= is_over_by_wall(ends, policy->prefixes[i].until_ms);
    return over;
}

static bool end_overrides(struct edit *edit, struct policy *policy, bool prefix, struct change_ends *ends)
{
    bool good = true;
    for (size_t i = prefix ? policy->prefix_count : policy->key_count; good && i-- > 0;) {
        const struct policy_override *override = &(prefix ? policy->prefixes : policy->keys)[i];
        if (!is_over_by_wall(ends, override->until_ms))
            continue;
        char shown[LOGGED_KEY];
        (void)snprintf(shown, sizeof shown, "%s%s", override->key, prefix ? "*" : "");
        weir_log(LOG_INFO_LEVEL, "override-ended", LOG_TEXT("policy", policy->name), LOG_TEXT("key", shown));
        struct edit_override none = {.key = {override->key, override->len}, .prefix = prefix};
        good = weir_edit_override(edit, policy, &none);
    }
    return good;
}

static bool end_policy(struct edit *edit, const struct policy *has, struct change_ends *ends)
{
    struct policy *policy = weir_edit_copy(edit, has);
    if (!policy)
        return false;
    if (is_over_by_wall(ends, policy->mode_until_ms)) {
        policy->mode = policy->mode_after;
        policy->percent = policy->percent_after;
        policy->mode_until_ms = 0;
        weir_log(LOG_INFO_LEVEL, "mode-ended", LOG_TEXT("policy", policy->name));
    }
    if (has_ended(ends, policy_previous_ends(policy))) {
        weir_policy_table_free(policy->previous);
        policy->previous = NULL;
    }
    return weir_edit_put(edit, policy,
                         end_overrides(edit, policy, false, ends) && end_overrides(edit, policy, true, ends));
}

static bool end_all(struct edit *edit, struct change_ends *ends)
{
    if (edit->now->mode_for_all && is_over_by_wall(ends, edit->now->all_until_ms)) {
        edit->next->mode_for_all = false;
        edit->next->all_until_ms = 0;
        weir_log(LOG_INFO_LEVEL, "mode-ended", LOG_TEXT("policy", "*"));
    }
    for (size_t i = 0; i < edit->now->policy_count; i++)
        if (policy_has_end(edit->now->policies[i], ends) && !end_policy(edit, edit->now->policies[i], ends))
            return false;
    return true;
}

/* Is there anything to be done? If not, when will there be? */
static bool anything_over(struct service *service, bool stepped, struct change_ends *ends)
{
    pthread_mutex_lock(&service->change);
    if (stepped) /* what was to come later may have come */
        service->upkeep.next_end_ns = 0;
    const struct snapshot *snapshot = atomic_load_explicit(&service->snapshot, memory_order_acquire);
    int64_t next_ns = service->upkeep.next_end_ns;
    bool over = false;
    if (next_ns <= ends->now_ns) {
        over = snapshot->mode_for_all && is_over_by_wall(ends, snapshot->all_until_ms);
        for (size_t i = 0; i < snapshot->policy_count; i++)
            over |= policy_has_end(snapshot->policies[i], ends);
        service->upkeep.next_end_ns = over ? 0 : ends->next_ns;
    }
    pthread_mutex_unlock(&service->change);
    return over;
}

void weir_change_ends(struct service *service)
{
    bool stepped = weir_service_look_at_wall(service);
    int64_t now_ns = weir_now();
    struct change_ends ends = {now_ns, service_wall_ms(service, now_ns), WEIR_FOREVER};
    struct edit edit;
    struct weir_error err;
    if (!anything_over(service, stepped, &ends) || (service->store && !weir_store_is_well(service->store)))
        return; /* a change would be refused: as soon as it is not */
    if (!weir_edit_begin(&edit, service, &err) || !weir_edit_end(&edit, end_all(&edit, &ends)))
        weir_log(LOG_ERROR_LEVEL, "end-failed", LOG_TEXT("error", err.text));
}
