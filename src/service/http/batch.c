/* SPDX-License-Identifier: MIT */
#include "service/http/batch.h"

#include <stdio.h>
#include <stdlib.h>

#include "http/json.h"
#include "service/http/words.h"

struct http_batch {
    struct resp_request requests[HTTP_BATCH_MAX]; /* `args` are set when all words are there */
    size_t count;
    struct slice *words;
    size_t word_count, word_room;
    size_t pairs; /* of all requests: so their answers fit into what a connection may have waiting */
};

static bool keep_words(struct http_batch *batch, const struct http_words *words)
{
    if (batch->word_count + words->count > batch->word_room) {
        size_t room = 2 * batch->word_room + 4 * HTTP_WORDS_MAX;
        struct slice *more = realloc(batch->words, room * sizeof *more);
        if (!more)
            return false;
        batch->words = more;
        batch->word_room = room;
    }
    memcpy(batch->words + batch->word_count, words->words, words->count * sizeof *words->words);
    batch->requests[batch->count++] = (struct resp_request){NULL, words->count};
    batch->word_count += words->count;
    return true;
}

/* All of it is read before any of it is run: what is written wrongly changes nothing. */
static bool read_batch(struct http_run *run, struct http_batch *batch)
{
    struct json_reader reader;
    struct http_words words;
    struct slice name = {0};
    char why[HTTP_WHY_MAX + 64];
    weir_json_begin(&reader, (char *)(uintptr_t)run->request->body.bytes, run->request->body.len);
    if (!weir_json_enter(&reader, '{') || !weir_json_member(&reader, &name) || !slice_is(name, "requests") ||
        !weir_json_enter(&reader, '[')) {
        http_answer_problem(run, 400,
                            "the body of a batch is {\"requests\": [{\"op\": \"take\", ...}, ...]}");
        return false;
    }
    while (weir_json_element(&reader)) {
        if (!weir_http_words_of_element(&words, &reader)) {
            (void)snprintf(why, sizeof why, "requests[%zu]: %s", batch->count, words.why);
            http_answer_problem(run, 400, why);
            return false;
        }
        batch->pairs += words.pairs;
        if (batch->pairs > HTTP_BATCH_MAX) {
            http_answer_problem(run, 400, "a batch has at most 1000 requests, and pairs of policy and key");
            return false;
        }
        if (!keep_words(batch, &words)) {
            http_answer_problem(run, 503, "out of memory: nothing was decided");
            return false;
        }
    }
    if (!weir_json_member(&reader, &name) && weir_json_end(&reader))
        return true;
    (void)snprintf(why, sizeof why, "the body is not a JSON object: %s",
                   reader.why[0] ? reader.why : "a batch has no field but requests");
    http_answer_problem(run, 400, why);
    return false;
}

static void run_batch_requests(struct http_run *run, struct http_batch *batch)
{
    size_t body_at = buffer_len(run->out);
    const struct slice *words = batch->words;
    for (size_t i = 0; i < batch->count; i++) {
        batch->requests[i].args = words;
        words += batch->requests[i].count;
    }
    if (batch->count > 0 && !weir_session_user(run->session, run->worker->snapshot)) {
        http_run_words(run, batch->requests[0].args, batch->requests[0].count); /* says why nobody may */
        return;
    }
    buffer_put(run->out, "{\"answers\":[", 12);
    run->http.kind = EXCHANGE_ELEMENT;
    run->http.text = false; /* for programs, whatever they accept */
    run->result =
        weir_run_requests(run->worker, run->session, batch->requests, batch->count, &run->http, run->out);
    run->http.kind = EXCHANGE_RESPONSE;
    run->result.done = 1;
    if (run->out->failed)
        return;
    run->out->end -= batch->count > 0; /* the last comma */
    buffer_put(run->out, "]}", 2);
    weir_response_finish(run->worker, &run->http, run->out, body_at, 200, TYPE_JSON, NULL);
}

void weir_http_batch(struct http_run *run)
{
    struct http_batch *batch = malloc(sizeof *batch);
    if (!batch) {
        http_answer_problem(run, 503, "out of memory: nothing was decided");
        return;
    }
    batch->count = batch->word_count = batch->word_room = batch->pairs = 0;
    batch->words = NULL;
    if (read_batch(run, batch))
        run_batch_requests(run, batch);
    free(batch->words);
    free(batch);
}
