/* SPDX-License-Identifier: MIT */
#include "fleet/weir/reply.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/sat.h"
#include "base/text.h"
#include "lease/check.h"
#include "lease/ticket.h"
#include "weir.h"

#define TIME_MAX_MS (TICKET_WINDOW_MAX / WEIR_MS) /* no time in an answer is longer */

/* ---- words ---- */

static void add_order_word(struct tier_ask *ask, const char *word)
{
    ask->words[ask->count++] = (struct slice){word, strlen(word)};
}

bool weir_tier_ask(struct tier_ask *ask, const char *name, const struct lease_order *order)
{
    bool returns = order->op == LEASE_RETURN;
    int64_t chunks = order->op == LEASE_TAKE || returns ? order->chunks : 0;
    ask->count = 0;
    if (order->op == LEASE_TURN || chunks < 0)
        return false;
    (void)snprintf(ask->epoch, sizeof ask->epoch, "%" PRIu64, order->epoch);
    (void)snprintf(ask->chunks, sizeof ask->chunks, "%" PRId64, chunks);
    (void)snprintf(ask->units, sizeof ask->units, "%" PRId64, sat_mul(chunks, order->chunk));
    add_order_word(ask, returns ? "WEIR.RETURN" : "WEIR.LEASE");
    add_order_word(ask, name);
    if (returns)
        add_order_word(ask, ask->epoch);
    add_order_word(ask, ask->chunks);
    if (returns && order->chunk > 0)
        add_order_word(ask, ask->units);
    return true;
}

/* ---- answers ---- */

void weir_tier_none(const struct lease_order *order, enum lease_outcome outcome, struct lease_reply *reply)
{
    *reply = lease_reply_of(order, outcome);
    reply->retry_ns = outcome == LEASE_FAILED ? TIER_RETRY_NS : 0;
}

/* Text of a server's, in a line: what cannot be printed is shown as ?. */
static void write_reason(char *why, const char *before, struct slice text)
{
    struct text line;
    weir_text_init(&line, why, TIER_WHY_MAX);
    weir_text_put(&line, before, strlen(before));
    for (size_t at = 0; at < text.len && line.len < TIER_WHY_MAX - 5;) {
        uint32_t code;
        size_t len = weir_utf8_read(text.bytes + at, text.len - at, &code);
        bool good = len > 0 && weir_utf8_printable(code);
        weir_text_put(&line, good ? text.bytes + at : "?", good ? len : 1);
        at += len > 0 ? len : 1;
    }
}

static bool has_code(struct slice error, const char *code)
{
    return error.len >= strlen(code) && memcmp(error.bytes, code, strlen(code)) == 0;
}

/* ERR, UNAVAILABLE, NOPERM, NOAUTH and the like refuse before anything is changed; the store's errors come
 * afterwards. */
static bool is_tier_refusal(struct slice error)
{
    static const char *const codes[] = {"ERR ",      "NOPERM ",  "NOAUTH ", "WRONGPASS ",
                                        "TRYAGAIN ", "LOADING ", "OOM ",    "UNAVAILABLE "};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (has_code(error, codes[i]))
            return true;
    return false;
}

static void read_error(struct slice error, const struct lease_order *order, struct lease_reply *reply,
                       char *why)
{
    if (order->op == LEASE_RETURN && has_code(error, "NOPERM ")) { /* they are gone, and all else goes on */
        weir_tier_none(order, LEASE_DONE, reply);
        reply->epoch = order->epoch;
        reply->read = true;
        write_reason(why, "chunks do not go back: ", error);
        return;
    }
    weir_tier_none(order, is_tier_refusal(error) ? LEASE_FAILED : LEASE_UNKNOWN, reply);
    if (has_code(error, "TRYAGAIN ")) /* it is being joined there: no trouble */
        reply->retry_ns = TIER_SOON_NS;
    else
        write_reason(why, "", error);
}

/* A whole number from `least` to `most`; one that is not there is `none`, if that is not below `least`. */
static bool read_map_number(const struct resp_value *map, const char *name, int64_t least, int64_t most,
                            int64_t none, int64_t *number)
{
    const struct resp_value *value = weir_resp_get(map, name);
    *number = none;
    if (!value || value->type == RESP_NULL)
        return none >= least;
    *number = value->integer;
    return value->type == RESP_INTEGER && *number >= least && *number <= most;
}

static bool read_lease_kind(const struct resp_value *map, int32_t *kind)
{
    const struct resp_value *value = weir_resp_get(map, "kind");
    bool text = value && (value->type == RESP_BULK || value->type == RESP_SIMPLE);
    *kind = text && slice_is(value->text, "bucket") ? LEASE_BUCKET : LEASE_QUOTA;
    return text && (*kind == LEASE_BUCKET || slice_is(value->text, "quota"));
}

static bool read_map_terms(const struct resp_value *map, struct lease_terms *terms)
{
    int64_t window_ms = 0;
    bool good = read_lease_kind(map, &terms->kind) &&
                read_map_number(map, "total", 1, TICKET_TOTAL_MAX, 0, &terms->total) &&
                read_map_number(map, "window_ms", 1, TIME_MAX_MS, 0, &window_ms) &&
                read_map_number(map, "burst", 0, TICKET_TOTAL_MAX, 0, &terms->burst) &&
                read_map_number(map, "chunk", 1, TICKET_TOTAL_MAX, 0, &terms->chunk);
    if (!good)
        return false;
    terms->window_ns = window_ms * WEIR_MS;
    terms->base = terms->chunk;
    return terms->kind == LEASE_QUOTA || terms->burst > 0;
}

/* What is granted: not more chunks than were asked for, and not more units than they hold. */
static bool read_grant(const struct resp_value *map, int64_t asked, struct lease_reply *reply)
{
    return read_map_number(map, "chunks", 0, asked, -1, &reply->chunks) &&
           read_map_number(map, "units", 0, sat_mul(reply->chunks, reply->terms.chunk), -1, &reply->units) &&
           (reply->units > 0) == (reply->chunks > 0);
}

static bool read_times(const struct resp_value *map, struct lease_reply *reply)
{
    int64_t starts, ends, retry;
    bool good = read_map_number(map, "starts_in_ms", 0, TIME_MAX_MS, 0, &starts) &&
                read_map_number(map, "expires_in_ms", 0, TIME_MAX_MS, -1, &ends) &&
                read_map_number(map, "retry_after_ms", 0, TIME_MAX_MS, 0, &retry) &&
                read_map_number(map, "left", -1, TICKET_TOTAL_MAX, -1, &reply->left);
    if (!good)
        return false;
    reply->starts_ns = starts * WEIR_MS;
    reply->ends_ns = ends * WEIR_MS;
    reply->retry_ns = retry * WEIR_MS;
    return true;
}

/* A bucket gives what little there is, and says when a whole chunk will be. */
static bool is_partial_grant(const struct lease_reply *reply)
{
    return reply->terms.kind == LEASE_BUCKET && reply->units < reply->chunks * reply->terms.chunk;
}

static bool read_lease(const struct resp_value *map, const struct lease_order *order,
                       struct lease_reply *reply)
{
    int64_t asked = order->op == LEASE_TAKE ? order->chunks : 0, epoch;
    if ((map->type != RESP_MAP && map->type != RESP_ARRAY) || !read_map_terms(map, &reply->terms) ||
        !read_map_number(map, "epoch", 1, INT64_MAX, 0, &epoch) || !read_grant(map, asked, reply) ||
        !read_times(map, reply))
        return false;
    reply->epoch = (uint64_t)epoch;
    reply->exhausted = reply->chunks < asked || is_partial_grant(reply);
    reply->outcome = LEASE_DONE;
    return true;
}

/* Of an epoch that is over nothing is accepted. */
static bool read_return(const struct resp_value *answer, const struct lease_order *order,
                        struct lease_reply *reply)
{
    if (answer->type != RESP_INTEGER || answer->integer < 0 || answer->integer > order->chunks)
        return false;
    reply->outcome = answer->integer > 0 ? LEASE_DONE : LEASE_MOVED;
    reply->epoch = answer->integer > 0 ? order->epoch : 0;
    reply->chunks = answer->integer;
    return true;
}

void weir_tier_reply(const struct resp_value *answer, const struct lease_order *order,
                     struct lease_reply *reply, char *why)
{
    why[0] = '\0';
    weir_tier_none(order, LEASE_UNKNOWN, reply);
    if (answer->type == RESP_ERROR) {
        read_error(answer->text, order, reply, why);
        return;
    }
    bool good =
        order->op == LEASE_RETURN ? read_return(answer, order, reply) : read_lease(answer, order, reply);
    if (good) {
#if WEIR_ASSERTIONS
        weir_reply_check(order, reply);
#endif
        return;
    }
    weir_tier_none(order, LEASE_UNKNOWN, reply);
    write_reason(why,
                 "it answers what is no lease; is it a weir server, and does it know this version's fleets?",
                 (struct slice){"", 0});
}
