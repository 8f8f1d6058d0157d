/* SPDX-License-Identifier: MIT */
/*
 * Hostile answers of a Redis server. The first byte says what was asked, the rest is what came. Whatever that
 * is: not more chunks than were asked for, not more units than are in them, and none unless it is certain.
 */
#include <stdint.h>
#include <string.h>

#include "fleet/redis/exact.h"
#include "fleet/redis/reply.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_at_order(const struct resp_value *value, uint8_t what)
{
    struct lease_order order = {.id = 5, .op = what % 5, .epoch = 12, .chunks = what / 5 % 8};
    struct lease_reply reply;
    int64_t used = 0;
    bool read = weir_redis_read_order(value, &order, &reply, &used);
    MUST(reply.id == order.id && reply.op == order.op);
    MUST(read || reply.outcome == LEASE_UNKNOWN);
    if (!read)
        return;
    MUST(reply.outcome >= LEASE_DONE && reply.outcome <= LEASE_FAILED && reply.epoch > 0);
    MUST(reply.chunks >= 0 && reply.chunks <= order.chunks && reply.units >= 0);
    MUST(reply.units == 0 || order.op == LEASE_TAKE || order.op == LEASE_RETURN);
    MUST(used >= reply.chunks || order.op == LEASE_RETURN);
    MUST(reply.units <= reply.chunks * reply.terms.chunk);
    MUST(reply.starts_ns >= 0 && reply.retry_ns >= 0 && reply.left >= 0 && reply.age_ns >= -1);
    MUST(reply.terms.kind == LEASE_QUOTA || reply.units == 0 || reply.ends_ns > reply.starts_ns);
}

static void look_at_verdict(const struct resp_value *value, uint8_t what)
{
    struct exact_shape shape = {.window = what & 1, .count = 10, .period = 1000000, .burst = 10};
    struct weir_verdict verdict;
    int64_t n = what / 2 % 12 + 1;
    bool read = weir_exact_read(value, &shape, n, &verdict);
    MUST(read || !verdict.allowed);
    MUST(!verdict.allowed || n <= shape.burst);
    MUST(!read || (verdict.remaining >= 0 && verdict.remaining <= shape.burst));
}

static void look_at_range(void *arg, unsigned first, unsigned last, const struct server_host *host)
{
    (void)arg;
    MUST(first <= last && last < REDIS_SLOTS);
    MUST(host->port > 0 && host->port < 65536 && memchr(host->name, '\0', sizeof host->name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct server_host from = {.name = "here", .port = 6379}, to;
    struct quota_answer answer;
    struct resp_value *value = NULL;
    size_t used, replicas;
    unsigned slot;
    bool master;
    if (size == 0)
        return 0;
    if (weir_resp_parse((const char *)data + 1, size - 1, &value, &used) == RESP_PARSED) {
        look_at_order(value, data[0]);
        look_at_verdict(value, data[0]);
        if (weir_redis_read_quota(value, "quota", &answer))
            MUST(answer.left >= 0 && answer.used >= 0 && memchr(answer.note, '\0', sizeof answer.note));
        if (value->type == RESP_ERROR &&
            weir_redis_read_redirect(value->text, &from, &slot, &to) != REDIRECT_NONE)
            look_at_range(NULL, slot, slot, &to);
        if (weir_redis_read_role(value, &master, &replicas, &to) && to.port > 0)
            look_at_range(NULL, 0, 0, &to);
        (void)weir_redis_read_slots(value, &from, look_at_range, NULL);
    }
    weir_resp_value_free(value);
    return 0;
}
