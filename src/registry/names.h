/* SPDX-License-Identifier: MIT */
/*
 * Things found by their name: a hash table of chains that grows with what is in it. Names may come from
 * outside, so their hash has to be a keyed one (base/hash.h), or somebody could choose names that all
 * land in one chain. The owner of a table has the lock, the key and the things. Memory is needed only to
 * grow; without it chains get longer, and nothing here fails.
 */
#ifndef WEIR_REGISTRY_NAMES_H
#define WEIR_REGISTRY_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first member of a thing that has a name. */
struct named {
    struct named *next; /* in the chain */
    uint64_t hash;      /* of the name, with the owner's key */
    const char *name;
};

#define NAMES_FIRST 16

struct names {
    struct named **chains; /* `first` until it has grown: keep the struct where it is */
    size_t size;           /* how many chains: a power of two */
    size_t count;
    struct named *first[NAMES_FIRST];
};

void weir_names_init(struct names *names);
void weir_names_end(struct names *names); /* frees the table, not the things */

struct named *weir_names_find(const struct names *names, uint64_t hash, const char *name); /* or NULL */
void weir_names_add(struct names *names, struct named *named);    /* its name is not there yet */
void weir_names_remove(struct names *names, struct named *named); /* it is there */
/* All of them, in no order: begin with NULL, NULL ends it. */
struct named *weir_names_next(const struct names *names, const struct named *named);

#endif
