/* SPDX-License-Identifier: MIT */
/*
 * The commands that ask for units, or tell about them: WEIR.TAKE, PEEK, GIVE, CHARGE, RESET, ACQUIRE.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "service/pending.h"
#include "service/persist/record_change.h"
#include "service/policies/freeze.h"
#include "service/engine/request_id.h"
#include "service/run.h"
#include "table/verbs.h"

/* ---- take ---- */

/* Reads [ID request-id] at the end of a command. false: an error was answered. */
static bool read_take_request_id(struct call *call, size_t at, struct slice *id)
{
    *id = (struct slice){0};
    if (at == call->count)
        return true;
    if (!weir_call_word(call, at, "id") || at + 2 != call->count) {
        weir_call_syntax(call, weir_call_word(call, at, "id") && at + 2 < call->count ? at + 2 : at);
        return false;
    }
    *id = call->args[at + 1];
    if (id->len > 0 && id->len <= KEY_MAX)
        return true;
    weir_call_error(call, "ERR a request id has 1 to %d bytes", KEY_MAX);
    return false;
}

/* Decides; true: it waits for a fleet instead, and is to be run again. */
static bool take_or_wait(struct call *call, struct pair *pairs, size_t count, struct answer *answer)
{
    do
        weir_decide_take(call->worker, pairs, count, answer);
    while (answer->waits_for_fleet && !weir_pending_fleet(call, answer->hold_ns, pairs, count));
    return answer->waits_for_fleet;
}

static void take_once(struct call *call, struct pair *pairs, size_t count, struct slice id)
{
    struct answer answer;
    struct request_visit visit;
    uint64_t fingerprint = weir_request_fingerprint(call, pairs, count, 0, 0);
    switch (weir_request_begin(call, pairs, count, id, fingerprint, 0, &visit)) {
    case REQUEST_NEW: {
        if (take_or_wait(call, pairs, count, &answer)) {
            weir_request_end(call, &visit, NULL);
            return;
        }
        struct ledger_verdict verdict = weir_verdict_of(&answer);
        weir_request_end(call, &visit, &verdict);
        break;
    }
    case REQUEST_AGAIN:
        weir_verdict_answer(call->worker, &visit.verdict, pairs, count, &answer);
        count_up(answer.allowed ? &call->worker->allowed : &call->worker->refused, 1);
        break;
    case REQUEST_NO_ROOM:
        weir_request_refuse(call->worker, pairs, count, &answer);
        break;
    case REQUEST_OTHER:
        return;
    }
    weir_call_answer(call, &answer, 0);
}

static void run_take(struct call *call)
{
    struct pair pairs[PAIRS_MAX];
    struct slice id;
    struct answer answer;
    size_t at = 1, count = weir_call_pairs(call, &at, pairs, PAIRS_MAX, false);
    if (count == 0 || !read_take_request_id(call, at, &id))
        return;
    if (__builtin_expect(call->store_ill, 0)) {
        if (weir_call_unrecorded(call, pairs, count, &answer))
            weir_call_answer(call, &answer, 0);
        return;
    }
    if (id.bytes) {
        take_once(call, pairs, count, id);
        return;
    }
    if (!take_or_wait(call, pairs, count, &answer))
        weir_call_answer(call, &answer, 0);
}

/* ---- one pair ---- */

/* "policy key [n]" and nothing else. */
static bool read_only_pair(struct call *call, struct pair *pair)
{
    size_t at = 1;
    if (weir_call_pairs(call, &at, pair, 1, false) == 0)
        return false;
    if (at != call->count)
        weir_call_syntax(call, at);
    return at == call->count;
}

static void run_peek(struct call *call)
{
    struct pair pair;
    struct answer answer;
    if (!read_only_pair(call, &pair))
        return;
    weir_decide_peek(call->worker, &pair, &answer);
    weir_call_answer(call, &answer, 0);
}

static void run_reset_key(struct call *call)
{
    struct pair pair = {.policy = weir_call_policy(call, 1), .n = 1};
    if (!pair.policy || !weir_call_key(call, 2))
        return;
    pair.key = call->args[2];
    if (pair.policy->leases) {
        weir_call_error(call,
                        "ERR policy '%s' shares its units with other servers, and none of them resets what "
                        "all have spent; weir quota set gives its pool another total from the next window on",
                        pair.policy->name);
        return;
    }
    if (pair.policy->pools)
        weir_pair_map(&pair);
    if (call_frozen(call, pair.policy, pair.key))
        return;
    weir_decide_reset(call->worker, &pair);
    weir_reply_simple(&call->reply, "OK");
}

/* ---- give and charge ---- */

typedef bool adjust(struct worker *worker, const struct pair *pair);

static bool give_pair(struct worker *worker, const struct pair *pair)
{
    weir_decide_give(worker, pair);
    return true;
}

static void answer_adjusted(struct call *call, const struct pair *pair, bool done)
{
    if (done)
        weir_reply_simple(&call->reply, "OK");
    else
        weir_call_error(call, "UNAVAILABLE no room for this key in policy '%s': nothing was charged%s",
                        pair->policy->name,
                        pair->policy->leases ? ", or its pool is not there yet: try again" : "");
}

static void adjust_once(struct call *call, const struct pair *pair, struct slice id, adjust *how)
{
    struct request_visit visit;
    uint64_t fingerprint = weir_request_fingerprint(call, pair, 1, 0, 0);
    if (how == give_pair)
        weir_request_flush(call);
    switch (weir_request_begin(call, pair, 1, id, fingerprint, 0, &visit)) {
    case REQUEST_NEW: {
        struct ledger_verdict verdict = {.allowed = true};
        if (how == give_pair)
            weir_request_foresee(call, &visit, &verdict);
        verdict.allowed = how(call->worker, pair);
        weir_request_end(call, &visit, &verdict);
        answer_adjusted(call, pair, verdict.allowed);
        break;
    }
    case REQUEST_AGAIN:
        answer_adjusted(call, pair, visit.verdict.allowed);
        break;
    case REQUEST_NO_ROOM:
        weir_call_error(call,
                        "UNAVAILABLE no room for another request id: nothing was done; try again later");
        break;
    case REQUEST_OTHER:
        break;
    }
}

static void adjust_key(struct call *call, adjust *how)
{
    struct pair pair;
    struct slice id;
    size_t at = 1;
    if (weir_call_pairs(call, &at, &pair, 1, true) == 0 || !read_take_request_id(call, at, &id))
        return;
    if (id.bytes)
        adjust_once(call, &pair, id, how);
    else
        answer_adjusted(call, &pair, how(call->worker, &pair));
}

static void run_give(struct call *call)
{
    adjust_key(call, give_pair);
}

static void run_charge(struct call *call)
{
    adjust_key(call, weir_decide_charge);
}

/* ---- acquire ---- */

static void answer_acquired(struct call *call, const struct answer *answer, int64_t waited_ns)
{
    weir_call_answer(call, answer, 1);
    weir_reply_text(&call->reply, "waited_ms");
    weir_reply_integer(&call->reply, weir_ms_up(waited_ns));
}

/* [TIMEOUT ms]; without it that of the limits, else as long as it takes. */
static bool read_timeout(struct call *call, size_t at, const struct pair *pair, int64_t *timeout_ns)
{
    const struct limit_labels *labels;
    int64_t timeout_ms;
    (void)weir_policy_find_table(pair->policy, pair->key, &labels);
    *timeout_ns = labels && labels->timeout_ns >= 0 ? labels->timeout_ns : WEIR_FOREVER;
    if (at == call->count)
        return true;
    if (!weir_call_word(call, at, "timeout") || at + 2 != call->count) {
        weir_call_syntax(call, weir_call_word(call, at, "timeout") && at + 2 < call->count ? at + 2 : at);
        return false;
    }
    if (!weir_call_ms(call, at + 1, "TIMEOUT", 0, &timeout_ms))
        return false;
    *timeout_ns = sat_mul(timeout_ms, WEIR_MS);
    return true;
}

/* Memory to wait in is needed before units are promised: none are if there is none. */
static void acquire_promised(struct call *call, const struct pair *pair, int64_t timeout_ns,
                             int64_t waited_ns)
{
    struct answer answer;
    struct weir_reservation reservation;
    struct pending *pending = timeout_ns > 0 ? weir_pending_new(call, SIZE_MAX) : NULL;
    if (timeout_ns > 0 && !pending) {
        weir_call_error(call, "ERR out of memory: nothing was taken");
        return;
    }
    weir_decide_reserve(call->worker, pair, timeout_ns, &reservation, &answer);
    if (answer.allowed && answer.wait_ns > 0) {
        weir_pending_due(call, pending, pair, &answer, &reservation);
        return;
    }
    free(pending);
    answer_acquired(call, &answer, waited_ns);
}

static void acquire_leased(struct call *call, struct pair *pair, int64_t timeout_ns, int64_t waited_ns)
{
    struct answer answer;
    struct weir_reservation none;
    do
        weir_decide_reserve(call->worker, pair, timeout_ns, &none, &answer);
    while (answer.waits_for_fleet && !weir_pending_fleet(call, answer.hold_ns, pair, 1));
    if (!answer.waits_for_fleet)
        answer_acquired(call, &answer, waited_ns);
}

static void run_acquire(struct call *call)
{
    struct pair pair;
    struct answer answer;
    int64_t timeout_ns, waited_ns = call->worker->now_ns - call_asked_ns(call);
    size_t at = 1;
    if (call->pending && call->pending->cause == PENDING_DUE) {
        answer_acquired(call, &call->pending->answer, waited_ns);
        return;
    }
    if (weir_call_pairs(call, &at, &pair, 1, false) == 0 || !read_timeout(call, at, &pair, &timeout_ns))
        return;
    if (__builtin_expect(call->store_ill, 0)) {
        if (weir_call_unrecorded(call, &pair, 1, &answer))
            answer_acquired(call, &answer, waited_ns);
        return;
    }
    if (timeout_ns != WEIR_FOREVER)
        timeout_ns = max64(timeout_ns - waited_ns, 0);
    if (pair.policy->leases)
        acquire_leased(call, &pair, timeout_ns, waited_ns);
    else
        acquire_promised(call, &pair, timeout_ns, waited_ns);
}

/* ---- the table ---- */

static const struct arg take_more[] = {
    {.name = "policy", .type = ARG_STRING},
    {.name = "key", .type = ARG_KEY},
    {.name = "n", .type = ARG_INTEGER, .flags = ARG_OPTIONAL},
    {0},
};
static const struct arg take_docs[] = {
    {.name = "policy", .type = ARG_STRING},
    {.name = "key", .type = ARG_KEY},
    {.name = "n", .type = ARG_INTEGER, .flags = ARG_OPTIONAL},
    {.name = "and",
     .type = ARG_BLOCK,
     .token = "AND",
     .flags = ARG_OPTIONAL | ARG_MULTIPLE,
     .parts = take_more},
    {.name = "request-id", .type = ARG_STRING, .token = "ID", .flags = ARG_OPTIONAL},
    {0},
};
static const struct arg acquire_docs[] = {
    {.name = "policy", .type = ARG_STRING},
    {.name = "key", .type = ARG_KEY},
    {.name = "n", .type = ARG_INTEGER, .flags = ARG_OPTIONAL},
    {.name = "ms", .type = ARG_INTEGER, .token = "TIMEOUT", .flags = ARG_OPTIONAL},
    {0},
};
static const struct arg peek_docs[] = {
    {.name = "policy", .type = ARG_STRING},
    {.name = "key", .type = ARG_KEY},
    {.name = "n", .type = ARG_INTEGER, .flags = ARG_OPTIONAL},
    {0},
};
static const struct arg adjust_docs[] = {
    {.name = "policy", .type = ARG_STRING},
    {.name = "key", .type = ARG_KEY},
    {.name = "n", .type = ARG_INTEGER},
    {.name = "request-id", .type = ARG_STRING, .token = "ID", .flags = ARG_OPTIONAL},
    {0},
};
static const struct arg reset_docs[] = {
    {.name = "policy", .type = ARG_STRING},
    {.name = "key", .type = ARG_KEY},
    {0},
};

const struct command weir_commands_take[] = {
    {.name = "weir.take",
     .summary = "Takes n units of a key's limits now, or nothing; with AND of several keys all or nothing",
     .group = "weir",
     .arity = -3,
     .may = MAY_TAKE,
     .flags = CMD_WRITE | CMD_WITHOUT_STORE,
     .policy_at = 1,
     .key_at = 2,
     .run = run_take,
     .docs = take_docs,
     .example = "WEIR.TAKE api user:42"},
    {.name = "weir.acquire",
     .summary = "Takes n units, and answers when they are due, first come, first served",
     .group = "weir",
     .arity = -3,
     .may = MAY_TAKE,
     .flags = CMD_WRITE | CMD_BLOCKING | CMD_WITHOUT_STORE,
     .policy_at = 1,
     .key_at = 2,
     .run = run_acquire,
     .docs = acquire_docs,
     .example = "WEIR.ACQUIRE api user:42 1 TIMEOUT 250"},
    {.name = "weir.peek",
     .summary = "Tells what WEIR.TAKE would answer, and takes nothing",
     .group = "weir",
     .arity = -3,
     .may = MAY_LOOK,
     .policy_at = 1,
     .key_at = 2,
     .run = run_peek,
     .docs = peek_docs,
     .example = "WEIR.PEEK api user:42"},
    {.name = "weir.give",
     .summary = "Hands n unused units back; never more than refilling has not made up for already",
     .group = "weir",
     .arity = -4,
     .may = MAY_ADJUST,
     .flags = CMD_WRITE,
     .policy_at = 1,
     .key_at = 2,
     .run = run_give,
     .docs = adjust_docs,
     .example = "WEIR.GIVE api user:42 1"},
    {.name = "weir.charge",
     .summary = "Counts n units that were used already, even into debt",
     .group = "weir",
     .arity = -4,
     .may = MAY_ADJUST,
     .flags = CMD_WRITE,
     .policy_at = 1,
     .key_at = 2,
     .run = run_charge,
     .docs = adjust_docs,
     .example = "WEIR.CHARGE api user:42 5"},
    {.name = "weir.reset",
     .summary = "Makes a key as if never used",
     .group = "weir",
     .arity = 3,
     .may = MAY_ADJUST,
     .flags = CMD_WRITE,
     .policy_at = 1,
     .key_at = 2,
     .run = run_reset_key,
     .docs = reset_docs,
     .example = "WEIR.RESET api user:42"},
    {0},
};
