/* SPDX-License-Identifier: MIT */
#include "lease/check.h"

#include "lease/internal.h"

#if WEIR_ASSERTIONS

/* A step, and what follows from it alone. */
struct step {
    const struct lease *before, *after;
    const struct lease_event *event;
    const struct lease_reply *reply; /* that is believed, of an order on the way; NULL: none */
    const struct lease_actions *out;
    int64_t now;
    int64_t sent, asked; /* of that order: when it was sent, chunks */
    bool entered;        /* another epoch */
    bool certain, write; /* the reply: says what was done; says where it stands among writes */
    int64_t granted;     /* units */
    int64_t held, wanted, spent;
    bool active, scarce, ready; /* somebody is there; there is little; somebody was there lately */
};

/* By (1 + rho) / (1 - rho), and by 1 - 2 rho: no clock measures more or less of a span of another. */
static int64_t stretched(const struct step *step, int64_t ns)
{
    int64_t rho = step->after->options.rho_ppm;
    weir_i128 x = (weir_i128)max64(ns, 0) * (1000000 + rho);
    return sat_i128((x + (1000000 - rho) - 1) / (1000000 - rho));
}

static int64_t shrunk(const struct step *step, int64_t ns)
{
    return sat_i128((weir_i128)max64(ns, 0) * (1000000 - 2 * (int64_t)step->after->options.rho_ppm) /
                    1000000);
}

static int64_t all_units(const struct lease_terms *terms)
{
    return terms->kind == LEASE_BUCKET ? terms->burst : terms->total;
}

static int64_t life_of(const struct lease_terms *terms)
{
    return terms->kind == LEASE_BUCKET ? weir_ticket_life(terms) : terms->window_ns;
}

static bool same_terms(const struct lease_terms *one, const struct lease_terms *other)
{
    return one->kind == other->kind && one->total == other->total && one->window_ns == other->window_ns &&
           one->burst == other->burst && one->base == other->base && one->chunk == other->chunk;
}

/* Untimed: nodes turn its epochs. */
static bool is_turned_by_nodes(const struct lease *lease)
{
    return !lease->timed && lease->terms.kind == LEASE_QUOTA && lease->terms.chunk != 0;
}

static size_t count_flying(const struct lease *lease, int32_t op)
{
    size_t count = 0;
    for (size_t i = 0; i < lease->in_flight; i++)
        count += lease->flight[i].op == op;
    return count;
}

static int find_flight(const struct lease *lease, uint64_t id)
{
    for (size_t i = 0; i < lease->in_flight; i++)
        if (lease->flight[i].id == id)
            return (int)i;
    return -1;
}

static const struct lease_order *order_of(const struct step *step, int32_t op)
{
    for (size_t i = 0; i < step->out->order_count; i++)
        if (step->out->orders[i].op == op)
            return &step->out->orders[i];
    return NULL;
}

static bool is_overdue(const struct step *step, const struct lease *lease, int at)
{
    return sat_sub(step->now, lease->flight[at].sent_ns) >= lease->options.answer_ns;
}

/* ---- orders on the way ---- */

static void check_flight(const struct step *step)
{
    const struct lease *before = step->before, *after = step->after;
    const struct lease_reply *reply = &step->event->reply;
    uint64_t last = before->next_id;
    ASSERT(after->in_flight <= LEASE_FLIGHT_MAX);
    for (size_t i = 0; i < step->out->order_count; i++) {
        const struct lease_order *order = &step->out->orders[i];
        ASSERT(order->id > last && order->id <= after->next_id && order->epoch == after->epoch);
        ASSERT(find_flight(after, order->id) >= 0);
        last = order->id;
    }
    for (size_t i = 0; i < after->in_flight; i++) {
        uint64_t id = after->flight[i].id;
        ASSERT(id > before->next_id || find_flight(before, id) >= 0);
        ASSERT(!is_overdue(step, after, (int)i)); /* whatever comes now is late */
        if (step->event->kind == LEASE_REPLIED && id <= before->next_id)
            INVARIANT(52, id != reply->id || after->flight[i].op != reply->op); /* an answer counts once */
    }
    int64_t doubtful = 0;
    for (size_t i = 0; i < before->in_flight; i++) {
        bool take = before->flight[i].op == LEASE_TAKE, overdue = is_overdue(step, before, (int)i);
        bool replied = step->reply && before->flight[i].id == step->reply->id;
        ASSERT(overdue || replied || find_flight(after, before->flight[i].id) >= 0);
        if (take && (overdue || (replied && !step->certain)))
            doubtful = sat_add(doubtful, before->flight[i].chunks);
    }
    if (!step->reply || step->reply->outcome != LEASE_MOVED) /* rule (1): taken, and nobody's */
        ASSERT(after->doubtful == sat_add(before->doubtful, doubtful));
}

static void check_orders(const struct step *step)
{
    const struct lease *after = step->after;
    ASSERT(step->out->order_count == 0 || after->up);
    ASSERT(count_flying(after, LEASE_LOOK) <= 1 && count_flying(after, LEASE_PROBE) <= 1);
    ASSERT(count_flying(after, LEASE_TURN) <= 1);
    ASSERT(count_flying(after, LEASE_TAKE) <= (size_t)after->options.most_chunks);
    for (size_t i = 0; i < step->out->order_count; i++) {
        const struct lease_order *order = &step->out->orders[i];
        ASSERT(order->op == LEASE_RETURN || (!after->leaving && step->now >= after->retry_at_ns));
        ASSERT(order->op != LEASE_PROBE || is_turned_by_nodes(after));
    }
}

static void check_take_order(const struct step *step)
{
    const struct lease *after = step->after;
    const struct lease_order *take = order_of(step, LEASE_TAKE);
    int64_t patience = max64(sat_mul(8, after->round_ns), 20 * LEASE_MS);
    if (!take)
        return;
    ASSERT(take->chunks >= 1 && take->chunks <= 1000 && !after->exhausted);
    if (is_turned_by_nodes(after)) { /* what comes can still be spent */
        int64_t ends = sat_add(after->before_ns, after->terms.window_ns);
        ASSERT(after->before_ns >= 0 && ends > sat_add(step->now, after->round_ns));
        ASSERT(ends >= after->last_until_ns);
    }
    for (size_t i = 0; step->wanted == 0 && i < after->in_flight; i++) /* one prefetch at a time */
        ASSERT(after->flight[i].op != LEASE_TAKE || after->flight[i].id == take->id ||
               sat_sub(step->now, after->flight[i].sent_ns) >= patience);
    if (step->active)
        return;
    ASSERT(step->ready && (step->entered || step->before->idle_at_ns <= step->now));
    ASSERT(after->idle_at_ns >= sat_add(step->now, life_of(&after->terms) / 4));
}

/* Rule (4): a chunk leaves the balance before it is returned, and to its own epoch. */
static void check_return_order(const struct step *step)
{
    const struct lease *before = step->before, *after = step->after;
    const struct lease_order *order = order_of(step, LEASE_RETURN);
    int64_t chunk = after->terms.chunk, withdraw = step->out->withdraw;
    if (order) {
        ASSERT(after->terms.kind == LEASE_QUOTA && order->chunk == chunk && order->chunks > 0);
        if (step->event->kind == LEASE_WITHDREW) {
            ASSERT(before->withdraw_epoch == before->epoch && before->epoch != 0);
            ASSERT(order->chunks <= min64(step->event->reply.chunks, before->withdraw_most));
        } else {
            ASSERT(after->leaving && step->reply && step->reply->op == LEASE_TAKE);
            ASSERT(order->chunks <= min64(step->reply->units / chunk, step->asked));
        }
    }
    if (withdraw <= 0)
        return;
    ASSERT(after->terms.kind == LEASE_QUOTA && !after->sharing && step->out->chunk == chunk);
    ASSERT(after->withdraw_epoch == after->epoch && after->withdraw_most == withdraw);
    ASSERT(sat_mul(withdraw, chunk) <= step->held);
    if (!after->leaving) {
        ASSERT(step->held > mul_div(after->terms.base, after->options.above_percent, 100));
        ASSERT(step->held - withdraw * chunk >= after->terms.base);
    }
}

/* ---- epochs ---- */

/* Numbers go down only when a write says so, after all that was granted is dead. */
static void check_epoch(const struct step *step)
{
    const struct lease *before = step->before, *after = step->after;
    int64_t longest = max64(before->terms.window_ns, weir_ticket_life(&before->terms));
    if (after->terms.chunk != 0)
        ASSERT(after->terms.total > 0 && after->terms.total <= TICKET_TOTAL_MAX &&
               after->terms.window_ns >= TICKET_WINDOW_MIN && after->terms.window_ns <= TICKET_WINDOW_MAX &&
               after->terms.chunk > 0 && after->terms.chunk <= TICKET_TOTAL_MAX && after->terms.base > 0 &&
               after->terms.base <= TICKET_TOTAL_MAX && after->terms.burst >= 0 &&
               after->terms.burst <= TICKET_TOTAL_MAX);
    if (!step->entered) {
        ASSERT(before->terms.chunk == 0 || same_terms(&before->terms, &after->terms));
        return;
    }
    ASSERT(after->epoch == step->event->reply.epoch && after->seen_ns == step->now);
    ASSERT(step->out->clear && (step->out->told & LEASE_REFRESHED)); /* rule (2) */
    if (after->epoch < before->epoch)
        INVARIANT(52, step->reply && step->reply->op != LEASE_LOOK && !step->reply->read &&
                          before->terms.chunk != 0 &&
                          step->sent >= sat_add(before->seen_ns, stretched(step, longest)));
    ASSERT(!after->exhausted || (step->reply && step->reply->exhausted));
    if (is_turned_by_nodes(after)) /* what was kept ready has died */
        ASSERT(after->idle_at_ns == 0 || order_of(step, LEASE_TAKE));
}

/* The latest moment that an age says to lie before the epoch began; -1: it says nothing. */
static int64_t moment_of_age(const struct step *step)
{
    const struct lease_reply *reply = step->reply;
    const struct lease_options *options = &step->after->options;
    if (!step->write || reply->op == LEASE_TURN || reply->age_ns < 0 || options->no_age ||
        reply->epoch != step->after->epoch)
        return -1;
    int64_t guard = reply->age_exact ? 0 : options->guard_ns;
    return max64(-1, sat_sub(sat_sub(step->sent, stretched(step, reply->age_ns)), guard));
}

/* Rule (2): `before` is what lies before the epoch, by its own orders, or by an age; and it only grows. */
static void check_before(const struct step *step)
{
    const struct lease *before = step->before, *after = step->after;
    const struct lease_reply *reply = step->reply;
    int64_t known = before->before_ns, answered = before->answered_ns;
    if (step->entered)
        known = -1;
    if (step->entered && step->event->kind == LEASE_NOTICED)
        known = answered;
    bool speaks = reply && reply->epoch != 0 && (step->certain || reply->outcome == LEASE_FAILED);
    if (speaks) {
        bool made = reply->op == LEASE_TURN && reply->outcome == LEASE_DONE;
        answered = reply->other ? -1 : answered;
        if (reply->epoch > before->epoch)
            known = max64(answered, made ? step->sent : -1);
        else if (reply->epoch == before->epoch && made)
            known = max64(known, step->sent);
        else if (reply->epoch < before->epoch && !step->entered && step->write && !reply->other &&
                 step->sent < before->seen_ns)
            known = max64(known, step->sent);
        if (step->entered && reply->epoch < before->epoch)
            answered = -1;
    }
    ASSERT(after->before_ns >= known);
    INVARIANT(52, after->before_ns <= max64(known, speaks ? moment_of_age(step) : -1));
    if (speaks && step->write && reply->epoch == after->epoch)
        answered = max64(answered, step->sent);
    INVARIANT(52, after->answered_ns <= answered);
}

/* Rule (3): when an epoch may be turned. */
static void check_turn(const struct step *step)
{
    const struct lease *before = step->before, *after = step->after;
    const struct lease_order *turn = order_of(step, LEASE_TURN);
    int64_t window = after->terms.window_ns;
    if (after->turn_at_ns != before->turn_at_ns && is_turned_by_nodes(after)) {
        int64_t least = sat_add(after->seen_ns, stretched(step, window));
        int64_t far = max64(clamp64(window / 4, 60 * LEASE_SEC, 600 * LEASE_SEC), after->options.guard_ns);
        if (step->write && step->reply->age_ns >= 0 &&
            !after->options.no_age) /* nobody has used it for long */
            least =
                min64(least, sat_add(step->now,
                                     stretched(step, sat_sub(sat_add(window, far), step->reply->age_ns))));
        ASSERT(after->turn_at_ns >= least);
    }
    if (!turn)
        return;
    ASSERT(step->now >= after->turn_at_ns && (step->active || step->ready));
    if (after->terms.kind == LEASE_BUCKET)
        ASSERT(after->stale && step->active);
    else
        ASSERT(!after->timed &&
               (step->active || after->busy_ns > after->seen_ns || step->now >= after->idle_turn_ns));
}

/* What is due is asked for. */
static void check_due(const struct step *step)
{
    const struct lease *after = step->after;
    bool full = after->in_flight == LEASE_FLIGHT_MAX || step->out->order_count == LEASE_ORDERS_MAX;
    if (full || !after->up || after->leaving || step->now < after->retry_at_ns || step->out->clear ||
        !is_turned_by_nodes(after))
        return;
    bool its_lot = after->busy_ns > after->seen_ns || step->now >= after->idle_turn_ns;
    if (step->now >= after->turn_at_ns && (step->active || (step->ready && its_lot)))
        ASSERT(count_flying(after, LEASE_TURN) == 1);
    if (step->now >= after->probe_at_ns && step->now < after->turn_at_ns &&
        after->answered_ns < after->probe_at_ns && (step->active || step->ready))
        ASSERT(count_flying(after, LEASE_PROBE) == 1);
}

/* ---- units ---- */

/* Until when what a reply has granted may be spent at the latest. */
static int64_t latest_end(const struct step *step)
{
    const struct lease *after = step->after;
    if (after->timed)
        return sat_add(step->sent, shrunk(step, step->reply->ends_ns));
    return after->before_ns < 0 ? 0 : sat_add(after->before_ns, after->terms.window_ns);
}

static void check_grant(const struct step *step, const struct lease_grant *grant)
{
    const struct lease *before = step->before, *after = step->after;
    bool quota = after->terms.kind == LEASE_QUOTA;
    INVARIANT(51, !quota || grant->until_ns >= before->last_until_ns); /* a deadline never falls */
    if (after->sharing)
        return;
    ASSERT(grant->until_ns > step->now && grant->until_ns > grant->from_ns && grant->units > 0);
    ASSERT(grant->from_ns >= sat_add(step->now, stretched(step, step->reply->starts_ns)));
    bool kept = quota && !step->entered && !step->out->clear; /* units that are there have an end */
    int64_t own = latest_end(step), last = before->last_until_ns, left = sat_sub(own, step->now);
    INVARIANT(56, grant->until_ns <= (kept ? max64(own, before->until_ns) : own));
    if (kept && before->until_ns > step->now && step->held > step->granted)
        ASSERT(grant->until_ns == before->until_ns);
    if (!quota && grant->from_ns <= step->now && last <= own && sat_sub(last, step->now) >= left - left / 8)
        ASSERT(grant->until_ns == last); /* ends are few */
}

/* Rule (1): only what a reply has granted, and no more than was asked for. */
static void check_grants(const struct step *step)
{
    const struct lease *before = step->before, *after = step->after;
    const struct lease_reply *reply = step->reply;
    if (step->out->grant_count > 0 && !after->sharing) {
        INVARIANT(52, reply && reply->op == LEASE_TAKE && reply->outcome == LEASE_DONE);
        INVARIANT(52, reply->epoch == after->epoch && !after->leaving);
        ASSERT(step->granted <= reply->units);
        ASSERT(after->terms.chunk == 0 || step->granted <= sat_mul(step->asked, after->terms.chunk));
    }
    for (size_t i = 0; i < step->out->grant_count; i++)
        check_grant(step, &step->out->grants[i]);
    if (before->until_ns != 0 && step->now >= before->until_ns) {
        ASSERT(step->out->clear);
        if (before->timed && before->terms.kind == LEASE_QUOTA && !step->entered)
            ASSERT(after->idle_at_ns >= sat_add(step->now, stretched(step, before->terms.window_ns) -
                                                               shrunk(step, before->terms.window_ns)));
    }
    ASSERT(after->last_until_ns >= before->last_until_ns && after->until_ns <= after->last_until_ns);
}

static void check_exhausted(const struct step *step)
{
    const struct lease *before = step->before, *after = step->after;
    const struct lease_reply *reply = step->reply;
    bool done = reply && reply->outcome == LEASE_DONE && reply->epoch != 0 && reply->epoch == after->epoch;
    if (done && reply->op == LEASE_TAKE && reply->exhausted) {
        int64_t retry = min64(reply->retry_ns, TICKET_WINDOW_MAX);
        ASSERT(after->exhausted);
        ASSERT(retry <= 0 || after->more_ns >= sat_add(step->now, stretched(step, retry)));
    }
    if (step->out->told & LEASE_EXHAUSTED)
        ASSERT(after->terms.kind == LEASE_QUOTA && (before->exhausted_ns == 0 || step->entered));
    if (step->event->kind == LEASE_MORE && after->exhausted)
        ASSERT(after->more_ns != 0 && after->more_ns <= sat_add(step->now, sat_mul(4, after->round_ns)));
    if (done && after->terms.kind == LEASE_BUCKET && after->terms.chunk != 0 && reply->stale)
        ASSERT(after->stale);
}

/* The balance asks for more below this: what is spent in four round trips, a part of a chunk, and what is
 * kept ready for who was refused, which has bounds. */
static void check_low(const struct step *step)
{
    const struct lease *after = step->after;
    const struct lease_terms *terms = &after->terms;
    int64_t part = mul_div(terms->chunk, after->options.prefetch_percent, 100) + 1;
    int64_t soon = mul_div(after->rate, min64(sat_mul(4, after->round_ns), LEASE_SEC), LEASE_SEC);
    int64_t most = sat_mul(2, terms->base), nodes = after->options.nodes;
    if (terms->kind == LEASE_QUOTA && !after->timed)
        soon = min64(soon, weir_ticket_left(terms, after->used, 0) / 4);
    if (nodes > 1)
        most = max64(most, all_units(terms) / sat_mul(16, nodes));
    int64_t low = max64(max64(part, soon), step->scarce ? 0 : min64(after->at_once, most));
    if (after->options.most_held)
        low = min64(low, after->options.most_held);
    ASSERT(step->out->low == (after->leaving ? 0 : low));
    if (sat_sub(step->now, after->at_once_ns) >= after->options.ready_ns)
        ASSERT(after->at_once == 0);
}

/* ---- a coordinator that does not answer ---- */

static void check_loss(const struct step *step)
{
    const struct lease *before = step->before, *after = step->after;
    int32_t kind = step->event->kind;
    bool away = kind == LEASE_AWAY && !before->up && before->epoch == 0;
    ASSERT(!away || after->lost);
    if (after->lost && !before->lost) {
        ASSERT(step->out->told & LEASE_LOST);
        ASSERT(away ||
               (after->quiet_ns != 0 && sat_sub(step->now, after->quiet_ns) >= after->options.lost_after_ns));
    }
    if (before->lost && !after->lost) /* a connection alone is no answer */
        ASSERT(step->reply && step->certain && (step->out->told & LEASE_RESTORED));
    if (after->retry_at_ns > before->retry_at_ns) {
        ASSERT(after->retry_at_ns >= sat_add(step->now, after->backoff_ns / 2));
        ASSERT((step->reply && step->certain) ||
               after->backoff_ns >= min64(LEASE_SEC, max64(10 * LEASE_MS, 2 * before->backoff_ns)));
    }
}

/* on_loss=share: of each window of its own a part of the total, once, and only when its own units are over.
 */
static void check_share(const struct step *step)
{
    const struct lease *before = step->before, *after = step->after;
    bool shares = after->options.on_loss == LEASE_LOSS_SHARE;
    ASSERT(!before->sharing || after->sharing || step->out->clear);
    ASSERT(after->share_until_ns == before->share_until_ns ||
           (step->now >= before->share_until_ns && after->sharing));
    ASSERT(after->share_until_ns != before->share_until_ns || after->share_units <= before->share_units);
    if (shares && after->lost && after->quiet_ns != 0 && !after->leaving && after->epoch == 0 &&
        after->terms.total != 0)
        ASSERT(after->sharing);
    if (!after->sharing)
        return;
    ASSERT(shares && after->lost);
    if (!before->sharing) {
        bool alive = before->until_ns > step->now && !step->entered;
        bool over = step->now >= sat_add(before->before_ns, before->terms.window_ns);
        ASSERT(!alive || (step->held <= step->granted && !after->exhausted));
        ASSERT(!after->exhausted || after->timed || over || after->before_ns < 0);
    }
    if (after->share_until_ns != before->share_until_ns)
        ASSERT(after->share_units <= after->terms.total / after->options.nodes);
    ASSERT(step->granted <=
           max64(0, sat_sub(after->share_units, max64(0, sat_sub(step->spent, after->share_spent)))));
}

/* ---- all ---- */

static void describe_reply(struct step *step)
{
    const struct lease *before = step->before;
    const struct lease_reply *reply = &step->event->reply;
    int at = step->event->kind == LEASE_REPLIED ? find_flight(before, reply->id) : -1;
    if (at < 0 || before->flight[at].op != reply->op || is_overdue(step, before, at))
        return;
    int64_t given = before->flight[at].sent_ns;
    step->reply = reply;
    step->sent = clamp64(step->event->sent_ns, given, max64(step->now, given));
    step->asked = before->flight[at].chunks;
    step->certain = reply->epoch != 0 && (reply->outcome == LEASE_DONE || reply->outcome == LEASE_MOVED);
    step->write = step->certain && reply->outcome == LEASE_DONE && reply->op != LEASE_LOOK && !reply->read;
    if (reply->outcome == LEASE_FAILED) /* not applied, for sure */
        step->certain = true;
}

static void describe_demand(struct step *step)
{
    const struct lease *after = step->after;
    const struct lease_terms *terms = &after->terms;
    int64_t ready = min64(after->options.ready_ns, sat_mul(4, life_of(terms)));
    step->active = step->wanted > 0 || after->rate > 0 || step->spent > after->rate_spent;
    step->scarce =
        (after->scarce_ns != 0 && sat_sub(step->now, after->scarce_ns) < sat_mul(2, terms->window_ns)) ||
        sat_mul(after->options.nodes, terms->base) > all_units(terms) / 4;
    step->ready =
        after->busy_ns != 0 && sat_sub(step->now, after->busy_ns) < ready && !step->active && !step->scarce;
}

void weir_lease_check(const struct lease *before, const struct lease_event *event,
                      const struct lease_balance_view *balance, int64_t now, const struct lease *after,
                      const struct lease_actions *actions)
{
    struct step step = {.before = before, .after = after, .event = event, .out = actions, .now = now};
    for (size_t i = 0; i < actions->grant_count; i++)
        step.granted = sat_add(step.granted, actions->grants[i].units);
    step.held = sat_add(actions->clear ? min64(balance->held, 0) : balance->held, step.granted);
    step.wanted = max64(0, sat_sub(max64(balance->wanted, 0), step.granted));
    step.spent = balance->spent;
    step.entered = after->epoch != before->epoch;
    describe_reply(&step);
    describe_demand(&step);
    check_flight(&step);
    check_epoch(&step);
    check_before(&step);
    check_grants(&step);
    check_exhausted(&step);
    check_loss(&step);
    check_share(&step);
    check_orders(&step);
    check_take_order(&step);
    check_return_order(&step);
    check_turn(&step);
    check_due(&step);
    check_low(&step);
}

/* ---- replies ---- */

void weir_reply_check(const struct lease_order *order, const struct lease_reply *reply)
{
    ASSERT(reply->id == order->id && reply->op == order->op);
    if (reply->outcome != LEASE_DONE || (order->op != LEASE_TAKE && order->op != LEASE_RETURN))
        return;
    ASSERT(reply->chunks >= 0 && reply->chunks <= max64(order->chunks, 0));
    ASSERT(reply->terms.chunk == 0 || reply->units <= sat_mul(reply->chunks, reply->terms.chunk));
}

/* ---- pools ---- */

static bool is_dead(const struct lease_pool *pool, int64_t now, int64_t *ends)
{
    int64_t starts;
    return !weir_ticket_span(&pool->terms, pool->used, sat_sub(now, pool->began_ns), &starts, ends);
}

/* An epoch ends by the order of a node that has seen it, or by the pool's own clock. */
static void check_pool_epoch(const struct lease_pool *before, const struct lease_order *order, int64_t now,
                             const struct lease_pool *after)
{
    bool bucket = before->terms.kind == LEASE_BUCKET;
    int64_t most = after->terms.kind == LEASE_BUCKET ? after->terms.burst / 2 : after->terms.total, ends = 0;
    ASSERT(after->terms.chunk >= 1 && after->terms.chunk <= max64(most, 1));
    if (after->epoch == before->epoch) {
        ASSERT(same_terms(&before->terms, &after->terms) && before->began_ns == after->began_ns);
        ASSERT(after->used >= before->used && after->returned >= before->returned);
        return;
    }
    ASSERT(after->epoch == before->epoch + 1);
    if (before->way == POOL_TURNED)
        ASSERT(order->op == LEASE_TURN && order->epoch == before->epoch);
    else if (!bucket)
        ASSERT(sat_sub(now, before->began_ns) >= before->terms.window_ns);
    if (after->terms.kind == LEASE_QUOTA)
        ASSERT(after->began_ns == now);
    if (!bucket)
        return;
    struct lease_terms next = before->next;
    next.chunk = before->terms.chunk;
    bool dead = is_dead(before, now, &ends), changed = !same_terms(&before->terms, &next);
    int64_t starts, numbered = weir_ticket_count(&before->terms);
    (void)weir_ticket_span(&before->terms, before->used, sat_sub(now, before->began_ns), &starts, &ends);
    ASSERT(dead || changed || before->used >= numbered || starts > weir_ticket_life(&before->terms));
    int64_t longest = sat_add(weir_ticket_ahead(&before->terms), weir_ticket_life(&before->terms));
    if (!dead && after->terms.kind == LEASE_BUCKET) /* nothing starts while the last one lives */
        ASSERT(after->began_ns > sat_add(now, min64(ends, longest)));
}

/* Every ticket that goes out may be spent for as long as the reply says. */
static void check_pool_tickets(const struct lease_pool *before, int64_t now, const struct lease_pool *after,
                               const struct lease_reply *reply)
{
    const struct lease_terms *terms = &after->terms;
    int64_t elapsed = sat_sub(now, after->began_ns), first = after->used - reply->chunks, starts, ends;
    ASSERT(after->used >= reply->chunks && (before->epoch != after->epoch || first >= before->used));
    if (terms->kind == LEASE_BUCKET) {
        const int64_t edges[] = {first, after->used - 1};
        for (size_t i = 0; reply->chunks > 0 && i < 2; i++) {
            ASSERT(weir_ticket_span(terms, edges[i], elapsed, &starts, &ends));
            ASSERT(starts <= reply->starts_ns && reply->ends_ns <= ends);
            ASSERT(starts <= weir_ticket_ahead(terms));
        }
        return;
    }
    int64_t sum = 0;
    for (int64_t i = 1; i <= min64(reply->chunks, 64); i++)
        sum = sat_add(sum, weir_ticket_units(terms, first + i, after->returned));
    ASSERT(reply->chunks > 64 || sum == reply->units);
    if (reply->ends_ns >= 0)
        ASSERT(sat_add(now, reply->ends_ns) <= max64(now, sat_add(after->began_ns, terms->window_ns)));
}

void weir_pool_check(const struct lease_pool *before, const struct lease_order *order, int64_t now,
                     const struct lease_pool *after, const struct lease_reply *reply)
{
    weir_reply_check(order, reply);
    if (reply->units > 0 && reply->ends_ns >= 0)
        ASSERT(reply->starts_ns >= 0 && reply->starts_ns < reply->ends_ns);
    check_pool_epoch(before, order, now, after);
    ASSERT(after->returned >= 0 &&
           after->returned <= max64(after->used, 0)); /* only what is out comes back */
    if (after->epoch == before->epoch && after->returned != before->returned)
        ASSERT(order->op == LEASE_RETURN && order->epoch == after->epoch);
    if (order->op == LEASE_TAKE)
        check_pool_tickets(before, now, after, reply);
}

#endif
