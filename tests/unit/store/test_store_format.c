/* SPDX-License-Identifier: MIT */
/*
 * Frozen bytes. A small log, an image and a mark, as the first version has written them: they have to be
 * written so, and read so, for ever. Who changes the format raises FRAME_VERSION (or MARK_VERSION), keeps
 * reading these, and adds the new bytes beside them.
 */
#include "os/boot.h"
#include "store/checkpoint.h"
#include "store/commit.h"
#include "store/internal.h"
#include "unit/store/store_kit.h"

#define LOG_1   "data/log-0000000000000001"
#define LOG_2   "data/log-0000000000000002"
#define IMAGE_1 "data/image-0000000000000001"
#define MARK    "data/mark"

static const char store_id[17] = "0123456789abcdef";

static bool fixed_id(unsigned char id[BOOT_ID_SIZE])
{
    memcpy(id, "boot-id-of-16-by", BOOT_ID_SIZE);
    return true;
}

static bool fixed_shift(int64_t *shift_ns)
{
    *shift_ns = 0;
    return true;
}

static int64_t fixed_wall(void)
{
    return INT64_C(1700000000) * WEIR_SEC;
}

static struct boot fix_boot(void)
{
    struct boot before = weir_boot;
    weir_boot = (struct boot){.id = fixed_id, .shift = fixed_shift, .wall = fixed_wall};
    return before;
}

/* ---- the bytes, 8 in a word ---- */

/* SEGMENT, META, RECORDS of two entries */
static const char *const log_1[] = {
    "6ed83d7e57454952", "4800000001000100", "a065f5b33bb9ac59", "0100000000000000", "0000000000000000",
    "00ca9a3b00000000", "00002a36fe9c9717", "3031323334353637", "3839616263646566", "626f6f742d69642d",
    "6f662d31362d6279", "0100000000000000", "0100000000000000", "0100000000000000", "0000000000000000",
    "0200000001000000", "5b32c8ce57454952", "0600000003000100", "a065f5b33bb9ac59", "0200000000000000",
    "0000000000000000", "00ca9a3b00000000", "00002a36fe9c9717", "61206e6f74650000", "503808f457454952",
    "3000000004000100", "a065f5b33bb9ac59", "0300000000000000", "0200000000000000", "00ca9a3b00000000",
    "00002a36fe9c9717", "0700000010000100", "0200000000000000", "0100000000000000", "0700000010000100",
    "0500000000000000", "0100000000000000",
};

/* SEGMENT, RECORDS */
static const char *const log_2[] = {
    "2a09f5f057454952", "4800000001000100", "b47be6174a790448", "0400000000000000", "0200000000000000",
    "00ca9a3b00000000", "00002a36fe9c9717", "3031323334353637", "3839616263646566", "626f6f742d69642d",
    "6f662d31362d6279", "0200000000000000", "0400000000000000", "0200000000000000", "0000000000000000",
    "0200000000000000", "f415814f57454952", "1800000004000100", "b47be6174a790448", "0500000000000000",
    "0400000000000000", "00ca9a3b00000000", "00002a36fe9c9717", "0700000010000100", "0500000000000000",
    "0200000000000000",
};

/* IMAGE, META, RECORDS, END */
static const char *const image_1[] = {
    "b5c6a8f057454952", "4800000002000100", "2292023ec88d9eed", "0000000000000000", "0200000000000000",
    "00ca9a3b00000000", "00002a36fe9c9717", "3031323334353637", "3839616263646566", "626f6f742d69642d",
    "6f662d31362d6279", "0100000000000000", "0400000000000000", "0200000000000000", "0000000000000000",
    "0000000000000000", "39d099fa57454952", "0600000003000100", "2292023ec88d9eed", "0100000000000000",
    "0200000000000000", "00ca9a3b00000000", "00002a36fe9c9717", "61206e6f74650000", "304d317a57454952",
    "3000000004000100", "2292023ec88d9eed", "0200000000000000", "0200000000000000", "00ca9a3b00000000",
    "00002a36fe9c9717", "0700000010000100", "0200000000000000", "0100000000000000", "0700000010000100",
    "0500000000000000", "0100000000000000", "8ca866ea57454952", "1800000005000100", "2292023ec88d9eed",
    "0300000000000000", "0400000000000000", "00ca9a3b00000000", "00002a36fe9c9717", "0300000000000000",
    "0200000000000000", "2801000000000000",
};

static const char *const mark_clean[] = {
    "721d6b944d41524b", "0100000001000000", "0200000000000000", "0500000000000000",
    "3031323334353637", "3839616263646566", "0000000000000000", "0000000000000000",
};

static bool has_bytes(struct life *life, const char *path, const char *const *lines, size_t count)
{
    uint64_t len = 0;
    const unsigned char *bytes = sim_bytes(life->sim, path, &len);
    bool same = bytes != NULL && len == 8 * count;
    for (size_t i = 0; i < len / 8; i++) {
        char text[17];
        for (size_t k = 0; k < 8; k++)
            (void)snprintf(text + 2 * k, 3, "%02x", bytes[8 * i + k]);
        same = same && strcmp(text, lines[i]) == 0; /* then it is as long */
        if (!same)
            printf("# %s: %s\n", path, text);
    }
    return same;
}

static void put_bytes(struct life *life, const char *path, const char *const *lines, size_t count)
{
    unsigned char bytes[8192];
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < 8; k++) {
            char digits[3] = {lines[i][2 * k], lines[i][2 * k + 1], '\0'};
            bytes[8 * i + k] = (unsigned char)strtoul(digits, NULL, 16);
        }
    CHECK(sim_put(life->sim, path, bytes, 8 * count));
}

#define COUNT(LINES) (sizeof(LINES) / sizeof *(LINES))

TEST(files_are_written_as_ever)
{
    struct life life;
    struct boot before = fix_boot();
    struct weir_error err;
    life_init(&life, 1, STORE_EVERYSEC);
    life.store = weir_store_open(&life.options, &life.found, &err);
    if (!CHECK(life.store != NULL))
        return;
    memcpy(life.store->id, store_id, sizeof life.store->id); /* instead of lots */
    memset(&life.shelf, 0, sizeof life.shelf);
    life.shelf.region.header = &life.shelf.header;
    life.shelf.region.shape.kind = REGION_WORDS;
    CHECK(weir_store_add(life.store, SHELF_REGION, &life.shelf.region, 0, &shelf_kind, &life.shelf, &err));
    CHECK(weir_store_replay(life.store, &life.found, &err));
    CHECK(weir_store_start(life.store, "a note", 6, &err));
    shelf_raise(&life.shelf, 2);
    shelf_raise(&life.shelf, 5);
    (void)weir_store_commit(life.store);
    CHECK(has_bytes(&life, LOG_1, log_1, COUNT(log_1)));
    CHECK(weir_store_image(life.store, &err));
    CHECK(has_bytes(&life, IMAGE_1, image_1, COUNT(image_1)));
    shelf_raise(&life.shelf, 5);
    CHECK(weir_store_close(life.store, &err));
    life.store = NULL;
    CHECK(has_bytes(&life, LOG_2, log_2, COUNT(log_2)));
    uint64_t len = 0;
    const unsigned char *mark = sim_bytes(life.sim, MARK, &len);
    if (CHECK(mark && len == 4096 + 64)) {
        CHECK(sim_put(life.sim, "data/slot", mark, 64));
        CHECK(has_bytes(&life, "data/slot", mark_clean, COUNT(mark_clean)));
    }
    life_free(&life);
    weir_boot = before;
}

static void check_read(struct life *life, bool with_image)
{
    CHECK(life_begin(life));
    CHECK(life->found.sync == STORE_EVERYSEC && !life->found.fresh && !life->found.lost);
    CHECK_EQ(life->found.sequence, 5);
    CHECK_EQ(life->shelf.values[2], 1);
    CHECK_EQ(life->shelf.values[5], 2);
    CHECK_EQ(life->found.clean, with_image);
    size_t len;
    const void *catalogue = weir_store_found_catalogue(life->store, &len);
    CHECK(len == 6 && memcmp(catalogue, "a note", 6) == 0);
}

TEST(log_and_image_of_before_are_read)
{
    struct boot before = fix_boot();
    for (int with_image = 0; with_image < 2; with_image++) {
        struct life life;
        int dir = -1;
        life_init(&life, 1, STORE_EVERYSEC);
        CHECK_EQ(life.options.disk->open_dir(life.options.disk, "data", true, &dir), 0);
        life.options.disk->close_dir(life.options.disk, dir);
        if (with_image) {
            put_bytes(&life, IMAGE_1, image_1, COUNT(image_1));
            put_bytes(&life, MARK, mark_clean, COUNT(mark_clean));
        } else {
            put_bytes(&life, LOG_1, log_1, COUNT(log_1));
        }
        put_bytes(&life, LOG_2, log_2, COUNT(log_2));
        check_read(&life, with_image);
        life_free(&life);
    }
    weir_boot = before;
}
