/* SPDX-License-Identifier: MIT */
/* Dumps, loads and frozen keys of a service without sockets. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <pthread.h>
#include <sched.h>

#include "unit/service/service_kit.h"

#include "base/crc.h"
#include "os/clock.h"
#include "service/policies/freeze.h"
#include "service/transfer/dump.h"
#include "service/transfer/dump_clients.h"
#include "service/transfer/dump_text.h"
#include "service/transfer/load.h"

static struct slice slice_of(const char *text)
{
    return (struct slice){text, strlen(text)};
}

static bool collect(void *arg, const char *bytes, size_t len)
{
    struct buffer *out = arg;
    buffer_put(out, bytes, len);
    return !out->failed;
}

static void dump(struct kit *kit, const char *policy, struct buffer *out)
{
    struct weir_error err;
    const struct snapshot *snapshot = atomic_load(&kit->service->snapshot);
    CHECK(
        weir_dump_policy(kit->service, weir_snapshot_policy(snapshot, slice_of(policy)), collect, out, &err));
    buffer_put(out, "", 1);
}

static size_t split(struct buffer *text, struct slice *lines, size_t most)
{
    size_t count = 0;
    char *at = buffer_bytes(text), *stop;
    for (; count < most && (stop = strchr(at, '\n')); at = stop + 1)
        lines[count++] = (struct slice){at, (size_t)(stop - at)};
    return count;
}

static bool begins(struct slice line, const char *word)
{
    return line.len > strlen(word) && memcmp(line.bytes, word, strlen(word)) == 0;
}

/* Loads all tables of a dump of one policy; gives the keys brought in, or -1. */
static int64_t load(struct kit *kit, const char *policy, struct buffer *text, bool no_elapsed)
{
    static struct slice lines[20000], definition[16];
    struct weir_error err = {0};
    size_t count = split(text, lines, 20000), definitions = 0;
    struct load_name name = {slice_of(policy), slice_of("id-1")};
    struct load_count done;
    bool made;
    for (size_t i = 0; i < count && definitions < 16; i++)
        if (begins(lines[i], "policy ") || begins(lines[i], "limits ") || begins(lines[i], "settings "))
            definition[definitions++] = lines[i];
    struct load_begin begin = {name.policy, name.id, definition, definitions, no_elapsed};
    bool good = weir_load_begin(kit->service, &begin, &made, &err);
    int64_t page = 0;
    for (size_t i = 0; good && i < count; i++)
        if (begins(lines[i], "table "))
            good = weir_load_table(kit->service, &name, lines[i], &err);
        else if (begins(lines[i], "key ") || begins(lines[i], "spent ") || begins(lines[i], "shared"))
            good = weir_load_keys(kit->service, &name, ++page, &lines[i], 1, &done, &err);
    good = good && weir_load_end(kit->service, &name, &done, &err);
    if (!good)
        printf("# %s\n", err.text);
    return good ? done.keys : -1;
}

#define YAML "policies: [{name: api, limits: \"1000/d, 100/h algo=sliding-window\"}]\n"

TEST(a_loaded_policy_explains_as_the_dumped_one_did)
{
    struct kit from, to;
    struct buffer text = {0};
    if (!CHECK(kit_open(&from, YAML)))
        return;
    for (int i = 0; i < 50; i++) {
        char line[64];
        snprintf(line, sizeof line, "WEIR.TAKE api user:%d %d", i, 1 + i % 20);
        CHECK_EQ(kit_field(kit_ask(&from, line), "allowed"), 1);
    }
    dump(&from, "api", &text);
    if (!CHECK(kit_open(&to, NULL)))
        return;
    CHECK_EQ(load(&to, "api", &text, true), 50);
    for (int i = 0; i < 51; i++) {
        char line[64], was[4000];
        snprintf(line, sizeof line, "WEIR.EXPLAIN api user:%d", i);
        snprintf(was, sizeof was, "%s", kit_ask(&from, line));
        CHECK_STR(kit_ask(&to, line), was);
    }
    weir_buffer_free(&text);
    kit_close(&to);
    kit_close(&from);
}

/* By the same hash key; by names, where it is another one; by hashes not at all. */
TEST(the_longest_ttl_comes_along)
{
    struct kit from, to;
    struct buffer text = {0};
    if (!CHECK(kit_open(&from, "policies: [{name: api, limits: 9/s, reserve: {ttl: 4s, ttl_max: 10s}}]\n")))
        return;
    dump(&from, "api", &text);
    if (!CHECK(kit_open(&to, NULL)))
        return;
    CHECK_EQ(load(&to, "api", &text, true), 0);
    CHECK_EQ(kit_field(kit_ask(&to, "WEIR.POLICY SHOW api"), "reserve_ttl_ms"), 4000);
    CHECK_EQ(kit_field(kit_ask(&to, "WEIR.POLICY SHOW api"), "reserve_ttl_max_ms"), 10000);
    weir_buffer_free(&text);
    kit_close(&to);
    kit_close(&from);
}

TEST(what_was_spent_here_already_comes_on_top)
{
    struct kit from, to, used;
    struct buffer text = {0};
    if (!CHECK(kit_open(&from, "policies: [{name: api, limits: 1000/d}]")) || !CHECK(kit_open(&to, NULL)) ||
        !CHECK(kit_open(&used, "policies: [{name: api, limits: 1000/d}]")))
        return;
    (void)kit_ask(&from, "WEIR.TAKE api a 600");
    dump(&from, "api", &text);
    CHECK_EQ(load(&to, "api", &text, true), 1);
    CHECK_EQ(kit_field(kit_ask(&to, "WEIR.TAKE api a 100"), "remaining"), 300);
    CHECK_EQ(load(&to, "api", &text, true), 1);
    CHECK_EQ(kit_field(kit_ask(&to, "WEIR.GIVE api a 300"), "x"), INT64_MIN);
    CHECK_EQ(kit_field(kit_ask(&to, "WEIR.PEEK api a"), "remaining"), 0); /* 600 + 100 + 600 - 300 */
    (void)kit_ask(&used, "WEIR.TAKE api a 300");
    CHECK_EQ(load(&used, "api", &text, true), -1);
    CHECK_EQ(kit_field(kit_ask(&used, "WEIR.PEEK api a"), "remaining"), 700);
    char *hash = strstr(buffer_bytes(&text), "\nkey #");
    memcpy(hash, "\nspent \"a\" 600 #", 16);
    memset(hash + 16, ' ', strcspn(hash + 16, "\n"));
    CHECK_EQ(load(&used, "api", &text, true), 1);
    CHECK_EQ(kit_field(kit_ask(&used, "WEIR.PEEK api a"), "remaining"), 100);
    weir_buffer_free(&text);
    kit_close(&used);
    kit_close(&to);
    kit_close(&from);
}

/* Until even a key that is new is refused, by what those without room share. Gives how many asked. */
static int fill(struct kit *kit)
{
    char line[64];
    int asked = 0;
    do
        snprintf(line, sizeof line, "WEIR.TAKE api k%d 7", asked++);
    while (asked < 20000 && kit_field(kit_ask(kit, line), "allowed") == 1);
    return asked;
}

/* To a policy that is made, and to one where those who come have a place of their own already. */
TEST(what_keys_without_room_have_spent_comes_along)
{
    static const char *const yamls[] = {"policies: [{name: api, limits: 10/d, keys: 100}]",
                                        "policies: [{name: api, limits: \"10/d, 20/w\", keys: 100}]"};
    for (int i = 0; i < 4; i++) {
        struct kit from, to;
        struct buffer text = {0};
        char line[64];
        if (!CHECK(kit_open(&from, yamls[i % 2])) || !CHECK(kit_open(&to, NULL)))
            return;
        if (i >= 2) {
            dump(&from, "api", &text);
            CHECK_EQ(load(&to, "api", &text, true), 0);
            weir_buffer_drop(&text, buffer_len(&text), 1 << 20);
        }
        int asked = fill(&from);
        CHECK(asked < 20000);
        for (int key = asked - 3; i >= 2 && key < asked; key++) {
            snprintf(line, sizeof line, "WEIR.TAKE api k%d 3", key);
            CHECK_EQ(kit_field(kit_ask(&to, line), "remaining"), 7);
        }
        dump(&from, "api", &text);
        CHECK(strstr(buffer_bytes(&text), "\nshared #"));
        CHECK(load(&to, "api", &text, true) > 100);
        for (int key = asked - 3; key < asked; key++) {
            snprintf(line, sizeof line, "WEIR.TAKE api k%d 4", key);
            CHECK_EQ(kit_field(kit_ask(&to, line), "allowed"), 0);
        }
        weir_buffer_free(&text);
        kit_close(&to);
        kit_close(&from);
    }
}

TEST(a_page_that_is_said_again_does_not_count_again)
{
    struct kit from, to;
    struct buffer text = {0};
    struct slice lines[64], key = {0}, table = {0};
    struct weir_error err;
    struct load_count done;
    bool made;
    if (!CHECK(kit_open(&from, "policies: [{name: api, limits: 1000/d}]")) || !CHECK(kit_open(&to, NULL)))
        return;
    (void)kit_ask(&from, "WEIR.TAKE api a 300");
    dump(&from, "api", &text);
    size_t count = split(&text, lines, 64);
    for (size_t i = 0; i < count; i++)
        if (begins(lines[i], "key "))
            key = lines[i];
        else if (begins(lines[i], "table "))
            table = lines[i];
    struct slice definition[] = {slice_of("policy \"api\""), slice_of("limits \"1000/d\"")};
    struct load_name name = {slice_of("api"), slice_of("x")}, other = {slice_of("api"), slice_of("y")};
    struct load_begin begin = {name.policy, name.id, definition, 2, true};
    CHECK(weir_load_begin(to.service, &begin, &made, &err) && made);
    CHECK(strncmp(kit_ask(&to, "WEIR.TAKE api a"), "-UNAVAILABLE ", 13) == 0);
    CHECK(!weir_load_keys(to.service, &name, 1, &key, 1, &done, &err)); /* no table yet */
    CHECK(weir_load_table(to.service, &name, table, &err));
    CHECK(!weir_load_keys(to.service, &name, 2, &key, 1, &done, &err));
    CHECK(!weir_load_keys(to.service, &other, 1, &key, 1, &done, &err));
    for (int i = 0; i < 3; i++) {
        CHECK(weir_load_keys(to.service, &name, 1, &key, 1, &done, &err));
        CHECK_EQ(done.keys, 1);
    }
    /* one bad line: nothing of its page is brought in */
    struct slice mixed[] = {key, slice_of("key #0123456789abcdef 1")};
    CHECK(!weir_load_keys(to.service, &name, 2, mixed, 2, &done, &err));
    CHECK(weir_load_end(to.service, &name, &done, &err));
    CHECK_EQ(done.keys, 1);
    CHECK(!weir_load_end(to.service, &name, &done, &err));
    CHECK_EQ(kit_field(kit_ask(&to, "WEIR.PEEK api a"), "remaining"), 700);
    weir_buffer_free(&text);
    kit_close(&to);
    kit_close(&from);
}

/* As if the dump had been made ten seconds earlier, by the wall clock. */
static void make_older(struct kit *kit, struct buffer *text)
{
    char now[32], then[32];
    int64_t ms = service_wall_ms(kit->service, weir_now());
    snprintf(now, sizeof now, " %" PRId64 " ", ms);
    snprintf(then, sizeof then, " %" PRId64 " ", ms - 10000);
    char *at = strstr(strstr(buffer_bytes(text), "\ntable "), now);
    if (CHECK(at && strlen(now) == strlen(then)))
        memcpy(at, then, strlen(then));
}

TEST(time_that_passed_counts_unless_told_otherwise)
{
    for (int told = 0; told < 2; told++) {
        struct kit from, to;
        struct buffer text = {0};
        if (!CHECK(kit_open(&from, "policies: [{name: api, limits: 3600/h}]")))
            return;
        kit_clock(&from, 50000);
        (void)kit_ask(&from, "WEIR.TAKE api a 3600");
        dump(&from, "api", &text);
        make_older(&from, &text);
        kit_close(&from);
        if (!CHECK(kit_open(&to, NULL)))
            return;
        kit_clock(&to, 50000);
        CHECK_EQ(load(&to, "api", &text, told == 1), 1);
        CHECK_EQ(kit_field(kit_ask(&to, "WEIR.PEEK api a"), "remaining"), told ? 0 : 10);
        kit_clock(&to, 55000);
        CHECK_EQ(kit_field(kit_ask(&to, "WEIR.PEEK api a 1"), "remaining"), told ? 5 : 15);
        weir_buffer_free(&text);
        kit_close(&to);
    }
}

TEST(frozen_keys_are_sent_elsewhere_and_do_not_change)
{
    struct kit kit;
    static const char *const asks[] = {
        "WEIR.TAKE api a",     "WEIR.TAKE free x AND api a", "WEIR.PEEK api a",      "WEIR.GIVE api a 1",
        "WEIR.CHARGE api a 1", "WEIR.RESET api a",           "WEIR.ACQUIRE api a 1", "WEIR.RESERVE api a 1",
    };
    if (!CHECK(kit_open(&kit, "policies: [{name: api, limits: 1000/d}, {name: free, limits: 10/s}]")))
        return;
    (void)kit_ask(&kit, "WEIR.TAKE api a 10");
    char commit[128], cancel[128];
    snprintf(commit, sizeof commit, "WEIR.COMMIT %s 70",
             kit_text(kit_ask(&kit, "WEIR.RESERVE api a 40"), "id"));
    snprintf(cancel, sizeof cancel, "WEIR.CANCEL %s", kit_text(kit_ask(&kit, "WEIR.RESERVE api a 50"), "id"));
    CHECK_STR(kit_ask(&kit, "WEIR.FREEZE api redis://b:1"), "+OK\r\n");
    for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++)
        CHECK(strncmp(kit_ask(&kit, asks[i]), "-ELSEWHERE redis://b:1 ", 23) == 0);
    CHECK(strncmp(kit_ask(&kit, commit), "-ELSEWHERE ", 11) == 0);
    CHECK(strncmp(kit_ask(&kit, cancel), "-ELSEWHERE ", 11) == 0);
    CHECK_STR(kit_ask(&kit, "WEIR.THAW api"), "+OK\r\n");
    CHECK(strncmp(kit_ask(&kit, "WEIR.THAW api"), "-ERR ", 5) == 0);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK api a"), "remaining"), 900);
    CHECK_EQ(kit_field(kit_ask(&kit, cancel), "given_back"), 50);
    CHECK_EQ(kit_field(kit_ask(&kit, commit), "charged"), 70);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK api a"), "remaining"), 920);
    kit_close(&kit);
}

struct freezing {
    struct service *service;
    _Atomic int done; /* 1: well, 2: not */
};

static _Thread_local bool counts; /* this thread's yields and pauses, below */
static _Atomic int64_t yields, pauses;

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    atomic_fetch_add(&yields, counts);
    return __real_sched_yield();
}

void __real_weir_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t monotonic_ns);
void __wrap_weir_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t monotonic_ns);
void __wrap_weir_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t monotonic_ns)
{
    __real_weir_futex_wait(word, value, monotonic_ns);
    atomic_fetch_add(&pauses, counts);
}

static void *freeze(void *arg)
{
    struct freezing *freezing = arg;
    struct weir_error err;
    counts = true;
    bool done = weir_change_freeze(freezing->service, slice_of("api"), (struct export_range){0, UINT64_MAX},
                                   slice_of("redis://b:1"), &err);
    atomic_store(&freezing->done, done ? 1 : 2);
    return NULL;
}

/* A request that began before may still change the keys: they are frozen when it has ended. Until then the
 * freeze pauses: a thread that only yields would take a processor from those it waits for. */
TEST(a_freeze_waits_for_requests_that_have_begun)
{
    struct kit kit;
    pthread_t thread;
    if (!CHECK(kit_open(&kit, "policies: [{name: api, limits: 1000/d}]")))
        return;
    struct freezing freezing = {.service = kit.service};
    uint64_t epoch = atomic_load(&kit.service->epoch);
    weir_read_begin(kit.worker);
    CHECK_EQ(pthread_create(&thread, NULL, freeze, &freezing), 0);
    while (atomic_load(&kit.service->epoch) == epoch)
        sched_yield();
    while (atomic_load(&pauses) < 20 && atomic_load(&yields) < 20000)
        sched_yield();
    CHECK(atomic_load(&pauses) >= 20);
    CHECK(atomic_load(&yields) < 1000);
    CHECK_EQ(atomic_load(&freezing.done), 0);
    weir_read_end(kit.worker);
    (void)pthread_join(thread, NULL);
    CHECK_EQ(atomic_load(&freezing.done), 1);
    kit_close(&kit);
}

TEST(only_keys_of_the_range_are_frozen)
{
    struct kit kit;
    int frozen = 0, free = 0;
    if (!CHECK(kit_open(&kit, "policies: [{name: api, limits: 1000/d}]")))
        return;
    CHECK_STR(kit_ask(&kit, "WEIR.FREEZE api redis://b:1 HASH 0000000000000000 7fffffffffffffff"), "+OK\r\n");
    for (int i = 0; i < 200; i++) {
        char line[64];
        snprintf(line, sizeof line, "WEIR.TAKE api user:%d", i);
        const char *reply = kit_ask(&kit, line);
        frozen += reply[0] == '-';
        free += reply[0] == '*';
    }
    CHECK(frozen > 60 && free > 60 && frozen + free == 200);
    for (int i = 1; i < 8; i++) {
        char line[100];
        snprintf(line, sizeof line, "WEIR.FREEZE api redis://b:1 HASH 000000000000000%d ffffffffffffffff", i);
        CHECK_STR(kit_ask(&kit, line), "+OK\r\n");
    }
    CHECK(strstr(kit_ask(&kit, "WEIR.FREEZE api redis://b:1"), "8 ranges") != NULL);
    CHECK(kit_ask(&kit, "WEIR.FREEZE api redis://b:1 HASH 1 2")[0] == '-');
    CHECK(kit_ask(&kit, "WEIR.FREEZE api \"a b\"")[0] == '-');
    CHECK(kit_ask(&kit, "WEIR.FREEZE api redis://b HASH ffffffffffffffff 0000000000000000")[0] == '-');
    kit_close(&kit);
}

/* The whole text: its end counts the keys, and the checksum is that of all before it. */
TEST(a_dump_ends_with_its_count_and_checksum)
{
    struct kit kit;
    struct buffer text = {0};
    uint64_t keys;
    uint32_t crc;
    if (!CHECK(kit_open(&kit, "policies: [{name: api, limits: 1000/d}]")))
        return;
    (void)kit_ask(&kit, "WEIR.TAKE api a 10");
    (void)kit_ask(&kit, "WEIR.TAKE api b 20");
    dump(&kit, "api", &text);
    char *end = strstr(buffer_bytes(&text), "\nend ");
    if (CHECK(end != NULL)) {
        CHECK(weir_dump_read_end((struct slice){end + 1, strlen(end + 1) - 1}, &keys, &crc));
        CHECK_EQ(keys, 2);
        CHECK_EQ(crc, weir_crc32c(0, buffer_bytes(&text), (size_t)(end + 1 - buffer_bytes(&text))));
    }
    CHECK(strncmp(buffer_bytes(&text), "weir-dump 1\nserver weir ", 24) == 0);
    CHECK(strstr(buffer_bytes(&text), "# used 10 of 1000; full in 14 min 24 s\n") != NULL);
    weir_buffer_free(&text);
    kit_close(&kit);
}

TEST(without_a_directory_there_is_no_backup)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    CHECK(strstr(kit_ask(&kit, "WEIR.BACKUP x"), "--data DIR") != NULL);
    CHECK(strstr(kit_ask(&kit, "WEIR.IMAGE"), "--data DIR") != NULL);
    kit_close(&kit);
}

/* ---- keys whose limits come with each call ---- */

/* Back to the server that they are of: what is owed on both sides adds up. Lines that make no sense do no
 * harm. */
TEST(cells_and_buckets_add_up)
{
    static const char *const bad[] = {"cell",
                                      "cell #zz 1",
                                      "cell #8f3a66c01b5d2e70 -1",
                                      "cell #8f3a66c01b5d2e70",
                                      "rl #8f3a66c01b5d2e70 #8f3a66c01b5d2e70 1 1 1",
                                      "key #8f3a66c01b5d2e70 0 0 9",
                                      "rl #8f3a66c01b5d2e70 #8f3a66c01b5d2e70 -1 1 1 1",
                                      "\"",
                                      "shared #0000000000000000 #ffffffffffffffff 1"};
    struct kit kit;
    struct buffer heads = {0}, cells = {0}, buckets = {0};
    struct slice head[2], line[1];
    struct weir_error err;
    struct load_count done;
    struct export_range range = {0, UINT64_MAX};
    struct load_name name = {slice_of(LOAD_CLIENTS), slice_of("x")};
    uint64_t cursor = 0;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    (void)kit_ask(&kit, "CL.THROTTLE k 9 10 86400 4");
    (void)kit_ask(&kit, "RL.REDUCE r 10 86400 TAKE 4");
    weir_dump_clients(kit.service, weir_now(), &heads);
    do
        CHECK(weir_dump_cells(kit.service, weir_now(), &range, 1000, &cells));
    while (range.from != 0);
    do
        CHECK(weir_dump_buckets(kit.service, weir_now(), &cursor, 1000, &buckets));
    while (cursor != 0);
    buffer_put(&heads, "", 1);
    buffer_put(&cells, "", 1);
    buffer_put(&buckets, "", 1);
    if (!CHECK(split(&heads, head, 2) == 2 && split(&cells, line, 1) == 1))
        return;
    CHECK(!weir_load_clients(kit.service, name.id, true, slice_of("clients cell #00 1"), &err));
    CHECK(!weir_load_clients(kit.service, name.id, true, line[0], &err));
    for (int i = 0; i < 2; i++) {
        CHECK(split(i == 0 ? &cells : &buckets, line, 1) == 1);
        CHECK(weir_load_clients(kit.service, name.id, true, head[i], &err));
        for (size_t j = 0; j < sizeof bad / sizeof *bad; j++) {
            struct slice lines[] = {line[0], slice_of(bad[j])};
            CHECK(!weir_load_keys(kit.service, &name, 1, lines, 2, &done, &err)); /* none of both */
        }
        CHECK(weir_load_keys(kit.service, &name, 1, line, 1, &done, &err) && done.keys == 1);
        CHECK(weir_load_keys(kit.service, &name, 1, line, 1, &done, &err) && done.keys == 1); /* said again */
        CHECK(weir_load_end(kit.service, &name, &done, &err));
    }
    CHECK(strstr(kit_ask(&kit, "CL.THROTTLE k 9 10 86400 0"), "*5\r\n:0\r\n:10\r\n:2\r\n"));
    CHECK_STR(kit_ask(&kit, "RL.GET r 10 86400"), ":0\r\n");
    weir_buffer_free(&heads);
    weir_buffer_free(&cells);
    weir_buffer_free(&buckets);
    kit_close(&kit);
}
