/* SPDX-License-Identifier: MIT */
/*
 * Connections: who is there, in which version of the protocol, as which user. Texts of errors are those of
 * Redis: clients look for them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/commands/cmd_client.h"
#include "service/pending.h"

#define DATABASES 16 /* all of them the same */

static struct slice text_slice(const char *text)
{
    return (struct slice){text, strlen(text)};
}

/* ---- logging in ------------------------------------------------------------------------------- */

/* Clients try again by themselves, so this may be all that a person sees: it says what was wrong before. */
static void refuse_login(struct call *call, int64_t retry_after_ns)
{
    int64_t seconds = retry_after_ns / WEIR_SEC + (retry_after_ns % WEIR_SEC > 0);
    weir_call_error(call,
                    "ERR too many failed logins from this address; try again in %" PRId64
                    " s (user or password was wrong)",
                    seconds);
}

/* Where it comes from, behind a proxy that may say so. */
static const char *login_address(const struct call *call)
{
    return call->http && call->http->client[0] ? call->http->client : call->session->address;
}

static bool fail_login(struct call *call, struct slice name)
{
    char shown[72];
    weir_log(LOG_WARN_LEVEL, "login-failed", LOG_TEXT("address", login_address(call)),
             LOG_TEXT("user", weir_shown(name, shown)));
    weir_call_error(call, "WRONGPASS invalid username-password pair or user is disabled.");
    return false;
}

/* The password was right; there may be too many clients already. */
static bool enter_as_user(struct call *call, const struct user *user, uint64_t generation)
{
    if (!weir_session_enter(call->session, call->worker, user, generation)) {
        weir_call_error(call, "ERR max number of clients reached for user '%s'; admins can still log in",
                        user->name);
        call->session->closing = true;
        return false;
    }
    call->user = user;
    return true;
}

/* Passwords that are kept as slow hashes are checked by another thread, and then the request is run again. If
 * any user has such a hash, every wrong password takes as long, whoever's it is. RUN_PENDING: not known yet.
 */
static const struct user *check_slowly(struct call *call, const char *source, struct login_attempt attempt,
                                       struct slice name, struct slice password, uint64_t *generation)
{
    const struct users *users = call->worker->snapshot->users;
    struct password_check *password_check = call->worker->service->password_check;
    struct login login;
    *generation = call->pending ? call->pending->login->right : 0;
    if (!call->pending) {
        if (!weir_login_init(&login, users, name, password))
            return NULL;
        login.attempt = attempt;
        *generation = weir_password_check_known(password_check, &login);
        if (*generation == 0 && !weir_login_wait(password_check, &login, source)) {
            weir_call_error(call, "UNAVAILABLE too many logins are being checked at this moment; try again");
        } else if (*generation == 0 && !weir_pending_login(call, &login)) {
            weir_login_end(password_check, &login);
        }
        weir_secret_wipe(&login, sizeof login);
    }
    const struct user *user = weir_users_find(users, name);
    return *generation > 0 && user && weir_user_has(user, *generation) ? user : NULL;
}

/* What was not checked, or against passwords that are others now, is not known to be wrong. */
static bool is_login_undecided(struct call *call, struct login_attempt attempt)
{
    const struct login *login = call->pending ? call->pending->login : NULL;
    if (login && !login->checked)
        weir_call_error(call, "UNAVAILABLE the password could not be checked: out of memory; try again");
    else if (login && login->attempt.word != attempt.word)
        weir_call_error(call,
                        "UNAVAILABLE the users were changed while the password was being checked; try again");
    return call->failed;
}

/* A token names its user by itself. */
static const struct user *find_token(const struct users *users, struct slice token, uint64_t *generation)
{
    struct digest digest = weir_sha256(token.bytes, token.len);
    return weir_users_by_token(users, &digest, generation);
}

static bool log_in(struct call *call, struct slice name, struct slice password)
{
    const struct users *users = call->worker->snapshot->users;
    struct login_failures *login_failures = call->worker->service->login_failures;
    char source[SOURCE_MAX];
    uint64_t generation;
    int64_t retry_ns = 0;
    const struct user *user = name.len == 0 ? find_token(users, password, &generation) : NULL;
    if (user) /* a right token is let in whatever others have tried: nobody guesses one */
        return enter_as_user(call, user, generation);
    weir_source_of(login_address(call), source);
    struct login_attempt attempt = weir_attempt(login_failures, source, users, name, password);
    switch (weir_attempt_begin(login_failures, call->worker->now_ns, attempt, &retry_ns)) {
    case ATTEMPT_BLOCKED:
        refuse_login(call, retry_ns);
        return false;
    case ATTEMPT_KNOWN:
        return fail_login(call, name);
    case ATTEMPT_OPEN:
        break;
    }
    if (name.len > 0)
        user = weir_users_login(users, name, password, &generation);
    if (!user && name.len > 0 && users->any_crypt)
        user = check_slowly(call, source, attempt, name, password, &generation);
    if (user)
        return enter_as_user(call, user, generation);
    if (call->failed || call->state == RUN_PENDING || is_login_undecided(call, attempt))
        return false;
    weir_attempt_failed(login_failures, call->worker->now_ns, attempt);
    return fail_login(call, name);
}

static const struct user *default_user(const struct call *call)
{
    return &call->worker->snapshot->users->list[0];
}

static void run_auth(struct call *call)
{
    if (call->count > 3) {
        weir_call_error(call, "ERR syntax error");
        return;
    }
    if (call->count == 2 && !default_user(call)->has_password) {
        weir_call_error(call, "ERR AUTH <password> called without any password configured for the default "
                              "user. Are you sure your configuration is correct?");
        return;
    }
    struct slice name = call->count == 3 ? call->args[1] : text_slice("default");
    if (log_in(call, name, call->args[call->count - 1]))
        weir_reply_simple(&call->reply, "OK");
}

/* ---- HELLO ------------------------------------------------------------------------------------ */

struct hello_request {
    int64_t version;
    bool auth, named;
    struct slice user, password, name;
};

static bool read_hello(struct call *call, struct hello_request *hello)
{
    if (call->count > 1 && !weir_read_integer(call->args[1], &hello->version)) {
        weir_call_error(call, "ERR Protocol version is not an integer or out of range");
        return false;
    }
    if (hello->version < 2 || hello->version > 3) {
        weir_call_error(call, "NOPROTO unsupported protocol version");
        return false;
    }
    for (size_t at = 2; at < call->count;) {
        if (weir_call_word(call, at, "AUTH") && call->count - at > 2) {
            hello->auth = true;
            hello->user = call->args[at + 1];
            hello->password = call->args[at + 2];
            at += 3;
        } else if (weir_call_word(call, at, "SETNAME") && call->count - at > 1) {
            hello->named = true;
            hello->name = call->args[at + 1];
            at += 2;
        } else {
            char shown[72];
            weir_call_error(call, "ERR Syntax error in HELLO option '%s'", weir_shown(call->args[at], shown));
            return false;
        }
    }
    return true;
}

static void answer_hello(struct call *call)
{
    struct reply *reply = &call->reply;
    weir_reply_map(reply, 7);
    weir_reply_text_field(reply, "server", "redis");
    weir_reply_text_field(reply, "version", REDIS_VERSION);
    weir_reply_field(reply, "proto", call->session->version);
    weir_reply_field(reply, "id", (int64_t)call->session->id);
    weir_reply_text_field(reply, "mode", "standalone");
    weir_reply_text_field(reply, "role", "master");
    weir_reply_text(reply, "modules");
    weir_reply_array(reply, 0);
}

static void run_hello(struct call *call)
{
    struct hello_request hello = {.version = call->session->version};
    if (!read_hello(call, &hello) || (hello.auth && !log_in(call, hello.user, hello.password)))
        return;
    if (!weir_session_user(call->session, call->worker->snapshot)) {
        weir_call_error(call, "NOAUTH HELLO must be called with the client already authenticated, otherwise "
                              "the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the "
                              "client and select the RESP protocol version at the same time");
        return;
    }
    if (hello.named && !weir_client_set_name(call, hello.name))
        return;
    call->session->version = call->reply.version = (int)hello.version;
    answer_hello(call);
}

/* ---- small ones ------------------------------------------------------------------------------- */

static void run_ping(struct call *call)
{
    if (call->count > 2)
        weir_call_arity(call);
    else if (call->count == 2)
        weir_reply_bulk(&call->reply, call->args[1].bytes, call->args[1].len);
    else
        weir_reply_simple(&call->reply, "PONG");
}

static void run_echo(struct call *call)
{
    weir_reply_bulk(&call->reply, call->args[1].bytes, call->args[1].len);
}

static void run_select(struct call *call)
{
    int64_t number;
    if (!weir_read_integer(call->args[1], &number))
        weir_call_error(call, "ERR invalid DB index");
    else if (number < 0 || number >= DATABASES)
        weir_call_error(call, "ERR DB index is out of range");
    else
        weir_reply_simple(&call->reply, "OK");
}

static void run_quit(struct call *call)
{
    weir_reply_simple(&call->reply, "OK");
    call->session->closing = true;
    call->state = RUN_CLOSE;
}

/* As at the beginning of the connection: who has shown a certificate is its user without any other login. */
static void enter_by_certificate(struct call *call)
{
    const struct users *users = call->worker->snapshot->users;
    struct session *session = call->session;
    for (size_t i = 0; session->has_certificate && !session->logged_in && i < users->count; i++)
        if (users->list[i].certificate[0] && users->list[i].certificate_generation == session->certificate)
            (void)weir_session_enter(session, call->worker, &users->list[i], session->certificate);
}

static void run_reset(struct call *call)
{
    struct session *session = call->session;
    bool unauthenticated = default_user(call)->has_password || session->must_log_in;
    bool admin = weir_user_is_admin(default_user(call));
    session->logged_in = false;
    /* At once, not after the batch: it may have logged in within the same one. */
    weir_client_counts_log_out(call->worker->service->client_counts, &session->client_entry,
                               unauthenticated ? CLIENT_UNAUTHENTICATED
                               : admin         ? CLIENT_ADMIN
                                               : CLIENT_ORDINARY);
    snprintf(session->user, sizeof session->user, "default");
    free(session->name);
    session->name = NULL;
    session->replies = REPLY_ON;
    session->version = call->reply.version = 2;
    enter_by_certificate(call);
    weir_reply_simple(&call->reply, "RESET");
}

static void run_cluster(struct call *call)
{
    weir_call_error(call, "ERR This instance has cluster support disabled");
}

/* ---- table ------------------------------------------------------------------------------------ */

static const struct arg auth_docs[] = {
    {.name = "username", .flags = ARG_OPTIONAL}, {.name = "password"}, {0}};
static const struct arg auth_parts[] = {{.name = "username"}, {.name = "password"}, {0}};
static const struct arg hello_parts[] = {
    {.name = "protover", .type = ARG_INTEGER},
    {.name = "auth", .type = ARG_BLOCK, .token = "AUTH", .flags = ARG_OPTIONAL, .parts = auth_parts},
    {.name = "clientname", .token = "SETNAME", .flags = ARG_OPTIONAL},
    {0}};
static const struct arg hello_docs[] = {
    {.name = "arguments", .type = ARG_BLOCK, .flags = ARG_OPTIONAL, .parts = hello_parts}, {0}};
static const struct arg message_docs[] = {{.name = "message"}, {0}};
static const struct arg ping_docs[] = {{.name = "message", .flags = ARG_OPTIONAL}, {0}};
static const struct arg select_docs[] = {{.name = "index", .type = ARG_INTEGER}, {0}};
static const struct arg cluster_docs[] = {
    {.name = "subcommand"}, {.name = "argument", .flags = ARG_OPTIONAL | ARG_MULTIPLE}, {0}};

#define CONNECTION(NAME, SUMMARY, ARITY, RUN) COMMAND(NAME, SUMMARY, "connection", ARITY, ENGINE_CONNECT, RUN)

const struct command weir_commands_connection[] = {
    {CONNECTION("hello", "Chooses the version of the protocol, and can log in and give the connection a name",
                -1, run_hello),
     .flags = CMD_NO_AUTH, .docs = hello_docs, .example = "HELLO 3"},
    {CONNECTION("auth", "Logs in with a password, as `default` or as another user", -2, run_auth),
     .flags = CMD_NO_AUTH, .docs = auth_docs},
    {CONNECTION("ping", "Answers PONG, or the message", -1, run_ping), .docs = ping_docs, .example = "PING"},
    {CONNECTION("echo", "Answers the message", 2, run_echo), .docs = message_docs, .example = "ECHO hello"},
    {CONNECTION("select", "Accepts 0 to 15, which are all the same: weir has no databases", 2, run_select),
     .docs = select_docs, .example = "SELECT 0"},
    {CONNECTION("quit", "Closes the connection after the answer", -1, run_quit), .flags = CMD_NO_AUTH,
     .example = "QUIT"},
    {CONNECTION("reset", "Makes the connection as if it were new: logged out, without a name, version 2", 1,
                run_reset),
     .flags = CMD_NO_AUTH, .example = "RESET"},
    {CONNECTION("readonly", "An error: weir is no Redis cluster", 1, run_cluster)},
    {CONNECTION("readwrite", "An error: weir is no Redis cluster", 1, run_cluster)},
    {CONNECTION("cluster", "An error: weir is no Redis cluster", -2, run_cluster), .docs = cluster_docs},
    {0}};
