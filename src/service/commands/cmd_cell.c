/* SPDX-License-Identifier: MIT */
/*
 * redis-cell's CL.THROTTLE and what others made of it: THROTTLE of throttlecrab, GCRA of a Redis that was
 * never released. All of them ask for the same keys; a key has no limit, only a time at which it is full
 * again (table/own.c). docs/compatible.md says what is different.
 */
#include "base/sat.h"
#include "service/commands/compatible.h"
#include "table/own.h"
#include "table/verbs.h"

#define PERIOD_MAX_S (INT64_MAX / WEIR_SEC)

/* ---- deciding ---- */

struct throttle_request {
    struct weir_own_limit limit;
    int64_t quantity; /* 0: look; below: give back */
};

/* Seconds, rounded up: nobody is told to come back before it helps. */
static int64_t ceil_seconds(int64_t time_ns)
{
    return time_ns == WEIR_FOREVER ? -1 : div_up(max64(time_ns, 0), WEIR_SEC);
}

/* Who may only take must not give back to himself. */
static bool may_give(struct call *call)
{
    if (weir_user_may(call->user, MAY_ADJUST))
        return true;
    weir_call_error(call,
                    "NOPERM User %s has no permissions to run the '%s' command with a negative quantity",
                    call->user->name, call->command->name);
    return false;
}

/* false: an error was answered. */
static bool decide_throttle(struct call *call, const struct throttle_request *ask,
                            struct weir_verdict *verdict)
{
    struct worker *worker = call->worker;
    struct weir_table *table = worker->service->client_keys->table;
    struct slice key = call->args[1];
    if (ask->quantity < 0 && !may_give(call))
        return false;
    struct share_hook own = weir_share_hook(worker, call->user, SHARE_CLIENT_KEYS);
    if (ask->quantity > 0)
        (void)weir_table_take_own_as(table, worker->now_ns, key.bytes, key.len, &ask->limit, ask->quantity,
                                     &own.hook, verdict);
    else
        (void)weir_table_give_own_at(table, worker->now_ns, key.bytes, key.len, &ask->limit,
                                     sat_sub(0, ask->quantity), verdict);
    if (verdict->reason == WEIR_INVALID) { /* what else could be wrong has been looked at */
        refuse_horizon(call);
        return false;
    }
    if (verdict->reason == WEIR_FULL) /* the next who leaves makes room */
        verdict->retry_after_ns = verdict->reset_after_ns = WEIR_SEC;
    worker->changed |= ask->quantity < 0 || (ask->quantity > 0 && verdict->allowed);
    if (ask->quantity > 0)
        count_decision(worker, verdict->allowed);
    return true;
}

static void reply_five(struct call *call, const int64_t five[static 5])
{
    weir_reply_array(&call->reply, 5);
    for (int i = 0; i < 5; i++)
        weir_reply_integer(&call->reply, five[i]);
}

/* As redis-cell has it: limited, limit, remaining, retry after or -1, reset after. */
static void answer_cell(struct call *call, const struct throttle_request *ask)
{
    struct weir_verdict verdict;
    if (!decide_throttle(call, ask, &verdict))
        return;
    int64_t retry = verdict.allowed ? -1 : ceil_seconds(verdict.retry_after_ns);
    reply_five(call, (const int64_t[5]){verdict.allowed ? 0 : 1, ask->limit.burst, verdict.remaining, retry,
                                        ceil_seconds(verdict.reset_after_ns)});
}

/* ---- CL.THROTTLE ---- */

static bool cell_number(struct call *call, size_t at, int64_t *number)
{
    char text[72];
    if (read_signed(call->args[at], number))
        return true;
    weir_call_error(call, "ERR Couldn't parse as integer: %s", weir_shown(call->args[at], text));
    return false;
}

/* false: an error was answered. */
static bool check_cell_rate(struct call *call, int64_t burst, int64_t count, int64_t period_s)
{
    if (count == 0 || period_s == 0)
        weir_call_error(call, "ERR Zero rates are not supported: count and period must be 1 or more");
    else if (burst < 0)
        weir_call_error(call, "ERR max_burst must be 0 or more, got %lld", (long long)burst);
    else if (count < 0)
        weir_call_error(call, "ERR count must be 1 or more, got %lld", (long long)count);
    else if (period_s < 0 || period_s > PERIOD_MAX_S)
        weir_call_error(call, "ERR period must be 1 to %lld seconds, got %lld", (long long)PERIOD_MAX_S,
                        (long long)period_s);
    return !call->failed;
}

static void run_cl_throttle(struct call *call)
{
    int64_t burst, count, period_s, quantity = 1;
    if (call->count != 5 && call->count != 6) {
        weir_call_error(call, "ERR Usage: cl.throttle <key> <max_burst> <count per period> <period> "
                              "[<quantity>]");
        return;
    }
    if (!cell_number(call, 2, &burst) || !cell_number(call, 3, &count) || !cell_number(call, 4, &period_s) ||
        (call->count == 6 && !cell_number(call, 5, &quantity)) ||
        !check_cell_rate(call, burst, count, period_s))
        return;
    answer_cell(call, &(struct throttle_request){{count, period_s * WEIR_SEC, sat_add(burst, 1)}, quantity});
}

/* ---- GCRA ---- */

/* Seconds in decimal, to the nanosecond, rounded up. false: something else, or not above 0, or too long. */
static bool read_cell_period(struct slice text, int64_t *period_ns)
{
    int64_t time = 0, digit_ns = WEIR_SEC;
    size_t digits = 0;
    bool point = false, rest = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.bytes[i];
        if (c == '.' && !point) {
            point = true;
            continue;
        }
        if (c < '0' || c > '9')
            return false;
        digits++;
        if (point)
            digit_ns /= 10;
        rest |= digit_ns == 0 && c != '0';
        time = sat_add(point ? time : sat_mul(time, 10), sat_mul(c - '0', digit_ns));
    }
    *period_ns = sat_add(time, rest);
    return digits > 0 && *period_ns > 0 && *period_ns < INT64_MAX;
}

static void run_gcra(struct call *call)
{
    int64_t burst, count, period_ns, tokens = 1;
    bool option = call->count > 5;
    if (option && !weir_call_word(call, 5, "tokens") && !weir_call_word(call, 5, "num_requests")) {
        weir_call_syntax(call, 5);
        return;
    }
    if (call->count == 6 || call->count > 7) {
        weir_call_error(call, call->count == 6 ? "ERR Missing TOKENS value"
                                               : "ERR wrong number of arguments for 'gcra' command");
        return;
    }
    if (!weir_call_integer(call, 2, "max_burst", 0, &burst) ||
        !weir_call_integer(call, 3, "tokens_per_period", 1, &count))
        return;
    if (!read_cell_period(call->args[4], &period_ns)) {
        weir_call_error(call, "ERR period must be > 0 and < %lld seconds", (long long)PERIOD_MAX_S);
        return;
    }
    if (option && !weir_call_integer(call, 6, "TOKENS", 1, &tokens))
        return;
    answer_cell(call, &(struct throttle_request){{count, period_ns, sat_add(burst, 1)}, tokens});
}

/* ---- THROTTLE ---- */

/* throttlecrab's numbers are what they say: max_burst is the limit, 1 is yes, and waits are the other way
 * round. */
static void run_throttle(struct call *call)
{
    static const char *const names[] = {"max_burst", "count_per_period", "period", "quantity"};
    int64_t numbers[] = {0, 0, 0, 1};
    struct weir_verdict verdict;
    if (call->count > 6) {
        weir_call_arity(call);
        return;
    }
    for (size_t i = 0; i + 2 < call->count; i++)
        if (!read_signed(call->args[i + 2], &numbers[i])) {
            weir_call_error(call, "ERR invalid %s", names[i]);
            return;
        }
    for (size_t i = 0; i < 3; i++)
        if (numbers[i] < 1 || (i == 2 && numbers[i] > PERIOD_MAX_S)) {
            weir_call_error(call, "ERR invalid rate limit parameters: %s must be 1 or more, got %lld",
                            names[i], (long long)numbers[i]);
            return;
        }
    if (numbers[3] < 0) {
        weir_call_error(call, "ERR negative quantity: %lld", (long long)numbers[3]);
        return;
    }
    struct throttle_request ask = {{numbers[1], numbers[2] * WEIR_SEC, numbers[0]}, numbers[3]};
    if (decide_throttle(call, &ask, &verdict))
        reply_five(call, (const int64_t[5]){verdict.allowed ? 1 : 0, numbers[0], verdict.remaining,
                                            ceil_seconds(verdict.reset_after_ns),
                                            verdict.allowed ? 0 : ceil_seconds(verdict.retry_after_ns)});
}

/* ---- DEL ---- */

static int64_t owed_ns(struct call *call, struct slice key)
{
    struct weir_verdict verdict;
    (void)weir_table_give_own_at(call->worker->service->client_keys->table, call->worker->now_ns, key.bytes,
                                 key.len, &(struct weir_own_limit){1, 1, 1}, 0, &verdict);
    return verdict.reset_after_ns;
}

/* A key is there if it owes something that then is gone: what keys without room share stays. */
static void run_cell_del(struct call *call)
{
    int64_t gone = 0;
    call->worker->changed = true;
    for (size_t i = 1; i < call->count; i++) {
        struct slice key = call->args[i];
        int64_t before = owed_ns(call, key);
        weir_table_reset_at(call->worker->service->client_keys->table, call->worker->now_ns, key.bytes,
                            key.len);
        gone += owed_ns(call, key) < before;
    }
    weir_reply_integer(&call->reply, gone);
}

/* ---- table ---- */

static const struct arg throttle_docs[] = {
    {.name = "key", .type = ARG_KEY},
    {.name = "max_burst", .type = ARG_INTEGER},
    {.name = "count", .type = ARG_INTEGER},
    {.name = "period", .type = ARG_INTEGER},
    {.name = "quantity", .type = ARG_INTEGER, .flags = ARG_OPTIONAL},
    {0},
};

static const struct arg gcra_tokens[] = {
    {.name = "tokens", .type = ARG_INTEGER, .token = "TOKENS"},
    {.name = "requests", .type = ARG_INTEGER, .token = "NUM_REQUESTS"},
    {0},
};

static const struct arg gcra_docs[] = {
    {.name = "key", .type = ARG_KEY},
    {.name = "max_burst", .type = ARG_INTEGER},
    {.name = "tokens_per_period", .type = ARG_INTEGER},
    {.name = "period", .type = ARG_STRING},
    {.name = "how-many", .type = ARG_ONEOF, .flags = ARG_OPTIONAL, .parts = gcra_tokens},
    {0},
};

static const struct arg del_docs[] = {
    {.name = "key", .type = ARG_KEY, .flags = ARG_MULTIPLE},
    {0},
};

/* The number of words of CL.THROTTLE is looked at in `run`: redis-cell tells its usage. */
const struct command weir_commands_cell[] = {
    {COMMAND("cl.throttle",
             "Takes from a limit that comes with the call; burst = max_burst + 1: WEIR.POLICY SET api "
             "\"30/m burst=16\" is CL.THROTTLE 15 30 60 under a name",
             "redis-cell", -1, ENGINE_TAKE_KEY, run_cl_throttle),
     .key_at = 1, .docs = throttle_docs, .example = "CL.THROTTLE user123 15 30 60"},
    {COMMAND("throttle",
             "As throttlecrab has it: max_burst is the limit; allowed, limit, remaining, reset, retry",
             "redis-cell", -5, ENGINE_TAKE_KEY, run_throttle),
     .key_at = 1, .docs = throttle_docs, .example = "THROTTLE user123 16 30 60"},
    {COMMAND("gcra", "As CL.THROTTLE, with a period that may be decimal; replies are in seconds, rounded up",
             "redis-cell", -5, ENGINE_TAKE_KEY, run_gcra),
     .key_at = 1, .docs = gcra_docs, .example = "GCRA user123 15 30 60 TOKENS 2"},
    {COMMAND("del", "Forgets what keys have spent by CL.THROTTLE, THROTTLE or GCRA; gives how many had",
             "redis-cell", -2, ENGINE_RESET_KEY, run_cell_del),
     .key_at = 1, .docs = del_docs, .example = "DEL user123"},
    {0},
};
