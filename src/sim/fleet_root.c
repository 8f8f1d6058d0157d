/* SPDX-License-Identifier: MIT */
/*
 * The coordinator: a pool (lease/pool.h) and what makes each kind its own.
 *
 *   zookeeper  writes have one order and are never lost; reads may be old; its wall clock is its leader's, so
 *              ages are told only while one leader lasts; watches
 *   redis      who takes over may lack the last writes: it begins an epoch in which nothing is left, so that
 *              whatever was granted before is dead when the next one begins; or it is trusted
 *   weir       turns epochs by a monotonic clock, and is started again with all that it knew
 */
#include <string.h>

#include "sim/fleet_world.h"

static bool by_wall(const struct sim_world *world)
{
    return world->sim->coordinator != SIM_WEIR;
}

int64_t weir_sim_root_time(const struct sim_world *world)
{
    const struct sim_root *root = &world->root;
    int64_t now = weir_sim_clock(&root->clock, world->now_ns);
    return by_wall(world) ? now + root->wall_ns + root->wobble_ns : now;
}

/* Real time at which its own clock ends this one; WEIR_FOREVER: somebody has to turn it. */
static int64_t end_of_epoch(const struct sim_world *world)
{
    const struct sim_root *root = &world->root;
    if (root->pool.way != POOL_TURNS || root->pool.terms.kind != LEASE_QUOTA)
        return WEIR_FOREVER;
    return weir_sim_clock_real(&root->clock, root->pool.began_ns + root->pool.terms.window_ns);
}

/* Of an epoch. Redis takes them from its wall clock, so that no two masters have the same. */
static uint64_t next_number(const struct sim_world *world)
{
    const struct sim_root *root = &world->root;
    uint64_t next = root->last_epoch + 1, clock = (uint64_t)weir_sim_root_time(world) / 1000;
    if (world->sim->coordinator != SIM_REDIS || !(world->sim->faults & SIM_SPLIT))
        return next;
    next = clock > next ? clock : next;
    return next + ((root->id - next) & 255); /* also if both clocks are behind */
}

/* The judge hears of a new epoch; before what was done in it. */
static void epoch_began(struct sim_world *world, bool floored)
{
    struct sim_root *root = &world->root;
    root->last_epoch = root->pool.epoch;
    root->floored = floored;
    root->epoch_term = root->term;
    root->since_ns = world->now_ns;
    weir_sim_judge_epoch(world, root->pool.epoch, root->pool.terms.total, end_of_epoch(world), floored);
    sim_mix_fingerprint(world, root->pool.epoch, (uint64_t)world->now_ns);
}

void weir_sim_root_begin(struct sim_world *world)
{
    struct sim_root *root = &world->root;
    uint64_t *random = &world->random;
    int64_t most = (int64_t)world->options.rho_ppm * 1000;
    bool wrong = (world->sim->faults & SIM_CLOCKS) != 0;
    memset(root, 0, sizeof *root);
    root->clock = (struct sim_clock){0, WEIR_SEC, wrong ? random_between(random, -most, most) : 0};
    root->wall_ns = INT64_C(1700000000) * WEIR_SEC;
    /* An age may be wrong by the guard, and no more: what drifts in a window counts, too. */
    int64_t guard = world->options.guard_ns,
            drift = world->terms.window_ns / 1000000 * world->options.rho_ppm;
    if (by_wall(world) && drift > guard / 2)
        root->clock.ppb = 0;
    root->wobble_most_ns = wrong && by_wall(world) ? max64(0, guard / 4) : 0;
    weir_pool_begin(&root->pool, by_wall(world) ? POOL_TURNED : POOL_TURNS, &world->terms,
                    weir_sim_root_time(world));
    root->replica = root->old = root->pool;
    epoch_began(world, false);
}

static int64_t writes_of(const struct sim_world *world, const struct lease_order *order)
{
    if (order->op == LEASE_LOOK)
        return 0;
    return world->sim->coordinator == SIM_ZOOKEEPER && order->op == LEASE_TAKE ? order->chunks : 1;
}

static void check_turn(struct sim_world *world, const struct sim_judged_epoch *last)
{
    int64_t lasted = world->now_ns - last->began_ns;
    if (world->terms.kind == LEASE_QUOTA && lasted < world->judge.window_ns)
        weir_sim_broken(world, SIM_EARLY, "epoch %llu lasted %lld ns of %lld",
                        (unsigned long long)last->epoch, (long long)lasted,
                        (long long)world->judge.window_ns);
}

/* ---- what it does when it cannot know what was granted before ---- */

/* A new epoch, in which nothing is to be had before all that was granted is dead. Of a quota nothing at all:
 * it is turned like any other. Of a bucket the first ticket starts then. */
static void begin_floor(struct sim_world *world)
{
    struct sim_root *root = &world->root;
    struct lease_pool *pool = &root->pool;
    int64_t now = weir_sim_root_time(world),
            wait = weir_ticket_life(&pool->terms) + weir_ticket_ahead(&pool->terms);
    pool->terms = pool->next;
    wait = max64(wait, weir_ticket_life(&pool->terms) + weir_ticket_ahead(&pool->terms));
    pool->epoch = next_number(world);
    pool->returned = 0;
    if (pool->terms.kind == LEASE_BUCKET) {
        pool->began_ns = now + wait + wait / 100 + WEIR_MS;
        pool->used = pool->exhausted_ns = 0;
    } else {
        pool->began_ns = pool->exhausted_ns = now;
        pool->used = weir_ticket_count(&pool->terms);
    }
    root->latest_ns = now;
    epoch_began(world, pool->terms.kind == LEASE_QUOTA);
}

/* Its tickets have their times by another clock than that of today. */
static bool in_doubt(const struct sim_world *world)
{
    const struct sim_root *root = &world->root;
    bool back = world->sim->coordinator == SIM_REDIS && weir_sim_root_time(world) < root->latest_ns;
    bool other = root->epoch_term != root->term && !world->sim->trust;
    return by_wall(world) && root->pool.terms.kind == LEASE_BUCKET && (other || back);
}

/* ZooKeeper says so, and a node that wants to begins anew; Redis does it itself. */
static bool answer_doubt(struct sim_world *world, const struct lease_order *order, struct lease_reply *reply)
{
    struct sim_root *root = &world->root;
    if (!in_doubt(world))
        return false;
    bool turns = order->op == LEASE_TURN && order->epoch == root->pool.epoch;
    if (world->sim->coordinator == SIM_REDIS || turns) {
        begin_floor(world);
        if (!turns)
            return false;
    }
    *reply = (struct lease_reply){.id = order->id, .op = order->op, .epoch = root->pool.epoch};
    reply->outcome = turns || order->op == LEASE_TAKE || order->op == LEASE_PROBE ? LEASE_DONE : LEASE_MOVED;
    reply->terms = root->pool.terms;
    reply->left = reply->age_ns = -1;
    reply->exhausted = reply->stale = !turns;
    return true;
}

/* ---- orders ---- */

/* What it has told and done, apart from the pool. */
static void after_root_order(struct sim_world *world, const struct lease_order *order, uint64_t before,
                             struct lease_reply *reply)
{
    struct sim_root *root = &world->root;
    bool turned = root->pool.epoch != before;
    if (turned) {
        if (root->pool.way == POOL_TURNED)
            check_turn(world, &world->judge.epochs[EPOCHS_MAX - 1]);
        if (root->pool.epoch < next_number(world)) /* none is used twice */
            reply->epoch = root->pool.epoch = next_number(world);
        world->result->turns++;
        epoch_began(world, false);
    }
    if (order->op == LEASE_TAKE) {
        world->result->chunks += reply->chunks;
        root->unsaved += reply->units;
    }
    if (by_wall(world) && root->epoch_term != root->term) /* of another server's clock nothing is believed */
        reply->age_ns = -1;
    if (world->sim->coordinator != SIM_ZOOKEEPER)
        return;
    if (turned)
        weir_sim_net_notice(world, reply, false);
    else if (order->op == LEASE_RETURN && reply->outcome == LEASE_DONE && reply->chunks > 0)
        weir_sim_net_notice(world, reply, true);
}

/* Reads come from a server that is behind. */
static void answer_stale_look(struct sim_world *world, const struct lease_order *order,
                              struct lease_reply *reply)
{
    struct lease_pool old = world->root.old;
    weir_pool_apply(&old, order, weir_sim_root_time(world), reply);
    reply->age_ns = -1;
    if (random_once_in(&world->random, 2))
        world->root.old = world->root.pool; /* it catches up */
}

void weir_sim_root_apply(struct sim_world *world, const struct lease_order *order,
                         struct sim_message *message)
{
    struct sim_root *root = &world->root;
    world->result->writes += writes_of(world, order);
    if (order->op == LEASE_LOOK && world->sim->coordinator == SIM_ZOOKEEPER) {
        answer_stale_look(world, order, &message->reply);
        return;
    }
    if (!answer_doubt(world, order, &message->reply)) {
        uint64_t before = root->pool.epoch;
        weir_pool_apply(&root->pool, order, weir_sim_root_time(world), &message->reply);
        after_root_order(world, order, before, &message->reply);
    }
    root->latest_ns = max64(root->latest_ns, weir_sim_root_time(world));
    int64_t clock = weir_sim_clock(&root->clock, world->now_ns);
    message->origin = (struct sim_origin){.epoch = message->reply.epoch,
                                          .starts_ns = clock + message->reply.starts_ns,
                                          .ends_ns = WEIR_FOREVER,
                                          .master = root->id,
                                          .used = root->pool.used};
    if (message->reply.ends_ns >= 0)
        message->origin.ends_ns = clock + message->reply.ends_ns;
    if (!faulty(world, SIM_DELAY | SIM_FAILOVER | SIM_SPLIT) || random_once_in(&world->random, 4)) {
        root->replica = root->old = root->pool;
        root->replica_since_ns = root->since_ns;
        root->unsaved = 0;
    }
    sim_mix_fingerprint(world, order->id, (uint64_t)message->reply.units);
}

/* ---- what happens to it ---- */

/* Nodes know of an epoch that who has taken over has never seen: another one, at once. `alive`: units of the
 * one before, all of them */
static void begin_again(struct sim_world *world, bool alive)
{
    struct sim_root *root = &world->root;
    weir_pool_begin(&root->pool, POOL_TURNED, &root->pool.next, weir_sim_root_time(world));
    root->pool.epoch = next_number(world);
    if (world->terms.kind == LEASE_BUCKET) /* it begins full, whatever is alive */
        weir_sim_judge_lost(world, world->terms.burst);
    else if (alive)
        weir_sim_judge_lost(world, world->judge.epochs[EPOCHS_MAX - 1].total);
    epoch_began(world, false);
}

void weir_sim_root_doubt(struct sim_world *world)
{
    if (world->sim->trust)
        begin_again(world, true);
    else
        begin_floor(world);
}

void weir_sim_root_fail_over(struct sim_world *world)
{
    struct sim_root *root = &world->root;
    uint64_t *random = &world->random;
    root->down_until_ns =
        min64(world->now_ns + random_magnitude(random, 10 * WEIR_MS, 4 * WEIR_SEC), world->quiet_ns);
    root->term++;
    for (size_t i = 0; i < world->node_count; i++)
        if (world->nodes[i].alive && world->nodes[i].parent < 0)
            weir_sim_net_link(world, &world->nodes[i], false);
    if (by_wall(world) && (world->sim->faults & SIM_CLOCKS)) {
        int64_t by = random_between(random, -7200, 7200) * WEIR_SEC;
        root->wall_ns += by;
        if (world->sim->trust)
            weir_sim_judge_stepped(world, by);
    }
    if (world->sim->coordinator != SIM_REDIS)
        return;
    uint64_t known = root->pool.epoch;
    root->pool = root->replica;
    if (!world->sim->trust) {
        begin_floor(world);
    } else {
        weir_sim_judge_lost(world, root->unsaved);
        if (root->pool.epoch < known) /* floored: the units for whose death it would have waited */
            begin_again(world, root->floored);
    }
    root->unsaved = 0;
    root->replica = root->old = root->pool;
    root->replica_since_ns = root->since_ns;
}

/* Other terms; a number written by hand; what is gone. */
void weir_sim_root_operator(struct sim_world *world)
{
    struct sim_root *root = &world->root;
    uint64_t *random = &world->random;
    struct lease_terms terms = root->pool.next;
    char why[160];
    if (random_once_in(random, 3) && world->terms.kind == LEASE_QUOTA) {
        root->pool.used += root->pool.used < weir_ticket_count(&root->pool.terms);
        return;
    }
    if (random_once_in(random, 3) && world->sim->coordinator == SIM_REDIS &&
        world->terms.kind == LEASE_QUOTA) {
        begin_floor(world);
        return;
    }
    terms.total = random_between(random, div_up(world->terms.total, 2), 2 * world->terms.total);
    terms.base = terms.chunk = 0;
    if (weir_terms_complete(&terms, world->options.nodes, why, sizeof why))
        weir_pool_set(&root->pool, &terms);
}

/* Its clock runs at another rate, or was set a little. */
void weir_sim_root_clock(struct sim_world *world)
{
    struct sim_root *root = &world->root;
    int64_t most = (int64_t)world->options.rho_ppm * 1000, before = root->wobble_ns;
    if (root->clock.ppb != 0)
        weir_sim_clock_rate(&root->clock, world->now_ns, random_between(&world->random, -most, most));
    world->judge.epochs[EPOCHS_MAX - 1].ends_ns = end_of_epoch(world);
    if (root->wobble_most_ns > 0) {
        root->wobble_ns = random_between(&world->random, 0, root->wobble_most_ns);
        weir_sim_judge_stepped(world, root->wobble_ns - before);
    }
}
