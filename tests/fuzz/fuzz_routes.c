/* SPDX-License-Identifier: MIT */
/*
 * Hostile requests at /auth, and patterns. The first line is a pattern of paths, the second the address of
 * the peer, the third the method and target, what follows are headers. Whatever is decided is whole; what
 * RFC 3986 calls equivalent is decided alike; the client's address comes from a header only if the peer is
 * trusted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/path.h"
#include "must.h"
#include "service/http/access.h"
#include "service/http/forward_auth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char rules[] =
    "policies: [{name: a, limits: 5/s}, {name: b, limits: 5/m}]\n"
    "trusted_proxies: [10.0.0.0/8, \"2001:db8::/32\", unix]\n"
    "routes_default: refuse\n"
    "http: {hosts: [weir.example.com], cors: [\"https://a.example\"]}\n"
    "routes:\n"
    "  - {match: {path: /admin/**}, policy: [a, b], key: address}\n"
    "  - {match: {host: \"*.example.com\", method: [GET, PUT]}, policy: a, key: [header:k, cookie:c, "
    "bearer]}\n"
    "  - {match: {path: /u/*/p}, policy: b, key: [query:q, address/48], on_missing_key: allow}\n"
    "  - {match: {method: GET}, policy: b, key: [query:q, cookie:c, header:h]}\n";

static void no_complaint(void *arg, const struct config_complaint *complaint)
{
    (void)arg, (void)complaint;
    MUST(false);
}

static struct slice take_line(struct slice *rest)
{
    const char *end = rest->len > 0 ? memchr(rest->bytes, '\n', rest->len) : NULL;
    struct slice line = {rest->bytes, end ? (size_t)(end - rest->bytes) : rest->len};
    size_t used = line.len + (end != NULL);
    *rest = (struct slice){rest->bytes + used, rest->len - used};
    return line;
}

/* A path that is encoded whole, with empty and dot segments put in, is the same path. */
static void check_equivalent(const char *pattern, const struct http_path *path, bool matches)
{
    static struct http_path again;
    static char text[HTTP_TARGET_MAX];
    size_t len = 0;
    const char *why;
    for (size_t i = 0; i < path->count; i++) {
        struct slice segment = path->segments[i];
        MUST(segment.len > 0 && !slice_is(segment, ".") && !slice_is(segment, ".."));
        if (len + 3 * segment.len + 16 > sizeof text)
            return;
        len += (size_t)snprintf(text + len, sizeof text - len, "//./x/%%2e./");
        for (size_t at = 0; at < segment.len; at++) {
            MUST(segment.bytes[at] != '/' && segment.bytes[at] != '\\' && segment.bytes[at] != '\0');
            len += (size_t)snprintf(text + len, sizeof text - len, "%%%02x",
                                    (unsigned)(unsigned char)segment.bytes[at]);
        }
    }
    text[len++] = '/';
    if (path->count == PATH_SEGMENTS_MAX)
        return; /* no room for the one that .. takes away */
    MUST(weir_path_read((struct slice){text, len}, &again, &why));
    MUST(again.count == path->count && weir_path_match(&again, pattern) == matches);
}

static void check_pattern(struct slice line, struct slice target)
{
    static struct http_path path;
    char pattern[PATH_PATTERN_MAX + 8];
    const char *why;
    if (line.len >= sizeof pattern || (line.len > 0 && memchr(line.bytes, '\0', line.len)))
        return;
    memcpy(pattern, line.bytes, line.len);
    pattern[line.len] = '\0';
    (void)weir_host_pattern_fault(pattern);
    if (!weir_path_read(target, &path, &why))
        MUST(why && why[0]);
    else if (!weir_path_pattern_fault(pattern))
        check_equivalent(pattern, &path, weir_path_match(&path, pattern));
}

static void check_decision(const struct snapshot *snapshot, const struct http_request *request,
                           const char *peer)
{
    static struct forward_decision decision;
    struct ip ip;
    enum forward_outcome outcome = weir_forward_auth(snapshot, request, peer, &decision);
    char client[IP_TEXT_MAX + 8];
    weir_forward_client(snapshot, request, peer, client);
    MUST(client[0] == '\0' || weir_ip_read((struct slice){client, strlen(client)}, &ip));
    MUST(memchr(decision.reason, '\0', sizeof decision.reason));
    MUST((outcome == FORWARD_TAKE) == (decision.pair_count > 0));
    MUST(outcome == FORWARD_TAKE ? decision.status == 429 || decision.status == 403
                                 : decision.reason[0] != '\0' && decision.status == 403);
    for (size_t i = 0; i < decision.pair_count; i++) {
        struct slice key = decision.pairs[i].key;
        MUST(key.bytes == decision.key && key.len > 0 && key.len < sizeof decision.key);
        MUST(slice_is(decision.pairs[i].policy, "a") || slice_is(decision.pairs[i].policy, "b"));
        bool untrusted = weir_ip_read((struct slice){peer, strlen(peer)}, &ip) &&
                         !weir_proxy_is_trusted(snapshot->http, peer);
        if (untrusted && key.len > 8 && memcmp(key.bytes, "address:", 8) == 0) {
            char want[IP_TEXT_MAX], other[IP_TEXT_MAX];
            weir_ip_write(&ip, 64, want);
            weir_ip_write(&ip, 48, other);
            struct slice has = {key.bytes + 8, key.len - 8};
            MUST(slice_is(has, want) || slice_is(has, other));
        }
    }
}

static void check_access(const struct snapshot *snapshot, const struct http_request *request)
{
    struct http_credentials credentials;
    struct access_refusal refusal;
    struct buffer out = {0};
    weir_http_credentials_read(request, "Authorization", &credentials);
    MUST((credentials.kind == CREDENTIALS_BAD) == (credentials.why != NULL));
    if (!weir_access_check(snapshot, request, credentials.kind != CREDENTIALS_NONE, false, &refusal))
        MUST((refusal.status == 403 || refusal.status == 415) &&
             memchr(refusal.why, '\0', sizeof refusal.why));
    weir_access_put_cors(snapshot, request, &out);
    size_t len = buffer_len(&out); /* of whole lines, whatever the request has in its headers */
    for (size_t i = 0; i < len; i++)
        MUST(buffer_bytes(&out)[i] != '\n' || (i > 0 && buffer_bytes(&out)[i - 1] == '\r'));
    weir_buffer_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct config *config;
    static struct users *users;
    static const struct http_limits limits = {.head = 16384, .body = 1024};
    if (!config) {
        config = weir_config_parse("f.yaml", rules, sizeof rules - 1, no_complaint, NULL);
        MUST(config && (users = weir_users_new(config)));
    }
    struct snapshot snapshot = {.http = config->http, .users = users};
    struct slice rest = {(const char *)data, size};
    struct slice pattern = take_line(&rest), peer_line = take_line(&rest), first = take_line(&rest);
    char peer[64] = "";
    struct http_request request;
    struct http_parse_result result;
    struct buffer text = {0};
    if (peer_line.len < sizeof peer)
        memcpy(peer, peer_line.bytes, peer_line.len);
    check_pattern(pattern, first);
    weir_buffer_print(&text, "GET /auth");
    buffer_put(&text, first.bytes, first.len);
    weir_buffer_print(&text, " HTTP/1.1\r\nHost: api.example.com\r\n");
    while (rest.len > 0) {
        struct slice line = take_line(&rest);
        buffer_put(&text, line.bytes, line.len);
        buffer_put(&text, "\r\n", 2);
    }
    buffer_put(&text, "\r\n", 2);
    /* Of just this size, so that a sanitizer sees one byte too many. */
    char *bytes = malloc(buffer_len(&text));
    MUST(bytes && !text.failed);
    memcpy(bytes, buffer_bytes(&text), buffer_len(&text));
    if (weir_http_parse(&limits, bytes, buffer_len(&text), &request, &result) == HTTP_WHOLE) {
        check_decision(&snapshot, &request, peer);
        check_access(&snapshot, &request);
    }
    free(bytes);
    weir_buffer_free(&text);
    return 0;
}
