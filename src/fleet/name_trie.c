/* SPDX-License-Identifier: MIT */
#include "fleet/name_trie.h"

#include <string.h>

/* Which way, by the two highest bits; the next two are for the next level. When all are used up it is a list.
 */
static size_t next_branch(uint64_t *bits)
{
    size_t which = (size_t)(*bits >> 62);
    *bits <<= 2;
    return which;
}

struct name_node *weir_name_trie_find(const struct name_trie *trie, const char *text,
                                      bool (*is_good)(struct name_node *entry))
{
    uint64_t hash = weir_hash(&trie->key, text, strlen(text)), bits = hash;
    for (struct name_node *entry = trie->root; entry; entry = entry->below[next_branch(&bits)])
        if (entry->hash == hash && strcmp(entry->text, text) == 0 && is_good(entry))
            return entry;
    return NULL;
}

void weir_name_trie_add(struct name_trie *trie, struct name_node *entry)
{
    uint64_t bits = entry->hash = weir_hash(&trie->key, entry->text, strlen(entry->text));
    struct name_node **at = &trie->root;
    while (*at)
        at = &(*at)->below[next_branch(&bits)];
    memset(entry->below, 0, sizeof entry->below);
    *at = entry;
}

/* Where one stands that has none below it, on any way down from here. */
static struct name_node **find_leaf(struct name_node **at)
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
void weir_name_trie_remove(struct name_trie *trie, struct name_node *entry)
{
    uint64_t bits = entry->hash;
    struct name_node **at = &trie->root;
    while (*at != entry)
        at = &(*at)->below[next_branch(&bits)];
    struct name_node **last = find_leaf(at), *heir = *last;
    *last = NULL;
    if (heir == entry)
        return;
    memcpy(heir->below, entry->below, sizeof heir->below);
    *at = heir;
}
