/* SPDX-License-Identifier: MIT */
#include "store/checkpoint.h"
#include "store/inspect.h"
#include "store/store.h"
#include "unit/store/recover_kit.h"

#include "base/crc.h"
#include "store/frame.h"
#include "store/survey.h"

/* ---- names ---- */

TEST(names_of_files_are_read_strictly)
{
    char name[DISK_NAME_MAX];
    uint64_t number;
    for (int kind = FILE_IMAGE; kind < FILE_KINDS; kind++) {
        weir_file_name(name, (enum file_kind)kind, 0x1f);
        CHECK_EQ(weir_file_parse(name, &number), kind);
        CHECK_EQ(number, 0x1f);
    }
    weir_file_name(name, FILE_SEGMENT, 0x1f);
    CHECK_STR(name, "log-000000000000001f");
    weir_file_name(name, FILE_HALF, 0xabc);
    CHECK_STR(name, "image-0000000000000abc.tmp");
    static const char *const others[] = {"",
                                         "log-",
                                         "log-1",
                                         "log-000000000000001F",
                                         "log-000000000000001f ",
                                         "log-000000000000001f.tmp",
                                         "log-00000000000000001f",
                                         "log-0000000000000000",
                                         "log-ffffffffffffffff",
                                         "Log-000000000000001f",
                                         "log--00000000000001f",
                                         "image-000000000000001",
                                         "image-000000000000001f.tmpx",
                                         "damaged-log-000000000000001f"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK_EQ(weir_file_parse(others[i], &number), FILE_OTHER);
}

/* ---- a directory with everything in it, and what it was when its process ended ---- */

static void build(struct life *life, enum store_sync sync, bool clean, uint64_t written[SHELF])
{
    life_init(life, check.seed, sync);
    if (!CHECK(life_begin(life)))
        exit(1);
    for (int i = 0; i < 2; i++) {
        life_story(life, 40);
        CHECK(weir_store_image(life->store, NULL));
    }
    life_story(life, 60);
    kit_values(&life->shelf, written);
    if (clean)
        life_close(life);
    else
        life_end(life, false);
}

/* Whatever was done to the files: an explanation, or states that were there; and if something that was surely
 * on the disk is missing, that is told. */
static void check_damaged(struct life *life, const uint64_t written[SHELF], const char *path, uint64_t at)
{
    struct inspect inspect;
    struct weir_error err = {0};
    bool less = true, good = life_peek(life);
    bool fine = good ? kit_was_written(&life->shelf, written, &less) : life->err.text[0] != '\0';
    if (good && less)
        fine = fine && life->found.lost && life->found.unsure && life->found.text[0];
    if (good && life->found.clean)
        fine = fine && !less;
    if (!CHECK(fine))
        printf("# %s, %" PRIu64 ": good %d less %d lost %d clean %d %s%s\n", path, at, good, less,
               life->found.lost, life->found.clean, life->found.text, life->err.text);
    if (CHECK(weir_inspect(life->options.disk, "data", &inspect, &err))) {
        CHECK_EQ(inspect.can_start, good);
        CHECK_EQ(inspect.found.lost, good && life->found.lost);
        CHECK(good || inspect.found.text[0]);
        weir_inspect_free(&inspect);
    }
}

TEST(what_was_closed_well_is_clean_and_all_there)
{
    for (enum store_sync sync = STORE_ALWAYS; sync <= STORE_NEVER; sync++) {
        struct life life;
        uint64_t written[SHELF];
        bool less;
        build(&life, sync, true, written);
        CHECK(life_peek(&life));
        CHECK(life.found.clean && !life.found.lost && !life.found.unsure && !life.found.fresh);
        CHECK_STR(life.found.text, "");
        CHECK_EQ(life.found.sync, sync);
        CHECK(kit_was_written(&life.shelf, written, &less) && !less);
        life_free(&life);
        build(&life, sync, false, written);
        CHECK(life_peek(&life));
        CHECK(!life.found.clean && !life.found.lost);
        CHECK_EQ(life.found.unsure, sync != STORE_ALWAYS);
        CHECK(kit_was_written(&life.shelf, written, &less) && !less);
        life_free(&life);
    }
}

TEST(a_flipped_bit_anywhere_is_noticed_or_harmless)
{
    struct life life;
    uint64_t written[SHELF];
    build(&life, STORE_ALWAYS, true, written);
    struct kit_dir list = kit_list(life.sim, "data");
    for (size_t i = 0; i < list.count; i++) {
        char path[128];
        kit_path(path, "data", list.names[i]);
        for (uint64_t at = 0; at < list.bytes[i]; at += at < 256 ? 3 : 61) {
            CHECK(sim_flip(life.sim, path, at * 8 + at % 8));
            check_damaged(&life, written, path, at);
            CHECK(sim_flip(life.sim, path, at * 8 + at % 8));
        }
    }
    life_free(&life);
}

TEST(a_file_of_any_length_is_noticed_or_harmless)
{
    struct life life;
    uint64_t written[SHELF], len;
    build(&life, STORE_EVERYSEC, true, written);
    struct kit_dir list = kit_list(life.sim, "data");
    for (size_t i = 0; i < list.count; i++) {
        char path[128];
        kit_path(path, "data", list.names[i]);
        const unsigned char *bytes = sim_bytes(life.sim, path, &len);
        unsigned char *copy = malloc(len + 1);
        if (!bytes || !copy)
            abort();
        memcpy(copy, bytes, len);
        for (uint64_t cut = 0; cut < len; cut += cut < 300 ? 1 : 13) {
            CHECK(sim_put(life.sim, path, copy, cut));
            check_damaged(&life, written, path, cut);
        }
        CHECK(sim_lose(life.sim, path));
        check_damaged(&life, written, path, len);
        CHECK(sim_put(life.sim, path, copy, len));
        free(copy);
    }
    life_free(&life);
}

/* Behind its frames a segment has zeros, ready to be written over. */
static uint64_t end_of_frames(const unsigned char *bytes, uint64_t len)
{
    while (len > 0 && bytes[len - 1] == 0)
        len--;
    return len;
}

TEST(a_torn_end_is_unsure_and_half_a_segment_has_less)
{
    struct life life;
    uint64_t written[SHELF], len;
    char path[128];
    bool less;
    life_init(&life, check.seed, STORE_ALWAYS);
    if (!CHECK(life_begin(&life)))
        return;
    life_story(&life, 10);
    kit_values(&life.shelf, written);
    life_end(&life, false);
    kit_newest(life.sim, FILE_SEGMENT, path);
    const unsigned char *bytes = sim_bytes(life.sim, path, &len);
    unsigned char torn[8192];
    CHECK(len + 100 < sizeof torn);
    memcpy(torn, bytes, len);
    memset(torn + len, 0x5a, 100);
    CHECK(sim_put(life.sim, path, torn, len + 100));
    CHECK(life_peek(&life));
    CHECK(!life.found.lost && life.found.unsure && kit_was_written(&life.shelf, written, &less) && !less);
    CHECK(sim_put(life.sim, path, torn, end_of_frames(torn, len) / 2)); /* what frames claim is not there */
    CHECK(life_peek(&life));
    CHECK(life.found.unsure && kit_was_written(&life.shelf, written, &less) && less);
    life_free(&life);
}

TEST(good_frames_behind_a_bad_place_are_used)
{
    struct life life;
    life_init(&life, check.seed, STORE_EVERYSEC);
    if (!CHECK(life_begin(&life)))
        return;
    life_story(&life, 30);
    life_close(&life);
    uint64_t frame = frame_size(8 + 16), first = frame_size(sizeof(struct frame_start)) + frame_size(4);
    CHECK(sim_flip(life.sim, "data/log-0000000000000001", (first + 10 * frame + 30) * 8));
    CHECK(life_peek(&life));
    CHECK(life.found.lost && strstr(life.found.text, "1 frame that was on the disk is missing"));
    for (uint64_t i = 0; i < 30; i++)
        CHECK_EQ(life.shelf.values[i], i != 10);
    life_free(&life);
}

TEST(a_file_under_the_name_of_another_is_not_used)
{
    struct life life;
    uint64_t written[SHELF], len;
    char path[128];
    bool less;
    build(&life, STORE_EVERYSEC, true, written);
    kit_newest(life.sim, FILE_IMAGE, path);
    const unsigned char *bytes = sim_bytes(life.sim, path, &len);
    unsigned char copy[8192];
    if (!CHECK(bytes && len <= sizeof copy))
        return;
    memcpy(copy, bytes, len);
    CHECK(sim_put(life.sim, "data/image-0000000000000099", copy, len));
    CHECK(life_peek(&life));
    CHECK_EQ(life.found.images_damaged, 1);
    CHECK(kit_was_written(&life.shelf, written, &less) && !less);
    life_free(&life);
}

/* What would be written behind it nobody would find. */
TEST(a_file_whose_number_has_no_next_is_refused)
{
    static const char *const names[] = {"log-3fffffffffffffff", "image-3fffffffffffffff",
                                        "image-3ffffffffffffff0.tmp"};
    for (size_t i = 0; i < 3; i++) {
        struct life life;
        char path[128];
        uint64_t written[SHELF];
        build(&life, STORE_ALWAYS, true, written);
        kit_path(path, "data", names[i]);
        CHECK(sim_put(life.sim, path, "", 0));
        CHECK(!life_begin(&life));
        CHECK(strstr(life.err.text, names[i]) != NULL);
        CHECK(sim_lose(life.sim, path));
        CHECK(life_begin(&life));
        life_free(&life);
    }
}

TEST(a_missing_segment_is_a_loss_that_is_named)
{
    struct life life;
    life_init(&life, check.seed, STORE_EVERYSEC);
    if (!CHECK(life_begin(&life)))
        return;
    life_story(&life, 300);
    life_close(&life);
    struct kit_dir list = kit_list(life.sim, "data");
    CHECK(list.segments > 4);
    CHECK(sim_lose(life.sim, "data/log-0000000000000003"));
    CHECK(life_begin(&life));
    CHECK(life.found.lost && life.found.unsure && !life.found.clean);
    CHECK(strstr(life.found.text, "log-0000000000000004"));
    life_end(&life, true);
    CHECK(life_begin(&life)); /* told again until there is an image */
    CHECK(life.found.lost && life.found.text[0]);
    while (weir_store_work(life.store, STORE_WORK_IMAGE)) {
    }
    life_close(&life);
    CHECK(life_begin(&life));
    CHECK(!life.found.lost && life.found.clean);
    life_free(&life);
}

/* Behind a power cut some of the frames that nobody waited for may be there, and others not, or torn: a torn
 * one is unsure, because it looks like damage. */
TEST(holes_that_nobody_waited_for_are_no_loss_then_and_later)
{
    uint64_t holes = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct life life;
        life_init(&life, check.seed * 1000 + seed, STORE_ALWAYS);
        if (!CHECK(life_begin(&life)))
            return;
        life_story(&life, 20);
        struct store_state state;
        weir_store_state(life.store, &state);
        for (uint64_t i = 0; i < 60; i++)
            (void)life_raise(&life, i % SHELF);
        life_end(&life, true);
        for (int i = 0; i < 3; i++) {
            CHECK(life_begin(&life));
            CHECK(!life.found.lost);
            CHECK(life_check(&life, INT64_MAX));
            CHECK(life.found.sequence >= state.synced);
            holes += i == 0 && life.found.frames < life.found.sequence;
            life_story(&life, 3);
            if (i == 1)
                life_close(&life);
            else
                life_end(&life, true);
        }
        life_free(&life);
    }
    CHECK(holes > 20);
}

/* A start that is cut after so many calls, and another one. true: the first came to its end. */
static bool cut_recovery(enum store_sync sync, uint64_t calls)
{
    struct life life;
    uint64_t written[SHELF];
    bool less;
    build(&life, sync, false, written);
    sim_stop_after(life.sim, calls);
    bool begun = life_begin(&life) && !sim_is_stopped(life.sim);
    life_end(&life, true);
    CHECK(life_begin(&life));
    CHECK(kit_was_written(&life.shelf, written, &less));
    CHECK(life_check(&life, begun || sync == STORE_ALWAYS ? INT64_MAX : life.now_ns - WEIR_SEC));
    CHECK(!life.found.lost && (life.found.unsure || sync == STORE_ALWAYS));
    CHECK(!life.found.unsure || sync != STORE_ALWAYS || !begun); /* what was being written may be torn */
    life_free(&life);
    return begun;
}

TEST(recovery_can_be_cut_at_any_call_and_repeated)
{
    for (enum store_sync sync = STORE_ALWAYS; sync <= STORE_EVERYSEC; sync++) {
        uint64_t calls = 0;
        while (calls < 1000 && !cut_recovery(sync, calls))
            calls++;
        CHECK(calls > 20 && calls < 1000);
    }
}

TEST(what_a_killed_process_left_is_on_the_disk_before_more_is_promised)
{
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct life life;
        life_init(&life, check.seed * 100 + seed, STORE_EVERYSEC);
        if (!CHECK(life_begin(&life)))
            return;
        for (uint64_t i = 0; i < 40; i++)
            (void)life_raise(&life, i % SHELF); /* answered, not synced */
        life_answer(&life);
        life_end(&life, false);
        CHECK(life_begin(&life));
        CHECK(life_check(&life, INT64_MAX));
        life_time(&life, 2 * WEIR_SEC);
        life_end(&life, true); /* the second process has synced its own, and more than a second has passed */
        CHECK(life_begin(&life));
        CHECK(life_check(&life, INT64_MAX) && !life.found.lost);
        life_free(&life);
    }
}

/* ---- refusals ---- */

/* Changes a frame at the start of a file, and makes its checksum right again. */
static void rewrite(struct life *life, const char *path, uint16_t version)
{
    unsigned char bytes[16384];
    struct frame_head head;
    uint64_t len;
    const unsigned char *now = sim_bytes(life->sim, path, &len);
    if (!CHECK(now && len <= sizeof bytes))
        return;
    memcpy(bytes, now, len);
    memcpy(&head, bytes, sizeof head);
    head.version = version;
    memcpy(bytes, &head, sizeof head);
    head.crc = weir_crc32c(0, bytes + 4, frame_size(head.bytes) - 4);
    memcpy(bytes, &head, sizeof head);
    CHECK(sim_put(life->sim, path, bytes, len));
}

/* 100 heads of frames that are none, good frames around them, and zeros: what a file asks for in vain is
 * bounded by its size, also when less of it is read. */
TEST(what_is_found_in_a_file_is_found_in_the_used_part_of_it)
{
    enum { PART = 1 << 20, ALL = 40 << 20, HEADS = 100 };
    unsigned char *bytes = calloc(1, ALL);
    struct frame_start start = {.store = "0123456789abcde", .number = 1, .sequence = 1};
    struct frame_head head = {.kind = FRAME_SEGMENT, .sequence = 1};
    struct sim *sim = sim_new(1);
    struct disk *disk = sim_disk(sim);
    char name[DISK_NAME_MAX];
    int dir, file;
    if (!CHECK(bytes))
        return;
    head.salt = weir_frame_salt(start.store, FRAME_SEGMENT, 1);
    memcpy(bytes, &head, sizeof head);
    memcpy(bytes + sizeof head, &start, sizeof start);
    weir_frame_seal((struct frame_head *)(void *)bytes, sizeof start);
    size_t at = frame_size(sizeof start);
    head.magic = FRAME_MAGIC;
    head.bytes = PART - 16384;
    for (int i = 0; i < HEADS; i++, at += sizeof head)
        memcpy(bytes + at, &head, sizeof head);
    head.kind = FRAME_CATALOGUE;
    head.sequence = 2;
    memcpy(bytes + PART, &head, sizeof head);
    weir_frame_seal((struct frame_head *)(void *)(bytes + PART), 0);
    CHECK_EQ(disk->open_dir(disk, "data", true, &dir), 0);
    weir_file_name(name, FILE_SEGMENT, 1);
    CHECK_EQ(disk->open(disk, dir, name, DISK_CREATE, &file), 0);
    CHECK_EQ(disk->write(disk, file, bytes, ALL, 0), 0);
    (void)disk->close(disk, file);
    struct survey_dir from = {.disk = disk, .dir = dir, .room = SURVEY_KEPT};
    struct survey all = {.kind = FILE_SEGMENT, .number = 1};
    weir_survey_file(&all, &from, start.store, NULL, NULL);
    CHECK_EQ(all.frames, 2);
    struct survey used = {.kind = FILE_SEGMENT, .number = 1, .limit = all.used};
    weir_survey_file(&used, &from, start.store, NULL, NULL);
    CHECK_EQ(used.frames, 2);
    weir_survey_forget(&from);
    disk->close_dir(disk, dir);
    sim_free(sim);
    free(bytes);
}

/* A log too long to be kept in memory is read twice, and may be another one the second time. */
TEST(a_log_that_changes_while_it_is_read_is_refused)
{
    struct life life;
    uint64_t written[SHELF], len;
    char path[128];
    build(&life, STORE_ALWAYS, false, written);
    kit_newest(life.sim, FILE_SEGMENT, path);
    const unsigned char *log = sim_bytes(life.sim, path, &len);
    unsigned char *longer = calloc(1, SURVEY_KEPT);
    if (!CHECK(log && longer))
        return;
    memcpy(longer, log, len);
    CHECK(sim_put(life.sim, path, longer, SURVEY_KEPT));
    free(longer);
    struct store *store = weir_store_open(&life.options, &life.found, &life.err);
    CHECK(store &&
          weir_store_add(store, SHELF_REGION, &life.shelf.region, 0, &shelf_kind, &life.shelf, &life.err));
    CHECK(sim_flip(life.sim, path, frame_size(sizeof(struct frame_start)) * 8));
    CHECK(!weir_store_replay(store, &life.found, &life.err));
    CHECK(strstr(life.err.text, "cannot read log-"));
    (void)weir_store_close(store, NULL);
    life_free(&life);
}

TEST(a_later_version_is_refused)
{
    static const enum file_kind kinds[] = {FILE_IMAGE, FILE_SEGMENT};
    for (int i = 0; i < 2; i++) {
        struct life life;
        uint64_t written[SHELF];
        char path[128];
        build(&life, STORE_EVERYSEC, true, written);
        kit_newest(life.sim, kinds[i], path);
        rewrite(&life, path, FRAME_VERSION + 1);
        uint64_t before = sim_digest(life.sim);
        CHECK(!life_begin(&life));
        CHECK(strstr(life.err.text, "later version"));
        CHECK(!weir_inspect_repair(life.options.disk, "data", NULL, NULL, &life.err));
        CHECK(strstr(life.err.text, "later version"));
        CHECK_EQ(sim_digest(life.sim), before);
        life_free(&life);
    }
}

TEST(foreign_files_are_left_alone)
{
    struct life life;
    uint64_t written[SHELF], len;
    bool less;
    build(&life, STORE_EVERYSEC, true, written);
    CHECK(sim_put(life.sim, "data/notes.txt", "mine", 4));
    CHECK(sim_put(life.sim, "data/log-5", "mine", 4));
    CHECK(sim_put(life.sim, "data/image-0000000000000077.tmp", "half", 4));
    CHECK(life_begin(&life));
    CHECK(kit_was_written(&life.shelf, written, &less) && !less && life.found.clean);
    CHECK(weir_store_image(life.store, NULL));
    life_close(&life);
    CHECK(sim_bytes(life.sim, "data/notes.txt", &len) && len == 4);
    CHECK(sim_bytes(life.sim, "data/log-5", &len) && len == 4);
    CHECK(!sim_bytes(life.sim, "data/image-0000000000000077.tmp", &len));
    life_free(&life);
}

TEST(an_empty_directory_is_fresh_and_so_is_one_in_which_nothing_came_to_be)
{
    struct life life;
    life_init(&life, check.seed, STORE_EVERYSEC);
    CHECK(life_peek(&life));
    CHECK(life.found.fresh && !life.found.lost && !life.found.unsure);
    CHECK(sim_put(life.sim, "data/log-0000000000000001", "", 0));
    CHECK(life_begin(&life));
    CHECK(life.found.fresh && !life.found.lost);
    life_story(&life, 10);
    life_close(&life);
    CHECK(life_peek(&life));
    CHECK(!life.found.fresh && life.found.clean);
    CHECK_EQ(life.shelf.values[9], 1);
    life_free(&life);
}

/* ---- weir doctor ---- */

static int sentences;

static void count_sentence(void *arg, const char *text)
{
    (void)arg;
    sentences += text[0] != '\0';
}

static void check_repair(struct life *life, const uint64_t written[SHELF])
{
    struct weir_error err = {0};
    struct inspect inspect;
    bool less;
    size_t before = kit_list(life->sim, "data").count;
    sentences = 0;
    if (!CHECK(weir_inspect_repair(life->options.disk, "data", count_sentence, NULL, &err))) {
        printf("# %s\n", err.text);
        return;
    }
    int first = sentences;
    CHECK(kit_list(life->sim, "data").count >= before); /* nothing was deleted */
    CHECK(weir_inspect_repair(life->options.disk, "data", count_sentence, NULL, &err));
    CHECK_EQ(sentences, first); /* nothing is left to be done */
    CHECK(weir_inspect(life->options.disk, "data", &inspect, &err));
    CHECK(inspect.can_start);
    weir_inspect_free(&inspect);
    CHECK(life_peek(life));
    CHECK(kit_was_written(&life->shelf, written, &less));
    CHECK(!less || life->found.unsure || life->found.fresh);
}

TEST(whatever_is_damaged_can_be_repaired)
{
    struct rng rng = rng_new(5);
    for (int round = 0; round < 150; round++) {
        struct life life;
        uint64_t written[SHELF];
        build(&life, STORE_EVERYSEC, round % 2, written);
        struct kit_dir list = kit_list(life.sim, "data");
        int faults = (int)rng_between(&rng, 1, 6);
        for (int i = 0; i < faults; i++) {
            char path[128];
            size_t pick = (size_t)rng_between(&rng, 0, (int64_t)list.count - 1);
            kit_path(path, "data", list.names[pick]);
            if (list.bytes[pick] == 0)
                continue;
            uint64_t at = (uint64_t)rng_between(&rng, 0, (int64_t)list.bytes[pick] - 1);
            switch (rng_between(&rng, 0, 3)) {
            case 0:
                (void)sim_shorten(life.sim, path, at);
                break;
            case 1:
                (void)sim_zero(life.sim, path, at / SIM_SECTOR);
                break;
            default:
                (void)sim_flip(life.sim, path, at * 8 + 3);
            }
        }
        check_repair(&life, written);
        life_free(&life);
    }
}

TEST(without_any_image_the_rest_of_the_log_is_saved)
{
    struct life life;
    uint64_t written[SHELF];
    build(&life, STORE_EVERYSEC, true, written);
    struct kit_dir list = kit_list(life.sim, "data");
    for (size_t i = 0; i < list.count; i++) {
        char path[128];
        uint64_t number;
        kit_path(path, "data", list.names[i]);
        if (weir_file_parse(list.names[i], &number) == FILE_IMAGE)
            CHECK(sim_flip(life.sim, path, 999));
        else if (weir_file_parse(list.names[i], &number) == FILE_SEGMENT && number == 1)
            CHECK(sim_lose(life.sim, path));
    }
    CHECK(!life_peek(&life));
    CHECK(strstr(life.err.text, "weir doctor"));
    check_repair(&life, written);
    CHECK(life.found.lost);
    life_free(&life);
}

TEST(a_directory_in_use_is_read_and_not_repaired)
{
    struct life life;
    struct inspect inspect;
    life_init(&life, check.seed, STORE_EVERYSEC);
    if (!CHECK(life_begin(&life)))
        return;
    life_story(&life, 70);
    CHECK(weir_store_image(life.store, NULL));
    life_story(&life, 70);
    CHECK(weir_inspect(life.options.disk, "data", &inspect, &life.err));
    CHECK(inspect.in_use_by != 0 && inspect.can_start);
    CHECK_EQ(inspect.region_count, 1);
    CHECK_EQ(inspect.region_numbers[0], SHELF_REGION);
    CHECK_EQ(inspect.regions[0], SHELF + 70);
    CHECK(inspect.catalogue && inspect.catalogue_len == 4 && memcmp(inspect.catalogue, "note", 4) == 0);
    weir_inspect_free(&inspect);
    CHECK(!weir_inspect_repair(life.options.disk, "data", NULL, NULL, &life.err));
    CHECK(strstr(life.err.text, "in use"));
    CHECK(!weir_inspect(life.options.disk, "elsewhere", &inspect, &life.err));
    CHECK(strstr(life.err.text, "elsewhere"));
    life_free(&life);
}
