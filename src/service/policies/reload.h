/* SPDX-License-Identifier: MIT */
/*
 * What of a configuration counts at the start only: addresses, threads, shares of the memory.
 */
#ifndef WEIR_SERVICE_POLICIES_RELOAD_H
#define WEIR_SERVICE_POLICIES_RELOAD_H

#include "service/service.h"

void weir_start_digest(const struct config *config, struct start_digests *start);

#endif
