/* SPDX-License-Identifier: MIT */
#include "cli/args.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "cli/term.h"
#include "service/engine/decide.h"
#include "sim/arrivals.h"
#include "spec/read.h"
#include "spec/spec.h"

#define HELP_WIDTH     88
#define OPTIONS_MAX    24 /* of a command */
#define NAME_MAX_BYTES 40 /* of an option as messages call it: --name, -x or WEIR_NAME */

/* ---- messages ---- */

int args_fail(const char *command, const char *format, ...)
{
    va_list list;
    fprintf(stderr, "weir %s: ", command);
    va_start(list, format);
    term_print_list(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    return EXIT_ERROR;
}

/* ---- values ---- */

/* Nothing but digits, or those and a k, M, G: if it cannot be read, it is too large. */
static bool is_too_large(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && text[0] != '0' && strlen(text) - digits <= 1 &&
           strspn(text + digits, "kMGT") == strlen(text + digits);
}

bool args_units(const char *command, const char *text, int64_t *units)
{
    bool read = arrivals_read_n(text, strlen(text), units);
    if (read && *units <= UNITS_MAX)
        return true;
    if (!read && !is_too_large(text))
        return args_fail(command, "N is a whole number of units, such as 5 or 2k, not '%s'", text), false;
    return args_fail(command, "'%s' is too large: N is at most %" PRId64, text, (int64_t)UNITS_MAX), false;
}

/* "a|b|c" as "a, b or c". */
static const char *list_words(const char *range, const char *last, char *text, size_t size)
{
    struct text list;
    weir_text_init(&list, text, size);
    for (const char *at = range; *at;) {
        size_t len = strcspn(at, "|");
        weir_text_put(&list, at, len);
        at += len + (at[len] == '|');
        if (*at)
            weir_text_print(&list, "%s", strchr(at, '|') ? ", " : last);
    }
    return text;
}

/* Which of "a|b|c" it is; below 0: none of them. */
static int find_word(const char *range, const char *word)
{
    for (int number = 0;; number++) {
        size_t len = strcspn(range, "|");
        if (strlen(word) == len && memcmp(word, range, len) == 0)
            return number;
        if (range[len] == '\0')
            return -1;
        range += len + 1;
    }
}

static bool read_decimal(const char *text, double *number)
{
    char *end;
    errno = 0;
    *number = strtod(text, &end);
    return end != text && *end == '\0' && errno == 0 && *number == *number;
}

static bool read_number(const char *command, const struct args_option *option, const char *name,
                        const char *text)
{
    int64_t number = 0;
    struct spec_fault fault;
    bool time = option->type == ARGS_TIME;
    if (time && !weir_spec_read_period(text, &number, &fault))
        return args_fail(command, "%s '%s': %s", name, text, fault.text), false;
    if ((time || arrivals_read_n(text, strlen(text), &number)) &&
        (option->most == 0 || (number >= option->least && number <= option->most)))
        return *option->number = number, true;
    if (option->range)
        return args_fail(command, "%s takes %s, not '%s'", name, option->range, text), false;
    return args_fail(command, "%s %s '%s'", name,
                     is_too_large(text) ? "is too large:"
                                        : "takes a whole number from 1 on, such as 5 or 2k, not",
                     text),
           false;
}

static bool read_word(const char *command, const struct args_option *option, const char *name,
                      const char *text)
{
    char words[160];
    int number = find_word(option->range, text);
    if (number >= 0)
        return *option->word = number, true;
    return args_fail(command, "%s takes %s, not '%s'", name,
                     list_words(option->range, " or ", words, sizeof words), text),
           false;
}

/* `name` is what messages call the option. */
static bool read_value(const char *command, const struct args_option *option, const char *name,
                       const char *text)
{
    switch (option->type) {
    case ARGS_FLAG:
        return *option->flag = true;
    case ARGS_TEXT:
        return *option->text = text, true;
    case ARGS_COUNT:
    case ARGS_TIME:
        return read_number(command, option, name, text);
    case ARGS_DECIMAL:
        return read_decimal(text, option->decimal) ||
               (args_fail(command, "%s takes a number such as 1.5, not '%s'", name, text), false);
    case ARGS_WORD:
        return read_word(command, option, name, text);
    }
    return false;
}

bool args_read_option(const char *command, const struct args_option *option, const char *text)
{
    char name[NAME_MAX_BYTES];
    (void)snprintf(name, sizeof name, "--%s", option->name);
    return !text || read_value(command, option, name, text);
}

/* ---- the command line ---- */

static bool wants_help;
static bool given[OPTIONS_MAX]; /* on the command line, by the number of the option */
static const struct args_option help_option = {
    .name = "help", .letter = 'h', .type = ARGS_FLAG, .flag = &wants_help, .help = "this text"};

/* The last one is --help. */
static const struct args_option *option_at(const struct cli_command *command, size_t index)
{
    return index < command->option_count ? &command->options[index] : &help_option;
}

static bool unknown_option(const struct cli_command *command, const char *word, size_t len)
{
    const struct args_foreign *foreign = command->foreign;
    size_t dashes = strspn(word, "-");
    struct nearest near = weir_nearest(word + dashes, len - dashes);
    for (size_t i = 0; i <= command->option_count; i++)
        (void)weir_nearest_try(&near, option_at(command, i)->name);
    while (foreign && foreign->option &&
           (strlen(foreign->option) != len || memcmp(foreign->option, word, len) != 0))
        foreign++;
    if (foreign && foreign->option)
        args_fail(command->name, "unknown option '%s'; %s", foreign->option, foreign->advice);
    else if (near.found)
        args_fail(command->name, "unknown option '%.*s'; did you mean --%s?", (int)len, word, near.found);
    else
        args_fail(command->name, "unknown option '%.*s'; weir %s --help lists them", (int)len, word,
                  command->name);
    return false;
}

static const struct args_option *find_args_option(const struct cli_command *command, const char *word,
                                                  size_t len)
{
    for (size_t i = 0; i <= command->option_count; i++) {
        const struct args_option *option = option_at(command, i);
        if (word[1] == '-' ? strlen(option->name) == len - 2 && memcmp(option->name, word + 2, len - 2) == 0
                           : option->letter == word[1])
            return option;
    }
    return NULL;
}

/* Reads the option at argv[*at], which moves past it. */
static bool read_args_option(const struct cli_command *command, int argc, char **argv, int *at)
{
    const char *word = argv[(*at)++];
    bool is_long = word[1] == '-';
    size_t len = is_long ? strcspn(word, "=") : 2;
    const char *value = word[len] != '\0' ? word + len + is_long : NULL;
    const struct args_option *option = find_args_option(command, word, len);
    char name[NAME_MAX_BYTES];
    if (!option)
        return unknown_option(command, word, is_long ? len : strlen(word));
    if (value && option->type == ARGS_FLAG)
        return args_fail(command->name, "no value belongs to this option: '%s'", word), false;
    if (!value && option->type != ARGS_FLAG && *at < argc)
        value = argv[(*at)++];
    (void)snprintf(name, sizeof name, "%.*s", (int)len, word);
    if (option != &help_option)
        given[option - command->options] = true;
    if (value || option->type == ARGS_FLAG)
        return read_value(command->name, option, name, value);
    return args_fail(command->name, "%s needs a value; weir %s --help tells which", name, command->name),
           false;
}

/* Fills in the options and moves the operands to argv[1] and on; returns their number, or -1 after a
 * message. */
static int read_args(const struct cli_command *command, int argc, char **argv)
{
    int operands = 0, at = 1;
    while (at < argc) {
        const char *word = argv[at];
        if (strcmp(word, "--") == 0) {
            for (at++; at < argc; at++)
                argv[1 + operands++] = argv[at];
        } else if (word[0] == '-' && word[1] != '\0') {
            if (!read_args_option(command, argc, argv, &at))
                return -1;
        } else {
            argv[1 + operands++] = argv[at++];
        }
    }
    ASSERT(operands < argc || argc == 0);
    return operands;
}

/* ---- the environment ---- */

static const char *variable_name(const char *option, char text[static NAME_MAX_BYTES])
{
    (void)snprintf(text, NAME_MAX_BYTES, "WEIR_%s", option);
    for (char *at = text; *at; at++)
        *at = *at == '-' ? '_' : *at >= 'a' && *at <= 'z' ? (char)(*at - 'a' + 'A') : *at;
    return text;
}

static bool is_set(const struct args_option *option)
{
    switch (option->type) {
    case ARGS_FLAG:
        return *option->flag;
    case ARGS_TEXT:
        return *option->text != NULL;
    case ARGS_COUNT:
    case ARGS_TIME:
        return *option->number != 0;
    case ARGS_DECIMAL:
        return *option->decimal != 0;
    case ARGS_WORD:
        return *option->word >= 0;
    }
    return false;
}

/* The words of a variable that switches something: whoever writes "no" must not get yes. */
static bool read_switch(const char *command, const char *name, const char *value, bool *on)
{
    int word = find_word("1|yes|true|0|no|false|", value);
    *on = *on || (word >= 0 && word < 3);
    return word >= 0 ||
           (args_fail(command, "%s takes 1, yes or true, or 0, no or false, not '%s'", name, value), false);
}

bool args_read_environment(const struct cli_command *command)
{
    char name[NAME_MAX_BYTES];
    for (size_t i = 0; i < command->option_count; i++) {
        const struct args_option *option = &command->options[i];
        const char *value = getenv(variable_name(option->name, name));
        if (!value || is_set(option) || (option->type != ARGS_FLAG && !*value))
            continue;
        if (option->type == ARGS_FLAG ? !read_switch(command->name, name, value, option->flag)
                                      : !read_value(command->name, option, name, value))
            return false;
    }
    return true;
}

/* ---- help ---- */

/* "  -s, --server URL" */
static int write_option(const struct args_option *option, char *text, size_t size)
{
    bool is_long = strlen(option->name) > 1;
    char letter[8] = "    ";
    if (option->letter)
        (void)snprintf(letter, sizeof letter, "-%c%s", option->letter, is_long ? ", " : "");
    return snprintf(text, size, "  %s%s%s%s%s", letter, is_long ? "--" : "", is_long ? option->name : "",
                    option->argument ? " " : "", option->argument ? option->argument : "");
}

static void print_option(const struct args_option *option, int column)
{
    char front[NAME_MAX_BYTES * 2];
    (void)write_option(option, front, sizeof front);
    printf("%-*s", column, front);
    term_wrap(stdout, option->help, column, column, HELP_WIDTH);
}

static int print_command_help(const struct cli_command *command)
{
    char front[NAME_MAX_BYTES * 2];
    int column = 0;
    for (size_t i = 0; i <= command->option_count; i++) {
        int width =
            option_at(command, i)->help ? write_option(option_at(command, i), front, sizeof front) : 0;
        column = width > column ? width : column;
    }
    printf("usage: weir %s %s\n", command->name, command->usage);
    for (size_t i = 0; i <= command->option_count; i++)
        if (option_at(command, i)->help)
            print_option(option_at(command, i), column + 2);
    printf("\n%s", command->more);
    return EXIT_OK;
}

/* ---- verbs ---- */

/* Names of the verbs, or of those that take `option`: "create, show or list". */
static const char *list_verbs(const struct cli_command *command, const char *option, char *text, size_t size)
{
    char names[120];
    struct text list;
    weir_text_init(&list, names, sizeof names);
    names[0] = '\0';
    for (size_t i = 0; i < command->verb_count; i++) {
        const struct args_verb *verb = &command->verbs[i];
        if (!option || (verb->options && find_word(verb->options, option) >= 0))
            weir_text_print(&list, "%s%s", list.len > 0 ? "|" : "", verb->name);
    }
    return list_words(names, option ? " and " : " or ", text, size);
}

static const struct args_verb *find_verb(const struct cli_command *command, const char *word)
{
    char names[120];
    struct nearest near = weir_nearest(word, strlen(word));
    for (size_t i = 0; i < command->verb_count; i++) {
        const struct args_verb *verb = &command->verbs[i];
        if (strcmp(verb->name, word) == 0 || (verb->alias && strcmp(verb->alias, word) == 0))
            return verb;
        (void)weir_nearest_try(&near, verb->name);
    }
    if (near.found)
        return args_fail(command->name, "unknown word '%s'; did you mean %s?", word, near.found), NULL;
    return args_fail(command->name, "unknown word '%s'; write %s", word,
                     list_verbs(command, NULL, names, sizeof names)),
           NULL;
}

/* An option that does nothing here was meant for something else. */
static bool options_fit(const struct cli_command *command, const struct args_verb *verb)
{
    char names[120];
    for (size_t i = 0; i < command->option_count; i++) {
        const char *name = command->options[i].name;
        if (!given[i] || !*list_verbs(command, name, names, sizeof names) ||
            (verb->options && find_word(verb->options, name) >= 0))
            continue;
        return args_fail(command->name, "--%s goes with %s", name, names), false;
    }
    return true;
}

static int run_verb(const struct cli_command *command, int count, char **argv)
{
    char names[120];
    if (count == 0 && command->least > 0)
        return args_fail(command->name, "what? write %s; weir %s --help tells more",
                         list_verbs(command, NULL, names, sizeof names), command->name);
    const struct args_verb *verb = count > 0 ? find_verb(command, argv[1]) : command->verbs;
    int operands = count > 0 ? count - 1 : 0;
    if (!verb || !options_fit(command, verb))
        return EXIT_ERROR;
    if (operands >= verb->least && (verb->most < 0 || operands <= verb->most))
        return verb->run(command, operands, argv + (count > 0));
    return args_fail(command->name, "write: weir %s %s", command->name, verb->how);
}

/* ---- running ---- */

#if WEIR_ASSERTIONS
/* A table that contradicts itself is a mistake of its author. */
static void check_command(const struct cli_command *command)
{
    for (size_t i = 0; i < command->option_count; i++) {
        const struct args_option *option = &command->options[i];
        ASSERT(option->flag && strlen(option->name) + 6 < NAME_MAX_BYTES);
        ASSERT(strlen(option->name) > 1 || option->letter == option->name[0]);
        ASSERT((option->type == ARGS_FLAG) == !option->argument);
        ASSERT(option->type != ARGS_WORD || option->range);
        ASSERT(option->least <= option->most);
        for (size_t j = 0; j < i; j++) {
            ASSERT(strcmp(command->options[j].name, option->name) != 0);
            ASSERT(!option->letter || command->options[j].letter != option->letter);
        }
    }
    ASSERT(command->option_count <= OPTIONS_MAX && command->more && (!command->run == !!command->verbs));
    ASSERT(command->verbs || command->most < 0 || command->least <= command->most);
    ASSERT(command->verbs || command->least == 0 || command->few);
    ASSERT(command->verbs || command->most < 0 || command->many || command->few);
}
#endif

int args_run(const struct cli_command *command, int argc, char **argv)
{
    if (!command->usage)
        return command->run(command, argc - 1, argv);
#if WEIR_ASSERTIONS
    check_command(command);
#endif
    int count = read_args(command, argc, argv);
    if (count < 0)
        return EXIT_ERROR;
    if (wants_help)
        return print_command_help(command);
    if (command->verbs)
        return run_verb(command, count, argv);
    if (count < command->least)
        return args_fail(command->name, "%s", command->few);
    if (command->most >= 0 && count > command->most) {
        const char *many = command->many ? command->many : command->few;
        return many[0] == ';' ? args_fail(command->name, "unknown word '%s'%s", argv[command->most + 1], many)
                              : args_fail(command->name, "%s", many);
    }
    return command->run(command, count, argv);
}
