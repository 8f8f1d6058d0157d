/* SPDX-License-Identifier: MIT */
#include "cli/ask.h"

#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "cli/cli.h"
#include "cli/term.h"
#include "config/config.h"
#include "config/timestamp.h"
#include "os/boot.h"

bool ask_add(struct ask *ask, const char *word)
{
    if (ask->count == ASK_WORDS_MAX)
        return false;
    ask->words[ask->count++] = word;
    return true;
}

/* ---- fields ---- */

int64_t ask_number(const struct resp_value *map, const char *name)
{
    const struct resp_value *value = weir_resp_get(map, name);
    return value && (value->type == RESP_INTEGER || value->type == RESP_BOOL) ? value->integer : 0;
}

bool ask_truth(const struct resp_value *map, const char *name)
{
    return ask_number(map, name) != 0;
}

static bool is_answer_text(const struct resp_value *value)
{
    return value->type == RESP_BULK || value->type == RESP_SIMPLE || value->type == RESP_VERBATIM;
}

struct slice ask_text(const struct resp_value *map, const char *name)
{
    const struct resp_value *value = weir_resp_get(map, name);
    return value && is_answer_text(value) ? value->text : (struct slice){"", 0};
}

bool ask_has(const struct resp_value *map, const char *name)
{
    const struct resp_value *value = weir_resp_get(map, name);
    return value && value->type != RESP_NULL;
}

void ask_put(FILE *file, struct slice text)
{
    term_put(file, text.bytes, text.len);
}

int ask_width(struct slice text)
{
    return term_columns(text.bytes, text.len);
}

/* ---- JSON ---- */

/* With a NUL behind it; JSON has no place for those inside. NULL: out of memory. */
static char *copy_answer_text(struct slice text)
{
    char *copy = malloc(text.len + 1);
    for (size_t i = 0; copy && i < text.len; i++)
        copy[i] = text.bytes[i] ? text.bytes[i] : '?';
    if (copy)
        copy[text.len] = '\0';
    return copy;
}

static void json_put_value(struct json *json, const char *name, const struct resp_value *value);

static void json_put_elements(struct json *json, const char *name, const struct resp_value *value)
{
    bool map = value->type == RESP_MAP;
    json_open(json, name, map ? '{' : '[', JSON_LINES);
    for (size_t i = 0; i + map < value->count; i += 1 + map) {
        char *key = map ? copy_answer_text(value->elements[i].text) : NULL;
        json_put_value(json, map ? key ? key : "" : NULL, &value->elements[i + map]);
        free(key);
    }
    json_close(json, map ? '}' : ']');
}

static void json_put_value(struct json *json, const char *name, const struct resp_value *value)
{
    char *text;
    switch (value->type) {
    case RESP_INTEGER:
        json_number(json, name, value->integer);
        return;
    case RESP_BOOL:
        json_bool(json, name, value->integer != 0);
        return;
    case RESP_DOUBLE:
        json_decimal(json, name, value->number);
        return;
    case RESP_NULL:
        json_bound(json, name, WEIR_FOREVER);
        return;
    case RESP_SIMPLE:
    case RESP_ERROR:
    case RESP_BULK:
    case RESP_VERBATIM:
        text = copy_answer_text(value->text);
        json_text(json, name, text ? text : "");
        free(text);
        return;
    case RESP_ARRAY:
    case RESP_SET:
    case RESP_PUSH:
    case RESP_MAP:
        if (json->depth + 2 < JSON_DEPTH_MAX)
            json_put_elements(json, name, value);
        return;
    }
}

/* A document is an object or a list; what is neither becomes an object of one field. */
void ask_print_json(const struct resp_value *value)
{
    struct json json = {.file = stdout};
    bool whole = value->type == RESP_MAP || value->type == RESP_ARRAY || value->type == RESP_SET;
    if (!whole)
        json_open(&json, NULL, '{', JSON_LINES);
    json_put_value(&json, whole ? NULL : "answer", value);
    if (!whole)
        json_close(&json, '}');
}

/* ---- all of it ---- */

int ask_print_nothing(const struct resp_value *value)
{
    (void)value;
    return EXIT_OK;
}

const char *ask_until(const char *time, char text[static ASK_UNTIL_MAX])
{
    char now[TIMESTAMP_MAX], end[TIMESTAMP_MAX], why[160];
    int64_t for_ns, wall_ns = weir_boot.wall();
    text[0] = '\0';
    if (!time || !weir_config_time(time, strlen(time), &for_ns, why, sizeof why))
        return text;
    weir_timestamp_write(wall_ns / WEIR_MS, now);
    weir_timestamp_write(sat_add(wall_ns, for_ns) / WEIR_MS, end);
    if (memcmp(now, end, 10) == 0)
        (void)snprintf(text, ASK_UNTIL_MAX, " until %.5s UTC", end + 11);
    else
        (void)snprintf(text, ASK_UNTIL_MAX, " until %.10s %.5s UTC", end, end + 11);
    return text;
}

struct slice ask_info(struct slice info, const char *name)
{
    size_t len = strlen(name);
    const char *at = info.bytes, *end = info.bytes + info.len;
    while (at < end) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        size_t size = line ? (size_t)(line - at) : (size_t)(end - at);
        size_t text = size > 0 && at[size - 1] == '\r' ? size - 1 : size;
        if (text > len && memcmp(at, name, len) == 0 && at[len] == ':')
            return (struct slice){at + len + 1, text - len - 1};
        at += size + 1;
    }
    return (struct slice){"", 0};
}

int ask_once(const char *command, const struct ask_options *options, const struct ask *ask,
             int (*print)(const struct resp_value *value))
{
    struct cli_client *client = client_start(command, options->server);
    if (!client)
        return EXIT_ERROR;
    const struct resp_value *value = client_tell(command, client, ask->words, ask->count);
    int status = EXIT_ERROR;
    if (value && options->json)
        ask_print_json(value);
    if (value)
        status = options->json ? EXIT_OK : print(value);
    client_close(client);
    return status;
}
