/* SPDX-License-Identifier: MIT */
#include "service/engine/request_id.h"

#include <string.h>

#include "base/hash.h"
#include "base/sat.h"
#include "ledger/persist.h"
#include "service/engine/count.h"
#include "service/engine/decide.h"
#include "service/engine/engine.h"
#include "service/shares.h"
#include "table/verbs.h"

/* A refusal has changed nothing: to decide it anew costs nobody anything, and to remember it costs a place.
 */
#define REFUSED_NS (5 * WEIR_SEC)

/* ---- questions ---- */

static uint64_t mix_fingerprint(uint64_t hash, uint64_t nonce, const void *bytes, size_t len)
{
    struct hash_key key = {hash ^ len, nonce};
    return weir_hash(&key, bytes, len);
}

/* Of the whole question, as it was said: what stands for words that were left out may have changed before it
 * is asked again. */
static uint64_t fingerprint_of(const struct worker *worker, const struct request *request)
{
    const char *verb = weir_verbs[request->verb].name;
    int64_t numbers[] = {request->ttl_ms, request->timeout_ms, (int64_t)request->count};
    uint64_t hash = weir_ledger_question(&worker->service->ledger, verb, strlen(verb));
    uint64_t nonce = hash; /* cannot be foreseen, and is the same after a start */
    hash = mix_fingerprint(hash, nonce, numbers, sizeof numbers);
    for (size_t i = 0; i < request->count; i++) {
        const struct pair *pair = &request->pairs[i];
        struct slice key = pair_said(pair);
        hash = mix_fingerprint(hash, nonce, pair->policy->name, strlen(pair->policy->name));
        hash = mix_fingerprint(hash, nonce, key.bytes, key.len);
        hash = mix_fingerprint(hash, nonce, &pair->n, sizeof pair->n);
    }
    return hash;
}

/* ---- in and out ---- */

static void leave_records(struct worker *worker, struct request_visit *visit)
{
    struct ledger *ledger = &worker->service->ledger;
    if (visit->has_reservation)
        weir_records_leave(ledger->reservations, &visit->reservation);
    if (visit->has_request)
        weir_records_leave(ledger->requests, &visit->request);
    visit->has_reservation = visit->has_request = false;
}

/* Whose id it is and what about: both names with the NUL behind them, which no name contains. */
static struct record_id request_record_id(const struct worker *worker, const struct request *request)
{
    const struct policy *policy = request->pairs[0].policy;
    char scope[sizeof request->user->name + sizeof policy->name];
    size_t user = strlen(request->user->name) + 1, len = strlen(policy->name) + 1;
    memcpy(scope, request->user->name, user);
    memcpy(scope + user, policy->name, len);
    return weir_ledger_request(&worker->service->ledger, scope, user + len, request->id.bytes,
                               request->id.len);
}

/* A record that was entered: may this user have it, if it is new? */
static bool may_have(const struct worker *worker, const struct request *request,
                     const struct record_visit *visit, enum share_store store)
{
    struct share_hook own = weir_share_hook(worker, request->user, store);
    return visit->record && (visit->found || own.hook.may_admit(&own.hook));
}

/* A new record that will be kept. */
static void count_ledger_record(const struct worker *worker, const struct request *request,
                                const struct records *records, const struct record_visit *visit,
                                enum share_store store)
{
    struct share_hook own = weir_share_hook(worker, request->user, store);
    if (!visit->found && visit->record->expires_ns != 0)
        own.hook.admitted(&own.hook, weir_records_place(records, visit->record));
}

/* false: there is no room for it. */
static bool enter_request(struct worker *worker, const struct request *request, struct request_visit *visit)
{
    struct record_id name = request_record_id(worker, request);
    weir_records_enter(worker->service->ledger.requests, &name, worker->now_ns, &visit->request);
    visit->has_request = true;
    return may_have(worker, request, &visit->request, SHARE_REQUESTS);
}

static bool enter_reservation(struct worker *worker, const struct request *request, uint64_t number,
                              struct request_visit *visit)
{
    struct ledger *ledger = &worker->service->ledger;
    struct record_id name = weir_ledger_reservation(ledger, number);
    weir_records_enter(ledger->reservations, &name, worker->now_ns, &visit->reservation);
    visit->has_reservation = true;
    visit->reservation.looked = visit->reservation.found; /* an earlier run has drawn the same lot */
    return !visit->reservation.found && may_have(worker, request, &visit->reservation, SHARE_RESERVATIONS);
}

static void list_table_key(const struct policy_table *ptable, struct slice key)
{
    if (ptable)
        weir_table_mark_dirty(ptable->table, table_hash(ptable->table, key.bytes, key.len));
}

/* The first one's thread may not have appended what it has charged, and may be killed before it does. Its
 * record is appended again behind that, never before: see weir_records_leave. */
static void list_charges(const struct request *request)
{
    for (size_t i = 0; i < request->part_count; i++) {
        const struct pair *pair = &request->parts[i];
        list_table_key(weir_policy_find_table(pair->policy, pair->key, NULL), pair->key);
        list_table_key(pair->policy->previous, pair->key);
        list_table_key(pair->policy->candidate_table, pair->key);
    }
}

static enum request_seen recall_verdict(struct worker *worker, const struct request *request,
                                        struct request_visit *visit, struct answer *answer)
{
    const struct ledger_request *record = visit_request(&visit->request);
    bool same = record->fingerprint == visit->fingerprint;
    char shown[72];
    visit->verdict = record->verdict;
    visit->request.looked = !same;
    if (same)
        list_charges(request);
    leave_records(worker, visit);
    if (same)
        return REQUEST_AGAIN;
    (void)weir_engine_fail(worker, answer, ENGINE_WRONG,
                           "the id '%s' belongs to another question; every question needs an id of its own",
                           weir_shown(request->id, shown));
    return REQUEST_OTHER;
}

enum request_seen weir_request_begin(struct worker *worker, const struct request *request,
                                     uint64_t reservation, struct request_visit *visit, struct answer *answer)
{
    int64_t now_ns = worker->now_ns;
    *visit = (struct request_visit){.fingerprint = fingerprint_of(worker, request),
                                    .expires_ns = sat_add(now_ns, request->pairs[0].policy->settings.ids_ns),
                                    .refused_expires_ns = sat_add(now_ns, REFUSED_NS),
                                    .number = reservation};
    bool room = !request->id.bytes || enter_request(worker, request, visit);
    if (visit->request.found)
        return recall_verdict(worker, request, visit, answer);
    if (room && reservation != 0)
        room = enter_reservation(worker, request, reservation, visit);
    if (room)
        return REQUEST_NEW;
    leave_records(worker, visit);
    return REQUEST_NO_ROOM;
}

static void write_verdict(struct request_visit *visit, const struct ledger_verdict *verdict)
{
    *visit_request(&visit->request) = (struct ledger_request){visit->fingerprint, *verdict};
    visit->request.record->expires_ns =
        verdict->allowed ? visit->expires_ns : min64(visit->expires_ns, visit->refused_expires_ns);
}

void weir_request_flush(struct worker *worker)
{
    weir_records_flush(worker->service->ledger.requests);
}

void weir_request_foresee(struct worker *worker, struct request_visit *visit,
                          const struct ledger_verdict *verdict)
{
    write_verdict(visit, verdict);
    weir_records_append(worker->service->ledger.requests, &visit->request);
}

void weir_request_end(struct worker *worker, const struct request *request, struct request_visit *visit,
                      const struct ledger_verdict *verdict)
{
    const struct ledger *ledger = &worker->service->ledger;
    if (visit->has_request && verdict)
        write_verdict(visit, verdict);
    if (visit->has_request)
        count_ledger_record(worker, request, ledger->requests, &visit->request, SHARE_REQUESTS);
    if (visit->has_reservation)
        count_ledger_record(worker, request, ledger->reservations, &visit->reservation, SHARE_RESERVATIONS);
    leave_records(worker, visit);
}

/* ---- verdicts ---- */

/* Of the limit that decided, `limit` has the index and some bits of a digest, `pair` the pair, whether it was
 * one of before a change, and the other bits. By the digest a repeat knows limits that are not what they
 * were: once in 127 changes it does not. 0: a record of a version that kept none. */
#define INDEX_BITS   4 /* of `limit`, which is -1 for no limit */
#define PAIR_BITS    3
#define BY_PREVIOUS  (1 << PAIR_BITS)
#define DIGEST_SHIFT 4 /* in both */
#define DIGEST_HIGH  7 /* in `limit`: its sign stays */
#define DIGESTS      127
_Static_assert(WEIR_LIMITS_MAX <= 1 << INDEX_BITS && PAIRS_MAX <= 1 << PAIR_BITS, "they fit");

static const char *limits_text(const struct policy *policy, struct slice key)
{
    const struct policy_override *own = weir_policy_override(policy, key);
    if (own)
        return own->limits;
    const struct policy_table *ptable = weir_policy_find_table(policy, key, NULL);
    for (size_t i = 0; i < policy->prefix_count; i++)
        if (policy->prefixes[i].ptable == ptable)
            return policy->prefixes[i].limits;
    return policy->limits;
}

/* Of the limits of a pair, 1 to DIGESTS, the same after a start. Those of before a change stay as they are,
 * unless the key has its own. */
static unsigned limits_digest(const struct pair *pair, const struct policy_table *previous)
{
    const struct policy *policy = pair->policy;
    const struct policy_table *ptable = previous ? previous : weir_policy_find_table(policy, pair->key, NULL);
    const char *text =
        previous && !weir_policy_override(policy, pair->key) ? "" : limits_text(policy, pair->key);
    return (unsigned)(mix_fingerprint(ptable->serial, 0, text, strlen(text)) % DIGESTS) + 1;
}

static void keep_limit(const struct worker *worker, const struct request *request,
                       const struct answer *answer, struct ledger_verdict *verdict)
{
    const struct pair *pair = &request->parts[answer->part];
    unsigned digest = limits_digest(pair, answer->by_previous ? weir_decide_previous(worker, pair) : NULL);
    unsigned previous = answer->by_previous ? BY_PREVIOUS : 0;
    verdict->limit = (int8_t)answer->limit;
    verdict->pair = (uint8_t)((unsigned)answer->part | previous | (digest << DIGEST_SHIFT & 0xff));
    if (answer->limit >= 0)
        verdict->limit = (int8_t)((unsigned)answer->limit | (digest >> 4 & DIGEST_HIGH) << DIGEST_SHIFT);
}

/* The limit that decided, if it is there and as it was. Sets answer->pair, too, and by_previous. */
static void recall_limit(struct worker *worker, const struct request *request,
                         const struct ledger_verdict *verdict, struct answer *answer)
{
    size_t number = verdict->pair & (BY_PREVIOUS - 1);
    number = number < request->part_count ? number : 0;
    const struct pair *pair = &request->parts[number];
    const struct policy_table *previous = NULL;
    unsigned digest = verdict->pair >> DIGEST_SHIFT;
    answer->part = (int32_t)number;
    answer->pair = (int32_t)pair->of;
    answer->limit = verdict->limit;
    answer->by_previous = (verdict->pair & BY_PREVIOUS) != 0;
    if (answer->by_previous)
        previous = weir_decide_previous(worker, pair);
    if (verdict->limit >= 0) {
        digest |= (unsigned)verdict->limit >> DIGEST_SHIFT << 4;
        answer->limit = verdict->limit & ((1 << INDEX_BITS) - 1);
        if ((answer->by_previous && !previous) || (digest != 0 && digest != limits_digest(pair, previous)))
            answer->limit = LIMIT_UNKNOWN;
    }
    if (answer->limit < 0 && answer->reason != ANSWER_DISABLED)
        answer->label = answer->reason == ANSWER_EXEMPT ? ALLOW_LABEL : BLOCK_LABEL;
    else
        answer->label =
            answer->limit == LIMIT_UNKNOWN ? "" : weir_decide_label(worker, pair, previous, answer->limit);
}

struct ledger_verdict weir_verdict_of(const struct worker *worker, const struct request *request,
                                      const struct answer *answer)
{
    struct ledger_verdict verdict = {
        .remaining = answer->remaining,
        .retry_after_ms = ms_up(answer->retry_after_ns),
        .reset_after_ms = ms_up(answer->reset_after_ns),
        .reservation = answer->reservation,
        .due_in_ms = (int32_t)min64(ms_up(answer->wait_ns), INT32_MAX),
        .allowed = answer->allowed,
        .reason = (int8_t)answer->reason,
    };
    keep_limit(worker, request, answer, &verdict);
    return verdict;
}

static int64_t ns_of(int64_t time_ms)
{
    return time_ms < 0 ? WEIR_FOREVER : sat_mul(time_ms, WEIR_MS);
}

void weir_verdict_answer(struct worker *worker, const struct ledger_verdict *verdict,
                         const struct request *request, struct answer *answer)
{
    *answer = (struct answer){
        .allowed = verdict->allowed != 0,
        .reason = (enum answer_reason)clamp64(verdict->reason, ANSWER_OK, ANSWER_BLOCKED),
        .remaining = verdict->remaining,
        .retry_after_ns = ns_of(verdict->retry_after_ms),
        .reset_after_ns = ns_of(verdict->reset_after_ms),
        .wait_ns = ns_of(verdict->due_in_ms),
        .reservation = verdict->reservation,
    };
    recall_limit(worker, request, verdict, answer);
    answer->policy = request->count > 1 ? request->pairs[answer->pair].policy->name : NULL;
}

void weir_request_refuse(struct worker *worker, const struct request *request, struct answer *answer)
{
    const struct pair *pair = &request->pairs[0];
    *answer = (struct answer){.reason = ANSWER_FULL,
                              .retry_after_ns = WEIR_SEC,
                              .policy = request->count > 1 ? pair->policy->name : NULL,
                              .label = weir_decide_label(worker, pair, NULL, 0)};
    count_up(&worker->refused, 1);
    count_refused(worker, pair->policy, answer->label);
}
