/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "cli/args.h"
#include "cli/ask.h"
#include "cli/transfer/dump_read.h"
#include "cli/transfer/dump_send.h"
#include "service/transfer/dump_text.h"

#define PAGE_LINES 500
#define PAGE_BYTES 28000 /* that a server takes in one request of this kind, and some less */

struct dump_sender {
    const char *command;
    struct cli_client *client;
    bool no_elapsed;
    struct buffer definition; /* lines of the policy at hand, each with a line break */
    struct buffer overrides;
    char policy[64], id[33];
    bool begun;
    int64_t page;
    struct dump_sent sent;
    struct buffer lines; /* of the next page */
    size_t ends[PAGE_LINES], count;
    char room[DUMP_LINE_MAX];
    struct slice words[DUMP_WORDS_MAX];
};

struct dump_sender *dump_sender_new(const char *command, struct cli_client *client, bool no_elapsed)
{
    struct dump_sender *sender = calloc(1, sizeof *sender);
    if (!sender) {
        return args_fail(command, "out of memory"), NULL;
    }
    sender->command = command;
    sender->client = client;
    sender->no_elapsed = no_elapsed;
    return sender;
}

void dump_sender_free(struct dump_sender *sender)
{
    if (!sender)
        return;
    weir_buffer_free(&sender->definition);
    weir_buffer_free(&sender->overrides);
    weir_buffer_free(&sender->lines);
    free(sender);
}

const struct dump_sent *dump_sender_sent(const struct dump_sender *sender)
{
    return &sender->sent;
}

static bool dump_send_complain(const struct dump_sender *sender, const char *text)
{
    return args_fail(sender->command, "%s", text), false;
}

static void empty_buffer(struct buffer *buffer)
{
    weir_buffer_drop(buffer, buffer_len(buffer), PAGE_BYTES);
}

/* ---- pages of keys ---- */

bool dump_sender_flush(struct dump_sender *sender)
{
    struct ask ask;
    if (sender->count == 0)
        return true;
    ask_begin(&ask, "WEIR.LOAD", "KEYS", sender->policy, sender->id, NULL);
    ask_add_number(&ask, sender->page + 1);
    const char *bytes = buffer_bytes(&sender->lines);
    for (size_t i = 0, at = 0; i < sender->count; at = sender->ends[i++])
        ask_add_slice(&ask, (struct slice){bytes + at, sender->ends[i] - at});
    const struct resp_value *value = ask_tell(sender->command, sender->client, &ask);
    if (!value)
        return false;
    sender->page++;
    sender->sent.keys += ask_number(value, "keys");
    sender->sent.full += ask_number(value, "full");
    sender->count = 0;
    empty_buffer(&sender->lines);
    return true;
}

/* Without what is said to people. */
static struct slice without_remark(struct slice line)
{
    for (size_t i = line.len; i-- > 1;) {
        if (line.bytes[i] == '"')
            break;
        if (line.bytes[i] == '#' && line.bytes[i - 1] == ' ' &&
            (i + 1 == line.len || line.bytes[i + 1] == ' '))
            return (struct slice){line.bytes, i - 1};
    }
    return line;
}

static bool add_dump_key(struct dump_sender *sender, struct slice line)
{
    line = without_remark(line);
    if ((sender->count == PAGE_LINES || buffer_len(&sender->lines) + line.len > PAGE_BYTES) &&
        !dump_sender_flush(sender))
        return false;
    buffer_put(&sender->lines, line.bytes, line.len);
    if (sender->lines.failed)
        return dump_send_complain(sender, "out of memory");
    sender->ends[sender->count++] = buffer_len(&sender->lines);
    return true;
}

/* ---- policies ---- */

bool dump_sender_finish(struct dump_sender *sender)
{
    if (!sender->begun)
        return true;
    if (!dump_sender_flush(sender) ||
        !ask_words(sender->command, sender->client, "WEIR.LOAD", "END", sender->policy, sender->id, NULL))
        return false;
    sender->begun = false;
    sender->page = 0;
    return true;
}

static void draw_load_id(struct dump_sender *sender)
{
    struct hash_key lot = weir_hash_key();
    (void)snprintf(sender->id, sizeof sender->id, "%016" PRIx64 "%016" PRIx64, lot.low, lot.high);
}

static bool begin_policy(struct dump_sender *sender, struct slice line)
{
    if (!dump_sender_finish(sender))
        return false;
    empty_buffer(&sender->definition);
    empty_buffer(&sender->overrides);
    if (weir_dump_split(line, sender->room, sender->words) != 2 ||
        sender->words[1].len >= sizeof sender->policy)
        return dump_send_complain(sender, "the name of a policy makes no sense");
    (void)snprintf(sender->policy, sizeof sender->policy, "%.*s", (int)sender->words[1].len,
                   sender->words[1].bytes);
    draw_load_id(sender);
    return true;
}

/* Keys of RL.* or CL.THROTTLE follow. */
static bool send_clients(struct dump_sender *sender, struct slice line)
{
    struct ask ask;
    if (!dump_sender_finish(sender))
        return false;
    draw_load_id(sender);
    (void)snprintf(sender->policy, sizeof sender->policy, "*");
    ask_begin(&ask, "WEIR.LOAD", "CLIENTS", sender->id, sender->no_elapsed ? "NOELAPSED" : NULL, NULL);
    ask_add_slice(&ask, line);
    sender->begun = ask_tell(sender->command, sender->client, &ask) != NULL;
    return sender->begun;
}

static bool append_dump_line(struct dump_sender *sender, struct buffer *buffer, struct slice line)
{
    buffer_put(buffer, line.bytes, line.len);
    buffer_put(buffer, "\n", 1);
    return !buffer->failed || dump_send_complain(sender, "out of memory");
}

/* "WEIR.OVERRIDE SET policy key limits [FOR time] [REASON text]" */
static bool send_override(struct dump_sender *sender, struct slice line)
{
    char time_left[32];
    int64_t until_ms = 0;
    struct slice *words = sender->words;
    if (weir_dump_split(line, sender->room, words) != 5)
        return dump_send_complain(sender, "a line of an override makes no sense");
    for (size_t i = 0; i < words[3].len && i < 18; i++)
        until_ms = until_ms * 10 + (words[3].bytes[i] - '0');
    int64_t left = until_ms / 1000 - (int64_t)time(NULL);
    if (until_ms > 0 && left <= 0)
        return true;
    struct ask ask;
    ask_begin(&ask, "WEIR.OVERRIDE", "SET", sender->policy, NULL);
    ask_add_slice(&ask, words[1]);
    ask_add_slice(&ask, words[2]);
    (void)snprintf(time_left, sizeof time_left, "%" PRId64 "s", left);
    ask_add_option(&ask, "FOR", until_ms > 0 ? time_left : NULL);
    if (words[4].len > 0) {
        ask_add(&ask, "REASON");
        ask_add_slice(&ask, words[4]);
    }
    return ask_tell(sender->command, sender->client, &ask) != NULL;
}

/* The first line of what is left; false: there is none. */
static bool next_buffered(const char **at, const char *end, struct slice *line)
{
    const char *stop = *at < end ? memchr(*at, '\n', (size_t)(end - *at)) : NULL;
    if (!stop)
        return false;
    *line = (struct slice){*at, (size_t)(stop - *at)};
    *at = stop + 1;
    return true;
}

/* The server makes the policy, if it has none of that name; then it gets its overrides, too. */
static bool begin_load(struct dump_sender *sender)
{
    struct ask ask;
    struct slice line;
    ask_begin(&ask, "WEIR.LOAD", "BEGIN", sender->policy, sender->id, sender->no_elapsed ? "NOELAPSED" : NULL,
              NULL);
    const char *at = buffer_bytes(&sender->definition), *end = at + buffer_len(&sender->definition);
    while (next_buffered(&at, end, &line))
        ask_add_slice(&ask, line);
    const struct resp_value *value = ask_tell(sender->command, sender->client, &ask);
    if (!value)
        return false;
    sender->sent.made = ask_truth(value, "made");
    sender->begun = true;
    at = buffer_bytes(&sender->overrides);
    end = at + buffer_len(&sender->overrides);
    while (sender->sent.made && next_buffered(&at, end, &line))
        if (!send_override(sender, line))
            return false;
    return true;
}

static bool send_table(struct dump_sender *sender, struct slice line)
{
    if (!sender->policy[0])
        return dump_send_complain(sender, "a table stands before its policy");
    if (!sender->begun && !begin_load(sender))
        return false;
    if (!dump_sender_flush(sender))
        return false;
    struct ask ask;
    ask_begin(&ask, "WEIR.LOAD", "TABLE", sender->policy, sender->id, NULL);
    ask_add_slice(&ask, line);
    return ask_tell(sender->command, sender->client, &ask) != NULL;
}

/* ---- any line ---- */

bool dump_send(void *arg, struct slice line)
{
    struct dump_sender *sender = arg;
    if (dump_line_is(line, "key|spent|shared|shared-spent|cell|rl"))
        return sender->begun ? add_dump_key(sender, line)
                             : dump_send_complain(sender, "a key stands before its table");
    if (dump_line_is(line, "clients"))
        return send_clients(sender, line);
    if (dump_line_is(line, "policy") && !begin_policy(sender, line))
        return false;
    if (dump_line_is(line, "policy|limits|settings"))
        return append_dump_line(sender, &sender->definition, line);
    if (dump_line_is(line, "override"))
        return append_dump_line(sender, &sender->overrides, line);
    return !dump_line_is(line, "table") || send_table(sender, line);
}
