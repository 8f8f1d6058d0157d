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

/* What stands behind OK: some of the file may need a restart. */
static struct slice note_of(struct slice answer)
{
    static const char front[] = "OK; ";
    size_t len = sizeof front - 1;
    if (answer.len < len || memcmp(answer.bytes, front, len) != 0)
        return (struct slice){"", 0};
    return (struct slice){answer.bytes + len, answer.len - len < 500 ? answer.len - len : 500};
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
    struct cli_client *client = client_start("reload", url);
    if (!client)
        return EXIT_ERROR;
    client_patience(client, -1); /* ten million keys may have to be changed */
    const struct resp_value *value = client_tell("reload", client, words, 1);
    struct slice note = value ? note_of(value->text) : (struct slice){"", 0};
    char text[512];
    (void)snprintf(text, sizeof text, "%.*s", (int)note.len, note.bytes);
    if (value && json) {
        struct json out = {.file = stdout};
        json_open(&out, NULL, '{', JSON_LINES);
        json_bool(&out, "reloaded", true);
        if (note.len > 0)
            json_text(&out, "note", text);
        json_close(&out, '}');
    } else if (value) {
        puts("reloaded");
        term_lines(stdout, note.bytes, note.len);
    }
    client_close(client);
    return value ? EXIT_OK : EXIT_ERROR;
}
