/* SPDX-License-Identifier: MIT */
/*
 * weir quota: totals of a fleet, where a coordinator keeps them: create, show, list, set, watch, delete.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/commands/quota.h"
#include "cli/suggest.h"

static const char help[] =
    "usage: weir quota create NAME LIMIT [--nodes N] [--base N]\n"
    "       weir quota show | watch | delete NAME\n"
    "       weir quota set NAME [LIMIT] [--nodes N] [--base N]\n"
    "       weir quota list\n"
    "Totals that many machines share, kept by a coordinator.\n"
    "\n"
    "  -c, --coordinator URL  zookeeper://host,host/path, redis://host[/db],\n"
    "                         redis+cluster://host,host or weir://host\n"
    "                         (default: WEIR_COORDINATOR in the environment)\n"
    "      --nodes N          create, set: so many machines use it, as far as is known\n"
    "      --base N           create, set: units of a chunk; a hundredth of the total for\n"
    "                         each machine, if you do not say it\n"
    "      --count N          watch: so many lines, then end\n"
    "      --yes              delete: it is meant\n"
    "      --json             show, list, watch: JSON on standard output\n"
    "  -h, --help             this text\n"
    "\n"
    "A LIMIT is a total for each window, 50M/m, or a bucket of the whole fleet, 10k/s\n"
    "burst=20k. create prints what it costs, and refuses what cannot work. A change holds\n"
    "from the next window on, on every machine. Exit status: 0; 1 if there is no such name,\n"
    "or another one of it already; 2 on an error.\n"
    "\n"
    "Examples\n"
    "  weir quota create egress 50M/m --nodes 500 -c zookeeper://zk1,zk2,zk3/weir\n"
    "  export WEIR_COORDINATOR=redis://127.0.0.1\n"
    "  weir quota set egress 60M/m\n"
    "  weir quota show egress --json | jq .left\n";

/* ---- words ---- */

static const struct quota_subcommand {
    const char *name;
    int (*run)(const struct quota_job *job);
    bool named, limited; /* a NAME must, a LIMIT may follow */
    const char *how;
} verbs[] = {{"create", quota_create, true, true, "create NAME LIMIT, as in: weir quota create egress 50M/m"},
             {"show", quota_show, true, false, "show NAME"},
             {"list", quota_list, false, false, "list"},
             {"set", quota_set, true, true, "set NAME [LIMIT] [--nodes N] [--base N]"},
             {"watch", quota_watch, true, false, "watch NAME"},
             {"delete", quota_delete, true, false, "delete NAME --yes"}};
#define VERBS (sizeof verbs / sizeof verbs[0])

static const struct quota_subcommand *find_quota_subcommand(const char *word)
{
    for (size_t i = 0; i < VERBS; i++)
        if (strcmp(verbs[i].name, word) == 0)
            return &verbs[i];
    struct suggestion suggestion;
    suggest_init(&suggestion, word, strlen(word));
    for (size_t i = 0; i < VERBS; i++)
        suggest_try(&suggestion, verbs[i].name);
    args_complain("quota", "unknown word", word);
    if (suggest_found(&suggestion))
        fprintf(stderr, "; did you mean %s?\n", suggest_found(&suggestion));
    else
        fputs("; write create, show, list, set, watch or delete\n", stderr);
    return NULL;
}

/* An option that does nothing here was meant for something else. */
static bool quota_options_fit(const char *verb, const struct quota_options *options)
{
    bool makes = strcmp(verb, "create") == 0 || strcmp(verb, "set") == 0,
         watches = strcmp(verb, "watch") == 0;
    bool shows = watches || strcmp(verb, "show") == 0 || strcmp(verb, "list") == 0;
    const char *wrong = options->nodes && !makes                      ? "--nodes goes with create and set"
                        : options->base && !makes                     ? "--base goes with create and set"
                        : options->count && !watches                  ? "--count goes with watch"
                        : options->yes && strcmp(verb, "delete") != 0 ? "--yes goes with delete"
                        : options->json && !shows ? "--json goes with show, list and watch"
                                                  : NULL;
    return !wrong || (quota_fail(wrong), false);
}

/* The shell may have made several words of a limit. */
static bool read_quota_words(struct quota_job *job, const struct quota_subcommand *verb, char **words,
                             int count)
{
    struct text text;
    int least = (verb->named ? 1 : 0) + (verb->limited && strcmp(verb->name, "create") == 0);
    if (count < least || (!verb->limited && count > least)) {
        fprintf(stderr, "weir quota: write: weir quota %s\n", verb->how);
        return false;
    }
    job->name = verb->named ? words[0] : NULL;
    weir_text_init(&text, job->limit, sizeof job->limit);
    for (int i = 1; i < count; i++)
        weir_text_print(&text, "%s%s", i > 1 ? " " : "", words[i]);
    return text.len < sizeof job->limit || (quota_fail("the limit is too long"), false);
}

static bool read_quota_url(struct quota_job *job, struct quota_options *options)
{
    struct weir_error err;
    if (!options->url)
        options->url = getenv("WEIR_COORDINATOR");
    if (!options->url || !options->url[0])
        return quota_fail(
                   "where is the coordinator? Add -c zookeeper://zk1,zk2,zk3/weir or -c redis://host, or set "
                   "WEIR_COORDINATOR"),
               false;
    if (!weir_fleet_url_read(&job->url, options->url, &err) || !weir_coordinator_kind(&job->url, &err))
        return quota_fail(err.text), false;
    if (strcmp(job->url.scheme, "local") == 0)
        return quota_fail("local: is inside of each process: there is nothing to look at from here"), false;
    if (!weir_fleet_options_read(&job->fleet, &job->url, &err))
        return quota_fail(err.text), false;
    return true;
}

static bool read_quota_job(struct quota_job *job, struct quota_options *options,
                           const struct quota_subcommand *verb, char **words, int count)
{
    struct weir_error err;
    job->options = options;
    job->count = INT64_MAX;
    if (!quota_options_fit(verb->name, options) || !read_quota_words(job, verb, words, count) ||
        !read_quota_url(job, options))
        return false;
    if (job->name && !weir_fleet_name_check(job->name, &err))
        return quota_fail(err.text), false;
    return (!options->nodes || args_count("quota", "nodes", options->nodes, &job->fleet.nodes)) &&
           (!options->base || args_count("quota", "base", options->base, &job->fleet.base)) &&
           (!options->count || args_count("quota", "count", options->count, &job->count));
}

int cmd_quota(int argc, char **argv)
{
    struct quota_options options = {0};
    const struct args_option table[] = {
        {"coordinator", 'c', NULL, &options.url}, {"nodes", 0, NULL, &options.nodes},
        {"base", 0, NULL, &options.base},         {"count", 0, NULL, &options.count},
        {"yes", 0, &options.yes, NULL},           {"json", 0, &options.json, NULL},
        {"help", 'h', &options.help, NULL},
    };
    int count = args_read(argc, argv, table, sizeof table / sizeof table[0]);
    if (count < 0)
        return EXIT_ERROR;
    if (options.help) {
        fputs(help, stdout);
        return EXIT_OK;
    }
    if (count == 0)
        return quota_fail(
            "what? write create, show, list, set, watch or delete; weir quota --help tells more");
    const struct quota_subcommand *verb = find_quota_subcommand(argv[1]);
    struct quota_job job = {0};
    return verb && read_quota_job(&job, &options, verb, argv + 2, count - 1) ? verb->run(&job) : EXIT_ERROR;
}
