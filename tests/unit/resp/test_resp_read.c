/* SPDX-License-Identifier: MIT */
/*
 * Requests of the Redis protocol: arrays, lines, what asks for nothing, and each error by its text.
 */
#include "check.h"
#include "resp/read.h"
#include "resp_story.h"

static const struct resp_limits wide = {.args = 1024, .bulk = 1 << 20, .all = 2 << 20};
static const struct resp_limits narrow = {.args = 10, .bulk = 16384, .all = 100000, .unauthenticated = true};

/* All at once, and byte by byte: the careful functions must know what the quick ones know. */
static void check_bytes(const struct resp_limits *limits, const char *bytes, size_t len, const char *want)
{
    for (int slowly = 0; slowly < 2; slowly++) {
        struct story story;
        story_begin(&story, limits);
        for (size_t end = slowly ? 1 : len; end <= len && !story.ended; end++)
            story_arrive(&story, bytes, end);
        story_end(&story, len);
        CHECK_STR(story.text.bytes, want);
        story_free(&story);
    }
}

static void check_text(const char *text, const char *want)
{
    check_bytes(&wide, text, strlen(text), want);
}

TEST(an_array_of_bulk_strings_is_a_request)
{
    check_text("*1\r\n$4\r\nPING\r\n", "request in 14: 4=PING\n0 left\n");
    check_text("*3\r\n$9\r\nWEIR.TAKE\r\n$3\r\napi\r\n$6\r\nuser:1\r\n",
               "request in 40: 9=WEIR.TAKE 3=api 6=user:1\n0 left\n");
    check_text("*2\r\n$0\r\n\r\n$1\r\na\r\n", "request in 17: 0= 1=a\n0 left\n");
    check_text("*1\r\n$12\r\n$3\r\n*1\r\n'\"\\ \r\n", "request in 23: 12=$3\r\n*1\r\n'\"\\ \n0 left\n");
}

TEST(a_word_may_hold_any_byte)
{
    static const char bytes[] = "*1\r\n$5\r\na\0\r\n\xFF\r\n";
    struct resp_reader reader = {0};
    struct resp_request_info got;
    struct slice args[1024];
    char copy[sizeof bytes];
    memcpy(copy, bytes, sizeof bytes);
    CHECK_EQ(weir_resp_read(&reader, &wide, copy, sizeof bytes - 1, args, &got), RESP_REQUEST);
    CHECK_EQ(got.words, 1);
    CHECK(args[0].len == 5 && memcmp(args[0].bytes, "a\0\r\n\xFF", 5) == 0);
    CHECK(args[0].bytes == copy + 8); /* nothing is copied */
}

TEST(a_pipeline_is_read_one_by_one)
{
    check_text("*1\r\n$1\r\na\r\nb c\r\n*2\r\n$1\r\nd\r\n$10\r\n0123456789\r\n\r\n*1\r\n$1\r\n",
               "request in 11: 1=a\nrequest in 5: 1=b 1=c\nrequest in 28: 1=d 10=0123456789\nnothing in 2\n"
               "8 left\n");
}

TEST(what_asks_for_nothing_is_skipped)
{
    check_text("\r\n\n  \t \r\n*0\r\n*-1\r\n*-5\r\nPING\r\n",
               "nothing in 2\nnothing in 1\nnothing in 6\nnothing in 4\nnothing in 5\nnothing in 5\n"
               "request in 6: 4=PING\n0 left\n");
}

TEST(a_line_is_split_as_people_type_it)
{
    check_text("PING\n", "request in 5: 4=PING\n0 left\n");
    check_text("  a\tbc  d \r\n", "request in 12: 1=a 2=bc 1=d\n0 left\n");
    check_text("set \"a b\" 'c d'\r\n", "request in 17: 3=set 3=a b 3=c d\n0 left\n");
    check_text("\"\" '' x\r\n", "request in 9: 0= 0= 1=x\n0 left\n");
    check_text("ab\"c d\" e'f g'\n", "request in 15: 5=abc d 4=ef g\n0 left\n");
    check_text("a$3 $3 *1\n", "request in 10: 3=a$3 2=$3 2=*1\n0 left\n");
}

TEST(escapes_are_resolved_between_double_quotes_only)
{
    check_text("\"\\n\\r\\t\\b\\a\\\\\\\"\\q\\x41\\xfF\\xg1\\x4\"\n",
               "request in 34: 15=\n\r\t\b\a\\\"qA\xFFxg1x4\n0 left\n");
    check_text("'\\n \\' \\\\ '\n", "request in 12: 8=\\n ' \\\\ \n0 left\n");
    check_text("a\\nb \\x41\n", "request in 10: 4=a\\nb 4=\\x41\n0 left\n");
}

TEST(quotes_must_be_closed_and_followed_by_a_blank)
{
    static const char *lines[] = {"\"abc\n",  "'abc\r\n", "a \"b\\\"\n", "a 'b\\'\r\n", "\"a\"b\n",
                                  "'a''b'\n", "\"a\\\n",  "\"\n",        "a \"\\x4\n",  "'a\\\n"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        check_text(lines[i], "bad: Protocol error: unbalanced quotes in request\n");
}

TEST(a_count_must_be_a_number)
{
    static const char *counts[] = {"*\r\n",
                                   "*x\r\n",
                                   "*1x\r\n",
                                   "* 1\r\n",
                                   "*+1\r\n",
                                   "*01\r\n",
                                   "*-0\r\n",
                                   "*1\n",
                                   "*1\r \r\n",
                                   "*-\r\n",
                                   "*00\r\n",
                                   "*--1\r\n",
                                   "*\n",
                                   "*99999999999\r\n",
                                   "*2147483648\r\n",
                                   "*1025\r\n",
                                   "*9999999999999999999\r\n",
                                   "*123456789012345678901234567890\r\n"};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        check_text(counts[i], "bad: Protocol error: invalid multibulk length\n");
}

TEST(a_length_must_be_a_number)
{
    static const char *lengths[] = {"$\r\n",
                                    "$x\r\n",
                                    "$-1\r\n",
                                    "$-5\r\n",
                                    "$+1\r\n",
                                    "$01\r\n",
                                    "$1\nab",
                                    "$00\r\n",
                                    "$1048577\r\n",
                                    "$2147483648\r\n",
                                    "$9999999999999999999999\r\n"};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "*2\r\n$1\r\na\r\n%s", lengths[i]);
        check_text(text, "bad: Protocol error: invalid bulk length\n");
    }
}

TEST(every_word_begins_with_its_length)
{
    check_text("*2\r\n$1\r\na\r\nb", "bad: Protocol error: expected '$', got 'b'\n");
    check_text("*1\r\n*1\r\n", "bad: Protocol error: expected '$', got '*'\n");
    check_text("*1\r\n\r\n", "bad: Protocol error: expected '$', got '?'\n");
    check_text("*1\r\n\xFF", "bad: Protocol error: expected '$', got '?'\n");
    check_bytes(&wide, "*1\r\n\0", 5, "bad: Protocol error: expected '$', got '?'\n");
}

TEST(every_word_ends_where_it_said)
{
    static const char *want = "bad: Protocol error: expected CRLF after a bulk string\n";
    check_text("*1\r\n$3\r\nabcd\r\n", want);
    check_text("*1\r\n$3\r\nab\r\n\r\n", want);
    check_text("*1\r\n$3\r\nabc\n\r", want);
    check_text("*1\r\n$3\r\nabcx\n", want);
    check_text("*2\r\n$3\r\nabc\r\r$1\r\na\r\n", want);
    check_text("*1\r\n$0\r\nab", want);
}

TEST(a_stranger_may_say_less)
{
    check_bytes(&narrow, "*11\r\n", 5, "bad: Protocol error: unauthenticated multibulk length\n");
    check_bytes(&narrow, "*10\r\n", 5, "5 left\n");
    check_bytes(&narrow, "*x\r\n", 4, "bad: Protocol error: invalid multibulk length\n");
    check_bytes(&narrow, "*2147483648\r\n", 13, "bad: Protocol error: invalid multibulk length\n");
    check_bytes(&narrow, "*1\r\n$16385\r\n", 12, "bad: Protocol error: unauthenticated bulk length\n");
    check_bytes(&narrow, "*1\r\n$16384\r\n", 12, "12 left\n");
    check_bytes(&narrow, "*1\r\n$-1\r\n", 9, "bad: Protocol error: invalid bulk length\n");
    check_bytes(&narrow, "*1\r\n$2147483648\r\n", 17, "bad: Protocol error: invalid bulk length\n");
}

TEST(a_word_above_the_bound_is_refused_also_if_it_is_all_there)
{
    static const struct resp_limits four = {.args = 3, .bulk = 4, .all = 1000};
    static const char fits[] = "*1\r\n$4\r\nabcd\r\n", long_one[] = "*1\r\n$5\r\nabcde\r\n";
    check_bytes(&four, fits, sizeof fits - 1, "request in 14: 4=abcd\n0 left\n");
    check_bytes(&four, long_one, sizeof long_one - 1, "bad: Protocol error: invalid bulk length\n");
}

/* `many` times the same byte between two texts. Gives the story of all of it at once. */
static void check_many(const struct resp_limits *limits, const char *before, char byte, size_t many,
                       const char *behind, const char *want)
{
    size_t first = strlen(before), last = strlen(behind), len = first + many + last;
    char *bytes = malloc(len + 1);
    struct story story;
    if (!CHECK(bytes != NULL))
        return;
    memcpy(bytes, before, first);
    memset(bytes + first, byte, many);
    memcpy(bytes + first + many, behind, last + 1);
    story_begin(&story, limits);
    story_arrive(&story, bytes, len / 2);
    if (!story.ended)
        story_arrive(&story, bytes, len);
    story_end(&story, len);
    if (!strstr(story.text.bytes, want))
        CHECK_STR(story.text.bytes, want);
    story_free(&story);
    free(bytes);
}

TEST(lines_have_a_bound)
{
    static const char *inline_want = "bad: Protocol error: too big inline request\n";
    check_many(&wide, "", 'a', RESP_LINE_MAX, "\n", "request in 65537: 65536=aaaa");
    check_many(&wide, "", 'a', RESP_LINE_MAX + 1, "\n", inline_want);
    check_many(&wide, "", 'a', RESP_LINE_MAX, "", "65536 left\n");
    check_many(&wide, "", 'a', RESP_LINE_MAX + 1, "", inline_want);
    check_many(&wide, "", ' ', RESP_LINE_MAX + 1, "", inline_want);
    check_many(&wide, "*", '1', RESP_LINE_MAX, "", "bad: Protocol error: too big mbulk count string\n");
    check_many(&wide, "*", '1', RESP_LINE_MAX - 1, "", "65536 left\n");
    check_many(&wide, "*", '1', RESP_LINE_MAX - 2, "\r\n", "bad: Protocol error: invalid multibulk length\n");
    check_many(&wide, "*1\r\n$", '1', RESP_LINE_MAX, "", "bad: Protocol error: too big bulk count string\n");
    check_many(&wide, "*1\r\n$", '1', RESP_LINE_MAX - 1, "", "65540 left\n");
    check_many(&wide, "*1\r\n$", '1', RESP_LINE_MAX - 2, "\r\n",
               "bad: Protocol error: invalid bulk length\n");
}

TEST(a_line_obeys_the_limits_of_words)
{
    static const struct resp_limits three = {.args = 3, .bulk = 4, .all = 1000};
    check_bytes(&three, "a b c\n", 6, "request in 6: 1=a 1=b 1=c\n0 left\n");
    check_bytes(&three, "a b c d\n", 8, "bad: Protocol error: too big inline request\n");
    check_bytes(&three, "a bcde\n", 7, "request in 7: 1=a 4=bcde\n0 left\n");
    check_bytes(&three, "a bcdef\n", 8, "bad: Protocol error: too big inline request\n");
}

TEST(a_request_has_a_bound_in_bytes)
{
    static const struct resp_limits exact = {.args = 3, .bulk = 100, .all = 23};
    static const char *want = "bad: Protocol error: request too large\n";
    check_bytes(&exact, "*2\r\n$1\r\na\r\n$6\r\n123456\r\n", 23, "request in 23: 1=a 6=123456\n0 left\n");
    check_bytes(&exact, "*2\r\n$1\r\na\r\n$7\r\n", 15, want); /* before its bytes come */
    check_bytes(&exact, "*2\r\n$1\r\na\r\n$7\r\n1234567\r\n", 24, want);
    check_bytes(&exact, "*3\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n", 25, want);
    check_bytes(&exact, "1234567890123456789012\n", 23, "request in 23: 22=1234567890123456789012\n0 left\n");
    check_bytes(&exact, "12345678901234567890123\n", 24, want);
    check_bytes(&exact, "12345678901234567890123", 23, want);
}

/* A header that came in two pieces, and was long: the next one is looked at from its beginning. */
TEST(what_was_seen_of_a_line_is_forgotten_with_it)
{
    static const struct resp_limits large = {.args = 2, .bulk = 10000000, .all = 20000000};
    static const char first[] = "*2\r\n$10000000\r", last[] = "\r\n$0\r\n\r\n";
    size_t start = sizeof first, len = start + large.bulk + sizeof last - 1;
    char *bytes = malloc(len);
    struct resp_reader reader = {0};
    struct resp_request_info got;
    struct slice args[2];
    if (!CHECK(bytes != NULL))
        return;
    memset(bytes, 'a', len);
    memcpy(bytes, first, sizeof first - 1);
    bytes[sizeof first - 1] = '\n';
    memcpy(bytes + len - (sizeof last - 1), last, sizeof last - 1);
    CHECK_EQ(weir_resp_read(&reader, &large, bytes, sizeof first - 1, args, &got), RESP_MORE);
    CHECK_EQ(weir_resp_read(&reader, &large, bytes, len, args, &got), RESP_REQUEST);
    CHECK(got.used == len && got.words == 2 && args[0].len == large.bulk && args[1].len == 0);
    free(bytes);
}

TEST(huge_numbers_reserve_nothing)
{
    static const struct resp_limits all = {.args = 4, .bulk = SIZE_MAX, .all = SIZE_MAX};
    check_bytes(&all, "*1\r\n$2147483647\r\n", 17, "17 left\n");
    check_bytes(&all, "*1\r\n$2147483648\r\n", 17, "bad: Protocol error: invalid bulk length\n");
    check_bytes(&all, "*1\r\n$18446744073709551615\r\n", 27, "bad: Protocol error: invalid bulk length\n");
}

TEST(the_reader_is_as_new_after_each_answer)
{
    static const struct resp_reader fresh = {0};
    static const char *texts[] = {"*1\r\n$1\r\na\r\n", "a\n", "\n", "*0\r\n", "*x\r\n",
                                  "*1\r\n$x\r\n",      "\"\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct resp_reader reader = {0};
        struct resp_request_info got;
        struct slice args[1024];
        char bytes[32];
        size_t len = strlen(texts[i]);
        memcpy(bytes, texts[i], len);
        CHECK_EQ(weir_resp_read(&reader, &wide, bytes, len - 1, args, &got), RESP_MORE);
        CHECK(weir_resp_read(&reader, &wide, bytes, len, args, &got) != RESP_MORE);
        CHECK(memcmp(&reader, &fresh, sizeof fresh) == 0);
    }
}
