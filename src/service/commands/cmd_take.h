/* SPDX-License-Identifier: MIT */
#ifndef WEIR_SERVICE_COMMANDS_CMD_TAKE_H
#define WEIR_SERVICE_COMMANDS_CMD_TAKE_H

#include "service/service.h"

/* The answer to a WEIR.ACQUIRE that is due; and what is to be given up if it will never be. */
void weir_acquire_answer(struct worker *worker, struct session *session, struct buffer *out);
void weir_acquire_cancel(struct worker *worker, struct session *session);

#endif
