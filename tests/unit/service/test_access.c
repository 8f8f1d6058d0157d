/* SPDX-License-Identifier: MIT */
/*
 * Credentials of requests, and what web pages of other sites cannot make a browser do.
 */
#include "service/http/access.h"

#include "unit/service/http_kit.h"

static struct http_kit kit;

/* ---- credentials ---- */

static const char *credentials_of(const char *headers)
{
    static char text[256];
    struct http_credentials credentials;
    kit_say(&kit, "GET /", headers);
    weir_http_credentials_read(&kit.request, "Authorization", &credentials);
    if (credentials.kind == CREDENTIALS_BASIC)
        (void)snprintf(text, sizeof text, "%.*s|%.*s", (int)credentials.name.len, credentials.name.bytes,
                       (int)credentials.password.len, credentials.password.bytes);
    else if (credentials.kind == CREDENTIALS_BEARER)
        (void)snprintf(text, sizeof text, "token %.*s", (int)credentials.token.len, credentials.token.bytes);
    else
        (void)snprintf(text, sizeof text, "%s", credentials.why ? credentials.why : "none");
    CHECK_EQ(credentials.kind == CREDENTIALS_BAD, credentials.why != NULL);
    weir_http_credentials_wipe(&credentials);
    return text;
}

TEST(credentials_are_basic_or_bearer)
{
    kit_begin(&kit, "");
    CHECK_STR(credentials_of(""), "none");
    CHECK_STR(credentials_of("Authorization: Basic YXBwOnA6dw==\r\n"), "app|p:w");
    CHECK_STR(credentials_of("authorization: bAsIc   YXBwOg==\r\n"), "app|");
    CHECK_STR(credentials_of("Authorization: Bearer abc.def\r\n"), "token abc.def");
    static const char basic[] = "Authorization: Basic is followed by the base64 of name:password";
    CHECK_STR(credentials_of("Authorization: Basic YXBw\r\n"), basic); /* no colon */
    CHECK_STR(credentials_of("Authorization: Basic YXBw!\r\n"), basic);
    CHECK_STR(credentials_of("Authorization: Digest a=b\r\n"), "Authorization is neither Basic nor Bearer");
    CHECK_STR(credentials_of("Authorization: Basic\r\n"), "Authorization is neither Basic nor Bearer");
    CHECK_STR(credentials_of("Authorization: Bearer a\r\nAuthorization: Bearer a\r\n"),
              "Authorization stands twice");
    char longer[2048] = "Authorization: Basic ";
    memset(longer + strlen(longer), 'Y', 1200);
    memcpy(longer + strlen(longer), "\r\n", 3);
    CHECK_STR(credentials_of(longer), basic);
    memcpy(longer, "Authorization: Bearer ", 22);
    CHECK_STR(credentials_of(longer), "Authorization: Bearer is followed by a token of at most 512 bytes");
    kit_end(&kit);
}

TEST(a_token_names_its_user)
{
    kit_begin(&kit, "users:\n"
                    "  - {name: app, password: 0123456789abcdef, may: take}\n"
                    "  - {name: bot, may: take, token_sha256:\n"
                    "      9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}\n");
    uint64_t last = 0, generation = 0;
    struct users *users = (struct users *)(uintptr_t)kit.snapshot.users;
    weir_users_number(users, users, &last);
    struct digest good = weir_sha256("test", 4), bad = weir_sha256("tesT", 4);
    struct digest password = weir_sha256("0123456789abcdef", 16);
    const struct user *user = weir_users_by_token(users, &good, &generation);
    if (CHECK(user != NULL)) {
        CHECK_STR(user->name, "bot");
        CHECK(weir_user_has(user, generation));
    }
    CHECK(weir_users_by_token(users, &bad, &generation) == NULL);
    CHECK(weir_users_by_token(users, &password, &generation) == NULL); /* that is no token */
    good.bytes[31] ^= 1;
    CHECK(weir_users_by_token(users, &good, &generation) == NULL);
    kit_end(&kit);
}

/* ---- browsers ---- */

static const char *check_access(const char *first, const char *headers, bool has_credentials, bool exempt)
{
    static char text[300];
    struct access_refusal refusal;
    kit_say(&kit, first, headers);
    if (weir_access_check(&kit.snapshot, &kit.request, has_credentials, exempt, &refusal))
        return "fine";
    (void)snprintf(text, sizeof text, "%d %s", refusal.status, refusal.why);
    return text;
}

#define UNKNOWN(HOST)                                                                                        \
    "403 host '" HOST "' is not known; without a login clients call the server by an address or as "         \
    "localhost, or its name stands in http: {hosts: [...]}"
#define CROSS                                                                                                \
    "403 a web page of another site sent this; if that is meant, its origin must stand in http: {cors: "     \
    "[...]}"
#define LOCAL "Host: localhost:9050\r\n"
#define JSON  "Content-Type: application/json\r\n"

TEST(without_a_login_the_host_must_be_known)
{
    kit_begin(&kit, "http: {hosts: [weir.example.com]}");
    static const char *const good[] = {"localhost", "LOCALHOST:9050",   "127.0.0.1:9050",      "[::1]:9050",
                                       "10.0.0.7",  "weir.example.com", "Weir.example.com.:80"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char header[64];
        (void)snprintf(header, sizeof header, "Host: %s\r\n", good[i]);
        CHECK_STR(check_access("GET /v1/take/api/k", header, false, false), "fine");
    }
    CHECK_STR(check_access("GET /", "Host: evil.example\r\n", false, false), UNKNOWN("evil.example"));
    CHECK_STR(check_access("GET /", "Host: localhost.evil.example\r\n", false, false),
              UNKNOWN("localhost.evil.example"));
    CHECK_STR(check_access("GET /", "Host: evil.example\r\n", true, false), "fine");
    CHECK_STR(check_access("GET /auth", "Host: evil.example\r\n", false, true), "fine");
    kit_end(&kit);
    kit_begin(&kit, "users: [{name: app, password: x, may: all}]"); /* 401 comes for want of a login */
    CHECK_STR(check_access("GET /", "Host: evil.example\r\n", false, false), "fine");
    kit_end(&kit);
}

TEST(a_page_of_another_site_is_refused)
{
    kit_begin(&kit, "http: {cors: [\"https://app.example.com\"]}");
    static const struct {
        const char *headers;
        bool good;
    } rows[] = {
        {LOCAL, true},
        {LOCAL "Origin: http://localhost:9050\r\n", true},
        {LOCAL "Origin: HTTP://LocalHost:9050\r\n", true},
        {LOCAL "Origin: http://localhost:3000\r\n", false},
        {LOCAL "Origin: http://localhost\r\n", false},
        {LOCAL "Origin: http://localhost:90501\r\n", false},
        {LOCAL "Origin: null\r\n", false},
        {LOCAL "Origin: https://evil.example\r\n", false},
        {LOCAL "Origin: https://app.example.com\r\nSec-Fetch-Site: cross-site\r\n", true},
        {LOCAL "Origin: https://app.example.com\r\nOrigin: https://evil.example\r\n", false},
        {LOCAL "Origin: https://app.example.com.evil.example\r\n", false},
        {LOCAL "Sec-Fetch-Site: same-origin\r\n", true},
        {LOCAL "Sec-Fetch-Site: none\r\n", true},
        {LOCAL "Sec-Fetch-Site: same-site\r\n", false},
        {LOCAL "Sec-Fetch-Site: cross-site\r\n", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK_STR(check_access("GET /v1/take/api/k", rows[i].headers, false, false),
                  rows[i].good ? "fine" : CROSS);
    /* A browser adds what was typed once; a token it does not know. */
    CHECK_STR(check_access("GET /", LOCAL "Authorization: Basic YTpi\r\nOrigin: null\r\n", true, false),
              CROSS);
    CHECK_STR(check_access("GET /", LOCAL "Authorization: Bearer t\r\nOrigin: null\r\n", true, false),
              "fine");
    CHECK_STR(check_access("GET /auth", LOCAL "Origin: null\r\n", false, true), "fine");
    kit_end(&kit);
}

TEST(what_changes_something_must_be_json)
{
    static const char post[] =
        "415 POST needs Content-Type: application/json, so that no web page can send it unasked";
    kit_begin(&kit, "");
    CHECK_STR(check_access("POST /v1/take", LOCAL, false, false), post);
    CHECK_STR(check_access("POST /v1/take", LOCAL, true, false), post);
    CHECK_STR(check_access("POST /v1/take", LOCAL "Content-Type: text/plain\r\n", false, false), post);
    CHECK_STR(check_access("POST /v1/take", LOCAL "Content-Type: application/jsonx\r\n", false, false), post);
    CHECK_STR(check_access("POST /v1/take", LOCAL JSON, false, false), "fine");
    CHECK_STR(
        check_access("PUT /v1/x", LOCAL "Content-Type: Application/JSON; charset=utf-8\r\n", false, false),
        "fine");
    CHECK(strncmp(check_access("PUT /v1/x", LOCAL, false, false), "415 PUT", 7) == 0);
    CHECK_STR(check_access("DELETE /v1/x", LOCAL, false, false), "fine");
    CHECK_STR(check_access("POST /auth/x", LOCAL, false, true), "fine");
    kit_end(&kit);
}

/* ---- CORS ---- */

static const char *cors_of(const char *first, const char *headers)
{
    static char text[512];
    struct buffer out = {0};
    kit_say(&kit, first, headers);
    weir_access_put_cors(&kit.snapshot, &kit.request, &out);
    (void)snprintf(text, sizeof text, "%.*s", (int)buffer_len(&out), out.bytes ? buffer_bytes(&out) : "");
    weir_buffer_free(&out);
    return text;
}

TEST(pages_of_the_origins_in_the_file_may_read_answers)
{
    static const char asks[] = LOCAL "Origin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n";
    kit_begin(&kit, "");
    CHECK_STR(cors_of("GET /", LOCAL "Origin: https://a.example\r\n"), "");
    kit_end(&kit);
    kit_begin(&kit, "http: {cors: [\"https://a.example\"]}");
    CHECK_STR(cors_of("GET /", LOCAL), "Vary: Origin\r\n");
    CHECK_STR(cors_of("GET /", LOCAL "Origin: https://b.example\r\n"), "Vary: Origin\r\n");
    CHECK_STR(cors_of("GET /", LOCAL "Origin: https://a.example\r\n"),
              "Vary: Origin\r\nAccess-Control-Allow-Origin: https://a.example\r\n"
              "Access-Control-Expose-Headers: Retry-After, RateLimit, RateLimit-Policy, X-RateLimit-Limit, "
              "X-RateLimit-Remaining, X-RateLimit-Reset\r\n");
    CHECK_STR(cors_of("OPTIONS /v1/take", asks),
              "Vary: Origin\r\nAccess-Control-Allow-Origin: https://a.example\r\n"
              "Access-Control-Allow-Methods: GET, POST, PUT, DELETE\r\n"
              "Access-Control-Allow-Headers: Authorization, Content-Type, Accept\r\n"
              "Access-Control-Max-Age: 600\r\n");
    CHECK(weir_access_is_preflight(&kit.request));
    kit_say(&kit, "OPTIONS /v1/take", LOCAL);
    CHECK(!weir_access_is_preflight(&kit.request));
    kit_end(&kit);
}
