/* SPDX-License-Identifier: MIT */
/*
 * What a store and those whose regions it keeps have to know of each other. Tables and records are below the
 * store, and the store knows nothing of limits: so they meet here.
 *
 * An entry is what is kept of one key: a slot of a table, a record. Whoever changes an entry of a region that
 * is kept lists it, after the change, in his thread's list of what is dirty (mark_dirty): also if somebody
 * else has listed it, whose record may be written after our answer. Before an answer goes out the store
 * captures all that the thread has listed, as it is by then, and appends that to the log. So a key that was
 * taken from a thousand times is one record.
 *
 * Records may come to the log, and be read again, in any order. Each has a number: of two of the same entry
 * the one with the higher number counts. It is drawn
 *   - where an entry changes under a lock (wide states, records of the ledger): by whoever captures it, under
 *     that lock, from a counter that the lock guards. So numbers come in the order of states.
 *   - where it changes by an exchange (words): by whoever makes it less spent, from the region's counter, for
 *     the slot's line (region_lower): for an entry that comes in before it can be seen, else after the
 *     change. Who captures reads the number first and the word then. So a higher number means a state that
 *     all lowerings up to that number are in. Of two with the same number the later generation counts, then
 *     the more spent.
 */
#ifndef WEIR_REGION_PERSIST_H
#define WEIR_REGION_PERSIST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

struct store;
struct persist;

/* What the store asks of whoever uses a region. Bodies of records are theirs; at most PERSIST_BODY_MAX bytes,
 * a multiple of 8. A record is written by persist_put. */
struct persist_ops {
    /* Appends the record of the entry that was listed in `slot`, as it is now; also that it is gone, if older
     * records say otherwise. By any thread, and maybe more than once before anything of it is in the log. */
    void (*capture)(const struct persist *persist, void *slot, uint64_t hash, struct buffer *out);
    /* What was captured is in the log, or will be in an image: this thread lists it no more. May be NULL. */
    void (*released)(const struct persist *persist, void *slot, uint64_t hash);
    /* Appends records of all entries in turn, from *cursor on (0 at first), until `out` has `bytes` or more.
     * false: that was the last. Entries as if never used may be left out. Beside those that use it; an entry
     * that is there all the time is not missed. */
    bool (*walk)(const struct persist *persist, uint64_t *cursor, struct buffer *out, size_t bytes);
    /* Recovery, by one thread, before anybody else uses it. Kind (persist_put's) and `body`, at a multiple of
     * 8, came from the disk: their checksum was right, and everything else may be wrong. false: it makes no
     * sense. No room for the entry, or out of memory: *failed is set. */
    bool (*apply)(const struct persist *persist, uint8_t kind, const unsigned char *body, size_t len,
                  bool *failed);
    /* All records that recovery could still read are of this generation of the region (header->generation) or
     * later: even the oldest image that is kept was begun after it. By a thread of the store; may be NULL. */
    void (*imaged)(const struct persist *persist, uint64_t generation);
};

/* Of a region that is kept: region->keep points to it. Made by the store. */
struct persist {
    struct store *store;
    uint32_t number; /* of the region in the store: never used twice */
    const struct persist_ops *kind;
    void *owner; /* table, records: for `kind` */
    /* A thread's list is full, in the middle of something: append what it has. By the store. */
    void (*overfull)(struct store *store);
    /* There is too much that only an image would let the owner forget: it should come soon. By the store. */
    void (*want_image)(struct store *store);
};

/* ---- records ---- */

#define PERSIST_BODY_MAX 65528

struct persist_head { /* as it is on the disk: little-endian, and so is all in it */
    uint32_t region;
    uint16_t bytes; /* of the body */
    uint8_t kind;   /* the owner's; 0 is none */
    uint8_t spare;  /* 0 */
};

/* Room for a record with so many bytes of body, a multiple of 8: to be filled at once. NULL: out->failed. */
static inline void *persist_put(struct buffer *out, uint32_t region, uint8_t kind, size_t bytes)
{
    char *room =
        bytes <= PERSIST_BODY_MAX ? weir_buffer_room(out, sizeof(struct persist_head) + bytes) : NULL;
    if (!room) {
        out->failed = true;
        return NULL;
    }
    struct persist_head head = {region, (uint16_t)bytes, kind, 0};
    memcpy(room, &head, sizeof head);
    buffer_wrote(out, sizeof head + bytes);
    return room + sizeof head;
}

/* ---- what is dirty ---- */

#define DIRTY_MOST  4096 /* entries that a thread lists before it has to append them */
#define DIRTY_SPARE 256  /* and more, while it holds locks */

struct dirty_item {
    struct persist *persist;
    void *slot;
    uint64_t hash;
};

struct dirty { /* of one thread */
    struct dirty_item items[DIRTY_MOST + DIRTY_SPARE];
    uint32_t count;
    uint64_t touched; /* changes that were listed, ever: also those of entries that were listed already */
    uint32_t turn;    /* of the index: entries of another turn are empty */
    struct {
        uint32_t turn, item;
    } index[2 * DIRTY_MOST];
};

/* The thread's own; NULL: it has listed nothing so far. A child of a fork has listed nothing. */
extern _Thread_local struct dirty *weir_dirty __attribute__((visibility("hidden")));
extern _Thread_local uint32_t weir_dirty_holds __attribute__((visibility("hidden")));

/* How often something could not be listed, for want of memory: the log does not tell everything, and the
 * store must make an image before it answers. Of all stores together, so that a commit looks at one word. */
extern _Atomic uint64_t weir_dirty_misses;
void weir_dirty_miss(void);

/* What is listed already, the same `hash` in the same slot, is not listed again. Listing may append, and so
 * capture: whoever has locks that `capture` takes lists after he has dropped them, or between persist_hold
 * and persist_release. */
void weir_dirty_note(struct persist *persist, void *slot, uint64_t hash);
/* Forgets what is listed; what this thread has listed of that store. */
void weir_dirty_clear(struct dirty *dirty);
void weir_dirty_forget(const struct store *store);
/* Appends what is listed, if it is too much. */
void weir_dirty_relieve(void);
/* When a thread that has listed something ends without having appended it: by the store, once. */
void weir_dirty_at_end(void (*flush)(struct dirty *dirty));

/* After an entry of a region was changed. `keep` NULL: the region is not kept. */
static inline void mark_dirty(struct persist *persist, void *slot, uint64_t hash)
{
    if (__builtin_expect(persist != NULL, 0))
        weir_dirty_note(persist, slot, hash);
}

/* Between these two nothing is appended, for the thread holds locks. At most DIRTY_SPARE entries are listed
 * meanwhile, else the store has to make an image. They nest. */
static inline void persist_hold(void)
{
    weir_dirty_holds++;
}

static inline void persist_release(void)
{
    if (--weir_dirty_holds == 0 && weir_dirty && weir_dirty->count >= DIRTY_MOST)
        weir_dirty_relieve();
}

#endif
