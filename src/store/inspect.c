/* SPDX-License-Identifier: MIT */
#include "store/inspect.h"

#include <errno.h>

#include "base/error.h"

bool weir_inspect(struct disk *disk, const char *path, struct inspect *inspect, struct weir_error *err)
{
    (void)disk, (void)path;
    *inspect = (struct inspect){0};
    weir_error_set(err, ENOSYS, "not in this version");
    return false;
}

void weir_inspect_free(struct inspect *inspect)
{
    (void)inspect;
}

bool weir_inspect_repair(struct disk *disk, const char *path, void (*tell)(void *arg, const char *text),
                         void *arg, struct weir_error *err)
{
    (void)disk, (void)path, (void)tell, (void)arg;
    weir_error_set(err, ENOSYS, "not in this version");
    return false;
}
