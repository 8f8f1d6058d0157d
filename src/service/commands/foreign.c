/* SPDX-License-Identifier: MIT */
/*
 * Commands of Redis that people limit with, and what does the same here. The sentence follows "unknown
 * command 'X'; ".
 */
#include <strings.h>

#include "service/commands/command.h"

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
