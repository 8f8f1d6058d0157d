/* SPDX-License-Identifier: MIT */
/*
 * A budget of a month must not be gone after a crash, and not be whole again either. Data keeps tables in a
 * directory: take, commit, then answer.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir.h>

static struct weir_error err;

/* What a server does with a batch of requests: it decides all of them, commits once, and answers then. */
static int serve(struct weir_data *data, struct weir_table *budget, int requests)
{
    int allowed = 0;
    for (int i = 0; i < requests; i++)
        allowed += weir_table_take(budget, "customer-7", 10, 1000, NULL);
    return weir_data_commit(data, 10 * WEIR_SEC) ? allowed : 0; /* not safe: say no */
}

static struct weir_data *start(const char *path, struct weir_table **budget)
{
    struct weir_data_options options = {.sync = WEIR_SYNC_ALWAYS};
    struct weir_table_options room = {.keys = 100000};
    struct weir_data *data = weir_data_open(path, &options, &err);
    *budget = weir_data_table(data, "budget", "50k/30d", &room, &err); /* of NULL: NULL */
    if (!*budget)
        fprintf(stderr, "%s\n", err.text);
    return data;
}

int main(void)
{
    char path[] = "/tmp/weir-example-XXXXXX"; /* a real program has a fixed name here */
    struct weir_table *budget;
    struct weir_verdict verdict;
    if (!mkdtemp(path))
        return perror(path), 1;

    if (fork() == 0) { /* crashes behind its answer */
        struct weir_data *data = start(path, &budget);
        printf("before the crash: %d requests allowed\n", serve(data, budget, 30));
        (void)fflush(stdout);
        _exit(1);
    }
    (void)wait(NULL);

    struct weir_data *data = start(path, &budget);
    (void)weir_table_peek(budget, "customer-7", 10, 1, &verdict);
    printf("after it: %lld units are left\n", (long long)verdict.remaining);
    printf("and then: %d requests allowed\n", serve(data, budget, 30));
    if (!weir_data_close(data, &err))
        fprintf(stderr, "%s\n", err.text);

    char command[64];
    (void)snprintf(command, sizeof command, "rm -r %s", path);
    return system(command) != 0;
}
