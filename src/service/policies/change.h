/* SPDX-License-Identifier: MIT */
/*
 * Changes to what is in force, by command or by file. Each is one new snapshot; all of them take
 * service->change, and may take as long as a live change of ten million keys does: only the job thread
 * calls them.
 */
#ifndef WEIR_SERVICE_POLICIES_CHANGE_H
#define WEIR_SERVICE_POLICIES_CHANGE_H

#include "service/service.h"

/* Limits of a new policy, or other limits of one that is there: what was spent stays spent, unless `fresh`.
 */
bool weir_change_policy(struct service *service, struct slice name, const char *limits, bool fresh,
                        struct weir_error *err);
/* What its keys have spent is retired (retired.h), if there is a store, unless `forget`. */
/* Limits that are only tried: what they would refuse is counted. NULL: none any more. */
bool weir_change_candidate(struct service *service, struct slice name, const char *limits,
                           struct weir_error *err);
bool weir_change_remove(struct service *service, struct slice name, bool forget, struct weir_error *err);
/* `name` "*": stands above the modes of all policies until its end; `enforce` ends it, and each has its own
 * mode again. for_ns 0: without end. percent 1 to 100, with `enforce` for a single policy. */
bool weir_change_mode(struct service *service, struct slice name, enum policy_mode mode, int percent,
                      int64_t for_ns, struct weir_error *err);
/* A key, or a prefix that ends in '*'. */
bool weir_change_override(struct service *service, struct slice policy, struct slice key, const char *limits,
                          int64_t for_ns, struct slice reason, struct weir_error *err);
bool weir_change_unoverride(struct service *service, struct slice policy, struct slice key,
                            struct weir_error *err);
/* What has come to its end; called by the tick. */
void weir_change_ends(struct service *service);

#endif
