/* SPDX-License-Identifier: MIT */
#include "ledger/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/sat.h"
#include "ledger/persist.h"

int64_t weir_ledger_end_of(const struct record *record)
{
    const struct ledger_reservation *entry = (const void *)(record + 1);
    return sat_sub(record->expires_ns, entry->grace_ms * WEIR_MS);
}

bool weir_ledger_is_over(const struct record *record, int64_t now_ns)
{
    const struct ledger_reservation *entry = (const void *)(record + 1);
    return entry->settled.question > LEDGER_DISTRUSTED || weir_ledger_end_of(record) <= now_ns;
}

/* What a disk says: no number in it may lead anywhere it should not. */
static bool is_sane_request(const void *bytes)
{
    const struct ledger_request *request = bytes;
    const struct ledger_verdict *verdict = &request->verdict;
    return (verdict->allowed == 0 || verdict->allowed == 1) && verdict->due_in_ms >= 0;
}

static bool is_sane_reservation(const void *bytes)
{
    const struct ledger_reservation *entry = bytes;
    if (entry->pairs < 1 || entry->pairs > LEDGER_PAIRS || entry->also > LEDGER_PAIRS - entry->pairs ||
        entry->promise.n < 0)
        return false;
    for (uint32_t i = 0; i < entry->pairs + entry->also; i++)
        if (entry->pair[i].n < 0 || entry->of[i] >= entry->pairs)
            return false;
    return true;
}

static void shift_reservation_times(void *bytes, int64_t by_ns)
{
    struct weir_reservation *promise = &((struct ledger_reservation *)bytes)->promise;
    if (promise->n > 0)
        promise->due_ns = sat_add(promise->due_ns, by_ns);
    if (promise->n > 0 && promise->before_ns != 0)
        promise->before_ns = sat_add(promise->before_ns, by_ns);
}

bool weir_ledger_init(struct ledger *ledger, size_t requests, size_t reservations, struct weir_error *err)
{
    uint64_t lot = weir_hash_key().low >> 32;
    *ledger = (struct ledger){.number = (lot > 0 ? lot : 1) << 32};
    ledger->requests = weir_records_new(requests, sizeof(struct ledger_request), err);
    if (ledger->requests)
        ledger->reservations = weir_records_new(reservations, sizeof(struct ledger_reservation), err);
    if (!ledger->reservations) {
        weir_ledger_end(ledger);
        return false;
    }
    weir_records_form(ledger->requests, is_sane_request, NULL);
    weir_records_yield(ledger->reservations, weir_ledger_is_over);
    weir_records_form(ledger->reservations, is_sane_reservation, shift_reservation_times);
    return true;
}

void weir_ledger_end(struct ledger *ledger)
{
    weir_records_free(ledger->requests);
    weir_records_free(ledger->reservations);
    ledger->requests = ledger->reservations = NULL;
}

/* The scope is hashed by itself, so that no scope and id read like another scope with another id. */
struct record_id weir_ledger_request(const struct ledger *ledger, const char *scope, size_t scope_len,
                                     const void *id, size_t len)
{
    struct record_id scoped = weir_record_id(ledger->requests, "scope", scope, scope_len);
    struct record_id request = weir_record_id(ledger->requests, "request", id, len);
    uint64_t words[4] = {scoped.word[0], scoped.word[1], request.word[0], request.word[1]};
    return weir_record_id(ledger->requests, "scoped request", words, sizeof words);
}

struct record_id weir_ledger_reservation(const struct ledger *ledger, uint64_t number)
{
    return weir_record_id(ledger->reservations, "reservation", &number, sizeof number);
}

uint64_t weir_ledger_next(struct ledger *ledger)
{
    uint64_t number;
    do {
        number = atomic_fetch_add_explicit(&ledger->number, 1, memory_order_relaxed) + 1;
    } while ((uint32_t)number == 0); /* once in four billion */
    return number;
}

bool weir_ledger_is_ours(const struct ledger *ledger, uint64_t number)
{
    uint64_t last = atomic_load_explicit(&ledger->number, memory_order_relaxed);
    return number >> 32 == last >> 32 && number <= last;
}

/* Called inside of it. */
static bool distrust_reservation(void *arg, struct record *record)
{
    struct ledger_reservation *entry = record_bytes(record);
    if (entry->settled.question != 0 || record->expires_ns <= *(const int64_t *)arg)
        return false;
    entry->settled = (struct ledger_settled){.question = LEDGER_DISTRUSTED};
    return true;
}

size_t weir_ledger_distrust(struct ledger *ledger, int64_t now_ns)
{
    return weir_records_change(ledger->reservations, distrust_reservation, &now_ns);
}

static uint64_t hash_ledger_bytes(const struct ledger *ledger, const char *kind, const void *bytes,
                                  size_t len)
{
    uint64_t hash = weir_record_id(ledger->reservations, kind, bytes, len).word[0];
    return hash > LEDGER_DISTRUSTED ? hash : hash + 2;
}

uint64_t weir_ledger_owner(const struct ledger *ledger, const char *name, size_t len)
{
    return hash_ledger_bytes(ledger, "owner", name, len);
}

uint64_t weir_ledger_question(const struct ledger *ledger, const void *bytes, size_t len)
{
    return hash_ledger_bytes(ledger, "question", bytes, len);
}

void weir_ledger_text(uint64_t number, char text[static LEDGER_TEXT_MAX])
{
    (void)snprintf(text, LEDGER_TEXT_MAX, "%" PRIx32 "-%" PRIu32, (uint32_t)(number >> 32), (uint32_t)number);
}

/* Nothing but digits to that base, and no more than fit in 32 bits. */
static bool parse_number_in_base(const char *text, size_t len, unsigned base, uint64_t *number)
{
    static const char digits[] = "0123456789abcdef";
    *number = 0;
    for (size_t i = 0; i < len; i++) {
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;
        if (!digit || (uint64_t)(digit - digits) >= base)
            return false;
        *number = *number * base + (uint64_t)(digit - digits);
        if (*number > UINT32_MAX)
            return false;
    }
    return len > 0;
}

/* A number has one text: what is not written exactly so is none. */
bool weir_ledger_number(const char *text, size_t len, uint64_t *number)
{
    char own[LEDGER_TEXT_MAX];
    uint64_t lot, count;
    const char *dash = len < LEDGER_TEXT_MAX ? memchr(text, '-', len) : NULL;
    if (!dash || !parse_number_in_base(text, (size_t)(dash - text), 16, &lot) ||
        !parse_number_in_base(dash + 1, len - (size_t)(dash + 1 - text), 10, &count) || count == 0)
        return false;
    *number = lot << 32 | count;
    weir_ledger_text(*number, own);
    return strlen(own) == len && memcmp(own, text, len) == 0;
}
