/* SPDX-License-Identifier: MIT */
/*
 * The keys under which a pair is counted, where that is not the one that was said: keys of a fleet, and
 * addresses, which are counted by a prefix in each tier of their policy (config/address_rules.h). Within a
 * read section.
 */
#ifndef WEIR_SERVICE_ENGINE_TIERS_H
#define WEIR_SERVICE_ENGINE_TIERS_H

#include "service/engine/request.h"

/* Makes the key of a pair the one that is counted: of a fleet, or of an address the first tier's prefix.
 * false: its policy wants an address, and it is none. */
bool weir_pair_map(struct pair *pair);
/* The pair, which was mapped, and its further tiers (address_rules.h), at most ADDRESS_TIERS_MAX in all.
 * Returns how many. They use memory of each other. */
size_t weir_pair_tiers(const struct worker *worker, const struct pair *pair, struct pair *tiers);
/* What the lists of the policy say of the pair's address. */
enum address_rule weir_pair_rule(const struct pair *pair);

#endif
