/* SPDX-License-Identifier: MIT */
/*
 * Where a server or a coordinator is:
 *
 *     zookeeper://[user:password@]host[:2181],host,.../path   digest auth; znodes below /path/quota
 *     redis://[user:password@]host[:6379],host,...[/db]       one server, or several: whoever is master
 *     redis+cluster://...                                     a cluster
 *     weir://[user:password@]host[:9049],host,...             weir servers: names are policies with `fleet:`
 *     rediss://, rediss+cluster://, weirs://                  the same with TLS; the port of weirs:// is 9449
 *     local:                                                  this process
 *     unix://[user:password@]/path                            a socket of this machine
 *
 * and behind a '?' options as name=value, joined by '&': those of struct weir_fleet_options by their names,
 * and with TLS cacert, cert and key, which are paths, and insecure=yes.
 */
#ifndef WEIR_RESP_CLIENT_URL_H
#define WEIR_RESP_CLIENT_URL_H

#include "weir.h"

#define URL_HOSTS_MAX 16
#define URL_TEXT_MAX  1024
#define WEIR_PORT     9049
#define WEIR_TLS_PORT 9449
#define URL_PATH_MAX  256

struct server_host {
    char name[256]; /* a name, an address, [v6] without the brackets, or the path of a unix socket */
    int port;
};

struct url_tls {
    bool on;
    bool insecure;                                                    /* whoever answers is believed */
    char cacert[URL_PATH_MAX], cert[URL_PATH_MAX], key[URL_PATH_MAX]; /* "": none; the CAs of the system */
};

struct server_url {
    char scheme[16]; /* of rediss:// as well redis: see `tls` */
    struct server_host hosts[URL_HOSTS_MAX];
    size_t host_count;
    char user[128], password[256]; /* percent-decoded; "" if not said */
    char path[256];                /* with its first '/', without a last one; "" if not said */
    char query[512];               /* behind the '?', as it stands, without options of TLS */
    struct url_tls tls;
    char shown[URL_TEXT_MAX]; /* the whole without user and password: for messages */
};

/* Of a coordinator. */
bool weir_url_read(struct server_url *url, const char *text, struct weir_error *err);
/* Of a weir server that is asked: redis:// (its port is WEIR_PORT then), rediss:// or unix://, and one of
 * them. */
bool weir_url_read_server(struct server_url *url, const char *text, struct weir_error *err);

#endif
