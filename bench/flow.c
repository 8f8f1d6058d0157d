/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "bench/team.h"
#include "bench/wait.h"
#include "weir.h"

#define WATCHES_MAX 4

struct flow_window {
    int64_t start_ns, window_ns, windows;
    _Atomic int64_t passed[FLOW_WINDOWS_MAX];
};

struct flow {
    struct weir_limiter *limiter; /* or NULL: */
    int64_t rate, start_ns;       /* clock_nanosleep to times that are dealt out by a counter */
    _Atomic int64_t next;
    struct team *team;
    _Atomic bool over;
    _Atomic int64_t resume_ns; /* nobody asks before */
    _Atomic(struct flow_window *) watch;
    struct flow_window watches[WATCHES_MAX]; /* a thread may still count in an old one */
    size_t watch_count;
};

static void flow_count(struct flow *flow, int64_t now)
{
    struct flow_window *watch = atomic_load_explicit(&flow->watch, memory_order_acquire);
    if (!watch || now < watch->start_ns)
        return;
    int64_t window = (now - watch->start_ns) / watch->window_ns;
    if (window < watch->windows)
        (void)atomic_fetch_add_explicit(&watch->passed[window], 1, memory_order_relaxed);
}

/* Waits for one's turn. */
static bool flow_pass(struct flow *flow)
{
    if (flow->limiter)
        return weir_limiter_acquire(flow->limiter, 1, WEIR_FOREVER, NULL);
    int64_t turn = atomic_fetch_add_explicit(&flow->next, 1, memory_order_relaxed);
    int64_t due = flow->start_ns + turn * WEIR_SEC / flow->rate;
    if (due > weir_now())
        bench_sleep_until(due);
    return true;
}

static void flow_work(void *arg)
{
    struct flow *flow = arg;
    while (!atomic_load_explicit(&flow->over, memory_order_relaxed)) {
        int64_t resume = atomic_load_explicit(&flow->resume_ns, memory_order_relaxed);
        if (weir_now() < resume)
            bench_sleep_until(resume);
        if (flow_pass(flow))
            flow_count(flow, weir_now());
    }
}

static struct flow *flow_new(int threads)
{
    struct flow *flow = calloc(1, sizeof *flow);
    if (!flow) {
        fputs("weir: out of memory\n", stderr);
        return NULL;
    }
    flow->team = team_new(threads, flow_work, flow, 0);
    if (flow->team)
        return flow;
    free(flow);
    return NULL;
}

/* The limiter is made after the threads: what it saves up meanwhile would be made up for. */
struct flow *flow_open(const char *limits, int threads)
{
    struct weir_error err;
    struct flow *flow = flow_new(threads);
    if (!flow)
        return NULL;
    flow->limiter = weir_limiter_new(limits, &err);
    flow->over = !flow->limiter;
    team_go(flow->team);
    if (flow->limiter)
        return flow;
    fprintf(stderr, "weir: %s\n", err.text);
    flow_close(flow);
    return NULL;
}

struct flow *flow_open_bare(int64_t rate, int threads)
{
    struct flow *flow = flow_new(threads);
    if (!flow)
        return NULL;
    flow->rate = rate;
    flow->start_ns = weir_now();
    team_go(flow->team);
    return flow;
}

bool flow_set(struct flow *flow, const char *limits)
{
    struct weir_error err;
    if (weir_limiter_set(flow->limiter, limits, &err))
        return true;
    fprintf(stderr, "weir: %s\n", err.text);
    return false;
}

void flow_watch(struct flow *flow, double window_s, size_t windows)
{
    if (flow->watch_count == WATCHES_MAX || windows > FLOW_WINDOWS_MAX)
        abort();
    struct flow_window *watch = &flow->watches[flow->watch_count++];
    watch->window_ns = (int64_t)(window_s * 1e9);
    watch->windows = (int64_t)windows;
    watch->start_ns = weir_now();
    atomic_store_explicit(&flow->watch, watch, memory_order_release);
}

void flow_stall(struct flow *flow, double seconds)
{
    atomic_store_explicit(&flow->resume_ns, weir_now() + (int64_t)(seconds * 1e9), memory_order_relaxed);
}

void flow_rates(struct flow *flow, double *rates)
{
    const struct flow_window *watch = atomic_load_explicit(&flow->watch, memory_order_relaxed);
    bench_sleep_until(watch->start_ns + watch->window_ns * watch->windows);
    for (int64_t i = 0; i < watch->windows; i++)
        rates[i] = (double)atomic_load_explicit(&watch->passed[i], memory_order_relaxed) * 1e9 /
                   (double)watch->window_ns;
}

/* Every thread has its turn once more. */
void flow_close(struct flow *flow)
{
    atomic_store_explicit(&flow->over, true, memory_order_relaxed);
    team_end(flow->team);
    weir_limiter_free(flow->limiter);
    free(flow);
}
