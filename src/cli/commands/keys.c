/* SPDX-License-Identifier: MIT */
/*
 * weir keys: all keys of a policy that have spent something.
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/words.h"

#define PAGE       1000
#define ROWS_MAX   1000000 /* that are sorted: they are kept until the last has come */
#define CURSOR_MAX 64

enum { SORT_NONE, SORT_USED, SORT_REMAINING };
static int sort_by;
static int64_t most;

struct key_line {
    int64_t used, remaining, reset_after_ms;
    char id[20];
    char *key; /* or NULL: not known */
};

struct key_list {
    struct key_line *lines;
    size_t count, room;
    int64_t told, hashed;
    struct json json;
};

/* ---- printing ---- */

static void tell_key(struct key_list *list, const struct key_line *line)
{
    char text[HUMANIZE_MAX];
    if (ask_options.json && list->told == 0)
        json_open(&list->json, NULL, '[', JSON_LINES);
    list->told++;
    list->hashed += !line->key;
    if (ask_options.json) {
        json_open(&list->json, NULL, '{', JSON_FLAT);
        if (line->key)
            json_text(&list->json, "key", line->key);
        else
            json_bound(&list->json, "key", WEIR_FOREVER); /* null */
        json_text(&list->json, "id", line->id);
        json_number(&list->json, "used", line->used);
        json_number(&list->json, "remaining", line->remaining);
        json_number(&list->json, "reset_after_ms", line->reset_after_ms);
        json_close(&list->json, '}');
        return;
    }
    printf("%12s used", words_number(line->used, text));
    printf("  %12s left  ", words_number(line->remaining, text));
    if (line->key)
        ask_put(stdout, (struct slice){line->key, strlen(line->key)});
    else
        printf("#%s", line->id);
    fputc('\n', stdout);
}

static void tell_end(struct key_list *list)
{
    if (ask_options.json) {
        if (list->told == 0)
            json_open(&list->json, NULL, '[', JSON_LINES);
        json_close(&list->json, ']');
    } else if (list->told == 0) {
        puts("no key has spent anything");
    } else if (list->hashed > 0) {
        printf("# %" PRId64 " of %" PRId64
               " keys are known by a hash alone: weir keeps names of overrides and of "
               "the busiest\n",
               list->hashed, list->told);
    }
}

/* ---- all of them ---- */

/* The one that comes first in the order. */
static int compare_lines(const void *left, const void *right)
{
    const struct key_line *a = left, *b = right;
    int by_left = (a->remaining > b->remaining) - (a->remaining < b->remaining);
    int by_used = (a->used < b->used) - (a->used > b->used);
    int first = sort_by == SORT_USED ? by_used : by_left, second = sort_by == SORT_USED ? by_left : by_used;
    return first != 0 ? first : second != 0 ? second : strcmp(a->id, b->id);
}

static bool keep_line(struct key_list *list, const struct key_line *line)
{
    if (list->count == ROWS_MAX) {
        args_fail(
            "keys",
            "there are more than %d keys, too many to be sorted: leave --sort out, and sort what it prints",
            ROWS_MAX);
        return false;
    }
    if (list->count == list->room) {
        size_t room = list->room > 0 ? 2 * list->room : PAGE;
        struct key_line *lines = realloc(list->lines, room * sizeof *lines);
        if (!lines) {
            args_fail("keys", "out of memory");
            return false;
        }
        list->lines = lines;
        list->room = room;
    }
    list->lines[list->count++] = *line;
    return true;
}

/* A name with a NUL in it is no text: its id stands for it. */
static bool read_key_line(struct key_list *list, const struct resp_value *row)
{
    struct slice id = ask_text(row, "id"), key = ask_text(row, "key");
    struct key_line line = {.used = ask_number(row, "used"),
                            .remaining = ask_number(row, "remaining"),
                            .reset_after_ms = ask_number(row, "reset_after_ms")};
    (void)snprintf(line.id, sizeof line.id, "%.*s", (int)(id.len < 16 ? id.len : 16), id.bytes);
    if (ask_has(row, "key") && !memchr(key.bytes, '\0', key.len)) {
        line.key = strndup(key.bytes, key.len);
        if (!line.key) {
            args_fail("keys", "out of memory");
            return false;
        }
    }
    if (sort_by != SORT_NONE) {
        bool kept = keep_line(list, &line);
        if (!kept)
            free(line.key);
        return kept;
    }
    if (most == 0 || list->told < most)
        tell_key(list, &line);
    free(line.key);
    return true;
}

static bool read_keys(struct key_list *list, struct cli_client *client, const char *policy)
{
    char cursor[CURSOR_MAX] = "0";
    do {
        struct ask ask;
        ask_begin(&ask, "WEIR.KEYS", policy, "CURSOR", cursor, "COUNT", NULL);
        ask_add_number(&ask, PAGE);
        const struct resp_value *page = ask_tell("keys", client, &ask);
        const struct resp_value *keys = page ? weir_resp_get(page, "keys") : NULL;
        if (!keys)
            return false;
        for (size_t i = 0; i < keys->count; i++)
            if (!read_key_line(list, &keys->elements[i]))
                return false;
        struct slice next = ask_text(page, "cursor");
        if (next.len == 0 || next.len >= sizeof cursor) {
            args_fail("keys", "the server's answer has no cursor");
            return false;
        }
        memcpy(cursor, next.bytes, next.len);
        cursor[next.len] = '\0';
    } while (strcmp(cursor, "0") != 0 && (sort_by != SORT_NONE || most == 0 || list->told < most));
    return true;
}

static void tell_sorted(struct key_list *list)
{
    if (list->count > 0)
        qsort(list->lines, list->count, sizeof *list->lines, compare_lines);
    for (size_t i = 0; i < list->count && (most == 0 || list->told < most); i++)
        tell_key(list, &list->lines[i]);
}

static void free_lines(struct key_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->lines[i].key);
    free(list->lines);
}

static int run_keys(const struct cli_command *command, int count, char **argv)
{
    struct key_list list = {.json = {.file = stdout}};
    struct cli_client *client = ask_open(command->name, ask_options.server, true);
    (void)count;
    if (!client)
        return EXIT_ERROR;
    bool done = read_keys(&list, client, argv[1]);
    if (done)
        tell_sorted(&list);
    if (done)
        tell_end(&list);
    free_lines(&list);
    client_close(client);
    return done ? EXIT_OK : EXIT_ERROR;
}

static const struct args_option options[] = {
    OPT_WORD("sort", &sort_by, "none|used|remaining", "BY",
             "used: who has used most first; remaining: who has least left (none)"),
    OPT_COUNT("count", &most, "N", "so many of them (all)"),
    ASK_SERVER,
    ASK_JSON,
};

const struct cli_command command_keys = {
    .name = "keys",
    .usage = "[OPTION]... POLICY\n"
             "All keys that have spent something: what they have used, and what is left.\n",
    ARGS_OPTIONS(options),
    .more = "Of several limits the one counts of which the least is left. A server keeps hashes of\n"
            "keys; it knows the names of keys with overrides and of the busiest, and others are told\n"
            "by #hash, as weir dump has it. Exit status: 0, or 2 on an error.\n"
            "\n"
            "Examples\n"
            "  weir keys api --sort used --count 20\n"
            "  weir keys api --json\n",
    .least = 1,
    .most = 1,
    .few = "of which policy? For example: weir keys api",
    .run = run_keys,
};
