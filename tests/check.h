/* SPDX-License-Identifier: MIT */
/*
 * The whole test framework. A test program is one .c file that includes this header, holds any number of
 * TEST(name) { ... } bodies and gets its main from here:
 *
 *     program [-l] [-s SEED] [PART]...     run the tests whose name contains a PART; -l only lists them
 *
 * A failed check prints the values and the test goes on; each check also gives its result, so that
 * `if (!CHECK(x)) return;` stops early. Exit status: 0 all passed, 1 a check failed, 2 the command line is
 * wrong, 77 everything was skipped.
 */
#ifndef WEIR_TESTS_CHECK_H
#define WEIR_TESTS_CHECK_H

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"

struct check_test {
    const char *name;
    void (*run)(void);
    struct check_test *next;
};

static struct {
    struct check_test *first, **end;
    uint64_t seed;
    long faults; /* in the test that runs now */
    bool skipped;
} check = {.seed = 1};

/* Tests enter the list in the order of the file, before main begins. */
#define TEST(NAME)                                                                                           \
    static void test_##NAME(void);                                                                           \
    static struct check_test entry_##NAME = {#NAME, test_##NAME, NULL};                                      \
    __attribute__((constructor)) static void enter_##NAME(void)                                              \
    {                                                                                                        \
        *(check.end ? check.end : &check.first) = &entry_##NAME;                                             \
        check.end = &entry_##NAME.next;                                                                      \
    }                                                                                                        \
    static void test_##NAME(void)

#define CHECK(COND)          check_true((COND), #COND, __FILE__, __LINE__)
#define CHECK_EQ(GOT, WANT)  check_eq((int64_t)(GOT), (int64_t)(WANT), #GOT, #WANT, __FILE__, __LINE__)
#define CHECK_STR(GOT, WANT) check_str((GOT), (WANT), #GOT, __FILE__, __LINE__)

/* For a test that cannot run here: `return check_skip("why");` */
static inline void check_skip(const char *why)
{
    printf("# skipped: %s\n", why);
    check.skipped = true;
}

/* Out of line: a file with a thousand checks compiles twice as fast. */
#define CHECK_FUNCTION __attribute__((noinline, unused)) static

/* A broken loop may fail a million times; the first few lines tell the story. */
CHECK_FUNCTION bool check_fault(const char *file, int line)
{
    if (++check.faults > 10)
        return false;
    printf("# %s:%d: ", file, line);
    return true;
}

CHECK_FUNCTION bool check_true(bool holds, const char *text, const char *file, int line)
{
    if (!holds && check_fault(file, line))
        printf("does not hold: %s\n", text);
    return holds;
}

CHECK_FUNCTION bool check_eq(int64_t got, int64_t want, const char *got_text, const char *want_text,
                             const char *file, int line)
{
    if (got != want && check_fault(file, line))
        printf("%s == %s: %" PRId64 ", not %" PRId64 "\n", got_text, want_text, got, want);
    return got == want;
}

CHECK_FUNCTION bool check_str(const char *got, const char *want, const char *text, const char *file, int line)
{
    bool same = got && want ? strcmp(got, want) == 0 : got == want;
    if (!same && check_fault(file, line))
        printf("%s is\n#   \"%s\", not\n#   \"%s\"\n", text, got ? got : "(null)", want ? want : "(null)");
    return same;
}

/* ---- numbers from outside --------------------------------------------------------------------- */

static inline bool check_number(const char *text, uint64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 0);
    return end != text && *end == '\0' && errno == 0 && text[0] != '-';
}

/* How much to do: the environment variable `name` if it is a number, else `fallback`. */
static inline int64_t check_env(const char *name, int64_t fallback)
{
    const char *text = getenv(name);
    uint64_t number;
    if (!text || !*text)
        return fallback;
    if (!check_number(text, &number) || number > INT64_MAX) {
        fprintf(stderr, "%s=%s is not a number\n", name, text);
        exit(2);
    }
    return (int64_t)number;
}

/* ---- random numbers --------------------------------------------------------------------------- */

/* Every test draws from its own stream: the seed of the run and the number of the stream. */
static inline struct rng rng_new(uint64_t stream)
{
    return (struct rng){check.seed * UINT64_C(0xD1342543DE82EF95) + stream};
}

/* ---- main ------------------------------------------------------------------------------------- */

static bool check_wanted(const char *name, char **parts)
{
    if (!*parts)
        return true;
    for (; *parts; parts++)
        if (strstr(name, *parts))
            return true;
    return false;
}

static int check_usage(const char *program)
{
    fprintf(stderr, "usage: %s [-l] [-s SEED] [PART]...\n", program);
    return 2;
}

int main(int argc, char **argv)
{
    const char *seed = getenv("WEIR_SEED");
    bool list = false;
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (strcmp(argv[at], "-l") == 0)
            list = true;
        else if (strcmp(argv[at], "-s") == 0 && at + 1 < argc)
            seed = argv[++at];
        else
            return check_usage(argv[0]);
    }
    if (seed && *seed && !check_number(seed, &check.seed))
        return check_usage(argv[0]);

    if (!list)
        printf("# seed %" PRIu64 "\n", check.seed); /* first, so that a crash does not lose it */

    long passed = 0, failed = 0, skipped = 0;
    for (struct check_test *test = check.first; test; test = test->next) {
        if (!check_wanted(test->name, argv + at))
            continue;
        if (list) {
            puts(test->name);
            continue;
        }
        check.faults = 0;
        check.skipped = false;
        test->run();
        printf("%s %s%s\n", check.faults ? "not ok" : "ok", test->name, check.skipped ? " # skipped" : "");
        fflush(stdout);
        *(check.faults ? &failed : check.skipped ? &skipped : &passed) += 1;
    }
    if (list)
        return 0;
    printf("%ld passed, %ld failed, %ld skipped\n", passed, failed, skipped);
    if (passed + failed + skipped == 0) {
        fprintf(stderr, "%s: no test has such a name\n", argv[0]);
        return 2;
    }
    return failed ? 1 : passed ? 0 : 77;
}

#endif
