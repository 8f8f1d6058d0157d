/* SPDX-License-Identifier: MIT */
#include "service/http/encode.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/humanize.h"
#include "base/put.h"
#include "base/random.h"
#include "base/sat.h"
#include "http/json.h"
#include "service/http/response.h"

#define RATE_INTEGER_MAX INT64_C(999999999999999) /* of a structured field (RFC 9651) */
#define NAME_MAX_BYTES   (CONFIG_NAME_MAX + 1 + LABEL_MAX)
#define VERDICT_MAX      (512 + 6 * NAME_MAX_BYTES) /* every byte of a name may need \u0000 */
#define LIMIT_MAX        (384 + 6 * NAME_MAX_BYTES)

static const char *const reasons[] = {
    [ANSWER_OK] = "ok",          [ANSWER_LATER] = "later",   [ANSWER_NEVER] = "never",
    [ANSWER_SHADOW] = "shadow",  [ANSWER_FULL] = "full",     [ANSWER_DISABLED] = "disabled",
    [ANSWER_LOST] = "lost",      [ANSWER_SHARED] = "shared", [ANSWER_EXEMPT] = "exempt",
    [ANSWER_BLOCKED] = "blocked"};

/* ---- numbers ---------------------------------------------------------------------------------- */

static inline char *put_units(char *at, int64_t units)
{
    return units == INT64_MAX ? PUT(at, "null") : put_decimal(at, units);
}

static inline char *put_ms(char *at, int64_t time_ns)
{
    int64_t ms = ms_up(time_ns);
    return ms < 0 ? PUT(at, "null") : put_decimal(at, ms);
}

/* Names of limits are text of the configuration: bytes that JSON cannot have as they are become '?'. */
static inline char *put_name(char *at, const char *policy, const char *label)
{
    *at++ = '"';
    if (policy) {
        at = put_bytes(at, policy, strlen(policy));
        *at++ = '/';
    }
    for (; *label; label++) {
        if (*label == '"' || *label == '\\')
            *at++ = '\\';
        *at++ = (unsigned char)*label < 0x20 ? '?' : *label;
    }
    *at++ = '"';
    return at;
}

static inline char *put_rate(char *at, const struct limit_numbers *numbers)
{
    at = PUT(at, ",\"count\":");
    at = put_units(at, numbers->count);
    at = PUT(at, ",\"window_ms\":");
    at = put_ms(at, numbers->window_ns);
    at = PUT(at, ",\"burst\":");
    at = put_units(at, numbers->burst);
    at = PUT(at, ",\"used\":");
    return put_units(at, numbers->used);
}

void weir_http_encode_limits(struct buffer *out, const struct request *request, const struct answer *answer)
{
    buffer_put(out, "[", 1);
    for (size_t i = 0; i < answer->number_count; i++) {
        const struct limit_numbers *numbers = &answer->numbers[i];
        char *start = weir_buffer_room(out, LIMIT_MAX), *at = start;
        if (!start)
            return;
        at = i > 0 ? PUT(at, ",{\"name\":") : PUT(at, "{\"name\":");
        at = put_name(at, request->count > 1 ? request->pairs[numbers->pair].policy->name : NULL,
                      numbers->name);
        at = put_rate(at, numbers);
        at = PUT(at, ",\"remaining\":");
        at = put_units(at, numbers->remaining);
        at = PUT(at, ",\"reset_after_ms\":");
        at = put_ms(at, numbers->reset_after_ns);
        at = PUT(at, ",\"retry_after_ms\":");
        at = put_ms(at, numbers->retry_after_ns);
        *at++ = '}';
        buffer_wrote(out, (size_t)(at - start));
    }
    buffer_put(out, "]", 1);
}

/* ---- JSON ------------------------------------------------------------------------------------- */

static const char *label_of(const struct answer *answer)
{
    return answer->label ? answer->label : "";
}

/* Without the opening brace, which a problem has of its own. */
static char *put_verdict(char *at, const struct answer *answer)
{
    at = answer->allowed ? PUT(at, "\"allowed\":true,\"remaining\":")
                         : PUT(at, "\"allowed\":false,\"remaining\":");
    at = put_units(at, answer->remaining);
    at = PUT(at, ",\"retry_after_ms\":");
    at = put_ms(at, answer->retry_after_ns);
    at = PUT(at, ",\"reset_after_ms\":");
    at = put_ms(at, answer->reset_after_ns);
    at = PUT(at, ",\"limit\":");
    at = put_name(at, answer->policy, label_of(answer));
    at = PUT(at, ",\"reason\":\"");
    at = put_bytes(at, reasons[answer->reason], strlen(reasons[answer->reason]));
    *at++ = '"';
    return at;
}

static char *put_waited(char *at, const struct call *call, const struct request *request)
{
    at = PUT(at, ",\"waited_ms\":");
    return put_ms(at, call->worker->now_ns - request->asked_ns);
}

static char *put_reservation(char *at, const struct answer *answer)
{
    char text[LEDGER_TEXT_MAX];
    if (answer->reservation == 0)
        return PUT(at, ",\"id\":null,\"due_in_ms\":0");
    weir_ledger_text(answer->reservation, text);
    at = PUT(at, ",\"id\":\"");
    at = put_bytes(at, text, strlen(text));
    at = PUT(at, "\",\"due_in_ms\":");
    return put_decimal(at, min64(ms_up(answer->wait_ns), INT32_MAX));
}

static void encode_json(struct call *call, const struct request *request, const struct answer *answer,
                        const struct buffer *limits)
{
    struct buffer *out = call->reply.out;
    char *start = weir_buffer_room(out, VERDICT_MAX), *at = start;
    if (!start)
        return;
    at = put_verdict(at, answer);
    if (request->verb == ENGINE_ACQUIRE)
        at = put_waited(at, call, request);
    if (request->verb == ENGINE_RESERVE)
        at = put_reservation(at, answer);
    at = put_rate(at, &answer->decided);
    at = PUT(at, ",\"limits\":");
    buffer_wrote(out, (size_t)(at - start));
    if (limits)
        buffer_put(out, limits->bytes + limits->start, buffer_len(limits));
    else
        weir_http_encode_limits(out, request, answer);
    buffer_put(out, "}", 1);
}

/* ---- a sentence ------------------------------------------------------------------------------- */

#define SENTENCE_MAX (LABEL_MAX + CONFIG_NAME_MAX + 160)

/* The units that the pair has asked for which decided; 0: not known any more. */
static int64_t units_asked(const struct request *request, const struct answer *answer)
{
    return (size_t)max64(answer->pair, 0) < request->count ? request->pairs[max64(answer->pair, 0)].n : 0;
}

static void write_refusal(const struct request *request, const struct answer *answer,
                          char text[static SENTENCE_MAX])
{
    char asked[HUMANIZE_MAX], burst[HUMANIZE_MAX], time[HUMANIZE_MAX];
    int64_t n = units_asked(request, answer), most = answer->decided.burst;
    int len = snprintf(text, SENTENCE_MAX, "refused by %s%s%s", answer->policy ? answer->policy : "",
                       answer->policy ? "/" : "", label_of(answer));
    if (answer->retry_after_ns != WEIR_FOREVER)
        (void)snprintf(text + len, SENTENCE_MAX - (size_t)len, "; retry after %s",
                       weir_humanize_duration(answer->retry_after_ns, HUMANIZE_UP, time));
    else if (n > most)
        (void)snprintf(text + len, SENTENCE_MAX - (size_t)len,
                       ": %s exceeds the burst of %s; waiting will not help", weir_humanize_number(n, asked),
                       weir_humanize_number(most, burst));
    else
        (void)snprintf(text + len, SENTENCE_MAX - (size_t)len, "; waiting will not help");
}

static void write_sentence(const struct request *request, const struct answer *answer,
                           char text[static SENTENCE_MAX])
{
    char units[HUMANIZE_MAX];
    if (!answer->allowed)
        write_refusal(request, answer, text);
    else if (answer->remaining == INT64_MAX)
        (void)snprintf(text, SENTENCE_MAX, "allowed");
    else if (answer->reason == ANSWER_SHADOW)
        (void)snprintf(text, SENTENCE_MAX, "allowed in shadow mode; else refused by %s", label_of(answer));
    else
        (void)snprintf(text, SENTENCE_MAX, "allowed; %s left",
                       weir_humanize_number(answer->remaining, units));
}

/* ---- fields of the head ----------------------------------------------------------------------- */

static int64_t seconds_up(int64_t time_ns)
{
    return time_ns == WEIR_FOREVER ? RATE_INTEGER_MAX : div_up(max64(time_ns, 0), WEIR_SEC);
}

/* The policy that decided: its name, and that of the limit if it has several. Quotes would end the string. */
static const char *rate_name(const struct call *call, const struct answer *answer, char name[static 256])
{
    struct slice policy = call->args[1];
    if (answer->policy)
        policy = (struct slice){answer->policy, strlen(answer->policy)};
    char *end = put_bytes(name, policy.bytes, policy.len < CONFIG_NAME_MAX ? policy.len : CONFIG_NAME_MAX);
    if (answer->number_count > 1) {
        size_t len = strlen(label_of(answer));
        *end++ = ' ';
        end = put_bytes(end, label_of(answer), len < LABEL_MAX ? len : LABEL_MAX);
    }
    *end = '\0';
    for (char *at = name; *at; at++)
        if ((unsigned char)*at < 0x20 || (unsigned char)*at > 0x7e || *at == '"' || *at == '\\')
            *at = '?';
    return name;
}

/* Windows below a second have no place in the draft: the rate of a second stands for them. */
static void ietf_fields(struct response_fields *fields, const struct call *call, const struct answer *answer,
                        int64_t retry_s)
{
    const struct limit_numbers *decided = &answer->decided;
    char name[256];
    int64_t quota = decided->count, remaining = min64(answer->remaining, RATE_INTEGER_MAX);
    if (decided->window_ns > 0 && decided->window_ns < WEIR_SEC)
        quota = sat_mul(quota, WEIR_SEC / decided->window_ns);
    int64_t window_s = max64(seconds_up(decided->window_ns), 1);
    /* Who spreads what remains over `t` seconds never exceeds the rate; if nothing does, that is the time of
     * one unit. */
    int64_t spread = sat_mul(max64(remaining, 1), decided->window_ns / max64(decided->count, 1));
    int64_t t = answer->allowed ? max64(seconds_up(spread), 1) : retry_s;
    char *at = fields->text + fields->len;
    size_t name_len = strlen(rate_name(call, answer, name));
    at = PUT(at, "RateLimit-Policy: \"");
    at = put_bytes(at, name, name_len);
    at = PUT(at, "\";q=");
    at = put_decimal(at, min64(quota, RATE_INTEGER_MAX));
    at = PUT(at, ";w=");
    at = put_decimal(at, min64(window_s, RATE_INTEGER_MAX));
    at = PUT(at, "\r\nRateLimit: \"");
    at = put_bytes(at, name, name_len);
    at = PUT(at, "\";r=");
    at = put_decimal(at, remaining);
    if (answer->retry_after_ns != WEIR_FOREVER) { /* else no time makes a difference */
        at = PUT(at, ";t=");
        at = put_decimal(at, min64(t, RATE_INTEGER_MAX));
    }
    at = PUT(at, "\r\n");
    fields->len = (size_t)(at - fields->text);
}

/* As the request says, else as the policy does, else as weir.yaml says for all. */
static enum rate_headers rate_headers_of(const struct call *call, const struct answer *answer)
{
    struct slice name =
        answer->policy ? (struct slice){answer->policy, strlen(answer->policy)} : call->args[1];
    const struct policy *policy = call->http->headers_asked || !call->worker->snapshot->any_headers
                                      ? NULL
                                      : weir_snapshot_policy(call->worker->snapshot, name);
    int64_t own = policy ? policy->settings.headers : 0;
    return own > 0 ? (enum rate_headers)(own - 1) : call->http->headers;
}

static void rate_fields(struct response_fields *fields, const struct call *call, const struct answer *answer,
                        int64_t retry_s)
{
    static const char *const prefixes[] = {[RATE_HEADERS_IETF_06] = "RateLimit",
                                           [RATE_HEADERS_X] = "X-RateLimit",
                                           [RATE_HEADERS_X_EPOCH] = "X-RateLimit"};
    enum rate_headers kind = rate_headers_of(call, answer);
    if (kind == RATE_HEADERS_NONE || answer->reason == ANSWER_SHADOW /* nobody is to slow down */ ||
        answer->decided.count == INT64_MAX || answer->remaining == INT64_MAX)
        return;
    if (kind == RATE_HEADERS_IETF) {
        ietf_fields(fields, call, answer, retry_s);
        return;
    }
    int64_t reset_s = seconds_up(answer->reset_after_ns);
    if (kind == RATE_HEADERS_X_EPOCH)
        reset_s = sat_add(service_wall_ms(call->worker->service, call->worker->now_ns) / 1000, reset_s);
    weir_response_field(fields,
                        "%s-Limit: %" PRId64 "\r\n%s-Remaining: %" PRId64 "\r\n%s-Reset: %" PRId64 "\r\n",
                        prefixes[kind], answer->decided.count, prefixes[kind], answer->remaining,
                        prefixes[kind], min64(reset_s, RATE_INTEGER_MAX));
}

/* In whole seconds, at least one, so that a client that obeys it does not come too early. With jitter,
 * clients that were refused at the same moment do not all return at the same moment. */
static int64_t retry_seconds(const struct call *call, const struct answer *answer)
{
    int64_t wait_ns = answer->retry_after_ns;
    uint64_t seed =
        (uint64_t)call->worker->now_ns ^ call->session->id << 40 ^ (uint64_t)call->session->commands;
    if (call->http->jitter > 0 && wait_ns != WEIR_FOREVER)
        wait_ns = sat_add(wait_ns, wait_ns / 100 * random_below(&seed, call->http->jitter + 1));
    return max64(seconds_up(wait_ns), 1);
}

/* ---- the response ----------------------------------------------------------------------------- */

/* What is in front of the verdict in the body of a refusal. */
static void begin_problem(struct call *call, const struct request *request, const struct answer *answer,
                          int status)
{
    static const char head[] = "{\"type\":\"" PROBLEM_QUOTA "\",\"title\":\"Request cannot be satisfied as "
                               "assigned quota has been exceeded\",\"status\":",
                      violated[] = ",\"violated-policies\":[\"";
    struct buffer *out = call->reply.out;
    char text[SENTENCE_MAX], name[256], detail[32];
    char *end = put_decimal(detail, status);
    end = PUT(end, ",\"detail\":");
    buffer_put(out, head, sizeof head - 1);
    buffer_put(out, detail, (size_t)(end - detail));
    write_refusal(request, answer, text);
    weir_json_put_string(out, text, strlen(text));
    buffer_put(out, violated, sizeof violated - 1);
    (void)rate_name(call, answer, name);
    buffer_put(out, name, strlen(name));
    buffer_put(out, "\"],", 3);
}

void weir_http_encode_answer(struct call *call, const struct request *request, const struct answer *answer,
                             const struct buffer *limits)
{
    const struct http_exchange *http = call->http;
    struct buffer *out = call->reply.out;
    size_t body_at = buffer_len(out);
    if (http->kind == EXCHANGE_ELEMENT) {
        buffer_put(out, "{", 1);
        encode_json(call, request, answer, limits);
        return;
    }
    bool refused = !answer->allowed && request->verb != ENGINE_PEEK;
    int status = refused ? http->refusal_status : 200;
    bool problem = status >= 400 && !http->text;
    struct response_fields fields;
    fields.len = 0;
    int64_t retry_s = answer->allowed ? 0 : retry_seconds(call, answer);
    if (!answer->allowed && answer->retry_after_ns != WEIR_FOREVER)
        weir_response_field(&fields, "Retry-After: %" PRId64 "\r\n", retry_s);
    rate_fields(&fields, call, answer, retry_s);
    if (http->text) {
        char text[SENTENCE_MAX];
        write_sentence(request, answer, text);
        weir_buffer_print(out, "%s\n", text);
    } else if (http->kind != EXCHANGE_AUTH || problem) { /* nobody reads why a visitor may pass */
        if (problem)
            begin_problem(call, request, answer, status);
        else
            buffer_put(out, "{", 1);
        encode_json(call, request, answer, limits);
    }
    weir_response_finish(call->worker, http, out, body_at, status,
                         problem                                     ? TYPE_PROBLEM
                         : http->text || http->kind == EXCHANGE_AUTH ? TYPE_TEXT
                                                                     : TYPE_JSON,
                         &fields);
}
