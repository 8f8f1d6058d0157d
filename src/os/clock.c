/* SPDX-License-Identifier: MIT */
/*
 * How anchors are made, and which clock is used: the counter if the processor says that it runs evenly for
 * ever and the kernel keeps its own time by it; WEIR_CLOCK=kernel or WEIR_CLOCK=tsc in the environment
 * overrules that.
 */
#define _POSIX_C_SOURCE 200809L
#include "os/clock.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "os/boot.h"
#include "os/clock_kernel.h"
#include "os/futex.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define GAP_NS   (100 * WEIR_MS)          /* a rate over more may hide a suspend */
#define RATE_MIN (UINT64_C(1) << 32 >> 5) /* counters of 31 MHz to 32 GHz are thought possible */
#define RATE_MAX (UINT64_C(1) << 32 << 5)
#define TRIES    3 /* for a narrow bracket */

struct clock weir_clock;
_Atomic uint32_t weir_clock_moves;

/* ---- anchors ---- */

/* The rate since the old anchor; 0 if that says nothing. */
static uint64_t measure_counter_rate(const struct clock_anchor *old, struct clock_reading reading)
{
    int64_t time = sat_sub(reading.kernel_ns, old->kernel_ns);
    uint64_t ticks = reading.tsc - old->tsc;
    if (time < CLOCK_SPAN_NS / 2 || time > GAP_NS || ticks == 0)
        return 0;
    uint64_t rate = ((uint64_t)time << 32) / ticks;
    return rate >= RATE_MIN && rate <= RATE_MAX ? rate : 0;
}

/* NTP (1000 ppm) and the brackets of two measurements (2000 ppm) make rates differ by less than 1/256. */
static bool rates_agree(uint64_t rate, uint64_t other)
{
    return (rate > other ? rate - other : other - rate) <= rate / 256;
}

/* The kernel's time, but nothing below what may have been told from the anchor. */
static int64_t not_below(const struct clock_anchor *anchor, int64_t kernel_ns)
{
    int64_t told = anchor->ns + (int64_t)(anchor->span * anchor->rate >> 32);
    return told - kernel_ns > CLOCK_STEP_NS ? kernel_ns : max64(told, kernel_ns);
}

struct clock_anchor weir_clock_next(const struct clock_anchor *old, struct clock_reading reading)
{
    uint64_t measured = measure_counter_rate(old, reading);
    struct clock_anchor next = {.tsc = reading.tsc,
                                .ns = not_below(old, reading.kernel_ns),
                                .kernel_ns = reading.kernel_ns,
                                .measured = measured ? measured : old->measured};
    int64_t lead = next.ns - next.kernel_ns;
    if (measured && rates_agree(measured, old->measured) && lead <= CLOCK_ERROR_NS) {
        next.span = ((uint64_t)CLOCK_SPAN_NS << 32) / measured;
        next.rate =
            ((uint64_t)(CLOCK_SPAN_NS - lead) << 32) / next.span; /* at the end of it no lead is left */
    }
    return next;
}

struct clock_anchor weir_clock_anchor(const struct clock *clock, uint64_t *version)
{
    struct clock_anchor anchor;
    do {
        *version = atom_load(&clock->version, memory_order_acquire);
        const struct clock_slot *slot = &clock->slots[*version % 2];
        anchor.tsc = atom_load(&slot->tsc, memory_order_acquire);
        anchor.ns = (int64_t)atom_load(&slot->ns, memory_order_acquire);
        anchor.rate = atom_load(&slot->rate, memory_order_acquire);
        anchor.span = atom_load(&slot->span, memory_order_acquire);
        anchor.kernel_ns = (int64_t)atom_load(&slot->kernel_ns, memory_order_acquire);
        anchor.measured = atom_load(&slot->measured, memory_order_acquire);
        anchor.set = atom_load(&slot->set, memory_order_acquire);
    } while (atom_load(&clock->version, memory_order_relaxed) != *version);
    return anchor;
}

void weir_clock_replace(struct clock *clock, const struct clock_anchor *anchor)
{
    uint64_t version = atom_load(&clock->version, memory_order_relaxed) + 1;
    struct clock_slot *slot = &clock->slots[version % 2];
    atom_store(&slot->tsc, anchor->tsc, memory_order_release);
    atom_store(&slot->ns, (uint64_t)anchor->ns, memory_order_release);
    atom_store(&slot->rate, anchor->rate, memory_order_release);
    atom_store(&slot->span, anchor->span, memory_order_release);
    atom_store(&slot->kernel_ns, (uint64_t)anchor->kernel_ns, memory_order_release);
    atom_store(&slot->measured, anchor->measured, memory_order_release);
    atom_store(&slot->set, anchor->set, memory_order_release);
    atom_store(&clock->version, version, memory_order_release);
}

bool weir_clock_try_hold(struct clock *clock)
{
    return atom_load(&clock->busy, memory_order_relaxed) == 0 &&
           atom_swap(&clock->busy, 1, memory_order_acquire) == 0;
}

void weir_clock_release(struct clock *clock)
{
    atom_store(&clock->busy, 0, memory_order_release);
}

/* An anchor without a span is there to be measured from. */
static bool is_anchor_over(const struct clock_anchor *anchor, struct clock_reading reading)
{
    if (anchor->span != 0)
        return reading.tsc - anchor->tsc >= anchor->span;
    return reading.kernel_ns < anchor->kernel_ns || reading.kernel_ns - anchor->kernel_ns >= CLOCK_SPAN_NS;
}

bool weir_clock_answer(struct clock *clock, const struct clock_anchor *anchor, uint64_t version,
                       struct clock_reading reading, int64_t *ns)
{
    if (atom_load(&clock->version, memory_order_acquire) != version)
        return false;
    bool over = is_anchor_over(anchor, reading);
    if (!over && anchor->span != 0)
        return clock_tell(clock, reading.tsc, ns);
    *ns = not_below(anchor, reading.kernel_ns);
    if (!over || !reading.narrow || !weir_clock_try_hold(clock))
        return true;
    bool in_force = atom_load(&clock->version, memory_order_relaxed) == version;
    if (in_force) {
        struct clock_anchor next = weir_clock_next(anchor, reading);
        weir_clock_replace(clock, &next);
    }
    weir_clock_release(clock);
    return in_force;
}

/* ---- which clock ---- */

static pthread_once_t chosen = PTHREAD_ONCE_INIT;
static bool by_counter;

#if defined(__x86_64__)
static bool cpuid_has(unsigned leaf, unsigned edx_bit)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(leaf, &eax, &ebx, &ecx, &edx) && edx >> edx_bit & 1;
}

static bool has_counter(void)
{
    return cpuid_has(1, 4);
}

static bool is_counter_even(void)
{
    return cpuid_has(0x80000007, 8);
}
#else
static bool has_counter(void)
{
    return false;
}

static bool is_counter_even(void)
{
    return false;
}
#endif

/* The kernel compares its clocks with each other all the time, and drops the counter when it goes wrong. */
static bool does_kernel_trust_it(void)
{
    char name[8];
    return weir_read_file_start("/sys/devices/system/clocksource/clocksource0/current_clocksource", name,
                                sizeof name) &&
           strcmp(name, "tsc\n") == 0;
}

/* Only the thread that forks lives on in the child; what another one held would stay held. */
static void release_in_child(void)
{
    weir_clock_release(&weir_clock);
}

static void choose_clock(void)
{
    int saved = errno;
    const char *word = getenv("WEIR_CLOCK");
    if (word && strcmp(word, "kernel") == 0)
        by_counter = false;
    else if (word && strcmp(word, "tsc") == 0)
        by_counter = has_counter();
    else
        by_counter = has_counter() && is_counter_even() && does_kernel_trust_it();
    (void)pthread_atfork(NULL, NULL, release_in_child);
    errno = saved;
}

/* ---- the clock ---- */

static struct clock_reading read_both(void)
{
    struct clock_reading reading;
    int64_t before, after = weir_clock_kernel();
    int tries = TRIES;
    do {
        before = after;
#if defined(__x86_64__)
        __builtin_ia32_lfence(); /* the kernel's own reading of the counter comes first */
#endif
        reading.tsc = clock_counter();
        after = weir_clock_kernel();
        reading.narrow = after - before <= CLOCK_BRACKET_NS;
    } while (!reading.narrow && --tries > 0);
    reading.kernel_ns = after;
    return reading;
}

int64_t weir_clock_ask(void)
{
    (void)pthread_once(&chosen, choose_clock);
    for (;;) {
        uint64_t version;
        struct clock_anchor anchor = weir_clock_anchor(&weir_clock, &version);
        if (anchor.set)
            return anchor.ns;
        if (!by_counter)
            return weir_clock_kernel();
        int64_t ns;
        if (weir_clock_answer(&weir_clock, &anchor, version, read_both(), &ns))
            return ns;
    }
}

int64_t weir_now(void)
{
    return clock_now();
}

void weir_clock_set(int64_t now_ns)
{
    struct clock_anchor anchor = {.ns = clamp64(now_ns, 0, WEIR_TIME_MAX), .set = now_ns >= 0};
    (void)pthread_once(&chosen, choose_clock);
    while (!weir_clock_try_hold(&weir_clock))
        (void)sched_yield();
    weir_clock_replace(&weir_clock, &anchor);
    weir_clock_release(&weir_clock);
    weir_clock_touch();
}

bool weir_clock_is_set(void)
{
    uint64_t version;
    return weir_clock_anchor(&weir_clock, &version).set != 0;
}

void weir_clock_touch(void)
{
    (void)atomic_fetch_add_explicit(&weir_clock_moves, 1, memory_order_release);
    weir_futex_wake(&weir_clock_moves, INT_MAX);
}

const char *weir_clock_name(void)
{
    (void)pthread_once(&chosen, choose_clock);
    return weir_clock_is_set() ? "set" : by_counter ? "tsc" : "kernel";
}
