/* SPDX-License-Identifier: MIT */
#include "cli/figure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "cli/explain.h"
#include "cli/words.h"

#define SAMPLES  400
#define ASKS_MAX 250 /* of the phase that asks for twice the rate */

/* ---- axes ---- */

static void tick_add(struct figure_axis *axis, double at, bool guide, const char *label)
{
    if (axis->tick_count == FIGURE_TICKS_MAX)
        return;
    struct figure_tick *tick = &axis->ticks[axis->tick_count++];
    tick->at = at;
    tick->guide = guide;
    snprintf(tick->label, sizeof tick->label, "%s", label);
}

/* The first of 1, 2, 5, 10, 20 ... times `unit` that divides the span into at most six parts. */
static int64_t round_step(int64_t span, int64_t unit)
{
    static const int64_t factors[] = {1, 2, 5};
    for (int64_t power = unit;; power = sat_mul(power, 10))
        for (size_t i = 0; i < 3; i++)
            if (span / sat_mul(power, factors[i]) <= 6)
                return sat_mul(power, factors[i]);
}

/* People count seconds in tens, but minutes and hours in other parts. */
static int64_t time_step(int64_t span_ns)
{
    static const int64_t seconds[] = {10,  15,   30,   60,   120,   300,   600,
                                      900, 1800, 3600, 7200, 10800, 21600, 43200};
    int64_t step = round_step(span_ns, 1);
    if (step <= 5 * WEIR_SEC)
        return step;
    for (size_t i = 0; i < sizeof seconds / sizeof seconds[0]; i++)
        if (span_ns / (seconds[i] * WEIR_SEC) <= 6)
            return seconds[i] * WEIR_SEC;
    return round_step(span_ns, 86400 * WEIR_SEC);
}

static void axis_time(struct figure_axis *axis, int64_t span_ns)
{
    char label[HUMANIZE_MAX];
    int64_t step = time_step(span_ns);
    axis->max = (double)span_ns;
    snprintf(axis->title, sizeof axis->title, "time");
    for (int64_t at = 0; at <= span_ns; at = sat_add(at, step))
        tick_add(axis, (double)at, false, at == 0 ? "0" : words_duration(at, label));
}

static void axis_units(struct figure_axis *axis, double most, const char *title)
{
    char label[HUMANIZE_MAX];
    int64_t top = most < 1 ? 1 : most < 9e18 ? (int64_t)most : INT64_MAX, step = round_step(top, 1);
    axis->max = most < 1 ? 1 : most;
    snprintf(axis->title, sizeof axis->title, "%s", title);
    for (int64_t at = 0; at <= top; at = sat_add(at, step)) {
        if (top < 10000000)
            words_number(at, label);
        else
            weir_spec_format_count(at, label, sizeof label); /* 500M: there is no room for the zeros */
        tick_add(axis, (double)at, false, label);
        if (at == INT64_MAX)
            break;
    }
}

/* ---- the scene ---- */

struct figure_scene {
    const struct limit *limit;
    struct weir_policy *policy;
    void *state;
    struct figure *figure;
    int64_t chunk;                  /* units of one ask */
    int64_t next_ns, step_ns;       /* of the samples */
    int64_t due[FIGURE_POINTS_MAX]; /* leaky-bucket: when each ask leaves the queue */
    size_t due_count;
};

static bool scene_queues(const struct figure_scene *scene)
{
    return scene->limit->spec.algo == WEIR_LEAKY_BUCKET;
}

static bool limit_saves(const struct limit *limit)
{
    return limit->spec.algo == WEIR_SMOOTH || limit->spec.algo == WEIR_WARMUP;
}

/* What the line shows: units left, units saved, or units waiting. While a debt is paid nothing is saved or
 * spent, so the store is what it will be at the end of that. */
static double scene_level(const struct figure_scene *scene, int64_t now)
{
    struct weir_verdict verdict;
    if (!scene_queues(scene)) {
        bool allowed = weir_state_peek(scene->policy, scene->state, now, 1, &verdict);
        if (!allowed && limit_saves(scene->limit))
            weir_state_peek(scene->policy, scene->state, sat_add(now, verdict.retry_after_ns), 1, &verdict);
        return (double)verdict.remaining;
    }
    size_t waiting = 0;
    for (size_t i = scene->due_count; i > 0 && scene->due[i - 1] > now; i--)
        waiting++;
    return (double)waiting * (double)scene->chunk;
}

static void point_add(struct figure *figure, int64_t now, double y)
{
    if (figure->point_count == FIGURE_POINTS_MAX)
        return;
    ASSERT(y >= 0 && (figure->point_count == 0 || figure->points[figure->point_count - 1].x <= (double)now));
    figure->points[figure->point_count++] = (struct figure_point){(double)now, y};
    if (y > figure->y.max)
        figure->y.max = y;
}

/* The moment after `low` at which the level becomes `y`, which it is at `high`. */
static int64_t moment_of(const struct figure_scene *scene, int64_t low, int64_t high, double y)
{
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (scene_level(scene, middle) == y)
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* Draws on to `now`: a jump upright, many small steps as a slope. */
static void figure_draw_to(struct figure_scene *scene, int64_t now)
{
    struct figure *figure = scene->figure;
    double y = scene_level(scene, now);
    if (figure->point_count > 0) {
        const struct figure_point last = figure->points[figure->point_count - 1];
        int64_t moment = y == last.y ? 0 : moment_of(scene, (int64_t)last.x, now, y);
        if ((double)moment > last.x && scene_level(scene, moment - 1) == last.y) {
            point_add(figure, moment, last.y);
            point_add(figure, moment, y);
        }
    }
    point_add(figure, now, y);
}

/* Samples the time that passes without anybody asking. */
static void figure_pass_time(struct figure_scene *scene, int64_t until)
{
    for (; scene->next_ns < until; scene->next_ns += scene->step_ns)
        figure_draw_to(scene, scene->next_ns);
}

static void figure_ask(struct figure_scene *scene, int64_t now, int64_t n)
{
    struct figure *figure = scene->figure;
    struct weir_verdict verdict;
    figure_pass_time(scene, now);
    figure_draw_to(scene, now);
    bool allowed = weir_state_reserve(scene->policy, scene->state, now, n,
                                      scene_queues(scene) ? WEIR_FOREVER : 0, NULL, &verdict);
    if (!allowed && figure->refused_count < FIGURE_POINTS_MAX)
        figure->refused[figure->refused_count++] = (double)now;
    if (allowed && verdict.wait_ns > 0 && scene->due_count < FIGURE_POINTS_MAX)
        scene->due[scene->due_count++] = now + verdict.wait_ns;
    figure_draw_to(scene, now);
}

/* How long the phases are: the time in which a used-up limit recovers, but several intervals, and at least
 * long enough to have nanoseconds to draw. */
static int64_t phase_ns(const struct limit *limit)
{
    int64_t recover = max64(explain_rest_ns(limit), sat_mul(8, explain_interval_ns(limit)));
    return clamp64(recover, 1000, WEIR_TIME_MAX / 16);
}

static int64_t play_scene(struct figure_scene *scene)
{
    const struct limit *limit = scene->limit;
    struct weir_verdict verdict;
    int64_t phase = phase_ns(limit);
    weir_state_peek(scene->policy, scene->state, 0, 1, &verdict);
    int64_t burst = max64(phase / 5, min64(sat_add(verdict.reset_after_ns, phase / 10), 2 * phase));
    int64_t rest = burst + phase + phase / 4, end = rest + phase + phase / 5;
    scene->step_ns = max64(end / SAMPLES, 1);

    figure_pass_time(scene, burst);
    weir_state_peek(scene->policy, scene->state, burst, 1, &verdict);
    int64_t at_once = scene_queues(scene) ? limit->spec.queue : verdict.remaining;
    for (int64_t asked = 0; asked < at_once / 2; asked += scene->chunk)
        figure_ask(scene, burst, scene->chunk);

    int64_t twice = max64(mul_div(scene->chunk, limit->spec.period_ns, limit->spec.count) / 2, 1);
    int64_t gap = max64(twice, (rest - burst) / ASKS_MAX);
    for (int64_t now = burst + gap; now <= rest; now += gap)
        figure_ask(scene, now, scene->chunk);
    figure_pass_time(scene, end);
    figure_draw_to(scene, end);
    return end;
}

bool figure_time(const struct limit *limit, struct figure *figure)
{
    *figure = (struct figure){.title = ""};
    if (limit->spec.algo == WEIR_UNLIMITED || limit->spec.algo == WEIR_BLOCKED)
        return false;
    struct figure_scene *scene = calloc(1, sizeof *scene);
    struct weir_policy *policy = weir_policy_from(&limit->spec, 1, NULL);
    void *state = policy ? malloc(weir_policy_state_size(policy)) : NULL;
    bool ready = scene && state;
    if (ready) {
        int64_t most = limit->spec.algo == WEIR_LEAKY_BUCKET ? limit->spec.queue : explain_at_once(limit);
        if (limit->spec.algo == WEIR_WARMUP)
            most = (int64_t)limit->u.warmup.most;
        *scene = (struct figure_scene){
            .limit = limit, .policy = policy, .state = state, .figure = figure, .chunk = max64(most / 40, 1)};
        weir_state_init(policy, state, 0);
        int64_t end_ns = play_scene(scene);
        axis_time(&figure->x, end_ns);
        axis_units(&figure->y, figure->y.max,
                   scene_queues(scene)  ? "units waiting"
                   : limit_saves(limit) ? "units saved"
                                        : "units left");
        snprintf(figure->title, sizeof figure->title, "a rest, a burst, twice the rate, a rest%s",
                 limit_saves(limit) ? "; who has to wait finds remaining 0, but what is saved stays" : "");
    }
    free(state);
    weir_policy_free(policy);
    free(scene);
    return ready;
}

bool figure_curve(const struct limit *limit, struct figure *figure)
{
    *figure = (struct figure){.title = ""};
    if (limit->spec.algo != WEIR_WARMUP || limit->spec.shape == WEIR_SHAPE_OWN)
        return false;
    char label[HUMANIZE_MAX], text[HUMANIZE_MAX + 16];
    double unit_ns = (double)limit->spec.period_ns / (double)limit->spec.count;
    double edge_ns = unit_ns * limit->u.warmup.edge / limit->u.warmup.unit;
    double threshold = limit->u.warmup.threshold, most = limit->u.warmup.most;
    bool below = limit->spec.shape == WEIR_SHAPE_BELOW;

    const struct figure_point corners[] = {{0, unit_ns}, {threshold, unit_ns}, {most, edge_ns}};
    memcpy(figure->points, corners, sizeof corners);
    figure->point_count = sizeof corners / sizeof corners[0];
    snprintf(figure->title, sizeof figure->title, "how long taking one unit delays the next");

    figure->x.max = most;
    snprintf(figure->x.title, sizeof figure->x.title, "units saved");
    tick_add(&figure->x, 0, false, "0");
    snprintf(text, sizeof text, "threshold %s", words_decimal(threshold, label));
    tick_add(&figure->x, threshold, true, text);
    snprintf(text, sizeof text, "full %s", words_decimal(most, label));
    tick_add(&figure->x, most, true, text);

    figure->y.max = below ? unit_ns : edge_ns;
    snprintf(figure->y.title, sizeof figure->y.title, "price of a unit");
    tick_add(&figure->y, 0, false, "0");
    snprintf(text, sizeof text, "stable %s", words_duration((int64_t)(unit_ns + 0.5), label));
    tick_add(&figure->y, unit_ns, true, text);
    snprintf(text, sizeof text, "%s %s", below ? "rested" : "cold",
             words_duration((int64_t)(edge_ns + 0.5), label));
    tick_add(&figure->y, edge_ns, true, text);

    figure->shade_from = threshold;
    figure->shade_to = most;
    snprintf(figure->shade_label, sizeof figure->shade_label, "warmup %s",
             words_duration(limit->spec.warmup_ns, label));
    return true;
}
