/* SPDX-License-Identifier: MIT */
/*
 * weir override: other limits for a key, or for all keys with a prefix, with an end and a reason.
 */
#include <string.h>

#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/term.h"
#include "config/timestamp.h"

static const char *time_text, *reason;

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
        if (ask_has(override, "until_ms")) {
            char until[TIMESTAMP_MAX];
            weir_timestamp_write(ask_number(override, "until_ms"), until);
            printf("  until %.19sZ", until);
        }
        if (ask_text(override, "reason").len > 0)
            term_print(stdout, "  (%.*s)", TERM_SLICE(ask_text(override, "reason")));
        fputc('\n', stdout);
    }
    return EXIT_OK;
}

static int list_overrides(const struct cli_command *command, int count, char **argv)
{
    struct ask ask;
    (void)count;
    ask_begin(&ask, "WEIR.OVERRIDE", "LIST", argv[1], NULL);
    return ask_once(command->name, &ask, print_overrides);
}

/* Limits may be several words, as the shell leaves them. */
static int set_override(const struct cli_command *command, int count, char **argv)
{
    struct ask ask;
    char until[ASK_UNTIL_MAX];
    ask_begin(&ask, "WEIR.OVERRIDE", "SET", NULL);
    for (int i = 1; i <= count; i++)
        ask_add(&ask, argv[i]);
    ask_add_option(&ask, "FOR", time_text);
    ask_add_option(&ask, "REASON", reason);
    int status = ask_once(command->name, &ask, ask_print_nothing);
    if (status != EXIT_OK || ask_options.json)
        return status;
    term_print(stdout, "%s has the limits ", argv[2]);
    ask_put_words(argv, 3, count + 1);
    term_print(stdout, " in %s%s\n", argv[1], ask_until(time_text, until));
    return EXIT_OK;
}

static int delete_override(const struct cli_command *command, int count, char **argv)
{
    struct ask ask;
    (void)count;
    ask_begin(&ask, "WEIR.OVERRIDE", "DEL", argv[1], argv[2], NULL);
    int status = ask_once(command->name, &ask, ask_print_nothing);
    if (status != EXIT_OK || ask_options.json)
        return status;
    term_print(stdout, "%s has the limits of %s again\n", argv[2], argv[1]);
    return EXIT_OK;
}

static const struct args_verb verbs[] = {
    {"list", NULL, 1, 1, "list POLICY", NULL, list_overrides},
    {"set", NULL, 3, -1, "set POLICY KEY LIMITS", "for|reason", set_override},
    {"delete", "del", 2, 2, "delete POLICY KEY", NULL, delete_override},
};

static const struct args_option options[] = {
    OPT_TEXT("for", 0, &time_text, "TIME", "set: for so long, such as 2h; then as the others"),
    OPT_TEXT("reason", 0, &reason, "TEXT", "set: why, for those who come later"),
    ASK_SERVER,
    ASK_JSON,
};

const struct cli_command command_override = {
    .name = "override",
    .usage = "list POLICY | set POLICY KEY LIMITS | delete POLICY KEY\n"
             "Another limit for one key, or for all keys that begin alike: 'internal:*'.\n",
    ARGS_OPTIONS(options),
    .more = "A key keeps what it has spent. Of several that fit, the key itself comes first, then\n"
            "the longest prefix. Exit status: 0, or 2 on an error.\n"
            "\n"
            "Examples\n"
            "  weir override set api org:acme 1000/s --for 2h --reason launch\n"
            "  weir override set api 'internal:*' unlimited\n"
            "  weir override list api\n"
            "  weir override delete api org:acme\n",
    .least = 1,
    ARGS_VERBS(verbs),
};
