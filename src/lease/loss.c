/* SPDX-License-Identifier: MIT */
#include "lease/internal.h"

static const int64_t backoff_least = 10 * LEASE_MS, backoff_most = LEASE_SEC, retry_most = 60 * LEASE_SEC;

static int64_t share_left(const struct lease_run *run)
{
    int64_t spent = max64(0, sat_sub(run->spent, run->lease->share_spent));
    return max64(0, sat_sub(run->lease->share_units, spent));
}

void weir_lease_answered(struct lease_run *run)
{
    struct lease *lease = run->lease;
    lease->quiet_ns = lease->backoff_ns = 0;
    lease->retry_at_ns = 0;
    if (!lease->lost)
        return;
    lease->lost = false;
    run->out->told |= LEASE_RESTORED;
    if (lease->sharing) { /* its own share ends where the common one begins again */
        lease->sharing = false;
        lease->share_units = share_left(run); /* if it is lost once more in this window, that is all */
        weir_lease_clear(run);
    }
}

void weir_lease_unanswered(struct lease_run *run, int64_t sent_ns, int64_t retry_ns)
{
    struct lease *lease = run->lease;
    int64_t wait = random_backoff(&lease->random, &lease->backoff_ns, backoff_least, backoff_most);
    wait = max64(wait, min64(retry_ns, retry_most));
    lease->retry_at_ns = max64(lease->retry_at_ns, sat_add(run->now, wait));
    lease->look_at_ns = run->now; /* and see whether it is there, even if nobody wants anything */
    if (lease->quiet_ns == 0)
        lease->quiet_ns = max64(sent_ns, 1);
}

void weir_lease_expire(struct lease_run *run)
{
    struct lease *lease = run->lease;
    for (size_t i = lease->in_flight; i-- > 0;)
        if (sat_sub(run->now, lease->flight[i].sent_ns) >= lease->options.answer_ns)
            weir_lease_doubt(run, i);
    if (lease->until_ns == 0 || run->now < lease->until_ns)
        return;
    weir_lease_clear(run); /* rule (2). The balance refuses them by itself; this is for the account */
    if (!lease->timed || lease->terms.kind != LEASE_QUOTA)
        return;
    /* By the coordinator's clock the window may last a little longer; and not all of them at once. */
    int64_t window = lease->terms.window_ns, rest = span_up(lease, window) - span_down(lease, window);
    lease->idle_at_ns = sat_add(run->now, rest + random_below(&lease->random, window / 100 + 1));
}

/* Are the units of the common total gone, as far as this node is concerned? */
static bool own_is_over(const struct lease_run *run)
{
    const struct lease *lease = run->lease;
    if (lease->until_ns > run->now)
        return run->held <= 0 && !lease->exhausted;
    return !lease->exhausted || lease->timed || run->now >= weir_lease_deadline(lease);
}

/* A share of the total by its own clock. In slices: the balance's end never moves back, and what the
 * coordinator grants when it is back may end before a whole window has passed. */
static void spend_lost_share(struct lease_run *run)
{
    struct lease *lease = run->lease;
    int64_t window = lease->terms.window_ns, slice = clamp64(window / 8, LEASE_MS, LEASE_SEC);
    if (lease->sharing && run->now < lease->until_ns)
        return;
    weir_lease_clear(run);
    if (run->now >= lease->share_until_ns) {
        lease->share_until_ns = sat_add(run->now, window);
        lease->share_units = lease->terms.total / lease->options.nodes;
        lease->share_spent = run->spent;
    } else if (!lease->sharing) {
        lease->share_spent = run->spent;
    }
    lease->sharing = true;
    int64_t left = share_left(run);
    int64_t end = max64(min64(sat_add(run->now, slice), lease->share_until_ns), lease->last_until_ns);
    (void)weir_lease_grant(run, left, run->now, end);
}

static void start_loss(struct lease_run *run)
{
    run->lease->lost = true;
    run->out->told |= LEASE_LOST;
}

void weir_lease_away(struct lease_run *run)
{
    struct lease *lease = run->lease;
    if (!lease->up && !lease->lost && lease->epoch == 0) /* so it is quiet since the beginning */
        start_loss(run);
}

void weir_lease_watch(struct lease_run *run)
{
    struct lease *lease = run->lease;
    if (lease->quiet_ns == 0)
        return;
    if (!lease->lost && sat_sub(run->now, lease->quiet_ns) >= lease->options.lost_after_ns)
        start_loss(run);
    if (lease->lost && !lease->leaving && lease->options.on_loss == LEASE_LOSS_SHARE &&
        lease->terms.total != 0 && (lease->sharing || own_is_over(run)))
        spend_lost_share(run);
}
