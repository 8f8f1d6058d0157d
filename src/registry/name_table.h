/* SPDX-License-Identifier: MIT */
/*
 * Things found by their name: a hash table of chains that grows with what is in it. Names may come from
 * outside, so their hash has to be a keyed one (base/hash.h), or somebody could choose names that all
 * land in one chain. The owner of a table has the lock, the key and the things. Memory is needed only to
 * grow; without it chains get longer, and nothing here fails.
 */
#ifndef WEIR_REGISTRY_NAME_TABLE_H
#define WEIR_REGISTRY_NAME_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first member of a thing that has a name. */
struct name_entry {
    struct name_entry *next; /* in the chain */
    uint64_t hash;           /* of the name, with the owner's key */
    const char *name;
};

#define NAMES_FIRST 16

struct name_table {
    struct name_entry **chains; /* `first` until it has grown: keep the struct where it is */
    size_t size;                /* how many chains: a power of two */
    size_t count;
    struct name_entry *first[NAMES_FIRST];
};

void weir_name_table_init(struct name_table *names);
void weir_name_table_end(struct name_table *names); /* frees the table, not the things */

struct name_entry *weir_name_table_find(const struct name_table *names, uint64_t hash,
                                        const char *name);                    /* or NULL */
void weir_name_table_add(struct name_table *names, struct name_entry *named); /* its name is not there yet */
void weir_name_table_remove(struct name_table *names, struct name_entry *named); /* it is there */
/* All of them, in no order: begin with NULL, NULL ends it. */
struct name_entry *weir_name_table_next(const struct name_table *names, const struct name_entry *named);

#endif
