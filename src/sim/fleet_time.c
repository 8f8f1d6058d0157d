/* SPDX-License-Identifier: MIT */
/*
 * Clocks that are wrong, and the events in the order of real time.
 */
#include <stdlib.h>

#include "sim/fleet_world.h"

#define BILLION INT64_C(1000000000)

/* span * ppb / 10^9, rounded down; in two steps, so that years fit. */
static int64_t clock_drift(int64_t span, int64_t ppb)
{
    int64_t whole = span / BILLION * ppb, rest = span % BILLION * ppb;
    return whole + (rest >= 0 ? rest / BILLION : -((-rest + BILLION - 1) / BILLION));
}

int64_t weir_sim_clock(const struct sim_clock *clock, int64_t real_ns)
{
    int64_t span = real_ns - clock->real_ns;
    return clock->own_ns + span + clock_drift(span, clock->ppb);
}

int64_t weir_sim_clock_real(const struct sim_clock *clock, int64_t own_ns)
{
    int64_t span = own_ns - clock->own_ns;
    if (span <= 0)
        return clock->real_ns;
    int64_t real = clock->real_ns + span - clock_drift(span, clock->ppb); /* right but for ppb squared */
    while (weir_sim_clock(clock, real) < own_ns)
        real += max64(1, (own_ns - weir_sim_clock(clock, real)) / 2);
    while (real > clock->real_ns && weir_sim_clock(clock, real - 1) >= own_ns)
        real -= max64(1, (weir_sim_clock(clock, real - 1) - own_ns) / 2);
    return real;
}

void weir_sim_clock_rate(struct sim_clock *clock, int64_t real_ns, int64_t ppb)
{
    *clock = (struct sim_clock){.real_ns = real_ns, .own_ns = weir_sim_clock(clock, real_ns), .ppb = ppb};
}

/* ---- the heap ---- */

static bool event_is_earlier(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

bool weir_sim_heap_push(struct sim_event_heap *heap, struct sim_event event)
{
    if (heap->count == heap->size) {
        size_t size = heap->size ? 2 * heap->size : 256;
        struct sim_event *items = realloc(heap->items, size * sizeof *items);
        if (!items)
            return false;
        heap->items = items;
        heap->size = size;
    }
    event.number = heap->next++;
    size_t at = heap->count++;
    while (at > 0 && event_is_earlier(&event, &heap->items[(at - 1) / 4])) {
        heap->items[at] = heap->items[(at - 1) / 4];
        at = (at - 1) / 4;
    }
    heap->items[at] = event;
    return true;
}

/* Four children each: half as deep as with two. */
struct sim_event weir_sim_heap_pop(struct sim_event_heap *heap)
{
    struct sim_event first = heap->items[0], last = heap->items[--heap->count];
    size_t at = 0;
    for (;;) {
        size_t child = 4 * at + 1, end = child + 4 < heap->count ? child + 4 : heap->count, least = child;
        if (child >= heap->count)
            break;
        for (size_t i = child + 1; i < end; i++)
            if (event_is_earlier(&heap->items[i], &heap->items[least]))
                least = i;
        if (!event_is_earlier(&heap->items[least], &last))
            break;
        heap->items[at] = heap->items[least];
        at = least;
    }
    if (heap->count > 0)
        heap->items[at] = last;
    return first;
}
