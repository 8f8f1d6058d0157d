/* SPDX-License-Identifier: MIT */
/*
 * Tickets only grow, and lists are kept in the order of tickets: so the first of a list tells whether there
 * is anything to do.
 *
 * Who waits must not miss that the store moves. The lane says that it expects something, then looks at its
 * tickets; the store's thread moves, then looks whether somebody expects something. Both do it by an exchange
 * of the same word: whichever comes second sees all that the other did before.
 */
#include "server/parking.h"

#include "server/connection.h"

/* Those that could not be listed count, too: the store knows of them, and their tickets wait for an image. */
static uint64_t changes_so_far(void)
{
    uint64_t misses = atomic_load_explicit(&weir_dirty_misses, memory_order_relaxed);
    return misses + (weir_dirty ? weir_dirty->touched : 0);
}

/* ---- lists ------------------------------------------------------------------------------------ */

static struct park_list *list_of(struct connection *connection)
{
    struct parking *parking = &connection->lane->parking;
    return connection->park == PARK_ROUND ? &parking->round : &parking->waiting;
}

static void append(struct connection *connection, enum park park)
{
    connection->park = park;
    struct park_list *list = list_of(connection);
    connection->park_before = list->last;
    connection->park_next = NULL;
    if (list->last)
        list->last->park_next = connection;
    else
        list->first = connection;
    list->last = connection;
}

void weir_parking_leave(struct connection *connection)
{
    if (connection->park == PARK_NONE)
        return;
    struct park_list *list = list_of(connection);
    if (connection->park_before)
        connection->park_before->park_next = connection->park_next;
    else
        list->first = connection->park_next;
    if (connection->park_next)
        connection->park_next->park_before = connection->park_before;
    else
        list->last = connection->park_before;
    connection->park = PARK_NONE;
}

/* ---- parking ---------------------------------------------------------------------------------- */

bool weir_parking_changed(struct lane *lane)
{
    struct parking *parking = &lane->parking;
    uint64_t changes = changes_so_far();
    bool changed = changes != parking->seen || lane->worker->repeats;
    parking->seen = changes;
    lane->worker->repeats = false;
    return changed;
}

void weir_parking_put(struct connection *connection)
{
    if (connection->park == PARK_NONE)
        connection->parked_ms = weir_loop_now_ms(connection->lane->loop);
    if (connection->park == PARK_ROUND)
        return;
    weir_parking_leave(connection); /* an older ticket is not enough any more */
    append(connection, PARK_ROUND);
}

bool weir_parking_is_sick(const struct connection *connection)
{
    return connection->park == PARK_STORE &&
           weir_store_may(connection->lane->parking.store, connection->ticket) == STORE_SICK;
}

/* ---- releasing -------------------------------------------------------------------------------- */

void weir_parking_look(struct lane *lane)
{
    struct parking *parking = &lane->parking;
    struct connection *first;
    uint64_t good = 0;
    bool any = false;
    while ((first = parking->waiting.first) != NULL) {
        if ((!any || first->ticket != good) && weir_store_may(parking->store, first->ticket) != STORE_GO)
            return;
        any = true;
        good = first->ticket;
        weir_parking_leave(first);
        weir_connection_release(first);
    }
}

void weir_parking_moved(struct lane *lane)
{
    if (atomic_exchange_explicit(&lane->parking.expects, false, memory_order_acq_rel))
        weir_lane_wish(lane, WISH_STORE);
}

static void end_turn(struct lane *lane)
{
    if (lane->worker->snapshot)
        weir_worker_end(lane->worker);
}

/* The turn ends after this: until then no table goes that the thread has listed something of. */
static void append_to_log(struct lane *lane)
{
    struct parking *parking = &lane->parking;
    struct connection *first;
    parking->logged = changes_so_far();
    uint64_t ticket = weir_store_commit(parking->store);
    end_turn(lane);
    while ((first = parking->round.first) != NULL) {
        weir_parking_leave(first);
        first->ticket = ticket;
        append(first, PARK_STORE);
    }
}

/* To release one may close it, which gives back what it waited for: that is a change, too. */
static void end_round(struct lane *lane)
{
    struct parking *parking = &lane->parking;
    do {
        if (parking->round.first || parking->logged != changes_so_far())
            append_to_log(lane);
        weir_parking_look(lane);
        if (parking->waiting.first) {
            (void)atomic_exchange_explicit(&parking->expects, true, memory_order_acq_rel);
            weir_parking_look(lane);
        }
    } while (parking->round.first || parking->logged != changes_so_far());
    end_turn(lane);
}

static void on_end_of_round(void *arg)
{
    end_round(arg);
}

void weir_parking_end(struct lane *lane)
{
    if (!lane->parking.store)
        return;
    (void)weir_store_commit(lane->parking.store);
    lane->parking.store = NULL;
    end_turn(lane);
}

bool weir_parking_begin(struct lane *lane, struct store *store)
{
    lane->parking.store = store;
    lane->worker->turn_lasts = store != NULL;
    return !store || weir_loop_at_end(lane->loop, on_end_of_round, lane);
}
