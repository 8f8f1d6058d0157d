/* SPDX-License-Identifier: MIT */
#ifndef WEIR_TESTS_FUZZ_MUST_H
#define WEIR_TESTS_FUZZ_MUST_H

#include <stdio.h>
#include <stdlib.h>

/* Not assert: it must stay in release builds. */
#define MUST(COND)                                                                                           \
    do {                                                                                                     \
        if (!(COND)) {                                                                                       \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #COND);                        \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

#endif
