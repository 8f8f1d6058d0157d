/* SPDX-License-Identifier: MIT */

#include <pthread.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/text.h"
#include "service/commands/commands.h"

/*
 * Commands of Redis that people limit with, and what does the same here. The sentence follows "unknown
 * command 'X'; ".
 */

static const struct foreign_group {
    const char *advice;
    const char *names; /* in upper case, each between two spaces */
} groups[] = {
    {"weir runs no scripts: WEIR.TAKE with AND decides several limits at once",
     " EVAL EVALSHA EVAL_RO EVALSHA_RO SCRIPT FCALL FCALL_RO FUNCTION "},
    {"weir counts by itself: WEIR.POLICY SET api 100/m, then WEIR.TAKE api key",
     " INCR INCRBY INCRBYFLOAT INCREX DECR DECRBY HINCRBY HINCRBYFLOAT ZINCRBY PFADD PFCOUNT "},
    {"a log of times is a limit here: WEIR.POLICY SET login \"5/m algo=sliding-log\", then WEIR.TAKE login "
     "key",
     " ZADD ZCARD ZCOUNT ZRANGE ZRANGEBYSCORE ZREM ZREMRANGEBYSCORE ZREMRANGEBYRANK ZSCORE ZPOPMIN "},
    {"weir keeps limits, not values: WEIR.TAKE policy key, or CL.THROTTLE key max_burst count period",
     " SET SETEX SETNX PSETEX SETRANGE GETSET GETDEL GETEX GETRANGE MSET MSETNX MGET APPEND STRLEN SETBIT "
     "GETBIT BITCOUNT BITFIELD HSET HSETNX HGET HMSET HMGET HGETALL HDEL HLEN HEXISTS HKEYS HVALS SADD SREM "
     "SCARD SMEMBERS SISMEMBER LPUSH RPUSH LPUSHX RPUSHX LPOP RPOP LRANGE LLEN LTRIM LINDEX LREM XADD XREAD "
     "XLEN XRANGE XTRIM RENAME RENAMENX COPY MOVE DUMP RESTORE "},
    {"keys are forgotten by themselves once they are full again; WEIR.RESET policy key does it at once",
     " EXPIRE PEXPIRE EXPIREAT PEXPIREAT EXPIRETIME PEXPIRETIME PERSIST TOUCH UNLINK "},
    {"there are no transactions: use a pipeline without MULTI (redis-py: pipeline(transaction=False)); "
     "WEIR.TAKE with AND decides several limits at once",
     " MULTI EXEC DISCARD WATCH UNWATCH "},
    {"WEIR.ACQUIRE policy key waits for its turn and answers when the units are due",
     " BLPOP BRPOP BLMOVE BRPOPLPUSH BZPOPMIN BZPOPMAX BLMPOP BZMPOP WAIT WAITAOF "},
    {"weir sends no messages: WEIR.ACQUIRE policy key answers when the units are due",
     " SUBSCRIBE PSUBSCRIBE SSUBSCRIBE UNSUBSCRIBE PUNSUBSCRIBE SUNSUBSCRIBE PUBLISH SPUBLISH PUBSUB "},
    {"WEIR.TOP policy shows the busiest keys, WEIR.EXPLAIN policy key how one stands",
     " KEYS SCAN RANDOMKEY SORT SORT_RO OBJECT HSCAN SSCAN ZSCAN "},
    {"WEIR.RESET policy key forgets one key; WEIR.POLICY DEL name a policy with all of its keys",
     " FLUSHALL FLUSHDB SWAPDB "},
    {"it is called CL.THROTTLE here, with the same words", " RL.THROTTLE "},
};

static bool is_name_listed(const char *names, struct slice name)
{
    for (const char *at = names + 1; *at != '\0'; at += strcspn(at, " ") + 1)
        if (strcspn(at, " ") == name.len && strncasecmp(at, name.bytes, name.len) == 0)
            return true;
    return false;
}

const char *weir_foreign_advice(struct slice name)
{
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        if (name.len > 0 && is_name_listed(groups[i].names, name))
            return groups[i].advice;
    return NULL;
}

#define MOST   512  /* commands */
#define PLACES 2048 /* of the index, a power of 2 */

static const struct command *const parts[] = {
    weir_commands_take,     weir_commands_explain,    weir_commands_policy, weir_commands_smyte,
    weir_commands_cell,     weir_commands_connection, weir_commands_client, weir_commands_info,
    weir_commands_override, weir_commands_command,    weir_commands_data,   weir_commands_lease,
    weir_commands_keys,
};

/* Made once, at the first look, and never changed. */
static struct {
    const struct command *list[MOST];
    size_t count;
    uint16_t places[PLACES]; /* number + 1; 0: empty */
} known;
static pthread_once_t known_once = PTHREAD_ONCE_INIT;

static inline unsigned char fold_letter(char letter)
{
    unsigned char byte = (unsigned char)letter;
    return byte >= 'A' && byte <= 'Z' ? (unsigned char)(byte | 0x20) : byte;
}

/* Bit 0x20 makes letters small; what it does to others does not matter here, as long as it is always done. */
static inline size_t command_slot(const char *bytes, size_t len)
{
    const uint64_t small = UINT64_C(0x2020202020202020);
    const unsigned char *at = (const unsigned char *)bytes;
    uint64_t hash = len;
    for (size_t i = 0; i + 8 <= len; i += 8)
        hash = (hash ^ (sip_load64(at + i) | small)) * UINT64_C(0xD6E8FEB86659FD93);
    uint64_t rest = sip_rest(at, len) | (small >> (8 * (7 - len % 8)) >> 8);
    hash = (hash ^ rest) * UINT64_C(0xD6E8FEB86659FD93);
    return (size_t)(hash >> 40) & (PLACES - 1);
}

static void add_command(const struct command *command)
{
    size_t at = command_slot(command->name, strlen(command->name));
    if (known.count == MOST)
        return;
    while (known.places[at] != 0)
        at = (at + 1) & (PLACES - 1);
    known.list[known.count++] = command;
    known.places[at] = (uint16_t)known.count;
}

static void fill_command_index(void)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (const struct command *command = parts[i]; command->name; command++)
            add_command(command);
}

static bool is_command_name(const char *name, struct slice word)
{
    for (size_t i = 0; i < word.len; i++)
        if (name[i] == '\0' ||
            fold_letter(word.bytes[i]) != (unsigned char)name[i]) /* no further than its NUL */
            return false;
    return name[word.len] == '\0';
}

size_t weir_command_count(void)
{
    (void)pthread_once(&known_once, fill_command_index);
    return known.count;
}

const struct command *weir_command_at(size_t number)
{
    return number < weir_command_count() ? known.list[number] : NULL;
}

const struct command *weir_command_near(struct slice name)
{
    struct nearest nearest = weir_nearest(name.bytes, name.len);
    const struct command *near = NULL;
    for (size_t i = 0; i < weir_command_count(); i++) {
        const char *full = weir_command_at(i)->name;
        if (weir_nearest_try(&nearest, full) ||
            (strncmp(full, "weir.", 5) == 0 && weir_nearest_try(&nearest, full + 5)))
            near = weir_command_at(i);
    }
    return near;
}

const struct command *weir_command_find(struct slice name, size_t *number)
{
    (void)pthread_once(&known_once, fill_command_index);
    if (name.len == 0 || name.len > 64)
        return NULL;
    for (size_t at = command_slot(name.bytes, name.len); known.places[at] != 0;
         at = (at + 1) & (PLACES - 1)) {
        size_t found = known.places[at] - 1u;
        if (is_command_name(known.list[found]->name, name)) {
            if (number)
                *number = found;
            return known.list[found];
        }
    }
    return NULL;
}
