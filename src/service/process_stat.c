/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L

#include "service/process_stat.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Fields of /proc/self/stat behind the name, which may contain anything: proc(5) counts from 1, and the
 * first one behind the name is 3. */
#define FIRST_FIELD  3
#define THREADS      20
#define VIRTUAL_SIZE 23
#define RESIDENT     24 /* pages */

static void read_fields(struct process_stat *stat)
{
    char text[1024];
    int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t len = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0)
        (void)close(file);
    text[len > 0 ? len : 0] = '\0';
    char *at = strrchr(text, ')');
    for (int field = FIRST_FIELD; at && field <= RESIDENT; field++) {
        at = strchr(at + 1, ' ');
        int64_t number = at ? strtoll(at, NULL, 10) : 0;
        if (field == THREADS)
            stat->threads = number;
        else if (field == VIRTUAL_SIZE)
            stat->virtual_bytes = number;
        else if (field == RESIDENT)
            stat->resident_bytes = number * sysconf(_SC_PAGESIZE);
    }
}

/* Kernels since 6.2 tell the number as the size of the folder. */
static int64_t count_open_files(void)
{
    struct stat folder;
    if (stat("/proc/self/fd", &folder) == 0 && folder.st_size > 0)
        return (int64_t)folder.st_size;
    DIR *dir = opendir("/proc/self/fd");
    int64_t count = 0;
    while (dir && readdir(dir))
        count++;
    if (!dir)
        return 0;
    (void)closedir(dir);
    return count - 3; /* . and .. and the folder itself */
}

static int64_t ns_of_time(const struct timeval *time)
{
    return (int64_t)time->tv_sec * 1000000000 + (int64_t)time->tv_usec * 1000;
}

void weir_process_stat(struct process_stat *stat)
{
    struct rusage usage;
    struct rlimit files;
    *stat = (struct process_stat){.open_files = count_open_files()};
    read_fields(stat);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        stat->cpu_ns = ns_of_time(&usage.ru_utime) + ns_of_time(&usage.ru_stime);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        stat->most_files = files.rlim_cur > INT64_MAX ? INT64_MAX : (int64_t)files.rlim_cur;
}
