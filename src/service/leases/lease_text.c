/* SPDX-License-Identifier: MIT */
#include "service/leases/lease_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/humanize.h"
#include "base/sat.h"
#include "service/commands/call.h"
#include "table/table.h"

/* ---- WEIR.LEASE ---- */

static void tell_number(struct reply *reply, const char *name, int64_t number)
{
    weir_reply_text(reply, name);
    weir_reply_integer(reply, number);
}

void weir_lease_tell(struct reply *reply, const struct fleet_pools *pools, const struct lease_result *result)
{
    const struct lease_terms *terms = &result->terms;
    weir_reply_map(reply, 12);
    tell_number(reply, "epoch", (int64_t)result->epoch);
    tell_number(reply, "units", result->units);
    tell_number(reply, "chunks", result->chunks);
    tell_number(reply, "chunk", pools->child_chunk);
    tell_number(reply, "total", terms->total);
    tell_number(reply, "window_ms", max64(terms->window_ns / WEIR_MS, 1));
    tell_number(reply, "burst", terms->burst);
    tell_number(reply, "starts_in_ms", 0);
    tell_number(reply, "expires_in_ms", max64(result->ends_ns, 0) / WEIR_MS);
    tell_number(reply, "left", result->left);
    tell_number(reply, "retry_after_ms", max64(ms_up(result->retry_ns), 0));
    weir_reply_text(reply, "kind");
    weir_reply_text(reply, terms->kind == LEASE_QUOTA ? "quota" : "bucket");
}

/* ---- what is known of a pool ---- */

struct known_lease {
    bool joined;
    struct weir_fleet_stat stat;
    bool differs;    /* its limit, from the policy's */
    int64_t lost_ns; /* since when; 0: it is not */
    char trouble[160];
};

static void read_pool_member(const struct pool_member *member, int64_t now_ns, struct known_lease *known)
{
    struct weir_limiter *limiter = pool_limiter(member);
    *known = (struct known_lease){.stat.left = -1};
    known->joined = limiter && weir_fleet_stat(limiter, &known->stat);
    if (!known->joined)
        return;
    known->differs = pools_differ(member->pools, &known->stat);
    weir_member_trouble(limiter, known->trouble, sizeof known->trouble);
    for (char *sign = known->trouble; *sign; sign++) /* it shows what somebody answered */
        if ((unsigned char)*sign < ' ' || *sign == ',')
            *sign = ' ';
    int64_t since_ns = atomic_load_explicit(&member->lost_ns, memory_order_relaxed);
    if (known->stat.lost)
        known->lost_ns = since_ns > 0 ? since_ns : now_ns;
}

struct lease_adding {
    int64_t now_ns;
    struct lease_sum *sum;
};

static void add_up(void *arg, struct pool_member *member)
{
    const struct lease_adding *adding = arg;
    struct lease_sum *sum = adding->sum;
    struct known_lease known;
    const struct weir_fleet_stat *stat = &known.stat;
    read_pool_member(member, adding->now_ns, &known);
    sum->pools++;
    sum->connected += stat->connected;
    sum->lost += stat->lost;
    sum->exhausted += stat->exhausted;
    sum->held = sat_add(sum->held, stat->held);
    sum->writes = sat_add(sum->writes, stat->writes);
    sum->orders = sat_add(sum->orders, stat->orders);
    sum->failures = sat_add(sum->failures, stat->failures);
    sum->taken = sat_add(sum->taken, stat->taken);
    sum->spent = sat_add(sum->spent, stat->spent);
    sum->returned = sat_add(sum->returned, stat->returned);
    sum->dropped = sat_add(sum->dropped, stat->dropped);
}

void weir_lease_sum(const struct policy *policy, int64_t now_ns, struct lease_sum *sum)
{
    struct lease_adding adding = {.now_ns = now_ns, .sum = sum};
    *sum = (struct lease_sum){0};
    weir_pools_each(policy->pools, add_up, &adding);
    sum->reachable = sum->connected == sum->pools;
}

/* ---- INFO ---- */

/* "fleet_egress:coordinator=zookeeper://zk1;zk2/weir": fields are parted by commas, so hosts are not. */
static void tell_head(const struct policy *policy, struct buffer *out)
{
    weir_buffer_print(out, "fleet_%s:coordinator=", policy->name);
    for (const char *at = policy->pools->shown; *at; at++)
        buffer_put(out, *at == ',' ? ";" : at, 1);
}

static void tell_root(const struct policy *policy, struct buffer *out)
{
    const struct fleet_pools *pools = policy->pools;
    tell_head(policy, out);
    weir_buffer_print(out, ",keys=%s,chunk=%" PRId64 ",hold_ms=%" PRId64 "\r\n",
                      pools->each ? "each" : "together", pools->child_chunk, pools->hold_ns / WEIR_MS);
}

static void tell_each(const struct policy *policy, int64_t now_ns, struct buffer *out)
{
    struct lease_sum sum;
    weir_lease_sum(policy, now_ns, &sum);
    tell_head(policy, out);
    weir_buffer_print(out,
                      ",keys=each,pools=%" PRId64 ",most=%" PRId64 ",connected=%" PRId64 ",lost=%" PRId64
                      ",exhausted=%" PRId64,
                      sum.pools, policy->pools->most, sum.connected, sum.lost, sum.exhausted);
    weir_buffer_print(out, ",held=%" PRId64 ",orders=%" PRId64 ",writes=%" PRId64 "\r\n", sum.held,
                      sum.orders, sum.writes);
}

static void tell_one(const struct policy *policy, int64_t now_ns, struct buffer *out)
{
    struct known_lease known;
    read_pool_member(policy->pools->one, now_ns, &known);
    const struct weir_fleet_stat *stat = &known.stat;
    tell_head(policy, out);
    weir_buffer_print(
        out, ",keys=together,joined=%d,connected=%d,lost=%d,lost_for_ms=%" PRId64 ",sharing=%d,exhausted=%d",
        known.joined, stat->connected, stat->lost, known.lost_ns > 0 ? (now_ns - known.lost_ns) / WEIR_MS : 0,
        stat->sharing, stat->exhausted);
    weir_buffer_print(out,
                      ",epoch=%" PRIu64 ",total=%" PRId64 ",differs=%d,left=%" PRId64 ",held=%" PRId64
                      ",chunk=%" PRId64 ",ends_in_ms=%" PRId64,
                      stat->epoch, stat->total, known.differs, stat->left, stat->held, stat->chunk,
                      max64(stat->ends_in_ns, 0) / WEIR_MS);
    weir_buffer_print(out,
                      ",taken=%" PRId64 ",spent=%" PRId64 ",returned=%" PRId64 ",dropped=%" PRId64
                      ",orders=%" PRId64 ",writes=%" PRId64 ",failures=%" PRId64 ",round_us=%" PRId64
                      ",trouble=%s\r\n",
                      stat->taken, stat->spent, stat->returned, stat->dropped, stat->orders, stat->writes,
                      stat->failures, stat->round_ns / 1000, known.trouble);
}

void weir_info_fleet(struct worker *worker, const struct user *user, struct buffer *out)
{
    const struct snapshot *snapshot = worker->snapshot;
    for (size_t i = 0; i < snapshot->policy_count; i++) {
        const struct policy *policy = snapshot->policies[i];
        if (!policy->pools || !weir_user_may_policy(user, (struct slice){policy->name, strlen(policy->name)}))
            continue;
        if (policy->pools->local)
            tell_root(policy, out);
        else if (policy->pools->each)
            tell_each(policy, worker->now_ns, out);
        else
            tell_one(policy, worker->now_ns, out);
    }
}

/* ---- WEIR.EXPLAIN ---- */

static bool look_at_pair(struct worker *worker, const struct pair *pair, struct known_lease *known)
{
    const struct policy *policy = pair->policy;
    uint64_t hash = table_hash(policy->main->table, pair->key.bytes, pair->key.len);
    struct pool_member *member = weir_pools_enter(policy->pools, pair->key, hash, worker->now_ns, false);
    *known = (struct known_lease){.stat.left = -1};
    if (member)
        read_pool_member(member, worker->now_ns, known);
    weir_pools_leave(member);
    return member != NULL;
}

void weir_explain_fleet(struct worker *worker, const struct pair *pair, struct buffer *out)
{
    const struct fleet_pools *pools = pair->policy->pools;
    struct known_lease known;
    char held[HUMANIZE_MAX], left[HUMANIZE_MAX], time[HUMANIZE_MAX], limit[POOLS_LIMIT_MAX];
    if (pools->local) {
        weir_buffer_print(out, "  root of a fleet: others lease chunks of %s (WEIR.LEASE)\n",
                          weir_humanize_number(pools->child_chunk, held));
        return;
    }
    bool there = look_at_pair(worker, pair, &known);
    weir_buffer_print(out, "  leased from %s: ", pools->shown);
    if (!there || !known.joined) {
        weir_buffer_print(out, "not joined yet\n");
        return;
    }
    const struct weir_fleet_stat *stat = &known.stat;
    weir_buffer_print(out, "%s held here", weir_humanize_number(stat->held, held));
    if (stat->ends_in_ns > 0)
        weir_buffer_print(out, " for another %s",
                          weir_humanize_duration(stat->ends_in_ns, HUMANIZE_UP, time));
    if (stat->left >= 0)
        weir_buffer_print(out, ", %s left in the pool", weir_humanize_number(stat->left, left));
    weir_buffer_print(out, "%s\n", stat->exhausted ? ", which is used up" : "");
    if (known.differs)
        weir_buffer_print(
            out,
            "  the pool has another limit than this policy, and that holds: %s; weir quota set changes "
            "it\n",
            weir_pools_limit(stat, limit));
    if (stat->lost)
        weir_buffer_print(out, "  the coordinator is lost%s%s%s\n", known.trouble[0] ? ": " : "",
                          known.trouble, stat->sharing ? "; this server's own share passes" : "");
}

/* A text without signs that JSON minds. */
static void put_plain(struct buffer *out, const char *text)
{
    buffer_put(out, "\"", 1);
    for (; *text; text++)
        buffer_put(out, *text == '"' || *text == '\\' || (unsigned char)*text < ' ' ? " " : text, 1);
    buffer_put(out, "\"", 1);
}

void weir_explain_fleet_json(struct worker *worker, const struct pair *pair, struct buffer *out)
{
    const struct fleet_pools *pools = pair->policy->pools;
    struct known_lease known;
    weir_buffer_print(out, ",\"fleet\":{\"coordinator\":");
    put_plain(out, pools->shown);
    if (!pools->local) {
        (void)look_at_pair(worker, pair, &known);
        const struct weir_fleet_stat *stat = &known.stat;
        weir_buffer_print(out, ",\"joined\":%s,\"connected\":%s,\"lost\":%s,\"sharing\":%s,\"exhausted\":%s",
                          known.joined ? "true" : "false", stat->connected ? "true" : "false",
                          stat->lost ? "true" : "false", stat->sharing ? "true" : "false",
                          stat->exhausted ? "true" : "false");
        weir_buffer_print(out,
                          ",\"epoch\":%" PRIu64 ",\"total\":%" PRId64 ",\"differs\":%s,\"held\":%" PRId64
                          ",\"left\":%" PRId64 ",\"ends_in_ms\":%" PRId64 ",\"trouble\":",
                          stat->epoch, stat->total, known.differs ? "true" : "false", stat->held, stat->left,
                          max64(stat->ends_in_ns, 0) / WEIR_MS);
        put_plain(out, known.trouble);
    }
    weir_buffer_print(out, "}");
}

/* ---- WEIR.POLICY ---- */

const char *weir_fleet_text(const struct policy *policy, char text[static FLEET_TEXT_MAX])
{
    const struct fleet_pools *pools = policy->pools;
    text[0] = '\0';
    if (pools)
        (void)snprintf(text, FLEET_TEXT_MAX, "%s %s keys=%s nodes=%" PRId64 " chunk=%" PRId64 " on_loss=%s",
                       pools->shown, pools->limits, pools->each ? "each" : "together",
                       max64(pools->options.nodes, 1), pools->terms.chunk,
                       pools->options.on_loss == WEIR_FLEET_SHARE ? "share" : "refuse");
    return text;
}
