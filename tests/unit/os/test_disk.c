/* SPDX-License-Identifier: MIT */
/*
 * The real disk, in a directory of its own; and the disk in front of it that fails.
 */
#define _DEFAULT_SOURCE
#include "os/disk.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "disk_faulty.h"

static struct disk *const disk = &weir_disk;
static char place[64];
static int dir = -1;

/* A directory that nobody else has; $TMPDIR says where. */
static bool open_place(void)
{
    const char *above = getenv("TMPDIR");
    (void)snprintf(place, sizeof place, "%s/weir-disk-XXXXXX", above && strlen(above) < 40 ? above : "/tmp");
    return CHECK(mkdtemp(place)) && CHECK_EQ(disk->open_dir(disk, place, false, &dir), 0);
}

static int remove_file(void *arg, const char *name, uint64_t bytes)
{
    (void)arg, (void)bytes;
    return disk->remove(disk, dir, name);
}

static void close_place(void)
{
    CHECK_EQ(disk->list(disk, dir, remove_file, NULL), 0);
    disk->close_dir(disk, dir);
    CHECK_EQ(rmdir(place), 0);
}

static int make_file(const char *name, const char *text)
{
    int file = -1;
    CHECK_EQ(disk->open(disk, dir, name, DISK_CREATE, &file), 0);
    CHECK_EQ(disk->write(disk, file, text, strlen(text), 0), 0);
    return file;
}

static void put_file(const char *name, const char *text)
{
    CHECK_EQ(disk->close(disk, make_file(name, text)), 0);
}

/* The text of a file; NULL: it cannot be opened. */
static const char *text_of(int at, const char *name)
{
    static char text[64];
    uint64_t done = 0;
    int file;
    if (disk->open(disk, at, name, DISK_READ, &file) != 0)
        return NULL;
    CHECK_EQ(disk->read(disk, file, text, sizeof text - 1, 0, &done), 0);
    text[done] = '\0';
    CHECK_EQ(disk->close(disk, file), 0);
    return text;
}

static unsigned mode_of(const char *name)
{
    struct stat status;
    return fstatat(dir, name, &status, AT_SYMLINK_NOFOLLOW) == 0 ? status.st_mode & 0777 : 0;
}

/* ---- directories ---- */

TEST(a_directory_is_made_if_that_is_wanted)
{
    char path[100];
    int made = -1, again = -1, sub = -1;
    if (!open_place())
        return;
    (void)snprintf(path, sizeof path, "%s/data", place);
    CHECK_EQ(disk->open_dir(disk, path, false, &made), ENOENT);
    CHECK_EQ(made, -1);
    CHECK_EQ(disk->open_dir(disk, path, true, &made), 0);
    CHECK_EQ(mode_of("data"), 0700);
    CHECK_EQ(disk->open_dir(disk, path, true, &again), 0);
    disk->close_dir(disk, again);
    CHECK_EQ(disk->open_dir(disk, path, false, &again), 0);
    disk->close_dir(disk, again);
    CHECK_EQ(disk->open_sub(disk, made, "sub", false, &sub), ENOENT);
    CHECK_EQ(disk->open_sub(disk, made, "sub", true, &sub), 0);
    CHECK_EQ(disk->sync_dir(disk, made), 0);
    disk->close_dir(disk, sub);
    CHECK_EQ(disk->open_sub(disk, made, "sub", true, &sub), 0);
    disk->close_dir(disk, sub);
    CHECK_EQ(unlinkat(made, "sub", AT_REMOVEDIR), 0);
    disk->close_dir(disk, made);
    CHECK_EQ(rmdir(path), 0);
    (void)snprintf(path, sizeof path, "%s/not/there", place);
    CHECK_EQ(disk->open_dir(disk, path, true, &made), ENOENT);
    close_place();
}

TEST(what_is_no_directory_is_refused)
{
    char path[100];
    int none = -1;
    if (!open_place())
        return;
    put_file("file", "x");
    (void)snprintf(path, sizeof path, "%s/file", place);
    CHECK_EQ(disk->open_dir(disk, path, true, &none), ENOTDIR);
    CHECK_EQ(disk->open_dir(disk, path, false, &none), ENOTDIR);
    CHECK_EQ(disk->open_dir(disk, "", true, &none), ENOENT);
    CHECK_EQ(disk->open_sub(disk, dir, "file", true, &none), ENOTDIR);
    CHECK_EQ(symlinkat(".", dir, "link"), 0);
    CHECK(disk->open_sub(disk, dir, "link", true, &none) != 0); /* it could lead anywhere */
    CHECK_EQ(none, -1);
    CHECK_EQ(disk->remove(disk, dir, "link"), 0);
    close_place();
}

/* Root may write everywhere, so it is nobody for a while. */
TEST(a_directory_that_may_not_be_written_says_so)
{
    int file = -1;
    int64_t pid;
    bool root = geteuid() == 0;
    if (!open_place())
        return;
    CHECK_EQ(fchmod(dir, 0555), 0);
    CHECK(!root || seteuid(65534) == 0);
    CHECK_EQ(disk->open(disk, dir, "file", DISK_CREATE, &file), EACCES);
    CHECK_EQ(disk->lock_dir(disk, dir, &pid), EACCES);
    CHECK(!root || seteuid(0) == 0);
    CHECK_EQ(fchmod(dir, 0700), 0);
    close_place();
}

struct listed {
    int count, stop_at;
    uint64_t bytes;
    char names[200];
};

static int note_file(void *arg, const char *name, uint64_t bytes)
{
    struct listed *listed = arg;
    size_t len = strlen(listed->names);
    (void)snprintf(listed->names + len, sizeof listed->names - len, "%s ", name);
    listed->bytes += bytes;
    return ++listed->count == listed->stop_at ? 42 : 0;
}

TEST(a_list_has_files_and_their_sizes)
{
    char longest[DISK_NAME_MAX], longer[DISK_NAME_MAX + 1];
    struct listed listed = {0};
    int sub;
    if (!open_place())
        return;
    CHECK_EQ(disk->list(disk, dir, note_file, &listed), 0);
    CHECK_EQ(listed.count, 0);
    memset(longest, 'n', sizeof longest);
    memset(longer, 'l', sizeof longer);
    longest[sizeof longest - 1] = longer[sizeof longer - 1] = '\0';
    put_file(longest, "four");
    put_file("b", "");
    put_file(longer, "1234567");
    CHECK_EQ(disk->open_sub(disk, dir, "sub", true, &sub), 0);
    disk->close_dir(disk, sub);
    CHECK_EQ(symlinkat("b", dir, "link"), 0);
    CHECK_EQ(mkfifoat(dir, "pipe", 0600), 0);
    for (int round = 0; round < 2; round++) { /* it begins at the start again */
        listed = (struct listed){0};
        CHECK_EQ(disk->list(disk, dir, note_file, &listed), 0);
        CHECK_EQ(listed.count, 2);
        CHECK_EQ(listed.bytes, 4);
        CHECK(strstr(listed.names, longest) && strstr(listed.names, "b "));
    }
    listed = (struct listed){.stop_at = 1};
    CHECK_EQ(disk->list(disk, dir, note_file, &listed), 42);
    CHECK_EQ(listed.count, 1);
    CHECK_EQ(unlinkat(dir, "sub", AT_REMOVEDIR), 0);
    CHECK_EQ(unlinkat(dir, "link", 0) + unlinkat(dir, "pipe", 0) + unlinkat(dir, longer, 0), 0);
    close_place();
}

TEST(names_can_be_changed_and_removed)
{
    int sub;
    if (!open_place())
        return;
    put_file("a", "one");
    put_file("b", "two");
    CHECK_EQ(disk->rename(disk, dir, "a", "b"), 0);
    CHECK_STR(text_of(dir, "b"), "one");
    CHECK_STR(text_of(dir, "a"), NULL);
    CHECK_EQ(disk->rename(disk, dir, "a", "c"), ENOENT);
    CHECK_EQ(disk->open_sub(disk, dir, "sub", true, &sub), 0);
    CHECK_EQ(disk->link(disk, dir, "b", sub, "x"), 0);
    CHECK_EQ(disk->link(disk, dir, "b", sub, "x"), EEXIST);
    CHECK_EQ(disk->link(disk, dir, "none", sub, "y"), ENOENT);
    CHECK_EQ(disk->remove(disk, dir, "b"), 0);
    CHECK_EQ(disk->remove(disk, dir, "b"), ENOENT);
    CHECK_STR(text_of(sub, "x"), "one");
    CHECK_EQ(disk->remove(disk, sub, "x"), 0);
    disk->close_dir(disk, sub);
    CHECK_EQ(disk->remove(disk, dir, "sub"), EISDIR);
    CHECK_EQ(disk->sync_dir(disk, dir), 0);
    CHECK_EQ(unlinkat(dir, "sub", AT_REMOVEDIR), 0);
    close_place();
}

TEST(room_is_known)
{
    uint64_t bytes = 0;
    if (!open_place())
        return;
    CHECK_EQ(disk->room(disk, dir, &bytes), 0);
    CHECK(bytes > 0);
    CHECK_EQ(disk->room(disk, -1, &bytes), EBADF);
    CHECK_EQ(disk->sync_dir(disk, -1), EBADF);
    CHECK_EQ(disk->list(disk, -1, note_file, NULL), EBADF);
    close_place();
}

/* ---- locks ---- */

/* What another process gets: the fault, and whether the pid was ours. */
static void check_other_process(int want_fault, bool want_ours)
{
    int status = -1, other = -1;
    pid_t ours = getpid(), child = fork();
    if (child == 0) {
        int64_t pid = -1;
        int fault = disk->open_dir(disk, place, false, &other);
        fault = fault ? 99 : disk->lock_dir(disk, other, &pid);
        _exit(fault + (pid == ours ? 128 : 0));
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), want_fault + (want_ours ? 128 : 0));
}

TEST(a_directory_is_locked_until_it_is_closed_or_the_process_ends)
{
    int one, two;
    int64_t pid = -1;
    if (!open_place())
        return;
    CHECK_EQ(disk->open_dir(disk, place, false, &one), 0);
    CHECK_EQ(disk->open_dir(disk, place, false, &two), 0);
    CHECK_EQ(disk->lock_dir(disk, one, &pid), 0);
    CHECK_EQ(pid, 0);
    CHECK_EQ(mode_of("lock"), 0600);
    CHECK_EQ(disk->lock_dir(disk, two, &pid), EAGAIN);
    CHECK_EQ(pid, getpid());
    check_other_process(EAGAIN, true);
    disk->close_dir(disk, two); /* the lock is not its */
    check_other_process(EAGAIN, true);
    disk->close_dir(disk, one);
    check_other_process(0, false); /* it takes it and ends */
    CHECK_EQ(disk->lock_dir(disk, dir, &pid), 0);
    close_place();
}

TEST(a_holder_who_has_not_said_who_he_is_is_not_known)
{
    int other;
    int64_t pid = -1;
    if (!open_place())
        return;
    CHECK_EQ(disk->lock_dir(disk, dir, &pid), 0);
    CHECK_EQ(disk->open_dir(disk, place, false, &other), 0);
    static const char *const texts[] = {"", "what", "-5\n", "0"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int file = -1;
        CHECK_EQ(disk->open(disk, dir, "lock", DISK_WRITE, &file), 0);
        CHECK_EQ(disk->truncate(disk, file, 0), 0);
        CHECK_EQ(disk->write(disk, file, texts[i], strlen(texts[i]), 0), 0);
        CHECK_EQ(disk->close(disk, file), 0);
        pid = -1;
        CHECK_EQ(disk->lock_dir(disk, other, &pid), EAGAIN);
        CHECK_EQ(pid, 0);
    }
    disk->close_dir(disk, other);
    close_place();
}

TEST(a_lock_that_leads_elsewhere_is_refused)
{
    int64_t pid;
    if (!open_place())
        return;
    put_file("precious", "text");
    CHECK_EQ(symlinkat("precious", dir, "lock"), 0);
    CHECK_EQ(disk->lock_dir(disk, dir, &pid), ELOOP);
    CHECK_STR(text_of(dir, "precious"), "text");
    CHECK_EQ(disk->remove(disk, dir, "lock"), 0);
    CHECK_EQ(mkfifoat(dir, "lock", 0600), 0);
    CHECK_EQ(disk->lock_dir(disk, dir, &pid), ENOTSUP);
    CHECK_EQ(disk->remove(disk, dir, "lock"), 0);
    close_place();
}

TEST(who_only_reads_sees_the_lock_and_leaves_nothing)
{
    int other;
    int64_t pid = -1;
    if (!open_place())
        return;
    CHECK_EQ(disk->watch_dir(disk, dir, &pid), 0);
    CHECK(text_of(dir, "lock") == NULL);
    CHECK_EQ(disk->lock_dir(disk, dir, &pid), 0);
    CHECK_EQ(disk->open_dir(disk, place, false, &other), 0);
    CHECK_EQ(disk->watch_dir(disk, other, &pid), EAGAIN);
    CHECK_EQ(pid, getpid());
    disk->close_dir(disk, dir);
    CHECK_EQ(disk->open_dir(disk, place, false, &dir), 0);
    CHECK_EQ(disk->rename(disk, dir, "lock", "before"), 0);
    put_file("lock", "someone\n");
    CHECK_EQ(disk->watch_dir(disk, other, &pid), 0);
    CHECK_STR(text_of(dir, "lock"), "someone\n");
    CHECK_EQ(disk->lock_dir(disk, dir, &pid), EAGAIN); /* nobody changes it while it is read */
    disk->close_dir(disk, other);
    CHECK_EQ(disk->lock_dir(disk, dir, &pid), 0);
    close_place();
}

TEST(a_directory_that_is_taken_away_is_missed)
{
    char away[80];
    int64_t pid;
    if (!open_place())
        return;
    CHECK_EQ(disk->same_dir(disk, dir), EBADF); /* it is not locked */
    CHECK_EQ(disk->lock_dir(disk, dir, &pid), 0);
    CHECK_EQ(disk->same_dir(disk, dir), 0);
    (void)snprintf(away, sizeof away, "%s.away", place);
    CHECK_EQ(rename(place, away), 0);
    CHECK_EQ(disk->same_dir(disk, dir), ESTALE);
    CHECK_EQ(mkdir(place, 0700), 0); /* another one in its place */
    CHECK_EQ(disk->same_dir(disk, dir), ESTALE);
    CHECK_EQ(rmdir(place), 0);
    CHECK_EQ(rename(away, place), 0);
    CHECK_EQ(disk->same_dir(disk, dir), 0);
    CHECK_EQ(disk->remove(disk, dir, "lock"), 0);
    CHECK_EQ(disk->same_dir(disk, dir), ESTALE);
    put_file("lock", "another\n");
    CHECK_EQ(disk->same_dir(disk, dir), ESTALE);
    close_place();
}

TEST(where_a_process_goes_does_not_matter_to_its_directory)
{
    char before[256];
    int other = -1;
    int64_t pid;
    if (!open_place() || !CHECK(getcwd(before, sizeof before)))
        return;
    CHECK_EQ(chdir(place), 0);
    CHECK_EQ(disk->open_dir(disk, ".", false, &other), 0);
    CHECK_EQ(disk->lock_dir(disk, other, &pid), 0);
    CHECK_EQ(chdir(before), 0);
    CHECK_EQ(disk->same_dir(disk, other), 0);
    disk->close_dir(disk, other);
    close_place();
}

/* ---- files ---- */

TEST(a_file_is_opened_as_it_is_wanted)
{
    int file = -1, sub;
    if (!open_place())
        return;
    CHECK_EQ(disk->open(disk, dir, "a", DISK_READ, &file), ENOENT);
    CHECK_EQ(disk->open(disk, dir, "a", DISK_WRITE, &file), ENOENT);
    put_file("a", "abc");
    CHECK_EQ(mode_of("a"), 0600);
    CHECK_EQ(disk->open(disk, dir, "a", DISK_CREATE, &file), EEXIST);
    CHECK_EQ(file, -1);
    CHECK_EQ(disk->open(disk, dir, "a", DISK_READ, &file), 0);
    CHECK_EQ(fcntl(file, F_GETFD), FD_CLOEXEC);
    CHECK_EQ(disk->write(disk, file, "x", 1, 0), EBADF);
    CHECK_EQ(disk->close(disk, file), 0);
    CHECK_EQ(disk->close(disk, file), EBADF);
    CHECK_EQ(disk->open(disk, dir, "a", DISK_WRITE, &file), 0);
    CHECK_EQ(disk->write(disk, file, "x", 1, 1), 0);
    CHECK_EQ(disk->close(disk, file), 0);
    CHECK_STR(text_of(dir, "a"), "axc");
    CHECK_EQ(symlinkat("a", dir, "link"), 0);
    CHECK_EQ(disk->open(disk, dir, "link", DISK_READ, &file), ELOOP);
    CHECK_EQ(disk->open(disk, dir, "link", DISK_WRITE, &file), ELOOP);
    CHECK_EQ(disk->open(disk, dir, "link", DISK_CREATE, &file), EEXIST);
    CHECK_EQ(mkfifoat(dir, "pipe", 0600), 0);
    CHECK_EQ(disk->open(disk, dir, "pipe", DISK_READ, &file), ENOTSUP); /* and does not wait for a writer */
    CHECK_EQ(disk->open_sub(disk, dir, "sub", true, &sub), 0);
    disk->close_dir(disk, sub);
    CHECK_EQ(disk->open(disk, dir, "sub", DISK_READ, &file), ENOTSUP);
    CHECK_EQ(unlinkat(dir, "link", 0) + unlinkat(dir, "pipe", 0) + unlinkat(dir, "sub", AT_REMOVEDIR), 0);
    close_place();
}

TEST(bytes_come_back)
{
    char text[16] = "";
    uint64_t done = 99, size = 99;
    if (!open_place())
        return;
    int file = make_file("a", "0123456789");
    CHECK_EQ(disk->size(disk, file, &size), 0);
    CHECK_EQ(size, 10);
    CHECK_EQ(disk->read(disk, file, text, 4, 3, &done), 0);
    CHECK(done == 4 && memcmp(text, "3456", 4) == 0);
    CHECK_EQ(disk->read(disk, file, text, sizeof text, 8, &done), 0);
    CHECK(done == 2 && memcmp(text, "89", 2) == 0);
    CHECK_EQ(disk->read(disk, file, text, 1, 10, &done), 0);
    CHECK_EQ(done, 0);
    CHECK_EQ(disk->write(disk, file, "xy", 2, 12), 0); /* zeros between */
    CHECK_EQ(disk->read(disk, file, text, sizeof text, 8, &done), 0);
    CHECK(done == 6 && memcmp(text, "89\0\0xy", 6) == 0);
    CHECK_EQ(disk->truncate(disk, file, 4), 0);
    CHECK_EQ(disk->truncate(disk, file, 6), 0);
    CHECK_EQ(disk->read(disk, file, text, sizeof text, 0, &done), 0);
    CHECK(done == 6 && memcmp(text, "0123\0", 6) == 0);
    disk->flush(disk, file, 0, 6);
    CHECK_EQ(disk->sync(disk, file), 0);
    CHECK_EQ(disk->write(disk, file, NULL, 0, 0), 0);
    CHECK_EQ(disk->close(disk, file), 0);
    close_place();
}

TEST(numbers_that_no_file_has_are_refused)
{
    uint64_t done = 99;
    char byte;
    if (!open_place())
        return;
    int file = make_file("a", "");
    CHECK_EQ(disk->read(disk, file, &byte, 1, UINT64_MAX, &done), EINVAL);
    CHECK_EQ(done, 0);
    CHECK_EQ(disk->read(disk, file, &byte, UINT64_MAX, 1, &done), EINVAL);
    CHECK_EQ(disk->write(disk, file, "x", 1, INT64_MAX), EFBIG);
    CHECK_EQ(disk->write(disk, file, "x", UINT64_MAX, 5), EFBIG);
    CHECK_EQ(disk->truncate(disk, file, UINT64_MAX), EFBIG);
    disk->flush(disk, file, UINT64_MAX, UINT64_MAX);
    CHECK_EQ(disk->size(disk, file, &done), 0);
    CHECK_EQ(done, 0);
    CHECK_EQ(disk->close(disk, file), 0);
    close_place();
}

/* /dev/full takes nothing, ever. It is no file, so it is opened by hand. */
TEST(a_full_disk_says_so)
{
    int full = open("/dev/full", O_RDWR | O_CLOEXEC);
    if (full < 0) {
        check_skip("there is no /dev/full");
        return;
    }
    CHECK_EQ(disk->write(disk, full, "x", 1, 0), ENOSPC);
    CHECK_EQ(disk->sync(disk, full), EINVAL);
    CHECK_EQ(disk->close(disk, full), 0);
}

/* ---- the disk that fails ---- */

/* What it is for takes a file system whose journal fails: tests/server/test_power.py. */
TEST(a_witness_changes_no_file_and_needs_one_that_can_be_written)
{
    int file = -1, sub = -1;
    int64_t pid;
    uint64_t bytes;
    if (!open_place())
        return;
    CHECK_EQ(disk->open(disk, dir, "a", DISK_CREATE, &file), 0);
    CHECK_EQ(disk->write(disk, file, "abc", 3, 0), 0);
    CHECK_EQ(disk->witness(disk, file), 0);
    CHECK_STR(text_of(dir, "a"), "abc");
    CHECK_EQ(disk->close(disk, file), 0);
    CHECK_EQ(disk->witness(disk, file), EBADF);
    CHECK_EQ(disk->open(disk, dir, "a", DISK_READ, &file), 0);
    CHECK_EQ(disk->witness(disk, file), EINVAL);
    CHECK_EQ(disk->close(disk, file), 0);
    CHECK(disk->witness(disk, dir) != 0); /* it is not locked */
    CHECK_EQ(disk->open_dir(disk, place, false, &sub), 0);
    CHECK_EQ(disk->lock_dir(disk, sub, &pid), 0);
    CHECK_EQ(disk->witness(disk, sub), 0);
    CHECK_EQ(disk->open(disk, dir, "lock", DISK_READ, &file), 0);
    CHECK_EQ(disk->size(disk, file, &bytes), 0);
    CHECK(bytes > 0); /* who has it is still in there */
    CHECK_EQ(disk->close(disk, file), 0);
    disk->close_dir(disk, sub);
    close_place();
}

TEST(the_call_that_was_ordered_fails_and_no_other)
{
    struct faulty faulty;
    int file = -1;
    if (!open_place())
        return;
    faulty_init(&faulty, NULL);
    struct disk *failing = &faulty.disk;
    CHECK_EQ(failing->open(failing, dir, "a", DISK_CREATE, &file), 0);
    CHECK_EQ(failing->write(failing, file, "a", 1, 0), 0);
    faulty_fail(&faulty, DISK_CALL_WRITE, 2, EIO, false);
    CHECK_EQ(failing->write(failing, file, "b", 1, 1), 0);
    CHECK_EQ(failing->sync(failing, file), 0);
    CHECK_EQ(failing->write(failing, file, "c", 1, 0), EIO);
    CHECK_EQ(failing->write(failing, file, "d", 1, 2), 0);
    CHECK_STR(text_of(dir, "a"), "abd");
    faulty_fail(&faulty, DISK_CALL_SYNC, 1, ENOSPC, true);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(failing->sync(failing, file), ENOSPC);
    faulty_no_faults(&faulty);
    CHECK_EQ(failing->sync(failing, file), 0);
    faulty_fail(&faulty, DISK_CALL_ANY, 2, EROFS, false);
    CHECK_EQ(failing->sync(failing, file), 0);
    CHECK_EQ(failing->rename(failing, dir, "a", "b"), EROFS);
    CHECK_EQ(failing->rename(failing, dir, "a", "b"), 0);
    CHECK_EQ(faulty.calls[DISK_CALL_WRITE], 4);
    CHECK_EQ(faulty.calls[DISK_CALL_SYNC], 6);
    CHECK_EQ(faulty.calls[DISK_CALL_ANY], 13);
    CHECK_EQ(faulty.failed, 5);
    CHECK_EQ(faulty.open, 1);
    faulty_fail(&faulty, DISK_CALL_CLOSE, 1, EIO, false);
    CHECK_EQ(failing->close(failing, file), EIO); /* it is closed all the same */
    CHECK_EQ(disk->close(disk, file), EBADF);
    CHECK_EQ(faulty.open, 0);
    close_place();
}

static int count_one(void *arg, const char *name, uint64_t bytes)
{
    (void)name, (void)bytes;
    ++*(int *)arg;
    return 0;
}

/* Makes each call once, on a disk where the n-th fails; gives how many succeeded. */
static int call_all(struct disk *d, struct faulty *faulty)
{
    int at = -1, sub = -1, file = -1, good = 0, files = 0;
    int64_t pid;
    uint64_t number;
    char byte;
    good += d->open_dir(d, place, true, &at) == 0;
    good += d->open_sub(d, at, "sub", true, &sub) == 0;
    good += d->lock_dir(d, at, &pid) == 0;
    good += d->open(d, at, "a", DISK_CREATE, &file) == 0;
    good += d->write(d, file, "x", 1, 0) == 0;
    good += d->truncate(d, file, 5) == 0;
    good += d->size(d, file, &number) == 0;
    good += d->read(d, file, &byte, 1, 0, &number) == 0;
    d->flush(d, file, 0, 1);
    good += d->sync(d, file) == 0;
    good += d->witness(d, at) == 0;
    good += d->link(d, at, "a", sub, "l") == 0;
    good += d->rename(d, at, "a", "b") == 0;
    good += d->sync_dir(d, at) == 0;
    good += d->list(d, at, count_one, &files) == 0;
    good += d->room(d, at, &number) == 0;
    good += d->remove(d, sub, "l") == 0;
    good += file >= 0 && d->close(d, file) == 0;
    if (sub >= 0)
        d->close_dir(d, sub);
    if (at >= 0)
        d->close_dir(d, at);
    CHECK_EQ(faulty->open, 0);
    return good;
}

TEST(every_kind_of_call_can_fail)
{
    struct faulty faulty;
    for (int kind = -1; kind < DISK_CALLS; kind++) {
        if (!open_place())
            return;
        faulty_init(&faulty, &weir_disk);
        if (kind >= 0)
            faulty_fail(&faulty, (enum disk_call)kind, 1, EIO, false);
        int good = call_all(&faulty.disk, &faulty);
        CHECK_EQ(faulty.failed, kind >= 0 ? 1 : 0);
        if (!CHECK(kind >= 0 ? good < DISK_CALLS : good == DISK_CALLS))
            printf("# %s: %d\n", disk_call_names[kind < 0 ? DISK_CALLS : kind], good);
        int sub;
        if (disk->open_sub(disk, dir, "sub", false, &sub) == 0) {
            (void)disk->remove(disk, sub, "l");
            disk->close_dir(disk, sub);
            CHECK_EQ(unlinkat(dir, "sub", AT_REMOVEDIR), 0);
        }
        close_place();
    }
}

static void *sync_often(void *arg)
{
    struct faulty *faulty = arg;
    int64_t failed = 0;
    for (int i = 0; i < 5000; i++) {
        uint64_t bytes;
        failed += faulty->disk.room(&faulty->disk, dir, &bytes) != 0;
    }
    return (void *)(intptr_t)failed;
}

TEST(of_many_threads_one_gets_the_fault)
{
    struct faulty faulty;
    pthread_t threads[4];
    int64_t failed = 0;
    if (!open_place())
        return;
    faulty_init(&faulty, NULL);
    faulty_fail(&faulty, DISK_CALL_ROOM, 7000, EIO, false);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, sync_often, &faulty), 0);
    for (int i = 0; i < 4; i++) {
        void *result = NULL;
        CHECK_EQ(pthread_join(threads[i], &result), 0);
        failed += (intptr_t)result;
    }
    CHECK_EQ(failed, 1);
    CHECK_EQ(faulty.calls[DISK_CALL_ROOM], 20000);
    close_place();
}
