/* SPDX-License-Identifier: MIT */
#include "service/engine/request_id.h"

#include <string.h>

#include "base/hash.h"
#include "base/sat.h"
#include "ledger/persist.h"
#include "service/policies/freeze.h"
#include "service/run.h"
#include "table/verbs.h"

/* A refusal has changed nothing: to decide it anew costs nobody anything, and to remember it costs a place.
 */
#define REFUSED_NS (5 * WEIR_SEC)

/* ---- questions ---- */

/* One pair from word *at on. Behind a key stands a number, or the next word of the command. */
static bool read_policy_pair(struct call *call, size_t *at, struct pair *pair, bool n_needed)
{
    pair->policy = weir_call_policy(call, *at);
    if (!pair->policy || !weir_call_key(call, *at + 1))
        return false;
    pair->key = call->args[*at + 1];
    pair->said = (struct slice){0};
    pair->hash = call->found && *at == (size_t)call->command->policy_at ? call->hash : 0;
    pair->patient = !call->last;
    if (__builtin_expect(pair->policy->pools != NULL, 0))
        weir_pair_map(pair);
    if (call_frozen(call, pair->policy, pair->key))
        return false;
    pair->n = 1;
    *at += 2;
    if (!n_needed && (*at == call->count || weir_call_word(call, *at, "and") ||
                      weir_call_word(call, *at, "id") || weir_call_word(call, *at, "timeout")))
        return true;
    if (!weir_call_units(call, *at, "n", 1, &pair->n))
        return false;
    *at += 1;
    return true;
}

size_t weir_call_pairs(struct call *call, size_t *at, struct pair *pairs, size_t most, bool n_needed)
{
    size_t count = 0;
    do {
        if (count == most) {
            weir_call_error(call, "ERR at most %zu pairs of policy and key can be decided together", most);
            return 0;
        }
        *at += count > 0; /* AND */
        if (!read_policy_pair(call, at, &pairs[count], n_needed))
            return 0;
        count++;
    } while (weir_call_word(call, *at, "and"));
    return count;
}

static uint64_t mix_fingerprint(uint64_t hash, uint64_t nonce, const void *bytes, size_t len)
{
    struct hash_key key = {hash ^ len, nonce};
    return weir_hash(&key, bytes, len);
}

uint64_t weir_request_fingerprint(const struct call *call, const struct pair *pairs, size_t count,
                                  int64_t first, int64_t second)
{
    const struct ledger *ledger = &call->worker->service->ledger;
    int64_t numbers[] = {first, second, (int64_t)count};
    uint64_t hash = weir_ledger_question(ledger, call->command->name, strlen(call->command->name));
    uint64_t nonce = hash; /* cannot be foreseen, and is the same after a start */
    hash = mix_fingerprint(hash, nonce, numbers, sizeof numbers);
    for (size_t i = 0; i < count; i++) {
        hash = mix_fingerprint(hash, nonce, pairs[i].policy->name, strlen(pairs[i].policy->name));
        struct slice key = pair_said(&pairs[i]);
        hash = mix_fingerprint(hash, nonce, key.bytes, key.len);
        hash = mix_fingerprint(hash, nonce, &pairs[i].n, sizeof pairs[i].n);
    }
    return hash;
}

/* ---- in and out ---- */

static void leave_records(struct call *call, struct request_visit *visit)
{
    struct ledger *ledger = &call->worker->service->ledger;
    if (visit->has_reservation)
        weir_records_leave(ledger->reservations, &visit->reservation);
    if (visit->has_request)
        weir_records_leave(ledger->requests, &visit->request);
    visit->has_reservation = visit->has_request = false;
}

/* Whose id it is and what about: both names with the NUL behind them, which no name contains. */
static struct record_id request_record_id(const struct call *call, const struct policy *policy,
                                          struct slice id)
{
    char scope[sizeof call->user->name + sizeof policy->name];
    size_t user = strlen(call->user->name) + 1, len = strlen(policy->name) + 1;
    memcpy(scope, call->user->name, user);
    memcpy(scope + user, policy->name, len);
    return weir_ledger_request(&call->worker->service->ledger, scope, user + len, id.bytes, id.len);
}

/* A record that was entered: may this user have it, if it is new? */
static bool may_have(const struct call *call, const struct record_visit *visit, enum share_store store)
{
    struct call_admission_hook own = weir_call_admission_hook(call, store);
    return visit->record && (visit->found || own.hook.may_admit(&own.hook));
}

/* A new record that will be kept. */
static void count_ledger_record(const struct call *call, const struct records *records,
                                const struct record_visit *visit, enum share_store store)
{
    struct call_admission_hook own = weir_call_admission_hook(call, store);
    if (!visit->found && visit->record->expires_ns != 0)
        own.hook.admitted(&own.hook, weir_records_place(records, visit->record));
}

/* false: there is no room for it. */
static bool enter_request(struct call *call, const struct policy *policy, struct slice id,
                          struct request_visit *visit)
{
    struct record_id name = request_record_id(call, policy, id);
    weir_records_enter(call->worker->service->ledger.requests, &name, call->worker->now_ns, &visit->request);
    visit->has_request = true;
    return may_have(call, &visit->request, SHARE_REQUESTS);
}

static bool enter_reservation(struct call *call, uint64_t number, struct request_visit *visit)
{
    struct ledger *ledger = &call->worker->service->ledger;
    struct record_id name = weir_ledger_reservation(ledger, number);
    weir_records_enter(ledger->reservations, &name, call->worker->now_ns, &visit->reservation);
    visit->has_reservation = true;
    visit->reservation.looked = visit->reservation.found; /* an earlier run has drawn the same lot */
    return !visit->reservation.found && may_have(call, &visit->reservation, SHARE_RESERVATIONS);
}

static void list_table_key(const struct policy_table *ptable, struct slice key)
{
    if (ptable)
        weir_table_mark_dirty(ptable->table, table_hash(ptable->table, key.bytes, key.len));
}

/* The first one's thread may not have appended what it has charged, and may be killed before it does. Its
 * record is appended again behind that, never before: see weir_records_leave. */
static void list_charges(const struct pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        list_table_key(weir_policy_find_table(pairs[i].policy, pairs[i].key, NULL), pairs[i].key);
        list_table_key(pairs[i].policy->previous, pairs[i].key);
        list_table_key(pairs[i].policy->candidate_table, pairs[i].key);
    }
}

static enum request_seen recall_verdict(struct call *call, const struct pair *pairs, size_t count,
                                        struct slice id, struct request_visit *visit)
{
    const struct ledger_request *request = visit_request(&visit->request);
    bool same = request->fingerprint == visit->fingerprint;
    char shown[72];
    visit->verdict = request->verdict;
    visit->request.looked = !same;
    if (same) /* the answer waits for what it repeats as if it had changed it */
        list_charges(pairs, count);
    leave_records(call, visit);
    if (same)
        return REQUEST_AGAIN;
    weir_call_error(call,
                    "ERR the id '%s' belongs to another question; every question needs an id of its own",
                    weir_shown(id, shown));
    return REQUEST_OTHER;
}

enum request_seen weir_request_begin(struct call *call, const struct pair *pairs, size_t count,
                                     struct slice id, uint64_t fingerprint, uint64_t reservation,
                                     struct request_visit *visit)
{
    const struct policy *policy = pairs[0].policy;
    *visit = (struct request_visit){.fingerprint = fingerprint,
                                    .expires_ns = sat_add(call->worker->now_ns, policy->settings.ids_ns),
                                    .refused_expires_ns = sat_add(call->worker->now_ns, REFUSED_NS)};
    bool room = !id.bytes || enter_request(call, policy, id, visit);
    if (visit->request.found)
        return recall_verdict(call, pairs, count, id, visit);
    if (room && reservation != 0)
        room = enter_reservation(call, reservation, visit);
    if (room)
        return REQUEST_NEW;
    leave_records(call, visit);
    return REQUEST_NO_ROOM;
}

static void write_verdict(struct request_visit *visit, const struct ledger_verdict *verdict)
{
    *visit_request(&visit->request) = (struct ledger_request){visit->fingerprint, *verdict};
    visit->request.record->expires_ns =
        verdict->allowed ? visit->expires_ns : min64(visit->expires_ns, visit->refused_expires_ns);
}

void weir_request_flush(struct call *call)
{
    weir_records_flush(call->worker->service->ledger.requests);
}

void weir_request_foresee(struct call *call, struct request_visit *visit,
                          const struct ledger_verdict *verdict)
{
    write_verdict(visit, verdict);
    weir_records_append(call->worker->service->ledger.requests, &visit->request);
}

void weir_request_end(struct call *call, struct request_visit *visit, const struct ledger_verdict *verdict)
{
    if (visit->has_request && verdict)
        write_verdict(visit, verdict);
    const struct ledger *ledger = &call->worker->service->ledger;
    if (visit->has_request)
        count_ledger_record(call, ledger->requests, &visit->request, SHARE_REQUESTS);
    if (visit->has_reservation)
        count_ledger_record(call, ledger->reservations, &visit->reservation, SHARE_RESERVATIONS);
    leave_records(call, visit);
}

/* ---- verdicts ---- */

struct ledger_verdict weir_verdict_of(const struct answer *answer)
{
    return (struct ledger_verdict){
        .remaining = answer->remaining,
        .retry_after_ms = weir_ms_up(answer->retry_after_ns),
        .reset_after_ms = weir_ms_up(answer->reset_after_ns),
        .due_in_ms = (int32_t)min64(weir_ms_up(answer->wait_ns), INT32_MAX),
        .allowed = answer->allowed,
        .reason = (int8_t)answer->reason,
        .limit = (int8_t)answer->limit,
        .pair = (int8_t)answer->pair,
    };
}

static int64_t ns_of(int64_t time_ms)
{
    return time_ms < 0 ? WEIR_FOREVER : sat_mul(time_ms, WEIR_MS);
}

void weir_verdict_answer(struct worker *worker, const struct ledger_verdict *verdict,
                         const struct pair *pairs, size_t count, struct answer *answer)
{
    size_t pair = verdict->pair >= 0 && (size_t)verdict->pair < count ? (size_t)verdict->pair : 0;
    *answer = (struct answer){
        .allowed = verdict->allowed != 0,
        .reason = (enum answer_reason)clamp64(verdict->reason, ANSWER_OK, ANSWER_SHARED),
        .remaining = verdict->remaining,
        .retry_after_ns = ns_of(verdict->retry_after_ms),
        .reset_after_ns = ns_of(verdict->reset_after_ms),
        .wait_ns = ns_of(verdict->due_in_ms),
        .limit = verdict->limit,
        .pair = (int32_t)pair,
        .policy = count > 1 ? pairs[pair].policy->name : NULL,
        .label = weir_decide_label(worker, &pairs[pair], verdict->limit),
    };
}

void weir_request_refuse(struct worker *worker, const struct pair *pairs, size_t count, struct answer *answer)
{
    *answer = (struct answer){.reason = ANSWER_FULL,
                              .retry_after_ns = WEIR_SEC,
                              .policy = count > 1 ? pairs[0].policy->name : NULL,
                              .label = weir_decide_label(worker, &pairs[0], 0)};
    count_up(&worker->refused, 1);
    count_up(&pairs[0].policy->counters->counts[worker->number].refused, 1);
}
