/* SPDX-License-Identifier: MIT */
#ifndef WEIR_SERVICE_ENGINE_NUMBERS_H
#define WEIR_SERVICE_ENGINE_NUMBERS_H

#include "service/engine/request.h"

/* Of a request that was decided: fills request->numbers with all limits of all pairs as they stand after it,
 * and answer->decided with the one that decided. */
void weir_answer_numbers(struct worker *worker, const struct request *request, struct answer *answer);

#endif
