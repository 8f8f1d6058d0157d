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

#define PROXIES_MAX 256
#define HOSTS_MAX   64

/* A copy in lower case, if `fault` finds nothing wrong with it. */
static char *read_checked(struct config_reader *reading, const struct yaml_node *node,
                          const struct config_key *key, const char *(*fault)(const char *), bool lower)
{
    if (!weir_reading_is_text(reading, node, key))
        return NULL;
    char *text = weir_reading_copy(reading, node->text, node->len);
    for (char *at = text; lower && text && *at; at++)
        *at = weir_text_lower(*at);
    const char *wrong = text ? fault(text) : NULL;
    if (!wrong)
        return text;
    char shown[READING_SHOWN];
    weir_reading_wrong(reading, node->place, "%s cannot be '%s'; %s", key->name,
                       weir_reading_show(node->text, node->len, shown), wrong);
    free(text);
    return NULL;
}

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

/* ---- what a route matches ---- */

static void read_match_host(struct config_reader *reading, const struct yaml_node *node,
                            const struct config_key *key, void *into)
{
    ((struct http_route *)into)->host = read_checked(reading, node, key, weir_host_pattern_fault, true);
}

static void read_match_path(struct config_reader *reading, const struct yaml_node *node,
                            const struct config_key *key, void *into)
{
    ((struct http_route *)into)->path = read_checked(reading, node, key, weir_path_pattern_fault, false);
}

static const char *method_fault(const char *text)
{
    bool lower = strpbrk(text, "abcdefghijklmnopqrstuvwxyz") != NULL;
    return !lower && is_http_token(text, ROUTE_NAME_MAX) ? NULL : "write methods in capitals: [GET, POST]";
}

static char *read_method(struct config_reader *reading, const struct yaml_node *node,
                         const struct config_key *key)
{
    return read_checked(reading, node, key, method_fault, false);
}

static void read_match_method(struct config_reader *reading, const struct yaml_node *node,
                              const struct config_key *key, void *into)
{
    weir_reading_text_or_texts(reading, node, key, ROUTE_METHODS_MAX, read_method,
                               &((struct http_route *)into)->methods);
}

static const struct config_key match_keys[] = {
    {"host", "a name such as api.example.com or \"*.example.com\"", KEY_OWN, .read = read_match_host},
    {"method", "GET, or a list: [POST, PUT]", KEY_OWN, .read = read_match_method},
    {"path", "a path such as /login, /users/*/posts or /static/**", KEY_OWN, .read = read_match_path},
};
static const struct config_map match_map = {KEY_ARRAY(match_keys)};

static void read_match(struct config_reader *reading, const struct yaml_node *node,
                       const struct config_key *key, void *into)
{
    (void)weir_reading_map(reading, node, key->name, &match_map, into);
}

static void print_match_text(struct buffer *out, const struct config_key *key, const char *text, int indent)
{
    if (!text)
        return;
    weir_key_print_name(out, key, indent);
    weir_key_print_text(out, text, strlen(text));
    buffer_put(out, "\n", 1);
}

static void print_match(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    const struct http_route *route = from;
    if (!route->host && !route->path && route->methods.count == 0)
        return;
    weir_buffer_print(out, "%*s%s:\n", indent, "", key->name);
    print_match_text(out, &match_keys[0], route->host, indent + 2);
    weir_key_print_texts(out, &match_keys[1], &route->methods, "", indent + 2);
    print_match_text(out, &match_keys[2], route->path, indent + 2);
}

/* ---- what a route takes from ---- */

static void read_route_policies(struct config_reader *reading, const struct yaml_node *node,
                                const struct config_key *key, void *into)
{
    struct http_route *route = into;
    weir_reading_text_or_texts(reading, node, key, ROUTE_POLICIES_MAX, weir_reading_name, &route->policies);
}

static void print_route_policies(struct buffer *out, const struct config_key *key, const void *from,
                                 int indent)
{
    weir_key_print_texts(out, key, &((const struct http_route *)from)->policies, "", indent);
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

static bool parse_route_key(struct route_key *key)
{
    static const char *const named[] = {"header:", "cookie:", "query:"};
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        if (strncmp(key->text, named[i], strlen(named[i])) == 0) {
            key->kind = (enum route_key_kind)i;
            key->name = key->text + strlen(named[i]);
            for (char *at = key->text; key->kind == ROUTE_HEADER && *at; at++)
                *at = weir_text_lower(*at);
            return is_http_token(key->name, ROUTE_NAME_MAX);
        }
    key->kind = strcmp(key->text, "bearer") == 0 ? ROUTE_BEARER : ROUTE_ADDRESS;
    return key->kind == ROUTE_BEARER || parse_address_key(key->text, &key->bits);
}

static void read_route_keys(struct config_reader *reading, const struct yaml_node *node,
                            const struct config_key *key, void *into)
{
    struct http_route *route = into;
    bool list = node->kind == NODE_LIST;
    if (list && !weir_reading_is_list(reading, node, key, ROUTE_KEYS_MAX))
        return;
    route->keys = weir_reading_array(reading, list ? weir_node_count(node) : 1, sizeof *route->keys);
    for (const struct yaml_node *entry = list ? node->first : node; route->keys && entry;
         entry = list ? entry->next : NULL) {
        if (!weir_reading_is_text(reading, entry, key))
            continue;
        struct route_key one = {.text = weir_reading_copy(reading, entry->text, entry->len)};
        if (one.text && !parse_route_key(&one)) {
            weir_reading_unfit(reading, entry, key);
            free(one.text);
        } else if (one.text) {
            route->keys[route->key_count++] = one;
        }
    }
}

static void print_route_keys(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    const struct http_route *route = from;
    char *texts[ROUTE_KEYS_MAX];
    for (size_t i = 0; i < route->key_count; i++)
        texts[i] = route->keys[i].text;
    weir_key_print_texts(out, key, &(struct text_list){texts, route->key_count}, "", indent);
}

static void read_status(struct config_reader *reading, const struct yaml_node *node,
                        const struct config_key *key, void *into)
{
    static const char *const words[] = {"429", "403", "503", NULL};
    int word = weir_reading_word(reading, node, key, words);
    if (word >= 0)
        *key_number(key, into) = strtol(words[word], NULL, 10);
}

static void print_status(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    weir_buffer_print(out, "%*s%s: %" PRId64 "\n", indent, "", key->name, *key_number(key, from));
}

static const char *const answers[] = {"allow", "refuse", NULL};               /* enum route_answer */
static const char *const unavailables[] = {"error", "allow", "refuse", NULL}; /* enum unavailable_rule */

#define AT(MEMBER) .offset = offsetof(struct http_route, MEMBER)
static const struct config_key route_keys[] = {
    {"policy", "a policy's name, or a list of at most 8: [api, login]", KEY_OWN, .read = read_route_policies,
     .print = print_route_policies},
    {"match", "match: {path: /api/**}", KEY_OWN, .read = read_match, .print = print_match},
    {"key", "some of [header:NAME, cookie:NAME, query:NAME, bearer, address, address/56]", KEY_OWN,
     .read = read_route_keys, .print = print_route_keys},
    {"on_missing_key", "refuse or allow", KEY_WORD, AT(on_missing_key), .words = answers},
    {"on_unavailable", "error, allow or refuse", KEY_WORD, AT(on_unavailable), .words = unavailables},
    {"status", "429, 403 or 503", KEY_OWN, AT(status), .read = read_status, .print = print_status},
};
#undef AT
static const struct config_map route_map = {KEY_ARRAY(route_keys)};

static void read_one_route(struct config_reader *reading, const struct yaml_node *node,
                           struct http_route *route)
{
    route->place = node->place;
    route->on_missing_key = ROUTE_REFUSE;
    route->status = 429;
    if (!weir_reading_map(reading, node, "a route", &route_map, route))
        return;
    if (!weir_node_find(node, "policy"))
        weir_reading_wrong(reading, node->place, "this route has no policy; write policy: api");
    if (weir_node_find(node, "key") || !(route->keys = weir_reading_array(reading, 1, sizeof *route->keys)))
        return;
    route->keys[0] = (struct route_key){ROUTE_ADDRESS, weir_reading_copy(reading, "address", 7), NULL, 0};
    route->key_count = route->keys[0].text != NULL;
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

static void check_route(struct config_reader *reading, const struct http_route *route)
{
    const struct config *config = reading->config;
    for (size_t i = 0; i < route->policies.count; i++) {
        const char *name = route->policies.texts[i];
        struct nearest near = weir_nearest(name, strlen(name));
        bool found = false;
        for (size_t at = 0; at < config->policy_count && !found; at++) {
            found = strcmp(config->policies[at].name, name) == 0;
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

void weir_reading_check_routes(struct config_reader *reading)
{
    const struct http_rules *rules = reading->config->http;
    for (size_t i = 0; i < rules->route_count && reading->complaints < CONFIG_COMPLAINTS_MAX; i++)
        check_route(reading, &rules->routes[i]);
}

/* ---- proxies ---- */

static const char *proxy_fault(const char *text)
{
    struct ip_range range;
    if (strcmp(text, "unix") == 0 || weir_ip_range_read((struct slice){text, strlen(text)}, &range))
        return NULL;
    return "write addresses, ranges such as 10.0.0.0/8 (zeros behind the prefix), or unix";
}

static char *read_proxy(struct config_reader *reading, const struct yaml_node *node,
                        const struct config_key *key)
{
    return read_checked(reading, node, key, proxy_fault, true);
}

static void read_proxies(struct config_reader *reading, const struct yaml_node *node,
                         const struct config_key *key, void *into)
{
    struct http_rules *rules = into;
    rules->has_proxies = true;
    if (node->kind == NODE_TEXT && strcmp(node->text, "none") == 0)
        return;
    weir_reading_texts(reading, node, key, PROXIES_MAX, read_proxy, &rules->proxies);
    rules->ranges = weir_reading_array(reading, rules->proxies.count + 1, sizeof *rules->ranges);
    for (size_t i = 0; rules->ranges && i < rules->proxies.count; i++) {
        const char *text = rules->proxies.texts[i];
        if (weir_ip_range_read((struct slice){text, strlen(text)}, &rules->ranges[rules->range_count]))
            rules->range_count++;
        else
            rules->trusts_unix = true;
    }
}

static void print_proxies(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    const struct http_rules *rules = from;
    if (!rules->has_proxies)
        weir_buffer_print(out, "# %s: loopback addresses and unix sockets\n", key->name);
    else if (rules->proxies.count == 0)
        weir_buffer_print(out, "%s: none\n", key->name);
    weir_key_print_texts(out, key, &rules->proxies, "", indent);
}

/* ---- browsers ---- */

static const char *name_fault(const char *text)
{
    return text[0] == '*' ? "write whole names: [weir.example.com]" : weir_host_pattern_fault(text);
}

static char *read_host(struct config_reader *reading, const struct yaml_node *node,
                       const struct config_key *key)
{
    return read_checked(reading, node, key, name_fault, true);
}

static void read_hosts(struct config_reader *reading, const struct yaml_node *node,
                       const struct config_key *key, void *into)
{
    weir_reading_texts(reading, node, key, HOSTS_MAX, read_host, &((struct http_rules *)into)->hosts);
}

static void print_hosts(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    weir_key_print_texts(out, key, &((const struct http_rules *)from)->hosts, "", indent);
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

static char *read_origin(struct config_reader *reading, const struct yaml_node *node,
                         const struct config_key *key)
{
    return read_checked(reading, node, key, origin_fault, true);
}

static void read_cors(struct config_reader *reading, const struct yaml_node *node,
                      const struct config_key *key, void *into)
{
    if (node->kind != NODE_TEXT || strcmp(node->text, "none") != 0)
        weir_reading_texts(reading, node, key, HOSTS_MAX, read_origin, &((struct http_rules *)into)->origins);
}

static void print_cors(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    const struct text_list *origins = &((const struct http_rules *)from)->origins;
    if (origins->count == 0)
        weir_buffer_print(out, "%*s%s: none\n", indent, "", key->name);
    weir_key_print_texts(out, key, origins, "", indent);
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
    {"hosts", "names by which clients call this server: [weir.example.com]", KEY_OWN, .read = read_hosts,
     .print = print_hosts},
    {"cors", "none, or origins: [\"https://app.example.com\"]", KEY_OWN, .read = read_cors,
     .print = print_cors},
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
    [HTTP_TRUSTED_PROXIES] = {"trusted_proxies", "none, or a list: [10.0.0.0/8, \"::1\", unix]", KEY_OWN,
                              .read = read_proxies, .print = print_proxies},
    [HTTP_IPV6_PREFIX] = {"ipv6_prefix", "a number of bits from 1 to 128, such as 64", KEY_COUNT,
                          AT(ipv6_prefix), BETWEEN(1, 128), .usual = IPV6_PREFIX},
    [HTTP_SECTION] = {"http", "http: {hosts: [weir.example.com]}", KEY_MAP, .inside = &section_map},
};
#undef AT

void weir_reading_http(struct config_reader *reading, const struct yaml_node *node,
                       const struct config_key *key, void *into)
{
    weir_reading_key(reading, node, &http_keys[key->least], ((struct config *)into)->http);
}

void weir_http_print(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    weir_key_print(out, &http_keys[key->least], ((const struct config *)from)->http, indent);
}
