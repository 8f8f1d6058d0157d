/* SPDX-License-Identifier: MIT */
/*
 * weir top: the keys of a policy that took most, or were refused most.
 */
#include <inttypes.h>
#include <string.h>

#include "cli/args.h"
#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/words.h"

static const char help[] =
    "usage: weir top [OPTION]... POLICY\n"
    "The keys that took most, the first first; the figures are estimates of the last minute.\n"
    "\n"
    "      --refused        those that were refused most instead\n"
    "      --count N        so many of them (default: 10)\n" ASK_HELP "\n"
    "Counted on a sample of the calls, fading by half every minute: who takes r a minute\n"
    "shows r to 2 r. A key of more than 127 bytes is cut, which dots show; its id is the hash\n"
    "that weir dump prints. Exit status: 0, or 2 on an error.\n"
    "\n"
    "Examples\n"
    "  weir top api\n"
    "  weir top login --refused --count 3\n";

struct top_options {
    struct ask_options common;
    bool refused;
    const char *count;
};

static int print_top_keys(const struct resp_value *list)
{
    if (list->count == 0)
        puts("nobody in the last minutes");
    for (size_t i = 0; i < list->count; i++) {
        char text[HUMANIZE_MAX];
        printf("%12s  ", words_number(ask_number(&list->elements[i], "units"), text));
        ask_put(stdout, ask_text(&list->elements[i], "key"));
        if (ask_has(&list->elements[i], "bytes")) {
            printf("  (%s bytes, id ", words_number(ask_number(&list->elements[i], "bytes"), text));
            ask_put(stdout, ask_text(&list->elements[i], "id"));
            fputc(')', stdout);
        }
        fputc('\n', stdout);
    }
    return EXIT_OK;
}

int cmd_top(int argc, char **argv)
{
    struct top_options options = {0};
    const struct args_option table[] = {
        ASK_OPTIONS(options.common),
        {"refused", 0, &options.refused, NULL},
        {"count", 0, NULL, &options.count},
    };
    int count = args_read(argc, argv, table, sizeof table / sizeof table[0]);
    int64_t most = 10;
    char number[24];
    if (count < 0)
        return EXIT_ERROR;
    if (options.common.help) {
        fputs(help, stdout);
        return EXIT_OK;
    }
    if (count != 1) {
        fputs("weir top: of which policy? For example: weir top api\n", stderr);
        return EXIT_ERROR;
    }
    if (options.count && !args_count("top", "count", options.count, &most))
        return EXIT_ERROR;
    (void)snprintf(number, sizeof number, "%" PRId64, most);
    struct ask ask = {{"WEIR.TOP", argv[1], options.refused ? "REFUSED" : "TAKEN", "COUNT", number}, 5};
    return ask_once("top", &options.common, &ask, print_top_keys);
}
