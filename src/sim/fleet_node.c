/* SPDX-License-Identifier: MIT */
/*
 * A node: the real machine, told what happens by the node's own clock, and what it says done.
 */
#include <string.h>

#include "sim/fleet_world.h"

/* What it wants next: the machine's wake, the end of an order's patience, a piece that begins. */
void weir_sim_node_plan(struct sim_world *world, struct sim_node *node)
{
    int64_t now = own_time(world, node);
    int64_t next = node->wake_ns;
    for (int32_t i = 0; i < node->flight_count; i++)
        next = min64(next, node->flights[i].end_ns);
    next = min64(next, weir_sim_tier_next(node));
    if (node->waiter_count > 0 || node->held_count > 0)
        next = min64(next, weir_sim_balance_begins(&node->balance, now));
    if (next == WEIR_FOREVER)
        return;
    /* A moment passes between two turns of the agent's thread. */
    int64_t real = max64(weir_sim_clock_real(&node->clock, next), world->now_ns + 1000);
    if (real >= node->timer_ns)
        return; /* it wakes before, and looks again then */
    node->timer_ns = real;
    weir_sim_plan(world, real, EVENT_TIMER, node, -1);
}

void weir_sim_node_timer(struct sim_world *world, struct sim_node *node)
{
    node->timer_ns = WEIR_FOREVER;
    weir_sim_net_expire(world, node);
    weir_sim_spend_waiters(world, node);
    weir_sim_tier_serve(world, node);
    if (node->alive && node->wake_ns <= own_time(world, node))
        weir_sim_node_tell(world, node, LEASE_WAKE);
    else
        weir_sim_node_plan(world, node);
}

/* ---- what the machine says ---- */

/* Each window of its own a share of the total, and no more however often the coordinator comes and goes. */
void weir_sim_node_spent(struct sim_world *world, struct sim_node *node, const struct sim_units *piece)
{
    int64_t share = world->judge.most_total / node->peers;
    if (!piece->share)
        return;
    node->share_spent += piece->units;
    world->judge.shared_now += piece->units;
    if (node->share_spent > share)
        weir_sim_broken(world, SIM_SHARE, "node %u: %lld units of a share of %lld in one window",
                        sim_node_index(world, node), (long long)node->share_spent, (long long)share);
}

/* Shares are the node's own; all else must have come with a reply. */
static void grant(struct sim_world *world, struct sim_node *node, const struct lease_grant *grant,
                  bool sharing, struct sim_origin origin)
{
    int64_t now = own_time(world, node);
    if (grant->units <= 0 || grant->until_ns <= grant->from_ns)
        return;
    if (sharing) {
        if (now >= node->share_end_ns) {
            node->share_spent = 0;
            node->share_end_ns = now + world->judge.window_ns;
        }
        origin = (struct sim_origin){0};
    } else {
        node->received -= grant->units;
        if (node->received < 0) {
            weir_sim_broken(world, SIM_GRANTED, "node %u: %lld units more than were granted",
                            sim_node_index(world, node), (long long)-node->received);
            node->received = 0;
        }
    }
    weir_sim_balance_put(&node->balance,
                         (struct sim_units){grant->units, grant->from_ns, grant->until_ns, origin, sharing},
                         now);
}

static void apply_node_actions(struct sim_world *world, struct sim_node *node,
                               const struct lease_actions *actions)
{
    if (actions->clear)
        node->balance.count = 0;
    for (size_t i = 0; i < actions->grant_count; i++)
        grant(world, node, &actions->grants[i], actions->sharing, node->told);
    node->low = actions->low;
    node->wake_ns = actions->wake_ns;
    node->retry_at_ns = actions->retry_at_ns;
    node->exhausted = actions->exhausted;
    for (size_t i = 0; i < actions->order_count; i++)
        weir_sim_net_send(world, node, &actions->orders[i]);
}

/* The parts of the fleet's state that the machine is shown. */
static struct lease_balance_view node_balance_view(const struct sim_world *world, struct sim_node *node)
{
    int64_t now = own_time(world, node), wanted = 0;
    for (int32_t i = 0; i < node->waiter_count; i++)
        wanted += node->waiters[i].until_ns > world->now_ns ? node->waiters[i].units : 0;
    wanted = max64(wanted, weir_sim_tier_wanted(world, node));
    int64_t held = weir_sim_balance_held(&node->balance, now);
    wanted = max64(max64(wanted, node->refused) - max64(held, 0), node->refused > 0 || wanted > 0);
    struct lease_balance_view balance = {held, wanted, node->balance.spent, node->at_once};
    node->refused = node->at_once = 0;
    return balance;
}

void weir_sim_node_step(struct sim_world *world, struct sim_node *node, const struct lease_event *event,
                        const struct sim_origin *origin)
{
    struct lease_actions actions;
    struct lease_event next = *event;
    if (origin && event->kind == LEASE_REPLIED && event->reply.op == LEASE_TAKE &&
        event->reply.outcome == LEASE_DONE) {
        node->received = event->reply.units; /* what an earlier one has left is gone */
        node->told = *origin;
    }
    for (int turns = 0; turns < 8; turns++) {
        struct lease_balance_view balance = node_balance_view(world, node);
        weir_lease_step(&node->lease, &next, &balance, own_time(world, node), &actions);
        apply_node_actions(world, node, &actions);
        if (actions.withdraw <= 0)
            break;
        next = (struct lease_event){.kind = LEASE_WITHDREW};
        if (world->now_ns < world->quiet_ns && random_once_in(&world->random, 4))
            weir_sim_spend_all(world, node); /* others go on with the balance meanwhile */
        next.reply.chunks =
            weir_sim_balance_withdraw(&node->balance, own_time(world, node), actions.chunk, actions.withdraw);
        node->withdrawn += next.reply.chunks;
    }
    if (node->leaving && actions.gone) {
        node->alive = false;
        return;
    }
    weir_sim_spend_waiters(world, node);
    weir_sim_tier_serve(world, node);
    weir_sim_node_plan(world, node);
}

void weir_sim_node_tell(struct sim_world *world, struct sim_node *node, int32_t kind)
{
    struct lease_event event = {.kind = kind};
    weir_sim_node_step(world, node, &event, NULL);
}

/* ---- its life ---- */

/* A new process that knows nothing, perhaps on a machine that was started again. */
void weir_sim_node_start(struct sim_world *world, struct sim_node *node)
{
    uint64_t *random = &world->random;
    int64_t most = (int64_t)world->options.rho_ppm * 1000;
    int32_t parent = node->parent;
    int64_t weight = node->weight, peers = node->peers;
    struct sim_clock clock = node->clock;
    uint32_t life = node->life + 1;
    bool reboot = life == 1 || random_once_in(random, 4);
    if (reboot && (world->sim->faults & SIM_CLOCKS))
        clock = (struct sim_clock){world->now_ns, random_magnitude(random, WEIR_SEC, INT64_C(1) << 61),
                                   random_between(random, -most, most)};
    else if (reboot)
        clock = (struct sim_clock){world->now_ns, WEIR_SEC, 0};
    memset(node, 0, sizeof *node);
    node->parent = parent;
    node->peers = peers;
    node->weight = weight;
    node->clock = clock;
    node->life = life;
    node->alive = true;
    node->timer_ns = node->wake_ns = node->retry_at_ns = WEIR_FOREVER;
    struct lease_options options = world->options;
    options.nodes = peers;
    weir_lease_begin(&node->lease, &options, random_next(random), own_time(world, node));
    int32_t message = weir_sim_message(world);
    if (message < 0)
        return;
    world->messages[message].up = true;
    weir_sim_plan(world, world->now_ns + random_between(random, 1, 5) * WEIR_MS, EVENT_LINK, node, message);
    weir_sim_spend_begin(world, node);
}
