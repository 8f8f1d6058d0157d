/* SPDX-License-Identifier: MIT */
/*
 * One registry and many threads: what they get, what is told and what is there in the end. Also forks in
 * between.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "registry/registry.h"

static struct weir_registry *open_registry(void)
{
    struct weir_error err;
    struct weir_registry *registry = weir_registry_new("10/s", &err);
    if (!registry)
        exit(fprintf(stderr, "no registry: %s\n", err.text));
    return registry;
}

enum { THREADS = 8, ROUNDS = 200, STEPS = 3000, NAMES = 12 };

struct worker {
    struct weir_registry *registry;
    struct rng rng;
    pthread_t thread;
    struct weir_limiter *got[ROUNDS];
    int64_t removed, replaced, faults;
};

static struct worker workers[THREADS];
static pthread_barrier_t barrier;
static atomic_int_fast64_t events[6];

static void count_event(void *arg, const struct weir_event *event)
{
    (void)arg;
    atomic_fetch_add(&events[event->kind], 1);
}

static void run_workers(struct weir_registry *registry, void *(*run)(void *))
{
    memset(workers, 0, sizeof workers);
    for (int kind = 0; kind < 6; kind++)
        events[kind] = 0;
    CHECK_EQ(pthread_barrier_init(&barrier, NULL, THREADS), 0);
    for (size_t i = 0; i < THREADS; i++) {
        workers[i].registry = registry;
        workers[i].rng = rng_new(i);
        CHECK_EQ(pthread_create(&workers[i].thread, NULL, run, &workers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(workers[i].thread, NULL), 0);
        CHECK_EQ(workers[i].faults, 0);
    }
    pthread_barrier_destroy(&barrier);
}

static void *get_the_same(void *arg)
{
    struct worker *worker = arg;
    char name[32];
    for (int i = 0; i < ROUNDS; i++) {
        (void)snprintf(name, sizeof name, "%d", i);
        pthread_barrier_wait(&barrier);
        worker->got[i] = weir_registry_limiter(worker->registry, name, NULL, NULL);
    }
    return NULL;
}

TEST(threads_that_ask_for_the_same_name_at_once_get_the_same_limiter)
{
    struct weir_registry *registry = open_registry();
    CHECK(weir_registry_listen(registry, count_event, NULL));
    run_workers(registry, get_the_same);
    for (int i = 0; i < ROUNDS; i++) {
        for (int j = 0; j < THREADS; j++) {
            CHECK(workers[j].got[i] != NULL && workers[j].got[i] == workers[0].got[i]);
            weir_limiter_free(workers[j].got[i]);
        }
    }
    CHECK_EQ(events[WEIR_EVENT_ADDED], ROUNDS);
    CHECK_EQ(weir_registry_count(registry), ROUNDS);
    weir_registry_free(registry);
}

static void draw_name(struct worker *worker, char name[32])
{
    (void)snprintf(name, 32, "name %d", (int)rng_between(&worker->rng, 0, NAMES - 1));
}

/* What was got has to work, and to be what the name stands for. */
static void use(struct worker *worker, struct weir_limiter *limiter)
{
    if (!limiter)
        return;
    char text[32];
    (void)weir_limiter_take(limiter, 1, NULL);
    (void)weir_limiter_text(limiter, text, sizeof text);
    worker->faults += strcmp(text, "10/s") != 0 && strcmp(text, "20/s") != 0;
    weir_limiter_free(limiter);
}

struct order {
    char last[32];
    int64_t faults;
};

static bool check_order(void *arg, const char *name, struct weir_limiter *limiter)
{
    struct order *order = arg;
    order->faults += strcmp(order->last, name) >= 0 || !limiter;
    (void)snprintf(order->last, sizeof order->last, "%s", name);
    (void)weir_limiter_peek(limiter, 1, NULL);
    return true;
}

static bool check_tag(void *arg, const char *key, const char *value)
{
    *(int64_t *)arg += strcmp(key, "zone") != 0 || strlen(value) != 2;
    return true;
}

static void change_tags(struct worker *worker, const char *name)
{
    const char *owner = rng_between(&worker->rng, 0, 3) ? name : NULL;
    char value[8];
    size_t len = weir_registry_tag_value(worker->registry, owner, "zone", value, sizeof value);
    worker->faults += len != 0 && (len != 2 || strlen(value) != 2);
    (void)weir_registry_tags(worker->registry, owner, check_tag, &worker->faults);
    if (rng_between(&worker->rng, 0, 1))
        (void)weir_registry_tag(worker->registry, owner, "zone", "eu", NULL);
    else
        (void)weir_registry_untag(worker->registry, owner, "zone");
}

static void ignore_event(void *arg, const struct weir_event *event)
{
    (void)arg, (void)event;
}

static void change_listeners(struct worker *worker)
{
    worker->faults += !weir_registry_listen(worker->registry, ignore_event, worker);
    worker->faults += !weir_registry_unlisten(worker->registry, ignore_event, worker);
}

static void change_configurations(struct worker *worker)
{
    char text[8] = "";
    size_t len = weir_registry_configuration(worker->registry, "fast", text, sizeof text);
    worker->faults += len != 0 && strcmp(text, "20/s") != 0;
    if (rng_between(&worker->rng, 0, 1))
        worker->faults += !weir_registry_configure(worker->registry, "fast", "20/s", NULL);
    else
        (void)weir_registry_unconfigure(worker->registry, "fast");
}

static void step(struct worker *worker)
{
    struct weir_registry *registry = worker->registry;
    struct order order = {0};
    char name[32];
    draw_name(worker, name);
    switch (rng_between(&worker->rng, 0, 8)) {
    case 0:
        use(worker, weir_registry_limiter(registry, name, NULL, NULL));
        break;
    case 1: /* may find no such configuration */
        use(worker, weir_registry_limiter(registry, name, "fast", NULL));
        break;
    case 2:
        use(worker, weir_registry_find(registry, name));
        break;
    case 3:
        worker->removed += weir_registry_remove(registry, name);
        break;
    case 4:
        worker->replaced += weir_registry_replace(registry, name, "20/s", NULL);
        break;
    case 5:
        worker->faults += !weir_registry_each(registry, check_order, &order) || order.faults > 0;
        break;
    case 6:
        change_tags(worker, name);
        break;
    case 7:
        change_listeners(worker);
        break;
    default:
        change_configurations(worker);
    }
}

static void *do_everything(void *arg)
{
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < STEPS; i++)
        step(arg);
    return NULL;
}

TEST(every_change_by_any_thread_is_told_once)
{
    struct weir_registry *registry = open_registry();
    int64_t removed = 0, replaced = 0;
    CHECK(weir_registry_listen(registry, count_event, NULL));
    run_workers(registry, do_everything);
    for (int i = 0; i < THREADS; i++) {
        removed += workers[i].removed;
        replaced += workers[i].replaced;
    }
    CHECK(removed > 0 && replaced > 0);
    CHECK_EQ(events[WEIR_EVENT_REMOVED], removed);
    CHECK_EQ(events[WEIR_EVENT_REPLACED], replaced);
    CHECK_EQ(events[WEIR_EVENT_ADDED] - removed, weir_registry_count(registry));
    weir_registry_free(registry);
}

/* ---- fork ---- */

enum { FORKS = 60, STAYING = 40 };

static atomic_bool enough;
static struct weir_registry *watched;
static bool all_taken;

/* Handlers run before a fork in the reverse order of their registration, so this one is the last. */
static void look_at_locks(void)
{
    all_taken = watched && !lock_try(&watched->lock) && !lock_try(&watched->listeners.lock);
}

__attribute__((constructor)) static void watch_forks_first(void)
{
    (void)pthread_atfork(look_at_locks, NULL, NULL);
}

static void *do_everything_for_long(void *arg)
{
    while (!atomic_load(&enough))
        step(arg);
    return NULL;
}

/* In the child: takes no memory, for that may be locked, too, under a sanitizer. */
static bool is_whole(struct weir_registry *registry)
{
    char name[32];
    alarm(20); /* a lock that is never dropped ends the child, and the test sees it */
    for (int i = 0; i < STAYING; i++) {
        (void)snprintf(name, sizeof name, "staying %d", i);
        struct weir_limiter *limiter = weir_registry_find(registry, name);
        if (!limiter)
            return false;
        weir_limiter_free(limiter); /* one reference of two */
    }
    return weir_registry_unlisten(registry, count_event, NULL) && weir_registry_count(registry) >= STAYING &&
           weir_registry_tag_value(registry, NULL, "app", NULL, 0) == 4;
}

TEST(a_forked_child_finds_locks_free_and_tables_whole)
{
    struct weir_registry *registry = open_registry();
    char name[32];
    for (int i = 0; i < STAYING; i++) {
        (void)snprintf(name, sizeof name, "staying %d", i);
        weir_limiter_free(weir_registry_limiter(registry, name, NULL, NULL));
    }
    CHECK(weir_registry_tag(registry, NULL, "app", "shop", NULL));
    CHECK(weir_registry_listen(registry, count_event, NULL));
    memset(workers, 0, sizeof workers);
    for (size_t i = 0; i < 2; i++) {
        workers[i] = (struct worker){.registry = registry, .rng = rng_new(i)};
        CHECK_EQ(pthread_create(&workers[i].thread, NULL, do_everything_for_long, &workers[i]), 0);
    }
    watched = registry;
    for (int i = 0; i < FORKS; i++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0)
            _exit(is_whole(registry) ? 0 : 1);
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK_EQ(status, 0);
        CHECK(all_taken);
    }
    watched = NULL;
    atomic_store(&enough, true);
    for (size_t i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(workers[i].thread, NULL), 0);
    CHECK(weir_registry_unlisten(registry, count_event, NULL));
    weir_registry_free(registry);
}
