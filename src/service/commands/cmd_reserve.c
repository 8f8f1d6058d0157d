/* SPDX-License-Identifier: MIT */
/*
 * WEIR.RESERVE, WEIR.COMMIT, WEIR.CANCEL: units that are taken now, and settled when it is known how many
 * were used.
 *
 * Room in the ledger is made first, then the units are charged, then the reservation is written, all of it
 * inside of its record: nobody can settle what is not charged. A reservation is settled once (settle.c). At
 * the end of its TTL, which begins when it is due, nothing comes back: nobody knows what was used.
 */
#include <inttypes.h>
#include <string.h>

#include "base/sat.h"
#include "service/engine/request_id.h"
#include "service/engine/settle.h"
#include "service/pending.h"
#include "service/run.h"
#include "table/verbs.h"

#define TIMEOUT_MAX_MS CONFIG_TTL_MAX_MS

/* ---- WEIR.RESERVE: the question ---- */

struct reserve_request {
    struct pair pairs[LEDGER_PAIRS];
    size_t count;
    int64_t ttl_ms, timeout_ms; /* -1: not said */
    struct slice id;            /* bytes NULL: none */
    uint64_t number;            /* of the reservation */
};

static bool read_ms(struct call *call, size_t at, const char *what, int64_t least, int64_t most,
                    int64_t *number)
{
    if (*number >= 0) {
        weir_call_error(call, "ERR %s is there twice", what);
        return false;
    }
    if (!weir_call_ms(call, at, what, least, number))
        return false;
    if (*number > most) {
        weir_call_error(call, "ERR %s is in milliseconds, at most %" PRId64 " (24 hours)", what, most);
        return false;
    }
    return true;
}

static bool read_reservation_request_id(struct call *call, size_t at, struct slice *id)
{
    if (id->bytes) {
        weir_call_error(call, "ERR ID is there twice");
        return false;
    }
    if (at >= call->count) {
        weir_call_syntax(call, at);
        return false;
    }
    *id = call->args[at];
    if (!id->bytes)
        id->bytes = "";
    return true;
}

static bool read_reserve_options(struct call *call, size_t at, struct reserve_request *ask)
{
    for (; at < call->count; at += 2) {
        bool good = false;
        if (weir_call_word(call, at, "TTL"))
            good = read_ms(call, at + 1, "TTL", 1, CONFIG_TTL_MAX_MS, &ask->ttl_ms);
        else if (weir_call_word(call, at, "TIMEOUT"))
            good = read_ms(call, at + 1, "TIMEOUT", 0, TIMEOUT_MAX_MS, &ask->timeout_ms);
        else if (weir_call_word(call, at, "ID"))
            good = read_reservation_request_id(call, at + 1, &ask->id);
        else
            weir_call_syntax(call, at);
        if (!good)
            return false;
    }
    if (ask->count > 1 && ask->timeout_ms > 0) {
        weir_call_error(call, "ERR TIMEOUT needs a single pair: several are reserved now or not at all; "
                              "leave TIMEOUT out and ask again after retry_after_ms");
        return false;
    }
    return true;
}

/* A reservation takes a place until it is settled or over: each of its policies says for how long at most. */
static bool check_ttl(struct call *call, const struct reserve_request *ask)
{
    for (size_t i = 0; i < ask->count; i++) {
        const struct policy *policy = ask->pairs[i].policy;
        if (ask->ttl_ms <= policy->settings.ttl_max_ms)
            continue;
        weir_call_error(call, "ERR TTL is too long: policy '%s' allows %" PRId64 " ms (reserve: {ttl_max})",
                        policy->name, policy->settings.ttl_max_ms);
        return false;
    }
    return true;
}

static bool read_question(struct call *call, struct reserve_request *ask)
{
    size_t at = 1;
    *ask = (struct reserve_request){.ttl_ms = -1, .timeout_ms = -1};
    ask->count = weir_call_pairs(call, &at, ask->pairs, LEDGER_PAIRS, true);
    return ask->count > 0 && read_reserve_options(call, at, ask) && check_ttl(call, ask);
}

/* ---- WEIR.RESERVE: the answer ---- */

static void reply_reservation(struct call *call, const struct answer *answer,
                              const struct ledger_verdict *verdict)
{
    char text[LEDGER_TEXT_MAX];
    weir_call_answer(call, answer, 2);
    weir_reply_text(&call->reply, "id");
    if (verdict->reservation != 0) {
        weir_ledger_text(verdict->reservation, text);
        weir_reply_text(&call->reply, text);
    } else {
        weir_reply_null(&call->reply);
    }
    weir_reply_text(&call->reply, "due_in_ms");
    weir_reply_integer(&call->reply, verdict->due_in_ms);
}

static void refuse_for_want_of_room(struct call *call, const struct reserve_request *ask)
{
    struct answer answer;
    weir_request_refuse(call->worker, ask->pairs, ask->count, &answer);
    reply_reservation(call, &answer, &(struct ledger_verdict){0});
}

static void answer_again(struct call *call, const struct reserve_request *ask,
                         const struct ledger_verdict *verdict)
{
    struct answer answer;
    weir_verdict_answer(call->worker, verdict, ask->pairs, ask->count, &answer);
    count_up(answer.allowed ? &call->worker->allowed : &call->worker->refused, 1);
    reply_reservation(call, &answer, verdict);
}

static void decide_once(struct call *call, const struct reserve_request *ask,
                        struct weir_reservation *promise, struct answer *answer)
{
    *answer = (struct answer){0};
    *promise = (struct weir_reservation){0};
    if (ask->count > 1)
        weir_decide_take(call->worker, ask->pairs, ask->count, answer);
    else
        weir_decide_reserve(call->worker, ask->pairs, ask->timeout_ms < 0 ? -1 : ask->timeout_ms * WEIR_MS,
                            promise, answer);
}

/* true: it waits for a fleet instead, and is to be run again. */
static bool decide_or_wait(struct call *call, struct reserve_request *ask, struct weir_reservation *promise,
                           struct answer *answer)
{
    do
        decide_once(call, ask, promise, answer);
    while (answer->waits_for_fleet && !weir_pending_fleet(call, answer->hold_ns, ask->pairs, ask->count));
    if (!answer->allowed || (answer->charged & 1) == 0 || promise->due_ns <= call->worker->now_ns)
        promise->n = 0; /* nothing to wait for */
    if (answer->ends_ns > 0)
        promise->due_ns = answer->ends_ns; /* then nothing that was leased comes back: settle.c */
    return answer->waits_for_fleet;
}

/* Only where the limits are enforced may an overrun be refused, too. */
static void write_pair(const struct call *call, const struct pair *pair, bool charged, size_t i,
                       struct ledger_reservation *entry)
{
    const struct limit_labels *labels;
    struct policy_table *ptable = weir_policy_find_table(pair->policy, pair->key, &labels);
    entry->pair[i] = (struct ledger_pair){.ptable = ptable->serial,
                                          .hash = table_hash(ptable->table, pair->key.bytes, pair->key.len),
                                          .n = pair->n};
    if (charged)
        entry->charged |= (uint8_t)(1u << i);
    if (charged && pair->policy->settings.overrun == OVERRUN_REFUSE &&
        weir_policy_mode(call->worker, pair->policy, pair_said(pair)) == MODE_ENFORCE)
        entry->strict |= (uint8_t)(1u << i);
}

/* Nothing is lost if there is no room: that policy table then counts what was reserved. */
static void write_also(const struct pair *pair, struct policy_table *ptable, size_t i,
                       struct ledger_reservation *entry)
{
    size_t at = entry->pairs + entry->also;
    if (at == LEDGER_PAIRS)
        return;
    entry->pair[at] = (struct ledger_pair){.ptable = ptable->serial,
                                           .hash = table_hash(ptable->table, pair->key.bytes, pair->key.len),
                                           .n = pair->n};
    entry->of[at] = (uint8_t)i;
    entry->also++;
}

/* The limits of before a change, which had to agree, and a candidate. */
static void write_others(const struct call *call, const struct pair *pair, const struct answer *answer,
                         size_t i, struct ledger_reservation *entry)
{
    const struct policy *policy = pair->policy;
    if ((answer->charged >> i & 1) != 0 && call->worker->now_ns < policy_previous_ends(policy) &&
        weir_policy_find_table(policy, pair->key, NULL) == policy->main)
        write_also(pair, policy->previous, i, entry);
    if ((answer->candidate_charged >> i & 1) != 0)
        write_also(pair, policy->candidate_table, i, entry);
}

static void write_reservation(const struct call *call, const struct reserve_request *ask,
                              const struct answer *answer, const struct weir_reservation *promise,
                              struct record *record)
{
    const struct ledger *ledger = &call->worker->service->ledger;
    struct ledger_reservation *entry = record_bytes(record);
    int64_t due_ns = sat_add(call->worker->now_ns, answer->wait_ns);
    *entry = (struct ledger_reservation){
        .number = ask->number, .promise = *promise, .pairs = (uint32_t)ask->count};
    entry->owner = weir_ledger_owner(ledger, call->user->name, strlen(call->user->name));
    for (size_t i = 0; i < ask->count; i++)
        write_pair(call, &ask->pairs[i], (answer->charged >> i & 1) != 0, i, entry);
    for (size_t i = 0; i < ask->count; i++)
        write_others(call, &ask->pairs[i], answer, i, entry);
    record->expires_ns = sat_add(due_ns, ask->ttl_ms * WEIR_MS);
}

/* Inside of the records. The id of a request is remembered at least as long as what it has reserved. */
static void reserve_pairs(struct call *call, struct reserve_request *ask, struct request_visit *visit)
{
    struct weir_reservation promise;
    struct answer answer;
    if (decide_or_wait(call, ask, &promise, &answer)) {
        weir_request_end(call, visit, NULL);
        return;
    }
    struct ledger_verdict verdict = weir_verdict_of(&answer);
    if (answer.allowed) {
        write_reservation(call, ask, &answer, &promise, visit->reservation.record);
        visit->expires_ns = max64(visit->expires_ns, visit->reservation.record->expires_ns);
        verdict.reservation = ask->number;
    }
    weir_request_end(call, visit, &verdict);
    reply_reservation(call, &answer, &verdict);
}

/* Nothing is charged, so there is nothing to settle: the id tells that to who settles it all the same. */
static void reserve_unrecorded(struct call *call, const struct reserve_request *ask)
{
    struct answer answer;
    if (weir_call_unrecorded(call, ask->pairs, ask->count, &answer))
        reply_reservation(call, &answer,
                          &(struct ledger_verdict){.reservation = ledger_unrecorded(ask->number)});
}

static void run_reserve(struct call *call)
{
    struct reserve_request ask;
    struct request_visit visit;
    if (!read_question(call, &ask))
        return;
    /* As it was said: what stands for words that were left out may have changed before it is asked again. */
    uint64_t fingerprint = weir_request_fingerprint(call, ask.pairs, ask.count, ask.ttl_ms, ask.timeout_ms);
    if (ask.ttl_ms < 0)
        ask.ttl_ms = ask.pairs[0].policy->settings.ttl_ms;
    ask.number = weir_ledger_next(&call->worker->service->ledger);
    if (__builtin_expect(call->store_ill, 0)) {
        reserve_unrecorded(call, &ask);
        return;
    }
    switch (weir_request_begin(call, ask.pairs, ask.count, ask.id, fingerprint, ask.number, &visit)) {
    case REQUEST_NEW:
        reserve_pairs(call, &ask, &visit);
        break;
    case REQUEST_AGAIN:
        answer_again(call, &ask, &visit.verdict);
        break;
    case REQUEST_NO_ROOM:
        refuse_for_want_of_room(call, &ask);
        break;
    case REQUEST_OTHER:
        break;
    }
}

/* ---- the table ---- */

static const struct arg pair_words[] = {{"policy", ARG_STRING, NULL, 0, NULL},
                                        {"key", ARG_KEY, NULL, 0, NULL},
                                        {"n", ARG_INTEGER, NULL, 0, NULL},
                                        {0}};

static const struct arg reserve_words[] = {
    {"policy", ARG_STRING, NULL, 0, NULL},
    {"key", ARG_KEY, NULL, 0, NULL},
    {"n", ARG_INTEGER, NULL, 0, NULL},
    {"pair", ARG_BLOCK, "AND", ARG_OPTIONAL | ARG_MULTIPLE, pair_words},
    {"ttl-ms", ARG_INTEGER, "TTL", ARG_OPTIONAL, NULL},
    {"timeout-ms", ARG_INTEGER, "TIMEOUT", ARG_OPTIONAL, NULL},
    {"request-id", ARG_STRING, "ID", ARG_OPTIONAL, NULL},
    {0}};

static const struct arg commit_words[] = {{"reservation", ARG_STRING, NULL, 0, NULL},
                                          {"n", ARG_INTEGER, NULL, ARG_OPTIONAL | ARG_MULTIPLE, NULL},
                                          {0}};

static const struct arg cancel_words[] = {{"reservation", ARG_STRING, NULL, 0, NULL}, {0}};

const struct command weir_commands_reserve[] = {
    {.name = "weir.reserve",
     .summary = "Takes units that may still be handed back: all pairs or none, until the TTL ends",
     .group = "weir",
     .arity = -4,
     .may = MAY_TAKE,
     .flags = CMD_WRITE | CMD_WITHOUT_STORE,
     .policy_at = 1,
     .key_at = 2,
     .run = run_reserve,
     .docs = reserve_words,
     .example = "WEIR.RESERVE llm-tokens org:7 4000 TTL 120000"},
    {.name = "weir.commit",
     .summary = "Settles a reservation with what was really used, one number per pair",
     .group = "weir",
     .arity = -2,
     .may = MAY_TAKE,
     .flags = CMD_WRITE | CMD_WITHOUT_STORE,
     .run = weir_run_commit,
     .docs = commit_words},
    {.name = "weir.cancel",
     .summary = "Hands a reservation back",
     .group = "weir",
     .arity = 2,
     .may = MAY_TAKE,
     .flags = CMD_WRITE | CMD_WITHOUT_STORE,
     .run = weir_run_cancel,
     .docs = cancel_words},
    {0}};
