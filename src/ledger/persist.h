/* SPDX-License-Identifier: MIT */
/*
 * Records of the ledger that a store keeps. A record on the disk: id (2 words), number, the time at which it
 * expires in store time, its bytes; RECORD_GONE has no bytes: it was taken back before its time.
 *
 * A thread that has listed something is never inside of a record when that is appended, except by
 * weir_records_append: to capture a record needs its lock.
 */
#ifndef WEIR_LEDGER_PERSIST_H
#define WEIR_LEDGER_PERSIST_H

#include "ledger/ledger.h"
#include "ledger/smyte.h"
#include "region/persist.h"

enum { RECORD_KEPT = 1, RECORD_GONE };

struct record_head { /* as it is on the disk; the bytes follow */
    struct record_id id;
    uint64_t number;
    int64_t expires_ns; /* store time; RECORD_GONE: 0 */
};

extern const struct persist_ops weir_records_persist_ops; /* owner: struct records */

/* ---- while it runs ---- */

/* Before a record is entered in which weir_records_append will be called: all that this thread has listed is
 * appended. */
void weir_records_flush(struct records *records);
/* Inside of a record, which stays: it is appended as it is now, and what anybody does because of it comes
 * behind it in the log. Nothing but this record, and entries of tables, may be listed since
 * weir_records_flush. */
void weir_records_append(struct records *records, const struct record_visit *visit);

/* Calls back for every record, inside of it; those of which it says true were changed. Gives how many. */
typedef bool record_change(void *arg, struct record *record);
size_t weir_records_change(struct records *records, record_change *change, void *arg);

/* Private to records.c and persist.c: a record was taken back; one comes from the disk; the memory that
 * recovery needs goes. */
void weir_records_add_tombstone(struct records *records, const struct record_id *id, uint64_t number);
bool weir_records_apply(const struct persist *persist, uint8_t kind, const unsigned char *body, size_t len,
                        bool *failed);
void weir_records_recovery_end(struct records *records);

/* ---- describing and recovering ---- */

/* What must be known to find them again: the keys of the hashes. */
void weir_records_describe(const struct records *records, struct buffer *out);
bool weir_records_describe_read(struct records *records, const void *bytes, size_t len); /* an empty one */
void weir_records_recovered(struct records *records, int64_t now_ns); /* after the last record */

struct region *weir_records_region(const struct records *records);

#endif
