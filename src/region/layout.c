/* SPDX-License-Identifier: MIT */
/*
 * Nothing in a file is trusted before it has been looked at here. Everything in a shape has a bound that
 * keeps every product below 2^64; what remains is added with care.
 */
#include "region/layout.h"

#include <string.h>

#include "os/mapping.h"
#include "region/stripe.h"

#define BYTES_MAX        (UINT64_C(1) << 47) /* no process can address more */
#define STRIPES_MAX      (UINT64_C(1) << 20)
#define OTHER_BYTE_ORDER UINT32_C(0x04030201)

_Static_assert(sizeof(struct region_header) <= LAYOUT_PAGE, "the header fits in a page");
_Static_assert(offsetof(struct region_header, shape) == 40 &&
                   offsetof(struct region_header, checksum) == 40 + sizeof(struct region_shape),
               "no padding under the checksum");
_Static_assert(sizeof(struct region_shape) == 8 + 8 * (7 + REGION_PARTS + 8), "nor in the shape");

static uint64_t round_up_bytes(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* ---- sizes ---- */

static bool is_power_of_2(uint64_t x)
{
    return x > 0 && (x & (x - 1)) == 0;
}

static bool is_kind_sane(const struct region_shape *shape)
{
    switch (shape->kind) {
    case REGION_WORDS:
        return shape->slot_size == sizeof(struct slot) && shape->line_slots == 64 / sizeof(struct slot);
    case REGION_WIDE:
        return shape->lines % shape->stripes == 0;
    case REGION_OWN:
        return shape->slot_size == sizeof(struct slot);
    case REGION_RECORDS:
        return shape->slot_size > REGION_RECORD_HEAD && shape->slot_size % 8 == 0 && shape->line_slots == 1;
    default:
        return false;
    }
}

static bool is_shape_sane(const struct region_shape *shape)
{
    uint64_t line;
    for (int i = 0; i < REGION_PARTS; i++)
        if (shape->parts[i] > BYTES_MAX)
            return false;
    if (shape->flags & REGION_WITNESSED && shape->kind != REGION_WORDS)
        return false;
    return (shape->flags & ~(uint32_t)(REGION_NUMBERED | REGION_WITNESSED)) == 0 && shape->capacity > 0 &&
           is_power_of_2(shape->stripes) && shape->stripes <= STRIPES_MAX &&
           shape->journal_size <= UINT32_MAX && shape->transaction_size <= UINT32_MAX &&
           shape->slot_size > 0 && shape->line_slots > 0 &&
           !__builtin_mul_overflow(shape->slot_size, shape->line_slots, &line) && line % 8 == 0 &&
           line <= BYTES_MAX && shape->lines > 0 && is_kind_sane(shape);
}

static uint64_t layout_line_size(const struct region_shape *shape)
{
    return shape->slot_size * shape->line_slots;
}

/* Slots, then a byte of reach a line, then a number a line. */
static uint64_t reach_offset(const struct region_shape *shape, uint64_t lines)
{
    return round_up_bytes(layout_line_size(shape) * lines, 64);
}

static uint64_t numbers_offset(const struct region_shape *shape, uint64_t lines)
{
    return round_up_bytes(reach_offset(shape, lines) + lines, 64);
}

/* Then a witness a slot. */
static uint64_t witnesses_offset(const struct region_shape *shape, uint64_t lines)
{
    uint64_t numbers = shape->flags & REGION_NUMBERED ? lines * sizeof(atom64) : 0;
    return round_up_bytes(numbers_offset(shape, lines) + numbers, 64);
}

uint64_t weir_segment_size(const struct region_shape *shape, uint64_t lines)
{
    uint64_t line = layout_line_size(shape);
    if (lines == 0 || line == 0 || lines > BYTES_MAX / line)
        return UINT64_MAX;
    uint64_t witnesses = shape->flags & REGION_WITNESSED ? lines * shape->line_slots * sizeof(atom128) : 0;
    uint64_t bytes = round_up_bytes(witnesses_offset(shape, lines) + witnesses, LAYOUT_PAGE);
    ASSERT(bytes / line >= lines && bytes % LAYOUT_PAGE == 0);
    return bytes;
}

/* Puts something of that size behind what is there; sizes are at most UINT64_MAX / 2, or UINT64_MAX. */
static uint64_t layout_put(uint64_t *end, uint64_t bytes, uint64_t alignment)
{
    uint64_t start = round_up_bytes(*end, alignment);
    *end = bytes > BYTES_MAX || start > BYTES_MAX ? 2 * BYTES_MAX : start + bytes;
    return start;
}

bool weir_layout_of(const struct region_shape *shape, struct layout *layout)
{
    uint64_t end = LAYOUT_PAGE;
    if (!is_shape_sane(shape))
        return false;
    uint64_t stripe = weir_stripe_size(shape->journal_size),
             transaction = weir_transaction_size(shape->transaction_size);
    if (stripe > BYTES_MAX / STRIPES_MAX || transaction > BYTES_MAX / REGION_TRANSACTIONS)
        return false;
    for (int i = 0; i < REGION_PARTS; i++)
        layout->parts[i] = layout_put(&end, shape->parts[i], 64);
    layout->stripes = layout_put(&end, shape->stripes * stripe, 64);
    layout->transactions = layout_put(&end, REGION_TRANSACTIONS * transaction, 64);
    layout->segment = layout_put(&end, weir_segment_size(shape, shape->lines), LAYOUT_PAGE);
    layout->bytes = end;
    ASSERT(end > BYTES_MAX || (layout->parts[0] >= LAYOUT_PAGE && layout->stripes >= layout->parts[0] &&
                               layout->transactions >= layout->stripes + shape->stripes * stripe &&
                               layout->segment >= layout->transactions + REGION_TRANSACTIONS * transaction));
    return end <= BYTES_MAX;
}

uint64_t weir_region_size(const struct region_shape *shape)
{
    struct layout layout;
    return weir_layout_of(shape, &layout) ? layout.bytes : UINT64_MAX;
}

void weir_segment_place(struct segment *segment, const struct region_shape *shape, unsigned char *memory,
                        uint64_t offset, uint64_t lines)
{
    *segment = (struct segment){.slots = memory,
                                .reach = (_Atomic unsigned char *)(memory + reach_offset(shape, lines)),
                                .lines = lines,
                                .offset = offset,
                                .bytes = weir_segment_size(shape, lines)};
    if (shape->flags & REGION_NUMBERED)
        segment->numbers = (atom64 *)(void *)(memory + numbers_offset(shape, lines));
    if (shape->flags & REGION_WITNESSED)
        segment->witnesses = (atom128 *)(void *)(memory + witnesses_offset(shape, lines));
    ASSERT((uintptr_t)segment->reach >= (uintptr_t)memory + lines * shape->slot_size * shape->line_slots);
    ASSERT(!segment->numbers || (uintptr_t)segment->numbers >= (uintptr_t)segment->reach + lines);
    ASSERT(!segment->witnesses ||
           (uintptr_t)(segment->witnesses + lines * shape->line_slots) <= (uintptr_t)memory + segment->bytes);
    ASSERT((uintptr_t)segment->reach + lines <= (uintptr_t)memory + segment->bytes);
    ASSERT(shape->kind != REGION_WIDE || lines % shape->stripes == 0);
}

/* ---- headers of files ---- */

/* Locks of another C library, or of a program of 32 bits, look different in the same place: the key of the
 * checksum knows which ones these are. */
uint64_t weir_header_checksum(const struct region_header *header)
{
#ifdef __GLIBC__
    uint64_t library = 1;
#else
    uint64_t library = 2;
#endif
    struct hash_key key = {.low = UINT64_C(0x7765697220726567) + REGION_VERSION,
                           .high = library << 48 | sizeof(struct region_header) << 24 |
                                   sizeof(pthread_mutex_t) << 8 | sizeof(void *)};
    return weir_hash(&key, header, offsetof(struct region_header, checksum));
}

bool weir_header_is_unfinished(const struct region_header *header, uint64_t count)
{
    static const struct region_header zero;
    size_t magic = sizeof header->magic;
    if (count < magic || memcmp(header->magic, REGION_MAGIC, magic) != 0)
        return false;
    if (count >= sizeof *header)
        return atom_load(&header->ready, memory_order_acquire) == 0;
    return memcmp((const char *)header + magic, (const char *)&zero + magic, count - magic) == 0;
}

const char *weir_header_fault(const struct region_header *header)
{
    struct layout layout;
    if (memcmp(header->magic, REGION_MAGIC, sizeof header->magic) != 0)
        return "is no table of weir; name another file";
    if (header->byte_order == OTHER_BYTE_ORDER)
        return "was made on a machine of the other byte order; remove it to begin anew";
    if (header->version > REGION_VERSION && header->byte_order == LAYOUT_BYTE_ORDER)
        return "was made by a later weir; update this one, or remove the file to begin anew";
    if (header->version == 1 && header->byte_order == LAYOUT_BYTE_ORDER)
        return "was made by an earlier weir; remove it to begin anew";
    if (header->version != REGION_VERSION || header->byte_order != LAYOUT_BYTE_ORDER ||
        header->checksum != weir_header_checksum(header))
        return "is damaged (its checksum is wrong), or was made by a program of another kind (32 bits, "
               "another C library); remove it to begin anew";
    uint64_t segments = atom_load(&header->segments, memory_order_acquire);
    uint64_t seen = atom_load(&header->seen_time, memory_order_relaxed);
    uint64_t floor = atom_load(&header->floor, memory_order_relaxed);
    if (!weir_layout_of(&header->shape, &layout) || atom_load(&header->ready, memory_order_acquire) != 1 ||
        segments == 0 || segments > REGION_SPANS || seen > WEIR_TIME_MAX || floor > WEIR_TIME_MAX)
        return "is damaged (what it says of itself cannot be); remove it to begin anew";
    return NULL;
}

/* ---- spans ---- */

struct span weir_span_read(const struct region_header *header, const struct region_shape *shape,
                           uint64_t index)
{
    struct span span = {.offset = atom_load(&header->spans[index].offset, memory_order_relaxed),
                        .lines = atom_load(&header->spans[index].lines, memory_order_relaxed)};
    uint64_t bytes = weir_segment_size(shape, span.lines);
    span.end = bytes > BYTES_MAX || span.offset > BYTES_MAX ? UINT64_MAX : span.offset + bytes;
    return span;
}

/* Each begins behind the one before, so they cannot overlap; and every stripe has its share of it. */
bool weir_span_fits(const struct region_shape *shape, uint64_t index, const struct span *span,
                    uint64_t before)
{
    struct layout layout;
    if (span->end == UINT64_MAX)
        return false;
    if (index > 0)
        return span->offset >= before && span->offset % weir_page_size() == 0 &&
               (shape->kind != REGION_WIDE || span->lines % shape->stripes == 0);
    return weir_layout_of(shape, &layout) && span->offset == layout.segment && span->lines == shape->lines;
}

/* ---- offsets ---- */

static bool is_range_within(uint64_t offset, uint64_t bytes, uint64_t start, uint64_t end)
{
    return offset >= start && offset <= end && bytes <= end - offset;
}

/* Counters of the header, parts and segments: what decisions change. The rest is no business of who asks, so
 * a damaged journal cannot reach it. */
static bool is_in_head(const struct region *region, uint64_t offset, uint64_t bytes)
{
    uint64_t stripes = (uint64_t)(region->stripes - (unsigned char *)region->header);
    return is_range_within(offset, bytes, LAYOUT_PAGE, stripes) ||
           is_range_within(offset, bytes, offsetof(struct region_header, swept),
                           offsetof(struct region_header, offset));
}

void *weir_region_at(struct region *region, uint64_t offset, uint64_t bytes)
{
    if (is_in_head(region, offset, bytes)) {
        ASSERT((weir_u128)offset + bytes <= (uintptr_t)region->stripes - (uintptr_t)region->header);
        return (unsigned char *)region->header + offset;
    }
    uint64_t count = region_segments(region);
    for (uint64_t i = 0; i < count; i++) {
        const struct segment *segment = &region->segments[i];
        if (is_range_within(offset, bytes, segment->offset, segment->offset + segment->bytes)) {
            ASSERT(offset - segment->offset <= segment->bytes &&
                   bytes <= segment->bytes - (offset - segment->offset));
            return segment->slots + (offset - segment->offset);
        }
    }
    return NULL;
}

uint64_t weir_region_offset(struct region *region, const void *address)
{
    uint64_t count = atom_load(&region->mapped, memory_order_acquire);
    uint64_t offset = (uint64_t)((uintptr_t)address - (uintptr_t)region->header);
    if (is_in_head(region, offset, 1))
        return offset;
    for (uint64_t i = 0; i < count; i++) {
        const struct segment *segment = &region->segments[i];
        offset = (uint64_t)((uintptr_t)address - (uintptr_t)segment->slots);
        if (offset < segment->bytes) {
            offset = segment->offset + offset;
            ASSERT(weir_region_at(region, offset, 1) == address); /* the way back is the same */
            return offset;
        }
    }
    return UINT64_MAX;
}
