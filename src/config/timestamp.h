/* SPDX-License-Identifier: MIT */
/*
 * Moments as people write them, in UTC: 2027-01-31T12:00:00.250Z. As numbers they are milliseconds since
 * 1970. Any thread.
 */
#ifndef WEIR_CONFIG_TIMESTAMP_H
#define WEIR_CONFIG_TIMESTAMP_H

#include <stdbool.h>
#include <stdint.h>

#define TIMESTAMP_MAX 40

/* Always with milliseconds. From 1970 to 9999; others are shown as the nearest of these. */
void weir_timestamp_write(int64_t ms, char text[static TIMESTAMP_MAX]);

/* 2027-01-31 (its first moment), 2027-01-31T12:00Z, with seconds, with milliseconds; from the year 2000 on.
 */
bool weir_timestamp_read(const char *text, int64_t *ms);

#endif
