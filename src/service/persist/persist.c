/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "service/persist/persist.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sat.h"
#include "ledger/persist.h"
#include "service/log.h"
#include "table/persist/persist.h"

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
    if (!weir_catalogue_read(meta, len, &persistence->catalogue, err))
        return false;
    persistence->has_catalogue = true;
    persistence->requests = (size_t)persistence->catalogue.requests;
    persistence->reservations = (size_t)persistence->catalogue.reservations;
    persistence->smyte = (size_t)persistence->catalogue.smyte;
    weir_policy_table_begin_above(persistence->catalogue.last_serial);
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
    struct policy_table *ptable = weir_catalogue_policy_table(
        service->persistence->catalogue.client_keys, weir_store_offset(service->store), lead_ns, err);
    if (!ptable)
        return NULL;
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

/* ---- the end ---- */

bool weir_service_close(struct service *service, struct weir_error *err)
{
    struct store *store = service->store;
    weir_error_clear(err);
    if (!store)
        return true;
    weir_persist_last_catalogue(service);
    bool closed = weir_store_close(store, err);
    service->store = NULL; /* tables are nobody's but ours again */
    return closed;
}
