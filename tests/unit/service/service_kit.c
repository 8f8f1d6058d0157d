/* SPDX-License-Identifier: MIT */
#include "unit/service/service_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/http/http.h"
#include "service/pending.h"
#include "service/policies/change.h"
#include "service/policies/growth.h"
#include "service/run.h"

#define LINE_WORDS 64
#define LINES_MAX  256
#define KIT_MEMORY (INT64_C(64) << 20)
#define KIT_HEAD   16384
#define KIT_BODY   (1 << 20)

/* ---- making ---- */

static void complain(void *arg, const struct config_complaint *complaint)
{
    (void)arg;
    char text[COMPLAINT_TEXT_MAX];
    printf("# %s\n", weir_complaint_text(complaint, true, text));
}

static struct config *read_config(const char *yaml)
{
    return yaml ? weir_config_parse("weir.yaml", yaml, strlen(yaml), complain, NULL) : weir_config_new();
}

/* Tests make many of them. */
static bool stay_small(void *arg, struct config *config)
{
    (void)arg;
    config->memory = KIT_MEMORY;
    return true;
}

bool kit_open_with(struct kit *kit, const char *yaml, const struct service_options *options)
{
    struct weir_error err;
    struct config *config = read_config(yaml);
    struct service_options small = *options;
    *kit = (struct kit){0};
    if (!config)
        return false;
    if (!yaml || !strstr(yaml, "memory:")) {
        small.above = stay_small;
        stay_small(NULL, config);
    }
    kit->service = weir_service_new(config, &small, &err);
    weir_config_free(config);
    if (!kit->service) {
        printf("# %s\n", err.text);
        return false;
    }
    kit->worker = &kit->service->workers[0];
    weir_session_begin(&kit->session, kit->service, "127.0.0.1:50000", "127.0.0.1:9049", weir_now());
    return true;
}

bool kit_open(struct kit *kit, const char *yaml)
{
    struct service_options options = {.workers = 1, .test_clock = true};
    return kit_open_with(kit, yaml, &options);
}

void kit_leave(struct kit *kit)
{
    weir_session_end(&kit->session, kit->worker);
    weir_buffer_free(&kit->out);
}

void kit_close(struct kit *kit)
{
    kit_leave(kit);
    weir_service_free(kit->service);
}

void kit_join(struct kit *kit, const struct kit *first, uint32_t worker)
{
    *kit = (struct kit){.service = first->service, .worker = &first->service->workers[worker]};
    weir_session_begin(&kit->session, kit->service, "127.0.0.1:50001", "127.0.0.1:9049", weir_now());
}

void kit_log_in(struct kit *kit, const char *name)
{
    const struct users *users = atomic_load(&kit->service->snapshot)->users;
    const struct user *user = weir_users_find(users, (struct slice){name, strlen(name)});
    struct user gone = {0};
    (void)snprintf(gone.name, sizeof gone.name, "%s", name);
    weir_session_log_in(&kit->session, user ? user : &gone, user ? user->generations[0] : 0);
}

bool kit_policy(struct kit *kit, const char *name, const char *limits)
{
    struct weir_error err;
    bool done = weir_change_policy(kit->service, (struct slice){name, strlen(name)}, limits, false, &err);
    if (!done)
        printf("# %s\n", err.text);
    return done;
}

void kit_clock(struct kit *kit, int64_t now_ms)
{
    (void)kit;
    weir_clock_set(now_ms * WEIR_MS);
}

void kit_tick(struct kit *kit)
{
    weir_service_tick(kit->service);
}

/* ---- asking ---- */

static const char *reply_of(struct kit *kit)
{
    char *end = weir_buffer_room(&kit->out, 1);
    if (!end)
        return "";
    *end = '\0';
    return buffer_bytes(&kit->out);
}

static void resume(struct kit *kit)
{
    struct run_result result = weir_service_resume(kit->worker, &kit->session, &kit->out);
    kit->state = result.state;
    kit->changed |= result.changed;
}

void kit_work(struct kit *kit)
{
    if (kit->state != RUN_PENDING || pending_waits(kit->session.pending))
        return;
    weir_pending_work(kit->service, &kit->session);
    resume(kit);
}

static void run(struct kit *kit, const struct resp_request *requests, size_t count)
{
    size_t done = 0;
    while (done < count) {
        struct run_result result =
            weir_service_run(kit->worker, &kit->session, requests + done, count - done, &kit->out);
        done += result.done;
        kit->state = result.state;
        kit->changed |= result.changed;
        kit_work(kit);
        if (kit->state != RUN_READY)
            break;
    }
}

static void clear(struct kit *kit)
{
    weir_buffer_drop(&kit->out, buffer_len(&kit->out), 1 << 20);
    kit->out.failed = false;
    kit->state = RUN_READY;
    kit->changed = false;
}

const char *kit_ask_words(struct kit *kit, const struct slice *words, size_t count)
{
    struct resp_request request = {words, count};
    clear(kit);
    run(kit, &request, 1);
    return reply_of(kit);
}

struct line {
    char *bytes;
    struct slice words[LINE_WORDS];
    size_t count;
};

static bool read_line(struct line *line, const char *text)
{
    static const struct resp_limits limits = {.args = LINE_WORDS, .bulk = 1 << 16, .all = 1 << 20};
    struct resp_reader reader = {0};
    struct resp_request_info got;
    size_t len = strlen(text);
    line->bytes = malloc(len + 3);
    if (!line->bytes)
        return false;
    (void)snprintf(line->bytes, len + 3, "%s\r\n", text);
    if (weir_resp_read(&reader, &limits, line->bytes, len + 2, line->words, &got) != RESP_REQUEST) {
        printf("# not a request: %s\n", text);
        return false;
    }
    line->count = got.words;
    return true;
}

const char *kit_ask_lines(struct kit *kit, const char *const *lines, size_t count)
{
    static struct line read[LINES_MAX]; /* tests of threads ask one line at a time */
    struct resp_request requests[LINES_MAX];
    bool good = count <= LINES_MAX;
    size_t have = 0;
    for (; good && have < count; have++) {
        good = read_line(&read[have], lines[have]);
        requests[have] = (struct resp_request){read[have].words, read[have].count};
    }
    clear(kit);
    if (good)
        run(kit, requests, count);
    for (size_t i = 0; i < have; i++)
        free(read[i].bytes);
    return reply_of(kit);
}

const char *kit_ask(struct kit *kit, const char *text)
{
    struct line line;
    const char *reply = "";
    if (read_line(&line, text))
        reply = kit_ask_words(kit, line.words, line.count);
    free(line.bytes);
    return reply;
}

/* The first request in the bytes, until it is answered, or waits; returns its length, 0: it is none. */
static size_t run_http(struct kit *kit, char *bytes, size_t len)
{
    static const struct http_limits limits = {.head = KIT_HEAD, .body = KIT_BODY};
    struct http_request request;
    struct http_parse_result parsed;
    struct run_result result = {.done = 0};
    do {
        enum http_parsed got = weir_http_parse(&limits, bytes, len, &request, &parsed);
        if (got == HTTP_BAD)
            weir_http_refuse(kit->worker, parsed.status, parsed.why, &kit->out);
        if (got != HTTP_WHOLE)
            return 0;
        result = weir_http_run(kit->worker, &kit->session, &request, !kit->not_admin, &kit->out);
        kit->state = result.state;
        kit->changed |= result.changed;
        kit_work(kit);
    } while (result.done == 0 && kit->state == RUN_READY);
    return parsed.used;
}

const char *kit_ask_http(struct kit *kit, const char *text, size_t len)
{
    char *bytes = malloc(len);
    clear(kit);
    kit->session.version = 3;
    if (!bytes)
        return "";
    memcpy(bytes, text, len);
    for (size_t at = 0, used; at < len && kit->state == RUN_READY; at += used)
        if ((used = run_http(kit, bytes + at, len - at)) == 0)
            break;
    free(bytes);
    return reply_of(kit);
}

const char *kit_resume(struct kit *kit)
{
    clear(kit);
    resume(kit);
    return reply_of(kit);
}

/* ---- reading answers ---- */

/* What follows the name, as "$7\r\nallowed\r\n" stands in the answer; NULL: it does not. */
static const char *find_field(const char *reply, const char *name)
{
    char field[128];
    (void)snprintf(field, sizeof field, "$%zu\r\n%s\r\n", strlen(name), name);
    const char *at = strstr(reply, field);
    return at ? at + strlen(field) : NULL;
}

int64_t kit_field(const char *reply, const char *name)
{
    const char *at = find_field(reply, name);
    if (at && at[0] == '#')
        return at[1] == 't';
    return at && at[0] == ':' ? strtoll(at + 1, NULL, 10) : INT64_MIN;
}

const char *kit_text(const char *reply, const char *name)
{
    static _Thread_local char text[1024];
    const char *at = find_field(reply, name);
    char *end;
    text[0] = '\0';
    if (!at || at[0] != '$')
        return text;
    size_t len = strtoull(at + 1, &end, 10);
    if (len < sizeof text && end[0] == '\r')
        (void)snprintf(text, len + 1, "%s", end + 2);
    return text;
}
