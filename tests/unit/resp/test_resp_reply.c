/* SPDX-License-Identifier: MIT */
/*
 * Replies as a client reads them: every type of both versions, what is cut, what is broken, what is too much.
 */
#include <math.h>

#include "check.h"
#include "resp/reply.h"

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

static bool no_memory;

void *__wrap_calloc(size_t count, size_t size)
{
    return no_memory ? NULL : __real_calloc(count, size);
}

/* From memory that ends where the bytes end, so that a sanitizer sees who reads on. */
static enum resp_parsed parse(const char *bytes, size_t len, struct resp_value **value, char **memory)
{
    size_t used = 0;
    *memory = malloc(len > 0 ? len : 1);
    if (!*memory)
        abort();
    memcpy(*memory, bytes, len);
    enum resp_parsed parsed = weir_resp_parse(*memory, len, value, &used);
    CHECK(parsed != RESP_PARSED || (*value && used > 0 && used <= len));
    CHECK(parsed == RESP_PARSED || *value == NULL);
    return parsed;
}

/* The value as text, so that a test reads as what it expects. */
static void show(struct buffer *text, const struct resp_value *value)
{
    static const char *const names[] = {"simple", "error",    "integer", "bulk", "null", "bool",
                                        "double", "verbatim", "array",   "map",  "set",  "push"};
    char line[64];
    buffer_put(text, names[value->type], strlen(names[value->type]));
    if (value->type == RESP_INTEGER || value->type == RESP_BOOL)
        buffer_put(text, line, (size_t)snprintf(line, sizeof line, " %" PRId64, value->integer));
    else if (value->type == RESP_DOUBLE)
        buffer_put(text, line, (size_t)snprintf(line, sizeof line, " %g", value->number));
    else if (value->type == RESP_NULL)
        return;
    if (value->type < RESP_ARRAY && value->type != RESP_INTEGER && value->type != RESP_BOOL &&
        value->type != RESP_DOUBLE) {
        buffer_put(text, " ", 1);
        buffer_put(text, value->text.bytes, value->text.len);
    }
    if (value->type < RESP_ARRAY)
        return;
    buffer_put(text, "(", 1);
    for (size_t i = 0; i < value->count; i++) {
        if (i > 0)
            buffer_put(text, ", ", 2);
        show(text, &value->elements[i]);
    }
    buffer_put(text, ")", 1);
}

/* Whole, it is `want`; cut anywhere, more is missing. */
static void check_reply(const char *bytes, const char *want)
{
    struct resp_value *value;
    struct buffer text = {0};
    char *memory;
    size_t len = strlen(bytes);
    for (size_t cut = 0; cut < len; cut++) {
        CHECK_EQ(parse(bytes, cut, &value, &memory), RESP_INCOMPLETE);
        free(memory);
    }
    if (CHECK_EQ(parse(bytes, len, &value, &memory), RESP_PARSED)) {
        show(&text, value);
        buffer_put(&text, "", 1);
        CHECK_STR(text.bytes, want);
    }
    weir_buffer_free(&text);
    weir_resp_value_free(value);
    free(memory);
}

static void check_broken(const char *bytes)
{
    struct resp_value *value;
    char *memory;
    if (!CHECK_EQ(parse(bytes, strlen(bytes), &value, &memory), RESP_BROKEN))
        printf("# %s\n", bytes);
    weir_resp_value_free(value);
    free(memory);
}

TEST(scalars_are_read)
{
    check_reply("+OK\r\n", "simple OK");
    check_reply("+\r\n", "simple ");
    check_reply("-ERR no policy\r\n", "error ERR no policy");
    check_reply("!8\r\nERR a\r\nb\r\n", "error ERR a\r\nb");
    check_reply(":0\r\n", "integer 0");
    check_reply(":-42\r\n", "integer -42");
    check_reply(":+42\r\n", "integer 42");
    check_reply(":9223372036854775807\r\n", "integer 9223372036854775807");
    check_reply(":-9223372036854775808\r\n", "integer -9223372036854775808");
    check_reply("$4\r\na\r\nb\r\n", "bulk a\r\nb");
    check_reply("$0\r\n\r\n", "bulk ");
    check_reply("#t\r\n", "bool 1");
    check_reply("#f\r\n", "bool 0");
    check_reply("(-3492890328409238509324850943850943825024385\r\n",
                "bulk -3492890328409238509324850943850943825024385");
    check_reply("=8\r\ntxt:a: 1\r\n", "verbatim a: 1");
    check_reply("=4\r\nmkd:\r\n", "verbatim ");
}

TEST(doubles_are_read)
{
    check_reply(",1.5\r\n", "double 1.5");
    check_reply(",-1e-7\r\n", "double -1e-07");
    check_reply(",10\r\n", "double 10");
    check_reply(",inf\r\n", "double inf");
    check_reply(",-inf\r\n", "double -inf");
    check_reply(",nan\r\n", "double nan");
}

TEST(nulls_of_both_versions_are_one)
{
    check_reply("$-1\r\n", "null");
    check_reply("*-1\r\n", "null");
    check_reply("_\r\n", "null");
    check_reply("*3\r\n_\r\n$-1\r\n*-1\r\n", "array(null, null, null)");
}

TEST(what_holds_values_is_read)
{
    check_reply("*0\r\n", "array()");
    check_reply("%0\r\n", "map()");
    check_reply("*2\r\n:1\r\n$1\r\na\r\n", "array(integer 1, bulk a)");
    check_reply("%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n_\r\n", "map(simple a, integer 1, simple b, array(null))");
    check_reply("~2\r\n+a\r\n+b\r\n", "set(simple a, simple b)");
    check_reply(">2\r\n+message\r\n*0\r\n", "push(simple message, array())");
    check_reply("*2\r\n*2\r\n*1\r\n:1\r\n:2\r\n*1\r\n:3\r\n",
                "array(array(array(integer 1), integer 2), array(integer 3))");
}

TEST(attributes_are_skipped)
{
    check_reply("|1\r\n+ttl\r\n:5\r\n:7\r\n", "integer 7");
    check_reply("*2\r\n|1\r\n+a\r\n*2\r\n:1\r\n%1\r\n:2\r\n:3\r\n:8\r\n:9\r\n",
                "array(integer 8, integer 9)");
    check_reply("|0\r\n|1\r\n+a\r\n|1\r\n+b\r\n:1\r\n:2\r\n*1\r\n:3\r\n", "array(integer 3)");
    check_reply("*1\r\n|1\r\n+a\r\n+b\r\n*1\r\n:3\r\n", "array(array(integer 3))");
}

TEST(only_the_first_reply_is_read)
{
    struct resp_value *value;
    size_t used = 0;
    CHECK_EQ(weir_resp_parse("+OK\r\n:1\r\n", 9, &value, &used), RESP_PARSED);
    CHECK_EQ(used, 5);
    weir_resp_value_free(value);
    CHECK_EQ(weir_resp_parse(NULL, 0, &value, &used), RESP_INCOMPLETE);
    CHECK(value == NULL);
    weir_resp_value_free(NULL);
}

TEST(what_is_broken_is_said_so)
{
    static const char *replies[] = {
        "x",
        "OK\r\n",
        "\r\n",
        "+OK\n",
        "+a\rb\r\n",
        "\n",
        ":\r\n",
        ":1x\r\n",
        ":-\r\n",
        ":+\r\n",
        ": 1\r\n",
        ":9223372036854775808\r\n",
        ":1.5\r\n",
        "$\r\n",
        "$x\r\n",
        "$-2\r\n",
        "$536870913\r\n",
        "$1\r\nabc",
        "$?\r\n",
        "*?\r\n",
        "*-2\r\n",
        "*x\r\n",
        "%-1\r\n",
        "~-1\r\n",
        ">-1\r\n",
        "|-1\r\n",
        "=-1\r\n",
        "!-1\r\n",
        "=3\r\ntxt\r\n",
        "=1\r\na\r\n:1\r\n",
        ",0000000000000000000000000000000000000000000000000000000000000001\r\n",
        "=5\r\ntext:\r\n",
        "#\r\n",
        "#x\r\n",
        "#tt\r\n",
        "_x\r\n",
        ",\r\n",
        ",x\r\n",
        ",0x10\r\n",
        ",1e\r\n",
        ",infinity\r\n",
        ",nan(1)\r\n",
        ",1 \r\n",
        ", 1\r\n",
        "(\r\n",
        "(1.5\r\n",
        "(-\r\n",
        "*1\r\nx",
        ".\r\n",
        "*1048577\r\n",
        "%524289\r\n",
        ":-9223372036854775809\r\n",
        ":99999999999999999999999999\r\n",
        "$18446744073709551615\r\n",
        ",00000000000000000000000000000000000000000000000000000000000000000000000000001\r\n",
    };
    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++)
        check_broken(replies[i]);
}

TEST(depth_has_a_bound)
{
    char bytes[5 * RESP_DEPTH_MAX + 5];
    struct resp_value *value;
    char *memory;
    size_t len = 0;
    for (int i = 0; i < RESP_DEPTH_MAX; i++, len += 4)
        memcpy(bytes + len, "*1\r\n", 4);
    memcpy(bytes + len, "_\r\n", 3);
    CHECK_EQ(parse(bytes, len + 3, &value, &memory), RESP_PARSED);
    int depth = 0;
    for (const struct resp_value *at = value; at && at->count > 0; at = at->elements)
        depth++;
    CHECK_EQ(depth, RESP_DEPTH_MAX);
    weir_resp_value_free(value);
    free(memory);
    memcpy(bytes + len, "*1\r\n", 4);
    CHECK_EQ(parse(bytes, len + 4, &value, &memory), RESP_BROKEN);
    free(memory);
}

/* An announcement costs its sender as many bytes as it costs the reader memory. */
TEST(elements_have_a_bound)
{
    struct buffer bytes = {0};
    struct resp_value *value;
    size_t used;
    for (int i = 0; i < 9; i++)
        buffer_put(&bytes, "*131072\r\n", 9);
    CHECK_EQ(weir_resp_parse(buffer_bytes(&bytes), buffer_len(&bytes), &value, &used), RESP_BROKEN);
    weir_buffer_free(&bytes);
    buffer_put(&bytes, "*1048576\r\n", 10);
    CHECK_EQ(weir_resp_parse(buffer_bytes(&bytes), buffer_len(&bytes), &value, &used), RESP_INCOMPLETE);
    weir_buffer_free(&bytes);
}

TEST(a_line_has_a_bound)
{
    static char bytes[64 * 1024 + 1];
    struct resp_value *value;
    size_t used;
    memset(bytes, 'a', sizeof bytes);
    bytes[0] = '+';
    CHECK_EQ(weir_resp_parse(bytes, 64 * 1024 - 1, &value, &used), RESP_INCOMPLETE);
    CHECK_EQ(weir_resp_parse(bytes, 64 * 1024, &value, &used), RESP_BROKEN);
    CHECK_EQ(weir_resp_parse(bytes, 64 * 1024 + 1, &value, &used), RESP_BROKEN);
    memcpy(bytes + 64 * 1024 - 2, "\r\n", 2);
    CHECK_EQ(weir_resp_parse(bytes, 64 * 1024, &value, &used), RESP_PARSED);
    CHECK_EQ(value->text.len, 64 * 1024 - 3);
    weir_resp_value_free(value);
}

TEST(without_memory_there_is_no_tree)
{
    struct resp_value *value;
    size_t used;
    no_memory = true;
    CHECK_EQ(weir_resp_parse("*1\r\n:1\r\n", 8, &value, &used), RESP_NO_MEMORY);
    no_memory = false;
    CHECK(value == NULL);
}

TEST(names_are_found_in_maps_and_in_pairs)
{
    static const char *replies[] = {"%3\r\n:1\r\n+x\r\n$1\r\na\r\n:2\r\n=5\r\ntxt:b\r\n:3\r\n",
                                    "*7\r\n:1\r\n+x\r\n$1\r\na\r\n:2\r\n+b\r\n:3\r\n+odd\r\n"};
    for (size_t i = 0; i < 2; i++) {
        struct resp_value *value;
        size_t used;
        if (!CHECK_EQ(weir_resp_parse(replies[i], strlen(replies[i]), &value, &used), RESP_PARSED))
            continue;
        const struct resp_value *a = weir_resp_get(value, "a"), *b = weir_resp_get(value, "b");
        CHECK(a && a->integer == 2);
        CHECK(b && b->integer == 3);
        CHECK(!weir_resp_get(value, "x") && !weir_resp_get(value, "odd") && !weir_resp_get(value, ""));
        CHECK(a && !weir_resp_get(a, "a"));
        weir_resp_value_free(value);
    }
    CHECK(!weir_resp_get(NULL, "a"));
}
