/* SPDX-License-Identifier: MIT */
#include "registry/name_table.h"

#include <stdlib.h>
#include <string.h>

static struct name_entry **name_chain(const struct name_table *names, uint64_t hash)
{
    return &names->chains[hash & (names->size - 1)];
}

void weir_name_table_init(struct name_table *names)
{
    *names = (struct name_table){.chains = names->first, .size = NAMES_FIRST};
}

void weir_name_table_end(struct name_table *names)
{
    if (names->chains != names->first)
        free(names->chains);
    weir_name_table_init(names);
}

struct name_entry *weir_name_table_find(const struct name_table *names, uint64_t hash, const char *name)
{
    struct name_entry *named = *name_chain(names, hash);
    while (named && (named->hash != hash || strcmp(named->name, name) != 0))
        named = named->next;
    return named;
}

static void link_name(struct name_table *names, struct name_entry *named)
{
    struct name_entry **chain = name_chain(names, named->hash);
    named->next = *chain;
    *chain = named;
}

static void grow_name_table(struct name_table *names)
{
    struct name_entry **old = names->chains, **chains = calloc(names->size * 2, sizeof(struct name_entry *));
    size_t size = names->size;
    if (!chains)
        return;
    names->chains = chains;
    names->size = size * 2;
    for (size_t i = 0; i < size; i++) {
        for (struct name_entry *named = old[i], *next; named; named = next) {
            next = named->next;
            link_name(names, named);
        }
    }
    if (old != names->first)
        free(old);
}

void weir_name_table_add(struct name_table *names, struct name_entry *named)
{
    if (names->count >= names->size)
        grow_name_table(names);
    link_name(names, named);
    names->count++;
}

void weir_name_table_remove(struct name_table *names, struct name_entry *named)
{
    struct name_entry **link = name_chain(names, named->hash);
    while (*link != named)
        link = &(*link)->next;
    *link = named->next;
    names->count--;
}

struct name_entry *weir_name_table_next(const struct name_table *names, const struct name_entry *named)
{
    if (named && named->next)
        return named->next;
    size_t i = named ? (size_t)(named->hash & (names->size - 1)) + 1 : 0;
    while (i < names->size && !names->chains[i])
        i++;
    return i < names->size ? names->chains[i] : NULL;
}
