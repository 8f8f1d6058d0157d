/* SPDX-License-Identifier: MIT */
/*
 * A limiter that is freed while threads wait for it: a build without NDEBUG says so and stops the program,
 * any other cancels the waits. This file is compiled twice, and with it the part of the library that decides
 * which.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "threads/crowd.h"
#include "threads/team.h"

#define START (1000 * WEIR_SEC)

/* Waiters of both kinds: some have a promise, some wait for the end of a pause. */
static struct crowd *crowd_of(const char *limits)
{
    weir_clock_set(START);
    struct weir_limiter *limiter = weir_limiter_new(limits, NULL);
    (void)weir_limiter_take(limiter, 1, NULL);
    return crowd_new(limiter, 3, 1);
}

#ifdef NDEBUG

TEST(waits_are_cancelled_and_the_last_one_frees_the_limiter)
{
    static const char *const limits[] = {"1/s burst=1", "1/s burst=1, 1/s algo=sliding-log", "blocked",
                                         "1/s algo=hybrid fill=thread"};
    team_watch("freed");
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct crowd *crowd = crowd_of(limits[i]);
        weir_limiter_free(crowd->limiter);
        crowd_await(crowd, 3);
        for (size_t k = 0; k < 3; k++) {
            CHECK(!crowd->waits[k].verdict.allowed);
            CHECK_EQ(crowd->waits[k].verdict.reason, WEIR_CANCELED);
        }
        crowd_free(crowd);
    }
    weir_clock_set(-1);
    team_watch_done();
}

#else

/* The message of a child that frees too early. */
static int free_too_early(char *said, size_t size)
{
    int ends[2], status = 0;
    if (pipe(ends) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        struct sigaction standard = {.sa_handler = SIG_DFL};
        (void)dup2(ends[1], STDERR_FILENO);
        (void)sigaction(SIGABRT, &standard, NULL); /* a sanitizer may want to see it */
        (void)alarm(team_patience());
        weir_limiter_free(crowd_of("1/s burst=1")->limiter);
        _exit(0);
    }
    (void)close(ends[1]);
    size_t length = 0;
    for (ssize_t got = 1; got > 0 && length + 1 < size; length += got > 0 ? (size_t)got : 0)
        got = read(ends[0], said + length, size - 1 - length);
    said[length] = '\0';
    (void)close(ends[0]);
    return waitpid(child, &status, 0) == child ? status : -1;
}

TEST(the_program_stops_and_says_why)
{
    char said[512];
    int status = free_too_early(said, sizeof said);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK_STR(said, "weir: weir_limiter_free while 3 threads wait for the limiter\n");
}

#endif
