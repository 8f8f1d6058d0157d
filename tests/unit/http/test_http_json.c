/* SPDX-License-Identifier: MIT */
#include "check.h"
#include "http/json.h"

TEST(an_object_is_read_member_by_member)
{
    char text[] = " {\"policy\" : \"a\\u00e4\\ud83d\\ude00\", \"n\":-12,\"more\":[1, {\"x\":[]}, null, "
                  "1.5e3],\"on\":true } ";
    struct json_reader reader;
    struct slice name, value;
    int64_t number = 0;
    bool on = false;
    weir_json_begin(&reader, text, strlen(text));
    CHECK(weir_json_enter(&reader, '{'));
    CHECK(weir_json_member(&reader, &name) && slice_is(name, "policy"));
    CHECK(weir_json_string(&reader, &value) && slice_is(value, "a\xC3\xA4\xF0\x9F\x98\x80"));
    CHECK(weir_json_member(&reader, &name) && slice_is(name, "n"));
    CHECK(weir_json_integer(&reader, &number) && number == -12);
    CHECK(weir_json_member(&reader, &name) && slice_is(name, "more"));
    CHECK(weir_json_skip(&reader));
    CHECK(weir_json_member(&reader, &name) && slice_is(name, "on"));
    CHECK(weir_json_literal(&reader, &on) && on);
    CHECK(!weir_json_member(&reader, &name));
    CHECK(weir_json_end(&reader));
    CHECK_STR(reader.why, "");
}

/* ---- reading one value ---------------------------------------------------------------------------- */

/* In memory of just that length: a sanitizer sees what is read before and behind it. */
struct json_story {
    struct json_reader reader;
    char *bytes;
};

static void story_begin(struct json_story *story, const char *text, size_t len)
{
    story->bytes = malloc(len > 0 ? len : 1);
    if (!story->bytes)
        abort();
    memcpy(story->bytes, text, len);
    weir_json_begin(&story->reader, story->bytes, len);
}

static bool read_whole(struct json_story *story)
{
    return weir_json_skip(&story->reader) && weir_json_end(&story->reader);
}

static void check_json(const char *text)
{
    struct json_story story;
    story_begin(&story, text, strlen(text));
    if (!CHECK(read_whole(&story)))
        printf("# %s: %s\n", text, story.reader.why);
    free(story.bytes);
}

static void check_no_json(const char *text, const char *why)
{
    struct json_story story;
    story_begin(&story, text, strlen(text));
    CHECK(!read_whole(&story));
    CHECK_STR(story.reader.why, why);
    CHECK(!weir_json_end(&story.reader) && weir_json_next(&story.reader) == JSON_NONE);
    free(story.bytes);
}

static void check_integer(const char *text, int64_t want)
{
    struct json_story story;
    int64_t got = -99;
    story_begin(&story, text, strlen(text));
    CHECK(weir_json_integer(&story.reader, &got) && weir_json_end(&story.reader));
    CHECK_EQ(got, want);
    free(story.bytes);
}

static void check_no_integer(const char *text, const char *why)
{
    struct json_story story;
    int64_t got = -99;
    story_begin(&story, text, strlen(text));
    CHECK(!weir_json_integer(&story.reader, &got));
    CHECK_STR(story.reader.why, why);
    CHECK_EQ(got, -99);
    free(story.bytes);
}

TEST(an_integer_is_whole_and_exact)
{
    check_integer("0", 0);
    check_integer("-0", 0);
    check_integer(" 17\n", 17);
    check_integer("-9007199254740991", -JSON_INTEGER_MAX);
    check_integer("9007199254740991", JSON_INTEGER_MAX);
    const char *beyond = "a number must be between -9007199254740991 and 9007199254740991 at byte ";
    char why[112];
    (void)snprintf(why, sizeof why, "%s17", beyond);
    check_no_integer("9007199254740992", why);
    (void)snprintf(why, sizeof why, "%s18", beyond);
    check_no_integer("-9007199254740992", why);
    (void)snprintf(why, sizeof why, "%s41", beyond);
    check_no_integer("1844674407370955162118446744073709551621", why);
    (void)snprintf(why, sizeof why, "%s21", beyond);
    check_no_integer("18446744073709551621", why); /* 5, were it cut */
    check_no_integer("1.0", "expected a whole number, without fraction and exponent at byte 4");
    check_no_integer("1e3", "expected a whole number, without fraction and exponent at byte 4");
    check_no_integer("1E+3", "expected a whole number, without fraction and exponent at byte 5");
    check_no_integer("\"1\"", "expected a number, found a string at byte 1");
    check_no_integer("", "expected a number, but the JSON ends at byte 1");
    check_no_integer("+1", "expected a number at byte 1");
}

TEST(every_kind_of_value_is_json)
{
    static const char *const texts[] = {"null",
                                        " true ",
                                        "false",
                                        "\"\"",
                                        "[]",
                                        "{}",
                                        "[ ]",
                                        "{ }",
                                        "[[],{}]",
                                        "[1,\t2 ,\r\n3]",
                                        "{\"a\":{\"a\":[null]},\"b\":1}",
                                        "0",
                                        "-0",
                                        "10",
                                        "0.0",
                                        "-1.5e+30",
                                        "1E5",
                                        "0e-0",
                                        "123456789012345678901234567890",
                                        "\"\\u0000\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
                                        "\"\x7F \xC3\xA4 \xEF\xBF\xBF \xF4\x8F\xBF\xBF\"",
                                        "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        check_json(texts[i]);
    check_json("[[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],{},{}]"); /* many, not deep */
}

TEST(what_is_no_json_is_refused_where_it_goes_wrong)
{
    check_no_json("", "expected a value at byte 1");
    check_no_json("  ", "expected a value at byte 3");
    check_no_json("nul", "expected null at byte 1");
    check_no_json("True", "expected a value at byte 1");
    check_no_json("truE", "expected true at byte 1");
    check_no_json("fals", "expected false at byte 1");
    check_no_json("1 2", "there is more after the end of the JSON value at byte 3");
    check_no_json("[1", "expected ',' or ']' at byte 3");
    check_no_json("[1 2]", "expected ',' or ']' at byte 4");
    check_no_json("[1,]", "expected a value at byte 4");
    check_no_json("[,1]", "expected a value at byte 2");
    check_no_json("[1}", "expected ',' or ']' at byte 3");
    check_no_json("]", "expected a value at byte 1");
    check_no_json("{\"a\":1,}", "expected the name of a member, in double quotes at byte 8");
    check_no_json("{,}", "expected the name of a member, in double quotes at byte 2");
    check_no_json("{a:1}", "expected the name of a member, in double quotes at byte 2");
    check_no_json("{\"a\" 1}", "expected ':' at byte 6");
    check_no_json("{\"a\":}", "expected a value at byte 6");
    check_no_json("{\"a\":1 \"b\":2}", "expected ',' or '}' at byte 8");
    check_no_json("{\"a\":1]", "expected ',' or '}' at byte 7");
    check_no_json("{\"a\"", "expected ':' at byte 5");
    check_no_json("{", "expected the name of a member, in double quotes at byte 2");
    check_no_json("// x\n1", "expected a value at byte 1");
    check_no_json("'a'", "expected a value at byte 1");
    check_no_json("\xEF\xBB\xBF{}", "expected a value at byte 1");
    check_no_json("NaN", "expected a value at byte 1");
    check_no_json("01", "a number must not start with 0 at byte 3");
    check_no_json("-01", "a number must not start with 0 at byte 4");
    check_no_json("-", "expected a digit at byte 2");
    check_no_json("1.", "expected a digit at byte 3");
    check_no_json("1.e5", "expected a digit at byte 3");
    check_no_json(".5", "expected a value at byte 1");
    check_no_json("1e", "expected a digit at byte 3");
    check_no_json("1e+", "expected a digit at byte 4");
    check_no_json("-x", "expected a digit at byte 2");
    check_no_json("0x1", "there is more after the end of the JSON value at byte 2");
    check_no_json("[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]", "nested deeper than 16 levels at byte 17");
    check_no_json("{\"a\":[[[[[[[[[[[[[[[{}]]]]]]]]]]]]]]]}", "nested deeper than 16 levels at byte 21");
}

TEST(a_nul_outside_of_a_string_is_no_json)
{
    static const char text[] = "[1,\0]";
    struct json_story story;
    story_begin(&story, text, sizeof text - 1);
    CHECK(!read_whole(&story));
    CHECK_STR(story.reader.why, "expected a value at byte 4");
    free(story.bytes);
}

/* ---- strings -------------------------------------------------------------------------------------- */

static void check_string(const char *text, const char *want, size_t want_len)
{
    struct json_story story;
    struct slice got = {NULL, 0};
    story_begin(&story, text, strlen(text));
    if (CHECK(weir_json_string(&story.reader, &got) && weir_json_end(&story.reader)))
        CHECK(got.len == want_len && memcmp(got.bytes, want, want_len) == 0);
    free(story.bytes);
}

TEST(strings_are_decoded_in_place)
{
    check_string("\"user:42\"", "user:42", 7);
    check_string("\"a\\\"b\\\\c\\/d\\be\\ff\\ng\\rh\\ti\"", "a\"b\\c/d\be\ff\ng\rh\ti", 17);
    check_string("\"x\\u0000y\"", "x\0y", 3);
    check_string("\"\\u007f\\u0080\\u07FF\\u0800\\uffff\"", "\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF",
                 11);
    check_string("\"\\ud800\\udc00\\uDBFF\\uDFFF!\"", "\xF0\x90\x80\x80\xF4\x8F\xBF\xBF!", 9);
    check_string("\"\xC3\xA4\\n\xE2\x82\xAC\"", "\xC3\xA4\n\xE2\x82\xAC", 6);
}

TEST(a_string_is_utf8_without_halves_and_control_characters)
{
    check_no_json("\"abc", "a string has no end at byte 5");
    check_no_json(
        "\"abc\\",
        "no such escape: allowed are \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u with 4 digits at byte 5");
    check_no_json(
        "\"\\x41\"",
        "no such escape: allowed are \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u with 4 digits at byte 2");
    check_no_json(
        "\"\\u12g4\"",
        "no such escape: allowed are \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u with 4 digits at byte 2");
    check_no_json(
        "\"\\u123",
        "no such escape: allowed are \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u with 4 digits at byte 2");
    check_no_json("\"\\ud800\"", "half of a surrogate pair at byte 8");
    check_no_json("\"\\ud800\\n\"", "half of a surrogate pair at byte 8");
    check_no_json("\"\\ud800\\ud800\"", "half of a surrogate pair at byte 14");
    check_no_json("\"\\ud800\\ue000\"", "half of a surrogate pair at byte 14");
    check_no_json("\"\\udc00\\ud800\"", "half of a surrogate pair at byte 8");
    check_no_json("\"a\nb\"", "a control character in a string must be written as \\u000a at byte 3");
    check_no_json("\"\x1F\"", "a control character in a string must be written as \\u001f at byte 2");
    check_no_json("\"\x80\"", "a string must be UTF-8 at byte 2");
    check_no_json("\"\xC3\"", "a string must be UTF-8 at byte 2");
    check_no_json("\"\xC0\x80\"", "a string must be UTF-8 at byte 2");
    check_no_json("\"\xED\xA0\x80\"", "a string must be UTF-8 at byte 2");
    check_no_json("\"a\xF4\x90\x80\x80\"", "a string must be UTF-8 at byte 3");
    check_no_json("{\"\xFF\":1}", "a string must be UTF-8 at byte 3");
}

TEST(the_first_complaint_counts_and_fits)
{
    char text[] = "{}";
    struct json_reader reader;
    struct slice name;
    weir_json_begin(&reader, text, 2);
    CHECK(weir_json_enter(&reader, '{') && !weir_json_member(&reader, &name) && weir_json_end(&reader));
    char long_name[300];
    memset(long_name, 'x', sizeof long_name);
    memcpy(long_name + 100, "\xC3\xA4", 2); /* in the middle of it the message is cut */
    CHECK(!weir_json_fail(&reader, "%.*s", 300, long_name));
    CHECK_EQ(strlen(reader.why), 110);
    CHECK_STR(reader.why + 100, " at byte 3");
    CHECK(!weir_json_fail(&reader, "another"));
    CHECK_STR(reader.why + 100, " at byte 3");
    CHECK(!weir_json_end(&reader) && !weir_json_enter(&reader, '{') && !weir_json_element(&reader));
}

TEST(types_are_told_apart)
{
    bool flag;
    struct json_story story;
    static const char text[] = "{\"a\":[true,false,null,-1,0,\"x\",{}]}";
    story_begin(&story, text, sizeof text - 1);
    struct json_reader *reader = &story.reader;
    struct slice name;
    CHECK_EQ(weir_json_next(reader), JSON_OBJECT);
    CHECK(weir_json_enter(reader, '{') && weir_json_member(reader, &name));
    CHECK_EQ(weir_json_next(reader), JSON_ARRAY);
    CHECK(weir_json_enter(reader, '['));
    static const enum json_type types[] = {JSON_TRUE,   JSON_FALSE,  JSON_NULL,  JSON_NUMBER,
                                           JSON_NUMBER, JSON_STRING, JSON_OBJECT};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        CHECK(weir_json_element(reader));
        CHECK_EQ(weir_json_next(reader), types[i]);
        CHECK(i < 2 ? weir_json_literal(reader, &flag) && flag == (i == 0) : weir_json_skip(reader));
    }
    CHECK(!weir_json_element(reader) && !weir_json_member(reader, &name) && weir_json_end(reader));
    free(story.bytes);
    story_begin(&story, "1", 1);
    CHECK(!weir_json_literal(&story.reader, &flag));
    CHECK_STR(story.reader.why, "expected true or false, found a number at byte 1");
    free(story.bytes);
}

/* ---- writing -------------------------------------------------------------------------------------- */

static void check_put(const char *bytes, size_t len, const char *want)
{
    struct buffer out = {0};
    weir_json_put_string(&out, bytes, len);
    buffer_put(&out, "", 1);
    CHECK_STR(buffer_bytes(&out), want);
    weir_buffer_free(&out);
}

TEST(strings_are_written_as_json)
{
    check_put("", 0, "\"\"");
    check_put(NULL, 0, "\"\"");
    check_put("a\"b\\c/\b\f\n\r\t\x01\x1F\x7F", 14, "\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\\u0001\\u001f\x7F\"");
    check_put("x\0y", 3, "\"x\\u0000y\"");
    check_put("\xC3\xA4\xF0\x9F\x98\x80", 6, "\"\xC3\xA4\xF0\x9F\x98\x80\"");
    check_put("a\xFF\xC3(", 4, "\"a\xEF\xBF\xBD\xEF\xBF\xBD(\"");
    check_put("\xC3", 1, "\"\xEF\xBF\xBD\"");
    CHECK(weir_json_is_utf8("a\xC3\xA4", 3) && weir_json_is_utf8("", 0));
    CHECK(!weir_json_is_utf8("a\xC3", 2) && !weir_json_is_utf8("\xFF", 1));
}

/* Whatever is written is read again as it was, unless it was no UTF-8. */
TEST(what_is_written_is_read)
{
    struct rng rng = rng_new(1);
    for (int round = 0; round < 20000; round++) {
        char bytes[24];
        size_t len = (size_t)rng_between(&rng, 0, (int64_t)sizeof bytes);
        for (size_t i = 0; i < len; i++)
            bytes[i] = (char)rng_between(&rng, 0, rng_between(&rng, 0, 7) ? 127 : 255);
        struct buffer out = {0};
        weir_json_put_string(&out, bytes, len);
        struct json_reader reader;
        struct slice got;
        weir_json_begin(&reader, buffer_bytes(&out), buffer_len(&out));
        CHECK(weir_json_string(&reader, &got) && weir_json_end(&reader));
        CHECK(weir_json_is_utf8(got.bytes, got.len));
        if (weir_json_is_utf8(bytes, len))
            CHECK(got.len == len && memcmp(got.bytes, bytes, len) == 0);
        weir_buffer_free(&out);
    }
}

/* ---- base64 --------------------------------------------------------------------------------------- */

static void check_base64(const char *text, const char *want)
{
    char bytes[64];
    size_t len = weir_base64_decode((struct slice){text, strlen(text)}, bytes);
    if (!want) {
        CHECK(len == SIZE_MAX);
        return;
    }
    CHECK(len == strlen(want) && memcmp(bytes, want, len) == 0);
}

TEST(base64_is_read_with_either_alphabet_with_and_without_padding)
{
    check_base64("", "");
    check_base64("Zg==", "f");
    check_base64("Zg", "f");
    check_base64("Zm8=", "fo");
    check_base64("Zm8", "fo");
    check_base64("Zm9v", "foo");
    check_base64("Zm9vYg==", "foob");
    check_base64("+/+/", "\xFB\xFF\xBF");
    check_base64("-_-_", "\xFB\xFF\xBF");
    static const char *const wrong[] = {"Z",      "Zm9vY",    "Zg=",     "Zg===", "Zm8==", "Zm9v=",
                                        "====",   "=",        "Z===",    "Zh==",  "Zm9=",  "Zm 9v",
                                        "Zm9v\n", "Zg==Zg==", "Zm9\xC3", "Zm*v",  "Z=8="};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        check_base64(wrong[i], NULL);
}

TEST(base64_that_is_written_is_read)
{
    for (size_t len = 0; len <= 40; len++) {
        struct rng rng = rng_new(100 + len);
        char bytes[40], again[64];
        for (size_t i = 0; i < len; i++)
            bytes[i] = (char)rng_next(&rng);
        struct buffer out = {0};
        weir_base64_put(&out, bytes, len);
        CHECK_EQ(buffer_len(&out), (len + 2) / 3 * 4);
        CHECK_EQ(weir_base64_decode((struct slice){buffer_bytes(&out), buffer_len(&out)}, again), len);
        CHECK(memcmp(bytes, again, len) == 0);
        weir_buffer_free(&out);
    }
}
