/* SPDX-License-Identifier: MIT */
/*
 * weir backup: a consistent copy of a server's data directory, while it serves.
 */
#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <time.h>

#include "cli/args.h"
#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/transfer/dump_read.h"

static const char help[] =
    "usage: weir backup [NAME]\n"
    "Copies what a server has stored, as of one moment, while it serves: to backups/NAME in\n"
    "its data directory. Without a name it is the time, such as 2026-11-15T201500Z.\n"
    "\n" ASK_HELP "\n"
    "A backup is a data directory by itself: copy it elsewhere, and start from it. What was\n"
    "taken after it was made is not in it. Exit status: 0, or 2 on an error.\n"
    "\n"
    "Examples\n"
    "  weir backup\n"
    "  weir backup before-upgrade\n"
    "  weir doctor /var/lib/weir/backups/before-upgrade\n";

static bool name_backup_now(char *name, size_t size)
{
    time_t now = time(NULL);
    struct tm date;
    return gmtime_r(&now, &date) && strftime(name, size, "%Y-%m-%dT%H%M%SZ", &date) > 0;
}

static void print_backup(const struct resp_value *value)
{
    struct slice path = ask_text(value, "path");
    fputs("backup: ", stdout);
    ask_put(stdout, path);
    fputs("\nit can be started from: cp -r ", stdout);
    ask_put(stdout, path);
    fputs(" NEW-DIR && weir serve --data NEW-DIR\n", stdout);
}

int cmd_backup(int argc, char **argv)
{
    struct ask_options options = {0};
    char now[40];
    const struct args_option table[] = {ASK_OPTIONS(options)};
    int count = args_read(argc, argv, table, sizeof table / sizeof table[0]);
    if (count < 0)
        return EXIT_ERROR;
    if (options.help)
        return fputs(help, stdout), EXIT_OK;
    if (count > 1 || !name_backup_now(now, sizeof now)) {
        args_complain("backup", "one name is enough; unknown word", argv[2]);
        fputc('\n', stderr);
        return EXIT_ERROR;
    }
    struct cli_client *client = client_start("backup", options.server);
    if (!client)
        return EXIT_ERROR;
    client_patience(client, -1);
    const char *words[] = {"WEIR.BACKUP", count == 1 ? argv[1] : now, NULL};
    const struct resp_value *value = dump_say("backup", client, words);
    if (value && options.json)
        ask_print_json(value);
    else if (value)
        print_backup(value);
    client_close(client);
    return value ? EXIT_OK : EXIT_ERROR;
}
