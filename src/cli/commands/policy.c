/* SPDX-License-Identifier: MIT */
/*
 * weir policy: the policies of a server: what they allow, what they have decided, in which mode.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/sat.h"
#include "base/text.h"
#include "cli/args.h"
#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/words.h"

static const char help[] =
    "usage: weir policy list | show NAME | set NAME LIMITS | del NAME | mode NAME MODE\n"
    "See and change the policies of a server; MODE is enforce, shadow or disabled.\n"
    "\n"
    "      --fresh          set: nobody has spent anything\n"
    "      --percent P      mode enforce: for so many of 100 keys; the others only count;\n"
    "                       the same as enforce P%\n"
    "      --for TIME       mode: for so long, such as 30m; then as before\n"
    "      --all            mode: above all policies, instead of NAME; enforce ends it\n" ASK_HELP "\n"
    "What was spent stays spent when limits change. What is set here is gone when a server\n"
    "without --data stops, and what the configuration says of a policy counts again when it\n"
    "is reloaded.\n"
    "Exit status: 0, or 2 on an error.\n"
    "\n"
    "Examples\n"
    "  weir policy list\n"
    "  weir policy show login\n"
    "  weir policy set api '100/s burst=200, 10k/h'\n"
    "  weir policy mode login enforce 5%\n"
    "  weir policy mode --all disabled --for 30m\n";

struct policy_options {
    struct ask_options common;
    bool fresh, all;
    const char *percent, *time;
};

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
        fputs("keys of ", stdout);
        ask_put(stdout, ask_text(&list->elements[i], "name"));
        puts(" are decided elsewhere; weir policy show tells which, and where");
    }
    if (ask_has(first, "mode_of_all")) {
        fputs("all of them are ", stdout);
        ask_put(stdout, ask_text(first, "mode_of_all"));
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
    printf("  %-12s", title);
    ask_put(stdout, text);
    fputc('\n', stdout);
}

static void print_whole_mode(const struct resp_value *policy)
{
    char mode[24];
    format_policy_mode(policy, mode, sizeof mode);
    printf("  %-12s%s", "mode", mode);
    print_mode_end(policy, "mode_ends_in_ms", ", for another ", "");
    if (ask_has(policy, "mode_of_all")) {
        fputs("; but all policies are ", stdout);
        ask_put(stdout, ask_text(policy, "mode_of_all"));
        print_end_of_all(policy);
    }
    fputc('\n', stdout);
}

/* Who set it, and what the file says, if that is something else. */
static void print_origin(const struct resp_value *policy)
{
    printf("  %-12s", "set by");
    ask_put(stdout, ask_text(policy, "from"));
    if (slice_is(ask_text(policy, "from"), "command") && ask_has(policy, "file_limits")) {
        fputs(" (the file says ", stdout);
        ask_put(stdout, ask_text(policy, "file_limits"));
        fputs(", ", stdout);
        ask_put(stdout, ask_text(policy, "file_mode"));
        fputc(')', stdout);
    }
    fputc('\n', stdout);
}

static int print_policy_details(const struct resp_value *policy)
{
    char keys[HUMANIZE_MAX], capacity[HUMANIZE_MAX];
    ask_put(stdout, ask_text(policy, "name"));
    fputs(": ", stdout);
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

/* ---- words ---- */

static bool policy_needs_words(int count, int least, int most, const char *how)
{
    if (count >= least && count <= most)
        return true;
    fprintf(stderr, "weir policy: write: weir policy %s\n", how);
    return false;
}

/* Limits may be several words, as the shell leaves them. */
static bool add_policy_set(struct ask *ask, const struct policy_options *options, char **words, int count)
{
    if (!policy_needs_words(count, 2, ASK_WORDS_MAX - 8, "set NAME LIMITS"))
        return false;
    bool good = true;
    for (int i = 0; i < count; i++)
        good = good && ask_add(ask, words[i]);
    return good && (!options->fresh || ask_add(ask, "FRESH"));
}

/* enforce 25% */
static bool is_percent_argument(const char *word)
{
    size_t digits = strspn(word, "0123456789");
    return digits > 0 && strcmp(word + digits, "%") == 0;
}

static bool add_mode(struct ask *ask, const struct policy_options *options, char **words, int count)
{
    if (!options->all && count > 0 && strcmp(words[0], "*") == 0) {
        fputs("weir policy: for all policies write --all instead of *\n", stderr);
        return false;
    }
    int named = options->all ? 0 : 1;
    bool share = count == 2 + named && is_percent_argument(words[1 + named]) && !options->percent;
    if (!policy_needs_words(count, 1 + named + share, 1 + named + share,
                            "mode NAME|--all enforce [25%]|shadow|disabled"))
        return false;
    bool good = ask_add(ask, options->all ? "*" : words[0]) && ask_add(ask, words[named]);
    if (share)
        good = good && ask_add(ask, words[1 + named]);
    if (options->percent)
        good = good && ask_add(ask, "PERCENT") && ask_add(ask, options->percent);
    if (options->time)
        good = good && ask_add(ask, "FOR") && ask_add(ask, options->time);
    return good;
}

static bool add_words(struct ask *ask, const char *verb, const struct policy_options *options, char **words,
                      int count)
{
    if (strcmp(verb, "list") == 0)
        return policy_needs_words(count, 0, 0, "list");
    if (strcmp(verb, "set") == 0)
        return add_policy_set(ask, options, words, count);
    if (strcmp(verb, "mode") == 0)
        return add_mode(ask, options, words, count);
    return policy_needs_words(count, 1, 1, strcmp(verb, "show") == 0 ? "show NAME" : "del NAME") &&
           ask_add(ask, words[0]);
}

static int unknown_policy_verb(const char *verb)
{
    static const char *const verbs[] = {"list", "show", "set", "del", "mode"};
    struct nearest near = weir_nearest(verb, strlen(verb));
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        (void)weir_nearest_try(&near, verbs[i]);
    args_complain("policy", "unknown word", verb);
    if (near.found)
        fprintf(stderr, "; did you mean %s?\n", near.found);
    else
        fputs("; write list, show, set, del or mode\n", stderr);
    return EXIT_ERROR;
}

/* An option that does nothing here was meant for something else. */
static bool policy_options_fit(const char *verb, const struct policy_options *options)
{
    bool mode = strcmp(verb, "mode") == 0;
    const char *wrong = options->fresh && strcmp(verb, "set") != 0 ? "--fresh goes with set"
                        : options->percent && !mode                ? "--percent goes with mode"
                        : options->time && !mode                   ? "--for goes with mode"
                        : options->all && !mode                    ? "--all goes with mode"
                                                                   : NULL;
    if (wrong)
        fprintf(stderr, "weir policy: %s\n", wrong);
    return !wrong;
}

/* ---- what a change has done ---- */

static void put_words(char **words, int from, int to)
{
    for (int i = from; i < to; i++) {
        if (i > from)
            fputc(' ', stdout);
        ask_put(stdout, (struct slice){words[i], strlen(words[i])});
    }
}

static void print_mode_change(const struct policy_options *options, char **words, int count)
{
    char until[ASK_UNTIL_MAX];
    int at = options->all ? 1 : 2;
    const char *mode = words[at], *share = options->percent;
    if (!share && count > at + 1)
        share = words[at + 1]; /* enforce 25% */
    bool enforce = mode[0] == 'e' || mode[0] == 'E';
    if (options->all && enforce) {
        puts("every policy has its own mode again");
        return;
    }
    if (options->all)
        fputs("all policies are ", stdout);
    else
        put_words(words, 1, 2);
    printf("%s%s", options->all ? "" : " is ", enforce ? "enforced" : "");
    if (!enforce)
        ask_put(stdout, (struct slice){mode, strlen(mode)});
    if (share)
        printf(" for %.*s %% of the keys", (int)strspn(share, "0123456789"), share);
    fputs(ask_until(options->time, until), stdout);
    if (options->all)
        printf("%s; weir policy mode --all enforce ends it", options->time ? "" : " until somebody ends it");
    fputc('\n', stdout);
}

/* What goes before that: "OK; in force now, ..." of a server whose disk is ill. */
static int print_proviso(const struct resp_value *value)
{
    static const char ok[] = "OK; ";
    size_t len = sizeof ok - 1;
    if (value->type == RESP_SIMPLE && value->text.len > len && memcmp(value->text.bytes, ok, len) == 0) {
        ask_put(stdout, (struct slice){value->text.bytes + len, value->text.len - len});
        puts(":");
    }
    return EXIT_OK;
}

/* The data directory of the server, or "none"; "": it does not say. */
static void find_data(const char *url, char *text, size_t size)
{
    static const struct slice words[] = {{"INFO", 4}, {"persistence", 11}};
    struct weir_error err;
    struct cli_client *client = client_open(url, &err);
    const struct resp_value *info = client ? client_ask(client, words, 2, &err) : NULL;
    struct slice data = info ? ask_info(info->text, "data") : (struct slice){"", 0};
    (void)snprintf(text, size, "%.*s", (int)(data.len < size ? data.len : 0), data.bytes);
    client_close(client);
}

static void print_policy_deletion(const struct policy_options *options, char **words)
{
    char data[512];
    find_data(options->common.server, data, sizeof data);
    put_words(words, 1, 2);
    if (!data[0] || strcmp(data, "none") == 0) {
        puts(data[0] ? " is gone, and what its keys had spent is forgotten" : " is gone");
        return;
    }
    fputs(" is gone; what its keys had spent is kept in ", stdout);
    ask_put(stdout, (struct slice){data, strlen(data)});
    fputs("/retired/", stdout);
    put_words(words, 1, 2);
    puts("-*.weir, which weir load brings back");
}

static int print_policy_change(const char *verb, const struct policy_options *options, char **words,
                               int count)
{
    if (strcmp(verb, "mode") == 0) {
        print_mode_change(options, words, count);
    } else if (strcmp(verb, "set") == 0) {
        put_words(words, 1, 2);
        fputs(" has the limits ", stdout);
        put_words(words, 2, count);
        puts(options->fresh ? ", and nobody has spent anything" : "");
    } else if (strcmp(verb, "del") == 0) {
        print_policy_deletion(options, words);
    }
    return EXIT_OK;
}

static int run_policy(const struct policy_options *options, char **words, int count)
{
    static const struct {
        const char *verb, *word;
        int (*print)(const struct resp_value *value);
    } verbs[] = {{"list", "LIST", print_policies},
                 {"show", "SHOW", print_policy_details},
                 {"set", "SET", ask_print_nothing},
                 {"del", "DEL", ask_print_nothing},
                 {"mode", "MODE", print_proviso}};
    const char *verb = count > 0 ? words[0] : "list";
    if (strcmp(verb, "delete") == 0)
        verb = "del";
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        struct ask ask = {{"WEIR.POLICY", verbs[i].word}, 2};
        if (strcmp(verb, verbs[i].verb) != 0)
            continue;
        if (!policy_options_fit(verb, options) ||
            !add_words(&ask, verb, options, words + 1, count > 0 ? count - 1 : 0))
            return EXIT_ERROR;
        int status = ask_once("policy", &options->common, &ask, verbs[i].print);
        return status == EXIT_OK && !options->common.json ? print_policy_change(verb, options, words, count)
                                                          : status;
    }
    return unknown_policy_verb(verb);
}

int cmd_policy(int argc, char **argv)
{
    struct policy_options options = {0};
    const struct args_option table[] = {
        ASK_OPTIONS(options.common),     {"fresh", 0, &options.fresh, NULL},
        {"all", 0, &options.all, NULL},  {"percent", 0, NULL, &options.percent},
        {"for", 0, NULL, &options.time},
    };
    int count = args_read(argc, argv, table, sizeof table / sizeof table[0]);
    if (count < 0)
        return EXIT_ERROR;
    if (options.common.help) {
        fputs(help, stdout);
        return EXIT_OK;
    }
    return run_policy(&options, argv + 1, count);
}
