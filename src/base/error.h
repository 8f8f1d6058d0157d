/* SPDX-License-Identifier: MIT */
/*
 * Filling a weir_error: one finished line that a program can print as it is. Every function here accepts
 * NULL for `err`. Libc only; any thread.
 */
#ifndef WEIR_BASE_ERROR_H
#define WEIR_BASE_ERROR_H

#include <stdbool.h>

#include "weir.h"

void weir_error_clear(struct weir_error *err);

/* A message that is about no text. */
void weir_error_set(struct weir_error *err, int32_t code, const char *message);

/* The same as of printf, with EINVAL: what the caller wrote is wrong. Always false, so that it can be given
 * back.
 */
__attribute__((format(printf, 2, 3))) bool weir_error_complain(struct weir_error *err, const char *format,
                                                               ...);
/* The same with another errno value: nothing is wrong with what the caller wrote. */
__attribute__((format(printf, 3, 4))) bool weir_error_complain_as(struct weir_error *err, int code,
                                                                  const char *format, ...);

/* What an errno value means, for a program with threads; gives `reason`. */
#define ERROR_REASON_MAX 80
const char *weir_error_reason(char reason[ERROR_REASON_MAX], int error);

/* "<message>: <what `error`, an errno value, means>". Always false. */
__attribute__((format(printf, 3, 4))) bool weir_error_fault(struct weir_error *err, int error,
                                                            const char *format, ...);

/*
 * "<text>: column N: <message>", or "<text>: <message>" if `column` is 0. A long text is shown in part,
 * "..." standing for the rest, so that the place stays visible and the message whole (up to 200 bytes). What
 * cannot be printed is shown as ?.
 */
void weir_error_at(struct weir_error *err, int32_t code, const char *text, size_t len, int32_t column,
                   const char *message);

#endif
