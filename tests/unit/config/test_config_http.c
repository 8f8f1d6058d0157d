/* SPDX-License-Identifier: MIT */
/*
 * What weir.yaml says of HTTP, and tokens: it is read as it is meant, and mistakes are told with what to
 * write.
 */
#define _POSIX_C_SOURCE 200809L

#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "config/http_rules.h"

static char told[4096];

static void tell(void *arg, const struct config_complaint *complaint)
{
    size_t len = strlen(told);
    (void)arg;
    char text[COMPLAINT_TEXT_MAX];
    (void)snprintf(told + len, sizeof told - len, "%s\n", weir_complaint_text(complaint, true, text));
}

static struct config *parse(const char *text)
{
    told[0] = '\0';
    return weir_config_parse("w.yaml", text, strlen(text), tell, NULL);
}

static struct config *good(const char *text)
{
    struct config *config = parse(text);
    CHECK_STR(told, "");
    return config;
}

#define BAD(TEXT, WANT)                                                                                      \
    do {                                                                                                     \
        CHECK(parse(TEXT) == NULL);                                                                          \
        CHECK_STR(told, WANT);                                                                               \
    } while (0)

TEST(routes_say_what_they_match_and_take)
{
    struct config *config = good("policies: [{name: api, limits: 5/s}, {name: login, limits: 5/m}]\n"
                                 "trusted_proxies: [10.0.0.0/8, unix]\n"
                                 "routes:\n"
                                 "  - match: {host: API.example.com, method: POST, path: /login}\n"
                                 "    policy: [login, api]\n"
                                 "    key: [header:X-Api-Key, cookie:SID, address/56]\n"
                                 "    on_unavailable: allow\n"
                                 "    status: 503\n"
                                 "  - {policy: api, on_missing_key: allow}\n");
    if (!config || !CHECK_EQ(config->http->route_count, 2))
        return;
    const struct http_route *route = config->http->routes;
    CHECK_STR(route->host, "API.example.com");
    CHECK_STR(route->path, "/login");
    CHECK_EQ(route->methods.count, 1);
    CHECK_EQ(route->policies.count, 2);
    CHECK_EQ(route->key_count, 3);
    CHECK_STR(route->keys[0].text, "header:x-api-key");
    CHECK_STR(route->keys[1].name, "SID");
    CHECK_EQ(route->keys[2].kind, ROUTE_ADDRESS);
    CHECK_EQ(route->keys[2].bits, 56);
    CHECK_EQ(route->on_missing_key, ROUTE_REFUSE);
    CHECK_EQ(route->on_unavailable, UNAVAILABLE_ALLOW);
    CHECK_EQ(route->status, 2);
    CHECK(!route[1].host && !route[1].path && route[1].methods.count == 0);
    CHECK_STR(route[1].keys[0].text, "address");
    CHECK_EQ(route[1].on_missing_key, ROUTE_ALLOW);
    CHECK_EQ(route[1].status, 0);
    CHECK(config->http->trusts_unix && config->http->range_count == 1);
    CHECK_EQ(config->http->routes_default, ROUTE_ALLOW);
    weir_config_free(config);
}

TEST(mistakes_in_routes_are_told)
{
    BAD("policies: [{name: api, limits: 5/s}]\nroutes: [{policy: apo}]",
        "w.yaml:2:10: policy 'apo' of this route is not in policies:; did you mean api?\n");
    BAD("routes: [{policy: api}]",
        "w.yaml:1:10: policy 'api' of this route is not in policies:; add it there\n");
    BAD("routes: [{match: {path: /a}}]", "w.yaml:1:10: this route has no policy; write policy: api\n");
    BAD("routes: [{policy: a, matches: {}}]",
        "w.yaml:1:22: unknown key 'matches' in a route; did you mean match?\n");
    BAD("routes: [{policy: a, match: {paht: /x}}]",
        "w.yaml:1:30: unknown key 'paht' in match; did you mean path?\n");
    BAD("routes: [{policy: a, match: {path: api}}]",
        "w.yaml:1:36: path cannot be 'api'; a path begins with a slash: /api/*\n");
    BAD("routes: [{policy: a, match: {host: \"a.*\", method: [get]}}]",
        "w.yaml:1:36: host cannot be 'a.*'; * stands in front of a host alone: *.example.com\n"
        "w.yaml:1:52: method cannot be 'get'; write methods in capitals: [GET, POST]\n");
    BAD("routes: [{policy: a, key: [haeder:x, \"header:a b\", address/0, address/129, addressx]}]",
        "w.yaml:1:28: key cannot be 'haeder:x'; write some of [header:NAME, cookie:NAME, query:NAME, bearer, "
        "address, address/56]\n"
        "w.yaml:1:38: key cannot be 'header:a b'; write some of [header:NAME, cookie:NAME, query:NAME, "
        "bearer, address, address/56]\n"
        "w.yaml:1:52: key cannot be 'address/0'; write some of [header:NAME, cookie:NAME, query:NAME, "
        "bearer, "
        "address, address/56]\n"
        "w.yaml:1:63: key cannot be 'address/129'; write some of [header:NAME, cookie:NAME, query:NAME, "
        "bearer, address, address/56]\n"
        "w.yaml:1:76: key cannot be 'addressx'; write some of [header:NAME, cookie:NAME, query:NAME, bearer, "
        "address, address/56]\n");
    BAD("routes: [{policy: a, status: 200}]", "w.yaml:1:30: status cannot be '200'; write 429, 403 or 503\n");
    BAD("routes: [{policy: [a, a, a, a, a, a, a, a, a]}]", "w.yaml:1:19: policy has 9 entries; at most 8\n");
    BAD("routes_default: deny", "w.yaml:1:17: routes_default cannot be 'deny'; write allow or refuse\n");
    BAD("trusted_proxies: [10.0.0.1/8, example.com]",
        "w.yaml:1:19: trusted_proxies cannot be '10.0.0.1/8'; write addresses, ranges such as 10.0.0.0/8 "
        "(zeros behind the prefix), or unix\n"
        "w.yaml:1:31: trusted_proxies cannot be 'example.com'; write addresses, ranges such as 10.0.0.0/8 "
        "(zeros behind the prefix), or unix\n");
    BAD("ipv6_prefix: 129",
        "w.yaml:1:14: ipv6_prefix cannot be '129'; write a number of bits from 1 to 128, such as 64\n");
}

TEST(mistakes_in_the_section_http_are_told)
{
    BAD("listen: {proxy_protocol: [http, unix]}", "w.yaml:1:33: proxy_protocol cannot be 'unix'; write none, "
                                                  "or a list of [resp, resp_tls, http, https, "
                                                  "admin]\n");
    BAD("http: {hosts: [\"*.example.com\"], cors: [\"*\", \"https://a/b\"], headers: X, retry_jitter: 101%}",
        "w.yaml:1:16: hosts cannot be '*.example.com'; write whole names: [weir.example.com]\n"
        "w.yaml:1:41: cors cannot be '*'; write the origins of pages, each such as https://app.example.com "
        "or "
        "http://localhost:3000\n"
        "w.yaml:1:46: cors cannot be 'https://a/b'; write the origins of pages, each such as "
        "https://app.example.com or http://localhost:3000\n"
        "w.yaml:1:71: headers cannot be 'X'; write ietf, ietf-06, x, x-epoch or none\n"
        "w.yaml:1:88: retry_jitter cannot be '101%'; write a percentage from 0% to 100%, such as 20%\n");
    BAD("http: {host: [a]}", "w.yaml:1:8: unknown key 'host' in http; did you mean hosts?\n");
}

TEST(trusted_proxies_are_loopback_unless_the_file_says_otherwise)
{
    static const struct {
        const char *text, *peer;
        bool trusted;
    } rows[] = {
        {"", "127.0.0.1:80", true},
        {"", "127.9.9.9:80", true},
        {"", "[::1]:80", true},
        {"", "unix:1000", true},
        {"", "10.0.0.1:80", false},
        {"", "[::2]:80", false},
        {"trusted_proxies: none", "127.0.0.1:80", false},
        {"trusted_proxies: none", "unix:1000", false},
        {"trusted_proxies: [10.0.0.0/8]", "10.1.2.3:80", true},
        {"trusted_proxies: [10.0.0.0/8]", "127.0.0.1:80", false},
        {"trusted_proxies: [10.0.0.0/8]", "unix:0", false},
        {"trusted_proxies: [unix]", "unix", true},
        {"trusted_proxies: [\"2001:db8::/32\"]", "[2001:db8::7]:1", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct config *config = good(rows[i].text);
        if (config)
            CHECK_EQ(weir_proxy_is_trusted(config->http, rows[i].peer), rows[i].trusted);
        weir_config_free(config);
    }
}

#define TOKEN_DIGEST_A "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#define TOKEN_DIGEST_B "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"

TEST(users_may_have_tokens_alone)
{
    struct config *config =
        good("users: [{name: bot, token_sha256: [" TOKEN_DIGEST_A ", " TOKEN_DIGEST_B "], may: take}]");
    if (config) {
        CHECK(config->users[0].has_password);
        CHECK_EQ(config->users[0].password_count, 2);
        CHECK(config->users[0].passwords[0].is_token && config->users[0].passwords[1].is_token);
    }
    weir_config_free(config);
    config = good("users: [{name: bot, password: [a, b], token_sha256: " TOKEN_DIGEST_A ", may: take}]");
    if (config) {
        CHECK_EQ(config->users[0].password_count, 3);
        CHECK(!config->users[0].passwords[1].is_token && config->users[0].passwords[2].is_token);
    }
    weir_config_free(config);
    BAD("users: [{name: bot, token_sha256: abc, may: take}]",
        "w.yaml:1:35: token_sha256 is something else; write 64 hexadecimal digits, as sha256sum prints them "
        "of the token without a line break\n");
    BAD("users:\n- {name: a, token_sha256: " TOKEN_DIGEST_A ", may: take}\n"
        "- {name: b, token_sha256: " TOKEN_DIGEST_A ", may: take}\n",
        "w.yaml:3:3: this user has the same token as the one at line 2; make another one\n");
}

TEST(a_token_file_is_checked_as_a_password_file_is)
{
    char text[256], path[] = "/tmp/weir-token-XXXXXX";
    int fd = mkstemp(path);
    if (!CHECK(fd >= 0))
        return;
    (void)snprintf(text, sizeof text, "users: [{name: bot, token_file: %s, may: take}]", path);
    CHECK_EQ(write(fd, "0123456789abcdef\n", 17), 17);
    struct config *config = good(text);
    if (config) {
        struct digest digest = weir_sha256("0123456789abcdef", 16);
        CHECK(weir_digest_same(&config->users[0].passwords[0].digest, &digest));
        CHECK(config->users[0].passwords[0].is_token);
    }
    weir_config_free(config);
    CHECK_EQ(fchmod(fd, 0602), 0);
    CHECK(parse(text) == NULL && strstr(told, "can be written by every user (mode 0602); chmod 600 it"));
    CHECK_EQ(fchmod(fd, 0600), 0);
    CHECK_EQ(ftruncate(fd, 15), 0);
    CHECK(parse(text) == NULL && strstr(told, "has 15 bytes; a token has at least 16"));
    (void)close(fd);
    (void)unlink(path);
}
