/* SPDX-License-Identifier: MIT */
/*
 * Configurations: limits under a name, for limiters that are yet to be made.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "registry/registry.h"
#include "spec/spec.h"

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

bool weir_registry_put_configuration(struct weir_registry *registry, const char *name,
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
    return weir_registry_put_configuration(registry, name, specs, count, err);
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

bool weir_registry_resolve(struct weir_registry *registry, const char *config, struct registry_limits *limits,
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

void weir_registry_end_configurations(struct weir_registry *registry)
{
    struct name_table *names = &registry->configurations;
    for (struct name_entry *named = weir_name_table_next(names, NULL), *next; named; named = next) {
        next = weir_name_table_next(names, named);
        free(named);
    }
    weir_name_table_end(names);
}
