/* SPDX-License-Identifier: MIT */
/*
 * Hostile bytes to a service that speaks HTTP, as one connection sends them. What must hold:
 *
 *   every whole request has one response, well-formed, as long as it says; one that is JSON is strict JSON
 *   a response that is an error or a refusal has changed nothing of the watched key
 *   no response has taken more than there was
 *   who asks without credentials gets nothing that only `ops` may do
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/must.h"
#include "os/boot.h"
#include "resp/reply.h"
#include "service/http/http.h"
#include "service/pending.h"
#include "service/policies/growth.h"
#include "service/run.h"
#include "unit/service/response_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MEMORY       (4 << 20)
#define KEYS         64
#define OUTPUT_MOST  (8 << 20)
#define REQUESTS_MAX 40
#define INPUTS_MAX   100000 /* of one service: an hour each */
#define TICK_EVERY   256
#define HOUR_NS      (3600 * WEIR_SEC)

static const char yaml[] = "memory: 8MiB\n"
                           "routes:\n"
                           "  - {match: {path: /open}, policy: none}\n"
                           "  - {match: {path: /two}, policy: [law, api], key: [header:x-key]}\n"
                           "  - {match: {path: /*}, policy: law, key: [header:x-key, query:k, address]}\n"
                           "http: {cors: [\"https://a.example\"]}\n"
                           "users:\n"
                           "  - {name: default, may: [take, look, adjust]}\n"
                           "  - {name: app, password: x, may: [take], keys: [\"a*\"], policies: [api]}\n"
                           "  - {name: ops, password: y, may: all}\n"
                           "policies:\n"
                           "  - {name: law, limits: 10/s, ids: 10s, reserve: {ttl: 5s}}\n"
                           "  - {name: api, limits: ['10/s burst=20 name=a\"\\b', 1000/m timeout=2s]}\n"
                           "  - {name: win, limits: 3/m algo=fixed-window}\n"
                           "  - {name: seen, limits: 1/m, mode: shadow}\n"
                           "  - {name: none, limits: unlimited}\n";

static struct {
    struct service *service;
    struct worker *worker;
    struct session client, judge;
    struct buffer out;
    int64_t inputs;
    uint64_t epoch; /* when it was made */
} world;

int __wrap_madvise(void *memory, size_t bytes, int advice);
int __wrap_madvise(void *memory, size_t bytes, int advice)
{
    (void)memory, (void)bytes, (void)advice;
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
    char text[COMPLAINT_TEXT_MAX];
    (void)arg;
    fprintf(stderr, "%s\n", weir_complaint_text(complaint, true, text));
}

static void make_service(void)
{
    static const struct service_options options = {.workers = 1, .test_clock = true};
    struct weir_error err = {0};
    struct config *config = weir_config_parse("fuzz.yaml", yaml, sizeof yaml - 1, complain, NULL);
    MUST(config != NULL);
    config->memory = MEMORY;
    config->client_keys = KEYS;
    for (size_t i = 0; i < config->policy_count; i++)
        config->policies[i].keys = KEYS;
    weir_boot.id = no_boot;
    weir_boot.shift = no_shift;
    weir_service_free(world.service);
    world.service = weir_service_new(config, &options, &err);
    MUST(world.service != NULL);
    weir_config_free(config);
    world.worker = &world.service->workers[0];
    world.epoch = atomic_load(&world.service->epoch);
    world.inputs = 0;
}

/* What is left of the watched key. */
static int64_t look(void)
{
    static const struct slice words[] = {{"WEIR.PEEK", 9}, {"law", 3}, {"w", 1}};
    const struct resp_request request = {words, 3};
    struct buffer out = {.most = 4096};
    struct resp_value *value = NULL;
    size_t used;
    (void)weir_service_run(world.worker, &world.judge, &request, 1, &out);
    MUST(weir_resp_parse(buffer_bytes(&out), buffer_len(&out), &value, &used) == RESP_PARSED);
    const struct resp_value *remaining = weir_resp_get(value, "remaining");
    MUST(remaining != NULL);
    int64_t left = remaining->integer;
    weir_resp_value_free(value);
    weir_buffer_free(&out);
    MUST(left >= 0 && left <= 10);
    return left;
}

/* Another has changed what is in force: what is watched is not known any more. */
static bool is_spoiled(void)
{
    return atomic_load(&world.service->epoch) != world.epoch;
}

static void check_response(const struct http_request *request, int64_t before)
{
    struct response response;
    const char *bytes = buffer_bytes(&world.out);
    size_t len = buffer_len(&world.out);
    const char *wrong = read_response(&response, bytes, len, request->method == HTTP_HEAD);
    if (wrong)
        fprintf(stderr, "%s in %.*s\n", wrong, (int)len, bytes);
    MUST(wrong == NULL && response.used == len);
    const char *type = response_field(&response, "Content-Type");
    if (type && strstr(type, "json") && request->method != HTTP_HEAD)
        MUST(is_strict_json(response.body, response.body_len));
    if (response.status >= 400 && !is_spoiled())
        MUST(look() == before);
    bool administers = response.status == 200 && is_spoiled();
    MUST(!administers || strcmp(world.client.user, "ops") == 0);
}

/* Jobs and logins at once; who waits goes away. */
static struct run_result run_to_the_end(struct http_request *request, bool admin)
{
    struct run_result result = weir_http_run(world.worker, &world.client, request, admin, &world.out);
    while (result.state == RUN_PENDING && !pending_waits(world.client.pending)) {
        bool again = result.done == 0;
        weir_pending_work(world.service, &world.client);
        result = weir_service_resume(world.worker, &world.client, &world.out);
        if (again && result.state == RUN_READY)
            result = weir_http_run(world.worker, &world.client, request, admin, &world.out);
    }
    return result;
}

/* Returns the bytes of the first request; 0: there is no more. */
static size_t run_one(char *bytes, size_t len, bool admin)
{
    static const struct http_limits limits = {.head = 2048, .body = 8192};
    struct http_request request;
    struct http_parse_result parsed;
    enum http_parsed got = weir_http_parse(&limits, bytes, len, &request, &parsed);
    if (got == HTTP_MORE)
        return 0;
    weir_buffer_drop(&world.out, buffer_len(&world.out), OUTPUT_MOST);
    int64_t before = is_spoiled() ? 0 : look();
    if (got == HTTP_BAD) {
        request.method = HTTP_GET; /* nothing of it is known for sure */
        weir_http_refuse(world.worker, parsed.status, parsed.why, &world.out);
        check_response(&request, before);
        return 0;
    }
    struct run_result result = run_to_the_end(&request, admin);
    MUST(!world.out.failed);
    if (result.state == RUN_PENDING) {
        MUST(buffer_len(&world.out) == 0);
        weir_pending_cancel(world.worker, &world.client);
        MUST(is_spoiled() || look() == before);
        return 0;
    }
    MUST(result.done == 1);
    check_response(&request, before);
    return result.state == RUN_CLOSE ? 0 : parsed.used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (!world.service || is_spoiled() || world.inputs >= INPUTS_MAX)
        make_service();
    weir_clock_set(world.inputs++ * HOUR_NS); /* all limits are idle again, all failed logins forgotten */
    if (world.inputs % TICK_EVERY == 0)
        weir_service_tick(world.service); /* takes longer than many inputs */
    world.epoch = atomic_load(&world.service->epoch);
    world.out = (struct buffer){.most = OUTPUT_MOST};
    weir_session_begin(&world.client, world.service, "127.0.0.1:1", "127.0.0.1:9050", weir_now());
    weir_session_begin(&world.judge, world.service, "127.0.0.1:2", "127.0.0.1:9049", weir_now());
    world.client.version = world.judge.version = 3;
    bool admin = data[0] != '!';
    char *bytes = malloc(size);
    MUST(bytes != NULL);
    memcpy(bytes, data, size);
    size_t at = admin ? 0 : 1;
    for (size_t used = 1, count = 0; used > 0 && count < REQUESTS_MAX && at < size; at += used, count++)
        used = run_one(bytes + at, size - at, admin);
    free(bytes);
    weir_session_end(&world.client, world.worker);
    weir_session_end(&world.judge, world.worker);
    weir_buffer_free(&world.out);
    return 0;
}
