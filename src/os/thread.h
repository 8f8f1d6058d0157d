/* SPDX-License-Identifier: MIT */
#ifndef WEIR_OS_THREAD_H
#define WEIR_OS_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* A thread of the library's own, in which no signal of the program is handled. false: there is none to be
 * had. */
bool weir_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

/* The calling thread gives way to all others, from now on: for work that is not urgent. A hint. */
void weir_thread_give_way(void);

#endif
