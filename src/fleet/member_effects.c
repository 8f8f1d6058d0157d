/* SPDX-License-Identifier: MIT */
/*
 * What follows from the steps of a member: units are handed out, whoever looks, listens or has just joined is
 * told, and the next timer is set.
 */
#include "base/sat.h"
#include "fleet/agent.h"
#include "os/wait.h"

#define SOON_NS        (250 * WEIR_MS) /* nobody who joins waits for units that come later */
#define GATHER_MORE_NS (100 * WEIR_MS)

void weir_member_note_first(struct fleet_member *member, uint32_t first)
{
    if (atomic_exchange_explicit(&member->first, first, memory_order_release) != first)
        weir_inbox_publish(member->agent);
}

bool weir_member_is_awaited(struct fleet_member *member)
{
    return atomic_load_explicit(&member->first, memory_order_relaxed) == FIRST_NOT_YET;
}

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
    weir_balance_set_floor(&member->balance, member->going ? 0 : last->floor);
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
void weir_member_gather(struct fleet_member *member, int64_t n)
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
bool weir_member_distribute(struct fleet_member *member, int64_t now, bool pressed)
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
    if (known || (weir_member_is_awaited(member) &&
                  (late || member->last.lost))) /* what was forbidden is late as well */
        weir_member_note_first(member, FIRST_OVER);
}

void weir_member_after_step(struct fleet_member *member, bool pressed)
{
    int64_t now = weir_now();
    publish_view(member, now);
    if (!member->going) {
        pressed = pressed || weir_balance_held(&member->balance) < member->last.low;
        member->moved = weir_member_distribute(member, now, pressed) || member->moved;
    }
    set_marks(member);
    publish_stat(member, now);
    check_first_units(member, now);
    call_member_hooks(member);
    set_member_timer(member, now);
}
