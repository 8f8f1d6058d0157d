/* SPDX-License-Identifier: MIT */
/*
 * Reservations: units that are taken now, and settled when it is known how many were used.
 *
 * Room in the ledger is made first, then the units are charged, then the reservation is written, all of it
 * inside of its record: nobody can settle what is not charged. A reservation is settled once. At the end of
 * its TTL, which begins when it is due, nothing comes back: nobody knows what was used.
 *
 * Late commits. The record stays for `ids` of its first policy after that end. A commit that comes then says
 * what was used after all: of each pair it charges what that is more than the units that stayed spent, and
 * gives nothing back. Law: when n were reserved, all commits together, however many and whenever they come,
 * leave u charged if the first of them was in time, and the larger of n and u if it was late. The record is
 * then kept for another `ids`, so that a repeat is told the same. Nobody cancels what is over. A record that
 * had to give way to a newcomer is no longer there, which is an error that says so.
 *
 * Settling, too, happens inside of the reservation's record, so of any number who
 * settle it at once one does, and those who said the same get the same answer.
 *
 * What is said to be given back was handed back to the policy table; what that gains is up to the law of the
 * limit. A bucket that has refilled meanwhile cannot be more than full, and while somebody else's promise is
 * outstanding nothing is gained. Before it is due, a promise can be cancelled but not made smaller: who
 * commits less then gives back 0. Given and charged units are those of all pairs together, `remaining` is
 * that of the first.
 *
 * Crashes. Another thread may write down a key from which we have given back before we have written down that
 * the reservation is settled. If only the former came back, the same units could be given back again. So what
 * is charged is charged first, then the settlement goes to the log, then units are given back: a kill in
 * between loses units, and mints none.
 */
#include "service/engine/settle.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/sat.h"
#include "ledger/persist.h"
#include "service/engine/decide.h"
#include "service/engine/engine.h"
#include "service/leases/leased.h"
#include "service/policies/freeze.h"
#include "table/verbs.h"

/* ---- writing ---- */

static struct ledger_pair ledger_pair_of(const struct policy_table *ptable, const struct pair *pair)
{
    return (struct ledger_pair){.ptable = ptable->serial,
                                .hash = table_hash(ptable->table, pair->key.bytes, pair->key.len),
                                .n = pair->n};
}

/* Only where the limits are enforced may an overrun be refused, too. */
static void write_pair(const struct worker *worker, const struct pair *pair, bool charged, size_t i,
                       struct ledger_reservation *entry)
{
    entry->pair[i] = ledger_pair_of(weir_policy_find_table(pair->policy, pair->key, NULL), pair);
    if (charged)
        entry->charged |= (uint8_t)(1u << i);
    if (charged && pair->policy->settings.overrun == OVERRUN_REFUSE &&
        weir_policy_mode(worker, pair->policy, pair_said(pair)) == MODE_ENFORCE)
        entry->strict |= (uint8_t)(1u << i);
}

/* Nothing is lost if there is no room: that policy table then counts what was reserved. */
static void write_also(const struct pair *pair, const struct policy_table *ptable, size_t i,
                       struct ledger_reservation *entry)
{
    size_t at = entry->pairs + entry->also;
    if (at == LEDGER_PAIRS)
        return;
    entry->pair[at] = ledger_pair_of(ptable, pair);
    entry->of[at] = (uint8_t)i;
    entry->also++;
}

/* The limits of before a change, which had to agree, and a candidate. */
static void write_others(const struct worker *worker, const struct pair *pair, const struct answer *answer,
                         struct ledger_reservation *entry)
{
    const struct policy *policy = pair->policy;
    size_t i = pair->of;
    if ((answer->charged >> i & 1) != 0 && worker->now_ns < policy_previous_ends(policy) &&
        weir_policy_find_table(policy, pair->key, NULL) == policy->main)
        write_also(pair, policy->previous, i, entry);
    if ((answer->candidate_charged >> i & 1) != 0)
        write_also(pair, policy->candidate_table, i, entry);
}

/* What is left to wait for. Of units of a fleet: until when they may come back. */
static struct weir_reservation promise_of(const struct worker *worker, const struct answer *answer)
{
    struct weir_reservation promise = answer->promise;
    if ((answer->charged & 1) == 0 || promise.due_ns <= worker->now_ns)
        promise.n = 0;
    if (answer->ends_ns > 0)
        promise.due_ns = answer->ends_ns;
    return promise;
}

/* The id of a request is remembered at least as long as what it has reserved. */
void weir_reservation_write(const struct worker *worker, const struct request *request,
                            struct request_visit *visit, struct answer *answer)
{
    struct record *record = visit->reservation.record;
    struct ledger_reservation *entry = record_bytes(record);
    const char *owner = request->user->name;
    int64_t ttl_ms = request->ttl_ms < 0 ? request->pairs[0].policy->settings.ttl_ms : request->ttl_ms;
    *entry = (struct ledger_reservation){
        .number = visit->number, .promise = promise_of(worker, answer), .pairs = (uint32_t)request->count};
    entry->owner = weir_ledger_owner(&worker->service->ledger, owner, strlen(owner));
    for (size_t i = 0; i < request->count; i++)
        write_pair(worker, &request->pairs[i], (answer->charged >> i & 1) != 0, i, entry);
    for (size_t i = 0; i < request->part_count; i++) { /* for further tiers there is room: see engine.c */
        const struct pair *tier = &request->parts[i];
        if (tier->asked && (answer->charged >> tier->of & 1) != 0)
            write_also(tier, weir_policy_find_table(tier->policy, tier->key, NULL), tier->of, entry);
    }
    for (size_t i = 0; i < request->part_count; i++)
        write_others(worker, &request->parts[i], answer, entry);
    entry->grace_ms = (uint32_t)(request->pairs[0].policy->settings.ids_ns / WEIR_MS) & INT32_MAX;
    int64_t end_ns = sat_add(sat_add(worker->now_ns, answer->wait_ns), ttl_ms * WEIR_MS);
    record->expires_ns = sat_add(end_ns, entry->grace_ms * WEIR_MS);
    ASSERT(weir_ledger_end_of(record) == end_ns);
    visit->expires_ns = max64(visit->expires_ns, end_ns);
    answer->reservation = visit->number;
}

/* ---- settling ---- */

/* The question as it is compared with a later one: whoever says nothing says the numbers that were reserved.
 */
static uint64_t settle_hash(const struct worker *worker, const struct request *request,
                            const struct ledger_reservation *entry)
{
    bool cancel = request->verb == ENGINE_CANCEL;
    int64_t words[1 + LEDGER_PAIRS] = {cancel};
    for (size_t i = 0; i < entry->pairs && !cancel; i++)
        words[1 + i] = request->used_count > 0 ? request->used[i] : entry->pair[i].n;
    return weir_ledger_question(&worker->service->ledger, words, sizeof words);
}

static bool has_policy_table(const struct policy *policy, uint64_t serial)
{
    if (policy->main->serial == serial || (policy->previous && policy->previous->serial == serial))
        return true;
    for (size_t i = 0; i < policy->prefix_count; i++)
        if (policy->prefixes[i].ptable->serial == serial)
            return true;
    return false;
}

/* For a message; too slow for anything else. */
static const char *policy_name(const struct snapshot *snapshot, uint64_t serial)
{
    for (size_t i = 0; i < snapshot->policy_count; i++)
        if (has_policy_table(snapshot->policies[i], serial))
            return snapshot->policies[i]->name;
    return "(gone)";
}

/* Of all charged pairs of one key together. */
struct key_overrun {
    int64_t reserved, used, over;
};

static struct key_overrun sum_overruns(const struct request *request, const struct ledger_reservation *entry,
                                       const struct ledger_pair *of)
{
    struct key_overrun sum = {0};
    for (size_t i = 0; i < request->used_count; i++) {
        const struct ledger_pair *pair = &entry->pair[i];
        if (pair->ptable != of->ptable || pair->hash != of->hash || (entry->charged >> i & 1) == 0)
            continue;
        sum.reserved = sat_add(sum.reserved, pair->n);
        sum.used = sat_add(sum.used, request->used[i]);
        sum.over = sat_add(sum.over, max64(request->used[i] - pair->n, 0));
    }
    return sum;
}

/* An overrun is a debt of the key. As much as the limits let pass at once is what a take may cost, too; a
 * user without the class adjust must not charge a key with more, and not either by many small reservations
 * each of which is overrun, or by many pairs of one. */
static bool may_overrun(struct worker *worker, const struct request *request, const struct ledger_pair *pair,
                        const struct key_overrun *sum, struct answer *answer)
{
    struct weir_verdict verdict = {0};
    struct policy_table *ptable = weir_snapshot_policy_table(worker->snapshot, pair->ptable);
    struct pair of = {
        .policy = weir_snapshot_leases(worker->snapshot, pair->ptable), .hash = pair->hash, .n = sum->used};
    if (sum->over == 0 || !ptable || weir_user_may(request->user, MAY_ADJUST))
        return true;
    if (of.policy)
        (void)weir_leased_peek(worker, &of, &verdict);
    else
        (void)weir_table_peek_by_hash(ptable->table, worker->now_ns, pair->hash, sum->used, &verdict);
    const char *policy = policy_name(worker->snapshot, pair->ptable);
    if (verdict.reason == WEIR_NEVER)
        return weir_engine_fail(worker, answer, ENGINE_NO_RIGHTS,
                                "%" PRId64 " is more than policy '%s' lets pass at once: to charge that much "
                                "beyond the %" PRId64 " reserved needs the class adjust",
                                sum->used, policy, sum->reserved);
    if (of.policy || sum->over <= weir_table_chargeable_by_hash(ptable->table, worker->now_ns, pair->hash))
        return true;
    return weir_engine_fail(worker, answer, ENGINE_NO_RIGHTS,
                            "the key would owe more than policy '%s' lets pass at once: to charge %" PRId64
                            " beyond the %" PRId64 " reserved needs the class adjust",
                            policy, sum->over, sum->reserved);
}

/* May all of it be committed? Else says why not. */
static bool check_commit(struct worker *worker, const struct request *request,
                         const struct ledger_reservation *entry, struct answer *answer)
{
    size_t count = request->used_count;
    if (count > 0 && count != entry->pairs)
        return weir_engine_fail(
            worker, answer, ENGINE_WRONG,
            "this reservation has %u pair%s and there %s %zu number%s; give one for each, or "
            "none to commit all of it",
            entry->pairs, entry->pairs == 1 ? "" : "s", count == 1 ? "is" : "are", count,
            count == 1 ? "" : "s");
    for (size_t i = 0; i < count; i++) {
        const struct ledger_pair *pair = &entry->pair[i];
        struct key_overrun sum = sum_overruns(request, entry, pair);
        if ((entry->charged >> i & 1) != 0 && !may_overrun(worker, request, pair, &sum, answer))
            return false;
        if (request->used[i] > pair->n && (entry->strict >> i & 1) != 0 &&
            weir_snapshot_policy_table(worker->snapshot, pair->ptable))
            return weir_engine_fail(worker, answer, ENGINE_WRONG,
                                    "%" PRId64 " is more than the %" PRId64
                                    " reserved, and policy '%s' refuses "
                                    "overruns (reserve: {overrun: debt} charges them)",
                                    request->used[i], pair->n, policy_name(worker->snapshot, pair->ptable));
    }
    return true;
}

static bool is_promised(const struct ledger_reservation *entry, int64_t now_ns)
{
    return entry->promise.n > 0 && entry->promise.due_ns > now_ns;
}

/* Units of a fleet go back where they came from, as long as they may be spent. */
static void give_back(const struct worker *worker, struct weir_table *table,
                      const struct ledger_reservation *entry, const struct ledger_pair *pair, int64_t n)
{
    struct policy *policy = weir_snapshot_leases(worker->snapshot, pair->ptable);
    struct pair of = {.policy = policy, .hash = pair->hash, .n = n};
    if (policy)
        weir_leased_return(worker, &of, entry->promise.due_ns);
    else
        weir_table_give_by_hash(table, worker->now_ns, pair->hash, n);
}

static bool charge_more(const struct worker *worker, struct weir_table *table, const struct ledger_pair *pair,
                        int64_t n)
{
    struct policy *policy = weir_snapshot_leases(worker->snapshot, pair->ptable);
    struct pair of = {.policy = policy, .hash = pair->hash, .n = n};
    return policy ? weir_leased_charge(worker, &of)
                  : weir_table_charge_by_hash(table, worker->now_ns, pair->hash, n);
}

/* Of a pair that was charged and is still counted somewhere: how much of it stays charged. */
static int64_t commit_pair(const struct worker *worker, struct weir_table *table,
                           const struct ledger_reservation *entry, const struct ledger_pair *pair,
                           int64_t used, struct ledger_settled *settled)
{
    int64_t now_ns = worker->now_ns, charged = pair->n;
    if (used < pair->n && !is_promised(entry, now_ns)) {
        give_back(worker, table, entry, pair, pair->n - used);
        settled->given_back = sat_add(settled->given_back, pair->n - used);
        charged = used;
    } else if (used > pair->n && charge_more(worker, table, pair, used - pair->n)) {
        charged = used;
    }
    settled->charged = sat_add(settled->charged, charged);
    return charged;
}

static int64_t cancel_pair(const struct worker *worker, struct weir_table *table,
                           struct ledger_reservation *entry, const struct ledger_pair *pair,
                           struct ledger_settled *settled)
{
    int64_t now_ns = worker->now_ns;
    bool off = true;
    if (is_promised(entry, now_ns))
        off = weir_table_cancel_by_hash(table, now_ns, pair->hash, &entry->promise);
    else
        give_back(worker, table, entry, pair, pair->n);
    if (!off)
        return pair->n;
    settled->given_back = sat_add(settled->given_back, pair->n);
    return 0;
}

/* The other policy tables that count pair `i` follow. They tell nobody. */
static void settle_others(const struct worker *worker, const struct ledger_reservation *entry, size_t i,
                          int64_t charged)
{
    int64_t now_ns = worker->now_ns;
    for (size_t k = 0; k < entry->also; k++) {
        const struct ledger_pair *pair = &entry->pair[entry->pairs + k];
        struct policy_table *ptable = weir_snapshot_policy_table(worker->snapshot, pair->ptable);
        if (!ptable || entry->of[entry->pairs + k] != i)
            continue;
        if (charged < pair->n)
            weir_table_give_by_hash(ptable->table, now_ns, pair->hash, pair->n - charged);
        else if (charged > pair->n)
            (void)weir_table_charge_by_hash(ptable->table, now_ns, pair->hash, charged - pair->n);
    }
}

static int64_t pair_remaining(const struct worker *worker, const struct ledger_pair *pair)
{
    struct weir_verdict verdict = {0};
    struct policy_table *ptable = weir_snapshot_policy_table(worker->snapshot, pair->ptable);
    struct pair of = {
        .policy = weir_snapshot_leases(worker->snapshot, pair->ptable), .hash = pair->hash, .n = 1};
    if (of.policy)
        (void)weir_leased_peek(worker, &of, &verdict);
    else if (ptable)
        (void)weir_table_peek_by_hash(ptable->table, worker->now_ns, pair->hash, 1, &verdict);
    return verdict.remaining;
}

/* How many of pair `i` shall stay charged. Of one that is over no less than there are. */
static int64_t asked_of(const struct request *request, const struct ledger_reservation *entry, size_t i)
{
    int64_t n = entry->pair[i].n;
    int64_t used = request->verb == ENGINE_CANCEL ? 0 : request->used_count > 0 ? request->used[i] : n;
    return entry->late ? max64(used, n) : used;
}

/* The pairs of which something comes back, or the others. */
static void settle_some(const struct worker *worker, const struct request *request,
                        struct ledger_reservation *entry, bool come_back, struct ledger_settled *settled)
{
    for (size_t i = 0; i < entry->pairs; i++) {
        const struct ledger_pair *pair = &entry->pair[i];
        struct policy_table *ptable = weir_snapshot_policy_table(worker->snapshot, pair->ptable);
        int64_t used = asked_of(request, entry, i);
        if ((used < pair->n) != come_back)
            continue;
        if (ptable && (entry->charged >> i & 1) != 0)
            used = request->verb == ENGINE_CANCEL
                       ? cancel_pair(worker, ptable->table, entry, pair, settled)
                       : commit_pair(worker, ptable->table, entry, pair, used, settled);
        settle_others(worker, entry, i, used);
    }
}

/* What is true if we are killed before anything was given back. false: nothing is. */
static bool foresee_settlement(const struct request *request, const struct ledger_reservation *entry,
                               struct ledger_settled *settled)
{
    bool come_back = false;
    for (size_t i = 0; i < entry->pairs; i++) {
        const struct ledger_pair *pair = &entry->pair[i];
        if (asked_of(request, entry, i) >= pair->n)
            continue;
        come_back = true;
        if (request->verb == ENGINE_COMMIT && (entry->charged >> i & 1) != 0)
            settled->charged = sat_add(settled->charged, pair->n);
    }
    return come_back;
}

static void settle_pairs(const struct worker *worker, const struct request *request,
                         const struct record_visit *visit)
{
    struct ledger_reservation *entry = visit_reservation(visit);
    struct ledger_settled settled = {.question = settle_hash(worker, request, entry)};
    entry->late = weir_ledger_end_of(visit->record) <= worker->now_ns;
    ASSERT(!entry->late || request->verb == ENGINE_COMMIT);
    if (entry->late) /* from now on it is remembered as an answer is */
        visit->record->expires_ns = sat_add(worker->now_ns, entry->grace_ms * WEIR_MS);
    settle_some(worker, request, entry, false, &settled);
    struct ledger_settled foreseen = settled;
    if (foresee_settlement(request, entry, &foreseen)) {
        entry->settled = foreseen;
        weir_records_append(worker->service->ledger.reservations, visit);
        settle_some(worker, request, entry, true, &settled);
    }
    ASSERT(!entry->late || settled.given_back == 0);
    settled.remaining = pair_remaining(worker, &entry->pair[0]);
    entry->settled = settled;
}

static void answer_settled(struct answer *answer, const struct ledger_settled *settled, bool late)
{
    answer->allowed = true;
    answer->settled_late = late;
    answer->settled_charged = settled->charged;
    answer->settled_given_back = settled->given_back;
    answer->settled_remaining = settled->remaining;
}

/* What the ledger does not have, as far as that can still be told. */
static bool refuse_gone(struct worker *worker, const struct request *request, uint64_t number,
                        struct answer *answer)
{
    char shown[72];
    const struct ledger *ledger = &worker->service->ledger;
    uint64_t last = atomic_load_explicit(&ledger->number, memory_order_relaxed);
    bool made = weir_ledger_is_ours(ledger, number) || number >> 32 != last >> 32;
    return weir_engine_fail(worker, answer, ENGINE_WRONG, "no reservation '%s'%s",
                            weir_shown(request->reservation, shown),
                            made ? " any more: its time is over and its units stay spent, or it was settled "
                                   "long ago; nothing was changed (a late COMMIT is possible for ids: of its "
                                   "policy after the TTL, unless its record had to give way to newer ones)"
                                 : ": it was never made");
}

static bool is_his(const struct worker *worker, const struct user *user,
                   const struct ledger_reservation *entry)
{
    return (user->may & MAY_ADMIN) != 0 ||
           entry->owner == weir_ledger_owner(&worker->service->ledger, user->name, strlen(user->name));
}

/* What was charged and given back may be in nobody's log yet: neither the thread that reserved nor the one
 * that settled may have appended it. Before the record, which is listed when it is left. */
static void list_keys(const struct worker *worker, const struct ledger_reservation *entry)
{
    for (size_t i = 0; i < entry->pairs + entry->also; i++) {
        const struct ledger_pair *pair = &entry->pair[i];
        struct policy_table *ptable = weir_snapshot_policy_table(worker->snapshot, pair->ptable);
        if (ptable)
            weir_table_mark_dirty(ptable->table, pair->hash);
    }
}

/* Was it settled before, and cannot be settled so? Else it is told the same again. */
static bool was_settled_so(struct worker *worker, const struct request *request,
                           const struct ledger_reservation *entry, struct answer *answer)
{
    char shown[72];
    if (entry->settled.question == LEDGER_DISTRUSTED)
        return weir_engine_fail(worker, answer, ENGINE_WRONG,
                                "reservation '%s' cannot be settled any more: the server has lost data, "
                                "perhaps what it had charged; its units stay spent",
                                weir_shown(request->reservation, shown));
    if ((request->used_count > 0 && request->used_count != entry->pairs) ||
        entry->settled.question != settle_hash(worker, request, entry))
        return weir_engine_fail(worker, answer, ENGINE_WRONG,
                                "reservation '%s' was settled already, in another way; nothing was changed",
                                weir_shown(request->reservation, shown));
    return true;
}

/* Is one of its keys frozen? Then nothing is settled: what is given or charged here would be known nowhere
 * else. */
static bool is_frozen(struct worker *worker, const struct ledger_reservation *entry, struct answer *answer)
{
    const struct policy *policy;
    if (__builtin_expect(!worker->snapshot->any_frozen, 1))
        return false;
    for (size_t i = 0; i < entry->pairs; i++) {
        const struct frozen_range *frozen =
            weir_frozen_in(worker->snapshot, entry->pair[i].ptable, entry->pair[i].hash, &policy);
        if (weir_engine_refuse_frozen(worker, policy, frozen, answer))
            return true;
    }
    return false;
}

/* Nothing comes back from one that is over. */
static bool is_too_late(struct worker *worker, const struct request *request,
                        const struct record_visit *visit, struct answer *answer)
{
    char shown[72];
    if (request->verb != ENGINE_CANCEL || weir_ledger_end_of(visit->record) > worker->now_ns)
        return false;
    (void)weir_engine_fail(worker, answer, ENGINE_WRONG,
                           "reservation '%s' cannot be cancelled any more: its time is over and its units "
                           "stay spent (a late COMMIT charges what was used beyond them)",
                           weir_shown(request->reservation, shown));
    return true;
}

/* Inside of the record. false: answer->error says why not, and nothing was changed. */
static bool settle_entry(struct worker *worker, const struct request *request, struct record_visit *visit,
                         struct answer *answer)
{
    const struct ledger_reservation *entry = visit_reservation(visit);
    visit->looked = true;
    if (!is_his(worker, request->user, entry))
        return weir_engine_fail(worker, answer, ENGINE_NO_RIGHTS,
                                "No permissions to settle a reservation of another user");
    bool settled = entry->settled.question != 0;
    if (settled ? !was_settled_so(worker, request, entry, answer)
                : is_frozen(worker, entry, answer) || is_too_late(worker, request, visit, answer) ||
                      (request->verb == ENGINE_COMMIT && !check_commit(worker, request, entry, answer)))
        return false;
    visit->looked = false;
    if (!settled)
        settle_pairs(worker, request, visit);
    list_keys(worker, entry);
    answer_settled(answer, &entry->settled, entry->late);
    return true;
}

void weir_settle(struct worker *worker, const struct request *request, struct answer *answer)
{
    struct ledger *ledger = &worker->service->ledger;
    struct record_visit visit;
    char shown[72];
    uint64_t number;
    if (!weir_ledger_number(request->reservation.bytes, request->reservation.len, &number)) {
        (void)weir_engine_fail(
            worker, answer, ENGINE_WRONG,
            "no reservation '%s': it is named by the id that WEIR.RESERVE answered, such as 5f3a-1 "
            "(not by the ID of the request)",
            weir_shown(request->reservation, shown));
        return;
    }
    if (ledger_is_unrecorded(number)) { /* its keys are not known, and nothing was charged to them */
        answer_settled(answer, &(struct ledger_settled){0}, false);
        return;
    }
    if (__builtin_expect(request->store_ill, 0)) {
        (void)weir_engine_fail_store(worker, answer);
        return;
    }
    struct record_id id = weir_ledger_reservation(ledger, number);
    weir_records_flush(ledger->reservations);
    weir_records_enter(ledger->reservations, &id, worker->now_ns, &visit);
    answer->changed = visit.record && visit.found ? settle_entry(worker, request, &visit, answer)
                                                  : refuse_gone(worker, request, number, answer);
    weir_records_leave(ledger->reservations, &visit);
}
