/* SPDX-License-Identifier: MIT */
/*
 * CRC-32C, the checksum of everything that is kept on a disk: any burst of up to 32 flipped bits is noticed,
 * and processors compute it as fast as they read.
 */
#ifndef WEIR_BASE_CRC_H
#define WEIR_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Of some bytes behind those that gave `crc`; 0 at the start. */
uint32_t weir_crc32c(uint32_t crc, const void *bytes, size_t len);
/* The same without the processor's help; for tests. */
uint32_t weir_crc32c_plain(uint32_t crc, const void *bytes, size_t len);

#endif
