/* SPDX-License-Identifier: MIT */
/*
 * A request that is being run, and what the functions that run commands share.
 */
#ifndef WEIR_SERVICE_COMMANDS_CALL_H
#define WEIR_SERVICE_COMMANDS_CALL_H

#include "service/commands/commands.h"
#include "service/engine/engine.h"
#include "service/http/exchange.h"
#include "service/log.h"

struct call {
    struct worker *worker;
    struct session *session;
    const struct user *user;
    const struct command *command; /* the subcommand, if there is one */
    const struct slice *args;      /* words; args[0] is the name, args[1] perhaps the subcommand's */
    size_t count;
    struct reply reply;
    struct request *request; /* what was admitted */
    struct policy *found;    /* of the word at policy_at, if it was looked up already; or NULL */
    uint64_t hash;           /* of the word at key_at there; or 0 */
    enum run_state state;    /* RUN_READY until somebody says something else */
    bool failed;             /* an error was answered */
    struct pending *pending; /* it is resumed: see service/pending.h; NULL: it is run for the first time */
    bool last;               /* it has waited long enough for a fleet */
    const struct http_exchange *http; /* its reply becomes an HTTP response; NULL: it is of the Redis protocol */
};

/* Is the word at `at` this one, whatever its case? false also if there is none. */
bool weir_call_word(const struct call *call, size_t at, const char *word);
/* A whole number in decimal, no more than that; false: it is none. */
bool weir_read_integer(struct slice text, int64_t *number);
/* The same as an argument of at least `least`; else answers with an error that names `what`. */
bool weir_call_integer(struct call *call, size_t at, const char *what, int64_t least, int64_t *number);
/* The same for units, of which UNITS_MAX are possible; and for milliseconds. */
bool weir_call_units(struct call *call, size_t at, const char *what, int64_t least, int64_t *number);
bool weir_call_ms(struct call *call, size_t at, const char *what, int64_t least, int64_t *number);
/* Answers with an error; `call->failed` is set. The code word first: "ERR ...". */
__attribute__((format(printf, 2, 3))) void weir_call_error(struct call *call, const char *format, ...);
/* The same for a change that failed: UNAVAILABLE if the disk is why (EIO), since a retry may help; else ERR.
 */
void weir_call_fail(struct call *call, const struct weir_error *err);
/* "wrong number of arguments for 'x' command"; of weir's own commands also how they are written */
void weir_call_arity(struct call *call);
/* What the engine says is wrong. */
void weir_call_engine_error(struct call *call, const struct answer *answer);
/* Fills call->request with the words that the row says are names, or those that `parse` finds, and admits it.
 * false: an error was answered. */
bool weir_call_admit(struct call *call);
void weir_call_syntax(struct call *call,
                      size_t at); /* "syntax error near 'x'", and how the command is written */
/* The command's name as people know it: "client|list". */
const char *weir_call_name(const struct call *call, char text[static 64]);

/* X HELP: the subcommands of X and what each is for. */
void weir_command_help(struct call *call);

/* Words `from` to `to` - 1 as one text, as of limits with spaces. false: an error was answered. */
#define LIMITS_TEXT_MAX 4000
bool weir_call_limits(struct call *call, size_t from, size_t to, char *text, size_t size);
/* A time behind FOR: 30m, 2h. false: an error was answered. */
bool weir_call_time(struct call *call, size_t at, int64_t *time_ns);

/* A line of the log about what an operator has changed; who, and from where, stand behind the fields. Empty
 * ones are left out. */
void weir_call_log(const struct call *call, const char *event, const struct log_field *fields, int count);
#define LOG_CHANGE(call, event, ...)                                                                         \
    weir_call_log(call, event, (struct log_field[]){__VA_ARGS__},                                            \
                  (int)(sizeof((struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field)))

#endif
