/* SPDX-License-Identifier: MIT */
/*
 * The registry: names, configurations, tags, events, errors, and what callbacks and want of memory must not
 * break. The program is linked with --wrap for all that takes memory, so that it can run out.
 */
#include "registry/registry.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "check.h"

/* ---- memory that runs out ---- */

static _Thread_local int64_t allocations_left = INT64_MAX;

static bool may_allocate(void)
{
    return allocations_left == INT64_MAX || allocations_left-- > 0;
}

/* The next `count` allocations succeed, and none after them. */
static void allow(int64_t count)
{
    allocations_left = count;
}

/* Ends that; gives whether memory was wanted and refused. */
static bool was_short(void)
{
    bool refused = allocations_left < 0;
    allocations_left = INT64_MAX;
    return refused;
}

#define WRAP(NAME, PARAMETERS, ARGUMENTS)                                                                    \
    void *__real_##NAME PARAMETERS;                                                                          \
    void *__wrap_##NAME PARAMETERS;                                                                          \
    void *__wrap_##NAME PARAMETERS                                                                           \
    {                                                                                                        \
        return may_allocate() ? __real_##NAME ARGUMENTS : NULL;                                              \
    }
WRAP(malloc, (size_t size), (size))
WRAP(calloc, (size_t count, size_t size), (count, size))
WRAP(aligned_alloc, (size_t alignment, size_t size), (alignment, size))
WRAP(strdup, (const char *text), (text))

/* ---- helpers ---- */

static struct weir_registry *open_registry(void)
{
    struct weir_error err;
    struct weir_registry *registry = weir_registry_new("10/s", &err);
    if (!registry)
        exit(fprintf(stderr, "no registry: %s\n", err.text));
    return registry;
}

/* Makes a limiter, and leaves it to the registry. */
static void add(struct weir_registry *registry, const char *name, const char *config)
{
    struct weir_error err;
    struct weir_limiter *limiter = weir_registry_limiter(registry, name, config, &err);
    CHECK(limiter != NULL);
    CHECK_EQ(err.code, 0);
    weir_limiter_free(limiter);
}

static const char *text_of(struct weir_limiter *limiter)
{
    static char text[256];
    text[0] = '\0';
    (void)weir_limiter_text(limiter, text, sizeof text);
    return text;
}

/* The limits of the limiter that is there now; "" if there is none. */
static const char *limits_of(struct weir_registry *registry, const char *name)
{
    struct weir_limiter *limiter = weir_registry_find(registry, name);
    const char *text = text_of(limiter);
    weir_limiter_free(limiter);
    return text;
}

static char log_text[512]; /* what callbacks write */

static void log_clear(void)
{
    log_text[0] = '\0';
}

__attribute__((format(printf, 1, 2))) static void log_print(const char *format, ...)
{
    size_t len = strlen(log_text);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(log_text + len, sizeof log_text - len, format, arguments);
    va_end(arguments);
}

static void log_event(void *arg, const struct weir_event *event)
{
    static const char *const kinds[] = {"success", "failure", "drained", "added", "removed", "replaced"};
    (void)arg;
    CHECK_EQ(event->n, event->kind >= WEIR_EVENT_ADDED ? 0 : 1);
    log_print("%s %s %s; ", kinds[event->kind], event->name, text_of(event->limiter));
}

static bool log_limiter(void *arg, const char *name, struct weir_limiter *limiter)
{
    (void)arg;
    log_print("%s=%s; ", name, text_of(limiter));
    return true;
}

static bool log_tag(void *arg, const char *key, const char *value)
{
    (void)arg;
    log_print("%s=%s; ", key, value);
    return true;
}

static const char *tags_of(struct weir_registry *registry, const char *name)
{
    log_clear();
    CHECK(weir_registry_tags(registry, name, log_tag, NULL));
    return log_text;
}

/* ---- limiters ---- */

TEST(a_limiter_is_made_once_and_then_found)
{
    struct weir_registry *registry = open_registry();
    struct weir_error err;
    CHECK(weir_registry_find(registry, "api") == NULL);
    struct weir_limiter *first = weir_registry_limiter(registry, "api", "5/s", &err);
    struct weir_limiter *again = weir_registry_limiter(registry, "api", "7/s", &err);
    struct weir_limiter *found = weir_registry_find(registry, "api");
    struct weir_limiter *other = weir_registry_limiter(registry, "API", NULL, NULL);
    CHECK(first != NULL && first == again && first == found && first != other);
    CHECK_STR(text_of(first), "5/s");
    CHECK_STR(text_of(other), "10/s");
    CHECK_EQ(weir_registry_count(registry), 2);
    weir_limiter_free(first);
    weir_limiter_free(again);
    weir_limiter_free(other);
    weir_registry_free(registry);
    CHECK(weir_limiter_take(found, 1, NULL)); /* ours outlives the registry */
    weir_limiter_free(found);
}

TEST(what_exists_is_given_whatever_the_configuration_says)
{
    struct weir_registry *registry = open_registry();
    struct weir_error err = {.code = 1};
    add(registry, "api", "5/s");
    struct weir_limiter *limiter = weir_registry_limiter(registry, "api", "nonsense", &err);
    CHECK(limiter != NULL);
    CHECK_EQ(err.code, 0);
    CHECK_STR(err.text, "");
    weir_limiter_free(limiter);
    weir_registry_free(registry);
}

TEST(a_limiter_that_is_removed_lives_on_for_who_has_it)
{
    struct weir_registry *registry = open_registry();
    struct weir_limiter *old = weir_registry_limiter(registry, "api", "1/d", NULL);
    CHECK(weir_limiter_take(old, 1, NULL));
    CHECK(weir_registry_remove(registry, "api"));
    CHECK(!weir_registry_remove(registry, "api"));
    CHECK(weir_registry_find(registry, "api") == NULL);
    CHECK_EQ(weir_registry_count(registry), 0);
    CHECK(!weir_limiter_take(old, 1, NULL));
    add(registry, "api", "2/s");
    CHECK_STR(limits_of(registry, "api"), "2/s");
    CHECK_STR(text_of(old), "1/d");
    weir_limiter_free(old);
    weir_registry_free(registry);
}

TEST(a_replaced_limiter_lives_on_and_the_new_one_begins_anew)
{
    struct weir_registry *registry = open_registry();
    struct weir_error err = {.code = 1};
    struct weir_limiter *old = weir_registry_limiter(registry, "api", "1/d", NULL);
    CHECK(weir_limiter_drain(old) == 1);
    CHECK(weir_registry_configure(registry, "fast", "9/s", NULL));
    CHECK(weir_registry_replace(registry, "api", "fast", &err));
    CHECK_EQ(err.code, 0);
    CHECK_STR(limits_of(registry, "api"), "9/s");
    CHECK_STR(text_of(old), "1/d");
    CHECK_EQ(weir_registry_count(registry), 1);
    CHECK(weir_registry_replace(registry, "api", "1/d", NULL));
    struct weir_limiter *fresh = weir_registry_find(registry, "api");
    CHECK(fresh != old);
    CHECK_EQ(weir_limiter_drain(fresh), 1);
    CHECK(weir_registry_replace(registry, "api", NULL, NULL));
    CHECK_STR(limits_of(registry, "api"), "10/s");
    weir_limiter_free(fresh);
    weir_limiter_free(old);
    weir_registry_free(registry);
}

TEST(a_registry_holds_thousands)
{
    struct weir_registry *registry = open_registry();
    char name[32];
    for (int i = 0; i < 3000; i++) {
        (void)snprintf(name, sizeof name, "limiter %d", i);
        add(registry, name, NULL);
    }
    CHECK_EQ(weir_registry_count(registry), 3000);
    for (int i = 0; i < 3000; i += 2) {
        (void)snprintf(name, sizeof name, "limiter %d", i);
        CHECK(weir_registry_remove(registry, name));
    }
    for (int i = 0; i < 3000; i++) {
        (void)snprintf(name, sizeof name, "limiter %d", i);
        CHECK_STR(limits_of(registry, name), i % 2 ? "10/s" : "");
    }
    CHECK_EQ(weir_registry_count(registry), 1500);
    weir_registry_free(registry);
}

/* ---- names ---- */

TEST(names_are_any_bytes)
{
    static const char *const names[] = {"\x01",     " ",       "\n",    "a/b",  "caf\xc3\xa9",
                                        "\xff\xfe", "default", "100/s", "%s%n", "\x7f\x1b[31m"};
    enum { COUNT = sizeof names / sizeof names[0] };
    struct weir_registry *registry = open_registry();
    char longest[WEIR_REGISTRY_NAME_MAX + 1] = {0};
    memset(longest, '\xee', sizeof longest - 1);
    for (size_t i = 0; i < COUNT; i++)
        add(registry, names[i], "5/s");
    add(registry, longest, "5/s");
    for (size_t i = 0; i < COUNT; i++) {
        CHECK(weir_registry_configure(registry, names[i], "3/s", NULL) == (strcmp(names[i], "default") != 0));
        CHECK(weir_registry_replace(registry, names[i], names[i], NULL));
        CHECK_STR(limits_of(registry, names[i]), strcmp(names[i], "default") == 0 ? "10/s" : "3/s");
    }
    CHECK_EQ(weir_registry_count(registry), COUNT + 1);
    for (size_t i = 0; i < COUNT; i++)
        CHECK(weir_registry_remove(registry, names[i]));
    CHECK(weir_registry_remove(registry, longest));
    weir_registry_free(registry);
}

TEST(a_name_has_1_to_255_bytes)
{
    char longer[WEIR_REGISTRY_NAME_MAX + 2] = {0};
    memset(longer, 'x', sizeof longer - 1);
    const char *const names[] = {NULL, "", longer};
    struct weir_registry *registry = open_registry();
    for (size_t i = 0; i < 3; i++) {
        struct weir_error errors[4] = {0};
        CHECK(weir_registry_limiter(registry, names[i], NULL, &errors[0]) == NULL);
        CHECK(!weir_registry_replace(registry, names[i], NULL, &errors[1]));
        CHECK(!weir_registry_configure(registry, names[i], "1/s", &errors[2]));
        CHECK(names[i] == NULL || !weir_registry_tag(registry, names[i], "a", "b", &errors[3]));
        for (int j = 0; j < (names[i] ? 4 : 3); j++) {
            CHECK_EQ(errors[j].code, EINVAL);
            CHECK_STR(errors[j].text, "a name has 1 to 255 bytes");
        }
        CHECK(weir_registry_find(registry, names[i]) == NULL);
        CHECK(!weir_registry_remove(registry, names[i]));
        CHECK(!weir_registry_unconfigure(registry, names[i]));
        CHECK(weir_registry_limiter(registry, names[i], NULL, NULL) == NULL);
    }
    CHECK_EQ(weir_registry_count(registry), 0);
    weir_registry_free(registry);
}

TEST(without_a_registry_everything_says_no)
{
    struct weir_error err;
    const struct weir_spec spec = {.count = 1, .period_ns = 1};
    char text[8] = "old";
    CHECK(weir_registry_limiter(NULL, "a", NULL, &err) == NULL);
    CHECK_EQ(err.code, EINVAL);
    CHECK_STR(err.text, "there is no registry; weir_registry_new makes one");
    CHECK(!weir_registry_configure(NULL, "a", "1/s", NULL));
    CHECK(!weir_registry_configure_from(NULL, "a", &spec, 1, NULL));
    CHECK(!weir_registry_unconfigure(NULL, "a"));
    CHECK_EQ(weir_registry_configuration(NULL, "a", text, sizeof text), 0);
    CHECK_STR(text, "");
    CHECK(weir_registry_find(NULL, "a") == NULL);
    CHECK(!weir_registry_remove(NULL, "a"));
    CHECK(!weir_registry_replace(NULL, "a", NULL, NULL));
    CHECK(!weir_registry_each(NULL, log_limiter, NULL));
    CHECK_EQ(weir_registry_count(NULL), 0);
    CHECK(!weir_registry_tag(NULL, NULL, "a", "b", NULL));
    CHECK(!weir_registry_untag(NULL, NULL, "a"));
    CHECK_EQ(weir_registry_tag_value(NULL, NULL, "a", NULL, 0), 0);
    CHECK(!weir_registry_tags(NULL, NULL, log_tag, NULL));
    CHECK(!weir_registry_listen(NULL, log_event, NULL));
    CHECK(!weir_registry_unlisten(NULL, log_event, NULL));
    weir_registry_free(NULL);
}

/* ---- configurations ---- */

TEST(the_default_is_needed_and_has_to_be_right)
{
    struct weir_error err;
    CHECK(weir_registry_new(NULL, &err) == NULL);
    CHECK_STR(err.text, "there is no text; write a limit such as 100/s");
    CHECK(weir_registry_new("5/m brust=10", &err) == NULL);
    CHECK_EQ(err.code, EINVAL);
    CHECK_STR(err.text, "5/m brust=10: column 5: unknown option 'brust'; did you mean burst?");
}

TEST(the_default_is_reserved)
{
    struct weir_registry *registry = open_registry();
    struct weir_error err;
    char text[32];
    CHECK(!weir_registry_configure(registry, "default", "5/s", &err));
    CHECK_EQ(err.code, EINVAL);
    CHECK_STR(err.text, "'default' is the configuration given to weir_registry_new; choose another name");
    CHECK(!weir_registry_unconfigure(registry, "default"));
    CHECK_EQ(weir_registry_configuration(registry, NULL, text, sizeof text), 4);
    CHECK_STR(text, "10/s");
    CHECK_EQ(weir_registry_configuration(registry, "default", text, sizeof text), 4);
    add(registry, "a", "default");
    CHECK_STR(limits_of(registry, "a"), "10/s");
    weir_registry_free(registry);
}

TEST(a_configuration_counts_for_limiters_made_after_it)
{
    struct weir_registry *registry = open_registry();
    struct weir_error err = {.code = 1};
    char text[64];
    CHECK(weir_registry_configure(registry, "fast", "100 per second, 1000/m name=all", &err));
    CHECK_EQ(err.code, 0);
    add(registry, "a", "fast");
    CHECK(weir_registry_configure(registry, "fast", "200/s", NULL));
    add(registry, "b", "fast");
    CHECK_EQ(weir_registry_configuration(registry, "fast", text, sizeof text), 5);
    CHECK_STR(text, "200/s");
    CHECK(weir_registry_unconfigure(registry, "fast"));
    CHECK(!weir_registry_unconfigure(registry, "fast"));
    CHECK_EQ(weir_registry_configuration(registry, "fast", text, sizeof text), 0);
    CHECK_STR(text, "");
    CHECK_EQ(weir_registry_configuration(registry, "fast", NULL, 0), 0);
    CHECK_STR(limits_of(registry, "a"), "100/s, 1k/m name=all");
    CHECK_STR(limits_of(registry, "b"), "200/s");
    weir_registry_free(registry);
}

TEST(a_configuration_comes_before_limits_of_the_same_text)
{
    struct weir_registry *registry = open_registry();
    CHECK(weir_registry_configure(registry, "5/s", "7/s", NULL));
    add(registry, "a", "5/s");
    CHECK_STR(limits_of(registry, "a"), "7/s");
    add(registry, "b", "6/s");
    CHECK_STR(limits_of(registry, "b"), "6/s");
    weir_registry_free(registry);
}

static double free_of_charge(void *arg, double stored, double n)
{
    (void)arg, (void)stored, (void)n;
    return 0;
}

TEST(a_configuration_may_hold_what_text_cannot_say)
{
    struct weir_registry *registry = open_registry();
    struct weir_spec spec = {.algo = WEIR_WARMUP,
                             .shape = WEIR_SHAPE_OWN,
                             .own = free_of_charge,
                             .count = 10,
                             .period_ns = WEIR_SEC,
                             .warmup_ns = WEIR_SEC};
    struct weir_error err;
    CHECK(weir_registry_configure_from(registry, "own", &spec, 1, &err));
    CHECK_EQ(weir_registry_configuration(registry, "own", NULL, 0), 0);
    add(registry, "a", "own");
    CHECK_EQ(weir_registry_count(registry), 1);
    spec.count = 0;
    CHECK(!weir_registry_configure_from(registry, "own", &spec, 1, &err));
    CHECK_EQ(err.code, EINVAL);
    CHECK(!weir_registry_configure_from(registry, "own", &spec, 0, &err));
    CHECK_STR(err.text, "a policy has 1 to 16 limits");
    CHECK(!weir_registry_configure_from(registry, "own", NULL, 1, &err));
    CHECK_STR(err.text, "specs is NULL");
    weir_registry_free(registry);
}

TEST(a_wrong_configuration_changes_nothing)
{
    struct weir_registry *registry = open_registry();
    struct weir_error err;
    char text[32];
    CHECK(weir_registry_configure(registry, "fast", "100/s", NULL));
    CHECK(!weir_registry_configure(registry, "fast", "100", &err));
    CHECK_STR(err.text, "100: column 4: per what? write 100/s, 100/m, 100/h or 100/d");
    CHECK_EQ(weir_registry_configuration(registry, "fast", text, sizeof text), 5);
    weir_registry_free(registry);
}

TEST(an_unknown_configuration_is_named_and_so_is_what_is_wrong_with_the_limits)
{
    struct weir_registry *registry = open_registry();
    struct weir_error err;
    char longer[1000] = {0};
    CHECK(weir_registry_limiter(registry, "a", "5/m brust=10", &err) == NULL);
    CHECK_EQ(err.code, EINVAL);
    CHECK_EQ(err.column, 5);
    CHECK_STR(err.text,
              "5/m brust=10: column 5: no configuration has this name, and as limits: unknown option "
              "'brust'; did you mean burst?");
    CHECK(!weir_registry_replace(registry, "a", "f\nast", &err));
    CHECK(strncmp(err.text, "f ast: column 1: no configuration has this name, and as limits: ", 64) == 0);
    memset(longer, '9', sizeof longer - 1);
    CHECK(weir_registry_limiter(registry, "a", longer, &err) == NULL);
    CHECK_EQ(err.code, EINVAL);
    CHECK(weir_registry_limiter(registry, "a", "", NULL) == NULL);
    CHECK_EQ(weir_registry_count(registry), 0);
    weir_registry_free(registry);
}

TEST(what_is_not_there_cannot_be_replaced)
{
    struct weir_registry *registry = open_registry();
    struct weir_error err;
    CHECK(!weir_registry_replace(registry, "a\x01", "5/s", &err));
    CHECK_EQ(err.code, ENOENT);
    CHECK_STR(err.text, "a?: no limiter has this name; weir_registry_limiter makes one");
    CHECK_EQ(weir_registry_count(registry), 0);
    weir_registry_free(registry);
}

TEST(a_full_registry_says_so_and_still_replaces)
{
    struct weir_registry *registry = open_registry();
    struct weir_error err;
    CHECK_EQ(registry->most, WEIR_REGISTRY_MAX);
    registry->most = 2; /* "default" is one of the configurations */
    add(registry, "a", NULL);
    add(registry, "b", NULL);
    CHECK(weir_registry_limiter(registry, "c", NULL, &err) == NULL);
    CHECK_EQ(err.code, ENOSPC);
    CHECK_STR(err.text, "the registry is full of limiters; remove some");
    CHECK(weir_registry_replace(registry, "b", "5/s", NULL));
    add(registry, "b", NULL);
    CHECK(weir_registry_configure(registry, "x", "1/s", NULL));
    CHECK(!weir_registry_configure(registry, "y", "1/s", &err));
    CHECK_EQ(err.code, ENOSPC);
    CHECK_STR(err.text, "the registry is full of configurations; remove some");
    CHECK(weir_registry_configure(registry, "x", "2/s", NULL));
    CHECK(weir_registry_remove(registry, "a"));
    add(registry, "c", "x");
    CHECK_EQ(weir_registry_count(registry), 2);
    weir_registry_free(registry);
}

/* ---- all of them ---- */

static bool stop_at_b(void *arg, const char *name, struct weir_limiter *limiter)
{
    (void)log_limiter(arg, name, limiter);
    return strcmp(name, "b") != 0;
}

/* Takes away what is shown and everything behind it, and adds something. */
static bool change_all(void *arg, const char *name, struct weir_limiter *limiter)
{
    struct weir_registry *registry = arg;
    (void)weir_registry_remove(registry, name);
    (void)weir_registry_remove(registry, "c");
    add(registry, "new", "3/s");
    CHECK(weir_limiter_take(limiter, 1, NULL)); /* still valid */
    return log_limiter(NULL, name, limiter);
}

TEST(all_are_shown_in_the_order_of_their_names)
{
    struct weir_registry *registry = open_registry();
    log_clear();
    CHECK(weir_registry_each(registry, log_limiter, NULL));
    CHECK_STR(log_text, "");
    add(registry, "c", "3/s");
    add(registry, "\xc3\xa9", "9/s");
    add(registry, "a", "1/s");
    add(registry, "b", "2/s");
    CHECK(weir_registry_each(registry, log_limiter, NULL));
    CHECK_STR(log_text, "a=1/s; b=2/s; c=3/s; \xc3\xa9=9/s; ");
    log_clear();
    CHECK(!weir_registry_each(registry, stop_at_b, NULL));
    CHECK_STR(log_text, "a=1/s; b=2/s; ");
    CHECK(!weir_registry_each(registry, NULL, NULL));
    log_clear();
    CHECK(weir_registry_each(registry, change_all, registry)); /* shows what was there when it began */
    CHECK_STR(log_text, "a=1/s; b=2/s; c=3/s; \xc3\xa9=9/s; ");
    CHECK_EQ(weir_registry_count(registry), 1);
    weir_registry_free(registry);
}

/* ---- tags ---- */

TEST(tags_are_inherited_and_a_limiters_own_count)
{
    struct weir_registry *registry = open_registry();
    struct weir_error err = {.code = 1};
    char value[8];
    add(registry, "a", NULL);
    CHECK_STR(tags_of(registry, "a"), "");
    CHECK(weir_registry_tag(registry, NULL, "zone", "eu", &err));
    CHECK_EQ(err.code, 0);
    CHECK(weir_registry_tag(registry, NULL, "app", "shop", NULL));
    CHECK(weir_registry_tag(registry, "a", "zone", "us", NULL));
    CHECK(weir_registry_tag(registry, "a", "kind", "call", NULL));
    CHECK(weir_registry_tag(registry, "a", "kind", "job", NULL));
    CHECK_STR(tags_of(registry, "a"), "app=shop; kind=job; zone=us; ");
    CHECK_STR(tags_of(registry, NULL), "app=shop; zone=eu; ");
    CHECK_EQ(weir_registry_tag_value(registry, "a", "zone", value, sizeof value), 2);
    CHECK_STR(value, "us");
    CHECK_EQ(weir_registry_tag_value(registry, "a", "app", value, 3), 4); /* as snprintf does */
    CHECK_STR(value, "sh");
    CHECK_EQ(weir_registry_tag_value(registry, NULL, "zone", value, sizeof value), 2);
    CHECK_STR(value, "eu");
    CHECK_EQ(weir_registry_tag_value(registry, NULL, "kind", value, sizeof value), 0);
    CHECK_STR(value, "");
    CHECK(weir_registry_untag(registry, "a", "zone"));
    CHECK(!weir_registry_untag(registry, "a", "zone")); /* what it inherits is not its own */
    CHECK_STR(tags_of(registry, "a"), "app=shop; kind=job; zone=eu; ");
    weir_registry_free(registry);
}

TEST(tags_stay_when_a_limiter_is_replaced_and_go_when_it_is_removed)
{
    struct weir_registry *registry = open_registry();
    add(registry, "a", NULL);
    CHECK(weir_registry_tag(registry, "a", "k", "v", NULL));
    CHECK(weir_registry_replace(registry, "a", "5/s", NULL));
    CHECK_STR(tags_of(registry, "a"), "k=v; ");
    CHECK(weir_registry_remove(registry, "a"));
    CHECK(!weir_registry_tags(registry, "a", log_tag, NULL));
    add(registry, "a", NULL);
    CHECK_STR(tags_of(registry, "a"), "");
    weir_registry_free(registry);
}

TEST(tags_have_their_limits)
{
    struct weir_registry *registry = open_registry();
    struct weir_error err;
    char text[WEIR_TAG_MAX + 2] = {0}, key[16];
    memset(text, '\xff', WEIR_TAG_MAX);
    CHECK(weir_registry_tag(registry, NULL, text, text, NULL));
    CHECK_EQ(weir_registry_tag_value(registry, NULL, text, NULL, 0), WEIR_TAG_MAX);
    text[WEIR_TAG_MAX] = 'x';
    const char *const wrong[] = {NULL, "", text};
    for (size_t i = 0; i < 3; i++) {
        CHECK(!weir_registry_tag(registry, NULL, "k", wrong[i], &err));
        CHECK_EQ(err.code, EINVAL);
        CHECK(!weir_registry_tag(registry, NULL, wrong[i], "v", &err));
        CHECK_STR(err.text, "key and value of a tag have 1 to 255 bytes; weir_registry_untag removes one");
        CHECK(!weir_registry_untag(registry, NULL, wrong[i]));
        CHECK_EQ(weir_registry_tag_value(registry, NULL, wrong[i], NULL, 0), 0);
    }
    for (int i = 1; i < WEIR_TAGS_MAX; i++) {
        (void)snprintf(key, sizeof key, "key %d", i);
        CHECK(weir_registry_tag(registry, NULL, key, "v", NULL));
    }
    CHECK(!weir_registry_tag(registry, NULL, "one more", "v", &err));
    CHECK_EQ(err.code, ENOSPC);
    CHECK_STR(err.text, "there are 32 tags already; remove one with weir_registry_untag");
    CHECK(weir_registry_tag(registry, NULL, "key 7", "other", NULL));
    CHECK(weir_registry_untag(registry, NULL, "key 8"));
    CHECK(weir_registry_tag(registry, NULL, "one more", "v", NULL));
    CHECK(!weir_registry_tag(registry, "nobody", "k", "v", &err));
    CHECK_EQ(err.code, ENOENT);
    CHECK_STR(err.text, "nobody: no limiter has this name; weir_registry_limiter makes one");
    CHECK(!weir_registry_untag(registry, "nobody", "k"));
    CHECK_EQ(weir_registry_tag_value(registry, "nobody", "key 7", NULL, 0), 0);
    CHECK(!weir_registry_tags(registry, NULL, NULL, NULL));
    weir_registry_free(registry);
}

static bool untag_and_stop(void *arg, const char *key, const char *value)
{
    struct weir_registry *registry = arg;
    CHECK(weir_registry_untag(registry, NULL, key));
    (void)log_tag(NULL, key, value); /* still valid */
    return strcmp(key, "b") != 0;
}

TEST(the_callback_may_change_the_tags_it_is_shown)
{
    struct weir_registry *registry = open_registry();
    CHECK(weir_registry_tag(registry, NULL, "c", "3", NULL));
    CHECK(weir_registry_tag(registry, NULL, "b", "2", NULL));
    CHECK(weir_registry_tag(registry, NULL, "a", "1", NULL));
    log_clear();
    CHECK(!weir_registry_tags(registry, NULL, untag_and_stop, registry));
    CHECK_STR(log_text, "a=1; b=2; ");
    CHECK_STR(tags_of(registry, NULL), "c=3; ");
    weir_registry_free(registry);
}

/* ---- events ---- */

TEST(listeners_hear_what_comes_goes_and_is_replaced)
{
    struct weir_registry *registry = open_registry();
    log_clear();
    CHECK(weir_registry_listen(registry, log_event, NULL));
    CHECK(!weir_registry_listen(registry, log_event, NULL));
    CHECK(!weir_registry_listen(registry, NULL, NULL));
    add(registry, "a", "1/s");
    add(registry, "a", "2/s");
    CHECK(weir_registry_replace(registry, "a", "3/s", NULL));
    CHECK(!weir_registry_replace(registry, "b", "3/s", NULL));
    CHECK(weir_registry_remove(registry, "a"));
    CHECK(!weir_registry_remove(registry, "a"));
    CHECK_STR(log_text, "added a 1/s; replaced a 3/s; removed a 3/s; ");
    CHECK(weir_registry_unlisten(registry, log_event, NULL));
    CHECK(!weir_registry_unlisten(registry, log_event, NULL));
    add(registry, "b", NULL);
    CHECK(weir_registry_listen(registry, log_event, NULL));
    weir_registry_free(registry);
    CHECK_STR(log_text, "added a 1/s; replaced a 3/s; removed a 3/s; ");
}

static void keep_time(void *arg, const struct weir_event *event)
{
    *(int64_t *)arg = event->time_ns;
}

TEST(events_have_the_time_of_the_clock)
{
    struct weir_registry *registry = open_registry();
    int64_t time_ns = 0;
    CHECK(weir_registry_listen(registry, keep_time, &time_ns));
    weir_clock_set(5 * WEIR_SEC);
    add(registry, "a", NULL);
    weir_clock_set(-1);
    CHECK_EQ(time_ns, 5 * WEIR_SEC);
    weir_registry_free(registry);
}

/* A listener that does everything a listener may do; it is told of itself until there are three. */
static void meddle(void *arg, const struct weir_event *event)
{
    struct weir_registry *registry = arg;
    char next[8];
    log_event(NULL, event);
    if (event->kind != WEIR_EVENT_ADDED)
        return;
    CHECK(weir_limiter_listen(event->limiter, log_event, NULL));
    CHECK(weir_limiter_take(event->limiter, 1, NULL));
    CHECK(weir_registry_tag(registry, event->name, "seen", "yes", NULL));
    if (weir_registry_count(registry) < 3) {
        (void)snprintf(next, sizeof next, "%s+", event->name);
        add(registry, next, NULL);
        CHECK(weir_registry_replace(registry, event->name, "7/s", NULL));
    } else {
        CHECK(weir_registry_unlisten(registry, meddle, registry));
        CHECK(weir_registry_remove(registry, event->name));
        CHECK(weir_limiter_take(event->limiter, 1, NULL)); /* its name outlives the place */
    }
}

TEST(a_listener_may_call_back_into_registry_and_limiter)
{
    struct weir_registry *registry = open_registry();
    log_clear();
    CHECK(weir_registry_listen(registry, meddle, registry));
    add(registry, "a", NULL);
    CHECK_STR(log_text, "added a 10/s; success a 10/s; added a+ 10/s; success a+ 10/s; "
                        "added a++ 10/s; success a++ 10/s; success a++ 10/s; ");
    CHECK_EQ(weir_registry_count(registry), 2);
    CHECK_STR(limits_of(registry, "a"), "7/s");
    CHECK_STR(tags_of(registry, "a+"), "seen=yes; ");
    weir_registry_free(registry);
}

/* ---- want of memory ---- */

static bool try_new(struct weir_registry *unused, struct weir_error *err)
{
    (void)unused;
    struct weir_registry *registry = weir_registry_new("10/s", err);
    weir_registry_free(registry);
    return registry != NULL;
}

static bool try_configure(struct weir_registry *registry, struct weir_error *err)
{
    return weir_registry_configure(registry, "fast", "5/s", err);
}

static bool try_limiter(struct weir_registry *registry, struct weir_error *err)
{
    struct weir_limiter *limiter = weir_registry_limiter(registry, "b", "5/s algo=hybrid", err);
    weir_limiter_free(limiter);
    return limiter != NULL;
}

static bool try_replace(struct weir_registry *registry, struct weir_error *err)
{
    return weir_registry_replace(registry, "a", "5/s, 7/m", err);
}

static bool try_tag(struct weir_registry *registry, struct weir_error *err)
{
    return weir_registry_tag(registry, "a", "k", "v", err);
}

static bool try_each(struct weir_registry *registry, struct weir_error *err)
{
    bool done = weir_registry_each(registry, log_limiter, NULL);
    err->code = done ? 0 : ENOMEM;
    CHECK(done || log_text[0] == '\0');
    return done;
}

static bool try_listen(struct weir_registry *registry, struct weir_error *err)
{
    bool done = weir_registry_listen(registry, log_event, NULL);
    err->code = done ? 0 : ENOMEM;
    return done;
}

TEST(without_memory_nothing_happens_and_nothing_is_lost)
{
    static bool (*const tries[])(struct weir_registry *, struct weir_error *) = {
        try_new, try_configure, try_limiter, try_replace, try_tag, try_each, try_listen};
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        struct weir_registry *registry = open_registry();
        add(registry, "a", "1/s");
        bool done = false;
        for (int64_t memory = 0; !done && memory < 100; memory++) {
            struct weir_error err = {0};
            log_clear();
            allow(memory);
            done = tries[i](registry, &err);
            CHECK_EQ(was_short(), !done);
            CHECK_EQ(err.code, done ? 0 : ENOMEM);
            if (done) {
                CHECK(memory > 0);
                continue;
            }
            CHECK_EQ(weir_registry_count(registry), 1);
            CHECK_STR(limits_of(registry, "a"), "1/s");
            CHECK_EQ(weir_registry_configuration(registry, "fast", NULL, 0), 0);
            CHECK_STR(tags_of(registry, "a"), "");
        }
        CHECK(done);
        weir_registry_free(registry);
    }
}
