/* SPDX-License-Identifier: MIT */
#include "store/backup.h"
#include "store/checkpoint.h"
#include "store/commit.h"
#include "store/store.h"
#include "unit/store/recover_kit.h"

/* Steps until there is nothing more to do. */
static void work(struct life *life)
{
    for (int i = 0; i < 1000 && weir_store_work(life->store, STORE_WORK_IMAGE); i++) {
    }
}

static struct store_state state_of(struct life *life)
{
    struct store_state state;
    weir_store_state(life->store, &state);
    return state;
}

TEST(image_and_log_behind_it_are_all_there_is)
{
    for (enum store_sync sync = STORE_ALWAYS; sync <= STORE_NEVER; sync++) {
        struct life life;
        life_init(&life, check.seed, sync);
        if (!CHECK(life_begin(&life)))
            return;
        uint64_t written[SHELF];
        bool less;
        for (int i = 0; i < 4; i++) {
            life_story(&life, 300);
            CHECK(weir_store_image(life.store, &life.err));
        }
        life_story(&life, 30);
        CHECK_EQ(state_of(&life).images, 4);
        kit_values(&life.shelf, written);
        life_end(&life, false);
        struct kit_dir list = kit_list(life.sim, "data");
        CHECK_EQ(list.images, 2);
        CHECK_EQ(list.halves, 0);
        CHECK(life_peek(&life));
        CHECK(kit_was_written(&life.shelf, written, &less) && !less);
        CHECK(!life.found.lost && life.found.images_damaged == 0);
        CHECK_EQ(life.found.unknown, 0);
        life_free(&life);
    }
}

TEST(segments_that_two_images_have_made_unnecessary_go)
{
    struct life life;
    life_init(&life, check.seed, STORE_EVERYSEC);
    if (!CHECK(life_begin(&life)))
        return;
    life_story(&life, 500);
    size_t before = kit_list(life.sim, "data").segments;
    CHECK(weir_store_image(life.store, NULL));
    CHECK(kit_list(life.sim, "data").segments >
          before); /* the only image: the log before it could be needed */
    life_story(&life, 500);
    CHECK(weir_store_image(life.store, NULL));
    life_story(&life, 10);
    CHECK(weir_store_image(life.store, NULL));
    CHECK(kit_list(life.sim, "data").segments <= 4);
    life_free(&life);
}

TEST(a_damaged_image_is_replaced_by_the_one_before_it)
{
    for (uint64_t at = 0; at < 1600; at += 57) {
        struct life life;
        uint64_t written[SHELF];
        bool less;
        char path[128];
        life_init(&life, check.seed, STORE_ALWAYS);
        if (!CHECK(life_begin(&life)))
            return;
        for (int i = 0; i < 2; i++) {
            life_story(&life, 100);
            CHECK(weir_store_image(life.store, NULL));
        }
        life_story(&life, 20);
        kit_values(&life.shelf, written);
        life_close(&life);
        kit_newest(life.sim, FILE_IMAGE, path);
        bool flipped = sim_flip(life.sim, path, at * 8 + at % 8);
        CHECK(life_peek(&life));
        CHECK(kit_was_written(&life.shelf, written, &less) && !less);
        CHECK_EQ(life.found.images_damaged, flipped);
        CHECK(!life.found.lost && life.found.clean);
        CHECK((strstr(life.found.text, "image-") != NULL) == flipped);
        life_free(&life);
    }
}

/* ---- in the middle ---- */

/* One image, the machine off after so many calls; what was promised before is there. true: it came to its end
 * before that. */
static bool cut_image(uint64_t calls, uint64_t seed)
{
    struct life life;
    uint64_t written[SHELF];
    bool less;
    life_init(&life, seed, STORE_ALWAYS);
    life.options.images = 1 + (uint32_t)(seed % 2);
    if (!CHECK(life_begin(&life)))
        return true;
    life_story(&life, 60);
    CHECK(weir_store_image(life.store, NULL));
    life_story(&life, 60);
    sim_stop_after(life.sim, calls);
    (void)weir_store_image(life.store, NULL);
    life_story(&life, 20);
    bool done = !sim_is_stopped(life.sim);
    kit_values(&life.shelf, written);
    life_end(&life, true);
    for (int i = 0; i < 2; i++) { /* and again, after a start */
        if (!CHECK(life_begin(&life)))
            printf("# %s\n", life.err.text);
        CHECK(life_check(&life, INT64_MAX));
        CHECK(kit_was_written(&life.shelf, written, &less));
        CHECK(!life.found.lost);
        CHECK_EQ(kit_list(life.sim, "data").halves, 0);
        life_end(&life, true);
    }
    life_free(&life);
    return done;
}

TEST(a_cut_at_any_call_of_an_image_loses_nothing)
{
    for (uint64_t seed = 0; seed < 8; seed++) {
        uint64_t calls = 0;
        while (calls < 1000 && !cut_image(calls, check.seed * 8 + seed))
            calls++;
        CHECK(calls > 30 && calls < 1000);
    }
}

TEST(a_fault_at_any_call_of_an_image_leaves_the_store_no_worse)
{
    static const int faults[] = {EIO, ENOSPC};
    uint64_t failures = 0;
    for (uint64_t n = 1; n < 120; n++) {
        struct life life;
        uint64_t written[SHELF];
        bool less;
        life_init(&life, check.seed + n, STORE_ALWAYS);
        if (!CHECK(life_begin(&life)))
            return;
        life_story(&life, 60);
        sim_fail(life.sim, DISK_CALL_ANY, n, faults[n % 2], n % 3 == 0);
        bool good = weir_store_image(life.store, &life.err);
        CHECK(good || life.err.text[0]);
        failures += !good;
        sim_no_faults(life.sim);
        life_story(&life, 20);
        CHECK(life_heal(&life));
        CHECK(weir_store_image(life.store, NULL));
        CHECK_EQ(kit_list(life.sim, "data").halves, 0);
        life_story(&life, 20);
        kit_values(&life.shelf, written);
        life_end(&life, true);
        CHECK(life_begin(&life));
        CHECK(life_check(&life, INT64_MAX) && kit_was_written(&life.shelf, written, &less));
        CHECK(!life.found.lost);
        life_free(&life);
    }
    CHECK(failures > 10);
}

TEST(changes_beside_the_copy_are_in_the_log)
{
    struct life life;
    life_init(&life, check.seed, STORE_ALWAYS);
    if (!CHECK(life_begin(&life)))
        return;
    life_story(&life, 200);
    life_time(&life, 16 * 60 * WEIR_SEC); /* it is due by its age */
    for (uint64_t i = 0; weir_store_work(life.store, STORE_WORK_IMAGE); i++)
        life_story(&life, 7);
    CHECK_EQ(state_of(&life).images, 1);
    life_end(&life, true);
    CHECK(life_begin(&life));
    CHECK(life_check(&life, INT64_MAX));
    CHECK(!life.found.lost && !life.found.unsure);
    life_free(&life);
}

/* ---- when ---- */

TEST(an_image_is_due_by_size_age_and_trouble)
{
    struct life life;
    life_init(&life, check.seed, STORE_EVERYSEC);
    life.options.image_log_bytes = 8192;
    if (!CHECK(life_begin(&life)))
        return;
    work(&life);
    CHECK_EQ(state_of(&life).images, 0);
    life_story(&life, 200);
    CHECK(state_of(&life).log_bytes > 8192);
    work(&life);
    CHECK_EQ(state_of(&life).images, 1);
    CHECK(state_of(&life).log_bytes < 200);
    work(&life);
    life_time(&life, 16 * 60 * WEIR_SEC); /* old, but nothing came behind it */
    work(&life);
    CHECK_EQ(state_of(&life).images, 1);
    life_story(&life, 1);
    work(&life);
    CHECK_EQ(state_of(&life).images, 2);
    life_story(&life, 2);
    life_end(&life, false); /* unsure from now on: what the owner does about it must be in an image */
    CHECK(life_begin(&life));
    CHECK(life.found.unsure && !life.found.lost && !life.found.clean);
    work(&life);
    CHECK_EQ(state_of(&life).images, 1);
    life_close(&life);
    CHECK(life_begin(&life));
    CHECK(life.found.clean && !life.found.unsure);
    work(&life);
    CHECK_EQ(state_of(&life).images, 0);
    life_free(&life);
}

TEST(an_owner_can_ask_for_one_and_the_store_stays_well)
{
    struct life life;
    life_init(&life, check.seed, STORE_ALWAYS);
    if (!CHECK(life_begin(&life)))
        return;
    life_story(&life, 5);
    const struct persist *persist = life.shelf.region.persist;
    for (int i = 0; i < 3; i++) {
        for (int more = 0; more < 3; more++)
            persist->want_image(persist->store); /* once is enough */
        uint64_t ticket = life_raise(&life, 1);
        CHECK(weir_store_is_well(life.store));
        work(&life);
        (void)weir_store_work(life.store, STORE_WORK_SYNC);
        CHECK_EQ(weir_store_ticket_status(life.store, ticket), STORE_GO);
        CHECK_EQ(state_of(&life).images, i + 1);
    }
    CHECK_EQ(state_of(&life).faults, 0);
    life_free(&life);
}

TEST(trouble_is_told_again_until_an_image_is_there)
{
    struct life life;
    life_init(&life, check.seed, STORE_EVERYSEC);
    if (!CHECK(life_begin(&life)))
        return;
    life_story(&life, 20);
    life_end(&life, false);
    life.options.sync = STORE_ALWAYS;
    for (int i = 0; i < 3; i++) {
        CHECK(life_begin(&life));
        CHECK(life.found.unsure && !life.found.clean);
        life_end(&life, true);
    }
    life.options.hold_images = true; /* the owner has not done yet what has to be done: */
    CHECK(life_begin(&life));
    life_close(&life); /* a good end does not make it good */
    life.options.hold_images = false;
    CHECK(life_begin(&life));
    CHECK(life.found.unsure && !life.found.clean);
    work(&life);
    life_end(&life, true);
    CHECK(life_begin(&life));
    CHECK(!life.found.unsure && !life.found.lost);
    life_free(&life);
}

TEST(a_process_that_ends_well_leaves_no_trouble_behind)
{
    struct life life;
    life_init(&life, check.seed, STORE_EVERYSEC);
    if (!CHECK(life_begin(&life)))
        return;
    life_story(&life, 20);
    life_end(&life, false);
    CHECK(life_begin(&life));
    CHECK(life.found.unsure);
    life_close(&life); /* before an image was due */
    CHECK(life_begin(&life));
    CHECK(life.found.clean && !life.found.unsure);
    life_free(&life);
}

TEST(without_a_mark_nobody_knows_what_is_missing)
{
    struct life life;
    life_init(&life, check.seed, STORE_ALWAYS);
    if (!CHECK(life_begin(&life)))
        return;
    (void)life_raise(&life, 0);
    life_close(&life);
    CHECK(life_begin(&life));
    CHECK(life.found.clean);
    life_close(&life);
    struct disk *disk = life.options.disk;
    int dir;
    CHECK_EQ(disk->open_dir(disk, life.options.path, false, &dir), 0);
    CHECK_EQ(disk->remove(disk, dir, "mark"), 0);
    disk->close_dir(disk, dir);
    CHECK(life_begin(&life));
    CHECK(!life.found.clean && life.found.unsure);
    life_free(&life);
}

TEST(an_image_that_is_given_up_at_the_end_is_no_failure)
{
    struct life life;
    life_init(&life, check.seed, STORE_EVERYSEC);
    if (!CHECK(life_begin(&life)))
        return;
    life_story(&life, 20);
    life_end(&life, false);
    CHECK(life_begin(&life)); /* unsure: an image is due */
    CHECK(weir_store_work(life.store, STORE_WORK_IMAGE));
    CHECK(state_of(&life).image_running);
    life_close(&life);
    CHECK_EQ(life.image_failures, 0);
    life_free(&life);
}

TEST(who_waits_for_an_image_of_an_ill_store_is_told)
{
    struct life life;
    life_init(&life, check.seed, STORE_ALWAYS);
    if (!CHECK(life_begin(&life)))
        return;
    sim_read_only(life.sim, true);
    (void)life_raise(&life, 0);
    CHECK(!weir_store_image(life.store, &life.err));
    CHECK(life.err.text[0] && life.err.code != 0);
    sim_read_only(life.sim, false);
    CHECK(life_heal(&life));
    CHECK(weir_store_image(life.store, &life.err));
    life_free(&life);
}

/* ---- regions ---- */

static char order[16];
static uint64_t told_generation;

static bool noted_walk(const struct persist *persist, uint64_t *cursor, struct buffer *out, size_t bytes)
{
    size_t len = strlen(order);
    (void)cursor, (void)out, (void)bytes;
    if (len + 1 < sizeof order)
        order[len] = (char)('0' + persist->number);
    return false;
}

static void noted_imaged(const struct persist *persist, uint64_t generation)
{
    (void)persist;
    told_generation = generation;
}

static const struct persist_ops noted_kind = {
    .capture = shelf_capture, .walk = noted_walk, .apply = shelf_apply, .imaged = noted_imaged};

static void add_shelf(struct life *life, struct shelf *shelf, uint32_t number, uint32_t kind)
{
    memset(shelf, 0, sizeof *shelf);
    shelf->region.header = &shelf->header;
    shelf->region.shape.kind = kind;
    CHECK(weir_store_add(life->store, number, &shelf->region, 0, &noted_kind, shelf, &life->err));
}

TEST(records_are_copied_first_and_regions_may_come_and_go)
{
    struct life life;
    static struct shelf tables, records, gone, late;
    memset(order, 0, sizeof order);
    life_init(&life, check.seed, STORE_ALWAYS);
    if (!CHECK(life_begin(&life)))
        return;
    add_shelf(&life, &tables, 2, REGION_WIDE);
    add_shelf(&life, &records, 8, REGION_RECORDS);
    add_shelf(&life, &gone, 3, REGION_WORDS);
    life_time(&life, 16 * 60 * WEIR_SEC);
    (void)life_raise(&life, 0);
    while (weir_store_work(life.store, STORE_WORK_IMAGE)) {
        if (strcmp(order, "82") != 0 || !gone.region.persist)
            continue;
        weir_store_drop(life.store, &gone.region);
        add_shelf(&life, &late, 9, REGION_WORDS);
    }
    CHECK_STR(order, "829"); /* and 7, which is a shelf that does not say so */
    CHECK_EQ(state_of(&life).images, 1);
    life_free(&life);
}

/* A record is settled, and that is appended, before units are given back. Here the copy has the record as it
 * was before, and the units as they are after it: then the log must have the record. */
TEST(what_the_copy_has_seen_is_in_the_log_on_the_disk)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct life life;
        static struct shelf records;
        memset(order, 0, sizeof order);
        memset(&records, 0, sizeof records);
        records.region.header = &records.header;
        records.region.shape.kind = REGION_RECORDS;
        life_init(&life, check.seed * 100 + seed, seed % 2 ? STORE_NEVER : STORE_ALWAYS);
        if (!CHECK(life_begin(&life)))
            return;
        CHECK(weir_store_add(life.store, 8, &records.region, 0, &noted_kind, &records, &life.err));
        life_time(&life, 16 * 60 * WEIR_SEC);
        (void)life_raise(&life, 0);
        bool more = true;
        while (more && strcmp(order, "8") != 0)
            more = weir_store_work(life.store, STORE_WORK_IMAGE);
        shelf_raise(&records, 1); /* settled, */
        (void)weir_store_commit(life.store);
        atomic_fetch_add(&life.shelf.values[1], 1); /* given back */
        while (more)
            more = weir_store_work(life.store, STORE_WORK_IMAGE);
        CHECK_EQ(state_of(&life).images, 1);
        life_end(&life, true);
        memset(&records, 0, sizeof records);
        memset(&life.shelf, 0, sizeof life.shelf);
        records.region.header = life.shelf.region.header = &records.header;
        struct store *store = weir_store_open(&life.options, &life.found, &life.err);
        CHECK(store && weir_store_add(store, 7, &life.shelf.region, 0, &shelf_kind, &life.shelf, NULL) &&
              weir_store_add(store, 8, &records.region, 0, &shelf_kind, &records, NULL) &&
              weir_store_replay(store, &life.found, &life.err));
        CHECK_EQ(life.shelf.values[1], 1);
        CHECK_EQ(records.values[1], 1);
        (void)weir_store_close(store, NULL);
        life_free(&life);
    }
}

TEST(limits_are_forgotten_when_the_oldest_image_is_behind_them)
{
    struct life life;
    static struct shelf table;
    life_init(&life, check.seed, STORE_ALWAYS);
    if (!CHECK(life_begin(&life)))
        return;
    add_shelf(&life, &table, 2, REGION_WORDS);
    told_generation = 0;
    for (uint64_t i = 1; i <= 4; i++) {
        atom_store(&table.header.generation, i, memory_order_release);
        CHECK(weir_store_image(life.store, NULL));
        CHECK_EQ(told_generation, i - 1); /* of the image before: it is kept */
    }
    life_free(&life);
}

/* As long as an older image is there somebody may have to start from it. */
TEST(limits_are_not_forgotten_before_the_older_images_are_gone)
{
    struct life life;
    static struct shelf table;
    life_init(&life, check.seed, STORE_ALWAYS);
    if (!CHECK(life_begin(&life)))
        return;
    add_shelf(&life, &table, 2, REGION_WORDS);
    told_generation = 0;
    for (uint64_t i = 1; i <= 6; i++) {
        atom_store(&table.header.generation, i, memory_order_release);
        if (i == 2)
            weir_image_pin(life.store, true);
        if (i == 4)
            weir_image_pin(life.store, false);
        if (i == 5)
            sim_fail(life.sim, DISK_CALL_REMOVE, 1, EIO, true);
        CHECK(weir_store_image(life.store, NULL));
        sim_no_faults(life.sim);
        CHECK_EQ(told_generation, i < 4 ? 0 : i == 5 ? 3 : i - 1);
    }
    life_free(&life);
}

/* ---- backup ---- */

TEST(a_backup_is_a_directory_that_can_be_started_from)
{
    struct life life;
    uint64_t written[SHELF], later[SHELF];
    bool less;
    life_init(&life, check.seed, STORE_EVERYSEC);
    if (!CHECK(life_begin(&life)))
        return;
    life_story(&life, 150);
    (void)life_raise(&life, 5); /* answered, not synced */
    kit_values(&life.shelf, written);
    CHECK(weir_store_backup(life.store, "monday", &life.err));
    life_story(&life, 300);
    CHECK(weir_store_image(life.store, NULL));
    CHECK(weir_store_image(life.store, NULL));
    CHECK(!weir_store_backup(life.store, "monday", &life.err));
    CHECK(strstr(life.err.text, "monday"));
    kit_values(&life.shelf, later);
    life_end(&life, true);
    life.options.path = "data/backups/monday";
    for (int i = 0; i < 2; i++) {
        CHECK(life_begin(&life));
        CHECK(kit_was_written(&life.shelf, written, &less) && !less);
        CHECK(life.found.clean && !life.found.unsure);
        life_close(&life);
    }
    life.options.path = "data";
    CHECK(life_peek(&life));
    CHECK(kit_was_written(&life.shelf, later, &less));
    CHECK(life_check(&life, life.now_ns - WEIR_SEC));
    life_free(&life);
}

TEST(a_backup_has_a_plain_name)
{
    struct life life;
    life_init(&life, check.seed, STORE_EVERYSEC);
    if (!CHECK(life_begin(&life)))
        return;
    static const char *const names[] = {
        "", ".", "..", ".x", "a/b", "a b", "\xc3\xa9", "0123456789012345678901234567890123456789012345678"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        life.err.text[0] = '\0';
        CHECK(!weir_store_backup(life.store, names[i], &life.err));
        CHECK(strstr(life.err.text, "letters"));
    }
    CHECK(weir_store_backup(life.store, "2026-11-15_a.b", &life.err));
    life_free(&life);
}

TEST(no_backup_has_the_name_of_another_that_is_being_written)
{
    static const char *const names[] = {"a.tmp", "a", "a.tmp.tmp"};
    struct life life;
    life_init(&life, check.seed, STORE_ALWAYS);
    if (!CHECK(life_begin(&life)))
        return;
    for (size_t i = 0; i < 3; i++) {
        life_story(&life, 10);
        CHECK(weir_store_backup(life.store, names[i], &life.err));
    }
    life_close(&life);
    for (size_t i = 0; i < 3; i++) {
        char path[128];
        kit_path(path, "data/backups", names[i]);
        life.options.path = path;
        CHECK(life_peek(&life) && !life.found.fresh);
    }
    life_free(&life);
}

TEST(a_backup_that_fails_takes_no_room)
{
    uint64_t failures = 0;
    for (uint64_t n = 1; n < 120; n++) {
        struct life life;
        int dir;
        life_init(&life, check.seed + n, STORE_ALWAYS);
        if (!CHECK(life_begin(&life)))
            return;
        life_story(&life, 40);
        sim_fail(life.sim, DISK_CALL_ANY, n, n % 2 ? EIO : ENOSPC, false);
        bool good = weir_store_backup(life.store, "b", &life.err);
        sim_no_faults(life.sim);
        failures += !good;
        struct disk *disk = sim_disk(life.sim);
        int error = disk->open_dir(disk, "data/backups/.b.tmp", false, &dir);
        if (error == 0) {
            disk->close_dir(disk, dir);
            CHECK_EQ(kit_list(life.sim, "data/backups/.b.tmp").count, 0);
        }
        error = disk->open_dir(disk, "data/backups/b", false, &dir);
        CHECK(!good || error == 0);
        if (error == 0) { /* it has a name, also if that may be lost: then it is whole */
            disk->close_dir(disk, dir);
            life_end(&life, false);
            life.options.path = "data/backups/b";
            CHECK(life_peek(&life) && life.found.clean);
        }
        life_free(&life);
    }
    CHECK(failures > 10);
}

static bool has_file(const struct life *life, const char *path)
{
    uint64_t len;
    return sim_bytes(life->sim, path, &len) != NULL;
}

/* The journal of the file system fails at any call: a mark, an image and a backup are told of only if they
 * stay. */
TEST(what_was_told_of_is_there_after_a_journal_has_failed)
{
    int begun = 0, images = 0;
    for (uint64_t n = 0; n < 1200; n++) {
        struct life life;
        int dir = -1;
        life_init(&life, check.seed + n, STORE_ALWAYS);
        sim_abort_after(life.sim, n / 8); /* what syncs return then is drawn by lot */
        bool good = life_begin(&life), image = false, backup = false;
        if (good) {
            (void)life_raise(&life, 1);
            image = weir_store_image(life.store, NULL);
            backup = weir_store_backup(life.store, "b", NULL);
        }
        bool failed = sim_is_aborted(life.sim);
        life_end(&life, true);
        CHECK(!good || has_file(&life, "data/mark"));
        CHECK(!image || has_file(&life, "data/image-0000000000000001"));
        struct disk *disk = sim_disk(life.sim);
        if (disk->open_dir(disk, "data/backups/b", false, &dir) == 0)
            disk->close_dir(disk, dir);
        CHECK(!backup || dir >= 0);
        begun += good && failed;
        images += image && failed;
        life_free(&life);
    }
    CHECK(begun > 5 && images > 5);
}

TEST(a_backup_that_fails_or_is_cut_has_no_name)
{
    bool done = false;
    for (uint64_t n = 1; n < 200 && !done; n++) {
        struct life life;
        int dir;
        life_init(&life, check.seed + n, STORE_ALWAYS);
        if (!CHECK(life_begin(&life)))
            return;
        life_story(&life, 40);
        sim_stop_after(life.sim, n);
        done = weir_store_backup(life.store, "b", &life.err);
        CHECK(done || life.err.text[0]);
        life_end(&life, true);
        CHECK(life_begin(&life));
        CHECK(life_check(&life, INT64_MAX));
        life_end(&life, false);
        struct disk *disk = sim_disk(life.sim);
        int error = disk->open_dir(disk, "data/backups/b", false, &dir);
        CHECK(error == 0 || error == ENOENT);
        CHECK(!done || error == 0);
        if (error == 0) {
            disk->close_dir(disk, dir);
            life.options.path = "data/backups/b";
            CHECK(life_peek(&life));
            CHECK(life.found.clean && life_check(&life, INT64_MAX));
        }
        life_free(&life);
    }
    CHECK(done);
}
