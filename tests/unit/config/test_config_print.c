/* SPDX-License-Identifier: MIT */
/*
 * A configuration that is printed and read again is the same, but for passwords, which are never printed.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>

#include "base/buffer.h"
#include "check.h"
#include "config/config.h"

static char told[4096];

static void tell(void *arg, const struct config_complaint *complaint)
{
    size_t len = strlen(told);
    (void)arg;
    char text[COMPLAINT_TEXT_MAX];
    (void)snprintf(told + len, sizeof told - len, "%s\n", weir_complaint_text(complaint, true, text));
}

static struct config *parse(const char *text, size_t len)
{
    told[0] = '\0';
    struct config *config = weir_config_parse("w.yaml", text, len, tell, NULL);
    CHECK_STR(told, "");
    return config;
}

static char *print(const struct config *config)
{
    struct buffer out = {0};
    CHECK(weir_config_print(config, &out));
    buffer_put(&out, "", 1);
    return out.bytes; /* from its start: nothing was dropped */
}

/* Reads, prints, reads and prints again; gives the text of both, to be freed. */
static char *twice(const char *text, size_t len)
{
    struct config *config = parse(text, len);
    char *first = config ? print(config) : NULL;
    struct config *again = first ? parse(first, strlen(first)) : NULL;
    char *second = again ? print(again) : NULL;
    if (CHECK(second != NULL))
        CHECK_STR(second, first);
    weir_config_free(config);
    weir_config_free(again);
    free(second);
    return first;
}

static const char whole[] = "listen:\n"
                            "  resp: \"[::1]:9049\"\n"
                            "  resp_tls: none\n"
                            "  http: 127.0.0.1:9050\n"
                            "  https: none\n"
                            "  admin: none\n"
                            "  unix: /run/weir/weir.sock\n"
                            "  proxy_protocol: [resp, https]\n"
                            "data: /var/lib/weir\n"
                            "fsync: always\n"
                            "memory: 1GiB\n"
                            "threads: 4\n"
                            "clients:\n"
                            "  max: 2000\n"
                            "  per_address: 100\n"
                            "  per_user: 500\n"
                            "  idle: 5m\n"
                            "drain: 5s\n"
                            "client_limits:\n"
                            "  keys: 100000\n"
                            "  horizon: 1w\n"
                            "log:\n"
                            "  format: json\n"
                            "  level: warn\n"
                            "  refusals: 10/s\n"
                            "http:\n"
                            "  hosts: [weir.example.com]\n"
                            "  cors: [https://app.example.com]\n"
                            "  headers: x-epoch\n"
                            "  retry_jitter: 20%\n"
                            "trusted_proxies: [10.0.0.0/8, \"::1\", unix]\n"
                            "ipv6_prefix: 56\n"
                            "routes_default: refuse\n"
                            "routes:\n"
                            "  - policy: [api, \"off\"]\n"
                            "    match:\n"
                            "      host: \"*.example.com\"\n"
                            "      method: [POST, PUT]\n"
                            "      path: \"/v1/users/*/posts\"\n"
                            "    key: [header:x-api-key, cookie:SID, query:k, bearer, address/48]\n"
                            "    on_missing_key: allow\n"
                            "    on_unavailable: refuse\n"
                            "    status: 403\n"
                            "  - policy: [api]\n"
                            "    key: [address]\n"
                            "    on_missing_key: refuse\n"
                            "    on_unavailable: error\n"
                            "    status: 429\n"
                            "tls:\n"
                            "  cert: /etc/weir/tls.pem\n"
                            "  key: /etc/weir/tls.key\n"
                            "  ca: /etc/weir/ca.pem\n"
                            "  clients: optional\n"
                            "watch: files\n"
                            "users:\n"
                            "  - name: default\n"
                            "    may: all\n"
                            "  - name: app\n"
                            "    certificate: \"CN=app,O=Example\"\n"
                            "    may: [take]\n"
                            "policies:\n"
                            "  - name: api\n"
                            "    limits: [100/s burst=200, 10k/h]\n"
                            "    candidate: [30/s burst=60]\n"
                            "    mode: enforce 25%\n"
                            "    on_full: refuse\n"
                            "    keys: 1000\n"
                            "    reserve:\n"
                            "      ttl: 2m\n"
                            "      ttl_max: 1d\n"
                            "      overrun: refuse\n"
                            "    ids: 90s\n"
                            "    recover: floor\n"
                            "    headers: auto\n"
                            "    overrides:\n"
                            "      - key: org:acme\n"
                            "        limits: [1k/s]\n"
                            "        until: 2027-01-31\n"
                            "        reason: launch week\n"
                            "      - key: \"internal:*\"\n"
                            "        limits: [unlimited]\n"
                            "        until: 2027-01-31T12:00:00Z\n"
                            "      - key: \"\\u0000\\\"\\\\ #\"\n"
                            "        limits: [blocked]\n"
                            "  - name: \"off\"\n"
                            "    limits: [\"5/m name=#1\"]\n"
                            "    mode: shadow\n"
                            "    on_full: share\n"
                            "    reserve:\n"
                            "      ttl: 1m\n"
                            "      ttl_max: 1d\n"
                            "      overrun: debt\n"
                            "    ids: 5m\n"
                            "    recover: exact\n"
                            "    headers: auto\n";

TEST(what_is_printed_reads_back_as_the_same)
{
    char *text = twice(whole, sizeof whole - 1);
    CHECK_STR(text, whole);
    free(text);
}

TEST(tiers_and_lists_are_printed_as_they_were_said)
{
    static const char text[] = "policies:\n"
                               "  - name: login\n"
                               "    address:\n"
                               "      - v4: 32\n"
                               "        v6: 64\n"
                               "        limits: [5/m]\n"
                               "      - v4: 24\n"
                               "        v6: 48\n"
                               "        limits: [50/m, 1k/d]\n"
                               "    allow: [10.0.0.0/8]\n"
                               "    block: [192.0.2.7, \"2001:db8::/32\"]\n";
    static const char overrides[] = "    overrides:\n"
                                    "      - key: 192.0.2.7\n"
                                    "        limits: [8/m]\n"
                                    "      - key: 192.0.2.0/24\n"
                                    "        limits: [9/m]\n";
    char both[1024];
    (void)snprintf(both, sizeof both, "%s%s  - {name: next, limits: 1/s}\n", text, overrides);
    char *printed = twice(both, strlen(both));
    if (CHECK(printed != NULL))
        CHECK(strstr(printed, text) && strstr(printed, overrides) && !strstr(printed, "24-48"));
    free(printed);
}

TEST(what_nobody_said_is_printed_too)
{
    char *text = twice("", 0);
    CHECK_STR(text, "listen:\n"
                    "  resp: 127.0.0.1:9049\n"
                    "  resp_tls: none\n"
                    "  http: 127.0.0.1:9050\n"
                    "  https: none\n"
                    "  admin: none\n"
                    "  unix: none\n"
                    "  proxy_protocol: none\n"
                    "data: none\n"
                    "fsync: everysec\n"
                    "memory: 256MiB\n"
                    "# threads: one for each processor\n"
                    "clients:\n"
                    "  max: 10000\n"
                    "  # per_address: any number\n"
                    "  # per_user: half, if several users are no admins\n"
                    "  idle: never\n"
                    "drain: 5s\n"
                    "client_limits:\n"
                    "  # keys: as many as an eighth of the memory holds\n"
                    "  horizon: 31d\n"
                    "log:\n"
                    "  format: logfmt\n"
                    "  level: info\n"
                    "  refusals: none\n"
                    "http:\n"
                    "  cors: none\n"
                    "  headers: ietf\n"
                    "  retry_jitter: 0%\n"
                    "# trusted_proxies: loopback addresses and unix sockets\n"
                    "ipv6_prefix: 64\n"
                    "routes_default: allow\n"
                    "tls:\n"
                    "  clients: none\n"
                    "watch: none\n"
                    "policies: []\n");
    free(text);
}

TEST(a_password_is_never_printed)
{
    static const char line[] =
        "users: [{name: app, password: tops3cret, may: [take, adjust], keys: [\"a*\", \"*\"],"
        " policies: [api]}]";
    struct digest digest = weir_sha256("tops3cret", 9);
    char digits[65];
    weir_digest_write(&digest, digits);
    struct config *config = parse(line, sizeof line - 1);
    char *text = config ? print(config) : NULL;
    if (CHECK(text != NULL)) {
        CHECK(!strstr(text, "tops3cret") && !strstr(text, digits));
        const char *users = strstr(text, "users:");
        CHECK_STR(users, "users:\n"
                         "  - name: app\n"
                         "    # password_sha256: (hidden)\n"
                         "    may: [take, adjust]\n"
                         "    keys: [\"a*\", \"*\"]\n"
                         "    policies: [api]\n"
                         "policies: []\n");
    }
    free(text);
    weir_config_free(config);
}

static const char one_override[] =
    "policies: [{name: p, limits: 5/m, overrides: [{key: k, limits: 5/m, reason: r}]}]";

/* Keys and reasons of any characters. */
TEST(any_key_survives)
{
    static const char *const letters[] = {"a",
                                          "Z",
                                          "0",
                                          " ",
                                          ":",
                                          "#",
                                          "\"",
                                          "\\",
                                          "'",
                                          "*",
                                          "-",
                                          "\n",
                                          "\t",
                                          "\r",
                                          "\x7f",
                                          "\xc3\xa9",
                                          "\xe2\x80\xa8",
                                          "\xf0\x9f\x8c\x8a",
                                          "\x01",
                                          "{",
                                          "}",
                                          "[",
                                          "]",
                                          ",",
                                          "&",
                                          "!",
                                          "|",
                                          "%",
                                          "@",
                                          "=",
                                          "\xef\xbb\xbf",
                                          "\xc2\x85",
                                          "~",
                                          "?"};
    struct rng rng = rng_new(7);
    for (int round = 0; round < 400; round++) {
        struct config *config = parse(one_override, sizeof one_override - 1);
        if (!config)
            return;
        struct config_override *one = &config->policies[0].overrides[0];
        char key[128] = "", reason[128] = "r";
        for (int64_t i = rng_between(&rng, 1, 12); i > 0; i--) {
            (void)snprintf(key + strlen(key), 8, "%s", letters[rng_between(&rng, 0, 33)]);
            (void)snprintf(reason + strlen(reason), 8, "%s", letters[rng_between(&rng, 0, 33)]);
        }
        for (size_t i = 0; i + 1 < strlen(key); i++) /* a star stands at the end */
            key[i] = key[i] == '*' ? '+' : key[i];
        free(one->key);
        free(one->reason);
        one->prefix = key[strlen(key) - 1] == '*';
        one->len = strlen(key) - (one->prefix ? 1 : 0);
        key[one->len] = '\0';
        one->key = strdup(key);
        one->reason = strdup(reason);
        char *text = print(config);
        struct config *again = parse(text, strlen(text));
        if (CHECK(again != NULL)) {
            const struct config_override *back = &again->policies[0].overrides[0];
            CHECK_EQ(back->len, one->len);
            CHECK_STR(back->key, key);
            CHECK_EQ(back->prefix, one->prefix);
            CHECK_STR(back->reason, reason);
        }
        free(text);
        weir_config_free(config);
        weir_config_free(again);
    }
}

TEST(no_room_is_told)
{
    struct config *config = weir_config_new();
    struct buffer out = {.most = 100};
    CHECK(config && !weir_config_print(config, &out));
    weir_buffer_free(&out);
    weir_config_free(config);
}
