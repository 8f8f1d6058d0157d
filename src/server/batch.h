/* SPDX-License-Identifier: MIT */
/*
 * Requests that are run together: as many as there are in some bytes, up to BATCH. No sockets here.
 */
#ifndef WEIR_SERVER_BATCH_H
#define WEIR_SERVER_BATCH_H

#include "resp/read.h"

#define BATCH                32
#define BATCH_WORDS          1024 /* a batch ends when its requests have so many words */
#define ARGS_MAX             1024
#define BULK_MAX             (64 * 1024)
#define REQUEST_MAX          (1 << 20)
#define UNAUTHENTICATED_ARGS 10
#define UNAUTHENTICATED_BULK 16384

enum batch_end {
    BATCH_FULL,   /* there may be more in the bytes */
    BATCH_MORE,   /* the rest is no whole request */
    BATCH_BAD,    /* got.why is what the client is told before it is closed */
    BATCH_FOREIGN /* it is no client of ours, and is closed without a word */
};

struct request_batch {
    struct resp_request requests[BATCH];
    size_t ends[BATCH]; /* where each one's bytes end */
    size_t count;
    size_t end; /* where the bytes end that are done with */
    enum batch_end why;
    struct resp_request_info got;
};

/* `args` has room for BATCH_WORDS + ARGS_MAX words. An unauthenticated client has not logged in, and must. */
void weir_batch_read(struct request_batch *batch, struct slice *args, bool unauthenticated, char *bytes,
                     size_t len);

#endif
