/* SPDX-License-Identifier: MIT */
#include "sim_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *larger_array(void *array, size_t count, size_t *space, size_t item)
{
    if (count < *space)
        return array;
    *space = *space ? 2 * *space : 16;
    array = realloc(array, *space * item);
    if (!array)
        abort();
    return array;
}

/* ---- lists ---- */

static struct sim_entry *find(const struct sim_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->entries[i].name, name) == 0)
            return &list->entries[i];
    return NULL;
}

static void apply(struct sim_list *list, const struct sim_change *change)
{
    struct sim_entry *entry = change->gone[0] ? find(list, change->gone) : NULL;
    if (entry)
        *entry = list->entries[--list->count];
    if (!change->name[0])
        return;
    entry = find(list, change->name);
    if (!entry) {
        list->entries = larger_array(list->entries, list->count, &list->space, sizeof *list->entries);
        entry = &list->entries[list->count++];
        memcpy(entry->name, change->name, sizeof entry->name);
    }
    entry->node = change->node;
}

static void copy(struct sim_list *to, const struct sim_list *from)
{
    while (to->space < from->count)
        to->entries = larger_array(to->entries, to->space, &to->space, sizeof *to->entries);
    if (from->count > 0)
        memcpy(to->entries, from->entries, from->count * sizeof *from->entries);
    to->count = from->count;
}

/* ---- names ---- */

void sim_names_free(struct sim_names *names)
{
    free(names->now.entries);
    free(names->safe.entries);
    free(names->changes);
}

struct sim_node *sim_names_find(const struct sim_names *names, const char *name)
{
    const struct sim_entry *entry = find(&names->now, name);
    return entry ? entry->node : NULL;
}

void sim_names_change(struct sim_names *names, const char *gone, const char *name, struct sim_node *node)
{
    names->changes = larger_array(names->changes, names->count, &names->space, sizeof *names->changes);
    struct sim_change *change = &names->changes[names->count++];
    memset(change, 0, sizeof *change);
    (void)snprintf(change->gone, sizeof change->gone, "%s", gone);
    (void)snprintf(change->name, sizeof change->name, "%s", name);
    change->node = node;
    apply(&names->now, change);
}

void sim_names_sync(struct sim_names *names)
{
    copy(&names->safe, &names->now);
    names->count = 0;
}

/* ---- what is lost ---- */

static bool is_about(const struct sim_change *change, const char *name)
{
    return name[0] && (strcmp(change->gone, name) == 0 || strcmp(change->name, name) == 0);
}

/* Does it touch a name of a change before it that is not there? */
static bool is_blocked(const struct sim_change *change, const struct sim_change *missing, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_about(&missing[i], change->gone) || is_about(&missing[i], change->name))
            return true;
    return false;
}

/* Makes some changes safe. Those that are not stay, at the front, in their order. Half of the time they are
 * the last ones, as on a disk with a journal. */
static void keep_some(struct sim_names *names, struct rng *rng)
{
    uint64_t mood = rng_next(rng);
    size_t whole = mood & 1 ? (size_t)rng_between(rng, 0, (int64_t)names->count) : 0, missing = 0;
    for (size_t i = 0; i < names->count; i++) {
        struct sim_change change = names->changes[i];
        bool kept = mood & 1 ? i < whole : rng_next(rng) >> 63 != 0;
        if (kept && !is_blocked(&change, names->changes, missing))
            apply(&names->safe, &change);
        else
            names->changes[missing++] = change;
    }
    names->count = missing;
}

void sim_names_sync_some(struct sim_names *names, struct rng *rng)
{
    keep_some(names, rng);
}

void sim_names_lose(struct sim_names *names, struct rng *rng, bool all)
{
    if (!all)
        keep_some(names, rng);
    names->count = 0;
    copy(&names->now, &names->safe);
}
