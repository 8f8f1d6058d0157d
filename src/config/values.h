/* SPDX-License-Identifier: MIT */
/*
 * Inside of the configuration: a file becomes a tree of texts, lists and maps that know where they stand
 * (yaml.c), and readers walk over it, each for its part (config.c, read_policy.c, read_fleet.c,
 * read_users.c). A reader that finds a mistake complains and goes on, so that one run tells all of them. Of
 * one thread.
 */
#ifndef WEIR_CONFIG_VALUES_H
#define WEIR_CONFIG_VALUES_H

#include "config/keys.h"
#include "config/yaml.h"

#define CONFIG_FILE_MAX       ((size_t)4 << 20) /* bytes of a file */
#define CONFIG_DEPTH_MAX      8
#define CONFIG_TEXT_MAX       65536  /* bytes of a text in it */
#define CONFIG_NODES_MAX      500000 /* texts, lists and maps: some 60 MB */
#define CONFIG_COMPLAINTS_MAX 20
#define CONFIG_KEY_MAX        4096 /* bytes of a key, as KEY_MAX says */
#define CONFIG_OVERRIDES_MAX  65536
#define CONFIG_USERS_MAX      1024
#define CONFIG_RIGHTS_MAX     256 /* prefixes of a user, policies of a user */

struct config_reader {
    const char *file;              /* as it is called in complaints */
    struct config_complaint *kept; /* CONFIG_COMPLAINTS_MAX of them, to be told in the order of lines */
    config_complain *complain;
    void *arg;
    struct config *config;
    int complaints;
    bool out_of_memory;
};

__attribute__((format(printf, 3, 4))) void
weir_reading_wrong(struct config_reader *reading, struct config_place place, const char *format, ...);
/* The mistake is in the text of `node`, at this character of it, from 1; 0: all of it is wrong. */
void weir_reading_wrong_inside(struct config_reader *reading, const struct yaml_node *node, int32_t column,
                               const char *message);
void weir_reading_no_memory(struct config_reader *reading);
void weir_reading_tell(struct config_reader *reading); /* what was kept */

/* Reads a map; `whose` is for complaints: "policy 'api'". false: it is no map. */
bool weir_reading_map(struct config_reader *reading, const struct yaml_node *node, const char *whose,
                      const struct config_map *map, void *into);
/* Reads the value of one key of a map. */
key_read weir_reading_key;
/* "policy 'api'", or "a policy" if it has no name. */
#define READING_WHOSE 84
void weir_reading_whose(const char *what, const struct yaml_node *node, char whose[static READING_WHOSE]);
const struct yaml_node *weir_node_find(const struct yaml_node *map, const char *name); /* NULL: none */
size_t weir_node_count(const struct yaml_node *node);                                  /* of a list or map */

/* Is it a text that can be meant? Not empty, no NUL, no boolean; else complains. */
bool weir_reading_is_text(struct config_reader *reading, const struct yaml_node *node,
                          const struct config_key *key);
/* A copy of the text, or NULL after a complaint. */
char *weir_reading_text(struct config_reader *reading, const struct yaml_node *node,
                        const struct config_key *key);
/* Is it a list, not an empty one, of at most `most`? Else complains. */
bool weir_reading_is_list(struct config_reader *reading, const struct yaml_node *node,
                          const struct config_key *key, size_t most);
/* A list of at most `most` texts, each by `read`. */
typedef char *text_read(struct config_reader *reading, const struct yaml_node *node,
                        const struct config_key *key);
void weir_reading_texts(struct config_reader *reading, const struct yaml_node *node,
                        const struct config_key *key, size_t most, text_read *read, struct text_list *list);
/* "threads cannot be '0'; write a number from 1 to 64". */
void weir_reading_unfit(struct config_reader *reading, const struct yaml_node *node,
                        const struct config_key *key);
/* What the types of keys.h are read by. The bounds are those of the key, the number is in its unit. */
bool weir_reading_number(struct config_reader *reading, const struct yaml_node *node,
                         const struct config_key *key, int64_t *number);
/* The number of the word in `words`, which end with NULL; -1 after a complaint. */
int weir_reading_word(struct config_reader *reading, const struct yaml_node *node,
                      const struct config_key *key, const char *const *words);
/* Replaces what was there, unless there is no memory for it. */
void weir_reading_set_text(char **at, char *text);
/* What a file says that comes with a later version. */
void weir_reading_later(struct config_reader *reading, const struct yaml_node *node,
                        const struct config_key *key, void *into);
/* A name for a policy or user, or NULL. */
char *weir_reading_name(struct config_reader *reading, const struct yaml_node *node,
                        const struct config_key *key);
char *weir_reading_copy(struct config_reader *reading, const char *bytes, size_t len);
/* A path: beside the file that names it, unless it is a whole one. NULL: out of memory. */
char *weir_reading_beside(struct config_reader *reading, const struct yaml_node *node);
/* `count` elements of zeros; NULL: out of memory, complained. */
void *weir_reading_array(struct config_reader *reading, size_t count, size_t size);
/* Bytes in a complaint: printable and not too long. */
#define READING_SHOWN 68
const char *weir_reading_show(const char *bytes, size_t len, char text[static READING_SHOWN]);

#endif
