/* SPDX-License-Identifier: MIT */
#include "cli/explain.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "cli/term.h"
#include "cli/words.h"
#include "spec/keywords.h"

#define MINUTE (60 * WEIR_SEC)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

const struct explain_span explain_spans[] = {
    {WEIR_SEC, "second"}, {MINUTE, "minute"}, {HOUR, "hour"}, {DAY, "day"}, {7 * DAY, "week"},
};
const size_t explain_span_count = sizeof explain_spans / sizeof explain_spans[0];

/* ---- rows and notes ---- */

__attribute__((format(printf, 3, 4))) static void add_explain_row(struct explain *explain, const char *label,
                                                                  const char *format, ...)
{
    ASSERT_ALWAYS(explain->row_count < EXPLAIN_ROWS_MAX);
    struct explain_row *new = &explain->rows[explain->row_count++];
    va_list list;
    va_start(list, format);
    vsnprintf(new->value, sizeof new->value, format, list);
    va_end(list);
    snprintf(new->label, sizeof new->label, "%s", label);
}

__attribute__((format(printf, 2, 3))) static void add_explain_note(struct explain *explain,
                                                                   const char *format, ...)
{
    ASSERT_ALWAYS(explain->note_count < EXPLAIN_NOTES_MAX);
    char *text = explain->notes[explain->note_count++];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof explain->notes[0], format, list);
    va_end(list);
}

/* ---- facts ---- */

/* Ticks as time: a unit is period / count, however long a tick may be. */
static int64_t ticks_to_ns(const struct limit *limit, double ticks)
{
    double ns = ticks / (double)limit->ticks.unit * (double)limit->spec.period_ns / (double)limit->spec.count;
    return ns < (double)WEIR_TIME_MAX ? (int64_t)(ns + 0.5) : WEIR_TIME_MAX;
}

static double explain_ticks_to_units(const struct limit *limit, int64_t ticks)
{
    return (double)ticks / (double)limit->ticks.unit;
}

static int64_t units_to_ns(const struct limit *limit, int64_t units)
{
    return mul_div_up(units, limit->spec.period_ns, limit->spec.count);
}

int64_t explain_at_once(const struct limit *limit)
{
    switch ((enum weir_algo)limit->spec.algo) {
    case WEIR_FIXED_WINDOW:
    case WEIR_QUOTA:
    case WEIR_SLIDING_WINDOW: /* their law sees both sides of an edge, however close */
        return limit->spec.count;
    case WEIR_STEP:
        return limit->spec.burst;
    default:
        return limit->algorithm->most(limit, 0);
    }
}

int64_t explain_interval_ns(const struct limit *limit)
{
    return limit->spec.count > 0 ? units_to_ns(limit, 1) : 0;
}

int64_t explain_rest_ns(const struct limit *limit)
{
    const struct weir_spec *spec = &limit->spec;
    switch ((enum weir_algo)spec->algo) {
    case WEIR_TOKEN_BUCKET:
        return units_to_ns(limit, spec->burst);
    case WEIR_INTERVAL:
        return units_to_ns(limit, 1);
    case WEIR_LEAKY_BUCKET: /* the whole queue, and the slot of the last one */
        return units_to_ns(limit, sat_add(spec->queue, 1));
    case WEIR_SMOOTH:
        return ticks_to_ns(limit, (double)limit->full);
    case WEIR_WARMUP:
        return ticks_to_ns(limit, limit->u.warmup.most * limit->u.warmup.cool);
    case WEIR_HYBRID:
        return ticks_to_ns(limit, (double)limit->u.hybrid.active);
    case WEIR_FIXED_WINDOW:
    case WEIR_QUOTA:
    case WEIR_SLIDING_LOG:
        return spec->period_ns;
    case WEIR_SLIDING_WINDOW:
        return sat_mul(2, spec->period_ns);
    case WEIR_STEP:
        return sat_mul(div_up(spec->burst, spec->count), spec->period_ns);
    case WEIR_UNLIMITED:
    case WEIR_BLOCKED:
        break;
    }
    return 0;
}

const char *explain_label(const struct limit *limit, char *text)
{
    return limit->spec.name[0] ? limit->spec.name : explain_text(&limit->spec, text);
}

const char *explain_text(const struct weir_spec *spec, char *text)
{
    if (weir_spec_format(spec, 1, text, EXPLAIN_TEXT_MAX) == 0)
        text[0] = '\0';
    return text;
}

/* Appends " name=value" unless the canonical text says it already. */
static void add_default(char *text, const char *canonical, const char *name, const char *value)
{
    char option[80];
    snprintf(option, sizeof option, " %s=", name);
    if (strstr(canonical, option))
        return;
    size_t len = strlen(text);
    snprintf(text + len, EXPLAIN_TEXT_MAX - len, "%s%s", option, value);
}

static void add_default_count(char *text, const char *canonical, const char *name, int64_t count)
{
    char value[HUMANIZE_MAX];
    weir_spec_format_count(count, value, sizeof value);
    add_default(text, canonical, name, value);
}

const char *explain_defaults(const struct limit *limit, char *text)
{
    const struct weir_spec *spec = &limit->spec;
    char canonical[EXPLAIN_TEXT_MAX], value[HUMANIZE_MAX];
    explain_text(spec, canonical);
    snprintf(text, EXPLAIN_TEXT_MAX, "%s", weir_algo_name(spec->algo));
    switch ((enum weir_algo)spec->algo) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_STEP:
        add_default_count(text, canonical, "burst", spec->burst);
        break;
    case WEIR_SMOOTH:
        if (limit->full % limit->ticks.unit == 0)
            add_default_count(text, canonical, "burst", limit->full / limit->ticks.unit);
        break;
    case WEIR_LEAKY_BUCKET:
        add_default_count(text, canonical, "queue", spec->queue);
        break;
    case WEIR_WARMUP:
        add_default(text, canonical, "cold", words_decimal((double)spec->cold_ppm / 1e6, value));
        add_default(text, canonical, "shape", spec->shape == WEIR_SHAPE_BELOW ? "below" : "above");
        break;
    case WEIR_HYBRID:
        add_default(text, canonical, "ratio", words_decimal((double)spec->ratio_ppm / 1e6, value));
        weir_spec_format_period(spec->pool_ns, value, sizeof value);
        add_default(text, canonical, "pool", value);
        break;
    default:
        break;
    }
    return text;
}

/* ---- sentences that several algorithms share ---- */

static const char *span_name(int64_t span_ns, char *text)
{
    for (size_t i = 0; i < explain_span_count; i++)
        if (explain_spans[i].span_ns == span_ns)
            return explain_spans[i].name;
    return words_duration(span_ns, text);
}

static void say_at_once(const struct limit *limit, struct explain *explain)
{
    char number[HUMANIZE_MAX];
    add_explain_row(explain, "at once", "%s", words_number(explain_at_once(limit), number));
}

static const char *rate_in_words(const struct limit *limit, int64_t ppm, char *text)
{
    int64_t a_second =
        sat_i128((weir_i128)limit->spec.count * WEIR_SEC / limit->spec.period_ns * ppm / 1000000);
    return words_number(a_second, text);
}

/* The pace in the long run. Below a microsecond nobody thinks in intervals. */
static void say_pace(const struct limit *limit, struct explain *explain, const char *label)
{
    char text[HUMANIZE_MAX];
    if (limit->spec.period_ns / limit->spec.count < 1000)
        add_explain_row(explain, label, "%s a second", rate_in_words(limit, 1000000, text));
    else
        add_explain_row(explain, label, "one every %s", words_duration(explain_interval_ns(limit), text));
}

static void say_most(const struct limit *limit, struct explain *explain, int64_t span_ns, const char *more)
{
    ASSERT(limit->algorithm->most(limit, span_ns) >= explain_at_once(limit));
    ASSERT(limit->algorithm->most(limit, span_ns) <= limit->algorithm->most(limit, sat_mul(2, span_ns)));
    char label[EXPLAIN_TEXT_MAX], name[HUMANIZE_MAX], number[HUMANIZE_MAX];
    snprintf(label, sizeof label, "in any %s", span_name(span_ns, name));
    add_explain_row(explain, label, "at most %s%s",
                    words_number(limit->algorithm->most(limit, span_ns), number), more);
}

/* The bound for the period itself and for the next stretch that has a name; for limits by the second also
 * for a minute, since that is where the burst stops to matter. `more` goes with the first. */
static void say_bounds(const struct limit *limit, struct explain *explain, const char *more)
{
    int64_t period_ns = limit->spec.period_ns;
    size_t i = 0;
    while (i < explain_span_count && explain_spans[i].span_ns < period_ns)
        i++;
    if (i == explain_span_count || explain_spans[i].span_ns != period_ns) {
        say_most(limit, explain, period_ns, more);
        more = "";
    }
    if (i == explain_span_count)
        return;
    say_most(limit, explain, explain_spans[i].span_ns, more);
    if (explain_spans[i].span_ns == WEIR_SEC)
        say_most(limit, explain, MINUTE, "");
}

static void say_rest(const struct limit *limit, struct explain *explain, const char *label)
{
    char text[HUMANIZE_MAX];
    add_explain_row(explain, label, "after %s of rest", words_duration(explain_rest_ns(limit), text));
}

static void say_large_n(const struct limit *limit, struct explain *explain)
{
    char time[HUMANIZE_MAX];
    add_explain_row(explain, "a larger n", "starts at once and delays the next: n=10 by %s if none are saved",
                    words_duration(units_to_ns(limit, 10), time));
}

/* The limit's own count and period as text: "5/m". */
static const char *rate_text(const struct limit *limit, char *text)
{
    struct weir_spec plain = {
        .algo = WEIR_TOKEN_BUCKET, .count = limit->spec.count, .period_ns = limit->spec.period_ns};
    return explain_text(&plain, text);
}

#define LOG_SMALL 1000 /* more times than that for every key are not what one would advise */

static void note_exact(const struct limit *limit, struct explain *explain, const char *flow)
{
    char count[HUMANIZE_MAX], period[HUMANIZE_MAX], text[EXPLAIN_TEXT_MAX];
    bool small = limit->spec.count <= LOG_SMALL;
    add_explain_note(explain, "for never more than %s in any %s%s, write %s" TERM_NBSP "algo=%s%s",
                     words_number(limit->spec.count, count), span_name(limit->spec.period_ns, period),
                     small ? "" : ", approximately", rate_text(limit, text),
                     small ? "sliding-log" : "sliding-window", flow);
}

/* ---- the algorithms ---- */

static void explain_token_bucket(const struct limit *limit, struct explain *explain)
{
    const struct weir_spec *spec = &limit->spec;
    char a[HUMANIZE_MAX], b[HUMANIZE_MAX], text[EXPLAIN_TEXT_MAX], flow[EXPLAIN_TEXT_MAX + 64];
    say_at_once(limit, explain);
    if (spec->initial != spec->burst)
        add_explain_row(explain, "at the start", "%s of %s", words_number(spec->initial, a),
                        words_number(spec->burst, b));
    say_pace(limit, explain, "after that");
    say_bounds(limit, explain, "");
    say_rest(limit, explain, "full again");
    if (spec->burst == spec->count && spec->burst > 1 && spec->period_ns / spec->count >= 1000) {
        snprintf(flow, sizeof flow, "; for an even flow, %s" TERM_NBSP "burst=1", rate_text(limit, text));
        note_exact(limit, explain, flow);
    }
}

static void explain_interval(const struct limit *limit, struct explain *explain)
{
    char text[HUMANIZE_MAX];
    say_at_once(limit, explain);
    add_explain_row(explain, "after that", "at least %s from one to the next",
                    words_duration(explain_interval_ns(limit), text));
    say_bounds(limit, explain, "");
    add_explain_row(explain, "saved up", "nothing: a pause earns no burst");
}

static void explain_leaky_bucket(const struct limit *limit, struct explain *explain)
{
    const struct weir_spec *spec = &limit->spec;
    char a[HUMANIZE_MAX], b[HUMANIZE_MAX];
    int64_t queue_ns = units_to_ns(limit, spec->queue);
    add_explain_row(explain, "at once", "1; the others queue");
    say_pace(limit, explain, "after that");
    add_explain_row(explain, "queue", "%s at most; what finds it full is refused",
                    words_number(spec->queue, a));
    if (spec->age_ns > 0 && spec->age_ns < queue_ns)
        add_explain_row(explain, "longest wait", "%s, as age= says; the whole queue would be %s",
                        words_duration(spec->age_ns, a), words_duration(queue_ns, b));
    else
        add_explain_row(explain, "longest wait", "%s", words_duration(queue_ns, a));
    add_explain_row(explain, "a larger n", "leaves as one and keeps n places; up to n=%s",
                    words_number(sat_add(spec->queue, 1), a));
    say_bounds(limit, explain, ", one by one");
    say_rest(limit, explain, "empty again");
    add_explain_note(explain, "take passes only what need not wait; acquire and reserve join the queue");
}

static void explain_smooth(const struct limit *limit, struct explain *explain)
{
    char a[HUMANIZE_MAX], b[HUMANIZE_MAX];
    add_explain_row(explain, "at once", "%s: up to %s saved, and one that the next pays for",
                    words_number(explain_at_once(limit), a),
                    words_decimal(explain_ticks_to_units(limit, limit->full), b));
    add_explain_row(explain, "at the start", "%s saved", words_number(limit->spec.initial, a));
    say_pace(limit, explain, "after that");
    say_large_n(limit, explain);
    say_bounds(limit, explain, ", one by one");
    say_rest(limit, explain, "full again");
    add_explain_note(explain, "smooth refuses no n for its size; token-bucket refuses more than its burst");
}

static void explain_warmup(const struct limit *limit, struct explain *explain)
{
    char a[HUMANIZE_MAX], b[HUMANIZE_MAX];
    bool below = limit->spec.shape == WEIR_SHAPE_BELOW;
    words_duration(ticks_to_ns(limit, limit->u.warmup.edge), a);
    add_explain_row(explain, below ? "after a rest" : "cold",
                    below ? "as fast as one every %s" : "up to %s between two", a);
    say_pace(limit, explain, below ? "after that" : "warm");
    add_explain_row(explain, "saved up", "%s at most; above the threshold of %s they cost %s than fresh ones",
                    words_decimal(limit->u.warmup.most, a), words_decimal(limit->u.warmup.threshold, b),
                    below ? "less" : "more");
    add_explain_row(explain, below ? "slowing down" : "warming up", "takes %s of steady use",
                    words_duration(limit->spec.warmup_ns, a));
    say_large_n(limit, explain);
    say_bounds(limit, explain, ", one by one");
    say_rest(limit, explain, below ? "full again" : "cold again");
}

static void explain_hybrid(const struct limit *limit, struct explain *explain)
{
    char a[HUMANIZE_MAX], b[HUMANIZE_MAX], c[HUMANIZE_MAX], d[HUMANIZE_MAX];
    int64_t active = limit->u.hybrid.active, burst = limit->u.hybrid.over - active;
    add_explain_row(explain, "at once", "%s, once the pools are full",
                    words_number(explain_at_once(limit), a));
    add_explain_row(explain, "at the start",
                    limit->spec.verb == WEIR_VERB_CONFIGURE ? "0, until it is started" : "1");
    add_explain_row(explain, "on schedule", "%s a second, one every %s", rate_in_words(limit, 1000000, a),
                    words_duration(explain_interval_ns(limit), b));
    if (burst > 0)
        add_explain_row(explain, "behind it", "up to %s a second until the delay is made up",
                        rate_in_words(limit, limit->spec.ratio_ppm, a));
    else
        add_explain_row(explain, "behind it", "no faster: a delay is told (behind_ns), never made up");
    words_decimal(explain_ticks_to_units(limit, active), b);
    add_explain_row(explain, "active pool", "%s (%s unit%s): what may start at once",
                    words_duration(ticks_to_ns(limit, (double)active), a), b, strcmp(b, "1") == 0 ? "" : "s");
    if (burst > 0)
        add_explain_row(explain, "burst pool", "%s (%s units): on top, while behind",
                        words_duration(ticks_to_ns(limit, (double)burst), c),
                        words_decimal(explain_ticks_to_units(limit, burst), d));
    add_explain_row(explain, "waiting pool", "no bound: time not used is kept");
    say_bounds(limit, explain, "");
}

static const char *refused_counts(const struct limit *limit)
{
    return limit->spec.refused == WEIR_REFUSED_COUNT ? "is counted as well" : "is not counted";
}

/* fixed-window and quota */
static void explain_window(const struct limit *limit, struct explain *explain)
{
    char a[HUMANIZE_MAX], b[HUMANIZE_MAX];
    bool quota = limit->spec.algo == WEIR_QUOTA;
    add_explain_row(explain, "in a window", "%s; a new one begins every %s",
                    words_number(limit->spec.count, a), words_duration(limit->spec.period_ns, b));
    add_explain_row(explain, "across an edge", "up to %s in a moment",
                    words_number(sat_mul(2, limit->spec.count), a));
    say_bounds(limit, explain, "");
    add_explain_row(explain, quota ? "in a fleet" : "a refusal", "%s",
                    quota ? "one total for all machines" : refused_counts(limit));
    add_explain_row(explain, "full again", "with the next window");
    if (!quota)
        note_exact(limit, explain, "");
}

static void explain_sliding_window(const struct limit *limit, struct explain *explain)
{
    char a[HUMANIZE_MAX], b[HUMANIZE_MAX];
    say_at_once(limit, explain);
    add_explain_row(explain, "counted", "the present window, and the one before as it fades");
    words_number(limit->spec.count, a);
    add_explain_row(explain, "in an even flow", "%s in any %s", a, span_name(limit->spec.period_ns, b));
    say_bounds(limit, explain, " in the worst case");
    add_explain_row(explain, "a refusal", "%s", refused_counts(limit));
    say_rest(limit, explain, "full again");
    if (limit->spec.count <= LOG_SMALL)
        note_exact(limit, explain, "");
}

static void explain_sliding_log(const struct limit *limit, struct explain *explain)
{
    say_at_once(limit, explain);
    say_bounds(limit, explain, ", exactly");
    add_explain_row(explain, "a refusal", "%s", refused_counts(limit));
    say_rest(limit, explain, "full again");
}

static void explain_step(const struct limit *limit, struct explain *explain)
{
    const struct weir_spec *spec = &limit->spec;
    char a[HUMANIZE_MAX], b[HUMANIZE_MAX];
    say_at_once(limit, explain);
    if (spec->initial != spec->burst)
        add_explain_row(explain, "at the start", "%s of %s", words_number(spec->initial, a),
                        words_number(spec->burst, b));
    add_explain_row(explain, "after that", "%s more every %s, in one step", words_number(spec->count, a),
                    words_duration(spec->period_ns, b));
    say_bounds(limit, explain, "");
    if (spec->refused == WEIR_REFUSED_DRAIN)
        add_explain_row(explain, "a refusal", "takes what is left");
    if (spec->strict)
        add_explain_row(explain, "used up", "the period starts anew%s",
                        spec->refused == WEIR_REFUSED_DRAIN ? ", and again with every refusal" : "");
    say_rest(limit, explain, "full again");
}

static void explain_unlimited(const struct limit *limit, struct explain *explain)
{
    (void)limit;
    add_explain_row(explain, "lets pass", "everything, always");
}

static void explain_blocked(const struct limit *limit, struct explain *explain)
{
    (void)limit;
    add_explain_row(explain, "lets pass", "nothing, ever");
}

static void (*const explainers[])(const struct limit *limit, struct explain *explain) = {
    [WEIR_TOKEN_BUCKET] = explain_token_bucket,
    [WEIR_INTERVAL] = explain_interval,
    [WEIR_LEAKY_BUCKET] = explain_leaky_bucket,
    [WEIR_SMOOTH] = explain_smooth,
    [WEIR_WARMUP] = explain_warmup,
    [WEIR_HYBRID] = explain_hybrid,
    [WEIR_FIXED_WINDOW] = explain_window,
    [WEIR_SLIDING_WINDOW] = explain_sliding_window,
    [WEIR_SLIDING_LOG] = explain_sliding_log,
    [WEIR_STEP] = explain_step,
    [WEIR_UNLIMITED] = explain_unlimited,
    [WEIR_BLOCKED] = explain_blocked,
    [WEIR_QUOTA] = explain_window,
};

/* A state is as large as all its limits; with several, this one's part of it. */
static void say_memory(const struct weir_policy *policy, const struct limit *limit, struct explain *explain)
{
    char a[HUMANIZE_MAX], b[HUMANIZE_MAX];
    words_number((int64_t)weir_policy_state_size(policy), a);
    words_number((int64_t)(limit->algorithm->words(limit) * sizeof(int64_t)), b);
    if (policy->count == 1)
        add_explain_row(explain, "memory", "a state has %s bytes: it keeps the time of each unit", a);
    else
        add_explain_row(explain, "memory", "%s of the %s bytes of a state: the time of each unit", b, a);
}

void explain_limit(const struct weir_policy *policy, size_t index, struct explain *explain)
{
    const struct limit *limit = &policy->limits[index];
    char text[HUMANIZE_MAX];
    explain->row_count = explain->note_count = 0;
    explainers[limit->spec.algo](limit, explain);
    if (limit->spec.timeout_ns > 0)
        add_explain_row(explain, "who waits", "up to %s; a longer wait is refused at once",
                        words_duration(limit->spec.timeout_ns, text));
    if (limit->spec.algo == WEIR_SLIDING_LOG)
        say_memory(policy, limit, explain);
}
