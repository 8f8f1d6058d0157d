/* SPDX-License-Identifier: MIT */
/*
 * Tickets only grow, and pieces are kept in the order of tickets: so the first one tells whether there is
 * anything to do.
 *
 * No piece must miss that the store moves. The I/O thread says that it expects something, then looks at its
 * tickets; the store's thread moves, then looks which threads expect something. Both do it by an exchange of
 * the same word: whichever comes second sees all that the other did before.
 */
#include "server/disk_wait.h"

#include <stdlib.h>

#include "base/assert.h"
#include "os/futex.h"
#include "server/output.h"
#include "store/commit.h"

/* ---- pieces ----------------------------------------------------------------------------------- */

/* The connection's own pieces, in the order of tickets, are what it holds back of its output. */
static void assert_pieces(const struct connection *connection)
{
#if WEIR_ASSERTIONS
    size_t len = 0, answers = 0, count = 0;
    const struct piece *last = NULL;
    for (const struct piece *at = connection->pieces; at; last = at, at = at->later) {
        INVARIANT(41, !last || (last->committed && (!at->committed || at->ticket > last->ticket)));
        len += at->len;
        answers += at->answers;
        count++;
    }
    INVARIANT(41, last == connection->last_piece && len == connection->held_back &&
                      answers == connection->held_answers && count == connection->piece_count);
    INVARIANT(41, len <= buffer_len(&connection->out));
    INVARIANT(36, answers <= OUTPUT_ANSWERS);
#endif
    (void)connection;
}

static struct piece *append_piece(struct connection *connection)
{
    struct disk_wait *disk_wait = &connection->io_thread->disk_wait;
    struct piece *piece = malloc(sizeof *piece);
    if (!piece)
        return NULL;
    *piece = (struct piece){.connection = connection,
                            .before = disk_wait->last,
                            .since_ms = weir_loop_now_ms(connection->io_thread->loop),
                            .since_ns = weir_monotonic_ns()};
    *(disk_wait->last ? &disk_wait->last->next : &disk_wait->first) = piece;
    disk_wait->last = piece;
    if (!disk_wait->round)
        disk_wait->round = piece;
    *(connection->pieces ? &connection->last_piece->later : &connection->pieces) = piece;
    connection->last_piece = piece;
    connection->piece_count++;
    return piece;
}

/* The connection's first. */
static void remove_piece(struct connection *connection)
{
    struct disk_wait *disk_wait = &connection->io_thread->disk_wait;
    struct piece *piece = connection->pieces;
    if (disk_wait->round == piece)
        disk_wait->round = piece->next;
    *(piece->before ? &piece->before->next : &disk_wait->first) = piece->next;
    *(piece->next ? &piece->next->before : &disk_wait->last) = piece->before;
    connection->pieces = piece->later;
    if (!connection->pieces)
        connection->last_piece = NULL;
    connection->held_back -= piece->len;
    connection->held_answers -= piece->answers;
    connection->piece_count--;
    free(piece);
}

bool weir_disk_wait_hold(struct connection *connection, size_t len, uint32_t answers, bool changed)
{
    struct piece *piece = connection->last_piece;
    ASSERT(piece || changed);
    if (!piece || (changed && piece->committed)) /* an older ticket is not enough */
        piece = append_piece(connection);
    if (!piece)
        return false;
    piece->len += len;
    piece->answers += answers;
    connection->held_back += len;
    connection->held_answers += answers;
    INVARIANT(41, !changed || !piece->committed);
    assert_pieces(connection);
    return true;
}

void weir_disk_wait_leave(struct connection *connection)
{
    while (connection->pieces)
        remove_piece(connection);
}

static bool is_good(const struct disk_wait *disk_wait, const struct piece *piece)
{
    return piece->committed && weir_store_ticket_status(disk_wait->store, piece->ticket) == STORE_GO;
}

bool weir_disk_wait_is_stuck(const struct connection *connection)
{
    const struct piece *piece = connection->pieces;
    return piece->committed &&
           weir_store_ticket_status(connection->io_thread->disk_wait.store, piece->ticket) == STORE_SICK;
}

/* ---- releasing -------------------------------------------------------------------------------- */

void weir_disk_wait_release(struct io_thread *io_thread)
{
    struct disk_wait *disk_wait = &io_thread->disk_wait;
    struct histogram *waits = &io_thread->worker->store_wait;
    int64_t now_ns = disk_wait->first ? weir_monotonic_ns() : 0;
    while (disk_wait->first && is_good(disk_wait, disk_wait->first)) {
        struct connection *connection = disk_wait->first->connection;
        INVARIANT(41, connection->pieces == disk_wait->first);
        do {
            INVARIANT(41,
                      connection->pieces->committed &&
                          weir_store_ticket_status(disk_wait->store, connection->pieces->ticket) == STORE_GO);
            histogram_observe(waits, weir_store_wait_bounds, now_ns - connection->pieces->since_ns, 1);
            remove_piece(connection);
        } while (connection->pieces && is_good(disk_wait, connection->pieces));
        assert_pieces(connection);
        weir_connection_release(connection);
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
    disk_wait->uncommitted = false;
    uint64_t ticket = weir_store_commit(disk_wait->store);
    end_read_section(io_thread);
    for (struct piece *piece = disk_wait->round; piece; piece = piece->next) {
        INVARIANT(41, !piece->committed && (!piece->before || piece->before->ticket <= ticket));
        piece->ticket = ticket;
        piece->committed = true;
    }
    disk_wait->round = NULL;
}

/* Also what nobody has said: places of a table that is freed must not stay listed. */
static bool has_uncommitted(const struct disk_wait *disk_wait)
{
    bool listed = weir_dirty && weir_dirty->count > 0;
    INVARIANT(42, disk_wait->uncommitted || !listed);
    return disk_wait->uncommitted || listed;
}

/* To release one may close it, which gives back what it waited for: that is a change, too. */
static void end_round(void *arg)
{
    struct io_thread *io_thread = arg;
    struct disk_wait *disk_wait = &io_thread->disk_wait;
    do {
        INVARIANT(41, !disk_wait->round || disk_wait->uncommitted);
        if (has_uncommitted(disk_wait))
            append_to_log(io_thread);
        weir_disk_wait_release(io_thread);
        if (disk_wait->first) {
            (void)atomic_exchange_explicit(&disk_wait->expects, true, memory_order_acq_rel);
            weir_disk_wait_release(io_thread);
        }
    } while (has_uncommitted(disk_wait));
    end_read_section(io_thread);
    INVARIANT(42, !io_thread->worker->snapshot && !disk_wait->round);
}

void weir_disk_wait_end(struct io_thread *io_thread)
{
    if (!io_thread->disk_wait.store)
        return;
    ASSERT(!io_thread->disk_wait.first);
    (void)weir_store_commit(io_thread->disk_wait.store);
    io_thread->disk_wait.store = NULL;
    end_read_section(io_thread);
}

void weir_disk_wait_begin(struct io_thread *io_thread, struct store *store)
{
    io_thread->disk_wait.store = store;
    io_thread->worker->read_section_lasts = store != NULL;
    if (store)
        weir_loop_at_end(io_thread->loop, end_round, io_thread);
}
