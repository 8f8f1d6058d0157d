/* SPDX-License-Identifier: MIT */
#include "cli/args.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#include "cli/term.h"
#include "service/engine/decide.h"
#include "sim/arrivals.h"
#include "spec/read.h"
#include "spec/spec.h"

/* A word of the user's inside a message. */
static void args_put_quoted(const char *text, size_t len)
{
    fputc('\'', stderr);
    term_put(stderr, text, len);
    fputc('\'', stderr);
}

static void print_bad_argument(const char *command, const char *what, const char *word, size_t len)
{
    fprintf(stderr, "weir %s: %s ", command, what);
    args_put_quoted(word, len);
}

static int unknown_option(const char *command, const char *word, size_t len,
                          const struct args_option *options, size_t count)
{
    size_t dashes = strspn(word, "-");
    struct nearest near = weir_nearest(word + dashes, len - dashes);
    for (size_t i = 0; i < count; i++)
        (void)weir_nearest_try(&near, options[i].name);
    print_bad_argument(command, "unknown option", word, len);
    if (near.found)
        fprintf(stderr, "; did you mean --%s?\n", near.found);
    else
        fprintf(stderr, "; weir %s --help lists them\n", command);
    return -1;
}

static const struct args_option *find_args_option(const char *word, size_t len,
                                                  const struct args_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *name = options[i].name;
        if (word[1] == '-' ? strlen(name) == len - 2 && memcmp(name, word + 2, len - 2) == 0
                           : options[i].letter && options[i].letter == word[1])
            return &options[i];
    }
    return NULL;
}

/* Reads the option at *at, which moves past it. */
static int read_args_option(int argc, char **argv, int *at, const struct args_option *options, size_t count)
{
    const char *word = argv[(*at)++];
    bool is_long = word[1] == '-';
    size_t len = is_long ? strcspn(word, "=") : 2;
    const struct args_option *option = find_args_option(word, len, options, count);
    if (!option)
        return unknown_option(argv[0], word, is_long ? len : strlen(word), options, count);

    const char *value = NULL;
    if (word[len] != '\0')
        value = word + len + is_long;
    if (option->flag) {
        if (value) {
            print_bad_argument(argv[0], "no value belongs to this option:", word, strlen(word));
            fputc('\n', stderr);
            return -1;
        }
        *option->flag = true;
        return 0;
    }
    if (!value && *at < argc)
        value = argv[(*at)++];
    if (!value) {
        fprintf(stderr, "weir %s: %.*s needs a value; weir %s --help tells which\n", argv[0], (int)len, word,
                argv[0]);
        return -1;
    }
    *option->value = value;
    return 0;
}

int args_read(int argc, char **argv, const struct args_option *options, size_t count)
{
    int operands = 0, at = 1;
    while (at < argc) {
        const char *word = argv[at];
        if (strcmp(word, "--") == 0) {
            for (at++; at < argc; at++)
                argv[1 + operands++] = argv[at];
        } else if (word[0] == '-' && word[1] != '\0') {
            if (read_args_option(argc, argv, &at, options, count) < 0)
                return -1;
        } else {
            argv[1 + operands++] = argv[at++];
        }
    }
    return operands;
}

static const char *dashes(const char *option)
{
    return strlen(option) == 1 ? "-" : "--";
}

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
    fprintf(stderr, "weir %s: ", command);
    if (read || is_too_large(text)) {
        args_put_quoted(text, strlen(text));
        fprintf(stderr, " is too large: N is at most %lld\n", (long long)UNITS_MAX);
        return false;
    }
    fputs("N is a whole number of units, such as 5 or 2k, not ", stderr);
    args_put_quoted(text, strlen(text));
    fputc('\n', stderr);
    return false;
}

bool args_count(const char *command, const char *option, const char *text, int64_t *count)
{
    if (arrivals_read_n(text, strlen(text), count))
        return true;
    fprintf(stderr, "weir %s: %s%s %s ", command, dashes(option), option,
            is_too_large(text) ? "is too large:" : "takes a whole number from 1 on, such as 5 or 2k, not");
    args_put_quoted(text, strlen(text));
    fputc('\n', stderr);
    return false;
}

bool args_time(const char *command, const char *option, const char *text, int64_t *time_ns)
{
    struct spec_fault fault;
    if (weir_spec_read_period(text, time_ns, &fault))
        return true;
    fprintf(stderr, "weir %s: %s%s ", command, dashes(option), option);
    args_put_quoted(text, strlen(text));
    fprintf(stderr, ": %s\n", fault.text);
    return false;
}

void args_complain(const char *command, const char *what, const char *word)
{
    print_bad_argument(command, what, word, strlen(word));
}
