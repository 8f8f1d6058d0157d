/* SPDX-License-Identifier: MIT */
/*
 * A script's way to the server that has its slot, and back.
 *
 * What is certain: an answer; a question that never left; and those errors by which a server says that it has
 * done nothing. Everything else may have been applied.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/sat.h"
#include "fleet/redis/call.h"
#include "fleet/redis/reply.h"
#include "os/futex.h"

/*
 * Who is to be asked. All state is under redis->lock; nothing is asked of the client while it is held.
 */

#define LOOK_NS   (200 * WEIR_MS) /* between two looks, while nobody is known */
#define OTHERS_NS (100 * WEIR_MS) /* somebody says that he is the master: so long others may object */
#define ROLE_NS   WEIR_SEC        /* for an answer */
#define PEACE_NS  (2 * WEIR_SEC)  /* for one host alone that is a replica, at most */
#define CALM_NS   (10 * WEIR_SEC) /* it was none for so long: the next pause is a short one again */

static const char not_master[] = "it is a replica, not the master";

/* ---- hosts ------------------------------------------------------------------------------------ */

static bool is_alone(const struct redis *redis)
{
    return !redis->cluster && redis->url.host_count == 1;
}

static int host_index(const struct redis *redis, const struct server_host *host)
{
    for (size_t i = 0; i < redis->host_count; i++)
        if (redis->hosts[i].host.port == host->port && strcmp(redis->hosts[i].host.name, host->name) == 0)
            return (int)i;
    return -1;
}

static void forget_slots(struct redis *redis, int index)
{
    for (size_t i = 0; i < REDIS_SLOTS; i++)
        if (redis->slots[i] == index + 1)
            redis->slots[i] = 0;
}

/* Its index; a new one, if need be in place of one that was learnt and is away. -1: there is no room. */
static int add_redis_host(struct redis *redis, const struct server_host *host)
{
    int index = host_index(redis, host);
    if (index >= 0)
        return index;
    if (redis->host_count < REDIS_HOSTS_MAX)
        index = (int)redis->host_count++;
    for (size_t i = 0; index < 0 && i < redis->host_count; i++)
        if (!redis->hosts[i].named && !redis->hosts[i].open && redis->master != (int)i)
            index = (int)i;
    if (index < 0)
        return -1;
    forget_slots(redis, index);
    redis->hosts[index] = (struct redis_host){.host = *host};
    return index;
}

void weir_redis_route_begin(struct redis *redis)
{
    for (size_t i = 0; i < redis->url.host_count; i++) {
        int index = add_redis_host(redis, &redis->url.hosts[i]);
        if (index >= 0)
            redis->hosts[index].named = true;
    }
    redis->master = is_alone(redis) ? 0 : -1;
    (void)snprintf(redis->why, sizeof redis->why, "it does not answer");
}

/* ---- up and down ------------------------------------------------------------------------------ */

/* Under the lock. */
static void publish_redis_state(struct redis *redis)
{
    bool up = !redis->cluster && redis->master >= 0 && redis->hosts[redis->master].open;
    for (size_t i = 0; redis->cluster && i < redis->host_count; i++)
        up = up || redis->hosts[i].open;
    if (up == redis->up)
        return;
    redis->up = up;
    atomic_fetch_add(&redis->moves, 1);
    weir_futex_wake(&redis->moves, INT32_MAX);
    if (!redis->quiet && redis->sink.moved)
        redis->sink.moved(redis->sink.agent, up, up ? "" : redis->why);
}

void weir_redis_opened(void *arg, const struct server_host *host)
{
    struct redis *redis = arg;
    (void)pthread_mutex_lock(&redis->lock);
    int index = host_index(redis, host);
    if (index >= 0) {
        redis->hosts[index].open = true;
        redis->hosts[index].line = ++redis->lines;
    }
    publish_redis_state(redis);
    (void)pthread_mutex_unlock(&redis->lock);
}

uint64_t weir_redis_connection_number(const struct redis *redis, const struct server_host *host)
{
    int index = host_index(redis, host);
    return index >= 0 && redis->hosts[index].open ? redis->hosts[index].line : 0;
}

/* Under the lock. */
static void drop_master(struct redis *redis, int64_t look_at_ns)
{
    redis->master = -1;
    redis->look_at_ns = look_at_ns;
    redis->find.round++;
    redis->find.left = 0;
}

/* Under the lock: is that the master, and are there others that might be? */
static bool may_leave_master(const struct redis *redis, int index)
{
    return index >= 0 && redis->master == index && !is_alone(redis);
}

/* Whoever waits for an answer of one host alone need not wait any longer. */
static bool is_permanent_failure(const char *why)
{
    static const char *const reasons[] = {
        ": NOAUTH",       ": WRONGPASS",          ": NOPERM",
        ": ERR DB index", ": Connection refused", ": Name or service not known",
        ": TLS: "};
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (strstr(why, reasons[i]))
            return true;
    return false;
}

/* What it says then is about HELLO, and long; who reads this has written a URL. */
static void describe_login_failure(const struct redis *redis, char *why, size_t size)
{
    char *at = strstr(why, "NOAUTH ");
    if (at)
        (void)snprintf(at, size - (size_t)(at - why),
                       "NOAUTH: it wants a password: %.*s://:password@host (or user:password@)",
                       (int)strcspn(redis->url.shown, ":"), redis->url.shown);
}

void weir_redis_closed(void *arg, const struct server_host *host, const char *why)
{
    struct redis *redis = arg;
    (void)pthread_mutex_lock(&redis->lock);
    int index = host_index(redis, host);
    (void)snprintf(redis->why, sizeof redis->why, "%s", why);
    describe_login_failure(redis, redis->why, sizeof redis->why);
    redis->refused = is_permanent_failure(why);
    if (redis->refused) {
        atomic_fetch_add(&redis->moves, 1);
        weir_futex_wake(&redis->moves, INT32_MAX);
    }
    if (index >= 0) {
        redis->hosts[index].open = false;
        if (may_leave_master(redis, index))
            drop_master(redis, 0);
    }
    publish_redis_state(redis);
    (void)pthread_mutex_unlock(&redis->lock);
}

/* That one was not the right one to ask: no master, or not to be reached. */
static void redis_doubt(struct redis *redis, unsigned slot, const struct server_host *host, const char *why)
{
    (void)pthread_mutex_lock(&redis->lock);
    int index = host_index(redis, host);
    if (index >= 0 && redis->slots[slot] == index + 1)
        redis->slots[slot] = 0;
    if (may_leave_master(redis, index)) {
        (void)snprintf(redis->why, sizeof redis->why, "%s", why);
        drop_master(redis, 0);
        publish_redis_state(redis);
    }
    (void)pthread_mutex_unlock(&redis->lock);
    weir_resp_client_wake(redis->client);
}

/* Under the lock: when one host alone that is a replica is looked at again. */
static int64_t next_role_check(struct redis *redis)
{
    int64_t now = weir_resp_client_now();
    bool again = sat_sub(now, redis->demoted_ns) < CALM_NS;
    redis->pause_ns = again ? clamp64(2 * redis->pause_ns, LOOK_NS, PEACE_NS) : LOOK_NS;
    redis->demoted_ns = now;
    return now + redis->pause_ns;
}

/* The same, of one that says itself that it is a replica; by the client's thread. */
static void redis_demoted(struct redis *redis, unsigned slot, const struct server_host *host)
{
    weir_resp_client_close_host(redis->client, host, not_master);
    (void)pthread_mutex_lock(&redis->lock);
    if (is_alone(redis) && redis->master >= 0 && host_index(redis, host) == redis->master) {
        (void)snprintf(redis->why, sizeof redis->why, "%s", not_master);
        drop_master(redis, next_role_check(redis));
        publish_redis_state(redis);
    }
    (void)pthread_mutex_unlock(&redis->lock);
    redis_doubt(redis, slot, host, not_master);
}

/* Who is to be asked for a slot. false: nobody is known; `why`. */
static bool redis_route(struct redis *redis, unsigned slot, struct server_host *host,
                        char why[RESP_CLIENT_WHY_MAX])
{
    (void)pthread_mutex_lock(&redis->lock);
    int index = redis->master;
    if (redis->cluster || redis->slots[slot] > 0)
        index = redis->slots[slot] > 0 ? redis->slots[slot] - 1 : (int)(redis->turn++ % redis->host_count);
    if (index >= 0)
        *host = redis->hosts[index].host;
    (void)snprintf(why, RESP_CLIENT_WHY_MAX, "no master is known: %.100s", redis->why);
    (void)pthread_mutex_unlock(&redis->lock);
    return index >= 0;
}

/* A slot is there, as somebody has said. */
static void redis_moved(struct redis *redis, unsigned slot, const struct server_host *host)
{
    (void)pthread_mutex_lock(&redis->lock);
    int index = add_redis_host(redis, host);
    if (index >= 0)
        redis->slots[slot] = (uint8_t)(index + 1);
    (void)pthread_mutex_unlock(&redis->lock);
}

/* ---- looking for the master ------------------------------------------------------------------- */

struct role_ask {
    struct redis *redis;
    struct server_host host;
    uint64_t round;
};

/* Under the lock. */
static void choose_master(struct redis *redis)
{
    redis->master = redis->find.best;
    redis->find.round++;
    redis->find.left = 0;
    publish_redis_state(redis);
}

static void take_role_answer(struct redis *redis, const struct role_ask *ask, const struct resp_value *value)
{
    bool master = false;
    size_t replicas = 0;
    struct server_host of = {0};
    int index = host_index(redis, &ask->host);
    bool error = value && value->type == RESP_ERROR;
    if (error)
        (void)snprintf(redis->why, sizeof redis->why, "%.*s", (int)min64((int64_t)value->text.len, 120),
                       value->text.bytes);
    if (error && is_alone(redis))
        master = true; /* it does not tell, or this user may not ask: it is taken as it is again */
    else if (!value || error || !weir_redis_read_role(value, &master, &replicas, &of))
        return;
    if (master && index >= 0 && (redis->find.best < 0 || replicas > redis->find.replicas)) {
        redis->find.best = index;
        redis->find.replicas = replicas;
        redis->find.until_ns = min64(redis->find.until_ns, weir_resp_client_now() + OTHERS_NS);
    } else if (!master) {
        (void)snprintf(redis->why, sizeof redis->why, "%.100s:%d is a replica", ask->host.name,
                       ask->host.port);
        if (is_alone(redis)) {
            weir_resp_client_close_host(redis->client, &ask->host, not_master);
            redis->look_at_ns = next_role_check(redis);
        } else if (of.port > 0) {
            (void)add_redis_host(redis, &of); /* asked in the next round */
        }
    }
}

static void role_answered(void *arg, const struct resp_value *value, bool asked, const char *why)
{
    struct role_ask *ask = arg;
    struct redis *redis = ask->redis;
    (void)asked, (void)why;
    (void)pthread_mutex_lock(&redis->lock);
    if (ask->round == redis->find.round && redis->find.left > 0) {
        take_role_answer(redis, ask, value);
        if (--redis->find.left == 0 && redis->find.best >= 0)
            choose_master(redis);
    }
    (void)pthread_mutex_unlock(&redis->lock);
    free(ask);
}

/* A connection is made only if something waits for it, so whoever needs not tell his role is asked PING. */
static void ask_all_hosts(struct redis *redis, const struct role_ask *all, size_t count, bool role,
                          int64_t now)
{
    const struct slice word = role ? (struct slice){"ROLE", 4} : (struct slice){"PING", 4};
    for (size_t i = 0; i < count; i++) {
        struct role_ask *ask = malloc(sizeof *ask);
        if (!ask)
            continue; /* the round ends by its time */
        *ask = all[i];
        weir_resp_client_request(redis->client, &ask->host, &word, 1, now + ROLE_NS, role_answered, ask);
    }
}

static void find_master(struct redis *redis, int64_t now)
{
    struct role_ask all[REDIS_HOSTS_MAX];
    size_t count = 0;
    (void)pthread_mutex_lock(&redis->lock);
    redis->find.round++;
    redis->find.best = -1;
    redis->find.replicas = 0;
    redis->find.until_ns = now + ROLE_NS + LOOK_NS;
    for (size_t i = 0; i < redis->host_count; i++)
        if (!redis->hosts[i].open || !redis->up)
            all[count++] = (struct role_ask){redis, redis->hosts[i].host, redis->find.round};
    redis->find.left = count;
    bool role = !redis->cluster && redis->master < 0;
    (void)pthread_mutex_unlock(&redis->lock);
    ask_all_hosts(redis, all, count, role, now);
}

/* ---- the slots of a cluster ------------------------------------------------------------------- */

static void store_slot_range(void *arg, unsigned first, unsigned last, const struct server_host *host)
{
    struct redis *redis = arg;
    int index = add_redis_host(redis, host);
    for (unsigned slot = first; index >= 0 && slot <= last; slot++)
        redis->slots[slot] = (uint8_t)(index + 1);
}

struct slots_ask {
    struct redis *redis;
    const struct server_host *host;
    struct weir_error *err;
    bool good;
};

static void slots_answered(void *arg, const struct resp_value *value, bool asked, const char *why)
{
    struct slots_ask *ask = arg;
    const struct server_host *host = ask->host;
    (void)asked;
    if (!value) {
        (void)weir_error_complain(ask->err, "%s", why);
        return;
    }
    if (value->type == RESP_ERROR) {
        (void)weir_error_complain(ask->err, "%.80s:%d: %.*s; is it a cluster? redis:// is one server",
                                  host->name, host->port, (int)min64((int64_t)value->text.len, 80),
                                  value->text.bytes);
        return;
    }
    (void)pthread_mutex_lock(&ask->redis->lock);
    ask->good = weir_redis_read_slots(value, host, store_slot_range, ask->redis);
    (void)pthread_mutex_unlock(&ask->redis->lock);
    if (!ask->good)
        (void)weir_error_complain_as(ask->err, EPROTO, "%.80s:%d does not know its slots", host->name,
                                     host->port);
}

/* Asks one after the other until somebody knows them. */
static bool load_slots(struct redis *redis, int64_t deadline_ns, struct weir_error *err)
{
    static const struct slice words[] = {{"CLUSTER", 7}, {"SLOTS", 5}};
    struct slots_ask ask = {.redis = redis, .err = err};
    for (size_t i = 0; i < redis->url.host_count && !ask.good; i++) {
        int64_t now = weir_resp_client_now();
        int64_t share = max64(0, deadline_ns - now) / (int64_t)(redis->url.host_count - i);
        ask.host = &redis->url.hosts[i];
        weir_resp_client_wait(redis->client, ask.host, words, 2, now + share, slots_answered, &ask);
    }
    return ask.good;
}

/* ---- time ------------------------------------------------------------------------------------- */

int64_t weir_redis_tick(void *arg, int64_t now)
{
    struct redis *redis = arg;
    (void)pthread_mutex_lock(&redis->lock);
    if (redis->find.left > 0 && now >= redis->find.until_ns) {
        if (redis->find.best >= 0)
            choose_master(redis);
        redis->find.left = 0;
    }
    bool ready = redis->client && !redis->quiet;
    bool due = ready && !redis->up && redis->find.left == 0 && now >= redis->look_at_ns;
    if (due)
        redis->look_at_ns = now + LOOK_NS;
    int64_t next = redis->find.left > 0 ? redis->find.until_ns : redis->look_at_ns;
    if (redis->up || !ready)
        next = INT64_MAX;
    (void)pthread_mutex_unlock(&redis->lock);
    if (due)
        find_master(redis, now);
    return due ? now : next;
}

bool weir_redis_reach(struct redis *redis, int64_t deadline_ns, struct weir_error *err)
{
    struct weir_error why;
    if (redis->cluster) {
        if (load_slots(redis, deadline_ns, &why))
            return true;
        describe_login_failure(redis, why.text, sizeof why.text);
        return weir_error_complain_as(err, EHOSTUNREACH, "cannot reach %.100s: %.140s", redis->url.shown,
                                      why.text);
    }
    for (;;) {
        uint32_t moves = atomic_load(&redis->moves);
        int64_t left = deadline_ns - weir_resp_client_now();
        (void)pthread_mutex_lock(&redis->lock);
        bool up = redis->up, over = up || left <= 0 || (redis->refused && redis->host_count == 1);
        if (over && !up)
            (void)weir_error_complain_as(err, EHOSTUNREACH, "cannot reach %.100s: %.140s", redis->url.shown,
                                         redis->why);
        (void)pthread_mutex_unlock(&redis->lock);
        if (over)
            return up;
        weir_futex_wait(&redis->moves, moves, weir_monotonic_ns() + left);
    }
}

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
    struct server_host to;
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
        redis_moved(call->redis, slot, &to);
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
        redis_demoted(call->redis, call->slot, &call->host);
    call->answered = true;
    call->done(call, NULL, !replica && !is_redis_refusal(value), why);
}

/* ---- there and back --------------------------------------------------------------------------- */

static void call_answered(void *arg, const struct resp_value *value, bool asked, const char *why)
{
    struct redis_call *call = arg;
    if (!value)
        redis_doubt(call->redis, call->slot, &call->host, why);
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
    else if (!redis_route(call->redis, call->slot, &call->host, why))
        call->done(call, NULL, false, why);
    else
        send_redis_call(call);
}

/* ---- waiting ---------------------------------------------------------------------------------- */

struct call_waiter {
    void (*done)(struct redis_call *call, const struct resp_value *value, bool applied, const char *why);
    void *arg;
    _Atomic uint32_t over;
};

static void wake_call_waiter(struct redis_call *call, const struct resp_value *value, bool applied,
                             const char *why)
{
    struct call_waiter *wait = call->arg;
    call->arg = wait->arg;
    wait->done(call, value, applied, why);
    atomic_store(&wait->over, 1);
    weir_futex_wake(&wait->over, 1);
}

void weir_redis_call_wait(struct redis_call *call)
{
    struct call_waiter wait = {.done = call->done, .arg = call->arg};
    call->done = wake_call_waiter;
    call->arg = &wait;
    weir_redis_call(call);
    while (!atomic_load(&wait.over))
        weir_futex_wait(&wait.over, 0, 0);
}
