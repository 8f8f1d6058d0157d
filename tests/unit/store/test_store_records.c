/* SPDX-License-Identifier: MIT */
/*
 * Records of the ledger in a store: what was taken back before its time stays away.
 */
#include "ledger/persist.h"
#include "store/commit.h"
#include "store/internal.h"
#include "store/log.h"
#include "unit/store/store_kit.h"

#define RECORDS 8 /* their region */

/* With the hash keys of the note that was found, or with new ones. */
static struct records *begin_records(struct life *life)
{
    struct buffer note = {0};
    size_t len;
    struct records *records = weir_records_new(100, 16, NULL);
    memset(&life->shelf, 0, sizeof life->shelf);
    life->shelf.region.header = &life->shelf.header;
    life->store = weir_store_open(&life->options, &life->found, &life->err);
    const void *found = weir_store_found_catalogue(life->store, &len);
    if (found)
        CHECK(weir_records_describe_read(records, found, len));
    CHECK(weir_store_add(life->store, RECORDS, weir_records_region(records), 0, &weir_records_persist_ops,
                         records, NULL));
    CHECK(weir_store_add(life->store, SHELF_REGION, &life->shelf.region, 0, &shelf_kind, &life->shelf, NULL));
    CHECK(weir_store_replay(life->store, &life->found, NULL));
    weir_records_recovered(records, life->now_ns);
    weir_records_describe(records, &note);
    CHECK(weir_store_start(life->store, buffer_bytes(&note), buffer_len(&note), &life->err));
    weir_buffer_free(&note);
    return records;
}

/* Until that time; 0: it is taken back. Was it there? */
static bool put_record(struct life *life, struct records *records, int64_t expires_ns)
{
    struct record_id id = weir_record_id(records, "test", "one", 3);
    struct record_visit visit;
    weir_records_enter(records, &id, life->now_ns, &visit);
    bool found = visit.found;
    visit.record->expires_ns = expires_ns;
    weir_records_leave(records, &visit);
    return found;
}

/* A segment is full, or an image is begun, between the capture of an entry and the end of its frame. */
static struct {
    struct store *store;
    int captures;
} interrupted;

static void capture_and_rotate(const struct persist *persist, void *slot, uint64_t hash, struct buffer *out)
{
    uint64_t segment, sequence;
    shelf_capture(persist, slot, hash, out);
    if (interrupted.captures++ == 0)
        CHECK(weir_log_rotate(interrupted.store, &segment, &sequence));
}

TEST(graves_are_free_again_when_they_are_in_the_log_or_an_image_will_tell)
{
    struct life life;
    life_init(&life, check.seed, STORE_NEVER);
    struct records *records = begin_records(&life);
    uint64_t misses = weir_dirty_misses;
    for (int i = 0; i < 300000; i++) { /* more than there are */
        CHECK(!put_record(&life, records, life.now_ns + WEIR_SEC));
        CHECK(put_record(&life, records, 0));
        if (i % 100 == 99)
            (void)weir_store_commit(life.store);
        if (i == 1000)
            sim_read_only(life.sim, true);
    }
    CHECK(!weir_store_is_well(life.store));
    CHECK_EQ(weir_dirty_misses, misses);
    life_free(&life);
    weir_records_free(records);
}

TEST(a_record_that_was_taken_back_stays_away_whatever_comes_between_capture_and_append)
{
    struct life life;
    struct persist_ops kind = shelf_kind;
    life_init(&life, check.seed, STORE_NEVER);
    struct records *records = begin_records(&life);
    CHECK(!put_record(&life, records, life.now_ns + 3600 * WEIR_SEC));
    (void)weir_store_commit(life.store);
    interrupted.store = life.store;
    interrupted.captures = 0;
    kind.capture = capture_and_rotate;
    life.shelf.region.persist->kind = &kind;
    CHECK(put_record(&life, records, 0));
    shelf_raise(&life.shelf, 0); /* captured behind it, and then the log is rotated */
    CHECK_EQ(weir_store_ticket_status(life.store, weir_store_commit(life.store)), STORE_GO);
    CHECK_EQ(interrupted.captures, 2);
    life.shelf.region.persist->kind = &shelf_kind;
    life_end(&life, false);
    weir_records_free(records);
    records = begin_records(&life);
    CHECK(!put_record(&life, records, 0));
    life_free(&life);
    weir_records_free(records);
}
