/* SPDX-License-Identifier: MIT */
/*
 * Forward auth: which route a request takes, by which key, and that no client can choose to be another one.
 */
#include "service/http/forward_auth.h"

#include "unit/service/http_kit.h"

static struct http_kit kit;
static struct forward_decision decision;

static const char rules[] =
    "policies: [{name: api, limits: 5/s}, {name: login, limits: 5/m}, {name: all, limits: 9/s}]\n"
    "trusted_proxies: [127.0.0.1, 10.0.0.0/8, unix]\n"
    "routes:\n"
    "  - {match: {path: /login, method: POST}, policy: [login, all], key: address, status: 403}\n"
    "  - {match: {host: \"*.shop.example\"}, policy: all, key: [cookie:sid, address/48]}\n"
    "  - {match: {path: /api/**, method: GET}, policy: api, key: [header:X-Api-Key, bearer, address],\n"
    "     on_unavailable: allow}\n"
    "  - {match: {path: /open/*}, policy: api, key: query:k, on_missing_key: allow}\n"
    "  - {match: {path: /closed/*}, policy: api, key: query:k}\n";

/* The outcome in one line: "api api-key", "allow: why", "403: why". */
static const char *ask_as(const char *peer, const char *first, const char *headers)
{
    static char text[1024];
    kit_say(&kit, first, headers);
    enum forward_outcome outcome = weir_forward_auth(&kit.snapshot, &kit.request, peer, &decision);
    if (outcome != FORWARD_TAKE) {
        (void)snprintf(text, sizeof text, "%s: %s", outcome == FORWARD_ALLOW ? "allow" : "refuse",
                       decision.reason);
        CHECK(outcome == FORWARD_ALLOW || decision.status == 403);
        CHECK_EQ(decision.pair_count, 0);
        return text;
    }
    text[0] = '\0';
    for (size_t i = 0; i < decision.pair_count; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.*s %.*s", i > 0 ? " AND " : "",
                       (int)decision.pairs[i].policy.len, decision.pairs[i].policy.bytes,
                       (int)decision.pairs[i].key.len, decision.pairs[i].key.bytes);
    return text;
}

static const char *ask(const char *first, const char *headers)
{
    return ask_as("127.0.0.1:4000", first, headers);
}

#define WANT(FIRST, HEADERS, TEXT)          CHECK_STR(ask(FIRST, HEADERS), TEXT)
#define WANT_OF(PEER, FIRST, HEADERS, TEXT) CHECK_STR(ask_as(PEER, FIRST, HEADERS), TEXT)
#define FROM                                "X-Forwarded-For: 192.0.2.7\r\n"

TEST(the_original_request_is_read_as_each_proxy_says_it)
{
    kit_begin(&kit, rules);
    WANT("GET /auth", "X-Original-URI: /api/v1?x=1\r\nX-Original-Method: GET\r\n" FROM,
         "api address:192.0.2.7"); /* nginx */
    WANT("GET /auth", "X-Forwarded-Uri: /login\r\nX-Forwarded-Method: POST\r\n" FROM,
         "login address:192.0.2.7 AND all address:192.0.2.7"); /* Caddy, Traefik */
    CHECK_EQ(decision.status, 403);
    WANT("POST /auth/login?a=b", FROM, "login address:192.0.2.7 AND all address:192.0.2.7"); /* Envoy */
    WANT("GET /auth/api/x", FROM, "api address:192.0.2.7");
    CHECK_EQ(decision.status, 429);
    CHECK_EQ(decision.on_unavailable, UNAVAILABLE_ALLOW);
    WANT("HEAD /auth/api/x", FROM, "api address:192.0.2.7");
    WANT("PUT /auth/api/x", FROM, "allow: no route matches this request");
    WANT("GET /auth", "X-Forwarded-Uri: /\r\nX-Forwarded-Host: A.shop.example:443\r\n" FROM,
         "all address:192.0.2.7");
    WANT("GET /auth", "Host: b.shop.example.\r\nX-Forwarded-Uri: /\r\n" FROM, "all address:192.0.2.7");
    WANT("GET /auth", FROM,
         "refuse: the proxy does not say which request it asks about; it must send X-Original-URI or "
         "X-Forwarded-Uri");
    kit_end(&kit);
}

TEST(what_a_client_adds_to_what_a_proxy_says_is_refused)
{
    kit_begin(&kit, rules);
    WANT("GET /auth", "X-Forwarded-Uri: /login\r\nX-Original-URI: /free\r\n" FROM,
         "refuse: X-Original-URI and X-Forwarded-Uri differ; the proxy must remove one of them");
    WANT("GET /auth/login", "X-Forwarded-Uri: /free\r\n" FROM,
         "refuse: the path behind /auth and X-Forwarded-Uri differ; the proxy must remove one of them");
    WANT("GET /auth", "X-Original-URI: /login\r\nX-Original-URI: /free\r\n" FROM,
         "refuse: X-Original-URI stands twice; the proxy must replace it");
    WANT("GET /auth", "X-Original-URI: /login\r\nX-Original-Method: POST\r\nX-Forwarded-Method: GET\r\n" FROM,
         "refuse: X-Original-Method and X-Forwarded-Method differ; the proxy must remove one of them");
    WANT("GET /auth", "X-Original-URI: /\r\nX-Forwarded-Host: a.shop.example, b\r\n" FROM,
         "refuse: the request's host is not valid");
    WANT("GET /auth", "X-Original-URI: /login\r\nX-Forwarded-Uri: /login\r\nX-Original-Method: POST\r\n" FROM,
         "login address:192.0.2.7 AND all address:192.0.2.7"); /* they agree */
    kit_end(&kit);
}

TEST(no_spelling_of_the_path_takes_another_route)
{
    kit_begin(&kit, rules);
    WANT("GET /auth", "X-Original-URI: /free/../api/%2e/x?/../\r\n" FROM, "api address:192.0.2.7");
    WANT("GET /auth/free/..//%61pi/x", FROM, "api address:192.0.2.7");
    WANT("GET /auth", "X-Original-URI: /free%2F..%2Fapi\r\n" FROM,
         "refuse: the path has an encoded slash (%2F), which servers understand differently");
    WANT("GET /auth", "X-Original-URI: api/x\r\n" FROM, "refuse: the path does not begin with a slash");
    WANT("GET /authapi/x", FROM, "refuse: the path does not begin with a slash");
    kit_end(&kit);
}

TEST(headers_of_a_peer_that_is_not_trusted_are_ignored)
{
    kit_begin(&kit, rules);
    WANT_OF("203.0.113.9:77", "GET /auth/api/x", "X-Original-URI: /free\r\n" FROM, "api address:203.0.113.9");
    WANT_OF("203.0.113.9:77", "GET /auth", "X-Original-URI: /api/x\r\n" FROM,
            "refuse: 203.0.113.9:77 is not in trusted_proxies: and names no path behind /auth");
    WANT_OF("unix:1000", "GET /auth/api/x", FROM, "api address:192.0.2.7");
    WANT_OF("unix:1000", "POST /auth/login", "", "refuse: the request has no key: address is missing");
    kit_end(&kit);
}

TEST(the_client_is_the_rightmost_entry_that_is_no_trusted_proxy)
{
    static const struct {
        const char *forwarded, *key;
    } rows[] = {
        {"", "127.0.0.1"},
        {"X-Forwarded-For: 192.0.2.7\r\n", "192.0.2.7"},
        {"X-Forwarded-For: 1.1.1.1, 192.0.2.7\r\n", "192.0.2.7"},
        {"X-Forwarded-For: 1.1.1.1, 192.0.2.7, 10.1.2.3\r\n", "192.0.2.7"},
        {"X-Forwarded-For: 1.1.1.1,192.0.2.7 ,\t10.1.2.3 \r\n", "192.0.2.7"},
        {"X-Forwarded-For: 1.1.1.1\r\nx-forwarded-for: 192.0.2.7\r\n", "192.0.2.7"},
        {"X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-For: 10.1.2.3\r\n", "192.0.2.7"},
        {"X-Forwarded-For: 192.0.2.7:5000\r\n", "192.0.2.7"},
        {"X-Forwarded-For: ::ffff:192.0.2.7\r\n", "192.0.2.7"},
        {"X-Forwarded-For: [2001:db8:1:2:3::4]:80\r\n", "2001:db8:1:2::/64"},
        {"X-Forwarded-For: 2001:db8:1:2:3::4, 10.0.0.1\r\n", "2001:db8:1:2::/64"},
        {"X-Forwarded-For: 10.0.0.2, 10.0.0.1\r\n", "10.0.0.2"},           /* all of them are proxies */
        {"X-Forwarded-For: 192.0.2.7, unknown, 10.0.0.1\r\n", "10.0.0.1"}, /* who wrote "unknown" counts */
        {"X-Forwarded-For: garbage\r\n", "127.0.0.1"},
        {"X-Forwarded-For: 192.0.2.7,\r\n", "127.0.0.1"},
        {"X-Real-IP: 192.0.2.7\r\nForwarded: for=192.0.2.7\r\n", "127.0.0.1"},
    };
    kit_begin(&kit, rules);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char want[128];
        (void)snprintf(want, sizeof want, "api address:%s", rows[i].key);
        WANT("GET /auth/api/x", rows[i].forwarded, want);
    }
    char many[1024] = "X-Forwarded-For: 192.0.2.7";
    for (int i = 0; i <= FORWARD_HOPS_MAX; i++)
        (void)snprintf(many + strlen(many), sizeof many - strlen(many), "%s",
                       i < FORWARD_HOPS_MAX ? ", 10.0.0.3" : "\r\n");
    WANT("GET /auth/api/x", many, "api address:10.0.0.3");
    kit_end(&kit);
}

static const char *client_of(const char *peer, const char *headers)
{
    static char address[IP_TEXT_MAX + 8];
    kit_say(&kit, "GET /v1/policies", headers);
    weir_forward_client(&kit.snapshot, &kit.request, peer, address);
    return address;
}

TEST(a_login_comes_from_the_client_behind_a_proxy_that_the_file_names)
{
    kit_begin(&kit, rules);
    CHECK_STR(client_of("127.0.0.1:4000", FROM), "192.0.2.7:0");
    CHECK_STR(client_of("10.0.0.1:4000", "X-Forwarded-For: 1.1.1.1, 2001:db8::7, 10.0.0.2\r\n"),
              "[2001:db8::7]:0");
    CHECK_STR(client_of("unix:1000", FROM), "192.0.2.7:0");
    CHECK_STR(client_of("unix:1000", ""), "");
    CHECK_STR(client_of("203.0.113.9:77", FROM), "");
    kit_end(&kit);
    kit_begin(&kit, ""); /* every program of this machine could say so */
    CHECK_STR(client_of("127.0.0.1:4000", FROM), "");
    kit_end(&kit);
}

TEST(the_first_key_that_is_present_counts)
{
    kit_begin(&kit, rules);
    WANT("GET /auth/api/x", "x-api-key: k1\r\nAuthorization: Bearer t\r\n" FROM, "api header:x-api-key:k1");
    WANT("GET /auth/api/x", "X-Api-Key:\r\nAuthorization: bearer test\r\n" FROM,
         "api bearer:sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08");
    WANT("GET /auth/api/x", "Authorization: Basic dGVzdA==\r\n" FROM, "api address:192.0.2.7");
    WANT("GET /auth/api/x", "X-Api-Key: 192.0.2.7\r\n" FROM, "api header:x-api-key:192.0.2.7");
    WANT("GET /auth/", "Host: a.shop.example\r\nCookie: a=1; sid=42; b=2\r\n" FROM, "all cookie:sid:42");
    WANT("GET /auth/", "Host: a.shop.example\r\nCookie: xsid=1;sid=\r\nX-Forwarded-For: 2001:db8:1:2::3\r\n",
         "all address:2001:db8:1::/48");
    WANT("GET /auth/open/x?k=a%20b", "", "api query:k:a b");
    WANT("GET /auth", "X-Original-URI: /open/x?j=1&%6b=2\r\n", "api query:k:2");
    WANT("GET /auth?k=3", "X-Original-URI: /open/x\r\n",
         "allow: the request has no key: query:k is missing"); /* that query is the proxy's */
    WANT("GET /auth/closed/x", "", "refuse: the request has no key: query:k is missing");
    kit_end(&kit);
}

TEST(a_key_with_several_values_is_refused)
{
    kit_begin(&kit, rules);
    WANT("GET /auth/api/x", "X-Api-Key: a\r\nx-api-key: b\r\n",
         "refuse: header:x-api-key has several values, or one that is not valid");
    WANT("GET /auth/api/x", "X-Api-Key: a\r\nx-api-key: a\r\n", "api header:x-api-key:a");
    WANT("GET /auth/", "Host: a.shop.example\r\nCookie: sid=1; sid=2\r\n",
         "refuse: cookie:sid has several values, or one that is not valid");
    WANT("GET /auth/", "Host: a.shop.example\r\nCookie: sid=1\r\nCookie: sid=2\r\n",
         "refuse: cookie:sid has several values, or one that is not valid");
    WANT("GET /auth/open/x?k=1&k=2", "", "refuse: query:k has several values, or one that is not valid");
    WANT("GET /auth/open/x?k=%zz", "", "refuse: query:k has several values, or one that is not valid");
    kit_end(&kit);
}

TEST(a_long_value_is_hashed)
{
    char header[FORWARD_VALUE_MAX + 32] = "X-Api-Key: ", want[FORWARD_KEY_MAX];
    size_t front = strlen(header);
    kit_begin(&kit, rules);
    memset(header + front, 'v', FORWARD_VALUE_MAX + 1);
    memcpy(header + front + FORWARD_VALUE_MAX, "\r\n", 3);
    (void)snprintf(want, sizeof want, "api header:x-api-key:%.*s", FORWARD_VALUE_MAX, header + front);
    WANT("GET /auth/api/x", header, want);
    memcpy(header + front + FORWARD_VALUE_MAX, "v\r\n", 4);
    struct digest digest = weir_sha256(header + front, FORWARD_VALUE_MAX + 1);
    char digits[65];
    weir_digest_write(&digest, digits);
    (void)snprintf(want, sizeof want, "api header:x-api-key:sha256:%s", digits);
    WANT("GET /auth/api/x", header, want);
    kit_end(&kit);
}

/* A client behind Envoy could ask for status=200 otherwise, which lets a refusal pass. */
TEST(the_proxy_alone_chooses_the_status)
{
    kit_begin(&kit, rules);
    ask("GET /auth?status=403", "X-Original-URI: /api/x\r\n");
    CHECK_EQ(decision.status, 403);
    ask("GET /auth?status=200", "X-Original-URI: /api/x\r\n");
    CHECK_EQ(decision.status, 429);
    ask("GET /auth", "X-Original-URI: /api/x?status=403\r\n");
    CHECK_EQ(decision.status, 429);
    ask("GET /auth/api/x?status=403", "");
    CHECK_EQ(decision.status, 429);
    kit_end(&kit);
}

TEST(without_a_route_the_default_answers)
{
    kit_begin(&kit, "routes_default: refuse");
    WANT("GET /auth/x", "", "refuse: no route matches this request");
    kit_end(&kit);
    kit_begin(&kit, "");
    WANT("GET /auth/x", "", "allow: no route matches this request");
    kit_end(&kit);
}
