/* SPDX-License-Identifier: MIT */
#include "cli/commands/check_serve.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/ask.h"
#include "service/policies/edit.h"
#include "table/persist/persist.h"

#define NOTE_MAX 600

/* ---- what weir serve would refuse ---- */

bool check_serve(const struct config *config, config_complain *complain, void *arg)
{
    struct weir_error err = {0};
    struct config_complaint complaint = {.file = config->path};
    const struct service_options options = {.workers = 1, .no_store = true, .wrong_at = &complaint.place};
    struct service *service = weir_service_new(config, &options, &err);
    if (!service) {
        (void)snprintf(complaint.message, sizeof complaint.message, "%s", err.text);
        complain(arg, &complaint);
    }
    weir_service_free(service);
    return service != NULL;
}

/* ---- where it listens ---- */

static bool is_for_this_machine(const char *address)
{
    static const char *const fronts[] = {"127.", "localhost:", "[::1]:", "none"};
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

static void note_listeners(const struct config *config, check_tell *tell, void *arg)
{
    const char *resp = config->resp ? config->resp : CONFIG_RESP;
    const struct config_user *user = find_config_user(config, "default");
    bool open = config->user_count == 0 || (user && !user->has_password);
    char text[NOTE_MAX];
    if (strcmp(resp, "none") == 0 && !config->unix_path)
        tell(arg, "nowhere to listen: weir serve needs --resp or --unix, or sockets of systemd");
    if (!open || is_for_this_machine(resp))
        return;
    (void)snprintf(text, sizeof text,
                   "%.200s can be reached from elsewhere and there is no password: weir serve needs "
                   "--password-file FILE, or --no-password",
                   resp);
    tell(arg, text);
}

/* ---- what is kept ---- */

static void note_floor(const struct config_policy *policy, check_tell *tell, void *arg)
{
    char text[NOTE_MAX], means[FLOOR_TEXT_MAX];
    weir_limits_floor(policy->limits, means);
    (void)snprintf(text, sizeof text, "line %d: policy '%s' has recover: floor: %s", policy->place.line,
                   policy->name, means);
    tell(arg, text);
}

static void note_kept(const struct config *config, check_tell *tell, void *arg)
{
    for (size_t i = 0; i < config->policy_count; i++)
        if (config->policies[i].settings.recover == TABLE_FLOOR)
            note_floor(&config->policies[i], tell, arg);
}

/* ---- users ---- */

static bool is_policy(const struct config *config, const char *name)
{
    for (size_t i = 0; i < config->policy_count; i++)
        if (strcmp(config->policies[i].name, name) == 0)
            return true;
    return false;
}

static void note_rights(const struct config *config, const struct config_user *user, check_tell *tell,
                        void *arg)
{
    char text[NOTE_MAX];
    for (size_t i = 0; i < user->policy_count; i++) {
        if (is_policy(config, user->policies[i]))
            continue;
        (void)snprintf(text, sizeof text,
                       "line %d: user '%s' may use policy '%s', which the file does not name",
                       user->place.line, user->name, user->policies[i]);
        tell(arg, text);
    }
}

static void note_open_file(const struct config_user *user, check_tell *tell, void *arg)
{
    char text[NOTE_MAX];
    if (!user->open_file)
        return;
    (void)snprintf(
        text, sizeof text,
        "line %d: user '%s': password_file %.200s can be read by every user of this machine; chmod "
        "640 it, or 600",
        user->place.line, user->name, user->open_file);
    tell(arg, text);
}

static bool may_anybody(const struct config *config, unsigned class)
{
    for (size_t i = 0; i < config->user_count; i++)
        if (config->users[i].may & class)
            return true;
    return false;
}

/* Who does not log in: most callers, where there were no users before. */
static void note_strangers(const struct config *config, check_tell *tell, void *arg)
{
    const struct config_user *user = find_config_user(config, "default");
    bool locked = !user || user->has_password;
    if (!locked && (user->may & MAY_TAKE) && (user->may & MAY_ADMIN))
        return;
    if (locked)
        tell(arg, "who does not log in may do nothing; callers need a user and its password in their URL");
    else if (!(user->may & (MAY_TAKE | MAY_ADMIN)))
        tell(arg, "who does not log in may neither take nor reload; callers and weir reload need a user and "
                  "its password in their URL");
    else
        tell(arg, user->may & MAY_TAKE
                      ? "who does not log in may not reload; weir reload needs a user in -s"
                      : "who does not log in may not take; callers need a user in their URL");
}

/* "users afterwards: default may look; app may look, take; ..." */
static void note_all_users(const struct config *config, check_tell *tell, void *arg)
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
    tell(arg, line);
}

static void note_users(const struct config *config, check_tell *tell, void *arg)
{
    if (config->user_count == 0)
        return;
    note_all_users(config, tell, arg);
    for (size_t i = 0; i < config->user_count; i++) {
        note_rights(config, &config->users[i], tell, arg);
        note_open_file(&config->users[i], tell, arg);
    }
    if (!may_anybody(config, MAY_TAKE))
        tell(arg, "NOBODY MAY TAKE: no user has may: take, so every caller would get an error");
    if (!may_anybody(config, MAY_ADMIN))
        tell(arg, "NOBODY MAY RELOAD: no user has may: admin, so only SIGHUP or a restart could change this");
    note_strangers(config, tell, arg);
}

/* ---- memory ---- */

static void note_memory(const struct config *config, struct cli_client *client, check_tell *tell, void *arg)
{
    char digits[32] = "", text[NOTE_MAX];
    const struct resp_value *value = ask_quietly(client, "CONFIG", "GET", "maxmemory", NULL);
    const struct resp_value *has =
        value && value->type == RESP_MAP ? weir_resp_get(value, "maxmemory") : NULL;
    if (!has || has->type != RESP_BULK || has->text.len >= sizeof digits)
        return;
    memcpy(digits, has->text.bytes, has->text.len);
    int64_t bytes = strtoll(digits, NULL, 10);
    if (bytes == config->memory)
        return;
    (void)snprintf(text, sizeof text,
                   "memory is %" PRId64 " MiB here and %" PRId64
                   " MiB there; it counts from the next start on",
                   config->memory >> 20, bytes >> 20);
    tell(arg, text);
}

void check_notes(const struct config *config, struct cli_client *client, check_tell *tell, void *arg)
{
    if (config->policy_count == 0 && !config->no_policies)
        tell(arg, "it names no policies; if that is meant, write policies: []");
    note_listeners(config, tell, arg);
    note_kept(config, tell, arg);
    note_users(config, tell, arg);
    note_memory(config, client, tell, arg);
}
