/* SPDX-License-Identifier: MIT */
/*
 * Slow, salted hashes of passwords, as crypt(3) makes them. Any thread.
 */
#ifndef WEIR_CONFIG_PASSWORD_HASH_H
#define WEIR_CONFIG_PASSWORD_HASH_H

#include <stdbool.h>

/* Is it a hash that crypt(3) can check, by a method that is not outdated? */
bool weir_password_is_hash(const char *text);

enum password_match { PASSWORD_WRONG, PASSWORD_RIGHT, PASSWORD_UNKNOWN /* out of memory */ };
/* Compares a password with a hash; takes some ten milliseconds and as many megabytes. */
enum password_match weir_password_match(const char *password, const char *hash);

#endif
