/* SPDX-License-Identifier: MIT */
/*
 * The simulated disk keeps its promises: what was synced is there after every cut, what was not can be lost
 * in every way that it may be, and nothing appears that was never written.
 */
#include "disk_sim.h"

#include "check.h"

static struct sim *sim;
static struct disk *disk;
static int dir;

static void begin(uint64_t seed)
{
    sim = sim_new(seed);
    disk = sim_disk(sim);
    CHECK_EQ(disk->open_dir(disk, "data", true, &dir), 0);
}

static void reopen(void)
{
    CHECK_EQ(disk->open_dir(disk, "data", false, &dir), 0);
}

static int make(const char *name)
{
    int file = -1;
    CHECK_EQ(disk->open(disk, dir, name, DISK_CREATE, &file), 0);
    return file;
}

static int reach(const char *name, enum disk_open how)
{
    int file = -1;
    CHECK_EQ(disk->open(disk, dir, name, how, &file), 0);
    return file;
}

static bool is_there(const char *name)
{
    int file;
    bool found = disk->open(disk, dir, name, DISK_READ, &file) == 0;
    if (found)
        disk->close(disk, file);
    return found;
}

static void fill(int file, char letter, uint64_t len, uint64_t offset)
{
    char bytes[4 * SIM_SECTOR];
    memset(bytes, letter, sizeof bytes);
    CHECK_EQ(disk->write(disk, file, bytes, len, offset), 0);
}

static const char *text_of(const char *path)
{
    static char text[4 * SIM_SECTOR + 1];
    uint64_t len = 0;
    const unsigned char *bytes = sim_bytes(sim, path, &len);
    if (!bytes || len >= sizeof text)
        return NULL;
    memcpy(text, bytes, len);
    text[len] = '\0';
    return text;
}

/* ---- an ordinary disk ---- */

TEST(it_is_a_disk)
{
    char text[16] = "";
    uint64_t done, size;
    int file, sub, none = -1;
    begin(1);
    CHECK_EQ(disk->open_dir(disk, "none", false, &none), ENOENT);
    CHECK_EQ(disk->open_dir(disk, "none/data", true, &none), ENOENT);
    CHECK_EQ(disk->open(disk, dir, "a", DISK_READ, &none), ENOENT);
    CHECK_EQ(disk->open(disk, dir, "a", DISK_WRITE, &none), ENOENT);
    file = make("a");
    CHECK_EQ(disk->open(disk, dir, "a", DISK_CREATE, &none), EEXIST);
    CHECK_EQ(disk->write(disk, file, "0123456789", 10, 0), 0);
    CHECK_EQ(disk->write(disk, file, "xy", 2, 12), 0);
    CHECK_EQ(disk->read(disk, file, text, sizeof text, 8, &done), 0);
    CHECK(done == 6 && memcmp(text, "89\0\0xy", 6) == 0);
    CHECK_EQ(disk->truncate(disk, file, 4), 0);
    CHECK_EQ(disk->truncate(disk, file, 6), 0);
    CHECK_EQ(disk->read(disk, file, text, sizeof text, 0, &done), 0);
    CHECK(done == 6 && memcmp(text, "0123\0", 6) == 0);
    CHECK_EQ(disk->read(disk, file, text, 1, 6, &done), 0);
    CHECK_EQ(done, 0);
    CHECK_EQ(disk->size(disk, file, &size), 0);
    CHECK_EQ(size, 6);
    CHECK_EQ(disk->open_dir(disk, "data/a", false, &none), ENOTDIR);
    CHECK_EQ(disk->open_sub(disk, dir, "a", true, &none), ENOTDIR);
    CHECK_EQ(disk->open_sub(disk, dir, "sub", false, &none), ENOENT);
    CHECK_EQ(disk->open_sub(disk, dir, "sub", true, &sub), 0);
    CHECK_EQ(disk->open(disk, dir, "sub", DISK_READ, &none), ENOTSUP);
    CHECK_EQ(disk->link(disk, dir, "a", sub, "b"), 0);
    CHECK_EQ(disk->link(disk, dir, "a", sub, "b"), EEXIST);
    CHECK_EQ(disk->remove(disk, dir, "a"), 0);
    CHECK_EQ(disk->remove(disk, dir, "a"), ENOENT);
    CHECK_EQ(disk->remove(disk, dir, "sub"), EISDIR);
    CHECK_EQ(disk->rename(disk, sub, "b", "c"), 0);
    CHECK_EQ(disk->rename(disk, sub, "b", "c"), ENOENT);
    CHECK_EQ(disk->write(disk, file, "!", 1, 0), 0);
    CHECK(sim_bytes(sim, "data/sub/c", &size) && size == 6 && *sim_bytes(sim, "data/sub/c", &size) == '!');
    CHECK_EQ(sim_handles(sim), 3);
    disk->close_dir(disk, sub);
    CHECK_EQ(disk->close(disk, file), 0);
    CHECK_EQ(disk->close(disk, file), EBADF);
    CHECK_EQ(disk->write(disk, file, "x", 1, 0), EBADF);
    CHECK_EQ(sim_handles(sim), 1);
    CHECK_EQ(none, -1);
    sim_free(sim);
}

static int count_files(void *arg, const char *name, uint64_t bytes)
{
    uint64_t *sums = arg;
    sums[0]++;
    sums[1] += bytes;
    return strcmp(name, "stop") == 0 ? 42 : disk->remove(disk, dir, name);
}

TEST(a_list_has_files_and_their_sizes_and_they_may_be_removed_meanwhile)
{
    uint64_t sums[2] = {0, 0};
    int sub;
    begin(2);
    for (int i = 0; i < 20; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "f%d", i);
        int file = make(name);
        fill(file, 'x', 10, 0);
        disk->close(disk, file);
    }
    CHECK_EQ(disk->open_sub(disk, dir, "sub", true, &sub), 0);
    CHECK_EQ(disk->list(disk, dir, count_files, sums), 0);
    CHECK(sums[0] == 20 && sums[1] == 200);
    sums[0] = sums[1] = 0;
    make("stop");
    CHECK_EQ(disk->list(disk, dir, count_files, sums), 42);
    CHECK_EQ(sums[0], 1);
    sim_free(sim);
}

TEST(a_lock_lasts_until_its_directory_is_closed_or_the_process_ends)
{
    int other;
    int64_t pid = -1;
    begin(3);
    CHECK_EQ(disk->open_dir(disk, "data", false, &other), 0);
    CHECK_EQ(disk->lock_dir(disk, dir, &pid), 0);
    CHECK_EQ(disk->lock_dir(disk, other, &pid), EAGAIN);
    CHECK(pid > 0);
    disk->close_dir(disk, dir);
    CHECK_EQ(disk->lock_dir(disk, other, &pid), 0);
    CHECK_EQ(pid, 0);
    sim_kill(sim);
    int before = dir;
    reopen();
    CHECK_EQ(disk->lock_dir(disk, before, &pid), EBADF); /* of the process that is gone */
    CHECK_EQ(disk->lock_dir(disk, dir, &pid), 0);
    CHECK(is_there("lock"));
    sim_free(sim);
}

/* ---- ends ---- */

TEST(after_a_kill_all_that_was_written_is_there)
{
    begin(4);
    int file = make("a");
    fill(file, 'x', 1500, 0);
    CHECK_EQ(disk->rename(disk, dir, "a", "b"), 0);
    uint64_t before = sim_digest(sim);
    sim_kill(sim);
    CHECK_EQ(sim_handles(sim), 0);
    CHECK(sim_digest(sim) == before);
    reopen();
    CHECK_EQ(disk->size(disk, reach("b", DISK_READ), &(uint64_t){0}), 0);
    CHECK_EQ(strlen(text_of("data/b")), 1500);
    sim_free(sim);
}

/* Three sectors are synced as a, then written as b, then as c, and a fourth is added. */
TEST(a_cut_leaves_any_version_of_each_sector_since_the_sync_and_no_other)
{
    struct rng rng = rng_new(5);
    int seen[3][128] = {{0}}, mixed = 0, sizes = 0;
    for (int round = 0; round < 2000; round++) {
        begin(5);
        int file = make("a");
        fill(file, '0', 3 * SIM_SECTOR, 0);
        fill(file, 'a', 3 * SIM_SECTOR, 0);
        CHECK_EQ(disk->sync(disk, file), 0);
        CHECK_EQ(disk->sync_dir(disk, dir), 0);
        fill(file, 'b', 3 * SIM_SECTOR, 0);
        fill(file, 'c', 4 * SIM_SECTOR, 0);
        sim_cut(sim, &rng);
        uint64_t size = 0;
        const unsigned char *bytes = sim_bytes(sim, "data/a", &size);
        if (!CHECK(bytes && size >= 3 * SIM_SECTOR && size <= 4 * SIM_SECTOR))
            return;
        sizes += size > 3 * SIM_SECTOR && size < 4 * SIM_SECTOR;
        for (int i = 0; i < 3; i++) {
            seen[i][bytes[i * SIM_SECTOR] & 127]++;
            for (int at = 0; at < SIM_SECTOR; at++)
                CHECK_EQ(bytes[i * SIM_SECTOR + at], bytes[i * SIM_SECTOR]);
        }
        mixed += bytes[0] == 'c' && bytes[SIM_SECTOR] == 'a' && bytes[2 * SIM_SECTOR] == 'b';
        for (uint64_t at = 3 * SIM_SECTOR; at < size; at++)
            CHECK(bytes[at] == 'c' || bytes[at] == 0);
        sim_free(sim);
    }
    for (int i = 0; i < 3; i++) {
        CHECK(seen[i]['a'] > 200 && seen[i]['b'] > 50 && seen[i]['c'] > 200);
        CHECK_EQ(seen[i]['a'] + seen[i]['b'] + seen[i]['c'], 2000);
    }
    CHECK(mixed > 0 && sizes > 50);
}

TEST(what_was_cut_off_can_come_back_until_it_is_synced)
{
    struct rng rng = rng_new(6);
    int back = 0, between = 0, gone = 0;
    for (int round = 0; round < 600; round++) {
        begin(6);
        int file = make("a");
        fill(file, 'a', 2 * SIM_SECTOR, 0);
        CHECK_EQ(disk->sync(disk, file), 0);
        CHECK_EQ(disk->sync_dir(disk, dir), 0);
        CHECK_EQ(disk->truncate(disk, file, 100), 0);
        if (round % 2)
            CHECK_EQ(disk->sync(disk, file), 0);
        sim_cut(sim, &rng);
        uint64_t size = 0;
        (void)sim_bytes(sim, "data/a", &size);
        CHECK(size >= 100 && (round % 2 == 0 || size == 100));
        back += size == 2 * SIM_SECTOR;
        gone += size == 100;
        between += size > 100 && size < 2 * SIM_SECTOR;
        reopen(); /* what is behind the end stays behind it */
        CHECK_EQ(disk->truncate(disk, reach("a", DISK_WRITE), size), 0);
        CHECK_EQ(disk->truncate(disk, reach("a", DISK_WRITE), 4 * SIM_SECTOR), 0);
        CHECK_EQ(sim_bytes(sim, "data/a", &(uint64_t){0})[size], 0);
        sim_free(sim);
    }
    CHECK(back > 20 && between > 20 && gone > 320);
}

TEST(what_was_cut_off_does_not_come_back_when_the_file_grows_again)
{
    begin(19);
    int file = make("a");
    fill(file, 'a', 2 * SIM_SECTOR, 0);
    CHECK_EQ(disk->sync(disk, file) + disk->sync_dir(disk, dir), 0);
    CHECK_EQ(disk->truncate(disk, file, 100), 0);
    fill(file, 'b', 1, 2 * SIM_SECTOR);
    CHECK_EQ(disk->sync(disk, file), 0);
    sim_cut(sim, NULL);
    uint64_t size = 0;
    const unsigned char *bytes = sim_bytes(sim, "data/a", &size);
    CHECK(bytes && size == 2 * SIM_SECTOR + 1 && bytes[99] == 'a' && bytes[size - 1] == 'b');
    for (uint64_t at = 100; bytes && at < 2 * SIM_SECTOR; at++)
        CHECK_EQ(bytes[at], 0);
    sim_free(sim);
}

/* ---- names ---- */

TEST(a_name_is_safe_after_sync_dir_and_not_before)
{
    struct rng rng = rng_new(7);
    int there = 0;
    for (int round = 0; round < 200; round++) {
        begin(7);
        CHECK_EQ(disk->sync(disk, make("synced")), 0);
        CHECK_EQ(disk->sync_dir(disk, dir), 0);
        CHECK_EQ(disk->sync(disk, make("not")), 0);
        sim_cut(sim, &rng);
        reopen();
        CHECK(is_there("synced"));
        there += is_there("not");
        sim_free(sim);
    }
    CHECK(there > 40 && there < 160);
}

TEST(a_rename_happens_whole_or_not)
{
    struct rng rng = rng_new(8);
    int renamed = 0;
    for (int round = 0; round < 300; round++) {
        begin(8);
        int old = make("image"), new = make("new");
        fill(old, 'o', 3, 0);
        fill(new, 'n', 3, 0);
        CHECK_EQ(disk->sync(disk, old) + disk->sync(disk, new) + disk->sync_dir(disk, dir), 0);
        CHECK_EQ(disk->rename(disk, dir, "new", "image"), 0);
        sim_cut(sim, &rng);
        reopen();
        bool done = !is_there("new");
        CHECK_STR(text_of("data/image"), done ? "nnn" : "ooo");
        renamed += done;
        sim_free(sim);
    }
    CHECK(renamed > 60 && renamed < 240);
}

/* x is made, then y, then x gets the name z, then z is removed: each needs what was done to its name before.
 */
TEST(of_what_was_done_to_one_name_the_later_needs_the_earlier)
{
    struct rng rng = rng_new(9);
    int only_y = 0, only_x = 0, only_z = 0, all_gone = 0;
    for (int round = 0; round < 2000; round++) {
        begin(9);
        make("x");
        make("y");
        CHECK_EQ(disk->rename(disk, dir, "x", "z"), 0);
        if (round % 2)
            CHECK_EQ(disk->remove(disk, dir, "z"), 0);
        sim_cut(sim, &rng);
        reopen();
        bool x = is_there("x"), y = is_there("y"), z = is_there("z");
        CHECK(!(x && z));
        only_x += x && !y;
        only_y += y && !x && !z;
        only_z += z && !y;
        all_gone += !x && !y && !z;
        sim_free(sim);
    }
    CHECK(only_x > 20 && only_y > 20 && only_z > 20 && all_gone > 20);
}

/* The name x goes to another file once the first one has the name y: that one always has a name. */
TEST(a_file_whose_name_was_taken_over_is_there_under_its_new_one)
{
    struct rng rng = rng_new(20);
    int both = 0, first = 0;
    for (int round = 0; round < 500; round++) {
        begin(20);
        int file = make("x");
        fill(file, 'o', 3, 0);
        CHECK_EQ(disk->sync(disk, file) + disk->sync_dir(disk, dir), 0);
        CHECK_EQ(disk->rename(disk, dir, "x", "y"), 0);
        file = make("x");
        fill(file, 'n', 3, 0);
        CHECK_EQ(disk->sync(disk, file), 0);
        sim_cut(sim, &rng);
        reopen();
        CHECK_STR(text_of(is_there("y") ? "data/y" : "data/x"), "ooo");
        both += is_there("x") && is_there("y");
        first += !is_there("y");
        sim_free(sim);
    }
    CHECK(both > 50 && first > 50);
}

TEST(a_directory_can_be_lost_with_all_that_is_in_it)
{
    struct rng rng = rng_new(10);
    int lost = 0;
    for (int round = 0; round < 100; round++) {
        int sub, file;
        begin(10);
        CHECK_EQ(disk->open_sub(disk, dir, "sub", true, &sub), 0);
        CHECK_EQ(disk->open(disk, sub, "a", DISK_CREATE, &file), 0);
        CHECK_EQ(disk->sync(disk, file) + disk->sync_dir(disk, sub), 0);
        if (round % 2)
            CHECK_EQ(disk->sync_dir(disk, dir), 0);
        sim_cut(sim, &rng);
        reopen();
        bool found = disk->open_sub(disk, dir, "sub", false, &sub) == 0;
        CHECK(found || round % 2 == 0);
        CHECK(!found || disk->open(disk, sub, "a", DISK_READ, &file) == 0);
        lost += !found;
        sim_free(sim);
    }
    CHECK(lost > 10 && lost < 50);
}

/* ---- faults ---- */

TEST(a_sync_that_failed_has_lost_it_and_the_next_one_does_not_say_so)
{
    struct rng rng = rng_new(11);
    int lost = 0, seen_at_once = 0;
    for (int round = 0; round < 400; round++) {
        begin((uint64_t)round);
        int file = make("a");
        fill(file, 'a', 8, 0);
        CHECK_EQ(disk->sync(disk, file) + disk->sync_dir(disk, dir), 0);
        fill(file, 'b', 8, 0);
        sim_fail(sim, DISK_CALL_SYNC, 1, EIO, false);
        CHECK_EQ(disk->sync(disk, file), EIO);
        seen_at_once += strcmp(text_of("data/a"), "aaaaaaaa") == 0;
        CHECK_EQ(disk->sync(disk, file), 0);
        sim_cut(sim, &rng);
        bool old = strcmp(text_of("data/a"), "aaaaaaaa") == 0;
        CHECK(old || strcmp(text_of("data/a"), "bbbbbbbb") == 0);
        lost += old;
        sim_free(sim);
    }
    CHECK(lost > 80 && lost < 320);
    CHECK(seen_at_once > 20 && seen_at_once < lost);
}

TEST(a_sync_dir_that_failed_can_be_tried_again)
{
    struct rng rng = rng_new(12);
    int kept = 0;
    for (int round = 0; round < 200; round++) {
        begin((uint64_t)round);
        make("a");
        sim_fail(sim, DISK_CALL_SYNC_DIR, 1, EIO, false);
        CHECK_EQ(disk->sync_dir(disk, dir), EIO);
        if (round % 2)
            CHECK_EQ(disk->sync_dir(disk, dir), 0);
        sim_cut(sim, &rng);
        reopen();
        CHECK(is_there("a") || round % 2 == 0);
        kept += is_there("a");
        sim_free(sim);
    }
    CHECK(kept > 110 && kept < 195);
}

TEST(of_a_write_that_fails_any_first_part_is_there)
{
    int nothing = 0, some = 0, sectors = 0;
    for (int round = 0; round < 300; round++) {
        char bytes[3 * SIM_SECTOR];
        memset(bytes, 'b', sizeof bytes);
        begin((uint64_t)round);
        int file = make("a");
        fill(file, 'a', 3 * SIM_SECTOR, 0);
        sim_fail(sim, DISK_CALL_WRITE, 1, ENOSPC, false);
        CHECK_EQ(disk->write(disk, file, bytes, sizeof bytes, 0), ENOSPC);
        size_t written = strspn(text_of("data/a"), "b");
        CHECK_EQ(strspn(text_of("data/a") + written, "a"), 3 * SIM_SECTOR - written);
        nothing += written == 0;
        sectors += written > 0 && written % SIM_SECTOR == 0;
        some += written % SIM_SECTOR != 0;
        CHECK_EQ(disk->write(disk, file, bytes, sizeof bytes, 0), 0);
        sim_free(sim);
    }
    CHECK(nothing > 10 && some > 50 && sectors > 50);
}

TEST(calls_fail_when_they_are_told_to)
{
    begin(13);
    int file = make("a");
    sim_fail(sim, DISK_CALL_SYNC, 3, ENOSPC, true);
    CHECK_EQ(disk->sync(disk, file) + disk->sync(disk, file), 0);
    CHECK_EQ(disk->sync(disk, file), ENOSPC);
    CHECK_EQ(disk->sync(disk, file), ENOSPC);
    CHECK_EQ(disk->sync_dir(disk, dir), 0);
    sim_fail(sim, DISK_CALL_ANY, 2, EIO, false);
    CHECK_EQ(disk->sync(disk, file), 0);
    CHECK_EQ(disk->sync_dir(disk, dir), EIO);
    CHECK_EQ(disk->sync_dir(disk, dir), 0);
    sim_fail(sim, DISK_CALL_SYNC, 0, EIO, true);
    CHECK_EQ(disk->sync(disk, file), 0);
    CHECK_EQ(sim_faults(sim), 3);
    CHECK_EQ(sim_calls(sim, DISK_CALL_SYNC), 6);
    CHECK_EQ(sim_calls(sim, DISK_CALL_SYNC_DIR), 3);
    CHECK_EQ(sim_calls(sim, DISK_CALL_ANY), 11);
    sim_fail_often(sim, DISK_CALL_SIZE, 250000, EIO);
    int failed = 0;
    for (int i = 0; i < 4000; i++)
        failed += disk->size(disk, file, &(uint64_t){0}) == EIO;
    CHECK(failed > 800 && failed < 1200);
    sim_no_faults(sim);
    CHECK_EQ(disk->size(disk, file, &(uint64_t){0}), 0);
    sim_free(sim);
}

TEST(a_disk_that_is_read_only_changes_nothing)
{
    int none;
    int64_t pid;
    begin(14);
    int file = make("a");
    fill(file, 'a', 10, 0);
    uint64_t before = sim_digest(sim);
    sim_read_only(sim, true);
    CHECK_EQ(disk->write(disk, file, "b", 1, 0), EROFS);
    CHECK_EQ(disk->truncate(disk, file, 0), EROFS);
    CHECK_EQ(disk->rename(disk, dir, "a", "b"), EROFS);
    CHECK_EQ(disk->remove(disk, dir, "a"), EROFS);
    CHECK_EQ(disk->link(disk, dir, "a", dir, "b"), EROFS);
    CHECK_EQ(disk->open(disk, dir, "b", DISK_CREATE, &none), EROFS);
    CHECK_EQ(disk->open(disk, dir, "a", DISK_WRITE, &none), EROFS);
    CHECK_EQ(disk->open_sub(disk, dir, "sub", true, &none), EROFS);
    CHECK_EQ(disk->open_dir(disk, "other", true, &none), EROFS);
    CHECK_EQ(disk->lock_dir(disk, dir, &pid), EROFS);
    CHECK_EQ(disk->close(disk, reach("a", DISK_READ)), 0);
    CHECK(sim_digest(sim) == before);
    sim_read_only(sim, false);
    CHECK_EQ(disk->write(disk, file, "b", 1, 0), 0);
    sim_free(sim);
}

TEST(a_machine_that_is_off_changes_nothing)
{
    begin(15);
    int file = make("a"), none;
    sim_stop_after(sim, 2);
    fill(file, 'a', 10, 0);
    CHECK_EQ(disk->sync(disk, file), 0);
    CHECK(!sim_is_stopped(sim));
    sim_stop_after(sim, 1);
    fill(file, 'c', 10, 0);
    uint64_t before = sim_digest(sim);
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(disk->write(disk, file, "b", 1, 0), EIO);
        CHECK(sim_is_stopped(sim));
        CHECK_EQ(disk->sync(disk, file), EIO);
        CHECK_EQ(disk->truncate(disk, file, 1), EIO);
        CHECK_EQ(disk->sync_dir(disk, dir), EIO);
        CHECK_EQ(disk->rename(disk, dir, "a", "b"), EIO);
        CHECK_EQ(disk->remove(disk, dir, "a"), EIO);
        CHECK_EQ(disk->link(disk, dir, "a", dir, "b"), EIO);
        CHECK_EQ(disk->open(disk, dir, "c", DISK_CREATE, &none), EIO);
        CHECK_EQ(disk->open_dir(disk, "more", true, &none), EIO);
        CHECK_EQ(disk->open_sub(disk, dir, "more", true, &none), EIO);
    }
    CHECK(sim_digest(sim) == before);
    CHECK_EQ(sim_faults(sim), 0);
    sim_kill(sim);
    CHECK(!sim_is_stopped(sim));
    reopen();
    CHECK_STR(text_of("data/a"), "cccccccccc");
    sim_stop_after(sim, 0);
    CHECK(sim_is_stopped(sim));
    sim_stop_after(sim, SIM_NEVER);
    make("d");
    sim_free(sim);
}

TEST(a_machine_that_is_off_syncs_nothing)
{
    struct rng rng = rng_new(21);
    int names = 0, contents = 0;
    for (int round = 0; round < 200; round++) {
        begin((uint64_t)round);
        int file = make("a");
        fill(file, 'a', 8, 0);
        CHECK_EQ(disk->sync(disk, file) + disk->sync_dir(disk, dir), 0);
        make("b");
        fill(file, 'b', 8, 0);
        sim_stop_after(sim, 0);
        for (int i = 0; i < 20; i++)
            CHECK(disk->sync_dir(disk, dir) == EIO && disk->sync(disk, file) == EIO);
        sim_cut(sim, &rng);
        reopen();
        names += is_there("b");
        contents += strcmp(text_of("data/a"), "bbbbbbbb") == 0;
        sim_free(sim);
    }
    CHECK(names > 50 && names < 150);
    CHECK(contents > 50 && contents < 150);
}

TEST(a_disk_is_full_when_it_is_and_files_that_go_make_room)
{
    char bytes[4 * SIM_SECTOR];
    uint64_t room = 0;
    memset(bytes, 'x', sizeof bytes);
    begin(16);
    sim_capacity(sim, 4 * SIM_SECTOR);
    int a = make("a"), b = make("b");
    CHECK_EQ(disk->write(disk, a, bytes, 2 * SIM_SECTOR, 0), 0);
    CHECK_EQ(disk->write(disk, b, bytes, 100, 0), 0);
    CHECK_EQ(disk->room(disk, dir, &room), 0);
    CHECK_EQ(room, SIM_SECTOR);
    CHECK_EQ(disk->write(disk, b, bytes, 4 * SIM_SECTOR - 100, 100), ENOSPC);
    CHECK_EQ(strlen(text_of("data/b")), 2 * SIM_SECTOR); /* as much as fitted */
    CHECK_EQ(disk->truncate(disk, b, 4 * SIM_SECTOR), ENOSPC);
    CHECK_EQ(disk->write(disk, a, bytes, 2 * SIM_SECTOR, 0), 0); /* what is there can be written */
    CHECK_EQ(sim_used(sim), 4 * SIM_SECTOR);
    CHECK_EQ(disk->remove(disk, dir, "a"), 0);
    CHECK_EQ(sim_used(sim), 4 * SIM_SECTOR); /* it is open */
    CHECK_EQ(disk->close(disk, a), 0);
    CHECK_EQ(sim_used(sim), 2 * SIM_SECTOR);
    CHECK_EQ(disk->write(disk, b, bytes, 4 * SIM_SECTOR, 0), 0);
    CHECK_EQ(disk->truncate(disk, b, 0), 0);
    CHECK_EQ(sim_used(sim), 0);
    CHECK_EQ(disk->room(disk, dir, &room), 0);
    CHECK_EQ(room, 4 * SIM_SECTOR);
    sim_free(sim);
}

TEST(damage_is_done_to_the_disk)
{
    char text[SIM_SECTOR + 10];
    memset(text, 'a', sizeof text);
    begin(17);
    CHECK(sim_put(sim, "data/a", text, sizeof text));
    CHECK(sim_put(sim, "data/b", "b", 1));
    CHECK(!sim_put(sim, "none/a", text, 1) && !sim_put(sim, "data", text, 1));
    CHECK(sim_flip(sim, "data/a", 8 * 3 + 1));
    CHECK(sim_zero(sim, "data/a", 1));
    CHECK(!sim_flip(sim, "data/a", 8 * sizeof text) && !sim_flip(sim, "data/c", 0));
    CHECK(!sim_zero(sim, "data/a", 2) && !sim_shorten(sim, "data/a", sizeof text + 1));
    CHECK(sim_lose(sim, "data/b") && !sim_lose(sim, "data/b"));
    for (int round = 0; round < 5; round++) {
        uint64_t len = 0;
        const unsigned char *bytes = sim_bytes(sim, "data/a", &len);
        CHECK(bytes && len == sizeof text && bytes[3] == ('a' ^ 2) && bytes[4] == 'a');
        CHECK(bytes && bytes[SIM_SECTOR - 1] == 'a' && bytes[SIM_SECTOR] == 0 && bytes[len - 1] == 0);
        CHECK(!sim_bytes(sim, "data/b", &len));
        sim_cut(sim, NULL);
    }
    CHECK(sim_shorten(sim, "data/a", 3));
    sim_cut(sim, NULL);
    CHECK_STR(text_of("data/a"), "aaa");
    sim_free(sim);
}

/* ---- stories ---- */

enum { FILES = 6 };

/* Writes, syncs, renames, removes, fails and cuts by lot; gives the digest at the end. */
static uint64_t tell(uint64_t seed, int calls)
{
    struct rng rng = {seed};
    char name[16], other[16], bytes[200];
    begin(seed);
    sim_fail_often(sim, DISK_CALL_ANY, 5000, EIO);
    for (int i = 0; i < calls; i++) {
        int file = -1;
        (void)snprintf(name, sizeof name, "f%d", (int)rng_between(&rng, 0, FILES - 1));
        (void)snprintf(other, sizeof other, "f%d", (int)rng_between(&rng, 0, FILES - 1));
        memset(bytes, (int)rng_between(&rng, 1, 255), sizeof bytes);
        uint64_t lot = rng_next(&rng) % 100, offset = rng_next(&rng) % 3000;
        if (lot < 3)
            (void)disk->rename(disk, dir, name, other);
        else if (lot < 5)
            (void)disk->remove(disk, dir, name);
        else if (lot < 10)
            (void)disk->sync_dir(disk, dir);
        else if (lot < 11) {
            sim_cut(sim, &rng);
            reopen();
        } else if (disk->open(disk, dir, name, lot % 2 ? DISK_CREATE : DISK_WRITE, &file) == 0) {
            if (lot < 15)
                (void)disk->truncate(disk, file, offset);
            else if (lot < 25)
                (void)disk->sync(disk, file);
            else
                (void)disk->write(disk, file, bytes, sizeof bytes, offset);
            (void)disk->close(disk, file);
        }
    }
    uint64_t digest = sim_digest(sim);
    sim_free(sim);
    return digest;
}

TEST(the_same_seed_tells_the_same_story)
{
    uint64_t first = check.seed * 1000;
    for (uint64_t seed = first; seed < first + 20; seed++) {
        uint64_t digest = tell(seed, 500);
        CHECK(tell(seed, 500) == digest);
        CHECK(tell(seed + 1, 500) != digest);
    }
}

/* Any number of cuts: what was synced, and its name, stays as it was. */
TEST(what_was_synced_stays_through_all_that_happens_to_others)
{
    struct rng rng = rng_new(18);
    for (int round = 0; round < 50; round++) {
        begin((uint64_t)round);
        int file = make("safe");
        fill(file, 's', 1800, 0);
        CHECK_EQ(disk->sync(disk, file) + disk->sync_dir(disk, dir), 0);
        for (int i = 0; i < 20; i++) {
            int other = make("other");
            fill(other, 'o', 700, 0);
            fill(reach("safe", DISK_WRITE), 't', 100, 1800);
            if (i % 3 == 0)
                CHECK_EQ(disk->rename(disk, dir, "other", "third"), 0);
            sim_cut(sim, &rng);
            reopen();
            if (!CHECK(is_there("safe")))
                return;
            uint64_t len = 0;
            const unsigned char *bytes = sim_bytes(sim, "data/safe", &len);
            for (uint64_t at = 0; at < 1800; at++)
                CHECK_EQ(bytes[at], 's');
            CHECK(len >= 1800 && len <= 1900);
            (void)disk->remove(disk, dir, "other");
        }
        sim_free(sim);
    }
}
