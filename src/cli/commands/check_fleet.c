/* SPDX-License-Identifier: MIT */
#include "cli/commands/check_fleet.h"

#include <stdio.h>
#include <string.h>

#include "cli/words.h"
#include "fleet/plan.h"
#include "resp_client/url.h"

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

bool check_fleet(const struct config *config, config_complain *complain, void *arg)
{
    bool good = true;
    for (size_t i = 0; i < config->policy_count; i++) {
        const struct config_policy *policy = &config->policies[i];
        struct fleet_plan plan;
        if (!policy->fleet || !plan_of_config(policy->fleet, &plan) || plan.works)
            continue;
        struct config_complaint complaint = {.file = config->path, .place = policy->fleet->place};
        (void)snprintf(complaint.message, sizeof complaint.message, "policy '%s': %s", policy->name,
                       plan.why);
        complain(arg, &complaint);
        good = false;
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

static int widest_fleet_name(const struct config *config)
{
    size_t width = 8;
    for (size_t i = 0; i < config->policy_count; i++)
        if (config->policies[i].fleet && strlen(config->policies[i].name) > width)
            width = strlen(config->policies[i].name);
    return (int)width;
}

void check_fleet_print(const struct config *config)
{
    bool any = false;
    int width = widest_fleet_name(config);
    for (size_t i = 0; i < config->policy_count; i++) {
        const struct config_policy *policy = &config->policies[i];
        char line[PLAN_TEXT_MAX + 2 * HUMANIZE_MAX];
        struct fleet_plan plan;
        if (!policy->fleet || !plan_of_config(policy->fleet, &plan))
            continue;
        if (!any)
            puts("fleet");
        any = true;
        write_fleet_cost(policy->fleet, &plan, line, sizeof line);
        printf("  %-*s %s\n  %*s %s\n", width, policy->name, line, width, "", plan.lost);
    }
}

void check_fleet_json(const struct config *config, struct json *json)
{
    bool any = false;
    for (size_t i = 0; i < config->policy_count; i++)
        any = any || config->policies[i].fleet;
    if (!any)
        return;
    json_open(json, "fleet", '[', JSON_LINES);
    for (size_t i = 0; i < config->policy_count; i++) {
        const struct config_policy *policy = &config->policies[i];
        char line[PLAN_TEXT_MAX + 2 * HUMANIZE_MAX];
        struct fleet_plan plan;
        if (!policy->fleet || !plan_of_config(policy->fleet, &plan))
            continue;
        write_fleet_cost(policy->fleet, &plan, line, sizeof line);
        json_open(json, NULL, '{', JSON_FLAT);
        json_text(json, "policy", policy->name);
        json_text(json, "coordinator", policy->fleet->shown);
        json_number(json, "nodes", plan.nodes);
        json_number(json, "chunk", plan.chunk);
        json_decimal(json, "unspent_percent", plan.unspent);
        json_number(json, "writes_per_window", plan.writes);
        json_decimal(json, "writes_per_second", plan.writes_second);
        json_number(json, "over", plan.over);
        json_text(json, "text", line);
        json_text(json, "lost", plan.lost);
        json_close(json, '}');
    }
    json_close(json, ']');
}
