/* SPDX-License-Identifier: MIT */
/*
 * What a file has to know to keep time from one boot to the next, and between time namespaces. Read when a
 * region is opened, the wall clock also once a second; never for a decision.
 */
#ifndef WEIR_OS_BOOT_H
#define WEIR_OS_BOOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BOOT_ID_SIZE 16

struct boot {
    /* Which boot of the machine this is: the same for all its processes, another one for every boot. */
    bool (*id)(unsigned char id[BOOT_ID_SIZE]);
    /* How far this process's CLOCK_BOOTTIME is ahead of the machine's. */
    bool (*shift)(int64_t *shift_ns);
    int64_t (*wall)(void); /* nanoseconds since 1970, if the machine knows */
};

/* The start of a small file, such as those of /proc, as text. false: it cannot be read. */
bool weir_read_file_start(const char *path, char *text, size_t size);

extern struct boot weir_boot; /* tests put their own functions here, to pretend */

#endif
