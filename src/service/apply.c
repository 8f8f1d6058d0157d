/* SPDX-License-Identifier: MIT */
/*
 * A configuration comes into force: the policies that the file names get what it says, those that it named
 * before and does not name any more go, those that were set by command stay. What the file says stands above
 * what a command has changed since, but for what has an end of its own: a mode for half an hour, and limits
 * of keys that the file does not name.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sat.h"
#include "service/change.h"
#include "service/edit.h"
#include "service/growth.h"
#include "service/log.h"

struct apply {
    struct edit edit;
    const struct config *config;
    int64_t wall_ms;
};

/* Says where in the file the trouble is. */
static bool blame(struct apply *apply, struct place place)
{
    struct weir_error *err = apply->edit.err;
    char text[sizeof err->text];
    if (!err || !apply->config->path || place.line == 0)
        return false;
    memcpy(text, err->text, sizeof text);
    (void)snprintf(err->text, sizeof err->text, "%.60s:%d:%d: %.170s", apply->config->path, place.line,
                   place.column, text);
    return false;
}

/* ---- overrides ---- */

static bool is_past(const struct apply *apply, const struct config_override *override)
{
    return override->until_ms != 0 && override->until_ms <= apply->wall_ms;
}

static bool names(const struct apply *apply, const struct config_policy *from, struct slice key, bool prefix)
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
static bool remove_overrides(struct apply *apply, struct policy *policy, const struct config_policy *from)
{
    bool good = true;
    for (size_t i = policy->key_count; good && i-- > 0;) {
        struct slice key = {policy->keys[i].key, policy->keys[i].len};
        if (policy->keys[i].from_file && !names(apply, from, key, false))
            good = weir_edit_override(&apply->edit, policy, &(struct edit_override){.key = key});
    }
    for (size_t i = policy->prefix_count; good && i-- > 0;) {
        struct slice key = {policy->prefixes[i].prefix, policy->prefixes[i].len};
        if (policy->prefixes[i].from_file && !names(apply, from, key, true))
            good =
                weir_edit_override(&apply->edit, policy, &(struct edit_override){.key = key, .prefix = true});
    }
    return good;
}

static bool apply_override(struct apply *apply, struct policy *policy, const struct config_override *from)
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
           blame(apply, from->place);
}

static bool apply_overrides(struct apply *apply, struct policy *policy, const struct config_policy *from)
{
    if (!remove_overrides(apply, policy, from))
        return false;
    for (size_t i = 0; i < from->override_count; i++)
        if (!apply_override(apply, policy, &from->overrides[i]))
            return false;
    return true;
}

/* ---- policies ---- */

/* A mode that has an end keeps it. */
static void apply_mode(const struct apply *apply, struct policy *policy, const struct config_policy *from)
{
    int percent = from->percent > 0 ? from->percent : CONFIG_PERCENT_ALL;
    if (policy->mode_until_ns > apply->edit.now_ns) {
        policy->mode_after = from->mode;
        policy->percent_after = percent;
        return;
    }
    policy->mode = from->mode;
    policy->percent = percent;
    policy->mode_until_ns = 0;
}

/* Room that the file asks for and the table does not have yet. Harmless if the rest fails. */
static bool make_room(struct apply *apply, struct policy *policy, const struct config_policy *from)
{
    struct weir_table_info info;
    weir_table_stat(policy->main->table, &info);
    int64_t more = from->keys - info.capacity;
    if (more <= 0)
        return true;
    if (weir_growth_room(apply->edit.service, policy->limits, more) < more)
        return weir_edit_fail(&apply->edit, ENOMEM,
                              "so many keys: do not fit into the budget; raise memory:");
    if (!weir_table_grow(policy->main->table, (size_t)from->keys, apply->edit.err))
        return false;
    policy->main->bytes = weir_growth_bytes(policy->main);
    return true;
}

static bool apply_limits(struct apply *apply, struct policy *policy, const struct config_policy *from)
{
    char text[SPEC_TEXT_MAX], candidate[SPEC_TEXT_MAX];
    struct edit *edit = &apply->edit;
    if (!weir_edit_read(edit, from->limits, text) ||
        (from->candidate && !weir_edit_read(edit, from->candidate, candidate)))
        return false;
    int64_t first = weir_growth_first(edit->service, text, apply->config->policy_count);
    struct edit_limits to = {text, from->keys > 0 ? from->keys : first, false,
                             policy->main && policy->on_full != from->on_full};
    policy->on_full = from->on_full;
    return weir_edit_limits(edit, policy, &to) && make_room(apply, policy, from) &&
           weir_edit_candidate(edit, policy, from->candidate ? candidate : NULL, to.keys);
}

static bool apply_policy(struct apply *apply, const struct config_policy *from)
{
    struct edit *edit = &apply->edit;
    const struct policy *has =
        weir_snapshot_policy(edit->now, (struct slice){from->name, strlen(from->name)});
    struct policy *policy =
        has ? weir_edit_copy(edit, has) : weir_policy_make(from->name, edit->service->options.workers + 1);
    if (!policy)
        return weir_edit_out_of_memory(edit);
    if (policy->touched || (has && !has->from_file))
        weir_log(LOG_INFO_LEVEL, "policy-from-file", LOG_TEXT("policy", policy->name),
                 LOG_TEXT("was", policy->limits), LOG_TEXT("is", from->limits));
    policy->from_file = true;
    policy->touched = false;
    policy->ttl_ms = from->reserve_ttl_ms > 0 ? from->reserve_ttl_ms : DEFAULT_TTL_MS;
    policy->overrun = from->overrun;
    apply_mode(apply, policy, from);
    bool good = (apply_limits(apply, policy, from) || blame(apply, from->place)) &&
                apply_overrides(apply, policy, from);
    return weir_edit_put(edit, policy, good);
}

static bool is_named(const struct config *config, const char *name)
{
    for (size_t i = 0; i < config->policy_count; i++)
        if (strcmp(config->policies[i].name, name) == 0)
            return true;
    return false;
}

static bool apply_policies(struct apply *apply)
{
    const struct snapshot *now = apply->edit.now;
    for (size_t i = 0; i < now->policy_count; i++) {
        const struct policy *policy = now->policies[i];
        if (policy->from_file && !is_named(apply->config, policy->name) &&
            !weir_snapshot_put(apply->edit.next, policy->name, NULL))
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

static bool fail_exposed(struct apply *apply, const char *where)
{
    char text[240];
    snprintf(text, sizeof text,
             "%s can be reached from elsewhere and there is no password; give --password-file FILE, or "
             "--no-password if something in front of weir asks for one",
             where);
    return weir_edit_fail(&apply->edit, EPERM, text);
}

/* What the command line says of the password stands above the file. */
static bool apply_users(struct apply *apply)
{
    const struct service_options *options = &apply->edit.service->options;
    struct users *users = weir_users_new(apply->config);
    if (!users)
        return weir_edit_out_of_memory(&apply->edit);
    if (options->no_password)
        users->list[0].has_password = false;
    if (options->password) {
        users->list[0].has_password = true;
        users->list[0].password = *options->password;
    }
    bool open = !users->list[0].has_password && !options->no_password;
    weir_users_free((struct users *)(uintptr_t)apply->edit.next->users);
    apply->edit.next->users = users;
    return !open || !options->exposed || fail_exposed(apply, options->exposed);
}

bool weir_service_apply(struct service *service, const struct config *config, struct weir_error *err)
{
    struct apply apply = {.config = config};
    if (!weir_edit_begin(&apply.edit, service, err))
        return false;
    apply.wall_ms = service_wall_ms(service, apply.edit.now_ns);
    apply.edit.next->loaded_ms = apply.wall_ms;
    return weir_edit_end(&apply.edit, apply_users(&apply) && apply_policies(&apply));
}

/* ---- reload ---- */

__attribute__((format(printf, 2, 3))) static void say(struct buffer *report, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (len > 0)
        buffer_put(report, line, (size_t)len < sizeof line ? (size_t)len : sizeof line - 1);
}

static void complain(void *arg, const char *file, struct place place, const char *message)
{
    if (place.line > 0)
        say(arg, "%s:%d:%d: %s\n", file, place.line, place.column, message);
    else
        say(arg, "%s: %s\n", file, message);
}

/* What stays in force, by the time of day at which it came into force. */
static void say_what_stays(struct service *service, struct buffer *report)
{
    const struct snapshot *snapshot = atomic_load_explicit(&service->snapshot, memory_order_acquire);
    int64_t second = snapshot->loaded_ms / 1000 % 86400;
    say(report, "nothing was changed: the configuration of %02d:%02d:%02d stays in force\n",
        (int)(second / 3600), (int)(second / 60 % 60), (int)(second % 60));
}

/* Keeps the first line of the trouble, or "" if there was none. */
static void remember(struct service *service, struct buffer *report, bool good)
{
    pthread_mutex_lock(&service->change);
    size_t len = good || report->failed ? 0 : buffer_len(report);
    const char *bytes = len > 0 ? buffer_bytes(report) : "";
    const char *end = len > 0 ? memchr(bytes, '\n', len) : NULL;
    if (end)
        len = (size_t)(end - bytes);
    (void)snprintf(service->reload_error, sizeof service->reload_error, "%.*s", (int)min64((int64_t)len, 255),
                   bytes);
    if (!good && len == 0)
        (void)snprintf(service->reload_error, sizeof service->reload_error, "out of memory");
    if (!good)
        say_what_stays(service, report);
    pthread_mutex_unlock(&service->change);
}

static void log_good(struct service *service)
{
    const struct snapshot *snapshot = atomic_load_explicit(&service->snapshot, memory_order_acquire);
    weir_log(LOG_INFO_LEVEL, "reloaded", LOG_TEXT("config", service->options.config_path),
             LOG_NUMBER("policies", (int64_t)snapshot->policy_count));
}

/* Line by line. */
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
            weir_log(LOG_ERROR_LEVEL, "reload-failed", LOG_TEXT("why", text));
        line += len + (end != NULL);
        left -= len + (end != NULL);
    }
}

/* Listeners, threads and shares of the memory are made at the start. */
static void log_what_needs_a_start(const struct service *service, const struct config *config)
{
    if (config->memory > 0 && config->memory != service->memory)
        weir_log(LOG_WARN_LEVEL, "reload-ignored", LOG_TEXT("what", "memory"),
                 LOG_TEXT("why", "it counts from the next start on"));
}

bool weir_service_reload(struct service *service, struct buffer *report)
{
    const char *path = service->options.config_path;
    struct weir_error err = {0};
    size_t before = buffer_len(report);
    bool good = false;
    if (!path) {
        say(report, "there is no file to read: weir serve was started without --config\n");
    } else {
        struct config *config = weir_config_read(path, complain, report);
        good = config && weir_service_apply(service, config, &err);
        if (config && !good)
            say(report, "%s\n", err.text);
        if (good)
            log_what_needs_a_start(service, config);
        weir_config_free(config);
    }
    if (!good && buffer_len(report) == before)
        say(report, "out of memory\n");
    atomic_fetch_add_explicit(good ? &service->reloads : &service->reload_failures, 1, memory_order_relaxed);
    remember(service, report, good);
    if (good)
        log_good(service);
    else
        log_report(report);
    return good;
}
