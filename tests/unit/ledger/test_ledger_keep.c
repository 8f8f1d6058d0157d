/* SPDX-License-Identifier: MIT */
/*
 * Records that a store keeps: what was listed, captured and read again is what was there, in whatever order.
 */
#include "unit/ledger/records_kit.h"

#include "base/sat.h"

#define BYTES  16
#define OFFSET 1000000 /* store time - weir_now */

static struct records *records_of(size_t count)
{
    struct weir_error err;
    struct records *records = weir_records_new(count, BYTES, &err);
    if (!records) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return records;
}

static struct record_id id_of(const struct records *records, uint64_t number)
{
    return weir_record_id(records, "test", &number, sizeof number);
}

/* Writes `value`; 0: takes the record back. Gives what was there; 0: nothing, -1: no room. */
static int64_t put(struct records *records, uint64_t number, int64_t value, int64_t now, int64_t expires)
{
    struct record_id id = id_of(records, number);
    struct record_visit visit;
    weir_records_enter(records, &id, now, &visit);
    int64_t before = -1;
    if (visit.record) {
        int64_t *bytes = record_bytes(visit.record);
        before = visit.found ? bytes[0] : 0;
        bytes[0] = value;
        bytes[1] = (int64_t)number;
        visit.record->expires_ns = value == 0 ? 0 : expires;
    }
    weir_records_leave(records, &visit);
    return before;
}

static int64_t value_of(struct records *records, uint64_t number, int64_t now, int64_t *expires)
{
    struct record_id id = id_of(records, number);
    struct record_visit visit;
    weir_records_enter(records, &id, now, &visit);
    int64_t value = visit.record && visit.found ? *(int64_t *)record_bytes(visit.record) : 0;
    if (visit.record && visit.found)
        CHECK_EQ(((int64_t *)record_bytes(visit.record))[1], (int64_t)number);
    if (expires)
        *expires = visit.record && visit.found ? visit.record->expires_ns : 0;
    visit.looked = true;
    weir_records_leave(records, &visit);
    return value;
}

/* Other records with the same keys, which will have what the log says. */
static struct records *twin_of(const struct records *records, size_t count, struct fake_store *fake,
                               int64_t offset_ns)
{
    struct records *twin = records_of(count);
    struct buffer text = {0};
    weir_records_describe(records, &text);
    CHECK(weir_records_describe_read(twin, buffer_bytes(&text), buffer_len(&text)));
    weir_buffer_free(&text);
    *fake = (struct fake_store){0};
    fake_keep(fake, twin, offset_ns);
    return twin;
}

struct stage {
    struct fake_store fake;
    struct records *records;
};

static void begin(struct stage *stage, size_t count)
{
    weir_clock_set(1);
    *stage = (struct stage){.records = records_of(count)};
    fake_keep(&stage->fake, stage->records, OFFSET);
}

static void end(struct stage *stage)
{
    if (weir_dirty)
        weir_dirty_clear(weir_dirty);
    weir_records_free(stage->records);
    weir_buffer_free(&stage->fake.log);
    weir_clock_set(-1);
}

static void append(struct stage *stage)
{
    fake_append(&stage->fake, &stage->fake.log);
}

TEST(a_record_comes_back_with_its_bytes_and_its_end)
{
    struct stage stage;
    struct fake_store other;
    int64_t expires;
    begin(&stage, 100);
    CHECK_EQ(put(stage.records, 1, 42, 1, 500), 0);
    append(&stage);
    /* A boot later: the clock of the process has begun anew, store time has not. */
    struct records *twin = twin_of(stage.records, 3000, &other, OFFSET + 300);
    CHECK(fake_replay(&other, &stage.fake.log, NULL));
    weir_records_recovered(twin, 1);
    CHECK_EQ(value_of(twin, 1, 1, &expires), 42);
    CHECK_EQ(expires, 200);
    CHECK_EQ(value_of(twin, 2, 1, NULL), 0);
    weir_records_free(twin);
    end(&stage);
}

TEST(who_has_only_looked_lists_nothing)
{
    struct stage stage;
    begin(&stage, 100);
    CHECK_EQ(put(stage.records, 1, 42, 1, 500), 0);
    append(&stage);
    CHECK_EQ(value_of(stage.records, 1, 1, NULL), 42);
    CHECK_EQ(value_of(stage.records, 2, 1, NULL), 0);
    CHECK_EQ(weir_dirty->count, 0);
    CHECK_EQ(put(stage.records, 2, 0, 1, 0), 0); /* new, and free again: nothing was ever there */
    CHECK_EQ(weir_dirty->count, 0);
    CHECK_EQ(fake_records(&stage.fake.log, NULL), 1);
    end(&stage);
}

TEST(what_was_taken_back_stays_away_also_if_its_place_is_somebody_elses)
{
    struct stage stage;
    struct fake_store other;
    begin(&stage, 1); /* 32 places */
    for (uint64_t i = 0; i < 32; i++)
        CHECK_EQ(put(stage.records, i, 1, 1, 500), 0);
    append(&stage);
    CHECK_EQ(put(stage.records, 5, 0, 1, 0), 1);
    CHECK_EQ(put(stage.records, 100, 7, 1, 500), 0); /* in the place of 5 */
    append(&stage);
    struct records *twin = twin_of(stage.records, 1, &other, OFFSET);
    CHECK(fake_replay(&other, &stage.fake.log, NULL));
    weir_records_recovered(twin, 1);
    CHECK_EQ(value_of(twin, 5, 1, NULL), 0);
    CHECK_EQ(value_of(twin, 100, 1, NULL), 7);
    weir_records_free(twin);
    end(&stage);
}

TEST(what_comes_after_a_record_was_taken_back_counts_whoever_appends_first)
{
    struct stage stage;
    struct fake_store other;
    struct buffer early = {0};
    begin(&stage, 100);
    CHECK_EQ(put(stage.records, 1, 1, 1, 500), 0);
    append(&stage);
    CHECK_EQ(put(stage.records, 1, 0, 1, 0), 1);
    struct dirty_item gone = weir_dirty->items[0]; /* of a thread that is slow */
    weir_dirty_clear(weir_dirty);
    CHECK_EQ(put(stage.records, 1, 2, 1, 500), 0);
    append(&stage);
    weir_records_persist_ops.capture(gone.persist, gone.slot, gone.hash, &stage.fake.log);
    CHECK_EQ(fake_records(&stage.fake.log, NULL), 3);
    weir_records_persist_ops.released(gone.persist, gone.slot, gone.hash);
    weir_records_persist_ops.capture(gone.persist, gone.slot, gone.hash,
                                     &early); /* it is nobody's any more */
    CHECK_EQ(buffer_len(&early), 0);
    struct records *twin = twin_of(stage.records, 100, &other, OFFSET);
    CHECK(fake_replay(&other, &stage.fake.log, NULL));
    weir_records_recovered(twin, 1);
    CHECK_EQ(value_of(twin, 1, 1, NULL), 2);
    weir_records_free(twin);
    end(&stage);
}

/* Lists that are thrown away, as nobody does: then they run out. */
TEST(when_no_grave_is_left_an_image_is_asked_for_and_then_there_are_some_again)
{
    struct stage stage;
    begin(&stage, 1000);
    uint64_t misses = weir_dirty_misses, i;
    struct dirty_item first = {0};
    for (i = 0; i < 300000 && weir_dirty_misses == misses; i++) {
        CHECK_EQ(put(stage.records, 1, 1, 1, 500), 0);
        CHECK_EQ(put(stage.records, 1, 0, 1, 0), 1);
        if (i == 0)
            first = weir_dirty->items[weir_dirty->count - 1];
        weir_dirty_clear(weir_dirty);
    }
    CHECK_EQ(i, 64 * 4096 + 1);
    CHECK_EQ(weir_dirty_misses, misses + 1);
    for (i = 0; i < 1000; i++) {
        CHECK_EQ(put(stage.records, 1, 1, 1, 500), 0);
        CHECK_EQ(put(stage.records, 1, 0, 1, 0), 1);
    }
    CHECK_EQ(weir_dirty_misses, misses + 1);
    weir_records_persist_ops.capture(first.persist, first.slot, first.hash, &stage.fake.log);
    CHECK_EQ(buffer_len(&stage.fake.log), 0); /* it is another's by now */
    append(&stage);
    CHECK_EQ(fake_records(&stage.fake.log, NULL), 1000);
    end(&stage);
}

TEST(graves_are_used_again)
{
    struct stage stage;
    begin(&stage, 1000);
    uint64_t misses = weir_dirty_misses;
    for (int i = 0; i < 300000; i++) {
        (void)put(stage.records, 1, 1, 1, 500);
        (void)put(stage.records, 1, 0, 1, 0);
        if (i % 64 == 0)
            append(&stage);
    }
    CHECK_EQ(weir_dirty_misses, misses);
    end(&stage);
}

/* The frame may have to be made anew: see commit.c. */
TEST(until_it_is_in_the_log_that_a_record_is_gone_can_be_captured_again)
{
    struct stage stage;
    struct buffer first = {0}, again = {0};
    begin(&stage, 100);
    CHECK_EQ(put(stage.records, 1, 1, 1, 500), 0);
    append(&stage);
    CHECK_EQ(put(stage.records, 1, 0, 1, 0), 1);
    fake_capture(&first);
    fake_capture(&again);
    CHECK_EQ(fake_records(&first, NULL), 1);
    CHECK_EQ(buffer_len(&again), buffer_len(&first));
    CHECK(memcmp(buffer_bytes(&again), buffer_bytes(&first), buffer_len(&first)) == 0);
    weir_buffer_free(&first);
    weir_buffer_free(&again);
    end(&stage);
}

TEST(numbers_go_on_after_recovery)
{
    struct stage stage;
    struct fake_store other, third;
    begin(&stage, 100);
    for (int64_t i = 1; i <= 10; i++) {
        (void)put(stage.records, 1, i, 1, 500);
        append(&stage);
    }
    struct records *twin = twin_of(stage.records, 5000, &other, OFFSET);
    CHECK(fake_replay(&other, &stage.fake.log, NULL));
    weir_records_recovered(twin, 1);
    CHECK_EQ(put(twin, 1, 11, 1, 500), 10);
    fake_append(&other, &stage.fake.log);
    struct rng rng = rng_new(1);
    for (int i = 0; i < 20; i++) {
        struct records *next = twin_of(stage.records, 100, &third, OFFSET);
        CHECK(fake_replay(&third, &stage.fake.log, &rng));
        weir_records_recovered(next, 1);
        CHECK_EQ(value_of(next, 1, 1, NULL), 11);
        weir_records_free(next);
    }
    weir_records_free(twin);
    end(&stage);
}

/* ---- inside of a record ---- */

TEST(a_record_can_be_appended_by_who_is_inside_of_it)
{
    struct stage stage;
    begin(&stage, 100);
    (void)put(stage.records, 1, 1, 1, 500);
    weir_records_flush(stage.records);
    CHECK_EQ(fake_records(&stage.fake.log, NULL), 1);
    struct record_id id = id_of(stage.records, 1);
    struct record_visit visit;
    weir_records_enter(stage.records, &id, 1, &visit);
    *(int64_t *)record_bytes(visit.record) = 2;
    weir_records_append(stage.records, &visit); /* would wait for itself */
    CHECK_EQ(fake_records(&stage.fake.log, NULL), 2);
    CHECK_EQ(weir_dirty->count, 0);
    weir_records_leave(stage.records, &visit);
    CHECK_EQ(weir_dirty->count, 1);
    weir_records_flush(stage.records);
    weir_records_flush(stage.records); /* there is nothing more */
    CHECK_EQ(stage.fake.lists, 3);
    end(&stage);
}

TEST(nobody_is_inside_when_a_full_list_is_appended)
{
    struct stage stage;
    begin(&stage, 100000);
    for (uint64_t i = 0; i < 20000; i++)
        CHECK_EQ(put(stage.records, i, 1, 1, 500), 0);
    append(&stage);
    CHECK(stage.fake.lists >= 5);
    CHECK_EQ(fake_records(&stage.fake.log, NULL), 20000);
    end(&stage);
}

/* ---- room ---- */

static bool is_odd(const struct record *record, int64_t now_ns)
{
    (void)now_ns;
    return *(const int64_t *)(const void *)(record + 1) % 2 != 0;
}

TEST(what_has_no_room_is_told_and_what_yields_is_not)
{
    struct stage stage;
    struct fake_store other;
    begin(&stage, 200);
    for (uint64_t i = 0; i < 100; i++)
        CHECK_EQ(put(stage.records, i, i < 20 ? 2 : 1, 1, 500), 0);
    append(&stage);
    struct rng rng = rng_new(2);
    for (int round = 0; round < 50; round++) {
        struct records *twin = twin_of(stage.records, 1, &other, OFFSET);
        if (round % 2 == 0)
            weir_records_yield(twin, is_odd);
        CHECK_EQ(fake_replay(&other, &stage.fake.log, &rng), round % 2 == 0);
        weir_records_recovered(twin, 1);
        for (uint64_t i = 0; i < 20 && round % 2 == 0; i++)
            CHECK_EQ(value_of(twin, i, 1, NULL), 2);
        weir_records_free(twin);
    }
    end(&stage);
}

/* Value 2 is an open reservation, 3 one that is settled. */
TEST(what_had_to_yield_does_not_come_back_as_it_was_before)
{
    struct stage stage;
    struct fake_store other;
    begin(&stage, 2000);
    for (uint64_t i = 0; i < 500; i++)
        (void)put(stage.records, i, 2, 1, 500);
    append(&stage);
    for (uint64_t i = 10; i < 500; i++)
        (void)put(stage.records, i, 3, 1, 500);
    append(&stage);
    struct buffer newest_first = {0};
    size_t starts[990];
    CHECK_EQ(fake_records(&stage.fake.log, starts), 990);
    for (size_t i = 990; i-- > 0;)
        buffer_put(&newest_first, buffer_bytes(&stage.fake.log) + starts[i], starts[1]);
    struct records *twin = twin_of(stage.records, 1, &other, OFFSET);
    weir_records_yield(twin, is_odd);
    CHECK(fake_replay(&other, &newest_first, NULL));
    weir_records_recovered(twin, 1);
    for (uint64_t i = 0; i < 500; i++) {
        int64_t value = value_of(twin, i, 1, NULL);
        CHECK(i < 10 ? value == 2 : value == 0 || value == 3);
    }
    weir_buffer_free(&newest_first);
    weir_records_free(twin);
    end(&stage);
}

TEST(whatever_fitted_fits_again_in_any_order)
{
    struct stage stage;
    struct fake_store other;
    begin(&stage, 2000);
    struct records_stat stat;
    for (uint64_t i = 0, full = 0; full == 0; i++)
        full = put(stage.records, i, 1, 1, 500) < 0; /* until the first finds no room */
    append(&stage);
    weir_records_stat(stage.records, &stat);
    int64_t used = stat.used;
    struct rng rng = rng_new(3);
    for (int round = 0; round < 30; round++) {
        struct records *twin = twin_of(stage.records, 2000, &other, OFFSET);
        CHECK(fake_replay(&other, &stage.fake.log, &rng));
        weir_records_recovered(twin, 1);
        weir_records_stat(twin, &stat);
        CHECK_EQ(stat.used, used);
        weir_records_free(twin);
    }
    end(&stage);
}

/* ---- hostile bytes ---- */

static bool apply_bytes(struct fake_store *fake, uint8_t kind, struct record_head head, size_t bytes,
                        bool *failed)
{
    _Alignas(8) unsigned char body[sizeof head + 64] = {0};
    memcpy(body, &head, sizeof head);
    return weir_records_persist_ops.apply(&fake->persist, kind, body, sizeof head + bytes, failed);
}

TEST(bytes_that_make_no_sense_are_told_and_change_nothing)
{
    struct stage stage;
    begin(&stage, 100);
    struct fake_store *fake = &stage.fake;
    bool failed = false;
    struct record_head good = {{{1, 2}}, 5, OFFSET + 100}, gone = {{{1, 2}}, 5, 0}, head;
    CHECK(!apply_bytes(fake, 0, good, BYTES, &failed));
    CHECK(!apply_bytes(fake, 3, good, BYTES, &failed));
    CHECK(!apply_bytes(fake, RECORD_KEPT, good, BYTES - 8, &failed));
    CHECK(!apply_bytes(fake, RECORD_KEPT, good, BYTES + 8, &failed));
    CHECK(!apply_bytes(fake, RECORD_GONE, gone, BYTES, &failed));
    CHECK(!weir_records_persist_ops.apply(&fake->persist, RECORD_GONE, (const unsigned char *)&gone, 24,
                                          &failed));
    CHECK(!weir_records_persist_ops.apply(&fake->persist, RECORD_GONE, (const unsigned char *)&gone, 0,
                                          &failed));
    head = good, head.id = (struct record_id){{0, 0}};
    CHECK(!apply_bytes(fake, RECORD_KEPT, head, BYTES, &failed));
    head = good, head.number = 0;
    CHECK(!apply_bytes(fake, RECORD_KEPT, head, BYTES, &failed));
    head = good, head.number = UINT64_MAX;
    CHECK(!apply_bytes(fake, RECORD_KEPT, head, BYTES, &failed));
    head = good, head.expires_ns = 0;
    CHECK(!apply_bytes(fake, RECORD_KEPT, head, BYTES, &failed));
    head.expires_ns = INT64_MIN;
    CHECK(!apply_bytes(fake, RECORD_KEPT, head, BYTES, &failed));
    CHECK(!apply_bytes(fake, RECORD_GONE, good, 0, &failed));
    struct records_stat stat;
    weir_records_stat(stage.records, &stat);
    CHECK_EQ(stat.used, 0);
    CHECK(apply_bytes(fake, RECORD_KEPT, good, BYTES, &failed) && !failed);
    head = good, head.number = 6, head.expires_ns = OFFSET + 1; /* it has expired: the older one, too */
    CHECK(apply_bytes(fake, RECORD_KEPT, head, BYTES, &failed) && !failed);
    weir_records_stat(stage.records, &stat);
    CHECK_EQ(stat.used, 0);
    head = good, head.number = 7, head.expires_ns = INT64_MAX;
    CHECK(apply_bytes(fake, RECORD_KEPT, head, BYTES, &failed) && !failed);
    weir_records_recovered(stage.records, 1);
    weir_records_stat(stage.records, &stat);
    CHECK_EQ(stat.used, 1);
    end(&stage);
}

TEST(a_description_of_something_else_is_refused)
{
    struct stage stage;
    begin(&stage, 100);
    struct buffer text = {0};
    weir_records_describe(stage.records, &text);
    char *bytes = buffer_bytes(&text);
    CHECK(weir_records_describe_read(stage.records, bytes, buffer_len(&text)));
    CHECK(!weir_records_describe_read(stage.records, bytes, buffer_len(&text) - 1));
    CHECK(!weir_records_describe_read(stage.records, bytes, 0));
    bytes[4] ^= 8; /* bytes of a record */
    CHECK(!weir_records_describe_read(stage.records, bytes, buffer_len(&text)));
    bytes[4] ^= 8;
    bytes[0] ^= 2; /* version */
    CHECK(!weir_records_describe_read(stage.records, bytes, buffer_len(&text)));
    weir_buffer_free(&text);
    end(&stage);
}

/* ---- the ledger's own ---- */

static struct ledger ledger_of(void)
{
    struct ledger ledger;
    struct weir_error err;
    if (!weir_ledger_init(&ledger, 10, 10, &err))
        abort();
    return ledger;
}

static void reserve(struct ledger *ledger, const struct ledger_reservation *entry, int64_t expires)
{
    struct record_id id = weir_ledger_reservation(ledger, entry->number);
    struct record_visit visit;
    weir_records_enter(ledger->reservations, &id, 1, &visit);
    *visit_reservation(&visit) = *entry;
    visit.record->expires_ns = expires;
    weir_records_leave(ledger->reservations, &visit);
}

TEST(a_promise_keeps_its_time_on_another_clock)
{
    struct ledger ledger = ledger_of(), next = ledger_of();
    struct fake_store fake = {0}, other = {0};
    struct buffer text = {0};
    weir_clock_set(1);
    fake_keep(&fake, ledger.reservations, 1000);
    struct ledger_reservation entry = {.number = 9, .pairs = 1};
    entry.pair[0].n = 3;
    entry.promise = (struct weir_reservation){.n = 3, .wait_ns = 99, .due_ns = 100, .before_ns = 50};
    reserve(&ledger, &entry, 500);
    fake_append(&fake, &fake.log);
    weir_records_describe(ledger.reservations, &text);
    CHECK(weir_records_describe_read(next.reservations, buffer_bytes(&text), buffer_len(&text)));
    fake_keep(&other, next.reservations, 1040);
    CHECK(fake_replay(&other, &fake.log, NULL));
    weir_records_recovered(next.reservations, 1);
    struct record_id id = weir_ledger_reservation(&next, 9);
    struct record_visit visit;
    weir_records_enter(next.reservations, &id, 1, &visit);
    if (CHECK(visit.found)) {
        CHECK_EQ(visit.record->expires_ns, 460);
        CHECK_EQ(visit_reservation(&visit)->promise.due_ns, 60);
        CHECK_EQ(visit_reservation(&visit)->promise.before_ns, 10);
        CHECK_EQ(visit_reservation(&visit)->promise.wait_ns, 99);
    }
    weir_records_leave(next.reservations, &visit);
    weir_dirty_clear(weir_dirty);
    weir_buffer_free(&text);
    weir_buffer_free(&fake.log);
    weir_ledger_end(&ledger);
    weir_ledger_end(&next);
    weir_clock_set(-1);
}

TEST(reservations_that_would_lead_astray_are_not_taken_from_a_disk)
{
    struct ledger ledger = ledger_of();
    struct fake_store fake = {0};
    struct {
        struct record_head head;
        struct ledger_reservation entry;
    } body = {.head = {{{1, 1}}, 1, INT64_MAX}, .entry = {.pairs = 2, .also = 1}};
    bool failed = false;
    fake_keep(&fake, ledger.reservations, 0);
#define TRY                                                                                                  \
    weir_records_persist_ops.apply(&fake.persist, RECORD_KEPT, (unsigned char *)&body, sizeof body, &failed)
    body.entry.pairs = 0;
    CHECK(!TRY);
    body.entry.pairs = LEDGER_PAIRS + 1;
    CHECK(!TRY);
    body.entry.pairs = UINT32_MAX;
    CHECK(!TRY);
    body.entry.pairs = 2;
    body.entry.also = LEDGER_PAIRS - 1;
    CHECK(!TRY);
    body.entry.also = 1;
    body.entry.of[2] = 2;
    CHECK(!TRY);
    body.entry.of[2] = 1;
    body.entry.pair[1].n = -1;
    CHECK(!TRY);
    body.entry.pair[1].n = 1;
    body.entry.promise.n = -1;
    CHECK(!TRY);
    body.entry.promise.n = 0;
    CHECK(TRY && !failed);
#undef TRY
    weir_ledger_end(&ledger);
}

TEST(after_a_loss_what_is_open_cannot_be_settled_and_that_is_listed)
{
    struct ledger ledger = ledger_of();
    struct fake_store fake = {0};
    weir_clock_set(1);
    for (uint64_t i = 1; i <= 3; i++)
        reserve(&ledger,
                &(struct ledger_reservation){.number = i, .pairs = 1, .settled.question = i == 2 ? 77 : 0},
                i == 3 ? 4 : 500);
    fake_keep(&fake, ledger.reservations, 0);
    CHECK_EQ(weir_ledger_distrust(&ledger, 4), 1);
    CHECK_EQ(weir_ledger_distrust(&ledger, 4), 0);
    fake_append(&fake, &fake.log);
    CHECK_EQ(fake_records(&fake.log, NULL), 1);
    struct record_id id = weir_ledger_reservation(&ledger, 1);
    struct record_visit visit;
    weir_records_enter(ledger.reservations, &id, 4, &visit);
    CHECK(visit.found && visit_reservation(&visit)->settled.question == LEDGER_DISTRUSTED);
    weir_records_leave(ledger.reservations, &visit);
    weir_dirty_clear(weir_dirty);
    weir_buffer_free(&fake.log);
    weir_ledger_end(&ledger);
    weir_clock_set(-1);
}

/* ---- random stories ---- */

#define IDS   40
#define LISTS 3 /* threads that append when they like */

struct story {
    struct stage stage;
    struct rng rng;
    struct dirty_item listed[LISTS][256];
    size_t counts[LISTS];
    int64_t now, value[IDS], expires[IDS];
};

/* What was just listed belongs to one of several threads. */
static void hand_over(struct story *story)
{
    size_t list = (size_t)rng_between(&story->rng, 0, LISTS - 1);
    for (uint32_t i = 0; i < weir_dirty->count && story->counts[list] < 256; i++)
        story->listed[list][story->counts[list]++] = weir_dirty->items[i];
    weir_dirty_clear(weir_dirty);
}

static void append_list(struct story *story, size_t list)
{
    for (size_t i = 0; i < story->counts[list]; i++) {
        struct dirty_item *item = &story->listed[list][i];
        weir_records_persist_ops.capture(item->persist, item->slot, item->hash, &story->stage.fake.log);
        weir_records_persist_ops.released(item->persist, item->slot, item->hash);
    }
    story->counts[list] = 0;
}

static void step(struct story *story)
{
    uint64_t id = (uint64_t)rng_between(&story->rng, 0, IDS - 1);
    int64_t what = rng_between(&story->rng, 0, 9);
    size_t list = (size_t)rng_between(&story->rng, 0, LISTS - 1);
    if (what < 6) {
        int64_t value = what == 0 ? 0 : rng_between(&story->rng, 1, 1000000);
        int64_t expires = max64(story->now + rng_between(&story->rng, 1, 60), story->expires[id]);
        CHECK(put(story->stage.records, id, value, story->now, expires) >= 0);
        story->value[id] = value;
        story->expires[id] = value == 0 ? 0 : expires;
        hand_over(story);
    } else if (what < 8 || story->counts[list] > 200) {
        append_list(story, list);
    } else if (what == 8) {
        story->now += rng_between(&story->rng, 0, 5);
        weir_clock_set(story->now);
    } else if (rng_between(&story->rng, 0, 9) == 0) {
        fake_walk(&story->stage.fake, 300, &story->stage.fake.log);
    } else {
        weir_records_sweep(story->stage.records, 32, story->now);
    }
}

static bool tell(uint64_t number)
{
    struct story story = {.rng = rng_new(number), .now = 1};
    struct fake_store other;
    bool good = true;
    begin(&story.stage, 200);
    for (int64_t i = rng_between(&story.rng, 1, 400); i > 0; i--)
        step(&story);
    for (size_t list = 0; list < LISTS; list++)
        append_list(&story, list);
    struct records *twin =
        twin_of(story.stage.records, (size_t)rng_between(&story.rng, 100, 5000), &other, OFFSET);
    good &= CHECK(fake_replay(&other, &story.stage.fake.log, &story.rng));
    weir_records_recovered(twin, story.now);
    for (uint64_t id = 0; id < IDS; id++) {
        int64_t expires, value = value_of(twin, id, story.now, &expires);
        bool there = story.value[id] != 0 && story.expires[id] > story.now;
        good &= CHECK_EQ(value, there ? story.value[id] : 0);
        good &= CHECK_EQ(expires, there ? story.expires[id] : 0);
    }
    weir_records_free(twin);
    end(&story.stage);
    return good;
}

TEST(a_story_is_told_again_whatever_the_order_of_its_records)
{
    for (uint64_t number = 100; number < 2100; number++)
        if (!tell(number)) {
            printf("# story %" PRIu64 "\n", number);
            return;
        }
}
