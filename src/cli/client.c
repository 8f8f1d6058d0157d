/* SPDX-License-Identifier: MIT */
/*
 * The client of the commands: which server is meant, how long is waited, and what is said when something
 * fails.
 */
#define _POSIX_C_SOURCE 200809L
#include "cli/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/secret.h"
#include "resp_client/blocking.h"

struct cli_client {
    struct resp_blocking_client *client;
    int64_t answer_ms;
    char shown[URL_TEXT_MAX];
};

/* ---- what fails ---- */

static bool report_login_failure(const struct cli_client *client, const char *reason, struct weir_error *err)
{
    if (strncmp(reason, "NOAUTH", 6) == 0)
        return weir_error_complain_as(
            err, EACCES, "%s wants a password: redis://user:password@host:port, by -s or in WEIR_URL",
            client->shown);
    return weir_error_complain(err, "%s: %.150s", client->shown, reason);
}

static bool report_failure(const struct cli_client *client, struct weir_error *err)
{
    const struct resp_failure *failure = weir_resp_blocking_failure(client->client);
    int code = failure->code;
    if (failure->state < CONNECTION_HANDSHAKE) {
        const char *advice = code == ECONNREFUSED || code == ENOENT
                                 ? "; is a server running there? weir serve starts one, -s URL names another"
                                 : "";
        return weir_error_complain_as(err, EHOSTUNREACH, "cannot connect to %s: %s%s", client->shown,
                                      code == ETIMEDOUT ? strerror(code) : failure->reason, advice);
    }
    if (failure->state == CONNECTION_HANDSHAKE && code == EACCES)
        return report_login_failure(client, failure->reason, err);
    if (code == EKEYREJECTED)
        return weir_error_complain_as(
            err, code, "%s: %s%s", client->shown, failure->reason,
            strstr(failure->reason, "certificate required") ? "; --cert FILE --key FILE show one"
            : strstr(failure->reason, "certificate")        ? "; --cacert FILE names its CA"
            : strstr(failure->reason, "version")            ? "; is TLS spoken on that port?"
                                                            : "");
    if (code == EPROTO)
        return weir_error_complain_as(
            err, EPROTO, "%s does not speak the Redis protocol; weir's port is 9049", client->shown);
    if (code == 0)
        return weir_error_complain_as(err, ECONNRESET, "%s closed the connection", client->shown);
    if (code == ETIMEDOUT)
        return weir_error_complain_as(err, ETIMEDOUT, "%s does not answer", client->shown);
    return weir_error_complain_as(err, code, "%s: %s", client->shown, failure->reason);
}

/* ---- opening and asking ---- */

struct client_tls client_tls;

static bool set_client_path(const char *path, char place[static URL_PATH_MAX], struct weir_error *err)
{
    if (path && strlen(path) >= URL_PATH_MAX)
        return weir_error_complain(err, "a path has at most %d bytes", URL_PATH_MAX - 1);
    (void)snprintf(place, URL_PATH_MAX, "%s", path ? path : "");
    return true;
}

static bool set_client_tls(struct server_url *url, struct weir_error *err)
{
    const struct client_tls *said = &client_tls;
    if (!url->tls.on)
        return !(said->cacert || said->cert || said->key || said->insecure) ||
               weir_error_complain(
                   err, "--cacert, --cert, --key and --insecure are for rediss://, not for %s", url->shown);
    url->tls.insecure = said->insecure;
    return set_client_path(said->cacert, url->tls.cacert, err) &&
           set_client_path(said->cert, url->tls.cert, err) && set_client_path(said->key, url->tls.key, err);
}

struct cli_client *client_open(const char *text, struct weir_error *err)
{
    struct server_url url;
    if (!text)
        text = getenv("WEIR_URL");
    if (!text || !*text)
        text = CLIENT_URL;
    if (!weir_url_read_server(&url, text, err) || !set_client_tls(&url, err))
        return NULL;
    struct cli_client *client = calloc(1, sizeof *client);
    if (client)
        client->client = weir_resp_blocking_new(&url, CLIENT_CONNECT_MS * WEIR_MS, err);
    else
        weir_error_complain_as(err, ENOMEM, "out of memory");
    bool good = client && client->client;
    if (good) {
        client->answer_ms = CLIENT_ANSWER_MS;
        memcpy(client->shown, url.shown, sizeof client->shown);
        good = weir_resp_blocking_connect(client->client) || report_failure(client, err);
    }
    weir_secret_wipe(&url, sizeof url);
    if (good)
        return client;
    client_close(client);
    return NULL;
}

void client_close(struct cli_client *client)
{
    if (!client)
        return;
    weir_resp_blocking_free(client->client);
    free(client);
}

const struct resp_value *client_ask(struct cli_client *client, const struct slice *words, size_t count,
                                    struct weir_error *err)
{
    int64_t deadline_ns =
        client->answer_ms < 0 ? INT64_MAX : weir_resp_client_now() + client->answer_ms * WEIR_MS;
    const struct resp_value *value = weir_resp_blocking_ask(client->client, words, count, deadline_ns);
    if (!value)
        report_failure(client, err);
    return value;
}

const char *client_shown(const struct cli_client *client)
{
    return client->shown;
}

void client_patience(struct cli_client *client, int64_t answer_ms)
{
    client->answer_ms = answer_ms;
}
