/* SPDX-License-Identifier: MIT */
/*
 * The thread that runs background jobs has a worker of its own, the last one, so it sees a snapshot as every
 * thread does, in a read section.
 */
#include "service/pending.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/password_check.h"
#include "base/assert.h"
#include "base/hash.h"
#include "service/commands/decision.h"
#include "service/engine/decide.h"
#include "service/http/encode.h"
#include "service/http/http.h"
#include "service/persist/record_change.h"
#include "service/run.h"
#include "store/commit.h"
#include "table/verbs.h"

#define JOB_BYTES   32768        /* of a job's words: no such command needs more, and many may wait */
#define FLEET_BYTES (128 * 1024) /* a request with more does not wait for a fleet */

/* ---- begin ---- */

static size_t bytes_of(const struct call *call)
{
    size_t bytes = 0;
    for (size_t i = 0; i < call->count; i++)
        bytes += call->args[i].len;
    return bytes;
}

struct pending *weir_pending_new(const struct call *call, size_t most)
{
    size_t bytes = bytes_of(call);
    struct pending *pending =
        bytes > most ? NULL : malloc(sizeof *pending + call->count * sizeof *pending->args + bytes);
    if (!pending)
        return NULL;
    *pending = (struct pending){.command = call->command,
                                .asked_ns = call_asked_ns(call),
                                .out.most = call->reply.out->most,
                                .is_http = call->http != NULL,
                                .count = call->count};
    if (call->http)
        pending->http = *call->http;
    char *at = (char *)(pending->args + call->count);
    for (size_t i = 0; i < call->count; i++) {
        size_t len = call->args[i].len;
        if (len > 0)
            memcpy(at, call->args[i].bytes, len);
        pending->args[i] = (struct slice){at, len};
        at += len;
    }
    return pending;
}

/* One that is resumed may wait for another cause: the new one takes its place. */
static void begin_pending(struct call *call, struct pending *pending, enum pending_cause cause)
{
    ASSERT(call->session->pending == call->pending && pending != call->pending);
    for (size_t i = 0; i < pending->count; i++) /* the words are its own */
        ASSERT(pending->args[i].bytes >= (const char *)(pending->args + pending->count) &&
               pending->args[i].bytes != call->args[i].bytes);
    pending->cause = cause;
    call->session->pending = pending;
    call->state = RUN_PENDING;
    if (pending_waits(pending))
        count_up(&call->worker->waiting, 1);
}

/* It was answered, cancelled, or another one has taken its place. */
static void end_pending(struct worker *worker, struct pending *pending)
{
    ASSERT(!pending_waits(pending) || worker->waiting > 0);
    if (pending_waits(pending))
        count_up(&worker->waiting, -1);
    if (pending->ptable) {
        weir_persist_let_go(worker, pending->ptable);
        weir_policy_table_free(pending->ptable);
    }
    if (pending->login) {
        weir_login_end(worker->service->password_check, pending->login);
        for (size_t i = 0; i < pending->count; i++) /* one of them is the password */
            weir_secret_wipe((void *)(uintptr_t)pending->args[i].bytes, pending->args[i].len);
        weir_secret_wipe(pending->login, sizeof *pending->login);
        free(pending->login);
    }
    weir_buffer_free(&pending->out);
    free(pending);
}

void weir_pending_due(struct call *call, struct pending *pending, const struct request *request,
                      const struct answer *answer)
{
    const struct pair *pair = &request->pairs[0];
    struct policy_table *ptable = weir_policy_find_table(pair->policy, pair->key, NULL);
    pending->ptable = weir_policy_table_ref(ptable);
    pending->hash = table_hash(ptable->table, pair->key.bytes, pair->key.len);
    pending->reservation = answer->promise;
    pending->due_ns = sat_add(call->worker->now_ns, answer->wait_ns);
    (void)snprintf(pending->label, sizeof pending->label, "%s", answer->label ? answer->label : "");
    pending->answer = (struct answer){.allowed = true,
                                      .remaining = answer->remaining,
                                      .reset_after_ns = answer->reset_after_ns,
                                      .limit = answer->limit,
                                      .label = pending->label,
                                      .decided = answer->decided,
                                      .number_count = answer->number_count};
    if (request->full && call->http)
        weir_http_encode_limits(&pending->out, request, answer);
    else if (request->full)
        weir_encode_numbers(&(struct reply){&pending->out, call->reply.version}, request, answer);
    begin_pending(call, pending, PENDING_DUE);
}

bool weir_pending_fleet(struct call *call, int64_t for_ns, struct pair *pairs, size_t count)
{
    struct pending *pending = call->pending ? call->pending : weir_pending_new(call, FLEET_BYTES);
    if (call->last || !pending) {
        for (size_t i = 0; i < count; i++)
            pairs[i].patient = false;
        return false;
    }
    call->state = RUN_PENDING;
    if (pending == call->pending)
        return true;
    pending->due_ns = sat_add(call->worker->now_ns, for_ns);
    begin_pending(call, pending, PENDING_FLEET);
    atomic_thread_fence(memory_order_seq_cst);
    return true;
}

static struct pending *new_job(struct call *call)
{
    struct pending *pending = weir_pending_new(call, JOB_BYTES);
    if (!pending && bytes_of(call) > JOB_BYTES)
        weir_call_error(call, "ERR that is too long; at most %d bytes", JOB_BYTES);
    else if (!pending)
        weir_call_error(call, "UNAVAILABLE out of memory: nothing was changed");
    return pending;
}

void weir_pending_job(struct call *call)
{
    struct pending *pending = new_job(call);
    if (pending)
        begin_pending(call, pending, PENDING_JOB);
}

bool weir_pending_login(struct call *call, const struct login *login)
{
    struct login *copy = malloc(sizeof *copy);
    if (!copy) {
        weir_call_error(call, "UNAVAILABLE out of memory: nothing was changed");
        return false;
    }
    struct pending *pending = new_job(call);
    if (!pending) {
        free(copy);
        return false;
    }
    *copy = *login;
    pending->login = copy;
    begin_pending(call, pending, PENDING_LOGIN);
    return true;
}

/* ---- another thread's work ---- */

bool weir_pending_changes(const struct pending *pending)
{
    return weir_verbs[pending->command->verb].durable;
}

uint64_t weir_pending_whose(const struct session *session)
{
    const struct hash_key any = {0, 0};
    return weir_hash(&any, session->user, strlen(session->user));
}

/* The request as a call. `worker` has begun its read section. */
static struct call call_of_pending(struct worker *worker, struct session *session, struct buffer *out)
{
    struct pending *pending = session->pending;
    pending->http.closes |= atomic_load_explicit(&worker->service->draining, memory_order_relaxed);
    return (struct call){.worker = worker,
                         .session = session,
                         .user = weir_session_user(session, worker->snapshot),
                         .command = pending->command,
                         .args = pending->args,
                         .count = pending->count,
                         .reply = {out, session->version},
                         .http = pending->is_http ? &pending->http : NULL,
                         .pending = pending};
}

/* What works while the store is ill does not wait for it either. */
static bool is_recorded(const struct pending *pending, struct service *service)
{
    struct store *store = service->store;
    bool later = weir_verbs[pending->command->verb].without_store && store && !weir_store_is_well(store);
    return later || weir_persist_wait(service);
}

static void run_job(struct worker *worker, struct session *session)
{
    struct pending *pending = session->pending;
    bool began = read_section_begin(worker);
    struct call call = call_of_pending(worker, session, &pending->out);
    struct request admitted;
    call.request = &admitted;
    if (weir_call_ready(&call))
        call.command->run(&call);
    if (weir_pending_changes(pending) && !is_recorded(pending, worker->service) && !call.failed) {
        weir_buffer_free(&pending->out); /* it is in force, but what is on the disk is not known */
        weir_call_error(&call,
                        "ERR the disk did not take it in time: it is in force, and may or may not have been "
                        "recorded; see INFO persistence");
    }
    read_section_end(worker, began);
    size_t number;
    if (call.failed) {
        count_up(&worker->errors, 1);
        if (weir_command_find(pending->args[0], &number))
            count_up(&worker->failed[number], 1);
    }
}

void weir_pending_work(struct service *service, struct session *session)
{
    struct pending *pending = session->pending;
    ASSERT(!pending_waits(pending) && !pending->is_done);
    if (pending->cause == PENDING_LOGIN)
        weir_login_check(service->password_check, pending->login);
    else
        run_job(&service->workers[service->options.workers], session);
    pending->is_done = true;
}

/* ---- resume and cancel ---- */

static void run_pending_again(struct pending *pending, struct call *call)
{
    if (pending->cause == PENDING_FLEET) {
        call->last = call->worker->now_ns >= pending->due_ns;
        if (!weir_call_ready(call))
            return;
    }
    call->command->run(call);
}

static void count_pending_error(const struct call *call, const struct pending *pending)
{
    size_t number;
    if (pending->cause == PENDING_LOGIN)
        count_up(&call->worker->errors, 1);
    else if (weir_command_find(pending->args[0], &number))
        weir_call_count_error(call, pending->command, number);
}

static void append_job(const struct pending *pending, struct buffer *out)
{
    buffer_put(out, pending->out.bytes + pending->out.start, buffer_len(&pending->out));
    if (pending->out.failed)
        out->failed = true;
}

bool weir_pending_resume(struct worker *worker, struct session *session, struct buffer *out)
{
    struct pending *pending = session->pending;
    if (pending->cause == PENDING_DUE && worker->now_ns < pending->due_ns)
        return false;
    struct call call = call_of_pending(worker, session, out);
    struct request admitted;
    size_t before = buffer_len(out);
    call.request = &admitted;
    worker->protocol = pending->is_http ? PROTOCOL_HTTP : PROTOCOL_RESP;
    ASSERT(pending->cause != PENDING_JOB || pending->is_done);
    if (pending->cause == PENDING_JOB)
        append_job(pending, out);
    else
        run_pending_again(pending, &call);
    if (call.state == RUN_PENDING && session->pending == pending)
        return false;
    if (call.failed)
        count_pending_error(&call, pending);
    bool waits =
        session->pending != pending; /* it is another policy by now, and what it was promised is due later */
    if (!waits)
        session->pending = NULL;
    if (!waits && call.http)
        weir_http_finish(&call, before);
    end_pending(worker, pending);
    INVARIANT(33, waits == (session->pending != NULL));
    return !waits;
}

void weir_pending_cancel(struct worker *worker, struct session *session)
{
    struct pending *pending = session->pending;
    if (!pending)
        return;
    session->pending = NULL;
    bool began =
        read_section_begin(worker); /* tables are used in a read section: see weir_snapshot_collect */
    if (pending->cause == PENDING_DUE)
        (void)weir_table_cancel_by_hash(pending->ptable->table, worker->now_ns, pending->hash,
                                        &pending->reservation);
    end_pending(worker, pending);
    read_section_end(worker, began);
}

void weir_pending_abandon(struct worker *worker, struct session *session, struct buffer *out)
{
    bool began = read_section_begin(worker);
    size_t before = buffer_len(out);
    struct call call = call_of_pending(worker, session, out);
    ASSERT(pending_waits(session->pending));
    weir_call_error(&call, "UNAVAILABLE the server is stopping; nothing was taken");
    if (call.http)
        weir_http_finish(&call, before);
    weir_pending_cancel(worker, session);
    read_section_end(worker, began);
}
