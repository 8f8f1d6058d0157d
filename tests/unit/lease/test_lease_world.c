/* SPDX-License-Identifier: MIT */
/*
 * Some lease machines, one pool, and a world between them that loses, delays, repeats and reorders what they
 * say; nodes stop, die and come back; clocks have any offset and run wrong by rho. An account outside, which
 * alone knows the real time, holds every unit that is spent against the law of lease.h.
 */
#include "base/sat.h"
#include "unit/lease/lease_kit.h"

#define MS WEIR_MS
enum { NODES_MAX = 5, MESSAGES_MAX = 512 };

enum message_kind { ORDER, REPLY, NOTICE, MORE_THERE };
struct message {
    int64_t at; /* real time of its arrival */
    int32_t kind;
    int node;
    uint32_t life; /* of the node: nothing reaches its next life */
    struct lease_order order;
    struct lease_reply reply;
    int64_t sent; /* by the node's clock */
};

struct member {
    struct kit_node kit;
    int64_t offset, rate_ppm, paused_until;
    uint32_t life;
};

struct world {
    struct rng rng;
    int64_t now;             /* real */
    int64_t wall, wall_most; /* the coordinator's clock is wrong by `wall` */
    bool faults, changes;
    struct lease_pool pool, behind; /* what is read may be of a server that is behind */
    struct lease_options options;
    int nodes;
    struct member member[NODES_MAX];
    struct message messages[MESSAGES_MAX];
    size_t message_count;
    uint64_t epoch; /* that the account is of */
    int64_t epoch_spent;
    weir_i128 level; /* BUCKET: units * window */
    int64_t level_at;
    int64_t spent, offered, epochs; /* in all; totals of epochs */
};

static bool chance(struct world *w, int64_t percent)
{
    return rng_between(&w->rng, 0, 99) < percent;
}

static int64_t clock_of(const struct world *w, int i)
{
    const struct member *m = &w->member[i];
    return m->offset + w->now + w->now / 1000000 * m->rate_ppm;
}

/* ---- the account ---- */

static void judge_quota(struct world *w, int i, int64_t n)
{
    if (w->epoch != w->pool.epoch) {
        w->epoch = w->pool.epoch;
        w->epoch_spent = 0;
        w->offered += w->pool.terms.total;
        w->epochs++;
    }
    w->epoch_spent += n;
    CHECK(w->epoch_spent <= w->pool.terms.total);
    CHECK_EQ(w->member[i].kit.lease.epoch, w->pool.epoch); /* units of another one */
    if (w->pool.way == POOL_TURNS)
        CHECK(w->now < w->pool.began_ns + w->pool.terms.window_ns);
}

static void judge_bucket(struct world *w, int64_t n)
{
    const struct lease_terms *terms = &w->pool.terms;
    weir_i128 full = (weir_i128)terms->burst * terms->window_ns;
    w->level += (weir_i128)terms->total * (w->now - w->level_at);
    w->level = w->level > full ? full : w->level;
    w->level_at = w->now;
    w->level -= (weir_i128)n * terms->window_ns;
    CHECK(w->level >= 0);
}

/* ---- what is said ---- */

static void post(struct world *w, struct message message)
{
    int64_t delay = rng_between(&w->rng, MS / 10, 3 * MS);
    if (w->faults && chance(w, 5))
        return;
    if (w->faults && chance(w, 3))
        delay = rng_between(&w->rng, 0, w->pool.terms.window_ns * 2);
    if (w->message_count == MESSAGES_MAX)
        return;
    message.at = w->now + delay;
    w->messages[w->message_count++] = message;
}

static void drain(struct world *w, int i)
{
    struct message message = {.kind = ORDER, .node = i, .life = w->member[i].life};
    while (kit_pop(&w->member[i].kit, &message.order, &message.sent)) {
        post(w, message);
        if (w->faults && message.order.op != LEASE_RETURN && chance(w, 3))
            post(w, message);
    }
}

static void arrive_order(struct world *w, const struct message *order)
{
    uint64_t epoch = w->pool.epoch;
    struct message reply = *order;
    int64_t now = w->pool.way == POOL_TURNED && w->pool.terms.kind == LEASE_QUOTA ? w->now + w->wall : w->now;
    struct lease_pool copy = w->behind;
    bool old = w->faults && order->order.op == LEASE_LOOK && w->pool.way == POOL_TURNED;
    weir_pool_apply(old ? &copy : &w->pool, &order->order, now, &reply.reply);
    reply.kind = REPLY;
    post(w, reply);
    bool returned = order->order.op == LEASE_RETURN && reply.reply.chunks > 0;
    if (w->pool.way == POOL_TURNS || (w->pool.epoch == epoch && !returned))
        return;
    for (int i = 0; i < w->nodes; i++) {
        struct message told = {.kind = returned ? MORE_THERE : NOTICE, .node = i, .life = w->member[i].life};
        told.reply.epoch = w->pool.epoch;
        if (chance(w, 50))
            told.reply.terms = w->pool.terms;
        post(w, told);
    }
}

static void arrive(struct world *w, const struct message *message)
{
    struct member *m = &w->member[message->node];
    if (message->kind == ORDER) {
        arrive_order(w, message);
        return;
    }
    if (message->life != m->life)
        return;
    int64_t now = clock_of(w, message->node);
    if (message->kind == REPLY) {
        kit_reply(&m->kit, &message->reply, message->sent, now);
        if (w->faults && chance(w, 3))
            kit_reply(&m->kit, &message->reply, message->sent, now);
    } else {
        struct lease_event event = {.kind = message->kind == NOTICE ? LEASE_NOTICED : LEASE_MORE,
                                    .reply = message->reply};
        kit_step(&m->kit, &event, now);
    }
    drain(w, message->node);
}

/* What has come, in any order; what is for a node that stands still waits. */
static void deliver(struct world *w)
{
    for (size_t i = 0; i < w->message_count;) {
        struct message message = w->messages[i];
        bool waits = message.kind != ORDER && w->member[message.node].paused_until > w->now;
        if (message.at > w->now || waits) {
            i++;
            continue;
        }
        w->messages[i] = w->messages[--w->message_count];
        arrive(w, &message);
    }
}

/* ---- what happens to nodes ---- */

static void start_node(struct world *w, int i)
{
    struct member *m = &w->member[i];
    m->life++;
    m->paused_until = 0;
    kit_begin(&m->kit, &w->options, rng_next(&w->rng), clock_of(w, i));
    kit_event(&m->kit, LEASE_UP, clock_of(w, i));
    drain(w, i);
}

static void reconnect(struct world *w, int i)
{
    struct kit_node *kit = &w->member[i].kit;
    struct lease before = kit->lease;
    int64_t now = clock_of(w, i);
    kit_event(kit, LEASE_DOWN, now);
    for (size_t f = 0; f < before.in_flight; f++) {
        struct lease_reply reply = {
            .id = before.flight[f].id, .op = before.flight[f].op, .outcome = LEASE_UNKNOWN};
        kit_reply(kit, &reply, now, now);
    }
    kit_event(kit, LEASE_UP, now);
    drain(w, i);
}

static void disturb(struct world *w, int i)
{
    int64_t window = w->pool.terms.window_ns;
    switch (rng_between(&w->rng, 0, 5)) {
    case 0:
        start_node(w, i);
        break;
    case 1:
    case 2:
        w->member[i].paused_until = w->now + rng_between(&w->rng, 0, 3 * window);
        break;
    case 3:
        reconnect(w, i);
        break;
    case 4:
        w->behind = w->pool;
        break;
    default:
        kit_event(&w->member[i].kit, LEASE_LEAVE, clock_of(w, i));
        drain(w, i);
        if (chance(w, 50))
            start_node(w, i);
        break;
    }
}

static void change_terms(struct world *w)
{
    struct lease_terms terms = w->pool.next;
    terms.total = rng_between(&w->rng, 10, 2000);
    terms.base = rng_between(&w->rng, 1, 1 + terms.total / 10);
    weir_pool_set(&w->pool, &terms);
}

static void use(struct world *w, int i)
{
    struct kit_node *kit = &w->member[i].kit;
    int64_t n = chance(w, 90) ? rng_between(&w->rng, 1, 1 + w->pool.terms.total / 100)
                              : rng_between(&w->rng, 1, 1 + w->pool.terms.total / 5);
    if (kit_take(kit, clock_of(w, i), n)) {
        w->spent += n;
        if (w->pool.terms.kind == LEASE_QUOTA)
            judge_quota(w, i, n);
        else
            judge_bucket(w, n);
    }
    drain(w, i);
}

static void tick(struct world *w)
{
    int64_t window = w->pool.terms.window_ns;
    int i = (int)rng_between(&w->rng, 0, w->nodes - 1);
    w->now += rng_between(&w->rng, 0, window / 150);
    deliver(w);
    for (int k = 0; k < w->nodes; k++) {
        struct member *m = &w->member[k];
        if (m->paused_until <= w->now && m->kit.last.wake_ns <= clock_of(w, k)) {
            kit_event(&m->kit, LEASE_WAKE, clock_of(w, k));
            drain(w, k);
        }
    }
    if (w->faults && rng_between(&w->rng, 0, 199) == 0)
        disturb(w, i);
    if (rng_between(&w->rng, 0, 99) == 0)
        w->wall = rng_between(&w->rng, -w->wall_most, w->wall_most);
    if (w->changes && rng_between(&w->rng, 0, 999) == 0)
        change_terms(w);
    if (w->member[i].paused_until <= w->now)
        use(w, i);
}

static void world_begin(struct world *w, enum lease_pool_flags way, const struct lease_terms *terms,
                        uint64_t stream)
{
    w->rng = rng_new(stream);
    w->now = WEIR_SEC;
    weir_pool_begin(&w->pool, way, terms, w->now);
    w->behind = w->pool;
    w->options.rho_ppm = chance(w, 50) ? 1000 : 30000;
    w->options.answer_ns = terms->window_ns / 2;
    w->options.nodes = chance(w, 50) ? w->nodes : 0;
    w->wall_most = terms->window_ns / 20;
    w->options.guard_ns = terms->window_ns / 10; /* it may be wrong at both ends */
    if (chance(w, 50)) {                         /* a clock that is wrong by hours, and not asked */
        w->options.no_age = true;
        w->wall_most = 3600 * WEIR_SEC;
    }
    w->level = (weir_i128)terms->burst * terms->window_ns;
    w->level_at = w->now;
    for (int i = 0; i < w->nodes; i++) {
        w->member[i].offset = rng_between(&w->rng, 0, 1000000 * WEIR_SEC);
        w->member[i].rate_ppm = rng_between(&w->rng, 0, 2) - 1;
        w->member[i].rate_ppm *= w->options.rho_ppm; /* the worst, or right */
        start_node(w, i);
    }
}

static struct lease_terms random_terms(struct rng *rng, int32_t kind)
{
    struct lease_terms terms = {.kind = kind, .total = rng_between(rng, 20, 3000)};
    char why[200];
    terms.window_ns = rng_between(rng, 100, 2000) * MS;
    if (kind == LEASE_BUCKET)
        terms.burst = rng_between(rng, terms.total / 4 + 2, terms.total * 2);
    terms.base = rng_between(rng, 0, kind == LEASE_QUOTA ? terms.total / 10 : terms.burst / 8);
    if (!CHECK(weir_terms_complete(&terms, 1, why, sizeof why)))
        printf("# %s\n", why);
    return terms;
}

/* `steps` in worlds of 2000 each. */
static void run_worlds(enum lease_pool_flags way, int32_t kind, bool faults, int64_t steps, uint64_t stream)
{
    static struct world w;
    int64_t spent = 0, offered = 0, worlds = steps / 2000;
    for (int64_t k = 0; k < worlds; k++) {
        struct rng rng = rng_new(stream + (uint64_t)k);
        struct lease_terms terms = random_terms(&rng, kind);
        long before = check.faults;
        memset(&w, 0, sizeof w);
        w.nodes = (int)rng_between(&rng, 2, NODES_MAX);
        w.faults = faults;
        w.changes = faults && kind == LEASE_QUOTA;
        world_begin(&w, way, &terms, stream + (uint64_t)k + (UINT64_C(1) << 32));
        for (int step = 0; step < 2000; step++)
            tick(&w);
        spent += w.spent;
        offered += kind == LEASE_QUOTA ? w.offered : mul_div(terms.total, w.now - WEIR_SEC, terms.window_ns);
        if (check.faults != before) {
            printf("# world %" PRId64 ": %d nodes, total %" PRId64 ", chunk %" PRId64 ", no_age %d\n", k,
                   w.nodes, terms.total, terms.chunk, w.options.no_age);
            return;
        }
    }
    printf("# %" PRId64 " worlds, seed %" PRIu64 ": %" PRId64 " units of %" PRId64 " passed\n", worlds,
           check.seed, spent, offered);
    CHECK(spent > offered / (faults ? 20 : 2)); /* it is not safe by refusing everything */
}

static int64_t steps(void)
{
    return check_env("WEIR_LEASE_STEPS", 100000);
}

TEST(quota_that_nodes_turn_in_a_quiet_world)
{
    run_worlds(POOL_TURNED, LEASE_QUOTA, false, steps() / 2, 1000);
}

TEST(quota_that_nodes_turn_with_faults)
{
    run_worlds(POOL_TURNED, LEASE_QUOTA, true, steps() * 2, 2000000);
}

TEST(quota_that_turns_itself)
{
    run_worlds(POOL_TURNS, LEASE_QUOTA, false, steps() / 4, 4000000);
    run_worlds(POOL_TURNS, LEASE_QUOTA, true, steps(), 5000000);
}

TEST(bucket_that_nodes_number)
{
    run_worlds(POOL_TURNED, LEASE_BUCKET, false, steps() / 4, 6000000);
    run_worlds(POOL_TURNED, LEASE_BUCKET, true, steps(), 7000000);
}

TEST(bucket_that_numbers_itself)
{
    run_worlds(POOL_TURNS, LEASE_BUCKET, false, steps() / 4, 8000000);
    run_worlds(POOL_TURNS, LEASE_BUCKET, true, steps(), 9000000);
}
