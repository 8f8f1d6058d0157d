/* SPDX-License-Identifier: MIT */
/*
 * Lines of the log: both formats, hostile values, and the limiter that keeps clients from filling a disk.
 */
#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "base/text.h"
#include "check.h"
#include "service/log.h"
#include "weir.h"

#define WALL_NS INT64_C(1794761400123456789) /* 2026-11-15T16:50:00.123Z */

/* Its limiters are full at time 0. */
static bool start(enum log_format format, enum log_level least, bool journal)
{
    weir_clock_set(0);
    bool started = weir_log_start(format, least, journal);
    weir_clock_set(-1);
    return CHECK(started);
}

/* ---- standard error, caught in a file ---- */

static char caught[1 << 20];
static int kept = -1, file = -1;

static bool catch_begin(void)
{
    char path[] = "/tmp/weir-log-XXXXXX";
    file = mkstemp(path);
    if (!CHECK(file >= 0))
        return false;
    (void)unlink(path);
    kept = dup(STDERR_FILENO);
    return CHECK(kept >= 0 && dup2(file, STDERR_FILENO) >= 0);
}

static const char *catch_end(void)
{
    (void)dup2(kept, STDERR_FILENO);
    (void)close(kept);
    ssize_t len = pread(file, caught, sizeof caught - 1, 0);
    caught[len > 0 ? len : 0] = '\0';
    (void)close(file);
    return caught;
}

static int lines_in(const char *text)
{
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

#define WRITE(NOW, LEVEL, EVENT, ...)                                                                        \
    weir_log_write_at(NOW, WALL_NS, LEVEL, EVENT, (struct log_field[]){__VA_ARGS__},                         \
                      (int)(sizeof((struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field)))

/* One line, as it comes out. */
static const char *line_of(enum log_format format, const char *value)
{
    if (!start(format, LOG_DEBUG_LEVEL, false) || !catch_begin())
        return "";
    WRITE(0, LOG_INFO_LEVEL, "e", LOG_TEXT("v", value), LOG_NUMBER("n", -5));
    weir_log_end();
    return catch_end();
}

TEST(logfmt_quotes_what_needs_it)
{
#define FRONT "time=2026-11-15T16:50:00.123Z level=info event=e v="
    static const char *const values[][2] = {
        {"127.0.0.1:9049", "127.0.0.1:9049"},
        {"", "\"\""},
        {"two words", "\"two words\""},
        {"a=b", "\"a=b\""},
        {"say \"no\" \\", "\"say \\\"no\\\" \\\\\""},
        {"line\nbreak\t\x01", "\"line\\nbreak\\u0009\\u0001\""},
        {"\xc3\xa9", "\"\xc3\xa9\""},
        {"\xff\xc3", "\"\\xff\\xc3\""},
        {"\xe2\x80\xae", "\"\\u202e\""},
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char want[200];
        (void)snprintf(want, sizeof want, FRONT "%s n=-5\n", values[i][1]);
        CHECK_STR(line_of(LOG_LOGFMT, values[i][0]), want);
    }
}

TEST(json_is_valid_whatever_the_bytes)
{
    static const char *const values[][2] = {
        {"plain", "plain"},
        {"", ""},
        {"say \"no\" \\", "say \\\"no\\\" \\\\"},
        {"line\nbreak\t\x01\x7f", "line\\nbreak\\u0009\\u0001\\u007f"},
        {"\xc3\xa9\xf0\x9f\x8c\x8a", "\xc3\xa9\xf0\x9f\x8c\x8a"},
        {"\xff\xc3", "\\ufffd\\ufffd"},
        {"\xf3\xa0\x81\x81", "\\udb40\\udc41"}, /* a tag character, which nobody sees */
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char want[200];
        (void)snprintf(
            want, sizeof want,
            "{\"time\":\"2026-11-15T16:50:00.123Z\",\"level\":\"info\",\"event\":\"e\",\"v\":\"%s\","
            "\"n\":-5}\n",
            values[i][1]);
        CHECK_STR(line_of(LOG_JSON, values[i][0]), want);
    }
}

TEST(a_long_line_is_cut_between_fields)
{
    char value[5000];
    memset(value, '\x01', sizeof value);
    value[sizeof value - 1] = '\0';
    (void)start(LOG_JSON, LOG_INFO_LEVEL, true);
    if (!catch_begin())
        return;
    WRITE(0, LOG_WARN_LEVEL, "e", LOG_TEXT("a", value), LOG_TEXT("b", value), LOG_TEXT("c", value));
    weir_log_end();
    const char *line = catch_end();
    CHECK(strncmp(line, "<4>{\"time\"", 10) == 0);
    CHECK(strlen(line) < 4096 && strlen(line) > 3000);
    CHECK_STR(line + strlen(line) - 3, "\"}\n");
    CHECK_EQ(lines_in(line), 1);
    CHECK(strstr(line, "\"a\":\"\\u0001") && !strstr(line, "\"b\""));
}

TEST(levels_below_the_least_are_not_written)
{
    (void)start(LOG_LOGFMT, LOG_WARN_LEVEL, false);
    if (!catch_begin())
        return;
    WRITE(0, LOG_DEBUG_LEVEL, "debug", LOG_NUMBER("n", 1));
    WRITE(0, LOG_INFO_LEVEL, "info", LOG_NUMBER("n", 1));
    WRITE(0, LOG_WARN_LEVEL, "warn", LOG_NUMBER("n", 1));
    WRITE(0, LOG_ERROR_LEVEL, "error", LOG_NUMBER("n", 1));
    CHECK_EQ(weir_log_left_out(), 0);
    weir_log_end();
    WRITE(0, LOG_ERROR_LEVEL, "after", LOG_NUMBER("n", 1));
    CHECK_STR(catch_end(), "time=2026-11-15T16:50:00.123Z level=warn event=warn n=1\n"
                           "time=2026-11-15T16:50:00.123Z level=error event=error n=1\n");
}

TEST(lines_have_a_limiter_for_each_level_and_tell_what_was_left_out)
{
    (void)start(LOG_LOGFMT, LOG_DEBUG_LEVEL, false);
    if (!catch_begin())
        return;
    for (int i = 0; i < 130; i++)
        WRITE(WEIR_SEC, LOG_INFO_LEVEL, "flood", LOG_NUMBER("n", i));
    CHECK_EQ(weir_log_left_out(), 30);
    WRITE(WEIR_SEC, LOG_ERROR_LEVEL, "other", LOG_NUMBER("n", 0));
    WRITE(WEIR_SEC, LOG_INFO_LEVEL, "flood", LOG_NUMBER("n", 0));
    CHECK_EQ(weir_log_left_out(), 31);
    WRITE(2 * WEIR_SEC, LOG_INFO_LEVEL, "later", LOG_NUMBER("n", 0));
    WRITE(2 * WEIR_SEC, LOG_INFO_LEVEL, "last", LOG_NUMBER("n", 0));
    CHECK_EQ(weir_log_left_out(), 31);
    weir_log_end();
    const char *text = catch_end();
    CHECK_EQ(lines_in(text), 103);
    CHECK(strstr(text, "level=error event=other left_out=30 n=0\n"));
    CHECK(strstr(text, "event=later left_out=1 n=0\n"));
    CHECK(strstr(text, "event=last n=0\n"));
}

/* A flood of other lines hides no change, and changes leave room for other lines. */
TEST(lines_about_changes_are_never_left_out)
{
    (void)start(LOG_LOGFMT, LOG_INFO_LEVEL, false);
    if (!catch_begin())
        return;
    for (int i = 0; i < 130; i++)
        WRITE(WEIR_SEC, LOG_INFO_LEVEL, "flood", LOG_NUMBER("n", i));
    for (int i = 0; i < 500; i++)
        weir_log_change(LOG_INFO_LEVEL, "policy-set", LOG_NUMBER("n", i));
    weir_log_change(LOG_DEBUG_LEVEL, "below-the-level", LOG_NUMBER("n", 0));
    WRITE(2 * WEIR_SEC, LOG_INFO_LEVEL, "later", LOG_NUMBER("n", 0));
    CHECK_EQ(weir_log_left_out(), 30);
    weir_log_end();
    const char *text = catch_end();
    CHECK_EQ(lines_in(text), 601);
    CHECK(strstr(text, "event=policy-set left_out=30 n=0\n"));
    CHECK(strstr(text, "event=policy-set n=499\n"));
}

static void *write_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100; i++)
        WRITE(0, LOG_INFO_LEVEL, "thread", LOG_TEXT("value", "some text that makes it longer"),
              LOG_NUMBER("n", i));
    return NULL;
}

TEST(threads_write_whole_lines_and_every_line_is_counted)
{
    pthread_t threads[4];
    (void)start(LOG_JSON, LOG_INFO_LEVEL, false);
    if (!catch_begin())
        return;
    (void)fcntl(STDERR_FILENO, F_SETFL, O_APPEND);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, write_many, NULL), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    int64_t left_out = weir_log_left_out();
    weir_log_end();
    const char *text = catch_end();
    CHECK_EQ(lines_in(text), 100);
    CHECK_EQ(left_out, 300);
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1)
        CHECK(line[0] == '{' && end[-1] == '}');
}

/* With as much in it as it takes; whoever writes then waits. */
static bool full_pipe(int ends[2])
{
    if (!CHECK(pipe(ends) == 0))
        return false;
    (void)fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], caught, 4096) > 0)
        ;
    return CHECK(fcntl(ends[1], F_SETFL, 0) == 0);
}

TEST(nobody_waits_for_who_does_not_read_the_log)
{
    int ends[2];
    (void)start(LOG_LOGFMT, LOG_INFO_LEVEL, false);
    if (!full_pipe(ends))
        return;
    (void)alarm(10); /* rather than to wait for ever */
    kept = dup(STDERR_FILENO);
    CHECK(dup2(ends[1], STDERR_FILENO) >= 0);
    WRITE(0, LOG_INFO_LEVEL, "lost", LOG_NUMBER("n", 1));
    CHECK_EQ(weir_log_left_out(), 1);
    CHECK_EQ(read(ends[0], caught, 4096), 4096);
    WRITE(0, LOG_INFO_LEVEL, "kept", LOG_NUMBER("n", 2));
    CHECK_EQ(weir_log_left_out(), 1);
    (void)dup2(kept, STDERR_FILENO);
    (void)alarm(0);
    weir_log_end();
    (void)close(kept);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

TEST(the_clock_of_the_log_is_not_the_one_that_tests_set)
{
    weir_clock_set(0);
    CHECK(weir_log_start(LOG_LOGFMT, LOG_INFO_LEVEL, false));
    if (!catch_begin())
        return;
    weir_log(LOG_INFO_LEVEL, "now", LOG_NUMBER("n", 1));
    weir_log_end();
    const char *text = catch_end();
    weir_clock_set(-1);
    CHECK(strncmp(text, "time=20", 7) == 0 && strstr(text, "event=now n=1\n"));
}
