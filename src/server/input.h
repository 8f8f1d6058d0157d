/* SPDX-License-Identifier: MIT */
/*
 * The input of a connection. Bytes are read into the I/O thread's own memory and run from there; only what is
 * left of them is kept with the connection. So an idle one has no buffers. A pipeline that was read in one go
 * is run in batches and answered with one write; after SLICE_NS other connections get their turn, or after as
 * many requests as output.h has room for.
 */
#ifndef WEIR_SERVER_INPUT_H
#define WEIR_SERVER_INPUT_H

#include "resp/read.h"
#include "server/connection.h"
#include "server/output.h"

#define BATCH                32
#define BATCH_WORDS          1024 /* a batch ends when its requests have so many words */
#define ARGS_MAX             1024
#define BULK_MAX             (64 * 1024)
#define REQUEST_MAX          (1 << 20)
#define UNAUTHENTICATED_ARGS 10
#define UNAUTHENTICATED_BULK 16384
#define HTTP_HEAD_MAX        16384
#define UNAUTHENTICATED_BODY (128 * 1024)
#define SLICE_NS             WEIR_MS
#define READ_SIZE            (64 * 1024) /* read at once, into the I/O thread's own memory */
#define HEADROOM             4096        /* before that: for what was kept of the last time */

/* May requests of it be run now? */
static inline bool input_may_run(const struct connection *connection)
{
    return connection->state == OPEN && !connection->session.pending && output_room(connection) >= BATCH;
}

/* Reads and runs. */
void weir_input_read(struct connection *connection);
/* Runs what was read before. */
void weir_input_run_kept(struct connection *connection);
/* Throws away what it still sends. */
void weir_input_discard(struct connection *connection);

#endif
