/* SPDX-License-Identifier: MIT */
/*
 * A member as the agent's thread sees it. Each turn of it is the same:
 *
 *   weir_member_read     what has come, or its time: each is an event,
 *   step_member          which the lease machine (lease/lease.h) is told,
 *   apply_lease_actions  and what that wants is done: units are void, granted, orders are sent;
 *   member_distribute    units go to those who wait, then into the balance;
 *   end_member_turn      whoever looks, listens or has just joined is told, and the next timer is set
 *
 * All times that a step is told are read before what follows from it: an order is sent after its `now`,
 * a reply is handled after it came. Both err on the side of less time to spend.
 */
#include <string.h>

#include "base/assert.h"
#include "base/sat.h"
#include "fleet/agent.h"
#include "fleet/member_steps.h"
#include "os/wait.h"

#define SOON_NS        (250 * WEIR_MS) /* nobody who joins waits for units that come later */
#define GATHER_MORE_NS (100 * WEIR_MS)
#define ROUNDS_MAX     4 /* of withdrawing for one event */

/* Whoever joins waits for this: FIRST_... */
static void member_note_first(struct fleet_member *member, uint32_t first)
{
    if (atomic_exchange_explicit(&member->first, first, memory_order_release) != first)
        weir_inbox_publish(member->agent);
}

static bool member_is_awaited(struct fleet_member *member)
{
    return atomic_load_explicit(&member->first, memory_order_relaxed) == FIRST_NOT_YET;
}

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
    struct lease_reply none = lease_reply_of(order, LEASE_FAILED);
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
        (member->wants_first || want_n > 0) && member_is_awaited(member) && balance.held == 0;
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
        member_note_first(member, FIRST_FORBIDDEN);
    else if (first == FIRST_FORBIDDEN)
        member_note_first(member, FIRST_OVER);
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

/* ---- units are handed out, and others are told ---- */

/* What has been granted for later is more to hope for than what the machine knows of. */
static void publish_view(struct fleet_member *member, int64_t now)
{
    const struct lease_actions *last = &member->last;
    const struct lease_terms *terms = member->lease.terms.chunk > 0 ? &member->lease.terms : &member->said;
    /* So much of a bucket is alive at a time. */
    int64_t most = terms->kind == LEASE_QUOTA ? terms->total : max64(terms->burst - terms->chunk, 1);
    int64_t starts = weir_grant_store_starts(&member->granted, now),
            retry_at = min64(last->retry_at_ns, starts);
    struct member_view *view = &member->view;
    bool exhausted = last->exhausted && starts == WEIR_FOREVER, lost = last->lost && !last->sharing;
    member->moved = member->moved ||
                    atom_load(&view->exhausted, memory_order_relaxed) != (uint64_t)exhausted ||
                    atom_load(&view->lost, memory_order_relaxed) != (uint64_t)lost ||
                    atom_load(&view->retry_at, memory_order_relaxed) != (uint64_t)retry_at;
    atom_store(&view->retry_at, (uint64_t)retry_at, memory_order_relaxed);
    atom_store(&view->most, (uint64_t)most, memory_order_relaxed);
    atom_store(&view->round, (uint64_t)member->lease.round_ns, memory_order_relaxed);
    atom_store(&view->exhausted, exhausted, memory_order_relaxed);
    atom_store(&view->lost, lost, memory_order_relaxed);
    atom_store(&view->down, !member->up, memory_order_relaxed);
}

static void publish_stat(struct fleet_member *member, int64_t now)
{
    const struct lease_terms *terms = member->lease.terms.chunk > 0 ? &member->lease.terms : &member->said;
    struct weir_fleet_stat *stat = &member->stat;
    lock_take(&member->lock);
    stat->total = terms->total;
    stat->window_ns = terms->window_ns;
    stat->burst = terms->burst;
    stat->base = terms->base;
    stat->chunk = terms->chunk;
    stat->epoch = member->lease.epoch;
    stat->held = member->granted.units; /* to these three weir_fleet_stat adds the balance's */
    stat->spent = member->granted.direct;
    stat->dropped = member->granted.dropped;
    stat->ends_in_ns = max64(member->granted.balance_until_ns, now); /* a time, of which it makes a span */
    stat->round_ns = member->lease.round_ns;
    stat->connected = member->up;
    stat->exhausted = member->last.exhausted;
    stat->lost = member->last.lost;
    stat->sharing = member->last.sharing;
    lock_drop(&member->lock);
}

/* Units beside the balance count as if they were in it: the balance asks for them, too. */
static void set_marks(struct fleet_member *member)
{
    const struct lease_actions *last = &member->last;
    weir_balance_set_low(&member->balance, max64(sat_sub(last->low, member->granted.units), 0));
}

static bool is_leaving(struct fleet_member *member)
{
    lock_take(&member->lock);
    bool leaving = member->leaving;
    lock_drop(&member->lock);
    return leaving;
}

/* Those who listen, under no lock: each of them may free the limiter. */
static void call_member_hooks(struct fleet_member *member)
{
    static const struct {
        uint32_t bit;
        int32_t event;
    } events[] = {{LEASE_LOST, WEIR_FLEET_LOST},
                  {LEASE_RESTORED, WEIR_FLEET_RESTORED},
                  {LEASE_REFRESHED, WEIR_FLEET_REFRESHED},
                  {LEASE_EXHAUSTED, WEIR_FLEET_EXHAUSTED}};
    uint32_t told = member->told;
    bool moved = member->moved || told != 0;
    member->told = 0;
    member->moved = false;
    if (!moved)
        return;
    lock_take(&member->lock);
    weir_fleet_listener *listener = member->listener;
    member_moved *watch = member->watch;
    void *listener_arg = member->listener_arg, *watch_arg = member->watch_arg;
    atomic_store_explicit(&member->calling, 1, memory_order_relaxed);
    lock_drop(&member->lock);
    for (size_t i = 0; listener && i < sizeof events / sizeof events[0]; i++)
        if (told & events[i].bit && !is_leaving(member))
            listener(listener_arg, member->limiter, events[i].event);
    if (watch && !is_leaving(member))
        watch(watch_arg);
    atomic_store_explicit(&member->calling, 0, memory_order_release);
    weir_wait_wake(&member->calling);
}

/*
 * A take of many chunks is refused and comes again when something has moved, as those do that a server has
 * put away. Units of a bucket end one after the other, and the balance has one end: so they stay beside it
 * until there are enough, and go in together. Not for longer than it takes a whole fleet to get so many: then
 * others have them.
 */
static void member_gather(struct fleet_member *member, int64_t n)
{
    const struct lease_terms *terms = &member->lease.terms;
    if (terms->kind != LEASE_BUCKET || terms->chunk == 0 || n <= terms->chunk ||
        n > max64(terms->burst - terms->chunk, 1))
        return;
    member->gather_n = max64(member->gather_n, n);
    member->gather_by_ns =
        sat_add(weir_now(), sat_add(mul_div(n, terms->window_ns, terms->total), GATHER_MORE_NS));
}

/* true: what comes is to stay where it is. */
static bool is_gathering(struct fleet_member *member, int64_t now, bool *moved)
{
    if (member->gather_n == 0)
        return false;
    if (weir_grant_store_gathered(&member->granted, &member->balance, now) >= member->gather_n) {
        weir_grant_store_gather(&member->granted, &member->balance, now);
        *moved = true;
    } else if (now < member->gather_by_ns) {
        return true;
    }
    member->gather_n = 0;
    return false;
}

/* While somebody waits, what comes is gathered for him. */
static bool member_distribute(struct fleet_member *member, int64_t now, bool pressed)
{
    weir_grant_store_expire(&member->granted, &member->balance, now);
    bool moved = weir_claims_serve(member, now);
    if (weir_claims_units(member) == 0 && !is_gathering(member, now, &moved))
        moved = weir_grant_store_fill_balance(&member->granted, &member->balance, now, pressed) || moved;
    return moved;
}

/* After the step, which has done what was due; what is due since then is so at once. */
static void set_member_timer(struct fleet_member *member, int64_t now)
{
    int64_t at = min64(member->last.wake_ns, weir_grant_store_next(&member->granted, now));
    at = min64(at, weir_claims_next(member));
    if (member->gather_n > 0 && member->gather_by_ns > now)
        at = min64(at, member->gather_by_ns);
    if (member->going)
        at = min64(at, member->leave_by_ns);
    weir_wake_timer_set(&member->agent->timers, &member->timer, max64(at, sat_add(member->stepped_ns, 1)));
}

/* Units are here, or will not be soon. */
static void check_first_units(struct fleet_member *member, int64_t now)
{
    bool late = member->last.retry_at_ns != WEIR_FOREVER && member->last.retry_at_ns > sat_add(now, SOON_NS);
    bool known = weir_balance_held(&member->balance) > 0 || member->last.exhausted;
    if (known ||
        (member_is_awaited(member) && (late || member->last.lost))) /* what was forbidden is late as well */
        member_note_first(member, FIRST_OVER);
}

/* After each event. `pressed`: somebody was refused. */
static void end_member_turn(struct fleet_member *member, bool pressed)
{
    int64_t now = weir_now();
    publish_view(member, now);
    if (!member->going) {
        pressed = pressed || weir_balance_held(&member->balance) < member->last.low;
        member->moved = member_distribute(member, now, pressed) || member->moved;
    }
    set_marks(member);
    publish_stat(member, now);
    check_first_units(member, now);
    call_member_hooks(member);
    set_member_timer(member, now);
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
    if (!member->going && !mail->leave) {
        member_gather(member, mail->missed_n); /* who waits is served by himself */
        member->missed_n = mail->missed_n;
        /* Perhaps there is enough beside the balance. */
        member->moved = member_distribute(member, weir_now(), mail->want) || member->moved;
    }
    if (mail->leave && !member->going)
        start_leaving(member);
    else
        step_plain(member, LEASE_WAKE, member->going ? 0 : mail->want_n);
    end_member_turn(member, mail->want);
    if (mail->away)
        weir_inbox_publish(member->agent); /* whoever joins waits until it is lost */
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
    end_member_turn(member, false);
}

void weir_member_enter(struct fleet_member *member)
{
    struct fleet_agent *agent = member->agent;
    struct weir_error err = {0};
    if (member->handle)
        return;
    ASSERT(weir_fleet_name_check(member->name, NULL));
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
