/* SPDX-License-Identifier: MIT */
/*
 * COMMAND: the table of commands as clients read it. redis-cli takes its hints and `help @weir` from
 * COMMAND DOCS, and insists on the types that it expects there.
 */
#include <stdio.h>
#include <string.h>

#include "service/commands/call.h"
#include "service/commands/glob.h"

#define SINCE "0.1.0"

/* Words that a command consists of, gathered before they are written: the reply needs their number. */
struct command_words {
    const char *list[8];
    size_t count;
};

static void add_command_word(struct command_words *words, const char *word)
{
    if (words->count < sizeof words->list / sizeof *words->list)
        words->list[words->count++] = word;
}

static void answer_words(struct reply *reply, const struct command_words *words)
{
    weir_reply_set(reply, words->count);
    for (size_t i = 0; i < words->count; i++)
        weir_reply_simple(reply, words->list[i]);
}

/* "client|setname", or the name alone. */
static void answer_name(struct reply *reply, const struct command *parent, const struct command *command)
{
    if (parent)
        weir_reply_print(reply, "%s|%s", parent->name, command->name);
    else
        weir_reply_text(reply, command->name);
}

/* ---- keys ------------------------------------------------------------------------------------- */

/* Can pairs of policy and key follow the first one, each behind AND? */
static bool has_more_keys(const struct command *command)
{
    for (const struct arg *arg = command->docs; arg && arg->name; arg++)
        if (arg->token && strcmp(arg->token, "AND") == 0)
            return true;
    return false;
}

/* Where the next key stands behind the one at `at`; 0: nowhere. */
static size_t next_key(const struct call *call, size_t at)
{
    int64_t n;
    size_t next = at + 1;
    if (next < call->count && weir_read_integer(call->args[next], &n))
        next++;
    return weir_call_word(call, next, "AND") && next + 2 < call->count ? next + 2 : 0;
}

/* The command that the words from `at` on name, its subcommand if there is one; NULL: none. */
static const struct command *named_command(const struct call *call, size_t at)
{
    size_t number;
    const struct command *command = weir_command_find(call->args[at], &number);
    for (const struct command *part = command ? command->commands : NULL; part && part->name; part++)
        if (weir_call_word(call, at + 1, part->name))
            return part;
    return command;
}

static void run_command_getkeys(struct call *call)
{
    size_t keys[64], count = 0;
    const struct command *command = named_command(call, 2);
    if (!command) {
        weir_call_error(call, "ERR Invalid command specified");
        return;
    }
    if (!command_fits(command, call->count - 2)) {
        weir_call_error(call, "ERR Invalid number of arguments specified for command");
        return;
    }
    size_t at = command->key_at > 0 ? 2 + (size_t)command->key_at : 0;
    bool more = has_more_keys(command);
    while (at > 0 && at < call->count && count < sizeof keys / sizeof *keys) {
        keys[count++] = at;
        at = more ? next_key(call, at) : 0;
    }
    if (count == 0) {
        weir_call_error(call, "ERR The command has no key arguments");
        return;
    }
    weir_reply_array(&call->reply, count);
    for (size_t i = 0; i < count; i++)
        weir_reply_bulk(&call->reply, call->args[keys[i]].bytes, call->args[keys[i]].len);
}

/* ---- COMMAND, COMMAND INFO -------------------------------------------------------------------- */

static void answer_flags(struct reply *reply, const struct command *command)
{
    const struct verb *verb = &weir_verbs[command->verb];
    struct command_words words = {.count = 0};
    if (verb->durable)
        add_command_word(&words, "write");
    else if (verb->may & MAY_LOOK)
        add_command_word(&words, "readonly");
    if (verb->may & MAY_ADMIN)
        add_command_word(&words, "admin");
    if (command->flags & CMD_BLOCKING)
        add_command_word(&words, "blocking");
    if (command->flags & CMD_NO_AUTH)
        add_command_word(&words, "no_auth");
    if (!(command->flags & (CMD_JOB | CMD_BLOCKING)))
        add_command_word(&words, "fast");
    if (has_more_keys(command))
        add_command_word(&words, "movablekeys");
    answer_words(reply, &words);
}

static void answer_categories(struct reply *reply, const struct command *command)
{
    const struct verb *verb = &weir_verbs[command->verb];
    struct command_words words = {.count = 0};
    if (verb->may & MAY_LOOK)
        add_command_word(&words, "@read");
    if (verb->may & (MAY_TAKE | MAY_ADJUST))
        add_command_word(&words, "@write");
    if (verb->may & MAY_ADMIN)
        add_command_word(&words, "@admin");
    if (strcmp(command->group, "connection") == 0)
        add_command_word(&words, "@connection");
    if (command->flags & CMD_BLOCKING)
        add_command_word(&words, "@blocking");
    add_command_word(&words, command->flags & (CMD_JOB | CMD_BLOCKING) ? "@slow" : "@fast");
    answer_words(reply, &words);
}

static void answer_key_search(struct reply *reply, int key_at)
{
    weir_reply_text(reply, "begin_search");
    weir_reply_map(reply, 2);
    weir_reply_text(reply, "type");
    weir_reply_text(reply, "index");
    weir_reply_text(reply, "spec");
    weir_reply_map(reply, 1);
    weir_reply_text(reply, "index");
    weir_reply_integer(reply, key_at);
    weir_reply_text(reply, "find_keys");
    weir_reply_map(reply, 2);
    weir_reply_text(reply, "type");
    weir_reply_text(reply, "range");
    weir_reply_text(reply, "spec");
    weir_reply_map(reply, 3);
    weir_reply_text(reply, "lastkey");
    weir_reply_integer(reply, 0);
    weir_reply_text(reply, "keystep");
    weir_reply_integer(reply, 1);
    weir_reply_text(reply, "limit");
    weir_reply_integer(reply, 0);
}

static void answer_key_specs(struct reply *reply, const struct command *command)
{
    const struct verb *verb = &weir_verbs[command->verb];
    struct command_words words = {.count = 0};
    weir_reply_array(reply, command->key_at > 0);
    if (command->key_at <= 0)
        return;
    weir_reply_map(reply, 3);
    weir_reply_text(reply, "flags");
    add_command_word(&words, verb->durable ? "RW" : "RO");
    add_command_word(&words, verb->durable ? "UPDATE" : "ACCESS");
    if (has_more_keys(command))
        add_command_word(&words, "INCOMPLETE");
    answer_words(reply, &words);
    answer_key_search(reply, command->key_at);
}

/* The ten fields of Redis 7. */
static void answer_info(struct reply *reply, const struct command *parent, const struct command *command)
{
    weir_reply_array(reply, 10);
    answer_name(reply, parent, command);
    weir_reply_integer(reply, command->arity);
    answer_flags(reply, command);
    weir_reply_integer(reply, command->key_at);
    weir_reply_integer(reply, command->key_at);
    weir_reply_integer(reply, command->key_at > 0);
    answer_categories(reply, command);
    weir_reply_array(reply, 0);
    answer_key_specs(reply, command);
    weir_reply_array(reply, count_parts(command));
    for (const struct command *part = command->commands; part && part->name; part++)
        answer_info(reply, command, part); /* one level deep */
}

static void run_command(struct call *call)
{
    weir_reply_array(&call->reply, weir_command_count());
    for (size_t i = 0; i < weir_command_count(); i++)
        answer_info(&call->reply, NULL, weir_command_at(i));
}

/* "weir.take", or "client|setname". */
static const struct command *find_by_text(struct slice text, const struct command **parent)
{
    size_t number;
    const char *bar = memchr(text.bytes, '|', text.len);
    struct slice name = {text.bytes, bar ? (size_t)(bar - text.bytes) : text.len};
    const struct command *command = weir_command_find(name, &number);
    *parent = NULL;
    if (!command || !bar)
        return command;
    struct slice rest = {bar + 1, text.len - name.len - 1};
    struct call words = {.args = &rest, .count = 1};
    *parent = command;
    for (const struct command *part = command->commands; part && part->name; part++)
        if (weir_call_word(&words, 0, part->name))
            return part;
    return NULL;
}

static void run_command_info(struct call *call)
{
    if (call->count == 2) {
        run_command(call);
        return;
    }
    weir_reply_array(&call->reply, call->count - 2);
    for (size_t i = 2; i < call->count; i++) {
        const struct command *parent, *command = find_by_text(call->args[i], &parent);
        if (command)
            answer_info(&call->reply, parent, command);
        else
            weir_reply_null_array(&call->reply);
    }
}

static void run_command_count(struct call *call)
{
    weir_reply_integer(&call->reply, (int64_t)weir_command_count());
}

/* ---- COMMAND LIST ----------------------------------------------------------------------------- */

static void answer_matching(struct call *call, struct slice pattern)
{
    size_t count = 0;
    for (int round = 0; round < 2; round++) {
        if (round == 1)
            weir_reply_array(&call->reply, count);
        for (size_t i = 0; i < weir_command_count(); i++) {
            const char *name = weir_command_at(i)->name;
            if (!weir_glob(pattern, (struct slice){name, strlen(name)}))
                continue;
            count++;
            if (round == 1)
                weir_reply_text(&call->reply, name);
        }
    }
}

static void run_command_list(struct call *call)
{
    if (call->count == 2)
        answer_matching(call, (struct slice){"*", 1});
    else if (call->count == 5 && weir_call_word(call, 2, "FILTERBY") && weir_call_word(call, 3, "PATTERN"))
        answer_matching(call, call->args[4]);
    else
        weir_call_error(call, "ERR write COMMAND LIST or COMMAND LIST FILTERBY PATTERN pattern");
}

/* ---- COMMAND DOCS ----------------------------------------------------------------------------- */

static const char *arg_type_name(enum arg_type type)
{
    static const char *const names[] = {"string", "integer", "key", "pure-token", "oneof", "block"};
    return names[type];
}

static void answer_arg_flags(struct reply *reply, const struct arg *arg)
{
    struct command_words words = {.count = 0};
    if (arg->flags & ARG_OPTIONAL)
        add_command_word(&words, "optional");
    if (arg->flags & ARG_MULTIPLE)
        add_command_word(&words, "multiple");
    if (arg->flags & ARG_MULTIPLE && arg->token)
        add_command_word(&words, "multiple_token"); /* the token stands before each of them */
    answer_words(reply, &words);
}

static void answer_args(struct reply *reply, const struct arg *args)
{
    size_t count = 0;
    while (args[count].name)
        count++;
    weir_reply_array(reply, count);
    for (const struct arg *arg = args; arg->name; arg++) {
        bool container = arg->type == ARG_ONEOF || arg->type == ARG_BLOCK;
        weir_reply_map(reply, (size_t)3 + (arg->token != NULL) + (arg->flags != 0));
        weir_reply_text(reply, "name");
        weir_reply_text(reply, arg->name);
        weir_reply_text(reply, "type");
        weir_reply_text(reply, arg_type_name(arg->type));
        if (arg->token) {
            weir_reply_text(reply, "token");
            weir_reply_text(reply, arg->token);
        }
        if (arg->flags) {
            weir_reply_text(reply, "flags");
            answer_arg_flags(reply, arg);
        }
        weir_reply_text(reply, container ? "arguments" : "display_text");
        if (container)
            answer_args(reply, arg->parts); /* as deep as the table is written */
        else
            weir_reply_text(reply, arg->name);
    }
}

static void answer_docs(struct reply *reply, const struct command *command)
{
    size_t parts = count_parts(command);
    weir_reply_map(reply, (size_t)3 + (command->docs != NULL) + (parts > 0));
    weir_reply_text(reply, "summary");
    weir_reply_text(reply, command->summary);
    weir_reply_text(reply, "since");
    weir_reply_text(reply, SINCE);
    weir_reply_text(reply, "group");
    weir_reply_text(reply, command->group);
    if (command->docs) {
        weir_reply_text(reply, "arguments");
        answer_args(reply, command->docs);
    }
    if (parts > 0) {
        weir_reply_text(reply, "subcommands");
        weir_reply_map(reply, parts);
        for (const struct command *part = command->commands; part->name; part++) {
            answer_name(reply, command, part);
            answer_docs(reply, part);
        }
    }
}

static void answer_all_docs(struct reply *reply)
{
    weir_reply_map(reply, weir_command_count());
    for (size_t i = 0; i < weir_command_count(); i++) {
        weir_reply_text(reply, weir_command_at(i)->name);
        answer_docs(reply, weir_command_at(i));
    }
}

static void run_command_docs(struct call *call)
{
    if (call->count == 2) {
        answer_all_docs(&call->reply);
        return;
    }
    size_t known = 0;
    const struct command *parent, *command;
    for (size_t i = 2; i < call->count; i++)
        known += find_by_text(call->args[i], &parent) != NULL;
    weir_reply_map(&call->reply, known);
    for (size_t i = 2; i < call->count; i++) {
        if (!(command = find_by_text(call->args[i], &parent)))
            continue;
        answer_name(&call->reply, parent, command);
        answer_docs(&call->reply, command);
    }
}

/* ---- table ------------------------------------------------------------------------------------ */

static const struct arg names_docs[] = {{.name = "command-name", .flags = ARG_OPTIONAL | ARG_MULTIPLE}, {0}};
static const struct arg pattern_docs[] = {
    {.name = "pattern", .token = "FILTERBY PATTERN", .flags = ARG_OPTIONAL}, {0}};
static const struct arg keys_docs[] = {
    {.name = "command"}, {.name = "arg", .flags = ARG_OPTIONAL | ARG_MULTIPLE}, {0}};

static const struct command command_parts[] = {
    {COMMAND("count", "How many commands there are", "server", 2, ENGINE_CONNECT, run_command_count),
     .example = "COMMAND COUNT"},
    {COMMAND("list", "The names of all commands", "server", -2, ENGINE_CONNECT, run_command_list),
     .docs = pattern_docs, .example = "COMMAND LIST"},
    {COMMAND("info", "Arity, flags and keys of commands", "server", -2, ENGINE_CONNECT, run_command_info),
     .docs = names_docs, .example = "COMMAND INFO ping"},
    {COMMAND("docs", "Summary and arguments of commands", "server", -2, ENGINE_CONNECT, run_command_docs),
     .docs = names_docs, .example = "COMMAND DOCS ping"},
    {COMMAND("getkeys", "The keys among the words of a request", "server", -3, ENGINE_CONNECT,
             run_command_getkeys),
     .docs = keys_docs, .example = "COMMAND GETKEYS WEIR.TAKE api user:42"},
    COMMAND_HELP("server", "COMMAND HELP"),
    {0}};

const struct command weir_commands_command[] = {
    {COMMAND("command", "What commands there are: arity, flags and keys of all of them", "server", -1,
             ENGINE_CONNECT, run_command),
     .commands = command_parts, .example = "COMMAND"},
    {0}};
