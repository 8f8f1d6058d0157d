/* SPDX-License-Identifier: MIT */
/*
 * weir bench core: what a pure decision costs, beside an empty call and beside the least a shared limit
 * can cost, one compare-and-exchange. Time is an argument: no clock is read while measuring.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "cli/args.h"
#include "core/index.h"
#include "weir.h"

struct core_subject {
    struct weir_policy *policy;
    void *state;
    int64_t now, step; /* the time goes on by `step` before each question */
    struct weir_verdict *verdict;
    _Atomic int64_t word;
};

/* ---- what is measured ---- */

__attribute__((noinline)) static bool decide_nothing(const struct weir_policy *policy, void *state,
                                                     int64_t now, int64_t n, struct weir_verdict *verdict)
{
    __asm__ volatile("" : : "r"(policy), "r"(state), "r"(now), "r"(n), "r"(verdict) : "memory");
    return true;
}

static void run_empty(void *arg, int64_t count)
{
    struct core_subject *s = arg;
    for (int64_t i = 0; i < count; i++)
        bench_keep(decide_nothing(s->policy, s->state, s->now += s->step, 1, s->verdict));
}

static void run_core_take(void *arg, int64_t count)
{
    struct core_subject *s = arg;
    for (int64_t i = 0; i < count; i++)
        bench_keep(weir_state_take(s->policy, s->state, s->now += s->step, 1, s->verdict));
}

/* The least a limit shared by threads can do: read one word and replace it. */
static void run_cas(void *arg, int64_t count)
{
    struct core_subject *s = arg;
    for (int64_t i = 0; i < count; i++) {
        int64_t seen = atomic_load_explicit(&s->word, memory_order_relaxed);
        while (!atomic_compare_exchange_weak_explicit(&s->word, &seen, seen + 1, memory_order_relaxed,
                                                      memory_order_relaxed))
            ;
    }
}

/* The same around the decision of a token bucket. */
static void run_cas_take(void *arg, int64_t count)
{
    struct core_subject *s = arg;
    const struct limit *limit = &s->policy->limits[0];
    for (int64_t i = 0; i < count; i++) {
        int64_t v = ticks_at(&limit->ticks, s->now += s->step), n = 1, after;
        int64_t seen = atomic_load_explicit(&s->word, memory_order_relaxed);
        do {
            after = index_after(limit, seen, v, n);
            if (n > limit->burst || after > v)
                break;
        } while (!atomic_compare_exchange_weak_explicit(&s->word, &seen, after, memory_order_relaxed,
                                                        memory_order_relaxed));
        bench_keep(after);
    }
}

/* ---- subjects ---- */

static bool subject_open(struct core_subject *s, const char *limits, int64_t step)
{
    struct weir_error err;
    *s = (struct core_subject){.policy = weir_policy_new(limits, &err), .now = WEIR_SEC, .step = step};
    if (!s->policy) {
        fprintf(stderr, "weir: %s\n", err.text);
        return false;
    }
    s->state = malloc(weir_policy_state_size(s->policy) + 1);
    if (!s->state)
        return fprintf(stderr, "weir: out of memory\n"), false;
    weir_state_init(s->policy, s->state, s->now);
    return true;
}

static void subject_close(struct core_subject *s)
{
    free(s->state);
    weir_policy_free(s->policy);
}

static const struct {
    const char *name, *limits;
    int64_t step; /* so that every take passes, and none finds more than it needs */
} rows[] = {
    {"token-bucket", "1000/s", WEIR_MS},
    {"token-bucket, 3/s", "3/s", WEIR_SEC},
    {"interval", "1000/s algo=interval", WEIR_MS},
    {"leaky-bucket", "1000/s algo=leaky-bucket", WEIR_MS},
    {"smooth", "1000/s algo=smooth", WEIR_MS},
    {"warmup", "1000/s algo=warmup warmup=1s", WEIR_MS},
    {"hybrid", "1000/s algo=hybrid", WEIR_MS},
    {"fixed-window", "1000/s algo=fixed-window", WEIR_MS},
    {"sliding-window", "1000/s algo=sliding-window", WEIR_MS},
    {"sliding-log", "1000/s algo=sliding-log", WEIR_MS},
    {"step", "1000/s algo=step", WEIR_MS},
    {"three limits", "1000/s, 60k/m, 4M/h", WEIR_MS},
};
#define ROWS (sizeof rows / sizeof rows[0])

struct figures {
    double allowed, refused, allowed_verdict, refused_verdict;
};

static bool measure_row(size_t row, double seconds, struct figures *f)
{
    struct weir_verdict verdict;
    struct core_subject s;
    if (!subject_open(&s, rows[row].limits, rows[row].step))
        return false;
    f->allowed = bench_measure(rows[row].name, run_core_take, &s, seconds).best_ns;
    s.verdict = &verdict;
    f->allowed_verdict = bench_measure(rows[row].name, run_core_take, &s, seconds).best_ns;
    weir_state_drain(s.policy, s.state, s.now);
    weir_state_charge(s.policy, s.state, s.now, 5); /* smooth and warmup refuse only in debt */
    s.step = 0;
    f->refused_verdict = bench_measure(rows[row].name, run_core_take, &s, seconds).best_ns;
    s.verdict = NULL;
    f->refused = bench_measure(rows[row].name, run_core_take, &s, seconds).best_ns;
    subject_close(&s);
    return true;
}

struct baseline {
    struct bench_result empty, cas, cas_take;
};

static bool measure_baseline(double seconds, struct baseline *b)
{
    struct core_subject s;
    if (!subject_open(&s, "1000/s", WEIR_MS))
        return false;
    b->empty = bench_measure("empty call", run_empty, &s, seconds);
    b->cas = bench_measure("CAS64", run_cas, &s, seconds);
    atomic_store(&s.word, 0);
    b->cas_take = bench_measure("take with CAS64", run_cas_take, &s, seconds);
    subject_close(&s);
    return true;
}

/* ---- reports ---- */

static void core_print_text(const struct baseline *b, const struct figures *f)
{
    printf("\nns an operation, of %d runs %17s %8s %8s\n", BENCH_RUNS, "", "best", "median");
    printf("  %-42s %8.2f %8.2f\n", "empty call", b->empty.best_ns, b->empty.median_ns);
    printf("  %-42s %8.2f %8.2f\n", "bare load + CAS64", b->cas.best_ns, b->cas.median_ns);
    printf("  %-42s %8.2f %8.2f\n", "token-bucket take, explicit time, CAS64", b->cas_take.best_ns,
           b->cas_take.median_ns);
    printf("  %-42s %7.2fx %7.2fx\n", "  against bare load + CAS64", b->cas_take.best_ns / b->cas.best_ns,
           b->cas_take.median_ns / b->cas.median_ns);
    puts("The goal of the design is at most 2.5x.\n"
         "This take decides inline in one word around one CAS, as a shared limiter does.");

    printf("\nns a pure decision, best of %d runs\n", BENCH_RUNS);
    printf("%-22s %21s %21s\n", "", "answer alone", "with its verdict");
    printf("%-22s %10s %10s %10s %10s\n", "weir_state_take", "allowed", "refused", "allowed", "refused");
    for (size_t i = 0; i < ROWS; i++)
        printf("  %-20s %10.2f %10.2f %10.2f %10.2f\n", rows[i].name, f[i].allowed, f[i].refused,
               f[i].allowed_verdict, f[i].refused_verdict);
    puts("weir_state_take pays for any policy: a table of functions, promises, all or none.");
}

static void core_print_json(const struct baseline *b, const struct figures *f)
{
    struct json json = {.file = stdout};
    json_open(&json, NULL, '{', JSON_LINES);
    json_text(&json, "bench", "core");
    bench_json_machine(&json);
    json_text(&json, "unit", "ns");
    json_decimal(&json, "empty_call", b->empty.best_ns);
    json_decimal(&json, "cas64", b->cas.best_ns);
    json_decimal(&json, "token_bucket_cas64", b->cas_take.best_ns);
    json_decimal(&json, "token_bucket_cas64_ratio", b->cas_take.best_ns / b->cas.best_ns);
    json_open(&json, "decisions", '[', JSON_LINES);
    for (size_t i = 0; i < ROWS; i++) {
        json_open(&json, NULL, '{', JSON_FLAT);
        json_text(&json, "name", rows[i].name);
        json_text(&json, "limits", rows[i].limits);
        json_decimal(&json, "allowed", f[i].allowed);
        json_decimal(&json, "refused", f[i].refused);
        json_decimal(&json, "allowed_verdict", f[i].allowed_verdict);
        json_decimal(&json, "refused_verdict", f[i].refused_verdict);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_close(&json, '}');
}

int bench_core(const struct bench_options *options)
{
    struct baseline baseline;
    struct figures figures[ROWS];
    if (!measure_baseline(options->seconds, &baseline))
        return EXIT_ERROR;
    for (size_t i = 0; i < ROWS; i++)
        if (!measure_row(i, options->seconds, &figures[i]))
            return EXIT_ERROR;
    if (options->json) {
        core_print_json(&baseline, figures);
    } else {
        bench_print_machine();
        core_print_text(&baseline, figures);
    }
    return EXIT_OK;
}
