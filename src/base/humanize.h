/* SPDX-License-Identifier: MIT */
/*
 * Numbers and times as a person reads them: 6 020, 200 ms, 1 h 30 min. Every function writes at most
 * HUMANIZE_MAX bytes to `text` and gives it back, so that it can stand in a call of printf.
 */
#ifndef WEIR_BASE_HUMANIZE_H
#define WEIR_BASE_HUMANIZE_H

#include <stdbool.h>
#include <stdint.h>

#define HUMANIZE_MAX 64

/* 1234567 -> 1 234 567 */
const char *weir_humanize_number(int64_t number, char *text);

/* A number that need not be whole, to four digits: 2.5 */
const char *weir_humanize_decimal(double number, char *text);

enum humanize_flags {
    HUMANIZE_UP = 1,  /* never too short: for waits, where a rounded-down time would come too early */
    HUMANIZE_UTF8 = 2 /* microseconds with their Greek letter */
};
/* A time to four digits or two units: 333.3 ms, 90 s, 5 min 30 s, 1 h 30 min. `how` is of enum
 * humanize_flags. */
const char *weir_humanize_duration(int64_t time_ns, unsigned how, char *text);

#endif
