/* SPDX-License-Identifier: MIT */
/*
 * Things by name, as many as there are: a tree in which each has up to four below it. At every level two bits
 * of the name's hash say which way to go, and a thing stands wherever there was room on its way. So nothing
 * is ever moved at once to make room, and to find, add or remove one takes a handful of steps among a
 * million. The key of the hash is the tree's own: nobody can choose names that stand below each other.
 *
 * It has no lock and no memory: whoever has the things has both.
 */
#ifndef WEIR_FLEET_ROLL_H
#define WEIR_FLEET_ROLL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"

struct entry {
    struct entry *below[4];
    uint64_t hash;
    const char *text; /* of the one who adds it, as long as it is in the tree */
};

struct roll {
    struct hash_key key; /* drawn before the first is added */
    struct entry *root;  /* NULL: there is none */
};

/* One of that text for which `is_good` says so; NULL: none. There may be several of a text. */
struct entry *weir_roll_find(const struct roll *roll, const char *text, bool (*is_good)(struct entry *entry));
void weir_roll_add(struct roll *roll, struct entry *entry);
/* It is in the tree. */
void weir_roll_remove(struct roll *roll, struct entry *entry);

#endif
