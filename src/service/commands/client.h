/* SPDX-License-Identifier: MIT */
/*
 * What commands about clients and about commands share.
 */
#ifndef WEIR_SERVICE_COMMANDS_CLIENT_H
#define WEIR_SERVICE_COMMANDS_CLIENT_H

#include "service/commands/command.h"
#include "service/log.h"

#define REDIS_VERSION   "7.4.0" /* whose commands and replies are meant; clients choose features by it */
#define CLIENT_TEXT_MAX 128     /* bytes of a name that a client gives itself or its library */

/* Gives the session a name, "" for none. false: an error was answered, and nothing has changed. */
bool weir_client_set_name(struct call *call, struct slice name);

/* One line of CLIENT LIST, with its line break. By the session's own thread, or while that stands still. */
void weir_client_line(const struct session *session, int64_t now_ns, struct buffer *out);

/* X HELP: the subcommands of X and what each is for. */
void weir_command_help(struct call *call);

/* Does a pattern as of CONFIG GET fit: *, ?, [a-z], \x; whatever the case. One of more than 64 bytes fits
 * nothing. */
bool weir_glob(struct slice pattern, struct slice text);

/* Words `from` to `to` - 1 as one text, as of limits with spaces. false: an error was answered. */
#define LIMITS_TEXT_MAX 4000
bool weir_call_limits(struct call *call, size_t from, size_t to, char *text, size_t size);
/* A time behind FOR: 30m, 2h. false: an error was answered. */
bool weir_call_time(struct call *call, size_t at, int64_t *time_ns);

/* A line of the log about what an operator has changed; who, and from where, stand behind the fields. Empty
 * ones are left out. */
void weir_call_log(const struct call *call, const char *event, const struct log_field *fields, int count);
#define LOG_CHANGE(call, event, ...)                                                                         \
    weir_call_log(call, event, (struct log_field[]){__VA_ARGS__},                                            \
                  (int)(sizeof((struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field)))

/* What INFO says. `sections` are words of the client, none: the usual ones. Policies that the user may not
 * use are left out. */
void weir_info_write(struct worker *worker, const struct user *user, const struct slice *sections,
                     size_t count, struct buffer *out);

/* Its section about the store. */
void weir_info_persistence(const struct worker *worker, struct buffer *out);

/* Keys and room of a policy, overrides of prefixes included; counts, so a read section should not ask for
 * many. */
struct policy_room {
    int64_t keys, capacity;
};
void weir_policy_room(const struct policy *policy, int64_t now_ns, struct policy_room *room);
/* Keys of everything: policies, limits that come with the call, RL.*. */
int64_t weir_keys_all(const struct worker *worker);

/* A policy's own mode at `now_ns`; one that has ended counts no more. */
enum policy_mode weir_policy_stated_mode(const struct worker *worker, const struct policy *policy,
                                         int *percent);

#endif
