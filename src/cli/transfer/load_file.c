/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc.h"
#include "cli/transfer/load.h"
#include "service/transfer/dump_text.h"

struct dump_file {
    FILE *file;
    char *text;
    size_t size;
    int64_t number;
};

/* The next line, without its end. false: there is none, or no whole one. */
static bool next_dump_line(struct dump_file *lines, struct slice *line)
{
    ssize_t len = getline(&lines->text, &lines->size, lines->file);
    if (len <= 0 || lines->text[len - 1] != '\n')
        return false;
    lines->number++;
    *line = (struct slice){lines->text, (size_t)len - 1};
    return true;
}

static bool load_complain(const struct dump_file *lines, const char *text)
{
    fprintf(stderr, "weir load: line %" PRId64 ": %s; nothing was changed\n", lines->number, text);
    return false;
}

/* Is it a line of a dump? Gives whether it is a key's. */
static bool check_dump_line(const struct dump_file *lines, struct slice line, char *room, struct slice *words,
                            bool *key)
{
    static const char *const kinds[] = {"server", "time",   "policy",       "limits",  "settings", "override",
                                        "table",  "shared", "shared-spent", "clients", "key",      "spent",
                                        "cell",   "rl"};
    int count = weir_dump_split(line, room, words);
    *key = false;
    if (count == 0)
        return true;
    for (size_t i = 0; count > 0 && i < sizeof kinds / sizeof kinds[0]; i++)
        if (slice_is(words[0], kinds[i])) {
            *key = i >= 10;
            return true;
        }
    return load_complain(lines, "this is no line of a dump");
}

static bool check_dump_head(struct dump_file *lines, struct slice line)
{
    if (slice_is(line, "weir-dump " DUMP_VERSION))
        return true;
    return load_complain(lines, line.len > 10 && memcmp(line.bytes, "weir-dump ", 10) == 0
                                    ? "this dump is of a later version of weir; load it with that"
                                    : "this is no dump: it begins with 'weir-dump 1'");
}

/* The end must fit what stands before it, and be the last line. */
static bool check_dump_end(struct dump_file *lines, struct slice line, uint64_t keys, uint32_t crc)
{
    uint64_t said_keys;
    uint32_t said_crc;
    struct slice more;
    if (!weir_dump_read_end(line, &said_keys, &said_crc))
        return load_complain(lines, "the end makes no sense");
    if (said_keys != keys || said_crc != crc)
        return load_complain(lines, "the checksum is not that of what stands before it: it was altered");
    return !next_dump_line(lines, &more) || load_complain(lines, "something stands behind the end");
}

static bool check_dump_lines(struct dump_file *lines, uint64_t *keys, char *room, struct slice *words)
{
    struct slice line;
    uint32_t crc = 0;
    while (next_dump_line(lines, &line)) {
        bool key = false;
        if (line.len > 4 && memcmp(line.bytes, "end ", 4) == 0)
            return check_dump_end(lines, line, *keys, crc);
        if (lines->number == 1 ? !check_dump_head(lines, line)
                               : !check_dump_line(lines, line, room, words, &key))
            return false;
        *keys += key;
        crc = weir_crc32c(crc, line.bytes, line.len);
        crc = weir_crc32c(crc, "\n", 1);
    }
    lines->number++;
    return load_complain(lines,
                         lines->number == 1 ? "there is nothing" : "the end is missing: it was cut off");
}

static bool check_dump_file(FILE *file, uint64_t *keys)
{
    struct dump_file lines = {.file = file};
    char *room = malloc(DUMP_LINE_MAX);
    struct slice *words = calloc(DUMP_WORDS_MAX, sizeof *words);
    bool good = room && words && check_dump_lines(&lines, keys, room, words);
    free(lines.text);
    free(room);
    free(words);
    return good;
}

static bool send_dump_file(struct dump_sender *sender, FILE *file, bool person)
{
    struct dump_file lines = {.file = file};
    struct slice line;
    bool good = true;
    int64_t shown = 0;
    while (good && next_dump_line(&lines, &line)) {
        if (line.len > 4 && memcmp(line.bytes, "end ", 4) == 0)
            break;
        good = dump_send(sender, line);
        if (person && dump_sender_keys(sender) >= shown + 10000) {
            shown = dump_sender_keys(sender);
            fprintf(stderr, "\r%" PRId64 " keys", shown);
        }
    }
    free(lines.text);
    if (person && shown > 0)
        fputc('\r', stderr);
    return good && dump_sender_finish(sender);
}

bool load_file(const struct load_options *options, FILE *file, struct load_done *done)
{
    uint64_t keys = 0;
    rewind(file);
    if (!check_dump_file(file, &keys))
        return false;
    if (options->dry_run) {
        done->keys = (int64_t)keys;
        return true;
    }
    rewind(file);
    struct cli_client *client = client_start("load", options->common.server);
    if (!client)
        return false;
    client_patience(client, -1);
    struct dump_sender *sender = dump_sender_new("load", client, options->no_elapsed);
    bool good = sender && send_dump_file(sender, file, isatty(STDERR_FILENO) && !options->common.json);
    if (sender) {
        done->keys = dump_sender_keys(sender);
        done->full = dump_sender_full(sender);
    }
    if (sender && !good && done->keys > 0)
        fprintf(stderr,
                "weir load: %" PRId64 " keys had been loaded; if all is loaded again, what those have spent "
                "counts twice\n",
                done->keys);
    dump_sender_free(sender);
    client_close(client);
    return good;
}
