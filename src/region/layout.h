/* SPDX-License-Identifier: MIT */
/*
 * Where things are in a region, computed from its shape, and whether what a file says of itself can be true.
 */
#ifndef WEIR_REGION_LAYOUT_H
#define WEIR_REGION_LAYOUT_H

#include "region/region.h"

#define LAYOUT_PAGE       UINT64_C(4096) /* the header is one; segments begin at one */
#define LAYOUT_BYTE_ORDER UINT32_C(0x01020304)

/* Offsets in the region. */
struct layout {
    uint64_t parts[REGION_PARTS], stripes, transactions;
    uint64_t segment; /* the first one */
    uint64_t bytes;   /* in all */
};

/* false: it makes no sense, or is more than fits in anything. */
bool weir_layout_of(const struct region_shape *shape, struct layout *layout);

/* Of a segment: slots, reach, numbers, up to the next page; UINT64_MAX if more than fits in anything. */
uint64_t weir_segment_size(const struct region_shape *shape, uint64_t lines);
/* Sets up a segment whose memory begins at `memory`. */
void weir_segment_place(struct segment *segment, const struct region_shape *shape, unsigned char *memory,
                        uint64_t offset, uint64_t lines);

uint64_t weir_header_checksum(const struct region_header *header);

/* Why the first bytes of a file cannot be used as a region: a sentence, NULL if they can. */
const char *weir_header_fault(const struct region_header *header);
/* Has the making of the file begun, and not come to its end? `count` bytes of the header are there. */
bool weir_header_is_unfinished(const struct region_header *header, uint64_t count);

/* A segment of a file, as its header says; UINT64_MAX: it ends nowhere. */
struct span {
    uint64_t offset, lines, end;
};
struct span weir_span_read(const struct region_header *header, const struct region_shape *shape,
                           uint64_t index);
/* Is the first segment where the shape puts it? Are the others behind the one that ends at `before`? */
bool weir_span_fits(const struct region_shape *shape, uint64_t index, const struct span *span,
                    uint64_t before);

/* The bytes that a region of that shape takes; UINT64_MAX if more than fits in anything. */
uint64_t weir_region_size(const struct region_shape *shape);
/* Bytes of the region by their offset, and back: counters of the header (swept ... overrides), parts,
 * segments. NULL, UINT64_MAX: none of these, or not mapped here. */
void *weir_region_at(struct region *region, uint64_t offset, uint64_t bytes);
uint64_t weir_region_offset(struct region *region, const void *address);

#endif
