/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE

#include "config/password_hash.h"

#include <crypt.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "config/config.h"

#define LEAST 22 /* signs of a hash behind its salt: with fewer, it is a salt alone */

bool weir_password_is_hash(const char *text)
{
    const char *last = strrchr(text, '$');
    return strlen(text) <= CONFIG_CRYPT_MAX && last && strlen(last) > LEAST &&
           crypt_checksalt(text) == CRYPT_SALT_OK;
}

static enum password_match match_with(struct crypt_data *data, const char *password, const char *hash)
{
    errno = 0;
    const char *got = crypt_r(password, hash, data);
    if (!got || got[0] == '*')
        return errno == ENOMEM ? PASSWORD_UNKNOWN : PASSWORD_WRONG;
    struct digest one = weir_sha256(got, strlen(got)), other = weir_sha256(hash, strlen(hash));
    bool same = weir_digest_same(&one, &other);
    ASSERT(same == (strcmp(got, hash) == 0));
    return same ? PASSWORD_RIGHT : PASSWORD_WRONG;
}

enum password_match weir_password_match(const char *password, const char *hash)
{
    struct crypt_data *data = calloc(1, sizeof *data);
    if (!data)
        return PASSWORD_UNKNOWN;
    enum password_match match = match_with(data, password, hash);
    weir_secret_wipe(data, sizeof *data);
    free(data);
    return match;
}
