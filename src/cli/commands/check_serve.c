/* SPDX-License-Identifier: MIT */
#include "cli/commands/check_serve.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/sat.h"
#include "base/text.h"
#include "cli/commands/check.h"
#include "cli/words.h"
#include "fleet/plan.h"
#include "server/transport.h"
#include "service/policies/edit.h"
#include "table/persist/persist.h"

#define NOTE_MAX 600

/* ---- what weir serve would refuse ---- */

bool check_serve(void)
{
    struct weir_error err = {0};
    struct config_place place = {0, 0};
    const struct service_options options = {.workers = 1, .no_store = true, .wrong_at = &place};
    struct service *service = weir_service_new(check.config, &options, &err);
    if (!service)
        return check_mistake(place, "%s", err.text);
    weir_service_free(service);
    return true;
}

/* ---- fleets ---- */

/* A root is asked as a weir server by those who lease from it, and they say what happens without it. */
static bool plan_of_config(const struct config_fleet *fleet, struct fleet_plan *plan)
{
    struct server_url url;
    if (!weir_url_read(&url, fleet->url, NULL))
        return false;
    if (fleet->local)
        (void)snprintf(url.scheme, sizeof url.scheme, "weir");
    weir_fleet_plan_at(plan, &fleet->terms, &url, &fleet->options);
    if (fleet->local)
        (void)snprintf(plan->lost, sizeof plan->lost,
                       "this server is the coordinator: who leases from it says what holds without it");
    return true;
}

bool check_fleet(void)
{
    bool good = true;
    for (size_t i = 0; i < check.config->policy_count; i++) {
        const struct config_policy *policy = &check.config->policies[i];
        struct fleet_plan plan;
        if (policy->fleet && plan_of_config(policy->fleet, &plan) && !plan.works)
            good = check_mistake(policy->fleet->place, "policy '%s': %s", policy->name, plan.why);
    }
    return good;
}

/* "500 nodes: chunk ...", for each key if each has a pool of its own. */
static void write_fleet_cost(const struct config_fleet *fleet, const struct fleet_plan *plan, char *line,
                             size_t size)
{
    char nodes[HUMANIZE_MAX];
    (void)snprintf(line, size, "%s node%s%s: %s", words_number(plan->nodes, nodes),
                   plan->nodes == 1 ? "" : "s", fleet->each ? ", for each key in use" : "", plan->cost);
}

static void print_fleet_json(const struct config_policy *policy, const struct fleet_plan *plan,
                             const char *line)
{
    struct json *json = &check.document;
    json_open(json, NULL, '{', JSON_FLAT);
    json_text(json, "policy", policy->name);
    json_text(json, "coordinator", policy->fleet->shown);
    json_number(json, "nodes", plan->nodes);
    json_number(json, "chunk", plan->chunk);
    json_decimal(json, "unspent_percent", plan->unspent);
    json_number(json, "writes_per_window", plan->writes);
    json_decimal(json, "writes_per_second", plan->writes_second);
    json_number(json, "over", plan->over);
    json_text(json, "text", line);
    json_text(json, "lost", plan->lost);
    json_close(json, '}');
}

void check_fleet_print(void)
{
    const struct config *config = check.config;
    int width = 0;
    for (size_t i = 0; i < config->policy_count; i++)
        if (config->policies[i].fleet)
            width = (int)max64(max64((int64_t)strlen(config->policies[i].name), width), 8);
    if (width == 0)
        return;
    if (ask_options.json)
        json_open(&check.document, "fleet", '[', JSON_LINES);
    else
        puts("fleet");
    for (size_t i = 0; i < config->policy_count; i++) {
        const struct config_policy *policy = &config->policies[i];
        char line[PLAN_TEXT_MAX + 2 * HUMANIZE_MAX];
        struct fleet_plan plan;
        if (!policy->fleet || !plan_of_config(policy->fleet, &plan))
            continue;
        write_fleet_cost(policy->fleet, &plan, line, sizeof line);
        if (ask_options.json)
            print_fleet_json(policy, &plan, line);
        else
            printf("  %-*s %s\n  %*s %s\n", width, policy->name, line, width, "", plan.lost);
    }
    if (ask_options.json)
        json_close(&check.document, ']');
}

/* ---- where it listens ---- */

static bool is_for_this_machine(const char *address)
{
    static const char *const fronts[] = {"127.", "localhost:", "[::1]:"};
    for (size_t i = 0; i < sizeof fronts / sizeof fronts[0]; i++)
        if (strncmp(address, fronts[i], strlen(fronts[i])) == 0)
            return true;
    return false;
}

static const struct config_user *find_config_user(const struct config *config, const char *name)
{
    for (size_t i = 0; i < config->user_count; i++)
        if (strcmp(config->users[i].name, name) == 0)
            return &config->users[i];
    return NULL;
}

/* Also without a listener for it: a reload would refuse the file. */
bool check_tls(void)
{
    const struct config *config = check.config;
    struct config_place place = {0, 0};
    struct tls_context *context;
    struct weir_error err = {0};
    struct stat about;
    bool wanted = weir_config_listen(config, LISTEN_RESP_TLS) || weir_config_listen(config, LISTEN_HTTPS);
    if (!weir_transport_certificate(config, &context, &err))
        return check_mistake(place, "%s", err.text);
    if (!context && wanted)
        return check_mistake(place, "resp_tls and https need a certificate: tls: {cert: FILE, key: FILE}");
    if (context && stat(config->tls_key, &about) == 0 && about.st_mode & S_IROTH)
        check_note("tls: key %.200s can be read by every user of this machine; chmod 640 it, or 600",
                   config->tls_key);
    weir_tls_context_free(context);
    return true;
}

static void note_listeners(const struct config *config)
{
    const struct config_user *user = find_config_user(config, "default");
    bool open = config->user_count == 0 || (user && !user->has_password), anywhere = false;
    for (int kind = 0; kind < LISTENER_KINDS; kind++) {
        const char *address = weir_config_listen(config, (enum listener_kind)kind);
        anywhere |= address != NULL;
        if (!address || !open || kind == LISTEN_UNIX || is_for_this_machine(address))
            continue;
        check_note("%.200s can be reached from elsewhere and there is no password: weir serve needs "
                   "--password-file FILE, or --no-password",
                   address);
    }
    if (!anywhere)
        check_note("nowhere to listen: weir serve needs --resp, --http or --unix, or sockets of systemd");
}

/* ---- what is kept ---- */

static void note_floor(const struct config_policy *policy)
{
    char means[FLOOR_TEXT_MAX];
    weir_limits_floor(policy->limits, means);
    check_note("line %d: policy '%s' has recover: floor: %s", policy->place.line, policy->name, means);
}

static void note_kept(const struct config *config)
{
    for (size_t i = 0; i < config->policy_count; i++)
        if (config->policies[i].settings.recover == TABLE_FLOOR)
            note_floor(&config->policies[i]);
}

/* ---- users ---- */

static bool is_policy(const struct config *config, const char *name)
{
    for (size_t i = 0; i < config->policy_count; i++)
        if (strcmp(config->policies[i].name, name) == 0)
            return true;
    return false;
}

static void note_rights(const struct config *config, const struct config_user *user)
{
    for (size_t i = 0; i < user->policies.count; i++) {
        if (is_policy(config, user->policies.texts[i]))
            continue;
        check_note("line %d: user '%s' may use policy '%s', which the file does not name", user->place.line,
                   user->name, user->policies.texts[i]);
    }
}

static void note_open_file(const struct config_user *user)
{
    if (!user->open_file)
        return;
    check_note("line %d: user '%s': %.200s can be read by every user of this machine; chmod "
               "640 it, or 600",
               user->place.line, user->name, user->open_file);
}

static bool may_anybody(const struct config *config, unsigned class)
{
    for (size_t i = 0; i < config->user_count; i++)
        if (config->users[i].may & class)
            return true;
    return false;
}

/* Who does not log in: most callers, where there were no users before. */
static void note_strangers(const struct config *config)
{
    const struct config_user *user = find_config_user(config, "default");
    bool locked = !user || user->has_password;
    if (!locked && (user->may & MAY_TAKE) && (user->may & MAY_ADMIN))
        return;
    if (locked)
        check_note("who does not log in may do nothing; callers need a user and its password in their URL");
    else if (!(user->may & (MAY_TAKE | MAY_ADMIN)))
        check_note("who does not log in may neither take nor reload; callers and weir reload need a user and "
                   "its password in their URL");
    else
        check_note("%s", user->may & MAY_TAKE
                             ? "who does not log in may not reload; weir reload needs a user in -s"
                             : "who does not log in may not take; callers need a user in their URL");
}

/* "users afterwards: default may look; app may look, take; ..." */
static void note_all_users(const struct config *config)
{
    static const char *const classes[] = {"look", "take", "adjust", "admin"};
    char line[NOTE_MAX];
    struct text text;
    weir_text_init(&text, line, sizeof line);
    weir_text_print(&text, "users afterwards (a server does not tell who they are now):");
    for (size_t i = 0; i < config->user_count; i++) {
        const struct config_user *user = &config->users[i];
        const char *before = " ";
        if (text.len > NOTE_MAX - 160) {
            weir_text_print(&text, "; and %zu more", config->user_count - i);
            break;
        }
        weir_text_print(&text, "%s %s may", i > 0 ? ";" : "", user->name);
        for (int j = 0; user->may != MAY_ALL && j < 4; j++)
            if (user->may & 1u << j) {
                weir_text_print(&text, "%s%s", before, classes[j]);
                before = ", ";
            }
        weir_text_print(&text, "%s", user->may == MAY_ALL ? " do all" : "");
    }
    check_note("%s", line);
}

static void note_users(const struct config *config)
{
    if (config->user_count == 0)
        return;
    note_all_users(config);
    for (size_t i = 0; i < config->user_count; i++) {
        note_rights(config, &config->users[i]);
        note_open_file(&config->users[i]);
    }
    if (!may_anybody(config, MAY_TAKE))
        check_note("NOBODY MAY TAKE: no user has may: take, so every caller would get an error");
    if (!may_anybody(config, MAY_ADMIN))
        check_note(
            "NOBODY MAY RELOAD: no user has may: admin, so only SIGHUP or a restart could change this");
    note_strangers(config);
}

/* ---- memory ---- */

static void note_memory(const struct config *config)
{
    char digits[32] = "";
    const struct resp_value *value = ask_quietly(check.other, "CONFIG", "GET", "maxmemory", NULL);
    const struct resp_value *has =
        value && value->type == RESP_MAP ? weir_resp_get(value, "maxmemory") : NULL;
    if (!has || has->type != RESP_BULK || has->text.len >= sizeof digits)
        return;
    memcpy(digits, has->text.bytes, has->text.len);
    int64_t bytes = strtoll(digits, NULL, 10);
    if (bytes == config->memory)
        return;
    check_note("memory is %" PRId64 " MiB here and %" PRId64 " MiB there; it counts from the next start on",
               config->memory >> 20, bytes >> 20);
}

void check_notes(void)
{
    const struct config *config = check.config;
    if (config->policy_count == 0 && !config->no_policies)
        check_note("it names no policies; if that is meant, write policies: []");
    note_listeners(config);
    note_kept(config);
    note_users(config);
    note_memory(config);
}
