/* SPDX-License-Identifier: MIT */
#include "config/timestamp.h"

#include <stdio.h>
#include <string.h>

#define DAY_MS       INT64_C(86400000)
#define YEAR_10000   INT64_C(2932897) /* its first day, counted from 1970 */
#define ERA_DAYS     146097           /* of 400 years */
#define CENTURY_DAYS 36524
#define LEAP_DAYS    1460   /* of four years, without the leap day */
#define TO_MARCH_0   719468 /* days from 1 March of the year 0 to 1970 */

/* Years begin in March here, so that a leap day is the last of its year. */
void weir_timestamp_write(int64_t ms, char text[static TIMESTAMP_MAX])
{
    ms = ms < 0 ? 0 : ms >= YEAR_10000 * DAY_MS ? YEAR_10000 * DAY_MS - 1 : ms;
    int64_t rest = ms % DAY_MS, days = ms / DAY_MS + TO_MARCH_0, era = days / ERA_DAYS;
    int64_t in_era = days % ERA_DAYS;
    int64_t year = (in_era - in_era / LEAP_DAYS + in_era / CENTURY_DAYS - in_era / (ERA_DAYS - 1)) / 365;
    int64_t in_year = in_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * in_year + 2) / 153, day = in_year - (153 * month + 2) / 5 + 1;
    (void)snprintf(text, TIMESTAMP_MAX, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
                   (int)(year + 400 * era + (month >= 10)), (int)(month < 10 ? month + 3 : month - 9),
                   (int)day, (int)(rest / 3600000), (int)(rest / 60000 % 60), (int)(rest / 1000 % 60),
                   (int)(rest % 1000));
}

static int days_of_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap ? 1 : 0);
}

static bool read_decimal_digits(const char **at, int digits, int *number)
{
    *number = 0;
    for (; digits > 0; digits--, (*at)++) {
        if (**at < '0' || **at > '9')
            return false;
        *number = *number * 10 + (**at - '0');
    }
    return true;
}

/* The byte, and so many digits behind it. */
static bool read_after(const char **at, char byte, int digits, int *number)
{
    return *(*at)++ == byte && read_decimal_digits(at, digits, number);
}

static bool read_clock(const char *at, int64_t *ms)
{
    int hour, minute, second = 0, thousandths = 0;
    if (!read_decimal_digits(&at, 2, &hour) || !read_after(&at, ':', 2, &minute))
        return false;
    if (*at == ':' && !read_after(&at, ':', 2, &second))
        return false;
    if (*at == '.' && !read_after(&at, '.', 3, &thousandths))
        return false;
    *ms = ((hour * 60 + minute) * INT64_C(60) + second) * 1000 + thousandths;
    return strcmp(at, "Z") == 0 && hour < 24 && minute < 60 && second < 60;
}

bool weir_timestamp_read(const char *text, int64_t *ms)
{
    int year, month, day;
    int64_t days, clock_ms = 0;
    if (!read_decimal_digits(&text, 4, &year) || !read_after(&text, '-', 2, &month) ||
        !read_after(&text, '-', 2, &day))
        return false;
    if (year < 2000 || month < 1 || month > 12 || day < 1 || day > days_of_month(year, month))
        return false;
    if (*text && (*text++ != 'T' || !read_clock(text, &clock_ms)))
        return false;
    days = (year - 1970) * INT64_C(365) + (year - 1969) / 4 - (year - 1901) / 100 + (year - 1601) / 400;
    for (int i = 1; i < month; i++)
        days += days_of_month(year, i);
    *ms = (days + day - 1) * DAY_MS + clock_ms;
    return true;
}
