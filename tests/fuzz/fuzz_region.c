/* SPDX-License-Identifier: MIT */
/*
 * Hostile bytes as the file of a region. An input says which good file to begin with and what to write over
 * it; what opens must be whole: every byte of it can be reached, every lock taken, and it can grow.
 *
 *   byte 0        bits 0-1 which file, bit 7: the checksum is made right afterwards
 *   bytes 1, 2    0, or 1 + the length that the file is cut to
 *   and then      offset (2 bytes), length (2 bytes), that many bytes; as often as there are
 *
 * Numbers have their low byte first.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "must.h"
#include "os/boot.h"
#include "region/layout.h"
#include "region/stripe.h"
#include "unit/region/damage.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FILES    4
#define FILE_MAX 65536

static struct {
    int file;
    char path[32];
    unsigned char bytes[FILES][FILE_MAX], now[FILE_MAX];
    size_t sizes[FILES];
} good;

__attribute__((destructor)) static void remove_file(void)
{
    if (good.path[0])
        (void)unlink(good.path);
}

static bool same_id(unsigned char *id)
{
    memset(id, 7, BOOT_ID_SIZE);
    return true;
}

static bool no_shift(int64_t *shift_ns)
{
    *shift_ns = 0;
    return true;
}

static int64_t same_wall(void)
{
    return 5000 * WEIR_SEC;
}

static struct region_shape shape_of(unsigned which)
{
    struct region_shape shape = {.kind = which == 3 ? REGION_WORDS : REGION_WORDS + which,
                                 .capacity = 30,
                                 .slot_size = 16,
                                 .line_slots = 4,
                                 .lines = 16,
                                 .stripes = which == 3 ? 1 : 4,
                                 .journal_size = weir_journal_size(128, 4),
                                 .transaction_size = weir_journal_size(128, 4),
                                 .parts = {200, 100}};
    if (shape.kind == REGION_WIDE) {
        shape.flags = REGION_NUMBERED;
        shape.slot_size = 40;
    }
    return shape;
}

static struct region *open_good(unsigned which)
{
    struct region_shape shape = shape_of(which);
    struct weir_error err;
    bool made, alone;
    struct region *region = weir_region_open(good.path, &shape, 0600, &made, &alone, &err);
    MUST(!region == (err.code != 0));
    MUST(region || err.text[0] != '\0');
    return region;
}

static void grow(struct region *region)
{
    weir_change_lock(region);
    uint64_t before = region_segments(region);
    MUST(weir_region_grow(region, 16, NULL) == (before < REGION_SPANS));
    weir_change_unlock(region);
}

/* The last of them has grown, and somebody died with a lock in his hand. */
static void make_good(unsigned which)
{
    MUST(ftruncate(good.file, 0) == 0);
    struct region *region = open_good(which);
    MUST(region != NULL);
    weir_region_ready(region);
    if (which == 3) {
        grow(region);
        struct stripe *stripe = weir_stripe_lock(region, 0);
        weir_journal_begin(&stripe->journal);
        MUST(weir_journal_save(region, &stripe->journal, region->parts[0], 64));
        MUST(weir_journal_save(region, &stripe->journal, region->segments[1].slots, 16));
        ssize_t size = pread(good.file, good.bytes[which], FILE_MAX, 0);
        good.sizes[which] = (size_t)size;
        weir_journal_undo(region, &stripe->journal);
        weir_stripe_unlock(stripe);
    }
    weir_region_free(region);
    if (which != 3)
        good.sizes[which] = (size_t)pread(good.file, good.bytes[which], FILE_MAX, 0);
    MUST(good.sizes[which] > LAYOUT_PAGE && good.sizes[which] < FILE_MAX);
}

static void prepare(void)
{
    weir_boot = (struct boot){.id = same_id, .shift = no_shift, .wall = same_wall};
    weir_clock_set(1000 * WEIR_SEC);
    (void)snprintf(good.path, sizeof good.path, "%s/weir-fuzz-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    good.file = mkostemp(good.path, O_CLOEXEC);
    MUST(good.file >= 0);
    for (unsigned i = 0; i < FILES; i++)
        make_good(i);
}

static size_t number(const uint8_t **data, size_t *size)
{
    size_t low = *size > 0 ? (*data)[0] : 0, high = *size > 1 ? (*data)[1] : 0;
    size_t step = *size < 2 ? *size : 2;
    *data += step;
    *size -= step;
    return low | high << 8;
}

/* Gives the length of what is then in good.now. */
static size_t spoil(unsigned which, const uint8_t *data, size_t size)
{
    size_t length = number(&data, &size);
    memcpy(good.now, good.bytes[which], FILE_MAX);
    while (size > 0) {
        size_t offset = number(&data, &size), count = number(&data, &size);
        count = count < size ? count : size;
        if (count > FILE_MAX - offset)
            count = FILE_MAX - offset;
        memcpy(good.now + offset, data, count);
        data += count;
        size -= count;
    }
    return length > 0 ? length - 1 : good.sizes[which];
}

static void repair(void)
{
    struct region_header header;
    memcpy(&header, good.now, sizeof header);
    header.checksum = weir_header_checksum(&header);
    memcpy(good.now, &header, sizeof header);
}

static uint64_t sum_of(const unsigned char *bytes, uint64_t count)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += bytes[i];
    return sum;
}

static void walk(struct region *region)
{
    const struct region_shape *shape = &region->header->shape;
    uint64_t count = region_segments(region), sum = 0;
    MUST(count >= 1 && count <= REGION_SPANS && atom_load(&region->bytes, memory_order_relaxed) < 1 << 20);
    for (int i = 0; i < REGION_PARTS; i++)
        sum += sum_of(region->parts[i], shape->parts[i]);
    for (uint64_t i = 0; i < count; i++) {
        struct segment *segment = &region->segments[i];
        MUST(segment->lines > 0 && weir_region_offset(region, segment->slots) == segment->offset);
        MUST(weir_region_at(region, segment->offset, segment->bytes) == segment->slots);
        sum += sum_of(segment->slots, segment->lines * shape->slot_size * shape->line_slots);
        for (uint64_t line = 0; line < segment->lines; line++) {
            sum += atomic_load(&segment->reach[line]);
            region_lower(region, segment, line);
        }
    }
    for (uint64_t i = 0; i < shape->stripes; i++)
        weir_stripe_unlock(weir_stripe_lock(region, i));
    int64_t time = region_time(region, weir_now());
    MUST(time >= 0 && time <= WEIR_TIME_MAX);
    weir_region_note_time(region, time);
    MUST(sum < UINT64_MAX); /* and so it has been read */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (good.path[0] == '\0')
        prepare();
    expect_damage(true);
    if (size == 0)
        return 0;
    size_t length = spoil(data[0] % FILES, data + 1, size - 1);
    if (data[0] & 0x80)
        repair();
    MUST(ftruncate(good.file, 0) == 0 && pwrite(good.file, good.now, length, 0) == (ssize_t)length);
    struct region *region = open_good(data[0] % FILES);
    if (!region)
        return 0;
    weir_region_ready(region);
    walk(region);
    grow(region);
    walk(region);
    weir_region_free(region);
    region = open_good(data[0] % FILES); /* what was opened once can be opened again */
    MUST(region != NULL);
    weir_region_free(region);
    return 0;
}
