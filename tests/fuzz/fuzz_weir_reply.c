/* SPDX-License-Identifier: MIT */
/*
 * Hostile answers of a weir server. The first byte says what was asked, the rest is what came. Whatever that
 * is: not more chunks than were asked for, not more units than are in them, and none unless it is certain.
 */
#include <stdint.h>
#include <string.h>

#include "fleet/weir/reply.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_at(const struct lease_reply *reply, const struct lease_order *order, const char *why)
{
    bool takes = order->op == LEASE_TAKE, done = reply->outcome == LEASE_DONE;
    MUST(reply->id == order->id && reply->op == order->op);
    MUST(reply->outcome >= LEASE_DONE && reply->outcome <= LEASE_UNKNOWN);
    MUST(memchr(why, '\0', TIER_WHY_MAX) != NULL);
    MUST(reply->chunks >= 0 && reply->chunks <= order->chunks && reply->units >= 0);
    MUST((takes && done) || reply->units == 0);
    MUST(reply->units == 0 || reply->units / reply->chunks <= reply->terms.chunk);
    MUST(!takes || !done || (reply->epoch > 0 && reply->ends_ns >= 0 && reply->terms.window_ns > 0));
    MUST(reply->starts_ns >= 0 && reply->retry_ns >= 0 && reply->left >= -1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int32_t ops[] = {LEASE_TAKE, LEASE_LOOK, LEASE_RETURN, LEASE_PROBE};
    if (size == 0)
        return 0;
    struct lease_order order = {.id = 7, .op = ops[data[0] % 4], .epoch = 12, .chunks = data[0] / 4 % 8};
    struct resp_value *value = NULL;
    struct lease_reply reply;
    char why[TIER_WHY_MAX];
    size_t used;
    if (weir_resp_parse((const char *)data + 1, size - 1, &value, &used) == RESP_PARSED) {
        weir_tier_reply(value, &order, &reply, why);
        look_at(&reply, &order, why);
    }
    weir_resp_value_free(value);
    return 0;
}
