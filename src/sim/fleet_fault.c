/* SPDX-License-Identifier: MIT */
/*
 * Faults that strike nodes and coordinators. Those of messages are in fleet_net.c, of threads that are
 * stopped in fleet_spend.c. A window of four nodes sees several.
 */
#include "sim/fleet_world.h"

#define STRIKING                                                                                             \
    (SIM_CRASH | SIM_PAUSE | SIM_PARTITION | SIM_EXPIRY | SIM_CLOCKS | SIM_FAILOVER | SIM_OPERATOR |         \
     SIM_LEAVE | SIM_SPLIT)

void weir_sim_fault_happened(struct sim_world *world, uint32_t fault)
{
    world->result->faults[__builtin_ctz(fault)]++;
}

void weir_sim_fault_plan(struct sim_world *world)
{
    if (!(world->sim->faults & STRIKING))
        return;
    int64_t windows = world->terms.window_ns / clamp64((int64_t)world->node_count, 4, 200);
    int64_t at = world->now_ns + random_gap(&world->random, windows + 1);
    if (at < world->quiet_ns)
        weir_sim_plan(world, at, EVENT_FAULT, world->nodes, -1);
}

/* Real time until which something lasts: mostly shorter than a window, at times several. */
static int64_t draw_fault_end(struct sim_world *world)
{
    int64_t most =
        random_once_in(&world->random, 5) ? 3 * world->terms.window_ns : world->terms.window_ns / 2;
    return min64(world->now_ns + random_magnitude(&world->random, WEIR_MS, max64(most, 2 * WEIR_MS)),
                 world->quiet_ns);
}

static void crash_node(struct sim_world *world, struct sim_node *node)
{
    node->alive = node->up = false;
    weir_sim_plan(world, draw_fault_end(world), EVENT_START, node, -1);
}

static void cut_off_node(struct sim_world *world, struct sim_node *node)
{
    int32_t down = weir_sim_message(world);
    int32_t heal = weir_sim_message(world);
    if (down < 0 || heal < 0)
        return;
    node->cut = true;
    int64_t until = draw_fault_end(world),
            noticed = world->now_ns + random_magnitude(&world->random, WEIR_MS, 4 * WEIR_SEC);
    world->messages[down].up = false;
    weir_sim_plan(world, min64(noticed, until), EVENT_LINK, node, down);
    world->messages[heal].up = true;
    world->messages[heal].more = true; /* the wire is whole again */
    weir_sim_plan(world, until, EVENT_LINK, node, heal);
}

static void change_node_clock(struct sim_world *world, struct sim_node *node)
{
    int64_t most = (int64_t)world->options.rho_ppm * 1000;
    if (random_once_in(&world->random, 3))
        weir_sim_root_clock(world);
    else
        weir_sim_clock_rate(&node->clock, world->now_ns, random_between(&world->random, -most, most));
}

/* It has a second to give back what it holds; then it comes again. */
static void leave_in_order(struct sim_world *world, struct sim_node *node)
{
    if (node->stopped_until_ns > world->now_ns)
        return;
    node->leaving = true;
    weir_sim_plan(world, max64(world->now_ns + WEIR_SEC, draw_fault_end(world)), EVENT_START, node, -1);
    weir_sim_node_tell(world, node, LEASE_LEAVE);
}

static void inject_fault(struct sim_world *world, uint32_t fault, struct sim_node *node)
{
    switch (fault) {
    case SIM_CRASH:
        crash_node(world, node);
        break;
    case SIM_PAUSE:
        node->stopped_until_ns = max64(node->stopped_until_ns, draw_fault_end(world));
        break;
    case SIM_PARTITION:
        cut_off_node(world, node);
        break;
    case SIM_EXPIRY:
        weir_sim_net_link(world, node, false);
        break;
    case SIM_CLOCKS:
        change_node_clock(world, node);
        break;
    case SIM_FAILOVER:
        weir_sim_root_fail_over(world);
        break;
    case SIM_OPERATOR:
        weir_sim_root_operator(world);
        break;
    case SIM_SPLIT:
        weir_sim_split(world, node);
        break;
    default:
        leave_in_order(world, node);
        break;
    }
}

void weir_sim_fault(struct sim_world *world)
{
    uint32_t kinds = world->sim->faults & STRIKING, chosen = 0;
    int64_t which = random_below(&world->random, __builtin_popcount(kinds));
    for (uint32_t bit = 1; bit <= SIM_SPLIT && chosen == 0; bit <<= 1)
        if ((kinds & bit) && which-- == 0)
            chosen = bit;
    struct sim_node *node = &world->nodes[random_below(&world->random, (int64_t)world->node_count)];
    bool can = node->alive && !node->leaving && node->stopped_until_ns <= world->now_ns && !node->cut;
    if (chosen & (SIM_FAILOVER | SIM_OPERATOR | SIM_SPLIT)) /* there is one for all of them */
        can = random_once_in(&world->random, max64(2, (int64_t)world->node_count / 3));
    if (chosen == SIM_SPLIT && world->sim->coordinator != SIM_REDIS)
        can = false;
    if (chosen == SIM_FAILOVER && world->split) /* neither of the two has a replica left */
        can = false;
    if (can) {
        weir_sim_fault_happened(world, chosen);
        inject_fault(world, chosen, node);
    }
    weir_sim_fault_plan(world);
}
