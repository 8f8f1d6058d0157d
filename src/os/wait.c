/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "os/wait.h"

#include <errno.h>
#include <limits.h>
#include <sys/prctl.h>

#include "base/sat.h"
#include "os/clock.h"
#include "os/futex.h"
#include "os/spin.h"

static bool has_word_changed(_Atomic uint32_t *word, uint32_t value)
{
    return atomic_load_explicit(word, memory_order_acquire) != value;
}

/* A clock that is set by hand stands still, so there is nothing to sleep for but the next setting of it. */
static void wait_for_set(_Atomic uint32_t *word, uint32_t value, int64_t until_ns)
{
    uint32_t moves = atomic_load_explicit(&weir_clock_moves, memory_order_acquire);
    if (!weir_clock_is_set() || has_word_changed(word, value) || weir_now() >= until_ns)
        return; /* looked at after `moves`: whatever changes from here on moves it */
    weir_futex_wait(&weir_clock_moves, moves, 0);
}

static void sleep_for(_Atomic uint32_t *word, uint32_t value, int64_t ns, bool precise)
{
    int saved = errno, slack = precise ? prctl(PR_GET_TIMERSLACK) : 0;
    bool lowered = slack > 1 && prctl(PR_SET_TIMERSLACK, 1UL) == 0;
    weir_futex_wait(word, value, weir_monotonic_ns() + ns);
    if (lowered)
        (void)prctl(PR_SET_TIMERSLACK, (unsigned long)slack);
    errno = saved;
}

static void spin_until(_Atomic uint32_t *word, uint32_t value, int64_t until_ns)
{
    while (!has_word_changed(word, value) && weir_now() < until_ns)
        spin_pause();
}

void weir_wait_until(_Atomic uint32_t *word, uint32_t value, int64_t until_ns, bool precise)
{
    int64_t now, margin = precise ? WAIT_SPIN_NS : 0;
    while (!has_word_changed(word, value) && (now = weir_now()) < until_ns) {
        if (weir_clock_is_set())
            wait_for_set(word, value, until_ns);
        else if (until_ns - now > margin)
            sleep_for(word, value, min64(until_ns - now - margin, WAIT_SLICE_NS), precise);
        else
            spin_until(word, value, until_ns);
    }
}

void weir_wait_wake(_Atomic uint32_t *word)
{
    atomic_thread_fence(memory_order_seq_cst); /* the word has changed before the clock is looked at */
    if (weir_clock_is_set())
        weir_clock_touch();
    weir_futex_wake(word, INT_MAX);
}
