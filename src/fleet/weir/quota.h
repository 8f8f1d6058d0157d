/* SPDX-License-Identifier: MIT */
/*
 * `weir quota` for weir servers: looks at the policies that are leased there. Their totals are changed where
 * policies are: in weir.yaml, or by `weir policy set`.
 */
#ifndef WEIR_FLEET_WEIR_QUOTA_H
#define WEIR_FLEET_WEIR_QUOTA_H

#include "fleet/coordinator.h"
#include "resp_client/client.h"

/* The server of a list that keeps a name: the same for all who list the same servers, in whatever order and
 * spelling. Another list may give a name to another server: docs/fleet.md. */
const struct server_host *weir_tier_host(const struct server_url *url, const char *name);
/* A server as everybody spells it: host:port, in small letters, addresses as they are written usually. */
void weir_tier_normalize_host(const struct server_host *host, char *text, size_t size);

/* As coordinator_ops.quota, until a time of weir_resp_client_now. */
bool weir_tier_quota(struct resp_client *client, const struct server_url *url, int64_t deadline_ns,
                     const struct quota_ask *ask, struct quota_answer *answer, struct weir_error *err);

#endif
