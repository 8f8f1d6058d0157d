/* SPDX-License-Identifier: MIT */
/*
 * weir take, peek, acquire, reserve, give, charge, reset, explain: the questions about one key. The exit
 * status of the first four is the answer: 0 allowed, 1 refused, 2 error.
 */
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/sat.h"
#include "cli/args.h"
#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/hints.h"
#include "cli/term.h"
#include "cli/words.h"

#define TAKES_ID      1
#define TAKES_TIMEOUT 2
#define TAKES_N       4
#define TAKES_AND     8
#define IS_VERDICT    16
#define TAKES_TTL     32

struct key_command {
    const char *name, *command; /* what people type, what the server is asked */
    unsigned takes;
    const char *done; /* printed if it is no verdict; "": what the server says */
    const char *help;
};

#define OPTION_ID    "      --id ID          the same id again gets the first answer, and counts once\n"
#define OPTION_QUIET "  -q, --quiet          say nothing; the exit status is the answer\n"
#define STATUS_HELP                                                                                          \
    "\n"                                                                                                     \
    "N is the number of units, 1 if it is left out.\n"                                                       \
    "Exit status: 0 allowed, 1 refused, 2 error.\n"                                                          \
    "\n"
#define DONE_HELP                                                                                            \
    "\n"                                                                                                     \
    "Exit status: 0 done, 2 error.\n"                                                                        \
    "\n"

static const struct key_command key_commands[] = {
    {"take", "WEIR.TAKE", TAKES_ID | TAKES_N | TAKES_AND | IS_VERDICT, "",
     "usage: weir take [OPTION]... POLICY KEY [N] [and POLICY KEY [N]]...\n"
     "Take units now, or not at all; of several keys from all of them or from none.\n"
     "\n" OPTION_ID OPTION_QUIET ASK_HELP STATUS_HELP "Examples\n"
     "  weir take api user:42\n"
     "  weir take api user:42 5 and org org:7 5 --id 8f1c\n"
     "  weir take -q deploy prod && ./deploy.sh\n"},
    {"peek", "WEIR.PEEK", TAKES_N | IS_VERDICT, "",
     "usage: weir peek [OPTION]... POLICY KEY [N]\n"
     "What a take would be told; nothing changes.\n"
     "\n" OPTION_QUIET ASK_HELP STATUS_HELP "Examples\n"
     "  weir peek api user:42\n"
     "  weir peek --json api user:42 100\n"},
    {"acquire", "WEIR.ACQUIRE", TAKES_TIMEOUT | TAKES_N | IS_VERDICT, "",
     "usage: weir acquire [OPTION]... POLICY KEY [N]\n"
     "Wait for units, first come, first served; refused at once if it would take too long.\n"
     "\n"
     "      --timeout TIME   the longest wait, such as 250ms (default: the timeout= of\n"
     "                       the limit, else as long as it takes)\n" OPTION_QUIET ASK_HELP STATUS_HELP
     "Examples\n"
     "  weir acquire api user:42\n"
     "  weir acquire --timeout 5s jobs nightly && ./job.sh\n"},
    {"reserve", "WEIR.RESERVE", TAKES_ID | TAKES_TIMEOUT | TAKES_TTL | TAKES_N | TAKES_AND | IS_VERDICT, "",
     "usage: weir reserve [OPTION]... POLICY KEY [N] [and POLICY KEY [N]]...\n"
     "Take units now, and say later how many were used: weir commit, weir cancel.\n"
     "\n"
     "      --ttl TIME       how long it may take, such as 2m; then all of it stays spent\n"
     "                       (default, and the most: as the policy says; at most 24h)\n"
     "      --timeout TIME   units that are due within this time are promised; one key only\n" OPTION_ID
     "  -q, --quiet          say nothing but the id of the reservation\n" ASK_HELP STATUS_HELP "Examples\n"
     "  weir reserve llm-tokens org:7 4000\n"
     "  id=$(weir reserve -q llm-tokens org:7 4000) && ./ask.sh && weir commit \"$id\" 1830\n"},
    {"give", "WEIR.GIVE", TAKES_ID | TAKES_N, "",
     "usage: weir give [OPTION]... POLICY KEY [N]\n"
     "Hand unused units back; 1 if N is left out.\n"
     "\n" OPTION_ID OPTION_QUIET ASK_HELP DONE_HELP "Examples\n"
     "  weir give api user:42 3\n"},
    {"charge", "WEIR.CHARGE", TAKES_ID | TAKES_N, "charged",
     "usage: weir charge [OPTION]... POLICY KEY [N]\n"
     "Count units that have been used already, even into debt; 1 if N is left out.\n"
     "\n" OPTION_ID OPTION_QUIET ASK_HELP DONE_HELP "Examples\n"
     "  weir charge llm-tokens org:7 1830\n"},
    {"reset", "WEIR.RESET", 0, "reset",
     "usage: weir reset [OPTION]... POLICY KEY\n"
     "Forget what a key has spent.\n"
     "\n" OPTION_QUIET ASK_HELP DONE_HELP "Examples\n"
     "  weir reset login user:42\n"},
    {"explain", "WEIR.EXPLAIN", 0, NULL,
     "usage: weir explain [OPTION]... POLICY KEY\n"
     "Each limit of a key: how much is used, what is left, when it frees.\n"
     "\n" OPTION_QUIET ASK_HELP DONE_HELP "Examples\n"
     "  weir explain api user:42\n"
     "  weir explain --json api user:42 | jq .limits\n"},
};
#define KEY_COMMANDS (sizeof key_commands / sizeof key_commands[0])

struct key_options {
    struct ask_options common;
    bool quiet;
    const char *id, *timeout, *ttl;
};

/* ---- the answer ---- */

static bool slice_is_word(struct slice text, const char *word)
{
    return slice_is(text, word);
}

static void print_allowed(const struct resp_value *answer)
{
    char text[HUMANIZE_MAX];
    printf("%sallowed%s", term_colour(stdout, TERM_GOOD), term_colour(stdout, TERM_PLAIN));
    if (ask_number(answer, "waited_ms") > 0)
        printf(" after %s", words_duration(sat_mul(ask_number(answer, "waited_ms"), WEIR_MS), text));
    if (slice_is_word(ask_text(answer, "reason"), "shadow")) {
        fputs(" in shadow: ", stdout);
        ask_put(stdout, ask_text(answer, "limit"));
        fputs(" would have refused it\n", stdout);
        return;
    }
    int64_t remaining = ask_number(answer, "remaining");
    if (slice_is_word(ask_text(answer, "reason"), "disabled"))
        puts(": limits are disabled, nothing is counted");
    else if (remaining == INT64_MAX)
        puts(", no limit");
    else
        printf(", %s left\n", words_number(remaining, text));
}

/* The part of a line that begins with this; an empty one: there is none. */
static struct slice part_from(struct slice text, const char *word)
{
    size_t len = strlen(word);
    for (size_t i = 0; i + len <= text.len; i++)
        if (memcmp(text.bytes + i, word, len) == 0) {
            const char *start = text.bytes + i, *end = memchr(start, '\n', text.len - i);
            return (struct slice){start, end ? (size_t)(end - start) : text.len - i};
        }
    return (struct slice){"", 0};
}

/* One unit never passes: WEIR.EXPLAIN tells why, to those who may look. */
static void print_never(struct cli_client *client, const struct ask *ask)
{
    struct weir_error err;
    const struct slice words[] = {
        {"WEIR.EXPLAIN", 12}, {ask->words[1], strlen(ask->words[1])}, {ask->words[2], strlen(ask->words[2])}};
    const struct resp_value *value = client_ask(client, words, 3, &err);
    struct slice told = value && value->type == RESP_VERBATIM ? value->text : (struct slice){"", 0};
    struct slice owes = part_from(told, "what it owes"), own = part_from(told, "override ");
    fputs(": ", stdout);
    if (owes.len > 0)
        hints_put(stdout, owes.bytes, owes.len);
    else
        fputs("nothing passes", stdout);
    if (own.len > 0 && !slice_is_word(own, "override none")) {
        fputs("; ", stdout);
        ask_put(stdout, own);
    }
    fputc('\n', stdout);
}

/* Of a single key, and one unit of it or a limit that lets none pass. */
static bool is_never_one(const struct resp_value *answer, const struct ask *ask)
{
    bool single = ask->count > 3 && (ask->count == 4 || strcmp(ask->words[4], "AND") != 0);
    return single && (strcmp(ask->words[3], "1") == 0 || slice_is_word(ask_text(answer, "limit"), "blocked"));
}

static void print_refused(const struct resp_value *answer, struct cli_client *client, const struct ask *ask)
{
    char text[HUMANIZE_MAX];
    struct slice reason = ask_text(answer, "reason");
    int64_t retry_ms = ask_number(answer, "retry_after_ms");
    printf("%srefused%s by ", term_colour(stdout, TERM_BAD), term_colour(stdout, TERM_PLAIN));
    ask_put(stdout, ask_text(answer, "limit"));
    if (slice_is_word(reason, "full"))
        fputs(": there is no room", stdout);
    if (slice_is_word(reason, "shared"))
        fputs(", which all keys share that find no room", stdout);
    if (slice_is_word(reason, "lost"))
        fputs(": the coordinator of its fleet is lost", stdout);
    if (slice_is_word(reason, "never") && is_never_one(answer, ask))
        print_never(client, ask);
    else if (retry_ms < 0)
        puts(slice_is_word(reason, "never") ? ": so many never pass" : "");
    else
        printf(": try again in %s\n", words_duration_up(sat_mul(retry_ms, WEIR_MS), text));
}

static void print_reservation(const struct resp_value *answer, bool quiet)
{
    char text[HUMANIZE_MAX];
    if (!quiet)
        fputs("reservation ", stdout);
    ask_put(stdout, ask_text(answer, "id"));
    if (!quiet && ask_number(answer, "due_in_ms") > 0)
        printf(", due in %s", words_duration_up(sat_mul(ask_number(answer, "due_in_ms"), WEIR_MS), text));
    fputc('\n', stdout);
}

static int print_key_verdict(const struct resp_value *answer, const struct key_options *options,
                             struct cli_client *client, const struct ask *ask)
{
    bool allowed = ask_truth(answer, "allowed");
    if (options->common.json)
        ask_print_json(answer);
    else if (!options->quiet && allowed)
        print_allowed(answer);
    else if (!options->quiet)
        print_refused(answer, client, ask);
    if (allowed && !options->common.json && ask_has(answer, "id"))
        print_reservation(answer, options->quiet);
    return allowed ? EXIT_OK : EXIT_REFUSED;
}

static int print_key_answer(const struct key_command *subcommand, const struct key_options *options,
                            const struct resp_value *answer)
{
    if (!subcommand->done && options->common.json)
        json_reprint(stdout, answer->text.bytes, answer->text.len);
    else if (!subcommand->done && !options->quiet)
        hints_lines(stdout, answer->text.bytes, answer->text.len); /* made for people */
    else if (options->common.json)
        ask_print_json(answer);
    else if (!options->quiet && subcommand->done && *subcommand->done)
        puts(subcommand->done);
    else if (!options->quiet)
        term_lines(stdout, answer->text.bytes, answer->text.len);
    return EXIT_OK;
}

/* ---- the question ---- */

/* Numbers as the server reads them. */
struct key_numbers {
    char text[ASK_WORDS_MAX][24];
    size_t count;
};

static const char *key_number(struct key_numbers *numbers, int64_t value)
{
    char *text = numbers->text[numbers->count++];
    (void)snprintf(text, sizeof numbers->text[0], "%" PRId64, value);
    return text;
}

static bool key_complain(const struct key_command *subcommand, const char *what)
{
    fprintf(stderr, "weir %s: %s; weir %s --help shows how it is written\n", subcommand->name, what,
            subcommand->name);
    return false;
}

/* POLICY KEY [N] from words[*at] on. */
static bool add_key_pair(const struct key_command *subcommand, char **words, int count, int *at,
                         struct ask *ask, struct key_numbers *numbers)
{
    int64_t n = 1;
    if (*at + 1 >= count)
        return key_complain(subcommand,
                            *at < count ? "the key is missing" : "a policy and a key are missing");
    if (!ask_add(ask, words[*at]) || !ask_add(ask, words[*at + 1]))
        return key_complain(subcommand, "too many words");
    *at += 2;
    bool has_n = *at < count && !((subcommand->takes & TAKES_AND) && strcasecmp(words[*at], "and") == 0);
    if (has_n && !(subcommand->takes & TAKES_N))
        return key_complain(subcommand, "a policy and a key are enough");
    if (has_n && !args_units(subcommand->name, words[(*at)++], &n))
        return false;
    return !(subcommand->takes & TAKES_N) || ask_add(ask, key_number(numbers, n)) ||
           key_complain(subcommand, "too many words");
}

static bool add_key_pairs(const struct key_command *subcommand, char **words, int count, struct ask *ask,
                          struct key_numbers *numbers)
{
    int at = 0;
    while (add_key_pair(subcommand, words, count, &at, ask, numbers)) {
        if (at == count)
            return true;
        if (!(subcommand->takes & TAKES_AND) || strcasecmp(words[at], "and") != 0)
            return key_complain(subcommand, "too many words");
        at++;
        if (!ask_add(ask, "AND"))
            return key_complain(subcommand, "too many words");
    }
    return false;
}

static bool add_key_time(const struct key_command *subcommand, const char *option, const char *word,
                         const char *text, struct ask *ask, struct key_numbers *numbers)
{
    int64_t time_ns;
    if (!text)
        return true;
    if (!args_time(subcommand->name, option, text, &time_ns))
        return false;
    return (ask_add(ask, word) && ask_add(ask, key_number(numbers, div_up(time_ns, WEIR_MS)))) ||
           key_complain(subcommand, "too many words");
}

static bool add_key_options(const struct key_command *subcommand, const struct key_options *options,
                            struct ask *ask, struct key_numbers *numbers)
{
    if (options->id && !(ask_add(ask, "ID") && ask_add(ask, options->id)))
        return key_complain(subcommand, "too many words");
    if (!add_key_time(subcommand, "timeout", "TIMEOUT", options->timeout, ask, numbers) ||
        !add_key_time(subcommand, "ttl", "TTL", options->ttl, ask, numbers))
        return false;
    if (!subcommand->done && options->common.json)
        (void)ask_add(ask, "JSON");
    return true;
}

static int run_key_command(const struct key_command *subcommand, const struct key_options *options,
                           const struct ask *ask)
{
    struct cli_client *client = client_start(subcommand->name, options->common.server);
    if (!client)
        return EXIT_ERROR;
    if (subcommand->takes & TAKES_TIMEOUT)
        client_patience(client, -1);
    const struct resp_value *answer = client_tell(subcommand->name, client, ask->words, ask->count);
    int status = EXIT_ERROR;
    if (answer)
        status = subcommand->takes & IS_VERDICT ? print_key_verdict(answer, options, client, ask)
                                                : print_key_answer(subcommand, options, answer);
    client_close(client);
    return status;
}

static int read_key_command(const struct key_command *subcommand, int argc, char **argv)
{
    struct key_options options = {0};
    struct ask ask = {{subcommand->command}, 1};
    struct key_numbers numbers = {.count = 0};
    struct args_option table[8] = {ASK_OPTIONS(options.common), {"quiet", 'q', &options.quiet, NULL}};
    size_t known = 4;
    if (subcommand->takes & TAKES_ID)
        table[known++] = (struct args_option){"id", 0, NULL, &options.id};
    if (subcommand->takes & TAKES_TIMEOUT)
        table[known++] = (struct args_option){"timeout", 0, NULL, &options.timeout};
    if (subcommand->takes & TAKES_TTL)
        table[known++] = (struct args_option){"ttl", 0, NULL, &options.ttl};
    int count = args_read(argc, argv, table, known);
    if (count < 0)
        return EXIT_ERROR;
    if (options.common.help) {
        fputs(subcommand->help, stdout);
        return EXIT_OK;
    }
    if (!add_key_pairs(subcommand, argv + 1, count, &ask, &numbers) ||
        !add_key_options(subcommand, &options, &ask, &numbers))
        return EXIT_ERROR;
    return run_key_command(subcommand, &options, &ask);
}

int cmd_key(int argc, char **argv)
{
    for (size_t i = 0; i < KEY_COMMANDS; i++)
        if (strcmp(key_commands[i].name, argv[0]) == 0)
            return read_key_command(&key_commands[i], argc, argv);
    return EXIT_ERROR;
}
