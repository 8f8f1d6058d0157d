/* SPDX-License-Identifier: MIT */
/*
 * Names in a tree, against a plain list.
 */
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "fleet/name_trie.h"

enum { THINGS = 600, MANY = 200000 };

struct thing {
    struct name_node entry;
    char text[24];
    bool in, good;
};

static bool is_good(struct name_node *entry)
{
    return ((struct thing *)(void *)entry)->good;
}

static bool is_any(struct name_node *entry)
{
    (void)entry;
    return true;
}

/* Some texts are there several times, and of these not all are good. */
TEST(what_was_added_is_found_and_what_was_removed_is_not)
{
    static struct thing things[THINGS];
    struct rng rng = rng_new(1);
    struct name_trie trie = {.key = {rng_next(&rng), rng_next(&rng)}};
    for (int i = 0; i < THINGS; i++)
        (void)snprintf(things[i].text, sizeof things[i].text, "n%d", i / 3);
    for (int round = 0; round < 20000; round++) {
        struct thing *thing = &things[rng_between(&rng, 0, THINGS - 1)];
        if (thing->in) {
            weir_name_trie_remove(&trie, &thing->entry);
        } else {
            thing->entry.text = thing->text;
            thing->good = rng_between(&rng, 0, 1);
            weir_name_trie_add(&trie, &thing->entry);
        }
        thing->in = !thing->in;
        size_t first = (size_t)rng_between(&rng, 0, THINGS / 3 - 1) * 3;
        bool there = false;
        for (size_t i = first; i < first + 3; i++)
            there = there || (things[i].in && things[i].good);
        struct name_node *found = weir_name_trie_find(&trie, things[first].text, is_good);
        if (!CHECK_EQ(found != NULL, there))
            return;
        if (found)
            CHECK(((struct thing *)(void *)found)->in && strcmp(found->text, things[first].text) == 0);
    }
    for (int i = 0; i < THINGS; i++)
        if (things[i].in)
            weir_name_trie_remove(&trie, &things[i].entry);
    CHECK(trie.root == NULL);
}

static int depth_of(const struct name_node *entry)
{
    int most = 0;
    for (int i = 0; entry && i < 4; i++) {
        int below = depth_of(entry->below[i]);
        most = below > most ? below : most;
    }
    return entry ? most + 1 : 0;
}

TEST(many_names_stand_few_steps_from_the_root)
{
    struct thing *things = calloc(MANY, sizeof *things);
    struct name_trie trie = {.key = {1, 2}};
    if (!CHECK(things != NULL))
        return;
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(things[i].text, sizeof things[i].text, "user:%d", i);
        things[i].entry.text = things[i].text;
        weir_name_trie_add(&trie, &things[i].entry);
    }
    CHECK(depth_of(trie.root) < 30);
    for (int i = 0; i < MANY; i += 997)
        CHECK(weir_name_trie_find(&trie, things[i].text, is_any) == &things[i].entry);
    for (int i = 0; i < MANY; i++)
        weir_name_trie_remove(&trie, &things[i].entry);
    CHECK(trie.root == NULL);
    free(things);
}
