/* SPDX-License-Identifier: MIT */
/*
 * Tags of the registry and of its limiters. The texts of a tag never change, and it is counted by reference,
 * so that it can be shown under no lock; the lists have the lock of the registry, under which no memory is
 * taken or freed.
 */
#include "registry/tags.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "registry/registry.h"

struct tag {
    struct tag *next;
    atomic_size_t references;
    const char *key, *value;
};

/* Copies both; NULL: out of memory. */
static struct tag *tag_new(const char *key, const char *value)
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

static void tag_drop(struct tag *tag)
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

/* Puts it in the place of the one with the same key, which goes to *old, else NULL does. Takes the reference
 * over. false: it would be more than `most`, and nothing has changed. */
static bool tags_put(struct tags *tags, struct tag *tag, size_t most, struct tag **old)
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

static struct tag *tags_find(const struct tags *tags, const char *key)
{
    struct tag *tag = tags->first;
    while (tag && strcmp(tag->key, key) != 0)
        tag = tag->next;
    return tag;
}

static struct tag *tags_take(struct tags *tags, const char *key)
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
        tag_drop(tag);
    }
    *tags = (struct tags){0};
}

/* Both lists as one, in order; of two with the same key the one of `own` counts. Gives how many, each with a
 * reference of the caller's. `merged` has room for all. */
static size_t tags_merge(const struct tags *own, const struct tags *inherited, struct tag **merged)
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

_Static_assert(WEIR_TAG_MAX == 255 && WEIR_TAGS_MAX == 32, "the messages below say so");

/* Whose tags are meant: those of a limiter, or of the registry. */
struct tag_owner {
    struct weir_registry *registry;
    const char *name; /* NULL: the registry */
    uint64_t hash;
};

static bool owner_init(struct tag_owner *owner, struct weir_registry *registry, const char *name,
                       struct weir_error *err)
{
    *owner = (struct tag_owner){.registry = registry, .name = name};
    bool is_registry = registry && !name;
    return is_registry || weir_registry_hash(registry, name, &owner->hash, err);
}

/* Under the lock; NULL: there is no such limiter. */
static struct tags *tags_of(const struct tag_owner *owner)
{
    if (!owner->name)
        return &owner->registry->tags;
    struct registry_entry *member = weir_registry_entry(owner->registry, owner->hash, owner->name);
    return member ? &member->tags : NULL;
}

static bool check_tag(const char *key, const char *value, struct weir_error *err)
{
    if (weir_registry_length(key, WEIR_TAG_MAX) > 0 && weir_registry_length(value, WEIR_TAG_MAX) > 0)
        return true;
    weir_error_set(err, EINVAL,
                   "key and value of a tag have 1 to 255 bytes; weir_registry_untag removes one");
    return false;
}

static bool put_owner_tag(const struct tag_owner *owner, struct tag *tag, struct weir_error *err)
{
    struct tag *old = NULL;
    lock_take(&owner->registry->lock);
    struct tags *tags = tags_of(owner);
    bool done = tags && tags_put(tags, tag, WEIR_TAGS_MAX, &old);
    lock_drop(&owner->registry->lock);
    tag_drop(done ? old : tag);
    if (done)
        weir_error_clear(err);
    else if (tags)
        weir_error_set(err, ENOSPC, "there are 32 tags already; remove one with weir_registry_untag");
    else
        weir_error_at(err, ENOENT, owner->name, strlen(owner->name), 0,
                      "no limiter has this name; weir_registry_limiter makes one");
    return done;
}

bool weir_registry_tag(struct weir_registry *registry, const char *name, const char *key, const char *value,
                       struct weir_error *err)
{
    struct tag_owner owner;
    if (!owner_init(&owner, registry, name, err) || !check_tag(key, value, err))
        return false;
    struct tag *tag = tag_new(key, value);
    if (!tag) {
        weir_error_set(err, ENOMEM, "out of memory");
        return false;
    }
    return put_owner_tag(&owner, tag, err);
}

bool weir_registry_untag(struct weir_registry *registry, const char *name, const char *key)
{
    struct tag_owner owner;
    if (!key || !owner_init(&owner, registry, name, NULL))
        return false;
    lock_take(&registry->lock);
    struct tags *tags = tags_of(&owner);
    struct tag *tag = tags ? tags_take(tags, key) : NULL;
    lock_drop(&registry->lock);
    bool there = tag != NULL;
    tag_drop(tag);
    return there;
}

/* Under the lock: the tag that counts, or NULL. */
static struct tag *find_owner(const struct tag_owner *owner, const char *key)
{
    struct tags *own = tags_of(owner);
    struct tag *tag = own ? tags_find(own, key) : NULL;
    return own && !tag ? tags_find(&owner->registry->tags, key) : tag;
}

size_t weir_registry_tag_value(struct weir_registry *registry, const char *name, const char *key, char *value,
                               size_t size)
{
    struct tag_owner owner;
    struct text text;
    weir_text_init(&text, value, size);
    if (!key || !owner_init(&owner, registry, name, NULL))
        return 0;
    lock_take(&registry->lock);
    struct tag *tag = find_owner(&owner, key);
    if (tag)
        weir_text_put(&text, tag->value, strlen(tag->value));
    lock_drop(&registry->lock);
    return text.len;
}

/* Gives how many; 0 also if there is no such limiter. */
static size_t collect_tags(const struct tag_owner *owner, struct tag **tags, bool *found)
{
    static const struct tags none;
    lock_take(&owner->registry->lock);
    struct tags *own = tags_of(owner);
    const struct tags *inherited = owner->name ? &owner->registry->tags : &none;
    size_t count = own ? tags_merge(own, inherited, tags) : 0;
    *found = own != NULL;
    lock_drop(&owner->registry->lock);
    return count;
}

bool weir_registry_tags(struct weir_registry *registry, const char *name, weir_each_tag *each, void *arg)
{
    struct tag_owner owner;
    struct tag *tags[2 * WEIR_TAGS_MAX];
    bool more;
    if (!each || !owner_init(&owner, registry, name, NULL))
        return false;
    size_t count = collect_tags(&owner, tags, &more);
    for (size_t i = 0; i < count; i++) {
        more = more && each(arg, tags[i]->key, tags[i]->value);
        tag_drop(tags[i]);
    }
    return more;
}
