/* SPDX-License-Identifier: MIT */
/*
 * Regions: their memory, their files, how several share one; what is refused, and with which words.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "os/mapping.h"
#include "unit/region/regions.h"

static bool says(const struct weir_error *err, int code, const char *part)
{
    if (err->code == code && strstr(err->text, part))
        return true;
    printf("# error %d: %s\n# expected %d: ... %s\n", err->code, err->text, code, part);
    return false;
}

/* ---- memory ---- */

/* In huge pages, and a few small ones at its end. */
TEST(memory_in_large_pieces_is_there_when_it_is_given)
{
    const uint64_t page = weir_page_size(), bytes = (UINT64_C(20) << 20) + 3 * page, pages = bytes / page;
    unsigned char *memory = NULL, *seen = calloc(pages, 1);
    uint64_t missing = 0, dirty = 0;
    bool huge;
    CHECK_EQ(weir_memory_map(bytes, &memory, &huge), 0);
    CHECK(seen && memory && mincore(memory, bytes, seen) == 0);
    for (uint64_t i = 0; memory && i < pages; i++) {
        missing += !(seen[i] & 1);
        dirty += memory[i * page] != 0;
    }
#if defined(__x86_64__) /* an emulator of others does as if it had fetched them */
    CHECK_EQ(missing, 0);
#else
    (void)missing;
#endif
    CHECK_EQ(dirty, 0);
    weir_memory_unmap(memory, bytes);
    free(seen);
}

static void check_places(struct region *region, const struct region_shape *shape)
{
    const struct segment *segment = &region->segments[0];
    unsigned char *end = region->parts[0];
    for (int i = 0; i < REGION_PARTS; i++) {
        CHECK((uintptr_t)region->parts[i] % 64 == 0 && region->parts[i] >= end);
        CHECK(is_zero(region->parts[i], shape->parts[i]));
        end = region->parts[i] + shape->parts[i];
    }
    CHECK(region->stripes >= end);
    end = region->stripes + shape->stripes * weir_stripe_size(shape->journal_size);
    CHECK(region->transactions >= end);
    end = region->transactions + REGION_TRANSACTIONS * weir_transaction_size(shape->transaction_size);
    CHECK(segment->slots >= end && (uintptr_t)segment->slots % 64 == 0);
    end = segment->slots + shape->lines * shape->slot_size * shape->line_slots;
    CHECK((uintptr_t)segment->reach >= (uintptr_t)end);
    CHECK_EQ(segment->numbers != NULL, (shape->flags & REGION_NUMBERED) != 0);
    if (segment->numbers)
        CHECK((uintptr_t)segment->numbers >= (uintptr_t)segment->reach + shape->lines);
    CHECK(is_zero(segment->slots, weir_segment_size(shape, shape->lines)));
    CHECK_EQ(atom_load(&region->bytes, memory_order_relaxed), weir_region_size(shape));
    CHECK_EQ(segment->lines, shape->lines);
    CHECK(memcmp(&region->header->shape, shape, sizeof *shape) == 0);
}

TEST(a_region_in_memory_is_empty_and_laid_out_as_its_shape_says)
{
    for (uint32_t kind = REGION_WORDS; kind <= REGION_RECORDS; kind++) {
        for (uint64_t lines = 8; lines <= 1 << 16; lines *= 1 << 13) {
            struct region_shape shape = shape_of(kind, lines);
            struct weir_error err;
            struct region *region = weir_region_new(&shape, &err);
            if (!CHECK(region != NULL))
                return;
            check_places(region, &shape);
            bool lazy = kind == REGION_OWN || kind == REGION_RECORDS; /* takes pages as they are written to */
            CHECK(lazy || atom_load(&region->bytes, memory_order_relaxed) < (2 << 20)
                      ? !region->huge
                      : (uintptr_t)region->header % (2 << 20) == 0);
            CHECK_EQ(region_time(region, 5 * WEIR_SEC), 5 * WEIR_SEC);
            CHECK_EQ(atom_load(&region->header->capacity, memory_order_relaxed), shape.capacity);
            weir_region_ready(region);
            weir_stripe_unlock(weir_stripe_lock(region, 7));
            weir_region_free(region);
        }
    }
    weir_region_free(NULL);
}

TEST(two_regions_have_different_keys_and_ids)
{
    struct region_shape shape = shape_of(REGION_WORDS, 8);
    struct region *a = weir_region_new(&shape, NULL), *b = weir_region_new(&shape, NULL);
    CHECK(a->header->id != b->header->id);
    CHECK(a->header->key.low != b->header->key.low && a->header->key.high != b->header->key.high);
    weir_region_free(a);
    weir_region_free(b);
}

TEST(absurd_sizes_are_refused_with_what_would_fit)
{
    static const uint64_t lines[] = {UINT64_C(1) << 36, UINT64_C(1) << 50, UINT64_MAX / 8};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct region_shape shape = shape_of(REGION_WORDS, lines[i]);
        struct weir_error err;
        bool made, alone;
        uint64_t fit = 0;
        shape.capacity = lines[i] * 3;
        CHECK(weir_region_new(&shape, &err) == NULL);
        CHECK(says(&err, ENOMEM, " keys need ") && says(&err, ENOMEM, "at most about "));
        const char *number = strstr(err.text, "at most about ");
        if (number)
            fit = strtoull(number + strlen("at most about "), NULL, 10);
        CHECK(fit > 1000 && fit < shape.capacity);
        const char *path = fresh_path("absurd");
        CHECK(weir_region_open(path, &shape, 0600, &made, &alone, &err) == NULL);
        CHECK(err.code == ENOMEM || err.code == ENOSPC);
        CHECK(strstr(err.text, "at most about ") != NULL);
        CHECK(access(path, F_OK) != 0);
    }
}

TEST(a_limit_of_the_process_is_an_error_and_no_signal)
{
    struct region_shape shape = shape_of(REGION_WORDS, 1 << 12);
    struct rlimit before, small = {1 << 16, RLIM_INFINITY};
    struct weir_error err;
    bool made, alone;
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    small.rlim_max = before.rlim_max;
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    const char *path = fresh_path("limited");
    CHECK(weir_region_open(path, &shape, 0600, &made, &alone, &err) == NULL);
    CHECK(says(&err, EFBIG, "ulimit -f"));
    CHECK(access(path, F_OK) != 0);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
}

TEST(shapes_without_sense_have_no_size)
{
    struct region_shape good = shape_of(REGION_WIDE, 64), shape;
    CHECK(weir_region_size(&good) < 1 << 20);
#define BAD(CHANGE)                                                                                          \
    shape = good;                                                                                            \
    shape.CHANGE;                                                                                            \
    CHECK_EQ(weir_region_size(&shape), UINT64_MAX)
    BAD(kind = 0);
    BAD(kind = 5);
    BAD(kind = REGION_RECORDS); /* a line of it is one record */
    BAD(kind = REGION_WORDS);   /* its slots are 16 bytes */
    BAD(flags = 2);
    BAD(capacity = 0);
    BAD(lines = 0);
    BAD(lines = 65); /* no multiple of the stripes */
    BAD(lines = UINT64_MAX - 7);
    BAD(slot_size = 0);
    BAD(slot_size = 55);
    BAD(slot_size = UINT64_C(1) << 62);
    BAD(line_slots = 0);
    BAD(line_slots = UINT64_MAX / 8);
    BAD(stripes = 0);
    BAD(stripes = 3);
    BAD(stripes = UINT64_C(1) << 63);
    BAD(journal_size = UINT64_MAX);
    BAD(transaction_size = UINT64_MAX);
    BAD(parts[7] = UINT64_MAX);
    BAD(parts[7] = UINT64_C(1) << 47);
    good = shape_of(REGION_RECORDS, 64);
    CHECK(weir_region_size(&good) < 1 << 20);
    BAD(slot_size = REGION_RECORD_HEAD); /* nothing in it */
    BAD(slot_size = 36);
    BAD(line_slots = 2);
#undef BAD
}

/* ---- files ---- */

TEST(a_file_of_records_is_no_table)
{
    struct region_shape shape = shape_of(REGION_RECORDS, 64);
    const char *path = fresh_path("records");
    struct weir_error err;
    bool made, alone;
    struct region *region = open_region(path, &shape, &made, &alone);
    if (!CHECK(region && made && alone))
        return;
    weir_region_ready(region);
    weir_region_free(region);
    CHECK(!weir_table_open(path, "10/s", 100, &err));
    CHECK(says(&err, EINVAL, "this is no table, or a damaged one"));
    (void)unlink(path);
}

TEST(a_file_is_made_once_and_then_found_as_it_was_left)
{
    for (uint32_t kind = REGION_WORDS; kind <= REGION_RECORDS; kind++) {
        struct region_shape shape = shape_of(kind, 64), other = shape_of(REGION_WORDS, 8);
        const char *path = fresh_path("found");
        bool made, alone;
        struct region *region = open_region(path, &shape, &made, &alone);
        if (!CHECK(region && made && alone))
            return;
        check_places(region, &shape);
        weir_region_ready(region);
        region->segments[0].slots[100] = 42;
        region->parts[0][299] = 43;
        struct hash_key key = region->header->key;
        weir_region_free(region);

        region = open_region(path, &other, &made, &alone);
        if (!CHECK(region && !made && alone))
            return;
        CHECK(memcmp(&region->header->shape, &shape, sizeof shape) == 0);
        CHECK(region->segments[0].slots[100] == 42 && region->parts[0][299] == 43);
        CHECK(memcmp(&key, &region->header->key, sizeof key) == 0);
        region->segments[0].slots[100] = region->parts[0][299] = 0;
        check_places(region, &shape);
        weir_region_free(region); /* never said to be ready, but it was there before */
        CHECK(access(path, F_OK) == 0);
        (void)unlink(path);
    }
}

TEST(the_mode_of_a_file_is_what_the_caller_says)
{
    struct region_shape shape = shape_of(REGION_WORDS, 64);
    struct stat status;
    bool made, alone;
    mode_t before = umask(077);
    const char *path = fresh_path("mode");
    struct region *region = weir_region_open(path, &shape, 0664, &made, &alone, NULL);
    CHECK(region && stat(path, &status) == 0 && (status.st_mode & 07777) == 0664);
    (void)umask(before);
    weir_region_free(region);
}

TEST(a_file_that_never_became_ready_goes_and_one_that_was_there_is_empty_again)
{
    struct region_shape shape = shape_of(REGION_WORDS, 64);
    struct stat status;
    bool made, alone;
    const char *path = fresh_path("unready");
    struct region *region = open_region(path, &shape, &made, &alone);
    CHECK(region && made && access(path, F_OK) == 0);
    weir_region_free(region);
    CHECK(access(path, F_OK) != 0);

    (void)close(open(path, O_CREAT | O_WRONLY, 0600));
    region = open_region(path, &shape, &made, &alone);
    CHECK(region && made && alone);
    weir_region_free(region);
    CHECK(stat(path, &status) == 0 && status.st_size == 0);
    weir_region_free(open_ready(path, true, true));
    weir_region_free(open_ready(path, false, true));
    (void)unlink(path);
}

TEST(a_file_with_holes_is_given_room_when_it_is_opened)
{
    char path[] = "/tmp/weir-holes-XXXXXX"; /* not in memory: there to read a hole is to fill it */
    struct stat before, after;
    (void)close(mkstemp(path));
    weir_region_free(open_ready(path, true, true));
    CHECK(stat(path, &before) == 0);
    int file = open(path, O_RDWR);
    CHECK(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, before.st_size - 4096, 4096) == 0);
    CHECK(fstat(file, &after) == 0 && after.st_blocks < before.st_blocks);
    (void)close(file);
    weir_region_free(open_ready(path, false, true));
    CHECK(stat(path, &after) == 0);
    CHECK_EQ(after.st_blocks, before.st_blocks);
    (void)unlink(path);
}

/* ---- what is refused ---- */

static bool refused(const char *path, int code, const char *part)
{
    struct region_shape shape = shape_of(REGION_WORDS, 64);
    struct weir_error err;
    bool made, alone;
    struct region *region = weir_region_open(path, &shape, 0600, &made, &alone, &err);
    if (region)
        printf("# it was opened; expected: %s\n", part);
    weir_region_free(region);
    return !region && says(&err, code, part) && strstr(err.text, strrchr(path, '/')) != NULL;
}

static int open_as_nobody(void *arg)
{
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        return 2;
    return refused(arg, EACCES, "no permission") ? 0 : 1;
}

TEST(paths_that_cannot_be_are_refused_with_the_reason)
{
    char inside[160], link_path[160];
    char *path = strdup(fresh_path("thing"));
    (void)snprintf(inside, sizeof inside, "%s/inside", path);
    CHECK(refused(inside, ENOENT, "its folder does not exist; make that first"));
    CHECK(mkdir(path, 0700) == 0);
    CHECK(refused(path, EISDIR, "is a folder; name a file in it"));
    CHECK(rmdir(path) == 0 && mkfifo(path, 0600) == 0);
    CHECK(refused(path, ENOTSUP, "is no ordinary file"));
    CHECK(unlink(path) == 0);
    (void)close(open(path, O_CREAT | O_WRONLY, 0000));
    CHECK(refused(inside, ENOTDIR, "a part of the path is a file"));
    CHECK_EQ(in_child(open_as_nobody, path), 0);
    CHECK(unlink(path) == 0);
    (void)snprintf(link_path, sizeof link_path, "%s/link", folder);
    CHECK(symlink(path, link_path) == 0);
    CHECK(refused(link_path, ELOOP, "is a symbolic link"));
    (void)unlink(link_path);
    free(path);
}

/* Writes `bytes` over a whole file that nobody has open, and cuts it to `length` if that is not -1. */
static void spoil(const char *path, size_t offset, const void *bytes, size_t count, off_t length, bool repair)
{
    struct region_header header;
    (void)unlink(path);
    struct region *region = open_ready(path, true, true);
    CHECK(region && weir_region_grow(region, 8, NULL));
    weir_region_free(region);
    int file = open(path, O_RDWR);
    CHECK(pread(file, &header, sizeof header, 0) == (ssize_t)sizeof header);
    if (count > 0)
        memcpy((char *)&header + offset, bytes, count);
    if (repair)
        header.checksum = weir_header_checksum(&header);
    CHECK(pwrite(file, &header, sizeof header, 0) == (ssize_t)sizeof header);
    CHECK(length < 0 || ftruncate(file, length) == 0);
    (void)close(file);
}

#define SPOIL(MEMBER, TYPE, VALUE, REPAIR)                                                                   \
    spoil(path, offsetof(struct region_header, MEMBER), &(TYPE){VALUE}, sizeof(TYPE), -1, REPAIR)

TEST(files_that_are_no_region_are_refused_with_the_reason)
{
    const char *path = fresh_path("spoilt");
    SPOIL(magic, char, 'W', true);
    CHECK(refused(path, EINVAL, "is no table of weir; name another file"));
    SPOIL(version, uint32_t, REGION_VERSION + 1, true);
    CHECK(refused(path, EINVAL, "was made by a later weir"));
    SPOIL(version, uint32_t, 1, true);
    CHECK(refused(path, EINVAL, "was made by an earlier weir; remove it to begin anew"));
    SPOIL(version, uint32_t, 0, true);
    CHECK(refused(path, EINVAL, "is damaged"));
    SPOIL(byte_order, uint32_t, 0x04030201, true);
    CHECK(refused(path, EINVAL, "other byte order"));
    SPOIL(key, uint64_t, 1, false);
    CHECK(refused(path, EINVAL, "its checksum is wrong"));
    SPOIL(shape.stripes, uint64_t, 3, true);
    CHECK(refused(path, EINVAL, "what it says of itself cannot be"));
    SPOIL(segments, uint64_t, 9, true);
    CHECK(refused(path, EINVAL, "what it says of itself cannot be"));
    SPOIL(segments, uint64_t, 0, true);
    CHECK(refused(path, EINVAL, "what it says of itself cannot be"));
    SPOIL(seen_time, uint64_t, UINT64_MAX, true);
    CHECK(refused(path, EINVAL, "what it says of itself cannot be"));
    SPOIL(segments, uint64_t, 3, true);
    CHECK(refused(path, EINVAL, "its segments cannot be where it says"));
    SPOIL(spans[1].offset, uint64_t, 4096, true);
    CHECK(refused(path, EINVAL, "its segments cannot be where it says"));
    SPOIL(spans[1].offset, uint64_t, (1 << 20) + 64, true);
    CHECK(refused(path, EINVAL, "its segments cannot be where it says"));
    SPOIL(spans[1].offset, uint64_t, 1 << 20, true);
    CHECK(refused(path, EINVAL, "is cut off"));
    SPOIL(spans[1].lines, uint64_t, UINT64_MAX, true);
    CHECK(refused(path, EINVAL, "its segments cannot be where it says"));
    SPOIL(spans[0].offset, uint64_t, 4096, true);
    CHECK(refused(path, EINVAL, "its segments cannot be where it says"));
    SPOIL(shape.lines, uint64_t, 1 << 20, true);
    CHECK(refused(path, EINVAL, "its segments cannot be where it says"));
    (void)unlink(path);
}

TEST(a_file_that_is_cut_off_is_refused_with_both_lengths)
{
    struct region_shape shape = shape_of(REGION_WORDS, 64);
    const char *path = fresh_path("cut");
    char part[128];
    uint64_t need = weir_region_size(&shape) + weir_segment_size(&shape, 8);
    spoil(path, 0, NULL, 0, (off_t)need - 1, false);
    (void)snprintf(part, sizeof part, "it needs %" PRIu64 " bytes and has %" PRIu64, need, need - 1);
    CHECK(refused(path, EINVAL, part));
    spoil(path, 0, NULL, 0, 100, false);
    CHECK(refused(path, EINVAL, "it needs 4096 bytes and has 100"));
    spoil(path, 0, NULL, 0, 7, false);
    CHECK(refused(path, EINVAL, "is no table of weir"));
    struct stat status;
    CHECK(stat(path, &status) == 0 && status.st_size == 7); /* it is somebody's */
    (void)unlink(path);
}

TEST(a_file_whose_maker_died_is_made_anew)
{
    const char *path = fresh_path("died");
    SPOIL(ready, uint64_t, 0, false);
    weir_region_free(open_ready(path, true, true));
    spoil(path, 0, NULL, 0, 8, false); /* the magic is the first that is written */
    weir_region_free(open_ready(path, true, true));
    spoil(path, 8, (char[2000]){0}, sizeof(struct region_header) - 8, 1024, false);
    weir_region_free(open_ready(path, true, true));
    weir_region_free(open_ready(path, false, true));
    (void)unlink(path);
}

TEST(a_file_that_is_emptied_while_it_is_used_is_not_made_anew)
{
    const char *path = fresh_path("emptied");
    struct region *region = open_ready(path, true, true);
    CHECK(truncate(path, 0) == 0);
    CHECK(refused(path, EBUSY, "is in use, but was emptied"));
    CHECK(truncate(path, (off_t)atom_load(&region->bytes, memory_order_relaxed)) ==
          0); /* or who uses it would die */
    (void)unlink(path);
    weir_region_free(region);
}

/* ---- several users ---- */

TEST(what_one_grows_the_other_finds)
{
    const char *path = fresh_path("grown");
    struct region *a = open_ready(path, true, true), *b = open_ready(path, false, false);
    struct weir_error err;
    for (uint64_t i = 1; a && b && i < REGION_SPANS; i++) {
        uint64_t bytes = atom_load(&a->bytes, memory_order_relaxed), lines = 8 + i;
        CHECK(weir_region_grow(i % 2 ? a : b, lines, &err));
        CHECK_EQ(region_segments(a), i + 1);
        CHECK_EQ(region_segments(b), i + 1);
        CHECK_EQ(a->segments[i].lines, lines);
        CHECK_EQ(a->segments[i].offset, b->segments[i].offset);
        CHECK_EQ(atom_load(&a->bytes, memory_order_relaxed),
                 bytes + weir_segment_size(&a->header->shape, lines));
        CHECK(is_zero(b->segments[i].slots, lines * 64));
        unsigned char *last = a->segments[i].slots + lines * 64 - 1;
        *last = (unsigned char)i;
        uint64_t offset = weir_region_offset(a, last);
        unsigned char *same = weir_region_at(b, offset, 1);
        CHECK(same && same != last && *same == i);
        CHECK_EQ(weir_region_offset(b, same), offset);
    }
    CHECK(a && !weir_region_grow(a, 8, &err) && says(&err, ENOSPC, "has grown 7 times"));
    weir_region_free(a);
    weir_region_free(b);
    a = open_ready(path, false, true);
    CHECK(a && region_segments(a) == REGION_SPANS && a->segments[7].slots[15 * 64 - 1] == 7);
    weir_region_free(a);
    (void)unlink(path);
}

/* Another process may write any place and size there; the last ones of these fit. */
TEST(a_segment_that_cannot_be_is_not_mapped)
{
    struct region_shape shape = shape_of(REGION_WIDE, 64);
    const char *path = fresh_path("span");
    bool made, alone;
    struct region *region = open_region(path, &shape, &made, &alone);
    if (!CHECK(region != NULL))
        return;
    weir_region_ready(region);
    uint64_t end = region->segments[0].offset + region->segments[0].bytes;
    const struct span spans[] = {{end, 0, 0},          {end, 1, 0}, {end, 7, 0},       {end - 4096, 8, 0},
                                 {end + 64, 8, 0},     {0, 8, 0},   {end, 1 << 20, 0}, {UINT64_MAX, 8, 0},
                                 {end, UINT64_MAX, 0}, {end, 8, 0}};
    const size_t count = sizeof spans / sizeof spans[0];
    CHECK(truncate(path, (off_t)end + 65536) == 0);
    for (size_t i = 0; i < count; i++) {
        bool whole;
        atom_store(&region->header->spans[1].offset, spans[i].offset, memory_order_relaxed);
        atom_store(&region->header->spans[1].lines, spans[i].lines, memory_order_relaxed);
        atom_store(&region->header->segments, 2, memory_order_relaxed);
        CHECK_EQ(region_look(region, &whole), i + 1 < count ? 1 : 2);
        CHECK_EQ(whole, i + 1 == count);
    }
    weir_region_free(region);
    (void)unlink(path);
}

TEST(a_region_in_memory_grows_and_says_what_does_not_fit)
{
    struct region_shape shape = shape_of(REGION_WIDE, 64);
    struct region *region = weir_region_new(&shape, NULL);
    struct weir_error err;
    CHECK(!weir_region_grow(region, 0, &err) && says(&err, EINVAL, "does not grow by so many lines"));
    CHECK(!weir_region_grow(region, 65, &err) && says(&err, EINVAL, "does not grow by so many lines"));
    CHECK(!weir_region_grow(region, UINT64_C(1) << 40, &err) && says(&err, ENOMEM, "at most about "));
    CHECK(!weir_region_grow(region, UINT64_C(1) << 63, &err) && says(&err, ENOMEM, "at most about "));
    CHECK_EQ(region_segments(region), 1);
    CHECK(weir_region_grow(region, 1 << 14, &err));
    CHECK_EQ(region_segments(region), 2);
    struct segment *segment = &region->segments[1];
    CHECK(is_zero(segment->slots, weir_segment_size(&shape, 1 << 14)));
    region_lower(region, segment, (1 << 14) - 1);
    CHECK_EQ(atom_load(&segment->numbers[(1 << 14) - 1], memory_order_relaxed), 1);
    CHECK(weir_region_at(region, segment->offset, 1) == segment->slots);
    weir_region_free(region);
}

TEST(offsets_reach_what_decisions_change_and_nothing_else)
{
    struct region_shape shape = shape_of(REGION_WORDS, 64);
    struct region *region = weir_region_new(&shape, NULL);
    unsigned char *start = (unsigned char *)region->header;
    uint64_t size = atom_load(&region->bytes, memory_order_relaxed), slots = region->segments[0].offset;
    const void *good[] = {&region->header->swept,    &region->header->overrides,
                          region->parts[0],          region->parts[3],
                          region->segments[0].slots, region->segments[0].slots + 4095};
    const void *bad[] = {start,           &region->header->shape,    &region->header->segments,
                         region->stripes, &region->header->change,   region->transactions,
                         start + size,    &region->header->wall_lead};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        CHECK(weir_region_at(region, weir_region_offset(region, good[i]), 1) == good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_EQ(weir_region_offset(region, bad[i]), UINT64_MAX);
        CHECK(!weir_region_at(region, (uint64_t)((const unsigned char *)bad[i] - start), 8));
    }
    CHECK(weir_region_at(region, slots, size - slots) && !weir_region_at(region, slots, size - slots + 1));
    CHECK(!weir_region_at(region, slots, UINT64_MAX) && !weir_region_at(region, UINT64_MAX, 1));
    CHECK(!weir_region_at(region, slots - 1, 2));
    weir_region_free(region);
}

TEST(what_a_growth_left_behind_is_zeroed_by_the_next)
{
    const char *path = fresh_path("rest");
    struct region *region = open_ready(path, true, true);
    char rest[8192];
    memset(rest, 'x', sizeof rest);
    int file = open(path, O_RDWR | O_APPEND);
    CHECK(write(file, rest, sizeof rest) == (ssize_t)sizeof rest);
    (void)close(file);
    CHECK(region && weir_region_grow(region, 32, NULL) &&
          is_zero(region->segments[1].slots, weir_segment_size(&region->header->shape, 32)));
    weir_region_free(region);
    weir_region_free(open_ready(path, false, true));
    (void)unlink(path);
}

/* Does somebody wait for a lock of this file? */
static bool is_waited_for(const char *path)
{
    struct stat status;
    char line[256], inode[32];
    bool found = false;
    FILE *locks = fopen("/proc/locks", "re");
    if (!locks || stat(path, &status) != 0)
        return true;
    (void)snprintf(inode, sizeof inode, ":%ju ", (uintmax_t)status.st_ino);
    while (fgets(line, sizeof line, locks))
        found |= strstr(line, "->") && strstr(line, inode);
    (void)fclose(locks);
    return found;
}

static int open_in_vain(void *arg)
{
    struct region *region = open_ready(arg, true, true);
    bool there = region && access(arg, F_OK) == 0;
    weir_region_free(region);
    return there ? 0 : 1;
}

TEST(who_waited_for_a_maker_that_failed_makes_the_file_himself)
{
    struct region_shape shape = shape_of(REGION_WORDS, 64);
    const char *path = fresh_path("vain");
    bool made, alone;
    struct region *region = open_region(path, &shape, &made, &alone);
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(PATIENCE);
        _exit(open_in_vain((void *)(uintptr_t)path));
    }
    for (int i = 0; i < 100000 && !is_waited_for(path); i++)
        (void)sched_yield();
    weir_region_free(region);
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    weir_region_free(open_ready(path, false, true));
    (void)unlink(path);
}

struct race {
    const char *path;
    atomic_int makers, openers, go;
};

static int open_at_once(void *arg)
{
    struct race *race = arg;
    struct region_shape shape = shape_of(REGION_WORDS, 64);
    bool made, alone;
    while (!atomic_load(&race->go))
        (void)sched_yield();
    struct region *region = weir_region_open(race->path, &shape, 0600, &made, &alone, NULL);
    if (!region)
        return 1;
    atomic_fetch_add(&race->makers, made);
    if (made)
        region->parts[0][0] = 99;
    bool seen = region->parts[0][0] == 99; /* what was written before it was ready is there */
    weir_region_ready(region);
    atomic_fetch_add(&race->openers, 1);
    while (atomic_load(&race->openers) < 4)
        (void)sched_yield();
    weir_region_free(region);
    return seen ? 0 : 1;
}

TEST(of_many_who_open_a_file_at_once_one_makes_it)
{
    struct race *race = mmap(NULL, sizeof *race, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < 30; round++) {
        pid_t children[4];
        *race = (struct race){.path = fresh_path("race")};
        for (int i = 0; i < 4; i++) {
            (void)fflush(stdout);
            children[i] = fork();
            if (children[i] == 0) {
                (void)alarm(PATIENCE);
                _exit(open_at_once(race));
            }
        }
        atomic_store(&race->go, 1);
        for (int i = 0; i < 4; i++) {
            int status = -1;
            (void)waitpid(children[i], &status, 0);
            CHECK_EQ(status, 0);
        }
        CHECK_EQ(atomic_load(&race->makers), 1);
    }
    (void)unlink(race->path);
    (void)munmap(race, sizeof *race);
}
