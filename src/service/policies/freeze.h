/* SPDX-License-Identifier: MIT */
/*
 * Frozen keys: whoever asks for one is told where to ask instead, and nothing is decided or changed. So a
 * shard can be moved: what a key has spent is read here and brought there while nobody spends any of it.
 *
 * Law: when weir_change_freeze has come back, no request changes a key of the range any more, also none that
 * had begun before.
 */
#ifndef WEIR_SERVICE_POLICIES_FREEZE_H
#define WEIR_SERVICE_POLICIES_FREEZE_H

#include "service/policies/snapshot.h"
#include "table/persist/export.h"

/* By the key's hash in the policy table that counts it; or NULL. */
const struct frozen_range *weir_frozen_by_hash(const struct policy *policy, uint64_t hash);

/* The same for a key of which the policy table's serial and the hash are known; *policy is whose it is. */
const struct frozen_range *weir_frozen_in(const struct snapshot *snapshot, uint64_t serial, uint64_t hash,
                                          const struct policy **policy);

/* By the job thread. `url` is where those are sent who ask. */
bool weir_change_freeze(struct service *service, struct slice policy, struct export_range range,
                        struct slice url, struct weir_error *err);
/* Of that range; `all`: of all there are. */
bool weir_change_thaw(struct service *service, struct slice policy, struct export_range range, bool all,
                      struct weir_error *err);

/* The same in a policy that is being made. false: too many ranges, or the URL is none. */
bool weir_policy_freeze(struct policy *policy, struct export_range range, struct slice url,
                        struct weir_error *err);
/* After a snapshot was published, by the job thread: waits until nobody uses an earlier one. false: some
 * requests have not ended for too long. */
bool weir_freeze_settle(struct service *service, struct weir_error *err);

#endif
