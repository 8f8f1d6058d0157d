/* SPDX-License-Identifier: MIT */
#ifndef WEIR_SERVICE_ENGINE_SETTLE_H
#define WEIR_SERVICE_ENGINE_SETTLE_H

#include "service/engine/request_id.h"

/* Inside of the records of a request that was allowed: writes its reservation, sets answer->reservation. */
void weir_reservation_write(const struct worker *worker, const struct request *request,
                            struct request_visit *visit, struct answer *answer);

/* ENGINE_COMMIT, ENGINE_CANCEL. */
void weir_settle(struct worker *worker, const struct request *request, struct answer *answer);

#endif
