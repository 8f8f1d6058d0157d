/* SPDX-License-Identifier: MIT */
#include "service/leases/fleet_wait.h"

#include <stdlib.h>
#include <string.h>

#include "service/commands/commands.h"
#include "service/run.h"
#include "service/service.h"

#define WAITING_REQUEST_BYTES (128 * 1024) /* of its words; who says more does not wait */

struct waiting_request {
    const struct command *command;
    size_t number;
    int64_t asked_ns;
    size_t count;
    struct slice args[]; /* and their bytes behind them */
};

static struct waiting_request *copy_waiting_request(const struct call *call)
{
    size_t bytes = 0;
    for (size_t i = 0; i < call->count; i++)
        bytes += call->args[i].len;
    if (bytes > WAITING_REQUEST_BYTES)
        return NULL;
    struct waiting_request *waiting_request =
        malloc(sizeof *waiting_request + call->count * sizeof *waiting_request->args + bytes);
    if (!waiting_request)
        return NULL;
    *waiting_request = (struct waiting_request){
        .command = call->command, .asked_ns = call->worker->now_ns, .count = call->count};
    char *at = (char *)(waiting_request->args + call->count);
    for (size_t i = 0; i < call->count; i++) {
        size_t len = call->args[i].len;
        if (len > 0)
            memcpy(at, call->args[i].bytes, len);
        waiting_request->args[i] = (struct slice){at, len};
        at += len;
    }
    (void)weir_command_find(call->args[0], &waiting_request->number);
    return waiting_request;
}

bool weir_call_wait_for_fleet(struct call *call, int64_t for_ns, struct pair *pairs, size_t count)
{
    struct session *session = call->session;
    if (!session->waiting_request && !call->last) {
        session->waiting_request = copy_waiting_request(call);
        if (session->waiting_request) {
            session->due_ns = sat_add(call->worker->now_ns, for_ns);
            count_up(&call->worker->waiting, 1);
            atomic_thread_fence(memory_order_seq_cst);
        }
    }
    if (session->waiting_request && !call->last) {
        call->state = RUN_WAITS;
        return true;
    }
    for (size_t i = 0; i < count; i++)
        pairs[i].patient = false;
    return false;
}

int64_t weir_call_asked(const struct call *call)
{
    return call->session->waiting_request ? call->session->waiting_request->asked_ns : call->worker->now_ns;
}

void weir_waiting_request_drop(struct worker *worker, struct session *session)
{
    if (!session->waiting_request)
        return;
    free(session->waiting_request);
    session->waiting_request = NULL;
    count_up(&worker->waiting, -1);
}

bool weir_waiting_request_retry(struct worker *worker, struct session *session, struct buffer *out)
{
    const struct waiting_request *waiting_request = session->waiting_request;
    struct call call = {.worker = worker,
                        .session = session,
                        .user = weir_session_user(session, worker->snapshot),
                        .command = waiting_request->command,
                        .args = waiting_request->args,
                        .count = waiting_request->count,
                        .reply = {out, session->version},
                        .last = worker->now_ns >= session->due_ns};
    if (weir_call_ready(&call))
        call.command->run(&call);
    if (call.state == RUN_WAITS && !session->waits)
        return false;
    if (call.failed)
        weir_call_count_error(&call, waiting_request->command, waiting_request->number);
    bool waits = session->waits; /* it is another policy by now, and what it was promised is due later */
    weir_waiting_request_drop(worker, session);
    return !waits;
}
