/* SPDX-License-Identifier: MIT */
#include "service/http/endpoints.h"

#include "base/text.h"

/* ---- parameters ---- */

#define POLICY                                                                                               \
    {                                                                                                        \
        "policy", PARAM_POLICY, true, .summary = "The name of the policy"                                    \
    }
#define KEY                                                                                                  \
    {                                                                                                        \
        "key", PARAM_KEY, true, .summary = "Who is limited, for example user:42; bytes as key_b64"           \
    }
#define N(REQUIRED)                                                                                          \
    {                                                                                                        \
        "n", PARAM_NUMBER, REQUIRED, .summary = "The number of units"                                        \
    }
#define PAIRS                                                                                                \
    {                                                                                                        \
        "pairs", PARAM_PAIRS,                                                                                \
            .summary = "Several policies and keys, all or none, instead of policy, key and n"                \
    }
#define ID                                                                                                   \
    {                                                                                                        \
        "id", PARAM_TEXT, .token = "ID", .summary = "A request id: a repeat gets the same answer"            \
    }
#define TIMEOUT                                                                                              \
    {                                                                                                        \
        "timeout_ms", PARAM_NUMBER, .token = "TIMEOUT", .summary = "The longest wait, in milliseconds"       \
    }
#define FOR                                                                                                  \
    {                                                                                                        \
        "for", PARAM_TEXT, .token = "FOR", .summary = "How long, for example 30m"                            \
    }

static const struct param take_params[] = {POLICY, KEY, N(false), PAIRS, ID, {0}};
static const struct param peek_params[] = {POLICY, KEY, N(false), {0}};
static const struct param acquire_params[] = {POLICY, KEY, N(false), TIMEOUT, {0}};
static const struct param adjust_params[] = {POLICY, KEY, N(true), ID, {0}};
static const struct param key_params[] = {POLICY, KEY, {0}};
static const struct param policy_params[] = {POLICY, {0}};
static const struct param reserve_params[] = {
    POLICY,
    KEY,
    N(true),
    PAIRS,
    {"ttl_ms", PARAM_NUMBER, .token = "TTL", .summary = "The reservation ends after so many milliseconds"},
    TIMEOUT,
    ID,
    {0}};
static const struct param commit_params[] = {
    {"id", PARAM_TEXT, true, .summary = "The reservation, as reserve has answered"},
    {"used", PARAM_NUMBERS, .summary = "The units really used, one number per pair; without it, all"},
    {0}};
static const struct param cancel_params[] = {
    {"id", PARAM_TEXT, true, .summary = "The reservation, as reserve has answered"}, {0}};
static const struct param top_params[] = {
    POLICY,
    {"by", PARAM_CHOICE, .values = "taken|refused|candidate", .summary = "What the keys are sorted by"},
    {"count", PARAM_NUMBER, .token = "COUNT", .summary = "How many keys"},
    {0}};
static const struct param keys_params[] = {
    POLICY,
    {"cursor", PARAM_TEXT, .token = "CURSOR", .summary = "0, then that of the last answer"},
    {"count", PARAM_NUMBER, .token = "COUNT", .summary = "About how many keys, at most 1000"},
    {0}};
static const struct param policy_set_params[] = {
    POLICY,
    {"limits", PARAM_TEXT, true, .summary = "The limits, for example 100/s burst=20, 5000/h"},
    {"fresh", PARAM_FLAG, .token = "FRESH", .summary = "What was spent is forgotten"},
    {0}};
static const struct param policy_del_params[] = {
    POLICY, {"forget", PARAM_FLAG, .token = "FORGET", .summary = "Its keys are not retired to a file"}, {0}};
static const struct param mode_params[] = {
    POLICY,
    {"mode", PARAM_CHOICE, true, .values = "enforce|shadow|disabled", .summary = "What the policy does"},
    {"percent", PARAM_NUMBER, .token = "PERCENT", .summary = "Enforced for this share of the keys"},
    FOR,
    {0}};
static const struct param candidate_params[] = {
    POLICY, {"limits", PARAM_TEXT, true, .summary = "The limits to try, for example 80/s burst=20"}, {0}};
static const struct param override_params[] = {
    POLICY,
    {"key", PARAM_KEY, true, .summary = "The key, or prefix*"},
    {"limits", PARAM_TEXT, true, .summary = "The limits of this key"},
    FOR,
    {"reason", PARAM_TEXT, .token = "REASON", .summary = "Why, for those who look at it later"},
    {0}};
static const struct param info_params[] = {
    {"section", PARAM_TEXT, .summary = "One section of INFO, for example persistence"}, {0}};
static const struct param no_params[] = {{0}};

/* ---- endpoints ---- */

#define DECIDES (ENDPOINT_DECIDES | ENDPOINT_FULL)

const struct endpoint weir_endpoints[] = {
    {"take",
     HTTP_POST,
     PLACE_NONE,
     DECIDES | ENDPOINT_BATCH,
     {"WEIR.TAKE"},
     take_params,
     "Takes units of a key's limits now, or nothing"},
    {"take",
     HTTP_GET,
     PLACE_KEY,
     DECIDES,
     {"WEIR.TAKE"},
     take_params,
     "Takes units of a key's limits now, or nothing: for curl"},
    {"peek",
     HTTP_POST,
     PLACE_NONE,
     ENDPOINT_FULL | ENDPOINT_BATCH,
     {"WEIR.PEEK"},
     peek_params,
     "Tells what take would answer, and takes nothing"},
    {"peek",
     HTTP_GET,
     PLACE_KEY,
     ENDPOINT_FULL,
     {"WEIR.PEEK"},
     peek_params,
     "Tells what take would answer, and takes nothing"},
    {"acquire",
     HTTP_POST,
     PLACE_NONE,
     DECIDES,
     {"WEIR.ACQUIRE"},
     acquire_params,
     "Takes units and answers when they are due, first come, first served"},
    {"give", HTTP_POST, PLACE_NONE, ENDPOINT_BATCH, {"WEIR.GIVE"}, adjust_params, "Returns unused units"},
    {"charge",
     HTTP_POST,
     PLACE_NONE,
     ENDPOINT_BATCH,
     {"WEIR.CHARGE"},
     adjust_params,
     "Counts units that were used already, even into debt"},
    {"reset", HTTP_POST, PLACE_NONE, ENDPOINT_BATCH, {"WEIR.RESET"}, key_params, "Resets a key to idle"},
    {"reserve",
     HTTP_POST,
     PLACE_NONE,
     DECIDES | ENDPOINT_BATCH,
     {"WEIR.RESERVE"},
     reserve_params,
     "Takes units that may still be returned, until the reservation ends"},
    {"commit",
     HTTP_POST,
     PLACE_NONE,
     ENDPOINT_BATCH,
     {"WEIR.COMMIT"},
     commit_params,
     "Settles a reservation with what was really used"},
    {"cancel",
     HTTP_POST,
     PLACE_NONE,
     ENDPOINT_BATCH,
     {"WEIR.CANCEL"},
     cancel_params,
     "Returns all units of a reservation"},
    {"explain",
     HTTP_POST,
     PLACE_NONE,
     ENDPOINT_TEXT,
     {"WEIR.EXPLAIN"},
     key_params,
     "Tells how each limit of a key stands"},
    {"explain",
     HTTP_GET,
     PLACE_KEY,
     ENDPOINT_TEXT,
     {"WEIR.EXPLAIN"},
     key_params,
     "Tells how each limit of a key stands"},
    {"top", HTTP_GET, PLACE_POLICY, 0, {"WEIR.TOP"}, top_params, "Keys that take most, or are refused most"},
    {"keys",
     HTTP_GET,
     PLACE_POLICY,
     0,
     {"WEIR.KEYS"},
     keys_params,
     "Keys that have spent something, a page at a time"},
    {"policies", HTTP_GET, PLACE_NONE, 0, {"WEIR.POLICY", "LIST"}, no_params, "All policies"},
    {"policies", HTTP_GET, PLACE_POLICY, 0, {"WEIR.POLICY", "SHOW"}, policy_params, "One policy"},
    {"policies",
     HTTP_PUT,
     PLACE_POLICY,
     ENDPOINT_ADMIN,
     {"WEIR.POLICY", "SET"},
     policy_set_params,
     "Makes a policy, or changes its limits"},
    {"policies",
     HTTP_DELETE,
     PLACE_POLICY,
     ENDPOINT_ADMIN,
     {"WEIR.POLICY", "DEL"},
     policy_del_params,
     "Removes a policy"},
    {"mode",
     HTTP_PUT,
     PLACE_POLICY,
     ENDPOINT_ADMIN,
     {"WEIR.POLICY", "MODE"},
     mode_params,
     "Enforces a policy, only counts, or lets all pass; * is all policies"},
    {"candidate",
     HTTP_PUT,
     PLACE_POLICY,
     ENDPOINT_ADMIN,
     {"WEIR.POLICY", "CANDIDATE"},
     candidate_params,
     "Tries other limits: counts what they would refuse"},
    {"candidate",
     HTTP_DELETE,
     PLACE_POLICY,
     ENDPOINT_ADMIN | ENDPOINT_NONE,
     {"WEIR.POLICY", "CANDIDATE"},
     policy_params,
     "Ends the trial of other limits"},
    {"overrides",
     HTTP_GET,
     PLACE_POLICY,
     0,
     {"WEIR.OVERRIDE", "LIST"},
     policy_params,
     "The overrides of a policy"},
    {"overrides",
     HTTP_PUT,
     PLACE_KEY,
     ENDPOINT_ADMIN,
     {"WEIR.OVERRIDE", "SET"},
     override_params,
     "Sets other limits for one key, or for prefix*"},
    {"overrides",
     HTTP_DELETE,
     PLACE_KEY,
     ENDPOINT_ADMIN,
     {"WEIR.OVERRIDE", "DEL"},
     key_params,
     "Removes an override"},
    {"info",
     HTTP_GET,
     PLACE_NONE,
     ENDPOINT_INFO | ENDPOINT_ADMIN,
     {"INFO"},
     info_params,
     "What the server says about itself"},
    {"reload", HTTP_POST, PLACE_NONE, ENDPOINT_ADMIN, {"WEIR.RELOAD"}, no_params, "Reads weir.yaml again"},
    {0}};

/* ---- finding one ---- */

/* Splits "name/policy/key/of/slashes". */
static enum endpoint_place split_path(struct slice path, struct slice *name, struct slice *policy,
                                      struct slice *key)
{
    const char *end = path.bytes + path.len, *slash = memchr(path.bytes, '/', path.len);
    *name = (struct slice){path.bytes, slash ? (size_t)(slash - path.bytes) : path.len};
    if (!slash)
        return PLACE_NONE;
    const char *second = memchr(slash + 1, '/', (size_t)(end - slash - 1));
    *policy = (struct slice){slash + 1, (size_t)((second ? second : end) - slash - 1)};
    if (!second)
        return PLACE_POLICY;
    *key = (struct slice){second + 1, (size_t)(end - second - 1)};
    return PLACE_KEY;
}

const struct endpoint *weir_endpoint_find(struct slice path, enum http_method method, struct slice *policy,
                                          struct slice *key, unsigned *allowed)
{
    struct slice name;
    enum endpoint_place place = split_path(path, &name, policy, key);
    *allowed = 0;
    for (const struct endpoint *row = weir_endpoints; row->name; row++)
        if (row->place == place && slice_is(name, row->name)) {
            if (row->method == method)
                return row;
            *allowed |= row->method;
        }
    return NULL;
}

const struct endpoint *weir_endpoint_in_batch(struct slice name)
{
    for (const struct endpoint *row = weir_endpoints; row->name; row++)
        if (row->flags & ENDPOINT_BATCH && slice_is(name, row->name))
            return row;
    return NULL;
}

const char *weir_endpoint_near(struct slice path)
{
    struct slice name, policy, key;
    (void)split_path(path, &name, &policy, &key);
    struct nearest nearest = weir_nearest(name.bytes, name.len);
    for (const struct endpoint *row = weir_endpoints; row->name; row++)
        (void)weir_nearest_try(&nearest, row->name);
    return nearest.found;
}
