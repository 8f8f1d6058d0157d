/* SPDX-License-Identifier: MIT */
/*
 * What tests of changes share.
 */
#ifndef WEIR_TESTS_CHANGE_KIT_H
#define WEIR_TESTS_CHANGE_KIT_H

#include "check.h"
#include "service/policies/change.h"
#include "unit/service/service_kit.h"

CHECK_FUNCTION struct slice word(const char *text)
{
    return (struct slice){text, strlen(text)};
}

CHECK_FUNCTION const struct policy *policy_of(struct kit *kit, const char *name)
{
    return weir_snapshot_policy(atomic_load(&kit->service->snapshot), word(name));
}

CHECK_FUNCTION bool take(struct kit *kit, const char *policy, const char *key, int n)
{
    char line[128];
    (void)snprintf(line, sizeof line, "WEIR.TAKE %s %s %d", policy, key, n);
    return kit_field(kit_ask(kit, line), "allowed") == 1;
}

CHECK_FUNCTION int64_t left(struct kit *kit, const char *policy, const char *key)
{
    char line[128];
    (void)snprintf(line, sizeof line, "WEIR.PEEK %s %s", policy, key);
    return kit_field(kit_ask(kit, line), "remaining");
}

#endif
