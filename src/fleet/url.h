/* SPDX-License-Identifier: MIT */
/*
 * Where a coordinator is:
 *
 *     zookeeper://[user:password@]host[:2181],host,.../path   digest auth; znodes below /path/quota
 *     redis://[user:password@]host[:6379],host,...[/db]       one server, or several: whoever is master
 *     redis+cluster://...                                     a cluster
 *     weir://[user:password@]host[:9049],host,...             weir servers: names are policies with `fleet:`
 *     local:                                                  this process
 *
 * and behind a '?' options as name=value, joined by '&': those of struct weir_fleet_options by their names.
 */
#ifndef WEIR_FLEET_URL_H
#define WEIR_FLEET_URL_H

#include "weir.h"

#define FLEET_HOSTS_MAX 16
#define FLEET_URL_MAX   1024

struct fleet_host {
    char name[256]; /* a name, an address, or [v6] without the brackets */
    int port;
};

struct fleet_url {
    char scheme[16];
    struct fleet_host hosts[FLEET_HOSTS_MAX];
    size_t host_count;
    char user[128], password[256]; /* percent-decoded; "" if not said */
    char path[256];                /* with its first '/', without a last one; "" if not said */
    char query[512];               /* behind the '?', as it stands */
    char shown[FLEET_URL_MAX];     /* the whole without user and password: for messages */
};

bool weir_fleet_url_read(struct fleet_url *url, const char *text, struct weir_error *err);

#endif
