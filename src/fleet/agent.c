/* SPDX-License-Identifier: MIT */
/*
 * The thread of an agent: reads what came, wakes whose time has come, sleeps. To open a coordinator may take
 * long, so that is done by a thread of its own, which ends with the attempt.
 */
#define _POSIX_C_SOURCE 200809L
#include "fleet/agent.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/sat.h"
#include "base/secret.h"
#include "os/thread.h"
#include "os/wait.h"

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
    weir_agent_wake(agent);
    return NULL;
}

/* Between half of the back-off and all of it, so that a fleet does not come back in one moment. */
static int64_t backoff_with_jitter(struct fleet_agent *agent, int64_t ns)
{
    agent->random = agent->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ns / 2 + (int64_t)(agent->random >> 33) % (ns / 2 + 1);
}

static void note_open_failure(struct fleet_agent *agent, const char *why)
{
    agent->backoff_ns = clamp64(agent->backoff_ns * 2, BACKOFF_MIN_NS, BACKOFF_MAX_NS);
    agent->open_at_ns = sat_add(weir_now(), backoff_with_jitter(agent, agent->backoff_ns));
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
    weir_inbox_close(member);
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
        if (agent->last || !(member = weir_inbox_next(agent, &mail)))
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
    struct wake_timer *timer;
    int64_t now = weir_now();
    while (!agent->last && (timer = weir_wake_timer_due(&agent->timers, now))) {
        struct fleet_member *member =
            (struct fleet_member *)(void *)((char *)timer - offsetof(struct fleet_member, timer));
        weir_member_wake(member);
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

struct fleet_agent *weir_agent_new(const char *url_text, const struct fleet_url *url,
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

void weir_agent_end(struct fleet_agent *agent)
{
    lock_take(&agent->lock);
    agent->over = true;
    lock_drop(&agent->lock);
    weir_agent_wake(agent);
    (void)pthread_join(agent->thread, NULL);
    weir_agent_unref(agent);
}

bool weir_agent_is_me(const struct fleet_agent *agent)
{
    return pthread_equal(agent->thread, pthread_self());
}
