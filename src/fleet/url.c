/* SPDX-License-Identifier: MIT */
/*
 * Reading a URL. Whoever typed it may have typed a password into it, in the right place or not: so no message
 * here repeats what stands before the last '@', nor anything at all of a text that has one.
 */
#define _POSIX_C_SOURCE 200809L

#include "fleet/url.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/secret.h"
#include "base/text.h"

#define SHAPE "write scheme://host[:port],.../path, such as zookeeper://zk1,zk2,zk3/weir, or local:"

/* What is known of the schemes there are. */
static const struct scheme {
    const char *name;
    int port;
    bool path;
} schemes[] = {
    {"zookeeper", 2181, true}, {"redis", 6379, true}, {"redis+cluster", 6379, false}, {"weir", 9049, false}};

static const struct scheme *scheme_find(const char *name)
{
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (strcmp(schemes[i].name, name) == 0)
            return &schemes[i];
    return NULL;
}

/* A piece of the text. */
struct piece {
    const char *at, *end;
};

static size_t piece_len(struct piece piece)
{
    return (size_t)(piece.end - piece.at);
}

/* Cuts off what stands before the first `mark`; what is behind it stays. false: there is none. */
static bool piece_cut(struct piece *piece, char mark, struct piece *before)
{
    const char *found = memchr(piece->at, mark, piece_len(*piece));
    if (!found)
        return false;
    *before = (struct piece){piece->at, found};
    piece->at = found + 1;
    return true;
}

static bool piece_copy(struct piece piece, char *text, size_t size)
{
    if (piece_len(piece) >= size)
        return false;
    memcpy(text, piece.at, piece_len(piece));
    text[piece_len(piece)] = '\0';
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
static bool decode(struct piece piece, char *text, size_t size)
{
    size_t len = 0;
    for (const char *at = piece.at; at < piece.end; at++) {
        int byte = (unsigned char)*at;
        if (*at == '%') {
            if (piece.end - at < 3 || weir_text_hex(at[1]) < 0 || weir_text_hex(at[2]) < 0)
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

static bool read_scheme(struct fleet_url *url, struct piece *rest, struct weir_error *err)
{
    struct piece name;
    if (!piece_cut(rest, ':', &name) || piece_len(name) == 0 || !is_letter(*name.at))
        return weir_error_complain(err, "this is no URL of a coordinator; " SHAPE);
    for (const char *at = name.at; at < name.end; at++)
        if (!is_letter(*at) && !is_digit(*at) && !strchr("+-.", *at))
            return weir_error_complain(err, "this is no URL of a coordinator; " SHAPE);
    if (!piece_copy(name, url->scheme, sizeof url->scheme))
        return weir_error_complain(err, "no coordinator has such a long scheme; " SHAPE);
    for (char *at = url->scheme; *at; at++)
        *at = weir_text_lower(*at);
    return true;
}

static bool read_user(struct fleet_url *url, struct piece user, struct weir_error *err)
{
    struct piece name = user;
    if (piece_cut(&user, ':', &name)) {
        if (!decode(user, url->password, sizeof url->password))
            return weir_error_complain(err,
                                       "the password in the URL is too long, or has a %% that two "
                                       "hexadecimal digits do not follow; write %%25 for %%, %%40 for @");
    }
    return decode(name, url->user, sizeof url->user) ||
           weir_error_complain(err,
                               "the user in the URL is too long, or has a %% that two hexadecimal digits "
                               "do not follow");
}

static bool is_name_part(char c)
{
    return is_letter(c) || is_digit(c) || c == '-' || c == '.' || c == '_';
}

static bool read_port(struct piece piece, int *port)
{
    int64_t number = 0;
    for (const char *at = piece.at; at < piece.end; at++) {
        if (!is_digit(*at) || number > 65535)
            return false;
        number = number * 10 + (*at - '0');
    }
    *port = (int)number;
    return number >= 1 && number <= 65535;
}

/* name, name:port, [v6], [v6]:port */
static bool read_host(struct fleet_url *url, struct piece piece, const struct scheme *scheme,
                      struct weir_error *err)
{
    struct fleet_host *host = &url->hosts[url->host_count];
    struct piece name = {piece.at, piece.at}, port;
    bool v6 = piece_len(piece) > 0 && *piece.at == '[';
    if (v6) {
        name.at = ++piece.at;
        for (name.end = name.at; name.end < piece.end && *name.end != ']'; name.end++)
            if (weir_text_hex(*name.end) < 0 && *name.end != ':' && *name.end != '.')
                return weir_error_complain(err, "an address in [ ] has hexadecimal digits, : and . only");
        if (name.end == piece.end)
            return weir_error_complain(err, "a ] is missing behind an address in the URL");
        port = (struct piece){name.end + 1, piece.end};
    } else {
        while (name.end < piece.end && is_name_part(*name.end))
            name.end++;
        port = (struct piece){name.end, piece.end};
    }
    if (piece_len(name) == 0 || !piece_copy(name, host->name, sizeof host->name))
        return weir_error_complain(err, "a host is missing in the URL, or is no name; " SHAPE);
    host->port = scheme ? scheme->port : 0;
    if (piece_len(port) > 0 && *port.at != ':')
        return weir_error_complain(err,
                                   "a host in the URL has letters, digits, - . and _; a user and "
                                   "password stand before it with an @, their special characters as %%XX");
    port.at += piece_len(port) > 0;
    if (port.at > name.end + v6 && !read_port(port, &host->port))
        return weir_error_complain(err, "a port in the URL is a number from 1 to 65535");
    url->host_count++;
    return true;
}

static bool read_hosts(struct fleet_url *url, struct piece rest, struct weir_error *err)
{
    const struct scheme *scheme = scheme_find(url->scheme);
    struct piece one;
    for (bool more = true; more;) {
        more = piece_cut(&rest, ',', &one);
        if (!more)
            one = rest;
        if (url->host_count == FLEET_HOSTS_MAX)
            return weir_error_complain(err, "a URL has at most %d hosts", FLEET_HOSTS_MAX);
        if (!read_host(url, one, scheme, err))
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

static bool read_path(struct fleet_url *url, struct piece path, struct weir_error *err)
{
    const struct scheme *scheme = scheme_find(url->scheme);
    if (piece_len(path) > 0 && path.end[-1] == '/')
        path.end--;
    if (!piece_copy(path, url->path, sizeof url->path) || !is_path(url->path))
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

static bool read_query(struct fleet_url *url, struct piece query, struct weir_error *err)
{
    if (!piece_copy(query, url->query, sizeof url->query))
        return weir_error_complain(err, "what stands behind the ? of the URL is too long: at most %zu bytes",
                                   sizeof url->query - 1);
    for (const char *at = url->query; *at; at++)
        if (*at <= ' ' || *at > '~' || *at == '@')
            return weir_error_complain(err, "behind the ? of a URL stand options as name=value, joined by &; "
                                            "a ? in a password is written %%3F");
    return true;
}

/* ---- the whole ---- */

static void show(struct fleet_url *url)
{
    struct text text;
    weir_text_init(&text, url->shown, sizeof url->shown);
    if (url->host_count == 0) {
        weir_text_print(&text, "%s:%s", url->scheme, url->path[0] ? url->path + 1 : "");
    } else {
        weir_text_print(&text, "%s://", url->scheme);
        for (size_t i = 0; i < url->host_count; i++) {
            const struct fleet_host *host = &url->hosts[i];
            bool v6 = strchr(host->name, ':');
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
static bool read_local(struct fleet_url *url, struct piece rest, struct weir_error *err)
{
    size_t len = piece_len(rest);
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

static bool read_remote(struct fleet_url *url, struct piece rest, struct weir_error *err)
{
    if (piece_len(rest) < 2 || memcmp(rest.at, "//", 2) != 0)
        return weir_error_complain(err, "// is missing behind the scheme of the URL; " SHAPE);
    rest.at += 2;
    struct piece authority = rest, path = {rest.end, rest.end}, user = {rest.at, rest.at};
    const char *slash = memchr(rest.at, '/', piece_len(rest));
    if (slash) {
        authority.end = path.at = slash;
    }
    for (const char *at = authority.at; at < authority.end; at++)
        if (*at == '@')
            user.end = at;
    if (user.end > user.at || (authority.at < authority.end && *authority.at == '@'))
        authority.at = user.end + 1;
    return read_user(url, user, err) && read_hosts(url, authority, err) && read_path(url, path, err);
}

bool weir_fleet_url_read(struct fleet_url *url, const char *text, struct weir_error *err)
{
    memset(url, 0, sizeof *url);
    size_t len = text ? strnlen(text, FLEET_URL_MAX) : 0;
    if (len == 0)
        return weir_error_complain(err, "a URL of a coordinator is missing; " SHAPE);
    if (len == FLEET_URL_MAX)
        return weir_error_complain(err, "a URL has at most %d bytes", FLEET_URL_MAX - 1);
    struct piece rest = {text, text + len}, front;
    if (!read_scheme(url, &rest, err))
        return false;
    if (piece_cut(&rest, '?', &front)) {
        if (!read_query(url, rest, err))
            return false;
        rest = front;
    }
    bool local = strcmp(url->scheme, "local") == 0;
    if (!(local ? read_local(url, rest, err) : read_remote(url, rest, err))) {
        weir_secret_wipe(url->password, sizeof url->password);
        return false;
    }
    show(url);
    return true;
}
