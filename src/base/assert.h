/* SPDX-License-Identifier: MIT */
/*
 * Assertions. One that fails says what it is and where, and ends the process: a wrong decision would be
 * worse.
 *
 *   ASSERT(condition)             a precondition, a bound, the state after a step
 *   INVARIANT(number, condition)  the same for a numbered invariant of docs/internals
 *   ASSERT_ALWAYS(condition)      stays in release builds: for what is cheap and not on the path of a take
 *
 * The first two are compiled with WEIR_ASSERTIONS alone, which CMake sets in every build but release ones,
 * and for the explorer and the simulators in those, too. Without it the condition is not evaluated, only
 * checked by the compiler. What an assertion needs to be computed stands in `#if WEIR_ASSERTIONS`.
 */
#ifndef WEIR_BASE_ASSERT_H
#define WEIR_BASE_ASSERT_H

#ifndef WEIR_ASSERTIONS
#define WEIR_ASSERTIONS 0
#endif

/* Prints the line to standard error, and to the file that WEIR_ASSERT_FILE names, if it is set; then aborts.
 */
_Noreturn void weir_assert_failed(int invariant, const char *condition, const char *file, int line);

#define ASSERT_ALWAYS(CONDITION)                                                                             \
    ((CONDITION) ? (void)0 : weir_assert_failed(0, #CONDITION, __FILE__, __LINE__))

#if WEIR_ASSERTIONS
#define INVARIANT(NUMBER, CONDITION)                                                                         \
    ((CONDITION) ? (void)0 : weir_assert_failed((NUMBER), #CONDITION, __FILE__, __LINE__))
#else
#define INVARIANT(NUMBER, CONDITION) ((void)sizeof((CONDITION) ? 1 : 0))
#endif
#define ASSERT(CONDITION) INVARIANT(0, CONDITION)

#endif
