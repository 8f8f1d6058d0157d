/* SPDX-License-Identifier: MIT */
/*
 * weir load: brings what weir dump has written to a server, or moves keys from one server to another.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/humanize.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/term.h"
#include "cli/transfer/dump_read.h"
#include "cli/transfer/dump_send.h"
#include "os/clock.h"
#include "service/transfer/dump_text.h"

static bool dry_run, no_elapsed;
static const char *from_url, *hashes, *as_url;
static struct dump_part part;

struct load_done {
    int64_t keys, full;
    int64_t paused_ns; /* while keys were refused */
};

/*
 * A shard moves from A to B while both serve:
 *
 *   1. B makes the policy, or freezes these keys of it, and gets the hash key of A's tables
 *   2. A freezes the keys: from now on they are refused by both
 *   3. all of them are read from A and brought to B
 *   4. B decides on them; A goes on to send those there who ask
 *
 * Whatever fails, the keys are decided in one place at most. If the connection to B is lost while B is told
 * to begin, nobody knows whether it has: then A goes on to refuse.
 */

struct key_move {
    struct cli_client *from, *to;
    struct dump_sender *sender;
    bool from_frozen, to_frozen;
    bool begins; /* B may decide on the keys by now */
    int64_t began_ns;
};

static const char *move_target_address(const struct key_move *move)
{
    return as_url ? as_url : client_shown(move->to);
}

/* Each process draws a name when it starts; "": it does not tell us. */
static void ask_run_id(struct cli_client *client, char *text, size_t size)
{
    struct slice id = ask_info(ask_quietly(client, "INFO", "server", NULL), "run_id");
    (void)snprintf(text, size, "%.*s", (int)(id.len < size ? id.len : 0), id.bytes);
}

/* Whatever their addresses look like: what a key has spent would count twice. */
static bool are_two_servers(struct key_move *move)
{
    char from[64], to[64];
    ask_run_id(move->from, from, sizeof from);
    ask_run_id(move->to, to, sizeof to);
    if (!from[0] || strcmp(from, to) != 0)
        return true;
    args_fail("load", "%s is the same server as %s: -s says where the keys are to go",
              client_shown(move->from), client_shown(move->to));
    return false;
}

/* 1. */
static bool prepare_move(struct key_move *move)
{
    const struct dump_source source = {"load", move->from, dump_send, move->sender};
    if (!dump_read_policy(&source, &part, true))
        return false;
    if (dump_sender_sent(move->sender)->made)
        return true;
    move->to_frozen = dump_freeze("load", move->to, &part, client_shown(move->from));
    return move->to_frozen;
}

/* 2 and 3. The lines that say what the policy is were said before. */
static bool send_keys(void *arg, struct slice line)
{
    struct key_move *move = arg;
    bool known = dump_line_is(line, "table|key|spent|shared|shared-spent");
    return !known || dump_send(move->sender, line);
}

static bool carry_keys(struct key_move *move)
{
    const struct dump_source source = {"load", move->from, send_keys, move};
    move->began_ns = clock_now();
    move->from_frozen = dump_freeze("load", move->from, &part, move_target_address(move));
    return move->from_frozen && dump_read_policy(&source, &part, false) && dump_sender_flush(move->sender);
}

/* 4. */
static bool thaw_target(struct key_move *move)
{
    move->begins = true;
    if (!dump_sender_finish(move->sender) || (move->to_frozen && !dump_freeze("load", move->to, &part, NULL)))
        return false;
    move->to_frozen = false;
    return true;
}

static void undo_move(struct key_move *move)
{
    const char *policy = part.policy;
    bool made = dump_sender_sent(move->sender)->made;
    if (move->begins) {
        args_fail("load",
                  "all keys are on %s, and it is not known whether it decides on them: WEIR.THAW %s "
                  "there makes it do so. %s goes on to refuse them",
                  client_shown(move->to), policy, client_shown(move->from));
        return;
    }
    if (move->from_frozen && dump_freeze("load", move->from, &part, NULL))
        args_fail("load", "%s decides on these keys again, as before", client_shown(move->from));
    else if (move->from_frozen)
        args_fail("load",
                  "%s still refuses these keys: WEIR.THAW %s there, unless they are to stay "
                  "on %s",
                  client_shown(move->from), policy, client_shown(move->to));
    if (made)
        args_fail("load",
                  "policy '%s' of %s is half loaded and refuses all: weir policy del %s "
                  "there, then try again",
                  policy, client_shown(move->to), policy);
    else if (move->to_frozen && dump_freeze("load", move->to, &part, NULL))
        args_fail("load",
                  "%" PRId64 " keys had come to %s, where what they have spent counts as "
                  "well",
                  dump_sender_sent(move->sender)->keys, client_shown(move->to));
}

static bool run_move(struct key_move *move, struct load_done *done)
{
    if (!are_two_servers(move))
        return false;
    bool good = prepare_move(move) && carry_keys(move) && thaw_target(move);
    done->paused_ns = clock_now() - move->began_ns;
    done->keys = dump_sender_sent(move->sender)->keys;
    done->full = dump_sender_sent(move->sender)->full;
    if (!good)
        undo_move(move);
    return good;
}

static bool load_move(struct load_done *done)
{
    struct key_move move = {.from = ask_open("load", from_url, true)};
    move.to = move.from ? ask_open("load", ask_options.server, true) : NULL;
    /* Nothing but milliseconds pass, and the clocks of two machines may differ by more. */
    move.sender = move.to ? dump_sender_new("load", move.to, true) : NULL;
    bool good = move.sender && run_move(&move, done);
    dump_sender_free(move.sender);
    client_close(move.to);
    client_close(move.from);
    return good;
}

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
    args_fail("load", "line %" PRId64 ": %s; nothing was changed", lines->number, text);
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
    return load_complain(lines, dump_line_is(line, "weir-dump")
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
        if (dump_line_is(line, "end"))
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
        if (dump_line_is(line, "end"))
            break;
        good = dump_send(sender, line);
        if (person && dump_sender_sent(sender)->keys >= shown + 10000) {
            shown = dump_sender_sent(sender)->keys;
            fprintf(stderr, "\r%" PRId64 " keys", shown);
        }
    }
    free(lines.text);
    if (person && shown > 0)
        fputc('\r', stderr);
    return good && dump_sender_finish(sender);
}

/* A file that can be read twice: first all of it is looked at. false: said why. */
static bool load_file(FILE *file, struct load_done *done)
{
    uint64_t keys = 0;
    rewind(file);
    if (!check_dump_file(file, &keys))
        return false;
    if (dry_run) {
        done->keys = (int64_t)keys;
        return true;
    }
    rewind(file);
    struct cli_client *client = ask_open("load", ask_options.server, true);
    if (!client)
        return false;
    struct dump_sender *sender = dump_sender_new("load", client, no_elapsed);
    bool good = sender && send_dump_file(sender, file, isatty(STDERR_FILENO) && !ask_options.json);
    if (sender) {
        done->keys = dump_sender_sent(sender)->keys;
        done->full = dump_sender_sent(sender)->full;
    }
    if (sender && !good && done->keys > 0)
        args_fail("load",
                  "%" PRId64 " keys had been loaded; if all is loaded again, what those have spent "
                  "counts twice",
                  done->keys);
    dump_sender_free(sender);
    client_close(client);
    return good;
}

/* What `file` has, in a file that can be read twice. */
static FILE *spool_to_temp_file(FILE *file)
{
    char bytes[65536];
    size_t len;
    FILE *copy = tmpfile();
    while (copy && (len = fread(bytes, 1, sizeof bytes, file)) > 0)
        if (fwrite(bytes, 1, len, copy) != len)
            break;
    if (copy && !ferror(file) && !ferror(copy) && fflush(copy) == 0)
        return copy;
    args_fail("load", "cannot keep what comes in for a second look: %s", strerror(errno));
    if (copy)
        (void)fclose(copy);
    return NULL;
}

static FILE *open_input(const char *path)
{
    if (!path || strcmp(path, "-") == 0) {
        if (isatty(STDIN_FILENO))
            fputs("weir load: reading from the terminal; name a file, or end with Ctrl-D\n", stderr);
        return spool_to_temp_file(stdin);
    }
    FILE *file = fopen(path, "r");
    if (!file)
        args_fail("load", "cannot read %s: %s", path, strerror(errno));
    return file;
}

static int print_load_result(const struct load_done *done)
{
    char keys[HUMANIZE_MAX], full[HUMANIZE_MAX], paused[HUMANIZE_MAX];
    const char *noun = done->keys == 1 ? "key" : "keys";
    if (ask_options.json) {
        struct json json = {.file = stdout};
        json_open(&json, NULL, '{', JSON_LINES);
        json_number(&json, "keys", done->keys);
        json_number(&json, "full", done->full);
        json_bool(&json, "dry_run", dry_run);
        if (from_url)
            json_decimal(&json, "paused_ms", (double)done->paused_ns / 1e6);
        json_close(&json, '}');
    } else {
        (void)weir_humanize_number(done->keys, keys);
        if (dry_run)
            printf("%s %s would be loaded; the dump is whole\n", keys, noun);
        else if (from_url)
            printf("moved %s %s of %s; %s during which they were refused\n", keys, noun, part.policy,
                   weir_humanize_duration(done->paused_ns, HUMANIZE_UP, paused));
        else
            printf("loaded %s %s\n", keys, noun);
    }
    if (done->full == 0)
        return EXIT_OK;
    args_fail("load",
              "there was no room for %s keys: raise memory: in weir.yaml. They begin anew when they "
              "come",
              weir_humanize_number(done->full, full));
    return EXIT_REFUSED;
}

static const char *find_load_fault(int count)
{
    if (from_url && count > 0)
        return "--from names a server, so there is no file";
    if (from_url && !part.policy)
        return "--from needs --policy NAME: which policy is to be moved?";
    if (from_url && dry_run)
        return "a move cannot be tried: weir dump --policy NAME shows what it would move";
    if (!from_url && (part.policy || hashes || as_url))
        return "--policy, --hash and --as go with --from; of a file all is loaded";
    return NULL;
}

static int run_load(const struct cli_command *command, int count, char **argv)
{
    struct load_done done = {0};
    char room[DUMP_HASHES_MAX];
    const char *fault = find_load_fault(count);
    if (fault)
        return args_fail(command->name, "%s", fault);
    if (!dump_read_hashes(command->name, hashes, room, &part))
        return EXIT_ERROR;
    FILE *file = from_url ? NULL : open_input(count > 0 ? argv[1] : NULL);
    bool good = from_url ? load_move(&done) : file && load_file(file, &done);
    if (file)
        (void)fclose(file);
    return good ? print_load_result(&done) : EXIT_ERROR;
}

static const struct args_option options[] = {
    OPT_FLAG("dry-run", 0, &dry_run, "look at all of it, and change nothing"),
    OPT_FLAG("no-elapsed", 0, &no_elapsed, "as if no time had passed since the dump (else the clocks tell)"),
    OPT_TEXT(
        "from", 0, &from_url, "URL",
        "move keys from this server: they are frozen there, dumped, loaded here, and used here from then "
        "on; who asks there is sent here"),
    OPT_TEXT("policy", 0, &part.policy, "NAME", "of this policy"),
    OPT_TEXT("hash", 0, &hashes, "FROM-TO",
             "of this range of hashes, both ends included: 16 hex digits each"),
    OPT_TEXT("as", 0, &as_url, "URL", "what clients are told to ask instead (default: the server of -s)"),
    ASK_SERVER,
    ASK_JSON,
};

const struct cli_command command_load = {
    .name = "load",
    .usage = "[FILE] | weir load --from URL --policy NAME [--hash FROM-TO]\n"
             "Brings a dump to a server: from a file, standard input, or from another server, so that\n"
             "its keys move. A policy that is not there is made. What a key has spent here comes on\n"
             "top.\n",
    ARGS_OPTIONS(options),
    .more = "A file is read to its end first: if it is cut off or was altered, nothing is changed.\n"
            "Exit status: 0, 1 if there was no room for some keys, or 2 on an error.\n"
            "\n"
            "Examples\n"
            "  weir load api.dump\n"
            "  weir load --dry-run < api.dump\n"
            "  weir load -s redis://b:9049 --from redis://a:9049 --policy api\n",
    .most = 1,
    .many = "one file at a time",
    .run = run_load,
};
