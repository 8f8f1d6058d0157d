/* SPDX-License-Identifier: MIT */
/*
 * Records: a bounded map from an id of 128 bits to some bytes that must be remembered until a stated time. A
 * record is never given up before that, unless it says so: if there is no room, the newcomer gets none. All
 * memory is taken at the start, in a region, so that a store can keep it.
 *
 * Who wants a record enters it: until he leaves, nobody else can enter that id, so what he finds there, does
 * and writes is one step for all others. What is done between enter and leave must not wait for anything, and
 * enters no second record of the same map, whose lock might be the same one. Between maps there is an order:
 * in the ledger requests come before reservations.
 */
#ifndef WEIR_LEDGER_RECORDS_H
#define WEIR_LEDGER_RECORDS_H

#include "base/hash.h"
#include "weir.h"

struct record_id {
    uint64_t word[2]; /* not both 0 */
};

struct record {
    struct record_id id;
    int64_t expires_ns; /* a time of weir_now, after which it is forgotten; 0: it is free */
    /* the bytes follow, aligned to 8 */
};

struct records;

/* NULL: an error. `bytes` of each, a multiple of 8. Up to three quarters of them find room, all but surely;
 * above that the first newcomers find none. */
struct records *weir_records_new(size_t count, size_t bytes, struct weir_error *err);
void weir_records_free(struct records *records);

/* Before anybody else uses them: records of which `yields` says true may be dropped before their time, if a
 * newcomer finds no other place. Called inside of the record. What yields once does so for ever. */
typedef bool record_yields(const struct record *record, int64_t now_ns);
void weir_records_yield(struct records *records, record_yields *yields);

/* The same; for a store. `sane` looks at bytes that came from a disk, `shift` moves the times in them, which
 * are those of weir_now. NULL: there is nothing to look at, or to move. */
typedef bool record_sane(const void *bytes);
typedef void record_shift(void *bytes, int64_t by_ns);
void weir_records_form(struct records *records, record_sane *sane, record_shift *shift);

/* A keyed hash of some bytes; `kind` keeps names of different kinds apart. */
struct record_id weir_record_id(const struct records *records, const char *kind, const void *bytes,
                                size_t len);

struct record_visit {
    struct record *record; /* NULL: there is none, and no room for one */
    bool found;            /* it was there; else it is new: zero bytes and expires_ns 0 */
    bool looked;           /* false at first. Set by who has changed nothing, and tells nothing of it that
                              would have to be on the disk: a store then has nothing to do */
    uint32_t lock;         /* private */
};
/* At expires_ns a record is no longer there. Who changes that moves it to later, or frees the record. */
void weir_records_enter(struct records *records, const struct record_id *id, int64_t now_ns,
                        struct record_visit *visit);
/* A record whose expires_ns is 0 by then is free again. Also if there was no room. */
void weir_records_leave(struct records *records, const struct record_visit *visit);

static inline void *record_bytes(struct record *record)
{
    return record + 1;
}

struct records_stat {
    int64_t capacity, used; /* places; one that has expired counts as used until somebody comes by */
    int64_t room;           /* records that find a place, all but surely: three quarters of capacity */
    int64_t bytes;
    int64_t refused; /* newcomers that found no room */
};
void weir_records_stat(struct records *records, struct records_stat *stat);

/* Looks at the next so many records and frees those that have expired. Nobody has to call it: newcomers who
 * find no free place do the same in theirs. */
void weir_records_sweep(struct records *records, size_t count, int64_t now_ns);

/* Calls back for records that have not expired, inside of each: about `most` of them, from *cursor on, which
 * moves on; false: those were the last. One that comes or goes meanwhile may be shown or not. */
bool weir_records_page(struct records *records, int64_t now_ns, uint64_t *cursor, size_t most,
                       void (*each)(void *arg, struct record *record), void *arg);

/* Which of its places a record is in, 0 ... capacity - 1: the same as long as it is there. */
uint64_t weir_records_place(const struct records *records, const struct record *record);

/* Frees all of them, whatever their time. A store is not told: until it has made an image they may come back
 * after a crash. Gives how many there were. */
int64_t weir_records_clear(struct records *records);

/* The keys of the hash, and other ones: before the first record. */
void weir_records_keys(const struct records *records, struct hash_key keys[static 2]);
void weir_records_set_keys(struct records *records, const struct hash_key keys[static 2]);

#endif
