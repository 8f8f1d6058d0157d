/* SPDX-License-Identifier: MIT */
#include "service/engine/tiers.h"

#include "service/leases/pools.h"

static struct slice key_of_tier(const struct pair *pair, const struct address_tier *tier,
                                char text[static IP_TEXT_MAX])
{
    size_t len = weir_ip_write_prefix(&pair->ip, (int)tier->four, (int)tier->six, text);
    return (struct slice){text, len};
}

static bool map_address(struct pair *pair)
{
    if (!weir_address_read(pair->key, &pair->ip))
        return false;
    pair->key = pair->said = key_of_tier(pair, &pair->policy->address->tiers[0], pair->digest);
    return true;
}

enum address_rule weir_pair_rule(const struct pair *pair)
{
    const struct address_rules *address = pair_asked(pair)->address;
    return address && address->list ? weir_address_list_find(address->list, &pair->ip) : ADDRESS_UNLISTED;
}

size_t weir_pair_tiers(const struct worker *worker, const struct pair *pair, struct pair *tiers)
{
    const struct address_rules *address = pair->policy->address;
    size_t count = 0;
    tiers[count++] = *pair;
    for (size_t i = 1; address && i < address->tier_count; i++) {
        const struct address_tier *tier = &address->tiers[i];
        struct pair *to = &tiers[count++];
        *to = (struct pair){.name = pair->name,
                            .n = pair->n,
                            .policy = weir_snapshot_tier(worker->snapshot, pair->policy, i),
                            .said = pair->said,
                            .ip = pair->ip,
                            .of = pair->of,
                            .asked = pair->policy};
        to->key = key_of_tier(pair, tier, to->digest);
    }
    return count;
}

bool weir_pair_map(struct pair *pair)
{
    pair->hash = 0;
    if (pair->policy->address)
        return map_address(pair);
    pair->said = pair->key.bytes ? pair->key : (struct slice){"", 0};
    pair->key = weir_pools_key(pair->policy->pools, pair->said, pair->digest);
    return true;
}
