/* SPDX-License-Identifier: MIT */
#include "config/http_rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

struct http_rules *weir_http_rules_new(void)
{
    struct http_rules *rules = calloc(1, sizeof *rules);
    if (rules)
        atomic_init(&rules->references, 1);
    return rules;
}

struct http_rules *weir_http_rules_ref(struct http_rules *rules)
{
    if (rules)
        atomic_fetch_add_explicit(&rules->references, 1, memory_order_relaxed);
    return rules;
}

static void free_route(struct http_route *route)
{
    free(route->host);
    free(route->path);
    weir_text_list_free(&route->methods);
    weir_text_list_free(&route->policies);
    weir_text_list_free(&route->key_texts);
}

void weir_http_rules_drop(struct http_rules *rules)
{
    if (!rules || atomic_fetch_sub_explicit(&rules->references, 1, memory_order_acq_rel) > 1)
        return;
    for (size_t i = 0; i < rules->route_count; i++)
        free_route(&rules->routes[i]);
    free(rules->routes);
    weir_text_list_free(&rules->proxies);
    weir_text_list_free(&rules->hosts);
    weir_text_list_free(&rules->origins);
    free(rules);
}

/* ---- proxies ---- */

bool weir_ip_is_trusted(const struct http_rules *rules, const struct ip *ip)
{
    static const struct ip_range loopback[] = {
        {{{[10] = 0xFF, [11] = 0xFF, [12] = 127}}, 104}, /* 127.0.0.0/8 */
        {{{[15] = 1}}, 128},                             /* ::1 */
    };
    const struct ip_range *ranges = rules->proxies.count > 0 ? rules->ranges : loopback;
    size_t count = rules->proxies.count > 0 ? rules->range_count : sizeof loopback / sizeof loopback[0];
    for (size_t i = 0; i < count; i++)
        if (weir_ip_is_in(ip, &ranges[i]))
            return true;
    return false;
}

bool weir_proxy_is_trusted(const struct http_rules *rules, const char *peer)
{
    struct ip ip;
    if (strncmp(peer, "unix", 4) == 0)
        return rules->proxies.count == 0 || rules->trusts_unix;
    return weir_ip_read((struct slice){peer, strlen(peer)}, &ip) && weir_ip_is_trusted(rules, &ip);
}
