/* SPDX-License-Identifier: MIT */
/*
 * Two processes share a table: whoever opens the same file has the same limits, and together they let pass
 * what one of them alone would.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir.h>

/* What a worker process does: opens the table by its path and takes until it is refused. */
static int work(const char *path)
{
    struct weir_error err;
    struct weir_table *table = weir_table_open(path, "10/m burst=1000", 1000, &err);
    int passed = 0;
    while (weir_table_take(table, "client", 6, 1, NULL)) /* NULL refuses, too */
        passed++;
    if (!table)
        fprintf(stderr, "%s\n", err.text);
    weir_table_free(table);
    return passed;
}

int main(void)
{
    char path[] = "/dev/shm/weir-example-XXXXXX"; /* a real program has a fixed name here */
    int fd = mkstemp(path), pipes[2], total = 0, passed;
    if (fd < 0 || pipe(pipes) != 0)
        return perror(path), 1;
    (void)close(fd);
    (void)fflush(stdout);
    for (int i = 0; i < 2; i++)
        if (fork() == 0) {
            passed = work(path);
            _exit(write(pipes[1], &passed, sizeof passed) != sizeof passed);
        }
    for (int i = 0; i < 2; i++)
        if (read(pipes[0], &passed, sizeof passed) == sizeof passed)
            total += passed;
    while (wait(NULL) > 0) {
    }
    printf("two processes together: %s\n",
           total >= 1000 && total <= 1001 ? "1000, and what refilled" : "wrong");

    struct weir_error err;
    struct weir_table *table = weir_table_open(path, "10/m burst=1000, 5/s", 1000, &err);
    printf("another number of limits: %s\n", table ? "opened" : err.text);
    weir_table_free(table);
    (void)unlink(path);
}
