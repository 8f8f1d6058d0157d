/* SPDX-License-Identifier: MIT */
/*
 * Tables of a program that survive it: a store, the tables it keeps, and the catalogue that tells of them.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/error.h"
#include "data/catalogue.h"
#include "store/backup.h"
#include "store/checkpoint.h"
#include "store/commit.h"
#include "store/store.h"
#include "table/persist/persist.h"
#include "table/persist/recover.h"

/* Locks, in this order: change, lock, the store's. */

struct data_table {
    char name[WEIR_NAME_MAX + 1];
    uint32_t number;
    bool forgotten;
    struct weir_table *table;
    struct data_table *next;
};

struct weir_data {
    struct table_owner owner; /* of all tables */
    struct store *store;
    pthread_mutex_t change; /* around a live change, from its announcement to its catalogue */
    pthread_mutex_t lock;   /* around the list of tables, and notes of it */
    struct data_table *tables;
    uint32_t last_number;
    struct store_found found;
    pid_t process; /* a child of a fork has tables, but no store */
};

static inline bool data_is_ours(const struct weir_data *data)
{
    return data && data->process == getpid();
}

/*
 * All tables that the catalogue names are in memory, also those that nobody asks for: what is in no image is
 * lost when the log before it goes. One that is to be forgotten leaves the catalogue at once, and memory at
 * the end, for threads may still have it listed.
 *
 * Live changes of such a table come here before and after (struct table_owner): the catalogue has to tell of
 * the new limits before there are records of them. One at a time, for a table can announce one only.
 */

#define KEYS_USUAL 100000

/* ---- the catalogue; under the lock ---- */

static void encode_catalogue(const struct weir_data *data, struct buffer *out)
{
    uint64_t count = 0;
    for (const struct data_table *table = data->tables; table; table = table->next)
        count += !table->forgotten;
    weir_catalogue_begin(out, CATALOGUE_PROGRAM, data->last_number, count);
    for (const struct data_table *table = data->tables; table; table = table->next) {
        struct catalogue_table entry = {.number = table->number, .name = {table->name, strlen(table->name)}};
        if (!table->forgotten)
            weir_catalogue_put_table(out, &entry, table->table);
    }
}

static bool refuse_ill(struct weir_data *data, struct weir_error *err)
{
    struct store_state state;
    weir_store_state(data->store, &state);
    (void)weir_error_complain_as(err, EIO, "the disk does not take anything, so nothing was changed: %s",
                                 state.error[0] ? state.error : "out of memory");
    return false;
}

static bool write_tables_catalogue(struct weir_data *data, struct weir_error *err)
{
    struct buffer out = {0};
    encode_catalogue(data, &out);
    bool good = !out.failed && weir_store_catalogue(data->store, buffer_bytes(&out), buffer_len(&out));
    weir_buffer_free(&out);
    return good || refuse_ill(data, err);
}

/* ---- live changes ---- */

static bool begin_change(struct table_owner *owner, struct weir_table *table, const char *limits,
                         struct weir_error *err)
{
    struct weir_data *data = (struct weir_data *)(void *)owner;
    if (!data_is_ours(data))
        return true;
    (void)pthread_mutex_lock(&data->change);
    (void)pthread_mutex_lock(&data->lock);
    bool good = !limits || (weir_table_announce(table, limits, err) && write_tables_catalogue(data, err));
    (void)pthread_mutex_unlock(&data->lock);
    if (!good)
        (void)pthread_mutex_unlock(&data->change);
    return good;
}

/* What only the change itself could tell. If that is not noted now, the next catalogue has it. */
static void end_change(struct table_owner *owner, struct weir_table *table)
{
    struct weir_data *data = (struct weir_data *)(void *)owner;
    (void)table;
    if (!data_is_ours(data))
        return;
    (void)pthread_mutex_lock(&data->lock);
    (void)write_tables_catalogue(data, NULL);
    (void)pthread_mutex_unlock(&data->lock);
    (void)pthread_mutex_unlock(&data->change);
}

static const struct table_owner data_owner = {begin_change, end_change};

/* ---- coming and going ---- */

static void free_data_tables(struct weir_data *data)
{
    while (data->tables) {
        struct data_table *table = data->tables;
        data->tables = table->next;
        table->table->owner = NULL;
        weir_table_free(table->table);
        free(table);
    }
}

/* Takes the table over, also if it fails. */
static bool add_data_table(struct weir_data *data, struct slice name, uint32_t number,
                           struct weir_table *made, struct weir_error *err)
{
    struct data_table *table = calloc(1, sizeof *table);
    if (!table)
        weir_error_set(err, ENOMEM, "out of memory");
    if (!table || !weir_store_add(data->store, number, made->region, 0, &weir_table_persist_ops, made, err)) {
        free(table);
        weir_table_free(made);
        return false;
    }
    memcpy(table->name, name.bytes, name.len);
    table->number = number;
    table->table = made;
    made->owner = &data->owner;
    struct data_table **end = &data->tables;
    while (*end)
        end = &(*end)->next;
    *end = table;
    return true;
}

/* What the catalogue names, empty. */
static bool make_data_tables(struct weir_data *data, struct weir_error *err)
{
    size_t len;
    const void *bytes = weir_store_found_catalogue(data->store, &len);
    struct catalogue catalogue;
    struct catalogue_table entry;
    if (!bytes)
        return true;
    if (!weir_catalogue_read(bytes, len, CATALOGUE_PROGRAM, &catalogue, err))
        return false;
    data->last_number = (uint32_t)catalogue.last_number;
    while (catalogue.left > 0) {
        if (!weir_catalogue_next(&catalogue, &entry) || entry.name.len == 0)
            return weir_catalogue_nonsense(CATALOGUE_PROGRAM, err);
        struct weir_table *made =
            weir_table_describe_read(entry.description.bytes, entry.description.len, err);
        if (!made || !add_data_table(data, entry.name, (uint32_t)entry.number, made, err))
            return false;
    }
    return true;
}

/* ---- tables ---- */

static bool check_table_name(const struct weir_data *data, const char *name, struct weir_error *err)
{
    size_t len = name ? strlen(name) : 0;
    const char *fault = !data                             ? "data is NULL"
                        : !data_is_ours(data)             ? "after a fork the parent has the data"
                        : len == 0 || len > WEIR_NAME_MAX ? "a name has 1 to 63 bytes"
                                                          : NULL;
    if (fault)
        weir_error_set(err, EINVAL, fault);
    return !fault;
}

static struct data_table *find_data_table(const struct weir_data *data, const char *name)
{
    struct data_table *table = data->tables;
    while (table && (table->forgotten || strcmp(table->name, name) != 0))
        table = table->next;
    return table;
}

/* Under the lock. */
static struct weir_table *make_data_table(struct weir_data *data, const char *name, const char *limits,
                                          const struct weir_table_options *options, struct weir_error *err)
{
    static const struct weir_table_options usual = {.keys = KEYS_USUAL};
    if (data->last_number == UINT32_MAX) {
        weir_error_set(err, EMFILE, "no more tables can be made in this directory");
        return NULL;
    }
    struct weir_table *made = weir_table_new_stored(limits, options ? options : &usual, NULL, err);
    uint32_t number = data->last_number + 1;
    if (!made || !add_data_table(data, (struct slice){name, strlen(name)}, number, made, err))
        return NULL;
    data->last_number = number;
    if (write_tables_catalogue(data, err))
        return made;
    find_data_table(data, name)->forgotten = true; /* nobody has seen it */
    return NULL;
}

struct weir_table *weir_data_table(struct weir_data *data, const char *name, const char *limits,
                                   const struct weir_table_options *options, struct weir_error *err)
{
    weir_error_clear(err);
    if (!check_table_name(data, name, err))
        return NULL;
    (void)pthread_mutex_lock(&data->lock);
    struct data_table *found = find_data_table(data, name);
    struct weir_table *table = found ? found->table : make_data_table(data, name, limits, options, err);
    (void)pthread_mutex_unlock(&data->lock);
    if (found && limits && !weir_table_set(table, limits, err))
        return NULL;
    return table;
}

bool weir_data_forget(struct weir_data *data, const char *name, struct weir_error *err)
{
    weir_error_clear(err);
    if (!check_table_name(data, name, err))
        return false;
    (void)pthread_mutex_lock(&data->lock);
    struct data_table *table = find_data_table(data, name);
    bool good = false;
    if (table) {
        table->forgotten = true;
        good = write_tables_catalogue(data, err);
        table->forgotten = good;
    } else {
        weir_error_set(err, ENOENT, "there is no table of that name");
    }
    (void)pthread_mutex_unlock(&data->lock);
    return good;
}

bool weir_data_each(struct weir_data *data, weir_each_table *each, void *arg)
{
    if (!data || !each)
        return false;
    (void)pthread_mutex_lock(&data->lock);
    bool go_on = true;
    for (struct data_table *table = data->tables; table && go_on; table = table->next)
        if (!table->forgotten)
            go_on = each(arg, table->name, table->table);
    (void)pthread_mutex_unlock(&data->lock);
    return go_on;
}

/* ---- open and close ---- */

static void destroy_data(struct weir_data *data)
{
    free_data_tables(data);
    (void)pthread_mutex_destroy(&data->change);
    (void)pthread_mutex_destroy(&data->lock);
    free(data);
}

static bool restore(struct weir_data *data, enum table_recover how, struct weir_error *err)
{
    if (!make_data_tables(data, err) || !weir_store_replay(data->store, &data->found, err))
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
    encode_catalogue(data, &out);
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
    data->owner = data_owner;
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
