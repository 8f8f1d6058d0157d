/* SPDX-License-Identifier: MIT */
/*
 * weir reload: tells a server to read its file again. It applies all of it or nothing.
 */
#include <string.h>

#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/term.h"

/* What stands behind OK: some of the file may need a restart. */
static void print_reloaded(struct slice answer)
{
    static const char front[] = "OK; ";
    size_t len = sizeof front - 1;
    bool noted = answer.len > len && memcmp(answer.bytes, front, len) == 0;
    struct slice note = noted ? (struct slice){answer.bytes + len, answer.len - len} : (struct slice){"", 0};
    struct json json = {.file = stdout};
    char text[512];
    if (!ask_options.json) {
        puts("reloaded");
        term_lines(stdout, note.bytes, note.len);
        return;
    }
    json_open(&json, NULL, '{', JSON_LINES);
    json_bool(&json, "reloaded", true);
    (void)snprintf(text, sizeof text, "%.*s", (int)(note.len < 500 ? note.len : 500), note.bytes);
    if (noted)
        json_text(&json, "note", text);
    json_close(&json, '}');
}

static int run_reload(const struct cli_command *command, int count, char **argv)
{
    (void)count;
    (void)argv;
    /* Ten million keys may have to be changed. */
    struct cli_client *client = ask_open(command->name, ask_options.server, true);
    const struct resp_value *value = client ? ask_words(command->name, client, "WEIR.RELOAD", NULL) : NULL;
    if (value)
        print_reloaded(value->text);
    client_close(client);
    return value ? EXIT_OK : EXIT_ERROR;
}

static const struct args_option options[] = {ASK_SERVER, ASK_JSON};

const struct cli_command command_reload = {
    .name = "reload",
    .usage = "[-s URL] [--json]\n"
             "Tells a server to read its configuration again. A file with a mistake changes nothing,\n"
             "and the mistake is said here; keys keep what they have spent.\n",
    ARGS_OPTIONS(options),
    .more = "Examples\n"
            "  weir check weir.yaml && weir reload\n"
            "  weir reload -s unix:///run/weir/weir.sock\n",
    .many = "; the server knows its file, -s names the server",
    .run = run_reload,
};
