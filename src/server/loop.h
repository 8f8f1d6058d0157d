/* SPDX-License-Identifier: MIT */
/*
 * An event loop: files that can be read or written, timers, and orders from other threads. One thread runs a
 * loop; only weir_loop_post and weir_loop_stop may be called by others. loop.c is the one file that knows
 * libuv; sockets are read and written by those who own them.
 */
#ifndef WEIR_SERVER_LOOP_H
#define WEIR_SERVER_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct loop;

struct loop *weir_loop_new(void); /* or NULL */
void weir_loop_run(struct loop *loop);
void weir_loop_stop(struct loop *loop); /* after what it is doing; orders posted before are done */
/* Watches, timers and signals of it that are still there are freed, too. Nobody runs it. NULL is fine. */
void weir_loop_free(struct loop *loop);

/* Run at the end of each round, before the loop sleeps, and when it ends. Set once, before it runs; it may
 * do all that others may, but nobody is told of files and times until it is done. */
void weir_loop_at_end(struct loop *loop, void (*run)(void *arg), void *arg);

/* Milliseconds of a clock that never stands still, as of when the loop woke up. By its own thread. */
int64_t weir_loop_now_ms(const struct loop *loop);

/* Runs once in the loop's own thread, in the order of posting. The memory is the poster's and must last until
 * then: so nothing can fail. */
struct loop_callback {
    void (*run)(void *arg);
    void *arg;
    struct loop_callback *next; /* the loop's */
};
void weir_loop_post(struct loop *loop, struct loop_callback *callback);
/* The same, but before all that were posted by the others and have not begun. */
void weir_loop_post_ahead(struct loop *loop, struct loop_callback *callback);
/* The same, in turn: of all that are posted for the same `whose`, one is run in each round of the loop, and
 * all other orders, files and times get their turn before the next one. */
#define LOOP_QUEUES 64 /* of two that fall into one they are run in the order of posting */
void weir_loop_post_in_turn(struct loop *loop, struct loop_callback *callback, uint64_t whose);

/* ---- files ---- */

enum watch_events { WATCH_READ = 1, WATCH_WRITE = 2, WATCH_GONE = 4 /* the other side has left */ };

struct watch;
typedef void watch_ready(void *arg, unsigned events);
/* Or NULL. The file does not block from now on. */
struct watch *weir_watch_new(struct loop *loop, int fd, watch_ready *ready, void *arg);
/* What to tell about: enum watch_events, or-ed; 0: nothing. As long as it is true it is told again. A file
 * that is broken is told as all of it. */
bool weir_watch_for(struct watch *watch, unsigned events);
void weir_watch_free(struct watch *watch); /* `ready` is not called any more; the file stays open */

/* ---- time ---- */

struct timer;
typedef void timer_due(void *arg);
struct timer *weir_timer_new(struct loop *loop, timer_due *due, void *arg);
void weir_timer_set(struct timer *timer, int64_t after_ms, int64_t every_ms); /* every_ms 0: once */
void weir_timer_free(struct timer *timer);                                    /* NULL is fine */

/* ---- signals ---- */

typedef void loop_signal(void *arg, int number);
bool weir_loop_on_signal(struct loop *loop, int number, loop_signal *handler, void *arg);

#endif
