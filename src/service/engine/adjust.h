/* SPDX-License-Identifier: MIT */
/*
 * What was used, given back or forgotten, without a question whether it may be. Of one pair; an address has
 * several (tiers.h). Within a read section.
 */
#ifndef WEIR_SERVICE_ENGINE_ADJUST_H
#define WEIR_SERVICE_ENGINE_ADJUST_H

#include "service/engine/request.h"

void weir_decide_give(struct worker *worker, const struct pair *pair);
bool weir_decide_charge(struct worker *worker, const struct pair *pair); /* false: no room for the key */
void weir_decide_reset(struct worker *worker, const struct pair *pair);

#endif
