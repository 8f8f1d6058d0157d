/* SPDX-License-Identifier: MIT */
/*
 * Records of the ledger that a store keeps. A record on the disk: id (2 words), number, the time at which it
 * expires in store time, its bytes; RECORD_GONE has no bytes: it was taken back before its time.
 */
#ifndef WEIR_LEDGER_KEEP_H
#define WEIR_LEDGER_KEEP_H

#include "ledger/ledger.h"
#include "ledger/steps.h"
#include "region/keep.h"

enum { RECORD_KEPT = 1, RECORD_GONE };

extern const struct keep_kind weir_records_keep; /* owner: struct records */

/* What must be known to find them again: the keys of the hashes. */
void weir_records_describe(const struct records *records, struct buffer *out);
bool weir_records_describe_read(struct records *records, const void *bytes, size_t len); /* an empty one */
void weir_records_recovered(struct records *records, int64_t now_ns); /* after the last record */

struct region *weir_records_region(const struct records *records);
struct records *weir_steps_records(const struct steps *steps);

/* After a loss: whoever has a reservation that is still open cannot settle it any more. What he would be
 * given back may be in nobody's account. */
void weir_ledger_distrust(struct ledger *ledger, int64_t now_ns);

#endif
