/* SPDX-License-Identifier: MIT */
/*
 * The registry: limiters by name. Whoever asks gets a reference, so a limiter that is removed or replaced
 * lives on for those who have it.
 */
#include "registry/registry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "limiter/limiter.h"

_Static_assert(WEIR_REGISTRY_NAME_MAX == 255, "the message below says so");

/* ---- names ---- */

size_t weir_registry_length(const char *text, size_t most)
{
    size_t len = 0;
    while (text && len <= most && text[len])
        len++;
    return len <= most ? len : 0;
}

bool weir_registry_hash(const struct weir_registry *registry, const char *name, uint64_t *hash,
                        struct weir_error *err)
{
    size_t len = weir_registry_length(name, WEIR_REGISTRY_NAME_MAX);
    if (!registry)
        weir_error_set(err, EINVAL, "there is no registry; weir_registry_new makes one");
    else if (len == 0)
        weir_error_set(err, EINVAL, "a name has 1 to 255 bytes");
    else
        *hash = weir_hash(&registry->key, name, len);
    return registry && len > 0;
}

/* ---- members ---- */

static struct member *member_alloc(const char *name, uint64_t hash)
{
    struct member *member = malloc(sizeof *member + strlen(name) + 1);
    if (!member)
        return NULL;
    char *own_name = (char *)(member + 1);
    memcpy(own_name, name, strlen(name) + 1);
    *member = (struct member){.named = {.hash = hash, .name = own_name}};
    atomic_init(&member->references, 1);
    return member;
}

static void member_ref(struct member *member)
{
    atomic_fetch_add_explicit(&member->references, 1, memory_order_relaxed);
}

static void member_drop(struct member *member)
{
    if (atomic_fetch_sub_explicit(&member->references, 1, memory_order_acq_rel) > 1)
        return;
    weir_limiter_free(member->limiter);
    weir_tags_end(&member->tags);
    free(member);
}

static struct member *member_new(const char *name, uint64_t hash, const struct limits *limits,
                                 struct weir_error *err)
{
    struct weir_limiter *limiter = weir_limiter_from(limits->specs, limits->count, err);
    if (!limiter)
        return NULL;
    struct member *member = weir_limiter_set_name(limiter, name) ? member_alloc(name, hash) : NULL;
    if (member) {
        member->limiter = limiter;
    } else {
        weir_limiter_free(limiter);
        weir_error_set(err, ENOMEM, "out of memory");
    }
    return member;
}

struct member *weir_registry_member(const struct weir_registry *registry, uint64_t hash, const char *name)
{
    return (struct member *)weir_names_find(&registry->members, hash, name);
}

static void tell(struct weir_registry *registry, int32_t kind, const struct member *member)
{
    if (!listeners_any(&registry->listeners))
        return;
    struct weir_event event = {
        .kind = kind, .time_ns = weir_now(), .name = member->named.name, .limiter = member->limiter};
    weir_listeners_tell(&registry->listeners, &event);
}

/* ---- new, free ---- */

struct weir_registry *weir_registry_new(const char *default_limits, struct weir_error *err)
{
    struct weir_spec specs[WEIR_LIMITS_MAX];
    size_t count = weir_spec_parse(default_limits, specs, WEIR_LIMITS_MAX, err);
    if (count == 0)
        return NULL;
    struct weir_registry *registry = calloc(1, sizeof *registry);
    if (!registry) {
        weir_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    registry->key = weir_hash_key();
    registry->most = WEIR_REGISTRY_MAX;
    weir_names_init(&registry->members);
    weir_names_init(&registry->configurations);
    weir_registry_fork_join(registry);
    if (weir_registry_put_configuration(registry, CONFIGURATION_DEFAULT, specs, count, err))
        return registry;
    weir_registry_free(registry);
    return NULL;
}

void weir_registry_free(struct weir_registry *registry)
{
    if (!registry)
        return;
    weir_registry_fork_leave(registry);
    const struct names *members = &registry->members;
    for (struct named *named = weir_names_next(members, NULL), *next; named; named = next) {
        next = weir_names_next(members, named);
        member_drop((struct member *)named);
    }
    weir_names_end(&registry->members);
    weir_registry_end_configurations(registry);
    weir_tags_end(&registry->tags);
    weir_listeners_end(&registry->listeners);
    free(registry);
}

/* ---- limiters ---- */

static struct weir_limiter *find(struct weir_registry *registry, uint64_t hash, const char *name)
{
    lock_take(&registry->lock);
    struct member *member = weir_registry_member(registry, hash, name);
    struct weir_limiter *limiter = member ? weir_limiter_ref(member->limiter) : NULL;
    lock_drop(&registry->lock);
    return limiter;
}

struct weir_limiter *weir_registry_find(struct weir_registry *registry, const char *name)
{
    uint64_t hash;
    return weir_registry_hash(registry, name, &hash, NULL) ? find(registry, hash, name) : NULL;
}

/* Puts a new member in its place, unless another thread was faster. Gives the one that is there then, with a
 * reference for the caller; NULL: there is no room. */
static struct member *join(struct weir_registry *registry, struct member *made)
{
    lock_take(&registry->lock);
    struct member *member = weir_registry_member(registry, made->named.hash, made->named.name);
    if (!member && registry->members.count < registry->most) {
        weir_names_add(&registry->members, &made->named);
        member = made;
    }
    if (member)
        member_ref(member);
    lock_drop(&registry->lock);
    return member;
}

static struct weir_limiter *add(struct weir_registry *registry, struct member *made, struct weir_error *err)
{
    struct weir_limiter *limiter = NULL;
    struct member *member = join(registry, made);
    if (member != made)
        member_drop(made);
    if (member == made)
        tell(registry, WEIR_EVENT_ADDED, member);
    if (member) {
        limiter = weir_limiter_ref(member->limiter);
        member_drop(member);
    } else {
        weir_error_set(err, ENOSPC, "the registry is full of limiters; remove some");
    }
    return limiter;
}

struct weir_limiter *weir_registry_limiter(struct weir_registry *registry, const char *name,
                                           const char *config, struct weir_error *err)
{
    uint64_t hash;
    struct limits limits;
    if (!weir_registry_hash(registry, name, &hash, err))
        return NULL;
    struct weir_limiter *limiter = find(registry, hash, name);
    if (limiter) {
        weir_error_clear(err);
        return limiter;
    }
    if (!weir_registry_resolve(registry, config, &limits, err))
        return NULL;
    struct member *made = member_new(name, hash, &limits, err);
    return made ? add(registry, made, err) : NULL;
}

bool weir_registry_remove(struct weir_registry *registry, const char *name)
{
    uint64_t hash;
    if (!weir_registry_hash(registry, name, &hash, NULL))
        return false;
    lock_take(&registry->lock);
    struct member *member = weir_registry_member(registry, hash, name);
    if (member)
        weir_names_remove(&registry->members, &member->named);
    lock_drop(&registry->lock);
    if (!member)
        return false;
    tell(registry, WEIR_EVENT_REMOVED, member);
    member_drop(member);
    return true;
}

/* Tags belong to the place, not to the limiter. */
static struct member *swap(struct weir_registry *registry, struct member *made)
{
    lock_take(&registry->lock);
    struct member *old = weir_registry_member(registry, made->named.hash, made->named.name);
    if (old) {
        weir_names_remove(&registry->members, &old->named);
        made->tags = old->tags;
        old->tags = (struct tags){0};
        member_ref(made);
        weir_names_add(&registry->members, &made->named);
    }
    lock_drop(&registry->lock);
    return old;
}

bool weir_registry_replace(struct weir_registry *registry, const char *name, const char *config,
                           struct weir_error *err)
{
    uint64_t hash;
    struct limits limits;
    if (!weir_registry_hash(registry, name, &hash, err) ||
        !weir_registry_resolve(registry, config, &limits, err))
        return false;
    struct member *made = member_new(name, hash, &limits, err);
    if (!made)
        return false;
    struct member *old = swap(registry, made);
    if (old) {
        tell(registry, WEIR_EVENT_REPLACED, made);
        member_drop(old);
    } else {
        weir_error_at(err, ENOENT, name, strlen(name), 0,
                      "no limiter has this name; weir_registry_limiter makes one");
    }
    member_drop(made);
    return old != NULL;
}

/* ---- all of them ---- */

size_t weir_registry_count(struct weir_registry *registry)
{
    if (!registry)
        return 0;
    lock_take(&registry->lock);
    size_t count = registry->members.count;
    lock_drop(&registry->lock);
    return count;
}

struct snapshot {
    struct member **members;
    size_t room, count;
};

/* Fills it if there is room for all; else says how much is needed. */
static bool copy(struct weir_registry *registry, struct snapshot *snapshot)
{
    lock_take(&registry->lock);
    const struct names *names = &registry->members;
    bool fits = names->count <= snapshot->room;
    snapshot->count = fits ? 0 : names->count;
    for (struct named *named = NULL; fits && (named = weir_names_next(names, named));) {
        struct member *member = (struct member *)named;
        member_ref(member);
        snapshot->members[snapshot->count++] = member;
    }
    lock_drop(&registry->lock);
    return fits;
}

/* Takes memory under no lock; meanwhile more may have come, hence the loop and a little more than needed. */
static bool snapshot_take(struct weir_registry *registry, struct snapshot *snapshot)
{
    *snapshot = (struct snapshot){0};
    while (!copy(registry, snapshot)) {
        free(snapshot->members);
        snapshot->room = snapshot->count + snapshot->count / 8;
        snapshot->members = malloc(snapshot->room * sizeof(struct member *));
        if (!snapshot->members)
            return false;
    }
    return true;
}

static int by_name(const void *a, const void *b)
{
    const struct member *const *left = a, *const *right = b;
    return strcmp((*left)->named.name, (*right)->named.name);
}

bool weir_registry_each(struct weir_registry *registry, weir_each_limiter *each, void *arg)
{
    struct snapshot snapshot;
    if (!registry || !each || !snapshot_take(registry, &snapshot))
        return false;
    if (snapshot.count > 1)
        qsort(snapshot.members, snapshot.count, sizeof(struct member *), by_name);
    bool more = true;
    for (size_t i = 0; i < snapshot.count; i++) {
        struct member *member = snapshot.members[i];
        more = more && each(arg, member->named.name, member->limiter);
        member_drop(member);
    }
    free(snapshot.members);
    return more;
}

/* ---- events ---- */

bool weir_registry_listen(struct weir_registry *registry, weir_listener *listener, void *arg)
{
    return registry && weir_listeners_add(&registry->listeners, listener, arg);
}

bool weir_registry_unlisten(struct weir_registry *registry, weir_listener *listener, void *arg)
{
    return registry && weir_listeners_remove(&registry->listeners, listener, arg);
}
