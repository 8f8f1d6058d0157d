/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "os/thread.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LEAST_PRIORITY 19

/* A thread inherits the mask of the one that starts it. */
bool weir_thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(thread, NULL, run, arg) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* On Linux a priority is a thread's, not the process's. */
void weir_thread_give_way(void)
{
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), LEAST_PRIORITY);
}
