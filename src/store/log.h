/* SPDX-License-Identifier: MIT */
/*
 * The end of the log: segments, one after the other, to which frames are appended by one write each.
 *
 * In STORE_ALWAYS a segment is written full of zeros, and synced, before it is used: a sync then has no sizes
 * or places of blocks to write down besides, which takes half of the time. In the other modes it grows. The
 * next one is made ready by the keeper when the one in use is half full; who comes to the end first makes one
 * himself, that grows.
 */
#ifndef WEIR_STORE_LOG_H
#define WEIR_STORE_LOG_H

#include "store/inside.h"

/* A frame that is to be appended: its head, not filled in, then its payload, in the buffer's bytes. */
void weir_log_frame(struct buffer *frame); /* an empty one */

static inline size_t log_frame_payload(const struct buffer *frame)
{
    return buffer_len(frame) - sizeof(struct frame_head);
}

/* All of these under log.lock. What fails makes the store ill. */

/* false: it was not appended. */
bool weir_log_append(struct store *store, enum frame_kind kind, struct buffer *frame, int64_t records);
/* Begins a segment: the spare one, or a new one. Its predecessor waits to be synced. */
bool weir_log_begin(struct store *store);
/* For whom nothing could be appended: good when all is well again. */
static inline uint64_t log_ticket_ill(const struct store *store)
{
    return atomic_load_explicit(&store->log.appended, memory_order_relaxed) + 1;
}

/* Without it. */

/* The keeper's: makes the next segment ready, in small steps. true: there is more to do at once. */
bool weir_log_spare_step(struct store *store);
/* Zeros behind the last frame of a segment that nobody appends to any more go. If that fails nothing is lost:
 * the next start does it. */
void weir_log_cut(struct store *store, const struct log_file *segment);
/* Closes all files. Segments from number `remove_from` on are removed, too; 0: none. By who holds sync.step.
 */
void weir_log_close_files(struct store *store, uint64_t remove_from);

#endif
