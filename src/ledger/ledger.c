/* SPDX-License-Identifier: MIT */
#include "ledger/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"

/* It is kept for those who missed the answer: they lose nothing but that. */
static bool is_settled(const struct record *record)
{
    const struct ledger_reservation *reservation = (const void *)(record + 1);
    return reservation->settled.question != 0;
}

bool weir_ledger_init(struct ledger *ledger, size_t requests, size_t reservations, struct weir_error *err)
{
    *ledger = (struct ledger){.nonce = weir_hash_key().low >> 32};
    ledger->requests = weir_records_new(requests, sizeof(struct ledger_request), err);
    if (ledger->requests)
        ledger->reservations = weir_records_new(reservations, sizeof(struct ledger_reservation), err);
    if (!ledger->reservations) {
        weir_ledger_end(ledger);
        return false;
    }
    weir_records_yield(ledger->reservations, is_settled);
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
    return atomic_fetch_add_explicit(&ledger->number, 1, memory_order_relaxed) + 1;
}

static uint64_t hash_of(const struct ledger *ledger, const char *kind, const void *bytes, size_t len)
{
    uint64_t hash = weir_record_id(ledger->reservations, kind, bytes, len).word[0];
    return hash ? hash : 1;
}

uint64_t weir_ledger_owner(const struct ledger *ledger, const char *name, size_t len)
{
    return hash_of(ledger, "owner", name, len);
}

uint64_t weir_ledger_question(const struct ledger *ledger, const void *bytes, size_t len)
{
    return hash_of(ledger, "question", bytes, len);
}

void weir_ledger_text(const struct ledger *ledger, uint64_t number, char text[static LEDGER_TEXT_MAX])
{
    (void)snprintf(text, LEDGER_TEXT_MAX, "%" PRIx64 "-%" PRIu64, ledger->nonce, number);
}

/* Nothing but digits, and no more than fit. */
static bool read_number(const char *text, size_t len, uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < len; i++) {
        uint64_t digit = (uint64_t)(unsigned char)text[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, digit, number))
            return false;
    }
    return len > 0;
}

/* A number has one text: what is not written exactly so is none. */
bool weir_ledger_number(const struct ledger *ledger, const char *text, size_t len, uint64_t *number)
{
    char own[LEDGER_TEXT_MAX];
    const char *dash = len < LEDGER_TEXT_MAX ? memchr(text, '-', len) : NULL;
    if (!dash || !read_number(dash + 1, len - (size_t)(dash + 1 - text), number) || *number == 0)
        return false;
    weir_ledger_text(ledger, *number, own);
    return strlen(own) == len && memcmp(own, text, len) == 0;
}
