/* SPDX-License-Identifier: MIT */
/*
 * Listeners: who is told, in which order, and what a listener may do while it is told. The program is linked
 * with --wrap=malloc, so that memory can run out.
 */
#include "limiter/listeners.h"

#include <pthread.h>
#include <stdlib.h>

#include "check.h"

/* ---- memory that runs out ---- */

static _Thread_local bool out_of_memory;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return out_of_memory ? NULL : __real_malloc(size);
}

/* ---- listeners that write down what they hear ---- */

static char heard[64]; /* a letter for each event that somebody was told of */
static size_t heard_count;

static void hear(void *arg, const struct weir_event *event)
{
    (void)event;
    if (heard_count < sizeof heard - 1)
        heard[heard_count++] = *(const char *)arg;
}

static const char *tell(struct listeners *listeners)
{
    struct weir_event event = {.kind = WEIR_EVENT_SUCCESS, .n = 1, .name = ""};
    memset(heard, 0, sizeof heard);
    heard_count = 0;
    weir_listeners_notify(listeners, &event);
    return heard;
}

static char a[] = "a", b[] = "b", c[] = "c";

/* ---- one thread ---- */

TEST(nobody_listens_at_first_and_in_the_end)
{
    struct listeners listeners = {0};
    CHECK(!listeners_any(&listeners));
    CHECK_STR(tell(&listeners), "");
    CHECK(weir_listeners_add(&listeners, hear, a));
    CHECK(listeners_any(&listeners));
    CHECK(weir_listeners_remove(&listeners, hear, a));
    CHECK(!listeners_any(&listeners));
    CHECK_STR(tell(&listeners), "");
    weir_listeners_end(&listeners);
}

TEST(they_are_told_in_the_order_of_adding)
{
    struct listeners listeners = {0};
    CHECK(weir_listeners_add(&listeners, hear, b));
    CHECK(weir_listeners_add(&listeners, hear, c));
    CHECK(weir_listeners_add(&listeners, hear, a));
    CHECK_STR(tell(&listeners), "bca");
    CHECK(weir_listeners_remove(&listeners, hear, c));
    CHECK_STR(tell(&listeners), "ba");
    CHECK(weir_listeners_add(&listeners, hear, c));
    CHECK_STR(tell(&listeners), "bac");
    weir_listeners_end(&listeners);
    CHECK(!listeners_any(&listeners));
}

static void ignore(void *arg, const struct weir_event *event)
{
    (void)arg, (void)event;
}

TEST(a_pair_of_function_and_argument_listens_once)
{
    struct listeners listeners = {0};
    CHECK(weir_listeners_add(&listeners, hear, a));
    CHECK(!weir_listeners_add(&listeners, hear, a));
    CHECK(weir_listeners_add(&listeners, hear, b));
    CHECK(weir_listeners_add(&listeners, ignore, a));
    CHECK_STR(tell(&listeners), "ab");
    CHECK(weir_listeners_remove(&listeners, hear, a));
    CHECK(!weir_listeners_remove(&listeners, hear, a));
    CHECK_STR(tell(&listeners), "b");
    CHECK(weir_listeners_add(&listeners, hear, a));
    CHECK_STR(tell(&listeners), "ba");
    weir_listeners_end(&listeners);
}

TEST(no_function_is_no_listener)
{
    struct listeners listeners = {0};
    CHECK(!weir_listeners_add(&listeners, NULL, a));
    CHECK(!weir_listeners_remove(&listeners, NULL, a));
    CHECK(weir_listeners_add(&listeners, hear, a));
    CHECK(weir_listeners_add(&listeners, hear, b));
    CHECK(weir_listeners_remove(&listeners, hear, a));
    CHECK(!weir_listeners_remove(&listeners, NULL, a)); /* the entry that is struck out */
    CHECK_STR(tell(&listeners), "b");
    weir_listeners_end(&listeners);
}

/* What a listener does when it is told; all of it once. */
struct table_op {
    char letter;
    struct listeners *listeners;
    void *add, *remove; /* letters of hear */
    bool remove_itself, end;
    int events; /* further ones that it causes */
};

static void act(void *arg, const struct weir_event *event)
{
    struct table_op *op = arg;
    hear(&op->letter, event);
    if (op->add)
        CHECK(weir_listeners_add(op->listeners, hear, op->add));
    if (op->remove)
        CHECK(weir_listeners_remove(op->listeners, hear, op->remove));
    if (op->remove_itself)
        CHECK(weir_listeners_remove(op->listeners, act, op));
    if (op->end)
        weir_listeners_end(op->listeners);
    op->add = op->remove = NULL;
    if (op->events-- > 0)
        weir_listeners_notify(op->listeners, event);
}

TEST(who_is_added_meanwhile_hears_the_next_event)
{
    struct listeners listeners = {0};
    struct table_op op = {.letter = 'x', .listeners = &listeners, .add = b};
    CHECK(weir_listeners_add(&listeners, act, &op));
    CHECK(weir_listeners_add(&listeners, hear, a));
    CHECK_STR(tell(&listeners), "xa");
    CHECK_STR(tell(&listeners), "xab");
    weir_listeners_end(&listeners);
}

TEST(who_is_removed_meanwhile_hears_no_more)
{
    struct listeners listeners = {0};
    struct table_op op = {.letter = 'x', .listeners = &listeners, .remove = b};
    CHECK(weir_listeners_add(&listeners, hear, a));
    CHECK(weir_listeners_add(&listeners, act, &op));
    CHECK(weir_listeners_add(&listeners, hear, b));
    CHECK(weir_listeners_add(&listeners, hear, c));
    CHECK_STR(tell(&listeners), "axc");
    CHECK_STR(tell(&listeners), "axc");
    weir_listeners_end(&listeners);
}

TEST(a_listener_may_remove_itself)
{
    struct listeners listeners = {0};
    struct table_op op = {.letter = 'x', .listeners = &listeners, .remove_itself = true};
    CHECK(weir_listeners_add(&listeners, act, &op));
    CHECK_STR(tell(&listeners), "x");
    CHECK(!listeners_any(&listeners));
    CHECK(weir_listeners_add(&listeners, act, &op));
    CHECK(weir_listeners_add(&listeners, hear, a));
    CHECK_STR(tell(&listeners), "xa");
    CHECK_STR(tell(&listeners), "a");
    weir_listeners_end(&listeners);
}

TEST(events_caused_by_a_listener_are_told_in_turn)
{
    struct listeners listeners = {0};
    struct table_op op = {.letter = 'x', .listeners = &listeners, .events = 3};
    CHECK(weir_listeners_add(&listeners, act, &op));
    CHECK(weir_listeners_add(&listeners, hear, a));
    CHECK_STR(tell(&listeners), "xxxxaaaa");
    weir_listeners_end(&listeners);
}

TEST(a_list_that_is_being_told_outlives_its_owner)
{
    struct listeners *listeners = calloc(1, sizeof *listeners);
    if (!CHECK(listeners != NULL))
        return;
    struct table_op op = {.letter = 'x', .listeners = listeners, .end = true};
    CHECK(weir_listeners_add(listeners, act, &op));
    CHECK(weir_listeners_add(listeners, hear, a));
    CHECK_STR(tell(listeners), "xa");
    CHECK_STR(tell(listeners), "");
    free(listeners);
}

TEST(without_memory_nobody_is_added_but_anybody_removed)
{
    struct listeners listeners = {0};
    out_of_memory = true;
    CHECK(!weir_listeners_add(&listeners, hear, a));
    CHECK(!listeners_any(&listeners));
    out_of_memory = false;
    CHECK(weir_listeners_add(&listeners, hear, a));
    CHECK(weir_listeners_add(&listeners, hear, b));
    out_of_memory = true;
    CHECK(!weir_listeners_add(&listeners, hear, c));
    CHECK_STR(tell(&listeners), "ab");
    CHECK(weir_listeners_remove(&listeners, hear, a));
    CHECK_STR(tell(&listeners), "b");
    CHECK(weir_listeners_remove(&listeners, hear, b));
    CHECK(!listeners_any(&listeners));
    out_of_memory = false;
    weir_listeners_end(&listeners);
}

/* ---- many threads ---- */

enum { THREADS = 8, STEPS = 20000 };

struct party {
    struct listeners *listeners;
    uint64_t stream;
    int64_t own, of_others; /* events heard; `own` by this thread alone */
    int64_t told;           /* own events told while it listened */
    pthread_t thread;
};

static _Thread_local struct party *this_party;
static atomic_int_fast64_t told_by_all, heard_by_stayer;

static void hear_for_party(void *arg, const struct weir_event *event)
{
    struct party *party = arg;
    (void)event;
    if (party == this_party)
        party->own++;
    else
        __atomic_fetch_add(&party->of_others, 1, __ATOMIC_RELAXED);
}

static void hear_for_stayer(void *arg, const struct weir_event *event)
{
    (void)arg, (void)event;
    atomic_fetch_add(&heard_by_stayer, 1);
}

static void *join_in(void *arg)
{
    struct party *party = arg;
    struct rng rng = rng_new(party->stream);
    struct weir_event event = {.name = ""};
    bool listens = false;
    long wrong = 0;
    this_party = party;
    for (int i = 0; i < STEPS; i++) {
        if (rng_between(&rng, 0, 2) == 0) {
            wrong += !(listens ? weir_listeners_remove : weir_listeners_add)(party->listeners, hear_for_party,
                                                                             party);
            listens = !listens;
        } else {
            weir_listeners_notify(party->listeners, &event);
            atomic_fetch_add(&told_by_all, 1);
            party->told += listens;
        }
    }
    if (listens)
        wrong += !weir_listeners_remove(party->listeners, hear_for_party, party);
    return (void *)(intptr_t)wrong;
}

TEST(each_thread_hears_its_own_events_exactly_while_it_listens)
{
    struct listeners listeners = {0};
    static struct party parties[THREADS];
    CHECK(weir_listeners_add(&listeners, hear_for_stayer, NULL));
    for (int i = 0; i < THREADS; i++) {
        parties[i] = (struct party){.listeners = &listeners, .stream = 100 + (uint64_t)i};
        CHECK_EQ(pthread_create(&parties[i].thread, NULL, join_in, &parties[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        CHECK_EQ(pthread_join(parties[i].thread, &wrong), 0);
        CHECK_EQ((intptr_t)wrong, 0);
        CHECK_EQ(parties[i].own, parties[i].told);
    }
    CHECK_EQ(heard_by_stayer, told_by_all);
    CHECK(weir_listeners_remove(&listeners, hear_for_stayer, NULL));
    CHECK(!listeners_any(&listeners));
    weir_listeners_end(&listeners);
}
