/* SPDX-License-Identifier: MIT */
/*
 * A child that is forked while another thread is inside a registry would find its lock taken for ever, and
 * the table half changed. So who forks takes all locks first; parent and child then drop them.
 */
#include <pthread.h>

#include "registry/registry.h"

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

void weir_registry_fork_join(struct weir_registry *registry)
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

void weir_registry_fork_leave(struct weir_registry *registry)
{
    lock_take(&registries_lock);
    *registry->link = registry->next;
    if (registry->next)
        registry->next->link = registry->link;
    lock_drop(&registries_lock);
}
