/* SPDX-License-Identifier: MIT */
/*
 * Writes one JSON document to a stream, piece by piece. Commas, quotes and line breaks come by themselves;
 * the caller opens and closes in the right order. A name is NULL inside an array.
 */
#ifndef WEIR_CLI_JSON_H
#define WEIR_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_DEPTH_MAX 8

struct json {
    FILE *file;
    int depth;
    char bracket[JSON_DEPTH_MAX]; /* that closes what is open at this depth */
    bool filled[JSON_DEPTH_MAX];  /* something stands at this depth already */
    bool flat[JSON_DEPTH_MAX];    /* on one line */
};

enum json_layout { JSON_LINES, JSON_FLAT };

void json_open(struct json *json, const char *name, char bracket, enum json_layout layout); /* '{' or '[' */
void json_close(struct json *json, char bracket);                                           /* '}' or ']' */
void json_text(struct json *json, const char *name, const char *text);
void json_number(struct json *json, const char *name, int64_t number);
void json_decimal(struct json *json, const char *name, double number);
void json_bool(struct json *json, const char *name, bool value);

/* A document that came as text, in the layout of all others. */
void json_reprint(FILE *file, const char *text, size_t len);

/* A bound: WEIR_FOREVER, "there is none", is null. */
void json_bound(struct json *json, const char *name, int64_t number);

#endif
