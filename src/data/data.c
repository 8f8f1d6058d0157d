/* SPDX-License-Identifier: MIT */
/*
 * Tables of a program that survive it: a store, the tables it keeps, and the catalogue that tells of them.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "data/internal.h"

/* ---- open and close ---- */

static void destroy_data(struct weir_data *data)
{
    weir_data_free_tables(data);
    (void)pthread_mutex_destroy(&data->change);
    (void)pthread_mutex_destroy(&data->lock);
    free(data);
}

static bool restore(struct weir_data *data, enum table_recover how, struct weir_error *err)
{
    if (!weir_data_make_tables(data, err) || !weir_store_replay(data->store, &data->found, err))
        return false;
    if (!data->found.lost && !data->found.unsure)
        how = TABLE_EXACT;
    int64_t now_ns = weir_now();
    for (struct data_table *table = data->tables; table; table = table->next)
        if (!weir_table_recovered(table->table, how, region_time(table->table->region, now_ns))) {
            weir_error_set(err, ENOMEM, "out of memory");
            return false;
        }
    struct buffer out = {0};
    weir_data_write_catalogue(data, &out);
    if (out.failed)
        weir_error_set(err, ENOMEM, "out of memory");
    bool good = !out.failed && weir_store_start(data->store, buffer_bytes(&out), buffer_len(&out), err);
    weir_buffer_free(&out);
    /* What is not as the records say has to be in an image, or the next start would do it once more. */
    return good && (how == TABLE_EXACT || weir_store_image(data->store, err));
}

static bool check_data_options(const char *path, const struct weir_data_options *options,
                               struct weir_error *err)
{
    const char *fault = !path || !path[0] ? "a path is needed, of a directory that is made if it is not there"
                        : options->sync < WEIR_SYNC_EVERYSEC || options->sync > WEIR_SYNC_NEVER
                            ? "sync is none of enum weir_sync"
                        : options->recover < WEIR_RECOVER_EXACT || options->recover > WEIR_RECOVER_OPTIMISTIC
                            ? "recover is none of enum weir_recover"
                        : options->image_log_bytes < 0 || options->image_age_ns < 0
                            ? "image_log_bytes and image_age_ns are not below 0"
                            : NULL;
    if (fault)
        weir_error_set(err, EINVAL, fault);
    return !fault;
}

struct weir_data *weir_data_open(const char *path, const struct weir_data_options *options,
                                 struct weir_error *err)
{
    static const enum store_sync syncs[] = {STORE_EVERYSEC, STORE_ALWAYS, STORE_NEVER};
    static const enum table_recover rules[] = {TABLE_EXACT, TABLE_FLOOR, TABLE_OPTIMISTIC};
    static const struct weir_data_options usual;
    weir_error_clear(err);
    options = options ? options : &usual;
    if (!check_data_options(path, options, err))
        return NULL;
    struct weir_data *data = calloc(1, sizeof *data);
    if (!data) {
        weir_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    data->owner = weir_data_owner;
    data->process = getpid();
    (void)pthread_mutex_init(&data->change, NULL);
    (void)pthread_mutex_init(&data->lock, NULL);
    struct store_options store = {.path = path,
                                  .sync = syncs[options->sync],
                                  .image_log_bytes = (uint64_t)options->image_log_bytes,
                                  .image_age_ns = options->image_age_ns};
    data->store = weir_store_open(&store, &data->found, err);
    if (data->store && restore(data, rules[options->recover], err))
        return data;
    if (data->store)
        (void)weir_store_close(data->store, NULL);
    destroy_data(data);
    return NULL;
}

bool weir_data_close(struct weir_data *data, struct weir_error *err)
{
    weir_error_clear(err);
    if (!data)
        return true;
    if (!data_is_ours(data)) { /* files, threads and locks are the parent's */
        weir_error_set(err, EPERM,
                       "after a fork the parent has the data; the child only has copies of tables");
        return false;
    }
    bool good = weir_store_close(data->store, err);
    destroy_data(data);
    return good;
}

/* ---- safe ---- */

bool weir_data_commit(struct weir_data *data, int64_t timeout_ns)
{
    if (!data_is_ours(data))
        return false;
    uint64_t ticket = weir_store_commit(data->store);
    return weir_store_ticket_status(data->store, ticket) == STORE_GO ||
           (timeout_ns > 0 && weir_store_wait(data->store, ticket, timeout_ns));
}

static bool check_data(const struct weir_data *data, struct weir_error *err)
{
    weir_error_clear(err);
    if (!data_is_ours(data))
        weir_error_set(err, EINVAL, data ? "after a fork the parent has the data" : "data is NULL");
    return data_is_ours(data);
}

bool weir_data_image(struct weir_data *data, struct weir_error *err)
{
    return check_data(data, err) && weir_store_image(data->store, err);
}

bool weir_data_backup(struct weir_data *data, const char *name, struct weir_error *err)
{
    if (!check_data(data, err))
        return false;
    if (!name) {
        weir_error_set(err, EINVAL, "name is NULL");
        return false;
    }
    return weir_store_backup(data->store, name, err);
}

void weir_data_stat(struct weir_data *data, struct weir_data_info *stat)
{
    if (!stat)
        return;
    *stat = (struct weir_data_info){0};
    if (!data_is_ours(data))
        return;
    const struct store_found *found = &data->found;
    struct store_state state;
    weir_store_state(data->store, &state);
    *stat = (struct weir_data_info){.fresh = found->fresh,
                                    .clean = found->clean,
                                    .lost = found->lost,
                                    .unsure = found->unsure,
                                    .ill = state.ill,
                                    .slow = state.slow,
                                    .records = (int64_t)found->records,
                                    .elapsed_ns = found->elapsed_ns,
                                    .log_bytes = (int64_t)state.log_bytes,
                                    .image_bytes = (int64_t)state.image_bytes,
                                    .images = state.images,
                                    .faults = state.faults,
                                    .syncs = state.syncs,
                                    .unsynced_ns = state.unsynced_ns};
    (void)snprintf(stat->found, sizeof stat->found, "%s", found->text);
    (void)snprintf(stat->error, sizeof stat->error, "%s", state.error);
}
