/* SPDX-License-Identifier: MIT */
/*
 * Commands: a table of descriptions, from which come dispatch, rights, COMMAND DOCS, COMMAND INFO and the
 * matrix that the tests go through. Each file cmd_*.c ends with its part of the table.
 */
#ifndef WEIR_SERVICE_COMMANDS_COMMANDS_H
#define WEIR_SERVICE_COMMANDS_COMMANDS_H

#include "base/buffer.h"
#include "service/engine/verbs.h"

enum arg_type { ARG_STRING, ARG_INTEGER, ARG_KEY, ARG_TOKEN, ARG_ONEOF, ARG_BLOCK };
enum arg_flags { ARG_OPTIONAL = 1, ARG_MULTIPLE = 2 };

/* As COMMAND DOCS tells it; a list ends with name NULL. */
struct arg {
    const char *name;
    enum arg_type type;
    const char *token; /* the word in front of it, or NULL */
    unsigned flags;
    const struct arg *parts; /* ONEOF, BLOCK */
};

enum command_flags {
    CMD_NO_AUTH = 1, /* may be said before a login */
    CMD_JOB = 2,     /* may take long: done by the job thread */
    CMD_BLOCKING = 4
};

struct answer;
struct call;
struct request;
struct command {
    const char *name;      /* lower case; of a subcommand its own word: "set" */
    const char *summary;   /* one sentence without a full stop */
    const char *group;     /* "weir", "smyte", "redis-cell", "connection", "server" */
    int arity;             /* as Redis counts: with the name; negative: at least */
    enum engine_verb verb; /* what it needs: rights, a policy, a disk that can be written to */
    unsigned flags;
    int policy_at, key_at; /* which word is a policy's name, a key: 0: none */
    /* Words -> request, for those that name more than one policy and one key. false: an error was answered.
     * NULL: the words at policy_at and key_at are all that is named. */
    bool (*parse)(struct call *call, struct request *request);
    void (*run)(struct call *call); /* it is admitted, with call->request */
    /* For weir_run_decision: answer -> bytes. */
    void (*encode)(struct call *call, const struct request *request, const struct answer *answer);
    const struct arg *docs;         /* or NULL */
    const struct command *commands; /* subcommands, or NULL; ends with name NULL */
    const char *example;            /* or NULL: a request that works, for docs and tests */
};

/* What every row has. */
#define COMMAND(NAME, SUMMARY, GROUP, ARITY, VERB, RUN)                                                      \
    .name = NAME, .summary = SUMMARY, .group = GROUP, .arity = ARITY, .verb = VERB, .run = RUN
#define COMMAND_HELP(GROUP, EXAMPLE)                                                                         \
    {                                                                                                        \
        COMMAND("help", "Lists the subcommands", GROUP, 2, ENGINE_CONNECT, weir_command_help),               \
            .example = EXAMPLE                                                                               \
    }

/* The parts of the table; each ends with name NULL. */
extern const struct command weir_commands_connection[]; /* cmd_connection.c: HELLO AUTH PING ECHO ... */
extern const struct command weir_commands_client[];     /* cmd_client.c */
extern const struct command weir_commands_command[];    /* cmd_command.c */
extern const struct command weir_commands_info[];       /* cmd_info.c: INFO, CONFIG, DBSIZE, TIME ... */
extern const struct command weir_commands_take[];       /* cmd_take.c: TAKE ACQUIRE PEEK ... CANCEL */
extern const struct command weir_commands_explain[];    /* cmd_explain.c: EXPLAIN TOP */
extern const struct command weir_commands_keys[];       /* cmd_keys.c */
extern const struct command weir_commands_lease[];      /* cmd_lease.c: LEASE RETURN */
extern const struct command weir_commands_policy[];     /* cmd_policy.c: POLICY RELOAD CLOCK */
extern const struct command weir_commands_override[];   /* cmd_override.c */
extern const struct command weir_commands_data[];       /* cmd_data.c: BACKUP IMAGE DUMP LOAD FREEZE THAW */
extern const struct command weir_commands_smyte[];      /* cmd_smyte.c: RL.* */
extern const struct command weir_commands_cell[];       /* cmd_cell.c: CL.THROTTLE THROTTLE GCRA DEL */

/* All of them by number, 0 ... weir_command_count() - 1, subcommands not counted. */
size_t weir_command_count(void);
const struct command *weir_command_at(size_t number);
const struct command *weir_command_find(struct slice name, size_t *number); /* whatever the case; or NULL */
/* The one that a mistyped name, perhaps without its "weir.", is meant to be; or NULL. */
const struct command *weir_command_near(struct slice name);

/* Are `count` words, its name included, as many as it takes? */
static inline bool command_fits(const struct command *command, size_t count)
{
    return command->arity < 0 ? count >= (size_t)-command->arity : count == (size_t)command->arity;
}

/* Its subcommands. */
static inline size_t count_parts(const struct command *command)
{
    size_t count = 0;
    for (const struct command *part = command->commands; part && part->name; part++)
        count++;
    return count;
}

/* What to say to EVAL, INCR, SET ... or NULL if weir has nothing better to say than "unknown". */
const char *weir_foreign_advice(struct slice name);

#endif
