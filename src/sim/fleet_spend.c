/* SPDX-License-Identifier: MIT */
/*
 * Who asks a leaf for units: independent arrivals of random sizes, now and then a crowd or somebody who wants
 * very much, more at some nodes than at others; in some windows nobody. With faults the load has its tides,
 * and there are moments at which everything that is held anywhere is spent at once: that finds what should
 * not be there.
 *
 * Units are spent as a real balance's are (limiter/balance.h): exchanged, then the clock is looked at;
 * between the two a thread may be stopped for any time.
 */
#include "sim/fleet_world.h"

static bool is_active_at(const struct sim_world *world, int64_t at_ns)
{
    int64_t window = at_ns / world->terms.window_ns;
    return !world->active || (world->active[window / 64] >> (window % 64) & 1) != 0;
}

static void plan_arrival(struct sim_world *world, struct sim_node *node)
{
    double units =
        world->sim->load * (double)world->terms.total * (double)node->weight / (double)world->weights;
    double mean = (double)world->terms.window_ns * (double)world->size / (units > 0 ? units : 1.0);
    int64_t window = world->terms.window_ns;
    int64_t at = world->now_ns + random_gap(&world->random, (int64_t)(mean < 1e15 ? mean : 1e15) + 1);
    while (at < world->end_ns && !is_active_at(world, at))
        at =
            (at / window + 1) * window + random_gap(&world->random, (int64_t)(mean < 1e15 ? mean : 1e15) + 1);
    if (at < world->end_ns)
        weir_sim_plan(world, at, EVENT_ARRIVAL, node, -1);
}

void weir_sim_spend_begin(struct sim_world *world, struct sim_node *node)
{
    if (sim_node_index(world, node) >= world->server_count && node->weight > 0)
        plan_arrival(world, node);
}

/* Its clock has been looked at: all of it is good, or none. */
static void pass_units(struct sim_world *world, struct sim_node *node, const struct sim_units *taken,
                       int32_t count)
{
    int64_t now = own_time(world, node);
    for (int32_t i = 0; i < count; i++)
        if (now >= taken[i].until_ns)
            return;
    for (int32_t i = 0; i < count; i++) {
        weir_sim_node_spent(world, node, &taken[i]);
        weir_sim_judge_spent(world, node, &taken[i]);
    }
}

void weir_sim_spend_look(struct sim_world *world, struct sim_node *node, const struct sim_message *message)
{
    pass_units(world, node, message->taken, message->taken_count);
}

/* Stopped between the exchange and the look: this thread, or the whole node with it. */
static bool pause_before_look(struct sim_world *world, struct sim_node *node, const struct sim_units *taken,
                              int32_t count)
{
    if (!faulty(world, SIM_PAUSE) || !random_once_in(&world->random, 300))
        return false;
    int32_t message = weir_sim_message(world);
    if (message < 0)
        return true;
    int64_t most = 2 * world->terms.window_ns;
    int64_t until = world->now_ns + random_magnitude(&world->random, 1000, most);
    weir_sim_fault_happened(world, SIM_PAUSE);
    world->messages[message].taken_count = count;
    for (int32_t i = 0; i < count; i++)
        world->messages[message].taken[i] = taken[i];
    if (random_once_in(&world->random, 2))
        node->stopped_until_ns = max64(node->stopped_until_ns, min64(until, world->quiet_ns));
    weir_sim_plan(world, until, EVENT_LOOK, node, message);
    return true;
}

static bool spend(struct sim_world *world, struct sim_node *node, int64_t n)
{
    struct sim_units taken[TAKEN_MAX];
    int32_t count;
    if (!weir_sim_balance_take(&node->balance, own_time(world, node), n, taken, &count))
        return false;
    if (!pause_before_look(world, node, taken, count))
        pass_units(world, node, taken, count);
    return true;
}

static void drop_first(struct sim_node *node)
{
    node->waiter_count--;
    for (int32_t i = 0; i < node->waiter_count; i++)
        node->waiters[i] = node->waiters[i + 1];
}

/* In the order of their coming; who has waited for too long has gone. */
void weir_sim_spend_waiters(struct sim_world *world, struct sim_node *node)
{
    while (node->alive && node->waiter_count > 0 && node->stopped_until_ns <= world->now_ns &&
           (node->waiters[0].until_ns <= world->now_ns || spend(world, node, node->waiters[0].units)))
        drop_first(node);
}

static int64_t draw_size(struct sim_world *world)
{
    int64_t n = random_between(&world->random, 1, 2 * world->size - 1);
    if (random_once_in(&world->random, 100))
        n *= 10;
    int64_t most = world->terms.kind == LEASE_BUCKET ? world->terms.burst : world->terms.total;
    return clamp64(n, 1, max64(1, most / 8));
}

/* One of three who find nothing waits for it. */
static void refuse_arrival(struct sim_world *world, struct sim_node *node, int64_t n)
{
    node->refused += n;
    node->at_once = max64(node->at_once, n);
    if (!random_once_in(&world->random, 3))
        return;
    if (node->waiter_count == WAITERS_MAX)
        drop_first(node);
    node->waiters[node->waiter_count++] = (struct sim_waiter){n, world->now_ns + world->terms.window_ns / 20};
}

void weir_sim_spend_arrival(struct sim_world *world, struct sim_node *node)
{
    int64_t people = random_once_in(&world->random, 50) ? random_between(&world->random, 2, 10) : 1;
    bool short_of = false;
    for (int64_t i = 0; i < people; i++) {
        int64_t n = draw_size(world);
        world->result->decisions++;
        world->result->asked += n;
        weir_sim_judge_asked(world, n);
        if (node->stopped_until_ns > world->now_ns)
            break; /* by the one before */
        if (!spend(world, node, n)) {
            refuse_arrival(world, node, n);
            short_of = true;
        }
    }
    short_of |= weir_sim_balance_held(&node->balance, own_time(world, node)) < node->low;
    if (short_of && node->stopped_until_ns <= world->now_ns)
        weir_sim_node_tell(world, node, LEASE_WAKE);
    plan_arrival(world, node);
}

/* ---- rushes ---- */

void weir_sim_spend_plan_rush(struct sim_world *world)
{
    int64_t at = world->now_ns + random_gap(&world->random, world->terms.window_ns / 4 + 1);
    if (at < world->quiet_ns && world->node_count > 0)
        weir_sim_plan(world, at, EVENT_RUSH, world->nodes, -1);
}

void weir_sim_spend_all(struct sim_world *world, struct sim_node *node)
{
    bool leaf = sim_node_index(world, node) >= world->server_count;
    if (!leaf || !node->alive || node->stopped_until_ns > world->now_ns)
        return;
    int64_t n = weir_sim_balance_ready(&node->balance, own_time(world, node));
    if (n <= 0 || !spend(world, node, n))
        return;
    world->result->asked += n;
    world->result->decisions++;
    weir_sim_judge_asked(world, n);
}

void weir_sim_spend_rush(struct sim_world *world)
{
    for (size_t i = world->server_count; i < world->node_count; i++)
        weir_sim_spend_all(world, &world->nodes[i]);
    weir_sim_spend_plan_rush(world);
}
