/* SPDX-License-Identifier: MIT */
/*
 * What can be asked over HTTP: a table, from which come dispatch, the words of the commands, /v1/openapi.json
 * and the tests that go through all of it. A row names the words that a request becomes; the rights are those
 * of the command.
 *
 * Parameters come from the path (policy, then key, which is the rest of it), from the query of GET and
 * DELETE, and from the JSON body of POST and PUT; the words stand in the order of the table.
 */
#ifndef WEIR_SERVICE_HTTP_ENDPOINTS_H
#define WEIR_SERVICE_HTTP_ENDPOINTS_H

#include "http/request.h"

enum param_kind {
    PARAM_POLICY, /* a name */
    PARAM_KEY,    /* any bytes: `key`, or `key_b64` in base64 */
    PARAM_TEXT,
    PARAM_CHOICE,  /* one of the words in `values` */
    PARAM_NUMBER,  /* a whole number */
    PARAM_NUMBERS, /* one, or a list of them */
    PARAM_FLAG,    /* true: its token stands there */
    PARAM_PAIRS    /* a list of objects with the parameters before this one: all or none */
};

struct param {
    const char *name; /* NULL: the end */
    enum param_kind kind;
    bool required;
    const char *token;   /* the word in front of it, or NULL */
    const char *values;  /* PARAM_CHOICE: "taken|refused" */
    const char *summary; /* one sentence */
};
#define PARAMS_MAX 8

enum endpoint_place { PLACE_NONE, PLACE_POLICY, PLACE_KEY }; /* what follows the name in the path */

enum endpoint_flags {
    ENDPOINT_DECIDES = 1, /* a refusal has a status of its own: 429 */
    ENDPOINT_FULL = 2,    /* asks for the answer in numbers */
    ENDPOINT_BATCH = 4,   /* may be an element of a batch */
    ENDPOINT_TEXT = 8,    /* its reply is text that people read; with JSON at its end it is JSON */
    ENDPOINT_INFO = 16,   /* its reply is that of INFO */
    ENDPOINT_ADMIN = 32,  /* only on the admin address, if there is one */
    ENDPOINT_NONE = 64    /* the word NONE stands behind the parameters */
};

struct endpoint {
    const char *name; /* behind /v1/ */
    enum http_method method;
    enum endpoint_place place;
    unsigned flags;
    const char *words[2]; /* of the command, and perhaps the subcommand */
    const struct param *params;
    const char *summary;
};

extern const struct endpoint weir_endpoints[]; /* ends with name NULL */

/* The row of a path behind /v1/, with what follows its name. NULL: there is none; *allowed has the methods of
 * the path, if any. */
const struct endpoint *weir_endpoint_find(struct slice path, enum http_method method, struct slice *policy,
                                          struct slice *key, unsigned *allowed);
/* The row that an element of a batch means; NULL: there is none. */
const struct endpoint *weir_endpoint_in_batch(struct slice name);
/* The name that was probably meant, or NULL. */
const char *weir_endpoint_near(struct slice path);

#endif
