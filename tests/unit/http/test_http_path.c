/* SPDX-License-Identifier: MIT */
/*
 * Paths, hosts and addresses: no spelling of a path slips past a pattern, and an address is known whatever
 * it is written like.
 */
#include "base/address.h"
#include "check.h"
#include "http/path.h"

static struct slice slice_of(const char *text)
{
    return (struct slice){text, strlen(text)};
}

/* 1: it matches; 0: it does not; -1: the path is refused. */
static int matches(const char *pattern, const char *text)
{
    static struct http_path path;
    const char *why;
    CHECK(weir_path_pattern_fault(pattern) == NULL);
    bool read = weir_path_read(slice_of(text), &path, &why);
    CHECK_EQ(!read, why != NULL);
    return read ? weir_path_match(&path, pattern) : -1;
}

TEST(patterns_match_segment_by_segment)
{
    static const struct {
        const char *pattern, *yes, *no;
    } rows[] = {
        {"/login", "/login", "/login2"},
        {"/login", "/login/", "/login/x"},
        {"/login", "//login", "/Login"},
        {"/", "/", "/a"},
        {"/api/*", "/api/v1", "/api"},
        {"/api/*", "/api/v1/", "/api/v1/x"},
        {"/v1/users/*/posts", "/v1/users/42/posts", "/v1/users/posts"},
        {"/v1/users/*/posts", "/v1/users/%2A/posts", "/v1/users/4/2/posts"},
        {"/static/**", "/static/a/b/c", "/stati"},
        {"/static/**", "/static", "/"},
        {"/**", "/", "/ /%2F"},
        {"/*/**", "/a", "/"},
        {"/a b", "/a%20b", "/a+b"},
        {"/caf\xC3\xA9", "/caf%C3%A9", "/caf%E9"},
        {"/a", "/a;x", "/b"},
        {"/a/b", "/a;v=1/b;w", "/a;/c"},
        {"/b", "/a/..;x/b", "/a/b"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_EQ(matches(rows[i].pattern, rows[i].yes), 1);
        CHECK(matches(rows[i].pattern, rows[i].no) < 1);
    }
}

TEST(no_spelling_of_a_path_slips_past_a_pattern)
{
    static const char *const spellings[] = {"/admin/x",           "/a/../admin/x",     "/../admin/x",
                                            "/../../admin/x",     "/a/%2e%2e/admin/x", "/a/.%2E/admin/x",
                                            "/a/b/../../admin/x", "/./admin/./x/.",    "/%61dmin/%78",
                                            "//admin///x//",      "/admin/y/../x",     "/admin/x/y/.."};
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++)
        CHECK_EQ(matches("/admin/x", spellings[i]), 1);
    CHECK_EQ(matches("/admin/x", "/%2561dmin/x"), 0); /* decoded once */
}

TEST(what_servers_understand_differently_is_refused)
{
    static const char *const paths[] = {"",       "admin", "*",     "http://h/", "/a%2Fb", "/a%2f..%2fb",
                                        "/a%5Cb", "/a\\b", "/%00",  "/a%0a",     "/\x7F",  "/%7f",
                                        "/a%",    "/a%2",  "/a%zz", "/%2",       "/a\tb",  "/a#b"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        CHECK_EQ(matches("/**", paths[i]), -1);
}

TEST(long_paths_are_refused_at_the_limit)
{
    char text[HTTP_TARGET_MAX + 2];
    static struct http_path path;
    const char *why;
    memset(text, 'a', sizeof text);
    text[0] = '/';
    CHECK(weir_path_read((struct slice){text, HTTP_TARGET_MAX}, &path, &why));
    CHECK_EQ(path.count, 1);
    CHECK(!weir_path_read((struct slice){text, HTTP_TARGET_MAX + 1}, &path, &why));
    CHECK_STR(why, "the path is longer than 8192 bytes");
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = i % 2 ? 'a' : '/';
    size_t most = (size_t)PATH_SEGMENTS_MAX * 2;
    CHECK(weir_path_read((struct slice){text, most}, &path, &why));
    CHECK_EQ(path.count, PATH_SEGMENTS_MAX);
    CHECK(!weir_path_read((struct slice){text, most + 2}, &path, &why));
    CHECK_STR(why, "the path has more than 128 segments");
}

TEST(a_pattern_that_cannot_be_meant_is_explained)
{
    static const char *const bad[] = {"api", "/a?b", "/a#b",  "/%41",  "/a\\", "/a/../b",
                                      "/.",  "/a*",  "/*a/b", "/**/b", "/a**", "/***"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(weir_path_pattern_fault(bad[i]) != NULL);
    CHECK_STR(weir_path_pattern_fault("/**/b"), "** stands at the end alone: /static/**");
    char text[PATH_PATTERN_MAX + 2] = "/";
    memset(text + 1, 'a', PATH_PATTERN_MAX);
    CHECK_STR(weir_path_pattern_fault(text), "a path has at most 512 bytes");
    text[PATH_PATTERN_MAX] = '\0';
    CHECK(weir_path_pattern_fault(text) == NULL);
}

static bool host_matches(const char *pattern, const char *text)
{
    struct slice host;
    CHECK(weir_host_pattern_fault(pattern) == NULL);
    return weir_host_read(slice_of(text), &host) && weir_host_match(host, pattern);
}

TEST(hosts_match_without_case_port_and_last_dot)
{
    CHECK(host_matches("api.example.com", "api.example.com"));
    CHECK(host_matches("api.example.com", "API.Example.COM:8080"));
    CHECK(host_matches("api.example.com", "api.example.com."));
    CHECK(host_matches("api.example.com", "api.example.com.:80"));
    CHECK(!host_matches("api.example.com", "xapi.example.com"));
    CHECK(host_matches("*.example.com", "a.example.com"));
    CHECK(host_matches("*.example.com", "a.b.example.com"));
    CHECK(!host_matches("*.example.com", "example.com"));
    CHECK(!host_matches("*.example.com", ".example.com"));
    CHECK(!host_matches("*.example.com", "badexample.com"));
    CHECK(host_matches("[::1]", "[::1]:9050"));
    static const char *const none[] = {"", "a b", "a,b", "a/b", "[::1", ":80", "a@b"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        CHECK(!host_matches("*.example.com", none[i]));
    static const char *const bad[] = {"*", "*example.com", "a.*", "a:80", "*.", "a.", "*..a", "*.*.a", "a b"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(weir_host_pattern_fault(bad[i]) != NULL);
}

/* ---- addresses ---- */

static const char *shown(const char *text, int bits)
{
    static char out[IP_TEXT_MAX];
    struct ip ip;
    if (!weir_ip_read(slice_of(text), &ip))
        return "none";
    size_t len = weir_ip_write(&ip, bits, out);
    CHECK_EQ(len, strlen(out));
    return out;
}

TEST(addresses_are_read_with_and_without_ports)
{
    CHECK_STR(shown("192.0.2.7", 64), "192.0.2.7");
    CHECK_STR(shown("192.0.2.7:8080", 64), "192.0.2.7");
    CHECK_STR(shown("::ffff:192.0.2.7", 64), "192.0.2.7");
    CHECK_STR(shown("[::ffff:c000:207]:1", 64), "192.0.2.7");
    CHECK_STR(shown("2001:db8:1:2:3:4:5:6", 64), "2001:db8:1:2::/64");
    CHECK_STR(shown("[2001:db8:1:2:3:4:5:6]:443", 56), "2001:db8:1::/56");
    CHECK_STR(shown("[2001:db8::1]", 128), "2001:db8::1");
    CHECK_STR(shown("2001:dbff:ffff::", 33), "2001:dbff:8000::/33");
    CHECK_STR(shown("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 1), "8000::/1");
    static const char *const none[] = {"",
                                       "unknown",
                                       "_hidden",
                                       "192.0.2",
                                       "192.0.2.256",
                                       "192.0.2.7:",
                                       "192.0.2.7:x",
                                       "192.0.2.7:65536",
                                       "[192.0.2.7]",
                                       "[192.0.2.7]:80",
                                       "[::1",
                                       "[::1]80",
                                       "[::1]:",
                                       "::1]",
                                       "010.0.0.1",
                                       " 192.0.2.7",
                                       "192.0.2.7 ",
                                       "fe80::1%eth0",
                                       "1.2.3.4, 5.6.7.8",
                                       "[]",
                                       ":80",
                                       "1:2:3:4:5:6:7:8:9",
                                       "\"192.0.2.7\""};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        CHECK_STR(shown(none[i], 64), "none");
    struct ip ip;
    CHECK(!weir_ip_read((struct slice){"::1\0", 4}, &ip));
}

static bool within(const char *address, const char *range)
{
    struct ip ip;
    struct ip_range in;
    return CHECK(weir_ip_read(slice_of(address), &ip)) && CHECK(weir_ip_range_read(slice_of(range), &in)) &&
           weir_ip_is_in(&ip, &in);
}

TEST(ranges_hold_what_has_their_prefix)
{
    CHECK(within("10.255.0.1", "10.0.0.0/8"));
    CHECK(!within("11.0.0.0", "10.0.0.0/8"));
    CHECK(within("::ffff:10.1.1.1", "10.0.0.0/8"));
    CHECK(within("192.0.2.129", "192.0.2.128/25"));
    CHECK(!within("192.0.2.127", "192.0.2.128/25"));
    CHECK(within("192.0.2.7", "192.0.2.7"));
    CHECK(!within("192.0.2.6", "192.0.2.7"));
    CHECK(within("1.2.3.4", "0.0.0.0/0"));
    CHECK(!within("::1", "0.0.0.0/0"));
    CHECK(within("2001:db8:ffff::1", "2001:db8::/32"));
    CHECK(!within("2001:db9::1", "2001:db8::/32"));
    CHECK(within("::1", "::1"));
    CHECK(!within("::2", "::1"));
    static const char *const bad[] = {"",     "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/",   "10.0.0.0/-1",
                                      "10/8", "::1/64",     "::/129",      "10.0.0.0:80", "x",
                                      "/8",   "[::1]",      "10.0.0.0/08x"};
    struct ip_range range;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(!weir_ip_range_read(slice_of(bad[i]), &range));
}

/* Each bit of a range counts: an address that differs in one of the first `bits` is outside, else inside. */
TEST(every_bit_of_a_prefix_counts)
{
    for (int bits = 0; bits <= 128; bits++)
        for (int flip = 0; flip < 128; flip++) {
            struct ip_range range = {.bits = bits};
            struct ip ip = range.first;
            ip.bytes[flip / 8] ^= (unsigned char)(0x80 >> flip % 8);
            if (!CHECK_EQ(weir_ip_is_in(&ip, &range), flip >= bits))
                return;
        }
}
