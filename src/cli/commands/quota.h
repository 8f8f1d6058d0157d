/* SPDX-License-Identifier: MIT */
/*
 * weir quota: what its parts share. A job is what was asked for, read and checked.
 */
#ifndef WEIR_CLI_COMMANDS_QUOTA_H
#define WEIR_CLI_COMMANDS_QUOTA_H

#include "fleet/member.h"

#define QUOTA_TEXT_MAX 512 /* bytes of a limit's text */

struct quota_options {
    const char *url, *nodes, *base, *count;
    bool yes, json, help;
};

struct quota_job {
    const struct quota_options *options;
    const char *name; /* or NULL */
    char limit[QUOTA_TEXT_MAX];
    struct fleet_url url;
    struct weir_fleet_options fleet; /* of the URL and of the command line */
    int64_t count;
};

/* Each gives the exit status. */
int quota_create(const struct quota_job *job);
int quota_set(const struct quota_job *job);
int quota_delete(const struct quota_job *job);
int quota_show(const struct quota_job *job);
int quota_list(const struct quota_job *job);
int quota_watch(const struct quota_job *job);

/* "weir quota: TEXT" on standard error; gives EXIT_ERROR. */
int quota_fail(const char *text);
/* "weir quota: NAME" and the text behind it; gives EXIT_REFUSED. */
int quota_refuse(const char *name, const char *text);
int quota_say_none(const struct quota_job *job); /* there is no such name */

/* Asks, and says what is wrong. */
bool quota_tell(const struct quota_job *job, const struct quota_ask *ask, struct quota_answer *answer);
bool quota_look(const struct quota_job *job, struct quota_answer *answer);

#endif
