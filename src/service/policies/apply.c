/* SPDX-License-Identifier: MIT */
/*
 * A configuration comes into force: the policies that the file names get what it says, those that it named
 * before and does not name any more go, those that were set by command stay. What the file says stands above
 * what a command has changed since, but for what has an end of its own: a mode for half an hour, and limits
 * of keys that the file does not name.
 */

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/sat.h"
#include "base/text.h"
#include "service/log.h"
#include "service/policies/apply.h"
#include "service/policies/edit.h"
#include "service/policies/growth.h"
#include "table/persist/persist.h"

#define FLEET_KEYS 64 /* room of a table that counts one key, or none: those of a fleet */

struct config_apply {
    struct edit edit;
    const struct config *config;
    int64_t wall_ms;
    int64_t promised;             /* bytes of room that tables in use are to get once all is in force */
    struct policy **was;          /* of each policy of the file: as it was, or NULL; a reference each */
    struct config_place wrong_at; /* in the file */
};

static bool set_error_place(struct config_apply *apply, struct config_place place)
{
    apply->wrong_at = place;
    return false;
}

/* ---- overrides ---- */

static bool is_past(const struct config_apply *apply, const struct config_override *override)
{
    return override->until_ms != 0 && override->until_ms <= apply->wall_ms;
}

static bool names_override(const struct config_apply *apply, const struct config_policy *from,
                           struct slice key, bool prefix)
{
    for (size_t i = 0; i < from->override_count; i++) {
        const struct config_override *override = &from->overrides[i];
        if (override->prefix == prefix && override->len == key.len && !is_past(apply, override) &&
            (key.len == 0 || memcmp(override->key, key.bytes, key.len) == 0))
            return true;
    }
    return false;
}

/* Those of the file that it does not name any more. */
static bool remove_overrides(struct config_apply *apply, struct policy *policy,
                             const struct config_policy *from, bool prefix)
{
    bool good = true;
    for (size_t i = prefix ? policy->prefix_count : policy->key_count; good && i-- > 0;) {
        const struct policy_override *override = &(prefix ? policy->prefixes : policy->keys)[i];
        struct edit_override none = {.key = {override->key, override->len}, .prefix = prefix};
        if (override->from_file && !names_override(apply, from, none.key, prefix))
            good = weir_edit_override(&apply->edit, policy, &none);
    }
    return good;
}

static bool apply_override(struct config_apply *apply, struct policy *policy,
                           const struct config_override *from)
{
    char text[SPEC_TEXT_MAX];
    if (is_past(apply, from)) {
        weir_log(LOG_INFO_LEVEL, "override-past", LOG_TEXT("policy", policy->name),
                 LOG_TEXT("key", from->key), LOG_NUMBER("line", from->place.line));
        return true;
    }
    struct edit_override to = {.key = {from->key, from->len},
                               .prefix = from->prefix,
                               .text = text,
                               .reason = {from->reason, from->reason ? strlen(from->reason) : 0},
                               .until_ms = from->until_ms,
                               .from_file = true};
    return (weir_edit_read(&apply->edit, from->limits, text) &&
            weir_edit_override(&apply->edit, policy, &to)) ||
           set_error_place(apply, from->place);
}

static bool apply_overrides(struct config_apply *apply, struct policy *policy,
                            const struct config_policy *from)
{
    if (!remove_overrides(apply, policy, from, false) || !remove_overrides(apply, policy, from, true))
        return false;
    for (size_t i = 0; i < from->override_count; i++)
        if (!apply_override(apply, policy, &from->overrides[i]))
            return false;
#if WEIR_ASSERTIONS
    for (size_t i = 0; i < policy->key_count; i++)
        ASSERT(!policy->keys[i].from_file ||
               names_override(apply, from, (struct slice){policy->keys[i].key, policy->keys[i].len}, false));
#endif
    return true;
}

/* ---- policies ---- */

/* A mode that has an end keeps it. */
static void apply_mode(const struct config_apply *apply, struct policy *policy,
                       const struct config_policy *from)
{
    int percent = from->percent > 0 ? from->percent : CONFIG_PERCENT_ALL;
    if (policy->mode_until_ms > apply->wall_ms) {
        policy->mode_after = from->mode;
        policy->percent_after = percent;
        return;
    }
    policy->mode = from->mode;
    policy->percent = percent;
    policy->mode_until_ms = 0;
}

/* Room that the file asks for and the table does not have yet: it gets that when all is in force, because a
 * change that fails must not have changed anything. Here it is only seen to that there is enough. */
static bool check_keys_fit(struct config_apply *apply, struct policy *policy,
                           const struct config_policy *from)
{
    const struct service *service = apply->edit.service;
    int64_t used = atomic_load_explicit(&service->memory_used, memory_order_relaxed);
    int64_t left = max64(service->memory - used - apply->promised, 0);
    int64_t cost = weir_growth_cost(policy->main, from->keys);
    policy->keys_asked = from->keys;
    if (cost > left)
        return weir_edit_fail(&apply->edit, ENOMEM,
                              "keys: %" PRId64 " needs %" PRId64 " MiB, but only %" PRId64
                              " MiB of memory: is free; raise memory: or lower keys:",
                              from->keys, (cost >> 20) + 1, left >> 20);
    apply->promised += cost;
    return true;
}

/* What its table has. */
static const char *limits_of(const struct config_policy *from)
{
    return from->fleet && from->fleet->lowered ? from->fleet->lowered : from->limits;
}

/* A table that is never asked needs no room. */
static int64_t keys_of(const struct config_apply *apply, const struct config_policy *from, const char *text)
{
    if (from->fleet && (!from->fleet->local || !from->fleet->each))
        return FLEET_KEYS;
    return from->keys > 0 ? from->keys
                          : weir_growth_first(apply->edit.service, text, apply->config->policy_count);
}

/* What the first tier counted under other prefixes is asked for no more. */
static void set_address(struct policy *policy, const struct config_policy *from)
{
    weir_address_rules_drop(policy->address);
    policy->address = weir_address_rules_ref(from->address);
    policy->is_tier = from->is_tier;
    policy->address_in_catalogue = false;
}

static bool apply_limits(struct config_apply *apply, struct policy *policy, const struct config_policy *from)
{
    char text[SPEC_TEXT_MAX], candidate[SPEC_TEXT_MAX];
    struct edit *edit = &apply->edit;
    if (!weir_edit_read(edit, limits_of(from), text) ||
        (from->candidate && !weir_edit_read(edit, from->candidate, candidate)))
        return false;
    bool other_keys =
        from->address && policy->address && !weir_address_same_tier(from->address, policy->address);
    struct edit_limits to = {text, keys_of(apply, from, text), other_keys,
                             policy->main && policy->settings.on_full != from->settings.on_full};
    set_address(policy, from);
    policy->settings = from->settings;
    return weir_edit_limits(edit, policy, &to) && check_keys_fit(apply, policy, from) &&
           weir_edit_candidate(edit, policy, from->candidate ? candidate : NULL, to.keys);
}

static const char *mode_text(enum policy_mode mode, int percent, char text[static 24])
{
    (void)snprintf(text, 24, "%s", weir_mode_name(mode));
    if (percent > 0 && percent < CONFIG_PERCENT_ALL)
        (void)snprintf(text, 24, "enforce %d%%", percent);
    return text;
}

/* What a command had set ends here, if it was something else. A mode with an end stays. */
static void log_from_file(const struct policy *policy, const struct config_policy *from)
{
    char was[24], is[24];
    mode_text(policy->mode, policy->percent, was);
    mode_text(from->mode, from->percent, is);
    bool other_mode = policy->mode_until_ms == 0 && strcmp(was, is) != 0;
    if (strcmp(policy->limits, limits_of(from)) != 0)
        weir_log_change(LOG_INFO_LEVEL, "policy-from-file", LOG_TEXT("policy", policy->name),
                        LOG_TEXT("was", policy->limits), LOG_TEXT("is", limits_of(from)));
    if (policy->candidate_set)
        weir_log_change(LOG_INFO_LEVEL, "candidate-from-file", LOG_TEXT("policy", policy->name),
                        LOG_TEXT("was", policy->candidate ? policy->candidate : "none"),
                        LOG_TEXT("is", from->candidate ? from->candidate : "none"));
    if (other_mode)
        weir_log_change(LOG_INFO_LEVEL, "mode-from-file", LOG_TEXT("policy", policy->name),
                        LOG_TEXT("was", was), LOG_TEXT("is", is));
}

static void log_floor(const struct config_policy *from)
{
    char means[FLOOR_TEXT_MAX];
    weir_limits_floor(from->limits, means);
    weir_log(LOG_INFO_LEVEL, "recover-floor", LOG_TEXT("policy", from->name), LOG_TEXT("means", means));
}

/* Where its units come from; what has changed is left, and joined anew. */
static bool apply_fleet(struct config_apply *apply, struct policy *policy, const struct config_policy *from)
{
    struct service *service = apply->edit.service;
    struct fleet_pools *has = policy->pools;
    policy->pools = NULL;
    policy->leases = policy->fleet_in_catalogue = false;
    bool good = true;
    if (from->fleet && !from->fleet->local && service->options.test_clock)
        good = weir_edit_fail(&apply->edit, EINVAL,
                              "--test-clock has a time of its own, which other servers do not have: there "
                              "a fleet's coordinator can be local: alone");
    else if (from->fleet)
        good = (policy->pools =
                    weir_pools_of(service, has, from, region_time(policy->main->table->region, weir_now()),
                                  apply->edit.err)) != NULL;
    policy->leases = policy->pools && !policy->pools->local;
    if (good && from->fleet && from->fleet->local && !has && !service->store && !service->options.no_store)
        weir_log(LOG_WARN_LEVEL, "fleet-root-in-memory", LOG_TEXT("policy", from->name),
                 LOG_TEXT("means", "after a start it leases all of its total once more"),
                 LOG_TEXT("do", "give it a directory: --data"));
    weir_pools_drop(has);
    return good;
}

static bool apply_policy(struct config_apply *apply, const struct config_policy *from)
{
    struct edit *edit = &apply->edit;
    const struct policy *has =
        weir_snapshot_policy(edit->now, (struct slice){from->name, strlen(from->name)});
    struct policy *policy =
        has ? weir_edit_copy(edit, has) : weir_policy_make(from->name, edit->service->options.workers + 1);
    if (!policy)
        return weir_edit_out_of_memory(edit);
    policy->from_file = true;
    policy->file_mode = from->mode;
    policy->file_percent = from->percent > 0 ? from->percent : CONFIG_PERCENT_ALL;
    policy->touched = policy->candidate_set = false;
    apply_mode(apply, policy, from);
    const char *limits = limits_of(from);
    bool good = weir_edit_text(edit, &policy->file_limits, limits, strlen(limits)) &&
                ((apply_limits(apply, policy, from) && apply_fleet(apply, policy, from)) ||
                 set_error_place(apply, from->place)) &&
                apply_overrides(apply, policy, from);
    ASSERT(!good || memcmp(&policy->settings, &from->settings, sizeof policy->settings) == 0);
    return weir_edit_put(edit, policy, good);
}

static bool is_policy_in_config(const struct config *config, const char *name)
{
    for (size_t i = 0; i < config->policy_count; i++)
        if (strcmp(config->policies[i].name, name) == 0)
            return true;
    return false;
}

/* A file that was cut off, or is empty, must not take everything away. */
static bool takes_all_away(const struct config_apply *apply)
{
    size_t filed = 0;
    for (size_t i = 0; i < apply->edit.now->policy_count; i++)
        filed += apply->edit.now->policies[i]->from_file;
    return filed > 0 && apply->config->policy_count == 0 && !apply->config->no_policies;
}

static bool fail_missing(struct config_apply *apply, const char *what)
{
    const char *path = apply->config->path;
    return weir_edit_fail(&apply->edit, EINVAL, "%.100s: %s", path ? path : "the file", what);
}

static bool apply_policies(struct config_apply *apply)
{
    const struct snapshot *now = apply->edit.now;
    bool no_file = !apply->config->path; /* a start without one: nobody says that what a store has is to go */
    if (!no_file && takes_all_away(apply))
        return fail_missing(apply, CONFIG_EMPTY);
    for (size_t i = 0; i < now->policy_count; i++) {
        const struct policy *policy = now->policies[i];
        bool unknown = policy->fleet_in_catalogue || policy->address_in_catalogue;
        bool goes = no_file ? unknown : policy->from_file;
        if (!goes || is_policy_in_config(apply->config, policy->name))
            continue;
        if (no_file &&
            policy->fleet_in_catalogue) /* its coordinator is not noted, and alone it must not decide */
            weir_log(LOG_WARN_LEVEL, "fleet-policy-left-out", LOG_TEXT("policy", policy->name),
                     LOG_TEXT("do", "start with the file that has its coordinator"));
        else if (no_file) /* nor are its tiers and lists */
            weir_log(LOG_WARN_LEVEL, "address-policy-left-out", LOG_TEXT("policy", policy->name),
                     LOG_TEXT("do", "start with the file that has its address:, allow: and block:"));
        ASSERT(policy->from_file || unknown); /* what commands have set stays */
        if (!weir_snapshot_put(apply->edit.next, policy->name, NULL))
            return weir_edit_out_of_memory(&apply->edit);
    }
    for (size_t i = 0; i < apply->config->policy_count; i++)
        if (!apply_policy(apply, &apply->config->policies[i]))
            return false;
    if (apply->edit.next->policy_count <= CONFIG_POLICIES_MAX)
        return true;
    return weir_edit_fail(&apply->edit, ENOSPC,
                          "more than 1024 policies, with those that were set by command: delete some "
                          "(WEIR.POLICY DEL)");
}

/* ---- users ---- */

static bool fail_exposed(struct config_apply *apply, const char *where)
{
    return weir_edit_fail(&apply->edit, EPERM,
                          "%s can be reached from elsewhere and there is no password; give --password-file "
                          "FILE, or --no-password if something in front of weir asks for one",
                          where);
}

static void warn_of_files(const struct config *config)
{
    for (size_t i = 0; i < config->user_count; i++)
        if (config->users[i].open_file)
            weir_log(LOG_WARN_LEVEL, "password-file-open", LOG_TEXT("user", config->users[i].name),
                     LOG_TEXT("file", config->users[i].open_file),
                     LOG_TEXT("means", "every user of this machine can read the password or token"),
                     LOG_TEXT("do", "chmod 640 it, or 600"));
}

static bool names_default(const struct config *config)
{
    for (size_t i = 0; i < config->user_count; i++)
        if (strcmp(config->users[i].name, "default") == 0)
            return true;
    return false;
}

/* What the command line says of the password stands above the file. But where the file has users, only they
 * may do something: what strangers may, the file has to say. */
static bool apply_users(struct config_apply *apply)
{
    const struct service_options *options = &apply->edit.service->options;
    if (options->no_password && apply->config->user_count > 0 && !names_default(apply->config))
        return weir_edit_fail(&apply->edit, EPERM,
                              "--no-password lets every client in as `default`, which users: does not name; "
                              "leave out --no-password, or add what they may: {name: default, may: [look]}");
    struct users *users = weir_users_new(apply->config);
    if (!users)
        return weir_edit_out_of_memory(&apply->edit);
    if (options->no_password)
        users->list[0].has_password = false;
    if (options->password) {
        users->list[0].has_password = true;
        users->list[0].passwords[0] = (struct password){.digest = *options->password};
        users->list[0].password_count = 1;
        weir_users_find_crypt(users);
    }
    /* Where the file has users, a client that has not logged in may do what the file says alone. */
    INVARIANT(36,
              apply->config->user_count == 0 || names_default(apply->config) || users->list[0].has_password);
    weir_users_number(users, apply->edit.now->users, &apply->edit.service->generation);
    bool open = !users->list[0].has_password && !options->no_password;
    weir_users_free((struct users *)(uintptr_t)apply->edit.next->users);
    apply->edit.next->users = users;
    weir_http_rules_drop(apply->edit.next->http);
    apply->edit.next->http = weir_http_rules_ref(apply->config->http);
    return !open || !options->exposed || fail_exposed(apply, options->exposed);
}

/* May somebody do less than everything, by what the file in force says? */
static bool has_users(const struct users *users, const struct service_options *options)
{
    const struct user *first = users ? &users->list[0] : NULL;
    return first && (users->count > 1 || (first->has_password && !options->password) ||
                     !weir_user_is_admin(first) || first->may != MAY_ALL);
}

/* A file that lost its users must not open the server. With a password of the command line it does not. */
static bool keeps_users(struct config_apply *apply)
{
    const struct service_options *options = &apply->edit.service->options;
    return apply->config->user_count > 0 || options->password ||
           !has_users(apply->edit.now->users, options) || fail_missing(apply, CONFIG_NO_USERS);
}

/* ---- all of it ---- */

/* What has come into force is told afterwards: a file that is refused has changed nothing. */
static void tell_changes(const struct edit *edit, const void *arg)
{
    const struct config *config = arg;
    for (size_t i = 0; i < config->policy_count; i++) {
        const struct config_policy *from = &config->policies[i];
        const struct policy *was =
            weir_snapshot_policy(edit->now, (struct slice){from->name, strlen(from->name)});
        if (was && (was->touched || !was->from_file))
            log_from_file(was, from);
        if (edit->service->store && from->settings.recover == TABLE_FLOOR &&
            (!was || was->settings.recover != TABLE_FLOOR))
            log_floor(from);
    }
    warn_of_files(config);
}

static bool apply_config(struct service *service, const struct config *config, struct config_place *wrong_at,
                         struct weir_error *err)
{
    struct config_apply apply = {.config = config};
    if (!weir_edit_begin(&apply.edit, service, err))
        return false;
    apply.wall_ms = service_wall_ms(service, apply.edit.now_ns);
    apply.edit.next->loaded_ms = apply.wall_ms;
    apply.edit.in_force = tell_changes;
    apply.edit.in_force_arg = config;
    bool good = apply_users(&apply) && keeps_users(&apply) && apply_policies(&apply);
    INVARIANT(36, !good || config->user_count > 0 || service->options.password ||
                      !has_users(apply.edit.now->users, &service->options));
    good = weir_edit_end(&apply.edit, good);
    *wrong_at = apply.wrong_at;
    if (good && service->users_changed)
        service->users_changed(service->server);
    return good;
}

bool weir_service_apply(struct service *service, const struct config *config, struct weir_error *err)
{
    struct config_place wrong_at;
    bool good = apply_config(service, config, &wrong_at, err);
    if (!good && service->options.wrong_at) {
        *service->options.wrong_at = wrong_at;
    } else if (!good && err && config->path && wrong_at.line > 0) {
        char text[sizeof err->text];
        memcpy(text, err->text, sizeof text);
        (void)snprintf(err->text, sizeof err->text, "%s:%d:%d: %.160s", weir_config_shown(config->path),
                       wrong_at.line, wrong_at.column, text);
    }
    return good;
}

/*
 * The file is read again and put in force, all of it or nothing. Some of it counts from the next start on:
 * who has changed that is told.
 */

/* ---- what was made at the start ---- */

bool weir_start_digest(struct service *service, const struct config *config)
{
    for (size_t i = 0; i < CONFIG_START_KEYS; i++)
        if (!weir_config_start_key(config, i, &service->start[i]))
            return false;
    return true;
}

static void tell_what_needs_a_start(const struct service *service, const struct config *config,
                                    struct buffer *report)
{
    for (size_t i = 0; i < CONFIG_START_KEYS; i++) {
        struct digest wanted;
        const char *name = weir_config_start_key(config, i, &wanted);
        if (!name || weir_digest_same(&wanted, &service->start[i]))
            continue;
        weir_buffer_print(report, "%s counts from the next start on\n", name);
        weir_log(LOG_WARN_LEVEL, "needs-restart", LOG_TEXT("what", name),
                 LOG_TEXT("why", "it counts from the next start on"));
    }
}

/* ---- reading ---- */

struct reload {
    struct buffer *report;
    char error[200]; /* the first mistake, as INFO may show it */
};

/* INFO shows the place of a mistake in the file, not its text: that may be a password, and more users may see
 * INFO than the file. */
static void report_error(struct reload *reload, struct config_place place, const char *file, const char *text)
{
    weir_buffer_print(reload->report, "%s\n", text);
    if (reload->error[0])
        return;
    if (place.line > 0)
        (void)snprintf(reload->error, sizeof reload->error, "%s:%d:%d: not valid; see the log or weir check",
                       file, place.line, place.column);
    else
        (void)snprintf(reload->error, sizeof reload->error, "%s", text);
}

/* A line each: a caret in a second one would stand under nothing here. */
static void report_complaint(void *arg, const struct config_complaint *complaint)
{
    char text[COMPLAINT_TEXT_MAX];
    report_error(arg, complaint->place, complaint->file, weir_complaint_text(complaint, false, text));
}

/* With what stands above the file. */
static struct config *read_again(const struct service *service, struct reload *reload)
{
    const struct service_options *options = &service->options;
    struct config *config = weir_config_read(options->config_path, report_complaint, reload);
    if (!config || !options->above || options->above(options->above_arg, config))
        return config;
    weir_config_free(config);
    return NULL;
}

/* ---- saying what came of it ---- */

/* What stays in force, by the time of day at which it came into force. */
static void say_what_stays(struct service *service, struct buffer *report)
{
    const struct snapshot *snapshot = atomic_load_explicit(&service->snapshot, memory_order_acquire);
    int64_t second = snapshot->loaded_ms / 1000 % 86400;
    weir_buffer_print(report, "nothing was changed: the configuration of %02d:%02d:%02d stays in force\n",
                      (int)(second / 3600), (int)(second / 60 % 60), (int)(second % 60));
}

static void remember_reload_error(struct service *service, const struct reload *reload, bool good)
{
    pthread_mutex_lock(&service->change);
    (void)snprintf(service->reload_error, sizeof service->reload_error, "%s", good ? "" : reload->error);
    if (!good)
        say_what_stays(service, reload->report);
    pthread_mutex_unlock(&service->change);
}

static void log_good(struct service *service, size_t policies)
{
    const struct snapshot *snapshot = atomic_load_explicit(&service->snapshot, memory_order_acquire);
    weir_log_change(LOG_INFO_LEVEL, "reloaded", LOG_TEXT("config", service->options.config_path),
                    LOG_NUMBER("policies", (int64_t)policies),
                    LOG_NUMBER("in_force", (int64_t)snapshot->policy_count));
}

/* A line each. */
static void log_report(struct buffer *report)
{
    const char *line = buffer_bytes(report);
    size_t left = buffer_len(report);
    while (left > 0) {
        char text[512];
        const char *end = memchr(line, '\n', left);
        size_t len = end ? (size_t)(end - line) : left;
        (void)snprintf(text, sizeof text, "%.*s", (int)(len < sizeof text ? len : sizeof text - 1), line);
        if (len > 0)
            weir_log(LOG_ERROR_LEVEL, "reload-failed", LOG_TEXT("why", text),
                     LOG_TEXT("means", "nothing was changed"));
        line += len + (end != NULL);
        left -= len + (end != NULL);
    }
}

/* Reads the file and puts it in force. Returns how many policies it has, or -1. */
static int64_t reload_config(struct service *service, struct reload *reload)
{
    struct weir_error err = {0};
    struct config_complaint why = {.file = service->options.config_path};
    struct config *config = read_again(service, reload);
    int64_t policies = -1;
    bool good = config && (!service->prepare || service->prepare(service->server, config, &err)) &&
                apply_config(service, config, &why.place, &err);
    if (config && service->prepared)
        service->prepared(service->server, config, good);
    if (good) {
        policies = (int64_t)config->policy_count;
        tell_what_needs_a_start(service, config, reload->report);
    } else if (config) {
        char text[COMPLAINT_TEXT_MAX];
        (void)snprintf(why.message, sizeof why.message, "%s", err.text);
        report_error(reload, why.place, why.file,
                     why.place.line > 0 ? weir_complaint_text(&why, false, text) : err.text);
    }
    weir_config_free(config);
    return policies;
}

bool weir_service_reload(struct service *service, struct buffer *report)
{
    static const struct config_place nowhere = {0, 0};
    struct reload reload = {.report = report};
    int64_t policies = -1;
    if (service->options.config_path)
        policies = reload_config(service, &reload);
    else
        report_error(&reload, nowhere, NULL,
                     "there is no file to read: weir serve was started without --config");
    bool good = policies >= 0;
    if (!good && !reload.error[0])
        report_error(&reload, nowhere, NULL, "out of memory");
    atomic_fetch_add_explicit(good ? &service->reloads : &service->reload_failures, 1, memory_order_relaxed);
    if (good)
        log_good(service, (size_t)policies);
    else
        log_report(report);
    remember_reload_error(service, &reload, good);
    return good;
}
