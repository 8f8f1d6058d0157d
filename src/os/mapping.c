/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "os/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "os/boot.h"
#include "os/disk.h"

#define HUGE_SIZE     (UINT64_C(2) << 20)
#define MEMORY_FILES  0x01021994L          /* f_type of tmpfs */
#define RESERVE_PIECE (UINT64_C(64) << 20) /* of a reservation: a signal throws one piece back, not all */
#define MAPPING_MAX   (UINT64_C(1) << 62)  /* fits in off_t, and so does twice that */
#define OPEN_TRIES    100
#define PAUSE_NS      1000000

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

uint64_t weir_page_size(void)
{
    long size = sysconf(_SC_PAGESIZE);
    return size > 0 ? (uint64_t)size : 4096;
}

/* ---- how much memory there is ---- */

/* The number behind `word`, which starts a line; "" is the start of the file. */
static bool read_labelled_number(const char *path, const char *word, uint64_t *figure)
{
    char text[8192], *end;
    if (!weir_read_file_start(path, text, sizeof text))
        return false;
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (strncmp(line, word, strlen(word)) != 0)
            continue;
        *figure = strtoull(line + strlen(word), &end, 10);
        return end != line + strlen(word);
    }
    return false;
}

/* What a group of processes may still take: what it uses beyond its limit would end one of them. Pages that
 * only cache files make room. */
static uint64_t left_in_group(const char *group)
{
    static const char *const caches[] = {"inactive_file ", "active_file "};
    char path[4200];
    uint64_t most = 0, used = 0;
    (void)snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
    if (!read_labelled_number(path, "", &most))
        return UINT64_MAX;
    (void)snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.current", group);
    (void)read_labelled_number(path, "", &used);
    (void)snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.stat", group);
    for (int i = 0; i < 2; i++) {
        uint64_t cache = 0;
        (void)read_labelled_number(path, caches[i], &cache);
        used -= cache < used ? cache : used;
    }
    return most > used ? most - used : 0;
}

/* The group of this process, and all groups around it. */
static uint64_t left_in_groups(void)
{
    char groups[8192], *path = groups;
    uint64_t left = UINT64_MAX;
    if (!weir_read_file_start("/proc/self/cgroup", groups, sizeof groups))
        return left;
    while (path && strncmp(path, "0::/", 4) != 0)
        path = strchr(path, '\n') ? strchr(path, '\n') + 1 : NULL;
    if (!path)
        return left;
    path += 3;
    path[strcspn(path, "\n")] = '\0';
    for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
        *end = '\0';
        uint64_t here = left_in_group(path);
        left = here < left ? here : left;
    }
    return left;
}

uint64_t weir_memory_left(void)
{
    int saved = errno;
    uint64_t kilobytes, left = left_in_groups();
    if (read_labelled_number("/proc/meminfo", "MemAvailable:", &kilobytes) && kilobytes < left / 1024)
        left = kilobytes * 1024;
    errno = saved;
    return left == UINT64_MAX ? left : left - left / 16;
}

/* ---- memory of the process ---- */

static void touch_pages(unsigned char *memory, uint64_t bytes, bool write)
{
    volatile unsigned char *page = memory;
    for (uint64_t at = 0; at < bytes; at += 4096) {
        unsigned char seen = page[at];
        if (write)
            page[at] = seen; /* nobody else has it yet */
    }
}

/* A kernel before 5.14 does not know the advice. */
static int fetch_pages(unsigned char *memory, uint64_t bytes, bool write)
{
    int result;
    do {
        result = madvise(memory, bytes, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    } while (result != 0 && errno == EINTR);
    if (result == 0)
        return 0;
    if (errno != EINVAL)
        return errno == EFAULT ? EIO : errno;
    touch_pages(memory, bytes, write);
    return 0;
}

static int map_pages(int file, uint64_t offset, uint64_t bytes, unsigned char **memory)
{
    if (bytes > MAPPING_MAX || offset > MAPPING_MAX)
        return ENOMEM;
    int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, file, (off_t)offset);
    if (address == MAP_FAILED)
        return errno;
    *memory = address;
    return 0;
}

/* Asks for more and hands back what is on both sides. */
static int map_aligned(uint64_t bytes, uint64_t alignment, unsigned char **memory)
{
    unsigned char *start = NULL;
    int fault = map_pages(-1, 0, bytes + alignment, &start);
    if (fault)
        return fault;
    uint64_t before = (alignment - (uintptr_t)start % alignment) % alignment;
    if (before > 0)
        (void)munmap(start, before);
    (void)munmap(start + before + bytes, alignment - before);
    *memory = start + before;
    return 0;
}

int weir_memory_map(uint64_t bytes, unsigned char **memory, bool *huge)
{
    uint64_t page = weir_page_size();
    if (bytes == 0 || bytes > MAPPING_MAX || bytes > weir_memory_left())
        return ENOMEM;
    bytes = (bytes + page - 1) / page * page;
    bool large = bytes >= HUGE_SIZE;
    int fault = large ? map_aligned(bytes, HUGE_SIZE, memory) : map_pages(-1, 0, bytes, memory);
    if (fault)
        return fault;
    *huge = large && madvise(*memory, bytes, MADV_HUGEPAGE) == 0;
    fault = fetch_pages(*memory, bytes, true);
    if (fault)
        weir_memory_unmap(*memory, bytes);
    return fault;
}

int weir_memory_map_lazily(uint64_t bytes, unsigned char **memory)
{
    if (bytes == 0 || bytes > MAPPING_MAX || bytes > weir_memory_left())
        return ENOMEM;
    return map_pages(-1, 0, bytes, memory);
}

void weir_memory_unmap(void *memory, uint64_t bytes)
{
    if (memory)
        (void)munmap(memory, bytes);
}

static void advise_memory(void *memory, uint64_t bytes, int advice)
{
    uint64_t page = weir_page_size(), before = (page - (uintptr_t)memory % page) % page;
    if (bytes >= before + page)
        (void)madvise((unsigned char *)memory + before, (bytes - before) / page * page, advice);
}

void weir_memory_return(void *memory, uint64_t bytes)
{
    advise_memory(memory, bytes, MADV_DONTNEED);
}

void weir_memory_postpone(void *memory, uint64_t bytes)
{
    advise_memory(memory, bytes, MADV_NOHUGEPAGE);
    advise_memory(memory, bytes, MADV_DONTNEED);
}

/* ---- files ---- */

static int open_or_create(const char *path, unsigned mode, int *file, bool *created)
{
    *created = false;
    *file = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK);
    if (*file >= 0 || errno != ENOENT)
        return *file < 0 ? errno : 0;
    *file = open(path, O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL, (mode_t)(mode & 0777));
    *created = *file >= 0;
    return *file < 0 ? errno : 0;
}

/* EEXIST: it came in between the two. */
int weir_file_open(const char *path, unsigned mode, int *file, bool *created)
{
    struct stat status;
    int fault, tries = OPEN_TRIES;
    do {
        fault = open_or_create(path, mode, file, created);
    } while ((fault == EEXIST || fault == EINTR) && --tries > 0);
    if (fault)
        return fault;
    if (fstat(*file, &status) == 0 && S_ISREG(status.st_mode))
        return 0;
    (void)close(*file);
    *file = -1;
    return ENOTSUP;
}

void weir_file_close(int file)
{
    (void)close(file);
}

bool weir_file_is_at(int file, const char *path)
{
    struct stat here, there;
    return fstat(file, &here) == 0 && lstat(path, &there) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
}

static bool is_own_group(gid_t group)
{
    int count = group == getegid() ? 0 : getgroups(0, NULL);
    gid_t *groups = count > 0 ? calloc((size_t)count, sizeof *groups) : NULL;
    bool found = group == getegid();
    count = groups ? getgroups(count, groups) : 0;
    for (int i = 0; i < count; i++)
        found = found || groups[i] == group;
    free(groups);
    return found;
}

int weir_file_access(int file, struct file_access *access)
{
    struct stat status;
    if (fstat(file, &status) != 0)
        return errno;
    *access = (struct file_access){.owner = status.st_uid,
                                   .mode = status.st_mode & 07777,
                                   .is_ours = status.st_uid == geteuid(),
                                   .is_our_group = is_own_group(status.st_gid)};
    return 0;
}

int weir_file_clear(int file)
{
    return ftruncate(file, 0) == 0 ? 0 : errno;
}

int weir_file_set_mode(int file, unsigned mode)
{
    return fchmod(file, (mode_t)(mode & 0777)) == 0 || errno == EPERM ? 0 : errno;
}

void weir_file_remove(int file, const char *path)
{
    if (weir_file_is_at(file, path))
        (void)unlink(path);
}

uint64_t weir_file_room(int file)
{
    uint64_t bytes;
    return weir_disk.room(&weir_disk, file, &bytes) == 0 ? bytes : UINT64_MAX;
}

/* Is there a limit that so many bytes more, up to `end`, would break? */
static int check_room(int file, uint64_t more, uint64_t end)
{
    struct rlimit most;
    struct statfs system;
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY && end > most.rlim_cur)
        return EFBIG; /* to try would be a SIGXFSZ */
    if (more > weir_file_room(file))
        return ENOSPC;
    bool in_memory = fstatfs(file, &system) == 0 && system.f_type == MEMORY_FILES;
    return in_memory && more > weir_memory_left() ? ENOMEM : 0;
}

int weir_file_reserve(int file, uint64_t offset, uint64_t bytes)
{
    uint64_t size = 0, end = offset + bytes;
    if (offset > MAPPING_MAX || bytes > MAPPING_MAX)
        return EFBIG;
    int fault = weir_disk.size(&weir_disk, file, &size);
    if (!fault && end > size)
        fault = check_room(file, end - size, end);
    while (!fault && offset < end) {
        uint64_t piece = end - offset < RESERVE_PIECE ? end - offset : RESERVE_PIECE;
        fault = posix_fallocate(file, (off_t)offset, (off_t)piece);
        if (fault == EINTR)
            fault = 0;
        else
            offset += piece;
    }
    return fault;
}

int weir_file_map(int file, uint64_t offset, uint64_t bytes, enum file_fetch fetch, unsigned char **memory)
{
    int fault = map_pages(file, offset, bytes, memory);
    if (fault || fetch == FILE_LAZY)
        return fault;
    fault = fetch_pages(*memory, bytes, fetch == FILE_WRITE);
    if (fault)
        weir_memory_unmap(*memory, bytes);
    return fault;
}

/* ---- locks ---- */

/* Of the open file, not of the process: two openings by one process are two users, a forked child is the same
 * user as its parent, and to close some other descriptor of the file drops nothing. */
static int lock_byte(int file, enum file_lock lock, short type, bool wait)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)lock, .l_len = 1};
    int result;
    do {
        result = fcntl(file, wait ? F_OFD_SETLKW : F_OFD_SETLK, &range);
    } while (result != 0 && errno == EINTR);
    if (result == 0)
        return 0;
    return errno == EACCES ? EAGAIN : errno;
}

int weir_file_lock_alone(int file, enum file_lock lock, bool wait)
{
    return lock_byte(file, lock, F_WRLCK, wait);
}

int weir_file_lock_shared(int file, enum file_lock lock)
{
    return lock_byte(file, lock, F_RDLCK, false);
}

void weir_file_unlock(int file, enum file_lock lock)
{
    (void)lock_byte(file, lock, F_UNLCK, false);
}

void weir_file_pause(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}
