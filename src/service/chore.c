/* SPDX-License-Identifier: MIT */
/*
 * A chore is a request that was put away with its words, to be run by another thread. That thread has a
 * worker of its own, the last one, so it sees a snapshot as everybody does, in a turn.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "service/keep.h"
#include "service/run.h"
#include "service/slow.h"

#define CHORE_BYTES 32768 /* of its words: no such command needs more, and many may wait for their turn */

struct chore {
    struct service *service;
    struct session *session;
    const struct command *command;
    struct buffer out;
    int version;
    bool failed;
    enum run_state state;
    struct login *login; /* that is to be checked; NULL: a command that takes long */
    size_t count;
    struct slice args[]; /* and their bytes behind them */
};

/* NULL: an error was answered. */
static struct chore *copy_request(struct call *call)
{
    size_t bytes = 0;
    for (size_t i = 0; i < call->count; i++)
        bytes += call->args[i].len;
    if (bytes > CHORE_BYTES) {
        weir_call_error(call, "ERR that is too long; at most %d bytes", CHORE_BYTES);
        return NULL;
    }
    struct chore *chore = calloc(1, sizeof *chore + call->count * sizeof *chore->args + bytes);
    if (!chore) {
        weir_call_error(call, "ERR out of memory: nothing was changed");
        return NULL;
    }
    char *at = (char *)(chore->args + call->count);
    chore->count = call->count;
    for (size_t i = 0; i < call->count; i++) {
        size_t len = call->args[i].len;
        if (len > 0)
            memcpy(at, call->args[i].bytes, len);
        chore->args[i] = (struct slice){at, len};
        at += len;
    }
    return chore;
}

void weir_chore_begin(struct call *call)
{
    struct chore *chore = copy_request(call);
    if (!chore)
        return;
    chore->service = call->worker->service;
    chore->session = call->session;
    chore->command = call->command;
    chore->version = call->reply.version;
    chore->out.most = call->reply.out->most;
    call->session->chore = chore;
    call->state = RUN_CHORE;
}

bool weir_chore_login(struct call *call, const struct login *login)
{
    struct login *copy = malloc(sizeof *copy);
    if (!copy) {
        weir_call_error(call, "ERR out of memory: nothing was changed");
        return false;
    }
    *copy = *login;
    weir_chore_begin(call);
    if (call->state == RUN_CHORE)
        call->session->chore->login = copy;
    else {
        weir_secret_wipe(copy, sizeof *copy);
        free(copy);
    }
    return call->state == RUN_CHORE;
}

bool weir_chore_is_login(const struct chore *chore)
{
    return chore->login;
}

bool weir_chore_changes(const struct chore *chore)
{
    return chore->command->flags & CMD_WRITE;
}

uint64_t weir_chore_whose(const struct chore *chore)
{
    const struct hash_key any = {0, 0};
    return weir_hash(&any, chore->session->user, strlen(chore->session->user));
}

/* It is in force, but what is on the disk nobody knows. */
static void answer_unsure(struct chore *chore, struct call *call)
{
    if (call->failed)
        return;
    weir_buffer_free(&chore->out);
    weir_call_error(call,
                    "ERR the disk did not take it in time: it is in force, and may or may not have been "
                    "recorded; see INFO persistence");
}

/* What works while the store is ill does not wait for it either. */
static bool is_recorded(const struct chore *chore)
{
    struct store *store = chore->service->store;
    bool later = chore->command->flags & CMD_ILL && store && !weir_store_is_well(store);
    return later || weir_keep_wait(chore->service);
}

void weir_chore_do(struct chore *chore)
{
    if (chore->login) {
        weir_login_check(chore->service->slow, chore->login);
        return;
    }
    struct worker *worker = &chore->service->workers[chore->service->options.workers];
    struct call call = {.worker = worker,
                        .session = chore->session,
                        .command = chore->command,
                        .args = chore->args,
                        .count = chore->count,
                        .reply = {&chore->out, chore->version}};
    bool began = turn_begin(worker);
    call.user = weir_session_user(chore->session, worker->snapshot);
    if (call.user)
        call.command->run(&call);
    else
        weir_call_error(&call, "NOAUTH Authentication required.");
    if (weir_chore_changes(chore) && !is_recorded(chore))
        answer_unsure(chore, &call);
    turn_end(worker, began);
    chore->failed = call.failed;
    chore->state = call.state;
    if (call.failed) {
        size_t number;
        count_up(&worker->errors, 1);
        if (weir_command_find(chore->args[0], &number))
            count_up(&worker->failed[number], 1);
    }
}

/* Its password was checked: the same request is run again, and knows. */
static void finish_login(struct chore *chore, struct worker *worker, struct buffer *out)
{
    struct session *session = chore->session;
    struct login *login = chore->login;
    struct call call = {.worker = worker,
                        .session = session,
                        .command = chore->command,
                        .args = chore->args,
                        .count = chore->count,
                        .reply = {out, session->version}};
    weir_login_end(chore->service->slow, login);
    if (worker) {
        bool began = turn_begin_anew(worker);
        session->checked = login;
        call.user = weir_session_user(session, worker->snapshot);
        call.command->run(&call);
        session->checked = NULL;
        if (call.failed)
            count_up(&worker->errors, 1);
        turn_end(worker, began);
    }
    chore->state = call.state;
    for (size_t i = 0; i < chore->count; i++) /* one of them is the password */
        weir_secret_wipe((void *)(uintptr_t)chore->args[i].bytes, chore->args[i].len);
    free(login);
}

void weir_chore_finish(struct worker *worker, struct session *session, struct buffer *out,
                       enum run_state *state)
{
    struct chore *chore = session->chore;
    size_t before = buffer_len(out);
    session->chore = NULL;
    if (chore->login)
        finish_login(chore, worker, out);
    buffer_put(out, buffer_bytes(&chore->out), buffer_len(&chore->out));
    if (chore->out.failed)
        out->failed = true;
    weir_session_mute(session, out, before);
    *state = out->failed || session->closing || chore->state == RUN_CLOSE ? RUN_CLOSE : RUN_READY;
    weir_buffer_free(&chore->out);
    free(chore);
}
