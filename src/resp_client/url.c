/* SPDX-License-Identifier: MIT */
/*
 * Reading a URL. Whoever typed it may have typed a password into it, in the right place or not: so no message
 * here repeats what stands before the last '@', nor anything at all of a text that has one.
 */
#define _POSIX_C_SOURCE 200809L

#include "resp_client/url.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/secret.h"
#include "base/text.h"

#define SHAPE "write scheme://host[:port],.../path, such as zookeeper://zk1,zk2,zk3/weir, or local:"

/* What is known of the schemes there are. */
static const struct url_scheme {
    const char *name, *secure; /* with TLS; or "" */
    int port, secure_port;
    bool path;
} schemes[] = {{"zookeeper", "", 2181, 0, true},
               {"redis", "rediss", 6379, 6379, true},
               {"redis+cluster", "rediss+cluster", 6379, 6379, false},
               {"weir", "weirs", WEIR_PORT, WEIR_TLS_PORT, false}};

static const struct url_scheme *find_scheme(const char *name)
{
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (strcmp(schemes[i].name, name) == 0)
            return &schemes[i];
    return NULL;
}

/* A piece of the text. */
struct url_span {
    const char *at, *end;
};

static size_t url_span_len(struct url_span span)
{
    return (size_t)(span.end - span.at);
}

/* Cuts off what stands before the first `mark`; what is behind it stays. false: there is none. */
static bool url_span_cut(struct url_span *span, char mark, struct url_span *before)
{
    const char *found = memchr(span->at, mark, url_span_len(*span));
    if (!found)
        return false;
    *before = (struct url_span){span->at, found};
    span->at = found + 1;
    return true;
}

static bool url_span_copy(struct url_span span, char *text, size_t size)
{
    if (url_span_len(span) >= size)
        return false;
    memcpy(text, span.at, url_span_len(span));
    text[url_span_len(span)] = '\0';
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* %41 is A. Nothing becomes a NUL. */
static bool percent_decode(struct url_span span, char *text, size_t size)
{
    size_t len = 0;
    for (const char *at = span.at; at < span.end; at++) {
        int byte = (unsigned char)*at;
        if (*at == '%') {
            if (span.end - at < 3 || weir_text_hex(at[1]) < 0 || weir_text_hex(at[2]) < 0)
                return false;
            byte = weir_text_hex(at[1]) * 16 + weir_text_hex(at[2]);
            at += 2;
        }
        if (byte == 0 || len + 1 >= size)
            return false;
        text[len++] = (char)byte;
    }
    text[len] = '\0';
    return true;
}

/* ---- parts ---- */

static bool read_scheme(struct server_url *url, struct url_span *rest, struct weir_error *err)
{
    struct url_span name;
    if (!url_span_cut(rest, ':', &name) || url_span_len(name) == 0 || !is_letter(*name.at))
        return weir_error_complain(err, "this is no URL of a coordinator; " SHAPE);
    for (const char *at = name.at; at < name.end; at++)
        if (!is_letter(*at) && !is_digit(*at) && !strchr("+-.", *at))
            return weir_error_complain(err, "this is no URL of a coordinator; " SHAPE);
    if (!url_span_copy(name, url->scheme, sizeof url->scheme))
        return weir_error_complain(err, "no coordinator has such a long scheme; " SHAPE);
    for (char *at = url->scheme; *at; at++)
        *at = weir_text_lower(*at);
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0] && !url->tls.on; i++)
        if (strcmp(schemes[i].secure, url->scheme) == 0) {
            (void)snprintf(url->scheme, sizeof url->scheme, "%s", schemes[i].name);
            url->tls.on = true;
        }
    return true;
}

/* alone: without a colon it is a password, as others write it. */
static bool read_url_user(struct server_url *url, struct url_span user, bool alone, struct weir_error *err)
{
    struct url_span name = user;
    bool colon = url_span_cut(&user, ':', &name);
    if (alone && !colon)
        name.end = name.at;
    if (alone || colon) {
        if (!percent_decode(user, url->password, sizeof url->password))
            return weir_error_complain(err,
                                       "the password in the URL is too long, or has a %% that two "
                                       "hexadecimal digits do not follow; write %%25 for %%, %%40 for @");
    }
    return percent_decode(name, url->user, sizeof url->user) ||
           weir_error_complain(err,
                               "the user in the URL is too long, or has a %% that two hexadecimal digits "
                               "do not follow");
}

static bool is_name_part(char c)
{
    return is_letter(c) || is_digit(c) || c == '-' || c == '.' || c == '_';
}

static bool read_port(struct url_span span, int *port)
{
    int64_t number = 0;
    for (const char *at = span.at; at < span.end; at++) {
        if (!is_digit(*at) || number > 65535)
            return false;
        number = number * 10 + (*at - '0');
    }
    *port = (int)number;
    return number >= 1 && number <= 65535;
}

/* name, name:port, [v6], [v6]:port */
static bool read_url_host(struct server_url *url, struct url_span span, int port_unsaid,
                          struct weir_error *err)
{
    struct server_host *host = &url->hosts[url->host_count];
    struct url_span name = {span.at, span.at}, port;
    bool v6 = url_span_len(span) > 0 && *span.at == '[';
    if (v6) {
        name.at = ++span.at;
        for (name.end = name.at; name.end < span.end && *name.end != ']'; name.end++)
            if (weir_text_hex(*name.end) < 0 && *name.end != ':' && *name.end != '.')
                return weir_error_complain(err, "an address in [ ] has hexadecimal digits, : and . only");
        if (name.end == span.end)
            return weir_error_complain(err, "a ] is missing behind an address in the URL");
        port = (struct url_span){name.end + 1, span.end};
    } else {
        while (name.end < span.end && is_name_part(*name.end))
            name.end++;
        port = (struct url_span){name.end, span.end};
    }
    if (url_span_len(name) == 0 || !url_span_copy(name, host->name, sizeof host->name))
        return weir_error_complain(err, "a host is missing in the URL, or is no name; " SHAPE);
    host->port = port_unsaid;
    if (url_span_len(port) > 0 && *port.at != ':')
        return weir_error_complain(err,
                                   "a host in the URL has letters, digits, - . and _; a user and "
                                   "password stand before it with an @, their special characters as %%XX");
    port.at += url_span_len(port) > 0;
    if (port.at > name.end + v6 && !read_port(port, &host->port))
        return weir_error_complain(err, "a port in the URL is a number from 1 to 65535");
    url->host_count++;
    return true;
}

static bool read_hosts(struct server_url *url, struct url_span rest, int port, struct weir_error *err)
{
    struct url_span one;
    for (bool more = true; more;) {
        more = url_span_cut(&rest, ',', &one);
        if (!more)
            one = rest;
        if (url->host_count == URL_HOSTS_MAX)
            return weir_error_complain(err, "a URL has at most %d hosts", URL_HOSTS_MAX);
        if (!read_url_host(url, one, port, err))
            return false;
    }
    return true;
}

/* Parts between slashes are no . and no .., and none is empty but the last. */
static bool is_path(const char *path)
{
    for (const char *at = path; *at; at++)
        if (*at <= ' ' || *at > '~' || strchr("%@\\\"'", *at))
            return false;
    for (const char *part = path; *part; part += 1 + strcspn(part + 1, "/")) {
        size_t len = strcspn(part + 1, "/");
        if (len == 0 || (len <= 2 && strncmp(part + 1, "..", len) == 0))
            return false;
    }
    return true;
}

static bool read_path(struct server_url *url, struct url_span path, struct weir_error *err)
{
    const struct url_scheme *scheme = find_scheme(url->scheme);
    if (url_span_len(path) > 0 && path.end[-1] == '/')
        path.end--;
    if (!url_span_copy(path, url->path, sizeof url->path) || !is_path(url->path))
        return weir_error_complain(err, "the path of the URL is too long, or has empty parts, . or .., or "
                                        "characters that no path has");
    if (url->path[0] && scheme && !scheme->path)
        return weir_error_complain(err, "%s:// has no path; leave out what stands behind the hosts",
                                   url->scheme);
    if (strcmp(url->scheme, "redis") == 0 && strlen(url->path) > 5)
        return weir_error_complain(err, "the path of redis:// is the number of a database, such as /0");
    for (const char *at = url->path; *at && strcmp(url->scheme, "redis") == 0; at++)
        if (at > url->path && !is_digit(*at))
            return weir_error_complain(err, "the path of redis:// is the number of a database, such as /0");
    return true;
}

static bool url_span_is(struct url_span span, const char *text)
{
    return url_span_len(span) == strlen(text) && memcmp(span.at, text, url_span_len(span)) == 0;
}

/* One option. false: it is none of TLS. *good: it is right. */
static bool read_tls_option(struct url_tls *tls, struct url_span value, bool *good)
{
    struct url_span name;
    if (!url_span_cut(&value, '=', &name))
        return false;
    char *path = url_span_is(name, "cacert") ? tls->cacert
                 : url_span_is(name, "cert") ? tls->cert
                 : url_span_is(name, "key")  ? tls->key
                                             : NULL;
    if (path)
        *good = !path[0] && url_span_len(value) > 0 && percent_decode(value, path, URL_PATH_MAX);
    else if (url_span_is(name, "insecure"))
        *good = tls->insecure = url_span_is(value, "yes");
    else
        return false;
    return true;
}

/* Takes the options of TLS out of the query: all others are the coordinator's. */
static bool take_tls_options(struct server_url *url, struct weir_error *err)
{
    char rest[sizeof url->query];
    struct text text;
    weir_text_init(&text, rest, sizeof rest);
    struct url_span query = {url->query, url->query + strlen(url->query)}, one;
    for (bool more = url->query[0]; more;) {
        bool good = true;
        more = url_span_cut(&query, '&', &one);
        if (!more)
            one = query;
        if (!read_tls_option(&url->tls, one, &good))
            weir_text_print(&text, "%s%.*s", text.len > 0 ? "&" : "", (int)url_span_len(one), one.at);
        if (!good)
            return weir_error_complain(
                err, "with TLS a URL has cacert=PATH, cert=PATH, key=PATH and insecure=yes, each "
                     "once");
    }
    memcpy(url->query, rest, text.len + 1);
    return true;
}

static bool read_query(struct server_url *url, struct url_span query, struct weir_error *err)
{
    if (!url_span_copy(query, url->query, sizeof url->query))
        return weir_error_complain(err, "what stands behind the ? of the URL is too long: at most %zu bytes",
                                   sizeof url->query - 1);
    for (const char *at = url->query; *at; at++)
        if (*at <= ' ' || *at > '~' || *at == '@')
            return weir_error_complain(err, "behind the ? of a URL stand options as name=value, joined by &; "
                                            "a ? in a password is written %%3F");
    return !url->tls.on || take_tls_options(url, err);
}

/* ---- the whole ---- */

static void write_shown_url(struct server_url *url)
{
    const struct url_scheme *scheme = url->tls.on ? find_scheme(url->scheme) : NULL;
    struct text text;
    weir_text_init(&text, url->shown, sizeof url->shown);
    if (url->host_count == 0) {
        weir_text_print(&text, "%s:%s", url->scheme, url->path[0] ? url->path + 1 : "");
    } else {
        weir_text_print(&text, "%s://", scheme ? scheme->secure : url->scheme);
        for (size_t i = 0; i < url->host_count; i++) {
            const struct server_host *host = &url->hosts[i];
            bool v6 = host->name[0] != '/' && strchr(host->name, ':');
            weir_text_print(&text, "%s%s%s%s", i > 0 ? "," : "", v6 ? "[" : "", host->name, v6 ? "]" : "");
            if (host->port != 0)
                weir_text_print(&text, ":%d", host->port);
        }
        weir_text_print(&text, "%s", url->path);
    }
    if (url->query[0])
        weir_text_print(&text, "?%s", url->query);
}

/* local: and local:group; the group is kept as a path. */
static bool read_local(struct server_url *url, struct url_span rest, struct weir_error *err)
{
    size_t len = url_span_len(rest);
    if (len + 2 > sizeof url->path)
        return weir_error_complain(err, "the group behind local: is too long");
    for (const char *at = rest.at; at < rest.end; at++)
        if (!is_name_part(*at))
            return weir_error_complain(err,
                                       "behind local: stands nothing, or a group of letters, digits, - . "
                                       "and _");
    (void)snprintf(url->path, sizeof url->path, "%s%.*s", len > 0 ? "/" : "", (int)len, rest.at);
    return true;
}

/* unix://[user:password@]/path: the path is kept as a host. */
static bool read_unix(struct server_url *url, struct url_span path, struct weir_error *err)
{
    url->host_count = 1;
    return (url_span_len(path) > 0 && *path.at == '/' &&
            percent_decode(path, url->hosts[0].name, sizeof url->hosts[0].name)) ||
           weir_error_complain(err, "behind unix:// stands the path of a socket, from the root on");
}

static bool read_remote(struct server_url *url, struct url_span rest, bool server, struct weir_error *err)
{
    bool is_unix = strcmp(url->scheme, "unix") == 0;
    if (url_span_len(rest) < 2 || memcmp(rest.at, "//", 2) != 0)
        return weir_error_complain(err, "// is missing behind the scheme of the URL; " SHAPE);
    rest.at += 2;
    struct url_span authority = rest, path = {rest.end, rest.end}, user = {rest.at, rest.at};
    const char *slash = memchr(rest.at, '/', url_span_len(rest));
    if (slash && !is_unix)
        authority.end = path.at = slash;
    for (const char *at = authority.at; at < authority.end; at++)
        if (*at == '@')
            user.end = at;
    if (user.end > user.at || (authority.at < authority.end && *authority.at == '@'))
        authority.at = user.end + 1;
    if (!read_url_user(url, user, server, err))
        return false;
    const struct url_scheme *scheme = find_scheme(url->scheme);
    int port = server        ? (url->tls.on ? WEIR_TLS_PORT : WEIR_PORT)
               : !scheme     ? 0
               : url->tls.on ? scheme->secure_port
                             : scheme->port;
    return is_unix ? read_unix(url, authority, err)
                   : read_hosts(url, authority, port, err) && read_path(url, path, err);
}

/* server: of weir, which has another port than Redis, and no options: a ? is one of a password or a path. */
static bool read_url(struct server_url *url, const char *text, bool server, struct weir_error *err)
{
    memset(url, 0, sizeof *url);
    size_t len = text ? strnlen(text, URL_TEXT_MAX) : 0;
    if (len == 0)
        return weir_error_complain(err, "a URL of a coordinator is missing; " SHAPE);
    if (len == URL_TEXT_MAX)
        return weir_error_complain(err, "a URL has at most %d bytes", URL_TEXT_MAX - 1);
    struct url_span rest = {text, text + len}, front;
    if (!read_scheme(url, &rest, err))
        return false;
    if (!server && url_span_cut(&rest, '?', &front)) {
        if (!read_query(url, rest, err))
            return false;
        rest = front;
    }
    bool local = strcmp(url->scheme, "local") == 0;
    if (!(local ? read_local(url, rest, err) : read_remote(url, rest, server, err))) {
        weir_secret_wipe(url->password, sizeof url->password);
        return false;
    }
    write_shown_url(url);
    return true;
}

bool weir_url_read(struct server_url *url, const char *text, struct weir_error *err)
{
    return read_url(url, text, false, err);
}

bool weir_url_read_server(struct server_url *url, const char *text, struct weir_error *err)
{
    bool known =
        strncmp(text, "redis:", 6) == 0 || strncmp(text, "rediss:", 7) == 0 || strncmp(text, "unix:", 5) == 0;
    if (known && read_url(url, text, true, err) && url->host_count == 1 &&
        (!url->user[0] || url->password[0]) && /* or nobody would be logged in */
        (!url->path[0] || strcmp(url->path, "/0") == 0)) {
        url->path[0] = '\0';
        write_shown_url(url);
        return true;
    }
    weir_secret_wipe(url, sizeof *url);
    return weir_error_complain(
        err, "not the address of a server; write redis://[user:password@]host:port, rediss:// with TLS, or "
             "unix:///path");
}
