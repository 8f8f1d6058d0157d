/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/sat.h"
#include "base/text.h"
#include "service/commands/call.h"
#include "spec/read.h"

#define LOGGED_MAX 6 /* fields of a change in the log */
#define ERROR_MAX  1024

/* ---- reading ---- */

bool weir_call_word(const struct call *call, size_t at, const char *word)
{
    return at < call->count && weir_text_same(call->args[at].bytes, call->args[at].len, word);
}

/* The names alone: of keys without a policy all that follow, where there may be several. */
static void parse_names(const struct call *call, struct request *request)
{
    const struct command *command = call->command;
    size_t policy_at = (size_t)command->policy_at, key_at = (size_t)command->key_at;
    bool policy = policy_at > 0 && policy_at<call->count, key = key_at> 0 && key_at < call->count;
    if (key && !policy) {
        bool many = command->docs && command->docs->flags & ARG_MULTIPLE;
        request->keys = call->args + key_at;
        request->key_count = many ? call->count - key_at : 1;
    }
    if (!policy)
        return;
    struct pair *pair = &request->pairs[request->count++];
    *pair = (struct pair){.name = call->args[policy_at], .policy = call->found, .n = 1};
    if (key)
        pair->key =
            (struct slice){call->args[key_at].bytes ? call->args[key_at].bytes : "", call->args[key_at].len};
}

bool weir_call_admit(struct call *call)
{
    struct buffer *out = call->reply.out;
    size_t before = buffer_len(out);
    struct answer answer;
    bool parsed = true;
    request_init(call->request, call->command->verb, call->user);
    if (call->command->parse)
        parsed = call->command->parse(call, call->request);
    else
        parse_names(call, call->request);
    if (__builtin_expect(weir_engine_admit(call->worker, call->request, &answer), 1))
        return parsed;
    out->end = out->start + before; /* what is not permitted goes before what is written wrongly */
    weir_call_engine_error(call, &answer);
    return false;
}

/* ---- errors ---- */

void weir_call_error(struct call *call, const char *format, ...)
{
    char text[ERROR_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    call->failed = true;
    weir_reply_error(&call->reply, "%s", text);
}

void weir_call_fail(struct call *call, const struct weir_error *err)
{
    bool later = err->code == EIO;
    weir_call_error(call, "%s %s", later ? "UNAVAILABLE" : "ERR", err->text);
}

/* Behind a NOPERM, if that may be why. */
static const char *login_hint(const struct call *call)
{
    if (call->session->logged_in)
        return "";
    return call->http ? "; nobody has logged in: send Authorization: Basic or Bearer"
                      : "; nobody has logged in: AUTH user password, or redis://user:password@host:port";
}

void weir_call_engine_error(struct call *call, const struct answer *answer)
{
    static const char *const words[] = {[ENGINE_WRONG] = "ERR",
                                        [ENGINE_NO_NAME] = "NOPERM",
                                        [ENGINE_NO_RIGHTS] = "NOPERM",
                                        [ENGINE_UNAVAILABLE] = "UNAVAILABLE",
                                        [ENGINE_ELSEWHERE] = "ELSEWHERE"};
    const char *user = call->user->name, *text = call->worker->error;
    char name[64];
    if (answer->error == ENGINE_NO_CLASS)
        weir_call_error(call, "NOPERM User %s has no permissions to run the '%s' command%s", user,
                        weir_call_name(call, name), login_hint(call));
    else if (answer->error == ENGINE_NO_SCOPE)
        weir_call_error(call, "NOPERM User %s has no permissions to run the '%s' command; it needs %s", user,
                        weir_call_name(call, name), text);
    else
        weir_call_error(call, "%s %s%s", words[answer->error], text,
                        answer->error == ENGINE_NO_NAME ? login_hint(call) : "");
}

const char *weir_call_name(const struct call *call, char text[static 64])
{
    const struct command *found = weir_command_find(call->args[0], NULL);
    if (found && found != call->command)
        (void)snprintf(text, 64, "%s|%s", found->name, call->command->name);
    else
        (void)snprintf(text, 64, "%s", call->command->name);
    return text;
}

static void put_upper(struct text *text, const char *word)
{
    for (; *word; word++) {
        char letter = *word >= 'a' && *word <= 'z' ? (char)(*word - 'a' + 'A') : *word;
        weir_text_put(text, &letter, 1);
    }
}

static void put_args(struct text *text, const struct arg *args, const char *between);

static void put_arg(struct text *text, const struct arg *arg)
{
    if (arg->flags & ARG_OPTIONAL)
        weir_text_put(text, "[", 1);
    if (arg->token)
        weir_text_print(text, "%s%s", arg->token, arg->type == ARG_TOKEN ? "" : " ");
    if (arg->parts)
        put_args(text, arg->parts, arg->type == ARG_ONEOF ? "|" : " ");
    else if (arg->type != ARG_TOKEN)
        weir_text_print(text, "%s", arg->name);
    if (arg->flags & ARG_MULTIPLE)
        weir_text_print(text, " ...");
    if (arg->flags & ARG_OPTIONAL)
        weir_text_put(text, "]", 1);
}

/* At most two deep, as the tables are written. */
static void put_args(struct text *text, const struct arg *args, const char *between)
{
    for (const struct arg *arg = args; arg->name; arg++) {
        if (arg != args)
            weir_text_print(text, "%s", between);
        put_arg(text, arg);
    }
}

/* "LIST|SHOW|SET": the words that may follow. */
static void put_subcommands(struct text *text, const struct command *commands)
{
    for (const struct command *sub = commands; sub->name; sub++) {
        weir_text_put(text, sub == commands ? " " : "|", 1);
        put_upper(text, sub->name);
    }
}

#define USAGE_MAX 512

/* How the command is written. */
static const char *usage_of(const struct call *call, char usage[static USAGE_MAX])
{
    struct text text;
    const struct command *found = weir_command_find(call->args[0], NULL);
    usage[0] = '\0';
    weir_text_init(&text, usage, USAGE_MAX);
    put_upper(&text, found ? found->name : call->command->name);
    if (found && found != call->command) {
        weir_text_put(&text, " ", 1);
        put_upper(&text, call->command->name);
    }
    if (call->command->docs) {
        weir_text_put(&text, " ", 1);
        put_args(&text, call->command->docs, " ");
    } else if (call->command->commands) {
        put_subcommands(&text, call->command->commands);
    }
    return usage;
}

/* Of its own commands weir says how they are written; of others clients know the text by heart. */
void weir_call_arity(struct call *call)
{
    char name[64], usage[USAGE_MAX];
    bool own = strcmp(call->command->group, "weir") == 0;
    weir_call_error(call, "ERR wrong number of arguments for '%s' command%s%s", weir_call_name(call, name),
                    own ? "; write " : "", own ? usage_of(call, usage) : "");
}

void weir_call_syntax(struct call *call, size_t at)
{
    char usage[USAGE_MAX], shown[72];
    if (at < call->count)
        weir_call_error(call, "ERR syntax error near '%s'; write %s", weir_shown(call->args[at], shown),
                        usage_of(call, usage));
    else
        weir_call_error(call, "ERR syntax error at the end; write %s", usage_of(call, usage));
}

/*
 * Numbers among the words of a request. Programs write them, so they are plain; but people try them first,
 * and are told what they meant: "write 2000".
 */

/* What a number counts, and what is possible. */
struct number_bounds {
    const char *what;
    int64_t least, most;
    enum { COUNTS_ANYTHING, COUNTS_UNITS, COUNTS_MS } counts;
};

bool weir_read_integer(struct slice text, int64_t *number)
{
    bool negative = text.len > 0 && text.bytes[0] == '-';
    size_t at = negative;
    uint64_t value = 0, most = (uint64_t)INT64_MAX + negative;
    if (at == text.len || text.len > 20 || (text.bytes[at] == '0' && text.len > 1))
        return false;
    for (; at < text.len; at++) {
        unsigned digit = (unsigned)(unsigned char)text.bytes[at] - '0';
        if (digit > 9 || __builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, digit, &value) || value > most)
            return false;
    }
    *number = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

/* Nothing but digits: if it cannot be read, there are too many of them. */
static bool is_all_digits(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.bytes[i] < '0' || text.bytes[i] > '9')
            return false;
    return text.len > 0 && text.bytes[0] != '0';
}

/* 2k, 1.5M: 0 if it is nothing of the kind. */
static int64_t meant_units(const char *text)
{
    struct spec_fault fault;
    struct spec_reader reader = {.at = text, .end = text + strlen(text), .fault = &fault};
    struct quantity units = {0, 1};
    if (!weir_spec_is_digit(&reader) || !weir_spec_read_count(&reader, &units) || reader.at != reader.end ||
        units.under != 1 || units.over > UNITS_MAX)
        return 0;
    return (int64_t)units.over;
}

/* 5s, 250ms: 0 if it is nothing of the kind. */
static int64_t meant_ms(const char *text)
{
    struct spec_fault fault;
    int64_t time_ns;
    return weir_spec_read_period(text, &time_ns, &fault) && time_ns % WEIR_MS == 0 ? time_ns / WEIR_MS : 0;
}

static void refuse_word(struct call *call, struct slice word, const struct number_bounds *bounds)
{
    char shown[72], text[32] = "", hint[48] = "";
    int64_t meant = 0;
    if (word.len < sizeof text && !memchr(word.bytes, '\0', word.len) && word.len > 0)
        memcpy(text, word.bytes, word.len);
    if (text[0] && bounds->counts == COUNTS_UNITS)
        meant = meant_units(text);
    else if (text[0] && bounds->counts == COUNTS_MS)
        meant = meant_ms(text);
    if (meant > 0)
        (void)snprintf(hint, sizeof hint, "; write %" PRId64, meant);
    weir_call_error(call, "ERR %s must be a whole number%s, not '%s'%s", bounds->what,
                    bounds->counts == COUNTS_MS ? " of milliseconds" : "", weir_shown(word, shown), hint);
}

static bool read_bounded(struct call *call, size_t at, const struct number_bounds *bounds, int64_t *number)
{
    char shown[72];
    if (at >= call->count) {
        weir_call_arity(call);
        return false;
    }
    bool read = weir_read_integer(call->args[at], number);
    if (!read && !is_all_digits(call->args[at]))
        refuse_word(call, call->args[at], bounds);
    else if (!read || *number > bounds->most)
        weir_call_error(call, "ERR %s is too large: %s; at most %" PRId64, bounds->what,
                        weir_shown(call->args[at], shown), bounds->most);
    else if (*number < bounds->least)
        weir_call_error(call, "ERR %s must be %" PRId64 " or more%s", bounds->what, bounds->least,
                        strcmp(bounds->what, "n") == 0 && weir_verbs[call->command->verb].may == MAY_TAKE
                            ? "; to look without taking use WEIR.PEEK"
                            : "");
    else
        return true;
    return false;
}

bool weir_call_integer(struct call *call, size_t at, const char *what, int64_t least, int64_t *number)
{
    const struct number_bounds bounds = {what, least, INT64_MAX, COUNTS_ANYTHING};
    return read_bounded(call, at, &bounds, number);
}

bool weir_call_units(struct call *call, size_t at, const char *what, int64_t least, int64_t *number)
{
    const struct number_bounds bounds = {what, least, UNITS_MAX, COUNTS_UNITS};
    return read_bounded(call, at, &bounds, number);
}

bool weir_call_ms(struct call *call, size_t at, const char *what, int64_t least, int64_t *number)
{
    const struct number_bounds bounds = {what, least, INT64_MAX, COUNTS_MS};
    return read_bounded(call, at, &bounds, number);
}

/* ---- what several commands do ---- */

bool weir_call_limits(struct call *call, size_t from, size_t to, char *text, size_t size)
{
    size_t len = 0;
    for (size_t i = from; i < to; i++) {
        struct slice word = call->args[i];
        if (memchr(word.bytes, '\0', word.len) || word.len + 2 > size - len) {
            weir_call_error(call, "ERR limits are text of less than %zu bytes, such as 100/s burst=200",
                            size);
            return false;
        }
        if (i > from)
            text[len++] = ' ';
        memcpy(text + len, word.bytes, word.len);
        len += word.len;
    }
    text[len] = '\0';
    return true;
}

bool weir_call_time(struct call *call, size_t at, int64_t *time_ns)
{
    char why[160] = "write a time behind FOR, such as 30m or 2h";
    if (at < call->count &&
        weir_config_time(call->args[at].bytes, call->args[at].len, time_ns, why, sizeof why))
        return true;
    weir_call_error(call, "ERR %s", why);
    return false;
}

void weir_call_log(const struct call *call, const char *event, const struct log_field *fields, int count)
{
    struct log_field all[LOGGED_MAX + 2];
    int used = 0;
    for (int i = 0; i < count && used < LOGGED_MAX; i++)
        if (!fields[i].text || fields[i].text[0] != '\0') /* what was not said is not told */
            all[used++] = fields[i];
    all[used++] = LOG_TEXT("user", call->session->user);
    all[used++] = LOG_TEXT("client", call->session->address);
    weir_log_change_write(LOG_INFO_LEVEL, event, all, used);
}

void weir_command_help(struct call *call)
{
    char name[72];
    size_t number;
    const struct command *parent = weir_command_find(call->args[0], &number);
    if (!parent) {
        weir_call_error(call, "ERR unknown command '%s'", weir_shown(call->args[0], name));
        return;
    }
    weir_reply_array(&call->reply, 1 + count_parts(parent));
    weir_reply_simple(&call->reply, "What can follow, and what it is for:");
    for (const struct command *part = parent->commands; part && part->name; part++) {
        char line[192];
        snprintf(line, sizeof line, "%-12s %s", part->name, part->summary);
        weir_reply_simple(&call->reply, line);
    }
}
