/* SPDX-License-Identifier: MIT */
/*
 * weir commit, cancel: the end of what weir reserve began.
 */
#include <inttypes.h>
#include <string.h>

#include "cli/args.h"
#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/words.h"

#define NUMBERS_MAX 16 /* one for each key that was reserved together, which are fewer */

static const char commit_help[] =
    "usage: weir commit [OPTION]... ID [N]...\n"
    "Settle a reservation with what was really used: what is less is given back, what is more\n"
    "becomes a debt, or is refused, as the policy says. Without N all of it was used.\n"
    "\n"
    "  -q, --quiet          say nothing\n" ASK_HELP "\n"
    "ID is what weir reserve answered; N one number for each key that was reserved.\n"
    "Exit status: 0 done, 2 error.\n"
    "\n"
    "Examples\n"
    "  id=$(weir reserve -q llm-tokens org:7 4000) && ./ask.sh && weir commit \"$id\" 1830\n";

static const char cancel_help[] = "usage: weir cancel [OPTION]... ID\n"
                                  "Hand a reservation back.\n"
                                  "\n"
                                  "  -q, --quiet          say nothing\n" ASK_HELP "\n"
                                  "ID is what weir reserve answered. Exit status: 0 done, 2 error.\n"
                                  "\n"
                                  "Examples\n"
                                  "  weir cancel 5f3a-1\n";

static int print_settled(const struct resp_value *answer)
{
    char text[HUMANIZE_MAX];
    if (ask_has(answer, "charged"))
        printf("%s charged, ", words_number(ask_number(answer, "charged"), text));
    printf("%s given back, ", words_number(ask_number(answer, "given_back"), text));
    printf("%s left\n", words_number(ask_number(answer, "remaining"), text));
    return EXIT_OK;
}

/* Nothing used is possible here. */
static bool read_used(const char *word, int64_t *n)
{
    *n = 0;
    return strcmp(word, "0") == 0 || args_units("commit", word, n);
}

static int run_settle(bool commit, const struct ask_options *options, bool quiet, char **words, int count)
{
    struct ask ask = {{commit ? "WEIR.COMMIT" : "WEIR.CANCEL", words[0]}, 2};
    char numbers[NUMBERS_MAX][24];
    for (int i = 1; i < count; i++) {
        int64_t n;
        if (!read_used(words[i], &n))
            return EXIT_ERROR;
        (void)snprintf(numbers[i], sizeof numbers[i], "%" PRId64, n);
        (void)ask_add(&ask, numbers[i]);
    }
    return ask_once(commit ? "commit" : "cancel", options, &ask, quiet ? ask_print_nothing : print_settled);
}

int cmd_settle(int argc, char **argv)
{
    bool commit = strcmp(argv[0], "commit") == 0, quiet = false;
    struct ask_options options = {0};
    const struct args_option table[] = {ASK_OPTIONS(options), {"quiet", 'q', &quiet, NULL}};
    int count = args_read(argc, argv, table, sizeof table / sizeof table[0]);
    if (count < 0)
        return EXIT_ERROR;
    if (options.help) {
        fputs(commit ? commit_help : cancel_help, stdout);
        return EXIT_OK;
    }
    if (count < 1 || count > (commit ? NUMBERS_MAX : 1)) {
        fprintf(stderr, "weir %s: write: weir %s ID%s; the id is what weir reserve answered\n", argv[0],
                argv[0], commit ? " [N]..." : "");
        return EXIT_ERROR;
    }
    return run_settle(commit, &options, quiet, argv + 1, count);
}
