/* SPDX-License-Identifier: MIT */
/*
 * A coordinator by hand, for tests: orders as lines on standard input, what it answers on standard output. No
 * lease machine is between.
 *
 *     place URL NAME LIMIT
 *
 *     look | take CHUNKS | turn EPOCH CHUNK | probe EPOCH | return EPOCH CHUNKS
 *         reply op=take outcome=done epoch=17 chunks=1 units=10 ...       when it comes
 *     others COUNT                      so many more, NAME-0 and so on, look; then those of before leave
 *         reply id=0 ...                                                  of each of them
 *     decide KEY N LIMIT                                                  exact mode: decided ok allowed=1
 * ... create LIMIT | show | set LIMIT | delete | list                     quota orders, on the same
 * connection quota ok found=1 ...                                            or: quota failed TEXT noticed
 * epoch=... | more | moved up=0 why=... | troubled why=...    whenever
 *
 * It says "ready" once it is connected, and ends with its input. Exit status 1: no connection.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/member.h"
#include "fleet/options.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void say_reply(const char *what, const struct lease_reply *reply)
{
    static const char *const ops[] = {"look", "take", "turn", "probe", "return"};
    static const char *const outcomes[] = {"done", "moved", "failed", "unknown"};
    (void)pthread_mutex_lock(&lock);
    printf("%s id=%" PRIu64 " op=%s outcome=%s epoch=%" PRIu64 " chunks=%" PRId64 " units=%" PRId64
           " exhausted=%d stale=%d left=%" PRId64 " retry=%" PRId64 " age=%" PRId64 " starts=%" PRId64
           " ends=%" PRId64 " total=%" PRId64 " window=%" PRId64 " burst=%" PRId64 " base=%" PRId64
           " chunk=%" PRId64 "\n",
           what, reply->id, ops[reply->op], outcomes[reply->outcome], reply->epoch, reply->chunks,
           reply->units, reply->exhausted, reply->stale, reply->left, reply->retry_ns, reply->age_ns,
           reply->starts_ns, reply->ends_ns, reply->terms.total, reply->terms.window_ns, reply->terms.burst,
           reply->terms.base, reply->terms.chunk);
    (void)fflush(stdout);
    (void)pthread_mutex_unlock(&lock);
}

static void say_line(const char *what, const char *text)
{
    (void)pthread_mutex_lock(&lock);
    printf("%s%s\n", what, text);
    (void)fflush(stdout);
    (void)pthread_mutex_unlock(&lock);
}

static void replied(void *owner, const struct lease_reply *reply)
{
    (void)owner;
    say_reply("reply", reply);
}

static void noticed(void *owner, const struct lease_reply *seen)
{
    (void)owner;
    say_reply("noticed", seen);
}

static void more(void *owner)
{
    (void)owner;
    say_line("more", "");
}

static void moved(void *agent, bool up, const char *why)
{
    (void)agent;
    say_line(up ? "moved up=1 why=" : "moved up=0 why=", why ? why : "");
}

static void troubled(void *owner, const char *why)
{
    (void)owner;
    say_line("troubled why=", why ? why : "");
}

/* ---- quota ---- */

static void say_name(void *arg, const char *name)
{
    (void)arg;
    say_line("name ", name);
}

static void ask_quota(struct coordinator *coordinator, const char *name, const char *word, const char *limit)
{
    static const char *const words[] = {"create", "show", "set", "delete", "list"};
    struct quota_ask ask = {.name = name, .each = say_name};
    struct quota_answer answer;
    struct weir_error err = {.code = 0};
    struct weir_fleet_options options = {.size = sizeof options};
    for (int32_t i = 0; i < 5; i++)
        ask.op = strcmp(word, words[i]) == 0 ? i : ask.op;
    if ((ask.op == QUOTA_CREATE || ask.op == QUOTA_SET) &&
        !weir_fleet_terms(limit, &options, &ask.terms, &err)) {
        say_line("quota failed ", err.text);
        return;
    }
    if (ask.op == QUOTA_SET)
        ask.terms.base = ask.terms.chunk = 0;
    if (!coordinator->ops->quota(coordinator, &ask, &answer, &err)) {
        say_line("quota failed ", err.text);
        return;
    }
    char line[512];
    (void)snprintf(line, sizeof line,
                   "found=%d total=%" PRId64 " window=%" PRId64 " base=%" PRId64 " next=%" PRId64
                   " next_window=%" PRId64 " epoch=%" PRIu64 " used=%" PRId64 " returned=%" PRId64
                   " left=%" PRId64 " age=%" PRId64 " note=%s",
                   answer.found, answer.terms.total, answer.terms.window_ns, answer.terms.base,
                   answer.next.total, answer.next.window_ns, answer.epoch, answer.used, answer.returned,
                   answer.left, answer.age_ns, answer.note);
    say_line("quota ok ", line);
}

/* ---- orders ---- */

static bool read_order(const char *line, struct lease_order *order)
{
    order->id++;
    order->chunks = 1;
    order->chunk = 0;
    if (strncmp(line, "look", 4) == 0)
        order->op = LEASE_LOOK;
    else if (sscanf(line, "take %" SCNd64, &order->chunks) == 1)
        order->op = LEASE_TAKE;
    else if (sscanf(line, "turn %" SCNu64 " %" SCNd64, &order->epoch, &order->chunk) == 2)
        order->op = LEASE_TURN;
    else if (sscanf(line, "probe %" SCNu64, &order->epoch) == 1)
        order->op = LEASE_PROBE;
    else if (sscanf(line, "return %" SCNu64 " %" SCNd64, &order->epoch, &order->chunks) == 2)
        order->op = LEASE_RETURN;
    else
        return false;
    return true;
}

static void decide(struct coordinator *coordinator, const char *key, const char *limit, int64_t n)
{
    struct weir_spec spec;
    struct weir_verdict verdict;
    struct weir_error err = {.code = 0};
    if (weir_spec_parse(limit, &spec, 1, &err) != 1 || !coordinator->ops->decide ||
        !coordinator->ops->decide(coordinator, key, &spec, n, &verdict, &err)) {
        say_line("decided failed ", err.text);
        return;
    }
    char line[256];
    (void)snprintf(line, sizeof line,
                   "allowed=%d reason=%s remaining=%" PRId64 " retry=%" PRId64 " reset=%" PRId64,
                   verdict.allowed, weir_reason_name(verdict.reason), verdict.remaining,
                   verdict.retry_after_ns, verdict.reset_after_ns);
    say_line("decided ok ", line);
}

/* ---- other names on the same connection ---- */

static struct {
    struct coordinator *coordinator;
    const char *name;
    struct lease_terms terms;
    struct pool_handle *places[1000];
    size_t count;
} others;

static void meet_others(size_t count)
{
    const struct coordinator_ops *ops = others.coordinator->ops;
    struct lease_order look = {.op = LEASE_LOOK};
    struct pool_handle *before[sizeof others.places / sizeof *others.places];
    size_t left = others.count;
    memcpy(before, others.places, sizeof before);
    others.count = 0;
    while (others.count < count && others.count < sizeof others.places / sizeof *others.places) {
        char name[FLEET_NAME_MAX + 1];
        (void)snprintf(name, sizeof name, "%.240s-%zu", others.name, others.count);
        struct pool_handle *handle = ops->enter(others.coordinator, name, &others.terms, NULL, NULL);
        if (!handle)
            break;
        others.places[others.count++] = handle;
        ops->order(handle, &look);
    }
    while (left > 0)
        ops->leave(before[--left]);
}

static void obey(struct coordinator *coordinator, struct pool_handle *handle, const char *name)
{
    char line[512], word[16], limit[256], key[256];
    int64_t n;
    size_t count;
    struct lease_order order = {.id = 0};
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        limit[0] = '\0';
        if (read_order(line, &order))
            coordinator->ops->order(handle, &order);
        else if (sscanf(line, "others %zu", &count) == 1)
            meet_others(count);
        else if (sscanf(line, "decide %255s %" SCNd64 " %255[^\n]", key, &n, limit) == 3)
            decide(coordinator, key, limit, n);
        else if (sscanf(line, "%15s %255[^\n]", word, limit) >= 1)
            ask_quota(coordinator, name, word, limit);
    }
}

int main(int argc, char **argv)
{
    struct server_url url;
    struct weir_error err = {.code = 0};
    struct weir_fleet_options options = {.size = sizeof options};
    struct sink sink = {
        .replied = replied, .noticed = noticed, .more = more, .moved = moved, .troubled = troubled};
    struct lease_terms terms;
    if (argc != 4) {
        fprintf(stderr, "usage: place URL NAME LIMIT\n");
        return 2;
    }
    bool read = weir_url_read(&url, argv[1], &err) && weir_fleet_options_read(&options, &url, &err) &&
                weir_fleet_name_check(argv[2], &err) && weir_fleet_terms(argv[3], &options, &terms, &err);
    const struct coordinator_ops *ops = read ? weir_coordinator_kind(&url, &err) : NULL;
    struct coordinator_options how = {options.answer_ns, options.connect_ns, options.session_ns};
    struct coordinator *coordinator = ops ? ops->open(&url, &how, &sink, &err) : NULL;
    struct pool_handle *handle = coordinator ? ops->enter(coordinator, argv[2], &terms, NULL, &err) : NULL;
    if (handle) {
        say_line("ready", "");
        others.coordinator = coordinator;
        others.name = argv[2];
        others.terms = terms;
        obey(coordinator, handle, argv[2]);
        meet_others(0);
        ops->leave(handle);
    } else {
        fprintf(stderr, "%s\n", err.text);
    }
    if (coordinator)
        ops->close(coordinator);
    return handle ? 0 : 1;
}
