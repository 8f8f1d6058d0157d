/* SPDX-License-Identifier: MIT */
/*
 * SipHash-1-3: a hash that cannot be foreseen without its key. So who chooses the names cannot choose where
 * they land.
 */
#ifndef WEIR_REGISTRY_HASH_H
#define WEIR_REGISTRY_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash_key {
    uint64_t low, high;
};

struct hash_key weir_hash_key(void); /* a new one, that nobody else knows */
uint64_t weir_hash(const struct hash_key *key, const void *bytes, size_t len);

#endif
