/* SPDX-License-Identifier: MIT */
#include "fleet/roll.h"

#include <string.h>

/* Which way, by the two highest bits; the next two are for the next level. When all are used up it is a list.
 */
static size_t way(uint64_t *bits)
{
    size_t which = (size_t)(*bits >> 62);
    *bits <<= 2;
    return which;
}

struct entry *weir_roll_find(const struct roll *roll, const char *text, bool (*is_good)(struct entry *entry))
{
    uint64_t hash = weir_hash(&roll->key, text, strlen(text)), bits = hash;
    for (struct entry *entry = roll->root; entry; entry = entry->below[way(&bits)])
        if (entry->hash == hash && strcmp(entry->text, text) == 0 && is_good(entry))
            return entry;
    return NULL;
}

void weir_roll_add(struct roll *roll, struct entry *entry)
{
    uint64_t bits = entry->hash = weir_hash(&roll->key, entry->text, strlen(entry->text));
    struct entry **at = &roll->root;
    while (*at)
        at = &(*at)->below[way(&bits)];
    memset(entry->below, 0, sizeof entry->below);
    *at = entry;
}

/* Where one stands that has none below it, on any way down from here. */
static struct entry **find_last(struct entry **at)
{
    for (size_t i = 0; i < 4;)
        if ((*at)->below[i]) {
            at = &(*at)->below[i];
            i = 0;
        } else {
            i++;
        }
    return at;
}

/* Whoever stands below it may as well stand in its place: its way leads there. */
void weir_roll_remove(struct roll *roll, struct entry *entry)
{
    uint64_t bits = entry->hash;
    struct entry **at = &roll->root;
    while (*at != entry)
        at = &(*at)->below[way(&bits)];
    struct entry **last = find_last(at), *heir = *last;
    *last = NULL;
    if (heir == entry)
        return;
    memcpy(heir->below, entry->below, sizeof heir->below);
    *at = heir;
}
