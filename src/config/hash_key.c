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

static bool read_hash_key_text(const char *text, size_t len, struct hash_key *key)
{
    return (len == DIGITS || (len == DIGITS + 1 && text[DIGITS] == '\n')) &&
           weir_text_hex_number(text, DIGITS / 2, &key->low) &&
           weir_text_hex_number(text + DIGITS / 2, DIGITS / 2, &key->high);
}

ssize_t weir_secret_file_read(const char *path, char *bytes, size_t size, mode_t *mode)
{
    struct stat about = {0};
    ssize_t len = -1, all = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -1;
    if (fstat(fd, &about) == 0) {
        errno = EINVAL;
        while (S_ISREG(about.st_mode) && (len = read(fd, bytes + all, size - (size_t)all)) > 0)
            all += len;
    }
    int fault = errno;
    *mode = about.st_mode;
    (void)close(fd);
    errno = fault;
    return len == 0 || (size_t)all == size ? all : -1;
}

bool weir_hash_key_read(const char *path, struct hash_key *key, struct weir_error *err)
{
    char text[DIGITS + 2], why[100] = "does not have 32 hex digits, and nothing else";
    mode_t mode = 0;
    ssize_t len = weir_secret_file_read(path, text, sizeof text, &mode);
    bool open = (mode & (S_IRWXG | S_IRWXO)) != 0;
    if (len < 0 && errno == EINVAL)
        (void)snprintf(why, sizeof why, "is no plain file");
    else if (len < 0)
        (void)snprintf(why, sizeof why, "cannot be read (%.60s)", strerror(errno));
    else if (open)
        (void)snprintf(why, sizeof why, "can be read by others (mode %04o)", (unsigned)mode & 07777);
    bool good = len >= 0 && !open && read_hash_key_text(text, (size_t)len, key);
    weir_secret_wipe(text, sizeof text);
    return good || refuse_hash_key_file(path, why, err);
}
