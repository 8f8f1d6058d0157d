/* SPDX-License-Identifier: MIT */
/*
 * Requests of the Redis protocol: arrays of bulk strings, or a line as a person types it. Sans-IO: bytes in,
 * words out; nothing is copied, the words lie in the bytes. The same bytes give the same requests however
 * they are cut.
 */
#ifndef WEIR_RESP_READ_H
#define WEIR_RESP_READ_H

#include <stdint.h>

#include "base/buffer.h"

#define RESP_LINE_MAX 65536 /* bytes of an inline request, and of a header line, as Redis has it */

/* What a client may send; smaller before it has logged in. */
struct resp_limits {
    size_t args;          /* words of a request; no number in a request may be above INT32_MAX in any case */
    size_t bulk;          /* bytes of a word */
    size_t all;           /* bytes of a request */
    bool unauthenticated; /* has not logged in: the messages say "unauthenticated" */
};

struct resp_request {
    const struct slice *args; /* the name first; at least one */
    size_t count;
};

/* How far a request has come that is not all there yet. Starts as { 0 }, and is that again after each
 * request. */
struct resp_reader {
    size_t at;        /* where the line or the word begins that is not all there */
    size_t seen;      /* bytes behind `at` that have no end of a line among them */
    int64_t expected; /* words that the array announced; 0: no array has begun */
    int64_t bulk;     /* bytes that the next word announced, -1: not known yet */
    size_t
        words; /* that are complete: args[0 ... words - 1]; their `bytes` are offsets until all are there */
};

enum resp_status {
    RESP_MORE,    /* not all there: call again with more bytes behind these */
    RESP_REQUEST, /* *used bytes are a request; its words are in args */
    RESP_NOTHING, /* *used bytes ask for nothing (an empty line, *0, *-1) */
    RESP_BAD      /* `why` is what the client is told, without "-ERR "; the connection must be closed */
};

struct resp_request_info {
    size_t used;  /* set by REQUEST and NOTHING */
    size_t words; /* by REQUEST: at least 1 */
    char why[96]; /* by BAD */
};

/*
 * Reads the first request in `bytes`. `args` has room for limits->args words and keeps, until the request is
 * complete, what is known of it, so it must be the same memory in each call for one request; a request that
 * is complete has its words there. Between calls for one request the bytes may move, but not change. Quotes
 * and escapes of a line are resolved in place: `bytes` is changed.
 */
enum resp_status weir_resp_read(struct resp_reader *reader, const struct resp_limits *limits, char *bytes,
                                size_t len, struct slice *args, struct resp_request_info *got);

#endif
