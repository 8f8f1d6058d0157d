/* SPDX-License-Identifier: MIT */
#include "ledger/keep.h"

const struct keep_kind weir_records_keep;

void weir_records_describe(const struct records *records, struct buffer *out)
{
    (void)records, (void)out;
}

bool weir_records_describe_read(struct records *records, const void *bytes, size_t len)
{
    (void)records, (void)bytes, (void)len;
    return false;
}

void weir_records_recovered(struct records *records, int64_t now_ns)
{
    (void)records, (void)now_ns;
}

struct region *weir_records_region(const struct records *records)
{
    (void)records;
    return NULL;
}

struct records *weir_steps_records(const struct steps *steps)
{
    (void)steps;
    return NULL;
}

void weir_ledger_distrust(struct ledger *ledger, int64_t now_ns)
{
    (void)ledger, (void)now_ns;
}
