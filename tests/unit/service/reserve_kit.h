/* SPDX-License-Identifier: MIT */
/*
 * For tests of reservations: a service with some policies and users, what it is told, and what it has
 * answered. The clock stands unless a test moves it.
 */
#ifndef WEIR_TESTS_RESERVE_KIT_H
#define WEIR_TESTS_RESERVE_KIT_H

#include <stdarg.h>

#include "check.h"
#include "unit/service/service_kit.h"

static const char config[] = "memory: 8MiB\n"
                             "policies:\n"
                             "  - name: tokens\n"
                             "    limits: [1k/h]\n"
                             "    overrides:\n"
                             "      - {key: \"big:*\", limits: [5k/h]}\n"
                             "  - name: strict\n"
                             "    limits: [100/h]\n"
                             "    reserve: {ttl: 2s, overrun: refuse}\n"
                             "  - name: paced\n"
                             "    limits: [10/s]\n"
                             "  - name: patient\n"
                             "    limits: [10/s timeout=1s]\n"
                             "  - name: shadow\n"
                             "    limits: [100/h]\n"
                             "    mode: shadow\n"
                             "    reserve: {overrun: refuse}\n"
                             "  - name: tried\n"
                             "    limits: [100/h]\n"
                             "    candidate: [60/h]\n"
                             "  - name: disabled\n"
                             "    limits: [100/h]\n"
                             "    mode: disabled\n"
                             "users:\n"
                             "  - {name: default, may: all}\n"
                             "  - name: alice\n"
                             "    password: a\n"
                             "    may: [take, look]\n"
                             "  - name: bob\n"
                             "    password: b\n"
                             "    may: [take]\n"
                             "    keys: [\"b:*\"]\n"
                             "    policies: [tokens]\n";

static struct kit kit;
static const char *reply;
static int64_t clock_ms;
static char ids[8][LEDGER_TEXT_MAX];
static size_t id_count;

CHECK_FUNCTION void begin(void)
{
    struct service_options options = {.workers = 1, .test_clock = true};
    if (!kit_open_with(&kit, config, &options))
        abort();
    clock_ms = 0;
    id_count = 0;
}

CHECK_FUNCTION void end(void)
{
    kit_close(&kit);
}

__attribute__((format(printf, 1, 2))) CHECK_FUNCTION void say(const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    reply = kit_ask(&kit, line);
}

/* Of the last reply. */
CHECK_FUNCTION int64_t number(const char *name)
{
    return kit_field(reply, name);
}

CHECK_FUNCTION const char *text(const char *name)
{
    return kit_text(reply, name);
}

CHECK_FUNCTION bool is_null(const char *name)
{
    char field[64];
    (void)snprintf(field, sizeof field, "%s\r\n$-1\r\n", name);
    return strstr(reply, field) != NULL;
}

CHECK_FUNCTION int64_t fields(void)
{
    return reply[0] == '*' ? strtoll(reply + 1, NULL, 10) / 2 : -1;
}

/* Without the line's end; NULL: it is none. */
CHECK_FUNCTION const char *error(void)
{
    static char line[1024];
    if (reply[0] != '-')
        return NULL;
    (void)snprintf(line, sizeof line, "%.*s", (int)strcspn(reply + 1, "\r"), reply + 1);
    return line;
}

CHECK_FUNCTION bool is_gone(const char *id)
{
    return CHECK(error() && strstr(error(), id) && strstr(error(), "' any more: its time is over and "));
}

CHECK_FUNCTION bool is_over(const char *id)
{
    return CHECK(error() && strstr(error(), id) && strstr(error(), "' cannot be cancelled any more: its "));
}

CHECK_FUNCTION bool is_settled(const char *id)
{
    return CHECK(error() && strstr(error(), id) && strstr(error(), "' was settled already, in another way"));
}

/* The id in the last reply; the last eight of a test stay as they are. */
CHECK_FUNCTION const char *keep_id(void)
{
    char *id = ids[id_count++ % (sizeof ids / sizeof *ids)];
    (void)snprintf(id, sizeof ids[0], "%.39s", text("id"));
    CHECK(id[0] != '\0');
    return id;
}

CHECK_FUNCTION int64_t remaining(const char *policy, const char *key)
{
    char line[128];
    (void)snprintf(line, sizeof line, "WEIR.PEEK %s %s", policy, key);
    return kit_field(kit_ask(&kit, line), "remaining");
}

CHECK_FUNCTION void move_clock(int64_t by_ms)
{
    clock_ms += by_ms;
    kit_clock(&kit, clock_ms);
}

CHECK_FUNCTION void as_user(const char *name)
{
    kit_log_in(&kit, name);
}

CHECK_FUNCTION void shrink_ledger(void)
{
    struct ledger *ledger = &kit.service->ledger;
    weir_ledger_end(ledger);
    CHECK(weir_ledger_init(ledger, 1, 1, NULL)); /* a single group of 32 of each */
}

#endif
