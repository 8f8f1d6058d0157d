/* SPDX-License-Identifier: MIT */
#ifndef WEIR_CORE_STATE_H
#define WEIR_CORE_STATE_H

/* A state begins with the time of the latest promise that is outstanding (0: none) and a number that grows
 * when promises made so far cannot be taken back any more. The words of each limit's algorithm follow, at
 * limit->offset. */
enum { STATE_PROMISED, STATE_GENERATION, STATE_HEADER };

#endif
