/* SPDX-License-Identifier: MIT */
/*
 * Requests are run, one after the other, in a read section.
 */
#ifndef WEIR_SERVICE_RUN_H
#define WEIR_SERVICE_RUN_H

#include "base/sat.h"
#include "service/commands/call.h"

/* Begins a read section, unless it has begun; true: read_section_end is to end it. */
static inline bool read_section_begin(struct worker *worker)
{
    if (worker->snapshot)
        return false;
    weir_read_begin(worker);
    return true;
}

static inline void read_section_end(struct worker *worker, bool began)
{
    if (began && !worker->read_section_lasts)
        weir_read_end(worker);
}

/* The same for what comes from outside: it sees what is in force now, also in a read section that has begun
 * before.
 */
static inline bool read_section_renew(struct worker *worker)
{
    if (read_section_begin(worker))
        return true;
    weir_read_renew(worker);
    return false;
}

/* In the order of Redis: is there such a command, are the words enough, who asks, may they, are the words
 * right? Fills call->request. Else answers with an error. */
bool weir_call_ready(struct call *call);

/* It was answered with an error: that counts with the worker, the command, if there is such a one, and the
 * policy that a deciding command names. */
void weir_call_count_error(const struct call *call, const struct command *command, size_t number);

/*
 * Runs requests in their order, as one read section, and appends the answers to `out`; stops after one that
 * is pending or ends the session.
 */
struct run_result weir_service_run(struct worker *worker, struct session *session,
                                   const struct resp_request *requests, size_t count, struct buffer *out);

/* Answers session->pending if it can be by now: it is due, the clock or a fleet has moved, another thread has
 * done its work. RUN_PENDING: not yet, or for another cause. */
struct run_result weir_service_resume(struct worker *worker, struct session *session, struct buffer *out);

/* Runs requests in a read section that has begun. `http`: what their replies become; NULL: they stay as they
 * are.
 */
struct run_result weir_run_requests(struct worker *worker, struct session *session,
                                    const struct resp_request *requests, size_t count,
                                    const struct http_exchange *http, struct buffer *out);

#endif
