/* SPDX-License-Identifier: MIT */
/*
 * Commands: a table of descriptions, from which come dispatch, rights, COMMAND DOCS, COMMAND INFO and the
 * matrix that the tests go through. Each file cmd_*.c ends with its part of the table.
 */
#ifndef WEIR_SERVICE_COMMANDS_COMMAND_H
#define WEIR_SERVICE_COMMANDS_COMMAND_H

#include "service/decide.h"

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

struct call {
    struct worker *worker;
    struct session *session;
    const struct user *user;
    const struct command *command; /* the subcommand, if there is one */
    const struct slice *args;      /* words; args[0] is the name, args[1] perhaps the subcommand's */
    size_t count;
    struct reply reply;
    struct policy *found; /* of the word at policy_at, if it was looked up already; or NULL */
    uint64_t hash;        /* of the word at key_at there; or 0 */
    enum run_state state; /* RUN_READY until somebody says something else */
    bool failed;          /* an error was answered */
    bool store_ill;       /* the store is ill: nothing can be recorded (CMD_WITHOUT_STORE) */
    bool last;            /* it has waited long enough for a fleet: see fleet_wait.h */
};

enum command_flags {
    CMD_NO_AUTH = 1, /* may be said before a login */
    CMD_JOB = 2,     /* may take long: done by the job thread */
    CMD_WRITE = 4,   /* flags that clients look at */
    CMD_BLOCKING = 8,
    CMD_POOL = 16, /* the word at policy_at may be POLICY:key: weir_snapshot_pool */
    CMD_WITHOUT_STORE =
        32,        /* with CMD_WRITE: also runs while the store is ill, and finds that out by itself */
    CMD_KEYS = 64, /* concerns keys of any name: not for users with `keys` */
    CMD_ALL = 128  /* concerns the whole server: not for users with `keys` or `policies` */
};

struct command {
    const char *name;    /* lower case; of a subcommand its own word: "set" */
    const char *summary; /* one sentence without a full stop */
    const char *group;   /* "weir", "smyte", "redis-cell", "connection", "server" */
    int arity;           /* as Redis counts: with the name; negative: at least */
    unsigned may;        /* classes that a user needs, enum user_right; 0: everybody */
    unsigned flags;
    int policy_at, key_at; /* which word is a policy's name, a key: 0: none. Rights are checked before run */
    void (*run)(struct call *call);
    const struct arg *docs;         /* or NULL */
    const struct command *commands; /* subcommands, or NULL; ends with name NULL */
    const char *example;            /* or NULL: a request that works, for docs and tests */
};

/* The parts of the table; each ends with name NULL. */
extern const struct command weir_commands_connection[]; /* cmd_connection.c: HELLO AUTH PING ECHO ... */
extern const struct command weir_commands_client[];     /* cmd_client.c */
extern const struct command weir_commands_command[];    /* cmd_command.c */
extern const struct command weir_commands_info[];       /* cmd_info.c: INFO, CONFIG, DBSIZE, TIME ... */
extern const struct command weir_commands_take[];       /* cmd_take.c: TAKE PEEK GIVE CHARGE RESET ACQUIRE */
extern const struct command weir_commands_explain[];    /* cmd_explain.c: EXPLAIN TOP */
extern const struct command weir_commands_reserve[];    /* cmd_reserve.c: RESERVE COMMIT CANCEL */
extern const struct command weir_commands_lease[];      /* cmd_lease.c: LEASE RETURN */
extern const struct command weir_commands_policy[];     /* cmd_policy.c: POLICY RELOAD CLOCK */
extern const struct command weir_commands_override[];   /* cmd_override.c */
extern const struct command weir_commands_data[];       /* cmd_data.c: BACKUP IMAGE DUMP LOAD FREEZE THAW */
extern const struct command weir_commands_smyte[];      /* cmd_smyte.c: RL.* */
extern const struct command weir_commands_cell[];       /* cmd_cell.c: CL.THROTTLE THROTTLE GCRA DEL */

/* ---- commands.c ---- */

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

/* foreign.c: what to say to EVAL, INCR, SET ... or NULL if weir has nothing better to say than "unknown". */
const char *weir_foreign_advice(struct slice name);

/* ---- helpers for run functions: call.c ---- */

/* Is the word at `at` this one, whatever its case? false also if there is none. */
bool weir_call_word(const struct call *call, size_t at, const char *word);
/* A whole number in decimal, no more than that; false: it is none. */
bool weir_read_integer(struct slice text, int64_t *number);
/* The same as an argument of at least `least`; else answers with an error that names `what`. */
bool weir_call_integer(struct call *call, size_t at, const char *what, int64_t least, int64_t *number);
/* The same for units, of which UNITS_MAX are possible; and for milliseconds. */
bool weir_call_units(struct call *call, size_t at, const char *what, int64_t least, int64_t *number);
bool weir_call_ms(struct call *call, size_t at, const char *what, int64_t least, int64_t *number);
/* The policy of that word, which the user may use; else answers with "no policy 'ap'; did you mean 'api'?".
 */
struct policy *weir_call_policy(struct call *call, size_t at);
/* May the user touch that key? Else answers NOPERM. Also checks its length. */
bool weir_call_key(struct call *call, size_t at);
/* Answers with an error; `call->failed` is set. The code word first: "ERR ...". */
__attribute__((format(printf, 2, 3))) void weir_call_error(struct call *call, const char *format, ...);
/* The same for a change that failed: UNAVAILABLE if the disk is why (EIO), since a retry may help; else ERR.
 */
void weir_call_fail(struct call *call, const struct weir_error *err);
/* "wrong number of arguments for 'x' command"; of weir's own commands also how they are written */
void weir_call_arity(struct call *call);
/* NOPERM for a "key" or "policy" of that name. */
void weir_call_forbid(struct call *call, const char *what, struct slice name);
void weir_call_syntax(struct call *call,
                      size_t at); /* "syntax error near 'x'", and how the command is written */
/* Bytes of a client in a message: printable, cut to 64, in `text`. */
const char *weir_shown(struct slice bytes, char text[static 72]);

/* call->ill: answers UNAVAILABLE, and nothing was decided. */
void weir_call_unavailable(struct call *call);
/* call->ill: what pairs get that are all in shadow or disabled, so that they pass whatever is spent. Charges
 * nothing, so there is nothing to record; counts. false: one is enforced, and UNAVAILABLE was answered. */
bool weir_call_unrecorded(struct call *call, const struct pair *pairs, size_t count, struct answer *answer);

/* The six fields of an answer, as a map; `more` pairs follow that the caller writes. */
void weir_call_answer(struct call *call, const struct answer *answer, size_t more);
int64_t weir_ms_up(int64_t time_ns); /* rounded up; WEIR_FOREVER is -1 */

#endif
