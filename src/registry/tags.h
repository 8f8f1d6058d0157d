/* SPDX-License-Identifier: MIT */
/*
 * Tags: pairs of key and value, kept in the order of their keys. The texts of a tag never change, and it is
 * counted by reference, so that it can be shown under no lock; the list has the lock of its owner. Nothing
 * here takes or frees memory but weir_tag_new, weir_tag_drop and weir_tags_end.
 */
#ifndef WEIR_REGISTRY_TAGS_H
#define WEIR_REGISTRY_TAGS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct tag {
    struct tag *next;
    atomic_size_t references;
    const char *key, *value;
};

/* All zero: none. */
struct tags {
    struct tag *first;
    size_t count;
};

struct tag *weir_tag_new(const char *key, const char *value); /* copies both; NULL: out of memory */
void weir_tag_drop(struct tag *tag);                          /* or NULL */

/* Puts it in the place of the one with the same key, which goes to *old, else NULL does. Takes the reference
 * over. false: it would be more than `most`, and nothing has changed. */
bool weir_tags_put(struct tags *tags, struct tag *tag, size_t most, struct tag **old);
struct tag *weir_tags_find(const struct tags *tags, const char *key); /* or NULL */
struct tag *weir_tags_take(struct tags *tags, const char *key);       /* takes it out; or NULL */
void weir_tags_end(struct tags *tags);

/* Both lists as one, in order; of two with the same key the one of `own` counts. Gives how many, each with a
 * reference of the caller's. `merged` has room for all. */
size_t weir_tags_merge(const struct tags *own, const struct tags *inherited, struct tag **merged);

#endif
