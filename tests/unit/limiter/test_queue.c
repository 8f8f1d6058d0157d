/* SPDX-License-Identifier: MIT */
/*
 * The queue of jobs: stories at explicit times, its own thread under a clock that is set by hand, and every
 * way to end it.
 */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "weir.h"

#define SLOT (100 * WEIR_MS) /* of 10/s */

/* ---- jobs that remember ------------------------------------------------------------------------- */

struct call {
    int64_t id;
    struct weir_verdict verdict;
    int64_t time; /* weir_now when it was called */
};

#define CALLS_MAX 256

/* What was called, in order. Any thread. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t more;
    struct call calls[CALLS_MAX];
    size_t count;
} book = {.mutex = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static void book_clear(void)
{
    pthread_mutex_lock(&book.mutex);
    book.count = 0;
    pthread_mutex_unlock(&book.mutex);
}

static void book_wait(size_t count)
{
    pthread_mutex_lock(&book.mutex);
    while (book.count < count)
        pthread_cond_wait(&book.more, &book.mutex);
    pthread_mutex_unlock(&book.mutex);
}

/* The id is the pointer itself. Whoever waits for the call finds the clock moved on by `step_ns`. */
static void note_and_step(void *arg, const struct weir_verdict *verdict, int64_t step_ns)
{
    int64_t now = weir_now();
    pthread_mutex_lock(&book.mutex);
    if (book.count < CALLS_MAX)
        book.calls[book.count] = (struct call){(int64_t)(intptr_t)arg, *verdict, now};
    book.count++;
    if (step_ns > 0)
        weir_clock_set(now + step_ns);
    pthread_cond_broadcast(&book.more);
    pthread_mutex_unlock(&book.mutex);
}

static void note(void *arg, const struct weir_verdict *verdict)
{
    note_and_step(arg, verdict, 0);
}

static void *id(int64_t number)
{
    return (void *)(intptr_t)number;
}

static struct weir_queue *open_queue(const char *limit, enum weir_queue_by by)
{
    struct weir_error err;
    struct weir_queue *queue = weir_queue_new(limit, by, &err);
    if (!CHECK(queue != NULL))
        printf("# %s\n", err.text);
    book_clear();
    return queue;
}

static struct weir_queue *open_loop(const char *limit)
{
    return open_queue(limit, WEIR_QUEUE_LOOP);
}

static struct weir_queue *open_thread(const char *limit)
{
    return open_queue(limit, WEIR_QUEUE_THREAD);
}

static bool put(struct weir_queue *queue, int64_t now, int64_t n, int64_t number)
{
    return weir_queue_put_at(queue, now, n, note, id(number), NULL);
}

/* Call `index` was job `number`, which ended so. */
static void check_call(size_t index, int64_t number, int32_t reason, int64_t wait_ns)
{
    if (!CHECK(index < book.count))
        return;
    const struct call *call = &book.calls[index];
    CHECK_EQ(call->id, number);
    CHECK_EQ(call->verdict.reason, reason);
    CHECK_EQ(call->verdict.allowed, reason == WEIR_OK);
    CHECK_EQ(call->verdict.wait_ns, wait_ns);
}

/* ---- stories ------------------------------------------------------------------------------------ */

TEST(jobs_leave_one_by_one_in_the_order_they_came)
{
    struct weir_queue *queue = open_loop("10/s algo=leaky-bucket queue=3");
    CHECK_EQ(weir_queue_run_at(queue, 0), WEIR_FOREVER);
    for (int64_t i = 0; i < 4; i++)
        CHECK(put(queue, 0, 1, i));
    CHECK_EQ(weir_queue_length(queue), 4);
    CHECK_EQ(book.count, 0); /* nothing runs inside of put */
    for (int64_t i = 0; i < 4; i++) {
        CHECK_EQ(weir_queue_run_at(queue, i * SLOT), i < 3 ? (i + 1) * SLOT : WEIR_FOREVER);
        CHECK_EQ(weir_queue_run_at(queue, (i + 1) * SLOT - 1), i < 3 ? (i + 1) * SLOT : WEIR_FOREVER);
        CHECK_EQ(book.count, i + 1);
        check_call((size_t)i, i, WEIR_OK, i * SLOT);
    }
    CHECK_EQ(weir_queue_length(queue), 0);
    weir_queue_free(queue, WEIR_QUEUE_DRAIN);
    CHECK_EQ(book.count, 4);
}

/* With promises, all four would be due when the loop comes back. */
TEST(a_stall_is_not_followed_by_a_burst)
{
    struct weir_queue *queue = open_loop("10/s algo=leaky-bucket queue=10");
    for (int64_t i = 0; i < 4; i++)
        CHECK(put(queue, 0, 1, i));
    for (int64_t i = 0; i < 4; i++) {
        int64_t now = 60 * WEIR_SEC + i * SLOT;
        CHECK_EQ(weir_queue_run_at(queue, now), i < 3 ? now + SLOT : WEIR_FOREVER);
        CHECK_EQ(weir_queue_run_at(queue, now + SLOT - 1), i < 3 ? now + SLOT : WEIR_FOREVER);
        CHECK_EQ(book.count, i + 1);
    }
    weir_queue_free(queue, WEIR_QUEUE_DROP);
}

TEST(a_job_of_n_units_keeps_n_slots)
{
    struct weir_queue *queue = open_loop("10/s algo=leaky-bucket queue=5");
    CHECK(put(queue, 0, 3, 1));
    CHECK(put(queue, 0, 2, 2));
    CHECK(put(queue, 0, 1, 3));
    CHECK(!put(queue, 0, 1, 4)); /* the first leaves at once, but two of its units count as waiting */
    CHECK_EQ(weir_queue_length(queue), 6);
    CHECK_EQ(weir_queue_run_at(queue, 0), 3 * SLOT);
    CHECK(!put(queue, 0, 1, 4));
    CHECK(!put(queue, SLOT - 1, 1, 4));
    CHECK(put(queue, SLOT, 1, 4));
    CHECK_EQ(weir_queue_run_at(queue, 3 * SLOT), 5 * SLOT);
    CHECK_EQ(weir_queue_run_at(queue, 5 * SLOT), 6 * SLOT);
    CHECK_EQ(weir_queue_run_at(queue, 6 * SLOT), WEIR_FOREVER);
    for (size_t i = 0; i < 3; i++)
        check_call(i, (int64_t)i + 1, WEIR_OK, (int64_t[]){0, 3, 5}[i] * SLOT);
    weir_queue_free(queue, WEIR_QUEUE_DRAIN);
}

TEST(a_put_is_answered_with_its_turn_and_the_room_left)
{
    struct weir_queue *queue = open_loop("10/s algo=leaky-bucket queue=3");
    struct weir_verdict v;
    for (int64_t i = 0; i < 4; i++) {
        CHECK(weir_queue_put_at(queue, 0, 1, note, id(i), &v));
        CHECK_EQ(v.allowed, 1);
        CHECK_EQ(v.reason, WEIR_OK);
        CHECK_EQ(v.wait_ns, i * SLOT);
        CHECK_EQ(v.remaining, 3 - i);
        CHECK_EQ(v.retry_after_ns, 0);
        CHECK_EQ(v.reset_after_ns, (i + 1) * SLOT);
    }
    CHECK(!weir_queue_put_at(queue, 0, 2, note, NULL, &v));
    CHECK_EQ(v.allowed, 0);
    CHECK_EQ(v.reason, WEIR_FULL);
    CHECK_EQ(v.wait_ns, 4 * SLOT);
    CHECK_EQ(v.remaining, 0);
    CHECK_EQ(v.retry_after_ns, 2 * SLOT);
    CHECK_EQ(v.reset_after_ns, 4 * SLOT);
    weir_queue_free(queue, WEIR_QUEUE_DROP);
}

TEST(what_can_never_fit_is_told_so)
{
    struct weir_queue *queue = open_loop("10/s algo=leaky-bucket queue=3");
    struct weir_verdict v;
    for (size_t i = 0; i < 2; i++) {
        CHECK(!weir_queue_put_at(queue, 0, (int64_t[]){5, INT64_MAX}[i], note, NULL, &v));
        CHECK_EQ(v.reason, WEIR_NEVER);
        CHECK_EQ(v.retry_after_ns, WEIR_FOREVER);
    }
    CHECK(put(queue, 0, 4, 1)); /* one leaves at once, three wait */
    weir_queue_free(queue, WEIR_QUEUE_DROP);
}

TEST(a_put_that_would_wait_longer_than_age_is_refused)
{
    struct weir_queue *queue = open_loop("10/s algo=leaky-bucket queue=100 age=250ms");
    struct weir_verdict v;
    for (int64_t i = 0; i < 3; i++)
        CHECK(weir_queue_put_at(queue, 0, 1, note, id(i), &v));
    CHECK_EQ(v.remaining, 0);
    CHECK(!weir_queue_put_at(queue, 0, 1, note, id(3), &v));
    CHECK_EQ(v.reason, WEIR_FULL);
    CHECK_EQ(v.wait_ns, 300 * WEIR_MS);
    CHECK_EQ(v.retry_after_ns, 50 * WEIR_MS);
    (void)weir_queue_run_at(queue, 0);
    CHECK(!put(queue, 50 * WEIR_MS - 1, 1, 3));
    CHECK(put(queue, 50 * WEIR_MS, 1, 3));
    weir_queue_free(queue, WEIR_QUEUE_DROP);
}

TEST(jobs_that_have_become_too_old_use_no_slot)
{
    struct weir_queue *queue = open_loop("10/s algo=leaky-bucket queue=100 age=250ms");
    CHECK(put(queue, 0, 1, 0));
    CHECK(put(queue, 0, 1, 1));
    CHECK(put(queue, SLOT, 1, 2));
    CHECK_EQ(weir_queue_run_at(queue, 251 * WEIR_MS), WEIR_FOREVER);
    check_call(0, 0, WEIR_FULL, 251 * WEIR_MS);
    check_call(1, 1, WEIR_FULL, 251 * WEIR_MS);
    check_call(2, 2, WEIR_OK, 151 * WEIR_MS);
    CHECK_EQ(book.calls[1].verdict.retry_after_ns, 0); /* there is room again */
    CHECK_EQ(book.calls[1].verdict.remaining, 100);
    weir_queue_free(queue, WEIR_QUEUE_DRAIN);
}

TEST(a_clock_that_steps_back_lets_nothing_leave_early)
{
    struct weir_queue *queue = open_loop("10/s algo=leaky-bucket queue=100 age=1h");
    int64_t late = 5 * WEIR_SEC;
    for (int64_t i = 0; i < 3; i++)
        CHECK(put(queue, late, 1, i));
    (void)weir_queue_run_at(queue, late);
    CHECK_EQ(weir_queue_run_at(queue, WEIR_SEC), late + SLOT);
    CHECK_EQ(weir_queue_run_at(queue, late + SLOT - 1), late + SLOT);
    CHECK_EQ(book.count, 1);
    (void)weir_queue_run_at(queue, late + SLOT);
    CHECK_EQ(book.count, 2);
    CHECK(put(queue, WEIR_SEC, 1, 3)); /* and the order stays */
    (void)weir_queue_run_at(queue, late + 2 * SLOT);
    (void)weir_queue_run_at(queue, late + 3 * SLOT);
    check_call(2, 2, WEIR_OK, 2 * SLOT);
    check_call(3, 3, WEIR_OK, late - WEIR_SEC + 3 * SLOT);
    weir_queue_free(queue, WEIR_QUEUE_DRAIN);
}

/* Slots beyond the end of time do not come; who waits for one must not wait for ever. */
TEST(at_the_end_of_time_jobs_are_discarded)
{
    struct weir_queue *queue = open_loop("10/s algo=leaky-bucket queue=9");
    struct weir_verdict v;
    for (int64_t i = 0; i < 2; i++)
        CHECK(put(queue, WEIR_TIME_MAX - SLOT - 1, 1, i));
    CHECK(!weir_queue_put_at(queue, WEIR_TIME_MAX - SLOT - 1, 1, note, NULL, &v));
    CHECK_EQ(v.reason, WEIR_NEVER);
    CHECK_EQ(v.remaining, 0);
    (void)weir_queue_run_at(queue, INT64_MAX);
    check_call(0, 0, WEIR_OK, SLOT + 1);
    CHECK_EQ(weir_queue_run_at(queue, INT64_MAX), WEIR_FOREVER);
    check_call(1, 1, WEIR_NEVER, SLOT + 1);
    weir_queue_free(queue, WEIR_QUEUE_DRAIN);

    queue = open_loop("64/1ns algo=leaky-bucket queue=1000000000000000000");
    CHECK(put(queue, INT64_MIN, 1000000000000000000, 0));
    CHECK(!put(queue, INT64_MAX, 1000000000000000000, 1));
    (void)weir_queue_run_at(queue, 0);
    CHECK_EQ(book.count, 1);
    weir_queue_free(queue, WEIR_QUEUE_DROP);
}

/* ---- jobs that use their queue ------------------------------------------------------------------ */

static struct weir_queue *own; /* the queue of the jobs below */

static void put_again(void *arg, const struct weir_verdict *verdict)
{
    note(arg, verdict);
    CHECK_EQ(weir_queue_length(own), 1);
    CHECK_EQ(weir_queue_run_at(own, 100 * SLOT), WEIR_FOREVER); /* the outer one goes on */
    CHECK(put(own, 0, 1, 2));
    CHECK_EQ(weir_queue_length(own), 2);
}

TEST(a_job_may_use_its_queue)
{
    own = open_loop("10/s algo=leaky-bucket queue=3");
    CHECK(weir_queue_put_at(own, 0, 1, put_again, id(0), NULL));
    CHECK(put(own, 0, 1, 1));
    CHECK_EQ(weir_queue_run_at(own, 0), SLOT);
    CHECK_EQ(book.count, 1);
    CHECK_EQ(weir_queue_run_at(own, SLOT), 2 * SLOT);
    CHECK_EQ(weir_queue_run_at(own, 2 * SLOT), WEIR_FOREVER);
    check_call(1, 1, WEIR_OK, SLOT);
    check_call(2, 2, WEIR_OK, 2 * SLOT);
    weir_queue_free(own, WEIR_QUEUE_DRAIN);
}

/* Moves the clock on by one slot, so that the next is due. */
static void note_and_move(void *arg, const struct weir_verdict *verdict)
{
    note_and_step(arg, verdict, SLOT);
}

/* However long a job takes, the loop gets back to its other work after it. */
TEST(a_run_lets_one_job_leave)
{
    weir_clock_set(WEIR_SEC);
    struct weir_queue *queue = open_loop("10/s algo=leaky-bucket queue=9");
    for (int64_t i = 0; i < 3; i++)
        CHECK(weir_queue_put(queue, 1, note_and_move, id(i), NULL));
    for (int64_t i = 1; i <= 3; i++) {
        CHECK_EQ(weir_queue_run(queue), i < 3 ? WEIR_SEC + i * SLOT : WEIR_FOREVER);
        CHECK_EQ(book.count, i);
    }
    weir_queue_free(queue, WEIR_QUEUE_DRAIN);
    weir_clock_set(-1);
}

/* Else the one after it would leave too soon. */
TEST(a_slot_counts_from_when_the_job_leaves_not_from_when_the_run_began)
{
    weir_clock_set(0);
    struct weir_queue *queue = open_loop("10/s algo=leaky-bucket queue=9 age=250ms");
    CHECK(weir_queue_put(queue, 1, note_and_move, id(0), NULL));
    weir_clock_set(200 * WEIR_MS);
    CHECK(weir_queue_put(queue, 1, note, id(1), NULL));
    CHECK(weir_queue_put(queue, 1, note, id(2), NULL));
    weir_clock_set(260 * WEIR_MS);
    CHECK_EQ(weir_queue_run(queue), 260 * WEIR_MS + 2 * SLOT);
    check_call(0, 0, WEIR_FULL, 260 * WEIR_MS);
    check_call(1, 1, WEIR_OK, 60 * WEIR_MS + SLOT);
    weir_queue_free(queue, WEIR_QUEUE_DROP);
    weir_clock_set(-1);
}

static void free_with_drain(void *arg, const struct weir_verdict *verdict)
{
    struct weir_verdict v;
    weir_queue_free(own, WEIR_QUEUE_DRAIN);
    CHECK(!weir_queue_put(own, 1, note, NULL, &v));
    CHECK_EQ(v.reason, WEIR_CANCELED);
    note_and_move(arg, verdict);
}

static void free_with_drop(void *arg, const struct weir_verdict *verdict)
{
    weir_queue_free(own, WEIR_QUEUE_DROP);
    note(arg, verdict);
}

static void put_four(weir_job *first)
{
    CHECK(weir_queue_put(own, 1, first, id(0), NULL));
    for (int64_t i = 1; i < 4; i++)
        CHECK(weir_queue_put(own, 1, note_and_move, id(i), NULL));
}

/* Four calls: the first has freed the queue. */
static void check_freed(int64_t start, bool drained)
{
    CHECK_EQ(book.count, 4);
    for (size_t i = 0; i < 4; i++) {
        check_call(i, (int64_t)i, drained || i == 0 ? WEIR_OK : WEIR_CANCELED,
                   drained ? (int64_t)i * SLOT : 0);
        if (drained)
            CHECK_EQ(book.calls[i].time, start + (int64_t)i * SLOT);
    }
}

TEST(a_job_that_frees_its_queue_is_the_last_but_for_those_waiting)
{
    for (int drained = 0; drained < 2; drained++) {
        weir_clock_set(WEIR_SEC);
        own = open_loop("10/s algo=leaky-bucket queue=9");
        put_four(drained ? free_with_drain : free_with_drop);
        CHECK_EQ(weir_queue_run(own), WEIR_FOREVER);
        check_freed(WEIR_SEC, drained);
    }
    weir_clock_set(-1);
}

/* ---- its own thread ------------------------------------------------------------------------------ */

/* A slot that is not kept would show as a call at an earlier time. */
TEST(the_thread_lets_jobs_leave_when_their_time_has_come)
{
    static const int64_t times[] = {0, SLOT, 50 * SLOT, 51 * SLOT, 52 * SLOT + 7, 53 * SLOT + 7};
    weir_clock_set(WEIR_SEC);
    struct weir_queue *queue = open_thread("10/s algo=leaky-bucket queue=9");
    for (int64_t i = 0; i < 6; i++)
        CHECK(weir_queue_put(queue, 1, note, id(i), NULL));
    CHECK_EQ(weir_queue_run(queue), WEIR_FOREVER); /* none of the caller's business */
    for (size_t i = 0; i < 6; i++) {
        weir_clock_set(WEIR_SEC + (i > 0 ? times[i - 1] + SLOT - 1 : 0));
        weir_clock_set(WEIR_SEC + times[i]);
        book_wait(i + 1);
        check_call(i, (int64_t)i, WEIR_OK, times[i]);
        CHECK_EQ(book.calls[i].time, WEIR_SEC + times[i]);
    }
    weir_queue_free(queue, WEIR_QUEUE_DRAIN);
    CHECK_EQ(book.count, 6);
    weir_clock_set(-1);
}

TEST(a_thread_that_sleeps_is_woken_by_a_put)
{
    for (int64_t set = 0; set < 2; set++) {
        weir_clock_set(set ? WEIR_SEC : -1);
        struct weir_queue *queue = open_thread("1M/s algo=leaky-bucket queue=9");
        for (size_t i = 0; i < 1000; i++) {
            book_clear();
            if (set)
                weir_clock_set(weir_now() + WEIR_MS);
            CHECK(weir_queue_put(queue, 1, note, id(1), NULL));
            book_wait(1);
        }
        weir_queue_free(queue, WEIR_QUEUE_DRAIN);
    }
    weir_clock_set(-1);
}

/* Nothing that is asked here can be accepted; so it tells whether the end has begun. */
static void wait_for_end(void)
{
    struct weir_verdict v;
    do {
        (void)sched_yield();
        (void)weir_queue_put(own, INT64_MAX, note, NULL, &v);
    } while (v.reason == WEIR_NEVER);
    CHECK_EQ(v.reason, WEIR_CANCELED);
    CHECK(!weir_queue_put(own, 1, note, NULL, NULL));
}

static void note_at_end(void *arg, const struct weir_verdict *verdict)
{
    wait_for_end();
    note_and_move(arg, verdict);
}

static void note_start_and_wait(void *arg, const struct weir_verdict *verdict)
{
    note(arg, verdict);
    wait_for_end();
}

TEST(a_thread_drains_the_rest_evenly)
{
    weir_clock_set(WEIR_SEC);
    own = open_thread("10/s algo=leaky-bucket queue=9");
    put_four(note_at_end);
    weir_queue_free(own, WEIR_QUEUE_DRAIN);
    check_freed(WEIR_SEC, true);
    weir_clock_set(-1);
}

TEST(a_thread_drops_the_rest_at_once)
{
    weir_clock_set(WEIR_SEC);
    own = open_thread("10/s algo=leaky-bucket queue=9");
    put_four(note_start_and_wait);
    book_wait(1);
    weir_queue_free(own, WEIR_QUEUE_DROP);
    check_freed(WEIR_SEC, false);
    weir_clock_set(-1);
}

TEST(a_loop_drains_the_rest_evenly_when_it_is_freed)
{
    weir_clock_set(WEIR_SEC);
    own = open_loop("10/s algo=leaky-bucket queue=9");
    put_four(note_and_move);
    weir_queue_free(own, WEIR_QUEUE_DRAIN);
    check_freed(WEIR_SEC, true);
    weir_clock_set(-1);
}

/* Who frees a queue in a job of its own thread cannot wait for that thread. */
TEST(a_job_in_the_thread_may_free_its_queue)
{
    for (int drained = 0; drained < 2; drained++) {
        weir_clock_set(WEIR_SEC);
        own = open_thread("10/s algo=leaky-bucket queue=9");
        CHECK(weir_queue_put(own, 1, note, id(-1), NULL)); /* the others wait until the clock moves */
        book_wait(1);
        book_clear();
        for (int64_t i = 0; i < 4; i++)
            CHECK(weir_queue_put(own, 1,
                                 i > 0     ? note_and_move
                                 : drained ? free_with_drain
                                           : free_with_drop,
                                 id(i), NULL));
        weir_clock_set(WEIR_SEC + SLOT);
        book_wait(4);
        for (size_t i = 0; i < 4; i++)
            check_call(i, (int64_t)i, drained || i == 0 ? WEIR_OK : WEIR_CANCELED,
                       drained ? (int64_t)(i + 1) * SLOT : book.calls[i].verdict.wait_ns);
    }
    weir_clock_set(-1);
}

static void *run_once(void *arg)
{
    (void)arg;
    (void)weir_queue_run(own);
    return NULL;
}

/* Takes its time after the end has begun. */
static void note_and_linger(void *arg, const struct weir_verdict *verdict)
{
    note(arg, verdict);
    wait_for_end();
    for (int i = 0; i < 1000; i++)
        (void)sched_yield();
    note(id(100), verdict);
}

TEST(free_waits_for_a_job_that_another_thread_runs)
{
    for (int64_t others = 0; others < 2; others++) {
        pthread_t thread;
        own = open_loop("10/s algo=leaky-bucket queue=9");
        CHECK(weir_queue_put_at(own, 0, 1, note_and_linger, id(0), NULL));
        for (int64_t i = 1; i <= others; i++)
            CHECK(put(own, 0, 1, i));
        CHECK_EQ(pthread_create(&thread, NULL, run_once, NULL), 0);
        book_wait(1);
        weir_queue_free(own, WEIR_QUEUE_DROP);
        CHECK_EQ(book.count, 2 + others);
        CHECK_EQ(book.calls[1].id, 100);
        if (others)
            CHECK_EQ(book.calls[2].verdict.reason, WEIR_CANCELED);
        pthread_join(thread, NULL);
    }
}

/* ---- a drain that a job has begun ---------------------------------------------------------------- */

static _Atomic int runner; /* the file that tells what the thread does which runs the jobs */

static void free_and_show(void *arg, const struct weir_verdict *verdict)
{
    runner = open("/proc/thread-self/stat", O_RDONLY);
    weir_queue_free(own, WEIR_QUEUE_DRAIN);
    note(arg, verdict);
}

#define IN_A_ROW 200

/* Seen asleep so often in a row that it does nothing else. */
static bool falls_asleep(int thread)
{
    char text[256];
    int asleep = 0;
    for (int looks = 0; looks < 1000000 && asleep < IN_A_ROW; looks++) {
        ssize_t length = pread(thread, text, sizeof text - 1, 0);
        if (length <= 0)
            return false;
        text[length] = '\0';
        asleep = strstr(text, ") S ") ? asleep + 1 : 0;
        (void)sched_yield();
    }
    return asleep == IN_A_ROW;
}

/* It has taken the queue over from the job, and has nothing to do before the clock moves. */
static void check_drain_sleeps(enum weir_queue_by by)
{
    pthread_t thread;
    weir_clock_set(WEIR_SEC);
    own = open_queue("10/s algo=leaky-bucket queue=9", by);
    CHECK(weir_queue_put(own, 1, note, id(0), NULL));
    (void)weir_queue_run(own);
    book_wait(1);
    CHECK(weir_queue_put(own, 1, free_and_show, id(1), NULL));
    CHECK(weir_queue_put(own, 1, note, id(2), NULL));
    weir_clock_set(WEIR_SEC + SLOT);
    if (by == WEIR_QUEUE_LOOP)
        CHECK_EQ(pthread_create(&thread, NULL, run_once, NULL), 0);
    book_wait(2);
    CHECK(falls_asleep(runner));
    CHECK_EQ(book.count, 2);
    weir_clock_set(WEIR_SEC + 2 * SLOT);
    book_wait(3);
    check_call(2, 2, WEIR_OK, 2 * SLOT);
    if (by == WEIR_QUEUE_LOOP)
        pthread_join(thread, NULL);
    close(runner);
}

TEST(a_drain_that_a_job_has_begun_sleeps_until_the_next_is_due)
{
    check_drain_sleeps(WEIR_QUEUE_THREAD);
    check_drain_sleeps(WEIR_QUEUE_LOOP);
    weir_clock_set(-1);
}

/* ---- bad input ----------------------------------------------------------------------------------- */

TEST(nonsense_is_refused)
{
    struct weir_queue *queue = open_loop("10/s algo=leaky-bucket queue=3");
    static const int64_t bad[] = {0, -1, INT64_MIN};
    struct weir_verdict v;
    for (size_t i = 0; i < 3; i++) {
        CHECK(!weir_queue_put(queue, bad[i], note, NULL, &v));
        CHECK_EQ(v.reason, WEIR_INVALID);
        CHECK_EQ(v.retry_after_ns, WEIR_FOREVER);
    }
    CHECK(!weir_queue_put(queue, 1, NULL, NULL, &v));
    CHECK_EQ(v.reason, WEIR_INVALID);
    CHECK(!weir_queue_put(NULL, 1, note, NULL, &v));
    CHECK_EQ(v.reason, WEIR_INVALID);
    CHECK(!weir_queue_put(NULL, 1, note, NULL, NULL));
    CHECK_EQ(weir_queue_length(queue), 0);
    CHECK_EQ(weir_queue_length(NULL), 0);
    CHECK_EQ(weir_queue_run(NULL), WEIR_FOREVER);
    weir_queue_free(NULL, WEIR_QUEUE_DRAIN);
    weir_queue_free(queue, WEIR_QUEUE_DRAIN);
}

static void check_message(const char *limit, enum weir_queue_by by, int code, const char *text)
{
    struct weir_error err;
    CHECK(weir_queue_new(limit, by, NULL) == NULL);
    CHECK(weir_queue_new(limit, by, &err) == NULL);
    CHECK_EQ(err.code, code);
    CHECK_STR(err.text, text);
}

TEST(a_limit_that_cannot_queue_is_told_what_to_write)
{
    check_message("10/s", WEIR_QUEUE_LOOP, EINVAL,
                  "10/s: jobs queue under algo=leaky-bucket; write 10/s algo=leaky-bucket queue=20");
    check_message("5k/h burst=9", WEIR_QUEUE_THREAD, EINVAL,
                  "5k/h burst=9: jobs queue under algo=leaky-bucket; write 5k/h algo=leaky-bucket queue=20");
    check_message("blocked", WEIR_QUEUE_LOOP, EINVAL,
                  "blocked: jobs queue under algo=leaky-bucket; write 10/s algo=leaky-bucket queue=20");
    check_message("10/s algo=leaky-bucket queue=5, 1/s", WEIR_QUEUE_LOOP, EINVAL,
                  "10/s algo=leaky-bucket queue=5, 1/s: a queue has one limit; write 10/s algo=leaky-bucket "
                  "queue=5");
    check_message("1/20000d", WEIR_QUEUE_LOOP, EINVAL, /* 20 of them would wait too long */
                  "1/20000d: jobs queue under algo=leaky-bucket; write 10/s algo=leaky-bucket queue=20");
    check_message(
        "10/s algo=leaky-bucket queue=0", WEIR_QUEUE_LOOP, EINVAL,
        "10/s algo=leaky-bucket queue=0: column 30: a queue of 0 holds nothing; write algo=interval");
    check_message("10/s algo=leaky-bucket", (enum weir_queue_by)7, EINVAL,
                  "jobs run by WEIR_QUEUE_THREAD or by WEIR_QUEUE_LOOP");
    CHECK(weir_queue_new(NULL, WEIR_QUEUE_LOOP, NULL) == NULL);
}

/* ---- fork and memory ----------------------------------------------------------------------------- */

#if defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* An exit counts for the coverage. A sanitizer would look for leaks then, and find the parent's memory. */
static _Noreturn void leave_child(int code)
{
    if (SANITIZED)
        _exit(code);
    exit(code);
}

static int exit_code(pid_t child)
{
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Nothing that would never happen is promised, and no job of the parent runs. */
static bool is_refused_by_copy(struct weir_queue *queue)
{
    struct weir_verdict v;
    return !weir_queue_put(queue, 1, note, NULL, &v) && v.reason == WEIR_INVALID &&
           v.retry_after_ns == WEIR_FOREVER && weir_queue_run(queue) == WEIR_FOREVER &&
           weir_queue_length(queue) == 0 && book.count == 1;
}

/* One of its own is as good as any. */
static bool is_served_by_own(void)
{
    struct weir_queue *queue = weir_queue_new("10/s algo=leaky-bucket", WEIR_QUEUE_LOOP, NULL);
    bool served = weir_queue_put(queue, 1, note, NULL, NULL) && weir_queue_run(queue) == WEIR_FOREVER &&
                  book.count == 2;
    weir_queue_free(queue, WEIR_QUEUE_DROP);
    return served;
}

/* The child has no such thread, and the jobs are the parent's. */
TEST(a_forked_child_may_only_free_its_copy)
{
    for (int by = WEIR_QUEUE_THREAD; by <= WEIR_QUEUE_LOOP; by++) {
        weir_clock_set(WEIR_SEC);
        struct weir_queue *queue = open_queue("10/s algo=leaky-bucket queue=9", (enum weir_queue_by)by);
        for (int64_t i = 0; i < 4; i++)
            CHECK(weir_queue_put(queue, 1, note, id(i), NULL));
        (void)weir_queue_run(queue);
        book_wait(1);
        (void)fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            bool refused = is_refused_by_copy(queue);
            weir_queue_free(queue, WEIR_QUEUE_DROP);
            bool freed = book.count == 1;
            leave_child(refused && freed && is_served_by_own() ? 0 : 1);
        }
        CHECK_EQ(exit_code(child), 0);
        CHECK_EQ(weir_queue_length(queue), 3);
        CHECK(weir_queue_put(queue, 1, note, id(4), NULL));
        weir_queue_free(queue, WEIR_QUEUE_DROP);
        CHECK_EQ(book.count, 5);
    }
    weir_clock_set(-1);
}

enum { MEMORY_OK, MEMORY_WRONG, MEMORY_ENDLESS };

static void ignore(void *arg, const struct weir_verdict *verdict)
{
    (void)arg, (void)verdict;
}

/* Puts until there is no memory; the queue has to say so, and to work again when there is some. */
static int fill_memory(void)
{
    struct weir_queue *queue = weir_queue_new("1/s algo=leaky-bucket queue=1G", WEIR_QUEUE_LOOP, NULL);
    const struct rlimit little = {64 << 20, 64 << 20};
    struct weir_verdict v = {.allowed = 1};
    struct weir_error err;
    int64_t count = 0;
    if (!queue || setrlimit(RLIMIT_AS, &little) != 0)
        return MEMORY_ENDLESS;
    while (count < 3000000 && weir_queue_put_at(queue, 0, 1, ignore, NULL, &v))
        count++;
    if (v.allowed)
        return MEMORY_ENDLESS;
    bool right = v.reason == WEIR_FULL && v.retry_after_ns == count * WEIR_SEC &&
                 v.wait_ns == count * WEIR_SEC && v.remaining == 1000000001 - count &&
                 weir_queue_length(queue) == count;
    right = right && !weir_queue_new("1/s algo=leaky-bucket", WEIR_QUEUE_THREAD, &err) && err.code == ENOMEM;
    (void)weir_queue_run_at(queue, 0);
    right = right && weir_queue_put_at(queue, 0, 1, ignore, NULL, &v);
    weir_queue_free(queue, WEIR_QUEUE_DROP);
    return right ? MEMORY_OK : MEMORY_WRONG;
}

TEST(without_memory_a_put_is_refused_as_full)
{
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        leave_child(SANITIZED ? MEMORY_ENDLESS : fill_memory()); /* sanitizers need more than that */
    int code = exit_code(child);
    if (code == MEMORY_ENDLESS)
        check_skip("memory cannot be limited here");
    else
        CHECK_EQ(code, MEMORY_OK);
}
