/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "server/proxy_protocol.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

#define FRONT_BYTES 16 /* signature, command, family, length */

enum proxy_family { FAMILY_NONE = 0, FAMILY_TCP_FOUR = 0x11, FAMILY_TCP_SIX = 0x21, FAMILY_UNIX = 0x31 };

static unsigned two_bytes(const char *bytes)
{
    return (unsigned)(unsigned char)bytes[0] << 8 | (unsigned char)bytes[1];
}

/* Source, destination, source's port, destination's port. */
static void write_address(const char *bytes, bool six, char address[static LISTEN_ADDRESS_MAX])
{
    char host[INET6_ADDRSTRLEN] = "";
    unsigned port = two_bytes(bytes + (six ? 32 : 8));
    struct in6_addr source;
    if (six)
        memcpy(&source, bytes, sizeof source);
    if (six && IN6_IS_ADDR_V4MAPPED(&source)) {
        bytes += 12;
        six = false;
    }
    (void)inet_ntop(six ? AF_INET6 : AF_INET, bytes, host, sizeof host);
    (void)snprintf(address, LISTEN_ADDRESS_MAX, six ? "[%s]:%u" : "%s:%u", host, port);
}

enum proxy_parsed weir_proxy_read(const char *bytes, size_t len, size_t *need,
                                  char address[static LISTEN_ADDRESS_MAX])
{
    static const char signature[12] = "\r\n\r\n\0\r\nQUIT\n";
    size_t known = len < sizeof signature ? len : sizeof signature;
    *need = FRONT_BYTES;
    if (known > 0 &&
        memcmp(bytes, signature, known) != 0) /* a client without a header need not send 16 bytes */
        return PROXY_BAD;
    if (len < FRONT_BYTES)
        return PROXY_MORE;
    int command = (unsigned char)bytes[12], family = (unsigned char)bytes[13];
    size_t length = two_bytes(bytes + 14);
    bool local = command == 0x20;
    if ((!local && command != 0x21) || FRONT_BYTES + length > PROXY_HEADER_MAX)
        return PROXY_BAD;
    *need = FRONT_BYTES + length;
    if (len < *need)
        return PROXY_MORE;
    ASSERT(len == *need);
    if (local || family == FAMILY_NONE || family == FAMILY_UNIX)
        return PROXY_LOCAL;
    bool six = family == FAMILY_TCP_SIX;
    if ((!six && family != FAMILY_TCP_FOUR) || length < (six ? 36U : 12U))
        return PROXY_BAD;
    write_address(bytes + FRONT_BYTES, six, address);
    return PROXY_ADDRESS;
}
