/* SPDX-License-Identifier: MIT */
/*
 * Paths of their own, which are no part of the API: health, metrics, the description of the API, forward
 * authentication, throttlecrab's.
 */
#ifndef WEIR_SERVICE_HTTP_SPECIAL_H
#define WEIR_SERVICE_HTTP_SPECIAL_H

#include "service/http/http_run.h"

/* Open: without a login. Exempt: from what keeps web pages of other sites out. */
enum special_access { SPECIAL_OPEN, SPECIAL_EXEMPT, SPECIAL_LOGIN };

struct special_path {
    const char *path;
    unsigned methods;
    enum special_access access;
    void (*answer)(struct http_run *run);
};

extern const struct special_path
    weir_special_paths[]; /* ends with path NULL; without /auth and what is below */

const struct special_path *weir_special_path(struct slice path); /* NULL: it is none */

#endif
