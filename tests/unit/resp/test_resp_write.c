/* SPDX-License-Identifier: MIT */
/*
 * Replies to the byte, in both versions of the protocol; and what is written is read back.
 */
#include <float.h>
#include <math.h>

#include "check.h"
#include "resp/reply.h"
#include "resp/write.h"

static struct buffer out;

/* What has been written since the last call, as text. */
static const char *written(void)
{
    static char text[4096];
    size_t len = buffer_len(&out);
    if (!CHECK(!out.failed && len < sizeof text))
        len = 0;
    if (len > 0)
        memcpy(text, buffer_bytes(&out), len);
    text[len] = '\0';
    weir_buffer_free(&out);
    return text;
}

TEST(lines_are_written)
{
    struct reply reply = {&out, 2};
    weir_reply_simple(&reply, "OK");
    CHECK_STR(written(), "+OK\r\n");
    weir_reply_simple(&reply, "");
    CHECK_STR(written(), "+\r\n");
    weir_reply_simple(&reply, "a\r\n+b");
    CHECK_STR(written(), "+a  +b\r\n");
    weir_reply_error(&reply, "ERR no policy '%s', %d known", "api", 3);
    CHECK_STR(written(), "-ERR no policy 'api', 3 known\r\n");
}

TEST(an_error_stays_on_its_line)
{
    struct reply reply = {&out, 3};
    weir_reply_error(&reply, "ERR '%s'", "a\r\n+OK\tb\x1B[2J\x7F");
    CHECK_STR(written(), "-ERR 'a  +OK?b?[2J?'\r\n");
    weir_reply_error(&reply, "ERR %s", "\xC2\xB5\xFF");
    CHECK_STR(written(), "-ERR \xC2\xB5\xFF\r\n");
    char many[1001];
    memset(many, 'x', 1000);
    many[1000] = '\0';
    weir_reply_error(&reply, "%s", many);
    CHECK_EQ(strlen(written()), 1003);
}

TEST(integers_are_written)
{
    static const int64_t numbers[] = {0,   1,   -1,   9,         10,         99,        100,       101,
                                      999, -10, 1000, 123456789, 1000000000, INT64_MAX, INT64_MIN, INT32_MIN};
    struct reply reply = {&out, 2};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char want[32];
        (void)snprintf(want, sizeof want, ":%" PRId64 "\r\n", numbers[i]);
        weir_reply_integer(&reply, numbers[i]);
        CHECK_STR(written(), want);
    }
    struct rng rng = rng_new(1);
    for (int i = 0; i < 10000; i++) {
        char want[32];
        int64_t number = rng_magnitude(&rng, INT64_MAX);
        number = i % 2 ? -number : number;
        (void)snprintf(want, sizeof want, ":%" PRId64 "\r\n", number);
        weir_reply_integer(&reply, number);
        if (!CHECK_STR(written(), want))
            return;
    }
}

TEST(a_header_may_announce_any_number)
{
    struct reply reply = {&out, 3};
    weir_reply_array(&reply, SIZE_MAX);
    CHECK_STR(written(), "*18446744073709551615\r\n");
    weir_reply_array(&reply, UINT64_C(10000000000000000000));
    CHECK_STR(written(), "*10000000000000000000\r\n");
    weir_reply_array(&reply, UINT64_C(9999999999999999999));
    CHECK_STR(written(), "*9999999999999999999\r\n");
}

TEST(bulk_strings_are_written)
{
    struct reply reply = {&out, 2};
    weir_reply_bulk(&reply, "a\r\nb", 4);
    CHECK_STR(written(), "$4\r\na\r\nb\r\n");
    weir_reply_bulk(&reply, NULL, 0);
    CHECK_STR(written(), "$0\r\n\r\n");
    weir_reply_text(&reply, "allowed");
    CHECK_STR(written(), "$7\r\nallowed\r\n");
    weir_reply_print(&reply, "%s=%d", "limit", 100);
    CHECK_STR(written(), "$9\r\nlimit=100\r\n");
    weir_reply_print(&reply, "%s", "");
    CHECK_STR(written(), "$0\r\n\r\n");
    weir_reply_print(&reply, "%1234d", 7);
    const char *text = written();
    CHECK_EQ(strlen(text), 7 + 1234 + 2);
    CHECK(strncmp(text, "$1234\r\n  ", 9) == 0 && strcmp(text + strlen(text) - 4, " 7\r\n") == 0);
}

TEST(each_version_has_its_own_forms)
{
    struct reply two = {&out, 2}, three = {&out, 3};
    void (*const whole[])(struct reply *) = {weir_reply_null, weir_reply_null_array};
    for (size_t i = 0; i < 2; i++) {
        whole[i](&two);
        CHECK_STR(written(), i ? "*-1\r\n" : "$-1\r\n");
        whole[i](&three);
        CHECK_STR(written(), "_\r\n");
    }
    weir_reply_bool(&two, true);
    weir_reply_bool(&two, false);
    CHECK_STR(written(), ":1\r\n:0\r\n");
    weir_reply_bool(&three, true);
    weir_reply_bool(&three, false);
    CHECK_STR(written(), "#t\r\n#f\r\n");
    weir_reply_verbatim(&two, "a: 1", 4);
    CHECK_STR(written(), "$4\r\na: 1\r\n");
    weir_reply_verbatim(&three, "a: 1", 4);
    CHECK_STR(written(), "=8\r\ntxt:a: 1\r\n");
    void (*const holders[])(struct reply *, size_t) = {weir_reply_array, weir_reply_map, weir_reply_set,
                                                       weir_reply_push};
    for (size_t i = 0; i < 4; i++)
        holders[i](&two, 12);
    CHECK_STR(written(), "*12\r\n*24\r\n*12\r\n*12\r\n");
    for (size_t i = 0; i < 4; i++)
        holders[i](&three, 12);
    CHECK_STR(written(), "*12\r\n%12\r\n~12\r\n>12\r\n");
}

TEST(doubles_are_as_short_as_they_can_be)
{
    static const struct {
        double value;
        const char *two, *three;
    } doubles[] = {
        {0, "$1\r\n0\r\n", ",0\r\n"},
        {0.1, "$3\r\n0.1\r\n", ",0.1\r\n"},
        {-2.5, "$4\r\n-2.5\r\n", ",-2.5\r\n"},
        {0.1 + 0.2, "$19\r\n0.30000000000000004\r\n", ",0.30000000000000004\r\n"},
        {1e300, "$6\r\n1e+300\r\n", ",1e+300\r\n"},
        {INFINITY, "$3\r\ninf\r\n", ",inf\r\n"},
        {-INFINITY, "$4\r\n-inf\r\n", ",-inf\r\n"},
        {NAN, "$3\r\nnan\r\n", ",nan\r\n"},
        {-NAN, "$3\r\nnan\r\n", ",nan\r\n"},
    };
    for (size_t i = 0; i < sizeof doubles / sizeof doubles[0]; i++) {
        weir_reply_double(&(struct reply){&out, 2}, doubles[i].value);
        CHECK_STR(written(), doubles[i].two);
        weir_reply_double(&(struct reply){&out, 3}, doubles[i].value);
        CHECK_STR(written(), doubles[i].three);
    }
}

TEST(a_request_is_written_as_clients_do)
{
    static const struct slice words[] = {{"ECHO", 4}, {"a\0b", 3}, {NULL, 0}};
    weir_resp_ask(&out, words, 3);
    static const char want[] = "*3\r\n$4\r\nECHO\r\n$3\r\na\0b\r\n$0\r\n\r\n";
    CHECK(buffer_len(&out) == sizeof want - 1 && memcmp(buffer_bytes(&out), want, sizeof want - 1) == 0);
    weir_buffer_free(&out);
}

/* One of everything, with a depth of three. */
static void write_all(struct reply *reply)
{
    weir_reply_map(reply, 6);
    weir_reply_text(reply, "allowed");
    weir_reply_bool(reply, true);
    weir_reply_text(reply, "limits");
    weir_reply_array(reply, 2);
    weir_reply_set(reply, 2);
    weir_reply_simple(reply, "fast");
    weir_reply_null(reply);
    weir_reply_array(reply, 0);
    weir_reply_text(reply, "remaining");
    weir_reply_integer(reply, INT64_MIN);
    weir_reply_text(reply, "share");
    weir_reply_double(reply, 0.1 + 0.2);
    weir_reply_text(reply, "info");
    weir_reply_verbatim(reply, "a:1\r\nb:2", 8);
    weir_reply_text(reply, "error");
    weir_reply_error(reply, "ERR no %s", "more");
}

static void check_all(const struct resp_value *root, bool three)
{
    const struct resp_value *allowed = weir_resp_get(root, "allowed"),
                            *limits = weir_resp_get(root, "limits");
    const struct resp_value *remaining = weir_resp_get(root, "remaining"),
                            *share = weir_resp_get(root, "share");
    const struct resp_value *info = weir_resp_get(root, "info"), *error = weir_resp_get(root, "error");
    CHECK_EQ(root->type, three ? RESP_MAP : RESP_ARRAY);
    CHECK_EQ(root->count, 12);
    if (!CHECK(allowed && limits && remaining && share && info && error) || !CHECK_EQ(limits->count, 2))
        return;
    CHECK(allowed->type == (three ? RESP_BOOL : RESP_INTEGER) && allowed->integer == 1);
    const struct resp_value *set = &limits->elements[0];
    CHECK_EQ(set->type, three ? RESP_SET : RESP_ARRAY);
    CHECK_EQ(set->count, 2);
    CHECK(set->elements[0].type == RESP_SIMPLE && slice_is(set->elements[0].text, "fast"));
    CHECK_EQ(set->elements[1].type, RESP_NULL);
    CHECK(limits->elements[1].type == RESP_ARRAY && limits->elements[1].count == 0);
    CHECK(remaining->type == RESP_INTEGER && remaining->integer == INT64_MIN);
    if (three)
        CHECK(share->type == RESP_DOUBLE && share->number == 0.1 + 0.2);
    else
        CHECK(share->type == RESP_BULK && slice_is(share->text, "0.30000000000000004"));
    CHECK(info->type == (three ? RESP_VERBATIM : RESP_BULK) && slice_is(info->text, "a:1\r\nb:2"));
    CHECK(error->type == RESP_ERROR && slice_is(error->text, "ERR no more"));
}

TEST(what_is_written_is_read_back)
{
    for (int version = 2; version <= 3; version++) {
        struct reply reply = {&out, version};
        struct resp_value *value;
        size_t used = 0, len;
        write_all(&reply);
        len = buffer_len(&out);
        weir_reply_simple(&reply, "NEXT");
        if (CHECK_EQ(weir_resp_parse(buffer_bytes(&out), buffer_len(&out), &value, &used), RESP_PARSED)) {
            CHECK_EQ(used, len);
            check_all(value, version == 3);
        }
        weir_resp_value_free(value);
        weir_buffer_free(&out);
    }
}

TEST(doubles_are_read_back_to_the_bit)
{
    struct rng rng = rng_new(2);
    for (int i = 0; i < 5000; i++) {
        uint64_t bits = rng_next(&rng);
        double number;
        struct resp_value *value;
        size_t used;
        memcpy(&number, &bits, sizeof number);
        if (isnan(number))
            continue;
        weir_reply_double(&(struct reply){&out, 3}, number);
        CHECK_EQ(weir_resp_parse(buffer_bytes(&out), buffer_len(&out), &value, &used), RESP_PARSED);
        if (!CHECK(value && memcmp(&value->number, &number, sizeof number) == 0))
            i = 5000;
        weir_resp_value_free(value);
        weir_buffer_free(&out);
    }
}

/* A buffer that is one byte too small for it takes nothing more, whatever is written. */
TEST(what_does_not_fit_fails_the_buffer)
{
    for (int version = 2; version <= 3; version++) {
        struct buffer whole = {0};
        write_all(&(struct reply){&whole, version});
        size_t len = buffer_len(&whole);
        for (size_t most = 1; most <= len; most++) {
            struct buffer small = {.most = most};
            write_all(&(struct reply){&small, version});
            CHECK_EQ(small.failed, most < len);
            CHECK(buffer_len(&small) <= most);
            CHECK(buffer_len(&small) == 0 ||
                  memcmp(buffer_bytes(&small), buffer_bytes(&whole), buffer_len(&small)) == 0);
            weir_buffer_free(&small);
        }
        weir_buffer_free(&whole);
    }
}
