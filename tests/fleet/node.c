/* SPDX-License-Identifier: MIT */
/*
 * A node of a fleet for tests: joins a limit and takes from it, and writes down what it was let pass.
 *
 *     node URL NAME LIMIT [--for TIME_MS] [--rate UNITS_A_SECOND] [--size MOST] [--threads COUNT] [--seed
 * SEED]
 *                         [--wait MS] [--pause NS] [--bundle NS] [--stat 1]
 *
 *   --for      how long, 3000
 *   --rate     units a second that it asks for, all threads together; 0 (default): as fast as it can
 *   --size     each take asks for 1..MOST units, drawn by lot; 1
 *   --threads  that take; 1
 *   --wait     a take may wait so long (acquire); 0: it does not
 *   --pause    after a refusal, before the next take; 200000
 *   --bundle   takes of one thread within so long are one line; 1000000. 0: each has its own, written before
 *              the next, so that a process that is killed has said all but one take of each thread
 *   --stat     1: its statistics at each refresh, too
 *
 * On standard output:
 *
 *     T NS N EPOCH UNTIL SINCE   N units were let pass, between SINCE (read before the first take) and NS
 *                                (read right after the last; CLOCK_BOOTTIME). Their end was UNTIL; 0: not
 *                                known. EPOCH is the latest that the node had heard of: a remark
 *     E NS EVENT                 refreshed, exhausted, lost, restored
 *     S name=value...            at the end: its statistics
 *     J NS                       it has joined
 *
 * SIGUSR1: it takes nothing for a while, as if nobody asked it, until SIGUSR2 comes.
 *
 * Exit status: 0; 1: it could not join (the reason is on standard error), 2: the command line is wrong.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "limiter/balance.h"
#include "limiter/balance_limiter.h"
#include "rng.h"
#include "weir-fleet.h"

struct settings {
    const char *url, *name, *limit;
    int64_t for_ms, rate, size, threads, seed, wait_ms, pause_ns, bundle_ns, stat;
};

struct taker {
    const struct settings *settings;
    struct weir_limiter *member;
    int64_t until_ns;
    struct rng rng;
    struct {
        int64_t units, since_ns, first_ns, last_ns, until_ns;
    } bundle; /* not written yet */
};

static atomic_bool stopping, resting;

static void pause_ns(int64_t ns)
{
    struct timespec span = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    (void)ppoll(NULL, 0, &span, NULL);
}

/* One write, so that lines of several threads do not mix. */
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (len > 0 && write(STDOUT_FILENO, line, (size_t)len) != len)
        atomic_store(&stopping, true);
}

static void say_stat(struct weir_limiter *member)
{
    struct weir_fleet_stat stat;
    if (weir_fleet_stat(member, &stat))
        say("S taken=%" PRId64 " spent=%" PRId64 " returned=%" PRId64 " dropped=%" PRId64 " orders=%" PRId64
            " writes=%" PRId64 " failures=%" PRId64 " chunk=%" PRId64 " total=%" PRId64 " round_ns=%" PRId64
            "\n",
            stat.taken, stat.spent, stat.returned, stat.dropped, stat.orders, stat.writes, stat.failures,
            stat.chunk, stat.total, stat.round_ns);
}

static void heard(void *arg, struct weir_limiter *member, int32_t event)
{
    static const char *const names[] = {"refreshed", "exhausted", "lost", "restored"};
    const struct settings *settings = arg;
    say("E %" PRId64 " %s\n", weir_now(), names[event & 3]);
    if (settings->stat && event == WEIR_FLEET_REFRESHED)
        say_stat(member);
}

static void stop(int signal)
{
    (void)signal;
    atomic_store(&stopping, true);
}

static void rest(int signal)
{
    atomic_store(&resting, signal == SIGUSR1);
}

/* ---- taking ---- */

static uint64_t epoch_of(struct weir_limiter *member)
{
    struct weir_fleet_stat stat;
    return weir_fleet_stat(member, &stat) ? stat.epoch : 0;
}

/* What the balance says: it only grows, so a take between two equal readings was under that end. */
static int64_t end_of(const struct taker *taker)
{
    struct lease_balance *balance = weir_limiter_balance(taker->member);
    return balance && taker->settings->wait_ms == 0
               ? (int64_t)atom_load(&balance->until, memory_order_acquire)
               : 0;
}

static void write_down(struct taker *taker)
{
    if (taker->bundle.units > 0)
        say("T %" PRId64 " %" PRId64 " %" PRIu64 " %" PRId64 " %" PRId64 "\n", taker->bundle.last_ns,
            taker->bundle.units, epoch_of(taker->member), taker->bundle.until_ns, taker->bundle.since_ns);
    taker->bundle.units = 0;
}

static void count(struct taker *taker, int64_t n, int64_t since, int64_t now, int64_t until)
{
    if (taker->bundle.until_ns != until)
        write_down(taker);
    if (taker->bundle.units == 0) {
        taker->bundle.since_ns = since;
        taker->bundle.first_ns = now;
        taker->bundle.until_ns = until;
    }
    taker->bundle.last_ns = now;
    taker->bundle.units += n;
    if (now - taker->bundle.first_ns >= taker->settings->bundle_ns)
        write_down(taker);
}

static bool take(struct taker *taker, int64_t n)
{
    const struct settings *settings = taker->settings;
    if (settings->wait_ms > 0)
        return weir_limiter_acquire(taker->member, n, settings->wait_ms * WEIR_MS, NULL);
    return weir_limiter_take(taker->member, n, NULL);
}

/* As slow as the rate wants it, counted from the start. */
static void keep_pace(const struct taker *taker, int64_t began_ns, int64_t asked)
{
    const struct settings *settings = taker->settings;
    if (settings->rate <= 0)
        return;
    int64_t due = began_ns + asked * settings->threads * 1000000000 / settings->rate, now = weir_now();
    if (due > now)
        pause_ns(due - now < 100000000 ? due - now : 100000000);
}

static void *run(void *arg)
{
    struct taker *taker = arg;
    int64_t began = weir_now(), asked = 0, since;
    while ((since = weir_now()) < taker->until_ns && !atomic_load(&stopping)) {
        if (atomic_load(&resting)) {
            pause_ns(WEIR_MS);
            continue;
        }
        int64_t n = rng_between(&taker->rng, 1, taker->settings->size), until = end_of(taker);
        bool taken = take(taker, n);
        int64_t now = weir_now();
        asked += n;
        if (taken) {
            count(taker, n, since, now, until == end_of(taker) ? until : 0);
        } else {
            write_down(taker);
            pause_ns(taker->settings->pause_ns);
        }
        keep_pace(taker, began, asked);
    }
    write_down(taker);
    return NULL;
}

/* ---- the program ---- */

static bool read_settings(int argc, char **argv, struct settings *settings)
{
    struct {
        const char *name;
        int64_t *value;
    } options[] = {
        {"--for", &settings->for_ms},      {"--rate", &settings->rate},        {"--size", &settings->size},
        {"--threads", &settings->threads}, {"--seed", &settings->seed},        {"--wait", &settings->wait_ms},
        {"--pause", &settings->pause_ns},  {"--bundle", &settings->bundle_ns}, {"--stat", &settings->stat}};
    if (argc < 4 || argc % 2 != 0)
        return false;
    settings->url = argv[1];
    settings->name = argv[2];
    settings->limit = argv[3];
    for (int i = 4; i < argc; i += 2) {
        bool known = false;
        for (size_t k = 0; k < sizeof options / sizeof options[0]; k++)
            if (strcmp(argv[i], options[k].name) == 0) {
                char *end;
                *options[k].value = strtoll(argv[i + 1], &end, 10);
                known = *end == '\0' && *options[k].value >= 0;
            }
        if (!known)
            return false;
    }
    return settings->size >= 1 && settings->threads >= 1 && settings->threads <= 64;
}

static void take_all(const struct settings *settings, struct weir_limiter *member)
{
    pthread_t threads[64];
    struct taker takers[64];
    int64_t started = 0, until = weir_now() + settings->for_ms * 1000000;
    for (int64_t i = 0; i < settings->threads; i++) {
        takers[i] = (struct taker){.settings = settings, .member = member, .until_ns = until};
        takers[i].rng.state = (uint64_t)(settings->seed * 1000 + i);
        if (pthread_create(&threads[i], NULL, run, &takers[i]) != 0)
            break;
        started++;
    }
    for (int64_t i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
    struct settings settings = {
        .for_ms = 3000, .size = 1, .threads = 1, .seed = 1, .pause_ns = 200000, .bundle_ns = 1000000};
    struct weir_error err;
    if (!read_settings(argc, argv, &settings)) {
        fprintf(stderr,
                "usage: node URL NAME LIMIT [--for MS] [--rate N] [--size N] [--threads N] [--seed N] "
                "[--wait MS] [--pause NS] [--bundle NS] [--stat 1]\n");
        return 2;
    }
    (void)signal(SIGTERM, stop);
    (void)signal(SIGUSR1, rest);
    (void)signal(SIGUSR2, rest);
    (void)signal(SIGPIPE, SIG_IGN);
    struct weir_limiter *member = weir_fleet_join(settings.url, settings.name, settings.limit, &err);
    if (!member) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    (void)weir_fleet_listen(member, heard, &settings);
    say("J %" PRId64 "\n", weir_now());
    take_all(&settings, member);
    say_stat(member);
    (void)weir_fleet_listen(member, NULL, NULL);
    weir_limiter_free(member);
    return 0;
}
