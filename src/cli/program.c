/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L

#include "cli/program.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *program_beside(const char *name, char *path, size_t size)
{
    ssize_t len = readlink("/proc/self/exe", path, size - 1);
    if (len <= 0)
        return name;
    path[len] = '\0';
    char *slash = strrchr(path, '/');
    size_t room = slash ? size - (size_t)(slash + 1 - path) : 0;
    if (strlen(name) >= room)
        return name;
    snprintf(slash + 1, room, "%s", name);
    return access(path, X_OK) == 0 ? path : name;
}
