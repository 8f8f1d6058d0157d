/* SPDX-License-Identifier: MIT */
/*
 * WEIR.EXPLAIN tells a person, or with JSON a program, how each limit of a key stands; WEIR.TOP who takes, or
 * is refused, most.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/humanize.h"
#include "base/sat.h"
#include "base/text.h"
#include "config/timestamp.h"
#include "service/commands/call.h"
#include "service/engine/decide.h"
#include "service/engine/tiers.h"
#include "service/leases/lease_text.h"
#include "service/policies/freeze.h"

#define TOP_COUNT 10  /* unless told */
#define TOP_MOST  128 /* keys that are told */

/* A key, as it stands. */
struct explain_view {
    struct call *call;
    struct pair pair;
    enum policy_mode mode; /* for this key */
    const char *own_key;   /* of the override, or NULL; a prefix without its '*' */
    size_t own_len;
    bool own_prefix;
    const char *limits, *reason;
    int64_t until_ms;
    struct weir_spec specs[WEIR_LIMITS_MAX];
    struct weir_limit_state states[WEIR_LIMITS_MAX];
    size_t count;
    struct answer answer;              /* to one unit */
    const struct frozen_range *frozen; /* or NULL: it is decided here */
    struct pair tiers[ADDRESS_TIERS_MAX];
    size_t tier_count;             /* with the first one, which is `pair` */
    int64_t next_after_ns, passes; /* of the limits of all tiers */
};

/* ---- looking ---- */

static void find_own_limits(struct explain_view *view, const struct policy_table *ptable)
{
    const struct policy *policy = view->pair.policy;
    const struct policy_override *own = weir_policy_override(policy, view->pair.key);
    view->limits = policy->limits;
    if (own) {
        view->own_key = own->key;
        view->own_len = own->len;
        view->limits = own->limits;
        view->reason = own->reason;
        view->until_ms = own->until_ms;
        return;
    }
    for (size_t i = 0; i < policy->prefix_count; i++)
        if (policy->prefixes[i].ptable == ptable) {
            const struct policy_override *prefix = &policy->prefixes[i];
            view->own_key = prefix->key;
            view->own_len = prefix->len;
            view->own_prefix = true;
            view->limits = prefix->limits;
            view->reason = prefix->reason;
            view->until_ms = prefix->until_ms;
        }
}

/* The limits of one tier. */
static void fill_limits(struct explain_view *view, struct call *call)
{
    const struct worker *worker = call->worker;
    const struct policy *policy = view->pair.policy;
    struct slice key = view->pair.key;
    const struct policy_table *ptable = weir_policy_find_table(policy, key, NULL);
    find_own_limits(view, ptable);
    view->frozen = weir_frozen_by_hash(policy, table_hash(ptable->table, key.bytes, key.len));
    size_t states = policy->leases ? 0
                                   : weir_table_explain_at(ptable->table, worker->now_ns, key.bytes, key.len,
                                                           view->states, WEIR_LIMITS_MAX);
    size_t specs = weir_spec_parse(view->limits, view->specs, WEIR_LIMITS_MAX, NULL);
    view->count = states < specs ? states : specs; /* they differ only while a change is on its way */
    view->next_after_ns = 0;
    view->passes = INT64_MAX;
    for (size_t i = 0; i < view->count; i++) {
        view->next_after_ns = max64(view->next_after_ns, view->states[i].next_after_ns);
        view->passes = min64(view->passes, view->states[i].left);
    }
}

static void fill_tier(struct explain_view *tier, const struct explain_view *view, size_t i)
{
    memset(tier, 0, sizeof *tier);
    tier->pair = view->tiers[i];
    fill_limits(tier, view->call);
}

/* false: it has no such keys. */
static bool fill_view(struct explain_view *view, struct call *call, struct policy *policy, struct slice key)
{
    struct worker *worker = call->worker;
    char shown[72];
    memset(view, 0, sizeof *view);
    view->call = call;
    view->pair = (struct pair){.policy = policy, .key = key, .n = 1};
    if ((policy->pools || policy->address) && !weir_pair_map(&view->pair)) {
        weir_call_error(call, "ERR '%s' is no IP address, and the keys of policy '%s' are: write 192.0.2.7",
                        weir_shown(key, shown), policy->name);
        return false;
    }
    view->mode = weir_policy_mode(worker, policy, pair_said(&view->pair));
    fill_limits(view, call);
    view->tier_count = weir_pair_tiers(worker, &view->pair, view->tiers);
    for (size_t i = 1; i < view->tier_count; i++) {
        struct explain_view tier;
        fill_tier(&tier, view, i);
        view->next_after_ns = max64(view->next_after_ns, tier.next_after_ns);
        view->passes = min64(view->passes, tier.passes);
    }
    weir_decide_peek(worker, view->tiers, view->tier_count, &view->answer);
    return true;
}

/* ---- numbers for people ---- */

static const char *number(int64_t value, char text[static HUMANIZE_MAX])
{
    return value == INT64_MAX ? "any number" : weir_humanize_number(value, text);
}

/* Rounded up: nobody comes too early. Nobody waits by the microsecond, either. */
static const char *duration(int64_t time_ns, char text[static HUMANIZE_MAX])
{
    int64_t step = time_ns < WEIR_SEC ? WEIR_MS : 100 * WEIR_MS;
    return weir_humanize_duration(sat_mul(div_up(time_ns, step), step), HUMANIZE_UP, text);
}

/* ---- text ---- */

static void say_head(const struct explain_view *view, struct buffer *out)
{
    char shown[72], until[TIMESTAMP_MAX];
    weir_buffer_print(out, "policy %s, mode %s, override ", view->pair.policy->name,
                      weir_mode_name(view->mode));
    if (!view->own_key) {
        weir_buffer_print(out, "none\n");
        return;
    }
    weir_buffer_print(out, "%s%s %s", weir_shown((struct slice){view->own_key, view->own_len}, shown),
                      view->own_prefix ? "*" : "", view->limits);
    if (view->until_ms > 0) {
        weir_timestamp_write(view->until_ms, until);
        weir_buffer_print(out, " until %.16sZ", until);
    }
    if (view->reason)
        weir_buffer_print(out, " (%s)",
                          weir_shown((struct slice){view->reason, strlen(view->reason)}, shown));
    weir_buffer_print(out, "\n");
}

/* The columns of a limit. */
struct explain_limit_row {
    char name[WEIR_NAME_MAX + 1], limit[LABEL_MAX], used[HUMANIZE_MAX + 8], left[HUMANIZE_MAX + 8],
        when[HUMANIZE_MAX + 32];
};

static const char *when_words(const struct weir_spec *spec)
{
    switch ((enum weir_algo)spec->algo) {
    case WEIR_FIXED_WINDOW:
    case WEIR_QUOTA:
        return "new window in";
    case WEIR_LEAKY_BUCKET:
        return "empty in";
    case WEIR_WARMUP:
        return "cold again in";
    default:
        return "full again in";
    }
}

static void fill_row(struct explain_limit_row *row, const struct weir_spec *spec,
                     const struct weir_limit_state *state)
{
    struct weir_spec bare = *spec;
    char text[HUMANIZE_MAX], time[HUMANIZE_MAX];
    memset(row, 0, sizeof *row);
    memcpy(row->name, spec->name, sizeof row->name);
    bare.name[0] = '\0';
    (void)weir_spec_format(&bare, 1, row->limit, sizeof row->limit);
    (void)snprintf(row->used, sizeof row->used, "used %s", number(state->used, text));
    (void)snprintf(row->left, sizeof row->left, "left %s", number(state->left, text));
    if (spec->algo == WEIR_BLOCKED || state->reset_after_ns == WEIR_FOREVER)
        (void)snprintf(row->when, sizeof row->when, "%s",
                       spec->algo == WEIR_BLOCKED ? "nothing passes" : "never full again");
    else if (state->reset_after_ns > 0)
        (void)snprintf(row->when, sizeof row->when, "%s %s", when_words(spec),
                       duration(state->reset_after_ns, time));
}

static void widen_column(size_t *width, const char *text)
{
    size_t len = strlen(text);
    if (len > *width)
        *width = len;
}

static void say_rows(const struct explain_view *view, struct buffer *out)
{
    struct explain_limit_row rows[WEIR_LIMITS_MAX];
    size_t name = 0, limit = 0, used = 0, left = 0;
    for (size_t i = 0; i < view->count; i++) {
        fill_row(&rows[i], &view->specs[i], &view->states[i]);
        widen_column(&name, rows[i].name);
        widen_column(&limit, rows[i].limit);
        widen_column(&used, rows[i].used);
        widen_column(&left, rows[i].left);
    }
    for (size_t i = 0; i < view->count; i++) {
        char line[640];
        int len = snprintf(line, sizeof line, "  %-*s%s%-*s   %-*s   %-*s   %s", (int)name, rows[i].name,
                           name > 0 ? "  " : "", (int)limit, rows[i].limit, (int)used, rows[i].used,
                           (int)left, rows[i].left, rows[i].when);
        while (len > 0 && line[len - 1] == ' ')
            len--;
        weir_buffer_print(out, "%.*s\n", len, line);
    }
}

static void say_tiers(const struct explain_view *view, struct buffer *out)
{
    struct explain_view tier;
    for (size_t i = 0; i < view->tier_count; i++) {
        fill_tier(&tier, view, i);
        weir_buffer_print(out, "  %.*s", (int)tier.pair.key.len, tier.pair.key.bytes);
        weir_buffer_print(out, tier.own_key ? ", override\n" : "\n");
        say_rows(&tier, out);
    }
}

/* When one unit would pass; the longest wait of the limits. */
static int64_t next_after(const struct explain_view *view)
{
    return max64(view->answer.retry_after_ns, view->next_after_ns);
}

/* What all limits let pass at once: a verdict tells it of one. */
static int64_t would_pass(const struct explain_view *view)
{
    return view->answer.reason == ANSWER_EXEMPT ? INT64_MAX : min64(view->answer.remaining, view->passes);
}

/* Who let everything pass, and until when. */
static void say_disabled(const struct explain_view *view, struct buffer *out)
{
    char time[HUMANIZE_MAX];
    const struct worker *worker = view->call->worker;
    const struct snapshot *snapshot = worker->snapshot;
    bool all = snapshot->mode_for_all && !worker_is_past(worker, snapshot->all_until_ms);
    int64_t until_ns = worker_end_ns(worker, all ? snapshot->all_until_ms : view->pair.policy->mode_until_ms);
    weir_buffer_print(out, "  everything passes and no take is counted: %s disabled",
                      all ? "all policies are" : "the policy is");
    if (until_ns > worker->now_ns)
        weir_buffer_print(out, " for another %s", duration(until_ns - worker->now_ns, time));
    weir_buffer_print(out, " (WEIR.POLICY MODE %s enforce ends it)\n", all ? "*" : view->pair.policy->name);
}

/* Is there a limit that lets nothing pass? Else it is a debt that no clock runs long enough for. */
static bool is_blocked(const struct explain_view *view)
{
    for (size_t i = 0; i < view->count; i++)
        if (view->specs[i].algo == WEIR_BLOCKED)
            return true;
    return false;
}

static void say_end(const struct explain_view *view, struct buffer *out)
{
    char text[HUMANIZE_MAX], time[HUMANIZE_MAX];
    bool refused = !view->answer.allowed || view->answer.reason == ANSWER_SHADOW;
    int64_t next = next_after(view);
    if (view->frozen && view->frozen->url[0]) {
        weir_buffer_print(out, "  it is not decided here: whoever asks is sent to %s\n", view->frozen->url);
    } else if (view->frozen) {
        weir_buffer_print(out, "  nothing is decided at present: the policy is being loaded, or removed\n");
    } else if (view->mode == MODE_DISABLED) {
        say_disabled(view, out);
    } else if (view->answer.limit < 0) {
        weir_buffer_print(out, "  %s: of the policy has this address: %s\n", view->answer.label,
                          view->answer.reason == ANSWER_EXEMPT ? "everything passes, and nothing is charged"
                          : view->answer.reason == ANSWER_BLOCKED
                              ? "nothing passes"
                              : "nothing passes, on paper: shadow lets it pass");
    } else if (!refused) {
        weir_buffer_print(out, "  nothing is refused at present; %s%s would pass now\n",
                          would_pass(view) == INT64_MAX ? "" : "up to ", number(would_pass(view), text));
    } else {
        weir_buffer_print(out, "  one unit is refused at present by %s", view->answer.label);
        if (view->answer.reason == ANSWER_SHARED)
            weir_buffer_print(out, ", which all keys share that find no room: memory: is used up");
        if (view->mode == MODE_SHADOW)
            weir_buffer_print(out, ", on paper: shadow lets it pass");
        if (next == WEIR_FOREVER && is_blocked(view))
            weir_buffer_print(out, "; waiting does not help\n");
        else if (view->answer.reason == ANSWER_LOST)
            weir_buffer_print(out, "; none passes until the coordinator answers\n");
        else if (next == WEIR_FOREVER)
            weir_buffer_print(out, "; what it owes is never repaid: WEIR.RESET policy key forgets it\n");
        else
            weir_buffer_print(out, "; one would pass in %s\n", duration(next, time));
    }
}

/* ---- JSON ---- */

/* Bytes that are no UTF-8 are shown as U+FFFD. */
static void put_json(struct buffer *out, const char *bytes, size_t len)
{
    buffer_put(out, "\"", 1);
    for (size_t i = 0; i < len;) {
        uint32_t code;
        size_t width = weir_utf8_read(bytes + i, len - i, &code);
        if (width == 0)
            weir_buffer_print(out, "\\ufffd");
        else if (code < ' ')
            weir_buffer_print(out, "\\u%04x", (unsigned)code);
        else {
            if (code == '"' || code == '\\')
                buffer_put(out, "\\", 1);
            buffer_put(out, bytes + i, width);
        }
        i += width > 0 ? width : 1;
    }
    buffer_put(out, "\"", 1);
}

static void put_json_text(struct buffer *out, const char *text)
{
    if (text)
        put_json(out, text, strlen(text));
    else
        weir_buffer_print(out, "null");
}

static void put_override_json(const struct explain_view *view, struct buffer *out)
{
    char until[TIMESTAMP_MAX];
    weir_buffer_print(out, ",\"override\":");
    if (!view->own_key) {
        weir_buffer_print(out, "null");
        return;
    }
    weir_buffer_print(out, "{\"limits\":");
    put_json_text(out, view->limits);
    if (view->until_ms > 0)
        weir_timestamp_write(view->until_ms, until);
    weir_buffer_print(out, ",\"until\":");
    put_json_text(out, view->until_ms > 0 ? until : NULL);
    weir_buffer_print(out, ",\"reason\":");
    put_json_text(out, view->reason);
    weir_buffer_print(out, "}");
}

/* Without a bound: null. */
static void put_units(struct buffer *out, const char *name, int64_t units)
{
    weir_buffer_print(out, units == INT64_MAX ? "\"%s\":null" : "\"%s\":%" PRId64, name, units);
}

static void put_limits_json(const struct explain_view *view, struct buffer *out)
{
    weir_buffer_print(out, ",\"limits\":[");
    for (size_t i = 0; i < view->count; i++) {
        const struct weir_limit_state *state = &view->states[i];
        weir_buffer_print(out, i > 0 ? ",{\"limit\":" : "{\"limit\":");
        put_json_text(out, state->text);
        weir_buffer_print(out, ",");
        put_units(out, "used", state->used);
        weir_buffer_print(out, ",");
        put_units(out, "left", state->left);
        weir_buffer_print(
            out, ",\"next_after_ms\":%" PRId64 ",\"reset_after_ms\":%" PRId64 ",\"refuses\":%s}",
            ms_up(state->next_after_ns), ms_up(state->reset_after_ns), state->refuses ? "true" : "false");
    }
    weir_buffer_print(out, "]");
}

static void put_tiers_json(const struct explain_view *view, struct buffer *out)
{
    struct explain_view tier;
    weir_buffer_print(out, ",\"tiers\":[");
    for (size_t i = 0; i < view->tier_count; i++) {
        fill_tier(&tier, view, i);
        weir_buffer_print(out, i > 0 ? ",{\"key\":" : "{\"key\":");
        put_json(out, tier.pair.key.bytes, tier.pair.key.len);
        weir_buffer_print(out, ",\"policy\":");
        put_json_text(out, tier.pair.policy->name);
        put_override_json(&tier, out);
        put_limits_json(&tier, out);
        weir_buffer_print(out, "}");
    }
    weir_buffer_print(out, "]");
}

static void put_view(const struct explain_view *view, struct buffer *out)
{
    bool refused = !view->answer.allowed || view->answer.reason == ANSWER_SHADOW;
    weir_buffer_print(out, "{\"policy\":");
    put_json_text(out, view->pair.policy->name);
    weir_buffer_print(out, ",\"mode\":\"%s\"", weir_mode_name(view->mode));
    put_override_json(view, out);
    put_limits_json(view, out);
    if (view->tier_count > 1)
        put_tiers_json(view, out);
    weir_buffer_print(out, ",");
    put_units(out, "would_pass", refused || view->frozen ? 0 : would_pass(view));
    if (view->answer.reason == ANSWER_SHARED)
        weir_buffer_print(out, ",\"reason\":\"shared\"");
    else if (view->answer.reason == ANSWER_EXEMPT || view->answer.reason == ANSWER_BLOCKED)
        weir_buffer_print(out, ",\"reason\":\"%s\"",
                          view->answer.reason == ANSWER_EXEMPT ? "exempt" : "blocked");
    if (view->frozen) {
        weir_buffer_print(out, ",\"elsewhere\":");
        put_json_text(out, view->frozen->url);
    }
    if (view->pair.policy->pools)
        weir_explain_fleet_json(view->call->worker, &view->pair, out);
    weir_buffer_print(out, "}");
}

/* ---- the command ---- */

static void run_explain(struct call *call)
{
    struct explain_view view;
    struct buffer text = {.most = 64 * 1024};
    struct policy *policy = call->request->pairs[0].policy;
    bool json = weir_call_word(call, 3, "json");
    if (call->count > 4 || (call->count == 4 && !json)) {
        weir_call_syntax(call, json ? 4 : 3);
        return;
    }
    if (!fill_view(&view, call, policy, call->args[2]))
        return;
    if (json) {
        put_view(&view, &text);
    } else {
        say_head(&view, &text);
        (view.tier_count > 1 ? say_tiers : say_rows)(&view, &text);
        if (policy->pools)
            weir_explain_fleet(call->worker, &view.pair, &text);
        say_end(&view, &text);
    }
    size_t len = buffer_len(&text);
    len -= len > 0 && buffer_bytes(&text)[len - 1] == '\n'; /* whoever prints it ends the line */
    if (text.failed)
        weir_call_error(call, "ERR out of memory");
    else
        weir_reply_verbatim(&call->reply, buffer_bytes(&text), len);
    weir_buffer_free(&text);
}

/* ---- top ---- */

struct top_merge {
    struct weir_top_key keys[TOP_MOST];
    size_t count, most;
};

static void insert_top_key(struct top_merge *list, const struct weir_top_key *key)
{
    size_t at = list->count;
    while (at > 0 && list->keys[at - 1].units < key->units)
        at--;
    if (at == list->most)
        return;
    if (list->count < list->most)
        list->count++;
    memmove(&list->keys[at + 1], &list->keys[at], (list->count - at - 1) * sizeof *key);
    list->keys[at] = *key;
}

static struct slice top_key_name(const struct weir_top_key *key)
{
    size_t most = sizeof key->name - 1;
    return (struct slice){key->name, key->len < most ? key->len : most};
}

/* Who may see some keys only sees those. */
static void add_policy_table(struct call *call, const struct policy_table *ptable, enum weir_top by,
                             struct top_merge *list)
{
    struct weir_top_key keys[TOP_MOST];
    size_t count = weir_table_top_at(ptable->table, call->worker->now_ns, by, keys, TOP_MOST);
    for (size_t i = 0; i < count; i++)
        if (weir_user_may_key(call->user, top_key_name(&keys[i])))
            insert_top_key(list, &keys[i]);
}

static void add_policy_tables(struct call *call, const struct policy *policy, enum weir_top by,
                              struct top_merge *list)
{
    add_policy_table(call, policy->main, by, list);
    for (size_t i = 0; i < policy->prefix_count; i++)
        add_policy_table(call, policy->prefixes[i].ptable, by, list);
}

/* `candidate`: those that the candidate of the policy refuses. */
static bool read_top(struct call *call, enum weir_top *by, bool *candidate, size_t *most)
{
    size_t at = 2;
    int64_t count = TOP_COUNT;
    *candidate = weir_call_word(call, at, "candidate");
    *by = *candidate || weir_call_word(call, at, "refused") ? WEIR_TOP_REFUSED : WEIR_TOP_TAKEN;
    if (*by == WEIR_TOP_REFUSED || weir_call_word(call, at, "taken"))
        at++;
    if (weir_call_word(call, at, "count")) {
        if (!weir_call_integer(call, at + 1, "COUNT", 1, &count))
            return false;
        at += 2;
    }
    if (at < call->count) {
        weir_call_syntax(call, at);
        return false;
    }
    *most = (size_t)min64(count, TOP_MOST);
    return true;
}

/* Of a long key only the beginning is known, which others may share: it ends in dots, and its hash tells it
 * from them, as WEIR.DUMP shows it. */
static void put_top_key(struct call *call, const struct weir_top_key *key)
{
    struct slice name = top_key_name(key);
    char shown[sizeof key->name + 3], id[17];
    bool cut = key->len > name.len;
    memcpy(shown, name.bytes, name.len);
    memcpy(shown + name.len, "...", 3);
    weir_reply_map(&call->reply, cut ? 4 : 2);
    weir_reply_text(&call->reply, "key");
    weir_reply_bulk(&call->reply, shown, name.len + (cut ? 3 : 0));
    weir_reply_field(&call->reply, "units", key->units);
    if (!cut)
        return;
    (void)snprintf(id, sizeof id, "%016" PRIx64, key->id);
    weir_reply_field(&call->reply, "bytes", key->len);
    weir_reply_text_field(&call->reply, "id", id);
}

static void run_top(struct call *call)
{
    enum weir_top by;
    bool candidate;
    struct top_merge list = {.count = 0};
    const struct policy *policy = call->request->pairs[0].policy;
    if (!read_top(call, &by, &candidate, &list.most))
        return;
    if (candidate && !policy->candidate_table) {
        weir_call_error(call, "ERR policy '%s' has no candidate (WEIR.POLICY CANDIDATE %s limits tries some)",
                        policy->name, policy->name);
        return;
    }
    if (candidate) /* it does not stand in for overrides */
        add_policy_table(call, policy->candidate_table, by, &list);
    else
        add_policy_tables(call, policy, by, &list);
    for (size_t i = 1; policy->address && i < policy->address->tier_count; i++)
        add_policy_tables(call, weir_snapshot_tier(call->worker->snapshot, policy, i), by, &list);
    weir_reply_array(&call->reply, list.count);
    for (size_t i = 0; i < list.count; i++)
        put_top_key(call, &list.keys[i]);
}

static const struct arg explain_docs[] = {
    {.name = "policy", .type = ARG_STRING},
    {.name = "key", .type = ARG_KEY},
    {.name = "json", .type = ARG_TOKEN, .token = "JSON", .flags = ARG_OPTIONAL},
    {0},
};
static const struct arg top_by[] = {
    {.name = "taken", .type = ARG_TOKEN, .token = "TAKEN"},
    {.name = "refused", .type = ARG_TOKEN, .token = "REFUSED"},
    {.name = "candidate", .type = ARG_TOKEN, .token = "CANDIDATE"},
    {0},
};
static const struct arg top_docs[] = {
    {.name = "policy", .type = ARG_STRING},
    {.name = "by", .type = ARG_ONEOF, .flags = ARG_OPTIONAL, .parts = top_by},
    {.name = "n", .type = ARG_INTEGER, .token = "COUNT", .flags = ARG_OPTIONAL},
    {0},
};

const struct command weir_commands_explain[] = {
    {COMMAND("weir.explain",
             "Tells how each limit of a key stands: used, left, when it frees; JSON for programs", "weir", -3,
             ENGINE_LOOK_POLICY, run_explain),
     .policy_at = 1, .key_at = 2, .docs = explain_docs, .example = "WEIR.EXPLAIN api user:42"},
    {COMMAND("weir.top",
             "Tells the keys that take most, or are refused most, with units of about the last minute",
             "weir", -2, ENGINE_LOOK_POLICY, run_top),
     .policy_at = 1, .docs = top_docs, .example = "WEIR.TOP api REFUSED COUNT 10"},
    {0},
};
