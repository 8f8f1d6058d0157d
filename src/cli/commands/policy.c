/* SPDX-License-Identifier: MIT */
/*
 * weir policy: the policies of a server: what they allow, what they have decided, in which mode.
 */
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/sat.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/term.h"
#include "cli/words.h"

static bool fresh, for_all;
static const char *percent_text, *time_text;

/* ---- list ---- */

/* Rows of text in columns as wide as the widest. */
static int widest_policy_field(const struct resp_value *list, const char *name, const char *title)
{
    int width = (int)strlen(title);
    for (size_t i = 0; i < list->count; i++) {
        int columns = ask_width(ask_text(&list->elements[i], name));
        width = columns > width ? columns : width;
    }
    return width;
}

static void put_column(struct slice text, int width)
{
    ask_put(stdout, text);
    printf("%*s", width + 2 - ask_width(text), "");
}

static void print_mode_end(const struct resp_value *policy, const char *name, const char *before,
                           const char *behind)
{
    char text[HUMANIZE_MAX];
    if (ask_has(policy, name))
        printf("%s%s%s", before, words_duration_up(sat_mul(ask_number(policy, name), WEIR_MS), text), behind);
}

static void print_end_of_all(const struct resp_value *policy)
{
    if (ask_has(policy, "mode_of_all_ends_in_ms"))
        print_mode_end(policy, "mode_of_all_ends_in_ms", " for another ", "");
    else
        fputs(" until somebody ends it", stdout);
}

static void format_policy_mode(const struct resp_value *policy, char *text, size_t size)
{
    struct slice mode = ask_text(policy, "mode");
    int64_t percent = ask_number(policy, "percent");
    if (slice_is(mode, "enforce") && percent > 0 && percent < 100)
        (void)snprintf(text, size, "enforce %d%%", (int)percent);
    else
        (void)snprintf(text, size, "%.*s", (int)(mode.len < 16 ? mode.len : 16), mode.bytes);
}

/* What stands above all of them is what counts. */
static void print_mode_in_force(const struct resp_value *policy, char *text, size_t size)
{
    struct slice all = ask_text(policy, "mode_of_all");
    if (ask_has(policy, "mode_of_all"))
        (void)snprintf(text, size, "%.*s", (int)(all.len < 16 ? all.len : 16), all.bytes);
    else
        format_policy_mode(policy, text, size);
}

static int print_policies(const struct resp_value *list)
{
    if (list->count == 0) {
        puts("no policies; weir policy set NAME LIMITS makes one");
        return EXIT_OK;
    }
    int name = widest_policy_field(list, "name", "policy"),
        limits = widest_policy_field(list, "limits", "limits");
    const struct resp_value *first = &list->elements[0];
    printf("%-*s  %-*s  %-12s %14s %14s %16s\n", name, "policy", limits, "limits", "mode", "allowed",
           "refused", "shadow-refused");
    for (size_t i = 0; i < list->count; i++) {
        const struct resp_value *policy = &list->elements[i];
        char mode[24], allowed[HUMANIZE_MAX], refused[HUMANIZE_MAX], shadow[HUMANIZE_MAX];
        print_mode_in_force(policy, mode, sizeof mode);
        put_column(ask_text(policy, "name"), name);
        put_column(ask_text(policy, "limits"), limits);
        printf("%-12s %14s %14s %16s\n", mode, words_number(ask_number(policy, "allowed"), allowed),
               words_number(ask_number(policy, "refused"), refused),
               words_number(ask_number(policy, "shadow_refused"), shadow));
    }
    for (size_t i = 0; i < list->count; i++) {
        const struct resp_value *frozen = weir_resp_get(&list->elements[i], "frozen");
        if (!frozen || frozen->count == 0)
            continue;
        term_print(stdout, "keys of %.*s are decided elsewhere; weir policy show tells which, and where\n",
                   TERM_SLICE(ask_text(&list->elements[i], "name")));
    }
    if (ask_has(first, "mode_of_all")) {
        term_print(stdout, "all of them are %.*s", TERM_SLICE(ask_text(first, "mode_of_all")));
        print_end_of_all(first);
        puts("; weir policy mode --all enforce ends that");
    }
    return EXIT_OK;
}

/* ---- show ---- */

/* ", 812 shadow-refused (0.07 %)", of all calls. 100 is said of all of them only. */
static void print_share_of_calls(const char *what, int64_t part, int64_t calls)
{
    char text[HUMANIZE_MAX];
    printf(", %s %s", words_number(part, text), what);
    if (part <= 0 || calls <= 0)
        return;
    double percent = 100.0 * (double)part / (double)calls;
    if (percent >= 10)
        printf(" (%d %%)", (int)percent);
    else if (percent >= 0.01)
        printf(" (%.2g %%)", percent);
    else
        fputs(" (less than 0.01 %)", stdout);
}

static void print_policy_counts(const struct resp_value *policy)
{
    char text[HUMANIZE_MAX];
    int64_t allowed = ask_number(policy, "allowed"), refused = ask_number(policy, "refused");
    int64_t calls = sat_add(allowed, refused);
    printf("%s allowed", words_number(allowed, text));
    print_share_of_calls("refused", refused, calls);
    if (ask_number(policy, "shadow_refused") > 0 || slice_is(ask_text(policy, "mode"), "shadow"))
        print_share_of_calls("shadow-refused", ask_number(policy, "shadow_refused"), calls);
    if (ask_has(policy, "candidate"))
        print_share_of_calls("refused by the candidate", ask_number(policy, "candidate_refused"), calls);
    fputc('\n', stdout);
}

static void print_policy_line(const char *title, struct slice text)
{
    term_print(stdout, "  %-12s%.*s\n", title, TERM_SLICE(text));
}

static void print_whole_mode(const struct resp_value *policy)
{
    char mode[24];
    format_policy_mode(policy, mode, sizeof mode);
    printf("  %-12s%s", "mode", mode);
    print_mode_end(policy, "mode_ends_in_ms", ", for another ", "");
    if (ask_has(policy, "mode_of_all")) {
        term_print(stdout, "; but all policies are %.*s", TERM_SLICE(ask_text(policy, "mode_of_all")));
        print_end_of_all(policy);
    }
    fputc('\n', stdout);
}

/* Who set it, and what the file says, if that is something else. */
static void print_origin(const struct resp_value *policy)
{
    term_print(stdout, "  %-12s%.*s", "set by", TERM_SLICE(ask_text(policy, "from")));
    if (slice_is(ask_text(policy, "from"), "command") && ask_has(policy, "file_limits"))
        term_print(stdout, " (the file says %.*s, %.*s)", TERM_SLICE(ask_text(policy, "file_limits")),
                   TERM_SLICE(ask_text(policy, "file_mode")));
    fputc('\n', stdout);
}

static int print_policy_details(const struct resp_value *policy)
{
    char keys[HUMANIZE_MAX], capacity[HUMANIZE_MAX];
    term_print(stdout, "%.*s: ", TERM_SLICE(ask_text(policy, "name")));
    print_policy_counts(policy);
    print_policy_line("limits", ask_text(policy, "limits"));
    if (ask_has(policy, "candidate"))
        print_policy_line("candidate", ask_text(policy, "candidate"));
    print_whole_mode(policy);
    print_origin(policy);
    printf("  %-12s%s, room for %s\n", "keys", words_number(ask_number(policy, "keys"), keys),
           words_number(ask_number(policy, "capacity"), capacity));
    if (ask_number(policy, "overrides") > 0)
        printf("  %-12s%" PRId64 " (weir override list)\n", "overrides", ask_number(policy, "overrides"));
    const struct resp_value *frozen = weir_resp_get(policy, "frozen");
    for (size_t i = 0; frozen && i < frozen->count; i++)
        print_policy_line("frozen", frozen->elements[i].text);
    if (ask_number(policy, "older_limits_end_in_ms") < 0) /* somebody may still be asking them alone */
        puts("  the limits of before must agree, too; how long is known in a moment");
    else
        print_mode_end(policy, "older_limits_end_in_ms",
                       "  the limits of before must agree, too, for another ", "\n");
    return EXIT_OK;
}

/* ---- changes ---- */

static void print_mode_change(char **argv, int count)
{
    char until[ASK_UNTIL_MAX];
    int at = for_all ? 1 : 2;
    const char *mode = argv[at], *share = percent_text;
    if (!share && count > at)
        share = argv[at + 1]; /* enforce 25% */
    bool enforce = mode[0] == 'e' || mode[0] == 'E';
    if (for_all && enforce) {
        puts("every policy has its own mode again");
        return;
    }
    term_print(stdout, "%s %s %s", for_all ? "all policies" : argv[1], for_all ? "are" : "is",
               enforce ? "enforced" : mode);
    if (share)
        printf(" for %.*s %% of the keys", (int)strspn(share, "0123456789"), share);
    fputs(ask_until(time_text, until), stdout);
    if (for_all)
        printf("%s; weir policy mode --all enforce ends it", time_text ? "" : " until somebody ends it");
    fputc('\n', stdout);
}

/* What goes before that: "OK; in force now, ..." of a server whose disk is ill. */
static int print_proviso(const struct resp_value *value)
{
    static const char ok[] = "OK; ";
    size_t len = sizeof ok - 1;
    if (value->type == RESP_SIMPLE && value->text.len > len && memcmp(value->text.bytes, ok, len) == 0) {
        term_print(stdout, "%.*s:\n", (int)(value->text.len - len), value->text.bytes + len);
    }
    return EXIT_OK;
}

static int list_policies(const struct cli_command *command, int count, char **argv)
{
    struct ask ask;
    (void)count;
    (void)argv;
    ask_begin(&ask, "WEIR.POLICY", "LIST", NULL);
    return ask_once(command->name, &ask, print_policies);
}

static int show_policy(const struct cli_command *command, int count, char **argv)
{
    struct ask ask;
    (void)count;
    ask_begin(&ask, "WEIR.POLICY", "SHOW", argv[1], NULL);
    return ask_once(command->name, &ask, print_policy_details);
}

/* Limits may be several words, as the shell leaves them. */
static int set_policy(const struct cli_command *command, int count, char **argv)
{
    struct ask ask;
    ask_begin(&ask, "WEIR.POLICY", "SET", NULL);
    for (int i = 1; i <= count; i++)
        ask_add(&ask, argv[i]);
    if (fresh)
        ask_add(&ask, "FRESH");
    int status = ask_once(command->name, &ask, ask_print_nothing);
    if (status != EXIT_OK || ask_options.json)
        return status;
    term_print(stdout, "%s has the limits ", argv[1]);
    ask_put_words(argv, 2, count + 1);
    puts(fresh ? ", and nobody has spent anything" : "");
    return EXIT_OK;
}

static int set_candidate(const struct cli_command *command, int count, char **argv)
{
    struct ask ask;
    ask_begin(&ask, "WEIR.POLICY", "CANDIDATE", NULL);
    for (int i = 1; i <= count; i++)
        ask_add(&ask, argv[i]);
    int status = ask_once(command->name, &ask, ask_print_nothing);
    if (status != EXIT_OK || ask_options.json)
        return status;
    if (count == 2 && strcasecmp(argv[2], "none") == 0) {
        term_print(stdout, "%s has no candidate any more\n", argv[1]);
        return EXIT_OK;
    }
    term_print(stdout, "%s is asked beside the candidate ", argv[1]);
    ask_put_words(argv, 2, count + 1);
    term_print(stdout, "; weir top %s --candidate shows whom that would refuse\n", argv[1]);
    return EXIT_OK;
}

static int delete_policy(const struct cli_command *command, int count, char **argv)
{
    struct ask ask;
    (void)count;
    ask_begin(&ask, "WEIR.POLICY", "DEL", argv[1], NULL);
    int status = ask_once(command->name, &ask, ask_print_nothing);
    if (status != EXIT_OK || ask_options.json)
        return status;
    struct weir_error err;
    struct cli_client *client = client_open(ask_options.server, &err);
    struct slice data = ask_info(ask_quietly(client, "INFO", "persistence", NULL), "data");
    if (data.len == 0 || slice_is(data, "none"))
        term_print(stdout, "%s is gone%s\n", argv[1],
                   data.len > 0 ? ", and what its keys had spent is forgotten" : "");
    else
        term_print(stdout,
                   "%s is gone; what its keys had spent is kept in %.*s/retired/%s-*.weir, which weir load "
                   "brings back\n",
                   argv[1], TERM_SLICE(data), argv[1]);
    client_close(client);
    return EXIT_OK;
}

/* enforce 25% */
static bool is_percent_argument(const char *word)
{
    size_t digits = strspn(word, "0123456789");
    return digits > 0 && strcmp(word + digits, "%") == 0;
}

static int set_policy_mode(const struct cli_command *command, int count, char **argv)
{
    if (!for_all && count > 0 && strcmp(argv[1], "*") == 0)
        return args_fail(command->name, "for all policies write --all instead of *");
    int named = for_all ? 0 : 1;
    bool share = count == 2 + named && is_percent_argument(argv[2 + named]) && !percent_text;
    if (count != 1 + named + share)
        return args_fail(command->name, "write: weir policy mode NAME|--all enforce [25%%]|shadow|disabled");
    struct ask ask;
    ask_begin(&ask, "WEIR.POLICY", "MODE", for_all ? "*" : argv[1], argv[1 + named], NULL);
    if (share)
        ask_add(&ask, argv[2 + named]);
    ask_add_option(&ask, "PERCENT", percent_text);
    ask_add_option(&ask, "FOR", time_text);
    int status = ask_once(command->name, &ask, print_proviso);
    if (status == EXIT_OK && !ask_options.json)
        print_mode_change(argv, count);
    return status;
}

static const struct args_verb verbs[] = {
    {"list", NULL, 0, 0, "list", NULL, list_policies},
    {"show", NULL, 1, 1, "show NAME", NULL, show_policy},
    {"set", NULL, 2, -1, "set NAME LIMITS", "fresh", set_policy},
    {"del", "delete", 1, 1, "del NAME", NULL, delete_policy},
    {"mode", NULL, 0, -1, "", "percent|for|all", set_policy_mode},
    {"candidate", NULL, 2, -1, "candidate NAME LIMITS|none", NULL, set_candidate},
};

static const struct args_option options[] = {
    OPT_FLAG("fresh", 0, &fresh, "set: nobody has spent anything"),
    OPT_TEXT("percent", 0, &percent_text, "P",
             "mode enforce: for so many of 100 keys; the others only count; the same as enforce P%"),
    OPT_TEXT("for", 0, &time_text, "TIME", "mode: for so long, such as 30m; then as before"),
    OPT_FLAG("all", 0, &for_all, "mode: above all policies, instead of NAME; enforce ends it"),
    ASK_SERVER,
    ASK_JSON,
};

const struct cli_command command_policy = {
    .name = "policy",
    .usage = "list | show NAME | set NAME LIMITS | del NAME | mode NAME MODE |\n"
             "                   candidate NAME LIMITS\n"
             "See and change the policies of a server; MODE is enforce, shadow or disabled.\n",
    ARGS_OPTIONS(options),
    .more = "What was spent stays spent when limits change. What is set here is gone when a server\n"
            "without --data stops, and what the configuration says of a policy counts again when it\n"
            "is reloaded. A candidate is only tried: what its limits would refuse is counted; none as\n"
            "LIMITS ends that.\n"
            "Exit status: 0, or 2 on an error.\n"
            "\n"
            "Examples\n"
            "  weir policy list\n"
            "  weir policy show login\n"
            "  weir policy set api '100/s burst=200, 10k/h'\n"
            "  weir policy mode login enforce 5%\n"
            "  weir policy candidate api 80/s burst=100\n"
            "  weir policy mode --all disabled --for 30m\n",
    ARGS_VERBS(verbs),
};
