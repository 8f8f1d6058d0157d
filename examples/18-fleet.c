/* SPDX-License-Identifier: MIT */
/*
 * One total for many nodes: requests of random size, never more than 1000 units a second of all together.
 * Alone it runs three nodes as threads on `local:` and a clock of its own; for processes, on any number of
 * machines, start it with a coordinator: 18-fleet zookeeper://127.0.0.1:2181/demo
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir-fleet.h>

enum { NODES = 3, TOTAL = 1000 };

static struct weir_error err;
static struct weir_limiter *egress;

/* Requests of 1 to 10 units until `end_ns`, or until one would have to wait for longer; gives what passed. */
static int64_t serve(unsigned seed, int64_t end_ns, int64_t patience_ns)
{
    int64_t passed = 0, size = 1;
    while (weir_now() < end_ns && weir_limiter_acquire(egress, size, patience_ns, NULL)) {
        passed += size;
        seed = seed * 1103515245 + 12345;
        size = 1 + (seed >> 16) % 10;
    }
    return passed;
}

static void *node(void *arg)
{
    int64_t *units = arg; /* its seed, then what passed */
    *units = serve((unsigned)*units, WEIR_FOREVER, 100 * WEIR_MS);
    return NULL;
}

static void run_threads(int window)
{
    pthread_t threads[NODES];
    int64_t units[NODES] = {1, 2, 3}, sum = 0;
    for (int i = 0; i < NODES; i++)
        (void)pthread_create(&threads[i], NULL, node, &units[i]);
    for (int i = 0; i < NODES; i++) {
        (void)pthread_join(threads[i], NULL);
        sum += units[i];
    }
    printf("window %d: %s %d\n", window, sum > TOTAL ? "above" : sum > TOTAL - 30 ? "nearly" : "not", TOTAL);
}

int main(int argc, char **argv)
{
    unsigned child = 1;
    while (argc > 1 && child < NODES && fork() != 0) /* each process joins for itself */
        child++;
    if (argc < 2)
        weir_clock_set(1000 * WEIR_SEC);
    egress = weir_fleet_join(argc < 2 ? "local:?base=20" : argv[1], "example", "1k/s algo=quota", &err);
    if (!egress)
        return fprintf(stderr, "%s\n", err.text), 1;
    for (int window = 1; argc < 2 && window <= 3; window++) {
        run_threads(window);
        weir_clock_set(1000 * WEIR_SEC + window * 1100 * WEIR_MS);
    }
    if (argc > 1)
        printf("%lld units passed here\n", (long long)serve(child, weir_now() + 5 * WEIR_SEC, 2 * WEIR_SEC));
    weir_limiter_free(egress);
    while (wait(NULL) > 0)
        continue;
    return 0;
}
