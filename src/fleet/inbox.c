/* SPDX-License-Identifier: MIT */
/*
 * What others leave for an agent's thread, without waiting for it and without memory: each member has room
 * for what can be on the way to it.
 */
#include <stdio.h>

#include "base/sat.h"
#include "fleet/agent.h"
#include "os/wait.h"

void weir_agent_wake(struct fleet_agent *agent)
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
    weir_agent_wake(agent);
}

struct fleet_member *weir_inbox_next(struct fleet_agent *agent, struct mail *mail)
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

void weir_inbox_close(struct fleet_member *member)
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

/* More replies than orders can be on the way are no replies. */
static void inbox_replied(void *owner, const struct lease_reply *reply)
{
    struct fleet_member *member = owner;
    lock_take(&member->agent->lock);
    if (member->mail.reply_count < MEMBER_REPLIES)
        member->mail.replies[member->mail.reply_count++] = *reply;
    enlist_member(member);
    lock_drop(&member->agent->lock);
    weir_agent_wake(member->agent);
}

static void inbox_noticed(void *owner, const struct lease_reply *seen)
{
    struct fleet_member *member = owner;
    lock_take(&member->agent->lock);
    if (!member->mail.noticed || seen->epoch >= member->mail.seen.epoch)
        member->mail.seen = *seen;
    member->mail.noticed = true;
    enlist_member(member);
    lock_drop(&member->agent->lock);
    weir_agent_wake(member->agent);
}

static void inbox_more(void *owner)
{
    struct fleet_member *member = owner;
    lock_take(&member->agent->lock);
    member->mail.more = true;
    enlist_member(member);
    lock_drop(&member->agent->lock);
    weir_agent_wake(member->agent);
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
    weir_agent_wake(agent);
}

const struct sink weir_inbox_sink = {.replied = inbox_replied,
                                     .noticed = inbox_noticed,
                                     .more = inbox_more,
                                     .moved = inbox_connection_changed,
                                     .troubled = inbox_troubled};
