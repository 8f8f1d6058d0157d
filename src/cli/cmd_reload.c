/* SPDX-License-Identifier: MIT */
/*
 * weir reload: tells a server to read its file again. It applies all of it or nothing.
 */
#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/json.h"
#include "cli/term.h"

static const char help[] =
    "usage: weir reload [-s URL] [--json]\n"
    "Tells a server to read its configuration again. A file with a mistake changes nothing,\n"
    "and the mistake is said here; keys keep what they have spent.\n"
    "\n"
    "  -s, --server URL   redis://[user:password@]host:port or unix:///path\n"
    "                     (default redis://127.0.0.1:9049; WEIR_URL in the environment)\n"
    "      --json         one JSON document on standard output\n"
    "  -h, --help\n"
    "\n"
    "Examples\n"
    "  weir check weir.yaml && weir reload\n"
    "  weir reload -s unix:///run/weir/weir.sock\n";

/* A text answer may have several lines: those of a report. */
static void print_lines(FILE *file, struct slice text)
{
    while (text.len > 0) {
        const char *end = memchr(text.bytes, '\n', text.len);
        size_t len = end ? (size_t)(end - text.bytes) : text.len;
        term_put(file, text.bytes, len);
        fputc('\n', file);
        text.bytes += len + (end != NULL);
        text.len -= len + (end != NULL);
    }
}

int cmd_reload(int argc, char **argv)
{
    bool json = false, wants_help = false;
    const char *url = NULL, *words[] = {"WEIR.RELOAD"};
    const struct args_option options[] = {
        {.name = "server", .letter = 's', .value = &url},
        {.name = "json", .flag = &json},
        {.name = "help", .letter = 'h', .flag = &wants_help},
    };
    int operands = args_read(argc, argv, options, sizeof options / sizeof options[0]);
    if (operands < 0)
        return EXIT_ERROR;
    if (wants_help)
        return fputs(help, stdout), EXIT_OK;
    if (operands > 0) {
        args_complain("reload", "unknown word", argv[1]);
        fputs("; the server knows its file, -s names the server\n", stderr);
        return EXIT_ERROR;
    }
    struct client *client = client_start("reload", url);
    if (!client)
        return EXIT_ERROR;
    client_patience(client, -1); /* ten million keys may have to be changed */
    const struct resp_value *value = client_tell("reload", client, words, 1);
    if (value && json) {
        struct json out = {.file = stdout};
        json_open(&out, NULL, '{', JSON_LINES);
        json_bool(&out, "reloaded", true);
        json_close(&out, '}');
    } else if (value) {
        print_lines(stdout, slice_is(value->text, "OK") ? (struct slice){"reloaded", 8} : value->text);
    }
    client_close(client);
    return value ? EXIT_OK : EXIT_ERROR;
}
