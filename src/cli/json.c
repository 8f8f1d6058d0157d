/* SPDX-License-Identifier: MIT */
#include "cli/json.h"

#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "weir.h"

static void json_put_string(FILE *file, const char *text)
{
    size_t len = strlen(text), bytes;
    fputc('"', file);
    for (; len > 0; text += bytes, len -= bytes) {
        uint32_t code;
        bytes = weir_utf8_read(text, len, &code);
        if (bytes == 0) {
            fputs("\\ufffd", file); /* JSON knows no other bytes than UTF-8 */
            bytes = 1;
        } else if (code == '"' || code == '\\') {
            fprintf(file, "\\%c", *text);
        } else if (code < 0x20) {
            fprintf(file, "\\u%04x", (unsigned)code);
        } else {
            fwrite(text, 1, bytes, file);
        }
    }
    fputc('"', file);
}

/* The comma and the line before an element, and its name. */
static void json_begin_element(struct json *json, const char *name)
{
    ASSERT(json->file && !name == (json->depth == 0 || json->bracket[json->depth] == ']'));
    if (json->filled[json->depth])
        fputs(json->flat[json->depth] ? ", " : ",", json->file);
    if (!json->flat[json->depth] && json->depth > 0)
        fprintf(json->file, "\n%*s", 2 * json->depth, "");
    json->filled[json->depth] = true;
    if (name) {
        json_put_string(json->file, name);
        fputs(": ", json->file);
    }
}

void json_open(struct json *json, const char *name, char bracket, enum json_layout layout)
{
    json_begin_element(json, name);
    fputc(bracket, json->file);
    json->depth++;
    ASSERT_ALWAYS(json->depth < JSON_DEPTH_MAX);
    json->bracket[json->depth] = bracket == '{' ? '}' : ']';
    json->filled[json->depth] = false;
    json->flat[json->depth] = layout == JSON_FLAT;
}

void json_close(struct json *json, char bracket)
{
    bool lines = json->filled[json->depth] && !json->flat[json->depth];
    ASSERT(json->depth > 0 && bracket == json->bracket[json->depth]);
    json->depth--;
    if (lines)
        fprintf(json->file, "\n%*s", 2 * json->depth, "");
    fputc(bracket, json->file);
    if (json->depth == 0)
        fputc('\n', json->file);
}

void json_text(struct json *json, const char *name, const char *text)
{
    json_begin_element(json, name);
    json_put_string(json->file, text);
}

void json_number(struct json *json, const char *name, int64_t number)
{
    json_begin_element(json, name);
    fprintf(json->file, "%lld", (long long)number);
}

void json_decimal(struct json *json, const char *name, double number)
{
    json_begin_element(json, name);
    fprintf(json->file, "%.10g", number);
}

void json_bool(struct json *json, const char *name, bool value)
{
    json_begin_element(json, name);
    fputs(value ? "true" : "false", json->file);
}

static void json_put_break(FILE *file, int depth)
{
    fprintf(file, "\n%*s", 2 * depth, "");
}

void json_reprint(FILE *file, const char *text, size_t len)
{
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < len; i++) {
        bool opens = !quoted && (text[i] == '{' || text[i] == '['),
             empty = i + 1 < len && text[i + 1] == text[i] + 2;
        bool closes = !quoted && (text[i] == '}' || text[i] == ']');
        if (closes && depth > 0 && !(i > 0 && text[i - 1] + 2 == text[i]))
            json_put_break(file, --depth);
        fputc((unsigned char)text[i] < ' ' ? ' ' : text[i], file);
        if (opens && !empty)
            json_put_break(file, ++depth);
        else if (!quoted && text[i] == ',')
            json_put_break(file, depth);
        else if (!quoted && text[i] == ':')
            fputc(' ', file);
        else if (quoted && text[i] == '\\' && i + 1 < len)
            fputc(text[++i], file);
        else if (text[i] == '"')
            quoted = !quoted;
    }
    fputc('\n', file);
}

void json_bound(struct json *json, const char *name, int64_t number)
{
    if (number != WEIR_FOREVER) {
        json_number(json, name, number);
        return;
    }
    json_begin_element(json, name);
    fputs("null", json->file);
}
