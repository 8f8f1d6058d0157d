/* SPDX-License-Identifier: MIT */
#include "store/checkpoint.h"
#include "store/commit.h"
#include "store/internal.h"
#include "store/log.h"
#include "store/store.h"
#include "unit/store/store_kit.h"

/* ---- tickets ---- */

TEST(always_waits_for_the_sync_and_not_longer)
{
    struct life life;
    life_init(&life, check.seed, STORE_ALWAYS);
    if (!CHECK(life_begin(&life)))
        return;
    CHECK(life.found.fresh);
    uint64_t before = weir_store_commit(life.store);
    CHECK_EQ(weir_store_ticket_status(life.store, before),
             STORE_GO); /* nothing was changed since the start */
    uint64_t ticket = life_raise(&life, 3);
    CHECK_EQ(ticket, before + 1);
    CHECK_EQ(weir_store_ticket_status(life.store, ticket), STORE_WAIT);
    CHECK_EQ(weir_store_commit(life.store), ticket); /* for what is in the log by now */
    int moved = life.moved;
    CHECK(!weir_store_work(life.store, STORE_WORK_SYNC));
    CHECK_EQ(life.moved, moved + 1);
    CHECK_EQ(weir_store_ticket_status(life.store, ticket), STORE_GO);
    life_answer(&life);
    life_end(&life, true);
    CHECK(life_begin(&life));
    CHECK_EQ(life.shelf.values[3], 1);
    CHECK(!life.found.lost && !life.found.unsure && !life.found.clean);
    life_free(&life);
}

TEST(everysec_goes_until_the_oldest_is_nearly_a_second_old)
{
    struct life life;
    life_init(&life, check.seed, STORE_EVERYSEC);
    if (!CHECK(life_begin(&life)))
        return;
    uint64_t first = life_raise(&life, 0);
    CHECK_EQ(weir_store_ticket_status(life.store, first), STORE_GO);
    life_time(&life, WEIR_SEC / 2);
    CHECK_EQ(weir_store_ticket_status(life.store, life_raise(&life, 1)), STORE_GO);
    life_time(&life, WEIR_SEC / 2 - WEIR_SEC / 10);
    uint64_t late = life_raise(&life, 2);
    CHECK_EQ(weir_store_ticket_status(life.store, late), STORE_WAIT);
    CHECK_EQ(weir_store_ticket_status(life.store, first),
             STORE_WAIT); /* nobody who was not answered by then */
    struct store_state state;
    weir_store_state(life.store, &state);
    CHECK_EQ(state.unsynced_ns, 9 * WEIR_SEC / 10);
    (void)weir_store_work(life.store, STORE_WORK_IMAGE);
    CHECK_EQ(life.slows, 1);
    (void)weir_store_work(life.store, STORE_WORK_SYNC);
    CHECK_EQ(weir_store_ticket_status(life.store, late), STORE_GO);
    weir_store_state(life.store, &state);
    CHECK_EQ(state.unsynced_ns, 0);
    CHECK(!state.slow);
    CHECK_EQ(weir_store_ticket_status(life.store, life_raise(&life, 3)), STORE_GO);
    life_free(&life);
}

TEST(never_goes_at_once_and_a_kill_loses_nothing)
{
    struct life life;
    life_init(&life, check.seed, STORE_NEVER);
    if (!CHECK(life_begin(&life)))
        return;
    for (uint64_t i = 0; i < 300; i++) {
        CHECK_EQ(weir_store_ticket_status(life.store, life_raise(&life, i % SHELF)), STORE_GO);
        life_time(&life, WEIR_SEC);
    }
    life_answer(&life);
    life_end(&life, false);
    CHECK(life_begin(&life));
    CHECK(life_check(&life, INT64_MAX));
    CHECK_EQ(life.shelf.values[0], 5);
    life_free(&life);
}

/* An image is begun, by another thread, between the capture of an entry and the end of its frame. */
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

TEST(behind_an_image_that_was_begun_meanwhile_entries_are_captured_anew)
{
    struct life life;
    struct persist_ops kind = shelf_kind;
    life_init(&life, check.seed, STORE_NEVER);
    if (!CHECK(life_begin(&life)))
        return;
    interrupted.store = life.store;
    interrupted.captures = 0;
    kind.capture = capture_and_rotate;
    life.shelf.region.persist->kind = &kind;
    (void)life_raise(&life, 3);
    CHECK_EQ(interrupted.captures, 2);
    life.shelf.region.persist->kind = &shelf_kind;
    life_free(&life);
}

static void capture_and_miss(const struct persist *persist, void *slot, uint64_t hash, struct buffer *out)
{
    (void)persist, (void)slot, (void)hash, (void)out;
    weir_dirty_miss();
}

/* As graves that another thread has given up: what was listed is not there any more. */
TEST(who_finds_out_while_he_captures_that_something_is_missed_does_not_answer)
{
    struct life life;
    struct persist_ops kind = shelf_kind;
    life_init(&life, check.seed, STORE_NEVER);
    if (!CHECK(life_begin(&life)))
        return;
    kind.capture = capture_and_miss;
    life.shelf.region.persist->kind = &kind;
    uint64_t ticket = life_raise(&life, 3);
    CHECK_EQ(weir_store_ticket_status(life.store, ticket), STORE_SICK);
    life.shelf.region.persist->kind = &shelf_kind;
    CHECK(life_heal(&life));
    life_end(&life, false);
    CHECK(life_begin(&life));
    CHECK_EQ(life.shelf.values[3], 1);
    life_free(&life);
}

/* A commit in this thread would capture entries of regions that are kept no more. */
TEST(a_store_that_could_not_be_started_leaves_nothing_listed)
{
    struct life life, other;
    life_init(&life, check.seed, STORE_ALWAYS);
    life_init(&other, check.seed, STORE_ALWAYS);
    memset(&life.shelf, 0, sizeof life.shelf);
    life.shelf.region.header = &life.shelf.header;
    if (!CHECK(life_begin(&other)))
        return;
    life.store = weir_store_open(&life.options, &life.found, &life.err);
    CHECK(weir_store_add(life.store, SHELF_REGION, &life.shelf.region, 0, &shelf_kind, &life.shelf, NULL));
    CHECK(weir_store_replay(life.store, &life.found, NULL));
    for (uint64_t i = 0; i < SHELF; i++)
        shelf_raise(i % 2 ? &life.shelf : &other.shelf, i);
    sim_fail(life.sim, DISK_CALL_OPEN, 1, ENOSPC, true);
    CHECK(!weir_store_start(life.store, "note", 4, &life.err));
    (void)weir_store_close(life.store, NULL);
    life.store = NULL;
    CHECK_EQ(weir_dirty->count, SHELF / 2); /* what the other store has to append */
    for (uint32_t i = 0; i < weir_dirty->count; i++)
        CHECK(weir_dirty->items[i].persist == other.shelf.region.persist);
    life_free(&life);
    life_free(&other);
}

TEST(a_key_that_changed_a_thousand_times_is_one_record)
{
    struct life life;
    struct store_state before, after;
    life_init(&life, check.seed, STORE_EVERYSEC);
    if (!CHECK(life_begin(&life)))
        return;
    weir_store_state(life.store, &before);
    for (int i = 0; i < 1000; i++)
        shelf_raise(&life.shelf, 5);
    (void)weir_store_commit(life.store);
    weir_store_state(life.store, &after);
    CHECK_EQ(after.records - before.records, 1);
    CHECK_EQ(after.appends - before.appends, 1);
    life_free(&life);
}

/* ---- segments ---- */

TEST(segments_follow_each_other_in_every_mode)
{
    for (enum store_sync sync = STORE_ALWAYS; sync <= STORE_NEVER; sync++) {
        struct life life;
        struct store_state state;
        life_init(&life, check.seed, sync);
        if (!CHECK(life_begin(&life)))
            return;
        for (uint64_t i = 0; i < 500; i++) {
            (void)life_raise(&life, i % SHELF);
            (void)weir_store_work(life.store, i % 3 ? STORE_WORK_SYNC : STORE_WORK_IMAGE);
            life_answer(&life);
        }
        weir_store_state(life.store, &state);
        CHECK(state.log_bytes > 8 * 4096);
        CHECK(weir_store_close(life.store, &life.err));
        life.store = NULL;
        CHECK_EQ(sim_handles(life.sim), 0);
        CHECK(life_begin(&life));
        CHECK(life.found.clean && !life.found.lost);
        CHECK(life_check(&life, INT64_MAX));
        CHECK_EQ(life.found.sequence, state.sequence);
        life_free(&life);
    }
}

TEST(sequences_and_time_run_on)
{
    struct life life;
    life_init(&life, check.seed, STORE_ALWAYS);
    uint64_t last = 0;
    int64_t time = 0;
    for (int i = 0; i < 5 && CHECK(life_begin(&life)); i++) {
        CHECK(life.now_ns + weir_store_offset(life.store) >= time);
        life_time(&life, i == 2 ? -life.now_ns : WEIR_SEC); /* a clock that begins anew */
        uint64_t ticket = life_raise(&life, 0);
        CHECK(ticket > last);
        last = ticket;
        time = life.now_ns + weir_store_offset(life.store);
        CHECK_EQ(life.shelf.region.offset_ns, weir_store_offset(life.store));
        CHECK(weir_store_close(life.store, NULL));
        life.store = NULL;
    }
    life_free(&life);
}

TEST(a_second_process_is_told_who_has_the_directory)
{
    struct life life;
    life_init(&life, check.seed, STORE_ALWAYS);
    if (!CHECK(life_begin(&life)))
        return;
    struct store_found found;
    struct weir_error err = {0};
    CHECK(!weir_store_open(&life.options, &found, &err));
    CHECK_EQ(err.code, EAGAIN);
    CHECK(strstr(err.text, "in use") != NULL);
    life_free(&life);
}

/* ---- faults ---- */

TEST(a_failed_sync_is_not_tried_again_and_an_image_heals)
{
    struct life life;
    life_init(&life, check.seed, STORE_ALWAYS);
    if (!CHECK(life_begin(&life)))
        return;
    uint64_t lost = life_raise(&life, 1);
    sim_fail(life.sim, DISK_CALL_SYNC, 1, EIO, false);
    (void)weir_store_work(life.store, STORE_WORK_SYNC);
    CHECK_EQ(weir_store_ticket_status(life.store, lost), STORE_SICK);
    CHECK(!weir_store_is_well(life.store));
    uint64_t syncs = sim_calls(life.sim, DISK_CALL_SYNC);
    (void)weir_store_work(life.store, STORE_WORK_SYNC);
    CHECK_EQ(sim_calls(life.sim, DISK_CALL_SYNC), syncs);
    CHECK(!weir_store_catalogue(life.store, "other", 5));
    uint64_t later = life_raise(&life, 2);
    CHECK(later > lost);
    CHECK_EQ(weir_store_ticket_status(life.store, later), STORE_SICK);
    CHECK(life_heal(&life));
    CHECK_EQ(weir_store_ticket_status(life.store, lost), STORE_GO);
    CHECK_EQ(weir_store_ticket_status(life.store, later), STORE_GO);
    CHECK_EQ(life.ills, 1);
    CHECK_EQ(life.wells, 1);
    life_end(&life, true);
    CHECK(life_begin(&life));
    CHECK_EQ(life.shelf.values[1], 1);
    CHECK_EQ(life.shelf.values[2], 1);
    CHECK(!life.found.lost && !life.found.unsure);
    life_free(&life);
}

TEST(a_start_on_a_full_disk_says_what_to_do)
{
    struct life life;
    life_init(&life, check.seed, STORE_EVERYSEC);
    if (!CHECK(life_begin(&life)))
        return;
    CHECK_EQ(weir_store_ticket_status(life.store, life_raise(&life, 1)), STORE_GO);
    life_end(&life, false);
    sim_capacity(life.sim, sim_used(life.sim));
    CHECK(!life_begin(&life));
    CHECK_EQ(life.err.code, ENOSPC);
    if (!CHECK(strstr(life.err.text, "No space left on device; make room on that disk (move backups/ or ")))
        printf("# %s\n", life.err.text);
    sim_capacity(life.sim, UINT64_MAX);
    CHECK(life_begin(&life));
    CHECK_EQ(life.shelf.values[1], 1);
    life_free(&life);
}

TEST(a_full_disk_is_left_by_itself)
{
    struct life life;
    struct store_state state;
    life_init(&life, check.seed, STORE_EVERYSEC);
    if (!CHECK(life_begin(&life)))
        return;
    sim_capacity(life.sim, sim_used(life.sim));
    uint64_t ticket = 0;
    for (uint64_t i = 0; i < 100 && weir_store_is_well(life.store); i++)
        ticket = life_raise(&life, i % SHELF);
    CHECK(!weir_store_is_well(life.store));
    sim_read_only(life.sim, true);
    for (int i = 0; i < 50; i++) {
        (void)weir_store_work(life.store, STORE_WORK_IMAGE | STORE_WORK_SYNC);
        CHECK_EQ(weir_store_ticket_status(life.store, ticket), STORE_SICK);
        ticket = life_raise(&life, 1);
        life_time(&life, WEIR_SEC);
    }
    weir_store_state(life.store, &state);
    CHECK(state.ill && state.error[0] && state.faults > 3 && state.faults < 40); /* less and less often */
    sim_read_only(life.sim, false);
    sim_capacity(life.sim, UINT64_MAX);
    CHECK(life_heal(&life));
    CHECK_EQ(weir_store_ticket_status(life.store, ticket), STORE_GO);
    CHECK_EQ(life.ills, 1);
    CHECK(sim_used(life.sim) < 64 * 1024);
    CHECK(weir_store_close(life.store, NULL));
    life.store = NULL;
    CHECK_EQ(sim_handles(life.sim), 0);
    life_free(&life);
}

static int count_file(void *arg, const char *name, uint64_t bytes)
{
    (void)name, (void)bytes;
    ++*(int *)arg;
    return 0;
}

TEST(attempts_to_heal_leave_no_files)
{
    struct life life;
    int dir = -1, before = 0, after = 0;
    life_init(&life, check.seed, STORE_ALWAYS);
    struct disk *disk = sim_disk(life.sim);
    if (!CHECK(life_begin(&life)) || !CHECK(disk->open_dir(disk, "data", false, &dir) == 0))
        return;
    sim_fail(life.sim, DISK_CALL_RENAME, 1, EIO, true); /* the last thing that is done for an image */
    weir_store_image(life.store, NULL);
    CHECK(weir_store_is_well(life.store)); /* the log is as good as before */
    atomic_fetch_add(&weir_dirty_misses, 1);
    uint64_t ticket = life_raise(&life, 0);
    for (int i = 0; i < 100; i++) {
        (void)weir_store_work(life.store, STORE_WORK_IMAGE);
        CHECK_EQ(weir_store_ticket_status(life.store, ticket), STORE_SICK);
        life_time(&life, 5 * WEIR_SEC);
        ticket = life_raise(&life, 0);
        if (i == 2)
            CHECK_EQ(disk->list(disk, dir, count_file, &before), 0);
    }
    CHECK_EQ(disk->list(disk, dir, count_file, &after), 0);
    CHECK_EQ(after, before);
    disk->close_dir(disk, dir);
    sim_no_faults(life.sim);
    CHECK(life_heal(&life));
    life_end(&life, true);
    CHECK(life_begin(&life));
    CHECK_EQ(life.shelf.values[0], 101);
    life_free(&life);
}

TEST(a_store_that_cannot_be_closed_well_says_so)
{
    struct life life;
    struct weir_error err = {0};
    life_init(&life, check.seed, STORE_EVERYSEC);
    if (!CHECK(life_begin(&life)))
        return;
    (void)life_raise(&life, 0);
    sim_fail(life.sim, DISK_CALL_SYNC, 1, EIO, true);
    CHECK(!weir_store_close(life.store, &err));
    CHECK(strstr(err.text, "not everything is on the disk") != NULL);
    CHECK_EQ(sim_handles(life.sim), 0);
    life.store = NULL;
    sim_no_faults(life.sim);
    CHECK(life_begin(&life));
    CHECK(!life.found.clean);
    shelf_raise(&life.shelf, 1); /* listed by this thread, not appended */
    sim_fail(life.sim, DISK_CALL_SYNC, 1, EIO, false);
    CHECK(weir_store_close(life.store, &err)); /* it has healed */
    life.store = NULL;
    CHECK(life_begin(&life));
    CHECK(life.found.clean);
    CHECK_EQ(life.shelf.values[1], 1);
    life_free(&life);
}

TEST(what_could_not_be_listed_makes_it_ill)
{
    struct life life;
    life_init(&life, check.seed, STORE_NEVER);
    if (!CHECK(life_begin(&life)))
        return;
    atomic_fetch_add(&life.shelf.values[9], 1); /* as weir_dirty_note without memory */
    weir_dirty_miss();
    uint64_t ticket = weir_store_commit(life.store);
    CHECK_EQ(weir_store_ticket_status(life.store, ticket), STORE_SICK);
    CHECK(life_heal(&life));
    CHECK_EQ(weir_store_ticket_status(life.store, ticket), STORE_GO);
    life_end(&life, false);
    CHECK(life_begin(&life));
    CHECK_EQ(life.shelf.values[9], 1);
    life_free(&life);
}

/* A process that has something to do; faults come when the test says. */
static void live(struct life *life, struct rng *rng, int steps)
{
    for (int i = 0; i < steps; i++) {
        for (int64_t more = rng_between(rng, 1, 3); more > 0; more--)
            shelf_raise(&life->shelf, (uint64_t)rng_between(rng, 0, SHELF - 1));
        (void)life_raise(life, (uint64_t)rng_between(rng, 0, SHELF - 1));
        (void)weir_store_work(life->store, (unsigned)rng_between(rng, 0, 3));
        if (rng_between(rng, 0, 20) == 0)
            (void)weir_store_image(life->store, NULL);
        life_time(life, rng_between(rng, 0, 1) ? 0 : WEIR_SEC / 20);
        life_answer(life);
    }
}

/* Ends of histories: what was let go must be there. */
static bool end_and_check(struct life *life, bool cut, int64_t until_ns)
{
    life_end(life, cut);
    sim_no_faults(life->sim);
    bool begun = CHECK(life_begin(life));
    if (!begun)
        printf("# %s\n", life->err.text);
    return begun && CHECK(life_check(life, until_ns));
}

TEST(after_a_fault_of_any_call_nothing_is_let_go_that_a_cut_forgets)
{
    static const enum disk_call kinds[] = {DISK_CALL_WRITE,  DISK_CALL_SYNC,   DISK_CALL_OPEN,
                                           DISK_CALL_RENAME, DISK_CALL_REMOVE, DISK_CALL_SYNC_DIR,
                                           DISK_CALL_CLOSE,  DISK_CALL_ROOM};
    uint64_t seed = check.seed;
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        for (uint64_t n = 1; n < 400; n += 1 + n / 40) {
            struct rng rng = rng_new(++seed);
            struct life life;
            bool healed = rng_between(&rng, 0, 1);
            life_init(&life, seed, STORE_ALWAYS);
            sim_fail(life.sim, kinds[kind], n, n % 2 ? EIO : ENOSPC, rng_between(&rng, 0, 1));
            bool good = true, begun = life_begin(&life);
            if (begun)
                live(&life, &rng, 60);
            bool reached = sim_faults(life.sim) > 0;
            if (begun && healed) {
                sim_no_faults(life.sim);
                good = CHECK(life_heal(&life));
                live(&life, &rng, 5);
            }
            good = end_and_check(&life, true, INT64_MAX) && good;
            life_free(&life);
            if (!good)
                printf("# %s %d, seed %d\n", disk_call_names[kinds[kind]], (int)n, (int)seed);
            if (!reached || !good)
                break;
        }
    }
}

TEST(a_cut_at_any_call_loses_nothing_that_was_let_go)
{
    uint64_t seed = check.seed + 100000;
    for (uint64_t calls = 1; calls < 1000; calls += 1 + calls / 30) {
        struct rng rng = rng_new(++seed);
        struct life life;
        life_init(&life, seed, STORE_ALWAYS);
        sim_stop_after(life.sim, calls);
        if (life_begin(&life))
            live(&life, &rng, 100);
        bool good = end_and_check(&life, true, INT64_MAX);
        CHECK(!life.found.lost);
        life_free(&life);
        if (!good)
            printf("# %d calls, seed %d\n", (int)calls, (int)seed);
    }
}

/* The file system's journal fails while a sync is under way, which may return 0 all the same: a same-size
 * truncate tells. */
TEST(a_journal_that_fails_at_any_call_loses_nothing_that_was_let_go)
{
    uint64_t seed = check.seed + 150000;
    int frozen = 0;
    for (uint64_t calls = 1; calls < 1000; calls += 1 + calls / 60) {
        struct rng rng = rng_new(++seed);
        struct life life;
        life_init(&life, seed, STORE_ALWAYS);
        if (calls % 2)
            life.options.segment_bytes = UINT64_C(64) << 10;
        sim_abort_after(life.sim, calls);
        if (calls % 3 == 0)
            sim_fail(life.sim, DISK_CALL_ROOM, 1, EIO, true); /* no zeros ahead: it grows */
        if (life_begin(&life))
            live(&life, &rng, 100);
        frozen += sim_is_aborted(life.sim);
        bool good = end_and_check(&life, true, INT64_MAX);
        CHECK(!life.found.lost);
        life_free(&life);
        if (!good)
            printf("# %d calls, seed %d\n", (int)calls, (int)seed);
    }
    CHECK(frozen > 100);
}

/* The disk is slow: syncs come seldom, and time goes on. */
TEST(everysec_loses_at_most_a_second_of_answers)
{
    uint64_t seed = check.seed + 200000;
    for (int i = 0; i < 100; i++) {
        struct rng rng = rng_new(++seed);
        struct life life;
        life_init(&life, seed, STORE_EVERYSEC);
        if (!CHECK(life_begin(&life)))
            return;
        for (int step = 0; step < 200; step++) {
            (void)life_raise(&life, (uint64_t)rng_between(&rng, 0, SHELF - 1));
            if (rng_between(&rng, 0, 30) == 0)
                (void)weir_store_work(life.store, STORE_WORK_SYNC);
            if (rng_between(&rng, 0, 100) == 0)
                (void)weir_store_image(life.store, NULL);
            life_time(&life, rng_between(&rng, 0, WEIR_SEC / 10));
            life_answer(&life);
        }
        int64_t last = life.gone_count > 0 ? life.gone[life.gone_count - 1].time_ns : 0;
        if (!end_and_check(&life, true, last - WEIR_SEC))
            printf("# seed %d\n", (int)seed);
        life_free(&life);
    }
}

TEST(after_a_fault_that_healed_every_mode_keeps_its_word)
{
    uint64_t seed = check.seed + 300000;
    for (uint64_t n = 1; n < 120; n += 1 + n / 10) {
        struct rng rng = rng_new(++seed);
        struct life life;
        enum store_sync sync = n % 2 ? STORE_EVERYSEC : STORE_NEVER;
        life_init(&life, seed, sync);
        if (!CHECK(life_begin(&life)))
            return;
        sim_fail(life.sim, n % 3 ? DISK_CALL_WRITE : DISK_CALL_SYNC, n, EIO, false);
        live(&life, &rng, 60);
        sim_no_faults(life.sim);
        bool good = CHECK(life_heal(&life));
        live(&life, &rng, 5);
        good = end_and_check(&life, false, INT64_MAX) && good;
        life_free(&life);
        if (!good)
            printf("# n %d, seed %d\n", (int)n, (int)seed);
    }
}

TEST(a_disk_that_fails_all_the_time_is_never_believed)
{
    static const enum disk_call kinds[] = {DISK_CALL_WRITE,  DISK_CALL_SYNC,   DISK_CALL_OPEN,
                                           DISK_CALL_RENAME, DISK_CALL_REMOVE, DISK_CALL_SYNC_DIR};
    uint64_t seed = check.seed + 400000;
    for (int i = 0; i < 150; i++) {
        struct rng rng = rng_new(++seed);
        struct life life;
        life_init(&life, seed, STORE_ALWAYS);
        bool good = true;
        for (int lives = 0; lives < 3 && good; lives++) {
            for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
                sim_fail_often(life.sim, kinds[kind], (uint32_t)rng_between(&rng, 0, 100000), EIO);
            if (life.store || life_begin(&life))
                live(&life, &rng, 60);
            sim_no_faults(life.sim);
            if (life.store && rng_between(&rng, 0, 1))
                good = CHECK(life_heal(&life));
            good = end_and_check(&life, true, INT64_MAX) && good;
        }
        life_free(&life);
        if (!good)
            printf("# seed %d\n", (int)seed);
    }
}

/* ---- how often a start reads a file ---- */

static struct {
    int (*open)(struct disk *disk, int dir, const char *name, enum disk_open how, int *file);
    char names[32][DISK_NAME_MAX];
    size_t count;
} readings;

static int open_and_note(struct disk *disk, int dir, const char *name, enum disk_open how, int *file)
{
    if (how == DISK_READ && readings.count < 32)
        (void)snprintf(readings.names[readings.count++], DISK_NAME_MAX, "%s", name);
    return readings.open(disk, dir, name, how, file);
}

TEST(a_start_reads_each_file_once)
{
    struct life life;
    life_init(&life, check.seed, STORE_ALWAYS);
    life.options.segment_bytes = 4096;
    if (!CHECK(life_begin(&life)))
        return;
    for (uint64_t i = 0; i < 100; i++)
        (void)life_raise(&life, i % 8);
    CHECK(weir_store_image(life.store, NULL));
    for (uint64_t i = 0; i < 100; i++)
        (void)life_raise(&life, i % 8);
    life_end(&life, false);
    readings.open = sim_disk(life.sim)->open;
    sim_disk(life.sim)->open = open_and_note;
    CHECK(life_begin(&life));
    sim_disk(life.sim)->open = readings.open;
    CHECK(readings.count > 3);
    for (size_t i = 0; i < readings.count; i++)
        for (size_t j = 0; j < i; j++)
            CHECK(strcmp(readings.names[i], readings.names[j]) != 0);
    life_free(&life);
}

/* ---- a recovery that takes long ---- */

static struct {
    struct life life;
    int count;
    int64_t bytes, all;
} slow;

static bool apply_slowly(const struct persist *persist, uint8_t kind, const unsigned char *body, size_t len,
                         bool *failed)
{
    life_time(&slow.life, 3 * WEIR_SEC);
    return shelf_kind.apply(persist, kind, body, len, failed);
}

static void note_progress(void *arg, const struct store_event *event)
{
    life_event(arg, event);
    if (event->kind != STORE_EVENT_REPLAY)
        return;
    CHECK(event->bytes >= slow.bytes && event->bytes <= event->all);
    slow.bytes = event->bytes;
    slow.all = event->all;
    slow.count++;
}

TEST(a_recovery_that_takes_long_tells_how_far_it_is)
{
    struct persist_ops kind = shelf_kind;
    kind.apply = apply_slowly;
    life_init(&slow.life, check.seed, STORE_NEVER);
    slow.life.options.event = note_progress;
    if (!CHECK(life_begin(&slow.life)))
        return;
    for (uint64_t i = 0; i < 1000; i++)
        (void)life_raise(&slow.life, i % 8);
    life_end(&slow.life, false);
    CHECK(life_begin(&slow.life));
    CHECK_EQ(slow.count, 0); /* no time has passed */
    life_end(&slow.life, false);
    slow.life.store = weir_store_open(&slow.life.options, &slow.life.found, NULL);
    CHECK(slow.life.store && weir_store_add(slow.life.store, SHELF_REGION, &slow.life.shelf.region, 0, &kind,
                                            &slow.life.shelf, NULL));
    CHECK(weir_store_replay(slow.life.store, &slow.life.found, NULL));
    CHECK(slow.count > 3);
    CHECK(slow.bytes > slow.all / 2);
    life_free(&slow.life);
}
