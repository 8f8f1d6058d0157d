/* SPDX-License-Identifier: MIT */
/*
 * The catalogue of a store: all that must be known before its records can be read again. It is written anew,
 * as a whole, with every change; one format for programs (data.c) and for the server (service/persist).
 *
 *   "WEIRTABS", version, whose it is, the last number that was given to a table,
 *   tables, by number: of each its number, name (the server's have none), how far its time is ahead of store
 *   time, when it ends, its description (table/persist/persist.h),
 *   what the owner has to say besides
 *
 * Numbers are 64 bits, little-endian; a block is its length and its bytes; lists are their count and a block
 * for each element, so that a later version can add to the end of it. Times are store time (0: none,
 * WEIR_FOREVER: not known yet).
 *
 * Who reads trusts nothing: a catalogue that makes no sense stops the start, and says so.
 */
#ifndef WEIR_DATA_CATALOGUE_H
#define WEIR_DATA_CATALOGUE_H

#include "base/buffer.h"
#include "weir.h"

#define CATALOGUE_VERSION 3
#define CATALOGUE_MAX     ((size_t)60 << 20) /* bytes; see FRAME_BYTES_MAX */
#define CATALOGUE_TABLES  (INT64_C(1) << 17)

enum catalogue_owner { CATALOGUE_PROGRAM, CATALOGUE_SERVER };

struct catalogue_table {
    uint64_t number;
    struct slice name;
    int64_t lead_ns, ends_ns;
    struct slice description; /* for the reader */
};

/* ---- writing; what goes wrong is in out->failed ---- */

/* Then come `tables` of them, and what the owner has besides. */
void weir_catalogue_begin(struct buffer *out, enum catalogue_owner owner, uint64_t last_number,
                          uint64_t tables);
void weir_catalogue_put_table(struct buffer *out, const struct catalogue_table *table,
                              struct weir_table *described);

void weir_catalogue_put_number(struct buffer *out, uint64_t number);
void weir_catalogue_put_bytes(struct buffer *out, const char *bytes, size_t len);
void weir_catalogue_put_text(struct buffer *out, const char *text); /* NULL: none */
/* A block whose length is known when it is there: gives the place of it, which goes to the end of it. */
size_t weir_catalogue_block(struct buffer *out);
void weir_catalogue_block_end(struct buffer *out, size_t began);

/* ---- reading ---- */

struct catalogue_reader { /* what is left of a catalogue, or block */
    const unsigned char *at, *end;
    bool wrong; /* it makes no sense: everything that is read from now on is 0 */
};

struct catalogue {
    uint64_t last_number;
    uint64_t left;   /* tables */
    uint64_t number; /* of the last that was read */
    struct catalogue_reader tables, rest;
};
/* The bytes must stay. false: it is none of this owner's, or makes no sense, or is of another version. */
bool weir_catalogue_read(const void *bytes, size_t len, enum catalogue_owner owner,
                         struct catalogue *catalogue, struct weir_error *err);
/* The next table, while catalogue->left. false: it makes no sense. */
bool weir_catalogue_next(struct catalogue *catalogue, struct catalogue_table *table);
bool weir_catalogue_nonsense(enum catalogue_owner owner, struct weir_error *err); /* says so: false */

struct catalogue_reader weir_catalogue_reader(struct slice bytes);
uint64_t weir_catalogue_number(struct catalogue_reader *reader);
/* From `least` to `most`, else it is wrong. */
int64_t weir_catalogue_within(struct catalogue_reader *reader, int64_t least, int64_t most);
struct slice weir_catalogue_bytes(struct catalogue_reader *reader, size_t most);

#endif
