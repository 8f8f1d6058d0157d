/* SPDX-License-Identifier: MIT */
/*
 * Things by name, as many as there are: a tree in which each has up to four below it. At every level two bits
 * of the name's hash say which way to go, and a thing stands wherever there was room on its way. So nothing
 * is ever moved at once to make room, and to find, add or remove one takes a handful of steps among a
 * million. The key of the hash is the tree's own: nobody can choose names that stand below each other.
 *
 * It has no lock and no memory: whoever has the things has both.
 */
#ifndef WEIR_FLEET_NAME_TRIE_H
#define WEIR_FLEET_NAME_TRIE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"

struct name_node {
    struct name_node *below[4];
    uint64_t hash;
    const char *text; /* of the one who adds it, as long as it is in the tree */
};

struct name_trie {
    struct hash_key key;    /* drawn before the first is added */
    struct name_node *root; /* NULL: there is none */
};

/* One of that text for which `is_good` says so; NULL: none. There may be several of a text. */
struct name_node *weir_name_trie_find(const struct name_trie *trie, const char *text,
                                      bool (*is_good)(struct name_node *entry));
void weir_name_trie_add(struct name_trie *trie, struct name_node *entry);
/* It is in the tree. */
void weir_name_trie_remove(struct name_trie *trie, struct name_node *entry);

#endif
