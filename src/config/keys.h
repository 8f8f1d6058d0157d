/* SPDX-License-Identifier: MIT */
/*
 * A key of weir.yaml is one row: its name, where its value is kept, its type and bounds, and what a message
 * says to write. Reading (values.h), printing, "did you mean", what a reload compares with the start, and for
 * settings of a policy WEIR.POLICY SHOW, dumps, the catalogue and weir check follow from the row.
 */
#ifndef WEIR_CONFIG_KEYS_H
#define WEIR_CONFIG_KEYS_H

#include "base/buffer.h"
#include "config/config.h"

enum key_type {
    KEY_COUNT, /* 5, 10k. This and all other numbers are an int64_t */
    KEY_SIZE,  /* 256MiB: bytes */
    KEY_MS,    /* 30s: milliseconds, rounded up */
    KEY_NS,    /* 30s: nanoseconds */
    KEY_WORD,  /* one of `words`, as a number: `least` is the first of them */
    KEY_TEXT,  /* a char *, as all that follow: of at most `most` bytes, if `check` agrees */
    KEY_NAME,  /* of a policy or user */
    KEY_PATH,  /* of a file, beside the configuration unless it is a whole path */
    KEY_TEXTS, /* a struct text_list of at most `most`: texts of any length */
    KEY_NAMES, /* the same of names */
    KEY_MAP,   /* keys of the same struct, in a map of their own: `inside` */
    KEY_OWN    /* has its own `read`, and `print` unless it is not printed */
};

struct config_key;
struct config_reader;
struct yaml_node;
typedef void key_read(struct config_reader *reading, const struct yaml_node *node,
                      const struct config_key *key, void *into);
/* Whole lines that begin with so many blanks. */
typedef void key_print(struct buffer *out, const struct config_key *key, const void *from, int indent);

struct config_map {
    const struct config_key *keys;
    size_t count;
    const char *const (*advice)[2]; /* what people write that is no key here, and what to write; or NULL */
    size_t advice_count;
};

struct config_key {
    const char *name, *write; /* `write` ends complaints: "write 127.0.0.1:9049" */
    enum key_type type;
    size_t offset;       /* in the struct of its map */
    int64_t least, most; /* in the unit that is kept */
    int64_t usual;       /* what a 0 stands for; 0: see `unset` */
    /* What is printed of a 0 or NULL: a word that is read back as it, "# " and a comment, or NULL: nothing.
     */
    const char *unset;
    const char *const *words; /* up to NULL */
    bool (*check)(const char *text);
    const char *(*fault)(const char *text); /* what is wrong with a text and what to write; NULL: nothing */
    bool one;                               /* a list of one needs no brackets */
    const struct config_map *inside;
    key_read *read;
    key_print *print;
    /* Settings of a policy: what it is called by WEIR.POLICY SHOW, in a dump, and by weir check if that is
     * not `name`. */
    const char *shown, *dumped, *label;
};

#define BETWEEN(LEAST, MOST) .least = (LEAST), .most = (MOST)
#define KEY_ARRAY(KEYS)      .keys = (KEYS), .count = sizeof(KEYS) / sizeof((KEYS)[0])
#define KEY_ADVICE(ADVICE)   .advice = (ADVICE), .advice_count = sizeof(ADVICE) / sizeof((ADVICE)[0])

/* The number of a key in the struct of its map. */
static inline int64_t *key_number(const struct config_key *key, const void *from)
{
    return (int64_t *)(void *)((char *)(uintptr_t)from + key->offset);
}

/* Prints all keys of a map. `entry`: as one of a list, with a dash in front. */
void weir_keys_print(struct buffer *out, const struct config_map *map, const void *from, int indent,
                     bool entry);
void weir_key_print(struct buffer *out, const struct config_key *key, const void *from, int indent);
/* The beginning of a line: "    name: ". */
void weir_key_print_name(struct buffer *out, const struct config_key *key, int indent);
/* A text, in quotes if YAML needs them. */
void weir_key_print_text(struct buffer *out, const char *text, size_t len);
/* A list in brackets, with `end` behind each; none: nothing at all. */
void weir_key_print_texts(struct buffer *out, const struct config_key *key, const struct text_list *list,
                          const char *end, int indent);
/* A time in its shortest words. */
void weir_key_print_time(struct buffer *out, int64_t time_ns);

#endif
