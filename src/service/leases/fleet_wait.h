/* SPDX-License-Identifier: MIT */
/*
 * Requests that wait for units of a fleet. Such a request has changed nothing yet: it is put away with its
 * words, and run again whenever a fleet has moved, or its time has come; then it must answer, whatever that
 * is. So whatever was reloaded meanwhile counts, and who goes away has nothing to give back. In the meantime
 * nothing else of its session is run.
 *
 * Nobody is forgotten: a session counts as waiting before its request is run for the second time, at once,
 * and who puts units into a balance looks for waiting ones afterwards.
 */
#ifndef WEIR_SERVICE_LEASES_FLEET_WAIT_H
#define WEIR_SERVICE_LEASES_FLEET_WAIT_H

#include "service/commands/call.h"

/* Waits, for `for_ns` from when it was first run; call->state is RUN_WAITS. false: it cannot; its pairs are
 * patient no more, and it has to be decided again. */
bool weir_call_wait_for_fleet(struct call *call, int64_t for_ns, struct pair *pairs, size_t count);
/* When it was first run: now, unless it has waited. */
int64_t weir_call_asked(const struct call *call);

/* By run.c. Runs it again; false: it still waits. */
bool weir_waiting_request_retry(struct worker *worker, struct session *session, struct buffer *out);
/* The session goes. */
void weir_waiting_request_drop(struct worker *worker, struct session *session);

#endif
