/* SPDX-License-Identifier: MIT */
/*
 * weir backup: a consistent copy of a server's data directory, while it serves.
 */
#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <time.h>

#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/term.h"

static void print_backup(const struct resp_value *value)
{
    struct slice path = ask_text(value, "path");
    term_print(stdout,
               "backup: %.*s\n"
               "it can be started from: cp -r %.*s NEW-DIR && weir serve --data NEW-DIR\n",
               TERM_SLICE(path), TERM_SLICE(path));
}

static int run_backup(const struct cli_command *command, int count, char **argv)
{
    char now[40] = "";
    time_t seconds = time(NULL);
    struct tm date;
    if (gmtime_r(&seconds, &date))
        (void)strftime(now, sizeof now, "%Y-%m-%dT%H%M%SZ", &date);
    struct cli_client *client = ask_open(command->name, ask_options.server, true);
    const struct resp_value *value =
        client ? ask_words(command->name, client, "WEIR.BACKUP", count == 1 ? argv[1] : now, NULL) : NULL;
    if (value && ask_options.json)
        ask_print_json(value);
    else if (value)
        print_backup(value);
    client_close(client);
    return value ? EXIT_OK : EXIT_ERROR;
}

static const struct args_option options[] = {ASK_SERVER, ASK_JSON};

const struct cli_command command_backup = {
    .name = "backup",
    .usage = "[NAME]\n"
             "Copies what a server has stored, as of one moment, while it serves: to backups/NAME in\n"
             "its data directory. Without a name it is the time, such as 2026-11-15T201500Z.\n",
    ARGS_OPTIONS(options),
    .more = "A backup is a data directory by itself: copy it elsewhere, and start from it. What was\n"
            "taken after it was made is not in it. Exit status: 0, or 2 on an error.\n"
            "\n"
            "Examples\n"
            "  weir backup\n"
            "  weir backup before-upgrade\n"
            "  weir doctor /var/lib/weir/backups/before-upgrade\n",
    .most = 1,
    .many = "; one name is enough",
    .run = run_backup,
};
