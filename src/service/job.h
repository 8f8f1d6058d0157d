/* SPDX-License-Identifier: MIT */
#ifndef WEIR_SERVICE_JOB_H
#define WEIR_SERVICE_JOB_H

#include "service/commands/call.h"

/* Does it change something? Then it should not wait for those that only count: it may be the kill switch. */
bool weir_job_changes(const struct background_job *job);
/* A number of the user who asks: the background jobs of one user take turns with those of others. */
uint64_t weir_job_whose(const struct background_job *job);
/* Is it the slow check of a password? Such are for a thread of their own: changes must not wait for them. */
bool weir_job_is_login(const struct background_job *job);
/* By the job thread, or by that one: does it. Then, in the session's own thread: appends the answer.
 * `worker` NULL: nobody waits for it any more. */
void weir_job_do(struct background_job *job);
void weir_job_finish(struct worker *worker, struct session *session, struct buffer *out,
                     enum run_state *state);

/* Puts the request away for the job thread: call->state is RUN_JOB. Or answers with an error. */
void weir_job_begin(struct call *call);
struct login;
/* The same for a login whose password is to be checked; takes a copy of it. false: an error was answered. */
bool weir_job_login(struct call *call, const struct login *login);

#endif
