/* SPDX-License-Identifier: MIT */
#ifndef WEIR_SERVICE_ENGINE_SETTLE_H
#define WEIR_SERVICE_ENGINE_SETTLE_H

#include "service/commands/call.h"

/* Run functions of WEIR.COMMIT and WEIR.CANCEL; their words are in the table of cmd_reserve.c. */
void weir_run_commit(struct call *call);
void weir_run_cancel(struct call *call);

#endif
