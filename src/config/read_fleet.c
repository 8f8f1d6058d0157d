/* SPDX-License-Identifier: MIT */
/*
 * `fleet:` of a policy: where its units come from, and what goes together with that.
 *
 * A root leases units that are spent up to `hold` later, so its bucket is made smaller by what comes in that
 * time: B - R * hold. Then all that is spent in a stretch t, by whomever, is at most B + R * t.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "config/read_fleet.h"
#include "config/values.h"
#include "fleet/member.h"
#include "fleet/options.h"
#include "lease/ticket.h"
#include "spec/spec.h"

#define POOLS       10000
#define WAIT_NS     (50 * WEIR_MS)
#define HOLD_NS     (100 * WEIR_MS)
#define LONG_NS     (3600 * WEIR_SEC) /* no wait for a coordinator is longer */
#define TIER_SHARE  8                 /* of a chunk: what a server leases on of one, unless told */
#define EACH_LEAVE  (50 * WEIR_MS)    /* many pools may be left at once: each for no longer, unless told */
#define HOLD_MIN_NS (2 * WEIR_MS)     /* times in answers are whole milliseconds */

/* ---- the fields ---- */

static void read_fleet_option(struct config_reader *reading, const struct yaml_node *node,
                              const struct config_key *key, void *into)
{
    struct config_fleet *fleet = into;
    const struct fleet_option *option = weir_option_find(key->name, strlen(key->name));
    struct config_key bounded = *key;
    int64_t number = 0;
    bounded.type = option->kind == OPTION_TIME ? KEY_NS : KEY_COUNT;
    bounded.least = option->least;
    bounded.most = option->most;
    if (option->kind == OPTION_WORD)
        number = max64(weir_reading_word(reading, node, key, option->words), 0);
    else if (!weir_reading_number(reading, node, &bounded, &number))
        return;
    weir_option_set(&fleet->options, option, number);
}

static void print_fleet_option(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    const struct config_fleet *fleet = from;
    const struct fleet_option *option = weir_option_find(key->name, strlen(key->name));
    int64_t number = weir_option_get(&fleet->options, option);
    if (number == 0 && option->kind != OPTION_WORD)
        return;
    weir_key_print_name(out, key, indent);
    if (option->kind == OPTION_WORD)
        weir_buffer_print(out, "%s", option->words[number]);
    else if (option->kind == OPTION_TIME)
        weir_key_print_time(out, number);
    else
        weir_buffer_print(out, "%" PRId64, number);
    buffer_put(out, "\n", 1);
}

/* A URL that cannot be read may still hold a password: a complaint shows nothing of it but what is known to
 * be none. */
static void read_coordinator(struct config_reader *reading, const struct yaml_node *node,
                             const struct config_key *key, void *into)
{
    struct config_fleet *fleet = into;
    struct weir_error err;
    struct server_url url;
    if (!weir_reading_is_text(reading, node, key))
        return;
    if (!weir_url_read(&url, node->text, &err) || !weir_coordinator_kind(&url, &err)) {
        weir_reading_wrong(reading, node->place, "coordinator: %s", err.text);
        return;
    }
    fleet->local = strcmp(url.scheme, "local") == 0;
    fleet->secret = url.user[0] || url.password[0];
    fleet->url = weir_reading_copy(reading, node->text, node->len);
    fleet->shown = weir_reading_copy(reading, url.shown, strlen(url.shown));
    weir_secret_wipe(&url, sizeof url);
}

static void print_coordinator(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    const struct config_fleet *fleet = from;
    weir_key_print_name(out, key, indent);
    weir_buffer_print(out, "\"%s\"\n", fleet->shown);
    if (fleet->secret)
        weir_buffer_print(out, "%*s# user and password: (hidden)\n", indent, "");
}

static const char *const pool_words[] = {"together", "each", NULL};
static const char *const fleet_advice[][2] = {
    {"optimistic",
     "a take waits for the coordinator as wait: says, and a larger prefetch: or ready: keeps more "
     "at hand"},
};

/* Those of options.h are in its order. `unreached` is not among them: a server always goes on trying. */
#define AT(MEMBER) .offset = offsetof(struct config_fleet, MEMBER)
#define KEY_OPTION KEY_OWN, .read = read_fleet_option, .print = print_fleet_option
static const struct config_key fleet_keys[] = {
    {"coordinator", "zookeeper://zk1,zk2,zk3/weir, redis://host, weir://host or \"local:\"", KEY_OWN,
     .read = read_coordinator, .print = print_coordinator},
    {"base", "units of a chunk, such as 1000", KEY_OPTION},
    {"nodes", "how many servers there are, such as 500", KEY_OPTION},
    {"on_loss", "refuse or share", KEY_OPTION},
    {"prefetch", "per cent from 1 to 100, such as 20", KEY_OPTION},
    {"above", "per cent from 100 on, such as 200", KEY_OPTION},
    {"rho", "parts per million from 1 to 100000, such as 1000", KEY_OPTION},
    {"return_every", "a time up to 1d, such as 15s", KEY_OPTION},
    {"lost_after", "a time up to 1h, such as 3s", KEY_OPTION},
    {"connect", "a time up to 10m, such as 5s", KEY_OPTION},
    {"answer", "a time up to 10m, such as 2s", KEY_OPTION},
    {"session", "a time up to 1h, such as 10s", KEY_OPTION},
    {"leave", "a time up to 10m, such as 1s", KEY_OPTION},
    {"clock", "trusted or unused", KEY_OPTION},
    {"guard", "a time up to 1d, such as 100ms", KEY_OPTION},
    {"flight", "orders on the way at once, from 1 to 4", KEY_OPTION},
    {"most_held", "units beyond which nothing is prefetched, such as 5000", KEY_OPTION},
    {"ready", "a time up to 1d, such as 10s", KEY_OPTION},
    {"keys", "together or each", KEY_WORD, AT(each), BETWEEN(0, 1), .words = pool_words},
    {"pools", "how many keys may have one at a time, such as 10k", KEY_COUNT, AT(pools), BETWEEN(1, 1000000)},
    {"wait", "a time from 1ms to 60s, such as 50ms, or 0", KEY_NS, AT(wait_ns),
     BETWEEN(WEIR_MS, 60 * WEIR_SEC), .unset = "0"},
    {"hold", "a time from 2ms on, such as 100ms", KEY_NS, AT(hold_ns), BETWEEN(HOLD_MIN_NS, LONG_NS)},
    {"child_chunk", "units of a chunk for those who lease from this server", KEY_COUNT, AT(child_chunk),
     BETWEEN(1, TICKET_TOTAL_MAX)},
};
#undef KEY_OPTION
#undef AT
static const struct config_map fleet_map = {KEY_ARRAY(fleet_keys), KEY_ADVICE(fleet_advice)};

void weir_fleet_print(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    const struct config_policy *policy = from;
    if (!policy->fleet)
        return;
    weir_buffer_print(out, "%*s%s:\n", indent, "", key->name);
    weir_keys_print(out, &fleet_map, policy->fleet, indent + 2, false);
}

void weir_reading_fleet(struct config_reader *reading, const struct yaml_node *node,
                        const struct config_key *key, void *into)
{
    struct config_policy *policy = into;
    (void)key;
    struct config_fleet *fleet = weir_reading_array(reading, 1, sizeof *fleet);
    if (!fleet)
        return;
    policy->fleet = fleet;
    fleet->options.size = sizeof fleet->options;
    fleet->wait_ns = WAIT_NS;
    fleet->place = node->place;
    (void)weir_reading_map(reading, node, "fleet", &fleet_map, fleet);
    if (node->kind == NODE_MAP && !weir_node_find(node, "coordinator"))
        weir_reading_wrong(reading, node->place,
                           "fleet has no coordinator; write coordinator: \"zookeeper://zk1,zk2,zk3/weir\", "
                           "or \"local:\" if this server is the one that others lease from");
}

/* ---- what goes together ---- */

static bool wrong_at(struct config_reader *reading, const struct yaml_node *node, const char *key,
                     const char *message)
{
    const struct yaml_node *found = weir_node_find(node, key);
    if (!found)
        return false;
    weir_reading_wrong(reading, found->key_place, "%s", message);
    return true;
}

static bool has_strangers(struct config_reader *reading, const struct yaml_node *node,
                          const struct config_fleet *fleet)
{
    bool wrong = wrong_at(reading, node, "candidate",
                          "a policy with fleet: has no candidate; try other limits in a policy of their own "
                          "with mode: shadow, and ask both with AND");
    wrong |= wrong_at(reading, node, "overrides",
                      "a policy with fleet: has no overrides; give such keys a policy of their own");
    if (!fleet->local)
        wrong |= wrong_at(reading, node, "keys",
                          "a policy with fleet: counts no keys here; write fleet: {pools: 10k} for the pools "
                          "of keys: each");
    return wrong;
}

/* Its limit, as the language of limits has it. */
static bool read_only_limit(struct config_reader *reading, const struct yaml_node *node,
                            const struct config_policy *policy, struct weir_spec *spec)
{
    struct weir_spec specs[WEIR_LIMITS_MAX];
    const struct yaml_node *limits = weir_node_find(node, "limits");
    size_t count = weir_spec_parse(policy->limits, specs, WEIR_LIMITS_MAX, NULL);
    if (count == 1) {
        *spec = specs[0];
        return true;
    }
    weir_reading_wrong(
        reading, limits ? limits->place : node->place,
        "a policy with fleet: has one limit, and this has %zu; put the others into a policy of "
        "their own and ask both: WEIR.TAKE %s key AND other key",
        count, policy->name ? policy->name : "this");
    return false;
}

/* How long leases of a root's bucket may last, unless it is said: half of what is saved up is left. */
static int64_t usual_hold(const struct lease_terms *terms)
{
    return min64(HOLD_NS, mul_div(terms->burst / 2, terms->window_ns, terms->total));
}

static bool lower_burst(struct config_reader *reading, const struct config_policy *policy,
                        const struct weir_spec *said)
{
    struct config_fleet *fleet = policy->fleet;
    struct weir_spec spec = *said;
    char text[SPEC_TEXT_MAX];
    const struct lease_terms *terms = &fleet->terms;
    int64_t hold = fleet->hold_ns > 0 ? fleet->hold_ns : usual_hold(terms);
    int64_t outside = mul_div_up(hold, terms->total, terms->window_ns);
    if (hold < HOLD_MIN_NS || outside >= terms->burst) {
        weir_reading_wrong(reading, fleet->place,
                           "a burst of %" PRId64 " is too small to be leased for %s: units that come in that "
                           "time must fit below it; write a larger burst= or a shorter hold:",
                           terms->burst, fleet->hold_ns > 0 ? "so long" : "2 ms");
        return false;
    }
    fleet->hold_ns = hold;
    spec.burst = spec.initial = terms->burst - outside;
    size_t len = weir_spec_format(&spec, 1, text, sizeof text);
    if (len == 0 || len >= sizeof text) {
        weir_reading_wrong(reading, fleet->place, "the limit is too long");
        return false;
    }
    fleet->lowered = weir_reading_copy(reading, text, strlen(text));
    fleet->terms.chunk = min64(fleet->terms.chunk, spec.burst);
    return fleet->lowered != NULL;
}

/* Options that stand in the URL count, too, and stand above. */
static bool complete_fleet(struct config_reader *reading, const struct config_policy *policy)
{
    struct config_fleet *fleet = policy->fleet;
    struct server_url url;
    struct weir_error err;
    if (fleet->each && fleet->options.leave_ns == 0)
        fleet->options.leave_ns = EACH_LEAVE;
    bool good = weir_url_read(&url, fleet->url, &err) &&
                weir_fleet_options_read(&fleet->options, &url, &err) &&
                (!policy->name || weir_fleet_name_check(policy->name, &err)) &&
                weir_fleet_terms(policy->limits, &fleet->options, &fleet->terms, &err);
    weir_secret_wipe(&url, sizeof url);
    if (!good)
        weir_reading_wrong(reading, fleet->place, "fleet: %s", err.text);
    return good;
}

void weir_reading_fleet_check(struct config_reader *reading, const struct yaml_node *node,
                              struct config_policy *policy)
{
    struct config_fleet *fleet = policy->fleet;
    struct weir_spec spec;
    if (has_strangers(reading, node, fleet) || !fleet->url || !policy->limits ||
        !read_only_limit(reading, node, policy, &spec) || !complete_fleet(reading, policy))
        return;
    if (fleet->local && fleet->terms.kind == LEASE_BUCKET && !lower_burst(reading, policy, &spec))
        return;
    fleet->pools = !fleet->each ? 0 : fleet->pools > 0 ? fleet->pools : POOLS;
    if (fleet->child_chunk == 0)
        fleet->child_chunk = fleet->local ? fleet->terms.chunk : max64(fleet->terms.chunk / TIER_SHARE, 1);
    if (fleet->child_chunk > fleet->terms.total)
        weir_reading_wrong(reading, fleet->place, "child_chunk is more than the whole limit");
}

/* Of a policy with a pool for each key: is the other's pool that of a key? */
static bool is_key_of(const struct config_policy *each, const struct config_policy *other)
{
    size_t len = strlen(each->name);
    return each->fleet->each && strncmp(other->name, each->name, len) == 0 && other->name[len] == ':';
}

void weir_reading_fleet_twin(struct config_reader *reading, const struct config *config,
                             const struct config_policy *last)
{
    for (const struct config_policy *policy = config->policies; policy < last; policy++) {
        if (!last->name || !last->fleet || !policy->name || !policy->fleet)
            continue;
        bool older = is_key_of(policy, last);
        const struct config_policy *each = older ? policy : last, *other = older ? last : policy;
        if (is_key_of(each, other))
            weir_reading_wrong(
                reading, last->place,
                "the pool of policy '%s' (line %d) would be that of a key of policy '%s' (line "
                "%d), which has keys: each; give one of them another name",
                other->name, other->place.line, each->name, each->place.line);
    }
}

void weir_config_fleet_free(struct config_fleet *fleet)
{
    if (!fleet)
        return;
    if (fleet->url)
        weir_secret_wipe(fleet->url, strlen(fleet->url));
    free(fleet->url);
    free(fleet->shown);
    free(fleet->lowered);
    free(fleet);
}
