/* SPDX-License-Identifier: MIT */
/*
 * The end of the log: segments, one after the other, to which frames are appended by one write each.
 *
 * In STORE_ALWAYS zeros are written ahead of the frames, in small pieces, by the syncer. Frames are then
 * written in place: a sync has no size and no blocks to write down besides, which takes half of the time, and
 * does not depend on the journal of the file system. A piece is for several syncs, and so is larger the more
 * a sync has. In the other modes a segment grows, and so it does where the disk has no room to spare: then,
 * and when a piece is new, the sync is true if the file system can still be changed after it (disk.h:
 * witness). A frame that has no zeros behind it is written together with a few, so that a segment of
 * STORE_ALWAYS never ends with a frame (recover.h).
 */
#ifndef WEIR_STORE_LOG_H
#define WEIR_STORE_LOG_H

#include "store/internal.h"

/* A frame that is to be appended: its head, not filled in, then its payload, in the buffer's bytes. */
void weir_log_frame(struct buffer *frame); /* an empty one */

static inline size_t log_frame_payload(const struct buffer *frame)
{
    return buffer_len(frame) - sizeof(struct frame_head);
}

/* All of these under log.lock. What fails makes the store ill. */

/* false: it was not appended. */
bool weir_log_append(struct store *store, enum frame_kind kind, struct buffer *frame, int64_t records);
/* Begins a segment. Its predecessor waits to be synced. */
bool weir_log_begin(struct store *store);
/* Before a sync: writes zeros ahead, if it is time to. */
void weir_log_zero(struct store *store);
/* Bytes of its file. */
static inline uint64_t log_file_size(const struct log_file *segment)
{
    return segment->end > segment->zeroed ? segment->end : segment->zeroed;
}
/* For whom nothing could be appended: good when all is well again. */
static inline uint64_t log_ticket_ill(const struct store *store)
{
    return atomic_load_explicit(&store->log.appended, memory_order_relaxed) + 1;
}

/* Without it. */

/* Zeros behind the last frame of a segment that nobody appends to any more go. If that fails nothing is lost:
 * the next start does it. */
void weir_log_cut(struct store *store, const struct log_file *segment);
/* Closes all files. Segments from number `remove_from` on are removed, too; 0: none. By who holds sync.step.
 */
void weir_log_close_files(struct store *store, uint64_t remove_from);

/* A new segment, from now on; its number and first sequence. What was changed before this call and is in no
 * frame yet will be in that segment, or behind it. false: the store is ill, or too many segments wait for a
 * sync that does not come. */
bool weir_log_rotate(struct store *store, uint64_t *segment, uint64_t *sequence);

#endif
