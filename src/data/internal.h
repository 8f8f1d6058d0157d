/* SPDX-License-Identifier: MIT */
/*
 * Data from inside: data.c opens, closes and commits; tables.c has the tables, their catalogue and live
 * changes.
 *
 * Locks, in this order: change, lock, the store's.
 */
#ifndef WEIR_DATA_INTERNAL_H
#define WEIR_DATA_INTERNAL_H

#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

#include "data/catalogue.h"
#include "store/store.h"
#include "table/persist/persist.h"

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

/* Makes what the catalogue of the store names, empty. */
bool weir_data_make_tables(struct weir_data *data, struct weir_error *err);
void weir_data_free_tables(struct weir_data *data);
void weir_data_write_catalogue(const struct weir_data *data, struct buffer *out);
extern const struct table_owner weir_data_owner;

#endif
