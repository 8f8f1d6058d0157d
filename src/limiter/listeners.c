/* SPDX-License-Identifier: MIT */
#include "limiter/listeners.h"

#include <stdlib.h>

struct listener_entry {
    _Atomic(weir_listener *) tell; /* NULL: struck out */
    void *arg;
};

struct listener_list {
    atomic_size_t references; /* one of the owner, one of each thread that tells; taken under the lock */
    size_t count;             /* entries, also those that are struck out */
    struct listener_entry entries[];
};

static struct listener_list *current_listener_list(struct listeners *listeners)
{
    return atomic_load_explicit(&listeners->list, memory_order_relaxed);
}

static void set_listener(struct listener_entry *entry, weir_listener *tell, void *arg)
{
    atomic_init(&entry->tell, tell);
    entry->arg = arg;
}

static weir_listener *listener_function(struct listener_entry *entry)
{
    return atomic_load_explicit(&entry->tell, memory_order_relaxed);
}

/* Needs no lock: whoever has a reference may drop it after the owner has gone. */
static void drop_listener_list(struct listener_list *list)
{
    if (list && atomic_fetch_sub_explicit(&list->references, 1, memory_order_acq_rel) == 1)
        free(list);
}

static struct listener_entry *find_listener(struct listener_list *list, weir_listener *tell, void *arg)
{
    for (size_t i = 0; list && tell && i < list->count; i++)
        if (listener_function(&list->entries[i]) == tell && list->entries[i].arg == arg)
            return &list->entries[i];
    return NULL;
}

/* A list of those who still listen, with room for one more. */
static struct listener_list *copy_listener_list(struct listener_list *list)
{
    size_t most = (list ? list->count : 0) + 1;
    struct listener_list *made = malloc(sizeof *made + most * sizeof made->entries[0]);
    if (!made)
        return NULL;
    atomic_init(&made->references, 1);
    made->count = 0;
    for (size_t i = 0; list && i < list->count; i++) {
        weir_listener *tell = listener_function(&list->entries[i]);
        if (tell)
            set_listener(&made->entries[made->count++], tell, list->entries[i].arg);
    }
    return made;
}

static bool is_listener_list_empty(struct listener_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (listener_function(&list->entries[i]))
            return false;
    return true;
}

bool weir_listeners_add(struct listeners *listeners, weir_listener *tell, void *arg)
{
    if (!tell)
        return false;
    lock_take(&listeners->lock);
    struct listener_list *old = current_listener_list(listeners),
                         *made = find_listener(old, tell, arg) ? NULL : copy_listener_list(old);
    if (made) {
        set_listener(&made->entries[made->count++], tell, arg);
        atomic_store_explicit(&listeners->list, made, memory_order_relaxed);
    }
    lock_drop(&listeners->lock);
    if (made)
        drop_listener_list(old);
    return made != NULL;
}

bool weir_listeners_remove(struct listeners *listeners, weir_listener *tell, void *arg)
{
    struct listener_list *ended = NULL;
    lock_take(&listeners->lock);
    struct listener_list *list = current_listener_list(listeners);
    struct listener_entry *entry = find_listener(list, tell, arg);
    if (entry)
        atomic_store_explicit(&entry->tell, NULL, memory_order_relaxed);
    if (entry && is_listener_list_empty(list)) {
        atomic_store_explicit(&listeners->list, NULL, memory_order_relaxed);
        ended = list;
    }
    lock_drop(&listeners->lock);
    drop_listener_list(ended);
    return entry != NULL;
}

void weir_listeners_notify(struct listeners *listeners, const struct weir_event *event)
{
    lock_take(&listeners->lock);
    struct listener_list *list = current_listener_list(listeners);
    if (list)
        atomic_fetch_add_explicit(&list->references, 1, memory_order_relaxed);
    lock_drop(&listeners->lock);

    for (size_t i = 0; list && i < list->count; i++) {
        weir_listener *tell = listener_function(&list->entries[i]);
        if (tell)
            tell(list->entries[i].arg, event);
    }
    drop_listener_list(list);
}

void weir_listeners_end(struct listeners *listeners)
{
    drop_listener_list(current_listener_list(listeners));
    atomic_store_explicit(&listeners->list, NULL, memory_order_relaxed);
}
