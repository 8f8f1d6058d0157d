/* SPDX-License-Identifier: MIT */
#include "table/table.h"

struct exact_name weir_exact_name(const struct weir_table *table, const void *bytes, size_t len)
{
    return exact_name(&table->region->key, &table->exact, bytes, len);
}

bool weir_exact_key_of(const struct weir_table *table, const struct exact_name *name, unsigned char *bytes,
                       struct key *key)
{
    size_t len = exact_bytes(&table->region->key, &table->exact, name, bytes);
    *key = table_key(table, bytes, len);
    return key->hash == name->hash && key->rest == name->rest && key->form == name->form;
}
