/* SPDX-License-Identifier: MIT */
/*
 * weir take, peek, acquire, reserve, give, charge, reset, explain: the questions about one key. The exit
 * status of the first four is the answer: 0 allowed, 1 refused, 2 error.
 */
#include <string.h>
#include <strings.h>

#include "base/sat.h"
#include "base/text.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/term.h"
#include "cli/words.h"

/* What sets them apart: `own` of the command. */
struct key_kind {
    bool takes_n, takes_and; /* POLICY KEY [N] [and ...] */
    bool is_verdict, waits;
    const char *done; /* printed if it is no verdict; "": what the server says; NULL: what it explains */
};

static bool quiet;
static const char *id;
static int64_t timeout_ns = -1, ttl_ns = -1;

/* ---- the answer ---- */

static void print_allowed(const struct resp_value *answer)
{
    char text[HUMANIZE_MAX];
    printf("%sallowed%s", term_colour(stdout, TERM_GOOD), term_colour(stdout, TERM_PLAIN));
    if (ask_number(answer, "waited_ms") > 0)
        printf(" after %s", words_duration(sat_mul(ask_number(answer, "waited_ms"), WEIR_MS), text));
    if (slice_is(ask_text(answer, "reason"), "shadow")) {
        term_print(stdout, " in shadow: %.*s would have refused it\n", TERM_SLICE(ask_text(answer, "limit")));
        return;
    }
    int64_t remaining = ask_number(answer, "remaining");
    if (slice_is(ask_text(answer, "reason"), "disabled"))
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
static void print_never(struct cli_client *client, char **argv)
{
    const struct resp_value *value = ask_quietly(client, "WEIR.EXPLAIN", argv[1], argv[2], NULL);
    struct slice told = value && value->type == RESP_VERBATIM ? value->text : (struct slice){"", 0};
    struct slice owes = part_from(told, "what it owes"), own = part_from(told, "override ");
    fputs(": ", stdout);
    if (owes.len > 0)
        ask_put_hint(stdout, owes.bytes, owes.len);
    else
        fputs("nothing passes", stdout);
    bool has_own = own.len > 0 && !slice_is(own, "override none");
    term_print(stdout, "%s%.*s\n", has_own ? "; " : "", has_own ? (int)own.len : 0, own.bytes);
}

/* Of a single key, and one unit of it or a limit that lets none pass. */
static bool is_never_one(const struct resp_value *answer, const struct ask *ask)
{
    bool single = ask->count > 3 && (ask->count == 4 || !slice_is(ask->words[4], "AND"));
    return single && (slice_is(ask->words[3], "1") || slice_is(ask_text(answer, "limit"), "blocked"));
}

static void print_refused(const struct resp_value *answer, struct cli_client *client, const struct ask *ask,
                          char **argv)
{
    char text[HUMANIZE_MAX];
    struct slice reason = ask_text(answer, "reason");
    int64_t retry_ms = ask_number(answer, "retry_after_ms");
    printf("%srefused%s by ", term_colour(stdout, TERM_BAD), term_colour(stdout, TERM_PLAIN));
    ask_put(stdout, ask_text(answer, "limit"));
    if (slice_is(reason, "full"))
        fputs(": there is no room", stdout);
    if (slice_is(reason, "shared"))
        fputs(", which all keys share that find no room", stdout);
    if (slice_is(reason, "lost"))
        fputs(": the coordinator of its fleet is lost", stdout);
    if (slice_is(reason, "never") && is_never_one(answer, ask))
        print_never(client, argv);
    else if (retry_ms < 0)
        puts(slice_is(reason, "never") ? ": so many never pass" : "");
    else
        printf(": try again in %s\n", words_duration_up(sat_mul(retry_ms, WEIR_MS), text));
}

static void print_reservation(const struct resp_value *answer)
{
    char text[HUMANIZE_MAX];
    if (!quiet)
        fputs("reservation ", stdout);
    ask_put(stdout, ask_text(answer, "id"));
    if (!quiet && ask_number(answer, "due_in_ms") > 0)
        printf(", due in %s", words_duration_up(sat_mul(ask_number(answer, "due_in_ms"), WEIR_MS), text));
    fputc('\n', stdout);
}

static int print_key_verdict(const struct resp_value *answer, struct cli_client *client,
                             const struct ask *ask, char **argv)
{
    bool allowed = ask_truth(answer, "allowed");
    if (ask_options.json)
        ask_print_json(answer);
    else if (!quiet && allowed)
        print_allowed(answer);
    else if (!quiet)
        print_refused(answer, client, ask, argv);
    if (allowed && !ask_options.json && ask_has(answer, "id"))
        print_reservation(answer);
    return allowed ? EXIT_OK : EXIT_REFUSED;
}

static int print_key_answer(const struct key_kind *kind, const struct resp_value *answer)
{
    if (!kind->done && ask_options.json)
        json_reprint(stdout, answer->text.bytes, answer->text.len);
    else if (ask_options.json)
        ask_print_json(answer);
    else if (!kind->done && !quiet)
        ask_put_hints(stdout, answer->text.bytes, answer->text.len); /* made for people */
    else if (!quiet && *kind->done)
        puts(kind->done);
    else if (!quiet)
        term_lines(stdout, answer->text.bytes, answer->text.len);
    return EXIT_OK;
}

/* ---- the question ---- */

static bool key_complain(const struct cli_command *command, const char *what)
{
    return args_fail(command->name, "%s; weir %s --help shows how it is written", what, command->name), false;
}

/* POLICY KEY [N] [and POLICY KEY [N]]... */
static bool add_key_pairs(const struct cli_command *command, char **words, int count, struct ask *ask)
{
    const struct key_kind *kind = command->own;
    for (int at = 0;; at++) {
        int64_t n = 1;
        if (at + 1 >= count)
            return key_complain(command,
                                at < count ? "the key is missing" : "a policy and a key are missing");
        ask_add(ask, words[at++]);
        ask_add(ask, words[at++]);
        bool joins = at < count && kind->takes_and && strcasecmp(words[at], "and") == 0;
        if (at < count && !joins && !kind->takes_n)
            return key_complain(command, "a policy and a key are enough");
        if (at < count && !joins && !args_units(command->name, words[at++], &n))
            return false;
        if (kind->takes_n)
            ask_add_number(ask, n);
        if (at == count)
            return true;
        if (!kind->takes_and || strcasecmp(words[at], "and") != 0)
            return key_complain(command, "too many words");
        ask_add(ask, "AND");
    }
}

static void add_key_time(struct ask *ask, const char *name, int64_t time_ns)
{
    if (time_ns < 0)
        return;
    ask_add(ask, name);
    ask_add_number(ask, div_up(time_ns, WEIR_MS));
}

static int run_key(const struct cli_command *command, int count, char **argv)
{
    const struct key_kind *kind = command->own;
    char verb[24] = "WEIR.";
    struct ask ask;
    for (size_t i = 0; command->name[i]; i++)
        verb[5 + i] = (char)(command->name[i] - 'a' + 'A');
    ask_begin(&ask, verb, NULL);
    if (!add_key_pairs(command, argv + 1, count, &ask))
        return EXIT_ERROR;
    ask_add_option(&ask, "ID", id);
    add_key_time(&ask, "TIMEOUT", timeout_ns);
    add_key_time(&ask, "TTL", ttl_ns);
    if (!kind->is_verdict && !kind->done && ask_options.json)
        ask_add(&ask, "JSON");
    struct cli_client *client = ask_open(command->name, ask_options.server, kind->waits);
    const struct resp_value *answer = client ? ask_tell(command->name, client, &ask) : NULL;
    int status = EXIT_ERROR;
    if (answer)
        status =
            kind->is_verdict ? print_key_verdict(answer, client, &ask, argv) : print_key_answer(kind, answer);
    client_close(client);
    return status;
}

/* ---- the commands ---- */

#define OPTION_ID    OPT_TEXT("id", 0, &id, "ID", "the same id again gets the first answer, and counts once")
#define OPTION_QUIET OPT_FLAG("quiet", 'q', &quiet, "say nothing; the exit status is the answer")

static const struct args_option plain_options[] = {OPTION_QUIET, ASK_SERVER, ASK_JSON};
static const struct args_option id_options[] = {OPTION_ID, OPTION_QUIET, ASK_SERVER, ASK_JSON};
static const struct args_option acquire_options[] = {
    OPT_TIME(
        "timeout", &timeout_ns, "TIME",
        "the longest wait, such as 250ms (default: the timeout= of the limit, else as long as it takes)"),
    OPTION_QUIET,
    ASK_SERVER,
    ASK_JSON,
};
static const struct args_option reserve_options[] = {
    OPT_TIME("ttl", &ttl_ns, "TIME",
             "how long it may take, such as 2m; then all of it stays spent (default, and the most: as the "
             "policy says; at most 24h)"),
    OPT_TIME("timeout", &timeout_ns, "TIME",
             "units that are due within this time are promised; one key only"),
    OPTION_ID,
    OPT_FLAG("quiet", 'q', &quiet, "say nothing but the id of the reservation"),
    ASK_SERVER,
    ASK_JSON,
};

#define STATUS_HELP                                                                                          \
    "N is the number of units, 1 if it is left out.\n"                                                       \
    "Exit status: 0 allowed, 1 refused, 2 error.\n"                                                          \
    "\n"                                                                                                     \
    "Examples\n"
#define DONE_HELP                                                                                            \
    "Exit status: 0 done, 2 error.\n"                                                                        \
    "\n"                                                                                                     \
    "Examples\n"
#define KEY_COMMAND(NAME, OPTIONS, USAGE, MORE, ...)                                                         \
    {                                                                                                        \
        .name = (NAME), ARGS_OPTIONS(OPTIONS), .usage = "[OPTION]... POLICY KEY" USAGE, .more = (MORE),      \
        .most = -1, .run = run_key, .own = &(const struct key_kind)                                          \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }

const struct cli_command command_take =
    KEY_COMMAND("take", id_options,
                " [N] [and POLICY KEY [N]]...\n"
                "Take units now, or not at all; of several keys from all of them or from none.\n",
                STATUS_HELP "  weir take api user:42\n"
                            "  weir take api user:42 5 and org org:7 5 --id 8f1c\n"
                            "  weir take -q deploy prod && ./deploy.sh\n",
                .takes_n = true, .takes_and = true, .is_verdict = true);

const struct cli_command command_peek = KEY_COMMAND("peek", plain_options,
                                                    " [N]\n"
                                                    "What a take would be told; nothing changes.\n",
                                                    STATUS_HELP "  weir peek api user:42\n"
                                                                "  weir peek --json api user:42 100\n",
                                                    .takes_n = true, .is_verdict = true);

const struct cli_command command_acquire =
    KEY_COMMAND("acquire", acquire_options,
                " [N]\n"
                "Wait for units, first come, first served; refused at once if it would take too long.\n",
                STATUS_HELP "  weir acquire api user:42\n"
                            "  weir acquire --timeout 5s jobs nightly && ./job.sh\n",
                .takes_n = true, .is_verdict = true, .waits = true);

const struct cli_command command_reserve = KEY_COMMAND(
    "reserve", reserve_options,
    " [N] [and POLICY KEY [N]]...\n"
    "Take units now, and say later how many were used: weir commit, weir cancel.\n",
    STATUS_HELP "  weir reserve llm-tokens org:7 4000\n"
                "  id=$(weir reserve -q llm-tokens org:7 4000) && ./ask.sh && weir commit \"$id\" 1830\n",
    .takes_n = true, .takes_and = true, .is_verdict = true, .waits = true);

const struct cli_command command_give =
    KEY_COMMAND("give", id_options,
                " [N]\n"
                "Hand unused units back; 1 if N is left out.\n",
                DONE_HELP "  weir give api user:42 3\n", .takes_n = true, .done = "");

const struct cli_command command_charge =
    KEY_COMMAND("charge", id_options,
                " [N]\n"
                "Count units that have been used already, even into debt; 1 if N is left out.\n",
                DONE_HELP "  weir charge llm-tokens org:7 1830\n", .takes_n = true, .done = "charged");

const struct cli_command command_reset =
    KEY_COMMAND("reset", plain_options, "\nForget what a key has spent.\n",
                DONE_HELP "  weir reset login user:42\n", .done = "reset");

const struct cli_command command_explain = KEY_COMMAND(
    "explain", plain_options, "\nEach limit of a key: how much is used, what is left, when it frees.\n",
    DONE_HELP "  weir explain api user:42\n"
              "  weir explain --json api user:42 | jq .limits\n",
    .done = NULL);
