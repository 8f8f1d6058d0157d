/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "base/address.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/assert.h"
#include "base/put.h"
#include "weir.h"

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

bool weir_ip_range_is_four(const struct ip_range *range)
{
    ASSERT(range->bits >= FOUR_FRONT ||
           !weir_ip_is_four(&range->first)); /* it has no bits behind the prefix */
    return weir_ip_is_four(&range->first);
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

static size_t write_ip_four(const struct ip *ip, int bits, char text[static IP_TEXT_MAX])
{
    struct ip masked = *ip;
    char *at = text;
    mask_ip(&masked, FOUR_FRONT + bits);
    for (size_t i = sizeof four_prefix; i < sizeof masked.bytes; i++) {
        at = put_decimal(at, masked.bytes[i]);
        *at++ = i + 1 < sizeof masked.bytes ? '.' : '/';
    }
    if (bits < IP_BITS - FOUR_FRONT)
        at = put_decimal(at, bits);
    else
        at--;
    *at = '\0';
    return (size_t)(at - text);
}

size_t weir_ip_write_prefix(const struct ip *ip, int four, int six, char text[static IP_TEXT_MAX])
{
    ASSERT(four >= 0 && four <= IP_BITS - FOUR_FRONT && six >= 0 && six <= IP_BITS);
    if (weir_ip_is_four(ip))
        return write_ip_four(ip, four, text);
    struct ip masked = *ip;
    mask_ip(&masked, six);
    (void)inet_ntop(AF_INET6, masked.bytes, text, IP_TEXT_MAX);
    char *at = text + strlen(text);
    if (six < IP_BITS) {
        *at++ = '/';
        at = put_decimal(at, six);
    }
    *at = '\0';
    return (size_t)(at - text);
}

size_t weir_ip_write(const struct ip *ip, int bits, char text[static IP_TEXT_MAX])
{
    return weir_ip_write_prefix(ip, IP_BITS - FOUR_FRONT, bits, text);
}

size_t weir_address_key(const char *text, size_t len, int v4_bits, int v6_bits, char *key, size_t size)
{
    struct ip ip;
    char whole[IP_TEXT_MAX];
    if (v4_bits < 1 || v4_bits > IP_BITS - FOUR_FRONT || v6_bits < 1 || v6_bits > IP_BITS ||
        !weir_ip_read((struct slice){text, len}, &ip))
        return 0;
    size_t used = weir_ip_write_prefix(&ip, v4_bits, v6_bits, whole);
    if (size > 0) {
        size_t kept = used < size ? used : size - 1;
        memcpy(key, whole, kept);
        key[kept] = '\0';
    }
    return used;
}
