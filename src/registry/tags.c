/* SPDX-License-Identifier: MIT */
#include "registry/tags.h"

#include <stdlib.h>
#include <string.h>

struct tag *weir_tag_new(const char *key, const char *value)
{
    size_t key_size = strlen(key) + 1, value_size = strlen(value) + 1;
    struct tag *tag = malloc(sizeof *tag + key_size + value_size);
    if (!tag)
        return NULL;
    char *texts = (char *)(tag + 1);
    memcpy(texts, key, key_size);
    memcpy(texts + key_size, value, value_size);
    tag->next = NULL;
    atomic_init(&tag->references, 1);
    tag->key = texts;
    tag->value = texts + key_size;
    return tag;
}

void weir_tag_drop(struct tag *tag)
{
    if (tag && atomic_fetch_sub_explicit(&tag->references, 1, memory_order_acq_rel) == 1)
        free(tag);
}

/* The link to the first tag whose key is not before `key`. */
static struct tag **find_tag_place(struct tags *tags, const char *key)
{
    struct tag **link = &tags->first;
    while (*link && strcmp((*link)->key, key) < 0)
        link = &(*link)->next;
    return link;
}

static bool tag_has_key(const struct tag *tag, const char *key)
{
    return tag && strcmp(tag->key, key) == 0;
}

bool weir_tags_put(struct tags *tags, struct tag *tag, size_t most, struct tag **old)
{
    struct tag **link = find_tag_place(tags, tag->key);
    *old = tag_has_key(*link, tag->key) ? *link : NULL;
    if (!*old && tags->count >= most)
        return false;
    tags->count += *old ? 0 : 1;
    tag->next = *old ? (*old)->next : *link;
    *link = tag;
    return true;
}

struct tag *weir_tags_find(const struct tags *tags, const char *key)
{
    struct tag *tag = tags->first;
    while (tag && strcmp(tag->key, key) != 0)
        tag = tag->next;
    return tag;
}

struct tag *weir_tags_take(struct tags *tags, const char *key)
{
    struct tag **link = find_tag_place(tags, key), *tag = *link;
    if (!tag_has_key(tag, key))
        return NULL;
    *link = tag->next;
    tags->count--;
    return tag;
}

void weir_tags_end(struct tags *tags)
{
    for (struct tag *tag = tags->first, *next; tag; tag = next) {
        next = tag->next;
        weir_tag_drop(tag);
    }
    *tags = (struct tags){0};
}

size_t weir_tags_merge(const struct tags *own, const struct tags *inherited, struct tag **merged)
{
    struct tag *a = own->first, *b = inherited->first;
    size_t count = 0;
    while (a || b) {
        int order = !a ? 1 : !b ? -1 : strcmp(a->key, b->key);
        struct tag *tag = order <= 0 ? a : b;
        if (order <= 0)
            a = a->next;
        if (order >= 0)
            b = b->next;
        atomic_fetch_add_explicit(&tag->references, 1, memory_order_relaxed);
        merged[count++] = tag;
    }
    return count;
}
