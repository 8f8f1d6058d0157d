/* SPDX-License-Identifier: MIT */
/*
 * weir override: other limits for a key, or for all keys with a prefix, with an end and a reason.
 */
#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <time.h>

#include "cli/args.h"
#include "cli/ask.h"
#include "cli/cli.h"

static const char help[] =
    "usage: weir override list POLICY | set POLICY KEY LIMITS | delete POLICY KEY\n"
    "Another limit for one key, or for all keys that begin alike: 'internal:*'.\n"
    "\n"
    "      --for TIME       set: for so long, such as 2h; then as the others\n"
    "      --reason TEXT    set: why, for those who come later\n" ASK_HELP "\n"
    "A key keeps what it has spent. Of several that fit, the key itself comes first, then\n"
    "the longest prefix. Exit status: 0, or 2 on an error.\n"
    "\n"
    "Examples\n"
    "  weir override set api org:acme 1000/s --for 2h --reason launch\n"
    "  weir override set api 'internal:*' unlimited\n"
    "  weir override list api\n"
    "  weir override delete api org:acme\n";

struct override_options {
    struct ask_options common;
    const char *time, *reason;
};

/* Minutes of UTC, as weir.yaml writes them. */
static void print_override_until(int64_t until_ms)
{
    char text[64];
    time_t seconds = (time_t)(until_ms / 1000);
    struct tm date;
    if (gmtime_r(&seconds, &date) && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &date) > 0)
        printf("  until %s", text);
}

static int print_overrides(const struct resp_value *list)
{
    int key = 0, limits = 0;
    if (list->count == 0)
        puts("no key of this policy has limits of its own");
    for (size_t i = 0; i < list->count; i++) {
        int a = ask_width(ask_text(&list->elements[i], "key"));
        int b = ask_width(ask_text(&list->elements[i], "limits"));
        key = a > key ? a : key;
        limits = b > limits ? b : limits;
    }
    for (size_t i = 0; i < list->count; i++) {
        const struct resp_value *override = &list->elements[i];
        struct slice name = ask_text(override, "key"), text = ask_text(override, "limits");
        bool more = ask_has(override, "until_ms") || ask_text(override, "reason").len > 0;
        ask_put(stdout, name);
        printf("%*s", key + 2 - ask_width(name), "");
        ask_put(stdout, text);
        if (more)
            printf("%*s", limits - ask_width(text), "");
        if (ask_has(override, "until_ms"))
            print_override_until(ask_number(override, "until_ms"));
        if (ask_text(override, "reason").len > 0) {
            fputs("  (", stdout);
            ask_put(stdout, ask_text(override, "reason"));
            fputc(')', stdout);
        }
        fputc('\n', stdout);
    }
    return EXIT_OK;
}

static bool override_needs_words(int count, int least, int most, const char *how)
{
    if (count >= least && count <= most)
        return true;
    fprintf(stderr, "weir override: write: weir override %s\n", how);
    return false;
}

static bool add_override_set(struct ask *ask, const struct override_options *options, char **words, int count)
{
    bool good = override_needs_words(count, 3, ASK_WORDS_MAX - 8, "set POLICY KEY LIMITS");
    for (int i = 0; i < count; i++)
        good = good && ask_add(ask, words[i]);
    if (options->time)
        good = good && ask_add(ask, "FOR") && ask_add(ask, options->time);
    if (options->reason)
        good = good && ask_add(ask, "REASON") && ask_add(ask, options->reason);
    return good;
}

static void override_put_word(const char *word)
{
    ask_put(stdout, (struct slice){word, strlen(word)});
}

/* What a change has done. */
static void print_override_change(bool set, const struct override_options *options, char **words, int count)
{
    char until[ASK_UNTIL_MAX];
    override_put_word(words[2]);
    fputs(set ? " has the limits" : " has the limits of ", stdout);
    for (int i = 3; set && i < count; i++) {
        fputc(' ', stdout);
        override_put_word(words[i]);
    }
    fputs(set ? " in " : "", stdout);
    override_put_word(words[1]);
    printf("%s\n", set ? ask_until(options->time, until) : " again");
}

static int run_override(const struct override_options *options, char **words, int count)
{
    const char *verb = count > 0 ? words[0] : "";
    struct ask ask = {{"WEIR.OVERRIDE"}, 1};
    bool set = strcmp(verb, "set") == 0, list = strcmp(verb, "list") == 0;
    if (!set && (options->time || options->reason)) {
        fputs("weir override: --for and --reason go with set\n", stderr);
        return EXIT_ERROR;
    }
    if (set) {
        (void)ask_add(&ask, "SET");
        if (!add_override_set(&ask, options, words + 1, count - 1))
            return EXIT_ERROR;
    } else if (list) {
        if (!override_needs_words(count, 2, 2, "list POLICY"))
            return EXIT_ERROR;
        (void)(ask_add(&ask, "LIST") && ask_add(&ask, words[1]));
    } else if (strcmp(verb, "delete") == 0 || strcmp(verb, "del") == 0) {
        if (!override_needs_words(count, 3, 3, "delete POLICY KEY"))
            return EXIT_ERROR;
        (void)(ask_add(&ask, "DEL") && ask_add(&ask, words[1]) && ask_add(&ask, words[2]));
    } else {
        (void)override_needs_words(-1, 0, 0, "list POLICY, set POLICY KEY LIMITS or delete POLICY KEY");
        return EXIT_ERROR;
    }
    int status = ask_once("override", &options->common, &ask, list ? print_overrides : ask_print_nothing);
    if (status == EXIT_OK && !list && !options->common.json)
        print_override_change(set, options, words, count);
    return status;
}

int cmd_override(int argc, char **argv)
{
    struct override_options options = {0};
    const struct args_option table[] = {
        ASK_OPTIONS(options.common),
        {"for", 0, NULL, &options.time},
        {"reason", 0, NULL, &options.reason},
    };
    int count = args_read(argc, argv, table, sizeof table / sizeof table[0]);
    if (count < 0)
        return EXIT_ERROR;
    if (options.common.help) {
        fputs(help, stdout);
        return EXIT_OK;
    }
    return run_override(&options, argv + 1, count);
}
