/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/args.h"
#include "cli/ask.h"
#include "cli/hints.h"
#include "cli/term.h"
#include "cli/transfer/dump_read.h"
#include "service/transfer/dump_text.h"

#define SAY_MAX 16

/* ---- asking ---- */

const struct resp_value *dump_tell(const char *command, struct cli_client *client, const struct slice *words,
                                   size_t count)
{
    struct weir_error err;
    const struct resp_value *value = client_ask(client, words, count, &err);
    if (value && value->type != RESP_ERROR)
        return value;
    fprintf(stderr, "weir %s: ", command);
    if (value) {
        bool plain = value->text.len > 4 && memcmp(value->text.bytes, "ERR ", 4) == 0;
        hints_put(stderr, value->text.bytes + (plain ? 4 : 0), value->text.len - (plain ? 4 : 0));
    } else {
        term_put(stderr, err.text, strlen(err.text));
    }
    fputc('\n', stderr);
    return NULL;
}

const struct resp_value *dump_say(const char *command, struct cli_client *client, const char *const *words)
{
    struct slice slices[SAY_MAX];
    size_t count = 0;
    for (; words[count] && count < SAY_MAX; count++)
        slices[count] = (struct slice){words[count], strlen(words[count])};
    return dump_tell(command, client, slices, count);
}

bool dump_read_hashes(const char *command, const char *text, char room[static DUMP_HASHES_MAX],
                      struct dump_part *part)
{
    if (!text)
        return true;
    size_t digits = 0;
    for (size_t i = 0; i < 33 && text[i]; i++)
        digits += i == 16 ? text[i] == '-' : weir_text_hex(text[i]) >= 0;
    if (strlen(text) != 33 || digits != 33) {
        args_complain(command, "no range of hashes:", text);
        fputs("; write two of 16 hex digits, as in 0000000000000000-7fffffffffffffff\n", stderr);
        return false;
    }
    memcpy(room, text, 34);
    room[16] = '\0';
    part->from = room;
    part->to = room + 17;
    return true;
}

bool dump_freeze(const char *command, struct cli_client *client, const struct dump_part *part,
                 const char *url)
{
    const char *words[SAY_MAX] = {url ? "WEIR.FREEZE" : "WEIR.THAW", part->policy};
    size_t count = 2;
    if (url)
        words[count++] = url;
    if (part->from) {
        words[count++] = "HASH";
        words[count++] = part->from;
        words[count++] = part->to;
    } else if (!url) { /* not what others have frozen */
        words[count++] = "HASH";
        words[count++] = "0000000000000000";
        words[count++] = "ffffffffffffffff";
    }
    return dump_say(command, client, words) != NULL;
}

/* ---- lines ---- */

static bool pass_lines(const struct resp_value *list, dump_line *each, void *arg)
{
    for (size_t i = 0; list && i < list->count; i++)
        if (!each(arg, list->elements[i].text))
            return false;
    return list != NULL;
}

bool dump_read_head(const char *command, struct cli_client *client, dump_line *each, void *arg)
{
    return pass_lines(dump_say(command, client, (const char *[]){"WEIR.DUMP", "HEAD", NULL}), each, arg);
}

bool dump_read_names(const char *command, struct cli_client *client, dump_line *each, void *arg)
{
    const struct resp_value *list = dump_say(command, client, (const char *[]){"WEIR.POLICY", "LIST", NULL});
    for (size_t i = 0; list && i < list->count; i++)
        if (!each(arg, ask_text(&list->elements[i], "name")))
            return false;
    return list != NULL;
}

/* ---- one policy ---- */

struct dump_reader {
    const char *command;
    struct cli_client *client;
    const struct dump_part *part;
    dump_line *each;
    void *arg;
    struct buffer tables; /* their lines, each with its length in front */
};

static bool is_reader_line(struct slice line, const char *kind)
{
    size_t len = strlen(kind);
    return line.len > len && memcmp(line.bytes, kind, len) == 0 && line.bytes[len] == ' ';
}

/* The name of a table: its prefix, "" for the policy's own. */
static bool read_dump_prefix(struct slice line, char *room, struct slice *prefix)
{
    struct slice *words = calloc(DUMP_WORDS_MAX, sizeof *words);
    bool good = words && weir_dump_split(line, room, words) >= 2;
    if (good)
        *prefix = words[1];
    free(words);
    return good;
}

static bool is_table_wanted(const struct dump_reader *reader, struct slice line)
{
    char room[DUMP_LINE_MAX];
    struct slice prefix;
    const char *wanted = reader->part->prefix;
    return !wanted || (read_dump_prefix(line, room, &prefix) && slice_is(prefix, wanted));
}

/* What the policy is goes on at once; its tables are put away. */
static bool take_definition(void *arg, struct slice line)
{
    struct dump_reader *reader = arg;
    if (!is_reader_line(line, "table"))
        return reader->each(reader->arg, line);
    if (!is_table_wanted(reader, line))
        return true;
    buffer_put(&reader->tables, (const char *)&line.len, sizeof line.len);
    buffer_put(&reader->tables, line.bytes, line.len);
    return !reader->tables.failed;
}

static bool table_changed(const struct dump_reader *reader)
{
    fprintf(stderr, "weir %s: policy '%s' was changed meanwhile; begin again\n", reader->command,
            reader->part->policy);
    return false;
}

/* KEYS, or SHARED. `from` becomes where the next page begins: "" behind the last. */
static bool read_dump_page(struct dump_reader *reader, const char *what, struct slice prefix,
                           char from[static 17], int64_t *table)
{
    const struct dump_part *part = reader->part;
    struct slice words[] = {
        {"WEIR.DUMP", 9}, {what, strlen(what)}, {part->policy, strlen(part->policy)},          prefix,
        {"HASH", 4},      {from, 16},           {part->to ? part->to : "ffffffffffffffff", 16}};
    const struct resp_value *page = dump_tell(reader->command, reader->client, words, 7);
    if (!page)
        return false;
    if (*table != 0 && *table != ask_number(page, "table"))
        return table_changed(reader);
    *table = ask_number(page, "table");
    struct slice next = ask_text(page, "next");
    if (!pass_lines(weir_resp_get(page, "lines"), reader->each, reader->arg))
        return false;
    (void)snprintf(from, 17, "%.*s", (int)next.len, next.bytes);
    return true;
}

static bool read_dump_pages(struct dump_reader *reader, struct slice prefix)
{
    const char *first = reader->part->from ? reader->part->from : "0000000000000000";
    char from[17];
    int64_t table = 0;
    (void)snprintf(from, sizeof from, "%s", first);
    if (!read_dump_page(reader, "SHARED", prefix, from, &table))
        return false;
    (void)snprintf(from, sizeof from, "%s", first);
    while (from[0])
        if (!read_dump_page(reader, "KEYS", prefix, from, &table))
            return false;
    return true;
}

static bool read_dump_tables(struct dump_reader *reader, bool definition)
{
    const char *at = buffer_bytes(&reader->tables), *end = at + buffer_len(&reader->tables);
    char *room = malloc(DUMP_LINE_MAX);
    bool good = room != NULL;
    if (good && at == end && reader->part->prefix) {
        fprintf(stderr, "weir %s: policy '%s' has no limits for that prefix, and keys are known by hashes\n",
                reader->command, reader->part->policy);
        good = false;
    }
    while (good && at < end) {
        struct slice line, prefix;
        memcpy(&line.len, at, sizeof line.len);
        line.bytes = at + sizeof line.len;
        at = line.bytes + line.len;
        good = reader->each(reader->arg, line) && read_dump_prefix(line, room, &prefix) &&
               (definition || read_dump_pages(reader, prefix));
    }
    free(room);
    return good;
}

bool dump_read_policy(const char *command, struct cli_client *client, const struct dump_part *part,
                      bool definition, dump_line *each, void *arg)
{
    struct dump_reader reader = {command, client, part, each, arg, {.most = 16 << 20}};
    const struct resp_value *lines =
        dump_say(command, client, (const char *[]){"WEIR.DUMP", "POLICY", part->policy, NULL});
    bool done = pass_lines(lines, take_definition, &reader) && read_dump_tables(&reader, definition);
    weir_buffer_free(&reader.tables);
    return done;
}

/* ---- keys of no policy ---- */

struct dump_clients {
    const char *command;
    struct cli_client *client;
    char heads[2][200]; /* of cells and of buckets */
    size_t count;
};

static bool take_head(void *arg, struct slice line)
{
    struct dump_clients *clients = arg;
    if (clients->count < 2)
        (void)snprintf(clients->heads[clients->count++], sizeof clients->heads[0], "%.*s", (int)line.len,
                       line.bytes);
    return true;
}

/* The head comes before the first, if there is one. */
static bool read_dump_clients(const struct dump_clients *clients, const char *what, const char *head,
                              dump_line *each, void *arg)
{
    char from[17] = "0000000000000000";
    bool begun = false;
    while (from[0]) {
        const char *words[] = {"WEIR.DUMP", what, "HASH", from, "ffffffffffffffff", NULL};
        const struct resp_value *page = dump_say(clients->command, clients->client, words);
        const struct resp_value *lines = page ? weir_resp_get(page, "lines") : NULL;
        if (!lines)
            return false;
        struct slice next = ask_text(page, "next");
        if (lines->count > 0 && !begun && !each(arg, (struct slice){head, strlen(head)}))
            return false;
        begun |= lines->count > 0;
        if (!pass_lines(lines, each, arg))
            return false;
        (void)snprintf(from, sizeof from, "%.*s", (int)next.len, next.bytes);
    }
    return true;
}

bool dump_read_clients(const char *command, struct cli_client *client, dump_line *each, void *arg)
{
    struct dump_clients clients = {.command = command, .client = client};
    return pass_lines(dump_say(command, client, (const char *[]){"WEIR.DUMP", "CLIENTS", NULL}), take_head,
                      &clients) &&
           read_dump_clients(&clients, "CELLS", clients.heads[0], each, arg) &&
           read_dump_clients(&clients, "BUCKETS", clients.heads[1], each, arg);
}
