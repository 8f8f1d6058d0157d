/* SPDX-License-Identifier: MIT */
/*
 * The table of names under the registry. The program is linked with --wrap=calloc, so that memory can be
 * missing.
 */
#include "registry/name_table.h"

#include <stdlib.h>

#include "base/hash.h"
#include "check.h"

static bool out_of_memory;
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
    return out_of_memory ? NULL : __real_calloc(count, size);
}

enum { MANY = 5000 };

static void fill_names(struct name_table *names, struct name_entry *things, char (*texts)[8])
{
    for (size_t i = 0; i < MANY; i++) {
        static const struct hash_key key = {3, 4};
        size_t len = (size_t)snprintf(texts[i], sizeof texts[i], "%zu", i);
        things[i] = (struct name_entry){.hash = weir_hash(&key, texts[i], len), .name = texts[i]};
        weir_name_table_add(names, &things[i]);
    }
}

static void check_names(const struct name_table *names, struct name_entry *things)
{
    size_t seen = 0;
    for (struct name_entry *named = NULL; (named = weir_name_table_next(names, named));)
        seen++;
    CHECK_EQ(seen, MANY);
    for (size_t i = 0; i < MANY; i++)
        CHECK(weir_name_table_find(names, things[i].hash, things[i].name) == &things[i]);
    CHECK(weir_name_table_find(names, things[0].hash, "other") == NULL);
}

TEST(a_table_of_names_grows_and_does_without_if_it_cannot)
{
    static struct name_entry things[MANY];
    static char texts[MANY][8];
    for (int memory = 0; memory < 2; memory++) {
        struct name_table names;
        weir_name_table_init(&names);
        out_of_memory = memory == 0;
        fill_names(&names, things, texts);
        out_of_memory = false;
        CHECK(memory ? names.size >= MANY : names.size == NAMES_FIRST);
        check_names(&names, things);
        for (size_t i = 0; i < MANY; i++)
            weir_name_table_remove(&names, &things[i]);
        CHECK(weir_name_table_next(&names, NULL) == NULL);
        weir_name_table_end(&names);
    }
}
