/* SPDX-License-Identifier: MIT */
/*
 * The kit of a service, for programs that look at one HTTP response after the other: `ask_http` a request,
 * look at `answer` and, by the names in it, at the JSON of its body. Each response has to be well-formed.
 */
#ifndef WEIR_TESTS_RESPONSE_KIT_H
#define WEIR_TESTS_RESPONSE_KIT_H

#include "unit/service/command_kit.h"
#include "unit/service/response_reader.h"

static struct response answer;  /* the last one */
static const char *credentials; /* of every request: the value of Authorization, or NULL */

/* A connection of its own, without credentials. */
CHECK_FUNCTION void http_connect(void)
{
    kit_connect("127.0.0.1:50001");
    credentials = NULL;
}

CHECK_FUNCTION const char *basic_credentials(const char *user, const char *password)
{
    static char value[256];
    char plain[128];
    struct buffer out = {.most = 512};
    int len = snprintf(plain, sizeof plain, "%s:%s", user, password);
    weir_base64_put(&out, plain, (size_t)len);
    (void)snprintf(value, sizeof value, "Basic %.*s", (int)buffer_len(&out), buffer_bytes(&out));
    weir_buffer_free(&out);
    return value;
}

/* Is the last answer one whole response, and JSON if it says so? */
CHECK_FUNCTION int look_at_response(const char *bytes, bool to_head)
{
    const char *wrong = read_response(&answer, bytes, buffer_len(&kit.out), to_head);
    if (!CHECK_STR(wrong, NULL))
        printf("# in %s\n", bytes);
    else
        CHECK_EQ(answer.used, buffer_len(&kit.out)); /* one request, one response */
    const char *type = response_field(&answer, "Content-Type");
    if (type && strstr(type, "json") && !to_head)
        CHECK(is_strict_json(answer.body, answer.body_len));
    return answer.status;
}

/* "GET /v1/..." and fields, each with its CRLF; a body if there is one. Returns the status; 0: it waits. */
CHECK_FUNCTION int ask_http(const char *line, const char *fields, const char *body)
{
    static char text[65536];
    char length[96] = "", login[300] = "";
    if (body)
        (void)snprintf(length, sizeof length, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                       strlen(body));
    if (credentials)
        (void)snprintf(login, sizeof login, "Authorization: %s\r\n", credentials);
    int len = snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: localhost\r\n%s%s%s\r\n%s", line, login,
                       fields, length, body ? body : "");
    if (!CHECK(len > 0 && (size_t)len < sizeof text))
        return 0;
    const char *bytes = kit_ask_http(&kit, text, (size_t)len);
    return kit.state == RUN_PENDING ? 0 : look_at_response(bytes, begins(line, "HEAD "));
}

CHECK_FUNCTION int get(const char *target)
{
    char line[4096];
    (void)snprintf(line, sizeof line, "GET %s", target);
    return ask_http(line, "", NULL);
}

CHECK_FUNCTION int post(const char *target, const char *body)
{
    char line[4096];
    (void)snprintf(line, sizeof line, "POST %s", target);
    return ask_http(line, "", body);
}

/* Goes to the value of a name, or to an element by its number. */
CHECK_FUNCTION bool step_into(struct json_reader *reader, const char *step, size_t len)
{
    struct slice name;
    size_t at = 0, wanted = (size_t)strtoull(step, NULL, 10);
    if (weir_json_next(reader) == JSON_ARRAY) {
        (void)weir_json_enter(reader, '[');
        while (weir_json_element(reader)) {
            if (at++ == wanted)
                return true;
            (void)weir_json_skip(reader);
        }
        return false;
    }
    if (!weir_json_enter(reader, '{'))
        return false;
    while (weir_json_member(reader, &name)) {
        if (name.len == len && memcmp(name.bytes, step, len) == 0)
            return true;
        (void)weir_json_skip(reader);
    }
    return false;
}

/* "limits.0.name": what stands there, a text without its quotes, anything else as it is written; "(none)". */
CHECK_FUNCTION const char *json_at(const char *path)
{
    static char found[8][4096], copy[1 << 20];
    static unsigned turn;
    struct json_reader reader;
    struct slice text;
    char *to = found[turn++ % 8];
    size_t len = answer.body_len < sizeof copy ? answer.body_len : sizeof copy;
    memcpy(copy, answer.body, len);
    weir_json_begin(&reader, copy, len);
    (void)snprintf(to, sizeof found[0], "(none)");
    while (*path) {
        size_t step = strcspn(path, ".");
        if (!step_into(&reader, path, step))
            return to;
        path += step + (path[step] == '.');
    }
    if (weir_json_next(&reader) == JSON_STRING) {
        if (weir_json_string(&reader, &text))
            (void)snprintf(to, sizeof found[0], "%.*s", (int)text.len, text.bytes);
        return to;
    }
    const char *start = reader.at;
    if (weir_json_skip(&reader))
        (void)snprintf(to, sizeof found[0], "%.*s", (int)(reader.at - start), start);
    return to;
}

#endif
