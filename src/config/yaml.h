/* SPDX-License-Identifier: MIT */
/*
 * A file as a tree of texts, lists and maps that know where they stand.
 */
#ifndef WEIR_CONFIG_YAML_H
#define WEIR_CONFIG_YAML_H

#include "config/config.h"

enum yaml_node_kind { NODE_TEXT, NODE_LIST, NODE_MAP };

struct yaml_node {
    enum yaml_node_kind kind;
    bool plain; /* a text without quotes */
    bool exact; /* it stands in the file as it is, on one line: columns inside can be counted */
    struct config_place place;
    char *text; /* with a NUL behind it, and perhaps others inside */
    size_t len;
    char *key; /* in a map: its name there */
    size_t key_len;
    struct config_place key_place;
    struct yaml_node *first, *last, *next;
};

struct config_reader;
/* NULL: a complaint was made. An empty file is an empty map. */
struct yaml_node *weir_node_read(struct config_reader *reading, const char *text, size_t len);
void weir_node_free(struct yaml_node *node); /* texts are overwritten: a password may be among them */

#endif
