/* SPDX-License-Identifier: MIT */
/*
 * Inside of the registry. One lock guards both tables and all tags, and is held for a lookup, a link or a
 * copy: no text is parsed, no limiter is made or freed and nobody is told under it.
 */
#ifndef WEIR_REGISTRY_REGISTRY_H
#define WEIR_REGISTRY_REGISTRY_H

#include <stdatomic.h>

#include "base/hash.h"
#include "limiter/listeners.h"
#include "os/lock.h"
#include "registry/name_table.h"
#include "registry/tags.h"
#include "weir.h"

/* A limiter in its place. The table has a reference, and so has whoever shows it to a callback; only the tags
 * ever change. */
struct registry_entry {
    struct name_entry named;
    atomic_size_t references;
    struct weir_limiter *limiter;
    struct tags tags;
};

/* What a limiter is made from. */
struct registry_limits {
    size_t count;
    struct weir_spec specs[WEIR_LIMITS_MAX];
};

struct weir_registry {
    struct lock lock;
    struct hash_key key; /* never changes */
    struct name_table members, configurations;
    struct tags tags; /* of the registry itself */
    size_t most;      /* members, and configurations: WEIR_REGISTRY_MAX, less in tests */
    struct listeners listeners;
    struct weir_registry *next, **link; /* of all registries */
};

/* 1 to `most` bytes: gives how many, else 0. */
size_t weir_registry_length(const char *text, size_t most);
/* Checks the name, and the registry, and hashes it. */
bool weir_registry_hash(const struct weir_registry *registry, const char *name, uint64_t *hash,
                        struct weir_error *err);
/* Under the lock. */
struct registry_entry *weir_registry_entry(const struct weir_registry *registry, uint64_t hash,
                                           const char *name);

#endif
