/* SPDX-License-Identifier: MIT */
/*
 * Where a server or a coordinator is:
 *
 *     zookeeper://[user:password@]host[:2181],host,.../path   digest auth; znodes below /path/quota
 *     redis://[user:password@]host[:6379],host,...[/db]       one server, or several: whoever is master
 *     redis+cluster://...                                     a cluster
 *     weir://[user:password@]host[:9049],host,...             weir servers: names are policies with `fleet:`
 *     local:                                                  this process
 *     unix://[user:password@]/path                            a socket of this machine
 *
 * and behind a '?' options as name=value, joined by '&': those of struct weir_fleet_options by their names.
 */
#ifndef WEIR_RESP_CLIENT_URL_H
#define WEIR_RESP_CLIENT_URL_H

#include "weir.h"

#define URL_HOSTS_MAX 16
#define URL_TEXT_MAX  1024
#define WEIR_PORT     9049

struct server_host {
    char name[256]; /* a name, an address, [v6] without the brackets, or the path of a unix socket */
    int port;
};

struct server_url {
    char scheme[16];
    struct server_host hosts[URL_HOSTS_MAX];
    size_t host_count;
    char user[128], password[256]; /* percent-decoded; "" if not said */
    char path[256];                /* with its first '/', without a last one; "" if not said */
    char query[512];               /* behind the '?', as it stands */
    char shown[URL_TEXT_MAX];      /* the whole without user and password: for messages */
};

/* Of a coordinator. */
bool weir_url_read(struct server_url *url, const char *text, struct weir_error *err);
/* Of a weir server that is asked: redis:// (its port is WEIR_PORT then) or unix://, and one of them. */
bool weir_url_read_server(struct server_url *url, const char *text, struct weir_error *err);

#endif
