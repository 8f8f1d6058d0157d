/* SPDX-License-Identifier: MIT */
/*
 * Policies that were removed are retired, not deleted: what their keys have spent is written to
 * retired/NAME-TIME.weir in the data directory, as text of weir dump. weir load brings it back.
 */
#ifndef WEIR_SERVICE_POLICIES_RETIRED_H
#define WEIR_SERVICE_POLICIES_RETIRED_H

#include "service/service.h"

/* The file is there, and synced, when this comes back; the log tells its name. false: `err` says why not. */
bool weir_retired_write(struct service *service, const struct policy *policy, struct weir_error *err);
/* How many there are, and their bytes. */
void weir_retired_count(const struct service *service, int64_t *files, int64_t *bytes);

#endif
