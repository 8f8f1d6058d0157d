/* SPDX-License-Identifier: MIT */
#include "service/http/api.h"

#include <stdio.h>

#include "http/uri.h"
#include "service/http/batch.h"
#include "service/http/words.h"

/* ---- options of a request ---- */

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
                http_answer_problem(run, 400, "status is 429, 403 or 200: the status of a refusal");
                return false;
            }
            run->http.refusal_status = (int16_t)(100 * (value.bytes[0] - '0') + 10 * (value.bytes[1] - '0') +
                                                 (value.bytes[2] - '0'));
        } else if (slice_is(name, "headers") && !read_headers_option(&run->http, value)) {
            http_answer_problem(run, 400, "headers is ietf, ietf-06, x, x-epoch or none");
            return false;
        }
    }
    return true;
}

/* ---- endpoints ---- */

void weir_http_not_allowed(struct http_run *run, unsigned allowed)
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

void weir_http_not_found(struct http_run *run, struct slice behind_v1)
{
    char text[160];
    const char *near = behind_v1.bytes ? weir_endpoint_near(behind_v1) : NULL;
    (void)snprintf(text, sizeof text, "there is no such path%s%s%s; GET /v1/openapi.json lists all of them",
                   near ? "; did you mean /v1/" : "", near ? near : "", near ? "?" : "");
    http_answer_problem(run, 404, text);
}

/* EXPLAIN is for people; programs ask for JSON. */
static void add_format(const struct http_run *run, struct http_words *words)
{
    if (run->http.endpoint->flags & ENDPOINT_TEXT && !run->http.text && words->count < HTTP_WORDS_MAX)
        words->words[words->count++] = (struct slice){"JSON", 4};
}

void weir_http_endpoint(struct http_run *run, const struct endpoint *endpoint, struct slice policy,
                        struct slice key)
{
    struct http_words words;
    run->http.endpoint = endpoint;
    if (!weir_http_words(&words, endpoint, run->request, policy, key)) {
        http_answer_problem(run, 400, words.why);
        return;
    }
    add_format(run, &words);
    http_run_words(run, words.words, words.count);
}

void weir_http_api(struct http_run *run, struct slice path)
{
    struct slice policy = {0}, key = {0};
    unsigned allowed;
    if (!read_options(run))
        return;
    if (slice_is(path, "batch")) {
        if (run->request->method == HTTP_POST)
            weir_http_batch(run);
        else
            weir_http_not_allowed(run, HTTP_POST);
        return;
    }
    const struct endpoint *endpoint = weir_endpoint_find(path, run->request->method, &policy, &key, &allowed);
    if (endpoint && endpoint->flags & ENDPOINT_ADMIN && !run->admin)
        http_answer_problem(run, 404, "this is served on the address of listen: {admin: ...} alone");
    else if (endpoint)
        weir_http_endpoint(run, endpoint, policy, key);
    else if (allowed)
        weir_http_not_allowed(run, allowed);
    else
        weir_http_not_found(run, path);
}
