/* SPDX-License-Identifier: MIT */
#include "service/http/http.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/text.h"
#include "http/json.h"
#include "http/uri.h"
#include "service/health.h"
#include "service/http/access.h"
#include "service/http/forward_auth.h"
#include "service/http/openapi.h"
#include "service/http/response.h"
#include "service/http/words.h"
#include "service/run.h"

#define REFUSAL_STATUS 429
#define PATH_V1        "/v1/"

/* A request while it is being run. */
struct http_run {
    struct worker *worker;
    struct session *session;
    struct http_request *request;
    struct http_exchange http;
    struct buffer *out;
    bool admin;
    struct run_result result;
};

static void answer_problem(struct http_run *run, int status, const char *detail)
{
    weir_response_problem(run->worker, &run->http, run->out, status, detail, NULL);
}

/* ---- finish ----------------------------------------------------------------------------------- */

/* Who has logged in by HTTP reads no version 2, whatever RESET says. */
static void finish_login(struct call *call, size_t before)
{
    struct buffer *out = call->reply.out;
    struct session *session = call->session;
    session->version = 3;
    session->credential = call->failed ? 0 : call->http->credential;
    if (!call->failed) {
        out->end = out->start + before;
        return;
    }
    struct http_exchange http = *call->http;
    http.kind = EXCHANGE_RESPONSE;
    http.closes = true; /* the request that needed it is not looked at any more */
    session->closing = true;
    (void)weir_response_of_reply(call->worker, &http, out, before);
}

void weir_http_finish(struct call *call, size_t before)
{
    struct buffer *out = call->reply.out;
    const struct http_exchange *http = call->http;
    if (http->kind == EXCHANGE_LOGIN) {
        finish_login(call, before);
        return;
    }
    char first = out->failed ? 'H' : buffer_bytes(out)[before];
    if (first != 'H' && first != '{') /* neither a response nor an element yet */
        (void)weir_response_of_reply(call->worker, http, out, before);
    if (http->kind == EXCHANGE_ELEMENT)
        buffer_put(out, ",", 1);
    else if (http->closes)
        call->session->closing = true;
}

/* ---- logging in ------------------------------------------------------------------------------- */

static void run_words(struct http_run *run, const struct slice *words, size_t count)
{
    const struct resp_request request = {words, count};
    run->result = weir_run_requests(run->worker, run->session, &request, 1, &run->http, run->out);
}

/* A hash that nobody can foresee, so that the same credentials are not checked with each request. */
static uint64_t hash_credentials(const struct http_run *run, const struct slice *value)
{
    uint64_t hash = value ? weir_hash(&run->worker->service->credential_key, value->bytes, value->len) : 0;
    return value ? hash | 1 : 0;
}

/* AUTH with what was said: a token has no name. */
static void run_auth_words(struct http_run *run, const struct http_credentials *credentials)
{
    bool bearer = credentials->kind == CREDENTIALS_BEARER;
    const struct slice words[] = {{"AUTH", 4},
                                  bearer ? (struct slice){"", 0} : credentials->name,
                                  bearer ? credentials->token : credentials->password};
    if (credentials->kind != CREDENTIALS_BAD)
        run_words(run, words, 3);
}

static void answer_bad_credentials(struct http_run *run, const char *why)
{
    size_t before = buffer_len(run->out);
    struct reply reply = {run->out, 3};
    weir_reply_error(&reply, "WRONGPASS %s", why);
    (void)weir_response_of_reply(run->worker, &run->http, run->out, before);
}

/* Each request says who asks; a connection may carry those of several users, as a proxy's does. false: it was
 * answered, or the credentials are being checked. */
static bool log_in_by_request(struct http_run *run, const char *field)
{
    struct session *session = run->session;
    uint64_t credential = hash_credentials(run, weir_http_header(run->request, field));
    if (credential == session->credential &&
        (credential == 0 || weir_session_user(session, run->worker->snapshot)))
        return true;
    const struct slice reset = {"RESET", 5};
    struct http_exchange own = run->http;
    struct http_credentials credentials;
    weir_http_credentials_read(run->request, field, &credentials);
    run->http.kind = EXCHANGE_LOGIN;
    run->http.credential = 0;
    run_words(run, &reset, 1);
    run->http.credential = credential;
    if (credentials.kind != CREDENTIALS_NONE)
        run_auth_words(run, &credentials);
    run->http = own;
    const char *why = credentials.why;
    weir_http_credentials_wipe(&credentials);
    if (why)
        answer_bad_credentials(run, why);
    if (run->result.state == RUN_PENDING)
        run->result.done = 0;
    return !why && run->result.state == RUN_READY;
}

/* ---- batches ---------------------------------------------------------------------------------- */

struct http_batch {
    struct resp_request requests[HTTP_BATCH_MAX]; /* `args` are set when all words are there */
    size_t count;
    struct slice *words;
    size_t word_count, word_room;
};

static bool keep_words(struct http_batch *batch, const struct http_words *words)
{
    if (batch->word_count + words->count > batch->word_room) {
        size_t room = 2 * batch->word_room + 4 * HTTP_WORDS_MAX;
        struct slice *more = realloc(batch->words, room * sizeof *more);
        if (!more)
            return false;
        batch->words = more;
        batch->word_room = room;
    }
    memcpy(batch->words + batch->word_count, words->words, words->count * sizeof *words->words);
    batch->requests[batch->count++] = (struct resp_request){NULL, words->count};
    batch->word_count += words->count;
    return true;
}

/* All of it is read before any of it is run: what is written wrongly changes nothing. */
static bool read_batch(struct http_run *run, struct http_batch *batch)
{
    struct json_reader reader;
    struct http_words words;
    struct slice name = {0};
    char why[HTTP_WHY_MAX + 64];
    weir_json_begin(&reader, (char *)(uintptr_t)run->request->body.bytes, run->request->body.len);
    if (!weir_json_enter(&reader, '{') || !weir_json_member(&reader, &name) || !slice_is(name, "requests") ||
        !weir_json_enter(&reader, '[')) {
        answer_problem(run, 400, "the body of a batch is {\"requests\": [{\"op\": \"take\", ...}, ...]}");
        return false;
    }
    while (weir_json_element(&reader)) {
        if (batch->count == HTTP_BATCH_MAX) {
            answer_problem(run, 400, "a batch has at most 1000 requests");
            return false;
        }
        if (!weir_http_words_of_element(&words, &reader)) {
            (void)snprintf(why, sizeof why, "requests[%zu]: %s", batch->count, words.why);
            answer_problem(run, 400, why);
            return false;
        }
        if (!keep_words(batch, &words)) {
            answer_problem(run, 503, "out of memory: nothing was decided");
            return false;
        }
    }
    if (!weir_json_member(&reader, &name) && weir_json_end(&reader))
        return true;
    (void)snprintf(why, sizeof why, "the body is not what it should be: %s",
                   reader.why[0] ? reader.why : "a batch has no field but requests");
    answer_problem(run, 400, why);
    return false;
}

static void run_batch_requests(struct http_run *run, struct http_batch *batch)
{
    size_t body_at = buffer_len(run->out);
    const struct slice *words = batch->words;
    for (size_t i = 0; i < batch->count; i++) {
        batch->requests[i].args = words;
        words += batch->requests[i].count;
    }
    buffer_put(run->out, "{\"answers\":[", 12);
    run->http.kind = EXCHANGE_ELEMENT;
    run->http.text = false; /* for programs, whatever they accept */
    run->result =
        weir_run_requests(run->worker, run->session, batch->requests, batch->count, &run->http, run->out);
    run->http.kind = EXCHANGE_RESPONSE;
    run->result.done = 1;
    if (run->out->failed)
        return;
    run->out->end -= batch->count > 0; /* the last comma */
    buffer_put(run->out, "]}", 2);
    weir_response_finish(run->worker, &run->http, run->out, body_at, 200, TYPE_JSON, NULL);
}

static void run_batch(struct http_run *run)
{
    struct http_batch *batch = malloc(sizeof *batch);
    if (!batch) {
        answer_problem(run, 503, "out of memory: nothing was decided");
        return;
    }
    batch->count = batch->word_count = batch->word_room = 0;
    batch->words = NULL;
    if (read_batch(run, batch))
        run_batch_requests(run, batch);
    free(batch->words);
    free(batch);
}

/* ---- options of a request --------------------------------------------------------------------- */

static bool read_headers_option(struct http_exchange *http, struct slice value)
{
    static const char *const names[] = {[RATE_HEADERS_IETF] = "ietf",
                                        [RATE_HEADERS_IETF_06] = "ietf-06",
                                        [RATE_HEADERS_X] = "x",
                                        [RATE_HEADERS_X_EPOCH] = "x-epoch",
                                        [RATE_HEADERS_NONE] = "none"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (slice_is(value, names[i])) {
            http->headers = (enum rate_headers)i;
            http->headers_asked = true;
            return true;
        }
    return false;
}

static bool read_options(struct http_run *run)
{
    struct slice rest = run->request->query, name, value;
    while (weir_query_next(&rest, &name, &value)) {
        if (slice_is(name, "status")) {
            if (!slice_is(value, "200") && !slice_is(value, "403") && !slice_is(value, "429")) {
                answer_problem(run, 400, "status is 429, 403 or 200: the status of a refusal");
                return false;
            }
            run->http.refusal_status = (int16_t)(100 * (value.bytes[0] - '0') + 10 * (value.bytes[1] - '0') +
                                                 (value.bytes[2] - '0'));
        } else if (slice_is(name, "headers") && !read_headers_option(&run->http, value)) {
            answer_problem(run, 400, "headers is ietf, ietf-06, x, x-epoch or none");
            return false;
        }
    }
    return true;
}

/* People with curl say what they want to read; anything else gets JSON. */
static bool wants_text(const struct http_request *request)
{
    const struct slice *accept = weir_http_header(request, "accept");
    return accept && accept->len >= 10 && weir_text_same(accept->bytes, 10, "text/plain");
}

/* ---- endpoints -------------------------------------------------------------------------------- */

static void answer_not_allowed(struct http_run *run, unsigned allowed)
{
    static const struct {
        enum http_method method;
        const char *name;
    } methods[] = {{HTTP_GET, "GET"},
                   {HTTP_HEAD, "HEAD"},
                   {HTTP_POST, "POST"},
                   {HTTP_PUT, "PUT"},
                   {HTTP_DELETE, "DELETE"}};
    struct response_fields fields = {.len = 0};
    const char *between = "Allow: ";
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (allowed & methods[i].method) {
            weir_response_field(&fields, "%s%s", between, methods[i].name);
            between = ", ";
        }
    weir_response_field(&fields, "\r\n");
    weir_response_problem(run->worker, &run->http, run->out, 405,
                          "this path has other methods: see Allow, and GET /v1/openapi.json", &fields);
}

static void answer_not_found(struct http_run *run, struct slice behind_v1)
{
    char text[160];
    const char *near = behind_v1.bytes ? weir_endpoint_near(behind_v1) : NULL;
    (void)snprintf(text, sizeof text, "there is no such path%s%s%s; GET /v1/openapi.json lists all of them",
                   near ? "; did you mean /v1/" : "", near ? near : "", near ? "?" : "");
    answer_problem(run, 404, text);
}

/* EXPLAIN is for people; programs ask for JSON. */
static void add_format(const struct http_run *run, struct http_words *words)
{
    if (run->http.endpoint->flags & ENDPOINT_TEXT && !run->http.text && words->count < HTTP_WORDS_MAX)
        words->words[words->count++] = (struct slice){"JSON", 4};
}

static void run_endpoint(struct http_run *run, const struct endpoint *endpoint, struct slice policy,
                         struct slice key)
{
    struct http_words words;
    run->http.endpoint = endpoint;
    if (!weir_http_words(&words, endpoint, run->request, policy, key)) {
        answer_problem(run, 400, words.why);
        return;
    }
    add_format(run, &words);
    run_words(run, words.words, words.count);
}

static void run_v1(struct http_run *run, struct slice path)
{
    struct slice policy = {0}, key = {0};
    unsigned allowed;
    if (slice_is(path, "batch")) {
        if (run->request->method == HTTP_POST)
            run_batch(run);
        else
            answer_not_allowed(run, HTTP_POST);
        return;
    }
    const struct endpoint *endpoint = weir_endpoint_find(path, run->request->method, &policy, &key, &allowed);
    if (endpoint && endpoint->flags & ENDPOINT_ADMIN && !run->admin)
        answer_problem(run, 404, "this is served on the address of listen: {admin: ...} alone");
    else if (endpoint)
        run_endpoint(run, endpoint, policy, key);
    else if (allowed)
        answer_not_allowed(run, allowed);
    else
        answer_not_found(run, path);
}

/* ---- paths of their own ----------------------------------------------------------------------- */

static void run_metrics(struct http_run *run)
{
    const struct slice *accept = weir_http_header(run->request, "accept");
    static const char open[] = "application/openmetrics-text";
    bool openmetrics = accept && weir_text_contains(accept->bytes, accept->len, open, sizeof open - 1);
    const struct slice words[] = {{"WEIR.METRICS", 12}, {"OPENMETRICS", 11}};
    run->http.kind = openmetrics ? EXCHANGE_OPENMETRICS : EXCHANGE_METRICS;
    if (run->admin)
        run_words(run, words, openmetrics ? 2 : 1);
    else
        answer_problem(run, 404, "this is served on the address of listen: {admin: ...} alone");
}

static void answer_openapi(struct http_run *run)
{
    size_t body_at = buffer_len(run->out);
    weir_openapi_write(run->out);
    weir_response_finish(run->worker, &run->http, run->out, body_at, 200, TYPE_JSON, NULL);
}

static void answer_index(struct http_run *run)
{
    size_t body_at = buffer_len(run->out);
    weir_buffer_print(run->out, "weir, a rate limiter\n\n"
                                "  curl http://HOST/v1/take/POLICY/KEY       takes one unit: 200 or 429\n"
                                "  GET  /v1/policies                         the policies\n"
                                "  GET  /v1/openapi.json                     everything that can be asked\n"
                                "  GET  /metrics                             for Prometheus\n"
                                "  GET  /livez, /readyz                      for probes\n");
    weir_response_finish(run->worker, &run->http, run->out, body_at, 200, TYPE_TEXT, NULL);
}

static void answer_live(struct http_run *run)
{
    size_t body_at = buffer_len(run->out);
    uint32_t silent;
    int64_t now_ms =
        atomic_load_explicit(&run->worker->heartbeat_ms, memory_order_relaxed); /* of this slice */
    bool live = weir_health_live(run->worker->service, now_ms, &silent);
    weir_buffer_print(run->out, "{\"live\":%s,\"silent_threads\":%" PRIu32 "}", live ? "true" : "false",
                      silent);
    weir_response_finish(run->worker, &run->http, run->out, body_at, live ? 200 : 503, TYPE_JSON, NULL);
}

static void answer_ready(struct http_run *run)
{
    size_t body_at = buffer_len(run->out);
    struct buffer reasons = {.most = 1024};
    atomic_store_explicit(&run->worker->service->ready_asked, true, memory_order_relaxed);
    bool ready = weir_health_ready(run->worker->service, &reasons);
    weir_buffer_print(run->out, "{\"ready\":%s,\"reasons\":", ready ? "true" : "false");
    buffer_put(run->out, buffer_bytes(&reasons), buffer_len(&reasons));
    buffer_put(run->out, "}", 1);
    run->out->failed |= reasons.failed;
    weir_buffer_free(&reasons);
    weir_response_finish(run->worker, &run->http, run->out, body_at, ready ? 200 : 503, TYPE_JSON, NULL);
}

/* throttlecrab's clients: the same five numbers, and 200 whatever is decided. */
static void run_throttle(struct http_run *run)
{
    static const struct param params[] = {
        {"key", PARAM_KEY, true, .summary = "Who is limited"},
        {"max_burst", PARAM_NUMBER, true, .summary = "The burst"},
        {"count_per_period", PARAM_NUMBER, true, .summary = "Units per period"},
        {"period", PARAM_NUMBER, true, .summary = "Seconds"},
        {"quantity", PARAM_NUMBER, .summary = "Units to take"},
        {0}};
    static const struct endpoint throttle = {"throttle",   HTTP_POST, PLACE_NONE,       0,
                                             {"THROTTLE"}, params,    "As throttlecrab"};
    run->http.kind = EXCHANGE_THROTTLE;
    run_endpoint(run, &throttle, (struct slice){0}, (struct slice){0});
}

/* What a route says without asking a limit. */
static void answer_forward(struct http_run *run, int status, const char *reason)
{
    size_t body_at = buffer_len(run->out);
    if (status != 200)
        answer_problem(run, status, reason);
    else
        weir_response_finish(run->worker, &run->http, run->out, body_at, status, TYPE_TEXT, NULL);
}

static void take_forward(struct http_run *run, const struct forward_decision *decision)
{
    struct slice words[4 * ROUTE_POLICIES_MAX + 2] = {{"WEIR.TAKE", 9}};
    size_t count = 1;
    for (size_t i = 0; i < decision->pair_count; i++) {
        if (i > 0)
            words[count++] = (struct slice){"AND", 3};
        words[count++] = decision->pairs[i].policy;
        words[count++] = decision->pairs[i].key;
        words[count++] = (struct slice){"1", 1};
    }
    words[count++] = (struct slice){"FULL", 4};
    run->http.unavailable = (uint8_t)decision->on_unavailable;
    run->http.refusal_status = (int16_t)decision->status;
    run_words(run, words, count);
}

/* A proxy asks whether it may pass a request on. The query is the visitor's, so no option is read from it. */
static void run_forward_auth(struct http_run *run)
{
    struct forward_decision decision;
    run->http.kind = EXCHANGE_AUTH;
    run->http.text = false;
    if (!log_in_by_request(run, FORWARD_CREDENTIALS))
        return;
    switch (weir_forward_auth(run->worker->snapshot, run->request, run->session->address, &decision)) {
    case FORWARD_ALLOW:
        answer_forward(run, 200, decision.reason);
        return;
    case FORWARD_REFUSE:
        answer_forward(run, decision.status, decision.reason);
        return;
    case FORWARD_TAKE:
        take_forward(run, &decision);
        return;
    }
}

static bool is_forward_auth(struct slice path)
{
    return path.len >= 5 && memcmp(path.bytes, "/auth", 5) == 0 && (path.len == 5 || path.bytes[5] == '/');
}

/* ---- browsers --------------------------------------------------------------------------------- */

/* Fields for a page of another site that weir.yaml lets in. */
static void note_cors(struct http_run *run)
{
    struct buffer fields = {.most = EXCHANGE_CORS_MAX - 1};
    if (run->worker->snapshot->http->origins.count == 0)
        return;
    weir_access_put_cors(run->worker->snapshot, run->request, &fields);
    if (!fields.failed && buffer_len(&fields) > 0)
        memcpy(run->http.cors, buffer_bytes(&fields), buffer_len(&fields)); /* the rest is 0 */
    weir_buffer_free(&fields);
}

static bool check_browser(struct http_run *run, bool exempt)
{
    struct access_refusal refusal;
    bool has_credentials = run->session->logged_in;
    if (weir_access_check(run->worker->snapshot, run->request, has_credentials, exempt, &refusal))
        return true;
    answer_problem(run, refusal.status, refusal.why);
    return false;
}

static void answer_preflight(struct http_run *run)
{
    run->http.no_body = true;
    weir_response_finish(run->worker, &run->http, run->out, buffer_len(run->out), 204, TYPE_TEXT, NULL);
}

/* ---- paths of their own, in a table ----------------------------------------------------------- */

/* Open: without a login. Exempt: from what keeps web pages of other sites out. */
enum path_access { ACCESS_OPEN, ACCESS_EXEMPT, ACCESS_LOGIN };

static const struct special_path {
    const char *path;
    unsigned methods;
    enum path_access access;
    void (*answer)(struct http_run *run);
} special_paths[] = {
    {"/livez", HTTP_GET | HTTP_HEAD, ACCESS_OPEN, answer_live},
    {"/healthz", HTTP_GET | HTTP_HEAD, ACCESS_OPEN, answer_live},
    {"/health", HTTP_GET | HTTP_HEAD, ACCESS_OPEN, answer_live},
    {"/readyz", HTTP_GET | HTTP_HEAD, ACCESS_OPEN, answer_ready},
    {"/", HTTP_GET | HTTP_HEAD, ACCESS_OPEN, answer_index},
    {"/v1/openapi.json", HTTP_GET | HTTP_HEAD, ACCESS_OPEN, answer_openapi},
    {"/metrics", HTTP_GET | HTTP_HEAD, ACCESS_EXEMPT, run_metrics},
    {"/throttle", HTTP_POST, ACCESS_LOGIN, run_throttle},
};

static const struct special_path *find_special(struct slice path)
{
    for (size_t i = 0; i < sizeof special_paths / sizeof *special_paths; i++)
        if (slice_is(path, special_paths[i].path))
            return &special_paths[i];
    return NULL;
}

/* ---- all of it -------------------------------------------------------------------------------- */

/* What needs no login, or one of its own. true: it was answered. */
static bool dispatch_without_login(struct http_run *run, const struct special_path *special)
{
    if (special && special->access == ACCESS_OPEN && special->methods & run->request->method)
        special->answer(run);
    else if (is_forward_auth(run->request->path))
        run_forward_auth(run);
    else if (weir_access_is_preflight(run->request))
        answer_preflight(run);
    else
        return false;
    return true;
}

static void dispatch(struct http_run *run)
{
    struct slice path = run->request->path;
    bool is_v1 = path.len > 4 && memcmp(path.bytes, PATH_V1, 4) == 0;
    const struct special_path *special = is_v1 && path.bytes[4] != 'o' ? NULL : find_special(path);
    if (dispatch_without_login(run, special))
        return;
    /* If a password is being checked, the same bytes are read again: so they are left as they are until then.
     */
    if (!log_in_by_request(run, "authorization"))
        return;
    weir_http_join_chunks(run->request);
    if (!check_browser(run, special && special->access == ACCESS_EXEMPT))
        return;
    if (special && !(special->methods & run->request->method))
        answer_not_allowed(run, special->methods);
    else if (special)
        special->answer(run);
    else if (!read_options(run))
        return;
    else if (is_v1)
        run_v1(run, (struct slice){path.bytes + 4, path.len - 4});
    else
        answer_not_found(run, (struct slice){0});
}

struct run_result weir_http_run(struct worker *worker, struct session *session, struct http_request *request,
                                bool admin, struct buffer *out)
{
    struct http_run run = {
        .worker = worker,
        .session = session,
        .request = request,
        .out = out,
        .admin = admin,
        .http = {.refusal_status = REFUSAL_STATUS,
                 .text = wants_text(request),
                 .no_body = request->method == HTTP_HEAD,
                 .is_1_0 = request->is_1_0,
                 .closes = !request->keep_alive ||
                           atomic_load_explicit(&worker->service->draining, memory_order_relaxed)},
        .result = {.state = RUN_READY, .done = 1}};
    bool began = read_section_renew(worker);
    run.http.headers = (enum rate_headers)worker->snapshot->http->headers;
    run.http.jitter = (uint8_t)worker->snapshot->http->retry_jitter;
    worker->changed = false;
    worker->protocol = PROTOCOL_HTTP;
    session->active_ns = worker->now_ns;
    note_cors(&run);
    dispatch(&run);
    if (run.http.closes && run.result.state == RUN_READY)
        run.result.state = RUN_CLOSE;
    if (out->failed)
        run.result.state = RUN_CLOSE;
    read_section_end(worker, began);
    run.result.changed = worker->changed;
    return run.result;
}

void weir_http_refuse(struct worker *worker, int status, const char *why, struct buffer *out)
{
    const struct http_exchange http = {.closes = true};
    bool began = read_section_renew(worker);
    weir_response_problem(worker, &http, out, status, why, NULL);
    read_section_end(worker, began);
}
