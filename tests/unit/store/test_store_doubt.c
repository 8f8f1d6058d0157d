/* SPDX-License-Identifier: MIT */
/*
 * What a store must not believe: that what it reads is on the disk, that what it cannot read is not there,
 * and that a log without gaps tells everything.
 */
#include "store/commit.h"
#include "store/log.h"
#include "store/store.h"
#include "unit/store/store_kit.h"

/* ---- a sync that failed ---- */

/* The kernel believes such frames to be written, and shows them to the next process. What that one has seen
 * is there after a power cut, for it may have told somebody. */
TEST(what_a_failed_sync_has_left_in_memory_is_written_again)
{
    static struct life life;
    int seen = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        life_init(&life, seed, STORE_ALWAYS);
        if (!CHECK(life_begin(&life)))
            return;
        sim_fail(life.sim, DISK_CALL_SYNC, 1, EIO, false);
        (void)life_raise(&life, 3);
        (void)weir_store_work(life.store, STORE_WORK_SYNC);
        CHECK(!weir_store_is_well(life.store));
        life_end(&life, false);
        CHECK(life_begin(&life));
        uint64_t value = atomic_load(&life.shelf.values[3]);
        seen += value > 0;
        life_end(&life, true);
        CHECK(life_begin(&life));
        CHECK_EQ(atomic_load(&life.shelf.values[3]), value);
        CHECK(!life.found.lost && !life.found.holes);
        life_free(&life);
    }
    CHECK(seen > 5 && seen < 40);
}

/* A byte of its first frame becomes another one, and is no safer than what else was written. */
static void hurt(struct sim *sim, const char *name)
{
    struct disk *disk = sim_disk(sim);
    int dir, file;
    CHECK(disk->open_dir(disk, "data", false, &dir) == 0 &&
          disk->open(disk, dir, name, DISK_WRITE, &file) == 0 && disk->write(disk, file, "!", 1, 80) == 0 &&
          disk->close(disk, file) == 0);
    disk->close_dir(disk, dir);
}

/* Frames behind a first one that is damaged count, and so they are written again as well. */
TEST(frames_behind_a_damaged_start_are_written_again)
{
    static struct life life;
    int seen = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        uint64_t segment, sequence;
        life_init(&life, seed, STORE_ALWAYS);
        if (!CHECK(life_begin(&life)))
            return;
        CHECK(weir_log_rotate(life.store, &segment, &sequence));
        CHECK_EQ(segment, 2);
        (void)life_raise(&life, 3);
        hurt(life.sim, "log-0000000000000002");
        sim_fail(life.sim, DISK_CALL_SYNC, 2, EIO, false);
        (void)weir_store_work(life.store, STORE_WORK_SYNC);
        CHECK(!weir_store_is_well(life.store));
        life_end(&life, false);
        CHECK(life_begin(&life));
        uint64_t value = atomic_load(&life.shelf.values[3]);
        seen += value > 0;
        life_end(&life, true);
        CHECK(life_begin(&life));
        CHECK_EQ(atomic_load(&life.shelf.values[3]), value);
        life_free(&life);
    }
    CHECK(seen > 5);
}

/* ---- what only an image has ---- */

/* Promises that were made while the log was broken are in the image that healed it, and in no frame. */
static bool begin_healed(struct life *life, uint64_t seed)
{
    life_init(life, seed, STORE_ALWAYS);
    bool good = CHECK(life_begin(life));
    (void)life_raise(life, 1);
    sim_fail(life->sim, DISK_CALL_SYNC, 1, EIO, false);
    (void)weir_store_work(life->store, STORE_WORK_SYNC);
    (void)life_raise(life, 2);
    good = good && CHECK(life_heal(life)) && CHECK_EQ(life->gone_count, 2);
    CHECK(weir_store_close(life->store, &life->err));
    life->store = NULL;
    return good;
}

TEST(without_the_image_that_healed_a_log_something_is_missing)
{
    static struct life life;
    if (!begin_healed(&life, 1))
        return;
    CHECK(sim_flip(life.sim, "data/image-0000000000000001", 1000));
    CHECK(life_begin(&life));
    CHECK(life.found.lost && life.found.images_damaged == 1);
    life_free(&life);
}

/* A disk that does not give something now may give it a moment later: before it is given up nothing is
 * written, and nothing is lost. */
TEST(an_image_that_cannot_be_read_now_is_not_given_up)
{
    static struct life life;
    for (uint64_t n = 1; n < 40; n++) {
        if (!begin_healed(&life, n))
            return;
        uint64_t faults = sim_faults(life.sim);
        sim_fail(life.sim, DISK_CALL_READ, n, EIO, false);
        bool begun = life_begin(&life), failed = sim_faults(life.sim) > faults;
        CHECK(!life.found.lost);
        CHECK(begun || life_begin(&life));
        CHECK(life_check(&life, INT64_MAX));
        life_free(&life);
        if (!failed)
            break;
    }
}

/* ---- numbers that nobody was answered for ---- */

/* A server that cannot write begins segments to heal, in vain, and is killed: numbers are missing, behind
 * which there are no records. The next start, and those after it, have all that was ever there. */
static void fail_to_heal(struct life *life)
{
    CHECK(life_begin(life));
    sim_fail(life->sim, DISK_CALL_WRITE, 1, ENOSPC, false);
    (void)life_raise(life, 2);
    CHECK(!weir_store_is_well(life->store));
    sim_fail(life->sim, DISK_CALL_RENAME, 1, ENOSPC, true); /* the segment is there, its image is not */
    sim_fail_often(life->sim, DISK_CALL_REMOVE, 1000000, EIO);
    life_time(life, WEIR_SEC);
    (void)weir_store_work(life->store, STORE_WORK_IMAGE);
    CHECK(!weir_store_is_well(life->store));
    life_end(life, false);
}

TEST(numbers_that_no_record_is_behind_are_no_holes)
{
    for (int starts = 0; starts < 3; starts++) {
        struct life life;
        life_init(&life, check.seed, STORE_EVERYSEC);
        if (!CHECK(life_begin(&life)))
            return;
        (void)life_raise(&life, 1);
        life_end(&life, false);
        fail_to_heal(&life);
        for (int i = 0; i <= starts; i++) { /* what comes behind it later has not missed anything */
            CHECK(life_begin(&life));
            CHECK(!life.found.lost && !life.found.holes);
            CHECK_EQ(atomic_load(&life.shelf.values[1]), i + 1);
            (void)life_raise(&life, 1);
            (void)weir_store_work(life.store, STORE_WORK_SYNC);
            life_end(&life, false);
        }
        life_free(&life);
    }
}

TEST(numbers_that_records_are_behind_are_holes)
{
    for (uint64_t frame = 0; frame < 3; frame++) {
        struct life life;
        struct store_state state;
        life_init(&life, check.seed, STORE_EVERYSEC);
        if (!CHECK(life_begin(&life)))
            return;
        weir_store_state(life.store, &state);
        uint64_t end = state.log_bytes;
        (void)life_raise(&life, 1);
        weir_store_state(life.store, &state);
        uint64_t size = state.log_bytes - end;
        (void)life_raise(&life, 2);
        (void)life_raise(&life, 3);
        life_end(&life, false);
        CHECK(sim_flip(life.sim, "data/log-0000000000000001", 8 * (end + frame * size + 60)));
        for (int i = 0; i < 2; i++) { /* the second one is told by the first */
            CHECK(life_begin(&life));
            CHECK(!life.found.lost);
            CHECK_EQ(life.found.holes, frame < 2);
            life_end(&life, false);
        }
        life_free(&life);
    }
}

/* ---- the end of the log ---- */

#define FIRST "data/log-0000000000000001"

/* A process of STORE_ALWAYS that was answered for three changes, and killed before the mark told of them.
 * *ends: of its last frames, in the file. */
static bool begin_and_kill(struct life *life, uint64_t ends[4])
{
    struct store_state state;
    life_init(life, check.seed, STORE_ALWAYS);
    life->options.segment_bytes = UINT64_C(64) << 10;
    bool good = CHECK(life_begin(life));
    for (uint64_t i = 0; good && i < 4; i++) {
        weir_store_state(life->store, &state);
        ends[i] = state.log_bytes;
        if (i == 3)
            break;
        (void)life_raise(life, i);
        (void)weir_store_work(life->store, STORE_WORK_SYNC);
        life_answer(life);
        good = CHECK_EQ(life->gone_count, i + 1);
    }
    life_end(life, false);
    return good;
}

static void check_doubt(struct life *life, bool unsure)
{
    if (!CHECK(life_begin(life)))
        return;
    CHECK_EQ(life->found.unsure, unsure);
    CHECK_EQ(life->found.text[0] != 0, unsure);
    CHECK(!life->found.clean && !life->found.lost);
    life_end(life, false);
    CHECK(life_begin(life)); /* it is told again until there is an image */
    CHECK_EQ(life->found.unsure, unsure);
    life_free(life);
}

TEST(a_kill_in_always_leaves_no_doubt)
{
    struct life life;
    uint64_t ends[4];
    if (begin_and_kill(&life, ends))
        check_doubt(&life, false);
}

/* Also if the next start is killed at any call. */
TEST(a_start_that_is_killed_leaves_a_log_that_is_trimmed_and_not_doubted)
{
    for (uint64_t calls = 0; calls < 80; calls++) {
        struct life life;
        uint64_t ends[4];
        if (!begin_and_kill(&life, ends))
            return;
        sim_stop_after(life.sim, calls);
        (void)life_begin(&life);
        life_end(&life, false);
        check_doubt(&life, false);
    }
}

TEST(a_kill_right_after_a_segment_was_begun_leaves_no_doubt)
{
    struct life life;
    uint64_t segment, sequence;
    life_init(&life, check.seed, STORE_ALWAYS);
    if (!CHECK(life_begin(&life)))
        return;
    CHECK(weir_log_rotate(life.store, &segment, &sequence)); /* and no sync */
    life_end(&life, false);
    check_doubt(&life, false);
}

/* `pairs` of its frames have two records. */
static bool burst_and_kill(struct life *life, uint64_t frames, uint64_t pairs, bool roomy)
{
    life_init(life, check.seed, STORE_ALWAYS);
    life->options.segment_bytes = UINT64_C(64) << 10; /* 4 KiB of zeros: for 50 frames or so */
    if (!roomy)
        sim_fail(life->sim, DISK_CALL_ROOM, 1, EIO, true);
    if (!CHECK(life_begin(life)))
        return false;
    for (uint64_t i = 0; i < frames; i++) {
        if (i < pairs)
            shelf_raise(&life->shelf, (i + 1) % SHELF);
        (void)life_raise(life, i % SHELF);
    }
    life_end(life, false);
    sim_no_faults(life->sim);
    return true;
}

/* A burst that comes while a sync is under way uses up the zeros ahead. It is killed behind each frame; with
 * some number of pairs one of them ends where the zeros do. On a disk without room there are none. */
TEST(a_kill_in_a_burst_larger_than_the_zeros_ahead_leaves_no_doubt)
{
    struct life life;
    for (uint64_t pairs = 0; pairs < 10; pairs++)
        for (uint64_t frames = 30; frames < 70; frames++)
            if (burst_and_kill(&life, frames, pairs, true))
                check_doubt(&life, false);
    for (uint64_t frames = 0; frames < 10; frames++)
        if (burst_and_kill(&life, frames, 5, false))
            check_doubt(&life, false);
}

TEST(a_damaged_end_of_a_log_of_always_is_doubted)
{
    struct life life;
    uint64_t ends[4] = {0};
    for (int frame = 0; frame < 3; frame++)
        for (uint64_t byte = 0; byte == 0 || byte < ends[frame + 1] - ends[frame]; byte += 7) {
            if (!begin_and_kill(&life, ends))
                return;
            CHECK(sim_flip(life.sim, FIRST, 8 * (ends[frame] + byte)));
            if (frame < 2) { /* the frame behind it tells that it was synced */
                CHECK(life_begin(&life) && life.found.lost);
                life_free(&life);
            } else {
                check_doubt(&life, true);
            }
        }
}

TEST(a_short_end_of_a_log_of_always_is_doubted)
{
    struct life life;
    uint64_t ends[4] = {0};
    for (uint64_t bytes = 0; bytes <= ends[3] - ends[0]; bytes += 8) {
        if (!begin_and_kill(&life, ends))
            return;
        CHECK(sim_shorten(life.sim, FIRST, ends[3] - bytes));
        check_doubt(&life, true);
    }
}
