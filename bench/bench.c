/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L

#include "bench/bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "weir.h"

#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

static double bench_read_clock(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static double seconds_now(void)
{
    return bench_read_clock(CLOCK_MONOTONIC);
}

double bench_cpu_seconds(void)
{
    return bench_read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

/* Time of the processors that was not idle. Interrupts are left out: here most are timers of this process. */
static double used_seconds(void)
{
    enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, FIELDS };
    long long ticks[FIELDS] = {0};
    char line[256] = "";
    FILE *file = fopen("/proc/stat", "r");
    if (file && fgets(line, sizeof line, file) && strncmp(line, "cpu ", 4) == 0) {
        char *at = line + 4;
        for (int i = 0; i < FIELDS; i++)
            ticks[i] = strtoll(at, &at, 10);
    }
    if (file)
        fclose(file);
    return (double)(ticks[USER] + ticks[NICE] + ticks[SYSTEM] + ticks[STEAL]) / (double)sysconf(_SC_CLK_TCK);
}

struct bench_load bench_load_now(void)
{
    return (struct bench_load){seconds_now(), bench_cpu_seconds(), used_seconds()};
}

double bench_others(struct bench_load from, struct bench_load to)
{
    double all = (to.wall_s - from.wall_s) * (double)sysconf(_SC_NPROCESSORS_ONLN);
    double others = to.used_s - from.used_s - (to.own_s - from.own_s);
    return all > 0 && others > 0 ? others / all : 0;
}

static double run_timed(bench_fn *fn, void *arg, int64_t count)
{
    double start = seconds_now();
    fn(arg, count);
    return seconds_now() - start;
}

int bench_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_progress(const char *what)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%s", what ? what : "");
}

void bench_sleep(double seconds)
{
    struct timespec ts = {.tv_sec = (time_t)seconds};
    ts.tv_nsec = (long)((seconds - (double)ts.tv_sec) * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
        ;
}

struct bench_result bench_measure(const char *name, bench_fn *fn, void *arg, double seconds)
{
    double wanted = seconds / BENCH_RUNS, samples[BENCH_RUNS];
    int64_t count = 1000;
    bench_progress(name);
    while (run_timed(fn, arg, count) < wanted / 2 && count < INT64_C(1) << 40)
        count *= 2;
    for (int i = 0; i < BENCH_RUNS; i++)
        samples[i] = run_timed(fn, arg, count) * 1e9 / (double)count;
    qsort(samples, BENCH_RUNS, sizeof samples[0], bench_by_value);
    bench_progress(NULL);
    return (struct bench_result){samples[0], samples[BENCH_RUNS / 2]};
}

/* weir_now is CLOCK_BOOTTIME, give or take some microseconds. */
void bench_sleep_until(int64_t time_ns)
{
    struct timespec ts = {.tv_sec = (time_t)(time_ns / WEIR_SEC), .tv_nsec = (long)(time_ns % WEIR_SEC)};
    while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &ts, NULL) == EINTR)
        ;
}

/* The value of a line `name : value` of /proc/cpuinfo; NULL: it is another line. */
static const char *value_of(char *line, const char *name)
{
    size_t len = strlen(name);
    char *colon = strchr(line, ':');
    if (!colon || strncmp(line, name, len) != 0 || line[len + strspn(line + len, " \t")] != ':')
        return NULL;
    colon[strcspn(colon, "\n")] = '\0';
    return colon[1] ? colon + 2 : "";
}

/* Virtual machines often hide the name: "Intel(R) Xeon(R) Processor" may be any. Family, model and stepping,
 * which x86 has, tell which one it is. */
static void read_cpu_model(char *model, size_t size)
{
    char line[4096]; /* that of the flags is long */
    const char *value;
    char family[16] = "", number[16] = "", stepping[16] = "";
    snprintf(model, size, "unknown processor");
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file) && line[0] != '\n') {
        if ((value = value_of(line, "model name")) || (value = value_of(line, "CPU part")))
            snprintf(model, size, "%s", value);
        else if ((value = value_of(line, "cpu family")))
            snprintf(family, sizeof family, "%s", value);
        else if ((value = value_of(line, "model")))
            snprintf(number, sizeof number, "%s", value);
        else if ((value = value_of(line, "stepping")))
            snprintf(stepping, sizeof stepping, "%s", value);
    }
    if (file)
        fclose(file);
    size_t used = strlen(model);
    if (*family && *number && *stepping)
        snprintf(model + used, size - used, " (family %s model %s stepping %s)", family, number, stepping);
}

struct bench_machine {
    char model[200];
    long cores;
    char system[3 * sizeof((struct utsname *)0)->release];
};

static struct bench_machine machine_read(void)
{
    struct bench_machine machine = {.cores = sysconf(_SC_NPROCESSORS_ONLN)};
    struct utsname names = {0};
    uname(&names);
    read_cpu_model(machine.model, sizeof machine.model);
    snprintf(machine.system, sizeof machine.system, "%s %s %s", names.sysname, names.release, names.machine);
    return machine;
}

void bench_print_machine(void)
{
    struct bench_machine machine = machine_read();
    printf("machine    %s, %ld cores online\n", machine.model, machine.cores);
    printf("system     %s\ncompiler   %s\n", machine.system, COMPILER);
}

void bench_json_machine(struct json *json)
{
    struct bench_machine machine = machine_read();
    json_text(json, "machine", machine.model);
    json_number(json, "cores", machine.cores);
    json_text(json, "system", machine.system);
    json_text(json, "compiler", COMPILER);
}
