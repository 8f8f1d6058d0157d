/* SPDX-License-Identifier: MIT */
#include "cli/transfer/dump_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/args.h"
#include "cli/ask.h"
#include "service/transfer/dump_text.h"

#define HASH_DIGITS 16
#define HASH_FIRST  "0000000000000000"
#define HASH_LAST   "ffffffffffffffff"

bool dump_read_hashes(const char *command, const char *text, char room[static DUMP_HASHES_MAX],
                      struct dump_part *part)
{
    size_t digits = 0, len = 2 * HASH_DIGITS + 1;
    if (!text)
        return true;
    for (size_t i = 0; i < len && text[i]; i++)
        digits += i == HASH_DIGITS ? text[i] == '-' : weir_text_hex(text[i]) >= 0;
    if (strlen(text) != len || digits != len)
        return args_fail(command,
                         "no range of hashes: '%s'; write two of 16 hex digits, as in "
                         "0000000000000000-7fffffffffffffff",
                         text),
               false;
    memcpy(room, text, len + 1);
    room[HASH_DIGITS] = '\0';
    part->from = room;
    part->to = room + HASH_DIGITS + 1;
    return true;
}

bool dump_line_is(struct slice line, const char *kinds)
{
    for (size_t len; *kinds; kinds += len + (kinds[len] == '|')) {
        len = strcspn(kinds, "|");
        if (line.len > len && memcmp(line.bytes, kinds, len) == 0 && line.bytes[len] == ' ')
            return true;
    }
    return false;
}

bool dump_freeze(const char *command, struct cli_client *client, const struct dump_part *part,
                 const char *url)
{
    struct ask ask;
    ask_begin(&ask, url ? "WEIR.FREEZE" : "WEIR.THAW", part->policy, NULL);
    if (url)
        ask_add(&ask, url);
    if (part->from || !url) { /* a thaw of all hashes is not one of what others have frozen */
        ask_add(&ask, "HASH");
        ask_add(&ask, part->from ? part->from : HASH_FIRST);
        ask_add(&ask, part->from ? part->to : HASH_LAST);
    }
    return ask_tell(command, client, &ask) != NULL;
}

static bool pass_lines(const struct dump_source *source, const struct resp_value *list)
{
    for (size_t i = 0; list && i < list->count; i++)
        if (!source->each(source->arg, list->elements[i].text))
            return false;
    return list != NULL;
}

bool dump_read_head(const struct dump_source *source)
{
    return pass_lines(source, ask_words(source->command, source->client, "WEIR.DUMP", "HEAD", NULL));
}

/* ---- one policy ---- */

struct dump_reader {
    const struct dump_source *source;
    const struct dump_part *part;
    struct buffer tables; /* their lines, each with its length in front */
    char room[DUMP_LINE_MAX];
    struct slice words[DUMP_WORDS_MAX];
};

/* The name of a table: its prefix, "" for the policy's own. */
static bool read_dump_prefix(struct dump_reader *reader, struct slice line, struct slice *prefix)
{
    if (weir_dump_split(line, reader->room, reader->words) < 2)
        return false;
    *prefix = reader->words[1];
    return true;
}

/* What the policy is goes on at once; its tables are put away, if they are wanted. */
static bool take_definition(void *arg, struct slice line)
{
    struct dump_reader *reader = arg;
    const char *wanted = reader->part->prefix;
    struct slice prefix;
    if (!dump_line_is(line, "table"))
        return reader->source->each(reader->source->arg, line);
    if (wanted && !(read_dump_prefix(reader, line, &prefix) && slice_is(prefix, wanted)))
        return true;
    buffer_put(&reader->tables, (const char *)&line.len, sizeof line.len);
    buffer_put(&reader->tables, line.bytes, line.len);
    return !reader->tables.failed;
}

/* KEYS, or SHARED. `from` becomes where the next page begins: "" behind the last. */
static bool read_dump_page(struct dump_reader *reader, const char *what, struct slice prefix,
                           char from[static HASH_DIGITS + 1], int64_t *table)
{
    const struct dump_source *source = reader->source;
    struct ask ask;
    ask_begin(&ask, "WEIR.DUMP", what, reader->part->policy, NULL);
    ask_add_slice(&ask, prefix);
    ask_add(&ask, "HASH");
    ask_add(&ask, from);
    ask_add(&ask, reader->part->to ? reader->part->to : HASH_LAST);
    const struct resp_value *page = ask_tell(source->command, source->client, &ask);
    if (!page)
        return false;
    if (*table != 0 && *table != ask_number(page, "table"))
        return args_fail(source->command, "policy '%s' was changed meanwhile; begin again",
                         reader->part->policy),
               false;
    *table = ask_number(page, "table");
    struct slice next = ask_text(page, "next");
    if (!pass_lines(source, weir_resp_get(page, "lines")))
        return false;
    (void)snprintf(from, HASH_DIGITS + 1, "%.*s", (int)next.len, next.bytes);
    return true;
}

static bool read_dump_pages(struct dump_reader *reader, struct slice prefix)
{
    const char *first = reader->part->from ? reader->part->from : HASH_FIRST;
    char from[HASH_DIGITS + 1];
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
    const struct dump_source *source = reader->source;
    const char *at = buffer_bytes(&reader->tables), *end = at + buffer_len(&reader->tables);
    if (at == end && reader->part->prefix)
        return args_fail(source->command,
                         "policy '%s' has no limits for that prefix, and keys are known by hashes",
                         reader->part->policy),
               false;
    while (at < end) {
        struct slice line, prefix;
        memcpy(&line.len, at, sizeof line.len);
        line.bytes = at + sizeof line.len;
        at = line.bytes + line.len;
        if (!source->each(source->arg, line) || !read_dump_prefix(reader, line, &prefix) ||
            !(definition || read_dump_pages(reader, prefix)))
            return false;
    }
    return true;
}

bool dump_read_policy(const struct dump_source *source, const struct dump_part *part, bool definition)
{
    struct dump_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return args_fail(source->command, "out of memory"), false;
    *reader = (struct dump_reader){.source = source, .part = part, .tables = {.most = 16 << 20}};
    const struct dump_source first = {source->command, source->client, take_definition, reader};
    bool done = pass_lines(&first, ask_words(source->command, source->client, "WEIR.DUMP", "POLICY",
                                             part->policy, NULL)) &&
                read_dump_tables(reader, definition);
    weir_buffer_free(&reader->tables);
    free(reader);
    return done;
}

/* ---- keys of no policy ---- */

/* The head comes before the first, if there is one. */
static bool read_dump_clients(const struct dump_source *source, const char *what, const char *head)
{
    char from[HASH_DIGITS + 1] = HASH_FIRST;
    bool begun = false;
    while (from[0]) {
        const struct resp_value *page =
            ask_words(source->command, source->client, "WEIR.DUMP", what, "HASH", from, HASH_LAST, NULL);
        const struct resp_value *lines = page ? weir_resp_get(page, "lines") : NULL;
        if (!lines)
            return false;
        struct slice next = ask_text(page, "next");
        if (lines->count > 0 && !begun && !source->each(source->arg, (struct slice){head, strlen(head)}))
            return false;
        begun |= lines->count > 0;
        if (!pass_lines(source, lines))
            return false;
        (void)snprintf(from, sizeof from, "%.*s", (int)next.len, next.bytes);
    }
    return true;
}

bool dump_read_clients(const struct dump_source *source)
{
    char heads[2][200] = {"", ""}; /* of cells and of buckets */
    const struct resp_value *list = ask_words(source->command, source->client, "WEIR.DUMP", "CLIENTS", NULL);
    for (size_t i = 0; list && i < list->count && i < 2; i++)
        (void)snprintf(heads[i], sizeof heads[i], "%.*s", (int)list->elements[i].text.len,
                       list->elements[i].text.bytes);
    return list && read_dump_clients(source, "CELLS", heads[0]) &&
           read_dump_clients(source, "BUCKETS", heads[1]);
}
