/* SPDX-License-Identifier: MIT */
#include "lease/internal.h"
#include "lease/ticket.h"

/* A write that was applied: its place in the order of the coordinator's writes is known. */
static bool reply_is_write(const struct lease_reply *reply)
{
    return reply->outcome == LEASE_DONE && reply->op != LEASE_LOOK && !reply->read;
}

/* Out of the flight. false: nobody has asked, or it is too late: whatever it says is not believed. */
static bool match_order(struct lease *lease, const struct lease_event *event, int64_t now, int64_t *sent,
                        int64_t *chunks)
{
    for (size_t i = 0; i < lease->in_flight; i++) {
        if (lease->flight[i].id != event->reply.id || lease->flight[i].op != event->reply.op)
            continue;
        /* Sent is no later than it left the machine or was handed on, whichever is later, and not after now.
         */
        *sent = clamp64(event->sent_ns, lease->flight[i].sent_ns, max64(now, lease->flight[i].sent_ns));
        *chunks = lease->flight[i].chunks;
        lease->flight[i] = lease->flight[--lease->in_flight];
        return true;
    }
    return false;
}

void weir_lease_doubt(struct lease_run *run, size_t at)
{
    struct lease *lease = run->lease;
    int64_t sent = lease->flight[at].sent_ns;
    if (lease->flight[at].op == LEASE_TAKE) /* rule (1): perhaps taken, and never ours */
        lease->doubtful = sat_add(lease->doubtful, lease->flight[at].chunks);
    lease->flight[at] = lease->flight[--lease->in_flight];
    weir_lease_unanswered(run, sent, 0);
}

static void measure_round_trip(struct lease *lease, int64_t round)
{
    round = clamp64(round, 1, 10 * LEASE_SEC);
    lease->round_ns = lease->round_ns == 0 ? round : lease->round_ns - lease->round_ns / 8 + round / 8;
}

/* An age must not contradict what the node knows by its own clock: when it first saw the epoch, and when it
 * had not begun. A coordinator's clock that leapt by more than the guard is found out by whoever knows
 * either. */
static bool is_plausible(const struct lease_run *run, int64_t age, int64_t sent)
{
    const struct lease *lease = run->lease;
    int64_t guard = lease->options.guard_ns;
    bool too_young = sat_add(age, guard) < span_down(lease, sat_sub(sent, lease->seen_ns));
    bool too_old =
        lease->before_ns >= 0 && sat_sub(age, guard) > span_up(lease, sat_sub(run->now, lease->before_ns));
    return !too_young && !too_old;
}

/* Who has come in the middle of a window turns it later than others (rule (3)), and perhaps nobody tells him
 * of their turn: by the time of his own the next one may be used up as well. So he asks when they should have
 * turned, and again while they have not, less and less often. The age only says when to ask: nothing is spent
 * or turned by it. */
static void expect_turn(const struct lease_run *run, int64_t age, int64_t sent)
{
    struct lease *lease = run->lease;
    int64_t window = lease->terms.window_ns, over = sat_add(sat_sub(sent, age), window);
    int64_t latest = span_up(lease, window) - window + min64(window / 200, 100 * LEASE_MS); /* of a turn */
    int64_t at = sat_add(over, sat_add(latest, lease->round_ns));
    if (at <= run->now)
        at = weir_lease_active(run) ? sat_add(run->now, sat_sub(run->now, over)) : WEIR_FOREVER;
    if (at < lease->turn_at_ns - window / 100) /* else his own turn tells as much */
        lease->probe_at_ns = min64(lease->probe_at_ns, at);
}

/* Rule (2), the second best: the age by the coordinator's clock, which may be wrong by the guard. Only of a
 * write: what is read may be old. */
static void use_age(struct lease_run *run, const struct lease_reply *reply, int64_t sent)
{
    struct lease *lease = run->lease;
    bool none = reply->age_ns < 0 || lease->options.no_age;
    if (lease->terms.chunk == 0)
        return;
    if (!none && !lease->timed)
        expect_turn(run, reply->age_ns, sent);
    /* Who knows enough by himself does without: no step of the coordinator's clock reaches him. When that is
     * over, which it is as good as within a round trip, he asks again. */
    if (!none && !reply->age_exact && weir_lease_deadline(lease) > sat_add(run->now, lease->round_ns))
        return;
    lease->asked_once = true;
    if (none || (!reply->age_exact && !is_plausible(run, reply->age_ns, sent)))
        return;
    int64_t age = span_up(lease, reply->age_ns), window = lease->terms.window_ns;
    int64_t guard = reply->age_exact ? 0 : lease->options.guard_ns;
    weir_lease_before(lease, max64(-1, sat_sub(sat_sub(sent, age), guard)));
    /* Rule (3), for a pool that nobody has used for long: over by far, by the clock of those who keep it. */
    int64_t turning = max64(clamp64(window / 4, 60 * LEASE_SEC, 600 * LEASE_SEC), lease->options.guard_ns);
    int64_t idle_at =
        sat_add(run->now, span_up(lease, max64(0, sat_sub(sat_add(window, turning), reply->age_ns))));
    lease->turn_at_ns = min64(lease->turn_at_ns, idle_at);
}

/* A coordinator that has lost all it knew begins again with low numbers. That is believed when by this node's
 * own clock the epoch it knows is over for everybody. */
static bool began_anew(const struct lease *lease, const struct lease_reply *reply, int64_t sent)
{
    int64_t longest = max64(lease->terms.window_ns, weir_ticket_life(&lease->terms));
    return reply->op != LEASE_LOOK && !reply->read && lease->terms.chunk != 0 &&
           sent >= sat_add(lease->seen_ns, span_up(lease, longest));
}

/* Which epoch does it speak of? false: of one that is over. */
static bool follow_epoch(struct lease_run *run, const struct lease_reply *reply, int64_t sent)
{
    struct lease *lease = run->lease;
    bool made = reply->op == LEASE_TURN && reply->outcome == LEASE_DONE;
    if (reply->other)
        lease->answered_ns = -1; /* by whom, nobody knows */
    if (reply->epoch > lease->epoch) {
        weir_lease_enter(run, reply->epoch, &reply->terms, max64(lease->answered_ns, made ? sent : -1));
    } else if (reply->epoch < lease->epoch) {
        if (!began_anew(lease, reply, sent)) {
            /* It was sent before this epoch began; but if the coordinator goes back and forth, an answer
             * of long ago is no proof of that. */
            if (reply_is_write(reply) && !reply->other && sent < lease->seen_ns)
                weir_lease_before(lease, sent);
            return false;
        }
        lease->answered_ns = -1;
        weir_lease_enter(run, reply->epoch, &reply->terms, -1);
    } else if (made) {
        weir_lease_before(lease, sent); /* its own order made this one: it saw it before it heard */
    }
    weir_lease_learn(run, &reply->terms);
    if (reply_is_write(reply))
        lease->answered_ns = max64(lease->answered_ns, sent);
    return true;
}

/* Those who were told the same time do not come together. Tickets may be had so long before their start that
 * nothing is lost by it. */
static int64_t spread_retry(struct lease *lease)
{
    if (lease->terms.kind != LEASE_BUCKET)
        return 0;
    int64_t apart = mul_div(lease->terms.chunk, lease->terms.window_ns, lease->terms.total);
    return random_below(&lease->random, min64(sat_mul(16, apart), weir_ticket_ahead(&lease->terms) / 2));
}

static void note_exhausted(struct lease_run *run, const struct lease_reply *reply)
{
    struct lease *lease = run->lease;
    bool bucket = lease->terms.kind == LEASE_BUCKET;
    int64_t retry = min64(reply->retry_ns, TICKET_WINDOW_MAX);
    lease->exhausted = true;
    lease->more_ns = 0;
    if (retry > 0)
        lease->more_ns = sat_add(run->now, sat_add(span_up(lease, retry), spread_retry(lease)));
    else if (lease->timed || bucket) /* it does not say when: ask now and then */
        lease->more_ns = sat_add(run->now, 10 * LEASE_MS + random_below(&lease->random, 40 * LEASE_MS));
    if (!reply->stale &&
        reply->units == 0) /* else there is some: without a number, or less than was asked for */
        lease->scarce_ns = max64(run->now, 1);
    if (lease->exhausted_ns == 0 && !bucket)
        run->out->told |= LEASE_EXHAUSTED;
    if (lease->exhausted_ns == 0)
        lease->exhausted_ns = max64(run->now, 1);
}

static void count_used_tickets(struct lease *lease, const struct lease_reply *reply)
{
    if (reply->op == LEASE_TAKE)
        lease->used = sat_add(lease->used, clamp64(reply->chunks, 0, TICKET_COUNT_MAX));
    if (reply->left >= 0 && lease->terms.chunk != 0)
        lease->used =
            max64(lease->used, max64(0, sat_sub(lease->terms.total, reply->left)) / lease->terms.chunk);
}

/* Rule (1): what was granted goes into the balance; never more than was asked for. */
static void take_granted(struct lease_run *run, const struct lease_reply *reply, int64_t sent, int64_t asked)
{
    struct lease *lease = run->lease;
    int64_t chunk = lease->terms.chunk, most = chunk ? sat_mul(asked, chunk) : TICKET_TOTAL_MAX;
    int64_t units = clamp64(reply->units, 0, most);
    if (reply->exhausted)
        note_exhausted(run, reply);
    if (units == 0)
        return;
    if (lease->leaving) { /* it never was in the balance: rule (4) */
        weir_lease_return(run, chunk ? units / chunk : 0);
        return;
    }
    int64_t from = sat_add(run->now, span_up(lease, reply->starts_ns));
    int64_t until =
        lease->timed ? sat_add(sent, span_down(lease, reply->ends_ns)) : weir_lease_deadline(lease);
    if (!weir_lease_grant(run, units, from, until)) /* it would go on and on */
        weir_lease_unanswered(run, sent, 0);
    else if (lease->terms.kind == LEASE_BUCKET)
        lease->asked_once = true;
}

static void note_stale(struct lease_run *run)
{
    struct lease *lease = run->lease;
    if (lease->stale)
        return;
    /* Numbered anew and dead again before anybody had one: not at once a second time. */
    int64_t wait = lease->asked_once ? 0 : random_below(&lease->random, 2 * max64(lease->round_ns, LEASE_MS));
    lease->stale = true;
    lease->turn_at_ns = sat_add(run->now, wait);
}

static void handle_done(struct lease_run *run, const struct lease_reply *reply, int64_t sent, int64_t asked)
{
    struct lease *lease = run->lease;
    bool bucket = lease->terms.kind == LEASE_BUCKET && lease->terms.chunk != 0;
    if (reply->op != LEASE_RETURN && reply->op != LEASE_TURN)
        lease->timed = bucket || reply->ends_ns >= 0 || reply->age_exact;
    count_used_tickets(lease, reply);
    if (reply_is_write(reply) && reply->op != LEASE_TURN && !bucket)
        use_age(run, reply, sent);
    if (reply->op == LEASE_TAKE)
        take_granted(run, reply, sent, asked);
    if (bucket && reply->stale)
        note_stale(run);
}

/* Not applied: for a bucket that is not to be numbered anew yet, that is an answer like another. */
static bool bucket_goes_on(struct lease *lease, const struct lease_reply *reply)
{
    if (reply->op == LEASE_RETURN)
        return true;
    if (reply->op != LEASE_TURN || lease->terms.kind != LEASE_BUCKET)
        return false;
    lease->stale = false; /* its tickets are alive: on with them */
    lease->turn_at_ns = WEIR_FOREVER;
    return true;
}

/* UNKNOWN, and what was not even sent. */
static void handle_unanswered(struct lease_run *run, const struct lease_reply *reply, int64_t sent,
                              int64_t asked)
{
    struct lease *lease = run->lease;
    bool failed = reply->outcome == LEASE_FAILED;
    if (!failed && reply->op == LEASE_TAKE) /* rule (1): perhaps taken, and never ours */
        lease->doubtful = sat_add(lease->doubtful, asked);
    weir_lease_unanswered(run, sent, failed ? reply->retry_ns : 0);
}

void weir_lease_replied(struct lease_run *run, const struct lease_event *event)
{
    const struct lease_reply *reply = &event->reply;
    struct lease *lease = run->lease;
    int64_t sent, asked;
    if (!match_order(lease, event, run->now, &sent, &asked))
        return;
    bool certain = reply->outcome == LEASE_DONE || reply->outcome == LEASE_MOVED;
    if (reply->epoch == 0 || (!certain && reply->outcome != LEASE_FAILED)) {
        handle_unanswered(run, reply, sent, asked);
        return;
    }
    measure_round_trip(lease, sat_sub(run->now, sent));
    bool newer = reply->epoch > lease->epoch;
    if (!follow_epoch(run, reply, sent)) {
        bool old = reply->op == LEASE_LOOK && lease->terms.chunk != 0; /* as reads may be */
        if (sent > lease->seen_ns && !old) /* answered in an epoch that is over: something is wrong with it */
            weir_lease_unanswered(run, sent, 0);
    } else if (reply->outcome == LEASE_DONE || newer || bucket_goes_on(lease, reply)) {
        weir_lease_answered(run);
        if (reply->outcome == LEASE_DONE)
            handle_done(run, reply, sent, asked);
    } else {
        handle_unanswered(run, reply, sent, asked);
    }
}
