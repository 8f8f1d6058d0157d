/* SPDX-License-Identifier: MIT */

#include "lease/internal.h"
#include "lease/ticket.h"

void weir_lease_clear(struct lease_run *run)
{
    run->out->clear = true;
    run->out->grant_count = 0; /* what this step has put in is in the balance, and void like the rest */
    run->held = min64(run->held, 0);
    run->lease->until_ns = 0;
}

/* Rule (3): nobody turns an epoch before the window, by the slowest clock, has passed since he first saw it.
 */
static void plan_epoch_turn(struct lease_run *run)
{
    struct lease *lease = run->lease;
    int64_t window = lease->terms.window_ns;
    int64_t ends = sat_add(lease->seen_ns, span_up(lease, window));
    int64_t jitter = min64(window / 200, 100 * LEASE_MS);
    int64_t lead = clamp64(sat_mul(2, lease->round_ns), window / 100, window / 4);
    lease->turn_at_ns = sat_add(ends, random_below(&lease->random, jitter + 1));
    lease->probe_at_ns = ends - lead;
    lease->idle_turn_ns = sat_add(lease->turn_at_ns, random_below(&lease->random, window / 8 + 1));
    lease->return_at_ns = sat_add(run->now, min64(lease->options.return_every_ns, window / 4));
    if (lease->terms.kind == LEASE_BUCKET) /* has nothing to turn but numbers that have died */
        lease->turn_at_ns = lease->probe_at_ns = lease->idle_turn_ns = WEIR_FOREVER;
}

/* What a coordinator says may be anything: what no fleet can have is not known yet. */
static bool are_terms_sane(const struct lease_terms *terms)
{
    if (terms->kind != LEASE_QUOTA && terms->kind != LEASE_BUCKET)
        return false;
    return terms->total > 0 && terms->total <= TICKET_TOTAL_MAX && terms->window_ns >= TICKET_WINDOW_MIN &&
           terms->window_ns <= TICKET_WINDOW_MAX && terms->chunk > 0 && terms->chunk <= TICKET_TOTAL_MAX &&
           terms->base >= 0 && terms->base <= TICKET_TOTAL_MAX && terms->burst >= 0 &&
           terms->burst <= TICKET_TOTAL_MAX;
}

void weir_lease_learn(struct lease_run *run, const struct lease_terms *terms)
{
    struct lease *lease = run->lease;
    if (lease->terms.chunk != 0 || lease->epoch == 0 || !are_terms_sane(terms))
        return; /* terms hold for an epoch: the first that were told stay */
    lease->terms = *terms;
    if (lease->terms.base == 0)
        lease->terms.base = terms->chunk;
    lease->look_at_ns = WEIR_FOREVER;
    plan_epoch_turn(run);
}

void weir_lease_enter(struct lease_run *run, uint64_t epoch, const struct lease_terms *terms,
                      int64_t before_ns)
{
    struct lease *lease = run->lease;
    weir_lease_clear(run); /* rule (2): another epoch has begun, so these are dead */
    lease->epoch = epoch;
    lease->terms.chunk = 0;
    lease->seen_ns = run->now;
    lease->before_ns = before_ns;
    lease->used = lease->exhausted_ns = lease->more_ns = 0;
    lease->exhausted = lease->asked_once = lease->stale = false;
    lease->turn_at_ns = lease->probe_at_ns = lease->idle_turn_ns = lease->return_at_ns = WEIR_FOREVER;
    run->out->told |= LEASE_REFRESHED;
    weir_lease_learn(run, terms);
    if (!lease->timed && lease->terms.kind == LEASE_QUOTA) /* what was kept ready has died, however new */
        lease->idle_at_ns = 0;
    if (lease->terms.chunk == 0)
        lease->look_at_ns = run->now;
}

void weir_lease_before(struct lease *lease, int64_t before_ns)
{
    lease->before_ns = max64(lease->before_ns, before_ns);
}

int64_t weir_lease_deadline(const struct lease *lease)
{
    if (lease->before_ns < 0 || lease->terms.chunk == 0)
        return 0;
    return sat_add(lease->before_ns, lease->terms.window_ns); /* rule (2) */
}

/* Units of a bucket that have started share an end as well, if that costs them little: a balance's deadline
 * only grows, so what ends a little before it (times are told in whole milliseconds) could not be put in any
 * more. A new end is therefore a little early, and the next ones join it as long as most of their time is
 * left. */
static int64_t coarse_end(const struct lease_run *run, int64_t from_ns, int64_t until_ns)
{
    int64_t last = run->lease->last_until_ns, left = sat_sub(until_ns, run->now);
    if (from_ns > run->now || last > until_ns || left <= 0)
        return until_ns;
    return sat_sub(last, run->now) >= left - left / 8 ? last : max64(last, until_ns - left / 16);
}

/* Units of a quota share one end. It stays while some are held, so that the balance need not be emptied. */
static int64_t common_end(const struct lease_run *run, int64_t from_ns, int64_t until_ns)
{
    const struct lease *lease = run->lease;
    if (lease->terms.kind == LEASE_BUCKET)
        return coarse_end(run, from_ns, until_ns);
    return lease->until_ns > run->now && run->held > 0 ? lease->until_ns : max64(until_ns, lease->until_ns);
}

bool weir_lease_grant(struct lease_run *run, int64_t units, int64_t from_ns, int64_t until_ns)
{
    struct lease *lease = run->lease;
    int64_t end = common_end(run, from_ns, until_ns);
    bool falls =
        lease->terms.kind == LEASE_QUOTA && end < lease->last_until_ns; /* the balance's law forbids it */
    if (until_ns <= run->now || end <= from_ns || falls || run->out->grant_count == LEASE_GRANTS_MAX) {
        lease->dropped = sat_add(lease->dropped, units);
        return false;
    }
    lease->until_ns = max64(lease->until_ns, end);
    lease->last_until_ns = max64(lease->last_until_ns, end);
    lease->last_from_ns = max64(lease->last_from_ns, from_ns);
    run->out->grants[run->out->grant_count++] = (struct lease_grant){units, from_ns, end};
    run->held = sat_add(run->held, units);
    run->wanted = max64(0, sat_sub(run->wanted, units)); /* those who wait are served from it */
    return true;
}
