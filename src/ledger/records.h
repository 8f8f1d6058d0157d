/* SPDX-License-Identifier: MIT */
/*
 * Records: a bounded map from an id of 128 bits to some bytes that must be remembered until a stated time. A
 * record is never given up before that: if there is no room, the newcomer gets none. All memory is taken at
 * the start, in a region, so that a store can keep it.
 *
 * Who wants a record enters it: until he leaves, nobody else can enter that id, so what he finds there, does
 * and writes is one step for all others. Two ids can be entered together, never one after the other. What is
 * done between enter and leave must not wait for anything.
 */
#ifndef WEIR_LEDGER_RECORDS_H
#define WEIR_LEDGER_RECORDS_H

#include "weir.h"

struct record_id {
    uint64_t word[2]; /* not both 0 */
};

struct record {
    struct record_id id;
    int64_t expires_ns; /* a time of weir_now; 0: it is free */
    /* the bytes follow, aligned to 8 */
};

struct records;

/* NULL: an error. `bytes` of each, a multiple of 8. */
struct records *weir_records_new(size_t count, size_t bytes, struct weir_error *err);
void weir_records_free(struct records *records);

/* A keyed hash of some bytes; `kind` keeps names of different kinds apart. */
struct record_id weir_record_id(const struct records *records, const char *kind, const void *bytes,
                                size_t len);

struct visit {
    struct record *record; /* NULL: there is none, and no room for one */
    bool found;            /* it was there; else it is new: zero bytes and expires_ns 0 */
    uint32_t lock;         /* private */
};
/* One id or two different ones. */
void weir_records_enter(struct records *records, const struct record_id *ids, size_t count, int64_t now_ns,
                        struct visit *visits);
/* Records whose expires_ns is 0 by then are free again. */
void weir_records_leave(struct records *records, const struct visit *visits, size_t count);

static inline void *record_bytes(struct record *record)
{
    return record + 1;
}

struct records_stat {
    int64_t capacity, used; /* used: have not expired; counted a part at a time, as the sweep goes */
    int64_t bytes;
    int64_t refused; /* newcomers that found no room */
};
void weir_records_stat(struct records *records, struct records_stat *stat);

/* Looks at the next so many records and frees those that have expired. Nobody has to call it. */
void weir_records_sweep(struct records *records, size_t count, int64_t now_ns);

/* Calls back for every record that has not expired, inside of it. */
void weir_records_each(struct records *records, int64_t now_ns,
                       void (*each)(void *arg, struct record *record), void *arg);

#endif
