/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "config/hash_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/secret.h"
#include "base/text.h"

#define DIGITS 32
#define SHOWN  60 /* bytes of the path in a complaint */

static bool refuse_hash_key_file(const char *path, const char *why, struct weir_error *err)
{
    return weir_error_complain(err,
                               "hash_key_file %.*s %s: openssl rand -hex 16 > FILE; chmod 600 FILE makes one",
                               SHOWN, path, why);
}

static bool read_hex_word(const char *text, uint64_t *number)
{
    *number = 0;
    for (int i = 0; i < DIGITS / 2; i++) {
        int digit = weir_text_hex(text[i]);
        if (digit < 0)
            return false;
        *number = *number << 4 | (uint64_t)digit;
    }
    return true;
}

static bool read_hash_key_text(const char *text, size_t len, struct hash_key *key)
{
    return (len == DIGITS || (len == DIGITS + 1 && text[DIGITS] == '\n')) && read_hex_word(text, &key->low) &&
           read_hex_word(text + DIGITS / 2, &key->high);
}

bool weir_hash_key_read(const char *path, struct hash_key *key, struct weir_error *err)
{
    char text[DIGITS + 2], why[100] = "";
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* waits for no pipe */
    if (fd < 0) {
        (void)snprintf(why, sizeof why, "cannot be read (%.60s)", strerror(errno));
        return refuse_hash_key_file(path, why, err);
    }
    ssize_t len = -1;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
        (void)snprintf(why, sizeof why, "is no plain file");
    else if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        (void)snprintf(why, sizeof why, "can be read by others (mode %04o)", (unsigned)about.st_mode & 07777);
    else
        len = read(fd, text, sizeof text);
    (void)close(fd);
    bool good = len >= 0 && read_hash_key_text(text, (size_t)len, key);
    weir_secret_wipe(text, sizeof text);
    return good ||
           refuse_hash_key_file(path, why[0] ? why : "does not have 32 hex digits, and nothing else", err);
}
