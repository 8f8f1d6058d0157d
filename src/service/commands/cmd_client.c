/* SPDX-License-Identifier: MIT */
/*
 * CLIENT: what a client says about itself, and what an operator asks about clients. TRACKING and
 * MAINT_NOTIFICATIONS are missing on purpose: who is told OK waits for messages that never come.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "service/commands/cmd_client.h"
#include "service/pending.h"

#define LIST_MOST (4 << 20) /* bytes of CLIENT LIST */

static struct slice text_or_empty(const char *text)
{
    return (struct slice){text ? text : "", text ? strlen(text) : 0};
}

/* ---- what it says about itself ---------------------------------------------------------------- */

static bool is_printable_text(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.bytes[i] < '!' || text.bytes[i] > '~')
            return false;
    return true;
}

/* Replaces *place, "" by NULL. false: an error was answered. */
static bool set_text(struct call *call, char **place, struct slice text)
{
    if (text.len > CLIENT_TEXT_MAX) {
        weir_call_error(call, "ERR that is too long; at most %d bytes", CLIENT_TEXT_MAX);
        return false;
    }
    char *copy = text.len > 0 ? malloc(text.len + 1) : NULL;
    if (text.len > 0 && !copy) {
        weir_call_error(call, "ERR out of memory");
        return false;
    }
    if (copy) {
        memcpy(copy, text.bytes, text.len);
        copy[text.len] = '\0';
    }
    free(*place);
    *place = copy;
    return true;
}

bool weir_client_set_name(struct call *call, struct slice name)
{
    if (!is_printable_text(name)) {
        weir_call_error(call, "ERR Client names cannot contain spaces, newlines or special characters.");
        return false;
    }
    return set_text(call, &call->session->name, name);
}

static void run_setname(struct call *call)
{
    if (weir_client_set_name(call, call->args[2]))
        weir_reply_simple(&call->reply, "OK");
}

static void run_getname(struct call *call)
{
    if (call->session->name)
        weir_reply_text(&call->reply, call->session->name);
    else
        weir_reply_null(&call->reply);
}

static void run_setinfo(struct call *call)
{
    char shown[72];
    bool name = weir_call_word(call, 2, "lib-name");
    if (!name && !weir_call_word(call, 2, "lib-ver")) {
        weir_call_error(call, "ERR Unrecognized option '%s'", weir_shown(call->args[2], shown));
        return;
    }
    if (!is_printable_text(call->args[3])) {
        weir_call_error(call, "ERR %s cannot contain spaces, newlines or special characters.",
                        name ? "lib-name" : "lib-ver");
        return;
    }
    char **place = name ? &call->session->lib_name : &call->session->lib_version;
    if (set_text(call, place, call->args[3]))
        weir_reply_simple(&call->reply, "OK");
}

static void run_client_id(struct call *call)
{
    weir_reply_integer(&call->reply, (int64_t)call->session->id);
}

/* Only ON is answered: who wants no answers gets none to this, either. */
static void run_reply(struct call *call)
{
    if (weir_call_word(call, 2, "ON")) {
        call->session->replies = REPLY_ON;
        weir_reply_simple(&call->reply, "OK");
    } else if (weir_call_word(call, 2, "OFF")) {
        call->session->replies = REPLY_OFF;
    } else if (weir_call_word(call, 2, "SKIP")) {
        if (call->session->replies != REPLY_OFF)
            call->session->replies = REPLY_SKIP_NEXT;
    } else {
        weir_call_error(call, "ERR syntax error");
    }
}

/* Nothing of a client is ever evicted, and no key has a last use: so both are as they are wished to be. */
static void run_on_or_off(struct call *call)
{
    if (weir_call_word(call, 2, "ON") || weir_call_word(call, 2, "OFF"))
        weir_reply_simple(&call->reply, "OK");
    else
        weir_call_error(call, "ERR syntax error");
}

/* ---- who is there ----------------------------------------------------------------------------- */

static int64_t seconds_between(int64_t then_ns, int64_t now_ns)
{
    return now_ns > then_ns ? (now_ns - then_ns) / WEIR_SEC : 0;
}

void weir_client_line(const struct session *session, int64_t now_ns, struct buffer *out)
{
    weir_buffer_print(out,
                      "id=%" PRIu64 " addr=%s laddr=%s fd=-1 name=%s age=%" PRId64 " idle=%" PRId64
                      " flags=%s db=0 sub=0 psub=0 ssub=0 multi=-1 tot-cmds=%" PRId64
                      " cmd=%s user=%s redir=-1 resp=%d lib-name=%s lib-ver=%s\n",
                      session->id, session->address, session->local, text_or_empty(session->name).bytes,
                      seconds_between(session->since_ns, now_ns), seconds_between(session->active_ns, now_ns),
                      pending_waits(session->pending) ? "b" : "N", session->commands,
                      session->last_command ? session->last_command : "NULL", session->user, session->version,
                      text_or_empty(session->lib_name).bytes, text_or_empty(session->lib_version).bytes);
}

static void reply_client_text(struct call *call, struct buffer *text)
{
    if (text->failed)
        weir_call_error(call, "ERR out of memory, or more than %d bytes", LIST_MOST);
    else
        weir_reply_verbatim(&call->reply, text->bytes ? buffer_bytes(text) : "", buffer_len(text));
    weir_buffer_free(text);
}

static void run_client_info(struct call *call)
{
    struct buffer text = {.most = LIST_MOST};
    weir_client_line(call->session, call->worker->now_ns, &text);
    reply_client_text(call, &text);
}

static void run_client_list(struct call *call)
{
    if (call->count > 2) {
        weir_call_error(call, "ERR CLIENT LIST takes no filters here; it shows all clients");
        return;
    }
    const struct service *service = call->worker->service;
    struct buffer text = {.most = LIST_MOST};
    if (service->clients)
        service->clients(service->server, call->session, &text);
    else
        weir_client_line(call->session, call->worker->now_ns, &text);
    reply_client_text(call, &text);
}

static bool read_kill_id(struct call *call, struct client_kill *kill)
{
    int64_t id;
    if (!weir_read_integer(call->args[3], &id) || id < 1) {
        weir_call_error(call, "ERR client-id should be greater than 0");
        return false;
    }
    kill->id = (uint64_t)id;
    return true;
}

static bool read_kill_user(struct call *call, struct client_kill *kill)
{
    char shown[72];
    const struct user *user = weir_users_find(call->worker->snapshot->users, call->args[3]);
    if (!user)
        weir_call_error(call, "ERR no user '%s'; CLIENT LIST shows who is there",
                        weir_shown(call->args[3], shown));
    else
        kill->user = user->name;
    return user;
}

/* CLIENT KILL ID 7, CLIENT KILL USER app. A client does not end itself this way: that is what QUIT is for. */
static void run_client_kill(struct call *call)
{
    struct client_kill kill = {0};
    bool by_user = weir_call_word(call, 2, "USER");
    const struct service *service = call->worker->service;
    if (call->count != 4 || (!by_user && !weir_call_word(call, 2, "ID"))) {
        weir_call_error(call,
                        "ERR write CLIENT KILL ID number or CLIENT KILL USER name; CLIENT LIST shows both");
        return;
    }
    if (!(by_user ? read_kill_user(call, &kill) : read_kill_id(call, &kill)))
        return;
    int64_t killed = service->kill ? service->kill(service->server, call->session, &kill) : 0;
    LOG_CHANGE(call, "clients-killed", LOG_TEXT("of", kill.user ? kill.user : ""),
               LOG_NUMBER("number", (int64_t)kill.id), LOG_NUMBER("killed", killed));
    weir_reply_integer(&call->reply, killed);
}

/* ---- table ------------------------------------------------------------------------------------ */

static const struct arg name_docs[] = {{.name = "connection-name"}, {0}};
static const struct arg info_parts[] = {
    {.name = "libname", .token = "LIB-NAME"}, {.name = "libver", .token = "LIB-VER"}, {0}};
static const struct arg info_docs[] = {{.name = "attr", .type = ARG_ONEOF, .parts = info_parts}, {0}};
static const struct arg reply_parts[] = {{.name = "on", .type = ARG_TOKEN, .token = "ON"},
                                         {.name = "off", .type = ARG_TOKEN, .token = "OFF"},
                                         {.name = "skip", .type = ARG_TOKEN, .token = "SKIP"},
                                         {0}};
static const struct arg reply_docs[] = {{.name = "action", .type = ARG_ONEOF, .parts = reply_parts}, {0}};
static const struct arg switch_parts[] = {{.name = "on", .type = ARG_TOKEN, .token = "ON"},
                                          {.name = "off", .type = ARG_TOKEN, .token = "OFF"},
                                          {0}};
static const struct arg switch_docs[] = {{.name = "enabled", .type = ARG_ONEOF, .parts = switch_parts}, {0}};
static const struct arg kill_parts[] = {
    {.name = "client-id", .type = ARG_INTEGER, .token = "ID"}, {.name = "username", .token = "USER"}, {0}};
static const struct arg kill_docs[] = {{.name = "filter", .type = ARG_ONEOF, .parts = kill_parts}, {0}};

static const struct command client_parts[] = {
    {COMMAND("setname", "Gives this connection a name, which CLIENT LIST shows", "connection", 3,
             ENGINE_CONNECT, run_setname),
     .docs = name_docs, .example = "CLIENT SETNAME worker-1"},
    {COMMAND("getname", "The name of this connection", "connection", 2, ENGINE_CONNECT, run_getname),
     .example = "CLIENT GETNAME"},
    {COMMAND("setinfo", "Tells the name or the version of the client's library", "connection", 4,
             ENGINE_CONNECT, run_setinfo),
     .docs = info_docs, .example = "CLIENT SETINFO LIB-NAME mine"},
    {COMMAND("id", "The number of this connection", "connection", 2, ENGINE_CONNECT, run_client_id),
     .example = "CLIENT ID"},
    {COMMAND("info", "What CLIENT LIST shows of this connection", "connection", 2, ENGINE_CONNECT,
             run_client_info),
     .example = "CLIENT INFO"},
    {COMMAND("list", "All connections, a line each", "connection", -2, ENGINE_ADMIN_SERVER, run_client_list),
     .example = "CLIENT LIST"},
    {COMMAND("reply", "Answers on, off, or none to this and the next request", "connection", 3,
             ENGINE_CONNECT, run_reply),
     .docs = reply_docs, .example = "CLIENT REPLY ON"},
    {COMMAND("kill", "Closes another connection, or all others of a user; answers how many were closed",
             "connection", -3, ENGINE_ADMIN_SERVER, run_client_kill),
     .docs = kill_docs, .example = "CLIENT KILL ID 999999"},
    {COMMAND("no-evict", "Accepted; nothing of a client is ever evicted", "connection", 3, ENGINE_CONNECT,
             run_on_or_off),
     .docs = switch_docs, .example = "CLIENT NO-EVICT ON"},
    {COMMAND("no-touch", "Accepted; looking never touches a key", "connection", 3, ENGINE_CONNECT,
             run_on_or_off),
     .docs = switch_docs, .example = "CLIENT NO-TOUCH ON"},
    COMMAND_HELP("connection", "CLIENT HELP"),
    {0}};

const struct command weir_commands_client[] = {
    {COMMAND("client", "Commands about connections", "connection", -2, ENGINE_CONNECT, NULL),
     .commands = client_parts},
    {0}};
