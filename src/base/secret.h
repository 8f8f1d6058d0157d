/* SPDX-License-Identifier: MIT */
/*
 * Passwords are kept and compared as SHA-256 of their bytes, so that the time of a comparison tells nothing
 * about either of them.
 */
#ifndef WEIR_BASE_SECRET_H
#define WEIR_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct digest {
    unsigned char bytes[32];
};

struct digest weir_sha256(const void *bytes, size_t len);

/* Takes the same time whatever is in them. */
bool weir_digest_same(const struct digest *one, const struct digest *other);

/* Reads 64 hexadecimal digits, either case. false: something else. */
bool weir_digest_read(const char *text, size_t len, struct digest *digest);
void weir_digest_write(const struct digest *digest, char text[static 65]);

/* Overwrites a secret that is not needed any more; no compiler leaves it out. */
void weir_secret_wipe(void *bytes, size_t len);

#endif
