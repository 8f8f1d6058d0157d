/* SPDX-License-Identifier: MIT */
/*
 * What a store says about itself to the next process: whether it ended well, how far it was, what time it
 * was; and that what it would need for that is not removed.
 */
#include "store/checkpoint.h"
#include "store/commit.h"
#include "store/store.h"
#include "unit/store/store_kit.h"

static void work(struct life *life)
{
    (void)weir_store_work(life->store, STORE_WORK_SYNC);
    life_answer(life);
}

static uint64_t sequence_of(struct life *life)
{
    struct store_state state;
    weir_store_state(life->store, &state);
    return state.sequence;
}

TEST(who_was_killed_has_not_ended_well_whatever_was_marked)
{
    struct life life;
    life_init(&life, check.seed, STORE_EVERYSEC);
    if (!CHECK(life_begin(&life)))
        return;
    (void)life_raise(&life, 1);
    life_time(&life, 2 * WEIR_SEC);
    work(&life); /* all is synced, and the mark is due */
    life_end(&life, false);
    CHECK(life_begin(&life));
    CHECK(!life.found.clean && life.found.unsure && !life.found.lost);
    life_free(&life);
}

/* It has ended well, and the next one is stopped somewhere in its first calls. */
static bool try_start(uint64_t calls)
{
    struct life life;
    life_init(&life, check.seed, STORE_ALWAYS);
    if (!CHECK(life_begin(&life)))
        return false;
    (void)life_raise(&life, 1);
    work(&life);
    CHECK(weir_store_close(life.store, NULL));
    life.store = NULL;
    sim_kill(life.sim);
    CHECK(life_begin(&life));
    uint64_t last = life.found.sequence;
    CHECK(life.found.clean);
    CHECK(weir_store_close(life.store, NULL));
    life.store = NULL;
    sim_kill(life.sim);
    sim_stop_after(life.sim, calls);
    bool begun = life_begin(&life);
    life_end(&life, false);
    CHECK(life_begin(&life));
    /* the last process has written at least the beginning of a segment, or nothing */
    CHECK(!life.found.clean || life.found.sequence == last + 2);
    CHECK_EQ(life.shelf.values[1], 1);
    life_free(&life);
    return !begun;
}

TEST(who_has_begun_has_not_ended_well)
{
    uint64_t calls = 0;
    while (calls < 200 && try_start(calls) && check.faults == 0)
        calls++;
    CHECK(calls > 10 && calls < 200);
}

TEST(numbers_of_frames_that_are_lost_are_not_used_again)
{
    struct life life;
    char path[64];
    life_init(&life, check.seed, STORE_ALWAYS);
    if (!CHECK(life_begin(&life)))
        return;
    for (uint64_t i = 0; i < 20; i++) {
        (void)life_raise(&life, i);
        work(&life);
    }
    uint64_t last = sequence_of(&life);
    CHECK(weir_store_close(life.store, NULL));
    life.store = NULL;
    sim_kill(life.sim);
    (void)snprintf(path, sizeof path, "data/log-%016x", 1u);
    CHECK(sim_shorten(life.sim, path, 1000));
    CHECK(life_begin(&life));
    CHECK(life.found.lost && life.found.sequence < last);
    CHECK(sequence_of(&life) > last);
    life_free(&life);
}

TEST(time_does_not_go_back_with_a_clock_that_does)
{
    struct life life;
    life_init(&life, check.seed, STORE_ALWAYS);
    life.options.no_elapsed = true;
    if (!CHECK(life_begin(&life)))
        return;
    life_time(&life, 100 * WEIR_SEC);
    int64_t time = life.now_ns + weir_store_offset(life.store);
    (void)life_raise(&life, 1);
    life_time(&life, -50 * WEIR_SEC);
    (void)life_raise(&life, 2);
    work(&life);
    life_end(&life, false);
    CHECK(life_begin(&life));
    CHECK(life.now_ns + weir_store_offset(life.store) >= time);
    life_free(&life);
}

TEST(an_image_that_cannot_be_read_does_not_count_among_those_that_are_kept)
{
    struct life life;
    uint64_t len;
    life_init(&life, check.seed, STORE_ALWAYS);
    if (!CHECK(life_begin(&life)))
        return;
    for (uint64_t i = 0; i < 3; i++) {
        (void)life_raise(&life, i);
        CHECK(weir_store_image(life.store, NULL));
        if (i == 1)
            CHECK(sim_flip(life.sim, "data/image-0000000000000002", 8 * 60));
    }
    CHECK(sim_bytes(life.sim, "data/image-0000000000000001", &len));
    (void)life_raise(&life, 3);
    CHECK(weir_store_image(life.store, NULL));
    CHECK(!sim_bytes(life.sim, "data/image-0000000000000001", &len));
    life_free(&life);
}

/* A bit in the middle of it, which its first frame does not tell: two others have to be there before the one
 * before it goes. */
TEST(an_image_nobody_could_start_from_does_not_count_among_those_that_are_kept)
{
    struct life life;
    uint64_t len = 0;
    life_init(&life, check.seed, STORE_ALWAYS);
    for (uint64_t i = 0; i < 2; i++) {
        if (!CHECK(life_begin(&life)))
            return;
        (void)life_raise(&life, i);
        CHECK(weir_store_image(life.store, NULL));
        CHECK(weir_store_close(life.store, NULL));
    }
    CHECK(sim_bytes(life.sim, "data/image-0000000000000002", &len) && len > 200);
    CHECK(sim_flip(life.sim, "data/image-0000000000000002", 8 * (len / 2)));
    CHECK(life_begin(&life));
    CHECK_EQ(life.found.images_damaged, 1);
    for (uint64_t i = 2; i < 5; i++) {
        bool kept = sim_bytes(life.sim, "data/image-0000000000000001", &len);
        CHECK_EQ(kept, i < 4);
        (void)life_raise(&life, i);
        CHECK(weir_store_image(life.store, NULL));
        CHECK(weir_store_close(life.store, NULL));
        CHECK(life_begin(&life));
    }
    CHECK(!sim_bytes(life.sim, "data/image-0000000000000002", &len));
    life_free(&life);
}

/* The same of one that was damaged when a later one was there already. */
TEST(an_older_image_is_read_before_those_before_it_go)
{
    struct life life;
    uint64_t len = 0;
    life_init(&life, check.seed, STORE_ALWAYS);
    life.options.images = 3;
    if (!CHECK(life_begin(&life)))
        return;
    for (uint64_t i = 0; i < 3; i++) {
        (void)life_raise(&life, i);
        CHECK(weir_store_image(life.store, NULL));
    }
    CHECK(weir_store_close(life.store, NULL));
    CHECK(sim_bytes(life.sim, "data/image-0000000000000002", &len));
    CHECK(sim_flip(life.sim, "data/image-0000000000000002", 8 * (len / 2)));
    CHECK(life_begin(&life));
    CHECK_EQ(life.found.images_damaged, 0); /* nobody has looked */
    CHECK(weir_store_image(life.store, NULL));
    CHECK(sim_bytes(life.sim, "data/image-0000000000000001", &len)); /* 4, 3 and this one */
    CHECK(weir_store_image(life.store, NULL));
    CHECK(!sim_bytes(life.sim, "data/image-0000000000000001", &len));
    life_free(&life);
}

TEST(an_image_has_the_last_note)
{
    struct life life;
    size_t len;
    life_init(&life, check.seed, STORE_ALWAYS);
    if (!CHECK(life_begin(&life)))
        return;
    CHECK(weir_store_catalogue(life.store, "another", 7));
    CHECK(weir_store_image(life.store, NULL));
    sim_stop_after(life.sim, 0);
    life_end(&life, false);
    life.store = weir_store_open(&life.options, &life.found, &life.err);
    if (CHECK(life.store)) {
        const char *catalogue = weir_store_found_catalogue(life.store, &len);
        CHECK(catalogue && len == 7 && memcmp(catalogue, "another", 7) == 0);
    }
    life_free(&life);
}

/* Cut off behind any frame: the image before it is taken, and the log behind that. */
TEST(half_an_image_is_none)
{
    static const char path[] = "data/image-0000000000000002";
    struct life life;
    uint64_t len = 0;
    life_init(&life, check.seed, STORE_ALWAYS);
    if (!CHECK(life_begin(&life)))
        return;
    for (uint64_t i = 0; i < 2; i++) {
        (void)life_raise(&life, i);
        CHECK(weir_store_image(life.store, NULL));
    }
    life_end(&life, false);
    const unsigned char *bytes = sim_bytes(life.sim, path, &len);
    unsigned char *copy = malloc(len + 1);
    if (!CHECK(bytes && copy))
        return;
    memcpy(copy, bytes, len);
    for (uint64_t cut = 0; cut <= len; cut += 8) {
        CHECK(sim_put(life.sim, path, copy, cut));
        CHECK(life_begin(&life));
        CHECK(life.shelf.values[0] == 1 && life.shelf.values[1] == 1);
        CHECK_EQ(life.found.images_damaged, cut < len);
        life_end(&life, false);
    }
    free(copy);
    life_free(&life);
}
