/* SPDX-License-Identifier: MIT */
#include "service/http/forward_auth.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/text.h"
#include "http/path.h"
#include "http/uri.h"

#define FRONT         "/auth"
#define REFUSE_STATUS 403 /* the one that every proxy passes on as a refusal */

/* Notes why; false. */
__attribute__((format(printf, 2, 3))) static bool say_why(struct forward_decision *decision,
                                                          const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(decision->reason, sizeof decision->reason, format, args);
    va_end(args);
    return false;
}

/* ---- the original request ---- */

struct original_request {
    struct slice target, method, host; /* bytes NULL: not known */
};

static bool same_slice(struct slice one, struct slice other)
{
    return one.len == other.len && (one.len == 0 || memcmp(one.bytes, other.bytes, one.len) == 0);
}

/* Looks into each of the headers in turn, up to NULL. What one says twice, or two say differently, is a
 * client's attempt to name another request than the proxy does. */
static bool read_agreed(const struct http_request *request, const char *const *names, struct slice *value,
                        struct forward_decision *decision)
{
    const char *first = "the path behind " FRONT;
    for (; *names; names++) {
        const struct slice *found = weir_http_header(request, *names);
        if (!found)
            continue;
        if (weir_http_header_count(request, *names) > 1)
            return say_why(decision, "%s stands twice; the proxy must replace it", *names);
        if (found->len == 0)
            continue;
        if (value->bytes && !same_slice(*value, *found))
            return say_why(decision, "%s and %s differ; the proxy must remove one of them", first, *names);
        first = *names;
        *value = *found;
    }
    return true;
}

/* What Envoy puts behind the path that it asks at: path and query are in one piece, as they were sent. */
static struct slice rest_of_target(const struct http_request *request)
{
    size_t front = strlen(FRONT);
    if (request->path.len <= front)
        return (struct slice){NULL, 0};
    const char *start = request->path.bytes + front, *end = request->path.bytes + request->path.len;
    if (request->query.bytes)
        end = request->query.bytes + request->query.len;
    return (struct slice){start, (size_t)(end - start)};
}

static bool find_original(const struct http_request *request, bool trusted, const char *peer,
                          struct original_request *original, struct forward_decision *decision)
{
    static const char *const targets[] = {"X-Original-URI", "X-Forwarded-Uri", NULL};
    static const char *const methods[] = {"X-Original-Method", "X-Forwarded-Method", NULL};
    static const char *const hosts[] = {"X-Forwarded-Host", NULL};
    *original = (struct original_request){.target = rest_of_target(request)};
    bool in_path = original->target.bytes != NULL;
    if (in_path) { /* then so are the others: a header that says something else is the client's */
        original->method = request->method_name;
        original->host = request->host;
    }
    if (!trusted && !original->target.bytes)
        return say_why(decision, "%.60s is not in trusted_proxies: and names no path behind " FRONT, peer);
    if (trusted && (!read_agreed(request, targets, &original->target, decision) ||
                    !read_agreed(request, methods, &original->method, decision) ||
                    (!in_path && !read_agreed(request, hosts, &original->host, decision))))
        return false;
    if (!original->target.bytes)
        return say_why(decision, "the proxy does not say which request it asks about; it must send "
                                 "X-Original-URI or X-Forwarded-Uri");
    if (!original->method.bytes)
        original->method = request->method_name;
    if (!original->host.bytes)
        original->host = request->host;
    if (original->host.bytes && !weir_host_read(original->host, &original->host))
        return say_why(decision, "the request's host is not valid");
    return true;
}

/* ---- the client's address ---- */

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

/* Applications do the same: else a blank would make another key of the same value. */
static struct slice trim_blanks(struct slice text)
{
    while (text.len > 0 && is_blank(text.bytes[0]))
        text = (struct slice){text.bytes + 1, text.len - 1};
    while (text.len > 0 && is_blank(text.bytes[text.len - 1]))
        text.len--;
    return text;
}

/* Takes the last entry of a list away from it. */
static struct slice last_entry(struct slice *list)
{
    size_t start = list->len;
    while (start > 0 && list->bytes[start - 1] != ',')
        start--;
    struct slice entry = {list->bytes + start, list->len - start};
    list->len = start > 0 ? start - 1 : 0;
    return trim_blanks(entry);
}

/* Each entry was written by the one to its right. So from the right, the first that is no trusted proxy is
 * the client, and what stands left of it is what the client sent. An entry that is no address ends the walk
 * as well: the one that wrote it counts. false: there is no address, as on a unix socket. */
static bool find_client(const struct http_rules *rules, const struct http_request *request, const char *peer,
                        struct ip *client)
{
    bool found = weir_ip_read((struct slice){peer, strlen(peer)}, client);
    bool trusted = weir_proxy_is_trusted(rules, peer);
    size_t hops = 0;
    for (size_t i = request->header_count; trusted && i-- > 0;) {
        const struct http_header *header = &request->headers[i];
        struct slice list = header->value;
        if (!weir_text_same(header->name.bytes, header->name.len, "X-Forwarded-For"))
            continue;
        while (trusted && list.len > 0) {
            struct ip ip;
            if (hops++ == FORWARD_HOPS_MAX || !weir_ip_read(last_entry(&list), &ip))
                return found;
            *client = ip;
            found = true;
            trusted = weir_ip_is_trusted(rules, &ip);
        }
    }
    return found;
}

void weir_forward_client(const struct snapshot *snapshot, const struct http_request *request,
                         const char *peer, char address[static IP_TEXT_MAX + 8])
{
    struct ip client;
    char text[IP_TEXT_MAX];
    address[0] = '\0';
    if (snapshot->http->proxies.count == 0 || !weir_proxy_is_trusted(snapshot->http, peer) ||
        !find_client(snapshot->http, request, peer, &client))
        return;
    (void)weir_ip_write(&client, IP_BITS, text);
    (void)snprintf(address, IP_TEXT_MAX + 8, weir_ip_is_four(&client) ? "%s:0" : "[%s]:0", text);
}

/* ---- keys ---- */

enum key_found { KEY_ABSENT, KEY_PRESENT, KEY_AMBIGUOUS };

/* One more value of the same name: the application might use this one. */
static enum key_found add_value(enum key_found found, struct slice *value, struct slice another)
{
    if (another.len == 0)
        return found;
    if (found == KEY_PRESENT && !same_slice(*value, another))
        return KEY_AMBIGUOUS;
    *value = another;
    return found == KEY_ABSENT ? KEY_PRESENT : found;
}

static enum key_found find_header(const struct http_request *request, const char *name, struct slice *value)
{
    enum key_found found = KEY_ABSENT;
    for (size_t i = 0; i < request->header_count; i++)
        if (weir_text_same(request->headers[i].name.bytes, request->headers[i].name.len, name))
            found = add_value(found, value, request->headers[i].value);
    return found;
}

/* Without the quotes that may stand around it. */
static struct slice cookie_value(struct slice text)
{
    text = trim_blanks(text);
    if (text.len >= 2 && text.bytes[0] == '"' && text.bytes[text.len - 1] == '"')
        text = (struct slice){text.bytes + 1, text.len - 2};
    return text;
}

/* Of "a=1; b=2". */
static enum key_found find_in_cookies(struct slice rest, const char *name, enum key_found found,
                                      struct slice *value)
{
    while (rest.len > 0) {
        const char *end = memchr(rest.bytes, ';', rest.len);
        struct slice pair = {rest.bytes, end ? (size_t)(end - rest.bytes) : rest.len};
        size_t used = pair.len + (end != NULL);
        rest = (struct slice){rest.bytes + used, rest.len - used};
        const char *equals = memchr(pair.bytes, '=', pair.len);
        size_t len = equals ? (size_t)(equals - pair.bytes) : pair.len;
        if (equals && slice_is(trim_blanks((struct slice){pair.bytes, len}), name))
            found = add_value(found, value, cookie_value((struct slice){equals + 1, pair.len - len - 1}));
    }
    return found;
}

static enum key_found find_cookie(const struct http_request *request, const char *name, struct slice *value)
{
    enum key_found found = KEY_ABSENT;
    for (size_t i = 0; i < request->header_count; i++)
        if (weir_text_same(request->headers[i].name.bytes, request->headers[i].name.len, "Cookie"))
            found = find_in_cookies(request->headers[i].value, name, found, value);
    return found;
}

static enum key_found find_parameter(struct slice query, const char *name, struct slice *value)
{
    enum key_found found = KEY_ABSENT;
    struct slice has, text;
    while (weir_query_next(&query, &has, &text)) {
        char decoded[ROUTE_NAME_MAX * 3];
        size_t len = has.len <= sizeof decoded ? weir_uri_decode(has, true, decoded) : SIZE_MAX;
        if (len != SIZE_MAX && slice_is((struct slice){decoded, len}, name))
            found = add_value(found, value, text);
    }
    return found;
}

static enum key_found find_bearer(const struct http_request *request, struct slice *value)
{
    static const char scheme[] = "Bearer";
    size_t front = sizeof scheme - 1;
    enum key_found found = find_header(request, "Authorization", value);
    if (found != KEY_PRESENT)
        return found;
    if (value->len <= front || !weir_text_same(value->bytes, front, scheme) || !is_blank(value->bytes[front]))
        return KEY_ABSENT;
    *value = trim_blanks((struct slice){value->bytes + front, value->len - front});
    return value->len > 0 ? KEY_PRESENT : KEY_ABSENT;
}

/* "header:x-api-key:VALUE". Where it comes from stands in front, so that a client that may choose one kind of
 * key cannot spend another's units. */
static void write_key(struct forward_decision *decision, const char *front, struct slice value, bool secret)
{
    struct text text;
    weir_text_init(&text, decision->key, sizeof decision->key);
    weir_text_print(&text, "%s:", front);
    if (secret || value.len > FORWARD_VALUE_MAX) {
        struct digest digest = weir_sha256(value.bytes, value.len);
        char digits[65];
        weir_digest_write(&digest, digits);
        weir_text_print(&text, "sha256:%s", digits);
    } else {
        weir_text_put(&text, value.bytes, value.len);
    }
    ASSERT(text.len < sizeof decision->key);
    decision->pairs[0].key = (struct slice){decision->key, text.len};
}

struct forward_question {
    const struct snapshot *snapshot;
    const struct http_rules *rules;
    const struct http_request *request;
    const char *peer;
    struct slice query; /* of the original request */
};

static enum key_found find_value(const struct forward_question *asked, const struct route_key *key,
                                 struct slice *value)
{
    switch (key->kind) {
    case ROUTE_HEADER:
        return find_header(asked->request, key->name, value);
    case ROUTE_COOKIE:
        return find_cookie(asked->request, key->name, value);
    case ROUTE_QUERY:
        return find_parameter(asked->query, key->name, value);
    case ROUTE_BEARER:
        return find_bearer(asked->request, value);
    default:
        return KEY_ABSENT;
    }
}

static enum key_found find_address_key(const struct forward_question *asked, int bits,
                                       struct forward_decision *decision)
{
    struct ip client;
    char address[IP_TEXT_MAX];
    int64_t usual = asked->rules->ipv6_prefix > 0 ? asked->rules->ipv6_prefix : IPV6_PREFIX;
    if (!find_client(asked->rules, asked->request, asked->peer, &client))
        return KEY_ABSENT;
    size_t len = weir_ip_write(&client, bits > 0 ? bits : (int)usual, address);
    write_key(decision, "address", (struct slice){address, len}, false);
    (void)weir_ip_write(&client, 128, address);
    (void)snprintf(decision->address, sizeof decision->address, "address:%s", address);
    return KEY_PRESENT;
}

static enum key_found find_key(const struct forward_question *asked, const struct route_key *key,
                               struct forward_decision *decision)
{
    struct slice value = {"", 0};
    char decoded[FORWARD_VALUE_MAX * 3];
    if (key->kind == ROUTE_ADDRESS)
        return find_address_key(asked, key->bits, decision);
    enum key_found found = find_value(asked, key, &value);
    if (found == KEY_PRESENT && key->kind == ROUTE_QUERY) {
        size_t len = value.len <= sizeof decoded ? weir_uri_decode(value, true, decoded) : SIZE_MAX;
        value = (struct slice){decoded, len};
        found = len == SIZE_MAX ? KEY_AMBIGUOUS : KEY_PRESENT;
    }
    if (found == KEY_PRESENT)
        write_key(decision, key->text, value, key->kind == ROUTE_BEARER);
    return found;
}

/* ---- routes ---- */

static bool has_method(const struct http_route *route, struct slice method)
{
    for (size_t i = 0; i < route->methods.count; i++)
        if (slice_is(method, route->methods.texts[i]) ||
            (slice_is(method, "HEAD") && strcmp(route->methods.texts[i], "GET") == 0))
            return true;
    return route->methods.count == 0;
}

static const struct http_route *find_route(const struct http_rules *rules,
                                           const struct original_request *original,
                                           const struct http_path *path)
{
    for (size_t i = 0; i < rules->route_count; i++) {
        const struct http_route *route = &rules->routes[i];
        if (has_method(route, original->method) && (!route->path || weir_path_match(path, route->path)) &&
            (!route->host || (original->host.bytes && weir_host_match(original->host, route->host))))
            return route;
    }
    return NULL;
}

/* ?status=403 counts behind /auth itself alone: with a path behind it, the query is the client's. */
static int status_of(const struct http_route *route, const struct http_request *request)
{
    static const int statuses[] = {429, 403, 503};
    struct slice query = request->query, name, value;
    while (request->path.len == strlen(FRONT) && weir_query_next(&query, &name, &value))
        if (slice_is(name, "status") && (slice_is(value, "403") || slice_is(value, "429")))
            return slice_is(value, "403") ? 403 : 429;
    return statuses[route->status];
}

static enum forward_outcome take_route(const struct forward_question *asked, const struct http_route *route,
                                       struct forward_decision *decision)
{
    enum key_found found = KEY_ABSENT;
    size_t at = 0;
    while (at < route->key_count && (found = find_key(asked, &route->keys[at], decision)) == KEY_ABSENT)
        at++;
    if (found == KEY_AMBIGUOUS) {
        (void)say_why(decision, "%s has several values, or one that is not valid", route->keys[at].text);
        return FORWARD_REFUSE;
    }
    if (found == KEY_ABSENT) {
        (void)say_why(decision, "the request has no key: %s is missing", route->keys[0].text);
        return route->on_missing_key == ROUTE_ALLOW ? FORWARD_ALLOW : FORWARD_REFUSE;
    }
    decision->status = status_of(route, asked->request);
    decision->on_unavailable = (enum unavailable_rule)route->on_unavailable;
    decision->pair_count = route->policies.count;
    ASSERT(decision->pair_count >= 1 && decision->pair_count <= ROUTE_POLICIES_MAX);
    for (size_t i = 0; i < route->policies.count; i++) {
        decision->pairs[i].policy =
            (struct slice){route->policies.texts[i], strlen(route->policies.texts[i])};
        decision->pairs[i].key = decision->pairs[0].key;
    }
    for (size_t i = 0; i < route->policies.count && route->keys[at].kind == ROUTE_ADDRESS; i++) {
        const struct policy *policy = weir_snapshot_policy(asked->snapshot, decision->pairs[i].policy);
        if (policy && policy->address)
            decision->pairs[i].key = (struct slice){decision->address, strlen(decision->address)};
    }
    return FORWARD_TAKE;
}

enum forward_outcome weir_forward_auth(const struct snapshot *snapshot, const struct http_request *request,
                                       const char *peer, struct forward_decision *decision)
{
    const struct http_rules *rules = snapshot->http;
    struct forward_question asked = {snapshot, rules, request, peer, {NULL, 0}};
    struct original_request original;
    struct http_path path;
    const char *why;
    decision->pair_count = 0;
    decision->status = REFUSE_STATUS;
    decision->on_unavailable = UNAVAILABLE_ERROR;
    decision->reason[0] = '\0';
    if (!find_original(request, weir_proxy_is_trusted(rules, peer), peer, &original, decision))
        return FORWARD_REFUSE;
    const char *mark = memchr(original.target.bytes, '?', original.target.len);
    struct slice text = original.target;
    if (mark) {
        text.len = (size_t)(mark - text.bytes);
        asked.query = (struct slice){mark + 1, original.target.len - text.len - 1};
    }
    if (!weir_path_read(text, &path, &why)) {
        (void)say_why(decision, "%s", why);
        return FORWARD_REFUSE;
    }
    const struct http_route *route = find_route(rules, &original, &path);
    if (route)
        return take_route(&asked, route, decision);
    (void)say_why(decision, "no route matches this request");
    return rules->routes_default == ROUTE_REFUSE ? FORWARD_REFUSE : FORWARD_ALLOW;
}
