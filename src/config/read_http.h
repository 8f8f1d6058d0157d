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
/* When the file is read without a mistake: the policies of routes must be in it. */
void weir_reading_end_http(struct config_reader *reading);

#endif
