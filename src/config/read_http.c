/* SPDX-License-Identifier: MIT */
/*
 * What weir.yaml says of HTTP: routes, trusted proxies, browsers.
 */
#include "config/read_http.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "config/values.h"
#include "http/path.h"

#define HOSTS_MAX     64
#define ROUTE_KEY_ROW 2 /* `key` in route_keys */

static bool is_token_byte(char byte)
{
    char lower = weir_text_lower(byte);
    return (lower >= 'a' && lower <= 'z') || (byte >= '0' && byte <= '9') ||
           (byte != '\0' && strchr("!#$%&'*+-.^_`|~", byte));
}

static bool is_http_token(const char *text, size_t most)
{
    size_t len = 0;
    while (is_token_byte(text[len]))
        len++;
    return len > 0 && len <= most && text[len] == '\0';
}

/* ---- routes ---- */

static const char *method_fault(const char *text)
{
    bool lower = strpbrk(text, "abcdefghijklmnopqrstuvwxyz") != NULL;
    return !lower && is_http_token(text, ROUTE_NAME_MAX) ? NULL : "write methods in capitals: [GET, POST]";
}

/* "address", or "address/56". */
static bool parse_address_key(const char *text, int *bits)
{
    struct ip_range range;
    char example[16];
    size_t front = strlen("address");
    *bits = 0;
    if (strncmp(text, "address", front) != 0 || strlen(text) > front + 4)
        return false;
    if (text[front] == '\0')
        return true;
    (void)snprintf(example, sizeof example, "::%s", text + front);
    *bits = weir_ip_range_read((struct slice){example, strlen(example)}, &range) ? range.bits : 0;
    return text[front] == '/' && *bits > 0;
}

/* What `text` says, which is changed and stays in use. */
static bool parse_route_key(char *text, struct route_key *key)
{
    *key = (struct route_key){.text = text};
    static const char *const named[] = {"header:", "cookie:", "query:"};
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        if (strncmp(text, named[i], strlen(named[i])) == 0) {
            key->kind = (enum route_key_kind)i;
            key->name = text + strlen(named[i]);
            for (char *at = text; key->kind == ROUTE_HEADER && *at; at++)
                *at = weir_text_lower(*at);
            return is_http_token(key->name, ROUTE_NAME_MAX);
        }
    key->kind = strcmp(text, "bearer") == 0 ? ROUTE_BEARER : ROUTE_ADDRESS;
    return key->kind == ROUTE_BEARER || parse_address_key(text, &key->bits);
}

static const char *route_key_fault(const char *text)
{
    char copy[ROUTE_NAME_MAX + 16];
    struct route_key key;
    return (size_t)snprintf(copy, sizeof copy, "%s", text) < sizeof copy && parse_route_key(copy, &key)
               ? NULL
               : "write some of [header:NAME, cookie:NAME, query:NAME, bearer, address, address/56]";
}

static const char *const answers[] = {"allow", "refuse", NULL};               /* enum route_answer */
static const char *const unavailables[] = {"error", "allow", "refuse", NULL}; /* enum unavailable_rule */
static const char *const statuses[] = {"429", "403", "503", NULL};

#define AT(MEMBER) .offset = offsetof(struct http_route, MEMBER)
static const struct config_key match_keys[] = {
    {"host", "a name such as api.example.com or \"*.example.com\"", KEY_TEXT, AT(host),
     .fault = weir_host_pattern_fault},
    {"method", "GET, or a list: [POST, PUT]", KEY_TEXTS, AT(methods), .most = ROUTE_METHODS_MAX,
     .fault = method_fault, .one = true},
    {"path", "a path such as /login, /users/*/posts or /static/**", KEY_TEXT, AT(path),
     .fault = weir_path_pattern_fault},
};
static const struct config_map match_map = {KEY_ARRAY(match_keys)};
static const struct config_key route_keys[] = {
    {"policy", "a policy's name, or a list of at most 8: [api, login]", KEY_NAMES, AT(policies),
     .most = ROUTE_POLICIES_MAX, .one = true},
    {"match", "match: {path: /api/**}", KEY_MAP, .inside = &match_map},
    {"key", "some of [header:NAME, cookie:NAME, query:NAME, bearer, address]", KEY_TEXTS, AT(key_texts),
     .most = ROUTE_KEYS_MAX, .fault = route_key_fault, .one = true},
    {"on_missing_key", "refuse or allow", KEY_WORD, AT(on_missing_key), .words = answers},
    {"on_unavailable", "error, allow or refuse", KEY_WORD, AT(on_unavailable), .words = unavailables},
    {"status", "429, 403 or 503", KEY_WORD, AT(status), .words = statuses},
};
#undef AT
static const struct config_map route_map = {KEY_ARRAY(route_keys)};

static void read_one_route(struct config_reader *reading, const struct yaml_node *node,
                           struct http_route *route)
{
    static const char address[] = "address";
    struct yaml_node usual = {.kind = NODE_TEXT, .text = (char *)(uintptr_t)address, .len = strlen(address)};
    route->place = node->place;
    route->on_missing_key = ROUTE_REFUSE;
    if (!weir_reading_map(reading, node, "a route", &route_map, route))
        return;
    if (!weir_node_find(node, "policy"))
        weir_reading_wrong(reading, node->place, "this route has no policy; write policy: api");
    if (!weir_node_find(node, "key"))
        weir_reading_key(reading, &usual, &route_keys[ROUTE_KEY_ROW], route);
    for (size_t i = 0; i < route->key_texts.count; i++)
        route->key_count += parse_route_key(route->key_texts.texts[i], &route->keys[i]);
}

static void read_routes(struct config_reader *reading, const struct yaml_node *node,
                        const struct config_key *key, void *into)
{
    struct http_rules *rules = into;
    if (!weir_reading_is_list(reading, node, key, ROUTES_MAX))
        return;
    rules->routes = weir_reading_array(reading, weir_node_count(node), sizeof *rules->routes);
    for (const struct yaml_node *entry = rules->routes ? node->first : NULL; entry; entry = entry->next) {
        read_one_route(reading, entry, &rules->routes[rules->route_count++]);
        if (reading->complaints >= CONFIG_COMPLAINTS_MAX)
            return;
    }
}

static void print_routes(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    const struct http_rules *rules = from;
    if (rules->route_count > 0)
        weir_buffer_print(out, "%s:\n", key->name);
    for (size_t i = 0; i < rules->route_count; i++)
        weir_keys_print(out, &route_map, &rules->routes[i], indent + 4, true);
}

/* ---- proxies ---- */

static const char *proxy_fault(const char *text)
{
    struct ip_range range;
    if (strcmp(text, "unix") == 0 || strcmp(text, "none") == 0 ||
        weir_ip_range_read((struct slice){text, strlen(text)}, &range))
        return NULL;
    return "write addresses, ranges such as 10.0.0.0/8 (zeros behind the prefix), or unix";
}

/* The addresses among them, once the file is read. */
static void compile_proxies(struct http_rules *rules)
{
    for (size_t i = 0; i < rules->proxies.count; i++) {
        const char *text = rules->proxies.texts[i];
        rules->trusts_unix |= strcmp(text, "unix") == 0;
        if (weir_ip_range_read((struct slice){text, strlen(text)}, &rules->ranges[rules->range_count]))
            rules->range_count++;
    }
}

/* ---- browsers ---- */

static const char *name_fault(const char *text)
{
    return text[0] == '*' ? "write whole names: [weir.example.com]" : weir_host_pattern_fault(text);
}

static const char *origin_fault(const char *text)
{
    const char *name = strncmp(text, "https://", 8) == 0  ? text + 8
                       : strncmp(text, "http://", 7) == 0 ? text + 7
                                                          : "";
    struct slice host;
    return weir_host_read((struct slice){name, strlen(name)}, &host)
               ? NULL
               : "write the origins of pages, each such as https://app.example.com or http://localhost:3000";
}

/* "20%". */
static void read_jitter(struct config_reader *reading, const struct yaml_node *node,
                        const struct config_key *key, void *into)
{
    if (!weir_reading_is_text(reading, node, key))
        return;
    char *end = node->text;
    long percent = node->text[0] >= '0' && node->text[0] <= '9' ? strtol(node->text, &end, 10) : -1;
    if (percent >= 0 && percent <= CONFIG_PERCENT_ALL && strcmp(end, "%") == 0)
        *key_number(key, into) = percent;
    else
        weir_reading_unfit(reading, node, key);
}

static void print_jitter(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    weir_buffer_print(out, "%*s%s: %" PRId64 "%%\n", indent, "", key->name, *key_number(key, from));
}

static const char *const dialects[] = {"ietf", "ietf-06", "x", "x-epoch", "none", NULL}; /* rate_headers */

#define AT(MEMBER) .offset = offsetof(struct http_rules, MEMBER)
static const struct config_key section_keys[] = {
    {"hosts", "names by which clients call this server: [weir.example.com]", KEY_TEXTS, AT(hosts),
     .most = HOSTS_MAX, .fault = name_fault},
    {"cors", "none, or origins: [\"https://app.example.com\"]", KEY_TEXTS, AT(origins), .most = HOSTS_MAX,
     .unset = "none", .fault = origin_fault},
    {"headers", "ietf, ietf-06, x, x-epoch or none", KEY_WORD, AT(headers), .words = dialects},
    {"retry_jitter", "a percentage from 0% to 100%, such as 20%", KEY_OWN, AT(retry_jitter),
     .read = read_jitter, .print = print_jitter},
};
static const struct config_map section_map = {KEY_ARRAY(section_keys)};

static const struct config_key http_keys[] = {
    [HTTP_ROUTES] = {"routes", "a list: - {match: {path: /api/**}, policy: api, key: [address]}", KEY_OWN,
                     .read = read_routes, .print = print_routes},
    [HTTP_ROUTES_DEFAULT] = {"routes_default", "allow or refuse", KEY_WORD, AT(routes_default),
                             .words = answers},
    [HTTP_TRUSTED_PROXIES] = {"trusted_proxies", "none, or a list: [10.0.0.0/8, \"::1\", unix]", KEY_TEXTS,
                              AT(proxies), .most = PROXIES_MAX,
                              .unset = "# loopback addresses and unix sockets", .fault = proxy_fault,
                              .one = true},
    [HTTP_IPV6_PREFIX] = {"ipv6_prefix", "a number of bits from 1 to 128, such as 64", KEY_COUNT,
                          AT(ipv6_prefix), BETWEEN(1, 128), .usual = IPV6_PREFIX},
    [HTTP_SECTION] = {"http", "http: {hosts: [weir.example.com]}", KEY_MAP, .inside = &section_map},
};
#undef AT

/* ---- the file as a whole ---- */

static bool has_address_keys(const struct http_route *route)
{
    for (size_t i = 0; i < route->key_count; i++)
        if (route->keys[i].kind != ROUTE_ADDRESS)
            return false;
    return true;
}

static void check_route(struct config_reader *reading, const struct http_route *route)
{
    const struct config *config = reading->config;
    for (size_t i = 0; i < route->policies.count; i++) {
        const char *name = route->policies.texts[i];
        struct nearest near = weir_nearest(name, strlen(name));
        bool found = false;
        for (size_t at = 0; at < config->policy_count && !found; at++) {
            found = strcmp(config->policies[at].name, name) == 0;
            if (found && config->policies[at].address && !has_address_keys(route))
                weir_reading_wrong(reading, route->place,
                                   "the keys of policy '%s' are addresses; write key: address", name);
            (void)weir_nearest_try(&near, config->policies[at].name);
        }
        if (!found && near.found)
            weir_reading_wrong(reading, route->place,
                               "policy '%s' of this route is not in policies:; did you mean %s?", name,
                               near.found);
        else if (!found)
            weir_reading_wrong(reading, route->place,
                               "policy '%s' of this route is not in policies:; add it there", name);
    }
}

void weir_reading_end_http(struct config_reader *reading)
{
    struct http_rules *rules = reading->config->http;
    compile_proxies(rules);
    for (size_t i = 0; i < rules->route_count && reading->complaints < CONFIG_COMPLAINTS_MAX; i++)
        check_route(reading, &rules->routes[i]);
}

void weir_reading_http(struct config_reader *reading, const struct yaml_node *node,
                       const struct config_key *key, void *into)
{
    weir_reading_key(reading, node, &http_keys[key->least], ((struct config *)into)->http);
}

void weir_http_print(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    weir_key_print(out, &http_keys[key->least], ((const struct config *)from)->http, indent);
}
