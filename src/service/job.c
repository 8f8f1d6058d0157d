/* SPDX-License-Identifier: MIT */
/*
 * A background job is a request that was put away with its words, to be run by another thread. That thread
 * has a worker of its own, the last one, so it sees a snapshot as everybody does, in a read section.
 */
#include <stdlib.h>
#include <string.h>

#include "auth/password_check.h"
#include "base/hash.h"
#include "service/job.h"
#include "service/persist/record_change.h"
#include "service/run.h"
#include "store/commit.h"

#define JOB_BYTES 32768 /* of its words: no such command needs more, and many may wait for their turn */

struct background_job {
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
static struct background_job *copy_job_request(struct call *call)
{
    size_t bytes = 0;
    for (size_t i = 0; i < call->count; i++)
        bytes += call->args[i].len;
    if (bytes > JOB_BYTES) {
        weir_call_error(call, "ERR that is too long; at most %d bytes", JOB_BYTES);
        return NULL;
    }
    struct background_job *job = calloc(1, sizeof *job + call->count * sizeof *job->args + bytes);
    if (!job) {
        weir_call_error(call, "ERR out of memory: nothing was changed");
        return NULL;
    }
    char *at = (char *)(job->args + call->count);
    job->count = call->count;
    for (size_t i = 0; i < call->count; i++) {
        size_t len = call->args[i].len;
        if (len > 0)
            memcpy(at, call->args[i].bytes, len);
        job->args[i] = (struct slice){at, len};
        at += len;
    }
    return job;
}

void weir_job_begin(struct call *call)
{
    struct background_job *job = copy_job_request(call);
    if (!job)
        return;
    job->service = call->worker->service;
    job->session = call->session;
    job->command = call->command;
    job->version = call->reply.version;
    job->out.most = call->reply.out->most;
    call->session->job = job;
    call->state = RUN_JOB;
}

bool weir_job_login(struct call *call, const struct login *login)
{
    struct login *copy = malloc(sizeof *copy);
    if (!copy) {
        weir_call_error(call, "ERR out of memory: nothing was changed");
        return false;
    }
    *copy = *login;
    weir_job_begin(call);
    if (call->state == RUN_JOB)
        call->session->job->login = copy;
    else {
        weir_secret_wipe(copy, sizeof *copy);
        free(copy);
    }
    return call->state == RUN_JOB;
}

bool weir_job_is_login(const struct background_job *job)
{
    return job->login;
}

bool weir_job_changes(const struct background_job *job)
{
    return job->command->flags & CMD_WRITE;
}

uint64_t weir_job_whose(const struct background_job *job)
{
    const struct hash_key any = {0, 0};
    return weir_hash(&any, job->session->user, strlen(job->session->user));
}

/* It is in force, but what is on the disk nobody knows. */
static void answer_maybe_recorded(struct background_job *job, struct call *call)
{
    if (call->failed)
        return;
    weir_buffer_free(&job->out);
    weir_call_error(call,
                    "ERR the disk did not take it in time: it is in force, and may or may not have been "
                    "recorded; see INFO persistence");
}

/* What works while the store is ill does not wait for it either. */
static bool is_recorded(const struct background_job *job)
{
    struct store *store = job->service->store;
    bool later = job->command->flags & CMD_WITHOUT_STORE && store && !weir_store_is_well(store);
    return later || weir_persist_wait(job->service);
}

void weir_job_do(struct background_job *job)
{
    if (job->login) {
        weir_login_check(job->service->password_check, job->login);
        return;
    }
    struct worker *worker = &job->service->workers[job->service->options.workers];
    struct call call = {.worker = worker,
                        .session = job->session,
                        .command = job->command,
                        .args = job->args,
                        .count = job->count,
                        .reply = {&job->out, job->version}};
    bool began = read_section_begin(worker);
    call.user = weir_session_user(job->session, worker->snapshot);
    if (call.user)
        call.command->run(&call);
    else
        weir_call_error(&call, "NOAUTH Authentication required.");
    if (weir_job_changes(job) && !is_recorded(job))
        answer_maybe_recorded(job, &call);
    read_section_end(worker, began);
    job->failed = call.failed;
    job->state = call.state;
    if (call.failed) {
        size_t number;
        count_up(&worker->errors, 1);
        if (weir_command_find(job->args[0], &number))
            count_up(&worker->failed[number], 1);
    }
}

/* Its password was checked: the same request is run again, and knows. */
static void finish_login(struct background_job *job, struct worker *worker, struct buffer *out)
{
    struct session *session = job->session;
    struct login *login = job->login;
    struct call call = {.worker = worker,
                        .session = session,
                        .command = job->command,
                        .args = job->args,
                        .count = job->count,
                        .reply = {out, session->version}};
    weir_login_end(job->service->password_check, login);
    if (worker) {
        bool began = read_section_renew(worker);
        session->checked = login;
        call.user = weir_session_user(session, worker->snapshot);
        call.command->run(&call);
        session->checked = NULL;
        if (call.failed)
            count_up(&worker->errors, 1);
        read_section_end(worker, began);
    }
    job->state = call.state;
    for (size_t i = 0; i < job->count; i++) /* one of them is the password */
        weir_secret_wipe((void *)(uintptr_t)job->args[i].bytes, job->args[i].len);
    free(login);
}

void weir_job_finish(struct worker *worker, struct session *session, struct buffer *out,
                     enum run_state *state)
{
    struct background_job *job = session->job;
    size_t before = buffer_len(out);
    session->job = NULL;
    if (job->login)
        finish_login(job, worker, out);
    buffer_put(out, buffer_bytes(&job->out), buffer_len(&job->out));
    if (job->out.failed)
        out->failed = true;
    weir_session_mute(session, out, before);
    *state = out->failed || session->closing || job->state == RUN_CLOSE ? RUN_CLOSE : RUN_READY;
    weir_buffer_free(&job->out);
    free(job);
}
