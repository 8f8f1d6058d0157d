/* SPDX-License-Identifier: MIT */
#include "service/http/api.h"

#include <stdio.h>

#include "base/text.h"
#include "http/uri.h"
#include "service/http/batch.h"
#include "service/http/browser.h"
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

/* "; did you mean /v1/take or /v1/take/POLICY/KEY?" */
static void put_forms(struct text *text, const char *name)
{
    static const char *const behind[] = {
        [PLACE_NONE] = "", [PLACE_POLICY] = "/POLICY", [PLACE_KEY] = "/POLICY/KEY"};
    const char *between = "; did you mean ";
    unsigned told = 0;
    for (const struct endpoint *row = weir_endpoints; row->name; row++)
        if (strcmp(row->name, name) == 0 && !(told & 1U << row->place)) {
            weir_text_print(text, "%s/v1/%s%s", between, name, behind[row->place]);
            between = " or ";
            told |= 1U << row->place;
        }
    weir_text_print(text, "?");
}

void weir_http_not_found(struct http_run *run, struct slice behind_v1)
{
    char bytes[240];
    struct text text;
    const char *near = behind_v1.bytes ? weir_endpoint_near(behind_v1) : NULL;
    weir_text_init(&text, bytes, sizeof bytes);
    weir_text_print(&text, "there is no such path");
    if (near)
        put_forms(&text, near);
    weir_text_print(&text, "%s GET /v1/openapi.json lists all of them", near ? "" : ";");
    http_answer_problem(run, 404, bytes);
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
    bool batch = slice_is(path, "batch");
    const struct endpoint *endpoint =
        batch ? NULL : weir_endpoint_find(path, run->request->method, &policy, &key, &allowed);
    if (batch && run->request->method != HTTP_POST)
        weir_http_not_allowed(run, HTTP_POST);
    else if (!batch && !endpoint && allowed)
        weir_http_not_allowed(run, allowed);
    else if (!batch && !endpoint)
        weir_http_not_found(run, path);
    else if (endpoint && endpoint->flags & ENDPOINT_ADMIN && !run->admin)
        http_answer_problem(run, 404, "this is served on the address of listen: {admin: ...} alone");
    else if (!weir_browser_check(run, false) || !read_options(run))
        return;
    else if (batch)
        weir_http_batch(run);
    else
        weir_http_endpoint(run, endpoint, policy, key);
}
