/* SPDX-License-Identifier: MIT */
/*
 * Many starts with little between them, as a supervisor makes them: neither files nor bytes nor what a start
 * has to read grow with their number.
 */
#include "store/store.h"
#include "unit/store/recover_kit.h"

#define SEGMENT (UINT64_C(64) << 10)
#define STARTS  80

struct sums {
    size_t files;
    uint64_t bytes, reads; /* reads: of one start */
};

static void keep_going(struct life *life)
{
    for (int i = 0; i < 1000 && weir_store_work(life->store, STORE_WORK_IMAGE | STORE_WORK_SYNC); i++) {
    }
}

static void note_most(struct sums *most, struct life *life, uint64_t reads)
{
    struct kit_dir list = kit_list(life->sim, "data");
    uint64_t bytes = 0;
    for (size_t i = 0; i < list.count; i++)
        bytes += list.bytes[i];
    most->files = list.count > most->files ? list.count : most->files;
    most->bytes = bytes > most->bytes ? bytes : most->bytes;
    most->reads = reads > most->reads ? reads : most->reads;
}

/* One key; then the end, well or not. The first half of the starts, and the second. */
static void start_often(enum store_sync sync, bool well, struct sums most[2])
{
    struct life life;
    memset(most, 0, 2 * sizeof *most);
    life_init(&life, check.seed, sync);
    life.options.segment_bytes = SEGMENT;
    for (int i = 0; i < STARTS; i++) {
        uint64_t reads = sim_calls(life.sim, DISK_CALL_READ);
        if (!CHECK(life_begin(&life)))
            break;
        CHECK_EQ(life.shelf.values[0], i);
        reads = sim_calls(life.sim, DISK_CALL_READ) - reads;
        (void)life_raise(&life, 0);
        keep_going(&life);
        (void)life_raise(&life, 1);
        keep_going(&life);
        if (well)
            life_close(&life);
        else
            life_end(&life, false);
        note_most(&most[i >= STARTS / 2], &life, reads);
    }
    life_free(&life);
}

TEST(starts_without_number_leave_a_number_of_files)
{
    for (enum store_sync sync = STORE_ALWAYS; sync <= STORE_NEVER; sync++)
        for (int well = 0; well < 2; well++) {
            struct sums most[2];
            start_often(sync, well, most);
            CHECK(most[1].files <= most[0].files && most[1].files < 48);
            CHECK(most[1].bytes <= most[0].bytes + 64 && most[1].bytes < 4 * SEGMENT);
            CHECK(most[1].reads <= most[0].reads && most[1].reads < 120);
            printf("# mode %d, ended %s: %zu files, %llu bytes, %llu reads\n", (int)sync,
                   well ? "well" : "by a kill", most[1].files, (unsigned long long)most[1].bytes,
                   (unsigned long long)most[1].reads);
        }
}

/* ---- what is left of each ---- */

static uint64_t bytes_of(struct life *life, const char *path)
{
    uint64_t len = UINT64_MAX;
    return sim_bytes(life->sim, path, &len) ? len : UINT64_MAX;
}

/* Behind the last byte of a frame, which ends with fewer than eight. */
static bool has_zeros(struct life *life, const char *path)
{
    uint64_t len = 0;
    const unsigned char *bytes = sim_bytes(life->sim, path, &len);
    for (uint64_t i = 1; bytes && i <= 64 && i <= len; i++)
        if (bytes[len - i] != 0)
            return false;
    return bytes && len >= 64;
}

TEST(zeros_behind_the_last_frame_go_at_the_end_and_at_the_start)
{
    struct life life;
    life_init(&life, check.seed, STORE_ALWAYS);
    life.options.segment_bytes = SEGMENT;
    for (int well = 0; well < 2; well++) {
        char path[128];
        if (!CHECK(life_begin(&life)))
            return;
        (void)life_raise(&life, 0);
        keep_going(&life);
        kit_newest(life.sim, FILE_SEGMENT, path);
        CHECK(has_zeros(&life, path));
        if (!well) {
            life_end(&life, true);
            CHECK(has_zeros(&life, path));
            CHECK(life_begin(&life));
            CHECK(!has_zeros(&life, path));
            kit_newest(life.sim, FILE_SEGMENT, path);
        }
        life_close(&life);
        CHECK(!has_zeros(&life, path));
    }
    CHECK(life_begin(&life));
    CHECK_EQ(life.shelf.values[0], 2);
    life_free(&life);
}

/* A cut may leave the name of a segment, and nothing in it. */
TEST(segments_that_were_never_begun_go_at_the_start)
{
    static const char empty[] = "data/log-00000000000000ff", zeros[4096];
    for (int i = 0; i < 2; i++) {
        struct life life;
        life_init(&life, check.seed, STORE_ALWAYS);
        if (!CHECK(life_begin(&life)))
            return;
        (void)life_raise(&life, 0);
        life_end(&life, false);
        CHECK(sim_put(life.sim, empty, zeros, i == 0 ? sizeof zeros : 0));
        CHECK(life_begin(&life));
        CHECK_EQ(life.shelf.values[0], 1);
        CHECK_EQ(bytes_of(&life, empty), UINT64_MAX);
        life_free(&life);
    }
}

/* What is no frame is for weir doctor; and a log whose first segment is empty still begins there. */
TEST(what_is_not_zero_stays_and_so_does_a_first_segment)
{
    static const char first[] = "data/log-0000000000000001";
    struct life life;
    unsigned char torn[4096] = {0};
    uint64_t len;
    life_init(&life, check.seed, STORE_ALWAYS);
    sim_fail(life.sim, DISK_CALL_ROOM, 1, EIO, true); /* no zeros ahead */
    if (!CHECK(life_begin(&life)))
        return;
    (void)life_raise(&life, 0);
    (void)weir_store_work(life.store, STORE_WORK_SYNC);
    life_end(&life, false);
    const unsigned char *bytes = sim_bytes(life.sim, first, &len);
    if (!CHECK(bytes && len < 2000))
        return;
    memcpy(torn, bytes, len);
    torn[len + 100] = 'x';
    CHECK(sim_put(life.sim, first, torn, sizeof torn));
    CHECK(life_begin(&life));
    CHECK_EQ(life.shelf.values[0], 1);
    CHECK_EQ(bytes_of(&life, first), len + 104); /* words of 8 bytes are looked at */
    (void)life_raise(&life, 1);
    (void)weir_store_work(life.store, STORE_WORK_SYNC);
    life_end(&life, false);                                                   /* without an image */
    CHECK(sim_put(life.sim, first, torn + sizeof torn / 2, sizeof torn / 2)); /* zeros */
    for (int i = 0; i < 2; i++) {
        CHECK(life_begin(&life));
        CHECK(life.found.lost);
        CHECK_EQ(life.shelf.values[1], 1);
        CHECK_EQ(bytes_of(&life, first), 0);
        life_end(&life, false);
    }
    life_free(&life);
}
