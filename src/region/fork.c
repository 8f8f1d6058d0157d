/* SPDX-License-Identifier: MIT */
/*
 * fork(2) copies private regions, but only the thread that called it. Nothing is half done while it copies:
 * all locks are taken before. The parent drops them; the child, which is another owner in the eyes of the
 * kernel, makes those of its copies anew. A region in a file stays shared, its locks with it: in the child
 * they belong to threads of the parent, as they should. Only the locks around mapping and around what a table
 * has made ready are the process's own. A store keeps the parent's regions; copies of them are kept by
 * nobody.
 *
 * The list is kept in the order of ids, in which several regions are locked.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "region/layout.h"
#include "region/stripe.h"

static struct lock regions_lock;
static struct region *regions;

static void take_regions(void)
{
    lock_take(&regions_lock);
    for (struct region *region = regions; region; region = region->next)
        if (region->file < 0)
            weir_stripes_lock_all(region);
    for (struct region *region = regions; region; region = region->next) {
        lock_take(&region->ready); /* after: who has a stripe may read new limits, or map a segment */
        lock_take(&region->lock);
    }
}

static void drop_regions(void)
{
    for (struct region *region = regions; region; region = region->next) {
        lock_drop(&region->lock);
        lock_drop(&region->ready);
    }
    lock_drop(&regions_lock);
}

static void resume_in_parent(void)
{
    for (struct region *region = regions; region; region = region->next)
        if (region->file < 0)
            weir_stripes_unlock_all(region);
    drop_regions();
}

static void renew_regions_in_child(void)
{
    struct region *first = regions;
    drop_regions();
    for (struct region *region = first; region; region = region->next)
        if (region->file < 0) {
            weir_stripes_renew(region);
            region->persist = NULL;
        }
}

static void watch_for_forks(void)
{
    (void)pthread_atfork(take_regions, resume_in_parent, renew_regions_in_child);
}

void weir_regions_join(struct region *region)
{
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    (void)pthread_once(&watched, watch_for_forks);
    lock_take(&regions_lock);
    struct region **place = &regions, *previous = NULL;
    for (; *place && (*place)->id < region->id; place = &(*place)->next)
        previous = *place;
    region->next = *place;
    region->previous = previous;
    if (region->next)
        region->next->previous = region;
    *place = region;
    lock_drop(&regions_lock);
}

void weir_regions_leave(struct region *region)
{
    lock_take(&regions_lock);
    *(region->previous ? &region->previous->next : &regions) = region->next;
    if (region->next)
        region->next->previous = region->previous;
    lock_drop(&regions_lock);
}
