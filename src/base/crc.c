/* SPDX-License-Identifier: MIT */
#include "base/crc.h"

uint32_t weir_crc32c_plain(uint32_t crc, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    crc = ~crc;
    for (size_t i = 0; i < len; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82F63B78) : 0);
    }
    return ~crc;
}

uint32_t weir_crc32c(uint32_t crc, const void *bytes, size_t len)
{
    return weir_crc32c_plain(crc, bytes, len);
}
