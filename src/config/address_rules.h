/* SPDX-License-Identifier: MIT */
/*
 * Policies whose keys are IP addresses: `address:`, `allow:` and `block:` of a policy.
 *
 * `address:` has tiers. A tier is a length of prefix for IPv4 and one for IPv6, with limits: an address is
 * counted by its prefix in each of them, all or none. The first tier is counted by the policy itself. Each
 * further one is a policy of its own in everything but deciding, named POLICY/V4-V6: it has tables,
 * overrides, settings and a place in the store and in dumps like any other, and what was spent in it stays
 * while its lengths stay. Mode and counters are those of the policy that was asked. A key of a tier is the
 * prefix as text: 192.0.2.0/24.
 *
 * Without `address:` there is one tier of whole addresses, whose limits are `limits:` of the policy.
 *
 * The lists decide first. Who is allowed passes, and nothing is charged; who is blocked is refused, and never
 * passes by waiting.
 *
 * Immutable once read, and shared by references: the configuration has one, and so has every policy in force.
 */
#ifndef WEIR_CONFIG_ADDRESS_RULES_H
#define WEIR_CONFIG_ADDRESS_RULES_H

#include <stdatomic.h>

#include "config/address_list.h"
#include "config/config.h"

#define ADDRESS_TIERS_MAX    4      /* with a reservation's other parts they fit LEDGER_PAIRS */
#define ADDRESS_PREFIXES_MAX 100000 /* in all lists of a configuration */
#define ADDRESS_FILES_MAX    64     /* that they come from */

struct address_tier {
    int64_t four, six;              /* bits of prefixes */
    char *limits;                   /* canonical text; NULL if the policy says them */
    char name[CONFIG_NAME_MAX + 1]; /* of the policy that counts it */
    struct config_place place;
};

struct address_rules {
    atomic_uint references;
    bool has_tiers; /* they come from address: */
    size_t tier_count;
    struct address_tier tiers[ADDRESS_TIERS_MAX];
    struct address_list *list;     /* NULL: there is none */
    struct text_list allow, block; /* as the file has them; "@" and the path of a file */
    size_t listed[3];              /* of each enum address_rule: networks */
};

struct address_rules *weir_address_rules_new(void);                        /* or NULL */
struct address_rules *weir_address_rules_ref(struct address_rules *rules); /* NULL: nothing, as the next */
void weir_address_rules_drop(struct address_rules *rules);

/* What is to be done with a key: an address as weir_ip_read knows it, perhaps with "address:" in front, as
 * the keys of forward auth have it. false: it is none. */
bool weir_address_read(struct slice key, struct ip *ip);

/* The tier whose keys have the prefix of an override, 192.0.2.0/24 or 192.0.2.7, and that key. SIZE_MAX: none
 * has, and `why` says what to write. */
#define ADDRESS_WHY_MAX 240
size_t weir_address_tier_of(const struct address_rules *rules, struct slice prefix,
                            char key[static IP_TEXT_MAX], char why[static ADDRESS_WHY_MAX]);
/* As people read it: "v4/32 v6/64 5/m; v4/24 v6/48 50/m; allow 2; block 30". */
#define ADDRESS_TEXT_MAX 1024
const char *weir_address_text(const struct address_rules *rules, char text[static ADDRESS_TEXT_MAX]);
/* Are they the same but for lists? Then what was spent is counted on. */
bool weir_address_same_tier(const struct address_rules *one, const struct address_rules *other);

#endif
