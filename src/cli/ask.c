/* SPDX-License-Identifier: MIT */
#include "cli/ask.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/sat.h"
#include "base/text.h"
#include "cli/args.h"
#include "cli/term.h"
#include "config/config.h"
#include "config/timestamp.h"
#include "os/boot.h"

struct ask_options ask_options;

/* ---- questions ---- */

void ask_add_slice(struct ask *ask, struct slice word)
{
    if (ask->count < ASK_WORDS_MAX)
        ask->words[ask->count] = word;
    ask->count++;
}

void ask_add(struct ask *ask, const char *word)
{
    ask_add_slice(ask, (struct slice){word, strlen(word)});
}

void ask_add_number(struct ask *ask, int64_t number)
{
    if (ask->number_count == ASK_NUMBERS_MAX) {
        ask->count = ASK_WORDS_MAX + 1;
        return;
    }
    char *text = ask->numbers[ask->number_count++];
    (void)snprintf(text, sizeof ask->numbers[0], "%" PRId64, number);
    ask_add(ask, text);
}

void ask_add_option(struct ask *ask, const char *name, const char *word)
{
    if (!word)
        return;
    ask_add(ask, name);
    ask_add(ask, word);
}

static void ask_add_list(struct ask *ask, const char *word, va_list list)
{
    ask->count = ask->number_count = 0;
    for (; word; word = va_arg(list, const char *))
        ask_add(ask, word);
}

void ask_begin(struct ask *ask, const char *word, ...)
{
    va_list list;
    va_start(list, word);
    ask_add_list(ask, word, list);
    va_end(list);
}

/* ---- asking ---- */

struct cli_client *ask_open(const char *command, const char *server, bool patient)
{
    struct weir_error err;
    struct cli_client *client = client_open(server, &err);
    if (!client)
        (void)args_fail(command, "%s", err.text);
    else if (patient)
        client_patience(client, -1);
    return client;
}

const struct resp_value *ask_tell(const char *command, struct cli_client *client, const struct ask *ask)
{
    struct weir_error err;
    ASSERT(ask->count > 0 && ask->number_count <= ASK_NUMBERS_MAX);
    if (ask->count > ASK_WORDS_MAX)
        return args_fail(command, "too many words"), NULL;
    const struct resp_value *value = client_ask(client, ask->words, ask->count, &err);
    if (!value)
        return args_fail(command, "%s", err.text), NULL;
    if (value->type != RESP_ERROR)
        return value;
    size_t code = value->text.len > 4 && memcmp(value->text.bytes, "ERR ", 4) == 0 ? 4 : 0;
    fprintf(stderr, "weir %s: ", command);
    ask_put_hint(stderr, value->text.bytes + code, value->text.len - code);
    fputc('\n', stderr);
    return NULL;
}

const struct resp_value *ask_words(const char *command, struct cli_client *client, const char *word, ...)
{
    struct ask ask;
    va_list list;
    va_start(list, word);
    ask_add_list(&ask, word, list);
    va_end(list);
    return ask_tell(command, client, &ask);
}

const struct resp_value *ask_quietly(struct cli_client *client, const char *word, ...)
{
    struct ask ask;
    struct weir_error err;
    va_list list;
    va_start(list, word);
    ask_add_list(&ask, word, list);
    va_end(list);
    return client ? client_ask(client, ask.words, ask.count, &err) : NULL;
}

int ask_print_nothing(const struct resp_value *value)
{
    (void)value;
    return EXIT_OK;
}

int ask_once(const char *command, const struct ask *ask, int (*print)(const struct resp_value *value))
{
    struct cli_client *client = ask_open(command, ask_options.server, false);
    const struct resp_value *value = client ? ask_tell(command, client, ask) : NULL;
    int status = value ? EXIT_OK : EXIT_ERROR;
    if (value && ask_options.json)
        ask_print_json(value);
    else if (value)
        status = print(value);
    client_close(client);
    return status;
}

/* ---- fields ---- */

static const struct resp_value *ask_field(const struct resp_value *map, const char *name)
{
    return map ? weir_resp_get(map, name) : NULL;
}

int64_t ask_number_or(const struct resp_value *map, const char *name, int64_t without)
{
    const struct resp_value *value = ask_field(map, name);
    return value && (value->type == RESP_INTEGER || value->type == RESP_BOOL) ? value->integer : without;
}

int64_t ask_number(const struct resp_value *map, const char *name)
{
    return ask_number_or(map, name, 0);
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
    const struct resp_value *value = ask_field(map, name);
    return value && is_answer_text(value) ? value->text : (struct slice){"", 0};
}

bool ask_has(const struct resp_value *map, const char *name)
{
    const struct resp_value *value = ask_field(map, name);
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

void ask_put_words(char **argv, int from, int to)
{
    for (int i = from; i < to; i++) {
        if (i > from)
            fputc(' ', stdout);
        term_put(stdout, argv[i], strlen(argv[i]));
    }
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

/* ---- hints ---- */

#define LINE_MAX_BYTES 4096

/* What is said in other words altogether; the rest only changes its letters. */
static const struct {
    const char *said, *typed;
} phrases[] = {
    {"WEIR.POLICY MODE *", "weir policy mode --all"},
    {"WEIR.POLICY SET name limits", "weir policy set NAME LIMITS"},
    {"WEIR.OVERRIDE LIST policy", "weir override list POLICY"},
    {"WEIR.RESET policy key", "weir reset POLICY KEY"},
    {"instead of *", "instead of --all"},
    {"AUTH user password, or redis://", "-s redis://"},
};

static bool is_capital(char letter)
{
    return letter >= 'A' && letter <= 'Z';
}

static size_t capitals(const char *at, const char *end)
{
    size_t len = 0;
    while (at + len < end && is_capital(at[len]))
        len++;
    return len;
}

static void put_lower(struct text *line, const char *word, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char letter = weir_text_lower(word[i]);
        weir_text_put(line, &letter, 1);
    }
}

static const char *put_phrase(struct text *line, const char *at, const char *end)
{
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++) {
        size_t len = strlen(phrases[i].said);
        if ((size_t)(end - at) >= len && memcmp(at, phrases[i].said, len) == 0) {
            weir_text_put(line, phrases[i].typed, strlen(phrases[i].typed));
            return at + len;
        }
    }
    return at;
}

/* WEIR.POLICY LIST: the command, and the subcommand behind it. */
static const char *put_command(struct text *line, const char *at, const char *end)
{
    size_t len = end - at > 5 && memcmp(at, "WEIR.", 5) == 0 ? capitals(at + 5, end) : 0;
    if (len == 0)
        return at;
    bool has_more =
        (len == 6 && memcmp(at + 5, "POLICY", 6) == 0) || (len == 8 && memcmp(at + 5, "OVERRIDE", 8) == 0);
    weir_text_put(line, "weir ", 5);
    put_lower(line, at + 5, len);
    at += 5 + len;
    size_t more = has_more && at < end && *at == ' ' ? capitals(at + 1, end) : 0;
    put_lower(line, at, more > 0 ? 1 + more : 0);
    return at + (more > 0 ? 1 + more : 0);
}

void ask_put_hint(FILE *file, const char *text, size_t len)
{
    char bytes[LINE_MAX_BYTES];
    struct text line;
    const char *at = text, *end = text + len;
    bool quoted = false;
    weir_text_init(&line, bytes, sizeof bytes);
    while (at < end) {
        const char *before = at;
        if (!quoted)
            at = put_phrase(&line, at, end);
        if (!quoted && at == before)
            at = put_command(&line, at, end);
        if (at == before) {
            quoted = quoted != (*at == '\'');
            weir_text_put(&line, at++, 1);
        }
    }
    if (line.len < sizeof bytes)
        term_put(file, bytes, line.len);
    else
        term_put(file, text, len);
}

void ask_put_hints(FILE *file, const char *text, size_t len)
{
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t line = end ? (size_t)(end - text) : len;
        ask_put_hint(file, text, line);
        fputc('\n', file);
        line += end != NULL;
        text += line;
        len -= line;
    }
}

/* ---- the rest ---- */

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

struct slice ask_info(const struct resp_value *info, const char *name)
{
    size_t len = strlen(name);
    struct slice text = info ? info->text : (struct slice){"", 0};
    const char *at = text.bytes, *end = at + text.len;
    while (at < end) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        size_t size = line ? (size_t)(line - at) : (size_t)(end - at);
        size_t used = size > 0 && at[size - 1] == '\r' ? size - 1 : size;
        if (used > len && memcmp(at, name, len) == 0 && at[len] == ':')
            return (struct slice){at + len + 1, used - len - 1};
        at += size + 1;
    }
    return (struct slice){"", 0};
}
