/* SPDX-License-Identifier: MIT */
#include "service/engine/engine.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/sat.h"
#include "service/engine/adjust.h"
#include "service/engine/count.h"
#include "service/engine/decide.h"
#include "service/engine/numbers.h"
#include "service/engine/request_id.h"
#include "service/engine/settle.h"
#include "service/engine/tiers.h"
#include "service/persist/record_change.h"
#include "service/policies/freeze.h"
#include "store/commit.h"
#include "table/verbs.h"

#define SHOWN_MAX 64

/* ---- errors ---- */

bool weir_engine_fail(struct worker *worker, struct answer *answer, enum engine_error error,
                      const char *format, ...)
{
    va_list values;
    va_start(values, format);
    (void)vsnprintf(worker->error, sizeof worker->error, format, values);
    va_end(values);
    answer->error = error;
    answer->changed = false;
    return false;
}

bool weir_engine_fail_store(struct worker *worker, struct answer *answer)
{
    char text[PERSIST_COMPLAINT_MAX];
    weir_persist_complaint(worker->service->store, text);
    return weir_engine_fail(worker, answer, ENGINE_UNAVAILABLE,
                            "%s: nothing was decided or changed; try again when it does (INFO persistence)",
                            text);
}

const char *weir_shown(struct slice bytes, char text[static 72])
{
    size_t len = bytes.len < SHOWN_MAX ? bytes.len : SHOWN_MAX;
    for (size_t i = 0; i < len; i++) {
        char byte = bytes.bytes[i];
        text[i] = byte >= ' ' && byte <= '~' ? byte : '?';
    }
    (void)snprintf(text + len, 72 - len, "%s", bytes.len > len ? "..." : "");
    return text;
}

bool weir_engine_refuse_frozen(struct worker *worker, const struct policy *policy,
                               const struct frozen_range *frozen, struct answer *answer)
{
    if (!frozen)
        return false;
    if (frozen->url[0])
        (void)weir_engine_fail(worker, answer, ENGINE_ELSEWHERE,
                               "%s this key of policy '%s' has moved, or is on its way there", frozen->url,
                               policy->name);
    else
        (void)weir_engine_fail(worker, answer, ENGINE_UNAVAILABLE,
                               "policy '%s' is being loaded, or removed (WEIR.THAW %s ends that, if nobody "
                               "does it any more)",
                               policy->name, policy->name);
    return true;
}

/* ---- admission ---- */

/* Who may touch some keys or policies alone must not reach others by a verb that names none. */
static bool is_within_scope(const struct user *user, enum verb_scope scope)
{
    return __builtin_expect(scope == SCOPE_NAMED, 1) ||
           (user->prefix_count == 0 && (scope != SCOPE_SERVER || user->policy_count == 0));
}

static bool refuse_name(struct worker *worker, struct answer *answer, const char *what, struct slice name)
{
    char shown[72];
    return weir_engine_fail(worker, answer, ENGINE_NO_NAME, "No permissions to access a %s: '%s'", what,
                            weir_shown(name, shown));
}

static bool refuse_unknown_policy(struct worker *worker, const struct request *request, struct slice name,
                                  struct answer *answer)
{
    char shown[72];
    bool http = worker->protocol == PROTOCOL_HTTP;
    const char *near = weir_snapshot_near(worker->snapshot, name);
    if (near && weir_user_may_policy(request->user, (struct slice){near, strlen(near)}))
        return weir_engine_fail(worker, answer, ENGINE_WRONG, "no policy '%s'; did you mean '%s'? (%s)",
                                weir_shown(name, shown), near,
                                http ? "GET /v1/policies" : "WEIR.POLICY LIST");
    return weir_engine_fail(worker, answer, ENGINE_WRONG, "no policy '%s' (%s)", weir_shown(name, shown),
                            http ? "GET /v1/policies lists them, PUT /v1/policies/NAME makes one"
                                 : "WEIR.POLICY LIST shows them, WEIR.POLICY SET name limits makes one");
}

static bool admit_key(struct worker *worker, const struct request *request, struct slice key,
                      struct answer *answer)
{
    if (__builtin_expect(key.len > KEY_MAX, 0))
        return weir_engine_fail(worker, answer, ENGINE_WRONG,
                                "the key has %zu bytes; at most %d are possible", key.len, KEY_MAX);
    return weir_user_may_key(request->user, key) || refuse_name(worker, answer, "key", key);
}

static bool refuse_no_address(struct worker *worker, const struct pair *pair, struct answer *answer)
{
    char shown[72];
    return weir_engine_fail(worker, answer, ENGINE_WRONG,
                            "'%s' is no IP address, and the keys of policy '%s' are: write 192.0.2.7 or "
                            "2001:db8::7",
                            weir_shown(pair->key, shown), pair->policy->name);
}

/* Its units are decided here, unless its key has moved, or is on its way. */
static bool is_decided_here(struct worker *worker, struct pair *pair, struct answer *answer)
{
    if (__builtin_expect(pair->policy->pools || pair->policy->address, 0) && !pair->said.bytes &&
        !weir_pair_map(pair))
        return refuse_no_address(worker, pair, answer);
    if (__builtin_expect(pair->policy->frozen_count == 0, 1))
        return true;
    const struct weir_table *table = weir_policy_find_table(pair->policy, pair->key, NULL)->table;
    uint64_t hash = table_hash(table, pair->key.bytes, pair->key.len);
    return !weir_engine_refuse_frozen(worker, pair->policy, weir_frozen_by_hash(pair->policy, hash), answer);
}

static bool admit_pair(struct worker *worker, struct request *request, const struct verb *verb,
                       struct pair *pair, struct answer *answer)
{
    if (!weir_user_may_policy(request->user, pair->name))
        return refuse_name(worker, answer, "policy", pair->name);
    if (verb->finds_policy && !pair->policy) {
        pair->policy = weir_snapshot_policy(worker->snapshot, pair->name);
        if (!pair->policy)
            return refuse_unknown_policy(worker, request, pair->name, answer);
    }
    return (!pair->key.bytes || admit_key(worker, request, pair->key, answer)) &&
           (!verb->decides || is_decided_here(worker, pair, answer));
}

/* Nothing is decided, and nothing changed, that could not be recorded. */
static bool store_accepts(struct worker *worker, struct request *request, const struct verb *verb,
                          struct answer *answer)
{
    const struct store *store = worker->service->store;
    if (__builtin_expect(!store || !verb->durable || weir_store_is_well(store), 1))
        return true;
    request->store_ill = true;
    return verb->without_store || weir_engine_fail_store(worker, answer);
}

static bool admit_request(struct worker *worker, struct request *request, const struct verb *verb,
                          struct answer *answer)
{
    if (verb->may != 0 && !weir_user_may(request->user, verb->may))
        return weir_engine_fail(worker, answer, ENGINE_NO_CLASS, "user %s has not the class that is needed",
                                request->user->name);
    if (!is_within_scope(request->user, verb->scope))
        return weir_engine_fail(worker, answer, ENGINE_NO_SCOPE, "a user without %s",
                                verb->scope == SCOPE_SERVER ? "keys: and policies:" : "keys:");
    for (size_t i = 0; i < request->count; i++)
        if (!admit_pair(worker, request, verb, &request->pairs[i], answer))
            return false;
    for (size_t i = 0; i < request->key_count; i++)
        if (!admit_key(worker, request, request->keys[i], answer))
            return false;
    return store_accepts(worker, request, verb, answer);
}

bool weir_engine_admit(struct worker *worker, struct request *request, struct answer *answer)
{
    const struct verb *verb = &weir_verbs[request->verb];
    INVARIANT(26, worker->snapshot != NULL);
    answer->error = ENGINE_OK;
    if (__builtin_expect(admit_request(worker, request, verb, answer), 1))
        return true;
    if (answer->error == ENGINE_UNAVAILABLE && verb->decides)
        count_unavailable(worker, request);
    return false;
}

/* ---- take, acquire, reserve ---- */

/* How long the one pair may wait. ACQUIRE without TIMEOUT: as the limits say, else as long as it takes. */
static int64_t timeout_of(const struct worker *worker, const struct request *request)
{
    const struct limit_labels *labels;
    int64_t timeout_ns = request->timeout_ms < 0 ? -1 : sat_mul(request->timeout_ms, WEIR_MS);
    if (request->verb != ENGINE_ACQUIRE)
        return timeout_ns;
    (void)weir_policy_find_table(request->pairs[0].policy, request->pairs[0].key, &labels);
    if (timeout_ns < 0)
        timeout_ns = labels && labels->timeout_ns >= 0 ? labels->timeout_ns : WEIR_FOREVER;
    return timeout_ns == WEIR_FOREVER ? timeout_ns
                                      : max64(timeout_ns - (worker->now_ns - request->asked_ns), 0);
}

static void decide_units(struct worker *worker, const struct request *request, struct answer *answer)
{
    if (request->verb == ENGINE_TAKE || request->part_count > 1)
        weir_decide_take(worker, request->parts, request->part_count, answer);
    else
        weir_decide_reserve(worker, request->parts, timeout_of(worker, request), answer);
}

/* Inside of the records. false: it waits for a fleet, and is to be asked again. */
static bool decide_in_record(struct worker *worker, const struct request *request,
                             struct request_visit *visit, struct answer *answer)
{
    decide_units(worker, request, answer);
    if (answer->waits_for_fleet) {
        weir_request_end(worker, request, visit, NULL);
        return false;
    }
    if (answer->allowed && request->verb == ENGINE_RESERVE)
        weir_reservation_write(worker, request, visit, answer);
    struct ledger_verdict verdict = weir_verdict_of(worker, request, answer);
    weir_request_end(worker, request, visit, &verdict);
    answer->changed = true;
    return true;
}

/* A reservation takes a place until it is settled or over: each of its policies says for how long at most. */
static bool check_reservation(struct worker *worker, const struct request *request, struct answer *answer)
{
    if (request->part_count > 1 && request->timeout_ms > 0)
        return weir_engine_fail(
            worker, answer, ENGINE_WRONG,
            "TIMEOUT needs a single pair, and a policy of one tier: several are reserved now or not at all; "
            "leave TIMEOUT out and ask again after retry_after_ms");
    for (size_t i = 0; i < request->count; i++) {
        const struct policy *policy = request->pairs[i].policy;
        if (request->ttl_ms > policy->settings.ttl_max_ms)
            return weir_engine_fail(worker, answer, ENGINE_WRONG,
                                    "TTL is too long: policy '%s' allows %" PRId64 " ms (reserve: {ttl_max})",
                                    policy->name, policy->settings.ttl_max_ms);
    }
    return true;
}

/* With an id, or a reservation, or both. */
static enum engine_state decide_recorded(struct worker *worker, struct request *request,
                                         struct answer *answer)
{
    struct request_visit visit;
    uint64_t number = request->verb == ENGINE_RESERVE ? weir_ledger_next(&worker->service->ledger) : 0;
    answer->reservation = 0;
    answer->promise = (struct weir_reservation){0};
    switch (weir_request_begin(worker, request, number, &visit, answer)) {
    case REQUEST_NEW:
        return decide_in_record(worker, request, &visit, answer) ? ENGINE_DONE : ENGINE_PENDING;
    case REQUEST_AGAIN:
        weir_verdict_answer(worker, &visit.verdict, request, answer);
        count_up(answer->allowed ? &worker->allowed : &worker->refused, 1);
        answer->changed = true; /* the record may not be on the disk yet */
        break;
    case REQUEST_NO_ROOM:
        weir_request_refuse(worker, request, answer);
        break;
    case REQUEST_OTHER:
        break;
    }
    return ENGINE_DONE;
}

/* What pairs get that are all in shadow or disabled, so that they pass whatever is spent. Charges nothing, so
 * there is nothing to record, and nothing to settle: the reservation's number says so. */
static void decide_unrecorded(struct worker *worker, const struct request *request, struct answer *answer)
{
    if (!weir_decide_unrecorded(worker, request->parts, request->part_count, answer)) {
        (void)weir_engine_fail_store(worker, answer);
        return;
    }
    answer->changed = false;
    if (request->verb == ENGINE_RESERVE)
        answer->reservation = ledger_unrecorded(weir_ledger_next(&worker->service->ledger));
}

static enum engine_state run_take(struct worker *worker, struct request *request, struct answer *answer)
{
    if (request->verb == ENGINE_RESERVE && !check_reservation(worker, request, answer))
        return ENGINE_DONE;
    if (__builtin_expect(request->store_ill, 0)) {
        decide_unrecorded(worker, request, answer);
        return ENGINE_DONE;
    }
    if (request->id.bytes || request->verb == ENGINE_RESERVE)
        return decide_recorded(worker, request, answer);
    decide_units(worker, request, answer);
    if (__builtin_expect(answer->waits_for_fleet, 0))
        return ENGINE_PENDING;
    return request->verb == ENGINE_ACQUIRE && answer->allowed && answer->wait_ns > 0 ? ENGINE_PENDING
                                                                                     : ENGINE_DONE;
}

/* ---- give, charge, reset ---- */

/* With all of its tiers. */
static bool adjust_pair(struct worker *worker, const struct request *request)
{
    bool done = true;
    for (size_t i = 0; i < request->part_count; i++)
        if (request->verb == ENGINE_CHARGE)
            done &= weir_decide_charge(worker, &request->parts[i]);
        else
            weir_decide_give(worker, &request->parts[i]);
    return done;
}

static bool adjust_recorded(struct worker *worker, struct request *request, struct answer *answer)
{
    struct request_visit visit;
    struct ledger_verdict verdict = {.allowed = true};
    if (request->verb == ENGINE_GIVE)
        weir_request_flush(worker);
    switch (weir_request_begin(worker, request, 0, &visit, answer)) {
    case REQUEST_NEW:
        if (request->verb == ENGINE_GIVE)
            weir_request_foresee(worker, &visit, &verdict);
        verdict.allowed = adjust_pair(worker, request);
        weir_request_end(worker, request, &visit, &verdict);
        return verdict.allowed;
    case REQUEST_AGAIN:
        return visit.verdict.allowed;
    case REQUEST_NO_ROOM:
        return weir_engine_fail(worker, answer, ENGINE_UNAVAILABLE,
                                "no room for another request id: nothing was done; try again later");
    case REQUEST_OTHER:
        break;
    }
    return false;
}

static void run_adjust(struct worker *worker, struct request *request, struct answer *answer)
{
    const struct policy *policy = request->pairs[0].policy;
    bool done = request->id.bytes ? adjust_recorded(worker, request, answer) : adjust_pair(worker, request);
    answer->allowed = done;
    answer->changed = answer->error == ENGINE_OK && (request->id.bytes || !policy->leases);
    if (done || answer->error != ENGINE_OK)
        return;
    (void)weir_engine_fail(worker, answer, ENGINE_UNAVAILABLE,
                           "no room for this key in policy '%s': nothing was charged%s", policy->name,
                           policy->leases ? ", or its pool is not there yet: try again" : "");
    /* that it failed is remembered; and of several policy tables one may have had room */
    answer->changed = request->id.bytes || !policy->leases;
}

static void run_reset(struct worker *worker, const struct request *request, struct answer *answer)
{
    const struct pair *pair = &request->pairs[0];
    if (pair->policy->leases) {
        (void)weir_engine_fail(
            worker, answer, ENGINE_WRONG,
            "policy '%s' shares its units with other servers, and none of them resets what "
            "all have spent; weir quota set gives its pool another total from the next window on",
            pair->policy->name);
        return;
    }
    for (size_t i = 0; i < request->part_count; i++)
        weir_decide_reset(worker, &request->parts[i]);
    answer->allowed = answer->changed = true;
}

/* ---- all of them ---- */

static enum engine_state run_verb(struct worker *worker, struct request *request, struct answer *answer)
{
    switch (request->verb) {
    case ENGINE_PEEK:
        weir_decide_peek(worker, request->parts, request->part_count, answer);
        break;
    case ENGINE_GIVE:
    case ENGINE_CHARGE:
        run_adjust(worker, request, answer);
        break;
    case ENGINE_RESET:
        run_reset(worker, request, answer);
        break;
    case ENGINE_COMMIT:
    case ENGINE_CANCEL:
        weir_settle(worker, request, answer);
        break;
    default:
        return run_take(worker, request, answer);
    }
    return ENGINE_DONE;
}

static enum engine_state run_parts(struct worker *worker, struct request *request, struct answer *answer)
{
#if WEIR_ASSERTIONS
    uint64_t touched = weir_dirty ? weir_dirty->touched : 0;
#endif
    ASSERT(request->verb >= ENGINE_TAKE && request->verb <= ENGINE_CANCEL);
    answer->error = ENGINE_OK;
    answer->allowed = answer->changed = answer->waits_for_fleet = false;
    enum engine_state state = run_verb(worker, request, answer);
    if (__builtin_expect(request->full && answer->error == ENGINE_OK && !answer->waits_for_fleet, 0))
        weir_answer_numbers(worker, request, answer);
    if (__builtin_expect(answer->error == ENGINE_UNAVAILABLE, 0))
        count_unavailable(worker, request);
    worker->changed |= answer->changed;
#if WEIR_ASSERTIONS
    bool recorded = (weir_dirty ? weir_dirty->touched : 0) != touched;
    ASSERT(!recorded || weir_verbs[request->verb].durable);
    ASSERT(answer->error != ENGINE_OK || answer->waits_for_fleet || !answer->allowed || !recorded ||
           answer->changed);
#endif
    return state;
}

/* ---- tiers of addresses ---- */

static size_t count_parts_of(const struct request *request)
{
    size_t count = request->count;
    for (size_t i = 0; i < request->count; i++)
        if (request->pairs[i].policy && request->pairs[i].policy->address)
            count += request->pairs[i].policy->address->tier_count - 1;
    return count;
}

/* Each tier is decided as a pair of its own. */
static bool may_have_parts(struct worker *worker, const struct request *request, size_t count,
                           struct answer *answer)
{
    size_t most = request->verb == ENGINE_RESERVE ? LEDGER_PAIRS : PAIRS_MAX;
    if (count > most)
        return weir_engine_fail(
            worker, answer, ENGINE_WRONG,
            "at most %zu pairs can be decided together, and each tier of address: is one: "
            "these are %zu",
            most, count);
    return request->verb != ENGINE_ACQUIRE ||
           weir_engine_fail(worker, answer, ENGINE_WRONG,
                            "policy '%s' has several tiers, and nobody can wait for all of them at once: use "
                            "WEIR.TAKE, and ask again after retry_after_ms",
                            request->pairs[0].policy->name);
}

static enum engine_state run_tiers(struct worker *worker, struct request *request, struct answer *answer)
{
    struct pair parts[PAIRS_MAX];
    request->part_count = 0;
    for (size_t i = 0; i < request->count; i++)
        request->part_count += weir_pair_tiers(worker, &request->pairs[i], parts + request->part_count);
    ASSERT(request->part_count <= PAIRS_MAX);
    request->parts = parts;
    enum engine_state state = run_parts(worker, request, answer);
    request->parts = NULL;
    request->part_count = 0;
    return state;
}

enum engine_state weir_engine_run(struct worker *worker, struct request *request, struct answer *answer)
{
    request->parts = request->pairs;
    request->part_count = request->count;
    if (__builtin_expect(!worker->snapshot->any_tiers, 1))
        return run_parts(worker, request, answer);
    size_t count = count_parts_of(request);
    if (count == request->count)
        return run_parts(worker, request, answer);
    answer->allowed = answer->waits_for_fleet = false;
    return may_have_parts(worker, request, count, answer) ? run_tiers(worker, request, answer) : ENGINE_DONE;
}
