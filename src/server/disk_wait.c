/* SPDX-License-Identifier: MIT */
/*
 * Tickets only grow, and lists are kept in the order of tickets: so the first of a list tells whether there
 * is anything to do.
 *
 * Who waits must not miss that the store moves. The I/O thread says that it expects something, then looks at
 * its tickets; the store's thread moves, then looks whether somebody expects something. Both do it by an
 * exchange of the same word: whichever comes second sees all that the other did before.
 */
#include "server/disk_wait.h"
#include "store/commit.h"

#include "server/connection.h"

/* ---- lists ------------------------------------------------------------------------------------ */

static struct disk_wait_list *wait_list_of(struct connection *connection)
{
    struct disk_wait *disk_wait = &connection->io_thread->disk_wait;
    return connection->disk_wait_stage == DISK_WAIT_ROUND ? &disk_wait->round : &disk_wait->waiting;
}

static void append_waiter(struct connection *connection, enum disk_wait_stage disk_wait_stage)
{
    connection->disk_wait_stage = disk_wait_stage;
    struct disk_wait_list *list = wait_list_of(connection);
    connection->disk_wait_before = list->last;
    connection->disk_wait_next = NULL;
    if (list->last)
        list->last->disk_wait_next = connection;
    else
        list->first = connection;
    list->last = connection;
}

void weir_disk_wait_leave(struct connection *connection)
{
    if (connection->disk_wait_stage == DISK_WAIT_NONE)
        return;
    struct disk_wait_list *list = wait_list_of(connection);
    if (connection->disk_wait_before)
        connection->disk_wait_before->disk_wait_next = connection->disk_wait_next;
    else
        list->first = connection->disk_wait_next;
    if (connection->disk_wait_next)
        connection->disk_wait_next->disk_wait_before = connection->disk_wait_before;
    else
        list->last = connection->disk_wait_before;
    connection->disk_wait_stage = DISK_WAIT_NONE;
}

/* ---- parking ---------------------------------------------------------------------------------- */

void weir_disk_wait_add(struct connection *connection)
{
    if (connection->disk_wait_stage == DISK_WAIT_NONE)
        connection->disk_wait_ms = weir_loop_now_ms(connection->io_thread->loop);
    if (connection->disk_wait_stage == DISK_WAIT_ROUND)
        return;
    weir_disk_wait_leave(connection); /* an older ticket is not enough any more */
    append_waiter(connection, DISK_WAIT_ROUND);
}

bool weir_disk_wait_is_stuck(const struct connection *connection)
{
    return connection->disk_wait_stage == DISK_WAIT_STORE &&
           weir_store_ticket_status(connection->io_thread->disk_wait.store, connection->ticket) == STORE_SICK;
}

/* ---- releasing -------------------------------------------------------------------------------- */

void weir_disk_wait_release(struct io_thread *io_thread)
{
    struct disk_wait *disk_wait = &io_thread->disk_wait;
    struct connection *first;
    uint64_t good = 0;
    bool any = false;
    while ((first = disk_wait->waiting.first) != NULL) {
        if ((!any || first->ticket != good) &&
            weir_store_ticket_status(disk_wait->store, first->ticket) != STORE_GO)
            return;
        any = true;
        good = first->ticket;
        weir_disk_wait_leave(first);
        weir_connection_release(first);
    }
}

void weir_disk_wait_moved(struct io_thread *io_thread)
{
    if (atomic_exchange_explicit(&io_thread->disk_wait.expects, false, memory_order_acq_rel))
        weir_io_thread_post(io_thread, IO_TASK_STORE);
}

static void end_read_section(struct io_thread *io_thread)
{
    if (io_thread->worker->snapshot)
        weir_read_end(io_thread->worker);
}

/* The read section ends after this: until then no table goes that the thread has listed something of. */
static void append_to_log(struct io_thread *io_thread)
{
    struct disk_wait *disk_wait = &io_thread->disk_wait;
    struct connection *first;
    disk_wait->uncommitted = false;
    uint64_t ticket = weir_store_commit(disk_wait->store);
    end_read_section(io_thread);
    while ((first = disk_wait->round.first) != NULL) {
        weir_disk_wait_leave(first);
        first->ticket = ticket;
        append_waiter(first, DISK_WAIT_STORE);
    }
}

/* To release one may close it, which gives back what it waited for: that is a change, too. */
static void end_round(struct io_thread *io_thread)
{
    struct disk_wait *disk_wait = &io_thread->disk_wait;
    do {
        if (disk_wait->uncommitted)
            append_to_log(io_thread);
        weir_disk_wait_release(io_thread);
        if (disk_wait->waiting.first) {
            (void)atomic_exchange_explicit(&disk_wait->expects, true, memory_order_acq_rel);
            weir_disk_wait_release(io_thread);
        }
    } while (disk_wait->uncommitted);
    end_read_section(io_thread);
}

static void on_end_of_round(void *arg)
{
    end_round(arg);
}

void weir_disk_wait_end(struct io_thread *io_thread)
{
    if (!io_thread->disk_wait.store)
        return;
    (void)weir_store_commit(io_thread->disk_wait.store);
    io_thread->disk_wait.store = NULL;
    end_read_section(io_thread);
}

bool weir_disk_wait_begin(struct io_thread *io_thread, struct store *store)
{
    io_thread->disk_wait.store = store;
    io_thread->worker->read_section_lasts = store != NULL;
    return !store || weir_loop_at_end(io_thread->loop, on_end_of_round, io_thread);
}
