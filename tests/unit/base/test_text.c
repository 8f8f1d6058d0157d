/* SPDX-License-Identifier: MIT */
/*
 * Text in bounded memory, UTF-8, words that are nearly the same, and the line that an error becomes.
 */
#include "base/error.h"
#include "base/humanize.h"
#include "base/text.h"
#include "check.h"

TEST(a_builder_counts_what_does_not_fit)
{
    char bytes[8] = "junk";
    struct text text;
    weir_text_init(&text, bytes, sizeof bytes);
    CHECK_STR(bytes, "");
    weir_text_put(&text, "abc", 3);
    weir_text_print(&text, "%d", 42);
    CHECK_STR(bytes, "abc42");
    weir_text_put(&text, "defg", 4);
    CHECK_STR(bytes, "abc42de");
    CHECK_EQ(text.len, 9);
    weir_text_print(&text, "%s", "more");
    weir_text_put(&text, "x", 1);
    CHECK_STR(bytes, "abc42de");
    CHECK_EQ(text.len, 14);

    weir_text_init(&text, NULL, 0);
    weir_text_put(&text, "abc", 3);
    weir_text_print(&text, "%d", 42);
    CHECK_EQ(text.len, 5);
}

TEST(hexadecimal_digits_of_either_case)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    for (int i = 0; digits[i]; i++)
        CHECK_EQ(weir_text_hex(digits[i]), i < 16 ? i : i - 6);
    for (const char *other = "/:@G`g\n \xff"; *other; other++)
        CHECK_EQ(weir_text_hex(*other), -1);
    CHECK_EQ(weir_text_hex('\0'), -1);
}

TEST(a_complaint_is_a_finished_line_and_false)
{
    struct weir_error err;
    CHECK(!weir_error_complain(&err, "%s takes %d", "--threads", 64));
    CHECK_STR(err.text, "--threads takes 64");
    CHECK_EQ(err.code, EINVAL);
    CHECK(!weir_error_complain(&err, "%500s", "long"));
    CHECK_EQ(strlen(err.text), sizeof err.text - 1);
    CHECK(!weir_error_complain(NULL, "nobody looks"));
    CHECK(!weir_error_complain_as(&err, ENOENT, "there is no quota '%s'", "x"));
    CHECK_STR(err.text, "there is no quota 'x'");
    CHECK_EQ(err.code, ENOENT);
}

TEST(numbers_and_times_as_people_read_them)
{
    static const struct {
        int64_t time_ns;
        unsigned how;
        const char *text;
    } times[] = {
        {0, 0, "0 ns"},
        {999, 0, "999 ns"},
        {1500, 0, "1.5 us"},
        {1500, HUMANIZE_UTF8, "1.5 \xc2\xb5s"},
        {333333333, 0, "333.3 ms"},
        {333333333, HUMANIZE_UP, "333.4 ms"},
        {INT64_C(999960000), 0, "1 s"},
        {90 * WEIR_SEC, 0, "90 s"},
        {330 * WEIR_SEC, 0, "5 min 30 s"},
        {5400 * WEIR_SEC, 0, "1 h 30 min"},
        {5401 * WEIR_SEC, HUMANIZE_UP, "1 h 31 min"},
        {172800 * WEIR_SEC, 0, "2 d"},
    };
    char text[HUMANIZE_MAX];
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        CHECK_STR(weir_humanize_duration(times[i].time_ns, times[i].how, text), times[i].text);
    CHECK(strlen(weir_humanize_duration(INT64_MAX, HUMANIZE_UP, text)) < HUMANIZE_MAX);
    CHECK_STR(weir_humanize_number(1234567, text), "1 234 567");
    CHECK_STR(weir_humanize_number(-123456, text), "-123 456");
    CHECK_STR(weir_humanize_number(INT64_MIN, text), "-9 223 372 036 854 775 808");
    CHECK_STR(weir_humanize_decimal(2.5, text), "2.5");
    CHECK_STR(weir_humanize_decimal(12345.6, text), "12 346");
}

TEST(utf8_is_read_strictly)
{
    static const struct {
        const char *bytes;
        size_t len, step;
        uint32_t code;
    } texts[] = {
        {"a", 1, 1, 'a'},
        {"", 0, 0, 0},
        {"\xC2\xB5", 2, 2, 0xB5},
        {"\xC2\xB5", 1, 0, 0}, /* cut off */
        {"\xE2\x82\xAC", 3, 3, 0x20AC},
        {"\xF0\x9F\x98\x80", 4, 4, 0x1F600},
        {"\xC1\x81", 2, 0, 0},         /* overlong */
        {"\xE0\x80\x80", 3, 0, 0},     /* overlong */
        {"\xF0\x80\x80\x80", 4, 0, 0}, /* overlong */
        {"\xED\xA0\x80", 3, 0, 0},     /* surrogate */
        {"\xF4\x90\x80\x80", 4, 0, 0}, /* beyond the last one */
        {"\xF4\x8F\xBF\xBF", 4, 4, 0x10FFFF},
        {"\x80", 1, 0, 0},
        {"\xFF", 1, 0, 0},
        {"\xC2z", 2, 0, 0},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        uint32_t code = 0;
        CHECK_EQ(weir_utf8_read(texts[i].bytes, texts[i].len, &code), texts[i].step);
        CHECK_EQ(code, texts[i].code);
    }
    CHECK(weir_utf8_printable('a') && weir_utf8_printable(' ') && weir_utf8_printable(0xB5));
    CHECK(!weir_utf8_printable(0x1B) && !weir_utf8_printable(0x7F) && !weir_utf8_printable(0x85));
    CHECK(!weir_utf8_printable(0x202E) && !weir_utf8_printable(0x200B) && !weir_utf8_printable(0xFEFF));
}

TEST(columns_count_characters)
{
    CHECK_EQ(weir_text_column("abc", 0), 1);
    CHECK_EQ(weir_text_column("abc", 3), 4);
    CHECK_EQ(weir_text_column("1/\xC2\xB5s x", 6), 6);
    CHECK_EQ(weir_text_column("\xFF\xFF x", 3), 4);
    CHECK_EQ(weir_text_cut("a\xC2\xB5"
                           "b",
                           4, 4),
             4);
    CHECK_EQ(weir_text_cut("a\xC2\xB5"
                           "b",
                           4, 3),
             3);
    CHECK_EQ(weir_text_cut("a\xC2\xB5"
                           "b",
                           4, 2),
             1);
}

TEST(words_are_compared_as_they_are_meant)
{
    CHECK(weir_text_same("Burst", 5, "burst"));
    CHECK(!weir_text_same("burs", 4, "burst"));
    CHECK(!weir_text_same("bursts", 6, "burst"));
    CHECK(weir_text_alike("maxBurst", 8, "max_burst"));
    CHECK(weir_text_alike("MAX-burst-", 10, "maxBurst"));
    CHECK(!weir_text_alike("maxBurs", 7, "max_burst"));
    CHECK(!weir_text_alike("max_bursts", 10, "max_burst"));
    CHECK(weir_text_contains("token-bucket", 12, "BUCKET", 6));
    CHECK(!weir_text_contains("token-bucket", 12, "buckets", 7));
    CHECK_EQ(weir_text_distance("burst", 5, "burst"), 0);
    CHECK_EQ(weir_text_distance("brust", 5, "burst"), 1); /* neighbours swapped */
    CHECK_EQ(weir_text_distance("BURSTS", 6, "burst"), 1);
    CHECK_EQ(weir_text_distance("urst", 4, "burst"), 1);
    CHECK_EQ(weir_text_distance("bxrst", 5, "burst"), 1);
    CHECK_EQ(weir_text_distance("", 0, "burst"), 5);
    CHECK_EQ(weir_text_distance("kitten", 6, "sitting"), 3);
    CHECK(weir_text_distance("a word that is longer than all others", 37, "a") >= 37);
}

static const char *nearest_of(const char *word, const char *a, const char *b)
{
    struct nearest near = weir_nearest(word, strlen(word));
    (void)weir_nearest_try(&near, a);
    (void)weir_nearest_try(&near, b);
    return near.found ? near.found : "none";
}

TEST(the_nearest_word_is_at_most_two_slips_and_half_of_it_away)
{
    CHECK_STR(nearest_of("brust", "burst", "base"), "burst");
    CHECK_STR(nearest_of("limts", "limit", "limits"), "limits");
    CHECK_STR(nearest_of("shw", "show", "set"), "show");
    CHECK_STR(nearest_of("foo", "pool", "fill"), "none");      /* half of foo is less than two */
    CHECK_STR(nearest_of("kitten", "sitting", "sit"), "none"); /* three */
    CHECK_STR(nearest_of("ab", "cd", "xy"), "none");
    CHECK_STR(nearest_of("take", "make", "lake"), "make"); /* the first of two that are as near */
}

/* ---- errors ----------------------------------------------------------------------------------- */

static const char *line_of(const char *text, int32_t column, const char *message)
{
    static struct weir_error err;
    weir_error_at(&err, EINVAL, text, strlen(text), column, message);
    CHECK_EQ(err.code, EINVAL);
    CHECK_EQ(err.column, column);
    return err.text;
}

TEST(an_error_is_one_line)
{
    CHECK_STR(line_of("5/m", 2, "no"), "5/m: column 2: no");
    CHECK_STR(line_of("5/m", 0, "no"), "5/m: no");
    CHECK_STR(line_of("a\tb\n\x1B\xFF\xC2\xB5", 1, "no"), "a b ??\xC2\xB5: column 1: no");

    struct weir_error err;
    memset(&err, 'x', sizeof err);
    weir_error_set(&err, ENOMEM, "no memory");
    CHECK_EQ(err.code, ENOMEM);
    CHECK_EQ(err.column, 0);
    CHECK_STR(err.text, "no memory");
    weir_error_clear(&err);
    CHECK_EQ(err.code, 0);
    CHECK_STR(err.text, "");
    weir_error_at(NULL, 1, "a", 1, 1, "b");
    weir_error_set(NULL, 1, "a");
    weir_error_clear(NULL);
}

TEST(a_long_text_shows_the_place_and_the_whole_message)
{
    char text[1001], message[201];
    memset(message, 'm', 200);
    message[200] = '\0';
    for (size_t i = 0; i < 1000; i++)
        text[i] = (char)('0' + i % 10);
    text[1000] = '\0';

    const char *line = line_of(text, 1001, message); /* at the end: the front is left out */
    CHECK(strncmp(line, "...", 3) == 0);
    CHECK(strstr(line, "789: column 1001: mmm") != NULL);
    CHECK_EQ(strlen(line), 247);
    CHECK(strstr(line, message) != NULL);

    line = line_of(text, 1, message); /* at the beginning: the end is left out */
    CHECK(strncmp(line, "0123456789", 10) == 0);
    CHECK(strstr(line, "...: column 1: mmm") != NULL);
    CHECK(strstr(line, message) != NULL);

    memcpy(text + 500, "HERE", 4);
    line = line_of(text, 501, message); /* in the middle: both */
    CHECK(strncmp(line, "...", 3) == 0);
    CHECK(strstr(line, "HERE") != NULL);
    CHECK(strstr(line, "...: column 501: mmm") != NULL);
    CHECK(strstr(line, message) != NULL);
}

TEST(no_character_is_cut_in_two)
{
    char text[601];
    for (size_t i = 0; i < 600; i += 2)
        memcpy(text + i, "\xC2\xB5", 2);
    text[600] = '\0';
    for (int32_t column = 0; column <= 301; column++) {
        for (int skip = 0; skip < 2; skip++) {
            const char *line = line_of(text, column, skip ? "odd" : "even");
            uint32_t code;
            for (size_t i = 0, step; line[i]; i += step) {
                step = weir_utf8_read(line + i, strlen(line + i), &code);
                if (!CHECK(step > 0))
                    return;
                CHECK(code != '?');
            }
        }
    }
}

TEST(the_version_is_that_of_the_header)
{
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR, WEIR_VERSION_PATCH);
    CHECK_STR(weir_version(), text);
}
