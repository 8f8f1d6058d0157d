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
#define SHOWN_MAX  64

/* ---- reading ---- */

bool weir_call_word(const struct call *call, size_t at, const char *word)
{
    return at < call->count && weir_text_same(call->args[at].bytes, call->args[at].len, word);
}

struct policy *weir_call_policy(struct call *call, size_t at)
{
    char shown[72];
    if (at >= call->count) {
        weir_call_arity(call);
        return NULL;
    }
    struct slice name = call->args[at];
    if (call->found && at == (size_t)call->command->policy_at)
        return call->found; /* rights were looked at before the command was run */
    if (!weir_user_may_policy(call->user, name)) {
        weir_call_forbid(call, "policy", name);
        return NULL;
    }
    struct policy *policy = weir_snapshot_policy(call->worker->snapshot, name);
    if (__builtin_expect(policy != NULL, 1))
        return policy;
    const char *near = weir_snapshot_near(call->worker->snapshot, name);
    if (near && weir_user_may_policy(call->user, (struct slice){near, strlen(near)}))
        weir_call_error(call, "ERR no policy '%s'; did you mean '%s'? (WEIR.POLICY LIST)",
                        weir_shown(name, shown), near);
    else
        weir_call_error(
            call, "ERR no policy '%s' (WEIR.POLICY LIST shows them, WEIR.POLICY SET name limits makes one)",
            weir_shown(name, shown));
    return NULL;
}

bool weir_call_key(struct call *call, size_t at)
{
    if (at >= call->count) {
        weir_call_arity(call);
        return false;
    }
    if (call->args[at].len > KEY_MAX) {
        weir_call_error(call, "ERR the key has %zu bytes; at most %d are possible", call->args[at].len,
                        KEY_MAX);
        return false;
    }
    if (!weir_user_may_key(call->user, call->args[at])) {
        weir_call_forbid(call, "key", call->args[at]);
        return false;
    }
    return true;
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

const char *weir_call_login_hint(const struct call *call)
{
    return call->session->logged_in
               ? ""
               : "; nobody has logged in: AUTH user password, or redis://user:password@host:port";
}

void weir_call_forbid(struct call *call, const char *what, struct slice name)
{
    char shown[72];
    weir_call_error(call, "NOPERM No permissions to access a %s: '%s'%s", what, weir_shown(name, shown),
                    weir_call_login_hint(call));
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

const char *weir_shown(struct slice bytes, char text[static 72])
{
    size_t len = bytes.len < SHOWN_MAX ? bytes.len : SHOWN_MAX;
    for (size_t i = 0; i < len; i++) {
        char byte = bytes.bytes[i];
        text[i] = byte >= ' ' && byte <= '~' ? byte : '?';
    }
    (void)snprintf(text + len, 72 - len, "%s", bytes.len > len ? "..." : "");
    return text;
}

/* ---- entries in stores of all users ---- */

static struct fair_share *share_of(const struct admission_hook *hook, uint32_t *owner)
{
    const struct call_admission_hook *own = (const struct call_admission_hook *)(const void *)hook;
    const struct worker *worker = own->call->worker;
    if (worker->snapshot->users->count < 2)
        return NULL;
    *owner = own->call->user->share;
    return worker->service->shares[own->store];
}

static bool share_allows(const struct admission_hook *hook)
{
    uint32_t owner;
    struct fair_share *share = share_of(hook, &owner);
    return !share || weir_share_allows(share, owner);
}

static void claim_share(const struct admission_hook *hook, uint64_t place)
{
    uint32_t owner;
    struct fair_share *share = share_of(hook, &owner);
    if (share)
        weir_share_claim(share, place, owner);
}

static bool share_lets_wake(const struct admission_hook *hook, uint64_t place)
{
    uint32_t owner;
    struct fair_share *share = share_of(hook, &owner);
    return !share || weir_share_wake(share, place, owner);
}

struct call_admission_hook weir_call_admission_hook(const struct call *call, enum share_store store)
{
    return (struct call_admission_hook){{share_allows, claim_share, share_lets_wake}, call, store};
}

/* ---- answers ---- */

int64_t weir_ms_up(int64_t time_ns)
{
    return time_ns == WEIR_FOREVER ? -1 : div_up(max64(time_ns, 0), WEIR_MS);
}

/* Six fields with their names are less than 256 bytes, and the limit's name and a policy's in front. */
#define ANSWER_MAX (256 + LABEL_MAX + CONFIG_NAME_MAX + 16)

#define PUT(AT, LITERAL) put_literal((AT), (LITERAL), sizeof(LITERAL) - 1)

static inline char *put_literal(char *at, const char *bytes, size_t len)
{
    memcpy(at, bytes, len);
    return at + len;
}

static inline char *put_decimal(char *at, int64_t number)
{
    char digits[20];
    size_t count = 0;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    if (number < 0)
        *at++ = '-';
    do
        digits[count++] = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    while (count > 0)
        *at++ = digits[--count];
    return at;
}

static inline char *put_answer_label(char *at, const struct answer *answer)
{
    size_t policy = answer->policy ? strlen(answer->policy) : 0, label = strlen(answer->label);
    *at++ = '$';
    at = put_decimal(at, (int64_t)(label + (policy > 0 ? policy + 1 : 0)));
    at = PUT(at, "\r\n");
    if (policy > 0) {
        at = put_literal(at, answer->policy, policy);
        *at++ = '/';
    }
    return put_literal(at, answer->label, label);
}

static inline char *put_answer_head(char *at, int version, size_t pairs)
{
    *at++ = version == 3 ? '%' : '*';
    at = put_decimal(at, (int64_t)(version == 3 ? pairs : 2 * pairs));
    return PUT(at, "\r\n$7\r\nallowed\r\n");
}

static const struct {
    const char *bytes;
    size_t len;
} reasons[] = {
    [ANSWER_OK] = {"$2\r\nok\r\n", 8},        [ANSWER_LATER] = {"$5\r\nlater\r\n", 11},
    [ANSWER_NEVER] = {"$5\r\nnever\r\n", 11}, [ANSWER_SHADOW] = {"$6\r\nshadow\r\n", 12},
    [ANSWER_FULL] = {"$4\r\nfull\r\n", 10},   [ANSWER_DISABLED] = {"$8\r\ndisabled\r\n", 14},
    [ANSWER_LOST] = {"$4\r\nlost\r\n", 10},   [ANSWER_SHARED] = {"$6\r\nshared\r\n", 12},
};

void weir_call_answer(struct call *call, const struct answer *answer, size_t more)
{
    struct buffer *out = call->reply.out;
    char *start = weir_buffer_room(out, ANSWER_MAX), *at = start;
    if (!start)
        return;
    at = put_answer_head(at, call->reply.version, 6 + more);
    if (call->reply.version == 3)
        at = answer->allowed ? PUT(at, "#t") : PUT(at, "#f");
    else
        at = answer->allowed ? PUT(at, ":1") : PUT(at, ":0");
    at = PUT(at, "\r\n$9\r\nremaining\r\n:");
    at = put_decimal(at, answer->remaining);
    at = PUT(at, "\r\n$14\r\nretry_after_ms\r\n:");
    at = put_decimal(at, weir_ms_up(answer->retry_after_ns));
    at = PUT(at, "\r\n$14\r\nreset_after_ms\r\n:");
    at = put_decimal(at, weir_ms_up(answer->reset_after_ns));
    at = PUT(at, "\r\n$5\r\nlimit\r\n");
    at = put_answer_label(at, answer);
    at = PUT(at, "\r\n$6\r\nreason\r\n");
    at = put_literal(at, reasons[answer->reason].bytes, reasons[answer->reason].len);
    buffer_wrote(out, (size_t)(at - start));
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
                        strcmp(bounds->what, "n") == 0 && call->command->may == MAY_TAKE
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
