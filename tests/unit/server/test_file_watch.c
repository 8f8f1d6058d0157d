/* SPDX-License-Identifier: MIT */
/*
 * Files that are watched: changes are seen, once, and not before they are over.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "server/file_watch.h"
#include "unit/folder.h"

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    if (CHECK(file != NULL)) {
        CHECK(fputs(text, file) >= 0);
        CHECK_EQ(fclose(file), 0);
    }
}

TEST(a_change_counts_once_and_when_it_is_over)
{
    const char *folder = folder_new();
    char path[512], other[512];
    (void)snprintf(path, sizeof path, "%s/a", folder);
    (void)snprintf(other, sizeof other, "%s/b", folder);
    write_file(path, "1");
    const char *const paths[] = {NULL, path, other};
    struct file_watch watch = {.count = 0};
    CHECK(!weir_file_watch_look(&watch)); /* of nothing */
    weir_file_watch_set(&watch, paths, 3);
    CHECK_EQ(watch.count, 2);
    CHECK(!weir_file_watch_look(&watch) && !weir_file_watch_look(&watch));
    write_file(path, "12");
    CHECK(!weir_file_watch_look(&watch)); /* it may go on */
    write_file(path, "123");
    CHECK(!weir_file_watch_look(&watch));
    CHECK(weir_file_watch_look(&watch));
    CHECK(!weir_file_watch_look(&watch));
    write_file(other, ""); /* which was not there */
    CHECK(!weir_file_watch_look(&watch));
    weir_file_watch_set(&watch, paths, 3); /* what is known stays known */
    CHECK(weir_file_watch_look(&watch));
    CHECK_EQ(unlink(path), 0);
    CHECK(!weir_file_watch_look(&watch) && weir_file_watch_look(&watch) && !weir_file_watch_look(&watch));
    write_file(path, "4");
    weir_file_watch_set(&watch, paths, 0);
    CHECK(!weir_file_watch_look(&watch) && !weir_file_watch_look(&watch));
}

TEST(a_link_to_another_folder_is_a_change)
{
    const char *folder = folder_new();
    char path[512], one[512], two[512], data[512], next[512];
    (void)snprintf(path, sizeof path, "%s/..data/a", folder);
    (void)snprintf(one, sizeof one, "%s/1", folder);
    (void)snprintf(two, sizeof two, "%s/2", folder);
    (void)snprintf(data, sizeof data, "%s/..data", folder);
    (void)snprintf(next, sizeof next, "%s/..next", folder);
    CHECK(mkdir(one, 0700) == 0 && mkdir(two, 0700) == 0 && symlink("1", data) == 0 &&
          symlink("2", next) == 0);
    write_file(path, "same");
    const char *const paths[] = {path};
    struct file_watch watch = {.count = 0};
    weir_file_watch_set(&watch, paths, 1);
    char later[520];
    (void)snprintf(later, sizeof later, "%s/a", two);
    write_file(later, "same");
    CHECK(!weir_file_watch_look(&watch) && !weir_file_watch_look(&watch));
    CHECK_EQ(rename(next, data), 0);
    CHECK(!weir_file_watch_look(&watch) && weir_file_watch_look(&watch));
    weir_file_watch_set(&watch, NULL, 0);
}
