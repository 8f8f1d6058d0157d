/* SPDX-License-Identifier: MIT */
/*
 * All agents of the process. A forked child has none: their threads are the parent's.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "fleet/agent.h"
#include "limiter/limiter.h"

enum { STEPS_AT_ONCE = 256, NAMES_AT_ONCE = 32 }; /* under the lock */

struct lock weir_agents_lock;
static struct agent *all;
static struct ring everybody = {&everybody, &everybody, NULL};
static uint64_t forks; /* how often this process is somebody's child */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- forks ---- */

static void before_fork(void)
{
    lock_take(&weir_agents_lock);
}

static void after_in_parent(void)
{
    lock_drop(&weir_agents_lock);
}

static void after_in_child(void)
{
    all = NULL;
    everybody = (struct ring){&everybody, &everybody, NULL};
    forks++;
    lock_drop(&weir_agents_lock);
}

static void register_handlers(void)
{
    (void)pthread_atfork(before_fork, after_in_parent, after_in_child);
}

/* ---- the list, under the lock ---- */

static struct agent *find_agent(const char *url_text)
{
    for (struct agent *agent = all; agent; agent = agent->next)
        if (strcmp(agent->url_text, url_text) == 0)
            return agent;
    return NULL;
}

/* One more holds the limiter, unless nobody does: then it is about to go. */
static bool hold(struct weir_limiter *limiter)
{
    uint64_t holders = atom_load(&limiter->holders, memory_order_relaxed);
    while (holders > 0)
        if (atom_cas(&limiter->holders, &holders, holders + 1, memory_order_acq_rel))
            return true;
    return false;
}

static struct member *member_of(struct entry *entry)
{
    return (struct member *)(void *)((char *)entry - offsetof(struct member, entry));
}

/* Of a name there may be some who are about to leave, and one that is not. */
static bool can_be_held(struct entry *entry)
{
    const struct member *member = member_of(entry);
    return !member->released && hold(member->limiter);
}

static void ring_in(struct ring *one, struct ring *behind)
{
    one->prev = behind;
    one->next = behind->next;
    one->next->prev = behind->next = one;
}

static void ring_out(struct ring *one)
{
    one->next->prev = one->prev;
    one->prev->next = one->next;
}

/* ---- in and out ---- */

static void enter_locked(struct agent *agent, struct member *member, struct member **found)
{
    struct entry *same = weir_roll_find(&agent->roll, member->name, can_be_held);
    *found = same ? member_of(same) : NULL;
    if (same)
        return;
    member->agent = agent;
    (void)atom_add(&agent->holders, 1, memory_order_relaxed);
    member->entry.text = member->name;
    weir_roll_add(&agent->roll, &member->entry);
    member->ring.member = member;
    ring_in(&member->ring, &everybody);
}

bool weir_agents_enter(struct member *member, const char *url_text, const struct fleet_url *url,
                       const struct coordinator_ops *ops, struct member **found, struct weir_error *err)
{
    struct coordinator_options options = {.answer_ns = member->options.answer_ns,
                                          .connect_ns = member->options.connect_ns,
                                          .session_ns = member->options.session_ns};
    struct agent *spare = NULL;
    (void)pthread_once(&once, register_handlers);
    for (bool entered = false; !entered;) {
        lock_take(&weir_agents_lock);
        struct agent *agent = find_agent(url_text);
        if (!agent && spare) {
            agent = spare;
            agent->next = all;
            all = agent;
            spare = NULL;
        }
        entered = agent != NULL;
        if (entered)
            enter_locked(agent, member, found);
        lock_drop(&weir_agents_lock);
        if (!entered && !(spare = weir_agent_new(url_text, url, ops, &options, err)))
            return false;
    }
    if (spare) /* somebody else was faster */
        weir_agent_end(spare);
    return true;
}

void weir_agents_release(struct member *member)
{
    lock_take(&weir_agents_lock);
    member->released = true;
    lock_drop(&weir_agents_lock);
}

bool weir_agents_leave(struct member *member)
{
    struct agent *agent = member->agent;
    lock_take(&weir_agents_lock);
    weir_roll_remove(&agent->roll, &member->entry);
    ring_out(&member->ring);
    bool last = !agent->roll.root;
    if (last) {
        struct agent **place = &all;
        while (*place != agent)
            place = &(*place)->next;
        *place = agent->next;
    }
    lock_drop(&weir_agents_lock);
    return last;
}

/* ---- walking along all of them ---- */

typedef char name_text[FLEET_NAME_MAX + 1];

/* Some steps further, under the lock: the names of those whom it passes and who are such. */
static size_t walk_on(struct ring *walker, bool (*is_one)(const struct member *member), name_text *texts)
{
    size_t count = 0;
    for (int i = 0; i < STEPS_AT_ONCE && count < NAMES_AT_ONCE && walker->next != &everybody; i++) {
        struct ring *passed = walker->next;
        ring_out(walker);
        ring_in(walker, passed);
        if (passed->member && is_one(passed->member))
            memcpy(texts[count++], passed->member->name, sizeof texts[0]);
    }
    return count;
}

/* New ones come in behind it, so it comes to an end. A child that is forked in `each` is done. */
size_t weir_agents_names(bool (*is_one)(const struct member *member),
                         void (*each)(void *arg, const char *name), void *arg)
{
    struct ring walker = {0};
    name_text texts[NAMES_AT_ONCE];
    size_t told = 0;
    bool more;
    lock_take(&weir_agents_lock);
    uint64_t born = forks;
    ring_in(&walker, &everybody);
    do {
        size_t count = walk_on(&walker, is_one, texts);
        more = walker.next != &everybody;
        if (!more)
            ring_out(&walker);
        lock_drop(&weir_agents_lock);
        told += count;
        for (size_t i = 0; each && i < count; i++)
            each(arg, texts[i]);
        lock_take(&weir_agents_lock);
    } while (more && born == forks);
    lock_drop(&weir_agents_lock);
    return told;
}
