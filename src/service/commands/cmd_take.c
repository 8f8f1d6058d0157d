/* SPDX-License-Identifier: MIT */
/*
 * The commands that ask for units, or tell about them: WEIR.TAKE, PEEK, GIVE, CHARGE, RESET, ACQUIRE,
 * RESERVE, COMMIT, CANCEL. What they mean is in src/service/engine.
 */
#include "base/sat.h"
#include "service/commands/decision.h"

/* ---- words ---- */

static bool parse_take(struct call *call, struct request *request)
{
    size_t at = 1;
    return weir_parse_pairs(call, request, &at, PAIRS_MAX, false) &&
           weir_parse_options(call, request, at, OPTION_ID | OPTION_FULL);
}

static bool parse_acquire(struct call *call, struct request *request)
{
    size_t at = 1;
    return weir_parse_pairs(call, request, &at, 1, false) &&
           weir_parse_options(call, request, at, OPTION_TIMEOUT | OPTION_FULL);
}

static bool parse_peek(struct call *call, struct request *request)
{
    size_t at = 1;
    return weir_parse_pairs(call, request, &at, 1, false) &&
           weir_parse_options(call, request, at, OPTION_FULL);
}

static bool parse_adjust(struct call *call, struct request *request)
{
    size_t at = 1;
    return weir_parse_pairs(call, request, &at, 1, true) && weir_parse_options(call, request, at, OPTION_ID);
}

static bool parse_reset(struct call *call, struct request *request)
{
    size_t at = 1;
    return weir_parse_pairs(call, request, &at, 1, false);
}

static bool parse_reserve(struct call *call, struct request *request)
{
    size_t at = 1;
    return weir_parse_pairs(call, request, &at, LEDGER_PAIRS, true) &&
           weir_parse_options(call, request, at, OPTION_TTL | OPTION_TIMEOUT | OPTION_ID | OPTION_FULL);
}

static bool parse_commit(struct call *call, struct request *request)
{
    request->reservation = call->args[1];
    request->used_count = call->count - 2;
    if (request->used_count > LEDGER_PAIRS) {
        weir_call_arity(call);
        return false;
    }
    for (size_t i = 0; i < request->used_count; i++)
        if (!weir_call_units(call, 2 + i, "what was used", 0, &request->used[i]))
            return false;
    return true;
}

/* ---- answers ---- */

static void encode_take(struct call *call, const struct request *request, const struct answer *answer)
{
    weir_encode_verdict(call, request, answer, 0);
}

static void encode_ok(struct call *call, const struct request *request, const struct answer *answer)
{
    (void)request, (void)answer;
    weir_reply_simple(&call->reply, "OK");
}

static void encode_acquire(struct call *call, const struct request *request, const struct answer *answer)
{
    weir_encode_verdict(call, request, answer, 1);
    weir_reply_field(&call->reply, "waited_ms", ms_up(call->worker->now_ns - request->asked_ns));
}

static void encode_reserve(struct call *call, const struct request *request, const struct answer *answer)
{
    char text[LEDGER_TEXT_MAX];
    weir_encode_verdict(call, request, answer, 2);
    if (answer->reservation != 0)
        weir_ledger_text(answer->reservation, text);
    weir_reply_text_field(&call->reply, "id", answer->reservation != 0 ? text : NULL);
    weir_reply_field(&call->reply, "due_in_ms", min64(ms_up(answer->wait_ns), INT32_MAX));
}

static void encode_settled(struct call *call, const struct request *request, const struct answer *answer)
{
    bool cancel = request->verb == ENGINE_CANCEL;
    weir_reply_map(&call->reply, cancel ? 2 : answer->settled_late ? 4 : 3);
    if (!cancel)
        weir_reply_field(&call->reply, "charged", answer->settled_charged);
    weir_reply_field(&call->reply, "given_back", answer->settled_given_back);
    weir_reply_field(&call->reply, "remaining", answer->settled_remaining);
    if (answer->settled_late) {
        weir_reply_text(&call->reply, "late");
        weir_reply_bool(&call->reply, true);
    }
}

/* ---- the table ---- */

#define PAIR_DOCS                                                                                            \
    {.name = "policy"}, {.name = "key", .type = ARG_KEY},                                                    \
    {                                                                                                        \
        .name = "n", .type = ARG_INTEGER, .flags = ARG_OPTIONAL                                              \
    }
#define PAIR_N_DOCS                                                                                          \
    {.name = "policy"}, {.name = "key", .type = ARG_KEY},                                                    \
    {                                                                                                        \
        .name = "n", .type = ARG_INTEGER                                                                     \
    }
#define ID_DOCS                                                                                              \
    {                                                                                                        \
        .name = "request-id", .token = "ID", .flags = ARG_OPTIONAL                                           \
    }
#define FULL_DOCS                                                                                            \
    {                                                                                                        \
        .name = "full", .type = ARG_TOKEN, .token = "FULL", .flags = ARG_OPTIONAL                            \
    }
#define MORE_DOCS(NAME, PARTS)                                                                               \
    {                                                                                                        \
        .name = NAME, .type = ARG_BLOCK, .token = "AND", .flags = ARG_OPTIONAL | ARG_MULTIPLE,               \
        .parts = PARTS                                                                                       \
    }

static const struct arg pair_docs[] = {PAIR_DOCS, {0}};
static const struct arg pair_n_docs[] = {PAIR_N_DOCS, {0}};
static const struct arg take_docs[] = {PAIR_DOCS, MORE_DOCS("and", pair_docs), ID_DOCS, FULL_DOCS, {0}};
static const struct arg acquire_docs[] = {
    PAIR_DOCS,
    {.name = "ms", .type = ARG_INTEGER, .token = "TIMEOUT", .flags = ARG_OPTIONAL},
    FULL_DOCS,
    {0}};
static const struct arg peek_docs[] = {PAIR_DOCS, FULL_DOCS, {0}};
static const struct arg adjust_docs[] = {PAIR_N_DOCS, ID_DOCS, {0}};
static const struct arg reset_docs[] = {{.name = "policy"}, {.name = "key", .type = ARG_KEY}, {0}};
static const struct arg reserve_docs[] = {
    PAIR_N_DOCS,
    MORE_DOCS("pair", pair_n_docs),
    {.name = "ttl-ms", .type = ARG_INTEGER, .token = "TTL", .flags = ARG_OPTIONAL},
    {.name = "timeout-ms", .type = ARG_INTEGER, .token = "TIMEOUT", .flags = ARG_OPTIONAL},
    ID_DOCS,
    FULL_DOCS,
    {0}};
static const struct arg commit_docs[] = {
    {.name = "reservation"}, {.name = "n", .type = ARG_INTEGER, .flags = ARG_OPTIONAL | ARG_MULTIPLE}, {0}};
static const struct arg cancel_docs[] = {{.name = "reservation"}, {0}};

#define DECISION(NAME, SUMMARY, ARITY, VERB, PARSE, ENCODE)                                                  \
    COMMAND(NAME, SUMMARY, "weir", ARITY, VERB, weir_run_decision), .parse = PARSE, .encode = ENCODE

const struct command weir_commands_take[] = {
    {DECISION("weir.take",
              "Takes n units of a key's limits now, or nothing; with AND of several keys all or nothing", -3,
              ENGINE_TAKE, parse_take, encode_take),
     .policy_at = 1, .key_at = 2, .docs = take_docs, .example = "WEIR.TAKE api user:42"},
    {DECISION("weir.acquire", "Takes n units, and answers when they are due, first come, first served", -3,
              ENGINE_ACQUIRE, parse_acquire, encode_acquire),
     .flags = CMD_BLOCKING, .policy_at = 1, .key_at = 2, .docs = acquire_docs,
     .example = "WEIR.ACQUIRE api user:42 1 TIMEOUT 250"},
    {DECISION("weir.peek", "Tells what WEIR.TAKE would answer, and takes nothing", -3, ENGINE_PEEK,
              parse_peek, encode_take),
     .policy_at = 1, .key_at = 2, .docs = peek_docs, .example = "WEIR.PEEK api user:42"},
    {DECISION("weir.give", "Hands n unused units back; never more than refilling has not made up for already",
              -4, ENGINE_GIVE, parse_adjust, encode_ok),
     .policy_at = 1, .key_at = 2, .docs = adjust_docs, .example = "WEIR.GIVE api user:42 1"},
    {DECISION("weir.charge", "Counts n units that were used already, even into debt", -4, ENGINE_CHARGE,
              parse_adjust, encode_ok),
     .policy_at = 1, .key_at = 2, .docs = adjust_docs, .example = "WEIR.CHARGE api user:42 5"},
    {DECISION("weir.reset", "Makes a key as if never used", 3, ENGINE_RESET, parse_reset, encode_ok),
     .policy_at = 1, .key_at = 2, .docs = reset_docs, .example = "WEIR.RESET api user:42"},
    {DECISION("weir.reserve",
              "Takes units that may still be handed back: all pairs or none, until the TTL ends", -4,
              ENGINE_RESERVE, parse_reserve, encode_reserve),
     .policy_at = 1, .key_at = 2, .docs = reserve_docs,
     .example = "WEIR.RESERVE llm-tokens org:7 4000 TTL 120000"},
    {DECISION("weir.commit", "Settles a reservation with what was really used, one number per pair", -2,
              ENGINE_COMMIT, parse_commit, encode_settled),
     .docs = commit_docs},
    {DECISION("weir.cancel", "Hands a reservation back", 2, ENGINE_CANCEL, parse_commit, encode_settled),
     .docs = cancel_docs},
    {0}};
