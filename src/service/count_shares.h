/* SPDX-License-Identifier: MIT */
#ifndef WEIR_SERVICE_COUNT_SHARES_H
#define WEIR_SERVICE_COUNT_SHARES_H

#include "service/service.h"

/* Finds out what users hold of what all have in common: fair_share.h. By the job thread. */
void weir_shares_look(struct service *service, bool all); /* a part of them, or all */
void weir_shares_warn(struct service *service);           /* once a second: who was refused */

#endif
