/* SPDX-License-Identifier: MIT */
/*
 * Random puts and runs of a job queue, at explicit times, beside a slow exact model: who leaves, when and in
 * what order, what is refused and discarded, what every verdict says, and that no job is lost or called
 * twice. Then many threads, which put what they can.
 */
#include <pthread.h>
#include <sched.h>

#include "check.h"
#include "core/limit.h"

#define JOBS_MAX 64 /* more than any queue here holds */

/* ---- jobs that remember ------------------------------------------------------------------------- */

/* What was called since the last look, in order. */
static struct {
    struct {
        int64_t id;
        struct weir_verdict verdict;
    } calls[JOBS_MAX];
    size_t count;
} book;

/* The id is the pointer itself. */
static void note(void *arg, const struct weir_verdict *verdict)
{
    if (CHECK(book.count < JOBS_MAX)) {
        book.calls[book.count].id = (int64_t)(intptr_t)arg;
        book.calls[book.count++].verdict = *verdict;
    }
}

/* ---- a slow exact model ------------------------------------------------------------------------- */

/* Jobs in a list, and the tick at which the next slot begins. Everything is found by going through the list.
 */
struct model {
    const struct limit *limit;
    struct {
        int64_t id, n, put_ns;
    } jobs[JOBS_MAX];
    int64_t count;
    weir_i128 slot; /* the tick; 0: at once */
    int64_t last_ns, last_n;
    bool exact; /* no slot is rounded in another way than was planned when its job came */
};

/* When a job of n units would be accepted, and when its turn would be then. */
struct model_answer {
    int64_t open, due;
};

static weir_i128 model_tick(const struct model *m, int64_t time)
{
    weir_u128 part = (weir_u128)(uint64_t)time * m->limit->ticks.frac;
    return (weir_i128)m->limit->ticks.whole * time + (weir_i128)(part >> 64) + ((uint64_t)part != 0);
}

/* The first time at which `tick` has been reached. */
static int64_t model_when(const struct model *m, weir_i128 tick)
{
    weir_u128 rate = ((weir_u128)m->limit->ticks.whole << 64) + m->limit->ticks.frac;
    return tick <= 0 ? 0 : (int64_t)(((weir_u128)(tick - 1) << 64) / rate) + 1;
}

/* Where the next slot begins if a job of n units leaves at `time`: a job that leaves in the first nanosecond
 * of its slot has not left too late, however much of that nanosecond is over. */
static weir_i128 model_leave(const struct model *m, weir_i128 slot, int64_t time, int64_t n)
{
    bool late = time > 0 && model_tick(m, time - 1) >= slot;
    return (late ? model_tick(m, time) : slot) + n * (weir_i128)m->limit->ticks.unit;
}

static struct model_answer model_ask(const struct model *m, int64_t now, int64_t n)
{
    weir_i128 slot = m->slot, unit = m->limit->ticks.unit;
    int64_t time = now, age = m->limit->spec.age_ns;
    for (int64_t i = 0; i < m->count; i++) {
        time = max64(time, model_when(m, slot));
        bool waits = i > 0 || slot > model_tick(m, now); /* a first one that does not may leave any time */
        slot = waits ? model_leave(m, slot, time, m->jobs[i].n) : model_tick(m, time) + m->jobs[i].n * unit;
    }
    struct model_answer answer = {now, max64(now, model_when(m, slot))};
    weir_i128 ahead = slot > model_tick(m, now) ? slot - model_tick(m, now) : 0;
    weir_i128 excess = ahead + (n - 1 - m->limit->spec.queue) * unit;
    if (excess > 0)
        answer.open = model_when(m, model_tick(m, now) + excess);
    if (age != 0 && answer.due - age > answer.open)
        answer.open = answer.due - age;
    return answer;
}

static int64_t model_remaining(const struct model *m, int64_t now)
{
    int64_t n = 0;
    while (n <= m->limit->spec.queue && model_ask(m, now, n + 1).open == now)
        n++;
    return n;
}

static int64_t model_units(const struct model *m)
{
    int64_t units = 0;
    for (int64_t i = 0; i < m->count; i++)
        units += m->jobs[i].n;
    return units;
}

/* Ticks are nanoseconds: nothing is ever rounded. */
static bool model_is_whole(const struct model *m)
{
    return m->limit->ticks.whole == 1 && m->limit->ticks.frac == 0;
}

/* The first job could have left before. */
static bool model_is_late(const struct model *m, int64_t now)
{
    return m->count > 0 && now > max64(model_when(m, m->slot), m->jobs[0].put_ns);
}

static void model_shift(struct model *m)
{
    m->count--;
    memmove(m->jobs, m->jobs + 1, (size_t)m->count * sizeof m->jobs[0]);
}

/* ---- the queue beside its model ------------------------------------------------------------------ */

struct trial {
    struct rng rng;
    struct weir_queue *queue;
    struct weir_policy *policy;
    struct model model;
    struct weir_verdict verdict; /* of the last put */
    int64_t now, slot_ns, ids;
    int64_t operations, left, refused, discarded, returned, canceled;
};

/* Where a tick is not a nanosecond, the slots of jobs behind one that is late are rounded anew: their times
 * are then known to a nanosecond for each. */
static int64_t slack(struct trial *t)
{
    struct model *m = &t->model;
    if (model_is_late(m, t->now))
        m->exact = model_is_whole(m);
    return m->exact ? 0 : m->count + 1;
}

static bool near(int64_t got, int64_t want, int64_t tolerance)
{
    if (tolerance == 0)
        return CHECK_EQ(got, want);
    return CHECK(got >= want - tolerance && got <= want + tolerance);
}

static void trial_enter(struct trial *t, int64_t n)
{
    struct model *m = &t->model;
    if (!CHECK(m->count < JOBS_MAX))
        return;
    m->exact = m->exact || m->count == 0;
    m->jobs[m->count].id = t->ids++;
    m->jobs[m->count].n = n;
    m->jobs[m->count++].put_ns = t->now;
}

static bool trial_put(struct trial *t, int64_t n)
{
    struct weir_verdict *v = &t->verdict;
    int64_t tolerance = slack(t);
    struct model_answer answer = model_ask(&t->model, t->now, n);
    bool entered = weir_queue_put_at(t->queue, t->now, n, note, (void *)(intptr_t)t->ids, v);
    t->operations++;
    CHECK_EQ(v->allowed, entered);
    if (n > t->model.limit->spec.queue + 1) {
        CHECK_EQ(v->reason, WEIR_NEVER);
        return entered;
    }
    CHECK_EQ(v->reason, entered ? WEIR_OK : WEIR_FULL);
    CHECK((v->retry_after_ns == 0) == entered);
    (void)near(t->now + v->retry_after_ns, answer.open, tolerance);
    (void)near(t->now + v->wait_ns, answer.due, tolerance);
    if (entered)
        trial_enter(t, n);
    else
        t->refused++;
    if (t->model.exact)
        CHECK_EQ(v->remaining, model_remaining(&t->model, t->now));
    return entered;
}

/* Call `index` in the book is the first job of the model. */
static void expect_first(const struct trial *t, size_t index, int32_t reason)
{
    const struct model *m = &t->model;
    if (!CHECK(index < book.count))
        return;
    const struct weir_verdict *v = &book.calls[index].verdict;
    CHECK_EQ(book.calls[index].id, m->jobs[0].id);
    CHECK_EQ(v->reason, reason);
    CHECK_EQ(v->allowed, reason == WEIR_OK);
    CHECK_EQ(v->wait_ns, max64(t->now - m->jobs[0].put_ns, 0));
}

static bool first_is_old(const struct trial *t)
{
    const struct model *m = &t->model;
    int64_t age = m->limit->spec.age_ns;
    return m->count > 0 && age != 0 && t->now - m->jobs[0].put_ns > age;
}

static size_t expect_discarded(struct trial *t)
{
    struct model *m = &t->model;
    size_t calls = 0;
    while (first_is_old(t)) {
        int64_t n = m->jobs[0].n;
        expect_first(t, calls++, WEIR_FULL);
        m->exact = model_is_whole(m);
        model_shift(m);
        t->discarded++;
        if (m->exact && CHECK(calls <= book.count))
            CHECK_EQ(t->now + book.calls[calls - 1].verdict.retry_after_ns, model_ask(m, t->now, n).open);
    }
    return calls;
}

/* Slots are period/count apart, to the nanosecond, whatever happened in between. */
static void check_law(const struct trial *t)
{
    const struct model *m = &t->model;
    const struct weir_spec *spec = &m->limit->spec;
    CHECK((weir_i128)(t->now - m->last_ns + 1) * spec->count >= (weir_i128)m->last_n * spec->period_ns);
}

static void expect_left(struct trial *t, size_t index)
{
    struct model *m = &t->model;
    expect_first(t, index, WEIR_OK);
    check_law(t);
    m->exact = m->exact && (model_is_whole(m) || !model_is_late(m, t->now));
    m->slot = model_leave(m, m->slot, t->now, m->jobs[0].n);
    m->last_ns = t->now;
    m->last_n = m->jobs[0].n;
    model_shift(m);
    t->left++;
}

/* If the clock was back, an old job may stand behind a younger one. */
static int64_t expected_next(const struct trial *t)
{
    const struct model *m = &t->model;
    if (m->count == 0)
        return WEIR_FOREVER;
    return first_is_old(t) ? t->now : max64(t->now, model_when(m, m->slot));
}

/* Gives the time of the next job. */
static int64_t trial_run(struct trial *t)
{
    struct model *m = &t->model;
    book.count = 0;
    int64_t next = weir_queue_run_at(t->queue, t->now);
    t->operations++;
    size_t calls = expect_discarded(t);
    if (m->count > 0 && model_tick(m, t->now) >= m->slot)
        expect_left(t, calls++);
    CHECK_EQ(book.count, calls);
    CHECK_EQ(next, expected_next(t));
    CHECK_EQ(weir_queue_length(t->queue), model_units(m));
    CHECK(model_units(m) <= m->limit->spec.queue + 1);
    return next;
}

/* Runs on time up to `end`. */
static void trial_run_until(struct trial *t, int64_t end)
{
    int64_t next = trial_run(t);
    while (next <= end) {
        t->now = next;
        next = trial_run(t);
    }
    t->now = max64(t->now, end);
}

/* A refusal told the truth: if jobs leave on time, the same put passes then, and not before. Only discarded
 * ones make room earlier. */
static void trial_return(struct trial *t, int64_t n)
{
    trial_run_until(t, t->now); /* what is late leaves now */
    if (trial_put(t, n) || t->verdict.reason != WEIR_FULL)
        return;
    int64_t discarded = t->discarded, open = t->now + t->verdict.retry_after_ns, tolerance = 2 * slack(t);
    if (open - 1 - tolerance > t->now) {
        trial_run_until(t, open - 1 - tolerance);
        if (t->discarded == discarded)
            CHECK(!trial_put(t, n));
    }
    trial_run_until(t, open + tolerance);
    if (t->discarded == discarded)
        CHECK(trial_put(t, n));
    else
        (void)trial_put(t, n);
    t->returned++;
}

static int64_t random_units(struct trial *t)
{
    int64_t queue = t->model.limit->spec.queue;
    return rng_between(&t->rng, 0, 3) ? 1 : rng_between(&t->rng, 1, queue + 2);
}

/* To the next slot, to just before or after it, a little, far, or (seldom) back. */
static int64_t random_time(struct trial *t)
{
    int64_t slot = t->slot_ns, now = t->now, due = max64(now, model_when(&t->model, t->model.slot));
    int64_t dice = rng_between(&t->rng, 0, 99);
    if (dice < 1)
        return max64(now - rng_between(&t->rng, 1, 3 * slot), 0);
    if (dice < 10)
        return now + rng_between(&t->rng, 0, 12 * slot);
    if (dice < 20)
        return now + rng_between(&t->rng, 0, 2 * slot);
    if (dice < 40)
        return now + rng_magnitude(&t->rng, slot);
    if (dice < 80)
        return dice < 60 ? due : dice < 70 ? max64(due - 1, now) : due + 1;
    return now;
}

static void trial_step(struct trial *t)
{
    int64_t before = t->now, n = random_units(t), dice = rng_between(&t->rng, 0, 9);
    t->now = random_time(t);
    if (t->now < before) /* jobs may now leave before they came */
        t->model.exact = model_is_whole(&t->model);
    if (dice == 0)
        trial_return(t, n);
    else if (dice < 5)
        (void)trial_run(t);
    else
        (void)trial_put(t, n);
}

/* Nothing is lost: what still waits is called, in order. */
static void trial_end(struct trial *t)
{
    bool drop = rng_between(&t->rng, 0, 1);
    while (!drop && t->model.count > 0 && check.faults == 0)
        t->now = trial_run(t);
    drop = drop || check.faults != 0; /* a drain would wait by the real clock */
    book.count = 0;
    weir_queue_free(t->queue, drop ? WEIR_QUEUE_DROP : WEIR_QUEUE_DRAIN);
    CHECK_EQ(book.count, t->model.count);
    CHECK(drop || t->model.count == 0);
    for (size_t i = 0; i < book.count; i++) {
        CHECK_EQ(book.calls[i].id, t->model.jobs[i].id);
        CHECK_EQ(book.calls[i].verdict.reason, WEIR_CANCELED);
        CHECK(book.calls[i].verdict.wait_ns >= 0);
    }
    t->canceled += t->model.count;
    CHECK_EQ(t->ids, t->left + t->discarded + t->canceled);
}

static void trial_round(struct trial *t, const char *limit, int64_t operations)
{
    int64_t end = t->operations + operations;
    t->queue = weir_queue_new(limit, WEIR_QUEUE_LOOP, NULL);
    t->policy = weir_policy_new(limit, NULL);
    t->model = (struct model){.limit = &t->policy->limits[0], .exact = true};
    t->model.last_ns = -WEIR_SEC;
    t->slot_ns = div_up(t->model.limit->spec.period_ns, t->model.limit->spec.count);
    t->now = rng_magnitude(&t->rng, INT64_C(1) << 55);
    while (t->operations < end && check.faults == 0)
        trial_step(t);
    if (check.faults)
        printf("# %s, operation %" PRId64 " of all\n", limit, t->operations);
    trial_end(t);
    weir_policy_free(t->policy);
}

TEST(random_puts_and_runs_go_as_in_the_model)
{
    static const char *const limits[] = {
        "10/s algo=leaky-bucket queue=5",
        "10/s algo=leaky-bucket queue=1",
        "1k/s algo=leaky-bucket queue=20 age=7ms",
        "1/s algo=leaky-bucket queue=8 age=2500ms",
        "250M/s algo=leaky-bucket queue=9 age=20ns",
        "1/1ns algo=leaky-bucket queue=6",
        "3/s algo=leaky-bucket queue=6",
        "7/s algo=leaky-bucket queue=12 age=900ms",
        "600M/s algo=leaky-bucket queue=9 age=11ns",
        "999999937/s algo=leaky-bucket queue=10",
        "64/1ns algo=leaky-bucket queue=30 age=3ns",
        "3/d algo=leaky-bucket queue=2",
    };
    const int64_t wanted = check_env("WEIR_QUEUE_OPERATIONS", 1200000);
    struct trial t = {.rng = rng_new(1)};
    while (t.operations < wanted && check.faults == 0)
        for (size_t i = 0; i < sizeof limits / sizeof limits[0] && check.faults == 0; i++)
            trial_round(&t, limits[i], 1000);
    printf("# %" PRId64 " operations: %" PRId64 " left, %" PRId64 " too old, %" PRId64 " cancelled, %" PRId64
           " refused, %" PRId64 " of them came again in time\n",
           t.operations, t.left, t.discarded, t.canceled, t.refused, t.returned);
    CHECK(t.left > wanted / 10 && t.refused > wanted / 10 && t.discarded > wanted / 100);
}

/* ---- many threads -------------------------------------------------------------------------------- */

#define THREADS ((size_t)8)
#define EACH    ((size_t)5000)

struct many_job {
    int64_t put_ns, left_ns; /* left_ns: 0 if it is not known exactly */
    int32_t reason;          /* -1: not called */
    bool entered;
};

static struct {
    struct weir_queue *queue;
    struct many_job jobs[THREADS][EACH];
    struct many_job *called[THREADS * EACH];
    size_t count; /* only one job runs at a time: no lock */
} many;

static void many_call(void *arg, const struct weir_verdict *verdict)
{
    struct many_job *job = arg;
    CHECK_EQ(job->reason, -1);
    job->reason = verdict->reason;
    job->left_ns = verdict->wait_ns > 0 ? job->put_ns + verdict->wait_ns : 0;
    many.called[many.count++] = job;
}

static void *many_put(void *arg)
{
    struct many_job *jobs = arg;
    for (size_t i = 0; i < EACH; i++) {
        jobs[i] = (struct many_job){.put_ns = weir_now(), .reason = -1};
        jobs[i].entered = weir_queue_put_at(many.queue, jobs[i].put_ns, 1, many_call, &jobs[i], NULL);
        if (!jobs[i].entered)
            (void)sched_yield();
    }
    return NULL;
}

static size_t many_check_jobs(enum weir_queue_end end)
{
    size_t entered = 0;
    for (size_t i = 0; i < THREADS * EACH; i++) {
        const struct many_job *job = &many.jobs[i / EACH][i % EACH];
        entered += job->entered;
        CHECK(job->entered ? job->reason >= 0 : job->reason == -1);
        if (end == WEIR_QUEUE_DRAIN && job->entered)
            CHECK_EQ(job->reason, WEIR_OK);
    }
    return entered;
}

/* Each thread's jobs were called in its order, and those that left kept the distance of 10M/s. */
static void many_check_order(void)
{
    const struct many_job *last_of[THREADS] = {NULL}, *last = NULL;
    for (size_t i = 0; i < many.count; i++) {
        const struct many_job *job = many.called[i];
        size_t thread = (size_t)(job - &many.jobs[0][0]) / EACH;
        CHECK(!last_of[thread] || last_of[thread] < job);
        last_of[thread] = job;
        if (last && last->left_ns && job->left_ns && job->reason == WEIR_OK)
            CHECK(job->left_ns - last->left_ns >= 100);
        last = job;
    }
}

static void many_round(enum weir_queue_end end)
{
    pthread_t threads[THREADS];
    many.queue = weir_queue_new("10M/s algo=leaky-bucket queue=500", WEIR_QUEUE_THREAD, NULL);
    many.count = 0;
    for (size_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, many_put, many.jobs[i]), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    weir_queue_free(many.queue, end);
    size_t entered = many_check_jobs(end);
    CHECK_EQ(many.count, entered);
    CHECK(entered > 0);
    many_check_order();
    printf("# %zu threads: %zu of %zu jobs accepted\n", THREADS, entered, THREADS * EACH);
}

TEST(many_threads_put_and_nothing_is_lost_or_swapped)
{
    many_round(WEIR_QUEUE_DRAIN);
    many_round(WEIR_QUEUE_DROP);
}
