/* SPDX-License-Identifier: MIT */
#ifndef WEIR_TESTS_UNIT_REGION_DAMAGE_H
#define WEIR_TESTS_UNIT_REGION_DAMAGE_H

#include "region/region.h"

/* While a test writes to a region from outside assertions about it say nothing. */
static inline void expect_damage(bool damage)
{
    (void)damage;
#if WEIR_ASSERTIONS
    weir_region_scribbled = damage;
#endif
}

#endif
