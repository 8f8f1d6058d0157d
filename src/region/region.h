/* SPDX-License-Identifier: MIT */
/*
 * A region: a bounded segment of memory that outlives those who use it. It lies in anonymous memory of the
 * process, or in a file that any number of processes map. What is in it is found by offsets, never by
 * pointers.
 *
 *   header | parts | stripes | transactions | segment 0 | segment 1 ...
 *
 * Parts are memory for the table's own use, of any size. Stripes and transactions are locks with journals
 * (stripe.h). A segment is an array of lines; a line is `line_slots` slots and has a byte of reach and, if
 * the region is numbered, a lowering number. Growth adds segments. Those of a file stay. In memory of the
 * process the older ones may be closed, then emptied, and retired (table/rehash.h): their memory goes back,
 * and their addresses stay mapped and read as empty slots, so that a thread with an old pointer finds
 * nothing.
 *
 * The header is frozen: it begins with the shape, from which everything about the layout follows, and a
 * checksum over it. A region knows nothing of limits.
 *
 * A process that has opened a file goes by its own copy of the shape, and bounds every number that it reads
 * from the file before it uses it: another process may write anything there at any time. Region time runs on
 * from one boot of the machine to the next (docs/internals/tables.md, 22).
 */
#ifndef WEIR_REGION_REGION_H
#define WEIR_REGION_REGION_H

#include <pthread.h>
#include <stddef.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/sat.h"
#include "os/atomic.h"
#include "os/lock.h"
#include "region/slot.h"
#include "weir.h"

#define REGION_MAGIC        "weir\r\n\032\n"
#define REGION_VERSION      2  /* since then lists of heavy hitters have 127 bytes of a key */
#define REGION_SEGMENTS     64 /* in memory of the process */
#define REGION_SPANS        8  /* in a file */
#define REGION_TRANSACTIONS 4

#define REGION_RECORD_HEAD 24 /* bytes in front of a record's own: see ledger/records.h */

enum region_kind { REGION_WORDS = 1, REGION_WIDE, REGION_OWN, REGION_RECORDS };
enum region_flags {
    REGION_NUMBERED = 1, /* lines have lowering numbers, for a store */
    REGION_WITNESSED = 2 /* slots have witnesses: see table/exact.h */
};
enum region_part { PART_POLICIES, PART_OVERRIDES, PART_TOP, PART_NAMES, REGION_PARTS = 8 };

/* Fixed when a region is made. Sizes are bytes. */
struct region_shape {
    uint32_t kind, flags;
    uint64_t capacity;              /* keys it was made for */
    uint64_t slot_size, line_slots; /* slot_size * line_slots is a multiple of 8; 64 for REGION_WORDS */
    uint64_t lines;                 /* of segment 0 */
    uint64_t stripes;             /* locks; a power of 2; lines is a multiple of it if kind is REGION_WIDE */
    uint64_t journal_size;        /* of each stripe's journal */
    uint64_t transaction_size;    /* of each transaction's journal */
    uint64_t parts[REGION_PARTS]; /* sizes */
    uint64_t own[8];              /* whatever the table wants to know again */
};

/* For assertions about what is in a region. A test that writes to one from outside sets the variable first:
 * then it may be anything. */
extern bool weir_region_scribbled;
#define INTACT(CONDITION) (weir_region_scribbled || (CONDITION))

struct region_span { /* of a segment in the file */
    atom64 offset, lines;
};

/* One page at the start. Everything but the shape changes while it is used, by atomic words. */
struct region_header {
    /* -- immutable, under the checksum -- */
    char magic[8];
    uint32_t version, byte_order; /* 0x01020304 */
    uint64_t id;                  /* drawn by lot: the order in which regions are locked */
    struct hash_key key;          /* of the keyed hash */
    struct region_shape shape;
    uint64_t checksum;
    /* -- read by everybody, seldom written -- */
    _Alignas(64) atom64 ready;              /* 0: being made; 1 */
    atom64 segments;                        /* how many there are */
    atom64 generation;                      /* of the limits: live changes so far */
    atom64 floor;                           /* region time: see table/slots.c */
    struct region_span spans[REGION_SPANS]; /* of a file */
    /* -- written now and then -- */
    _Alignas(64) atom64 swept; /* every word is of this generation, or later */
    atom64 number;             /* the last lowering number that was drawn */
    atom64 cursor;             /* of the sweep: a line */
    atom64 capacity;           /* keys, grown */
    atom64 shared, refused;    /* takes that found no room */
    atom64 overrides;          /* keys with limits of their own */
    /* -- time -- */
    _Alignas(64) atom64 offset; /* region time = host's boot time + offset, as int64_t */
    atom64 seen_time;           /* region time when it was last noted */
    atom64 wall_lead;           /* wall clock - region time at that moment, as int64_t */
    unsigned char boot[16];     /* boot id: whose boot time */
    /* -- for who changes limits, overrides or size: one at a time -- */
    _Alignas(64) pthread_mutex_t change;
    _Atomic uint32_t mending; /* somebody makes a damaged lock anew: see stripe.c */
    /* -- for a log, a ledger, checkpoints: 0 -- */
    _Alignas(64) uint64_t spare[64];
};

struct segment { /* where a segment is in this process */
    unsigned char *slots;
    _Atomic unsigned char *reach; /* of each line */
    atom64 *numbers;              /* of each line, or NULL */
    atom128 *witnesses;           /* of each slot, or NULL */
    uint64_t lines;
    uint64_t offset; /* in the region, of its slots */
    uint64_t bytes;  /* all three, up to the next page */
};

struct region {
    struct region_header *header; /* of a file: whoever may write to it may write anything there */
    struct hash_key key;          /* as it was when the region was made or opened; so are shape and id */
    struct persist *persist;      /* or NULL: a store keeps it, see persist.h */
    int64_t offset_ns;            /* region time = weir_now + this */
    atom64 mapped;                /* segments that are mapped here */
    /* Of a region in memory of the process; of a file 0. They only rise, first <= open < mapped: */
    atom64 first; /* the segments before this one are retired: nothing is looked for there */
    atom64 open;  /* the segments before this one are closed: no key comes in there */
    _Atomic(struct segment *) front; /* the last segment, where nearly all keys are sooner or later */
    struct region_shape shape;       /* checked when the file was opened */
    uint64_t id;
    struct segment segments[REGION_SEGMENTS];
    unsigned char *parts[REGION_PARTS];
    unsigned char *stripes, *transactions; /* see stripe.h */
    atom64 bytes;                          /* in all, of the segments mapped here */
    atom64 occupied; /* slots with a key, whatever became of it; in memory of the process only */
    int file;        /* -1: private memory */
    bool huge;
    bool opening, made, created; /* until it is ready: others wait; from nothing; the file itself, too */
    struct lock lock;            /* around mapping */
    struct lock ready; /* around what the table makes ready in this process; not half done in a fork */
    struct region *next, *previous; /* all regions of the process, by id: see weir_regions_join */
    char *path;
};

/* In memory of the process. NULL: an error, which says what would fit if it is too large. */
struct region *weir_region_new(const struct region_shape *shape, struct weir_error *err);
/* The key of its hash is this one; before anything is in it. */
void weir_region_set_key(struct region *region, const struct hash_key *key);

/*
 * In a file. If there is one, `shape` is not looked at (the caller compares with region->shape); else it is
 * made, and *made is true. A file of another user, or one that more users may write to than `mode` says, is
 * an error: see check_access in region.c. Either way others who open it wait until weir_region_ready; *alone
 * tells whether nobody else has it open: then all locks were made anew, and what a dead process left half
 * done was undone. NULL: an error; nothing was changed, and no half-made file is left behind.
 */
struct region *weir_region_open(const char *path, const struct region_shape *shape, unsigned mode, bool *made,
                                bool *alone, struct weir_error *err);
void weir_region_ready(struct region *region); /* others may use it from now on */
void weir_region_free(struct region *region);  /* also one that never became ready: then its new file goes */

/* A segment more; under header->change. */
bool weir_region_grow(struct region *region, uint64_t lines, struct weir_error *err);
/* Closes all segments but the last, which is to take in their keys; under header->change. Not of a file. */
void weir_region_close(struct region *region);
/* The first segment is closed and empty: it is looked at no more, and its memory goes back. `whole` false: it
 * keeps its memory, because something other than keys is in it. Under header->change. */
void weir_region_retire(struct region *region, bool whole);
/* Maps what others have added. false: that failed; what is mapped stays. */
bool weir_region_refresh(struct region *region);

/* Notes region time and wall clock for the next boot, if the last note is a second old. */
void weir_region_note_time(struct region *region, int64_t region_now);

static inline int64_t region_time(const struct region *region, int64_t now_ns)
{
    int64_t time = sat_add(now_ns, region->offset_ns);
    return time < 0 ? 0 : time > WEIR_TIME_MAX ? WEIR_TIME_MAX : time;
}

/* Segments to be searched; those that others have added meanwhile are mapped first. *whole: that worked, and
 * there are no more. A key that is not found where it is not whole may live in what is not mapped. */
static inline uint64_t region_look(struct region *region, bool *whole)
{
    uint64_t mapped = atom_load(&region->mapped, memory_order_acquire);
    *whole = true;
    if (__builtin_expect(atom_load(&region->header->segments, memory_order_seq_cst) > mapped, 0)) {
        *whole = weir_region_refresh(region);
        mapped = atom_load(&region->mapped, memory_order_acquire);
    }
    return mapped;
}

/* Has a segment been added since region_look said `count`? A key may have been moved there, from where it had
 * not been looked for yet. */
static inline bool region_grew(const struct region *region, uint64_t count)
{
    return atom_load(&region->header->segments, memory_order_seq_cst) > count;
}

static inline uint64_t region_first(const struct region *region)
{
    return region->file >= 0 ? 0 : atom_load(&region->first, memory_order_acquire);
}

/* Sequentially consistent: who is about to make an entry valid asks after he has seen it. */
static inline uint64_t region_open(const struct region *region)
{
    return region->file >= 0 ? 0 : atom_load(&region->open, memory_order_seq_cst);
}

static inline struct segment *region_front(const struct region *region)
{
    return atomic_load_explicit(&region->front, memory_order_acquire);
}

/* Before this time no key starts: see table/slots.h. */
static inline int64_t region_floor(const struct region *region)
{
    return clamp64((int64_t)atom_load(&region->header->floor, memory_order_seq_cst), 0, WEIR_TIME_MAX);
}

static inline uint64_t region_segments(struct region *region)
{
    bool whole;
    return region_look(region, &whole);
}

static inline struct slot *region_slot(const struct segment *segment, uint64_t index)
{
    return (struct slot *)(void *)segment->slots + index;
}

/* A number that nobody has drawn before; later ones are higher. */
static inline uint64_t region_number(struct region *region)
{
    return atom_add(&region->header->number, 1, memory_order_seq_cst) + 1;
}

static inline void region_raise(struct region *region, atom64 *number)
{
    uint64_t drawn = region_number(region), seen = atom_load(number, memory_order_relaxed);
    while (seen < drawn && !atom_cas(number, &seen, drawn, memory_order_seq_cst)) {
    }
}

/* A state of the line is less spent than before, for everybody to see: give, cancel, reset. For one that
 * comes in, or comes back from limits of its own: before anybody can see it. Why is in persist.h. */
static inline void region_lower(struct region *region, const struct segment *segment, uint64_t line)
{
    if (__builtin_expect(segment->numbers != NULL, 0))
        region_raise(region, &segment->numbers[line]);
}

#endif
