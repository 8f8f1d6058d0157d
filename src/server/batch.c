/* SPDX-License-Identifier: MIT */
#include "server/batch.h"

#include "base/text.h"

static bool is_request_word(struct slice name, const char *word, size_t len)
{
    return name.len == len && weir_text_same(name.bytes, len, word);
}

/* A browser that was lured to this port sends these. */
static bool is_foreign_protocol(struct slice name)
{
    return is_request_word(name, "post", 4) || is_request_word(name, "host:", 5);
}

/*
 * What a later request may be can depend on what an earlier one does: an unauthenticated client's come one by
 * one, and none follows a RESET. A typed line is changed as it is read, and could not be read again: so it
 * comes alone.
 */
void weir_batch_read(struct request_batch *batch, struct slice *args, bool unauthenticated, char *bytes,
                     size_t len)
{
    const struct resp_limits limits = {.args = unauthenticated ? UNAUTHENTICATED_ARGS : ARGS_MAX,
                                       .bulk = unauthenticated ? UNAUTHENTICATED_BULK : BULK_MAX,
                                       .all = REQUEST_MAX,
                                       .unauthenticated = unauthenticated};
    const struct slice *room_end = args + BATCH_WORDS;
    batch->count = 0;
    batch->end = 0;
    batch->why = BATCH_FULL;
    while (batch->count < BATCH && args < room_end) {
        struct resp_reader reader = {0};
        bool typed = batch->end < len && bytes[batch->end] != '*';
        if (typed && batch->count > 0)
            return;
        enum resp_status got =
            weir_resp_read(&reader, &limits, bytes + batch->end, len - batch->end, args, &batch->got);
        if (got == RESP_MORE || got == RESP_BAD) {
            batch->why = got == RESP_MORE ? BATCH_MORE : BATCH_BAD;
            return;
        }
        batch->end += batch->got.used;
        if (got == RESP_NOTHING)
            continue;
        if (is_foreign_protocol(args[0])) {
            batch->why = BATCH_FOREIGN;
            return;
        }
        batch->requests[batch->count] = (struct resp_request){args, batch->got.words};
        batch->ends[batch->count++] = batch->end;
        if (typed || unauthenticated || is_request_word(args[0], "reset", 5))
            return;
        args += batch->got.words;
    }
}
