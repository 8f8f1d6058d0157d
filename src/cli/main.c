/* SPDX-License-Identifier: MIT */
/*
 * weir: the command. Finds the subcommand, and sees to it that nothing written is lost unnoticed.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/program.h"
#include "cli/term.h"
#include "weir.h"

static const struct subcommand {
    const char *group;    /* heading in the help; NULL: as the one before */
    const char *operands; /* ", peek ...": the next one is shown in the same line */
    const char *summary;  /* NULL: it stands in the line before */
    const struct cli_command *command;
} subcommands[] = {
    {"Limits", "LIMITS...", "say in plain words what a limit lets pass", &command_spec},
    {NULL, "LIMITS [--arrivals LIST]", "watch it decide in virtual time", &command_sim},
    {NULL, "[--nodes N]", "a whole fleet with faults in virtual time", &command_sim_fleet},
    {"Server", "[--config FILE]", "answer Redis clients on 9049, HTTP on 9050", &command_serve},
    {NULL, "FILE", "is this configuration right, and what would it change", &command_check},
    {NULL, "", "apply the configuration, or keep the old one and say why", &command_reload},
    {"Ask a server", ", peek POLICY KEY [N]", "exit status 0 allowed, 1 refused, 2 error", &command_take},
    {NULL, NULL, NULL, &command_peek},
    {NULL, "POLICY KEY [N]", "the same, but wait (--timeout TIME)", &command_acquire},
    {NULL, "POLICY KEY [N]", "take now, settle later (--ttl TIME, --timeout TIME)", &command_reserve},
    {NULL, "ID [N]..., cancel ID", "what was used of a reservation; hand it back", &command_commit},
    {NULL, NULL, NULL, &command_cancel},
    {NULL, ", charge POLICY KEY [N]", "hand units back; count what has happened already", &command_give},
    {NULL, NULL, NULL, &command_charge},
    {NULL, "POLICY KEY", "forget what a key has spent", &command_reset},
    {NULL, "POLICY KEY", "each limit of this key: used, left, when it frees", &command_explain},
    {"Operate", ", stat", "who takes and is refused most; one line a second", &command_top},
    {NULL, NULL, NULL, &command_stat},
    {NULL, "POLICY", "all keys that have spent something (--sort used)", &command_keys},
    {NULL, "", "list, show, set, del, mode (--percent P, --for TIME, --all)", &command_policy},
    {NULL, "", "set, list, delete: another limit for one key, with an end", &command_override},
    {NULL, "", "totals of a fleet: create, show, list, set, watch, delete", &command_quota},
    {"Data", "[NAME]", "copy what a server has stored, while it serves", &command_backup},
    {NULL, "[--policy NAME]", "policies and what each key has spent, as text", &command_dump},
    {NULL, "[FILE] | --from URL", "bring a dump in, or move keys from another server", &command_load},
    {NULL, "DIR [--repair]", "check what is stored; repair it only when told", &command_doctor},
    {"Speed", "WHAT", "how fast here: core, fleet, limiter, server, store, table, wait", &command_bench},
};
#define SUBCOMMANDS (sizeof subcommands / sizeof subcommands[0])

static void print_usage(FILE *file)
{
    fputs("usage: weir COMMAND [OPTION]... [ARGUMENT]...\n"
          "May this happen now?\n"
          "\n",
          file);
    for (size_t i = 0; i < SUBCOMMANDS; i++) {
        char synopsis[64];
        if (!subcommands[i].summary)
            continue;
        snprintf(synopsis, sizeof synopsis, "%s%s%s", subcommands[i].command->name,
                 subcommands[i].operands[0] == ',' ? "" : " ", subcommands[i].operands);
        if (subcommands[i].group)
            fprintf(file, "%s\n", subcommands[i].group);
        fprintf(file, "  %-30s %s\n", synopsis, subcommands[i].summary);
    }
    fputs("\n"
          "  -s, --server URL               redis://[user:password@]host:port or unix:///path\n"
          "                                 (default redis://127.0.0.1:9049; WEIR_URL in the environment)\n"
          "      --json                     one JSON document on standard output\n"
          "  -h, --help  -V, --version      weir COMMAND --help tells more, with examples\n"
          "\n"
          "Try   weir spec '100/s burst=20'\n"
          "      weir serve, and in another terminal:\n"
          "      redis-cli -p 9049 WEIR.POLICY SET api 100/s\n",
          file);
}

static const struct cli_command *find_command(const char *name)
{
    for (size_t i = 0; i < SUBCOMMANDS; i++)
        if (strcmp(subcommands[i].command->name, name) == 0)
            return subcommands[i].command;
    return NULL;
}

static int unknown_command(const char *name)
{
    struct nearest near = weir_nearest(name, strlen(name));
    for (size_t i = 0; i < SUBCOMMANDS; i++)
        (void)weir_nearest_try(&near, subcommands[i].command->name);
    (void)weir_nearest_try(&near, "help");
    fputs("weir: unknown command '", stderr);
    term_put(stderr, name, strlen(name));
    if (near.found)
        fprintf(stderr, "'; did you mean %s?\n", near.found);
    else
        fputs("'; weir --help lists them\n", stderr);
    return EXIT_ERROR;
}

/* A command of two words comes before that of its first one. argv[0] is its first word. */
static int run_command(int argc, char **argv)
{
    char two[32];
    (void)snprintf(two, sizeof two, "%s %s", argv[0], argc > 1 ? argv[1] : "");
    const struct cli_command *command = find_command(two);
    if (command)
        return args_run(command, argc - 1, argv + 1);
    command = find_command(argv[0]);
    return command ? args_run(command, argc, argv) : unknown_command(argv[0]);
}

static int print_help(int argc, char **argv)
{
    static char option[] = "--help";
    char *words[] = {argc > 0 ? argv[0] : NULL, option, NULL};
    if (words[0])
        return run_command(2, words);
    print_usage(stdout);
    return EXIT_OK;
}

/* The first word behind the options that is a command, or NULL. */
static const char *command_among(int argc, char **argv)
{
    for (int i = 2; i < argc; i++)
        if (find_command(argv[i]))
            return argv[i];
    return NULL;
}

static bool is_plain_option(const char *word)
{
    return strlen(word) < 24 && word[strspn(word, "-abcdefghijklmnopqrstuvwxyz")] == '\0';
}

static int run_subcommand(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;
    if (!word) {
        print_usage(stderr);
        return EXIT_ERROR;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return print_help(0, NULL);
    if (strcmp(word, "help") == 0)
        return print_help(argc - 2, argv + 2);
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        printf("weir %s\n", weir_version());
        return EXIT_OK;
    }
    if (word[0] == '-') {
        fputs("weir: unknown option '", stderr);
        term_put(stderr, word, strlen(word));
        const char *typed = command_among(argc, argv);
        fprintf(stderr, "'; options follow the command: weir %s %s ...\n", typed ? typed : "take",
                typed && is_plain_option(word) ? word
                : typed                        ? "--help"
                                               : "-s URL");
        return EXIT_ERROR;
    }
    return run_command(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    program_hold_files();
    term_init();
    int status = run_subcommand(argc, argv);
    return program_flush("weir") ? status : EXIT_ERROR;
}
