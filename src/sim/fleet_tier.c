/* SPDX-License-Identifier: MIT */
/*
 * A server of a tier: to those above it a node like any other, to those below a coordinator that turns epochs
 * itself. It leases on what is in its balance, with the end that the balance's units have.
 */
#include "sim/fleet_world.h"

#define TIER_SHARE 8 /* a chunk of its own is so many of theirs */
#define RETRY_NS   (10 * WEIR_MS)
#define WAIT_NS    (50 * WEIR_MS) /* that a question is held if units are on their way */

/* By what the file of a server says of the limit: the same in every tier. */
static int64_t chunk_below(const struct sim_world *world)
{
    return max64(1, world->terms.chunk / TIER_SHARE);
}

static void note_units_lent(struct sim_node *server, int64_t until_ns, int64_t chunks)
{
    if (server->lent_epoch != server->lease.epoch || server->lent_until_ns != until_ns)
        server->lent = 0;
    server->lent_epoch = server->lease.epoch;
    server->lent_until_ns = until_ns;
    server->lent += chunks;
}

static bool is_alike(const struct sim_units *one, const struct sim_units *other)
{
    return one->origin.epoch == other->origin.epoch && one->origin.master == other->origin.master &&
           one->share == other->share;
}

/* Up to n units as one piece: nothing of it may be spent earlier or later than any part. */
static struct sim_units take_together(struct sim_balance *balance, int64_t now, int64_t n)
{
    struct sim_units all = {0};
    for (int32_t i = 0; i < balance->count && all.units < n; i++) {
        struct sim_units *piece = &balance->pieces[i];
        int64_t before = all.units, some = min64(piece->units, n - before);
        if (piece->from_ns > now || piece->until_ns <= now || some <= 0 ||
            (before > 0 && !is_alike(&all, piece)))
            continue;
        if (before == 0)
            all = *piece;
        all.units = before + some;
        all.from_ns = max64(all.from_ns, piece->from_ns);
        all.until_ns = min64(all.until_ns, piece->until_ns);
        all.origin.starts_ns = max64(all.origin.starts_ns, piece->origin.starts_ns);
        all.origin.ends_ns = min64(all.origin.ends_ns, piece->origin.ends_ns);
        all.origin.used = max64(all.origin.used, piece->origin.used);
        piece->units -= some;
    }
    balance->spent += all.units;
    return all;
}

/* false: there is nothing. */
static bool lend_units(struct sim_world *world, struct sim_node *server, const struct lease_order *order,
                       struct sim_message *message)
{
    struct lease_reply *reply = &message->reply;
    int64_t now = own_time(world, server), chunk = chunk_below(world);
    struct sim_units taken = take_together(&server->balance, now, sat_mul(order->chunks, chunk));
    if (taken.units == 0)
        return false;
    reply->units = taken.units;
    reply->chunks = div_up(taken.units, chunk);
    reply->ends_ns = taken.until_ns - now;
    message->origin = taken.origin;
    weir_sim_node_spent(world, server, &taken);
    note_units_lent(server, taken.until_ns, taken.units / chunk);
    return true;
}

static void refuse_sim_lease(const struct sim_world *world, const struct sim_node *server,
                             struct lease_reply *reply)
{
    reply->exhausted = true;
    reply->retry_ns = RETRY_NS;
    if (server->exhausted && server->retry_at_ns != WEIR_FOREVER)
        reply->retry_ns = max64(reply->retry_ns, server->retry_at_ns - own_time(world, server));
}

/* Back into the balance, to units of the same epoch and end, and no more than were leased of those. */
static void accept_return(struct sim_world *world, struct sim_node *server, const struct lease_order *order,
                          struct lease_reply *reply)
{
    int64_t now = own_time(world, server), chunk = chunk_below(world);
    int64_t chunks = min64(order->chunks, server->lent);
    if (order->epoch != server->lent_epoch || server->lease.terms.kind == LEASE_BUCKET) {
        reply->outcome = LEASE_MOVED;
        return;
    }
    for (int32_t i = 0; i < server->balance.count; i++) {
        struct sim_units *piece = &server->balance.pieces[i];
        if (piece->until_ns <= now || piece->until_ns != server->lent_until_ns)
            continue;
        piece->units += chunks * chunk;
        server->lent -= chunks;
        server->balance.spent -= chunks * chunk;
        if (piece->share)
            server->share_spent -= chunks * chunk;
        reply->chunks = chunks;
        reply->units = chunks * chunk;
        return;
    }
}

static void describe_server(const struct sim_world *world, const struct sim_node *server,
                            const struct lease_order *order, struct lease_reply *reply)
{
    *reply = (struct lease_reply){.id = order->id, .op = order->op, .outcome = LEASE_DONE, .left = -1};
    reply->age_ns = -1;
    reply->ends_ns = max64(0, server->lease.until_ns - own_time(world, server));
    reply->epoch = server->lease.epoch;
    reply->terms = server->lease.terms;
    if (server->lease.terms.chunk > 0)
        reply->terms.chunk = reply->terms.base = chunk_below(world);
}

/* ---- who waits ---- */

static bool queue_lease_order(const struct sim_world *world, struct sim_node *server,
                              const struct sim_waiting_order *ask)
{
    if (server->exhausted || server->lease.lost || server->held_count == HELD_MAX)
        return false;
    struct sim_waiting_order *held = &server->held[server->held_count++];
    *held = *ask;
    held->until_ns = sat_add(own_time(world, server), WAIT_NS);
    return true;
}

static void drop_waiting_order(struct sim_node *server, int32_t at)
{
    server->held_count--;
    for (int32_t i = at; i < server->held_count; i++)
        server->held[i] = server->held[i + 1];
}

void weir_sim_tier_serve(struct sim_world *world, struct sim_node *server)
{
    int64_t now = own_time(world, server);
    for (int32_t i = 0;
         server->alive && server->stopped_until_ns <= world->now_ns && i < server->held_count;) {
        struct sim_waiting_order held = server->held[i];
        struct sim_message message = {.order = held.order};
        bool wait = now < held.until_ns && !server->exhausted && !server->lease.lost;
        describe_server(world, server, &held.order, &message.reply);
        if (!lend_units(world, server, &held.order, &message)) {
            if (wait) {
                i++;
                continue;
            }
            refuse_sim_lease(world, server, &message.reply);
        }
        drop_waiting_order(server, i);
        weir_sim_net_answer(world, sim_node_at(world, held.node), held.life, &message);
    }
}

int64_t weir_sim_tier_next(const struct sim_node *server)
{
    return server->held_count > 0 ? server->held[0].until_ns : WEIR_FOREVER;
}

int64_t weir_sim_tier_wanted(const struct sim_world *world, const struct sim_node *server)
{
    int64_t most = 0;
    for (int32_t i = 0; i < server->held_count; i++)
        most = max64(most, sat_mul(server->held[i].order.chunks, chunk_below(world)));
    return most;
}

/* ---- all of it ---- */

bool weir_sim_tier_apply(struct sim_world *world, struct sim_node *server,
                         const struct sim_waiting_order *ask, struct sim_message *message)
{
    const struct lease_order *order = &ask->order;
    struct lease_reply *reply = &message->reply;
    bool held = false;
    describe_server(world, server, order, reply);
    if (order->op == LEASE_TAKE && !lend_units(world, server, order, message)) {
        server->refused = max64(server->refused, sat_mul(order->chunks, chunk_below(world)));
        server->at_once = max64(server->at_once, server->refused);
        held = queue_lease_order(world, server, ask);
        refuse_sim_lease(world, server, reply);
    } else if (order->op == LEASE_RETURN) {
        accept_return(world, server, order, reply);
    } else if (order->op == LEASE_TURN) {
        reply->outcome = LEASE_MOVED;
    }
    weir_sim_node_tell(world, server, LEASE_WAKE);
    return !held;
}
