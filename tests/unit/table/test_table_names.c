/* SPDX-License-Identifier: MIT */
/*
 * The log of names: what goes in comes out, whoever dies meanwhile, and no key is ever told by a name that is
 * not its own. The program is linked with --wrap=malloc and --wrap=calloc, so that memory can run out.
 */
#define _DEFAULT_SOURCE
#include "table/names.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static int memory_left = -1; /* allocations until there is none; -1: always */
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

static bool runs_out(void)
{
    return memory_left == 0 || (memory_left > 0 && memory_left-- == 0);
}

void *__wrap_malloc(size_t size)
{
    return runs_out() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return runs_out() ? NULL : __real_calloc(count, size);
}

/* ---- a table that is nothing but a log ---- */

static struct region_header header;
static struct region region = {.header = &header, .key = {5, 6}};
static struct weir_table table = {.region = &region};

enum { KEYS = 4000 };

static char names[KEYS][32];
static struct key keys[KEYS];
static _Atomic bool living[KEYS];
static size_t places[KEYS * 4]; /* of keys, by their hash: 1 + which */

static struct key key_of(const void *bytes, size_t len)
{
    return (struct key){.bytes = bytes, .len = len, .hash = table_hash(&table, bytes, len)};
}

static size_t *place_of(uint64_t hash)
{
    size_t at = hash_to_index(hash, (uint64_t)KEYS * 4);
    while (places[at] != 0 && keys[places[at] - 1].hash != hash)
        at = (at + 1) % ((size_t)KEYS * 4);
    return &places[at];
}

/* An empty log, shared with children. */
static void begin(uint64_t bytes)
{
    for (size_t i = 0; i < KEYS; i++) {
        (void)snprintf(names[i], sizeof names[i], "%zu-of-many-names-%zu", i, i % 7 ? i : i * 1000);
        keys[i] = key_of(names[i], strlen(names[i]));
        atomic_store(&living[i], true);
        *place_of(keys[i].hash) = i + 1;
    }
    region.shape.parts[PART_NAMES] = weir_name_log_size(bytes);
    table.names =
        mmap(NULL, region.shape.parts[PART_NAMES], PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(table.names != MAP_FAILED);
}

static void end(void)
{
    CHECK_EQ(munmap(table.names, region.shape.parts[PART_NAMES]), 0);
    table.names = NULL;
}

static bool is_living(void *arg, uint64_t hash)
{
    (void)arg;
    size_t place = *place_of(hash);
    return place != 0 && atomic_load(&living[place - 1]);
}

/* 1: known, by its own name; 0: not known; another name fails. */
static int known(const struct name_index *index, const struct key *key)
{
    size_t len = 0;
    const void *bytes = weir_name_index_find(index, key->hash, &len);
    if (!bytes)
        return 0;
    CHECK_EQ(len, key->len);
    CHECK(len == key->len && memcmp(bytes, key->bytes, len) == 0);
    return 1;
}

static size_t known_of(size_t from, size_t to)
{
    struct name_index *index = weir_name_index_read(&table);
    size_t count = 0;
    for (size_t i = from; i < to; i++)
        count += (size_t)known(index, &keys[i]);
    weir_name_index_free(index);
    return count;
}

static void append_keys(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        weir_table_name(&table, &keys[i]);
}

static uint64_t used_words(void)
{
    uint64_t turn = atom_load(&table.names->turn, memory_order_relaxed);
    return atom_load(&table.names->ends[turn & 1], memory_order_relaxed);
}

/* For records, without the filter. */
static uint64_t words_of_half(void)
{
    uint64_t words = (region.shape.parts[PART_NAMES] - sizeof(struct name_log)) / 8 / 2;
    return words - words / 6 / 8 * 8;
}

static atom64 *records(void) /* of the half in use */
{
    uint64_t words = (region.shape.parts[PART_NAMES] - sizeof(struct name_log)) / 8 / 2;
    uint64_t turn = atom_load(&table.names->turn, memory_order_relaxed);
    return (atom64 *)(table.names + 1) + ((turn & 1) + 1) * words - words_of_half();
}

/* ---- what goes in comes out ---- */

TEST(names_of_every_length_come_back)
{
    static unsigned char bytes[NAME_LENGTH_MAX + 1];
    struct rng rng = rng_new(1);
    begin(UINT64_C(24) << 20);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(rng_next(&rng) % 3); /* many are 0 */
    for (size_t len = 0; len <= sizeof bytes; len++) {
        struct key key = key_of(bytes, len);
        weir_table_name(&table, &key);
    }
    struct name_index *index = weir_name_index_read(&table);
    for (size_t len = 0; len <= sizeof bytes; len++) {
        struct key key = key_of(bytes, len);
        CHECK_EQ(known(index, &key), len <= NAME_LENGTH_MAX);
    }
    CHECK_EQ(known(index, &keys[0]), 0);
    weir_name_index_free(index);
    CHECK_EQ(weir_name_log_lost(&table), 1);
    end();
}

TEST(without_a_log_nothing_is_known)
{
    size_t len = 7;
    begin(1);
    CHECK_EQ(region.shape.parts[PART_NAMES], NAME_LOG_LEAST);
    struct name_index *index = weir_name_index_read(&table); /* empty */
    CHECK(index && !weir_name_index_find(index, keys[0].hash, &len));
    weir_name_index_free(index);
    region.shape.parts[PART_NAMES] = NAME_LOG_LEAST - 64; /* no log that anybody made */
    weir_table_name(&table, &keys[0]);
    CHECK(!weir_name_index_read(&table));
    CHECK(!weir_name_log_needs_compaction(&table) && !weir_name_log_compact(&table, is_living, NULL));
    region.shape.parts[PART_NAMES] = NAME_LOG_LEAST;
    end();
    weir_table_name(&table, &keys[0]);
    CHECK(!weir_name_index_read(&table) && !weir_name_index_find(NULL, keys[0].hash, &len));
    CHECK(!weir_name_log_needs_compaction(&table) && !weir_name_log_compact(&table, is_living, NULL));
    CHECK_EQ(weir_name_log_lost(&table), 0);
    weir_name_index_free(NULL);
}

TEST(the_size_is_whole_lines)
{
    CHECK_EQ(weir_name_log_size(0), 0);
    CHECK_EQ(weir_name_log_size(NAME_LOG_LEAST + 1), NAME_LOG_LEAST + 64);
    CHECK(weir_name_log_size(UINT64_MAX) == UINT64_MAX - 63);
}

TEST(a_key_that_comes_again_is_not_logged_again)
{
    begin(1 << 20);
    append_keys(0, 100);
    uint64_t used = used_words();
    for (size_t i = 0; i < 50; i++)
        append_keys(0, 100);
    CHECK_EQ(used_words(), used);
    CHECK_EQ(known_of(0, KEYS), 100);
    CHECK(weir_name_log_compact(&table, is_living, NULL));
    CHECK_EQ(used_words(), used);
    CHECK_EQ(known_of(0, KEYS), 100);
    end();
}

TEST(in_a_crowded_log_few_are_logged_again)
{
    begin(256 << 10);
    size_t count = 0;
    while (!weir_name_log_needs_compaction(&table) && count < KEYS)
        weir_table_name(&table, &keys[count++]);
    uint64_t used = used_words();
    CHECK(count > 1000 && count < KEYS);
    append_keys(0, count);
    CHECK(used_words() < used + used / 6);
    end();
}

/* ---- compaction ---- */

TEST(a_crowded_log_keeps_the_names_of_the_living)
{
    begin(64 << 10);
    size_t count = 0;
    while (!weir_name_log_needs_compaction(&table) && count < KEYS)
        weir_table_name(&table, &keys[count++]);
    CHECK(count > 100 && count < KEYS);
    CHECK(used_words() > words_of_half() / 4 * 3 && used_words() < words_of_half() / 4 * 3 + 10);
    CHECK_EQ(weir_name_log_lost(&table), 0);
    CHECK_EQ(known_of(0, KEYS), count);
    for (size_t i = 0; i < count; i++)
        atomic_store(&living[i], i % 4 == 0);
    uint64_t used = used_words();
    CHECK(weir_name_log_compact(&table, is_living, NULL));
    CHECK(used_words() < used / 3);
    CHECK(!weir_name_log_needs_compaction(&table));
    CHECK_EQ(known_of(0, KEYS), (count + 3) / 4);
    struct name_index *index = weir_name_index_read(&table);
    for (size_t i = 0; i < count; i++)
        CHECK_EQ(known(index, &keys[i]), i % 4 == 0);
    weir_name_index_free(index);
    used = used_words();
    for (size_t i = 0; i < 3; i++) { /* each half was used before */
        CHECK(weir_name_log_compact(&table, is_living, NULL));
        CHECK_EQ(used_words(), used);
        CHECK_EQ(known_of(0, KEYS), (count + 3) / 4);
    }
    append_keys(1, 2); /* comes again */
    CHECK_EQ(known_of(1, 2), 1);
    end();
}

TEST(a_log_full_of_the_living_loses_names_and_says_so)
{
    begin(64 << 10);
    append_keys(0, KEYS);
    size_t kept = known_of(0, KEYS), lost = weir_name_log_lost(&table);
    CHECK(kept > 0 && lost > 0);
    CHECK_EQ(kept + lost, KEYS);
    CHECK(weir_name_log_needs_compaction(&table));
    CHECK(weir_name_log_compact(&table, is_living, NULL));
    CHECK_EQ(known_of(0, KEYS), kept);
    CHECK(!weir_name_log_needs_compaction(&table)); /* a second one would gain nothing */
    append_keys(KEYS / 2, KEYS);
    CHECK(weir_name_log_needs_compaction(&table)); /* now it may */
    end();
}

TEST(without_memory_nothing_changes)
{
    begin(64 << 10);
    append_keys(0, 100);
    for (int left = 0; left < 3; left++) {
        memory_left = left;
        CHECK(!weir_name_index_read(&table));
        memory_left = left;
        CHECK(!weir_name_log_compact(&table, is_living, NULL));
        memory_left = -1;
        CHECK_EQ(known_of(0, KEYS), 100);
    }
    memory_left = 3; /* enough for the first pass */
    CHECK(!weir_name_log_compact(&table, is_living, NULL));
    memory_left = -1;
    CHECK_EQ(known_of(0, KEYS), 100);
    end();
}

/* A key that is dropped while names are copied, and comes back before the halves change. */
struct returning {
    size_t asked;
};

static bool goes_and_returns(void *arg, uint64_t hash)
{
    struct returning *returning = arg;
    if (hash != keys[1].hash)
        return true;
    if (returning->asked++ > 0)
        return true;
    weir_table_name(&table, &keys[1]);
    weir_table_name(&table, &keys[2]); /* and one that is new */
    return false;
}

TEST(names_that_come_in_during_a_compaction_are_kept)
{
    struct returning returning = {0};
    begin(64 << 10);
    append_keys(0, 2);
    CHECK(weir_name_log_compact(&table, goes_and_returns, &returning));
    CHECK_EQ(returning.asked, 2);
    CHECK_EQ(known_of(0, KEYS), 3);
    end();
}

/* ---- holes, garbage, damage ---- */

TEST(a_hole_ends_nothing)
{
    begin(64 << 10);
    append_keys(0, 10);
    uint64_t before = used_words();
    append_keys(10, 11);
    uint64_t whole = UINT64_C(1) << 15, head = atom_load(&records()[before], memory_order_relaxed);
    CHECK(head & whole);
    atom_store(&records()[before], head & ~whole, memory_order_relaxed); /* killed before it was whole */
    atom_store(&table.names->ends[0], before, memory_order_relaxed);     /* and before it noted the end */
    CHECK_EQ(known_of(0, KEYS), 10);
    append_keys(11, 20);
    CHECK_EQ(known_of(0, KEYS), 19);
    CHECK_EQ(known_of(10, 11), 0);
    atom_store(&table.names->ends[0], 0, memory_order_relaxed); /* nobody has noted anything */
    CHECK_EQ(known_of(0, KEYS), 19);
    CHECK(weir_name_log_compact(&table, is_living, NULL));
    CHECK_EQ(known_of(0, KEYS), 19);
    end();
}

TEST(garbage_behind_the_end_is_passed_over)
{
    struct rng rng = rng_new(2);
    begin(64 << 10);
    append_keys(0, 10);
    atom64 *behind = records() + used_words();
    for (size_t i = 0; i < 600; i++) /* as from somebody who slept while the halves changed twice */
        atom_store(&behind[i + 4], rng_next(&rng) | 1, memory_order_relaxed);
    append_keys(10, 30);
    CHECK_EQ(known_of(0, KEYS), 30);
    CHECK_EQ(weir_name_log_lost(&table), 0);
    end();
}

static void damage(struct rng *rng)
{
    uint64_t *words = (uint64_t *)(void *)table.names;
    size_t count = region.shape.parts[PART_NAMES] / sizeof *words;
    for (int64_t i = rng_magnitude(rng, 2000); i >= 0; i--) {
        size_t at = (size_t)rng_between(rng, 0, (int64_t)(i % 10 ? count : 8) - 1);
        switch (rng_next(rng) % 4) {
        case 0:
            words[at] ^= UINT64_C(1) << rng_next(rng) % 64;
            break;
        case 1:
            words[at] = rng_next(rng);
            break;
        case 2:
            words[at] = words[rng_between(rng, 0, (int64_t)count - 1)];
            break;
        default:
            words[at] = 0;
        }
    }
}

TEST(in_damaged_memory_no_name_is_false)
{
    struct rng rng = rng_new(3);
    for (size_t round = 0; round < 60; round++) {
        begin((uint64_t)rng_between(&rng, 1, 64 << 10));
        for (size_t i = 0; i < 4; i++) {
            append_keys(0, (size_t)rng_magnitude(&rng, KEYS - 1));
            damage(&rng);
            (void)known_of(0, KEYS);
            (void)weir_name_log_needs_compaction(&table);
            append_keys(KEYS / 2, KEYS / 2 + (size_t)rng_magnitude(&rng, KEYS / 2 - 1));
            CHECK(weir_name_log_compact(&table, is_living, NULL));
            (void)known_of(0, KEYS);
        }
        atom_store(&table.names->ends[0], 0, memory_order_relaxed);
        atom_store(&table.names->ends[1], 0, memory_order_relaxed);
        end();
    }
}

/* ---- threads and deaths ---- */

struct appender {
    pthread_t thread;
    size_t from, to;
    uint64_t stream;
    _Atomic bool *stop;
};

static void *append_all(void *arg)
{
    struct appender *appender = arg;
    while (atomic_load(appender->stop)) { /* until all are here */
    }
    append_keys(appender->from, appender->to);
    return NULL;
}

TEST(threads_append_side_by_side)
{
    enum { ROUNDS = 20, THREADS = 2, EACH = KEYS / THREADS };
    struct appender appenders[THREADS];
    for (size_t round = 0; round < ROUNDS; round++) {
        _Atomic bool wait = true;
        begin(1 << 20);
        for (size_t i = 0; i < THREADS; i++) {
            appenders[i] = (struct appender){.from = i * EACH, .to = (i + 1) * EACH, .stop = &wait};
            CHECK_EQ(pthread_create(&appenders[i].thread, NULL, append_all, &appenders[i]), 0);
        }
        atomic_store(&wait, false);
        for (size_t i = 0; i < THREADS; i++)
            CHECK_EQ(pthread_join(appenders[i].thread, NULL), 0);
        CHECK_EQ(known_of(0, KEYS), KEYS);
        CHECK_EQ(weir_name_log_lost(&table), 0);
        end();
    }
}

/* Keys come and go; in the end all of them are there. */
static void *come_and_go(void *arg)
{
    struct appender *appender = arg;
    struct rng rng = rng_new(appender->stream);
    while (!atomic_load(appender->stop)) {
        size_t key = (size_t)rng_between(&rng, (int64_t)appender->from, (int64_t)appender->to - 1);
        bool alive = rng_next(&rng) % 2;
        bool was = atomic_exchange(&living[key], alive);
        if (alive && !was)
            weir_table_name(&table, &keys[key]);
    }
    for (size_t key = appender->from; key < appender->to; key++)
        if (!atomic_exchange(&living[key], true))
            weir_table_name(&table, &keys[key]);
    return NULL;
}

TEST(no_name_gets_lost_between_appenders_and_compactions)
{
    enum { ROUNDS = 6, THREADS = 3, EACH = 100 };
    struct appender appenders[THREADS];
    begin(1 << 20);
    for (size_t round = 0; round < ROUNDS; round++) {
        _Atomic bool stop = false;
        for (size_t i = 0; i < (size_t)THREADS * EACH; i++)
            atomic_store(&living[i], false);
        for (size_t i = 0; i < THREADS; i++) {
            appenders[i] = (struct appender){
                .from = i * EACH, .to = (i + 1) * EACH, .stream = 40 + round * THREADS + i, .stop = &stop};
            CHECK_EQ(pthread_create(&appenders[i].thread, NULL, come_and_go, &appenders[i]), 0);
        }
        for (size_t i = 0; i < 10; i++)
            CHECK(weir_name_log_compact(&table, is_living, NULL));
        atomic_store(&stop, true);
        CHECK(weir_name_log_compact(&table, is_living, NULL)); /* while they end */
        for (size_t i = 0; i < THREADS; i++)
            CHECK_EQ(pthread_join(appenders[i].thread, NULL), 0);
        CHECK_EQ(weir_name_log_lost(&table), 0);
        /* Who sleeps in the middle of an append through two compactions writes into another's name. */
        CHECK(known_of(0, KEYS) + THREADS >= (size_t)THREADS * EACH);
    }
    end();
}

/* Runs `work` in a child and kills it after it has done some of it. */
static void kill_during(void (*work)(atom64 *done), atom64 *done, uint64_t enough)
{
    uint64_t before = atom_load(done, memory_order_relaxed);
    pid_t child = fork();
    if (child == 0)
        for (;;)
            work(done);
    while (atom_load(done, memory_order_relaxed) < before + enough)
        (void)sched_yield();
    CHECK_EQ(kill(child, SIGKILL), 0);
    CHECK_EQ(waitpid(child, NULL, 0), child);
}

static atom64 *new_counter(void)
{
    atom64 *counter = mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(counter != MAP_FAILED);
    return counter;
}

static struct key other_key(char *text, size_t size, uint64_t number)
{
    return key_of(text, (size_t)snprintf(text, size, "other-%" PRIu64, number));
}

/* Names that nobody asks for; not so many that the log gets full. */
static void append_others(atom64 *done)
{
    static size_t appended;
    if (appended++ > 1000)
        (void)pause();
    char text[32];
    struct key key = other_key(text, sizeof text, atom_add(done, 1, memory_order_relaxed));
    weir_table_name(&table, &key);
}

TEST(an_appender_who_is_killed_hides_no_name)
{
    begin(4 << 20);
    atom64 *done = new_counter();
    for (size_t i = 0; i < 60; i++) {
        append_keys(i * 10, i * 10 + 5);
        kill_during(append_others, done, 50);
        append_keys(i * 10 + 5, i * 10 + 10);
        CHECK_EQ(known_of(0, KEYS), i * 10 + 10);
        if (i % 16 == 15)
            CHECK(weir_name_log_compact(&table, is_living, NULL));
    }
    CHECK_EQ(weir_name_log_lost(&table), 0);
    CHECK_EQ(munmap(done, sizeof *done), 0);
    end();
}

static void compact_again(atom64 *done)
{
    atom_add(done, 1, memory_order_relaxed);
    (void)weir_name_log_compact(&table, is_living, NULL);
}

TEST(a_compaction_that_is_killed_loses_no_name)
{
    enum { NAMES = 200 };
    begin(64 << 10);
    append_keys(0, NAMES);
    atom64 *done = new_counter();
    for (size_t i = 0; i < 60; i++) {
        atomic_store(&living[i], false); /* dead in one compaction, back before the next */
        kill_during(compact_again, done, 2 + i % 3);
        atomic_store(&living[i], true);
        append_keys(i, i + 1);
        CHECK_EQ(known_of(0, KEYS), NAMES);
    }
    CHECK_EQ(munmap(done, sizeof *done), 0);
    end();
}

static volatile sig_atomic_t appending, interrupted;

static void compact_now(int number)
{
    (void)number;
    if (!appending)
        return;
    interrupted++;
    if (!weir_name_log_compact(&table, is_living, NULL))
        interrupted = -1;
}

static void interrupt_after(suseconds_t microseconds)
{
    struct itimerval timer = {.it_value = {0, microseconds}};
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

/* A signal comes anywhere in the middle of appending, and the halves change there. */
TEST(an_appender_that_slept_through_a_compaction_appends_again)
{
#ifdef WEIR_TSAN
    check_skip("the thread sanitizer puts signals off");
    return;
#endif
    struct sigaction action = {.sa_handler = compact_now, .sa_flags = SA_RESTART};
    struct rng rng = rng_new(4);
    begin(4 << 20);
    CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
    interrupted = 0;
    for (size_t round = 0; round < 1000 && interrupted >= 0 && interrupted < 100; round++) {
        for (size_t i = 0; i < KEYS; i++)
            atomic_store(&living[i], false);
        CHECK(weir_name_log_compact(&table, is_living, NULL));
        interrupt_after((suseconds_t)rng_between(&rng, 1, 200));
        appending = 1;
        for (size_t i = 0; i < KEYS; i++) {
            atomic_store(&living[i], true);
            weir_table_name(&table, &keys[i]);
        }
        appending = 0;
        CHECK_EQ(known_of(0, KEYS), KEYS);
    }
    interrupt_after(0);
    CHECK(interrupted > 0);
    end();
}

static bool dies_at_last(void *arg, uint64_t hash)
{
    size_t *left = arg;
    (void)hash;
    if ((*left)-- == 0)
        (void)raise(SIGKILL);
    return true;
}

/* What it had copied is not believed to be there when the next one does not copy it. */
TEST(the_next_compaction_begins_anew)
{
    enum { NAMES = 200 };
    size_t left = NAMES - 1;
    begin(64 << 10);
    append_keys(0, NAMES);
    pid_t child = fork();
    if (child == 0)
        (void)weir_name_log_compact(&table, dies_at_last, &left);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    CHECK_EQ(known_of(0, KEYS), NAMES);
    for (size_t i = 0; i < NAMES; i++)
        atomic_store(&living[i], i % 2);
    CHECK(weir_name_log_compact(&table, is_living, NULL));
    CHECK_EQ(known_of(0, KEYS), NAMES / 2);
    append_keys(0, NAMES);
    CHECK_EQ(known_of(0, KEYS), NAMES);
    end();
}
