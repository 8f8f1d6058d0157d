/* SPDX-License-Identifier: MIT */
/*
 * An HTTP request while it is being run, and what the files of this folder share.
 */
#ifndef WEIR_SERVICE_HTTP_HTTP_RUN_H
#define WEIR_SERVICE_HTTP_HTTP_RUN_H

#include "service/http/http.h"
#include "service/http/response.h"
#include "service/run.h"

struct http_run {
    struct worker *worker;
    struct session *session;
    struct http_request *request;
    struct http_exchange http;
    struct buffer *out;
    bool admin; /* administrative routes are served on its address */
    struct run_result result;
};

static inline void http_answer_problem(struct http_run *run, int status, const char *detail)
{
    weir_response_problem(run->worker, &run->http, run->out, status, detail, NULL);
}

/* Runs the words of a command; its reply becomes what run->http says. */
static inline void http_run_words(struct http_run *run, const struct slice *words, size_t count)
{
    const struct resp_request request = {words, count};
    run->result = weir_run_requests(run->worker, run->session, &request, 1, &run->http, run->out);
}

#endif
