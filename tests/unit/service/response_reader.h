/* SPDX-License-Identifier: MIT */
/*
 * Reads HTTP responses as the strictest client would: what RFC 9112 lets a server write and weir has no
 * reason to is a mistake here. Also RateLimit and RateLimit-Policy, as structured fields (RFC 9651).
 */
#ifndef WEIR_TESTS_RESPONSE_READER_H
#define WEIR_TESTS_RESPONSE_READER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/json.h"

#define RESPONSE_FIELDS 24
#define READER_FUNCTION __attribute__((noinline, unused)) static

struct response_field {
    char name[40];
    char value[520];
};

struct response {
    int status;
    size_t field_count;
    struct response_field fields[RESPONSE_FIELDS];
    const char *body; /* in the bytes that were read */
    size_t body_len;
    size_t used;
};

/* The value of a field, NULL: there is none. */
READER_FUNCTION const char *response_field(const struct response *response, const char *name)
{
    for (size_t i = 0; i < response->field_count; i++)
        if (strcmp(response->fields[i].name, name) == 0)
            return response->fields[i].value;
    return NULL;
}

READER_FUNCTION bool reader_copy(char *to, size_t room, const char *from, size_t len)
{
    if (len >= room)
        return false;
    memcpy(to, from, len);
    to[len] = '\0';
    return true;
}

/* Letters and '-' in a name, one space, printable ASCII in a value; a name twice is for challenges alone. */
READER_FUNCTION const char *read_response_field(struct response *response, const char *line, size_t len)
{
    const char *colon = memchr(line, ':', len);
    if (!colon || response->field_count == RESPONSE_FIELDS)
        return "a field without a colon, or too many of them";
    size_t name_len = (size_t)(colon - line);
    for (size_t i = 0; i < name_len; i++)
        if (!strchr("-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", line[i]) || !line[i])
            return "a byte in a name";
    for (size_t i = name_len + 1; i < len; i++)
        if (line[i] < 0x20 || line[i] > 0x7e)
            return "a byte in a value";
    if (name_len == 0 || len < name_len + 3 || colon[1] != ' ' || colon[2] == ' ' || line[len - 1] == ' ')
        return "white space around a value, or none";
    struct response_field *field = &response->fields[response->field_count];
    if (!reader_copy(field->name, sizeof field->name, line, name_len) ||
        !reader_copy(field->value, sizeof field->value, colon + 2, len - name_len - 2))
        return "a field that is too long";
    if (response_field(response, field->name) && strcmp(field->name, "WWW-Authenticate") != 0)
        return "a field that is there twice";
    response->field_count++;
    return NULL;
}

/* A status that may come: a title of its own belongs to it. */
READER_FUNCTION const char *read_status_line(struct response *response, const char *line, size_t len)
{
    if (len < 15 || memcmp(line, "HTTP/1.1 ", 9) != 0 || line[12] != ' ')
        return "the status line";
    response->status = (int)strtol(line + 9, NULL, 10);
    if (response->status < 200 || response->status > 599 || strncmp(line + 13, "Status", 6) == 0)
        return "a status without a title";
    return NULL;
}

/* The first response in `bytes`; NULL: it is right, else what is wrong. `to_head`: it has no body. */
READER_FUNCTION const char *read_response(struct response *response, const char *bytes, size_t len,
                                          bool to_head)
{
    const char *at = bytes, *end = bytes + len, *wrong = NULL;
    *response = (struct response){0};
    for (size_t line = 0; !wrong; line++) {
        const char *stop = memchr(at, '\r', (size_t)(end - at));
        if (!stop || stop + 1 == end || stop[1] != '\n')
            return "a line without an end";
        size_t line_len = (size_t)(stop - at);
        if (line_len > 0)
            wrong = line == 0 ? read_status_line(response, at, line_len)
                              : read_response_field(response, at, line_len);
        at = stop + 2;
        if (line_len == 0)
            break;
    }
    if (wrong)
        return wrong;
    const char *length = response_field(response, "Content-Length"), *rest;
    response->body = at;
    response->used = (size_t)(at - bytes);
    if (response->status == 204)
        return length || response_field(response, "Content-Type") ? "a 204 has no body" : NULL;
    if (!length || !response_field(response, "Content-Type") || !response_field(response, "Date") ||
        !response_field(response, "Cache-Control"))
        return "a field is missing";
    response->body_len = strtoull(length, (char **)(uintptr_t)&rest, 10);
    if (*rest || length[0] == '-' || (!to_head && response->body_len > (size_t)(end - at)))
        return "Content-Length";
    response->used += to_head ? 0 : response->body_len;
    return NULL;
}

/* ---- JSON ---- */

/* Is it one value that the strict reader takes? Of numbers of a response fractions are none. */
READER_FUNCTION bool is_strict_json(const char *text, size_t len)
{
    struct json_reader reader;
    char *copy = malloc(len + 1);
    if (!copy)
        abort();
    memcpy(copy, text, len);
    weir_json_begin(&reader, copy, len);
    bool good = weir_json_skip(&reader) && weir_json_end(&reader);
    if (!good)
        fprintf(stderr, "# %s in %.*s\n", reader.why, (int)len, text);
    free(copy);
    return good;
}

/* ---- structured fields ---- */

/* `"name";q=5;w=60`, one item of a list: a string, parameters that are integers, each once. */
struct rate_item {
    char name[256];
    size_t count;
    struct {
        char key[16];
        int64_t value;
    } params[8];
};

READER_FUNCTION const char *read_sf_string(const char *at, char *to, size_t room)
{
    if (*at++ != '"')
        return NULL;
    for (; *at != '"'; at++) {
        if (*at == '\\' && *++at != '"' && *at != '\\')
            return NULL;
        if (*at < 0x20 || *at > 0x7e || room-- == 1)
            return NULL;
        *to++ = *at;
    }
    *to = '\0';
    return at + 1;
}

READER_FUNCTION const char *read_sf_parameter(const char *at, char key[static 16], int64_t *value)
{
    size_t len = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_-.*");
    if (len == 0 || len > 15 || !strchr("abcdefghijklmnopqrstuvwxyz*", *at) || at[len] != '=')
        return NULL;
    (void)reader_copy(key, 16, at, len);
    at += len + 1;
    size_t sign = *at == '-', digits = strspn(at + sign, "0123456789");
    if (digits == 0 || digits > 15)
        return NULL;
    *value = strtoll(at, NULL, 10);
    return at + sign + digits;
}

READER_FUNCTION bool read_rate_item(const char *text, struct rate_item *item)
{
    *item = (struct rate_item){0};
    const char *at = text ? read_sf_string(text, item->name, sizeof item->name) : NULL;
    while (at && *at == ';' && item->count < 8) {
        at = read_sf_parameter(at + 1, item->params[item->count].key, &item->params[item->count].value);
        for (size_t i = 0; at && i < item->count; i++)
            if (strcmp(item->params[i].key, item->params[item->count].key) == 0)
                at = NULL;
        item->count++;
    }
    return at && *at == '\0';
}

/* INT64_MIN: it has none of that name. */
READER_FUNCTION int64_t rate_param(const struct rate_item *item, const char *key)
{
    for (size_t i = 0; i < item->count; i++)
        if (strcmp(item->params[i].key, key) == 0)
            return item->params[i].value;
    return INT64_MIN;
}

#endif
