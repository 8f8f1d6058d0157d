/* SPDX-License-Identifier: MIT */
/*
 * weir load: brings what weir dump has written to a server, or moves keys from one server to another.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/humanize.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/transfer/load.h"

static const char help[] =
    "usage: weir load [FILE] | weir load --from URL --policy NAME [--hash FROM-TO]\n"
    "Brings a dump to a server: from a file, standard input, or from another server, so that\n"
    "its keys move. A policy that is not there is made. What a key has spent here comes on\n"
    "top.\n"
    "\n"
    "      --dry-run        look at all of it, and change nothing\n"
    "      --no-elapsed     as if no time had passed since the dump (else the clocks tell)\n"
    "      --from URL       move keys from this server: they are frozen there, dumped, loaded\n"
    "                       here, and used here from then on; who asks there is sent here\n"
    "      --policy NAME    of this policy\n"
    "      --hash FROM-TO   of this range of hashes, both ends included: 16 hex digits each\n"
    "      --as URL         what clients are told to ask instead (default: the server of -s)\n" ASK_HELP "\n"
    "A file is read to its end first: if it is cut off or was altered, nothing is changed.\n"
    "Exit status: 0, 1 if there was no room for some keys, or 2 on an error.\n"
    "\n"
    "Examples\n"
    "  weir load api.dump\n"
    "  weir load --dry-run < api.dump\n"
    "  weir load -s redis://b:9049 --from redis://a:9049 --policy api\n";

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
    fprintf(stderr, "weir load: cannot keep what comes in for a second look: %s\n", strerror(errno));
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
    if (!file) {
        fprintf(stderr, "weir load: cannot read ");
        ask_put(stderr, (struct slice){path, strlen(path)});
        fprintf(stderr, ": %s\n", strerror(errno));
    }
    return file;
}

static int print_load_result(const struct load_options *options, const struct load_done *done)
{
    char keys[HUMANIZE_MAX], full[HUMANIZE_MAX], paused[HUMANIZE_MAX];
    const char *noun = done->keys == 1 ? "key" : "keys";
    if (options->common.json) {
        struct json json = {.file = stdout};
        json_open(&json, NULL, '{', JSON_LINES);
        json_number(&json, "keys", done->keys);
        json_number(&json, "full", done->full);
        json_bool(&json, "dry_run", options->dry_run);
        if (options->from)
            json_decimal(&json, "paused_ms", (double)done->paused_ns / 1e6);
        json_close(&json, '}');
    } else {
        (void)weir_humanize_number(done->keys, keys);
        if (options->dry_run)
            printf("%s %s would be loaded; the dump is whole\n", keys, noun);
        else if (options->from)
            printf("moved %s %s of %s; %s during which they were refused\n", keys, noun, options->part.policy,
                   weir_humanize_duration(done->paused_ns, HUMANIZE_UP, paused));
        else
            printf("loaded %s %s\n", keys, noun);
    }
    if (done->full == 0)
        return EXIT_OK;
    fprintf(stderr,
            "weir load: there was no room for %s keys: raise memory: in weir.yaml. They begin anew when they "
            "come\n",
            weir_humanize_number(done->full, full));
    return EXIT_REFUSED;
}

static bool check_load_words(const struct load_options *options, int count, char **words)
{
    const char *fault = NULL;
    if (count > 1)
        fault = "one file at a time";
    else if (options->from && count > 0)
        fault = "--from names a server, so there is no file";
    else if (options->from && !options->part.policy)
        fault = "--from needs --policy NAME: which policy is to be moved?";
    else if (options->from && options->dry_run)
        fault = "a move cannot be tried: weir dump --policy NAME shows what it would move";
    else if (!options->from && (options->part.policy || options->hashes || options->as))
        fault = "--policy, --hash and --as go with --from; of a file all is loaded";
    if (!fault)
        return true;
    (void)words;
    fprintf(stderr, "weir load: %s\n", fault);
    return false;
}

int cmd_load(int argc, char **argv)
{
    struct load_options options = {0};
    struct load_done done = {0};
    char room[DUMP_HASHES_MAX];
    const struct args_option table[] = {
        ASK_OPTIONS(options.common),
        {"dry-run", 0, &options.dry_run, NULL},
        {"no-elapsed", 0, &options.no_elapsed, NULL},
        {"from", 0, NULL, &options.from},
        {"policy", 0, NULL, &options.part.policy},
        {"hash", 0, NULL, &options.hashes},
        {"as", 0, NULL, &options.as},
    };
    int count = args_read(argc, argv, table, sizeof table / sizeof table[0]);
    if (count < 0)
        return EXIT_ERROR;
    if (options.common.help)
        return fputs(help, stdout), EXIT_OK;
    if (!check_load_words(&options, count, argv + 1) ||
        !dump_read_hashes("load", options.hashes, room, &options.part))
        return EXIT_ERROR;
    bool good;
    if (options.from) {
        good = load_move(&options, &done);
    } else {
        FILE *file = open_input(count > 0 ? argv[1] : NULL);
        good = file && load_file(&options, file, &done);
        if (file)
            (void)fclose(file);
    }
    return good ? print_load_result(&options, &done) : EXIT_ERROR;
}
