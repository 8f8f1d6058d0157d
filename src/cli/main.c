/* SPDX-License-Identifier: MIT */
/*
 * weir: the command. Finds the subcommand, and sees to it that nothing written is lost unnoticed.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/standard_files.h"
#include "cli/term.h"
#include "weir.h"

struct subcommand {
    const char *group; /* heading in the help; NULL: as the one before */
    const char *name;
    const char *operands; /* ", peek ...": the next one is shown in the same line */
    const char *summary;  /* NULL: it stands in the line before */
    int (*run_subcommand)(int argc, char **argv);
};

static const struct subcommand subcommands[] = {
    {"Limits", "spec", "LIMITS...", "say in plain words what a limit lets pass", cmd_spec},
    {NULL, "sim", "LIMITS [--arrivals LIST]", "watch it decide in virtual time", cmd_sim},
    {NULL, "sim fleet", "[--nodes N]", "a whole fleet with faults in virtual time", cmd_sim},
    {"Server", "serve", "[--config FILE]", "answer Redis clients on 9049", cmd_serve},
    {NULL, "check", "FILE", "is this configuration right, and what would it change", cmd_check},
    {NULL, "reload", "", "apply the configuration, or keep the old one and say why", cmd_reload},
    {"Ask a server", "take", ", peek POLICY KEY [N]", "exit status 0 allowed, 1 refused, 2 error", cmd_key},
    {NULL, "peek", NULL, NULL, cmd_key},
    {NULL, "acquire", "POLICY KEY [N]", "the same, but wait (--timeout TIME)", cmd_key},
    {NULL, "reserve", "POLICY KEY [N]", "take now, settle later (--ttl TIME, --timeout TIME)", cmd_key},
    {NULL, "commit", "ID [N]..., cancel ID", "what was used of a reservation; hand it back", cmd_settle},
    {NULL, "cancel", NULL, NULL, cmd_settle},
    {NULL, "give", ", charge POLICY KEY [N]", "hand units back; count what has happened already", cmd_key},
    {NULL, "charge", NULL, NULL, cmd_key},
    {NULL, "reset", "POLICY KEY", "forget what a key has spent", cmd_key},
    {NULL, "explain", "POLICY KEY", "each limit of this key: used, left, when it frees", cmd_key},
    {"Operate", "top", ", stat", "who takes and is refused most; one line a second", cmd_top},
    {NULL, "stat", NULL, NULL, cmd_stat},
    {NULL, "policy", "", "list, show, set, del, mode (--percent P, --for TIME, --all)", cmd_policy},
    {NULL, "override", "", "set, list, delete: another limit for one key, with an end", cmd_override},
    {NULL, "quota", "", "totals of a fleet: create, show, list, set, watch, delete", cmd_quota},
    {"Data", "backup", "[NAME]", "copy what a server has stored, while it serves", cmd_backup},
    {NULL, "dump", "[--policy NAME]", "policies and what each key has spent, as text", cmd_dump},
    {NULL, "load", "[FILE] | --from URL", "bring a dump in, or move keys from another server", cmd_load},
    {NULL, "doctor", "DIR [--repair]", "check what is stored; repair it only when told", cmd_doctor},
    {"Speed", "bench", "WHAT", "how fast here: core, fleet, limiter, server, store, table, wait", cmd_bench},
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
        snprintf(synopsis, sizeof synopsis, "%s%s%s", subcommands[i].name,
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

static const struct subcommand *find_command(const char *name)
{
    for (size_t i = 0; i < SUBCOMMANDS; i++)
        if (strcmp(subcommands[i].name, name) == 0)
            return &subcommands[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    struct nearest near = weir_nearest(name, strlen(name));
    for (size_t i = 0; i < SUBCOMMANDS; i++)
        (void)weir_nearest_try(&near, subcommands[i].name);
    (void)weir_nearest_try(&near, "help");
    fputs("weir: unknown command '", stderr);
    term_put(stderr, name, strlen(name));
    if (near.found)
        fprintf(stderr, "'; did you mean %s?\n", near.found);
    else
        fputs("'; weir --help lists them\n", stderr);
    return EXIT_ERROR;
}

static int print_help(const char *name)
{
    if (!name) {
        print_usage(stdout);
        return EXIT_OK;
    }
    const struct subcommand *command = find_command(name);
    if (!command)
        return unknown_command(name);
    char word[32], option[] = "--help";
    snprintf(word, sizeof word, "%s", name);
    char *argv[] = {word, option, NULL};
    return command->run_subcommand(2, argv);
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
        return print_help(NULL);
    if (strcmp(word, "help") == 0)
        return print_help(argc > 2 ? argv[2] : NULL);
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
    const struct subcommand *command = find_command(word);
    return command ? command->run_subcommand(argc - 1, argv + 1) : unknown_command(word);
}

int main(int argc, char **argv)
{
    standard_files_hold();
    term_init();
    int status = run_subcommand(argc, argv);
    return standard_files_flush("weir") ? status : EXIT_ERROR;
}
