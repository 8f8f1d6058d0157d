/* SPDX-License-Identifier: MIT */
/*
 * Paths and hosts of requests, and the patterns of routes that they are matched with.
 *
 * Guarantee: two spellings of a path that RFC 3986 calls equivalent match the same patterns, and so do paths
 * that differ in empty segments ("//a/" and "/a") alone. A path is decoded once, then "." and ".." are
 * removed. A spelling that servers understand differently is refused: an encoded slash or backslash, a
 * backslash, a control character, a '#', a % without two hexadecimal digits. Any thread.
 */
#ifndef WEIR_HTTP_PATH_H
#define WEIR_HTTP_PATH_H

#include "http/request.h"

#define PATH_SEGMENTS_MAX 128
#define PATH_PATTERN_MAX  512 /* bytes */
#define HOST_MAX          255

struct http_path {
    size_t count;
    struct slice segments[PATH_SEGMENTS_MAX];
    char bytes[HTTP_TARGET_MAX];
};

/* Reads a path as it was sent, without its query. false: *why says what is wrong. */
bool weir_path_read(struct slice text, struct http_path *path, const char **why);
/* `*` stands for one segment, `**` at the end for any number of them, also none. Takes at most as many steps
 * as the pattern has bytes. */
bool weir_path_match(const struct http_path *path, const char *pattern);
/* Returns NULL, or what is wrong with a pattern and what to write. */
const char *weir_path_pattern_fault(const char *pattern);

/* Takes the port and a dot at the end away. false: it is no host. */
bool weir_host_read(struct slice text, struct slice *host);
/* Whatever the case; "*.example.com" stands for all names below example.com. */
bool weir_host_match(struct slice host, const char *pattern);
const char *weir_host_pattern_fault(const char *pattern);

#endif
