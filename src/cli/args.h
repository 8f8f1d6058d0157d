/* SPDX-License-Identifier: MIT */
/*
 * How a subcommand is declared: its options, operands and help. One table makes what is read from the command
 * line and the environment, the text of --help, and the messages about what is wrong.
 *
 * Options may stand anywhere, as --name VALUE, --name=VALUE, -x VALUE or -xVALUE, until a "--"; what remains
 * are the operands. Every subcommand has -h, --help.
 */
#ifndef WEIR_CLI_ARGS_H
#define WEIR_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXIT_OK      0
#define EXIT_REFUSED 1
#define EXIT_ERROR   2

struct cli_command;

enum args_type { ARGS_FLAG, ARGS_TEXT, ARGS_COUNT, ARGS_TIME, ARGS_DECIMAL, ARGS_WORD };

struct args_option {
    const char *name; /* without the dashes; one letter: it is -n alone */
    char letter;      /* 0: only the long form */
    enum args_type type;
    union { /* where the value goes; it stays as it is unless the option is given */
        bool *flag;
        const char **text;
        int64_t *number;
        double *decimal;
        int *word; /* its number in `range`, from 0 */
    };
    const char *argument; /* what the help calls the value: FILE; NULL for a flag */
    const char *help;     /* NULL: for tests, not listed */
    int64_t least, most;  /* of a number; 0 and 0: any */
    const char *range;    /* what is allowed, for messages: "1ms to 1d"; words have | between them */
};

#define OPT_FLAG(NAME, LETTER, INTO, HELP)                                                                   \
    {                                                                                                        \
        .name = (NAME), .letter = (LETTER), .type = ARGS_FLAG, .flag = (INTO), .help = (HELP)                \
    }
#define OPT_TEXT(NAME, LETTER, INTO, ARGUMENT, HELP)                                                         \
    {                                                                                                        \
        .name = (NAME), .letter = (LETTER), .type = ARGS_TEXT, .text = (INTO), .argument = (ARGUMENT),       \
        .help = (HELP)                                                                                       \
    }
/* 5 or 2k, from 1 on. */
#define OPT_COUNT(NAME, INTO, ARGUMENT, HELP)                                                                \
    {                                                                                                        \
        .name = (NAME), .type = ARGS_COUNT, .number = (INTO), .argument = (ARGUMENT), .help = (HELP)         \
    }
/* 250ms, in nanoseconds. */
#define OPT_TIME(NAME, INTO, ARGUMENT, HELP)                                                                 \
    {                                                                                                        \
        .name = (NAME), .type = ARGS_TIME, .number = (INTO), .argument = (ARGUMENT), .help = (HELP)          \
    }
/* Either of them within bounds. */
#define OPT_RANGE(NAME, TYPE, INTO, LEAST, MOST, RANGE, ARGUMENT, HELP)                                      \
    {                                                                                                        \
        .name = (NAME), .type = (TYPE), .number = (INTO), .argument = (ARGUMENT), .help = (HELP),            \
        .least = (LEAST), .most = (MOST), .range = (RANGE)                                                   \
    }
/* 1.5 */
#define OPT_DECIMAL(NAME, INTO, ARGUMENT, HELP)                                                              \
    {                                                                                                        \
        .name = (NAME), .type = ARGS_DECIMAL, .decimal = (INTO), .argument = (ARGUMENT), .help = (HELP)      \
    }
#define OPT_WORD(NAME, INTO, WORDS, ARGUMENT, HELP)                                                          \
    {                                                                                                        \
        .name = (NAME), .type = ARGS_WORD, .word = (INTO), .range = (WORDS), .argument = (ARGUMENT),         \
        .help = (HELP)                                                                                       \
    }

/* A second word: weir policy set. */
struct args_verb {
    const char *name, *alias; /* alias: NULL, or another word for it, which help does not name */
    int least, most;          /* operands behind it; most < 0: any number */
    const char *how;          /* how it is written: "set NAME LIMITS" */
    const char *options;      /* names with | between them: those that not every verb takes */
    int (*run)(const struct cli_command *command, int count, char **argv); /* argv[0] is the verb */
};

/* What other programs call an option, and what to write here instead. */
struct args_foreign {
    const char *option, *advice; /* with its dashes */
};

struct cli_command {
    const char *name;
    const char *usage; /* behind "usage: weir NAME ", and what it does; NULL: it reads its own arguments */
    const struct args_option *options;
    size_t option_count;
    const char *more; /* of the help, behind the options; ends with the examples */
    int least, most;  /* operands; most < 0: any number */
    /* What is said of too few, and of too many: text that begins with ';' goes behind "unknown word 'x'". */
    const char *few, *many;
    const struct args_foreign *foreign; /* ends with NULL; or NULL */
    const struct args_verb *verbs;      /* instead of `run`; least 0: the first one may be left out */
    size_t verb_count;
    /* argv[0] is the name, argv[1] and on are the operands. Prints to standard output, explains itself to
     * standard error and returns the exit status. main flushes and checks standard output. */
    int (*run)(const struct cli_command *command, int count, char **argv);
    const void *own; /* what `run` knows of this one, where several share it */
};
#define ARGS_OPTIONS(table) .options = (table), .option_count = sizeof(table) / sizeof(table)[0]

#define ARGS_VERBS(table) .verbs = (table), .verb_count = sizeof(table) / sizeof(table)[0]

/* Reads the arguments, or prints the help, and runs the command; returns the exit status. */
int args_run(const struct cli_command *command, int argc, char **argv);

/* Reads options from the environment that are not set yet: --log-level from WEIR_LOG_LEVEL. NULL, 0, false
 * and -1 of ARGS_WORD are not set. On a mistake it prints the message and returns false. */
bool args_read_environment(const struct cli_command *command);

/* Reads one more value, of an option whose bounds were not known before; nothing if `text` is NULL. */
bool args_read_option(const char *command, const struct args_option *option, const char *text);

/* ---- for operands. On a mistake each prints "weir COMMAND: ..." ---- */

/* Reads a number of units such as 5 or 2k. */
bool args_units(const char *command, const char *text, int64_t *units);

/* Prints "weir COMMAND: ..." on standard error, whatever bytes are in it. Always EXIT_ERROR. */
__attribute__((format(printf, 2, 3))) int args_fail(const char *command, const char *format, ...);

#endif
