/* SPDX-License-Identifier: MIT */
/*
 * Replies as a client reads them, version 2 and 3: bytes in, a tree out. Sans-IO; depth, elements and bytes
 * are bounded. And requests as a client writes them.
 */
#ifndef WEIR_RESP_REPLY_H
#define WEIR_RESP_REPLY_H

#include <stdint.h>

#include "base/buffer.h"

#define RESP_DEPTH_MAX    16
#define RESP_ELEMENTS_MAX (1 << 20)

enum resp_type {
    RESP_SIMPLE,
    RESP_ERROR,
    RESP_INTEGER,
    RESP_BULK,
    RESP_NULL,
    RESP_BOOL,
    RESP_DOUBLE,
    RESP_VERBATIM,
    RESP_ARRAY,
    RESP_MAP,
    RESP_SET,
    RESP_PUSH
};

/* A map has its keys and values in turn. Text lies in the bytes that were read. Attributes are skipped. */
struct resp_value {
    enum resp_type type;
    int64_t integer;   /* INTEGER, BOOL */
    double number;     /* DOUBLE */
    struct slice text; /* SIMPLE, ERROR (with its code word), BULK, VERBATIM (without "txt:") */
    struct resp_value *elements;
    size_t count;
};

enum resp_parsed { RESP_PARSED, RESP_INCOMPLETE, RESP_BROKEN, RESP_NO_MEMORY };

/* Reads the first reply in `bytes`: *used bytes. The tree is one piece of memory that weir_resp_value_free
 * gives back. */
enum resp_parsed weir_resp_parse(const char *bytes, size_t len, struct resp_value **value, size_t *used);
void weir_resp_value_free(struct resp_value *value);
/* A copy of the tree, to be freed like it, whose texts lie in `bytes`, which is empty before. NULL: out of
 * memory. */
struct resp_value *weir_resp_value_copy(const struct resp_value *from, struct buffer *bytes);

/* The value of a name in a MAP, or in an ARRAY of pairs as version 2 has it; NULL: none. */
const struct resp_value *weir_resp_get(const struct resp_value *map, const char *name);

void weir_resp_ask(struct buffer *out, const struct slice *words, size_t count);

#endif
