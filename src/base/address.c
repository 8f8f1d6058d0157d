/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "base/address.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "base/assert.h"

#define FOUR_FRONT 96 /* bits in front of an IPv4 address */

static const unsigned char four_prefix[12] = {[10] = 0xFF, [11] = 0xFF};

static bool read_plain_ip(struct slice text, struct ip *ip)
{
    char copy[INET6_ADDRSTRLEN];
    if (text.len == 0 || text.len >= sizeof copy || memchr(text.bytes, '\0', text.len))
        return false;
    memcpy(copy, text.bytes, text.len);
    copy[text.len] = '\0';
    memcpy(ip->bytes, four_prefix, sizeof four_prefix);
    return inet_pton(AF_INET, copy, ip->bytes + sizeof four_prefix) == 1 ||
           inet_pton(AF_INET6, copy, ip->bytes) == 1;
}

/* Reads digits that fill the text. -1: it has something else, none, or more than `most` says. */
static int read_digits(struct slice text, int most)
{
    int number = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.bytes[i] < '0' || text.bytes[i] > '9')
            return -1;
        number = number * 10 + (text.bytes[i] - '0');
        if (number > most)
            return -1;
    }
    return text.len > 0 ? number : -1;
}

static bool is_port_or_nothing(struct slice text)
{
    return text.len == 0 ||
           (text.bytes[0] == ':' && read_digits((struct slice){text.bytes + 1, text.len - 1}, 65535) >= 0);
}

bool weir_ip_read(struct slice text, struct ip *ip)
{
    if (text.len == 0)
        return false;
    bool brackets = text.bytes[0] == '[';
    const char *end = memchr(text.bytes, brackets ? ']' : ':', text.len);
    /* Several colons without brackets are an IPv6 address without a port. */
    if (!brackets && (!end || memchr(end + 1, ':', text.len - (size_t)(end + 1 - text.bytes))))
        return read_plain_ip(text, ip);
    if (!end)
        return false;
    const char *start = text.bytes + brackets, *behind = end + brackets;
    struct slice host = {start, (size_t)(end - start)};
    return is_port_or_nothing((struct slice){behind, text.len - (size_t)(behind - text.bytes)}) &&
           (memchr(host.bytes, ':', host.len) != NULL) == brackets && read_plain_ip(host, ip);
}

bool weir_ip_is_four(const struct ip *ip)
{
    return memcmp(ip->bytes, four_prefix, sizeof four_prefix) == 0;
}

static void mask_ip(struct ip *ip, int bits)
{
    for (int i = 0; i < 16; i++) {
        int kept = bits - 8 * i;
        if (kept < 8)
            ip->bytes[i] = (unsigned char)(kept <= 0 ? 0 : ip->bytes[i] & 0xFF << (8 - kept));
    }
}

bool weir_ip_range_read(struct slice text, struct ip_range *range)
{
    const char *slash = memchr(text.bytes, '/', text.len);
    struct slice host = {text.bytes, slash ? (size_t)(slash - text.bytes) : text.len};
    if (!read_plain_ip(host, &range->first))
        return false;
    bool four = !memchr(host.bytes, ':', host.len);
    int front = four ? FOUR_FRONT : 0, bits = IP_BITS - front;
    if (slash)
        bits = read_digits((struct slice){slash + 1, text.len - host.len - 1}, bits);
    range->bits = front + bits;
    struct ip masked = range->first;
    mask_ip(&masked, range->bits);
    return bits >= 0 && memcmp(masked.bytes, range->first.bytes, sizeof masked.bytes) == 0;
}

bool weir_ip_is_in(const struct ip *ip, const struct ip_range *range)
{
    struct ip masked = *ip;
    mask_ip(&masked, range->bits);
    bool is_in = memcmp(masked.bytes, range->first.bytes, sizeof masked.bytes) == 0;
    ASSERT(!is_in || range->bits < 8 || ip->bytes[0] == range->first.bytes[0]);
    return is_in;
}

size_t weir_ip_write(const struct ip *ip, int bits, char text[static IP_TEXT_MAX])
{
    char host[INET6_ADDRSTRLEN] = "";
    struct ip masked = *ip;
    if (weir_ip_is_four(ip)) {
        (void)inet_ntop(AF_INET, ip->bytes + sizeof four_prefix, host, sizeof host);
        return (size_t)snprintf(text, IP_TEXT_MAX, "%s", host);
    }
    mask_ip(&masked, bits);
    (void)inet_ntop(AF_INET6, masked.bytes, host, sizeof host);
    return (size_t)snprintf(text, IP_TEXT_MAX, bits < IP_BITS ? "%s/%d" : "%s", host, bits);
}
