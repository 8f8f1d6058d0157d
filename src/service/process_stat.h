/* SPDX-License-Identifier: MIT */
/*
 * What the kernel knows of this process.
 */
#ifndef WEIR_SERVICE_PROCESS_STAT_H
#define WEIR_SERVICE_PROCESS_STAT_H

#include <stdint.h>

struct process_stat { /* what is not known is 0 */
    int64_t cpu_ns;
    int64_t resident_bytes, virtual_bytes;
    int64_t threads;
    int64_t open_files, most_files;
};

void weir_process_stat(struct process_stat *stat);

#endif
