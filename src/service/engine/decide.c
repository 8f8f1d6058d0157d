/* SPDX-License-Identifier: MIT */
/*
 * A question about a key goes to the policy table that counts it (main, or that of a prefix), and after a
 * change to another kind of limits also to the older one; both must agree. Shadow changes what is answered to
 * a refusal, never what is charged: a take that is let through on paper takes nothing.
 */
#include "service/engine/decide.h"

#include <string.h>

#include "base/assert.h"
#include "base/sat.h"
#include "service/engine/count.h"
#include "service/engine/tiers.h"
#include "service/leases/leased.h"
#include "table/verbs.h"

#define UNLIMITED "unlimited"

/* ---- which limits, which mode ---- */

static inline bool has_previous_table(const struct worker *worker, const struct policy *policy,
                                      const struct policy_table *ptable)
{
    return __builtin_expect(policy->previous != NULL, 0) && ptable == policy->main &&
           worker->now_ns < policy_previous_ends(policy);
}

struct policy_table *weir_decide_previous(const struct worker *worker, const struct pair *pair)
{
    const struct policy *policy = pair->policy;
    bool asked = has_previous_table(worker, policy, weir_policy_find_table(policy, pair->key, NULL));
    return asked ? policy->previous : NULL;
}

static enum policy_mode mode_of_pair(const struct worker *worker, const struct pair *pair)
{
    return weir_policy_mode(worker, pair_asked(pair), pair_said(pair));
}

/* ---- answers ---- */

static enum answer_reason reason_of(int32_t reason)
{
    switch ((enum weir_reason)reason) {
    case WEIR_OK: /* one of several, and another one refused */
    case WEIR_LATER:
        return ANSWER_LATER;
    case WEIR_NEVER:
        return ANSWER_NEVER;
    case WEIR_LOST:
        return ANSWER_LOST;
    case WEIR_SHARED:
        return ANSWER_SHARED;
    case WEIR_FULL:
    case WEIR_CANCELED:
    case WEIR_INVALID: /* out of memory: keys and numbers were looked at before */
        break;
    }
    return ANSWER_FULL;
}

/* The label of a limit that no policy has ready: the table is asked. */
static const char *ask_label(struct worker *worker, struct weir_table *table, struct slice key, int32_t limit)
{
    struct weir_limit_state limits[WEIR_LIMITS_MAX];
    size_t count = weir_table_explain_at(table, worker->now_ns, key.bytes, key.len, limits, WEIR_LIMITS_MAX);
    worker->label[0] = '\0';
    if (limit >= 0 && (size_t)limit < count && limit < WEIR_LIMITS_MAX) {
        _Static_assert(sizeof limits[0].text <= LABEL_MAX, "a text fits its label");
        memcpy(worker->label, limits[limit].text, sizeof limits[limit].text);
    }
    return worker->label;
}

static inline const char *label_of(struct worker *worker, const struct policy *policy,
                                   const struct policy_table *ptable, const struct limit_labels *labels,
                                   struct slice key, int32_t limit)
{
    if (policy_has_override(policy, key))
        return ask_label(worker, ptable->table, key, limit);
    return labels && limit >= 0 && (size_t)limit < labels->count ? labels->text[limit] : "";
}

const char *weir_decide_label(struct worker *worker, const struct pair *pair,
                              const struct policy_table *previous, int32_t limit)
{
    if (previous)
        return ask_label(worker, previous->table, pair->key, limit);
    const struct limit_labels *labels;
    struct policy_table *ptable = weir_policy_find_table(pair->policy, pair->key, &labels);
    return limit < 0 ? UNLIMITED : label_of(worker, pair->policy, ptable, labels, pair->key, limit);
}

static inline void fill_answer(struct answer *answer, const struct weir_verdict *verdict)
{
    answer->allowed = verdict->allowed != 0;
    answer->reason = answer->allowed ? ANSWER_OK : reason_of(verdict->reason);
    answer->remaining = max64(verdict->remaining, 0);
    answer->retry_after_ns = answer->allowed ? 0 : verdict->retry_after_ns;
    answer->reset_after_ns = verdict->reset_after_ns;
    answer->limit = verdict->limit;
    answer->pair = answer->part = 0;
    answer->by_previous = false;
    answer->policy = NULL;
    answer->charged = answer->changed = answer->allowed;
    answer->candidate_charged = 0;
    answer->wait_ns = 0;
    answer->waits_for_fleet = false;
    answer->ends_ns = 0;
}

static void fill_disabled(struct answer *answer)
{
    *answer = (struct answer){
        .allowed = true, .reason = ANSWER_DISABLED, .remaining = INT64_MAX, .limit = -1, .label = UNLIMITED};
}

/* What a list says of an address. */
static void fill_listed(struct answer *answer, enum address_rule rule)
{
    bool allowed = rule == ADDRESS_ALLOWED;
    *answer = (struct answer){.allowed = allowed,
                              .reason = allowed ? ANSWER_EXEMPT : ANSWER_BLOCKED,
                              .remaining = allowed ? INT64_MAX : 0,
                              .retry_after_ns = allowed ? 0 : WEIR_FOREVER,
                              .limit = -1,
                              .label = allowed ? ALLOW_LABEL : BLOCK_LABEL};
}

/* Refused, but nobody is to feel it. */
static void let_through(struct answer *answer)
{
    answer->allowed = true;
    answer->reason = ANSWER_SHADOW;
    answer->retry_after_ns = 0;
}

/* ---- counting ---- */

/* `label`: of the limit, if it refused. */
static inline void count_pair(struct worker *worker, const struct pair *pair, enum answer_reason reason,
                              const char *label)
{
    if (reason == ANSWER_OK || reason == ANSWER_SHADOW || reason == ANSWER_DISABLED ||
        reason == ANSWER_EXEMPT)
        count_allowed(worker, pair_asked(pair), pair->n, reason == ANSWER_SHADOW);
    else
        count_refused(worker, pair_asked(pair), label);
}

static void count_answer(struct worker *worker, const struct answer *answer)
{
    count_up(answer->allowed ? &worker->allowed : &worker->refused, 1);
}

static void try_candidate(struct worker *worker, const struct pair *pair, const struct policy_table *ptable,
                          struct answer *answer)
{
    if (!weir_policy_has_candidate(pair->policy, pair->key, ptable))
        return;
    answer->changed = true;
    if (weir_table_take_at(pair->policy->candidate_table->table, worker->now_ns, pair->key.bytes,
                           pair->key.len, pair->n, NULL))
        answer->candidate_charged |= 1u << pair->of;
    else
        count_up(&counts_of(worker, pair->policy)->candidate_refused, 1);
}

/* ---- one pair ---- */

/* Does a limit of the key count what it refuses? Of limits that are not at hand it is assumed. */
static bool counts_refusals(const struct pair *pair, const struct limit_labels *labels)
{
    return !labels || labels->counts_refusals || policy_has_override(pair->policy, pair->key);
}

static void take_one(struct worker *worker, const struct pair *pair, struct policy_table *ptable,
                     const struct limit_labels *labels, enum policy_mode mode, struct answer *answer)
{
    struct weir_verdict verdict;
    struct weir_table *table = ptable->table;
    struct key key = {.bytes = pair->key.bytes, .len = pair->key.len, .hash = pair->hash};
    if (pair->hash == 0)
        key.hash = table_hash(table, key.bytes, key.len);
    (void)weir_table_take_key(table, &key, region_time(table->region, worker->now_ns), pair->n, &verdict);
    fill_answer(answer, &verdict);
    answer->label = label_of(worker, pair->policy, ptable, labels, pair->key, verdict.limit);
    if (!answer->allowed)
        answer->changed = counts_refusals(pair, labels);
    if (mode == MODE_SHADOW && !answer->allowed)
        let_through(answer);
    try_candidate(worker, pair, ptable, answer);
    count_pair(worker, pair, answer->reason, answer->label);
    count_answer(worker, answer);
}

/* ---- addresses ---- */

/* Does a list decide? Then nothing is charged. */
static bool is_listed(const struct pair *pair, enum policy_mode mode, struct answer *answer)
{
    enum address_rule rule =
        __builtin_expect(pair->policy->address != NULL, 0) ? weir_pair_rule(pair) : ADDRESS_UNLISTED;
    if (rule == ADDRESS_UNLISTED || mode == MODE_DISABLED)
        return false;
    fill_listed(answer, rule);
    if (mode == MODE_SHADOW && !answer->allowed)
        let_through(answer);
    return true;
}

static bool take_listed(struct worker *worker, const struct pair *pair, enum policy_mode mode,
                        struct answer *answer)
{
    if (!is_listed(pair, mode, answer))
        return false;
    count_pair(worker, pair, answer->reason, answer->label);
    count_answer(worker, answer);
    return true;
}

/* ---- one pair whose units come from a fleet ---- */

/* Refused by a fleet whose coordinator is being asked: nothing was decided, if the one who asks can wait. */
static bool wait_for_fleet(const struct pair *pair, int64_t for_ns, struct answer *answer)
{
    if (!pair->patient)
        return false;
    *answer =
        (struct answer){.waits_for_fleet = true, .hold_ns = for_ns, .label = leased_label(pair->policy)};
    return true;
}

/* Counts, unless the answer holds. */
static void finish_leased(struct worker *worker, const struct pair *pair, enum policy_mode mode,
                          const struct leased_answer *leased, struct answer *answer)
{
    fill_answer(answer, &leased->verdict);
    answer->label = leased_label(pair->policy);
    answer->ends_ns = answer->allowed ? leased->until_ns : 0;
    answer->changed = false; /* a balance is not recorded */
    if (mode == MODE_SHADOW && !answer->allowed)
        let_through(answer);
    count_pair(worker, pair, answer->reason, answer->label);
    count_answer(worker, answer);
}

static void take_leased(struct worker *worker, const struct pair *pair, enum policy_mode mode,
                        struct answer *answer)
{
    struct leased_answer leased;
    if (!weir_leased_take(worker, pair, &leased) && leased.may_come && mode == MODE_ENFORCE &&
        wait_for_fleet(pair, pair->policy->pools->wait_ns, answer))
        return;
    finish_leased(worker, pair, mode, &leased, answer);
}

/* Nothing is promised: units of a later window are nobody's yet. Who has a timeout waits for units to come,
 * unless it is known that none will in time. */
static void reserve_leased(struct worker *worker, const struct pair *pair, enum policy_mode mode,
                           int64_t timeout_ns, struct answer *answer)
{
    struct leased_answer leased;
    bool taken = weir_leased_take(worker, pair, &leased);
    int64_t retry_ns = leased.verdict.retry_after_ns;
    bool comes = leased.verdict.reason == WEIR_LATER || leased.verdict.reason == WEIR_LOST;
    if (!taken && mode == MODE_ENFORCE && comes && timeout_ns > 0 &&
        (retry_ns <= timeout_ns || retry_ns == WEIR_FOREVER || leased.may_come) &&
        wait_for_fleet(pair, timeout_ns, answer))
        return;
    if (!taken && mode == MODE_ENFORCE && leased.may_come && timeout_ns <= 0 &&
        wait_for_fleet(pair, pair->policy->pools->wait_ns, answer))
        return;
    finish_leased(worker, pair, mode, &leased, answer);
}

/* ---- several pairs, or several policy tables of one ---- */

/* What is asked of one policy table. */
struct joint_part {
    size_t pair;
    struct policy_table *ptable;       /* NULL: units of a fleet, which are taken first */
    const struct limit_labels *labels; /* NULL: the previous policy table's, which are not at hand */
    bool shadow;
    bool dropped; /* refused in shadow: taken out of the question */
};

struct joint_take {
    const struct pair *pairs;
    size_t count, part_count;
    bool blocked; /* a list refuses one of them */
    struct joint_part parts[WEIR_ALL_MAX];
    struct weir_verdict verdicts[WEIR_ALL_MAX]; /* of the parts */
    bool disabled[PAIRS_MAX];
    enum address_rule rules[PAIRS_MAX]; /* of lists: then it has no parts */
    int64_t ends_ns[WEIR_ALL_MAX];      /* of a fleet's part: units were taken; else 0 */
};

static void add_parts(struct worker *worker, struct joint_take *joint, size_t pair)
{
    const struct policy *policy = joint->pairs[pair].policy;
    struct slice key = joint->pairs[pair].key;
    enum policy_mode mode = mode_of_pair(worker, &joint->pairs[pair]);
    joint->disabled[pair] = mode == MODE_DISABLED;
    if (mode == MODE_DISABLED)
        return;
    joint->rules[pair] = weir_pair_rule(&joint->pairs[pair]);
    if (__builtin_expect(joint->rules[pair] != ADDRESS_UNLISTED, 0)) {
        joint->blocked |= joint->rules[pair] == ADDRESS_BLOCKED && mode == MODE_ENFORCE;
        return;
    }
    struct joint_part part = {.pair = pair, .shadow = mode == MODE_SHADOW, .labels = policy->labels};
    if (!policy->leases)
        part.ptable = weir_policy_find_table(policy, key, &part.labels);
    joint->parts[joint->part_count++] = part;
    if (policy->leases)
        return;
    if (has_previous_table(worker, policy, part.ptable)) {
        part.ptable = policy->previous;
        part.labels = NULL;
        joint->parts[joint->part_count++] = part;
    }
}

/* All parts that are still in the question, or none. */
static bool ask_parts(struct worker *worker, struct joint_take *joint)
{
    struct weir_ask asks[WEIR_ALL_MAX];
    size_t which[WEIR_ALL_MAX], count = 0;
    for (size_t i = 0; i < joint->part_count; i++) {
        const struct pair *pair = &joint->pairs[joint->parts[i].pair];
        if (joint->parts[i].dropped || !joint->parts[i].ptable)
            continue;
        which[count] = i;
        asks[count++] = (struct weir_ask){.table = joint->parts[i].ptable->table,
                                          .key = pair->key.bytes,
                                          .len = pair->key.len,
                                          .n = pair->n};
    }
    bool passed = weir_take_all_at(asks, count, worker->now_ns);
    for (size_t i = 0; i < count; i++)
        joint->verdicts[which[i]] = asks[i].verdict;
    return passed;
}

static bool part_refuses(const struct joint_take *joint, size_t part)
{
    return !joint->parts[part].dropped && joint->verdicts[part].reason != WEIR_OK;
}

/* Takes a pair out of the question, with all of its policy tables. */
static void drop_pair(struct joint_take *joint, size_t of)
{
    for (size_t i = 0; i < joint->part_count; i++)
        if (joint->pairs[joint->parts[i].pair].of == of)
            joint->parts[i].dropped = true;
}

/* After a no: does a part that counts refuse? Else those that refuse are in shadow, and are taken out. */
static bool is_refused(struct joint_take *joint)
{
    bool dropped = false;
    for (size_t i = 0; i < joint->part_count; i++)
        if (!joint->parts[i].shadow && part_refuses(joint, i))
            return true;
    for (size_t i = 0; i < joint->part_count; i++)
        if (part_refuses(joint, i)) {
            drop_pair(joint, joint->pairs[joint->parts[i].pair].of);
            dropped = true;
        }
    return !dropped;
}

/* How many units the limit of a verdict has when it is full. A balance holds what was leased last, and more
 * is on its way: it counts as full until it is empty. */
static int64_t full_units_of_pair(const struct worker *worker, const struct pair *pair,
                                  const struct policy_table *ptable, const struct limit_labels *labels,
                                  const struct weir_verdict *verdict)
{
    struct weir_limit_state limits[WEIR_LIMITS_MAX];
    size_t i = (size_t)max64(verdict->limit, 0);
    if (pair->policy->leases)
        return max64(verdict->remaining, 1);
    if (labels && i < labels->count && !policy_has_override(pair->policy, pair->key))
        return labels->whole[i];
    size_t count = weir_table_explain_at(ptable->table, worker->now_ns, pair->key.bytes, pair->key.len,
                                         limits, WEIR_LIMITS_MAX);
    return i < count && i < WEIR_LIMITS_MAX ? sat_add(limits[i].used, limits[i].left) : INT64_MAX;
}

static int64_t part_whole(const struct worker *worker, const struct joint_take *joint, size_t i)
{
    const struct joint_part *part = &joint->parts[i];
    return full_units_of_pair(worker, &joint->pairs[part->pair], part->ptable, part->labels,
                              &joint->verdicts[i]);
}

/* Has `one`, of `whole` units, a smaller share left than `other`? Of equal ones, the one with fewer units. */
static bool has_less(const struct weir_verdict *one, int64_t whole, const struct weir_verdict *other,
                     int64_t other_whole)
{
    weir_i128 share = (weir_i128)one->remaining * other_whole, its = (weir_i128)other->remaining * whole;
    return share < its || (share == its && one->remaining < other->remaining);
}

/* Refused: the one with the longest wait of those that count. Let through: a shadow's. Else the one with the
 * least share left. */
static size_t deciding_part(const struct worker *worker, const struct joint_take *joint, bool passed,
                            bool shadow)
{
    size_t best = joint->part_count;
    for (size_t i = 0; i < joint->part_count; i++) {
        const struct weir_verdict *verdict = &joint->verdicts[i];
        const struct joint_part *part = &joint->parts[i];
        bool candidate = passed ? part->dropped == shadow && (!shadow || verdict->reason != WEIR_OK)
                                : !part->shadow && verdict->reason != WEIR_OK;
        if (!candidate)
            continue;
        if (best == joint->part_count ||
            (passed && !shadow ? has_less(verdict, part_whole(worker, joint, i), &joint->verdicts[best],
                                          part_whole(worker, joint, best))
                               : verdict->retry_after_ns > joint->verdicts[best].retry_after_ns))
            best = i;
    }
    return best;
}

/* The first pair of which a list says so; or `count`. */
static size_t find_listed(const struct joint_take *joint, enum address_rule rule)
{
    size_t i = 0;
    while (i < joint->count && joint->rules[i] != rule)
        i++;
    return i;
}

static void set_deciding_pair(const struct joint_take *joint, size_t i, struct answer *answer)
{
    const struct pair *pair = &joint->pairs[i];
    answer->part = (int32_t)i;
    answer->pair = (int32_t)pair->of;
    if (joint->pairs[joint->count - 1].of > 0)
        answer->policy = pair_asked(pair)->name;
}

/* What lists say where no limit has more to say. false: nothing. */
static bool answer_listed(const struct joint_take *joint, enum address_rule rule, struct answer *answer)
{
    size_t listed = find_listed(joint, rule);
    if (listed == joint->count)
        return false;
    fill_listed(answer, rule);
    if (!answer->allowed && !joint->blocked)
        let_through(answer);
    set_deciding_pair(joint, listed, answer);
    return true;
}

static void answer_joint(struct worker *worker, const struct joint_take *joint, bool passed, bool shadow,
                         struct answer *answer)
{
    size_t best = deciding_part(worker, joint, passed, shadow);
    if (best == joint->part_count && !passed)
        best = 0; /* nobody says why */
    if (passed && !shadow && answer_listed(joint, ADDRESS_BLOCKED, answer)) {
        ASSERT(answer->reason == ANSWER_SHADOW);
    } else if (best == joint->part_count) {
        if (!answer_listed(joint, ADDRESS_ALLOWED, answer)) {
            fill_disabled(answer);
            set_deciding_pair(joint, 0, answer);
        }
    } else {
        const struct joint_part *part = &joint->parts[best];
        const struct pair *pair = &joint->pairs[part->pair];
        struct weir_verdict verdict = joint->verdicts[best];
        fill_answer(answer, &verdict);
        answer->label = part->labels ? label_of(worker, pair->policy, part->ptable, part->labels, pair->key,
                                                verdict.limit)
                                     : ask_label(worker, part->ptable->table, pair->key, verdict.limit);
        set_deciding_pair(joint, part->pair, answer);
        answer->by_previous = !part->labels;
        if (shadow)
            let_through(answer);
    }
    answer->charged = 0;
    answer->changed = false;
    for (size_t i = 0; passed && i < joint->part_count; i++)
        if (!joint->parts[i].dropped) {
            answer->charged |= 1u << joint->pairs[joint->parts[i].pair].of;
            answer->changed |= joint->parts[i].ptable != NULL;
        }
}

/* Who was let through counts with each policy, who was refused with the one that refused. */
static void count_joint(struct worker *worker, const struct joint_take *joint, const struct answer *answer)
{
    count_answer(worker, answer);
    if (!answer->allowed) {
        count_pair(worker, &joint->pairs[answer->part], answer->reason, answer->label);
        return;
    }
    for (size_t i = 0; i < joint->count; i++) {
        if (joint->pairs[i].asked)
            continue; /* the first tier has counted it */
        bool taken = joint->disabled[i] || joint->rules[i] == ADDRESS_ALLOWED ||
                     (answer->charged >> joint->pairs[i].of & 1) != 0;
        count_pair(worker, &joint->pairs[i], taken ? ANSWER_OK : ANSWER_SHADOW, NULL);
    }
}

/* The parts of fleets, until one refuses; what was taken before is to be given back then. Those who refuse in
 * shadow are taken out. */
static bool take_leases(struct worker *worker, struct joint_take *joint, bool *shadow, bool *may_come)
{
    struct leased_answer leased;
    for (size_t i = 0; i < joint->part_count; i++) {
        struct joint_part *part = &joint->parts[i];
        if (part->ptable)
            continue;
        bool taken = weir_leased_take(worker, &joint->pairs[part->pair], &leased);
        joint->verdicts[i] = leased.verdict;
        joint->ends_ns[i] = taken ? max64(leased.until_ns, 1) : 0;
        *may_come = leased.may_come && !part->shadow;
        if (!taken && !part->shadow)
            return false;
        part->dropped = !taken;
        *shadow |= !taken;
    }
    return true;
}

static void give_leases_back(const struct worker *worker, const struct joint_take *joint)
{
    for (size_t i = 0; i < joint->part_count; i++)
        if (joint->ends_ns[i] > 0)
            weir_leased_return(worker, &joint->pairs[joint->parts[i].pair], joint->ends_ns[i]);
}

/* The first end of all that was leased and taken; 0: nothing was. */
static int64_t first_end(const struct joint_take *joint)
{
    int64_t first = 0;
    for (size_t i = 0; i < joint->part_count; i++)
        if (joint->ends_ns[i] > 0 && (first == 0 || joint->ends_ns[i] < first))
            first = joint->ends_ns[i];
    return first;
}

static bool wait_jointly(const struct joint_take *joint, struct answer *answer)
{
    for (size_t i = 0; i < joint->part_count; i++)
        if (!joint->parts[i].ptable && !joint->parts[i].dropped && joint->verdicts[i].reason != WEIR_OK) {
            const struct pair *pair = &joint->pairs[joint->parts[i].pair];
            return wait_for_fleet(pair, pair->policy->pools->wait_ns, answer);
        }
    return false;
}

/* One that is enforced: others may be blocked in shadow. */
static void answer_blocked(struct worker *worker, struct joint_take *joint, struct answer *answer)
{
    for (size_t i = 0; i < joint->count; i++)
        if (joint->rules[i] == ADDRESS_BLOCKED && mode_of_pair(worker, &joint->pairs[i]) != MODE_ENFORCE)
            joint->rules[i] = ADDRESS_UNLISTED;
    (void)answer_listed(joint, ADDRESS_BLOCKED, answer);
    count_joint(worker, joint, answer);
}

static void take_jointly(struct worker *worker, const struct pair *pairs, size_t count, struct answer *answer)
{
    struct joint_take joint = {.pairs = pairs, .count = count};
    bool passed, shadow = false, may_come = false;
    for (size_t i = 0; i < count; i++)
        add_parts(worker, &joint, i);
    if (__builtin_expect(joint.blocked, 0)) {
        answer_blocked(worker, &joint, answer);
        return;
    }
    passed = take_leases(worker, &joint, &shadow, &may_come);
    while (passed && !(passed = ask_parts(worker, &joint)) && !is_refused(&joint))
        passed = shadow = true;
    if (!passed)
        give_leases_back(worker, &joint);
    if (!passed && may_come && wait_jointly(&joint, answer))
        return;
    answer_joint(worker, &joint, passed, passed && shadow, answer);
    answer->ends_ns = passed ? first_end(&joint) : 0;
    for (size_t i = 0; i < count; i++)
        if (!joint.disabled[i] && joint.rules[i] == ADDRESS_UNLISTED)
            try_candidate(worker, &pairs[i], weir_policy_find_table(pairs[i].policy, pairs[i].key, NULL),
                          answer);
    count_joint(worker, &joint, answer);
}

void weir_decide_take(struct worker *worker, const struct pair *pairs, size_t count, struct answer *answer)
{
    const struct limit_labels *labels;
    if (count != 1) {
        take_jointly(worker, pairs, count, answer);
        return;
    }
    struct policy_table *ptable = weir_policy_find_table(pairs->policy, pairs->key, &labels);
    enum policy_mode mode = mode_of_pair(worker, pairs);
    if (take_listed(worker, pairs, mode, answer))
        return;
    if (__builtin_expect(pairs->policy->leases, 0) && mode != MODE_DISABLED)
        take_leased(worker, pairs, mode, answer);
    else if (__builtin_expect(mode != MODE_DISABLED && !has_previous_table(worker, pairs->policy, ptable), 1))
        take_one(worker, pairs, ptable, labels, mode, answer);
    else
        take_jointly(worker, pairs, count, answer);
}

/* ---- looking ---- */

static void peek_leased(struct worker *worker, const struct pair *pair, enum policy_mode mode,
                        struct answer *answer)
{
    struct weir_verdict verdict;
    (void)weir_leased_peek(worker, pair, &verdict);
    fill_answer(answer, &verdict);
    answer->label = leased_label(pair->policy);
    answer->charged = 0;
    answer->changed = false;
    if (mode == MODE_SHADOW && !answer->allowed)
        let_through(answer);
}

static void peek_tables(struct worker *worker, const struct pair *pairs, size_t count, struct answer *answer)
{
    struct joint_take joint = {.pairs = pairs, .count = count};
    bool passed = true, shadow;
    for (size_t i = 0; i < count; i++)
        add_parts(worker, &joint, i);
    for (size_t i = 0; i < joint.part_count; i++) {
        const struct pair *pair = &pairs[joint.parts[i].pair];
        passed &= weir_table_peek_at(joint.parts[i].ptable->table, worker->now_ns, pair->key.bytes,
                                     pair->key.len, pair->n, &joint.verdicts[i]);
    }
    shadow = !passed && joint.parts[0].shadow;
    if (shadow)
        drop_pair(&joint, pairs->of);
    answer_joint(worker, &joint, passed || shadow, shadow, answer);
    answer->charged = 0;
    answer->changed = false;
}

void weir_decide_peek(struct worker *worker, const struct pair *pairs, size_t count, struct answer *answer)
{
    enum policy_mode mode = mode_of_pair(worker, pairs);
    if (is_listed(pairs, mode, answer))
        return;
    if (pairs->policy->leases && mode != MODE_DISABLED)
        peek_leased(worker, pairs, mode, answer);
    else
        peek_tables(worker, pairs, count, answer);
}

static bool all_pass_anyway(const struct worker *worker, const struct pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (mode_of_pair(worker, &pairs[i]) == MODE_ENFORCE)
            return false;
    return true;
}

/* Of several pairs the first that would have been refused decides, else the first one. */
bool weir_decide_unrecorded(struct worker *worker, const struct pair *pairs, size_t count,
                            struct answer *answer)
{
    if (!all_pass_anyway(worker, pairs, count))
        return false;
    for (size_t i = 0, tiers; i < count; i += tiers) {
        struct answer one = {0};
        for (tiers = 1; i + tiers < count && pairs[i + tiers].asked; tiers++) {
        }
        weir_decide_peek(worker, &pairs[i], tiers, &one);
        count_pair(worker, &pairs[i], one.reason, one.label);
        one.part += (int32_t)i;
        one.pair = (int32_t)pairs[i].of;
        one.policy = pairs[count - 1].of > 0 ? pairs[i].policy->name : NULL;
        if (i == 0 || (one.reason == ANSWER_SHADOW && answer->reason != ANSWER_SHADOW))
            *answer = one;
    }
    count_answer(worker, answer);
    return true;
}

/* ---- promises ---- */

/* The main policy table promises, and the older one must have the units by then. Nobody waits for the older
 * one alone: he would go at a time at which the main policy table has not counted him. */
static bool reserve_both(struct worker *worker, const struct pair *pair, int64_t timeout_ns,
                         struct weir_reservation *reservation, struct weir_verdict *verdict,
                         bool *by_previous)
{
    struct weir_table *main = pair->policy->main->table, *previous = pair->policy->previous->table;
    const void *key = pair->key.bytes;
    struct weir_reservation second;
    struct weir_verdict no;
    if (!weir_table_reserve_at(main, worker->now_ns, key, pair->key.len, pair->n, timeout_ns, reservation,
                               verdict))
        return false;
    if (weir_table_reserve_at(previous, worker->now_ns, key, pair->key.len, pair->n, reservation->wait_ns,
                              &second, &no))
        return true;
    if (reservation->wait_ns > 0)
        (void)weir_table_cancel_at(main, worker->now_ns, key, pair->key.len, reservation);
    else
        weir_table_give_at(main, worker->now_ns, key, pair->key.len, pair->n);
    *reservation = (struct weir_reservation){0};
    *verdict = no;
    *by_previous = true;
    return false;
}

void weir_decide_reserve(struct worker *worker, const struct pair *pair, int64_t timeout_ns,
                         struct answer *answer)
{
    const struct policy *policy = pair->policy;
    const struct limit_labels *labels;
    struct policy_table *ptable = weir_policy_find_table(policy, pair->key, &labels);
    enum policy_mode mode = mode_of_pair(worker, pair);
    struct weir_verdict verdict = {0};
    bool by_previous = false;
    struct weir_reservation *promise = &answer->promise;
    *promise = (struct weir_reservation){0};
    if (take_listed(worker, pair, mode, answer))
        return;
    if (policy->leases && mode != MODE_DISABLED) {
        reserve_leased(worker, pair, mode, timeout_ns, answer);
        return;
    }
    if (mode == MODE_DISABLED) {
        fill_disabled(answer);
    } else {
        if (has_previous_table(worker, policy, ptable))
            (void)reserve_both(worker, pair, timeout_ns, promise, &verdict, &by_previous);
        else
            (void)weir_table_reserve_at(ptable->table, worker->now_ns, pair->key.bytes, pair->key.len,
                                        pair->n, timeout_ns, promise, &verdict);
        fill_answer(answer, &verdict);
        answer->wait_ns = answer->allowed ? verdict.wait_ns : 0;
        answer->by_previous = by_previous;
        answer->label = by_previous ? ask_label(worker, policy->previous->table, pair->key, verdict.limit)
                                    : label_of(worker, policy, ptable, labels, pair->key, verdict.limit);
        if (!answer->allowed) /* reserve_both: the main policy table had promised */
            answer->changed = by_previous || counts_refusals(pair, labels);
        if (mode == MODE_SHADOW && !answer->allowed)
            let_through(answer);
        try_candidate(worker, pair, ptable, answer);
    }
    count_pair(worker, pair, answer->reason, answer->label);
    count_answer(worker, answer);
}

/* ---- ahead of a decision ---- */

uint64_t weir_decide_prefetch(const struct policy *policy, struct slice key)
{
    if (key.len > KEY_MAX || policy->pools || policy->address)
        return 0;
    struct weir_table *table = weir_policy_find_table(policy, key, NULL)->table;
    uint64_t hash = table_hash(table, key.bytes, key.len);
    table->kind->prefetch(table, hash);
    return hash;
}
