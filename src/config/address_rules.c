/* SPDX-License-Identifier: MIT */
#include "config/address_rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"

struct address_rules *weir_address_rules_new(void)
{
    struct address_rules *rules = calloc(1, sizeof *rules);
    if (rules)
        atomic_init(&rules->references, 1);
    return rules;
}

struct address_rules *weir_address_rules_ref(struct address_rules *rules)
{
    if (rules)
        atomic_fetch_add_explicit(&rules->references, 1, memory_order_relaxed);
    return rules;
}

void weir_address_rules_drop(struct address_rules *rules)
{
    if (!rules || atomic_fetch_sub_explicit(&rules->references, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < ADDRESS_TIERS_MAX; i++)
        free(rules->tiers[i].limits);
    weir_address_list_free(rules->list);
    weir_text_list_free(&rules->allow);
    weir_text_list_free(&rules->block);
    free(rules);
}

bool weir_address_read(struct slice key, struct ip *ip)
{
    static const char front[] = "address:";
    size_t len = sizeof front - 1;
    if (key.len > len && memcmp(key.bytes, front, len) == 0)
        key = (struct slice){key.bytes + len, key.len - len};
    return weir_ip_read(key, ip);
}

size_t weir_address_tier_of(const struct address_rules *rules, struct slice prefix,
                            char key[static IP_TEXT_MAX], char why[static ADDRESS_WHY_MAX])
{
    struct ip_range range;
    struct text text;
    weir_text_init(&text, why, ADDRESS_WHY_MAX);
    if (!weir_ip_range_read(prefix, &range)) {
        weir_text_print(&text, "the keys of this policy are addresses; write one, or a prefix of a tier: "
                               "192.0.2.7, 192.0.2.0/24, 2001:db8:1:2::/64");
        return SIZE_MAX;
    }
    bool four = weir_ip_range_is_four(&range);
    int bits = four ? range.bits - 96 : range.bits;
    for (size_t i = 0; i < rules->tier_count; i++)
        if ((four ? rules->tiers[i].four : rules->tiers[i].six) == bits) {
            (void)weir_ip_write_prefix(&range.first, four ? bits : 32, four ? 128 : bits, key);
            return i;
        }
    weir_text_print(&text, "no tier of this policy has prefixes of %d bits; those of IPv%d have", bits,
                    four ? 4 : 6);
    for (size_t i = 0; i < rules->tier_count; i++)
        weir_text_print(&text, "%s %" PRId64, i > 0 ? "," : "",
                        four ? rules->tiers[i].four : rules->tiers[i].six);
    return SIZE_MAX;
}

const char *weir_address_text(const struct address_rules *rules, char text[static ADDRESS_TEXT_MAX])
{
    struct text out;
    weir_text_init(&out, text, ADDRESS_TEXT_MAX);
    for (size_t i = 0; rules->has_tiers && i < rules->tier_count; i++)
        weir_text_print(&out, "%sv4/%" PRId64 " v6/%" PRId64 " %s", i > 0 ? "; " : "", rules->tiers[i].four,
                        rules->tiers[i].six, rules->tiers[i].limits);
    if (rules->listed[ADDRESS_ALLOWED] > 0)
        weir_text_print(&out, "%sallow %zu", out.len > 0 ? "; " : "", rules->listed[ADDRESS_ALLOWED]);
    if (rules->listed[ADDRESS_BLOCKED] > 0)
        weir_text_print(&out, "%sblock %zu", out.len > 0 ? "; " : "", rules->listed[ADDRESS_BLOCKED]);
    return text;
}

bool weir_address_same_tier(const struct address_rules *one, const struct address_rules *other)
{
    return one->tiers[0].four == other->tiers[0].four && one->tiers[0].six == other->tiers[0].six;
}
