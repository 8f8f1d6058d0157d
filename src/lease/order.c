/* SPDX-License-Identifier: MIT */
#include "lease/internal.h"
#include "lease/ticket.h"

enum {
    CHUNKS_MAX = 1000, /* of one order */
    READY_BASES = 2,   /* no more than so many times base is kept ready, */
    READY_PART = 16,   /* or than all nodes together may keep of all, */
    READY_LIVES = 4,   /* nor for longer than units live so many times, */
    READY_OFTEN = 4,   /* nor replaced more often in a life; */
    READY_SHARE = 4,   /* and nothing if a base for each node is more than this part of all */
    LAST_PART = 32     /* of a window: for so little its age is not asked for */
};

size_t weir_lease_flying(const struct lease *lease, int32_t op)
{
    size_t count = 0;
    for (size_t i = 0; i < lease->in_flight; i++)
        count += lease->flight[i].op == op;
    return count;
}

static bool give_order(struct lease_run *run, int32_t op, int64_t chunks, int64_t chunk)
{
    struct lease *lease = run->lease;
    if (lease->in_flight == LEASE_FLIGHT_MAX || run->out->order_count == LEASE_ORDERS_MAX)
        return false;
    uint64_t id = ++lease->next_id, epoch = lease->epoch;
    run->out->orders[run->out->order_count++] =
        (struct lease_order){.id = id, .op = op, .epoch = epoch, .chunks = chunks, .chunk = chunk};
    size_t at = lease->in_flight++;
    lease->flight[at].id = id;
    lease->flight[at].epoch = epoch;
    lease->flight[at].op = op;
    lease->flight[at].sent_ns = run->now;
    lease->flight[at].chunks = chunks;
    return true;
}

/* ---- what there is to be had ---- */

/* What is spent in four round trips: a server of a tier may have to ask others first. Where each chunk is a
 * write, found or not, only a part of what is left: others ask for it as well. */
static int64_t spent_soon(const struct lease *lease)
{
    int64_t units = mul_div(lease->rate, min64(sat_mul(4, lease->round_ns), LEASE_SEC), LEASE_SEC);
    if (lease->terms.kind == LEASE_QUOTA && !lease->timed)
        units = min64(units, weir_ticket_left(&lease->terms, lease->used, 0) / 4);
    return units;
}

static int64_t terms_all_units(const struct lease_terms *terms)
{
    return terms->kind == LEASE_BUCKET ? terms->burst : terms->total;
}

/* There is not enough for all, or was not lately: then units are for those who are here, and not for who may
 * come. */
static bool is_scarce(const struct lease_run *run)
{
    const struct lease *lease = run->lease;
    const struct lease_terms *terms = &lease->terms;
    bool lately = lease->scarce_ns != 0 && sat_sub(run->now, lease->scarce_ns) < sat_mul(2, terms->window_ns);
    return lately || sat_mul(lease->options.nodes, terms->base) > terms_all_units(terms) / READY_SHARE;
}

/* For who comes again, as much as he was refused. */
static int64_t kept_ready(const struct lease_run *run)
{
    const struct lease *lease = run->lease;
    int64_t most = sat_mul(READY_BASES, lease->terms.base), nodes = lease->options.nodes;
    if (nodes > 1)
        most = max64(most, terms_all_units(&lease->terms) / sat_mul(READY_PART, nodes));
    return is_scarce(run) ? 0 : min64(lease->at_once, most);
}

int64_t weir_lease_low(const struct lease_run *run)
{
    const struct lease *lease = run->lease;
    int64_t part = mul_div(lease->terms.chunk, lease->options.prefetch_percent, 100) + 1;
    int64_t low = max64(max64(part, spent_soon(lease)), kept_ready(run));
    return lease->options.most_held ? min64(low, lease->options.most_held) : low;
}

bool weir_lease_active(const struct lease_run *run)
{
    return run->wanted > 0 || run->lease->rate > 0 || run->spent > run->lease->rate_spent;
}

static int64_t terms_life(const struct lease_terms *terms)
{
    return terms->kind == LEASE_BUCKET ? weir_ticket_life(terms) : terms->window_ns;
}

bool weir_lease_keeps_ready(const struct lease_run *run)
{
    const struct lease *lease = run->lease;
    int64_t ready = min64(lease->options.ready_ns, sat_mul(READY_LIVES, terms_life(&lease->terms)));
    bool lately = lease->busy_ns != 0 && sat_sub(run->now, lease->busy_ns) < ready;
    return lately && !weir_lease_active(run) && !is_scarce(run);
}

/* Nobody waits for what is prefetched. */
static bool may_prefetch(const struct lease_run *run)
{
    return weir_lease_active(run) || (weir_lease_keeps_ready(run) && run->now >= run->lease->idle_at_ns);
}

/* Somebody was refused only because a ticket that is here has not started: more of them would not help. */
static bool ticket_has_to_wait(const struct lease_run *run)
{
    const struct lease *lease = run->lease;
    return lease->terms.kind == LEASE_BUCKET && run->wanted <= 1 && run->now < lease->last_from_ns &&
           run->held >= weir_lease_low(run);
}

/* What was asked for and may still come. An order that has taken far longer than others is not counted on; it
 * holds its place in the flight until its time is over. */
static int64_t chunks_coming(const struct lease_run *run, size_t *orders)
{
    const struct lease *lease = run->lease;
    int64_t patience = max64(sat_mul(8, lease->round_ns), 20 * LEASE_MS), sum = 0;
    *orders = 0;
    for (size_t i = 0; i < lease->in_flight; i++)
        if (lease->flight[i].op == LEASE_TAKE && sat_sub(run->now, lease->flight[i].sent_ns) < patience) {
            sum = sat_add(sum, lease->flight[i].chunks);
            ++*orders;
        }
    return sum;
}

static int64_t chunks_to_take(const struct lease_run *run)
{
    const struct lease *lease = run->lease;
    int64_t chunk = lease->terms.chunk, most = lease->options.most_held;
    size_t orders = weir_lease_flying(lease, LEASE_TAKE), fresh;
    int64_t coming = sat_mul(chunks_coming(run, &fresh), chunk), have = sat_add(run->held, coming);
    int64_t need = sat_sub(run->wanted, coming);
    if (orders >= (size_t)lease->options.most_chunks || ticket_has_to_wait(run))
        return 0;
    if (need > 0) {
        int64_t room = most ? max64(0, sat_sub(most, sat_add(have, need))) : INT64_MAX;
        need = min64(sat_add(need, min64(spent_soon(lease), room)), lease->terms.total);
        return clamp64(div_up(need, chunk), 1, CHUNKS_MAX);
    }
    int64_t low = weir_lease_low(run);
    if (fresh != 0 || have >= low || !may_prefetch(run) || (most && sat_add(have, chunk) > most))
        return 0; /* one prefetch at a time */
    return clamp64(div_up(sat_sub(low, have), chunk), 1, CHUNKS_MAX);
}

/* Could units that are asked for now still be spent? */
static bool worth_taking(const struct lease_run *run)
{
    const struct lease *lease = run->lease;
    int64_t ends = weir_lease_deadline(lease);
    /* Ends never fall: after a longer window units of a short one would be dropped. */
    return lease->timed || (ends > sat_add(run->now, lease->round_ns) && ends >= lease->last_until_ns);
}

static void order_take(struct lease_run *run)
{
    struct lease *lease = run->lease;
    if (lease->exhausted && lease->more_ns != 0 && run->now >= lease->more_ns)
        lease->exhausted = false;
    if (lease->exhausted)
        return;
    int64_t chunks = chunks_to_take(run);
    if (chunks == 0 || !give_order(run, LEASE_TAKE, chunks, 0))
        return;
    if (!weir_lease_active(run))
        lease->idle_at_ns = sat_add(run->now, terms_life(&lease->terms) / READY_OFTEN);
}

/* ---- turning ---- */

/* Rule (3) is in turn_at_ns. Lazily: an epoch that nobody wants units of is not begun, and where some only
 * keep units ready, one of them begins it and the others hear of that. */
static void order_turn(struct lease_run *run)
{
    struct lease *lease = run->lease;
    int64_t lasted =
        lease->exhausted_ns ? sat_sub(lease->exhausted_ns, lease->seen_ns) : lease->terms.window_ns;
    int64_t chunk = weir_chunk_next(&lease->terms, lease->used, max64(lasted, 0), lease->options.nodes);
    if (run->now >= lease->turn_at_ns && !weir_lease_flying(lease, LEASE_TURN))
        (void)give_order(run, LEASE_TURN, 0, chunk);
}

/* He knows no end of this epoch that lies ahead, and its age may tell one: at best that it began when he
 * first saw it. For the very last of a window that is not worth a write. */
static bool is_epoch_end_unsure(const struct lease_run *run)
{
    const struct lease *lease = run->lease;
    int64_t window = lease->terms.window_ns, soon = sat_add(run->now, lease->round_ns);
    int64_t best = sat_sub(sat_add(lease->seen_ns, window), lease->options.guard_ns);
    return !lease->asked_once && !lease->exhausted && weir_lease_deadline(lease) <= soon &&
           best > sat_add(soon, window / LAST_PART);
}

/* A write shortly before the turn, so that rule (2) gives almost the whole of the next window; or one to hear
 * of the turn of others. */
static void order_probe(struct lease_run *run)
{
    struct lease *lease = run->lease;
    bool due = run->now >= lease->probe_at_ns && run->now < lease->turn_at_ns &&
               lease->answered_ns < lease->probe_at_ns &&
               (weir_lease_active(run) || weir_lease_keeps_ready(run));
    bool unsure = run->wanted > 0 && run->now < lease->turn_at_ns && is_epoch_end_unsure(run);
    if ((due || unsure) && !weir_lease_flying(lease, LEASE_PROBE) && give_order(run, LEASE_PROBE, 0, 0) &&
        due)
        lease->probe_at_ns = WEIR_FOREVER;
}

/* ---- giving back ---- */

void weir_lease_return(struct lease_run *run, int64_t chunks)
{
    if (chunks > 0 && run->lease->up && run->lease->terms.kind == LEASE_QUOTA)
        (void)give_order(run, LEASE_RETURN, chunks, run->lease->terms.chunk);
}

/* Rule (4): first they leave the balance, then they are returned, and to their own epoch only. */
static void order_return(struct lease_run *run, int64_t chunks)
{
    struct lease *lease = run->lease;
    if (chunks <= 0)
        return;
    run->out->withdraw = chunks;
    run->out->chunk = lease->terms.chunk;
    lease->withdraw_epoch = lease->epoch;
    lease->withdraw_most = chunks;
}

void weir_lease_withdrew(struct lease_run *run, int64_t chunks)
{
    struct lease *lease = run->lease;
    if (lease->withdraw_epoch == lease->epoch && lease->withdraw_epoch != 0)
        weir_lease_return(run, clamp64(chunks, 0, lease->withdraw_most));
    lease->withdraw_epoch = 0;
}

static void order_relinquish(struct lease_run *run)
{
    struct lease *lease = run->lease;
    int64_t base = lease->terms.base;
    if (run->now < lease->return_at_ns)
        return;
    lease->return_at_ns =
        sat_add(run->now, min64(lease->options.return_every_ns, lease->terms.window_ns / 4));
    if (lease->terms.kind == LEASE_QUOTA && !lease->sharing && lease->withdraw_epoch == 0 &&
        !weir_lease_flying(lease, LEASE_RETURN) &&
        run->held > mul_div(base, lease->options.above_percent, 100))
        order_return(run, (run->held - max64(base, weir_lease_low(run))) / lease->terms.chunk);
}

void weir_lease_leave(struct lease_run *run)
{
    struct lease *lease = run->lease;
    if (lease->leaving)
        return;
    lease->leaving = true;
    lease->leave_at_ns = sat_add(run->now, lease->options.answer_ns);
    if (lease->up && !lease->sharing && lease->terms.kind == LEASE_QUOTA && lease->terms.chunk != 0)
        order_return(run, run->held / lease->terms.chunk);
}

/* ---- all of it ---- */

/* Who was there in this window has units in the next one as soon as it may begin, and is not refused first;
 * where nobody was, one of those who keep units ready begins it. */
static bool is_its_lot(const struct lease_run *run)
{
    const struct lease *lease = run->lease;
    return lease->busy_ns > lease->seen_ns || run->now >= lease->idle_turn_ns;
}

static void ask_quota(struct lease_run *run)
{
    if (!run->lease->timed) {
        order_probe(run);
        if (weir_lease_active(run) || (weir_lease_keeps_ready(run) && is_its_lot(run)))
            order_turn(run);
    }
    if (worth_taking(run))
        order_take(run);
}

static void ask_bucket(struct lease_run *run)
{
    if (run->lease->stale && weir_lease_active(run))
        order_turn(run);
    order_take(run);
}

void weir_lease_ask(struct lease_run *run)
{
    struct lease *lease = run->lease;
    if (!lease->up || lease->leaving || run->now < lease->retry_at_ns)
        return;
    if (run->now >= lease->look_at_ns && !weir_lease_flying(lease, LEASE_LOOK) &&
        give_order(run, LEASE_LOOK, 0, 0))
        lease->look_at_ns = WEIR_FOREVER;
    if (lease->epoch == 0 || lease->terms.chunk == 0)
        return;
    if (lease->terms.kind == LEASE_BUCKET)
        ask_bucket(run);
    else
        ask_quota(run);
    order_relinquish(run);
}
