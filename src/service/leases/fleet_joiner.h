/* SPDX-License-Identifier: MIT */
#ifndef WEIR_SERVICE_LEASES_FLEET_JOINER_H
#define WEIR_SERVICE_LEASES_FLEET_JOINER_H

#include "service/leases/pools.h"

struct fleet_joiner;
struct fleet_joiner *weir_fleet_joiner_new(void); /* or NULL */
/* Nobody has references any more. Everybody leaves, within some seconds. NULL is fine. */
void weir_fleet_joiner_free(struct fleet_joiner *fleet_joiner);
/* New ones, of which the fleet joiner takes care from now on, until it frees them. */
void weir_fleet_joiner_add(struct fleet_joiner *fleet_joiner, struct fleet_pools *pools);
/* There is something to do: some are to be joined, or nobody has references to `gone` any more (or NULL). */
void weir_fleet_joiner_wake(struct fleet_joiner *fleet_joiner, struct fleet_pools *gone);

#endif
