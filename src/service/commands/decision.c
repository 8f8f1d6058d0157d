/* SPDX-License-Identifier: MIT */
#include "service/commands/decision.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/put.h"
#include "base/sat.h"
#include "service/engine/count.h"
#include "service/http/encode.h"
#include "service/pending.h"
#include "service/refusal_log.h"

#define TIMEOUT_MAX_MS CONFIG_TTL_MAX_MS

/* ---- words ---- */

/* Behind a key stands a number, or the next word of the command. */
static bool is_after_pair(const struct call *call, size_t at)
{
    return at == call->count || weir_call_word(call, at, "and") || weir_call_word(call, at, "id") ||
           weir_call_word(call, at, "timeout") || weir_call_word(call, at, "full");
}

static bool parse_pair(struct call *call, struct request *request, size_t *at, bool n_needed)
{
    if (*at + 2 > call->count) {
        weir_call_arity(call);
        return false;
    }
    bool known = *at == (size_t)call->command->policy_at;
    struct pair *pair = &request->pairs[request->count++];
    pair->name = call->args[*at];
    pair->key = call->args[*at + 1];
    if (!pair->key.bytes)
        pair->key.bytes = "";
    pair->policy = known ? call->found : NULL;
    pair->hash = known ? call->hash : 0;
    pair->said = (struct slice){0};
    pair->of = request->count - 1;
    pair->asked = NULL;
    pair->patient = !call->last;
    pair->n = 1;
    *at += 2;
    if (!n_needed && is_after_pair(call, *at))
        return true;
    return weir_call_units(call, (*at)++, "n", 1, &pair->n);
}

bool weir_parse_pairs(struct call *call, struct request *request, size_t *at, size_t most, bool n_needed)
{
    if (!parse_pair(call, request, at, n_needed))
        return false;
    while (weir_call_word(call, *at, "and")) {
        if (request->count == most) {
            weir_call_error(call, "ERR at most %zu pairs of policy and key can be decided together", most);
            return false;
        }
        *at += 1;
        if (!parse_pair(call, request, at, n_needed))
            return false;
    }
    return true;
}

static bool refuse_twice(struct call *call, const char *what)
{
    weir_call_error(call, "ERR %s is there twice", what);
    return false;
}

static bool parse_ms(struct call *call, size_t at, const char *what, int64_t least, int64_t most,
                     int64_t *number)
{
    if (*number >= 0)
        return refuse_twice(call, what);
    if (!weir_call_ms(call, at, what, least, number))
        return false;
    if (*number <= most)
        return true;
    weir_call_error(call, "ERR %s is in milliseconds, at most %" PRId64 " (24 hours)", what, most);
    return false;
}

static bool parse_id(struct call *call, size_t at, struct request *request)
{
    if (request->id.bytes)
        return refuse_twice(call, "ID");
    request->id = call->args[at];
    if (request->id.len > 0 && request->id.len <= KEY_MAX)
        return true;
    weir_call_error(call, "ERR a request id has 1 to %d bytes", KEY_MAX);
    return false;
}

bool weir_parse_options(struct call *call, struct request *request, size_t at, unsigned options)
{
    int64_t timeout_max = request->verb == ENGINE_ACQUIRE ? INT64_MAX : TIMEOUT_MAX_MS;
    for (; at < call->count; at += 2) {
        bool good = false, has_value = at + 1 < call->count;
        if (options & OPTION_FULL && weir_call_word(call, at, "full")) {
            good = !request->full || refuse_twice(call, "FULL");
            request->full = true;
            at -= 1; /* it has no value */
        } else if (has_value && options & OPTION_TTL && weir_call_word(call, at, "ttl")) {
            good = parse_ms(call, at + 1, "TTL", 1, CONFIG_TTL_MAX_MS, &request->ttl_ms);
        } else if (has_value && options & OPTION_TIMEOUT && weir_call_word(call, at, "timeout")) {
            good = parse_ms(call, at + 1, "TIMEOUT", 0, timeout_max, &request->timeout_ms);
        } else if (has_value && options & OPTION_ID && weir_call_word(call, at, "id")) {
            good = parse_id(call, at + 1, request);
        } else {
            weir_call_syntax(call, at);
        }
        if (!good)
            return false;
    }
    return true;
}

/* ---- answers ---- */

/* Six fields with their names are less than 256 bytes, and the limit's name and a policy's in front. */
#define ANSWER_MAX (256 + LABEL_MAX + CONFIG_NAME_MAX + 16)

#define FULL_FIELDS 5

static inline char *put_answer_label(char *at, const struct answer *answer)
{
    size_t policy = answer->policy ? strlen(answer->policy) : 0, label = strlen(answer->label);
    *at++ = '$';
    at = put_decimal(at, (int64_t)(label + (policy > 0 ? policy + 1 : 0)));
    at = PUT(at, "\r\n");
    if (policy > 0) {
        at = put_bytes(at, answer->policy, policy);
        *at++ = '/';
    }
    return put_bytes(at, answer->label, label);
}

static inline char *put_answer_head(char *at, int version, size_t pairs)
{
    *at++ = version == 3 ? '%' : '*';
    at = put_decimal(at, (int64_t)(version == 3 ? pairs : 2 * pairs));
    return PUT(at, "\r\n$7\r\nallowed\r\n");
}

static const struct {
    const char *bytes;
    size_t len;
} reasons[] = {
    [ANSWER_OK] = {"$2\r\nok\r\n", 8},          [ANSWER_LATER] = {"$5\r\nlater\r\n", 11},
    [ANSWER_NEVER] = {"$5\r\nnever\r\n", 11},   [ANSWER_SHADOW] = {"$6\r\nshadow\r\n", 12},
    [ANSWER_FULL] = {"$4\r\nfull\r\n", 10},     [ANSWER_DISABLED] = {"$8\r\ndisabled\r\n", 14},
    [ANSWER_LOST] = {"$4\r\nlost\r\n", 10},     [ANSWER_SHARED] = {"$6\r\nshared\r\n", 12},
    [ANSWER_EXEMPT] = {"$6\r\nexempt\r\n", 12}, [ANSWER_BLOCKED] = {"$7\r\nblocked\r\n", 13},
};

void weir_encode_verdict(struct call *call, const struct request *request, const struct answer *answer,
                         size_t more)
{
    struct buffer *out = call->reply.out;
    char *start = weir_buffer_room(out, ANSWER_MAX), *at = start;
    if (!start)
        return;
    at = put_answer_head(at, call->reply.version, 6 + more + (request->full ? FULL_FIELDS : 0));
    if (call->reply.version == 3)
        at = answer->allowed ? PUT(at, "#t") : PUT(at, "#f");
    else
        at = answer->allowed ? PUT(at, ":1") : PUT(at, ":0");
    at = PUT(at, "\r\n$9\r\nremaining\r\n:");
    at = put_decimal(at, answer->remaining);
    at = PUT(at, "\r\n$14\r\nretry_after_ms\r\n:");
    at = put_decimal(at, ms_up(answer->retry_after_ns));
    at = PUT(at, "\r\n$14\r\nreset_after_ms\r\n:");
    at = put_decimal(at, ms_up(answer->reset_after_ns));
    at = PUT(at, "\r\n$5\r\nlimit\r\n");
    at = put_answer_label(at, answer);
    at = PUT(at, "\r\n$6\r\nreason\r\n");
    at = put_bytes(at, reasons[answer->reason].bytes, reasons[answer->reason].len);
    buffer_wrote(out, (size_t)(at - start));
}

/* Without a bound, or not known: -1. */
static void reply_units(struct reply *reply, const char *name, int64_t units)
{
    weir_reply_field(reply, name, units == INT64_MAX ? -1 : units);
}

static void encode_rate(struct reply *reply, const struct limit_numbers *numbers)
{
    reply_units(reply, "count", numbers->count);
    weir_reply_field(reply, "window_ms", ms_up(numbers->window_ns));
    reply_units(reply, "burst", numbers->burst);
    reply_units(reply, "used", numbers->used);
}

void weir_encode_numbers(struct reply *reply, const struct request *request, const struct answer *answer)
{
    encode_rate(reply, &answer->decided);
    weir_reply_text(reply, "limits");
    weir_reply_array(reply, answer->number_count);
    for (size_t i = 0; i < answer->number_count; i++) {
        const struct limit_numbers *numbers = &answer->numbers[i];
        weir_reply_map(reply, 8);
        weir_reply_text(reply, "name");
        if (request->count > 1)
            weir_reply_print(reply, "%s/%s", request->pairs[numbers->pair].policy->name, numbers->name);
        else
            weir_reply_text(reply, numbers->name);
        encode_rate(reply, numbers);
        reply_units(reply, "remaining", numbers->remaining);
        weir_reply_field(reply, "reset_after_ms", ms_up(numbers->reset_after_ns));
        weir_reply_field(reply, "retry_after_ms", ms_up(numbers->retry_after_ns));
    }
}

/* ---- all of it ---- */

static void tell_refusal(const struct call *call, const struct request *request, const struct answer *answer)
{
    bool takes =
        request->verb == ENGINE_TAKE || request->verb == ENGINE_ACQUIRE || request->verb == ENGINE_RESERVE;
    if (takes)
        weir_refusal_log_tell(call->worker->service->refusal_log, request, answer, call->session->address,
                              call->worker->now_ns);
}

static void encode_answer(struct call *call, const struct request *request, const struct answer *answer)
{
    if (answer->error != ENGINE_OK) {
        weir_call_engine_error(call, answer);
        return;
    }
    if (!answer->allowed && call->worker->service->refusal_log)
        tell_refusal(call, request, answer);
    if (call->http && request->full) {
        weir_http_encode_answer(call, request, answer, NULL);
        return;
    }
    call->command->encode(call, request, answer);
    if (request->full)
        weir_encode_numbers(&call->reply, request, answer);
}

/* Memory to wait in is needed before units are promised: none are if there is none. */
static void run_acquire(struct call *call, struct request *request, struct answer *answer)
{
    struct pending *pending = request->timeout_ms == 0 ? NULL : weir_pending_new(call, SIZE_MAX);
    if (request->timeout_ms != 0 && !pending) {
        count_unavailable(call->worker, request);
        weir_call_error(call, "UNAVAILABLE out of memory: nothing was taken");
        return;
    }
    if (weir_engine_run(call->worker, request, answer) == ENGINE_PENDING) {
        weir_pending_due(call, pending, request, answer);
        return;
    }
    free(pending);
    encode_answer(call, request, answer);
}

static void decide_and_answer(struct call *call, struct request *request)
{
    struct answer answer;
    if (request->verb == ENGINE_ACQUIRE && !request->pairs[0].policy->leases) {
        run_acquire(call, request, &answer);
        return;
    }
    while (__builtin_expect(weir_engine_run(call->worker, request, &answer) == ENGINE_PENDING, 0))
        if (weir_pending_fleet(call, answer.hold_ns, request->pairs, request->count))
            return; /* it is run again when units have come */
    encode_answer(call, request, &answer);
}

static void decide_full(struct call *call, struct request *request)
{
    struct limit_numbers numbers[NUMBERS_MAX];
    request->numbers = numbers;
    decide_and_answer(call, request);
}

/* An ACQUIRE that is due was decided when it began to wait. */
static void answer_due(struct call *call)
{
    struct request request;
    request_init(&request, call->command->verb, call->user);
    request.asked_ns = call->pending->asked_ns;
    request.full = buffer_len(&call->pending->out) > 0;
    if (call->http) {
        weir_http_encode_answer(call, &request, &call->pending->answer, &call->pending->out);
        return;
    }
    call->command->encode(call, &request, &call->pending->answer);
    buffer_put(call->reply.out, buffer_bytes(&call->pending->out), buffer_len(&call->pending->out));
}

void weir_run_decision(struct call *call)
{
    if (__builtin_expect(call->pending && call->pending->cause == PENDING_DUE, 0)) {
        answer_due(call);
        return;
    }
    call->request->asked_ns = call_asked_ns(call);
    if (__builtin_expect(call->request->full, 0))
        decide_full(call, call->request);
    else
        decide_and_answer(call, call->request);
}
