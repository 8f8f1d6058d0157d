/* SPDX-License-Identifier: MIT */
/*
 * Hostile bytes as a header of the PROXY protocol. It is read in the pieces that it asks for, never more;
 * what it says is an address that the rest of the server reads.
 */
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "must.h"
#include "server/proxy_protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char address[LISTEN_ADDRESS_MAX] = "";
    size_t need = 0, have = 0;
    enum proxy_parsed parsed;
    for (int steps = 0;; steps++) {
        size_t before = have;
        have = need < size ? need : size;
        char *copy = malloc(have > 0 ? have : 1); /* of just this size */
        MUST(copy && steps < 4);
        if (have > 0)
            memcpy(copy, data, have);
        parsed = weir_proxy_read(copy, have, &need, address);
        free(copy);
        MUST(need <= PROXY_HEADER_MAX && (parsed != PROXY_MORE || need > have));
        if (parsed != PROXY_MORE || (have == before && steps > 0))
            break;
    }
    struct ip ip;
    if (parsed == PROXY_ADDRESS)
        MUST(strlen(address) < sizeof address && weir_ip_read((struct slice){address, strlen(address)}, &ip));
    return 0;
}
