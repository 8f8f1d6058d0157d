/* SPDX-License-Identifier: MIT */
#include "table/table.h"

struct exact_name weir_exact_name(const struct weir_table *table, const void *bytes, size_t len)
{
    return exact_name(&table->region->key, &table->exact, bytes, len);
}
