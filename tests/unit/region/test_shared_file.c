/* SPDX-License-Identifier: MIT */
/*
 * Files that another user put where a table is expected. A table takes a file only if this process's user
 * made it, or if the caller's `mode` says that the file is shared and the file is no more open than that.
 * With root these are attacks by a second user; without, that user is left out.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "weir.h"

#define LIMITS   "10/s"
#define PATIENCE 30 /* seconds until a child that hangs is ended */

enum { STRANGER = 65534, FRIEND = 65533, GROUP = 65532 };

static char folder[64];

__attribute__((destructor)) static void remove_folder(void)
{
    if (folder[0])
        (void)rmdir(folder);
}

/* A path in a directory where everybody may make files, as in /dev/shm; nothing is there. */
static const char *fresh_path(void)
{
    static char path[96];
    if (!folder[0]) {
        (void)snprintf(folder, sizeof folder, "%s/weir-shared-XXXXXX",
                       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        if (!mkdtemp(folder) || chmod(folder, 01777) != 0)
            folder[0] = '\0';
    }
    (void)snprintf(path, sizeof path, "%s/table", folder);
    (void)unlink(path);
    return path;
}

static struct weir_table *open_as(const char *path, int32_t mode, struct weir_error *err)
{
    return weir_table_make(path, LIMITS, &(struct weir_table_options){.keys = 50, .mode = mode}, err);
}

static bool opens(const char *path, int32_t mode)
{
    struct weir_error err;
    struct weir_table *table = open_as(path, mode, &err);
    if (!table)
        printf("# %s\n", err.text);
    bool opened = table && weir_table_take(table, "key", 3, 1, NULL);
    weir_table_free(table);
    return opened;
}

static bool refused(const char *path, int32_t mode, int code, const char *part)
{
    struct weir_error err;
    struct weir_table *table = open_as(path, mode, &err);
    if (table)
        printf("# it was opened; expected: %s\n", part);
    else if (err.code != code || !strstr(err.text, part))
        printf("# error %d: %s\n# expected %d: ... %s\n", err.code, err.text, code, part);
    bool right = !table && err.code == code && strstr(err.text, part) && strstr(err.text, path);
    weir_table_free(table);
    return right;
}

static bool put_file(const char *path, mode_t mode, size_t bytes)
{
    int file = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    bool put = file >= 0 && fchmod(file, mode) == 0 && ftruncate(file, (off_t)bytes) == 0;
    (void)close(file);
    return put;
}

/* ---- a second user ---- */

/* Runs `body` as that user, in these groups; gives what it returns, or -1. */
static int as_user(uid_t user, gid_t group, int (*body)(const char *path), const char *path)
{
    int status = 0;
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(PATIENCE);
        if (setgroups(1, &group) != 0 || setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0)
            _exit(99);
        int result = body(path);
        (void)fflush(stdout);
        _exit(result);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool is_root(void)
{
    if (geteuid() == 0)
        return true;
    check_skip("only root can act as a second user");
    return false;
}

static int put_empty(const char *path)
{
    return put_file(path, 0666, 0) ? 0 : 1;
}

static int put_table(const char *path)
{
    return opens(path, 0) ? 0 : 1;
}

static int put_open_table(const char *path)
{
    return opens(path, 0666) ? 0 : 1;
}

static int put_group_table(const char *path)
{
    return opens(path, 0660) && chown(path, (uid_t)-1, GROUP) == 0 ? 0 : 1;
}

static int put_empty_for_group(const char *path)
{
    return put_file(path, 0660, 0) && chown(path, (uid_t)-1, GROUP) == 0 ? 0 : 1;
}

static int refuse_theirs(const char *path)
{
    return refused(path, 0, EPERM, "belongs to another user (uid 0)") ? 0 : 1;
}

static int open_for_group(const char *path)
{
    return opens(path, 0660) ? 0 : 1;
}

static int refuse_empty(const char *path)
{
    return refused(path, 0660, EPERM, "is empty") ? 0 : 1;
}

TEST(a_file_that_another_user_made_is_not_filled)
{
    struct stat status;
    const char *path = fresh_path();
    if (!is_root())
        return;
    CHECK_EQ(as_user(STRANGER, STRANGER, put_empty, path), 0);
    CHECK(refused(path, 0, EPERM, "belongs to another user (uid 65534)"));
    CHECK(refused(path, 0600, EPERM, "belongs to another user (uid 65534)"));
    CHECK(refused(path, 0660, EPERM, "belongs to another user (uid 65534)"));
    CHECK(refused(path, 0666, EPERM, "is empty")); /* not even if everybody may write to it */
    CHECK(stat(path, &status) == 0 && status.st_size == 0 && status.st_uid == STRANGER);
    CHECK(unlink(path) == 0 && put_file(path, 0666, 0));
    CHECK_EQ(as_user(STRANGER, STRANGER, refuse_theirs, path), 0);
    CHECK(stat(path, &status) == 0 && status.st_size == 0);
    (void)unlink(path);
}

TEST(a_table_that_another_user_made_is_not_used_unless_all_are_to_share_it)
{
    const char *path = fresh_path();
    if (!is_root())
        return;
    CHECK_EQ(as_user(STRANGER, STRANGER, put_table, path), 0);
    CHECK(refused(path, 0, EPERM, "belongs to another user (uid 65534)"));
    CHECK(unlink(path) == 0);
    CHECK_EQ(as_user(STRANGER, STRANGER, put_open_table, path), 0);
    CHECK(refused(path, 0, EPERM, "belongs to another user (uid 65534)"));
    CHECK(opens(path, 0666));
    (void)unlink(path);
}

/* The caller names 0660: other users of the file's group may have made it, if it is a group of the caller's.
 */
TEST(a_table_is_shared_by_a_group_if_the_caller_says_so)
{
    const char *path = fresh_path();
    if (!is_root())
        return;
    CHECK_EQ(as_user(STRANGER, GROUP, put_group_table, path), 0);
    CHECK_EQ(as_user(FRIEND, GROUP, open_for_group, path), 0);
    CHECK(refused(path, 0660, EPERM, "belongs to another user")); /* root is in no such group */
    CHECK(unlink(path) == 0);
    CHECK_EQ(as_user(STRANGER, GROUP, put_empty_for_group, path), 0);
    CHECK_EQ(as_user(FRIEND, GROUP, refuse_empty, path), 0);
    CHECK_EQ(as_user(STRANGER, GROUP, open_for_group, path), 0); /* who made it fills it */
    CHECK_EQ(as_user(FRIEND, GROUP, open_for_group, path), 0);
    (void)unlink(path);
}

/* The stranger's lock on his own file keeps nobody waiting. */
TEST(a_lock_that_another_user_has_on_a_file_is_not_waited_for)
{
    const char *path = fresh_path();
    if (!is_root())
        return;
    CHECK_EQ(as_user(STRANGER, STRANGER, put_empty, path), 0);
    int file = open(path, O_RDWR | O_CLOEXEC);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    CHECK(file >= 0 && fcntl(file, F_OFD_SETLK, &whole) == 0);
    (void)alarm(PATIENCE);
    CHECK(refused(path, 0, EPERM, "belongs to another user (uid 65534)"));
    (void)alarm(0);
    (void)close(file);
    (void)unlink(path);
}

/* ---- what anybody can check ---- */

TEST(a_file_that_more_users_may_write_to_than_the_caller_says_is_refused)
{
    static const struct {
        mode_t has;
        int32_t asked;
        const char *part; /* of the error; NULL: it opens */
    } cases[] = {
        {0600, 0, NULL},
        {0644, 0, NULL}, /* readers change nothing */
        {0660, 0, "its mode is 0660"},
        {0602, 0, "its mode is 0602"},
        {0666, 0600, "its mode is 0666"},
        {0660, 0660, NULL},
        {0662, 0660, "its mode is 0662"},
        {0660, 0606, "its mode is 0660"},
        {0600, 0660, NULL},
        {0666, 0666, NULL},
    };
    const char *path = fresh_path();
    for (size_t full = 0; full < 2; full++) /* an empty file, and a table */
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            (void)unlink(path);
            CHECK(full ? opens(path, 0) && chmod(path, cases[i].has) == 0 : put_file(path, cases[i].has, 0));
            CHECK(cases[i].part ? refused(path, cases[i].asked, EPERM, cases[i].part)
                                : opens(path, cases[i].asked));
        }
    (void)unlink(path);
}

TEST(links_and_what_is_no_ordinary_file_are_refused)
{
    char target[96];
    const char *path = fresh_path();
    (void)snprintf(target, sizeof target, "%s/target", folder);
    CHECK(opens(target, 0) && symlink(target, path) == 0);
    CHECK(refused(path, 0, ELOOP, "is a symbolic link"));
    CHECK(unlink(target) == 0);
    CHECK(refused(path, 0, ELOOP, "is a symbolic link"));
    CHECK(access(target, F_OK) != 0); /* nothing was made where it leads to */
    CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
    (void)alarm(PATIENCE);
    CHECK(refused(path, 0, ENOTSUP, "is no ordinary file"));
    (void)alarm(0);
    CHECK(unlink(path) == 0 && mkdir(path, 0700) == 0);
    CHECK(refused(path, 0, EISDIR, "is a folder"));
    CHECK(rmdir(path) == 0);
    CHECK(refused("/dev/null", 0, ENOTSUP, "is no ordinary file"));
}
