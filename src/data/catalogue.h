/* SPDX-License-Identifier: MIT */
/*
 * What must be known of the tables of a directory before their records can be read: the catalogue of the
 * store.
 *
 *   "WEIRDATA", version, count, the last number that was given, 0
 *   of each table: its number, lengths of name and description, 0; name; description
 * (table/persist/persist.h)
 *
 * Little-endian; names and descriptions are followed by zeros up to a multiple of 8. Who reads trusts
 * nothing.
 */
#ifndef WEIR_DATA_CATALOGUE_H
#define WEIR_DATA_CATALOGUE_H

#include "base/buffer.h"
#include "weir.h"

#define DATA_CATALOGUE_VERSION 1
#define CATALOGUE_TABLES_MAX   4096

struct catalogue_table {
    uint32_t number;
    struct slice name, description;
};

struct data_catalogue_reader {
    const unsigned char *at, *end;
    uint32_t left; /* tables */
    uint32_t last_number;
};

void weir_data_catalogue_begin(struct buffer *out, uint32_t count, uint32_t last_number);
void weir_data_catalogue_put(struct buffer *out, uint32_t number, struct slice name,
                             struct slice description);

/* false: it is none of ours, or makes no sense; `err` says which. */
bool weir_data_catalogue_read(const void *bytes, size_t len, struct data_catalogue_reader *reader,
                              struct weir_error *err);
/* The next table, while reader->left. false: it makes no sense. */
bool weir_data_catalogue_next(struct data_catalogue_reader *reader, struct catalogue_table *table,
                              struct weir_error *err);

#endif
