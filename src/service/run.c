/* SPDX-License-Identifier: MIT */
/*
 * From words to answers. A batch is gone through twice: first every request's command is looked up, and the
 * memory asked for that its key will need; then they are run, one after the other, while that arrives.
 */

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "os/clock.h"
#include "service/engine/decide.h"
#include "service/http/http.h"
#include "service/pending.h"
#include "service/run.h"
#include "store/commit.h"
#include "table/verbs.h"

/*
 * There are no transactions. But clients send MULTI, their commands and EXEC in one go, and look at the
 * errors afterwards: so nothing of what stands between is run, and EXEC says so. Who sees the error can be
 * sure that nothing was taken.
 */

/* Between MULTI, which is refused, and EXEC nothing is run; true: it was answered. */
static bool transaction_stops(struct call *call)
{
    struct session *session = call->session;
    if (!session->transaction) {
        session->transaction = weir_call_word(call, 0, "MULTI");
        return false; /* it is an unknown command, and advised as one */
    }
    if (weir_call_word(call, 0, "QUIT"))
        return false;
    bool exec = weir_call_word(call, 0, "EXEC"), discard = weir_call_word(call, 0, "DISCARD");
    session->transaction = !exec && !discard && !weir_call_word(call, 0, "RESET");
    if (exec)
        weir_call_error(call, "EXECABORT Transaction discarded because of previous errors.");
    else if (discard)
        weir_reply_simple(&call->reply, "OK");
    else if (session->transaction)
        weir_call_error(call, "ERR a transaction was refused: nothing is run until EXEC or DISCARD; use a "
                              "pipeline without MULTI (redis-py: pipeline(transaction=False))");
    return exec || discard || session->transaction;
}

#define FLIGHT     32 /* requests that are looked ahead at */
#define ARGS_SHOWN 128

struct flight_plan {
    const struct command *command; /* NULL: there is none of that name */
    size_t number;
    struct policy *policy; /* that it names, or NULL: it was not looked up, or there is none */
    uint64_t hash;         /* of its key, or 0 */
};

/* ---- what is wrong with a request ---- */

static const char *upper(const char *name, char text[static 64])
{
    size_t len = 0;
    for (; name[len] && len < 63; len++)
        text[len] = name[len] >= 'a' && name[len] <= 'z' ? (char)(name[len] - 'a' + 'A') : name[len];
    text[len] = '\0';
    return text;
}

static void answer_unknown(struct call *call)
{
    char shown[72], args[ARGS_SHOWN + 80] = "";
    const char *advice = weir_foreign_advice(call->args[0]);
    const struct command *near = advice ? NULL : weir_command_near(call->args[0]);
    struct text text;
    if (advice) {
        weir_call_error(call, "ERR unknown command '%s'; %s", weir_shown(call->args[0], shown), advice);
        return;
    }
    if (near) {
        char name[64];
        weir_call_error(call, "ERR unknown command '%s'; did you mean %s?", weir_shown(call->args[0], shown),
                        upper(near->name, name));
        return;
    }
    weir_text_init(&text, args, sizeof args);
    for (size_t i = 1; i < call->count && text.len < ARGS_SHOWN; i++)
        weir_text_print(&text, "'%s' ", weir_shown(call->args[i], shown));
    weir_call_error(call, "ERR unknown command '%s', with args beginning with: %s",
                    weir_shown(call->args[0], shown), args);
}

/* Finds the subcommand, where one is needed. false: there is none, and an error was answered. */
static bool find_subcommand(struct call *call)
{
    char shown[72], name[64];
    if (call->count < 2) {
        if (call->command->run)
            return true;
        weir_call_arity(call);
        return false;
    }
    for (const struct command *sub = call->command->commands; sub->name; sub++)
        if (weir_call_word(call, 1, sub->name) ||
            (strcmp(sub->name, "del") == 0 && weir_call_word(call, 1, "delete"))) {
            call->command = sub;
            return true;
        }
    weir_call_error(call, "ERR unknown subcommand '%s'. Try %s HELP.", weir_shown(call->args[1], shown),
                    upper(call->command->name, name));
    return false;
}

bool weir_call_ready(struct call *call)
{
    if (!call->command) {
        answer_unknown(call);
        return false;
    }
    if (call->command->commands && !find_subcommand(call))
        return false;
    if (!command_fits(call->command, call->count)) {
        weir_call_arity(call);
        return false;
    }
    if (call->user)
        return weir_call_admit(call);
    if (call->command->flags & CMD_NO_AUTH)
        return true;
    if (call->session->must_log_in) {
        weir_call_error(call,
                        "ERR max number of clients reached; the last places are for admins, who log in");
        call->session->closing = true;
    } else {
        weir_call_error(call, "NOAUTH Authentication required.");
    }
    return false;
}

/* ---- running ---- */

void weir_call_count_error(const struct call *call, const struct command *command, size_t number)
{
    struct worker *worker = call->worker;
    count_up(&worker->errors, 1);
    if (!command)
        return;
    count_up(&worker->failed[number], 1);
    size_t policy_at = (size_t)command->policy_at;
    if (policy_at == 0 || policy_at >= call->count)
        return;
    struct policy *policy = weir_snapshot_policy(worker->snapshot, call->args[policy_at]);
    if (policy)
        count_up(&policy->counters->counts[worker->number].errors, 1);
}

static bool was_answered_with_error(const struct call *call, const struct buffer *out, size_t before)
{
    return call->failed || (buffer_len(out) > before && out->bytes[out->start + before] == '-');
}

#if WEIR_ASSERTIONS
/* What this thread has changed so far of what a store records. */
static uint64_t changes_so_far(void)
{
    return weir_dirty ? weir_dirty->touched : 0;
}
#endif

static enum run_state run_request(struct worker *worker, struct session *session, const struct user *user,
                                  const struct flight_plan *plan, const struct resp_request *request,
                                  const struct http_exchange *http, struct buffer *out)
{
    struct request admitted;
    struct call call = {.worker = worker,
                        .session = session,
                        .user = user,
                        .request = &admitted,
                        .command = plan->command,
                        .args = request->args,
                        .count = request->count,
                        .reply = {out, session->version},
                        .found = plan->policy,
                        .hash = plan->hash,
                        .last = http && http->kind == EXCHANGE_ELEMENT, /* a batch does not wait */
                        .http = http};
    size_t before = buffer_len(out);
#if WEIR_ASSERTIONS
    uint64_t changes = changes_so_far();
#endif
    session->commands++;
    count_up(&worker->commands, 1);
    if (plan->command) {
        session->last_command = plan->command->name;
        count_up(&worker->calls[plan->number], 1);
    }
    bool stopped = __builtin_expect(session->transaction || !plan->command, 0);
    if ((stopped && transaction_stops(&call)) || !weir_call_ready(&call))
        ;
    else if (call.command->flags & CMD_JOB)
        weir_pending_job(&call);
    else
        call.command->run(&call);
#if WEIR_ASSERTIONS
    ASSERT(changes_so_far() == changes ||
           (worker->changed && call.command && weir_verbs[call.command->verb].durable));
#endif
    if (__builtin_expect(was_answered_with_error(&call, out, before), 0))
        weir_call_count_error(&call, plan->command, plan->number);
    bool resumed = __builtin_expect(session->pending != NULL, 0) &&
                   session->pending->cause == PENDING_FLEET && weir_pending_resume(worker, session, out);
    if (resumed)
        call.state = RUN_READY;
    else if (http && call.state != RUN_PENDING)
        weir_http_finish(&call, before);
    if (call.state != RUN_PENDING)
        weir_session_mute(session, out, before);
    return out->failed || session->closing ? RUN_CLOSE : call.state;
}

/* ---- batches ---- */

static void prefetch_request(struct worker *worker, struct flight_plan *plan,
                             const struct resp_request *request)
{
    const struct command *command = plan->command;
    size_t key_at = (size_t)command->key_at, policy_at = (size_t)command->policy_at;
    if (key_at == 0 || key_at >= request->count || command->commands)
        return;
    struct slice key = request->args[key_at];
    if (policy_at > 0) {
        plan->policy = weir_snapshot_policy(worker->snapshot, request->args[policy_at]);
        if (plan->policy)
            plan->hash = weir_decide_prefetch(plan->policy, key);
    } else if (strcmp(command->group, "redis-cell") == 0)
        weir_table_prefetch(worker->service->client_keys->table, key.bytes, key.len);
}

static void look_ahead(struct worker *worker, const struct resp_request *requests, size_t count,
                       struct flight_plan *plans)
{
    for (size_t i = 0; i < count; i++) {
        plans[i] = (struct flight_plan){0};
        plans[i].command = weir_command_find(requests[i].args[0], &plans[i].number);
        if (count > 1 && plans[i].command)
            prefetch_request(worker, &plans[i], &requests[i]);
    }
}

/* Jobs are done later, by another thread. */
static bool is_decision(const struct command *command)
{
    bool decides = weir_verbs[command->verb].decides || command->verb == ENGINE_TAKE_KEY;
    return decides && !(command->flags & CMD_JOB);
}

/* Time is told to those who used it: the clock is read when another command begins, not for each of many. */
static void tell_time(struct worker *worker, const struct flight_plan *plan, size_t count, int64_t *since_ns)
{
    int64_t now_ns = clock_now();
    if (plan->command && is_decision(plan->command))
        histogram_observe(&worker->decision_time[worker->protocol], weir_decision_bounds,
                          max64(now_ns - *since_ns, 0), (int64_t)count);
    if (plan->command && now_ns > *since_ns) {
        int64_t all_ns = worker->rest_ns + now_ns - *since_ns;
        count_up(&worker->usec[plan->number], all_ns / 1000);
        worker->rest_ns = all_ns % 1000;
    }
    *since_ns = now_ns;
}

static size_t run_flight(struct worker *worker, struct session *session, const struct resp_request *requests,
                         size_t count, const struct http_exchange *http, struct buffer *out,
                         enum run_state *state)
{
    struct flight_plan plans[FLIGHT];
    size_t done = 0, told = 0;
    int64_t since_ns = clock_now();
    const struct user *user = weir_session_user(session, worker->snapshot);
    look_ahead(worker, requests, count, plans);
    *state = RUN_READY;
    while (done < count && *state == RUN_READY) {
        const struct command *command = plans[done].command;
        *state = run_request(worker, session, user, &plans[done], &requests[done], http, out);
        if (command && command->flags & CMD_NO_AUTH) /* to log in and out is one of these */
            user = weir_session_user(session, worker->snapshot);
        done++;
        if (done == count || *state != RUN_READY || plans[done].command != plans[done - 1].command) {
            tell_time(worker, &plans[done - 1], done - told, &since_ns);
            told = done;
        }
    }
    return done;
}

struct run_result weir_run_requests(struct worker *worker, struct session *session,
                                    const struct resp_request *requests, size_t count,
                                    const struct http_exchange *http, struct buffer *out)
{
    struct run_result result = {.state = RUN_READY};
    while (result.done < count && result.state == RUN_READY) {
        size_t flight = count - result.done < FLIGHT ? count - result.done : FLIGHT;
        result.done += run_flight(worker, session, requests + result.done, flight, http, out, &result.state);
    }
    return result;
}

struct run_result weir_service_run(struct worker *worker, struct session *session,
                                   const struct resp_request *requests, size_t count, struct buffer *out)
{
    bool began = read_section_renew(worker);
    worker->changed = false;
    worker->protocol = PROTOCOL_RESP;
    session->active_ns = worker->now_ns;
    struct run_result result = weir_run_requests(worker, session, requests, count, NULL, out);
    read_section_end(worker, began);
    result.changed = worker->changed;
    return result;
}

struct run_result weir_service_resume(struct worker *worker, struct session *session, struct buffer *out)
{
    struct run_result result = {.state = RUN_PENDING};
    size_t before = buffer_len(out);
    if (!session->pending)
        return result;
    bool began = read_section_renew(worker);
    worker->changed = false;
    if (weir_pending_resume(worker, session, out)) {
        weir_session_mute(session, out, before);
        result.state = out->failed || session->closing ? RUN_CLOSE : RUN_READY;
        result.done = 1;
    }
    read_section_end(worker, began);
    result.changed = worker->changed;
    return result;
}
