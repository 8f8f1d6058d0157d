/* SPDX-License-Identifier: MIT */
#include "base/assert.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void append_line(const char *path, const char *line)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd < 0)
        return;
    ssize_t written = write(fd, line, strlen(line));
    (void)written; /* the process ends either way */
    close(fd);
}

/* No allocation and no lock of stdio: it may be called with any lock held. */
_Noreturn void weir_assert_failed(int invariant, const char *condition, const char *file, int line)
{
    char text[512], number[32] = "assertion";
    if (invariant > 0)
        (void)snprintf(number, sizeof number, "invariant %d", invariant);
    (void)snprintf(text, sizeof text, "weir: %s:%d: %s failed: %s\n", file, line, number, condition);
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
    const char *path = getenv("WEIR_ASSERT_FILE");
    if (path)
        append_line(path, text);
    abort();
}
