/* SPDX-License-Identifier: MIT */
/*
 * weir commit, cancel: the end of what weir reserve began.
 */
#include <string.h>

#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/words.h"

#define NUMBERS_MAX 15 /* one for each key that was reserved together, which are fewer */

static bool quiet;

static int print_settled(const struct resp_value *answer)
{
    char text[HUMANIZE_MAX];
    if (ask_has(answer, "charged"))
        printf("%s charged, ", words_number(ask_number(answer, "charged"), text));
    printf("%s given back, ", words_number(ask_number(answer, "given_back"), text));
    printf("%s left%s\n", words_number(ask_number(answer, "remaining"), text),
           ask_has(answer, "late") ? " (late: the reservation was over)" : "");
    return EXIT_OK;
}

/* Nothing used is possible here. */
static bool read_used(const char *word, int64_t *n)
{
    *n = 0;
    return strcmp(word, "0") == 0 || args_units("commit", word, n);
}

static int run_settle(const struct cli_command *command, int count, char **argv)
{
    struct ask ask;
    ask_begin(&ask, strcmp(command->name, "commit") == 0 ? "WEIR.COMMIT" : "WEIR.CANCEL", argv[1], NULL);
    for (int i = 2; i <= count; i++) {
        int64_t n;
        if (!read_used(argv[i], &n))
            return EXIT_ERROR;
        ask_add_number(&ask, n);
    }
    return ask_once(command->name, &ask, quiet ? ask_print_nothing : print_settled);
}

static const struct args_option options[] = {
    OPT_FLAG("quiet", 'q', &quiet, "say nothing"),
    ASK_SERVER,
    ASK_JSON,
};

const struct cli_command command_commit = {
    .name = "commit",
    .usage = "[OPTION]... ID [N]...\n"
             "Settle a reservation with what was really used: what is less is given back, what is more\n"
             "becomes a debt, or is refused, as the policy says. Without N all of it was used.\n",
    ARGS_OPTIONS(options),
    .more = "ID is what weir reserve answered; N one number for each key that was reserved.\n"
            "After the TTL, for the time of ids: of the policy, a late commit charges what was used\n"
            "beyond the reservation and gives nothing back. Exit status: 0 done, 2 error.\n"
            "\n"
            "Examples\n"
            "  id=$(weir reserve -q llm-tokens org:7 4000) && ./ask.sh && weir commit \"$id\" 1830\n",
    .least = 1,
    .most = 1 + NUMBERS_MAX,
    .few = "write: weir commit ID [N]...; the id is what weir reserve answered",
    .run = run_settle,
};

const struct cli_command command_cancel = {
    .name = "cancel",
    .usage = "[OPTION]... ID\n"
             "Hand a reservation back.\n",
    ARGS_OPTIONS(options),
    .more = "ID is what weir reserve answered. Exit status: 0 done, 2 error.\n"
            "\n"
            "Examples\n"
            "  weir cancel 5f3a-1\n",
    .least = 1,
    .most = 1,
    .few = "write: weir cancel ID; the id is what weir reserve answered",
    .run = run_settle,
};
