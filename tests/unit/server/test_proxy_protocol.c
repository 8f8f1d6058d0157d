/* SPDX-License-Identifier: MIT */
/*
 * The header of the PROXY protocol, byte by byte.
 */
#include "check.h"
#include "server/proxy_protocol.h"

#define SIGNATURE    "\r\n\r\n\0\r\nQUIT\n"
#define HEADER(REST) (SIGNATURE REST), sizeof(SIGNATURE REST) - 1

/* With every number of bytes that it says it needs, one step after the other. */
static const char *read_header(const char *bytes, size_t len)
{
    static char address[LISTEN_ADDRESS_MAX];
    static const char *const names[] = {"more", "bad", NULL, "local"};
    size_t need = 0, have = 0;
    enum proxy_parsed parsed;
    do {
        size_t before = need;
        have = need < len ? need : len;
        char *copy = malloc(have > 0 ? have : 1); /* of just this size, for sanitizers */
        if (!copy)
            abort();
        memcpy(copy, bytes, have);
        parsed = weir_proxy_read(copy, have, &need, address);
        free(copy);
        CHECK(need <= PROXY_HEADER_MAX && need >= before);
    } while (parsed == PROXY_MORE && have < len);
    return parsed == PROXY_ADDRESS ? address : names[parsed];
}

TEST(addresses_are_those_of_the_client)
{
    CHECK_STR(read_header(HEADER("\x21\x11\0\x0C\xC0\0\2\7\x0A\0\0\1\x1F\x90\0\x50")), "192.0.2.7:8080");
    CHECK_STR(read_header(HEADER("\x21\x21\0\x24\x20\1\x0D\xB8\0\0\0\0\0\0\0\0\0\0\0\7"
                                 "\x20\1\x0D\xB8\0\0\0\0\0\0\0\0\0\0\0\1\1\xBB\0\x50")),
              "[2001:db8::7]:443");
    CHECK_STR(read_header(HEADER("\x21\x21\0\x24\0\0\0\0\0\0\0\0\0\0\xFF\xFF\xC0\0\2\7"
                                 "\0\0\0\0\0\0\0\0\0\0\xFF\xFF\x0A\0\0\1\0\1\0\x50")),
              "192.0.2.7:1"); /* as a connection of its own would be called */
    CHECK_STR(read_header(HEADER("\x21\x11\0\x10\xC0\0\2\7\x0A\0\0\1\x1F\x90\0\x50\3\0\1x")),
              "192.0.2.7:8080");
}

TEST(without_an_address_the_peer_counts)
{
    CHECK_STR(read_header(HEADER("\x20\0\0\0")), "local");
    CHECK_STR(read_header(HEADER("\x20\x11\0\x0C\xC0\0\2\7\x0A\0\0\1\x1F\x90\0\x50")), "local");
    CHECK_STR(read_header(HEADER("\x21\0\0\0")), "local");
    CHECK_STR(read_header(HEADER("\x21\x31\0\0")), "local");
}

TEST(what_is_no_header_is_refused_at_once)
{
    CHECK_STR(read_header("*", 1), "bad");
    CHECK_STR(read_header("GET / HTTP/1.1\r\n\r\n", 18), "bad");
    CHECK_STR(read_header("PROXY TCP4 192.0.2.7 10.0.0.1 1 2\r\n", 35), "bad"); /* version 1 */
    CHECK_STR(read_header("\r\n\r\nGET / HTTP/1.1\r\n", 20), "bad");
    CHECK_STR(read_header(HEADER("\x22\x11\0\x0C\xC0\0\2\7\x0A\0\0\1\x1F\x90\0\x50")), "bad"); /* command */
    CHECK_STR(read_header(HEADER("\x11\x11\0\x0C\xC0\0\2\7\x0A\0\0\1\x1F\x90\0\x50")), "bad"); /* version */
    CHECK_STR(read_header(HEADER("\x21\x12\0\x0C\xC0\0\2\7\x0A\0\0\1\x1F\x90\0\x50")), "bad"); /* datagrams */
    CHECK_STR(read_header(HEADER("\x21\x11\0\x0B\xC0\0\2\7\x0A\0\0\1\x1F\x90\0")), "bad");     /* too short */
    CHECK_STR(read_header(HEADER("\x21\x21\0\x0C\xC0\0\2\7\x0A\0\0\1\x1F\x90\0\x50")), "bad");
    CHECK_STR(read_header(HEADER("\x21\x11\2\x09")), "bad"); /* 521 bytes: more than are accepted */
    CHECK_STR(read_header(HEADER("\x20\x11\xFF\xFF")), "bad");
}

TEST(a_part_of_a_header_needs_more)
{
    static const char whole[] = SIGNATURE "\x21\x11\0\x0C\xC0\0\2\7\x0A\0\0\1\x1F\x90\0\x50";
    for (size_t len = 0; len < sizeof whole - 1; len++)
        CHECK_STR(read_header(whole, len), "more");
    char longest[PROXY_HEADER_MAX] = SIGNATURE "\x20\0\2\x08";
    CHECK_STR(read_header(longest, sizeof longest), "local");
}
