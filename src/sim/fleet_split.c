/* SPDX-License-Identifier: MIT */
/*
 * A Redis with two masters: a replica is made one while the old one goes on. Each answers the nodes that have
 * found it, some nodes go over from one to the other, and neither knows what the other one does. It ends when
 * one becomes a replica of the other: all that it knew is thrown away, and who asked it has to ask the other.
 *
 * What the scripts of a real one compare (fleet/redis/script.h) is compared here: an order says which epoch
 * its sender has seen, and how many tickets of it. A master that knows less begins anew.
 */
#include "sim/fleet_world.h"

void weir_sim_split_face(struct sim_world *world)
{
    struct sim_master home = {world->root, world->judge};
    world->root = world->other.root;
    world->judge = world->other.judge;
    world->other = home;
}

/* ---- who asks whom ---- */

static bool asks_other(const struct sim_world *world, uint32_t master)
{
    return world->split && master == world->other.root.id;
}

bool weir_sim_split_is_down(const struct sim_world *world, const struct sim_node *node)
{
    const struct sim_root *root = asks_other(world, node->master) ? &world->other.root : &world->root;
    return world->now_ns < root->down_until_ns;
}

/* Nothing that is sent to another one waits for what is on the way to this one. */
static void connect_to_master(struct sim_world *world, struct sim_node *node, uint32_t master)
{
    if (node->master != master)
        node->out_ns = node->in_ns = world->now_ns;
    node->master = master;
}

void weir_sim_split_choose(struct sim_world *world, struct sim_node *node)
{
    bool known = node->master == world->root.id || asks_other(world, node->master);
    if (!world->split)
        connect_to_master(world, node, world->root.id);
    else if (!known || random_once_in(&world->random, 4))
        connect_to_master(world, node,
                          random_once_in(&world->random, 2) ? world->root.id : world->other.root.id);
}

static void go_over(struct sim_world *world, struct sim_node *node)
{
    if (node->parent >= 0 || !node->alive)
        return;
    weir_sim_net_link(world, node, false);
    connect_to_master(world, node, asks_other(world, node->master) ? world->root.id : world->other.root.id);
}

/* ---- what is asked ---- */

static void compare_with_master(struct sim_world *world, const struct sim_message *message)
{
    struct sim_root *root = &world->root;
    bool later = message->known > root->pool.epoch;
    bool more = message->known == root->pool.epoch && message->seen > root->pool.used;
    if (later && message->known > root->last_epoch)
        root->last_epoch = message->known;
    if (later || (more && !world->sim->trust))
        weir_sim_root_doubt(world);
}

static void apply_at_master(struct sim_world *world, struct sim_message *message)
{
    if ((world->sim->faults & SIM_SPLIT) && world->sim->coordinator == SIM_REDIS)
        compare_with_master(world, message);
    weir_sim_root_apply(world, &message->order, message);
}

bool weir_sim_split_apply(struct sim_world *world, struct sim_message *message)
{
    bool other = asks_other(world, message->master);
    if (!other && message->master != world->root.id)
        return false;
    if (other)
        weir_sim_split_face(world);
    apply_at_master(world, message);
    if (other)
        weir_sim_split_face(world);
    return true;
}

/* ---- it begins and ends ---- */

/* Another server, with a clock of its own, that lacks the last writes. */
static void promote_replica(struct sim_world *world, uint32_t id)
{
    struct sim_root *root = &world->root;
    uint64_t *random = &world->random;
    int64_t most = (int64_t)world->options.rho_ppm * 1000, by = 0;
    root->id = id;
    root->pool = root->old = root->replica;
    root->since_ns = root->replica_since_ns;
    root->last_epoch = root->pool.epoch;
    root->unsaved = 0;
    root->term++;
    if (root->clock.ppb != 0)
        weir_sim_clock_rate(&root->clock, world->now_ns, random_between(random, -most, most));
    if (world->sim->faults & SIM_CLOCKS)
        by = random_between(random, -7200, 7200) * WEIR_SEC;
    root->wall_ns += by;
    weir_sim_judge_split(world);
    if (world->sim->trust)
        weir_sim_judge_stepped(world, by);
    else
        weir_sim_root_doubt(world);
}

/* It lasts for some windows: the first of a master that is not trusted is empty. */
static void begin_split(struct sim_world *world)
{
    int64_t window = world->terms.window_ns;
    int64_t until = world->now_ns + random_between(&world->random, window / 8, 4 * window);
    world->other = (struct sim_master){world->root, world->judge};
    weir_sim_split_face(world);
    promote_replica(world, ++world->masters);
    weir_sim_split_face(world);
    world->split = true;
    weir_sim_plan(world, min64(until, world->quiet_ns), EVENT_UNITE, world->nodes, -1);
    for (size_t i = 0; i < world->node_count; i++)
        if (random_once_in(&world->random, 2))
            go_over(world, &world->nodes[i]);
}

void weir_sim_split(struct sim_world *world, struct sim_node *node)
{
    if (world->split)
        go_over(world, node);
    else if (world->now_ns >= world->split_after_ns)
        begin_split(world);
}

/* Mostly it is the old one that has to give way. */
void weir_sim_split_end(struct sim_world *world)
{
    if (!random_once_in(&world->random, 4))
        weir_sim_split_face(world);
    world->split = false;
    weir_sim_split_face(world);
    world->split_after_ns = weir_sim_judge_unite(world);
    weir_sim_split_face(world);
    for (size_t i = 0; i < world->node_count; i++) {
        struct sim_node *node = &world->nodes[i];
        if (node->alive && node->parent < 0 && node->master == world->other.root.id)
            weir_sim_net_link(world, node, false);
    }
}
