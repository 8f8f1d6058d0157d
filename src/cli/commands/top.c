/* SPDX-License-Identifier: MIT */
/*
 * weir top: the keys of a policy that took most, or were refused most.
 */
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/words.h"

static bool refused, candidate;
static int64_t most = 10;

static int print_top_keys(const struct resp_value *list)
{
    if (list->count == 0)
        puts("nobody in the last minutes");
    for (size_t i = 0; i < list->count; i++) {
        const struct resp_value *key = &list->elements[i];
        char text[HUMANIZE_MAX];
        printf("%12s  ", words_number(ask_number(key, "units"), text));
        ask_put(stdout, ask_text(key, "key"));
        if (ask_has(key, "bytes"))
            term_print(stdout, "  (%s bytes, id %.*s)", words_number(ask_number(key, "bytes"), text),
                       TERM_SLICE(ask_text(key, "id")));
        fputc('\n', stdout);
    }
    return EXIT_OK;
}

static int run_top(const struct cli_command *command, int count, char **argv)
{
    struct ask ask;
    (void)count;
    if (refused && candidate)
        return args_fail(command->name,
                         "--refused is by the limits in force, --candidate by those that are tried: "
                         "write one of them");
    ask_begin(&ask, "WEIR.TOP", argv[1],
              candidate ? "CANDIDATE"
              : refused ? "REFUSED"
                        : "TAKEN",
              "COUNT", NULL);
    ask_add_number(&ask, most);
    return ask_once(command->name, &ask, print_top_keys);
}

static const struct args_option options[] = {
    OPT_FLAG("refused", 0, &refused, "those that were refused most instead"),
    OPT_FLAG("candidate", 0, &candidate, "those that the candidate of the policy would refuse most"),
    OPT_COUNT("count", &most, "N", "so many of them (default: 10)"),
    ASK_SERVER,
    ASK_JSON,
};

const struct cli_command command_top = {
    .name = "top",
    .usage = "[OPTION]... POLICY\n"
             "The keys that took most, the first first; the figures are estimates of the last minute.\n",
    ARGS_OPTIONS(options),
    .more = "Counted on a sample of the calls, fading by half every minute: who takes r a minute\n"
            "shows r to 2 r. A key of more than 127 bytes is cut, which dots show; its id is the hash\n"
            "that weir dump prints. Exit status: 0, or 2 on an error.\n"
            "\n"
            "Examples\n"
            "  weir top api\n"
            "  weir top login --refused --count 3\n"
            "  weir top api --candidate\n",
    .least = 1,
    .most = 1,
    .few = "of which policy? For example: weir top api",
    .run = run_top,
};
