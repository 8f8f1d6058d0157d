/* SPDX-License-Identifier: MIT */
#include "registry/names.h"

#include <stdlib.h>
#include <string.h>

static struct named **chain_of(const struct names *names, uint64_t hash)
{
    return &names->chains[hash & (names->size - 1)];
}

void weir_names_init(struct names *names)
{
    *names = (struct names){.chains = names->first, .size = NAMES_FIRST};
}

void weir_names_end(struct names *names)
{
    if (names->chains != names->first)
        free(names->chains);
    weir_names_init(names);
}

struct named *weir_names_find(const struct names *names, uint64_t hash, const char *name)
{
    struct named *named = *chain_of(names, hash);
    while (named && (named->hash != hash || strcmp(named->name, name) != 0))
        named = named->next;
    return named;
}

static void link_in(struct names *names, struct named *named)
{
    struct named **chain = chain_of(names, named->hash);
    named->next = *chain;
    *chain = named;
}

static void grow(struct names *names)
{
    struct named **old = names->chains, **chains = calloc(names->size * 2, sizeof(struct named *));
    size_t size = names->size;
    if (!chains)
        return;
    names->chains = chains;
    names->size = size * 2;
    for (size_t i = 0; i < size; i++) {
        for (struct named *named = old[i], *next; named; named = next) {
            next = named->next;
            link_in(names, named);
        }
    }
    if (old != names->first)
        free(old);
}

void weir_names_add(struct names *names, struct named *named)
{
    if (names->count >= names->size)
        grow(names);
    link_in(names, named);
    names->count++;
}

void weir_names_remove(struct names *names, struct named *named)
{
    struct named **link = chain_of(names, named->hash);
    while (*link != named)
        link = &(*link)->next;
    *link = named->next;
    names->count--;
}

struct named *weir_names_next(const struct names *names, const struct named *named)
{
    if (named && named->next)
        return named->next;
    size_t i = named ? (size_t)(named->hash & (names->size - 1)) + 1 : 0;
    while (i < names->size && !names->chains[i])
        i++;
    return i < names->size ? names->chains[i] : NULL;
}
