/* SPDX-License-Identifier: MIT */
/*
 * The one clock of the library: nanoseconds since the machine started, suspend included (CLOCK_BOOTTIME).
 *
 * To ask the kernel costs more than a whole decision, and the processor's own counter (TSC) half of that. So,
 * where the kernel itself keeps time by that counter, an anchor ties the two together: from the anchor on the
 * counter alone tells the time, for a span of 1 ms at a known rate. The first reading after that makes the
 * next anchor; the others ask the kernel meanwhile. The rate is what was measured between the last two
 * anchors, and it is used only if the measurement before agrees: a counter that jumps, stops or changes its
 * speed leads back to the kernel within a span. Everywhere else every reading asks the kernel.
 *
 * The clock does not step back when it is anchored anew. Where it is ahead of the kernel's it goes on from
 * there, slower, and is right again at the end of the span; where it is far ahead it stands until the kernel
 * has caught up. What is lacking is added at once. Two exceptions: the kernel's clock was set back by more
 * than CLOCK_STEP_NS (as in a new time namespace), which is followed; and a thread that is stopped just
 * before it publishes its anchor, after which another thread may see CLOCK_ERROR_NS less than was told
 * meanwhile.
 *
 * A clock that is set by hand (weir_clock_set) is an anchor, too, one from which no reading goes on by
 * itself; so the fast path pays nothing for it. All of this may be called by any thread and, after the first
 * reading, by signal handlers; only weir_clock_set not by them.
 */
#ifndef WEIR_OS_CLOCK_H
#define WEIR_OS_CLOCK_H

#include "base/sat.h"
#include "os/atomic.h"
#include "weir.h"

/*
 * How far a reading may be from CLOCK_BOOTTIME, either way, while the counter keeps its promise:
 *
 * - the anchor, 1 us: the kernel is asked on both sides of the counter, at most CLOCK_BRACKET_NS apart
 * - the rate, 2 us: both ends of its measurement are that uncertain, and it takes half a span or more
 * - NTP, 1 us: the kernel's clock goes faster or slower by 500 ppm at most, and from one extreme to the other
 *   that makes 1000 ppm of a span
 * - the processor, 1 us: it may read the counter before the instructions in front of it are done
 *
 * A daemon that asks more of the kernel than that (up to 10 % is possible) adds as much of one span, 0.1 ms,
 * when it begins. A kernel clock that leaps forward (resume) and a counter that breaks its promise are
 * noticed at the end of the span, or of the next one if they come just before it: until then the clock is
 * behind by the leap, or wrong by a span at most.
 */
#define CLOCK_ERROR_NS INT64_C(5000)

#define CLOCK_SPAN_NS    WEIR_MS /* longer: more error; shorter: the kernel is asked more often */
#define CLOCK_BRACKET_NS INT64_C(1000)
#define CLOCK_STEP_NS    WEIR_SEC

struct clock_anchor {
    uint64_t tsc;      /* the counter when it was made */
    int64_t ns;        /* the time it tells for that moment */
    uint64_t rate;     /* nanoseconds a tick from there on, times 2^32 */
    uint64_t span;     /* for so many ticks; 0: ask the kernel */
    int64_t kernel_ns; /* the kernel's time at that moment */
    uint64_t measured; /* the counter's rate at last sight; 0: not known */
    uint64_t set;      /* 1: by hand; `ns` is the time until further notice */
};

struct clock_slot {
    _Alignas(64) atom64 tsc;
    atom64 ns, rate, span, kernel_ns, measured, set;
};

/* The anchor in force is in slots[version % 2]. The next one is written into the other slot, and counts as
 * soon as the version does: a thread that is stopped while it writes stops nobody. */
struct clock {
    _Alignas(64) atom64 version;
    atom64 busy; /* 1: somebody makes an anchor */
    struct clock_slot slots[2];
};

extern struct clock weir_clock;

/* Times the clock was set or touched: waits sleep on it while the clock is set by hand. */
extern _Atomic uint32_t weir_clock_moves;

/* What clock_now does when the counter alone does not tell. */
__attribute__((cold)) int64_t weir_clock_ask(void);

bool weir_clock_is_set(void);

/* Wakes who sleeps on weir_clock_moves, and makes who is about to look again. */
void weir_clock_touch(void);

/* Where the time comes from: "tsc", "kernel" or "set". */
const char *weir_clock_name(void);

/* ---- telling the time by the counter ---------------------------------------------------------- */

static inline uint64_t clock_counter(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0; /* nobody asks: no anchor has a span */
#endif
}

/* Where the kernel does not trust the counter, to read it may cost a microsecond. */
static inline bool clock_is_running(const struct clock *clock)
{
    uint64_t version = atom_load(&clock->version, memory_order_acquire);
    return atom_load(&clock->slots[version % 2].span, memory_order_relaxed) != 0;
}

/*
 * false: the anchor is too old, or was just replaced, or the counter is behind it.
 *
 * The words of a slot are stored with release and loaded with acquire. So whoever sees a word of the anchor
 * after next also sees that the version has moved on, and no fence is needed. The product fits: it is at most
 * CLOCK_SPAN_NS times 2^32. What does not fit, from a mixture of two anchors, is thrown away.
 */
static inline __attribute__((always_inline)) bool clock_tell(const struct clock *clock, uint64_t tsc,
                                                             int64_t *ns)
{
    uint64_t version = atom_load(&clock->version, memory_order_acquire);
    const struct clock_slot *slot = &clock->slots[version % 2];
    uint64_t ticks = tsc - atom_load(&slot->tsc, memory_order_acquire);
    uint64_t span = atom_load(&slot->span, memory_order_acquire);
    uint64_t rate = atom_load(&slot->rate, memory_order_acquire);
    uint64_t start = atom_load(&slot->ns, memory_order_acquire);
    *ns = (int64_t)(start + (ticks * rate >> 32));
    return ticks < span && atom_load(&clock->version, memory_order_relaxed) == version;
}

/* weir_now, for those who cannot wait for a call. */
static inline int64_t clock_now(void)
{
#if defined(__x86_64__)
    int64_t ns;
    if (__builtin_expect(clock_is_running(&weir_clock) && clock_tell(&weir_clock, clock_counter(), &ns), 1))
        return ns;
#endif
    return weir_clock_ask();
}

/* ---- the rest, which tests run on counters and clocks of their own ---------------------------- */

/* The counter, and the kernel's time just after it. */
struct clock_reading {
    uint64_t tsc;
    int64_t kernel_ns;
    bool narrow; /* that is, at most CLOCK_BRACKET_NS later */
};

/* The anchor that follows `old`. */
struct clock_anchor weir_clock_next(const struct clock_anchor *old, struct clock_reading reading);

/* The anchor in force and its version. */
struct clock_anchor weir_clock_anchor(const struct clock *clock, uint64_t *version);

/* The time, from a reading taken after `anchor` was seen in force; makes the next anchor if it is time to,
 * and nobody else does. false: another anchor is in force by now, look again. Not for a clock that is set. */
bool weir_clock_answer(struct clock *clock, const struct clock_anchor *anchor, uint64_t version,
                       struct clock_reading reading, int64_t *ns);

/* Anchors are replaced by whoever holds the clock. */
bool weir_clock_try_hold(struct clock *clock);
void weir_clock_release(struct clock *clock);
void weir_clock_replace(struct clock *clock, const struct clock_anchor *anchor);

#endif
