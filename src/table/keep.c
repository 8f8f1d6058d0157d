/* SPDX-License-Identifier: MIT */
#include "table/keep.h"

#include <errno.h>

#include "base/error.h"

const struct keep_kind weir_table_keep;

struct weir_table *weir_table_new_kept(const char *limits, const struct weir_table_options *options,
                                       const struct hash_key *key, struct weir_error *err)
{
    (void)key;
    return weir_table_make(NULL, limits, options, err);
}

void weir_table_describe(struct weir_table *table, struct buffer *out)
{
    (void)table, (void)out;
}

struct weir_table *weir_table_describe_read(const void *bytes, size_t len, struct weir_error *err)
{
    (void)bytes, (void)len;
    weir_error_set(err, ENOSYS, "not in this version");
    return NULL;
}

void weir_table_recovered(struct weir_table *table, enum table_recover how, int64_t now)
{
    (void)table, (void)how, (void)now;
}

void weir_table_history_forget(struct weir_table *table, uint64_t generation)
{
    (void)table, (void)generation;
}
