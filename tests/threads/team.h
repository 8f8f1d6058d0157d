/* SPDX-License-Identifier: MIT */
/*
 * A number of threads that begin together and run the same function. What they find out they keep to
 * themselves; checks are made by the thread that started them, after they have ended.
 */
#ifndef WEIR_TESTS_THREADS_TEAM_H
#define WEIR_TESTS_THREADS_TEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `self` counts from 0. */
typedef void team_body(size_t self, void *arg);

struct team;

/* Returns once all of them run. No thread to be had: stops the program. */
struct team *team_start(size_t count, team_body *body, void *arg);
/* How many have not come to the end of their function yet. */
size_t team_running(struct team *team);
void team_join(struct team *team);

/* From start to join. */
void team_run(size_t count, team_body *body, void *arg);

/* Lets another thread go first: what a test does while it waits for something to be seen. */
void team_yield(void);

/* How long a test may take before somebody must be stuck: three minutes, or WEIR_WATCH_SECONDS. */
unsigned team_patience(void);
/* Stops the program with a message if team_watch_done has not been called by then: nobody hangs for ever. */
void team_watch(const char *what);
void team_watch_done(void);

/* A number of this test under a sanitizer that slows threads down: a share of what it is elsewhere. */
int64_t team_scaled(int64_t number);

#endif
