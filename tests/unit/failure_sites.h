/* SPDX-License-Identifier: MIT */
/*
 * Which calls have failed in a test that lets all of them fail: with WEIR_FAILURE_SITES=1 each place from
 * which one came is printed once, as an address in the program; script/failure-sites makes a list of lines of
 * it.
 */
#ifndef WEIR_TESTS_UNIT_FAILURE_SITES_H
#define WEIR_TESTS_UNIT_FAILURE_SITES_H

#include "check.h"

#define SITES_MOST 1024

extern const char __executable_start[]; /* the linker's */

static struct {
    const char *kind;
    void *address;
} sites[SITES_MOST];
static size_t site_count;

static inline void site_add(const char *kind, void *address)
{
    for (size_t i = 0; i < site_count; i++)
        if (sites[i].address == address && strcmp(sites[i].kind, kind) == 0)
            return;
    if (!address || !CHECK(site_count < SITES_MOST))
        return;
    sites[site_count].kind = kind;
    sites[site_count++].address = address;
    if (check_env("WEIR_FAILURE_SITES", 0) > 0)
        printf("site %s 0x%zx\n", kind, (size_t)((const char *)address - __executable_start));
}

#endif
