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
static struct fleet_agent *all;
static struct member_link everybody = {&everybody, &everybody, NULL};
static uint64_t forks; /* how often this process is somebody's child */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- forks ---- */

static void agents_before_fork(void)
{
    lock_take(&weir_agents_lock);
}

static void agents_after_fork_in_parent(void)
{
    lock_drop(&weir_agents_lock);
}

static void agents_after_fork_in_child(void)
{
    all = NULL;
    everybody = (struct member_link){&everybody, &everybody, NULL};
    forks++;
    lock_drop(&weir_agents_lock);
}

static void register_agents_fork_handlers(void)
{
    (void)pthread_atfork(agents_before_fork, agents_after_fork_in_parent, agents_after_fork_in_child);
}

/* ---- the list, under the lock ---- */

static struct fleet_agent *find_agent(const char *url_text)
{
    for (struct fleet_agent *agent = all; agent; agent = agent->next)
        if (strcmp(agent->url_text, url_text) == 0)
            return agent;
    return NULL;
}

/* One more holds the limiter, unless nobody does: then it is about to go. */
static bool hold_limiter(struct weir_limiter *limiter)
{
    uint64_t holders = atom_load(&limiter->holders, memory_order_relaxed);
    while (holders > 0)
        if (atom_cas(&limiter->holders, &holders, holders + 1, memory_order_acq_rel))
            return true;
    return false;
}

static struct fleet_member *member_of_entry(struct name_node *entry)
{
    return (struct fleet_member *)(void *)((char *)entry - offsetof(struct fleet_member, entry));
}

/* Of a name there may be some who are about to leave, and one that is not. */
static bool can_hold_member(struct name_node *entry)
{
    const struct fleet_member *member = member_of_entry(entry);
    return !member->released && hold_limiter(member->limiter);
}

static void link_member(struct member_link *one, struct member_link *behind)
{
    one->prev = behind;
    one->next = behind->next;
    one->next->prev = behind->next = one;
}

static void unlink_member(struct member_link *one)
{
    one->next->prev = one->prev;
    one->prev->next = one->next;
}

/* ---- in and out ---- */

static void enter_agent_locked(struct fleet_agent *agent, struct fleet_member *member,
                               struct fleet_member **found)
{
    struct name_node *same = weir_name_trie_find(&agent->trie, member->name, can_hold_member);
    *found = same ? member_of_entry(same) : NULL;
    if (same)
        return;
    member->agent = agent;
    (void)atom_add(&agent->holders, 1, memory_order_relaxed);
    member->entry.text = member->name;
    weir_name_trie_add(&agent->trie, &member->entry);
    member->ring.member = member;
    link_member(&member->ring, &everybody);
}

bool weir_agents_enter(struct fleet_member *member, const char *url_text, const struct fleet_url *url,
                       const struct coordinator_ops *ops, struct fleet_member **found, struct weir_error *err)
{
    struct coordinator_options options = {.answer_ns = member->options.answer_ns,
                                          .connect_ns = member->options.connect_ns,
                                          .session_ns = member->options.session_ns};
    struct fleet_agent *spare = NULL;
    (void)pthread_once(&once, register_agents_fork_handlers);
    for (bool entered = false; !entered;) {
        lock_take(&weir_agents_lock);
        struct fleet_agent *agent = find_agent(url_text);
        if (!agent && spare) {
            agent = spare;
            agent->next = all;
            all = agent;
            spare = NULL;
        }
        entered = agent != NULL;
        if (entered)
            enter_agent_locked(agent, member, found);
        lock_drop(&weir_agents_lock);
        if (!entered && !(spare = weir_agent_new(url_text, url, ops, &options, err)))
            return false;
    }
    if (spare) /* somebody else was faster */
        weir_agent_end(spare);
    return true;
}

void weir_agents_release(struct fleet_member *member)
{
    lock_take(&weir_agents_lock);
    member->released = true;
    lock_drop(&weir_agents_lock);
}

bool weir_agents_leave(struct fleet_member *member)
{
    struct fleet_agent *agent = member->agent;
    lock_take(&weir_agents_lock);
    weir_name_trie_remove(&agent->trie, &member->entry);
    unlink_member(&member->ring);
    bool last = !agent->trie.root;
    if (last) {
        struct fleet_agent **place = &all;
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
static size_t walk_members(struct member_link *walker, bool (*is_one)(const struct fleet_member *member),
                           name_text *texts)
{
    size_t count = 0;
    for (int i = 0; i < STEPS_AT_ONCE && count < NAMES_AT_ONCE && walker->next != &everybody; i++) {
        struct member_link *passed = walker->next;
        unlink_member(walker);
        link_member(walker, passed);
        if (passed->member && is_one(passed->member))
            memcpy(texts[count++], passed->member->name, sizeof texts[0]);
    }
    return count;
}

/* New ones come in behind it, so it comes to an end. A child that is forked in `each` is done. */
size_t weir_agents_names(bool (*is_one)(const struct fleet_member *member),
                         void (*each)(void *arg, const char *name), void *arg)
{
    struct member_link walker = {0};
    name_text texts[NAMES_AT_ONCE];
    size_t told = 0;
    bool more;
    lock_take(&weir_agents_lock);
    uint64_t born = forks;
    link_member(&walker, &everybody);
    do {
        size_t count = walk_members(&walker, is_one, texts);
        more = walker.next != &everybody;
        if (!more)
            unlink_member(&walker);
        lock_drop(&weir_agents_lock);
        told += count;
        for (size_t i = 0; each && i < count; i++)
            each(arg, texts[i]);
        lock_take(&weir_agents_lock);
    } while (more && born == forks);
    lock_drop(&weir_agents_lock);
    return told;
}
