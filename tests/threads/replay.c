/* SPDX-License-Identifier: MIT */
#include "threads/replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/law.h"

/* ---- the log ---- */

void replay_add(struct replay_log *log, struct replay_event event)
{
    if (log->count == log->room) {
        log->room = log->room ? 2 * log->room : 256;
        log->events = realloc(log->events, log->room * sizeof *log->events);
        if (!log->events)
            abort();
    }
    log->events[log->count++] = event;
}

void replay_append(struct replay_log *log, const struct replay_log *other)
{
    for (size_t i = 0; i < other->count; i++)
        replay_add(log, other->events[i]);
}

void replay_free(struct replay_log *log)
{
    free(log->events);
    *log = (struct replay_log){0};
}

/* ---- one law over some epochs ---- */

/* Epochs first..last, which one limit has gone through without a break. */
struct stretch {
    const struct replay_epoch *epochs;
    size_t first, last, limit;
};

/* An event as one interval meets it: what is admitted counts from its end on, what is given from its
 * beginning. */
struct step {
    int64_t key;   /* the interval has to reach so far */
    int64_t start; /* and to begin no later */
    int64_t n;
    weir_i128 earned_key, earned_start; /* by the whole stretch, up to these times */
};

static const struct limit *limit_of(const struct stretch *s, size_t epoch)
{
    return &s->epochs[epoch].policy->limits[s->limit];
}

static bool is_bucket(const struct limit *limit)
{
    switch ((enum weir_algo)limit->spec.algo) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_INTERVAL:
    case WEIR_LEAKY_BUCKET:
    case WEIR_SMOOTH:
    case WEIR_WARMUP:
    case WEIR_HYBRID:
        return true;
    default:
        return false;
    }
}

/* The first time after `time` at which another epoch may count. */
static int64_t next_edge(const struct stretch *s, int64_t time, int64_t end)
{
    for (size_t i = s->first; i <= s->last; i++) {
        int64_t from = s->epochs[i].from, after = sat_add(s->epochs[i].until, 1);
        end = from > time && from < end ? from : end;
        end = after > time && after < end ? after : end;
    }
    return end;
}

/* What the fastest of the rates in force brings from the beginning of the stretch up to `time`. */
static weir_i128 earned_by(const struct stretch *s, int64_t time)
{
    int64_t from = s->epochs[s->first].from;
    weir_i128 sum = 0;
    while (from < time) {
        int64_t edge = next_edge(s, from, time);
        weir_i128 most = 0;
        for (size_t i = s->first; i <= s->last; i++)
            if (s->epochs[i].from <= from && from <= s->epochs[i].until)
                most = model_max(most, law_earned(limit_of(s, i), edge - from));
        sum += most;
        from = edge;
    }
    return sum;
}

/* The largest burst, and a nanosecond of grace for each epoch; and what earned_by may round up too early. */
static weir_i128 capacity_of(const struct stretch *s)
{
    weir_i128 most = 0, grace = 0;
    for (size_t i = s->first; i <= s->last; i++) {
        most = model_max(most, law_capacity(limit_of(s, i)));
        grace += law_earned(limit_of(s, i), 1 + (i > s->first ? s->epochs[i].behind_ns : 0)) + 2;
    }
    return most + grace;
}

/* What a law that counts whole units allows in [x, y]. */
static weir_i128 counted_most(const struct weir_spec *spec, int64_t x, int64_t y)
{
    switch ((enum weir_algo)spec->algo) {
    case WEIR_FIXED_WINDOW:
    case WEIR_QUOTA:
    case WEIR_SLIDING_WINDOW:
        return (weir_i128)spec->count * (y / spec->period_ns - x / spec->period_ns + 1);
    case WEIR_SLIDING_LOG:
        return (weir_i128)spec->count * ((y - x) / spec->period_ns + 1);
    case WEIR_STEP:
        return spec->burst + (weir_i128)spec->count * ((y - x) / spec->period_ns + 1);
    case WEIR_BLOCKED:
        return 0;
    default:
        return INT64_MAX;
    }
}

/* What was given at the same moment may have come first. */
static int by_key(const void *a, const void *b)
{
    const struct step *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->n < y->n ? -1 : x->n > y->n;
}

/* Events that may belong to an epoch outside are no evidence; what they gave back counts. */
static struct step *steps_of(const struct stretch *s, const struct replay_log *log, size_t *count)
{
    struct step *steps = calloc(log->count + 1, sizeof *steps);
    bool bucket = is_bucket(limit_of(s, s->first));
    if (!steps)
        abort();
    *count = 0;
    for (size_t i = 0; i < log->count; i++) {
        const struct replay_event *e = &log->events[i];
        bool gives = e->n < 0, certain = e->first >= s->first && e->last <= s->last;
        bool possible = e->last >= s->first && e->first <= s->last;
        if (gives ? !possible : !certain)
            continue;
        struct step step = {gives ? e->low : e->high, gives ? e->high : e->low, e->n, 0, 0};
        if (bucket) {
            step.earned_key = earned_by(s, step.key);
            step.earned_start = earned_by(s, step.start);
        }
        steps[(*count)++] = step;
    }
    qsort(steps, *count, sizeof *steps, by_key);
    return steps;
}

static void print_event(const struct replay_event *e, const struct step *around)
{
    if (e->high < around->start || e->low > around->key)
        return;
    printf("#   %" PRId64 " to %" PRId64 ": %s %" PRId64 ", epochs %u to %u\n", e->low, e->high, e->what,
           e->n, e->first, e->last);
}

static bool broken(const struct stretch *s, const struct replay_log *log, const struct step *from,
                   const struct step *to, weir_i128 sum)
{
    struct step around = {.start = from->start, .key = to->key};
    char text[256];
    printf("# limit %zu, epochs %zu to %zu: %" PRId64 " units from %" PRId64 " to %" PRId64
           " are more than its law allows\n",
           s->limit, s->first, s->last, (int64_t)sum, from->start, to->key);
    for (size_t i = s->first; i <= s->last && i < s->first + 8; i++) {
        (void)weir_spec_format(&limit_of(s, i)->spec, 1, text, sizeof text);
        printf("#   epoch %zu, %" PRId64 " to %" PRId64 ": %s\n", i, s->epochs[i].from, s->epochs[i].until,
               text);
    }
    for (size_t i = 0; i < log->count; i++)
        print_event(&log->events[i], &around);
    return false;
}

/* All intervals that begin with what `first` begins. */
static bool intervals_hold(const struct stretch *s, const struct step *steps, size_t count,
                           const struct step *first, weir_i128 capacity, const struct replay_log *log)
{
    const struct limit *limit = limit_of(s, s->first);
    bool bucket = is_bucket(limit), later = law_pays_later(limit);
    int64_t sum = 0, largest = 0;
    for (size_t i = 0; i < count; i++) {
        const struct step *step = &steps[i];
        if (step->start < first->start)
            continue;
        sum += step->n;
        largest = later ? max64(largest, step->n) : 0;
        if (step->n < 0)
            continue;
        int64_t counts = sum - largest;
        bool holds = bucket ? counts * LAW_ONE <= capacity + step->earned_key - first->earned_start
                            : counts <= counted_most(&limit->spec, first->start, step->key);
        if (!holds)
            return broken(s, log, first, step, counts);
    }
    return true;
}

/* present + previous * (W - e) / W <= count, for what is certain to lie in the two windows. */
static bool window_fades(const struct stretch *s, const struct step *steps, size_t count,
                         const struct step *last, const struct replay_log *log)
{
    const struct weir_spec *spec = &limit_of(s, s->first)->spec;
    int64_t window = last->start / spec->period_ns;
    weir_i128 present = last->n, previous = 0, period = spec->period_ns;
    if (last->key / spec->period_ns != window)
        return true;
    for (size_t i = 0; i < count; i++) {
        const struct step *step = &steps[i];
        int64_t low = step->start / spec->period_ns, high = step->key / spec->period_ns;
        if (step->n < 0) /* given: these two have changed places */
            present += low >= window - 1 && high <= window ? step->n : 0;
        else if (low == window && high == window && step->key <= last->start && step != last)
            present += step->n;
        else if (low == window - 1 && high == window - 1)
            previous += step->n;
    }
    weir_i128 left = period - last->key % spec->period_ns;
    if (present * period + previous * left <= spec->count * period)
        return true;
    return broken(s, log, last, last, present);
}

static bool stretch_holds(const struct stretch *s, const struct replay_log *log)
{
    const struct weir_spec *spec = &limit_of(s, s->first)->spec;
    size_t count;
    if (spec->algo == WEIR_UNLIMITED || spec->shape == WEIR_SHAPE_OWN)
        return true;
    struct step *steps = steps_of(s, log, &count);
    weir_i128 capacity = is_bucket(limit_of(s, s->first)) ? capacity_of(s) : 0;
    bool holds = true;
    for (size_t i = 0; i < count && holds; i++) {
        if (steps[i].n < 0)
            continue;
        holds = intervals_hold(s, steps, count, &steps[i], capacity, log);
        if (holds && spec->algo == WEIR_SLIDING_WINDOW)
            holds = window_fades(s, steps, count, &steps[i], log);
    }
    free(steps);
    return holds;
}

/* ---- all laws ---- */

/* Buckets that keep units across a change obey one law over all of it. */
static bool goes_on(const struct replay_epoch *before, const struct replay_epoch *epoch, size_t limit)
{
    if (epoch->anew || limit >= before->policy->count)
        return false;
    int32_t algo = epoch->policy->limits[limit].spec.algo;
    return algo == before->policy->limits[limit].spec.algo &&
           (algo == WEIR_TOKEN_BUCKET || algo == WEIR_INTERVAL || algo == WEIR_LEAKY_BUCKET);
}

/* What was promised before a change follows the old rate until it is due. */
static void extend(const struct replay_log *log, struct replay_epoch *epochs)
{
    for (size_t i = 0; i < log->count; i++)
        for (uint32_t epoch = log->events[i].first; epoch <= log->events[i].last; epoch++)
            epochs[epoch].until = max64(epochs[epoch].until, log->events[i].high);
}

bool replay_holds(const struct replay_log *log, struct replay_epoch *epochs, size_t count)
{
    extend(log, epochs);
    for (size_t limit = 0; limit < WEIR_LIMITS_MAX; limit++) {
        struct stretch s = {.epochs = epochs, .limit = limit};
        for (size_t i = 0; i < count; i++) {
            if (limit >= epochs[i].policy->count)
                continue;
            if (i == 0 || !goes_on(&epochs[i - 1], &epochs[i], limit))
                s.first = i;
            s.last = i;
            bool ends = i + 1 == count || limit >= epochs[i + 1].policy->count ||
                        !goes_on(&epochs[i], &epochs[i + 1], limit);
            if (ends && !stretch_holds(&s, log))
                return false;
        }
    }
    return true;
}
