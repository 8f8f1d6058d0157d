/* SPDX-License-Identifier: MIT */
/*
 * From an HTTP request to the words of a command: path, query and JSON body, decoded in place, once.
 */
#ifndef WEIR_SERVICE_HTTP_WORDS_H
#define WEIR_SERVICE_HTTP_WORDS_H

#include "http/json.h"
#include "service/http/endpoints.h"

#define HTTP_PAIRS_MAX 9 /* one more than can be decided, so that the engine says so */
#define HTTP_WORDS_MAX (HTTP_PAIRS_MAX * 4 + 24) /* and numbers of a commit */
#define HTTP_WHY_MAX   256

struct http_words {
    struct slice words[HTTP_WORDS_MAX];
    size_t count;
    size_t pairs; /* of policy and key: at least one */
    char why[HTTP_WHY_MAX]; /* of what is wrong */
};

/* Of a request with an endpoint. `policy` and `key` are those of the path, not decoded. false: `why` says
 * what is wrong. */
bool weir_http_words(struct http_words *words, const struct endpoint *endpoint,
                     const struct http_request *request, struct slice policy, struct slice key);
/* Of the next element of a batch: {"op": "take", ...}. */
bool weir_http_words_of_element(struct http_words *words, struct json_reader *reader);

/* Parameters of the query that are about the response: they are no words of the command. */
bool weir_http_is_option(struct slice name);

#endif
