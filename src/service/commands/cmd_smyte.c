/* SPDX-License-Identifier: MIT */
/*
 * Smyte's commands, replies and errors as they were; docs/compatible.md says what is different. Numbers and
 * words are read in Smyte's order: the first fault from left to right is told, and only then are values
 * compared with their bounds.
 */
#include "service/commands/compatible.h"

#define IN_MS      1
#define IN_SECONDS 1000

/* No code word in front: that is how Smyte wrote them. */
static const char no_integer[] = "Value is not an integer or out of range";
static const char no_syntax[] = "Syntax error";

enum { FIRST_OPTION = 4, MOST_LOOK = 8, MOST_TAKE = 10 }; /* the last two are counted without the name */

/* ---- words ---- */

static int64_t in_ms(int64_t time, int64_t unit_ms)
{
    return time < 0 || time > INT64_MAX / unit_ms ? -1 : time * unit_ms;
}

/* The options in any order, the last of a kind counts. NULL: they are right; else what to say. */
static const char *read_options(const struct call *call, int64_t unit_ms, struct smyte_request *ask)
{
    size_t at = FIRST_OPTION;
    while (at < call->count) {
        int64_t value;
        if (weir_call_word(call, at, "strict")) {
            ask->strict = true;
            at++;
            continue;
        }
        if (at + 1 >= call->count)
            return no_syntax;
        if (!read_signed(call->args[at + 1], &value))
            return no_integer;
        if (weir_call_word(call, at, "refill"))
            ask->limit.refill = value;
        else if (weir_call_word(call, at, "take") && ask->verb != SMYTE_GET)
            ask->take = value;
        else if (weir_call_word(call, at, "at"))
            ask->at_ms = in_ms(value, unit_ms);
        else
            return no_syntax;
        at += 2;
    }
    return NULL;
}

static const char *read_ask(const struct call *call, int64_t unit_ms, struct smyte_request *ask)
{
    const struct worker *worker = call->worker;
    int64_t refill_time;
    if (!read_signed(call->args[2], &ask->limit.max) || !read_signed(call->args[3], &refill_time) ||
        refill_time < INT32_MIN || refill_time > INT32_MAX)
        return no_integer;
    ask->limit.refill = ask->limit.max;
    ask->limit.refill_ms = refill_time * unit_ms;
    ask->take = ask->verb == SMYTE_GET ? 0 : 1;
    ask->at_ms = service_steady_ms(worker->service, worker->now_ns);
    const char *wrong = read_options(call, unit_ms, ask);
    if (wrong)
        return wrong;
    bool in_bounds = ask->limit.max >= 1 && ask->limit.refill >= 1 && ask->limit.refill_ms >= 1 &&
                     ask->take >= 0 && ask->at_ms >= 0;
    return in_bounds ? NULL : no_integer;
}

/* false: an error was answered. */
static bool read_call(struct call *call, int64_t unit_ms, struct smyte_request *ask)
{
    size_t args = call->count - 1, most = ask->verb == SMYTE_GET ? MOST_LOOK : MOST_TAKE;
    if (args < FIRST_OPTION - 1 || args > most) {
        weir_call_error(call, "Wrong number of arguments for '%s' command", call->command->name);
        return false;
    }
    const char *wrong = read_ask(call, unit_ms, ask);
    if (wrong)
        weir_call_error(call, "%s", wrong);
    else if (weir_smyte_bucket_fill_ms(&ask->limit) > horizon_of(call) / WEIR_MS)
        refuse_horizon(call);
    return !call->failed;
}

/* ---- commands ---- */

static void run_bucket_command(struct call *call, enum smyte_verb verb, int64_t unit_ms)
{
    struct worker *worker = call->worker;
    struct share_hook own = weir_share_hook(worker, call->user, SHARE_SMYTE);
    struct smyte_request ask = {.verb = verb, .hook = &own.hook};
    if (!read_call(call, unit_ms, &ask))
        return;
    struct smyte_answer answer =
        weir_smyte_do(worker->service->smyte, call->args[1].bytes, call->args[1].len, &ask, worker->now_ns);
    worker->changed |= verb != SMYTE_GET && !answer.full;
    if (verb != SMYTE_GET)
        count_decision(worker, !answer.full && answer.tokens >= ask.take);
    if (verb == SMYTE_SESSIONIZE)
        weir_reply_array(&call->reply, 2);
    weir_reply_integer(&call->reply, answer.tokens);
    if (verb == SMYTE_SESSIONIZE)
        weir_reply_integer(&call->reply, answer.session_ms);
}

static void run_smyte_get(struct call *call)
{
    run_bucket_command(call, SMYTE_GET, IN_SECONDS);
}

static void run_pget(struct call *call)
{
    run_bucket_command(call, SMYTE_GET, IN_MS);
}

static void run_reduce(struct call *call)
{
    run_bucket_command(call, SMYTE_REDUCE, IN_SECONDS);
}

static void run_preduce(struct call *call)
{
    run_bucket_command(call, SMYTE_REDUCE, IN_MS);
}

static void run_sessionize(struct call *call)
{
    run_bucket_command(call, SMYTE_SESSIONIZE, IN_SECONDS);
}

static void run_psessionize(struct call *call)
{
    run_bucket_command(call, SMYTE_SESSIONIZE, IN_MS);
}

/* What RL.GET takes, so that its line can be used again; the time means nothing here. */
static void forget_bucket(struct call *call, int64_t unit_ms)
{
    struct worker *worker = call->worker;
    struct smyte_request ask = {.verb = SMYTE_GET};
    if (!read_call(call, unit_ms, &ask))
        return;
    bool found = weir_smyte_forget(worker->service->smyte, call->args[1].bytes, call->args[1].len, &ask.limit,
                                   worker->now_ns);
    worker->changed |= found;
    weir_reply_integer(&call->reply, found ? 1 : 0);
}

static void run_smyte_del(struct call *call)
{
    forget_bucket(call, IN_SECONDS);
}

static void run_pdel(struct call *call)
{
    forget_bucket(call, IN_MS);
}

/* ---- table ---- */

#define BUCKET_DOCS                                                                                          \
    {.name = "key", .type = ARG_KEY}, {.name = "max", .type = ARG_INTEGER},                                  \
        {.name = "refilltime", .type = ARG_INTEGER},                                                         \
    {                                                                                                        \
        .name = "refill", .type = ARG_INTEGER, .token = "REFILL", .flags = ARG_OPTIONAL                      \
    }

static const struct arg look_docs[] = {
    BUCKET_DOCS,
    {.name = "timestamp", .type = ARG_INTEGER, .token = "AT", .flags = ARG_OPTIONAL},
    {.name = "strict", .type = ARG_TOKEN, .token = "STRICT", .flags = ARG_OPTIONAL},
    {0},
};

static const struct arg take_docs[] = {
    BUCKET_DOCS,
    {.name = "tokens", .type = ARG_INTEGER, .token = "TAKE", .flags = ARG_OPTIONAL},
    {.name = "timestamp", .type = ARG_INTEGER, .token = "AT", .flags = ARG_OPTIONAL},
    {.name = "strict", .type = ARG_TOKEN, .token = "STRICT", .flags = ARG_OPTIONAL},
    {0},
};

/* The number of words is looked at in `run`: Smyte has words of its own for that mistake. */
#define ROW(NAME, SUMMARY, VERB, RUN, DOCS, EXAMPLE)                                                         \
    {                                                                                                        \
        COMMAND(NAME, SUMMARY, "smyte", -1, VERB, RUN), .key_at = 1, .docs = DOCS, .example = EXAMPLE        \
    }

const struct command weir_commands_smyte[] = {
    ROW("rl.reduce", "Takes tokens from a bucket and gives how many there were; allowed if that is enough",
        ENGINE_TAKE_KEY, run_reduce, take_docs, "RL.REDUCE twoPerMin 2 60"),
    ROW("rl.preduce", "As RL.REDUCE, with times in milliseconds", ENGINE_TAKE_KEY, run_preduce, take_docs,
        "RL.PREDUCE twoPerMin 2 60000 TAKE 2"),
    ROW("rl.get", "Gives how many tokens a bucket has; takes none", ENGINE_LOOK_KEY, run_smyte_get, look_docs,
        "RL.GET twoPerMin 2 60"),
    ROW("rl.pget", "As RL.GET, with times in milliseconds", ENGINE_LOOK_KEY, run_pget, look_docs,
        "RL.PGET twoPerMin 2 60000"),
    ROW("rl.sessionize", "Takes tokens, strictly, and gives how many there were and when the session began",
        ENGINE_TAKE_KEY, run_sessionize, take_docs, "RL.SESSIONIZE visitor 1 1800"),
    ROW("rl.psessionize", "As RL.SESSIONIZE, with times in milliseconds", ENGINE_TAKE_KEY, run_psessionize,
        take_docs, "RL.PSESSIONIZE visitor 1 1800000"),
    ROW("rl.del", "Forgets the bucket of these words: 1, or 0 if there was none", ENGINE_RESET_KEY,
        run_smyte_del, look_docs, "RL.DEL twoPerMin 2 60"),
    ROW("rl.pdel", "As RL.DEL, with times in milliseconds", ENGINE_RESET_KEY, run_pdel, look_docs,
        "RL.PDEL twoPerMin 2 60000"),
    {0},
};
