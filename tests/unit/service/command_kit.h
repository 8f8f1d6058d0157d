/* SPDX-License-Identifier: MIT */
/*
 * The kit of a service, for programs that look at one reply after the other: `say` a line, look at `got`. The
 * client speaks version 3.
 */
#ifndef WEIR_TESTS_COMMAND_KIT_H
#define WEIR_TESTS_COMMAND_KIT_H

#include <stdarg.h>

#include "check.h"
#include "resp/reply.h"
#include "unit/service/service_kit.h"

static struct kit kit;
static struct resp_value *got; /* the last reply */

/* A client of its own, as if it had come from that address. */
CHECK_FUNCTION void kit_connect(const char *address)
{
    weir_session_end(&kit.session, kit.worker);
    weir_session_begin(&kit.session, kit.service, address, "127.0.0.1:9049", weir_now());
    kit.session.version = 3;
}

CHECK_FUNCTION bool kit_begin(const char *yaml)
{
    if (!CHECK(kit_open(&kit, *yaml ? yaml : NULL)))
        return false;
    kit.session.version = 3;
    return true;
}

CHECK_FUNCTION void kit_end(void)
{
    kit_close(&kit);
    weir_resp_value_free(got);
    got = NULL;
    weir_clock_set(-1);
}

/* The reply as bytes; what it consists of is in `got`. */
CHECK_FUNCTION const char *look_at(const char *reply)
{
    size_t used = 0, len = buffer_len(&kit.out);
    weir_resp_value_free(got);
    got = NULL;
    if (len > 0) {
        CHECK_EQ(weir_resp_parse(reply, len, &got, &used), RESP_PARSED);
        CHECK_EQ(used, len); /* one request, one reply */
    }
    return reply;
}

__attribute__((format(printf, 1, 2))) CHECK_FUNCTION const char *say(const char *format, ...)
{
    char line[4096];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    return look_at(kit_ask(&kit, line));
}

/* The text of a value, "" if there is none. Valid for some calls more. */
CHECK_FUNCTION const char *text_of(const struct resp_value *value)
{
    static char text[8][8192];
    static unsigned turn;
    char *to = text[turn++ % 8];
    (void)snprintf(to, sizeof text[0], "%.*s", value ? (int)value->text.len : 0,
                   value ? value->text.bytes : "");
    return to;
}

/* Of a reply that is a map. */
CHECK_FUNCTION const struct resp_value *field(const char *name)
{
    return got ? weir_resp_get(got, name) : NULL;
}

CHECK_FUNCTION const char *text_field(const char *name)
{
    return text_of(field(name));
}

CHECK_FUNCTION int64_t number_field(const char *name)
{
    const struct resp_value *value = field(name);
    return value ? value->integer : INT64_MIN;
}

/* What an error says, or "" if it was none. */
CHECK_FUNCTION const char *error_text(void)
{
    return got && got->type == RESP_ERROR ? text_of(got) : "";
}

CHECK_FUNCTION bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

#endif
