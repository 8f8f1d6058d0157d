/* SPDX-License-Identifier: MIT */
/*
 * The thread of an agent: reads what came, wakes whose time has come, sleeps. To open a coordinator may take
 * long, so that is done by a thread of its own, which ends with the attempt.
 */
#define _POSIX_C_SOURCE 200809L
#include "fleet/agent.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/sat.h"
#include "base/secret.h"
#include "fleet/member_steps.h"
#include "limiter/limiter.h"
#include "os/thread.h"
#include "os/wait.h"

/*
 * What others leave for an agent's thread, without waiting for it and without memory: each member has room
 * for what can be on the way to it.
 */

/* The thread looks around. */
static void agent_wake(struct fleet_agent *agent)
{
    (void)atomic_fetch_add_explicit(&agent->wakeup, 1, memory_order_release);
    weir_wait_wake(&agent->wakeup);
}

/* Under agent->lock. */
static void enlist_member(struct fleet_member *member)
{
    struct fleet_agent *agent = member->agent;
    if (member->mail.listed || member->mail.closed)
        return;
    member->mail.listed = true;
    member->mail.next = NULL;
    member->mail.at = agent->inbox_end;
    *agent->inbox_end = member;
    agent->inbox_end = &member->mail.next;
}

static void delist_member(struct fleet_member *member)
{
    struct fleet_member *next = member->mail.next, **at = member->mail.at;
    *at = next;
    if (next)
        next->mail.at = at;
    else
        member->agent->inbox_end = at;
}

void weir_inbox_post(struct fleet_member *member, enum inbox_note note, int64_t n)
{
    struct fleet_agent *agent = member->agent;
    lock_take(&agent->lock);
    switch (note) {
    case INBOX_MISSED:
        member->mail.missed_n = max64(member->mail.missed_n, n);
        __attribute__((fallthrough));
    case INBOX_WANT:
        member->mail.want = true;
        member->mail.want_n = max64(member->mail.want_n, n);
        break;
    case INBOX_LEAVE:
        member->mail.leave = true;
        break;
    case INBOX_HURRY:
        member->mail.hurry = true;
        break;
    case INBOX_AWAY:
        member->mail.away = true;
        break;
    case INBOX_JOIN:
        agent->try_now = true;
        break;
    }
    enlist_member(member);
    lock_drop(&agent->lock);
    agent_wake(agent);
}

/* The next member that has mail, which is moved to *mail (replies in order); NULL: none. */
static struct fleet_member *inbox_next(struct fleet_agent *agent, struct mail *mail)
{
    lock_take(&agent->lock);
    struct fleet_member *member = agent->inbox;
    if (member) {
        delist_member(member);
        *mail = member->mail;
        member->mail.listed = member->mail.want = member->mail.more = member->mail.noticed = false;
        member->mail.leave = member->mail.hurry = member->mail.away = false;
        member->mail.want_n = member->mail.missed_n = 0;
        member->mail.reply_count = 0;
    }
    lock_drop(&agent->lock);
    return member;
}

/* The member gets nothing any more. */
static void inbox_close(struct fleet_member *member)
{
    struct fleet_agent *agent = member->agent;
    lock_take(&agent->lock);
    member->mail.closed = true;
    if (member->mail.listed)
        delist_member(member);
    member->mail.listed = false;
    lock_drop(&agent->lock);
}

void weir_inbox_publish(struct fleet_agent *agent)
{
    (void)atomic_fetch_add_explicit(&agent->news, 1, memory_order_release);
    weir_wait_wake(&agent->news);
}

/* ---- the sink: called by threads of coordinators ---- */

/* Under agent->lock, which is dropped. */
static void deliver_mail(struct fleet_member *member)
{
    enlist_member(member);
    lock_drop(&member->agent->lock);
    agent_wake(member->agent);
}

/* More replies than orders can be on the way are no replies. */
static void inbox_replied(void *owner, const struct lease_reply *reply)
{
    struct fleet_member *member = owner;
    lock_take(&member->agent->lock);
    if (member->mail.reply_count < MEMBER_REPLIES)
        member->mail.replies[member->mail.reply_count++] = *reply;
    deliver_mail(member);
}

static void inbox_noticed(void *owner, const struct lease_reply *seen)
{
    struct fleet_member *member = owner;
    lock_take(&member->agent->lock);
    if (!member->mail.noticed || seen->epoch >= member->mail.seen.epoch)
        member->mail.seen = *seen;
    member->mail.noticed = true;
    deliver_mail(member);
}

static void inbox_more(void *owner)
{
    struct fleet_member *member = owner;
    lock_take(&member->agent->lock);
    member->mail.more = true;
    deliver_mail(member);
}

static void inbox_troubled(void *owner, const char *why)
{
    struct fleet_member *member = owner;
    lock_take(&member->agent->lock);
    (void)snprintf(member->trouble, sizeof member->trouble, "%s", why ? why : "");
    lock_drop(&member->agent->lock);
}

static void inbox_connection_changed(void *owner, bool up, const char *why)
{
    struct fleet_agent *agent = owner;
    lock_take(&agent->lock);
    agent->told_once = true;
    agent->up = up;
    agent->down = agent->down || !up;
    (void)snprintf(agent->why, sizeof agent->why, "%s",
                   up            ? ""
                   : why && *why ? why
                                 : "the connection is lost");
    lock_drop(&agent->lock);
    agent_wake(agent);
}

const struct sink weir_inbox_sink = {.replied = inbox_replied,
                                     .noticed = inbox_noticed,
                                     .more = inbox_more,
                                     .moved = inbox_connection_changed,
                                     .troubled = inbox_troubled};

#define MAIL_AT_ONCE   64
#define BACKOFF_MIN_NS (100 * WEIR_MS)
#define BACKOFF_MAX_NS (10 * WEIR_SEC)

/* ---- opening ---- */

static void *open_agent_coordinator(void *arg)
{
    struct fleet_agent *agent = arg;
    struct sink sink = weir_inbox_sink;
    struct weir_error err = {0};
    sink.agent = agent;
    struct coordinator *found = agent->ops->open(&agent->url, &agent->options, &sink, &err);
    lock_take(&agent->lock);
    agent->found = found;
    agent->error = err;
    agent->opened = true;
    lock_drop(&agent->lock);
    agent_wake(agent);
    return NULL;
}

static void note_open_failure(struct fleet_agent *agent, const char *why)
{
    agent->open_at_ns = sat_add(
        weir_now(), random_backoff(&agent->random, &agent->backoff_ns, BACKOFF_MIN_NS, BACKOFF_MAX_NS));
    lock_take(&agent->lock);
    (void)snprintf(agent->why, sizeof agent->why, "%s", why);
    lock_drop(&agent->lock);
    (void)atom_add(&agent->failures, 1, memory_order_release);
    weir_inbox_publish(agent);
}

static void start_opening(struct fleet_agent *agent)
{
    lock_take(&agent->lock);
    agent->try_now = agent->opened = agent->told_once = agent->up = agent->down = false;
    lock_drop(&agent->lock);
    agent->has_opener = weir_thread_start(&agent->opener, open_agent_coordinator, agent);
    if (agent->has_opener)
        return;
    lock_take(&agent->lock);
    weir_error_set(&agent->error, EAGAIN, "the system has no thread left for a coordinator");
    lock_drop(&agent->lock);
    note_open_failure(agent, "the system has no thread left for a coordinator");
}

static void finish_opening(struct fleet_agent *agent)
{
    (void)pthread_join(agent->opener, NULL);
    agent->has_opener = false;
    lock_take(&agent->lock);
    agent->coordinator = agent->found;
    if (agent->found && !agent->told_once)
        agent->up = true;
    lock_drop(&agent->lock);
    if (!agent->coordinator) {
        note_open_failure(agent, agent->error.text);
        return;
    }
    agent->backoff_ns = 0;
    for (struct fleet_member *member = agent->mine; member; member = member->next_mine)
        weir_member_enter(member);
}

/* Gives when to look again. */
static int64_t check_opening(struct fleet_agent *agent)
{
    if (agent->coordinator)
        return WEIR_FOREVER;
    lock_take(&agent->lock);
    bool opened = agent->opened, now = agent->try_now;
    lock_drop(&agent->lock);
    if (agent->has_opener && opened)
        finish_opening(agent);
    else if (!agent->has_opener && agent->mine && (now || weir_now() >= agent->open_at_ns))
        start_opening(agent);
    return agent->coordinator || agent->has_opener || !agent->mine ? WEIR_FOREVER : agent->open_at_ns;
}

/* ---- members ---- */

static void check_connection(struct fleet_agent *agent)
{
    if (!agent->coordinator)
        return;
    lock_take(&agent->lock);
    bool up = agent->up, down = agent->down;
    agent->down = false;
    lock_drop(&agent->lock);
    if (agent->seen_up == up && !down)
        return;
    agent->seen_up = up;
    for (struct fleet_member *member = agent->mine; member; member = member->next_mine)
        if (member->up != up || down)
            weir_member_connection(member, up, down);
}

static void adopt_member(struct fleet_agent *agent, struct fleet_member *member)
{
    if (member->mine)
        return;
    member->mine = true;
    member->next_mine = agent->mine;
    member->at_mine = &agent->mine;
    if (agent->mine)
        agent->mine->at_mine = &member->next_mine;
    agent->mine = member;
    if (agent->coordinator)
        weir_member_enter(member);
    if (agent->seen_up)
        weir_member_connection(member, true, false);
}

/* It is gone: whoever waits for that goes on. With the last one the agent goes, too, and only then is he
 * told.
 */
static void end_member(struct fleet_agent *agent, struct fleet_member *member)
{
    *member->at_mine = member->next_mine;
    if (member->next_mine)
        member->next_mine->at_mine = member->at_mine;
    weir_wake_timer_set(&agent->timers, &member->timer, WEIR_FOREVER);
    inbox_close(member);
    if (weir_agents_leave(member)) {
        agent->last = member;
        weir_agent_unref(agent); /* of the list; the thread still holds it */
        return;
    }
    uint32_t waited_for = LEAVE_WAITED_FOR;
    if (atomic_compare_exchange_strong(&member->leave, &waited_for, LEAVE_DONE))
        weir_wait_wake(&member->leave);
    weir_member_unref(member);
}

/* Who is refused writes again and again, as fast as it is read: so timers and the connection get their turn
 * in between. true: there may be more. */
static bool read_agent_mail(struct fleet_agent *agent)
{
    struct mail mail;
    struct fleet_member *member;
    for (int i = 0; i < MAIL_AT_ONCE; i++) {
        if (agent->last || !(member = inbox_next(agent, &mail)))
            return false;
        adopt_member(agent, member);
        weir_member_read(member, &mail);
        if (weir_member_is_gone(member, mail.hurry))
            end_member(agent, member);
    }
    return true;
}

static void run_due_timers(struct fleet_agent *agent)
{
    static const struct mail nothing;
    struct wake_timer *timer;
    int64_t now = weir_now();
    while (!agent->last && (timer = weir_wake_timer_due(&agent->timers, now))) {
        struct fleet_member *member =
            (struct fleet_member *)(void *)((char *)timer - offsetof(struct fleet_member, timer));
        weir_member_read(member, &nothing);
        if (weir_member_is_gone(member, false))
            end_member(agent, member);
    }
}

/* ---- the thread ---- */

static bool is_agent_over(struct fleet_agent *agent)
{
    lock_take(&agent->lock);
    bool over = agent->over;
    lock_drop(&agent->lock);
    return over || agent->last;
}

static void close_agent(struct fleet_agent *agent)
{
    if (agent->has_opener) {
        (void)pthread_join(agent->opener, NULL);
        agent->coordinator = agent->found;
    }
    if (agent->coordinator)
        agent->ops->close(agent->coordinator);
}

/* Whoever waits for the last member joins this thread; if he has given up, it goes by itself. */
static void end_agent_thread(struct fleet_agent *agent)
{
    uint32_t waited_for = LEAVE_WAITED_FOR;
    if (!agent->last)
        return;
    if (atomic_compare_exchange_strong(&agent->last->leave, &waited_for, LEAVE_LAST))
        weir_wait_wake(&agent->last->leave);
    else
        (void)pthread_detach(pthread_self());
    weir_member_unref(agent->last);
}

static void *run_agent_thread(void *arg)
{
    struct fleet_agent *agent = arg;
    while (!is_agent_over(agent)) {
        uint32_t wakeup = atomic_load_explicit(&agent->wakeup, memory_order_acquire);
        bool more = read_agent_mail(agent);
        int64_t next_ns = check_opening(agent);
        check_connection(agent);
        run_due_timers(agent);
        if (!more && !is_agent_over(agent))
            weir_wait_until(&agent->wakeup, wakeup, min64(next_ns, weir_wake_timer_next(&agent->timers)),
                            false);
    }
    close_agent(agent);
    end_agent_thread(agent);
    weir_agent_unref(agent);
    return NULL;
}

static struct fleet_agent *agent_new(const char *url_text, const struct server_url *url,
                                     const struct coordinator_ops *ops,
                                     const struct coordinator_options *options, struct weir_error *err)
{
    struct fleet_agent *agent = calloc(1, sizeof *agent);
    char *text = agent ? strdup(url_text) : NULL;
    if (text) {
        agent->url_text = text;
        agent->url = *url;
        agent->ops = ops;
        agent->options = *options;
        agent->inbox_end = &agent->inbox;
        agent->random = weir_hash_key().low;
        agent->trie.key = weir_hash_key();
        atom_store(&agent->holders, 2, memory_order_relaxed); /* the thread; who makes it, then the list */
        if (weir_thread_start(&agent->thread, run_agent_thread, agent))
            return agent;
    }
    weir_error_set(err, ENOMEM, "out of memory, or no thread to be had");
    free(text);
    free(agent);
    return NULL;
}

void weir_agent_unref(struct fleet_agent *agent)
{
    if (atom_add(&agent->holders, UINT64_MAX, memory_order_acq_rel) != 1)
        return;
    weir_secret_wipe(agent->url_text, strlen(agent->url_text));
    weir_secret_wipe(&agent->url, sizeof agent->url);
    free(agent->url_text);
    free(agent);
}

/* of one that never had a member */
static void agent_end(struct fleet_agent *agent)
{
    lock_take(&agent->lock);
    agent->over = true;
    lock_drop(&agent->lock);
    agent_wake(agent);
    (void)pthread_join(agent->thread, NULL);
    weir_agent_unref(agent);
}

bool weir_agent_is_me(const struct fleet_agent *agent)
{
    return pthread_equal(agent->thread, pthread_self());
}

/*
 * All agents of the process. A forked child has none: their threads are the parent's.
 */

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

bool weir_agents_enter(struct fleet_member *member, const char *url_text, const struct server_url *url,
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
        if (!entered && !(spare = agent_new(url_text, url, ops, &options, err)))
            return false;
    }
    if (spare) /* somebody else was faster */
        agent_end(spare);
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
