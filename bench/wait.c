/* SPDX-License-Identifier: MIT */
/*
 * weir bench wait: how precisely threads wait for their turn, and whether as many go on as the limit says.
 */
#include "bench/wait.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "cli/args.h"
#include "cli/picture.h"
#include "cli/words.h"

#define STEPS          3   /* of every rate */
#define CURVE_PARTS    10  /* of a step */
#define CURVE_WINDOWS  135 /* a step before the stall, the stall, and the time to catch up */
#define CURVE_STEPS    ((double)CURVE_WINDOWS / CURVE_PARTS)
#define STALL_BEGIN    CURVE_PARTS
#define STALL_END      (2 * CURVE_PARTS)
#define TOLERANCE      0.05 /* of a window */
#define SLOW           2000.0
#define FAST           50000.0
#define RATIO          1.1
#define P99_GOAL       1.2
#define HYBRID_GOAL    2.0 /* per cent */
#define HYBRID_THREADS 64

/* ---- what is measured ---- */

/* Many threads at one rate. */
static const struct steady {
    const char *name;
    const char *limits; /* NULL: clock_nanosleep */
    int threads;
    int64_t rate;
    double goal; /* per cent; 0: none */
} steady[] = {
    {"rate of 10000/s", "10k/s burst=1", 64, 10000, 0.1},
    {"rate of 180000/s", "180k/s burst=1", 1000, 180000, 1},
    {"the same by clock_nanosleep", NULL, 1000, 180000, 0},
};
#define STEADY (sizeof steady / sizeof steady[0])

struct wait_results {
    double step_s;
    struct wake_errors wakes[WAKE_SIZES * WAKE_WAYS];
    struct steady_result {
        double rate, cpu_us; /* processor time of one operation */
        double others;
    } steady[STEADY];
    double slow[STEPS], fast[STEPS];
    double curve[CURVE_WINDOWS];
    double slow_others, fast_others, curve_others;
    double catch_up; /* times the rate, while the callers were behind */
    double back_s;   /* until they were on schedule again; below 0: they never were */
};

static bool measure_steady(const struct steady *s, double step_s, struct steady_result *result)
{
    double rates[STEPS], sum = 0;
    char text[80];
    snprintf(text, sizeof text, "%d threads at %" PRId64 "/s", s->threads, s->rate);
    bench_progress(text);
    struct flow *flow = s->limits ? flow_open(s->limits, s->threads) : flow_open_bare(s->rate, s->threads);
    if (!flow)
        return false;
    bench_sleep(step_s / 5); /* all of them have asked */
    struct bench_load before = bench_load_now();
    flow_watch(flow, step_s, STEPS);
    flow_rates(flow, rates);
    struct bench_load after = bench_load_now();
    flow_close(flow);
    for (int i = 0; i < STEPS; i++)
        sum += rates[i];
    double cpu_s = after.own_s - before.own_s;
    *result = (struct steady_result){sum / STEPS, sum > 0 ? cpu_s * 1e6 / (sum * step_s) : 0,
                                     bench_others(before, after)};
    return true;
}

/* What the curve says: how fast they caught up, counted where they had surely begun and surely not ended,
 * and when as many had passed as if there had been no stall. */
static void read_curve(struct wait_results *r)
{
    double passed = 0, fast = 0, window_s = r->step_s / CURVE_PARTS;
    size_t from = STALL_END + 3, to = STALL_END + 8 * CURVE_PARTS;
    r->back_s = -1;
    for (size_t i = 0; i < CURVE_WINDOWS; i++) {
        passed += r->curve[i] * window_s;
        if (i >= STALL_END && r->back_s < 0 && passed >= FAST * window_s * ((double)i + 1 - TOLERANCE))
            r->back_s = window_s * (double)(i + 1 - STALL_END);
        if (i >= from && i < to)
            fast += r->curve[i] / (double)(to - from);
    }
    r->catch_up = fast / FAST;
}

/* Gives what others had meanwhile. */
static double watch_steps(struct flow *flow, double step_s, double *rates)
{
    struct bench_load before = bench_load_now();
    flow_watch(flow, step_s, STEPS);
    flow_rates(flow, rates);
    return bench_others(before, bench_load_now());
}

static bool measure_hybrid(struct wait_results *r)
{
    bench_progress("hybrid at 2000/s");
    struct flow *flow = flow_open("2000,1.1", HYBRID_THREADS);
    if (!flow)
        return false;
    r->slow_others = watch_steps(flow, r->step_s, r->slow);
    bench_progress("hybrid, set to 50000/s");
    bool set = flow_set(flow, "50000,1.1");
    if (set) {
        r->fast_others = watch_steps(flow, r->step_s, r->fast);
        bench_progress("hybrid, after a stall");
        struct bench_load before = bench_load_now();
        flow_watch(flow, r->step_s / CURVE_PARTS, CURVE_WINDOWS);
        bench_sleep(r->step_s);
        flow_stall(flow, r->step_s);
        flow_rates(flow, r->curve);
        r->curve_others = bench_others(before, bench_load_now());
        read_curve(r);
    }
    flow_close(flow);
    return set;
}

/* ---- goals ---- */

/* One figure that has a goal. */
struct wait_goal_result {
    const char *name;
    int threads;
    bool is_ratio; /* else per cent off, either way */
    double value, at_most;
    bool reached, sure;
};

#define GOALS_MAX (WAKE_SIZES + STEADY + 2)

static bool is_busy(double others)
{
    return others > BENCH_OTHERS_MAX;
}

static double percent_off(double rate, double wanted)
{
    return (rate / wanted - 1) * 100;
}

static double p99_ratio(const struct wait_results *r, int size)
{
    const struct wake_errors *errors = &r->wakes[size * WAKE_WAYS];
    return errors[WAKE_SLACK].p99 > 0 ? (double)errors[WAKE_ACQUIRE].p99 / (double)errors[WAKE_SLACK].p99 : 0;
}

/* Both sides of a ratio suffer from others, and which suffers more is chance. */
static struct wait_goal_result wake_outcome(const struct wait_results *r, int size)
{
    const struct wake_errors *errors = &r->wakes[size * WAKE_WAYS];
    double ratio = p99_ratio(r, size);
    return (struct wait_goal_result){.name = "p99 of acquire to nanosleep",
                                     .threads = wake_threads[size],
                                     .is_ratio = true,
                                     .value = ratio,
                                     .at_most = P99_GOAL,
                                     .reached = ratio <= P99_GOAL,
                                     .sure = !is_busy(errors[WAKE_ACQUIRE].others) &&
                                             !is_busy(errors[WAKE_SLACK].others)};
}

/* A rate that was reached while others worked, too, was reached. */
static struct wait_goal_result rate_outcome(const char *name, int threads, double off, double goal,
                                            double others)
{
    bool reached = fabs(off) <= goal;
    return (struct wait_goal_result){.name = name,
                                     .threads = threads,
                                     .value = off,
                                     .at_most = goal,
                                     .reached = reached,
                                     .sure = reached || !is_busy(others)};
}

static struct wait_goal_result steady_outcome(const struct wait_results *r, size_t i)
{
    return rate_outcome(steady[i].name, steady[i].threads,
                        percent_off(r->steady[i].rate, (double)steady[i].rate), steady[i].goal,
                        r->steady[i].others);
}

/* The step that is farthest off. */
static struct wait_goal_result hybrid_outcome(const char *name, const double *rates, double wanted,
                                              double others)
{
    double worst = 0;
    for (int i = 0; i < STEPS; i++) {
        double off = percent_off(rates[i], wanted);
        worst = fabs(off) >= fabs(worst) ? off : worst;
    }
    return rate_outcome(name, HYBRID_THREADS, worst, HYBRID_GOAL, others);
}

static size_t all_outcomes(const struct wait_results *r, struct wait_goal_result *outcomes)
{
    size_t count = 0;
    for (int size = 0; size < WAKE_SIZES; size++)
        outcomes[count++] = wake_outcome(r, size);
    for (size_t i = 0; i < STEADY; i++)
        if (steady[i].goal > 0)
            outcomes[count++] = steady_outcome(r, i);
    outcomes[count++] = hybrid_outcome("hybrid at 2000/s, worst step", r->slow, SLOW, r->slow_others);
    outcomes[count++] = hybrid_outcome("hybrid at 50000/s, worst step", r->fast, FAST, r->fast_others);
    return count;
}

/* ---- text ---- */

static const char *const way_names[WAKE_WAYS] = {"weir_limiter_acquire", "clock_nanosleep, least timer slack",
                                                 "clock_nanosleep, default slack"};

static const char *goal_verdict(struct wait_goal_result outcome)
{
    return !outcome.sure ? "unsure" : outcome.reached ? "reached" : "missed";
}

/* Behind a figure that was measured while others worked. */
static const char *busy_mark(double others)
{
    return is_busy(others) ? "~" : "";
}

static void print_wakes(const struct wait_results *r)
{
    printf("\n%-36s %7s %9s %9s %9s %9s\n", "us from due to going on, 10 000/s", "threads", "p50", "p99",
           "p99.9", "max");
    for (int i = 0; i < WAKE_SIZES * WAKE_WAYS; i++) {
        const struct wake_errors *e = &r->wakes[i];
        printf("  %-34s %7d %9.1f %9.1f %9.1f %9.1f%s\n", way_names[i % WAKE_WAYS],
               wake_threads[i / WAKE_WAYS], (double)e->p50 / 1e3, (double)e->p99 / 1e3, (double)e->p999 / 1e3,
               (double)e->max / 1e3, busy_mark(e->others));
    }
    for (int size = 0; size < WAKE_SIZES; size++) {
        struct wait_goal_result outcome = wake_outcome(r, size);
        printf("  p99 of acquire with %2d thread%s %6.2fx of clock_nanosleep, goal at most %.1fx  %s\n",
               outcome.threads, outcome.threads == 1 ? ": " : "s:", outcome.value, outcome.at_most,
               goal_verdict(outcome));
    }
}

static void print_steady(const struct wait_results *r)
{
    char number[HUMANIZE_MAX];
    printf("\n%-36s %12s %9s %13s\n", "rate, blocking threads", "reached", "off", "processor us");
    for (size_t i = 0; i < STEADY; i++) {
        const struct steady *s = &steady[i];
        char name[80];
        struct wait_goal_result outcome = steady_outcome(r, i);
        if (s->limits)
            snprintf(name, sizeof name, "%d threads at %s/s", s->threads, words_number(s->rate, number));
        else
            snprintf(name, sizeof name, "  the same by clock_nanosleep");
        printf("  %-34s %12.1f %+8.3f%% %13.2f", name, r->steady[i].rate, outcome.value, r->steady[i].cpu_us);
        if (s->goal > 0)
            printf("%-3sgoal within %.1f%%  %s\n", busy_mark(r->steady[i].others), s->goal,
                   goal_verdict(outcome));
        else
            printf("%s\n", busy_mark(r->steady[i].others));
    }
}

static void print_steps(double step_s, const double *rates, double wanted, double others, const char *limit)
{
    char time[HUMANIZE_MAX];
    for (int i = 0; i < STEPS; i++) {
        double off = percent_off(rates[i], wanted);
        struct wait_goal_result outcome = rate_outcome(limit, HYBRID_THREADS, off, HYBRID_GOAL, others);
        printf("  %-18s %-15s %12.1f %+8.3f%%%-3sgoal within %.0f%%  %s\n", limit,
               words_duration((int64_t)(step_s * 1e9), time), rates[i], off, busy_mark(others), HYBRID_GOAL,
               goal_verdict(outcome));
    }
}

static void add_tick(struct figure_axis *axis, double at, bool guide, const char *label)
{
    struct figure_tick *tick = &axis->ticks[axis->tick_count++];
    tick->at = at;
    tick->guide = guide;
    snprintf(tick->label, sizeof tick->label, "%s", label);
}

static void label_axes(const struct wait_results *r, struct figure *figure)
{
    char label[HUMANIZE_MAX];
    snprintf(figure->title, sizeof figure->title, "64 threads, nobody asks for one step of time");
    snprintf(figure->x.title, sizeof figure->x.title, "time");
    snprintf(figure->y.title, sizeof figure->y.title, "operations a second");
    figure->x.max = CURVE_STEPS;
    figure->y.max = FAST * 1.2;
    for (int step = 0; step < CURVE_STEPS; step += 2)
        add_tick(&figure->x, step, false,
                 step == 0 ? "0" : words_duration((int64_t)(step * r->step_s * 1e9), label));
    add_tick(&figure->y, 0, false, "0");
    add_tick(&figure->y, FAST, true, words_number((int64_t)FAST, label));
    add_tick(&figure->y, FAST * RATIO, true, words_number((int64_t)(FAST * RATIO + 0.5), label));
}

static void print_curve(const struct wait_results *r)
{
    struct figure *figure = calloc(1, sizeof *figure);
    if (!figure)
        return;
    label_axes(r, figure);
    for (size_t i = 0; i < CURVE_WINDOWS; i++)
        figure->points[figure->point_count++] =
            (struct figure_point){((double)i + 0.5) / CURVE_PARTS, r->curve[i]};
    chart_print(stdout, figure);
    free(figure);
}

static void print_hybrid(const struct wait_results *r)
{
    printf("\n%-18s %-17s %12s %9s\n", "hybrid, 64 threads", "  each", "rate", "off");
    print_steps(r->step_s, r->slow, SLOW, r->slow_others, "2000,1.1");
    print_steps(r->step_s, r->fast, FAST, r->fast_others, "set to 50000,1.1");
    putchar('\n');
    print_curve(r);
    printf("caught up at %.3f%s times the rate (%.1f expected)", r->catch_up, busy_mark(r->curve_others),
           RATIO);
    if (r->back_s >= 0)
        printf(", on schedule again after %.1f s (%.1f expected)\n", r->back_s, r->step_s / (RATIO - 1));
    else
        puts(", not on schedule again within the time shown");
}

static bool is_any_busy(const struct wait_results *r)
{
    bool busy = is_busy(r->slow_others) || is_busy(r->fast_others) || is_busy(r->curve_others);
    for (int i = 0; i < WAKE_SIZES * WAKE_WAYS; i++)
        busy |= is_busy(r->wakes[i].others);
    for (size_t i = 0; i < STEADY; i++)
        busy |= is_busy(r->steady[i].others);
    return busy;
}

static void wait_print_text(const struct wait_results *r)
{
    bench_print_machine();
    print_wakes(r);
    print_steady(r);
    print_hybrid(r);
    if (is_any_busy(r))
        puts("~ others had more than a tenth of the processors: what was missed then is unsure");
}

/* ---- json ---- */

static void json_wakes(struct json *json, const struct wait_results *r)
{
    static const char *const names[WAKE_WAYS] = {"acquire", "nanosleep", "nanosleep_default_slack"};
    json_open(json, "wake_errors_ns", '[', JSON_LINES);
    for (int i = 0; i < WAKE_SIZES * WAKE_WAYS; i++) {
        const struct wake_errors *e = &r->wakes[i];
        json_open(json, NULL, '{', JSON_FLAT);
        json_text(json, "way", names[i % WAKE_WAYS]);
        json_number(json, "threads", wake_threads[i / WAKE_WAYS]);
        json_number(json, "count", e->count);
        json_number(json, "p50", e->p50);
        json_number(json, "p99", e->p99);
        json_number(json, "p99.9", e->p999);
        json_number(json, "max", e->max);
        json_decimal(json, "others", e->others);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_open(json, "p99_ratios", '[', JSON_LINES);
    for (int size = 0; size < WAKE_SIZES; size++) {
        json_open(json, NULL, '{', JSON_FLAT);
        json_text(json, "way", names[WAKE_ACQUIRE]);
        json_text(json, "against", names[WAKE_SLACK]);
        json_number(json, "threads", wake_threads[size]);
        json_decimal(json, "ratio", p99_ratio(r, size));
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void json_steady(struct json *json, const struct wait_results *r)
{
    json_open(json, "steady", '[', JSON_LINES);
    for (size_t i = 0; i < STEADY; i++) {
        json_open(json, NULL, '{', JSON_FLAT);
        json_number(json, "threads", steady[i].threads);
        json_text(json, "way", steady[i].limits ? "acquire" : "nanosleep_default_slack");
        json_number(json, "wanted", steady[i].rate);
        json_decimal(json, "rate", r->steady[i].rate);
        json_decimal(json, "cpu_us", r->steady[i].cpu_us);
        json_decimal(json, "others", r->steady[i].others);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void json_rates(struct json *json, const char *name, const double *rates, size_t count)
{
    json_open(json, name, '[', JSON_FLAT);
    for (size_t i = 0; i < count; i++)
        json_decimal(json, NULL, rates[i]);
    json_close(json, ']');
}

static void json_hybrid(struct json *json, const struct wait_results *r)
{
    json_open(json, "hybrid", '{', JSON_LINES);
    json_rates(json, "at_2000", r->slow, STEPS);
    json_rates(json, "at_50000", r->fast, STEPS);
    json_rates(json, "stall", r->curve, CURVE_WINDOWS);
    json_decimal(json, "catch_up", r->catch_up);
    json_decimal(json, "back_s", r->back_s);
    json_rates(json, "others", (double[]){r->slow_others, r->fast_others, r->curve_others}, 3);
    json_close(json, '}');
}

static void wait_json_goals(struct json *json, const struct wait_results *r)
{
    struct wait_goal_result outcomes[GOALS_MAX];
    size_t count = all_outcomes(r, outcomes);
    json_open(json, "goals", '[', JSON_LINES);
    for (size_t i = 0; i < count; i++) {
        const struct wait_goal_result *o = &outcomes[i];
        json_open(json, NULL, '{', JSON_FLAT);
        json_text(json, "name", o->name);
        json_number(json, "threads", o->threads);
        json_decimal(json, o->is_ratio ? "ratio" : "percent_off", o->value);
        json_decimal(json, "at_most", o->at_most);
        json_bool(json, "reached", o->reached);
        json_bool(json, "sure", o->sure);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void wait_print_json(const struct wait_results *r)
{
    struct json json = {.file = stdout};
    json_open(&json, NULL, '{', JSON_LINES);
    json_text(&json, "bench", "wait");
    bench_json_machine(&json);
    json_decimal(&json, "step_s", r->step_s);
    json_wakes(&json, r);
    json_steady(&json, r);
    json_hybrid(&json, r);
    wait_json_goals(&json, r);
    json_close(&json, '}');
}

int bench_wait(const struct bench_options *options)
{
    struct wait_results results = {.step_s = options->seconds};
    bool done = wake_measure(options->seconds * 0.35, results.wakes);
    for (size_t i = 0; i < STEADY && done; i++)
        done = measure_steady(&steady[i], results.step_s, &results.steady[i]);
    done = done && measure_hybrid(&results);
    bench_progress(NULL);
    if (!done)
        return EXIT_ERROR;
    if (options->json)
        wait_print_json(&results);
    else
        wait_print_text(&results);
    return EXIT_OK;
}
