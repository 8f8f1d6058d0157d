/* SPDX-License-Identifier: MIT */

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sat.h"
#include "base/text.h"
#include "config/read_policy.h"
#include "ledger/persist.h"
#include "service/log.h"
#include "service/persist/persist.h"
#include "service/policies/growth.h"
#include "store/checkpoint.h"
#include "store/commit.h"
#include "table/override.h"
#include "table/persist/persist.h"
#include "table/persist/recover.h"

/* ---- what the store tells ---- */

static void on_store_progress(void *arg)
{
    const struct service *service = arg;
    if (service->options.store_moved)
        service->options.store_moved(service->options.store_moved_arg);
}

static void on_store_event(void *arg, const struct store_event *event)
{
    const struct service *service = arg;
    const char *data = service->persistence->path, *text = event->text ? event->text : "";
    switch (event->kind) {
    case STORE_EVENT_ILL:
        weir_log(LOG_ERROR_LEVEL, "store-ill", LOG_TEXT("data", data), LOG_TEXT("why", text),
                 LOG_TEXT("means",
                          "what was decided waits to be answered, and nothing new is decided, until the "
                          "disk takes it; that is tried again"));
        break;
    case STORE_EVENT_WELL:
        weir_log(LOG_INFO_LEVEL, "store-well", LOG_TEXT("data", data),
                 LOG_TEXT("means", "everything is on the disk, and decisions go on"));
        break;
    case STORE_EVENT_SLOW:
        weir_log(LOG_WARN_LEVEL, "store-slow", LOG_TEXT("data", data),
                 LOG_TEXT("means", "the disk is behind; answers wait for it"));
        break;
    case STORE_EVENT_IMAGE:
        weir_log(LOG_INFO_LEVEL, "image-written", LOG_NUMBER("bytes", event->bytes),
                 LOG_NUMBER("ms", event->ns / WEIR_MS));
        break;
    case STORE_EVENT_REPLAY:
        weir_log(LOG_INFO_LEVEL, "recovering", LOG_TEXT("data", data), LOG_NUMBER("bytes", event->bytes),
                 LOG_NUMBER("percent", event->all > 0 ? mul_div(event->bytes, 100, event->all) : 100));
        break;
    default: /* STORE_EVENT_IMAGE_FAILED */
        weir_log(LOG_ERROR_LEVEL, "image-failed", LOG_TEXT("data", data), LOG_TEXT("why", text),
                 LOG_TEXT("means", "the log stays, and grows; that is tried again"));
    }
}

/* ---- opening ---- */

static bool read_catalogue(struct service *service, struct weir_error *err)
{
    struct persistence *persistence = service->persistence;
    size_t len = 0;
    const void *meta = weir_store_found_catalogue(service->store, &len);
    if (!meta && persistence->found.lost)
        return weir_error_complain_as(
            err, EIO,
            "%s: what was noted about tables and policies is lost; run weir doctor on it, "
            "or start from a backup",
            persistence->path);
    if (!meta)
        return true;
    if (!weir_server_catalogue_read(meta, len, &persistence->catalogue, err))
        return false;
    persistence->has_catalogue = true;
    persistence->requests = (size_t)persistence->catalogue.requests;
    persistence->reservations = (size_t)persistence->catalogue.reservations;
    persistence->smyte = (size_t)persistence->catalogue.smyte;
    weir_policy_table_begin_above(persistence->catalogue.tables.last_number);
    return true;
}

/* Whoever can write to the directory can put anything in place of what was spent. */
static bool is_private(const char *path, struct weir_error *err)
{
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode))
        return true; /* it will be made, or what is wrong will be told */
    uid_t self = geteuid();
    unsigned mode = (unsigned)about.st_mode & 07777;
    if (about.st_mode & S_IWOTH)
        return weir_error_complain_as(
            err, EPERM, "%.100s can be written by every user (mode %04o); chmod 700 it", path, mode);
    if (self != 0 && about.st_uid != self && about.st_uid != 0)
        return weir_error_complain_as(err, EPERM,
                                      "%.100s belongs to another user (%u), who can change what is in it",
                                      path, (unsigned)about.st_uid);
    if (about.st_mode & (S_IRWXO | S_IWGRP))
        weir_log(LOG_WARN_LEVEL, "data-directory-open", LOG_TEXT("data", path),
                 LOG_TEXT("means", "other users can look into it, or its group can change it"),
                 LOG_TEXT("do", "chmod 700 it, or 750"));
    return true;
}

bool weir_persist_open(struct service *service, const struct config *config, struct weir_error *err)
{
    if (service->options.no_store || !config->data || strcmp(config->data, "none") == 0)
        return true;
    struct persistence *persistence = service->persistence = calloc(1, sizeof *persistence);
    if (!persistence || !(persistence->path = strdup(config->data))) {
        weir_error_set(err, ENOMEM, "out of memory");
        return false;
    }
    persistence->disk = service->options.disk ? service->options.disk : &weir_disk;
    if (persistence->disk == &weir_disk && !is_private(persistence->path, err))
        return false;
    persistence->sync = config->fsync != 0 ? (enum store_sync)config->fsync : STORE_EVERYSEC;
    struct store_options options = {.disk = persistence->disk,
                                    .path = persistence->path,
                                    .sync = persistence->sync,
                                    .manual = service->options.store_manual,
                                    .no_elapsed = service->options.test_clock,
                                    .hold_images = true,
                                    .moved = on_store_progress,
                                    .event = on_store_event,
                                    .arg = service};
    service->store = weir_store_open(&options, &persistence->found, err);
    if (!service->store)
        return false;
    if (persistence->found.bytes > UINT64_C(64) << 20)
        weir_log(LOG_INFO_LEVEL, "recovering", LOG_TEXT("data", persistence->path),
                 LOG_NUMBER("bytes", (int64_t)persistence->found.bytes));
    return read_catalogue(service, err);
}

size_t weir_persist_room(size_t *kept, size_t wanted)
{
    if (*kept < wanted)
        *kept = wanted;
    return *kept;
}

/* ---- policy tables ---- */

bool weir_persist_add(struct service *service, struct policy_table *ptable, int64_t lead_ns,
                      struct weir_error *err)
{
    return !service->store || weir_store_add(service->store, (uint32_t)ptable->serial, ptable->table->region,
                                             lead_ns, &weir_table_persist_ops, ptable->table, err);
}

/* One that was just made hashes as the operator wants it. */
static struct policy_table *with_key(const struct service *service, struct policy_table *ptable)
{
    if (ptable && service->has_hash_key)
        weir_region_set_key(ptable->table->region, &service->hash_key);
    return ptable;
}

struct policy_table *weir_persist_new_table(struct service *service, const char *limits, int64_t keys,
                                            enum weir_when_full on_full, struct weir_error *err)
{
    struct policy_table *ptable = service->store
                                      ? weir_policy_table_new_kept(limits, keys, on_full, false, 0, err)
                                      : weir_policy_table_new(limits, keys, on_full, false, 0, err);
    ptable = with_key(service, ptable);
    if (!ptable || weir_persist_add(service, ptable, 0, err))
        return ptable;
    weir_policy_table_free(ptable);
    return NULL;
}

/* As it was, with more room and another horizon if that is asked for now. */
static struct policy_table *restore_client_keys(struct service *service, int64_t keys, int64_t horizon_ns,
                                                int64_t *lead_ns, struct weir_error *err)
{
    struct weir_table_info info;
    const struct catalogue_table *was = &service->persistence->catalogue.client_keys;
    struct policy_table *ptable = weir_server_catalogue_table(service, was, err);
    if (!ptable)
        return NULL;
    *lead_ns = was->lead_ns;
    weir_table_stat(ptable->table, &info);
    if (horizon_ns > 0)
        ptable->table->horizon_ns = horizon_ns;
    if (keys <= info.capacity || weir_table_grow(ptable->table, (size_t)keys, err))
        return ptable;
    weir_policy_table_free(ptable);
    return NULL;
}

struct policy_table *weir_persist_client_keys(struct service *service, int64_t keys, int64_t horizon_ns,
                                              struct weir_error *err)
{
    int64_t lead_ns = 0;
    if (!service->store)
        return with_key(service, weir_policy_table_new(NULL, keys, WEIR_FULL_REFUSE, true, horizon_ns, err));
    struct policy_table *ptable =
        service->persistence->has_catalogue
            ? restore_client_keys(service, keys, horizon_ns, &lead_ns, err)
            : with_key(service,
                       weir_policy_table_new_kept(NULL, keys, WEIR_FULL_REFUSE, true, horizon_ns, err));
    if (!ptable || weir_store_add(service->store, PERSIST_CLIENT_KEYS, ptable->table->region, lead_ns,
                                  &weir_table_persist_ops, ptable->table, err))
        return ptable;
    weir_policy_table_free(ptable);
    return NULL;
}

/*
 * From the catalogue and the records to what stood before. Nobody asks anything yet.
 */

/* ---- what is kept ---- */

static bool add_records(struct service *service, uint32_t number, struct records *records, struct slice keys,
                        struct weir_error *err)
{
    if (service->persistence->has_catalogue && !weir_records_describe_read(records, keys.bytes, keys.len)) {
        weir_error_set(
            err, EINVAL,
            "what the data directory says about its records makes no sense; run weir doctor on it, "
            "or start from a backup");
        return false;
    }
    return weir_store_add(service->store, number, weir_records_region(records), 0, &weir_records_persist_ops,
                          records, err);
}

static bool add_all(struct service *service, struct snapshot *snapshot, struct weir_error *err)
{
    const struct server_catalogue *catalogue = &service->persistence->catalogue;
    return add_records(service, PERSIST_REQUESTS, service->ledger.requests, catalogue->request_keys, err) &&
           add_records(service, PERSIST_RESERVATIONS, service->ledger.reservations,
                       catalogue->reservation_keys, err) &&
           add_records(service, PERSIST_SMYTE, service->smyte, catalogue->step_keys, err) &&
           (!service->persistence->has_catalogue ||
            weir_server_catalogue_policies(service, catalogue, snapshot, err));
}

/* ---- rules ---- */

/* What the file says now stands above what stood before. */
static enum table_recover rule_of(const struct service *service, const struct config *config,
                                  const struct policy *policy)
{
    int64_t rule = policy->settings.recover;
    for (size_t i = 0; i < config->policy_count; i++)
        if (strcmp(config->policies[i].name, policy->name) == 0)
            rule = config->policies[i].settings.recover;
    return service->persistence->found.unsure || service->persistence->found.lost ? (enum table_recover)rule
                                                                                  : TABLE_EXACT;
}

static bool recover_policy_table(struct service *service, struct policy_table *ptable,
                                 enum table_recover rule)
{
    if (!ptable)
        return true;
    if (!weir_table_recovered(ptable->table, rule, region_time(ptable->table->region, weir_now())))
        return false;
    ptable->bytes = weir_growth_bytes(ptable);
    service->persistence->keys += (int64_t)ptable->table->recovered;
    return true;
}

static bool recover_policy(struct service *service, const struct policy *policy, enum table_recover rule)
{
    bool good = recover_policy_table(service, policy->main, rule) &&
                recover_policy_table(service, policy->candidate_table, rule) &&
                recover_policy_table(service, policy->previous, rule);
    for (size_t i = 0; good && i < policy->prefix_count; i++)
        good = recover_policy_table(service, policy->prefixes[i].ptable, rule);
    if (rule != TABLE_EXACT)
        weir_log(LOG_WARN_LEVEL, "recovered-by-rule", LOG_TEXT("policy", policy->name),
                 LOG_TEXT("recover", weir_recover_name(rule)),
                 LOG_TEXT("means", rule == TABLE_FLOOR ? "every key is empty as of now, so that nothing that "
                                                         "was spent can be spent again"
                                                       : "every key is as if never used"));
    return good;
}

/* *other: some are not what the records say, which only an image tells the next start. */
static bool recover_all(struct service *service, const struct config *config, const struct snapshot *snapshot,
                        bool *other, struct weir_error *err)
{
    bool good = recover_policy_table(service, service->client_keys, TABLE_EXACT);
    for (size_t i = 0; good && i < snapshot->policy_count; i++) {
        enum table_recover rule = rule_of(service, config, snapshot->policies[i]);
        good = recover_policy(service, snapshot->policies[i], rule);
        *other |= rule != TABLE_EXACT;
    }
    int64_t now_ns = weir_now();
    weir_records_recovered(service->ledger.requests, now_ns);
    weir_records_recovered(service->ledger.reservations, now_ns);
    weir_records_recovered(service->smyte, now_ns);
    if (!good)
        weir_error_set(err, ENOMEM, "out of memory");
    return good;
}

/* ---- a change that was under way ---- */

/* The catalogue of a change comes first, its steps may be missing: what the catalogue says is done now. As at
 * any change, limits are announced in a catalogue first: the one with which writing begins. */
static bool announce_table_limits(struct policy_table *ptable, const char *limits, struct weir_error *err)
{
    char text[SPEC_TEXT_MAX];
    if (!ptable ||
        (weir_table_text(ptable->table, text, sizeof text) < sizeof text && strcmp(text, limits) == 0))
        return true;
    return weir_table_announce(ptable->table, limits, err);
}

static bool set_limits(struct policy_table *ptable, const char *limits, struct weir_error *err)
{
    return !ptable || weir_table_set(ptable->table, limits, err);
}

typedef bool do_to_limits(struct policy_table *ptable, const char *limits, struct weir_error *err);

static bool for_all_limits(const struct snapshot *snapshot, do_to_limits *what, struct weir_error *err)
{
    for (size_t i = 0; i < snapshot->policy_count; i++) {
        const struct policy *policy = snapshot->policies[i];
        bool good =
            what(policy->main, policy->limits, err) && what(policy->candidate_table, policy->candidate, err);
        for (size_t j = 0; good && j < policy->prefix_count; j++)
            good = what(policy->prefixes[j].ptable, policy->prefixes[j].limits, err);
        if (!good)
            return false;
    }
    return true;
}

static bool agree_on_keys(const struct policy *policy, struct policy_table *ptable, struct weir_error *err)
{
    uint64_t names[POLICY_TABLE_OVERRIDES];
    char text[SPEC_TEXT_MAX];
    for (size_t i = 0; ptable && i < policy->key_count; i++) {
        const struct policy_override *key = &policy->keys[i];
        names[i] = table_hash(ptable->table, key->key, key->len);
        (void)weir_table_override_text(ptable->table, key->key, key->len, text, sizeof text);
        if (strcmp(text, key->limits) != 0 &&
            !weir_table_override(ptable->table, key->key, key->len, key->limits, err))
            return false;
    }
    return !ptable || weir_override_only(ptable->table, names, policy->key_count, err);
}

/* When writing has begun: it lists what it changes. */
static bool agree_on_all(const struct snapshot *snapshot, struct weir_error *err)
{
    if (!for_all_limits(snapshot, set_limits, err))
        return false;
    for (size_t i = 0; i < snapshot->policy_count; i++) {
        const struct policy *policy = snapshot->policies[i];
        if (!agree_on_keys(policy, policy->main, err) ||
            !agree_on_keys(policy, policy->candidate_table, err) ||
            !agree_on_keys(policy, policy->previous, err))
            return false;
    }
    return true;
}

/* ---- what is told about it ---- */

static void describe_recovery(struct persistence *persistence)
{
    const struct store_found *found = &persistence->found;
    struct text text;
    weir_text_init(&text, persistence->how, sizeof persistence->how);
    if (found->fresh || !persistence->has_catalogue)
        weir_text_print(&text, "nothing was there before");
    else if (found->clean)
        weir_text_print(&text, "the last server ended well");
    else if (found->lost)
        weir_text_print(&text, "something is missing that was on the disk");
    else if (found->unsure)
        weir_text_print(&text,
                        "the last server did not end well; if the machine went down, answers of its last "
                        "moments may be missing");
    else
        weir_text_print(&text, "the last server did not end well; all that it answered is there");
    if (found->text[0])
        weir_text_print(&text, ": %.300s", found->text);
    if (found->wall_step_ns < 0)
        weir_text_print(&text,
                        "; the wall clock is before the time of the last record, so no time has passed");
}

static void log_recovery(const struct service *service, size_t policies)
{
    const struct persistence *persistence = service->persistence;
    const struct store_found *found = &persistence->found;
    weir_log_write(
        found->lost     ? LOG_ERROR_LEVEL
        : found->unsure ? LOG_WARN_LEVEL
                        : LOG_INFO_LEVEL,
        "recovered",
        (struct log_field[]){LOG_TEXT("data", persistence->path), LOG_TEXT("found", persistence->how),
                             LOG_NUMBER("policies", (int64_t)policies), LOG_NUMBER("keys", persistence->keys),
                             LOG_NUMBER("records", (int64_t)found->records),
                             LOG_NUMBER("ms", persistence->took_ns / WEIR_MS),
                             LOG_TEXT("fsync", weir_fsync_name(persistence->sync))},
        7);
    if (found->unknown > 0)
        weir_log(
            LOG_WARN_LEVEL, "records-unknown", LOG_NUMBER("records", (int64_t)found->unknown),
            LOG_TEXT("means", "they are of policies that were removed, or make no sense; they are left out"));
}

/* More than the budget is no reason to lose what somebody has spent. */
static void warn_of_room(const struct service *service, int64_t total)
{
    if (total > service->memory)
        weir_log(LOG_WARN_LEVEL, "memory-exceeded", LOG_NUMBER("used", total),
                 LOG_NUMBER("memory", service->memory),
                 LOG_TEXT("means",
                          "what was recovered needs more than memory: says; no table grows until it is "
                          "raised"));
}

/* Somebody set it once and may have forgotten: nothing is limited, and nothing else says so. */
static void warn_of_mode(const struct snapshot *snapshot)
{
    if (snapshot->mode_for_all && snapshot->all_until_ms == 0)
        weir_log(LOG_WARN_LEVEL, "mode-of-all", LOG_TEXT("mode", weir_mode_name(snapshot->all_mode)),
                 LOG_TEXT("means", "it was set for all policies before this start, without an end"),
                 LOG_TEXT("do", "weir policy mode --all enforce ends it"));
}

/* ---- all of it ---- */

static bool begin_to_write(struct service *service, const struct snapshot *snapshot, struct weir_error *err)
{
    struct buffer out = {0};
    bool good = weir_server_catalogue_write(service, snapshot, &out);
    if (!good)
        weir_error_set(err, ENOMEM, "out of memory");
    good = good && weir_store_start(service->store, buffer_bytes(&out), buffer_len(&out), err);
    weir_buffer_free(&out);
    return good;
}

/* When it is known from when on the limits count that were announced: before anything is decided by them. */
static void write_catalogue_again(struct service *service, const struct snapshot *snapshot)
{
    struct buffer out = {0};
    if (!weir_server_catalogue_write(service, snapshot, &out) ||
        !weir_store_catalogue(service->store, buffer_bytes(&out), buffer_len(&out)))
        persist_owe(service);
    weir_buffer_free(&out);
}

/* What is not in the records, because no answer told of it, has to be in an image before it is known to the
 * next start: until then that one finds what this one has found, and does the same about it. */
static void settle_losses(struct service *service, bool other)
{
    const struct store_found *found = &service->persistence->found;
    size_t distrusted = 0;
    if (found->lost || found->holes)
        distrusted = weir_ledger_distrust(&service->ledger, weir_now());
    if (distrusted > 0)
        weir_log(LOG_WARN_LEVEL, "reservations-void", LOG_NUMBER("reservations", (int64_t)distrusted),
                 LOG_TEXT("means",
                          "changes are missing before others that are there, so nothing is given back for "
                          "them"));
    (void)weir_store_commit(service->store);
    service->persistence->image_due = other || distrusted > 0;
}

bool weir_persist_restore(struct service *service, const struct config *config, struct snapshot *snapshot,
                          struct weir_error *err)
{
    struct persistence *persistence = service->persistence;
    int64_t began_ns = weir_now();
    bool other = false;
    if (!persistence)
        return true;
    if (!add_all(service, snapshot, err) || !weir_store_replay(service->store, &persistence->found, err))
        return false;
    if (!recover_all(service, config, snapshot, &other, err) ||
        !for_all_limits(snapshot, announce_table_limits, err))
        return false;
    if (!weir_snapshot_seal(snapshot)) {
        weir_error_set(err, ENOMEM, "out of memory");
        return false;
    }
    if (!begin_to_write(service, snapshot, err) || !agree_on_all(snapshot, err))
        return false;
    write_catalogue_again(service, snapshot);
    settle_losses(service, other);
    persistence->took_ns = sat_sub(weir_now(), began_ns);
    persistence->has_catalogue = persistence->has_catalogue && !persistence->found.fresh;
    describe_recovery(persistence);
    log_recovery(service, snapshot->policy_count);
    warn_of_room(service, weir_growth_total(service, snapshot));
    warn_of_mode(snapshot);
    return true;
}

/* ---- policies that nothing was found of ---- */

static bool recover_new(struct service *service, struct policy_table *ptable)
{
    return !ptable || ptable->serial <= service->persistence->catalogue.tables.last_number ||
           weir_table_recovered(ptable->table, TABLE_FLOOR, region_time(ptable->table->region, weir_now()));
}

bool weir_persist_applied(struct service *service, const struct config *config, struct weir_error *err)
{
    const struct snapshot *snapshot = atomic_load_explicit(&service->snapshot, memory_order_relaxed);
    bool good = true;
    if (!service->persistence)
        return true;
    for (size_t i = 0; good && i < snapshot->policy_count; i++) {
        const struct policy *policy = snapshot->policies[i];
        if (rule_of(service, config, policy) != TABLE_FLOOR)
            continue;
        good = recover_new(service, policy->main) && recover_new(service, policy->candidate_table);
        for (size_t j = 0; good && j < policy->prefix_count; j++)
            good = recover_new(service, policy->prefixes[j].ptable);
        service->persistence->image_due = true;
    }
    if (!good)
        weir_error_set(err, ENOMEM, "out of memory");
    else
        weir_store_free_images(service->store); /* now they have it */
    return good;
}
