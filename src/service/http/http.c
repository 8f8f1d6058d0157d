/* SPDX-License-Identifier: MIT */
#include "service/http/http.h"

#include "base/assert.h"
#include "base/text.h"
#include "service/http/access.h"
#include "service/http/api.h"
#include "service/http/browser.h"
#include "service/http/login.h"
#include "service/http/special.h"

#define REFUSAL_STATUS 429
#define PATH_V1        "/v1/"

void weir_http_finish(struct call *call, size_t before)
{
    struct buffer *out = call->reply.out;
    const struct http_exchange *http = call->http;
    if (http->kind == EXCHANGE_LOGIN || http->kind == EXCHANGE_AUTH_LOGIN) {
        weir_http_login_finish(call, before);
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

/* People with curl say what they want to read; anything else gets JSON. */
static bool wants_text(const struct http_request *request)
{
    const struct slice *accept = weir_http_header(request, "accept");
    return accept && accept->len >= 10 && weir_text_same(accept->bytes, 10, "text/plain");
}

/* What needs no login, or one of its own. true: it was answered. */
static bool dispatch_without_login(struct http_run *run, const struct special_path *special)
{
    if (special && special->access == SPECIAL_OPEN && special->methods & run->request->method)
        special->answer(run);
    else if (weir_access_is_preflight(run->request))
        weir_browser_preflight(run);
    else
        return false;
    return true;
}

static void dispatch(struct http_run *run)
{
    struct slice path = run->request->path;
    bool is_v1 = path.len > 4 && memcmp(path.bytes, PATH_V1, 4) == 0;
    const struct special_path *special =
        is_v1 && path.bytes[4] != 'o' ? NULL /* all but openapi.json */ : weir_special_path(path);
    if (dispatch_without_login(run, special))
        return;
    /* If a password is being checked, the same bytes are read again: so they are left as they are until then.
     */
    if (!weir_http_log_in(run, "authorization"))
        return;
    weir_http_join_chunks(run->request);
    run->http.logged_in = run->session->logged_in;
    if (special && !(special->methods & run->request->method))
        weir_http_not_allowed(run, special->methods);
    else if (special && weir_browser_check(run, special->access == SPECIAL_EXEMPT))
        special->answer(run);
    else if (special)
        return;
    else if (is_v1)
        weir_http_api(run, (struct slice){path.bytes + 4, path.len - 4});
    else
        weir_http_not_found(run, (struct slice){0});
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
    weir_browser_note_cors(&run);
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
