/* SPDX-License-Identifier: MIT */
/*
 * A queue of jobs that leave evenly, under one algo=leaky-bucket limit.
 *
 * Jobs wait in a list; the state of the core records only those that have left. So a job leaves when the core
 * lets it at that very moment, and a stall of whoever runs the jobs is not made up for: what waited leaves
 * slot by slot from then on, never in a burst. A promise for each job would keep the times of before the
 * stall.
 *
 * Whether a job may enter is asked of the core, too: of a copy of the state in which everything that waits
 * has left on time. So a put is answered as a reserve of the same limit is. A job whose turn has come does
 * not wait any more, but the slots of its second and further units count as waiting until they have passed,
 * even when it has left. Therefore at most queue= + 1 units are in the list, and while jobs leave on time
 * nobody waits longer than queue= slots.
 *
 * One thread at a time runs jobs, under no lock. What a job may do: put, ask for the length, run (which does
 * nothing then) and free.
 *
 * A queue belongs to the process that made it. A forked child can do nothing with its copy but free it, which
 * calls no job: they are the parent's, and so is the thread. Its lock may have been held at the fork, so
 * every function looks for a copy first, by a count of forks and not by getpid, which is a call to the kernel
 * and may be the same in another namespace.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "core/index.h"
#include "core/state.h"
#include "os/lock.h"
#include "os/thread.h"
#include "os/wait.h"

#define INDEX    STATE_HEADER /* of the state's only word of its own: the last slot that is taken */
#define BY_CLOCK (-1)         /* in place of a time: read the clock when it matters */

struct job {
    struct job *next;
    weir_job *call;
    void *arg;
    int64_t n;
    int64_t put_ns;
    int64_t ticks; /* by which it moves the index if it leaves on time: n units, and what rounding adds */
};

struct weir_queue {
    _Atomic uint32_t changes; /* who runs the jobs sleeps on it; moves under the lock */
    struct lock lock;         /* for all below that changes */
    struct weir_policy *policy;
    int64_t state[STATE_HEADER + 1];
    struct job *first, **last;
    int64_t units, ticks; /* of all in the list */

    bool running; /* `runner` looks at the jobs, or is in one */
    pthread_t runner;
    bool awaited;   /* somebody waits for the runner to come to an end */
    bool closed;    /* nothing more is accepted */
    bool drop;      /* and the rest is cancelled */
    bool abandoned; /* a job has freed it; the runner has to do that */

    enum weir_queue_by by;
    pthread_t thread;
    uint64_t forks; /* of the process, when it was made */
};

/* ---- forked children -------------------------------------------------------------------------- */

static _Atomic uint64_t forks; /* between the first process and this one, since the first queue was made */
static pthread_once_t handler_once = PTHREAD_ONCE_INIT;

static void count_fork(void)
{
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void register_handler(void)
{
    (void)pthread_atfork(NULL, NULL, count_fork);
}

static bool is_queue_copy(const struct weir_queue *queue)
{
    return queue->forks != atomic_load_explicit(&forks, memory_order_relaxed);
}

static int64_t queue_clamp_time(int64_t now_ns)
{
    return clamp64(now_ns, 0, WEIR_TIME_MAX);
}

static const struct limit *queue_limit(const struct weir_queue *queue)
{
    return &queue->policy->limits[0];
}

/* ---- verdicts --------------------------------------------------------------------------------- */

/* When a unit would leave behind everything up to `index`. */
static int64_t due_behind(const struct limit *limit, int64_t index, int64_t now)
{
    int64_t due = limit->algorithm->due(limit, &index, now, 1);
    return due > WEIR_TIME_MAX ? WEIR_FOREVER : due;
}

/* The index when all that waits has left, if each leaves on time from `now` on. */
static int64_t planned_index(const struct weir_queue *queue, int64_t now)
{
    const struct limit *limit = queue_limit(queue);
    const struct job *first = queue->first;
    int64_t v = ticks_at(&limit->ticks, now), index = queue->state[INDEX];
    if (!first)
        return index_at(limit, index, v);
    if (index > v - limit->ticks.unit) /* the first waits for its slot */
        return sat_add(index, queue->ticks);
    return sat_add(index_after(limit, index, v, first->n), queue->ticks - first->ticks);
}

/* Would a job of n units be accepted? Also tells by how many ticks it would move the planned index. */
static bool queue_ask(const struct weir_queue *queue, int64_t now, int64_t n, int64_t *ticks,
                      struct weir_verdict *verdict)
{
    const struct limit *limit = queue_limit(queue);
    int64_t plan[STATE_HEADER + 1] = {[INDEX] = planned_index(queue, now)};
    int64_t before = index_at(limit, plan[INDEX], ticks_at(&limit->ticks, now));
    bool fits = weir_state_reserve(queue->policy, plan, now, n, WEIR_FOREVER, NULL, verdict);
    *ticks = sat_sub(plan[INDEX], before);
    return fits;
}

/* Units that would still fit behind everything up to `index`, where they would wait so long. */
static int64_t queue_room(const struct limit *limit, int64_t index, int64_t now, int64_t wait_ns)
{
    if (wait_ns == WEIR_FOREVER || (limit->spec.age_ns != 0 && wait_ns > limit->spec.age_ns))
        return 0;
    int64_t v = ticks_at(&limit->ticks, now), unit = limit->ticks.unit;
    return max64(sat_sub(limit->spec.queue * unit, index - v), 0) / unit;
}

/* What is the same in every verdict: how the queue stands. */
static void queue_describe(const struct weir_queue *queue, int64_t now, struct weir_verdict *verdict)
{
    const struct limit *limit = queue_limit(queue);
    int64_t index = planned_index(queue, now), due = due_behind(limit, index, now);
    verdict->reset_after_ns = due == WEIR_FOREVER ? WEIR_FOREVER : due - now;
    verdict->remaining = queue_room(limit, index, now, verdict->reset_after_ns);
}

static bool queue_refuse(struct weir_verdict *verdict, int32_t reason)
{
    *verdict = (struct weir_verdict){.reason = reason, .retry_after_ns = WEIR_FOREVER};
    return false;
}

/* ---- entering --------------------------------------------------------------------------------- */

static void queue_append(struct weir_queue *queue, struct job *job)
{
    *queue->last = job;
    queue->last = &job->next;
    queue->units += job->n;
    queue->ticks = sat_add(queue->ticks, job->ticks);
    ASSERT(job->ticks >= 0 && queue->units <= queue_limit(queue)->spec.queue + 1);
}

/* Memory is not the queue's to promise: try again when those in front have left, and not at once. */
static bool refuse_for_memory(struct weir_verdict *verdict)
{
    verdict->allowed = 0;
    verdict->reason = WEIR_FULL;
    verdict->retry_after_ns = max64(verdict->wait_ns, WEIR_MS);
    return false;
}

/* `job` is NULL if there was no memory for it. false: it still belongs to the caller. */
static bool queue_enter(struct weir_queue *queue, int64_t now, int64_t n, struct job *job,
                        struct weir_verdict *verdict)
{
    int64_t ticks;
    if (queue->closed)
        return queue_refuse(verdict, WEIR_CANCELED);
    bool fits = queue_ask(queue, now, n, &ticks, verdict);
    if (fits && !job)
        fits = refuse_for_memory(verdict);
    if (fits) {
        job->ticks = ticks;
        queue_append(queue, job);
    }
    queue_describe(queue, now, verdict);
    if (verdict->reason == WEIR_FULL)
        verdict->wait_ns = verdict->reset_after_ns; /* what it would have been */
    return fits;
}

/* The lock is for short sections: memory is taken before, and given back after it. */
bool weir_queue_put_at(struct weir_queue *queue, int64_t now_ns, int64_t n, weir_job *call, void *arg,
                       struct weir_verdict *verdict)
{
    struct weir_verdict unread;
    if (!verdict)
        verdict = &unread;
    if (!queue || !call || n < 1 || is_queue_copy(queue))
        return queue_refuse(verdict, WEIR_INVALID);
    int64_t now = queue_clamp_time(now_ns);
    struct job *job = malloc(sizeof *job);
    if (job)
        *job = (struct job){.call = call, .arg = arg, .n = n, .put_ns = now};

    lock_take(&queue->lock);
    bool was_empty = !queue->first;
    bool entered = queue_enter(queue, now, n, job, verdict);
    bool wake = entered && was_empty && queue->by == WEIR_QUEUE_THREAD; /* else it waits for another job */
    if (wake)
        atomic_fetch_add_explicit(&queue->changes, 1, memory_order_release);
    lock_drop(&queue->lock);

    if (wake) /* only the address is used: that the queue may be gone by now does no harm */
        weir_wait_wake(&queue->changes);
    if (!entered)
        free(job);
    return entered;
}

bool weir_queue_put(struct weir_queue *queue, int64_t n, weir_job *call, void *arg,
                    struct weir_verdict *verdict)
{
    return weir_queue_put_at(queue, weir_now(), n, call, arg, verdict);
}

int64_t weir_queue_length(struct weir_queue *queue)
{
    if (!queue || is_queue_copy(queue))
        return 0;
    lock_take(&queue->lock);
    int64_t units = queue->units;
    lock_drop(&queue->lock);
    return units;
}

/* ---- leaving ---------------------------------------------------------------------------------- */

/* Why the first job will not have its turn; WEIR_OK: it will. */
static int32_t fault_of_first(const struct weir_queue *queue, int64_t now)
{
    const struct limit *limit = queue_limit(queue);
    if (queue->drop)
        return WEIR_CANCELED;
    if (limit->spec.age_ns != 0 && now - queue->first->put_ns > limit->spec.age_ns)
        return WEIR_FULL;
    return due_behind(limit, queue->state[INDEX], now) == WEIR_FOREVER ? WEIR_NEVER : WEIR_OK;
}

static struct job *remove_first(struct weir_queue *queue)
{
    struct job *job = queue->first;
    queue->first = job->next;
    if (!queue->first)
        queue->last = &queue->first;
    queue->units -= job->n;
    queue->ticks = queue->first ? queue->ticks - job->ticks : 0;
    ASSERT(queue->units >= 0 && (queue->units == 0) == !queue->first && queue->ticks >= 0);
    return job;
}

/* The first job, if it has to be discarded. It uses no slot. */
static struct job *next_discarded(struct weir_queue *queue, int64_t now, struct weir_verdict *verdict)
{
    int32_t reason = queue->first ? fault_of_first(queue, now) : WEIR_OK;
    if (reason == WEIR_OK)
        return NULL;
    struct job *job = remove_first(queue);
    int64_t ticks, retry_ns = WEIR_FOREVER;
    if (reason == WEIR_FULL) {
        (void)queue_ask(queue, now, job->n, &ticks, verdict);
        retry_ns = verdict->retry_after_ns;
    }
    (void)queue_refuse(verdict, reason);
    verdict->retry_after_ns = retry_ns;
    verdict->wait_ns = max64(now - job->put_ns, 0);
    queue_describe(queue, now, verdict);
    return job;
}

/* Has the next slot come in this very nanosecond? Who leaves then keeps the slot: if it counted from the
 * rounded time instead, a queue would fall behind by up to a nanosecond a job. */
static bool is_on_time(const struct weir_queue *queue, int64_t now)
{
    return now > 0 && due_behind(queue_limit(queue), queue->state[INDEX], now - 1) == now;
}

/* The first job, if the core lets it leave now. */
static struct job *next_due(struct weir_queue *queue, int64_t now, struct weir_verdict *verdict)
{
    const struct limit *limit = queue_limit(queue);
    const struct algorithm *algorithm = limit->algorithm;
    int64_t *index = &queue->state[INDEX];
    if (!queue->first || queue->drop || algorithm->due(limit, index, now, queue->first->n) > now)
        return NULL;
    (void)(is_on_time(queue, now) ? algorithm->promise : algorithm->enter)(limit, index, now,
                                                                           queue->first->n);
    struct job *job = remove_first(queue);
    *verdict = (struct weir_verdict){.allowed = 1, .wait_ns = max64(now - job->put_ns, 0)};
    queue_describe(queue, now, verdict);
    return job;
}

static void call(struct weir_queue *queue, struct job *job, const struct weir_verdict *verdict)
{
    lock_drop(&queue->lock);
    job->call(job->arg, verdict);
    free(job);
    lock_take(&queue->lock);
}

static int64_t queue_time_at(int64_t at)
{
    return queue_clamp_time(at == BY_CLOCK ? weir_now() : at);
}

/*
 * Discards what has to be discarded at the beginning, then lets one job leave: a second one would not be due
 * at the same moment, and a caller with other things to do gets back to them. The clock is read again for the
 * job that leaves, for the time its slot is counted from must be the time it leaves.
 */
static void run_jobs(struct weir_queue *queue, int64_t at)
{
    struct weir_verdict verdict;
    struct job *job;
    int64_t now = queue_time_at(at);
    while ((job = next_discarded(queue, now, &verdict)))
        call(queue, job, &verdict);
    if ((job = next_due(queue, queue_time_at(at), &verdict)))
        call(queue, job, &verdict);
}

static int64_t queue_next_time(const struct weir_queue *queue, int64_t at)
{
    int64_t now = queue_time_at(at);
    if (!queue->first)
        return WEIR_FOREVER;
    return fault_of_first(queue, now) == WEIR_OK ? due_behind(queue_limit(queue), queue->state[INDEX], now)
                                                 : now;
}

/* Whoever finds somebody else running has nothing to do: that one will be told the next time. *abandoned: a
 * job has freed the queue, and the rest is for the caller to do. Looked at under the lock, for if it was not
 * a job, the queue may be gone as soon as it is dropped. */
static int64_t queue_run(struct weir_queue *queue, int64_t at, bool *abandoned)
{
    *abandoned = false;
    lock_take(&queue->lock);
    if (queue->running) {
        queue->awaited = true;
        lock_drop(&queue->lock);
        return WEIR_FOREVER;
    }
    queue->running = true;
    queue->runner = pthread_self();
    run_jobs(queue, at);
    queue->running = false;
    *abandoned = queue->abandoned;
    int64_t next = queue_next_time(queue, at);
    bool wake = queue->awaited;
    if (wake)
        atomic_fetch_add_explicit(&queue->changes, 1, memory_order_release);
    queue->awaited = false;
    lock_drop(&queue->lock);
    if (wake)
        weir_wait_wake(&queue->changes);
    return next;
}

static bool is_queue_done(struct weir_queue *queue)
{
    lock_take(&queue->lock);
    bool done = queue->closed && !queue->first && !queue->running;
    lock_drop(&queue->lock);
    return done;
}

/* Runs jobs as their time comes, until the queue is closed and empty. */
static void queue_run_until_closed(struct weir_queue *queue)
{
    bool abandoned; /* whoever calls knows, or finds out at the end */
    for (;;) {
        uint32_t seen = atomic_load_explicit(&queue->changes, memory_order_acquire);
        int64_t next = queue_run(queue, BY_CLOCK, &abandoned);
        if (is_queue_done(queue))
            return;
        weir_wait_until(&queue->changes, seen, next, true);
    }
}

static void queue_destroy(struct weir_queue *queue)
{
    weir_policy_free(queue->policy);
    free(queue);
}

static int64_t run_in_loop(struct weir_queue *queue, int64_t at)
{
    bool abandoned;
    if (!queue || queue->by == WEIR_QUEUE_THREAD || is_queue_copy(queue))
        return WEIR_FOREVER;
    int64_t next = queue_run(queue, at, &abandoned);
    if (!abandoned)
        return next;
    queue_run_until_closed(queue);
    queue_destroy(queue);
    return WEIR_FOREVER;
}

int64_t weir_queue_run_at(struct weir_queue *queue, int64_t now_ns)
{
    return run_in_loop(queue, queue_clamp_time(now_ns));
}

int64_t weir_queue_run(struct weir_queue *queue)
{
    return run_in_loop(queue, BY_CLOCK);
}

/* ---- beginning -------------------------------------------------------------------------------- */

#define HINT "10/s algo=leaky-bucket queue=20"

/* The error says what to write: the same rate as a queue. */
static void fault_limit(const struct weir_spec *spec, size_t count, const char *text, struct weir_error *err)
{
    struct weir_spec hint = {
        .algo = WEIR_LEAKY_BUCKET, .count = spec->count, .period_ns = spec->period_ns, .queue = 20};
    if (spec->algo == WEIR_LEAKY_BUCKET)
        hint = *spec;
    char limit[128], message[200];
    size_t len = weir_spec_format(&hint, 1, limit, sizeof limit);
    (void)snprintf(message, sizeof message, "%s; write %s",
                   count > 1 ? "a queue has one limit" : "jobs queue under algo=leaky-bucket",
                   len > 0 && len < sizeof limit ? limit : HINT);
    weir_error_at(err, EINVAL, text, strlen(text), 0, message);
}

static struct weir_policy *make_queue_policy(const char *limit, struct weir_error *err)
{
    struct weir_policy *policy = weir_policy_new(limit, err);
    if (!policy)
        return NULL;
    const struct weir_spec *spec = weir_policy_spec(policy, 0);
    if (policy->count == 1 && spec->algo == WEIR_LEAKY_BUCKET)
        return policy;
    fault_limit(spec, policy->count, limit, err);
    weir_policy_free(policy);
    return NULL;
}

/* No time has been used yet: a state that begins at 0 has its slot free whenever the first job comes. */
static struct weir_queue *make_queue(struct weir_policy *policy, enum weir_queue_by by)
{
    struct weir_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return NULL;
    queue->policy = policy;
    weir_state_init(policy, queue->state, 0);
    queue->last = &queue->first;
    queue->by = by;
    (void)pthread_once(&handler_once, register_handler);
    queue->forks = atomic_load_explicit(&forks, memory_order_relaxed);
    return queue;
}

static void *thread_main(void *arg)
{
    struct weir_queue *queue = arg;
    queue_run_until_closed(queue);
    if (queue->abandoned) { /* by a job: nobody joins this thread */
        (void)pthread_detach(pthread_self());
        queue_destroy(queue);
    }
    return NULL;
}

struct weir_queue *weir_queue_new(const char *limit, enum weir_queue_by by, struct weir_error *err)
{
    if (by != WEIR_QUEUE_THREAD && by != WEIR_QUEUE_LOOP) {
        weir_error_set(err, EINVAL, "jobs run by WEIR_QUEUE_THREAD or by WEIR_QUEUE_LOOP");
        return NULL;
    }
    struct weir_policy *policy = make_queue_policy(limit, err);
    if (!policy)
        return NULL;
    struct weir_queue *queue = make_queue(policy, by);
    if (!queue) {
        weir_error_set(err, ENOMEM, "out of memory");
        weir_policy_free(policy);
        return NULL;
    }
    if (by == WEIR_QUEUE_THREAD && !weir_thread_start(&queue->thread, thread_main, queue)) {
        weir_error_set(err, EAGAIN, "the system has no thread left for the queue");
        queue_destroy(queue);
        return NULL;
    }
    return queue;
}

/* ---- end -------------------------------------------------------------------------------------- */

/* In a forked child. If the lock was held at the fork, the list may be half written: it is left alone. */
static void queue_forget(struct weir_queue *queue)
{
    if (lock_try(&queue->lock))
        while (queue->first)
            free(remove_first(queue));
    queue_destroy(queue);
}

/* Nothing more is accepted. Gives true if it is for the runner to do the rest: a job has called, and to wait
 * for its own end would take for ever. */
static bool close_queue(struct weir_queue *queue, enum weir_queue_end end)
{
    lock_take(&queue->lock);
    bool inside = queue->running && pthread_equal(queue->runner, pthread_self());
    queue->abandoned = queue->abandoned || (inside && !queue->closed); /* else it is being freed already */
    queue->drop = queue->drop || end != WEIR_QUEUE_DRAIN;
    queue->closed = true;
    atomic_fetch_add_explicit(&queue->changes, 1, memory_order_release);
    lock_drop(&queue->lock);
    return inside;
}

void weir_queue_free(struct weir_queue *queue, enum weir_queue_end end)
{
    if (!queue)
        return;
    if (is_queue_copy(queue)) {
        queue_forget(queue);
        return;
    }
    if (close_queue(queue, end))
        return;
    weir_wait_wake(&queue->changes);
    if (queue->by == WEIR_QUEUE_THREAD)
        (void)pthread_join(queue->thread, NULL);
    else
        queue_run_until_closed(queue);
    queue_destroy(queue);
}
