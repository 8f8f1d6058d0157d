/* SPDX-License-Identifier: MIT */
/*
 * Orders and replies on their way, and the client of a node: each order gets one reply, UNKNOWN at the latest
 * when its patience is over or the connection is lost.
 *
 * A RETURN is never repeated by the network: one connection carries a request at most once, and no client
 * sends it again. What arrives twice is what a client may repeat.
 */
#include <string.h>

#include "sim/fleet_world.h"

static bool reachable(const struct sim_world *world, const struct sim_node *node)
{
    if (!node->alive || node->cut)
        return false;
    if (node->parent < 0)
        return !weir_sim_split_is_down(world, node);
    const struct sim_node *server = &world->nodes[node->parent];
    return server->alive;
}

/* When a message that leaves now arrives. */
static int64_t arrival_time(struct sim_world *world, int64_t *order_ns)
{
    uint64_t *random = &world->random;
    int64_t delay = random_between(random, 100000, 2 * WEIR_MS);
    if (faulty(world, SIM_DELAY) && random_once_in(random, world->delay)) {
        delay = random_magnitude(random, 5 * WEIR_MS, random_once_in(random, 10) ? 20 * WEIR_SEC : WEIR_SEC);
        delay = min64(delay, world->quiet_ns - world->now_ns + WEIR_MS); /* no fault lasts longer */
        weir_sim_fault_happened(world, SIM_DELAY);
    }
    int64_t at = world->now_ns + delay;
    if (faulty(world, SIM_REORDER)) {
        if (at < *order_ns)
            weir_sim_fault_happened(world, SIM_REORDER);
        *order_ns = max64(at, *order_ns);
        return at;
    }
    return *order_ns = max64(at, *order_ns + 1);
}

static bool is_message_lost(struct sim_world *world)
{
    if (!faulty(world, SIM_LOSS) || !random_once_in(&world->random, world->loss))
        return false;
    weir_sim_fault_happened(world, SIM_LOSS);
    return true;
}

/* ---- orders ---- */

static void start_flight(struct sim_world *world, struct sim_node *node, const struct lease_order *order)
{
    int32_t message = weir_sim_message(world);
    if (message < 0)
        return;
    world->messages[message].order = *order;
    world->messages[message].master = node->master;
    world->messages[message].known = node->known;
    world->messages[message].seen = node->seen;
    weir_sim_plan(world, arrival_time(world, &node->out_ns), EVENT_REQUEST, node, message);
}

static void answer_later(struct sim_world *world, struct sim_node *node, const struct lease_order *order,
                         enum lease_outcome outcome)
{
    int32_t message = weir_sim_message(world);
    if (message < 0)
        return;
    world->messages[message].reply = lease_reply_of(order, outcome);
    weir_sim_plan(world, world->now_ns + 10000, EVENT_REPLY, node, message);
}

/* They have left the balance, or came with a reply and never were in it. */
static void check_return(struct sim_world *world, struct sim_node *node, int64_t chunks)
{
    int64_t chunk = max64(1, node->lease.terms.chunk), left = min64(chunks, node->withdrawn);
    node->withdrawn -= left;
    chunks -= left;
    left = min64(chunks, node->received / chunk);
    node->received -= left * chunk;
    if (chunks > left || left < 0)
        weir_sim_broken(world, SIM_RETURNED,
                        "node %u returns %lld chunks that it did not take out of its lease balance",
                        sim_node_index(world, node), (long long)(chunks - left));
}

static bool check_order(struct sim_world *world, struct sim_node *node, const struct lease_order *order)
{
    const char *wrong = NULL;
    if (node->flight_count == FLIGHT_MAX)
        wrong = "too many on the way";
    else if (order->id <= node->last_id)
        wrong = "an id was used twice";
    else if (order->op == LEASE_TAKE && (order->chunks < 1 || order->chunks > TICKET_COUNT_MAX))
        wrong = "takes that many chunks";
    node->last_id = order->id;
    if (order->op == LEASE_RETURN)
        check_return(world, node, order->chunks);
    if (wrong)
        weir_sim_broken(world, SIM_FLIGHT, "node %u: %s (order %d, %lld chunks)", sim_node_index(world, node),
                        wrong, order->op, (long long)order->chunks);
    return node->flight_count < FLIGHT_MAX;
}

void weir_sim_net_send(struct sim_world *world, struct sim_node *node, const struct lease_order *order)
{
    if (!check_order(world, node, order))
        return;
    int64_t now = own_time(world, node);
    world->result->orders++;
    node->flights[node->flight_count++] =
        (struct sim_flight){order->id, order->op, now, sat_add(now, world->options.answer_ns)};
    if (!node->up) {
        answer_later(world, node, order, LEASE_FAILED);
        return;
    }
    if (is_message_lost(world))
        return;
    start_flight(world, node, order);
    if (order->op != LEASE_RETURN && faulty(world, SIM_DUPLICATE) &&
        random_once_in(&world->random, world->duplicate)) {
        weir_sim_fault_happened(world, SIM_DUPLICATE);
        start_flight(world, node, order);
    }
}

/* At the coordinator, or the server that is one for this node. */
void weir_sim_net_request(struct sim_world *world, struct sim_node *node, uint32_t life, int32_t number)
{
    struct sim_message copy = world->messages[number];
    if (!reachable(world, node))
        return;
    memset(&copy.reply, 0, sizeof copy.reply);
    if (node->parent < 0 && !weir_sim_split_apply(world, &copy))
        return;
    struct sim_waiting_order ask = {.order = copy.order, .node = sim_node_index(world, node), .life = life};
    if (node->parent >= 0 &&
        !weir_sim_tier_apply(world, sim_node_at(world, (uint32_t)node->parent), &ask, &copy))
        return;
    weir_sim_net_answer(world, node, life, &copy);
}

void weir_sim_net_answer(struct sim_world *world, struct sim_node *node, uint32_t life,
                         const struct sim_message *said)
{
    if (life != node->life || is_message_lost(world))
        return;
    int32_t message = weir_sim_message(world);
    if (message < 0)
        return;
    int32_t next = world->messages[message].next;
    world->messages[message] = *said;
    world->messages[message].next = next;
    weir_sim_plan(world, arrival_time(world, &node->in_ns), EVENT_REPLY, node, message);
}

/* ---- replies ---- */

static void note_seen(struct sim_node *node, const struct sim_origin *origin)
{
    if (origin->epoch > node->known) {
        node->known = origin->epoch;
        node->seen = 0;
    }
    if (origin->epoch == node->known)
        node->seen = max64(node->seen, origin->used);
}

static void deliver_reply(struct sim_world *world, struct sim_node *node, const struct lease_reply *reply,
                          const struct sim_origin *origin)
{
    for (int32_t i = 0; i < node->flight_count; i++) {
        if (node->flights[i].id != reply->id)
            continue;
        struct lease_event event = {
            .kind = LEASE_REPLIED, .reply = *reply, .sent_ns = node->flights[i].sent_ns};
        node->flights[i] = node->flights[--node->flight_count];
        if (origin && node->parent < 0) {
            event.reply.other = origin->master != node->answered_by;
            node->answered_by = origin->master;
            note_seen(node, origin);
        }
        weir_sim_node_step(world, node, &event, origin);
        return;
    }
}

void weir_sim_net_reply(struct sim_world *world, struct sim_node *node, const struct sim_message *message)
{
    if (!node->cut || message->reply.outcome == LEASE_FAILED)
        deliver_reply(world, node, &message->reply, &message->origin);
}

static void expire_flight(struct sim_world *world, struct sim_node *node, struct sim_flight flight)
{
    struct lease_order order = {.id = flight.id, .op = flight.op};
    struct lease_reply reply = lease_reply_of(&order, LEASE_UNKNOWN);
    deliver_reply(world, node, &reply, NULL);
}

void weir_sim_net_expire(struct sim_world *world, struct sim_node *node)
{
    for (int32_t i = 0; i < node->flight_count;) {
        if (node->flights[i].end_ns > own_time(world, node)) {
            i++;
            continue;
        }
        expire_flight(world, node, node->flights[i]);
        i = 0; /* the step may have changed them */
    }
}

/* ---- connections ---- */

static void link_later(struct sim_world *world, struct sim_node *node, bool up, int64_t delay)
{
    int32_t message = weir_sim_message(world);
    if (message < 0)
        return;
    world->messages[message].up = up;
    weir_sim_plan(world, world->now_ns + delay, EVENT_LINK, node, message);
}

void weir_sim_net_link(struct sim_world *world, struct sim_node *node, bool up)
{
    if (up && !reachable(world, node)) { /* it tries again */
        link_later(world, node, true, random_between(&world->random, 50, 500) * WEIR_MS);
        return;
    }
    if (up == node->up)
        return;
    node->up = up;
    if (up) {
        weir_sim_split_choose(world, node);
        weir_sim_node_tell(world, node, LEASE_UP);
        return;
    }
    bool first = random_once_in(&world->random, 2);
    if (first)
        weir_sim_node_tell(world, node, LEASE_DOWN);
    for (int32_t most = FLIGHT_MAX; node->alive && node->flight_count > 0 && most > 0; most--)
        expire_flight(world, node, node->flights[0]);
    if (!first && node->alive)
        weir_sim_node_tell(world, node, LEASE_DOWN);
    if (node->alive)
        link_later(world, node, true, random_between(&world->random, 1, 300) * WEIR_MS);
}

/* Watches of those who ask the root: they come late, and some do not come. */
void weir_sim_net_notice(struct sim_world *world, const struct lease_reply *seen, bool more)
{
    for (size_t i = 0; i < world->node_count; i++) {
        struct sim_node *node = &world->nodes[i];
        bool watches = node->alive && node->up && node->parent < 0 && (!more || node->exhausted);
        if (!watches || is_message_lost(world))
            continue;
        int32_t message = weir_sim_message(world);
        if (message < 0)
            return;
        world->messages[message].reply = *seen;
        world->messages[message].more = more;
        weir_sim_plan(world, arrival_time(world, &node->in_ns), EVENT_NOTICE, node, message);
    }
}
