/* SPDX-License-Identifier: MIT */
/*
 * The registry: limiters by name. Whoever asks gets a reference, so a limiter that is removed or replaced
 * lives on for those who have it.
 */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "limiter/life.h"
#include "limiter/limiter.h"
#include "registry/registry.h"
#include "spec/read.h"
#include "spec/spec.h"

/* ---- all registries of the process ----
 *
 * A child that is forked while another thread is inside a registry would find its lock taken for ever, and
 * the table half changed. So who forks takes all locks first; parent and child then drop them.
 */

static struct lock registries_lock;
static struct weir_registry *registries;

static void lock_registries(void)
{
    lock_take(&registries_lock);
    for (struct weir_registry *registry = registries; registry; registry = registry->next) {
        lock_take(&registry->lock);
        lock_take(&registry->listeners.lock);
    }
}

static void unlock_registries(void)
{
    for (struct weir_registry *registry = registries; registry; registry = registry->next) {
        lock_drop(&registry->listeners.lock);
        lock_drop(&registry->lock);
    }
    lock_drop(&registries_lock);
}

static void watch_registry_forks(void)
{
    (void)pthread_atfork(lock_registries, unlock_registries, unlock_registries);
}

static void list_registry(struct weir_registry *registry)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch_registry_forks);
    lock_take(&registries_lock);
    registry->next = registries;
    registry->link = &registries;
    if (registries)
        registries->link = &registry->next;
    registries = registry;
    lock_drop(&registries_lock);
}

static void unlist_registry(struct weir_registry *registry)
{
    lock_take(&registries_lock);
    *registry->link = registry->next;
    if (registry->next)
        registry->next->link = registry->link;
    lock_drop(&registries_lock);
}

/* ---- configurations: limits under a name, for limiters that are yet to be made ---- */

#define CONFIGURATION_DEFAULT "default" /* there from the beginning to the end */

struct named_configuration {
    struct name_entry named;
    size_t count;
    struct weir_spec specs[]; /* and the name behind them */
};

static bool check_specs(const struct weir_spec *specs, size_t count, struct weir_error *err)
{
    struct weir_policy *policy = weir_policy_from(specs, count, err);
    weir_policy_free(policy);
    return policy != NULL;
}

static struct named_configuration *configuration_new(const char *name, uint64_t hash,
                                                     const struct weir_spec *specs, size_t count,
                                                     struct weir_error *err)
{
    struct named_configuration *made = malloc(sizeof *made + count * sizeof *specs + strlen(name) + 1);
    if (!made) {
        weir_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    char *own_name = (char *)&made->specs[count];
    memcpy(own_name, name, strlen(name) + 1);
    memcpy(made->specs, specs, count * sizeof *specs);
    made->named = (struct name_entry){.hash = hash, .name = own_name};
    made->count = count;
    return made;
}

/* Gives what is to be freed: the one it replaces, or itself if there is no room. */
static struct name_entry *put_configuration(struct weir_registry *registry, struct named_configuration *made)
{
    lock_take(&registry->lock);
    struct name_table *names = &registry->configurations;
    struct name_entry *old = weir_name_table_find(names, made->named.hash, made->named.name);
    bool fits = old || names->count < registry->most;
    if (old)
        weir_name_table_remove(names, old);
    if (fits)
        weir_name_table_add(names, &made->named);
    lock_drop(&registry->lock);
    return fits ? old : &made->named;
}

/* As weir_registry_configure_from, for "default", too. */
static bool define_configuration(struct weir_registry *registry, const char *name,
                                 const struct weir_spec *specs, size_t count, struct weir_error *err)
{
    uint64_t hash;
    if (!weir_registry_hash(registry, name, &hash, err) || !check_specs(specs, count, err))
        return false;
    struct named_configuration *made = configuration_new(name, hash, specs, count, err);
    if (!made)
        return false;
    struct name_entry *rest = put_configuration(registry, made);
    bool fits = rest != &made->named;
    free(rest);
    if (!fits)
        weir_error_set(err, ENOSPC, "the registry is full of configurations; remove some");
    return fits;
}

bool weir_registry_configure_from(struct weir_registry *registry, const char *name,
                                  const struct weir_spec *specs, size_t count, struct weir_error *err)
{
    if (name && strcmp(name, CONFIGURATION_DEFAULT) == 0) {
        weir_error_set(err, EINVAL,
                       "'default' is the configuration given to weir_registry_new; choose another name");
        return false;
    }
    return define_configuration(registry, name, specs, count, err);
}

bool weir_registry_configure(struct weir_registry *registry, const char *name, const char *limits,
                             struct weir_error *err)
{
    struct weir_spec specs[WEIR_LIMITS_MAX];
    size_t count = weir_spec_parse(limits, specs, WEIR_LIMITS_MAX, err);
    return count > 0 && weir_registry_configure_from(registry, name, specs, count, err);
}

bool weir_registry_unconfigure(struct weir_registry *registry, const char *name)
{
    uint64_t hash;
    if (!weir_registry_hash(registry, name, &hash, NULL) || strcmp(name, CONFIGURATION_DEFAULT) == 0)
        return false;
    lock_take(&registry->lock);
    struct name_entry *named = weir_name_table_find(&registry->configurations, hash, name);
    if (named)
        weir_name_table_remove(&registry->configurations, named);
    lock_drop(&registry->lock);
    free(named);
    return named != NULL;
}

static bool copy_configuration(struct weir_registry *registry, const char *name,
                               struct registry_limits *limits)
{
    uint64_t hash;
    if (!weir_registry_hash(registry, name, &hash, NULL))
        return false;
    lock_take(&registry->lock);
    struct named_configuration *found =
        (struct named_configuration *)weir_name_table_find(&registry->configurations, hash, name);
    if (found) {
        limits->count = found->count;
        memcpy(limits->specs, found->specs, found->count * sizeof found->specs[0]);
    }
    lock_drop(&registry->lock);
    return found != NULL;
}

size_t weir_registry_configuration(struct weir_registry *registry, const char *name, char *text, size_t size)
{
    struct registry_limits limits;
    if (copy_configuration(registry, name ? name : CONFIGURATION_DEFAULT, &limits))
        return weir_spec_format(limits.specs, limits.count, text, size);
    if (text && size > 0)
        text[0] = '\0';
    return 0;
}

/* From the name of a configuration (NULL: the default) or from text. */
static bool resolve_limits(struct weir_registry *registry, const char *config, struct registry_limits *limits,
                           struct weir_error *err)
{
    if (copy_configuration(registry, config ? config : CONFIGURATION_DEFAULT, limits))
        return true;
    struct spec_fault fault;
    int32_t column;
    limits->count = weir_spec_read(config, limits->specs, WEIR_LIMITS_MAX, &column, &fault);
    if (limits->count == 0) {
        char message[sizeof fault.text + 64];
        (void)snprintf(message, sizeof message, "no configuration has this name, and as limits: %s",
                       fault.text);
        weir_error_at(err, EINVAL, config, strlen(config), column, message);
    }
    return limits->count > 0;
}

static void end_configurations(struct weir_registry *registry)
{
    struct name_table *names = &registry->configurations;
    for (struct name_entry *named = weir_name_table_next(names, NULL), *next; named; named = next) {
        next = weir_name_table_next(names, named);
        free(named);
    }
    weir_name_table_end(names);
}

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

static struct registry_entry *entry_alloc(const char *name, uint64_t hash)
{
    struct registry_entry *member = malloc(sizeof *member + strlen(name) + 1);
    if (!member)
        return NULL;
    char *own_name = (char *)(member + 1);
    memcpy(own_name, name, strlen(name) + 1);
    *member = (struct registry_entry){.named = {.hash = hash, .name = own_name}};
    atomic_init(&member->references, 1);
    return member;
}

static void entry_ref(struct registry_entry *member)
{
    atomic_fetch_add_explicit(&member->references, 1, memory_order_relaxed);
}

static void entry_drop(struct registry_entry *member)
{
    if (atomic_fetch_sub_explicit(&member->references, 1, memory_order_acq_rel) > 1)
        return;
    weir_limiter_free(member->limiter);
    weir_tags_end(&member->tags);
    free(member);
}

static struct registry_entry *entry_new(const char *name, uint64_t hash, const struct registry_limits *limits,
                                        struct weir_error *err)
{
    struct weir_limiter *limiter = weir_limiter_from(limits->specs, limits->count, err);
    if (!limiter)
        return NULL;
    struct registry_entry *member = weir_limiter_set_name(limiter, name) ? entry_alloc(name, hash) : NULL;
    if (member) {
        member->limiter = limiter;
    } else {
        weir_limiter_free(limiter);
        weir_error_set(err, ENOMEM, "out of memory");
    }
    return member;
}

struct registry_entry *weir_registry_entry(const struct weir_registry *registry, uint64_t hash,
                                           const char *name)
{
    return (struct registry_entry *)weir_name_table_find(&registry->members, hash, name);
}

static void notify_listeners(struct weir_registry *registry, int32_t kind,
                             const struct registry_entry *member)
{
    if (!listeners_any(&registry->listeners))
        return;
    struct weir_event event = {
        .kind = kind, .time_ns = weir_now(), .name = member->named.name, .limiter = member->limiter};
    weir_listeners_notify(&registry->listeners, &event);
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
    weir_name_table_init(&registry->members);
    weir_name_table_init(&registry->configurations);
    list_registry(registry);
    if (define_configuration(registry, CONFIGURATION_DEFAULT, specs, count, err))
        return registry;
    weir_registry_free(registry);
    return NULL;
}

void weir_registry_free(struct weir_registry *registry)
{
    if (!registry)
        return;
    unlist_registry(registry);
    const struct name_table *members = &registry->members;
    for (struct name_entry *named = weir_name_table_next(members, NULL), *next; named; named = next) {
        next = weir_name_table_next(members, named);
        entry_drop((struct registry_entry *)named);
    }
    weir_name_table_end(&registry->members);
    end_configurations(registry);
    weir_tags_end(&registry->tags);
    weir_listeners_end(&registry->listeners);
    free(registry);
}

/* ---- limiters ---- */

static struct weir_limiter *find_limiter(struct weir_registry *registry, uint64_t hash, const char *name)
{
    lock_take(&registry->lock);
    struct registry_entry *member = weir_registry_entry(registry, hash, name);
    struct weir_limiter *limiter = member ? weir_limiter_ref(member->limiter) : NULL;
    lock_drop(&registry->lock);
    return limiter;
}

struct weir_limiter *weir_registry_find(struct weir_registry *registry, const char *name)
{
    uint64_t hash;
    return weir_registry_hash(registry, name, &hash, NULL) ? find_limiter(registry, hash, name) : NULL;
}

/* Puts a new member in its place, unless another thread was faster. Gives the one that is there then, with a
 * reference for the caller; NULL: there is no room. */
static struct registry_entry *add_entry(struct weir_registry *registry, struct registry_entry *made)
{
    lock_take(&registry->lock);
    struct registry_entry *member = weir_registry_entry(registry, made->named.hash, made->named.name);
    if (!member && registry->members.count < registry->most) {
        weir_name_table_add(&registry->members, &made->named);
        member = made;
    }
    if (member)
        entry_ref(member);
    lock_drop(&registry->lock);
    return member;
}

static struct weir_limiter *add_limiter(struct weir_registry *registry, struct registry_entry *made,
                                        struct weir_error *err)
{
    struct weir_limiter *limiter = NULL;
    struct registry_entry *member = add_entry(registry, made);
    if (member != made)
        entry_drop(made);
    if (member == made)
        notify_listeners(registry, WEIR_EVENT_ADDED, member);
    if (member) {
        limiter = weir_limiter_ref(member->limiter);
        entry_drop(member);
    } else {
        weir_error_set(err, ENOSPC, "the registry is full of limiters; remove some");
    }
    return limiter;
}

struct weir_limiter *weir_registry_limiter(struct weir_registry *registry, const char *name,
                                           const char *config, struct weir_error *err)
{
    uint64_t hash;
    struct registry_limits limits;
    if (!weir_registry_hash(registry, name, &hash, err))
        return NULL;
    struct weir_limiter *limiter = find_limiter(registry, hash, name);
    if (limiter) {
        weir_error_clear(err);
        return limiter;
    }
    if (!resolve_limits(registry, config, &limits, err))
        return NULL;
    struct registry_entry *made = entry_new(name, hash, &limits, err);
    return made ? add_limiter(registry, made, err) : NULL;
}

bool weir_registry_remove(struct weir_registry *registry, const char *name)
{
    uint64_t hash;
    if (!weir_registry_hash(registry, name, &hash, NULL))
        return false;
    lock_take(&registry->lock);
    struct registry_entry *member = weir_registry_entry(registry, hash, name);
    if (member)
        weir_name_table_remove(&registry->members, &member->named);
    lock_drop(&registry->lock);
    if (!member)
        return false;
    notify_listeners(registry, WEIR_EVENT_REMOVED, member);
    entry_drop(member);
    return true;
}

/* Tags belong to the place, not to the limiter. */
static struct registry_entry *replace_entry(struct weir_registry *registry, struct registry_entry *made)
{
    lock_take(&registry->lock);
    struct registry_entry *old = weir_registry_entry(registry, made->named.hash, made->named.name);
    if (old) {
        weir_name_table_remove(&registry->members, &old->named);
        made->tags = old->tags;
        old->tags = (struct tags){0};
        entry_ref(made);
        weir_name_table_add(&registry->members, &made->named);
    }
    lock_drop(&registry->lock);
    return old;
}

bool weir_registry_replace(struct weir_registry *registry, const char *name, const char *config,
                           struct weir_error *err)
{
    uint64_t hash;
    struct registry_limits limits;
    if (!weir_registry_hash(registry, name, &hash, err) || !resolve_limits(registry, config, &limits, err))
        return false;
    struct registry_entry *made = entry_new(name, hash, &limits, err);
    if (!made)
        return false;
    struct registry_entry *old = replace_entry(registry, made);
    if (old) {
        notify_listeners(registry, WEIR_EVENT_REPLACED, made);
        entry_drop(old);
    } else {
        weir_error_at(err, ENOENT, name, strlen(name), 0,
                      "no limiter has this name; weir_registry_limiter makes one");
    }
    entry_drop(made);
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

struct registry_listing {
    struct registry_entry **members;
    size_t room, count;
};

/* Fills it if there is room for all; else says how much is needed. */
static bool copy_entries(struct weir_registry *registry, struct registry_listing *snapshot)
{
    lock_take(&registry->lock);
    const struct name_table *names = &registry->members;
    bool fits = names->count <= snapshot->room;
    snapshot->count = fits ? 0 : names->count;
    for (struct name_entry *named = NULL; fits && (named = weir_name_table_next(names, named));) {
        struct registry_entry *member = (struct registry_entry *)named;
        entry_ref(member);
        snapshot->members[snapshot->count++] = member;
    }
    lock_drop(&registry->lock);
    return fits;
}

/* Takes memory under no lock; meanwhile more may have come, hence the loop and a little more than needed. */
static bool listing_take(struct weir_registry *registry, struct registry_listing *snapshot)
{
    *snapshot = (struct registry_listing){0};
    while (!copy_entries(registry, snapshot)) {
        free(snapshot->members);
        snapshot->room = snapshot->count + snapshot->count / 8;
        snapshot->members = malloc(snapshot->room * sizeof(struct registry_entry *));
        if (!snapshot->members)
            return false;
    }
    return true;
}

static int compare_entry_names(const void *a, const void *b)
{
    const struct registry_entry *const *left = a, *const *right = b;
    return strcmp((*left)->named.name, (*right)->named.name);
}

bool weir_registry_each(struct weir_registry *registry, weir_each_limiter *each, void *arg)
{
    struct registry_listing snapshot;
    if (!registry || !each || !listing_take(registry, &snapshot))
        return false;
    if (snapshot.count > 1)
        qsort(snapshot.members, snapshot.count, sizeof(struct registry_entry *), compare_entry_names);
    bool more = true;
    for (size_t i = 0; i < snapshot.count; i++) {
        struct registry_entry *member = snapshot.members[i];
        more = more && each(arg, member->named.name, member->limiter);
        entry_drop(member);
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
