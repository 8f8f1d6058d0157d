/* SPDX-License-Identifier: MIT */
/*
 * An answer in numbers. All numbers of one object come from one limit. Those of the limit that decided agree
 * with the verdict, also if other requests have changed the key since.
 */
#include "service/engine/numbers.h"

#include "base/assert.h"
#include "base/sat.h"
#include "service/engine/decide.h"
#include "service/leases/leased.h"
#include "table/verbs.h"

/* What this server has leased for the pair; what other servers have used is not known here. */
static void leased_numbers(struct worker *worker, const struct pair *pair, struct limit_numbers *numbers)
{
    const struct lease_terms *terms = &pair->policy->pools->terms;
    struct weir_verdict verdict;
    (void)weir_leased_peek(worker, pair, &verdict);
    *numbers = (struct limit_numbers){
        .count = terms->total,
        .window_ns = terms->window_ns,
        .burst = terms->kind == LEASE_BUCKET ? terms->burst : terms->total,
        .used = INT64_MAX,
        .remaining = max64(verdict.remaining, 0),
        .reset_after_ns = verdict.reset_after_ns,
        .retry_after_ns = verdict.allowed ? 0 : verdict.retry_after_ns,
    };
    numbers->name = leased_label(pair->policy);
}

/* `labels`: of the limits, or NULL: their table has to say them. */
static size_t table_numbers(struct worker *worker, const struct pair *pair, struct weir_table *table,
                            const struct limit_labels *labels, struct limit_numbers *numbers)
{
    size_t count = weir_table_numbers_at(table, worker->now_ns, pair->key.bytes, pair->key.len, pair->n,
                                         !labels, numbers, WEIR_LIMITS_MAX);
    for (size_t i = 0; labels && i < count && i < labels->count; i++)
        numbers[i].name = labels->text[i];
    return count;
}

/* Those of a pair's limits, then those of before a change that decide, too. *previous: how many come first.
 */
static size_t pair_numbers(struct worker *worker, const struct pair *pair, struct limit_numbers *numbers,
                           size_t *previous)
{
    const struct policy *policy = pair->policy;
    const struct policy_table *before = weir_decide_previous(worker, pair);
    if (policy->leases) {
        leased_numbers(worker, pair, numbers);
        return *previous = 1;
    }
    const struct limit_labels *labels;
    struct weir_table *table = weir_policy_find_table(policy, pair->key, &labels)->table;
    if (policy->key_count > 0 && weir_policy_override(policy, pair->key))
        labels = NULL;
    size_t count = table_numbers(worker, pair, table, labels, numbers);
    *previous = count;
    if (before)
        count += table_numbers(worker, pair, before->table, NULL, numbers + count);
    return count;
}

/* The verdict's numbers, and what goes with them. */
static void agree_with_verdict(struct limit_numbers *numbers, const struct answer *answer)
{
    if (numbers->used != INT64_MAX && numbers->remaining != answer->remaining)
        numbers->used = max64(sat_sub(sat_add(numbers->used, numbers->remaining), answer->remaining), 0);
    numbers->remaining = answer->remaining;
    numbers->reset_after_ns = answer->reset_after_ns;
    numbers->retry_after_ns = answer->retry_after_ns;
}

void weir_answer_numbers(struct worker *worker, const struct request *request, struct answer *answer)
{
    struct limit_numbers *numbers = request->numbers, *decided = NULL;
    size_t count = 0;
    for (size_t i = 0; i < request->part_count; i++) {
        size_t previous, some = pair_numbers(worker, &request->parts[i], numbers + count, &previous);
        size_t limit = (answer->by_previous ? previous : 0) + (size_t)max64(answer->limit, 0);
        if ((int32_t)i == answer->part && answer->limit >= 0 && limit < some)
            decided = &numbers[count + limit];
        for (size_t k = count; k < count + some; k++) {
            numbers[k].pair = (int32_t)request->parts[i].of;
            if (answer->allowed)
                numbers[k].retry_after_ns = 0;
        }
        count += some;
    }
    ASSERT(count <= NUMBERS_MAX);
    answer->numbers = numbers;
    answer->number_count = count;
    if (decided) {
        agree_with_verdict(decided, answer);
        answer->decided = *decided;
        return;
    }
    answer->decided =
        (struct limit_numbers){.count = INT64_MAX,
                               .window_ns = INT64_MAX,
                               .burst = INT64_MAX,
                               .used = answer->limit == LIMIT_UNKNOWN ? INT64_MAX : 0,
                               .remaining = answer->limit == LIMIT_UNKNOWN ? INT64_MAX : answer->remaining,
                               .retry_after_ns = answer->retry_after_ns};
}
