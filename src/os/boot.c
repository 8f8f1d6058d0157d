/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "os/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/sat.h"
#include "weir.h"

#define FIRST_NAMESPACE "time:[4026531834]" /* the machine's own; its number is fixed in the kernel */

bool weir_read_file_start(const char *path, char *text, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    ssize_t len = read(file, text, size - 1);
    (void)close(file);
    if (len < 0)
        return false;
    text[len] = '\0';
    return true;
}

/* ---- boot id ---- */

static int hex_digit(char letter)
{
    if (letter >= '0' && letter <= '9')
        return letter - '0';
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

/* 32 digits, with dashes somewhere between them. */
static bool parse_boot_id(const char *text, unsigned char *id)
{
    size_t digits = 0;
    memset(id, 0, BOOT_ID_SIZE);
    for (; *text && *text != '\n'; text++) {
        int digit = hex_digit(*text);
        if (*text == '-')
            continue;
        if (digit < 0 || digits == 2 * BOOT_ID_SIZE)
            return false;
        id[digits / 2] = (unsigned char)(id[digits / 2] << 4 | digit);
        digits++;
    }
    return digits == 2 * BOOT_ID_SIZE;
}

static bool read_boot_id(unsigned char *id)
{
    char text[64];
    return weir_read_file_start("/proc/sys/kernel/random/boot_id", text, sizeof text) &&
           parse_boot_id(text, id);
}

/* ---- time namespace ---- */

static bool read_link(const char *path, char *text, size_t size)
{
    ssize_t len = readlink(path, text, size - 1);
    text[len < 0 ? 0 : len] = '\0';
    return len >= 0;
}

/* "monotonic <s> <ns>\nboottime <s> <ns>\n"; an older kernel writes numbers for the names. */
static bool parse_offset(const char *text, int64_t *shift_ns)
{
    const char *line = strstr(text, "boottime");
    char *end;
    if (!line)
        line = strncmp(text, "7 ", 2) == 0 ? text : strstr(text, "\n7 ");
    if (!line)
        return false;
    line += strcspn(line, " ");
    int64_t seconds = strtoll(line, &end, 10), nanoseconds = strtoll(end, &end, 10);
    *shift_ns = sat_add(sat_mul(seconds, WEIR_SEC), nanoseconds);
    return true;
}

/*
 * The offsets file tells of the namespace that children will be in. A process that has made a new one for its
 * children stays in its own: if that is the machine's, nothing is to be corrected, and if it is another one
 * there is no way to learn by how much; then nothing is said rather than something wrong, which would mint.
 */
static bool read_shift(int64_t *shift_ns)
{
    char own[64], children[64], text[128];
    *shift_ns = 0;
    if (!read_link("/proc/self/ns/time", own, sizeof own))
        return errno == ENOENT; /* the kernel has no time namespaces */
    if (strcmp(own, FIRST_NAMESPACE) == 0)
        return true;
    return read_link("/proc/self/ns/time_for_children", children, sizeof children) &&
           strcmp(own, children) == 0 &&
           weir_read_file_start("/proc/self/timens_offsets", text, sizeof text) &&
           parse_offset(text, shift_ns);
}

static int64_t read_wall(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return sat_add(sat_mul((int64_t)ts.tv_sec, WEIR_SEC), ts.tv_nsec);
}

struct boot weir_boot = {.id = read_boot_id, .shift = read_shift, .wall = read_wall};
