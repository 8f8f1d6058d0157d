/* SPDX-License-Identifier: MIT */
/*
 * Hostile requests to a service without sockets. The input is what two clients send, request after request,
 * typed or as arrays; '@' in front: it is the second client's, who knows only what a user with few rights may
 * do. Time moves when WEIR.CLOCK says so, and `last` is the number of the last reservation, which nobody
 * could guess. What must hold, whatever they say:
 *
 *   every request has one reply, and it is a whole value of the protocol; none if the client wants none
 *   commands = requests, and each that decides is allowed, refused or an error, just one of them
 *   who has few rights takes from his policy and his keys alone
 *   one key's units are watched: in no interval more is admitted than its limit allows
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "base/text.h"
#include "must.h"
#include "os/boot.h"
#include "region/region.h"
#include "resp/reply.h"
#include "service/pending.h"
#include "service/policies/growth.h"
#include "service/run.h"
#include "table/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CLIENTS      2
#define WORDS        64
#define REQUESTS_MAX 40
#define OUTPUT_MOST  (8 << 20)
#define EVENTS_MAX   REQUESTS_MAX
#define MEMORY       (4 << 20)
#define KEYS         64
#define TOUCHED_MAX  32
#define CHANGES_MAX  4 /* of policies by one input: they take long */

/* The watched key and its limit: 5 in a second, at most 10 at once. */
#define WATCHED_POLICY "law"
#define WATCHED_KEY    "w"
#define WATCHED_RATE   5
#define WATCHED_BURST  10

static const char yaml[] =
    "memory: 8MiB\n"
    "users:\n"
    "  - {name: default, may: all}\n"
    "  - {name: app, password: x, may: [take, look], keys: [\"a*\"], policies: [api]}\n"
    "  - {name: ops, password: y, may: all}\n"
    "policies:\n"
    "  - {name: law, limits: 5/s burst=10}\n"
    "  - name: api\n"
    "    limits: [10/s burst=20, 1000/h name=hour timeout=2s]\n"
    "    candidate: 5/m\n"
    "    reserve: {ttl: 5s, overrun: refuse}\n"
    "    overrides:\n"
    "      - {key: a1, limits: 1/s, reason: because}\n"
    "      - {key: \"ab*\", limits: 2/s}\n"
    "  - {name: win, limits: 3/m algo=fixed-window}\n"
    "  - {name: some, limits: 1/s, mode: enforce 50%}\n"
    "  - {name: seen, limits: 1/s, mode: shadow}\n";

/* Units of the watched key; below 0: handed back. After the clock has gone back it is not known at which
 * time a key counts: when it was last used, or as late as the clock has ever been, if it was forgotten by
 * then. */
struct event {
    int64_t from_ns, to_ns, n;
};

struct world {
    struct service *service;
    struct worker *worker;
    struct session clients[CLIENTS];
    struct buffer out;
    int64_t requests, before; /* run by this input, and by others before it */
    int changes;              /* that were asked for */
    bool watched;             /* nobody has changed its limits */
    struct event events[EVENTS_MAX];
    size_t event_count;
    int64_t used_ns;   /* of the clock, the latest when the key was used */
    int64_t latest_ns; /* and ever */
    char last[LEDGER_TEXT_MAX];
};

/* What the counters say, of all workers. */
struct sums {
    int64_t commands, errors, allowed, refused, waiting;
    int64_t watched; /* calls that the watched policy has let through */
};

/* ---- the service ---------------------------------------------------------------------------------- */

/* To make a service takes far longer than to run an input. So one is kept, and what an input did to it is
 * undone: keys are reset, the clock and what remembers it go back to 0. After an input that has changed
 * policies, or used many keys, there is a new one. */
static struct {
    struct service *service;
    bool spoiled;
    struct slice touched[TOUCHED_MAX]; /* keys of this input, whatever their policy */
    size_t touched_count;
} kept;

/* Pages come when they are touched: an input needs few of those that a service has. */
int __wrap_madvise(void *memory, size_t bytes, int advice);
int __wrap_madvise(void *memory, size_t bytes, int advice)
{
    (void)memory;
    (void)bytes;
    (void)advice;
    return 0;
}

static bool no_boot(unsigned char id[BOOT_ID_SIZE])
{
    memset(id, 1, BOOT_ID_SIZE);
    return true;
}

static bool no_shift(int64_t *shift_ns)
{
    *shift_ns = 0;
    return true;
}

static void complain(void *arg, const struct config_complaint *complaint)
{
    (void)arg;
    char text[COMPLAINT_TEXT_MAX];
    fprintf(stderr, "%s\n", weir_complaint_text(complaint, true, text));
}

/* Smaller than a file could make it. */
static struct config *read_config(void)
{
    struct config *config = weir_config_parse("fuzz.yaml", yaml, sizeof yaml - 1, complain, NULL);
    MUST(config != NULL);
    config->memory = MEMORY;
    config->client_keys = KEYS;
    for (size_t i = 0; i < config->policy_count; i++)
        config->policies[i].keys = KEYS;
    return config;
}

static void make_service(void)
{
    static struct config *config;
    struct service_options options = {.workers = 1, .test_clock = true};
    struct weir_error err = {0};
    if (!config)
        config = read_config();
    weir_boot.id = no_boot;
    weir_boot.shift = no_shift;
    weir_service_free(kept.service);
    kept.service = weir_service_new(config, &options, &err);
    if (!kept.service)
        fprintf(stderr, "%s\n", err.text);
    MUST(kept.service != NULL);
    kept.spoiled = false;
}

static void touch(struct slice key)
{
    for (size_t i = 0; i < kept.touched_count; i++)
        if (kept.touched[i].len == key.len && memcmp(kept.touched[i].bytes, key.bytes, key.len) == 0)
            return;
    if (kept.touched_count == TOUCHED_MAX)
        kept.spoiled = true;
    else
        kept.touched[kept.touched_count++] = key;
}

static void reset_table(struct weir_table *table)
{
    for (size_t i = 0; i < kept.touched_count; i++)
        weir_table_reset_at(table, 0, kept.touched[i].bytes, kept.touched[i].len);
    atom_store(&table->region->header->floor, 0, memory_order_relaxed);
}

static void reset_ledger(struct service *service)
{
    struct records_stat stat, requests;
    weir_records_stat(service->ledger.reservations, &stat);
    weir_records_stat(service->ledger.requests, &requests);
    if (stat.used > 0 || requests.used > 0) {
        weir_ledger_end(&service->ledger);
        MUST(weir_ledger_init(&service->ledger, 16 * KEYS, 16 * KEYS, NULL));
    }
    weir_records_stat(service->smyte, &stat);
    if (stat.used > 0) {
        weir_records_free(service->smyte);
        MUST((service->smyte = weir_smyte_new(16 * KEYS, NULL)) != NULL);
    }
}

static void clean_service(struct service *service)
{
    const struct snapshot *snapshot = atomic_load(&service->snapshot);
    for (size_t i = 0; i < snapshot->ptable_count && !kept.spoiled; i++)
        reset_table(snapshot->ptables[i]->table);
    reset_table(service->client_keys->table);
    reset_ledger(service);
    service->upkeep.next_end_ns = service->upkeep.measured_ns = 0;
    kept.touched_count = 0;
}

static struct service *fresh_service(void)
{
    if (!kept.service || kept.spoiled)
        make_service();
    weir_clock_set(0);
    return kept.service;
}

/* ---- beginning and end ---------------------------------------------------------------------------- */

static void client_begin(struct world *world, size_t client)
{
    weir_session_begin(&world->clients[client], world->service, client == 0 ? "127.0.0.1:1" : "10.0.0.1:2",
                       "127.0.0.1:9049", weir_now());
    if (client == 0)
        return;
    const struct users *users = atomic_load(&world->service->snapshot)->users;
    const struct user *app = weir_users_find(users, (struct slice){"app", 3});
    weir_session_log_in(&world->clients[client], app, app->generations[0]);
}

static struct sums sums_of(const struct world *world)
{
    struct sums sums = {0};
    for (uint32_t i = 0; i <= world->service->options.workers; i++) {
        const struct worker *worker = &world->service->workers[i];
        sums.commands += worker->commands;
        sums.errors += worker->errors;
        sums.allowed += worker->allowed + worker->client_limits[PROTOCOL_RESP][true];
        sums.refused += worker->refused + worker->client_limits[PROTOCOL_RESP][false];
        sums.waiting += worker->waiting;
    }
    const struct policy *law = weir_snapshot_policy(atomic_load(&world->service->snapshot),
                                                    (struct slice){WATCHED_POLICY, strlen(WATCHED_POLICY)});
    struct policy_sums counts = {0};
    if (law)
        weir_counters_sum(law->counters, &counts);
    sums.watched = counts.allowed;
    return sums;
}

static void world_begin(struct world *world)
{
    *world = (struct world){.watched = true, .out = {.most = OUTPUT_MOST}};
    world->service = fresh_service();
    world->worker = &world->service->workers[0];
    world->before = sums_of(world).commands;
    for (size_t i = 0; i < CLIENTS; i++)
        client_begin(world, i);
}

static void world_end(struct world *world)
{
    for (size_t i = 0; i < CLIENTS; i++)
        weir_session_end(&world->clients[i], world->worker);
    struct sums sums = sums_of(world);
    MUST(sums.waiting == 0);
    MUST(sums.commands == world->before + world->requests);
    weir_buffer_free(&world->out);
    clean_service(world->service);
}

/* ---- what a request is ---------------------------------------------------------------------------- */

static bool is_word(struct slice word, const char *text)
{
    return weir_text_same(word.bytes, word.len, text);
}

enum kind { LOOKS, DECIDES, MAY_DECIDE };

static enum kind kind_of(const struct resp_request *request)
{
    static const char *const names[] = {"weir.take",  "weir.acquire",  "weir.reserve",  "rl.reduce",
                                        "rl.preduce", "rl.sessionize", "rl.psessionize"};
    static const char *const perhaps[] = {"cl.throttle", "throttle", "gcra"}; /* as their quantity is */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_word(request->args[0], names[i]))
            return DECIDES;
    for (size_t i = 0; i < sizeof perhaps / sizeof *perhaps; i++)
        if (is_word(request->args[0], perhaps[i]))
            return MAY_DECIDE;
    return LOOKS;
}

/* Pairs of one of WEIR.TAKE, ACQUIRE, RESERVE, GIVE that was not an error. */
struct words {
    const struct resp_request *request;
    size_t at;
};

static bool next_pair(struct words *words, struct slice *policy, struct slice *key, int64_t *n)
{
    const struct slice *args = words->request->args;
    size_t count = words->request->count;
    if (words->at + 2 > count || (words->at > 1 && !is_word(args[words->at - 1], "and")))
        return false;
    *policy = args[words->at];
    *key = args[words->at + 1];
    *n = 1;
    words->at += 2;
    if (words->at < count && weir_read_integer(args[words->at], n))
        words->at++;
    words->at++; /* AND */
    return true;
}

/* ---- the watched key ------------------------------------------------------------------------------ */

/* Any events in a row: units admitted, less those handed back, and the time between the first and the last.
 * Times of some are known to the millisecond only. */
static void check_law(const struct world *world)
{
    for (size_t first = 0; first < world->event_count; first++) {
        int64_t units = 0;
        for (size_t i = first; i < world->event_count; i++) {
            units = sat_add(units, world->events[i].n);
            int64_t time_ns = sat_sub(world->events[i].to_ns, world->events[first].from_ns);
            MUST(sat_mul(sat_sub(units, WATCHED_BURST), WEIR_SEC) <=
                 sat_mul(WATCHED_RATE, sat_add(time_ns, WEIR_MS)));
        }
    }
}

/* `due_ns`: of a promise; else 0. Promises keep their order, so times rise. */
static void watch_event(struct world *world, int64_t due_ns, int64_t n)
{
    if (!world->watched || n == 0)
        return;
    struct event event = {max64(max64(weir_now(), world->used_ns), due_ns), max64(world->latest_ns, due_ns),
                          n};
    if (world->event_count > 0) {
        const struct event *last = &world->events[world->event_count - 1];
        event.from_ns = max64(event.from_ns, last->from_ns);
        event.to_ns = max64(event.to_ns, last->to_ns);
    }
    MUST(world->event_count < EVENTS_MAX);
    world->events[world->event_count++] = event;
    world->used_ns = max64(world->used_ns, weir_now());
}

/* Promises that are not due yet may have been taken back, the last ones first: they count no more. */
static void watch_return(struct world *world, int64_t n)
{
    int64_t now_ns = max64(weir_now(), world->used_ns);
    while (world->event_count > 0 && world->events[world->event_count - 1].from_ns > now_ns)
        world->event_count--;
    watch_event(world, 0, -n);
}

/* What the pairs of a question take from it, or give back to it. */
static int64_t watched_units(const struct resp_request *request)
{
    struct words words = {request, 1};
    struct slice policy, key;
    int64_t n, units = 0;
    while (next_pair(&words, &policy, &key, &n))
        if (slice_is(policy, WATCHED_POLICY) && slice_is(key, WATCHED_KEY) &&
            __builtin_add_overflow(units, n, &units))
            return INT64_MAX;
    return units;
}

/* Orders after which the law is another one. */
static bool changes_law(const struct resp_request *request)
{
    const struct slice *args = request->args;
    if (request->count < 3)
        return false;
    if (is_word(args[0], "weir.policy"))
        return !is_word(args[1], "show") && (slice_is(args[2], WATCHED_POLICY) || slice_is(args[2], "*"));
    if (is_word(args[0], "weir.override"))
        return !is_word(args[1], "list") && slice_is(args[2], WATCHED_POLICY);
    return is_word(args[0], "weir.reset") && slice_is(args[1], WATCHED_POLICY) &&
           slice_is(args[2], WATCHED_KEY);
}

static void note_reservation(struct world *world, const struct resp_value *reply)
{
    const struct resp_value *id = reply ? weir_resp_get(reply, "id") : NULL;
    if (id && id->type == RESP_BULK)
        (void)snprintf(world->last, sizeof world->last, "%.*s", (int)id->text.len, id->text.bytes);
}

static int64_t number_of(const struct resp_value *reply, const char *name)
{
    const struct resp_value *value = weir_resp_get(reply, name);
    return value ? value->integer : 0;
}

/* After a reply that was no error, or none. A repeated id is told the first answer, but takes nothing: so
 * what the policy has counted tells whether units were taken. */
static void watch_request(struct world *world, const struct session *session,
                          const struct resp_request *request, const struct resp_value *reply, bool taken)
{
    struct slice name = request->args[0];
    if (changes_law(request) || (!reply && (is_word(name, "weir.reserve") || is_word(name, "weir.commit") ||
                                            is_word(name, "weir.cancel")))) {
        world->watched = false;
        return;
    }
    if (is_word(name, "weir.give"))
        watch_event(world, 0, -watched_units(request));
    else if (is_word(name, "weir.commit") || is_word(name, "weir.cancel"))
        watch_return(world, number_of(reply, "given_back"));
    else if (taken && is_word(name, "weir.take"))
        watch_event(world, 0, watched_units(request));
    else if (taken && is_word(name, "weir.reserve"))
        watch_event(world, sat_add(weir_now(), number_of(reply, "due_in_ms") * WEIR_MS),
                    watched_units(request));
    else if (taken && is_word(name, "weir.acquire"))
        watch_event(world, session->pending ? session->pending->due_ns : 0, watched_units(request));
    check_law(world);
}

/* ---- replies -------------------------------------------------------------------------------------- */

/* NULL: there is none, and that is right. */
static struct resp_value *read_reply(struct world *world, const struct session *session,
                                     enum reply_mode before)
{
    struct resp_value *value = NULL;
    size_t len = buffer_len(&world->out), used = 0;
    bool silent = session->replies != REPLY_ON, either = before != REPLY_ON && !silent;
    if (silent)
        MUST(len == 0);
    if (len == 0) {
        MUST(silent || either || session->pending);
        return NULL;
    }
    MUST(weir_resp_parse(buffer_bytes(&world->out), len, &value, &used) == RESP_PARSED);
    MUST(used == len);
    MUST(!weir_resp_get(value, "remaining") || weir_resp_get(value, "remaining")->integer >= 0);
    return value;
}

static void resume(struct world *world, size_t client)
{
    struct session *session = &world->clients[client];
    enum reply_mode before = session->replies;
    if (!session->pending || weir_service_resume(world->worker, session, &world->out).state == RUN_PENDING)
        return;
    MUST(!session->pending);
    struct resp_value *value = read_reply(world, session, before);
    MUST(!value ||
         (weir_resp_get(value, "allowed")->integer == 1 && weir_resp_get(value, "waited_ms")->integer >= 0));
    weir_resp_value_free(value);
    weir_buffer_drop(&world->out, buffer_len(&world->out), 0);
}

/* ---- requests ------------------------------------------------------------------------------------- */

static void check_counters(const struct resp_request *request, const struct sums *before,
                           const struct sums *after)
{
    int64_t decided = after->allowed + after->refused - before->allowed - before->refused;
    int64_t errors = after->errors - before->errors;
    enum kind kind = kind_of(request);
    MUST(after->commands == before->commands + 1);
    MUST(decided >= 0 && errors >= 0 && decided + errors <= 1);
    MUST(kind != LOOKS || decided == 0);
    MUST(kind != DECIDES || decided + errors == 1);
}

/* Of an answer that is no error. */
static void check_rights(const struct session *session, const struct resp_request *request)
{
    struct words words = {request, 1};
    struct slice policy, key;
    int64_t n;
    if (strcmp(session->user, "app") != 0)
        return;
    MUST(!is_word(request->args[0], "weir.give") && !is_word(request->args[0], "weir.charge"));
    MUST(!is_word(request->args[0], "weir.reset") && !is_word(request->args[0], "weir.reload"));
    if (!is_word(request->args[0], "weir.take") && !is_word(request->args[0], "weir.reserve") &&
        !is_word(request->args[0], "weir.acquire") && !is_word(request->args[0], "weir.peek"))
        return;
    while (next_pair(&words, &policy, &key, &n))
        MUST(slice_is(policy, "api") && key.len > 0 && key.bytes[0] == 'a');
}

static bool is_change(const struct resp_request *request)
{
    return request->count > 2 && !is_word(request->args[1], "show") && !is_word(request->args[1], "list") &&
           (is_word(request->args[0], "weir.policy") || is_word(request->args[0], "weir.override"));
}

static bool is_login(const struct resp_request *request)
{
    return is_word(request->args[0], "auth") || is_word(request->args[0], "hello");
}

/* What has to be undone. */
static void note_traces(const struct resp_request *request)
{
    struct words words = {request, 1};
    struct slice policy, key, name = request->args[0];
    int64_t n;
    if (is_change(request))
        kept.spoiled = true;
    else if (name.len > 5 && weir_text_same(name.bytes, 5, "weir."))
        while (next_pair(&words, &policy, &key, &n))
            touch(key);
    else if (request->count > 1)
        touch(request->args[1]);
}

static enum run_state run(struct world *world, struct session *session, const struct resp_request *request)
{
    struct run_result result = weir_service_run(world->worker, session, request, 1, &world->out);
    MUST(result.done == 1);
    MUST((result.state == RUN_PENDING) == (session->pending != NULL));
    if (session->pending && !pending_waits(session->pending)) {
        weir_pending_work(world->service, session);
        result = weir_service_resume(&world->service->workers[0], session, &world->out);
    }
    MUST((result.state == RUN_PENDING) == (session->pending != NULL));
    MUST(!world->out.failed);
    return result.state;
}

static void ask(struct world *world, size_t client, const struct resp_request *request)
{
    struct session *session = &world->clients[client];
    if (is_change(request) && ++world->changes > CHANGES_MAX)
        return;
    if (session->pending) { /* it leaves, and comes back */
        weir_session_end(session, world->worker);
        watch_return(world, 0);
        client_begin(world, client);
    }
    struct sums before = sums_of(world);
    enum reply_mode replies = session->replies;
    enum run_state state = run(world, session, request);
    struct sums after = sums_of(world);
    world->requests++;
    check_counters(request, &before, &after);
    struct resp_value *reply = read_reply(world, session, replies);
    bool failed = after.errors > before.errors;
    kept.spoiled |= failed && is_login(request); /* it is remembered */
    MUST(!reply || failed == (reply->type == RESP_ERROR));
    if (!failed) {
        note_traces(request);
        note_reservation(world, reply);
        check_rights(session, request);
        watch_request(world, session, request, reply, after.watched > before.watched);
    }
    weir_resp_value_free(reply);
    weir_buffer_drop(&world->out, buffer_len(&world->out), 0);
    if (is_word(request->args[0], "weir.clock")) {
        world->latest_ns = max64(world->latest_ns, weir_now());
        weir_service_tick(world->service);
        for (size_t i = 0; i < CLIENTS; i++)
            resume(world, i);
    }
    if (state == RUN_CLOSE) {
        weir_session_end(session, world->worker);
        client_begin(world, client);
    }
}

/* Reads the next request and runs it; gives how many bytes are done with. */
static size_t step(struct world *world, char *bytes, size_t len)
{
    static const struct resp_limits limits = {.args = WORDS, .bulk = 1 << 16, .all = 1 << 20};
    struct slice args[WORDS];
    struct resp_reader reader = {0};
    struct resp_request_info got;
    size_t client = bytes[0] == '@';
    if (client == len)
        return len;
    switch (weir_resp_read(&reader, &limits, bytes + client, len - client, args, &got)) {
    case RESP_REQUEST:
        for (size_t i = 1; i < got.words; i++)
            if (slice_is(args[i], "last"))
                args[i] = (struct slice){world->last, strlen(world->last)};
        ask(world, client, &(struct resp_request){args, got.words});
        return client + got.used;
    case RESP_NOTHING:
        return client + got.used;
    case RESP_MORE:
        return len;
    case RESP_BAD:
        break;
    }
    const char *end = memchr(bytes, '\n', len); /* a new line, a new chance */
    return end ? (size_t)(end + 1 - bytes) : len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world world;
    char *bytes = malloc(size + 1); /* of just this size, so that a sanitizer sees one byte too many */
    if (!bytes)
        return 0;
    if (size > 0)
        memcpy(bytes, data, size);
    bytes[size] = '\n'; /* the last line needs no end */
    world_begin(&world);
    for (size_t at = 0; at < size && world.requests < REQUESTS_MAX;)
        at += step(&world, bytes + at, size + 1 - at);
    world_end(&world);
    free(bytes);
    return 0;
}
