/* SPDX-License-Identifier: MIT */
/*
 * A script's way to the server that has its slot, and back.
 *
 * What is certain: an answer; a question that never left; and those errors by which a server says that it has
 * done nothing. Everything else may have been applied.
 */
#include <stdarg.h>
#include <stdio.h>

#include "fleet/redis/redis.h"
#include "fleet/redis/reply.h"

#define LOAD_NS   WEIR_SEC /* between two times that a server is asked to keep a script */
#define KEY_SHOWN 64       /* bytes of a key in a message */

void weir_redis_call_init(struct redis_call *call, struct redis *redis, enum redis_script script)
{
    *call = (struct redis_call){.redis = redis, .script = script};
    call->deadline_ns = weir_resp_client_now() + redis->options.answer_ns;
}

static void add_call_word(struct redis_call *call, size_t len)
{
    if (call->count == REDIS_WORDS_MAX || len > sizeof call->text - call->used)
        call->count = REDIS_WORDS_MAX + 1; /* too many, from now on */
    if (call->count > REDIS_WORDS_MAX)
        return;
    call->words[call->count++] = (struct slice){call->text + call->used, len};
    call->used += len;
}

void weir_redis_call_key(struct redis_call *call, const char *key, size_t len)
{
    if (len <= sizeof call->text - call->used)
        memcpy(call->text + call->used, key, len);
    add_call_word(call, len);
    call->keys++;
    call->slot = weir_redis_slot(key, len);
}

void weir_redis_pool_key(struct redis_call *call, const char *name)
{
    char key[FLEET_NAME_MAX + 32];
    int len = snprintf(key, sizeof key, "weir:{%s}:quota", name);
    weir_redis_call_key(call, key, len > 0 && (size_t)len < sizeof key ? (size_t)len : 0);
}

void weir_redis_call_word(struct redis_call *call, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t room = sizeof call->text - call->used;
    int len = vsnprintf(call->text + call->used, room, format, arguments);
    va_end(arguments);
    add_call_word(call, len >= 0 && (size_t)len < room ? (size_t)len : sizeof call->text + 1);
}

/* ---- errors ----------------------------------------------------------------------------------- */

static bool is_redis_error(const struct resp_value *value, const char *word)
{
    size_t len = strlen(word);
    return value->text.len >= len && memcmp(value->text.bytes, word, len) == 0;
}

/* Words by which a server says that it has done nothing. */
static bool is_redis_refusal(const struct resp_value *value)
{
    static const char *const words[] = {
        "NOSCRIPT ", "MOVED ",      "ASK ",       "TRYAGAIN ",  "CLUSTERDOWN ", "LOADING ",
        "BUSY ",     "READONLY ",   "NOAUTH ",    "NOPERM ",    "MASTERDOWN ",  "MISCONF ",
        "OOM ",      "NOREPLICAS ", "WRONGTYPE ", "WEIRTERMS ", "CROSSSLOT ",   "ERR unknown command"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (is_redis_error(value, words[i]))
            return true;
    return false;
}

static void send_redis_call(struct redis_call *call);

/* true: it is on its way again. */
static bool follow_redirect(struct redis_call *call, const struct resp_value *value)
{
    struct fleet_host to;
    unsigned slot;
    if (call->hops++ >= REDIS_HOPS_MAX)
        return false;
    if (is_redis_error(value, "NOSCRIPT ") && !call->whole) {
        call->whole = true;
        send_redis_call(call);
        return true;
    }
    enum redis_redirect redirect = weir_redis_read_redirect(value->text, &call->host, &slot, &to);
    if (redirect == REDIRECT_NONE)
        return false;
    if (redirect == REDIRECT_MOVED)
        weir_redis_moved(call->redis, slot, &to);
    call->asking = redirect == REDIRECT_ASK;
    call->host = to;
    send_redis_call(call);
    return true;
}

/* Before Redis 7 the word of a command that refuses stands in the error of the script that called it. */
static bool error_says(const struct resp_value *value, const char *why, const char *word)
{
    const char *at = strstr(why, word);
    return at == why || (at && at[-1] == '-' && is_redis_error(value, "ERR Error running script "));
}

/* The script's own line would help nobody. */
static void say_stranger(const struct redis_call *call, char why[RESP_CLIENT_WHY_MAX])
{
    struct slice key = call->words[0];
    bool cut = key.len > KEY_SHOWN;
    (void)snprintf(why, RESP_CLIENT_WHY_MAX,
                   "WRONGTYPE: %.*s%s holds what is not weir's; look at it, then DEL it",
                   cut ? KEY_SHOWN : (int)key.len, key.bytes, cut ? "..." : "");
}

static void call_refused(struct redis_call *call, const struct resp_value *value)
{
    char why[RESP_CLIENT_WHY_MAX];
    size_t len = value->text.len < sizeof why - 1 ? value->text.len : sizeof why - 1;
    if (is_redis_refusal(value) && follow_redirect(call, value))
        return;
    memcpy(why, value->text.bytes, len);
    why[len] = '\0';
    bool replica = error_says(value, why, "READONLY ") || is_redis_error(value, "MASTERDOWN ");
    if (error_says(value, why, "WRONGTYPE "))
        say_stranger(call, why);
    if (replica)
        weir_redis_demoted(call->redis, call->slot, &call->host);
    call->answered = true;
    call->done(call, NULL, !replica && !is_redis_refusal(value), why);
}

/* ---- there and back --------------------------------------------------------------------------- */

static void call_answered(void *arg, const struct resp_value *value, bool asked, const char *why)
{
    struct redis_call *call = arg;
    if (!value)
        weir_redis_doubt(call->redis, call->slot, &call->host, why);
    if (value && value->type == RESP_ERROR) {
        call_refused(call, value);
    } else if (!value && !asked && call->redis->cluster && call->hops++ < REDIS_HOPS_MAX) {
        call->asking = false;
        weir_redis_call(call); /* somebody else may know who has the slot now */
    } else {
        call->done(call, value, value || asked, why);
    }
}

static void script_loaded(void *arg, const struct resp_value *value, bool asked, const char *why)
{
    struct redis_text *script = arg;
    (void)asked, (void)why;
    if (!value || value->type != RESP_BULK || value->text.len != 40)
        return;
    (void)pthread_mutex_lock(&script->redis->lock);
    (void)snprintf(script->sha, sizeof script->sha, "%.40s", value->text.bytes);
    (void)pthread_mutex_unlock(&script->redis->lock);
}

/* The name of a script. While it has none, a server is asked for one now and then: it refuses while it loads
 * its data, or by its rules. Other servers say NOSCRIPT and get the text once. */
static void find_script_sha(struct redis_call *call, struct redis_text *script, char sha[48])
{
    const struct slice words[] = {{"SCRIPT", 6}, {"LOAD", 4}, {script->text, strlen(script->text)}};
    int64_t now = weir_resp_client_now();
    (void)pthread_mutex_lock(&call->redis->lock);
    memcpy(sha, script->sha, sizeof script->sha);
    bool due = !sha[0] && now >= script->load_at_ns;
    if (due)
        script->load_at_ns = now + LOAD_NS;
    (void)pthread_mutex_unlock(&call->redis->lock);
    if (due)
        weir_resp_client_request(call->redis->client, &call->host, words, 3, call->deadline_ns, script_loaded,
                                 script);
}

static void send_redis_call(struct redis_call *call)
{
    struct slice words[REDIS_WORDS_MAX + 3];
    struct redis *redis = call->redis;
    struct redis_text *script = &redis->texts[call->script];
    char keys[8], sha[sizeof script->sha];
    find_script_sha(call, script, sha);
    bool whole = call->whole || !sha[0];
    (void)snprintf(keys, sizeof keys, "%zu", call->keys);
    words[0] = whole ? (struct slice){"EVAL", 4} : (struct slice){"EVALSHA", 7};
    words[1] = whole ? (struct slice){script->text, strlen(script->text)} : (struct slice){sha, strlen(sha)};
    words[2] = (struct slice){keys, strlen(keys)};
    memcpy(words + 3, call->words, call->count * sizeof call->words[0]);
    struct buffer bytes = {.most = RESP_CLIENT_OUT_MAX};
    static const struct slice asking = {"ASKING", 6};
    if (call->asking)
        weir_resp_ask(&bytes, &asking, 1);
    weir_resp_ask(&bytes, words, call->count + 3);
    if (bytes.failed)
        call->done(call, NULL, false, "out of memory");
    else
        weir_resp_client_send(redis->client, &call->host, buffer_bytes(&bytes), buffer_len(&bytes),
                              call->asking ? 2 : 1, call->deadline_ns, call_answered, call);
    weir_buffer_free(&bytes);
}

void weir_redis_call(struct redis_call *call)
{
    char why[RESP_CLIENT_WHY_MAX];
    if (call->count > REDIS_WORDS_MAX)
        call->done(call, NULL, false, "it is too long");
    else if (!weir_redis_route(call->redis, call->slot, &call->host, why))
        call->done(call, NULL, false, why);
    else
        send_redis_call(call);
}

/* ---- waiting ---------------------------------------------------------------------------------- */

struct call_waiter {
    void (*done)(struct redis_call *call, const struct resp_value *value, bool applied, const char *why);
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool over;
};

static void wake_call_waiter(struct redis_call *call, const struct resp_value *value, bool applied,
                             const char *why)
{
    struct call_waiter *wait = call->arg;
    call->arg = wait->arg;
    wait->done(call, value, applied, why);
    (void)pthread_mutex_lock(&wait->lock);
    wait->over = true;
    (void)pthread_cond_signal(&wait->changed);
    (void)pthread_mutex_unlock(&wait->lock);
}

void weir_redis_call_wait(struct redis_call *call)
{
    struct call_waiter wait = {.done = call->done,
                               .arg = call->arg,
                               .lock = PTHREAD_MUTEX_INITIALIZER,
                               .changed = PTHREAD_COND_INITIALIZER};
    call->done = wake_call_waiter;
    call->arg = &wait;
    weir_redis_call(call);
    (void)pthread_mutex_lock(&wait.lock);
    while (!wait.over)
        (void)pthread_cond_wait(&wait.changed, &wait.lock);
    (void)pthread_mutex_unlock(&wait.lock);
    (void)pthread_mutex_destroy(&wait.lock);
    (void)pthread_cond_destroy(&wait.changed);
}
