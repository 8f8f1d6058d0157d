/* SPDX-License-Identifier: MIT */
/*
 * A member as the agent's thread sees it: events go into its machine (lease/lease.h), and what that wants is
 * done. All times that a step is told are read before what follows from it: an order is sent after its `now`,
 * a reply is handled after it came. Both err on the side of less time to spend.
 */
#include <string.h>

#include "base/sat.h"
#include "fleet/agent.h"

#define ROUNDS_MAX 4 /* of withdrawing for one event */

static bool is_write_order(int32_t op)
{
    return op != LEASE_LOOK;
}

/* ---- orders ---- */

static void remember_sent(struct fleet_member *member, uint64_t id, int64_t now)
{
    member->sent[member->sent_next].id = id;
    member->sent[member->sent_next].sent_ns = now;
    member->sent_next = (member->sent_next + 1) % MEMBER_REPLIES;
}

/* When it was sent; false: no such order, or it has had its reply. */
static bool recall_sent(struct fleet_member *member, uint64_t id, int64_t *sent_ns)
{
    for (size_t i = 0; i < MEMBER_REPLIES; i++)
        if (member->sent[i].id == id && id != 0) {
            *sent_ns = member->sent[i].sent_ns;
            member->sent[i].id = 0;
            return true;
        }
    return false;
}

static void send_member_order(struct fleet_member *member, const struct lease_order *order, int64_t now)
{
    remember_sent(member, order->id, now);
    lock_take(&member->lock);
    member->stat.orders++;
    member->stat.writes += is_write_order(order->op);
    lock_drop(&member->lock);
    if (member->handle) {
        member->agent->ops->order(member->handle, order);
        return;
    }
    struct lease_reply none = {
        .id = order->id, .op = order->op, .outcome = LEASE_FAILED, .left = -1, .age_ns = -1, .ends_ns = -1};
    weir_inbox_sink.replied(member, &none);
}

/* ---- steps ---- */

static struct lease_balance_view balance_now(struct fleet_member *member, int64_t now, int64_t want_n)
{
    weir_grant_store_expire(&member->granted, &member->balance, now);
    int64_t units = weir_balance_held(&member->balance);
    struct lease_balance_view balance = {
        .held = sat_add(max64(units, 0), member->granted.units),
        .spent = sat_add(weir_balance_spent(&member->balance), member->granted.direct),
        .at_once = member->missed_n};
    member->missed_n = 0;
    int64_t owed = max64(-units, 0), waited = weir_claims_units(member);
    balance.wanted = max64(sat_sub(sat_add(waited, owed), balance.held), 0);
    member->wants_first =
        (member->wants_first || want_n > 0) && weir_member_is_awaited(member) && balance.held == 0;
    if (weir_balance_refused(&member->balance) > 0 || want_n > 0 || member->wants_first)
        balance.wanted = max64(balance.wanted, max64(sat_sub(want_n, balance.held), 1));
    if (member->gather_n > 0)
        balance.wanted = max64(balance.wanted, sat_sub(member->gather_n, balance.held));
    return balance;
}

static void apply_lease_actions(struct fleet_member *member, int64_t now)
{
    const struct lease_actions *todo = &member->last;
    if (todo->clear)
        weir_grant_store_clear(&member->granted, &member->balance);
    int64_t taken = 0;
    for (size_t i = 0; i < todo->grant_count; i++) {
        weir_grant_store_add(&member->granted, &member->balance, &todo->grants[i]);
        taken = sat_add(taken, todo->grants[i].units);
    }
    lock_take(&member->lock);
    member->stat.taken = sat_add(member->stat.taken, taken);
    member->stat.epoch = member->lease.epoch; /* before its units are in the balance: service/leases/lend.c */
    lock_drop(&member->lock);
    member->told |= todo->told;
    for (size_t i = 0; i < todo->order_count; i++)
        send_member_order(member, &todo->orders[i], now);
}

/* One event, and what withdrawing for it brings about. */
static void step_member(struct fleet_member *member, const struct lease_event *event, int64_t want_n)
{
    struct lease_event next = *event;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        int64_t now = weir_now();
        struct lease_balance_view balance = balance_now(member, now, want_n);
        weir_lease_step(&member->lease, &next, &balance, now, &member->last);
        member->stepped_ns = now;
        apply_lease_actions(member, now);
        if (member->last.withdraw < 1)
            return;
        next = (struct lease_event){.kind = LEASE_WITHDREW};
        next.reply.chunks = weir_grant_store_withdraw(&member->granted, &member->balance, member->last.chunk,
                                                      member->last.withdraw);
        want_n = 0;
    }
}

static void step_plain(struct fleet_member *member, int32_t kind, int64_t want_n)
{
    struct lease_event event = {.kind = kind};
    step_member(member, &event, want_n);
}

static void count_member_reply(struct fleet_member *member, const struct lease_reply *reply)
{
    lock_take(&member->lock);
    if (reply->outcome == LEASE_UNKNOWN || reply->outcome == LEASE_FAILED)
        member->stat.failures++;
    else if (reply->left >= 0)
        member->stat.left = reply->left;
    if (reply->outcome == LEASE_DONE && reply->op == LEASE_RETURN)
        member->stat.returned =
            sat_add(member->stat.returned, sat_mul(max64(reply->chunks, 0), member->lease.terms.chunk));
    lock_drop(&member->lock);
}

/* An order that was not carried out: for a reason that was told, or it is to be tried again soon. */
static void note_refusal(struct fleet_member *member)
{
    uint32_t first = atomic_load_explicit(&member->first, memory_order_relaxed);
    lock_take(&member->agent->lock);
    bool told = member->trouble[0] != '\0';
    lock_drop(&member->agent->lock);
    if (told && first != FIRST_OVER)
        weir_member_note_first(member, FIRST_FORBIDDEN);
    else if (first == FIRST_FORBIDDEN)
        weir_member_note_first(member, FIRST_OVER);
}

static void step_reply(struct fleet_member *member, const struct lease_reply *reply)
{
    struct lease_event event = {.kind = LEASE_REPLIED, .reply = *reply};
    if (!recall_sent(member, reply->id, &event.sent_ns))
        return; /* twice, or of nothing */
    count_member_reply(member, reply);
    if (reply->outcome == LEASE_FAILED)
        note_refusal(member);
    step_member(member, &event, 0);
}

/* ---- events ---- */

static void start_leaving(struct fleet_member *member)
{
    member->going = true;
    member->leave_by_ns = sat_add(weir_now(), member->options.leave_ns);
    weir_claims_cancel(member);
    step_plain(member, LEASE_LEAVE, 0);
}

void weir_member_read(struct fleet_member *member, const struct mail *mail)
{
    weir_balance_rearm(&member->balance);
    for (size_t i = 0; i < mail->reply_count; i++)
        step_reply(member, &mail->replies[i]);
    if (mail->noticed) {
        struct lease_event event = {.kind = LEASE_NOTICED, .reply = mail->seen};
        step_member(member, &event, 0);
    }
    if (mail->more)
        step_plain(member, LEASE_MORE, 0);
    if (mail->away)
        step_plain(member, LEASE_AWAY, 0);
    if (mail->leave && !member->going) {
        start_leaving(member);
    } else if (!member->going) {
        weir_member_gather(member, mail->missed_n); /* who waits is served by himself */
        member->missed_n = mail->missed_n;
        /* Perhaps there is enough beside the balance. */
        member->moved = weir_member_distribute(member, weir_now(), mail->want) || member->moved;
        step_plain(member, LEASE_WAKE, mail->want_n);
    }
    weir_member_after_step(member, mail->want);
    if (mail->away)
        weir_inbox_publish(member->agent); /* whoever joins waits until it is lost */
}

void weir_member_wake(struct fleet_member *member)
{
    weir_balance_rearm(&member->balance);
    step_plain(member, LEASE_WAKE, 0);
    weir_member_after_step(member, false);
}

void weir_member_connection(struct fleet_member *member, bool up, bool down)
{
    if (!member->handle)
        return;
    if (member->up && (down || !up))
        step_plain(member, LEASE_DOWN, 0);
    member->up = up;
    if (up)
        step_plain(member, LEASE_UP, 0);
    weir_member_after_step(member, false);
}

void weir_member_enter(struct fleet_member *member)
{
    struct fleet_agent *agent = member->agent;
    struct weir_error err = {0};
    if (member->handle)
        return;
    member->handle = agent->ops->enter(agent->coordinator, member->name, &member->said, member, &err);
    lock_take(&agent->lock);
    if (!member->handle) {
        member->enter_error = err;
        memcpy(member->trouble, err.text, sizeof member->trouble - 1);
    }
    atomic_store_explicit(&member->enter, member->handle ? ENTER_DONE : ENTER_FAILED, memory_order_release);
    lock_drop(&agent->lock);
    weir_inbox_publish(agent);
}

bool weir_member_is_gone(struct fleet_member *member, bool hurry)
{
    if (!member->going)
        return false;
    if (!member->last.gone && !hurry && member->up && weir_now() < member->leave_by_ns)
        return false;
    (void)weir_balance_set_deadline(&member->balance, member->granted.balance_until_ns);
    if (member->handle)
        member->agent->ops->leave(member->handle);
    member->handle = NULL;
    return true;
}
