/* SPDX-License-Identifier: MIT */
#include "service/http/login.h"

#include "base/hash.h"
#include "service/http/access.h"
#include "service/http/forward_auth.h"

/* Who has logged in by HTTP reads no version 2, whatever RESET says. */
void weir_http_login_finish(struct call *call, size_t before)
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
    http.kind = http.kind == EXCHANGE_AUTH_LOGIN ? EXCHANGE_AUTH : EXCHANGE_RESPONSE;
    http.closes = true; /* the request that needed it is not looked at any more */
    session->closing = true;
    (void)weir_response_of_reply(call->worker, &http, out, before);
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
        http_run_words(run, words, 3);
}

static void answer_bad_credentials(struct http_run *run, const char *why)
{
    size_t before = buffer_len(run->out);
    struct reply reply = {run->out, 3};
    weir_reply_error(&reply, "WRONGPASS %s", why);
    (void)weir_response_of_reply(run->worker, &run->http, run->out, before);
}

bool weir_http_log_in(struct http_run *run, const char *field)
{
    struct session *session = run->session;
    uint64_t credential = hash_credentials(run, weir_http_header(run->request, field));
    if (credential == session->credential &&
        (credential == 0 || (weir_session_user(session, run->worker->snapshot) &&
                             weir_http_header_count(run->request, field) == 1)))
        return true;
    const struct slice reset = {"RESET", 5};
    struct http_exchange own = run->http;
    struct http_credentials credentials;
    weir_http_credentials_read(run->request, field, &credentials);
    run->http.kind = own.kind == EXCHANGE_AUTH ? EXCHANGE_AUTH_LOGIN : EXCHANGE_LOGIN;
    run->http.credential = 0;
    http_run_words(run, &reset, 1);
    run->http.credential = credential;
    weir_forward_client(run->worker->snapshot, run->request, session->address, run->http.client);
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
