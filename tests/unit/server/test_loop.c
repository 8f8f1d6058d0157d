/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "server/loop.h"

struct notes {
    struct loop *loop;
    struct watch *watch;
    struct timer *timer;
    int fd;
    int count, stop_at;
    unsigned seen[8];
    char callback[16];
};

static void note(struct notes *notes, unsigned what)
{
    if (notes->count < 8)
        notes->seen[notes->count] = what;
    if (++notes->count == notes->stop_at)
        weir_loop_stop(notes->loop);
}

/* ---- orders ---- */

struct numbered {
    struct loop_callback callback;
    struct notes *notes;
    unsigned number;
};

static void run_numbered(void *arg)
{
    struct numbered *numbered = arg;
    note(numbered->notes, numbered->number);
}

TEST(orders_are_run_in_their_order_also_those_from_before)
{
    struct notes notes = {.loop = weir_loop_new(), .stop_at = 3};
    struct numbered callbacks[3];
    for (unsigned i = 0; i < 3; i++) {
        callbacks[i] = (struct numbered){{.run = run_numbered, .arg = &callbacks[i]}, &notes, i};
        weir_loop_post(notes.loop, &callbacks[i].callback);
    }
    weir_loop_run(notes.loop);
    CHECK_EQ(notes.count, 3);
    for (unsigned i = 0; i < 3; i++)
        CHECK_EQ(notes.seen[i], i);
    weir_loop_free(notes.loop);
}

static void run_tick(void *arg)
{
    note(arg, 99);
}

static void run_and_set_timer(void *arg)
{
    run_numbered(arg);
    weir_timer_set(((struct numbered *)arg)->notes->timer, 0, 0);
}

static struct numbered numbered(struct notes *notes, unsigned number)
{
    return (struct numbered){{.run = run_numbered}, notes, number};
}

/* Three of one user and one of another: they take turns, a timer is not kept waiting, and what changes
 * something comes first. All of it is done before the loop stops. */
TEST(callbacks_of_a_user_take_turns_with_all_else)
{
    struct notes notes = {.loop = weir_loop_new(), .stop_at = 6};
    static const uint64_t whose[] = {7, 7, 7, 8};
    struct numbered callbacks[5];
    notes.timer = weir_timer_new(notes.loop, run_tick, &notes);
    for (unsigned i = 0; i < 5; i++) {
        callbacks[i] = numbered(&notes, i);
        callbacks[i].callback.arg = &callbacks[i];
        if (i < 4)
            weir_loop_post_in_turn(notes.loop, &callbacks[i].callback, whose[i]);
    }
    callbacks[4].callback.run = run_and_set_timer; /* due in the next round */
    weir_loop_post_ahead(notes.loop, &callbacks[4].callback);
    weir_loop_run(notes.loop);
    CHECK_EQ(notes.count, 6);
    unsigned at[100];
    for (unsigned i = 0; i < 6; i++)
        at[notes.seen[i]] = i;
    CHECK(at[4] < at[0] && at[0] < at[1] && at[1] < at[2]);
    CHECK(at[3] < at[1]);  /* the other user waits for one of them, */
    CHECK(at[99] < at[1]); /* and so does the timer */
    weir_loop_free(notes.loop);
}

static void run_stop(void *arg)
{
    struct numbered *numbered = arg;
    weir_loop_stop(numbered->notes->loop);
}

TEST(callbacks_in_turn_are_done_before_the_loop_stops)
{
    struct notes notes = {.loop = weir_loop_new(), .stop_at = 100};
    struct numbered callbacks[4];
    for (unsigned i = 0; i < 4; i++) {
        callbacks[i] = numbered(&notes, i);
        callbacks[i].callback.arg = &callbacks[i];
        if (i == 3)
            callbacks[i].callback.run = run_stop;
        if (i < 3)
            weir_loop_post_in_turn(notes.loop, &callbacks[i].callback, 1);
    }
    weir_loop_post_ahead(notes.loop, &callbacks[3].callback);
    weir_loop_run(notes.loop);
    CHECK_EQ(notes.count, 3);
    weir_loop_free(notes.loop);
}

static void write_end(void *arg)
{
    struct notes *notes = arg;
    size_t len = strlen(notes->callback);
    if (len > 0 && notes->callback[len - 1] != 'e' && len < sizeof notes->callback - 1)
        notes->callback[len] = 'e';
}

static void write_order(void *arg)
{
    struct numbered *numbered = arg;
    struct notes *notes = numbered->notes;
    notes->callback[strlen(notes->callback)] = (char)('0' + numbered->number);
    if (numbered->number == 1) /* its own thread posts: this is for the next round */
        weir_loop_post(notes->loop, &numbered[1].callback);
    else if (numbered->number == 2)
        weir_loop_stop(notes->loop);
}

/* Also of the last one, in which it was told to stop. */
TEST(each_round_has_its_end)
{
    struct notes notes = {.loop = weir_loop_new()};
    struct numbered callbacks[3];
    weir_loop_at_end(notes.loop, write_end, &notes);
    for (unsigned i = 0; i < 3; i++)
        callbacks[i] = (struct numbered){{.run = write_order, .arg = &callbacks[i]}, &notes, i};
    weir_loop_post(notes.loop, &callbacks[0].callback);
    weir_loop_post(notes.loop, &callbacks[1].callback);
    weir_loop_run(notes.loop);
    CHECK_STR(notes.callback, "01e2e");
    weir_loop_free(notes.loop);
}

TEST(orders_that_go_ahead_do_not_wait_for_the_others)
{
    static const unsigned expected[] = {3, 4, 0, 1, 2};
    struct notes notes = {.loop = weir_loop_new(), .stop_at = 5};
    struct numbered callbacks[5];
    for (unsigned i = 0; i < 5; i++) {
        callbacks[i] = (struct numbered){{.run = run_numbered, .arg = &callbacks[i]}, &notes, i};
        (i < 3 ? weir_loop_post : weir_loop_post_ahead)(notes.loop, &callbacks[i].callback);
    }
    weir_loop_run(notes.loop);
    CHECK_EQ(notes.count, 5);
    for (unsigned i = 0; i < 5; i++)
        CHECK_EQ(notes.seen[i], expected[i]);
    weir_loop_free(notes.loop);
}

struct caller {
    struct numbered own, *calls;
};

static void run_caller(void *arg)
{
    struct caller *caller = arg;
    note(caller->own.notes, caller->own.number);
    weir_loop_post_ahead(caller->own.notes->loop, &caller->calls->callback);
}

/* Also while others are being run: none of those that have not begun goes before it, none is lost. */
TEST(an_order_can_go_ahead_of_those_that_are_on_their_way)
{
    static const unsigned expected[] = {0, 9, 1, 2};
    struct notes notes = {.loop = weir_loop_new(), .stop_at = 4};
    struct numbered callbacks[3], ahead = {{.run = run_numbered, .arg = &ahead}, &notes, 9};
    struct caller caller = {{{.run = run_caller, .arg = &caller}, &notes, 0}, &ahead};
    weir_loop_post(notes.loop, &caller.own.callback);
    for (unsigned i = 1; i < 3; i++) {
        callbacks[i] = (struct numbered){{.run = run_numbered, .arg = &callbacks[i]}, &notes, i};
        weir_loop_post(notes.loop, &callbacks[i].callback);
    }
    weir_loop_run(notes.loop);
    CHECK_EQ(notes.count, 4);
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQ(notes.seen[i], expected[i]);
    weir_loop_free(notes.loop);
}

static void run_twice(void *arg)
{
    struct numbered *numbered = arg;
    note(numbered->notes, numbered->number);
    if (numbered->notes->count < 2)
        weir_loop_post(numbered->notes->loop, &numbered->callback);
}

TEST(an_order_may_post_itself_again)
{
    struct notes notes = {.loop = weir_loop_new(), .stop_at = 2};
    struct numbered callback = {{.run = run_twice, .arg = &callback}, &notes, 7};
    weir_loop_post(notes.loop, &callback.callback);
    weir_loop_run(notes.loop);
    CHECK_EQ(notes.count, 2);
    weir_loop_free(notes.loop);
}

TEST(a_stop_lets_orders_from_before_be_done)
{
    struct notes notes = {.loop = weir_loop_new()};
    struct numbered callback = {{.run = run_numbered, .arg = &callback}, &notes, 7};
    weir_loop_post(notes.loop, &callback.callback);
    weir_loop_stop(notes.loop);
    weir_loop_run(notes.loop);
    CHECK_EQ(notes.count, 1);
    weir_loop_free(notes.loop);
}

#define POSTERS 4
#define POSTS   1000

struct poster {
    struct loop *loop;
    struct numbered callbacks[POSTS];
};

static void *post_all(void *arg)
{
    struct poster *poster = arg;
    for (int i = 0; i < POSTS; i++)
        weir_loop_post(poster->loop, &poster->callbacks[i].callback);
    return NULL;
}

TEST(orders_of_several_threads_are_all_run)
{
    static struct poster posters[POSTERS];
    pthread_t threads[POSTERS];
    struct notes notes = {.loop = weir_loop_new(), .stop_at = POSTERS * POSTS};
    for (int i = 0; i < POSTERS; i++) {
        posters[i].loop = notes.loop;
        for (int j = 0; j < POSTS; j++) {
            struct numbered *numbered = &posters[i].callbacks[j];
            *numbered = (struct numbered){{.run = run_numbered, .arg = numbered}, &notes, 0};
        }
        CHECK_EQ(pthread_create(&threads[i], NULL, post_all, &posters[i]), 0);
    }
    weir_loop_run(notes.loop);
    for (int i = 0; i < POSTERS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(notes.count, POSTERS * POSTS);
    weir_loop_free(notes.loop);
}

/* ---- files ---- */

static void on_ready(void *arg, unsigned events)
{
    note(arg, events);
}

TEST(what_can_be_read_is_told_until_it_has_been)
{
    int pair[2];
    struct notes notes = {.loop = weir_loop_new(), .stop_at = 3};
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    notes.watch = weir_watch_new(notes.loop, pair[0], on_ready, &notes);
    CHECK(weir_watch_for(notes.watch, WATCH_READ));
    CHECK_EQ(write(pair[1], "x", 1), 1);
    weir_loop_run(notes.loop);
    CHECK(notes.count >= 3); /* nobody has read it */
    CHECK_EQ(notes.seen[0], WATCH_READ);
    weir_watch_free(notes.watch);
    CHECK_EQ(write(pair[0], "x", 1), 1); /* the file is still open */
    close(pair[0]);
    close(pair[1]);
    weir_loop_free(notes.loop);
}

TEST(the_end_of_the_other_side_is_told_without_reading)
{
    int pair[2];
    struct notes notes = {.loop = weir_loop_new(), .stop_at = 1};
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    notes.watch = weir_watch_new(notes.loop, pair[0], on_ready, &notes);
    CHECK_EQ(write(pair[1], "unread", 6), 6);
    CHECK(weir_watch_for(notes.watch, WATCH_GONE));
    close(pair[1]);
    weir_loop_run(notes.loop);
    CHECK(notes.count >= 1);
    CHECK(notes.seen[0] & WATCH_GONE);
    weir_watch_free(notes.watch);
    close(pair[0]);
    weir_loop_free(notes.loop);
}

static void on_writable(void *arg, unsigned events)
{
    struct notes *notes = arg;
    CHECK(weir_watch_for(notes->watch, 0));
    weir_timer_set(notes->timer, 1, 0);
    note(notes, events);
}

static void stop_loop(void *arg)
{
    weir_loop_stop(((struct notes *)arg)->loop);
}

TEST(nothing_is_told_that_nobody_wants)
{
    int pair[2];
    struct notes notes = {.loop = weir_loop_new()};
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    notes.watch = weir_watch_new(notes.loop, pair[0], on_writable, &notes);
    notes.timer = weir_timer_new(notes.loop, stop_loop, &notes);
    CHECK_EQ(write(pair[1], "x", 1), 1);
    CHECK(weir_watch_for(notes.watch, WATCH_WRITE));
    weir_loop_run(notes.loop);
    CHECK_EQ(notes.count, 1);
    CHECK_EQ(notes.seen[0], WATCH_WRITE);
    weir_loop_free(notes.loop); /* with its watch and timer */
    close(pair[0]);
    close(pair[1]);
}

static void free_watch(void *arg, unsigned events)
{
    struct notes *notes = arg;
    weir_watch_free(notes->watch);
    close(notes->fd);
    note(notes, events);
}

TEST(a_watch_may_be_freed_by_what_it_tells)
{
    int pair[2];
    struct notes notes = {.loop = weir_loop_new(), .stop_at = 1};
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    notes.fd = pair[0];
    notes.watch = weir_watch_new(notes.loop, pair[0], free_watch, &notes);
    CHECK(weir_watch_for(notes.watch, WATCH_WRITE));
    weir_loop_run(notes.loop);
    CHECK_EQ(notes.count, 1);
    close(pair[1]);
    weir_loop_free(notes.loop);
}

/* ---- time and signals ---- */

static void on_time(void *arg)
{
    struct notes *notes = arg;
    note(notes, (unsigned)(weir_loop_now_ms(notes->loop) & 0xffffffff));
}

TEST(a_timer_comes_again_and_again)
{
    struct notes notes = {.loop = weir_loop_new(), .stop_at = 3};
    notes.timer = weir_timer_new(notes.loop, on_time, &notes);
    int64_t before = weir_loop_now_ms(notes.loop);
    weir_timer_set(notes.timer, 2, 3);
    weir_loop_run(notes.loop);
    CHECK_EQ(notes.count, 3);
    CHECK(weir_loop_now_ms(notes.loop) - before >= 8);
    weir_timer_free(notes.timer);
    weir_timer_free(NULL);
    weir_loop_free(notes.loop);
}

static void on_signal(void *arg, int number)
{
    note(arg, (unsigned)number);
}

TEST(signals_come_to_the_loop)
{
    struct notes notes = {.loop = weir_loop_new(), .stop_at = 1};
    CHECK(weir_loop_on_signal(notes.loop, SIGUSR1, on_signal, &notes));
    CHECK_EQ(raise(SIGUSR1), 0);
    weir_loop_run(notes.loop);
    CHECK_EQ(notes.seen[0], SIGUSR1);
    weir_loop_free(notes.loop);
    weir_loop_free(NULL);
}
