/* SPDX-License-Identifier: MIT */
/*
 * A registry: limiters by name, made where they are first asked for. One listener hears of every limiter that
 * comes or goes and from then on of every call that it refuses. Tags say what belongs together.
 */
#include <inttypes.h>
#include <stdio.h>
#include <weir.h>

static void hear_limiter(void *arg, const struct weir_event *event)
{
    (void)arg;
    if (event->kind == WEIR_EVENT_FAILURE)
        printf("event: %s refused %" PRId64 "\n", event->name, event->n);
}

static void hear_registry(void *arg, const struct weir_event *event)
{
    const char *what = event->kind == WEIR_EVENT_ADDED     ? "added"
                       : event->kind == WEIR_EVENT_REMOVED ? "removed"
                                                           : "replaced";
    (void)arg;
    printf("event: %s %s\n", event->name, what);
    if (event->kind != WEIR_EVENT_REMOVED && !weir_limiter_listen(event->limiter, hear_limiter, NULL))
        printf("event: nobody hears what %s refuses\n", event->name);
}

static void call(struct weir_registry *registry, const char *name, const char *config, int64_t n)
{
    struct weir_error err;
    struct weir_limiter *limiter = weir_registry_limiter(registry, name, config, &err);
    if (!limiter)
        printf("error: %s\n", err.text);
    else if (weir_limiter_take(limiter, n, NULL))
        printf("%s: %" PRId64 " passed\n", name, n);
    weir_limiter_free(limiter); /* our reference; a program that calls often keeps it */
}

static bool show_tag(void *arg, const char *key, const char *value)
{
    (void)arg;
    printf(" %s=%s", key, value);
    return true;
}

static bool show_limiter(void *registry, const char *name, struct weir_limiter *limiter)
{
    char limits[64];
    (void)weir_limiter_text(limiter, limits, sizeof limits);
    printf("  %-8s %-12s", name, limits);
    (void)weir_registry_tags(registry, name, show_tag, NULL);
    puts("");
    return true;
}

int main(void)
{
    struct weir_error err;
    struct weir_registry *registry = weir_registry_new("10/s", &err); /* the default */
    if (!registry || !weir_registry_configure(registry, "slow", "1/s burst=2", &err) ||
        !weir_registry_tag(registry, NULL, "zone", "eu", &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    weir_clock_set(0); /* time stands still, so that this prints the same every time */
    (void)weir_registry_listen(registry, hear_registry, NULL);

    call(registry, "search", NULL, 1);        /* made from the default */
    call(registry, "login", "slow", 3);       /* from a configuration */
    call(registry, "mail", "100/s, 2k/h", 1); /* from limits of its own */
    call(registry, "search", "slow", 1);      /* it exists already: as it is */
    call(registry, "export", "slwo", 1);

    (void)weir_registry_tag(registry, "mail", "zone", "us", NULL); /* its own, instead of the registry's */
    (void)weir_registry_tag(registry, "mail", "team", "post", NULL);
    (void)weir_registry_replace(registry, "login", "5/m", NULL);
    (void)weir_registry_remove(registry, "search");
    printf("%zu limiters:\n", weir_registry_count(registry));
    (void)weir_registry_each(registry, show_limiter, registry);
    weir_registry_free(registry);
}
