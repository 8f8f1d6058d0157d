/* SPDX-License-Identifier: MIT */
/*
 * Heavy hitters: what is sampled, counted, forgotten and told, and what a dead or a mad process can leave
 * behind. The program is linked with --wrap=getrandom, so that the sample is the same in every run of a seed.
 */
#define _DEFAULT_SOURCE
#include "table/top.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static _Atomic uint64_t drawn; /* so many times */
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags);

ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags)
{
    (void)flags;
    struct rng rng = rng_new(1000 + atomic_fetch_add(&drawn, 1));
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)rng_next(&rng);
    return (ssize_t)size;
}

/* ---- a table that is nothing but a list ---- */

static struct region_header header = {.key = {3, 4}};
static struct region region = {.header = &header};
static struct weir_table table = {.region = &region};

enum { KEYS = 100000, PLACES = TOP_SETS * TOP_WAYS };

static char names[KEYS][16];
static struct key keys[KEYS];
static const int64_t now = 630 * WEIR_SEC; /* half past a minute */

static struct key key_of(const void *bytes, size_t len)
{
    return (struct key){.bytes = bytes, .len = len, .hash = table_hash(&table, bytes, len)};
}

/* An empty list, shared with children. */
static void begin(void)
{
    for (size_t i = 0; !keys[0].bytes && i < KEYS; i++)
        (void)snprintf(names[i], sizeof names[i], "user-%zu", i);
    for (size_t i = 0; i < KEYS; i++)
        keys[i] = key_of(names[i], strlen(names[i]));
    table.top = mmap(NULL, weir_top_size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(table.top != MAP_FAILED);
    weir_table_sample(&table, &keys[0], 0, true, now); /* from now on each of these counts */
}

static void end(void)
{
    CHECK_EQ(munmap(table.top, weir_top_size()), 0);
    table.top = NULL;
}

static size_t top_at(enum weir_top by, int64_t time, struct weir_top_key *found)
{
    return weir_top_read(&table, by, time, found, PLACES);
}

/* Units that are told of a key; 0 if it is not told at all. */
static int64_t units_of(const struct key *key, enum weir_top by, int64_t time)
{
    struct weir_top_key found[PLACES];
    size_t count = top_at(by, time, found);
    for (size_t i = 0; i < count; i++)
        if (found[i].id == key->hash)
            return found[i].units;
    return 0;
}

static int64_t root(int64_t x)
{
    int64_t r = 0;
    while (r * r < x)
        r++;
    return r;
}

/* Five deviations of a count that was sampled. */
static int64_t noise(int64_t units)
{
    return 5 * TOP_SAMPLE * root(units / TOP_SAMPLE + 1);
}

static void check_near(int64_t got, int64_t want)
{
    if (!CHECK(got >= want - noise(want) && got <= want + noise(want)))
        printf("# %" PRId64 ", not about %" PRId64 "\n", got, want);
}

/* ---- the sample ---- */

static void *call_once(void *arg)
{
    table_sample_call(&table, arg, 1, true, now);
    return NULL;
}

TEST(threads_that_call_once_count_once)
{
    enum { THREADS = 1600 };
    begin();
    for (size_t i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (!CHECK_EQ(pthread_create(&thread, NULL, call_once, &keys[7]), 0))
            break;
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    check_near(units_of(&keys[7], WEIR_TOP_TAKEN, now), THREADS);
    end();
}

/* As many keys in turn as calls to a sample: with a fixed step one of them would be all there is. */
TEST(traffic_in_step_with_the_sample_is_counted_right)
{
    enum { ROUNDS = 20000 };
    begin();
    for (size_t i = 0; i < (size_t)ROUNDS * TOP_SAMPLE; i++)
        table_sample_call(&table, &keys[i % TOP_SAMPLE], 1, i % 2, now);
    for (size_t i = 0; i < TOP_SAMPLE; i++) {
        check_near(units_of(&keys[i], WEIR_TOP_TAKEN, now), i % 2 ? ROUNDS : 0);
        check_near(units_of(&keys[i], WEIR_TOP_REFUSED, now), i % 2 ? 0 : ROUNDS);
    }
    end();
}

/* Few calls, very many, and few again; all within a minute. */
static void *call_at_all_speeds(void *arg)
{
    int64_t at = *(int64_t *)arg;
    weir_top_begin();
    for (int i = 0; i < 500; i++, at += WEIR_MS)
        table_sample_call(&table, &keys[1], 1, true, at);
    for (int i = 0; i < 1000000; i++, at += 100)
        table_sample_call(&table, &keys[2 + i % 2], 1, true, at);
    for (int i = 0; i < 20000; i++, at += WEIR_MS)
        table_sample_call(&table, &keys[4], 1, true, at);
    for (int i = 0; i < 100; i++, at += WEIR_MS)
        table_sample_call(&table, &keys[5], 1, true, at);
    *(int64_t *)arg = at;
    return NULL;
}

TEST(few_calls_are_counted_exactly_and_many_nearly)
{
    int64_t at = 600 * WEIR_SEC;
    pthread_t thread;
    begin();
    if (CHECK_EQ(pthread_create(&thread, NULL, call_at_all_speeds, &at), 0))
        CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK(at < 660 * WEIR_SEC);
    CHECK_EQ(units_of(&keys[1], WEIR_TOP_TAKEN, at), 500);
    check_near(units_of(&keys[2], WEIR_TOP_TAKEN, at), 500000);
    check_near(units_of(&keys[3], WEIR_TOP_TAKEN, at), 500000);
    check_near(units_of(&keys[4], WEIR_TOP_TAKEN, at), 20000);
    CHECK_EQ(units_of(&keys[5], WEIR_TOP_TAKEN, at), 100);
    end();
}

TEST(without_a_list_nothing_is_counted_or_told)
{
    struct weir_top_key found[2];
    begin();
    weir_table_sample(&table, &keys[1], 1, true, now);
    CHECK_EQ(weir_top_read(&table, WEIR_TOP_TAKEN, now, found, 2), 1);
    CHECK_EQ(weir_top_read(&table, (enum weir_top)2, now, found, 2), 0);
    CHECK_EQ(weir_table_top(&table, WEIR_TOP_TAKEN, NULL, 2), 0);
    CHECK_EQ(weir_table_top(&table, WEIR_TOP_TAKEN, found, 0), 0);
    CHECK_EQ(weir_table_top(NULL, WEIR_TOP_TAKEN, found, 2), 0);
    end();
    for (size_t i = 0; i < (size_t)10 * TOP_SAMPLE; i++)
        table_sample_call(&table, &keys[1], 1, true, now);
    CHECK(weir_top_countdown < 2 * TOP_SAMPLE);
    CHECK_EQ(weir_top_read(&table, WEIR_TOP_TAKEN, now, found, 2), 0);
}

/* ---- accuracy ---- */

static uint32_t calls_of[KEYS];
static double shares[KEYS]; /* of this key and all before it, 1 / rank each */

static size_t draw_zipf(struct rng *rng)
{
    double x = (double)(rng_next(rng) >> 11) / 9007199254740992.0 * shares[KEYS - 1];
    size_t low = 0, high = KEYS - 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (shares[middle] > x)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

TEST(the_first_ten_of_skewed_traffic_are_found_in_order)
{
    enum { CALLS = 2000000, FIRST = 10 };
    struct rng rng = rng_new(2);
    struct weir_top_key found[FIRST];
    begin();
    memset(calls_of, 0, sizeof calls_of);
    for (size_t i = 0; i < KEYS; i++)
        shares[i] = 1.0 / (double)(i + 1) + (i ? shares[i - 1] : 0);
    for (size_t i = 0; i < CALLS; i++) {
        size_t key = draw_zipf(&rng);
        calls_of[key]++;
        table_sample_call(&table, &keys[key], 1, true, now);
    }
    CHECK_EQ(weir_top_read(&table, WEIR_TOP_TAKEN, now, found, FIRST), FIRST);
    int64_t before = INT64_MAX;
    for (size_t i = 0; i < FIRST; i++) {
        size_t key = strtoull(found[i].name + strlen("user-"), NULL, 10);
        if (!CHECK(key < KEYS && keys[key].hash == found[i].id))
            break;
        check_near(found[i].units, calls_of[key]);
        CHECK(calls_of[i] < calls_of[key] + noise(calls_of[key])); /* the i-th of all is not much larger */
        CHECK(found[i].units <= before);
        before = found[i].units;
    }
    for (size_t i = 0; i < 3; i++)
        CHECK(found[i].id == keys[i].hash);
    end();
}

/* One key of 50 calls, and 49 that come once. */
TEST(keys_that_come_once_neither_push_out_a_large_one_nor_look_large)
{
    struct weir_top_key found[PLACES];
    begin();
    for (size_t i = 0; i < KEYS; i++) {
        weir_table_sample(&table, &keys[i], 1, true, now);
        if (i % 50 == 0)
            weir_table_sample(&table, &keys[3], 1, true, now);
    }
    size_t count = top_at(WEIR_TOP_TAKEN, now, found);
    CHECK(count > PLACES / 2);
    CHECK(found[0].id == keys[3].hash);
    CHECK(found[0].units <= (KEYS / 50 + 1) * TOP_SAMPLE);
    CHECK(found[0].units > KEYS / 50 * TOP_SAMPLE * 3 / 4); /* it had to find its place first */
    for (size_t i = 1; i < count; i++)
        CHECK_EQ(found[i].units, TOP_SAMPLE);
    end();
}

/* Keys that nobody sees twice, 750 for each call of the one that stays: in its set alone 47 come for each of
 * its own, and there are 16 places. */
TEST(a_flood_of_keys_that_come_once_does_not_hide_a_steady_one)
{
    enum { FLOOD = 750, CALLS = 200, SECONDS = 240, BEFORE = 60, SHOWN = 10 };
    static const char once[] = "a name that is too long to be held against its hash";
    struct rng rng = rng_new(5);
    int64_t missed = 0, least = INT64_MAX, most = 0;
    begin();
    for (int64_t second = 0; second < SECONDS; second++) {
        int64_t at = now + second * WEIR_SEC;
        for (int i = 0; i < CALLS; i++) {
            for (int j = 0; j < FLOOD; j++) {
                struct key key = {.bytes = once, .len = strlen(once), .hash = rng_next(&rng)};
                table_sample_call(&table, &key, 1, false, at);
            }
            if (second >= 10) /* the others were first */
                table_sample_call(&table, &keys[3], 1, false, at);
        }
        struct weir_top_key found[SHOWN];
        size_t count = weir_top_read(&table, WEIR_TOP_REFUSED, at, found, SHOWN), place = 0;
        while (place < count && found[place].id != keys[3].hash)
            place++;
        if (second < BEFORE)
            continue;
        missed += place == count;
        least = place < count ? min64(least, found[place].units) : least;
        most = place < count ? max64(most, found[place].units) : most;
    }
    if (!CHECK_EQ(missed, 0)) /* what it takes in a minute is 12 000 */
        printf("# missed in %" PRId64 " of %d seconds\n", missed, SECONDS - BEFORE);
    CHECK(least > CALLS * 60 / 3 && most < 2 * CALLS * 60 + noise(2 * CALLS * 60));
    printf("# told %" PRId64 " to %" PRId64 " units\n", least, most);
    end();
}

TEST(units_are_counted_and_never_overflow)
{
    begin();
    weir_table_sample(&table, &keys[1], 5, true, now);
    weir_table_sample(&table, &keys[1], 6, true, now);
    weir_table_sample(&table, &keys[1], 0, true, now);
    weir_table_sample(&table, &keys[1], -7, true, now);
    CHECK_EQ(units_of(&keys[1], WEIR_TOP_TAKEN, now), 11 * TOP_SAMPLE);
    for (size_t i = 0; i < 3; i++)
        weir_table_sample(&table, &keys[2], INT64_MAX, true, now);
    CHECK_EQ(units_of(&keys[2], WEIR_TOP_TAKEN, now), INT64_MAX);
    end();
}

TEST(names_are_told_up_to_127_bytes)
{
    char long_name[130];
    struct weir_top_key found[PLACES];
    begin();
    for (size_t i = 0; i < sizeof long_name; i++)
        long_name[i] = (char)('0' + i % 10);
    for (size_t len = 126; len <= 129; len++) {
        struct key key = key_of(long_name, len);
        for (size_t i = len; i < 140; i++) /* the shorter, the more */
            weir_table_sample(&table, &key, 1, true, now);
    }
    struct key none = key_of("", 0), zeroes = key_of("a\0b", 3);
    none.bytes = NULL;
    weir_table_sample(&table, &zeroes, 2, true, now);
    weir_table_sample(&table, &none, 1, true, now);
    CHECK_EQ(top_at(WEIR_TOP_TAKEN, now, found), 6);
    for (size_t i = 0; i < 4; i++) {
        CHECK_EQ(found[i].len, 126 + i);
        CHECK_EQ(strlen(found[i].name), i == 0 ? 126 : 127);
        CHECK(memcmp(found[i].name, long_name, i == 0 ? 126 : 127) == 0);
    }
    CHECK(found[4].len == 3 && memcmp(found[4].name, "a\0b", 4) == 0);
    CHECK(found[5].len == 0 && found[5].name[0] == '\0');
    end();
}

/* ---- fading ---- */

TEST(counts_fade_by_half_every_minute)
{
    begin();
    weir_table_sample(&table, &keys[1], 8, true, now);
    for (int64_t minute = 0; minute < 12; minute++) /* as told, with nobody calling */
        CHECK_EQ(units_of(&keys[1], WEIR_TOP_TAKEN, now + minute * TOP_HALVING_NS), 8 * TOP_SAMPLE >> minute);
    CHECK_EQ(units_of(&keys[1], WEIR_TOP_TAKEN, WEIR_TIME_MAX), 0);
    weir_table_sample(&table, &keys[2], 1, true, now + 2 * TOP_HALVING_NS);
    CHECK_EQ(units_of(&keys[1], WEIR_TOP_TAKEN, now + 2 * TOP_HALVING_NS), 2 * TOP_SAMPLE);
    CHECK_EQ(units_of(&keys[2], WEIR_TOP_TAKEN, now + 2 * TOP_HALVING_NS), TOP_SAMPLE);
    weir_table_sample(&table, &keys[2], 1, true, now + 100 * TOP_HALVING_NS);
    CHECK_EQ(units_of(&keys[1], WEIR_TOP_TAKEN, now), 0);
    CHECK_EQ(units_of(&keys[2], WEIR_TOP_TAKEN, now + 100 * TOP_HALVING_NS), TOP_SAMPLE);
    end();
}

/* A key that took the place of another has an error, which fades as the rest does. */
TEST(what_was_inherited_fades_too)
{
    size_t places = 0, last = 0;
    begin();
    for (size_t i = 0; places <= TOP_WAYS; i++) {
        if (hash_to_index(keys[i].hash, TOP_SETS) != 0)
            continue;
        do /* the last one draws lots for a place */
            weir_table_sample(&table, &keys[i], 4, true, now);
        while (units_of(&keys[i], WEIR_TOP_TAKEN, now) == 0);
        places++;
        last = i;
    }
    CHECK_EQ(units_of(&keys[last], WEIR_TOP_TAKEN, now), 4 * TOP_SAMPLE);
    weir_table_sample(&table, &keys[last], 1, true, now + TOP_HALVING_NS);
    CHECK_EQ(units_of(&keys[last], WEIR_TOP_TAKEN, now + TOP_HALVING_NS), 3 * TOP_SAMPLE);
    end();
}

TEST(a_clock_that_stepped_back_ends_neither_counting_nor_fading)
{
    begin();
    weir_table_sample(&table, &keys[1], 8, true, WEIR_TIME_MAX);
    weir_table_sample(&table, &keys[1], 8, true, now);
    CHECK_EQ(units_of(&keys[1], WEIR_TOP_TAKEN, now), 16 * TOP_SAMPLE);
    weir_table_sample(&table, &keys[1], 8, true, now + TOP_HALVING_NS);
    CHECK_EQ(units_of(&keys[1], WEIR_TOP_TAKEN, now + TOP_HALVING_NS), 16 * TOP_SAMPLE);
    end();
}

TEST(a_thread_that_comes_late_into_a_new_minute_halves_nothing_twice)
{
    const int64_t turn = now / TOP_HALVING_NS * TOP_HALVING_NS;
    begin();
    weir_table_sample(&table, &keys[1], 8, true, turn);
    weir_table_sample(&table, &keys[1], 8, true, turn - 1);
    weir_table_sample(&table, &keys[1], 8, true, turn);
    CHECK_EQ(units_of(&keys[1], WEIR_TOP_TAKEN, turn), 24 * TOP_SAMPLE);
    end();
}

/* ---- threads and deaths ---- */

TEST(a_lock_is_left_to_its_holder_for_a_second)
{
    begin();
    atom64 *lock = &table.top->lists[WEIR_TOP_TAKEN].lock;
    atom_store(lock, (uint64_t)now + 1, memory_order_relaxed);
    weir_table_sample(&table, &keys[1], 1, true, now);
    weir_table_sample(&table, &keys[1], 1, true, now + TOP_HELD_NS);
    weir_table_sample(&table, &keys[1], 1, true, now - TOP_HELD_NS);
    CHECK_EQ(units_of(&keys[1], WEIR_TOP_TAKEN, now), 0);
    weir_table_sample(&table, &keys[1], 1, false, now); /* the other list has its own */
    CHECK_EQ(units_of(&keys[1], WEIR_TOP_REFUSED, now), TOP_SAMPLE);
    weir_table_sample(&table, &keys[1], 1, true, now + TOP_HELD_NS + 1);
    CHECK_EQ(atom_load(lock, memory_order_relaxed), 0);
    atom_store(lock, (uint64_t)now + 1, memory_order_relaxed);
    weir_table_sample(&table, &keys[1], 1, true, now - TOP_HELD_NS - 1);
    CHECK_EQ(atom_load(lock, memory_order_relaxed), 0);
    CHECK_EQ(units_of(&keys[1], WEIR_TOP_TAKEN, now), 2 * TOP_SAMPLE);
    end();
}

/* Names too long for a hash to prove them: the keys differ in the bytes that are told. */
enum { LONG_KEYS = 2000 };
static char long_names[LONG_KEYS][15 * 9 + 1];
static struct key long_keys[LONG_KEYS];

static void make_long_keys(void)
{
    for (size_t i = 0; i < LONG_KEYS; i++) {
        for (size_t part = 0; part < 15; part++)
            (void)snprintf(long_names[i] + 9 * part, 10, "%08u-", (unsigned)i % 100000000);
        long_keys[i] = key_of(long_names[i], strlen(long_names[i]));
    }
}

/* Whatever is told is somebody's, and no two of it the same. */
static size_t check_told(int64_t time)
{
    struct weir_top_key found[PLACES];
    size_t count = top_at(WEIR_TOP_TAKEN, time, found);
    for (size_t i = 0; i < count; i++) {
        size_t key = strtoull(found[i].name, NULL, 10);
        if (CHECK(key < LONG_KEYS && found[i].id == long_keys[key].hash))
            CHECK(memcmp(found[i].name, long_names[key], 127) == 0);
        CHECK_EQ(found[i].len, 15 * 9);
        CHECK(found[i].units > 0);
        CHECK(i == 0 || found[i].units <= found[i - 1].units);
        for (size_t j = 0; j < i; j++)
            CHECK(found[i].id != found[j].id);
    }
    return count;
}

struct caller {
    pthread_t thread;
    uint64_t stream;
    int64_t calls;
    _Atomic int *running;
};

static void *call_often(void *arg)
{
    struct caller *caller = arg;
    struct rng rng = rng_new(caller->stream);
    for (int64_t i = 0; i < caller->calls; i++) {
        size_t key = (size_t)rng_between(&rng, 0, LONG_KEYS - 1);
        table_sample_call(&table, &long_keys[i % 4 ? key : 0], 1, true, now);
    }
    atomic_fetch_sub(caller->running, 1);
    return NULL;
}

TEST(threads_count_together_while_others_read)
{
    enum { CALLS = 1000000 };
    _Atomic int running = 2;
    struct caller callers[2];
    begin();
    make_long_keys();
    for (size_t i = 0; i < 2; i++) {
        callers[i] = (struct caller){.stream = 10 + i, .calls = CALLS, .running = &running};
        CHECK_EQ(pthread_create(&callers[i].thread, NULL, call_often, &callers[i]), 0);
    }
    while (atomic_load(&running) > 0)
        (void)check_told(now);
    for (size_t i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(callers[i].thread, NULL), 0);
    CHECK(check_told(now) > 1);
    int64_t units = units_of(&long_keys[0], WEIR_TOP_TAKEN, now), want = 2 * CALLS / 4;
    CHECK(units <= want + noise(want));
    CHECK(units >= want / 4); /* some samples were left out, because the lock was taken */
    end();
}

static void sample_for_ever(atom64 *calls)
{
    struct rng rng = rng_new(20);
    for (;;) {
        weir_table_sample(&table, &long_keys[rng_between(&rng, 0, LONG_KEYS - 1)], 1, true, now);
        atom_add(calls, 1, memory_order_relaxed);
    }
}

/* Stops the child somewhere, and looks at what is there then. */
static void look_between(pid_t child, size_t times)
{
    for (size_t i = 0; i < times; i++) {
        CHECK_EQ(kill(child, SIGSTOP), 0);
        CHECK_EQ(waitpid(child, NULL, WUNTRACED), child);
        (void)check_told(now);
        CHECK_EQ(kill(child, SIGCONT), 0);
    }
}

TEST(who_is_killed_leaves_no_false_name_and_blocks_nobody)
{
    enum { DEATHS = 30, STOPS = 20 };
    size_t with_lock = 0;
    begin();
    make_long_keys();
    atom64 *lock = &table.top->lists[WEIR_TOP_TAKEN].lock;
    atom64 *calls = mmap(NULL, sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < DEATHS; i++) {
        uint64_t before = atom_load(calls, memory_order_relaxed);
        pid_t child = fork();
        if (child == 0)
            sample_for_ever(calls);
        while (atom_load(calls, memory_order_relaxed) < before + 100) {
        }
        look_between(child, STOPS);
        CHECK_EQ(kill(child, SIGKILL), 0);
        CHECK_EQ(waitpid(child, NULL, 0), child);
        with_lock += atom_load(lock, memory_order_relaxed) != 0;
        (void)check_told(now);
        int64_t later = now + 2 * TOP_HELD_NS, units = units_of(&long_keys[1], WEIR_TOP_TAKEN, later);
        weir_table_sample(&table, &long_keys[1], INT64_C(1) << 50, true, later); /* no lot is against it */
        CHECK(units_of(&long_keys[1], WEIR_TOP_TAKEN, later) > units);
        CHECK_EQ(atom_load(lock, memory_order_relaxed), 0);
    }
    CHECK(with_lock > 0);
    CHECK_EQ(munmap(calls, sizeof *calls), 0);
    end();
}

/* ---- damage ---- */

TEST(a_name_of_another_key_is_not_told)
{
    begin();
    weir_table_sample(&table, &keys[1], 1, true, now);
    struct top_list *list = &table.top->lists[WEIR_TOP_TAKEN];
    size_t set = hash_to_index(keys[1].hash, TOP_SETS);
    CHECK_EQ(units_of(&keys[1], WEIR_TOP_TAKEN, now), TOP_SAMPLE);
    atom_add(&list->details[set][0].name[0], 1, memory_order_relaxed);
    CHECK_EQ(units_of(&keys[1], WEIR_TOP_TAKEN, now), 0);
    end();
}

TEST(a_key_with_two_places_is_told_once)
{
    struct weir_top_key found[PLACES];
    begin();
    weir_table_sample(&table, &keys[1], 1, true, now);
    struct top_list *list = &table.top->lists[WEIR_TOP_TAKEN];
    size_t set = hash_to_index(keys[1].hash, TOP_SETS);
    for (size_t way = 1; way <= 2; way++) { /* as two writers would leave it */
        list->details[set][way] = list->details[set][0];
        atom_store(&list->sets[set].units[way], 3 - way + TOP_SAMPLE, memory_order_relaxed);
        atom_store(&list->sets[set].hash[way], keys[1].hash, memory_order_relaxed);
    }
    CHECK_EQ(top_at(WEIR_TOP_TAKEN, now, found), 1);
    CHECK_EQ(found[0].units, 2 + TOP_SAMPLE);
    size_t other = (set + 1) % TOP_SETS; /* no place of its own */
    list->details[other][0] = list->details[set][0];
    list->sets[other] = list->sets[set];
    memset(&list->sets[set], 0, sizeof list->sets[set]);
    CHECK_EQ(top_at(WEIR_TOP_TAKEN, now, found), 0);
    end();
}

static void damage(struct rng *rng)
{
    uint64_t *words = (uint64_t *)(void *)table.top;
    size_t count = weir_top_size() / sizeof *words;
    for (size_t i = 0; i < count; i++) {
        uint64_t x = rng_next(rng);
        if (x % 4 == 0)
            words[i] = rng_next(rng);
        else if (x % 4 == 1)
            words[i] = keys[x / 4 % KEYS].hash;
        else if (x % 4 == 2)
            words[i] = (uint64_t)rng_magnitude(rng, INT64_MAX);
    }
}

TEST(any_content_is_harmless_and_heals)
{
    struct rng rng = rng_new(30);
    struct weir_top_key found[PLACES];
    begin();
    for (size_t round = 0; round < 200; round++) {
        damage(&rng);
        for (size_t i = 0; i < 100; i++) {
            int64_t time = rng_magnitude(&rng, WEIR_TIME_MAX);
            weir_table_sample(&table, &keys[rng_between(&rng, 0, 99)], rng_magnitude(&rng, INT64_MAX), true,
                              time);
            size_t count = i % 10 ? 0 : top_at(WEIR_TOP_TAKEN, time, found);
            for (size_t j = 0; j < count; j++) {
                CHECK(found[j].units > 0 && (j == 0 || found[j].units <= found[j - 1].units));
                CHECK(found[j].name[sizeof found[j].name - 1] == '\0');
            }
        }
        weir_table_sample(&table, &keys[1], 1, true, 0); /* the first may find the lock of a second ago */
        weir_table_sample(&table, &keys[1], 1, true, 100 * WEIR_SEC);
        weir_table_sample(&table, &keys[1], 1, true, 100 * TOP_HALVING_NS);
        CHECK_EQ(top_at(WEIR_TOP_TAKEN, 100 * TOP_HALVING_NS, found), 1);
        CHECK(found[0].id == keys[1].hash);
        CHECK_EQ(found[0].units, TOP_SAMPLE);
    }
    end();
}
