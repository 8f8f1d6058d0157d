/* SPDX-License-Identifier: MIT */
/*
 * A wake-up may come at any moment of a wait: before it looks, between a look and the next, just before it
 * sleeps. The code of the library is included, and the wake-up is made to come at each of the calls it makes,
 * one after the other. Whenever it came, the thread must not go to sleep any more.
 */
#include "os/clock.h"
#include "os/futex.h"

static int64_t hooked_now(void);
static bool hooked_is_set(void);
static void hooked_wait(_Atomic uint32_t *word, uint32_t value, int64_t monotonic_ns);

#define weir_now          hooked_now
#define weir_clock_is_set hooked_is_set
#define weir_futex_wait   hooked_wait
#include "os/wait.c" /* NOLINT(bugprone-suspicious-include) */
#undef weir_now
#undef weir_clock_is_set
#undef weir_futex_wait

#include "check.h"

static struct {
    _Atomic uint32_t word;
    int calls, at; /* the wake-up comes with this call */
    bool fired, missed;
} wake;

static void come(void)
{
    if (wake.fired || ++wake.calls < wake.at)
        return;
    wake.fired = true;
    atomic_store(&wake.word, 1);
    weir_wait_wake(&wake.word);
}

static int64_t hooked_now(void)
{
    come();
    return weir_now();
}

static bool hooked_is_set(void)
{
    come();
    return weir_clock_is_set();
}

/* Who sleeps before the wake-up is woken by it. After it, the word slept on must have changed. */
static void hooked_wait(_Atomic uint32_t *word, uint32_t value, int64_t monotonic_ns)
{
    bool asleep = !wake.fired;
    (void)monotonic_ns;
    while (!wake.fired)
        come();
    if (atomic_load(word) == value)
        wake.missed = true;
    else if (!asleep)
        weir_futex_wait(word, value, monotonic_ns); /* returns at once */
}

static void wait_once(int at, bool precise)
{
    memset(&wake, 0, sizeof wake);
    wake.at = at;
    weir_wait_until(&wake.word, 0, WEIR_FOREVER, precise);
    if (!CHECK(wake.fired && !wake.missed))
        printf("# the wake-up at call %d was missed\n", at);
}

static void check_all_moments(int64_t clock)
{
    weir_clock_set(clock);
    for (int at = 1; at <= 12; at++) {
        wait_once(at, false);
        wait_once(at, true);
    }
    weir_clock_set(-1);
}

TEST(a_wake_up_at_any_moment_is_seen_while_the_clock_stands)
{
    check_all_moments(1000 * WEIR_SEC);
}

TEST(a_wake_up_at_any_moment_is_seen_while_the_clock_runs)
{
    check_all_moments(-1);
}
