/* SPDX-License-Identifier: MIT */
#ifndef WEIR_SERVICE_POLICIES_APPLY_H
#define WEIR_SERVICE_POLICIES_APPLY_H

#include "service/service.h"

/* Puts a configuration in force, all of it or nothing; keys keep what they spent. By the job thread. */
bool weir_service_apply(struct service *service, const struct config *config, struct weir_error *err);
/* Reads options.config_path and applies it; what is wrong goes to `report`, a line each. If all is well, what
 * counts from the next start on only. */
bool weir_service_reload(struct service *service, struct buffer *report);
/* Remembers what takes effect at the start alone: addresses, threads, shares of the memory. false: out of
 * memory. */
bool weir_start_digest(struct service *service, const struct config *config);

#endif
