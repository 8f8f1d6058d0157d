/* SPDX-License-Identifier: MIT */
/*
 * A connection to a Redis server of this machine, for tests that ask it themselves: words are said, any
 * number of requests, then sent, then the answers heard in their order. Whatever fails ends the program.
 */
#ifndef WEIR_TESTS_TALK_H
#define WEIR_TESTS_TALK_H

#include "fleet/redis/script.h"
#include "resp/reply.h"

#define TALK_SHA_MAX 48

void talk_begin(long port);
void talk_end(void);
void talk_say(const char *const *words, size_t count);
void talk_send(void);
/* It lasts until the next one. */
const struct resp_value *talk_hear(void);
/* Loads a script, ended by its 0: the name that EVALSHA knows it by. */
void talk_load(const char *script, char sha[TALK_SHA_MAX]);

#endif
