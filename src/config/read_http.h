/* SPDX-License-Identifier: MIT */
#ifndef WEIR_CONFIG_READ_HTTP_H
#define WEIR_CONFIG_READ_HTTP_H

#include "config/http_rules.h"
#include "config/keys.h"

/* Keys of the first level whose values are in config->http. */
enum http_key { HTTP_ROUTES, HTTP_ROUTES_DEFAULT, HTTP_TRUSTED_PROXIES, HTTP_IPV6_PREFIX, HTTP_SECTION };
#define HTTP_KEY(NAME, KEY)                                                                                  \
    {                                                                                                        \
        (NAME), "", KEY_OWN, .least = (KEY), .read = weir_reading_http, .print = weir_http_print             \
    }

key_read weir_reading_http;
key_print weir_http_print;
/* Complains of policies that routes name and the file does not have. */
void weir_reading_check_routes(struct config_reader *reading);

#endif
