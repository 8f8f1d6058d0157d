/* SPDX-License-Identifier: MIT */
/*
 * HTTP responses: the head in front of a body that is there already; problems (RFC 9457); and the replies of
 * commands, which are of the Redis protocol, as JSON or in lines for people.
 */
#ifndef WEIR_SERVICE_HTTP_RESPONSE_H
#define WEIR_SERVICE_HTTP_RESPONSE_H

#include "base/buffer.h"
#include "service/http/exchange.h"
#include "service/service.h"

#define RESPONSE_FIELDS_MAX 768

/* Fields of a head that go beyond what every response has. */
struct response_fields {
    size_t len;
    char text[RESPONSE_FIELDS_MAX]; /* each ends with CRLF */
};
__attribute__((format(printf, 2, 3))) void weir_response_field(struct response_fields *fields,
                                                               const char *format, ...);

#define TYPE_JSON    "application/json"
#define TYPE_PROBLEM "application/problem+json"
#define TYPE_TEXT    "text/plain; charset=utf-8"

#define PROBLEM_QUOTA    "https://iana.org/assignments/http-problem-types#quota-exceeded"
#define PROBLEM_CAPACITY "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"

/* What is in `out` behind `body_at` bytes becomes the body of a response. `fields` may be NULL. */
void weir_response_finish(struct worker *worker, const struct http_exchange *http, struct buffer *out,
                          size_t body_at, int status, const char *type, const struct response_fields *fields);
/* A problem without more to say than `detail`; `fields` may be NULL. */
void weir_response_problem(struct worker *worker, const struct http_exchange *http, struct buffer *out,
                           int status, const char *detail, const struct response_fields *fields);

/* The reply of a command, which is in `out` behind `before` bytes, becomes what the exchange wants. false: it
 * was an error. */
bool weir_response_of_reply(struct worker *worker, const struct http_exchange *http, struct buffer *out,
                            size_t before);

#endif
