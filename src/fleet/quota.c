/* SPDX-License-Identifier: MIT */
/*
 * One question to a coordinator about its pools, for whoever looks after them.
 */
#include <string.h>

#include "base/error.h"
#include "base/secret.h"
#include "fleet/member.h"

/* Nothing is entered, so there is nothing to be told. */
static void ignore_reply(void *owner, const struct lease_reply *reply)
{
    (void)owner, (void)reply;
}

static void ignore_more(void *owner)
{
    (void)owner;
}

static void ignore_move(void *agent, bool up, const char *why)
{
    (void)agent, (void)up, (void)why;
}

static void ignore_trouble(void *owner, const char *why)
{
    (void)owner, (void)why;
}

static bool ask_coordinator(const struct fleet_url *url, const struct quota_ask *ask,
                            struct quota_answer *answer, struct weir_error *err)
{
    struct sink sink = {.replied = ignore_reply,
                        .noticed = ignore_reply,
                        .more = ignore_more,
                        .moved = ignore_move,
                        .troubled = ignore_trouble};
    struct weir_fleet_options options = {0};
    const struct coordinator_ops *kind = weir_coordinator_kind(url, err);
    if (!kind || !weir_fleet_options_read(&options, url, err))
        return false;
    if (!kind->open || !kind->quota)
        return weir_error_complain(err, "%s: its pools cannot be looked at this way", url->shown);
    struct coordinator_options how = {
        .answer_ns = options.answer_ns, .connect_ns = options.connect_ns, .session_ns = options.session_ns};
    struct coordinator *coordinator = kind->open(url, &how, &sink, err);
    if (!coordinator)
        return false;
    bool done = kind->quota(coordinator, ask, answer, err);
    kind->close(coordinator);
    return done;
}

bool weir_quota_ask(const char *url, const struct quota_ask *ask, struct quota_answer *answer,
                    struct weir_error *err)
{
    struct fleet_url read;
    memset(answer, 0, sizeof *answer);
    weir_error_clear(err);
    bool done = weir_fleet_url_read(&read, url, err) &&
                (ask->op == QUOTA_LIST || weir_fleet_name_check(ask->name, err)) &&
                ask_coordinator(&read, ask, answer, err);
    weir_secret_wipe(&read, sizeof read);
    return done;
}
