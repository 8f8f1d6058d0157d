/* SPDX-License-Identifier: MIT */
#include "check.h"
#include "http/uri.h"

static void check_decode(const char *text, bool plus, const char *want, size_t want_len)
{
    char bytes[64];
    size_t len = weir_uri_decode((struct slice){text, strlen(text)}, plus, bytes);
    CHECK_EQ(len, want_len);
    CHECK(len != want_len || len == SIZE_MAX || memcmp(bytes, want, len) == 0);
}

TEST(percent_is_decoded_once)
{
    check_decode("", false, "", 0);
    check_decode("user%3A42%2f%2525", false, "user:42/%25", 11);
    check_decode("%00%fF", false, "\0\xFF", 2);
    check_decode("a+b%2B", false, "a+b+", 4);
    check_decode("a+b%2B", true, "a b+", 4);
    static const char *const wrong[] = {"%", "%4", "a%", "%g1", "%1g", "%%41", "%-1", "% 1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        check_decode(wrong[i], false, NULL, SIZE_MAX);
    char bytes[8];
    CHECK(weir_uri_decode((struct slice){"%41", 2}, false, bytes) ==
          SIZE_MAX); /* what is behind it is not its */
}

/* Each as name, '=' and value, with ';' behind it. */
static void check_query(const char *text, const char *want)
{
    char got[128] = "";
    struct slice query = {text, text ? strlen(text) : 0}, name, value;
    while (weir_query_next(&query, &name, &value))
        (void)snprintf(got + strlen(got), sizeof got - strlen(got), "%.*s=%.*s;", (int)name.len, name.bytes,
                       (int)value.len, value.bytes);
    CHECK_STR(got, want);
}

TEST(a_query_is_names_and_values)
{
    check_query(NULL, "");
    check_query("", "");
    check_query("n=3", "n=3;");
    check_query("n=3&status=403", "n=3;status=403;");
    check_query("a&b=&=c&d==e", "a=;b=;=c;d==e;");
    check_query("&&a&&b&", "a=;b=;");
    check_query("a=b%26c;d", "a=b%26c;d;");
}
