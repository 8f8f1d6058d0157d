/* SPDX-License-Identifier: MIT */
/*
 * WEIR.LEASE and WEIR.RETURN: this server as the coordinator of others (weir://). What they are lent is in
 * lend.h.
 */
#include <inttypes.h>
#include <string.h>

#include "base/sat.h"
#include "service/leases/lend.h"
#include "service/pending.h"
#include "table/table.h"

#define CHUNKS_MAX INT64_C(1000000) /* of a request */

/* ---- what is asked for ---- */

/* NAME, or POLICY:key of a policy with a pool for each key. The key is what the one who leases made of it
 * (weir_pools_key), so nothing is made of it here. */
static bool parse_pool(struct call *call, struct request *request)
{
    struct slice key = {0};
    struct policy *policy = weir_snapshot_pool(call->worker->snapshot, call->args[1], &key);
    bool each = policy && policy->pools && policy->pools->each;
    struct pair *pair = &request->pairs[request->count++];
    *pair = (struct pair){.name = policy ? (struct slice){policy->name, strlen(policy->name)} : call->args[1],
                          .policy = policy,
                          .key = each ? key : (struct slice){0},
                          .said = {"", 0},
                          .patient = !call->last};
    return true;
}

static bool is_leased(struct call *call, const struct policy *policy, struct slice key)
{
    char shown[72];
    if (!policy->pools)
        weir_call_error(call,
                        "ERR policy '%s' is this server's alone and leases nothing; write fleet: "
                        "{coordinator: \"local:\"} into it to make this server the root of a fleet",
                        policy->name);
    else if (policy->pools->each && (key.len == 0 || key.len > POOLS_KEY_MAX))
        weir_call_error(call, "ERR policy '%s' has a pool for each key; write WEIR.LEASE %s:key, not %s",
                        policy->name, policy->name, weir_shown(call->args[1], shown));
    else if (policy->pools->each && !weir_pools_named(key)) /* it would never be joined */
        weir_call_error(call,
                        "ERR '%s' is no name of a pool, which has letters, digits and - _ . : @ only; a key "
                        "with others has @ and the first 40 digits of its SHA-256 for it",
                        weir_shown(call->args[1], shown));
    else
        return true;
    return false;
}

/* The pool that was admitted, and at `at` a number of chunks, or 1. */
static bool read_ask(struct call *call, size_t at, struct lease_request *ask)
{
    struct pair *pair = &call->request->pairs[0];
    const struct policy *policy = pair->policy;
    if (!pair->key.bytes)
        pair->key.bytes = "";
    pair->said = (struct slice){0};
    if (!is_leased(call, policy, pair->key))
        return false;
    *ask = (struct lease_request){.pair = *pair, .pools = policy->pools, .chunks = 1};
    if (at < call->count && !weir_call_integer(call, at, "chunks", 0, &ask->chunks))
        return false;
    ask->chunks = min64(ask->chunks, CHUNKS_MAX);
    ask->chunks = min64(ask->chunks, max64(UNITS_MAX / ask->pools->child_chunk, 1));
    ask->pair.n = ask->chunks * ask->pools->child_chunk;
    ask->pair.hash = table_hash(policy->main->table, pair->key.bytes, pair->key.len);
    ask->mode = weir_policy_mode(call->worker, policy, pair->key);
    return true;
}

/* ---- the commands ---- */

/* Only where all keys share a pool: the names of a node share a line, and a request that waits holds up all
 * that is behind it. */
static bool may_wait_for_chunks(const struct lease_request *ask, const struct lease_result *result)
{
    return result->may_come && ask->chunks > 0 && !ask->pools->each && ask->pair.patient &&
           ask->pools->wait_ns > 0;
}

/* Of an epoch that is not known nothing can be said. */
static void tell_unknown(struct call *call, const struct lease_request *ask,
                         const struct lease_result *result)
{
    if (result->full)
        weir_call_error(call, "ERR policy '%s' has as many pools as it may have: %" PRId64,
                        ask->pair.policy->name, ask->pools->most);
    else
        weir_call_error(call, "TRYAGAIN the coordinator of policy '%s' has not answered yet",
                        ask->pair.policy->name);
}

static void run_lease(struct call *call)
{
    struct lease_request ask;
    struct lease_result result = {0};
    if (!read_ask(call, 2, &ask))
        return;
    result.terms = ask.pools->terms;
    if (call->count > 3) {
        weir_call_syntax(call, 3);
        return;
    }
    weir_lend(call->worker, &ask, &result);
    if (may_wait_for_chunks(&ask, &result) && weir_pending_fleet(call, ask.pools->wait_ns, &ask.pair, 1))
        return;
    if (result.epoch == 0) {
        tell_unknown(call, &ask, &result);
        return;
    }
    if (!ask.pools->local && ask.chunks > 0)
        weir_lend_count(call->worker, &ask, &result);
    weir_lease_tell(&call->reply, ask.pools, &result);
}

static bool read_epoch(struct call *call, size_t at, uint64_t *epoch)
{
    int64_t number;
    if (!weir_call_integer(call, at, "epoch", 1, &number))
        return false;
    *epoch = (uint64_t)number;
    return true;
}

/* As many as they are now, unless it is said. */
static bool read_lease_units(struct call *call, size_t at, int64_t *units)
{
    if (at >= call->count)
        return true;
    if (!weir_call_integer(call, at, "units", 0, units))
        return false;
    *units = min64(*units, UNITS_MAX);
    return true;
}

static void run_return(struct call *call)
{
    struct lease_request ask;
    uint64_t epoch;
    if (!read_ask(call, 3, &ask) || !read_epoch(call, 2, &epoch) || !read_lease_units(call, 4, &ask.pair.n))
        return;
    if (call->count > 5) {
        weir_call_syntax(call, 5);
        return;
    }
    int64_t chunks = weir_lend_back(call->worker, &ask, epoch);
    call->worker->changed |= chunks > 0;
    weir_reply_integer(&call->reply, chunks);
}

/* ---- the table ---- */

static const struct arg lease_docs[] = {
    {.name = "policy", .type = ARG_STRING},
    {.name = "chunks", .type = ARG_INTEGER, .flags = ARG_OPTIONAL},
    {0},
};
static const struct arg return_docs[] = {
    {.name = "policy", .type = ARG_STRING},
    {.name = "epoch", .type = ARG_INTEGER},
    {.name = "chunks", .type = ARG_INTEGER},
    {.name = "units", .type = ARG_INTEGER, .flags = ARG_OPTIONAL},
    {0},
};

const struct command weir_commands_lease[] = {
    {COMMAND("weir.lease",
             "Takes chunks of a fleet's policy, to be spent by the one who asks until they expire", "weir",
             -2, ENGINE_LEASE, run_lease),
     .flags = CMD_BLOCKING, .policy_at = 1, .parse = parse_pool, .docs = lease_docs,
     .example = "WEIR.LEASE egress 4"},
    {COMMAND("weir.return",
             "Hands leased chunks back that were not spent, in the epoch that they were leased in", "weir",
             -4, ENGINE_RETURN, run_return),
     .policy_at = 1, .parse = parse_pool, .docs = return_docs, .example = "WEIR.RETURN egress 60000000001 1"},
    {0},
};
