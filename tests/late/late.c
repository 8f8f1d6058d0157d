/* SPDX-License-Identifier: MIT */
/*
 * A busy machine, on purpose: loaded in front of a test (LD_PRELOAD), it lets threads start late, now and
 * then by most of a second, and lets them rest between what they do with locks, sockets and each other. What
 * a test takes for granted of another thread is then wrong every few runs instead of once a month.
 *
 *     WEIR_LATE=7 LD_PRELOAD=build/release/tests/liblate.so build/release/tests/unit-member
 *
 * The number decides how late, but not all: the machine has its own say. A process rests for 20 s altogether
 * and hardly any more then, so that a test with ten thousand threads comes to its end, too. Java is left
 * alone: it starts dozens of threads before it does anything.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define REST_MOST_US 20000000

static uint64_t seed;
static _Atomic uint64_t rested_us, threads;
static _Thread_local uint64_t state;

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("WEIR_LATE");
    seed = text ? strtoull(text, NULL, 10) : 1;
    if (strcmp(program_invocation_short_name, "java") == 0)
        rested_us = UINT64_MAX / 2;
}

/* SplitMix64, another stream for each thread. */
static uint64_t draw(uint64_t below)
{
    if (state == 0)
        state = (seed << 32) + (atomic_fetch_add(&threads, 1) + 1) * UINT64_C(0x632be59bd9b4e019);
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % below;
}

static void rest(uint64_t most_us)
{
    int error = errno;
    uint64_t us = draw(most_us), before = atomic_fetch_add(&rested_us, us);
    struct timespec left = {(time_t)(us / 1000000), (long)(us % 1000000 * 1000)};
    if (before < REST_MOST_US || (before < UINT64_MAX / 4 && draw(100) == 0))
        while (nanosleep(&left, &left) != 0)
            continue;
    errno = error;
}

static void rest_at_start(void)
{
    uint64_t lot = draw(100);
    if (lot >= 92)
        rest(700000);
    else if (lot >= 70)
        rest(60000);
    else if (lot >= 40)
        rest(3000);
}

static void rest_in_between(void)
{
    uint64_t lot = draw(1000);
    if (lot >= 999)
        rest(60000);
    else if (lot >= 990)
        rest(5000);
    else if (lot >= 960)
        rest(500);
}

/* ---- threads ---- */

struct start {
    void *(*run)(void *arg);
    void *arg;
};

static void *run_late(void *arg)
{
    struct start start = *(struct start *)arg;
    free(arg);
    rest_at_start();
    return start.run(start.arg);
}

/* The next definition of the same name, whose type is that of the function around it. */
#define NEXT(NAME)                                                                                           \
    static __typeof__(NAME) *next;                                                                           \
    if (!next)                                                                                               \
    next = (__typeof__(NAME) *)dlsym(RTLD_NEXT, #NAME)

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg)
{
    NEXT(pthread_create);
    struct start *start = malloc(sizeof *start);
    if (!start)
        return EAGAIN;
    *start = (struct start){run, arg};
    int error = next(thread, attributes, run_late, start);
    if (error != 0)
        free(start);
    rest_in_between();
    return error;
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    NEXT(pthread_mutex_lock);
    rest_in_between();
    return next(mutex);
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    NEXT(pthread_mutex_unlock);
    int error = next(mutex);
    rest_in_between();
    return error;
}

/* ---- what comes from others ---- */

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout_ms)
{
    NEXT(epoll_wait);
    int count = next(epoll, events, most, timeout_ms);
    rest_in_between();
    return count;
}

ssize_t recv(int socket, void *bytes, size_t size, int flags)
{
    NEXT(recv);
    ssize_t count = next(socket, bytes, size, flags);
    rest_in_between();
    return count;
}

ssize_t send(int socket, const void *bytes, size_t size, int flags)
{
    NEXT(send);
    rest_in_between();
    return next(socket, bytes, size, flags);
}

long syscall(long number, ...) /* futex(2) has no other name */
{
    static long (*next)(long number, ...);
    void *words[6];
    __builtin_va_list list;
    if (!next)
        next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    __builtin_va_start(list, number);
    for (int i = 0; i < 6; i++)
        words[i] = __builtin_va_arg(list, void *);
    __builtin_va_end(list);
    long result = next(number, words[0], words[1], words[2], words[3], words[4], words[5]);
    rest_in_between();
    return result;
}
