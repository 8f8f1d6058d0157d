/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "service/keep.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sat.h"
#include "ledger/keep.h"
#include "service/log.h"
#include "table/keep.h"

/* ---- what the store tells ---- */

static void store_moved(void *arg)
{
    const struct service *service = arg;
    if (service->options.store_moved)
        service->options.store_moved(service->options.store_moved_arg);
}

static void store_event(void *arg, const struct store_event *event)
{
    const struct service *service = arg;
    const char *data = service->keeping->path, *text = event->text ? event->text : "";
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

static bool read_note(struct service *service, struct weir_error *err)
{
    struct keeping *keeping = service->keeping;
    size_t len = 0;
    const void *meta = weir_store_meta(service->store, &len);
    if (!meta && keeping->found.lost)
        return weir_error_complain_as(
            err, EIO,
            "%s: what was noted about tables and policies is lost; run weir doctor on it, "
            "or start from a backup",
            keeping->path);
    if (!meta)
        return true;
    if (!weir_note_read(meta, len, &keeping->note, err))
        return false;
    keeping->noted = true;
    keeping->requests = (size_t)keeping->note.requests;
    keeping->reservations = (size_t)keeping->note.reservations;
    keeping->steps = (size_t)keeping->note.steps;
    weir_tally_begin_above(keeping->note.last_serial);
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

bool weir_keep_open(struct service *service, const struct config *config, struct weir_error *err)
{
    if (service->options.no_store || !config->data || strcmp(config->data, "none") == 0)
        return true;
    struct keeping *keeping = service->keeping = calloc(1, sizeof *keeping);
    if (!keeping || !(keeping->path = strdup(config->data))) {
        weir_error_set(err, ENOMEM, "out of memory");
        return false;
    }
    keeping->disk = service->options.disk ? service->options.disk : &weir_disk;
    if (keeping->disk == &weir_disk && !is_private(keeping->path, err))
        return false;
    keeping->sync = config->fsync != 0 ? (enum store_sync)config->fsync : STORE_EVERYSEC;
    struct store_options options = {.disk = keeping->disk,
                                    .path = keeping->path,
                                    .sync = keeping->sync,
                                    .manual = service->options.store_manual,
                                    .no_elapsed = service->options.test_clock,
                                    .hold_images = true,
                                    .moved = store_moved,
                                    .event = store_event,
                                    .arg = service};
    service->store = weir_store_open(&options, &keeping->found, err);
    if (!service->store)
        return false;
    if (keeping->found.bytes > UINT64_C(64) << 20)
        weir_log(LOG_INFO_LEVEL, "recovering", LOG_TEXT("data", keeping->path),
                 LOG_NUMBER("bytes", (int64_t)keeping->found.bytes));
    return read_note(service, err);
}

size_t weir_keep_room(size_t *kept, size_t wanted)
{
    if (*kept < wanted)
        *kept = wanted;
    return *kept;
}

/* ---- tallies ---- */

bool weir_keep_add(struct service *service, struct tally *tally, int64_t lead_ns, struct weir_error *err)
{
    return !service->store || weir_store_add(service->store, (uint32_t)tally->serial, tally->table->region,
                                             lead_ns, &weir_table_keep, tally->table, err);
}

/* One that was just made hashes as the operator wants it. */
static struct tally *with_key(const struct service *service, struct tally *tally)
{
    if (tally && service->has_hash_key)
        weir_region_set_key(tally->table->region, &service->hash_key);
    return tally;
}

struct tally *weir_keep_tally(struct service *service, const char *limits, int64_t keys,
                              enum weir_when_full on_full, struct weir_error *err)
{
    struct tally *tally = service->store ? weir_tally_new_kept(limits, keys, on_full, false, 0, err)
                                         : weir_tally_new(limits, keys, on_full, false, 0, err);
    tally = with_key(service, tally);
    if (!tally || weir_keep_add(service, tally, 0, err))
        return tally;
    weir_tally_free(tally);
    return NULL;
}

/* As it was, with more room and another horizon if that is asked for now. */
static struct tally *restore_client_keys(struct service *service, int64_t keys, int64_t horizon_ns,
                                         int64_t *lead_ns, struct weir_error *err)
{
    struct weir_table_info info;
    struct tally *tally =
        weir_note_tally(service->keeping->note.client_keys, weir_store_offset(service->store), lead_ns, err);
    if (!tally)
        return NULL;
    weir_table_stat(tally->table, &info);
    if (horizon_ns > 0)
        tally->table->horizon_ns = horizon_ns;
    if (keys <= info.capacity || weir_table_grow(tally->table, (size_t)keys, err))
        return tally;
    weir_tally_free(tally);
    return NULL;
}

struct tally *weir_keep_client_keys(struct service *service, int64_t keys, int64_t horizon_ns,
                                    struct weir_error *err)
{
    int64_t lead_ns = 0;
    if (!service->store)
        return with_key(service, weir_tally_new(NULL, keys, WEIR_FULL_REFUSE, true, horizon_ns, err));
    struct tally *tally =
        service->keeping->noted
            ? restore_client_keys(service, keys, horizon_ns, &lead_ns, err)
            : with_key(service, weir_tally_new_kept(NULL, keys, WEIR_FULL_REFUSE, true, horizon_ns, err));
    if (!tally || weir_store_add(service->store, KEEP_CLIENT_KEYS, tally->table->region, lead_ns,
                                 &weir_table_keep, tally->table, err))
        return tally;
    weir_tally_free(tally);
    return NULL;
}

/* ---- the end ---- */

bool weir_service_close(struct service *service, struct weir_error *err)
{
    struct store *store = service->store;
    weir_error_clear(err);
    if (!store)
        return true;
    weir_keep_last_note(service);
    bool closed = weir_store_close(store, err);
    service->store = NULL; /* tables are nobody's but ours again */
    return closed;
}
