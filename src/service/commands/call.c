/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/sat.h"
#include "base/text.h"
#include "service/run.h"

#define ERROR_MAX 1024
#define SHOWN_MAX 64

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
