/* SPDX-License-Identifier: MIT */
/*
 * The clock, in two halves. Simulated counters and kernel clocks show what it does when they drift, jump,
 * stop or lie; the real ones show that it keeps its word on this machine, with threads that are in each
 * other's way. A clock is the one thing that cannot be tested with time as an argument alone: the second half
 * reads the kernel's, on both sides of ours. It never waits for time to pass; idle time is made by ageing the
 * anchor.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "os/clock.h"
#include "os/clock_kernel.h"
#include "os/futex.h"

/* ---- first, while this process has not yet read the clock ---- */

#if defined(__x86_64__)
#define COUNTER "tsc"
#else
#define COUNTER "kernel" /* there is none that is used */
#endif

static bool file_has(const char *path, const char *part)
{
    static char text[65536];
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    return strstr(text, part) != NULL;
}

static bool is_counter_trusted(void)
{
    return file_has("/proc/cpuinfo", " nonstop_tsc") && file_has("/proc/cpuinfo", " constant_tsc") &&
           file_has("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
}

static bool is_child_happy(pid_t child)
{
    int status;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The environment is read once in a process, so that each word needs a process of its own. */
static bool word_gives(const char *word, const char *name)
{
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (word ? setenv("WEIR_CLOCK", word, 1) : unsetenv("WEIR_CLOCK"))
            _exit(2);
        errno = 0;
        int64_t before = weir_clock_kernel(), now = weir_now(), after = weir_clock_kernel();
        bool right =
            now >= before && now <= after && errno == 0; /* nothing has been told by the counter yet */
        _exit(right && strcmp(weir_clock_name(), name) == 0 ? 0 : 1);
    }
    return is_child_happy(child);
}

TEST(the_environment_chooses_the_clock)
{
    const char *fallback = is_counter_trusted() ? COUNTER : "kernel";
    CHECK(word_gives(NULL, fallback));
    CHECK(word_gives("", fallback));
    CHECK(word_gives("sundial", fallback));
    CHECK(word_gives("tsc", COUNTER));
    CHECK(word_gives("kernel", "kernel"));
}

/* ---- a world with a counter and a kernel of its own ---- */

struct world {
    struct clock clock;
    struct rng rng;
    uint64_t counter;
    weir_u128 kernel;    /* ns times 2^32 */
    uint64_t rate;       /* ns a tick, times 2^32: now, as NTP and the like have it */
    uint64_t nominal;    /* the same without them */
    int64_t bracket_ns;  /* longest time between two looks at kernel and counter */
    int64_t last;        /* reading */
    int64_t back;        /* largest step back */
    int64_t early, late; /* largest errors */
    int64_t readings, by_counter;
};

static int64_t world_kernel(const struct world *world)
{
    return (int64_t)(world->kernel >> 32);
}

static void world_pass(struct world *world, int64_t ns)
{
    uint64_t ticks = (uint64_t)(((weir_u128)(uint64_t)ns << 32) / world->rate) + 1;
    world->counter += ticks;
    world->kernel += (weir_u128)ticks * world->rate;
}

static struct clock_reading world_read(struct world *world)
{
    struct clock_reading reading;
    int64_t before = world_kernel(world);
    world_pass(world, rng_magnitude(&world->rng, world->bracket_ns / 2));
    reading.tsc = world->counter;
    world_pass(world, rng_magnitude(&world->rng, world->bracket_ns / 2));
    reading.kernel_ns = world_kernel(world);
    reading.narrow = reading.kernel_ns - before <= CLOCK_BRACKET_NS;
    return reading;
}

static int64_t world_clock(struct world *world)
{
    int64_t ns;
    uint64_t version;
    struct clock_anchor anchor;
    world->readings++;
    if (clock_is_running(&world->clock) && clock_tell(&world->clock, world->counter, &ns)) {
        world->by_counter++;
        return ns;
    }
    do
        anchor = weir_clock_anchor(&world->clock, &version);
    while (!weir_clock_answer(&world->clock, &anchor, version, world_read(world), &ns));
    return ns;
}

/* Reads the clock, keeps record, and gives how far it was outside the kernel's times before and after. */
static int64_t world_now(struct world *world)
{
    int64_t before = world_kernel(world), now = world_clock(world), after = world_kernel(world);
    int64_t error = now < before ? now - before : max64(now - after, 0);
    world->back = max64(world->back, world->last - now);
    world->last = now;
    world->early = max64(world->early, -error);
    world->late = max64(world->late, error);
    return error;
}

static struct world world_new(struct rng *rng)
{
    uint64_t mhz = 100 + (uint64_t)rng_magnitude(rng, 10000);
    struct world world = {.nominal = (UINT64_C(1000) << 32) / mhz, .bracket_ns = CLOCK_BRACKET_NS};
    world.rate = world.nominal;
    world.counter = rng_next(rng);
    world.kernel = (weir_u128)(uint64_t)rng_between(rng, WEIR_SEC, WEIR_TIME_MAX / 2) << 32;
    world.rng.state = rng_next(rng);
    return world;
}

/* Goes by the counter, and has for a while. */
static struct world world_running(struct rng *rng, int64_t kernel_ns)
{
    struct world world = world_new(rng);
    world.kernel = (weir_u128)(uint64_t)kernel_ns << 32;
    for (int i = 0; i < 100; i++) {
        world_pass(&world, 50000);
        (void)world_now(&world);
    }
    CHECK(world.by_counter > 0);
    return world;
}

static void check_steady(const struct world *world)
{
    CHECK(world->early <= CLOCK_ERROR_NS);
    CHECK(world->late <= CLOCK_ERROR_NS);
    CHECK_EQ(world->back, 0);
}

/* ---- simulated: counters that keep their promise ---- */

/* Reads the clock after pauses; in some of them the kernel's rate becomes `ppm` higher or lower than nominal.
 */
static void visit(struct world *world, int readings, int64_t longest_ns, int64_t ppm)
{
    for (int i = 0; i < readings; i++) {
        int64_t pause = rng_magnitude(&world->rng, longest_ns);
        world_pass(world, pause / 2);
        if (rng_between(&world->rng, 0, 99) == 0)
            world->rate =
                world->nominal / 1000000 * (uint64_t)(1000000 + ppm * rng_between(&world->rng, -1, 1));
        world_pass(world, pause - pause / 2);
        (void)world_now(world);
    }
}

TEST(a_kernel_that_is_slewed_is_followed_within_the_error)
{
    struct rng rng = rng_new(1);
    struct world worst = {0};
    for (int i = 0; i < 300; i++) {
        struct world world = world_new(&rng);
        if (i % 4 == 0)
            world.bracket_ns = 3 * CLOCK_BRACKET_NS; /* too wide every now and then */
        visit(&world, 3000, i % 3 == 0 ? 2000 : i % 3 == 1 ? 200000 : 3 * WEIR_MS, 500);
        check_steady(&world);
        worst.early = max64(worst.early, world.early);
        worst.late = max64(worst.late, world.late);
        worst.readings += world.readings;
        worst.by_counter += world.by_counter;
    }
    printf("# at most %" PRId64 " ns early, %" PRId64 " ns late\n", worst.early, worst.late);
    CHECK(worst.by_counter > worst.readings / 2);
}

TEST(idle_time_does_not_spoil_the_rate)
{
    struct rng rng = rng_new(2);
    for (int i = 0; i < 300; i++) {
        struct world world = world_running(&rng, WEIR_SEC);
        for (int j = 0; j < 30; j++) {
            world_pass(&world, rng_magnitude(&rng, 10000 * WEIR_SEC));
            visit(&world, 100, 30000, 500);
        }
        check_steady(&world);
    }
}

TEST(no_anchor_is_made_from_a_wide_bracket)
{
    struct clock clock = {0};
    struct clock_anchor none = {0};
    struct clock_reading wide = {.tsc = 1, .kernel_ns = 5 * WEIR_SEC};
    int64_t ns = 0;
    CHECK(weir_clock_answer(&clock, &none, 0, wide, &ns));
    CHECK_EQ(ns, 5 * WEIR_SEC);
    CHECK_EQ(atom_load(&clock.version, memory_order_relaxed), 0);
}

/* The first two spans of a process: a rate that was measured once may be anything. */
TEST(a_rate_is_used_once_two_measurements_agree)
{
    struct rng rng = rng_new(5);
    struct world world = world_new(&rng);
    for (int64_t anchors = 1; anchors <= 3; anchors++) {
        (void)world_now(&world);
        CHECK_EQ(atom_load(&world.clock.version, memory_order_relaxed), anchors);
        CHECK_EQ(clock_is_running(&world.clock), anchors == 3);
        world_pass(&world, CLOCK_SPAN_NS);
    }
}

static bool runs_after(int64_t interval_ns)
{
    struct clock_anchor old = {
        .tsc = 5, .ns = WEIR_SEC, .kernel_ns = WEIR_SEC, .measured = UINT64_C(1) << 31};
    struct clock_reading reading = {5 + 2 * (uint64_t)interval_ns, WEIR_SEC + interval_ns, true};
    return weir_clock_next(&old, reading).span != 0;
}

/* Too short is inexact; too long may hide a suspend, and would not fit. */
TEST(a_rate_is_measured_over_half_a_span_to_a_tenth_of_a_second)
{
    CHECK(!runs_after(CLOCK_SPAN_NS / 2 - 1));
    CHECK(runs_after(CLOCK_SPAN_NS / 2));
    CHECK(runs_after(100 * WEIR_MS));
    CHECK(!runs_after(100 * WEIR_MS + 1));
    CHECK(!runs_after(WEIR_SEC));
}

TEST(after_idle_time_one_span_is_enough)
{
    struct rng rng = rng_new(5);
    struct world world = world_running(&rng, WEIR_SEC);
    for (int i = 0; i < 3; i++) {
        world_pass(&world, WEIR_SEC);
        (void)world_now(&world);
        CHECK(!clock_is_running(&world.clock));
        world_pass(&world, CLOCK_SPAN_NS);
        (void)world_now(&world);
        CHECK(clock_is_running(&world.clock));
    }
}

TEST(a_wrong_first_rate_is_not_used)
{
    struct rng rng = rng_new(6);
    for (int i = 0; i < 300; i++) {
        struct world world = world_new(&rng);
        (void)world_now(&world);
        uint64_t version, percent = (uint64_t)rng_between(&rng, 1, 98) * (i % 2 ? 1 : 10);
        struct clock_anchor wrong = weir_clock_anchor(&world.clock, &version);
        wrong.measured = world.rate * percent / 100;
        weir_clock_replace(&world.clock, &wrong);
        visit(&world, 1000, 30000, 0);
        check_steady(&world);
        CHECK(clock_is_running(&world.clock));
    }
}

/* Two anchors a span apart at this rate, and the one that follows them. */
static struct clock_anchor running_anchor(struct rng *rng, uint64_t rate, int64_t lead)
{
    uint64_t ticks = ((uint64_t)CLOCK_SPAN_NS << 32) / rate;
    int64_t start = rng_magnitude(rng, WEIR_TIME_MAX);
    struct clock_anchor old = {
        .tsc = rng_next(rng), .ns = start + CLOCK_SPAN_NS + lead, .kernel_ns = start, .measured = rate};
    struct clock_reading reading = {old.tsc + ticks, start + CLOCK_SPAN_NS, true};
    return weir_clock_next(&old, reading);
}

TEST(what_an_anchor_tells_is_exact)
{
    struct rng rng = rng_new(7);
    for (int i = 0; i < 100000; i++) {
        int64_t lead = rng_magnitude(&rng, CLOCK_ERROR_NS), slowest = INT64_C(32) << 32, ns;
        int64_t rate = slowest / 1024 + rng_magnitude(&rng, slowest - slowest / 1024);
        struct clock_anchor anchor = running_anchor(&rng, (uint64_t)rate, lead);
        struct clock clock = {0};
        weir_clock_replace(&clock, &anchor);
        if (!CHECK(anchor.span > 0))
            return;
        uint64_t ticks = (uint64_t)rng_magnitude(&rng, (int64_t)anchor.span - 1);
        weir_u128 product = (weir_u128)ticks * anchor.rate;
        CHECK(product >> 63 == 0);
        CHECK(clock_tell(&clock, anchor.tsc + ticks, &ns));
        CHECK_EQ(ns, anchor.ns + (int64_t)(product >> 32));
        CHECK(!clock_tell(&clock, anchor.tsc + anchor.span, &ns));
        CHECK(!clock_tell(&clock, anchor.tsc - 1, &ns));
        CHECK_EQ(anchor.ns - anchor.kernel_ns, lead);
        int64_t end = anchor.ns + (int64_t)((weir_u128)anchor.span * anchor.rate >> 32);
        CHECK(end <= anchor.kernel_ns + CLOCK_SPAN_NS && end >= anchor.kernel_ns + CLOCK_SPAN_NS - 1);
    }
}

TEST(a_lead_beyond_the_error_is_not_slewed_but_waited_for)
{
    struct rng rng = rng_new(8);
    CHECK(running_anchor(&rng, UINT64_C(1) << 32, CLOCK_ERROR_NS).span > 0);
    CHECK_EQ(running_anchor(&rng, UINT64_C(1) << 32, CLOCK_ERROR_NS + 1).span, 0);
}

/* ---- simulated: what goes wrong ---- */

#define HOURS (18000 * WEIR_SEC)

struct fault {
    const char *name;
    bool to_zero;           /* the counter */
    int64_t jump_halves;    /* of a span: the counter's jump */
    uint64_t speed, slower; /* the counter's rate is divided by the one, multiplied with the other */
    int64_t kernel_ns;      /* the kernel's step */
    int64_t repair_ns;      /* until the clock is right again, by the kernel's clock */
    int64_t back_ns;        /* that the clock may step back */
};

/* Noticed after a span by the counter, which may go at half its speed. The clock then stands, if it is ahead,
 * for as long as it has gone too fast. */
static const struct fault faults[] = {
    {"the counter starts anew", true, 0, 1, 1, 0, CLOCK_SPAN_NS, 0},
    {"the counter jumps ahead", false, 1000000, 1, 1, 0, CLOCK_SPAN_NS, 0},
    {"the counter jumps a little ahead", false, 1, 1, 1, 0, CLOCK_SPAN_NS, 0},
    {"the counter jumps a little back", false, -1, 1, 1, 0, CLOCK_SPAN_NS, CLOCK_SPAN_NS / 2},
    {"the counter goes twice as fast", false, 0, 2, 1, 0, CLOCK_SPAN_NS, 0},
    {"the counter goes half as fast", false, 0, 1, 2, 0, 2 * CLOCK_SPAN_NS, 0},
    {"the counter stops in a suspend", false, 0, 1, 1, HOURS, CLOCK_SPAN_NS, 0},
    {"the counter starts anew in a suspend", true, 0, 1, 1, HOURS, CLOCK_SPAN_NS, 0},
    {"the kernel is slewed by 10 %", false, 0, 10, 11, 0, CLOCK_SPAN_NS, 0},
    {"the kernel steps ahead", false, 0, 1, 1, WEIR_SEC, CLOCK_SPAN_NS, 0},
    {"the kernel steps a little back", false, 0, 1, 1, -20 * WEIR_MS, 21 * CLOCK_SPAN_NS, 0},
    {"the kernel steps far back", false, 0, 1, 1, -HOURS, CLOCK_SPAN_NS, HOURS},
};

static void world_break(struct world *world, const struct fault *fault)
{
    int64_t half_span = (int64_t)(((uint64_t)CLOCK_SPAN_NS << 32) / world->rate / 2);
    world->counter = fault->to_zero ? 0 : world->counter + (uint64_t)(fault->jump_halves * half_span);
    world->rate = world->rate / fault->speed * fault->slower;
    world->kernel += (weir_u128)((weir_i128)fault->kernel_ns * (INT64_C(1) << 32));
}

static void break_and_watch(struct rng *rng, const struct fault *fault)
{
    struct world world = world_running(rng, 2 * HOURS);
    world_pass(&world, rng_between(rng, 0, CLOCK_SPAN_NS));
    check_steady(&world);
    world_break(&world, fault);
    int64_t start = world_kernel(&world), step = rng_between(rng, 1, 40000), passed;
    while ((passed = world_kernel(&world) - start) < fault->repair_ns + 10 * CLOCK_SPAN_NS) {
        int64_t error = world_now(&world);
        if (passed > fault->repair_ns + CLOCK_SPAN_NS / 4)
            CHECK(error <= CLOCK_ERROR_NS && error >= -CLOCK_ERROR_NS);
        world_pass(&world, step);
    }
    int64_t step_ns = max64(fault->kernel_ns, -fault->kernel_ns);
    CHECK(max64(world.early, world.late) <= step_ns + CLOCK_SPAN_NS + CLOCK_ERROR_NS);
    CHECK(world.back <= fault->back_ns + (fault->back_ns ? CLOCK_ERROR_NS : 0));
    CHECK(clock_is_running(&world.clock));
}

TEST(a_broken_counter_or_kernel_is_noticed_within_a_span)
{
    struct rng rng = rng_new(9);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        long before = check.faults;
        for (int round = 0; round < 60 && check.faults == before; round++)
            break_and_watch(&rng, &faults[i]);
        if (check.faults != before)
            printf("# when %s\n", faults[i].name);
    }
}

/* ---- simulated: somebody else makes the anchor ---- */

TEST(while_the_clock_is_held_the_kernel_is_asked_and_nothing_steps_back)
{
    struct rng rng = rng_new(10);
    for (int i = 0; i < 200; i++) {
        struct world world = world_running(&rng, WEIR_SEC);
        CHECK(weir_clock_try_hold(&world.clock));
        CHECK(!weir_clock_try_hold(&world.clock));
        uint64_t version = atom_load(&world.clock.version, memory_order_relaxed);
        visit(&world, 300, 30000, 500);
        CHECK_EQ(atom_load(&world.clock.version, memory_order_relaxed), version);
        weir_clock_release(&world.clock);
        visit(&world, 300, 30000, 500);
        CHECK(atom_load(&world.clock.version, memory_order_relaxed) > version);
        check_steady(&world);
    }
}

TEST(who_comes_second_does_not_replace_the_newer_anchor)
{
    struct rng rng = rng_new(11);
    struct world world = world_running(&rng, WEIR_SEC);
    uint64_t version;
    int64_t ns;
    struct clock_anchor anchor = weir_clock_anchor(&world.clock, &version);
    world_pass(&world, 2 * CLOCK_SPAN_NS);
    struct clock_reading first = world_read(&world), second = world_read(&world);
    CHECK(weir_clock_answer(&world.clock, &anchor, version, second, &ns));
    CHECK(!weir_clock_answer(&world.clock, &anchor, version, first, &ns));
    CHECK(weir_clock_try_hold(&world.clock));
    CHECK(!weir_clock_answer(&world.clock, &anchor, version, first, &ns));
    CHECK_EQ(weir_clock_anchor(&world.clock, &version).tsc, second.tsc);
}

#define TICKS UINT64_C(1000)
#define TIME  INT64_C(1000000)

static _Atomic bool making; /* anchors, in another thread */

/* Anchors of all kinds that agree on one thing: at tick TICKS it is TIME. */
static void *replace_often(void *clock)
{
    for (uint64_t i = 0; atomic_load_explicit(&making, memory_order_relaxed); i++) {
        uint64_t tsc = i % 61, rate = 1 + i % 67;
        struct clock_anchor anchor = {
            .tsc = tsc, .ns = TIME - (int64_t)((TICKS - tsc) * rate), .rate = rate << 32, .span = 2 * TICKS};
        weir_clock_replace(clock, &anchor);
    }
    return NULL;
}

TEST(a_reader_never_mixes_two_anchors)
{
    struct clock clock = {0};
    pthread_t writer;
    int64_t right = 0, wrong = 0, ns;
    making = true;
    CHECK_EQ(pthread_create(&writer, NULL, replace_often, &clock), 0);
    while (right < 10000 || atom_load(&clock.version, memory_order_relaxed) < 1000000)
        if (clock_tell(&clock, TICKS, &ns))
            *(ns == TIME ? &right : &wrong) += 1;
    making = false;
    CHECK_EQ(pthread_join(writer, NULL), 0);
    CHECK_EQ(wrong, 0);
}

/* ---- the real clock ---- */

static uint64_t true_rate; /* of the counter, as measured when nothing had been made older */

/* Nobody else reads the clock yet. */
static void start_counter(void)
{
    uint64_t version;
    while (strcmp(weir_clock_name(), "tsc") == 0 && !clock_is_running(&weir_clock))
        (void)weir_now();
    if (true_rate == 0)
        true_rate = weir_clock_anchor(&weir_clock, &version).measured;
}

/* As if nobody had read the clock for a while: the same line through the past, only from further back. */
static void make_older(struct clock *clock, int64_t ns)
{
    uint64_t version;
    if (!weir_clock_try_hold(clock))
        return;
    struct clock_anchor anchor = weir_clock_anchor(clock, &version);
    if (anchor.span != 0) {
        uint64_t ticks = ((uint64_t)ns << 32) / true_rate;
        anchor.tsc -= ticks;
        anchor.ns -= (int64_t)(ticks * anchor.rate >> 32);
        anchor.kernel_ns -= ns;
        weir_clock_replace(clock, &anchor);
    }
    weir_clock_release(clock);
}

static void work(int64_t rounds)
{
    for (volatile int64_t i = 0; i < rounds; i++)
        ;
}

struct reader {
    pthread_t thread;
    struct rng rng;
    int64_t readings;
    int64_t early, late; /* largest errors against the kernel */
    int64_t back;        /* largest step back, against own or others' readings */
};

#define READERS 4

static _Atomic int64_t latest_reading;

/* The kernel's clock on both sides; a thread that is interrupted between them only widens them. */
static int64_t compare(struct reader *reader)
{
    int64_t before = weir_clock_kernel(), now = clock_now(), after = weir_clock_kernel();
    reader->early = max64(reader->early, before - now);
    reader->late = max64(reader->late, now - after);
    return now;
}

static void *compare_with_kernel(void *arg)
{
    struct reader *reader = arg;
    for (int64_t i = 0, last = 0; i < reader->readings; i++) {
        int64_t now = compare(reader);
        reader->back = max64(reader->back, last - now);
        last = now;
        work(rng_magnitude(&reader->rng, 1000));
        if (rng_between(&reader->rng, 0, 499) == 0)
            make_older(&weir_clock, rng_magnitude(&reader->rng, WEIR_SEC));
    }
    return NULL;
}

static void *compare_with_each_other(void *arg)
{
    struct reader *reader = arg;
    for (int64_t i = 0; i < reader->readings; i++) {
        int64_t latest = atomic_load_explicit(&latest_reading, memory_order_acquire);
        int64_t now = clock_now();
        reader->back = max64(reader->back, latest - now);
        atomic_store_explicit(&latest_reading, now, memory_order_release);
        if (rng_between(&reader->rng, 0, 9999) == 0)
            make_older(&weir_clock, rng_magnitude(&reader->rng, WEIR_SEC));
    }
    return NULL;
}

/* Runs the readers and gives the worst of what they saw. */
static struct reader run_readers(uint64_t stream, void *(*run)(void *), int64_t readings)
{
    struct reader readers[READERS], worst = {0};
    struct rng rng = rng_new(stream);
    start_counter();
    for (int i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.rng = {rng_next(&rng)}, .readings = readings};
        CHECK_EQ(pthread_create(&readers[i].thread, NULL, run, &readers[i]), 0);
    }
    for (int i = 0; i < READERS; i++) {
        CHECK_EQ(pthread_join(readers[i].thread, NULL), 0);
        worst.early = max64(worst.early, readers[i].early);
        worst.late = max64(worst.late, readers[i].late);
        worst.back = max64(worst.back, readers[i].back);
    }
    return worst;
}

TEST(the_clock_is_within_its_error_of_the_kernels)
{
    struct reader worst = run_readers(12, compare_with_kernel, check_env("WEIR_CLOCK_READINGS", 300000));
    printf("# %s: at most %" PRId64 " ns early, %" PRId64 " ns late, %" PRId64 " ns back\n",
           weir_clock_name(), worst.early, worst.late, worst.back);
    CHECK(worst.early <= CLOCK_ERROR_NS);
    CHECK(worst.late <= CLOCK_ERROR_NS);
    CHECK(worst.back <= CLOCK_ERROR_NS);
}

TEST(a_reading_is_not_older_than_one_that_another_thread_passed_on)
{
    latest_reading = 0;
    struct reader worst =
        run_readers(13, compare_with_each_other, check_env("WEIR_CLOCK_READINGS", 300000) * 3);
    printf("# %s: at most %" PRId64 " ns back\n", weir_clock_name(), worst.back);
    CHECK(worst.back <= CLOCK_ERROR_NS);
}

/* ---- fork ---- */

/* The next reading has to make an anchor. */
static void forget_anchor(struct clock *clock)
{
    uint64_t version;
    if (!weir_clock_try_hold(clock))
        return;
    if (!weir_clock_anchor(clock, &version).set)
        weir_clock_replace(clock, &(struct clock_anchor){0});
    weir_clock_release(clock);
}

static void *make_anchors(void *arg)
{
    (void)arg;
    while (atomic_load_explicit(&making, memory_order_relaxed)) {
        forget_anchor(&weir_clock);
        (void)weir_now();
    }
    return NULL;
}

/* SIGALRM ends a child that hangs. */
_Noreturn static void use_clock_in_child(void)
{
    struct reader reader = {0};
    (void)alarm(20);
    bool freed = weir_clock_try_hold(&weir_clock);
    weir_clock_release(&weir_clock);
    for (int i = 0; i < 100; i++)
        (void)compare(&reader);
    weir_clock_set(7);
    bool right = freed && reader.early <= CLOCK_ERROR_NS && reader.late <= CLOCK_ERROR_NS && weir_now() == 7;
    _exit(right ? 0 : 1);
}

static bool does_child_use_clock(void)
{
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        use_clock_in_child();
    return is_child_happy(child);
}

TEST(a_child_frees_the_clock_that_another_thread_held_at_the_fork)
{
    (void)weir_now();
    CHECK(weir_clock_try_hold(&weir_clock));
    CHECK(does_child_use_clock());
    CHECK(!weir_clock_try_hold(&weir_clock)); /* the parent's is as it was */
    weir_clock_release(&weir_clock);
}

TEST(a_child_can_use_the_clock_whatever_others_did_at_the_fork)
{
    pthread_t threads[2];
    making = true;
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, make_anchors, NULL), 0);
    for (int i = 0; i < 100; i++)
        CHECK(does_child_use_clock());
    making = false;
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

/* ---- set by hand ---- */

static bool is_real(void)
{
    struct reader reader = {0};
    (void)compare(&reader);
    return reader.early <= CLOCK_ERROR_NS && reader.late <= CLOCK_ERROR_NS;
}

TEST(a_clock_that_is_set_stands_until_it_is_set_again)
{
    static const int64_t times[] = {0, 1, 5 * WEIR_SEC, WEIR_TIME_MAX, 3};
    const char *name = weir_clock_name();
    for (int round = 0; round < 3; round++) {
        start_counter();
        for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
            weir_clock_set(times[i]);
            CHECK(weir_clock_is_set());
            CHECK_STR(weir_clock_name(), "set");
            for (int j = 0; j < 100; j++)
                CHECK_EQ(weir_now(), times[i]);
        }
        weir_clock_set(round == 0 ? -1 : round == 1 ? INT64_MIN : -WEIR_SEC);
        CHECK(!weir_clock_is_set());
        CHECK_STR(weir_clock_name(), name);
        CHECK(is_real());
    }
    start_counter();
    CHECK(is_real());
}

#define ROUNDS 1000

static _Atomic uint32_t told, answered; /* how many rounds */

static void post(_Atomic uint32_t *word)
{
    (void)atomic_fetch_add_explicit(word, 1, memory_order_release);
    weir_futex_wake(word, 2);
}

static void wait_for(_Atomic uint32_t *word, uint32_t value)
{
    uint32_t seen;
    while ((seen = atomic_load_explicit(word, memory_order_acquire)) < value)
        weir_futex_wait(word, seen, 0);
}

static int64_t time_of_round(uint32_t round)
{
    return round % 3 == 0 ? -1 : round * WEIR_MS;
}

static bool shows_round(uint32_t round)
{
    int64_t time = time_of_round(round);
    return time < 0 ? !weir_clock_is_set() && is_real() : weir_clock_is_set() && clock_now() == time;
}

static void *watch(void *wrong)
{
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        wait_for(&told, round);
        for (int i = 0; i < 10; i++)
            *(int64_t *)wrong += !shows_round(round);
        post(&answered);
    }
    return NULL;
}

/* Whoever knows that the clock was set sees the time it was set to, while others make anchors. */
TEST(a_set_clock_is_seen_by_all_who_know_of_it)
{
    pthread_t watcher, makers[2];
    int64_t wrong = 0;
    making = true;
    told = answered = 0;
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&makers[i], NULL, make_anchors, NULL), 0);
    CHECK_EQ(pthread_create(&watcher, NULL, watch, &wrong), 0);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        weir_clock_set(time_of_round(round));
        post(&told);
        wait_for(&answered, round);
    }
    making = false;
    CHECK_EQ(pthread_join(watcher, NULL), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(makers[i], NULL), 0);
    CHECK_EQ(wrong, 0);
    weir_clock_set(-1);
}

/* Sleeps as waits do: looks at the moves, then at the time, then sleeps until the moves change. */
static void *sleep_for_each_round(void *arg)
{
    (void)arg;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        for (;;) {
            uint32_t moves = atomic_load_explicit(&weir_clock_moves, memory_order_acquire);
            if (weir_now() >= round)
                break;
            weir_futex_wait(&weir_clock_moves, moves, 0);
        }
        post(&answered);
    }
    return NULL;
}

/* A lost wake-up shows as a program that does not end. */
TEST(setting_the_clock_wakes_all_who_sleep_on_its_moves)
{
    pthread_t sleepers[2];
    answered = 0;
    weir_clock_set(0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&sleepers[i], NULL, sleep_for_each_round, NULL), 0);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        uint32_t moves = weir_clock_moves;
        weir_clock_set(round);
        CHECK_EQ(weir_clock_moves, moves + 1);
        wait_for(&answered, 2 * round);
    }
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(sleepers[i], NULL), 0);
    weir_clock_set(-1);
}
