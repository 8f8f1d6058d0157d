/* SPDX-License-Identifier: MIT */
#include "service/http/special.h"

#include <inttypes.h>

#include "base/text.h"
#include "service/health.h"
#include "service/http/api.h"
#include "service/http/forward_auth.h"
#include "service/http/login.h"
#include "service/http/openapi.h"

/* ---- for probes, Prometheus and people ---- */

static void run_metrics(struct http_run *run)
{
    const struct slice *accept = weir_http_header(run->request, "accept");
    static const char open[] = "application/openmetrics-text";
    bool openmetrics = accept && weir_text_contains(accept->bytes, accept->len, open, sizeof open - 1);
    const struct slice words[] = {{"WEIR.METRICS", 12}, {"OPENMETRICS", 11}};
    run->http.kind = openmetrics ? EXCHANGE_OPENMETRICS : EXCHANGE_METRICS;
    if (run->admin)
        http_run_words(run, words, openmetrics ? 2 : 1);
    else
        http_answer_problem(run, 404, "this is served on the address of listen: {admin: ...} alone");
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
    weir_http_endpoint(run, &throttle, (struct slice){0}, (struct slice){0});
}

/* What a route says without asking a limit. */
static void answer_route(struct http_run *run, int status, const char *reason)
{
    size_t body_at = buffer_len(run->out);
    if (status != 200)
        http_answer_problem(run, status, reason);
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
    http_run_words(run, words, count);
}

/* A proxy asks whether it may pass a request on. The query is the visitor's, so no option is read from it. */
static void run_forward_auth(struct http_run *run)
{
    struct forward_decision decision;
    run->http.kind = EXCHANGE_AUTH;
    run->http.text = false;
    if (!weir_http_log_in(run, FORWARD_CREDENTIALS))
        return;
    run->http.logged_in = run->session->logged_in;
    switch (weir_forward_auth(run->worker->snapshot, run->request, run->session->address, &decision)) {
    case FORWARD_ALLOW:
        answer_route(run, 200, decision.reason);
        return;
    case FORWARD_REFUSE:
        answer_route(run, decision.status, decision.reason);
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

/* ---- all of them ---- */

#define ANY_METHOD (~0U)

/* It has a login of its own. */
static const struct special_path forward_auth = {"/auth", ANY_METHOD, SPECIAL_OPEN, run_forward_auth};

const struct special_path weir_special_paths[] = {
    {"/livez", HTTP_GET | HTTP_HEAD, SPECIAL_OPEN, answer_live},
    {"/healthz", HTTP_GET | HTTP_HEAD, SPECIAL_OPEN, answer_live},
    {"/health", HTTP_GET | HTTP_HEAD, SPECIAL_OPEN, answer_live},
    {"/readyz", HTTP_GET | HTTP_HEAD, SPECIAL_OPEN, answer_ready},
    {"/", HTTP_GET | HTTP_HEAD, SPECIAL_OPEN, answer_index},
    {"/v1/openapi.json", HTTP_GET | HTTP_HEAD, SPECIAL_OPEN, answer_openapi},
    {"/metrics", HTTP_GET | HTTP_HEAD, SPECIAL_EXEMPT, run_metrics},
    {"/throttle", HTTP_POST, SPECIAL_LOGIN, run_throttle},
    {0}};

const struct special_path *weir_special_path(struct slice path)
{
    for (const struct special_path *row = weir_special_paths; row->path; row++)
        if (slice_is(path, row->path))
            return row;
    return is_forward_auth(path) ? &forward_auth : NULL;
}
