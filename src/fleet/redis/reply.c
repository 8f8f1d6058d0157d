/* SPDX-License-Identifier: MIT */
#include "fleet/redis/reply.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/sat.h"
#include "lease/check.h"

#define NUMBER_MAX (INT64_C(1) << 53) /* what a double tells apart */

/* ---- numbers and words ------------------------------------------------------------------------ */

/* Digits alone; *rest is what stands behind them. */
static bool read_reply_digits(struct slice text, int64_t *number, struct slice *rest)
{
    size_t i = 0;
    *number = 0;
    for (; i < text.len && text.bytes[i] >= '0' && text.bytes[i] <= '9'; i++)
        if (__builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, text.bytes[i] - '0', number))
            return false;
    *rest = (struct slice){text.bytes + i, text.len - i};
    return i > 0;
}

/* A number and what separates it from the next; false: neither. */
static bool read_field(struct slice *text, char end, int64_t *number)
{
    if (!read_reply_digits(*text, number, text))
        return false;
    if (text->len == 0)
        return true;
    bool good = text->bytes[0] == end;
    *text = (struct slice){text->bytes + 1, text->len - 1};
    return good && text->len > 0;
}

static bool is_reply_text(const struct resp_value *value)
{
    return value->type == RESP_BULK || value->type == RESP_SIMPLE;
}

/* Whole numbers as scripts give them: below 2^53, not below `least`. */
static bool take_number(const struct resp_value *list, size_t index, int64_t least, int64_t *number)
{
    const struct resp_value *value = &list->elements[index];
    *number = value->integer;
    return value->type == RESP_INTEGER && *number >= least && *number < NUMBER_MAX;
}

/* ---- terms ------------------------------------------------------------------------------------ */

static bool skip_reply_prefix(struct slice *text, const char *word)
{
    size_t len = strlen(word);
    if (text->len < len || memcmp(text->bytes, word, len) != 0)
        return false;
    *text = (struct slice){text->bytes + len, text->len - len};
    return true;
}

bool weir_redis_read_terms(struct slice text, struct lease_terms *terms)
{
    char why[160];
    *terms = (struct lease_terms){.kind = LEASE_BUCKET};
    if (skip_reply_prefix(&text, "quota "))
        terms->kind = LEASE_QUOTA;
    else if (!skip_reply_prefix(&text, "bucket "))
        return false;
    if (!read_field(&text, ' ', &terms->total) || !read_field(&text, ' ', &terms->window_ns) ||
        !read_field(&text, ' ', &terms->burst) || !read_field(&text, ' ', &terms->base))
        return false;
    if (text.len > 0 && (!read_field(&text, ' ', &terms->chunk) || text.len > 0 || terms->chunk < 1))
        return false;
    struct lease_terms whole = *terms;
    return terms->base > 0 && weir_terms_complete(&whole, 0, why, sizeof why);
}

void weir_redis_write_terms(char *text, size_t size, const struct lease_terms *terms)
{
    (void)snprintf(text, size, "%s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64,
                   terms->kind == LEASE_BUCKET ? "bucket" : "quota", terms->total, terms->window_ns,
                   terms->burst, terms->base);
}

/* ---- orders ----------------------------------------------------------------------------------- */

struct order_answer {
    int64_t outcome, epoch, now_us, began_us, used, granted, returned, accepted, is_void, retry_us;
};

static bool read_order_numbers(const struct resp_value *value, struct order_answer *answer)
{
    return take_number(value, ORDER_OUTCOME, 0, &answer->outcome) && answer->outcome <= LEASE_FAILED &&
           take_number(value, ORDER_EPOCH, 1, &answer->epoch) &&
           take_number(value, ORDER_NOW, 0, &answer->now_us) &&
           answer->epoch - answer->now_us <= REDIS_EPOCH_AHEAD &&
           take_number(value, ORDER_BEGAN, -1, &answer->began_us) &&
           take_number(value, ORDER_USED, 0, &answer->used) &&
           take_number(value, ORDER_GRANTED, 0, &answer->granted) &&
           take_number(value, ORDER_RETURNED, 0, &answer->returned) &&
           take_number(value, ORDER_ACCEPTED, 0, &answer->accepted) &&
           take_number(value, ORDER_VOID, 0, &answer->is_void) && answer->is_void <= 1 &&
           take_number(value, ORDER_RETRY, 0, &answer->retry_us);
}

static bool read_quota_order(const struct order_answer *answer, const struct lease_order *order,
                             struct lease_reply *reply)
{
    const struct lease_terms *terms = &reply->terms;
    int64_t used = answer->used + answer->granted, returned = answer->returned;
    int64_t age = answer->began_us < 0 ? -1 : answer->now_us - answer->began_us;
    if (answer->granted > 0 &&
        (answer->is_void || used > sat_add(weir_ticket_count(terms), returned) || returned > answer->used))
        return false;
    reply->chunks = answer->granted;
    reply->units = weir_ticket_left(terms, answer->used, returned) - weir_ticket_left(terms, used, returned);
    reply->exhausted = order->op == LEASE_TAKE && answer->granted < order->chunks;
    reply->left = answer->is_void ? 0 : weir_ticket_left(terms, used, returned);
    reply->age_ns = age < 0 ? -1 : sat_mul(age, 1000);
    reply->ends_ns = -1;
    if (order->op == LEASE_RETURN) {
        reply->chunks = min64(answer->accepted, order->chunks);
        reply->units = sat_mul(reply->chunks, terms->chunk);
    }
    return true;
}

/* The first of the tickets ends first, the last one starts last. One that has died in spite of it all is no
 * more than a number that nobody uses. */
static bool read_bucket_order(const struct order_answer *answer, const struct lease_order *order,
                              struct lease_reply *reply)
{
    const struct lease_terms *terms = &reply->terms;
    int64_t elapsed = sat_mul(answer->now_us - answer->began_us, 1000), starts, ends, later;
    int64_t used = answer->used + answer->granted;
    if (answer->began_us < 0 || used > weir_ticket_count(terms))
        return false;
    int64_t came = mul_div(max64(elapsed, 0), terms->total, terms->window_ns);
    reply->left = clamp64(sat_sub(came, sat_mul(used, terms->chunk)), 0, terms->burst);
    reply->age_ns = -1;
    reply->exhausted = order->op == LEASE_TAKE && answer->granted == 0;
    if (answer->granted == 0)
        return true;
    if (!weir_ticket_span(terms, answer->used, elapsed, &starts, &ends)) {
        reply->exhausted = true;
        return true;
    }
    (void)weir_ticket_span(terms, used - 1, elapsed, &starts, &later);
    reply->starts_ns = max64(0, starts);
    reply->ends_ns = ends;
    if (reply->starts_ns >= ends)
        return true;
    reply->chunks = answer->granted;
    reply->units = sat_mul(answer->granted, terms->chunk);
    return true;
}

#if WEIR_ASSERTIONS
/* Each of the tickets may be spent for as long as all of them are said to be. */
static void check_tickets(const struct order_answer *answer, const struct lease_reply *reply)
{
    int64_t elapsed = sat_mul(answer->now_us - answer->began_us, 1000), starts, ends;
    for (int64_t i = 0; i < min64(answer->granted, 64); i++) {
        (void)weir_ticket_span(&reply->terms, answer->used + i, elapsed, &starts, &ends);
        INVARIANT(56, starts <= reply->starts_ns && reply->ends_ns <= ends);
    }
}
#endif

bool weir_redis_read_order(const struct resp_value *value, const struct lease_order *order,
                           struct lease_reply *reply, int64_t *used)
{
    struct order_answer answer;
    char nonce[24];
    *reply = (struct lease_reply){.id = order->id, .op = order->op, .outcome = LEASE_UNKNOWN, .left = -1};
    (void)snprintf(nonce, sizeof nonce, "%" PRIu64, order->id);
    if (value->type != RESP_ARRAY || value->count != ORDER_FIELDS ||
        !is_reply_text(&value->elements[ORDER_NONCE]) ||
        !slice_is(value->elements[ORDER_NONCE].text, nonce) ||
        !is_reply_text(&value->elements[ORDER_TERMS]) || !read_order_numbers(value, &answer) ||
        !weir_redis_read_terms(value->elements[ORDER_TERMS].text, &reply->terms) || reply->terms.chunk < 1 ||
        answer.granted > (order->op == LEASE_TAKE ? order->chunks : 0))
        return false;
    bool bucket = reply->terms.kind == LEASE_BUCKET;
    if (!(bucket ? read_bucket_order : read_quota_order)(&answer, order, reply))
        return false;
    reply->outcome = (int32_t)answer.outcome;
    reply->epoch = (uint64_t)answer.epoch;
    *used = answer.used + answer.granted;
    reply->retry_ns = sat_mul(answer.retry_us, 1000);
#if WEIR_ASSERTIONS
    weir_reply_check(order, reply);
    if (bucket && reply->units > 0)
        check_tickets(&answer, reply);
#endif
    ASSERT(!answer.is_void || reply->op != LEASE_TAKE || reply->units == 0);
    return true;
}

/* ---- `weir quota` ----------------------------------------------------------------------------- */

static bool read_quota_texts(const struct resp_value *value, struct quota_answer *answer)
{
    struct slice next = value->elements[QUOTA_TERMS].text, of = value->elements[QUOTA_OF].text;
    struct slice note = value->elements[QUOTA_NOTE].text;
    (void)snprintf(answer->note, sizeof answer->note, "%.*s", (int)min64((int64_t)note.len, 150), note.bytes);
    if (next.len > 0 && !weir_redis_read_terms(next, &answer->next))
        (void)snprintf(answer->note, sizeof answer->note,
                       "its total, window, burst and base do not fit together");
    return of.len == 0 || weir_redis_read_terms(of, &answer->terms);
}

bool weir_redis_read_quota(const struct resp_value *value, const char *nonce, struct quota_answer *answer)
{
    int64_t found, epoch, now, began, is_void;
    *answer = (struct quota_answer){.age_ns = -1};
    if (value->type != RESP_ARRAY || value->count != QUOTA_FIELDS)
        return false;
    static const int texts[] = {QUOTA_NONCE, QUOTA_TERMS, QUOTA_OF, QUOTA_NOTE};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!is_reply_text(&value->elements[texts[i]]))
            return false;
    if (!slice_is(value->elements[QUOTA_NONCE].text, nonce) || !take_number(value, QUOTA_FOUND, 0, &found) ||
        !take_number(value, QUOTA_EPOCH, 0, &epoch) || !take_number(value, QUOTA_NOW, 0, &now) ||
        !take_number(value, QUOTA_BEGAN, -1, &began) || !take_number(value, QUOTA_USED, 0, &answer->used) ||
        !take_number(value, QUOTA_RETURNED, 0, &answer->returned) ||
        !take_number(value, QUOTA_VOID, 0, &is_void) || !read_quota_texts(value, answer))
        return false;
    answer->found = found == 1;
    answer->epoch = (uint64_t)epoch;
    if (began >= 0 && now >= began)
        answer->age_ns = sat_mul(now - began, 1000);
    const struct lease_terms *terms = &answer->terms;
    if (epoch == 0)
        answer->left = answer->next.kind == LEASE_BUCKET ? answer->next.burst : answer->next.total;
    else if (terms->kind == LEASE_QUOTA)
        answer->left = is_void ? 0 : weir_ticket_left(terms, answer->used, answer->returned);
    else
        answer->left = clamp64(sat_sub(mul_div(max64(answer->age_ns, 0), terms->total, terms->window_ns),
                                       sat_mul(answer->used, terms->chunk)),
                               0, terms->burst);
    return true;
}

/* ---- where things are ------------------------------------------------------------------------- */

static bool copy_host_name(struct server_host *host, struct slice name, const struct server_host *from)
{
    if (name.len == 0 && from)
        memcpy(host->name, from->name, sizeof host->name);
    else if (name.len == 0 || name.len >= sizeof host->name || memchr(name.bytes, '\0', name.len))
        return false;
    else
        (void)snprintf(host->name, sizeof host->name, "%.*s", (int)name.len, name.bytes);
    return true;
}

/* The port stands behind the last colon: addresses of version 6 have more of them. */
static bool read_address(struct slice text, const struct server_host *from, struct server_host *to)
{
    size_t colon = text.len;
    while (colon > 0 && text.bytes[colon - 1] != ':')
        colon--;
    int64_t port;
    struct slice rest = {text.bytes + colon, text.len - colon};
    *to = (struct server_host){0};
    if (colon == 0 || !read_reply_digits(rest, &port, &rest) || rest.len > 0 || port < 1 || port > 65535)
        return false;
    to->port = (int)port;
    return copy_host_name(to, (struct slice){text.bytes, colon - 1}, from);
}

enum redis_redirect weir_redis_read_redirect(struct slice error, const struct server_host *from,
                                             unsigned *slot, struct server_host *to)
{
    enum redis_redirect redirect = REDIRECT_NONE;
    int64_t number;
    if (skip_reply_prefix(&error, "MOVED "))
        redirect = REDIRECT_MOVED;
    else if (skip_reply_prefix(&error, "ASK "))
        redirect = REDIRECT_ASK;
    if (redirect == REDIRECT_NONE || !read_field(&error, ' ', &number) || number >= REDIS_SLOTS ||
        !read_address(error, from, to))
        return REDIRECT_NONE;
    *slot = (unsigned)number;
    return redirect;
}

bool weir_redis_read_role(const struct resp_value *value, bool *master, size_t *replicas,
                          struct server_host *of)
{
    if (value->type != RESP_ARRAY || value->count < 1 || !is_reply_text(&value->elements[0]))
        return false;
    *master = slice_is(value->elements[0].text, "master");
    *replicas = 0;
    *of = (struct server_host){0};
    if (*master)
        *replicas = value->count >= 3 && value->elements[2].type == RESP_ARRAY ? value->elements[2].count : 0;
    else if (value->count >= 3 && is_reply_text(&value->elements[1]) &&
             value->elements[2].type == RESP_INTEGER && value->elements[2].integer > 0 &&
             value->elements[2].integer < 65536 && copy_host_name(of, value->elements[1].text, NULL))
        of->port = (int)value->elements[2].integer;
    return true;
}

bool weir_redis_read_slots(const struct resp_value *value, const struct server_host *from,
                           redis_slot_range *each, void *arg)
{
    if (value->type != RESP_ARRAY)
        return false;
    for (size_t i = 0; i < value->count; i++) {
        const struct resp_value *range = &value->elements[i];
        int64_t first, last, port;
        struct server_host host = {0};
        if (range->type != RESP_ARRAY || range->count < 3 || !take_number(range, 0, 0, &first) ||
            !take_number(range, 1, first, &last) || last >= REDIS_SLOTS)
            return false;
        const struct resp_value *node = &range->elements[2];
        if (node->type != RESP_ARRAY || node->count < 2 || !take_number(node, 1, 1, &port) || port > 65535)
            return false;
        struct slice name =
            is_reply_text(&node->elements[0]) ? node->elements[0].text : (struct slice){"", 0};
        host.port = (int)port;
        if (!copy_host_name(&host, name, from))
            return false;
        each(arg, (unsigned)first, (unsigned)last, &host);
    }
    return true;
}

uint16_t weir_redis_crc16(const char *bytes, size_t len)
{
    unsigned crc = 0;
    for (size_t i = 0; i < len; i++) {
        crc ^= (unsigned)(unsigned char)bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0);
    }
    return (uint16_t)crc;
}

unsigned weir_redis_slot(const char *key, size_t len)
{
    const char *open = memchr(key, '{', len);
    size_t rest = open ? len - (size_t)(open - key) - 1 : 0;
    const char *close = open ? memchr(open + 1, '}', rest) : NULL;
    if (close && close > open + 1) {
        key = open + 1;
        len = (size_t)(close - key);
    }
    return weir_redis_crc16(key, len) % REDIS_SLOTS;
}
