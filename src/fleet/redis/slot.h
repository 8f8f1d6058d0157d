/* SPDX-License-Identifier: MIT */
/*
 * The slot of a Redis Cluster that a key belongs to: CRC16 of what stands between the first { and the next },
 * if that is something, else of the whole key.
 */
#ifndef WEIR_FLEET_REDIS_SLOT_H
#define WEIR_FLEET_REDIS_SLOT_H

#include <stddef.h>
#include <stdint.h>

#define REDIS_SLOTS 16384

uint16_t weir_redis_crc16(const char *bytes, size_t len); /* XMODEM: polynomial 1021, begins with 0 */
unsigned weir_redis_slot(const char *key, size_t len);

#endif
