/* SPDX-License-Identifier: MIT */
#include "service/http/access.h"

#include <stdio.h>

#include "base/text.h"
#include "http/json.h"
#include "http/path.h"

/* ---- credentials ---- */

/* What stands behind the scheme, or NULL bytes. */
static struct slice behind_scheme(struct slice value, const char *scheme)
{
    size_t len = strlen(scheme);
    if (value.len <= len || !weir_text_same(value.bytes, len, scheme))
        return (struct slice){NULL, 0};
    value = (struct slice){value.bytes + len, value.len - len};
    while (value.len > 0 && value.bytes[0] == ' ')
        value = (struct slice){value.bytes + 1, value.len - 1};
    return value;
}

static const char *read_basic(struct slice text, struct http_credentials *credentials)
{
    size_t len =
        text.len <= sizeof credentials->bytes ? weir_base64_decode(text, credentials->bytes) : SIZE_MAX;
    const char *colon = len != SIZE_MAX && len > 0 ? memchr(credentials->bytes, ':', len) : NULL;
    if (!colon)
        return "Authorization: Basic is followed by the base64 of name:password";
    size_t name = (size_t)(colon - credentials->bytes);
    credentials->kind = CREDENTIALS_BASIC;
    credentials->name = (struct slice){credentials->bytes, name};
    credentials->password = (struct slice){colon + 1, len - name - 1};
    return NULL;
}

static const char *read_bearer(struct slice text, struct http_credentials *credentials)
{
    if (text.len == 0 || text.len > CONFIG_PASSWORD_MAX)
        return "Authorization: Bearer is followed by a token of at most 512 bytes";
    credentials->kind = CREDENTIALS_BEARER;
    credentials->token = text;
    return NULL;
}

void weir_http_credentials_read(const struct http_request *request, const char *field,
                                struct http_credentials *credentials)
{
    const struct slice *value = weir_http_header(request, field);
    credentials->kind = CREDENTIALS_NONE;
    credentials->why = NULL;
    if (!value)
        return;
    struct slice basic = behind_scheme(*value, "Basic "), bearer = behind_scheme(*value, "Bearer ");
    if (weir_http_header_count(request, field) > 1)
        credentials->why = "Authorization stands twice";
    else if (basic.bytes)
        credentials->why = read_basic(basic, credentials);
    else if (bearer.bytes)
        credentials->why = read_bearer(bearer, credentials);
    else
        credentials->why = "Authorization is neither Basic nor Bearer";
    if (credentials->why)
        credentials->kind = CREDENTIALS_BAD;
}

void weir_http_credentials_wipe(struct http_credentials *credentials)
{
    weir_secret_wipe(credentials, sizeof *credentials);
}

/* ---- browsers ---- */

/* application/json, perhaps with parameters. */
static bool is_json_type(const struct slice *type)
{
    static const char json[] = "application/json";
    size_t len = sizeof json - 1;
    return type && type->len >= len && weir_text_same(type->bytes, len, json) &&
           (type->len == len || strchr("; \t", type->bytes[len]));
}

/* A DELETE without a body has no type; pages of other sites may not send one unasked. */
static bool needs_json(const struct http_request *request)
{
    return request->method == HTTP_POST || request->method == HTTP_PUT || request->method == HTTP_PATCH ||
           (request->method == HTTP_DELETE && request->body.len > 0);
}

static bool lists_text(const struct text_list *list, struct slice text)
{
    for (size_t i = 0; i < list->count; i++)
        if (weir_text_same(text.bytes, text.len, list->texts[i]))
            return true;
    return false;
}

static bool is_known_host(const struct http_rules *rules, const struct http_request *request)
{
    struct slice host;
    struct ip ip;
    if (!request->host.bytes)
        return true; /* HTTP/1.0: no browser */
    return weir_host_read(request->host, &host) &&
           (weir_text_same(host.bytes, host.len, "localhost") || weir_ip_read(host, &ip) ||
            lists_text(&rules->hosts, host));
}

static const struct slice *allowed_origin(const struct http_rules *rules, const struct http_request *request)
{
    if (rules->origins.count == 0)
        return NULL;
    const struct slice *origin = weir_http_header(request, "Origin");
    return origin && weir_http_header_count(request, "Origin") == 1 && lists_text(&rules->origins, *origin)
               ? origin
               : NULL;
}

/* Does the page come from the host and port that it calls? */
static bool is_same_origin(const struct http_request *request, const struct slice *origin)
{
    const struct slice *host = weir_http_header(request, "Host");
    size_t scheme = origin->len > 8 && weir_text_same(origin->bytes, 8, "https://")  ? 8
                    : origin->len > 7 && weir_text_same(origin->bytes, 7, "http://") ? 7
                                                                                     : 0;
    if (!host || scheme == 0 || origin->len - scheme != host->len)
        return false;
    for (size_t i = 0; i < host->len; i++)
        if (weir_text_lower(host->bytes[i]) != weir_text_lower(origin->bytes[scheme + i]))
            return false;
    return true;
}

static bool is_cross_site(const struct http_rules *rules, const struct http_request *request)
{
    const struct slice *origin = weir_http_header(request, "Origin");
    const struct slice *site = weir_http_header(request, "Sec-Fetch-Site");
    if (allowed_origin(rules, request))
        return false;
    return (origin && !is_same_origin(request, origin)) ||
           (site && !slice_is(*site, "same-origin") && !slice_is(*site, "none"));
}

static bool is_bearer(const struct http_request *request)
{
    const struct slice *value = weir_http_header(request, "Authorization");
    return value && value->len > 7 && weir_text_same(value->bytes, 7, "Bearer ");
}

bool weir_access_check(const struct snapshot *snapshot, const struct http_request *request,
                       bool has_credentials, bool exempt, struct access_refusal *refusal)
{
    const struct http_rules *rules = snapshot->http;
    bool open = !has_credentials && !snapshot->users->list[0].has_password;
    if (exempt)
        return true;
    refusal->status = 403;
    if (needs_json(request) && !is_json_type(weir_http_header(request, "Content-Type"))) {
        refusal->status = 415;
        (void)snprintf(refusal->why, sizeof refusal->why,
                       "%.*s needs Content-Type: application/json, so that no web page can send it unasked",
                       (int)request->method_name.len, request->method_name.bytes);
    } else if (open && !is_known_host(rules, request)) {
        (void)snprintf(
            refusal->why, sizeof refusal->why,
            "host '%.*s' is not known; without a login clients call the server by an address or as "
            "localhost, or its name stands in http: {hosts: [...]}",
            (int)(request->host.len < 64 ? request->host.len : 64), request->host.bytes);
    } else if (!is_bearer(request) && is_cross_site(rules, request)) {
        /* A browser adds the password of Basic, and a certificate, by itself: they prove nothing about the
         * page. */
        (void)snprintf(refusal->why, sizeof refusal->why,
                       "a web page of another site sent this; if that is meant, its origin must stand in "
                       "http: {cors: [...]}");
    } else {
        return true;
    }
    return false;
}

/* ---- CORS ---- */

bool weir_access_is_preflight(const struct http_request *request)
{
    return request->method == HTTP_OPTIONS && weir_http_header(request, "Origin") &&
           weir_http_header(request, "Access-Control-Request-Method");
}

void weir_access_put_cors(const struct snapshot *snapshot, const struct http_request *request,
                          struct buffer *out)
{
    const struct http_rules *rules = snapshot->http;
    const struct slice *origin = allowed_origin(rules, request);
    if (rules->origins.count == 0)
        return;
    weir_buffer_print(out, "Vary: Origin\r\n");
    if (!origin)
        return;
    weir_buffer_print(out, "Access-Control-Allow-Origin: %.*s\r\n", (int)origin->len, origin->bytes);
    if (weir_access_is_preflight(request))
        weir_buffer_print(out, "Access-Control-Allow-Methods: GET, POST, PUT, DELETE\r\n"
                               "Access-Control-Allow-Headers: Authorization, Content-Type, Accept\r\n"
                               "Access-Control-Max-Age: 600\r\n");
    else
        weir_buffer_print(out, "Access-Control-Expose-Headers: Retry-After, RateLimit, RateLimit-Policy, "
                               "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset\r\n");
}
