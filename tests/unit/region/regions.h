/* SPDX-License-Identifier: MIT */
/*
 * For tests of regions: shapes, files in a folder of their own, children.
 */
#ifndef WEIR_TESTS_UNIT_REGIONS_H
#define WEIR_TESTS_UNIT_REGIONS_H

#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "region/layout.h"
#include "region/stripe.h"

#define PATIENCE 30 /* seconds until a child that hangs is ended */

static char folder[64];

__attribute__((destructor)) static void remove_folder(void)
{
    if (folder[0])
        (void)rmdir(folder);
}

/* The path of a file that is not there, until the next call. */
__attribute__((unused)) static const char *fresh_path(const char *name)
{
    static char path[128];
    if (!folder[0]) {
        (void)snprintf(folder, sizeof folder, "%s/weir-region-XXXXXX",
                       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        if (!mkdtemp(folder))
            folder[0] = '\0';
    }
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)unlink(path);
    return path;
}

static struct region_shape shape_of(uint32_t kind, uint64_t lines)
{
    struct region_shape shape = {.kind = kind,
                                 .capacity = lines * 3,
                                 .slot_size = 16,
                                 .line_slots = 4,
                                 .lines = lines,
                                 .stripes = 8,
                                 .journal_size = weir_journal_size(256, 4),
                                 .transaction_size = weir_journal_size(512, 8),
                                 .parts = {300, 64, 0, 1},
                                 .own = {7, 8}};
    if (kind == REGION_WIDE) {
        shape.flags = REGION_NUMBERED;
        shape.slot_size = 56;
        shape.line_slots = 3;
    } else if (kind == REGION_RECORDS) {
        shape.slot_size = 48;
        shape.line_slots = 1;
    }
    return shape;
}

static struct region *open_region(const char *path, const struct region_shape *shape, bool *made, bool *alone)
{
    struct weir_error err;
    struct region *region = weir_region_open(path, shape, 0600, made, alone, &err);
    if (!region)
        printf("# %s\n", err.text);
    return region;
}

/* Opens it, ready for others; NULL if that is not what it should be. */
__attribute__((unused)) static struct region *open_ready(const char *path, bool want_made, bool want_alone)
{
    struct region_shape shape = shape_of(REGION_WORDS, 64);
    bool made = false, alone = false;
    struct region *region = open_region(path, &shape, &made, &alone);
    if (!CHECK(region != NULL))
        return NULL;
    CHECK_EQ(made, want_made);
    CHECK_EQ(alone, want_alone);
    weir_region_ready(region);
    return region;
}

static bool is_zero(const unsigned char *bytes, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* Runs `body` in a child; gives what it returns, or -1. */
__attribute__((unused)) static int in_child(int (*body)(void *arg), void *arg)
{
    int status = 0;
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(PATIENCE);
        _exit(body(arg));
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif
