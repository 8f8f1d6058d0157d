/* SPDX-License-Identifier: MIT */
/*
 * The kinds of coordinators there are, and the names that all of them can keep.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/secret.h"
#include "base/text.h"
#include "fleet/coordinator.h"
#include "fleet/member.h"
#include "fleet/options.h"

static const struct coordinator_kind {
    const char *scheme, *synonym;
    const struct coordinator_ops *ops;
} kinds[] = {{"zookeeper", "zk", &weir_coordinator_zookeeper},
             {"redis", "valkey", &weir_coordinator_redis},
             {"redis+cluster", "cluster", &weir_coordinator_redis},
             {"weir", "tier", &weir_coordinator_weir},
             {"local", "memory", &weir_coordinator_local}};

#define KINDS (sizeof kinds / sizeof kinds[0])

/* The scheme that is meant by one that is none; NULL: nobody knows. */
static const char *nearest_scheme(const char *scheme)
{
    struct nearest near = weir_nearest(scheme, strlen(scheme));
    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(kinds[i].synonym, scheme) == 0)
            return kinds[i].scheme;
        (void)weir_nearest_try(&near, kinds[i].scheme);
    }
    return near.found;
}

const struct coordinator_ops *weir_coordinator_kind(const struct server_url *url, struct weir_error *err)
{
    for (size_t i = 0; i < KINDS; i++)
        if (strcmp(kinds[i].scheme, url->scheme) == 0)
            return kinds[i].ops;
    /* Nobody sends his passwords in clear because he was led from rediss+x:// to redis://. */
    const char *meant = strncmp(url->scheme, "rediss", 6) == 0 ? NULL : nearest_scheme(url->scheme);
    (void)weir_error_complain(
        err,
        "no coordinator has the scheme '%s'; there are zookeeper://, redis://, "
        "redis+cluster://, weir:// and local:, with TLS rediss://, rediss+cluster:// and "
        "weirs://%s%s%s",
        url->scheme, meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
    return NULL;
}

static bool is_fleet_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-_.:@", c));
}

bool weir_fleet_name_check(const char *name, struct weir_error *err)
{
    size_t len = name ? strnlen(name, FLEET_NAME_MAX + 1) : 0;
    if (len == 0)
        return weir_error_complain(err,
                                   "the name that the fleet shares is missing; write one such as egress");
    if (len > FLEET_NAME_MAX)
        return weir_error_complain(err, "the name of a fleet's limit has at most %d bytes", FLEET_NAME_MAX);
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return weir_error_complain(
            err, "'%s' is no name that a coordinator can keep; write one such as egress", name);
    for (size_t i = 0; i < len; i++)
        if (!is_fleet_name_byte(name[i])) {
            char message[160];
            struct text text;
            weir_text_init(&text, message, sizeof message);
            weir_text_print(&text, "the name of a fleet's limit has letters, digits and - _ . : @ only");
            if (name[i] == '/')
                weir_text_print(&text, "; write : where / stands");
            weir_error_at(err, EINVAL, name, len, weir_text_column(name, i), message);
            return false;
        }
    return true;
}

/*
 * One question to a coordinator about its pools, for whoever looks after them.
 */

struct coordinator *weir_coordinator_open(const struct coordinator_ops *kind, const struct server_url *url,
                                          struct weir_error *err)
{
    static const struct sink nobody;
    struct weir_fleet_options options = {.size = sizeof options};
    if (!weir_fleet_options_read(&options, url, err))
        return NULL;
    struct coordinator_options how = {
        .answer_ns = options.answer_ns, .connect_ns = options.connect_ns, .session_ns = options.session_ns};
    return kind->open(url, &how, &nobody, err);
}

static bool ask_coordinator(const struct server_url *url, const struct quota_ask *ask,
                            struct quota_answer *answer, struct weir_error *err)
{
    const struct coordinator_ops *kind = weir_coordinator_kind(url, err);
    if (kind && !kind->quota)
        return weir_error_complain(err, "%s: its pools cannot be looked at this way", url->shown);
    struct coordinator *coordinator = kind ? weir_coordinator_open(kind, url, err) : NULL;
    if (!coordinator)
        return false;
    bool done = kind->quota(coordinator, ask, answer, err);
    kind->close(coordinator);
    return done;
}

bool weir_quota_ask(const char *url, const struct quota_ask *ask, struct quota_answer *answer,
                    struct weir_error *err)
{
    struct server_url read;
    memset(answer, 0, sizeof *answer);
    weir_error_clear(err);
    bool done = weir_url_read(&read, url, err) &&
                (ask->op == QUOTA_LIST || weir_fleet_name_check(ask->name, err)) &&
                ask_coordinator(&read, ask, answer, err);
    weir_secret_wipe(&read, sizeof read);
    return done;
}
