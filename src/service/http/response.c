/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE

#include "service/http/response.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/assert.h"
#include "base/put.h"
#include "http/json.h"
#include "service/http/endpoints.h"
#include "service/metrics.h"

#define HEAD_MAX (512 + RESPONSE_FIELDS_MAX + EXCHANGE_CORS_MAX)
#define CHALLENGE                                                                                            \
    "WWW-Authenticate: Basic realm=\"weir\", charset=\"UTF-8\"\r\n"                                          \
    "WWW-Authenticate: Bearer realm=\"weir\"\r\n" /* RFC 9110, 11.6.1: every 401 has one */

void weir_response_field(struct response_fields *fields, const char *format, ...)
{
    va_list args;
    size_t room = sizeof fields->text - fields->len;
    va_start(args, format);
    int len = vsnprintf(fields->text + fields->len, room, format, args);
    va_end(args);
    if (len > 0 && (size_t)len < room) /* one that does not fit is left out, whole */
        fields->len += (size_t)len;
}

/* ---- heads ------------------------------------------------------------------------------------ */

static const char *status_title(int status)
{
    static const struct {
        int status;
        const char *title;
    } titles[] = {{200, "OK"},
                  {429, "Too Many Requests"},
                  {204, "No Content"},
                  {400, "Bad Request"},
                  {401, "Unauthorized"},
                  {403, "Forbidden"},
                  {404, "Not Found"},
                  {405, "Method Not Allowed"},
                  {408, "Request Timeout"},
                  {411, "Length Required"},
                  {413, "Content Too Large"},
                  {414, "URI Too Long"},
                  {415, "Unsupported Media Type"},
                  {417, "Expectation Failed"},
                  {421, "Misdirected Request"},
                  {431, "Request Header Fields Too Large"},
                  {500, "Internal Server Error"},
                  {501, "Not Implemented"},
                  {503, "Service Unavailable"},
                  {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (titles[i].status == status)
            return titles[i].title;
    return "Status";
}

/* RFC 9110, 5.6.7: made once a second. */
static void refresh_date(struct worker *worker)
{
    time_t now = (time_t)(service_wall_ms(worker->service, worker->now_ns) / 1000);
    struct tm parts;
    if (now == worker->date_s && worker->date_len > 0)
        return;
    worker->date_s = now;
    worker->date_len = gmtime_r(&now, &parts) ? strftime(worker->date, sizeof worker->date,
                                                         "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &parts)
                                              : 0;
}

static size_t write_head(struct worker *worker, const struct http_exchange *http, int status,
                         const char *type, size_t body_len, const struct response_fields *fields,
                         char head[static HEAD_MAX])
{
    const char *title = status_title(status);
    char *at = PUT(head, "HTTP/1.1 ");
    at = put_decimal(at, status);
    *at++ = ' ';
    at = put_bytes(at, title, strlen(title));
    if (status != 204) { /* which has none, and says nothing about it: RFC 9110, 8.6 */
        at = PUT(at, "\r\nContent-Type: ");
        at = put_bytes(at, type, strlen(type));
        at = PUT(at, "\r\nContent-Length: ");
        at = put_decimal(at, (int64_t)body_len);
    }
    at = PUT(at, "\r\nCache-Control: no-store\r\n");
    refresh_date(worker);
    at = put_bytes(at, worker->date, worker->date_len);
    if (fields)
        at = put_bytes(at, fields->text, fields->len);
    if (status == 401 && http->kind != EXCHANGE_AUTH)
        at = PUT(at, CHALLENGE);
    if (http->cors[0] != '\0')
        at = put_bytes(at, http->cors, strlen(http->cors));
    if (http->closes)
        at = PUT(at, "Connection: close\r\n");
    else if (http->is_1_0)
        at = PUT(at, "Connection: keep-alive\r\n");
    at = PUT(at, "\r\n");
    ASSERT(at <= head + HEAD_MAX);
    return (size_t)(at - head);
}

void weir_response_finish(struct worker *worker, const struct http_exchange *http, struct buffer *out,
                          size_t body_at, int status, const char *type, const struct response_fields *fields)
{
    char head[HEAD_MAX];
    if (out->failed)
        return;
    size_t body_len = buffer_len(out) - body_at;
    size_t head_len = write_head(worker, http, status, type, body_len, fields, head);
    if (http->no_body)
        out->end -= body_len;
    if (!weir_buffer_room(out, head_len))
        return;
    char *place = buffer_bytes(out) + body_at;
    memmove(place + head_len, place, http->no_body ? 0 : body_len);
    memcpy(place, head, head_len);
    buffer_wrote(out, head_len);
}

/* ---- problems --------------------------------------------------------------------------------- */

/* The members of a problem, without braces. */
static void put_problem(struct buffer *out, int status, struct slice code, struct slice detail)
{
    weir_buffer_print(out, "\"type\":\"%s\",\"title\":\"%s\",\"status\":%d,",
                      status == 503 ? PROBLEM_CAPACITY : "about:blank", status_title(status), status);
    if (code.len > 0)
        weir_buffer_print(out, "\"code\":\"%.*s\",", (int)code.len, code.bytes);
    buffer_put(out, "\"detail\":", 9);
    weir_json_put_string(out, detail.bytes, detail.len);
}

static void respond_with_problem(struct worker *worker, const struct http_exchange *http, struct buffer *out,
                                 int status, struct slice code, struct slice detail,
                                 const struct response_fields *fields)
{
    size_t body_at = buffer_len(out);
    if (http->kind == EXCHANGE_THROTTLE && status == 400) { /* as throttlecrab says it */
        buffer_put(out, "{\"error\":", 9);
        weir_json_put_string(out, detail.bytes, detail.len);
        buffer_put(out, "}", 1);
        weir_response_finish(worker, http, out, body_at, 500, TYPE_JSON, fields);
        return;
    }
    if (http->text) {
        buffer_put(out, detail.bytes, detail.len);
        buffer_put(out, "\n", 1);
    } else {
        buffer_put(out, "{", 1);
        put_problem(out, status, code, detail);
        buffer_put(out, "}", 1);
    }
    weir_response_finish(worker, http, out, body_at, status, http->text ? TYPE_TEXT : TYPE_PROBLEM, fields);
}

void weir_response_problem(struct worker *worker, const struct http_exchange *http, struct buffer *out,
                           int status, const char *detail, const struct response_fields *fields)
{
    respond_with_problem(worker, http, out, status, (struct slice){NULL, 0},
                         (struct slice){detail, strlen(detail)}, fields);
}

/* ---- errors of commands ----------------------------------------------------------------------- */

static int status_of_code(struct slice code, struct slice detail)
{
    static const struct {
        const char *code;
        int status;
    } codes[] = {{"NOPERM", 403},  {"NOAUTH", 401},    {"WRONGPASS", 401}, {"UNAVAILABLE", 503},
                 {"LOADING", 503}, {"ELSEWHERE", 421}, {"TRYAGAIN", 503}};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (slice_is(code, codes[i].code))
            return codes[i].status;
    static const char no_policy[] = "no policy ", no_room[] = "max number of clients",
                      many[] = "too many failed logins";
    if (detail.len > sizeof no_policy && memcmp(detail.bytes, no_policy, sizeof no_policy - 1) == 0)
        return 404;
    if (detail.len > sizeof no_room && memcmp(detail.bytes, no_room, sizeof no_room - 1) == 0)
        return 503;
    return detail.len > sizeof many && memcmp(detail.bytes, many, sizeof many - 1) == 0 ? 429 : 400;
}

/* "-ERR no policy 'x'\r\n" in its parts. */
static void split_error(const char *bytes, size_t len, struct slice *code, struct slice *detail)
{
    const char *line = bytes + 1, *end = bytes + len - 2, *space = memchr(line, ' ', (size_t)(end - line));
    *code = (struct slice){line, (size_t)((space ? space : end) - line)};
    *detail = space ? (struct slice){space + 1, (size_t)(end - space - 1)} : *code;
}

/* What a proxy is told if nothing was decided. */
static int status_of_unavailable(const struct http_exchange *http)
{
    return http->unavailable == UNAVAILABLE_ALLOW    ? 200
           : http->unavailable == UNAVAILABLE_REFUSE ? http->refusal_status
                                                     : 503;
}

static const char no_proxy_login[] = "the proxy has not logged in: it sends Weir-Authorization with Basic or "
                                     "Bearer credentials of a user with take";

/* "... try again in 4 s ...": of logins that are blocked for a while; else a second. */
static long seconds_of_detail(const char *bytes, size_t len)
{
    static const char words[] = "try again in ";
    const char *found = memmem(bytes, len, words, sizeof words - 1);
    long seconds = found ? strtol(found + sizeof words - 1, NULL, 10) : 1; /* ends at a space */
    return seconds > 0 ? seconds : 1;
}

static void respond_with_error(struct worker *worker, const struct http_exchange *http, struct buffer *out,
                               size_t before)
{
    struct slice code, detail;
    struct response_fields fields;
    char copy[ENGINE_ERROR_MAX + 64]; /* ends with CRLF */
    size_t len = buffer_len(out) - before;
    len = len < sizeof copy ? len : sizeof copy;
    memcpy(copy, buffer_bytes(out) + before, len);
    out->end = out->start + before;
    split_error(copy, len, &code, &detail);
    int status = status_of_code(code, detail);
    if (status == 403 && !http->logged_in)
        status = 401;
    if (http->kind == EXCHANGE_ELEMENT) {
        buffer_put(out, "{\"error\":{", 10);
        put_problem(out, status, code, detail);
        buffer_put(out, "}}", 2);
        return;
    }
    fields.len = 0;
    if (status == 503 || status == 429)
        weir_response_field(&fields, "Retry-After: %ld\r\n", seconds_of_detail(copy, len));
    if (http->kind == EXCHANGE_AUTH && status == 401)
        detail = (struct slice){no_proxy_login, sizeof no_proxy_login - 1};
    if (http->kind == EXCHANGE_AUTH && status == 503)
        status = status_of_unavailable(http);
    else if (http->kind == EXCHANGE_AUTH)
        status = 500; /* the proxy's mistake, or that of weir.yaml: nothing that its visitor could mend */
    respond_with_problem(worker, http, out, status, code, detail, &fields);
}

/* ---- replies as JSON, or in lines ------------------------------------------------------------- */

/* Replies are our own: each is whole, and what it announces is there. */
struct reply_reader {
    const char *at, *end;
    struct buffer *out;
};

static struct slice next_line(struct reply_reader *reader)
{
    const char *end = memchr(reader->at, '\r', (size_t)(reader->end - reader->at));
    ASSERT_ALWAYS(end && end + 2 <= reader->end);
    struct slice line = {reader->at, (size_t)(end - reader->at)};
    reader->at = end + 2;
    return line;
}

static size_t number_of(struct slice line)
{
    return (size_t)strtoull(line.bytes + 1, NULL, 10); /* ends at the CR */
}

/* The text of a value that is one; of a verbatim text without "txt:". */
static bool next_text(struct reply_reader *reader, struct slice line, struct slice *text)
{
    char type = line.bytes[0];
    if ((type != '$' && type != '=') || line.bytes[1] == '-')
        return false;
    size_t len = number_of(line), skip = type == '=' ? 4 : 0;
    ASSERT_ALWAYS((size_t)(reader->end - reader->at) >= len + 2 && len >= skip);
    *text = (struct slice){reader->at + skip, len - skip};
    reader->at += len + 2;
    return true;
}

static void put_scalar_json(struct reply_reader *reader, struct slice line)
{
    struct slice text;
    if (next_text(reader, line, &text))
        weir_json_put_string(reader->out, text.bytes, text.len);
    else if (line.bytes[0] == ':' || (line.bytes[0] == ',' && line.bytes[1] != 'i' && line.bytes[1] != 'n'))
        buffer_put(reader->out, line.bytes + 1, line.len - 1);
    else if (line.bytes[0] == '#')
        weir_buffer_print(reader->out, "%s", line.bytes[1] == 't' ? "true" : "false");
    else if (line.bytes[0] == '+')
        weir_json_put_string(reader->out, line.bytes + 1, line.len - 1);
    else
        buffer_put(reader->out, "null", 4);
}

static bool is_list(struct slice line)
{
    return strchr("*~>%", line.bytes[0]) && line.bytes[1] != '-';
}

/* As deep as the commands' replies are, which are written in this program. */
static void put_json(struct reply_reader *reader)
{
    struct slice line = next_line(reader);
    if (!is_list(line)) {
        put_scalar_json(reader, line);
        return;
    }
    bool map = line.bytes[0] == '%';
    size_t count = number_of(line);
    buffer_put(reader->out, map ? "{" : "[", 1);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buffer_put(reader->out, ",", 1);
        if (map) {
            put_json(reader);
            buffer_put(reader->out, ":", 1);
        }
        put_json(reader);
    }
    buffer_put(reader->out, map ? "}" : "]", 1);
}

static void put_scalar_text(struct reply_reader *reader, struct slice line)
{
    struct slice text;
    if (next_text(reader, line, &text))
        buffer_put(reader->out, text.bytes, text.len);
    else if (line.bytes[0] == '#')
        weir_buffer_print(reader->out, "%s", line.bytes[1] == 't' ? "yes" : "no");
    else if (line.bytes[0] == '_' || line.bytes[1] == '-')
        buffer_put(reader->out, "-", 1);
    else
        buffer_put(reader->out, line.bytes + 1, line.len - 1);
}

static void put_lines(struct reply_reader *reader, int depth)
{
    struct slice line = next_line(reader);
    if (!is_list(line)) {
        put_scalar_text(reader, line);
        buffer_put(reader->out, "\n", 1);
        return;
    }
    bool map = line.bytes[0] == '%';
    size_t count = number_of(line);
    if (depth > 0)
        buffer_put(reader->out, "\n", 1);
    for (size_t i = 0; i < count; i++) {
        weir_buffer_print(reader->out, "%*s", 2 * depth, "");
        if (map) {
            put_scalar_text(reader, next_line(reader));
            buffer_put(reader->out, ": ", 2);
        } else {
            buffer_put(reader->out, "- ", 2);
        }
        put_lines(reader, depth + 1);
    }
}

/* "# Server\r\nname:value\r\n..." as an object of objects. */
static void put_info(struct reply_reader *reader)
{
    struct slice text;
    bool section = false, member = false;
    if (!next_text(reader, next_line(reader), &text))
        return;
    const char *at = text.bytes, *end = text.bytes + text.len;
    buffer_put(reader->out, "{", 1);
    while (at < end) {
        const char *stop = memchr(at, '\r', (size_t)(end - at));
        stop = stop ? stop : end;
        const char *colon = memchr(at, ':', (size_t)(stop - at));
        if (*at == '#' && stop - at > 2) {
            weir_buffer_print(reader->out, section ? "}," : "");
            weir_json_put_string(reader->out, at + 2, (size_t)(stop - at - 2));
            buffer_put(reader->out, ":{", 2);
            section = true;
            member = false;
        } else if (colon && section) {
            weir_buffer_print(reader->out, member ? "," : "");
            weir_json_put_string(reader->out, at, (size_t)(colon - at));
            buffer_put(reader->out, ":", 1);
            weir_json_put_string(reader->out, colon + 1, (size_t)(stop - colon - 1));
            member = true;
        }
        at = stop + 2 < end ? stop + 2 : end;
    }
    buffer_put(reader->out, section ? "}}" : "}", section ? 2 : 1);
}

/* EXPLAIN ... JSON is JSON already, and metrics are what Prometheus reads. */
static void put_ready_text(struct reply_reader *reader)
{
    struct slice text;
    if (next_text(reader, next_line(reader), &text))
        buffer_put(reader->out, text.bytes, text.len);
}

/* As throttlecrab's HTTP transport: five numbers with their names. */
static void put_throttle(struct reply_reader *reader)
{
    static const char *const names[] = {"allowed", "limit", "remaining", "reset_after", "retry_after"};
    (void)next_line(reader);
    for (size_t i = 0; i < 5; i++) {
        struct slice number = next_line(reader);
        weir_buffer_print(reader->out, "%s\"%s\":", i > 0 ? "," : "{", names[i]);
        if (i == 0)
            weir_buffer_print(reader->out, "%s", number.bytes[1] == '1' ? "true" : "false");
        else
            buffer_put(reader->out, number.bytes + 1, number.len - 1);
    }
    buffer_put(reader->out, "}", 1);
}

static void put_reply(struct reply_reader *reader, const struct http_exchange *http)
{
    unsigned flags = http->endpoint ? http->endpoint->flags : 0;
    if (http->kind == EXCHANGE_THROTTLE)
        put_throttle(reader);
    else if (http->kind >= EXCHANGE_METRICS)
        put_ready_text(reader);
    else if (http->text && *reader->at == '+')
        buffer_put(reader->out, "ok\n", 3);
    else if (http->text)
        put_lines(reader, 0);
    else if (*reader->at == '+')
        buffer_put(reader->out, "{\"ok\":true}", 11);
    else if (flags & ENDPOINT_INFO)
        put_info(reader);
    else if (flags & ENDPOINT_TEXT)
        put_ready_text(reader);
    else
        put_json(reader);
}

static const char *type_of_reply(const struct http_exchange *http)
{
    return http->kind == EXCHANGE_METRICS                  ? METRICS_TEXT_TYPE
           : http->kind == EXCHANGE_OPENMETRICS            ? METRICS_OPEN_TYPE
           : http->text && http->kind != EXCHANGE_THROTTLE ? TYPE_TEXT
                                                           : TYPE_JSON;
}

bool weir_response_of_reply(struct worker *worker, const struct http_exchange *http, struct buffer *out,
                            size_t before)
{
    if (out->failed)
        return true;
    size_t len = buffer_len(out) - before;
    ASSERT(len > 0);
    if (buffer_bytes(out)[before] == '-') {
        respond_with_error(worker, http, out, before);
        return false;
    }
    struct buffer reply = {.bytes = malloc(len), .end = len, .size = len};
    if (!reply.bytes) {
        out->failed = true;
        return true;
    }
    memcpy(reply.bytes, buffer_bytes(out) + before, len);
    out->end = out->start + before;
    struct reply_reader reader = {reply.bytes, reply.bytes + len, out};
    put_reply(&reader, http);
    free(reply.bytes);
    if (http->kind != EXCHANGE_ELEMENT)
        weir_response_finish(worker, http, out, before, 200, type_of_reply(http), NULL);
    return true;
}
