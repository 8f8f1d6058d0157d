/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "fleet/weir/quota.h"

/* An address has many spellings, too. */
static void normalize_host_name(const char *name, char *text, size_t size)
{
    struct in6_addr address;
    if (inet_pton(AF_INET6, name, &address) == 1 && inet_ntop(AF_INET6, &address, text, (socklen_t)size))
        return;
    size_t len = strlen(name);
    if (len > 1 && name[len - 1] == '.') /* the root of all names, which is meant without it as well */
        len--;
    (void)snprintf(text, size, "%.*s", (int)len, name);
    for (char *at = text; *at; at++)
        *at = weir_text_lower(*at);
}

void weir_tier_normalize_host(const struct fleet_host *host, char *text, size_t size)
{
    char name[sizeof host->name];
    normalize_host_name(host->name, name, sizeof name);
    (void)snprintf(text, size, "%s:%d", name, host->port);
}

const struct fleet_host *weir_tier_host(const struct fleet_url *url, const char *name)
{
    /* Everybody must draw the same, so it is no secret. */
    static const struct hash_key key = {0x7765697220746965, 0x7220666f72206e61};
    const struct fleet_host *best = &url->hosts[0];
    uint64_t most = 0;
    for (size_t i = 0; i < url->host_count; i++) {
        char host[sizeof url->hosts[i].name + 16], text[sizeof host + FLEET_NAME_MAX + 2];
        weir_tier_normalize_host(&url->hosts[i], host, sizeof host);
        int len = snprintf(text, sizeof text, "%s/%s", host, name);
        uint64_t hash = weir_hash(&key, text, len > 0 ? (size_t)len : 0);
        if (i > 0 && hash <= most)
            continue;
        best = &url->hosts[i];
        most = hash;
    }
    return best;
}
