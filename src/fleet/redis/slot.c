/* SPDX-License-Identifier: MIT */
#include "fleet/redis/slot.h"

#include <string.h>

uint16_t weir_redis_crc16(const char *bytes, size_t len)
{
    unsigned crc = 0;
    for (size_t i = 0; i < len; i++) {
        crc ^= (unsigned)(unsigned char)bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0);
    }
    return (uint16_t)crc;
}

unsigned weir_redis_slot(const char *key, size_t len)
{
    const char *open = memchr(key, '{', len);
    size_t rest = open ? len - (size_t)(open - key) - 1 : 0;
    const char *close = open ? memchr(open + 1, '}', rest) : NULL;
    if (close && close > open + 1) {
        key = open + 1;
        len = (size_t)(close - key);
    }
    return weir_redis_crc16(key, len) % REDIS_SLOTS;
}
