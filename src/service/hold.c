/* SPDX-License-Identifier: MIT */
#include "service/hold.h"

#include <stdlib.h>
#include <string.h>

#define HELD_BYTES (128 * 1024) /* of its words; who says more does not wait */

struct held {
    const struct command *command;
    size_t number;
    int64_t asked_ns;
    size_t count;
    struct slice args[]; /* and their bytes behind them */
};

static struct held *copy_request(const struct call *call)
{
    size_t bytes = 0;
    for (size_t i = 0; i < call->count; i++)
        bytes += call->args[i].len;
    if (bytes > HELD_BYTES)
        return NULL;
    struct held *held = malloc(sizeof *held + call->count * sizeof *held->args + bytes);
    if (!held)
        return NULL;
    *held = (struct held){.command = call->command, .asked_ns = call->worker->now_ns, .count = call->count};
    char *at = (char *)(held->args + call->count);
    for (size_t i = 0; i < call->count; i++) {
        size_t len = call->args[i].len;
        if (len > 0)
            memcpy(at, call->args[i].bytes, len);
        held->args[i] = (struct slice){at, len};
        at += len;
    }
    (void)weir_command_find(call->args[0], &held->number);
    return held;
}

bool weir_call_hold(struct call *call, int64_t for_ns, struct pair *pairs, size_t count)
{
    struct session *session = call->session;
    if (!session->held && !call->last) {
        session->held = copy_request(call);
        if (session->held) {
            session->due_ns = sat_add(call->worker->now_ns, for_ns);
            count_up(&call->worker->waiting, 1);
            atomic_thread_fence(memory_order_seq_cst);
        }
    }
    if (session->held && !call->last) {
        call->state = RUN_WAITS;
        return true;
    }
    for (size_t i = 0; i < count; i++)
        pairs[i].patient = false;
    return false;
}

int64_t weir_call_asked(const struct call *call)
{
    return call->session->held ? call->session->held->asked_ns : call->worker->now_ns;
}

void weir_held_drop(struct worker *worker, struct session *session)
{
    if (!session->held)
        return;
    free(session->held);
    session->held = NULL;
    count_up(&worker->waiting, -1);
}

bool weir_held_again(struct worker *worker, struct session *session, struct buffer *out)
{
    const struct held *held = session->held;
    struct call call = {.worker = worker,
                        .session = session,
                        .user = weir_session_user(session, worker->snapshot),
                        .command = held->command,
                        .args = held->args,
                        .count = held->count,
                        .reply = {out, session->version},
                        .last = worker->now_ns >= session->due_ns};
    if (weir_call_ready(&call))
        call.command->run(&call);
    if (call.state == RUN_WAITS && !session->waits)
        return false;
    if (call.failed)
        weir_call_count_error(&call, held->command, held->number);
    bool waits = session->waits; /* it is another policy by now, and what it was promised is due later */
    weir_held_drop(worker, session);
    return !waits;
}
