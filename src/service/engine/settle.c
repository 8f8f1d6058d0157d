/* SPDX-License-Identifier: MIT */
/*
 * WEIR.COMMIT and WEIR.CANCEL. All of it happens inside of the reservation's record, so of any number who
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

#include "base/sat.h"
#include "ledger/persist.h"
#include "service/leases/leased.h"
#include "service/policies/freeze.h"
#include "service/run.h"
#include "table/verbs.h"

struct settle_request {
    bool cancel;
    size_t count; /* of numbers; 0: all of it */
    int64_t used[LEDGER_PAIRS];
};

/* The question as it is compared with a later one: whoever says nothing says the numbers that were reserved.
 */
static uint64_t settle_hash(const struct ledger *ledger, const struct settle_request *ask,
                            const struct ledger_reservation *entry)
{
    int64_t words[1 + LEDGER_PAIRS] = {ask->cancel};
    for (size_t i = 0; i < entry->pairs && !ask->cancel; i++)
        words[1 + i] = ask->count > 0 ? ask->used[i] : entry->pair[i].n;
    return weir_ledger_question(ledger, words, sizeof words);
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

static struct key_overrun sum_overruns(const struct settle_request *ask,
                                       const struct ledger_reservation *entry, const struct ledger_pair *of)
{
    struct key_overrun sum = {0};
    for (size_t i = 0; i < ask->count; i++) {
        const struct ledger_pair *pair = &entry->pair[i];
        if (pair->ptable != of->ptable || pair->hash != of->hash || (entry->charged >> i & 1) == 0)
            continue;
        sum.reserved = sat_add(sum.reserved, pair->n);
        sum.used = sat_add(sum.used, ask->used[i]);
        sum.over = sat_add(sum.over, max64(ask->used[i] - pair->n, 0));
    }
    return sum;
}

/* An overrun is a debt of the key. As much as the limits let pass at once is what a take may cost, too; a
 * user without the class adjust must not charge a key with more, and not either by many small reservations
 * each of which is overrun, or by many pairs of one. */
static bool may_overrun(struct call *call, const struct ledger_pair *pair, const struct key_overrun *sum)
{
    struct weir_verdict verdict = {0};
    struct policy_table *ptable = weir_snapshot_policy_table(call->worker->snapshot, pair->ptable);
    struct pair of = {.policy = weir_snapshot_leases(call->worker->snapshot, pair->ptable),
                      .hash = pair->hash,
                      .n = sum->used};
    if (sum->over == 0 || !ptable || weir_user_may(call->user, MAY_ADJUST))
        return true;
    if (of.policy)
        (void)weir_leased_peek(call->worker, &of, &verdict);
    else
        (void)weir_table_peek_by_hash(ptable->table, call->worker->now_ns, pair->hash, sum->used, &verdict);
    if (verdict.reason != WEIR_NEVER &&
        (of.policy ||
         sum->over <= weir_table_chargeable_by_hash(ptable->table, call->worker->now_ns, pair->hash)))
        return true;
    if (verdict.reason != WEIR_NEVER)
        weir_call_error(call,
                        "NOPERM the key would owe more than policy '%s' lets pass at once: to charge %" PRId64
                        " beyond the %" PRId64 " reserved needs the class adjust",
                        policy_name(call->worker->snapshot, pair->ptable), sum->over, sum->reserved);
    else
        weir_call_error(call,
                        "NOPERM %" PRId64
                        " is more than policy '%s' lets pass at once: to charge that much beyond "
                        "the %" PRId64 " reserved needs the class adjust",
                        sum->used, policy_name(call->worker->snapshot, pair->ptable), sum->reserved);
    return false;
}

/* May all of it be committed? Else answers why not. */
static bool check_commit(struct call *call, const struct settle_request *ask,
                         const struct ledger_reservation *entry)
{
    const struct snapshot *snapshot = call->worker->snapshot;
    if (ask->count > 0 && ask->count != entry->pairs) {
        weir_call_error(call,
                        "ERR this reservation has %u pair%s and there %s %zu number%s; give one for each, or "
                        "none to commit all of it",
                        entry->pairs, entry->pairs == 1 ? "" : "s", ask->count == 1 ? "is" : "are",
                        ask->count, ask->count == 1 ? "" : "s");
        return false;
    }
    for (size_t i = 0; i < ask->count; i++) {
        const struct ledger_pair *pair = &entry->pair[i];
        struct key_overrun sum = sum_overruns(ask, entry, pair);
        if ((entry->charged >> i & 1) != 0 && !may_overrun(call, pair, &sum))
            return false;
        if (ask->used[i] <= pair->n || (entry->strict >> i & 1) == 0 ||
            !weir_snapshot_policy_table(snapshot, pair->ptable))
            continue;
        weir_call_error(call,
                        "ERR %" PRId64 " is more than the %" PRId64 " reserved, and policy '%s' refuses "
                        "overruns (reserve: {overrun: debt} charges them)",
                        ask->used[i], pair->n, policy_name(snapshot, pair->ptable));
        return false;
    }
    return true;
}

static bool is_promised(const struct ledger_reservation *entry, int64_t now_ns)
{
    return entry->promise.n > 0 && entry->promise.due_ns > now_ns;
}

/* Units of a fleet go back where they came from, as long as they may be spent. */
static void give_back(const struct call *call, struct weir_table *table,
                      const struct ledger_reservation *entry, const struct ledger_pair *pair, int64_t n)
{
    struct policy *policy = weir_snapshot_leases(call->worker->snapshot, pair->ptable);
    struct pair of = {.policy = policy, .hash = pair->hash, .n = n};
    if (policy)
        weir_leased_return(call->worker, &of, entry->promise.due_ns);
    else
        weir_table_give_by_hash(table, call->worker->now_ns, pair->hash, n);
}

static bool charge_more(const struct call *call, struct weir_table *table, const struct ledger_pair *pair,
                        int64_t n)
{
    struct policy *policy = weir_snapshot_leases(call->worker->snapshot, pair->ptable);
    struct pair of = {.policy = policy, .hash = pair->hash, .n = n};
    return policy ? weir_leased_charge(call->worker, &of)
                  : weir_table_charge_by_hash(table, call->worker->now_ns, pair->hash, n);
}

/* Of a pair that was charged and is still counted somewhere: how much of it stays charged. */
static int64_t commit_pair(const struct call *call, struct weir_table *table,
                           const struct ledger_reservation *entry, const struct ledger_pair *pair,
                           int64_t used, struct ledger_settled *settled)
{
    int64_t now_ns = call->worker->now_ns, charged = pair->n;
    if (used < pair->n && !is_promised(entry, now_ns)) {
        give_back(call, table, entry, pair, pair->n - used);
        settled->given_back = sat_add(settled->given_back, pair->n - used);
        charged = used;
    } else if (used > pair->n && charge_more(call, table, pair, used - pair->n)) {
        charged = used;
    }
    settled->charged = sat_add(settled->charged, charged);
    return charged;
}

static int64_t cancel_pair(const struct call *call, struct weir_table *table,
                           struct ledger_reservation *entry, const struct ledger_pair *pair,
                           struct ledger_settled *settled)
{
    int64_t now_ns = call->worker->now_ns;
    bool off = true;
    if (is_promised(entry, now_ns))
        off = weir_table_cancel_by_hash(table, now_ns, pair->hash, &entry->promise);
    else
        give_back(call, table, entry, pair, pair->n);
    if (!off)
        return pair->n;
    settled->given_back = sat_add(settled->given_back, pair->n);
    return 0;
}

/* The other policy tables that count pair `i` follow. They tell nobody. */
static void settle_others(const struct call *call, const struct ledger_reservation *entry, size_t i,
                          int64_t charged)
{
    int64_t now_ns = call->worker->now_ns;
    for (size_t k = 0; k < entry->also; k++) {
        const struct ledger_pair *pair = &entry->pair[entry->pairs + k];
        struct policy_table *ptable = weir_snapshot_policy_table(call->worker->snapshot, pair->ptable);
        if (!ptable || entry->of[entry->pairs + k] != i)
            continue;
        if (charged < pair->n)
            weir_table_give_by_hash(ptable->table, now_ns, pair->hash, pair->n - charged);
        else if (charged > pair->n)
            (void)weir_table_charge_by_hash(ptable->table, now_ns, pair->hash, charged - pair->n);
    }
}

static int64_t pair_remaining(const struct call *call, const struct ledger_pair *pair)
{
    struct weir_verdict verdict = {0};
    struct policy_table *ptable = weir_snapshot_policy_table(call->worker->snapshot, pair->ptable);
    struct pair of = {
        .policy = weir_snapshot_leases(call->worker->snapshot, pair->ptable), .hash = pair->hash, .n = 1};
    if (of.policy)
        (void)weir_leased_peek(call->worker, &of, &verdict);
    else if (ptable)
        (void)weir_table_peek_by_hash(ptable->table, call->worker->now_ns, pair->hash, 1, &verdict);
    return verdict.remaining;
}

static int64_t asked_of(const struct settle_request *ask, const struct ledger_pair *pair, size_t i)
{
    return ask->cancel ? 0 : ask->count > 0 ? ask->used[i] : pair->n;
}

/* The pairs of which something comes back, or the others. */
static void settle_some(const struct call *call, const struct settle_request *ask,
                        struct ledger_reservation *entry, bool come_back, struct ledger_settled *settled)
{
    for (size_t i = 0; i < entry->pairs; i++) {
        const struct ledger_pair *pair = &entry->pair[i];
        struct policy_table *ptable = weir_snapshot_policy_table(call->worker->snapshot, pair->ptable);
        int64_t used = asked_of(ask, pair, i);
        if ((used < pair->n) != come_back)
            continue;
        if (ptable && (entry->charged >> i & 1) != 0)
            used = ask->cancel ? cancel_pair(call, ptable->table, entry, pair, settled)
                               : commit_pair(call, ptable->table, entry, pair, used, settled);
        settle_others(call, entry, i, used);
    }
}

/* What is true if we are killed before anything was given back. false: nothing is. */
static bool foresee_settlement(const struct settle_request *ask, const struct ledger_reservation *entry,
                               struct ledger_settled *settled)
{
    bool come_back = false;
    for (size_t i = 0; i < entry->pairs; i++) {
        const struct ledger_pair *pair = &entry->pair[i];
        if (asked_of(ask, pair, i) >= pair->n)
            continue;
        come_back = true;
        if (!ask->cancel && (entry->charged >> i & 1) != 0)
            settled->charged = sat_add(settled->charged, pair->n);
    }
    return come_back;
}

static void settle_pairs(const struct call *call, const struct settle_request *ask,
                         const struct record_visit *visit)
{
    struct ledger *ledger = &call->worker->service->ledger;
    struct ledger_reservation *entry = visit_reservation(visit);
    struct ledger_settled settled = {.question = settle_hash(ledger, ask, entry)};
    settle_some(call, ask, entry, false, &settled);
    struct ledger_settled foreseen = settled;
    if (foresee_settlement(ask, entry, &foreseen)) {
        entry->settled = foreseen;
        weir_records_append(ledger->reservations, visit);
        settle_some(call, ask, entry, true, &settled);
    }
    settled.remaining = pair_remaining(call, &entry->pair[0]);
    entry->settled = settled;
}

static void tell_settled(struct call *call, const struct settle_request *ask,
                         const struct ledger_settled *settled)
{
    weir_reply_map(&call->reply, ask->cancel ? 2 : 3);
    if (!ask->cancel) {
        weir_reply_text(&call->reply, "charged");
        weir_reply_integer(&call->reply, settled->charged);
    }
    weir_reply_text(&call->reply, "given_back");
    weir_reply_integer(&call->reply, settled->given_back);
    weir_reply_text(&call->reply, "remaining");
    weir_reply_integer(&call->reply, settled->remaining);
}

/* What is no id at all: often it is the ID of the request. */
static void refuse_name(struct call *call)
{
    char shown[72];
    weir_call_error(
        call,
        "ERR no reservation '%s': it is named by the id that WEIR.RESERVE answered, such as 5f3a-1 "
        "(not by the ID of the request)",
        weir_shown(call->args[1], shown));
}

/* One that the ledger does not have, as far as that can still be told. */
static void refuse_gone(struct call *call, uint64_t number)
{
    char shown[72];
    const struct ledger *ledger = &call->worker->service->ledger;
    uint64_t last = atomic_load_explicit(&ledger->number, memory_order_relaxed);
    bool made = weir_ledger_is_ours(ledger, number) || number >> 32 != last >> 32;
    weir_call_error(call, "ERR no reservation '%s'%s", weir_shown(call->args[1], shown),
                    made ? " any more: its time is over and its units stay spent, or it was settled long ago"
                         : ": it was never made");
}

static void refuse_settled(struct call *call)
{
    char shown[72];
    weir_call_error(call, "ERR reservation '%s' was settled already, in another way; nothing was changed",
                    weir_shown(call->args[1], shown));
}

static void refuse_distrusted(struct call *call)
{
    char shown[72];
    weir_call_error(call,
                    "ERR reservation '%s' cannot be settled any more: the server has lost data, perhaps what "
                    "it had charged; its units stay spent",
                    weir_shown(call->args[1], shown));
}

static bool is_his(const struct call *call, const struct ledger_reservation *entry)
{
    const char *name = call->user->name;
    return (call->user->may & MAY_ADMIN) != 0 ||
           entry->owner == weir_ledger_owner(&call->worker->service->ledger, name, strlen(name));
}

/* What was charged and given back may be in nobody's log yet: neither the thread that reserved nor the one
 * that settled may have appended it. Before the record, which is listed when it is left. */
static void list_keys(const struct call *call, const struct ledger_reservation *entry)
{
    for (size_t i = 0; i < entry->pairs + entry->also; i++) {
        const struct ledger_pair *pair = &entry->pair[i];
        struct policy_table *ptable = weir_snapshot_policy_table(call->worker->snapshot, pair->ptable);
        if (ptable)
            weir_table_mark_dirty(ptable->table, pair->hash);
    }
}

/* Settled before: says the same again, or why not. */
static void settle_again(struct call *call, const struct settle_request *ask, struct record_visit *visit)
{
    const struct ledger_reservation *entry = visit_reservation(visit);
    const struct ledger_settled *settled = &entry->settled;
    if (settled->question == LEDGER_DISTRUSTED) {
        refuse_distrusted(call);
    } else if ((ask->count > 0 && ask->count != entry->pairs) ||
               settled->question != settle_hash(&call->worker->service->ledger, ask, entry)) {
        refuse_settled(call);
    } else {
        visit->looked = false; /* so the answer waits for what it repeats as if it had changed it */
        list_keys(call, entry);
        tell_settled(call, ask, settled);
    }
}

/* Is one of its keys? Then nothing is settled: what is given or charged here would be known nowhere else. */
static bool is_frozen(struct call *call, const struct ledger_reservation *entry)
{
    if (__builtin_expect(!call->worker->snapshot->any_frozen, 1))
        return false;
    for (size_t i = 0; i < entry->pairs; i++)
        if (weir_call_frozen_by_hash(call, entry->pair[i].ptable, entry->pair[i].hash))
            return true;
    return false;
}

/* Inside of the record. */
static void settle_entry(struct call *call, const struct settle_request *ask, struct record_visit *visit)
{
    const struct ledger_reservation *entry = visit_reservation(visit);
    visit->looked = true;
    if (!is_his(call, entry)) {
        weir_call_error(call, "NOPERM No permissions to settle a reservation of another user");
    } else if (entry->settled.question != 0) {
        settle_again(call, ask, visit);
    } else if (!is_frozen(call, entry) && (ask->cancel || check_commit(call, ask, entry))) {
        visit->looked = false;
        settle_pairs(call, ask, visit);
        list_keys(call, entry);
        tell_settled(call, ask, &entry->settled);
    }
}

static void settle_reservation(struct call *call, const struct settle_request *ask)
{
    struct ledger *ledger = &call->worker->service->ledger;
    struct record_visit visit;
    uint64_t number;
    if (!weir_ledger_number(call->args[1].bytes, call->args[1].len, &number)) {
        refuse_name(call);
        return;
    }
    if (ledger_is_unrecorded(number)) { /* its keys are not known, and nothing was charged to them */
        tell_settled(call, ask, &(struct ledger_settled){0});
        return;
    }
    if (__builtin_expect(call->store_ill, 0)) {
        weir_call_unavailable(call);
        return;
    }
    struct record_id id = weir_ledger_reservation(ledger, number);
    weir_records_flush(ledger->reservations);
    weir_records_enter(ledger->reservations, &id, call->worker->now_ns, &visit);
    if (visit.record && visit.found)
        settle_entry(call, ask, &visit);
    else
        refuse_gone(call, number);
    weir_records_leave(ledger->reservations, &visit);
}

void weir_run_commit(struct call *call)
{
    struct settle_request ask = {.count = call->count - 2};
    if (ask.count > LEDGER_PAIRS) {
        weir_call_arity(call);
        return;
    }
    for (size_t i = 0; i < ask.count; i++)
        if (!weir_call_units(call, 2 + i, "what was used", 0, &ask.used[i]))
            return;
    settle_reservation(call, &ask);
}

void weir_run_cancel(struct call *call)
{
    settle_reservation(call, &(struct settle_request){.cancel = true});
}
