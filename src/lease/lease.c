/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lease/check.h"
#include "lease/internal.h"
#include "lease/ticket.h"

/* ---- options ---- */

static void lease_set_defaults(struct lease_options *options)
{
#define DEFAULT(FIELD, VALUE)                                                                                \
    if (options->FIELD == 0)                                                                                 \
    options->FIELD = (VALUE)
    DEFAULT(prefetch_percent, 20);
    DEFAULT(above_percent, 200);
    DEFAULT(return_every_ns, 15 * LEASE_SEC);
    DEFAULT(ready_ns, 10 * LEASE_SEC);
    DEFAULT(rho_ppm, 1000);
    DEFAULT(guard_ns, 100 * LEASE_MS);
    DEFAULT(most_chunks, 4);
    DEFAULT(lost_after_ns, 3 * LEASE_SEC);
    DEFAULT(answer_ns, 2 * LEASE_SEC);
#undef DEFAULT
}

static const char *lease_wrong_option(const struct lease_options *o)
{
    if (o->prefetch_percent < 1 || o->prefetch_percent > 100)
        return "prefetch is a share of a chunk in per cent: write 1 to 100";
    if (o->above_percent < 100)
        return "above is a share of base in per cent: write 100 or more";
    if (o->rho_ppm < 1 || o->rho_ppm > 100000)
        return "rho bounds the error of clocks' rates in parts per million: write 1 to 100000";
    if (o->return_every_ns < LEASE_MS || o->ready_ns < LEASE_MS || o->guard_ns < 0 ||
        o->lost_after_ns < LEASE_MS || o->answer_ns < LEASE_MS)
        return "times are 1 ms or more";
    if (o->return_every_ns > TICKET_WINDOW_MAX || o->ready_ns > TICKET_WINDOW_MAX ||
        o->guard_ns > TICKET_WINDOW_MAX || o->lost_after_ns > TICKET_WINDOW_MAX ||
        o->answer_ns > TICKET_WINDOW_MAX)
        return "times are 366 days or less";
    if (o->most_chunks < 1 || o->most_chunks > LEASE_FLIGHT_MAX - 4)
        return "1 to 4 orders to take may be on the way at once";
    if (o->most_held < 0 || o->nodes < 0)
        return "most_held and nodes are not below 0";
    if (o->most_held > TICKET_TOTAL_MAX || o->nodes > TICKET_COUNT_MAX)
        return "most_held or nodes is too large";
    if (o->on_loss != LEASE_LOSS_REFUSE && o->on_loss != LEASE_LOSS_SHARE)
        return "when the coordinator is lost: write on_loss=refuse or on_loss=share";
    if (o->on_loss == LEASE_LOSS_SHARE && o->nodes == 0)
        return "on_loss=share divides the total by the number of nodes: write nodes= as well";
    return NULL;
}

bool weir_lease_options_complete(struct lease_options *options, const char **why)
{
    lease_set_defaults(options);
    *why = lease_wrong_option(options);
    return *why == NULL;
}

void weir_lease_begin(struct lease *lease, const struct lease_options *options, uint64_t seed, int64_t now)
{
    memset(lease, 0, sizeof *lease);
    lease->options = *options;
    lease->terms = options->asked;
    lease->terms.chunk = 0;
    lease->random = seed;
    lease->before_ns = lease->answered_ns = -1;
    lease->turn_at_ns = lease->probe_at_ns = lease->idle_turn_ns = lease->return_at_ns = WEIR_FOREVER;
    lease->look_at_ns = now;
    lease->quiet_ns = max64(now, 1); /* not connected yet: that may last too long as well */
    lease->rate_at_ns = now;
}

/* ---- a step ---- */

/* Units a second, as of late: it falls by half with each look that finds nothing spent. */
static void lease_measure_rate(struct lease_run *run)
{
    struct lease *lease = run->lease;
    int64_t passed = sat_sub(run->now, lease->rate_at_ns);
    if (passed < 10 * LEASE_MS)
        return;
    int64_t rate = mul_div(max64(0, sat_sub(run->spent, lease->rate_spent)), LEASE_SEC, passed);
    lease->rate = passed >= LEASE_SEC || lease->rate == 0 ? rate : lease->rate / 2 + rate / 2 + (rate & 1);
    lease->rate_spent = run->spent;
    lease->rate_at_ns = run->now;
}

/* Who was refused is not to be refused again when he comes back. */
static void lease_note_demand(struct lease_run *run, const struct lease_balance_view *balance)
{
    struct lease *lease = run->lease;
    if (run->wanted > 0 || run->spent > lease->busy_spent)
        lease->busy_ns = max64(run->now, 1);
    lease->busy_spent = run->spent;
    if (sat_sub(run->now, lease->at_once_ns) >= lease->options.ready_ns)
        lease->at_once = 0;
    if (balance->at_once > 0 && balance->at_once >= lease->at_once) {
        lease->at_once = balance->at_once;
        lease->at_once_ns = run->now;
    }
}

static void lease_notice_reply(struct lease_run *run, const struct lease_reply *seen)
{
    struct lease *lease = run->lease;
    if (seen->epoch > lease->epoch)
        weir_lease_enter(run, seen->epoch, &seen->terms, lease->answered_ns);
    else if (seen->epoch == lease->epoch)
        weir_lease_learn(run, &seen->terms);
}

static void lease_handle_event(struct lease_run *run, const struct lease_event *event)
{
    struct lease *lease = run->lease;
    switch (event->kind) {
    case LEASE_REPLIED:
        weir_lease_replied(run, event);
        break;
    case LEASE_NOTICED:
        lease_notice_reply(run, &event->reply);
        break;
    case LEASE_MORE: /* not all of them at once */
        if (lease->exhausted)
            lease->more_ns = sat_add(run->now, random_below(&lease->random, sat_mul(4, lease->round_ns) + 1));
        break;
    case LEASE_UP: /* what was seen before may be over: look again */
        lease->up = true;
        lease->look_at_ns = run->now;
        lease->retry_at_ns = lease->backoff_ns = 0;
        break;
    case LEASE_DOWN:
        lease->up = false;
        if (lease->quiet_ns == 0)
            lease->quiet_ns = max64(run->now, 1);
        break;
    case LEASE_AWAY:
        weir_lease_away(run);
        break;
    case LEASE_WITHDREW:
        weir_lease_withdrew(run, event->reply.chunks);
        break;
    case LEASE_LEAVE:
        weir_lease_leave(run);
        break;
    default:
        break;
    }
}

/* ---- what the balance and the node are told ---- */

static bool lease_is_gone(const struct lease_run *run)
{
    const struct lease *lease = run->lease;
    bool busy = weir_lease_flying(lease, LEASE_TAKE) || weir_lease_flying(lease, LEASE_RETURN) ||
                lease->withdraw_epoch != 0;
    return lease->leaving && (!busy || !lease->up || run->now >= lease->leave_at_ns);
}

/* The next window begins by the turn of others who saw this one begin, if its age has told when that was; at
 * the latest by its own. */
static int64_t lease_next_window(const struct lease_run *run)
{
    const struct lease *lease = run->lease;
    int64_t slack = sat_add(lease->options.guard_ns, lease->terms.window_ns / 32);
    int64_t others = sat_add(weir_lease_deadline(lease), slack);
    return lease->asked_once && others > run->now ? min64(others, lease->turn_at_ns) : lease->turn_at_ns;
}

/* When somebody who is refused now may hope. */
static int64_t lease_next_hope(const struct lease_run *run)
{
    const struct lease *lease = run->lease;
    int64_t soon = sat_add(run->now, max64(lease->round_ns, LEASE_MS));
    if (lease->leaving)
        return WEIR_FOREVER;
    if (lease->sharing)
        return max64(lease->share_until_ns, soon);
    if (!lease->up || run->now < lease->retry_at_ns)
        return max64(lease->retry_at_ns, soon);
    bool turned = !lease->timed && lease->terms.kind == LEASE_QUOTA && lease->terms.chunk != 0;
    if (lease->exhausted && lease->more_ns != 0)
        return max64(lease->more_ns, soon);
    if (turned && (lease->exhausted || (lease->asked_once && weir_lease_deadline(lease) <= run->now)))
        return max64(lease_next_window(run), soon);
    return soon;
}

static void lease_wake_sooner(int64_t *wake, int64_t now, int64_t at)
{
    if (at > now && at < *wake)
        *wake = at;
}

/* What is due already waits for a reply; so only what lies ahead counts. */
static int64_t lease_next_wake(const struct lease_run *run)
{
    const struct lease *lease = run->lease;
    int64_t wake = WEIR_FOREVER, now = run->now;
    bool active = weir_lease_active(run), known = lease->epoch != 0 && lease->terms.chunk != 0;
    for (size_t i = 0; i < lease->in_flight; i++)
        lease_wake_sooner(&wake, now, sat_add(lease->flight[i].sent_ns, lease->options.answer_ns));
    lease_wake_sooner(&wake, now, lease->until_ns);
    if (lease->quiet_ns != 0 && !lease->lost)
        lease_wake_sooner(&wake, now, sat_add(lease->quiet_ns, lease->options.lost_after_ns));
    if (lease->leaving) {
        lease_wake_sooner(&wake, now, lease->leave_at_ns);
        return wake;
    }
    if (lease->up && (active || !known || lease->quiet_ns != 0))
        lease_wake_sooner(&wake, now, lease->retry_at_ns);
    if (lease->up && weir_lease_keeps_ready(run)) {
        lease_wake_sooner(&wake, now, lease->turn_at_ns);
        lease_wake_sooner(&wake, now, lease->probe_at_ns);
        lease_wake_sooner(&wake, now, lease->idle_at_ns);
        lease_wake_sooner(&wake, now, lease->idle_turn_ns);
    }
    if (lease->up && active) {
        lease_wake_sooner(&wake, now, lease->turn_at_ns);
        lease_wake_sooner(&wake, now, lease->probe_at_ns);
        if (lease->exhausted)
            lease_wake_sooner(&wake, now, lease->more_ns);
        if (lease->terms.kind == LEASE_BUCKET)
            lease_wake_sooner(&wake, now, lease->last_from_ns);
    }
    if (known && run->held > lease->terms.base)
        lease_wake_sooner(&wake, now, lease->return_at_ns);
    return wake;
}

static void lease_set_actions(struct lease_run *run)
{
    const struct lease *lease = run->lease;
    struct lease_actions *out = run->out;
    out->low = lease->leaving ? 0 : weir_lease_low(run);
    out->wake_ns = lease_next_wake(run);
    out->retry_at_ns = lease_next_hope(run);
    out->exhausted = lease->exhausted && weir_lease_flying(lease, LEASE_TAKE) == 0;
    out->lost = lease->lost;
    out->sharing = lease->sharing;
    out->gone = lease_is_gone(run);
}

void weir_lease_step(struct lease *lease, const struct lease_event *event,
                     const struct lease_balance_view *balance, int64_t now, struct lease_actions *actions)
{
    struct lease_run run = {lease, actions, now, balance->held, max64(balance->wanted, 0), balance->spent};
#if WEIR_ASSERTIONS
    struct lease before = *lease;
#endif
    memset(actions, 0, sizeof *actions);
    lease_measure_rate(&run);
    lease_note_demand(&run, balance);
    weir_lease_expire(&run); /* a reply that comes too late comes after this */
    lease_handle_event(&run, event);
    weir_lease_watch(&run);
    weir_lease_ask(&run);
    lease_set_actions(&run);
#if WEIR_ASSERTIONS
    weir_lease_check(&before, event, balance, now, lease, actions);
#endif
}
