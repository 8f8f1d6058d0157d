/* SPDX-License-Identifier: MIT */
/*
 * IP addresses and ranges of them. An IPv4 address and the same one mapped into IPv6 are one address. Any
 * thread.
 */
#ifndef WEIR_BASE_ADDRESS_H
#define WEIR_BASE_ADDRESS_H

#include "base/buffer.h"

struct ip {
    unsigned char bytes[16]; /* an IPv4 address a.b.c.d is ::ffff:a.b.c.d */
};

struct ip_range {
    struct ip first;
    int bits; /* of the 128 that all addresses in it have in common */
};

#define IP_BITS     128
#define IP_TEXT_MAX 52 /* of weir_ip_write, with the NUL */

/* Reads 192.0.2.7, 192.0.2.7:8080, 2001:db8::7, [2001:db8::7] or [2001:db8::7]:8080. false: it is none. */
bool weir_ip_read(struct slice text, struct ip *ip);
/* Reads an address, or 10.0.0.0/8, 2001:db8::/32. false: it is none, or has bits behind the prefix. */
bool weir_ip_range_read(struct slice text, struct ip_range *range);
bool weir_ip_is_in(const struct ip *ip, const struct ip_range *range);
bool weir_ip_is_four(const struct ip *ip);
bool weir_ip_range_is_four(const struct ip_range *range); /* has it IPv4 addresses alone? */
/* Writes the first `four` bits of an IPv4 address, 192.0.2.0/24, or the first `six` of an IPv6 address;
 * without the length if that is all of it. Returns the length. */
size_t weir_ip_write_prefix(const struct ip *ip, int four, int six, char text[static IP_TEXT_MAX]);
/* Writes an IPv4 address, or the first `bits` of an IPv6 address: 2001:db8:1:2::/64, without the length if
 * bits is 128. Returns the length. */
size_t weir_ip_write(const struct ip *ip, int bits, char text[static IP_TEXT_MAX]);

#endif
