/* SPDX-License-Identifier: MIT */
/*
 * The one path of all requests that decide something, for every protocol:
 *
 *   words, routes, messages -> struct request -> weir_engine_admit -> weir_engine_run -> struct answer ->
 * bytes
 *
 * Commands that decide nothing are admitted here, too. All of it within a worker's read section.
 */
#ifndef WEIR_SERVICE_ENGINE_ENGINE_H
#define WEIR_SERVICE_ENGINE_ENGINE_H

#include "service/engine/request.h"

/* May the user do that, with every policy and key that the request names? Finds the policies. false:
 * answer->error says why not. */
bool weir_engine_admit(struct worker *worker, struct request *request, struct answer *answer);

enum engine_state {
    ENGINE_DONE,
    ENGINE_PENDING /* answer->waits_for_fleet: ask again; else it is promised, and due in answer->wait_ns */
};

/* Decides a request that was admitted: ENGINE_TAKE to ENGINE_CANCEL. Sets worker->changed if answer->changed
 * is set. */
enum engine_state weir_engine_run(struct worker *worker, struct request *request, struct answer *answer);

/* Nothing is decided, and why: the text goes to worker->error. Returns false. */
__attribute__((format(printf, 4, 5))) bool weir_engine_fail(struct worker *worker, struct answer *answer,
                                                            enum engine_error error, const char *format, ...);
/* The same for want of a disk that can be written to. */
bool weir_engine_fail_store(struct worker *worker, struct answer *answer);

/* Is the key in that range, which may be NULL? Then says where to ask instead. */
bool weir_engine_refuse_frozen(struct worker *worker, const struct policy *policy,
                               const struct frozen_range *frozen, struct answer *answer);

/* Bytes of a caller in a message: printable, cut to 64, in `text`. */
const char *weir_shown(struct slice bytes, char text[static 72]);

#endif
